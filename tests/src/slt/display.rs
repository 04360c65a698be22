//! How values and column types stand in a script; `tests/slt/README.md` describes it.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};
use sqllogictest::ColumnType;

/// The type of a column, as a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnLetter(char);

/// The letter of truth values.
pub const BOOLEAN: ColumnLetter = ColumnLetter('B');
/// The letter of whole numbers.
pub const INTEGER: ColumnLetter = ColumnLetter('I');
/// The letter of other numbers.
pub const REAL: ColumnLetter = ColumnLetter('R');
/// The letter of texts.
pub const TEXT: ColumnLetter = ColumnLetter('T');
/// The letter of dates and times.
pub const DATE: ColumnLetter = ColumnLetter('D');
/// The letter of timestamps.
pub const TIMESTAMP: ColumnLetter = ColumnLetter('P');
/// The letter of everything else.
pub const OTHER: ColumnLetter = ColumnLetter('?');
/// Numbers of PostgreSQL's type numeric, whole or not; no script has this letter.
pub const NUMERIC: ColumnLetter = ColumnLetter('N');

const LETTERS: &str = "BIRTDP?";

impl ColumnType for ColumnLetter {
    fn from_char(value: char) -> Option<Self> {
        LETTERS.contains(value).then_some(ColumnLetter(value))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

/// The letters of a schema.
pub fn letters(schema: &Schema) -> Vec<ColumnLetter> {
    schema.fields().iter().map(|field| ColumnLetter(letter(field.data_type()))).collect()
}

fn letter(data_type: &DataType) -> char {
    match data_type {
        DataType::Dictionary(_, values) => letter(values),
        DataType::Boolean => 'B',
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => 'T',
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => 'D',
        DataType::Timestamp(..) => 'P',
        integer if integer.is_integer() => 'I',
        number if number.is_numeric() => 'R',
        _ => '?',
    }
}

/// The texts of all values, row by row.
pub fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, ArrowError> {
    let options = FormatOptions::default()
        .with_null("NULL")
        .with_duration_format(DurationFormat::Pretty)
        .with_display_error(false);
    let mut rows = Vec::new();
    for batch in batches {
        let formatters = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let texts = formatters.iter().map(|column| {
                let text = column.value(row).try_to_string()?;
                Ok(if text.is_empty() { "(empty)".to_owned() } else { text })
            });
            rows.push(texts.collect::<Result<Vec<_>, ArrowError>>()?);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Float64Array, StringArray, TimestampSecondArray};

    #[test]
    fn values_stand_as_the_readme_says() {
        let columns: [(&str, ArrayRef); 4] = [
            ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
            ("r", Arc::new(Float64Array::from(vec![1.0, 1e300]))),
            ("t", Arc::new(StringArray::from(vec!["", "x"]))),
            ("p", Arc::new(TimestampSecondArray::from(vec![0, 61]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let letters: String = letters(&batch.schema()).iter().map(ColumnLetter::to_char).collect();
        assert_eq!(letters, "BRTP");
        let expected =
            [["true", "1.0", "(empty)", "1970-01-01T00:00:00"], ["NULL", "1e300", "x", "1970-01-01T00:01:01"]];
        assert_eq!(rows(&[batch]).unwrap(), expected);
    }
}
