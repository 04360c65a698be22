//! Ranges: their text, read and written, and what they have in common with each other.

use std::cmp::Ordering;
use std::fmt::Write;

use diligence_base::{Error, Result};

use super::{ReadOptions, Zone, datetime, decimals, numbers};
use crate::range_type::RangeKind;
use crate::sql_type::{NUMERIC_PRECISION, NUMERIC_SCALE};

/// A range. The empty one has no bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Which type it is of.
    pub kind: RangeKind,
    /// Where it begins and ends, if anything is in it.
    pub bounds: Option<(Bound, Bound)>,
}

/// One end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The value; without one, the range has no end there.
    pub value: Option<arrow::datatypes::i256>,
    /// Whether the value itself is in the range.
    pub is_inclusive: bool,
}

impl Bound {
    /// The text of its value, as its type writes it; `None` without one.
    pub fn text(&self, kind: RangeKind) -> Option<String> {
        let mut out = String::new();
        write_value(&mut out, self, kind, &Zone::UTC);
        self.value.map(|_| out)
    }
}

/// Which end a bound is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Lower,
    Upper,
}

fn malformed(text: &str, detail: &'static str) -> Error {
    Error::input(format!("malformed range literal: \"{text}\"")).with_code("22P02").with_detail(detail)
}

impl Range {
    /// Nothing.
    pub fn empty(kind: RangeKind) -> Self {
        Self { kind, bounds: None }
    }

    /// What is between two bounds, in its one form. Fails with 22000 if they are in the wrong order, 22003 or 22008 if
    /// the next value is out of range.
    pub fn new(kind: RangeKind, mut lower: Bound, mut upper: Bound) -> Result<Self> {
        if let (Some(from), Some(to)) = (lower.value, upper.value) {
            if from > to {
                let message = "range lower bound must be less than or equal to range upper bound";
                return Err(Error::value(message).with_code("22000"));
            }
            if from == to && !(lower.is_inclusive && upper.is_inclusive) {
                return Ok(Self::empty(kind));
            }
        }
        if kind.is_discrete() {
            // The infinities have no neighbors.
            let is_finite = |value: &arrow::datatypes::i256| {
                let infinities = [i32::MIN, i32::MAX].map(|day| arrow::datatypes::i256::from_i128(day.into()));
                kind != RangeKind::Date || !infinities.contains(value)
            };
            if let Some(value) = lower.value.filter(is_finite).filter(|_| !lower.is_inclusive) {
                lower = Bound { value: Some(next(kind, value)?), is_inclusive: true };
            }
            if let Some(value) = upper.value.filter(is_finite).filter(|_| upper.is_inclusive) {
                upper = Bound { value: Some(next(kind, value)?), is_inclusive: false };
            }
            let has_both = lower.is_inclusive && upper.is_inclusive;
            if lower.value.is_some() && lower.value == upper.value && !has_both {
                return Ok(Self::empty(kind));
            }
        }
        // What has no end does not include it.
        let open = |bound: Bound| Bound { is_inclusive: bound.is_inclusive && bound.value.is_some(), ..bound };
        Ok(Self { kind, bounds: Some((open(lower), open(upper))) })
    }

    /// Reads a text. Fails with 22P02 if it is no range, and where a bound is none of its type's values.
    pub fn read(text: &str, kind: RangeKind, options: &ReadOptions) -> Result<Self> {
        let trimmed = super::trim(text);
        if trimmed.eq_ignore_ascii_case("empty") {
            return Ok(Self::empty(kind));
        }
        let (is_lower_in, rest) = match trimmed.split_at_checked(1) {
            Some(("[", rest)) => (true, rest),
            Some(("(", rest)) => (false, rest),
            _ => return Err(malformed(text, "Missing left parenthesis or bracket.")),
        };
        let (lower, rest) = cut(rest).ok_or_else(|| malformed(text, "Unexpected end of input."))?;
        let rest = rest.strip_prefix(',').ok_or_else(|| malformed(text, "Missing comma after lower bound."))?;
        let (upper, rest) = cut(rest).ok_or_else(|| malformed(text, "Unexpected end of input."))?;
        let is_upper_in = match rest {
            "]" => true,
            ")" => false,
            rest if rest.starts_with(',') => return Err(malformed(text, "Too many commas.")),
            rest if rest.starts_with([']', ')']) => {
                return Err(malformed(text, "Junk after right parenthesis or bracket."));
            }
            _ => return Err(malformed(text, "Unexpected end of input.")),
        };
        let bound = |text: Option<String>, is_inclusive| {
            let value = text.map(|text| value_of(&text, kind, options)).transpose()?;
            Ok::<_, Error>(Bound { value, is_inclusive })
        };
        Self::new(kind, bound(lower, is_lower_in)?, bound(upper, is_upper_in)?)
    }

    /// Reads a value as it is held. Fails with 22P02 if the text is none of the type.
    pub fn held(text: &str, kind: RangeKind) -> Result<Self> {
        Self::read(text, kind, &ReadOptions::default())
    }

    /// Writes its text; timestamps with a zone in this one.
    pub fn write(&self, out: &mut String, zone: &Zone) {
        let Some((lower, upper)) = &self.bounds else { return out.push_str("empty") };
        out.push(if lower.is_inclusive { '[' } else { '(' });
        write_bound(out, lower, self.kind, zone);
        out.push(',');
        write_bound(out, upper, self.kind, zone);
        out.push(if upper.is_inclusive { ']' } else { ')' });
    }

    /// Its text as it is held.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, &Zone::UTC);
        out
    }

    /// Bytes that sort as ranges do: the empty one first, then by the lower, then by the upper bound.
    pub fn order_key(&self) -> Vec<u8> {
        let Some((lower, upper)) = &self.bounds else { return vec![0] };
        let mut key = vec![1];
        for (end, bound) in [(End::Lower, lower), (End::Upper, upper)] {
            match (bound.value, end) {
                (None, End::Lower) => key.push(0),
                (None, End::Upper) => key.push(2),
                (Some(value), _) => {
                    key.push(1);
                    let mut bytes = value.to_be_bytes();
                    bytes[0] ^= 0x80;
                    key.extend(bytes);
                }
            }
            // A lower bound that is not in the range is behind one that is, an upper one before it.
            key.push(u8::from(bound.is_inclusive == (end == End::Upper)));
        }
        key
    }

    /// Whether a value is in it.
    pub fn has(&self, value: arrow::datatypes::i256) -> bool {
        let Some((lower, upper)) = &self.bounds else { return false };
        let from = lower.value.is_none_or(|from| from < value || lower.is_inclusive && from == value);
        from && upper.value.is_none_or(|to| value < to || upper.is_inclusive && to == value)
    }

    /// Whether all of another is in it.
    pub fn contains(&self, other: &Self) -> bool {
        match (&self.bounds, &other.bounds) {
            (_, None) => true,
            (None, _) => false,
            (Some((lower, upper)), Some((from, to))) => {
                compare((lower, End::Lower), (from, End::Lower)).is_le()
                    && compare((upper, End::Upper), (to, End::Upper)).is_ge()
            }
        }
    }

    /// Whether something is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (&self.bounds, &other.bounds) {
            (Some((lower, upper)), Some((from, to))) => {
                compare((lower, End::Lower), (to, End::Upper)).is_le()
                    && compare((from, End::Lower), (upper, End::Upper)).is_le()
            }
            _ => false,
        }
    }

    /// Whether all of it is before all of another.
    pub fn is_before(&self, other: &Self) -> bool {
        match (&self.bounds, &other.bounds) {
            (Some((_, upper)), Some((from, _))) => compare((upper, End::Upper), (from, End::Lower)).is_lt(),
            _ => false,
        }
    }

    /// Whether it does not go on behind the end of another.
    pub fn ends_within(&self, other: &Self) -> bool {
        match (&self.bounds, &other.bounds) {
            (Some((_, upper)), Some((_, to))) => compare((upper, End::Upper), (to, End::Upper)).is_le(),
            _ => false,
        }
    }

    /// Whether it does not begin before the beginning of another.
    pub fn begins_within(&self, other: &Self) -> bool {
        match (&self.bounds, &other.bounds) {
            (Some((lower, _)), Some((from, _))) => compare((lower, End::Lower), (from, End::Lower)).is_ge(),
            _ => false,
        }
    }

    /// Whether it ends where another begins, with nothing between them and nothing in both.
    pub fn touches(&self, other: &Self) -> bool {
        match (&self.bounds, &other.bounds) {
            (Some((_, end)), Some((begin, _))) => {
                end.value.is_some() && end.value == begin.value && end.is_inclusive != begin.is_inclusive
            }
            _ => false,
        }
    }

    /// Whether one ends where the other begins, with nothing between them and nothing in both.
    pub fn is_adjacent(&self, other: &Self) -> bool {
        self.touches(other) || other.touches(self)
    }

    /// What is in both. Fails with 22003 if a bound leaves its type.
    pub fn intersection(&self, other: &Self) -> Result<Self> {
        match (&self.bounds, &other.bounds) {
            (Some((lower, upper)), Some((from, to))) if self.overlaps(other) => {
                let lower = if compare((lower, End::Lower), (from, End::Lower)).is_ge() { lower } else { from };
                let upper = if compare((upper, End::Upper), (to, End::Upper)).is_le() { upper } else { to };
                Self::new(self.kind, *lower, *upper)
            }
            _ => Ok(Self::empty(self.kind)),
        }
    }

    /// The least range that has both in it. Fails with 22003 if a bound leaves its type.
    pub fn merged(&self, other: &Self) -> Result<Self> {
        match (&self.bounds, &other.bounds) {
            (None, _) => Ok(other.clone()),
            (_, None) => Ok(self.clone()),
            (Some((lower, upper)), Some((from, to))) => {
                let lower = if compare((lower, End::Lower), (from, End::Lower)).is_le() { lower } else { from };
                let upper = if compare((upper, End::Upper), (to, End::Upper)).is_ge() { upper } else { to };
                Self::new(self.kind, *lower, *upper)
            }
        }
    }

    /// What is in one of them. Fails with 22000 if there is something between them.
    pub fn union(&self, other: &Self) -> Result<Self> {
        let is_whole = self.bounds.is_none() || other.bounds.is_none();
        match is_whole || self.overlaps(other) || self.is_adjacent(other) {
            true => self.merged(other),
            false => Err(Error::value("result of range union would not be contiguous").with_code("22000")),
        }
    }

    /// What is in this one only: nothing, or one or two ranges. Fails with 22003 if a bound leaves its type.
    pub fn without(&self, other: &Self) -> Result<Vec<Self>> {
        let (Some((lower, upper)), Some((from, to))) = (&self.bounds, &other.bounds) else {
            return Ok(vec![self.clone()]);
        };
        if !self.overlaps(other) {
            return Ok(vec![self.clone()]);
        }
        let other_side = |bound: &Bound| Bound { is_inclusive: !bound.is_inclusive, ..*bound };
        let mut parts = Vec::with_capacity(2);
        if compare((lower, End::Lower), (from, End::Lower)).is_lt() {
            parts.push(Self::new(self.kind, *lower, other_side(from))?);
        }
        if compare((upper, End::Upper), (to, End::Upper)).is_gt() {
            parts.push(Self::new(self.kind, other_side(to), *upper)?);
        }
        Ok(parts)
    }

    /// What is in this one only. Fails with 22000 if that is on both sides of the other.
    pub fn difference(&self, other: &Self) -> Result<Self> {
        let mut parts = self.without(other)?.into_iter();
        match (parts.next(), parts.next()) {
            (None, _) => Ok(Self::empty(self.kind)),
            (Some(only), None) => Ok(only),
            _ => Err(Error::value("result of range difference would not be contiguous").with_code("22000")),
        }
    }
}

/// The order of two ends on the line.
fn compare((left, left_end): (&Bound, End), (right, right_end): (&Bound, End)) -> Ordering {
    // A value with a bit of it before or behind: `(5` begins a bit behind 5, `5)` ends a bit before it.
    let place = |bound: &Bound, end: End| match (bound.value, end) {
        (None, End::Lower) => (0, arrow::datatypes::i256::ZERO, 0),
        (None, End::Upper) => (2, arrow::datatypes::i256::ZERO, 0),
        (Some(value), _) if bound.is_inclusive => (1, value, 0),
        (Some(value), End::Lower) => (1, value, 1),
        (Some(value), End::Upper) => (1, value, -1),
    };
    place(left, left_end).cmp(&place(right, right_end))
}

/// The next value of a discrete type.
fn next(kind: RangeKind, value: arrow::datatypes::i256) -> Result<arrow::datatypes::i256> {
    let next = value.wrapping_add(arrow::datatypes::i256::ONE);
    let fits = |most: i64| next <= arrow::datatypes::i256::from_i128(most.into());
    match kind {
        RangeKind::Integer if !fits(i32::MAX.into()) => Err(Error::value("integer out of range").with_code("22003")),
        RangeKind::BigInt if !fits(i64::MAX) => Err(Error::value("bigint out of range").with_code("22003")),
        _ => Ok(next),
    }
}

/// The text of a bound, without quotes and backslashes, and what is behind it. `None` for no text, `None` outside of it
/// if the range ends too early.
fn cut(text: &str) -> Option<(Option<String>, &str)> {
    let (mut bound, mut is_quoted, mut is_there) = (String::new(), false, false);
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => bound.push(letters.next()?.1),
            '"' if is_quoted && letters.next_if(|(_, next)| *next == '"').is_some() => bound.push('"'),
            '"' => {
                is_quoted = !is_quoted;
                is_there = true;
            }
            ',' | ']' | ')' | '(' | '[' if !is_quoted => {
                is_there |= !bound.is_empty();
                return Some((is_there.then_some(bound), &text[at..]));
            }
            letter => bound.push(letter),
        }
    }
    None
}

/// The number by which a bound is compared. Fails where its text is none of its type's values.
pub(crate) fn value_of(text: &str, kind: RangeKind, options: &ReadOptions) -> Result<arrow::datatypes::i256> {
    use arrow::datatypes::i256;
    let value = match kind {
        RangeKind::Numeric => return decimals::parse_decimal(text, NUMERIC_PRECISION, NUMERIC_SCALE),
        RangeKind::Integer => numbers::parse_integer(text, i32::MIN.into(), i32::MAX.into(), "integer")?,
        RangeKind::BigInt => numbers::parse_integer(text, i64::MIN, i64::MAX, "bigint")?,
        RangeKind::Date => datetime::parse_date(text, options)?.into(),
        RangeKind::Timestamp => datetime::parse_timestamp(text, options)?,
        RangeKind::TimestampTz => datetime::parse_timestamptz(text, options)?,
    };
    Ok(i256::from_i128(value.into()))
}

fn write_bound(out: &mut String, bound: &Bound, kind: RangeKind, zone: &Zone) {
    let start = out.len();
    write_value(out, bound, kind, zone);
    if out[start..].contains([' ', ',', '"', '\\', '(', ')', '[', ']']) {
        let text = out.split_off(start).replace('\\', "\\\\").replace('"', "\"\"");
        let _ = write!(out, "\"{text}\"");
    }
}

fn write_value(out: &mut String, bound: &Bound, kind: RangeKind, zone: &Zone) {
    let Some(value) = bound.value else { return };
    let number = value.to_i128().and_then(|value| i64::try_from(value).ok()).unwrap_or_default();
    match kind {
        RangeKind::Integer | RangeKind::BigInt => {
            let _ = write!(out, "{number}");
        }
        RangeKind::Numeric => decimals::write_wide_decimal(out, value, NUMERIC_SCALE, decimals::Zeros::Dropped),
        RangeKind::Date => datetime::write_date(out, i32::try_from(number).unwrap_or_default(), zone.styles()),
        RangeKind::Timestamp => datetime::write_timestamp(out, number, zone.styles()),
        RangeKind::TimestampTz => datetime::write_timestamptz(out, number, zone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str, kind: RangeKind) -> Range {
        Range::held(text, kind).unwrap()
    }

    #[test]
    fn a_range_has_one_form() {
        for (kind, text, shown) in [
            (RangeKind::Integer, "(1,5]", "[2,6)"),
            (RangeKind::Integer, "(1,2)", "empty"),
            (RangeKind::Integer, "[3,3]", "[3,4)"),
            (RangeKind::Integer, "[,]", "(,)"),
            (RangeKind::Date, "[2024-01-01,2024-01-31]", "[2024-01-01,2024-02-01)"),
            (RangeKind::Numeric, "[1.50,2.0]", "[1.5,2]"),
            (RangeKind::Timestamp, "[2024-01-01 10:00,)", "[\"2024-01-01 10:00:00\",)"),
            (RangeKind::Timestamp, " EMPTY ", "empty"),
        ] {
            assert_eq!(range(text, kind).text(), shown, "{text}");
            assert_eq!(range(shown, kind).text(), shown);
        }
        for wrong in ["", "1,2", "[1,2", "[1]", "[1,2,3)", "[1,2)x", "[5,1]"] {
            assert!(Range::held(wrong, RangeKind::BigInt).is_err(), "{wrong}");
        }
        assert_eq!(Range::held("[1,2147483647]", RangeKind::Integer).unwrap_err().code(), Some("22003"));
    }

    #[test]
    fn ranges_sort_by_their_beginning_and_then_by_their_end() {
        let sorted = ["empty", "(,1)", "(,)", "[1,2)", "[1,2]", "(1,2)", "[2,3)"];
        let keys = sorted.map(|text| range(text, RangeKind::Numeric).order_key());
        assert!(keys.is_sorted(), "{keys:?}");
    }
}
