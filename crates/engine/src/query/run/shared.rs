//! What a query shares with others, as its profile tells it.

use std::sync::Arc;

use super::QueryRun;
use crate::flow::profile::display_ns;
use crate::matching::merge::Way;
use crate::sync::atomic::{AtomicUsize, Ordering};

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
                let templates = if self.way == Some(Way::Page) { " of several templates" } else { "" };
                format!("merged, {rows} for {merged} different queries{templates}; this is a {role} beside {others}")
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
