//! Makes runs of an index: of sorted entries, or of other runs, in memory or in a file.
//!
//! What the end of a key file says of a run: its least and its greatest key, each with its length before it (4 bytes),
//! then for each block eight bytes of its first key (as a number) and how many entries it has (4). A
//! [filter](KeyFilter) of the keys may follow: files of version 1 have none, and a run that is too long for the memory
//! has none either.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::key_file::{KeyFile, KeyFileWriter};

use crate::key_block::{BLOCK_ENTRIES, Block, Entries, OpenBlock, word_of};
use crate::key_filter::KeyFilter;
use crate::run::{Blocks, Run, RunEnds};

/// A merge moves a block as it is if it has so many entries, and few are waiting for one of their own.
const MOVED_ENTRIES_MIN: usize = BLOCK_ENTRIES / 2;

/// Where the blocks of a run go.
enum Target {
    Memory(Vec<Arc<Block>>),
    File(KeyFileWriter),
}

/// Makes a run of entries that come in order.
pub(crate) struct RunWriter<'a> {
    memory: &'a Reservation,
    target: Target,
    ends: RunEnds,
    words: Vec<u64>,
    counts: Vec<u32>,
    open: OpenBlock,
    /// Has the keys that came: of a run in a file, where memory is free.
    filter: Option<KeyFilter>,
}

impl<'a> RunWriter<'a> {
    /// One in memory, of keys between these, counted beside this reservation.
    pub(crate) fn in_memory(memory: &'a Reservation, ends: RunEnds) -> Self {
        Self::new(memory, ends, Target::Memory(Vec::new()), None)
    }

    /// One in a file, of so many keys between these at most; what is in memory of it is counted beside this
    /// reservation.
    pub(crate) fn in_file(memory: &'a Reservation, ends: RunEnds, keys: usize, file: KeyFileWriter) -> Self {
        Self::new(memory, ends, Target::File(file), KeyFilter::of_size(keys, memory))
    }

    fn new(memory: &'a Reservation, ends: RunEnds, target: Target, filter: Option<KeyFilter>) -> Self {
        Self { memory, target, ends, words: Vec::new(), counts: Vec::new(), open: OpenBlock::default(), filter }
    }

    /// The next entry. Fails with kind `Resource` if there is no memory for a block, `File` if it cannot be written,
    /// and `Bug` for a key that is too long.
    pub(crate) fn push(&mut self, key: &[u8], number: i64) -> Result<()> {
        self.open.push(key, number)?;
        if let Some(filter) = &mut self.filter {
            filter.add(key);
        }
        if self.open.len() == BLOCK_ENTRIES { self.seal() } else { Ok(()) }
    }

    /// A block of another run is the next one.
    fn push_block(&mut self, run: &Run, block: usize, entries: &Entries, key: &[u8]) -> Result<()> {
        self.seal()?;
        self.note(key, entries.count());
        if let Some(filter) = &mut self.filter {
            let mut own = Vec::new();
            for entry in 0..entries.count() {
                entries.put_key(entry, &mut own);
                filter.add(&own);
            }
        }
        match (&mut self.target, run.block_in_memory(block)) {
            (Target::Memory(blocks), Some(block)) => blocks.push(block.clone()),
            (Target::Memory(blocks), None) => {
                blocks.push(Arc::new(Block::new(entries.bytes().to_vec(), self.memory)?));
            }
            (Target::File(file), _) => file.push(entries.bytes())?,
        }
        Ok(())
    }

    /// A block begins with this key.
    fn note(&mut self, key: &[u8], entries: usize) {
        self.words.push(word_of(&key[self.ends.head().len()..]).0);
        self.counts.push(entries as u32);
    }

    fn seal(&mut self) -> Result<()> {
        let (Some(key), entries) = (self.open.first_key().map(<[u8]>::to_vec), self.open.len()) else {
            return Ok(());
        };
        self.note(&key, entries);
        let Some(bytes) = self.open.take() else { return Ok(()) };
        match &mut self.target {
            Target::Memory(blocks) => blocks.push(Arc::new(Block::new(bytes, self.memory)?)),
            Target::File(file) => file.push(&bytes)?,
        }
        Ok(())
    }

    /// The run, whose file has ended; `None` if there was no entry: then there is no file. Fails as
    /// [`push`](Self::push).
    pub(crate) fn finish(mut self) -> Result<Option<Run>> {
        self.seal()?;
        let Self { memory, target, ends, words, counts, filter, .. } = self;
        match target {
            Target::Memory(blocks) => Ok(Run::of(Blocks::Memory(blocks), ends, words, &counts, None)),
            Target::File(_) if words.is_empty() => Ok(None),
            Target::File(file) => {
                let said = said(&ends, &words, &counts, filter.as_ref());
                let (file, _) = file.finish(&said)?;
                let own = counted(memory, &file)?;
                let run = Run::of(Blocks::File(file), ends, words, &counts, Some(own));
                Ok(run.map(|run| run.with_filter(filter)))
            }
        }
    }
}

/// What is in memory of a run in a file, beside a reservation.
fn counted(memory: &Reservation, file: &KeyFile) -> Result<Reservation> {
    let mut own = memory.sibling();
    own.grow(file.directory_bytes() + Run::directory_bytes(file.blocks()))?;
    Ok(own)
}

fn said(ends: &RunEnds, words: &[u64], counts: &[u32], filter: Option<&KeyFilter>) -> Vec<u8> {
    let filter_bytes = filter.map_or(0, |filter| 8 + filter.bytes());
    let mut said = Vec::with_capacity(8 + ends.least.len() + ends.greatest.len() + words.len() * 12 + filter_bytes);
    for key in [&ends.least, &ends.greatest] {
        said.extend_from_slice(&(key.len() as u32).to_le_bytes());
        said.extend_from_slice(key);
    }
    for (word, count) in words.iter().zip(counts) {
        said.extend_from_slice(&word.to_le_bytes());
        said.extend_from_slice(&count.to_le_bytes());
    }
    if let Some(filter) = filter {
        filter.put(&mut said);
    }
    said
}

/// The run that is in a file, whose end says this of it. Fails with code XX001 if that is not what the end of a run
/// says, and with kind `Resource` if memory is short.
pub(crate) fn run_of_file(file: Arc<KeyFile>, said: &[u8], memory: &Reservation) -> Result<Run> {
    let misfit = || Error::file("the end of a key file does not say what it should").with_code("XX001");
    let own = counted(memory, &file)?;
    let (ends, rest) = ends_of(said).ok_or_else(misfit)?;
    let (rest, filter) = rest.split_at_checked(file.blocks() * 12).ok_or_else(misfit)?;
    let (mut words, mut counts) = (Vec::with_capacity(file.blocks()), Vec::with_capacity(file.blocks()));
    for block in rest.chunks_exact(12) {
        let (mut word, mut count) = ([0; 8], [0; 4]);
        word.copy_from_slice(&block[..8]);
        count.copy_from_slice(&block[8..]);
        words.push(u64::from_le_bytes(word));
        counts.push(u32::from_le_bytes(count));
    }
    let filter = KeyFilter::of_bytes(filter, memory);
    let run = Run::of(Blocks::File(file), ends, words, &counts, Some(own)).ok_or_else(misfit)?;
    Ok(run.with_filter(filter))
}

fn ends_of(said: &[u8]) -> Option<(RunEnds, &[u8])> {
    fn key(said: &[u8]) -> Option<(Vec<u8>, &[u8])> {
        let (length, rest) = said.split_at_checked(4)?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(length.try_into().ok()?) as usize)?;
        Some((key.to_vec(), rest))
    }
    let (least, rest) = key(said)?;
    let (greatest, rest) = key(rest)?;
    Some((RunEnds { least, greatest }, rest))
}

/// Keys between which those of several runs are; `None` if there are no runs.
fn ends_of_runs(runs: &[Arc<Run>]) -> Option<RunEnds> {
    let least = runs.iter().map(|run| &run.ends().least).min()?.clone();
    let greatest = runs.iter().map(|run| &run.ends().greatest).max()?.clone();
    Some(RunEnds { least, greatest })
}

/// The entries of several runs in one in memory; those only whose numbers `keeps` says to keep. Fails with kind
/// `Resource` if there is no memory for them, and `File` if one cannot be read.
pub(crate) fn merged(
    runs: &[Arc<Run>],
    memory: &Reservation,
    keeps: Option<&dyn Fn(i64) -> bool>,
) -> Result<Option<Run>> {
    let Some(ends) = ends_of_runs(runs) else { return Ok(None) };
    merged_by(RunWriter::in_memory(memory, ends), runs, keeps)
}

/// The same, in a file that is made for it. What is in memory of it is counted beside `memory`.
pub(crate) fn merged_in_file(
    runs: &[Arc<Run>],
    memory: &Reservation,
    file: KeyFileWriter,
    keeps: Option<&dyn Fn(i64) -> bool>,
) -> Result<Option<Run>> {
    let Some(ends) = ends_of_runs(runs) else { return Ok(None) };
    let keys = runs.iter().map(|run| run.len()).sum();
    merged_by(RunWriter::in_file(memory, ends, keys, file), runs, keeps)
}

fn merged_by(mut writer: RunWriter<'_>, runs: &[Arc<Run>], keeps: Option<&dyn Fn(i64) -> bool>) -> Result<Option<Run>> {
    let mut heap = runs.iter().map(|run| Cursor::new(run)).collect::<Result<BinaryHeap<_>>>()?;
    while let Some(first) = heap.peek() {
        // A block that nothing falls between is moved as it is, once its first entry is the next.
        let may_move = first.entry == 0 && keeps.is_none() && first.entries.count() >= MOVED_ENTRIES_MIN;
        if may_move && writer.open.len() < MOVED_ENTRIES_MIN / 2 {
            let Some(mut cursor) = heap.pop() else { break };
            let last = cursor.entries.count() - 1;
            let is_behind = |next: &Cursor<'_>| cursor.entries.compare(last, &next.key) == Ordering::Less;
            let goes_on = if heap.peek().is_none_or(is_behind) {
                writer.push_block(cursor.run, cursor.block, &cursor.entries, &cursor.key)?;
                cursor.entry = last;
                cursor.advance()?
            } else {
                writer.push(&cursor.key, cursor.number)?;
                cursor.advance()?
            };
            if goes_on {
                heap.push(cursor);
            }
            continue;
        }
        let Some(mut first) = heap.peek_mut() else { break };
        if keeps.is_none_or(|keeps| keeps(first.number)) {
            writer.push(&first.key, first.number)?;
        }
        if !first.advance()? {
            PeekMut::pop(first);
        }
    }
    writer.finish()
}

/// Goes along a run.
struct Cursor<'a> {
    run: &'a Run,
    block: usize,
    entries: Entries,
    entry: usize,
    key: Vec<u8>,
    number: i64,
}

impl<'a> Cursor<'a> {
    fn new(run: &'a Run) -> Result<Self> {
        let entries = run.scanned(0)?;
        let (mut key, number) = (Vec::new(), entries.number(0));
        entries.put_key(0, &mut key);
        Ok(Self { run, block: 0, entries, entry: 0, key, number })
    }

    /// Goes to the next entry; false if there is none.
    fn advance(&mut self) -> Result<bool> {
        self.entry += 1;
        if self.entry == self.entries.count() {
            if self.block + 1 == self.run.blocks() {
                return Ok(false);
            }
            self.block += 1;
            (self.entries, self.entry) = (self.run.scanned(self.block)?, 0);
        }
        self.entries.put_key(self.entry, &mut self.key);
        self.number = self.entries.number(self.entry);
        Ok(true)
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
