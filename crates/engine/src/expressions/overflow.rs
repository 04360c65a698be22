//! Whether integers leave their type: found for a whole batch without a branch per value.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

/// What is computed of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
}

/// Integers whose operations can be looked at for overflow.
trait Overflowing: Copy {
    fn overflows(operation: Operation, left: Self, right: Self) -> bool;
}

macro_rules! signed {
    ($($integer:ty),*) => {$(
        impl Overflowing for $integer {
            #[inline(always)]
            fn overflows(operation: Operation, left: Self, right: Self) -> bool {
                // By the signs, which vectorizes: a sum has the sign of one of its terms at least, unless it
                // overflowed.
                match operation {
                    Operation::Add => {
                        let sum = left.wrapping_add(right);
                        (left ^ sum) & (right ^ sum) < 0
                    }
                    Operation::Subtract => {
                        let difference = left.wrapping_sub(right);
                        (left ^ right) & (left ^ difference) < 0
                    }
                    Operation::Multiply => left.overflowing_mul(right).1,
                }
            }
        }
    )*};
}

macro_rules! unsigned {
    ($($integer:ty),*) => {$(
        impl Overflowing for $integer {
            #[inline(always)]
            fn overflows(operation: Operation, left: Self, right: Self) -> bool {
                match operation {
                    Operation::Add => left.wrapping_add(right) < left,
                    Operation::Subtract => right > left,
                    Operation::Multiply => left.overflowing_mul(right).1,
                }
            }
        }
    )*};
}

signed!(i8, i16, i32, i64);
unsigned!(u8, u16, u32, u64);

/// Whether the operation overflows for some pair of values. A side of one row is a constant. What lies in the slots of
/// NULLs counts too: a "yes" must be looked at again.
pub(super) fn may_overflow(operation: Operation, left: &ArrayRef, right: &ArrayRef) -> bool {
    match left.data_type() {
        DataType::Int8 => some_overflows::<Int8Type>(operation, left, right),
        DataType::Int16 => some_overflows::<Int16Type>(operation, left, right),
        DataType::Int32 => some_overflows::<Int32Type>(operation, left, right),
        DataType::Int64 => some_overflows::<Int64Type>(operation, left, right),
        DataType::UInt8 => some_overflows::<UInt8Type>(operation, left, right),
        DataType::UInt16 => some_overflows::<UInt16Type>(operation, left, right),
        DataType::UInt32 => some_overflows::<UInt32Type>(operation, left, right),
        DataType::UInt64 => some_overflows::<UInt64Type>(operation, left, right),
        _ => true,
    }
}

fn some_overflows<T: ArrowPrimitiveType>(operation: Operation, left: &ArrayRef, right: &ArrayRef) -> bool
where
    T::Native: Overflowing,
{
    let (left, right): (&PrimitiveArray<T>, &PrimitiveArray<T>) = (left.as_primitive(), right.as_primitive());
    // One loop per operation, so that none chooses per value.
    match operation {
        Operation::Add => any_pair(left, right, |l, r| Overflowing::overflows(Operation::Add, l, r)),
        Operation::Subtract => any_pair(left, right, |l, r| Overflowing::overflows(Operation::Subtract, l, r)),
        Operation::Multiply => any_pair(left, right, |l, r| Overflowing::overflows(Operation::Multiply, l, r)),
    }
}

#[inline(always)]
fn any_pair<T: ArrowPrimitiveType>(
    left: &PrimitiveArray<T>,
    right: &PrimitiveArray<T>,
    holds: impl Fn(T::Native, T::Native) -> bool,
) -> bool {
    let (left, right) = (left.values(), right.values());
    match (left.len(), right.len()) {
        (1, _) => right.iter().fold(false, |any, &right| any | holds(left[0], right)),
        (_, 1) => left.iter().fold(false, |any, &left| any | holds(left, right[0])),
        _ => left.iter().zip(right.iter()).fold(false, |any, (&left, &right)| any | holds(left, right)),
    }
}
