//! What is known of the checkpoints of a folder since it was opened: totals, and the last ones one by one.

use std::collections::VecDeque;
use std::time::Duration;

use diligence_base::{Error, Result};

/// Checkpoints that are known one by one: some hours of them, and of ones that fail, which are tried again twice a
/// second, a minute.
const LAST_MAX: usize = 100;

/// The checkpoints of a folder since it was opened.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    /// How many were made.
    pub total: u64,
    /// How many failed.
    pub failed_total: u64,
    /// How long the last one took.
    pub took: Duration,
    /// Bytes of its image.
    pub image_bytes: u64,
    /// Bytes of the logs that it made superfluous.
    pub log_bytes: u64,
    /// Why the last one that failed did.
    pub failure: Option<Error>,
}

/// A checkpoint that was made, or that failed.
#[derive(Clone, Debug)]
pub struct CheckpointInfo {
    /// Which one it is since the folder was opened, from 1.
    pub number: u64,
    /// When it began, in microseconds since 1970.
    pub began_us: i64,
    /// How long it took.
    pub took: Duration,
    /// Bytes of its image, and of the logs that it made superfluous; or why there is none.
    pub outcome: Result<(u64, u64)>,
    /// How many had been made by then.
    pub made_total: u64,
    /// How many had failed by then.
    pub failed_total: u64,
}

/// The totals, and the last checkpoints.
#[derive(Debug, Default)]
pub(crate) struct CheckpointRecord {
    pub totals: Checkpoints,
    last: VecDeque<CheckpointInfo>,
}

impl CheckpointRecord {
    /// Adds one that has ended.
    pub fn add(&mut self, began_us: i64, took: Duration, outcome: Result<(u64, u64)>) {
        let totals = &mut self.totals;
        match &outcome {
            Ok((image_bytes, log_bytes)) => {
                totals.total += 1;
                (totals.image_bytes, totals.log_bytes) = (*image_bytes, *log_bytes);
                totals.took = took;
            }
            Err(error) => {
                totals.failed_total += 1;
                totals.failure = Some(error.clone());
            }
        }
        let (made_total, failed_total) = (totals.total, totals.failed_total);
        let number = made_total + failed_total;
        if self.last.len() == LAST_MAX {
            self.last.pop_front();
        }
        self.last.push_back(CheckpointInfo { number, began_us, took, outcome, made_total, failed_total });
    }

    /// The last ones, oldest first.
    pub fn last(&self) -> Vec<CheckpointInfo> {
        self.last.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_known_and_all_are_counted() {
        let mut record = CheckpointRecord::default();
        for number in 1..=150_u64 {
            let outcome = if number % 3 == 0 { Err(Error::file("full")) } else { Ok((number, 2 * number)) };
            record.add(number as i64, Duration::from_millis(number), outcome);
        }
        let Checkpoints { total, failed_total, took, image_bytes, log_bytes, failure } = &record.totals;
        assert_eq!((*total, *failed_total, *image_bytes, *log_bytes), (100, 50, 149, 298));
        assert_eq!((*took, failure.as_ref().map(Error::message)), (Duration::from_millis(149), Some("full")));
        let last = record.last();
        assert_eq!(last.iter().map(|one| one.number).collect::<Vec<_>>(), (51..=150).collect::<Vec<_>>());
        assert!(last.iter().all(|one| one.made_total + one.failed_total == one.number));
        assert_eq!(last.iter().filter(|one| one.outcome.is_err()).count(), 34);
    }
}
