//! Dates, times and intervals written with patterns, and read with them.

use arrow::datatypes::IntervalMonthDayNano;
use diligence_base::Result;

use super::keywords::{Field, LetterCase, Piece, Pieces};
use super::ordinal_ending;
use crate::functions::calendar::{
    DAY, DAYS, Day, HOUR, JULIAN_OFFSET, MINUTE, MONTHS, SECOND, checked_date, is_infinite, iso_weekday,
    iso_year_start, month_length, split, timestamp_of, weekday,
};
use crate::functions::catalog::Catalog;
use crate::functions::columns::{Date, Timestamp, kernel};
use crate::functions::errors::value_error;
use crate::functions::intervals::time_of;
use crate::functions::zones::{Zones, abbreviation_at, offset_text};
use crate::text::Zone;

const ROMAN_MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// What a pattern can show of a time.
struct ShownTime {
    day: Day,
    /// Days since 1970; of an interval 0.
    days: i64,
    /// Microseconds of the day; of an interval all of its time.
    time: i64,
    zone: Option<(String, i64)>,
    is_interval: bool,
}

impl ShownTime {
    fn wall(wall: i64, zone: Option<(String, i64)>) -> Self {
        let (days, time) = split(wall);
        Self { day: Day::of(days), days, time, zone, is_interval: false }
    }

    fn interval(value: IntervalMonthDayNano) -> Self {
        let (months, days) = (i64::from(value.months), i64::from(value.days));
        let day = Day { year: months / 12, month: months % 12, day: days };
        Self { day, days: 0, time: time_of(value), zone: None, is_interval: true }
    }

    fn write(&self, pieces: &[Piece]) -> Result<String> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Field(field) => self.field(field, &mut text)?,
                Piece::Separator(character) | Piece::Blank(character) | Piece::Literal(character) => {
                    text.push(*character)
                }
            }
        }
        Ok(text)
    }

    fn field(&self, field: &Field, text: &mut String) -> Result<()> {
        let start = text.len();
        if self.is_interval && is_calendar(field.name) {
            let message = "invalid format specification for an interval value";
            return Err(value_error(message, "22007").with_hint("Intervals are not tied to specific calendar dates."));
        }
        match field.name {
            "AM" | "PM" | "A.M." | "P.M." => text.push_str(&self.half(field)),
            "BC" | "AD" | "B.C." | "A.D." => text.push_str(&self.era(field)),
            "MONTH" | "MON" | "DAY" | "DY" | "RM" => self.name(field, text),
            "TZ" | "OF" | "TZH" | "TZM" => self.zone(field, text),
            _ => self.number(field, text),
        }
        if let Some(is_upper) = field.ordinal {
            let ending = ordinal_ending(&text[start..]);
            text.push_str(&if is_upper { ending.to_uppercase() } else { ending.to_owned() });
        }
        Ok(())
    }

    fn half(&self, field: &Field) -> String {
        let letter = if self.time % DAY >= 12 * HOUR { "P" } else { "A" };
        dotted(letter, "M", field)
    }

    fn era(&self, field: &Field) -> String {
        match self.day.year <= 0 && !self.is_interval {
            true => dotted("B", "C", field),
            false => dotted("A", "D", field),
        }
    }

    fn name(&self, field: &Field, text: &mut String) {
        let month = usize::try_from(self.day.month - 1).ok().filter(|month| *month < 12);
        let (name, width) = match (field.name, month) {
            ("MONTH", Some(month)) => (MONTHS[month], 9),
            ("MON", Some(month)) => (&MONTHS[month][..3], 0),
            ("RM", _) => match self.roman_month() {
                Some(month) => (ROMAN_MONTHS[month], 4),
                None => return,
            },
            ("DAY", _) => (DAYS[weekday(self.days) as usize], 9),
            ("DY", _) => (&DAYS[weekday(self.days) as usize][..3], 0),
            _ => return,
        };
        let written = match (field.case, field.name) {
            (LetterCase::Upper, _) => name.to_uppercase(),
            (LetterCase::Lower, _) => name.to_lowercase(),
            (LetterCase::Capital, _) => name.to_owned(),
        };
        let width = if field.is_filled { 0 } else { width };
        text.push_str(&format!("{written:<width$}"));
    }

    /// The month from 0 on; of an interval, months before its years end count backwards. `None` without months.
    fn roman_month(&self) -> Option<usize> {
        let number = match (self.day.month, self.day.year) {
            (0, 0) => return None,
            (0, 1..) => 12,
            (0, _) => 1,
            (month, _) if month < 0 => 13 + month,
            (month, _) => month,
        };
        usize::try_from(number - 1).ok().filter(|month| *month < 12)
    }

    fn zone(&self, field: &Field, text: &mut String) {
        let Some((name, offset)) = &self.zone else {
            // A time without a zone has the offset +00 and no name.
            match field.name {
                "OF" | "TZH" => text.push_str("+00"),
                "TZM" => text.push_str("00"),
                _ => {}
            }
            return;
        };
        match (field.name, field.case) {
            ("TZ", LetterCase::Lower) => text.push_str(&name.to_lowercase()),
            ("TZ", _) => text.push_str(name),
            ("OF", _) => text.push_str(&offset_text(*offset)),
            ("TZH", _) => {
                let sign = if *offset < 0 { '-' } else { '+' };
                text.push_str(&format!("{sign}{:02}", offset.abs() / 3600));
            }
            _ => text.push_str(&format!("{:02}", offset.abs() / 60 % 60)),
        }
    }

    /// The day of the year; of an interval, its months and days as days.
    fn day_of_year(&self) -> i64 {
        match self.is_interval {
            true => self.day.year * 360 + self.day.month * 30 + self.day.day,
            false => self.day.day_of_year(),
        }
    }

    fn number(&self, field: &Field, text: &mut String) {
        let (day, time) = (self.day, self.time);
        let hour = time / HOUR;
        let half_hour = match hour % 12 {
            0 => 12,
            hour => hour,
        };
        let year = if self.is_interval { day.year } else { day.shown_year().abs() };
        let iso_year = || match day.iso_week().0 {
            year if year > 0 => year,
            year => 1 - year,
        };
        let fraction = time % SECOND;
        let (value, width) = match field.name {
            "HH" | "HH12" => (half_hour, 2),
            "HH24" => (hour, 2),
            "MI" => (time / MINUTE % 60, 2),
            "SS" => (time / SECOND % 60, 2),
            "MS" => (fraction / 1000, 3),
            "US" => (fraction, 6),
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let digits = u32::from(field.name.as_bytes()[2] - b'0');
                text.push_str(&format!("{:0width$}", fraction / 10_i64.pow(6 - digits), width = digits as usize));
                return;
            }
            "SSSS" | "SSSSS" => (time / SECOND, 0),
            "YYYY" => (year, 4),
            "Y,YYY" => {
                text.push_str(&format!("{},{:03}", year / 1000, year % 1000));
                return;
            }
            "YYY" => (year % 1000, 3),
            "YY" => (year % 100, 2),
            "Y" => (year % 10, 1),
            "IYYY" => (iso_year(), 4),
            "IYY" => (iso_year() % 1000, 3),
            "IY" => (iso_year() % 100, 2),
            "I" => (iso_year() % 10, 1),
            "MM" => (day.month, 2),
            "DD" => (day.day, 2),
            "DDD" => (self.day_of_year(), 3),
            "IDDD" => (self.days - iso_year_start(day.iso_week().0) + 1, 3),
            "D" => (weekday(self.days) + 1, 0),
            "ID" => (iso_weekday(self.days), 0),
            "WW" => ((self.day_of_year() - 1) / 7 + 1, 2),
            "IW" => (day.iso_week().1, 2),
            "W" => ((day.day - 1) / 7 + 1, 0),
            "Q" => match self.is_interval && day.month == 0 {
                true => return,
                false => ((day.month - 1) / 3 + 1, 0),
            },
            "CC" => {
                let century = match self.is_interval {
                    true => day.year / 100,
                    false if day.year > 0 => (day.year - 1) / 100 + 1,
                    false => -(-day.year / 100 + 1),
                };
                (century, if (-99..=99).contains(&century) { 2 } else { 0 })
            }
            "J" if self.is_interval => (julian(day), 0),
            "J" => (self.days + JULIAN_OFFSET, 0),
            _ => return,
        };
        // A sign takes a digit's place, except where PostgreSQL makes room for it.
        let has_room = matches!(field.name.as_bytes()[0], b'H' | b'M' | b'S' | b'Y' | b'I' | b'C');
        // Fractions keep their zeros.
        let is_filled = field.is_filled && !matches!(field.name, "MS" | "US");
        let width = match (is_filled, value < 0 && has_room) {
            (true, _) => 0,
            (false, false) => width,
            (false, true) => width + 1,
        };
        text.push_str(&format!("{value:0width$}"));
    }
}

/// The Julian day of a year, a month and a day that need not be of a calendar: PostgreSQL's `date2j`.
fn julian(of: Day) -> i64 {
    let (year, month) = if of.month > 2 { (of.year + 4800, of.month + 1) } else { (of.year + 4799, of.month + 13) };
    let century = year / 100;
    year * 365 - 32167 + year / 4 - century + century / 4 + 7834 * month / 256 + of.day
}

fn is_calendar(name: &str) -> bool {
    matches!(name, "BC" | "AD" | "B.C." | "A.D." | "MONTH" | "MON" | "DAY" | "DY" | "D" | "ID" | "IDDD" | "IW")
        || matches!(name, "TZ" | "TZH" | "TZM" | "OF" | "IYYY" | "IYY" | "IY" | "I")
}

fn dotted(first: &str, second: &str, field: &Field) -> String {
    let text = match field.name.contains('.') {
        true => format!("{first}.{second}."),
        false => format!("{first}{second}"),
    };
    if field.case == LetterCase::Lower { text.to_lowercase() } else { text }
}

/// What a text says of a time.
#[derive(Default)]
struct Told {
    year: Option<i64>,
    /// Of fewer digits than four: in the century that is nearest to 2020.
    is_short_year: bool,
    century: Option<i64>,
    is_bc: bool,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_weekday: Option<i64>,
    iso_day: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    week_of_year: Option<i64>,
    week_of_month: Option<i64>,
    julian: Option<i64>,
    hour: Option<i64>,
    is_half_day: bool,
    is_afternoon: Option<bool>,
    minute: i64,
    second: i64,
    microseconds: i64,
    seconds_of_day: Option<i64>,
    offset_hours: Option<i64>,
    offset_minutes: i64,
    zone: Option<Zone>,
}

/// A text while it is read.
struct Reader<'t> {
    rest: &'t str,
    told: Told,
}

fn wrong(message: impl Into<String>) -> diligence_base::Error {
    value_error(message, "22007")
}

impl<'t> Reader<'t> {
    fn read(text: &'t str, pieces: &[Piece]) -> Result<Told> {
        Self::read_start(text, pieces).map(|reader| reader.told)
    }

    /// Reads a text that ends where the pattern does.
    fn read_all(text: &'t str, pieces: &[Piece]) -> Result<Told> {
        let reader = Self::read_start(text, pieces)?;
        match reader.rest.trim_start().is_empty() {
            true => Ok(reader.told),
            false => Err(wrong("trailing characters remain in input string after datetime format")),
        }
    }

    fn read_start(text: &'t str, pieces: &[Piece]) -> Result<Self> {
        let mut reader = Reader { rest: text.trim_start(), told: Told::default() };
        for (index, piece) in pieces.iter().enumerate() {
            match piece {
                _ if reader.rest.is_empty() => break,
                Piece::Field(field) => {
                    reader.rest = reader.rest.trim_start();
                    // Digits are counted only where the next field is a number right behind.
                    let is_open = !matches!(pieces.get(index + 1), Some(Piece::Field(next)) if is_number(next.name));
                    reader.field(field, is_open)?;
                }
                Piece::Separator(_) | Piece::Blank(_) => {
                    reader.rest = reader.rest.trim_start();
                    let is_separator = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric();
                    let is_sign_of_offset = matches!(pieces.get(index + 1), Some(Piece::Field(next)) if next.name == "TZH")
                        && reader.rest.starts_with(['+', '-']);
                    // A blank stands for any separator, too.
                    if reader.rest.starts_with(is_separator) && !is_sign_of_offset {
                        reader.rest = reader.rest[1..].trim_start();
                    }
                }
                Piece::Literal(_) => {
                    reader.rest = reader.rest.chars().next().map_or("", |next| &reader.rest[next.len_utf8()..]);
                }
            }
        }
        Ok(reader)
    }

    fn number(&mut self, field: &Field, digits_max: usize) -> Result<i64> {
        let digits_max = digits_max + usize::from(self.rest.starts_with(['-', '+']));
        let end = self
            .rest
            .char_indices()
            .take(digits_max)
            .take_while(|(place, c)| c.is_ascii_digit() || (*place == 0 && matches!(c, '-' | '+')));
        let end = end.last().map_or(0, |(place, _)| place + 1);
        let (digits, rest) = self.rest.split_at(end);
        let value = digits.parse().map_err(|_| match digits.len() > 18 {
            true => value_error(format!("value for \"{}\" in source string is out of range", field.name), "22008"),
            false => wrong(format!("invalid value \"{}\" for \"{}\"", head(self.rest), field.name)),
        })?;
        self.rest = rest;
        Ok(value)
    }

    fn field(&mut self, field: &Field, is_open: bool) -> Result<()> {
        let width = |digits: usize| if is_open || field.is_filled { 20 } else { digits };
        let before = self.rest;
        match field.name {
            "YYYY" => {
                self.told.year = Some(self.number(field, width(4))?);
            }
            "Y,YYY" => {
                let thousands = self.number(field, 6)?;
                self.rest = self.rest.strip_prefix(',').ok_or_else(|| wrong("invalid input string for \"Y,YYY\""))?;
                self.told.year = Some(thousands * 1000 + self.number(field, 3)?);
            }
            "YYY" | "YY" | "Y" => {
                let year = self.number(field, width(field.name.len()))?;
                let digits = self.length_since(before);
                self.told.year = Some(if digits < 4 { near_year(year) } else { year });
                self.told.is_short_year = digits <= 2;
            }
            "IYYY" => self.told.iso_year = Some(self.number(field, width(4))?),
            "IYY" | "IY" | "I" => {
                let year = self.number(field, width(field.name.len()))?;
                self.told.iso_year = Some(if self.length_since(before) < 4 { near_year(year) } else { year });
            }
            "CC" => self.told.century = Some(self.number(field, width(2))?),
            "MM" => self.told.month = Some(self.number(field, width(2))?),
            "DD" => self.told.day = Some(self.number(field, width(2))?),
            "DDD" => self.told.day_of_year = Some(self.number(field, width(3))?),
            "IDDD" => self.told.iso_day = Some(self.number(field, width(3))?),
            "WW" => self.told.week_of_year = Some(self.number(field, width(2))?),
            "W" => self.told.week_of_month = Some(self.number(field, width(1))?),
            "IW" => self.told.iso_week = Some(self.number(field, width(2))?),
            "ID" => self.told.iso_weekday = Some(self.number(field, width(1))?),
            "D" => {
                let day = self.number(field, width(1))?;
                self.told.iso_weekday = Some((day + 5).rem_euclid(7) + 1);
            }
            "Q" => drop(self.number(field, width(1))?),
            "J" => self.told.julian = Some(self.number(field, 20)?),
            "HH24" => self.told.hour = Some(self.number(field, width(2))?),
            "HH" | "HH12" => {
                self.told.hour = Some(self.number(field, width(2))?);
                self.told.is_half_day = true;
            }
            "MI" => self.told.minute = self.number(field, width(2))?,
            "SS" => self.told.second = self.number(field, width(2))?,
            "MS" => self.fraction(field, 3)?,
            "US" | "FF6" => self.fraction(field, 6)?,
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" => {
                self.fraction(field, usize::from(field.name.as_bytes()[2] - b'0'))?;
            }
            "SSSS" | "SSSSS" => self.told.seconds_of_day = Some(self.number(field, width(5))?),
            "TZH" => {
                self.told.offset_hours = Some(self.number(field, 2)?);
                if before.starts_with('-') && self.told.offset_hours == Some(0) {
                    self.told.offset_minutes = -1;
                }
            }
            "TZM" => {
                let minutes = self.number(field, 2)?;
                let is_west = self.told.offset_minutes < 0 || self.told.offset_hours.is_some_and(|hours| hours < 0);
                self.told.offset_minutes = if is_west { -minutes } else { minutes };
            }
            "TZ" | "OF" => {
                let end = self.rest.find(|c: char| c.is_whitespace()).unwrap_or(self.rest.len());
                let (name, rest) = self.rest.split_at(end);
                self.told.zone = Some(Zone::of_argument(name)?);
                self.rest = rest;
            }
            _ => self.word(field)?,
        }
        if field.ordinal.is_some() {
            self.rest = self.rest.get(2..).unwrap_or("");
        }
        Ok(())
    }

    fn length_since(&self, before: &str) -> usize {
        before.len() - self.rest.len()
    }

    /// A fraction of a second: its digits count from the left.
    fn fraction(&mut self, field: &Field, digits_max: usize) -> Result<()> {
        let before = self.rest;
        let value = self.number(field, digits_max)?;
        let digits = self.length_since(before).min(6);
        self.told.microseconds += value * 10_i64.pow(6 - digits as u32);
        // Digits beyond are left out.
        Ok(())
    }

    fn word(&mut self, field: &Field) -> Result<()> {
        let full: &[&str] = match field.name {
            "MONTH" | "MON" => &MONTHS,
            "DAY" | "DY" => &DAYS,
            "RM" => &ROMAN_MONTHS,
            "AM" | "PM" => &["AM", "PM"],
            "A.M." | "P.M." => &["A.M.", "P.M."],
            "BC" | "AD" => &["AD", "BC"],
            _ => &["A.D.", "B.C."],
        };
        let is_short = matches!(field.name, "MON" | "DY");
        // The longest that fits: `VIII` before `V`.
        let found = full.iter().enumerate().filter_map(|(index, name)| {
            let name = if is_short { &name[..3] } else { name };
            let head = self.rest.get(..name.len())?;
            head.eq_ignore_ascii_case(name).then_some((name.len(), index))
        });
        let (length, index) = found
            .max()
            .ok_or_else(|| wrong(format!("invalid value \"{}\" for \"{}\"", head(self.rest), field.name)))?;
        self.rest = &self.rest[length..];
        match field.name {
            "MONTH" | "MON" | "RM" => self.told.month = Some(index as i64 + 1),
            "DAY" | "DY" => {}
            "AM" | "PM" | "A.M." | "P.M." => {
                self.told.is_afternoon = Some(index == 1);
                self.told.is_half_day = true;
            }
            _ => self.told.is_bc = index == 1,
        }
        Ok(())
    }
}

fn head(rest: &str) -> String {
    rest.chars().take_while(|c| !c.is_whitespace()).take(10).collect()
}

fn is_number(name: &str) -> bool {
    !matches!(
        name,
        "AM" | "PM"
            | "A.M."
            | "P.M."
            | "BC"
            | "AD"
            | "B.C."
            | "A.D."
            | "MONTH"
            | "MON"
            | "DAY"
            | "DY"
            | "RM"
            | "TZ"
            | "OF"
            | "TZH"
    )
}

/// A year of fewer than four digits: the one nearest to 2020.
fn near_year(year: i64) -> i64 {
    match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        other => other,
    }
}

fn field_overflow(text: &str) -> diligence_base::Error {
    value_error(format!("date/time field value out of range: \"{text}\""), "22008")
}

impl Told {
    /// The day that is told, in days since 1970.
    fn days(&self, text: &str) -> Result<i64> {
        if let Some(julian) = self.julian {
            return Ok(julian - JULIAN_OFFSET);
        }
        if let Some(days) = self.iso_days() {
            return Ok(days);
        }
        let year = self.calendar_year();
        let first = Day { year, month: 1, day: 1 };
        if let Some(day) = self.day_of_year {
            let length = if month_length(year, 2) == 29 { 366 } else { 365 };
            return match (1..=length).contains(&day) {
                true => Ok(first.days() + day - 1),
                false => Err(field_overflow(text)),
            };
        }
        if let Some(week) = self.week_of_year {
            return Ok(first.days() + (week - 1) * 7);
        }
        let day = match (self.day, self.week_of_month) {
            (Some(day), _) => day,
            (None, Some(week)) => (week - 1) * 7 + 1,
            (None, None) => 1,
        };
        let told = Day { year, month: self.month.unwrap_or(1), day };
        match (1..=12).contains(&told.month) && (1..=told.month_length()).contains(&day) {
            true => Ok(told.days()),
            false => Err(field_overflow(text)),
        }
    }

    fn iso_days(&self) -> Option<i64> {
        let start = iso_year_start(self.iso_year?);
        Some(match (self.iso_day, self.iso_week) {
            (Some(day), _) => start + day - 1,
            (None, week) => start + (week.unwrap_or(1) - 1) * 7 + self.iso_weekday.unwrap_or(1) - 1,
        })
    }

    /// The year, of which 0 is 1 BC.
    fn calendar_year(&self) -> i64 {
        let year = match (self.year, self.century) {
            (Some(year), Some(century)) if self.is_short_year => match century >= 0 {
                true => (century - 1) * 100 + year % 100,
                false => (century + 1) * 100 - year % 100 + 1,
            },
            (Some(year), _) => year,
            (None, Some(century)) if century > 0 => (century - 1) * 100 + 1,
            (None, Some(century)) => century * 100 + 1,
            // Nothing said: the year 1 BC, which is 0.
            (None, None) => 0,
        };
        match self.is_bc && year > 0 {
            true => 1 - year,
            false if year < 0 => year + 1,
            false => year,
        }
    }

    /// Microseconds since midnight.
    fn time(&self, text: &str) -> Result<i64> {
        if let Some(seconds) = self.seconds_of_day {
            return match (0..86_400).contains(&seconds) {
                true => Ok(seconds * SECOND + self.microseconds),
                false => Err(field_overflow(text)),
            };
        }
        let mut hour = self.hour.unwrap_or(0);
        if self.is_half_day && self.hour.is_some() {
            if !(1..=12).contains(&hour) {
                let error = wrong(format!("hour \"{hour}\" is invalid for the 12-hour clock"));
                return Err(error.with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            match self.is_afternoon {
                Some(true) if hour < 12 => hour += 12,
                // Without AM or PM it is the morning.
                Some(false) | None if hour == 12 => hour = 0,
                _ => {}
            }
        }
        let is_right = (0..=24).contains(&hour) && (0..60).contains(&self.minute) && (0..=60).contains(&self.second);
        let time = hour * HOUR + self.minute * MINUTE + self.second * SECOND + self.microseconds;
        match is_right && (hour < 24 || time == DAY) {
            true => Ok(time),
            false => Err(field_overflow(text)),
        }
    }

    fn timestamp(&self, text: &str) -> Result<i64> {
        timestamp_of(self.days(text)?, self.time(text)?)
    }
}

/// What a text says of a moment, as far as its template asks for it.
pub(in crate::functions) struct ReadMoment {
    /// Days since 1970.
    pub days: Option<i64>,
    /// Microseconds since midnight.
    pub time: Option<i64>,
    /// Seconds to the east of Greenwich.
    pub offset: Option<i64>,
}

/// Reads a text as a template says, all of it. Fails with 22007 if it does not fit, 22008 for what no calendar has, and
/// 0A000 for zones by their names.
pub(in crate::functions) fn read_moment(text: &str, template: &str) -> Result<ReadMoment> {
    let pieces = super::keywords::pieces(template);
    let names = pieces.iter().filter_map(|piece| match piece {
        Piece::Field(field) => Some(field.name),
        _ => None,
    });
    let names = names.collect::<Vec<_>>();
    if let Some(name) = names.iter().find(|name| matches!(**name, "TZ" | "OF")) {
        let message = format!("formatting field \"{name}\" is only supported in to_char");
        return Err(value_error(message, "0A000"));
    }
    let told = Reader::read_all(text, &pieces)?;
    let has = |wanted: fn(&str) -> bool| names.iter().any(|name| wanted(name));
    let seconds = told.offset_hours.map(|hours| hours.saturating_mul(3600) + told.offset_minutes * 60);
    Ok(ReadMoment {
        days: if has(|name| !is_of_clock(name) && !is_of_zone(name)) { Some(told.days(text)?) } else { None },
        time: if has(is_of_clock) { Some(told.time(text)?) } else { None },
        offset: if has(is_of_zone) { Some(seconds.unwrap_or(0)) } else { None },
    })
}

fn is_of_zone(name: &str) -> bool {
    matches!(name, "TZH" | "TZM")
}

fn is_of_clock(name: &str) -> bool {
    let is_half = matches!(name, "AM" | "PM" | "A.M." | "P.M.");
    is_half
        || matches!(name, "HH" | "HH12" | "HH24" | "MI" | "MS" | "US")
        || name.starts_with("SS")
        || name.starts_with("FF")
}

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog
        .add(
            "to_char(timestamp, text) -> text",
            kernel!(with pieces: Pieces; |a: Timestamp, pattern: &str| match is_infinite(a.0) || pattern.is_empty() {
                true => Ok(None),
                false => ShownTime::wall(a.0, None).write(pieces.get(pattern)).map(Some),
            }),
        )
        .stable();
    catalog
        .add(
            "to_char(timestamptz, text) -> text",
            kernel!(with state: (Pieces, Zones); |a: Timestamp, pattern: &str, zone: &str| {
                if is_infinite(a.0) || pattern.is_empty() {
                    return Ok(None);
                }
                let zone = state.1.session(zone)?;
                let wall = zone.to_local(a.0)?;
                let shown = ShownTime::wall(wall, Some((abbreviation_at(zone, a.0), zone.offset_at(a.0).into())));
                shown.write(state.0.get(pattern)).map(Some)
            }),
        )
        .zoned();
    catalog
        .add(
            "to_char(interval, text) -> text",
            kernel!(with pieces: Pieces; |a: IntervalMonthDayNano, pattern: &str| match pattern.is_empty() {
                true => Ok(None),
                false => ShownTime::interval(a).write(pieces.get(pattern)).map(Some),
            }),
        )
        .stable();
    catalog
        .add(
            "to_date(text, text) -> date",
            kernel!(with pieces: Pieces; |a: &str, pattern: &str| {
                let told = Reader::read(a, pieces.get(pattern))?;
                told.time(a)?;
                checked_date(told.days(a)?).map(Date)
            }),
        )
        .stable();
    catalog
        .add(
            "to_timestamp(text, text) -> timestamptz",
            kernel!(with state: (Pieces, Zones); |a: &str, pattern: &str, zone: &str| {
                let told = Reader::read(a, state.0.get(pattern))?;
                let wall = told.timestamp(a)?;
                let seconds = told.offset_hours.map(|hours| hours.saturating_mul(3600) + told.offset_minutes * 60);
                let offset = seconds.and_then(|seconds| i32::try_from(seconds).ok()).map(Zone::fixed);
                let zone = match offset.or(told.zone) {
                    Some(zone) => zone,
                    None => state.1.session(zone)?,
                };
                zone.to_instant(wall).map(Timestamp)
            }),
        )
        .zoned();
}
