//! Who chooses schedules, if anybody does.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

/// Runs some threads one at a time, and chooses at each of these calls which of them goes on. Only its own threads
/// call it. Locks and conditions are told apart by numbers, their addresses: a number may come again for another lock
/// when the first one is gone, and nobody holds it then.
pub trait Driver: Sync {
    /// Whether it owns the thread that asks.
    fn owns_this_thread(&self) -> bool;
    /// Others may go first.
    fn step(&self);
    /// Others are to go first.
    fn yield_now(&self);
    /// Returns when the lock belongs to this thread.
    fn lock(&self, lock: usize);
    /// Whether the lock belongs to this thread now, which it does if nobody has it.
    fn try_lock(&self, lock: usize) -> bool;
    /// The lock belongs to nobody.
    fn unlock(&self, lock: usize);
    /// Gives up the lock, returns when the condition was notified and the lock belongs to this thread again.
    fn wait(&self, condition: usize, lock: usize);
    /// Ends one wait for the condition.
    fn notify_one(&self, condition: usize);
    /// Ends all waits for the condition.
    fn notify_all(&self, condition: usize);
    /// Returns when this thread was unparked, now or since it was parked the last time; for a parking with a timeout,
    /// `is_timed`, sooner if the driver likes.
    fn park(&self, is_timed: bool);
    /// Unparks the thread that asks for it.
    fn unparker(&self) -> Waker;
}

/// Looked at first: it is cheaper than the driver itself.
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
static DRIVER: OnceLock<&'static dyn Driver> = OnceLock::new();

/// Installs the driver of this process, for good. A second one changes nothing.
pub fn install(driver: &'static dyn Driver) {
    let _ = DRIVER.set(driver);
    IS_INSTALLED.store(true, Ordering::Release);
}

/// Whether this thread belongs to a driver.
pub fn is_driven() -> bool {
    driver().is_some()
}

/// The driver of this thread.
#[inline]
pub(super) fn driver() -> Option<&'static dyn Driver> {
    if IS_INSTALLED.load(Ordering::Relaxed) { owner() } else { None }
}

#[cold]
fn owner() -> Option<&'static dyn Driver> {
    installed().filter(|driver| driver.owns_this_thread())
}

/// The driver of whoever asked one before.
pub(super) fn installed() -> Option<&'static dyn Driver> {
    DRIVER.get().copied()
}
