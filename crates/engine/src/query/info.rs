//! What one can see of a query from outside.

use diligence_base::Error;
use diligence_base::ids::QueryId;

/// Where a query is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryState {
    /// It waits for memory before it starts.
    Queued,
    /// Packets of it are queued, running or waiting.
    Running,
    /// All rows were produced.
    Finished,
    /// An error ended it.
    Failed,
    /// It was cancelled, or its reader went away.
    Cancelled,
}

impl QueryState {
    /// The name in `system.queries`.
    pub fn name(self) -> &'static str {
        match self {
            QueryState::Queued => "queued",
            QueryState::Running => "running",
            QueryState::Finished => "finished",
            QueryState::Failed => "failed",
            QueryState::Cancelled => "cancelled",
        }
    }
}

/// What a query's packets wait for, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waits {
    /// Nanoseconds in queues.
    pub queued_ns: u64,
    /// Nanoseconds on workers.
    pub worked_ns: u64,
}

/// A query at one moment: what `system.queries` shows.
#[derive(Clone, Debug)]
pub struct QueryInfo {
    /// Its number.
    pub id: QueryId,
    /// The statement.
    pub label: String,
    /// Where it is.
    pub state: QueryState,
    /// When it started, in nanoseconds of the engine's clock.
    pub started_ns: u64,
    /// How long it has run, in nanoseconds.
    pub elapsed_ns: u64,
    /// Bytes reserved now.
    pub memory_bytes: usize,
    /// The most bytes reserved at once.
    pub memory_peak_bytes: usize,
    /// Packets that are queued, running or waiting.
    pub packets: usize,
    /// Clusters read so far.
    pub clusters_done: usize,
    /// Clusters to be read, as far as known.
    pub clusters_total: usize,
    /// Time in queues and on workers.
    pub waits: Waits,
    /// What it shares with other queries, in words; `None` if nothing that is built for more than one.
    pub sharing: Option<String>,
    /// Why it failed.
    pub error: Option<Error>,
}
