//! Groups that do not fit in memory: partitions of them in temp space, merged one at a time.
//!
//! ```text
//!   chunks of pieces --[outgoing]--> files of groups by partition --[merge]--> groups, finished
//!                \                        ^                  |  ^
//!                 \                       | [resolve]        +--+ does not fit: split by other bits of the hash
//!                  +--> files of DISTINCT's pairs by partition
//!                                         |  ^
//!                                         +--+ the same
//! ```
//!
//! 1. When memory is refused, or somebody else needs it, a packet takes all chunks of the largest piece of the
//!    partitions and writes them ([`outgoing`]): keys as their words, states as partial results. From then on that
//!    piece's groups are written with each flush; the other pieces stay where they are. A table of DataFusion's
//!    accumulators, which are not cut, goes as a whole.
//! 2. The pairs of DISTINCT are written apart, as rows of (group, value), partitioned by both, so that one group may
//!    have more distinct values than memory holds.
//! 3. When the input has ended, packets of the next pipeline take pieces of work off a [`board`]: first the pieces that
//!    stayed are merged and come out (or are written after all, if that is what another one needs); then the pairs, a
//!    partition at a time, become counts and sums of their groups (*resolved*); then the groups in temp space are
//!    merged, a partition at a time. A partition that does not fit is split by another hash ([`merge`]), as often as
//!    needed, unless it is so small that its parts would be no smaller on the disk.
//!
//! This is the overflow of a hybrid hash join, with partial results in place of rows. Gamma's report of 1988 describes
//! the overflow of joins only (section 6.2.2).
//!
//! Between 2 and 3 the groups may wait for long, because other parts of the plan come first. Then no buffers are kept
//! ([`Demand`]): rows that are in temp space need none.
//!
//! Invariants:
//! * Rows of one key are in one partition at every level, and in the order in which they were written.
//! * Writing never fails for lack of memory: the buffers have a minimum, and where that is not enough, clusters go to
//!   the disk before they are full.

pub(super) mod board;
mod files;
pub(super) mod merge;
pub(super) mod outgoing;
pub(super) mod resolve;

use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use diligence_base::{ErrorKind, Result};
use diligence_disk::{SpillBuffers, SpillMemory, TempSpace};
use diligence_memory::{QueryMemory, Reservation};

use super::key_layout::KeyLayout;
use super::program::Program;
use super::states::State;
use crate::batch::Batch;
use crate::flow::QueryContext;
use crate::flow::profile::Spills;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::temp::BatchReader;
use files::PartitionFiles;

/// Partitions at least and at most: with fewer, another level would be needed for every small excess; with more, what
/// is written at once falls into pieces of a few rows.
const FAN_OUT_MIN: usize = 4;
const FAN_OUT_MAX: usize = 64;

/// The share of the memory that the clusters being filled may have: one in so many.
const CLUSTERS_SHARE: usize = 8;

/// Levels of partitioning: after so many hashes, keys that are still together are one key, or made to collide.
const LEVELS_MAX: u32 = 16;

/// Into how much groups are divided that go to temp space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Partitions, a power of two.
    pub fan_out: usize,
    /// Packets that merge at the same time at most.
    pub packets: usize,
}

impl Division {
    /// Clusters that are reserved from the beginning: one for each partition, for each packet one to read, and one
    /// more.
    pub fn clusters_min(&self) -> usize {
        self.fan_out + self.packets + 1
    }
}

/// What the packets of a spilled aggregate share.
pub(super) struct Spill {
    pub program: Arc<Program>,
    pub memory: QueryMemory,
    /// Packets that merge at the same time at most.
    pub packets: usize,
    buffers: SpillBuffers,
    demand: Mutex<Demand>,
    bits: u32,
    groups: Arc<PartitionFiles>,
    pairs: Arc<PartitionFiles>,
    /// Of each state that is DISTINCT's: how a group's key and a value lie side by side.
    pair_layouts: Vec<Option<Arc<KeyLayout>>>,
    /// All files that are being written.
    open: Mutex<Vec<Weak<PartitionFiles>>>,
    next_owner: AtomicU64,
    underway: Mutex<Underway>,
    spills: Arc<Spills>,
}

/// Clusters that are kept while nobody reads and a piece is written that somebody else needs the memory of: one that is
/// filled, one to pack it, and one that is under way.
const GIVING_CLUSTERS: usize = 3;

/// Who needs buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// The packets that fill it or read it: all of them.
    Working,
    /// Nobody: all rows are in, and nobody reads them yet, or any more.
    Resting,
    /// Nobody reads them yet, but what is in memory is being written.
    Giving,
}

/// Groups on their way to temp space.
#[derive(Default)]
struct Underway {
    outgoing: usize,
    waiting: Vec<Waker>,
}

impl Spill {
    /// Clusters that are being filled or read at most: nobody can ask for them, so of many queries at once each has
    /// fewer.
    fn clusters_share(context: &QueryContext, temp: &TempSpace) -> usize {
        context.memory.share_bytes() / temp.cluster_bytes() / CLUSTERS_SHARE
    }

    /// How it would spill, with what the query can count on now.
    pub fn division(context: &QueryContext, temp: &TempSpace) -> Division {
        let clusters = Self::clusters_share(context, temp);
        Division {
            fan_out: 1 << clusters.clamp(FAN_OUT_MIN, FAN_OUT_MAX).ilog2(),
            packets: clusters.clamp(1, context.packets.max(1)),
        }
    }

    /// Prepares spilling; `reservation` has as many clusters as the division [needs](Division::clusters_min).
    pub fn new(
        program: &Arc<Program>,
        context: &QueryContext,
        temp: &TempSpace,
        division: Division,
        reservation: Reservation,
        spills: &Arc<Spills>,
    ) -> Result<Self> {
        let Division { fan_out, packets } = division;
        let memory = SpillMemory { clusters_min: division.clusters_min(), ..SpillMemory::default() };
        let buffers = SpillBuffers::new(temp, reservation, memory)?;
        let states = program.states()?;
        let pair_layout = |state: &State| match state {
            State::Distinct(distinct) => Some(Arc::new(program.layout.beside(distinct.pair_layout()))),
            _ => None,
        };
        let bits = fan_out.ilog2();
        let groups = Arc::new(PartitionFiles::new(0, false, if program.grouped { bits } else { 0 }, spills));
        let pairs = Arc::new(PartitionFiles::new(0, true, bits, spills));
        Ok(Self {
            memory: context.memory.clone(),
            packets,
            buffers,
            demand: Mutex::new(Demand::Working),
            bits,
            pair_layouts: states.iter().map(pair_layout).collect(),
            open: Mutex::new(vec![Arc::downgrade(&groups), Arc::downgrade(&pairs)]),
            groups,
            pairs,
            next_owner: AtomicU64::new(0),
            underway: Mutex::default(),
            spills: spills.clone(),
            program: program.clone(),
        })
    }

    /// All rows are in, and nobody reads yet, or any more: what the files have in memory goes to the disk, and no
    /// buffers are kept.
    pub fn rest(&self) {
        self.close_clusters();
        let mut demand = self.demand.lock();
        *demand = Demand::Resting;
        self.buffers.keep(0);
    }

    /// Groups are to be read: the buffers are needed again, if need be beyond the budget.
    pub fn wake(&self) {
        let mut demand = self.demand.lock();
        if *demand != Demand::Working {
            self.buffers.keep(Division { fan_out: 1 << self.bits, packets: self.packets }.clusters_min());
            *demand = Demand::Working;
        }
    }

    /// Something in memory is to be written for somebody who needs the memory.
    pub fn begin_giving(&self) {
        let mut demand = self.demand.lock();
        if *demand == Demand::Resting {
            *demand = Demand::Giving;
            self.buffers.keep(GIVING_CLUSTERS);
        }
    }

    /// It is written.
    pub fn end_giving(&self) {
        let is_giving = |demand: Demand| demand == Demand::Giving;
        if !is_giving(*self.demand.lock()) {
            return;
        }
        self.close_clusters();
        // It may be read by now.
        let mut demand = self.demand.lock();
        if is_giving(*demand) {
            *demand = Demand::Resting;
            self.buffers.keep(0);
        }
    }

    /// Files for the parts of a partition.
    fn split(&self, level: u32, is_pairs: bool) -> Arc<PartitionFiles> {
        let files = Arc::new(PartitionFiles::new(level, is_pairs, self.bits, &self.spills));
        let mut open = self.open.lock();
        open.retain(|files| files.strong_count() > 0);
        open.push(Arc::downgrade(&files));
        files
    }

    fn owner(&self) -> u64 {
        self.next_owner.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether somebody writes groups, so that memory will be free.
    pub fn is_underway(&self) -> bool {
        self.underway.lock().outgoing > 0
    }

    /// Pending while somebody writes groups; then the waker is woken when one has done so.
    pub fn poll_underway(&self, waker: &Waker) -> Poll<()> {
        let mut underway = self.underway.lock();
        if underway.outgoing == 0 {
            return Poll::Ready(());
        }
        underway.waiting.push(waker.clone());
        Poll::Pending
    }

    /// Files of groups at level 0, one for each piece of the partitions.
    pub fn files(&self) -> usize {
        self.groups.len()
    }

    /// Whether nothing of a partition is in temp space, or on its way there.
    pub fn is_untouched(&self, partition: usize) -> bool {
        self.groups.is_untouched(partition)
    }

    /// Appends rows to a partition's file for `owner`. After `Pending` it is called again with the same batch when the
    /// waker was woken, and this owner writes nothing else meanwhile.
    fn poll_write(
        &self,
        files: &PartitionFiles,
        partition: usize,
        batch: &Batch,
        owner: u64,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        self.persist(|| files.poll_write(partition, batch, owner, &self.buffers, waker))
    }

    /// The next rows of a file.
    fn poll_read(&self, reader: &mut BatchReader, waker: &Waker) -> Poll<Option<Result<Batch>>> {
        self.persist(|| reader.poll_next(waker).map(Option::transpose)).map(Result::transpose)
    }

    /// Where a cluster is refused, sends those to the disk that are being filled, and asks again: their buffers come
    /// back.
    fn persist<T>(&self, mut ask: impl FnMut() -> Poll<Result<T>>) -> Poll<Result<T>> {
        // Somebody else may have done the same in between, so the refusal may be out of date when there is nothing to
        // close.
        let mut in_vain = 0;
        loop {
            match ask() {
                Poll::Ready(Err(error)) if error.kind() == ErrorKind::Resource && in_vain < 2 => {
                    in_vain = if self.close_clusters() { 0 } else { in_vain + 1 };
                }
                done => return done,
            }
        }
    }

    /// Sends what is in memory of all files to the disk, full clusters or not. Whether there was anything.
    fn close_clusters(&self) -> bool {
        let open = self.open.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        open.iter().fold(false, |closed, files| files.close_clusters() | closed)
    }
}
