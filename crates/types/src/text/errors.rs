//! The errors of reading texts, in PostgreSQL's words and with its SQLSTATEs.

use std::fmt;

use diligence_base::Error;

/// A text that is no value of the type.
pub(crate) fn syntax(sql_type: impl fmt::Display, text: &str) -> Error {
    Error::input(format!("invalid input syntax for type {sql_type}: \"{text}\"")).with_code("22P02")
}

/// A text that is no date, time or interval.
pub(crate) fn datetime_syntax(sql_type: impl fmt::Display, text: &str) -> Error {
    Error::input(format!("invalid input syntax for type {sql_type}: \"{text}\"")).with_code("22007")
}

/// A number that is too large for the type.
pub(crate) fn number_out_of_range(sql_type: impl fmt::Display, text: &str) -> Error {
    Error::input(format!("value \"{text}\" is out of range for type {sql_type}")).with_code("22003")
}

/// A value that is too large for the type, where there is no text to show.
pub(crate) fn out_of_range(sql_type: impl fmt::Display) -> Error {
    Error::input(format!("{sql_type} out of range")).with_code("22003")
}

/// A date or time beyond what the type holds.
pub(crate) fn datetime_out_of_range(sql_type: impl fmt::Display) -> Error {
    Error::input(format!("{sql_type} out of range")).with_code("22008")
}

/// A number with more digits before the point than `numeric(precision, scale)` has.
pub(crate) fn numeric_overflow(precision: u8, scale: i8) -> Error {
    let digits = i32::from(precision) - i32::from(scale);
    Error::input("numeric field overflow").with_code("22003").with_hint(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{digits}"
    ))
}

/// A number with more digits than `numeric` without parentheses holds here.
pub(crate) fn numeric_format_overflow() -> Error {
    Error::input("value overflows numeric format").with_code("22003")
}

/// A number that `numeric` does not hold here: NaN and the infinities.
pub(crate) fn not_finite(text: &str) -> Error {
    Error::input(format!("cannot convert {text} to numeric")).with_code("0A000")
}

/// A zone that nobody knows.
pub(crate) fn unknown_zone(name: &str) -> Error {
    Error::input(format!("time zone \"{name}\" not recognized")).with_code("22023")
}
