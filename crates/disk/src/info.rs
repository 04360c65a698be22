//! What temp space has done and holds, for people.

use std::fmt;
use std::path::PathBuf;

use diligence_base::sync::atomic::{AtomicU64, Ordering};

/// A directory of temp space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryInfo {
    /// Where it is.
    pub path: PathBuf,
    /// Clusters that belong to spill files.
    pub clusters_used: usize,
    /// Clusters that the file has and nobody uses.
    pub clusters_free: usize,
    /// Whether reads and writes go past the page cache.
    pub is_direct: bool,
    /// Whether a killed process would leave the file behind until the next start.
    pub is_named: bool,
}

/// Who reads and writes the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TempIoInfo {
    /// An io_uring, driven by one thread.
    Ring,
    /// Threads that block.
    Threads {
        /// Why the system has refused an io_uring, if it was asked for one.
        refused: Option<String>,
    },
}

impl fmt::Display for TempIoInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TempIoInfo::Ring => f.write_str("io_uring"),
            TempIoInfo::Threads { refused: None } => f.write_str("threads"),
            TempIoInfo::Threads { refused: Some(reason) } => write!(f, "threads (io_uring: {reason})"),
        }
    }
}

/// Temp space at a moment. Totals count from its opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TempInfo {
    /// Each directory.
    pub directories: Vec<DirectoryInfo>,
    /// Who reads and writes them.
    pub io: TempIoInfo,
    /// Bytes of a cluster.
    pub cluster_bytes: usize,
    /// Spill files that exist.
    pub files: u64,
    /// Bytes read from the files.
    pub read_bytes_total: u64,
    /// Bytes written to the files.
    pub written_bytes_total: u64,
    /// Reads: calls of the system.
    pub reads_total: u64,
    /// Writes: calls of the system.
    pub writes_total: u64,
    /// How often somebody had to wait for a cluster to arrive or for a buffer to be written.
    pub waits_total: u64,
    /// Clusters taken that had been used before.
    pub recycled_total: u64,
    /// Clusters freed by readers while the rest of their file was still wanted.
    pub consumed_total: u64,
}

/// The counters behind it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub files: AtomicU64,
    pub read_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub waits: AtomicU64,
    pub consumed: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// What a counter says.
pub(crate) fn counted(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
