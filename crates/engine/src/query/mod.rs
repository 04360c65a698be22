//! Queries: start, run, cancel, profile, result.

mod info;
#[cfg(test)]
mod pause_tests;
pub mod profile;
mod run;
mod shown;
#[cfg(test)]
mod spill_tests;
mod stream;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod work;

pub use info::{QueryInfo, QueryState, Waits};
pub use run::QueryRun;
pub(crate) use stream::Inline;
pub use stream::{CancelToken, Progress, QueryStream};
pub(crate) use work::catch;

use diligence_base::limits::{BATCH_ROWS_MAX, SHARING_ROWS_MIN};

use crate::operators::sort::SortPlan;
use crate::sharing::SharingMode;

/// How a query is to be run.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// What `system.queries` shows: the statement.
    pub label: String,
    /// Bytes it may reserve at most, on top of the process's budget.
    pub memory_limit_bytes: Option<usize>,
    /// Whether it waits, before it starts, until the budget has a grant for it. A query that is expected to need little
    /// takes what it needs as it goes instead, so that it is not behind those that wait for much; then others are asked
    /// to give back.
    pub waits_for_memory: bool,
    /// What it is expected to use of workers, in nanoseconds; 0 where nobody knows. It counts as used from the start,
    /// so that one that is known to take long is never taken for one that has only begun
    /// ([`PolicyKind::TwoLevel`](crate::stages::PolicyKind::TwoLevel)).
    pub work_expected_ns: u64,
    /// Packets that may work on one pipeline at once; one per worker if `None`.
    pub packets: Option<usize>,
    /// Rows in a batch at most.
    pub batch_rows: usize,
    /// Which runs of a sort on the disk are merged when.
    pub sort_plan: SortPlan,
    /// What it may share with other queries.
    pub sharing: SharingMode,
    /// A query is shared if its plan is expected to touch so many rows; smaller ones cost less than finding out.
    pub sharing_rows_min: usize,
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self {
            label: String::new(),
            memory_limit_bytes: None,
            waits_for_memory: true,
            work_expected_ns: 0,
            packets: None,
            batch_rows: BATCH_ROWS_MAX,
            sort_plan: SortPlan::default(),
            sharing: SharingMode::default(),
            sharing_rows_min: SHARING_ROWS_MIN,
        }
    }
}
