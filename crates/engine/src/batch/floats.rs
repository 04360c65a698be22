//! Floats as SQL compares them: the two zeros are one value, and all NaNs are one, which is equal to itself and greater
//! than every number. In comparisons, in groups, in joins, in orders and in what is made of orders.
//!
//! A division of zero by zero gives a NaN with a sign on some processors and one without on others: nobody is to see
//! which.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use diligence_base::Result;

use super::nested::with_children;

/// A type of floats whose bits can be compared.
pub(crate) trait FloatBits: ArrowPrimitiveType {
    /// Unsigned integers of the same width.
    type Bits;
    /// The one of all equal values that stands for them: zero for minus zero, and one NaN, without a sign, for all.
    fn canonical(value: Self::Native) -> Self::Native;
    /// Its bits: equal for equal values.
    fn canonical_bits(value: Self::Native) -> Self::Bits;
    /// Whether a value has the bits of the one that stands for it.
    fn is_canonical(value: Self::Native) -> bool;
}

macro_rules! bits_of {
    ($($float:ty: $bits:ty),*) => {
        $(impl FloatBits for $float {
            type Bits = $bits;
            #[inline(always)]
            fn canonical(value: Self::Native) -> Self::Native {
                let one_zero = if value == Self::Native::default() { Self::Native::default() } else { value };
                if value.is_nan() { <Self::Native>::NAN } else { one_zero }
            }
            #[inline(always)]
            fn canonical_bits(value: Self::Native) -> $bits {
                Self::canonical(value).to_bits()
            }
            #[inline(always)]
            fn is_canonical(value: Self::Native) -> bool {
                Self::canonical_bits(value) == value.to_bits()
            }
        })*
    };
}

bits_of!(Float16Type: u16, Float32Type: u32, Float64Type: u64);

/// The array with the values that stand for others in their places, in nested values, too: for what compares bits, or
/// in IEEE 754's total order, such as kernels of Arrow and `arrow-row`.
pub(crate) fn canonical_floats(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Float16 => Ok(primitive::<Float16Type>(array)),
        DataType::Float32 => Ok(primitive::<Float32Type>(array)),
        DataType::Float64 => Ok(primitive::<Float64Type>(array)),
        nested if has_floats(nested) => with_children(array, canonical_floats),
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
    if floats.values().iter().all(|&value| T::is_canonical(value)) {
        return array.clone();
    }
    Arc::new(floats.unary::<_, T>(T::canonical))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, Float32Array, Float64Array, Int32Array, ListArray, StructArray};
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn both_zeros_have_the_same_bits_all_nans_have_and_nothing_else_has() {
        assert_eq!((Float64Type::canonical_bits(-0.0), Float64Type::canonical_bits(0.0)), (0, 0));
        assert_eq!(Float32Type::canonical_bits(-0.0), 0);
        for value in [f64::MIN_POSITIVE, -f64::MIN_POSITIVE, f64::NAN, f64::NEG_INFINITY, 5e-324, -5e-324] {
            assert_eq!(Float64Type::canonical_bits(value), value.to_bits());
            assert!(Float64Type::is_canonical(value));
        }
        for nan in [-f64::NAN, f64::from_bits(u64::MAX), f64::from_bits(f64::NAN.to_bits() | 7)] {
            assert_eq!(Float64Type::canonical_bits(nan), f64::NAN.to_bits());
            assert!(!Float64Type::is_canonical(nan));
        }
        assert!(!Float32Type::is_canonical(-0.0) && Float32Type::is_canonical(0.0));
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
            assert_eq!(format!("{:?}", canonical_floats(&minus).unwrap()), format!("{plus:?}"));
            assert_eq!(
                format!("{:?}", canonical_floats(&minus.slice(1, 3)).unwrap()),
                format!("{:?}", plus.slice(1, 3))
            );
        }
        let whole: ArrayRef = Arc::new(Float64Array::from(vec![1.0, f64::NAN]));
        assert!(Arc::ptr_eq(&whole, &canonical_floats(&whole).unwrap()));
        let other: ArrayRef = Arc::new(Int32Array::from(vec![i32::MIN]));
        assert!(Arc::ptr_eq(&other, &canonical_floats(&other).unwrap()));
    }
}
