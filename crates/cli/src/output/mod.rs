//! Result batches as bytes on an output: one writer per format.
//!
//! A writer gets `begin` once, `write` for every batch as it appears, and `end` once; a result without rows has no
//! `write`. Nothing here knows queries or terminals.

mod arrow_stream;
mod csv;
mod json;
mod lines;
mod table;
mod text;

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use diligence_base::Error;

pub use lines::LineWriter;
pub use text::printable;

use crate::failure::Failure;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A box with aligned columns, for reading
    Table,
    /// Comma-separated values with a header; NULL is empty, an empty string is ""
    Csv,
    /// One JSON array of objects
    Json,
    /// One JSON object per line
    Jsonl,
    /// An Arrow IPC stream
    Arrow,
    /// Nothing: the rows are computed and counted
    None,
}

impl Format {
    /// Fails for what only programs can read.
    pub fn check_for_terminal(self) -> Result<(), Failure> {
        if self != Format::Arrow {
            return Ok(());
        }
        Err(Failure::Usage(
            "the format arrow is not for people: 'diligence sql --format arrow' writes it to a file or a program"
                .to_owned(),
        ))
    }
}

/// Why writing stopped.
#[derive(Debug)]
pub enum WriteError {
    /// The output failed; a broken pipe is somebody who has seen enough.
    Output(io::Error),
    /// A value has no form in the format.
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
pub enum Appetite {
    /// Go on.
    More,
    /// What follows would not be shown: the query may stop.
    Enough,
}

/// Writes one result.
pub trait ResultWriter {
    /// Called once, before any row.
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), WriteError>;
    /// Called for every batch in order.
    fn write(&mut self, batch: &RecordBatch) -> Result<Appetite, WriteError>;
    /// Pushes out what was written so far; called when the next batch keeps one waiting.
    fn flush(&mut self) -> Result<(), WriteError>;
    /// Called once, after the last row; not when the query failed.
    fn end(&mut self) -> Result<(), WriteError>;
}

/// The room that a table has; any other format takes what it needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// Rows at most.
    pub rows: Option<usize>,
    /// Characters in a line at most.
    pub width: Option<usize>,
}

/// The writer of a format.
pub fn writer<'a>(format: Format, output: &'a mut dyn Write, room: Room) -> Box<dyn ResultWriter + 'a> {
    match format {
        Format::Table => Box::new(table::TableWriter::new(output, room)),
        Format::Csv => Box::new(csv::CsvWriter::new(output)),
        Format::Json => Box::new(json::JsonWriter::array(output)),
        Format::Jsonl => Box::new(json::JsonWriter::lines(output)),
        Format::Arrow => Box::new(arrow_stream::ArrowStreamWriter::new(output)),
        Format::None => Box::new(Silence),
    }
}

/// Takes every row and writes none.
struct Silence;

impl ResultWriter for Silence {
    fn begin(&mut self, _schema: &SchemaRef) -> Result<(), WriteError> {
        Ok(())
    }

    fn write(&mut self, _batch: &RecordBatch) -> Result<Appetite, WriteError> {
        Ok(Appetite::More)
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

    use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, ListArray, StringArray};
    use arrow::datatypes::{Int32Type, SchemaRef};

    /// Three rows with what is hard to write: NULL, an empty string, quotes, commas, line ends, a list.
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

    /// What a writer makes of batches.
    pub(crate) fn written(
        format: Format,
        schema: &SchemaRef,
        batches: &[RecordBatch],
        rows_max: Option<usize>,
    ) -> Vec<u8> {
        let mut output = Vec::new();
        let mut writer = writer(format, &mut output, Room { rows: rows_max, width: None });
        writer.begin(schema).unwrap();
        for batch in batches {
            if writer.write(batch).unwrap() == Appetite::Enough {
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
    fn none_writes_nothing() {
        assert_eq!(text(Format::None, &[sample()], None), "");
    }
}
