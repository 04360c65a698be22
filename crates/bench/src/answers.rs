//! Answers as rows of JSON values, and when two of them are the same.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use diligence_base::{Error, Result};
use serde_json::{Value, json};

/// The rows of batches as JSON values: numbers as numbers, the rest as text. Fails if a type has no text form.
pub fn values(batches: &[RecordBatch]) -> Result<Vec<Vec<Value>>> {
    let options = FormatOptions::new();
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::bug(error.to_string()))?;
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(&columns).map(|(array, formatter)| {
                if array.is_null(row) {
                    return Value::Null;
                }
                let text = formatter.value(row).to_string();
                match text.parse::<f64>() {
                    Ok(number) if array.data_type().is_numeric() => json!(number),
                    _ => Value::String(text),
                }
            });
            rows.push(cells.collect());
        }
    }
    Ok(rows)
}

/// Whether two answers have the same rows in any order, with numbers equal to six digits or to a hundredth.
pub fn agree(ours: &[Vec<Value>], theirs: &[Vec<Value>]) -> bool {
    let key = |row: &Vec<Value>| {
        row.iter()
            .map(|value| match value {
                Value::Number(number) => format!("{:.0}", number.as_f64().unwrap_or(f64::NAN)),
                other => other.to_string(),
            })
            .collect::<Vec<_>>()
    };
    let sorted = |rows: &[Vec<Value>]| {
        let mut rows = rows.to_vec();
        rows.sort_by_cached_key(key);
        rows
    };
    let same = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= 0.01f64.max(a.abs().max(b.abs()) * 1e-6),
        _ => a.as_str().map(str::trim_end) == b.as_str().map(str::trim_end) && a.is_null() == b.is_null(),
    };
    ours.len() == theirs.len()
        && sorted(ours)
            .iter()
            .zip(sorted(theirs))
            .all(|(a, b)| a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same(a, b)))
}

/// Whether two answers of our own have the same rows in any order, equal to the last digit.
pub fn is_same(expected: &[Vec<Value>], rows: &[Vec<Value>]) -> bool {
    let sorted = |rows: &[Vec<Value>]| {
        let mut rows = rows.iter().map(|row| Value::from(row.clone()).to_string()).collect::<Vec<_>>();
        rows.sort_unstable();
        rows
    };
    // Rows from another process were text in between.
    let read = |row: &String| serde_json::from_str::<Value>(row).map(|row| row.to_string()).ok();
    let mut expected = sorted(expected).iter().filter_map(read).collect::<Vec<_>>();
    expected.sort_unstable();
    expected == sorted(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_ours_are_the_same_to_the_last_digit() {
        let expected = vec![vec![json!("A"), json!(1.0)], vec![json!("B"), json!(2_000_000.0)]];
        let rows = vec![vec![json!("B"), json!(2_000_000.0)], vec![json!("A"), json!(1.0)]];
        assert!(is_same(&expected, &rows));
        assert!(!is_same(&expected, &rows[..1]));
        assert!(!is_same(&expected, &[rows[0].clone(), vec![json!("A"), json!(1.000_000_1)]]));
    }

    #[test]
    fn answers_agree_in_any_order_and_to_six_digits() {
        let ours = vec![vec![json!("A"), json!(1.0)], vec![json!("B"), json!(2_000_000.0)]];
        let theirs = vec![vec![json!("B "), json!(2_000_000.5)], vec![json!("A"), json!(1)]];
        assert!(agree(&ours, &theirs));
        assert!(!agree(&ours, &theirs[..1]));
        assert!(!agree(&ours, &[vec![json!("B"), json!(2_000_900.0)], vec![json!("A"), json!(1)]]));
    }
}
