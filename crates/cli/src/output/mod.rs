//! Writes result batches to an output, with one writer per format.
//!
//! `begin` is called once, `write` for every batch as it arrives, and `end` once; without rows, `write` is not called.
//! Nothing here knows queries or terminals.

mod arrow_stream;
mod collected;
mod csv;
mod frame;
mod json;
mod lines;
mod table;
mod text;
mod unaligned;

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use clap::ValueEnum;
use diligence_base::Error;

pub use collected::Collected;
pub use frame::Frame;
pub use lines::LineWriter;
pub use text::{printable, printable_lines};

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table with aligned columns
    Table,
    /// Comma-separated values with a header; NULL is empty, and an empty string is ""
    Csv,
    /// As csv, with tabs between the values
    Tsv,
    /// One JSON array of objects
    Json,
    /// One JSON object per line
    Jsonl,
    /// An Arrow IPC stream
    Arrow,
    /// Values with | between them, and neither widths nor quotes, as psql writes them with -A
    Unaligned,
    /// No output; rows are computed and counted
    None,
}

impl Format {
    /// Whether the format is text rather than binary.
    pub fn is_text(self) -> bool {
        self != Format::Arrow
    }

    /// Whether people read it, who want to be told what a command has done.
    pub fn is_for_people(self) -> bool {
        matches!(self, Format::Table | Format::Unaligned)
    }
}

/// How results look: a format, and of tables their lines and when values stand one below the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The format.
    pub format: Format,
    /// The lines of tables.
    pub frame: Frame,
    /// When the values of a row stand one below the other.
    pub expanded: Expanded,
}

impl Look {
    /// The names that are told to people; there are others.
    pub const NAMES: [&str; 10] =
        ["table", "csv", "tsv", "json", "jsonl", "arrow", "markdown", "line", "unaligned", "none"];

    /// The look of this name in small letters, which may be one of other shells.
    pub fn named(name: &str) -> Option<Self> {
        let (format, frame, expanded) = match name {
            "box" | "duckbox" | "aligned" | "wrapped" => (Format::Table, Frame::Box, Expanded::Auto),
            "column" => (Format::Table, Frame::Bare, Expanded::Auto),
            "markdown" => (Format::Table, Frame::Markdown, Expanded::Off),
            "line" | "lines" | "vertical" => (Format::Table, Frame::Box, Expanded::On),
            "jsonlines" | "ndjson" => (Format::Jsonl, Frame::Box, Expanded::Auto),
            "tabs" => (Format::Tsv, Frame::Box, Expanded::Auto),
            "list" => (Format::Unaligned, Frame::Box, Expanded::Auto),
            "trash" => (Format::None, Frame::Box, Expanded::Auto),
            name => (Format::from_str(name, true).ok()?, Frame::Box, Expanded::Auto),
        };
        Some(Self { format, frame, expanded })
    }

    /// As [`named`](Self::named), for the command line. Fails with a message that lists the names.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::named(&name.to_ascii_lowercase()).ok_or_else(|| format!("the formats are {}", Self::NAMES.join(", ")))
    }
}

/// Why writing stopped.
#[derive(Debug)]
pub enum WriteError {
    /// The output failed. A broken pipe means that the reader has closed it.
    Output(io::Error),
    /// A value cannot be represented in the format.
    Value(Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Output(error)
    }
}

impl From<ArrowError> for WriteError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => WriteError::Output(error),
            other => WriteError::Value(Error::value(other.to_string())),
        }
    }
}

/// Whether a writer wants more rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The writer wants more rows.
    More,
    /// Further rows would not be written, so the query may stop.
    Enough,
}

/// Writes one result. Every method fails if the output does, and if a value cannot be represented in the format.
pub trait ResultWriter {
    /// Called once, before any row.
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), WriteError>;
    /// Called for every batch in order.
    fn write(&mut self, batch: &RecordBatch) -> Result<Demand, WriteError>;
    /// Flushes the rows written so far. Called while the next batch is awaited.
    fn flush(&mut self) -> Result<(), WriteError>;
    /// Whether nothing is written before the end, so that progress may be shown while rows come.
    fn is_silent(&self) -> bool {
        false
    }
    /// Called once, after the last row, unless the query failed.
    fn end(&mut self) -> Result<(), WriteError>;
}

/// When the values of a row stand one below the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expanded {
    /// Never.
    Off,
    /// Always.
    On,
    /// Where a table would be wider than the terminal.
    #[default]
    Auto,
}

/// How the table format looks.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// The most rows.
    pub rows: Option<usize>,
    /// Whether half of the most rows are the last ones. Otherwise all of them are the first ones, and no others are
    /// asked for.
    pub tail: bool,
    /// The most characters in a line.
    pub width: Option<usize>,
    /// Whether the columns' types stand under their names.
    pub types: bool,
    /// What stands for NULL.
    pub null: String,
    /// The lines of the table.
    pub frame: Frame,
    /// When the values of a row stand one below the other.
    pub expanded: Expanded,
    /// Whether the names of the columns are shown; CSV follows this as well.
    pub headers: bool,
    /// Whether the number of rows is shown.
    pub footer: bool,
    /// What stands between the values of a row that are not aligned.
    pub field_separator: String,
    /// What stands between such rows.
    pub record_separator: String,
    /// What stands for NULL in them.
    pub unaligned_null: String,
    /// What stands between values in CSV.
    pub csv_separator: char,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            rows: None,
            tail: false,
            width: None,
            types: false,
            null: "NULL".to_owned(),
            frame: Frame::default(),
            expanded: Expanded::default(),
            headers: true,
            footer: true,
            field_separator: "|".to_owned(),
            record_separator: "\n".to_owned(),
            unaligned_null: String::new(),
            csv_separator: ',',
        }
    }
}

/// A writer for the format.
pub fn writer<'a>(format: Format, output: &'a mut dyn Write, options: TableOptions) -> Box<dyn ResultWriter + 'a> {
    match format {
        Format::Table => Box::new(table::TableWriter::new(output, options)),
        Format::Csv => Box::new(csv::CsvWriter::new(output, options.headers, options.csv_separator)),
        Format::Tsv => Box::new(csv::CsvWriter::new(output, options.headers, '\t')),
        Format::Json => Box::new(json::JsonWriter::array(output)),
        Format::Jsonl => Box::new(json::JsonWriter::lines(output)),
        Format::Arrow => Box::new(arrow_stream::ArrowStreamWriter::new(output)),
        Format::Unaligned => Box::new(unaligned::UnalignedWriter::new(output, options)),
        Format::None => Box::new(NullWriter),
    }
}

/// Discards every row.
struct NullWriter;

impl ResultWriter for NullWriter {
    fn begin(&mut self, _schema: &SchemaRef) -> Result<(), WriteError> {
        Ok(())
    }

    fn write(&mut self, _batch: &RecordBatch) -> Result<Demand, WriteError> {
        Ok(Demand::More)
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        Ok(())
    }

    fn end(&mut self) -> Result<(), WriteError> {
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{
        Array, ArrayRef, Decimal128Array, Decimal256Array, Float64Array, Int64Array, ListArray, StringArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Int32Type, SchemaRef, i256};

    /// Three rows of values that are hard to write: NULL, an empty string, quotes, commas, newlines, a list.
    pub(crate) fn sample() -> RecordBatch {
        let number: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(-30)]));
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a,\"b\""), Some(""), None]));
        let price = Decimal128Array::from(vec![100, 250, -5]).with_precision_and_scale(9, 2).unwrap();
        let float: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 0.5, f64::NAN]));
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
        ]));
        RecordBatch::try_from_iter_with_nullable([
            ("number", number, true),
            ("text", text, true),
            ("price", Arc::new(price) as ArrayRef, true),
            ("float", float, true),
            ("list", list, true),
        ])
        .unwrap()
    }

    /// The output of a writer for these batches.
    pub(crate) fn written(
        format: Format,
        schema: &SchemaRef,
        batches: &[RecordBatch],
        rows_max: Option<usize>,
    ) -> Vec<u8> {
        let mut output = Vec::new();
        let mut writer = writer(format, &mut output, TableOptions { rows: rows_max, ..TableOptions::default() });
        writer.begin(schema).unwrap();
        for batch in batches {
            if writer.write(batch).unwrap() == Demand::Enough {
                break;
            }
        }
        writer.end().unwrap();
        drop(writer);
        output
    }

    pub(crate) fn text(format: Format, batches: &[RecordBatch], rows_max: Option<usize>) -> String {
        String::from_utf8(written(format, &sample().schema(), batches, rows_max)).unwrap()
    }

    #[test]
    fn numbers_have_no_zeros_at_their_end() {
        let tenths = |tenths| Some(i256::from_i128(tenths).wrapping_mul(i256::from_i128(10_i128.pow(37))));
        let numbers = Decimal256Array::from(vec![tenths(25), None, tenths(-100)]).with_precision_and_scale(76, 38);
        let numbers: ArrayRef = Arc::new(numbers.unwrap());
        let field = Arc::new(Field::new("item", numbers.data_type().clone(), true));
        let lists = ListArray::new(field, OffsetBuffer::from_lengths([2, 0, 1]), numbers.clone(), None);
        let batch = RecordBatch::try_from_iter([("n", numbers), ("l", Arc::new(lists) as ArrayRef)]).unwrap();
        for (format, expected) in [
            (Format::Csv, "n,l\n2.5,\"[2.5, NULL]\"\n,[]\n-10,[-10]\n"),
            (Format::Jsonl, "{\"n\":2.5,\"l\":[2.5,null]}\n{\"n\":null,\"l\":[]}\n{\"n\":-10,\"l\":[-10]}\n"),
        ] {
            let output = written(format, &batch.schema(), std::slice::from_ref(&batch), None);
            assert_eq!(String::from_utf8(output).unwrap(), expected);
        }
    }

    #[test]
    fn none_writes_nothing() {
        assert_eq!(text(Format::None, &[sample()], None), "");
    }
}
