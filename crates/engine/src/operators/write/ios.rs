//! I/O that is under way for one packet.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use diligence_base::function_limits::FunctionLimits;
use diligence_base::{Error, Result};
use diligence_disk::IoPool;
use diligence_storage::{PartIo, WriteIo};
use futures::FutureExt;

use super::panicked;
use crate::operators::scan::Io;
use crate::stages::{Caller, Message, caller, on_behalf_of};
use crate::sync::Mutex;

/// I/O that a packet has under way at once at most.
const IOS_MAX: usize = 4;

/// The I/O of one packet. Clones are the same.
#[derive(Clone)]
pub(super) struct Ios {
    io: Io,
    state: Arc<Mutex<IosState>>,
}

#[derive(Default)]
struct IosState {
    running: usize,
    bytes: usize,
    error: Option<Error>,
    waker: Option<Waker>,
}

impl Ios {
    pub fn new(io: Io) -> Self {
        Self { io, state: Arc::default() }
    }

    /// Whether more may be started.
    pub fn has_room(&self) -> bool {
        self.state.lock().running < IOS_MAX
    }

    /// Bytes in memory for what is under way.
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Starts one.
    pub fn start(&self, part: PartIo) {
        let PartIo { bytes, io } = part;
        {
            let mut state = self.state.lock();
            state.running += 1;
            state.bytes += bytes;
        }
        let own = self.clone();
        run(&self.io, io, move |result| own.ended(bytes, result));
    }

    fn ended(&self, bytes: usize, result: Result<()>) {
        let waker = {
            let mut state = self.state.lock();
            state.running -= 1;
            state.bytes -= bytes;
            if let Err(error) = result {
                state.error.get_or_insert(error);
            }
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the packet is to wait: until there is room for more, or with `for_all` until nothing is under way. Then
    /// its waker is woken with the next that ends. Fails if one has failed.
    pub fn waits(&self, for_all: bool, waker: &Waker) -> Result<bool> {
        let mut state = self.state.lock();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        let waits = if for_all { state.running > 0 } else { state.running >= IOS_MAX };
        if waits {
            state.waker = Some(waker.clone());
        }
        Ok(waits)
    }
}

/// A query that a job of another thread is for: it does not end before the job has.
struct JobOf(Option<Arc<dyn Caller>>);

impl JobOf {
    /// The query whose packet this thread runs.
    fn this() -> Self {
        let query = caller();
        if let Some(query) = &query {
            query.job_begins();
        }
        Self(query)
    }

    /// Fails with kind `Cancelled` if the query wants nothing any more.
    fn check(&self) -> Result<()> {
        match &self.0 {
            Some(query) if query.is_stopped() => Err(Error::cancelled()),
            _ => Ok(()),
        }
    }
}

impl Drop for JobOf {
    fn drop(&mut self) {
        if let Some(query) = self.0.take() {
            query.job_ended();
        }
    }
}

/// A query whose job runs on a thread of a pool. What the job waits for may be other jobs.
struct OnPool {
    query: Arc<dyn Caller>,
    pool: Arc<IoPool>,
}

impl Caller for OnPool {
    fn is_stopped(&self) -> bool {
        self.query.is_stopped()
    }

    fn printed(&self, message: Message) {
        self.query.printed(message);
    }

    fn function_limits(&self) -> FunctionLimits {
        self.query.function_limits()
    }

    fn leave(&self) {
        self.pool.leave();
    }

    fn come_back(&self) {
        self.pool.come_back();
    }
}

/// Does a job on a thread of a pool.
fn on_pool<T>(job: &JobOf, pool: &Arc<IoPool>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    job.check()?;
    let work = || catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()));
    let Some(query) = &job.0 else { return work() };
    let own: Arc<dyn Caller> = Arc::new(OnPool { query: query.clone(), pool: pool.clone() });
    on_behalf_of(Arc::downgrade(&own), work)
}

/// Has I/O done where it belongs, and calls `ended` there. What it is for has not ended before; I/O that has not begun
/// when it is stopped is not done.
pub(super) fn run<T: Send + 'static>(io: &Io, work: WriteIo<T>, ended: impl FnOnce(Result<T>) + Send + 'static) {
    match work {
        WriteIo::Ready(result) => ended(result),
        WriteIo::Blocking(write) => {
            let (job, pool) = (JobOf::this(), io.pool.clone());
            io.pool.submit(Box::new(move || {
                let result = on_pool(&job, &pool, write);
                drop(job);
                ended(result);
            }));
        }
        WriteIo::Waiting(write) => {
            let job = JobOf::this();
            let write = AssertUnwindSafe(write).catch_unwind();
            let work = async move {
                let result = match job.check() {
                    Ok(()) => write.await.unwrap_or_else(|_| Err(panicked())),
                    Err(error) => Err(error),
                };
                drop(job);
                ended(result);
            };
            if io.inline { io.runtime.block_on(work) } else { drop(io.runtime.spawn(work)) }
        }
    }
}
