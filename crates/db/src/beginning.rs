//! A statement that is being planned on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::task::Poll;
use std::time::Duration;

use diligence_base::{Error, Result};

use crate::result::QueryResult;
use crate::session::Session;

/// The beginning of a statement. Dropped before it is over, it is given up: planning goes on to its end, and then
/// nothing is done.
pub struct Beginning {
    begun: Receiver<Result<QueryResult>>,
    given_up: Arc<AtomicBool>,
}

impl Beginning {
    pub(crate) fn new(session: Session, sql: String) -> Self {
        let (send, begun) = channel();
        let given_up = Arc::new(AtomicBool::new(false));
        let (flag, refused) = (given_up.clone(), send.clone());
        let plan = move || {
            let result = session.start_unless(&sql, &flag);
            // Nobody listens if it was given up meanwhile; then the query that was started is cancelled by being
            // dropped.
            let _ = send.send(result);
        };
        if let Err(error) = std::thread::Builder::new().name("diligence-plan".to_owned()).spawn(plan) {
            // The receiver is in this function, so it is there.
            let _ = refused.send(Err(Error::resource(format!("no thread for planning: {error}"))));
        }
        Self { begun, given_up }
    }

    /// The statement's result, once it has begun; waits for it at most so long.
    pub fn wait(&self, timeout: Duration) -> Poll<Result<QueryResult>> {
        match self.begun.recv_timeout(timeout) {
            Ok(result) => Poll::Ready(result),
            Err(RecvTimeoutError::Timeout) => Poll::Pending,
            Err(RecvTimeoutError::Disconnected) => Poll::Ready(Err(Error::bug("planning the statement ended early"))),
        }
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}
