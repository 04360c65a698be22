//! The text form of intervals: PostgreSQL's own, SQL's and ISO 8601's are read and written.

use std::fmt::Write;

use arrow::datatypes::IntervalMonthDayNano;
use diligence_base::{Error, Result};

use super::calendar::{DAY, HOUR, MINUTE, SECOND};
use super::datetime::{
    self, Clock, FieldKind, Flaw, IntervalWord, TextField, Unit, fraction, leading_integer, leading_long,
};
use super::errors;
use super::styles::IntervalStyle;

/// Nanoseconds of a microsecond.
const MICROSECOND_NANOS: i64 = 1_000;

/// Reads an interval. In SQL's style a sign before all is that of all its parts.
pub(crate) fn parse_interval(text: &str, style: IntervalStyle) -> Result<IntervalMonthDayNano> {
    let fields = datetime::split(text).ok_or(Flaw::Format);
    let sum = fields.and_then(|fields| of_fields(&fields, style)).or_else(|flaw| match flaw {
        Flaw::Format => of_iso(text),
        flaw => Err(flaw),
    });
    let out_of_range = || Error::input(format!("interval field value out of range: \"{text}\"")).with_code("22015");
    match sum {
        Ok(sum) => sum.interval().ok_or_else(|| errors::datetime_out_of_range("interval")),
        Err(Flaw::Format) => Err(errors::datetime_syntax("interval", text)),
        Err(_) => Err(out_of_range()),
    }
}

/// The parts of an interval while they are added up.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

impl Sum {
    /// The interval. `None` if its parts are too large.
    fn interval(&self) -> Option<IntervalMonthDayNano> {
        let months = self.years.checked_mul(12)?.checked_add(self.months)?;
        Some(IntervalMonthDayNano::new(months, self.days, self.micros.checked_mul(MICROSECOND_NANOS)?))
    }

    fn add_micros(&mut self, value: i64, fraction: f64, scale: i64) -> Result<(), Flaw> {
        let added = value.checked_mul(scale).and_then(|added| self.micros.checked_add(added));
        self.micros = added.ok_or(Flaw::Overflow)?;
        self.add_fraction_micros(fraction, scale)
    }

    /// Adds a fraction of a unit, rounded to microseconds.
    fn add_fraction_micros(&mut self, fraction: f64, scale: i64) -> Result<(), Flaw> {
        let exact = fraction * scale as f64;
        let whole = exact as i64;
        let rest = exact - whole as f64;
        let rounded = whole + i64::from(rest > 0.5) - i64::from(rest < -0.5);
        self.micros = self.micros.checked_add(rounded).ok_or(Flaw::Overflow)?;
        Ok(())
    }

    fn add_days(&mut self, value: i64, fraction: f64, scale: i32) -> Result<(), Flaw> {
        self.days = added(self.days, value, scale)?;
        self.add_fraction_days(fraction, scale)
    }

    /// Adds a fraction of a unit as days, and what is left of a day as time.
    fn add_fraction_days(&mut self, fraction: f64, scale: i32) -> Result<(), Flaw> {
        let exact = fraction * f64::from(scale);
        let whole = exact as i64;
        self.days = added(self.days, whole, 1)?;
        self.add_fraction_micros(exact - whole as f64, DAY)
    }

    fn add_months(&mut self, value: i64, fraction: f64) -> Result<(), Flaw> {
        self.months = added(self.months, value, 1)?;
        self.add_fraction_days(fraction, 30)
    }

    fn add_years(&mut self, value: i64, fraction: f64, scale: i32) -> Result<(), Flaw> {
        self.years = added(self.years, value, scale)?;
        let months = (fraction * f64::from(scale) * 12.0).round_ties_even() as i64;
        self.months = added(self.months, months, 1)?;
        Ok(())
    }

    fn negated(&self) -> Result<Self, Flaw> {
        let negated = (|| {
            Some(Self {
                years: self.years.checked_neg()?,
                months: self.months.checked_neg()?,
                days: self.days.checked_neg()?,
                micros: self.micros.checked_neg()?,
            })
        })();
        negated.ok_or(Flaw::Overflow)
    }

    /// Adds so many of a unit; says which units are thereby told.
    fn add(&mut self, unit: Unit, value: i64, fraction: f64) -> Result<u32, Flaw> {
        let bit = |unit: Unit| 1_u32 << unit as u32;
        match unit {
            Unit::Microsecond => self.add_micros(value, fraction, 1)?,
            Unit::Millisecond => self.add_micros(value, fraction, 1_000)?,
            Unit::Second => {
                self.add_micros(value, fraction, SECOND)?;
                if fraction != 0.0 {
                    return Ok(SECONDS);
                }
            }
            Unit::Minute => self.add_micros(value, fraction, MINUTE)?,
            Unit::Hour => self.add_micros(value, fraction, HOUR)?,
            Unit::Day => {
                self.days = added(self.days, value, 1)?;
                self.add_fraction_micros(fraction, DAY)?;
            }
            Unit::Week => self.add_days(value, fraction, 7)?,
            Unit::Month => self.add_months(value, fraction)?,
            Unit::Year => self.add_years(value, fraction, 1)?,
            Unit::Decade => self.add_years(value, fraction, 10)?,
            Unit::Century => self.add_years(value, fraction, 100)?,
            Unit::Millennium => self.add_years(value, fraction, 1000)?,
            Unit::Julian | Unit::Time | Unit::Other => return Err(Flaw::Format),
        }
        Ok(bit(unit))
    }
}

/// Seconds and their parts, as bits of units.
const SECONDS: u32 = 1 << Unit::Second as u32 | 1 << Unit::Millisecond as u32 | 1 << Unit::Microsecond as u32;
/// All that a time with colons tells.
const CLOCK: u32 = SECONDS | 1 << Unit::Minute as u32 | 1 << Unit::Hour as u32;

fn added(sum: i32, value: i64, scale: i32) -> Result<i32, Flaw> {
    let value = i32::try_from(value).ok().and_then(|value| value.checked_mul(scale));
    value.and_then(|value| sum.checked_add(value)).ok_or(Flaw::Overflow)
}

/// PostgreSQL's form and SQL's. Fields are read from the end, since units follow their numbers.
fn of_fields(fields: &[TextField], style: IntervalStyle) -> Result<Sum, Flaw> {
    let mut sum = Sum::default();
    let mut unit = None;
    let mut told = 0;
    let mut is_ago = false;
    for field in fields.iter().rev() {
        let tells = match field.kind {
            FieldKind::Time => {
                sum.micros = clock_micros(&field.text)?;
                unit = Some(Unit::Day);
                CLOCK
            }
            FieldKind::Signed if field.text.contains(':') && clock_micros(&field.text[1..]).is_ok() => {
                let micros = clock_micros(&field.text[1..])?;
                sum.micros = if field.text.starts_with('-') { -micros } else { micros };
                unit = Some(Unit::Day);
                CLOCK
            }
            FieldKind::Signed | FieldKind::Date | FieldKind::Number => of_number(&field.text, &mut unit, &mut sum)?,
            FieldKind::Word | FieldKind::Special => {
                match datetime::of_interval(&field.text).ok_or(Flaw::Format)? {
                    IntervalWord::Unit(word) => unit = Some(word),
                    // A number before it needs a unit of its own.
                    IntervalWord::Ago => (is_ago, unit) = (true, Some(Unit::Other)),
                }
                0
            }
        };
        if told & tells != 0 {
            return Err(Flaw::Format);
        }
        told |= tells;
    }
    if told == 0 {
        return Err(Flaw::Format);
    }
    if style == IntervalStyle::SqlStandard
        && let Some((first, rest)) = fields.split_first()
        && first.text.starts_with('-')
        && !rest.iter().any(|field| field.text.starts_with(['-', '+']))
    {
        let Sum { years, months, days, micros } = sum;
        // The least number stays what it is.
        let below = |part: i32| if part > 0 { -part } else { part };
        let micros = if micros > 0 { -micros } else { micros };
        sum = Sum { years: below(years), months: below(months), days: below(days), micros };
    }
    if is_ago { sum.negated() } else { Ok(sum) }
}

/// A number of the unit that follows it, or years and months as in `1-2`.
fn of_number(text: &str, unit: &mut Option<Unit>, sum: &mut Sum) -> Result<u32, Flaw> {
    let (mut value, rest) = leading_long(text)?;
    let is_negative = text.starts_with('-');
    let mut part = 0.0;
    match rest.as_bytes().first() {
        Some(b'-') => {
            let (months, rest) = leading_integer(&rest[1..])?;
            if !(0..12).contains(&months) {
                return Err(Flaw::Overflow);
            }
            if !rest.is_empty() {
                return Err(Flaw::Format);
            }
            let months = if is_negative { -months } else { months };
            value = value.checked_mul(12).and_then(|value| value.checked_add(months)).ok_or(Flaw::Overflow)?;
            *unit = Some(Unit::Month);
        }
        Some(b'.') => part = if is_negative { -fraction(rest)? } else { fraction(rest)? },
        Some(_) => return Err(Flaw::Format),
        None => {}
    }
    let told = sum.add(unit.unwrap_or(Unit::Second), value, part)?;
    *unit = match *unit {
        Some(Unit::Hour) => Some(Unit::Day),
        Some(unit) => Some(unit),
        None => Some(Unit::Second),
    };
    Ok(told)
}

fn clock_micros(text: &str) -> Result<i64, Flaw> {
    let clock = Clock::of(text)?;
    let rest = (clock.minute * 60 + clock.second) * SECOND + clock.micros;
    clock.hour.checked_mul(HOUR).and_then(|micros| micros.checked_add(rest)).ok_or(Flaw::Overflow)
}

/// ISO 8601: `P1Y2M3DT4H5M6.5S`, `P0001-02-03T04:05:06`, `P00010203T040506`.
fn of_iso(text: &str) -> Result<Sum, Flaw> {
    let mut rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Flaw::Format)?;
    let mut sum = Sum::default();
    let (mut is_date, mut has_field) = (true, false);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (is_date, has_field, rest) = (false, false, after);
            continue;
        }
        let digits = rest.trim_start_matches('-').bytes().take_while(u8::is_ascii_digit).count();
        let (value, part, after) = iso_number(rest)?;
        let letter = after.chars().next();
        let width = if is_date { 8 } else { 6 };
        let unit = match (is_date, letter) {
            (true, Some('Y')) => Unit::Year,
            (true, Some('M')) => Unit::Month,
            (true, Some('W')) => Unit::Week,
            (true, Some('D')) => Unit::Day,
            (false, Some('H')) => Unit::Hour,
            (false, Some('M')) => Unit::Minute,
            (false, Some('S')) => Unit::Second,
            (true, Some('T') | None) | (false, None) if digits == width && !has_field => {
                let units = if is_date {
                    [Unit::Year, Unit::Month, Unit::Day]
                } else {
                    [Unit::Hour, Unit::Minute, Unit::Second]
                };
                sum.add(units[0], value / 10_000, 0.0)?;
                sum.add(units[1], value / 100 % 100, 0.0)?;
                sum.add(units[2], value % 100, part)?;
                rest = after;
                continue;
            }
            (true, Some('-' | 'T') | None) if !has_field => {
                rest = delimited(rest, '-', [Unit::Year, Unit::Month, Unit::Day], &mut sum)?;
                if !(rest.is_empty() || rest.starts_with('T')) {
                    return Err(Flaw::Format);
                }
                continue;
            }
            (false, Some(':') | None) if !has_field => {
                rest = delimited(rest, ':', [Unit::Hour, Unit::Minute, Unit::Second], &mut sum)?;
                if !rest.is_empty() {
                    return Err(Flaw::Format);
                }
                continue;
            }
            _ => return Err(Flaw::Format),
        };
        sum.add(unit, value, part)?;
        has_field = true;
        rest = &after[1..];
    }
    Ok(sum)
}

/// Up to three numbers with a delimiter between them; gives what follows.
fn delimited<'a>(text: &'a str, delimiter: char, units: [Unit; 3], sum: &mut Sum) -> Result<&'a str, Flaw> {
    let mut rest = text;
    for (index, unit) in units.into_iter().enumerate() {
        let (value, part, after) = iso_number(rest)?;
        sum.add(unit, value, part)?;
        match after.strip_prefix(delimiter) {
            Some(after) if index < 2 => rest = after,
            _ => return Ok(after),
        }
    }
    Ok(rest)
}

/// A number with an optional fraction at the beginning: the whole part, the fraction, and what follows.
fn iso_number(text: &str) -> Result<(i64, f64, &str), Flaw> {
    let is_negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = text.len() - unsigned.len();
    let whole = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let behind = match unsigned[whole..].strip_prefix('.') {
        Some(rest) => 1 + rest.bytes().take_while(u8::is_ascii_digit).count(),
        None => 0,
    };
    if whole == 0 && behind < 2 {
        return Err(Flaw::Format);
    }
    let value = match whole {
        0 => 0,
        _ => i64::from(text[..sign + whole].parse::<i32>().map_err(|_| Flaw::Overflow)?),
    };
    let part = if behind == 0 { 0.0 } else { fraction(&unsigned[whole..whole + behind])? };
    Ok((value, if is_negative { -part } else { part }, &unsigned[whole + behind..]))
}

/// Writes an interval.
pub(crate) fn write_interval(out: &mut String, interval: IntervalMonthDayNano, style: IntervalStyle) {
    match style {
        IntervalStyle::Postgres => write_postgres(out, interval),
        IntervalStyle::PostgresVerbose => write_verbose(out, &Parts::of(interval)),
        IntervalStyle::SqlStandard => write_sql(out, &Parts::of(interval)),
        IntervalStyle::Iso8601 => write_iso(out, &Parts::of(interval)),
    }
}

/// The parts that an interval is shown with.
struct Parts {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    /// Microseconds that make no minute.
    micros: i64,
}

impl Parts {
    fn of(interval: IntervalMonthDayNano) -> Self {
        let micros = interval.nanoseconds / MICROSECOND_NANOS;
        Self {
            years: i64::from(interval.months / 12),
            months: i64::from(interval.months % 12),
            days: i64::from(interval.days),
            hours: micros / HOUR,
            minutes: micros % HOUR / MINUTE,
            micros: micros % MINUTE,
        }
    }

    fn all(&self) -> [i64; 6] {
        [self.years, self.months, self.days, self.hours, self.minutes, self.micros]
    }
}

/// Seconds with their fraction, without a sign.
fn write_seconds(out: &mut String, micros: i64, has_two_digits: bool) {
    let seconds = micros.abs() / SECOND;
    match has_two_digits {
        true => datetime::write_two(out, seconds),
        false => {
            let _ = write!(out, "{seconds}");
        }
    }
    datetime::write_fraction(out, micros.abs() % SECOND);
}

/// `@ 1 year 2 mons -3 days 4 hours 5 mins 6.7 secs ago`.
fn write_verbose(out: &mut String, parts: &Parts) {
    out.push('@');
    let (mut is_zero, mut is_before) = (true, false);
    let units = ["year", "mon", "day", "hour", "min"];
    for (value, unit) in parts.all().into_iter().zip(units).filter(|(value, _)| *value != 0) {
        // The first part decides which sign is not shown.
        is_before = if is_zero { value < 0 } else { is_before };
        let value = if is_before { -value } else { value };
        let plural = if value == 1 { "" } else { "s" };
        let _ = write!(out, " {value} {unit}{plural}");
        is_zero = false;
    }
    if parts.micros != 0 {
        out.push(' ');
        match parts.micros < 0 {
            true if is_zero => is_before = true,
            true if !is_before => out.push('-'),
            false if is_before => out.push('-'),
            _ => {}
        }
        write_seconds(out, parts.micros, false);
        out.push_str(if parts.micros.abs() == SECOND { " sec" } else { " secs" });
        is_zero = false;
    }
    out.push_str(if is_zero { " 0" } else { "" });
    out.push_str(if is_before { " ago" } else { "" });
}

/// `1-2`, `3 4:05:06.7`, or all of it with signs, `+1-2 -3 +4:05:06.7`.
fn write_sql(out: &mut String, parts: &Parts) {
    let has = |parts: &[i64]| parts.iter().any(|part| *part != 0);
    let (is_negative, is_positive) =
        (parts.all().iter().any(|part| *part < 0), parts.all().iter().any(|part| *part > 0));
    let has_months = has(&[parts.years, parts.months]);
    let has_time = has(&[parts.days, parts.hours, parts.minutes, parts.micros]);
    let [years, months, days, hours, minutes, _] = parts.all().map(i64::abs);
    if !is_negative && !is_positive {
        return out.push('0');
    }
    if is_negative && is_positive || has_months && has_time {
        let sign = |parts: &[i64]| if parts.iter().any(|part| *part < 0) { '-' } else { '+' };
        let time = sign(&[parts.hours, parts.minutes, parts.micros]);
        let (first, day) = (sign(&[parts.years, parts.months]), sign(&[parts.days]));
        let _ = write!(out, "{first}{years}-{months} {day}{days} {time}{hours}:{minutes:02}:");
        return write_seconds(out, parts.micros, true);
    }
    out.push_str(if is_negative { "-" } else { "" });
    if has_months {
        let _ = write!(out, "{years}-{months}");
        return;
    }
    if days != 0 {
        let _ = write!(out, "{days} ");
    }
    let _ = write!(out, "{hours}:{minutes:02}:");
    write_seconds(out, parts.micros, true);
}

/// `P1Y2M3DT4H5M6.7S`.
fn write_iso(out: &mut String, parts: &Parts) {
    if parts.all() == [0; 6] {
        return out.push_str("PT0S");
    }
    out.push('P');
    for (place, (value, letter)) in parts.all().into_iter().zip(['Y', 'M', 'D', 'H', 'M']).enumerate() {
        if place == 3 && (parts.hours, parts.minutes, parts.micros) != (0, 0, 0) {
            out.push('T');
        }
        if value != 0 {
            let _ = write!(out, "{value}{letter}");
        }
    }
    if parts.micros != 0 {
        out.push_str(if parts.micros < 0 { "-" } else { "" });
        write_seconds(out, parts.micros, false);
        out.push('S');
    }
}

/// `1 year 2 mons 3 days 04:05:06.7`.
fn write_postgres(out: &mut String, interval: IntervalMonthDayNano) {
    let start = out.len();
    let mut is_before = false;
    for (value, unit) in [(interval.months / 12, "year"), (interval.months % 12, "mon"), (interval.days, "day")] {
        if value == 0 {
            continue;
        }
        let space = if out.len() > start { " " } else { "" };
        // A positive part after a negative one has its sign.
        let plus = if is_before && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        let _ = write!(out, "{space}{plus}{value} {unit}{plural}");
        is_before = value < 0;
    }
    let micros = interval.nanoseconds / MICROSECOND_NANOS;
    if micros == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.push(' ');
    }
    if micros < 0 {
        out.push('-');
    } else if is_before {
        out.push('+');
    }
    let micros = micros.abs();
    let hours = micros / HOUR;
    if hours < 100 {
        datetime::write_two(out, hours);
    } else {
        let _ = write!(out, "{hours}");
    }
    out.push(':');
    datetime::write_two(out, micros / MINUTE % 60);
    out.push(':');
    datetime::write_two(out, micros / SECOND % 60);
    datetime::write_fraction(out, micros % SECOND);
}
