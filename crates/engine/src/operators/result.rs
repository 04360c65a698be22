//! The end of a query: batches become record batches and wait in a port for whoever asked.
//!
//! Invariant: the port ends when the query has ended, and not before: a complete sink is not the end, because the
//! packets and the graph still hold their memory then.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::limits::PORT_CREDITS;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;

use crate::batch::Batch;
use crate::exchange::port::{Receiver, Sender, port};
use crate::flow::{Accept, QueryContext, Sink, SinkState};
use crate::sync::Mutex;

/// Where a query's rows end, and who hears of its end.
pub trait Outcome: Sink {
    /// The query has ended: nothing of it is left. With the error, if one ended it.
    fn end(&self, error: Option<Error>);

    /// Packets that wait until somebody takes a batch.
    fn waiting(&self) -> usize {
        0
    }
}

/// The sink of a query's last pipeline.
pub struct ResultSink {
    schema: SchemaRef,
    /// Kept until the query has ended.
    sender: Mutex<Option<Sender<RecordBatch>>>,
}

impl ResultSink {
    /// A sink for rows of this schema, and the end that they come out of.
    pub fn new(schema: SchemaRef) -> (Arc<Self>, Receiver<RecordBatch>) {
        Self::ahead(schema, PORT_CREDITS)
    }

    /// The same, of which the reader may be so many batches behind.
    pub fn ahead(schema: SchemaRef, credits: usize) -> (Arc<Self>, Receiver<RecordBatch>) {
        let (sender, receiver) = port(credits);
        (Arc::new(Self { schema, sender: Mutex::new(Some(sender)) }), receiver)
    }
}

impl Outcome for ResultSink {
    /// The reader gets what is queued and then the end, or the error.
    fn end(&self, error: Option<Error>) {
        let sender = self.sender.lock().take();
        if let (Some(sender), Some(error)) = (&sender, error) {
            sender.fail(error);
        }
    }

    fn waiting(&self) -> usize {
        self.sender.lock().as_ref().map_or(0, Sender::waiting_senders)
    }
}

impl Sink for ResultSink {
    fn name(&self) -> &'static str {
        "Result"
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SinkState>> {
        let sender = self.sender.lock().clone();
        if let Some(sender) = &sender {
            sender.bound_for_reader(&context.memory);
        }
        Ok(Box::new(ResultState { schema: self.schema.clone(), sender, held: context.memory.reservation("Result") }))
    }
}

struct ResultState {
    schema: SchemaRef,
    sender: Option<Sender<RecordBatch>>,
    /// Nothing by itself: what waits for the reader is reserved beside it.
    held: Reservation,
}

impl SinkState for ResultState {
    fn push(&mut self, batch: Batch, waker: &Waker) -> Result<Accept> {
        let batch = batch.to_record_batch(&self.schema)?;
        let bytes = Batch::from_record_batch(&batch).bytes();
        let sent = self.sender.as_ref().map(|sender| sender.send_reserved(batch, bytes, &self.held, waker));
        Ok(sent.unwrap_or(Accept::Enough))
    }

    /// One packet may have filled the port while another worked: a reader who rests holds rows of one, not of each.
    fn is_full(&mut self, waker: &Waker) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.ready(waker) == Accept::Wait)
    }

    /// Woken for another reason, it still waits.
    fn ready(&mut self, waker: &Waker) -> Result<Accept> {
        Ok(self.sender.as_ref().map_or(Accept::Enough, |sender| sender.ready(waker)))
    }
}
