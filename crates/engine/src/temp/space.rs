//! Temp space as a whole: its options, its I/O threads, its counters.

use std::path::PathBuf;
use std::sync::Arc;

use diligence_base::limits::{IO_THREADS, TEMP_CLUSTER_BYTES, TEMP_CLUSTER_BYTES_MIN, TEMP_CLUSTERS_PER_BUDGET};
use diligence_base::seams::{Clock, LocalTempFiles, Spawn, SystemClock, TempFiles, ThreadSpawn, Transfer};
use diligence_base::{Error, Result};

use super::buffers::PAGE_BYTES;
use super::info::{Counters, TempInfo, counted};
use super::request_log::{Request, RequestLog};
use super::transfers::Transfers;
use super::volumes::{Place, Volumes};
use crate::stages::StageInfo;

/// Bytes of a cluster at most: positions within one are 32-bit numbers, and nobody needs more.
const CLUSTER_BYTES_MAX: usize = 1 << 30;

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

/// The temp space of a process. Clones are the same space; with the last clone, spill file and reader it is closed, and
/// its files are gone.
#[derive(Clone)]
pub struct TempSpace(pub(super) Arc<Space>);

pub(super) struct Space {
    pub cluster_bytes: usize,
    pub compression: Compression,
    pub volumes: Volumes,
    pub counters: Counters,
    pub next_file: crate::sync::atomic::AtomicU64,
    transfers: Transfers,
    log: Option<RequestLog>,
}

impl TempSpace {
    /// Removes what dead processes left in the directories and makes a file in each. Fails with kind `Input` if an
    /// option or a directory cannot be used or an io_uring is demanded and refused, and with kind `Resource` if the
    /// system has no threads left.
    pub fn open(options: &TempOptions) -> Result<Self> {
        let cluster_bytes = options.cluster_bytes;
        if cluster_bytes == 0 || !cluster_bytes.is_multiple_of(PAGE_BYTES) || cluster_bytes > CLUSTER_BYTES_MAX {
            return Err(Error::input(format!(
                "a cluster of temp space has a multiple of {PAGE_BYTES} bytes up to {CLUSTER_BYTES_MAX}, not {cluster_bytes}"
            )));
        }
        let volumes = Volumes::open(options)?;
        let log = options.request_log.as_deref().map(|path| RequestLog::create(path, cluster_bytes)).transpose()?;
        let transfers = Transfers::start(options)?;
        Ok(Self(Arc::new(Space {
            cluster_bytes,
            compression: options.compression,
            volumes,
            counters: Counters::default(),
            next_file: crate::sync::atomic::AtomicU64::new(1),
            transfers,
            log,
        })))
    }

    /// Bytes of a cluster.
    pub fn cluster_bytes(&self) -> usize {
        self.0.cluster_bytes
    }

    /// What it has done and holds.
    pub fn info(&self) -> TempInfo {
        let Space { volumes, counters, log, .. } = self.0.as_ref();
        log.as_ref().inspect(|log| log.flush());
        TempInfo {
            directories: volumes.info(),
            io: self.0.transfers.info(),
            cluster_bytes: self.0.cluster_bytes,
            files: counted(&counters.files),
            read_bytes_total: counted(&counters.read_bytes),
            written_bytes_total: counted(&counters.written_bytes),
            reads_total: counted(&counters.reads),
            writes_total: counted(&counters.writes),
            waits_total: counted(&counters.waits),
            recycled_total: volumes.recycled_total(),
            consumed_total: counted(&counters.consumed),
        }
    }

    /// Ends the I/O threads when they are done with what they do; what is queued fails. Afterwards reads and writes
    /// happen at once on the thread that asks for them. For the end of an engine.
    pub fn close(&self) {
        self.0.transfers.stop();
    }

    /// Its I/O threads as a stage.
    pub fn stage(&self) -> StageInfo {
        self.0.transfers.stage()
    }
}

impl std::fmt::Debug for TempSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TempSpace({:?})", self.info())
    }
}

impl Space {
    /// Has a transfer done. `may_block` says that its start may. Not called under a lock: without threads it is done at
    /// once.
    pub fn submit(&self, may_block: bool, start: impl FnOnce() -> Option<Box<dyn Transfer>> + Send + 'static) {
        self.transfers.submit(may_block, start);
    }

    /// Frees clusters of a file.
    pub fn free(self: &Arc<Self>, file: u64, clusters: &[(usize, Place)]) {
        self.note(Request::Free, file, clusters.iter().copied());
        self.free_places(clusters.iter().map(|(_, place)| *place).collect());
    }

    /// Frees places, in which nothing was written.
    pub fn free_places(self: &Arc<Self>, places: Vec<Place>) {
        if self.volumes.free(places) {
            let own = self.clone();
            self.transfers.submit_blocking(move || own.volumes.trim());
        }
    }

    pub fn note(&self, request: Request, file: u64, clusters: impl Iterator<Item = (usize, Place)>) {
        if let Some(log) = &self.log {
            log.note(request, file, clusters);
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.transfers.stop();
    }
}
