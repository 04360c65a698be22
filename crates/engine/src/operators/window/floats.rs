//! Sums and averages of floats.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use diligence_base::Result;

use super::blocks::{Summaries, Summary};
use super::frames::{Reach, Stretch};
use super::function::{Arrival, FrameFunction, Need, Side};
use super::sums::Counts;
use crate::batch::to_logical;

/// A sum.
impl Summary for f64 {
    type Row = f64;

    fn add(self, row: f64) -> f64 {
        self + row
    }

    fn merge(self, behind: f64) -> f64 {
        self + behind
    }
}

/// The sum of a frame, or its average.
pub(super) struct FloatSums {
    sums: Summaries<f64>,
    counts: Counts,
    is_average: bool,
}

impl FloatSums {
    pub fn new(reach: Reach, counts: Counts, is_average: bool) -> Self {
        Self { sums: Summaries::new(reach), counts, is_average }
    }
}

impl FrameFunction for FloatSums {
    fn takes(&self, side: Side) -> bool {
        self.sums.takes(side)
    }

    fn push(&mut self, side: Side, arrival: &Arrival<'_>) -> Result<()> {
        self.counts.add(side, arrival);
        let values = to_logical(&arrival.values[0], &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        let value = |row: usize| if nulls.is_none_or(|nulls| nulls.is_valid(row)) { values.value(row) } else { 0.0 };
        self.sums.push(side, arrival, value);
        Ok(())
    }

    fn advance(&mut self, stretch: &Stretch) -> Result<()> {
        self.counts.forget_before(stretch);
        self.sums.advance(stretch);
        Ok(())
    }

    fn lacks(&self, stretch: &Stretch) -> Option<Need> {
        self.sums.lacks(stretch)
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let value = |stretch: &Stretch| match self.counts.of(stretch) {
            0 => None,
            count if self.is_average => Some(self.sums.of(stretch) / count as f64),
            _ => Some(self.sums.of(stretch)),
        };
        Ok(Arc::new(stretches.iter().map(value).collect::<Float64Array>()))
    }

    fn bytes(&self) -> usize {
        self.counts.bytes() + self.sums.bytes()
    }
}
