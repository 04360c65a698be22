//! A query's rows, for whoever asked.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::Result;
use diligence_base::ids::QueryId;
use diligence_base::limits::READER_RESTS;
use futures::Stream;

use super::run::{Printed, QueryRun};
use crate::exchange::port::Receiver;
use crate::flow::profile::Profile;
use crate::stages::Scheduler;
use crate::sync::{
    self,
    atomic::{AtomicBool, Ordering},
    thread::{self, Thread},
};

/// How long a reader of the inline executor sleeps when every packet waits for another thread (a file being written).
const INLINE_SLEEP: Duration = Duration::from_micros(200);

/// How far a query is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Clusters read.
    pub clusters_done: usize,
    /// Clusters to be read, as far as known.
    pub clusters_total: usize,
    /// Rows handed to the reader.
    pub rows_out: usize,
}

/// The rows of a running query, as they appear. Dropping it before its end cancels the query.
///
/// Its end, or an error, comes out when the query has ended: its memory is given back, its state and its profile are
/// final. It keeps its engine alive, so a program may let go of everything else and go on reading.
pub struct QueryStream {
    run: Arc<QueryRun>,
    receiver: Receiver<RecordBatch>,
    schema: SchemaRef,
    rows_out: usize,
    done: bool,
    /// What to drive, if packets run on the reader's thread.
    inline: Option<Inline>,
    /// The last field, because it may be the last to know the engine, whose end waits for the workers.
    _owner: Option<Arc<dyn Send + Sync>>,
}

/// The scheduler whose packets the reader runs, and the runtime that DataFusion operators look for while they run.
pub(crate) struct Inline {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Inline {
    /// Runs one packet. False if none is queued.
    fn run_one(&self) -> bool {
        let _entered = sync::enter(&self.runtime);
        self.scheduler.run_one()
    }
}

/// Cancels a query from anywhere.
#[derive(Clone, Debug)]
pub struct CancelToken(Weak<QueryRun>);

impl CancelToken {
    /// Cancels the query, if it still runs.
    pub fn cancel(&self) {
        if let Some(run) = self.0.upgrade() {
            run.cancel();
        }
    }
}

/// Wakes a thread that is parked in [`QueryStream::next_blocking`], or until rows are written or read.
pub(super) struct Unpark {
    thread: Thread,
    called: AtomicBool,
}

impl Unpark {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { thread: thread::current(), called: AtomicBool::new(false) })
    }

    /// Sleeps until it is called, unless that happens within a moment.
    fn wait(&self, scheduler: &Scheduler) {
        if !scheduler.linger(|| self.called.load(Ordering::Acquire)) {
            thread::park();
        }
        self.called.store(false, Ordering::Relaxed);
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.called.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl QueryStream {
    pub(crate) fn new(
        run: Arc<QueryRun>,
        receiver: Receiver<RecordBatch>,
        schema: SchemaRef,
        inline: Option<Inline>,
    ) -> Self {
        Self { run, receiver, schema, rows_out: 0, done: false, inline, _owner: None }
    }

    /// The same stream, which keeps alive what the query runs on.
    pub(crate) fn keeping(mut self, owner: Arc<dyn Send + Sync>) -> Self {
        self._owner = Some(owner);
        self
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The query's number.
    pub fn id(&self) -> QueryId {
        self.run.id()
    }

    /// What the query has done so far; final after the end of the stream.
    pub fn profile(&self) -> Profile {
        self.run.profile()
    }

    /// What functions outside of the engine print; may be kept beyond the stream.
    pub fn printed(&self) -> Printed {
        self.run.printed().clone()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let (clusters_done, clusters_total) = self.run.clusters();
        Progress { clusters_done, clusters_total, rows_out: self.rows_out }
    }

    /// Says that nothing will be read for a while. If the query has nothing left to do until then, others may have the
    /// memory that it was sure of and does not hold; the next read waits for it again, in the queue with those that
    /// start. May be said again and again.
    pub fn pause(&mut self) {
        if self.run.is_paused() {
            // Whoever read for a moment stands in the queue, and would keep others waiting there.
            self.run.context.memory.leave_queue();
        } else if !self.done {
            self.run.pause();
        }
    }

    /// Cancels the query from another thread, a signal handler's included.
    pub fn cancel_token(&self) -> CancelToken {
        CancelToken(Arc::downgrade(&self.run))
    }

    /// The next batch; waits for it. Not for async code. Where a query waits to be admitted meanwhile, those whose
    /// readers rest are [paused](Self::pause): this thread may be one that reads several in turn. Fails once, and ends,
    /// with the error that ended the query: a value that an expression refuses, a file that cannot be read, memory or
    /// temp space that is not there, a panic, or with kind `Cancelled`.
    pub fn next_blocking(&mut self) -> Option<Result<RecordBatch>> {
        let unpark = Unpark::new();
        let waker = Waker::from(unpark.clone());
        loop {
            match self.poll(&waker) {
                Poll::Ready(batch) => return batch,
                Poll::Pending => {
                    let some_wait = self.run.have_others_rest();
                    match (&self.inline, some_wait) {
                        (Some(_), _) => thread::park_timeout(INLINE_SLEEP),
                        (None, true) => thread::park_timeout(READER_RESTS),
                        (None, false) => unpark.wait(&self.run.scheduler),
                    }
                }
            }
        }
    }

    /// The next batch, if there is one within `timeout`; pending otherwise. For progress displays. Fails as
    /// [`next_blocking`](Self::next_blocking) does.
    pub fn next_within(&mut self, timeout: Duration) -> Poll<Option<Result<RecordBatch>>> {
        let waker = Waker::from(Unpark::new());
        let end = std::time::Instant::now() + timeout;
        loop {
            if let Poll::Ready(batch) = self.poll(&waker) {
                return Poll::Ready(batch);
            }
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Poll::Pending;
            }
            thread::park_timeout(if self.inline.is_some() { left.min(INLINE_SLEEP) } else { left });
        }
    }

    fn poll(&mut self, waker: &Waker) -> Poll<Option<Result<RecordBatch>>> {
        if self.done {
            return Poll::Ready(None);
        }
        loop {
            // A batch taken would have packets go on: not without their grant.
            let is_paused = self.run.is_paused() && self.run.poll_resume(waker).is_pending();
            if is_paused && self.receiver.listen(waker) {
                continue;
            }
            let next = if is_paused { Poll::Pending } else { self.receiver.receive(waker) };
            match next {
                Poll::Ready(batch) => {
                    self.run.is_read();
                    match &batch {
                        Some(Ok(batch)) => self.rows_out += batch.num_rows(),
                        Some(Err(_)) | None => self.done = true,
                    }
                    return Poll::Ready(batch);
                }
                Poll::Pending => match &self.inline {
                    Some(inline) if inline.run_one() => {}
                    _ => return Poll::Pending,
                },
            }
        }
    }

    /// With the inline executor: lets the packets that are left drop what they hold.
    fn settle(&self) {
        if let Some(inline) = &self.inline {
            while !self.run.has_ended() && inline.run_one() {}
        }
    }
}

impl Stream for QueryStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context.waker())
    }
}

impl Drop for QueryStream {
    fn drop(&mut self) {
        self.run.cancel();
        if self.run.is_paused() {
            let _ = self.run.poll_resume(Waker::noop());
        }
        self.settle();
    }
}

impl std::fmt::Debug for QueryStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QueryStream({})", self.run.id())
    }
}
