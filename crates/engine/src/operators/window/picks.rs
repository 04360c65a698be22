//! Functions whose value is that of one row of the frame: `first_value`, `last_value`, `nth_value`; and `lag` and
//! `lead`, which are the first value of a frame of one row.
//!
//! A row counted from a frame's front is looked for where frames begin, one counted from its end where they end: so no
//! more than the rows from there to it are kept. Where all frames of a partition begin or end with it, the rows that
//! may be taken are kept of each. Where NULLs are left out, only other rows are kept.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::frames::{Reach, Stretch};
use super::function::{Arrival, FrameFunction, Need, Side};
use super::pieces::Pieces;
use crate::batch::to_logical;

/// The value of one row of a frame.
pub(super) struct Picks {
    data_type: DataType,
    /// Which row: 1 is the first, -1 the last.
    nth: i64,
    ignore_nulls: bool,
    side: Side,
    /// Whether of each partition only the rows are kept that may be taken: the first ones or the last ones.
    by_partition: bool,
    /// One row: the value where there is no such row.
    otherwise: ArrayRef,
    /// By position, or by the number of the candidate.
    pieces: Pieces,
    /// The positions of rows that may be taken, where those are not all.
    candidates: VecDeque<u64>,
    /// How many candidates are forgotten.
    forgotten: u64,
    /// How many candidates the newest partition has so far.
    counted: u64,
    /// The position behind the rows that have come to the side.
    known: u64,
}

impl Picks {
    /// `nth` is not zero; `otherwise` has one row.
    pub fn new(data_type: DataType, nth: i64, ignore_nulls: bool, reach: Reach, otherwise: ArrayRef) -> Self {
        let is_first = nth > 0;
        let side = match reach {
            Reach::Whole => Side::Arrival,
            Reach::Rest if !is_first => Side::Arrival,
            Reach::Rest | Reach::Sliding if is_first => Side::Start,
            _ => Side::End,
        };
        Self {
            data_type,
            nth,
            ignore_nulls,
            side,
            by_partition: side == Side::Arrival || reach == Reach::Growing && is_first,
            otherwise,
            pieces: Pieces::default(),
            candidates: VecDeque::new(),
            forgotten: 0,
            counted: 0,
            known: 0,
        }
    }

    fn distance(&self) -> u64 {
        self.nth.unsigned_abs()
    }

    /// Whether pieces have candidates only.
    fn is_counted(&self) -> bool {
        self.by_partition || self.ignore_nulls
    }

    /// How many candidates lie before a position, of those that are kept.
    fn candidates_before(&self, position: u64) -> usize {
        self.candidates.partition_point(|&candidate| candidate < position)
    }

    /// The row that a frame takes, as pieces know it.
    fn pick(&self, stretch: &Stretch) -> Option<u64> {
        if !self.is_counted() {
            let position = match self.nth > 0 {
                true => stretch.start.checked_add(self.distance() - 1),
                false => stretch.end.checked_sub(self.distance()),
            };
            return position.filter(|&position| stretch.start <= position && position < stretch.end);
        }
        let (from, to) = (self.candidates_before(stretch.start), self.candidates_before(stretch.end));
        let distance = usize::try_from(self.distance()).ok()?;
        let place = match self.nth > 0 {
            true => from.checked_add(distance - 1),
            false => to.checked_sub(distance),
        };
        place.filter(|&place| from <= place && place < to).map(|place| self.forgotten + place as u64)
    }

    /// Of each partition the candidates that may be taken: the first ones, or the last ones that have come.
    fn of_partitions(&mut self, arrival: &Arrival<'_>, nulls: Option<&NullBuffer>) -> Vec<u32> {
        let distance = self.distance();
        let mut rows: Vec<u32> = Vec::new();
        let mut from = 0;
        for to in arrival.starts.iter().copied().chain([arrival.rows as u32]) {
            let candidates = (from..to).filter(|&row| nulls.is_none_or(|nulls| nulls.is_valid(row as usize)));
            let before = rows.len();
            if self.nth > 0 {
                let left = distance.saturating_sub(self.counted);
                rows.extend(candidates.take(usize::try_from(left).unwrap_or(usize::MAX)));
                self.counted += (rows.len() - before) as u64;
            } else {
                rows.extend(candidates.rev().take(usize::try_from(distance).unwrap_or(usize::MAX)));
                rows[before..].reverse();
            }
            self.counted = if (to as usize) < arrival.rows { 0 } else { self.counted };
            from = to;
        }
        rows
    }

    fn forget_candidates(&mut self, count: usize) {
        self.candidates.drain(..count);
        self.forgotten += count as u64;
        self.pieces.forget_before(self.forgotten);
    }
}

impl FrameFunction for Picks {
    fn takes(&self, side: Side) -> bool {
        side == self.side
    }

    fn push(&mut self, _: Side, arrival: &Arrival<'_>) -> Result<()> {
        let values = to_logical(&arrival.values[0], &self.data_type)?;
        self.known = arrival.first + arrival.rows as u64;
        if !self.is_counted() {
            return self.pieces.push(arrival.first, arrival.rows, &[values]);
        }
        let nulls = values.logical_nulls().filter(|_| self.ignore_nulls);
        let rows = match self.by_partition {
            true => self.of_partitions(arrival, nulls.as_ref()),
            false => (0..arrival.rows as u32)
                .filter(|&row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row as usize)))
                .collect(),
        };
        let first = self.forgotten + self.candidates.len() as u64;
        self.candidates.extend(rows.iter().map(|&row| arrival.first + u64::from(row)));
        let values = if rows.len() == arrival.rows {
            values
        } else {
            take(&values, &UInt32Array::from(rows), None).map_err(from_arrow)?
        };
        self.pieces.push(first, values.len(), &[values])
    }

    fn advance(&mut self, stretch: &Stretch) -> Result<()> {
        if !self.is_counted() {
            let end = stretch.end.min(self.known);
            let keep = if self.nth > 0 { stretch.start } else { end.saturating_sub(self.distance()) };
            self.pieces.forget_before(keep.max(stretch.start));
            return Ok(());
        }
        let mut forgotten = self.candidates_before(stretch.start);
        if self.nth < 0 && self.side == Side::End {
            let distance = usize::try_from(self.distance()).unwrap_or(usize::MAX);
            forgotten = forgotten.max(self.candidates_before(stretch.end).saturating_sub(distance));
        }
        self.forget_candidates(forgotten);
        Ok(())
    }

    fn lacks(&self, stretch: &Stretch) -> Option<Need> {
        match self.side {
            Side::Arrival | Side::Frame => None,
            Side::End => (stretch.end > self.known).then_some(Need::End),
            Side::Start => {
                let is_enough = if self.ignore_nulls {
                    let candidates = self.candidates.len() - self.candidates_before(stretch.start);
                    candidates as u64 >= self.distance() || self.known >= stretch.end
                } else {
                    self.known >= stretch.start.saturating_add(self.distance()).min(stretch.end)
                };
                (!is_enough).then_some(Need::Start)
            }
        }
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let mut places = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            places.push(match self.pick(stretch) {
                None => (0, 0),
                Some(position) => {
                    let (piece, row) = self.pieces.find(position).ok_or_else(gone)?;
                    (1 + piece, row)
                }
            });
        }
        let arrays = std::iter::once(&self.otherwise).chain(self.pieces.column(0));
        let arrays = arrays.map(|array| array.as_ref()).collect::<Vec<_>>();
        interleave(&arrays, &places).map_err(from_arrow)
    }

    fn bytes(&self) -> usize {
        self.pieces.bytes() + self.candidates.capacity() * size_of::<u64>()
    }
}

fn gone() -> Error {
    Error::bug("a row of a frame was forgotten")
}
