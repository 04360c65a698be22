//! The life of a statement, phase by phase:
//!
//! ```text
//! text ── parse ──▶ ParsedStatement ── plan ──▶ PlannedStatement ── start ──▶ QueryResult ──▶ rows
//!   ╰───────────────── the plan cache ─────────────────▲
//! ```
//!
//! 1. `parse`: the text becomes a syntax tree.
//! 2. `plan`: names are resolved against the catalog, and the tree becomes a plan. A text that comes again finds its
//!    plan in the [plan cache](crate::plans) while its tables are as they were.
//! 3. `start`: the engine takes the plan and runs it; a command is done.
//! 4. `result`: rows come out as they appear. Dropping the result cancels the query.
//!
//! [`Session::execute`] goes all the way, [`Session::start`] to the result, [`Session::start_pending`] does so on
//! another thread, and servers call the phases one by one, on threads of their own stages. `append` adds rows that come
//! without a statement.

mod append;
mod cancelling;
mod concurrently;
mod current;
mod done;
mod elsewhere;
mod explained;
mod export;
mod export_roles;
mod held;
mod maintenance;
mod parse;
mod pending;
mod plan;
mod procedures;
mod pull;
mod quoting;
mod ready;
mod restart;
mod result;
mod second_start;
mod several;
mod several_start;
mod start;
mod system_settings;
#[cfg(test)]
mod tests;
mod transaction;

use std::sync::atomic::{AtomicBool, Ordering};

use diligence_base::{Error, Result};

pub use append::Append;
pub use cancelling::CancelToken;
pub use current::{FollowedQuery, StatementAtRow};
pub use pending::PendingStatement;
pub use result::{QueryResult, ResultKind};
pub use start::Short;

use crate::plans::{PlanKey, PlannedStatement};
use crate::session::Session;

impl Session {
    /// Runs exactly one statement. A query's rows come out of the result as they appear; a statement that changes
    /// something is done when this returns. Fails with kind `Input` if the text is not one statement that makes sense,
    /// with kind `Unsupported` if it asks for what we do not have, with kind `File` if a file cannot be read or
    /// written, and as a statement that changes something fails: with kind `Value` if a value does not fit, with kind
    /// `Resource` if there is no memory. Errors of a query's rows come out of the result.
    pub fn execute(&self, sql: &str) -> Result<QueryResult> {
        let mut result = self.start(sql)?;
        result.settle()?;
        Ok(result)
    }

    /// As [`execute`](Self::execute), for async code: planning, which may open files, happens on a thread of its own.
    /// Fails as that does.
    pub async fn execute_async(&self, sql: &str) -> Result<QueryResult> {
        let (session, sql) = (self.clone(), sql.to_owned());
        let planning = self.database().engine().io_handle().spawn_blocking(move || session.start(&sql));
        let planned = planning.await.map_err(|error| Error::bug(format!("planning ended early: {error}")))?;
        let mut result = planned?;
        result.settle_async().await?;
        Ok(result)
    }

    /// Starts exactly one statement. Unlike with [`execute`](Self::execute), a statement that changes something does
    /// its work while the result is read, so that its progress can be seen and it can be cancelled; unread, it does
    /// nothing. Fails with kind `Input` if the text is not one statement that makes sense, with kind `Unsupported` if
    /// it asks for what we do not have, and with kind `File` if a file cannot be read.
    pub fn start(&self, sql: &str) -> Result<QueryResult> {
        self.start_unless(sql, &AtomicBool::new(false))
    }

    /// Starts exactly one statement on a thread of its own, so that one can give up waiting for it: planning opens
    /// files and computes constants, and cannot be interrupted.
    pub fn start_pending(&self, sql: &str) -> PendingStatement {
        let (session, sql) = (self.clone(), sql.to_owned());
        PendingStatement::new(move |given_up| session.start_unless(&sql, given_up))
    }

    /// As [`start`](Self::start). Once it was given up, a planned statement does nothing.
    pub(crate) fn start_unless(&self, sql: &str, given_up: &AtomicBool) -> Result<QueryResult> {
        let planned = self.planned(sql.trim())?;
        if given_up.load(Ordering::Relaxed) {
            return Err(Error::cancelled());
        }
        self.start_planned(planned)
    }

    /// The plan of a text: from the cache, if it is there and current.
    fn planned(&self, text: &str) -> Result<PlannedStatement> {
        let cache = self.database().plan_cache();
        let key = PlanKey::new(self.planning_identity(), text, &[]);
        let remembered = key.as_ref().and_then(|key| cache.get(key)).map(|remembered| remembered.plan);
        if let Some(planned) = remembered.and_then(|plan| plan.renewed(self)) {
            cache.count(true);
            return Ok(planned.labelled(text));
        }
        cache.count(false);
        let planned = self.plan(&self.parse(text)?, &[])?;
        if let Some(key) = key {
            cache.put(key, &planned);
        }
        Ok(planned)
    }
}
