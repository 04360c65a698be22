//! Tests of strings against constants: comparisons, LIKE, membership in a list.
//!
//! A test sees the bytes of one string. Short constants are compared with the 16-byte views of a view array directly:
//! a string of up to 12 bytes lies in its view whole, a longer one with its length and its first four bytes.

use std::fmt;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, OffsetSizeTrait, Scalar, StringViewArray, make_view};
use arrow::buffer::BooleanBuffer;
use arrow::compute;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};
use hashbrown::HashSet;
use memchr::memmem::Finder;

use super::compare::Comparison;
use super::search;
use crate::batch::{nulls_of, views};
use crate::expressions::bits::pack;

/// Up to this many members are compared one after another; a hash costs more than these comparisons.
const LINEAR_MEMBERS_MAX: usize = 6;

/// The string of a literal of any string type, unless it is NULL.
pub(in crate::expressions) fn text_of(scalar: &ScalarValue) -> Option<&str> {
    match scalar {
        ScalarValue::Dictionary(_, value) => text_of(value),
        scalar => scalar.try_as_str().flatten(),
    }
}

/// Whether a type holds strings that [`test_bytes`] can see.
pub(in crate::expressions) fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// A copy of a text in memory, also if it is empty. An empty `String` points nowhere, and comparing bytes there, none
/// of them, costs some processors a microcode assist of more than a hundred nanoseconds.
pub(in crate::expressions) fn owned(text: &str) -> String {
    let mut owned = String::with_capacity(text.len().max(1));
    owned.push_str(text);
    owned
}

/// The strings of an array compared with a constant.
pub(in crate::expressions) fn compare_text(
    array: &ArrayRef,
    comparison: Comparison,
    text: &str,
) -> Result<BooleanArray> {
    let bits = match comparison {
        Comparison::Equal => equal(array, text)?,
        Comparison::NotEqual => !&equal(array, text)?,
        _ => test_bytes(array, |bytes| comparison.holds(bytes.cmp(text.as_bytes())))?,
    };
    Ok(BooleanArray::new(bits, nulls_of(array)))
}

fn equal(array: &ArrayRef, text: &str) -> Result<BooleanBuffer> {
    let Some(strings) = array.as_string_view_opt() else {
        return test_bytes(array, |bytes| bytes == text.as_bytes());
    };
    let view = make_view(text.as_bytes(), 0, 0);
    if text.len() <= views::INLINE_BYTES {
        return Ok(pack(strings.views(), |other| other == view));
    }
    Ok(test_views(strings, |other| other as u64 == view as u64, |bytes| bytes == text.as_bytes()))
}

/// A test on the bytes of every string. Slots of NULLs are tested too: whatever they hold is a string.
fn test_bytes(array: &dyn Array, test: impl Fn(&[u8]) -> bool) -> Result<BooleanBuffer> {
    fn with_offsets<O: OffsetSizeTrait>(array: &dyn Array, test: impl Fn(&[u8]) -> bool) -> BooleanBuffer {
        let strings = array.as_string::<O>();
        let (offsets, bytes) = (strings.value_offsets(), strings.value_data());
        BooleanBuffer::collect_bool(strings.len(), |row| {
            test(&bytes[offsets[row].as_usize()..offsets[row + 1].as_usize()])
        })
    }
    match array.data_type() {
        DataType::Utf8 => Ok(with_offsets::<i32>(array, test)),
        DataType::LargeUtf8 => Ok(with_offsets::<i64>(array, test)),
        DataType::Utf8View => {
            let strings = array.as_string_view();
            Ok(BooleanBuffer::collect_bool(strings.len(), |row| test(strings.value(row).as_bytes())))
        }
        other => Err(Error::bug(format!("a test of strings met values of type {other}"))),
    }
}

/// A test on the bytes of those strings whose view passes a cheaper one.
fn test_views(
    strings: &StringViewArray,
    may_pass: impl Fn(u128) -> bool,
    test: impl Fn(&[u8]) -> bool,
) -> BooleanBuffer {
    let views = strings.views();
    BooleanBuffer::collect_bool(views.len(), |row| may_pass(views[row]) && test(strings.value(row).as_bytes()))
}

/// What the simplest patterns look for.
pub(crate) enum SoughtText {
    /// `abc%`.
    Beginning(String),
    /// `%abc%`.
    Piece(String),
}

impl SoughtText {
    /// What a pattern looks for; `None` if it is another one.
    pub(in crate::expressions) fn of(pattern: &str) -> Option<Self> {
        let mut pieces = pieces(pattern)?;
        match pieces.as_mut_slice() {
            [text, end] if !text.is_empty() && end.is_empty() => Some(Self::Beginning(std::mem::take(text))),
            [start, text, end] if start.is_empty() && !text.is_empty() && end.is_empty() => {
                Some(Self::Piece(std::mem::take(text)))
            }
            _ => None,
        }
    }
}

/// A LIKE pattern.
pub(in crate::expressions) struct Pattern {
    shape: PatternShape,
    negated: bool,
}

enum PatternShape {
    /// No wildcard.
    Exact(String),
    /// Only `%`: what is before the first, between them, after the last.
    Pieces { head: String, middle: Vec<Finder<'static>>, tail: String },
    /// Everything else, left to Arrow: `_`, and patterns that ignore case.
    General { pattern: String, ignore_case: bool },
}

impl Pattern {
    pub(in crate::expressions) fn new(pattern: &str, negated: bool, ignore_case: bool) -> Self {
        let shape = match pieces(pattern) {
            Some(mut pieces) if !ignore_case => {
                let head = pieces.remove(0);
                match pieces.pop() {
                    None => PatternShape::Exact(owned(&head)),
                    Some(tail) => {
                        let inner = pieces.iter().filter(|piece| !piece.is_empty());
                        let middle = inner.map(|piece| Finder::new(piece.as_bytes()).into_owned()).collect();
                        PatternShape::Pieces { head, middle, tail }
                    }
                }
            }
            _ => PatternShape::General { pattern: pattern.to_owned(), ignore_case },
        };
        Self { shape, negated }
    }

    /// The pattern of all strings that start with a prefix.
    pub(in crate::expressions) fn starting_with(prefix: &str) -> Self {
        let shape = PatternShape::Pieces { head: prefix.to_owned(), middle: Vec::new(), tail: String::new() };
        Self { shape, negated: false }
    }

    /// The three-valued answers for an array of strings.
    pub(in crate::expressions) fn test(&self, array: &ArrayRef) -> Result<BooleanArray> {
        let bits = match &self.shape {
            PatternShape::Exact(text) => equal(array, text)?,
            PatternShape::Pieces { head, middle, tail } => {
                let (head, tail) = (head.as_bytes(), tail.as_bytes());
                if let Some(strings) = array.as_string_view_opt().filter(|_| !head.is_empty()) {
                    // Four bytes of the head against four bytes of the view reject most strings without touching them.
                    let seen = head.len().min(4);
                    let mask = u32::MAX >> (32 - 8 * seen);
                    let mut start = [0; 4];
                    start[..seen].copy_from_slice(&head[..seen]);
                    let start = u32::from_le_bytes(start);
                    let length_min = head.len() + tail.len();
                    let may_pass =
                        |view: u128| ((view >> 32) as u32 & mask == start) & (view as u32 as usize >= length_min);
                    if head.len() <= 4 && middle.is_empty() && tail.is_empty() {
                        pack(strings.views(), may_pass)
                    } else {
                        test_views(strings, may_pass, |bytes| fits(bytes, head, middle, tail))
                    }
                } else if let Some(piece) = longest(middle).filter(|_| head.is_empty() && tail.is_empty()) {
                    containing(array, piece, |bytes| middle.len() == 1 || fits(bytes, head, middle, tail))?
                } else {
                    test_bytes(array, |bytes| fits(bytes, head, middle, tail))?
                }
            }
            PatternShape::General { pattern, ignore_case } => {
                let pattern = scalar_of(pattern, array.data_type())?;
                let answer = match (self.negated, ignore_case) {
                    (false, false) => compute::like(array, &pattern),
                    (true, false) => compute::nlike(array, &pattern),
                    (false, true) => compute::ilike(array, &pattern),
                    (true, true) => compute::nilike(array, &pattern),
                };
                return answer.map_err(from_arrow);
            }
        };
        let bits = if self.negated { !&bits } else { bits };
        Ok(BooleanArray::new(bits, nulls_of(array)))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.negated { "NOT " } else { "" })?;
        match &self.shape {
            PatternShape::Exact(text) => write!(f, "LIKE {text:?}"),
            PatternShape::Pieces { head, middle, tail } => {
                write!(f, "LIKE {head:?} + {} pieces + {tail:?}", middle.len())
            }
            PatternShape::General { pattern, .. } => write!(f, "LIKE {pattern:?} by Arrow"),
        }
    }
}

/// A string that one of the array's type is compared with.
fn scalar_of(text: &str, data_type: &DataType) -> Result<Scalar<ArrayRef>> {
    ScalarValue::Utf8(Some(text.to_owned()))
        .cast_to(data_type)
        .and_then(|scalar| scalar.to_scalar())
        .map_err(from_datafusion)
}

/// The piece that is found most quickly, and in the fewest strings.
fn longest<'p>(pieces: &'p [Finder<'static>]) -> Option<&'p Finder<'static>> {
    pieces.iter().max_by_key(|piece| piece.needle().len())
}

/// For every string whether it has a piece, and fits.
fn containing(array: &dyn Array, piece: &Finder<'_>, fits: impl Fn(&[u8]) -> bool) -> Result<BooleanBuffer> {
    match array.data_type() {
        DataType::Utf8 => Ok(search::in_offsets(array.as_string::<i32>(), piece, fits)),
        DataType::LargeUtf8 => Ok(search::in_offsets(array.as_string::<i64>(), piece, fits)),
        DataType::Utf8View => Ok(search::in_views(array.as_string_view(), piece, fits)),
        other => Err(Error::bug(format!("a search in strings met values of type {other}"))),
    }
}

/// Whether a string is the head, the middle pieces in their order somewhere, and the tail, without overlap. The
/// leftmost place for each piece leaves the most room for the rest, so no other choice need be tried.
fn fits(bytes: &[u8], head: &[u8], middle: &[Finder<'_>], tail: &[u8]) -> bool {
    if bytes.len() < head.len() + tail.len() {
        return false;
    }
    // Nothing is compared with nothing: see `owned`.
    if !head.is_empty() && !bytes.starts_with(head) || !tail.is_empty() && !bytes.ends_with(tail) {
        return false;
    }
    let mut rest = &bytes[head.len()..bytes.len() - tail.len()];
    for piece in middle {
        let Some(place) = piece.find(rest) else { return false };
        rest = &rest[place + piece.needle().len()..];
    }
    true
}

/// The text between the `%` of a pattern, with escapes resolved as Arrow does: a backslash makes any character stand
/// for itself, and the last character too. `None` for a pattern with `_`, which stands for a character and not a byte.
fn pieces(pattern: &str) -> Option<Vec<String>> {
    let mut pieces = vec![String::new()];
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        let literal = match character {
            '%' => {
                pieces.push(String::new());
                continue;
            }
            '_' => return None,
            '\\' => characters.next().unwrap_or('\\'),
            other => other,
        };
        if let Some(piece) = pieces.last_mut() {
            piece.push(literal);
        }
    }
    Some(pieces)
}

/// The strings of an IN list.
#[derive(Debug)]
pub(in crate::expressions) struct Strings {
    all: Vec<String>,
    /// Views of the members that lie in their views.
    inline: Vec<u128>,
    inline_set: HashSet<u128, foldhash::fast::RandomState>,
    /// The longer members.
    long: Vec<String>,
    set: HashSet<Box<[u8]>, foldhash::fast::RandomState>,
}

impl Strings {
    pub(in crate::expressions) fn new<'a>(members: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all = members.into_iter().map(owned).collect::<Vec<_>>();
        all.sort_unstable();
        all.dedup();
        let (short, long): (Vec<_>, Vec<_>) =
            all.iter().map(|text| owned(text)).partition(|text| text.len() <= views::INLINE_BYTES);
        let inline = short.iter().map(|text| make_view(text.as_bytes(), 0, 0)).collect::<Vec<_>>();
        Self {
            inline_set: inline.iter().copied().collect(),
            inline,
            set: all.iter().map(|text| text.as_bytes().into()).collect(),
            long,
            all,
        }
    }

    /// For every string whether it is a member.
    pub(in crate::expressions) fn contain(&self, array: &ArrayRef) -> Result<BooleanBuffer> {
        if let Some(strings) = array.as_string_view_opt() {
            return Ok(self.contain_views(strings));
        }
        if self.all.len() <= LINEAR_MEMBERS_MAX {
            test_bytes(array, |bytes| self.all.iter().any(|member| member.as_bytes() == bytes))
        } else {
            test_bytes(array, |bytes| self.set.contains(bytes))
        }
    }

    fn contain_views(&self, strings: &StringViewArray) -> BooleanBuffer {
        let short = if self.inline.len() <= LINEAR_MEMBERS_MAX {
            pack(strings.views(), |view| self.inline.iter().fold(false, |found, member| found | (*member == view)))
        } else {
            pack(strings.views(), |view| self.inline_set.contains(&view))
        };
        if self.long.is_empty() {
            return short;
        }
        let long = if self.long.len() <= LINEAR_MEMBERS_MAX {
            test_views(strings, views::is_long, |bytes| self.long.iter().any(|member| member.as_bytes() == bytes))
        } else {
            test_views(strings, views::is_long, |bytes| self.set.contains(bytes))
        };
        &short | &long
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{LargeStringArray, StringArray};

    use super::*;

    fn forms(values: &[Option<&str>]) -> Vec<ArrayRef> {
        vec![
            Arc::new(StringArray::from(values.to_vec())),
            Arc::new(LargeStringArray::from(values.to_vec())),
            Arc::new(StringViewArray::from(values.to_vec())),
        ]
    }

    const VALUES: [Option<&str>; 14] = [
        Some(""),
        Some("a"),
        Some("aa"),
        Some("ab"),
        Some("aba"),
        Some("PROMO BURNISHED COPPER"),
        Some("PROMO"),
        Some("PROM"),
        None,
        Some("a special thing, on request"),
        Some("100%"),
        Some("tail\\"),
        Some("żółw\nżółwie"),
        Some("twelve bytes"),
    ];

    #[test]
    fn like_agrees_with_arrow() {
        let patterns = [
            "",
            "%",
            "%%",
            "a",
            "a%",
            "%a",
            "a%a",
            "%a%a%",
            "ab%ba",
            "PROMO%",
            "PRO%",
            "%special%request%",
            "%COPPER",
            "100\\%",
            "100\\%%",
            "tail\\",
            "tail\\\\",
            "_",
            "a_",
            "%ł%ł%",
            "żó_w%",
            "twelve bytes",
            "twelve%",
            "\\a%",
        ];
        for array in forms(&VALUES) {
            for pattern in patterns {
                for (negated, ignore_case) in [(false, false), (true, false), (false, true), (true, true)] {
                    let scalar = scalar_of(pattern, array.data_type()).unwrap();
                    let expected = match (negated, ignore_case) {
                        (false, false) => compute::like(&array, &scalar),
                        (true, false) => compute::nlike(&array, &scalar),
                        (false, true) => compute::ilike(&array, &scalar),
                        (true, true) => compute::nilike(&array, &scalar),
                    };
                    let found = Pattern::new(pattern, negated, ignore_case).test(&array).unwrap();
                    assert_eq!(found, expected.unwrap(), "{pattern:?} {negated} {ignore_case} {array:?}");
                }
            }
        }
    }

    #[test]
    fn comparisons_agree_with_the_order_of_strings() {
        let all = [
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessEqual,
            Comparison::Greater,
            Comparison::GreaterEqual,
        ];
        for array in forms(&VALUES) {
            for text in VALUES.into_iter().flatten() {
                for comparison in all {
                    let found = compare_text(&array, comparison, text).unwrap();
                    let expected = VALUES.iter().map(|value| value.map(|value| comparison.holds(value.cmp(text))));
                    assert_eq!(found.iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn membership_is_the_same_for_few_and_many_members() {
        let many = (0..20).map(|number| format!("member {number:010}")).collect::<Vec<_>>();
        for extra in [0, 3, 20] {
            let members = ["a", "PROMO BURNISHED COPPER", "żółw\nżółwie"];
            let members = members.into_iter().chain(many.iter().take(extra).map(String::as_str)).collect::<Vec<_>>();
            let strings = Strings::new(members.iter().copied());
            for array in forms(&VALUES) {
                let found = strings.contain(&array).unwrap();
                for (row, value) in VALUES.iter().enumerate().filter(|(_, value)| value.is_some()) {
                    assert_eq!(found.value(row), members.contains(&value.unwrap()), "{value:?}");
                }
            }
        }
    }
}
