//! Held: a query that locks rows. They are kept until all of them are locked, and given then.

use std::task::Poll;

use arrow::array::RecordBatch;
use diligence_base::Result;
use diligence_engine::query::{KeptRows, QueryStream};

use super::pull::Pull;

/// A query that locks rows, and those that it has locked.
pub(super) struct Held {
    pub(super) stream: QueryStream,
    pub(super) kept: KeptRows,
    /// Rows that are about to be kept.
    pub(super) next: Option<RecordBatch>,
}

impl Held {
    /// A query that begins to lock.
    pub(super) fn new(stream: QueryStream, kept: KeptRows) -> Box<Self> {
        Box::new(Self { stream, kept, next: None })
    }

    /// Keeps a batch that it has locked. Pending while the disk is behind: then the batch is `next`. Fails with kind
    /// `Resource` if there is no room for it.
    pub(super) fn keep(&mut self, rows: RecordBatch, pull: &mut Pull<'_, '_>) -> Poll<Result<()>> {
        let kept = match pull {
            Pull::Polled(context) => self.kept.poll_push(&rows, context.waker()),
            Pull::Blocking | Pull::Within(_) => Poll::Ready(self.kept.push(&rows)),
        };
        if kept.is_pending() {
            self.next = Some(rows);
        }
        kept
    }
}
