//! Rows that come from outside of a plan while it runs: COPY … FROM STDIN.
//!
//! A short queue is between the sender and the plan, so neither is far ahead of the other. The sender says when the
//! rows have ended: if it goes away before, the plan fails.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use futures::Stream;
use futures::channel::mpsc;

use super::{Node, Plan};
use crate::sync::Mutex;

/// Batches that wait for the plan, beside the one that its sender has.
const BATCHES_WAITING: usize = 1;

/// What is sent.
enum Sent {
    Rows(RecordBatch),
    End,
}

/// Sends rows to a plan.
pub struct RowsSender(mpsc::Sender<Sent>);

impl RowsSender {
    /// Ready when there is room for a batch: true, or false if nobody takes any more. The context's waker is told.
    pub fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        self.0.poll_ready(context).map(|ready| ready.is_ok())
    }

    /// Sends a batch, for which there is room. It is dropped if nobody takes any more.
    pub fn send(&mut self, rows: RecordBatch) {
        let _ = self.0.start_send(Sent::Rows(rows));
    }

    /// Says, where there is room, that all rows were sent.
    pub fn end(&mut self) {
        let _ = self.0.start_send(Sent::End);
    }
}

/// A plan of rows with these columns, and their sender. The plan runs once.
pub fn incoming(schema: SchemaRef) -> (RowsSender, Plan) {
    let (sender, receiver) = mpsc::channel(BATCHES_WAITING);
    let rows = SentRows(Arc::new(Mutex::new(Some(IncomingRows { receiver, has_ended: false }))));
    (RowsSender(sender), Plan::new(Node::Incoming(rows), schema))
}

/// The rows of the one run.
#[derive(Clone)]
pub struct SentRows(Arc<Mutex<Option<IncomingRows>>>);

impl SentRows {
    /// The rows. Fails with kind `Bug` if they were taken already.
    pub(crate) fn take(&self) -> Result<IncomingRows> {
        self.0.lock().take().ok_or_else(|| Error::bug("incoming rows are read twice"))
    }
}

impl fmt::Debug for SentRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SentRows")
    }
}

/// Rows in the order in which they come.
pub(crate) struct IncomingRows {
    receiver: mpsc::Receiver<Sent>,
    has_ended: bool,
}

impl IncomingRows {
    /// The next batch; `None` at the end. Fails with kind `Cancelled` if the sender went away.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<RecordBatch>>> {
        if self.has_ended {
            return Poll::Ready(Ok(None));
        }
        let next = std::task::ready!(Pin::new(&mut self.receiver).poll_next(context));
        self.has_ended = !matches!(next, Some(Sent::Rows(_)));
        Poll::Ready(match next {
            Some(Sent::Rows(rows)) => Ok(Some(rows)),
            Some(Sent::End) => Ok(None),
            None => Err(Error::cancelled()),
        })
    }
}
