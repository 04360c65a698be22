//! How an engine is started, and how a query is to be run.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use diligence_base::Error;
use diligence_base::function_limits::FunctionLimits;
use diligence_base::limits::{BATCH_ROWS_MAX, COLUMNS_PERCENT, RETAINED_PERCENT, SHARING_ROWS_MIN};
use diligence_base::seams::{Clock, ManualClock, Spawn, SystemClock, ThreadSpawn};
use diligence_disk::{BUFFER_PERCENT, TempOptions};
use diligence_memory::default_budget_bytes;

use crate::plan::bytes::PlanPass;
use crate::plan::{PlanTables, SortPlan};
use crate::stages::Policies;
use crate::tuning::TuningMode;

/// Nanoseconds that the inline executor's clock moves at every look: a quantum is over after a few hundred looks, so
/// that packets interleave without any dependence on real time.
const INLINE_STEP_NS: u64 = 10_000;

/// On which threads packets run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On primed workers.
    Threads,
    /// On the thread that reads the result, in an order given by a seed.
    Inline {
        /// The seed.
        seed: u64,
    },
}

/// How an engine is started.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Worker threads. Default: one per core.
    pub workers: usize,
    /// How far workers stand back behind other threads, as nice(2) counts it, from 0 to 19. Default: 0. See
    /// [`NiceSpawn`](diligence_base::seams::NiceSpawn).
    pub worker_nice: u8,
    /// Whether each worker stays on one core (Linux). Default: no. See
    /// [`PinnedSpawn`](diligence_base::seams::PinnedSpawn).
    pub pin_workers: bool,
    /// The memory budget in bytes. Default: 70 % of the machine's or the container's memory.
    pub memory_bytes: usize,
    /// Which packet runs next.
    pub policy: Policies,
    /// What the tuner does. Default: it says what it would turn.
    pub tuning: TuningMode,
    /// On which threads packets run.
    pub mode: Mode,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Threads.
    pub spawn: Arc<dyn Spawn>,
    /// Where rows go that do not fit in memory. Its clock and threads are taken from the fields here.
    pub temp: TempOptions,
    /// What finished states may have of the budget, in percent, while no query needs it: see
    /// [`Engine::set_retained_percent`](crate::Engine::set_retained_percent).
    pub retained_percent: usize,
    /// What decoded columns may have of it for other scans, in percent, while no query needs it: see
    /// [`Engine::set_columns_percent`](crate::Engine::set_columns_percent).
    pub columns_percent: usize,
    /// What the buffer of clusters may have of it, in percent, while no query needs it: see
    /// [`BufferPool`](diligence_disk::BufferPool).
    pub buffer_percent: usize,
    /// What becomes of each plan before it runs; nothing, if `None`. For tests.
    pub plan_pass: Option<Arc<dyn PlanPass>>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            worker_nice: 0,
            pin_workers: false,
            memory_bytes: default_budget_bytes(),
            policy: Policies::default(),
            tuning: TuningMode::default(),
            mode: Mode::Threads,
            clock: Arc::new(SystemClock::default()),
            spawn: Arc::new(ThreadSpawn),
            temp: TempOptions::default(),
            retained_percent: RETAINED_PERCENT,
            columns_percent: COLUMNS_PERCENT,
            buffer_percent: BUFFER_PERCENT,
            plan_pass: None,
        }
    }
}

impl EngineOptions {
    /// Packets run on the reader's thread in an order given by `seed`, and time stands still but for its looks.
    pub fn inline(seed: u64) -> Self {
        Self {
            workers: 2,
            mode: Mode::Inline { seed },
            clock: Arc::new(ManualClock::stepping(INLINE_STEP_NS)),
            ..Self::default()
        }
    }
}

/// How a query is to be run.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// What `system.queries` shows: the statement.
    pub label: String,
    /// The tables that its plan names.
    pub tables: PlanTables,
    /// Bytes it may reserve at most, on top of the process's budget.
    pub memory_limit_bytes: Option<usize>,
    /// Whether it waits, before it starts, until the budget has a grant for it. A query that is expected to need little
    /// takes what it needs as it goes instead, so that it is not behind those that wait for much; then others are asked
    /// to give back.
    pub waits_for_memory: bool,
    /// Whether a query that does not wait is started again as one that does, by whoever has started it, if it is
    /// refused memory before it has given a row. Then it is refused rather than that it takes much beyond the budget.
    pub starts_again: bool,
    /// The part of what it may reserve, as its divisor, that it waits for if it waits; what queries wait for as a rule
    /// if `None`. For one that was refused memory and is started again.
    pub memory_grant_divisor: Option<usize>,
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
    /// Whether joins and groups of tables that are divided by what is joined on or grouped by are run fragment by
    /// fragment.
    pub fragment_wise: bool,
    /// What the functions in other languages may take that it calls. A query with limits is to share nothing: what it
    /// computes for others would be under its limits.
    pub function_limits: FunctionLimits,
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self {
            label: String::new(),
            tables: PlanTables::default(),
            memory_limit_bytes: None,
            waits_for_memory: true,
            starts_again: false,
            memory_grant_divisor: None,
            work_expected_ns: 0,
            packets: None,
            batch_rows: BATCH_ROWS_MAX,
            sort_plan: SortPlan::default(),
            sharing: SharingMode::default(),
            sharing_rows_min: SHARING_ROWS_MIN,
            fragment_wise: true,
            function_limits: FunctionLimits::default(),
        }
    }
}

/// What queries share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharingMode {
    /// Nothing: every query runs for itself.
    Off,
    /// What scans decode.
    Scans,
    /// Also states: a query reads what another one with the same plan builds.
    States,
    /// Also runs: queries of one template that wait are answered by one.
    #[default]
    All,
}

impl fmt::Display for SharingMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SharingMode::Off => "off",
            SharingMode::Scans => "scans",
            SharingMode::States => "states",
            SharingMode::All => "all",
        })
    }
}

impl FromStr for SharingMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.trim().to_ascii_lowercase().as_str() {
            "off" => Ok(SharingMode::Off),
            "scans" => Ok(SharingMode::Scans),
            "states" => Ok(SharingMode::States),
            "all" | "on" => Ok(SharingMode::All),
            _ => Err(Error::input(format!("expected off, scans, states or all, found '{text}'"))),
        }
    }
}
