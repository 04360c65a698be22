//! Whether a thread has waited: for a disk, a lock or anything else but its turn on a core.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often in a row work must not have waited until it is expected not to.
const QUIET_ENOUGH: u32 = 16;

/// How often the thread has given up its core by itself since it began; `None` where the system does not say.
fn times_waited() -> Option<i64> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the system writes one such structure, for which there is room.
    let outcome = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: it was written where the outcome is 0.
    (outcome == 0).then(|| unsafe { usage.assume_init() }.ru_nvcsw)
}

/// Looks whether its thread waits while it is there.
pub struct WaitWatch {
    before: Option<i64>,
    /// It is of its thread.
    _thread: PhantomData<*const ()>,
}

impl WaitWatch {
    /// From now on.
    pub fn begin() -> Self {
        Self { before: times_waited(), _thread: PhantomData }
    }

    /// Whether the thread has waited since; true where the system does not say.
    pub fn has_waited(self) -> bool {
        self.before.is_none_or(|before| times_waited() != Some(before))
    }
}

/// Whether work of a kind is expected not to wait: if none of the last ones has. Used from any thread.
#[derive(Debug, Default)]
pub struct Quiet(AtomicU32);

impl Quiet {
    /// Whether the next one is expected not to wait.
    pub fn is_expected(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= QUIET_ENOUGH
    }

    /// Notes one that has waited, or has not.
    pub fn note(&self, has_waited: bool) {
        // Two at once may count as one: it is a guess.
        let quiet = self.0.load(Ordering::Relaxed);
        self.0.store(if has_waited { 0 } else { (quiet + 1).min(QUIET_ENOUGH) }, Ordering::Relaxed);
    }
}

/// Work of which one piece at a time may be done on a thread that has other things to do, as long as it takes little
/// time. Used from any thread.
#[derive(Debug)]
pub struct Pace {
    running: AtomicUsize,
    /// What the last ones took on average, in nanoseconds; the greatest number before the first.
    average_ns: AtomicU64,
    most: Duration,
}

impl Pace {
    /// Of work that takes at most so long.
    pub fn new(most: Duration) -> Self {
        Self { running: AtomicUsize::new(0), average_ns: AtomicU64::new(u64::MAX), most }
    }

    /// A piece of work begins; it ends when this is dropped.
    pub fn begin(&self) -> Running<'_> {
        let is_alone = self.running.fetch_add(1, Ordering::Relaxed) == 0;
        Running { pace: self, is_alone, since: Instant::now() }
    }
}

/// A piece of work that runs.
#[derive(Debug)]
pub struct Running<'a> {
    pace: &'a Pace,
    is_alone: bool,
    since: Instant,
}

impl Running<'_> {
    /// Whether it is the only one, and is expected to take little time.
    pub fn may_stay(&self) -> bool {
        self.is_alone && u128::from(self.pace.average_ns.load(Ordering::Relaxed)) <= self.pace.most.as_nanos()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.pace.running.fetch_sub(1, Ordering::Relaxed);
        let took = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX - 1);
        let before = self.pace.average_ns.load(Ordering::Relaxed);
        // Two at once may count as one: it is a guess.
        let average = if before == u64::MAX { took } else { before - before / 8 + took / 8 };
        self.pace.average_ns.store(average, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_piece_of_quick_work_may_stay() {
        let pace = Pace::new(Duration::from_secs(1));
        let first = pace.begin();
        assert!(!first.may_stay(), "nothing is known of it");
        drop(first);
        let one = pace.begin();
        assert!(one.may_stay() && !pace.begin().may_stay(), "there is one already");
        drop(one);
        assert!(pace.begin().may_stay());
        let slow = Pace::new(Duration::ZERO);
        drop(slow.begin());
        assert!(!slow.begin().may_stay());
    }

    #[test]
    fn a_thread_that_sleeps_has_waited() {
        let watch = WaitWatch::begin();
        std::thread::sleep(Duration::from_millis(1));
        assert!(watch.has_waited());
    }

    #[test]
    fn work_is_expected_to_be_quiet_once_enough_was() {
        let quiet = Quiet::default();
        for _ in 0..QUIET_ENOUGH {
            assert!(!quiet.is_expected());
            quiet.note(false);
        }
        assert!(quiet.is_expected());
        quiet.note(true);
        assert!(!quiet.is_expected());
    }
}
