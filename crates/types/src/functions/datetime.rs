//! Functions of dates, times, timestamps and intervals (manual, section 9.9), except for arithmetic and formatting.
//!
//! A function of `timestamptz` works on the wall of a zone: the session's, which the binder appends as a last argument,
//! or one that the call names.

use arrow::array::ArrayRef;
use arrow::datatypes::{IntervalMonthDayNano, i256};
use chrono::Utc;
use datafusion_expr::ColumnarValue;
use diligence_base::Result;

use super::calendar::{
    DAY, Day, HOUR, JULIAN_OFFSET, MINUTE, SECOND, checked_date, checked_timestamp, is_infinite, is_infinite_date,
    iso_weekday, midnight, split, timestamp_of, weekday,
};
use super::catalog::Catalog;
use super::columns::{Columns, Date, Interval, Time, Timestamp, kernel};
use super::comparisons::length;
use super::decimal::Decimal;
use super::errors::{datetime_overflow, invalid_argument, value_error};
use super::intervals::{interval, plus, plus_in_zone, time_of};
use super::rounded_times;
use super::zones::Zones;
use super::{Body, Call};
use crate::SqlType;
use crate::text::Zone;

/// A unit of time that functions are told by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Julian,
    Epoch,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

impl Unit {
    /// The unit of a name. Fails with 22023 if there is none.
    fn named(name: &str, type_name: &str) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        Ok(match lower.as_str() {
            "microseconds" | "microsecond" | "us" | "usec" | "usecs" | "usecond" | "useconds" => Self::Microseconds,
            "milliseconds" | "millisecond" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => Self::Milliseconds,
            "second" | "seconds" | "s" | "sec" | "secs" => Self::Second,
            "minute" | "minutes" | "m" | "min" | "mins" => Self::Minute,
            "hour" | "hours" | "h" | "hr" | "hrs" => Self::Hour,
            "day" | "days" | "d" => Self::Day,
            "week" | "weeks" | "w" => Self::Week,
            "month" | "months" | "mon" | "mons" => Self::Month,
            "quarter" | "qtr" => Self::Quarter,
            "year" | "years" | "y" | "yr" | "yrs" => Self::Year,
            "decade" | "decades" | "dec" | "decs" => Self::Decade,
            "century" | "centuries" | "c" | "cent" => Self::Century,
            "millennium" | "millennia" | "mil" | "mils" => Self::Millennium,
            "dow" => Self::DayOfWeek,
            "isodow" => Self::IsoDayOfWeek,
            "doy" => Self::DayOfYear,
            "isoyear" => Self::IsoYear,
            "julian" | "j" => Self::Julian,
            "epoch" => Self::Epoch,
            "timezone" => Self::Timezone,
            "timezone_hour" | "timezone_h" => Self::TimezoneHour,
            "timezone_minute" | "timezone_m" => Self::TimezoneMinute,
            _ => return Err(invalid_argument(format!("unit \"{name}\" not recognized for type {type_name}"))),
        })
    }
}

/// How large a unit of time is, for guesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitSize {
    /// How many values `extract` has of it at most, whatever the times; `None` if they go on with the times.
    pub values: Option<f64>,
    /// How many seconds a period of it has.
    pub seconds: f64,
}

/// The size of the unit of a name, as `extract` and `date_trunc` know it; `None` if there is none.
pub fn unit_size(name: &str) -> Option<UnitSize> {
    let (day, year) = (86_400.0, 365.2425 * 86_400.0);
    let (values, seconds) = match Unit::named(name, "").ok()? {
        Unit::Microseconds => (None, 1e-6),
        Unit::Milliseconds => (None, 1e-3),
        Unit::Second => (None, 1.0),
        Unit::Minute => (Some(60.0), 60.0),
        Unit::Hour => (Some(24.0), 3600.0),
        Unit::Day => (Some(31.0), day),
        Unit::Week => (Some(53.0), 7.0 * day),
        Unit::Month => (Some(12.0), year / 12.0),
        Unit::Quarter => (Some(4.0), year / 4.0),
        Unit::Year | Unit::IsoYear => (None, year),
        Unit::Decade => (None, 10.0 * year),
        Unit::Century => (None, 100.0 * year),
        Unit::Millennium => (None, 1000.0 * year),
        Unit::DayOfWeek | Unit::IsoDayOfWeek => (Some(7.0), day),
        Unit::DayOfYear => (Some(366.0), day),
        Unit::Julian => (None, day),
        Unit::Epoch => (None, 1.0),
        Unit::Timezone | Unit::TimezoneHour | Unit::TimezoneMinute => (Some(2.0), year / 2.0),
    };
    Some(UnitSize { values, seconds })
}

/// Units by name, looked up once for each name that a column has in a row.
#[derive(Default)]
pub(super) struct Units {
    last: Option<(String, Unit)>,
}

impl Units {
    fn get(&mut self, name: &str, type_name: &str) -> Result<Unit> {
        match &self.last {
            Some((last, unit)) if last == name => Ok(*unit),
            _ => {
                let unit = Unit::named(name, type_name)?;
                self.last = Some((name.to_owned(), unit));
                Ok(unit)
            }
        }
    }
}

/// 0A000: the type has no such unit.
fn unsupported(unit: &str, type_name: &str) -> diligence_base::Error {
    value_error(format!("unit \"{unit}\" not supported for type {type_name}"), "0A000")
}

const TIMESTAMP: &str = "timestamp without time zone";
const TIMESTAMP_TZ: &str = "timestamp with time zone";
const TIME: &str = "time without time zone";

fn decimal(value: i64, scale: i32) -> Decimal {
    Decimal::new(i256::from_i128(value.into()), scale)
}

fn century(year: i64) -> i64 {
    if year > 0 { (year + 99) / 100 } else { -((99 - (year - 1)) / 100) }
}

fn millennium(year: i64) -> i64 {
    if year > 0 { (year + 999) / 1000 } else { -((999 - (year - 1)) / 1000) }
}

/// The year of ISO's weeks as it is shown: there is no year 0.
fn iso_year(day: Day) -> i64 {
    match day.iso_week().0 {
        year if year > 0 => year,
        year => year - 1,
    }
}

/// A part of a wall time. `None` if timestamps have no such part.
fn part(unit: Unit, wall: i64) -> Option<Decimal> {
    let (days, time) = split(wall);
    let day = Day::of(days);
    Some(match unit {
        Unit::Microseconds => decimal(time % MINUTE, 0),
        Unit::Milliseconds => decimal(time % MINUTE, 3),
        Unit::Second => decimal(time % MINUTE, 6),
        Unit::Minute => decimal(time / MINUTE % 60, 0),
        Unit::Hour => decimal(time / HOUR, 0),
        Unit::Day => decimal(day.day, 0),
        Unit::Week => decimal(day.iso_week().1, 0),
        Unit::Month => decimal(day.month, 0),
        Unit::Quarter => decimal((day.month - 1) / 3 + 1, 0),
        Unit::Year => decimal(day.shown_year(), 0),
        Unit::Decade => decimal(day.year.div_euclid(10), 0),
        Unit::Century => decimal(century(day.year), 0),
        Unit::Millennium => decimal(millennium(day.year), 0),
        Unit::DayOfWeek => decimal(weekday(days), 0),
        Unit::IsoDayOfWeek => decimal(iso_weekday(days), 0),
        Unit::DayOfYear => decimal(day.day_of_year(), 0),
        Unit::IsoYear => decimal(iso_year(day), 0),
        Unit::Julian => {
            let part = decimal(time, 6).divide_at(decimal(DAY / SECOND, 0), 20, true).unwrap_or(Decimal::ZERO);
            decimal(days + JULIAN_OFFSET, 0).add(part).unwrap_or(Decimal::ZERO)
        }
        Unit::Epoch => decimal(wall, 6),
        Unit::Timezone | Unit::TimezoneHour | Unit::TimezoneMinute => return None,
    })
}

/// The part of infinity: NULL where parts come around again, an error where PostgreSQL has an infinite `numeric`.
fn infinite_part(unit: Unit) -> Result<Option<Decimal>> {
    match unit {
        Unit::Year | Unit::Decade | Unit::Century | Unit::Millennium | Unit::Julian | Unit::IsoYear | Unit::Epoch => {
            Err(value_error("numeric does not hold infinity", "22003"))
        }
        _ => Ok(None),
    }
}

fn timestamp_part(units: &mut Units, name: &str, wall: i64) -> Result<Option<Decimal>> {
    let unit = units.get(name, TIMESTAMP)?;
    if is_infinite(wall) {
        return infinite_part(unit);
    }
    part(unit, wall).map(Some).ok_or_else(|| unsupported(name, TIMESTAMP))
}

fn instant_part(units: &mut Units, name: &str, instant: i64, zone: Zone) -> Result<Option<Decimal>> {
    let unit = units.get(name, TIMESTAMP_TZ)?;
    if is_infinite(instant) {
        return infinite_part(unit);
    }
    let offset = i64::from(zone.offset_at(instant));
    Ok(Some(match unit {
        Unit::Epoch => decimal(instant, 6),
        Unit::Timezone => decimal(offset, 0),
        Unit::TimezoneHour => decimal(offset / 3600, 0),
        Unit::TimezoneMinute => decimal(offset / 60 % 60, 0),
        unit => {
            let wall = instant.checked_add(offset * SECOND).ok_or_else(|| datetime_overflow("timestamp"))?;
            part(unit, wall).ok_or_else(|| unsupported(name, TIMESTAMP_TZ))?
        }
    }))
}

fn date_field(units: &mut Units, name: &str, date: i32) -> Result<Option<Decimal>> {
    let unit = units.get(name, "date")?;
    if unit < Unit::Day || unit >= Unit::Timezone {
        return Err(unsupported(name, "date"));
    }
    if is_infinite_date(date) {
        return infinite_part(unit);
    }
    let days = i64::from(date);
    Ok(match unit {
        // The day's number and its seconds are whole, and may be beyond what a timestamp holds.
        Unit::Julian => Some(decimal(days + JULIAN_OFFSET, 0)),
        Unit::Epoch => Some(decimal(days * 86_400, 0)),
        unit => {
            // Parts come around after 400 years; only the year itself does not.
            let day = Day::of(days);
            match unit {
                Unit::Year => Some(decimal(day.shown_year(), 0)),
                Unit::Decade => Some(decimal(day.year.div_euclid(10), 0)),
                Unit::Century => Some(decimal(century(day.year), 0)),
                Unit::Millennium => Some(decimal(millennium(day.year), 0)),
                Unit::IsoYear => Some(decimal(iso_year(day), 0)),
                unit => part(unit, days.rem_euclid(146_097) * DAY),
            }
        }
    })
}

pub(super) fn time_part(units: &mut Units, name: &str, time: i64) -> Result<Decimal> {
    let unit = units.get(name, TIME)?;
    match unit {
        Unit::Epoch => Ok(decimal(time, 6)),
        Unit::Hour => Ok(decimal(time / HOUR, 0)),
        unit if unit < Unit::Hour => Ok(part(unit, time).unwrap_or(Decimal::ZERO)),
        _ => Err(unsupported(name, TIME)),
    }
}

fn interval_part(units: &mut Units, name: &str, value: IntervalMonthDayNano) -> Result<Decimal> {
    let unit = units.get(name, "interval")?;
    let (months, time) = (i64::from(value.months), time_of(value));
    let (years, month) = (months / 12, months % 12);
    Ok(match unit {
        Unit::Microseconds => decimal(time % MINUTE, 0),
        Unit::Milliseconds => decimal(time % MINUTE, 3),
        Unit::Second => decimal(time % MINUTE, 6),
        Unit::Minute => decimal(time / MINUTE % 60, 0),
        Unit::Hour => decimal(time / HOUR, 0),
        Unit::Day => decimal(value.days.into(), 0),
        Unit::Month => decimal(month, 0),
        Unit::Quarter => decimal(month / 3 + 1, 0),
        Unit::Year => decimal(years, 0),
        Unit::Decade => decimal(years / 10, 0),
        Unit::Century => decimal(years / 100, 0),
        Unit::Millennium => decimal(years / 1000, 0),
        Unit::Epoch => {
            // A year is 365.25 days, a month 30.
            let quarter_days = years * 1461 + (month * 30 + i64::from(value.days)) * 4;
            decimal(quarter_days, 0).multiply(decimal(21_600, 0))?.add(decimal(time, 6))?
        }
        _ => return Err(unsupported(name, "interval")),
    })
}

/// The type of an extracted part: PostgreSQL's digits behind the point.
pub(super) fn part_type(types: &[SqlType], literals: &[Option<String>]) -> Result<SqlType> {
    let field = literals.first().and_then(|literal| literal.as_deref()).unwrap_or_default();
    let is_date = types.get(1) == Some(&SqlType::Date);
    Ok(match Unit::named(field, "") {
        Ok(Unit::Second) => SqlType::decimal(8, 6),
        Ok(Unit::Milliseconds) => SqlType::decimal(8, 3),
        Ok(Unit::Epoch) if !is_date => SqlType::decimal(38, 6),
        Ok(Unit::Julian) if !is_date => SqlType::decimal(38, 20),
        Ok(_) => SqlType::decimal(18, 0),
        Err(_) => SqlType::NUMERIC,
    })
}

/// The start of the unit that a wall time is in.
fn trunc(unit: Unit, wall: i64) -> Option<Result<i64>> {
    let (days, time) = split(wall);
    let day = Day::of(days);
    let start = |year: i64, month: i64| timestamp_of(Day { year, month, day: 1 }.days(), 0);
    // Centuries and millennia begin with the year 1; before it, with 1 BC's and its like.
    let first_of = |years: i64| (day.year - 1).div_euclid(years) * years + 1;
    Some(match unit {
        Unit::Microseconds => Ok(wall),
        Unit::Milliseconds => Ok(wall - time % 1000),
        Unit::Second => Ok(wall - time % SECOND),
        Unit::Minute => Ok(wall - time % MINUTE),
        Unit::Hour => Ok(wall - time % HOUR),
        Unit::Day => Ok(wall - time),
        Unit::Week => timestamp_of(days - iso_weekday(days) + 1, 0),
        Unit::Month => start(day.year, day.month),
        Unit::Quarter => start(day.year, (day.month - 1) / 3 * 3 + 1),
        Unit::Year => start(day.year, 1),
        Unit::Decade => start(day.year.div_euclid(10) * 10, 1),
        Unit::Century => start(first_of(100), 1),
        Unit::Millennium => start(first_of(1000), 1),
        _ => return None,
    })
}

fn trunc_timestamp(units: &mut Units, name: &str, wall: i64) -> Result<Timestamp> {
    let unit = units.get(name, TIMESTAMP)?;
    if is_infinite(wall) {
        return Ok(Timestamp(wall));
    }
    trunc(unit, wall).unwrap_or_else(|| Err(unsupported(name, TIMESTAMP))).map(Timestamp)
}

fn trunc_instant(units: &mut Units, name: &str, instant: i64, zone: Zone) -> Result<Timestamp> {
    let unit = units.get(name, TIMESTAMP_TZ)?;
    if is_infinite(instant) {
        return Ok(Timestamp(instant));
    }
    let offset = i64::from(zone.offset_at(instant)) * SECOND;
    let wall = instant.checked_add(offset).ok_or_else(|| datetime_overflow("timestamp"))?;
    let start = trunc(unit, wall).unwrap_or_else(|| Err(unsupported(name, TIMESTAMP_TZ)))?;
    // Within a day the offset stays, so that the hour that comes twice is not the other one.
    match unit >= Unit::Day {
        true => zone.to_instant(start).map(Timestamp),
        false => Ok(Timestamp(start - offset)),
    }
}

fn trunc_interval(units: &mut Units, name: &str, value: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let unit = units.get(name, "interval")?;
    let (months, days, time) = (i64::from(value.months), i64::from(value.days), time_of(value));
    let cut = |size: i64| time / size * size;
    match unit {
        Unit::Microseconds => Ok(value),
        Unit::Milliseconds => interval(months, days, cut(1000)),
        Unit::Second => interval(months, days, cut(SECOND)),
        Unit::Minute => interval(months, days, cut(MINUTE)),
        Unit::Hour => interval(months, days, cut(HOUR)),
        Unit::Day => interval(months, days, 0),
        Unit::Month => interval(months, 0, 0),
        Unit::Quarter => interval(months / 3 * 3, 0, 0),
        Unit::Year => interval(months / 12 * 12, 0, 0),
        Unit::Decade => interval(months / 120 * 120, 0, 0),
        Unit::Century => interval(months / 1200 * 1200, 0, 0),
        Unit::Millennium => interval(months / 12_000 * 12_000, 0, 0),
        _ => Err(unsupported(name, "interval")),
    }
}

/// `timestamp_age`: whole years, months and days between two wall times, counted as people do.
fn age(later: i64, earlier: i64) -> Result<IntervalMonthDayNano> {
    if is_infinite(later) || is_infinite(earlier) {
        return Err(value_error("interval out of range", "22008"));
    }
    if later < earlier {
        return super::intervals::negated(age(earlier, later)?);
    }
    let ((to_days, to_time), (from_days, from_time)) = (split(later), split(earlier));
    let (to, from) = (Day::of(to_days), Day::of(from_days));
    let (mut months, mut days, mut time) =
        ((to.year - from.year) * 12 + to.month - from.month, to.day - from.day, to_time - from_time);
    if time < 0 {
        (days, time) = (days - 1, time + DAY);
    }
    if days < 0 {
        // The days of the month of the earlier time are borrowed.
        (months, days) = (months - 1, days + from.month_length());
    }
    interval(months, days, time)
}

fn bin(stride: IntervalMonthDayNano, timestamp: i64, origin: i64) -> Result<Timestamp> {
    if is_infinite(timestamp) {
        return Ok(Timestamp(timestamp));
    }
    if is_infinite(origin) {
        return Err(value_error("origin out of range", "22008"));
    }
    if stride.months != 0 {
        return Err(value_error("timestamps cannot be binned into intervals containing months or years", "0A000"));
    }
    let stride = length(stride);
    if stride <= 0 {
        return Err(value_error("stride must be greater than zero", "22008"));
    }
    let apart = i128::from(timestamp) - i128::from(origin);
    let start = i128::from(origin) + apart.div_euclid(stride) * stride;
    let start = i64::try_from(start).map_err(|_| datetime_overflow("timestamp"))?;
    checked_timestamp(start).map(Timestamp)
}

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    parts(catalog);
    starts(catalog);
    made(catalog);
    zoned(catalog);
    rounded_times::declare(catalog);
    ages(catalog);
    overlaps(catalog);
    clocks(catalog);
}

fn parts(catalog: &mut Catalog) {
    catalog
        .add(
            "extract(text, timestamp) -> numeric",
            kernel!(with units: Units; |field: &str, a: Timestamp| timestamp_part(&mut units, field, a.0)),
        )
        .gives(part_type);
    catalog
        .add(
            "extract(text, timestamptz) -> numeric",
            kernel!(with state: (Units, Zones); |field: &str, a: Timestamp, zone: &str| {
                instant_part(&mut state.0, field, a.0, state.1.session(zone)?)
            }),
        )
        .zoned()
        .gives(part_type);
    catalog
        .add(
            "extract(text, date) -> numeric",
            kernel!(with units: Units; |field: &str, a: Date| date_field(&mut units, field, a.0)),
        )
        .gives(part_type);
    catalog
        .add(
            "extract(text, time) -> numeric",
            kernel!(with units: Units; |field: &str, a: Time| time_part(&mut units, field, a.0)),
        )
        .gives(part_type);
    catalog
        .add(
            "extract(text, interval) -> numeric",
            kernel!(with units: Units; |field: &str, a: Interval| interval_part(&mut units, field, a)),
        )
        .gives(part_type);
    catalog.add(
        "date_part(text, timestamp) -> double precision",
        kernel!(with units: Units; |field: &str, a: Timestamp| {
            match infinity(&mut units, field, TIMESTAMP, a.0)? {
                Some(value) => Ok(Some(value)),
                None => Ok(timestamp_part(&mut units, field, a.0)?.map(Decimal::to_f64)),
            }
        }),
    );
    catalog
        .add(
            "date_part(text, timestamptz) -> double precision",
            kernel!(with state: (Units, Zones); |field: &str, a: Timestamp, zone: &str| {
                match infinity(&mut state.0, field, TIMESTAMP_TZ, a.0)? {
                    Some(value) => Ok(Some(value)),
                    None => Ok(instant_part(&mut state.0, field, a.0, state.1.session(zone)?)?.map(Decimal::to_f64)),
                }
            }),
        )
        .zoned();
    catalog.add(
        "date_part(text, date) -> double precision",
        kernel!(with units: Units; |field: &str, a: Date| {
            // The field of a date as a timestamp: the parts of a day are 0.
            let wall = midnight(a.0)?;
            match infinity(&mut units, field, TIMESTAMP, wall)? {
                Some(value) => Ok(Some(value)),
                None => Ok(timestamp_part(&mut units, field, wall)?.map(Decimal::to_f64)),
            }
        }),
    );
    catalog.add(
        "date_part(text, time) -> double precision",
        kernel!(with units: Units; |field: &str, a: Time| Ok(time_part(&mut units, field, a.0)?.to_f64())),
    );
    catalog.add(
        "date_part(text, interval) -> double precision",
        kernel!(with units: Units; |field: &str, a: Interval| Ok(interval_part(&mut units, field, a)?.to_f64())),
    );
}

/// The infinite part of an infinite timestamp, which floats hold.
fn infinity(units: &mut Units, name: &str, type_name: &str, timestamp: i64) -> Result<Option<f64>> {
    let unit = units.get(name, type_name)?;
    let is_endless = is_infinite(timestamp) && infinite_part(unit).is_err();
    Ok(is_endless.then_some(if timestamp > 0 { f64::INFINITY } else { f64::NEG_INFINITY }))
}

fn starts(catalog: &mut Catalog) {
    catalog.add(
        "date_trunc(text, timestamp) -> timestamp",
        kernel!(with units: Units; |field: &str, a: Timestamp| trunc_timestamp(&mut units, field, a.0)),
    );
    catalog
        .add(
            "date_trunc(text, timestamptz) -> timestamptz",
            kernel!(with state: (Units, Zones); |field: &str, a: Timestamp, zone: &str| {
                trunc_instant(&mut state.0, field, a.0, state.1.session(zone)?)
            }),
        )
        .zoned();
    catalog.add(
        "date_trunc(text, timestamptz, text) -> timestamptz",
        kernel!(with state: (Units, Zones); |field: &str, a: Timestamp, zone: &str| {
            trunc_instant(&mut state.0, field, a.0, state.1.argument(zone)?)
        }),
    );
    catalog.add(
        "date_trunc(text, interval) -> interval",
        kernel!(with units: Units; |field: &str, a: Interval| trunc_interval(&mut units, field, a)),
    );
    catalog.add_all(
        &[
            "date_bin(interval, timestamp, timestamp) -> timestamp",
            "date_bin(interval, timestamptz, timestamptz) -> timestamptz",
        ],
        kernel!(try |stride: Interval, a: Timestamp, origin: Timestamp| bin(stride, a.0, origin.0)),
    );
}

fn made(catalog: &mut Catalog) {
    catalog.add(
        "make_date(integer, integer, integer) -> date",
        kernel!(try |year: i32, month: i32, day: i32| make_date(year, month, day).and_then(checked_date).map(Date)),
    );
    catalog.add(
        "make_time(integer, integer, double precision) -> time",
        kernel!(try |hour: i32, minute: i32, second: f64| make_time(hour, minute, second).map(Time)),
    );
    catalog.add(
        "make_timestamp(integer, integer, integer, integer, integer, double precision) -> timestamp",
        kernel!(try |year: i32, month: i32, day: i32, hour: i32, minute: i32, second: f64| {
            timestamp_of(make_date(year, month, day)?, make_time(hour, minute, second)?).map(Timestamp)
        }),
    );
    catalog
        .add(
            "make_timestamptz(integer, integer, integer, integer, integer, double precision) -> timestamptz",
            kernel!(with zones: Zones; |year: i32, month: i32, day: i32, hour: i32, minute: i32, second: f64, zone: &str| {
                let wall = timestamp_of(make_date(year, month, day)?, make_time(hour, minute, second)?)?;
                zones.session(zone)?.to_instant(wall).map(Timestamp)
            }),
        )
        .zoned();
    catalog.add(
        "make_timestamptz(integer, integer, integer, integer, integer, double precision, text) -> timestamptz",
        kernel!(with zones: Zones; |year: i32, month: i32, day: i32, hour: i32, minute: i32, second: f64, zone: &str| {
            let wall = timestamp_of(make_date(year, month, day)?, make_time(hour, minute, second)?)?;
            zones.made(zone)?.to_instant(wall).map(Timestamp)
        }),
    );
    catalog.add(
        "make_interval(integer?, integer?, integer?, integer?, integer?, integer?, double precision?) -> interval",
        Body::Kernel(make_interval),
    );
    let of_seconds = kernel!(try |seconds: f64| instant_of_seconds(seconds).map(Timestamp));
    catalog.add("to_timestamp(double precision) -> timestamptz", of_seconds);
}

fn instant_of_seconds(seconds: f64) -> Result<i64> {
    match seconds {
        f64::INFINITY => Ok(i64::MAX),
        f64::NEG_INFINITY => Ok(i64::MIN),
        seconds if seconds.is_nan() => Err(value_error("timestamp cannot be NaN", "22008")),
        // Whole seconds apart from the others keep the microseconds of today's timestamps exact.
        seconds if seconds.abs() < 9.2e12 => {
            let microseconds = (seconds.fract() * 1e6).round_ties_even() as i64;
            checked_timestamp(seconds.trunc() as i64 * SECOND + microseconds)
        }
        seconds => Err(value_error(format!("timestamp out of range: \"{seconds}\""), "22008")),
    }
}

fn make_date(year: i32, month: i32, day: i32) -> Result<i64> {
    let wrong = || value_error(format!("date field value out of range: {year}-{month:02}-{day:02}"), "22008");
    // A negative year is one before Christ; there is no year 0.
    let day_of =
        Day { year: if year < 0 { i64::from(year) + 1 } else { year.into() }, month: month.into(), day: day.into() };
    let is_right = year != 0 && (1..=12).contains(&month) && day >= 1 && i64::from(day) <= day_of.month_length();
    if is_right { Ok(day_of.days()) } else { Err(wrong()) }
}

fn make_time(hour: i32, minute: i32, second: f64) -> Result<i64> {
    let microseconds = (second * 1e6).round_ties_even();
    let is_right = (0..=24).contains(&hour)
        && (0..60).contains(&minute)
        && (0.0..=60e6).contains(&microseconds)
        && (hour < 24 || (minute == 0 && microseconds == 0.0));
    match is_right {
        true => Ok(i64::from(hour) * HOUR + i64::from(minute) * MINUTE + microseconds as i64),
        false => Err(value_error(format!("time field value out of range: {hour}:{minute:02}:{second:02}"), "22008")),
    }
}

fn make_interval(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    use datafusion_common::ScalarValue;
    let integers = std::iter::repeat_n(ScalarValue::Int32(Some(0)), 6);
    let defaults: Vec<_> = integers.chain([ScalarValue::Float64(Some(0.0))]).map(ColumnarValue::Scalar).collect();
    let all: Vec<ColumnarValue> = arguments.iter().chain(defaults.iter().skip(arguments.len())).cloned().collect();
    Columns::new(&all, call).map(
        |(years, months, weeks, days, hours, minutes, seconds): (i32, i32, i32, i32, i32, i32, f64)| {
            let fraction = (seconds * 1e6).round_ties_even();
            if !fraction.is_finite() || fraction.abs() > 9e18 {
                return Err(datetime_overflow("interval"));
            }
            let time =
                i128::from(hours) * i128::from(HOUR) + i128::from(minutes) * i128::from(MINUTE) + fraction as i128;
            let time = i64::try_from(time).map_err(|_| datetime_overflow("interval"))?;
            let months = i64::from(years) * 12 + i64::from(months);
            interval(months, i64::from(weeks) * 7 + i64::from(days), time)
        },
    )
}

/// AT TIME ZONE.
fn zoned(catalog: &mut Catalog) {
    catalog.add(
        "timezone(text, timestamp) -> timestamptz",
        kernel!(with zones: Zones; |zone: &str, a: Timestamp| zones.argument(zone)?.to_instant(a.0).map(Timestamp)),
    );
    catalog.add(
        "timezone(text, timestamptz) -> timestamp",
        kernel!(with zones: Zones; |zone: &str, a: Timestamp| zones.argument(zone)?.to_local(a.0).map(Timestamp)),
    );
    catalog.add(
        "timezone(interval, timestamp) -> timestamptz",
        kernel!(try |zone: Interval, a: Timestamp| offset(zone)?.to_instant(a.0).map(Timestamp)),
    );
    catalog.add(
        "timezone(interval, timestamptz) -> timestamp",
        kernel!(try |zone: Interval, a: Timestamp| offset(zone)?.to_local(a.0).map(Timestamp)),
    );
}

pub(super) fn offset(zone: IntervalMonthDayNano) -> Result<Zone> {
    match zone.months != 0 || zone.days != 0 {
        true => Err(invalid_argument("interval time zone must not include months or days")),
        false => i32::try_from(time_of(zone) / SECOND)
            .map(Zone::fixed)
            .map_err(|_| invalid_argument("interval time zone is out of range")),
    }
}

fn ages(catalog: &mut Catalog) {
    catalog.add("age(timestamp, timestamp) -> interval", kernel!(try |a: Timestamp, b: Timestamp| age(a.0, b.0)));
    catalog
        .add(
            "age(timestamptz, timestamptz) -> interval",
            kernel!(with zones: Zones; |a: Timestamp, b: Timestamp, zone: &str| {
                let zone = zones.session(zone)?;
                age(zone.to_local(a.0)?, zone.to_local(b.0)?)
            }),
        )
        .zoned();
    // Since the start of today, in the session's zone.
    catalog
        .add(
            "age(timestamp) -> interval",
            kernel!(with zones: Zones; |a: Timestamp, zone: &str| age(today(zones.session(zone)?)?, a.0)),
        )
        .zoned();
    catalog
        .add(
            "age(timestamptz) -> interval",
            kernel!(with zones: Zones; |a: Timestamp, zone: &str| {
                let zone = zones.session(zone)?;
                age(today(zone)?, zone.to_local(a.0)?)
            }),
        )
        .zoned();
    catalog.add("isfinite(date) -> boolean", kernel!(|a: Date| !is_infinite_date(a.0)));
    catalog.add_all(
        &["isfinite(timestamp) -> boolean", "isfinite(timestamptz) -> boolean"],
        kernel!(|a: Timestamp| !is_infinite(a.0)),
    );
    catalog.add("isfinite(interval) -> boolean", kernel!(|_a: IntervalMonthDayNano| true));
}

pub(super) fn now() -> i64 {
    Utc::now().timestamp_micros()
}

fn today(zone: Zone) -> Result<i64> {
    let wall = zone.to_local(now())?;
    Ok(wall - wall.rem_euclid(DAY))
}

/// Whether two spans of time overlap; each includes its start and not its end, unless both are the same.
fn overlap(a: (Option<i64>, Option<i64>), b: (Option<i64>, Option<i64>)) -> Option<bool> {
    // PostgreSQL's `overlaps_timestamp`: a span with one end unknown still has the other.
    let ordered = |span: (Option<i64>, Option<i64>)| match span {
        (Some(start), Some(end)) if start > end => (Some(end), Some(start)),
        (None, Some(end)) => (Some(end), None),
        span => span,
    };
    let ((start_a, end_a), (start_b, end_b)) = (ordered(a), ordered(b));
    let (start_a, start_b) = (start_a?, start_b?);
    // The span that begins later begins before the other's end, or it does not; then its own end must be known.
    let begins_within = |start: i64, end: Option<i64>, other_end: Option<i64>| match start < other_end? {
        true => Some(true),
        false => end.map(|_| false),
    };
    match start_a.cmp(&start_b) {
        std::cmp::Ordering::Greater => begins_within(start_a, end_a, end_b),
        std::cmp::Ordering::Less => begins_within(start_b, end_b, end_a),
        std::cmp::Ordering::Equal => (end_a.is_some() && end_b.is_some()).then_some(true),
    }
}

fn overlaps(catalog: &mut Catalog) {
    type Stamp = Option<Timestamp>;
    type Step = Option<IntervalMonthDayNano>;
    type Clock = Option<Time>;
    for zone in ["timestamp", "timestamptz"] {
        let signature = |second: &str, fourth: &str| -> &'static str {
            Box::leak(format!("overlaps({zone}, {second}, {zone}, {fourth}) -> boolean").into_boxed_str())
        };
        catalog
            .add(
                signature(zone, zone),
                kernel!(|a: Stamp, b: Stamp, c: Stamp, d: Stamp| {
                    overlap((a.map(|t| t.0), b.map(|t| t.0)), (c.map(|t| t.0), d.map(|t| t.0)))
                }),
            )
            .lenient();
    }
    catalog
        .add(
            "overlaps(timestamp, interval, timestamp, interval) -> boolean",
            kernel!(try |a: Stamp, b: Step, c: Stamp, d: Step| {
                Ok(overlap((a.map(|t| t.0), end(a, b)?), (c.map(|t| t.0), end(c, d)?)))
            }),
        )
        .lenient();
    catalog
        .add(
            "overlaps(timestamp, timestamp, timestamp, interval) -> boolean",
            kernel!(try |a: Stamp, b: Stamp, c: Stamp, d: Step| {
                Ok(overlap((a.map(|t| t.0), b.map(|t| t.0)), (c.map(|t| t.0), end(c, d)?)))
            }),
        )
        .lenient();
    catalog
        .add(
            "overlaps(timestamp, interval, timestamp, timestamp) -> boolean",
            kernel!(try |a: Stamp, b: Step, c: Stamp, d: Stamp| {
                Ok(overlap((a.map(|t| t.0), end(a, b)?), (c.map(|t| t.0), d.map(|t| t.0))))
            }),
        )
        .lenient();
    zoned_overlaps(catalog);
    catalog
        .add(
            "overlaps(time, time, time, time) -> boolean",
            kernel!(|a: Clock, b: Clock, c: Clock, d: Clock| {
                overlap((a.map(|t| t.0), b.map(|t| t.0)), (c.map(|t| t.0), d.map(|t| t.0)))
            }),
        )
        .lenient();
    catalog
        .add(
            "overlaps(time, interval, time, interval) -> boolean",
            kernel!(|a: Clock, b: Step, c: Clock, d: Step| {
                overlap((a.map(|t| t.0), time_end(a, b)), (c.map(|t| t.0), time_end(c, d)))
            }),
        )
        .lenient();
}

/// OVERLAPS of instants with lengths, which are counted on the zone's wall.
fn zoned_overlaps(catalog: &mut Catalog) {
    type Stamp = Option<Timestamp>;
    type Step = Option<IntervalMonthDayNano>;
    catalog
        .add(
            "overlaps(timestamptz, interval, timestamptz, interval) -> boolean",
            kernel!(with zones: Zones; |a: Stamp, b: Step, c: Stamp, d: Step, zone: &str| {
                let zone = zones.session(zone)?;
                Ok(overlap((a.map(|t| t.0), end_in(a, b, zone)?), (c.map(|t| t.0), end_in(c, d, zone)?)))
            }),
        )
        .zoned()
        .lenient();
    catalog
        .add(
            "overlaps(timestamptz, timestamptz, timestamptz, interval) -> boolean",
            kernel!(with zones: Zones; |a: Stamp, b: Stamp, c: Stamp, d: Step, zone: &str| {
                Ok(overlap((a.map(|t| t.0), b.map(|t| t.0)), (c.map(|t| t.0), end_in(c, d, zones.session(zone)?)?)))
            }),
        )
        .zoned()
        .lenient();
    catalog
        .add(
            "overlaps(timestamptz, interval, timestamptz, timestamptz) -> boolean",
            kernel!(with zones: Zones; |a: Stamp, b: Step, c: Stamp, d: Stamp, zone: &str| {
                Ok(overlap((a.map(|t| t.0), end_in(a, b, zones.session(zone)?)?), (c.map(|t| t.0), d.map(|t| t.0))))
            }),
        )
        .zoned()
        .lenient();
}

fn end(start: Option<Timestamp>, step: Option<IntervalMonthDayNano>) -> Result<Option<i64>> {
    start.zip(step).map(|(start, step)| plus(start.0, step)).transpose()
}

fn end_in(start: Option<Timestamp>, step: Option<IntervalMonthDayNano>, zone: Zone) -> Result<Option<i64>> {
    start.zip(step).map(|(start, step)| plus_in_zone(start.0, step, zone)).transpose()
}

fn time_end(start: Option<Time>, step: Option<IntervalMonthDayNano>) -> Option<i64> {
    Some((start?.0.checked_add(time_of(step?))?).rem_euclid(DAY))
}

/// Clocks that run within a statement. Those that stand still (`now`, `current_date`) are the binder's.
fn clocks(catalog: &mut Catalog) {
    catalog
        .add(
            "clock_timestamp() -> timestamptz",
            Body::Kernel(|_, call| {
                let instant = arrow::array::TimestampMicrosecondArray::from(vec![now(); call.rows]);
                let array: ArrayRef = std::sync::Arc::new(instant.with_timezone(crate::sql_type::INSTANT_ZONE));
                Ok(ColumnarValue::Array(array))
            }),
        )
        .volatile();
}
