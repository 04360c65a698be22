//! The keys of one batch of the build side.

use std::sync::OnceLock;

use arrow::buffer::{BooleanBuffer, NullBuffer};

use super::packing::Packing;
use crate::operators::key_words::{KeyColumn, KeyData, hash_rows};

/// Bits of the hash by which chunks are partitioned while they come in.
pub(super) const PARTITION_BITS: u32 = 6;

/// See the module.
pub(in super::super) struct Chunk {
    pub rows: usize,
    /// The number of its first row among all rows of the build side.
    pub first_row: usize,
    pub keys: Vec<KeyColumn>,
    /// Rows that can match, if not all: those without a NULL key, unless NULLs are equal.
    pub valid: Option<NullBuffer>,
    /// Smallest and largest word of each key that has words; the wrong way round if all are NULL.
    pub bounds: Vec<(u64, u64)>,
    /// One key, no NULL, ascending words.
    pub sorted: bool,
    /// Rows that have found a partner before the chunk went to temp space, if it was not none.
    pub matched: Option<BooleanBuffer>,
    codes: OnceLock<Vec<u64>>,
    hashes: OnceLock<Vec<u64>>,
    partitions: OnceLock<HashPartitions>,
}

impl Chunk {
    pub fn new(keys: Vec<KeyColumn>, rows: usize, valid: Option<NullBuffer>, matched: Option<BooleanBuffer>) -> Self {
        let bounds = keys.iter().map(KeyColumn::bounds).collect();
        let sorted = match &keys[..] {
            [KeyColumn { data: KeyData::Words(words), nulls: None }] => words.is_sorted(),
            _ => false,
        };
        let [codes, hashes] = [OnceLock::new(), OnceLock::new()];
        Self { rows, first_row: 0, keys, valid, bounds, sorted, matched, codes, hashes, partitions: OnceLock::new() }
    }

    /// Rows that can match.
    pub fn matchable(&self) -> usize {
        self.valid.as_ref().map_or(self.rows, |valid| valid.len() - valid.null_count())
    }

    #[inline(always)]
    pub fn can_match(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid.is_valid(row))
    }

    pub fn codes(&self, packing: &Packing) -> &[u64] {
        self.codes.get_or_init(|| {
            let mut codes = Vec::with_capacity(self.rows);
            packing.pack(&self.keys, &mut codes);
            codes
        })
    }

    pub fn hashes(&self) -> &[u64] {
        self.hashes.get_or_init(|| {
            let mut hashes = Vec::with_capacity(self.rows);
            hash_rows(&self.keys, &mut hashes);
            hashes
        })
    }

    pub(super) fn partitions(&self) -> &HashPartitions {
        self.partitions.get_or_init(|| HashPartitions::new(self.hashes(), self.valid.as_ref()))
    }
}

/// The smallest and the largest word of a key.
pub(in super::super) fn key_bounds<'a>(chunks: impl Iterator<Item = &'a Chunk>, key: usize) -> (u64, u64) {
    chunks.fold((u64::MAX, 0), |(min, max), chunk| {
        let (low, high) = chunk.bounds[key];
        (min.min(low), max.max(high))
    })
}

/// The rows of a chunk that can match, by the upper bits of their hashes.
pub(super) struct HashPartitions {
    rows: Vec<u32>,
    ends: [u32; 1 << PARTITION_BITS],
}

impl HashPartitions {
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

    pub fn rows(&self, partitions: std::ops::Range<usize>) -> &[u32] {
        let start = if partitions.start == 0 { 0 } else { self.ends[partitions.start - 1] };
        &self.rows[start as usize..self.ends[partitions.end - 1] as usize]
    }
}
