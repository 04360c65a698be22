//! A pair at work: what is read of its files, and what goes to temp space again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::{ErrorKind, Result};
use diligence_disk::{ReadOptions, SpillBuffers};
use diligence_memory::Reservation;

use super::loading::Loading;
use super::overflow::Overflow;
use super::pair::{Pair, rows_of};
use crate::batch::Batch;
use crate::operators::hash_join::config::Config;
use crate::operators::hash_join::spill::counts::SpillCounts;
use crate::operators::hash_join::table::held::Bits;
use crate::temp::GatheringReader;

/// See the module.
pub(super) struct PairWork {
    pub pair: Pair,
    /// The join, or its mirror image: then the table is made of the probe side.
    pub config: Arc<Config>,
    pub is_reversed: bool,
    /// Build rows that are not in memory yet; `None` at their end.
    pub build: Option<GatheringReader>,
    /// Build rows that were read and not kept.
    pub next: VecDeque<Batch>,
    /// What of the pair is going to temp space again.
    pub overflow: Option<Overflow>,
    /// Whether the build side goes through memory block by block.
    pub in_blocks: bool,
    /// Where that matters: which probe rows have found a partner.
    pub later: Option<(Arc<Bits>, Reservation)>,
}

impl PairWork {
    /// Begins with a pair, whose table is made of the probe side if there is a mirror image of the join.
    pub fn new(pair: Pair, config: &Arc<Config>, mirrored: Option<Arc<Config>>, buffers: &SpillBuffers) -> Self {
        // It may turn out that the rows do not fit: then they are wanted once more.
        let twice = ReadOptions { recycle: false, ..ReadOptions::default() };
        let build = match &mirrored {
            Some(_) => pair.probe.as_ref().map(|file| GatheringReader::new(file.reader(buffers, twice))),
            None => pair.build.clone().map(|file| GatheringReader::new(file.into_reader(buffers))),
        };
        let is_reversed = mirrored.is_some();
        let config = mirrored.unwrap_or_else(|| config.clone());
        Self { pair, config, is_reversed, build, next: VecDeque::new(), overflow: None, in_blocks: false, later: None }
    }

    /// Reads what is looked up in the table.
    pub fn probes(&self, buffers: &SpillBuffers) -> Option<GatheringReader> {
        let file = if self.is_reversed { &self.pair.build } else { &self.pair.probe };
        let options = ReadOptions { recycle: !self.in_blocks, ..ReadOptions::default() };
        file.as_ref().map(|file| GatheringReader::new(file.reader(buffers, options)))
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
    pub fn read(&self, reader: &mut GatheringReader, waker: &Waker) -> Poll<Result<Option<Batch>>> {
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
fn read(reader: &mut GatheringReader, overflow: &Option<Overflow>, waker: &Waker) -> Poll<Result<Option<Batch>>> {
    let mut next = reader.poll_next(waker).map(Option::transpose);
    if let (Poll::Ready(Err(error)), Some(overflow)) = (&next, overflow)
        && error.kind() == ErrorKind::Resource
    {
        overflow.close_clusters();
        next = reader.poll_next(waker).map(Option::transpose);
    }
    next
}
