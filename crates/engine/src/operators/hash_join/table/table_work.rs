//! Building a [table](super::hash_table) from the chunks of the build side, in parts that own disjoint ranges of codes
//! or of hashes and that any workers may do at the same time.

use std::sync::Arc;

use diligence_memory::{QueryMemory, Reservation};

use super::chunk::{Chunk, PARTITION_BITS};
use super::hash_table::{Dense, Hashed, Table, hash_as_word, tag};
use super::packing::Packing;
use super::shared_vec::SharedVec;
use crate::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Rows, or codes, in a part of a table: a millisecond or two of work. Tests have many parts of few rows.
const PART_ROWS: usize = if cfg!(test) { 64 } else { 64 << 10 };

/// A table being built, in parts.
pub(in super::super) enum TableWork {
    Dense(DenseWork),
    Hashed(HashedWork),
}

pub(in super::super) struct DenseWork {
    packing: Packing,
    part_codes: u64,
    parts: usize,
    /// One key without NULLs, which ascends throughout: positions are rows.
    sorted: bool,
    blocks: SharedVec<[u64; 2]>,
    rows: Option<SharedVec<u32>>,
    ranges: SharedVec<[u32; 2]>,
    /// Positions given to parts so far.
    taken: AtomicUsize,
    duplicates: AtomicBool,
    /// Positions of parts without duplicates.
    unique: Mutex<Vec<(usize, usize)>>,
}

pub(in super::super) struct HashedWork {
    packing: Option<Packing>,
    part_bits: u32,
    slot_bits: u32,
    directory: SharedVec<u64>,
    entries: SharedVec<[u64; 2]>,
    taken: AtomicUsize,
    duplicates: AtomicBool,
}

impl TableWork {
    /// Plans the table of `rows` rows that can match. `packing` is given where all keys are words that fit.
    pub fn new(packing: Option<Packing>, rows: usize, sorted: bool, packets: usize, is_compact: bool) -> Self {
        match packing {
            Some(packing)
                if packing.is_dense(rows)
                    && (!is_compact || Self::bytes(Some(&packing), rows) <= Self::compact_bytes(rows)) =>
            {
                let codes = packing.codes;
                let blocks = (codes / 64 + 1) as usize;
                // Unless sorted, each part reads all keys, so there are few.
                let parts_max = if sorted { 64 } else { (2 * packets).clamp(1, 16) };
                let parts = (rows / PART_ROWS).max(blocks / PART_ROWS).clamp(1, parts_max);
                let part_codes = (blocks.div_ceil(parts) * 64) as u64;
                TableWork::Dense(DenseWork {
                    parts: blocks.div_ceil((part_codes / 64) as usize),
                    part_codes,
                    sorted,
                    blocks: SharedVec::new(vec![[0; 2]; blocks]),
                    rows: (!sorted).then(|| SharedVec::new(vec![0; rows])),
                    ranges: SharedVec::new(vec![[0; 2]; rows]),
                    taken: AtomicUsize::new(0),
                    duplicates: AtomicBool::new(false),
                    unique: Mutex::default(),
                    packing,
                })
            }
            packing => {
                let parts = (rows / PART_ROWS).clamp(1, 1 << PARTITION_BITS);
                let part_bits = usize::BITS - 1 - parts.leading_zeros();
                // One or two slots per row.
                let slot_bits = (rows.max(2) as u64).next_power_of_two().trailing_zeros().max(part_bits + 1);
                let slots = (1usize << slot_bits) + (1 << part_bits);
                TableWork::Hashed(HashedWork {
                    packing,
                    part_bits,
                    slot_bits,
                    directory: SharedVec::new(vec![0; slots]),
                    entries: SharedVec::new(vec![[0; 2]; rows]),
                    taken: AtomicUsize::new(0),
                    duplicates: AtomicBool::new(false),
                })
            }
        }
    }

    /// Bytes that [`new`](Self::new) takes and the parts fill.
    pub fn bytes(packing: Option<&Packing>, rows: usize) -> usize {
        match packing {
            Some(packing) if packing.is_dense(rows) => (packing.codes / 4) as usize + 12 * rows,
            _ => Self::compact_bytes(rows),
        }
    }

    /// The same at most, if the table is to be compact.
    pub fn compact_bytes(rows: usize) -> usize {
        16 * rows + 8 * (rows + 2).next_power_of_two() + 1024
    }

    /// The same for each row, at least.
    pub fn bytes_per_row(can_be_dense: bool) -> usize {
        if can_be_dense { 12 } else { 24 }
    }

    pub fn parts(&self) -> usize {
        match self {
            TableWork::Dense(dense) => dense.parts,
            TableWork::Hashed(hashed) => 1 << hashed.part_bits,
        }
    }

    /// One part of the work. Each is done once; different ones at the same time.
    pub fn work(&self, part: usize, chunks: &[Chunk], memory: &QueryMemory) {
        match self {
            TableWork::Dense(dense) => dense.work(part, chunks, memory),
            TableWork::Hashed(hashed) => hashed.work(part, chunks, memory),
        }
    }

    pub fn finish(self) -> Table {
        match self {
            TableWork::Dense(work) => {
                let duplicates = work.duplicates.into_inner();
                let ranges = duplicates.then(|| {
                    let mut ranges = work.ranges.into_vec();
                    for (start, len) in work.unique.into_inner() {
                        for position in start..start + len {
                            ranges[position] = [position as u32, position as u32 + 1];
                        }
                    }
                    ranges
                });
                Table::Dense(Arc::new(Dense {
                    packing: work.packing,
                    blocks: work.blocks.into_vec(),
                    rows: work.rows.map(SharedVec::into_vec),
                    ranges,
                }))
            }
            TableWork::Hashed(work) => Table::Hashed(Hashed {
                part_bits: work.part_bits,
                slot_bits: work.slot_bits,
                directory: work.directory.into_vec(),
                entries: work.entries.into_vec(),
                unique: !work.duplicates.into_inner(),
                packing: work.packing,
            }),
        }
    }
}

impl DenseWork {
    fn work(&self, part: usize, chunks: &[Chunk], memory: &QueryMemory) {
        if self.sorted {
            self.work_sorted(part, chunks);
        } else {
            self.work_unsorted(part, chunks, memory);
        }
    }

    /// The blocks of a part, and its first code.
    #[expect(clippy::mut_from_ref, reason = "as for SharedVec::range_mut")]
    fn blocks_of(&self, part: usize) -> (&mut [[u64; 2]], u64) {
        let first_code = part as u64 * self.part_codes;
        let first = (first_code / 64) as usize;
        let count = ((self.packing.codes / 64 + 1) as usize - first).min((self.part_codes / 64) as usize);
        // SAFETY: parts own disjoint ranges of codes, a whole number of blocks each, and each part is worked on once.
        (unsafe { self.blocks.range_mut(first..first + count) }, first_code)
    }

    /// A part of a sorted build of one key without NULLs: its rows stand side by side, and positions are rows.
    fn work_sorted(&self, part: usize, chunks: &[Chunk]) {
        let (blocks, first_code) = self.blocks_of(part);
        let min = self.packing.keys[0].min;
        let codes = first_code..first_code + self.part_codes;
        let mut start = None;
        let mut count = 0;
        let mine = || {
            chunks.iter().filter_map(|chunk| {
                let (low, high) = (chunk.bounds[0].0 - min, chunk.bounds[0].1 - min);
                if high < codes.start || low >= codes.end {
                    return None;
                }
                let words = chunk.keys[0].words();
                let from = if low >= codes.start { 0 } else { words.partition_point(|&word| word - min < codes.start) };
                let to =
                    if high < codes.end { words.len() } else { words.partition_point(|&word| word - min < codes.end) };
                Some((chunk.first_row + from, &words[from..to]))
            })
        };
        for (row, words) in mine() {
            start.get_or_insert(row);
            count += words.len();
            for &word in words {
                let code = word - min - first_code;
                blocks[(code >> 6) as usize][0] |= 1 << (code & 63);
            }
        }
        let start = start.unwrap_or(0);
        let distinct = rank_blocks(blocks, start);
        if distinct == count {
            self.unique.lock().push((start, count));
            return;
        }
        self.duplicates.store(true, Ordering::Relaxed);
        // SAFETY: in a sorted build the ranks of a part are among the numbers of its rows.
        let ranges = unsafe { self.ranges.range_mut(start..start + distinct) };
        let mut last = None;
        let mut rank = 0;
        for (row, words) in mine() {
            for (row, &word) in (row as u32..).zip(words) {
                if last != Some(word) {
                    rank += last.is_some() as usize;
                    ranges[rank][0] = row;
                    last = Some(word);
                }
                ranges[rank][1] = row + 1;
            }
        }
    }

    fn work_unsorted(&self, part: usize, chunks: &[Chunk], memory: &QueryMemory) {
        let mine = self.collect(part, chunks, memory);
        let mine = &mine.values;
        let count = mine.len();
        let start = self.taken.fetch_add(count, Ordering::Relaxed);
        let (blocks, _) = self.blocks_of(part);
        for &(code, _) in mine {
            blocks[(code >> 6) as usize][0] |= 1 << (code & 63);
        }
        let distinct = rank_blocks(blocks, start);
        let rank_of = |code: u64| {
            let [bits, rank] = blocks[(code >> 6) as usize];
            (rank as usize - start) + (bits & ((1 << (code & 63)) - 1)).count_ones() as usize
        };
        // SAFETY: these positions were taken from the counter by this part.
        let rows = self.rows.as_ref().map(|rows| unsafe { rows.range_mut(start..start + count) });
        let Some(rows) = rows else { return };
        if distinct == count {
            mine.iter().for_each(|&(code, row)| rows[rank_of(code)] = row);
            self.unique.lock().push((start, count));
            return;
        }
        self.duplicates.store(true, Ordering::Relaxed);
        // SAFETY: as for the rows; a part has at most as many ranks as rows.
        let ranges = unsafe { self.ranges.range_mut(start..start + distinct) };
        mine.iter().for_each(|&(code, _)| ranges[rank_of(code)][1] += 1);
        let mut position = start as u32;
        for [first, end] in ranges.iter_mut() {
            let len = *end;
            // The end is where the next row of this rank goes, until all are in.
            (*first, *end) = (position, position);
            position += len;
        }
        for &(code, row) in mine {
            let [_, next] = &mut ranges[rank_of(code)];
            rows[*next as usize - start] = row;
            *next += 1;
        }
    }

    /// The rows with the part's codes, counted from its first.
    fn collect(&self, part: usize, chunks: &[Chunk], memory: &QueryMemory) -> Scratch<(u64, u32)> {
        let codes = part as u64 * self.part_codes..(part as u64 + 1) * self.part_codes;
        let rows: usize = chunks.iter().map(|chunk| chunk.rows).sum();
        let mut mine = Scratch::new(rows / self.parts + rows / self.parts / 16, memory);
        let single = match &self.packing.keys[..] {
            [key] => Some(key),
            _ => None,
        };
        for chunk in staggered(chunks, part, self.parts) {
            if let Some(key) = single {
                let (min, max) = chunk.bounds[0];
                let code = |word: u64| word.saturating_sub(key.min) + key.null_code as u64;
                // The chunk's NULLs have the code 0.
                let low = if key.null_code && chunk.keys[0].nulls.is_some() { 0 } else { code(min) };
                if (min > max && low != 0) || code(max) < codes.start || low >= codes.end {
                    continue;
                }
            }
            for (row, &code) in chunk.codes(&self.packing).iter().enumerate() {
                let distance = code.wrapping_sub(codes.start);
                if distance < self.part_codes && chunk.can_match(row) {
                    mine.make_room(1);
                    mine.values.push((distance, (chunk.first_row + row) as u32));
                }
            }
        }
        mine
    }
}

/// Fills in the ranks, the first of which is `start`, and tells how many there are.
fn rank_blocks(blocks: &mut [[u64; 2]], start: usize) -> usize {
    let mut rank = start as u64;
    for [bits, first] in blocks.iter_mut() {
        *first = rank;
        rank += u64::from(bits.count_ones());
    }
    rank as usize - start
}

impl HashedWork {
    fn work(&self, part: usize, chunks: &[Chunk], memory: &QueryMemory) {
        let (mine, tags) = self.collect(part, chunks, memory);
        let (mine, tags) = (&mine.values, &tags.values);
        let start = self.taken.fetch_add(mine.len(), Ordering::Relaxed);
        let slots = 1usize << (self.slot_bits - self.part_bits);
        let first_slot = part * (slots + 1);
        // SAFETY: parts own disjoint slots: those of their hashes, and one more.
        let directory = unsafe { self.directory.range_mut(first_slot..first_slot + slots + 1) };
        // SAFETY: these positions were taken from the counter by this part.
        let entries = unsafe { self.entries.range_mut(start..start + mine.len()) };
        for (&(slot, ..), &tag) in mine.iter().zip(tags) {
            let entry = &mut directory[slot as usize];
            *entry = (*entry | tag) + 1;
        }
        // Counts become ends, and ends become starts as the entries are put in, last first.
        let mut position = start as u64;
        for entry in directory.iter_mut() {
            position += *entry & u64::from(u32::MAX);
            *entry = *entry & !u64::from(u32::MAX) | position;
        }
        for &(slot, row, word) in mine.iter().rev() {
            let entry = &mut directory[slot as usize];
            *entry -= 1;
            entries[(*entry & u64::from(u32::MAX)) as usize - start] = [word, u64::from(row)];
        }
        let mut duplicates = false;
        for bucket in 0..slots {
            let at = |slot: usize| (directory[slot] & u64::from(u32::MAX)) as usize - start;
            let (first, end) = (at(bucket), at(bucket + 1));
            if end - first > 1 {
                let bucket = &mut entries[first..end];
                if !bucket.is_sorted_by_key(|entry| entry[0]) {
                    bucket.sort_by_key(|entry| entry[0]);
                }
                duplicates |= bucket.windows(2).any(|pair| pair[0][0] == pair[1][0]);
            }
        }
        if duplicates {
            self.duplicates.store(true, Ordering::Relaxed);
        }
    }

    /// The rows of this part: the slot in the part, the row, the word; and their tags.
    fn collect(&self, part: usize, chunks: &[Chunk], memory: &QueryMemory) -> PartRows {
        let expected = chunks.iter().map(|chunk| chunk.rows).sum::<usize>() >> self.part_bits;
        let mut mine = Scratch::new(expected + expected / 16, memory);
        let mut tags = Scratch::new(expected + expected / 16, memory);
        let first_slot = (part as u64) << (self.slot_bits - self.part_bits);
        let slot_of = |hash: u64| (((hash >> 1) >> (63 - self.slot_bits)) - first_slot) as u32;
        let per_part = PARTITION_BITS - self.part_bits;
        for chunk in staggered(chunks, part, 1 << self.part_bits) {
            let hashes = chunk.hashes();
            let codes = self.packing.as_ref().map(|packing| chunk.codes(packing));
            let rows = chunk.partitions().rows(part << per_part..(part + 1) << per_part);
            mine.make_room(rows.len());
            tags.make_room(rows.len());
            for &row in rows {
                let hash = hashes[row as usize];
                let word = codes.map_or(hash_as_word(hash), |codes| codes[row as usize]);
                mine.values.push((slot_of(hash), chunk.first_row as u32 + row, word));
                tags.values.push(tag(hash));
            }
        }
        (mine, tags)
    }
}

/// All chunks, each part starting elsewhere: what the first part that comes to a chunk computes for all, others find
/// done instead of waiting for it.
fn staggered(chunks: &[Chunk], part: usize, parts: usize) -> impl Iterator<Item = &Chunk> {
    let (before, from) = chunks.split_at(chunks.len() * part / parts);
    from.iter().chain(before)
}

/// The rows of a part: the slot in the part, the row, the word; and their tags.
type PartRows = (Scratch<(u32, u32, u64)>, Scratch<u64>);

/// A list that one part of the work needs for itself while it works. It counts as reserved even where that is refused:
/// a part is a small share of the build side, unless one key has most of its rows.
struct Scratch<T> {
    values: Vec<T>,
    reservation: Reservation,
}

impl<T> Scratch<T> {
    fn new(capacity: usize, memory: &QueryMemory) -> Self {
        let mut reservation = memory.reservation("HashJoin");
        reservation.overdraw(capacity * size_of::<T>());
        Self { values: Vec::with_capacity(capacity), reservation }
    }

    /// Room for so many more.
    #[inline(always)]
    fn make_room(&mut self, more: usize) {
        if self.values.capacity() - self.values.len() < more {
            self.enlarge(more);
        }
    }

    #[cold]
    fn enlarge(&mut self, more: usize) {
        let before = self.values.capacity();
        let capacity = (self.values.len() + more).max(2 * before);
        // The old list is held until it is copied.
        self.reservation.overdraw(capacity * size_of::<T>());
        self.values.reserve_exact(capacity - self.values.len());
        self.reservation.shrink(before * size_of::<T>());
    }
}
