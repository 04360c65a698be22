//! Locks, atomics and parking: the only place where the engine takes them from.
//!
//! In the engine they are parking_lot's and the standard library's, under their own names. In unit tests they are the
//! same with a second face (`interleaved.rs`): a thread that shuttle drives asks shuttle at every lock, atomic access
//! and wake-up who goes on, so that the tests in `interleavings` try schedules that the system's threads hardly ever
//! show. It is the engine itself that runs there, not a model of it, and no build but that of the unit tests knows of
//! it.
//!
//! Invariant: nothing else in the engine takes a lock, touches an atomic or parks. A lock that shuttle does not know
//! would stop the one system thread that all threads of such a test share.
//!
//! What shuttle does not see: it runs every atomic access in one order, so an `Ordering` that is too weak stays hidden.

#[cfg(test)]
mod interleaved;

#[cfg(test)]
pub(crate) use interleaved::{Condvar, Mutex, atomic, enter, thread};
#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex};
#[cfg(not(test))]
pub(crate) use std::{sync::atomic, thread};

/// Makes `runtime` the one that code on this thread finds, as long as the result lives.
#[cfg(not(test))]
pub(crate) fn enter(runtime: &tokio::runtime::Handle) -> tokio::runtime::EnterGuard<'_> {
    runtime.enter()
}

/// How often a thread looks before it sleeps. That takes some 50 us, as long as it takes to wake one that sleeps.
const LINGER_LOOKS: usize = if cfg!(test) { 2 } else { 100 };

/// Looks for a moment whether `called`, giving way to other threads each time: what comes soon finds this thread awake.
pub(crate) fn linger(called: impl Fn() -> bool) -> bool {
    for _ in 0..LINGER_LOOKS {
        if called() {
            return true;
        }
        thread::yield_now();
    }
    false
}
