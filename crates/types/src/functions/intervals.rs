//! Arithmetic of dates, times, timestamps and intervals (manual, table 9.32).
//!
//! Intervals have months, days and microseconds, which do not become one another except where PostgreSQL lets fractions
//! spill: of months into days (30 to a month), of days into time.

use arrow::datatypes::IntervalMonthDayNano;
use diligence_base::Result;

use super::calendar::{
    DAY, Day, HOUR, checked_date, checked_timestamp, is_infinite, is_infinite_date, midnight, split, timestamp_of,
};
use super::catalog::Catalog;
use super::columns::{Date, Interval, Time, Timestamp, kernel};
use super::decimal::division_by_zero;
use super::errors::{datetime_overflow, value_error};
use super::zones::Zones;
use crate::text::Zone;

/// Days of a month where a fraction of it becomes days.
const MONTH_DAYS: f64 = 30.0;
const DAY_SECONDS: f64 = 86_400.0;

/// An interval of months, days and microseconds. Fails with 22008 if its time is beyond what is held.
pub(super) fn interval(months: i64, days: i64, microseconds: i64) -> Result<IntervalMonthDayNano> {
    let out_of_range = || datetime_overflow("interval");
    Ok(IntervalMonthDayNano {
        months: i32::try_from(months).map_err(|_| out_of_range())?,
        days: i32::try_from(days).map_err(|_| out_of_range())?,
        nanoseconds: microseconds.checked_mul(1000).ok_or_else(out_of_range)?,
    })
}

/// The microseconds of an interval's time.
pub(super) fn time_of(interval: IntervalMonthDayNano) -> i64 {
    interval.nanoseconds / 1000
}

/// A wall time and an interval: months first, then days, then time. Fails with 22008 beyond the range.
pub(super) fn plus(timestamp: i64, interval: IntervalMonthDayNano) -> Result<i64> {
    if is_infinite(timestamp) {
        return Ok(timestamp);
    }
    let timestamp = plus_days(timestamp, interval)?;
    checked_timestamp(timestamp.checked_add(time_of(interval)).ok_or_else(|| datetime_overflow("timestamp"))?)
}

fn plus_days(timestamp: i64, interval: IntervalMonthDayNano) -> Result<i64> {
    if interval.months == 0 && interval.days == 0 {
        return Ok(timestamp);
    }
    let (mut days, time) = split(timestamp);
    if interval.months != 0 {
        days = Day::of(days).plus_months(interval.months.into()).days();
    }
    timestamp_of(days + i64::from(interval.days), time)
}

/// An instant and an interval: months and days on the zone's wall, time by the clock. Fails with 22008 beyond the
/// range.
pub(super) fn plus_in_zone(instant: i64, interval: IntervalMonthDayNano, zone: Zone) -> Result<i64> {
    if is_infinite(instant) {
        return Ok(instant);
    }
    let out_of_range = || datetime_overflow("timestamp");
    let instant = match interval.months == 0 && interval.days == 0 {
        true => instant,
        false => {
            let wall = zone.to_local(instant)?;
            zone.to_instant(plus_days(wall, interval)?)?
        }
    };
    checked_timestamp(instant.checked_add(time_of(interval)).ok_or_else(out_of_range)?)
}

/// The interval backwards. Fails with 22008 if it cannot be held.
pub(super) fn negated(interval: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let out_of_range = || datetime_overflow("interval");
    Ok(IntervalMonthDayNano {
        months: interval.months.checked_neg().ok_or_else(out_of_range)?,
        days: interval.days.checked_neg().ok_or_else(out_of_range)?,
        nanoseconds: interval.nanoseconds.checked_neg().ok_or_else(out_of_range)?,
    })
}

/// Part by part. Fails with 22008 if the sum cannot be held.
pub(super) fn sum(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let out_of_range = || datetime_overflow("interval");
    Ok(IntervalMonthDayNano {
        months: a.months.checked_add(b.months).ok_or_else(out_of_range)?,
        days: a.days.checked_add(b.days).ok_or_else(out_of_range)?,
        nanoseconds: a.nanoseconds.checked_add(b.nanoseconds).ok_or_else(out_of_range)?,
    })
}

/// `interval_mul`: fractions of months spill into days and those of days into time.
pub(super) fn times(a: IntervalMonthDayNano, factor: f64) -> Result<IntervalMonthDayNano> {
    scaled(a, |part| part * factor)
}

/// `interval_div`.
pub(super) fn over(a: IntervalMonthDayNano, divisor: f64) -> Result<IntervalMonthDayNano> {
    match divisor {
        0.0 => Err(division_by_zero()),
        divisor => scaled(a, |part| part / divisor),
    }
}

fn scaled(a: IntervalMonthDayNano, of: impl Fn(f64) -> f64) -> Result<IntervalMonthDayNano> {
    let out_of_range = || datetime_overflow("interval");
    let fits = |value: f64| (value.abs() < 2_147_483_648.0).then_some(value.trunc());
    // As PostgreSQL's TSROUND: parts of a second count to the microsecond.
    let rounded = |value: f64| (value * 1_000_000.0).round_ties_even() / 1_000_000.0;
    let (all_months, all_days) = (of(f64::from(a.months)), of(f64::from(a.days)));
    let months = fits(all_months).ok_or_else(out_of_range)?;
    let mut days = fits(all_days).ok_or_else(out_of_range)?;
    let month_days = rounded((all_months - months) * MONTH_DAYS);
    let mut seconds = rounded((all_days - days + month_days - month_days.trunc()) * DAY_SECONDS);
    if seconds.abs() >= DAY_SECONDS {
        let whole = (seconds / DAY_SECONDS).trunc();
        days += whole;
        seconds -= whole * DAY_SECONDS;
    }
    days = fits(days + month_days.trunc()).ok_or_else(out_of_range)?;
    let microseconds = (of(time_of(a) as f64) + seconds * 1_000_000.0).round_ties_even();
    if microseconds.is_nan() || microseconds.abs() >= 9.2e18 {
        return Err(out_of_range());
    }
    interval(months as i64, days as i64, microseconds as i64)
}

/// `timestamp_mi`: days and time.
fn between(a: i64, b: i64) -> Result<IntervalMonthDayNano> {
    if is_infinite(a) || is_infinite(b) {
        return Err(value_error("cannot subtract infinite timestamps", "22008"));
    }
    let apart = i128::from(a) - i128::from(b);
    let day = i128::from(DAY);
    let (days, time) = (apart / day, apart % day);
    interval(0, i64::try_from(days).unwrap_or(i64::MAX), i64::try_from(time).unwrap_or(i64::MAX))
}

/// A time of the day and an interval: only its time counts, around midnight.
pub(super) fn time_plus(time: i64, microseconds: i64) -> i64 {
    (i128::from(time) + i128::from(microseconds)).rem_euclid(i128::from(DAY)) as i64
}

fn date_plus(date: i32, days: i64) -> Result<Date> {
    match is_infinite_date(date) {
        true => Ok(Date(date)),
        false => checked_date(i64::from(date) + days).map(Date),
    }
}

/// Declares the operators.
pub(super) fn declare(catalog: &mut Catalog) {
    dates(catalog);
    with_intervals(catalog);
    of_intervals(catalog);
    justified(catalog);
}

fn dates(catalog: &mut Catalog) {
    catalog.add("+(date, integer) -> date", kernel!(try |a: Date, b: i32| date_plus(a.0, b.into())));
    catalog.add("+(integer, date) -> date", kernel!(try |a: i32, b: Date| date_plus(b.0, a.into())));
    catalog.add("-(date, integer) -> date", kernel!(try |a: Date, b: i32| date_plus(a.0, -i64::from(b))));
    catalog.add(
        "-(date, date) -> integer",
        kernel!(try |a: Date, b: Date| match is_infinite_date(a.0) || is_infinite_date(b.0) {
            true => Err(value_error("cannot subtract infinite dates", "22008")),
            false => a.0.checked_sub(b.0).ok_or_else(|| datetime_overflow("date")),
        }),
    );
    catalog.add("+(date, time) -> timestamp", kernel!(try |a: Date, b: Time| at_time(a.0, b.0)));
    catalog.add("+(time, date) -> timestamp", kernel!(try |a: Time, b: Date| at_time(b.0, a.0)));
    catalog.add("-(timestamp, timestamp) -> interval", kernel!(try |a: Timestamp, b: Timestamp| between(a.0, b.0)));
    catalog.add("-(timestamptz, timestamptz) -> interval", kernel!(try |a: Timestamp, b: Timestamp| between(a.0, b.0)));
    catalog.add("-(time, time) -> interval", kernel!(try |a: Time, b: Time| interval(0, 0, a.0 - b.0)));
}

fn at_time(date: i32, time: i64) -> Result<Timestamp> {
    let day = midnight(date)?;
    match is_infinite(day) {
        true => Ok(Timestamp(day)),
        false => checked_timestamp(day.checked_add(time).ok_or_else(|| datetime_overflow("timestamp"))?).map(Timestamp),
    }
}

fn with_intervals(catalog: &mut Catalog) {
    catalog.add(
        "+(date, interval) -> timestamp",
        kernel!(try |a: Date, b: Interval| plus(midnight(a.0)?, b).map(Timestamp)),
    );
    catalog.add(
        "+(interval, date) -> timestamp",
        kernel!(try |a: Interval, b: Date| plus(midnight(b.0)?, a).map(Timestamp)),
    );
    catalog.add(
        "-(date, interval) -> timestamp",
        kernel!(try |a: Date, b: Interval| plus(midnight(a.0)?, negated(b)?).map(Timestamp)),
    );
    catalog.add(
        "+(timestamp, interval) -> timestamp",
        kernel!(try |a: Timestamp, b: Interval| plus(a.0, b).map(Timestamp)),
    );
    catalog.add(
        "+(interval, timestamp) -> timestamp",
        kernel!(try |a: Interval, b: Timestamp| plus(b.0, a).map(Timestamp)),
    );
    catalog.add(
        "-(timestamp, interval) -> timestamp",
        kernel!(try |a: Timestamp, b: Interval| plus(a.0, negated(b)?).map(Timestamp)),
    );
    catalog
        .add(
            "+(timestamptz, interval) -> timestamptz",
            kernel!(with zones: Zones; |a: Timestamp, b: Interval, zone: &str| {
                plus_in_zone(a.0, b, zones.session(zone)?).map(Timestamp)
            }),
        )
        .zoned();
    catalog
        .add(
            "+(interval, timestamptz) -> timestamptz",
            kernel!(with zones: Zones; |a: Interval, b: Timestamp, zone: &str| {
                plus_in_zone(b.0, a, zones.session(zone)?).map(Timestamp)
            }),
        )
        .zoned();
    catalog
        .add(
            "-(timestamptz, interval) -> timestamptz",
            kernel!(with zones: Zones; |a: Timestamp, b: Interval, zone: &str| {
                plus_in_zone(a.0, negated(b)?, zones.session(zone)?).map(Timestamp)
            }),
        )
        .zoned();
    catalog.add("+(time, interval) -> time", kernel!(|a: Time, b: Interval| Time(time_plus(a.0, time_of(b)))));
    catalog.add("+(interval, time) -> time", kernel!(|a: Interval, b: Time| Time(time_plus(b.0, time_of(a)))));
    catalog.add(
        "-(time, interval) -> time",
        kernel!(|a: Time, b: Interval| Time(time_plus(a.0, time_of(b).wrapping_neg()))),
    );
}

fn of_intervals(catalog: &mut Catalog) {
    catalog.add("+(interval, interval) -> interval", kernel!(try |a: Interval, b: Interval| sum(a, b)));
    catalog.add("-(interval, interval) -> interval", kernel!(try |a: Interval, b: Interval| sum(a, negated(b)?)));
    catalog.add("-(interval) -> interval", kernel!(try |a: Interval| negated(a)));
    catalog.add("+(interval) -> interval", kernel!(|a: Interval| a));
    catalog.add("*(interval, double precision) -> interval", kernel!(try |a: Interval, b: f64| times(a, b)));
    catalog.add("*(double precision, interval) -> interval", kernel!(try |a: f64, b: Interval| times(b, a)));
    catalog.add("/(interval, double precision) -> interval", kernel!(try |a: Interval, b: f64| over(a, b)));
}

fn justified(catalog: &mut Catalog) {
    catalog.add("justify_hours(interval) -> interval", kernel!(try |a: Interval| justify_hours(a)));
    catalog.add("justify_days(interval) -> interval", kernel!(try |a: Interval| justify_days(a)));
    catalog.add("justify_interval(interval) -> interval", kernel!(try |a: Interval| justify_interval(a)));
}

/// Makes both parts of one sign by moving one whole of the larger into the smaller.
fn same_sign(large: i64, small: i64, size: i64) -> (i64, i64) {
    match () {
        () if large > 0 && small < 0 => (large - 1, small + size),
        () if large < 0 && small > 0 => (large + 1, small - size),
        () => (large, small),
    }
}

fn justify_hours(a: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let time = time_of(a);
    let (days, time) = same_sign(i64::from(a.days) + time / DAY, time % DAY, DAY);
    interval(a.months.into(), days, time)
}

fn justify_days(a: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let (months, days) = same_sign(i64::from(a.months) + i64::from(a.days) / 30, i64::from(a.days) % 30, 30);
    interval(months, days, time_of(a))
}

fn justify_interval(a: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let time = time_of(a);
    let (days, time) = (i64::from(a.days) + time / DAY, time % DAY);
    let (mut months, mut days) = (i64::from(a.months) + days / 30, days % 30);
    let mut time = time;
    match () {
        () if months > 0 && (days < 0 || (days == 0 && time < 0)) => (months, days) = (months - 1, days + 30),
        () if months < 0 && (days > 0 || (days == 0 && time > 0)) => (months, days) = (months + 1, days - 30),
        () => {}
    }
    (days, time) = same_sign(days, time, 24 * HOUR);
    interval(months, days, time)
}
