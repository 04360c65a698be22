//! The rows that have come and not gone on, in the order in which they came.
//!
//! ```text
//!   front           files                 batches              newest
//!   in memory  <--  in temp space    <--  in memory       <--  just come
//!   looked at       oldest first          can go to temp space  not yet
//! ```
//!
//! Only the oldest batch is looked at, and then all of its columns at once. So those behind it may as well wait in temp space: the
//! oldest ones go there first, so that all files are read once, from front to back.
//!
//! Invariant: rows come out in the order in which they went in, wherever they were.

use std::collections::VecDeque;
use std::task::{Poll, Waker, ready};

use diligence_base::{Error, Result};

use crate::batch::{Batch, compacted};
use crate::memory::{QueryMemory, Reservation};
use crate::temp::{BatchReader, BatchWriter, Grouping, SpillBuffers, SpillMemory, TempSpace};

/// Clusters that a partition needs to be written and read: one to fill, one to look at.
const CLUSTERS_MIN: usize = 2;

/// Batches in a queue: those of the partition at work, and those behind it.
pub(super) struct PartitionBuffer {
    temp: Option<TempSpace>,
    /// Made when rows begin to wait.
    buffers: Option<SpillBuffers>,
    /// The oldest batch, if it was in temp space.
    front: Option<Batch>,
    /// Files behind it.
    files: VecDeque<BatchReader>,
    /// The file that is being written, behind those.
    writer: Option<BatchWriter>,
    /// Batches behind all files.
    batches: VecDeque<Held>,
    /// Of the batches that can go to temp space: all but the newest, once there are buffers to write them through. Somebody else may ask
    /// for it.
    revocable: Reservation,
    /// Of all other batches, and of the clusters in memory.
    firm: Reservation,
    /// Bytes of the batches that could go to temp space if there were buffers.
    waiting_bytes: usize,
    is_writing: bool,
}

struct Held {
    batch: Batch,
    bytes: usize,
    /// Whether it keeps nothing alive but its rows, and can go to temp space.
    is_settled: bool,
}

impl PartitionBuffer {
    pub fn new(memory: &QueryMemory, temp: Option<TempSpace>) -> Self {
        Self {
            temp,
            buffers: None,
            front: None,
            files: VecDeque::new(),
            writer: None,
            batches: VecDeque::new(),
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
        self.batches.push_back(Held { batch, bytes, is_settled: false });
    }

    /// True if rows wait in temp space, so that the oldest batch is not known without reading.
    pub fn is_spilled(&self) -> bool {
        self.front.is_none() && (!self.files.is_empty() || self.writer.is_some())
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.front.is_none() && self.batches.is_empty() && !self.is_spilled()
    }

    /// Rows of the oldest batch; `None` without one. Fails if what was written cannot be read.
    pub fn poll_front_rows(&mut self, waker: &Waker) -> Poll<Result<Option<usize>>> {
        while self.is_spilled() {
            if self.files.is_empty() && !self.is_writing {
                let (Some(writer), Some(buffers)) = (self.writer.take(), &self.buffers) else { break };
                self.files.push_back(writer.finish().into_reader(buffers));
            }
            let Some(file) = self.files.front_mut() else {
                return Poll::Ready(Err(Error::bug("a window read rows that were half written")));
            };
            match ready!(file.poll_next(waker)) {
                Some(batch) => self.front = Some(batch?),
                None => drop(self.files.pop_front()),
            }
        }
        let front = self.front.as_ref().or_else(|| self.batches.front().map(|held| &held.batch));
        Poll::Ready(Ok(front.map(Batch::rows)))
    }

    /// The oldest batch, which [`Self::poll_front_rows`] has found.
    pub fn front(&self) -> Option<&Batch> {
        self.front.as_ref().or_else(|| self.batches.front().map(|held| &held.batch))
    }

    /// Takes the oldest batch out, which [`Self::poll_front_rows`] has found.
    pub fn pop(&mut self) -> Option<Batch> {
        if let Some(front) = self.front.take() {
            return Some(front);
        }
        let held = self.batches.pop_front()?;
        if held.is_settled && self.buffers.is_some() {
            self.revocable.shrink(held.bytes);
        } else {
            self.firm.shrink(held.bytes);
            self.waiting_bytes -= if held.is_settled { held.bytes } else { 0 };
        }
        Some(held.batch)
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
            // While there is memory: when there is none, it is too late. Without it rows cannot leave.
            let memory = SpillMemory { clusters_min: CLUSTERS_MIN, ..SpillMemory::default() };
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
        let Some(held) = self.batches.front().filter(|held| held.is_settled && held.bytes > 0) else {
            return Poll::Ready(Ok(false));
        };
        let Some(buffers) = &self.buffers else { return Poll::Ready(Ok(false)) };
        let writer = self.writer.get_or_insert_with(|| BatchWriter::new(buffers, Grouping::None));
        self.is_writing = true;
        ready!(writer.poll_write(&held.batch, waker))?;
        self.is_writing = false;
        if let Some(held) = self.batches.pop_front() {
            self.revocable.shrink(held.bytes);
        }
        Poll::Ready(Ok(true))
    }
}
