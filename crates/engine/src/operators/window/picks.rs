//! Functions whose value is that of one row of the frame: `first_value`, `last_value`, `nth_value`; and `lag` and `lead`, which
//! are the first value of a frame of one row.
//!
//! Rows are found by their positions, and their values taken from the arrays that they came in. Which row is taken never
//! goes back while frames slide; where they grow, a row found from the front is kept on its own.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::frames::{Reach, Run};
use super::function::{Arrival, FrameFunction};
use super::pieces::Pieces;
use crate::batch::{bytes_needed, compacted, to_logical};

/// The value of one row of a frame.
pub(super) struct Picks {
    data_type: DataType,
    /// Which row: 1 is the first, -1 the last.
    nth: i64,
    ignore_nulls: bool,
    reach: Reach,
    /// One row: the value where there is no such row.
    otherwise: ArrayRef,
    pieces: Pieces,
    /// With `ignore_nulls`: the rows that are not NULL.
    valid: VecDeque<u64>,
    pinned: Option<Pinned>,
}

/// A row that all frames of a partition take.
struct Pinned {
    /// Where these frames start.
    start: u64,
    position: u64,
    /// One row.
    value: ArrayRef,
}

impl Picks {
    /// `nth` is not zero; `otherwise` has one row.
    pub fn new(data_type: DataType, nth: i64, ignore_nulls: bool, reach: Reach, otherwise: ArrayRef) -> Self {
        let (pieces, valid) = (Pieces::default(), VecDeque::new());
        Self { data_type, nth, ignore_nulls, reach, otherwise, pieces, valid, pinned: None }
    }

    /// The row that a frame takes.
    fn pick(&self, run: &Run) -> Option<u64> {
        if let Some(pinned) = self.pinned.as_ref().filter(|pinned| pinned.start == run.start) {
            return Some(pinned.position).filter(|&position| position < run.end);
        }
        let distance = self.nth.unsigned_abs();
        if !self.ignore_nulls {
            let position = match self.nth > 0 {
                true => run.start.checked_add(distance - 1),
                false => run.end.checked_sub(distance),
            };
            return position.filter(|&position| run.start <= position && position < run.end);
        }
        let from = self.valid.partition_point(|&position| position < run.start);
        let to = self.valid.partition_point(|&position| position < run.end);
        let distance = usize::try_from(distance).ok()?;
        let place = match self.nth > 0 {
            true => from.checked_add(distance - 1),
            false => to.checked_sub(distance),
        };
        place.filter(|&place| from <= place && place < to).map(|place| self.valid[place])
    }

    /// Forgets what no frame behind `last` takes, given the row that it takes.
    fn forget(&mut self, last: &Run, picked: Option<u64>) -> Result<()> {
        let keep = match picked {
            Some(position) if self.nth < 0 => position,
            Some(position) if self.reach == Reach::Growing => {
                if self.pinned.as_ref().is_none_or(|pinned| pinned.start != last.start) {
                    let (piece, row) = self.pieces.find(position).ok_or_else(gone)?;
                    let array = self.pieces.column(0).nth(piece).ok_or_else(gone)?;
                    self.pinned = Some(Pinned { start: last.start, position, value: compacted(&array.slice(row, 1))? });
                }
                last.end
            }
            // Only rows that are not NULL are ever taken.
            None if self.ignore_nulls => {
                let from = self.valid.partition_point(|&position| position < last.start);
                self.valid.get(from).map_or(last.end, |&valid| valid.min(last.end))
            }
            _ => last.start,
        };
        self.pieces.forget_before(keep);
        while self.valid.front().is_some_and(|&position| position < keep) {
            self.valid.pop_front();
        }
        Ok(())
    }
}

impl FrameFunction for Picks {
    fn push(&mut self, arrival: &Arrival<'_>) -> Result<()> {
        let values = to_logical(&arrival.values[0], &self.data_type)?;
        if self.ignore_nulls {
            let nulls = values.logical_nulls();
            let valid = (0..arrival.rows).filter(|&row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)));
            self.valid.extend(valid.map(|row| arrival.first + row as u64));
        }
        self.pieces.push(arrival.first, arrival.rows, &[values])
    }

    fn evaluate(&mut self, runs: &[Run]) -> Result<ArrayRef> {
        let mut places = Vec::with_capacity(runs.len());
        let mut picked = None;
        for run in runs {
            picked = self.pick(run);
            places.push(match (picked, &self.pinned) {
                (None, _) => (0, 0),
                (Some(position), Some(pinned)) if pinned.position == position => (1, 0),
                (Some(position), _) => {
                    let (piece, row) = self.pieces.find(position).ok_or_else(gone)?;
                    (2 + piece, row)
                }
            });
        }
        let pinned = self.pinned.as_ref().map_or(&self.otherwise, |pinned| &pinned.value);
        let arrays = [&self.otherwise, pinned].into_iter().chain(self.pieces.column(0));
        let arrays = arrays.map(|array| array.as_ref()).collect::<Vec<_>>();
        let values = interleave(&arrays, &places).map_err(from_arrow)?;
        if let Some(last) = runs.last() {
            self.forget(last, picked)?;
        }
        Ok(values)
    }

    fn bytes(&self) -> usize {
        let pinned = self.pinned.as_ref().map_or(0, |pinned| bytes_needed(pinned.value.as_ref()));
        self.pieces.bytes() + pinned + self.valid.capacity() * size_of::<u64>()
    }
}

fn gone() -> Error {
    Error::bug("a row of a frame was forgotten")
}
