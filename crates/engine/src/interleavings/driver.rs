//! Shuttle as the driver of locks, atomics and parking.
//!
//! A lock is a semaphore with one permit. A wait for a condition is a semaphore without any, to which whoever notifies
//! gives one. Both are found by number, and only in the execution that they belong to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use diligence_base::sync::{self, Driver};
use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

/// The driver.
struct Shuttle;

/// What the threads of an execution lock and wait for.
#[derive(Default)]
struct Known {
    locks: HashMap<usize, Arc<BatchSemaphore>>,
    /// Who waits for a condition, first come first.
    waiting: HashMap<usize, Vec<Arc<BatchSemaphore>>>,
}

std::thread_local! {
    /// All threads of an execution are one thread of the system.
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// Has shuttle drive this thread's executions. Called at the beginning of each, when nothing is locked yet.
pub fn begin() {
    sync::install(&Shuttle);
    let before = KNOWN.take();
    drop(before);
}

/// The semaphore of a lock.
fn turn(lock: usize) -> Arc<BatchSemaphore> {
    let make = || Arc::new(BatchSemaphore::new(1, Fairness::Unfair));
    KNOWN.with_borrow_mut(|known| known.locks.entry(lock).or_insert_with(make).clone())
}

/// Others may go first.
fn step() {
    // Shuttle has no time: this is a scheduling point and nothing else.
    thread::sleep(Duration::ZERO);
}

impl Driver for Shuttle {
    fn owns_this_thread(&self) -> bool {
        shuttle::current::try_get_current_task().is_some()
    }

    fn step(&self) {
        step();
    }

    fn yield_now(&self) {
        thread::yield_now();
    }

    fn lock(&self, lock: usize) {
        // It is closed only when the execution is over: then destructors of its threads run one after another.
        let _ = turn(lock).acquire_blocking(1);
    }

    fn try_lock(&self, lock: usize) -> bool {
        turn(lock).try_acquire(1).is_ok()
    }

    fn unlock(&self, lock: usize) {
        turn(lock).release(1);
    }

    fn wait(&self, condition: usize, lock: usize) {
        let own = Arc::new(BatchSemaphore::new(0, Fairness::Unfair));
        KNOWN.with_borrow_mut(|known| known.waiting.entry(condition).or_default().push(own.clone()));
        turn(lock).release(1);
        let _ = own.acquire_blocking(1);
        self.lock(lock);
    }

    fn notify_one(&self, condition: usize) {
        step();
        let count = KNOWN.with_borrow(|known| known.waiting.get(&condition).map_or(0, Vec::len));
        let index = if count > 1 { thread_rng().gen_range(0..count) } else { 0 };
        let woken = KNOWN.with_borrow_mut(|known| {
            let waiting = known.waiting.get_mut(&condition)?;
            (index < waiting.len()).then(|| waiting.swap_remove(index))
        });
        woken.into_iter().for_each(|one| one.release(1));
    }

    fn notify_all(&self, condition: usize) {
        step();
        let woken = KNOWN.with_borrow_mut(|known| known.waiting.remove(&condition));
        woken.into_iter().flatten().for_each(|one| one.release(1));
    }

    fn park(&self, is_timed: bool) {
        if is_timed { thread::park_timeout(Duration::ZERO) } else { thread::park() }
    }

    fn unparker(&self) -> Waker {
        super::own_waker()
    }
}
