//! Rows on their way to a client: made batch by batch, as fast as the client takes them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::FlightData;
use diligence_base::{Error, Result};
use futures::future::BoxFuture;
use futures::{Stream, TryStreamExt};
use tonic::Status;

use super::parameters::Parameters;
use super::prepared::Kind;
use super::session::{FlightSession, Running};
use super::statement::Outcome;
use super::status::status;
use crate::encoding::flight::{FlightWriter, told_schema};
use crate::execution::{Making, RunningStatement, delivered};

/// Messages of rows, as gRPC takes them.
pub(super) type Rows = Pin<Box<dyn Stream<Item = std::result::Result<FlightData, Status>> + Send>>;

/// Where rows come from.
struct Source {
    kind: Kind,
    values: Parameters,
    /// The row of values that is next.
    next: usize,
    running: Option<RunningStatement>,
    /// The columns, as soon as they are known.
    schema: Option<SchemaRef>,
}

impl Source {
    /// The next rows; `None` at the end of what the last row of values gives. What the columns are is told once.
    async fn batch(&mut self, session: &FlightSession, call: &Running) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(running) = &mut self.running {
                let next = async { running.next().await.transpose() };
                let batch = call.cancellation.within(&session.service, next).await?;
                if self.schema.is_none() {
                    self.schema = Some(running.schema().clone());
                }
                match batch {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.running = None,
                }
            }
            let Some(values) = self.values.row(self.next) else { return Ok(None) };
            self.next += 1;
            match session.start(&self.kind, values, &call.cancellation).await? {
                Outcome::Running(running) => self.running = Some(running),
                Outcome::Rows(rows) => {
                    self.schema.get_or_insert_with(|| rows.schema());
                    return Ok(Some(rows));
                }
                Outcome::Done(_) => {}
            }
        }
    }
}

/// Messages of rows that are being made.
struct MessageMaking {
    session: Arc<FlightSession>,
    call: Running,
    source: Source,
    writer: Option<FlightWriter>,
    /// What was made and has not gone out.
    made: VecDeque<FlightData>,
    first: Option<RecordBatch>,
    has_ended: bool,
}

/// The rows of a statement, run with each row of the values. An error before the first row is the call's error; later
/// ones break the stream off, so that nobody takes a part for the whole.
pub(super) async fn rows(
    session: &Arc<FlightSession>,
    kind: Kind,
    values: Parameters,
    schema: Option<SchemaRef>,
    call: Running,
) -> Result<Rows> {
    let mut source = Source { kind, values, next: 0, running: None, schema };
    let first = source.batch(session, &call).await?;
    let schema = source.schema.clone().unwrap_or_else(|| Arc::new(Schema::empty()));
    let schema = told_schema(&schema);
    let writer = FlightWriter::new(schema);
    let made = VecDeque::from([writer.schema()]);
    let making =
        MessageMaking { session: session.clone(), call, source, writer: Some(writer), made, first, has_ended: false };
    // The session is listed, and the server waits for it when it drains, until the client has the last message.
    Ok(Box::pin(delivered(making, session.clone()).map_err(|error| status(&error))))
}

/// Rows that are there.
pub(super) async fn known_rows(session: &FlightSession, schema: SchemaRef, batch: Option<RecordBatch>) -> Result<Rows> {
    let write = move || {
        let mut writer = FlightWriter::new(schema);
        let mut messages = vec![writer.schema()];
        if let Some(batch) = batch {
            messages.extend(writer.batch(&batch)?);
        }
        Ok(messages)
    };
    let messages = session.execution().compute(write).await?;
    Ok(Box::pin(futures::stream::iter(messages.into_iter().map(Ok))))
}

impl Making for MessageMaking {
    type Piece = FlightData;

    async fn piece(&mut self) -> Result<Option<FlightData>> {
        let message = self.message().await;
        self.session.noted(message)
    }

    fn stall(&mut self) {
        if let Some(running) = &mut self.source.running {
            running.stall();
        }
    }

    fn stall_time_max(&self) -> Duration {
        self.session.service.options().limits.stall_time_max
    }

    fn stopped(&self) -> BoxFuture<'static, ()> {
        let cancellation = self.call.cancellation.clone();
        Box::pin(async move { cancellation.asked().await })
    }
}

impl MessageMaking {
    async fn message(&mut self) -> Result<Option<FlightData>> {
        loop {
            if let Some(message) = self.made.pop_front() {
                return Ok(Some(message));
            }
            let batch = match self.first.take() {
                Some(batch) => Some(batch),
                None if self.has_ended => None,
                None => self.source.batch(&self.session, &self.call).await?,
            };
            let Some(batch) = batch else {
                self.has_ended = true;
                return Ok(None);
            };
            let mut writer = self.writer.take().ok_or_else(|| Error::bug("a stream without a writer"))?;
            let write = move || {
                let messages = writer.batch(&batch)?;
                Ok((writer, messages))
            };
            let write = self.session.execution().compute(write);
            let (writer, messages) = self.call.cancellation.within(&self.session.service, write).await?;
            self.writer = Some(writer);
            self.made.extend(messages);
        }
    }
}
