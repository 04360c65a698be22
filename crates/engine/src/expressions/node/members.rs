//! The constant list of IN and NOT IN.

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::Float64Type;
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use hashbrown::HashSet;

use super::compare::{Constant, Natives, natives};
use super::strings::{Strings, text_of};
use crate::batch::floats::FloatBits;
use crate::batch::nulls_of;
use crate::expressions::bits::pack;

/// Up to this many integers are compared one after another, in vector registers.
const LINEAR_MEMBERS_MAX: usize = 8;
/// Integers that lie within this distance have a byte each: a table that stays in the first cache.
const TABLE_BYTES_MAX: usize = 1 << 14;

/// A list of literals of one type, at least one of them not NULL.
#[derive(Debug)]
pub(in crate::expressions) struct Members {
    values: MemberValues,
    /// A value that is not in the list is not known to differ from a NULL in it.
    has_null: bool,
    negated: bool,
}

#[derive(Debug)]
enum MemberValues {
    Strings(Strings),
    Integers(Integers),
    Floats(Floats),
}

impl Members {
    /// The list, or `None` if it is not one of strings, or of values stored as integers or as floats.
    pub(in crate::expressions) fn new(literals: &[&ScalarValue], negated: bool) -> Option<Self> {
        let (nulls, known): (Vec<&ScalarValue>, Vec<&ScalarValue>) =
            literals.iter().copied().partition(|literal: &&ScalarValue| literal.is_null());
        let values = if text_of(known.first()?).is_some() {
            MemberValues::Strings(Strings::new(
                known.iter().map(|literal| text_of(literal)).collect::<Option<Vec<_>>>()?,
            ))
        } else if let Some(floats) = known.iter().map(|literal| float_of(literal)).collect::<Option<_>>() {
            MemberValues::Floats(Floats(floats))
        } else {
            let integers = known.iter().map(|literal| Constant::from_scalar(literal)?.integer());
            MemberValues::Integers(Integers::new(integers.collect::<Option<Vec<_>>>()?))
        };
        Some(Self { values, has_null: !nulls.is_empty(), negated })
    }

    /// The three-valued answer for every value of an array.
    pub(in crate::expressions) fn test(&self, array: &ArrayRef) -> Result<BooleanArray> {
        let found = match &self.values {
            MemberValues::Strings(strings) => strings.contain(array)?,
            MemberValues::Integers(integers) => integers.contain(array)?,
            MemberValues::Floats(floats) => floats.contain(array)?,
        };
        let nulls = match (nulls_of(array), self.has_null) {
            (nulls, false) => nulls,
            (nulls, true) => NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(found.clone()))),
        };
        Ok(BooleanArray::new(if self.negated { !&found } else { found }, nulls))
    }
}

/// A set of integers.
#[derive(Debug)]
struct Integers {
    /// Ascending, without duplicates.
    narrow: Vec<i64>,
    search: Search,
    wide: HashSet<i128, foldhash::fast::RandomState>,
}

#[derive(Debug)]
enum Search {
    Linear,
    /// A bit for each of the 64 integers from the least member on.
    Word(u64),
    /// A byte for every integer from the least member to the greatest.
    Bytes(Vec<bool>),
    Hash(HashSet<i64, foldhash::fast::RandomState>),
}

impl Integers {
    fn new(members: Vec<i128>) -> Self {
        let mut narrow = members.iter().filter_map(|member| i64::try_from(*member).ok()).collect::<Vec<_>>();
        narrow.sort_unstable();
        narrow.dedup();
        let distance = match (narrow.first(), narrow.last()) {
            (Some(first), Some(last)) => last.abs_diff(*first),
            _ => 0,
        };
        let search = if narrow.len() <= LINEAR_MEMBERS_MAX {
            Search::Linear
        } else if distance < 64 {
            Search::Word(narrow.iter().fold(0, |word, member| word | 1 << member.abs_diff(narrow[0])))
        } else if distance < TABLE_BYTES_MAX as u64 {
            let mut bytes = vec![false; distance as usize + 1];
            narrow.iter().for_each(|member| bytes[member.abs_diff(narrow[0]) as usize] = true);
            Search::Bytes(bytes)
        } else {
            Search::Hash(narrow.iter().copied().collect())
        };
        Self { narrow, search, wide: members.into_iter().collect() }
    }

    fn contain(&self, array: &ArrayRef) -> Result<BooleanBuffer> {
        Ok(match natives(array) {
            Some(Natives::I8(values)) => self.contain_narrow(values),
            Some(Natives::I16(values)) => self.contain_narrow(values),
            Some(Natives::I32(values)) => self.contain_narrow(values),
            Some(Natives::I64(values)) => self.contain_narrow(values),
            Some(Natives::U8(values)) => self.contain_narrow(values),
            Some(Natives::U16(values)) => self.contain_narrow(values),
            Some(Natives::U32(values)) => self.contain_narrow(values),
            Some(Natives::U64(values)) => pack(values, |value| self.wide.contains(&i128::from(value))),
            Some(Natives::I128(values)) => pack(values, |value| self.wide.contains(&value)),
            _ => return Err(Error::bug(format!("a list of integers met values of type {}", array.data_type()))),
        })
    }

    fn contain_narrow<T: Copy + Into<i64> + TryFrom<i64> + PartialEq>(&self, values: &[T]) -> BooleanBuffer {
        match &self.search {
            Search::Linear => {
                // In the column's own width: more values per register, and members it cannot hold drop out.
                let members = self.narrow.iter().filter_map(|member| T::try_from(*member).ok()).collect::<Vec<_>>();
                match members.len() {
                    0 => BooleanBuffer::new_unset(values.len()),
                    1..=2 => any_of::<T, 2>(values, &members),
                    3..=4 => any_of::<T, 4>(values, &members),
                    _ => any_of::<T, LINEAR_MEMBERS_MAX>(values, &members),
                }
            }
            Search::Word(word) => {
                let first = self.narrow[0];
                let distance = |value: T| value.into().wrapping_sub(first) as u64;
                pack(values, |value| (distance(value) < 64) & ((word >> (distance(value) % 64)) & 1 == 1))
            }
            Search::Bytes(bytes) => {
                let first = self.narrow[0];
                let place = |value: T| value.into().wrapping_sub(first) as u64 as usize;
                pack(values, |value| bytes.get(place(value)).is_some_and(|byte| *byte))
            }
            Search::Hash(members) => pack(values, |value| members.contains(&value.into())),
        }
    }
}

/// A set of floats, by the bits of those that stand for all equal ones.
#[derive(Debug)]
struct Floats(HashSet<u64, foldhash::fast::RandomState>);

impl Floats {
    fn contain(&self, array: &ArrayRef) -> Result<BooleanBuffer> {
        let contains = |value: f64| self.0.contains(&Float64Type::canonical_bits(value));
        Ok(match natives(array) {
            Some(Natives::F32(values)) => pack(values, |value| contains(value.into())),
            Some(Natives::F64(values)) => pack(values, contains),
            _ => return Err(Error::bug(format!("a list of floats met values of type {}", array.data_type()))),
        })
    }
}

fn float_of(literal: &ScalarValue) -> Option<u64> {
    let value = match literal {
        ScalarValue::Float32(Some(value)) => f64::from(*value),
        ScalarValue::Float64(Some(value)) => *value,
        _ => return None,
    };
    Some(Float64Type::canonical_bits(value))
}

/// For each value whether it is one of at most `N` members; compiled for each `N`, so that the members stay in
/// registers.
fn any_of<T: Copy + PartialEq, const N: usize>(values: &[T], members: &[T]) -> BooleanBuffer {
    let members: [T; N] = std::array::from_fn(|index| members[index.min(members.len() - 1)]);
    pack(values, |value| members.iter().fold(false, |found, member| found | (*member == value)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float32Array, Float64Array, Int32Array, Int64Array};

    use super::*;

    fn list(members: &[Option<i64>], negated: bool) -> Members {
        let literals = members.iter().map(|member| ScalarValue::Int64(*member)).collect::<Vec<_>>();
        Members::new(&literals.iter().collect::<Vec<_>>(), negated).unwrap()
    }

    #[test]
    fn every_way_to_search_finds_the_same() {
        let values = [i64::MIN, -3, 0, 7, 8, 1_000_000, i64::MAX];
        let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let sets: [Vec<i64>; 5] = [
            vec![7, i64::MIN],
            vec![7, -3, 8, 100, 200],
            (0..20).collect(),
            (0..40).map(|number| number * 7 - 21).collect(),
            (0..40).map(|number| number * 1_000_000).chain([i64::MIN, i64::MAX]).collect(),
        ];
        for set in sets {
            let members = set.iter().copied().map(Some).collect::<Vec<_>>();
            let found = list(&members, false).test(&array).unwrap();
            assert_eq!(found.values().iter().collect::<Vec<_>>(), values.map(|value| set.contains(&value)));
        }
    }

    #[test]
    fn equal_floats_are_found_whatever_their_bits() {
        let literals = [0.0, f64::NAN, 1.5].map(|value| ScalarValue::Float64(Some(value)));
        let members = Members::new(&literals.iter().collect::<Vec<_>>(), false).unwrap();
        let array: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, -f64::NAN, 1.5, 2.5]));
        assert_eq!(members.test(&array).unwrap(), BooleanArray::from(vec![true, true, true, false]));
        let array: ArrayRef = Arc::new(Float32Array::from(vec![Some(-0.0), Some(f32::NAN), None, Some(1.25)]));
        let expected = BooleanArray::from(vec![Some(true), Some(true), None, Some(false)]);
        assert_eq!(members.test(&array).unwrap(), expected);
    }

    #[test]
    fn a_null_in_the_list_makes_misses_unknown() {
        let array: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None]));
        let found = list(&[Some(1), None], false).test(&array).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), vec![Some(true), None, None]);
        let found = list(&[Some(1), None, Some(1 << 40)], true).test(&array).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), vec![Some(false), None, None]);
    }
}
