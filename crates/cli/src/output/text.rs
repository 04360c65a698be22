//! Values as text, for tables, plans and CSV: dates, times, intervals and bytes in SQL's texts, as servers write them
//! and files have them, also in lists and structs.

use std::fmt::Write;

use arrow::array::{Array, ArrayRef, RecordBatch, StringViewArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, ArrayFormatterFactory, DisplayIndex, FormatOptions, FormatResult};
use diligence_db::{Printer, SqlType, Zone};
use diligence_server::PlainNumeric;

/// Has Arrow's formatters write values in SQL's texts where Arrow has others.
#[derive(Clone, Copy, Debug)]
struct SqlTexts;

/// The texts of an array, and what stands for NULL among them.
struct Texts<'a> {
    texts: StringViewArray,
    null: &'a str,
}

impl DisplayIndex for Texts<'_> {
    fn write(&self, row: usize, out: &mut dyn Write) -> FormatResult {
        out.write_str(if self.texts.is_null(row) { self.null } else { self.texts.value(row) })?;
        Ok(())
    }
}

impl ArrayFormatterFactory for SqlTexts {
    fn create_array_formatter<'formatter>(
        &self,
        array: &'formatter dyn Array,
        options: &FormatOptions<'formatter>,
        field: Option<&'formatter Field>,
    ) -> Result<Option<ArrayFormatter<'formatter>>, ArrowError> {
        match sql_texts(array)? {
            Some(texts) => {
                let texts = Texts { texts, null: options.null() };
                Ok(Some(ArrayFormatter::new(Box::new(texts), options.safe())))
            }
            None => PlainNumeric.create_array_formatter(array, options, field),
        }
    }
}

/// The texts of dates, times, intervals and bytes; `None` of other values. Fails if a value is beyond what SQL's type
/// holds.
fn sql_texts(array: &dyn Array) -> Result<Option<StringViewArray>, ArrowError> {
    let micros = TimeUnit::Microsecond;
    let (held, sql_type) = match array.data_type() {
        DataType::Date32 | DataType::Date64 => (DataType::Date32, SqlType::Date),
        DataType::Time32(_) | DataType::Time64(_) => (DataType::Time64(micros), SqlType::Time),
        DataType::Timestamp(_, None) => (DataType::Timestamp(micros, None), SqlType::Timestamp),
        DataType::Timestamp(_, zone) => (DataType::Timestamp(micros, zone.clone()), SqlType::TimestampTz),
        DataType::Interval(_) | DataType::Duration(_) => {
            (DataType::Interval(IntervalUnit::MonthDayNano), SqlType::Interval)
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            (DataType::BinaryView, SqlType::Bytea)
        }
        _ => return Ok(None),
    };
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let array = cast_with_options(array, &held, &options)?;
    let printer = Printer::new(&array, &sql_type, Zone::UTC);
    let printer = printer.map_err(|error| ArrowError::CastError(error.message().to_owned()))?;
    Ok(Some(printer.texts()))
}

/// How values are written.
pub fn options<'a>() -> FormatOptions<'a> {
    FormatOptions::default().with_formatter_factory(Some(&SqlTexts))
}

/// One formatter per column, with some of these [`options`]. Fails if a type has no text form.
pub fn formatters<'a>(
    batch: &'a RecordBatch,
    options: &'a FormatOptions<'a>,
) -> Result<Vec<ArrayFormatter<'a>>, ArrowError> {
    let formatter = |column: &'a ArrayRef| {
        // Arrow asks for those of elements and fields only.
        let own = SqlTexts.create_array_formatter(column.as_ref(), options, None)?;
        own.map_or_else(|| ArrayFormatter::try_new(column.as_ref(), options), Ok)
    };
    batch.columns().iter().map(formatter).collect()
}

/// The text with control characters escaped, so that it cannot control a terminal.
pub fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let escape = |character: char| match character {
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        other if other.is_control() => other.escape_unicode().to_string(),
        other => other.to_string(),
    };
    text.chars().map(escape).collect()
}

/// The same of a text of several lines, which stay lines. Blanks at its end are none.
pub fn printable_lines(text: &str) -> String {
    text.trim_end().lines().map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, Date32Array, DurationSecondArray, FixedSizeBinaryArray, ListArray, Time64MicrosecondArray,
        TimestampSecondArray,
    };
    use arrow::buffer::OffsetBuffer;

    use super::*;

    fn shown(array: ArrayRef) -> Vec<String> {
        let batch = RecordBatch::try_from_iter([("a", array)]).unwrap();
        let options = options().with_null("-");
        let formatters = formatters(&batch, &options).unwrap();
        (0..batch.num_rows()).map(|row| formatters[0].value(row).to_string()).collect()
    }

    #[test]
    fn lines_of_a_text_stay_lines_and_nothing_else_controls_a_terminal() {
        assert_eq!(printable_lines("a\r\nb\u{1b}[2J\n\n"), "a\nb\\u{1b}[2J");
        assert_eq!(printable_lines("\n"), "");
    }

    #[test]
    fn values_are_shown_as_sql_writes_them() {
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"\x00a"[..]), None]));
        let cases: Vec<(ArrayRef, &[&str])> = vec![
            (bytes.clone(), &["\\x0061", "-"]),
            (Arc::new(FixedSizeBinaryArray::try_from_iter([b"ab"].into_iter()).unwrap()), &["\\x6162"]),
            (Arc::new(Date32Array::from(vec![18_263, -735_160])), &["2020-01-02", "0044-03-15 BC"]),
            (Arc::new(Time64MicrosecondArray::from(vec![86_399_500_000])), &["23:59:59.5"]),
            (Arc::new(TimestampSecondArray::from(vec![1_577_934_245])), &["2020-01-02 03:04:05"]),
            (
                Arc::new(TimestampSecondArray::from(vec![1_577_934_245]).with_timezone("Europe/Berlin")),
                &["2020-01-02 03:04:05+00"],
            ),
            (Arc::new(DurationSecondArray::from(vec![86_402])), &["24:00:02"]),
        ];
        for (array, expected) in cases {
            assert_eq!(shown(array), expected);
        }
        let item = Arc::new(Field::new("item", DataType::Binary, true));
        let list = ListArray::new(item, OffsetBuffer::from_lengths([2]), bytes, None);
        assert_eq!(shown(Arc::new(list)), ["[\\x0061, -]"]);
    }
}
