//! What ends a statement before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use diligence_base::{Error, ErrorKind, Result};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::service::Service;
use crate::sqlstate;

/// A statement's end, asked for by its client or by the clock. Clones are of the same statement.
#[derive(Clone, Debug)]
pub(super) struct Cancellation {
    shared: Arc<Shared>,
    deadline: Option<Instant>,
}

#[derive(Debug, Default)]
struct Shared {
    asked: AtomicBool,
    told: Notify,
}

impl Cancellation {
    /// Of a statement that begins now and may take so long; zero for as long as it takes.
    pub(super) fn new(limit: Duration) -> Self {
        let deadline = (!limit.is_zero()).then(|| Instant::now() + limit);
        Self { shared: Arc::default(), deadline }
    }

    /// Asks for the end.
    pub(super) fn cancel(&self) {
        self.shared.asked.store(true, Ordering::Release);
        self.shared.told.notify_waiters();
    }

    /// Comes back when somebody has asked for the end.
    pub(super) async fn asked(&self) {
        loop {
            let told = self.shared.told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.shared.asked.load(Ordering::Acquire) {
                return;
            }
            told.await;
        }
    }

    async fn late(&self) {
        match self.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for work, until it is done or has to end. Fails with the error of the work, with code 57014 if it was
    /// cancelled or took too long, and with code 57P01 if the server ends at once.
    pub(super) async fn within<T>(&self, service: &Service, work: impl Future<Output = Result<T>>) -> Result<T> {
        if self.shared.asked.load(Ordering::Acquire) {
            return Err(cancelled());
        }
        tokio::select! {
            biased;
            done = work => done,
            () = self.asked() => Err(cancelled()),
            () = self.late() => {
                let text = "the statement took longer than statement_timeout allows";
                Err(Error::new(ErrorKind::Cancelled, text).with_code(sqlstate::CANCELLED))
            }
            () = service.stopping_hard() => {
                Err(Error::resource("the server is stopping").with_code(sqlstate::SHUTDOWN))
            }
        }
    }
}

fn cancelled() -> Error {
    Error::cancelled().with_code(sqlstate::CANCELLED)
}
