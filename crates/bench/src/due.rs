//! When clients send their statements: in a closed loop as soon as they have the answer to the last; in an open loop at
//! times that do not depend on who is asked (a Poisson process). Whichever client of a pool is free takes the next
//! statement that is due. If none is, the statement waits, and that counts: latencies begin when it was due, or
//! somebody who is late would be asked less and look better than he is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The statements of a pool of clients, as they fall due.
#[derive(Debug)]
pub struct Due {
    /// Seconds from the start; `None` in a closed loop.
    starts: Option<Vec<f64>>,
    taken: AtomicUsize,
    sent: AtomicUsize,
}

impl Due {
    /// None is taken yet. Times are seconds from the start, ascending; without any, this is a closed loop.
    pub fn new(starts: Option<Vec<f64>>) -> Arc<Self> {
        Arc::new(Self { starts, taken: AtomicUsize::new(0), sent: AtomicUsize::new(0) })
    }

    /// Takes the next statement; when it is due, or `now` in a closed loop. `None` if nothing more is.
    pub fn take(&self, now: f64) -> Option<f64> {
        let Some(starts) = &self.starts else { return Some(now) };
        starts.get(self.taken.fetch_add(1, Ordering::Relaxed)).copied()
    }

    /// Notes that a statement was sent that was taken.
    pub fn note_sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Statements of an open loop that were due and not sent.
    pub fn left(&self) -> usize {
        self.starts.as_ref().map_or(0, |starts| starts.len().saturating_sub(self.sent.load(Ordering::Relaxed)))
    }
}

/// The times of a Poisson process of so many events a second (exponential gaps), up to `seconds`.
pub fn schedule(rate: f64, seconds: f64, seed: u64) -> Vec<f64> {
    let mut random = diligence_base::seams::Random::new(seed);
    let (mut now, mut starts) = (0.0, Vec::new());
    if rate <= 0.0 {
        return starts;
    }
    loop {
        // In (0, 1]: its logarithm is finite.
        let uniform = (random.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64;
        now -= uniform.ln() / rate;
        if now >= seconds {
            return starts;
        }
        starts.push(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_its_rate_and_comes_from_the_seed() {
        let starts = schedule(1000.0, 10.0, 1);
        assert!((9_500..10_500).contains(&starts.len()), "{}", starts.len());
        assert!(starts.windows(2).all(|pair| pair[0] <= pair[1]) && starts.iter().all(|start| *start < 10.0));
        assert_eq!(starts, schedule(1000.0, 10.0, 1));
        assert_ne!(starts, schedule(1000.0, 10.0, 2));
        // Gaps of a Poisson process differ as much as they are long.
        let gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((0.9..1.1).contains(&(variance.sqrt() / mean)));
        assert!(schedule(0.0, 10.0, 1).is_empty());
    }

    #[test]
    fn what_is_due_is_taken_once_and_what_is_not_sent_is_left() {
        let due = Due::new(Some(vec![0.1, 0.2, 0.3]));
        assert_eq!((due.take(5.0), due.take(5.0)), (Some(0.1), Some(0.2)));
        due.note_sent();
        assert_eq!((due.take(5.0), due.take(5.0), due.left()), (Some(0.3), None, 2));
        let closed = Due::new(None);
        assert_eq!((closed.take(5.0), closed.take(6.0), closed.left()), (Some(5.0), Some(6.0), 0));
    }
}
