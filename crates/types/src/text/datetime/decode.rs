//! Decides what the fields of a date or time mean (PostgreSQL's `DecodeDateTime` and `DecodeTimeOnly`).

use diligence_base::Error;

use super::fields::{self, FieldKind, TextField};
use super::words::{self, Reserved, Unit, Word};
use crate::text::calendar::{self, DAY, SECOND};
use crate::text::styles::DateOrder;
use crate::text::zones::Zone;
use crate::text::{ReadOptions, errors};

/// What is wrong with a text.
#[derive(Debug)]
pub(crate) enum Flaw {
    /// It does not look like a date or time.
    Format,
    /// A part of it is too large.
    Overflow,
    /// A month or a day is, which may mean that they were swapped.
    MonthOrDay,
    /// The zone's offset is too large.
    Displacement,
    /// The zone is not known.
    Zone(String),
    /// It depends on the time of the statement, which nobody told.
    Now,
}

impl Flaw {
    /// The error of a text with this flaw.
    pub(crate) fn error(self, type_name: &str, text: &str) -> Error {
        let out_of_range =
            || Error::input(format!("date/time field value out of range: \"{text}\"")).with_code("22008");
        match self {
            Self::Format => errors::datetime_syntax(type_name, text),
            Self::Overflow => out_of_range(),
            Self::MonthOrDay => out_of_range().with_hint("Perhaps you need a different \"datestyle\" setting."),
            Self::Displacement => {
                Error::input(format!("time zone displacement out of range: \"{text}\"")).with_code("22009")
            }
            Self::Zone(name) => errors::unknown_zone(&name),
            Self::Now => Error::input(format!("\"{text}\" cannot be read here, since it depends on the current time"))
                .with_code("0A000")
                .with_hint("Use current_date or now()"),
        }
    }
}

/// Which parts a text has told so far, as bits.
type PartSet = u32;

const YEAR: PartSet = 1 << 0;
const MONTH: PartSet = 1 << 1;
const DAY_PART: PartSet = 1 << 2;
const HOUR: PartSet = 1 << 3;
const MINUTE: PartSet = 1 << 4;
const SECOND_PART: PartSet = 1 << 5;
const ZONE: PartSet = 1 << 6;
const DAYLIGHT: PartSet = 1 << 7;
const DAY_OF_YEAR: PartSet = 1 << 8;
const WEEKDAY: PartSet = 1 << 9;
const HALF: PartSet = 1 << 10;
const ERA: PartSet = 1 << 11;
const YEAR_AND_MONTH: PartSet = YEAR | MONTH;
const MONTH_AND_DAY: PartSet = MONTH | DAY_PART;
const DATE: PartSet = YEAR | MONTH | DAY_PART;
const TIME: PartSet = HOUR | MINUTE | SECOND_PART;

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// A local time: days since 1970, microseconds since midnight, and the zone, if it tells one.
    Local {
        day: i64,
        time: i64,
        zone: Option<Zone>,
    },
    Epoch,
    Infinity,
    NegativeInfinity,
}

/// Reads a text as a date with or without a time.
pub(super) fn datetime(text: &str, options: &ReadOptions) -> Result<Decoded, Flaw> {
    let fields = fields::split(text).ok_or(Flaw::Format)?;
    let mut decoder = Decoder::new(options, false);
    decoder.read(&fields)?;
    if let Some(special) = decoder.special {
        return Ok(special);
    }
    if decoder.parts & DATE != DATE {
        return Err(Flaw::Format);
    }
    decoder.check_zone()?;
    Ok(Decoded::Local {
        day: calendar::day_of(decoder.year, decoder.month as u32, decoder.day as u32),
        time: decoder.time(),
        zone: decoder.zone,
    })
}

/// Reads a text as a time: microseconds since midnight.
pub(super) fn time_only(text: &str, options: &ReadOptions) -> Result<i64, Flaw> {
    let fields = fields::split(text).ok_or(Flaw::Format)?;
    let mut decoder = Decoder::new(options, true);
    decoder.read(&fields)?;
    if decoder.special.is_some() || decoder.parts & TIME != TIME {
        return Err(Flaw::Format);
    }
    decoder.check_zone()?;
    // The offset of such a zone depends on the date.
    if decoder.zone.is_some_and(|zone| zone.fixed_offset().is_none()) && decoder.parts & DATE != DATE {
        return Err(Flaw::Format);
    }
    Ok(decoder.time())
}

struct Decoder<'a> {
    options: &'a ReadOptions,
    is_time_only: bool,
    parts: PartSet,
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    zone: Option<Zone>,
    /// The unit that the field before said its follower has.
    announced: Option<Unit>,
    special: Option<Decoded>,
    is_before_era: bool,
    is_after_noon: Option<bool>,
    has_month_name: bool,
    has_short_year: bool,
    is_julian: bool,
}

impl<'a> Decoder<'a> {
    fn new(options: &'a ReadOptions, is_time_only: bool) -> Self {
        Self {
            options,
            is_time_only,
            parts: 0,
            year: 0,
            month: 0,
            day: 0,
            day_of_year: 0,
            hour: 0,
            minute: 0,
            second: 0,
            micros: 0,
            zone: None,
            announced: None,
            special: None,
            is_before_era: false,
            is_after_noon: None,
            has_month_name: false,
            has_short_year: false,
            is_julian: false,
        }
    }

    fn read(&mut self, fields: &[TextField]) -> Result<(), Flaw> {
        for index in 0..fields.len() {
            let told = self.field(fields, index)?;
            if told & self.parts != 0 {
                return Err(Flaw::Format);
            }
            self.parts |= told;
        }
        if self.special.is_some() {
            return Ok(());
        }
        self.finish_date()?;
        self.finish_time()
    }

    /// Microseconds since midnight.
    fn time(&self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * SECOND + self.micros
    }

    fn has(&self, parts: PartSet) -> bool {
        self.parts & parts == parts
    }

    fn field(&mut self, fields: &[TextField], index: usize) -> Result<PartSet, Flaw> {
        let TextField { kind, text } = &fields[index];
        match kind {
            FieldKind::Date if self.is_time_only => self.date_field_of_time(fields, index),
            FieldKind::Date => self.date_field(text),
            FieldKind::Time => {
                if self.announced.take().is_some_and(|unit| unit != Unit::Time) {
                    return Err(Flaw::Format);
                }
                let clock = Clock::of(text)?;
                self.set_clock(clock)?;
                Ok(TIME)
            }
            FieldKind::Signed => {
                self.zone = Some(Zone::fixed(displacement(text)?));
                Ok(ZONE)
            }
            FieldKind::Number => match self.announced.take() {
                Some(unit) => self.announced_number(text, unit),
                None if self.is_time_only => self.number_of_time(fields, index),
                None => self.number(text),
            },
            FieldKind::Word | FieldKind::Special => self.word(fields, index),
        }
    }

    fn set_clock(&mut self, clock: Clock) -> Result<(), Flaw> {
        (self.hour, self.minute, self.second, self.micros) = (clock.hour, clock.minute, clock.second, clock.micros);
        if self.hour > 24 || self.time() > DAY {
            return Err(Flaw::Overflow);
        }
        Ok(())
    }

    /// `2024-01-05`, `Jan-5-2024`, `America/New_York`, or a time and a zone as in `040506-08`.
    fn date_field(&mut self, text: &str) -> Result<PartSet, Flaw> {
        if self.announced == Some(Unit::Julian) {
            self.announced = None;
            let (julian, rest) = leading_integer(text)?;
            self.set_julian(julian)?;
            self.zone = Some(Zone::fixed(displacement(rest)?));
            return Ok(DATE | TIME | ZONE);
        }
        if self.announced.is_none() && !self.has(MONTH | DAY_PART) {
            return self.date(text);
        }
        let is_announced = self.announced.is_some();
        if !is_announced && !text.starts_with(|first: char| first.is_ascii_digit()) {
            return self.named_zone(text);
        }
        if self.announced.take().is_some_and(|unit| unit != Unit::Time) || self.has(TIME) {
            return Err(Flaw::Format);
        }
        self.time_and_zone(text, self.parts)
    }

    /// As [`date_field`](Self::date_field), where only a time is wanted.
    fn date_field_of_time(&mut self, fields: &[TextField], index: usize) -> Result<PartSet, Flaw> {
        let text = &fields[index].text;
        let is_last_a_date = fields.last().is_some_and(|field| field.kind == FieldKind::Date);
        if index == 0 && fields.len() >= 2 && (is_last_a_date || fields[1].kind == FieldKind::Time) {
            return self.date(text);
        }
        if !text.starts_with(|first: char| first.is_ascii_digit()) {
            return self.named_zone(text);
        }
        if self.has(TIME) {
            return Err(Flaw::Format);
        }
        self.time_and_zone(text, self.parts | DATE)
    }

    fn named_zone(&mut self, text: &str) -> Result<PartSet, Flaw> {
        self.zone = Some(Zone::of_name(text).ok_or_else(|| Flaw::Zone(text.to_owned()))?);
        Ok(ZONE)
    }

    /// `040506-08`.
    fn time_and_zone(&mut self, text: &str, parts: PartSet) -> Result<PartSet, Flaw> {
        let (time, _) = text.split_once('-').ok_or(Flaw::Format)?;
        self.zone = Some(Zone::fixed(displacement(&text[time.len()..])?));
        Ok(self.digits(time, parts)? | ZONE)
    }

    /// A date whose parts have delimiters.
    fn date(&mut self, text: &str) -> Result<PartSet, Flaw> {
        let mut rest = text;
        let mut parts: Vec<&str> = Vec::with_capacity(3);
        while !rest.is_empty() {
            rest = rest.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric());
            let is_number = rest.starts_with(|first: char| first.is_ascii_digit());
            let end = rest
                .find(|letter: char| match is_number {
                    true => !letter.is_ascii_digit(),
                    false => !letter.is_ascii_alphabetic(),
                })
                .unwrap_or(rest.len());
            if end == 0 || parts.len() == 25 {
                return Err(Flaw::Format);
            }
            parts.push(&rest[..end]);
            // Whatever follows a part is taken for its delimiter, as PostgreSQL does.
            let mut after = rest[end..].chars();
            after.next();
            rest = after.as_str();
        }
        let (mut known, mut told) = (self.parts, 0);
        let mut has_month_name = false;
        for part in parts.iter().filter(|part| part.starts_with(|first: char| first.is_ascii_alphabetic())) {
            match words::of_date(part) {
                Some(Word::Ignored) => continue,
                Some(Word::Month(month)) => self.month = i64::from(month),
                _ => return Err(Flaw::Format),
            }
            if known & MONTH != 0 {
                return Err(Flaw::Format);
            }
            has_month_name = true;
            (known, told) = (known | MONTH, told | MONTH);
        }
        for part in parts.iter().filter(|part| part.starts_with(|first: char| first.is_ascii_digit())) {
            let part = self.part(part, has_month_name, known)?;
            if known & part != 0 {
                return Err(Flaw::Format);
            }
            (known, told) = (known | part, told | part);
        }
        if known & !(DAY_OF_YEAR | ZONE) != DATE {
            return Err(Flaw::Format);
        }
        Ok(told)
    }

    /// A number that nothing announced, in a date with or without a time.
    fn number(&mut self, text: &str) -> Result<PartSet, Flaw> {
        let point = text.find('.');
        if point.is_some() && self.parts & DATE == 0 {
            self.date(text)
        } else if point.is_some_and(|point| point > 2) || (text.len() >= 6 && (!self.has(DATE) || !self.has(TIME))) {
            self.digits(text, self.parts)
        } else {
            self.part(text, self.has_month_name, self.parts)
        }
    }

    /// A number that nothing announced, where only a time is wanted.
    fn number_of_time(&mut self, fields: &[TextField], index: usize) -> Result<PartSet, Flaw> {
        let text = &fields[index].text;
        match text.find('.') {
            Some(point) => {
                let is_last_a_date = fields.last().is_some_and(|field| field.kind == FieldKind::Date);
                if index == 0 && fields.len() >= 2 && is_last_a_date {
                    self.date(text)
                } else if point > 2 {
                    self.digits(text, self.parts | DATE)
                } else {
                    Err(Flaw::Format)
                }
            }
            None if text.len() > 4 => self.digits(text, self.parts | DATE),
            None => self.part(text, false, self.parts | DATE),
        }
    }

    /// A number whose unit the field before it told: `d12`, `T040506`, `J2451187.5`.
    fn announced_number(&mut self, text: &str, unit: Unit) -> Result<PartSet, Flaw> {
        let (value, rest) = leading_integer(text)?;
        let takes_fraction = matches!(unit, Unit::Julian | Unit::Time | Unit::Second);
        if !(rest.is_empty() || (rest.starts_with('.') && takes_fraction)) {
            return Err(Flaw::Format);
        }
        Ok(match unit {
            Unit::Year => {
                self.year = value;
                YEAR
            }
            // After a month and an hour, "m" is a minute.
            Unit::Month if self.has(MONTH | HOUR) => {
                self.minute = value;
                MINUTE
            }
            Unit::Month => {
                self.month = value;
                MONTH
            }
            Unit::Day => {
                self.day = value;
                DAY_PART
            }
            Unit::Hour => {
                self.hour = value;
                HOUR
            }
            Unit::Minute => {
                self.minute = value;
                MINUTE
            }
            Unit::Second => {
                self.second = value;
                if !rest.is_empty() {
                    self.micros = fraction_micros(rest)?;
                }
                SECOND_PART
            }
            Unit::Julian => {
                self.set_julian(value)?;
                if rest.is_empty() {
                    DATE
                } else {
                    let time = (fraction(rest)? * DAY as f64) as i64;
                    self.hour = time / calendar::HOUR;
                    self.minute = time / calendar::MINUTE % 60;
                    self.second = time / SECOND % 60;
                    self.micros = time % SECOND;
                    DATE | TIME
                }
            }
            Unit::Time => match self.digits(text, self.parts | DATE)? {
                TIME => TIME,
                _ => return Err(Flaw::Format),
            },
            _ => return Err(Flaw::Format),
        })
    }

    fn set_julian(&mut self, julian: i64) -> Result<(), Flaw> {
        if julian < 0 {
            return Err(Flaw::Overflow);
        }
        let (year, month, day) = calendar::date_of(julian - calendar::EPOCH_JULIAN);
        (self.year, self.month, self.day) = (year, i64::from(month), i64::from(day));
        self.is_julian = true;
        Ok(())
    }

    /// One number: a year, a month or a day, by what is known already.
    fn part(&mut self, text: &str, has_month_name: bool, known: PartSet) -> Result<PartSet, Flaw> {
        let (value, rest) = leading_integer(text)?;
        if rest.starts_with('.') {
            if text.len() - rest.len() > 2 {
                return self.digits(text, known | DATE);
            }
            self.micros = fraction_micros(rest)?;
        } else if !rest.is_empty() {
            return Err(Flaw::Format);
        }
        if text.len() == 3 && known & DATE == YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(DAY_OF_YEAR | MONTH | DAY_PART);
        }
        let (is_long, order) = (text.len() >= 3, self.options.zone.styles().order);
        let part = match known & DATE {
            0 if is_long || order == DateOrder::Ymd => YEAR,
            0 if order == DateOrder::Dmy => DAY_PART,
            0 => MONTH,
            YEAR => MONTH,
            MONTH if has_month_name && (is_long || order == DateOrder::Ymd) => YEAR,
            MONTH => DAY_PART,
            YEAR_AND_MONTH if has_month_name && is_long && self.has_short_year => {
                // The first number was the day, then, and not the year.
                self.day = self.year;
                self.year = value;
                self.has_short_year = false;
                return Ok(DAY_PART);
            }
            YEAR_AND_MONTH => DAY_PART,
            DAY_PART => MONTH,
            MONTH_AND_DAY => YEAR,
            DATE => return self.digits(text, known),
            _ => return Err(Flaw::Format),
        };
        match part {
            YEAR => {
                self.year = value;
                self.has_short_year = text.len() <= 2;
            }
            MONTH => self.month = value,
            _ => self.day = value,
        }
        Ok(part)
    }

    /// A date or a time without delimiters: `20240105`, `040506.789`, `0405`.
    fn digits(&mut self, text: &str, known: PartSet) -> Result<PartSet, Flaw> {
        let (digits, micros) = match text.find('.') {
            Some(point) => (&text[..point], Some((fraction(&text[point..])? * 1e6).round_ties_even() as i64)),
            None => (text, None),
        };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Flaw::Format);
        }
        let number = |range: std::ops::Range<usize>| digits[range].parse::<i64>().unwrap_or(i64::from(i32::MAX));
        let length = digits.len();
        if micros.is_none() && known & DATE != DATE && length >= 6 {
            self.day = number(length - 2..length);
            self.month = number(length - 4..length - 2);
            self.year = number(0..length - 4).min(i64::from(i32::MAX));
            self.has_short_year |= length == 6;
            return Ok(DATE);
        }
        if known & TIME != TIME && (length == 6 || length == 4) {
            let second = if length == 6 { number(4..6) } else { 0 };
            (self.hour, self.minute, self.second) = (number(0..2), number(2..4), second);
            self.micros = micros.unwrap_or(self.micros);
            return Ok(TIME);
        }
        Err(Flaw::Format)
    }

    fn word(&mut self, fields: &[TextField], index: usize) -> Result<PartSet, Flaw> {
        let text = fields[index].text.as_str();
        if let Some(zone) = Zone::of_abbreviation(text) {
            self.zone = Some(zone);
            return Ok(ZONE);
        }
        match words::of_date(text) {
            Some(Word::Ignored) => Ok(0),
            Some(Word::Reserved(reserved)) => self.reserved(reserved),
            Some(Word::Month(_) | Word::Weekday) if self.is_time_only => Err(Flaw::Format),
            Some(Word::Month(month)) => {
                // A number before it was taken for the month, but was the day.
                let was_day =
                    self.has(MONTH) && !self.has_month_name && !self.has(DAY_PART) && (1..=31).contains(&self.month);
                let told = if was_day {
                    self.day = self.month;
                    DAY_PART
                } else {
                    MONTH
                };
                self.has_month_name = true;
                self.month = i64::from(month);
                Ok(told)
            }
            Some(Word::Weekday) => Ok(WEEKDAY),
            Some(Word::Era { is_before }) => {
                self.is_before_era = is_before;
                Ok(ERA)
            }
            Some(Word::Half { is_after_noon }) => {
                self.is_after_noon = Some(is_after_noon);
                Ok(HALF)
            }
            Some(Word::DaylightSaving) => match self.zone.and_then(|zone| zone.fixed_offset()) {
                Some(offset) => {
                    self.zone = Some(Zone::fixed(offset + 3600));
                    Ok(DAYLIGHT)
                }
                _ => Err(Flaw::Format),
            },
            Some(Word::Unit(Unit::Time)) => {
                let follows = fields.get(index + 1).map(|field| field.kind);
                let is_time = matches!(follows, Some(FieldKind::Number | FieldKind::Time | FieldKind::Date));
                if !is_time || !(self.is_time_only || self.has(DATE)) {
                    return Err(Flaw::Format);
                }
                self.announced = Some(Unit::Time);
                Ok(0)
            }
            Some(Word::Unit(unit)) => {
                self.announced = Some(unit);
                Ok(0)
            }
            None => {
                self.zone = Some(Zone::of_name(text).ok_or(Flaw::Format)?);
                Ok(ZONE)
            }
        }
    }

    fn reserved(&mut self, reserved: Reserved) -> Result<PartSet, Flaw> {
        if self.is_time_only && !matches!(reserved, Reserved::Now | Reserved::Midnight) {
            return Err(Flaw::Format);
        }
        let days = match reserved {
            Reserved::Epoch | Reserved::Infinity | Reserved::NegativeInfinity => {
                self.special = Some(match reserved {
                    Reserved::Epoch => Decoded::Epoch,
                    Reserved::Infinity => Decoded::Infinity,
                    _ => Decoded::NegativeInfinity,
                });
                return Ok(DATE | TIME | ZONE);
            }
            Reserved::Midnight => {
                (self.hour, self.minute, self.second, self.micros) = (0, 0, 0, 0);
                self.zone = Some(Zone::UTC);
                return Ok(TIME | ZONE);
            }
            Reserved::Now | Reserved::Today => 0,
            Reserved::Tomorrow => 1,
            Reserved::Yesterday => -1,
        };
        let instant = self.options.now.ok_or(Flaw::Now)?;
        let local = self.options.zone.to_local(instant).map_err(|_| Flaw::Overflow)?;
        let (year, month, day) = calendar::date_of(local.div_euclid(DAY) + days);
        (self.year, self.month, self.day) = (year, i64::from(month), i64::from(day));
        self.is_julian = true;
        if reserved != Reserved::Now {
            return Ok(DATE);
        }
        let time = local.rem_euclid(DAY);
        self.hour = time / calendar::HOUR;
        self.minute = time / calendar::MINUTE % 60;
        self.second = time / SECOND % 60;
        self.micros = time % SECOND;
        self.zone = Some(Zone::fixed(self.options.zone.offset_at(instant)));
        Ok(DATE | TIME | ZONE)
    }

    /// Eras, short years, days of a year, and the limits of months and days.
    fn finish_date(&mut self) -> Result<(), Flaw> {
        if self.has(YEAR) && !self.is_julian {
            match self.year {
                year if self.is_before_era && year > 0 => self.year = 1 - year,
                year if !self.is_before_era && self.has_short_year && (0..70).contains(&year) => self.year += 2000,
                year if !self.is_before_era && self.has_short_year && (70..100).contains(&year) => self.year += 1900,
                year if !self.is_before_era && year > 0 => {}
                _ => return Err(Flaw::Overflow),
            }
        }
        if self.has(DAY_OF_YEAR) {
            let first = calendar::day_of(self.year, 1, 1);
            let (year, month, day) = calendar::date_of(first + self.day_of_year - 1);
            (self.year, self.month, self.day) = (year, i64::from(month), i64::from(day));
        }
        if self.has(MONTH) && !(1..=12).contains(&self.month) || self.has(DAY_PART) && !(1..=31).contains(&self.day) {
            return Err(Flaw::MonthOrDay);
        }
        if self.has(DATE) && self.day as u32 > calendar::days_of_month(self.year, self.month as u32) {
            return Err(Flaw::Overflow);
        }
        Ok(())
    }

    /// AM and PM, and the limits of a time.
    fn finish_time(&mut self) -> Result<(), Flaw> {
        match self.is_after_noon {
            Some(_) if self.hour > 12 => return Err(Flaw::Overflow),
            Some(false) if self.hour == 12 => self.hour = 0,
            Some(true) if self.hour != 12 => self.hour += 12,
            _ => {}
        }
        let is_valid = (0..=24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..=60).contains(&self.second)
            && (0..=SECOND).contains(&self.micros)
            && self.time() <= DAY;
        // PostgreSQL lets times without colons run over into the next hour or day where there is a date.
        if is_valid || !self.is_time_only { Ok(()) } else { Err(Flaw::Overflow) }
    }

    /// `dst` needs a zone with one offset.
    fn check_zone(&self) -> Result<(), Flaw> {
        let has_offset = self.zone.is_some_and(|zone| zone.fixed_offset().is_some());
        if has_offset || !self.has(DAYLIGHT) { Ok(()) } else { Err(Flaw::Format) }
    }
}

/// Hours, minutes, seconds and microseconds of a text with colons. Hours may be many, since intervals have such times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) micros: i64,
}

impl Clock {
    pub(crate) fn of(text: &str) -> Result<Self, Flaw> {
        let (hour, rest) = leading_long(text)?;
        let rest = rest.strip_prefix(':').ok_or(Flaw::Format)?;
        let (minute, rest) = leading_integer(rest)?;
        let clock = match rest.as_bytes().first() {
            None => Self { hour, minute, second: 0, micros: 0 },
            // With a fraction, two parts are minutes and seconds.
            Some(b'.') => Self { hour: 0, minute: hour, second: minute, micros: fraction_micros(rest)? },
            Some(b':') => {
                let (second, rest) = leading_integer(&rest[1..])?;
                let micros = match rest.as_bytes().first() {
                    None => 0,
                    Some(b'.') => fraction_micros(rest)?,
                    Some(_) => return Err(Flaw::Format),
                };
                Self { hour, minute, second, micros }
            }
            Some(_) => return Err(Flaw::Format),
        };
        let is_valid = clock.hour >= 0 && (0..60).contains(&clock.minute) && (0..=60).contains(&clock.second);
        if is_valid { Ok(clock) } else { Err(Flaw::Overflow) }
    }
}

/// Seconds east of Greenwich of `+02`, `-0830`, `+05:30:15`.
pub(crate) fn displacement(text: &str) -> Result<i32, Flaw> {
    let sign = match text.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(Flaw::Format),
    };
    let (mut hour, mut rest) = leading_integer(&text[1..]).map_err(|_| Flaw::Displacement)?;
    let (mut minute, mut second) = (0, 0);
    if let Some(after) = rest.strip_prefix(':') {
        (minute, rest) = leading_integer(after).map_err(|_| Flaw::Displacement)?;
        if let Some(after) = rest.strip_prefix(':') {
            (second, rest) = leading_integer(after).map_err(|_| Flaw::Displacement)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hour, minute) = (hour / 100, hour % 100);
    }
    if !(0..=15).contains(&hour) || !(0..60).contains(&minute) || !(0..60).contains(&second) {
        return Err(Flaw::Displacement);
    }
    if !rest.is_empty() {
        return Err(Flaw::Format);
    }
    Ok(sign * ((hour * 60 + minute) * 60 + second) as i32)
}

/// The number of 32 bits at the beginning, zero if there is none, and what follows it (C's `strtol`).
pub(crate) fn leading_integer(text: &str) -> Result<(i64, &str), Flaw> {
    let (value, rest) = leading_long(text)?;
    if i32::try_from(value).is_err() {
        return Err(Flaw::Overflow);
    }
    Ok((value, rest))
}

/// As [`leading_integer`], of 64 bits.
pub(crate) fn leading_long(text: &str) -> Result<(i64, &str), Flaw> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Ok((0, text));
    }
    let end = text.len() - unsigned.len() + digits;
    Ok((text[..end].parse().map_err(|_| Flaw::Overflow)?, &text[end..]))
}

/// The value of `.25`; a lone point is zero.
pub(crate) fn fraction(text: &str) -> Result<f64, Flaw> {
    let digits = text.strip_prefix('.').ok_or(Flaw::Format)?;
    if digits.is_empty() {
        return Ok(0.0);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Flaw::Format);
    }
    text.parse().map_err(|_| Flaw::Format)
}

fn fraction_micros(text: &str) -> Result<i64, Flaw> {
    Ok((fraction(text)? * 1e6).round_ties_even() as i64)
}
