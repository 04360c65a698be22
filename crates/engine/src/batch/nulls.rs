//! Bitmaps of which rows are not NULL.

use arrow::array::Array;
use arrow::buffer::{BooleanBuffer, NullBuffer};

/// The validity bitmap, if any row is NULL.
pub(crate) fn nulls_of(array: &dyn Array) -> Option<NullBuffer> {
    array.nulls().filter(|nulls| nulls.null_count() > 0).cloned()
}

/// The bits of the rows that are not NULL; false for the others.
pub(crate) fn without_nulls(bits: BooleanBuffer, nulls: Option<&NullBuffer>) -> BooleanBuffer {
    match nulls {
        Some(nulls) if nulls.null_count() > 0 => &bits & nulls.inner(),
        _ => bits,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BooleanArray, Int32Array};

    use super::*;

    #[test]
    fn a_bitmap_without_a_null_is_none() {
        let whole = Int32Array::new(vec![1, 2].into(), Some(NullBuffer::new_valid(2)));
        assert!(nulls_of(&whole).is_none());
        let mask = BooleanArray::from(vec![Some(true), None, Some(false)]);
        let bits = without_nulls(BooleanBuffer::new_set(3), nulls_of(&mask).as_ref());
        assert_eq!(bits, BooleanBuffer::from(vec![true, false, true]));
        assert_eq!(without_nulls(bits.clone(), None), bits);
    }
}
