//! The text form of dates, times and timestamps: read in every spelling that PostgreSQL takes, written in its styles.
//!
//! * [`fields`] cuts a text into pieces, [`words`] knows its words, [`decode`] decides what the pieces mean.

mod decode;
mod fields;
mod words;

use diligence_base::Result;

use self::decode::Decoded;
pub(crate) use self::decode::displacement;
pub(super) use self::decode::{Clock, Flaw, fraction, leading_integer, leading_long};
pub(super) use self::fields::{FieldKind, TextField, is_space, split};
pub(super) use self::words::{IntervalWord, Unit, of_interval};
use super::ReadOptions;
use super::calendar::{self, DAY, HOUR, MINUTE, SECOND};
use super::styles::{DateOrder, DateStyle, Styles};
use super::zones::Zone;

/// Reads a date: days since 1970.
pub(crate) fn parse_date(text: &str, options: &ReadOptions) -> Result<i32> {
    let day = match iso(text) {
        Some((day, None)) => day,
        _ => match decode::datetime(text, options).map_err(|flaw| flaw.error("date", text))? {
            Decoded::Local { day, .. } => day,
            Decoded::Epoch => 0,
            Decoded::Infinity => return Ok(calendar::INFINITE_DAY),
            Decoded::NegativeInfinity => return Ok(calendar::NEGATIVE_INFINITE_DAY),
        },
    };
    match (calendar::FIRST_DAY..=calendar::LAST_DAY).contains(&day) {
        true => Ok(day as i32),
        false => Err(out_of_range("date", text)),
    }
}

/// Reads a time of day: microseconds since midnight. A date and a zone are read and forgotten.
pub(crate) fn parse_time(text: &str, options: &ReadOptions) -> Result<i64> {
    if let Some(time) = iso_time(text.as_bytes()) {
        return Ok(time);
    }
    decode::time_only(text, options).map_err(|flaw| flaw.error("time", text))
}

/// Reads a timestamp without time zone: microseconds since 1970. A zone is read and forgotten.
pub(crate) fn parse_timestamp(text: &str, options: &ReadOptions) -> Result<i64> {
    parse_instant(text, "timestamp", options, |local, _| Ok(local))
}

/// Reads a timestamp with time zone: microseconds since 1970 in Greenwich.
pub(crate) fn parse_timestamptz(text: &str, options: &ReadOptions) -> Result<i64> {
    parse_instant(text, "timestamp with time zone", options, |local, zone| {
        let zone = zone.unwrap_or(options.zone);
        local
            .checked_sub(i64::from(zone.offset_of_local(local)) * SECOND)
            .ok_or_else(|| out_of_range("timestamp", text))
    })
}

fn parse_instant(
    text: &str,
    name: &str,
    options: &ReadOptions,
    instant: impl Fn(i64, Option<Zone>) -> Result<i64>,
) -> Result<i64> {
    let (day, time, zone) = match iso(text) {
        Some((day, time)) => (day, time.unwrap_or(0), None),
        None => match decode::datetime(text, options).map_err(|flaw| flaw.error(name, text))? {
            Decoded::Local { day, time, zone } => (day, time, zone),
            Decoded::Epoch => return Ok(0),
            Decoded::Infinity => return Ok(calendar::INFINITE_INSTANT),
            Decoded::NegativeInfinity => return Ok(calendar::NEGATIVE_INFINITE_INSTANT),
        },
    };
    let local = day.checked_mul(DAY).and_then(|micros| micros.checked_add(time));
    let instant = instant(local.ok_or_else(|| out_of_range("timestamp", text))?, zone)?;
    match (calendar::FIRST_INSTANT..=calendar::LAST_INSTANT).contains(&instant) {
        true => Ok(instant),
        false => Err(out_of_range("timestamp", text)),
    }
}

fn out_of_range(name: &str, text: &str) -> diligence_base::Error {
    diligence_base::Error::input(format!("{name} out of range: \"{text}\"")).with_code("22008")
}

/// The commonest spelling, `2024-01-05` or `2024-01-05 10:00:00.5`, fast. `None` for all others, errors included.
fn iso(text: &str) -> Option<(i64, Option<i64>)> {
    let bytes = text.as_bytes();
    if bytes.len() < 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let year = two_digits(bytes, 0)? * 100 + two_digits(bytes, 2)?;
    let (month, day) = (two_digits(bytes, 5)?, two_digits(bytes, 8)?);
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > calendar::days_of_month(year.into(), month) {
        return None;
    }
    let day = calendar::day_of(year.into(), month, day);
    match bytes.get(10) {
        None => Some((day, None)),
        Some(b' ' | b'T') => Some((day, Some(iso_time(&bytes[11..])?))),
        Some(_) => None,
    }
}

/// `10:00`, `10:00:00` or `10:00:00.123456` before 24:00. `None` for all others.
fn iso_time(bytes: &[u8]) -> Option<i64> {
    if bytes.len() < 5 || bytes[2] != b':' {
        return None;
    }
    let (hour, minute) = (two_digits(bytes, 0)?, two_digits(bytes, 3)?);
    let (second, micros) = match &bytes[5..] {
        [] => (0, 0),
        [b':', rest @ ..] if rest.len() == 2 => (two_digits(rest, 0)?, 0),
        [b':', rest @ ..] if (4..=9).contains(&rest.len()) && rest[2] == b'.' => {
            let mut micros = 0;
            for index in 0..6 {
                let digit = rest.get(3 + index).copied().unwrap_or(b'0');
                if !digit.is_ascii_digit() {
                    return None;
                }
                micros = micros * 10 + u32::from(digit - b'0');
            }
            (two_digits(rest, 0)?, micros)
        }
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(i64::from(hour * 3600 + minute * 60 + second) * SECOND + i64::from(micros))
}

fn two_digits(bytes: &[u8], at: usize) -> Option<u32> {
    match bytes.get(at..at + 2)? {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Some(u32::from(tens - b'0') * 10 + u32::from(ones - b'0')),
        _ => None,
    }
}

/// Writes a date.
pub(crate) fn write_date(out: &mut String, day: i32, styles: &Styles) {
    match day {
        calendar::INFINITE_DAY => out.push_str("infinity"),
        calendar::NEGATIVE_INFINITE_DAY => out.push_str("-infinity"),
        _ => {
            let is_before_era = write_day(out, day.into(), styles);
            write_era(out, is_before_era);
        }
    }
}

/// Writes a time of day.
pub(crate) fn write_time(out: &mut String, time: i64) {
    // Files may have times beyond a day.
    let time = if time == DAY { time } else { time.rem_euclid(DAY) };
    write_two(out, time / HOUR);
    out.push(':');
    write_two(out, time / MINUTE % 60);
    out.push(':');
    write_two(out, time / SECOND % 60);
    write_fraction(out, time % SECOND);
}

/// Writes a timestamp without time zone.
pub(crate) fn write_timestamp(out: &mut String, instant: i64, styles: &Styles) {
    match instant {
        calendar::INFINITE_INSTANT => out.push_str("infinity"),
        calendar::NEGATIVE_INFINITE_INSTANT => out.push_str("-infinity"),
        _ => {
            let is_before_era = write_local(out, instant, styles);
            write_era(out, is_before_era);
        }
    }
}

/// Writes a timestamp with time zone as it is in a zone.
pub(crate) fn write_timestamptz(out: &mut String, instant: i64, zone: &Zone) {
    let styles = zone.styles();
    if calendar::is_infinite(instant) {
        return write_timestamp(out, instant, styles);
    }
    let offset = zone.offset_at(instant);
    let is_before_era = write_local(out, instant.saturating_add(i64::from(offset) * SECOND), styles);
    let name = if styles.date == DateStyle::Iso { None } else { zone.abbreviation_at(instant) };
    out.push_str(if styles.date == DateStyle::Iso { "" } else { " " });
    match name {
        Some(name) => out.push_str(&name),
        None => write_offset(out, offset),
    }
    write_era(out, is_before_era);
}

fn write_offset(out: &mut String, offset: i32) {
    out.push(if offset < 0 { '-' } else { '+' });
    let seconds = i64::from(offset.abs());
    write_two(out, seconds / 3600);
    if seconds % 3600 != 0 {
        out.push(':');
        write_two(out, seconds / 60 % 60);
    }
    if seconds % 60 != 0 {
        out.push(':');
        write_two(out, seconds % 60);
    }
}

/// Writes date and time; says whether the year is before the era.
fn write_local(out: &mut String, local: i64, styles: &Styles) -> bool {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let day = local.div_euclid(DAY);
    if styles.date != DateStyle::Postgres {
        let is_before_era = write_day(out, day, styles);
        out.push(' ');
        write_time(out, local.rem_euclid(DAY));
        return is_before_era;
    }
    let (year, month, of_month) = calendar::date_of(day);
    // The first day of 1970 was a Thursday.
    out.push_str(WEEKDAYS[day.rem_euclid(7) as usize]);
    out.push(' ');
    let month = MONTHS[month as usize - 1];
    match styles.order {
        DateOrder::Dmy => {
            write_two(out, of_month.into());
            out.push(' ');
            out.push_str(month);
        }
        _ => {
            out.push_str(month);
            out.push(' ');
            write_two(out, of_month.into());
        }
    }
    out.push(' ');
    write_time(out, local.rem_euclid(DAY));
    out.push(' ');
    write_year(out, year);
    year <= 0
}

/// Writes a date; says whether the year is before the era.
fn write_day(out: &mut String, day: i64, styles: &Styles) -> bool {
    let (year, month, day) = calendar::date_of(day);
    let sign = match styles.date {
        DateStyle::Iso | DateStyle::Postgres => '-',
        DateStyle::Sql => '/',
        DateStyle::German => '.',
    };
    let parts = match (styles.date, styles.order) {
        (DateStyle::Iso, _) => {
            write_year(out, year);
            out.push(sign);
            [month, day]
        }
        (DateStyle::German, _) | (_, DateOrder::Dmy) => [day, month],
        _ => [month, day],
    };
    write_two(out, parts[0].into());
    out.push(sign);
    write_two(out, parts[1].into());
    if styles.date != DateStyle::Iso {
        out.push(sign);
        write_year(out, year);
    }
    year <= 0
}

fn write_year(out: &mut String, year: i64) {
    let shown = if year > 0 { year } else { 1 - year };
    if shown < 10_000 {
        write_two(out, shown / 100);
        write_two(out, shown % 100);
    } else {
        out.push_str(&shown.to_string());
    }
}

fn write_era(out: &mut String, is_before_era: bool) {
    if is_before_era {
        out.push_str(" BC");
    }
}

/// Writes a number below 100 with two digits.
pub(super) fn write_two(out: &mut String, number: i64) {
    let digit = |digit: i64| char::from(b'0' + (digit % 10) as u8);
    out.push(digit(number / 10));
    out.push(digit(number));
}

/// Writes microseconds as the fraction of a second, without zeros at the end.
pub(super) fn write_fraction(out: &mut String, micros: i64) {
    if micros == 0 {
        return;
    }
    out.push('.');
    let (mut rest, mut place) = (micros, 100_000);
    while rest > 0 {
        out.push(char::from(b'0' + (rest / place) as u8));
        rest %= place;
        place /= 10;
    }
}
