//! Any aggregate, by DataFusion's accumulators.
//!
//! Rows that enter a frame are given to the accumulator, rows that leave it are taken back. What cannot be taken back is
//! accumulated anew for each frame.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::Accumulator;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use diligence_base::Result;
use diligence_storage::foreign_error::from_datafusion;

use super::frames::{Reach, Stretch};
use super::function::{Arrival, FrameFunction};
use super::pieces::Pieces;
use crate::batch::to_logical;
use crate::expressions::Expr;

/// An aggregate over frames.
pub(super) struct Accumulated {
    function: Arc<AggregateFunctionExpr>,
    types: Vec<DataType>,
    reach: Reach,
    /// Whether rows can be taken back.
    retracts: bool,
    /// Whether a frame may have rows of which none came here.
    filtered: bool,
    pieces: Pieces,
    held: Option<Held>,
    /// Of whole partitions: where each starts, and its value once the next one has begun.
    finished: VecDeque<(u64, ScalarValue)>,
    /// The newest frame and its value.
    latest: Option<(u64, u64, ScalarValue)>,
    value_bytes: usize,
}

/// An accumulator with the rows that it has.
struct Held {
    accumulator: Box<dyn Accumulator>,
    start: u64,
    end: u64,
}

impl Accumulated {
    pub fn new(function: Arc<AggregateFunctionExpr>, arguments: &[Expr], filtered: bool, reach: Reach) -> Self {
        let types = arguments.iter().map(|argument| argument.data_type().clone()).collect();
        // Where all values have left, it has zero instead of NULL.
        let is_wrong = function.fun().name() == "bit_xor";
        let retracts =
            matches!(reach, Reach::Sliding | Reach::Rest) && !is_wrong && function.create_sliding_accumulator().is_ok();
        Self {
            function,
            types,
            reach,
            retracts,
            filtered,
            pieces: Pieces::default(),
            held: None,
            finished: VecDeque::new(),
            latest: None,
            value_bytes: 0,
        }
    }

    fn begin(&self, start: u64) -> Result<Held> {
        let accumulator = match self.retracts {
            true => self.function.create_sliding_accumulator(),
            false => self.function.create_accumulator(),
        };
        Ok(Held { accumulator: accumulator.map_err(from_datafusion)?, start, end: start })
    }

    fn finish_partition(&mut self) -> Result<()> {
        if let Some(mut held) = self.held.take() {
            let value = held.accumulator.evaluate().map_err(from_datafusion)?;
            self.value_bytes += value.size();
            self.finished.push_back((held.start, value));
        }
        Ok(())
    }

    fn of(&mut self, stretch: &Stretch) -> Result<ScalarValue> {
        if stretch.start == stretch.end {
            if self.filtered {
                return self.begin(stretch.start)?.accumulator.evaluate().map_err(from_datafusion);
            }
            let value = self.function.default_value(self.function.field().data_type());
            return value.map_err(from_datafusion);
        }
        if let Some((start, end, value)) = &self.latest
            && (*start, *end) == (stretch.start, stretch.end)
        {
            return Ok(value.clone());
        }
        if self.reach == Reach::Whole {
            while let Some((start, value)) = self.finished.front() {
                if *start == stretch.start {
                    return Ok(value.clone());
                }
                self.value_bytes -= value.size();
                self.finished.pop_front();
            }
            // The last partition.
            self.finish_partition()?;
            return match self.finished.front() {
                Some((_, value)) => Ok(value.clone()),
                None => self.begin(stretch.start)?.accumulator.evaluate().map_err(from_datafusion),
            };
        }
        let goes_on = |held: &Held| match self.reach {
            Reach::Sliding | Reach::Rest => self.retracts && held.end > stretch.start,
            _ => held.start == stretch.start,
        };
        let mut held = match self.held.take().filter(goes_on) {
            Some(held) => held,
            None => self.begin(stretch.start)?,
        };
        for rows in self.pieces.slices(held.end..stretch.end) {
            held.accumulator.update_batch(&rows).map_err(from_datafusion)?;
        }
        for rows in self.pieces.slices(held.start..stretch.start) {
            held.accumulator.retract_batch(&rows).map_err(from_datafusion)?;
        }
        (held.start, held.end) = (stretch.start, stretch.end);
        let value = held.accumulator.evaluate().map_err(from_datafusion)?;
        self.held = Some(held);
        self.latest = Some((stretch.start, stretch.end, value.clone()));
        Ok(value)
    }
}

impl FrameFunction for Accumulated {
    fn push(&mut self, arrival: &Arrival<'_>) -> Result<()> {
        let values = arrival.values.iter().zip(&self.types).map(|(values, logical)| to_logical(values, logical));
        let values = values.collect::<Result<Vec<_>>>()?;
        if self.reach != Reach::Whole {
            return self.pieces.push(arrival.first, arrival.rows, &values);
        }
        let starts = arrival.starts.iter().map(|&start| start as usize);
        let mut from = 0;
        for to in starts.chain([arrival.rows]) {
            if let Some(held) = &mut self.held
                && to > from
            {
                let rows = values.iter().map(|values| values.slice(from, to - from)).collect::<Vec<_>>();
                held.accumulator.update_batch(&rows).map_err(from_datafusion)?;
            }
            if to < arrival.rows {
                self.finish_partition()?;
                self.held = Some(self.begin(arrival.first + to as u64)?);
            }
            from = to;
        }
        Ok(())
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let values = stretches.iter().map(|stretch| self.of(stretch)).collect::<Result<Vec<_>>>()?;
        if let Some(last) = stretches.last() {
            let keep = match self.reach {
                Reach::Growing => last.end,
                Reach::Whole | Reach::Sliding | Reach::Rest => {
                    last.start.min(self.held.as_ref().map_or(u64::MAX, |held| held.start))
                }
            };
            self.pieces.forget_before(keep);
        }
        ScalarValue::iter_to_array(values).map_err(from_datafusion)
    }

    fn bytes(&self) -> usize {
        let held = self.held.as_ref().map_or(0, |held| held.accumulator.size());
        self.pieces.bytes() + held + self.value_bytes
    }
}
