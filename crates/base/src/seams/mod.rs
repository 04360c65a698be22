//! The seams: the ways in which a process touches the world: clock, randomness, threads, files. Code that runs
//! queries takes them from here, so that a test can put its own clock, seed, spawner or files in their place.

mod clock;
mod disk;
mod random;
mod spawn;

pub use clock::{Clock, ManualClock, SystemClock};
pub use disk::{
    Access, CrashDisk, Disk, DiskFault, DiskFile, FaultyDisk, FileKind, FileMeta, LocalDisk, OpenMode, preallocate,
};
pub use random::Random;
pub use spawn::{NiceSpawn, PinnedSpawn, Spawn, Thread, ThreadSpawn};
