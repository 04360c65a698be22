//! Rows as separated values, which the reader takes for the same values.
//!
//! NULL is the text that stands for it, never in quotes; a text that looks like it, an empty one too, is in quotes. So
//! a record of one column that is NULL is an empty line. Dates, times, intervals and bytes are SQL's texts.

use std::fmt::Write;

use arrow::array::{Array, RecordBatch, StringViewArray};
use arrow::csv::WriterBuilder;
use arrow::csv::writer::{QuoteStyle, Terminator};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use diligence_base::{Error, Result};
use diligence_types::coercion::file_texts;

use crate::foreign_error::from_arrow;

/// A column's values as texts.
enum Texts<'a> {
    Own(StringViewArray),
    Arrow(ArrayFormatter<'a>),
}

/// How separated values are written.
#[derive(Clone)]
pub(super) struct CsvForm {
    builder: WriterBuilder,
    /// Columns whose values are in quotes, `*` for all.
    quoted: Vec<String>,
    /// What is between fields.
    delimiter: Vec<u8>,
}

impl CsvForm {
    /// As the builder says, but for a delimiter that is given.
    pub fn new(builder: WriterBuilder, quoted: Vec<String>, delimiter: Option<&str>) -> Self {
        let delimiter = delimiter.map_or_else(|| vec![builder.delimiter()], |text| text.as_bytes().to_vec());
        Self { builder, quoted, delimiter }
    }

    /// Whether files begin with the names of columns.
    pub fn has_header(&self) -> bool {
        self.builder.header()
    }
}

/// Writes the names of columns.
pub(super) fn write_header(form: &CsvForm, schema: &SchemaRef, out: &mut Vec<u8>) {
    for (index, field) in schema.fields().iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(&form.delimiter);
        }
        write_field(form, field.name(), false, index == 0, out);
    }
    end_line(&form.builder, out);
}

fn end_line(builder: &WriterBuilder, out: &mut Vec<u8>) {
    match builder.line_terminator() {
        Terminator::CRLF => out.extend_from_slice(b"\r\n"),
        Terminator::Any(byte) => out.push(*byte),
    }
}

/// Writes rows. Fails with kind `Value` if a value has no text.
pub(super) fn write_rows(form: &CsvForm, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let builder = &form.builder;
    let options = FormatOptions::default()
        .with_display_error(false)
        .with_date_format(builder.date_format())
        .with_datetime_format(builder.datetime_format())
        .with_time_format(builder.time_format())
        .with_timestamp_format(builder.timestamp_format())
        .with_timestamp_tz_format(builder.timestamp_tz_format());
    let schema = rows.schema();
    let mut columns = Vec::with_capacity(rows.num_columns());
    for (field, array) in schema.fields().iter().zip(rows.columns()) {
        let has_format = match field.data_type() {
            DataType::Date32 => builder.date_format().is_some(),
            DataType::Date64 => builder.datetime_format().is_some(),
            DataType::Time32(_) | DataType::Time64(_) => builder.time_format().is_some(),
            DataType::Timestamp(_, None) => builder.timestamp_format().is_some(),
            DataType::Timestamp(_, Some(_)) => builder.timestamp_tz_format().is_some(),
            _ => false,
        };
        let own = if has_format { None } else { file_texts(array, field)? };
        let texts = match own {
            Some(texts) => Texts::Own(texts),
            None => Texts::Arrow(ArrayFormatter::try_new(array, &options).map_err(from_arrow)?),
        };
        let is_number = field.data_type().is_numeric();
        let is_quoted = form.quoted.iter().any(|name| name == "*" || name == field.name());
        columns.push((texts, array.logical_nulls(), is_number, is_quoted, field.name()));
    }
    let mut text = String::new();
    for row in 0..rows.num_rows() {
        for (index, (texts, nulls, is_number, is_quoted, name)) in columns.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(&form.delimiter);
            }
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                out.extend_from_slice(builder.null().as_bytes());
                continue;
            }
            let text = match texts {
                Texts::Own(texts) => texts.value(row),
                Texts::Arrow(formatter) => {
                    text.clear();
                    write!(text, "{}", formatter.value(row))
                        .map_err(|_| Error::value(format!("a value of column '{name}' has no text")))?;
                    text.as_str()
                }
            };
            let text = if builder.ignore_leading_whitespace() { text.trim_start() } else { text };
            let text = if builder.ignore_trailing_whitespace() { text.trim_end() } else { text };
            match is_quoted {
                true => write_quoted(builder, text, out),
                false => write_field(form, text, *is_number, index == 0, out),
            }
        }
        end_line(builder, out);
    }
    Ok(())
}

fn write_field(form: &CsvForm, text: &str, is_number: bool, is_first: bool, out: &mut Vec<u8>) {
    let builder = &form.builder;
    // With a part of a delimiter at its end, a text would be taken for another.
    let (quote, delimiter) = (builder.quote(), form.delimiter[0]);
    let bytes = text.as_bytes();
    let is_needed = || {
        // What begins with `#` is a comment to some readers; blanks around a text are left out by others.
        let is_odd = |byte: u8| byte == quote || byte == delimiter || matches!(byte, b'\n' | b'\r');
        text == builder.null()
            || bytes.is_empty()
            || bytes.iter().any(|byte| is_odd(*byte))
            || is_first && bytes[0] == b'#'
            || bytes[0].is_ascii_whitespace()
            || bytes[bytes.len() - 1].is_ascii_whitespace()
    };
    let is_quoted = match builder.quote_style() {
        QuoteStyle::Always => true,
        QuoteStyle::NonNumeric => !is_number,
        QuoteStyle::Never => false,
        _ => is_needed(),
    };
    match is_quoted {
        true => write_quoted(builder, text, out),
        false => out.extend_from_slice(bytes),
    }
}

fn write_quoted(builder: &WriterBuilder, text: &str, out: &mut Vec<u8>) {
    let quote = builder.quote();
    out.push(quote);
    for &byte in text.as_bytes() {
        if builder.double_quote() {
            if byte == quote {
                out.push(quote);
            }
        } else if byte == quote || byte == builder.escape() {
            out.push(builder.escape());
        }
        out.push(byte);
    }
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryViewArray, Date32Array, Float64Array};

    use super::*;

    fn written(builder: &WriterBuilder, columns: Vec<(&str, ArrayRef)>) -> String {
        let rows =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)));
        let rows = rows.unwrap();
        let mut out = Vec::new();
        let form = CsvForm::new(builder.clone(), vec![], None);
        write_header(&form, &rows.schema(), &mut out);
        write_rows(&form, &rows, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_quoted_where_it_is_said() {
        let columns: Vec<(&str, ArrayRef)> =
            vec![("n", Arc::new(Float64Array::from(vec![Some(1.5), None]))), ("t", texts(&[Some("a"), Some("b\"c")]))];
        let rows =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)));
        let rows = rows.unwrap();
        for (quoted, expected) in
            [(vec!["n".to_owned()], "\"1.5\",a\n,\"b\"\"c\"\n"), (vec!["*".to_owned()], "\"1.5\",\"a\"\n,\"b\"\"c\"\n")]
        {
            let mut out = Vec::new();
            write_rows(&CsvForm::new(WriterBuilder::new(), quoted.clone(), None), &rows, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{quoted:?}");
        }
        let values: Vec<(&str, ArrayRef)> = vec![("t", texts(&[Some("a|")])), ("u", texts(&[Some("b")]))];
        let rows = RecordBatch::try_from_iter(values).unwrap();
        let (form, mut out) = (CsvForm::new(WriterBuilder::new(), vec![], Some("||")), Vec::new());
        write_header(&form, &rows.schema(), &mut out);
        write_rows(&form, &rows, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "t||u\n\"a|\"||b\n");
    }

    fn texts(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(values.iter().collect::<StringViewArray>())
    }

    #[test]
    fn null_is_no_empty_text() {
        let plain = WriterBuilder::new();
        let values = [None, Some(""), Some("a,\"b\""), Some(" c"), Some("#d")];
        assert_eq!(written(&plain, vec![("t", texts(&values))]), "t\n\n\"\"\n\"a,\"\"b\"\"\"\n\" c\"\n\"#d\"\n");
        let named = WriterBuilder::new().with_null("NULL".to_owned());
        let values = [None, Some("NULL"), Some("")];
        assert_eq!(written(&named, vec![("t", texts(&values))]), "t\nNULL\n\"NULL\"\n\"\"\n");
        let escaped = WriterBuilder::new().with_double_quote(false).with_escape(b'\\');
        assert_eq!(written(&escaped, vec![("t", texts(&[Some("a\\\"")]))]), "t\n\"a\\\\\\\"\"\n");
    }

    #[test]
    fn values_have_the_texts_of_sql() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("d", Arc::new(Date32Array::from(vec![i32::MAX, 0]))),
            ("b", Arc::new(BinaryViewArray::from(vec![&b"\x00\xff"[..], b""]))),
            ("n", Arc::new(Float64Array::from(vec![1.0, f64::NAN]))),
        ];
        assert_eq!(written(&WriterBuilder::new(), columns), "d,b,n\ninfinity,\\x00ff,1.0\n1970-01-01,\\x,NaN\n");
    }
}
