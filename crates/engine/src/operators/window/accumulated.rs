//! Any aggregate, by DataFusion's accumulators.
//!
//! Rows that enter a frame are given to the accumulator, rows that leave it are taken back. What cannot be taken back
//! is accumulated anew for each frame: out of memory where frames are short, or else out of the rows themselves, once
//! more for each frame.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::Accumulator;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use diligence_base::Result;
use diligence_storage::foreign_error::from_datafusion;

use super::frames::{Reach, Stretch};
use super::function::{Arrival, FrameFunction, Need, Side};
use super::moments::is_of_moments;
use super::pieces::Pieces;
use crate::batch::to_logical;
use crate::expressions::Expr;

/// Where rows cannot be taken back: frames whose values are larger are read anew.
const SHORT_BYTES: usize = 1 << 20;

/// An aggregate over frames.
pub(super) struct Accumulated {
    function: Arc<AggregateFunctionExpr>,
    types: Vec<DataType>,
    reach: Reach,
    /// Whether rows can be taken back.
    retracts: bool,
    /// Whether frames are read anew.
    reads_frames: bool,
    /// Whether a frame may have rows of which none came here.
    filtered: bool,
    /// Rows where frames begin, and where they end.
    leaving: RowsKept,
    entering: RowsKept,
    held: Option<HeldAccumulator>,
    /// Of whole partitions: where each starts, and its value once the next one has begun.
    finished: VecDeque<(u64, ScalarValue)>,
    /// The newest frame and its value.
    latest: Option<(u64, u64, ScalarValue)>,
    value_bytes: usize,
}

/// An accumulator with the rows that it has.
struct HeldAccumulator {
    accumulator: Box<dyn Accumulator>,
    start: u64,
    end: u64,
}

impl Accumulated {
    pub fn new(function: Arc<AggregateFunctionExpr>, arguments: &[Expr], filtered: bool, reach: Reach) -> Self {
        let types = arguments.iter().map(|argument| argument.data_type().clone()).collect();
        // Where all values have left, `bit_xor` has zero instead of NULL; moments keep what rows that left have rounded
        // off.
        let is_wrong = function.fun().name() == "bit_xor" || is_of_moments(&function);
        let slides = matches!(reach, Reach::Sliding | Reach::Rest);
        let retracts = slides && !is_wrong && function.create_sliding_accumulator().is_ok();
        Self {
            function,
            types,
            reach,
            retracts,
            reads_frames: false,
            filtered,
            leaving: RowsKept::default(),
            entering: RowsKept::default(),
            held: None,
            finished: VecDeque::new(),
            latest: None,
            value_bytes: 0,
        }
    }

    fn begin(&self, start: u64) -> Result<HeldAccumulator> {
        let accumulator = match self.retracts {
            true => self.function.create_sliding_accumulator(),
            false => self.function.create_accumulator(),
        };
        Ok(HeldAccumulator { accumulator: accumulator.map_err(from_datafusion)?, start, end: start })
    }

    /// Whether each frame is accumulated anew.
    fn begins_anew(&self) -> bool {
        !self.retracts && matches!(self.reach, Reach::Sliding | Reach::Rest)
    }

    fn finish_partition(&mut self) -> Result<()> {
        if let Some(mut held) = self.held.take() {
            let value = held.accumulator.evaluate().map_err(from_datafusion)?;
            self.value_bytes += value.size();
            self.finished.push_back((held.start, value));
        }
        Ok(())
    }

    /// The value of a whole partition.
    fn of_partition(&mut self, start: u64) -> Result<ScalarValue> {
        while let Some((finished, value)) = self.finished.front() {
            if *finished == start {
                return Ok(value.clone());
            }
            self.value_bytes -= value.size();
            self.finished.pop_front();
        }
        // The last partition.
        self.finish_partition()?;
        match self.finished.front() {
            Some((_, value)) => Ok(value.clone()),
            None => self.begin(start)?.accumulator.evaluate().map_err(from_datafusion),
        }
    }

    /// Gives the accumulator the rows of a frame, and takes others back, as far as they are there.
    fn move_to(&mut self, stretch: &Stretch) -> Result<()> {
        if self.reach == Reach::Whole || stretch.start == stretch.end {
            return Ok(());
        }
        let goes_on = |held: &HeldAccumulator| match self.retracts {
            true => held.end > stretch.start,
            false => held.start == stretch.start && held.end <= stretch.end,
        };
        let mut held = match self.held.take().filter(goes_on) {
            Some(held) => held,
            None => self.begin(stretch.start)?,
        };
        let end = stretch.end.min(self.entering.end);
        if end > held.end && !self.reads_frames {
            for rows in self.entering.slices(held.end..end) {
                held.accumulator.update_batch(&rows).map_err(from_datafusion)?;
            }
            held.end = end;
        }
        let start = stretch.start.min(self.leaving.end);
        if self.retracts && start > held.start {
            for rows in self.leaving.slices(held.start..start) {
                held.accumulator.retract_batch(&rows).map_err(from_datafusion)?;
            }
            held.start = start;
        }
        self.held = Some(held);
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
            return self.of_partition(stretch.start);
        }
        self.move_to(stretch)?;
        let Some(held) = &mut self.held else { return Err(diligence_base::Error::bug("a frame without rows")) };
        let value = held.accumulator.evaluate().map_err(from_datafusion)?;
        self.latest = Some((stretch.start, stretch.end, value.clone()));
        Ok(value)
    }

    fn push_whole(&mut self, arrival: &Arrival<'_>, values: &[ArrayRef]) -> Result<()> {
        // Where rows are left out, values are counted otherwise than rows.
        let place = |row: usize| arrival.kept.map_or(row, |kept| kept.partition_point(|&kept| (kept as usize) < row));
        let starts = arrival.starts.iter().map(|&start| start as usize);
        let mut from = 0;
        for to in starts.chain([arrival.rows]) {
            let (first, end) = (place(from), place(to));
            if let Some(held) = &mut self.held
                && end > first
            {
                let rows = values.iter().map(|values| values.slice(first, end - first)).collect::<Vec<_>>();
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
}

impl FrameFunction for Accumulated {
    fn takes(&self, side: Side) -> bool {
        match side {
            Side::Arrival => self.reach == Reach::Whole,
            Side::Start => self.retracts,
            Side::End => self.reach != Reach::Whole && !self.reads_frames,
            Side::Frame => self.reads_frames,
        }
    }

    fn push(&mut self, side: Side, arrival: &Arrival<'_>) -> Result<()> {
        let values = arrival.values.iter().zip(&self.types).map(|(values, logical)| to_logical(values, logical));
        let values = values.collect::<Result<Vec<_>>>()?;
        match side {
            Side::Arrival => self.push_whole(arrival, &values),
            Side::Start => self.leaving.push(arrival, &values),
            Side::End => {
                self.entering.push(arrival, &values)?;
                if self.begins_anew() && self.entering.bytes() > SHORT_BYTES {
                    self.reads_frames = true;
                    (self.entering, self.held) = (RowsKept::default(), None);
                }
                Ok(())
            }
            Side::Frame => {
                let Some(held) = &mut self.held else { return Ok(()) };
                if values.first().is_none_or(|values| !values.is_empty()) {
                    held.accumulator.update_batch(&values).map_err(from_datafusion)?;
                }
                held.end = arrival.first + arrival.rows as u64;
                Ok(())
            }
        }
    }

    fn advance(&mut self, stretch: &Stretch) -> Result<()> {
        if self.reach == Reach::Whole {
            return Ok(());
        }
        if self.begins_anew() && !self.reads_frames {
            self.entering.forget_before(stretch.start);
            return Ok(());
        }
        self.move_to(stretch)?;
        let (start, end) = match &self.held {
            Some(held) => (held.start.max(stretch.start.min(self.leaving.end)), held.end),
            None => (stretch.start, stretch.start),
        };
        self.leaving.forget_before(start);
        self.entering.forget_before(end.max(stretch.start));
        Ok(())
    }

    fn lacks(&self, stretch: &Stretch) -> Option<Need> {
        if self.reads_frames {
            if stretch.start == stretch.end {
                return None;
            }
            let latest =
                self.latest.as_ref().is_some_and(|latest| (latest.0, latest.1) == (stretch.start, stretch.end));
            let held = self.held.as_ref().filter(|held| held.start == stretch.start && held.end <= stretch.end);
            let from = held.map_or(stretch.start, |held| held.end);
            return (!latest && from < stretch.end).then_some(Need::Frame(from));
        }
        if self.takes(Side::End) && stretch.end > self.entering.end {
            return Some(Need::End);
        }
        (self.retracts && stretch.start > self.leaving.end).then_some(Need::Start)
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let values = stretches.iter().map(|stretch| self.of(stretch)).collect::<Result<Vec<_>>>()?;
        ScalarValue::iter_to_array(values).map_err(from_datafusion)
    }

    fn may_read_frames(&self) -> bool {
        self.begins_anew()
    }

    fn wants_kept(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        let held = self.held.as_ref().map_or(0, |held| held.accumulator.size());
        self.leaving.bytes() + self.entering.bytes() + held + self.value_bytes
    }
}

/// Rows side by side, of which a FILTER may leave some.
#[derive(Default)]
pub(super) struct RowsKept {
    /// By position, or by the number of the row that was left.
    pub pieces: Pieces,
    /// The positions of rows that were left, and how many of them are forgotten.
    kept: Option<VecDeque<u64>>,
    forgotten: u64,
    /// The position behind all rows.
    pub end: u64,
}

impl RowsKept {
    pub fn push(&mut self, arrival: &Arrival<'_>, values: &[ArrayRef]) -> Result<()> {
        self.end = arrival.first + arrival.rows as u64;
        let Some(kept) = arrival.kept else { return self.pieces.push(arrival.first, arrival.rows, values) };
        let positions = self.kept.get_or_insert_default();
        let first = self.forgotten + positions.len() as u64;
        positions.extend(kept.iter().map(|&row| arrival.first + u64::from(row)));
        self.pieces.push(first, kept.len(), values)
    }

    /// The rows that pieces have before a position.
    fn number(&self, position: u64) -> u64 {
        match &self.kept {
            Some(kept) => self.forgotten + kept.partition_point(|&kept| kept < position) as u64,
            None => position,
        }
    }

    pub fn slices(&self, rows: Range<u64>) -> impl Iterator<Item = Vec<ArrayRef>> {
        self.pieces.slices(self.number(rows.start)..self.number(rows.end))
    }

    pub fn forget_before(&mut self, position: u64) {
        let number = self.number(position);
        if let Some(kept) = &mut self.kept {
            kept.drain(..(number - self.forgotten) as usize);
            self.forgotten = number;
        }
        self.pieces.forget_before(number);
    }

    pub fn bytes(&self) -> usize {
        self.pieces.bytes() + self.kept.as_ref().map_or(0, |kept| kept.capacity() * size_of::<u64>())
    }
}
