//! Whether a thread has waited: for a disk, a lock or anything else but its turn on a core.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
