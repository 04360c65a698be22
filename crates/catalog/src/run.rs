//! A run of an index: keys in order with the numbers of their rows, packed into blocks.
//!
//! A block has the keys of up to [`BLOCK_ENTRIES`] entries, without what all of them begin with, and the rows' numbers
//! as differences to the least of them, in as few bytes as they need: some twelve bytes for a number without pattern,
//! some three for one that rises with the rows. It is one piece of bytes that says itself what is where, and never
//! changes. So runs share blocks: a merge moves those that nothing falls between. Above the blocks, a run has eight
//! bytes of each first key, which a search looks at before it looks into blocks: an immutable B+-tree of two levels.
//!
//! Keys are compared as bytes. A key is *before* a bound that it begins with for one reader, and *behind* it for the
//! other: so the first columns of a key, as bytes, are a bound as well ([`Bound`]).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_memory::Reservation;

/// Bytes of a key in a run, at most: the ends of all keys of a block fit into two bytes.
pub(crate) const KEY_BYTES_MAX: usize = 248;
/// Entries of a block, at most.
const BLOCK_ENTRIES: usize = 256;
/// A merge moves a block as it is if it has so many entries, and few are waiting for one of their own.
const MOVED_ENTRIES_MIN: usize = BLOCK_ENTRIES / 2;
/// Bytes that a block takes beside its own: its place in runs, its allocation, its word.
const BLOCK_REST_BYTES: usize = 96;
/// Bytes before the prefix: entries, bytes of the prefix, of a suffix and of a number, and the least number.
const HEAD_BYTES: usize = 16;
/// Stands for suffixes that differ in length.
const VARIABLE: u16 = u16::MAX;

/// Where a range of a run begins or ends: before or behind all keys that begin with these bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_behind: bool,
}

/// Entries in the order of their keys, those of equal keys in the order of the rows' numbers.
#[derive(Debug)]
pub(crate) struct Run {
    blocks: Vec<Arc<Block>>,
    /// What all keys begin with.
    head: Box<[u8]>,
    /// By block: the bytes behind the head of its first key, as a number.
    words: Vec<u64>,
    /// By block: how many entries are before it; behind the last: how many there are.
    starts: Vec<usize>,
}

#[derive(Debug)]
struct Block {
    bytes: Box<[u8]>,
    _memory: Reservation,
}

/// A block, taken apart.
#[derive(Clone, Copy)]
struct Entries<'a> {
    count: usize,
    prefix: &'a [u8],
    /// Bytes of each suffix; `None` if `ends` says where they are.
    width: Option<usize>,
    ends: &'a [u8],
    suffixes: &'a [u8],
    least: i64,
    number_bytes: usize,
    numbers: &'a [u8],
}

impl Block {
    fn entries(&self) -> Entries<'_> {
        let bytes = &*self.bytes;
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (count, prefix, width, number_bytes) = (short(0) as usize, short(2) as usize, short(4), short(6) as usize);
        let mut least = [0; 8];
        least.copy_from_slice(&bytes[8..HEAD_BYTES]);
        let (prefix, rest) = bytes[HEAD_BYTES..].split_at(prefix);
        let (rest, numbers) = rest.split_at(rest.len() - count * number_bytes);
        let is_variable = width == VARIABLE;
        let (ends, suffixes) = rest.split_at(if is_variable { count * 2 } else { 0 });
        let width = (!is_variable).then_some(width as usize);
        Entries { count, prefix, width, ends, suffixes, least: i64::from_le_bytes(least), number_bytes, numbers }
    }
}

impl<'a> Entries<'a> {
    fn suffix(&self, entry: usize) -> &'a [u8] {
        match self.width {
            Some(width) => &self.suffixes[entry * width..(entry + 1) * width],
            None => {
                let end = |entry: usize| u16::from_le_bytes([self.ends[entry * 2], self.ends[entry * 2 + 1]]) as usize;
                &self.suffixes[entry.checked_sub(1).map_or(0, end)..end(entry)]
            }
        }
    }

    fn number(&self, entry: usize) -> i64 {
        let mut bytes = [0; 8];
        bytes[..self.number_bytes]
            .copy_from_slice(&self.numbers[entry * self.number_bytes..(entry + 1) * self.number_bytes]);
        self.least.wrapping_add_unsigned(u64::from_le_bytes(bytes))
    }

    fn put_key(&self, entry: usize, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.prefix);
        key.extend_from_slice(self.suffix(entry));
    }

    /// How the key of an entry lies to a bound; equal if it begins with it.
    fn compare(&self, entry: usize, bound: &[u8]) -> Ordering {
        let shared = self.prefix.len().min(bound.len());
        self.prefix[..shared].cmp(&bound[..shared]).then_with(|| begins(self.suffix(entry), &bound[shared..]))
    }

    /// How many entries are before a bound.
    fn before(&self, bound: &[u8], is_behind: bool) -> usize {
        let shared = self.prefix.len().min(bound.len());
        match self.prefix[..shared].cmp(&bound[..shared]) {
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
fn begins(bytes: &[u8], bound: &[u8]) -> Ordering {
    let shared = bytes.len().min(bound.len());
    let rest = || if bytes.len() < bound.len() { Ordering::Less } else { Ordering::Equal };
    bytes[..shared].cmp(&bound[..shared]).then_with(rest)
}

fn is_before(ordering: Ordering, is_behind: bool) -> bool {
    ordering == Ordering::Less || is_behind && ordering == Ordering::Equal
}

/// The first eight bytes as a number whose order is theirs, and which of its bits are theirs.
fn word_of(bytes: &[u8]) -> (u64, u64) {
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

impl Run {
    /// How many entries it has.
    pub(crate) fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Bytes that its blocks take, whoever else has them.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes.len() + BLOCK_REST_BYTES).sum()
    }

    /// How many entries are before a bound.
    pub(crate) fn before(&self, bound: &[u8], is_behind: bool) -> usize {
        let block = self.block_of(bound, is_behind, 0);
        self.starts[block] + self.blocks[block].entries().before(bound, is_behind)
    }

    /// The block, from `first` on, in which the entries end that are before a bound.
    fn block_of(&self, bound: &[u8], is_behind: bool, first: usize) -> usize {
        let shared = self.head.len().min(bound.len());
        match self.head[..shared].cmp(&bound[..shared]) {
            Ordering::Less => return self.blocks.len() - 1,
            Ordering::Greater => return first,
            Ordering::Equal => {}
        }
        let (word, mask) = word_of(&bound[shared..]);
        let is_before = |block: usize| match (self.words[block] & mask).cmp(&word) {
            Ordering::Equal if mask == 0 => is_behind,
            Ordering::Equal => is_before(self.blocks[block].entries().compare(0, bound), is_behind),
            ordering => ordering == Ordering::Less,
        };
        let (mut low, mut high) = (first, self.blocks.len());
        while low < high {
            let middle = (low + high) / 2;
            match is_before(middle) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low.saturating_sub(1).max(first)
    }

    /// Calls `meet` with the number of each entry from one place to another, in order, until it says false.
    pub(crate) fn numbers(&self, from: usize, to: usize, mut meet: impl FnMut(i64) -> bool) {
        let mut at = from;
        let mut block = self.starts.partition_point(|start| *start <= from).saturating_sub(1);
        while at < to {
            let entries = self.blocks[block].entries();
            let (first, end) = (at - self.starts[block], (to - self.starts[block]).min(entries.count));
            if !(first..end).all(|entry| meet(entries.number(entry))) {
                return;
            }
            at = self.starts[block] + end;
            block += 1;
        }
    }

    /// The key and the number of the entry at a place.
    pub(crate) fn entry(&self, at: usize, key: &mut Vec<u8>) -> i64 {
        let block = self.starts.partition_point(|start| *start <= at) - 1;
        let (entries, entry) = (self.blocks[block].entries(), at - self.starts[block]);
        entries.put_key(entry, key);
        entries.number(entry)
    }

    /// Calls `meet` with the number of each entry that has this key.
    pub(crate) fn find(&self, key: &[u8], mut meet: impl FnMut(i64)) {
        let mut block = self.block_of(key, false, 0);
        let mut entry = self.blocks[block].entries().before(key, false);
        while let Some(entries) = self.blocks.get(block).map(|block| block.entries()) {
            while entry < entries.count {
                if entries.compare(entry, key) != Ordering::Equal {
                    return;
                }
                meet(entries.number(entry));
                entry += 1;
            }
            (block, entry) = (block + 1, 0);
        }
    }

    /// Calls `meet` with the number of each entry that has one of these keys, and the key's place; keys ascend.
    pub(crate) fn find_all<K: AsRef<[u8]>>(
        &self,
        keys: impl Iterator<Item = (usize, K)>,
        mut meet: impl FnMut(i64, usize),
    ) {
        let mut last = Vec::new();
        if let Some(block) = self.blocks.last() {
            let entries = block.entries();
            entries.put_key(entries.count - 1, &mut last);
        }
        let mut block = 0;
        for (place, key) in keys {
            let key = key.as_ref();
            if key > last.as_slice() {
                return;
            }
            block = self.next_block_of(key, block);
            let (mut at, mut entries) = (block, self.blocks[block].entries());
            let mut entry = entries.before(key, false);
            loop {
                if entry == entries.count {
                    at += 1;
                    let Some(next) = self.blocks.get(at) else { break };
                    (entries, entry) = (next.entries(), 0);
                }
                if entries.compare(entry, key) != Ordering::Equal {
                    break;
                }
                meet(entries.number(entry), place);
                entry += 1;
            }
        }
    }

    /// As [`block_of`](Self::block_of), of a key that is most likely in one of the next blocks.
    fn next_block_of(&self, key: &[u8], first: usize) -> usize {
        let is_here = |block: usize| match self.blocks.get(block) {
            Some(next) => next.entries().compare(0, key) != Ordering::Less,
            None => true,
        };
        match is_here(first + 1) {
            true => first,
            false if is_here(first + 2) => first + 1,
            false => self.block_of(key, false, first + 1),
        }
    }

    /// Calls `meet` with the key and the numbers of entries side by side that have the same key. Fails as `meet` does.
    pub(crate) fn duplicates(&self, mut meet: impl FnMut(&[u8], &[i64]) -> Result<()>) -> Result<()> {
        let (mut key, mut next, mut same) = (Vec::new(), Vec::new(), Vec::new());
        for block in &self.blocks {
            let entries = block.entries();
            for entry in 0..entries.count {
                let is_same = match entry {
                    // Most keys differ, and suffixes show it.
                    1.. => entries.suffix(entry) == entries.suffix(entry - 1),
                    0 => {
                        entries.put_key(0, &mut next);
                        !same.is_empty() && next == key
                    }
                };
                if !is_same {
                    if same.len() > 1 {
                        meet(&key, &same)?;
                    }
                    same.clear();
                }
                if entry + 1 == entries.count || !is_same {
                    entries.put_key(entry, &mut key);
                }
                same.push(entries.number(entry));
            }
        }
        if same.len() > 1 { meet(&key, &same) } else { Ok(()) }
    }

    /// The entries of several runs in one; those only whose numbers `keeps` says to keep. Fails with kind `Resource` if
    /// there is no memory for them.
    pub(crate) fn merged(
        runs: &[Arc<Self>],
        memory: &Reservation,
        keeps: Option<&dyn Fn(i64) -> bool>,
    ) -> Result<Option<Self>> {
        let mut writer = RunWriter::new(memory);
        let mut heap = runs.iter().filter_map(|run| Cursor::new(run)).collect::<BinaryHeap<_>>();
        while let Some(first) = heap.peek() {
            // A block that nothing falls between is moved as it is, once its first entry is the next.
            let may_move = first.entry == 0 && keeps.is_none() && first.entries.count >= MOVED_ENTRIES_MIN;
            if may_move && writer.numbers.len() < MOVED_ENTRIES_MIN / 2 {
                let Some(cursor) = heap.pop() else { break };
                let last = cursor.entries.count - 1;
                let is_behind = |next: &Cursor<'_>| cursor.entries.compare(last, &next.key) == Ordering::Less;
                if heap.peek().is_none_or(is_behind) {
                    writer.push_block(cursor.run.blocks[cursor.block].clone())?;
                    heap.extend(cursor.next_block());
                } else {
                    writer.push(&cursor.key, cursor.number)?;
                    heap.extend(cursor.next());
                }
                continue;
            }
            let Some(mut first) = heap.peek_mut() else { break };
            if keeps.is_none_or(|keeps| keeps(first.number)) {
                writer.push(&first.key, first.number)?;
            }
            if !first.advance() {
                PeekMut::pop(first);
            }
        }
        writer.finish()
    }
}

/// Goes along a run.
struct Cursor<'a> {
    run: &'a Run,
    block: usize,
    entries: Entries<'a>,
    entry: usize,
    key: Vec<u8>,
    number: i64,
}

impl<'a> Cursor<'a> {
    fn new(run: &'a Run) -> Option<Self> {
        let entries = run.blocks.first()?.entries();
        let mut key = Vec::new();
        entries.put_key(0, &mut key);
        Some(Self { run, block: 0, entries, entry: 0, key, number: entries.number(0) })
    }

    /// Goes to the next entry; false if there is none.
    fn advance(&mut self) -> bool {
        self.entry += 1;
        if self.entry == self.entries.count {
            let Some(block) = self.run.blocks.get(self.block + 1) else { return false };
            (self.block, self.entries, self.entry) = (self.block + 1, block.entries(), 0);
        }
        self.entries.put_key(self.entry, &mut self.key);
        self.number = self.entries.number(self.entry);
        true
    }

    fn next(mut self) -> Option<Self> {
        self.advance().then_some(self)
    }

    fn next_block(mut self) -> Option<Self> {
        self.entry = self.entries.count - 1;
        self.next()
    }
}

/// The least key is the greatest of a heap.
impl Ord for Cursor<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key).then_with(|| other.number.cmp(&self.number))
    }
}

impl PartialOrd for Cursor<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Cursor<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Cursor<'_> {}

/// Makes a run of entries that come in order.
pub(crate) struct RunWriter<'a> {
    memory: &'a Reservation,
    blocks: Vec<Arc<Block>>,
    /// The keys of entries that are in no block yet, one behind the other, and where each ends.
    keys: Vec<u8>,
    ends: Vec<usize>,
    numbers: Vec<i64>,
}

impl<'a> RunWriter<'a> {
    /// Counts the run beside this reservation.
    pub(crate) fn new(memory: &'a Reservation) -> Self {
        Self { memory, blocks: Vec::new(), keys: Vec::new(), ends: Vec::new(), numbers: Vec::new() }
    }

    /// The next entry. Fails with kind `Resource` if there is no memory for a block, and `Bug` for a key that is too
    /// long.
    pub(crate) fn push(&mut self, key: &[u8], number: i64) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::bug("a key is longer than an index takes"));
        }
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len());
        self.numbers.push(number);
        if self.numbers.len() == BLOCK_ENTRIES { self.seal() } else { Ok(()) }
    }

    fn push_block(&mut self, block: Arc<Block>) -> Result<()> {
        self.seal()?;
        self.blocks.push(block);
        Ok(())
    }

    fn seal(&mut self) -> Result<()> {
        let Some((least, most)) = self.numbers.iter().min().zip(self.numbers.iter().max()) else { return Ok(()) };
        let count = self.numbers.len();
        let key = |entry: usize| &self.keys[if entry == 0 { 0 } else { self.ends[entry - 1] }..self.ends[entry]];
        let prefix = common(key(0), key(count - 1));
        let width = key(0).len() - prefix;
        let is_fixed = (0..count).all(|entry| key(entry).len() - prefix == width);
        let suffixes = self.keys.len() - count * prefix;
        let number_bytes = match most.wrapping_sub(*least) as u64 {
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
        bytes.extend_from_slice(&key(0)[..prefix]);
        if !is_fixed {
            let mut end = 0;
            for entry in 0..count {
                end += key(entry).len() - prefix;
                bytes.extend_from_slice(&(end as u16).to_le_bytes());
            }
        }
        (0..count).for_each(|entry| bytes.extend_from_slice(&key(entry)[prefix..]));
        for number in &self.numbers {
            bytes.extend_from_slice(&(number.wrapping_sub(*least) as u64).to_le_bytes()[..number_bytes]);
        }
        let mut memory = self.memory.sibling();
        memory.grow(bytes.len() + BLOCK_REST_BYTES)?;
        self.blocks.push(Arc::new(Block { bytes: bytes.into_boxed_slice(), _memory: memory }));
        self.keys.clear();
        self.ends.clear();
        self.numbers.clear();
        Ok(())
    }

    /// The run; `None` if there was no entry. Fails as [`push`](Self::push).
    pub(crate) fn finish(mut self) -> Result<Option<Run>> {
        self.seal()?;
        let Some((first, last)) = self.blocks.first().zip(self.blocks.last()) else { return Ok(None) };
        let (mut low, mut high) = (Vec::new(), Vec::new());
        first.entries().put_key(0, &mut low);
        last.entries().put_key(last.entries().count - 1, &mut high);
        low.truncate(common(&low, &high));
        let mut key = Vec::new();
        let words = self.blocks.iter().map(|block| {
            block.entries().put_key(0, &mut key);
            word_of(&key[low.len()..]).0
        });
        let words = words.collect();
        let mut starts = Vec::with_capacity(self.blocks.len() + 1);
        starts.push(0);
        let mut end = 0;
        starts.extend(self.blocks.iter().map(|block| {
            end += block.entries().count;
            end
        }));
        Ok(Some(Run { blocks: self.blocks, head: low.into_boxed_slice(), words, starts }))
    }
}
