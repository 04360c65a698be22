//! What some rows of a table tell about the columns of all: ranges and distinct values, for the optimizer.
//!
//! They are looked at again when the table has other rows to a good part. The number of distinct values follows from
//! how many were met once: Haas and Stokes, "Estimating the Number of Classes in a Finite Population" (1998), as
//! PostgreSQL's ANALYZE has it.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use arrow_row::{RowConverter, SortField};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, ScalarValue};

/// Rows that are looked at, at most.
const SAMPLE_ROWS: usize = 8192;
/// They are taken from so many places.
const SAMPLE_PLACES: usize = 64;
/// They are good while not more than one in so many rows has come or gone.
const CHANGED_PART: usize = 4;

/// What a sample told.
#[derive(Clone, Debug)]
pub(crate) struct Sampled {
    rows: usize,
    next_number: i64,
    columns: Vec<ColumnStatistics>,
}

impl Sampled {
    /// Looks at rows of these batches, which are all in memory of a table whose next row has this number.
    pub(crate) fn of<'a>(batches: impl Iterator<Item = &'a RecordBatch>, columns: usize, next_number: i64) -> Self {
        let batches = batches.collect::<Vec<_>>();
        let rows = batches.iter().map(|batch| batch.num_rows()).sum::<usize>();
        let parts = parts(&batches, rows);
        let columns = (0..columns).map(|column| {
            let parts = parts.iter().map(|part| &**part.column(column) as &dyn Array).collect::<Vec<_>>();
            let sample = (!parts.is_empty()).then(|| concat(&parts).ok()).flatten();
            sample.and_then(|sample| of_column(&sample, rows)).unwrap_or_else(ColumnStatistics::new_unknown)
        });
        Self { rows, next_number, columns: columns.collect() }
    }

    /// What it told of the columns, as long as the table has about the same rows.
    pub(crate) fn columns(&self, rows: usize, next_number: i64) -> Option<&[ColumnStatistics]> {
        let came = usize::try_from(next_number - self.next_number).unwrap_or(usize::MAX);
        let changed = self.rows.abs_diff(rows).max(came);
        (changed <= rows / CHANGED_PART).then_some(&self.columns)
    }
}

/// Rows from all over.
fn parts(batches: &[&RecordBatch], rows: usize) -> Vec<RecordBatch> {
    if rows <= SAMPLE_ROWS {
        return batches.iter().map(|batch| (*batch).clone()).collect();
    }
    let each = SAMPLE_ROWS / SAMPLE_PLACES;
    let mut parts = Vec::with_capacity(SAMPLE_PLACES);
    let (mut batch, mut before) = (0, 0);
    for place in (0..SAMPLE_PLACES).map(|place| place * rows / SAMPLE_PLACES) {
        while before + batches[batch].num_rows() <= place {
            before += batches[batch].num_rows();
            batch += 1;
        }
        let within = place - before;
        parts.push(batches[batch].slice(within, each.min(batches[batch].num_rows() - within)));
    }
    parts
}

/// `None` for what cannot be compared.
fn of_column(sample: &ArrayRef, rows: usize) -> Option<ColumnStatistics> {
    if matches!(sample.data_type(), DataType::Null) || sample.data_type().is_nested() {
        return None;
    }
    let converter = RowConverter::new(vec![SortField::new(sample.data_type().clone())]).ok()?;
    let encoded = converter.convert_columns(std::slice::from_ref(sample)).ok()?;
    let mut met = HashMap::<&[u8], usize>::new();
    let (mut least, mut most) = (None, None);
    for row in (0..sample.len()).filter(|row| sample.is_valid(*row)) {
        let value = encoded.row(row).data();
        *met.entry(value).or_default() += 1;
        if least.is_none_or(|(least, _)| value < least) {
            least = Some((value, row));
        }
        if most.is_none_or(|(most, _)| value > most) {
            most = Some((value, row));
        }
    }
    let (sampled, nulls) = (sample.len(), sample.null_count());
    let values = (sampled - nulls) as f64;
    let once = met.values().filter(|count| **count == 1).count() as f64;
    let (distinct, part) = (met.len() as f64, sampled as f64 / rows.max(1) as f64);
    let all = if sampled == rows || values == 0.0 {
        distinct
    } else {
        values * distinct / (values - once + once * part).max(f64::MIN_POSITIVE)
    };
    let bound = |row: Option<(&[u8], usize)>| {
        let value = row.and_then(|(_, row)| ScalarValue::try_from_array(sample, row).ok());
        let is_nan = |value: &ScalarValue| match value {
            ScalarValue::Float64(Some(value)) => value.is_nan(),
            ScalarValue::Float32(Some(value)) => value.is_nan(),
            _ => false,
        };
        value.filter(|value| !is_nan(value)).map_or(Precision::Absent, Precision::Inexact)
    };
    Some(ColumnStatistics {
        min_value: bound(least),
        max_value: bound(most),
        distinct_count: Precision::Inexact((all.min(rows as f64) as usize).max(1)),
        ..ColumnStatistics::new_unknown()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, ListArray, StringViewArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn sampled(rows: i64) -> Sampled {
        let batch = |from: i64, to: i64| {
            let texts = (from..to).map(|row| if row % 2 == 0 { None } else { Some(format!("t{}", row % 5)) });
            let floats = (from..to).map(|row| if row == 3 { f64::NAN } else { row as f64 });
            let columns: [(_, ArrayRef); 4] = [
                ("key", Arc::new(Int64Array::from_iter_values(from..to))),
                ("text", Arc::new(StringViewArray::from_iter(texts))),
                ("float", Arc::new(Float64Array::from_iter_values(floats))),
                (
                    "list",
                    Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(
                        (from..to).map(|row| Some([Some(row)])),
                    )),
                ),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let batches = (0..rows).step_by(1000).map(|from| batch(from, (from + 1000).min(rows))).collect::<Vec<_>>();
        Sampled::of(batches.iter(), 4, rows)
    }

    #[test]
    fn few_rows_are_counted_and_many_are_estimated() {
        let few = sampled(500);
        let columns = few.columns(500, 500).unwrap();
        assert_eq!(columns[0].min_value, Precision::Inexact(ScalarValue::Int64(Some(0))));
        assert_eq!(columns[0].max_value, Precision::Inexact(ScalarValue::Int64(Some(499))));
        let distinct =
            |column: usize, columns: &[ColumnStatistics]| *columns[column].distinct_count.get_value().unwrap();
        assert_eq!((distinct(0, columns), distinct(1, columns)), (500, 5));
        assert_eq!(columns[2].max_value, Precision::Absent);
        assert_eq!(columns[3].distinct_count, Precision::Absent);
        let many = sampled(1_000_000);
        let columns = many.columns(1_000_000, 1_000_000).unwrap();
        assert!(distinct(0, columns) > 900_000, "{}", distinct(0, columns));
        assert_eq!(distinct(1, columns), 5);
        // What has changed much is looked at again.
        assert!(few.columns(520, 520).is_some() && few.columns(700, 700).is_none());
        assert!(few.columns(500, 700).is_none());
    }

    #[test]
    fn no_rows_tell_nothing() {
        let none = Sampled::of(std::iter::empty(), 2, 0);
        assert_eq!(none.columns(0, 0).unwrap()[1], ColumnStatistics::new_unknown());
        assert!(none.columns(10, 10).is_none());
    }
}
