//! Finding the build rows of a key.
//!
//! Where all keys are words that fit into one [code](super::packing), there are two tables, and a third for the rest:
//!
//! * [`Dense`]: codes in a small range. One bit per code and a count per 64 codes give the code's *rank*, and with it
//!   the rows: exact, without hashing, a quarter byte per code. (A rank bitmap instead of an array of rows keeps the
//!   tables of a star's dimensions in the cache.)
//! * [`Hashed`] by code: a directory of 64-bit entries, each with the position of the first entry of its bucket and 32
//!   bits of tags, and the entries of a bucket side by side (the "unchained" hash table of Birler, Schmidt, Fent,
//!   Neumann, *Simple, Efficient, and Robust Hash Tables for Join Processing*, DaMoN 2024). Most misses cost one cache
//!   line, hits two.
//! * [`Hashed`] by hash, where keys are strings or too wide: the same with the hash in the place of the code; what it
//!   finds must be compared key by key.
//!
//! All are built in parts that own disjoint ranges of codes or of hashes.
//!
//! Invariant: rows of equal code (or hash) stand side by side, so that a key's rows are one run from its first
//! *position*.

use std::sync::Arc;

use arrow::buffer::BooleanBuffer;

use super::packing::{NO_CODE, Packing};
use crate::batch::prefetch::prefetch;
use crate::operators::runtime_filter::WordSet;

/// A hash in the place of a code.
#[inline(always)]
pub(in super::super) fn hash_as_word(hash: u64) -> u64 {
    hash.min(NO_CODE - 1)
}

/// A finished table.
pub(in super::super) enum Table {
    /// By code, without hashing.
    Dense(Arc<Dense>),
    /// By hash.
    Hashed(Hashed),
}

/// What a probe batch's rows found: rows with at least one candidate, and where its candidates are.
#[derive(Default)]
pub(in super::super) struct Found {
    /// The probe row.
    pub probe: Vec<u32>,
    /// The position of its first candidate. With unique words: the build row itself.
    pub position: Vec<u32>,
    /// The position after the last one. Says nothing with unique words; a run in [`Hashed`] may end before.
    pub end: Vec<u32>,
}

impl Found {
    fn clear(&mut self, rows: usize) {
        for list in [&mut self.probe, &mut self.position, &mut self.end] {
            // Only lengthens: what is there is overwritten, and cut to size in the end.
            if list.len() < rows {
                list.resize(rows, 0);
            }
        }
    }

    fn truncate(&mut self, found: usize) {
        self.probe.truncate(found);
        self.position.truncate(found);
        self.end.truncate(found);
    }
}

/// See the module.
pub(in super::super) struct Dense {
    pub(super) packing: Packing,
    /// Per 64 codes: which are there, and the rank of the first one that is.
    pub(super) blocks: Vec<[u64; 2]>,
    /// The row at each position. `None`: the position is the row.
    pub(super) rows: Option<Vec<u32>>,
    /// The positions of each rank's rows. `None`: the rank is the position, for no code has two rows.
    pub(super) ranges: Option<Vec<[u32; 2]>>,
}

impl WordSet for Dense {
    fn contains(&self, words: &[u64]) -> BooleanBuffer {
        BooleanBuffer::collect_bool(words.len(), |row| self.contains_word(words[row]))
    }
}

impl Dense {
    /// Whether a build row has the word, in a table of one key.
    #[inline(always)]
    fn contains_word(&self, word: u64) -> bool {
        let key = &self.packing.keys[0];
        let distance = word.wrapping_sub(key.min);
        let code = if distance > key.span { self.packing.codes } else { distance + key.null_code as u64 };
        self.blocks[(code >> 6) as usize][0] >> (code & 63) & 1 == 1
    }

    fn find(&self, codes: &[u64], found: &mut Found) {
        found.clear(codes.len());
        let mut count = 0;
        // The last block has room for one code more than there are, whose bit is never set.
        let beyond = self.packing.codes;
        let (probe, position) = (&mut found.probe[..codes.len()], &mut found.position[..codes.len()]);
        for (row, &code) in codes.iter().enumerate() {
            let code = code.min(beyond);
            let [bits, rank] = self.blocks[(code >> 6) as usize];
            let below = bits & ((1 << (code & 63)) - 1);
            probe[count] = row as u32;
            position[count] = rank as u32 + below.count_ones();
            count += (bits >> (code & 63) & 1) as usize;
        }
        found.truncate(count);
        if let Some(ranges) = &self.ranges {
            for (position, end) in found.position.iter_mut().zip(&mut found.end) {
                [*position, *end] = ranges[*position as usize];
            }
        } else if let Some(rows) = &self.rows {
            found.position.iter_mut().for_each(|position| *position = rows[*position as usize]);
        }
    }

    /// The rows of those that have one, and nothing more.
    fn find_any(&self, codes: &[u64], probe: &mut Vec<u32>) {
        probe.clear();
        probe.resize(codes.len(), 0);
        let mut count = 0;
        let beyond = self.packing.codes;
        for (row, &code) in codes.iter().enumerate() {
            let code = code.min(beyond);
            probe[count] = row as u32;
            count += (self.blocks[(code >> 6) as usize][0] >> (code & 63) & 1) as usize;
        }
        probe.truncate(count);
    }
}

/// See the module.
pub(in super::super) struct Hashed {
    /// How entries' words come about: by code, or (`None`) they are hashes.
    pub packing: Option<Packing>,
    pub(super) part_bits: u32,
    pub(super) slot_bits: u32,
    /// Bits 32..64: tags; bits 0..32: the position of the bucket's first entry. After each part's slots, one more
    /// without tags that says where the last bucket ends.
    pub(super) directory: Vec<u64>,
    /// The word and the row.
    pub(super) entries: Vec<[u64; 2]>,
    pub(super) unique: bool,
}

/// Two of 32 bits, from hash bits that do not choose the slot.
#[inline(always)]
pub(in super::super) fn tag(hash: u64) -> u64 {
    (1 << (32 + (hash & 31))) | (1 << (32 + (hash >> 5 & 31)))
}

/// The part and the slot of a hash: its upper bits, with one slot more after each part.
#[inline(always)]
fn slot_of(hash: u64, part_bits: u32, slot_bits: u32) -> usize {
    // Shifted in two steps, as shifting by 64 is no shift.
    ((hash >> 1) >> (63 - slot_bits)) as usize + ((hash >> 1) >> (63 - part_bits)) as usize
}

/// Rows that are looked up together: each step asks for the cache lines of the next, for all of them, before that
/// begins. Few enough for the lines to stay in the first-level cache.
const LOOKUP_ROWS: usize = 256;

impl Hashed {
    fn find(&self, words: &[u64], hashes: &[u64], found: &mut Found) {
        let rows = words.len();
        found.clear(rows);
        let mut count = 0;
        let mut slots = [0; LOOKUP_ROWS];
        for start in (0..rows).step_by(LOOKUP_ROWS) {
            let block = start..rows.min(start + LOOKUP_ROWS);
            for (slot, &hash) in slots.iter_mut().zip(&hashes[block.clone()]) {
                *slot = slot_of(hash, self.part_bits, self.slot_bits);
                prefetch(&self.directory, *slot);
            }
            count = self.find_block(block, words, hashes, &slots, found, count);
        }
        found.truncate(count);
    }

    #[inline(always)]
    fn find_block(
        &self,
        block: std::ops::Range<usize>,
        words: &[u64],
        hashes: &[u64],
        slots: &[usize; LOOKUP_ROWS],
        found: &mut Found,
        first: usize,
    ) -> usize {
        // Everything below is written at most as often as the block has rows.
        let written = first..first + block.len();
        let probe = &mut found.probe[written.clone()];
        let position = &mut found.position[written.clone()];
        let end = &mut found.end[written];
        let mut candidates = 0;
        for (row, &slot) in block.zip(slots) {
            let (entry, next) = (self.directory[slot], self.directory[slot + 1]);
            let tag = tag(hashes[row]);
            probe[candidates] = row as u32;
            position[candidates] = entry as u32;
            end[candidates] = next as u32;
            prefetch(&self.entries, entry as u32 as usize);
            candidates += (entry & tag == tag && words[row] != NO_CODE) as usize;
        }
        // The first entry with the word, if any. The tags let few pass in vain, and most buckets have one entry or two:
        // two are looked at without a branch that could be mispredicted.
        let mut count = 0;
        for candidate in 0..candidates {
            let row = probe[candidate];
            let word = words[row as usize];
            let stop = end[candidate];
            let mut at = position[candidate];
            at += (self.entries[at as usize][0] != word && at + 1 < stop) as u32;
            let mut entry = self.entries[at as usize];
            while entry[0] != word && at + 1 < stop {
                at += 1;
                entry = self.entries[at as usize];
            }
            probe[count] = row;
            position[count] = if self.unique { entry[1] as u32 } else { at };
            end[count] = stop;
            count += (entry[0] == word) as usize;
        }
        first + count
    }
}

impl Table {
    /// How rows' words come about: by code, or (`None`) they are hashes.
    pub fn packing(&self) -> Option<&Packing> {
        match self {
            Table::Dense(dense) => Some(&dense.packing),
            Table::Hashed(hashed) => hashed.packing.as_ref(),
        }
    }

    /// Whether [`find`](Self::find) looks at hashes.
    pub fn needs_hashes(&self) -> bool {
        matches!(self, Table::Hashed(_))
    }

    /// Whether no two rows have the same word, be it a code or a hash.
    pub fn is_unique(&self) -> bool {
        match self {
            Table::Dense(dense) => dense.ranges.is_none(),
            Table::Hashed(hashed) => hashed.unique,
        }
    }

    /// Finds the candidates of a batch of rows, by their words and hashes.
    pub fn find(&self, words: &[u64], hashes: &[u64], found: &mut Found) {
        match self {
            Table::Dense(dense) => dense.find(words, found),
            Table::Hashed(hashed) => hashed.find(words, hashes, found),
        }
    }

    /// Finds which rows have a candidate: `found.probe`, and nothing else.
    pub fn find_any(&self, words: &[u64], hashes: &[u64], found: &mut Found) {
        match self {
            Table::Dense(dense) => dense.find_any(words, &mut found.probe),
            Table::Hashed(hashed) => hashed.find(words, hashes, found),
        }
    }

    /// Appends build rows of a run that starts at `position` until there are `room` of them; the position to go on
    /// from, or `None` at the end of the run.
    #[inline(always)]
    pub fn run(&self, word: u64, position: u32, end: u32, room: usize, rows: &mut Vec<u32>) -> Option<u32> {
        match self {
            Table::Dense(dense) => {
                let (end, rest) = match (end - position) as usize > room {
                    true => (position + room as u32, Some(position + room as u32)),
                    false => (end, None),
                };
                match &dense.rows {
                    Some(all) => rows.extend_from_slice(&all[position as usize..end as usize]),
                    None => rows.extend(position..end),
                }
                rest
            }
            Table::Hashed(hashed) => {
                let mut at = position;
                let last = rows.len() + room;
                while at < end && hashed.entries[at as usize][0] == word {
                    if rows.len() == last {
                        return Some(at);
                    }
                    rows.push(hashed.entries[at as usize][1] as u32);
                    at += 1;
                }
                None
            }
        }
    }

    /// How many steps [`rows_at`](Self::rows_at) has.
    pub fn steps(&self) -> usize {
        match self {
            Table::Dense(dense) => dense.blocks.len(),
            Table::Hashed(hashed) => hashed.entries.len(),
        }
    }

    /// Appends the rows of a step, and the code or hash of each.
    pub fn rows_at(&self, step: usize, rows: &mut Vec<u32>, words: &mut Vec<u64>) {
        match self {
            Table::Dense(dense) => {
                let [mut bits, mut rank] = dense.blocks[step];
                while bits != 0 {
                    let code = (step << 6) as u64 + u64::from(bits.trailing_zeros());
                    let [start, end] = match &dense.ranges {
                        Some(ranges) => ranges[rank as usize],
                        None => [rank as u32, rank as u32 + 1],
                    };
                    match &dense.rows {
                        Some(all) => rows.extend_from_slice(&all[start as usize..end as usize]),
                        None => rows.extend(start..end),
                    }
                    words.resize(rows.len(), code);
                    bits &= bits - 1;
                    rank += 1;
                }
            }
            Table::Hashed(hashed) => {
                let [word, row] = hashed.entries[step];
                rows.push(row as u32);
                words.push(word);
            }
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Table::Dense(dense) => {
                let rows = dense.rows.as_ref().map_or(0, |rows| rows.len() * 4);
                dense.blocks.len() * 16 + rows + dense.ranges.as_ref().map_or(0, |ranges| ranges.len() * 8)
            }
            Table::Hashed(hashed) => hashed.directory.len() * 8 + hashed.entries.len() * 16,
        }
    }
}
