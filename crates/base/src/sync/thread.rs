//! Threads: who am I, park and unpark.

use std::task::Waker;
use std::time::Duration;

use super::driver::driver;

/// A thread that can be unparked.
#[derive(Clone, Debug)]
pub enum Thread {
    /// Of the system.
    System(std::thread::Thread),
    /// Of a driver.
    Driven(Waker),
}

impl Thread {
    /// Has the thread return from [`park`]: now, or from the next one.
    pub fn unpark(&self) {
        match self {
            Thread::System(thread) => thread.unpark(),
            Thread::Driven(waker) => waker.wake_by_ref(),
        }
    }
}

/// This thread.
pub fn current() -> Thread {
    match driver() {
        Some(driver) => Thread::Driven(driver.unparker()),
        None => Thread::System(std::thread::current()),
    }
}

/// Lets others go first.
#[inline]
pub fn yield_now() {
    match driver() {
        Some(driver) => driver.yield_now(),
        None => std::thread::yield_now(),
    }
}

/// Sleeps until this thread is unparked, and perhaps for a shorter time.
pub fn park() {
    match driver() {
        Some(driver) => driver.park(false),
        None => std::thread::park(),
    }
}

/// The same, at most for so long.
pub fn park_timeout(timeout: Duration) {
    match driver() {
        Some(driver) => driver.park(true),
        None => std::thread::park_timeout(timeout),
    }
}
