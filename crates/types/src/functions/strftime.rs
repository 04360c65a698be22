//! `strftime` and `strptime` with C's letters, as DuckDB has them.

use std::fmt::Write;

use diligence_base::{Error, Result};

use super::calendar::{
    DAY, DAYS, Day, HOUR, MINUTE, MONTHS, SECOND, is_infinite, iso_weekday, month_length, split, timestamp_of, weekday,
};
use super::catalog::Catalog;
use super::columns::{Date, Timestamp, kernel};
use super::errors::{invalid_argument, value_error};

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add("strftime(timestamp, text) -> text", kernel!(try |at: Timestamp, format: &str| shown(at.0, format)));
    catalog.add("strftime(text, timestamp) -> text", kernel!(try |format: &str, at: Timestamp| shown(at.0, format)));
    catalog.add(
        "strptime(text, text) -> timestamp",
        kernel!(try |text: &str, format: &str| match read(text, format)? {
            Some(at) => Ok(Timestamp(at)),
            None => {
                let message = format!("could not parse \"{text}\" by the format \"{format}\"");
                Err(value_error(message, "22007"))
            }
        }),
    );
    catalog.add(
        "strptime(text, text[]) -> timestamp",
        kernel!(try |text: &str, formats: arrow::array::ArrayRef| {
            first(text, &formats)?.map(Timestamp).ok_or_else(|| {
                value_error(format!("could not parse \"{text}\" by any of the formats"), "22007")
            })
        }),
    );
    catalog.add(
        "try_strptime(text, text) -> timestamp",
        kernel!(try |text: &str, format: &str| Ok(read(text, format)?.map(Timestamp))),
    );
    catalog.add(
        "try_strptime(text, text[]) -> timestamp",
        kernel!(try |text: &str, formats: arrow::array::ArrayRef| Ok(first(text, &formats)?.map(Timestamp))),
    );
    catalog.add("dayname(date) -> text", kernel!(|a: Date| DAYS[weekday(a.0.into()) as usize]));
    catalog.add(
        "monthname(date) -> text",
        kernel!(|a: Date| MONTHS[(Day::of(a.0.into()).month - 1).clamp(0, 11) as usize]),
    );
}

fn first(text: &str, formats: &arrow::array::ArrayRef) -> Result<Option<i64>> {
    let formats = arrow::array::AsArray::as_string_view_opt(formats).ok_or_else(|| Error::bug("formats are texts"))?;
    for format in formats.iter().flatten() {
        if let Some(at) = read(text, format)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn unknown(letter: Option<char>) -> Error {
    match letter {
        Some(letter) => invalid_argument(format!("unknown format specifier %{letter}")),
        None => invalid_argument("the format ends with %"),
    }
}

/// The moment by a format. Fails with 22023 for a letter that means nothing.
fn shown(at: i64, format: &str) -> Result<Option<String>> {
    if is_infinite(at) {
        return Ok(Some(if at > 0 { "infinity" } else { "-infinity" }.to_owned()));
    }
    let (days, micros) = split(at);
    let day = Day::of(days);
    let (hour, minute, second) = (micros / HOUR, micros % HOUR / MINUTE, micros % MINUTE / SECOND);
    let week_of = |first: i64| (day.day_of_year() + 6 - (weekday(days) - first).rem_euclid(7)) / 7;
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let mut out = String::with_capacity(format.len() + 16);
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut letter = letters.next();
        let is_short = letter == Some('-');
        if is_short {
            letter = letters.next();
        }
        let number = |number: i64, width: usize| (number, if is_short { 0 } else { width });
        let (number, width) = match letter {
            Some('d') => number(day.day, 2),
            Some('m') => number(day.month, 2),
            Some('y') => number(day.year.rem_euclid(100), 2),
            Some('Y') => number(day.year, 4),
            Some('H') => number(hour, 2),
            Some('I') => number(twelve, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('f') => (micros % SECOND, 6),
            Some('g') => (micros % SECOND / 1000, 3),
            Some('n') => (micros % SECOND * 1000, 9),
            Some('j') => number(day.day_of_year(), 3),
            Some('U') => number(week_of(0), 2),
            Some('W') => number(week_of(1), 2),
            Some('V') => number(day.iso_week().1, 2),
            Some('G') => number(day.iso_week().0, 4),
            Some('w') => (weekday(days), 1),
            Some('u') => ((weekday(days) + 6) % 7 + 1, 1),
            other => {
                match other {
                    Some('a') => out.push_str(&DAYS[weekday(days) as usize][..3]),
                    Some('A') => out.push_str(DAYS[weekday(days) as usize]),
                    Some('b' | 'h') => out.push_str(&MONTHS[day.month as usize - 1][..3]),
                    Some('B') => out.push_str(MONTHS[day.month as usize - 1]),
                    Some('p') => out.push_str(if hour < 12 { "AM" } else { "PM" }),
                    Some('z') => out.push_str("+00"),
                    Some('Z') => {}
                    Some('%') => out.push('%'),
                    Some('c') => out.extend(shown(at, "%Y-%m-%d %H:%M:%S")?),
                    Some('x') => out.extend(shown(at, "%Y-%m-%d")?),
                    Some('X') => out.extend(shown(at, "%H:%M:%S")?),
                    other => return Err(unknown(other)),
                }
                continue;
            }
        };
        let _ = write!(out, "{number:0width$}");
    }
    Ok(Some(out))
}

/// What has been read of a moment.
#[derive(Default)]
struct Read {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    /// The year and the week of ISO 8601.
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    /// From 1 for Monday to 7.
    weekday: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    is_afternoon: Option<bool>,
    /// Microseconds that the zone is ahead.
    ahead: i64,
}

/// The text without what a pattern of digits takes, and the number.
fn digits(text: &str, most: usize) -> Option<(i64, &str)> {
    let length = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(length);
    Some((number.parse().ok()?, rest))
}

/// The place of a name that the text begins with, whole or its first three letters.
fn name<'t>(text: &'t str, names: &[&str], is_whole: bool) -> Option<(i64, &'t str)> {
    names.iter().enumerate().find_map(|(index, name)| {
        let name = if is_whole { name } else { &name[..3] };
        let start = text.get(..name.len())?;
        start.eq_ignore_ascii_case(name).then(|| (index as i64, &text[name.len()..]))
    })
}

/// `+02`, `-0530`, `+05:30`, `Z`.
fn zone(text: &str) -> Option<(i64, &str)> {
    if let Some(rest) = text.strip_prefix(['Z', 'z']) {
        return Some((0, rest));
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, rest) = digits(text.strip_prefix(['+', '-'])?, 2)?;
    let (minutes, rest) = digits(rest.strip_prefix(':').unwrap_or(rest), 2).unwrap_or((0, rest));
    Some((sign * (hours * HOUR + minutes * MINUTE), rest))
}

/// The moment that a text is by a format; `None` if it is none. Fails with 22023 for a letter that means nothing.
fn read(text: &str, format: &str) -> Result<Option<i64>> {
    let mut read = Read::default();
    let rest = parts(text.trim(), format, &mut read)?;
    Ok(rest.filter(|rest| rest.is_empty()).and_then(|_| moment(&read)))
}

fn parts<'t>(text: &'t str, format: &str, read: &mut Read) -> Result<Option<&'t str>> {
    let (mut rest, mut letters) = (text, format.chars());
    while let Some(letter) = letters.next() {
        if letter != '%' {
            let next = match letter.is_whitespace() {
                true => Some(rest.trim_start()),
                false => rest.strip_prefix(letter),
            };
            let Some(next) = next else { return Ok(None) };
            rest = next;
            continue;
        }
        let mut letter = letters.next();
        if letter == Some('-') {
            letter = letters.next();
        }
        let found = match letter {
            Some('d') => digits(rest, 2).map(|(day, rest)| (read.day = Some(day), rest)),
            Some('m') => digits(rest, 2).map(|(month, rest)| (read.month = Some(month), rest)),
            Some('y') => {
                digits(rest, 2).map(|(year, rest)| (read.year = Some(year + if year < 69 { 2000 } else { 1900 }), rest))
            }
            Some('Y') => digits(rest, 4).map(|(year, rest)| (read.year = Some(year), rest)),
            Some('j') => digits(rest, 3).map(|(day, rest)| (read.day_of_year = Some(day), rest)),
            Some('H' | 'I') => digits(rest, 2).map(|(hour, rest)| (read.hour = hour, rest)),
            Some('M') => digits(rest, 2).map(|(minute, rest)| (read.minute = minute, rest)),
            Some('S') => digits(rest, 2).map(|(second, rest)| (read.second = second, rest)),
            Some('f' | 'g' | 'n') => digits(rest, 9).map(|(fraction, after)| {
                let width = rest.len() - after.len();
                let micros = match width {
                    ..=6 => fraction * 10_i64.pow(6 - width as u32),
                    _ => fraction / 10_i64.pow(width as u32 - 6),
                };
                (read.micros = micros, after)
            }),
            Some('b' | 'h') => name(rest, &MONTHS, false).map(|(at, rest)| (read.month = Some(at + 1), rest)),
            Some('B') => name(rest, &MONTHS, true).map(|(at, rest)| (read.month = Some(at + 1), rest)),
            Some('a') => name(rest, &DAYS, false).map(|(_, rest)| ((), rest)),
            Some('A') => name(rest, &DAYS, true).map(|(_, rest)| ((), rest)),
            Some('G') => digits(rest, 4).map(|(year, rest)| (read.iso_year = Some(year), rest)),
            Some('V') => digits(rest, 2).map(|(week, rest)| (read.iso_week = Some(week), rest)),
            Some('u') => digits(rest, 1).map(|(day, rest)| (read.weekday = Some(day), rest)),
            // Sunday is 0.
            Some('w') => digits(rest, 1).map(|(day, rest)| (read.weekday = Some(if day == 0 { 7 } else { day }), rest)),
            Some('p') => {
                let half = rest.get(..2).map(str::to_ascii_uppercase);
                let is_afternoon = half.filter(|half| half == "AM" || half == "PM").map(|half| half == "PM");
                is_afternoon.map(|is_afternoon| (read.is_afternoon = Some(is_afternoon), &rest[2..]))
            }
            Some('z') => zone(rest).map(|(ahead, rest)| (read.ahead = ahead, rest)),
            Some('%') => rest.strip_prefix('%').map(|rest| ((), rest)),
            Some('c') => parts(rest, "%Y-%m-%d %H:%M:%S", read)?.map(|rest| ((), rest)),
            Some('x') => parts(rest, "%Y-%m-%d", read)?.map(|rest| ((), rest)),
            Some('X') => parts(rest, "%H:%M:%S", read)?.map(|rest| ((), rest)),
            other => return Err(unknown(other)),
        };
        let Some(((), next)) = found else { return Ok(None) };
        rest = next;
    }
    Ok(Some(rest))
}

/// The day of a week of ISO 8601; Monday if no day is said.
fn day_of_week(read: &Read) -> Option<i64> {
    let year = read.iso_year.or(read.year).unwrap_or(1900);
    let (week, day) = (read.iso_week.unwrap_or(1), read.weekday.unwrap_or(1));
    if !(1..=53).contains(&week) || !(1..=7).contains(&day) {
        return None;
    }
    // January 4 is in the first week.
    let fourth = Day { year, month: 1, day: 4 }.days();
    Some(fourth - (iso_weekday(fourth) - 1) + 7 * (week - 1) + day - 1)
}

/// The moment of parts that are in their ranges; what was not read is that of 1900-01-01.
fn moment(read: &Read) -> Option<i64> {
    let hour = match read.is_afternoon {
        None => read.hour,
        Some(_) if !(1..=12).contains(&read.hour) => return None,
        Some(is_afternoon) => read.hour % 12 + if is_afternoon { 12 } else { 0 },
    };
    let (year, month, day) = (read.year.unwrap_or(1900), read.month.unwrap_or(1), read.day.unwrap_or(1));
    let is_valid = (1..=12).contains(&month)
        && (1..=month_length(year, month)).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&read.minute)
        && (0..60).contains(&read.second);
    if !is_valid {
        return None;
    }
    let has_week = read.iso_year.is_some() || read.iso_week.is_some();
    let days = match read.day_of_year {
        Some(day) => (1..=366).contains(&day).then(|| Day { year, month: 1, day: 1 }.days() + day - 1)?,
        None if has_week => day_of_week(read)?,
        None => Day { year, month, day }.days(),
    };
    let micros = hour * HOUR + read.minute * MINUTE + read.second * SECOND + read.micros - read.ahead;
    timestamp_of(days + micros.div_euclid(DAY), micros.rem_euclid(DAY)).ok()
}
