//! The values of `numeric`: decimals of up to 76 digits with a scale, computed with as PostgreSQL does.
//!
//! Results of divisions, roots, logarithms and powers have as many digits as PostgreSQL gives them
//! (`select_div_scale` and its like in PostgreSQL's `numeric.c`): at least 16 significant ones.

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

use arrow::datatypes::i256;
use diligence_base::{Error, Result};
use num_bigint::{BigInt, Sign};

use crate::SqlType;
use crate::sql_type::{NUMERIC_PRECISION, NUMERIC_SCALE};

/// The most digits that 256 bits hold.
const DIGITS_MAX: u32 = 76;
/// PostgreSQL's NUMERIC_MIN_SIG_DIGITS.
pub(super) const SIGNIFICANT_DIGITS_MIN: i32 = 16;
/// Digits behind the point that a result keeps at most.
const SCALE_MAX: i32 = NUMERIC_SCALE as i32;

static POWERS: LazyLock<Vec<i256>> = LazyLock::new(|| {
    let ten = i256::from_i128(10);
    std::iter::successors(Some(i256::ONE), |power| power.checked_mul(ten)).take(DIGITS_MAX as usize + 1).collect()
});

/// 10 to a power, if 256 bits hold it.
pub(super) fn power_of_ten(exponent: i32) -> Option<i256> {
    POWERS.get(usize::try_from(exponent).ok()?).copied()
}

/// The error of a value with too many digits.
pub(super) fn overflow() -> Error {
    Error::value("value overflows numeric format").with_code("22003")
}

/// The error of a division by zero.
pub(super) fn division_by_zero() -> Error {
    Error::value("division by zero").with_code("22012")
}

/// A decimal: `value` divided by 10 to the `scale`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal {
    /// The digits.
    pub value: i256,
    /// How many of them stand behind the point.
    pub scale: i32,
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.scale == other.scale {
            return self.value.cmp(&other.value);
        }
        let scale = self.scale.max(other.scale);
        match (self.scaled(scale), other.scaled(scale)) {
            (Some(left), Some(right)) => left.cmp(&right),
            // What does not fit at the other's scale is larger by far.
            (None, _) => self.value.cmp(&i256::ZERO),
            (_, None) => i256::ZERO.cmp(&other.value),
        }
    }
}

impl Decimal {
    /// Zero.
    pub(super) const ZERO: Decimal = Decimal { value: i256::ZERO, scale: 0 };

    /// A decimal.
    pub(super) fn new(value: i256, scale: i32) -> Self {
        // A negative scale stands for zeros in front of the point.
        match power_of_ten(-scale).and_then(|power| value.checked_mul(power)) {
            Some(value) if scale < 0 => Self { value, scale: 0 },
            _ => Self { value, scale },
        }
    }

    /// A whole number.
    pub(super) fn integer(value: impl Into<i128>) -> Self {
        Self { value: i256::from_i128(value.into()), scale: 0 }
    }

    /// The decimal of a text such as `-12.50e3`; `None` if it is none or has too many digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (number, exponent) = match text.find(['e', 'E']) {
            Some(place) => (&text[..place], text[place + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (is_negative, digits) = match number.as_bytes().first()? {
            b'-' => (true, &number[1..]),
            b'+' => (false, &number[1..]),
            _ => (false, number),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut value = i256::ZERO;
        for digit in whole.bytes().chain(fraction.bytes()) {
            let digit = digit.is_ascii_digit().then_some(i128::from(digit.wrapping_sub(b'0')))?;
            value = value.checked_mul(i256::from_i128(10))?.checked_add(i256::from_i128(digit))?;
        }
        let value = if is_negative { value.checked_neg()? } else { value };
        let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        match scale {
            scale if scale < 0 => Some(Self { value: value.checked_mul(power_of_ten(-scale)?)?, scale: 0 }),
            scale if scale > SCALE_MAX => Some(Self { value, scale }.rounded(SCALE_MAX)),
            scale => Some(Self { value, scale }),
        }
    }

    /// The digits at a scale that is not below this one's; `None` if they are too many.
    fn scaled(self, scale: i32) -> Option<i256> {
        self.value.checked_mul(power_of_ten(scale - self.scale)?)
    }

    /// With a scale; digits that are left out round half away from zero. Fails with 22003 if there are too many digits.
    pub(super) fn at_scale(self, scale: i32) -> Result<Self> {
        if scale >= self.scale {
            return Ok(Self { value: self.scaled(scale).ok_or_else(overflow)?, scale });
        }
        let Some(power) = power_of_ten(self.scale - scale) else { return Ok(Self { value: i256::ZERO, scale }) };
        Ok(Self { value: divided(self.value, power, true), scale })
    }

    /// Rounded half away from zero to at most this many digits behind the point; negative ones are zeros in front of
    /// it.
    pub(super) fn rounded(self, scale: i32) -> Self {
        if scale >= self.scale {
            return self;
        }
        self.cut(scale, true)
    }

    /// Without the digits beyond these.
    pub(super) fn truncated(self, scale: i32) -> Self {
        if scale >= self.scale {
            return self;
        }
        self.cut(scale, false)
    }

    fn cut(self, scale: i32, is_rounded: bool) -> Self {
        let Some(power) = power_of_ten(self.scale - scale) else {
            return Self { value: i256::ZERO, scale: scale.max(0) };
        };
        let value = divided(self.value, power, is_rounded);
        if scale >= 0 {
            return Self { value, scale };
        }
        // The quotient times a power that is below the one it was divided by fits.
        let back = power_of_ten(-scale).and_then(|power| value.checked_mul(power));
        Self { value: back.unwrap_or(i256::ZERO), scale: 0 }
    }

    /// The digits as a column's type of the precision and scale holds them. Fails with 22003 if they do not fit.
    pub(super) fn held_as(self, precision: u8, scale: i32) -> Result<i256> {
        let value = if self.scale == scale { self.value } else { self.at_scale(scale)?.value };
        match power_of_ten(i32::from(precision)) {
            Some(bound) if value < bound && value > bound.wrapping_neg() => Ok(value),
            _ => Err(overflow()),
        }
    }

    /// Without zeros at the end of the fraction.
    pub(super) fn normalized(mut self) -> Self {
        for step in [16, 4, 1] {
            let Some(power) = power_of_ten(step) else { continue };
            while self.scale >= step && self.value.wrapping_rem(power) == i256::ZERO {
                self.value = self.value.wrapping_div(power);
                self.scale -= step;
            }
        }
        self
    }

    /// How many digits stand behind the point when values of a type are shown: of those whose scale is each value's
    /// own, as many as are needed.
    pub(super) fn shown_scale(self, sql_type: &SqlType) -> i32 {
        match sql_type {
            SqlType::Numeric(Some((_, scale))) => i32::from(*scale).max(0),
            _ => self.normalized().scale,
        }
    }

    /// The number as its type shows it: the scale of a type without parentheses is the value's own.
    pub(super) fn shown(self, sql_type: &SqlType) -> Self {
        match sql_type {
            SqlType::Numeric(Some(_)) => self,
            _ => self.normalized(),
        }
    }

    /// Whether it is zero.
    pub(super) fn is_zero(self) -> bool {
        self.value == i256::ZERO
    }

    /// Whether it is below zero.
    pub(super) fn is_negative(self) -> bool {
        self.value.is_negative()
    }

    /// The number without its sign.
    pub(super) fn abs(self) -> Self {
        Self { value: self.value.wrapping_abs(), scale: self.scale }
    }

    /// The number with the other sign.
    pub(super) fn negated(self) -> Self {
        Self { value: self.value.wrapping_neg(), scale: self.scale }
    }

    /// The sum. Fails with 22003 if it has too many digits.
    pub(super) fn add(self, other: Self) -> Result<Self> {
        let scale = self.scale.max(other.scale);
        let sum = self.scaled(scale).zip(other.scaled(scale)).and_then(|(left, right)| left.checked_add(right));
        Ok(Self { value: sum.ok_or_else(overflow)?, scale })
    }

    /// The difference. Fails like [`Decimal::add`].
    pub(super) fn subtract(self, other: Self) -> Result<Self> {
        self.add(other.negated())
    }

    /// The product, of all its digits up to 38 behind the point. Fails like [`Decimal::add`].
    pub(super) fn multiply(self, other: Self) -> Result<Self> {
        if let Some(value) = self.value.checked_mul(other.value) {
            return Ok(Self { value, scale: self.scale + other.scale }.rounded(SCALE_MAX));
        }
        let product = big(self.value) * big(other.value);
        of_big(&product, self.scale + other.scale, SCALE_MAX)
    }

    /// The quotient, rounded where PostgreSQL rounds it. Fails with 22012 for a divisor of zero and like
    /// [`Decimal::add`]. The scales are those that the operands are shown with.
    pub(super) fn divide(self, divisor: Self) -> Result<Self> {
        let scale = self.quotient_scale(divisor);
        self.divide_at(divisor, scale, true)
    }

    /// PostgreSQL's `select_div_scale`.
    fn quotient_scale(self, divisor: Self) -> i32 {
        let (weight, first) = self.leading();
        let (divisor_weight, divisor_first) = divisor.leading();
        let weight = weight - divisor_weight - i32::from(first <= divisor_first);
        (SIGNIFICANT_DIGITS_MIN - weight * 4).max(self.scale).max(divisor.scale).clamp(0, SCALE_MAX)
    }

    /// The quotient with a scale, rounded half away from zero or cut. Fails like [`Decimal::divide`].
    pub(super) fn divide_at(self, divisor: Self, scale: i32, is_rounded: bool) -> Result<Self> {
        if divisor.is_zero() {
            return Err(division_by_zero());
        }
        let shift = scale + divisor.scale - self.scale;
        let operands = match shift >= 0 {
            true => power_of_ten(shift).and_then(|power| self.value.checked_mul(power)).map(|up| (up, divisor.value)),
            false => power_of_ten(-shift).and_then(|power| divisor.value.checked_mul(power)).map(|by| (self.value, by)),
        };
        if let Some((dividend, divisor)) = operands {
            // Division of 128 bits is much the faster.
            if let (Some(dividend), Some(divisor)) = (dividend.to_i128(), divisor.to_i128()) {
                return Ok(Self { value: i256::from_i128(divided_narrow(dividend, divisor, is_rounded)), scale });
            }
            return Ok(Self { value: divided(dividend, divisor, is_rounded), scale });
        }
        let ten = BigInt::from(10);
        let (mut dividend, mut by) = (big(self.value), big(divisor.value));
        match shift >= 0 {
            true => dividend *= ten.pow(shift.unsigned_abs()),
            false => by *= ten.pow(shift.unsigned_abs()),
        }
        of_big(&divided_big(&dividend, &by, is_rounded), scale, scale)
    }

    /// What is left of a division that is cut to a whole number. Fails like [`Decimal::divide`].
    pub(super) fn remainder(self, divisor: Self) -> Result<Self> {
        if divisor.is_zero() {
            return Err(division_by_zero());
        }
        let scale = self.scale.max(divisor.scale);
        match (self.scaled(scale), divisor.scaled(scale)) {
            (Some(dividend), Some(divisor)) => Ok(Self { value: dividend.wrapping_rem(divisor), scale }),
            (_, None) => Ok(self),
            (None, Some(divisor)) => {
                let dividend = big(self.value) * BigInt::from(10).pow((scale - self.scale).unsigned_abs());
                of_big(&(dividend % big(divisor)), scale, scale)
            }
        }
    }

    /// The digit groups of PostgreSQL, of four digits each: the place of the first (0 has the ones), and the first.
    fn leading(self) -> (i32, u32) {
        if self.is_zero() {
            return (0, 0);
        }
        let digits = self.digits();
        let exponent = digits - 1 - self.scale;
        let kept = exponent.rem_euclid(4) + 1;
        let first = match power_of_ten((digits - kept).max(0)) {
            Some(power) => self.value.wrapping_abs().wrapping_div(power),
            None => i256::ZERO,
        };
        let first = u32::try_from(first.as_i128()).unwrap_or(0) * 10_u32.pow((kept - digits).max(0).unsigned_abs());
        (exponent.div_euclid(4), first)
    }

    /// PostgreSQL's weight: the place of the first group of four digits.
    pub(super) fn weight(self) -> i32 {
        self.leading().0
    }

    /// How many digits it has, at least one.
    pub(super) fn digits(self) -> i32 {
        let magnitude = self.value.wrapping_abs();
        let found = POWERS.partition_point(|power| *power <= magnitude);
        i32::try_from(found).unwrap_or(1).max(1)
    }

    /// As a float: the nearest one.
    pub(super) fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The whole number that it is; `None` if it has a fraction or is too large.
    pub(super) fn to_integer(self) -> Option<i64> {
        let whole = self.normalized();
        (whole.scale == 0).then(|| whole.value.to_i128())?.and_then(|value| i64::try_from(value).ok())
    }

    /// The value times 10 to `scale`, as a number of any size; digits beyond are cut.
    pub(super) fn to_big(self, scale: i32) -> BigInt {
        let ten = BigInt::from(10);
        match scale - self.scale {
            shift if shift >= 0 => big(self.value) * ten.pow(shift.unsigned_abs()),
            shift => big(self.value) / ten.pow(shift.unsigned_abs()),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.value.wrapping_abs().to_string();
        let digits = digits.trim_start_matches('-');
        let sign = if self.is_negative() { "-" } else { "" };
        let scale = usize::try_from(self.scale).unwrap_or(0);
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        write!(f, "{sign}{whole}.{fraction}")
    }
}

fn divided(value: i256, by: i256, is_rounded: bool) -> i256 {
    let quotient = value.wrapping_div(by);
    if !is_rounded {
        return quotient;
    }
    let rest = value.wrapping_rem(by).wrapping_abs();
    // `rest >= by - rest`, so that nothing overflows.
    if rest == i256::ZERO || rest < by.wrapping_abs().wrapping_sub(rest) {
        return quotient;
    }
    match value.is_negative() == by.is_negative() {
        true => quotient.wrapping_add(i256::ONE),
        false => quotient.wrapping_sub(i256::ONE),
    }
}

fn divided_narrow(value: i128, by: i128, is_rounded: bool) -> i128 {
    let (quotient, rest) = (value.wrapping_div(by), value.wrapping_rem(by).unsigned_abs());
    if !is_rounded || rest < by.unsigned_abs() - rest {
        return quotient;
    }
    if (value < 0) == (by < 0) { quotient + 1 } else { quotient - 1 }
}

/// A quotient of numbers of any size, rounded half away from zero or cut.
pub(super) fn divided_big(value: &BigInt, by: &BigInt, is_rounded: bool) -> BigInt {
    let (quotient, rest) = (value / by, value % by);
    let twice: BigInt = rest.magnitude().clone().into();
    if !is_rounded || twice * 2 < by.magnitude().clone().into() {
        return quotient;
    }
    let is_negative = (value.sign() == Sign::Minus) != (by.sign() == Sign::Minus);
    quotient + if is_negative { -1 } else { 1 }
}

/// A number of 256 bits as one of any size.
pub(super) fn big(value: i256) -> BigInt {
    BigInt::from_signed_bytes_le(&value.to_le_bytes())
}

/// The decimal of a number of any size that has a scale, rounded to another. Fails with 22003 if it has too many
/// digits.
pub(super) fn of_big(value: &BigInt, scale: i32, wanted: i32) -> Result<Decimal> {
    let ten = BigInt::from(10);
    let value = match wanted < scale {
        true => divided_big(value, &ten.pow((scale - wanted).unsigned_abs()), true),
        false => value.clone(),
    };
    let bytes = value.to_signed_bytes_le();
    let fill = if value.sign() == Sign::Minus { 0xff } else { 0 };
    let mut held = [fill; 32];
    held.get_mut(..bytes.len()).ok_or_else(overflow)?.copy_from_slice(&bytes);
    Ok(Decimal { value: i256::from_le_bytes(held), scale: scale.min(wanted) })
}

/// `numeric` of a precision and a scale as far as they can be held. With more than 38 digits behind the point, the
/// scale of each value is its own.
pub(super) fn numeric_type(precision: i32, scale: i32) -> SqlType {
    let precision = precision.max(scale).clamp(1, i32::from(NUMERIC_PRECISION));
    match (u8::try_from(precision), i8::try_from(scale.max(0))) {
        (Ok(NUMERIC_PRECISION), Ok(NUMERIC_SCALE)) => SqlType::NUMERIC,
        (Ok(precision), Ok(scale)) if scale <= NUMERIC_SCALE => SqlType::decimal(precision, scale),
        _ => SqlType::NUMERIC,
    }
}

/// Precision and scale of a type that numeric operators take.
pub(super) fn precision_scale(sql_type: &SqlType) -> (i32, i32) {
    match sql_type {
        SqlType::Numeric(Some((precision, scale))) => (i32::from(*precision), i32::from(*scale)),
        SqlType::SmallInt => (5, 0),
        SqlType::Integer => (10, 0),
        SqlType::BigInt => (19, 0),
        _ => (i32::from(NUMERIC_PRECISION), SCALE_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).expect("a decimal")
    }

    /// PostgreSQL 15: `SELECT a / b`.
    #[test]
    fn quotients_have_postgresqls_digits() {
        for (left, right, quotient) in [
            ("1.0", "3", "0.33333333333333333333"),
            ("10", "3", "3.3333333333333333"),
            ("100000", "7", "14285.714285714286"),
            ("1", "8.00", "0.12500000000000000000"),
            ("-2", "3", "-0.66666666666666666667"),
            ("1", "30000", "0.000033333333333333333333"),
            ("12345678901234567890", "1.5", "8230452600823045260.0"),
            ("0.00001", "7", "0.000001428571428571428571"),
        ] {
            assert_eq!(decimal(left).divide(decimal(right)).unwrap().to_string(), quotient, "{left} / {right}");
        }
        assert_eq!(decimal("1").divide(Decimal::ZERO).unwrap_err().code(), Some("22012"));
    }

    #[test]
    fn large_values_neither_wrap_nor_panic() {
        let large = decimal(&"9".repeat(76));
        assert_eq!(large.add(large).unwrap().held_as(76, 0).unwrap_err().code(), Some("22003"), "no 77 digits fit");
        assert_eq!(large.multiply(large).unwrap_err().code(), Some("22003"));
        assert_eq!(large.divide(large).unwrap().normalized().to_string(), "1");
        assert_eq!(large.remainder(decimal("0.7")).unwrap().to_string(), "0.2");
        assert!(large > decimal("0.00000000000000000000000000000000000001"));
        assert!(large.negated() < decimal("0.00000000000000000000000000000000000001"));
        assert_eq!(decimal("-0.05").to_string(), "-0.05");
        assert_eq!(decimal("1.5e3").to_string(), "1500");
        assert_eq!(decimal("1251.5").rounded(-2).to_string(), "1300");
    }
}
