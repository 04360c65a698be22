//! Queries that run at the same time share what they have in common (QPipe's run-time query merging; Harizopoulos,
//! "Staged Database Systems", section 4.2).
//!
//! The life of a query that may share:
//! 1. [`Wish::of`] *cuts* its plan: below the cut is what others may want as well, most often the topmost aggregate
//!    with all below it. The part below the cut gets its [signatures](signature).
//! 2. [`RunningPlan::bind`](running) looks for a state with the same signature, or with the same rows and more columns.
//!    If there is one, the query becomes its reader. If not, a run is started that builds it; or the query waits, if
//!    another run of the same template is at work, or if enough are.
//! 3. Queries that wait and differ only in the constants of their scans' conditions go together, [as many as
//!    pay](together): one run [groups by the keys and a mask of the queries](regroup) that want the row, which the scan
//!    [gives each row](masks); or keeps the rows with their masks, where groups cannot be
//!    [put together](merge).
//! 4. The run ends in a [spool] that keeps the rows. Every reader then runs its own plan, with these rows in the place
//!    of what is below the cut; of a merged run, with what it makes of the cells, or of the rows, with its bit.
//!
//! Beside that, all scans of one table share [what they decode](columns), cluster by cluster, and joins with equal
//! build sides share their
//! [hash tables](tables). And what one plan has in several places, a query computes [once](common).
//!
//! Invariants:
//! * Nothing is shared but finished states, and columns of clusters that are decoded as a whole. A run that builds one
//!   waits for nobody who reads it, so queries cannot wait in a circle, and a slow reader holds up nobody.
//! * A query that waits holds no memory, and no worker.
//! * A build goes on while it has a reader, whoever was the first. One that fails is tried again by each of its readers
//!   alone, so an error belongs to the query that gets it.

mod books;
mod columns;
mod common;
mod cut;
mod masks;
mod merge;
mod order;
mod parameters;
mod quotient;
mod regroup;
mod retained;
mod running;
mod shape;
mod signature;
mod spool;
mod subsumption;
mod tables;
#[cfg(test)]
mod tests;
mod together;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use diligence_base::Error;

pub(crate) use columns::{Attendance, Choice, ClusterColumns, Scans};
pub(crate) use common::with_common_parts;
pub(crate) use cut::Wish;
use merge::Way;
pub(crate) use parameters::Parameter;
pub(crate) use retained::Retained;
pub(crate) use running::RunningPlan;
pub(crate) use tables::{Answer, Claim, Offer, TableSharing, TableWish, Tables};

use crate::query::QueryRun;
use crate::query::profile::display_ns;
use crate::sync::atomic::{AtomicUsize, Ordering};

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

/// How a query came to its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It was the first to want it.
    Host,
    /// It wanted the same, later.
    Satellite,
}

/// What a query shares with others: a run, or what an earlier one has left.
pub(crate) enum Shared {
    Run(SharedRun),
    Retained(RetainedState),
}

/// A run that is shared.
pub(crate) struct SharedRun {
    pub role: Role,
    pub build: Arc<QueryRun>,
    /// Different queries that the run answers.
    pub merged: usize,
    /// How far it goes, if those are several.
    pub way: Option<Way>,
    /// Readers of the run, of all its queries.
    pub readers: Arc<AtomicUsize>,
    /// Nanoseconds after the start of the run at which the query came; `None` if it was there before.
    pub attached_ns: Option<u64>,
    /// Nanoseconds of work that a query of the template has cost alone, if the run is for several and that is known.
    pub alone_ns: Option<u64>,
    /// What the query makes of its state, if it is not just what the query wants.
    pub residual: Option<String>,
}

/// A state that was there before the query came.
pub(crate) struct RetainedState {
    /// Nanoseconds since it was complete.
    pub age_ns: u64,
    /// Nanoseconds of work in which it was built.
    pub cost_ns: u64,
    /// Queries that have used it since, this one included.
    pub uses: u64,
    /// What the query makes of it, if it is not just what the query wants.
    pub residual: Option<String>,
}

impl Shared {
    /// The run that builds the state, if there is one.
    pub fn build(&self) -> Option<&Arc<QueryRun>> {
        match self {
            Shared::Run(shared) => Some(&shared.build),
            Shared::Retained(_) => None,
        }
    }

    /// The same, if it was started for this query: then its work is this query's.
    pub fn own_build(&self) -> Option<&Arc<QueryRun>> {
        self.build().filter(|_| matches!(self, Shared::Run(shared) if shared.role == Role::Host))
    }

    /// Nanoseconds of work that the query does not do because others do, or did; so far, of a run that goes on. 0 if
    /// nothing is known of it.
    pub fn saved_ns(&self) -> u64 {
        match self {
            Shared::Run(shared) => shared.saved_ns(shared.build.info().waits.worked_ns),
            Shared::Retained(retained) => retained.cost_ns,
        }
    }

    /// For people; `None` while nobody else has a part in it.
    pub fn describe(&self) -> Option<String> {
        match self {
            Shared::Run(shared) => shared.describe(),
            Shared::Retained(retained) => Some(retained.describe()),
        }
    }
}

impl RetainedState {
    fn describe(&self) -> String {
        let (age, cost) = (display_ns(self.age_ns), display_ns(self.cost_ns));
        let uses = match self.uses {
            1 => "once".to_owned(),
            uses => format!("{uses} times"),
        };
        let residual = residual_text(self.residual.as_ref());
        format!("a state from {age} ago, built with {cost} of work, used {uses}{residual}")
    }
}

fn residual_text(residual: Option<&String>) -> String {
    residual.map_or_else(String::new, |residual| format!("; {residual}"))
}

impl SharedRun {
    /// What the query would have worked for itself, less its part of this run's work: each of the different queries has
    /// an equal one, which its host pays for.
    fn saved_ns(&self, worked_ns: u64) -> u64 {
        let alone_ns = if self.merged > 1 { self.alone_ns.unwrap_or(0) } else { worked_ns };
        let own_ns = if self.role == Role::Host { worked_ns / self.merged.max(1) as u64 } else { 0 };
        alone_ns.saturating_sub(own_ns)
    }

    fn describe(&self) -> Option<String> {
        let readers = self.readers.load(Ordering::Relaxed);
        let others = match readers.saturating_sub(1) {
            1 => "1 other query".to_owned(),
            others => format!("{others} other queries"),
        };
        let role = match self.role {
            Role::Host => "host",
            Role::Satellite => "satellite",
        };
        let shared = match (self.merged, readers) {
            (1, 0 | 1) if self.role == Role::Host => return None,
            (1, _) => format!("{role}, one run for this and {others} with the same plan"),
            (merged, _) => {
                let rows = if self.way == Some(Way::Rows) { "the rows of one run" } else { "one run" };
                format!("merged, {rows} for {merged} different queries; this is a {role} beside {others}")
            }
        };
        let attached = match (self.role, self.attached_ns) {
            (Role::Host, _) => String::new(),
            (_, None) => "; attached before it began".to_owned(),
            (_, Some(ns)) => format!("; attached {} after it began", display_ns(ns)),
        };
        let worked_ns = self.build.info().waits.worked_ns;
        let saved = match self.saved_ns(worked_ns) {
            0 => String::new(),
            saved_ns => format!("; saves {}", display_ns(saved_ns)),
        };
        let (work, residual) = (display_ns(worked_ns), residual_text(self.residual.as_ref()));
        Some(format!("{shared}{residual}{attached}{saved}; {work} of work for all"))
    }
}

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
