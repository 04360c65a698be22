//! A spill file: a handle to its clusters, from which readers are made.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::Result;
use diligence_base::limits::TEMP_READ_AHEAD_CLUSTERS;

use super::buffers::SpillBuffers;
use super::reader::{ReadOptions, SpillReader};
use super::stored::FileShared;

/// A file that is written, or about to be: readers wait for what is still on its way. Clones are the same file; with
/// the last clone and reader its clusters are free.
#[derive(Clone)]
pub struct SpillFile(pub(super) Arc<FileShared>);

impl SpillFile {
    /// How many clusters it has.
    pub fn clusters(&self) -> usize {
        self.0.clusters()
    }

    /// The bytes in clusters that have been written. Clusters may end early.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Ready when nothing of it is on its way to the disk any more, with the error if something went wrong.
    pub fn poll_written(&self, waker: &Waker) -> Poll<Result<()>> {
        self.0.poll_written(waker)
    }

    /// Reads all clusters once, in their order, and frees each when it is read.
    pub fn into_reader(self, buffers: &SpillBuffers) -> SpillReader {
        let all = 0..self.clusters();
        self.reader(buffers, all, ReadOptions { ahead: TEMP_READ_AHEAD_CLUSTERS, recycle: true })
    }

    /// Reads some clusters in their order.
    pub fn reader(&self, buffers: &SpillBuffers, clusters: Range<usize>, options: ReadOptions) -> SpillReader {
        SpillReader::new(self.0.clone(), buffers.clone(), clusters, options)
    }
}

impl std::fmt::Debug for SpillFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SpillFile({}, {} clusters, {} bytes)", self.0.number, self.clusters(), self.bytes())
    }
}
