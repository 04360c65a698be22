//! Operators of numbers: `+ - * / %`, signs, bits and shifts.
//!
//! Sums, differences and products of decimals keep all digits. Their types are those that Arrow's kernels give where
//! these have room: decimals of 128 bits, and of 256 bits where more than 19 digits stand behind the point. Where they
//! have none (more than 38 digits behind the point), a kernel of ours rounds.

mod floats;

use super::catalog::Catalog;
use super::columns::{Columns, kernel};
use super::decimal::{Decimal, numeric_type, precision_scale};
use super::errors::out_of_range;
use super::{Body, Kernel, ScalarCall, Special};
use crate::SqlType;

/// Digits behind the point up to which sums of more than 38 digits stay in 128 bits.
const NARROW_SCALE_MAX: i32 = 19;
/// Digits of the smaller of two factors, above which their product is expected not to fit into 128 bits.
const FACTOR_DIGITS_MAX: i32 = 18;
/// Digits that 128 bits hold.
const NARROW_DIGITS: i32 = 38;

/// Declares the operators.
pub(super) fn declare(catalog: &mut Catalog) {
    for (special, signatures) in [
        (
            Special::Add,
            [
                "+(smallint, smallint) -> smallint",
                "+(integer, integer) -> integer",
                "+(bigint, bigint) -> bigint",
                "+(numeric, numeric) -> numeric",
            ],
        ),
        (
            Special::Subtract,
            [
                "-(smallint, smallint) -> smallint",
                "-(integer, integer) -> integer",
                "-(bigint, bigint) -> bigint",
                "-(numeric, numeric) -> numeric",
            ],
        ),
        (
            Special::Multiply,
            [
                "*(smallint, smallint) -> smallint",
                "*(integer, integer) -> integer",
                "*(bigint, bigint) -> bigint",
                "*(numeric, numeric) -> numeric",
            ],
        ),
    ] {
        catalog.add_all(&signatures, Body::Special(special));
    }
    catalog.add_all(
        &["/(smallint, smallint) -> smallint", "/(integer, integer) -> integer", "/(bigint, bigint) -> bigint"],
        Body::Special(Special::Divide),
    );
    catalog.add(
        "/(numeric, numeric) -> numeric",
        kernel!(of call; |a: Decimal, b: Decimal| a.shown(&call.arguments[0]).divide(b.shown(&call.arguments[1]))),
    );
    // The remainder by -1 of the smallest number is 0, which hardware does not know: Arrow's kernel wraps.
    for (operator, function) in [
        ("%(smallint, smallint) -> smallint", "mod(smallint, smallint) -> smallint"),
        ("%(integer, integer) -> integer", "mod(integer, integer) -> integer"),
        ("%(bigint, bigint) -> bigint", "mod(bigint, bigint) -> bigint"),
    ] {
        catalog.add_all(&[operator, function], Body::Special(Special::Modulo));
    }
    for signature in ["%(numeric, numeric) -> numeric", "mod(numeric, numeric) -> numeric"] {
        catalog
            .add(signature, kernel!(try |a: Decimal, b: Decimal| a.remainder(b)))
            .gives(|types, _| Ok(common(types)));
    }
    catalog.add_all(
        &[
            "-(smallint) -> smallint",
            "-(integer) -> integer",
            "-(bigint) -> bigint",
            "-(real) -> real",
            "-(double precision) -> double precision",
        ],
        Body::Special(Special::Negate),
    );
    catalog.add("-(numeric) -> numeric", Body::Special(Special::Negate)).gives(|types, _| Ok(types[0].clone()));
    plus(catalog);
    bits(catalog);
    floats::declare(catalog);
}

/// `+x`.
fn plus(catalog: &mut Catalog) {
    catalog.add("+(smallint) -> smallint", kernel!(|a: i16| a));
    catalog.add("+(integer) -> integer", kernel!(|a: i32| a));
    catalog.add("+(bigint) -> bigint", kernel!(|a: i64| a));
    catalog.add("+(numeric) -> numeric", kernel!(|a: Decimal| a)).gives(|types, _| Ok(types[0].clone()));
    catalog.add("+(real) -> real", kernel!(|a: f32| a));
    catalog.add("+(double precision) -> double precision", kernel!(|a: f64| a));
}

/// `& | # ~ << >>`. PostgreSQL shifts by the lowest bits of the distance, as the processor does.
fn bits(catalog: &mut Catalog) {
    catalog.add("&(smallint, smallint) -> smallint", kernel!(|a: i16, b: i16| a & b));
    catalog.add("&(integer, integer) -> integer", kernel!(|a: i32, b: i32| a & b));
    catalog.add("&(bigint, bigint) -> bigint", kernel!(|a: i64, b: i64| a & b));
    catalog.add("|(smallint, smallint) -> smallint", kernel!(|a: i16, b: i16| a | b));
    catalog.add("|(integer, integer) -> integer", kernel!(|a: i32, b: i32| a | b));
    catalog.add("|(bigint, bigint) -> bigint", kernel!(|a: i64, b: i64| a | b));
    catalog.add("#(smallint, smallint) -> smallint", kernel!(|a: i16, b: i16| a ^ b));
    catalog.add("#(integer, integer) -> integer", kernel!(|a: i32, b: i32| a ^ b));
    catalog.add("#(bigint, bigint) -> bigint", kernel!(|a: i64, b: i64| a ^ b));
    catalog.add("~(smallint) -> smallint", kernel!(|a: i16| !a));
    catalog.add("~(integer) -> integer", kernel!(|a: i32| !a));
    catalog.add("~(bigint) -> bigint", kernel!(|a: i64| !a));
    // A smallint is shifted as an integer and cut.
    catalog.add(
        "<<(smallint, integer) -> smallint",
        kernel!(|a: i16, b: i32| i32::from(a).wrapping_shl(b.cast_unsigned()) as i16),
    );
    catalog.add("<<(integer, integer) -> integer", kernel!(|a: i32, b: i32| a.wrapping_shl(b.cast_unsigned())));
    catalog.add("<<(bigint, integer) -> bigint", kernel!(|a: i64, b: i32| a.wrapping_shl(b.cast_unsigned())));
    catalog.add(
        ">>(smallint, integer) -> smallint",
        kernel!(|a: i16, b: i32| i32::from(a).wrapping_shr(b.cast_unsigned()) as i16),
    );
    catalog.add(">>(integer, integer) -> integer", kernel!(|a: i32, b: i32| a.wrapping_shr(b.cast_unsigned())));
    catalog.add(">>(bigint, integer) -> bigint", kernel!(|a: i64, b: i32| a.wrapping_shr(b.cast_unsigned())));
    catalog.add_all(
        &["@(smallint) -> smallint", "abs(smallint) -> smallint"],
        kernel!(try |a: i16| a.checked_abs().ok_or_else(|| out_of_range("smallint"))),
    );
    catalog.add_all(
        &["@(integer) -> integer", "abs(integer) -> integer"],
        kernel!(try |a: i32| a.checked_abs().ok_or_else(|| out_of_range("integer"))),
    );
    catalog.add_all(
        &["@(bigint) -> bigint", "abs(bigint) -> bigint"],
        kernel!(try |a: i64| a.checked_abs().ok_or_else(|| out_of_range("bigint"))),
    );
    catalog.add_all(&["@(real) -> real", "abs(real) -> real"], kernel!(|a: f32| a.abs()));
    catalog.add_all(
        &["@(double precision) -> double precision", "abs(double precision) -> double precision"],
        kernel!(|a: f64| a.abs()),
    );
    for signature in ["@(numeric) -> numeric", "abs(numeric) -> numeric"] {
        catalog.add(signature, kernel!(|a: Decimal| a.abs())).gives(|types, _| Ok(types[0].clone()));
    }
}

/// A `numeric` that holds the values of all the types.
pub(super) fn common(types: &[SqlType]) -> SqlType {
    let digits = types.iter().map(precision_scale);
    let (whole, scale) = digits.fold((0, 0), |(whole, scale), (p, s)| (whole.max(p - s), scale.max(s)));
    numeric_type(whole + scale, scale)
}

fn is_wide(sql_type: &SqlType) -> bool {
    precision_scale(sql_type).0 > NARROW_DIGITS
}

/// Whether a special operator compares.
fn is_comparison(special: Special) -> bool {
    matches!(
        special,
        Special::Equal
            | Special::NotEqual
            | Special::Less
            | Special::LessOrEqual
            | Special::Greater
            | Special::GreaterOrEqual
    )
}

/// Makes the arguments of an operator ones that Arrow's kernels take: floats of one width, decimals of one width, and
/// decimals of one scale where they are compared.
pub(super) fn fit(special: Special, types: &mut [SqlType]) {
    let [left, right] = types else { return };
    match (&*left, &*right) {
        (SqlType::Real, SqlType::Double) | (SqlType::Double, SqlType::Real) => {
            (*left, *right) = (SqlType::Double, SqlType::Double);
        }
        (SqlType::Numeric(_), SqlType::Numeric(_)) if is_comparison(special) => {
            let both = common(&[left.clone(), right.clone()]);
            (*left, *right) = (both.clone(), both);
        }
        (SqlType::Numeric(_), SqlType::Numeric(_)) => {
            let (precision, scale) = result_digits(special, left, right);
            // Two factors of many digits each are likely to fill them, and so is one that may have filled them
            // already; of others only the types say that they might.
            let (p1, p2) = (precision_scale(left).0, precision_scale(right).0);
            let fills = p1.min(p2) > FACTOR_DIGITS_MAX || p1.max(p2) >= NARROW_DIGITS;
            let needs_wide = precision > NARROW_DIGITS && (scale > NARROW_SCALE_MAX || fills);
            if needs_wide || is_wide(left) || is_wide(right) {
                (*left, *right) = (widened(left), widened(right));
            }
        }
        _ => {}
    }
}

/// Makes the arguments of an operator with a kernel floats of one width.
pub(super) fn fit_floats(operator: &str, types: &mut [SqlType]) {
    if let ("+" | "-" | "*" | "/", [left, right]) = (operator, types)
        && matches!((&*left, &*right), (SqlType::Real, SqlType::Double) | (SqlType::Double, SqlType::Real))
    {
        (*left, *right) = (SqlType::Double, SqlType::Double);
    }
}

fn widened(sql_type: &SqlType) -> SqlType {
    let (precision, scale) = precision_scale(sql_type);
    numeric_type(precision.max(NARROW_DIGITS + 1), scale)
}

/// The digits of a sum, a difference or a product.
fn result_digits(special: Special, left: &SqlType, right: &SqlType) -> (i32, i32) {
    let ((p1, s1), (p2, s2)) = (precision_scale(left), precision_scale(right));
    match special {
        Special::Multiply => (p1 + p2 + 1, s1 + s2),
        _ => ((p1 - s1).max(p2 - s2) + s1.max(s2) + 1, s1.max(s2)),
    }
}

/// The type of a sum, a difference or a product of decimals that [`fit`] has seen.
pub(super) fn numeric_result(special: Special, types: &[SqlType]) -> SqlType {
    match types {
        [left, right] => {
            let (precision, scale) = result_digits(special, left, right);
            match is_wide(left) || is_wide(right) {
                true => numeric_type(precision, scale),
                false => numeric_type(precision.min(NARROW_DIGITS), scale),
            }
        }
        [only] => only.clone(),
        _ => SqlType::NUMERIC,
    }
}

/// The kernel of an operator of decimals whose result Arrow's kernel does not hold.
pub(super) fn decimals_kernel(special: Special, call: &ScalarCall) -> Option<Kernel> {
    let [left, right] = &call.arguments[..] else { return None };
    if !matches!((left, right), (SqlType::Numeric(_), SqlType::Numeric(_))) {
        return None;
    }
    let (_, scale) = result_digits(special, left, right);
    if precision_scale(&call.returns).1 == scale {
        return None;
    }
    match special {
        Special::Multiply => {
            Some(|arguments, call| Columns::new(arguments, call).map(|(a, b): (Decimal, Decimal)| a.multiply(b)))
        }
        _ => None,
    }
}
