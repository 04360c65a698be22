//! How values and column types stand in a script; `tests/slt/README.md` describes it.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use diligence_base::Result;
use diligence_db::postgres::field_type;
use sqllogictest::ColumnType;

/// The type of a column, as a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnLetter(char);

/// The letter of whole numbers.
pub const INTEGER: ColumnLetter = ColumnLetter('I');

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
    schema.fields().iter().map(|field| letter(field_type(field).oid)).collect()
}

/// The letter of a type, by PostgreSQL's number of it.
pub fn letter(oid: u32) -> ColumnLetter {
    ColumnLetter(match oid {
        16 => 'B',
        20 | 21 | 23 | 26 | 28 => 'I',
        700 | 701 | 1700 => 'R',
        18 | 19 | 25 | 1042 | 1043 => 'T',
        // Names of objects.
        24 | 2202 | 2205 | 2206 | 4089 | 4096 => 'T',
        1082 | 1083 => 'D',
        1114 | 1184 => 'P',
        _ => '?',
    })
}

/// The texts of all values, row by row, as clients get them.
pub fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for batch in batches {
        let texts = diligence_server::texts(batch)?.into_iter();
        rows.extend(texts.map(|row| row.iter().map(|text| shown(text.as_deref())).collect::<Vec<_>>()));
    }
    Ok(rows)
}

/// A value's text as scripts have it.
pub fn shown(text: Option<&str>) -> String {
    match text {
        None => "NULL".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(text) => text.to_owned(),
    }
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
        let expected = [["t", "1", "(empty)", "1970-01-01 00:00:00"], ["NULL", "1e+300", "x", "1970-01-01 00:01:01"]];
        assert_eq!(rows(&[batch]).unwrap(), expected);
    }
}
