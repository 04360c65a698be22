//! Values as text, for tables, plans and CSV.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, ArrayFormatterFactory, FormatOptions};
use diligence_server::PlainNumeric;

/// How values are written.
pub fn options<'a>() -> FormatOptions<'a> {
    FormatOptions::default().with_formatter_factory(Some(&PlainNumeric))
}

/// One formatter per column, with some of these [`options`]. Fails if a type has no text form.
pub fn formatters<'a>(
    batch: &'a RecordBatch,
    options: &'a FormatOptions<'a>,
) -> Result<Vec<ArrayFormatter<'a>>, ArrowError> {
    let formatter = |column: &'a arrow::array::ArrayRef| {
        // Arrow asks for those of elements and fields only.
        let own = PlainNumeric.create_array_formatter(column.as_ref(), options, None)?;
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
