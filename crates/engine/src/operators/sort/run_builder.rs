//! One packet's part of a sort: collects rows, and makes a run of them whenever there are enough. When memory is short
//! its runs become one on the disk.
//!
//! ```text
//!   batch --> pending --> collected, keys --close_run--> runs in memory --spill--> one run on the disk
//!                                                                                  --> perhaps merged with others
//! ```
//!
//! What making a run of the collected rows takes is reserved before they are collected. So whenever memory is refused,
//! what is held can be written without asking for more.
//!
//! The first time only some of the runs are written, and more each time after: if little does not fit, little is
//! written, and if much does not, there are few runs and long ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use diligence_base::{Error, Result};
use diligence_disk::SpillBuffers;
use diligence_memory::{QueryMemory, Reservation};

use super::Run;
use super::external::pieces_of;
use super::gather::{Pick, Text, concat_batches, gather, held_bytes, settle};
use super::keys::Keys;
use super::merge_job::{MergeJob, MergeMemory, Progress, Spare};
use super::run_file::minimal_buffers;
use super::shared::SharedSort;
use crate::batch::Batch;
use crate::flow::{Accept, QueryContext, SinkState};
use crate::plan::sort_plan;

/// Small batches are put together until there are so many of them, or so many of their rows: an array costs hundreds of
/// bytes and a step in every gather, however few rows it has.
const SMALL_BATCHES_MAX: usize = 64;
/// A batch with fewer rows is small.
const SMALL_BATCH_ROWS: usize = 1024;

/// The first spill writes at least so much of what is held: one part in so many. Each one writes twice as much as the
/// one before, up to everything.
const FIRST_SPILL_DIVISOR: usize = 8;

/// A packet's rows that are not in a run yet, and its runs.
pub(super) struct RunBuilder {
    shared: Arc<SharedSort>,
    collected: Collected,
    keys: Keys,
    /// The oldest first.
    runs: VecDeque<Run>,
    /// How often runs were written.
    spills: u32,
    /// Rows that were pushed but for which there was no memory yet.
    pending: VecDeque<Batch>,
    /// Bytes of `pending`, as far as they are counted here and not with whoever made them.
    pending_bytes: usize,
    memory: QueryMemory,
    /// What a packet that may use the disk has reserved whatever happens: for the first rows that it collects, and for
    /// a batch on its way to the disk.
    work: Reservation,
    /// Bytes of `runs`; what else is reserved belongs to `collected` and `keys`, or is what is needed to make a run of
    /// them.
    run_bytes: usize,
    /// The same for what is read and written.
    minimal: Option<SpillBuffers>,
    job: Option<RunJob>,
    /// For rows beyond what `work` is for. Somebody else may ask for it: then they are spilled.
    reservation: Reservation,
}

/// What a packet does while it takes no rows: its runs become one on the disk, or runs on the disk a longer one.
struct RunJob {
    merge: MergeJob,
    /// How many runs the sort can merge at once, as far as one can tell.
    fan_in: usize,
}

/// What became of a batch.
enum Taken {
    Yes,
    /// There is no memory for it, because of this error.
    NoRoom(Batch, Error),
}

impl RunBuilder {
    /// Fails with kind `Resource` if there is no memory for the least that a packet needs.
    pub fn new(shared: Arc<SharedSort>, context: &QueryContext) -> Result<Self> {
        let memory = context.memory.clone();
        let keys = shared.encoder.empty();
        let mut work = memory.reservation(shared.name());
        let (reservation, minimal) = match shared.disk_if_any() {
            None => (work.sibling(), None),
            Some(disk) => {
                work.grow(disk.work_bytes())?;
                (memory.revocable(shared.name()), Some(minimal_buffers(&disk.space, work.sibling())?))
            }
        };
        Ok(Self {
            shared,
            collected: Collected::default(),
            keys,
            runs: VecDeque::new(),
            spills: 0,
            pending: VecDeque::new(),
            pending_bytes: 0,
            memory,
            reservation,
            work,
            run_bytes: 0,
            minimal,
            job: None,
        })
    }

    /// Takes over settled batches that somebody else has collected, with what is reserved for them.
    pub fn take_over(&mut self, batches: Vec<Batch>, reservation: Reservation) -> Result<()> {
        self.pending_bytes += batches.iter().map(held_bytes).sum::<Result<usize>>()?;
        self.pending.extend(batches);
        self.reservation.absorb(reservation);
        Ok(())
    }

    /// Bytes to reserve for what is held with so many rows more, and for what making a run of the collected ones takes;
    /// beyond what is reserved for work.
    fn needed_bytes(&self, rows: usize, payload_bytes: usize, key_bytes: usize) -> usize {
        /// For each row the entry that is sorted, its number, the place it comes from, and its pick in a merge.
        const ROW_BYTES: usize = size_of::<(u128, u64)>() + 3 * size_of::<Pick>();
        let collected = if rows + self.keys.len() == 0 {
            0
        } else {
            // For a moment rows are held twice; and vectors of keys may be half empty.
            2 * (self.collected.bytes + payload_bytes)
                + 3 * (self.keys.bytes() + key_bytes)
                + ROW_BYTES * (self.keys.len() + rows)
        };
        self.pending_bytes + self.run_bytes + collected.saturating_sub(self.batch_bytes())
    }

    /// What a batch takes on its way to the disk.
    fn batch_bytes(&self) -> usize {
        self.shared.disk_if_any().map_or(0, |disk| disk.space.cluster_bytes())
    }

    /// Reserves what is needed for what is held.
    fn reserve_held(&mut self) {
        let needed = self.needed_bytes(0, 0, 0);
        self.reservation.shrink(self.reservation.bytes().saturating_sub(needed));
        let missing = needed - self.reservation.bytes();
        if self.reservation.grow(missing).is_err() {
            // Rows and keys may turn out longer than they looked, and are held already. A run has taken what was
            // reserved for work as long as its rows were collected; it is there still, since none are collected now.
            let spare = if self.keys.len() == 0 { self.batch_bytes() } else { 0 };
            self.reservation.overdraw(missing.saturating_sub(spare));
        }
    }

    /// Collects a settled batch, if there is memory for it.
    fn take(&mut self, batch: Batch) -> Result<Taken> {
        let columns = self.shared.encoder.columns(&batch)?;
        let key_bytes = self.shared.encoder.bytes_expected(&columns, batch.rows());
        let needed = self.needed_bytes(batch.rows(), held_bytes(&batch)?, key_bytes);
        let missing = needed.saturating_sub(self.reservation.bytes());
        // One row cannot be divided, and with nothing else held, nothing can be written in its place.
        let is_alone = batch.rows() == 1 && self.keys.len() == 0 && self.runs.is_empty() && self.minimal.is_some();
        let grown = if is_alone { self.reservation.grow_for_one_row(missing) } else { self.reservation.grow(missing) };
        if let Err(error) = grown {
            return Ok(Taken::NoRoom(batch, error));
        }
        self.shared.encoder.append(&columns, batch.rows(), &mut self.keys)?;
        self.collected.push(batch, &self.shared)?;
        self.reserve_held();
        if self.keys.len() >= self.shared.sizes.run_rows || self.collected.bytes >= self.shared.sizes.run_bytes {
            self.close_run()?;
        }
        Ok(Taken::Yes)
    }

    /// Makes a run of the collected rows, for which everything is reserved.
    fn close_run(&mut self) -> Result<()> {
        if self.keys.len() == 0 {
            return Ok(());
        }
        let shared = self.shared.clone();
        let keys = std::mem::replace(&mut self.keys, shared.encoder.empty());
        let order = keys.order(shared.encoder.bits());
        let payload = std::mem::take(&mut self.collected).in_order(&order, &shared)?;
        let run = Run { keys: keys.into_sorted(&order), payload };
        self.run_bytes += run.bytes()?;
        self.runs.push_back(run);
        self.reserve_held();
        Ok(())
    }

    /// Goes on until all pending rows are collected.
    fn advance(&mut self, waker: &Waker) -> Result<Accept> {
        loop {
            if self.job.is_some() {
                if let Some(accept) = self.work(waker)? {
                    return Ok(accept);
                }
                continue;
            }
            if self.minimal.is_some() && self.reservation.is_asked() {
                self.take_left()?;
            }
            if self.is_to_give_back() {
                self.close_run()?;
                self.spill()?;
                continue;
            }
            let Some(batch) = self.pending.pop_front() else { return Ok(Accept::More) };
            if self.pending_bytes > 0 {
                self.pending_bytes = self.pending_bytes.saturating_sub(held_bytes(&batch)?);
            }
            if let Taken::NoRoom(batch, error) = self.take(batch)? {
                self.make_room(batch, error)?;
            }
        }
    }

    /// Whether somebody else needs the memory, and enough is held for a run.
    fn is_to_give_back(&self) -> bool {
        self.minimal.is_some()
            && self.reservation.is_asked()
            && self.run_bytes + self.collected.bytes > self.batch_bytes()
    }

    /// Makes a run of what is collected, or if nothing is, spills what is held, so that there is room for a batch. If
    /// nothing is held either, a half of the batch must do.
    fn make_room(&mut self, batch: Batch, error: Error) -> Result<()> {
        if self.minimal.is_none() {
            return Err(error);
        }
        if self.keys.len() > 0 {
            // Rows in a run take less than rows that are to be put in order: perhaps that is enough.
            self.pending.push_front(batch);
            return self.close_run();
        }
        if self.runs.is_empty() {
            self.take_left()?;
        }
        if self.runs.is_empty() {
            let half = batch.rows() / 2;
            if half == 0 {
                return Err(error);
            }
            self.pending.push_front(settle(&batch.slice(half, batch.rows() - half), &self.shared.schema)?);
            self.pending.push_front(settle(&batch.slice(0, half), &self.shared.schema)?);
            return Ok(());
        }
        self.pending.push_front(batch);
        self.spill()
    }

    /// Takes over what packets have left that have ended: there is nobody else to write it.
    fn take_left(&mut self) -> Result<()> {
        let Some((runs, reservation)) = self.shared.take_left()? else { return Ok(()) };
        for run in runs {
            self.run_bytes += run.bytes()?;
            self.runs.push_back(run);
        }
        self.reservation.absorb(reservation);
        Ok(())
    }

    /// Begins to write runs to the disk, the oldest ones, as one.
    fn spill(&mut self) -> Result<()> {
        let Some(minimal) = &self.minimal else { return Err(Error::bug("a sort without temp space went there")) };
        let shared = self.shared.clone();
        let disk = shared.disk()?;
        let share = (self.run_bytes / FIRST_SPILL_DIVISOR).saturating_mul(1 << self.spills.min(u32::BITS - 1));
        // A run of less than a few clusters is not worth its place in a merge.
        let wanted = share.max(disk.work_bytes());
        self.spills += 1;
        let (mut written, mut bytes) = (Vec::new(), 0);
        while bytes < wanted
            && let Some(run) = self.runs.pop_front()
        {
            bytes += run.bytes()?;
            written.push(run);
        }
        self.run_bytes = if self.runs.is_empty() { 0 } else { self.run_bytes.saturating_sub(bytes) };
        let kept = self.pending_bytes + self.run_bytes;
        let mut of_runs = self.reservation.split(self.reservation.bytes().saturating_sub(kept));
        let pieces = pieces_of(written, &mut of_runs)?;
        let merge = MergeJob::of_memory(pieces, bytes, minimal, disk, &self.work);
        // Memory is short: what the query has reserved is all there is, and will be there for the last merge. If it
        // will not, more runs are merged before that.
        let fan_in = sort_plan::fan_in(self.memory.reserved_bytes() / disk.space.cluster_bytes());
        self.job = Some(RunJob { merge, fan_in });
        Ok(())
    }

    /// Works on the job. `None`: it is done.
    fn work(&mut self, waker: &Waker) -> Result<Option<Accept>> {
        let Some(RunJob { merge, .. }) = &mut self.job else { return Ok(None) };
        match merge.step(waker)? {
            Progress::Wait => return Ok(Some(Accept::Wait)),
            Progress::Again => {
                // Others shall have their turn.
                waker.wake_by_ref();
                return Ok(Some(Accept::Wait));
            }
            Progress::Done => {}
        }
        let Some(RunJob { merge, fan_in }) = self.job.take() else { return Ok(None) };
        let shared = self.shared.clone();
        let disk = shared.disk()?;
        shared.collect_disk([merge.finish()])?;
        self.reserve_held();
        if let (Some(mut runs), Some(minimal)) = (shared.claim_merge(fan_in)?, &self.minimal) {
            let all: Vec<_> = runs.iter().collect();
            let (count, memory) = MergeMemory::for_some(&all, Spare::WRITE, minimal, disk, &self.memory)?;
            shared.collect_disk(runs.drain(count..))?;
            self.job = Some(RunJob { merge: MergeJob::of_disk(runs, memory, disk, &self.work), fan_in });
        }
        Ok(None)
    }
}

impl SinkState for RunBuilder {
    fn push(&mut self, batch: Batch, waker: &Waker) -> Result<Accept> {
        // What a batch of text needs is known exactly only once it is settled; it is reserved before it is kept.
        self.pending.push_back(settle(&batch, &self.shared.schema)?);
        self.advance(waker)
    }

    fn ready(&mut self, waker: &Waker) -> Result<Accept> {
        self.advance(waker)
    }

    fn give_back(&mut self, waker: &Waker) -> Result<Accept> {
        self.advance(waker)
    }

    fn finish(&mut self, waker: &Waker) -> Result<Accept> {
        if self.advance(waker)? == Accept::Wait {
            return Ok(Accept::Wait);
        }
        self.close_run()?;
        let mut reservation = self.reservation.split(usize::MAX);
        let nothing = self.work.sibling();
        reservation.absorb(std::mem::replace(&mut self.work, nothing));
        let run_bytes = std::mem::take(&mut self.run_bytes);
        self.shared.leave(std::mem::take(&mut self.runs).into(), run_bytes, reservation, self.minimal.take())?;
        Ok(Accept::More)
    }
}

/// Payload in the order of arrival.
#[derive(Default)]
pub(super) struct Collected {
    blocks: Vec<Batch>,
    /// Small batches that will be one block.
    small: Vec<Batch>,
    small_rows: usize,
    bytes: usize,
}

impl Collected {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Blocks held, roughly.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Adds a settled batch behind the others.
    pub fn push(&mut self, batch: Batch, shared: &SharedSort) -> Result<()> {
        self.bytes += held_bytes(&batch)?;
        if batch.rows() >= SMALL_BATCH_ROWS {
            self.close_small(shared)?;
            self.blocks.push(batch);
            return Ok(());
        }
        self.small_rows += batch.rows();
        self.small.push(batch);
        if self.small.len() >= SMALL_BATCHES_MAX || self.small_rows >= SMALL_BATCH_ROWS {
            self.close_small(shared)?;
        }
        Ok(())
    }

    /// What was pushed, in blocks.
    pub fn into_blocks(mut self, shared: &SharedSort) -> Result<Vec<Batch>> {
        self.close_small(shared)?;
        Ok(self.blocks)
    }

    /// The rows in the given order, as one batch. Fewer rows than there are may be asked for.
    pub fn in_order(mut self, order: &[u32], shared: &SharedSort) -> Result<Batch> {
        self.close_small(shared)?;
        let places = self
            .blocks
            .iter()
            .enumerate()
            .flat_map(|(block, batch)| (0..batch.rows() as u32).map(move |row| Pick { block: block as u32, row }))
            .collect::<Vec<_>>();
        let picks = order.iter().map(|&row| places[row as usize]).collect::<Vec<_>>();
        gather(&self.blocks, &picks, Text::Copy, &shared.schema)
    }

    fn close_small(&mut self, shared: &SharedSort) -> Result<()> {
        if !self.small.is_empty() {
            let small = std::mem::take(&mut self.small);
            self.blocks.push(concat_batches(&small, &shared.schema)?);
            self.small_rows = 0;
        }
        Ok(())
    }
}
