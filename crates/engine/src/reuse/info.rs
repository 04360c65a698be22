//! What queries share, as people are shown it.

/// A shared run or a retained state at one moment: a row of `system.sharing`.
#[derive(Clone, Debug)]
pub struct BuildInfo {
    /// `waiting`, `building`, `retained`; `building table`, `retained table` of a join's hash table; or `decoded`, for
    /// a table with columns that are.
    pub state: &'static str,
    /// Different queries that it answers.
    pub queries: usize,
    /// Queries that read it, equal ones included.
    pub readers: usize,
    /// Since when, in nanoseconds before now.
    pub elapsed_ns: u64,
    /// Of a retained state.
    pub bytes: usize,
    /// Queries that have used it since it was built.
    pub uses: u64,
    /// Nanoseconds of work that it saves those who use it, for each byte.
    pub value: f64,
    /// The statement of one of them.
    pub label: String,
}

/// What is shared at one moment, and what was since the start.
#[derive(Clone, Debug, Default)]
pub struct SharingInfo {
    /// What is being built or waits to be, then what is retained, the most valuable first.
    pub builds: Vec<BuildInfo>,
    /// States that are retained, and their bytes.
    pub retained_states: usize,
    /// See there.
    pub retained_bytes: usize,
    /// Queries that found a retained state.
    pub retained_hits_total: u64,
    /// Of those, queries that made their answer of one that has more than they wanted.
    pub subsumed_total: u64,
    /// Retained states that were dropped.
    pub retained_drops_total: u64,
    /// Hash tables of joins that were built where others could ask for them.
    pub tables_built_total: u64,
    /// Hash tables that did not have to be built, because another query had.
    pub tables_read_total: u64,
    /// Decoded columns of clusters that are kept for other scans, and their bytes.
    pub columns_kept: usize,
    /// See there.
    pub columns_bytes: usize,
    /// Columns of clusters that scans have left for others.
    pub columns_left_total: u64,
    /// Columns of clusters that scans did not have to decode.
    pub columns_read_total: u64,
    /// Of those that were kept, dropped ones.
    pub columns_drops_total: u64,
    /// Clusters that scans read when another one that still ran had just read them.
    pub cohort_reads_total: u64,
    /// Queries that asked to share.
    pub queries_total: u64,
    /// Of those, satellites: they found what they wanted in flight, or waiting.
    pub satellites_total: u64,
    /// Runs that built a state.
    pub builds_total: u64,
    /// Runs that built one for several different queries.
    pub merged_builds_total: u64,
    /// Queries that were answered by such a run.
    pub merged_queries_total: u64,
    /// Nanoseconds of work that queries did not do because others had, in states and hash tables, as far as it is
    /// known.
    pub saved_ns_total: u64,
    /// Queries that ran alone in the end, because a run failed or its rows became too many.
    pub retries_total: u64,
}
