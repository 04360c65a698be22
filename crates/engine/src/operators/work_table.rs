//! Rows that are read more than once: those that a recursive query keeps from one step to the next, and those of a
//! plan's common parts. In memory if they are few, else in temp space.
//!
//! Invariant: rows of a table that is being read stay where they are; so those in memory take a small part of what the
//! query may have, and the rest has gone to temp space while they came.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use diligence_base::{Error, Result};
use diligence_disk::{Grouping, ReadOptions, SpillBuffers, SpillMemory, TempSpace};
use diligence_memory::{QueryMemory, Reservation};

use crate::batch::{Batch, compacted};
use crate::flow::{Pull, QueryContext, Source, SourceState};
use crate::sync::Mutex;
use crate::temp::{BatchFile, BatchReader, BatchWriter};

/// The part of what a query may have, as its divisor, that the rows of one table in memory may take.
pub(crate) const MEMORY_DIVISOR: usize = 16;

/// Rows are prepared to leave when they have one in so many parts of a cluster.
const PREPARED_PARTS: usize = 4;

/// Where some tables are. Clones are the same place.
#[derive(Clone)]
pub(crate) struct Storage {
    memory: QueryMemory,
    temp: Option<TempSpace>,
    /// The name in `system.memory` and in errors.
    holder: &'static str,
    /// How many tables are written at the same time, and have their part of the memory of one.
    writers: usize,
    /// What `buffers` have at least.
    clusters_min: usize,
    /// Made before rows leave.
    buffers: Arc<Mutex<Option<SpillBuffers>>>,
}

impl Storage {
    /// A place that `holder` has. Rows in temp space have so many clusters from the beginning to the end: one for each
    /// table that is written, two for each that is read, and one more.
    pub fn new(context: &QueryContext, holder: &'static str, clusters_min: usize) -> Self {
        let (memory, temp) = (context.memory.clone(), context.temp.clone());
        Self { memory, temp, holder, writers: 1, clusters_min, buffers: Arc::default() }
    }

    /// The same for rows that no query holds.
    pub fn outside(memory: &QueryMemory, temp: &TempSpace, holder: &'static str, clusters_min: usize) -> Self {
        let (memory, temp) = (memory.clone(), Some(temp.clone()));
        Self { memory, temp, holder, writers: 1, clusters_min, buffers: Arc::default() }
    }

    /// The same for so many tables that are written at the same time.
    pub fn of_writers(self, writers: usize) -> Self {
        Self { writers: writers.max(1), ..self }
    }

    pub fn memory(&self) -> &QueryMemory {
        &self.memory
    }

    /// Whether rows can leave memory.
    pub fn has_temp(&self) -> bool {
        self.temp.is_some()
    }

    /// So many bytes are in memory: once they are more than a part of a cluster, the buffers to write them are
    /// reserved. When there is no memory any more, it is too late.
    pub fn prepare(&self, bytes: usize) {
        if self.temp.as_ref().is_some_and(|temp| bytes >= temp.cluster_bytes() / PREPARED_PARTS) {
            // Without them there may be memory later.
            let _ = self.buffers();
        }
    }

    fn buffers(&self) -> Result<Option<SpillBuffers>> {
        let Some(temp) = &self.temp else { return Ok(None) };
        let mut buffers = self.buffers.lock();
        if buffers.is_none() {
            let memory = SpillMemory { clusters_min: self.clusters_min, ..SpillMemory::default() };
            *buffers = Some(SpillBuffers::new(temp, self.memory.reservation(self.holder), memory)?);
        }
        Ok(buffers.clone())
    }

    /// All rows are in, and nobody reads them yet: no buffers are kept, and none are there if no rows `have_left`.
    pub fn rest(&self, have_left: bool) {
        let mut buffers = self.buffers.lock();
        match &*buffers {
            Some(buffers) if have_left => buffers.keep(0),
            _ => *buffers = None,
        }
    }

    /// Rows are to be read: buffers are needed again, if need be beyond the budget.
    pub fn wake(&self) {
        if let Some(buffers) = self.buffers.lock().as_ref() {
            buffers.keep(self.clusters_min);
        }
    }

    /// A writer of a new file; `None` if there is no temp space.
    pub fn writer(&self) -> Result<Option<BatchWriter>> {
        Ok(self.buffers()?.map(|buffers| BatchWriter::new(&buffers, Grouping::None)))
    }
}

/// Rows that come one batch after another.
pub(crate) struct TableWriter {
    storage: Storage,
    batches: VecDeque<(Batch, usize)>,
    /// Once there is one, all rows go there.
    writer: Option<BatchWriter>,
    rows: u64,
    reservation: Reservation,
}

impl TableWriter {
    pub fn new(storage: &Storage) -> Self {
        Self {
            reservation: storage.memory.reservation(storage.holder),
            storage: storage.clone(),
            batches: VecDeque::new(),
            writer: None,
            rows: 0,
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes a batch. After `Pending`, call it again with the same batch when the waker was woken.
    pub fn poll_push(&mut self, batch: &Batch, waker: &Waker) -> Poll<Result<()>> {
        if self.writer.is_none() {
            let bytes = batch.bytes();
            let room = self.storage.memory.limit_bytes() / MEMORY_DIVISOR / self.storage.writers;
            let refusal = match self.storage.temp {
                Some(_) if self.reservation.bytes().saturating_add(bytes) > room => None,
                _ => match self.reservation.grow(bytes) {
                    Ok(()) => return Poll::Ready(self.keep(batch, bytes)),
                    Err(refusal) => Some(refusal),
                },
            };
            self.writer = self.storage.writer()?;
            if self.writer.is_none() {
                return Poll::Ready(Err(refusal.unwrap_or_else(|| Error::bug("a table has nowhere to go"))));
            }
        }
        let Some(writer) = &mut self.writer else { return Poll::Ready(Err(Error::bug("a table lost its file"))) };
        while let Some((held, bytes)) = self.batches.front() {
            ready!(writer.poll_write(held, waker))?;
            self.reservation.shrink(*bytes);
            self.batches.pop_front();
        }
        ready!(writer.poll_write(batch, waker))?;
        self.rows += batch.rows() as u64;
        Poll::Ready(Ok(()))
    }

    /// Keeps a batch in memory for which `reserved_bytes` are reserved.
    fn keep(&mut self, batch: &Batch, reserved_bytes: usize) -> Result<()> {
        let columns = batch.columns().iter().map(|column| compacted(&column.flat()?));
        let batch = Batch::from_arrays(columns.collect::<Result<Vec<_>>>()?, batch.rows());
        let bytes = batch.bytes().min(reserved_bytes);
        self.reservation.shrink(reserved_bytes - bytes);
        self.rows += batch.rows() as u64;
        self.batches.push_back((batch, bytes));
        self.storage.prepare(self.reservation.bytes());
        Ok(())
    }

    /// All rows are in.
    pub fn finish(self) -> WorkTable {
        WorkTable {
            batches: self.batches.into_iter().map(|(batch, _)| batch).collect(),
            files: self.writer.map(BatchWriter::finish).into_iter().collect(),
            storage: self.storage,
            _reservation: self.reservation,
        }
    }
}

/// Rows that can be read, any number of times.
pub struct WorkTable {
    batches: Vec<Batch>,
    files: Vec<BatchFile>,
    storage: Storage,
    _reservation: Reservation,
}

impl WorkTable {
    /// The rows in these files.
    pub(super) fn of_files(files: Vec<BatchFile>, storage: &Storage) -> Self {
        let reservation = storage.memory.reservation(storage.holder);
        Self { batches: Vec::new(), files, storage: storage.clone(), _reservation: reservation }
    }

    /// Where they are.
    pub(super) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The rows in memory.
    pub(crate) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// All others.
    pub(super) fn files(&self) -> &[BatchFile] {
        &self.files
    }

    /// Reads a file, which may be read again; `None` if there is none.
    pub(crate) fn reader(&self, file: usize) -> Option<BatchReader> {
        let buffers = self.storage.buffers.lock().clone()?;
        Some(self.files.get(file)?.reader(&buffers, ReadOptions { recycle: false, ..ReadOptions::default() }))
    }
}

/// Reads columns of a table. Without one it can be explained but not run.
pub struct WorkTableSource {
    table: Option<Arc<WorkTable>>,
    columns: Vec<usize>,
}

impl WorkTableSource {
    /// A source of these columns.
    pub fn new(table: Option<Arc<WorkTable>>, columns: Vec<usize>) -> Arc<Self> {
        Arc::new(Self { table, columns })
    }
}

impl Source for WorkTableSource {
    fn name(&self) -> &'static str {
        "WorkTable"
    }

    /// One, as all of a nested run.
    fn packets_max(&self) -> usize {
        1
    }

    fn open(&self, _setup: &QueryContext) -> Result<Box<dyn SourceState>> {
        let table = self.table.clone().ok_or_else(|| Error::bug("a work table was read outside of its query"))?;
        Ok(Box::new(WorkTableReading { table, columns: self.columns.clone(), batch: 0, file: 0, reader: None }))
    }
}

struct WorkTableReading {
    table: Arc<WorkTable>,
    columns: Vec<usize>,
    batch: usize,
    /// The file to be opened next.
    file: usize,
    reader: Option<BatchReader>,
}

impl SourceState for WorkTableReading {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        if let Some(batch) = self.table.batches.get(self.batch) {
            self.batch += 1;
            return Ok(Pull::Batch(batch.project(&self.columns)));
        }
        let Some(reader) = &mut self.reader else {
            self.reader = self.table.reader(self.file);
            self.file += 1;
            return Ok(if self.reader.is_some() { Pull::Again } else { Pull::Done });
        };
        match reader.poll_next(waker) {
            Poll::Pending => Ok(Pull::Wait),
            Poll::Ready(Some(batch)) => Ok(Pull::Batch(batch?.project(&self.columns))),
            Poll::Ready(None) => {
                self.reader = None;
                Ok(Pull::Again)
            }
        }
    }
}
