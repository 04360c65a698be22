//! A lock and a condition variable.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::driver::{driver, installed};
use super::latches::{Hold, Latch};

/// A lock with parking_lot's manners: no poison.
#[derive(Default)]
pub struct Mutex<T> {
    value: parking_lot::Mutex<T>,
    /// Under which name it is counted, if it is.
    latch: Option<&'static Latch>,
}

/// The value of a [`Mutex`], as long as this thread has the lock.
pub struct MutexGuard<'a, T> {
    // Fields are dropped in this order: who is timed holds the value, and whoever gets the turn next finds it free.
    hold: Option<Hold>,
    value: Option<parking_lot::MutexGuard<'a, T>>,
    turn: Turn,
    mutex: &'a Mutex<T>,
}

/// Why a guard has its value.
const HELD: &str = "the value is given up only while its holder waits";

/// What a driver knows the lock by, if one was asked.
struct Turn(Option<usize>);

impl<T> Mutex<T> {
    /// A lock around a value.
    pub const fn new(value: T) -> Self {
        Self { value: parking_lot::Mutex::new(value), latch: None }
    }

    /// A lock around a value that is counted under a name.
    pub const fn named(latch: &'static Latch, value: T) -> Self {
        Self { value: parking_lot::Mutex::new(value), latch: Some(latch) }
    }

    /// Waits until nobody has the lock, and takes it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if let Some(driver) = driver() {
            let number = self.number();
            driver.lock(number);
            return MutexGuard { hold: None, turn: Turn(Some(number)), value: Some(self.value.lock()), mutex: self };
        }
        let (value, hold) = match self.latch {
            Some(latch) => latch.take(|| self.value.try_lock(), || self.value.lock()),
            None => (self.value.lock(), None),
        };
        MutexGuard { hold, value: Some(value), turn: Turn(None), mutex: self }
    }

    /// Takes the lock if nobody has it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let turn = match driver() {
            None => None,
            Some(driver) => Some(Some(self.number()).filter(|number| driver.try_lock(*number))?),
        };
        let turn = Turn(turn);
        let value = self.value.try_lock()?;
        let hold = self.counted().and_then(Latch::taken);
        Some(MutexGuard { hold, value: Some(value), turn, mutex: self })
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// The name under which it is counted on this thread.
    #[inline]
    fn counted(&self) -> Option<&'static Latch> {
        if driver().is_some() { None } else { self.latch }
    }

    /// What a driver knows it by: the address of a byte that nothing else has.
    pub(super) fn number(&self) -> usize {
        // SAFETY: the raw lock is only looked for, not unlocked.
        std::ptr::from_ref(unsafe { self.value.raw() }).addr()
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect(HELD)
    }
}

impl<T> MutexGuard<'_, T> {
    /// Gives up the lock while something is done.
    pub fn unlocked<R>(guard: &mut Self, body: impl FnOnce() -> R) -> R {
        guard.hold = None;
        match guard.turn.0.take() {
            Some(lock) => {
                guard.value = None;
                give_back(lock);
                let done = body();
                installed().into_iter().for_each(|driver| driver.lock(lock));
                guard.turn = Turn(Some(lock));
                guard.value = Some(guard.mutex.value.lock());
                done
            }
            None => {
                let done = parking_lot::MutexGuard::unlocked(guard.value.as_mut().expect(HELD), body);
                guard.hold = guard.mutex.counted().and_then(Latch::taken);
                done
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            give_back(number);
        }
    }
}

#[cold]
fn give_back(number: usize) {
    installed().into_iter().for_each(|driver| driver.unlock(number));
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Gives up the lock until somebody notifies, and perhaps for a shorter time.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        match guard.turn.0.take() {
            Some(lock) => {
                guard.value = None;
                installed().into_iter().for_each(|driver| driver.wait(self.number(), lock));
                guard.turn = Turn(Some(lock));
                guard.value = Some(guard.mutex.value.lock());
            }
            None => {
                guard.hold = None;
                self.0.wait(guard.value.as_mut().expect(HELD));
                guard.hold = guard.mutex.counted().and_then(Latch::taken);
            }
        }
    }

    /// The same, at most for so long. On a thread that a driver owns it ends when others have had a turn: there is no
    /// time there.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) {
        if guard.turn.0.is_some() {
            return MutexGuard::unlocked(guard, super::thread::yield_now);
        }
        guard.hold = None;
        self.0.wait_for(guard.value.as_mut().expect(HELD), timeout);
        guard.hold = guard.mutex.counted().and_then(Latch::taken);
    }

    /// Wakes one of those that wait.
    pub fn notify_one(&self) {
        match driver() {
            Some(driver) => driver.notify_one(self.number()),
            None => drop(self.0.notify_one()),
        }
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        match driver() {
            Some(driver) => driver.notify_all(self.number()),
            None => drop(self.0.notify_all()),
        }
    }

    pub(super) fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}
