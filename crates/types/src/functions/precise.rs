//! Roots, exponentials, logarithms and powers of decimals, to as many digits as asked for.
//!
//! Numbers are fixed-point: integers of any size times 10 to minus a number of digits. Each function computes with
//! [`GUARD`] digits more than are asked for and rounds once.

use num_bigint::{BigInt, Sign};

use super::decimal::divided_big;

/// Digits that are computed beyond those asked for.
const GUARD: u32 = 8;

fn ten_to(digits: u32) -> BigInt {
    BigInt::from(10).pow(digits)
}

fn rounded(value: &BigInt, digits: u32) -> BigInt {
    divided_big(value, &ten_to(digits), true)
}

/// The square root, with `digits` behind the point, of a number with as many; the number is not negative.
pub(super) fn sqrt(value: &BigInt, digits: u32) -> BigInt {
    let root = (value * ten_to(digits + 2 * GUARD)).sqrt();
    rounded(&root, GUARD)
}

/// e to a power.
pub(super) fn exp(value: &BigInt, digits: u32) -> BigInt {
    // Each halving loses no digit, each squaring one bit: 32 of them ten digits, and the result's whole digits come on
    // top.
    let whole = (value / ten_to(digits)).magnitude().to_u32_digits().first().copied().unwrap_or(0) / 2 + 1;
    let work = digits + 2 * GUARD + 4 + whole;
    let one = ten_to(work);
    let mut reduced = value * ten_to(work - digits);
    let mut halvings = 0;
    while reduced.magnitude() * 64_u32 > *one.magnitude() && halvings < 32 {
        reduced /= 2;
        halvings += 1;
    }
    let (mut sum, mut term, mut step) = (one.clone() + &reduced, reduced.clone(), 1_u32);
    while term.sign() != Sign::NoSign {
        step += 1;
        term = term * &reduced / &one / step;
        sum += &term;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &one;
    }
    rounded(&sum, work - digits)
}

/// The natural logarithm of a number above zero.
pub(super) fn ln(value: &BigInt, digits: u32) -> BigInt {
    let work = digits + 2 * GUARD;
    let one = ten_to(work);
    let mut reduced = value * ten_to(work - digits);
    // Powers of two bring the number near 1, where the series of artanh is fast.
    let bits = i64::try_from(reduced.bits()).unwrap_or(0) - i64::try_from(one.bits()).unwrap_or(0);
    match bits >= 0 {
        true => reduced >>= bits.unsigned_abs(),
        false => reduced <<= bits.unsigned_abs(),
    }
    let log = artanh_series(&reduced, &one) * 2 + ln_two(&one) * bits;
    rounded(&log, work - digits)
}

/// artanh((x - 1) / (x + 1)), half of the logarithm of x.
fn artanh_series(value: &BigInt, one: &BigInt) -> BigInt {
    let ratio = (value - one) * one / (value + one);
    let square = &ratio * &ratio / one;
    let (mut sum, mut power, mut step) = (ratio.clone(), ratio, 1_u32);
    while power.sign() != Sign::NoSign {
        power = power * &square / one;
        step += 2;
        sum += &power / step;
    }
    sum
}

fn ln_two(one: &BigInt) -> BigInt {
    artanh_series(&(one * 2), one) * 2
}

/// The logarithm of a number to a base; both are above zero, and the base is not 1.
pub(super) fn log(base: &BigInt, value: &BigInt, digits: u32) -> BigInt {
    let work = digits + 2 * GUARD;
    let up = ten_to(work - digits);
    let (base, value) = (ln(&(base * &up), work), ln(&(value * &up), work));
    match base.sign() {
        Sign::NoSign => BigInt::ZERO,
        _ => rounded(&divided_big(&(value * ten_to(work)), &base, true), work - digits),
    }
}

/// A number above zero to any power.
pub(super) fn power(base: &BigInt, exponent: &BigInt, digits: u32) -> BigInt {
    // The logarithm needs as many digits more as the exponent and the result have in front of the point.
    let work = digits + 5 * GUARD + u32::try_from(exponent.bits() / 3).unwrap_or(0).min(200);
    let up = ten_to(work - digits);
    let log = ln(&(base * &up), work) * exponent / ten_to(digits);
    rounded(&exp(&log, work), work - digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digits() {
        let one = ten_to(30);
        let two = &one * 2;
        assert_eq!(exp(&one, 30).to_string(), "2718281828459045235360287471353");
        assert_eq!(ln(&two, 30).to_string(), "693147180559945309417232121458");
        assert_eq!(sqrt(&two, 30).to_string(), "1414213562373095048801688724210");
        assert_eq!(log(&two, &(&one * 64), 30), &one * 6);
        assert_eq!(power(&two, &(&one / 2), 30), sqrt(&two, 30));
        assert_eq!(exp(&-one.clone(), 30).to_string(), "367879441171442321595523770161");
        assert_eq!(ln(&BigInt::from(1), 30).to_string(), "-69077552789821370520539743640531");
    }
}
