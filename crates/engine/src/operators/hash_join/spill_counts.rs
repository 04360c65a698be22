//! What a join that did not fit has written to temp space.

use std::fmt;

use crate::memory::display_bytes;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counters of one join's run.
#[derive(Debug, Default)]
pub struct SpillCounts {
    partitions: AtomicUsize,
    spilled: AtomicUsize,
    levels: AtomicUsize,
    blocks: AtomicUsize,
    bytes: AtomicU64,
}

/// The same at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spilled {
    /// Partitions made, over all levels.
    pub partitions: usize,
    /// Those of them that went to temp space.
    pub partitions_spilled: usize,
    /// How often rows were partitioned at most: 1 without recursion.
    pub levels: usize,
    /// Blocks of a build side that were joined one after another because partitioning does not help.
    pub blocks: usize,
    /// Bytes written.
    pub bytes: u64,
}

impl fmt::Display for Spilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "spilled {} of {} partitions, {} levels, {} blocks, {} written",
            self.partitions_spilled,
            self.partitions,
            self.levels,
            self.blocks,
            display_bytes(self.bytes as usize),
        )
    }
}

impl SpillCounts {
    /// Rows are being partitioned at a level, from 0.
    pub(super) fn partitioned(&self, level: u32, fan_out: usize) {
        self.partitions.fetch_add(fan_out, Ordering::Relaxed);
        self.levels.fetch_max(level as usize + 1, Ordering::Relaxed);
    }

    pub(super) fn spilled_partition(&self) {
        self.spilled.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn spilled_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn block(&self) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters at this moment.
    pub fn get(&self) -> Spilled {
        Spilled {
            partitions: self.partitions.load(Ordering::Relaxed),
            partitions_spilled: self.spilled.load(Ordering::Relaxed),
            levels: self.levels.load(Ordering::Relaxed),
            blocks: self.blocks.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}
