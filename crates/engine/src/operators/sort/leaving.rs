//! Runs in memory that leave it while they are merged, because somebody else needs the memory: what is left of them
//! becomes one run on the disk, with which the merge goes on. A slow reader holds a few clusters then, and not what was
//! in memory when it began to read.

use std::task::Waker;

use diligence_base::Result;
use diligence_disk::{SpillBuffers, SpillMemory};
use diligence_memory::{QueryMemory, Reservation};

use super::disk::Disk;
use super::front::Rest;
use super::merge_job::{MergeJob, Progress};
use super::run_file::RunReader;

/// Clusters to write the run and to read it: one is filled, two are read.
const BUFFER_CLUSTERS: usize = 3;

/// Clusters that a batch on its way to the disk and the order of a range have.
const WORK_CLUSTERS: usize = 2;

/// Clusters that the run reads ahead.
const AHEAD: usize = 1;

/// See the module.
pub(super) struct Leaving {
    job: MergeJob,
    buffers: SpillBuffers,
    /// Of the job.
    _work: Reservation,
}

impl Leaving {
    /// Begins with what is left of some runs, which had so many bytes.
    pub fn new(rests: Vec<Rest>, bytes: usize, disk: &Disk, memory: &QueryMemory) -> Result<Self> {
        let cluster_bytes = disk.space.cluster_bytes();
        // Much more comes back for it.
        let mut reservation = memory.reservation(disk.name);
        reservation.overdraw(BUFFER_CLUSTERS * cluster_bytes);
        let mut work = reservation.sibling();
        work.overdraw(WORK_CLUSTERS * cluster_bytes);
        let bounds = SpillMemory { clusters_min: BUFFER_CLUSTERS, ..SpillMemory::default() };
        let buffers = SpillBuffers::new(&disk.space, reservation, bounds)?;
        let job = MergeJob::of_rests(rests, bytes, &buffers, disk, &work);
        Ok(Self { job, buffers, _work: work })
    }

    /// A few milliseconds of work.
    pub fn step(&mut self, waker: &Waker) -> Result<Progress> {
        self.job.step(waker)
    }

    /// The run, after [`Progress::Done`], to be read from its beginning, and what it needs beside its clusters.
    pub fn finish(self) -> (RunReader, usize) {
        let run = self.job.finish();
        let beside_bytes = run.beside_bytes();
        let reader = run.read(&self.buffers, AHEAD, true);
        self.buffers.release_spare();
        (reader, beside_bytes)
    }
}
