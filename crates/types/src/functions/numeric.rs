//! Functions of decimals (manual, section 9.3).
//!
//! Where PostgreSQL computes to a number of digits that it chooses, the same number is chosen here: each function names
//! PostgreSQL's in `numeric.c`. Trailing zeros aside: a value whose scale is its own is shown without them.

use diligence_base::Result;
use num_bigint::BigInt;

use super::Body;
use super::arithmetic::common;
use super::catalog::Catalog;
use super::columns::kernel;
use super::decimal::{
    Decimal, SIGNIFICANT_DIGITS_MIN, division_by_zero, numeric_type, of_big, overflow, precision_scale,
};
use super::errors::{out_of_range, value_error};
use super::precise;
use crate::SqlType;

/// Digits behind the point that a result has at most.
const SCALE_MAX: i32 = 38;
/// log10(e).
const LOG_E: f64 = std::f64::consts::LOG10_E;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    rounding(catalog);
    digits(catalog);
    powers(catalog);
    divisors(catalog);
    moments(catalog);
}

/// A whole number of as many digits as the argument has in front of the point, and one for rounding up.
fn whole(types: &[SqlType], _literals: &[Option<String>]) -> Result<SqlType> {
    let (precision, scale) = precision_scale(&types[0]);
    Ok(match types[0] {
        SqlType::Numeric(Some(_)) => numeric_type(precision - scale + 1, 0),
        _ => SqlType::NUMERIC,
    })
}

/// As many digits behind the point as a literal says.
fn to_scale(types: &[SqlType], literals: &[Option<String>]) -> Result<SqlType> {
    let wanted = literals.get(1).and_then(|literal| literal.as_ref()?.trim().parse::<i32>().ok());
    let (precision, scale) = precision_scale(&types[0]);
    Ok(match (&types[0], wanted) {
        (SqlType::Numeric(Some(_)), Some(wanted)) => {
            let wanted = wanted.clamp(0, SCALE_MAX);
            numeric_type(precision - scale + 1 + wanted, wanted)
        }
        (SqlType::Numeric(None), Some(wanted)) if (0..SCALE_MAX).contains(&wanted) => {
            numeric_type(precision - 1, wanted)
        }
        _ => SqlType::NUMERIC,
    })
}

fn toward(value: Decimal, is_up: bool) -> Result<Decimal> {
    let cut = value.truncated(0);
    match (cut == value, is_up, value.is_negative()) {
        (false, true, false) => cut.add(Decimal::integer(1)),
        (false, false, true) => cut.subtract(Decimal::integer(1)),
        _ => Ok(cut),
    }
}

fn rounding(catalog: &mut Catalog) {
    for signature in ["ceil(numeric) -> numeric", "ceiling(numeric) -> numeric"] {
        catalog.add(signature, kernel!(try |a: Decimal| toward(a, true))).gives(whole);
    }
    catalog.add("floor(numeric) -> numeric", kernel!(try |a: Decimal| toward(a, false))).gives(whole);
    catalog.add("round(numeric) -> numeric", kernel!(|a: Decimal| a.rounded(0))).gives(whole);
    catalog.add("trunc(numeric) -> numeric", kernel!(|a: Decimal| a.truncated(0))).gives(whole);
    catalog
        .add(
            "round(numeric, integer) -> numeric",
            kernel!(|a: Decimal, digits: i32| a.rounded(digits.clamp(-100, SCALE_MAX))),
        )
        .gives(to_scale);
    catalog
        .add(
            "trunc(numeric, integer) -> numeric",
            kernel!(|a: Decimal, digits: i32| a.truncated(digits.clamp(-100, SCALE_MAX))),
        )
        .gives(to_scale);
    catalog
        .add("sign(numeric) -> numeric", kernel!(|a: Decimal| Decimal::integer(a.value.signum().as_i128())))
        .gives(|_, _| Ok(SqlType::decimal(1, 0)));
    catalog.add(
        "width_bucket(numeric, numeric, numeric, integer) -> integer",
        kernel!(try |value: Decimal, low: Decimal, high: Decimal, count: i32| width_bucket(value, low, high, count)),
    );
}

fn width_bucket(value: Decimal, low: Decimal, high: Decimal, count: i32) -> Result<i32> {
    if count <= 0 {
        return Err(value_error("count must be greater than zero", "2201G"));
    }
    if low == high {
        return Err(value_error("lower bound cannot equal upper bound", "2201G"));
    }
    let is_rising = low < high;
    let (before, after) = if is_rising { (value < low, value >= high) } else { (value > low, value <= high) };
    if before {
        return Ok(0);
    }
    if after {
        return count.checked_add(1).ok_or_else(|| out_of_range("integer"));
    }
    let (from_low, width) = match is_rising {
        true => (value.subtract(low)?, high.subtract(low)?),
        false => (low.subtract(value)?, low.subtract(high)?),
    };
    let bucket = from_low.multiply(Decimal::integer(count))?.divide_at(width, 0, false)?;
    let bucket = bucket.to_integer().and_then(|bucket| i32::try_from(bucket).ok());
    Ok(bucket.unwrap_or(count - 1).min(count - 1) + 1)
}

fn digits(catalog: &mut Catalog) {
    catalog.add("scale(numeric) -> integer", kernel!(of call; |a: Decimal| Ok(a.shown_scale(&call.arguments[0]))));
    catalog.add("min_scale(numeric) -> integer", kernel!(|a: Decimal| a.normalized().scale));
    catalog.add("trim_scale(numeric) -> numeric", kernel!(|a: Decimal| a.normalized()));
    catalog
        .add("div(numeric, numeric) -> numeric", kernel!(try |a: Decimal, b: Decimal| a.divide_at(b, 0, false)))
        .gives(|types, _| {
            let ((p1, s1), (_, s2)) = (precision_scale(&types[0]), precision_scale(&types[1]));
            Ok(match types[0] {
                SqlType::Numeric(Some(_)) if p1 - s1 + s2 <= SCALE_MAX => numeric_type(p1 - s1 + s2, 0),
                _ => SqlType::NUMERIC,
            })
        });
    catalog
        .add("factorial(bigint) -> numeric", kernel!(try |a: i64| factorial(a)))
        .gives(|_, _| Ok(numeric_type(76, 0)));
}

fn factorial(value: i64) -> Result<Decimal> {
    if value < 0 {
        return Err(value_error("factorial of a negative number is undefined", "22003"));
    }
    if value > 100 {
        return Err(overflow());
    }
    (2..=value).try_fold(Decimal::integer(1), |product, factor| product.multiply(Decimal::integer(factor)))
}

/// A function of one argument that is computed to a scale which depends on it.
fn computed(value: Decimal, scale: i32, of: impl Fn(&BigInt, u32) -> BigInt) -> Result<Decimal> {
    let scale = scale.clamp(0, SCALE_MAX);
    // The argument has as many digits as it brings, at most 38 behind the point.
    let digits = scale.max(value.scale).unsigned_abs();
    let result = of(&value.to_big(scale.max(value.scale)), digits);
    of_big(&result, scale.max(value.scale), scale)
}

/// `sqrt_var` as `numeric_sqrt` calls it.
fn sqrt(value: Decimal) -> Result<Decimal> {
    if value.is_negative() {
        return Err(value_error("cannot take square root of a negative number", "2201F"));
    }
    let weight = (value.weight() + 1) * 2 - 1;
    computed(value, (SIGNIFICANT_DIGITS_MIN - weight).max(value.scale), precise::sqrt)
}

/// `numeric_exp`.
fn exp(value: Decimal) -> Result<Decimal> {
    let weight = value.to_f64() * LOG_E;
    if weight > 39.0 {
        return Err(overflow());
    }
    if weight < -1000.0 {
        return Ok(Decimal::ZERO);
    }
    computed(value, (SIGNIFICANT_DIGITS_MIN - weight as i32).max(value.scale), precise::exp)
}

fn has_logarithm(value: Decimal) -> Result<()> {
    if value.is_zero() {
        return Err(value_error("cannot take logarithm of zero", "2201E"));
    }
    if value.is_negative() {
        return Err(value_error("cannot take logarithm of a negative number", "2201E"));
    }
    Ok(())
}

/// `estimate_ln_dweight`: the decimal weight of a logarithm.
fn log_weight(value: Decimal) -> i32 {
    let near = value.to_f64();
    if (0.9..=1.1).contains(&near) {
        let Ok(rest) = value.subtract(Decimal::integer(1)) else { return 0 };
        let rest = rest.abs();
        return if rest.is_zero() { 0 } else { rest.digits() - 1 - rest.scale };
    }
    let log = near.ln().abs();
    log.log10() as i32
}

/// `numeric_ln`.
fn ln(value: Decimal) -> Result<Decimal> {
    has_logarithm(value)?;
    computed(value, (SIGNIFICANT_DIGITS_MIN - log_weight(value)).max(value.scale), precise::ln)
}

/// `log_var`.
fn log(base: Decimal, value: Decimal) -> Result<Decimal> {
    has_logarithm(base)?;
    has_logarithm(value)?;
    if base == Decimal::integer(1) {
        return Err(division_by_zero());
    }
    let weight = log_weight(value) - log_weight(base);
    let scale = (SIGNIFICANT_DIGITS_MIN - weight).max(base.scale).max(value.scale).clamp(0, SCALE_MAX);
    let work = scale.max(base.scale).max(value.scale);
    let result = precise::log(&base.to_big(work), &value.to_big(work), work.unsigned_abs());
    of_big(&result, work, scale)
}

/// `numeric_power`.
fn power(base: Decimal, exponent: Decimal) -> Result<Decimal> {
    if base.is_zero() && exponent.is_negative() {
        return Err(value_error("zero raised to a negative power is undefined", "2201F"));
    }
    if let Some(whole) = exponent.to_integer().and_then(|whole| i32::try_from(whole).ok()) {
        let scale = SIGNIFICANT_DIGITS_MIN.max(base.scale).min(SCALE_MAX);
        return power_of_integer(base, whole, scale);
    }
    if base.is_negative() {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(value_error(message, "2201F"));
    }
    if base.is_zero() {
        return Ok(Decimal::ZERO);
    }
    let weight = base.to_f64().ln() * exponent.to_f64() * LOG_E;
    if weight > 39.0 {
        return Err(overflow());
    }
    if weight < -1000.0 {
        return Ok(Decimal::ZERO);
    }
    let scale = (SIGNIFICANT_DIGITS_MIN - weight as i32).max(base.scale).max(exponent.scale).clamp(0, SCALE_MAX);
    let work = scale.max(base.scale).max(exponent.scale);
    let result = precise::power(&base.to_big(work), &exponent.to_big(work), work.unsigned_abs());
    of_big(&result, work, scale)
}

/// `power_var_int`.
fn power_of_integer(base: Decimal, exponent: i32, scale: i32) -> Result<Decimal> {
    if exponent == 0 {
        return Ok(Decimal::integer(1));
    }
    if base.is_zero() {
        return Ok(Decimal::ZERO);
    }
    let weight = base.abs().to_f64().log10() * f64::from(exponent);
    if weight > 39.0 {
        return Err(overflow());
    }
    if weight < -f64::from(scale) - 1.0 {
        return Ok(Decimal::ZERO);
    }
    let base = base.normalized();
    let magnitude = exponent.unsigned_abs();
    let is_exact = magnitude.saturating_mul(base.scale.unsigned_abs().max(1)) <= 4096;
    let (is_odd, base_abs) = (magnitude % 2 == 1, base.abs());
    let result = if is_exact {
        let power = super::decimal::big(base_abs.value).pow(magnitude);
        let digits = magnitude * base.scale.unsigned_abs();
        let ten = BigInt::from(10);
        let wanted = ten.pow(scale.unsigned_abs());
        match exponent > 0 {
            true => super::decimal::divided_big(&(power * wanted), &ten.pow(digits), true),
            false => super::decimal::divided_big(&(wanted * ten.pow(digits)), &power, true),
        }
    } else {
        // A power close to 1: by logarithms, to more digits than are kept.
        let work = scale.max(base.scale) + 20;
        let result = precise::power(
            &base_abs.to_big(work),
            &(BigInt::from(exponent) * BigInt::from(10).pow(work.unsigned_abs())),
            work.unsigned_abs(),
        );
        super::decimal::divided_big(&result, &BigInt::from(10).pow((work - scale).unsigned_abs()), true)
    };
    let result = of_big(&result, scale, scale)?;
    Ok(if is_odd && base.is_negative() { result.negated() } else { result })
}

fn powers(catalog: &mut Catalog) {
    // Digits behind the point count as they are shown.
    catalog.add("sqrt(numeric) -> numeric", kernel!(of call; |a: Decimal| sqrt(a.shown(&call.arguments[0]))));
    catalog.add("exp(numeric) -> numeric", kernel!(of call; |a: Decimal| exp(a.shown(&call.arguments[0]))));
    catalog.add("ln(numeric) -> numeric", kernel!(of call; |a: Decimal| ln(a.shown(&call.arguments[0]))));
    for signature in ["log(numeric) -> numeric", "log10(numeric) -> numeric"] {
        catalog.add(signature, kernel!(of call; |a: Decimal| log(Decimal::integer(10), a.shown(&call.arguments[0]))));
    }
    catalog.add(
        "log(numeric, numeric) -> numeric",
        kernel!(of call; |a: Decimal, b: Decimal| log(a.shown(&call.arguments[0]), b.shown(&call.arguments[1]))),
    );
    catalog.add_all(
        &["power(numeric, numeric) -> numeric", "pow(numeric, numeric) -> numeric", "^(numeric, numeric) -> numeric"],
        kernel!(of call; |a: Decimal, b: Decimal| power(a.shown(&call.arguments[0]), b.shown(&call.arguments[1]))),
    );
}

fn divisors(catalog: &mut Catalog) {
    catalog
        .add("gcd(numeric, numeric) -> numeric", kernel!(try |a: Decimal, b: Decimal| gcd(a, b)))
        .gives(|types, _| Ok(common(types)));
    catalog.add("lcm(numeric, numeric) -> numeric", kernel!(try |a: Decimal, b: Decimal| lcm(a, b)));
}

fn gcd(mut a: Decimal, mut b: Decimal) -> Result<Decimal> {
    while !b.is_zero() {
        (a, b) = (b, a.remainder(b)?);
    }
    Ok(a.abs())
}

fn lcm(a: Decimal, b: Decimal) -> Result<Decimal> {
    if a.is_zero() || b.is_zero() {
        return Ok(Decimal::ZERO);
    }
    let scale = a.scale.max(b.scale);
    Ok(a.divide_at(gcd(a, b)?, scale, false)?.multiply(b)?.abs())
}

/// What becomes of a count, a sum and a sum of squares: variances and standard deviations of integers and decimals,
/// which the binder computes from these (`numeric_stddev_internal`). And the division of `avg`.
fn moments(catalog: &mut Catalog) {
    for (signature, is_sample, is_root) in [
        ("numeric_var_samp(bigint, numeric, numeric) -> numeric", true, false),
        ("numeric_var_pop(bigint, numeric, numeric) -> numeric", false, false),
        ("numeric_stddev_samp(bigint, numeric, numeric) -> numeric", true, true),
        ("numeric_stddev_pop(bigint, numeric, numeric) -> numeric", false, true),
    ] {
        let body: Body = match (is_sample, is_root) {
            (true, false) => kernel!(try |n: i64, sum: Decimal, squares: Decimal| moment(n, sum, squares, true, false)),
            (false, false) => {
                kernel!(try |n: i64, sum: Decimal, squares: Decimal| moment(n, sum, squares, false, false))
            }
            (true, true) => kernel!(try |n: i64, sum: Decimal, squares: Decimal| moment(n, sum, squares, true, true)),
            (false, true) => kernel!(try |n: i64, sum: Decimal, squares: Decimal| moment(n, sum, squares, false, true)),
        };
        catalog.add(signature, body);
    }
}

/// The variance, or its root, of so many values with this sum and sum of squares; `None` of too few values. Fails with
/// 22003 if there are too many digits.
pub(super) fn moment(
    count: i64,
    sum: Decimal,
    squares: Decimal,
    is_sample: bool,
    is_root: bool,
) -> Result<Option<Decimal>> {
    if count < 1 || (is_sample && count < 2) {
        return Ok(None);
    }
    let count = Decimal::integer(count);
    // N * sum(x * x) - sum(x) * sum(x), exactly.
    let spread = squares.multiply(count)?.subtract(sum.multiply(sum)?)?;
    if spread.is_negative() || spread.is_zero() {
        return Ok(Some(Decimal::ZERO));
    }
    let others = if is_sample { count.subtract(Decimal::integer(1))? } else { count };
    let variance = spread.divide(count.multiply(others)?)?;
    match is_root {
        true => computed(variance, variance.scale, precise::sqrt).map(Some),
        false => Ok(Some(variance)),
    }
}
