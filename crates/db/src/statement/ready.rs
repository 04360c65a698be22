//! Rows that are given when a statement has ended.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use diligence_base::Result;
use diligence_engine::query::KeptRows;

/// Rows that are there.
pub(crate) enum ReadyRows {
    /// A few.
    Few(VecDeque<RecordBatch>),
    /// Any number, and the next one of them.
    Kept(Box<KeptRows>, u64),
}

impl ReadyRows {
    pub(crate) fn kept(rows: KeptRows) -> Self {
        Self::Kept(Box::new(rows), 0)
    }

    /// The next of them, which are not given again; `None` behind the last. Fails if they cannot be read.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        match self {
            Self::Few(rows) => Poll::Ready(rows.pop_front().map(Ok)),
            Self::Kept(rows, next) => {
                let given = ready!(rows.poll_rows_from(*next, context.waker())).transpose();
                Self::gave(next, &given);
                Poll::Ready(given)
            }
        }
    }

    /// The same; waits for the disk.
    pub(super) fn next_blocking(&mut self) -> Option<Result<RecordBatch>> {
        match self {
            Self::Few(rows) => rows.pop_front().map(Ok),
            Self::Kept(rows, next) => {
                let given = rows.rows_from(*next).transpose();
                Self::gave(next, &given);
                given
            }
        }
    }

    fn gave(next: &mut u64, given: &Option<Result<RecordBatch>>) {
        match given {
            Some(Ok(batch)) => *next += batch.num_rows() as u64,
            Some(Err(_)) => *next = u64::MAX,
            None => {}
        }
    }
}

impl Default for ReadyRows {
    fn default() -> Self {
        Self::Few(VecDeque::new())
    }
}

impl From<Vec<RecordBatch>> for ReadyRows {
    fn from(rows: Vec<RecordBatch>) -> Self {
        Self::Few(rows.into())
    }
}
