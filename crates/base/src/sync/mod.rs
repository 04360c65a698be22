//! Locks, atomics and parking, for code whose schedules are tested.
//!
//! They are parking_lot's and the standard library's. A test may install a [`Driver`], which owns some threads: each of
//! these asks it at every lock, atomic access and wake-up who goes on, so that the driver can try schedules that the
//! system's threads hardly ever show. The code under test is the code itself, not a model of it, and is compiled once:
//! without a driver, all this costs one relaxed load and a branch that is never taken.
//!
//! Invariant: code that a driver runs takes no lock, touches no atomic and parks nowhere but through here. A lock that
//! the driver does not know would stop the one system thread that all of its threads share.

pub mod atomic;
mod driver;
mod latches;
mod mutex;
#[cfg(test)]
mod tests;
pub mod thread;

pub use driver::{Driver, install, is_driven};
pub use latches::{Latch, LatchInfo, latches};
pub use mutex::{Condvar, Mutex, MutexGuard};

/// How often a thread looks before it sleeps. That takes some 50 us, as long as it takes to wake one that sleeps.
const LINGER_LOOKS: usize = 100;
/// The same on a thread that a driver owns: looks are steps of its schedule.
const DRIVEN_LOOKS: usize = 2;

/// Looks for a moment whether `called`, giving way to other threads each time: what comes soon finds this thread awake.
pub fn linger(called: impl Fn() -> bool) -> bool {
    let looks = if is_driven() { DRIVEN_LOOKS } else { LINGER_LOOKS };
    for _ in 0..looks {
        if called() {
            return true;
        }
        thread::yield_now();
    }
    false
}
