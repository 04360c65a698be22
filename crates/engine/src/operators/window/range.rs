//! Bounds of RANGE frames that lie at a distance from the row's order key: `RANGE BETWEEN 10 PRECEDING AND …`.
//!
//! For the keys of each batch the *targets* are computed at once: the keys less the distance, or with it. The first row of a
//! frame is the first one whose key is not before the target; both only move forward, so that finding all frames of a partition
//! takes time in proportion to its rows.
//!
//! A target that its type cannot have lies before all values, or behind them, but NULLs stay where they are: a NULL's frame is
//! the NULLs.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, AsArray, DynComparator, Scalar, make_comparator};
use arrow::compute::kernels::numeric::{add, sub};
use arrow::compute::{SortOptions, concat};
use arrow::datatypes::{DataType, Decimal128Type};
use arrow::error::ArrowError;
use datafusion_expr::{WindowFrame, WindowFrameBound};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::frames::offset;
use crate::batch::{Batch, bytes_needed, compacted, to_logical};
use crate::plan::SortKey;

/// The order keys of the rows that have come, and the two bounds.
pub(super) struct RangeKeys {
    key: SortKey,
    pieces: VecDeque<Piece>,
    /// The number of `pieces[0]`.
    first_piece: usize,
    start: Option<Cursor>,
    end: Option<Cursor>,
}

/// A batch's keys.
struct Piece {
    first: u64,
    keys: ArrayRef,
    start: Option<Targets>,
    end: Option<Targets>,
}

struct Targets {
    values: ArrayRef,
    /// Which targets do not exist: they would lie on this side of all values.
    missing: Option<Vec<Option<Side>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    Behind,
}

/// A bound that moves forward.
struct Cursor {
    distance: Scalar<ArrayRef>,
    /// Whether the distance is added.
    adds: bool,
    /// The side on which targets lie.
    side: Side,
    position: u64,
    /// Compares keys of a piece with targets of another.
    comparator: Option<(usize, usize, DynComparator)>,
}

impl RangeKeys {
    /// Fails unless there is one order key, and distances have a type of their own.
    pub fn new(frame: &WindowFrame, order_by: &[SortKey]) -> Result<Self> {
        let [key] = order_by else { return Err(Error::bug("a RANGE frame with a distance has one order key")) };
        let cursor = |bound: &WindowFrameBound| {
            let Some(distance) = offset(bound) else { return Ok(None) };
            let side = if matches!(bound, WindowFrameBound::Preceding(_)) { Side::Before } else { Side::Behind };
            let adds = (side == Side::Behind) != key.options.descending;
            let distance = distance.to_scalar().map_err(from_datafusion)?;
            Ok(Some(Cursor { distance, adds, side, position: 0, comparator: None }))
        };
        let (start, end) = (cursor(&frame.start_bound)?, cursor(&frame.end_bound)?);
        Ok(Self { key: key.clone(), pieces: VecDeque::new(), first_piece: 0, start, end })
    }

    /// Notes the keys of a batch whose first row is at `first`.
    pub fn push(&mut self, batch: &Batch, first: u64) -> Result<()> {
        let expression = &self.key.expression;
        let keys = compacted(&to_logical(&expression.evaluate(batch)?.flat()?, expression.data_type())?)?;
        let targets = |cursor: &Option<Cursor>| cursor.as_ref().map(|cursor| cursor.targets(&keys)).transpose();
        let (start, end) = (targets(&self.start)?, targets(&self.end)?);
        self.pieces.push_back(Piece { first, keys, start, end });
        Ok(())
    }

    /// Frames to come lie in a partition that begins here.
    pub fn begin(&mut self, position: u64) {
        for cursor in [&mut self.start, &mut self.end].into_iter().flatten() {
            cursor.position = cursor.position.max(position);
        }
    }

    /// The first row of the frame of `row`, or `known` if none of the rows before that is.
    pub fn first_row(&mut self, row: u64, known: u64) -> Result<u64> {
        let options = self.key.options;
        let Some(cursor) = &mut self.start else { return Err(no_distance()) };
        cursor.advance(&self.pieces, self.first_piece, row, known, options, |piece| piece.start.as_ref(), false)
    }

    /// The row behind the last one of the frame of `row`, or `known`.
    pub fn end_row(&mut self, row: u64, known: u64) -> Result<u64> {
        let options = self.key.options;
        let Some(cursor) = &mut self.end else { return Err(no_distance()) };
        cursor.advance(&self.pieces, self.first_piece, row, known, options, |piece| piece.end.as_ref(), true)
    }

    /// Forgets keys that neither a row from `next` on nor a bound looks at.
    pub fn forget_before(&mut self, next: u64) {
        let cursors = [&self.start, &self.end].into_iter().flatten();
        let needed = cursors.map(|cursor| cursor.position).fold(next, u64::min);
        while self.pieces.front().is_some_and(|piece| piece.end_position() <= needed) {
            self.pieces.pop_front();
            self.first_piece += 1;
        }
    }

    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(Piece::bytes).sum()
    }
}

impl Piece {
    fn end_position(&self) -> u64 {
        self.first + self.keys.len() as u64
    }

    fn bytes(&self) -> usize {
        let targets = [&self.start, &self.end].into_iter().flatten();
        let targets = targets
            .map(|targets| bytes_needed(&targets.values) + targets.missing.as_ref().map_or(0, |missing| missing.len()));
        bytes_needed(&self.keys) + targets.sum::<usize>()
    }
}

impl Cursor {
    fn targets(&self, keys: &ArrayRef) -> Result<Targets> {
        let moved = |keys: &ArrayRef| if self.adds { add(keys, &self.distance) } else { sub(keys, &self.distance) };
        let typed = |moved: ArrayRef| like(moved, keys.data_type());
        match moved(keys) {
            Ok(values) => Ok(Targets { values: typed(values)?, missing: None }),
            // Some target is out of its type: one by one.
            Err(ArrowError::ArithmeticOverflow(_) | ArrowError::ComputeError(_) | ArrowError::CastError(_)) => {
                let mut missing = vec![None; keys.len()];
                let mut values = Vec::with_capacity(keys.len());
                for row in 0..keys.len() {
                    let key = keys.slice(row, 1);
                    values.push(match moved(&key) {
                        Ok(value) => typed(value)?,
                        Err(_) => {
                            missing[row] = Some(self.side);
                            key
                        }
                    });
                }
                let values = values.iter().map(|value| value.as_ref()).collect::<Vec<_>>();
                Ok(Targets { values: concat(&values).map_err(from_arrow)?, missing: Some(missing) })
            }
            Err(error) => Err(from_arrow(error)),
        }
    }

    /// Moves to the first row whose key is not before the target of `row`; `behind_equal`: and not equal to it.
    #[allow(clippy::too_many_arguments, reason = "the pieces stay with their owner")]
    fn advance<'p>(
        &mut self,
        pieces: &'p VecDeque<Piece>,
        first_piece: usize,
        row: u64,
        known: u64,
        options: SortOptions,
        targets: impl Fn(&'p Piece) -> Option<&'p Targets>,
        behind_equal: bool,
    ) -> Result<u64> {
        let number_of = |position: u64| pieces.partition_point(|piece| piece.end_position() <= position);
        let own = number_of(row);
        let piece = pieces.get(own).ok_or_else(no_distance)?;
        let target = (row - piece.first) as usize;
        let targets = targets(piece).ok_or_else(no_distance)?;
        let missing = targets.missing.as_ref().and_then(|missing| missing[target]);
        let mut at = number_of(self.position);
        while self.position < known {
            let Some(piece) = pieces.get(at) else { break };
            let end = piece.end_position().min(known);
            let from = (self.position - piece.first) as usize;
            let rows = (end - piece.first) as usize;
            let found = match missing {
                // All values lie on the other side of the target.
                Some(side) => (from..rows).find(|&row| {
                    let null = piece.keys.is_null(row);
                    if null { !options.nulls_first } else { side == Side::Before }
                }),
                None => {
                    let (key_piece, target_piece) = (first_piece + at, first_piece + own);
                    let cached = self.comparator.as_ref();
                    if cached.is_none_or(|(keys, targets, _)| (*keys, *targets) != (key_piece, target_piece)) {
                        let comparator = make_comparator(&piece.keys, &targets.values, options).map_err(from_arrow)?;
                        self.comparator = Some((key_piece, target_piece, comparator));
                    }
                    let Some((_, _, compare)) = &self.comparator else { return Err(no_distance()) };
                    (from..rows).find(|&row| {
                        let order = compare(row, target);
                        !(order.is_lt() || behind_equal && order.is_eq())
                    })
                }
            };
            if let Some(row) = found {
                self.position = piece.first + row as u64;
                return Ok(self.position);
            }
            self.position = end;
            at += 1;
        }
        Ok(self.position)
    }
}

/// Moved keys in the type of the keys: decimals get more digits when they are added.
fn like(moved: ArrayRef, keys: &DataType) -> Result<ArrayRef> {
    match (moved.data_type(), keys) {
        (moved_type, keys) if moved_type == keys => Ok(moved),
        (DataType::Decimal128(_, scale), DataType::Decimal128(_, key_scale)) if scale == key_scale => {
            let values = moved.as_primitive::<Decimal128Type>().clone();
            Ok(std::sync::Arc::new(values.with_data_type(keys.clone())))
        }
        _ => to_logical(&moved, keys),
    }
}

fn no_distance() -> Error {
    Error::bug("a RANGE frame was asked for a bound that it does not have")
}
