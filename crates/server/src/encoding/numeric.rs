//! What Arrow would write otherwise: a `numeric` without parentheses, which has no zeros at its end, dates and times
//! that Arrow has no text for, and in JSON `json` and `jsonb`, which are nested, and bytes, which are SQL's texts.

use std::fmt::Write;

use arrow::array::{Array, AsArray, BinaryViewArray, Decimal256Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder};
use arrow::util::display::{ArrayFormatter, ArrayFormatterFactory, DisplayIndex, FormatOptions, FormatResult};
use diligence_db::postgres::UNBOUNDED_NUMERIC;
use diligence_db::{Forms, SqlType};
use serde::de::IgnoredAny;

/// Has Arrow's formatters of text and encoders of JSON write such values, also in lists and structs. All else is left
/// to them.
#[derive(Clone, Copy, Debug)]
pub struct PlainNumeric;

/// The numbers of an array, and what stands for NULL among them.
struct Plain<'a> {
    array: &'a Decimal256Array,
    null: &'a str,
}

impl<'a> Plain<'a> {
    fn of(array: &'a dyn Array, null: &'a str) -> Option<Self> {
        match array.data_type() {
            DataType::Decimal256(precision, scale) if (*precision, *scale) == UNBOUNDED_NUMERIC => {
                Some(Self { array: array.as_primitive(), null })
            }
            _ => None,
        }
    }
}

/// The text of a decimal with zeros at its end, without them.
pub(super) fn without_zeros(shown: &str) -> &str {
    if shown.contains('.') { shown.trim_end_matches('0').trim_end_matches('.') } else { shown }
}

impl DisplayIndex for Plain<'_> {
    fn write(&self, row: usize, out: &mut dyn Write) -> FormatResult {
        if self.array.is_null(row) {
            out.write_str(self.null)?;
        } else {
            out.write_str(without_zeros(&self.array.value_as_string(row)))?;
        }
        Ok(())
    }
}

impl Encoder for Plain<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(without_zeros(&self.array.value_as_string(row)).as_bytes());
    }
}

impl ArrayFormatterFactory for PlainNumeric {
    fn create_array_formatter<'formatter>(
        &self,
        array: &'formatter dyn Array,
        options: &FormatOptions<'formatter>,
        field: Option<&'formatter Field>,
    ) -> Result<Option<ArrayFormatter<'formatter>>, ArrowError> {
        match Plain::of(array, options.null()) {
            Some(plain) => Ok(Some(ArrayFormatter::new(Box::new(plain), options.safe()))),
            None => Forms::Iso.create_array_formatter(array, options, field),
        }
    }
}

impl EncoderFactory for PlainNumeric {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        if let Some(plain) = Plain::of(array, "") {
            return Ok(Some(NullableEncoder::new(Box::new(plain), array.nulls().cloned())));
        }
        let encoder: Box<dyn Encoder> = match array.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
                if matches!(SqlType::of_field(field), Some(SqlType::Json | SqlType::Jsonb)) =>
            {
                Box::new(Nested(cast(array, &DataType::Utf8View)?.as_string_view().clone()))
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
                if matches!(SqlType::of_field(field), Some(SqlType::Numeric(_))) =>
            {
                Box::new(Digits(cast(array, &DataType::Utf8View)?.as_string_view().clone()))
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Box::new(Bytes(cast(array, &DataType::BinaryView)?.as_binary_view().clone()))
            }
            _ => return Forms::Iso.make_default_encoder(field, array, options),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

/// Texts that are JSON, which stand in JSON as they are.
struct Nested(StringViewArray);

impl Encoder for Nested {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = self.0.value(row);
        match serde_json::from_str::<IgnoredAny>(text) {
            // A line end in JSON is no more than a blank, and would end a line here.
            Ok(_) => out.extend(text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte })),
            // What other programs have written into files need not be JSON.
            Err(_) => out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes()),
        }
    }
}

/// Numbers as texts, as clients of a server have those of any length. NaN and the infinities are null.
struct Digits(StringViewArray);

impl Encoder for Digits {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = self.0.value(row);
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
        out.extend_from_slice(if is_number && !text.is_empty() { text.as_bytes() } else { b"null" });
    }
}

/// Bytes, as SQL writes them.
struct Bytes(BinaryViewArray);

impl Encoder for Bytes {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let mut text = String::from("\"\\\\x");
        for byte in self.0.value(row) {
            // A text takes all that is written.
            let _ = write!(text, "{byte:02x}");
        }
        text.push('"');
        out.extend_from_slice(text.as_bytes());
    }
}
