//! DuckDB's functions of dates and times that PostgreSQL does not have (DuckDB's manual, "Date Part Functions").

use diligence_base::Result;

use super::calendar::{DAY, Day, HOUR, MINUTE, SECOND, checked_date, is_infinite, split};
use super::catalog::Catalog;
use super::columns::{Date, Timestamp, kernel};
use super::errors::invalid_argument;

/// The start of a unit that a moment is in, as a number of such units. Fails with 22023 for an unknown unit.
fn unit_number(unit: &str, microseconds: i64) -> Result<i64> {
    let day = split(microseconds).0;
    let months = || {
        let parts = Day::of(day);
        parts.year * 12 + parts.month - 1
    };
    Ok(match unit.trim_end_matches('s') {
        "millennium" | "millennia" => (months().div_euclid(12) - 1).div_euclid(1000),
        "century" | "centurie" => (months().div_euclid(12) - 1).div_euclid(100),
        "decade" => months().div_euclid(120),
        "year" => months().div_euclid(12),
        "quarter" => months().div_euclid(3),
        "month" => months(),
        "week" => (microseconds.div_euclid(DAY) + 3).div_euclid(7),
        "day" => microseconds.div_euclid(DAY),
        "hour" => microseconds.div_euclid(HOUR),
        "minute" => microseconds.div_euclid(MINUTE),
        "second" => microseconds.div_euclid(SECOND),
        "millisecond" => microseconds.div_euclid(1000),
        "microsecond" => microseconds,
        _ => return Err(invalid_argument(format!("unit \"{unit}\" not recognized"))),
    })
}

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    let between = kernel!(try |unit: &str, a: Timestamp, b: Timestamp| {
        let unit = unit.to_lowercase();
        let (a, b) = (a.0, b.0);
        let apart = unit_number(&unit, b)?.saturating_sub(unit_number(&unit, a)?);
        Ok(Some(apart).filter(|_| !is_infinite(a) && !is_infinite(b)))
    });
    for signature in
        ["date_diff(text, timestamp, timestamp) -> bigint", "datediff(text, timestamp, timestamp) -> bigint"]
    {
        catalog.add(signature, between.clone());
    }
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
}
