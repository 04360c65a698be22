//! Casts between numbers, booleans and oids. Numerics are rounded half away from zero, floats half to even.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::compute::unary;
use arrow::datatypes::{
    ArrowPrimitiveType, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, i256,
};
use diligence_base::{Error, Result};

use super::Cast;
use crate::SqlType;
use crate::sql_type::{NUMERIC_PRECISION, NUMERIC_SCALE};
use crate::text::decimals::{self, Zeros};
use crate::text::{errors, numbers};

/// Whether a type is a number to these casts.
pub(super) fn is_number(sql_type: &SqlType) -> bool {
    use SqlType as T;
    matches!(
        sql_type,
        T::Boolean | T::SmallInt | T::Integer | T::BigInt | T::Numeric(_) | T::Real | T::Double | T::Oid(_)
    )
}

/// Casts a number.
pub(super) fn cast(cast: &Cast<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    use SqlType as T;
    match cast.from {
        T::Boolean => from_boolean(cast, array.as_boolean()),
        T::SmallInt => from_integer::<Int16Type>(cast, array),
        T::Integer => from_integer::<Int32Type>(cast, array),
        T::BigInt | T::Oid(_) => from_integer::<Int64Type>(cast, array),
        T::Real => from_real(cast, array),
        T::Double => from_double(cast, array),
        T::Numeric(digits) => {
            let scale = digits.map_or(NUMERIC_SCALE, |(_, scale)| scale);
            match array.as_primitive_opt::<Decimal128Type>() {
                Some(_) => from_numeric::<Decimal128Type>(cast, array, scale),
                None => from_numeric::<Decimal256Type>(cast, array, scale),
            }
        }
        _ => Err(cast.no_cast()),
    }
}

fn from_boolean(cast: &Cast<'_>, array: &BooleanArray) -> Result<ArrayRef> {
    if *cast.to != SqlType::Integer {
        return Err(cast.no_cast());
    }
    Ok(Arc::new(array.iter().map(|value| value.map(i32::from)).collect::<PrimitiveArray<Int32Type>>()))
}

fn from_integer<T: ArrowPrimitiveType>(cast: &Cast<'_>, array: &ArrayRef) -> Result<ArrayRef>
where
    T::Native: Into<i64>,
{
    let narrow = |value: T::Native| value.into();
    let is_oid = matches!(cast.from, SqlType::Oid(_));
    match cast.to {
        to if is_oid && !matches!(to, SqlType::Integer | SqlType::BigInt | SqlType::Oid(_)) => Err(cast.no_cast()),
        SqlType::Boolean if *cast.from == SqlType::Integer => {
            let array: &PrimitiveArray<T> = array.as_primitive();
            Ok(Arc::new(BooleanArray::from_unary(array, |value| value.into() != 0)))
        }
        SqlType::SmallInt => {
            cast.each::<T, Int16Type>(array, |value| i16::try_from(narrow(value)).map_err(|_| out_of_range(cast)))
        }
        SqlType::Integer if is_oid => {
            // The same 32 bits.
            cast.all::<T, Int32Type>(array, |value| narrow(value) as u32 as i32)
        }
        SqlType::Integer => {
            cast.each::<T, Int32Type>(array, |value| i32::try_from(narrow(value)).map_err(|_| out_of_range(cast)))
        }
        SqlType::BigInt => cast.all::<T, Int64Type>(array, narrow),
        SqlType::Oid(_) if matches!(cast.from, SqlType::BigInt) => cast.each::<T, Int64Type>(array, |value| {
            let value = narrow(value);
            u32::try_from(value).map(|_| value).map_err(|_| errors::out_of_range("OID"))
        }),
        SqlType::Oid(_) => cast.all::<T, Int64Type>(array, |value| i64::from(narrow(value) as u32)),
        SqlType::Real => cast.all::<T, Float32Type>(array, |value| narrow(value) as f32),
        SqlType::Double => cast.all::<T, Float64Type>(array, |value| narrow(value) as f64),
        SqlType::Numeric(digits) => {
            let target = Target::of(*digits);
            match target.power() {
                // The product of an i64 and a power of ten that fits into 64 bits fits into 128.
                Some(power) if target.is_narrow() => cast.each::<T, Decimal128Type>(array, |value| {
                    let value = i128::from(narrow(value)) * i128::from(power);
                    target.narrow_checked(value)
                }),
                _ if target.is_narrow() => cast
                    .each::<T, Decimal128Type>(array, |value| target.narrow(i256::from_i128(narrow(value).into()), 0)),
                _ => {
                    cast.each::<T, Decimal256Type>(array, |value| target.wide(i256::from_i128(narrow(value).into()), 0))
                }
            }
        }
        _ => Err(cast.no_cast()),
    }
}

/// "integer out of range".
fn out_of_range(cast: &Cast<'_>) -> Error {
    errors::out_of_range(cast.to)
}

fn from_real(cast: &Cast<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    match cast.to {
        SqlType::Double => cast.all::<Float32Type, Float64Type>(array, f64::from),
        SqlType::Numeric(digits) => from_float(cast, array.as_primitive::<Float32Type>(), f64::from, 6, *digits),
        _ => {
            let wide: ArrayRef = Arc::new(unary::<_, _, Float64Type>(array.as_primitive::<Float32Type>(), f64::from));
            from_double(cast, &wide)
        }
    }
}

fn from_double(cast: &Cast<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    // 2^63 is a float, the greatest bigint is not.
    let rounded = |value: f64, least: f64, above: f64| {
        let value = value.round_ties_even();
        (value >= least && value < above).then_some(value as i64).ok_or_else(|| out_of_range(cast))
    };
    match cast.to {
        SqlType::SmallInt => cast.each::<Float64Type, Int16Type>(array, |value| {
            Ok(rounded(value, f64::from(i16::MIN), f64::from(i16::MAX) + 1.0)? as i16)
        }),
        SqlType::Integer => cast.each::<Float64Type, Int32Type>(array, |value| {
            Ok(rounded(value, f64::from(i32::MIN), f64::from(i32::MAX) + 1.0)? as i32)
        }),
        SqlType::BigInt => {
            cast.each::<Float64Type, Int64Type>(array, |value| rounded(value, i64::MIN as f64, -(i64::MIN as f64)))
        }
        SqlType::Real => cast.each::<Float64Type, Float32Type>(array, |value| {
            let narrow = value as f32;
            if narrow.is_infinite() && value.is_finite() {
                return Err(Error::input("value out of range: overflow").with_code("22003"));
            }
            if narrow == 0.0 && value != 0.0 {
                return Err(Error::input("value out of range: underflow").with_code("22003"));
            }
            Ok(narrow)
        }),
        SqlType::Numeric(digits) => from_float(cast, array.as_primitive::<Float64Type>(), |value| value, 15, *digits),
        _ => Err(cast.no_cast()),
    }
}

/// A float becomes a numeric with as many digits as its type surely has.
fn from_float<T: ArrowPrimitiveType>(
    cast: &Cast<'_>,
    array: &PrimitiveArray<T>,
    widen: impl Fn(T::Native) -> f64,
    significant: usize,
    digits: Option<(u8, i8)>,
) -> Result<ArrayRef> {
    let target = Target::of(digits);
    let array: ArrayRef = Arc::new(array.clone());
    let text = std::cell::RefCell::new(String::new());
    let read = |value: T::Native| {
        let value = widen(value);
        if value.is_infinite() && !target.is_open {
            return Err(target.overflow());
        }
        if !value.is_finite() {
            return Err(errors::not_finite(if value.is_nan() { "NaN" } else { "infinity" }));
        }
        let mut text = text.borrow_mut();
        text.clear();
        numbers::write_significant(&mut text, value, significant);
        decimals::parse_decimal(&text, target.precision, target.scale)
    };
    if target.is_narrow() {
        cast.each::<T, Decimal128Type>(&array, |value| target.narrow(read(value)?, target.scale))
    } else {
        cast.each::<T, Decimal256Type>(&array, read)
    }
}

/// A decimal of 128 or 256 bits.
trait Decimal: ArrowPrimitiveType {
    fn wide(value: Self::Native) -> i256;

    /// The number with another scale in 128 bits. `None` if it is too large.
    fn narrow(value: Self::Native, from: i8, to: i8) -> Option<i128>;
}

impl Decimal for Decimal128Type {
    fn wide(value: i128) -> i256 {
        i256::from_i128(value)
    }

    fn narrow(value: i128, from: i8, to: i8) -> Option<i128> {
        // Where 128 bits are too few on the way, they are too few for the result, too.
        decimals::rescale_narrow(value, from, to)
    }
}

impl Decimal for Decimal256Type {
    fn wide(value: i256) -> i256 {
        value
    }

    fn narrow(value: i256, from: i8, to: i8) -> Option<i128> {
        decimals::rescale(value, from, to)?.to_i128()
    }
}

fn from_numeric<T: Decimal>(cast: &Cast<'_>, array: &ArrayRef, scale: i8) -> Result<ArrayRef> {
    let integer = |value: T::Native| T::narrow(value, scale, 0).ok_or_else(|| out_of_range(cast));
    match cast.to {
        SqlType::SmallInt => {
            cast.each::<T, Int16Type>(array, |value| i16::try_from(integer(value)?).map_err(|_| out_of_range(cast)))
        }
        SqlType::Integer => {
            cast.each::<T, Int32Type>(array, |value| i32::try_from(integer(value)?).map_err(|_| out_of_range(cast)))
        }
        SqlType::BigInt => {
            cast.each::<T, Int64Type>(array, |value| i64::try_from(integer(value)?).map_err(|_| out_of_range(cast)))
        }
        SqlType::Real => cast.each::<T, Float32Type>(array, |value| {
            let text = text_of(T::wide(value), scale);
            let real = text.parse().unwrap_or(f32::INFINITY);
            let is_lost = real.is_infinite() || real == 0.0 && T::wide(value) != i256::ZERO;
            if is_lost {
                return Err(Error::input(format!("\"{text}\" is out of range for type real")).with_code("22003"));
            }
            Ok(real)
        }),
        SqlType::Double => cast.all::<T, Float64Type>(array, |value| double_of(T::wide(value), scale)),
        SqlType::Numeric(digits) => {
            let target = Target::of(*digits);
            match target.is_narrow() {
                true => cast.each::<T, Decimal128Type>(array, |value| {
                    let value = T::narrow(value, scale, target.scale).ok_or_else(|| target.overflow())?;
                    target.narrow_checked(value)
                }),
                false => cast.each::<T, Decimal256Type>(array, |value| target.wide(T::wide(value), scale)),
            }
        }
        _ => Err(cast.no_cast()),
    }
}

fn text_of(value: i256, scale: i8) -> String {
    let mut text = String::new();
    decimals::write_wide_decimal(&mut text, value, scale, Zeros::Kept);
    text
}

/// The float nearest to a decimal.
fn double_of(value: i256, scale: i8) -> f64 {
    const EXACT: i128 = 1 << 53;
    match value.to_i128() {
        // A quotient of two exact floats is rounded once.
        Some(value) if (-EXACT..=EXACT).contains(&value) && (0..=22).contains(&scale) => {
            value as f64 / 10_f64.powi(scale.into())
        }
        _ => text_of(value, scale).parse().unwrap_or(f64::INFINITY),
    }
}

/// The numeric that values are cast to.
#[derive(Clone, Copy)]
struct Target {
    precision: u8,
    scale: i8,
    is_open: bool,
}

impl Target {
    fn of(digits: Option<(u8, i8)>) -> Self {
        let (precision, scale) = digits.unwrap_or((NUMERIC_PRECISION, NUMERIC_SCALE));
        Self { precision, scale, is_open: digits.is_none() }
    }

    /// Whether 128 bits hold it.
    fn is_narrow(&self) -> bool {
        self.precision <= 38
    }

    /// The power of ten by which integers are multiplied, if it is small.
    fn power(&self) -> Option<i64> {
        10_i64.checked_pow(u32::try_from(self.scale).ok()?)
    }

    fn overflow(&self) -> Error {
        match self.is_open {
            true => errors::numeric_format_overflow(),
            false => errors::numeric_overflow(self.precision, self.scale),
        }
    }

    fn wide(&self, value: i256, scale: i8) -> Result<i256> {
        decimals::rescale(value, scale, self.scale)
            .filter(|value| decimals::fits(*value, self.precision))
            .ok_or_else(|| self.overflow())
    }

    fn narrow(&self, value: i256, scale: i8) -> Result<i128> {
        self.wide(value, scale)?.to_i128().ok_or_else(|| self.overflow())
    }

    fn narrow_checked(&self, value: i128) -> Result<i128> {
        // 10^38 fits into 128 bits.
        match value.unsigned_abs() < 10_u128.pow(u32::from(self.precision)) {
            true => Ok(value),
            false => Err(self.overflow()),
        }
    }
}
