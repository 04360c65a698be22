//! What finishing rows of a build side needs at least, reserved while they come in.

use super::columns::assembly_bytes_per_row;
use super::spec::TableSpec;
use super::table_work::TableWork;

/// Bytes that are held for each row while a table is made: its code, its hash, its place in a part.
const WORK_BYTES_PER_ROW: usize = 20;

/// The same for each chunk.
pub(super) const WORK_BYTES_PER_CHUNK: usize = 512;

/// Bytes that are held for each row while a table is made, and those of its words in many keys: the codes of a single
/// one are in the table, unless they have all of 64 bits.
pub(super) fn work_bytes_per_row(spec: &TableSpec) -> usize {
    let words = spec.keys.iter().filter(|key| key.kind.is_word()).count();
    WORK_BYTES_PER_ROW + if spec.keys.len() > 1 { 8 * words } else { 0 }
}

/// Bytes that finishing needs at least.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct FinishingBytes {
    /// For each row.
    row: usize,
    /// And for each that can match: others are in no table.
    matchable: usize,
}

impl FinishingBytes {
    pub fn new(spec: &TableSpec) -> Self {
        let arrays = spec.stored.iter().map(|(_, logical)| assembly_bytes_per_row(logical)).sum::<usize>();
        if spec.keys.is_empty() {
            return Self { row: arrays, matchable: 0 };
        }
        let can_be_dense = spec.keys.iter().all(|key| key.kind.is_word());
        Self { row: arrays + work_bytes_per_row(spec), matchable: TableWork::bytes_per_row(can_be_dense) }
    }

    /// Of so many rows, of which so many can match.
    pub fn of(self, rows: usize, matchable: usize) -> usize {
        rows * self.row + matchable * self.matchable
    }
}
