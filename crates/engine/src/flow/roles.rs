//! The three roles in a pipeline and the words they answer with.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use diligence_base::limits::BATCH_ROWS_MIN;
use diligence_base::{Error, Result};
use diligence_disk::TempSpace;
use diligence_memory::QueryMemory;

use super::profile::Spills;
use crate::batch::Batch;

/// What opening a state may use.
#[derive(Clone, Debug)]
pub struct QueryContext {
    /// Where reservations come from.
    pub memory: QueryMemory,
    /// Where rows go that do not fit; without it an operator fails instead.
    pub temp: Option<TempSpace>,
    /// Rows in a batch at most.
    pub batch_rows: usize,
    /// Packets that may work on one pipeline at most: how far to split shared work.
    pub packets: usize,
}

impl QueryContext {
    /// Bytes that a batch should have at most, unless it has very few rows.
    pub fn batch_bytes(&self) -> usize {
        self.memory.batch_bytes()
    }

    /// Rows that a batch may have of which so many have so many bytes.
    pub fn batch_rows_of(&self, rows: usize, bytes: usize) -> usize {
        rows_within(self.batch_bytes(), rows, bytes).min(self.batch_rows.max(1))
    }
}

/// Rows that have about `bytes_max` bytes, if `rows` have `bytes`; some at least.
pub(crate) fn rows_within(bytes_max: usize, rows: usize, bytes: usize) -> usize {
    let within = bytes_max as u128 * rows as u128 / bytes.max(1) as u128;
    usize::try_from(within).unwrap_or(usize::MAX).max(BATCH_ROWS_MIN)
}

/// Where a pipeline's batches come from. Shared by its packets.
pub trait Source: Send + Sync {
    /// The name that EXPLAIN shows.
    fn name(&self) -> &'static str;
    /// How many packets can usefully pull at once. Asked once, when the pipeline starts: after everything it waits for.
    fn packets_max(&self) -> usize;
    /// Packets that wait until others of the pipeline have gone on, and for nothing else.
    fn held_back(&self) -> usize {
        0
    }
    /// A packet's own view of the source.
    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>>;
}

/// One packet's view of a source.
pub trait SourceState: Send {
    /// The next batch. After [`Pull::Wait`] the waker is woken when it is worth asking again. Not called after
    /// [`Pull::Done`].
    fn pull(&mut self, waker: &Waker) -> Result<Pull>;
    /// Where in the source's order the rows are that it is giving, if it gives whole parts of that order one after the
    /// other: parts are counted from 0 on. `None` between two parts, and for sources that have no order.
    fn place(&self) -> Option<usize> {
        None
    }
}

/// A source's answer.
#[derive(Debug)]
pub enum Pull {
    /// Rows: carry them on.
    Batch(Batch),
    /// Some work was done but no batch came of it: ask again, now or in the next quantum.
    Again,
    /// Nothing now: the waker will be woken.
    Wait,
    /// There is no memory to go on, and nothing is lost: ask again when some was given back, or end the query with this
    /// error.
    NoMemory(Error),
    /// Nothing more for this packet.
    Done,
}

/// Work on batches between a source and a sink. Shared by the pipeline's packets.
pub trait Operator: Send + Sync {
    /// The name that EXPLAIN shows.
    fn name(&self) -> &'static str;
    /// A packet's own state.
    fn open(&self, context: &QueryContext) -> Result<Box<dyn OperatorState>>;
    /// Where it counts what it writes to temp space, if it can.
    fn spills(&self) -> Option<Arc<Spills>> {
        None
    }
}

/// One packet's state of an operator.
///
/// The caller's side: `push` only after `NeedInput` (or at the start); `more` only after `MoreOutput`, until another
/// answer; `finish` once, when the input has ended or the operator said `Done`; after `finish`, again `more` while it
/// says `MoreOutput`. `Wait` is `MoreOutput` that is not worth asking for before the output's waker was woken. Each
/// call emits a bounded number of batches, best one or none.
pub trait OperatorState: Send {
    /// Rows that the next batch may have, where the operator makes rows so wide that it takes few at once. Asked before
    /// each batch.
    fn rows_max(&self) -> usize {
        usize::MAX
    }
    /// Works on one batch.
    fn push(&mut self, input: Batch, out: &mut Output) -> Result<Flow>;
    /// Goes on with output that did not fit into the previous call.
    fn more(&mut self, _out: &mut Output) -> Result<Flow> {
        Err(Error::bug("an operator without more output was asked for it"))
    }
    /// True once no further input of any packet changes the output: then every packet does as after `Done`, at once and
    /// not only when its next batch arrives. Asked before each unit of work, so it is cheap.
    fn has_enough(&self) -> bool {
        false
    }
    /// The packet's input has ended.
    fn finish(&mut self, _out: &mut Output) -> Result<Flow> {
        Ok(Flow::Done)
    }
}

/// An operator's answer: what the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Push the next batch.
    NeedInput,
    /// Call `more` before anything else.
    MoreOutput,
    /// The same, once the waker of the output was woken: the operator waits for temp space.
    Wait,
    /// Push nothing any more: no further input changes the output. After `finish`: the state may be dropped.
    Done,
}

/// Where an operator puts its batches; the caller takes them out before the next call.
#[derive(Debug)]
pub struct Output {
    batches: VecDeque<Batch>,
    waker: Waker,
}

impl Default for Output {
    fn default() -> Self {
        Self { batches: VecDeque::new(), waker: Waker::noop().clone() }
    }
}

impl Output {
    /// Whom an operator wakes that said [`Flow::Wait`].
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Says who is to be woken.
    pub fn set_waker(&mut self, waker: &Waker) {
        self.waker.clone_from(waker);
    }

    /// Drops what was not taken.
    pub fn clear(&mut self) {
        self.batches.clear();
    }

    /// Hands a batch on. A batch without rows is dropped.
    pub fn emit(&mut self, batch: Batch) {
        if batch.rows() > 0 {
            self.batches.push_back(batch);
        }
    }

    /// Puts back what is left of a batch that was taken.
    pub(crate) fn put_back(&mut self, rest: Batch) {
        self.batches.push_front(rest);
    }

    /// The oldest batch not yet taken.
    pub fn take(&mut self) -> Option<Batch> {
        self.batches.pop_front()
    }

    /// True if nothing waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }
}

/// Where a pipeline's batches end: a hash table, groups, sorted runs, a port. Several pipelines may share one sink.
///
/// Life: packets `open`, push and finish their states; when all packets of all its pipelines are finished, `parts` is
/// asked once; then `part(0..parts)` run, on any workers at the same time; then `complete` runs once, and pipelines
/// that wait for this sink start.
pub trait Sink: Send + Sync {
    /// The name that EXPLAIN shows.
    fn name(&self) -> &'static str;
    /// A packet's own state.
    fn open(&self, context: &QueryContext) -> Result<Box<dyn SinkState>>;
    /// How many independent pieces of finishing work there are. Each should take a few milliseconds at most.
    fn parts(&self) -> Result<usize> {
        Ok(0)
    }
    /// What it writes to the disk, if it may. Asked once, before anything else.
    fn spills(&self) -> Option<Arc<Spills>> {
        None
    }
    /// Bytes that it has for itself, while it is filled or read, if its rows do not fit in memory: buffers for what it
    /// writes and reads. Asked from the beginning on, now and then.
    fn bytes_min(&self, _context: &QueryContext) -> usize {
        0
    }
    /// What of them it has while it is complete and nobody reads it. Whoever reads it needs the others again.
    fn bytes_at_rest(&self, context: &QueryContext) -> usize {
        self.bytes_min(context)
    }
    /// Packets that wait until somebody takes what is there already.
    fn held_back(&self) -> usize {
        0
    }
    /// One piece of finishing work.
    fn part(&self, _index: usize, _setup: &QueryContext) -> Result<()> {
        Ok(())
    }
    /// Everything is in: make the state readable.
    fn complete(&self) -> Result<()> {
        Ok(())
    }
}

/// One packet's state of a sink.
pub trait SinkState: Send {
    /// As an operator's.
    fn rows_max(&self) -> usize {
        usize::MAX
    }
    /// Whether what was pushed before waits for somebody who is slow: then no batch is made for it until the waker was
    /// woken and `ready` says `More`. Asked before each batch of the source.
    fn is_full(&mut self, _waker: &Waker) -> bool {
        false
    }
    /// Takes a batch, always. After [`Accept::Wait`] nothing is pushed until the waker was woken and `ready` says
    /// `More`.
    fn push(&mut self, batch: Batch, waker: &Waker) -> Result<Accept>;
    /// Where several packets bring rows whose order is kept: what is pushed from now on belongs to this
    /// [place](SourceState::place), and what was pushed before is all that there is of the place before. Each place
    /// comes once.
    fn at(&mut self, _place: Option<usize>) -> Result<()> {
        Ok(())
    }
    /// Asked after a wake-up, for a sink that waits for several, or that has work to do before it takes more: then it
    /// does a piece of it, and wakes itself for the next one.
    fn ready(&mut self, _waker: &Waker) -> Result<Accept> {
        Ok(Accept::More)
    }
    /// The query is asked to give memory back: does as before the next batch, as far as it holds revocable memory. The
    /// answer is that of `ready`.
    fn give_back(&mut self, _waker: &Waker) -> Result<Accept> {
        Ok(Accept::More)
    }
    /// The packet's input has ended: hand over what is held. After [`Accept::Wait`] it is called again when woken.
    fn finish(&mut self, _waker: &Waker) -> Result<Accept> {
        Ok(Accept::More)
    }
    /// Whether the error of kind `Resource` that it has just given has changed nothing: the batch was taken, and
    /// `ready` may be asked again when others have given memory back.
    fn may_ask_again(&self) -> bool {
        false
    }
}

/// A sink's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Push the next batch.
    More,
    /// The batch was taken, but wait for the waker before the next.
    Wait,
    /// Nothing more is wanted.
    Enough,
}
