//! The rows of one partition of both sides in temp space, and what is read of them while they are joined.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::{ErrorKind, Result};

use super::Config;
use super::emit::{marks_held, needs_held_rows};
use super::held::Bits;
use super::loading::Loading;
use super::overflow::Overflow;
use super::partitions::{Partitions, Side};
use super::spill_counts::SpillCounts;
use crate::batch::Batch;
use crate::memory::Reservation;
use crate::temp::{BatchFile, BatchReader, ReadOptions, SpillBuffers};

/// How often rows are partitioned at most. With four partitions each time a thousandth of a side is left; what does not
/// fit then is one key, or as good as that.
pub(super) const LEVELS_MAX: u32 = if cfg!(test) { 3 } else { 6 };

/// The share of a side, in percent, above which a partition of it is taken for one that cannot be split.
const HEAVY_PERCENT: u64 = 80;

/// Bytes for each row of a table, beside its columns, while it is made: an estimate.
const TABLE_BYTES_PER_ROW: usize = 64;

/// A partition in temp space.
pub(super) struct Pair {
    pub build: Option<BatchFile>,
    pub probe: Option<BatchFile>,
    /// How often its rows were partitioned.
    pub level: u32,
    pub can_split: bool,
}

impl Pair {
    /// The pairs that partitions have written, of a build side of so many rows.
    pub fn all(partitions: &Partitions, build_rows: u64, can_split: bool) -> Vec<Self> {
        let level = partitions.level + 1;
        let pair = |partition| {
            let [build, probe] = [Side::Build, Side::Probe].map(|side| partitions.finish(side, partition));
            let can_split = can_split && !is_heavy(&build, build_rows) && level < LEVELS_MAX;
            Pair { build, probe, level, can_split }
        };
        let pairs = (0..partitions.len()).map(pair);
        pairs.filter(|pair| pair.build.is_some() || pair.probe.is_some()).collect()
    }

    /// Whether a row can come out.
    pub fn matters(&self, config: &Config) -> bool {
        let join_type = config.pairs.join_type;
        match (&self.build, &self.probe) {
            (None, _) => !needs_held_rows(join_type),
            (Some(_), None) => marks_held(join_type),
            _ => true,
        }
    }

    /// Bytes of its table while that is made, about.
    pub fn table_bytes(&self) -> usize {
        table_bytes(&self.build)
    }

    /// The same for a table of the probe side, if that is smaller.
    pub fn reversed_bytes(&self) -> Option<usize> {
        let bytes = table_bytes(&self.probe);
        (self.build.is_some() && self.probe.is_some() && bytes < self.table_bytes()).then_some(bytes)
    }
}

/// Whether a partition has nearly all rows of a build side.
pub(super) fn is_heavy(build: &Option<BatchFile>, build_rows: u64) -> bool {
    rows_of(build) * 100 > build_rows * HEAVY_PERCENT
}

pub(super) fn rows_of(file: &Option<BatchFile>) -> u64 {
    file.as_ref().map_or(0, BatchFile::rows)
}

fn table_bytes(file: &Option<BatchFile>) -> usize {
    let bytes = |file: &BatchFile| 2 * file.unpacked_bytes() as usize + TABLE_BYTES_PER_ROW * file.rows() as usize;
    file.as_ref().map_or(0, bytes)
}

/// A pair at work.
pub(super) struct Work {
    pub pair: Pair,
    /// The join, or its mirror image: then the table is made of the probe side.
    pub config: Arc<Config>,
    pub is_reversed: bool,
    /// Build rows that are not in memory yet; `None` at their end.
    pub build: Option<BatchReader>,
    /// Build rows that were read and not kept.
    pub next: VecDeque<Batch>,
    /// What of the pair is going to temp space again.
    pub overflow: Option<Overflow>,
    /// Whether the build side goes through memory block by block.
    pub in_blocks: bool,
    /// Where that matters: which probe rows have found a partner.
    pub later: Option<(Arc<Bits>, Reservation)>,
}

impl Work {
    /// Begins with a pair, whose table is made of the probe side if there is a mirror image of the join.
    pub fn new(pair: Pair, config: &Arc<Config>, mirrored: Option<Arc<Config>>, buffers: &SpillBuffers) -> Self {
        // It may turn out that the rows do not fit: then they are wanted once more.
        let twice = ReadOptions { recycle: false, ..ReadOptions::default() };
        let build = match &mirrored {
            Some(_) => pair.probe.as_ref().map(|file| file.reader(buffers, twice)),
            None => pair.build.clone().map(|file| file.into_reader(buffers)),
        };
        let is_reversed = mirrored.is_some();
        let config = mirrored.unwrap_or_else(|| config.clone());
        Self { pair, config, is_reversed, build, next: VecDeque::new(), overflow: None, in_blocks: false, later: None }
    }

    /// Reads what is looked up in the table.
    pub fn probes(&self, buffers: &SpillBuffers) -> Option<BatchReader> {
        let file = if self.is_reversed { &self.pair.build } else { &self.pair.probe };
        let options = ReadOptions { recycle: !self.in_blocks, ..ReadOptions::default() };
        file.as_ref().map(|file| file.reader(buffers, options))
    }

    /// The next build rows.
    pub fn next_build(&mut self, waker: &Waker) -> Poll<Result<Option<Batch>>> {
        if let Some(batch) = self.next.pop_front() {
            return Poll::Ready(Ok(Some(batch)));
        }
        if let Some(batch) = self.overflow.as_mut().and_then(Overflow::next) {
            return Poll::Ready(Ok(Some(batch)));
        }
        match &mut self.build {
            None => Poll::Ready(Ok(None)),
            Some(reader) => read(reader, &self.overflow, waker),
        }
    }

    /// The next batch of one of its files.
    pub fn read(&self, reader: &mut BatchReader, waker: &Waker) -> Poll<Result<Option<Batch>>> {
        read(reader, &self.overflow, waker)
    }

    /// The rows of a build batch that the table is to have, if there are any.
    pub fn staying(&mut self, batch: Batch) -> Result<Option<Batch>> {
        match &mut self.overflow {
            Some(overflow) => overflow.tell_build(batch, &self.config),
            None => Ok(Some(batch)),
        }
    }

    /// The rows of a probe batch that are to be looked up in the table, if there are any.
    pub fn looked_up(&mut self, batch: Batch) -> Result<Option<Batch>> {
        match &mut self.overflow {
            Some(overflow) => overflow.tell_probe(batch, &self.config),
            None => Ok(Some(batch)),
        }
    }

    /// More build rows than were loaded do not fit: whether only what does not fit goes to temp space again. If
    /// somebody else needs memory, that is the way only for what has gone it already.
    pub fn overflows(
        &mut self,
        loading: &mut Loading,
        is_asked: bool,
        buffers: &SpillBuffers,
        counts: &Arc<SpillCounts>,
    ) -> bool {
        match &mut self.overflow {
            Some(overflow) => overflow.lower(loading, is_asked),
            None if is_asked => {}
            None => self.overflow = Overflow::of(&self.pair, loading, buffers, counts),
        }
        self.overflow.is_some()
    }

    /// The pair of what went to temp space again.
    pub fn overflown(&mut self) -> Option<Pair> {
        self.overflow.take()?.finish(rows_of(&self.pair.build))
    }
}

/// The next batch. If there is no memory for it, what is being written goes to the disk as it is, and gives back its
/// clusters.
fn read(reader: &mut BatchReader, overflow: &Option<Overflow>, waker: &Waker) -> Poll<Result<Option<Batch>>> {
    let mut next = reader.poll_next(waker).map(Option::transpose);
    if let (Poll::Ready(Err(error)), Some(overflow)) = (&next, overflow)
        && error.kind() == ErrorKind::Resource
    {
        overflow.close_clusters();
        next = reader.poll_next(waker).map(Option::transpose);
    }
    next
}
