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

#[test]
#[should_panic(expected = "deadlock")]
fn locks_taken_in_opposite_orders_are_found() {
    super::interleave(1_000, || {
        let locks = Arc::new([sync::Mutex::new(()), sync::Mutex::new(())]);
        let own = locks.clone();
        let other = thread::spawn(move || {
            let _first = own[0].lock();
            let _second = own[1].lock();
        });
        let second = locks[1].lock();
        let first = locks[0].lock();
        drop((first, second));
        other.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_notification_that_nobody_waits_for_yet_is_found() {
    super::interleave(1_000, || {
        let shared = Arc::new((sync::Mutex::new(()), sync::Condvar::new()));
        let own = shared.clone();
        let other = thread::spawn(move || own.1.notify_one());
        shared.1.wait(&mut shared.0.lock());
        other.join().unwrap();
    });
}

#[test]
fn a_notification_ends_one_wait_or_all() {
    super::interleave(1_000, || {
        let shared = Arc::new((sync::Mutex::new(0), sync::Condvar::new()));
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let mut given = shared.0.lock();
                    while *given == 0 {
                        shared.1.wait(&mut given);
                    }
                    *given -= 1;
                })
            })
            .collect();
        *shared.0.lock() += 1;
        shared.1.notify_one();
        *shared.0.lock() += 2;
        shared.1.notify_all();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*shared.0.lock(), 0);
    });
}

#[test]
fn memory_and_disk_give_way_at_their_locks() {
    use diligence_base::ids::QueryId;
    use diligence_disk::{MemoryTempFiles, TempOptions, TempSpace};
    use diligence_memory::Broker;
    use shuttle::scheduler::RandomScheduler;

    /// How often somebody might have gone first meanwhile.
    fn steps<T>(act: impl FnOnce() -> T) -> usize {
        let before = shuttle::current::context_switches();
        drop(act());
        shuttle::current::context_switches() - before
    }

    // One thread alone: all steps are its own.
    super::run(RandomScheduler::new_from_seed(1, 1), || {
        let broker = Broker::new(1_000);
        let mut reservation = broker.account(QueryId(1), None).reservation("Sort");
        assert!(steps(|| reservation.grow(10)) > 2);
        let files = Arc::new(MemoryTempFiles::default());
        let options = TempOptions { directories: vec!["/a".into()], threads: 0, files, ..TempOptions::default() };
        let space = TempSpace::open(&options).unwrap();
        assert!(steps(|| space.info()) > 2);
    });
}
