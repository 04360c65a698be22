//! Who reads and writes: a pool of threads that block, or one thread with a queue of the system.
//!
//! ```text
//!   threads      pool:     start, request, request, ...                   a thread per transfer
//!   io_uring     driver:   start, begin ----> wait, done ----> begin      one thread, many transfers under way
//!                pool:     what blocks otherwise: growing files, cutting them
//! ```
//!
//! Invariant: what a transfer needs belongs to whoever does it, until it is done or given up. Dropping it tells its
//! file.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use diligence_base::limits::TEMP_RING_DEPTH;
use diligence_base::seams::{Clock, Thread};
use diligence_base::sync::atomic::{AtomicU64, Ordering};
use diligence_base::sync::{Condvar, Latch, Mutex};
use diligence_base::{Error, Result};

use crate::files::{Bell, Request, TempQueue, Transfer, transfer_now};
use crate::info::TempIoInfo;
use crate::options::{TempIo, TempOptions};
use crate::pool::{IoPool, PoolInfo};

/// Reads and writes on their way to an io_uring.
static TRANSFERS: Latch = Latch::new("transfers");

/// What a transfer begins with: `None` if there is nothing to do any more.
type Start = Box<dyn FnOnce() -> Option<Box<dyn Transfer>> + Send>;

/// Reads and writes files of temp space.
pub(crate) struct Transfers {
    pool: Arc<IoPool>,
    driver: Option<Arc<Driver>>,
    info: TempIoInfo,
}

impl Transfers {
    /// Starts the threads. Fails with kind `Input` if an io_uring is demanded and refused, and with kind `Resource` if
    /// the system has no threads left.
    pub fn start(options: &TempOptions) -> Result<Self> {
        let queue = match options.io {
            TempIo::Threads => Err(None),
            // Without threads there is nobody to drive it.
            _ if options.threads == 0 => Err(None),
            TempIo::Auto => options.files.queue(TEMP_RING_DEPTH).map_err(|error| Some(error.to_string())),
            TempIo::Ring => Ok(options.files.queue(TEMP_RING_DEPTH).map_err(|error| {
                Error::input(format!("the system refuses an io_uring: {error}"))
                    .with_hint("let temp space use threads (--temp-io threads), or what there is (--temp-io auto)")
            })?),
        };
        // A driver needs one thread beside it, for what blocks.
        let threads = if queue.is_ok() { 1 } else { options.threads };
        let pool = IoPool::start_named("temp", threads, options.clock.clone(), options.spawn.clone())?;
        let (driver, info) = match queue {
            Ok(queue) => (Some(Driver::start(queue, options).inspect_err(|_| pool.stop())?), TempIoInfo::Ring),
            Err(refused) => (None, TempIoInfo::Threads { refused }),
        };
        Ok(Self { pool, driver, info })
    }

    /// Has a transfer done. `may_block` says that its start may. Not called under a lock: without threads it is done at
    /// once.
    pub fn submit(&self, may_block: bool, start: impl FnOnce() -> Option<Box<dyn Transfer>> + Send + 'static) {
        match &self.driver {
            None => self.submit_blocking(move || start().into_iter().for_each(transfer_now)),
            Some(driver) if may_block => {
                let driver = driver.clone();
                self.submit_blocking(move || {
                    if let Some(transfer) = start() {
                        driver.submit(Box::new(move || Some(transfer)));
                    }
                });
            }
            Some(driver) => driver.submit(Box::new(start)),
        }
    }

    /// Has something done that blocks.
    pub fn submit_blocking(&self, job: impl FnOnce() + Send + 'static) {
        // Whatever a job holds tells its file that it was not done when it is dropped.
        self.pool.submit(Box::new(move || drop(catch_unwind(AssertUnwindSafe(job)))));
    }

    /// Ends the threads when they are done with what they do; what is queued is dropped. Afterwards all is done at once
    /// on the thread that asks for it.
    pub fn stop(&self) {
        self.pool.stop();
        self.driver.iter().for_each(|driver| driver.stop());
    }

    /// Who does it.
    pub fn info(&self) -> TempIoInfo {
        self.info.clone()
    }

    /// The threads at this moment.
    pub fn pool(&self) -> PoolInfo {
        let mut info = self.pool.info();
        if let Some(driver) = &self.driver {
            driver.add_to(&mut info);
        }
        info
    }
}

/// The thread that has the queue.
struct Driver {
    state: Mutex<Queued>,
    available: Condvar,
    bell: Arc<dyn Bell>,
    counters: Arc<Counters>,
    thread: Mutex<Option<Box<dyn Thread>>>,
}

#[derive(Default)]
struct Queued {
    queued: VecDeque<(u64, Start)>,
    /// Begun and not ended.
    running: usize,
    /// The thread waits for the system, and has room for more: the bell wakes it.
    hears_bell: bool,
    stopping: bool,
}

struct Counters {
    clock: Arc<dyn Clock>,
    transfers_total: AtomicU64,
    wait_ns_total: AtomicU64,
    service_ns_total: AtomicU64,
}

impl Driver {
    fn start(queue: Box<dyn TempQueue>, options: &TempOptions) -> Result<Arc<Self>> {
        let driver = Arc::new(Self {
            state: Mutex::named(&TRANSFERS, Queued::default()),
            available: Condvar::new(),
            bell: queue.bell(),
            counters: Arc::new(Counters {
                clock: options.clock.clone(),
                transfers_total: AtomicU64::new(0),
                wait_ns_total: AtomicU64::new(0),
                service_ns_total: AtomicU64::new(0),
            }),
            thread: Mutex::new(None),
        });
        let own = driver.clone();
        let body = Box::new(move || own.serve(queue));
        let thread = options.spawn.spawn("diligence-temp-ring".to_string(), body);
        let thread = thread.map_err(|error| {
            Error::resource(format!("the system refuses to start a thread for temp space: {error}"))
        })?;
        *driver.thread.lock() = Some(thread);
        Ok(driver)
    }

    fn submit(&self, start: Start) {
        self.counters.transfers_total.fetch_add(1, Ordering::Relaxed);
        let now_ns = self.counters.clock.now_ns();
        let mut state = self.state.lock();
        if state.stopping {
            drop(state);
            return start().into_iter().for_each(transfer_now);
        }
        state.queued.push_back((now_ns, start));
        let hears_bell = std::mem::take(&mut state.hears_bell);
        drop(state);
        if hears_bell {
            self.bell.ring();
        } else {
            self.available.notify_one();
        }
    }

    /// What the thread does.
    fn serve(&self, mut queue: Box<dyn TempQueue>) {
        let mut done = Vec::new();
        while let Some(starts) = self.next(queue.under_way()) {
            for (queued_ns, start) in starts {
                let begun_ns = self.counters.clock.now_ns();
                self.counters.wait_ns_total.fetch_add(begun_ns.saturating_sub(queued_ns), Ordering::Relaxed);
                match catch_unwind(AssertUnwindSafe(start)).ok().flatten() {
                    Some(transfer) => {
                        queue.begin(Box::new(Driven { transfer, begun_ns, counters: self.counters.clone() }))
                    }
                    None => self.state.lock().running -= 1,
                }
            }
            if queue.under_way() == 0 {
                continue;
            }
            queue.wait(&mut done);
            for (transfer, result) in done.drain(..) {
                match transfer.done(result) {
                    Some(transfer) => queue.begin(transfer),
                    None => self.state.lock().running -= 1,
                }
            }
        }
    }

    /// What to begin beside so many that are under way; `None` at the end. Waits if nothing is under way.
    fn next(&self, under_way: usize) -> Option<Vec<(u64, Start)>> {
        let mut state = self.state.lock();
        loop {
            let room = TEMP_RING_DEPTH.saturating_sub(under_way).min(state.queued.len());
            if room > 0 || under_way > 0 {
                state.running += room;
                let starts: Vec<_> = state.queued.drain(..room).collect();
                // What is queued from now on is heard if there is room for it.
                state.hears_bell = under_way + room < TEMP_RING_DEPTH;
                return Some(starts);
            }
            state.hears_bell = false;
            if state.stopping {
                return None;
            }
            self.available.wait(&mut state);
        }
    }

    fn stop(&self) {
        let queued = {
            let mut state = self.state.lock();
            state.stopping = true;
            std::mem::take(&mut state.queued)
        };
        drop(queued);
        self.available.notify_all();
        self.bell.ring();
        let thread = self.thread.lock().take();
        thread.into_iter().for_each(Thread::join);
    }

    fn add_to(&self, info: &mut PoolInfo) {
        let state = self.state.lock();
        let total = self.counters.transfers_total.load(Ordering::Relaxed);
        info.queued += state.queued.len();
        info.running += state.running;
        info.jobs_total += total;
        info.wait_ns_total += self.counters.wait_ns_total.load(Ordering::Relaxed);
        info.service_ns_total += self.counters.service_ns_total.load(Ordering::Relaxed);
    }
}

/// A transfer under way, whose time is taken. A panic in it ends it, and not the thread.
struct Driven {
    transfer: Box<dyn Transfer>,
    begun_ns: u64,
    counters: Arc<Counters>,
}

impl Transfer for Driven {
    fn request(&mut self) -> Request<'_> {
        self.transfer.request()
    }

    fn done(self: Box<Self>, result: std::io::Result<usize>) -> Option<Box<dyn Transfer>> {
        let Self { transfer, begun_ns, counters } = *self;
        let next = catch_unwind(AssertUnwindSafe(|| transfer.done(result))).ok().flatten();
        if let Some(transfer) = next {
            return Some(Box::new(Self { transfer, begun_ns, counters }));
        }
        let took_ns = counters.clock.now_ns().saturating_sub(begun_ns);
        counters.service_ns_total.fetch_add(took_ns, Ordering::Relaxed);
        None
    }
}
