//! Finding the build rows of a key.
//!
//! Keys that are words are packed into one *code* each: per key the distance from the smallest build key, side by side in
//! 64 bits where they fit, so that one comparison compares all keys. Then there are three tables:
//!
//! * [`Dense`]: codes in a small range. One bit per code and a count per 64 codes give the code's *rank*, and with it the
//!   rows: exact, without hashing, a quarter byte per code. (A rank bitmap instead of an array of rows keeps the tables
//!   of a star's dimensions in the cache.)
//! * [`Hashed`] by code: a directory of 64-bit entries, each with the position of the first entry of its bucket and 32 bits
//!   of tags, and the entries of a bucket side by side (the "unchained" hash table of Birler, Schmidt, Fent, Neumann,
//!   *Simple, Efficient, and Robust Hash Tables for Join Processing*, DaMoN 2024). Most misses cost one cache line, hits two.
//! * [`Hashed`] by hash, where keys are strings or too wide: the same with the hash in the place of the code; what it
//!   finds must be compared key by key.
//!
//! All are built in parts that own disjoint ranges of codes or of hashes.
//!
//! Invariant: rows of equal code (or hash) stand side by side, so that a key's rows are one run from its first *position*.

use arrow::buffer::NullBuffer;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::build::Chunk;
use super::keys::KeyColumn;
use super::shared_vec::SharedVec;

/// The code of a row that cannot match anything.
pub(super) const NO_CODE: u64 = u64::MAX;

/// Codes per build row up to which a [`Dense`] table is used: its 16 bytes per 64 codes are then at most the 24 to 32 bytes
/// that a hash table has per row; and where both sides come in the order of the keys it is read in order.
const DENSE_CODES_PER_ROW: u64 = 128;

/// Codes that are worth a dense table however few rows there are: 256 KiB, a part of the second-level cache.
const DENSE_CODES_ALWAYS: u64 = if cfg!(test) { 64 } else { 1 << 20 };

/// Rows, or codes, in a part of a table: a millisecond or two of work. Tests have many parts of few rows.
const PART_ROWS: usize = if cfg!(test) { 64 } else { 64 << 10 };

/// Bits of the hash by which chunks are partitioned while they come in.
pub(super) const PARTITION_BITS: u32 = 6;

/// How keys become one code.
#[derive(Clone, Debug)]
pub(in crate::operators) struct Packing {
    keys: Vec<PackedKey>,
    /// Codes are below this.
    pub codes: u64,
}

#[derive(Clone, Debug)]
struct PackedKey {
    min: u64,
    span: u64,
    shift: u32,
    /// NULL has the code 0 and other values one more; otherwise a NULL cannot match.
    null_code: bool,
}

impl Packing {
    /// The packing for keys between these bounds, of which some may be NULL, if a code has room for them and is never
    /// [`NO_CODE`].
    pub fn new(bounds: &[(u64, u64)], null_codes: &[bool]) -> Option<Self> {
        let mut shift = 0;
        let mut keys = Vec::with_capacity(bounds.len());
        let mut codes = 1u64;
        for (&(min, max), &null_code) in bounds.iter().zip(null_codes) {
            // Without a value that is not NULL the bounds are the wrong way round.
            let span = max.saturating_sub(min).checked_add(null_code as u64)?;
            let bits = 64 - span.leading_zeros();
            if shift + bits > 63 && (bounds.len() > 1 || span == NO_CODE) {
                return None;
            }
            keys.push(PackedKey { min, span: max.saturating_sub(min), shift, null_code });
            codes = (span << shift) + (1 << shift);
            shift += bits;
        }
        Some(Self { keys, codes })
    }

    /// Writes the code of each row.
    pub fn pack(&self, columns: &[KeyColumn], codes: &mut Vec<u64>) {
        codes.clear();
        for (index, (key, column)) in self.keys.iter().zip(columns).enumerate() {
            let (min, span, shift, plus) = (key.min, key.span, key.shift, key.null_code as u64);
            let code = |word: u64| {
                let distance = word.wrapping_sub(min);
                if distance > span { NO_CODE } else { (distance + plus) << shift }
            };
            if index == 0 {
                codes.extend(column.words().iter().map(|&word| code(word)));
            } else {
                for (packed, &word) in codes.iter_mut().zip(column.words()) {
                    // All ones stay all ones; valid codes have no common bits.
                    *packed |= code(word);
                }
            }
            if let Some(nulls) = &column.nulls {
                // What stood under the NULL has spoiled a code that other keys share: make it anew.
                let others = &self.keys[..=index];
                for (row, packed) in codes.iter_mut().enumerate() {
                    if nulls.is_null(row) {
                        *packed = if key.null_code { repacked(others, columns, row) } else { NO_CODE };
                    }
                }
            }
        }
    }

    /// Whether a dense table suits.
    pub fn is_dense(&self, rows: usize) -> bool {
        self.codes <= DENSE_CODES_ALWAYS.max(DENSE_CODES_PER_ROW * rows as u64)
    }
}

fn repacked(keys: &[PackedKey], columns: &[KeyColumn], row: usize) -> u64 {
    let mut packed = 0;
    for (key, column) in keys.iter().zip(columns) {
        if column.is_null(row) {
            packed |= if key.null_code { 0 } else { NO_CODE };
        } else {
            let distance = column.words()[row].wrapping_sub(key.min);
            packed |= if distance > key.span { NO_CODE } else { (distance + key.null_code as u64) << key.shift };
        }
    }
    packed
}

/// A finished table.
pub(in crate::operators) enum Table {
    /// By code, without hashing.
    Dense(Dense),
    /// By hash.
    Hashed(Hashed),
}

/// What a probe batch's rows found: rows with at least one candidate, and where its candidates are.
#[derive(Default)]
pub(in crate::operators) struct Found {
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
pub(in crate::operators) struct Dense {
    pub(super) packing: Packing,
    /// Per 64 codes: which are there, and the rank of the first one that is.
    blocks: Vec<[u64; 2]>,
    /// The row at each position. `None`: the position is the row.
    rows: Option<Vec<u32>>,
    /// The positions of each rank's rows. `None`: the rank is the position, for no code has two rows.
    ranges: Option<Vec<[u32; 2]>>,
}

impl Dense {
    /// Whether a build row has the word, in a table of one key.
    #[inline(always)]
    pub fn contains_word(&self, word: u64) -> bool {
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
pub(in crate::operators) struct Hashed {
    /// How entries' words come about: by code, or (`None`) they are hashes.
    pub packing: Option<Packing>,
    part_bits: u32,
    slot_bits: u32,
    /// Bits 32..64: tags; bits 0..32: the position of the bucket's first entry. After each part's slots, one more without
    /// tags that says where the last bucket ends.
    directory: Vec<u64>,
    /// The word and the row.
    entries: Vec<[u64; 2]>,
    unique: bool,
}

/// Two of 32 bits, from hash bits that do not choose the slot.
#[inline(always)]
fn tag(hash: u64) -> u64 {
    (1 << (32 + (hash & 31))) | (1 << (32 + (hash >> 5 & 31)))
}

/// The part and the slot of a hash: its upper bits, with one slot more after each part.
#[inline(always)]
fn slot_of(hash: u64, part_bits: u32, slot_bits: u32) -> usize {
    // Shifted in two steps, as shifting by 64 is no shift.
    ((hash >> 1) >> (63 - slot_bits)) as usize + ((hash >> 1) >> (63 - part_bits)) as usize
}

/// Rows that are looked up together: each step asks for the cache lines of the next, for all of them, before that begins.
/// Few enough for the lines to stay in the first-level cache.
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

/// Asks for the cache line of a value that will be read soon.
#[inline(always)]
fn prefetch<T>(values: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fault, wherever the address is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().wrapping_add(index).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, index);
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

    /// Appends build rows of a run that starts at `position` until there are `room` of them; the position to go on from, or
    /// `None` at the end of the run.
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

/// A table being built, in parts.
pub(super) enum TableWork {
    Dense(DenseWork),
    Hashed(HashedWork),
}

pub(super) struct DenseWork {
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

pub(super) struct HashedWork {
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
    pub fn new(packing: Option<Packing>, rows: usize, sorted: bool, packets: usize) -> Self {
        match packing {
            Some(packing) if packing.is_dense(rows) => {
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
            _ => 16 * rows + 8 * (rows + 2).next_power_of_two() + 1024,
        }
    }

    pub fn parts(&self) -> usize {
        match self {
            TableWork::Dense(dense) => dense.parts,
            TableWork::Hashed(hashed) => 1 << hashed.part_bits,
        }
    }

    /// One part of the work. Each is done once; different ones at the same time.
    pub fn work(&self, part: usize, chunks: &[Chunk]) {
        match self {
            TableWork::Dense(dense) => dense.work(part, chunks),
            TableWork::Hashed(hashed) => hashed.work(part, chunks),
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
                Table::Dense(Dense {
                    packing: work.packing,
                    blocks: work.blocks.into_vec(),
                    rows: work.rows.map(SharedVec::into_vec),
                    ranges,
                })
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
    fn work(&self, part: usize, chunks: &[Chunk]) {
        if self.sorted { self.work_sorted(part, chunks) } else { self.work_unsorted(part, chunks) }
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

    fn work_unsorted(&self, part: usize, chunks: &[Chunk]) {
        let mine = self.collect(part, chunks);
        let count = mine.len();
        let start = self.taken.fetch_add(count, Ordering::Relaxed);
        let (blocks, _) = self.blocks_of(part);
        for &(code, _) in &mine {
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
        for &(code, row) in &mine {
            let [_, next] = &mut ranges[rank_of(code)];
            rows[*next as usize - start] = row;
            *next += 1;
        }
    }

    /// The rows with the part's codes, counted from its first.
    fn collect(&self, part: usize, chunks: &[Chunk]) -> Vec<(u64, u32)> {
        let codes = part as u64 * self.part_codes..(part as u64 + 1) * self.part_codes;
        let rows: usize = chunks.iter().map(|chunk| chunk.rows).sum();
        let mut mine = Vec::with_capacity(rows / self.parts + rows / self.parts / 16);
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
                    mine.push((distance, (chunk.first_row + row) as u32));
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
    fn work(&self, part: usize, chunks: &[Chunk]) {
        let (mine, tags) = self.collect(part, chunks);
        let start = self.taken.fetch_add(mine.len(), Ordering::Relaxed);
        let slots = 1usize << (self.slot_bits - self.part_bits);
        let first_slot = part * (slots + 1);
        // SAFETY: parts own disjoint slots: those of their hashes, and one more.
        let directory = unsafe { self.directory.range_mut(first_slot..first_slot + slots + 1) };
        // SAFETY: these positions were taken from the counter by this part.
        let entries = unsafe { self.entries.range_mut(start..start + mine.len()) };
        for (&(slot, ..), tag) in mine.iter().zip(tags) {
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
    fn collect(&self, part: usize, chunks: &[Chunk]) -> (Vec<(u32, u32, u64)>, Vec<u64>) {
        let expected = chunks.iter().map(|chunk| chunk.rows).sum::<usize>() >> self.part_bits;
        let mut mine = Vec::with_capacity(expected + expected / 16);
        let mut tags = Vec::with_capacity(mine.capacity());
        let first_slot = (part as u64) << (self.slot_bits - self.part_bits);
        let slot_of = |hash: u64| (((hash >> 1) >> (63 - self.slot_bits)) - first_slot) as u32;
        let per_part = PARTITION_BITS - self.part_bits;
        for chunk in staggered(chunks, part, 1 << self.part_bits) {
            let hashes = chunk.hashes();
            let codes = self.packing.as_ref().map(|packing| chunk.codes(packing));
            for &row in chunk.partitions().rows(part << per_part..(part + 1) << per_part) {
                let hash = hashes[row as usize];
                let word = codes.map_or(hash_as_word(hash), |codes| codes[row as usize]);
                mine.push((slot_of(hash), chunk.first_row as u32 + row, word));
                tags.push(tag(hash));
            }
        }
        (mine, tags)
    }
}

/// All chunks, each part starting elsewhere: what the first part that comes to a chunk computes for all, others find done
/// instead of waiting for it.
fn staggered(chunks: &[Chunk], part: usize, parts: usize) -> impl Iterator<Item = &Chunk> {
    let (before, from) = chunks.split_at(chunks.len() * part / parts);
    from.iter().chain(before)
}

/// A hash in the place of a code.
#[inline(always)]
pub(super) fn hash_as_word(hash: u64) -> u64 {
    hash.min(NO_CODE - 1)
}

/// The rows of a chunk that can match, by the upper bits of their hashes.
pub(super) struct Partitions {
    rows: Vec<u32>,
    ends: [u32; 1 << PARTITION_BITS],
}

impl Partitions {
    pub fn new(hashes: &[u64], valid: Option<&NullBuffer>) -> Self {
        let partition = |hash: u64| (hash >> (64 - PARTITION_BITS)) as usize;
        let mut next = [0u32; 1 << PARTITION_BITS];
        match valid {
            None => hashes.iter().for_each(|&hash| next[partition(hash)] += 1),
            Some(valid) => valid.valid_indices().for_each(|row| next[partition(hashes[row])] += 1),
        }
        let mut start = 0;
        for next in &mut next {
            (*next, start) = (start, start + *next);
        }
        let mut rows = vec![0; start as usize];
        let mut put = |row: usize| {
            let next = &mut next[partition(hashes[row])];
            rows[*next as usize] = row as u32;
            *next += 1;
        };
        match valid {
            None => (0..hashes.len()).for_each(&mut put),
            Some(valid) => valid.valid_indices().for_each(&mut put),
        }
        Self { rows, ends: next }
    }

    fn rows(&self, partitions: std::ops::Range<usize>) -> &[u32] {
        let start = if partitions.start == 0 { 0 } else { self.ends[partitions.start - 1] };
        &self.rows[start as usize..self.ends[partitions.end - 1] as usize]
    }
}
