//! `+ - * /` of floats. A result that is too large or too small is an error, as in PostgreSQL, and so is a divisor of
//! zero; infinities and NaN among the operands are values like others.

use std::sync::Arc;

use arrow::array::{Array, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{Float32Type, Float64Type};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::super::catalog::Catalog;
use super::super::columns::Columns;
use super::super::errors::{float_overflow, value_error};
use super::super::{Body, Call};

/// Declares the operators.
pub(super) fn declare(catalog: &mut Catalog) {
    const DOUBLE: [&str; 4] = [
        "+(double precision, double precision) -> double precision",
        "-(double precision, double precision) -> double precision",
        "*(double precision, double precision) -> double precision",
        "/(double precision, double precision) -> double precision",
    ];
    const REAL: [&str; 4] =
        ["+(real, real) -> real", "-(real, real) -> real", "*(real, real) -> real", "/(real, real) -> real"];
    // Of a real and a double, the real becomes one (`fit_floats`).
    const MIXED: [&str; 8] = [
        "+(real, double precision) -> double precision",
        "-(real, double precision) -> double precision",
        "*(real, double precision) -> double precision",
        "/(real, double precision) -> double precision",
        "+(double precision, real) -> double precision",
        "-(double precision, real) -> double precision",
        "*(double precision, real) -> double precision",
        "/(double precision, real) -> double precision",
    ];
    let doubles: [Body; 4] = [
        Body::Kernel(|arguments, call| computed::<Float64Type>(arguments, call, |a, b| a + b, false)),
        Body::Kernel(|arguments, call| computed::<Float64Type>(arguments, call, |a, b| a - b, false)),
        Body::Kernel(|arguments, call| computed::<Float64Type>(arguments, call, |a, b| a * b, true)),
        Body::Kernel(|arguments, call| divided::<Float64Type>(arguments, call, |a, b| a / b)),
    ];
    let reals: [Body; 4] = [
        Body::Kernel(|arguments, call| computed::<Float32Type>(arguments, call, |a, b| a + b, false)),
        Body::Kernel(|arguments, call| computed::<Float32Type>(arguments, call, |a, b| a - b, false)),
        Body::Kernel(|arguments, call| computed::<Float32Type>(arguments, call, |a, b| a * b, true)),
        Body::Kernel(|arguments, call| divided::<Float32Type>(arguments, call, |a, b| a / b)),
    ];
    for (index, signature) in DOUBLE.iter().chain(&MIXED).enumerate() {
        catalog.add(signature, doubles[index % 4].clone());
    }
    for (signature, body) in REAL.iter().zip(reals) {
        catalog.add(signature, body);
    }
}

/// What the checks ask of a float.
trait Float: ArrowPrimitiveType<Native: PartialEq + Copy> {
    fn is_finite(value: Self::Native) -> bool;
    fn is_zero(value: Self::Native) -> bool;
    fn is_nan(value: Self::Native) -> bool;
    /// Whether all are finite, and none is zero if that is asked.
    fn are_ordinary(values: &[Self::Native], asks_zero: bool) -> bool;
}

macro_rules! float {
    ($($arrow:ty, $native:ty;)+) => {$(
        impl Float for $arrow {
            fn is_finite(value: $native) -> bool {
                value.is_finite()
            }

            fn is_zero(value: $native) -> bool {
                value == 0.0
            }

            fn is_nan(value: $native) -> bool {
                value.is_nan()
            }

            fn are_ordinary(values: &[$native], asks_zero: bool) -> bool {
                // Without an exit within, so that the processor compares several at once.
                let all = |part: &[$native]| {
                    part.iter().fold(true, |all, value| all & value.is_finite() & (!asks_zero | (*value != 0.0)))
                };
                values.chunks(1024).all(all)
            }
        }
    )+};
}
float! { Float64Type, f64; Float32Type, f32; }

/// The two columns of a call, and which of them is one value for all rows.
struct Sides<'a, T: Float> {
    left: &'a PrimitiveArray<T>,
    right: &'a PrimitiveArray<T>,
    rows: usize,
}

impl<'a, T: Float> Sides<'a, T> {
    fn of(columns: &'a Columns<'_>) -> Result<Self> {
        let [left, right] = columns.arrays() else { return Err(Error::bug("an operator of other than two values")) };
        let sides = left.as_primitive_opt::<T>().zip(right.as_primitive_opt::<T>());
        let (left, right) = sides.ok_or_else(|| Error::bug("an operator of floats without floats"))?;
        Ok(Self { left, right, rows: columns.rows() })
    }

    fn at(&self, row: usize) -> (T::Native, T::Native) {
        let place = |array: &PrimitiveArray<T>| if array.len() == 1 { 0 } else { row };
        (self.left.value(place(self.left)), self.right.value(place(self.right)))
    }

    fn nulls(&self) -> Option<NullBuffer> {
        let of = |array: &PrimitiveArray<T>| match (array.len() == 1 && self.rows != 1, array.null_count()) {
            (true, 0) => None,
            (true, _) => Some(NullBuffer::new_null(self.rows)),
            (false, _) => array.nulls().cloned(),
        };
        NullBuffer::union(of(self.left).as_ref(), of(self.right).as_ref())
    }

    fn values(&self, of: impl Fn(T::Native, T::Native) -> T::Native) -> ScalarBuffer<T::Native> {
        let (left, right) = (self.left.values(), self.right.values());
        let values: Vec<T::Native> = match (left.len() == 1, right.len() == 1) {
            (false, false) => left.iter().zip(right.iter()).map(|(a, b)| of(*a, *b)).collect(),
            (false, true) => left.iter().map(|a| of(*a, right[0])).collect(),
            (true, false) => right.iter().map(|b| of(left[0], *b)).collect(),
            (true, true) => vec![of(left[0], right[0]); self.rows],
        };
        values.into()
    }
}

/// The results, of which zero is too small where no operand is zero, if `asks_zero`.
fn computed<T: Float>(
    arguments: &[ColumnarValue],
    call: &Call<'_>,
    of: impl Fn(T::Native, T::Native) -> T::Native,
    asks_zero: bool,
) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let sides = Sides::<T>::of(&columns)?;
    let (values, nulls) = (sides.values(of), sides.nulls());
    if !T::are_ordinary(&values, asks_zero) {
        let is_there = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        for row in (0..sides.rows).filter(is_there) {
            let (value, (a, b)) = (values[row], sides.at(row));
            if !T::is_finite(value) && T::is_finite(a) && T::is_finite(b) {
                return Err(float_overflow());
            }
            let is_divided_by_infinity = !T::is_finite(b);
            if asks_zero && T::is_zero(value) && !T::is_zero(a) && !T::is_zero(b) && !is_divided_by_infinity {
                return Err(value_error("value out of range: underflow", "22003"));
            }
        }
    }
    columns.result(Arc::new(PrimitiveArray::<T>::new(values, nulls)))
}

/// Quotients. Fails with 22012 for a divisor of zero, unless the dividend is NaN.
fn divided<T: Float>(
    arguments: &[ColumnarValue],
    call: &Call<'_>,
    of: impl Fn(T::Native, T::Native) -> T::Native,
) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let sides = Sides::<T>::of(&columns)?;
    if !T::are_ordinary(sides.right.values(), true) {
        let nulls = sides.nulls();
        let is_there = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        for row in (0..sides.rows).filter(is_there) {
            let (a, b) = sides.at(row);
            if T::is_zero(b) && !T::is_nan(a) {
                return Err(value_error("division by zero", "22012"));
            }
        }
    }
    computed::<T>(arguments, call, of, true)
}
