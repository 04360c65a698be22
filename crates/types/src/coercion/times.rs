//! Casts between dates, times, timestamps and intervals.

use arrow::array::{ArrayRef, AsArray, PrimitiveArray, StringViewArray};
use arrow::datatypes::{
    Date32Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use diligence_base::Result;

use super::Cast;
use crate::SqlType;
use crate::text::calendar::{self, DAY};
use crate::text::{ZonedTime, errors};

/// Casts a date, a time, a timestamp or an interval.
pub(super) fn cast(cast: &Cast<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    use SqlType as T;
    let zone = cast.zone;
    match (cast.from, cast.to) {
        (T::Date, T::Timestamp) => cast.each::<Date32Type, TimestampMicrosecondType>(array, midnight),
        (T::Date, T::TimestampTz) => {
            cast.each::<Date32Type, TimestampMicrosecondType>(array, |day| zone.to_instant(midnight(day)?))
        }
        (T::Timestamp, T::Date) => cast.each::<TimestampMicrosecondType, Date32Type>(array, day_of),
        (T::TimestampTz, T::Date) => {
            cast.each::<TimestampMicrosecondType, Date32Type>(array, |instant| day_of(zone.to_local(instant)?))
        }
        (T::Timestamp, T::TimestampTz) => {
            cast.each::<TimestampMicrosecondType, TimestampMicrosecondType>(array, |local| zone.to_instant(local))
        }
        (T::TimestampTz, T::Timestamp) => {
            cast.each::<TimestampMicrosecondType, TimestampMicrosecondType>(array, |instant| zone.to_local(instant))
        }
        (T::Timestamp, T::Time) => times(cast, array, Ok),
        (T::TimestampTz, T::Time) => times(cast, array, |instant| zone.to_local(instant)),
        (T::Time, T::Interval) => cast.all::<Time64MicrosecondType, IntervalMonthDayNanoType>(array, |time| {
            IntervalMonthDayNano::new(0, 0, time.saturating_mul(1_000))
        }),
        (T::Interval, T::Time) => cast.all::<IntervalMonthDayNanoType, Time64MicrosecondType>(array, |interval| {
            (interval.nanoseconds / 1_000).rem_euclid(DAY)
        }),
        (T::TimestampTz, T::TimeTz) => {
            let instants: &PrimitiveArray<TimestampMicrosecondType> = array.as_primitive();
            let time = |instant: i64| match calendar::is_infinite(instant) {
                true => Ok(None),
                false => ZonedTime::of_instant(instant, &zone).map(|time| Some(time.text())),
            };
            let texts = instants.iter().map(|instant| instant.map_or(Ok(None), time));
            Ok(std::sync::Arc::new(texts.collect::<Result<StringViewArray>>()?))
        }
        // Its text is what both have in common; without a zone it is the session's.
        (T::Time, T::TimeTz) | (T::TimeTz, T::Time) => {
            let texts = crate::text::Printer::new(array, cast.from, zone)?.texts();
            crate::text::parse_array(&texts, cast.to, &cast.read_options())
        }
        _ => Err(cast.no_cast()),
    }
}

/// The first moment of a day.
fn midnight(day: i32) -> Result<i64> {
    match day {
        calendar::INFINITE_DAY => Ok(calendar::INFINITE_INSTANT),
        calendar::NEGATIVE_INFINITE_DAY => Ok(calendar::NEGATIVE_INFINITE_INSTANT),
        _ => i64::from(day)
            .checked_mul(DAY)
            .filter(|local| (calendar::FIRST_INSTANT..=calendar::LAST_INSTANT).contains(local))
            .ok_or_else(|| errors::datetime_out_of_range("timestamp")),
    }
}

/// The day of a local time.
fn day_of(local: i64) -> Result<i32> {
    match local {
        calendar::INFINITE_INSTANT => Ok(calendar::INFINITE_DAY),
        calendar::NEGATIVE_INFINITE_INSTANT => Ok(calendar::NEGATIVE_INFINITE_DAY),
        _ => i32::try_from(local.div_euclid(DAY)).map_err(|_| errors::datetime_out_of_range("date")),
    }
}

/// The times of day; the infinities have none.
fn times(cast: &Cast<'_>, array: &ArrayRef, local: impl Fn(i64) -> Result<i64>) -> Result<ArrayRef> {
    let instants: &PrimitiveArray<TimestampMicrosecondType> = array.as_primitive();
    let time = |instant: Option<i64>| match instant.map(&local).transpose() {
        Ok(local) => Ok(local.and_then(time_of)),
        Err(_) if cast.is_try => Ok(None),
        Err(error) => Err(error),
    };
    let times: PrimitiveArray<Time64MicrosecondType> = instants.iter().map(time).collect::<Result<_>>()?;
    Ok(std::sync::Arc::new(times))
}

fn time_of(local: i64) -> Option<i64> {
    (!calendar::is_infinite(local)).then(|| local.rem_euclid(DAY))
}
