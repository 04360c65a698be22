//! Merging some runs into one, in small steps: how the rows that a packet holds become a run on the disk, and how runs
//! on the disk become a longer one.

use std::task::{Poll, Waker};

use arrow::datatypes::SchemaRef;
use diligence_base::Result;
use diligence_disk::{SpillBuffers, SpillMemory, TempSpace};
use diligence_memory::{QueryMemory, Reservation};

use super::disk::Disk;
use super::front::{Front, MergeRange, Piece, Rest};
use super::gather::Pick;
use super::run_file::{DiskRun, RunWriter};
use crate::plan::sort_plan::{CLUSTERS_PER_INPUT, CLUSTERS_WRITTEN};

/// How far a step got.
pub(super) enum Progress {
    /// Some work was done; there is more.
    Again,
    /// The waker will be woken.
    Wait,
    /// Nothing is left to do but to take the run.
    Done,
}

/// Runs on their way to be one.
pub(super) struct MergeJob {
    front: Front,
    writer: RunWriter,
    /// The range at hand, its order, and how many of its rows are written.
    range: Option<(MergeRange, Vec<Pick>, usize)>,
    /// Rows of a batch that is written.
    batch_rows: usize,
    batch_bytes: usize,
    /// Rows that are wanted of the run.
    rows_left: usize,
    schema: SchemaRef,
    /// What the batch at hand has beyond what was foreseen.
    excess: Reservation,
    _beside: Option<Reservation>,
}

impl MergeJob {
    /// A run of the rows that a packet holds: `bytes` bytes. Writes through its minimal buffers.
    ///
    /// Besides, the caller has reserved for it a cluster, for the batch that is written, and a pick per row.
    pub fn of_memory(
        pieces: Vec<Piece>,
        bytes: usize,
        buffers: &SpillBuffers,
        disk: &Disk,
        memory: &Reservation,
    ) -> Self {
        let rows = pieces.iter().map(|piece| piece.run.keys.len()).sum();
        Self::new(
            |range_rows| Front::new(Vec::new(), pieces, range_rows),
            0,
            (rows, bytes),
            (buffers, None),
            disk,
            memory,
        )
    }

    /// A run of what is left of others: `bytes` bytes before anything was given. Otherwise like [`Self::of_memory`].
    pub fn of_rests(rests: Vec<Rest>, bytes: usize, buffers: &SpillBuffers, disk: &Disk, memory: &Reservation) -> Self {
        let rows = rests.iter().map(|(piece, _)| piece.run.keys.len()).sum();
        Self::new(|range_rows| Front::of_rests(rests, range_rows), 0, (rows, bytes), (buffers, None), disk, memory)
    }

    /// A run of the next level made of two or more runs on the disk.
    pub fn of_disk(runs: Vec<DiskRun>, memory: MergeMemory, disk: &Disk, reservation: &Reservation) -> Self {
        let level = 1 + runs.iter().map(|run| run.size().level).max().unwrap_or(0);
        let rows = runs.iter().map(|run| run.rows()).sum::<u64>() as usize;
        let bytes = runs.iter().map(|run| run.size().bytes).sum::<u64>() as usize;
        let MergeMemory { buffers, ahead, beside } = memory;
        let readers = runs.into_iter().map(|run| run.read(&buffers, ahead, disk.plan.recycles(level))).collect();
        let front = |range_rows| Front::new(readers, Vec::new(), range_rows);
        Self::new(front, level, (rows, bytes), (&buffers, beside), disk, reservation)
    }

    fn new(
        front: impl FnOnce(usize) -> Front,
        level: usize,
        (rows, bytes): (usize, usize),
        (buffers, beside): (&SpillBuffers, Option<Reservation>),
        disk: &Disk,
        memory: &Reservation,
    ) -> Self {
        let cluster_bytes = disk.space.cluster_bytes();
        let batch_rows = rows_in(cluster_bytes, bytes, rows);
        Self {
            front: front(range_rows(cluster_bytes)),
            writer: RunWriter::new(buffers, level, disk.spills.clone()),
            range: None,
            batch_rows,
            batch_bytes: cluster_bytes,
            rows_left: disk.rows_wanted,
            schema: disk.schema.clone(),
            excess: memory.sibling(),
            _beside: beside,
        }
    }

    /// A few milliseconds of work.
    pub fn step(&mut self, waker: &Waker) -> Result<Progress> {
        if self.writer.poll_written(waker)?.is_pending() {
            return Ok(Progress::Wait);
        }
        self.excess.shrink(usize::MAX);
        match &mut self.range {
            Some((range, picks, done)) => {
                let some = &picks[*done..picks.len().min(*done + self.batch_rows)];
                let bytes = self.writer.begin(range.codes(some)?, range.payload(some, &self.schema)?)?;
                // Rows may be longer here than elsewhere: the batch is in memory, so it is counted.
                self.excess.overdraw(bytes.saturating_sub(self.batch_bytes));
                *done += some.len();
                if *done == picks.len() {
                    self.range = None;
                }
                Ok(Progress::Again)
            }
            None => match self.front.poll_range(waker) {
                Poll::Pending => Ok(Progress::Wait),
                Poll::Ready(range) => match range?.filter(|_| self.rows_left > 0) {
                    Some(range) => {
                        let picks = range.merge(self.rows_left);
                        self.rows_left -= picks.len();
                        self.range = Some((range, picks, 0));
                        Ok(Progress::Again)
                    }
                    None => Ok(Progress::Done),
                },
            },
        }
    }

    /// The run, after [`Progress::Done`]. It may still be on its way to the disk.
    pub fn finish(self) -> DiskRun {
        self.writer.finish()
    }
}

/// Rows of about so many bytes, if all rows have about the same; one at least.
pub(super) fn rows_in(wanted_bytes: usize, bytes: usize, rows: usize) -> usize {
    (wanted_bytes as u128 * rows as u128 / bytes.max(1) as u128).clamp(1, RANGE_ROWS_MAX as u128) as usize
}

/// Rows of a range: their order takes half a cluster at most.
fn range_rows(cluster_bytes: usize) -> usize {
    (cluster_bytes / 2 / size_of::<Pick>()).clamp(1, RANGE_ROWS_MAX)
}

/// Rows of a range at most: a few milliseconds of work.
pub(super) const RANGE_ROWS_MAX: usize = 64 * 1024;

/// Memory to read some runs with.
pub(super) struct MergeMemory {
    pub buffers: SpillBuffers,
    /// Clusters that each run reads ahead.
    pub ahead: usize,
    /// What batches need beside their clusters.
    pub beside: Option<Reservation>,
}

impl MergeMemory {
    /// The memory to read so many of the runs, the first ones, as there is memory for, but at least two: then perhaps
    /// the minimal buffers. What is spare is needed besides, whatever their number.
    pub fn for_some(
        runs: &[&DiskRun],
        spare: Spare,
        minimal: &SpillBuffers,
        disk: &Disk,
        memory: &QueryMemory,
    ) -> Result<(usize, Self)> {
        let found = |count: usize| Self::for_all(&runs[..count], spare, disk, memory);
        if let Some(found) = found(runs.len())? {
            return Ok((runs.len(), found));
        }
        let (mut most, mut too_many) = (1, runs.len());
        while most + 1 < too_many {
            let count = most.midpoint(too_many);
            match found(count)? {
                Some(_) => most = count,
                None => too_many = count,
            }
        }
        if most >= 2
            && let Some(found) = found(most)?
        {
            return Ok((most, found));
        }
        Ok((runs.len().min(2), Self::minimal(minimal)))
    }

    /// The memory to read all of the runs, with read-ahead if possible.
    pub fn for_all(runs: &[&DiskRun], spare: Spare, disk: &Disk, memory: &QueryMemory) -> Result<Option<Self>> {
        let space = &disk.space;
        let beside_bytes: usize = runs.iter().map(|run| run.beside_bytes()).sum();
        let long_bytes: usize = runs.iter().map(|run| run.long_bytes()).sum();
        for ahead in (0..CLUSTERS_PER_INPUT).rev() {
            let clusters = runs.len() * (1 + ahead) + spare.clusters;
            // With less memory less is merged at once: nobody else has to give back anything for it.
            let mut trial = memory.revocable(disk.name);
            let wanted = clusters * space.cluster_bytes() + beside_bytes + spare.bytes;
            if trial.grow(wanted + long_bytes + spare.left_bytes).is_ok() {
                // Long rows are reserved when they are put together. By then there should be room for them.
                trial.shrink(long_bytes + spare.left_bytes);
                let mut reservation = memory.reservation(disk.name);
                reservation.absorb(trial);
                let beside = reservation.split(beside_bytes + spare.bytes);
                let memory = SpillMemory { clusters_min: clusters, ..SpillMemory::default() };
                let buffers = SpillBuffers::new(space, reservation, memory)?;
                return Ok(Some(Self { buffers, ahead, beside: Some(beside) }));
            }
        }
        Ok(None)
    }

    /// To read two runs with, when there is no other memory.
    pub fn minimal(buffers: &SpillBuffers) -> Self {
        Self { buffers: buffers.clone(), ahead: 0, beside: None }
    }
}

/// What a merge needs beside what it reads.
#[derive(Clone, Copy)]
pub(super) struct Spare {
    pub clusters: usize,
    pub bytes: usize,
    /// Not taken, but left for those who read the rows: what they hold they need to go on.
    pub left_bytes: usize,
}

impl Spare {
    /// To write a run.
    pub const WRITE: Self = Self { clusters: CLUSTERS_WRITTEN, bytes: 0, left_bytes: 0 };

    /// All its bytes.
    pub fn total(&self, space: &TempSpace) -> usize {
        self.clusters * space.cluster_bytes() + self.bytes
    }
}
