//! A driver sees what its own threads do, and nothing of others.

use std::cell::RefCell;
use std::sync::{Arc, mpsc};
use std::task::Waker;
use std::time::Duration;

use super::atomic::{AtomicU64, Ordering};
use super::*;

std::thread_local! {
    /// What the driver was asked on this thread, if it owns it.
    static ASKED: RefCell<Option<Vec<&'static str>>> = const { RefCell::new(None) };
}

/// Notes what it is asked, and lets everybody go on.
struct Witness;

impl Witness {
    fn note(&self, what: &'static str) {
        ASKED.with_borrow_mut(|asked| asked.as_mut().expect("only its own threads ask it").push(what));
    }
}

impl Driver for Witness {
    fn owns_this_thread(&self) -> bool {
        ASKED.with_borrow(Option::is_some)
    }

    fn step(&self) {
        self.note("step");
    }

    fn yield_now(&self) {
        self.note("yield");
    }

    fn lock(&self, _: usize) {
        self.note("lock");
    }

    fn try_lock(&self, _: usize) -> bool {
        self.note("try lock");
        ASKED.with_borrow(|asked| asked.iter().flatten().filter(|what| **what == "try lock").count() > 1)
    }

    fn unlock(&self, _: usize) {
        self.note("unlock");
    }

    fn wait(&self, condition: usize, lock: usize) {
        assert_ne!(condition, lock);
        self.note("wait");
    }

    fn notify_one(&self, _: usize) {
        self.note("notify one");
    }

    fn notify_all(&self, _: usize) {
        self.note("notify all");
    }

    fn park(&self, is_timed: bool) {
        self.note(if is_timed { "park for a time" } else { "park" });
    }

    fn unparker(&self) -> Waker {
        self.note("unparker");
        Waker::noop().clone()
    }
}

/// What the driver is asked while `body` runs on a thread of its own.
fn asked(body: impl FnOnce()) -> Vec<&'static str> {
    install(&Witness);
    ASKED.with_borrow_mut(|asked| *asked = Some(Vec::new()));
    body();
    ASKED.take().unwrap_or_default()
}

#[test]
fn a_driver_is_asked_at_every_access_on_its_threads() {
    let (mutex, condition, number) = (Mutex::new(1), Condvar::new(), AtomicU64::new(0));
    let seen = asked(|| {
        let mut guard = mutex.lock();
        *guard += 1;
        condition.wait(&mut guard);
        assert_eq!(*guard, 2, "the value is this thread's again");
        drop(guard);
        assert!(mutex.try_lock().is_none(), "the driver says who has it");
        assert_eq!(mutex.try_lock().map(|value| *value), Some(2));
        condition.notify_one();
        condition.notify_all();
        number.fetch_add(1, Ordering::Relaxed);
        thread::current().unpark();
        thread::park();
        thread::park_timeout(std::time::Duration::from_secs(3600));
        assert!(is_driven() && !linger(|| false));
    });
    let expected = [
        "lock",
        "wait",
        "unlock",
        "try lock",
        "try lock",
        "unlock",
        "notify one",
        "notify all",
        "step",
        "unparker",
        "park",
        "park for a time",
        "yield",
        "yield",
    ];
    assert_eq!(seen, expected);
    assert_eq!((mutex.into_inner(), number.into_inner()), (2, 1));
}

#[test]
fn a_lock_is_given_up_for_a_while() {
    let (mutex, condition) = (Mutex::new(0), Condvar::new());
    let asked = asked(|| {
        let mut guard = mutex.lock();
        MutexGuard::unlocked(&mut guard, || *mutex.lock() += 1);
        assert_eq!(*guard, 1);
        condition.wait_for(&mut guard, Duration::from_secs(3600));
    });
    let (given_up, waited) = (["unlock", "lock", "unlock", "lock"], ["unlock", "yield", "lock"]);
    assert_eq!(asked, [&["lock"][..], &given_up[..], &waited[..], &["unlock"][..]].concat());
    // Threads of the system wait for as long as they are told.
    let mut guard = mutex.lock();
    MutexGuard::unlocked(&mut guard, || *mutex.lock() += 1);
    condition.wait_for(&mut guard, Duration::from_millis(1));
    assert_eq!(*guard, 2);
}

#[test]
fn locks_beside_and_within_each_other_have_numbers_of_their_own() {
    let outer = Mutex::new(Mutex::new(()));
    let beside = Mutex::new(());
    let guard = outer.lock();
    let numbers = [outer.number(), guard.number(), beside.number()];
    assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
}

#[test]
fn threads_of_the_system_are_as_without_a_driver() {
    install(&Witness);
    let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new(), AtomicU64::new(0)));
    let (give, take) = mpsc::channel();
    let own = shared.clone();
    let thread = std::thread::spawn(move || {
        give.send(thread::current()).unwrap();
        while own.2.load(Ordering::Acquire) == 0 {
            thread::park();
        }
        own.0.lock().push("unparked");
        own.1.notify_all();
    });
    let other = take.recv().unwrap();
    shared.2.store(1, Ordering::Release);
    other.unpark();
    let mut said = shared.0.lock();
    while said.is_empty() {
        shared.1.wait(&mut said);
    }
    assert!(shared.0.try_lock().is_none() && !is_driven());
    drop(said);
    assert!(shared.0.try_lock().is_some() && linger(|| true));
    thread.join().unwrap();
}
