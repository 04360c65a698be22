//! Functions whose value is found for each row by itself: those over frames that leave out rows around their own
//! (EXCLUDE), and those of a number that each row says for itself (`lag(x, n)`, `nth_value(x, n)`, `ntile(n)`).
//!
//! The rows from the start of the newest frame to its end are kept, and the row itself. An aggregate takes the rows of
//! each frame anew, which is what EXCLUDE means: time in proportion to rows times frame.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::accumulated::RowsKept;
use super::frames::Stretch;
use super::function::{Arrival, FrameFunction, Need, Side};
use crate::batch::to_logical;

/// What is found for each row.
pub(super) enum RowFunction {
    /// An aggregate of the frame.
    Aggregate(Arc<AggregateFunctionExpr>),
    /// The value of one row of the frame; the second argument says which, unless it is known.
    Nth { nth: Option<i64>, ignore_nulls: bool },
    /// The first argument's value as many rows away as the second says, or else the third's.
    Shift { is_ahead: bool, ignore_nulls: bool },
    /// The number of the part in which the row is; the argument in the first row says how many parts there are.
    Ntile,
}

/// A function of each row.
pub(super) struct ByRow {
    function: RowFunction,
    types: Vec<DataType>,
    returns: DataType,
    rows: RowsKept,
}

/// Where a value comes from.
enum RowFound {
    Nothing,
    /// An argument's value at a position.
    At(usize, u64),
}

impl ByRow {
    /// `types` are those of the arguments.
    pub fn new(function: RowFunction, types: Vec<DataType>, returns: DataType) -> Self {
        Self { function, types, returns, rows: RowsKept::default() }
    }

    /// The rows that are needed for a value: of the frame, and the row itself.
    fn needed(stretch: &Stretch) -> (u64, u64) {
        (stretch.start.min(stretch.row), stretch.end.max(stretch.row + 1))
    }

    /// The parts of a frame that are not left out.
    fn parts(stretch: &Stretch) -> [(u64, u64); 3] {
        let hole = &stretch.hole;
        if hole.start == hole.end {
            return [(stretch.start, stretch.end), (0, 0), (0, 0)];
        }
        let within = |position: u64| position.clamp(stretch.start, stretch.end);
        let row = match hole.keeps_row && (stretch.start..stretch.end).contains(&stretch.row) {
            true => (stretch.row, stretch.row + 1),
            false => (0, 0),
        };
        [(stretch.start, within(hole.start)), row, (within(hole.end), stretch.end)]
    }

    fn aggregate(&self, function: &AggregateFunctionExpr, stretch: &Stretch) -> Result<ScalarValue> {
        let mut accumulator = function.create_accumulator().map_err(from_datafusion)?;
        for (start, end) in Self::parts(stretch).into_iter().filter(|(start, end)| start < end) {
            for values in self.rows.slices(start..end) {
                accumulator.update_batch(&values).map_err(from_datafusion)?;
            }
        }
        accumulator.evaluate().map_err(from_datafusion)
    }

    fn place(&self, position: u64) -> Result<(usize, usize)> {
        self.rows.pieces.find(position).ok_or_else(|| Error::bug("a row that a window needs was forgotten"))
    }

    fn is_null(&self, position: u64) -> Result<bool> {
        let (piece, row) = self.place(position)?;
        Ok(self.rows.pieces.column(0).nth(piece).is_none_or(|column| column.is_null(row)))
    }

    /// An integer that an argument has in a row.
    fn integer(&self, argument: usize, position: u64) -> Result<Option<i64>> {
        let (piece, row) = self.place(position)?;
        let column = self.rows.pieces.column(argument).nth(piece);
        let column = column.and_then(|column| column.as_primitive_opt::<Int64Type>());
        let column = column.ok_or_else(|| Error::bug("a window was planned with a number that is none"))?;
        Ok(column.is_valid(row).then(|| column.value(row)))
    }

    /// The nth of the frame's rows, from its end if n is negative.
    fn nth(&self, stretch: &Stretch, nth: i64, ignore_nulls: bool) -> Result<RowFound> {
        let mut parts = Self::parts(stretch);
        let is_first = nth > 0;
        if !is_first {
            parts.reverse();
        }
        let mut left = nth.unsigned_abs();
        for (start, end) in parts.into_iter().filter(|(start, end)| start < end) {
            if !ignore_nulls {
                if left > end - start {
                    left -= end - start;
                    continue;
                }
                return Ok(RowFound::At(0, if is_first { start + left - 1 } else { end - left }));
            }
            for step in 0..end - start {
                let position = if is_first { start + step } else { end - 1 - step };
                left -= u64::from(!self.is_null(position)?);
                if left == 0 {
                    return Ok(RowFound::At(0, position));
                }
            }
        }
        Ok(RowFound::Nothing)
    }

    /// The row that is so far away in the partition, which is the frame.
    fn shifted(&self, stretch: &Stretch, is_ahead: bool, ignore_nulls: bool) -> Result<RowFound> {
        let Some(offset) = self.integer(1, stretch.row)? else { return Ok(RowFound::Nothing) };
        let is_ahead = is_ahead == (offset >= 0);
        let mut left = offset.unsigned_abs();
        let otherwise = if self.types.len() > 2 { RowFound::At(2, stretch.row) } else { RowFound::Nothing };
        if left == 0 || !ignore_nulls {
            let position = match is_ahead {
                true => stretch.row.checked_add(left).filter(|position| *position < stretch.end),
                false => stretch.row.checked_sub(left).filter(|position| *position >= stretch.start),
            };
            return Ok(position.map_or(otherwise, |position| RowFound::At(0, position)));
        }
        let rows = if is_ahead { stretch.end - stretch.row - 1 } else { stretch.row - stretch.start };
        for step in 1..=rows {
            let position = if is_ahead { stretch.row + step } else { stretch.row - step };
            left -= u64::from(!self.is_null(position)?);
            if left == 0 {
                return Ok(RowFound::At(0, position));
            }
        }
        Ok(otherwise)
    }

    fn found(&self, stretch: &Stretch) -> Result<RowFound> {
        match &self.function {
            RowFunction::Shift { is_ahead, ignore_nulls } => self.shifted(stretch, *is_ahead, *ignore_nulls),
            RowFunction::Nth { nth, ignore_nulls } => {
                let nth = match nth {
                    Some(nth) => *nth,
                    None => match self.integer(1, stretch.row)? {
                        None => return Ok(RowFound::Nothing),
                        Some(nth) if nth <= 0 => {
                            let message = "argument of nth_value must be greater than zero";
                            return Err(Error::value(message).with_code("22016"));
                        }
                        Some(nth) => nth,
                    },
                };
                if nth == 0 { Ok(RowFound::Nothing) } else { self.nth(stretch, nth, *ignore_nulls) }
            }
            RowFunction::Aggregate(_) | RowFunction::Ntile => Ok(RowFound::Nothing),
        }
    }

    /// The number of the row's part, if its partition is cut into as equal parts as can be, the longer ones first.
    fn tile(&self, stretch: &Stretch) -> Result<Option<i64>> {
        let Some(tiles) = self.integer(0, stretch.start)? else { return Ok(None) };
        let tiles = u64::try_from(tiles).ok().filter(|tiles| *tiles > 0);
        let tiles =
            tiles.ok_or_else(|| Error::value("argument of ntile must be greater than zero").with_code("22014"))?;
        let (rows, row) = (stretch.end - stretch.start, stretch.row - stretch.start);
        let (length, longer) = (rows / tiles, rows % tiles);
        let tile = match row < longer * (length + 1) {
            true => row / (length + 1),
            false => longer + (row - longer * (length + 1)) / length,
        };
        Ok(i64::try_from(tile + 1).ok())
    }
}

impl FrameFunction for ByRow {
    fn takes(&self, side: Side) -> bool {
        side == Side::End
    }

    fn push(&mut self, _: Side, arrival: &Arrival<'_>) -> Result<()> {
        let values = arrival.values.iter().zip(&self.types).map(|(values, logical)| to_logical(values, logical));
        self.rows.push(arrival, &values.collect::<Result<Vec<_>>>()?)
    }

    fn advance(&mut self, stretch: &Stretch) -> Result<()> {
        self.rows.forget_before(Self::needed(stretch).0.min(self.rows.end));
        Ok(())
    }

    fn lacks(&self, stretch: &Stretch) -> Option<Need> {
        (Self::needed(stretch).1 > self.rows.end).then_some(Need::End)
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        if let RowFunction::Aggregate(function) = &self.function {
            let values = stretches.iter().map(|stretch| self.aggregate(function, stretch));
            return ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>()?).map_err(from_datafusion);
        }
        if matches!(self.function, RowFunction::Ntile) {
            let tiles = stretches.iter().map(|stretch| self.tile(stretch)).collect::<Result<Vec<_>>>()?;
            return Ok(Arc::new(arrow::array::Int64Array::from(tiles)));
        }
        let nothing = new_null_array(&self.returns, 1);
        let mut arrays = vec![nothing.as_ref()];
        let firsts = [0, 2].map(|argument| {
            let first = arrays.len();
            if argument < self.types.len() {
                arrays.extend(self.rows.pieces.column(argument).map(|column| column.as_ref()));
            }
            (argument, first)
        });
        let places = stretches.iter().map(|stretch| {
            let RowFound::At(argument, position) = self.found(stretch)? else { return Ok((0, 0)) };
            let first = firsts.iter().find(|(known, _)| *known == argument).map_or(0, |(_, first)| *first);
            let (piece, row) = self.place(position)?;
            Ok((first + piece, row))
        });
        interleave(&arrays, &places.collect::<Result<Vec<_>>>()?).map_err(from_arrow)
    }

    fn wants_kept(&self) -> bool {
        matches!(self.function, RowFunction::Aggregate(_))
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }
}
