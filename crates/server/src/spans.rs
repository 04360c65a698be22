//! Statements that have ended, kept until whoever sends traces takes them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

/// Statements that are kept at most. More of them between two looks are counted, and lost.
const SPANS_MAX: usize = 8192;

/// How a statement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It came to its end, or as far as its client wanted.
    Done,
    /// It failed: its SQLSTATE, and the message.
    Failed(&'static str, String),
    /// It was cancelled, or took too long.
    GivenUp,
}

/// A statement from its start to its end.
#[derive(Clone, Debug)]
pub struct Span {
    /// When it ended.
    pub ended: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// By which door it came.
    pub door: &'static str,
    /// Who asked.
    pub user: String,
    /// What, without passwords; long ones are cut off.
    pub statement: String,
    /// How it ended.
    pub ending: Ending,
}

/// The statements that have ended.
#[derive(Debug, Default)]
pub struct Spans {
    is_on: AtomicBool,
    ended: Mutex<VecDeque<Span>>,
    lost: AtomicU64,
}

impl Spans {
    /// Keeps statements from now on.
    pub(crate) fn keep(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Keeps a statement, if somebody wants them.
    pub(crate) fn add(&self, span: impl FnOnce() -> Span) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let span = span();
        let mut ended = self.ended.lock();
        if ended.len() < SPANS_MAX {
            ended.push_back(span);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The oldest of those that are kept, so many at most.
    pub(crate) fn take(&self, count: usize) -> Vec<Span> {
        let mut ended = self.ended.lock();
        let count = count.min(ended.len());
        ended.drain(..count).collect()
    }

    /// How many were lost, because nobody took them in time.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_kept_when_somebody_wants_them_and_not_without_end() {
        let spans = Spans::default();
        let span = || Span {
            ended: SystemTime::UNIX_EPOCH,
            took: Duration::ZERO,
            door: "http",
            user: String::new(),
            statement: String::new(),
            ending: Ending::Done,
        };
        spans.add(span);
        assert!(spans.take(9).is_empty());
        spans.keep();
        (0..SPANS_MAX + 3).for_each(|_| spans.add(span));
        assert_eq!((spans.take(10).len(), spans.lost()), (10, 3));
        assert_eq!(spans.take(usize::MAX).len(), SPANS_MAX - 10);
    }
}
