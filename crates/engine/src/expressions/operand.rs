//! The value of an expression for the rows of a batch, on its way between nodes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal64Array, Scalar, UInt32Array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{DECIMAL64_MAX_PRECISION, DataType, Decimal64Type, Decimal128Type};
use datafusion_expr::ColumnarValue;
use diligence_base::limits::FUNCTION_BYTES_MAX;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};
use diligence_types::values::value_at;

use crate::batch::{magnitude_bound, nulls_of, to_logical};

/// A value per row, or one value for all rows.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// In the logical type or a narrow form of it; one value if constant.
    pub(super) array: ArrayRef,
    /// Whether the one value stands for every row.
    pub(super) constant: bool,
    /// For 64-bit decimals, where it is known: no value's magnitude is above it, whatever slots of NULLs hold included.
    pub(super) bound: Option<u64>,
}

/// The values of a decimal as 64-bit integers.
pub(super) struct Narrow {
    pub(super) values: ScalarBuffer<i64>,
    pub(super) nulls: Option<NullBuffer>,
    /// No value's magnitude is above it.
    pub(super) bound: u64,
}

impl Operand {
    /// A value per row.
    pub(super) fn rows(array: ArrayRef) -> Self {
        Self { array, constant: false, bound: None }
    }

    /// The same value for every row, from an array of one value.
    pub(super) fn constant(array: ArrayRef) -> Self {
        debug_assert_eq!(array.len(), 1);
        Self { array, constant: true, bound: None }
    }

    /// What DataFusion evaluated.
    pub(super) fn from_columnar(value: ColumnarValue) -> Result<Self> {
        match value {
            ColumnarValue::Array(array) => Ok(Self::rows(array)),
            ColumnarValue::Scalar(scalar) => Ok(Self::constant(scalar.to_array().map_err(from_datafusion)?)),
        }
    }

    /// For a DataFusion kernel. The array should be in its logical type.
    pub(super) fn to_columnar(&self) -> Result<ColumnarValue> {
        if self.constant {
            value_at(&self.array, 0).map(ColumnarValue::Scalar).map_err(from_datafusion)
        } else {
            Ok(ColumnarValue::Array(self.array.clone()))
        }
    }

    /// For an Arrow kernel.
    pub(super) fn datum(&self) -> Box<dyn Datum + '_> {
        if self.constant { Box::new(Scalar::new(&self.array)) } else { Box::new(&self.array) }
    }

    /// The same in the logical type.
    pub(super) fn to_logical(&self, logical: &DataType) -> Result<Self> {
        Ok(Self { array: to_logical(&self.array, logical)?, constant: self.constant, bound: None })
    }

    /// A value for each of `rows` rows, in the physical type it has.
    pub(super) fn into_array(self, rows: usize) -> Result<ArrayRef> {
        if !self.constant || rows == 1 {
            return Ok(self.array);
        }
        // Views share their bytes; anything else is copied for every row.
        let shares = matches!(self.array.data_type(), DataType::Utf8View | DataType::BinaryView);
        if !shares && self.array.get_buffer_memory_size().saturating_mul(rows) > FUNCTION_BYTES_MAX {
            // It may be a small part of large buffers.
            let bytes = self.array.to_data().get_slice_memory_size().map_err(from_arrow)?.saturating_mul(rows);
            if bytes > FUNCTION_BYTES_MAX {
                let what = format!("a constant for {rows} rows would take {} MiB", bytes >> 20);
                return Err(Error::resource(format!("{what}; at most {} MiB are allowed", FUNCTION_BYTES_MAX >> 20)));
            }
        }
        take(self.array.as_ref(), &UInt32Array::from(vec![0; rows]), None).map_err(from_arrow)
    }

    /// A decimal's values as 64-bit integers, if they all fit.
    pub(super) fn narrow(&self) -> Option<Narrow> {
        match self.array.data_type() {
            DataType::Decimal64(..) => {
                let array = self.array.as_primitive::<Decimal64Type>();
                let bound = self.bound.unwrap_or_else(|| magnitude_bound(array.values()));
                Some(Narrow { values: array.values().clone(), nulls: nulls_of(array), bound })
            }
            DataType::Decimal128(..) => {
                let array = self.array.as_primitive::<Decimal128Type>();
                let mut fits = true;
                let narrowed = |value: &i128| {
                    let narrow = *value as i64;
                    fits &= i128::from(narrow) == *value;
                    narrow
                };
                let values = array.values().iter().map(narrowed).collect::<Vec<_>>();
                let bound = magnitude_bound(&values);
                fits.then(|| Narrow { values: values.into(), nulls: nulls_of(array), bound })
            }
            _ => None,
        }
    }
}

impl Narrow {
    /// The operand of these values of logical type `Decimal128(precision, scale)`.
    pub(super) fn into_operand(self, precision: u8, scale: i8, constant: bool) -> Result<Operand> {
        let array = Decimal64Array::new(self.values, self.nulls)
            .with_precision_and_scale(precision.min(DECIMAL64_MAX_PRECISION), scale)
            .map_err(from_arrow)?;
        Ok(Operand { array: Arc::new(array), constant, bound: Some(self.bound) })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, ListArray};
    use arrow::datatypes::Int64Type;
    use diligence_base::ErrorKind;

    use super::*;

    #[test]
    fn a_constant_is_not_copied_beyond_all_bounds() {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1); 1 << 20])]);
        let constant = Operand::constant(Arc::new(list.clone()));
        assert_eq!(constant.clone().into_array(8).unwrap().len(), 8);
        assert_eq!(constant.into_array(8192).unwrap_err().kind(), ErrorKind::Resource);
        // A small part of something large is small.
        let numbers = list.values().slice(7, 1);
        assert_eq!(Operand::constant(numbers).into_array(8192).unwrap().len(), 8192);
    }

    #[test]
    fn only_values_that_fit_are_narrowed() {
        let wide = |values: Vec<i128>| Operand::rows(Arc::new(Decimal128Array::from(values)));
        assert_eq!(wide(vec![1, -2]).narrow().unwrap().values.to_vec(), vec![1, -2]);
        assert!(wide(vec![1, i128::from(i64::MAX) + 1]).narrow().is_none());
    }
}
