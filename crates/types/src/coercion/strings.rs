//! Casts between the string types, and what a cast makes of booleans and `jsonb`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray, StringViewBuilder};
use arrow::datatypes::Int64Type;
use diligence_base::{Error, Result};

use super::Cast;
use crate::SqlType;
use crate::text::{self, json};

/// Fits texts into another string type.
pub(super) fn fit(cast: &Cast<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    let texts = array.as_string_view();
    let fits = match (cast.from, cast.to) {
        (_, SqlType::Unknown | SqlType::Text | SqlType::Varchar(None)) => true,
        (SqlType::Varchar(Some(from)), SqlType::Varchar(Some(to))) => from <= to,
        (SqlType::Char(Some(from)), SqlType::Char(to)) => to.is_none_or(|to| *from <= to),
        _ => false,
    };
    if fits {
        return Ok(array.clone());
    }
    text::parse_array(texts, cast.to, &cast.read_options())
}

/// `true` and `false`.
pub(super) fn boolean_words(array: &BooleanArray) -> ArrayRef {
    let words = array.iter().map(|value| value.map(|value| if value { "true" } else { "false" }));
    Arc::new(words.collect::<StringViewArray>())
}

/// The booleans and numbers that `jsonb` values are; JSON's null is NULL.
pub(super) fn of_jsonb(cast: &Cast<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    let is_boolean = *cast.to == SqlType::Boolean;
    if !is_boolean && !super::numbers::is_number(cast.to) || matches!(cast.to, SqlType::Oid(_)) {
        return Err(cast.no_cast());
    }
    let mut words = StringViewBuilder::with_capacity(array.len());
    for text in array.as_string_view() {
        let Some(text) = text else {
            words.append_null();
            continue;
        };
        let kind = match json::parse(text)? {
            json::Json::Boolean(value) if is_boolean => {
                words.append_value(if value { "true" } else { "false" });
                continue;
            }
            json::Json::Number(number) if !is_boolean => {
                words.append_value(number);
                continue;
            }
            json::Json::Null => "null",
            json::Json::Boolean(_) => "boolean",
            json::Json::Number(_) => "numeric",
            json::Json::Text(_) => "string",
            json::Json::Array(_) => "array",
            json::Json::Object(_) => "object",
        };
        if !cast.is_try {
            return Err(Error::input(format!("cannot cast jsonb {kind} to type {}", cast.to)).with_code("22023"));
        }
        words.append_null();
    }
    let words: ArrayRef = Arc::new(words.finish());
    match is_boolean {
        true => Cast { from: &SqlType::Text, ..*cast }.array(&words),
        false => {
            let numbers = Cast { from: &SqlType::Text, to: &SqlType::NUMERIC, ..*cast }.array(&words)?;
            Cast { from: &SqlType::NUMERIC, ..*cast }.array(&numbers)
        }
    }
}

/// The last bits of integers.
pub(super) fn bits_of(cast: &Cast<'_>, array: &ArrayRef, length: u32) -> Result<ArrayRef> {
    let numbers = Cast { to: &SqlType::BigInt, ..*cast }.array(array)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let bits = numbers.iter().map(|number| number.map(|number| text::bits::of_integer(number, length)));
    Ok(Arc::new(bits.collect::<StringViewArray>()))
}

/// The integers that bits are.
pub(super) fn of_bits(cast: &Cast<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    let width = if *cast.to == SqlType::Integer { 32 } else { 64 };
    let name = cast.to.to_string();
    let number = |bits: Option<&str>| match bits.map(|bits| text::bits::to_integer(bits, width, &name)) {
        Some(Err(_)) if cast.is_try => Ok(None),
        other => other.transpose(),
    };
    let numbers = array.as_string_view().iter().map(number).collect::<Result<Int64Array>>()?;
    let numbers: ArrayRef = Arc::new(numbers);
    Cast { from: &SqlType::BigInt, ..*cast }.array(&numbers)
}
