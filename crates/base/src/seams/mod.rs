//! The seams: the ways in which a process touches the world: clock, randomness, threads, files, temp files. Code that
//! runs queries takes them from here, so that a test can put its own clock, seed, spawner or files in their place.

mod clock;
mod disk;
mod memory_temp_files;
mod random;
#[cfg(target_os = "linux")]
mod ring_queue;
mod spawn;
mod temp_files;
mod temp_queue;

pub use clock::{Clock, ManualClock, SystemClock};
pub use disk::{Access, CrashDisk, Disk, DiskFault, DiskFile, FaultyDisk, FileKind, FileMeta, LocalDisk, OpenMode};
pub use memory_temp_files::{Fault, MemoryTempFiles};
pub use random::Random;
pub use spawn::{NiceSpawn, Spawn, Thread, ThreadSpawn};
pub use temp_files::{LocalTempFiles, TEMP_FILE_PREFIX, TempFile, TempFiles};
pub use temp_queue::{Bell, Completion, Memory, Request, TempQueue, Transfer, transfer_now};
