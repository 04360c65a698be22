//! Small blocks put together when they are read.
//!
//! What is split into partitions comes in pieces of a few rows, and each piece is a block. Read one by one they would
//! make batches of a few rows, which the next join splits again: the cost of a batch, and of a chunk of a table, would
//! be paid for each of them.

use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;
use diligence_base::Result;
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;

use super::BatchReader;
use crate::batch::{Batch, compacted};

/// Rows of a batch that is given as it is.
const ROWS_MIN: usize = 256;

/// Rows and bytes of a batch that was put together, about: small enough to be in flight beside what is reserved.
const ROWS_ENOUGH: usize = 1024;
const BYTES_ENOUGH: usize = 64 * 1024;

/// Reads rows of a spill file in batches of some size, however small its blocks are.
pub struct GatheringReader {
    reader: BatchReader,
    /// Rows that are too few for a batch of their own.
    gathered: Vec<Batch>,
    rows: usize,
    bytes: usize,
    /// A batch that comes after what was gathered.
    next: Option<Batch>,
    /// Bytes that are enough: of small clusters one.
    bytes_enough: usize,
    /// For what was gathered in clusters before the one at hand, and copied out of them.
    carried: Reservation,
}

impl GatheringReader {
    /// The rows of a reader, from where it stands.
    pub fn new(reader: BatchReader) -> Self {
        let carried = reader.buffers().sibling();
        let bytes_enough = reader.buffers().space().cluster_bytes().min(BYTES_ENOUGH);
        Self { reader, gathered: vec![], rows: 0, bytes: 0, next: None, bytes_enough, carried }
    }

    /// The next batch; `None` at the end. As [`BatchReader::poll_next`]: after an error nothing is lost, and it may be
    /// asked again.
    pub fn poll_next(&mut self, waker: &Waker) -> Poll<Option<Result<Batch>>> {
        loop {
            if let Some(next) = self.next.take() {
                if self.gathered.is_empty() && next.rows() >= ROWS_MIN {
                    return Poll::Ready(Some(Ok(next)));
                }
                self.add(next);
            }
            if self.rows >= ROWS_ENOUGH || self.bytes >= self.bytes_enough {
                return Poll::Ready(self.put_together().transpose());
            }
            if !self.gathered.is_empty() && !self.reader.has_block_at_hand() {
                // What lies in a cluster keeps it, and the next one may need its place.
                self.carry()?;
            }
            match self.reader.poll_next(waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(self.put_together().transpose()),
                Poll::Ready(Some(Ok(batch))) => {
                    let batch = if batch.rows() < ROWS_MIN { plain(&batch)? } else { batch };
                    let ends =
                        batch.rows() >= ROWS_MIN || self.gathered.last().is_some_and(|last| !alike(last, &batch));
                    self.next = Some(batch);
                    if ends && !self.gathered.is_empty() {
                        return Poll::Ready(self.put_together().transpose());
                    }
                }
            }
        }
    }

    fn add(&mut self, batch: Batch) {
        self.rows += batch.rows();
        self.bytes += batch.bytes_estimated();
        self.gathered.push(batch);
    }

    /// Copies what was gathered out of its clusters.
    fn carry(&mut self) -> Result<()> {
        if self.gathered.len() > 1 || self.carried.bytes() == 0 {
            let Some(batch) = self.put_together()? else { return Ok(()) };
            self.carried.overdraw(batch.bytes_estimated());
            self.add(batch);
        }
        Ok(())
    }

    /// What was gathered, in arrays of its own.
    fn put_together(&mut self) -> Result<Option<Batch>> {
        let gathered = std::mem::take(&mut self.gathered);
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let Some(first) = gathered.first() else { return Ok(None) };
        let columns = (0..first.columns().len()).map(|index| {
            let arrays = gathered.iter().map(|batch| batch.flat(index)).collect::<Result<Vec<_>>>()?;
            let views = arrays.iter().map(|array| array.as_ref()).collect::<Vec<_>>();
            owned(concat(&views).map_err(from_arrow)?)
        });
        let batch = Batch::from_arrays(columns.collect::<Result<_>>()?, rows);
        self.carried.shrink(self.carried.bytes());
        Ok(Some(batch))
    }
}

/// Texts that are views lie where they lay before.
fn owned(array: ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Utf8View => Ok(Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Ok(Arc::new(array.as_binary_view().gc())),
        data_type if data_type.is_nested() => compacted(&array),
        _ => Ok(array),
    }
}

/// The batch without dictionaries: each small block has one of its own.
fn plain(batch: &Batch) -> Result<Batch> {
    let columns = (0..batch.columns().len()).map(|index| {
        let array = batch.flat(index)?;
        match array.data_type() {
            DataType::Dictionary(_, values) => cast(&array, values).map_err(from_arrow),
            _ => Ok(array),
        }
    });
    Ok(Batch::from_arrays(columns.collect::<Result<_>>()?, batch.rows()))
}

fn alike(left: &Batch, right: &Batch) -> bool {
    left.columns().iter().zip(right.columns()).all(|(left, right)| left.data_type() == right.data_type())
}

impl std::fmt::Debug for GatheringReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GatheringReader({} rows, {:?})", self.rows, self.reader)
    }
}
