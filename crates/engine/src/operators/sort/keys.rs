//! The codes of many rows: collected in the order of arrival, then put in order.
//!
//! A sort moves small entries (a code or its first bytes, and a row number), never rows. Where code and row number fit
//! one machine word together, that word is the entry.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Decimal128Array, UInt64Array};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Decimal128Type, UInt64Type};
use arrow_row::Rows;
use diligence_base::{Error, Result};

use super::gather::Pick;
use crate::batch::prefetch::{AHEAD, prefetch};

/// Codes in the order of arrival.
pub(super) enum Keys {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
    Bytes(Rows),
}

/// Codes in order: what a run is merged by. On the disk they are a column in front of the payload's.
pub(super) enum SortedKeys {
    Narrow(ScalarBuffer<u64>),
    /// Codes as the bits of signed numbers, which Arrow has as a type.
    Wide(ScalarBuffer<i128>),
    Bytes(SortedBytes),
}

/// Codes of bytes in order.
pub(super) struct SortedBytes {
    bytes: Buffer,
    /// Row `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    offsets: Vec<usize>,
    /// Where each row first differs from the one before: see [`difference`].
    pub differences: Vec<u64>,
}

impl Keys {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Keys::Narrow(codes) => codes.len(),
            Keys::Wide(codes) => codes.len(),
            Keys::Bytes(rows) => rows.num_rows(),
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Keys::Narrow(codes) => codes.capacity() * size_of::<u64>(),
            Keys::Wide(codes) => codes.capacity() * size_of::<u128>(),
            Keys::Bytes(rows) => rows.size(),
        }
    }

    /// The row numbers in the order of their codes, which are numbers of at most `bits` bits if they are numbers; rows
    /// with equal codes in the order of arrival.
    pub fn order(&self, bits: u32) -> Vec<u32> {
        let rows = self.len();
        let row_bits = usize::BITS - rows.leading_zeros();
        match self {
            Keys::Narrow(codes) if bits + row_bits <= u64::BITS => {
                let entries = codes.iter().enumerate().map(|(row, &code)| code << row_bits | row as u64).collect();
                sorted(entries).into_iter().map(|entry| (entry & ((1 << row_bits) - 1)) as u32).collect()
            }
            Keys::Narrow(codes) => {
                let entries =
                    codes.iter().enumerate().map(|(row, &code)| u128::from(code) << 64 | row as u128).collect();
                sorted(entries).into_iter().map(|entry| entry as u32).collect()
            }
            Keys::Wide(codes) if bits + u32::BITS <= u128::BITS => {
                let entries = codes.iter().enumerate().map(|(row, &code)| code << u32::BITS | row as u128).collect();
                sorted(entries).into_iter().map(|entry| entry as u32).collect()
            }
            Keys::Wide(codes) => {
                let entries = codes.iter().enumerate().map(|(row, &code)| (code, row as u32)).collect();
                sorted(entries).into_iter().map(|entry| entry.1).collect()
            }
            Keys::Bytes(rows) => order_bytes(rows),
        }
    }

    /// The rows of the `count` smallest codes in no order, and the row of the largest among them. There must be at
    /// least `count` rows, and `count` must not be zero.
    pub fn smallest(&self, count: usize) -> (Vec<u32>, usize) {
        fn select<T>(
            mut entries: Vec<T>,
            count: usize,
            compare: impl Fn(&T, &T) -> Ordering,
            row: impl Fn(&T) -> u32,
        ) -> (Vec<u32>, usize) {
            let (_, largest, _) = entries.select_nth_unstable_by(count - 1, compare);
            let largest = row(largest) as usize;
            entries.truncate(count);
            (entries.iter().map(row).collect(), largest)
        }
        match self {
            Keys::Narrow(codes) => {
                let entries = codes.iter().enumerate().map(|(row, &code)| (code, row as u32)).collect::<Vec<_>>();
                select(entries, count, Ord::cmp, |entry| entry.1)
            }
            Keys::Wide(codes) => {
                let entries = codes.iter().enumerate().map(|(row, &code)| (code, row as u32)).collect::<Vec<_>>();
                select(entries, count, Ord::cmp, |entry| entry.1)
            }
            Keys::Bytes(rows) => {
                let entries = (0..rows.num_rows() as u32).collect::<Vec<_>>();
                let key = |row: u32| rows.row(row as usize).data();
                select(entries, count, |&a, &b| key(a).cmp(key(b)).then(a.cmp(&b)), |&row| row)
            }
        }
    }

    /// The codes of the given rows, in that order. Codes of bytes are put into `taken`, which is empty and of their
    /// form.
    pub fn take(&self, order: &[u32], mut taken: Keys) -> Keys {
        match self {
            Keys::Narrow(codes) => Keys::Narrow(order.iter().map(|&row| codes[row as usize]).collect()),
            Keys::Wide(codes) => Keys::Wide(order.iter().map(|&row| codes[row as usize]).collect()),
            Keys::Bytes(rows) => {
                if let Keys::Bytes(taken) = &mut taken {
                    taken.reserve(order.len(), order.iter().map(|&row| rows.row_len(row as usize)).sum());
                    order.iter().for_each(|&row| taken.push(rows.row(row as usize)));
                }
                taken
            }
        }
    }

    /// Puts the codes of other rows, of the same form, behind these.
    pub fn extend(&mut self, other: Keys) {
        match (self, other) {
            (Keys::Narrow(codes), Keys::Narrow(more)) => codes.extend(more),
            (Keys::Wide(codes), Keys::Wide(more)) => codes.extend(more),
            (Keys::Bytes(rows), Keys::Bytes(more)) => more.iter().for_each(|row| rows.push(row)),
            _ => unreachable!("all keys of one sort have one form"),
        }
    }

    /// The codes in the given order, which is theirs.
    pub fn into_sorted(self, order: &[u32]) -> SortedKeys {
        match self {
            Keys::Narrow(codes) => SortedKeys::Narrow(order.iter().map(|&row| codes[row as usize]).collect()),
            Keys::Wide(codes) => SortedKeys::Wide(order.iter().map(|&row| codes[row as usize] as i128).collect()),
            Keys::Bytes(rows) => SortedKeys::Bytes(SortedBytes::new(&rows, order)),
        }
    }
}

impl SortedKeys {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            SortedKeys::Narrow(codes) => codes.len(),
            SortedKeys::Wide(codes) => codes.len(),
            SortedKeys::Bytes(rows) => rows.len(),
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            SortedKeys::Narrow(codes) => codes.len() * size_of::<u64>(),
            SortedKeys::Wide(codes) => codes.len() * size_of::<u128>(),
            SortedKeys::Bytes(rows) => rows.bytes.len() + rows.len() * BYTES_HELD_BESIDE,
        }
    }

    /// The codes of a column as [`Self::column`] makes it. Values are not copied.
    pub fn of_column(column: &ArrayRef) -> Result<Self> {
        match column.data_type() {
            DataType::UInt64 => Ok(SortedKeys::Narrow(column.as_primitive::<UInt64Type>().values().clone())),
            DataType::Decimal128(..) => Ok(SortedKeys::Wide(column.as_primitive::<Decimal128Type>().values().clone())),
            DataType::Binary => Ok(SortedKeys::Bytes(SortedBytes::of_column(column.as_binary()))),
            other => Err(Error::bug(format!("a run on the disk has keys of type {other}"))),
        }
    }

    /// The codes of picked rows of several runs, which must be in order, as a column to be written. Fails if they have
    /// 2 GiB.
    pub fn column(runs: &[&SortedKeys], picks: &[Pick]) -> Result<ArrayRef> {
        macro_rules! numbers {
            ($form:ident, $Array:ident) => {{
                let code = |pick: &Pick| match runs[pick.block as usize] {
                    SortedKeys::$form(codes) => codes[pick.row as usize],
                    _ => unreachable!("all runs of one sort have one form"),
                };
                let codes: ScalarBuffer<_> = picks.iter().map(code).collect();
                Ok(Arc::new($Array::new(codes, None)))
            }};
        }
        match runs.first() {
            Some(SortedKeys::Narrow(_)) => numbers!(Narrow, UInt64Array),
            Some(SortedKeys::Wide(_)) => numbers!(Wide, Decimal128Array),
            Some(SortedKeys::Bytes(_)) => {
                let code = |pick: &Pick| match runs[pick.block as usize] {
                    SortedKeys::Bytes(rows) => rows.row(pick.row as usize),
                    _ => unreachable!("all runs of one sort have one form"),
                };
                let total: usize = picks.iter().map(|pick| code(pick).len()).sum();
                if i32::try_from(total).is_err() {
                    return Err(Error::unsupported("sort keys of 2 GiB or more cannot be spilled"));
                }
                let mut bytes = Vec::with_capacity(total);
                picks.iter().for_each(|pick| bytes.extend_from_slice(code(pick)));
                let offsets = OffsetBuffer::from_lengths(picks.iter().map(|pick| code(pick).len()));
                Ok(Arc::new(BinaryArray::new(offsets, bytes.into(), None)))
            }
            None => Err(Error::bug("rows were picked from no run")),
        }
    }
}

impl SortedBytes {
    /// First all bytes, then all differences: what is read here and there must not be waited for to know how far two
    /// codes agree.
    fn new(rows: &Rows, order: &[u32]) -> Self {
        let mut bytes = Vec::with_capacity(order.iter().map(|&row| rows.row_len(row as usize)).sum());
        let mut offsets = Vec::with_capacity(order.len() + 1);
        offsets.push(0);
        for (place, &row) in order.iter().enumerate() {
            if let Some(&ahead) = order.get(place + AHEAD) {
                prefetch(rows.row(ahead as usize).data(), 0);
            }
            bytes.extend_from_slice(rows.row(row as usize).data());
            offsets.push(bytes.len());
        }
        Self::of(bytes.into(), offsets)
    }

    fn of_column(column: &BinaryArray) -> Self {
        let offsets = column.value_offsets().iter().map(|&offset| offset as usize).collect();
        Self::of(column.values().clone(), offsets)
    }

    fn of(bytes: Buffer, offsets: Vec<usize>) -> Self {
        let mut codes = offsets.array_windows().map(|&[from, to]| &bytes[from..to]);
        let mut before = codes.next().unwrap_or_default();
        let first = (offsets.len() > 1).then(|| first_difference(before));
        let rest = codes.map(|code| difference(std::mem::replace(&mut before, code), code, 0));
        let differences = first.into_iter().chain(rest).collect();
        Self { bytes, offsets, differences }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.differences.len()
    }

    /// The code of a row.
    pub fn row(&self, row: usize) -> &[u8] {
        &self.bytes[self.offsets[row]..self.offsets[row + 1]]
    }
}

/// Bytes that a code of bytes needs in memory beside its own: an offset and a difference.
pub(super) const BYTES_HELD_BESIDE: usize = size_of::<usize>() + size_of::<u64>();

fn sorted<T: Ord>(mut entries: Vec<T>) -> Vec<T> {
    entries.sort_unstable();
    entries
}

/// Sorts by the eight bytes after what all rows begin with; only where these are equal are whole codes compared.
fn order_bytes(rows: &Rows) -> Vec<u32> {
    if rows.num_rows() == 0 {
        return Vec::new();
    }
    let key = |row: usize| rows.row(row).data();
    let first = key(0);
    let common = rows.iter().fold(first.len(), |common, row| equal_bytes(&first[..common], row.data()));
    let entry = |row: usize| u128::from(number_at::<8>(key(row), common)) << 64 | row as u128;
    let mut entries = sorted((0..rows.num_rows()).map(entry).collect());
    let rest = |entry: u128| {
        let key = key(entry as u32 as usize);
        &key[(common + 8).min(key.len())..]
    };
    // Numbers alone are compared without branches that nobody can foresee.
    for equal in entries.chunk_by_mut(|a, b| a >> 64 == b >> 64).filter(|equal| equal.len() > 1) {
        equal.sort_unstable_by(|&a, &b| rest(a).cmp(rest(b)).then(a.cmp(&b)));
    }
    entries.into_iter().map(|entry| entry as u32).collect()
}

/// How many bytes two codes share at their beginning.
fn equal_bytes(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let mut at = 0;
    while at + 8 <= length {
        let different = number_at::<8>(a, at) ^ number_at::<8>(b, at);
        if different != 0 {
            return at + different.leading_zeros() as usize / 8;
        }
        at += 8;
    }
    at + a[at..length].iter().zip(&b[at..length]).take_while(|(a, b)| a == b).count()
}

/// `N` bytes from a place as a number, zeros where the code has ended. No code of a sort is the beginning of another,
/// so the zeros are never taken for bytes.
fn number_at<const N: usize>(key: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    match key.get(at..at + N) {
        Some(part) => bytes[8 - N..].copy_from_slice(part),
        None => {
            let part = key.get(at..).unwrap_or_default();
            bytes[8 - N..8 - N + part.len()].copy_from_slice(part);
        }
    }
    u64::from_be_bytes(bytes)
}

/// Bytes in a word of an offset-value code.
const WORD_BYTES: usize = 6;
/// The last word that an offset-value code can name; a later difference counts as one there.
const WORD_MAX: usize = 0xFFFE;
const VALUE_BITS: u32 = 48;

/// The offset-value code of `key` with respect to `base`, which is not larger (Conner's offset-value coding, as used
/// for merging by tree-of-losers priority queues). Both are read as words of six bytes. The code says which word is the
/// first that differs, and what it is in `key`:
///
/// ```text
///   63                  48 47                                  0
///   | 0xFFFF - word index |   the word at that index in `key`   |          0: `key` equals `base`
/// ```
///
/// Of two keys with codes for the same base the one with the smaller code is smaller: it equals the base for longer, or
/// has the smaller value where both leave it. Then the code of the larger key for the smaller one is the code it has.
/// Only if both codes are equal are keys looked at, from the next word on. `from_word`: words before it are known to be
/// equal.
pub(super) fn difference(base: &[u8], key: &[u8], from_word: usize) -> u64 {
    let from = (from_word * WORD_BYTES).min(base.len()).min(key.len());
    let at = from + equal_bytes(&base[from..], &key[from..]);
    if at == base.len() && at == key.len() { 0 } else { code_at(key, at / WORD_BYTES) }
}

/// The offset-value code of a key with respect to something that is smaller from the first byte on.
pub(super) fn first_difference(key: &[u8]) -> u64 {
    code_at(key, 0)
}

fn code_at(key: &[u8], word: usize) -> u64 {
    let word = word.min(WORD_MAX);
    ((0xFFFF - word) as u64) << VALUE_BITS | number_at::<WORD_BYTES>(key, word * WORD_BYTES)
}

/// Compares two keys that have the same offset-value code for the same base: their order, and the code of the larger
/// one for the smaller one.
pub(super) fn settle(code: u64, a: &[u8], b: &[u8]) -> (Ordering, u64) {
    if code == 0 {
        return (Ordering::Equal, 0);
    }
    let word = 0xFFFF - (code >> VALUE_BITS) as usize;
    let from = ((word + 1) * WORD_BYTES).min(a.len()).min(b.len());
    match a[from..].cmp(&b[from..]) {
        Ordering::Equal => (Ordering::Equal, 0),
        Ordering::Less => (Ordering::Less, difference(a, b, word + 1)),
        Ordering::Greater => (Ordering::Greater, difference(b, a, word + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_for_one_base_order_keys_and_survive_a_lost_comparison() {
        let base: &[u8] = b"stagecoach 0001!";
        let keys: [&[u8]; 5] =
            [b"stagecoach 0001!", b"stagecoach 0002!", b"stagecoach 0002#", b"stagecoats 0001!", b"travel"];
        for (place, smaller) in keys.iter().enumerate() {
            for larger in &keys[place + 1..] {
                let (small, large) = (difference(base, smaller, 0), difference(base, larger, 0));
                assert!(small <= large);
                let expected = difference(smaller, larger, 0);
                if small == large {
                    assert_eq!(settle(small, larger, smaller), (Ordering::Greater, expected));
                } else {
                    assert_eq!(large, expected);
                }
            }
        }
    }

    #[test]
    fn keys_that_differ_late_are_told_apart() {
        let mut a = vec![7; WORD_BYTES * WORD_MAX + 100];
        let mut b = a.clone();
        let base = a.clone();
        a[WORD_BYTES * WORD_MAX + 50] = 8;
        b[WORD_BYTES * WORD_MAX + 80] = 8;
        let (code_a, code_b) = (difference(&base, &a, 0), difference(&base, &b, 0));
        assert_eq!(code_a, code_b);
        assert_eq!(settle(code_a, &a, &b).0, Ordering::Greater);
    }

    #[test]
    fn the_smallest_codes_are_found() {
        let keys = Keys::Narrow(vec![5, 3, 9, 3, 1]);
        let (mut rows, largest) = keys.smallest(2);
        rows.sort_unstable();
        assert_eq!((rows, largest), (vec![1, 4], 1));
    }
}
