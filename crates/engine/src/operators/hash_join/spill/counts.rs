//! What a join that did not fit has written to temp space.

use std::sync::Arc;

use crate::flow::profile::Spills;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Counters of one join's run.
#[derive(Debug, Default)]
pub(in super::super) struct SpillCounts {
    spills: Arc<Spills>,
    partitions: AtomicUsize,
    levels: AtomicUsize,
    blocks: AtomicUsize,
    reversed: AtomicUsize,
    overflows: AtomicUsize,
}

impl SpillCounts {
    /// What the profile shows of it.
    pub fn spills(&self) -> &Arc<Spills> {
        &self.spills
    }

    /// Rows are being partitioned at a level, from 0.
    pub fn partitioned(&self, level: u32, fan_out: usize) {
        self.partitions.fetch_add(fan_out, Ordering::Relaxed);
        self.levels.fetch_max(level as usize + 1, Ordering::Relaxed);
    }

    pub fn spilled_partition(&self) {
        self.spills.add_file(self.levels.load(Ordering::Relaxed));
    }

    pub fn spilled_bytes(&self, bytes: u64) {
        self.spills.add_bytes(bytes);
    }

    /// A block of a build side is joined by itself, because partitioning does not help.
    pub fn block(&self) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// The table of a pair is made of its probe side.
    pub fn reversed(&self) {
        self.reversed.fetch_add(1, Ordering::Relaxed);
    }

    /// Of a pair only what does not fit is written once more.
    pub fn overflow(&self) {
        self.overflows.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters at this moment, for tests.
    #[cfg(test)]
    pub fn get(&self) -> Spilled {
        let written = self.spills.counts();
        Spilled {
            partitions: self.partitions.load(Ordering::Relaxed),
            partitions_spilled: written.files as usize,
            levels: self.levels.load(Ordering::Relaxed),
            blocks: self.blocks.load(Ordering::Relaxed),
            reversed: self.reversed.load(Ordering::Relaxed),
            overflows: self.overflows.load(Ordering::Relaxed),
            bytes: written.bytes,
        }
    }
}

/// The counters at a moment.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Spilled {
    pub partitions: usize,
    pub partitions_spilled: usize,
    pub levels: usize,
    pub blocks: usize,
    pub reversed: usize,
    pub overflows: usize,
    pub bytes: u64,
}
