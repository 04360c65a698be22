//! Spill files: sequences of clusters that one operator writes and reads, with buffers that it has reserved.

mod buffers;
mod file;
mod reader;
mod stored;
mod writer;

pub use buffers::{ClusterBuffer, SpillBuffers, SpillMemory};
pub use file::SpillFile;
pub use reader::{Cluster, ReadOptions, SpillReader};
pub use writer::{Grouping, SpillWriter};
