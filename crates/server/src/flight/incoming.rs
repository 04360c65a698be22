//! Rows that a client sends: messages, decoded on the threads of *execute*, one batch at a time.

use std::sync::Arc;
use std::task::Poll;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use diligence_base::{Error, Result};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tonic::{Status, Streaming};

use super::cancellation::Cancellation;
use super::session::FlightSession;
use super::status::malformed;
use crate::sqlstate;

/// A decoder, and the message that it is to read next.
struct Decoder {
    decoder: FlightDataDecoder,
    next: Arc<Mutex<Option<FlightData>>>,
}

impl Decoder {
    fn new() -> Self {
        let next = Arc::new(Mutex::new(None::<FlightData>));
        let taken = next.clone();
        let messages = futures::stream::poll_fn(move |_| match taken.lock().take() {
            Some(message) => Poll::Ready(Some(Ok(message))),
            None => Poll::Pending,
        });
        Self { decoder: FlightDataDecoder::new(messages), next }
    }

    /// The rows of a message, if it has some.
    fn read(&mut self, message: FlightData) -> Result<Option<RecordBatch>> {
        *self.next.lock() = Some(message);
        match self.decoder.next().now_or_never() {
            // A dictionary, most likely: it waits for the next message.
            None | Some(None) => Ok(None),
            Some(Some(Ok(read))) => match read.payload {
                DecodedPayload::RecordBatch(batch) => Ok(Some(batch)),
                DecodedPayload::Schema(_) | DecodedPayload::None => Ok(None),
            },
            Some(Some(Err(error))) => Err(not_read(&error)),
        }
    }
}

fn not_read(error: &FlightError) -> Error {
    malformed(error)
}

/// What a client sends after its command.
pub(super) struct Incoming {
    first: Option<FlightData>,
    messages: Streaming<FlightData>,
    decoder: Option<Decoder>,
}

impl Incoming {
    /// The rows of a call whose first message, with the command in it, was read.
    pub(super) fn new(first: FlightData, messages: Streaming<FlightData>) -> Self {
        Self { first: Some(first), messages, decoder: Some(Decoder::new()) }
    }

    /// The columns, when the message that has them was read; they come before any row.
    fn schema_now(&self) -> Option<SchemaRef> {
        self.decoder.as_ref()?.decoder.schema().cloned()
    }

    /// The columns; `None` if the client sends no rows.
    pub(super) async fn schema(
        &mut self,
        session: &FlightSession,
        cancellation: &Cancellation,
    ) -> Result<Option<SchemaRef>> {
        while self.schema_now().is_none() {
            match self.message(session, cancellation).await? {
                Some(None) => {}
                Some(Some(_)) => return Err(malformed("rows come before their columns")),
                None => return Ok(None),
            }
        }
        Ok(self.schema_now())
    }

    /// The next rows; `None` at the end.
    pub(super) async fn next(
        &mut self,
        session: &FlightSession,
        cancellation: &Cancellation,
    ) -> Result<Option<RecordBatch>> {
        loop {
            match self.message(session, cancellation).await? {
                Some(None) => {}
                Some(Some(batch)) => return Ok(Some(batch)),
                None => return Ok(None),
            }
        }
    }

    /// What the next message has; `None` at the end.
    async fn message(
        &mut self,
        session: &FlightSession,
        cancellation: &Cancellation,
    ) -> Result<Option<Option<RecordBatch>>> {
        let message = match self.first.take() {
            Some(first) => Some(first),
            None => {
                let messages = &mut self.messages;
                let next = async { messages.message().await.map_err(|status| broken(&status)) };
                cancellation.within(&session.service, next).await?
            }
        };
        let Some(message) = message else { return Ok(None) };
        if message.data_header.is_empty() {
            // Only a command, or what its client noted.
            return Ok(Some(None));
        }
        let mut decoder = self.decoder.take().ok_or_else(|| malformed("rows come after an error"))?;
        let read = move || {
            let rows = decoder.read(message)?;
            Ok((decoder, rows))
        };
        let (decoder, rows) = cancellation.within(&session.service, session.execution().compute(read)).await?;
        self.decoder = Some(decoder);
        Ok(Some(rows))
    }
}

/// The client has gone, or its message is too large.
fn broken(status: &Status) -> Error {
    match status.code() {
        tonic::Code::OutOfRange | tonic::Code::ResourceExhausted => {
            let error = Error::resource(format!("a message is too large: {}", status.message()));
            error.with_code(sqlstate::LIMIT).with_hint("send the rows in smaller batches")
        }
        _ => Error::cancelled().context(status.message()).with_code(sqlstate::CANCELLED),
    }
}
