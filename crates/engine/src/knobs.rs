//! Knobs: the numbers that an engine runs with and that may change while it does.
//!
//! A person sets them, or the tuner ([`tuning`](crate::tuning)). Whoever needs one reads it when it matters: the
//! quantum at each turn, the others when a query is set up. No knob changes what a query answers.
//!
//! Invariant: a knob is within its limits ([`diligence_base::limits`]), whatever it is set to.

use std::ops::RangeInclusive;

use diligence_base::limits::{
    BATCH_ROWS_MAX, IO_THREADS, IO_THREADS_RANGE, PORT_CREDITS, PORT_CREDITS_RANGE, QUANTUM, QUANTUM_RANGE,
    READ_AHEAD_CLUSTERS, READ_AHEAD_RANGE, WORKERS_MAX,
};

use crate::sync::atomic::{AtomicUsize, Ordering};

/// A number within its limits.
#[derive(Debug)]
pub struct Knob {
    value: AtomicUsize,
    limits: RangeInclusive<usize>,
}

impl Knob {
    fn new(value: usize, limits: RangeInclusive<usize>) -> Self {
        Self { value: AtomicUsize::new(value.clamp(*limits.start(), *limits.end())), limits }
    }

    /// What it is set to.
    #[inline]
    pub fn get(&self) -> usize {
        self.value.load(Ordering::Relaxed)
    }

    /// Sets it, or to the limit that is nearest.
    pub fn set(&self, value: usize) {
        self.value.store(value.clamp(*self.limits.start(), *self.limits.end()), Ordering::Relaxed);
    }

    /// The least and the most.
    pub fn limits(&self) -> RangeInclusive<usize> {
        self.limits.clone()
    }
}

/// The knobs of an engine.
#[derive(Debug)]
pub struct Knobs {
    /// How long a packet runs before it goes back to its queue, in microseconds.
    pub quantum_us: Knob,
    /// Packets that may work on one pipeline, for queries that do not say.
    pub packets: Knob,
    /// Batches that a producer may be ahead of its consumer at a port.
    pub port_credits: Knob,
    /// Clusters that a scan may have in flight for each of its packets.
    pub read_ahead: Knob,
    /// Rows in a batch at most; a query may have fewer.
    pub batch_rows: Knob,
    /// Threads that wait for local files.
    pub io_threads: Knob,
}

/// A length of time in microseconds, as the knob has it.
fn micros(time: std::time::Duration) -> usize {
    time.as_micros() as usize
}

impl Knobs {
    /// Those of an engine that starts, with so many workers.
    pub fn new(workers: usize) -> Self {
        Self {
            quantum_us: Knob::new(micros(QUANTUM), micros(*QUANTUM_RANGE.start())..=micros(*QUANTUM_RANGE.end())),
            packets: Knob::new(workers, 1..=WORKERS_MAX.min(workers.max(1))),
            port_credits: Knob::new(PORT_CREDITS, PORT_CREDITS_RANGE),
            read_ahead: Knob::new(READ_AHEAD_CLUSTERS, READ_AHEAD_RANGE),
            batch_rows: Knob::new(BATCH_ROWS_MAX, 1..=BATCH_ROWS_MAX),
            io_threads: Knob::new(IO_THREADS, IO_THREADS_RANGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_stays_within_its_limits() {
        let knobs = Knobs::new(3);
        let all = [
            &knobs.quantum_us,
            &knobs.packets,
            &knobs.port_credits,
            &knobs.read_ahead,
            &knobs.batch_rows,
            &knobs.io_threads,
        ];
        for knob in all {
            assert!(knob.limits().contains(&knob.get()));
            for value in [0, 1, usize::MAX] {
                knob.set(value);
                assert_eq!(knob.get(), value.clamp(*knob.limits().start(), *knob.limits().end()));
            }
        }
        assert_eq!((knobs.packets.limits(), Knobs::new(0).packets.get()), (1..=3, 1));
    }
}
