//! How temp space is opened.

use std::path::PathBuf;
use std::sync::Arc;

use diligence_base::limits::{IO_THREADS, TEMP_CLUSTER_BYTES, TEMP_CLUSTER_BYTES_MIN, TEMP_CLUSTERS_PER_BUDGET};
use diligence_base::seams::{Clock, Spawn, SystemClock, ThreadSpawn};

use crate::files::{LocalTempFiles, TempFiles};

/// Whether rows are compressed on their way to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are: the processor is the bottleneck.
    #[default]
    None,
    /// LZ4 blocks: the disk is the bottleneck, or too small.
    Lz4,
}

/// Who reads and writes the files of temp space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TempIo {
    /// An io_uring where the system allows it, and threads otherwise.
    Auto,
    /// An io_uring.
    Ring,
    /// Threads that block.
    #[default]
    Threads,
}

/// How temp space is opened.
#[derive(Clone, Debug)]
pub struct TempOptions {
    /// Directories, best on a disk each: files are striped over them. Made if they do not exist.
    pub directories: Vec<PathBuf>,
    /// Bytes of a cluster: a multiple of 4096, at most 1 GiB.
    pub cluster_bytes: usize,
    /// Bytes that the files may have together; `None` is as much as the disks hold.
    pub quota_bytes: Option<u64>,
    /// Past the page cache (`O_DIRECT`), where the file system can do that.
    pub direct: bool,
    /// What batch writers do with rows. Bytes written otherwise stay as they are.
    pub compression: Compression,
    /// Who reads and writes.
    pub io: TempIo,
    /// I/O threads. Without any, reads and writes happen at once on the thread that asks for them.
    pub threads: usize,
    /// Where to log block requests, for `diligence-bench blocks --replay`.
    pub request_log: Option<PathBuf>,
    /// Files.
    pub files: Arc<dyn TempFiles>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Threads of the system.
    pub spawn: Arc<dyn Spawn>,
}

impl Default for TempOptions {
    fn default() -> Self {
        Self {
            directories: vec![std::env::temp_dir()],
            cluster_bytes: TEMP_CLUSTER_BYTES,
            quota_bytes: None,
            direct: false,
            compression: Compression::None,
            io: TempIo::default(),
            threads: IO_THREADS,
            request_log: None,
            files: Arc::new(LocalTempFiles),
            clock: Arc::new(SystemClock::default()),
            spawn: Arc::new(ThreadSpawn),
        }
    }
}

impl TempOptions {
    /// The defaults for a memory budget: with a small one clusters are smaller, because operators have a few of them
    /// each, whatever they are for.
    pub fn within(memory_bytes: usize) -> Self {
        let share = (memory_bytes / TEMP_CLUSTERS_PER_BUDGET).max(1);
        let cluster_bytes = (1 << share.ilog2()).clamp(TEMP_CLUSTER_BYTES_MIN, TEMP_CLUSTER_BYTES);
        Self { cluster_bytes, ..Self::default() }
    }
}
