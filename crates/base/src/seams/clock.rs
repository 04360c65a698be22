//! Time as a seam.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Monotonic time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since the clock was made. Never goes back.
    fn now_ns(&self) -> u64;
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// A clock that moves by a fixed step at every look, so that a replay sees the same times.
#[derive(Debug)]
pub struct ManualClock {
    now_ns: AtomicU64,
    step_ns: u64,
}

impl ManualClock {
    /// A clock at zero that advances by `step_ns` whenever it is read.
    pub fn stepping(step_ns: u64) -> Self {
        Self { now_ns: AtomicU64::new(0), step_ns }
    }

    /// Moves the clock forward by `ns` nanoseconds.
    pub fn advance(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.fetch_add(self.step_ns, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_its_step_and_by_hand() {
        let clock = ManualClock::stepping(10);
        assert_eq!(clock.now_ns(), 0);
        clock.advance(100);
        assert_eq!(clock.now_ns(), 110);
    }
}
