//! Functions whose value is that of one row of the frame: `first_value`, `last_value`, `nth_value`; and `lag` and `lead`, which
//! are the first value of a frame of one row.
//!
//! Rows are found by their positions, and their values taken from the arrays that they came in. Which row is taken never
//! goes back while frames slide; where they grow, a row found from the front is kept on its own. Of whole partitions only the
//! rows are kept that may be taken.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::frames::{Reach, Stretch};
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
    /// Whether of each partition only the rows are kept that may be taken: of whole ones, and from the end where all frames end there.
    by_partition: bool,
    /// One row: the value where there is no such row.
    otherwise: ArrayRef,
    /// By position; of whole partitions, only the candidates, counted through.
    pieces: Pieces,
    /// The positions of rows that may be taken: those that are not NULL, with `ignore_nulls`, or those of whole partitions.
    candidates: VecDeque<u64>,
    /// How many candidates are forgotten.
    forgotten: u64,
    /// How many candidates the newest partition has so far.
    counted: u64,
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
        Self {
            data_type,
            nth,
            ignore_nulls,
            reach,
            by_partition: reach == Reach::Whole || reach == Reach::Rest && nth < 0,
            otherwise,
            pieces: Pieces::default(),
            candidates: VecDeque::new(),
            forgotten: 0,
            counted: 0,
            pinned: None,
        }
    }

    /// The row that a frame takes, as pieces know it.
    fn pick(&self, stretch: &Stretch) -> Option<u64> {
        if let Some(pinned) = self.pinned.as_ref().filter(|pinned| pinned.start == stretch.start) {
            return Some(pinned.position).filter(|&position| position < stretch.end);
        }
        let distance = self.nth.unsigned_abs();
        if !self.ignore_nulls && !self.by_partition {
            let position = match self.nth > 0 {
                true => stretch.start.checked_add(distance - 1),
                false => stretch.end.checked_sub(distance),
            };
            return position.filter(|&position| stretch.start <= position && position < stretch.end);
        }
        let from = self.candidates.partition_point(|&position| position < stretch.start);
        let to = self.candidates.partition_point(|&position| position < stretch.end);
        let distance = usize::try_from(distance).ok()?;
        let place = match self.nth > 0 {
            true => from.checked_add(distance - 1),
            false => to.checked_sub(distance),
        };
        let place = place.filter(|&place| from <= place && place < to)?;
        Some(if self.by_partition { self.forgotten + place as u64 } else { self.candidates[place] })
    }

    /// Keeps of each partition the candidates that may be taken: the first ones, or the last ones that have come.
    fn push_whole(&mut self, arrival: &Arrival<'_>, values: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<()> {
        let distance = self.nth.unsigned_abs();
        let mut rows: Vec<u32> = Vec::new();
        let mut from = 0;
        for to in arrival.starts.iter().copied().chain([arrival.rows as u32]) {
            let candidates = (from..to).filter(|&row| nulls.is_none_or(|nulls| nulls.is_valid(row as usize)));
            if self.nth > 0 {
                let left = distance.saturating_sub(self.counted);
                let before = rows.len();
                rows.extend(candidates.take(usize::try_from(left).unwrap_or(usize::MAX)));
                self.counted += (rows.len() - before) as u64;
            } else {
                let before = rows.len();
                rows.extend(candidates.rev().take(usize::try_from(distance).unwrap_or(usize::MAX)));
                rows[before..].reverse();
            }
            self.counted = if (to as usize) < arrival.rows { 0 } else { self.counted };
            from = to;
        }
        let first = self.forgotten + self.candidates.len() as u64;
        self.candidates.extend(rows.iter().map(|&row| arrival.first + u64::from(row)));
        let values = take(values, &UInt32Array::from(rows), None).map_err(from_arrow)?;
        self.pieces.push(first, values.len(), &[values])
    }

    /// Forgets what no frame behind `last` takes, given the row that it takes.
    fn forget(&mut self, last: &Stretch, picked: Option<u64>) -> Result<()> {
        if self.by_partition {
            while self.candidates.pop_front_if(|position| *position < last.start).is_some() {
                self.forgotten += 1;
            }
            self.pieces.forget_before(self.forgotten);
            return Ok(());
        }
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
                let from = self.candidates.partition_point(|&position| position < last.start);
                self.candidates.get(from).map_or(last.end, |&candidate| candidate.min(last.end))
            }
            _ => last.start,
        };
        self.pieces.forget_before(keep);
        while self.candidates.pop_front_if(|position| *position < keep).is_some() {
            self.forgotten += 1;
        }
        Ok(())
    }
}

impl FrameFunction for Picks {
    fn push(&mut self, arrival: &Arrival<'_>) -> Result<()> {
        let values = to_logical(&arrival.values[0], &self.data_type)?;
        let nulls = values.logical_nulls().filter(|_| self.ignore_nulls);
        if self.by_partition {
            return self.push_whole(arrival, &values, nulls.as_ref());
        }
        if self.ignore_nulls {
            let valid = (0..arrival.rows).filter(|&row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)));
            self.candidates.extend(valid.map(|row| arrival.first + row as u64));
        }
        self.pieces.push(arrival.first, arrival.rows, &[values])
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let mut places = Vec::with_capacity(stretches.len());
        let mut picked = None;
        for stretch in stretches {
            picked = self.pick(stretch);
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
        if let Some(last) = stretches.last() {
            self.forget(last, picked)?;
        }
        Ok(values)
    }

    fn bytes(&self) -> usize {
        let pinned = self.pinned.as_ref().map_or(0, |pinned| bytes_needed(pinned.value.as_ref()));
        self.pieces.bytes() + pinned + self.candidates.capacity() * size_of::<u64>()
    }
}

fn gone() -> Error {
    Error::bug("a row of a frame was forgotten")
}
