//! What a statement gives: rows as they appear, or the word that it is done.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::Result;
use diligence_base::ids::QueryId;
use diligence_engine::query::profile::Profile;
use diligence_engine::query::{CancelToken, Progress, QueryStream};
use futures::Stream;
use std::sync::Arc;

/// What kind of result it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// Rows.
    Rows,
    /// A command that was done.
    Command {
        /// What was done: CREATE TABLE, SET, …
        tag: &'static str,
        /// Rows that it wrote, if it wrote any.
        rows: Option<u64>,
    },
}

/// The result of one statement. A stream of batches, for async code and for threads. Dropping it cancels the query.
#[derive(Debug)]
pub struct QueryResult {
    kind: ResultKind,
    schema: SchemaRef,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// A query of the engine.
    Stream(Box<QueryStream>),
    /// Rows that are known already.
    Batches(std::vec::IntoIter<RecordBatch>),
}

impl QueryResult {
    pub(crate) fn stream(stream: QueryStream) -> Self {
        Self { kind: ResultKind::Rows, schema: stream.schema(), source: Source::Stream(Box::new(stream)) }
    }

    pub(crate) fn batch(batch: RecordBatch) -> Self {
        Self { kind: ResultKind::Rows, schema: batch.schema(), source: Source::Batches(vec![batch].into_iter()) }
    }

    pub(crate) fn command(tag: &'static str, rows: Option<u64>) -> Self {
        Self {
            kind: ResultKind::Command { tag, rows },
            schema: Arc::new(Schema::empty()),
            source: Source::Batches(Vec::new().into_iter()),
        }
    }

    /// Rows or a command.
    pub fn kind(&self) -> &ResultKind {
        &self.kind
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The query's number, if the engine runs one.
    pub fn id(&self) -> Option<QueryId> {
        self.query().map(QueryStream::id)
    }

    /// How far the query is.
    pub fn progress(&self) -> Progress {
        self.query().map(QueryStream::progress).unwrap_or_default()
    }

    /// What the query has done so far; final after the last batch.
    pub fn profile(&self) -> Profile {
        self.query().map(QueryStream::profile).unwrap_or_default()
    }

    /// Cancels the query from another thread, if the engine runs one.
    pub fn cancel_token(&self) -> Option<CancelToken> {
        self.query().map(QueryStream::cancel_token)
    }

    fn query(&self) -> Option<&QueryStream> {
        match &self.source {
            Source::Stream(stream) => Some(stream),
            Source::Batches(_) => None,
        }
    }

    /// The next batch; waits for it. Not for async code.
    pub fn next_blocking(&mut self) -> Option<Result<RecordBatch>> {
        match &mut self.source {
            Source::Stream(stream) => stream.next_blocking(),
            Source::Batches(batches) => batches.next().map(Ok),
        }
    }

    /// The next batch, if there is one within `timeout`; pending otherwise.
    pub fn next_within(&mut self, timeout: Duration) -> Poll<Option<Result<RecordBatch>>> {
        match &mut self.source {
            Source::Stream(stream) => stream.next_within(timeout),
            Source::Batches(batches) => Poll::Ready(batches.next().map(Ok)),
        }
    }

    /// All batches; waits for them. Not for async code.
    pub fn collect(mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next_blocking() {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

impl Stream for QueryResult {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.source {
            Source::Stream(stream) => Pin::new(stream.as_mut()).poll_next(context),
            Source::Batches(batches) => Poll::Ready(batches.next().map(Ok)),
        }
    }
}
