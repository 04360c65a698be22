//! `+`, `-` and `*`.
//!
//! Decimals are computed as 64-bit integers where that is safe for the batch at hand: every operand carries a bound of
//! its values' magnitudes, and if the bound of the result fits, nothing needs to be checked per value. If it does not
//! fit, the values are computed with a check; if that fails too, the batch is computed by Arrow in 128 bits, as
//! DataFusion would, errors included. So the physical type of a result may differ from batch to batch.
//!
//! Integers and floats are left to Arrow's kernels, which are what DataFusion runs. Integers wrap around or are
//! checked, as the expression asks; the check looks at whole batches, and only where it finds something are pairs
//! computed one by one. A decimal that needs more than the 38 digits of its type is an error, too, although it may fit
//! 128 bits.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::numeric::{add, add_wrapping, mul, mul_wrapping, sub, sub_wrapping};
use arrow::datatypes::{DECIMAL64_MAX_SCALE, DECIMAL128_MAX_PRECISION, DataType, Decimal128Type};
use arrow::error::ArrowError;
use datafusion_expr::Operator;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::Node;
use crate::batch::Batch;
use crate::expressions::operand::{Narrow, Operand};
use crate::expressions::overflow::{Operation, may_overflow};

/// An operation on two expressions.
#[derive(Debug)]
pub(in crate::expressions) struct Arithmetic {
    operation: Operation,
    pub(in crate::expressions) left: Box<Node>,
    pub(in crate::expressions) right: Box<Node>,
    left_type: DataType,
    right_type: DataType,
    decimals: Option<Decimals>,
    /// Whether integers that overflow are an error.
    checked: bool,
}

/// How to compute with decimals in 64 bits.
#[derive(Debug)]
struct Decimals {
    /// What brings each side to the scale of the result before adding.
    left_factor: i64,
    right_factor: i64,
    /// The logical type of the result.
    precision: u8,
    scale: i8,
}

/// How an operation is computed.
#[derive(Debug)]
pub(in crate::expressions) struct ArithmeticWay {
    operation: Operation,
    decimals: Option<Decimals>,
}

impl ArithmeticWay {
    /// The way for an operator and types, or `None` if the operation is not one of ours. `result_type` is the logical
    /// type that DataFusion gives it.
    pub(in crate::expressions) fn of(
        operator: &Operator,
        left_type: &DataType,
        right_type: &DataType,
        result_type: &DataType,
    ) -> Option<Self> {
        let operation = match operator {
            Operator::Plus => Operation::Add,
            Operator::Minus => Operation::Subtract,
            Operator::Multiply => Operation::Multiply,
            _ => return None,
        };
        let decimals = match (left_type, right_type, result_type) {
            (DataType::Decimal128(_, left), DataType::Decimal128(_, right), DataType::Decimal128(precision, scale)) => {
                Decimals::new(operation, *left, *right, *precision, *scale)
            }
            (left, right, _) if left == right && (left.is_integer() || left.is_floating()) => None,
            _ => return None,
        };
        Some(Self { operation, decimals })
    }
}

impl Arithmetic {
    /// The operation on two expressions with their types; `checked` makes an overflow of integers an error.
    pub(in crate::expressions) fn new(
        ArithmeticWay { operation, decimals }: ArithmeticWay,
        (left, left_type): (Node, DataType),
        (right, right_type): (Node, DataType),
        checked: bool,
    ) -> Self {
        let checked = checked && left_type.is_integer();
        Self { operation, left: Box::new(left), right: Box::new(right), left_type, right_type, decimals, checked }
    }

    /// Whether some value may make it fail.
    pub(in crate::expressions) fn may_fail(&self) -> bool {
        self.checked || matches!(self.left_type, DataType::Decimal128(..))
    }

    /// The results for a batch's rows.
    pub(in crate::expressions) fn evaluate(&self, batch: &Batch) -> Result<Operand> {
        let left = self.left.evaluate(batch)?;
        let right = self.right.evaluate(batch)?;
        if let Some(decimals) = &self.decimals
            && let Some(result) = decimals.compute(self.operation, &left, &right)
        {
            return result.into_operand(decimals.precision, decimals.scale, left.constant && right.constant);
        }
        let left = left.to_logical(&self.left_type)?;
        let right = right.to_logical(&self.right_type)?;
        let slow = self.checked && may_overflow(self.operation, &left.array, &right.array);
        let (l, r) = (left.datum(), right.datum());
        let array = match self.operation {
            Operation::Add if slow => add(l.as_ref(), r.as_ref()),
            Operation::Subtract if slow => sub(l.as_ref(), r.as_ref()),
            Operation::Multiply if slow => mul(l.as_ref(), r.as_ref()),
            Operation::Add => add_wrapping(l.as_ref(), r.as_ref()),
            Operation::Subtract => sub_wrapping(l.as_ref(), r.as_ref()),
            Operation::Multiply => mul_wrapping(l.as_ref(), r.as_ref()),
        };
        let array = array.map_err(|error| match integer_type(left.array.data_type()) {
            Some(name) if matches!(error, ArrowError::ArithmeticOverflow(_)) => {
                Error::value(format!("{name} out of range")).with_code("22003")
            }
            _ => from_arrow(error),
        })?;
        check_digits(&array)?;
        Ok(Operand { array, constant: left.constant && right.constant, bound: None })
    }
}

/// What SQL calls a type of integers.
fn integer_type(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Int16 => Some("smallint"),
        DataType::Int32 => Some("integer"),
        DataType::Int64 => Some("bigint"),
        _ => None,
    }
}

/// Fails if a decimal has more digits than its type, where that type is the widest there is. (A narrower result type
/// has room for whatever its operands can give.)
fn check_digits(array: &ArrayRef) -> Result<()> {
    let DataType::Decimal128(DECIMAL128_MAX_PRECISION, _) = array.data_type() else { return Ok(()) };
    const LIMIT: i128 = 10i128.pow(DECIMAL128_MAX_PRECISION as u32);
    let values = array.as_primitive::<Decimal128Type>();
    let over = |value: i128| value >= LIMIT || value <= -LIMIT;
    if values.values().iter().fold(false, |any, &value| any | over(value)) && values.iter().flatten().any(over) {
        let error = Error::value(format!("arithmetic overflow: a result has more digits than {}", array.data_type()));
        return Err(error.with_hint("cast the operands to fewer digits, or to DOUBLE"));
    }
    Ok(())
}

impl Decimals {
    fn new(operation: Operation, left: i8, right: i8, precision: u8, scale: i8) -> Option<Self> {
        let result_scale = if operation == Operation::Multiply { left.checked_add(right)? } else { left.max(right) };
        if result_scale != scale || !(0..=DECIMAL64_MAX_SCALE).contains(&scale) {
            return None;
        }
        let (left_factor, right_factor) = match operation {
            Operation::Multiply => (1, 1),
            _ => (power_of_ten(scale - left)?, power_of_ten(scale - right)?),
        };
        Some(Self { left_factor, right_factor, precision, scale })
    }

    /// The result in 64 bits, or `None` if it might not fit.
    fn compute(&self, operation: Operation, left: &Operand, right: &Operand) -> Option<Narrow> {
        let left_single = single(left)?;
        let right_single = single(right)?;
        let left = scaled(left.narrow()?, self.left_factor)?;
        let right = scaled(right.narrow()?, self.right_factor)?;
        let bound = match operation {
            Operation::Multiply => u128::from(left.bound) * u128::from(right.bound),
            _ => u128::from(left.bound) + u128::from(right.bound),
        };
        let safe = bound <= i64::MAX as u128;
        let halves = left.bound <= i32::MAX as u64 && right.bound <= i32::MAX as u64;
        let (l, r) = (NarrowSide::new(&left, left_single), NarrowSide::new(&right, right_single));
        let (values, fits) = match operation {
            Operation::Add if safe => (combine(l, r, i64::wrapping_add), true),
            Operation::Subtract if safe => (combine(l, r, i64::wrapping_sub), true),
            // Factors of 31 bits: the processor multiplies four pairs at once.
            Operation::Multiply if halves => (combine(l, r, |l, r| i64::from(l as i32) * i64::from(r as i32)), true),
            Operation::Multiply if safe => (combine(l, r, i64::wrapping_mul), true),
            Operation::Add => combine_checked(l, r, i64::overflowing_add),
            Operation::Subtract => combine_checked(l, r, i64::overflowing_sub),
            Operation::Multiply => combine_checked(l, r, i64::overflowing_mul),
        };
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).min(i64::MIN.unsigned_abs());
        let nulls = NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref());
        fits.then(|| Narrow { values: values.into(), nulls, bound })
    }
}

/// Ten to a power, if it fits.
pub(in crate::expressions) fn power_of_ten(exponent: i8) -> Option<i64> {
    10_i64.checked_pow(u32::try_from(exponent).ok()?)
}

/// Values times a factor, if they surely fit.
pub(in crate::expressions) fn scaled(values: Narrow, factor: i64) -> Option<Narrow> {
    if factor == 1 {
        return Some(values);
    }
    let bound = values.bound.checked_mul(factor.unsigned_abs()).filter(|bound| *bound <= i64::MAX as u64)?;
    let scaled = values.values.iter().map(|value| value.wrapping_mul(factor)).collect::<Vec<_>>();
    Some(Narrow { values: scaled.into(), nulls: values.nulls, bound })
}

/// Whether an operand is a constant; `None` if it is the constant NULL, which has no narrow form.
fn single(operand: &Operand) -> Option<bool> {
    let null = operand.constant && operand.array.null_count() > 0;
    (!null).then_some(operand.constant)
}

/// One side of an operation.
#[derive(Clone, Copy)]
enum NarrowSide<'a> {
    Values(&'a [i64]),
    Single(i64),
}

impl<'a> NarrowSide<'a> {
    fn new(narrow: &'a Narrow, single: bool) -> Self {
        if single { NarrowSide::Single(narrow.values[0]) } else { NarrowSide::Values(&narrow.values) }
    }
}

#[inline(always)]
fn combine(left: NarrowSide<'_>, right: NarrowSide<'_>, operation: impl Fn(i64, i64) -> i64) -> Vec<i64> {
    match (left, right) {
        (NarrowSide::Values(left), NarrowSide::Values(right)) => {
            left.iter().zip(right).map(|(left, right)| operation(*left, *right)).collect()
        }
        (NarrowSide::Values(left), NarrowSide::Single(right)) => {
            left.iter().map(|left| operation(*left, right)).collect()
        }
        (NarrowSide::Single(left), NarrowSide::Values(right)) => {
            right.iter().map(|right| operation(left, *right)).collect()
        }
        (NarrowSide::Single(left), NarrowSide::Single(right)) => vec![operation(left, right)],
    }
}

/// The results, and whether all of them fit. What lies in the slots of NULLs counts too: at worst the caller takes the
/// slow way without need.
#[inline(always)]
fn combine_checked(
    left: NarrowSide<'_>,
    right: NarrowSide<'_>,
    operation: impl Fn(i64, i64) -> (i64, bool),
) -> (Vec<i64>, bool) {
    let overflow = std::cell::Cell::new(false);
    let values = combine(left, right, |left, right| {
        let (value, over) = operation(left, right);
        overflow.set(overflow.get() | over);
        value
    });
    (values, !overflow.get())
}
