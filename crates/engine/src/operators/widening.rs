//! How many rows are worked on at once, where what is made of them may be wider than anybody knows before.
//!
//! Few at first; then as many as have about a batch's bytes if they are as wide as those before, at most eight times as
//! many as before. So where rows are narrow, the first batch is cut into four and no later one is cut.

use arrow::datatypes::DataType;
use diligence_base::limits::{BATCH_ROWS_MAX, BATCH_ROWS_MIN};

use crate::batch::has_known_width;
use crate::flow::rows_within;

/// By how much rows become more at a time.
const GROWTH: usize = 8;

/// The rows to be worked on next.
#[derive(Debug)]
pub(crate) struct Widening {
    rows: usize,
    batch_bytes: usize,
}

impl Widening {
    /// Where values of these types are made, in batches of about so many bytes; `None` if it is known how wide they
    /// are.
    pub fn of<'a>(types: impl IntoIterator<Item = &'a DataType>, batch_bytes: usize) -> Option<Self> {
        let is_known = types.into_iter().all(has_known_width);
        (!is_known).then_some(Self { rows: BATCH_ROWS_MIN, batch_bytes })
    }

    /// How many they are at most.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Notes that so many bytes were made of so many rows.
    pub fn note(&mut self, rows: usize, bytes: usize) {
        let most = self.rows.saturating_mul(GROWTH).min(BATCH_ROWS_MAX);
        self.rows = rows_within(self.batch_bytes, rows, bytes).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_more_as_long_as_they_are_narrow() {
        assert!(Widening::of(&[DataType::Int64, DataType::Boolean], 1 << 20).is_none());
        let mut widening = Widening::of(&[DataType::Int64, DataType::Utf8View], 1 << 20).unwrap();
        let mut rows = Vec::new();
        for width in [10, 10, 10, 10, 10_000, 10_000, 10, 0, 1 << 30] {
            rows.push(widening.rows());
            widening.note(widening.rows(), widening.rows() * width);
        }
        // One piece is too wide, since nobody knew it before.
        assert_eq!(rows, [16, 128, 1024, 8192, 8192, 104, 104, 832, 6656]);
        assert_eq!(widening.rows(), BATCH_ROWS_MIN);
        widening.note(3, 30);
        assert_eq!(widening.rows(), 128, "the end of a batch says nothing of those to come");
    }
}
