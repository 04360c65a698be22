//! What the tuner looks at: counters of the whole engine at one moment, and what happened between two.

use std::fmt;
use std::str::FromStr;

use diligence_base::{Error, Result};

use crate::stages::StageId;

/// Classes of queries by what they used of workers: only queries of one class are compared.
pub const CLASSES: usize = 6;

/// Up to so much work, in nanoseconds, is each class but the last.
const CLASS_NS: [u64; CLASSES - 1] = [1_000_000, 6_000_000, 30_000_000, 150_000_000, 750_000_000];

/// Logarithms are added up in millionths.
pub const LOGARITHM_UNIT: f64 = 1e6;

/// Stages of the engine.
pub const STAGES: usize = StageId::ALL.len();

/// A stage's, or that of the I/O threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCounters {
    /// In its queue at the moment.
    pub queued: u64,
    /// Turns so far.
    pub turns: u64,
    /// Turns that ended waiting.
    pub waits: u64,
    /// Time in its queue.
    pub wait_ns: u64,
    /// Time on workers.
    pub service_ns: u64,
}

/// Queries of one class that have ended well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// How many.
    pub ended: u64,
    /// The sum of the natural logarithms of the nanoseconds that they took, in millionths: its mean is that of their
    /// geometric mean, which one long query does not move much.
    pub logarithms: u64,
}

/// Counters of an engine at one moment. All but gauges count from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The time, on the engine's clock.
    pub now_ns: u64,
    /// Each stage, in the order of [`StageId::ALL`].
    pub stages: [StageCounters; STAGES],
    /// The I/O threads.
    pub io: StageCounters,
    /// Queries that run at the moment.
    pub running: u64,
    /// Queries that have ended.
    pub classes: [ClassCounters; CLASSES],
    /// The memory budget.
    pub budget_bytes: u64,
    /// What of it is taken at the moment.
    pub taken_bytes: u64,
    /// How often somebody had to wait for memory, or was refused some.
    pub memory_waits: u64,
    /// Bytes that went to temp space.
    pub spilled_bytes: u64,
    /// How often somebody had to wait for temp space.
    pub temp_waits: u64,
}

/// The class of a query that has used so much of workers.
pub fn class_of(worked_ns: u64) -> usize {
    CLASS_NS.iter().position(|&most| worked_ns <= most).unwrap_or(CLASSES - 1)
}

/// The logarithm of a length of time as it is added up.
pub fn logarithm(elapsed_ns: u64) -> u64 {
    ((elapsed_ns.max(1) as f64).ln() * LOGARITHM_UNIT) as u64
}

impl StageCounters {
    fn since(self, before: Self) -> Self {
        Self {
            queued: self.queued,
            turns: self.turns.saturating_sub(before.turns),
            waits: self.waits.saturating_sub(before.waits),
            wait_ns: self.wait_ns.saturating_sub(before.wait_ns),
            service_ns: self.service_ns.saturating_sub(before.service_ns),
        }
    }

    fn numbers(self) -> [u64; 5] {
        [self.queued, self.turns, self.waits, self.wait_ns, self.service_ns]
    }

    fn of_numbers(numbers: &[u64]) -> Self {
        Self { queued: numbers[0], turns: numbers[1], waits: numbers[2], wait_ns: numbers[3], service_ns: numbers[4] }
    }
}

impl ClassCounters {
    fn since(self, before: Self) -> Self {
        Self {
            ended: self.ended.saturating_sub(before.ended),
            logarithms: self.logarithms.saturating_sub(before.logarithms),
        }
    }

    /// What two spans have seen together.
    pub fn and(self, other: Self) -> Self {
        Self {
            ended: self.ended.saturating_add(other.ended),
            logarithms: self.logarithms.saturating_add(other.logarithms),
        }
    }

    /// The mean logarithm; `None` if none has ended.
    pub fn mean(self) -> Option<f64> {
        (self.ended > 0).then(|| self.logarithms as f64 / LOGARITHM_UNIT / self.ended as f64)
    }
}

impl Counters {
    /// What happened since `before`: gauges stay as they are, and what has gone back counts as nothing.
    pub fn since(&self, before: &Self) -> Self {
        let mut span = *self;
        span.now_ns = self.now_ns.saturating_sub(before.now_ns);
        span.stages.iter_mut().zip(before.stages).for_each(|(stage, before)| *stage = stage.since(before));
        span.io = self.io.since(before.io);
        span.classes.iter_mut().zip(before.classes).for_each(|(class, before)| *class = class.since(before));
        span.memory_waits = self.memory_waits.saturating_sub(before.memory_waits);
        span.spilled_bytes = self.spilled_bytes.saturating_sub(before.spilled_bytes);
        span.temp_waits = self.temp_waits.saturating_sub(before.temp_waits);
        span
    }

    /// Queries that have ended.
    pub fn ended(&self) -> u64 {
        self.classes.iter().fold(0, |ended, class| ended.saturating_add(class.ended))
    }

    /// All stages together, I/O not among them.
    pub fn all_stages(&self) -> StageCounters {
        let add = |all: StageCounters, one: &StageCounters| StageCounters {
            queued: all.queued.saturating_add(one.queued),
            turns: all.turns.saturating_add(one.turns),
            waits: all.waits.saturating_add(one.waits),
            wait_ns: all.wait_ns.saturating_add(one.wait_ns),
            service_ns: all.service_ns.saturating_add(one.service_ns),
        };
        self.stages.iter().fold(StageCounters::default(), add)
    }

    fn numbers(&self) -> Vec<u64> {
        let mut numbers = vec![self.now_ns];
        numbers.extend(self.stages.iter().chain([&self.io]).flat_map(|stage| stage.numbers()));
        numbers.push(self.running);
        numbers.extend(self.classes.iter().flat_map(|class| [class.ended, class.logarithms]));
        numbers.extend([self.budget_bytes, self.taken_bytes, self.memory_waits, self.spilled_bytes, self.temp_waits]);
        numbers
    }
}

impl fmt::Display for Counters {
    /// All numbers in one line, for records that can be replayed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.numbers();
        numbers.iter().enumerate().try_for_each(|(index, number)| {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{number}")
        })
    }
}

impl FromStr for Counters {
    type Err = Error;

    /// Reads such a line. An input error if it is none.
    fn from_str(line: &str) -> Result<Self> {
        let wrong = || Error::input(format!("this is no line of counters: '{line}'"));
        let numbers: Vec<u64> =
            line.split_whitespace().map(|number| number.parse().map_err(|_| wrong())).collect::<Result<_>>()?;
        let mut counters = Counters::default();
        if numbers.len() != counters.numbers().len() {
            return Err(wrong());
        }
        counters.now_ns = numbers[0];
        let (stages, rest) = numbers[1..].split_at(5 * STAGES);
        for (stage, numbers) in counters.stages.iter_mut().zip(stages.chunks(5)) {
            *stage = StageCounters::of_numbers(numbers);
        }
        counters.io = StageCounters::of_numbers(rest);
        counters.running = rest[5];
        for (class, numbers) in counters.classes.iter_mut().zip(rest[6..].chunks(2)) {
            *class = ClassCounters { ended: numbers[0], logarithms: numbers[1] };
        }
        let last = &rest[6 + 2 * CLASSES..];
        counters.budget_bytes = last[0];
        counters.taken_bytes = last[1];
        counters.memory_waits = last[2];
        counters.spilled_bytes = last[3];
        counters.temp_waits = last[4];
        Ok(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let count = Counters::default().numbers().len() as u64;
        let line = (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        let counters: Counters = line.parse().unwrap();
        assert_eq!(counters.to_string(), line);
        assert_eq!((counters.now_ns, counters.temp_waits), (1, count));
        for wrong in ["", "1 2", &format!("{line} 1"), &line.replace('7', "x")] {
            assert!(wrong.parse::<Counters>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_has_gone_back_counts_as_nothing() {
        let mut before = Counters { now_ns: 10, spilled_bytes: 7, ..Counters::default() };
        before.classes[2] = ClassCounters { ended: 4, logarithms: 9 };
        let after = Counters { now_ns: 5, spilled_bytes: 9, taken_bytes: 3, ..Counters::default() };
        let span = after.since(&before);
        assert_eq!((span.now_ns, span.spilled_bytes, span.taken_bytes, span.ended()), (0, 2, 3, 0));
    }

    #[test]
    fn classes_are_those_of_work_and_means_those_of_logarithms() {
        assert_eq!([0, 1_000_000, 1_000_001, 6_000_001, u64::MAX].map(class_of), [0, 0, 1, 2, CLASSES - 1]);
        let class = [100, 10_000].into_iter().fold(ClassCounters::default(), |class, ns| {
            class.and(ClassCounters { ended: 1, logarithms: logarithm(ns) })
        });
        assert!((class.mean().unwrap().exp() - 1000.0).abs() < 0.01);
        assert_eq!((ClassCounters::default().mean(), logarithm(0)), (None, 0));
    }
}
