//! Runs on the disk: a spill file whose first column is the codes of the sort keys, and the rest the payload.
//!
//! Codes are written and not made again from the payload: a sort key may be anything, even `random()`.

use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};
use diligence_disk::{Grouping, ReadOptions, SpillBuffers, SpillMemory, TempSpace};
use diligence_memory::Reservation;

use super::Run;
use super::gather::held_bytes;
use super::keys::{BYTES_HELD_BESIDE, SortedKeys};
use crate::batch::Batch;
use crate::flow::profile::Spills;
use crate::plan::sort_plan::RunSize;
use crate::temp::{BatchFile, BatchReader, BatchWriter};

/// Clusters of memory with which two runs can be merged into one: one of each, and one that is written.
const CLUSTERS_MIN: usize = 3;

/// The buffers with which a packet can always go on, however little other memory there is: enough to write a run, and
/// to merge two.
///
/// They are reserved when the packet starts and stay so until its sort ends.
pub(super) fn minimal_buffers(space: &TempSpace, reservation: Reservation) -> Result<SpillBuffers> {
    SpillBuffers::new(space, reservation, SpillMemory { clusters_min: CLUSTERS_MIN, ..SpillMemory::default() })
}

/// Bytes of these buffers.
pub(super) fn minimal_bytes(space: &TempSpace) -> usize {
    CLUSTERS_MIN * space.cluster_bytes()
}

/// A run in temp space. Dropping it frees its clusters.
pub(super) struct DiskRun {
    file: BatchFile,
    size: RunSize,
    /// Bytes beside its cluster that the codes of a batch need in memory at most.
    beside_bytes: usize,
    /// Bytes of its longest row, if that is longer than a cluster.
    long_bytes: usize,
}

impl DiskRun {
    pub fn size(&self) -> RunSize {
        self.size
    }

    pub fn rows(&self) -> u64 {
        self.file.rows()
    }

    pub fn beside_bytes(&self) -> usize {
        self.beside_bytes
    }

    pub fn long_bytes(&self) -> usize {
        self.long_bytes
    }

    /// Reads the run from its beginning. Its clusters are freed one by one if `recycle`, and otherwise with the reader.
    pub fn read(self, buffers: &SpillBuffers, ahead: usize, recycle: bool) -> RunReader {
        RunReader(self.file.reader(buffers, ReadOptions { ahead, recycle }))
    }
}

/// Reads a run, piece by piece.
pub(super) struct RunReader(BatchReader);

impl RunReader {
    /// The next rows of the run: a run themselves. `None` at the end. After `Pending` the waker is woken when it is
    /// worth asking again.
    pub fn poll_next(&mut self, waker: &Waker) -> Poll<Option<Result<Run>>> {
        self.0.poll_next(waker).map(|batch| batch.map(|batch| piece(&batch?)))
    }
}

/// The run that a batch of a file is.
fn piece(batch: &Batch) -> Result<Run> {
    let (codes, payload) = batch.columns().split_first().ok_or_else(|| Error::bug("a run on the disk has no keys"))?;
    Ok(Run { keys: SortedKeys::of_column(&codes.flat()?)?, payload: Batch::new(payload.to_vec(), batch.rows()) })
}

/// Writes a run.
pub(super) struct RunWriter {
    writer: BatchWriter,
    /// A batch that is not written to its end.
    pending: Option<Batch>,
    cluster_bytes: usize,
    level: usize,
    beside_bytes: usize,
    long_bytes: usize,
    spills: Arc<Spills>,
}

impl RunWriter {
    /// A writer of a new run of some level.
    pub fn new(buffers: &SpillBuffers, level: usize, spills: Arc<Spills>) -> Self {
        Self {
            writer: BatchWriter::new(buffers, Grouping::None),
            pending: None,
            cluster_bytes: buffers.space().cluster_bytes(),
            level,
            beside_bytes: 0,
            long_bytes: 0,
            spills,
        }
    }

    /// Takes the next rows of the run; the last ones must be written by now. Gives the bytes that they hold.
    pub fn begin(&mut self, codes: ArrayRef, payload: Batch) -> Result<usize> {
        debug_assert!(self.pending.is_none(), "rows are written one batch after another");
        let key_bytes = if codes.data_type() == &DataType::Binary { BYTES_HELD_BESIDE * codes.len() } else { 0 };
        let batch = Batch::from_arrays(vec![codes], payload.rows()).beside(payload);
        let bytes = held_bytes(&batch)?;
        // What is longer than a cluster is put together in memory of its own when it is read. A batch is made to fill a
        // cluster, so one that is much longer has a row, or a few, that are.
        let row_bytes = |row: usize| batch.slice(row, 1).bytes();
        let is_uneven = bytes > 2 * self.cluster_bytes;
        let long_bytes = if is_uneven { (0..batch.rows()).map(row_bytes).max().unwrap_or(0) } else { 0 };
        if long_bytes > self.cluster_bytes / 2 {
            self.long_bytes = self.long_bytes.max(long_bytes);
        }
        self.beside_bytes = self.beside_bytes.max(key_bytes);
        self.pending = Some(batch);
        Ok(bytes)
    }

    /// Ready when the rows are written. After `Pending` the waker is woken when it is worth asking again.
    pub fn poll_written(&mut self, waker: &Waker) -> Poll<Result<()>> {
        if let Some(batch) = &self.pending {
            match self.writer.poll_write(batch, waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(written) => written?,
            }
            self.pending = None;
        }
        Poll::Ready(Ok(()))
    }

    /// The run. All rows must be written.
    pub fn finish(self) -> DiskRun {
        let bytes = self.writer.bytes();
        self.spills.add(self.level + 1, bytes);
        let file = self.writer.finish();
        DiskRun {
            file,
            size: RunSize { level: self.level, bytes },
            beside_bytes: self.beside_bytes,
            long_bytes: self.long_bytes,
        }
    }
}
