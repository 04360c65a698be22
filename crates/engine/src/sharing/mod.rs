//! Queries that run at the same time share what they have in common (QPipe's run-time query merging; Harizopoulos, "Staged Database
//! Systems", section 4.2).
//!
//! The life of a query that may share:
//! 1. [`Wish::of`] *cuts* its plan: below the cut is what others may want as well, most often the topmost aggregate with all below it.
//!    The part below the cut gets its [signatures](signature).
//! 2. [`RunningPlan::bind`](running) looks for a state with the same signature. If there is one, the query becomes its reader. If not,
//!    a run is started that builds it; or the query waits, if another run of the same template is at work, or if enough are.
//! 3. Queries that wait and differ only in the constants of their scans' conditions go together: one run [groups by the keys and a
//!    mask of the queries](regroup) that want the row, which the scan [gives each row](masks).
//! 4. The run ends in a [spool] that keeps the rows. Every reader then runs its own plan, with these rows in the place of what
//!    is below the cut; of a merged run, with its own groups put together from the cells with its bit.
//!
//! Invariants:
//! * Nothing is shared but finished states. A run that builds one waits for nobody who reads it, so queries cannot wait in a circle,
//!   and a slow reader holds up nobody.
//! * A query that waits holds no memory, and no worker.
//! * A build goes on while it has a reader, whoever was the first. One that fails is tried again by each of its readers alone, so an
//!   error belongs to the query that gets it.

mod cut;
mod masks;
mod parameters;
mod quotient;
mod regroup;
mod running;
mod signature;
mod spool;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use diligence_base::Error;

pub(crate) use cut::Wish;
pub(crate) use parameters::Parameter;
pub(crate) use running::RunningPlan;

use crate::query::QueryRun;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// What queries share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharingMode {
    /// Nothing: every query runs for itself.
    Off,
    /// States: a query reads what another one with the same plan builds.
    States,
    /// Also runs: queries of one template that wait are answered by one.
    #[default]
    All,
}

impl fmt::Display for SharingMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SharingMode::Off => "off",
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
            "states" => Ok(SharingMode::States),
            "all" | "on" => Ok(SharingMode::All),
            _ => Err(Error::input(format!("expected off, states or all, found '{text}'"))),
        }
    }
}

/// How a query came to its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It was the first to want it.
    Host,
    /// It wanted the same, later.
    Satellite,
}

/// What a query shares with others.
pub(crate) struct Shared {
    pub role: Role,
    pub build: Arc<QueryRun>,
    /// Different queries that the run answers.
    pub merged: usize,
    /// Readers of the run, of all its queries.
    pub readers: Arc<AtomicUsize>,
}

impl Shared {
    /// Whether the run was started for this query, and its work is this query's.
    pub fn is_host(&self) -> bool {
        self.role == Role::Host
    }

    /// The run that builds the state.
    pub fn build(&self) -> &Arc<QueryRun> {
        &self.build
    }

    /// For people; `None` while nobody else has a part in it.
    pub fn describe(&self) -> Option<String> {
        let readers = self.readers.load(Ordering::Relaxed);
        let others = match readers.saturating_sub(1) {
            1 => "1 other query".to_owned(),
            others => format!("{others} other queries"),
        };
        let role = match self.role {
            Role::Host => "host",
            Role::Satellite => "satellite",
        };
        match (self.merged, readers) {
            (1, 0 | 1) if self.role == Role::Host => None,
            (1, _) => Some(format!("{role}, one run for this and {others} with the same plan")),
            (merged, _) => {
                Some(format!("merged, one run for {merged} different queries; this is a {role} beside {others}"))
            }
        }
    }
}

/// A shared run at one moment: a row of `system.sharing`.
#[derive(Clone, Debug)]
pub struct BuildInfo {
    /// What it does: `waiting` or `building`.
    pub state: &'static str,
    /// Different queries that it answers.
    pub queries: usize,
    /// Queries that read it, equal ones included.
    pub readers: usize,
    /// Since when, in nanoseconds before now.
    pub elapsed_ns: u64,
    /// The statement of one of them.
    pub label: String,
}

/// What is shared at one moment, and what was since the start.
#[derive(Clone, Debug, Default)]
pub struct SharingInfo {
    /// What is being built or waits to be.
    pub builds: Vec<BuildInfo>,
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
    /// Queries that ran alone in the end, because a run failed or its rows became too many.
    pub retries_total: u64,
}
