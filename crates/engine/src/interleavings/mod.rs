//! The engine under schedules that shuttle chooses: ports, stages, scans, the buffer of clusters, shared tables,
//! cancellation, memory, temp space and sorts that go there; and the pool of primed processes.
//!
//! Each test is one small program of a few threads. It runs some thousand times, each time with another interleaving of
//! the threads' locks, atomic accesses and wake-ups (see [`diligence_base::sync`]): half of them at random, half with a
//! few changes of priority at random moments (PCT), which keep a thread from running for as long as it takes to make
//! its absence felt. A lost wake-up ends as a deadlock, which shuttle reports.
//!
//! A failing test prints its seed and its schedule; CONTRIBUTING.md says how to replay them. So a body must not depend
//! on anything but the schedule: no time, no unseeded randomness, no thread of the system.

mod buffer;
mod driver;
mod memory;
mod pool;
mod ports;
mod queries;
mod scans;
mod sorts;
mod stages;
mod tables;
mod temp;
mod tuning;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};

use diligence_base::seams::{Spawn, Thread};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

use crate::exchange::port::Receiver;

/// Set to a schedule that a failing test has printed, to run that one alone.
const SCHEDULE_VARIABLE: &str = "DILIGENCE_SCHEDULE";
/// Set to a seed that a failing test has printed, to try the same schedules in the same order. Shuttle reads it as
/// well.
const SEED_VARIABLE: &str = "SHUTTLE_RANDOM_SEED";

/// Bytes of stack of each thread: expressions and DataFusion's types are walked recursively.
const STACK_BYTES: usize = 1 << 20;

/// Steps after which an execution is taken for an endless loop: some hundred times what the longest test needs.
const STEPS_MAX: usize = 1_000_000;

/// Changes of priority in one execution of the second half, plus one.
const PCT_DEPTH: usize = 4;

/// Runs `body` under `schedules` schedules.
fn interleave(schedules: usize, body: impl Fn() + Copy + Send + Sync + 'static) {
    if let Ok(schedule) = std::env::var(SCHEDULE_VARIABLE) {
        return run(ReplayScheduler::new_from_encoded(&schedule), body);
    }
    let seed = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok());
    let told = Told(seed.unwrap_or_else(|| RandomState::new().hash_one(schedules)));
    run(RandomScheduler::new_from_seed(told.0, schedules / 2), body);
    run(PctScheduler::new_from_seed(told.0, PCT_DEPTH, schedules.div_ceil(2)), body);
}

fn run(scheduler: impl Scheduler + 'static, body: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    let driven = move || {
        driver::begin();
        body();
    };
    Runner::new(scheduler, config).run(driven);
}

/// Tells its seed if it is dropped by a panic.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("this test");
            eprintln!("{test} failed; the same schedules in the same order: {SEED_VARIABLE}={}", self.0);
        }
    }
}

/// Threads of shuttle, for the seam.
#[derive(Debug)]
struct DrivenSpawn;

impl Spawn for DrivenSpawn {
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> std::io::Result<Box<dyn Thread>> {
        Ok(Box::new(DrivenThread(shuttle::thread::Builder::new().name(name).spawn(body)?)))
    }
}

struct DrivenThread(shuttle::thread::JoinHandle<()>);

impl Thread for DrivenThread {
    fn join(self: Box<Self>) {
        if self.0.thread().id() != shuttle::thread::current().id() {
            let _ = self.0.join();
        }
    }
}

/// Wakes the thread that made it.
struct Unpark(shuttle::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn own_waker() -> Waker {
    Waker::from(Arc::new(Unpark(shuttle::thread::current())))
}

/// What comes out of a port next, waited for.
fn receive<T>(receiver: &Receiver<T>) -> Option<diligence_base::Result<T>> {
    let waker = own_waker();
    loop {
        match receiver.receive(&waker) {
            Poll::Ready(batch) => return batch,
            Poll::Pending => shuttle::thread::park(),
        }
    }
}

/// Lets others run until a condition holds. An execution in which it never does fails by its number of steps.
fn eventually(condition: impl Fn() -> bool) {
    while !condition() {
        shuttle::thread::yield_now();
    }
}
