//! The slow judge of sorts: compares values one by one, and says what is wrong with an answer.

use std::cmp::Ordering;
use std::collections::HashMap;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use datafusion_common::ScalarValue;
use diligence_base::Result;
use diligence_storage::foreign_error::from_datafusion;

/// The values of one row.
pub type Row = Vec<ScalarValue>;

/// A key: the position of a column, its direction and where its NULLs go.
pub type Key = (usize, SortOptions);

/// The rows of batches, in order.
pub fn rows_of(batches: &[RecordBatch]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| ScalarValue::try_from_array(column, row));
            rows.push(values.collect::<Result<Row, _>>().map_err(from_datafusion)?);
        }
    }
    Ok(rows)
}

/// Which of two rows comes first.
pub fn compare(a: &Row, b: &Row, keys: &[Key]) -> Ordering {
    keys.iter()
        .map(|&(column, options)| compare_values(&a[column], &b[column], options))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// The rows in order, each with those before it in arrival where keys are equal; of these `fetch` rows after `skip`
/// rows.
pub fn sort(rows: &[Row], keys: &[Key], skip: usize, fetch: Option<usize>) -> Vec<Row> {
    let mut sorted = rows.to_vec();
    sorted.sort_by(|a, b| compare(a, b, keys));
    sorted.into_iter().skip(skip).take(fetch.unwrap_or(usize::MAX)).collect()
}

/// Judges an answer to "sort `input` by `keys`, skip `skip` rows, keep `fetch`". Rows with equal keys may come in any
/// order, and any of them may be those that are kept. Gives what is wrong.
pub fn judge(input: &[Row], output: &[Row], keys: &[Key], skip: usize, fetch: Option<usize>) -> Result<(), String> {
    let expected = sort(input, keys, skip, fetch);
    if expected.len() != output.len() {
        return Err(format!("{} rows came out instead of {}", output.len(), expected.len()));
    }
    for (place, (expected, row)) in expected.iter().zip(output).enumerate() {
        if compare(expected, row, keys).is_ne() {
            return Err(format!("row {place} is {row:?} but should have the keys of {expected:?}"));
        }
    }
    let mut unused: HashMap<&Row, usize> = HashMap::new();
    for row in input {
        *unused.entry(row).or_default() += 1;
    }
    for row in output {
        match unused.get_mut(row) {
            Some(count) if *count > 0 => *count -= 1,
            _ => return Err(format!("{row:?} came out more often than it went in")),
        }
    }
    Ok(())
}

pub(super) fn compare_values(a: &ScalarValue, b: &ScalarValue, options: SortOptions) -> Ordering {
    let null_side = if options.nulls_first { Ordering::Less } else { Ordering::Greater };
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => null_side,
        (false, true) => null_side.reverse(),
        (false, false) => {
            let order = match (a, b) {
                (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => compare_floats(*a, *b),
                (ScalarValue::Float32(Some(a)), ScalarValue::Float32(Some(b))) => {
                    compare_floats((*a).into(), (*b).into())
                }
                _ => a.partial_cmp(b).expect("values of one column have an order"),
            };
            if options.descending { order.reverse() } else { order }
        }
    }
}

/// The two zeros are equal, and so are all NaNs, which are greater than every number.
pub(super) fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The one of all equal floats that comes out where they are taken together.
pub(super) fn only_one(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(a: Option<i32>, b: i32) -> Row {
        vec![ScalarValue::Int32(a), ScalarValue::Int32(Some(b))]
    }

    #[test]
    fn the_judge_accepts_ties_in_any_order_and_finds_wrong_answers() {
        let input = [row(Some(2), 1), row(None, 2), row(Some(1), 3), row(Some(2), 4)];
        let keys = [(0, SortOptions { descending: true, nulls_first: false })];
        let good = [row(Some(2), 4), row(Some(2), 1), row(Some(1), 3), row(None, 2)];
        assert_eq!(judge(&input, &good, &keys, 0, None), Ok(()));
        assert_eq!(judge(&input, &good[1..3], &keys, 1, Some(2)), Ok(()));
        assert!(judge(&input, &good[..3], &keys, 0, None).is_err());
        assert!(judge(&input, &[good[0].clone(), good[0].clone()], &keys, 0, Some(2)).is_err());
        assert!(judge(&input, &[good[2].clone(), good[0].clone()], &keys, 0, Some(2)).is_err());
    }
}
