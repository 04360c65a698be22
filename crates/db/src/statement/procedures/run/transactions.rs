//! COMMIT and ROLLBACK in a procedure: the transaction ends, and another one begins.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use diligence_base::{Error, Result};
use diligence_catalog::Isolation;
use diligence_sql::procedural::Sql;

use super::Run;
use crate::session::Parts;

impl Run<'_> {
    /// The same run, whose steps may end the transaction if that is the procedure's own.
    pub(crate) fn ending_transactions(mut self, may_end: bool) -> Self {
        self.may_end = may_end && self.procedure.acts_as.is_none() && self.procedure.settings.is_empty();
        self
    }

    /// As whom it runs, if that is not whoever calls it.
    pub(crate) fn acts_as(&self) -> Option<&str> {
        self.procedure.acts_as.as_deref()
    }

    /// What settings are while it runs.
    pub(crate) fn settings(&self) -> &[(String, String)] {
        &self.procedure.settings
    }

    /// Ends the transaction, and begins another one: like it if it `chains`, else as the session's do. Fails with 2D000
    /// within the caller's, in a function, and where a handler would take back what is committed.
    pub(super) fn end_transaction(&self, commits: bool, chains: bool) -> Result<()> {
        if self.guarded > 0 && self.may_end {
            let what = if commits { "commit" } else { "roll back" };
            let message = format!("cannot {what} while a subtransaction is active");
            return Err(Error::input(message).with_code("2D000"));
        }
        if !self.may_end {
            return Err(Error::input("invalid transaction termination").with_code("2D000"));
        }
        let planner = self.session.planner();
        let isolation = match planner.facts().settings.get("default_transaction_isolation").map(String::as_str) {
            _ if chains => planner.catalogs().isolation().unwrap_or(Isolation::ReadCommitted),
            Some("repeatable read") => Isolation::RepeatableRead,
            Some("serializable") => Isolation::Serializable,
            _ => Isolation::ReadCommitted,
        };
        let ended = match commits {
            true => self.session.commit(),
            false => {
                self.session.roll_back();
                Ok(())
            }
        };
        self.session.begin(isolation)?;
        ended
    }

    /// Has a procedure that a statement calls end transactions as this one does; until what is given is dropped.
    pub(super) fn lending(&self, sql: &Sql) -> Lent {
        let first = sql.text.trim_start();
        let calls = |word: &str| first.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let may_end = self.may_end && self.guarded == 0 && (calls("call ") || calls("do "));
        let parts = self.session.parts().clone();
        parts.ends_transactions().store(may_end, Ordering::Release);
        Lent(parts)
    }
}

/// See [`Run::lending`].
pub(super) struct Lent(Arc<Parts>);

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.ends_transactions().store(false, Ordering::Release);
    }
}
