//! Locks, atomics and parking: the only place where the engine takes them from.
//!
//! They are those of [`diligence_base::sync`], so that the tests in `interleavings` can try schedules that the system's
//! threads hardly ever show. Atomics are the standard library's outside of unit tests: operators touch some of them for
//! every row, where even a load and a branch that is never taken would show.
//!
//! Invariant: nothing else in the engine takes a lock, touches an atomic or parks.

#[cfg(test)]
pub(crate) use diligence_base::sync::atomic;
pub(crate) use diligence_base::sync::{Condvar, Latch, Mutex, MutexGuard, linger, thread};
#[cfg(not(test))]
pub(crate) use std::sync::atomic;

use diligence_base::sync::is_driven;
use tokio::runtime::{EnterGuard, Handle};

/// Makes `runtime` the one that code on this thread finds, as long as the result lives. Threads of a driver are one
/// thread of the system, which cannot be in and out of a runtime in any order: there it does nothing.
pub(crate) fn enter(runtime: &Handle) -> Option<EnterGuard<'_>> {
    (!is_driven()).then(|| runtime.enter())
}
