//! Temp space: where rows wait that do not fit in memory.
//!
//! The life of a cluster, the unit in which bytes are reserved, written, read and freed:
//! ```text
//!            room, advance         submit               I/O thread
//!   buffer -----------------> full --------> queued -------------------> stored at a place
//!     ^  (reserved first)                              place, checksum,        |
//!     |                                                write                   | read ahead, checksum
//!     +------------- the buffer goes back ------------------+                  v
//!     +------------- when its last array is dropped ------------------- cluster in memory
//!                                                                              |
//!                     recycled at once, or with its file: the place is free <--+
//! ```
//! 1. [`TempSpace::open`] makes one file in each directory ([`volumes`]): without a name, so that nothing outlives the
//!    process.
//! 2. An operator makes [`SpillBuffers`] from a reservation: all of its files share them. They bound what is on its way
//!    to the disk.
//! 3. It fills [`SpillWriter`]s: a partition file or a run each, with bytes, or with rows through a [`BatchWriter`].
//!    Full clusters leave at once (write-behind), or in groups that lie side by side on the disk, when the operator
//!    says so.
//! 4. `finish` gives a [`SpillFile`]; its [`SpillReader`]s read ahead and may free each cluster once it is read.
//!
//! What waits gives a waker, like everything that packets do; [`block_on`] waits for tests and benchmarks. All calls of
//! the system happen on the I/O threads of temp space, or in an io_uring that one thread drives ([`transfers`]).
//!
//! Invariants:
//! * Every buffer is reserved, wherever it is: filled, queued, read ahead, or under an array that somebody keeps.
//! * A place belongs to one file, and is freed when the file is dropped or its reader is done with it; never while it
//!   is read or written.
//! * What is read is what was written, or an error: checksums are kept in memory, so a lost write is found as well.
//! * No lock is held while another is taken, a job is submitted, or a waker woken.

mod batches;
mod buffers;
mod extents;
mod failures;
#[cfg(test)]
mod fault_tests;
mod file;
mod info;
mod reader;
mod request_log;
mod space;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transfer_tests;
mod transfers;
mod volumes;
mod wait;
mod writer;

pub use batches::{BatchFile, BatchReader, BatchWriter};
pub use buffers::{SpillBuffers, SpillMemory};
pub use file::SpillFile;
pub use info::{DirectoryInfo, TempInfo, TempIoInfo};
pub use reader::{Cluster, ReadOptions, SpillReader};
pub use space::{Compression, TempIo, TempOptions, TempSpace};
pub use wait::block_on;
pub use writer::{Grouping, SpillWriter};
