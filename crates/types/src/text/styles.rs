//! How dates, times, intervals and bytes are written, and what comes first in a date: the settings `DateStyle`,
//! `IntervalStyle` and `bytea_output`.

use diligence_base::{Error, Result};

/// How dates, times, intervals and bytes are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Styles {
    /// How dates are written.
    pub date: DateStyle,
    /// What comes first in a date.
    pub order: DateOrder,
    /// How intervals are written, and what a sign before them means.
    pub interval: IntervalStyle,
    /// How bytes are written.
    pub bytes: BytesStyle,
}

/// How dates are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateStyle {
    /// `2024-02-29 12:00:00+01`.
    #[default]
    Iso,
    /// `02/29/2024 12:00:00 CET`.
    Sql,
    /// `Thu Feb 29 12:00:00 2024 CET`.
    Postgres,
    /// `29.02.2024 12:00:00 CET`.
    German,
}

/// What comes first in a date that is numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// The month, then the day.
    #[default]
    Mdy,
    /// The day, then the month.
    Dmy,
    /// The year, then the month.
    Ymd,
}

/// How intervals are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons -03:00:00`.
    #[default]
    Postgres,
    /// `@ 1 year 2 mons -3 hours`.
    PostgresVerbose,
    /// `+1-2 +0 -3:00:00`.
    SqlStandard,
    /// `P1Y2MT-3H`.
    Iso8601,
}

/// How bytes are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BytesStyle {
    /// `\x410a`.
    #[default]
    Hex,
    /// `A\012`: characters of ASCII as they are, other bytes as three digits.
    Escape,
}

impl Styles {
    /// The same after `SET DateStyle`: words with commas between them, of which each says the one or the other. Fails
    /// with 22023 for other words, and if two of them say something else.
    pub fn with_dates(self, given: &str) -> Result<Self> {
        let wrong = |detail: String| {
            let message = format!("invalid value for parameter \"DateStyle\": \"{given}\"");
            Error::input(message).with_code("22023").with_detail(detail)
        };
        if given.trim().is_empty() {
            return Ok(self);
        }
        let (mut date, mut order) = (None, None);
        let mut is_torn = false;
        for word in given.split(',').map(str::trim) {
            let lower = word.to_lowercase();
            let said = match lower.as_str() {
                "iso" => (Some(DateStyle::Iso), None),
                "sql" => (Some(DateStyle::Sql), None),
                "german" => (Some(DateStyle::German), None),
                "ymd" => (None, Some(DateOrder::Ymd)),
                "dmy" => (None, Some(DateOrder::Dmy)),
                "mdy" | "us" => (None, Some(DateOrder::Mdy)),
                // The style's other words say what was not said.
                "default" => continue,
                other if other.starts_with("postgres") => (Some(DateStyle::Postgres), None),
                other if other.starts_with("euro") => (None, Some(DateOrder::Dmy)),
                other if other.starts_with("noneuro") => (None, Some(DateOrder::Mdy)),
                _ => return Err(wrong(format!("Unrecognized key word: \"{word}\"."))),
            };
            is_torn |= said.0.is_some() && date.is_some_and(|date| said.0 != Some(date));
            is_torn |= said.1.is_some() && order.is_some_and(|order| said.1 != Some(order));
            (date, order) = (said.0.or(date), said.1.or(order));
        }
        if is_torn {
            return Err(wrong("Conflicting \"datestyle\" specifications.".to_owned()));
        }
        let usual = if date == Some(DateStyle::German) { DateOrder::Dmy } else { self.order };
        Ok(Self { date: date.unwrap_or(self.date), order: order.unwrap_or(usual), ..self })
    }

    /// The same after `SET IntervalStyle`. Fails with 22023 if there is no such style.
    pub fn with_intervals(self, given: &str) -> Result<Self> {
        let known = INTERVALS.iter().find(|(name, _)| name.eq_ignore_ascii_case(given.trim()));
        let (_, interval) = known.ok_or_else(|| {
            let message = format!("invalid value for parameter \"intervalstyle\": \"{given}\"");
            let names = INTERVALS.map(|(name, _)| name).join(", ");
            Error::input(message).with_code("22023").with_hint(format!("Available values: {names}."))
        })?;
        Ok(Self { interval: *interval, ..self })
    }

    /// The same after `SET bytea_output`. Fails with 22023 if there is no such style.
    pub fn with_bytes(self, given: &str) -> Result<Self> {
        let bytes = match given.trim().to_lowercase().as_str() {
            "hex" => BytesStyle::Hex,
            "escape" => BytesStyle::Escape,
            _ => {
                let message = format!("invalid value for parameter \"bytea_output\": \"{given}\"");
                return Err(Error::input(message).with_code("22023").with_hint("Available values: escape, hex."));
            }
        };
        Ok(Self { bytes, ..self })
    }

    /// `bytea_output` as SHOW has it.
    pub fn shown_bytes(&self) -> &'static str {
        match self.bytes {
            BytesStyle::Hex => "hex",
            BytesStyle::Escape => "escape",
        }
    }

    /// `DateStyle` as SHOW has it.
    pub fn shown_dates(&self) -> String {
        let date = match self.date {
            DateStyle::Iso => "ISO",
            DateStyle::Sql => "SQL",
            DateStyle::Postgres => "Postgres",
            DateStyle::German => "German",
        };
        let order = match self.order {
            DateOrder::Mdy => "MDY",
            DateOrder::Dmy => "DMY",
            DateOrder::Ymd => "YMD",
        };
        format!("{date}, {order}")
    }

    /// `IntervalStyle` as SHOW has it.
    pub fn shown_intervals(&self) -> &'static str {
        INTERVALS.iter().find(|(_, style)| *style == self.interval).map_or("postgres", |(name, _)| name)
    }
}

const INTERVALS: [(&str, IntervalStyle); 4] = [
    ("postgres", IntervalStyle::Postgres),
    ("postgres_verbose", IntervalStyle::PostgresVerbose),
    ("sql_standard", IntervalStyle::SqlStandard),
    ("iso_8601", IntervalStyle::Iso8601),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_are_set_by_words() {
        let set = |given: &str| Styles::default().with_dates(given).map(|styles| styles.shown_dates());
        for (given, shown) in [
            ("ISO", "ISO, MDY"),
            ("sql, dmy", "SQL, DMY"),
            ("German", "German, DMY"),
            ("German, YMD", "German, YMD"),
            ("postgresql", "Postgres, MDY"),
            ("European", "ISO, DMY"),
            ("US, US", "ISO, MDY"),
        ] {
            assert_eq!(set(given).unwrap(), shown);
        }
        for wrong in [",", "ISO, SQL", "DMY, MDY", "American"] {
            assert_eq!(set(wrong).unwrap_err().code(), Some("22023"), "{wrong}");
        }
        let intervals = |given: &str| Styles::default().with_intervals(given).map(|styles| styles.shown_intervals());
        assert_eq!(intervals("ISO_8601").unwrap(), "iso_8601");
        assert_eq!(intervals("iso").unwrap_err().code(), Some("22023"));
        let bytes = |given: &str| Styles::default().with_bytes(given).map(|styles| styles.shown_bytes());
        assert_eq!(bytes("Escape").unwrap(), "escape");
        assert_eq!(bytes("octal").unwrap_err().code(), Some("22023"));
    }
}
