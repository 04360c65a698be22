//! Moments in paths: what `.datetime()` makes of a text, how moments are shown and compared.

use std::cmp::Ordering;

use diligence_base::{Error, Result};

use super::super::super::calendar::{DAY, Day, HOUR, MINUTE, SECOND};
use super::super::super::errors::value_error;
use super::super::super::formatting::{ReadMoment, read_moment};
use crate::text::Zone;

/// A moment is held as a text that begins with this letter, which no text of `jsonb` has.
const MARK: char = '\0';

/// What a moment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MomentKind {
    Date,
    Time,
    TimeTz,
    Timestamp,
    TimestampTz,
}

/// A date, a time or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    kind: MomentKind,
    /// Microseconds on a wall: since 1970, or of the day.
    wall: i64,
    /// Seconds to the east of Greenwich.
    offset: i64,
}

impl Moment {
    /// The moment that a held text is; `None` for other texts.
    pub(super) fn held(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(MARK)?.split(',');
        let mut next = || parts.next().and_then(|part| part.parse::<i64>().ok());
        let (kind, wall, offset) = (next()?, next()?, next()?);
        let kind = match kind {
            0 => MomentKind::Date,
            1 => MomentKind::Time,
            2 => MomentKind::TimeTz,
            3 => MomentKind::Timestamp,
            _ => MomentKind::TimestampTz,
        };
        Some(Self { kind, wall, offset })
    }

    /// The text that holds the moment.
    pub(super) fn hold(self) -> String {
        format!("{MARK}{},{},{}", self.kind as u8, self.wall, self.offset)
    }

    /// The moment of a text in ISO's form. Fails with 22007 if it has another form.
    pub(super) fn read(text: &str) -> Result<Self> {
        let unknown = || {
            let error = value_error(format!("datetime format is not recognized: \"{text}\""), "22007");
            error.with_hint("Use a datetime template argument to specify the input data format.")
        };
        iso_moment(text).ok_or_else(unknown)
    }

    /// The moment of a text that is written as a template says. Fails with 22007 or 22008 if it is not.
    pub(super) fn read_as(text: &str, template: &str) -> Result<Self> {
        let ReadMoment { days, time, offset } = read_moment(text, template)?;
        let kind = match (days, time, offset) {
            (Some(_), None, None) => MomentKind::Date,
            (None, _, None) => MomentKind::Time,
            (None, _, Some(_)) => MomentKind::TimeTz,
            (Some(_), _, None) => MomentKind::Timestamp,
            (Some(_), _, Some(_)) => MomentKind::TimestampTz,
        };
        let wall = days.unwrap_or(0).checked_mul(DAY).and_then(|days| days.checked_add(time.unwrap_or(0)));
        let wall = wall.ok_or_else(|| value_error("timestamp out of range", "22008"))?;
        Ok(Self { kind, wall, offset: offset.unwrap_or(0) })
    }

    /// The name of its type.
    pub(super) fn type_name(self) -> &'static str {
        match self.kind {
            MomentKind::Date => "date",
            MomentKind::Time => "time without time zone",
            MomentKind::TimeTz => "time with time zone",
            MomentKind::Timestamp => "timestamp without time zone",
            MomentKind::TimestampTz => "timestamp with time zone",
        }
    }

    /// The text that `jsonb` gets.
    pub(super) fn shown(self) -> String {
        let (days, time) = (self.wall.div_euclid(DAY), self.wall.rem_euclid(DAY));
        let Day { year, month, day } = Day::of(days);
        let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
        let date = format!("{year:04}-{month:02}-{day:02}");
        let mut clock = format!("{:02}:{:02}:{:02}", time / HOUR, time / MINUTE % 60, time / SECOND % 60);
        if time % SECOND != 0 {
            clock.push_str(format!(".{:06}", time % SECOND).trim_end_matches('0'));
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        let zone = format!("{sign}{:02}:{:02}", self.offset.abs() / 3600, self.offset.abs() / 60 % 60);
        match self.kind {
            MomentKind::Date => format!("{date}{era}"),
            MomentKind::Time => clock,
            MomentKind::TimeTz => format!("{clock}{zone}"),
            MomentKind::Timestamp => format!("{date}T{clock}{era}"),
            MomentKind::TimestampTz => format!("{date}T{clock}{zone}{era}"),
        }
    }

    /// The order of two moments; `None` if they are not compared. Moments without a zone are in the session's. Fails
    /// with 0A000 if that is needed and there is none.
    pub(super) fn compare(self, other: Self, zone: Option<Zone>) -> Result<Option<Ordering>> {
        if self.has_date() != other.has_date() {
            return Ok(None);
        }
        if self.has_zone() == other.has_zone() {
            let order = self.instant().cmp(&other.instant());
            // Of times with a zone that are at once, the one of the zone further to the west comes later.
            let is_tie = order.is_eq() && self.kind == MomentKind::TimeTz;
            return Ok(Some(if is_tie { other.offset.cmp(&self.offset) } else { order }));
        }
        let (left, right) = (self.zoned(other.kind, zone)?, other.zoned(self.kind, zone)?);
        Ok(Some(left.instant().cmp(&right.instant())))
    }

    fn has_date(self) -> bool {
        matches!(self.kind, MomentKind::Date | MomentKind::Timestamp | MomentKind::TimestampTz)
    }

    fn has_zone(self) -> bool {
        matches!(self.kind, MomentKind::TimeTz | MomentKind::TimestampTz)
    }

    fn instant(self) -> i64 {
        self.wall.saturating_sub(self.offset * SECOND)
    }

    /// The moment with the session's zone, if it has none.
    fn zoned(self, wanted: MomentKind, zone: Option<Zone>) -> Result<Self> {
        if self.has_zone() {
            return Ok(self);
        }
        let wanted_name = if wanted == MomentKind::TimeTz { "timetz" } else { "timestamptz" };
        let name = match self.kind {
            MomentKind::Date => "date",
            MomentKind::Timestamp => "timestamp",
            _ => "time",
        };
        let Some(zone) = zone else {
            let message = format!("cannot convert value from {name} to {wanted_name} without time zone usage");
            let error = Error::unsupported(message).with_code("0A000");
            return Err(error.with_hint("Use *_tz() function for time zone support."));
        };
        let instant = zone.to_instant(self.wall)?;
        Ok(Self { kind: wanted, offset: (self.wall - instant) / SECOND, ..self })
    }
}

fn iso_moment(text: &str) -> Option<Moment> {
    let (date, clock) = match text.find([' ', 'T']) {
        Some(place) => (Some(&text[..place]), Some(&text[place + 1..])),
        None if text.contains(':') => (None, Some(text)),
        None => (Some(text), None),
    };
    let days = date.map_or(Some(0), iso_days)?;
    let Some(clock) = clock else { return Some(Moment { kind: MomentKind::Date, wall: days * DAY, offset: 0 }) };
    let (clock, offset) = match clock.find(['+', '-']) {
        Some(place) => (&clock[..place], Some(iso_offset(&clock[place..])?)),
        None => (clock, None),
    };
    let kind = match (date.is_some(), offset.is_some()) {
        (false, false) => MomentKind::Time,
        (false, true) => MomentKind::TimeTz,
        (true, false) => MomentKind::Timestamp,
        (true, true) => MomentKind::TimestampTz,
    };
    Some(Moment { kind, wall: days * DAY + iso_time(clock)?, offset: offset.unwrap_or(0) })
}

/// A number of at most so many digits.
fn digits(text: &str, length_max: usize) -> Option<i64> {
    let is_number = (1..=length_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn iso_days(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let year = digits(parts.next()?, 6)?;
    let (month, day) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let told = Day { year, month, day };
    let is_right = parts.next().is_none() && (1..290_000).contains(&year) && (1..=12).contains(&month);
    (is_right && (1..=told.month_length()).contains(&day)).then(|| told.days())
}

fn iso_time(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = whole.split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = digits(parts.next()?, 2)?;
    let micros = digits(fraction, 6)? * 10_i64.pow(6 - fraction.len() as u32);
    let is_right = parts.next().is_none() && hour < 24 && minute < 60 && second < 60;
    is_right.then_some(hour * HOUR + minute * MINUTE + second * SECOND + micros)
}

/// Seconds of an offset such as `+05` and `-05:30`.
fn iso_offset(text: &str) -> Option<i64> {
    let (hours, minutes) = text[1..].split_once(':').unwrap_or((&text[1..], "0"));
    let seconds = digits(hours, 2)? * 3600 + digits(minutes, 2)? * 60;
    Some(if text.starts_with('-') { -seconds } else { seconds })
}
