//! What a transaction has changed of its session: settings, and whom the session acts as. ROLLBACK and ROLLBACK TO make
//! them what they were, and the end of a transaction those that were changed for it alone (SET LOCAL).
//!
//! Kept is each change with what was before it, in their order. Of changes of one setting between two points to which
//! the transaction may go back, two say all: a SET, and a SET LOCAL after it.

use std::sync::{Arc, Weak};

use diligence_catalog::transaction::TransactionMark;

use crate::put_off::PutOffMark;

/// What something of a session was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Was {
    /// A setting's value.
    Setting { name: String, value: String },
    /// What SET ROLE had said.
    Role(Option<String>),
    /// What SET SESSION AUTHORIZATION had said.
    Authorization(Option<String>),
}

impl Was {
    /// Whether it is of the same setting as another one.
    fn is_of_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Setting { name, .. }, Self::Setting { name: other, .. }) => name == other,
            (Self::Role(_), Self::Role(_)) | (Self::Authorization(_), Self::Authorization(_)) => true,
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
struct Change {
    was: Was,
    is_local: bool,
}

/// A point of a transaction to which it may go back.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionMark {
    /// What had been changed of the database.
    pub(crate) names: TransactionMark,
    /// How many messages had been said.
    pub(crate) said: usize,
    /// Which triggers had been put off.
    pub(crate) put_off: PutOffMark,
    /// How many changes of settings there were.
    settings: Arc<usize>,
}

/// The changes of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    changes: Vec<Change>,
    /// How many there were at points that somebody still has.
    marks: Vec<Weak<usize>>,
}

impl Remembered {
    /// Remembers what was changed; with `is_local`, for the transaction alone.
    pub(crate) fn note(&mut self, was: Was, is_local: bool) {
        let since = self.since();
        let same = |change: &Change| change.was.is_of_same(&was);
        let Some(first) = self.changes[since..].iter().position(same).map(|place| since + place) else {
            return self.changes.push(Change { was, is_local });
        };
        let second = self.changes[first + 1..].iter().position(same).map(|place| first + 1 + place);
        match (is_local, self.changes[first].is_local, second) {
            // It lasts no longer than the one before it did.
            (true, true, _) | (true, _, Some(_)) => {}
            (true, false, None) => self.changes.push(Change { was, is_local }),
            // What was there for the transaction alone is gone.
            (false, _, second) => {
                self.changes[first].is_local = false;
                if let Some(second) = second {
                    self.changes.remove(second);
                }
            }
        }
    }

    /// From where on nothing can be gone back to. What was between points that nobody has any more becomes less.
    fn since(&mut self) -> usize {
        let before = self.marks.len();
        while self.marks.last().is_some_and(|mark| mark.strong_count() == 0) {
            self.marks.pop();
        }
        let since = self.marks.last().and_then(Weak::upgrade).map_or(0, |mark| *mark);
        if self.marks.len() < before {
            let later = self.changes.split_off(since.min(self.changes.len()));
            later.into_iter().for_each(|change| self.note(change.was, change.is_local));
        }
        since
    }

    /// A point, where the database is so and so much had been said.
    pub(crate) fn mark(&mut self, names: TransactionMark, said: usize, put_off: PutOffMark) -> SessionMark {
        self.since();
        let known = self.marks.last().and_then(Weak::upgrade).filter(|mark| **mark == self.changes.len());
        let settings = known.unwrap_or_else(|| {
            let mark = Arc::new(self.changes.len());
            self.marks.push(Arc::downgrade(&mark));
            mark
        });
        SessionMark { names, said, put_off, settings }
    }

    /// Goes back to a point: what is to be again, one after the other.
    pub(crate) fn back_to(&mut self, mark: &SessionMark) -> Vec<Was> {
        let at = *mark.settings;
        self.marks.retain(|mark| mark.upgrade().is_some_and(|mark| *mark <= at));
        let undone = self.changes.split_off(at.min(self.changes.len()));
        undone.into_iter().rev().map(|change| change.was).collect()
    }

    /// The end of the transaction: what is to be then, one after the other.
    pub(crate) fn end(&mut self, commits: bool) -> Vec<Was> {
        self.marks.clear();
        let (mut stay, mut undone) = (Vec::<Was>::new(), Vec::new());
        for Change { was, is_local } in std::mem::take(&mut self.changes).into_iter().rev() {
            match commits {
                true if stay.iter().any(|kept| kept.is_of_same(&was)) => {}
                true if !is_local => stay.push(was),
                _ => undone.push(was),
            }
        }
        undone
    }
}

#[cfg(test)]
mod tests {
    use diligence_catalog::Catalog;
    use diligence_catalog::transaction::Transaction;

    use super::*;

    fn was(value: &str) -> Was {
        Was::Setting { name: "a".into(), value: value.into() }
    }

    #[test]
    fn what_is_local_ends_with_the_transaction_and_all_with_a_rollback() {
        // (which changes are local, what COMMIT makes of the value): the value before the first change is 0, and so on.
        let cases: [(&[bool], Option<&str>); 6] = [
            (&[false], None),
            (&[true], Some("0")),
            (&[false, true], Some("1")),
            (&[true, false], None),
            (&[false, true, false], None),
            (&[true, false, true], Some("2")),
        ];
        for (changes, committed) in cases {
            for commits in [true, false] {
                let mut all = Remembered::default();
                changes.iter().enumerate().for_each(|(place, local)| all.note(was(&place.to_string()), *local));
                let last = all.end(commits).pop();
                let expected = if commits { committed } else { Some("0") };
                assert_eq!(last, expected.map(was), "{changes:?} {commits}");
                assert_eq!(all.end(false), []);
            }
        }
    }

    #[test]
    fn points_are_gone_back_to_and_what_nobody_goes_back_to_is_forgotten() {
        let transaction = Transaction::begin(Arc::new(Catalog::default()));
        let mut all = Remembered::default();
        all.note(was("0"), false);
        let first = all.mark(transaction.mark(), 0, PutOffMark::default());
        all.note(was("1"), true);
        let second = all.mark(transaction.mark(), 0, PutOffMark::default());
        assert!(first != second && second == all.mark(transaction.mark(), 0, PutOffMark::default()));
        all.note(was("2"), false);
        all.note(Was::Role(None), true);
        assert_eq!(all.back_to(&second), [Was::Role(None), was("2")]);
        assert_eq!(all.back_to(&first), [was("1")]);
        for number in 0..1000 {
            let _mark = all.mark(transaction.mark(), 0, PutOffMark::default());
            all.note(was(&number.to_string()), number % 3 == 0);
        }
        all.mark(transaction.mark(), 0, PutOffMark::default());
        assert!(all.changes.len() <= 4, "{:?}", all.changes);
        assert_eq!(all.end(false).pop(), Some(was("0")));
    }
}
