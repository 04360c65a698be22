//! What people are shown of the buffer.

use diligence_base::sync::LatchInfo;

/// A shard at one moment. Totals count from the buffer's start; those of locks from that of the process, for all of its
/// buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardInfo {
    /// Ranges that are present.
    pub ranges: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Of these, bytes that somebody reads at the moment.
    pub pinned_bytes: usize,
    /// Ranges that are being read.
    pub reading: usize,
    /// Ranges that were found.
    pub hits_total: u64,
    /// Ranges that somebody else was reading already.
    pub joins_total: u64,
    /// Ranges that had to be read.
    pub misses_total: u64,
    /// Ranges that made room for others, or gave their memory to a query.
    pub evictions_total: u64,
    /// Ranges that were read and not kept, as there was no room.
    pub tosses_total: u64,
    /// The lock.
    pub latch: LatchInfo,
}

/// The buffer at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferInfo {
    /// Its shards.
    pub shards: Vec<ShardInfo>,
    /// Bytes that it may have.
    pub bytes_max: usize,
    /// Reads of files, each of one range or of several that lie near to each other.
    pub reads_total: u64,
    /// Bytes that they brought.
    pub read_bytes_total: u64,
    /// What they took, in nanoseconds.
    pub read_ns_total: u64,
}

impl BufferInfo {
    /// A sum over all shards.
    pub fn sum(&self, count: impl Fn(&ShardInfo) -> u64) -> u64 {
        self.shards.iter().map(count).sum()
    }
}
