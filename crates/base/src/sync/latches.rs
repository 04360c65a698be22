//! Latches: locks that have a name, and what threads did with them.
//!
//! A lock that is made with [`Mutex::named`](super::Mutex::named) counts how often it was taken, how often somebody
//! else had it then, how long threads waited for it, and how long they held it. Locks of one name count together, in
//! all engines of the process.
//!
//! ```text
//!   lock() --free--> +1 acquisition ----------------------> held (1 of about 64: timed) --> dropped
//!      |                                                      ^
//!      +--taken--> +1 acquisition, +1 contended, timed wait --+
//! ```
//!
//! Each thread counts for itself, so that counting is not what threads wait for: an acquisition that is free costs a
//! look for the thread's own counters and two additions there, without any atomic operation that others see. A clock is
//! read only where a thread has to wait anyway, and for one in about 64 acquisitions, at random distances, lest a lock
//! that is taken by turns for two things be timed for one of them only.
//!
//! Threads of a driver are not counted: whom they wait for, the driver says.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Names at most: what each thread has room for. Locks of further names are not counted.
const LATCHES_MAX: usize = 64;

/// Acquisitions between two that are timed, on the average: reading a clock twice costs as much as some acquisitions,
/// which is 1 % of them then at most.
const TIMED_EVERY: u64 = 64;

/// The number of a latch that has none yet.
const UNKNOWN: usize = usize::MAX;

/// The name of some locks. One static for each name.
#[derive(Debug)]
pub struct Latch {
    name: &'static str,
    /// Its place in every thread's counters, from its first use on; `LATCHES_MAX` if there is none left.
    number: AtomicUsize,
}

/// What was counted of the locks of one name, since the process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatchInfo {
    /// The name.
    pub name: &'static str,
    /// How often such a lock was taken.
    pub acquisitions_total: u64,
    /// How often another thread had it.
    pub contended_total: u64,
    /// How long threads have waited for it, in nanoseconds.
    pub wait_ns_total: u64,
    /// The longest of these waits.
    pub wait_ns_max: u64,
    /// How long threads have held it, in nanoseconds: an estimate from those that were timed.
    pub hold_ns_total: u64,
    /// Acquisitions that were timed.
    pub timed_total: u64,
}

/// Latches that were used, in the order of their numbers.
static KNOWN: Mutex<Vec<&'static Latch>> = Mutex::new(Vec::new());
/// The counters of all threads that live, and of those that have ended, together.
static THREADS: Mutex<(Vec<Arc<Counters>>, Option<Box<Counters>>)> = Mutex::new((Vec::new(), None));

thread_local! {
    static OWN: Own = Own::new();
}

/// What one thread has counted of one name. Only the thread itself writes.
#[derive(Debug, Default)]
struct Counter {
    acquisitions: AtomicU64,
    contended: AtomicU64,
    wait_ns: AtomicU64,
    wait_ns_max: AtomicU64,
    timed: AtomicU64,
    timed_ns: AtomicU64,
}

#[derive(Debug)]
struct Counters([Counter; LATCHES_MAX]);

/// A thread's counters, and when it times an acquisition the next time.
struct Own {
    counters: Arc<Counters>,
    until_timed: Cell<u64>,
    random: Cell<u64>,
}

/// A hold that is timed.
#[derive(Debug)]
pub(super) struct Hold {
    number: usize,
    since: Instant,
}

impl Latch {
    /// A name, as `system.locks` shows it.
    pub const fn new(name: &'static str) -> Self {
        Self { name, number: AtomicUsize::new(UNKNOWN) }
    }

    fn number(&'static self) -> usize {
        match self.number.load(Ordering::Relaxed) {
            UNKNOWN => self.register(),
            number => number,
        }
    }

    #[cold]
    fn register(&'static self) -> usize {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.number.load(Ordering::Relaxed);
        if number != UNKNOWN {
            return number;
        }
        // Two statics may have one name.
        let number = known.iter().position(|latch| latch.name == self.name).unwrap_or_else(|| {
            if known.len() < LATCHES_MAX {
                known.push(self);
                known.len() - 1
            } else {
                LATCHES_MAX
            }
        });
        self.number.store(number, Ordering::Relaxed);
        number
    }

    /// Takes a lock of this name: `try_take` takes it if nobody has it, `take` waits.
    #[inline]
    pub(super) fn take<G>(
        &'static self,
        try_take: impl FnOnce() -> Option<G>,
        take: impl FnOnce() -> G,
    ) -> (G, Option<Hold>) {
        let number = self.number();
        match try_take() {
            Some(guard) => (guard, taken(number)),
            None => (wait_for(number, take), taken(number)),
        }
    }

    /// A lock of this name was taken.
    #[inline]
    pub(super) fn taken(&'static self) -> Option<Hold> {
        taken(self.number())
    }

    /// What was counted of it.
    pub fn info(&'static self) -> LatchInfo {
        sum(self.number(), self.name)
    }
}

/// What was counted of all names that were used, in alphabetical order.
pub fn latches() -> Vec<LatchInfo> {
    let known: Vec<_> = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut infos: Vec<_> = known.iter().enumerate().map(|(number, latch)| sum(number, latch.name)).collect();
    infos.sort_by_key(|info| info.name);
    infos
}

#[cold]
fn wait_for<G>(number: usize, take: impl FnOnce() -> G) -> G {
    let counted = OWN.try_with(|own| own.count(number, |counter| add(&counter.contended, 1)));
    let start = Instant::now();
    let guard = take();
    let wait_ns = start.elapsed().as_nanos() as u64;
    if counted.is_ok() {
        OWN.with(|own| {
            own.count(number, |counter| {
                add(&counter.wait_ns, wait_ns);
                let longest = counter.wait_ns_max.load(Ordering::Relaxed).max(wait_ns);
                counter.wait_ns_max.store(longest, Ordering::Relaxed);
            });
        });
    }
    guard
}

#[inline]
fn taken(number: usize) -> Option<Hold> {
    // A thread that ends has no counters any more.
    let is_timed = OWN.try_with(|own| {
        own.count(number, |counter| add(&counter.acquisitions, 1));
        own.is_timed()
    });
    matches!(is_timed, Ok(true)).then(|| Hold { number, since: Instant::now() })
}

impl Drop for Hold {
    fn drop(&mut self) {
        let held_ns = self.since.elapsed().as_nanos() as u64;
        let _ = OWN.try_with(|own| {
            own.count(self.number, |counter| {
                add(&counter.timed, 1);
                add(&counter.timed_ns, held_ns);
            });
        });
    }
}

/// Only the thread that owns the counter adds to it.
#[inline]
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Counters {
    fn new() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }

    /// Adds what another thread has counted.
    fn absorb(&self, other: &Self) {
        for (own, other) in self.0.iter().zip(&other.0) {
            for (own, other) in [
                (&own.acquisitions, &other.acquisitions),
                (&own.contended, &other.contended),
                (&own.wait_ns, &other.wait_ns),
                (&own.timed, &other.timed),
                (&own.timed_ns, &other.timed_ns),
            ] {
                add(own, other.load(Ordering::Relaxed));
            }
            own.wait_ns_max.fetch_max(other.wait_ns_max.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl Own {
    fn new() -> Self {
        let counters = Arc::new(Counters::new());
        THREADS.lock().unwrap_or_else(PoisonError::into_inner).0.push(counters.clone());
        // Which acquisitions are timed is nothing that anybody could depend on, so the address will do as a seed.
        let seed = Arc::as_ptr(&counters).addr() as u64 | 1;
        Self { counters, until_timed: Cell::new(1), random: Cell::new(seed) }
    }

    #[inline]
    fn count(&self, number: usize, count: impl FnOnce(&Counter)) {
        if let Some(counter) = self.counters.0.get(number) {
            count(counter);
        }
    }

    #[inline]
    fn is_timed(&self) -> bool {
        let left = self.until_timed.get() - 1;
        self.until_timed.set(left);
        left == 0 && self.draw()
    }

    /// Draws the distance to the next one: Marsaglia's xorshift.
    #[cold]
    fn draw(&self) -> bool {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        self.until_timed.set(1 + random % (2 * TIMED_EVERY - 1));
        true
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        threads.0.retain(|counters| !Arc::ptr_eq(counters, &self.counters));
        threads.1.get_or_insert_with(|| Box::new(Counters::new())).absorb(&self.counters);
    }
}

fn sum(number: usize, name: &'static str) -> LatchInfo {
    let mut info = LatchInfo { name, ..LatchInfo::default() };
    let mut timed_ns = 0;
    let threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    let all = threads.0.iter().map(Arc::as_ref).chain(threads.1.as_deref());
    for counter in all.filter_map(|counters| counters.0.get(number)) {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        info.acquisitions_total += value(&counter.acquisitions);
        info.contended_total += value(&counter.contended);
        info.wait_ns_total += value(&counter.wait_ns);
        info.wait_ns_max = info.wait_ns_max.max(value(&counter.wait_ns_max));
        info.timed_total += value(&counter.timed);
        timed_ns += value(&counter.timed_ns);
    }
    let scaled = u128::from(timed_ns) * u128::from(info.acquisitions_total) / u128::from(info.timed_total.max(1));
    info.hold_ns_total = u64::try_from(scaled).unwrap_or(u64::MAX);
    info
}

#[cfg(test)]
mod tests {
    use super::super::{Condvar, Mutex};
    use super::*;

    #[test]
    fn whoever_waits_is_counted_and_what_ended_threads_did_stays() {
        static LATCH: Latch = Latch::new("test: waiting");
        let mutex = Arc::new(Mutex::named(&LATCH, 0));
        let mut guard = mutex.lock();
        let own = mutex.clone();
        let thread = std::thread::spawn(move || *own.lock() += 1);
        while LATCH.info().contended_total == 0 {
            std::thread::yield_now();
        }
        assert_eq!(LATCH.info().acquisitions_total, 1, "it has not got the lock");
        *guard += 1;
        drop(guard);
        thread.join().unwrap();
        let info = LATCH.info();
        assert_eq!((info.acquisitions_total, info.contended_total, *mutex.lock()), (2, 1, 2));
        assert!(info.wait_ns_total > 0 && info.wait_ns_total == info.wait_ns_max, "{info:?}");
        assert!(latches().contains(&LATCH.info()));
    }

    #[test]
    fn about_one_of_64_is_timed_and_stands_for_all() {
        static LATCH: Latch = Latch::new("test: holding");
        let (mutex, other) = (Mutex::named(&LATCH, ()), Mutex::new(()));
        for _ in 0..64_000 {
            drop(mutex.lock());
            drop(other.lock());
        }
        let info = LATCH.info();
        assert_eq!((info.acquisitions_total, info.contended_total, info.wait_ns_total), (64_000, 0, 0));
        assert!((900..1_100).contains(&info.timed_total), "{info:?}");
        assert!(info.hold_ns_total >= 64_000, "at least a nanosecond each: {info:?}");
    }

    #[test]
    fn names_count_together_and_a_try_counts_if_it_takes_the_lock() {
        static ONE: Latch = Latch::new("test: same");
        static OTHER: Latch = Latch::new("test: same");
        let (one, other) = (Mutex::named(&ONE, ()), Mutex::named(&OTHER, ()));
        let guard = one.try_lock();
        assert!(guard.is_some() && one.try_lock().is_none() && other.try_lock().is_some());
        assert_eq!((ONE.info(), ONE.info().acquisitions_total), (OTHER.info(), 2));
    }

    #[test]
    fn who_waits_for_a_condition_holds_nothing_meanwhile() {
        static LATCH: Latch = Latch::new("test: condition");
        let shared = Arc::new((Mutex::named(&LATCH, false), Condvar::new()));
        let own = shared.clone();
        let thread = std::thread::spawn(move || {
            let mut is_ready = own.0.lock();
            while !*is_ready {
                own.1.wait(&mut is_ready);
            }
        });
        // The other thread gives the lock up at its first look, so this one gets it sooner or later.
        *shared.0.lock() = true;
        shared.1.notify_all();
        thread.join().unwrap();
        let info = LATCH.info();
        assert!((2..=3).contains(&info.acquisitions_total), "{info:?}");
    }

    #[test]
    fn there_is_no_counter_for_one_name_too_many() {
        let own = Own::new();
        own.count(LATCHES_MAX, |_| panic!("there is none"));
        own.count(0, |counter| add(&counter.acquisitions, 0));
    }
}
