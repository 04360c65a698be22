//! A `numeric` without parentheses where Arrow writes values: without zeros at its end, as everywhere else.

use std::fmt::Write;

use arrow::array::{Array, AsArray, Decimal256Array};
use arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampSecondType,
};
use arrow::error::ArrowError;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder};
use arrow::util::display::{ArrayFormatter, ArrayFormatterFactory, DisplayIndex, FormatOptions, FormatResult};
use diligence_db::postgres::UNBOUNDED_NUMERIC;

/// Has Arrow's formatters of text and encoders of JSON write such numbers, also in lists and structs. All else is left
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

/// Fails if a date or a time is so far away that it has no text: it is an error of the query, and no text of a cell.
fn check_times(array: &dyn Array) -> Result<(), ArrowError> {
    let is_shown = |is_time: &dyn Fn(usize) -> bool| (0..array.len()).all(|row| array.is_null(row) || is_time(row));
    let is_right = match array.data_type() {
        DataType::Date32 => {
            let dates = array.as_primitive::<Date32Type>();
            is_shown(&|row| dates.value_as_date(row).is_some())
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            let times = array.as_primitive::<TimestampSecondType>();
            is_shown(&|row| times.value_as_datetime(row).is_some())
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            let times = array.as_primitive::<TimestampMillisecondType>();
            is_shown(&|row| times.value_as_datetime(row).is_some())
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let times = array.as_primitive::<TimestampMicrosecondType>();
            is_shown(&|row| times.value_as_datetime(row).is_some())
        }
        _ => true,
    };
    if is_right {
        return Ok(());
    }
    Err(ArrowError::CastError("a date or a timestamp is out of range: it has no text".to_owned()))
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
        _field: Option<&'formatter Field>,
    ) -> Result<Option<ArrayFormatter<'formatter>>, ArrowError> {
        check_times(array)?;
        let plain = Plain::of(array, options.null());
        Ok(plain.map(|plain| ArrayFormatter::new(Box::new(plain), options.safe())))
    }
}

impl EncoderFactory for PlainNumeric {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        check_times(array)?;
        let plain = Plain::of(array, "");
        Ok(plain.map(|plain| NullableEncoder::new(Box::new(plain), array.nulls().cloned())))
    }
}
