//! Sums and averages of floats.
//!
//! What was added to a float cannot be taken away again: it may have rounded others off, or be infinite. So a frame that slides is
//! summed up anew, out of *blocks*: sums of 8 rows, of 8 such sums, and so on, at fixed places. A frame of n rows costs some
//! 16 log n additions (the segment tree of Leis et al., "Efficient Processing of Window Functions in Analytical SQL
//! Queries", PVLDB 8(10), 2015, section 4).
//!
//! Only sums of [`FAR`] rows are kept for the whole frame. Of the block in which it begins and of the one in which it ends, the sums of
//! fewer rows are made when the rows come to these sides.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use diligence_base::Result;

use super::frames::{Reach, Stretch};
use super::function::{Arrival, FrameFunction, Need, Side};
use super::pieces::Sliding;
use super::sums::{Counts, takes};
use crate::batch::to_logical;

/// Rows, or blocks, in a block: a power of two.
const BLOCK: u64 = 8;

/// Levels of blocks that are kept only around the two ends of frames.
const NEAR_LEVELS: u32 = 4;

/// Rows of a block whose sum is kept as long as it lies in a frame.
const FAR: u64 = BLOCK.pow(NEAR_LEVELS);

/// The sum of a frame, or its average.
pub(super) struct FloatSums {
    reach: Reach,
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
    Blocks(Box<Ends>),
}

/// What is known of frames that slide, or end with their partition.
struct Ends {
    start: Blocks,
    /// Where frames end, or where rows come.
    end: Blocks,
    /// By the number of `FAR` rows.
    between: Blocks,
    /// Where frames end with their partition: the position of each start of one, and the sum of the rows before in the same block.
    partitions: VecDeque<(u64, f64)>,
}

impl FloatSums {
    pub fn new(reach: Reach, counts: Counts, is_average: bool) -> Self {
        let sums = match reach {
            Reach::Whole => Sums::Whole(VecDeque::new()),
            Reach::Growing => Sums::Growing { start: 0, end: 0, sum: 0.0, values: Sliding::new() },
            Reach::Sliding | Reach::Rest => Sums::Blocks(Box::new(Ends {
                start: Blocks::new(NEAR_LEVELS),
                end: Blocks::new(NEAR_LEVELS),
                between: Blocks::new(u32::MAX),
                partitions: VecDeque::new(),
            })),
        };
        Self { reach, sums, counts, is_average }
    }
}

impl FrameFunction for FloatSums {
    fn takes(&self, side: Side) -> bool {
        takes(self.reach, side)
    }

    fn push(&mut self, side: Side, arrival: &Arrival<'_>) -> Result<()> {
        self.counts.add(side, arrival);
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
            Sums::Blocks(ends) if side == Side::Start => {
                for row in 0..arrival.rows {
                    ends.start.push(value(row));
                }
            }
            Sums::Blocks(ends) => {
                let mut starts = arrival.starts.iter().peekable();
                for row in 0..arrival.rows {
                    if starts.next_if(|&&start| start as usize == row).is_some() && side == Side::Arrival {
                        let position = arrival.first + row as u64;
                        ends.partitions.push_back((position, ends.end.sum_in_block(position)));
                    }
                    if let Some(block) = ends.end.push(value(row)) {
                        ends.between.push(block);
                    }
                }
                if side == Side::Arrival {
                    ends.end.forget_before(ends.end.rows());
                }
            }
        }
        Ok(())
    }

    fn advance(&mut self, stretch: &Stretch) -> Result<()> {
        self.counts.forget_before(stretch);
        match &mut self.sums {
            Sums::Whole(partitions) => while partitions.pop_front_if(|(start, _)| *start < stretch.start).is_some() {},
            Sums::Growing { start, end, sum, values } => {
                if *start != stretch.start {
                    (*start, *end, *sum) = (stretch.start, stretch.start, 0.0);
                }
                let known = stretch.end.min(values.end());
                if known > *end {
                    *sum = values.slice(*end..known).iter().fold(*sum, |sum, value| sum + value);
                    *end = known;
                }
                values.forget_before(*end);
            }
            Sums::Blocks(ends) => {
                ends.start.forget_before(stretch.start);
                ends.between.forget_before(stretch.start / FAR);
                if self.reach == Reach::Sliding {
                    ends.end.forget_before(stretch.end);
                }
                while ends.partitions.pop_front_if(|(start, _)| *start < stretch.end).is_some() {}
            }
        }
        Ok(())
    }

    fn lacks(&self, stretch: &Stretch) -> Option<Need> {
        match &self.sums {
            Sums::Whole(_) => None,
            Sums::Growing { values, .. } => (stretch.end > values.end()).then_some(Need::End),
            Sums::Blocks(ends) => {
                // A frame within a block, and what it has of the block in which it begins.
                let block_end = (stretch.start / FAR + 1) * FAR;
                if stretch.end.min(block_end) > ends.start.rows() {
                    return Some(Need::Start);
                }
                (self.reach == Reach::Sliding && stretch.end > ends.end.rows()).then_some(Need::End)
            }
        }
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let mut results = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            let count = self.counts.of(stretch);
            let sum = match &mut self.sums {
                _ if count == 0 => 0.0,
                Sums::Whole(partitions) => {
                    while partitions.pop_front_if(|(start, _)| *start < stretch.start).is_some() {}
                    partitions.front().map_or(0.0, |(_, sum)| *sum)
                }
                Sums::Growing { start, end, sum, values } => {
                    if *start != stretch.start {
                        (*start, *end, *sum) = (stretch.start, stretch.start, 0.0);
                    }
                    *sum = values.slice(*end..stretch.end).iter().fold(*sum, |sum, value| sum + value);
                    *end = stretch.end;
                    *sum
                }
                Sums::Blocks(ends) => ends.sum(stretch.start, stretch.end, self.reach),
            };
            results.push(match count {
                0 => None,
                _ if self.is_average => Some(sum / count as f64),
                _ => Some(sum),
            });
        }
        Ok(Arc::new(Float64Array::from(results)))
    }

    fn bytes(&self) -> usize {
        self.counts.bytes()
            + match &self.sums {
                Sums::Whole(partitions) => partitions.len() * size_of::<(u64, f64)>(),
                Sums::Growing { values, .. } => values.bytes(),
                Sums::Blocks(ends) => {
                    ends.start.bytes()
                        + ends.end.bytes()
                        + ends.between.bytes()
                        + ends.partitions.len() * size_of::<(u64, f64)>()
                }
            }
    }
}

impl Ends {
    /// The sum of the rows from `start` to `end`: it depends on nothing but these rows and their places.
    fn sum(&self, start: u64, end: u64, reach: Reach) -> f64 {
        let (first, last) = (start.next_multiple_of(FAR), end / FAR * FAR);
        if first > last {
            // Within a block.
            return self.start.sum(start, end, 0.0);
        }
        let sum = self.start.sum(start, first, 0.0);
        let sum = self.between.sum(first / FAR, last / FAR, sum);
        let rest = match reach {
            Reach::Sliding => self.end.sum_in_block(end),
            // No partition has begun there: it is where the rows end.
            _ if end == self.end.rows() => self.end.sum_in_block(end),
            _ => {
                let place = self.partitions.partition_point(|(start, _)| *start < end);
                self.partitions.get(place).map_or(0.0, |(_, sum)| *sum)
            }
        };
        sum + rest
    }
}

/// Values, and on each level above the sums of the blocks below.
struct Blocks {
    levels: Vec<Sliding<f64>>,
    levels_max: u32,
}

impl Blocks {
    fn new(levels_max: u32) -> Self {
        Self { levels: vec![Sliding::new()], levels_max }
    }

    fn rows(&self) -> u64 {
        self.levels[0].end()
    }

    /// Adds a value. Returns the sum of a block that would belong to the level above the last one.
    fn push(&mut self, value: f64) -> Option<f64> {
        let mut value = value;
        for level in 0..self.levels_max as usize {
            if level == self.levels.len() {
                self.levels.push(Sliding::new());
            }
            self.levels[level].push(value);
            let end = self.levels[level].end();
            if !end.is_multiple_of(BLOCK) {
                return None;
            }
            value = self.levels[level].slice(end - BLOCK..end).iter().sum();
        }
        Some(value)
    }

    /// The sum of the rows before a position in the same block of `FAR` rows.
    fn sum_in_block(&self, end: u64) -> f64 {
        self.sum(end / FAR * FAR, end, 0.0)
    }

    /// The sum of some rows, added to `sum`.
    fn sum(&self, start: u64, end: u64, sum: f64) -> f64 {
        let (mut start, mut end, mut sum) = (start, end, sum);
        for (number, level) in self.levels.iter().enumerate() {
            let (first, last) = (start.next_multiple_of(BLOCK), end / BLOCK * BLOCK);
            if first >= last || number + 1 == self.levels.len() {
                return level.slice(start..end).iter().fold(sum, |sum, value| sum + value);
            }
            sum = level.slice(start..first).iter().fold(sum, |sum, value| sum + value);
            sum = level.slice(last..end).iter().fold(sum, |sum, value| sum + value);
            (start, end) = (first / BLOCK, last / BLOCK);
        }
        sum
    }

    /// Forgets what lies before the block of `FAR` rows with this position, or before the position where there are all levels.
    fn forget_before(&mut self, position: u64) {
        let is_near = self.levels_max == NEAR_LEVELS;
        let mut position = if is_near { position / FAR * FAR } else { position };
        for level in &mut self.levels {
            // The block that is not full yet is still to be summed up.
            level.forget_before(position.min(level.end() / BLOCK * BLOCK));
            position /= BLOCK;
        }
    }

    fn bytes(&self) -> usize {
        self.levels.iter().map(Sliding::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_sum_any_stretch_of_what_is_kept() {
        let mut blocks = Blocks::new(u32::MAX);
        for row in 0..2000_u64 {
            blocks.push(row as f64);
            let start = row.saturating_sub(700);
            blocks.forget_before(start);
            for from in [start, (start + row) / 2, row, row + 1] {
                let expected: u64 = (from..=row).sum();
                assert_eq!(blocks.sum(from, row + 1, 0.0), expected as f64, "{from} to {row}");
            }
        }
        assert!(blocks.bytes() < 8 * 4096, "{} bytes", blocks.bytes());
    }

    /// Frames of any length over many blocks, with nothing kept but what lies around their ends.
    #[test]
    fn frames_that_slide_are_summed_up_from_their_ends() {
        let values = Float64Array::from_iter_values((0..60_000).map(f64::from));
        let values: ArrayRef = Arc::new(values);
        for reach in [Reach::Sliding, Reach::Rest] {
            for length in [1, 7, 4095, 4096, 4097, 20_000, 60_000] {
                let mut sums = FloatSums::new(reach, Counts::new(reach, false), false);
                let mut sent = [0_u64; 2];
                let mut send = |sums: &mut FloatSums, side: Side| {
                    let at = &mut sent[usize::from(side == Side::Start)];
                    let rows = 1000.min(60_000 - *at as usize);
                    let slice = [values.slice(*at as usize, rows)];
                    let starts: &[u32] = if *at == 0 { &[0] } else { &[] };
                    sums.push(side, &Arrival { first: *at, rows, starts, kept: None, values: &slice }).unwrap();
                    *at += rows as u64;
                };
                if reach == Reach::Rest {
                    (0..60).for_each(|_| send(&mut sums, Side::Arrival));
                }
                let mut most = 0;
                for row in (0..60_000_u64).step_by(509) {
                    let (start, end) = match reach {
                        Reach::Rest => (row, 60_000),
                        _ => ((row + 1).saturating_sub(length), row + 1),
                    };
                    let stretch = Stretch { start, end, rows: 1 };
                    sums.advance(&stretch).unwrap();
                    while let Some(need) = sums.lacks(&stretch) {
                        send(&mut sums, if need == Need::Start { Side::Start } else { Side::End });
                        sums.advance(&stretch).unwrap();
                    }
                    most = most.max(sums.bytes());
                    let seen = sums.evaluate(&[stretch]).unwrap();
                    let expected: u64 = (start..end).sum();
                    assert_eq!(seen.as_primitive::<Float64Type>().value(0), expected as f64, "{stretch:?}");
                }
                assert!(most < 400_000, "{most} bytes for {length}");
            }
        }
    }
}
