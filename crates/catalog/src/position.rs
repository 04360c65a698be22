//! Places in the order of a log's entries.

/// A place in the order of entries. The first is 1.
pub type LogPosition = u64;
