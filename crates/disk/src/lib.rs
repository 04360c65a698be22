//! Clusters on disk: temp space, where what does not fit in memory waits; and the [buffer](BufferPool) that tables are
//! read through.
//!
//! The life of a cluster of temp space, the unit in which bytes are reserved, written, read and freed:
//! ```text
//!            room, advance         submit               I/O thread
//!   buffer -----------------> full --------> queued -------------------> stored at a place
//!     ^  (reserved first)                              place, checksum,        |
//!     |                                                write                   | read ahead, checksum
//!     +------------- the buffer goes back ------------------+                  v
//!     +------------- when its last bytes are dropped ------------------ cluster in memory
//!                                                                              |
//!                     recycled at once, or with its file: the place is free <--+
//! ```
//! 1. [`TempSpace::open`] makes one file in each directory ([`volumes`]): without a name, so that nothing outlives the
//!    process.
//! 2. An operator makes [`SpillBuffers`] from a reservation: all of its files share them. They bound what is on its way
//!    to the disk.
//! 3. It fills [`SpillWriter`]s: a partition file or a run each, with bytes. Full clusters leave at once
//!    (write-behind), or in groups that lie side by side on the disk, when the operator says so.
//! 4. `finish` gives a [`SpillFile`]; its [`SpillReader`]s read ahead and may free each cluster once it is read.
//!
//! What waits gives a waker, like everything that packets do; [`block_on`] waits for tests and benchmarks. All calls of
//! the system happen on the I/O threads of temp space, or in an io_uring that one thread drives ([`transfers`]).
//!
//! The rooms, of which each imports only those before it: `files`, `options`, `info`, `failures`, `extents`, `wait`,
//! `pool`, `buffer`, `volumes`, `transfers`, `request_log`, `space`, `spill`. No room knows what the bytes say: rows
//! in spill files are the engine's.
//!
//! Invariants:
//! * Every buffer is reserved, wherever it is: filled, queued, read ahead, or under bytes that somebody keeps.
//! * A place belongs to one file, and is freed when the file is dropped or its reader is done with it; never while it
//!   is read or written.
//! * What is read is what was written, or an error: checksums are kept in memory, so a lost write is found as well.
//! * No lock is held while another is taken, a job is submitted, or a waker woken.

mod buffer;
mod extents;
mod failures;
mod files;
mod info;
mod options;
mod pool;
mod request_log;
mod space;
mod spill;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transfer_tests;
mod transfers;
mod volumes;
mod wait;

pub use buffer::{
    BUFFER_PERCENT, BUFFER_PERCENT_MAX, BufferInfo, BufferPool, BufferedFile, Done, Failure, FileInBuffer, Gone, Hint,
    ShardInfo, Wanted,
};
pub use files::{
    Bell, Completion, Fault, LocalTempFiles, Memory, MemoryTempFiles, Request, TempFile, TempFiles, TempQueue, Transfer,
};
pub use info::{DirectoryInfo, TempInfo, TempIoInfo};
pub use options::{Compression, TempIo, TempOptions};
pub use pool::{IoPool, PoolInfo};
pub use space::TempSpace;
pub use spill::{
    Cluster, ClusterBuffer, Grouping, ReadOptions, SpillBuffers, SpillFile, SpillMemory, SpillReader, SpillWriter,
};
pub use wait::block_on;
