//! Batches for operators that may take their lists apart: of so few rows that all elements together are about a batch,
//! each with all else that is in its row.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;

use crate::batch::bytes_needed;
use crate::flow;

/// List elements that come to a batch, each beside the other columns of its row: all but the narrowest list, which is
/// taken for the one whose elements they are.
pub(super) fn elements_max(batch: &RecordBatch, batch_rows: usize, batch_bytes: usize) -> usize {
    let (lists, others): (Vec<_>, Vec<_>) = batch.columns().iter().partition(|column| is_list(column.data_type()));
    let bytes_of = |column: &ArrayRef| bytes_needed(column);
    let Some(narrowest) = lists.iter().map(|list| bytes_of(list)).min() else { return batch_rows };
    let bytes = lists.into_iter().chain(others).map(bytes_of).sum::<usize>() - narrowest;
    flow::rows_within(batch_bytes, batch.num_rows(), bytes).min(batch_rows.max(1))
}

fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

/// How many rows of a batch from `first` on have at most `elements_max` list elements, by each column; one if the first
/// has more.
pub(super) fn rows_within(batch: &RecordBatch, first: usize, elements_max: usize) -> usize {
    let left = batch.num_rows() - first;
    let fits = |rows: usize| {
        let elements = |column| elements(column, first..first + rows);
        batch.columns().iter().all(|column| elements(column.as_ref()) <= elements_max)
    };
    if fits(left) {
        return left;
    }
    // The most rows that fit, by halving what is between a number that fits and one that does not.
    let (mut fitting, mut too_many) = (1, left);
    while fitting + 1 < too_many {
        let middle = (fitting + too_many) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            too_many = middle;
        }
    }
    fitting
}

/// The elements of the lists in these rows, or of the lists in them, if those are more.
fn elements(column: &dyn Array, rows: Range<usize>) -> usize {
    let (values, range) = match column.data_type() {
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            let offsets = list.value_offsets();
            (list.values(), offsets[rows.start] as usize..offsets[rows.end] as usize)
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            let offsets = list.value_offsets();
            (list.values(), offsets[rows.start] as usize..offsets[rows.end] as usize)
        }
        DataType::FixedSizeList(_, length) => {
            let length = *length as usize;
            (column.as_fixed_size_list().values(), rows.start * length..rows.end * length)
        }
        _ => return 0,
    };
    range.len().max(elements(values.as_ref(), range))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{FixedSizeListArray, Int32Array, LargeListArray, ListArray, StringArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Int32Type};

    use super::*;

    fn batch(column: ArrayRef) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..column.len() as i32));
        RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("list", column, true)]).unwrap()
    }

    fn pieces(batch: &RecordBatch, elements_max: usize) -> Vec<usize> {
        let mut pieces = Vec::new();
        while pieces.iter().sum::<usize>() < batch.num_rows() {
            pieces.push(rows_within(batch, pieces.iter().sum(), elements_max));
        }
        pieces
    }

    #[test]
    fn elements_are_few_beside_wide_columns() {
        let list = |length: i32| -> ArrayRef {
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>((0..100).map(|_| Some((0..length).map(Some)))))
        };
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|row| format!("{row:01000}"))));
        let elements = |columns: &[&ArrayRef]| {
            let columns = columns.iter().enumerate().map(|(number, column)| (number.to_string(), Arc::clone(column)));
            elements_max(&RecordBatch::try_from_iter(columns).unwrap(), 8192, 1 << 20)
        };
        assert_eq!(elements(&[&list(1000)]), 8192, "nothing comes again");
        assert!((900..1100).contains(&elements(&[&list(1000), &texts])));
        assert!(
            (200..300).contains(&elements(&[&list(3), &list(1000)])),
            "the longer list comes with each of the shorter"
        );
    }

    #[test]
    fn a_piece_has_the_elements_of_a_batch_and_a_row_at_least() {
        let rows = || [3, 0, 4, 1, 9, 2, 2].map(|length| (length > 0).then(|| (0..length).map(Some)));
        let small: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows()));
        let large: ArrayRef = Arc::new(LargeListArray::from_iter_primitive::<Int32Type, _, _>(rows()));
        for lists in [small.clone(), large] {
            let lists = batch(lists);
            assert_eq!(pieces(&lists, 100), [7]);
            assert_eq!(pieces(&lists, 4), [2, 1, 1, 1, 2]);
            assert_eq!(pieces(&lists.slice(2, 4), 5), [2, 1, 1]);
        }
        // Lists of those lists: three, then four.
        let field = Arc::new(Field::new("item", small.data_type().clone(), true));
        let nested = ListArray::new(field, OffsetBuffer::from_lengths([3, 4]), small, None);
        assert_eq!(pieces(&batch(Arc::new(nested)), 20), [1, 1]);
        let field = Arc::new(Field::new("item", DataType::Int32, true));
        let fixed = FixedSizeListArray::new(field, 3, Arc::new(Int32Array::from_iter_values(0..15)), None);
        assert_eq!(pieces(&batch(Arc::new(fixed)), 7), [2, 2, 1]);
    }
}
