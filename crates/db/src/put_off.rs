//! Constraint triggers that run when a transaction ends, or when SET CONSTRAINTS says so.
//!
//! Kept in the order in which their rows changed. Those that have run stay until the transaction ends: a ROLLBACK TO
//! from before they ran has them wait again.

use std::collections::HashSet;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::RelationName;
use diligence_sql::DeferredTrigger;

/// How far a transaction's triggers were at a point to which it may go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PutOffMark {
    waiting: usize,
    run: usize,
}

/// The triggers of a transaction that were put off.
#[derive(Debug, Default)]
pub(crate) struct PutOff {
    triggers: Vec<Arc<DeferredTrigger>>,
    /// Which of them have run, by place.
    has_run: Vec<bool>,
    /// The places of those that have run, in the order in which they did.
    run: Vec<usize>,
    /// Those before this place have all run.
    first: usize,
}

impl PutOff {
    pub(crate) fn add(&mut self, trigger: DeferredTrigger) {
        self.triggers.push(trigger.into());
        self.has_run.push(false);
    }

    /// Whether all have run.
    pub(crate) fn is_done(&self) -> bool {
        self.run.len() == self.triggers.len()
    }

    /// The first one that is to run, of those that `fits` says; it counts as one that has run.
    pub(crate) fn next(&mut self, fits: impl Fn(&DeferredTrigger) -> bool) -> Option<Arc<DeferredTrigger>> {
        while self.has_run.get(self.first).is_some_and(|has_run| *has_run) {
            self.first += 1;
        }
        let place =
            (self.first..self.triggers.len()).find(|place| !self.has_run[*place] && fits(&self.triggers[*place]))?;
        self.has_run[place] = true;
        self.run.push(place);
        Some(self.triggers[place].clone())
    }

    /// Fails with code 55006 if one of these tables, which a statement changes as a whole, has rows whose triggers
    /// wait.
    pub(crate) fn refuse_waiting(&self, tables: &[RelationName], what: &str) -> Result<()> {
        let waiting = self.triggers.iter().zip(&self.has_run).filter(|(_, has_run)| !**has_run);
        let waiting = waiting.map(|(trigger, _)| &trigger.table().name).collect::<HashSet<_>>();
        let Some(table) = tables.iter().find(|table| waiting.contains(table)) else { return Ok(()) };
        let message = format!("cannot {what} \"{}\" because it has pending trigger events", table.name);
        let error = Error::input(message).with_code("55006");
        Err(error.with_hint("SET CONSTRAINTS ALL IMMEDIATE runs the triggers now"))
    }

    pub(crate) fn mark(&self) -> PutOffMark {
        PutOffMark { waiting: self.triggers.len(), run: self.run.len() }
    }

    /// What has come since is forgotten, and what has run since waits again.
    pub(crate) fn back_to(&mut self, mark: PutOffMark) {
        for place in self.run.drain(mark.run.min(self.run.len())..) {
            self.has_run[place] = false;
            self.first = self.first.min(place);
        }
        self.triggers.truncate(mark.waiting);
        self.has_run.truncate(mark.waiting);
    }
}
