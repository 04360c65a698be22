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

/// The text without anything that a terminal would obey.
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
