//! Done: what a command that is done says of itself, which is its tag, and how many rows it has written.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;

/// A command's tag and count.
pub(super) struct Done {
    pub(super) tag: &'static str,
    /// How many it has written, as far as that is known and makes sense.
    pub(super) rows: Option<u64>,
    /// Whether rows come when it is done.
    pub(super) is_returning: bool,
}

/// What a statement gave that was done at once.
#[derive(Default)]
pub(crate) struct DoneAtOnce {
    /// The rows that it gives.
    pub(crate) rows: Vec<RecordBatch>,
    /// How many it has written; `None` if it does not write.
    pub(crate) count: Option<u64>,
}

/// The one number in the one row that a writing plan gives.
pub(super) fn count_of(batch: &RecordBatch) -> u64 {
    let counts = batch.columns().first().and_then(|column| column.as_primitive_opt::<UInt64Type>());
    counts.map_or(0, |counts| counts.values().iter().sum())
}
