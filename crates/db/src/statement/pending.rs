//! Pending: a statement that is being parsed and planned on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::task::Poll;
use std::time::Duration;

use diligence_base::{Error, Result};

use super::result::QueryResult;

/// A statement that has not started yet. Dropped before that, it is given up: planning goes on to its end, and then
/// nothing is done.
pub struct PendingStatement {
    started: Receiver<Result<QueryResult>>,
    given_up: Arc<AtomicBool>,
}

impl PendingStatement {
    /// Has `start` called on a thread of its own, with the flag that says whether the statement was given up.
    pub(super) fn new(start: impl FnOnce(&AtomicBool) -> Result<QueryResult> + Send + 'static) -> Self {
        let (sender, started) = channel();
        let given_up = Arc::new(AtomicBool::new(false));
        let (flag, refused) = (given_up.clone(), sender.clone());
        let plan = move || {
            let result = start(&flag);
            // Nobody listens if it was given up meanwhile; then the query that was started is cancelled by being
            // dropped.
            let _ = sender.send(result);
        };
        if let Err(error) = std::thread::Builder::new().name("diligence-plan".to_owned()).spawn(plan) {
            // The receiver is in this function, so it is there.
            let _ = refused.send(Err(Error::resource(format!("no thread for planning: {error}"))));
        }
        Self { started, given_up }
    }

    /// The statement's result, once it has started; waits for it at most so long. Fails with the error of parsing,
    /// planning or starting it, and with kind `Resource` if there is no thread for that.
    pub fn wait(&self, timeout: Duration) -> Poll<Result<QueryResult>> {
        match self.started.recv_timeout(timeout) {
            Ok(result) => Poll::Ready(result),
            Err(RecvTimeoutError::Timeout) => Poll::Pending,
            Err(RecvTimeoutError::Disconnected) => Poll::Ready(Err(Error::bug("planning the statement ended early"))),
        }
    }
}

impl Drop for PendingStatement {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}
