//! Multiranges: ranges of one type, in order, with something between each two. Their text, read and written, and what
//! they have in common with each other.

use diligence_base::{Error, Result};

use super::{Range, ReadOptions, Zone};
use crate::range_type::RangeKind;

/// A multirange. Its ranges are in order; none is empty, and no two of them overlap or touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multirange {
    /// Of which type its ranges are.
    pub kind: RangeKind,
    ranges: Vec<Range>,
}

fn malformed(text: &str, detail: &'static str) -> Error {
    Error::input(format!("malformed multirange literal: \"{text}\"")).with_code("22P02").with_detail(detail)
}

impl Multirange {
    /// What is in any of some ranges of this type. Fails with 22003 if a bound leaves its type.
    pub fn new(kind: RangeKind, mut ranges: Vec<Range>) -> Result<Self> {
        ranges.retain(|range| range.bounds.is_some());
        ranges.sort_by_cached_key(Range::order_key);
        let mut apart: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match apart.last_mut() {
                Some(last) if last.overlaps(&range) || last.is_adjacent(&range) => *last = last.merged(&range)?,
                _ => apart.push(range),
            }
        }
        Ok(Self { kind, ranges: apart })
    }

    /// Reads a text. Fails with 22P02 if it is no multirange, and where a range of it cannot be read.
    pub fn read(text: &str, kind: RangeKind, options: &ReadOptions) -> Result<Self> {
        let mut rest = super::trim(text);
        rest = rest.strip_prefix('{').ok_or_else(|| malformed(text, "Missing left brace."))?;
        let mut ranges = Vec::new();
        let ended = || malformed(text, "Unexpected end of input.");
        loop {
            rest = super::trim(rest);
            let is_first = ranges.is_empty();
            match rest.chars().next().ok_or_else(ended)? {
                '}' if is_first => break,
                '[' | '(' => {
                    let length = range_length(rest).ok_or_else(ended)?;
                    ranges.push(Range::read(&rest[..length], kind, options)?);
                    rest = &rest[length..];
                }
                _ if rest.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("empty")) => {
                    ranges.push(Range::empty(kind));
                    rest = &rest[5..];
                }
                _ => return Err(malformed(text, "Expected range start.")),
            }
            rest = super::trim(rest);
            match rest.chars().next().ok_or_else(ended)? {
                '}' => break,
                ',' => rest = &rest[1..],
                _ => return Err(malformed(text, "Expected comma or end of multirange.")),
            }
        }
        match super::trim(&rest[1..]) {
            "" => Self::new(kind, ranges),
            _ => Err(malformed(text, "Junk after closing right brace.")),
        }
    }

    /// Reads a value as it is held. Fails with 22P02 if the text is none of the type.
    pub fn held(text: &str, kind: RangeKind) -> Result<Self> {
        Self::read(text, kind, &ReadOptions::default())
    }

    /// Writes its text; timestamps with a zone in this one.
    pub fn write(&self, out: &mut String, zone: &Zone) {
        out.push('{');
        for (index, range) in self.ranges.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            range.write(out, zone);
        }
        out.push('}');
    }

    /// Its text as it is held.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, &Zone::UTC);
        out
    }

    /// Its ranges, in order.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Bytes that sort as multiranges do: range by range, and what ends first before what goes on.
    pub fn order_key(&self) -> Vec<u8> {
        self.ranges.iter().flat_map(Range::order_key).collect()
    }

    /// The least range that has all in it. Fails with 22003 if a bound leaves its type.
    pub fn span(&self) -> Result<Range> {
        match (self.ranges.first(), self.ranges.last()) {
            (Some(first), Some(last)) => first.merged(last),
            _ => Ok(Range::empty(self.kind)),
        }
    }

    /// Whether all of another is in it.
    pub fn contains(&self, other: &Self) -> bool {
        other.ranges.iter().all(|range| self.ranges.iter().any(|own| own.contains(range)))
    }

    /// Whether something is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.ranges.iter().any(|own| other.ranges.iter().any(|range| own.overlaps(range)))
    }

    /// What two outer ranges say; not, if there are none.
    fn of_ends(left: Option<&Range>, right: Option<&Range>, test: impl Fn(&Range, &Range) -> bool) -> bool {
        left.zip(right).is_some_and(|(left, right)| test(left, right))
    }

    /// Whether all of it is before all of another.
    pub fn is_before(&self, other: &Self) -> bool {
        Self::of_ends(self.ranges.last(), other.ranges.first(), Range::is_before)
    }

    /// Whether it does not go on behind the end of another.
    pub fn ends_within(&self, other: &Self) -> bool {
        Self::of_ends(self.ranges.last(), other.ranges.last(), Range::ends_within)
    }

    /// Whether it does not begin before another does.
    pub fn begins_within(&self, other: &Self) -> bool {
        Self::of_ends(self.ranges.first(), other.ranges.first(), Range::begins_within)
    }

    /// Whether one begins where the other ends, with nothing between them and nothing in both.
    pub fn is_adjacent(&self, other: &Self) -> bool {
        Self::of_ends(self.ranges.last(), other.ranges.first(), Range::touches)
            || Self::of_ends(other.ranges.last(), self.ranges.first(), Range::touches)
    }

    /// What is in one of them. Fails with 22003 if a bound leaves its type.
    pub fn union(&self, other: &Self) -> Result<Self> {
        Self::new(self.kind, self.ranges.iter().chain(&other.ranges).cloned().collect())
    }

    /// What is in both. Fails like [`union`](Self::union).
    pub fn intersection(&self, other: &Self) -> Result<Self> {
        let pairs = self.ranges.iter().flat_map(|own| other.ranges.iter().map(move |range| own.intersection(range)));
        Self::new(self.kind, pairs.collect::<Result<_>>()?)
    }

    /// What is in this one only. Fails like [`union`](Self::union).
    pub fn difference(&self, other: &Self) -> Result<Self> {
        let mut left = self.ranges.clone();
        for range in &other.ranges {
            let parts = left.iter().map(|own| own.without(range)).collect::<Result<Vec<_>>>()?;
            left = parts.into_iter().flatten().collect();
        }
        Self::new(self.kind, left)
    }
}

/// How many bytes of a text a range has that begins it. `None` if it does not end.
fn range_length(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ']' | ')' if !is_quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn multirange(text: &str) -> Multirange {
        Multirange::held(text, RangeKind::Integer).unwrap()
    }

    #[test]
    fn a_multirange_has_one_form() {
        for (text, shown) in [
            ("{}", "{}"),
            (" { } ", "{}"),
            ("{empty}", "{}"),
            ("{[1,2], [5,8)}", "{[1,3),[5,8)}"),
            ("{[5,8),[1,3)}", "{[1,3),[5,8)}"),
            ("{[1,3),[3,8)}", "{[1,8)}"),
            ("{[1,9),[3,8),(,2]}", "{(,9)}"),
        ] {
            assert_eq!(multirange(text).text(), shown, "{text}");
        }
        for wrong in ["", "{", "[1,2)", "{1}", "{[1,2)", "{[1,2),}", "{[1,2) [3,4)}", "{}x", "{,[1,2)}", "{[1,2"] {
            let error = Multirange::held(wrong, RangeKind::Integer).unwrap_err();
            assert_eq!(error.code(), Some("22P02"), "{wrong}");
        }
        let zoned = "{[\"2024-01-01 00:00:00+00\",\"2024-01-02 00:00:00+00\")}";
        assert_eq!(Multirange::held(zoned, RangeKind::TimestampTz).unwrap().text(), zoned);
    }

    /// Each operation against what it says of each number.
    #[test]
    fn operations_are_those_of_sets() {
        let all = ["{}", "{[1,3)}", "{[0,2),[4,6)}", "{[2,4)}", "{(,1),[5,)}", "{[3,4),[5,6),[7,8)}", "{(,)}"];
        let has = |one: &Multirange, value: i128| {
            let value = arrow::datatypes::i256::from_i128(value);
            one.ranges().iter().any(|range| range.has(value))
        };
        for (left, right) in all.iter().flat_map(|left| all.iter().map(move |right| (left, right))) {
            let (a, b) = (multirange(left), multirange(right));
            let (union, both, only) = (a.union(&b).unwrap(), a.intersection(&b).unwrap(), a.difference(&b).unwrap());
            let values = -1..10;
            for value in values.clone() {
                let (in_a, in_b) = (has(&a, value), has(&b, value));
                assert_eq!(has(&union, value), in_a || in_b, "{left} + {right}: {value}");
                assert_eq!(has(&both, value), in_a && in_b, "{left} * {right}: {value}");
                assert_eq!(has(&only, value), in_a && !in_b, "{left} - {right}: {value}");
            }
            assert_eq!(a.overlaps(&b), !both.ranges().is_empty(), "{left} && {right}");
            assert_eq!(a.contains(&b), only_of(&b, &a), "{left} @> {right}");
        }
        fn only_of(b: &Multirange, a: &Multirange) -> bool {
            b.difference(a).unwrap().ranges().is_empty()
        }
    }

    #[test]
    fn multiranges_touch_with_their_ends_only() {
        for (left, right, touch) in [
            ("{[1,3)}", "{[3,4)}", true),
            ("{[3,4)}", "{[1,3)}", true),
            ("{[1,3)}", "{[3,4),[8,9)}", true),
            ("{[8,9)}", "{[1,3),[9,12)}", false),
            ("{[3,5)}", "{[1,3),[8,9)}", false),
            ("{}", "{[1,3)}", false),
        ] {
            assert_eq!(multirange(left).is_adjacent(&multirange(right)), touch, "{left} {right}");
        }
        let sorted = ["{}", "{(,3)}", "{[1,2)}", "{[1,2),[3,4)}", "{[1,3)}", "{[1,)}", "{[2,3)}"];
        assert!(sorted.map(|text| multirange(text).order_key()).is_sorted());
    }
}
