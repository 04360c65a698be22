//! Types of times with a modifier: `timestamp(3)`, `time(0)`, `interval day to second(1)`, and arrays of them.
//!
//! As with domains, no expression has such a type, only what takes values: a column, a cast. A value is rounded, or
//! loses its smaller fields, where it is taken. Then it is one of the type without the modifier.

use std::fmt;

use crate::SqlType;

/// A type of times with a modifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimedType {
    /// The type without the modifier: `time`, `timetz`, `timestamp`, `timestamptz`, `interval`, or an array of one.
    pub base: SqlType,
    /// PostgreSQL's number for the modifier (`pg_attribute.atttypmod`): the digits behind the seconds' point. Of an
    /// interval, the fields that it keeps are in the upper 16 bits.
    pub modifier: i32,
}

/// The most digits behind the seconds' point, which are all that a value has.
const DIGITS_MAX: i32 = 6;
/// In the place of an interval's digits: all of them.
const ALL_DIGITS: i32 = 0xffff;
/// In the place of an interval's fields: all of them.
const ALL_FIELDS: i32 = 0x7fff;

/// What an interval keeps: the bits of the fields in its modifier, and the words for them.
const FIELDS: [(i32, &str); 13] = [
    (1 << 2, "year"),
    (1 << 1, "month"),
    (1 << 3, "day"),
    (1 << 10, "hour"),
    (1 << 11, "minute"),
    (1 << 12, "second"),
    (1 << 2 | 1 << 1, "year to month"),
    (1 << 3 | 1 << 10, "day to hour"),
    (1 << 3 | 1 << 10 | 1 << 11, "day to minute"),
    (1 << 3 | 1 << 10 | 1 << 11 | 1 << 12, "day to second"),
    (1 << 10 | 1 << 11, "hour to minute"),
    (1 << 10 | 1 << 11 | 1 << 12, "hour to second"),
    (1 << 11 | 1 << 12, "minute to second"),
];

/// What is between the parts of the text in which a field notes such a type. No name has it.
const PART: char = '\u{1}';
/// What that text begins with.
const HEAD: &str = "timed\u{1}";

impl TimedType {
    /// A type with so many digits behind the seconds' point, six at most as in PostgreSQL, and of an interval with the
    /// fields that it keeps, in words. `None` if it has neither, no such fields, or is neither a type of times nor an
    /// array of one.
    pub fn new(base: SqlType, digits: Option<u64>, fields: Option<&str>) -> Option<Self> {
        let digits = digits.map(|digits| digits.min(DIGITS_MAX as u64) as i32);
        let modifier = match (base.innermost(), fields) {
            (SqlType::Interval, None) => ALL_FIELDS << 16 | digits?,
            (SqlType::Interval, Some(words)) => {
                let (bits, _) = FIELDS.iter().find(|(_, known)| known.eq_ignore_ascii_case(words))?;
                bits << 16 | digits.unwrap_or(ALL_DIGITS)
            }
            (SqlType::Time | SqlType::TimeTz | SqlType::Timestamp | SqlType::TimestampTz, None) => digits?,
            _ => return None,
        };
        Some(Self { base, modifier })
    }

    /// The digits behind the seconds' point, if it says them.
    pub fn digits(&self) -> Option<i32> {
        match (self.base.innermost(), self.modifier & 0xffff) {
            (SqlType::Interval, ALL_DIGITS) => None,
            (SqlType::Interval, digits) => Some(digits),
            _ => Some(self.modifier),
        }
    }

    /// The fields that an interval keeps, in words; `None` if it keeps all.
    pub fn fields(&self) -> Option<&'static str> {
        let bits = self.modifier >> 16 & ALL_FIELDS;
        let named = FIELDS.iter().find(|(known, _)| *known == bits);
        named.filter(|_| *self.base.innermost() == SqlType::Interval).map(|(_, words)| *words)
    }

    /// The smallest field that an interval keeps; `None` if it keeps all.
    pub fn last_field(&self) -> Option<&'static str> {
        self.fields().and_then(|words| words.rsplit(' ').next())
    }

    /// The text in which a field notes it.
    pub(crate) fn noted(&self) -> String {
        format!("{HEAD}{}{PART}{}{}", self.modifier, self.base.innermost(), "[]".repeat(dimensions(&self.base)))
    }

    /// The type that a field has noted.
    pub(crate) fn of_noted(text: &str) -> Option<Self> {
        let (modifier, base) = text.strip_prefix(HEAD)?.split_once(PART)?;
        Some(Self { base: SqlType::parse(base)?, modifier: modifier.parse().ok()? })
    }
}

/// How deep arrays lie in arrays; 0 for another type.
fn dimensions(sql_type: &SqlType) -> usize {
    sql_type.element().map_or(0, |element| 1 + dimensions(element))
}

impl fmt::Display for TimedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits().map(|digits| format!("({digits})")).unwrap_or_default();
        match (self.base.innermost(), self.fields()) {
            (SqlType::Interval, Some(words)) => write!(f, "interval {words}{digits}")?,
            (base, _) => {
                let name = base.to_string();
                match name.split_once(' ') {
                    Some((first, rest)) => write!(f, "{first}{digits} {rest}")?,
                    None => write!(f, "{name}{digits}")?,
                }
            }
        }
        // As of other types, however many dimensions there are.
        if self.base.element().is_some() { f.write_str("[]") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn modifiers_are_postgresqls() {
        let of = |base: SqlType, digits, fields| TimedType::new(base, digits, fields).unwrap();
        let known = [
            (of(SqlType::Timestamp, Some(0), None), 0, "timestamp(0) without time zone"),
            (of(SqlType::TimestampTz, Some(9), None), 6, "timestamp(6) with time zone"),
            (of(SqlType::TimeTz, Some(2), None), 2, "time(2) with time zone"),
            (of(SqlType::Interval, Some(2), None), 2_147_418_114, "interval(2)"),
            (of(SqlType::Interval, None, Some("YEAR TO MONTH")), 458_751, "interval year to month"),
            (of(SqlType::Interval, Some(1), Some("day to second")), 470_286_337, "interval day to second(1)"),
            (of(SqlType::array_of(SqlType::Timestamp), Some(0), None), 0, "timestamp(0) without time zone[]"),
            (of(SqlType::array_of(SqlType::array_of(SqlType::Time)), Some(1), None), 1, "time(1) without time zone[]"),
            (of(SqlType::array_of(SqlType::Interval), None, Some("year")), 327_679, "interval year[]"),
        ];
        for (timed, modifier, text) in known {
            assert_eq!((timed.modifier, timed.to_string().as_str()), (modifier, text));
            let (base, sql_type) = (timed.base.clone(), SqlType::Timed(Arc::new(timed)));
            assert_eq!(SqlType::of_field(&sql_type.field("a", true)), Some(sql_type.clone()));
            assert_eq!((sql_type.base(), sql_type.arrow()), (&base, base.arrow()));
        }
        assert_eq!(TimedType::new(SqlType::Timestamp, None, None), None);
        assert_eq!(TimedType::new(SqlType::Interval, None, Some("day to year")), None);
        assert_eq!(of(SqlType::Interval, None, Some("hour to minute")).last_field(), Some("minute"));
    }
}
