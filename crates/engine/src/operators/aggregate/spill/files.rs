//! The files of partitions, while they are written. All packets write into the same ones, so that an aggregate needs a
//! cluster per partition, and not one per partition and packet.

use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::Result;
use diligence_disk::{Grouping, SpillBuffers};

use super::super::key_layout::{hash_key, hash_level};
use crate::batch::Batch;
use crate::flow::profile::Spills;
use crate::sync::Mutex;
use crate::temp::{BatchFile, BatchWriter};

/// One file, while it is written.
#[derive(Default)]
struct FileSlot {
    writer: Option<BatchWriter>,
    /// Who is in the middle of a batch.
    owner: Option<u64>,
    waiting: Vec<Waker>,
}

/// A file for each of some partitions.
pub(super) struct PartitionFiles {
    /// How often the rows have been partitioned before: each level has its own hash.
    pub level: u32,
    /// Whether the rows are pairs, or groups.
    pub is_pairs: bool,
    bits: u32,
    slots: Vec<Mutex<FileSlot>>,
    spills: Arc<Spills>,
}

impl PartitionFiles {
    /// Two to the power of `bits` partitions.
    pub fn new(level: u32, is_pairs: bool, bits: u32, spills: &Arc<Spills>) -> Self {
        let slots = (0..1 << bits).map(|_| Mutex::default()).collect();
        Self { level, is_pairs, bits, slots, spills: spills.clone() }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The partition of a key. Of groups at level 0 it is told by the upper bits of the hash by which chunks are
    /// sorted.
    #[inline]
    pub fn partition_of(&self, key: &[u64], value_words: usize) -> usize {
        let hash = match (self.level, self.is_pairs) {
            (0, false) => hash_key(key, value_words),
            (level, _) => hash_level(level + u32::from(self.is_pairs), key, value_words),
        };
        // In two steps, as shifting by 64 is no shift.
        ((hash >> 1) >> (63 - self.bits)) as usize
    }

    pub fn poll_write(
        &self,
        partition: usize,
        batch: &Batch,
        owner: u64,
        buffers: &SpillBuffers,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        let waiting = {
            let mut slot = self.slots[partition].lock();
            if slot.owner.is_some_and(|other| other != owner) {
                slot.waiting.push(waker.clone());
                return Poll::Pending;
            }
            let writer = slot.writer.get_or_insert_with(|| BatchWriter::packed(buffers, Grouping::None));
            let done = writer.poll_write(batch, waker);
            match done {
                Poll::Ready(Ok(())) => slot.owner = None,
                Poll::Pending | Poll::Ready(Err(_)) => {
                    slot.owner = Some(owner);
                    return done;
                }
            }
            std::mem::take(&mut slot.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }

    /// An owner will not go on: the rows of this query are not wanted any more, but those that wait must hear of it.
    pub fn abandon(&self, partition: usize, owner: u64) {
        let waiting = {
            let mut slot = self.slots[partition].lock();
            if slot.owner != Some(owner) {
                return;
            }
            slot.owner = None;
            std::mem::take(&mut slot.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether nobody has begun to write a partition.
    pub fn is_untouched(&self, partition: usize) -> bool {
        self.slots[partition].lock().writer.is_none()
    }

    /// Sends what the files have in memory to the disk. Whether there was anything.
    pub fn close_clusters(&self) -> bool {
        self.slots
            .iter()
            .fold(false, |closed, slot| slot.lock().writer.as_mut().is_some_and(BatchWriter::close_cluster) | closed)
    }

    /// The files that have rows; nobody writes them any more.
    pub fn finish(&self) -> Vec<BatchFile> {
        let writers = self.slots.iter().filter_map(|slot| slot.lock().writer.take());
        let files = writers.filter(|writer| writer.rows() > 0).map(|writer| {
            self.spills.add(self.level as usize + 1, writer.bytes());
            writer.finish()
        });
        files.collect()
    }
}

/// A file whose rows have nothing in common with those of others.
pub(in super::super) struct Partition {
    pub file: BatchFile,
    /// By the hash of which level its rows are together.
    pub level: u32,
    /// Whether they are pairs, or groups.
    pub is_pairs: bool,
}

impl Partition {
    /// One of some files.
    pub(super) fn of(files: &PartitionFiles, file: BatchFile) -> Self {
        Self { file, level: files.level, is_pairs: files.is_pairs }
    }
}
