//! Numbers written with patterns of digits, and read with them.
//!
//! Follows PostgreSQL's `NUM_processor` step by step: which columns are blank, where the sign stands and which zeros
//! fall away depends on what has been written before.

use diligence_base::Result;

use super::ordinal_ending;
use crate::functions::catalog::Catalog;
use crate::functions::columns::kernel;
use crate::functions::decimal::Decimal;
use crate::functions::errors::value_error;

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq)]
enum Digit {
    Nine,
    Zero,
    Point,
    Comma,
    Minus,
    Plus,
    Sign,
    Locale,
    Roman(bool),
    Ordinal(bool),
    /// S, V, PR, B, FM, EEEE: what they mean stands in the pattern's properties.
    Silent,
    Literal(char),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SignPlace {
    #[default]
    None,
    Before,
    After,
}

/// A pattern, taken apart.
#[derive(Clone, Debug, Default)]
struct Pattern {
    pieces: Vec<Digit>,
    before: usize,
    after: usize,
    zero_start: usize,
    zero_end: usize,
    before_sign: usize,
    shift: i32,
    sign_place: SignPlace,
    has_zero: bool,
    has_point: bool,
    is_filled: bool,
    has_minus: bool,
    has_plus: bool,
    in_brackets: bool,
    is_shifted: bool,
    is_scientific: bool,
    is_roman: bool,
}

const KEYWORDS: [(&str, fn() -> Digit); 16] = [
    ("EEEE", || Digit::Silent),
    ("FM", || Digit::Silent),
    ("MI", || Digit::Minus),
    ("PL", || Digit::Plus),
    ("PR", || Digit::Silent),
    ("RN", || Digit::Roman(true)),
    ("SG", || Digit::Sign),
    ("TH", || Digit::Ordinal(true)),
    ("0", || Digit::Zero),
    ("9", || Digit::Nine),
    ("B", || Digit::Silent),
    ("D", || Digit::Point),
    ("G", || Digit::Comma),
    ("L", || Digit::Locale),
    ("S", || Digit::Silent),
    ("V", || Digit::Silent),
];

impl Pattern {
    /// The pattern of a text. Fails with 42601 for pieces that exclude each other.
    fn parse(text: &str) -> Result<Self> {
        let mut pattern = Self::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let keyword = KEYWORDS.iter().find(|(name, _)| {
                rest.get(..name.len()).is_some_and(|head| head == *name || head == name.to_ascii_lowercase())
            });
            if let Some((name, piece)) = keyword {
                let is_upper = rest.starts_with(name);
                rest = &rest[name.len()..];
                let piece = match piece() {
                    Digit::Roman(_) => Digit::Roman(is_upper),
                    Digit::Ordinal(_) => Digit::Ordinal(is_upper),
                    other => other,
                };
                pattern.property(name, &piece)?;
                pattern.pieces.push(piece);
                continue;
            }
            rest = &rest[first.len_utf8()..];
            match first {
                '.' => {
                    pattern.property("D", &Digit::Point)?;
                    pattern.pieces.push(Digit::Point);
                }
                ',' => pattern.pieces.push(Digit::Comma),
                '"' => {
                    let mut is_escaped = false;
                    while let Some(next) = rest.chars().next() {
                        rest = &rest[next.len_utf8()..];
                        match next {
                            '"' if !is_escaped => break,
                            '\\' if !is_escaped => is_escaped = true,
                            other => {
                                is_escaped = false;
                                pattern.pieces.push(Digit::Literal(other));
                            }
                        }
                    }
                }
                '\\' if rest.starts_with('"') => {
                    rest = &rest[1..];
                    pattern.pieces.push(Digit::Literal('"'));
                }
                other => pattern.pieces.push(Digit::Literal(other)),
            }
        }
        Ok(pattern)
    }

    fn property(&mut self, name: &str, piece: &Digit) -> Result<()> {
        let error = |message: &str| Err(value_error(message, "42601"));
        if self.is_scientific && name != "EEEE" {
            return error("\"EEEE\" must be the last pattern used");
        }
        match (name, piece) {
            (_, Digit::Nine | Digit::Zero) if self.in_brackets => {
                return error("\"9\" must be ahead of \"PR\"");
            }
            (_, Digit::Nine) if self.is_shifted => self.shift += 1,
            (_, Digit::Nine) if self.has_point => self.after += 1,
            (_, Digit::Nine) => self.before += 1,
            (_, Digit::Zero) => {
                if !self.has_zero && !self.has_point {
                    self.has_zero = true;
                    self.zero_start = self.before + 1;
                }
                match self.has_point {
                    true => self.after += 1,
                    false => self.before += 1,
                }
                self.zero_end = self.before + self.after;
            }
            (_, Digit::Point) if self.has_point => return error("multiple decimal points"),
            (_, Digit::Point) if self.is_shifted => return error("cannot use \"V\" and decimal point together"),
            (_, Digit::Point) => self.has_point = true,
            (_, Digit::Minus) => self.has_minus = true,
            (_, Digit::Plus) => self.has_plus = true,
            (_, Digit::Sign) => (self.has_minus, self.has_plus) = (true, true),
            (_, Digit::Roman(_)) => self.is_roman = true,
            ("FM", _) => self.is_filled = true,
            ("PR", _) => self.in_brackets = true,
            ("S", _) if self.sign_place != SignPlace::None => return error("cannot use \"S\" twice"),
            ("S", _) if !self.has_point => {
                self.sign_place = SignPlace::Before;
                self.before_sign = self.before;
            }
            ("S", _) => self.sign_place = SignPlace::After,
            ("V", _) if self.has_point => return error("cannot use \"V\" and decimal point together"),
            ("V", _) => self.is_shifted = true,
            ("EEEE", _) => self.is_scientific = true,
            _ => {}
        }
        Ok(())
    }

    /// A number by its digits: those before the point, and as many behind it as the pattern has.
    fn write(&self, digits: &str, is_negative: bool) -> String {
        if self.is_roman {
            return self.roman(digits, is_negative);
        }
        let whole = digits.find('.').unwrap_or(digits.len());
        let before = self.before + usize::try_from(self.shift).unwrap_or(0);
        let fitting = match whole > before {
            // Too large: nothing but marks.
            true if self.after > 0 || self.has_point || digits.contains('.') => {
                format!("{}.{}", "#".repeat(before), "#".repeat(self.after))
            }
            true => "#".repeat(before),
            false => digits.to_owned(),
        };
        let blank = before.saturating_sub(fitting.find('.').unwrap_or(fitting.len()));
        Writer::new(self, &fitting, blank, before, is_negative).written()
    }

    fn roman(&self, digits: &str, is_negative: bool) -> String {
        let number: usize = digits.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or(0);
        let text = match (1..4000).contains(&number) && !is_negative {
            true => roman(number),
            false => "#".repeat(15),
        };
        let is_upper = !self.pieces.contains(&Digit::Roman(false));
        let text = if is_upper { text } else { text.to_lowercase() };
        if self.is_filled { text } else { format!("{text:>15}") }
    }
}

fn roman(mut number: usize) -> String {
    const NUMERALS: [(usize, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut text = String::new();
    for (value, numeral) in NUMERALS {
        while number >= value {
            text.push_str(numeral);
            number -= value;
        }
    }
    text
}

/// A number while it is written: PostgreSQL's `NUMProc`.
struct Writer<'p> {
    pattern: &'p Pattern,
    digits: &'p [u8],
    is_negative: bool,
    /// Columns before the number.
    blank: usize,
    zero_start: usize,
    sign_place: SignPlace,
    in_brackets: bool,
    count: usize,
    /// The last digit that is not a zero to leave out.
    last_relevant: Option<usize>,
    sign_written: bool,
    in_number: bool,
    at: usize,
    column: usize,
    text: String,
}

impl<'p> Writer<'p> {
    fn new(pattern: &'p Pattern, digits: &'p str, blank: usize, before: usize, is_negative: bool) -> Self {
        let digits = digits.as_bytes();
        let mut sign_place = pattern.sign_place;
        let mut in_brackets = pattern.in_brackets;
        let sign_written = match pattern.has_plus || pattern.has_minus {
            true => !pattern.has_plus || pattern.has_minus,
            false => {
                if !is_negative && pattern.is_filled {
                    in_brackets = false;
                }
                if sign_place == SignPlace::Before && before == pattern.before_sign {
                    sign_place = SignPlace::After;
                }
                !is_negative && pattern.is_filled && sign_place == SignPlace::None
            }
        };
        let mut last_relevant = None;
        if pattern.is_filled && pattern.has_point {
            last_relevant = last_relevant_digit(digits);
            if let Some(last) = last_relevant
                && pattern.zero_end > blank
            {
                last_relevant = Some(last.max((pattern.zero_end - blank).min(digits.len().saturating_sub(1))));
            }
        }
        let count = (pattern.after + before).saturating_sub(1);
        let count = count + usize::from(!sign_written && blank == 0);
        Self {
            pattern,
            digits,
            is_negative,
            blank,
            zero_start: pattern.zero_start.saturating_sub(1),
            sign_place,
            in_brackets,
            count,
            last_relevant,
            sign_written,
            in_number: false,
            at: 0,
            column: 0,
            text: String::new(),
        }
    }

    fn written(mut self) -> String {
        let is_filled = self.pattern.is_filled;
        let sign = if self.is_negative { '-' } else { '+' };
        for piece in &self.pattern.pieces {
            match piece {
                Digit::Nine | Digit::Zero | Digit::Point => self.digit(piece),
                Digit::Comma if self.in_number => self.text.push(','),
                Digit::Comma | Digit::Locale if is_filled && *piece == Digit::Comma => {}
                Digit::Comma | Digit::Locale => self.text.push(' '),
                Digit::Minus if self.is_negative => self.text.push('-'),
                Digit::Plus if !self.is_negative => self.text.push('+'),
                Digit::Minus | Digit::Plus if is_filled => {}
                Digit::Minus | Digit::Plus => self.text.push(' '),
                Digit::Sign => self.text.push(sign),
                Digit::Ordinal(is_upper) => self.ordinal(*is_upper),
                Digit::Roman(_) | Digit::Silent => {}
                Digit::Literal(character) => self.text.push(*character),
            }
        }
        self.text
    }

    fn ordinal(&mut self, is_upper: bool) {
        if self.digits.first() == Some(&b'#') || self.is_negative || self.pattern.has_point {
            return;
        }
        let ending = ordinal_ending(std::str::from_utf8(self.digits).unwrap_or_default());
        self.text.push_str(&if is_upper { ending.to_uppercase() } else { ending.to_owned() });
    }

    /// Whether the zero before the point is left blank, as in ` .5`.
    fn is_blank_zero(&self) -> bool {
        !self.pattern.has_zero && self.at == 0 && self.digits.first() == Some(&b'0') && self.pattern.after != 0
    }

    fn ends_at_point(&self) -> bool {
        self.last_relevant.is_some_and(|last| self.digits.get(last) == Some(&b'.'))
    }

    /// `NUM_numpart_to_char`.
    fn digit(&mut self, piece: &Digit) {
        let is_filled = self.pattern.is_filled;
        self.in_number = false;
        let begins = self.column >= self.blank || (self.pattern.has_zero && self.zero_start == self.column);
        if !self.sign_written && begins && (!self.is_blank_zero() || self.ends_at_point()) {
            self.sign(is_filled);
        }
        let is_before = self.column < self.blank;
        if is_before && (self.zero_start > self.column || !self.pattern.has_zero) {
            if !is_filled {
                self.text.push(' ');
            }
        } else if is_before && self.pattern.has_zero {
            self.text.push('0');
            self.in_number = true;
        } else {
            match self.digits.get(self.at) {
                Some(b'.') if self.ends_at_point() && !is_filled => {}
                Some(b'.') => self.text.push('.'),
                _ if self.last_relevant.is_some_and(|last| self.at > last) && *piece != Digit::Zero => {}
                _ if self.is_blank_zero() => match is_filled {
                    false => self.text.push(' '),
                    true if self.ends_at_point() => self.text.push('0'),
                    true => {}
                },
                Some(digit) => {
                    self.text.push(char::from(*digit));
                    self.in_number = true;
                }
                None => {}
            }
            self.at += usize::from(self.at < self.digits.len());
        }
        let mut end = self.count + usize::from(self.blank > 0) + usize::from(self.pattern.has_point);
        if self.last_relevant == Some(self.at) {
            end = self.column;
        }
        if self.column + 1 == end {
            if self.sign_written && self.in_brackets {
                self.text.push(if self.is_negative { '>' } else { ' ' });
            } else if self.sign_place == SignPlace::After {
                self.text.push(if self.is_negative { '-' } else { '+' });
            }
        }
        self.column += 1;
    }

    fn sign(&mut self, is_filled: bool) {
        match self.sign_place {
            SignPlace::Before => self.text.push(if self.is_negative { '-' } else { '+' }),
            SignPlace::After => return,
            SignPlace::None if self.in_brackets => self.text.push(if self.is_negative { '<' } else { ' ' }),
            SignPlace::None if self.is_negative => self.text.push('-'),
            SignPlace::None if !is_filled => self.text.push(' '),
            SignPlace::None => {}
        }
        self.sign_written = true;
    }
}

/// The last digit that is not a zero at the end of the fraction: the point if all are.
fn last_relevant_digit(digits: &[u8]) -> Option<usize> {
    let point = digits.iter().position(|digit| *digit == b'.')?;
    let last = digits[point..].iter().rposition(|digit| *digit != b'0').unwrap_or(0);
    Some(point + last)
}

/// Patterns by text, taken apart once for each that a column has in a row.
#[derive(Default)]
struct NumberPatterns {
    last: Option<(String, Pattern)>,
}

impl NumberPatterns {
    fn get(&mut self, text: &str) -> Result<&Pattern> {
        if self.last.as_ref().is_none_or(|(last, _)| last != text) {
            self.last = Some((text.to_owned(), Pattern::parse(text)?));
        }
        match &self.last {
            Some((_, pattern)) => Ok(pattern),
            None => Err(diligence_base::Error::bug("a pattern that was just kept")),
        }
    }
}

fn decimal_text(value: Decimal, pattern: &Pattern) -> Result<String> {
    if pattern.is_scientific {
        return Ok(scientific(value, pattern.after));
    }
    let value = match pattern.shift {
        0 => value,
        shift => value.multiply(Decimal::new(
            crate::functions::decimal::power_of_ten(shift).ok_or_else(crate::functions::decimal::overflow)?,
            0,
        ))?,
    };
    let after = i32::try_from(pattern.after).unwrap_or(i32::MAX).min(38);
    let mut digits = value.rounded(after).at_scale(after)?.abs().to_string();
    if pattern.after > 38 {
        digits.push_str(&"0".repeat((pattern.after - 38).min(100)));
    }
    let is_negative = value.rounded(after).is_negative();
    Ok(pattern.write(&digits, is_negative))
}

fn scientific(value: Decimal, after: usize) -> String {
    let digits = value.abs().value.to_string();
    let sign = if value.is_negative() { '-' } else { ' ' };
    if value.is_zero() {
        let fraction = if after > 0 { format!(".{}", "0".repeat(after)) } else { String::new() };
        return format!("{sign}0{fraction}e+00");
    }
    let mut exponent = value.digits() - 1 - value.scale;
    let kept = i32::try_from(after).unwrap_or(70).min(70) + 1;
    let excess = value.digits() - kept;
    let mut kept_digits = match excess > 0 {
        true => Decimal::new(value.abs().value, excess).rounded(0).value.to_string(),
        false => format!("{digits}{}", "0".repeat(usize::try_from(-excess).unwrap_or(0))),
    };
    if kept_digits.len() as i32 > kept {
        kept_digits.pop();
        exponent += 1;
    }
    let (first, fraction) = kept_digits.split_at(1);
    let point = if fraction.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{first}{point}{fraction}e{exponent_sign}{:02}", exponent.abs())
}

fn float_text(value: f64, pattern: &Pattern, digits_max: usize) -> Result<String> {
    if pattern.is_scientific {
        return match value.is_finite() {
            true => {
                let text = format!("{:+.*e}", pattern.after, value);
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let exponent: i32 = exponent.parse().unwrap_or(0);
                let sign = if exponent < 0 { '-' } else { '+' };
                Ok(format!("{}e{sign}{:02}", mantissa.replacen('+', " ", 1), exponent.abs()))
            }
            false => Ok(format!(" {}.{}", "#".repeat(pattern.before), "#".repeat(pattern.after + 4))),
        };
    }
    if !value.is_finite() {
        // The name of the value where it fits, as if it were digits.
        let name = if value.is_nan() { "NaN" } else { "Infinity" };
        return Ok(pattern.write(name, value == f64::NEG_INFINITY));
    }
    let value = value * 10_f64.powi(pattern.shift);
    // As many digits as a float has.
    let whole = format!("{:.0}", value.abs()).len();
    let after = pattern.after.min(digits_max.saturating_sub(whole));
    let digits = format!("{:.after$}", value.abs());
    let is_zero = digits.bytes().all(|digit| matches!(digit, b'0' | b'.'));
    let narrowed = Pattern { after, ..pattern.clone() };
    Ok(narrowed.write(&digits, value.is_sign_negative() && !is_zero))
}

/// `to_number`: the digits that stand where the pattern has digits. Fails with 22P02 if there is no number.
fn number_of(text: &str, pattern: &Pattern) -> Result<Decimal> {
    let mut digits = String::new();
    let (mut is_negative, mut has_point, mut seen) = (false, false, 0);
    let mut rest = text.trim_start().chars().peekable();
    for piece in &pattern.pieces {
        let Some(next) = rest.peek().copied() else { break };
        match piece {
            Digit::Nine | Digit::Zero | Digit::Point => {
                if digits.is_empty() {
                    while rest.next_if(|c| matches!(c, ' ')).is_some() {}
                    if let Some(sign) = rest.next_if(|c| matches!(c, '-' | '+' | '<')) {
                        is_negative = sign != '+';
                    }
                }
                match rest.peek().copied() {
                    Some(digit) if digit.is_ascii_digit() && *piece != Digit::Point => {
                        seen += 1;
                        digits.push(digit);
                        rest.next();
                    }
                    Some('.') if pattern.has_point && !has_point => {
                        has_point = true;
                        digits.push('.');
                        rest.next();
                        if *piece != Digit::Point
                            && let Some(digit) = rest.next_if(char::is_ascii_digit)
                        {
                            seen += 1;
                            digits.push(digit);
                        }
                    }
                    _ => {}
                }
            }
            Digit::Comma => drop(rest.next_if_eq(&',')),
            Digit::Minus | Digit::Plus | Digit::Sign | Digit::Silent => {
                if let Some(sign) = rest.next_if(|c| matches!(c, '-' | '+' | '<' | '>')) {
                    is_negative |= matches!(sign, '-' | '<');
                }
            }
            Digit::Locale | Digit::Literal(_) | Digit::Ordinal(_) => {
                // What is not a number may stand where the pattern has something else.
                if !next.is_ascii_digit() && !matches!(next, '-' | '+' | '.' | ',') {
                    rest.next();
                }
            }
            Digit::Roman(_) => return Err(value_error("\"RN\" not supported for input", "0A000")),
        }
    }
    if rest.peek() == Some(&'-') && digits.len() > 1 && (pattern.has_minus || pattern.sign_place != SignPlace::None) {
        is_negative = true;
    }
    if seen == 0 {
        return Err(value_error(format!("invalid input syntax for type numeric: \"{}\"", text.trim()), "22P02"));
    }
    let value = Decimal::parse(&digits).ok_or_else(crate::functions::decimal::overflow)?;
    let value = match pattern.shift {
        0 => value,
        shift => Decimal { value: value.value, scale: value.scale + shift }.rounded(38),
    };
    Ok(if is_negative { value.negated() } else { value })
}

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog
        .add(
            "to_char(integer, text) -> text",
            kernel!(with patterns: NumberPatterns; |a: i32, pattern: &str| {
                decimal_text(Decimal::integer(a), patterns.get(pattern)?)
            }),
        )
        .stable();
    catalog
        .add(
            "to_char(bigint, text) -> text",
            kernel!(with patterns: NumberPatterns; |a: i64, pattern: &str| {
                decimal_text(Decimal::integer(a), patterns.get(pattern)?)
            }),
        )
        .stable();
    catalog
        .add(
            "to_char(numeric, text) -> text",
            kernel!(with patterns: NumberPatterns; |a: Decimal, pattern: &str| decimal_text(a, patterns.get(pattern)?)),
        )
        .stable();
    catalog
        .add(
            "to_char(real, text) -> text",
            kernel!(with patterns: NumberPatterns; |a: f32, pattern: &str| float_text(a.into(), patterns.get(pattern)?, 6)),
        )
        .stable();
    catalog
        .add(
            "to_char(double precision, text) -> text",
            kernel!(with patterns: NumberPatterns; |a: f64, pattern: &str| float_text(a, patterns.get(pattern)?, 15)),
        )
        .stable();
    catalog
        .add(
            "to_number(text, text) -> numeric",
            kernel!(with patterns: NumberPatterns; |a: &str, pattern: &str| match pattern.is_empty() {
                true => Ok(None),
                false => number_of(a, patterns.get(pattern)?).map(Some),
            }),
        )
        .stable();
}
