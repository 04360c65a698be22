//! A history: what transactions have appended to lists, and what they have read of them.
//!
//! Every value is appended once, so a list that is read tells who has written before, and in which order.

/// What a transaction does with one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListStep {
    /// It appends a value.
    Append(usize, i64),
    /// It reads all values.
    Read(usize, Vec<i64>),
}

/// A transaction, or a part of one that went back to a savepoint.
#[derive(Clone, Debug)]
pub(super) struct TransactionRecord {
    pub(super) steps: Vec<ListStep>,
    pub(super) is_committed: bool,
    /// When it had not begun yet and when it had ended, on a clock that all sessions have.
    pub(super) lifetime: (u64, u64),
}

impl TransactionRecord {
    /// The values that it appends to a list, in their order.
    pub(super) fn appended(&self, list: usize) -> impl DoubleEndedIterator<Item = i64> {
        self.steps.iter().filter_map(move |step| match step {
            ListStep::Append(to, value) if *to == list => Some(*value),
            _ => None,
        })
    }
}
