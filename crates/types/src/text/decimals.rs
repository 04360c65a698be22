//! The text form of `numeric`, and what decimals of 128 and 256 bits need besides Arrow's arithmetic.

use std::fmt::Write;
use std::sync::LazyLock;

use arrow::datatypes::i256;
use diligence_base::{Error, Result};

use super::{errors, trim};
use crate::SqlType;
use crate::sql_type::{NUMERIC_PRECISION, NUMERIC_SCALE};

static POWERS: LazyLock<[i256; 77]> = LazyLock::new(|| {
    let mut powers = [i256::ONE; 77];
    for exponent in 1..powers.len() {
        powers[exponent] = powers[exponent - 1].wrapping_mul(i256::from_i128(10));
    }
    powers
});

/// 10 to the power of an exponent of at most 76.
pub fn power_of_ten(exponent: usize) -> i256 {
    POWERS[exponent]
}

/// A decimal with another number of digits behind the point, rounded half away from zero. `None` if 256 bits are too
/// few.
pub fn rescale(value: i256, from: i8, to: i8) -> Option<i256> {
    let shift = i32::from(to) - i32::from(from);
    let digits = shift.unsigned_abs() as usize;
    if shift >= 0 {
        return match digits {
            0 => Some(value),
            1..=76 => value.checked_mul(power_of_ten(digits)),
            _ => (value == i256::ZERO).then_some(value),
        };
    }
    if digits > 76 {
        return Some(i256::ZERO);
    }
    let power = power_of_ten(digits);
    let (quotient, rest) = (value.wrapping_div(power), value.wrapping_rem(power));
    // The half of a power of ten is exact.
    let half = power.wrapping_div(i256::from_i128(2));
    Some(if rest.wrapping_abs() >= half { quotient.wrapping_add(value.signum_of()) } else { quotient })
}

/// As [`rescale`], of decimals of 128 bits.
pub fn rescale_narrow(value: i128, from: i8, to: i8) -> Option<i128> {
    let shift = i32::from(to) - i32::from(from);
    let digits = shift.unsigned_abs();
    let Some(power) = 10_i128.checked_pow(digits) else {
        // Any number of 128 bits is below a half of 10^39.
        return (shift < 0 || value == 0).then_some(0);
    };
    if shift >= 0 {
        return value.checked_mul(power);
    }
    let (quotient, rest) = (value / power, value % power);
    Some(if rest.unsigned_abs() >= power.unsigned_abs() / 2 { quotient + value.signum() } else { quotient })
}

/// The sign of a wide number.
trait Sign {
    fn signum_of(self) -> Self;
}

impl Sign for i256 {
    fn signum_of(self) -> Self {
        if self < i256::ZERO { i256::MINUS_ONE } else { i256::ONE }
    }
}

/// Whether a number has at most so many digits.
pub fn fits(value: i256, precision: u8) -> bool {
    let limit = power_of_ten(usize::from(precision));
    value < limit && value > limit.wrapping_neg()
}

/// A number as it is written: the digits and where the point stands.
struct Written<'a> {
    negative: bool,
    integer: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Written<'a> {
    /// The parts of a number. `None` if it is none.
    fn of(text: &'a str) -> Option<Self> {
        let bytes = trim(text).as_bytes();
        let (negative, bytes) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, bytes),
        };
        let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (integer, rest) = bytes.split_at(digits(bytes));
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => rest.split_at(digits(rest)),
            _ => (&rest[..0], rest),
        };
        if integer.is_empty() && fraction.is_empty() {
            return None;
        }
        let exponent = match rest {
            [] => 0,
            [b'e' | b'E', rest @ ..] => {
                let (negative, rest) = match rest {
                    [b'-', rest @ ..] => (true, rest),
                    [b'+', rest @ ..] => (false, rest),
                    _ => (false, rest),
                };
                if rest.is_empty() || digits(rest) != rest.len() {
                    return None;
                }
                let value = rest.iter().fold(0_i64, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(1 << 30));
                if negative { -value } else { value }
            }
            _ => return None,
        };
        let zeros = integer.iter().take_while(|digit| **digit == b'0').count();
        Some(Self { negative, integer: &integer[zeros..], fraction, exponent })
    }

    /// The number of digits before the point, without zeros in front; negative if zeros follow the point.
    fn integer_digits(&self) -> i64 {
        match self.integer.len() {
            0 => {
                let zeros = self.fraction.iter().take_while(|digit| **digit == b'0').count();
                if zeros == self.fraction.len() { i64::MIN / 2 } else { self.exponent - zeros as i64 }
            }
            digits => digits as i64 + self.exponent,
        }
    }

    /// The digits behind the point.
    fn scale(&self) -> i64 {
        (self.fraction.len() as i64 - self.exponent).max(0)
    }

    /// The number with `scale` digits behind the point, rounded half away from zero. `None` if it has more than 76.
    fn unscaled(&self, scale: i8) -> Option<i256> {
        let shift = i64::from(scale) + self.exponent - self.fraction.len() as i64;
        let count = (self.integer.len() + self.fraction.len()) as i64;
        let kept = if shift < 0 { (count + shift).max(0) } else { count } as usize;
        let mut digits = self.integer.iter().chain(self.fraction).map(|digit| digit - b'0');
        let mut value = i256::ZERO;
        let mut left = kept;
        while left > 0 {
            // Nineteen digits at a time: those fit into 64 bits.
            let block = left.min(19);
            let part = digits.by_ref().take(block).fold(0_u64, |sum, digit| sum * 10 + u64::from(digit));
            value = match value == i256::ZERO {
                true => i256::from_i128(i128::from(part)),
                false => value.checked_mul(power_of_ten(block))?.checked_add(i256::from_i128(i128::from(part)))?,
            };
            left -= block;
        }
        if shift < 0 {
            // Where all digits are dropped, the first of them counts only if it is the one right behind the last place.
            if count + shift >= 0 && digits.next().is_some_and(|digit| digit >= 5) {
                value = value.checked_add(i256::ONE)?;
            }
        } else if value != i256::ZERO {
            value = value.checked_mul(power_of_ten(usize::try_from(shift).ok().filter(|shift| *shift <= 76)?))?;
        }
        Some(if self.negative { value.wrapping_neg() } else { value })
    }
}

/// Reads a number as `numeric(precision, scale)`, without the point. Fails with kind `Input` if it is no number (22P02)
/// or too large (22003).
pub fn parse_decimal(text: &str, precision: u8, scale: i8) -> Result<i256> {
    let Some(written) = Written::of(text) else { return Err(no_number(text)) };
    let overflow = || match (precision, scale) {
        (NUMERIC_PRECISION, NUMERIC_SCALE) => errors::numeric_format_overflow(),
        _ => errors::numeric_overflow(precision, scale),
    };
    written.unscaled(scale).filter(|value| fits(*value, precision)).ok_or_else(overflow)
}

fn no_number(text: &str) -> Error {
    let word = trim(text).trim_start_matches(['+', '-']);
    match ["nan", "infinity", "inf"].iter().any(|name| word.eq_ignore_ascii_case(name)) {
        true => errors::not_finite(trim(text)),
        false => errors::syntax("numeric", text),
    }
}

/// The tightest `numeric(p, s)` that holds a number as it is written: `1.50` is `numeric(3,2)`. `numeric` if it has too
/// many digits for any, or is no number.
pub fn numeric_type_of(text: &str) -> SqlType {
    let Some(written) = Written::of(text) else { return SqlType::NUMERIC };
    let scale = written.scale().min(i64::from(NUMERIC_SCALE));
    // One digit more where rounding at the scale may carry.
    let carry = i64::from(written.scale() > scale);
    let digits = (written.integer_digits().max(0) + scale + carry).max(1);
    match u8::try_from(digits) {
        Ok(digits) if digits <= NUMERIC_PRECISION => SqlType::decimal(digits, scale as i8),
        _ => SqlType::NUMERIC,
    }
}

/// How the digits behind the point are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// All digits of the scale.
    Kept,
    /// Without zeros at the end.
    Dropped,
}

/// Writes a decimal of 128 bits.
pub fn write_decimal(out: &mut String, value: i128, scale: i8, zeros: Zeros) {
    write_digits(out, value < 0, scale, zeros, |out| {
        let _ = write!(out, "{}", value.unsigned_abs());
    });
}

/// Writes a decimal of 256 bits.
pub fn write_wide_decimal(out: &mut String, value: i256, scale: i8, zeros: Zeros) {
    if let Some(value) = value.to_i128() {
        return write_decimal(out, value, scale, zeros);
    }
    write_digits(out, value < i256::ZERO, scale, zeros, |out| {
        let start = out.len();
        let _ = write!(out, "{value}");
        if out[start..].starts_with('-') {
            out.remove(start);
        }
    });
}

/// Writes the sign, the digits, and the point among them.
fn write_digits(out: &mut String, negative: bool, scale: i8, zeros: Zeros, digits: impl FnOnce(&mut String)) {
    if negative {
        out.push('-');
    }
    let start = out.len();
    digits(out);
    let written = out.len() - start;
    match usize::try_from(scale) {
        Ok(0) => {}
        Ok(scale) => {
            if written <= scale {
                out.insert_str(start, &"0".repeat(scale + 1 - written));
            }
            out.insert(out.len() - scale, '.');
            if zeros == Zeros::Dropped {
                let kept = out.trim_end_matches('0').trim_end_matches('.').len();
                out.truncate(kept);
            }
        }
        Err(_) if out[start..] != *"0" => out.extend(std::iter::repeat_n('0', usize::from(scale.unsigned_abs()))),
        Err(_) => {}
    }
}
