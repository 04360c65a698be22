//! Sorted rows at rest: in memory until they are read, or until somebody else needs the memory.
//!
//! ```text
//!   Memory ----- all are read -----------------------------------> Gone
//!     |                                                             ^
//!     +-- asked: those that were not read yet are written --> Disk --+
//!         in their order; the reader goes on meanwhile
//! ```
//!
//! Memory comes back when the last row is written, not before: a payload has rows of all parts of the order.
//!
//! Invariant: rows come out once and in order, wherever they are. Rows that are read while they are written are skipped
//! in the file.

use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use arrow::datatypes::SchemaRef;
use diligence_base::Result;
use diligence_disk::{Grouping, SpillBuffers, SpillMemory, TempSpace};
use diligence_memory::{QueryMemory, Reclaim, Reservation};

use super::disk::Disk;
use super::gather::{Pick, Text, gather};
use super::merge_job::rows_in;
use crate::batch::Batch;
use crate::flow::{Pull, QueryContext};
use crate::sync::Mutex;
use crate::temp::{BatchReader, BatchWriter};

/// Rows that hold less than so many clusters stay: writing and reading them takes some itself.
const CLUSTERS_MIN: usize = 16;

/// Clusters to write rows and to read them: one is filled, two are read.
const BUFFER_CLUSTERS: usize = 3;

/// Rows in order.
pub(super) struct Sorted {
    /// The payloads of the runs.
    pub payloads: Vec<Batch>,
    /// The order of the rows, range after range. Empty if there is one run, which is in order.
    pub picks: Vec<Vec<Pick>>,
    /// Rows that come out.
    pub rows: usize,
    /// Rows of the payloads, and the bytes that they hold.
    pub held: (usize, usize),
    pub reservation: Option<Reservation>,
}

/// A place in the order.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// The next range, and the place in it.
    range: usize,
    place: usize,
    /// Rows before it.
    given: usize,
}

/// Rows that come next.
enum Next {
    /// Of the only payload, from a row on.
    Slice(usize, usize),
    Picks(Vec<Pick>),
}

impl Sorted {
    fn bytes(&self) -> usize {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    /// The next rows, at most so many; `None` at the end.
    fn next(&self, cursor: &mut Cursor, rows_max: usize) -> Option<Next> {
        let rows = rows_max.min(self.rows - cursor.given);
        if rows == 0 {
            return None;
        }
        let first = cursor.given;
        cursor.given += rows;
        if self.payloads.len() == 1 {
            return Some(Next::Slice(first, rows));
        }
        let mut picks = Vec::with_capacity(rows);
        // They may come from several ranges.
        while picks.len() < rows
            && let Some(range) = self.picks.get(cursor.range)
        {
            let end = range.len().min(cursor.place + rows - picks.len());
            picks.extend_from_slice(&range[cursor.place..end]);
            cursor.place = end;
            if end == range.len() {
                cursor.range += 1;
                cursor.place = 0;
            }
        }
        Some(Next::Picks(picks))
    }

    fn read(&self, next: Next, schema: &SchemaRef) -> Result<Batch> {
        match next {
            Next::Slice(first, rows) => Ok(self.payloads[0].slice(first, rows)),
            Next::Picks(picks) => gather(&self.payloads, &picks, Text::Keep, schema),
        }
    }

    /// The same for rows that are to be written: they keep nothing else alive.
    fn copy(&self, next: Next, schema: &SchemaRef) -> Result<Batch> {
        let picks = match next {
            Next::Slice(first, rows) => picks_of(first..first + rows),
            Next::Picks(picks) => picks,
        };
        gather(&self.payloads, &picks, Text::Copy, schema)
    }
}

/// Rows of the only block.
fn picks_of(rows: std::ops::Range<usize>) -> Vec<Pick> {
    rows.map(|row| Pick { block: 0, row: row as u32 }).collect()
}

/// Sorted rows, which one reader reads, and which may go to temp space before.
pub(super) struct SortedRows {
    schema: SchemaRef,
    /// Where they can go, and whose memory they hold.
    leaves: Option<Leaves>,
    place: Mutex<SortedPlace>,
    leaving: Mutex<Option<LeavingRun>>,
}

struct Leaves {
    name: &'static str,
    space: TempSpace,
    spills: Arc<crate::flow::profile::Spills>,
    memory: QueryMemory,
}

enum SortedPlace {
    Memory(Arc<Sorted>, Cursor),
    /// With how many rows of the file have been read already.
    Disk(BatchReader, usize),
    Gone,
}

/// Rows on their way to temp space.
struct LeavingRun {
    sorted: Arc<Sorted>,
    /// Where the file begins in the order.
    first: usize,
    cursor: Cursor,
    batch_rows: usize,
    batch: Option<Batch>,
    writer: BatchWriter,
    buffers: SpillBuffers,
    /// For the batch.
    _work: Reservation,
}

impl SortedRows {
    /// Rows in memory: at rest, if they can go to temp space and that pays.
    pub fn new(mut sorted: Sorted, schema: SchemaRef, disk: Option<&Disk>, memory: Option<&QueryMemory>) -> Self {
        let leaves = match (disk, memory) {
            (Some(disk), Some(memory)) if sorted.bytes() >= CLUSTERS_MIN * disk.space.cluster_bytes() => Some(Leaves {
                name: disk.name,
                space: disk.space.clone(),
                spills: disk.spills.clone(),
                memory: memory.clone(),
            }),
            _ => None,
        };
        if leaves.is_some() {
            sorted.reservation.iter_mut().for_each(Reservation::rest);
        }
        let place = SortedPlace::Memory(Arc::new(sorted), Cursor::default());
        Self { schema, leaves, place: Mutex::new(place), leaving: Mutex::new(None) }
    }

    /// Says that they can be asked for their memory.
    pub fn rest(self: &Arc<Self>) {
        if let Some(leaves) = &self.leaves {
            let at_rest: Arc<dyn Reclaim> = self.clone();
            leaves.memory.keep_at_rest(&at_rest);
        }
    }

    /// The next rows, a batch at most.
    pub fn pull(&self, reader: &mut Reader, context: &QueryContext, waker: &Waker) -> Result<Pull> {
        if reader.file.is_none() {
            let mut place = self.place.lock();
            if let SortedPlace::Memory(sorted, cursor) = &mut *place {
                let (rows, bytes) = sorted.held;
                let Some(next) = sorted.next(cursor, context.batch_rows_of(rows, bytes)) else {
                    let gone = std::mem::replace(&mut *place, SortedPlace::Gone);
                    drop(place);
                    drop(gone);
                    return Ok(Pull::Done);
                };
                let sorted = sorted.clone();
                drop(place);
                return sorted.read(next, &self.schema).map(Pull::Batch);
            }
            let SortedPlace::Disk(file, skip) = std::mem::replace(&mut *place, SortedPlace::Gone) else {
                return Ok(Pull::Done);
            };
            *reader = Reader { file: Some(file), skip, batch: None };
        }
        reader.pull(context.batch_rows.max(1), &self.schema, waker)
    }

    /// Nobody reads them any more.
    pub fn end(&self) {
        let gone = std::mem::replace(&mut *self.place.lock(), SortedPlace::Gone);
        drop(gone);
    }

    /// Begins to write what was not read yet.
    fn leave(&self, leaves: &Leaves) -> Result<Option<LeavingRun>> {
        let (sorted, cursor) = match &*self.place.lock() {
            SortedPlace::Memory(sorted, cursor) => (sorted.clone(), *cursor),
            _ => return Ok(None),
        };
        let cluster_bytes = leaves.space.cluster_bytes();
        // Much more comes back for it.
        let mut reservation = leaves.memory.reservation(leaves.name);
        reservation.overdraw(BUFFER_CLUSTERS * cluster_bytes);
        let mut work = reservation.sibling();
        work.overdraw(cluster_bytes);
        let memory = SpillMemory { clusters_min: BUFFER_CLUSTERS, ..SpillMemory::default() };
        let buffers = SpillBuffers::new(&leaves.space, reservation, memory)?;
        let (rows, bytes) = sorted.held;
        Ok(Some(LeavingRun {
            first: cursor.given,
            cursor,
            batch_rows: rows_in(cluster_bytes, bytes, rows),
            batch: None,
            writer: BatchWriter::new(&buffers, Grouping::None),
            buffers,
            sorted,
            _work: work,
        }))
    }

    fn is_in_memory(&self) -> bool {
        matches!(&*self.place.lock(), SortedPlace::Memory(..))
    }

    /// All rows are written: the reader goes on in the file.
    fn left(&self, leaves: &Leaves, leaving: LeavingRun) {
        let LeavingRun { sorted, first, writer, buffers, _work: work, .. } = leaving;
        let bytes = writer.bytes();
        let file = writer.finish().into_reader(&buffers);
        buffers.release_spare();
        let before = {
            let mut place = self.place.lock();
            let SortedPlace::Memory(_, cursor) = &*place else { return };
            let skip = cursor.given - first;
            std::mem::replace(&mut *place, SortedPlace::Disk(file, skip))
        };
        leaves.spills.add(1, bytes);
        drop((before, sorted, work));
    }
}

impl LeavingRun {
    /// Writes a batch. True if all is written.
    fn poll_step(&mut self, schema: &SchemaRef, waker: &Waker) -> Poll<Result<bool>> {
        if self.batch.is_none() {
            let Some(next) = self.sorted.next(&mut self.cursor, self.batch_rows) else { return Poll::Ready(Ok(true)) };
            self.batch = Some(self.sorted.copy(next, schema)?);
        }
        if let Some(batch) = &self.batch {
            ready!(self.writer.poll_write(batch, waker))?;
        }
        self.batch = None;
        Poll::Ready(Ok(false))
    }
}

impl Reclaim for SortedRows {
    fn reclaimable_bytes(&self) -> usize {
        match &*self.place.lock() {
            SortedPlace::Memory(sorted, _) if self.leaves.is_some() => sorted.bytes(),
            _ => 0,
        }
    }

    fn poll_reclaim(&self, _bytes: usize, waker: &Waker) -> Poll<Result<()>> {
        let Some(leaves) = &self.leaves else { return Poll::Ready(Ok(())) };
        let mut under_way = self.leaving.lock();
        if under_way.is_none() {
            *under_way = self.leave(leaves)?;
        }
        let Some(leaving) = under_way.as_mut().filter(|_| self.is_in_memory()) else {
            // All rows were read meanwhile.
            *under_way = None;
            return Poll::Ready(Ok(()));
        };
        if !ready!(leaving.poll_step(&self.schema, waker))? {
            // Others shall have their turn.
            waker.wake_by_ref();
            return Poll::Pending;
        }
        if let Some(leaving) = under_way.take() {
            self.left(leaves, leaving);
        }
        Poll::Ready(Ok(()))
    }
}

/// What the reader has of rows on the disk.
#[derive(Default)]
pub(super) struct Reader {
    file: Option<BatchReader>,
    /// Rows of the file that were read before it was written.
    skip: usize,
    /// A batch of the file, and how many of its rows were given.
    batch: Option<(Batch, usize)>,
}

impl Reader {
    fn pull(&mut self, rows_max: usize, schema: &SchemaRef, waker: &Waker) -> Result<Pull> {
        loop {
            if let Some((batch, given)) = &mut self.batch
                && *given < batch.rows()
            {
                let rows = *given..batch.rows().min(*given + rows_max);
                *given = rows.end;
                // A copy: a slice would keep a cluster, of which there are few.
                let copy = gather(std::slice::from_ref(batch), &picks_of(rows), Text::Copy, schema)?;
                return Ok(Pull::Batch(copy));
            }
            self.batch = None;
            let Some(file) = &mut self.file else { return Ok(Pull::Done) };
            match file.poll_next(waker) {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(None) => {
                    // It stays, so that there is no going back to memory.
                    return Ok(Pull::Done);
                }
                Poll::Ready(Some(batch)) => {
                    let batch = batch?;
                    let skipped = self.skip.min(batch.rows());
                    self.skip -= skipped;
                    self.batch = Some((batch, skipped));
                }
            }
        }
    }
}
