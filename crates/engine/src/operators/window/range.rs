//! Bounds of RANGE frames that lie at a distance from the row's order key: `RANGE BETWEEN 10 PRECEDING AND …`.
//!
//! For the keys of each batch the *targets* are computed at once: the keys less the distance, or with it. The first row
//! of a frame is the first one whose key is not before the target; both only move forward, so that finding all frames
//! of a partition takes time in proportion to its rows. Each bound reads the keys for itself, and holds those of a
//! batch.
//!
//! A target that its type cannot have lies before all values, or behind them, but NULLs stay where they are: a NULL's
//! frame is the NULLs.

use std::task::{Poll, ready};

use arrow::array::{Array, ArrayRef, AsArray, DynComparator, Scalar, make_comparator};
use arrow::compute::concat;
use arrow::compute::kernels::numeric::{add, sub};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type};
use arrow::error::ArrowError;
use datafusion_common::ScalarValue;
use datafusion_expr::{WindowFrame, WindowFrameBound};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::buffer::RowReader;
use super::turn::Turn;
use crate::batch::floats::canonical_floats;
use crate::batch::{Batch, bytes_needed, compacted, to_logical};
use crate::plan::SortKey;

/// The two bounds, and the targets of the rows whose frames are looked for.
pub(super) struct RangeKeys {
    key: SortKey,
    own: Option<Own>,
    start: Option<Cursor>,
    end: Option<Cursor>,
}

/// The rows that go on next.
struct Own {
    first: u64,
    start: Option<Targets>,
    end: Option<Targets>,
}

struct Targets {
    values: ArrayRef,
    /// Which targets do not exist: they would lie on this side of all values.
    missing: Option<Vec<Option<RangeSide>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeSide {
    Before,
    Behind,
}

/// A bound that moves forward, over rows that it reads for itself.
struct Cursor {
    distance: Scalar<ArrayRef>,
    /// Whether the distance is added.
    adds: bool,
    /// The side on which targets lie.
    side: RangeSide,
    position: u64,
    reader: RowReader,
    /// The keys of the rows around the position, from the first row on.
    keys: Option<(u64, ArrayRef)>,
    /// Compares keys of rows from a first one on with targets of other rows.
    comparator: Option<(u64, u64, DynComparator)>,
}

/// The offset of a bound, if it has one.
pub(super) fn offset(bound: &WindowFrameBound) -> Option<&ScalarValue> {
    match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) if !offset.is_null() => Some(offset),
        _ => None,
    }
}

impl RangeKeys {
    /// Fails unless there is one order key, and distances have a type of their own.
    pub fn new(frame: &WindowFrame, order_by: &[SortKey]) -> Result<Self> {
        let [key] = order_by else { return Err(Error::bug("a RANGE frame with a distance has one order key")) };
        let cursor = |bound: &WindowFrameBound| {
            let Some(distance) = offset(bound) else { return Ok(None) };
            let side =
                if matches!(bound, WindowFrameBound::Preceding(_)) { RangeSide::Before } else { RangeSide::Behind };
            let adds = (side == RangeSide::Behind) != key.options.descending;
            let distance = distance.to_scalar().map_err(from_datafusion)?;
            let reader = RowReader::default();
            Ok(Some(Cursor { distance, adds, side, position: 0, reader, keys: None, comparator: None }))
        };
        let (start, end) = (cursor(&frame.start_bound)?, cursor(&frame.end_bound)?);
        Ok(Self { key: key.clone(), own: None, start, end })
    }

    /// Notes the rows whose frames are looked for next, from `first` on.
    pub fn look_at(&mut self, batch: &Batch, first: u64) -> Result<()> {
        if self.own.as_ref().is_some_and(|own| own.first == first) {
            return Ok(());
        }
        let keys = keys_of(&self.key, batch)?;
        let targets = |cursor: &Option<Cursor>| cursor.as_ref().map(|cursor| cursor.targets(&keys)).transpose();
        self.own = Some(Own { first, start: targets(&self.start)?, end: targets(&self.end)? });
        Ok(())
    }

    /// Frames to come lie in a partition that begins here.
    pub fn begin(&mut self, position: u64) {
        for cursor in [&mut self.start, &mut self.end].into_iter().flatten() {
            cursor.position = cursor.position.max(position);
        }
    }

    /// The first row of the frame of `row`, or `known` if none of the rows before that is.
    pub fn poll_first_row(&mut self, row: u64, known: u64, turn: &mut Turn<'_>) -> Poll<Result<u64>> {
        let (Some(cursor), Some(own)) = (&mut self.start, &self.own) else { return Poll::Ready(Err(no_distance())) };
        let Some(targets) = &own.start else { return Poll::Ready(Err(no_distance())) };
        cursor.poll_advance(&self.key, targets, own.first, row, known, false, turn)
    }

    /// The row behind the last one of the frame of `row`, or `known`.
    pub fn poll_end_row(&mut self, row: u64, known: u64, turn: &mut Turn<'_>) -> Poll<Result<u64>> {
        let (Some(cursor), Some(own)) = (&mut self.end, &self.own) else { return Poll::Ready(Err(no_distance())) };
        let Some(targets) = &own.end else { return Poll::Ready(Err(no_distance())) };
        cursor.poll_advance(&self.key, targets, own.first, row, known, true, turn)
    }

    fn cursors(&self) -> impl Iterator<Item = &Cursor> {
        [&self.start, &self.end].into_iter().flatten()
    }

    /// The first row that one of the bounds may still have to read.
    pub fn needed(&self) -> u64 {
        self.cursors().map(|cursor| cursor.position.max(cursor.reader.position)).min().unwrap_or(u64::MAX)
    }

    /// How many bounds read.
    pub fn readers(&self) -> usize {
        self.cursors().count()
    }

    /// The columns of the input that they read.
    pub fn columns(&self) -> &[usize] {
        self.key.expression.columns()
    }

    pub fn bytes(&self) -> usize {
        let keys = self.cursors().filter_map(|cursor| cursor.keys.as_ref());
        let keys = keys.map(|(_, keys)| bytes_needed(keys)).sum::<usize>();
        let targets = self.own.iter().flat_map(|own| [&own.start, &own.end]).flatten();
        let targets = targets
            .map(|targets| bytes_needed(&targets.values) + targets.missing.as_ref().map_or(0, |missing| missing.len()));
        keys + targets.sum::<usize>()
    }
}

/// The keys of a batch's rows, which keep nothing else alive.
fn keys_of(key: &SortKey, batch: &Batch) -> Result<ArrayRef> {
    let expression = &key.expression;
    let keys = to_logical(&expression.evaluate(batch)?.flat()?, expression.data_type())?;
    compacted(&canonical_floats(&keys)?)
}

impl Cursor {
    fn targets(&self, keys: &ArrayRef) -> Result<Targets> {
        let moved = |keys: &ArrayRef| if self.adds { add(keys, &self.distance) } else { sub(keys, &self.distance) };
        let typed = |moved: ArrayRef| like(moved, keys.data_type());
        match moved(keys) {
            Ok(values) => Ok(Targets { values: canonical_floats(&typed(values)?)?, missing: None }),
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

    /// Moves to the first row whose key is not before the target of `row`; `behind_equal`: and not equal to it. Targets
    /// are those of the rows from `first` on.
    #[allow(clippy::too_many_arguments, reason = "what belongs to both bounds stays with their owner")]
    fn poll_advance(
        &mut self,
        key: &SortKey,
        targets: &Targets,
        first: u64,
        row: u64,
        known: u64,
        behind_equal: bool,
        turn: &mut Turn<'_>,
    ) -> Poll<Result<u64>> {
        let target = (row - first) as usize;
        let missing = targets.missing.as_ref().and_then(|missing| missing[target]);
        while self.position < known {
            let Some((keys_first, keys)) =
                self.keys.as_ref().filter(|(first, keys)| self.position < first + keys.len() as u64)
            else {
                self.reader.seek(self.position.max(self.reader.position));
                let first = self.reader.position;
                let Some(batch) = ready!(turn.buffer.poll_read(&mut self.reader, turn.waker))? else {
                    return Poll::Ready(Err(Error::bug("a RANGE frame looks at rows that have not come")));
                };
                self.keys = Some((first, keys_of(key, &batch)?));
                continue;
            };
            let end = (keys_first + keys.len() as u64).min(known);
            let (from, rows) = ((self.position - keys_first) as usize, (end - keys_first) as usize);
            let found = match missing {
                // All values lie on the other side of the target.
                Some(side) => (from..rows).find(|&row| {
                    let null = keys.is_null(row);
                    if null { !key.options.nulls_first } else { side == RangeSide::Before }
                }),
                None => {
                    let cached = self.comparator.as_ref();
                    if cached.is_none_or(|(keys, targets, _)| (*keys, *targets) != (*keys_first, first)) {
                        let comparator = make_comparator(keys, &targets.values, key.options).map_err(from_arrow)?;
                        self.comparator = Some((*keys_first, first, comparator));
                    }
                    let Some((_, _, compare)) = &self.comparator else { return Poll::Ready(Err(no_distance())) };
                    (from..rows).find(|&row| {
                        let order = compare(row, target);
                        !(order.is_lt() || behind_equal && order.is_eq())
                    })
                }
            };
            if let Some(row) = found {
                self.position = keys_first + row as u64;
                return Poll::Ready(Ok(self.position));
            }
            self.position = end;
        }
        Poll::Ready(Ok(self.position))
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
        (DataType::Decimal256(_, scale), DataType::Decimal256(_, key_scale)) if scale == key_scale => {
            let values = moved.as_primitive::<Decimal256Type>().clone();
            Ok(std::sync::Arc::new(values.with_data_type(keys.clone())))
        }
        _ => to_logical(&moved, keys),
    }
}

fn no_distance() -> Error {
    Error::bug("a RANGE frame was asked for a bound that it does not have")
}
