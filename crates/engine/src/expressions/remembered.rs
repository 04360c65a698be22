//! What was computed of the values of dictionaries. The batches of a cluster have one dictionary, so it is computed
//! once.

use std::collections::VecDeque;
use std::ptr::addr_eq;
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef};

use crate::sync::Mutex;

/// Dictionaries of which something is remembered: about as many as workers decode clusters at once.
const REMEMBERED_MAX: usize = 4;
/// A dictionary may have so many times as many values as a batch has rows: there are more batches of its cluster.
const VALUES_PER_ROW_MAX: usize = 4;
/// Unless a batch has fewer rows than this: then few of the cluster's are wanted.
const ROWS_MIN: usize = 1024;

/// What was computed of the values of the last few dictionaries.
#[derive(Debug)]
pub(super) struct Remembered<A>(Mutex<VecDeque<(Weak<dyn Array>, A)>>);

impl<A> Default for Remembered<A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<A: Clone> Remembered<A> {
    /// What was computed of these values.
    pub fn of(&self, values: &ArrayRef) -> Option<A> {
        // As long as somebody points to it weakly, no other array has the address.
        let is_same = |(known, _): &&(Weak<dyn Array>, A)| addr_eq(known.as_ptr(), Arc::as_ptr(values));
        self.0.lock().iter().find(is_same).map(|(_, answers)| answers.clone())
    }

    /// Remembers what was computed of these values.
    pub fn put(&self, values: &ArrayRef, answers: &A) {
        let mut all = self.0.lock();
        all.truncate(REMEMBERED_MAX - 1);
        all.push_front((Arc::downgrade(values), answers.clone()));
    }

    /// Whether something had better be computed of the values of a dictionary than of so many rows.
    pub fn is_worth(&self, values: &ArrayRef, rows: usize) -> bool {
        let is_shared = rows >= ROWS_MIN && values.len() <= rows * VALUES_PER_ROW_MAX;
        values.len() <= rows || is_shared || self.of(values).is_some()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;

    use super::*;

    #[test]
    fn the_last_few_dictionaries_are_remembered() {
        let remembered = Remembered::default();
        let all = (0..10).map(|number| Arc::new(Int32Array::from(vec![number; 10])) as ArrayRef).collect::<Vec<_>>();
        for (number, values) in all.iter().enumerate() {
            remembered.put(values, &number);
        }
        let known = all.iter().filter_map(|values| remembered.of(values)).collect::<Vec<_>>();
        assert_eq!(known, [6, 7, 8, 9]);
        assert!(
            remembered.is_worth(&all[9], 1) && !remembered.is_worth(&all[0], 9) && remembered.is_worth(&all[0], 10)
        );
        let large: ArrayRef = Arc::new(Int32Array::from(vec![1; 4 * ROWS_MIN]));
        assert!(remembered.is_worth(&large, ROWS_MIN) && !remembered.is_worth(&large, ROWS_MIN - 1));
    }
}
