//! Pull: how the reader of a result waits for its next rows.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use arrow::array::RecordBatch;
use diligence_base::Result;
use diligence_engine::query::QueryStream;
use futures::StreamExt;

use super::ready::ReadyRows;

/// How a reader waits.
pub(super) enum Pull<'a, 'c> {
    /// As long as it takes.
    Blocking,
    /// Not at all; its waker is told.
    Polled(&'a mut Context<'c>),
    /// Until then; nothing is there yet if it passes.
    Within(Instant),
}

impl Pull<'_, '_> {
    /// The next batch of a running query; pending if there is none yet, never so for a reader that blocks.
    pub(super) fn batch(&mut self, stream: &mut QueryStream) -> Poll<Option<Result<RecordBatch>>> {
        match self {
            Self::Blocking => Poll::Ready(stream.next_blocking()),
            Self::Polled(context) => stream.poll_next_unpin(context),
            Self::Within(end) => stream.next_within(end.saturating_duration_since(Instant::now())),
        }
    }

    /// The next batch of rows that are there, which may have to come from the disk.
    pub(super) fn rows(&mut self, rows: &mut ReadyRows) -> Poll<Option<Result<RecordBatch>>> {
        match self {
            Self::Polled(context) => rows.poll_next(context),
            Self::Blocking | Self::Within(_) => Poll::Ready(rows.next_blocking()),
        }
    }

    /// Waits for a future.
    pub(super) fn wait<F: Future + Unpin>(&mut self, wait: &mut F) -> Poll<F::Output> {
        let end = match self {
            Self::Polled(context) => return Pin::new(wait).poll(context),
            Self::Blocking => None,
            Self::Within(end) => Some(*end),
        };
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(done) = Pin::new(&mut *wait).poll(&mut context) {
                return Poll::Ready(done);
            }
            match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(left) if left.is_zero() => return Poll::Pending,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
