//! Groups that are complete: what the source reads, and what goes to temp space as rows while nobody has read it and
//! somebody else needs the memory.
//!
//! ```text
//!   waiting --> being read --> gone
//!      |                        ^
//!      +--> retiring --> file --+
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use diligence_base::Result;
use diligence_disk::{Grouping, SpillBuffers, SpillMemory, TempSpace};
use diligence_memory::Reservation;

use super::group_table::GroupTable;
use super::key_decoding::KeyReader;
use super::key_encoding::into_type;
use super::program::Program;
use super::states::State;
use crate::batch::Batch;
use crate::flow::QueryContext;
use crate::flow::profile::Spills;
use crate::sync::Mutex;
use crate::temp::{BatchFile, BatchWriter};

/// Groups of so few bytes stay where they are.
const RETIRED_BYTES_MIN: usize = if cfg!(test) { 1 } else { 64 * 1024 };

/// Groups that can be read.
pub(super) struct FinishedGroups {
    keys: KeyReader,
    states: Vec<State>,
    pub groups: usize,
    reservation: Reservation,
}

impl FinishedGroups {
    /// Makes the groups of a table readable. What accumulators need for that has been reserved.
    pub fn new(mut table: GroupTable, mut reservation: Reservation) -> Result<Self> {
        table.resize_states()?;
        let groups = table.groups();
        for state in &mut table.states {
            match state {
                State::Foreign(foreign) => foreign.finish()?,
                State::Distinct(distinct) => distinct.finish(),
                _ => {}
            }
        }
        let keys = KeyReader::new(table.keys.into_keys());
        let states = table.states;
        reservation.settle(keys.bytes() + states.iter().map(State::bytes).sum::<usize>());
        reservation.hold_firm();
        Ok(Self { keys, states, groups, reservation })
    }

    /// Groups of a batch.
    pub fn batch_rows(&self, context: &QueryContext) -> usize {
        context.batch_rows_of(self.groups, self.reservation.bytes())
    }

    /// The rows of some groups.
    pub fn read(&self, program: &Program, first: usize, rows: usize) -> Result<Batch> {
        let mut columns: Vec<ArrayRef> = match program.grouped {
            true => self.keys.columns(&program.layout, first, rows)?,
            false => Vec::new(),
        };
        for output in &program.outputs {
            let field = program.output_schema.field(columns.len());
            columns.push(into_type(output.read(&self.states, first..first + rows)?, field.data_type())?);
        }
        debug_assert!(fits(&columns, program), "an aggregate gave other types than planned");
        Ok(Batch::from_arrays(columns, rows))
    }
}

fn fits(columns: &[ArrayRef], program: &Program) -> bool {
    let options = RecordBatchOptions::new().with_row_count(Some(columns.first().map_or(0, |c| c.len())));
    RecordBatch::try_new_with_options(program.output_schema.clone(), columns.to_vec(), &options).is_ok()
}

/// What a packet is to read.
pub(super) enum Piece {
    /// So many groups, from the first on.
    Groups { of: Arc<FinishedGroups>, first: usize, rows: usize },
    /// All rows of a file.
    File(BatchFile),
}

/// Parts of the groups, all complete.
#[derive(Default)]
pub(super) struct FinishedParts {
    /// At the beginning.
    pub groups: usize,
    state: Mutex<Parts>,
}

#[derive(Default)]
struct Parts {
    waiting: VecDeque<FinishedGroups>,
    /// Read by several packets, up to this group.
    reading: Option<(Arc<FinishedGroups>, usize)>,
    files: VecDeque<BatchFile>,
    retiring: usize,
    readers: Vec<Waker>,
}

impl FinishedParts {
    /// Parts that nobody reads yet; where `temp` says that they may leave, they are at rest.
    pub fn new(mut parts: Vec<FinishedGroups>, temp: bool) -> Self {
        let groups = parts.iter().map(|part| part.groups).sum();
        for part in parts.iter_mut().filter(|part| temp && part.may_retire()) {
            part.reservation.rest();
        }
        Self { groups, state: Mutex::new(Parts { waiting: parts.into(), ..Parts::default() }) }
    }

    /// The next groups to be read, a batch at most, or a file. Pending while groups are on their way to one; `None` if
    /// there will be nothing more.
    pub fn poll_take(&self, context: &QueryContext, waker: &Waker) -> Poll<Option<Piece>> {
        let mut parts = self.state.lock();
        loop {
            if let Some((of, next)) = &mut parts.reading {
                let (of, first, rows) = (of.clone(), *next, of.batch_rows(context).min(of.groups - *next));
                *next += rows;
                if *next == of.groups {
                    parts.reading = None;
                }
                if rows > 0 {
                    return Poll::Ready(Some(Piece::Groups { of, first, rows }));
                }
            } else if let Some(mut part) = parts.waiting.pop_front() {
                part.reservation.hold_firm();
                parts.reading = Some((Arc::new(part), 0));
            } else if let Some(file) = parts.files.pop_front() {
                return Poll::Ready(Some(Piece::File(file)));
            } else if parts.retiring > 0 {
                parts.readers.push(waker.clone());
                return Poll::Pending;
            } else {
                return Poll::Ready(None);
            }
        }
    }

    /// Bytes that can be given back.
    pub fn reclaimable_bytes(&self) -> usize {
        let parts = self.state.lock();
        parts.waiting.iter().filter(|part| part.may_retire()).map(|part| part.reservation.bytes()).sum()
    }

    /// Takes a part that nobody reads, the one that would be read last, to be written.
    pub fn retire(&self, buffers: &SpillBuffers) -> Option<Retiring> {
        let mut parts = self.state.lock();
        let index = parts.waiting.iter().rposition(FinishedGroups::may_retire)?;
        let groups = parts.waiting.remove(index)?;
        parts.retiring += 1;
        Some(Retiring { groups, next: 0, batch: None, writer: BatchWriter::packed(buffers, Grouping::None) })
    }

    /// A part is in temp space.
    pub fn retired(&self, retiring: Retiring, spills: &Spills) {
        let Retiring { groups, writer, .. } = retiring;
        spills.add(1, writer.bytes());
        let file = writer.finish();
        drop(groups);
        let readers = {
            let mut parts = self.state.lock();
            parts.files.push_back(file);
            parts.retiring -= 1;
            std::mem::take(&mut parts.readers)
        };
        readers.into_iter().for_each(Waker::wake);
    }
}

impl FinishedGroups {
    fn may_retire(&self) -> bool {
        self.reservation.bytes() >= RETIRED_BYTES_MIN && self.groups > 1
    }
}

/// A part on its way to temp space.
pub(super) struct Retiring {
    groups: FinishedGroups,
    next: usize,
    batch: Option<Batch>,
    writer: BatchWriter,
}

impl Retiring {
    /// Writes some of it; ready with true when all is written. After `Pending` the waker is woken when it is worth
    /// going on.
    pub fn poll(&mut self, program: &Program, context: &QueryContext, waker: &Waker) -> Poll<Result<bool>> {
        if self.batch.is_none() {
            let rows = self.groups.batch_rows(context).min(self.groups.groups - self.next);
            if rows == 0 {
                return Poll::Ready(Ok(true));
            }
            self.batch = Some(self.groups.read(program, self.next, rows)?);
            self.next += rows;
        }
        if let Some(batch) = &self.batch {
            match self.writer.poll_write(batch, waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(written) => written?,
            }
        }
        self.batch = None;
        Poll::Ready(Ok(false))
    }
}

/// The clusters through which finished groups go to temp space and back, once they have to. They are kept only while
/// somebody writes or reads.
#[derive(Default)]
pub(super) struct RetiredBuffers {
    buffers: OnceLock<SpillBuffers>,
    /// Whether groups are being read.
    is_read: Mutex<bool>,
}

/// Clusters to write with: one that is filled, and one to pack it.
const RETIRING_CLUSTERS: usize = 2;

impl RetiredBuffers {
    /// To write with: one cluster more than the packets that read have.
    fn clusters_min(context: &QueryContext) -> usize {
        (1 + 2 * context.packets).max(RETIRING_CLUSTERS)
    }

    /// Bytes that reading takes.
    pub fn bytes_min(&self, context: &QueryContext, temp: &TempSpace) -> usize {
        self.buffers.get().map_or(0, |_| Self::clusters_min(context) * temp.cluster_bytes())
    }

    /// To write with, or to read with: one cluster to write, and two for each packet that reads.
    pub fn get(&self, context: &QueryContext, temp: &TempSpace) -> Result<&SpillBuffers> {
        let is_read = self.is_read.lock();
        if self.buffers.get().is_none() {
            let memory = SpillMemory { clusters_min: Self::clusters_min(context), ..SpillMemory::default() };
            let mut reservation = context.memory.reservation("Aggregate");
            // Much more comes back for it.
            reservation.settle(memory.clusters_min * temp.cluster_bytes());
            let buffers = SpillBuffers::new(temp, reservation, memory)?;
            self.buffers.get_or_init(|| buffers);
        }
        let buffers = self.buffers.get().ok_or_else(|| diligence_base::Error::bug("buffers were not made"))?;
        if !*is_read {
            buffers.keep(RETIRING_CLUSTERS);
        }
        Ok(buffers)
    }

    /// What was to be written is written. Nothing is kept until somebody reads.
    pub fn rest(&self) {
        let is_read = self.is_read.lock();
        if let Some(buffers) = self.buffers.get().filter(|_| !*is_read) {
            buffers.keep(0);
        }
    }

    /// Groups are to be read: buffers are needed again, if need be beyond the budget.
    pub fn wake(&self, context: &QueryContext) {
        let mut is_read = self.is_read.lock();
        if !*is_read && let Some(buffers) = self.buffers.get() {
            buffers.keep(Self::clusters_min(context));
        }
        *is_read = true;
    }

    /// Nobody reads any more.
    pub fn end(&self) {
        *self.is_read.lock() = false;
        self.rest();
    }
}
