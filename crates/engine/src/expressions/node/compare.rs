//! Comparisons of numbers, dates and times: a column with a constant, a column with a range, two columns.
//!
//! Values are compared as the native integers they are stored in; two operands of one logical type mean the same by
//! them if they also have the same scale, which is an invariant of narrow forms. Floats compare as everywhere
//! ([`floats`](crate::batch::floats)).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::*;
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr_common::datum::apply_cmp;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::Node;
use crate::batch::floats::{FloatBits, canonical_floats};
use crate::batch::{Batch, nulls_of, to_logical};
use crate::expressions::bits::{pack, pack_pairs};
use crate::expressions::operand::Operand;

/// Runs a body on the natives of two arrays, if they are of one kind.
macro_rules! same_natives {
    ($left:expr, $right:expr, |$l:ident, $r:ident| $body:expr) => {
        match ($left, $right) {
            (Some(Natives::I8($l)), Some(Natives::I8($r))) => Some($body),
            (Some(Natives::I16($l)), Some(Natives::I16($r))) => Some($body),
            (Some(Natives::I32($l)), Some(Natives::I32($r))) => Some($body),
            (Some(Natives::I64($l)), Some(Natives::I64($r))) => Some($body),
            (Some(Natives::I128($l)), Some(Natives::I128($r))) => Some($body),
            (Some(Natives::U8($l)), Some(Natives::U8($r))) => Some($body),
            (Some(Natives::U16($l)), Some(Natives::U16($r))) => Some($body),
            (Some(Natives::U32($l)), Some(Natives::U32($r))) => Some($body),
            (Some(Natives::U64($l)), Some(Natives::U64($r))) => Some($body),
            (Some(Natives::F32($l)), Some(Natives::F32($r))) => Some($body),
            (Some(Natives::F64($l)), Some(Natives::F64($r))) => Some($body),
            _ => None,
        }
    };
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::expressions) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Comparison {
    /// The comparison of an operator that is one and gives NULL for NULL.
    pub(in crate::expressions) fn from_operator(operator: &Operator) -> Option<Self> {
        Some(match operator {
            Operator::Eq => Self::Equal,
            Operator::NotEq => Self::NotEqual,
            Operator::Lt => Self::Less,
            Operator::LtEq => Self::LessEqual,
            Operator::Gt => Self::Greater,
            Operator::GtEq => Self::GreaterEqual,
            _ => return None,
        })
    }

    /// The comparison with its sides exchanged.
    pub(in crate::expressions) fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessEqual => Self::GreaterEqual,
            Self::Greater => Self::Less,
            Self::GreaterEqual => Self::LessEqual,
            same => same,
        }
    }

    /// Whether values in this order satisfy it.
    pub(in crate::expressions) fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterEqual => ordering.is_ge(),
        }
    }
}

/// A literal other than NULL, in every physical form that its column may come in.
#[derive(Debug)]
pub(in crate::expressions) struct Constant {
    /// One value of the logical type.
    logical: ArrayRef,
    /// A decimal as `Decimal64`, if it fits.
    narrow: Option<ArrayRef>,
}

impl Constant {
    /// The constant, unless it is NULL or of a type that is not stored as a native number.
    pub(in crate::expressions) fn from_scalar(scalar: &ScalarValue) -> Option<Self> {
        if scalar.is_null() {
            return None;
        }
        let logical = scalar.to_array().ok()?;
        natives(&logical)?;
        let narrow = match scalar {
            ScalarValue::Decimal128(Some(value), precision, scale) => i64::try_from(*value).ok().and_then(|value| {
                let array = Decimal64Array::from(vec![value]);
                let precision = (*precision).min(DECIMAL64_MAX_PRECISION);
                Some(Arc::new(array.with_precision_and_scale(precision, *scale).ok()?) as ArrayRef)
            }),
            _ => None,
        };
        Some(Self { logical, narrow })
    }

    /// The value as an integer, if it is stored as one.
    pub(in crate::expressions) fn integer(&self) -> Option<i128> {
        Some(match natives(&self.logical)? {
            Natives::I8(values) => values[0].into(),
            Natives::I16(values) => values[0].into(),
            Natives::I32(values) => values[0].into(),
            Natives::I64(values) => values[0].into(),
            Natives::I128(values) => values[0],
            Natives::U8(values) => values[0].into(),
            Natives::U16(values) => values[0].into(),
            Natives::U32(values) => values[0].into(),
            Natives::U64(values) => values[0].into(),
            Natives::F32(_) | Natives::F64(_) => return None,
        })
    }

    /// The constant in an array's physical type, if it exists in it.
    fn like(&self, array: &dyn Array) -> Option<&ArrayRef> {
        match array.data_type() {
            DataType::Decimal64(..) if *self.logical.data_type() != *array.data_type() => self.narrow.as_ref(),
            _ => Some(&self.logical),
        }
    }
}

/// A column's values compared with a constant.
pub(in crate::expressions) fn compare_constant(
    array: &ArrayRef,
    comparison: Comparison,
    constant: &Constant,
) -> Result<BooleanArray> {
    let Some(single) = constant.like(array) else {
        // The constant is outside of what the narrow form can hold: compare as the logical type.
        return compare_constant(&to_logical(array, constant.logical.data_type())?, comparison, constant);
    };
    let bits =
        same_natives!(natives(array), natives(single), |values, single| compare_with(values, comparison, single[0]));
    answer(bits, array, single)
}

/// A column's values within bounds: `low` by a `Greater` or `GreaterEqual`, `high` by a `Less` or `LessEqual`.
pub(in crate::expressions) fn compare_range(
    array: &ArrayRef,
    (above, low): &(Comparison, Constant),
    (below, high): &(Comparison, Constant),
) -> Result<BooleanArray> {
    let (Some(low_single), Some(high_single)) = (low.like(array), high.like(array)) else {
        let wide = to_logical(array, low.logical.data_type())?;
        return compare_range(
            &wide,
            &(*above, Constant { logical: low.logical.clone(), narrow: None }),
            &(*below, Constant { logical: high.logical.clone(), narrow: None }),
        );
    };
    let strict = (*above == Comparison::Greater, *below == Comparison::Less);
    let bits = same_natives!(natives(array), natives(low_single), |values, low| {
        let high = natives(high_single).and_then(|high| Ordinal::first(&high));
        high.map(|high| within(values, low[0], high, strict))
    });
    answer(bits.flatten(), array, low_single)
}

fn answer(bits: Option<BooleanBuffer>, array: &ArrayRef, constant: &ArrayRef) -> Result<BooleanArray> {
    let bits = bits.ok_or_else(|| {
        Error::bug(format!("a column of {} is compared with a constant of {}", array.data_type(), constant.data_type()))
    })?;
    Ok(BooleanArray::new(bits, nulls_of(array)))
}

/// A comparison of two expressions of one logical type.
#[derive(Debug)]
pub(in crate::expressions) struct Compare {
    pub(in crate::expressions) operator: Operator,
    pub(in crate::expressions) left: Box<Node>,
    pub(in crate::expressions) right: Box<Node>,
    /// The logical type of both sides.
    pub(in crate::expressions) data_type: DataType,
}

impl Compare {
    /// The three-valued answer for every row.
    pub(in crate::expressions) fn mask(&self, batch: &Batch) -> Result<BooleanArray> {
        let left = self.left.evaluate(batch)?;
        let right = self.right.evaluate(batch)?;
        if let Some(comparison) = Comparison::from_operator(&self.operator)
            && let Some(mask) = compare_operands(comparison, &left, &right)
        {
            return Ok(mask);
        }
        let mut left = left.to_logical(&self.data_type)?;
        let mut right = right.to_logical(&self.data_type)?;
        if let Some(comparison) = Comparison::from_operator(&self.operator)
            && let Some(mask) = compare_operands(comparison, &left, &right)
        {
            return Ok(mask);
        }
        if self.data_type.is_nested() || self.data_type.is_floating() {
            // DataFusion sees to the zeros of plain floats only, and to no NaNs.
            left.array = canonical_floats(&left.array)?;
            right.array = canonical_floats(&right.array)?;
        }
        let value = apply_cmp(self.operator, &left.to_columnar()?, &right.to_columnar()?).map_err(from_datafusion)?;
        let array = Operand::from_columnar(value)?.into_array(batch.rows())?;
        Ok(array.as_boolean().clone())
    }
}

/// The comparison of two operands in the same physical type, if we have a kernel for it and one of them is a column.
fn compare_operands(comparison: Comparison, left: &Operand, right: &Operand) -> Option<BooleanArray> {
    let (l, r) = (&left.array, &right.array);
    let bits = match (left.constant, right.constant) {
        (false, false) => same_natives!(natives(l), natives(r), |l, r| compare_pairs(l, r, comparison))?,
        (false, true) if r.null_count() == 0 => {
            same_natives!(natives(l), natives(r), |l, r| compare_with(l, comparison, r[0]))?
        }
        (true, false) if l.null_count() == 0 => {
            same_natives!(natives(l), natives(r), |l, r| compare_with(r, comparison.mirrored(), l[0]))?
        }
        _ => return None,
    };
    Some(BooleanArray::new(bits, NullBuffer::union(nulls_of(l).as_ref(), nulls_of(r).as_ref())))
}

/// A native type with the order that SQL gives it.
trait Ordinal: Copy {
    type Key: Ord + Copy;
    /// What orders like the value.
    fn key(self) -> Self::Key;
    /// The first of natives, if they are of this type.
    fn first(natives: &Natives<'_>) -> Option<Self>;
}

macro_rules! integers_are_their_own_keys {
    ($($kind:ident: $native:ty),*) => {
        $(impl Ordinal for $native {
            type Key = $native;
            #[inline(always)]
            fn key(self) -> $native {
                self
            }
            fn first(natives: &Natives<'_>) -> Option<Self> {
                if let Natives::$kind(values) = natives { values.first().copied() } else { None }
            }
        })*
    };
}

integers_are_their_own_keys!(
    I8: i8, I16: i16, I32: i32, I64: i64, I128: i128, U8: u8, U16: u16, U32: u32, U64: u64
);

/// Floats order like integers once the magnitude bits of negative ones are flipped.
macro_rules! floats_have_integer_keys {
    ($($kind:ident: $float:ty, $native:ty, $key:ty, $unsigned:ty, $sign:literal);*) => {
        $(impl Ordinal for $native {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key {
                let bits = <$float>::canonical_bits(self) as $key;
                bits ^ (((bits >> $sign) as $unsigned) >> 1) as $key
            }
            fn first(natives: &Natives<'_>) -> Option<Self> {
                if let Natives::$kind(values) = natives { values.first().copied() } else { None }
            }
        })*
    };
}

floats_have_integer_keys!(F32: Float32Type, f32, i32, u32, 31; F64: Float64Type, f64, i64, u64, 63);

fn compare_with<T: Ordinal>(values: &[T], comparison: Comparison, constant: T) -> BooleanBuffer {
    let constant = constant.key();
    match comparison {
        Comparison::Equal => pack(values, |value| value.key() == constant),
        Comparison::NotEqual => pack(values, |value| value.key() != constant),
        Comparison::Less => pack(values, |value| value.key() < constant),
        Comparison::LessEqual => pack(values, |value| value.key() <= constant),
        Comparison::Greater => pack(values, |value| value.key() > constant),
        Comparison::GreaterEqual => pack(values, |value| value.key() >= constant),
    }
}

fn compare_pairs<T: Ordinal>(left: &[T], right: &[T], comparison: Comparison) -> BooleanBuffer {
    match comparison {
        Comparison::Equal => pack_pairs(left, right, |left, right| left.key() == right.key()),
        Comparison::NotEqual => pack_pairs(left, right, |left, right| left.key() != right.key()),
        Comparison::Less => pack_pairs(left, right, |left, right| left.key() < right.key()),
        Comparison::LessEqual => pack_pairs(left, right, |left, right| left.key() <= right.key()),
        Comparison::Greater => pack_pairs(right, left, |right, left| right.key() < left.key()),
        Comparison::GreaterEqual => pack_pairs(right, left, |right, left| right.key() <= left.key()),
    }
}

fn within<T: Ordinal>(values: &[T], low: T, high: T, strict: (bool, bool)) -> BooleanBuffer {
    let (low, high) = (low.key(), high.key());
    match strict {
        (false, false) => pack(values, |value| (value.key() >= low) & (value.key() <= high)),
        (false, true) => pack(values, |value| (value.key() >= low) & (value.key() < high)),
        (true, false) => pack(values, |value| (value.key() > low) & (value.key() <= high)),
        (true, true) => pack(values, |value| (value.key() > low) & (value.key() < high)),
    }
}

/// The values of an array as the numbers they are stored in.
#[derive(Clone, Copy)]
pub(in crate::expressions) enum Natives<'a> {
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    I128(&'a [i128]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

/// The numbers of an array whose order is the order of its values.
pub(in crate::expressions) fn natives(array: &ArrayRef) -> Option<Natives<'_>> {
    use DataType::*;
    Some(match array.data_type() {
        Int8 => Natives::I8(array.as_primitive::<Int8Type>().values()),
        Int16 => Natives::I16(array.as_primitive::<Int16Type>().values()),
        Int32 => Natives::I32(array.as_primitive::<Int32Type>().values()),
        Int64 => Natives::I64(array.as_primitive::<Int64Type>().values()),
        UInt8 => Natives::U8(array.as_primitive::<UInt8Type>().values()),
        UInt16 => Natives::U16(array.as_primitive::<UInt16Type>().values()),
        UInt32 => Natives::U32(array.as_primitive::<UInt32Type>().values()),
        UInt64 => Natives::U64(array.as_primitive::<UInt64Type>().values()),
        Float32 => Natives::F32(array.as_primitive::<Float32Type>().values()),
        Float64 => Natives::F64(array.as_primitive::<Float64Type>().values()),
        Date32 => Natives::I32(array.as_primitive::<Date32Type>().values()),
        Date64 => Natives::I64(array.as_primitive::<Date64Type>().values()),
        Time32(TimeUnit::Second) => Natives::I32(array.as_primitive::<Time32SecondType>().values()),
        Time32(TimeUnit::Millisecond) => Natives::I32(array.as_primitive::<Time32MillisecondType>().values()),
        Time64(TimeUnit::Microsecond) => Natives::I64(array.as_primitive::<Time64MicrosecondType>().values()),
        Time64(TimeUnit::Nanosecond) => Natives::I64(array.as_primitive::<Time64NanosecondType>().values()),
        Timestamp(TimeUnit::Second, _) => Natives::I64(array.as_primitive::<TimestampSecondType>().values()),
        Timestamp(TimeUnit::Millisecond, _) => Natives::I64(array.as_primitive::<TimestampMillisecondType>().values()),
        Timestamp(TimeUnit::Microsecond, _) => Natives::I64(array.as_primitive::<TimestampMicrosecondType>().values()),
        Timestamp(TimeUnit::Nanosecond, _) => Natives::I64(array.as_primitive::<TimestampNanosecondType>().values()),
        Decimal64(..) => Natives::I64(array.as_primitive::<Decimal64Type>().values()),
        Decimal128(..) => Natives::I128(array.as_primitive::<Decimal128Type>().values()),
        _ => return None,
    })
}

/// Whether values of a logical type are stored as natives.
pub(in crate::expressions) fn has_natives(data_type: &DataType) -> bool {
    natives(&arrow::array::new_empty_array(data_type)).is_some()
}
