//! A pair whose build side does not fit, on its way into pairs of the next level.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::{ErrorKind, Result};
use diligence_disk::SpillBuffers;
use diligence_memory::Reservation;

use super::loading::Loading;
use super::pair::{Pair, rows_of};
use super::work::PairWork;
use crate::batch::Batch;
use crate::operators::hash_join::config::Config;
use crate::operators::hash_join::output::needs_held_rows;
use crate::operators::hash_join::spill::counts::SpillCounts;
use crate::operators::hash_join::spill::partitions::{FAN_OUT_MIN, Partitions, Side, fan_out};
use crate::temp::GatheringReader;

/// See the module.
pub(super) struct Splitting {
    config: Arc<Config>,
    work: Box<PairWork>,
    loading: Loading,
    probe: Option<GatheringReader>,
    partitions: Partitions,
    owner: u64,
    writes: VecDeque<(Side, usize, Batch)>,
    /// For the rows being written, if they were kept in memory.
    reservation: Option<Reservation>,
}

impl Splitting {
    /// Splits what was loaded and the rest.
    pub fn new(
        work: Box<PairWork>,
        loading: Loading,
        buffers: SpillBuffers,
        config: &Arc<Config>,
        counts: &Arc<SpillCounts>,
        owner: u64,
    ) -> Self {
        let memory_bytes = loading.bytes();
        // Twice as many as would fit one by one: some are larger than others.
        let wanted = (2 * work.pair.table_bytes() / memory_bytes.max(1)).next_power_of_two();
        let fan_out = fan_out(memory_bytes, buffers.space().cluster_bytes()).min(wanted.max(FAN_OUT_MIN));
        let probe = work.pair.probe.clone().map(|file| GatheringReader::new(file.into_reader(&buffers)));
        let partitions = Partitions::new(work.pair.level, fan_out, memory_bytes, buffers, counts);
        partitions.spill_all();
        Self {
            config: config.clone(),
            work,
            loading,
            probe,
            partitions,
            owner,
            writes: VecDeque::new(),
            reservation: None,
        }
    }

    /// One step. True when all is written.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<bool>> {
        while let Some((side, partition, batch)) = self.writes.front() {
            match self.partitions.poll_write(*side, *partition, batch, self.owner, waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(written) => written?,
            }
            self.writes.pop_front();
        }
        self.reservation = None;
        if let Some((batch, reservation)) = self.loading.pop() {
            self.reservation = Some(reservation);
            return Poll::Ready(self.split_build(&batch).map(|()| false));
        }
        let mut next = self.work.next_build(waker);
        if let Poll::Ready(Err(error)) = &next
            && error.kind() == ErrorKind::Resource
        {
            self.partitions.close_clusters();
            next = self.work.next_build(waker);
        }
        match next {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(Some(batch))) => return Poll::Ready(self.split_build(&batch).map(|()| false)),
            Poll::Ready(Ok(None)) => {}
        }
        let Some(probe) = &mut self.probe else { return Poll::Ready(Ok(true)) };
        let mut next = probe.poll_next(waker);
        if let Poll::Ready(Some(Err(error))) = &next
            && error.kind() == ErrorKind::Resource
        {
            self.partitions.close_clusters();
            next = probe.poll_next(waker);
        }
        match next {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(Ok(true)),
            Poll::Ready(Some(batch)) => Poll::Ready(self.split_probe(&batch?).map(|()| false)),
        }
    }

    fn split_build(&mut self, batch: &Batch) -> Result<()> {
        for (partition, batch) in self.partitions.split_rows(self.config.table.unspilled(batch)?, &self.config.table)? {
            self.partitions.belong(partition);
            self.writes.push_back((Side::Build, partition, batch));
        }
        Ok(())
    }

    fn split_probe(&mut self, batch: &Batch) -> Result<()> {
        let (_, hashes) = self.config.probe_hashes(batch)?;
        let needs_partner = needs_held_rows(self.config.pairs.join_type);
        for (partition, batch) in self.partitions.split(batch, &hashes)? {
            if !needs_partner || self.partitions.has_build_rows(partition) {
                self.writes.push_back((Side::Probe, partition, batch));
            }
        }
        Ok(())
    }

    /// The pairs of the next level.
    pub fn finish(self) -> Vec<Pair> {
        Pair::all(&self.partitions, rows_of(&self.work.pair.build), true)
    }
}
