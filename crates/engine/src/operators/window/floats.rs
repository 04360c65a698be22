//! Sums and averages of floats.
//!
//! What was added to a float cannot be taken away again: it may have rounded others off, or be infinite. So a frame that slides is
//! summed up anew, out of *blocks*: sums of 8 rows, of 8 such sums, and so on, at fixed places. A frame of n rows costs some
//! 16 log n additions (the segment tree of Leis et al., "Efficient Processing of Window Functions in Analytical SQL
//! Queries", PVLDB 8(10), 2015, section 4).

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use diligence_base::Result;

use super::frames::{Reach, Stretch};
use super::function::{Arrival, FrameFunction};
use super::pieces::Sliding;
use super::sums::Counts;
use crate::batch::to_logical;

/// Rows, or blocks, in a block: a power of two.
const BLOCK: u64 = 8;

/// The sum of a frame, or its average.
pub(super) struct FloatSums {
    sums: Sums,
    counts: Counts,
    is_average: bool,
}

enum Sums {
    /// Of each partition, from its first row on.
    Whole(VecDeque<(u64, f64)>),
    /// Of the rows of a partition up to some row, and the values behind that.
    Growing {
        start: u64,
        end: u64,
        sum: f64,
        values: Sliding<f64>,
    },
    Sliding(Blocks),
}

impl FloatSums {
    pub fn new(reach: Reach, counts: Counts, is_average: bool) -> Self {
        let sums = match reach {
            Reach::Whole => Sums::Whole(VecDeque::new()),
            Reach::Growing => Sums::Growing { start: 0, end: 0, sum: 0.0, values: Sliding::new() },
            Reach::Sliding | Reach::Rest => Sums::Sliding(Blocks { levels: vec![Sliding::new()] }),
        };
        Self { sums, counts, is_average }
    }
}

impl FrameFunction for FloatSums {
    fn push(&mut self, arrival: &Arrival<'_>) -> Result<()> {
        self.counts.add(arrival);
        let values = to_logical(&arrival.values[0], &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        let value = |row: usize| if nulls.is_none_or(|nulls| nulls.is_valid(row)) { values.value(row) } else { 0.0 };
        match &mut self.sums {
            Sums::Whole(partitions) => {
                let mut starts = arrival.starts.iter().peekable();
                for row in 0..arrival.rows {
                    if starts.next_if(|&&start| start as usize == row).is_some() {
                        partitions.push_back((arrival.first + row as u64, 0.0));
                    }
                    if let Some((_, sum)) = partitions.back_mut() {
                        *sum += value(row);
                    }
                }
            }
            Sums::Growing { values, .. } => values.extend((0..arrival.rows).map(value)),
            Sums::Sliding(blocks) => (0..arrival.rows).for_each(|row| blocks.push(value(row))),
        }
        Ok(())
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let mut results = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            let count = self.counts.of(stretch);
            let sum = match &mut self.sums {
                _ if count == 0 => 0.0,
                Sums::Whole(partitions) => {
                    while partitions.front().is_some_and(|(start, _)| *start < stretch.start) {
                        partitions.pop_front();
                    }
                    partitions.front().map_or(0.0, |(_, sum)| *sum)
                }
                Sums::Growing { start, end, sum, values } => {
                    if *start != stretch.start || *end < stretch.start {
                        (*start, *end, *sum) = (stretch.start, stretch.start, 0.0);
                    }
                    *sum = values.slice(*end..stretch.end).iter().fold(*sum, |sum, value| sum + value);
                    *end = stretch.end;
                    *sum
                }
                Sums::Sliding(blocks) => blocks.sum(stretch.start, stretch.end),
            };
            results.push(match count {
                0 => None,
                _ if self.is_average => Some(sum / count as f64),
                _ => Some(sum),
            });
        }
        if let Some(last) = stretches.last() {
            self.counts.forget_before(last);
            match &mut self.sums {
                Sums::Whole(_) => {}
                Sums::Growing { end, values, .. } => values.forget_before(*end),
                Sums::Sliding(blocks) => blocks.forget_before(last.start),
            }
        }
        Ok(Arc::new(Float64Array::from(results)))
    }

    fn bytes(&self) -> usize {
        self.counts.bytes()
            + match &self.sums {
                Sums::Whole(partitions) => partitions.len() * size_of::<(u64, f64)>(),
                Sums::Growing { values, .. } => values.bytes(),
                Sums::Sliding(blocks) => blocks.levels.iter().map(Sliding::bytes).sum(),
            }
    }
}

/// Values, and on each level above the sums of the blocks below.
struct Blocks {
    levels: Vec<Sliding<f64>>,
}

impl Blocks {
    fn push(&mut self, value: f64) {
        let mut value = value;
        for level in 0.. {
            if level == self.levels.len() {
                self.levels.push(Sliding::new());
            }
            self.levels[level].push(value);
            let end = self.levels[level].end();
            if !end.is_multiple_of(BLOCK) {
                return;
            }
            value = self.levels[level].slice(end - BLOCK..end).iter().sum();
        }
    }

    fn sum(&self, start: u64, end: u64) -> f64 {
        let (mut start, mut end, mut sum) = (start, end, 0.0);
        for level in &self.levels {
            let (first, last) = (start.next_multiple_of(BLOCK), end / BLOCK * BLOCK);
            if first >= last {
                return level.slice(start..end).iter().fold(sum, |sum, value| sum + value);
            }
            sum = level.slice(start..first).iter().fold(sum, |sum, value| sum + value);
            sum = level.slice(last..end).iter().fold(sum, |sum, value| sum + value);
            (start, end) = (first / BLOCK, last / BLOCK);
        }
        sum
    }

    fn forget_before(&mut self, position: u64) {
        let mut position = position;
        for level in &mut self.levels {
            // The block that is not full yet is still to be summed up.
            level.forget_before(position.min(level.end() / BLOCK * BLOCK));
            position /= BLOCK;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_sum_any_stretch_of_what_is_kept() {
        let mut blocks = Blocks { levels: vec![Sliding::new()] };
        for row in 0..2000_u64 {
            blocks.push(row as f64);
            let start = row.saturating_sub(700);
            blocks.forget_before(start);
            for from in [start, (start + row) / 2, row, row + 1] {
                let expected: u64 = (from..=row).sum();
                assert_eq!(blocks.sum(from, row + 1), expected as f64, "{from} to {row}");
            }
        }
        let kept: usize = blocks.levels.iter().map(Sliding::bytes).sum();
        assert!(kept < 8 * 4096, "{kept} bytes");
    }
}
