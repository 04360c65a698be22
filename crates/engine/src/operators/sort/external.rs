//! The end of a sort that went to the disk: merges until the rest can be merged at once, and then merges that by
//! ranges, many packets at the same time, for one packet that wants the rows in order.
//!
//! ```text
//!   mergers     one of them   writes what is left in memory, and merges runs, while there are too many for the memory
//!               all           take ranges of the front, merge them, and gather their rows:                front.rs
//!                                 range 4    range 5    range 6
//!   reader      one           takes the batches of the ranges in order, and so lets mergers go on with later ranges
//! ```
//!
//! ```text
//!   Preparing ----> Merging ----> Ended
//!       |                            ^
//!       +------- reader gone --------+
//! ```
//!
//! What the last merge has in memory of runs that never left it can be given back, however slowly its rows are read:
//! leaving.rs.
//!
//! Invariant: of ranges whose rows nobody has read yet there are no more than memory was reserved for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::Result;
use diligence_disk::SpillBuffers;
use diligence_memory::{QueryMemory, Reclaim, Reservation};

use super::Run;
use super::disk::Disk;
use super::front::{Front, MergeRange, Piece};
use super::gather::{Pick, held_bytes};
use super::leaving::Leaving;
use super::merge_job::{MergeJob, MergeMemory, Progress, Spare, rows_in};
use super::run_file::DiskRun;
use crate::batch::Batch;
use crate::flow::{Pull, QueryContext, SourceState};
use crate::plan::sort_plan;
use crate::sync::Mutex;

/// Ranges that packets may be ahead of the reader, for each packet: one is merged while one waits to be read.
const RANGES_PER_PACKET: usize = 2;

/// The last merge leaves one part in so many of what the query may have to those who read its rows, up to a bound: a
/// writer of Parquet holds a row group. Runs that are still in memory are written for it.
const LEFT_DIVISOR: usize = 4;
const LEFT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Runs in memory that hold less than so many clusters stay: writing and reading them takes some itself.
const LEAVING_CLUSTERS_MIN: usize = 16;

/// A sort that went to the disk, once its input has ended.
pub(super) struct External {
    state: Mutex<ExternalSortState>,
    /// Where runs go that leave memory, and whose memory that is.
    disk: Disk,
    memory: QueryMemory,
    leaving: Mutex<Option<Leaving>>,
}

struct ExternalSortState {
    stage: Stage,
    /// Packets that can do nothing at the moment.
    mergers: Vec<Waker>,
    reader: Option<Waker>,
}

enum Stage {
    /// `None`: a packet has it.
    Preparing(Option<Box<Preparing>>),
    Merging(Box<Merging>),
    Ended,
}

/// What packets have brought.
pub(super) struct Brought {
    pub disk: Vec<DiskRun>,
    pub memory: Vec<Run>,
    /// The minimal buffers of the packets, at least one of them.
    pub buffers: Vec<SpillBuffers>,
    /// Of the runs in memory, and the minimum of each packet.
    pub reservation: Reservation,
}

/// Before the last merge.
struct Preparing {
    brought: Brought,
    job: Option<MergeJob>,
}

/// The last merge.
struct Merging {
    front: Front,
    ranges_max: usize,
    /// Ranges that were taken from the front, and those whose rows were read.
    taken: u64,
    read: u64,
    /// Merged ranges that were not read yet.
    merged: BTreeMap<u64, Merged>,
    /// Rows that are wanted beyond the ranges taken.
    rows_left: usize,
    has_ended: bool,
    /// Whether runs are on their way out of memory: until they are back, no range is taken.
    is_leaving: bool,
    /// For ranges and what batches need beside their clusters.
    reservation: Reservation,
}

/// The rows of a range.
struct Merged {
    batches: VecDeque<Batch>,
    /// What they hold beyond what is reserved for a range.
    _excess: Reservation,
}

impl External {
    pub fn new(brought: Brought, disk: Disk, memory: QueryMemory) -> Self {
        let preparing = Box::new(Preparing { brought, job: None });
        let state = ExternalSortState { stage: Stage::Preparing(Some(preparing)), mergers: Vec::new(), reader: None };
        Self { state: Mutex::new(state), disk, memory, leaving: Mutex::new(None) }
    }

    /// Says that it can be asked for its memory.
    pub fn rest(self: &Arc<Self>) {
        let at_rest: Arc<dyn Reclaim> = self.clone();
        self.memory.keep_at_rest(&at_rest);
    }

    /// Begins to write the runs in memory, if there are any.
    fn leave(&self) -> Result<Option<Leaving>> {
        let mut state = self.state.lock();
        let Stage::Merging(merging) = &mut state.stage else { return Ok(None) };
        let bytes = merging.leavable_bytes(&self.disk);
        if bytes == 0 {
            return Ok(None);
        }
        merging.is_leaving = true;
        let rests = merging.front.take_memory();
        drop(state);
        Leaving::new(rests, bytes, &self.disk, &self.memory).map(Some)
    }

    /// Goes on with writing them. Ready when that is done, or nobody wants it any more.
    fn poll_leaving(&self, under_way: &mut Option<Leaving>, waker: &Waker) -> Poll<Result<()>> {
        let Some(leaving) = under_way else { return Poll::Ready(Ok(())) };
        if !matches!(self.state.lock().stage, Stage::Merging(_)) {
            *under_way = None;
            return Poll::Ready(Ok(()));
        }
        match leaving.step(waker)? {
            Progress::Wait => return Poll::Pending,
            Progress::Again => {
                // Others shall have their turn.
                waker.wake_by_ref();
                return Poll::Pending;
            }
            Progress::Done => {}
        }
        if let Some(leaving) = under_way.take() {
            self.left(leaving);
        }
        Poll::Ready(Ok(()))
    }

    /// All are written: the merge goes on with the run on the disk.
    fn left(&self, leaving: Leaving) {
        let (reader, beside_bytes) = leaving.finish();
        let mergers = {
            let mut state = self.state.lock();
            if let Stage::Merging(merging) = &mut state.stage {
                merging.reservation.overdraw(beside_bytes);
                merging.front.add(reader);
                merging.is_leaving = false;
            }
            std::mem::take(&mut state.mergers)
        };
        mergers.into_iter().for_each(Waker::wake);
    }

    /// Ends it: nobody reads any more.
    fn end(&self) {
        let (stage, wakers) = {
            let mut state = self.state.lock();
            let stage = std::mem::replace(&mut state.stage, Stage::Ended);
            (stage, state.wakers())
        };
        drop(stage);
        // Nothing is written for nobody.
        let leaving = self.leaving.lock().take();
        drop(leaving);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The rows of the next range; `None` at the end. After `Pending` the waker is woken when it is worth asking again.
    fn poll_read(&self, waker: &Waker) -> Poll<Option<Merged>> {
        let (merged, mergers) = {
            let mut state = self.state.lock();
            let merged = match &mut state.stage {
                Stage::Ended => return Poll::Ready(None),
                Stage::Merging(merging) => merging.next_merged(),
                Stage::Preparing(_) => Poll::Pending,
            };
            if merged.is_pending() {
                state.reader = Some(waker.clone());
                return Poll::Pending;
            }
            (merged, std::mem::take(&mut state.mergers))
        };
        mergers.into_iter().for_each(Waker::wake);
        merged
    }
}

impl Reclaim for External {
    fn reclaimable_bytes(&self) -> usize {
        match &self.state.lock().stage {
            Stage::Merging(merging) if merging.is_leaving => 1,
            Stage::Merging(merging) => merging.leavable_bytes(&self.disk),
            Stage::Preparing(_) | Stage::Ended => 0,
        }
    }

    fn poll_reclaim(&self, _bytes: usize, waker: &Waker) -> Poll<Result<()>> {
        let Some(mut under_way) = self.leaving.try_lock() else {
            // A merger does it.
            let mut state = self.state.lock();
            match &state.stage {
                Stage::Merging(merging) if merging.is_leaving => state.mergers.push(waker.clone()),
                _ => waker.wake_by_ref(),
            }
            return Poll::Pending;
        };
        if under_way.is_none() {
            *under_way = self.leave()?;
        }
        let is_done = self.poll_leaving(&mut under_way, waker);
        drop(under_way);
        // Whoever asks may not come again: then mergers go on with it.
        let mergers = std::mem::take(&mut self.state.lock().mergers);
        mergers.into_iter().for_each(Waker::wake);
        is_done
    }
}

impl ExternalSortState {
    /// Everybody who waits.
    fn wakers(&mut self) -> Vec<Waker> {
        let mut wakers = std::mem::take(&mut self.mergers);
        wakers.extend(self.reader.take());
        wakers
    }
}

impl Preparing {
    /// A step towards the last merge. `None`: go on; `Some(Pending)`: the waker will be woken.
    fn step(&mut self, disk: &Disk, context: &QueryContext, waker: &Waker) -> Result<Option<Poll<Merging>>> {
        if let Some(job) = &mut self.job {
            match job.step(waker)? {
                Progress::Again => {}
                Progress::Wait => return Ok(Some(Poll::Pending)),
                Progress::Done => self.brought.disk.extend(self.job.take().map(MergeJob::finish)),
            }
            return Ok(None);
        }
        // What one packet has reserved as its minimum is enough to go on with; the rest is memory for the last merge.
        let Brought { memory, reservation, buffers, .. } = &mut self.brought;
        buffers.truncate(1);
        let held = memory.iter().map(Run::bytes).sum::<Result<usize>>()? + disk.work_bytes();
        reservation.shrink(reservation.bytes().saturating_sub(held));
        // A range under way keeps the cluster that it finishes, and its rows are held twice until they are read.
        let ranges_max = context.packets * RANGES_PER_PACKET;
        let spare = Spare {
            clusters: context.packets,
            bytes: ranges_max * disk.space.cluster_bytes(),
            left_bytes: (context.memory.limit_bytes() / LEFT_DIVISOR).min(LEFT_BYTES_MAX),
        };
        if let Some(merging) = self.last_merge(disk, context, spare, ranges_max)? {
            return Ok(Some(Poll::Ready(merging)));
        }
        let Brought { disk: runs, memory, reservation, buffers } = &mut self.brought;
        let minimal = &buffers[0];
        self.job = Some(if memory.is_empty() {
            let sizes: Vec<_> = runs.iter().map(DiskRun::size).collect();
            let mut shortest: Vec<_> = runs.iter().collect();
            shortest.sort_by_key(|run| run.size().bytes);
            let most =
                |spare| MergeMemory::for_some(&shortest, spare, minimal, disk, &context.memory).map(|most| most.0);
            let (fan_in, last) = (most(Spare::WRITE)?, most(spare)?);
            let mut places = sort_plan::merge_late(&sizes, fan_in, last)
                .unwrap_or_else(|| sort_plan::shortest(&sizes, sort_plan::FAN_IN_MIN));
            let chosen: Vec<_> = places.iter().map(|&place| &runs[place]).collect();
            let (count, found) = MergeMemory::for_some(&chosen, Spare::WRITE, minimal, disk, &context.memory)?;
            places.truncate(count);
            let merged = take(runs, &places);
            MergeJob::of_disk(merged, found, disk, reservation)
        } else {
            // No more of them than makes room to read the rest.
            let wanted = (runs.len() + 1) * sort_plan::CLUSTERS_PER_INPUT * disk.space.cluster_bytes()
                + spare.total(&disk.space)
                + spare.left_bytes;
            let (mut written, mut bytes) = (Vec::new(), 0);
            while bytes < wanted
                && let Some(run) = memory.pop()
            {
                bytes += run.bytes()?;
                written.push(run);
            }
            let pieces = pieces_of(written, reservation)?;
            MergeJob::of_memory(pieces, bytes, minimal, disk, reservation)
        });
        Ok(None)
    }

    /// The last merge, if there is memory to read all runs at once.
    fn last_merge(
        &mut self,
        disk: &Disk,
        context: &QueryContext,
        spare: Spare,
        ranges_max: usize,
    ) -> Result<Option<Merging>> {
        let cluster_bytes = disk.space.cluster_bytes();
        let Brought { disk: runs, memory, reservation, buffers } = &mut self.brought;
        let all: Vec<_> = runs.iter().collect();
        let minimal = &buffers[0];
        let found = MergeMemory::for_all(&all, spare, disk, &context.memory)?;
        let (found, ranges_max) = match found {
            Some(found) => (found, ranges_max),
            // Two runs can always be merged, one range after another.
            None if all.len() <= 2 && memory.is_empty() => (MergeMemory::minimal(minimal), 1),
            None => return Ok(None),
        };
        let memory_rows: usize = memory.iter().map(|run| run.keys.len()).sum();
        let memory_bytes = memory.iter().map(Run::bytes).sum::<Result<usize>>()?;
        let rows = memory_rows + runs.iter().map(|run| run.rows()).sum::<u64>() as usize;
        let bytes = memory_bytes + runs.iter().map(|run| run.size().bytes).sum::<u64>() as usize;
        let mut pieces = Vec::new();
        if !memory.is_empty() {
            pieces = pieces_of(std::mem::take(memory), reservation)?;
            pieces.iter_mut().for_each(Piece::rest);
        }
        let MergeMemory { buffers, ahead, beside } = found;
        // Without memory for ranges, one of them is what the packet's own minimum is for.
        let held = beside.unwrap_or_else(|| reservation.split(usize::MAX));
        let readers = std::mem::take(runs).into_iter().map(|run| run.read(&buffers, ahead, true)).collect();
        Ok(Some(Merging {
            front: Front::new(readers, pieces, rows_in(cluster_bytes, bytes, rows)),
            ranges_max,
            taken: 0,
            read: 0,
            merged: BTreeMap::new(),
            rows_left: disk.rows_wanted,
            has_ended: false,
            is_leaving: false,
            reservation: held,
        }))
    }
}

/// Runs in memory as pieces, each with its part of what is reserved for all of them.
pub(super) fn pieces_of(runs: Vec<Run>, reservation: &mut Reservation) -> Result<Vec<Piece>> {
    runs.into_iter()
        .map(|run| {
            let bytes = run.bytes()?;
            Ok(Piece::of_memory(run, reservation.split(bytes)))
        })
        .collect()
}

/// Takes out what stands at some places, which ascend.
pub(super) fn take<T>(all: &mut Vec<T>, places: &[usize]) -> Vec<T> {
    let mut taken: Vec<T> = places.iter().rev().map(|&place| all.remove(place)).collect();
    taken.reverse();
    taken
}

impl Merging {
    /// Bytes of runs in memory, if it pays to write them.
    fn leavable_bytes(&self, disk: &Disk) -> usize {
        let bytes = if self.has_ended { 0 } else { self.front.memory_bytes() };
        if bytes < LEAVING_CLUSTERS_MIN * disk.space.cluster_bytes() { 0 } else { bytes }
    }

    /// The next range, with its number and how many of its rows are wanted.
    fn poll_take(&mut self, waker: &Waker) -> Poll<Result<Option<(u64, MergeRange, usize)>>> {
        let range = match self.front.poll_range(waker) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(range) => range?,
        };
        let Some(range) = range.filter(|_| self.rows_left > 0) else {
            self.has_ended = true;
            return Poll::Ready(Ok(None));
        };
        let rows = range.rows().min(self.rows_left);
        self.rows_left -= rows;
        self.has_ended = self.rows_left == 0;
        self.taken += 1;
        Poll::Ready(Ok(Some((self.taken - 1, range, rows))))
    }

    /// The range that is to be read next, if it is merged; `Ready(None)` behind the last one.
    fn next_merged(&mut self) -> Poll<Option<Merged>> {
        if self.has_ended && self.read == self.taken {
            return Poll::Ready(None);
        }
        match self.merged.remove(&self.read) {
            None => Poll::Pending,
            Some(merged) => {
                self.read += 1;
                Poll::Ready(Some(merged))
            }
        }
    }
}

/// One packet that merges.
pub(super) struct Merger {
    external: Arc<External>,
    context: QueryContext,
    preparing: Option<Box<Preparing>>,
}

impl Merger {
    pub fn new(external: Arc<External>, context: &QueryContext) -> Self {
        Self { external, context: context.clone(), preparing: None }
    }

    fn prepare(&mut self, mut preparing: Box<Preparing>, waker: &Waker) -> Result<Pull> {
        match preparing.step(&self.external.disk, &self.context, waker)? {
            None => self.preparing = Some(preparing),
            Some(Poll::Pending) => {
                self.preparing = Some(preparing);
                return Ok(Pull::Wait);
            }
            Some(Poll::Ready(merging)) => {
                // The minimal buffers, unless the merge uses them, are free from now on.
                drop(preparing);
                let wakers = {
                    let mut state = self.external.state.lock();
                    if matches!(state.stage, Stage::Preparing(_)) {
                        state.stage = Stage::Merging(Box::new(merging));
                    }
                    state.wakers()
                };
                wakers.into_iter().for_each(Waker::wake);
            }
        }
        Ok(Pull::Again)
    }

    /// Merges a range and hands it to the reader.
    fn merge(&self, number: u64, range: &MergeRange, rows: usize) -> Result<()> {
        let picks = range.merge(rows);
        let gathered =
            picks.chunks(self.context.batch_rows.max(1)).map(|picks| range.payload(picks, &self.external.disk.schema));
        let batches = gathered.collect::<Result<VecDeque<Batch>>>()?;
        let bytes = batches.iter().map(held_bytes).sum::<Result<usize>>()? + picks.len() * size_of::<Pick>();
        // Rows may be longer here than elsewhere: they are in memory, so they are counted.
        let mut excess = self.context.memory.reservation(self.external.disk.name);
        excess.overdraw(bytes.saturating_sub(self.external.disk.space.cluster_bytes()));
        let reader = {
            let mut state = self.external.state.lock();
            if let Stage::Merging(merging) = &mut state.stage {
                merging.merged.insert(number, Merged { batches, _excess: excess });
            }
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
        Ok(())
    }
}

/// What a packet that merges finds to do.
enum MergeTurn {
    Prepare(Box<Preparing>),
    /// A range by its number, with the rows that are wanted of it; none at the end.
    Merge(Option<(u64, MergeRange, usize)>),
    /// Runs on their way out of memory: whoever asked for it may have enough.
    Leave,
    Wait,
    Done,
}

impl ExternalSortState {
    /// What a packet does next. It has `preparing` if it is the one that prepares.
    fn turn(&mut self, preparing: Option<Box<Preparing>>, waker: &Waker) -> Result<MergeTurn> {
        let turn = match &mut self.stage {
            Stage::Ended => MergeTurn::Done,
            Stage::Preparing(waiting) => {
                preparing.or_else(|| waiting.take()).map_or(MergeTurn::Wait, MergeTurn::Prepare)
            }
            Stage::Merging(merging) if merging.has_ended => MergeTurn::Done,
            Stage::Merging(merging) if merging.is_leaving => MergeTurn::Leave,
            Stage::Merging(merging) if merging.taken - merging.read >= merging.ranges_max as u64 => MergeTurn::Wait,
            Stage::Merging(merging) => match merging.poll_take(waker) {
                Poll::Pending => MergeTurn::Wait,
                Poll::Ready(taken) => MergeTurn::Merge(taken?),
            },
        };
        if matches!(turn, MergeTurn::Wait | MergeTurn::Leave)
            && !self.mergers.iter().any(|other| other.will_wake(waker))
        {
            self.mergers.push(waker.clone());
        }
        Ok(turn)
    }
}

impl SourceState for Merger {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        let preparing = self.preparing.take();
        let (turn, wakers) = {
            let mut state = self.external.state.lock();
            let turn = state.turn(preparing, waker)?;
            // After a range the others may find another one, or the end.
            let wakers = if matches!(turn, MergeTurn::Merge(_)) { state.wakers() } else { Vec::new() };
            (turn, wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
        match turn {
            MergeTurn::Done => return Ok(Pull::Done),
            MergeTurn::Wait => return Ok(Pull::Wait),
            MergeTurn::Leave => {
                // One does it; others are woken when it is done.
                let Some(mut under_way) = self.external.leaving.try_lock() else { return Ok(Pull::Wait) };
                let is_done = self.external.poll_leaving(&mut under_way, waker);
                return match is_done {
                    Poll::Pending => Ok(Pull::Wait),
                    Poll::Ready(done) => done.map(|()| Pull::Again),
                };
            }
            MergeTurn::Prepare(preparing) => return self.prepare(preparing, waker),
            MergeTurn::Merge(None) => {}
            MergeTurn::Merge(Some((number, range, rows))) => self.merge(number, &range, rows)?,
        }
        Ok(Pull::Again)
    }
}

/// The packet that wants the rows in order.
pub(super) struct ExternalReader {
    external: Arc<External>,
    merged: Option<Merged>,
}

impl ExternalReader {
    pub fn new(external: Arc<External>) -> Self {
        Self { external, merged: None }
    }
}

impl SourceState for ExternalReader {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        loop {
            if let Some(batch) = self.merged.as_mut().and_then(|merged| merged.batches.pop_front()) {
                return Ok(Pull::Batch(batch));
            }
            match self.external.poll_read(waker) {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(None) => {
                    // What was reserved for merging is of use to others.
                    self.external.end();
                    return Ok(Pull::Done);
                }
                Poll::Ready(merged) => self.merged = merged,
            }
        }
    }
}

impl Drop for ExternalReader {
    fn drop(&mut self) {
        // Mergers must not wait for a reader that has gone.
        self.external.end();
    }
}
