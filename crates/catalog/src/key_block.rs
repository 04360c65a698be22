//! A block of an index's run: the keys of some entries in order, with the numbers of their rows.
//!
//! A block has the keys of up to [`BLOCK_ENTRIES`] entries, without what all of them begin with, and the rows' numbers
//! as differences to the least of them, in as few bytes as they need: some twelve bytes for a number without pattern,
//! some three for one that rises with the rows. It is one piece of bytes that says itself what is where, and never
//! changes: so it may lie in memory or in a file.
//!
//! ```text
//!   entries (2) ─ bytes of the prefix (2) ─ of a suffix (2) ─ of a number (2) ─ the least number (8)
//!   prefix │ where each suffix ends (2 each), if they differ in length │ suffixes │ numbers
//! ```

use std::cmp::Ordering;

use bytes::Bytes;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;

/// Bytes of a key in a run, at most: the ends of all keys of a block fit into two bytes.
pub(crate) const KEY_BYTES_MAX: usize = 248;
/// Entries of a block, at most.
pub(crate) const BLOCK_ENTRIES: usize = 256;
/// Bytes that a block in memory takes beside its own: its place in runs, its allocation, its word.
pub(crate) const BLOCK_REST_BYTES: usize = 96;
/// Bytes before the prefix: entries, bytes of the prefix, of a suffix and of a number, and the least number.
const HEAD_BYTES: usize = 16;
/// Stands for suffixes that differ in length.
const VARIABLE: u16 = u16::MAX;

/// A block in memory.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Bytes,
    _memory: Reservation,
}

impl Block {
    /// These bytes, counted beside a reservation. Fails with kind `Resource` if there is no memory for them.
    pub(crate) fn new(bytes: Vec<u8>, memory: &Reservation) -> Result<Self> {
        let mut own = memory.sibling();
        own.grow(bytes.len() + BLOCK_REST_BYTES)?;
        Ok(Self { bytes: bytes.into(), _memory: own })
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// A block, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Entries {
    bytes: Bytes,
    count: usize,
    /// Bytes that all keys begin with.
    prefix_bytes: usize,
    /// Bytes of each suffix; `None` if it is said where they end.
    width: Option<usize>,
    /// Where the suffixes begin.
    suffixes: usize,
    least: i64,
    number_bytes: usize,
    /// Where the numbers begin.
    numbers: usize,
}

impl Entries {
    /// Those of a block. Fails with kind `File` if it is none.
    pub(crate) fn of(bytes: Bytes) -> Result<Self> {
        Self::taken_apart(bytes)
            .ok_or_else(|| Error::file("a block of keys is not what it should be").with_code("XX001"))
    }

    fn taken_apart(bytes: Bytes) -> Option<Self> {
        let head = bytes.get(..HEAD_BYTES)?;
        let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let (count, prefix_bytes, width, number_bytes) =
            (short(0) as usize, short(2) as usize, short(4), short(6) as usize);
        let mut least = [0; 8];
        least.copy_from_slice(&head[8..HEAD_BYTES]);
        let is_variable = width == VARIABLE;
        let suffixes = HEAD_BYTES + prefix_bytes + if is_variable { count * 2 } else { 0 };
        let numbers = bytes.len().checked_sub(count * number_bytes).filter(|numbers| *numbers >= suffixes)?;
        let width = (!is_variable).then_some(width as usize);
        let entries = Self {
            count,
            prefix_bytes,
            width,
            suffixes,
            least: i64::from_le_bytes(least),
            number_bytes,
            numbers,
            bytes,
        };
        let suffix_bytes = match entries.width {
            Some(width) => width * count,
            None => entries.end(count.checked_sub(1)?),
        };
        (count > 0 && number_bytes <= 8 && suffix_bytes == numbers - suffixes).then_some(entries)
    }

    /// The block that they are of.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// How many there are: at least one.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn prefix(&self) -> &[u8] {
        &self.bytes[HEAD_BYTES..HEAD_BYTES + self.prefix_bytes]
    }

    /// Where a suffix ends, behind the beginning of all.
    fn end(&self, entry: usize) -> usize {
        let at = HEAD_BYTES + self.prefix_bytes + entry * 2;
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]) as usize
    }

    /// The bytes of a key behind those that all have in common.
    pub(crate) fn suffix(&self, entry: usize) -> &[u8] {
        let (from, to) = match self.width {
            Some(width) => (entry * width, (entry + 1) * width),
            None => (entry.checked_sub(1).map_or(0, |before| self.end(before)), self.end(entry)),
        };
        &self.bytes[self.suffixes + from..self.suffixes + to]
    }

    /// The number of an entry's row.
    pub(crate) fn number(&self, entry: usize) -> i64 {
        let (mut bytes, at) = ([0; 8], self.numbers + entry * self.number_bytes);
        bytes[..self.number_bytes].copy_from_slice(&self.bytes[at..at + self.number_bytes]);
        self.least.wrapping_add_unsigned(u64::from_le_bytes(bytes))
    }

    /// Puts the key of an entry in the place of another one.
    pub(crate) fn put_key(&self, entry: usize, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.prefix());
        key.extend_from_slice(self.suffix(entry));
    }

    /// How the key of an entry lies to a bound; equal if it begins with it.
    pub(crate) fn compare(&self, entry: usize, bound: &[u8]) -> Ordering {
        let prefix = self.prefix();
        let shared = prefix.len().min(bound.len());
        prefix[..shared].cmp(&bound[..shared]).then_with(|| begins(self.suffix(entry), &bound[shared..]))
    }

    /// How many entries are before a bound.
    pub(crate) fn before(&self, bound: &[u8], is_behind: bool) -> usize {
        let prefix = self.prefix();
        let shared = prefix.len().min(bound.len());
        match prefix[..shared].cmp(&bound[..shared]) {
            Ordering::Less => return self.count,
            Ordering::Greater => return 0,
            Ordering::Equal => {}
        }
        let rest = &bound[shared..];
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            match is_before(begins(self.suffix(middle), rest), is_behind) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// How bytes lie to a bound; equal if they begin with it.
pub(crate) fn begins(bytes: &[u8], bound: &[u8]) -> Ordering {
    let shared = bytes.len().min(bound.len());
    let rest = || if shared < bound.len() { Ordering::Less } else { Ordering::Equal };
    bytes[..shared].cmp(&bound[..shared]).then_with(rest)
}

/// Whether what lies so to a bound is before it.
pub(crate) fn is_before(ordering: Ordering, is_behind: bool) -> bool {
    ordering == Ordering::Less || is_behind && ordering == Ordering::Equal
}

/// The first eight bytes as a number whose order is theirs, and which of its bits are theirs.
pub(crate) fn word_of(bytes: &[u8]) -> (u64, u64) {
    let mut first = [0; 8];
    let count = bytes.len().min(8);
    first[..count].copy_from_slice(&bytes[..count]);
    let mask = if count == 0 { 0 } else { u64::MAX << (64 - 8 * count) };
    (u64::from_be_bytes(first), mask)
}

/// How many bytes two keys begin with in common.
pub(crate) fn common(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

/// Entries that become a block: their keys, one behind the other, with where each ends, and the rows' numbers.
#[derive(Debug, Default)]
pub(crate) struct OpenBlock {
    keys: Vec<u8>,
    ends: Vec<usize>,
    numbers: Vec<i64>,
}

impl OpenBlock {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The next one. Fails with kind `Bug` for a key that is too long.
    pub(crate) fn push(&mut self, key: &[u8], number: i64) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::bug("a key is longer than an index takes"));
        }
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len());
        self.numbers.push(number);
        Ok(())
    }

    fn key(&self, entry: usize) -> &[u8] {
        &self.keys[if entry == 0 { 0 } else { self.ends[entry - 1] }..self.ends[entry]]
    }

    /// The first key; `None` if there is none.
    pub(crate) fn first_key(&self) -> Option<&[u8]> {
        (!self.numbers.is_empty()).then(|| self.key(0))
    }

    /// The bytes of the block, if there are entries. There are none then.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let (least, most) = (*self.numbers.iter().min()?, *self.numbers.iter().max()?);
        let count = self.numbers.len();
        let prefix = common(self.key(0), self.key(count - 1));
        let width = self.key(0).len() - prefix;
        let is_fixed = (0..count).all(|entry| self.key(entry).len() - prefix == width);
        let suffixes = self.keys.len() - count * prefix;
        let number_bytes = match most.wrapping_sub(least) as u64 {
            0 => 0,
            1..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        let ends = if is_fixed { 0 } else { 2 * count };
        let mut bytes = Vec::with_capacity(HEAD_BYTES + prefix + ends + suffixes + count * number_bytes);
        let width = if is_fixed { width as u16 } else { VARIABLE };
        for short in [count as u16, prefix as u16, width, number_bytes as u16] {
            bytes.extend_from_slice(&short.to_le_bytes());
        }
        bytes.extend_from_slice(&least.to_le_bytes());
        bytes.extend_from_slice(&self.key(0)[..prefix]);
        if !is_fixed {
            let mut end = 0;
            for entry in 0..count {
                end += self.key(entry).len() - prefix;
                bytes.extend_from_slice(&(end as u16).to_le_bytes());
            }
        }
        (0..count).for_each(|entry| bytes.extend_from_slice(&self.key(entry)[prefix..]));
        for number in &self.numbers {
            bytes.extend_from_slice(&(number.wrapping_sub(least) as u64).to_le_bytes()[..number_bytes]);
        }
        self.keys.clear();
        self.ends.clear();
        self.numbers.clear();
        Some(bytes)
    }
}
