//! Values as text, for tables, plans and CSV.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// One formatter per column. Fails if a type has no text form.
pub fn formatters<'a>(
    batch: &'a RecordBatch,
    options: &'a FormatOptions<'a>,
) -> Result<Vec<ArrayFormatter<'a>>, ArrowError> {
    batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), options)).collect()
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
