//! Temp space as a whole: its threads, its counters.

use std::sync::Arc;

use diligence_base::sync::atomic::AtomicU64;
use diligence_base::{Error, Result};

use crate::files::{PAGE_BYTES, Transfer};
use crate::info::{Counters, TempInfo, counted};
use crate::options::{Compression, TempOptions};
use crate::pool::PoolInfo;
use crate::request_log::{Request, RequestLog};
use crate::transfers::Transfers;
use crate::volumes::{Place, Volumes};

/// Bytes of a cluster at most: positions within one are 32-bit numbers, and nobody needs more.
const CLUSTER_BYTES_MAX: usize = 1 << 30;

/// The temp space of a process. Clones are the same space; with the last clone, spill file and reader it is closed, and
/// its files are gone.
#[derive(Clone)]
pub struct TempSpace(pub(crate) Arc<Space>);

pub(crate) struct Space {
    pub cluster_bytes: usize,
    pub compression: Compression,
    pub volumes: Volumes,
    pub counters: Counters,
    pub next_file: AtomicU64,
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
            next_file: AtomicU64::new(1),
            transfers,
            log,
        })))
    }

    /// Bytes of a cluster.
    pub fn cluster_bytes(&self) -> usize {
        self.0.cluster_bytes
    }

    /// What batch writers do with rows.
    pub fn compression(&self) -> Compression {
        self.0.compression
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

    /// Its I/O threads at this moment.
    pub fn pool(&self) -> PoolInfo {
        self.0.transfers.pool()
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
