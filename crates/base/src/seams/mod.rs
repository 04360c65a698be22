//! The seams: the four ways in which a process touches the world. Code that runs queries takes
//! them from here, so that a test can put its own clock, seed, spawner or files in their place.

mod clock;
mod files;
mod random;
mod spawn;

pub use clock::{Clock, ManualClock, SystemClock};
pub use files::{FileMeta, Files, LocalFiles, ReadAt};
pub use random::Random;
pub use spawn::{Spawn, Thread, ThreadSpawn};
