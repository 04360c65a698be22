//! Work that takes long and is no query: it is done on a thread of its own, while nobody who reads the result waits
//! with one.

use std::pin::Pin;
use std::task::{Context, Poll};

use diligence_base::{Error, Result};
use tokio::task::JoinHandle;

use super::cancelling::CancelToken;
use super::ready::ReadyRows;

/// The work, and what it gave when it is done. Dropping it cancels it, as far as it looks at its token.
pub(super) struct Elsewhere {
    token: CancelToken,
    state: State,
}

enum State {
    AtWork(JoinHandle<Result<ReadyRows>>),
    Done(Option<Result<ReadyRows>>),
}

impl Elsewhere {
    /// Begins it. It looks from time to time whether the token is cancelled.
    pub(super) fn begin(
        runtime: &tokio::runtime::Handle,
        token: CancelToken,
        work: impl FnOnce(&CancelToken) -> Result<ReadyRows> + Send + 'static,
    ) -> Self {
        let own = token.clone();
        let handle = runtime.spawn_blocking(move || work(&own));
        Self { token, state: State::AtWork(handle) }
    }

    /// Whether it is still at work, as far as is known.
    pub(super) fn is_at_work(&self) -> bool {
        matches!(&self.state, State::AtWork(handle) if !handle.is_finished())
    }

    /// What it gave, once. Fails with its error.
    pub(super) fn take(&mut self) -> Result<ReadyRows> {
        match &mut self.state {
            State::Done(done) => done.take().unwrap_or_else(|| Err(Error::bug("work is done once"))),
            State::AtWork(_) => Err(Error::bug("work was taken before it was done")),
        }
    }
}

impl Future for Elsewhere {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let State::AtWork(handle) = &mut self.state {
            let joined = std::task::ready!(Pin::new(handle).poll(context));
            let done = joined.unwrap_or_else(|error| Err(Error::bug(format!("a statement's work has ended: {error}"))));
            self.state = State::Done(Some(done));
        }
        Poll::Ready(())
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if matches!(self.state, State::AtWork(_)) {
            self.token.cancel();
        }
    }
}
