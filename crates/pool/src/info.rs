//! What `system.pool` and `system.pool_numbers` show of a pool.

use crate::code::{KeptFrom, Runtime};
use crate::growth::{Counts, Growth};
use crate::standing::Totals;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It has not said yet that it has started, and nobody waits for it.
    Starting,
    /// It waits for a call.
    Idle,
    /// It serves one.
    Active,
}

impl ProcessState {
    /// Its name in `system.pool`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Active => "active",
        }
    }
}

/// The numbers of a runtime's processes: what `system.pool_numbers` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolNumbers {
    /// What the processes run functions of.
    pub runtime: Runtime,
    /// How many there are or will be in a moment, and how many are at work or waited for.
    pub counts: Counts,
    /// The bounds.
    pub growth: Growth,
    /// Processes that were asked for.
    pub requested_total: u64,
    /// Processes that were started.
    pub started_total: u64,
    /// Processes that were ended because nobody needed them, or because they were started with other settings.
    pub ended_total: u64,
    /// Processes that were killed: their calls took too long or were cancelled, or they said what makes no sense.
    pub killed_total: u64,
    /// Processes that ended by themselves.
    pub died_total: u64,
    /// Starts that the system refused.
    pub refused_total: u64,
}

impl PoolNumbers {
    /// Those of no process.
    pub(crate) fn none(runtime: Runtime, growth: Growth) -> Self {
        Self {
            runtime,
            counts: Counts::default(),
            growth,
            requested_total: 0,
            started_total: 0,
            ended_total: 0,
            killed_total: 0,
            died_total: 0,
            refused_total: 0,
        }
    }

    /// These and those of some of its processes.
    pub(crate) fn add(&mut self, counts: Counts, totals: Totals) {
        let Totals { requested, started, ended, killed, died, refused } = totals;
        self.counts = self.counts.and(counts);
        self.requested_total += requested;
        self.started_total += started;
        self.ended_total += ended;
        self.killed_total += killed;
        self.died_total += died;
        self.refused_total += refused;
    }
}

/// A process at one moment: what `system.pool` shows.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    /// Its number within the pool, among those of its runtime.
    pub number: u64,
    /// What it runs functions of.
    pub runtime: Runtime,
    /// Its number in the operating system.
    pub pid: u32,
    /// What functions in it cannot reach.
    pub kept_from: KeptFrom,
    /// What it does.
    pub state: ProcessState,
    /// The names of the functions that it has, the one used last at the end.
    pub functions: Vec<String>,
    /// Calls that it has served.
    pub calls: u64,
    /// Rows of these.
    pub rows: u64,
    /// Bytes that it has in memory, its code and libraries among them; 0 where the system does not say.
    pub memory_bytes: u64,
}
