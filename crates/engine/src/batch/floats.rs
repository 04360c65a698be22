//! The two zeros of floats, which are one value: in comparisons, in groups and in joins.
//!
//! Everything else about floats goes by their bits: a NaN equals itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use diligence_base::Result;

use super::nested::with_children;

/// A type of floats whose bits can be compared.
pub(crate) trait FloatBits: ArrowPrimitiveType {
    /// Unsigned integers of the same width.
    type Bits;
    /// The bits of a value, which are those of zero for minus zero, too.
    fn bits_with_one_zero(value: Self::Native) -> Self::Bits;
    /// Whether a value is minus zero.
    fn is_minus_zero(value: Self::Native) -> bool;
}

macro_rules! bits_of {
    ($($float:ty: $bits:ty),*) => {
        $(impl FloatBits for $float {
            type Bits = $bits;
            #[inline(always)]
            fn bits_with_one_zero(value: Self::Native) -> $bits {
                if value == Self::Native::default() { 0 } else { value.to_bits() }
            }
            #[inline(always)]
            fn is_minus_zero(value: Self::Native) -> bool {
                value.to_bits() == 1 << (<$bits>::BITS - 1)
            }
        })*
    };
}

bits_of!(Float16Type: u16, Float32Type: u32, Float64Type: u64);

/// The array with zero for minus zero, in nested values, too: for formats that compare bits, such as `arrow-row`'s.
pub(crate) fn with_one_zero(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Float16 => Ok(primitive::<Float16Type>(array)),
        DataType::Float32 => Ok(primitive::<Float32Type>(array)),
        DataType::Float64 => Ok(primitive::<Float64Type>(array)),
        nested if has_floats(nested) => with_children(array, with_one_zero),
        _ => Ok(array.clone()),
    }
}

fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_floats(field.data_type()),
        DataType::Dictionary(_, values) => has_floats(values),
        other => other.is_floating(),
    }
}

fn primitive<T: FloatBits>(array: &ArrayRef) -> ArrayRef {
    let floats: &PrimitiveArray<T> = array.as_primitive();
    if !floats.values().iter().any(|&value| T::is_minus_zero(value)) {
        return array.clone();
    }
    let zero = T::Native::default();
    Arc::new(floats.unary::<_, T>(|value| if T::is_minus_zero(value) { zero } else { value }))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, Float32Array, Float64Array, Int32Array, ListArray, StructArray};
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn both_zeros_have_the_same_bits_and_nothing_else_has() {
        assert_eq!((Float64Type::bits_with_one_zero(-0.0), Float64Type::bits_with_one_zero(0.0)), (0, 0));
        assert_eq!(Float32Type::bits_with_one_zero(-0.0), 0);
        for value in [f64::MIN_POSITIVE, -f64::MIN_POSITIVE, f64::NAN, f64::NEG_INFINITY, 5e-324, -5e-324] {
            assert_eq!(Float64Type::bits_with_one_zero(value), value.to_bits());
            assert!(!Float64Type::is_minus_zero(value));
        }
    }

    #[test]
    fn minus_zero_goes_from_nested_values() {
        let lists = |zero: f64| {
            let rows = vec![Some(vec![Some(1.5), Some(zero), None]), None, Some(vec![]), Some(vec![Some(zero)])];
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows)) as ArrayRef
        };
        let structs = |zero: f64| {
            let fields = vec![
                Arc::new(Field::new("list", lists(zero).data_type().clone(), true)),
                Arc::new(Field::new("float", DataType::Float32, true)),
            ];
            let floats = Float32Array::from(vec![Some(zero as f32), None, Some(2.0), Some(zero as f32)]);
            Arc::new(StructArray::new(fields.into(), vec![lists(zero), Arc::new(floats)], None)) as ArrayRef
        };
        for (minus, plus) in [(lists(-0.0), lists(0.0)), (structs(-0.0), structs(0.0))] {
            assert_ne!(format!("{minus:?}"), format!("{plus:?}"));
            assert_eq!(format!("{:?}", with_one_zero(&minus).unwrap()), format!("{plus:?}"));
            assert_eq!(format!("{:?}", with_one_zero(&minus.slice(1, 3)).unwrap()), format!("{:?}", plus.slice(1, 3)));
        }
        let whole: ArrayRef = Arc::new(Float64Array::from(vec![1.0, f64::NAN]));
        assert!(Arc::ptr_eq(&whole, &with_one_zero(&whole).unwrap()));
        let other: ArrayRef = Arc::new(Int32Array::from(vec![i32::MIN]));
        assert!(Arc::ptr_eq(&other, &with_one_zero(&other).unwrap()));
    }
}
