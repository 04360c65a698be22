//! Functions of integers and floats (manual, section 9.3); those of decimals are `numeric`'s.

use std::f64::consts::PI;

use diligence_base::Result;

use super::Body;
use super::catalog::Catalog;
use super::columns::{Columns, kernel};
use super::errors::{float_overflow, out_of_range, value_error};

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    rounding(catalog);
    powers(catalog);
    gammas(catalog);
    angles(catalog);
    integers(catalog);
}

fn rounding(catalog: &mut Catalog) {
    catalog.add_all(
        &["ceil(double precision) -> double precision", "ceiling(double precision) -> double precision"],
        kernel!(|a: f64| a.ceil()),
    );
    catalog.add("floor(double precision) -> double precision", kernel!(|a: f64| a.floor()));
    catalog.add("trunc(double precision) -> double precision", kernel!(|a: f64| a.trunc()));
    // PostgreSQL's rint: halves to even.
    catalog.add("round(double precision) -> double precision", kernel!(|a: f64| a.round_ties_even()));
    catalog.add(
        "sign(double precision) -> double precision",
        kernel!(|a: f64| if a > 0.0 {
            1.0
        } else if a < 0.0 {
            -1.0
        } else if a.is_nan() {
            a
        } else {
            0.0
        }),
    );
    catalog.add(
        "width_bucket(double precision, double precision, double precision, integer) -> integer",
        kernel!(try |value: f64, low: f64, high: f64, count: i32| width_bucket(value, low, high, count)),
    );
}

fn width_bucket(value: f64, low: f64, high: f64, count: i32) -> Result<i32> {
    let error = |message: &str| Err(value_error(message, "2201G"));
    if count <= 0 {
        return error("count must be greater than zero");
    }
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return error("operand, lower bound, and upper bound cannot be NaN");
    }
    if low.is_infinite() || high.is_infinite() {
        return error("lower and upper bounds must be finite");
    }
    if low == high {
        return error("lower bound cannot equal upper bound");
    }
    let over = || count.checked_add(1).ok_or_else(|| out_of_range("integer"));
    let buckets = f64::from(count);
    let place = match low < high {
        true if value < low => return Ok(0),
        true if value >= high => return over(),
        true => buckets * ((value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)),
        false if value > low => return Ok(0),
        false if value <= high => return over(),
        false => buckets * ((low / 2.0 - value / 2.0) / (low / 2.0 - high / 2.0)),
    };
    Ok((place as i32).min(count - 1) + 1)
}

/// The value, unless it became infinite from finite ones.
fn finite(value: f64, arguments: &[f64]) -> Result<f64> {
    match value.is_infinite() && arguments.iter().all(|argument| argument.is_finite()) {
        true => Err(float_overflow()),
        false => Ok(value),
    }
}

/// The value, unless it became infinite or zero from ones that are not.
fn not_underflown(value: f64, arguments: &[f64]) -> Result<f64> {
    match value == 0.0 && arguments.iter().all(|argument| argument.is_finite() && *argument != 0.0) {
        true => Err(value_error("value out of range: underflow", "22003")),
        false => finite(value, arguments),
    }
}

fn logarithm(value: f64, of: fn(f64) -> f64) -> Result<f64> {
    match value {
        0.0 => Err(value_error("cannot take logarithm of zero", "2201E")),
        value if value < 0.0 => Err(value_error("cannot take logarithm of a negative number", "2201E")),
        value => Ok(of(value)),
    }
}

fn power(base: f64, exponent: f64) -> Result<f64> {
    if base == 0.0 && exponent < 0.0 {
        return Err(value_error("zero raised to a negative power is undefined", "2201F"));
    }
    if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        return Err(value_error("a negative number raised to a non-integer power yields a complex result", "2201F"));
    }
    let value = base.powf(exponent);
    match value == 0.0 && base != 0.0 && base.is_finite() && exponent.is_finite() {
        true => Err(value_error("value out of range: underflow", "22003")),
        false => finite(value, &[base, exponent]),
    }
}

/// Whether the gamma function has a pole there: at zero, and at whole numbers below it.
fn is_pole(value: f64) -> bool {
    value <= 0.0 && value == value.floor()
}

fn gammas(catalog: &mut Catalog) {
    catalog.add(
        "gamma(double precision) -> double precision",
        kernel!(try |a: f64| match is_pole(a) {
            true => Err(float_overflow()),
            false => not_underflown(libm::tgamma(a), &[a]),
        }),
    );
    catalog.add(
        "lgamma(double precision) -> double precision",
        kernel!(try |a: f64| match a.is_finite() && is_pole(a) {
            true => Err(float_overflow()),
            false => finite(libm::lgamma(a), &[a]),
        }),
    );
}

fn powers(catalog: &mut Catalog) {
    catalog.add_all(
        &["sqrt(double precision) -> double precision", "|/(double precision) -> double precision"],
        kernel!(try |a: f64| match a < 0.0 {
            true => Err(value_error("cannot take square root of a negative number", "2201F")),
            false => Ok(a.sqrt()),
        }),
    );
    catalog.add_all(
        &["cbrt(double precision) -> double precision", "||/(double precision) -> double precision"],
        kernel!(|a: f64| a.cbrt()),
    );
    catalog.add(
        "exp(double precision) -> double precision",
        kernel!(try |a: f64| not_underflown(a.exp(), &[if a == 0.0 { 1.0 } else { a }])),
    );
    catalog.add("ln(double precision) -> double precision", kernel!(try |a: f64| logarithm(a, f64::ln)));
    catalog.add_all(&["log2(double precision) -> double precision"], kernel!(try |a: f64| logarithm(a, f64::log2)));
    catalog.add_all(
        &["log(double precision) -> double precision", "log10(double precision) -> double precision"],
        kernel!(try |a: f64| logarithm(a, f64::log10)),
    );
    catalog.add_all(
        &[
            "power(double precision, double precision) -> double precision",
            "pow(double precision, double precision) -> double precision",
            "^(double precision, double precision) -> double precision",
        ],
        kernel!(try |a: f64, b: f64| power(a, b)),
    );
}

/// A function of degrees that is exact where the angle has an exact value, as PostgreSQL's are.
fn exact_degrees(degrees: f64, of: fn(f64) -> f64, exact: &[(f64, f64)]) -> f64 {
    let turned = degrees % 360.0;
    match exact.iter().find(|(angle, _)| *angle == turned) {
        Some((_, value)) => *value,
        None => of(turned.to_radians()),
    }
}

const SINES: [(f64, f64); 17] = [
    (0.0, 0.0),
    (30.0, 0.5),
    (90.0, 1.0),
    (150.0, 0.5),
    (180.0, 0.0),
    (210.0, -0.5),
    (270.0, -1.0),
    (330.0, -0.5),
    (-30.0, -0.5),
    (-90.0, -1.0),
    (-150.0, -0.5),
    (-180.0, 0.0),
    (-210.0, 0.5),
    (-270.0, 1.0),
    (-330.0, 0.5),
    (360.0, 0.0),
    (-360.0, 0.0),
];
const COSINES: [(f64, f64); 17] = [
    (0.0, 1.0),
    (60.0, 0.5),
    (90.0, 0.0),
    (120.0, -0.5),
    (180.0, -1.0),
    (240.0, -0.5),
    (270.0, 0.0),
    (300.0, 0.5),
    (-60.0, 0.5),
    (-90.0, 0.0),
    (-120.0, -0.5),
    (-180.0, -1.0),
    (-240.0, -0.5),
    (-270.0, 0.0),
    (-300.0, 0.5),
    (360.0, 1.0),
    (-360.0, 1.0),
];
const TANGENTS: [(f64, f64); 15] = [
    (0.0, 0.0),
    (45.0, 1.0),
    (90.0, f64::INFINITY),
    (135.0, -1.0),
    (180.0, 0.0),
    (225.0, 1.0),
    (270.0, f64::NEG_INFINITY),
    (315.0, -1.0),
    (-45.0, -1.0),
    (-90.0, f64::NEG_INFINITY),
    (-135.0, 1.0),
    (-180.0, 0.0),
    (-225.0, -1.0),
    (-270.0, f64::INFINITY),
    (-315.0, 1.0),
];

/// An inverse in degrees, exact where it has a whole number of them.
fn inverse_degrees(value: f64) -> f64 {
    let degrees = value.to_degrees();
    let whole = degrees.round();
    if (degrees - whole).abs() < 1e-12 { whole } else { degrees }
}

fn within(value: f64, low: f64, high: f64) -> Result<f64> {
    match value < low || value > high {
        true => Err(value_error("input is out of range", "22003")),
        false => Ok(value),
    }
}

fn bounded(value: f64) -> Result<f64> {
    within(value, -1.0, 1.0)
}

fn not_infinite(value: f64) -> Result<f64> {
    match value.is_infinite() {
        true => Err(value_error("input is out of range", "22003")),
        false => Ok(value),
    }
}

fn angles(catalog: &mut Catalog) {
    catalog.add(
        "pi() -> double precision",
        Body::Kernel(|arguments, call| {
            Columns::new(arguments, call).result(std::sync::Arc::new(arrow::array::Float64Array::from(vec![PI])))
        }),
    );
    catalog.add("degrees(double precision) -> double precision", kernel!(try |a: f64| finite(a.to_degrees(), &[a])));
    catalog.add("radians(double precision) -> double precision", kernel!(|a: f64| a.to_radians()));
    catalog.add("sin(double precision) -> double precision", kernel!(try |a: f64| Ok(not_infinite(a)?.sin())));
    catalog.add("cos(double precision) -> double precision", kernel!(try |a: f64| Ok(not_infinite(a)?.cos())));
    catalog.add("tan(double precision) -> double precision", kernel!(try |a: f64| Ok(not_infinite(a)?.tan())));
    catalog.add("cot(double precision) -> double precision", kernel!(try |a: f64| Ok(1.0 / not_infinite(a)?.tan())));
    catalog.add("asin(double precision) -> double precision", kernel!(try |a: f64| Ok(bounded(a)?.asin())));
    catalog.add("acos(double precision) -> double precision", kernel!(try |a: f64| Ok(bounded(a)?.acos())));
    catalog.add("atan(double precision) -> double precision", kernel!(|a: f64| a.atan()));
    catalog.add("atan2(double precision, double precision) -> double precision", kernel!(|a: f64, b: f64| a.atan2(b)));
    catalog.add(
        "sind(double precision) -> double precision",
        kernel!(try |a: f64| Ok(exact_degrees(not_infinite(a)?, f64::sin, &SINES))),
    );
    catalog.add(
        "cosd(double precision) -> double precision",
        kernel!(try |a: f64| Ok(exact_degrees(not_infinite(a)?, f64::cos, &COSINES))),
    );
    catalog.add(
        "tand(double precision) -> double precision",
        kernel!(try |a: f64| Ok(exact_degrees(not_infinite(a)?, f64::tan, &TANGENTS))),
    );
    catalog.add(
        "cotd(double precision) -> double precision",
        kernel!(try |a: f64| Ok(exact_degrees(90.0 - not_infinite(a)?, f64::tan, &TANGENTS))),
    );
    catalog.add(
        "asind(double precision) -> double precision",
        kernel!(try |a: f64| Ok(inverse_degrees(bounded(a)?.asin()))),
    );
    catalog.add(
        "acosd(double precision) -> double precision",
        kernel!(try |a: f64| Ok(inverse_degrees(bounded(a)?.acos()))),
    );
    catalog.add("atand(double precision) -> double precision", kernel!(|a: f64| inverse_degrees(a.atan())));
    catalog.add(
        "atan2d(double precision, double precision) -> double precision",
        kernel!(|a: f64, b: f64| inverse_degrees(a.atan2(b))),
    );
    catalog.add("sinh(double precision) -> double precision", kernel!(|a: f64| a.sinh()));
    catalog.add("cosh(double precision) -> double precision", kernel!(|a: f64| a.cosh()));
    catalog.add("tanh(double precision) -> double precision", kernel!(|a: f64| a.tanh()));
    catalog.add("asinh(double precision) -> double precision", kernel!(|a: f64| a.asinh()));
    catalog.add(
        "acosh(double precision) -> double precision",
        kernel!(try |a: f64| Ok(within(a, 1.0, f64::INFINITY)?.acosh())),
    );
    catalog.add("atanh(double precision) -> double precision", kernel!(try |a: f64| Ok(bounded(a)?.atanh())));
}

/// The greatest common divisor, without a sign.
pub(super) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn gcd_of(a: i64, b: i64) -> i128 {
    let divisor = gcd(u128::from(a.unsigned_abs()), u128::from(b.unsigned_abs()));
    i128::try_from(divisor).unwrap_or(i128::MAX)
}

fn lcm_of(a: i64, b: i64) -> i128 {
    if a == 0 || b == 0 {
        return 0;
    }
    (i128::from(a) / gcd_of(a, b) * i128::from(b)).abs()
}

fn integers(catalog: &mut Catalog) {
    catalog.add(
        "gcd(integer, integer) -> integer",
        kernel!(try |a: i32, b: i32| i32::try_from(gcd_of(a.into(), b.into())).map_err(|_| out_of_range("integer"))),
    );
    catalog.add(
        "gcd(bigint, bigint) -> bigint",
        kernel!(try |a: i64, b: i64| i64::try_from(gcd_of(a, b)).map_err(|_| out_of_range("bigint"))),
    );
    catalog.add(
        "lcm(integer, integer) -> integer",
        kernel!(try |a: i32, b: i32| i32::try_from(lcm_of(a.into(), b.into())).map_err(|_| out_of_range("integer"))),
    );
    catalog.add(
        "lcm(bigint, bigint) -> bigint",
        kernel!(try |a: i64, b: i64| i64::try_from(lcm_of(a, b)).map_err(|_| out_of_range("bigint"))),
    );
    catalog.add("to_hex(integer) -> text", kernel!(|a: i32| format!("{a:x}")));
    catalog.add("to_hex(bigint) -> text", kernel!(|a: i64| format!("{a:x}")));
}
