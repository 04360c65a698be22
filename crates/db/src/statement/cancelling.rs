//! Cancelling: what a statement does now that can be ended from elsewhere.

use std::sync::Arc;
use std::task::Poll;

use diligence_base::{Error, Result};
use diligence_catalog::locks::{GivenUp, LockWait, WaitEnder};
use diligence_engine::query::CancelToken as QueryToken;
use parking_lot::Mutex;

use super::pull::Pull;

/// Cancels a statement from anywhere: another thread, a signal handler.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<Mutex<Cancelling>>);

/// What a statement does now that can be cancelled.
#[derive(Debug, Default)]
struct Cancelling {
    query: Option<QueryToken>,
    wait: Option<WaitEnder>,
    is_cancelled: bool,
}

impl CancelToken {
    /// One for a statement that is a query now.
    pub(super) fn of(query: QueryToken) -> Self {
        Self(Arc::new(Mutex::new(Cancelling { query: Some(query), ..Cancelling::default() })))
    }

    /// Waits until it is the session's turn to have a lock. Fails with code 55P03 if its time was over, and with kind
    /// `Cancelled`.
    pub(super) fn wait_for(&self, mut wait: LockWait) -> Result<()> {
        self.is_now(None, Some(wait.ender()))?;
        let waited = match Pull::Blocking.wait(&mut wait) {
            Poll::Ready(waited) => waited,
            Poll::Pending => Err(Error::bug("a blocking wait did not wait")),
        };
        drop(wait);
        waited.and_then(|()| self.is_now(None, None))
    }

    /// Cancels the statement, if it still runs.
    pub fn cancel(&self) {
        let mut cancelling = self.0.lock();
        cancelling.is_cancelled = true;
        if let Some(query) = &cancelling.query {
            query.cancel();
        }
        if let Some(wait) = &cancelling.wait {
            wait.end(GivenUp::Cancelled);
        }
    }

    /// Fails with kind `Cancelled` if the statement was cancelled.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.lock().is_cancelled { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// The statement does something else from now on. Fails with kind `Cancelled` if it was cancelled.
    pub(super) fn is_now(&self, query: Option<QueryToken>, wait: Option<WaitEnder>) -> Result<()> {
        let mut cancelling = self.0.lock();
        if cancelling.is_cancelled {
            return Err(Error::cancelled());
        }
        (cancelling.query, cancelling.wait) = (query, wait);
        Ok(())
    }
}
