//! Values as text, the same in tables and CSV.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// One formatter per column; `null` is what NULL looks like inside nested values and alone.
pub fn formatters<'a>(
    batch: &'a RecordBatch,
    options: &'a FormatOptions<'a>,
) -> Result<Vec<ArrayFormatter<'a>>, ArrowError> {
    batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), options)).collect()
}
