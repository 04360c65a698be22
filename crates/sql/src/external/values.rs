//! What the texts of options mean: numbers, truth values, characters, formats of dates, moments.

use chrono::format::{Item, StrftimeItems};
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_storage::external::{Candidate, DELIMITER_BYTES_MAX, LakeMoment};
use diligence_types::SqlType;

/// What a type's name says of `auto_type_candidates`.
pub(super) fn candidate(name: &str) -> Result<Candidate> {
    match name.to_ascii_lowercase().as_str() {
        "boolean" | "bool" => Ok(Candidate::Boolean),
        "tinyint" | "smallint" | "integer" | "int" | "bigint" => Ok(Candidate::Integer),
        "hugeint" | "decimal" | "numeric" => Ok(Candidate::Long),
        "float" | "real" | "double" | "double precision" => Ok(Candidate::Double),
        "date" => Ok(Candidate::Date),
        "time" => Ok(Candidate::Time),
        "timestamp" | "timestamptz" | "timestamp with time zone" => Ok(Candidate::Timestamp),
        "varchar" | "text" => Ok(Candidate::Text),
        other => Err(Error::input(format!("'{other}' is no type that files are looked at for"))
            .with_hint("there are BOOLEAN, BIGINT, HUGEINT, DOUBLE, DATE, TIME, TIMESTAMP and VARCHAR")),
    }
}

pub(super) fn number(value: &str) -> Result<i64> {
    value.parse().map_err(|_| Error::input(format!("expected a whole number, found '{value}'")))
}

/// The state of a lake's table that was there at a time, which is in a time zone if it says none. Fails with code 22007
/// if it is none.
pub(crate) fn moment_of(text: &str, zone: &str) -> Result<LakeMoment> {
    match diligence_types::text::parse(text, &SqlType::TimestampTz, zone)? {
        ScalarValue::TimestampMicrosecond(Some(time), _) => Ok(LakeMoment::Time(time)),
        _ => Err(Error::input(format!("'{text}' is no time")).with_code("22007")),
    }
}

pub(super) fn count(value: &str) -> Result<usize> {
    value.parse().map_err(|_| Error::input(format!("expected a number, found '{value}'")))
}

/// A format of dates as `strptime` has them. Fails if it has a letter that means nothing.
pub(super) fn time_format(value: &str) -> Result<Option<String>> {
    if matches!(value.to_ascii_lowercase().as_str(), "auto" | "") {
        return Ok(None);
    }
    // `%g` and `%f` are milliseconds and microseconds with DuckDB.
    let format = value.replace(".%f", "%.f").replace(".%g", "%.f");
    if StrftimeItems::new(&format).any(|item| matches!(item, Item::Error)) {
        return Err(Error::input(format!("'{value}' is no format of dates"))
            .with_hint("it is as in strptime: %d.%m.%Y %H:%M:%S"));
    }
    Ok(Some(format))
}

/// A quote, or none: a byte that is in no text.
pub(super) fn byte_or_none(value: &str) -> Result<u8> {
    if value.is_empty() { Ok(0xff) } else { byte(value) }
}

/// The first byte of a delimiter, and those behind it.
pub(super) fn delimiter(value: &str) -> Result<(u8, Vec<u8>)> {
    let plain = value.replace("\\t", "\t");
    if plain.len() <= 1 || plain == "\\0" {
        return Ok((byte(&plain)?, Vec::new()));
    }
    if plain.len() > DELIMITER_BYTES_MAX || plain.contains(['\n', '\r']) {
        let wanted = format!("expected at most {DELIMITER_BYTES_MAX} bytes without an end of line");
        return Err(Error::input(format!("{wanted}, found '{value}'")).with_code("22023"));
    }
    Ok((plain.as_bytes()[0], plain.as_bytes()[1..].to_vec()))
}

pub(super) fn byte(value: &str) -> Result<u8> {
    match value {
        "\\t" => return Ok(b'\t'),
        "\\0" => return Ok(0),
        _ => {}
    }
    match value.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(Error::input(format!("expected one character of one byte, found '{value}'"))),
    }
}

pub(crate) fn truth(value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "off" | "0" => Ok(false),
        _ => Err(Error::input(format!("expected true or false, found '{value}'"))),
    }
}
