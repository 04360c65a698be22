//! The 22 queries of TPC-H with other constants each time, from the values of clause 2.4.

use diligence_base::seams::Random;
use diligence_tpch::QUERIES;

use super::{distinct, year};

const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];

pub(super) const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];
pub(super) const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"];
pub(super) const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];

/// The syllables of a part's type.
const SIZES_OF_TYPE: [&str; 6] = ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"];
const FINISHES: [&str; 5] = ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"];
const METALS: [&str; 5] = ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"];

/// The syllables of a container.
pub(super) const SIZES_OF_CONTAINER: [&str; 5] = ["SM", "LG", "MED", "JUMBO", "WRAP"];
pub(super) const CONTAINERS: [&str; 8] = ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"];

/// The words of a part's name.
#[rustfmt::skip]
const COLOURS: [&str; 92] = [
    "almond", "antique", "aquamarine", "azure", "beige", "bisque", "black", "blanched", "blue", "blush", "brown", "burlywood",
    "burnished", "chartreuse", "chiffon", "chocolate", "coral", "cornflower", "cornsilk", "cream", "cyan", "dark", "deep", "dim",
    "dodger", "drab", "firebrick", "floral", "forest", "frosted", "gainsboro", "ghost", "goldenrod", "green", "grey", "honeydew",
    "hot", "indian", "ivory", "khaki", "lace", "lavender", "lawn", "lemon", "light", "lime", "linen", "magenta", "maroon", "medium",
    "metallic", "midnight", "mint", "misty", "moccasin", "navajo", "navy", "olive", "orange", "orchid", "pale", "papaya", "peach",
    "peru", "pink", "plum", "powder", "puff", "purple", "red", "rose", "rosy", "royal", "saddle", "salmon", "sandy", "seashell",
    "sienna", "sky", "slate", "smoke", "snow", "spring", "steel", "tan", "thistle", "tomato", "turquoise", "violet", "wheat", "white",
    "yellow",
];

/// One of the queries, numbered from 1, for data of a scale factor.
pub(super) fn query(number: usize, scale_factor: f64, random: &mut Random) -> String {
    replaced(QUERIES[number - 1], &constants(number, scale_factor, random))
}

/// What a query's constants are replaced with.
fn constants(number: usize, scale_factor: f64, random: &mut Random) -> Vec<(&'static str, String)> {
    let word = |word: &str| format!("'{word}'");
    let date = |day: String| format!("date '{day}'");
    let brand = |random: &mut Random| format!("'Brand#{}{}'", random.between(1, 5), random.between(1, 5));
    let nation = |random: &mut Random| NATIONS[random.below(NATIONS.len())];
    match number {
        1 => {
            let days = random.between(60, 120);
            vec![("interval '90' day", format!("interval '{days}' day"))]
        }
        2 => vec![
            ("p_size = 15", format!("p_size = {}", random.between(1, 50))),
            ("'%BRASS'", format!("'%{}'", random.pick(&METALS))),
            ("'EUROPE'", word(random.pick(&REGIONS))),
        ],
        3 => vec![
            ("'BUILDING'", word(random.pick(&SEGMENTS))),
            ("date '1995-03-15'", date(format!("1995-03-{:02}", random.between(1, 31)))),
        ],
        4 => vec![("date '1993-07-01'", date(month(random.between(0, 57))))],
        5 => vec![("'ASIA'", word(random.pick(&REGIONS))), ("date '1994-01-01'", date(year(random)))],
        6 => vec![
            ("date '1994-01-01'", date(year(random))),
            ("0.06", format!("0.0{}", random.between(2, 9))),
            ("< 24", format!("< {}", random.between(24, 25))),
        ],
        7 => {
            let two = distinct(random, 2, NATIONS.len());
            vec![("'FRANCE'", word(NATIONS[two[0]].0)), ("'GERMANY'", word(NATIONS[two[1]].0))]
        }
        8 => {
            let (nation, region) = nation(random);
            let kind = format!("'{} {} {}'", random.pick(&SIZES_OF_TYPE), random.pick(&FINISHES), random.pick(&METALS));
            vec![("'BRAZIL'", word(nation)), ("'AMERICA'", word(REGIONS[region])), ("'ECONOMY ANODIZED STEEL'", kind)]
        }
        9 => vec![("'%green%'", format!("'%{}%'", random.pick(&COLOURS)))],
        10 => vec![("date '1993-10-01'", date(month(random.between(1, 24))))],
        11 => vec![("'GERMANY'", word(nation(random).0)), ("0.0001000000", format!("{:.10}", 0.0001 / scale_factor))],
        12 => {
            let two = distinct(random, 2, MODES.len());
            let modes = format!("('{}', '{}')", MODES[two[0]], MODES[two[1]]);
            vec![("('MAIL', 'SHIP')", modes), ("date '1994-01-01'", date(year(random)))]
        }
        13 => {
            let first = random.pick(&["special", "pending", "unusual", "express"]);
            let second = random.pick(&["packages", "requests", "accounts", "deposits"]);
            vec![("'%special%requests%'", format!("'%{first}%{second}%'"))]
        }
        14 => vec![("date '1995-09-01'", date(month(random.between(0, 59))))],
        15 => vec![("date '1996-01-01'", date(month(random.between(0, 57))))],
        16 => {
            let sizes =
                distinct(random, 8, 50).iter().map(|size| (size + 1).to_string()).collect::<Vec<_>>().join(", ");
            let kind = format!("'{} {}%'", random.pick(&SIZES_OF_TYPE), random.pick(&FINISHES));
            vec![
                ("'Brand#45'", brand(random)),
                ("'MEDIUM POLISHED%'", kind),
                ("(49, 14, 23, 45, 19, 3, 36, 9)", format!("({sizes})")),
            ]
        }
        17 => {
            let container = format!("'{} {}'", random.pick(&SIZES_OF_CONTAINER), random.pick(&CONTAINERS));
            vec![("'Brand#23'", brand(random)), ("'MED BOX'", container)]
        }
        18 => vec![("> 300", format!("> {}", random.between(312, 315)))],
        19 => {
            let quantity = |low: &'static str, random: &mut Random, from: u64| {
                let number = random.between(from, from + if from == 1 { 9 } else { 10 });
                (low, format!("l_quantity >= {number} and l_quantity <= {number} + 10"))
            };
            vec![
                ("'Brand#12'", brand(random)),
                ("'Brand#23'", brand(random)),
                ("'Brand#34'", brand(random)),
                quantity("l_quantity >= 1 and l_quantity <= 1 + 10", random, 1),
                quantity("l_quantity >= 10 and l_quantity <= 10 + 10", random, 10),
                quantity("l_quantity >= 20 and l_quantity <= 20 + 10", random, 20),
            ]
        }
        20 => vec![
            ("'forest%'", format!("'{}%'", random.pick(&COLOURS))),
            ("date '1994-01-01'", date(year(random))),
            ("'CANADA'", word(nation(random).0)),
        ],
        21 => vec![("'SAUDI ARABIA'", word(nation(random).0))],
        _ => {
            let codes =
                distinct(random, 7, 25).iter().map(|code| format!("'{}'", code + 10)).collect::<Vec<_>>().join(", ");
            vec![("('13', '31', '23', '29', '30', '18', '17')", format!("({codes})"))]
        }
    }
}

/// Puts all constants in at once: one may be what another one replaces.
fn replaced(query: &str, constants: &[(&str, String)]) -> String {
    let mut text = query.to_owned();
    for (position, (written, _)) in constants.iter().enumerate() {
        debug_assert!(text.contains(written), "{written} is not in {query}");
        text = text.replace(written, &format!("\u{1}{position}\u{2}"));
    }
    for (position, (_, constant)) in constants.iter().enumerate() {
        text = text.replace(&format!("\u{1}{position}\u{2}"), constant);
    }
    text
}

/// The first day of a month, counted from January 1993.
fn month(number: u64) -> String {
    format!("{}-{:02}-01", 1993 + number / 12, 1 + number % 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_has_its_constants_replaced() {
        let mut random = Random::new(1);
        for number in 1..=22 {
            // A constant that is not there fails while it is replaced.
            let texts = (0..20).map(|_| query(number, 1.0, &mut random)).collect::<std::collections::HashSet<_>>();
            assert!(texts.len() >= 4, "query {number}");
            assert!(texts.iter().all(|text| !text.contains(['\u{1}', '\u{2}'])), "query {number}");
        }
    }

    #[test]
    fn constants_may_change_places() {
        let constants = [("'FRANCE'", "'GERMANY'".to_owned()), ("'GERMANY'", "'FRANCE'".to_owned())];
        assert_eq!(replaced("a = 'FRANCE' or a = 'GERMANY'", &constants), "a = 'GERMANY' or a = 'FRANCE'");
    }
}
