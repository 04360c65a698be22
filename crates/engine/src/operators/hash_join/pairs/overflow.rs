//! A pair of which most fits: Gamma's way with an overflow (section 6.2.2 of its evaluation), the *Simple* hash join of
//! DeWitt et al., SIGMOD 1984.
//!
//! ```text
//!   build rows --second hash--> below the cut: table         <-- probe rows below the cut
//!                         \--> from the cut on: a file             \--> from the cut on: a file
//!                                          \__________ a pair of the next level _________/
//! ```
//! Only what does not fit is written, and once more read, where [splitting](super::splitting) writes the whole pair.
//! When the table still does not fit, the cut is lowered, and rows that were below it follow the others. Simple is the
//! better of the two while at least half of a pair stays in memory: what is left then fits at once, as a rule.
//!
//! Invariant: when the build side is in, the table has all build rows below the cut, and the file all others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::Result;
use diligence_disk::SpillBuffers;
use diligence_memory::Reservation;

use super::loading::Loading;
use super::pair::{LEVELS_MAX, Pair, is_heavy, rows_of};
use crate::batch::Batch;
use crate::operators::hash_join::config::Config;
use crate::operators::hash_join::output::needs_held_rows;
use crate::operators::hash_join::spill::counts::SpillCounts;
use crate::operators::hash_join::spill::partitions::{Partitions, Side};

/// Of the rows that fitted, the percentage that is meant to stay: some memory is needed to write the others, and rows
/// are not quite evenly spread.
const KEPT_PERCENT: u128 = 90;

/// Clusters that writing the others takes.
const CLUSTERS: usize = 4;

/// The cut is not lowered below this share of all hashes, one in so many: nothing is kept then.
const SHARE_MIN: u64 = 16;

/// See the module.
pub(super) struct Overflow {
    /// One partition: the rows from the cut on.
    away: Partitions,
    /// Rows with a second hash below it stay.
    cut: u64,
    /// Rows to be written before anything else.
    writes: VecDeque<(Side, Batch)>,
    /// Build rows that were in memory when the cut was lowered.
    again: VecDeque<(Batch, Reservation)>,
    /// Whether the cut was lowered because somebody else needed memory.
    was_asked: bool,
}

impl Overflow {
    /// The overflow of a pair, after what was loaded; `None` if less than half of the pair would stay in memory.
    pub fn of(pair: &Pair, loading: &mut Loading, buffers: &SpillBuffers, counts: &Arc<SpillCounts>) -> Option<Self> {
        let loaded_bytes = loading.bytes().max(1) as u128;
        let kept_bytes = loaded_bytes.saturating_sub((CLUSTERS * buffers.space().cluster_bytes()) as u128);
        let kept_rows = loading.rows() as u128 * KEPT_PERCENT / 100 * kept_bytes / loaded_bytes;
        let cut = (kept_rows << 64) / u128::from(rows_of(&pair.build)).max(1);
        let cut = u64::try_from(cut).ok().filter(|cut| *cut >= u64::MAX / 2)?;
        counts.overflow();
        // One file of each side: there is nothing to group its clusters for.
        let away = Partitions::new(pair.level, 1, 0, buffers.clone(), counts);
        away.spill_all();
        let mut overflow = Self { away, cut, writes: VecDeque::new(), again: VecDeque::new(), was_asked: false };
        overflow.take_all(loading);
        Some(overflow)
    }

    /// What was loaded is too much still, or somebody else needs memory.
    pub fn lower(&mut self, loading: &mut Loading, is_asked: bool) {
        self.was_asked |= is_asked;
        self.cut = Some(self.cut / 2).filter(|cut| *cut >= u64::MAX / SHARE_MIN).unwrap_or(0);
        self.take_all(loading);
    }

    fn take_all(&mut self, loading: &mut Loading) {
        self.again.extend(std::iter::from_fn(|| loading.pop()));
    }

    /// Whether build rows in memory are still to be told apart: they hold what they had.
    pub fn has_rows(&self) -> bool {
        !self.again.is_empty()
    }

    /// Build rows that were in memory, to be told apart anew. Their memory is free now.
    pub fn next(&mut self) -> Option<Batch> {
        self.again.pop_front().map(|(batch, _)| batch)
    }

    /// Writes what was put aside.
    pub fn poll_writes(&mut self, owner: u64, waker: &Waker) -> Poll<Result<()>> {
        while let Some((side, batch)) = self.writes.front() {
            match self.away.poll_write(*side, 0, batch, owner, waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(written) => written?,
            }
            self.writes.pop_front();
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what is being written to the disk, so that its memory comes back.
    pub fn close_clusters(&self) {
        self.away.close_clusters();
    }

    /// The rows of a spilled batch of the build side that stay; the others are put aside.
    pub fn tell_build(&mut self, batch: Batch, config: &Config) -> Result<Option<Batch>> {
        let rows = config.table.unspilled(&batch)?;
        let hashes = config.table.hashes(&rows.keys, rows.rows);
        let (kept, away) = self.tell_apart(batch, &hashes)?;
        if let Some(away) = away {
            self.away.belong(0);
            self.writes.push_back((Side::Build, away));
        }
        Ok(kept)
    }

    /// The rows of the probe side that are to be looked up; the others are put aside, if they may have a partner or
    /// come out without one.
    pub fn tell_probe(&mut self, batch: Batch, config: &Config) -> Result<Option<Batch>> {
        let (_, hashes) = config.probe_hashes(&batch)?;
        let (kept, away) = self.tell_apart(batch, &hashes)?;
        let matters = !needs_held_rows(config.pairs.join_type) || self.away.has_build_rows(0);
        self.writes.extend(away.filter(|_| matters).map(|away| (Side::Probe, away)));
        Ok(kept)
    }

    fn tell_apart(&self, batch: Batch, hashes: &[u64]) -> Result<(Option<Batch>, Option<Batch>)> {
        let rows = 0..batch.rows() as u32;
        let (below, from): (Vec<u32>, Vec<u32>) =
            rows.partition(|row| self.away.second_hash(hashes[*row as usize]) < self.cut);
        Ok(match (below.is_empty(), from.is_empty()) {
            (_, true) => (Some(batch), None),
            (true, _) => (None, Some(batch)),
            _ => (Some(batch.pick(&below.into())?), Some(batch.pick(&from.into())?)),
        })
    }

    /// The pair of what was written, of a pair with so many build rows.
    pub fn finish(self, build_rows: u64) -> Option<Pair> {
        let level = self.away.level + 1;
        let [build, probe] = [Side::Build, Side::Probe].map(|side| self.away.finish(side, 0));
        let can_split = level < LEVELS_MAX && (self.was_asked || !is_heavy(&build, build_rows));
        (build.is_some() || probe.is_some()).then_some(Pair { build, probe, level, can_split })
    }
}
