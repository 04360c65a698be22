//! Decimal numbers of any length, compared by value.

use std::cmp::Ordering;

/// From how many digits after the point on two numbers may differ in the last one, because the other server rounded at
/// another place.
const DIGITS_MIN: i64 = 6;

/// Exponents beyond this are no decimal to compare digit by digit.
const EXPONENT_MAX: i64 = 1_000;

/// A finite decimal: `digits × 10^-scale`, with its sign.
#[derive(Clone, Debug)]
pub struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    scale: i64,
}

impl Decimal {
    /// Reads digits with an optional sign, point and exponent.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) || exponent.abs() > EXPONENT_MAX {
            return None;
        }
        let digits = digits.into_iter().map(|digit| digit - b'0').collect();
        Some(Self { is_negative, digits, scale: fraction.len() as i64 - exponent })
    }

    /// Whether both are the same number, or round to the same one at the last digit that both have.
    pub fn is_like(&self, other: &Self) -> bool {
        let scale = self.scale.max(other.scale);
        let (left, right) = (self.at_scale(scale), other.at_scale(scale));
        let distance = match self.is_negative == other.is_negative {
            true if magnitude_order(&left, &right) == Ordering::Less => subtract(&right, &left),
            true => subtract(&left, &right),
            false => add(&left, &right),
        };
        let distance = significant(&distance);
        if distance.is_empty() {
            return true;
        }
        let digits = self.scale.min(other.scale);
        // One unit of the shorter number's last digit, in units of the longer one's.
        let unit_zeros = (scale - digits) as usize;
        let is_at_most_a_unit = distance.len() <= unit_zeros
            || distance.len() == unit_zeros + 1 && distance[0] == 1 && distance[1..].iter().all(|digit| *digit == 0);
        digits >= DIGITS_MIN && is_at_most_a_unit
    }

    /// The digits with so many of them after the point, which are at least as many as there are.
    fn at_scale(&self, scale: i64) -> Vec<u8> {
        let zeros = (scale - self.scale) as usize;
        self.digits.iter().copied().chain(std::iter::repeat_n(0, zeros)).collect()
    }
}

/// Without leading zeros.
fn significant(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|digit| **digit == 0).count()..]
}

fn magnitude_order(left: &[u8], right: &[u8]) -> Ordering {
    let (left, right) = (significant(left), significant(right));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

/// The digits from the last to the first, both numbers as long as the longer one and one more.
fn aligned<'a>(left: &'a [u8], right: &'a [u8]) -> impl Iterator<Item = (u8, u8)> + 'a {
    let length = left.len().max(right.len()) + 1;
    let from_last = |digits: &'a [u8]| digits.iter().rev().copied().chain(std::iter::repeat(0));
    from_last(left).zip(from_last(right)).take(length)
}

fn add(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let sum = aligned(left, right).map(|(left, right)| {
        let sum = left + right + carry;
        carry = sum / 10;
        sum % 10
    });
    let mut sum: Vec<u8> = sum.collect();
    sum.reverse();
    sum
}

/// The difference; `left` is not the smaller one.
fn subtract(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut borrow = 0;
    let difference = aligned(left, right).map(|(left, right)| {
        let difference = 10 + left - right - borrow;
        borrow = u8::from(difference < 10);
        difference % 10
    });
    let mut difference: Vec<u8> = difference.collect();
    difference.reverse();
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alike(left: &str, right: &str) -> bool {
        Decimal::parse(left).unwrap().is_like(&Decimal::parse(right).unwrap())
    }

    #[test]
    fn numbers_are_compared_by_value() {
        assert!(alike("1.50", "1.5") && alike("-0.0", "0") && alike("1e2", "100") && alike("007", "7"));
        assert!(!alike("1.5", "1.51") && !alike("1", "-1") && !alike("0.00001", "0"));
        let long = "123456789012345678901234567890123456789012345";
        assert!(alike(long, long) && !alike(long, &long.replace("2345", "2346")));
    }

    #[test]
    fn the_last_of_many_digits_may_differ() {
        assert!(alike("0.333333", "0.3333333333333333") && alike("0.6666667", "0.66666666666"));
        assert!(!alike("0.33333", "0.3333333") && !alike("0.333331", "0.3333333"));
        assert!(alike("-0.0000001", "0.0000000"));
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", "NaN", "Infinity", "1.2.3", "-", "1e", "0x1", "1e99999"] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
    }
}
