//! Restart: how a statement goes on when others have changed or locked what it was to change.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::locks::{LockOwner, LockWait, Locks};
use diligence_engine::query::{KeptRows, QueryStream};
use diligence_sql::Returned;

use super::done::DoneAtOnce;
use super::explained::Explained;
use super::several::SeveralRun;

/// Plans and starts a statement once more, since others have changed or locked what it was to change: with the error
/// that ended it, or without one when it has waited; with whether it may wait for a disk meanwhile. Fails with that
/// error if it may not.
pub(crate) type Again = Box<dyn FnMut(Option<Error>, bool) -> Result<Restarted> + Send>;

/// How a statement goes on that others are in the way of.
pub(crate) enum Restarted {
    /// It writes anew.
    Writes(QueryStream, Option<Arc<Returned>>),
    /// It reads anew.
    Reads(QueryStream, KeptRows),
    /// It runs anew, to be measured.
    Analyzes(QueryStream, Explained),
    /// It is several, and runs anew.
    Several(Box<SeveralRun>),
    /// It is done.
    Done(DoneAtOnce),
    /// Another transaction has what it wants.
    Waits(LockWait),
}

/// What a statement has locked.
pub(crate) struct StatementLocks {
    pub(crate) locks: Arc<Locks>,
    pub(crate) owner: LockOwner,
    /// Whether a transaction keeps them.
    pub(crate) is_inside: bool,
}

impl Drop for StatementLocks {
    fn drop(&mut self) {
        match self.is_inside {
            true => self.locks.advance(self.owner),
            false => self.locks.end_transaction(self.owner),
        }
    }
}
