//! Result: what a statement gives, which is rows as they appear, or the word that it is done.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::datatypes::{Schema, SchemaRef, UInt64Type};
use diligence_base::ids::QueryId;
use diligence_base::{Error, Result};
use diligence_engine::flow::profile::Profile;
use diligence_engine::plan::Plan;
use diligence_engine::query::{CancelToken as QueryToken, QueryStream};
use diligence_sql::{Returned, Statement};
use diligence_storage::foreign_error::from_arrow;
use futures::{Stream, StreamExt};

use crate::plan_json;
use crate::plans::Used;
use crate::status::Progress;

/// What kind of result a statement has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind<'a> {
    /// Rows.
    Rows,
    /// Something was done.
    Command {
        /// What, as PostgreSQL says it: `CREATE TABLE`, `INSERT`.
        tag: &'a str,
        /// Rows that it concerned, where that makes sense. Known when the work is done.
        rows: Option<u64>,
    },
}

/// Cancels a statement from anywhere: another thread, a signal handler.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Option<QueryToken>);

impl CancelToken {
    /// Cancels the statement, if it still runs.
    pub fn cancel(&self) {
        if let Some(token) = &self.0 {
            token.cancel();
        }
    }
}

/// The result of a statement: a stream of batches, blocking or not. Dropping it cancels what still runs.
pub struct QueryResult {
    schema: SchemaRef,
    command: Option<Done>,
    body: Body,
    id: Option<QueryId>,
    token: CancelToken,
    /// Of a query that has ended.
    last: Option<(Profile, Progress)>,
    /// For a statement that writes by itself, with how often it may.
    again: Option<(Again, usize)>,
}

/// A command's tag and count.
struct Done {
    tag: &'static str,
    rows: Option<u64>,
    /// Whether rows come when it is done.
    is_returning: bool,
}

/// Plans and starts a statement once more, since others have changed what it was to change.
pub(crate) type Again = Box<dyn FnMut() -> Result<(QueryStream, Option<Arc<Returned>>)> + Send>;

/// How often a statement is started anew.
const RETRIES_MAX: usize = 100;

enum Body {
    /// Rows that are there already.
    Ready(VecDeque<RecordBatch>),
    /// Rows of a running query.
    Query(QueryStream),
    /// A query that writes, and gives the number of rows; with what RETURNING gives then.
    Write(QueryStream, Option<Arc<Returned>>),
    /// A query whose rows nobody wants, only how it ran; and its plan.
    Analyze(QueryStream, Explained),
}

/// A plan as EXPLAIN ANALYZE will show it.
pub(crate) enum Explained {
    /// For people.
    Text(String),
    /// For programs.
    Json(Plan),
}

impl QueryResult {
    pub(crate) fn query(stream: QueryStream) -> Self {
        Self::of(stream.schema(), None, stream, Body::Query)
    }

    pub(crate) fn analyze(stream: QueryStream, plan: Explained) -> Self {
        Self::of(Statement::plan_schema(), None, stream, |stream| Body::Analyze(stream, plan))
    }

    pub(crate) fn write(tag: &'static str, stream: QueryStream, returning: Option<(SchemaRef, Arc<Returned>)>) -> Self {
        let done = Done { tag, rows: None, is_returning: returning.is_some() };
        let (schema, returned) = returning.unzip();
        let schema = schema.unwrap_or_else(|| Arc::new(Schema::empty()));
        Self::of(schema, Some(done), stream, |stream| Body::Write(stream, returned))
    }

    /// The same, started anew where others have changed what it was to change.
    pub(crate) fn with_retries(mut self, again: Option<Again>) -> Self {
        self.again = again.map(|again| (again, RETRIES_MAX));
        self
    }

    pub(crate) fn done(tag: &'static str) -> Self {
        Self {
            command: Some(Done { tag, rows: None, is_returning: false }),
            ..Self::rows(Arc::new(Schema::empty()), vec![])
        }
    }

    /// A column of lines.
    pub(crate) fn lines(text: &str) -> Result<Self> {
        Ok(Self::rows(Statement::plan_schema(), vec![line_batch(text)?]))
    }

    /// Rows that are there already.
    pub fn rows(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let body = Body::Ready(batches.into());
        Self { schema, command: None, body, id: None, token: CancelToken::default(), last: None, again: None }
    }

    fn of(
        schema: SchemaRef,
        command: Option<Done>,
        stream: QueryStream,
        body: impl FnOnce(QueryStream) -> Body,
    ) -> Self {
        let (id, token) = (Some(stream.id()), CancelToken(Some(stream.cancel_token())));
        Self { schema, command, body: body(stream), id, token, last: None, again: None }
    }

    /// The columns; none for a command.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Rows, or a command with its tag.
    pub fn kind(&self) -> ResultKind<'_> {
        match &self.command {
            None => ResultKind::Rows,
            Some(done) if done.is_returning => ResultKind::Rows,
            Some(done) => ResultKind::Command { tag: done.tag, rows: done.rows },
        }
    }

    /// What a statement with RETURNING has done, and with how many rows; known once it gives rows.
    pub fn written(&self) -> Option<(&'static str, u64)> {
        self.command.as_ref().filter(|done| done.is_returning).map(|done| (done.tag, done.rows.unwrap_or(0)))
    }

    /// The query's number in `system.queries`, if the statement runs one.
    pub fn id(&self) -> Option<QueryId> {
        self.id
    }

    /// Cancels the statement from elsewhere.
    pub fn cancel_token(&self) -> CancelToken {
        self.token.clone()
    }

    /// How far the query is; all zero for a statement without one.
    pub fn progress(&self) -> Progress {
        match (self.stream(), &self.last) {
            (Some(stream), _) => stream.progress(),
            (None, Some((_, progress))) => *progress,
            (None, None) => Progress { clusters_done: 0, clusters_total: 0, rows_out: 0 },
        }
    }

    /// What the query has done so far; final after the last row. `None` for a statement without a query.
    pub fn profile(&self) -> Option<Profile> {
        match (self.stream(), &self.last) {
            (Some(stream), _) => Some(stream.profile()),
            (None, Some((profile, _))) => Some(profile.clone()),
            (None, None) => None,
        }
    }

    /// What the query has used so far; final after the last row. `None` for a statement without a query.
    pub fn used(&self) -> Option<Used> {
        let profile = self.profile()?;
        let worked_ns = profile.pipelines.iter().map(|pipeline| pipeline.worked_ns).sum();
        Some(Used { memory_bytes: profile.memory_peak_bytes, worked: Duration::from_nanos(worked_ns) })
    }

    /// Says that nothing will be read for a while: other queries may have the memory that this one is sure of and does
    /// not hold, and the next read waits for it again. May be said again and again.
    pub fn pause(&mut self) {
        if let Body::Query(stream) = &mut self.body {
            stream.pause();
        }
    }

    /// The next batch; waits for it. Not for async code, which polls this as a stream. Fails once, with the error that
    /// ends the statement: of kind `Value` if a value cannot be computed, `File` if a file cannot be read or written,
    /// `Resource` if there is no memory or temp space left, `Cancelled` if somebody cancelled it.
    pub fn next_blocking(&mut self) -> Option<Result<RecordBatch>> {
        match self.advance(|stream| Poll::Ready(stream.next_blocking())) {
            Poll::Ready(batch) => batch,
            Poll::Pending => Some(Err(Error::bug("a blocking read did not wait"))),
        }
    }

    /// The next batch, without blocking: `context`'s waker is told when there may be one. For executors of any kind.
    /// Fails as [`next_blocking`](Self::next_blocking) does.
    pub fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        self.advance(|stream| stream.poll_next_unpin(context))
    }

    /// The next batch, if there is one within `timeout`; pending otherwise. For progress displays. Fails as
    /// [`next_blocking`](Self::next_blocking) does.
    pub fn next_within(&mut self, timeout: Duration) -> Poll<Option<Result<RecordBatch>>> {
        let end = Instant::now() + timeout;
        self.advance(|stream| stream.next_within(end.saturating_duration_since(Instant::now())))
    }

    /// All rows; waits for them. Fails as [`next_blocking`](Self::next_blocking) does.
    pub fn collect(mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next_blocking() {
            batches.push(batch?);
        }
        Ok(batches)
    }

    /// Does a command's work to its end; the count is known then. Leaves rows alone.
    pub(crate) fn settle(&mut self) -> Result<()> {
        while matches!(self.body, Body::Write(..)) {
            if let Poll::Ready(Err(error)) = self.work(&mut |stream| Poll::Ready(stream.next_blocking())) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// As [`settle`](Self::settle), without blocking.
    pub(crate) async fn settle_async(&mut self) -> Result<()> {
        while matches!(self.body, Body::Write(..)) {
            poll_fn(|context| self.work(&mut |stream| stream.poll_next_unpin(context))).await?;
        }
        Ok(())
    }

    /// A step of a statement that writes; it has ended when its body is another one. Fails with its error.
    fn work(
        &mut self,
        pull: &mut impl FnMut(&mut QueryStream) -> Poll<Option<Result<RecordBatch>>>,
    ) -> Poll<Result<()>> {
        let Body::Write(stream, _) = &mut self.body else { return Poll::Ready(Ok(())) };
        Poll::Ready(match ready!(pull(stream)) {
            Some(Ok(batch)) => {
                let count = count_of(&batch);
                if let Some(done) = &mut self.command {
                    done.rows = Some(done.rows.unwrap_or(0) + count);
                }
                Ok(())
            }
            Some(Err(error)) if error.code() == Some("40001") => self.retry(error),
            Some(Err(error)) => {
                self.body = Body::Ready(VecDeque::new());
                Err(error)
            }
            None => self.end(),
        })
    }

    /// Starts the statement anew. Fails with the error that ended it if it may not, and as starting fails.
    fn retry(&mut self, error: Error) -> Result<()> {
        let started = match &mut self.again {
            Some((again, left)) if *left > 0 => {
                *left -= 1;
                again()
            }
            _ => Err(error),
        };
        match started {
            Ok((stream, returned)) => {
                (self.id, self.token) = (Some(stream.id()), CancelToken(Some(stream.cancel_token())));
                self.body = Body::Write(stream, returned);
                Ok(())
            }
            Err(error) => {
                self.body = Body::Ready(VecDeque::new());
                Err(error)
            }
        }
    }

    fn stream(&self) -> Option<&QueryStream> {
        match &self.body {
            Body::Ready(_) => None,
            Body::Query(stream) | Body::Write(stream, _) | Body::Analyze(stream, _) => Some(stream),
        }
    }

    /// The next batch for the reader, asking for as many of the query's as it takes.
    fn advance(
        &mut self,
        mut pull: impl FnMut(&mut QueryStream) -> Poll<Option<Result<RecordBatch>>>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            let ended = match &mut self.body {
                Body::Ready(batches) => return Poll::Ready(batches.pop_front().map(Ok)),
                Body::Query(stream) => return pull(stream),
                Body::Write(..) => match ready!(self.work(&mut pull)) {
                    Ok(()) => continue,
                    Err(error) => return Poll::Ready(Some(Err(error))),
                },
                Body::Analyze(stream, _) => match ready!(pull(stream)) {
                    Some(Ok(_)) => Ok(false),
                    Some(Err(error)) => Err(error),
                    None => Ok(true),
                },
            };
            match ended {
                Ok(false) => {}
                Ok(true) => {
                    if let Err(error) = self.end() {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                Err(error) => {
                    self.body = Body::Ready(VecDeque::new());
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    /// The query has given all its rows.
    fn end(&mut self) -> Result<()> {
        self.last = self.stream().map(|stream| (stream.profile(), stream.progress()));
        match std::mem::replace(&mut self.body, Body::Ready(VecDeque::new())) {
            Body::Analyze(stream, plan) => {
                let text = match plan {
                    Explained::Text(plan) => format!("{}\n\n{}", plan.trim_end(), stream.profile()),
                    Explained::Json(plan) => plan_json::ran(&plan, &stream.profile()),
                };
                self.body = Body::Ready(VecDeque::from([line_batch(&text)?]));
            }
            Body::Write(_, Some(returned)) => self.body = Body::Ready(returned.take().into()),
            Body::Ready(_) | Body::Query(_) | Body::Write(_, None) => {}
        }
        Ok(())
    }
}

impl Stream for QueryResult {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.advance(|stream| stream.poll_next_unpin(context))
    }
}

/// The one number in the one row that a writing plan gives.
fn count_of(batch: &RecordBatch) -> u64 {
    let counts = batch.columns().first().and_then(|column| column.as_primitive_opt::<UInt64Type>());
    counts.map_or(0, |counts| counts.values().iter().sum())
}

fn line_batch(text: &str) -> Result<RecordBatch> {
    let lines: ArrayRef = Arc::new(StringViewArray::from_iter_values(text.trim_end().lines()));
    RecordBatch::try_new(Statement::plan_schema(), vec![lines]).map_err(from_arrow)
}
