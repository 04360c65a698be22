//! Temp files as a seam: files that one process makes for itself and that nobody finds after it, and queues of reads
//! and writes of them. Temp space takes them from here, so that a test can put files in their place that fail.

mod local;
mod memory;
mod queue;
#[cfg(target_os = "linux")]
mod ring;

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

pub use local::LocalTempFiles;
pub use memory::{Fault, MemoryTempFiles};
pub(crate) use queue::transfer_now;
pub use queue::{Bell, Completion, Memory, Request, TempQueue, Transfer};

/// Direct I/O wants addresses, offsets and lengths in memory pages.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Slices that one call of the system takes at most (`IOV_MAX` of Linux).
const SLICES_MAX: usize = 1024;

/// The part of a file system that temp space needs.
pub trait TempFiles: Send + Sync + std::fmt::Debug {
    /// Removes the files that dead processes left in a directory and says how many. A living process's files stay, and
    /// so does what cannot be removed. A directory that does not exist has no leftovers. Fails if
    /// the directory cannot be listed.
    fn remove_leftovers(&self, directory: &Path) -> io::Result<usize>;
    /// Makes an empty file, and the directory if there is none. With `direct` the file goes past the page cache if its
    /// file system can do that. Fails if the system makes neither.
    fn create(&self, directory: &Path, direct: bool) -> io::Result<Arc<dyn TempFile>>;
    /// A queue for so many reads and writes of these files at once. Fails where there is none: then they are done one
    /// after another, by as many threads as one likes.
    fn queue(&self, _depth: usize) -> io::Result<Box<dyn TempQueue>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// One temp file. Dropping it removes it. Called from several threads at once, never twice at once for the same bytes.
///
/// A direct file wants offsets, lengths and addresses in memory that are multiples of 4096.
pub trait TempFile: Send + Sync {
    /// Whether it goes past the page cache.
    fn is_direct(&self) -> bool;
    /// Whether it has a name that a killed process would leave behind.
    fn is_named(&self) -> bool;
    /// Makes the file longer, from `from` to `to` bytes, with the space taken from the disk now where the file system
    /// can do that. After an error the file has `from` bytes.
    fn grow(&self, from: u64, to: u64) -> io::Result<()>;
    /// Makes the file shorter and gives the space back. Fails as the system does; then it has the bytes that it had.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// Reads up to a buffer from `offset` and says how many bytes; 0 is the end of the file. Fails as the system
    /// does.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes some bytes of the slices, one after another, to `offset` and says how many. Fails as the system does.
    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    /// The open file, if reads and writes of it may go to the system directly.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
