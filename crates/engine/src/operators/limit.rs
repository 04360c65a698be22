//! Skips rows, then keeps at most so many.
//!
//! The packets of a pipeline share one count of the rows that have arrived: a batch claims its place among all rows
//! with one atomic addition and keeps the part that lies in the window. With one packet rows have their place in the
//! order of arrival, so the result is exact for ordered input; with several packets it is some `fetch` rows after some
//! `skip` rows.
//!
//! When the window is full, every packet stops, wherever it is: another may be looking for a row that hardly ever
//! comes.
//!
//! Invariant: over all packets exactly `min(fetch, rows - skip)` rows pass, whatever the interleaving.

use std::sync::Arc;

use diligence_base::Result;

use crate::batch::Batch;
use crate::flow::{Flow, Operator, OperatorState, Output, QueryContext};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// An operator that leaves out `skip` rows, then keeps at most `fetch` rows (all if `None`).
pub fn limit(skip: usize, fetch: Option<usize>) -> Arc<dyn Operator> {
    let end = fetch.map_or(usize::MAX, |fetch| skip.saturating_add(fetch));
    Arc::new(Limit { window: Arc::new(Window { skip, end, arrived: AtomicUsize::new(0) }) })
}

struct Limit {
    window: Arc<Window>,
}

/// The places `skip..end` among all rows are kept.
struct Window {
    skip: usize,
    end: usize,
    /// Rows that have claimed a place, of all packets.
    arrived: AtomicUsize,
}

impl Operator for Limit {
    fn name(&self) -> &'static str {
        "Limit"
    }

    fn open(&self, _setup: &QueryContext) -> Result<Box<dyn OperatorState>> {
        Ok(Box::new(LimitState { window: self.window.clone() }))
    }
}

struct LimitState {
    window: Arc<Window>,
}

impl OperatorState for LimitState {
    fn push(&mut self, input: Batch, out: &mut Output) -> Result<Flow> {
        let Window { skip, end, ref arrived } = *self.window;
        // Looking before adding keeps the count from running away while late packets still bring rows.
        if arrived.load(Ordering::Relaxed) >= end {
            return Ok(Flow::Done);
        }
        let rows = input.rows();
        let first = arrived.fetch_add(rows, Ordering::Relaxed);
        let last = first + rows;
        let from = first.max(skip);
        let to = last.min(end);
        if from == first && to == last {
            out.emit(input);
        } else if from < to {
            out.emit(input.slice(from - first, to - from));
        }
        Ok(if last >= end { Flow::Done } else { Flow::NeedInput })
    }

    fn has_enough(&self) -> bool {
        self.window.arrived.load(Ordering::Relaxed) >= self.window.end
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use diligence_base::limits::BATCH_ROWS_MAX;
    use diligence_memory::QueryMemory;
    use proptest::prelude::*;

    use super::*;

    /// Carries batches of the given sizes, numbered through, by turns through `packets` packets.
    fn run(sizes: &[usize], packets: usize, skip: usize, fetch: Option<usize>) -> Vec<i64> {
        let context =
            QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: BATCH_ROWS_MAX, packets };
        let operator = limit(skip, fetch);
        let mut states: Vec<_> = (0..packets).map(|_| Some(operator.open(&context).unwrap())).collect();
        let mut out = Output::default();
        let mut kept = Vec::new();
        let mut next = 0_i64;
        for (turn, &size) in sizes.iter().enumerate() {
            let values: ArrayRef = Arc::new(Int64Array::from_iter_values(next..next + size as i64));
            next += size as i64;
            let state = &mut states[turn % packets];
            let Some(open) = state else { continue };
            if open.push(Batch::from_arrays(vec![values], size), &mut out).unwrap() == Flow::Done {
                *state = None;
            }
            while let Some(batch) = out.take() {
                kept.extend_from_slice(batch.flat(0).unwrap().as_primitive::<Int64Type>().values());
            }
        }
        kept
    }

    #[test]
    fn a_limit_of_nothing_is_done_at_once() {
        assert_eq!(run(&[5, 5], 1, 0, Some(0)), Vec::<i64>::new());
        assert_eq!(run(&[5, 5], 1, 3, Some(0)), Vec::<i64>::new());
    }

    #[test]
    fn a_huge_skip_and_fetch_do_not_overflow() {
        assert_eq!(run(&[5, 5], 1, usize::MAX, Some(usize::MAX)), Vec::<i64>::new());
        assert_eq!(run(&[2], 1, 1, Some(usize::MAX)), vec![1]);
    }

    proptest! {
        #[test]
        fn one_packet_keeps_exactly_the_window(
            sizes in prop::collection::vec(1_usize..9, 0..12), skip in 0_usize..40, fetch in prop::option::of(0_usize..40),
        ) {
            let total: usize = sizes.iter().sum();
            let end = fetch.map_or(total, |fetch| (skip + fetch).min(total));
            let expected: Vec<i64> = (skip.min(total)..end.max(skip.min(total))).map(|row| row as i64).collect();
            prop_assert_eq!(run(&sizes, 1, skip, fetch), expected);
        }

        #[test]
        fn several_packets_keep_as_many_rows(
            sizes in prop::collection::vec(1_usize..9, 0..12), packets in 2_usize..5, skip in 0_usize..40,
            fetch in prop::option::of(0_usize..40),
        ) {
            let total: usize = sizes.iter().sum();
            let expected = total.saturating_sub(skip).min(fetch.unwrap_or(usize::MAX));
            prop_assert_eq!(run(&sizes, packets, skip, fetch).len(), expected);
        }
    }
}
