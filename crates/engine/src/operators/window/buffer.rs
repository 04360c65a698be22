//! The rows that are still of use to somebody, in the order in which they came: those that have not gone on, and those
//! behind them that frames to come begin with.
//!
//! ```text
//!   released        files                  batches              newest
//!   nobody's  <--   in temp space     <--  in memory       <--  just come
//!                   oldest first           can go to temp space  not yet
//!
//!              ^             ^                   ^         each reader has a position: one takes rows that go on,
//!              start         rows that go on     end       two take those where frames begin and end
//! ```
//!
//! All readers go forward. So the oldest batches go to temp space first, and rows that the last reader has passed are
//! forgotten.
//!
//! Invariant: a reader gets rows in the order in which they came, wherever they are, however they are cut.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use arrow::array::NullArray;
use diligence_base::{Error, Result};
use diligence_disk::{Grouping, ReadOptions, SpillBuffers, SpillMemory, TempSpace};
use diligence_memory::{QueryMemory, Reservation};

use crate::batch::{Batch, Column, compacted};
use crate::temp::{BatchFile, BatchReader, BatchWriter};

/// A file of temp space is free again when all readers have passed it: so it is not longer than this.
const FILE_CLUSTERS: u64 = 64;

/// Rows in a queue, with several readers.
pub(super) struct PartitionBuffer {
    temp: Option<TempSpace>,
    /// Made when rows begin to wait.
    buffers: Option<SpillBuffers>,
    /// Each reader stands on a cluster.
    readers: usize,
    /// The rows that go on next, once they are looked at.
    front: Option<Front>,
    front_reader: RowReader,
    files: VecDeque<StoredRows>,
    /// How many files there were.
    files_total: u64,
    /// The file that is being written, behind those, and its first row.
    writer: Option<(u64, BatchWriter)>,
    /// Batches behind all files.
    batches: VecDeque<HeldBatch>,
    /// The position behind the newest row.
    end: u64,
    /// Of the batches that can go to temp space: all but the newest, once there are buffers to write them through.
    /// Somebody else may ask for it.
    revocable: Reservation,
    /// Of all other batches, and of the clusters in memory.
    firm: Reservation,
    /// Bytes of the batches that could go to temp space if there were buffers.
    waiting_bytes: usize,
    is_writing: bool,
}

struct HeldBatch {
    first: u64,
    batch: Batch,
    bytes: usize,
    /// Whether it keeps nothing alive but its rows, and can go to temp space.
    is_settled: bool,
}

/// Rows that are about to go on.
struct Front {
    first: u64,
    batch: Batch,
    /// How many of them have gone on.
    given: usize,
    /// What of it is reserved here: nothing as long as it is in the queue as well.
    bytes: usize,
}

struct StoredRows {
    number: u64,
    first: u64,
    file: BatchFile,
}

/// Where somebody reads.
#[derive(Default)]
pub(super) struct RowReader {
    /// The row that comes next.
    pub position: u64,
    file: Option<(u64, BatchReader)>,
}

impl RowReader {
    /// Goes to another row.
    pub fn seek(&mut self, position: u64) {
        if position != self.position {
            (self.position, self.file) = (position, None);
        }
    }
}

impl HeldBatch {
    fn end(&self) -> u64 {
        self.first + self.batch.rows() as u64
    }
}

impl StoredRows {
    fn end(&self) -> u64 {
        self.first + self.file.rows()
    }
}

impl PartitionBuffer {
    /// A queue with so many readers beside the one that takes rows out.
    pub fn new(memory: &QueryMemory, temp: Option<TempSpace>, readers: usize) -> Self {
        Self {
            temp,
            buffers: None,
            readers,
            front: None,
            front_reader: RowReader::default(),
            files: VecDeque::new(),
            files_total: 0,
            writer: None,
            batches: VecDeque::new(),
            end: 0,
            revocable: memory.revocable("a window's rows"),
            firm: memory.reservation("a window"),
            waiting_bytes: 0,
            is_writing: false,
        }
    }

    /// Reserves room for a batch of so many bytes.
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        self.firm.grow(bytes)
    }

    /// Gives that room back.
    pub fn unreserve(&mut self, bytes: usize) {
        self.firm.shrink(bytes);
    }

    /// Puts a batch behind the others, for which `bytes` were reserved. It is flat.
    pub fn push(&mut self, batch: Batch, bytes: usize) {
        let first = self.end;
        self.end += batch.rows() as u64;
        self.batches.push_back(HeldBatch { first, batch, bytes, is_settled: false });
    }

    /// True if the rows that go on next have to be read from temp space to be looked at.
    pub fn is_front_stored(&self) -> bool {
        self.front.is_none() && self.front_reader.position < self.first_in_memory()
    }

    fn first_in_memory(&self) -> u64 {
        self.batches.front().map_or(self.end, |held| held.first)
    }

    /// Looks at the rows that go on next: how many they are; `None` without any. Fails if what was written cannot be
    /// read.
    pub fn poll_front(&mut self, waker: &Waker) -> Poll<Result<Option<usize>>> {
        if self.front.is_none() {
            let mut reader = std::mem::take(&mut self.front_reader);
            let first = reader.position;
            let read = self.poll_read(&mut reader, waker);
            self.front_reader = reader;
            self.front = ready!(read)?.map(|batch| Front { first, batch, given: 0, bytes: 0 });
        }
        Poll::Ready(Ok(self.front.as_ref().map(|front| front.batch.rows() - front.given)))
    }

    /// So many of the rows that go on next, which [`Self::poll_front`] has found.
    pub fn front(&self, rows: usize) -> Option<Batch> {
        self.front.as_ref().map(|front| front.batch.slice(front.given, rows))
    }

    /// Takes so many of the rows out that go on next, which [`Self::poll_front`] has found. Of what stays of them for
    /// other readers only the given columns are kept.
    pub fn pop(&mut self, rows: usize, columns: &[usize]) -> Option<Batch> {
        let taken = self.front(rows)?;
        let front = self.front.as_mut()?;
        front.given += rows;
        if front.given < front.batch.rows() {
            return Some(taken);
        }
        let front = self.front.take()?;
        self.firm.shrink(front.bytes);
        let is_half_written = |place: usize| place == 0 && self.is_writing;
        let place = self.batches.partition_point(|held| held.first < front.first);
        if let Some(held) = self.batches.get_mut(place).filter(|held| held.first == front.first)
            && !is_half_written(place)
        {
            held.batch = narrowed(&held.batch, columns);
            let less = held.bytes - held.batch.bytes().min(held.bytes);
            held.bytes -= less;
            match held.is_settled && self.buffers.is_some() {
                true => self.revocable.shrink(less),
                false => {
                    self.firm.shrink(less);
                    self.waiting_bytes -= if held.is_settled { less } else { 0 };
                }
            }
        }
        Some(taken)
    }

    /// The next rows of a reader; `None` if no more have come. Fails if what was written cannot be read.
    pub fn poll_read(&mut self, reader: &mut RowReader, waker: &Waker) -> Poll<Result<Option<Batch>>> {
        while reader.position < self.first_in_memory() {
            let number = self.files.partition_point(|file| file.end() <= reader.position);
            let Some(file) = self.files.get(number) else {
                // It is in the file that is being written.
                if self.is_writing {
                    ready!(self.poll_spill(waker))?;
                }
                self.finish_file();
                if self.files.get(number).is_none() {
                    return Poll::Ready(Err(lost()));
                }
                continue;
            };
            if reader.file.as_ref().is_none_or(|(number, _)| *number != file.number) {
                let Some(buffers) = &self.buffers else { return Poll::Ready(Err(lost())) };
                let mut rows = file.file.reader(buffers, ReadOptions::default());
                rows.seek(reader.position - file.first);
                reader.file = Some((file.number, rows));
            }
            let Some((_, rows)) = &mut reader.file else { return Poll::Ready(Err(lost())) };
            let Some(batch) = ready!(rows.poll_next(waker)) else { return Poll::Ready(Err(lost())) };
            let batch = batch?;
            reader.position += batch.rows() as u64;
            if reader.position == file.end() {
                reader.file = None;
            }
            return Poll::Ready(Ok(Some(batch)));
        }
        reader.file = None;
        let place = self.batches.partition_point(|held| held.end() <= reader.position);
        let Some(held) = self.batches.get(place) else { return Poll::Ready(Ok(None)) };
        let passed = (reader.position - held.first) as usize;
        let batch = if passed == 0 { held.batch.clone() } else { held.batch.slice(passed, held.batch.rows() - passed) };
        reader.position = held.end();
        Poll::Ready(Ok(Some(batch)))
    }

    /// Forgets rows before a position: no reader goes there any more.
    pub fn release_before(&mut self, position: u64) {
        while self.files.pop_front_if(|file| file.end() <= position).is_some() {}
        if self.is_writing {
            return;
        }
        self.writer = self.writer.take().filter(|(first, writer)| first + writer.rows() > position);
        while let Some(held) = self.batches.pop_front_if(|held| held.end() <= position) {
            self.forget(&held);
        }
    }

    /// Gives back what is reserved for a batch that is not in the queue any more; where it is about to go on, it is
    /// still held.
    fn forget(&mut self, held: &HeldBatch) {
        let is_revocable = held.is_settled && self.buffers.is_some();
        if held.is_settled && !is_revocable {
            self.waiting_bytes -= held.bytes;
        }
        let mut reserved = if is_revocable { self.revocable.split(held.bytes) } else { self.firm.split(held.bytes) };
        match self.front.as_mut().filter(|front| front.first == held.first) {
            Some(front) => {
                front.bytes = held.bytes;
                self.firm.absorb(reserved);
            }
            None => reserved.shrink(held.bytes),
        }
    }

    fn finish_file(&mut self) {
        let Some((first, writer)) = self.writer.take() else { return };
        self.files.push_back(StoredRows { number: self.files_total, first, file: writer.finish() });
        self.files_total += 1;
    }

    /// Makes the newest batch, which stays for a while, free of what others hold. From then on it can go to temp space.
    pub fn settle(&mut self) -> Result<()> {
        let Some(held) = self.batches.back_mut().filter(|held| !held.is_settled) else { return Ok(()) };
        let columns = held.batch.columns().iter().map(|column| compacted(&column.flat()?));
        held.batch = Batch::from_arrays(columns.collect::<Result<Vec<_>>>()?, held.batch.rows());
        held.is_settled = true;
        self.waiting_bytes += held.bytes;
        if let Some(temp) =
            self.temp.as_ref().filter(|temp| self.buffers.is_none() && self.waiting_bytes > temp.cluster_bytes())
        {
            // While there is memory: when there is none, it is too late. Without it rows cannot leave. A cluster to
            // fill, and one for each reader to stand on.
            let memory = SpillMemory { clusters_min: 2 + self.readers, ..SpillMemory::default() };
            self.buffers = SpillBuffers::new(temp, self.firm.sibling(), memory).ok();
        }
        if self.buffers.is_some() {
            self.revocable.absorb(self.firm.split(std::mem::take(&mut self.waiting_bytes)));
        }
        Ok(())
    }

    /// Whether somebody else needs the memory of rows that can go to temp space.
    pub fn is_asked(&self) -> bool {
        self.revocable.is_asked()
    }

    /// Whether a batch is half written: then [`Self::poll_spill`] goes on with it.
    pub fn is_writing(&self) -> bool {
        self.is_writing
    }

    /// Writes the oldest batch in memory to temp space. False if nothing in memory can go there.
    pub fn poll_spill(&mut self, waker: &Waker) -> Poll<Result<bool>> {
        let Some(held) = self.batches.front().filter(|held| held.is_settled) else {
            return Poll::Ready(Ok(false));
        };
        let (Some(buffers), Some(temp)) = (&self.buffers, &self.temp) else { return Poll::Ready(Ok(false)) };
        let (_, writer) = self.writer.get_or_insert_with(|| (held.first, BatchWriter::new(buffers, Grouping::None)));
        self.is_writing = true;
        ready!(writer.poll_write(&held.batch, waker))?;
        self.is_writing = false;
        let is_full = writer.bytes() >= FILE_CLUSTERS * temp.cluster_bytes() as u64;
        if let Some(held) = self.batches.pop_front() {
            self.forget(&held);
        }
        if is_full {
            self.finish_file();
        }
        Poll::Ready(Ok(true))
    }
}

/// The batch with nothing in the columns that nobody looks at any more.
fn narrowed(batch: &Batch, columns: &[usize]) -> Batch {
    let rows = batch.rows();
    let nothing = Column::flat_array(Arc::new(NullArray::new(rows)));
    let kept = batch.columns().iter().enumerate();
    let kept = kept.map(|(index, column)| if columns.contains(&index) { column.clone() } else { nothing.clone() });
    Batch::new(kept.collect(), rows)
}

fn lost() -> Error {
    Error::bug("a window lost rows that it had written")
}
