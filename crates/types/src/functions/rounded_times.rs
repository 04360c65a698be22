//! What types of times with a modifier, such as `timestamp(3)` and `interval hour`, do to a value.

use arrow::datatypes::IntervalMonthDayNano;
use diligence_base::Result;

use super::calendar::is_infinite;
use super::catalog::Catalog;
use super::columns::{Interval, Time, Timestamp, kernel};
use super::errors::datetime_overflow;
use crate::text::ZonedTime;

/// Microseconds from 1970 to 2000.
const MICROSECONDS_TO_2000: i64 = 946_684_800_000_000;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    let moments = kernel!(try |a: Timestamp, digits: i32| rounded_moment(a, digits));
    catalog.add_all(
        &["seconds_digits(timestamp, integer) -> timestamp", "seconds_digits(timestamptz, integer) -> timestamptz"],
        moments,
    );
    catalog.add("seconds_digits(time, integer) -> time", kernel!(|a: Time, digits: i32| Time(rounded(a.0, digits))));
    catalog.add(
        "seconds_digits(timetz, integer) -> timetz",
        kernel!(try |a: &str, digits: i32| {
            let time = ZonedTime::held(a)?;
            Ok(ZonedTime { time: rounded(time.time, digits), ..time }.text())
        }),
    );
    catalog
        .add("interval_up_to(interval, text) -> interval", kernel!(|a: Interval, field: &str| up_to_field(a, field)));
    catalog.add(
        "seconds_digits(interval, integer) -> interval",
        kernel!(|a: Interval, digits: i32| {
            let nanoseconds = rounded(a.nanoseconds / 1000, digits).saturating_mul(1000);
            IntervalMonthDayNano { nanoseconds, ..a }
        }),
    );
}

/// Microseconds rounded to so many digits behind the seconds' point, half away from zero.
fn rounded(microseconds: i64, digits: i32) -> i64 {
    let scale = 10_i64.pow(6 - digits.clamp(0, 6).unsigned_abs());
    let whole = microseconds.unsigned_abs().saturating_add(scale.unsigned_abs() / 2) / scale.unsigned_abs();
    i64::try_from(whole).unwrap_or(i64::MAX).saturating_mul(scale) * microseconds.signum()
}

/// A moment rounded as PostgreSQL does, which counts from 2000. Fails with 22008 if the last one does not fit.
fn rounded_moment(moment: Timestamp, digits: i32) -> Result<Timestamp> {
    if is_infinite(moment.0) {
        return Ok(moment);
    }
    let since = moment.0.checked_sub(MICROSECONDS_TO_2000);
    let rounded = since.and_then(|since| rounded(since, digits).checked_add(MICROSECONDS_TO_2000));
    rounded.map(Timestamp).ok_or_else(|| datetime_overflow("timestamp"))
}

/// An interval without what is smaller than a field: what `interval hour` does to a value.
fn up_to_field(whole: Interval, last: &str) -> Interval {
    const MINUTE: i64 = 60_000_000_000;
    let IntervalMonthDayNano { months, days, nanoseconds } = whole;
    let (months, days, nanoseconds) = match last {
        "year" => (months - months % 12, 0, 0),
        "month" => (months, 0, 0),
        "day" => (months, days, 0),
        "hour" => (months, days, nanoseconds - nanoseconds % (60 * MINUTE)),
        "minute" => (months, days, nanoseconds - nanoseconds % MINUTE),
        _ => (months, days, nanoseconds),
    };
    IntervalMonthDayNano { months, days, nanoseconds }
}
