//! The partitions of a join that does not fit: which of them stay in memory, and the files of the others.
//!
//! A row belongs to the partition that its key's hash, mixed anew for each level, says: rows of equal keys are in one
//! partition on both sides, the bits that place a row in a hash table stay evenly spread within a partition, and a
//! partition of a partition is told by other bits.
//!
//! All packets write into the same files, so a join needs a cluster per partition and not one per partition and packet.
//! A batch that is not written to its end owns its file until it is. Clusters are submitted as soon as they are full,
//! or, where SHJ (Sort-Hash Join, section 3.2 of the paper on block request sequences) pays, as groups of one file: see
//! [`Partitions::group`].
//!
//! Invariants:
//! * A partition that has been spilled once stays so: nobody keeps rows of it in memory.
//! * Writing does not fail for lack of memory, since the buffers have a minimum: where another cluster is refused, the
//!   clusters at hand are closed, however little they hold, and come back when they are written.

use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::{ErrorKind, Result};
use diligence_disk::{Grouping, SpillBuffers};

use super::counts::SpillCounts;
use crate::batch::Batch;
use crate::operators::hash_join::table::rows::BuildRows;
use crate::operators::hash_join::table::spec::TableSpec;
use crate::operators::hashing::{COMBINE_MULTIPLIER, MULTIPLIER, SEED, folded};
use crate::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use crate::temp::{BatchFile, BatchWriter};

/// Partitions at least and at most: with fewer, another level would be needed for every small excess; with more,
/// batches fall into pieces of a few rows.
pub(in super::super) const FAN_OUT_MIN: usize = 4;
const FAN_OUT_MAX: usize = 32;

/// The share of the memory that the clusters being filled may have, one for each file.
const CLUSTERS_SHARE: usize = 4;

/// The share of the memory that may wait in full clusters for others of their file: small, since what waits keeps
/// partitions out of memory, and disks without a moving arm gain little by it.
const GROUPS_SHARE: usize = if cfg!(test) { 4 } else { 16 };

/// Consecutive clusters of one file that are worth holding back for (G in formula (2) of the SHJ paper must be greater
/// than what is allocated at once): temp space allocates single clusters out of large extents.
const GROUP_CLUSTERS: usize = 2;

/// How often a packet asks again for a cluster that others took before it.
const REFUSALS_MAX: usize = 1000;

/// The side whose rows a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Side {
    Build,
    Probe,
}

/// A file of one partition and side, while it is written.
#[derive(Default)]
struct PartitionSlot {
    writer: Option<BatchWriter>,
    /// Who is in the middle of a batch.
    owner: Option<u64>,
    /// How often another cluster was refused to the owner, one time after another.
    refusals: usize,
    waiting: Vec<Waker>,
}

/// One partition.
#[derive(Default)]
struct Partition {
    is_spilled: AtomicBool,
    /// Whether the build side has rows of it, wherever they are.
    has_build_rows: AtomicBool,
    build: Mutex<PartitionSlot>,
    probe: Mutex<PartitionSlot>,
}

/// See the module.
pub(in super::super) struct Partitions {
    pub level: u32,
    bits: u32,
    partitions: Vec<Partition>,
    pub buffers: SpillBuffers,
    /// About what the operator may have.
    pub room_bytes: usize,
    /// Full clusters that a file holds back to be written as one group; 0 if each is written at once.
    group: usize,
    counts: Arc<SpillCounts>,
}

/// The number of partitions for so much memory.
pub(in super::super) fn fan_out(memory_bytes: usize, cluster_bytes: usize) -> usize {
    (memory_bytes / cluster_bytes / CLUSTERS_SHARE).clamp(FAN_OUT_MIN, FAN_OUT_MAX).next_power_of_two().min(FAN_OUT_MAX)
}

impl Partitions {
    /// So many partitions (a power of two), all in memory. `memory_bytes`: about what the operator may have.
    pub fn new(
        level: u32,
        fan_out: usize,
        memory_bytes: usize,
        buffers: SpillBuffers,
        counts: &Arc<SpillCounts>,
    ) -> Self {
        let clusters = memory_bytes / GROUPS_SHARE / buffers.space().cluster_bytes();
        counts.partitioned(level, fan_out);
        Self {
            level,
            bits: fan_out.trailing_zeros(),
            partitions: (0..fan_out).map(|_| Partition::default()).collect(),
            room_bytes: memory_bytes,
            group: Some(Self::group(clusters, fan_out)).filter(|group| *group > GROUP_CLUSTERS).unwrap_or(0),
            buffers,
            counts: counts.clone(),
        }
    }

    /// Formula (2) of the SHJ paper: with |M| clusters and N partitions, G = 2 (|M| - N) / N consecutive requests are
    /// of one file.
    fn group(clusters: usize, fan_out: usize) -> usize {
        2 * clusters.saturating_sub(fan_out) / fan_out
    }

    pub fn len(&self) -> usize {
        self.partitions.len()
    }

    /// The hash that tells the partitions of this level apart.
    #[inline(always)]
    pub fn second_hash(&self, hash: u64) -> u64 {
        let seed = SEED.rotate_left(11 * self.level) ^ u64::from(self.level).wrapping_mul(COMBINE_MULTIPLIER);
        folded(hash ^ seed, MULTIPLIER)
    }

    /// The partition of a row.
    #[inline(always)]
    pub fn of(&self, hash: u64) -> usize {
        (u128::from(self.second_hash(hash)) << self.bits >> 64) as usize
    }

    pub fn is_spilled(&self, partition: usize) -> bool {
        self.partitions[partition].is_spilled.load(Ordering::SeqCst)
    }

    /// From now on nobody keeps rows of the partition in memory.
    pub fn spill(&self, partition: usize) {
        if !self.partitions[partition].is_spilled.swap(true, Ordering::SeqCst) {
            self.counts.spilled_partition();
        }
    }

    pub fn spill_all(&self) {
        (0..self.len()).for_each(|partition| self.spill(partition));
    }

    /// The build side has rows of the partition.
    pub fn belong(&self, partition: usize) {
        let has = &self.partitions[partition].has_build_rows;
        if !has.load(Ordering::Relaxed) {
            has.store(true, Ordering::Relaxed);
        }
    }

    pub fn has_build_rows(&self, partition: usize) -> bool {
        self.partitions[partition].has_build_rows.load(Ordering::Relaxed)
    }

    /// The rows of a batch by partition, in their order.
    pub fn split(&self, batch: &Batch, hashes: &[u64]) -> Result<Vec<(usize, Batch)>> {
        let mut rows = vec![vec![]; self.len()];
        for (row, &hash) in hashes.iter().enumerate() {
            rows[self.of(hash)].push(row as u32);
        }
        let filled = rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
        filled
            .map(|(partition, rows)| match rows.len() == batch.rows() {
                true => Ok((partition, batch.clone())),
                false => Ok((partition, batch.pick(&rows.into())?)),
            })
            .collect()
    }

    /// Rows as spilled batches, partition by partition.
    pub fn split_rows(&self, rows: BuildRows, spec: &TableSpec) -> Result<Vec<(usize, Batch)>> {
        let hashes = spec.hashes(&rows.keys, rows.rows);
        self.split(&rows.into_spilled(spec), &hashes)
    }

    fn slot(&self, side: Side, partition: usize) -> &Mutex<PartitionSlot> {
        match side {
            Side::Build => &self.partitions[partition].build,
            Side::Probe => &self.partitions[partition].probe,
        }
    }

    /// Writes a batch for the packet `owner`. After `Pending` it is called again with the same batch when the waker was
    /// woken, and the packet writes nothing else meanwhile.
    pub fn poll_write(
        &self,
        side: Side,
        partition: usize,
        batch: &Batch,
        owner: u64,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        let is_refused =
            |done: &Poll<Result<()>>| matches!(done, Poll::Ready(Err(error)) if error.kind() == ErrorKind::Resource);
        let mut done = self.poll_write_once(side, partition, batch, owner, waker);
        if is_refused(&done) {
            self.close_clusters();
            done = self.poll_write_once(side, partition, batch, owner, waker);
        }
        if is_refused(&done) && self.buffers.clusters() > 0 {
            // Other packets were faster, and fill what came back.
            let mut slot = self.slot(side, partition).lock();
            slot.refusals += 1;
            if slot.refusals < REFUSALS_MAX {
                waker.wake_by_ref();
                return Poll::Pending;
            }
        }
        done
    }

    fn poll_write_once(
        &self,
        side: Side,
        partition: usize,
        batch: &Batch,
        owner: u64,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        let waiting = {
            let mut slot = self.slot(side, partition).lock();
            if slot.owner.is_some_and(|other| other != owner) {
                slot.waiting.push(waker.clone());
                return Poll::Pending;
            }
            let grouping = if self.group > 0 { Grouping::ByFile } else { Grouping::None };
            let writer = slot.writer.get_or_insert_with(|| BatchWriter::packed(&self.buffers, grouping));
            let before = writer.bytes();
            let done = writer.poll_write(batch, waker);
            self.counts.spilled_bytes(writer.bytes() - before);
            if writer.waiting_clusters() > 0 && writer.waiting_clusters() >= self.group {
                writer.submit();
            }
            match done {
                Poll::Pending | Poll::Ready(Err(_)) => {
                    slot.owner = Some(owner);
                    return done;
                }
                Poll::Ready(Ok(())) => (slot.owner, slot.refusals) = (None, 0),
            }
            std::mem::take(&mut slot.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }

    /// Sends what the files have to the disk, full clusters or not: their memory comes back.
    pub fn close_clusters(&self) {
        for partition in &self.partitions {
            for slot in [&partition.build, &partition.probe] {
                if let Some(writer) = &mut slot.lock().writer {
                    writer.close_cluster();
                    writer.submit();
                }
            }
        }
    }

    /// The files of a partition, which nobody writes any more.
    pub fn finish(&self, side: Side, partition: usize) -> Option<BatchFile> {
        let writer = self.slot(side, partition).lock().writer.take();
        writer.map(BatchWriter::finish).filter(|file| file.rows() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_as_long_as_memory_lets_them_be() {
        // The paper's example: 7 pages, 3 partitions.
        assert_eq!(Partitions::group(7, 3), 2);
        assert_eq!(Partitions::group(64, 32), 2);
        assert_eq!(Partitions::group(16, 32), 0);
        assert_eq!(Partitions::group(160, 32), 8);
    }

    #[test]
    fn there_are_fewer_partitions_than_clusters() {
        assert_eq!(fan_out(0, 4096), FAN_OUT_MIN);
        assert_eq!(fan_out(64 << 20, 1 << 20), 16);
        assert_eq!(fan_out(1 << 40, 1 << 20), FAN_OUT_MAX);
    }
}
