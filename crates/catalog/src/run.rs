//! A run of an index: keys in order with the numbers of their rows, packed into [blocks](crate::key_block).
//!
//! Blocks are in memory, where runs share them, or in a [file](KeyFile), from which they are read when they are wanted.
//! Above the blocks, a run has eight bytes of each first key, which a search looks at before it looks into blocks: an
//! immutable B+-tree of two levels.
//!
//! Keys are compared as bytes. A key is *before* a bound that it begins with for one reader, and *behind* it for the
//! other: so the first columns of a key, as bytes, are a bound as well ([`Bound`]).
//!
//! What reads blocks fails with kind `File` if one is in a file that cannot be read.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::Hint;
use diligence_storage::key_file::KeyFile;

use crate::key_block::{BLOCK_REST_BYTES, Block, Entries, common, is_before, word_of};
use crate::key_filter::KeyFilter;

/// Where a range of a run begins or ends: before or behind all keys that begin with these bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_behind: bool,
}

/// Entries in the order of their keys, those of equal keys in the order of the rows' numbers. There is at least one.
#[derive(Debug)]
pub(crate) struct Run {
    blocks: Blocks,
    /// No key is before the one, and none behind the other.
    ends: RunEnds,
    /// By block: the bytes behind the head of its first key, as a number.
    words: Vec<u64>,
    /// By block: how many entries are before it; behind the last: how many there are.
    starts: Vec<usize>,
    /// Says of most keys that are not in it that they are not: of a run in a file, where memory was free.
    filter: Option<KeyFilter>,
    /// What is in memory of a run that is in a file, but for the filter.
    _memory: Option<Reservation>,
    /// Whether somebody writes it to a file: others leave it as it is.
    is_fixed: AtomicBool,
}

/// Where the blocks of a run are.
#[derive(Clone, Debug)]
pub(crate) enum Blocks {
    /// In memory; other runs may have them too.
    Memory(Vec<Arc<Block>>),
    /// All those of a file.
    File(Arc<KeyFile>),
}

/// Keys between which those of a run are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunEnds {
    pub(crate) least: Vec<u8>,
    pub(crate) greatest: Vec<u8>,
}

impl RunEnds {
    /// What all keys begin with.
    pub(crate) fn head(&self) -> &[u8] {
        &self.least[..common(&self.least, &self.greatest)]
    }
}

impl Run {
    /// A run of these blocks, with the words and the entries of each; `None` if there is none.
    pub(crate) fn of(
        blocks: Blocks,
        ends: RunEnds,
        words: Vec<u64>,
        counts: &[u32],
        memory: Option<Reservation>,
    ) -> Option<Self> {
        if words.is_empty() {
            return None;
        }
        let mut starts = Vec::with_capacity(counts.len() + 1);
        starts.push(0);
        let mut end = 0;
        starts.extend(counts.iter().map(|count| {
            end += *count as usize;
            end
        }));
        let is_fixed = AtomicBool::new(matches!(blocks, Blocks::File(_)));
        Some(Self { blocks, ends, words, starts, filter: None, _memory: memory, is_fixed })
    }

    /// The same with a filter that has all its keys.
    pub(crate) fn with_filter(self, filter: Option<KeyFilter>) -> Self {
        Self { filter, ..self }
    }

    /// Its filter.
    #[cfg(test)]
    pub(crate) fn filter(&self) -> Option<&KeyFilter> {
        self.filter.as_ref()
    }

    /// Whether a key may be in it, as far as is seen without its blocks.
    fn may_have(&self, key: &[u8]) -> bool {
        let is_between = key >= self.ends.least.as_slice() && key <= self.ends.greatest.as_slice();
        is_between && self.filter.as_ref().is_none_or(|filter| filter.may_have(key))
    }

    /// How many entries it has.
    pub(crate) fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// How many blocks it has.
    pub(crate) fn blocks(&self) -> usize {
        self.words.len()
    }

    /// Keys between which all are.
    pub(crate) fn ends(&self) -> &RunEnds {
        &self.ends
    }

    /// The file that has its blocks; `None` if they are in memory.
    pub(crate) fn file(&self) -> Option<&Arc<KeyFile>> {
        match &self.blocks {
            Blocks::Memory(_) => None,
            Blocks::File(file) => Some(file),
        }
    }

    /// A block that is in memory; `None` if blocks are in a file.
    pub(crate) fn block_in_memory(&self, block: usize) -> Option<&Arc<Block>> {
        match &self.blocks {
            Blocks::Memory(blocks) => blocks.get(block),
            Blocks::File(_) => None,
        }
    }

    /// Bytes that it takes in memory, whoever else has its blocks.
    pub(crate) fn bytes(&self) -> usize {
        match &self.blocks {
            Blocks::Memory(blocks) => blocks.iter().map(|block| block.bytes().len() + BLOCK_REST_BYTES).sum(),
            Blocks::File(file) => {
                let filter_bytes = self.filter.as_ref().map_or(0, KeyFilter::bytes);
                file.directory_bytes() + Self::directory_bytes(self.blocks()) + filter_bytes
            }
        }
    }

    /// Bytes of what is above so many blocks.
    pub(crate) fn directory_bytes(blocks: usize) -> usize {
        blocks * (size_of::<u64>() + size_of::<usize>())
    }

    /// Whether it stays as it is until it is in a file, or is in one: no statement merges it with others.
    pub(crate) fn is_fixed(&self) -> bool {
        self.is_fixed.load(atomic::Ordering::Relaxed)
    }

    /// It stays as it is from now on.
    pub(crate) fn fix(&self) {
        self.is_fixed.store(true, atomic::Ordering::Relaxed);
    }

    /// The entries of a block, for a lookup.
    fn entries(&self, block: usize) -> Result<Entries> {
        self.entries_with(block, Hint::Keep)
    }

    /// The entries of a block, for somebody who goes along the whole run.
    pub(crate) fn scanned(&self, block: usize) -> Result<Entries> {
        self.entries_with(block, self.file().map_or(Hint::Keep, |file| file.scan_hint()))
    }

    fn entries_with(&self, block: usize, hint: Hint) -> Result<Entries> {
        match &self.blocks {
            Blocks::Memory(blocks) => {
                let block = blocks.get(block).ok_or_else(|| Error::bug("a run has no such block"))?;
                Entries::of(block.bytes().clone())
            }
            Blocks::File(file) => Entries::of(file.block(block, hint)?),
        }
    }

    /// How many entries are before a bound.
    pub(crate) fn before(&self, bound: &[u8], is_behind: bool) -> Result<usize> {
        let block = self.block_of(bound, is_behind, 0)?;
        Ok(self.starts[block] + self.entries(block)?.before(bound, is_behind))
    }

    /// The block, from `first` on, in which the entries end that are before a bound.
    fn block_of(&self, bound: &[u8], is_behind: bool, first: usize) -> Result<usize> {
        let head = self.ends.head();
        let shared = head.len().min(bound.len());
        match head[..shared].cmp(&bound[..shared]) {
            Ordering::Less => return Ok(self.blocks() - 1),
            Ordering::Greater => return Ok(first),
            Ordering::Equal => {}
        }
        let (word, mask) = word_of(&bound[shared..]);
        let begins_before = |block: usize| match (self.words[block] & mask).cmp(&word) {
            Ordering::Equal if mask == 0 => Ok(is_behind),
            Ordering::Equal => Ok(is_before(self.entries(block)?.compare(0, bound), is_behind)),
            ordering => Ok::<_, Error>(ordering == Ordering::Less),
        };
        let (mut low, mut high) = (first, self.blocks());
        while low < high {
            let middle = (low + high) / 2;
            match begins_before(middle)? {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low.saturating_sub(1).max(first))
    }

    /// Calls `meet` with the number of each entry from one place to another, in order, until it says false.
    pub(crate) fn numbers(&self, from: usize, to: usize, mut meet: impl FnMut(i64) -> bool) -> Result<()> {
        let mut at = from;
        let mut block = self.starts.partition_point(|start| *start <= from).saturating_sub(1);
        while at < to {
            let entries = self.entries(block)?;
            let (first, end) = (at - self.starts[block], (to - self.starts[block]).min(entries.count()));
            if !(first..end).all(|entry| meet(entries.number(entry))) {
                return Ok(());
            }
            at = self.starts[block] + end;
            block += 1;
        }
        Ok(())
    }

    /// The entry at a place, to go on from there.
    pub(crate) fn cursor(self: &Arc<Self>, at: usize) -> Result<EntryCursor> {
        let block = self.starts.partition_point(|start| *start <= at).saturating_sub(1);
        let mut cursor =
            EntryCursor { run: self.clone(), block, entries: self.entries(block)?, at, key: Vec::new(), number: 0 };
        cursor.read();
        Ok(cursor)
    }

    /// Calls `meet` with the number of each entry that has this key.
    pub(crate) fn find(&self, key: &[u8], mut meet: impl FnMut(i64)) -> Result<()> {
        if !self.may_have(key) {
            return Ok(());
        }
        let mut block = self.block_of(key, false, 0)?;
        let mut entries = self.entries(block)?;
        let mut entry = entries.before(key, false);
        loop {
            while entry < entries.count() {
                if entries.compare(entry, key) != Ordering::Equal {
                    return Ok(());
                }
                meet(entries.number(entry));
                entry += 1;
            }
            block += 1;
            if block == self.blocks() {
                return Ok(());
            }
            (entries, entry) = (self.entries(block)?, 0);
        }
    }

    /// Calls `meet` with the number of each entry that has one of these keys, and the key's place; keys ascend.
    pub(crate) fn find_all<K: AsRef<[u8]>>(
        &self,
        keys: impl Iterator<Item = (usize, K)>,
        mut meet: impl FnMut(i64, usize),
    ) -> Result<()> {
        let (mut block, mut entries) = (0, None::<(usize, Entries)>);
        for (place, key) in keys {
            let key = key.as_ref();
            if key > self.ends.greatest.as_slice() {
                return Ok(());
            }
            if !self.may_have(key) {
                continue;
            }
            block = self.next_block_of(key, block)?;
            let mut own = match entries.take() {
                Some((known, entries)) if known == block => entries,
                _ => self.scanned(block)?,
            };
            let (mut at, mut entry) = (block, own.before(key, false));
            loop {
                if entry == own.count() {
                    at += 1;
                    if at == self.blocks() {
                        break;
                    }
                    (own, entry) = (self.scanned(at)?, 0);
                }
                if own.compare(entry, key) != Ordering::Equal {
                    break;
                }
                meet(own.number(entry), place);
                entry += 1;
            }
            entries = Some((at, own));
        }
        Ok(())
    }

    /// As [`block_of`](Self::block_of), of a key that is most likely in one of the next blocks.
    fn next_block_of(&self, key: &[u8], first: usize) -> Result<usize> {
        let Some(rest) = key.strip_prefix(self.ends.head()) else { return self.block_of(key, false, first) };
        let (word, _) = word_of(rest);
        let begins_behind = |block: usize| match self.words.get(block).map(|own| own.cmp(&word)) {
            None | Some(Ordering::Greater) => Ok(true),
            Some(Ordering::Less) => Ok(false),
            Some(Ordering::Equal) => Ok::<_, Error>(self.scanned(block)?.compare(0, key) != Ordering::Less),
        };
        match begins_behind(first + 1)? {
            true => Ok(first),
            false if begins_behind(first + 2)? => Ok(first + 1),
            false => self.block_of(key, false, first + 1),
        }
    }

    /// Calls `meet` with the key and the numbers of entries side by side that have the same key. Fails as `meet` does.
    pub(crate) fn duplicates(&self, mut meet: impl FnMut(&[u8], &[i64]) -> Result<()>) -> Result<()> {
        let (mut key, mut next, mut same) = (Vec::new(), Vec::new(), Vec::new());
        for block in 0..self.blocks() {
            let entries = self.scanned(block)?;
            for entry in 0..entries.count() {
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
                if entry + 1 == entries.count() || !is_same {
                    entries.put_key(entry, &mut key);
                }
                same.push(entries.number(entry));
            }
        }
        if same.len() > 1 { meet(&key, &same) } else { Ok(()) }
    }
}

/// An entry of a run, and the way to those beside it.
#[derive(Debug)]
pub(crate) struct EntryCursor {
    run: Arc<Run>,
    block: usize,
    entries: Entries,
    /// Its place in the run.
    at: usize,
    key: Vec<u8>,
    number: i64,
}

impl EntryCursor {
    /// Its key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The number of its row.
    pub(crate) fn number(&self) -> i64 {
        self.number
    }

    /// Goes to another place of the run, which is there.
    pub(crate) fn go_to(&mut self, at: usize) -> Result<()> {
        let starts = &self.run.starts;
        if at < starts[self.block] || at >= starts[self.block + 1] {
            self.block = starts.partition_point(|start| *start <= at).saturating_sub(1);
            self.entries = self.run.entries(self.block)?;
        }
        self.at = at;
        self.read();
        Ok(())
    }

    fn read(&mut self) {
        let entry = self.at - self.run.starts[self.block];
        self.entries.put_key(entry, &mut self.key);
        self.number = self.entries.number(entry);
    }
}
