//! The text form of booleans, integers, oids and floats.

use std::fmt::Write;

use diligence_base::{Error, Result};

use super::{errors, trim};

/// Reads a boolean: `true`, `yes`, `on`, `1` and their opposites, or an unambiguous beginning of them.
pub(crate) fn parse_boolean(text: &str) -> Result<bool> {
    let word = trim(text);
    let begins = |whole: &str, least: usize| {
        word.len() >= least && word.len() <= whole.len() && whole[..word.len()].eq_ignore_ascii_case(word)
    };
    // Slices of `whole` are safe: the words are ASCII.
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || word == "1" {
        Ok(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
        Ok(false)
    } else {
        Err(errors::syntax("boolean", text))
    }
}

/// Reads an integer between two bounds. The name is the type's.
pub(crate) fn parse_integer(text: &str, least: i64, most: i64, name: &str) -> Result<i64> {
    let trimmed = trim(text);
    let (negative, digits) = match trimmed.as_bytes() {
        [b'-', ..] => (true, &trimmed[1..]),
        [b'+', ..] => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(errors::syntax(name, text));
    }
    let mut value = 0_i64;
    for digit in digits.bytes() {
        // Built from below zero, where there is room for one value more.
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_sub(i64::from(digit - b'0')))
            .ok_or_else(|| errors::number_out_of_range(name, text))?;
    }
    let value = if negative { Some(value) } else { value.checked_neg() };
    value.filter(|value| (least..=most).contains(value)).ok_or_else(|| errors::number_out_of_range(name, text))
}

/// Reads an oid: 32 bits without a sign; negative numbers count from the end.
pub(crate) fn parse_oid(text: &str) -> Result<i64> {
    let value = parse_integer(text, i64::from(i32::MIN), i64::from(u32::MAX), "oid")?;
    Ok(if value < 0 { value + (1 << 32) } else { value })
}

/// Reads an oid type's text: a number. Names are the catalog's to know.
pub(crate) fn parse_oid_text(text: &str, name: &str) -> Result<i64> {
    match parse_oid(text) {
        Err(_) if name != "oid" && trim(text) == "-" => Ok(0),
        Err(_) if name != "oid" && !trim(text).bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(Error::input(format!("\"{}\" cannot be looked up as {name} here", trim(text))).with_code("0A000"))
        }
        other => other,
    }
}

/// Reads a `double precision`.
pub(crate) fn parse_double(text: &str) -> Result<f64> {
    let trimmed = trim(text);
    let value: f64 = trimmed.parse().map_err(|_| errors::syntax("double precision", text))?;
    match is_beyond(trimmed, value.is_infinite(), value == 0.0) {
        true => Err(float_out_of_range("double precision", text)),
        false => Ok(value),
    }
}

/// Reads a `real`.
pub(crate) fn parse_real(text: &str) -> Result<f32> {
    let trimmed = trim(text);
    let value: f32 = trimmed.parse().map_err(|_| errors::syntax("real", text))?;
    match is_beyond(trimmed, value.is_infinite(), value == 0.0) {
        true => Err(float_out_of_range("real", text)),
        false => Ok(value),
    }
}

fn float_out_of_range(name: &str, text: &str) -> Error {
    Error::input(format!("\"{}\" is out of range for type {name}", trim(text))).with_code("22003")
}

/// Whether digits became an infinity, or digits that are not all zero became zero.
fn is_beyond(text: &str, is_infinite: bool, is_zero: bool) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    (is_infinite && text.bytes().any(|byte| byte.is_ascii_digit()))
        || (is_zero && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9')))
}

/// Writes a `double precision` with the fewest digits that tell it from all others.
pub(crate) fn write_double(out: &mut String, value: f64) {
    if let Some(word) = not_a_number(value) {
        out.push_str(word);
        return;
    }
    let mut shortest = format!("{value:e}");
    let mut digits = shortest.bytes().filter(u8::is_ascii_digit).count();
    // A decimal half-way between two floats rounds to the even one, but PostgreSQL does not trust readers with that.
    while digits < 17 && is_midpoint(&shortest, value) {
        shortest = format!("{value:.digits$e}");
        digits += 1;
    }
    write_scientific(out, &shortest, 15);
}

/// Writes a `real` with the fewest digits that tell it from all others.
pub(crate) fn write_real(out: &mut String, value: f32) {
    match not_a_number(f64::from(value)) {
        Some(word) => out.push_str(word),
        None => write_scientific(out, &format!("{value:e}"), 6),
    }
}

/// The word for values that have no digits.
fn not_a_number(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

/// Writes `-1.25e-7` as C's `%g` does: with an exponent below 10^-4 and from 10^`limit` on.
fn write_scientific(out: &mut String, scientific: &str, limit: i32) {
    let (mantissa, exponent) = scientific.split_once('e').expect("Rust's format has an exponent");
    let exponent: i32 = exponent.parse().expect("Rust's exponents are integers");
    let mantissa = match mantissa.strip_prefix('-') {
        Some(rest) => {
            out.push('-');
            rest
        }
        None => mantissa,
    };
    if !(-4..limit).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
        return;
    }
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).map(char::from);
    let point = usize::try_from(exponent + 1).unwrap_or(0);
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', exponent.unsigned_abs() as usize - 1));
    }
    let mut written = 0;
    for digit in digits {
        if written == point && exponent >= 0 {
            out.push('.');
        }
        out.push(digit);
        written += 1;
    }
    out.extend(std::iter::repeat_n('0', point.saturating_sub(written)));
}

/// Whether a decimal lies exactly between the float and one of its neighbors.
fn is_midpoint(scientific: &str, value: f64) -> bool {
    let bits = value.abs().to_bits();
    let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52) as i32);
    let (mantissa, power) = if exponent == 0 { (fraction, -1074) } else { (fraction | (1 << 52), exponent - 1075) };
    let Some((digits, tens)) = scientific.split_once('e') else { return false };
    let behind = digits.split_once('.').map_or(0, |(_, behind)| behind.len() as i32);
    let Ok(tens) = tens.parse::<i32>().map(|tens| tens - behind) else { return false };
    let number =
        digits.bytes().filter(u8::is_ascii_digit).fold(0_u128, |sum, digit| sum * 10 + u128::from(digit - b'0'));
    if number == 0 || !(-27..=27).contains(&tens) {
        return false;
    }
    // number * 10^tens = (2 * mantissa +- 1) * 2^(power - 1), with all powers of two on one side.
    let five = 5_u128.pow(tens.unsigned_abs());
    let twos = number.trailing_zeros() as i32;
    let odd = number >> twos;
    [2 * u128::from(mantissa) + 1, 2 * u128::from(mantissa) - 1].into_iter().any(|middle| {
        let (left, right) =
            if tens >= 0 { (odd.checked_mul(five), Some(middle)) } else { (Some(odd), middle.checked_mul(five)) };
        left.is_some() && left == right && twos + tens == power - 1
    })
}

/// Writes a `double precision` with that many significant digits, as C's `%.15g` does, for `numeric`.
pub(crate) fn write_significant(out: &mut String, value: f64, digits: usize) {
    let _ = write!(out, "{value:.*e}", digits - 1);
}
