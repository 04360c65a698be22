//! What PostgreSQL's catalog says of types beside their names, and is the same in every database: casts, classes of
//! operators, the types of ranges; and abbreviations of time zones. Numbers are PostgreSQL's; those of functions are of
//! none that is listed.

use diligence_catalog::SessionSnapshot;

use super::rows::Cell;

/// The number of the first cast.
const CASTS_FROM: i64 = 10_000;

/// Casts between types that there are: from, to, function, context and method, as in `pg_cast`.
const CASTS: &str = "20 21 714 a f; 20 23 480 a f; 20 700 652 i f; 20 701 482 i f; 20 1700 1781 i f; 21 20 754 i f; \
    21 23 313 i f; 21 700 236 i f; 21 701 235 i f; 21 1700 1782 i f; 23 20 481 i f; 23 21 314 a f; \
    23 700 318 i f; 23 701 316 i f; 23 1700 1740 i f; 700 20 653 a f; 700 21 238 a f; 700 23 319 a f; \
    700 701 311 i f; 700 1700 1742 a f; 701 20 483 a f; 701 21 237 a f; 701 23 317 a f; 701 700 312 a f; \
    701 1700 1743 a f; 1700 20 1779 a f; 1700 21 1783 a f; 1700 23 1744 a f; 1700 700 1745 i f; \
    1700 701 1746 i f; 23 16 2557 e f; 16 23 2558 e f; 20 26 1287 i f; 21 26 313 i f; 23 26 0 i b; \
    26 20 1288 a f; 26 23 0 a b; 26 24 0 i b; 24 26 0 i b; 20 24 1287 i f; 21 24 313 i f; 23 24 0 i b; \
    24 20 1288 a f; 24 23 0 a b; 24 2202 0 i b; 2202 24 0 i b; 26 2202 0 i b; 2202 26 0 i b; 20 2202 1287 i f; \
    21 2202 313 i f; 23 2202 0 i b; 2202 20 1288 a f; 2202 23 0 a b; 26 2205 0 i b; 2205 26 0 i b; \
    20 2205 1287 i f; 21 2205 313 i f; 23 2205 0 i b; 2205 20 1288 a f; 2205 23 0 a b; 26 2206 0 i b; \
    2206 26 0 i b; 20 2206 1287 i f; 21 2206 313 i f; 23 2206 0 i b; 2206 20 1288 a f; 2206 23 0 a b; \
    26 3734 0 i b; 3734 26 0 i b; 20 3734 1287 i f; 21 3734 313 i f; 23 3734 0 i b; 3734 20 1288 a f; \
    3734 23 0 a b; 26 3769 0 i b; 3769 26 0 i b; 20 3769 1287 i f; 21 3769 313 i f; 23 3769 0 i b; \
    3769 20 1288 a f; 3769 23 0 a b; 25 2205 1079 i f; 1043 2205 1079 i f; 25 1042 0 i b; 25 1043 0 i b; \
    1042 25 401 i f; 1042 1043 401 i f; 1043 25 0 i b; 1043 1042 0 i b; 19 25 406 i f; 19 1042 408 a f; \
    19 1043 1401 a f; 25 19 407 i f; 1042 19 409 i f; 1043 19 1400 i f; 1082 1114 2024 i f; 1082 1184 1174 i f; \
    1083 1186 1370 i f; 1083 1266 2047 i f; 1114 1082 2029 a f; 1114 1083 1316 a f; 1114 1184 2028 i f; \
    1184 1082 1178 a f; 1184 1083 2019 a f; 1184 1114 2027 a f; 1184 1266 1388 a f; 1186 1083 1419 a f; \
    1266 1083 2046 a f; 829 774 4123 i f; 774 829 4124 i f; 650 869 0 i b; 869 650 1715 a f; 1560 1562 0 i b; \
    1562 1560 0 i b; 20 1560 2075 e f; 23 1560 1683 e f; 1560 20 2076 e f; 1560 23 1684 e f; 650 25 730 a f; \
    869 25 730 a f; 16 25 2971 a f; 650 1043 730 a f; 869 1043 730 a f; 16 1043 2971 a f; 650 1042 730 a f; \
    869 1042 730 a f; 16 1042 2971 a f; 1042 1042 668 i f; 1043 1043 669 i f; 1083 1083 1968 i f; \
    1114 1114 1961 i f; 1184 1184 1967 i f; 1186 1186 1200 i f; 1266 1266 1969 i f; 1560 1560 1685 i f; \
    1562 1562 1687 i f; 1700 1700 1703 i f; 114 3802 0 a i; 3802 114 0 a i; 3802 16 3556 e f; \
    3802 1700 3449 e f; 3802 21 3450 e f; 3802 23 3451 e f; 3802 20 3452 e f; 3802 700 3453 e f; \
    3802 701 2580 e f; 3904 4451 4281 e f; 3926 4536 4296 e f; 3906 4532 4284 e f; 3912 4535 4293 e f; \
    3908 4533 4287 e f; 3910 4534 4290 e f";

/// Abbreviations of time zones: name, seconds east of Greenwich, whether it is of summer.
const ABBREVIATIONS: &str = "\
    ACDT 37800 t; ACSST 37800 t; ACST 34200 f; ACT -18000 f; ACWST 31500 f; ADT -10800 t; AEDT 39600 t; \
    AESST 39600 t; AEST 36000 f; AFT 16200 f; AKDT -28800 t; AKST -32400 f; ALMST 25200 t; ALMT 21600 f; \
    AMST 14400 f; AMT -14400 f; ANAST 43200 f; ANAT 43200 f; ARST -10800 f; ART -10800 f; AST -14400 f; \
    AWSST 32400 t; AWST 28800 f; AZOST 0 t; AZOT -3600 f; AZST 14400 f; AZT 14400 f; BDST 7200 t; BDT 21600 f; \
    BNT 28800 f; BORT 28800 f; BOT -14400 f; BRA -10800 f; BRST -7200 t; BRT -10800 f; BST 3600 t; BTT 21600 f; \
    CADT 37800 t; CAST 34200 f; CCT 28800 f; CDT -18000 t; CEST 7200 t; CET 3600 f; CETDST 7200 t; \
    CHADT 49500 t; CHAST 45900 f; CHUT 36000 f; CKT -36000 f; CLST -10800 t; CLT -10800 t; COT -18000 f; \
    CST -21600 f; CXT 25200 f; DAVT 25200 f; DDUT 36000 f; EASST -18000 t; EAST -18000 t; EAT 10800 f; \
    EDT -14400 t; EEST 10800 t; EET 7200 f; EETDST 10800 t; EGST 0 t; EGT -3600 f; EST -18000 f; FET 10800 f; \
    FJST 46800 t; FJT 43200 f; FKST -10800 f; FKT -10800 f; FNST -3600 t; FNT -7200 f; GALT -21600 f; \
    GAMT -32400 f; GEST 14400 f; GET 14400 f; GFT -10800 f; GILT 43200 f; GMT 0 f; GYT -14400 f; HKT 28800 f; \
    HST -36000 f; ICT 25200 f; IDT 10800 t; IOT 21600 f; IRKST 28800 f; IRKT 28800 f; IRT 12600 f; IST 7200 f; \
    JAYT 32400 f; JST 32400 f; KDT 36000 t; KGST 21600 t; KGT 21600 f; KOST 39600 f; KRAST 25200 f; \
    KRAT 25200 f; KST 32400 f; LHDT 39600 t; LHST 37800 f; LIGT 36000 f; LINT 50400 f; LKT 19800 f; \
    MAGST 39600 f; MAGT 39600 f; MART -34200 f; MAWT 18000 f; MDT -21600 t; MEST 7200 t; MESZ 7200 t; \
    MET 3600 f; METDST 7200 t; MEZ 3600 f; MHT 43200 f; MMT 23400 f; MPT 36000 f; MSD 14400 t; MSK 10800 f; \
    MST -25200 f; MUST 18000 t; MUT 14400 f; MVT 18000 f; MYT 28800 f; NDT -9000 t; NFT -12600 f; \
    NOVST 25200 f; NOVT 25200 f; NPT 20700 f; NST -12600 f; NUT -39600 f; NZDT 46800 t; NZST 43200 f; \
    NZT 43200 f; OMSST 21600 f; OMST 21600 f; PDT -25200 t; PET -18000 f; PETST 43200 f; PETT 43200 f; \
    PGT 36000 f; PHT 28800 f; PKST 21600 t; PKT 18000 f; PMDT -7200 t; PMST -10800 f; PONT 39600 f; \
    PST -28800 f; PWT 32400 f; PYST -10800 t; PYT -10800 f; RET 14400 f; SADT 37800 t; SAST 7200 f; \
    SCT 14400 f; SGT 28800 f; TAHT -36000 f; TFT 18000 f; TJT 18000 f; TKT 46800 f; TMT 18000 f; TOT 46800 f; \
    TRUT 36000 f; TVT 43200 f; UCT 0 f; ULAST 32400 t; ULAT 28800 f; UT 0 f; UTC 0 f; UYST -7200 t; \
    UYT -10800 f; UZST 21600 t; UZT 18000 f; VET -14400 f; VLAST 36000 f; VLAT 36000 f; VOLT 10800 f; \
    VUT 39600 f; WADT 28800 t; WAKT 43200 f; WAST 25200 f; WAT 3600 f; WDT 32400 t; WET 0 f; WETDST 3600 t; \
    WFT 43200 f; WGST -7200 t; WGT -10800 f; XJT 21600 f; YAKST 32400 f; YAKT 32400 f; YAPT 36000 f; \
    YEKST 21600 t; YEKT 18000 f; Z 0 f; ZULU 0 f";

/// Ranges: type, type of the bounds, multirange, class of operators, functions.
#[rustfmt::skip]
const RANGES: [(i64, i64, i64, i64, &str, &str); 6] = [
    (3904, 23, 4451, 1978, "int4range_canonical", "int4range_subdiff"),
    (3906, 1700, 4532, 3125, "-", "numrange_subdiff"),
    (3908, 1114, 4533, 3128, "-", "tsrange_subdiff"),
    (3910, 1184, 4534, 3127, "-", "tstzrange_subdiff"),
    (3912, 1082, 4535, 3122, "daterange_canonical", "daterange_subdiff"),
    (3926, 20, 4536, 3124, "int8range_canonical", "int8range_subdiff"),
];

/// The columns of `pg_cast`.
pub(super) const CAST: &str = "oid:p castsource:p casttarget:p castfunc:p castcontext:c castmethod:c";

pub(super) fn casts(_: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(place, cast): (usize, &str)| {
        let part = |part: &str| part.parse().map_or_else(|_| Cell::Text(part.to_owned()), Cell::Number);
        let number = Cell::Number(CASTS_FROM + place as i64);
        std::iter::once(number).chain(cast.split_whitespace().map(part)).collect()
    };
    CASTS.split(';').enumerate().map(row).collect()
}

/// The columns of `pg_timezone_abbrevs`.
pub(super) const ABBREVIATION: &str = "abbrev utc_offset:v is_dst:b";

pub(super) fn abbreviations(_: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |one: &str| {
        let mut parts = one.split_whitespace();
        let name = parts.next().unwrap_or_default();
        let offset = parts.next().and_then(|offset| offset.parse().ok()).unwrap_or_default();
        vec![name.into(), Cell::Number(offset), (parts.next() == Some("t")).into()]
    };
    ABBREVIATIONS.split(';').map(row).collect()
}

/// The columns of `pg_range`.
pub(super) const RANGE: &str = "rngtypid:p rngsubtype:p rngmultitypid:p rngcollation:p rngsubopc:p rngcanonical \
    rngsubdiff";

pub(super) fn ranges(_: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(oid, bound, multirange, class, canonical, difference): (i64, i64, i64, i64, &str, &str)| {
        let numbers = [oid, bound, multirange, 0, class].map(Cell::Number);
        numbers.into_iter().chain([canonical.into(), difference.into()]).collect()
    };
    RANGES.map(row).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_have_all_of_their_parts() {
        for cast in CASTS.split(';') {
            let parts = cast.split_whitespace().collect::<Vec<_>>();
            let [from, to, function, context, method] = parts.as_slice() else { panic!("{cast}") };
            assert!([from, to, function].iter().all(|number| number.parse::<u32>().is_ok()), "{cast}");
            assert!("aei".contains(context) && "bfi".contains(method), "{cast}");
        }
    }
}
