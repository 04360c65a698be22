//! Comma-separated values as in RFC 4180, with `\n` as the line terminator and with a header.
//!
//! The writer of the `arrow` crate does not serve: it cannot distinguish NULL from an empty string, writes no header
//! for a result without rows, and rejects nested values. Here NULL is empty, an empty string is `""`, and a nested
//! value is its text.

use std::fmt::Write as _;
use std::io::Write;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use diligence_base::Error;

use super::text::{formatters, options};
use super::{Demand, ResultWriter, WriteError};

pub(super) struct CsvWriter<'a> {
    output: &'a mut dyn Write,
    /// Whether the names of the columns are written.
    header: bool,
    separator: char,
    /// The current line and value; reused to keep their allocations.
    line: String,
    value: String,
}

impl<'a> CsvWriter<'a> {
    pub(super) fn new(output: &'a mut dyn Write, header: bool, separator: char) -> Self {
        Self { output, header, separator, line: String::new(), value: String::new() }
    }
}

/// Appends a value that is not NULL.
fn push_value(line: &mut String, value: &str, separator: char) {
    if value.is_empty() {
        line.push_str("\"\"");
    } else if value.contains(['"', separator, '\n', '\r']) {
        line.push('"');
        line.push_str(&value.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(value);
    }
}

impl ResultWriter for CsvWriter<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), WriteError> {
        if !self.header {
            return Ok(());
        }
        for (position, field) in schema.fields().iter().enumerate() {
            if position > 0 {
                self.line.push(self.separator);
            }
            push_value(&mut self.line, field.name(), self.separator);
        }
        self.line.push('\n');
        self.output.write_all(self.line.as_bytes())?;
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<Demand, WriteError> {
        let options = options().with_null("NULL").with_display_error(false);
        let formatters = formatters(batch, &options)?;
        // A column of type Null has no validity bitmap.
        let nulls = batch.columns().iter().map(|column| column.logical_nulls()).collect::<Vec<_>>();
        self.line.clear();
        for row in 0..batch.num_rows() {
            for (position, formatter) in formatters.iter().enumerate() {
                if position > 0 {
                    self.line.push(self.separator);
                }
                if nulls[position].as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    continue;
                }
                self.value.clear();
                write!(self.value, "{}", formatter.value(row)).map_err(|_| {
                    let schema = batch.schema();
                    let name = schema.field(position).name().clone();
                    WriteError::Value(Error::value(format!("a value of column '{name}' cannot be formatted as text")))
                })?;
                push_value(&mut self.line, &self.value, self.separator);
            }
            self.line.push('\n');
        }
        self.output.write_all(self.line.as_bytes())?;
        Ok(Demand::More)
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        Ok(self.output.flush()?)
    }

    fn end(&mut self) -> Result<(), WriteError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::{sample, text, written};
    use super::*;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, NullArray};

    #[test]
    fn null_is_empty_and_an_empty_string_is_two_quotes() {
        let expected = "number,text,price,float,list\n\
            1,\"a,\"\"b\"\"\",1.00,1.0,\"[1, NULL]\"\n\
            ,\"\",2.50,0.5,\n\
            -30,,-0.05,NaN,[]\n";
        assert_eq!(text(Format::Csv, &[sample()], None), expected);
    }

    #[test]
    fn a_column_of_nulls_is_empty() {
        let nulls: ArrayRef = Arc::new(NullArray::new(2));
        let ones: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([("z", nulls), ("a", ones)]).unwrap();
        let bytes = written(Format::Csv, &batch.schema(), &[batch], None);
        assert_eq!(String::from_utf8(bytes).unwrap(), "z,a\n,1\n,2\n");
    }

    #[test]
    fn a_result_without_rows_has_a_header() {
        assert_eq!(text(Format::Csv, &[], None), "number,text,price,float,list\n");
    }
}
