//! DuckDB's functions of dates and times that PostgreSQL does not have (DuckDB's manual, "Date Part Functions").

use diligence_base::Result;

use super::calendar::{
    DAY, Day, HOUR, JULIAN_OFFSET, MINUTE, SECOND, checked_date, checked_timestamp, is_infinite, iso_weekday, midnight,
    split, timestamp_of, weekday,
};
use super::catalog::Catalog;
use super::columns::{Date, Interval, Timestamp, kernel};
use super::errors::{datetime_overflow, invalid_argument};

/// The start of a unit that a moment is in, as a number of such units. Fails with 22023 for an unknown unit.
fn unit_number(unit: &str, microseconds: i64) -> Result<i64> {
    let day = split(microseconds).0;
    let months = || {
        let parts = Day::of(day);
        parts.year * 12 + parts.month - 1
    };
    Ok(match unit.trim_end_matches('s') {
        // The hundreds and thousands of the number, whereas the century of `date_part` begins a year later.
        "millennium" | "millennia" => months().div_euclid(12) / 1000,
        "century" | "centurie" => months().div_euclid(12) / 100,
        "decade" => months().div_euclid(120),
        "year" => months().div_euclid(12),
        "quarter" => months().div_euclid(3),
        "month" => months(),
        "isoyear" => Day::of(day).iso_week().0,
        "day" => microseconds.div_euclid(DAY),
        "hour" => microseconds.div_euclid(HOUR),
        "minute" => microseconds.div_euclid(MINUTE),
        "second" => microseconds.div_euclid(SECOND),
        "millisecond" => microseconds.div_euclid(1000),
        "microsecond" => microseconds,
        _ => return Err(invalid_argument(format!("unit \"{unit}\" not recognized"))),
    })
}

/// How many whole units are between two moments. Fails with 22023 for an unknown unit.
fn whole_units(unit: &str, from: i64, to: i64) -> Result<i64> {
    if from > to {
        return Ok(-whole_units(unit, to, from)?);
    }
    let months = match unit.trim_end_matches('s') {
        "month" => 1,
        "quarter" => 3,
        "year" => 12,
        "decade" => 120,
        "century" | "centurie" => 1200,
        "millennium" | "millennia" => 12_000,
        unit => {
            let apart = to.saturating_sub(from);
            return Ok(match unit {
                "week" => apart / (7 * DAY),
                "day" => apart / DAY,
                "hour" => apart / HOUR,
                "minute" => apart / MINUTE,
                "second" => apart / SECOND,
                "millisecond" => apart / 1000,
                "microsecond" => apart,
                _ => return Err(invalid_argument(format!("unit \"{unit}\" not recognized"))),
            });
        }
    };
    let ((from_days, from_micros), (to_days, to_micros)) = (split(from), split(to));
    let (first, last) = (Day::of(from_days), Day::of(to_days));
    // The last day of a month is as good as a day that it does not have.
    let first_day = if last.day == last.month_length() { first.day.min(last.day) } else { first.day };
    let apart = (last.year - first.year) * 12 + last.month - first.month;
    let is_short = (last.day, to_micros) < (first_day, from_micros);
    Ok((apart - i64::from(is_short)) / months)
}

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    let between = kernel!(try |unit: &str, a: Timestamp, b: Timestamp| {
        let unit = unit.to_lowercase();
        let (a, b) = (a.0, b.0);
        let apart = match unit.as_str() {
            // Weeks have no borders: so many times seven days.
            "week" | "weeks" => (split(b).0 - split(a).0) / 7,
            unit => unit_number(unit, b)?.saturating_sub(unit_number(unit, a)?),
        };
        Ok(Some(apart).filter(|_| !is_infinite(a) && !is_infinite(b)))
    });
    for signature in
        ["date_diff(text, timestamp, timestamp) -> bigint", "datediff(text, timestamp, timestamp) -> bigint"]
    {
        catalog.add(signature, between.clone());
    }
    let whole = kernel!(try |unit: &str, a: Timestamp, b: Timestamp| {
        let count = whole_units(&unit.to_lowercase(), a.0, b.0)?;
        Ok(Some(count).filter(|_| !is_infinite(a.0) && !is_infinite(b.0)))
    });
    for signature in ["date_sub(text, timestamp, timestamp) -> bigint", "datesub(text, timestamp, timestamp) -> bigint"]
    {
        catalog.add(signature, whole.clone());
    }
    catalog.add(
        "julian(timestamp) -> double precision",
        kernel!(|a: Timestamp| {
            let (day, micros) = split(a.0);
            let julian = (day + JULIAN_OFFSET) as f64 + micros as f64 / DAY as f64;
            Some(julian).filter(|_| !is_infinite(a.0))
        }),
    );
    catalog.add(
        "last_day(date) -> date",
        kernel!(try |a: Date| {
            let day = Day::of(a.0.into());
            checked_date(Day { day: day.month_length(), ..day }.days()).map(Date)
        }),
    );
    catalog.add("epoch(timestamp) -> double precision", kernel!(|a: Timestamp| a.0 as f64 / 1_000_000.0));
    catalog.add("epoch_ms(timestamp) -> bigint", kernel!(|a: Timestamp| a.0.div_euclid(1000)));
    catalog.add("epoch_us(timestamp) -> bigint", kernel!(|a: Timestamp| a.0));
    catalog.add("epoch_ns(timestamp) -> bigint", kernel!(|a: Timestamp| a.0.checked_mul(1000)));
    parts(catalog);
    intervals(catalog);
    buckets(catalog);
}

/// Parts of a moment as functions of their names.
fn parts(catalog: &mut Catalog) {
    fn add(catalog: &mut Catalog, signatures: &[&'static str], body: super::Body) {
        signatures.iter().for_each(|signature| {
            catalog.add(signature, body.clone());
        });
    }
    macro_rules! part {
        ($($signature:literal),+ => |$day:ident, $micros:ident| $value:expr) => {
            add(catalog, &[$($signature),+], kernel!(|a: Timestamp| {
                let ($day, $micros) = split(a.0);
                let _ = ($day, $micros);
                Some($value).filter(|_| !is_infinite(a.0))
            }));
        };
    }
    part!("year(timestamp) -> bigint" => |day, micros| Day::of(day).shown_year());
    part!("month(timestamp) -> bigint" => |day, micros| Day::of(day).month);
    part!("day(timestamp) -> bigint", "dayofmonth(timestamp) -> bigint" => |day, micros| Day::of(day).day);
    part!("quarter(timestamp) -> bigint" => |day, micros| (Day::of(day).month + 2) / 3);
    part!("week(timestamp) -> bigint", "weekofyear(timestamp) -> bigint" => |day, micros| Day::of(day).iso_week().1);
    part!("isoyear(timestamp) -> bigint" => |day, micros| Day::of(day).iso_week().0);
    part!("yearweek(timestamp) -> bigint" => |day, micros| {
        let (year, week) = Day::of(day).iso_week();
        year * 100 + week
    });
    part!("era(timestamp) -> bigint" => |day, micros| i64::from(Day::of(day).year > 0));
    part!("nanosecond(timestamp) -> bigint" => |day, micros| micros % MINUTE * 1000);
    part!("dayofweek(timestamp) -> bigint", "weekday(timestamp) -> bigint" => |day, micros| weekday(day));
    part!("isodow(timestamp) -> bigint" => |day, micros| iso_weekday(day));
    part!("dayofyear(timestamp) -> bigint" => |day, micros| Day::of(day).day_of_year());
    part!("decade(timestamp) -> bigint" => |day, micros| Day::of(day).year.div_euclid(10));
    part!("century(timestamp) -> bigint" => |day, micros| (Day::of(day).year + 99).div_euclid(100));
    part!("millennium(timestamp) -> bigint" => |day, micros| (Day::of(day).year + 999).div_euclid(1000));
    part!("hour(timestamp) -> bigint" => |day, micros| micros / HOUR);
    part!("minute(timestamp) -> bigint" => |day, micros| micros % HOUR / MINUTE);
    part!("second(timestamp) -> bigint" => |day, micros| micros % MINUTE / SECOND);
    part!("millisecond(timestamp) -> bigint" => |day, micros| micros % MINUTE / 1000);
    part!("microsecond(timestamp) -> bigint" => |day, micros| micros % MINUTE);
}

/// Intervals of so many units.
fn intervals(catalog: &mut Catalog) {
    macro_rules! unit {
        ($($signature:literal => |$count:ident| ($months:expr, $days:expr, $micros:expr));+ $(;)?) => {$(
            catalog.add($signature, kernel!(try |$count: i64| interval($months, $days, $micros)));
        )+};
    }
    unit! {
        "to_millennia(bigint) -> interval" => |n| (n.checked_mul(12_000), Some(0), Some(0));
        "to_centuries(bigint) -> interval" => |n| (n.checked_mul(1200), Some(0), Some(0));
        "to_decades(bigint) -> interval" => |n| (n.checked_mul(120), Some(0), Some(0));
        "to_years(bigint) -> interval" => |n| (n.checked_mul(12), Some(0), Some(0));
        "to_quarters(bigint) -> interval" => |n| (n.checked_mul(3), Some(0), Some(0));
        "to_months(bigint) -> interval" => |n| (Some(n), Some(0), Some(0));
        "to_weeks(bigint) -> interval" => |n| (Some(0), n.checked_mul(7), Some(0));
        "to_days(bigint) -> interval" => |n| (Some(0), Some(n), Some(0));
        "to_hours(bigint) -> interval" => |n| (Some(0), Some(0), n.checked_mul(HOUR));
        "to_minutes(bigint) -> interval" => |n| (Some(0), Some(0), n.checked_mul(MINUTE));
        "to_milliseconds(bigint) -> interval" => |n| (Some(0), Some(0), n.checked_mul(1000));
        "to_microseconds(bigint) -> interval" => |n| (Some(0), Some(0), Some(n));
    }
    catalog.add(
        "to_seconds(double precision) -> interval",
        kernel!(try |n: f64| {
            let micros = (n * SECOND as f64).round();
            interval(Some(0), Some(0), Some(micros as i64).filter(|_| micros.abs() < i64::MAX as f64))
        }),
    );
}

/// Fails with 22008 if a part has no room.
fn interval(months: Option<i64>, days: Option<i64>, micros: Option<i64>) -> Result<Interval> {
    let made = || {
        let (months, days) = (i32::try_from(months?).ok()?, i32::try_from(days?).ok()?);
        Some(Interval::new(months, days, micros?.checked_mul(1000)?))
    };
    made().ok_or_else(|| datetime_overflow("interval"))
}

/// `time_bucket(width, moment, origin)`: the start of the stretch of a width that a moment is in.
fn buckets(catalog: &mut Catalog) {
    catalog.add(
        "time_bucket(interval, timestamp) -> timestamp",
        kernel!(try |width: Interval, at: Timestamp| bucket(width, at.0, None).map(Timestamp)),
    );
    catalog.add(
        "time_bucket(interval, timestamp, timestamp) -> timestamp",
        kernel!(try |width: Interval, at: Timestamp, origin: Timestamp| {
            bucket(width, at.0, Some(origin.0)).map(Timestamp)
        }),
    );
    catalog.add(
        "time_bucket(interval, date) -> date",
        kernel!(try |width: Interval, at: Date| {
            let start = bucket(width, midnight(at.0)?, None)?;
            if is_infinite(start) { Ok(at) } else { checked_date(split(start).0).map(Date) }
        }),
    );
}

/// Without an origin, buckets of months begin with January 2000, others with its first Monday. Fails with 22023 for a
/// width that is not positive, or of months and days.
fn bucket(width: Interval, at: i64, origin: Option<i64>) -> Result<i64> {
    const YEAR_2000: i64 = 10_957;
    if is_infinite(at) {
        return Ok(at);
    }
    let micros = i64::from(width.days).checked_mul(DAY).and_then(|days| days.checked_add(width.nanoseconds / 1000));
    let micros = micros.ok_or_else(|| datetime_overflow("interval"))?;
    match (width.months, micros) {
        (0, 1..) => {
            let origin = origin.unwrap_or((YEAR_2000 + 2) * DAY);
            let start = at.checked_sub(origin).map(|since| since.div_euclid(micros).saturating_mul(micros));
            let start = start.and_then(|start| start.checked_add(origin));
            start.ok_or_else(|| datetime_overflow("timestamp")).and_then(checked_timestamp)
        }
        (1.., 0) => {
            let origin = Day::of(split(origin.unwrap_or(YEAR_2000 * DAY)).0);
            let months = |day: &Day| day.year * 12 + day.month - 1;
            let (day, width) = (Day::of(split(at).0), i64::from(width.months));
            let start = (months(&day) - months(&origin)).div_euclid(width) * width + months(&origin);
            let first = Day { year: start.div_euclid(12), month: start.rem_euclid(12) + 1, day: 1 };
            timestamp_of(first.days(), 0)
        }
        (0, _) | (..0, 0) => Err(invalid_argument("the width of a bucket must be greater than 0")),
        _ => Err(invalid_argument("the width of a bucket has months, or days and hours, and not both")),
    }
}
