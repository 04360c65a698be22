//! Result: what a statement gives, which is rows as they appear, or the word that it is done.

mod steps;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::ids::QueryId;
use diligence_base::{Error, Result};
use diligence_catalog::locks::LockWait;
use diligence_engine::flow::profile::Profile;
use diligence_engine::query::{KeptRows, Printed, QueryStream};
use diligence_sql::{Planned, Returned, Statement};
use futures::Stream;
use tokio::task::JoinHandle;

use super::cancelling::CancelToken;
use super::done::{Done, DoneAtOnce};
use super::elsewhere::Elsewhere;
use super::explained::{Explained, line_batch};
use super::held::Held;
use super::pull::Pull;
use super::ready::ReadyRows;
use super::restart::{Again, StatementLocks};
use super::second_start::SecondStart;
use super::several::{SeveralEnd, SeveralRun};
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

/// The result of a statement: a stream of batches, blocking or not. Dropping it cancels what still runs.
pub struct QueryResult {
    schema: SchemaRef,
    command: Option<Done>,
    body: Body,
    id: Option<QueryId>,
    token: CancelToken,
    /// Of a query that has ended.
    last: Option<(Profile, Progress)>,
    /// What functions outside of the engine print.
    printed: Printed,
    /// For a statement that others may be in the way of.
    again: Option<Again>,
    /// For a query that has given no rows yet.
    second_start: Option<Box<SecondStart>>,
    /// What it has locked, outside of a transaction.
    locked: Option<StatementLocks>,
    /// How many rows the work that another thread does has written.
    counted: Option<Arc<AtomicU64>>,
}

/// What a result is made of, which changes while it is read:
///
/// ```text
///   Query -----------------------------------------> its end; refused memory before its first row: Query again
///   Analyze ---------------------------------------> Ready, with the plan and what was measured; or Waiting, and anew
///   Elsewhere -------------------------------------> Ready
///   Write, Held ---------------+-------------------> Ready
///   Several ---> Committing ---+
///      |             |
///      +-------------+--- others are in the way ---> Waiting ---> Write, Held, Several: the same, started anew
///   any of them --- an error ----------------------> Ready without rows; the error is given once
/// ```
///
/// Nothing is given before the state is `Query` or `Ready`. The steps are in [`steps`].
enum Body {
    /// Rows that are there already.
    Ready(ReadyRows),
    /// Rows of a running query.
    Query(QueryStream),
    /// A query that writes, and gives the number of rows; with what RETURNING gives then.
    Write(QueryStream, Option<Arc<Returned>>),
    /// A query that locks rows; they are given when all of them are locked.
    Held(Box<Held>),
    /// A statement that is several.
    Several(Box<SeveralRun>),
    /// One whose changes are being committed.
    Committing(JoinHandle<Result<()>>, SeveralEnd),
    /// A statement that waits for another transaction.
    Waiting(LockWait),
    /// Work that another thread does.
    Elsewhere(Elsewhere),
    /// A query whose rows nobody wants, only how it ran; and its plan.
    Analyze(QueryStream, Explained),
}

impl QueryResult {
    /// A query, which starts again where it is refused memory before it gives rows.
    pub(crate) fn query(stream: QueryStream, second_start: Option<SecondStart>) -> Self {
        Self { second_start: second_start.map(Box::new), ..Self::of(stream.schema(), None, stream, Body::Query) }
    }

    /// A statement that writes and has others in its way. Fails with the error that it met if it may not go on, and as
    /// starting it anew fails.
    pub(crate) fn blocked(
        tag: &'static str,
        returning: Option<SchemaRef>,
        again: Again,
        locked: StatementLocks,
        met: Error,
    ) -> Result<Self> {
        let done = Done { tag, rows: None, is_returning: returning.is_some() };
        let result = Self::rows(returning.unwrap_or_else(|| Arc::new(Schema::empty())), vec![]);
        let mut result = Self { command: Some(done), ..result }.with_retries(Some(again), locked);
        result.go_on(Some(met), true)?;
        Ok(result)
    }

    /// Whether its work is done: what is left is to read rows that are there.
    pub fn is_done(&self) -> bool {
        matches!(self.body, Body::Ready(_))
    }

    /// A statement that is several: what it is called if it does something, and the columns of its rows.
    pub(crate) fn several(tag: Option<&'static str>, schema: Option<SchemaRef>, run: SeveralRun) -> Self {
        let done = tag.map(|tag| Done { tag, rows: None, is_returning: schema.is_some() });
        let (id, token) = (Some(run.stream().id()), CancelToken::of(run.stream().cancel_token()));
        let rows = Self::rows(schema.unwrap_or_else(|| Arc::new(Schema::empty())), vec![]);
        Self { command: done, body: Body::Several(Box::new(run)), id, token, ..rows }
    }

    /// A query whose rows are given when all of them are locked.
    pub(crate) fn held(stream: QueryStream, kept: KeptRows) -> Self {
        Self::of(stream.schema(), None, stream, |stream| Body::Held(Held::new(stream, kept)))
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

    /// The same, started anew where others have changed what it was to change. `locked` is given back when it ends.
    pub(crate) fn with_retries(mut self, again: Option<Again>, locked: StatementLocks) -> Self {
        (self.again, self.locked) = (again, Some(locked));
        self
    }

    /// A command that others are in the way of.
    pub(crate) fn waiting(tag: &'static str, wait: LockWait) -> Result<Self> {
        let result = Self::done(tag);
        result.token.is_now(None, Some(wait.ender()))?;
        Ok(Self { body: Body::Waiting(wait), ..result })
    }

    /// Work that another thread does and that gives these columns; a command if there are none.
    pub(crate) fn elsewhere(
        tag: &'static str,
        schema: Option<SchemaRef>,
        runtime: &tokio::runtime::Handle,
        work: impl FnOnce(&CancelToken) -> Result<ReadyRows> + Send + 'static,
    ) -> Self {
        let result = match schema {
            Some(schema) => Self::rows(schema, vec![]),
            None => Self::done(tag),
        };
        Self { body: Body::Elsewhere(Elsewhere::begin(runtime, result.token.clone(), work)), ..result }
    }

    /// Whether it waits for another transaction, or for work that another thread does.
    pub fn is_waiting(&self) -> bool {
        matches!(self.body, Body::Waiting(_) | Body::Elsewhere(_))
    }

    pub(crate) fn done(tag: &'static str) -> Self {
        Self {
            command: Some(Done { tag, rows: None, is_returning: false }),
            ..Self::rows(Arc::new(Schema::empty()), vec![])
        }
    }

    /// What a statement gave that was done at once, as the result of the statement that was planned so.
    pub(super) fn done_at_once(done: DoneAtOnce, planned: &Planned) -> Self {
        let DoneAtOnce { rows, count } = done;
        let schema = planned.schema();
        let result = Self::rows(schema.unwrap_or_else(|| Arc::new(Schema::empty())), rows);
        let command = match planned {
            Planned::Other(statement) => match statement.as_ref() {
                Statement::Write(write) => {
                    Some(Done { tag: write.tag, rows: count, is_returning: write.returning.is_some() })
                }
                _ => None,
            },
            Planned::Query(..) => None,
        };
        Self { command, ..result }
    }

    /// A column of lines.
    pub(crate) fn lines(text: &str) -> Result<Self> {
        Ok(Self::rows(Statement::plan_schema(), vec![line_batch(text)?]))
    }

    /// A result of rows that are there already; the batches have this schema.
    pub fn rows(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let (body, token) = (Body::Ready(batches.into()), CancelToken::default());
        let printed = Printed::default();
        Self {
            schema,
            command: None,
            body,
            id: None,
            token,
            last: None,
            printed,
            again: None,
            second_start: None,
            locked: None,
            counted: None,
        }
    }

    fn of(
        schema: SchemaRef,
        command: Option<Done>,
        stream: QueryStream,
        body: impl FnOnce(QueryStream) -> Body,
    ) -> Self {
        let (id, token) = (Some(stream.id()), CancelToken::of(stream.cancel_token()));
        let printed = stream.printed();
        Self { command, body: body(stream), id, token, printed, ..Self::rows(schema, vec![]) }
    }

    /// The columns of its batches; none for a command.
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

    /// The same for a statement that writes elsewhere: what it is called, whether it gives rows when it is done, and
    /// how many it has written then.
    pub(crate) fn writing(mut self, tag: &'static str, is_returning: bool, counted: Arc<AtomicU64>) -> Self {
        self.command = Some(Done { tag, rows: None, is_returning });
        self.counted = Some(counted);
        self
    }

    /// The same, with what is printed for it elsewhere.
    pub(crate) fn printing(mut self, printed: Printed) -> Self {
        self.printed = printed;
        self
    }

    /// What functions in other languages print while the statement runs. May be kept beyond the result.
    pub fn printed(&self) -> Printed {
        self.printed.clone()
    }

    /// The query's number in `system.queries`, if the statement runs one.
    pub fn id(&self) -> Option<QueryId> {
        self.id
    }

    /// A handle that cancels the statement from any thread, also after it has been started anew.
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
        match self.advance(&mut Pull::Blocking) {
            Poll::Ready(batch) => batch,
            Poll::Pending => Some(Err(Error::bug("a blocking read did not wait"))),
        }
    }

    /// The next batch, without blocking: `context`'s waker is told when there may be one. For executors of any kind.
    /// Fails as [`next_blocking`](Self::next_blocking) does.
    pub fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        self.advance(&mut Pull::Polled(context))
    }

    /// The next batch, if there is one within `timeout`; pending otherwise. For progress displays. Fails as
    /// [`next_blocking`](Self::next_blocking) does.
    pub fn next_within(&mut self, timeout: Duration) -> Poll<Option<Result<RecordBatch>>> {
        self.advance(&mut Pull::Within(Instant::now() + timeout))
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
        while self.is_working() {
            if let Poll::Ready(Err(error)) = self.work(&mut Pull::Blocking) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Does a command's work until it is done or has to wait, for another transaction or for work that another thread
    /// does; whether it waits. Fails with the command's error.
    pub fn work_blocking(&mut self) -> Result<bool> {
        while self.is_working() {
            let waits = match &self.body {
                Body::Waiting(wait) => wait.is_waiting(),
                Body::Elsewhere(work) => work.is_at_work(),
                _ => false,
            };
            if waits {
                return Ok(true);
            }
            if let Poll::Ready(Err(error)) = self.work(&mut Pull::Blocking) {
                return Err(error);
            }
        }
        Ok(false)
    }

    /// Waits for what a command waits for. Fails with code 55P03 if it may not wait for another transaction any longer,
    /// and with kind `Cancelled`.
    pub async fn wait(&mut self) -> Result<()> {
        match &mut self.body {
            Body::Waiting(wait) => Pin::new(wait).await,
            Body::Elsewhere(work) => {
                Pin::new(work).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// As [`settle`](Self::settle), without blocking.
    pub(crate) async fn settle_async(&mut self) -> Result<()> {
        while self.is_working() {
            poll_fn(|context| self.work(&mut Pull::Polled(context))).await?;
        }
        Ok(())
    }
}

impl Stream for QueryResult {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.advance(&mut Pull::Polled(context))
    }
}
