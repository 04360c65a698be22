//! How many processes there are: the rule of the thesis (section 4.4), and the way back.
//!
//! Invariant: numbers only. Who starts and ends processes asks here how many.

use std::time::Duration;

/// The bounds of a pool's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Processes that are to be free at any time, so that a request finds one.
    pub threshold: usize,
    /// Processes that are started at once, at least.
    pub minimum: usize,
    /// Processes at most.
    pub maximum: usize,
}

/// How many processes there are, those that are being started among them, and how many are asked for or at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All that there are or will be in a moment.
    pub total: usize,
    /// Those at work, and requests that wait for one.
    pub active: usize,
}

impl Counts {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { total: self.total + other.total, active: self.active + other.active }
    }

    /// Notes a request for so many processes. Gives how many more to start: if fewer than the threshold would be free,
    /// as many as are requested, or the minimum if that is more.
    pub fn request(&mut self, requested: usize, growth: &Growth) -> usize {
        self.active += requested;
        if self.total >= self.active + growth.threshold {
            return 0;
        }
        let more = requested.max(growth.minimum).min(growth.maximum.saturating_sub(self.total));
        self.total += more;
        more
    }

    /// A process or a request is done.
    pub fn release(&mut self) {
        self.active = self.active.saturating_sub(1);
    }

    /// So many processes are gone, or were not to be had.
    pub fn lost(&mut self, processes: usize) {
        self.total = self.total.saturating_sub(processes);
    }

    /// How many of the idle processes to end, given how long each has been idle: those that have been for `patience`,
    /// as long as the threshold is kept.
    pub fn surplus(&self, idle: impl Iterator<Item = Duration>, patience: Duration, growth: &Growth) -> usize {
        let spare = self.total.saturating_sub(self.active).saturating_sub(growth.threshold);
        idle.filter(|idle| *idle >= patience).count().min(spare)
    }
}

#[cfg(test)]
mod tests {
    use diligence_base::seams::Random;

    use super::*;

    const THESIS: Growth = Growth { threshold: 5, minimum: 6, maximum: 1000 };

    /// Section 4.4: "The threshold is 5, the total number of processes is 20, the minimum number to start is 6 and
    /// currently 14 processes are active. A request for 4 new processes is made."
    #[test]
    fn the_example_of_the_thesis() {
        let mut counts = Counts { total: 20, active: 14 };
        assert_eq!(counts.request(4, &THESIS), 6);
        assert_eq!(counts, Counts { total: 26, active: 18 });
    }

    #[test]
    fn a_request_that_leaves_the_threshold_starts_nothing() {
        let mut counts = Counts { total: 20, active: 11 };
        assert_eq!(counts.request(4, &THESIS), 0, "5 are free still");
        assert_eq!(counts.request(1, &THESIS), 6, "4 would be");
        assert_eq!(counts.request(30, &THESIS), 30, "more than the minimum are asked for");
        assert_eq!(counts, Counts { total: 56, active: 46 });
    }

    #[test]
    fn the_first_request_starts_the_minimum_and_the_maximum_holds() {
        let growth = Growth { threshold: 1, minimum: 2, maximum: 3 };
        let mut counts = Counts::default();
        assert_eq!((counts.request(1, &growth), counts.request(1, &growth), counts.request(5, &growth)), (2, 1, 0));
        assert_eq!(counts, Counts { total: 3, active: 7 }, "requests wait");
        counts.lost(1);
        counts.release();
        assert_eq!(counts.request(0, &growth), 1, "what died is replaced");
    }

    #[test]
    fn idle_processes_go_but_for_the_threshold() {
        let counts = Counts { total: 26, active: 18 };
        let seconds = |seconds: &[u64]| seconds.iter().map(|seconds| Duration::from_secs(*seconds)).collect::<Vec<_>>();
        let surplus = |idle: &[u64]| counts.surplus(seconds(idle).into_iter(), Duration::from_secs(60), &THESIS);
        assert_eq!(surplus(&[90, 80, 70, 65, 60, 1, 1, 1]), 3, "5 of 8 stay");
        assert_eq!(surplus(&[90, 80, 1, 1, 1, 1, 1, 1]), 2);
        assert_eq!(surplus(&[1; 8]), 0);
        assert_eq!(Counts { total: 3, active: 9 }.surplus(seconds(&[90]).into_iter(), Duration::ZERO, &THESIS), 0);
    }

    /// Any requests and ends keep the numbers within their bounds, and leave the threshold free as far as the maximum
    /// lets them.
    #[test]
    fn numbers_stay_within_their_bounds() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let growth =
                Growth { threshold: random.below(8), minimum: 1 + random.below(8), maximum: 1 + random.below(40) };
            let mut counts = Counts::default();
            for _ in 0..200 {
                match random.below(4) {
                    0 | 1 => {
                        let before = counts;
                        let more = counts.request(1 + random.below(4), &growth);
                        assert_eq!(counts.total, before.total + more, "seed {seed}");
                        let is_free = counts.total >= counts.active + growth.threshold;
                        assert!(is_free || more > 0 || counts.total == growth.maximum, "seed {seed}: {counts:?}");
                    }
                    2 => counts.release(),
                    _ => counts.lost(random.below(2)),
                }
                assert!(counts.total <= growth.maximum, "seed {seed}: {counts:?}");
            }
        }
    }
}
