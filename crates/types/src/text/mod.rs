//! The text form of each type's values: read in every spelling that PostgreSQL takes, written to its last character.
//!
//! * [`numbers`] and [`decimals`]: booleans, integers, floats; `numeric`.
//! * [`datetime`], [`interval`], [`calendar`] and [`zones`]: dates, times, and where it is how late.
//! * [`strings`], [`bytes`] and [`json`]: `varchar(n)`, `char(n)` and `name`; `bytea` and `uuid`; `json` and `jsonb`.
//! * [`literals`]: the braces, parentheses and quotes of arrays, records and maps.
//! * [`read`] and [`print`] do all this to whole arrays; [`forms`] has Arrow's own writers do it.
//!
//! What is written is what PostgreSQL writes with its default settings: `extra_float_digits` 1, `bytea_output` hex. How
//! dates and intervals are written, [`styles`] say, which a [`Zone`] brings along.

mod abbreviations;
pub(crate) mod bits;
pub(crate) mod bytes;
pub mod calendar;
pub(crate) mod datetime;
pub mod decimals;
pub(crate) mod errors;
mod forms;
pub(crate) mod interval;
pub(crate) mod json;
mod literals;
pub mod messages;
mod multiranges;
pub mod networks;
pub(crate) mod numbers;
mod options;
mod print;
mod ranges;
mod read;
pub(crate) mod strings;
pub mod styles;
#[cfg(test)]
mod tests;
mod zoned_time;
pub mod zones;

use arrow::array::{ArrayRef, StringViewArray};
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};

pub use self::decimals::numeric_type_of;
pub use self::forms::Forms;
pub use self::literals::array_type_of;
pub use self::multiranges::Multirange;
pub use self::options::ReadOptions;
pub use self::print::Printer;
pub(crate) use self::ranges::value_of as range_value;
pub use self::ranges::{Bound, Range};
pub(crate) use self::read::field_of;
pub use self::read::parse_array;
pub use self::styles::Styles;
pub use self::zoned_time::ZonedTime;
pub use self::zones::Zone;
use crate::SqlType;
use crate::values::value_at;

/// The value that a text stands for. Fails with kind `Input` (22P02, 22007, 22008, 22003) if it stands for none, and
/// for `now` and its likes, which [`parse_with`] reads.
pub fn parse(text: &str, sql_type: &SqlType, zone: &str) -> Result<ScalarValue> {
    parse_with(text, sql_type, &ReadOptions { zone: zone_of(sql_type, zone)?, ..ReadOptions::default() })
}

/// The value that a text stands for at a time. Fails like [`parse`].
pub fn parse_with(text: &str, sql_type: &SqlType, options: &ReadOptions) -> Result<ScalarValue> {
    let array = parse_array(&StringViewArray::from(vec![text]), sql_type, options)?;
    value_at(&array, 0).map_err(|error| Error::bug(format!("a value of {sql_type}: {error}")))
}

/// The text of each value, NULL for NULL. A `timestamptz` is shown in the zone. Fails with kind `Bug` if the array is
/// not how the type is held ([`coercion::normalize`](crate::coercion::normalize) makes it so), and with kind `Input`
/// (22023) if there is no such zone.
pub fn format(array: &ArrayRef, sql_type: &SqlType, zone: &str) -> Result<StringViewArray> {
    Ok(Printer::new(array, sql_type, zone_of(sql_type, zone)?)?.texts())
}

/// The session's zone where a type's texts depend on it; any other where not, since looking for it takes time.
pub(crate) fn zone_of(sql_type: &SqlType, zone: &str) -> Result<Zone> {
    let depends = match sql_type {
        SqlType::TimestampTz | SqlType::Timestamp | SqlType::Date | SqlType::Time => true,
        SqlType::TimeTz | SqlType::Interval | SqlType::Bytea => true,
        SqlType::Array(element) => return zone_of(element, zone),
        SqlType::Record(_) | SqlType::Map(_) | SqlType::Range(_) | SqlType::Multirange(_) => true,
        _ => false,
    };
    if depends { Zone::of_setting(zone) } else { Ok(Zone::UTC) }
}

/// A text without the space around it, as C's `isspace` knows it.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|letter: char| u8::try_from(letter).is_ok_and(datetime::is_space))
}
