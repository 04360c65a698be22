//! The columns that the operator adds: each function with what it needs to know.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use diligence_base::Result;
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::evaluated::Evaluated;
use super::frames::{Frames, Reach, Stretch, begins_ahead, looks_back, reach};
use super::function::{Arrival, FrameFunction, Nothing, aggregate};
use super::kept::Kept;
use super::picks::Picks;
use super::ranking::{Ranking, RankingFunction};
use super::rows::Rows;
use crate::batch::Batch;
use crate::expressions::Expr;
use crate::plan::{SortKey, WindowCall, WindowFunction};

/// Some columns that are found together, with their places among all columns added.
pub(super) enum Columns {
    Ranks(Ranking, usize),
    /// Functions over the same frames.
    Framed(Framed),
    Evaluated(Evaluated, usize),
}

/// Functions over the same frames.
pub(super) struct Framed {
    frame: Arc<WindowFrame>,
    frames: Frames,
    /// Frames that are found, of rows that have not gone on.
    stretches: VecDeque<Stretch>,
    functions: Vec<Function>,
}

struct Function {
    place: usize,
    function: Box<dyn FrameFunction>,
    arguments: Vec<Expr>,
    kept: Option<Kept>,
    /// It takes rows when they go on, and not when they come.
    is_late: bool,
}

/// The columns of all calls of a window; `types` are those of the results.
pub(super) fn columns(calls: &[WindowCall], order_by: &[SortKey], types: &[DataType]) -> Result<Vec<Columns>> {
    let mut all: Vec<Columns> = Vec::new();
    for (place, (call, data_type)) in calls.iter().zip(types).enumerate() {
        let rank = match call.function {
            WindowFunction::RowNumber => Some(RankingFunction::RowNumber),
            WindowFunction::Rank => Some(RankingFunction::Rank),
            WindowFunction::DenseRank => Some(RankingFunction::DenseRank),
            WindowFunction::PercentRank => Some(RankingFunction::PercentRank),
            WindowFunction::CumeDist => Some(RankingFunction::CumeDist),
            WindowFunction::Ntile(tiles) => Some(RankingFunction::Ntile(tiles)),
            _ => None,
        };
        if let Some(rank) = rank {
            all.push(Columns::Ranks(Ranking::new(rank), place));
            continue;
        }
        if let WindowFunction::Foreign(function) = &call.function {
            let evaluated = Evaluated::new(function.clone(), &call.arguments, order_by, call.frame.clone());
            all.push(Columns::Evaluated(evaluated, place));
            continue;
        }
        let frame = frame_of(call);
        let function = Function::new(place, call, &frame, order_by, data_type)?;
        let same = all.iter_mut().find_map(|columns| match columns {
            Columns::Framed(framed) if framed.frame == frame => Some(framed),
            _ => None,
        });
        match same {
            Some(framed) => framed.functions.push(function),
            None => all.push(Columns::Framed(Framed {
                frames: Frames::new(&frame, order_by)?,
                frame,
                stretches: VecDeque::new(),
                functions: vec![function],
            })),
        }
    }
    Ok(all)
}

/// The frame that a call looks at. `lag` and `lead` have one of a single row; where they leave out NULLs, the rows before or
/// behind.
fn frame_of(call: &WindowCall) -> Arc<WindowFrame> {
    let WindowFunction::Shift { offset, ignore_nulls, .. } = call.function else { return call.frame.clone() };
    let rows = |rows: u64| ScalarValue::UInt64(Some(rows));
    let unbounded = ScalarValue::UInt64(None);
    let distance = offset.unsigned_abs();
    let bound = |distance| match offset {
        0 => WindowFrameBound::CurrentRow,
        1.. => WindowFrameBound::Preceding(rows(distance)),
        _ => WindowFrameBound::Following(rows(distance)),
    };
    let (start, end) = match (ignore_nulls, offset) {
        (true, 1..) => (WindowFrameBound::Preceding(unbounded), bound(1)),
        (true, ..=-1) => (bound(1), WindowFrameBound::Following(unbounded)),
        _ => (bound(distance), bound(distance)),
    };
    Arc::new(WindowFrame::new_bounds(WindowFrameUnits::Rows, start, end))
}

impl Function {
    fn new(
        place: usize,
        call: &WindowCall,
        frame: &WindowFrame,
        order_by: &[SortKey],
        data_type: &DataType,
    ) -> Result<Self> {
        let reach = match reach(frame, order_by) {
            // Rows that a condition leaves are counted through, as long as they are kept.
            Reach::Rest if call.filter.is_some() => Reach::Sliding,
            reach => reach,
        };
        let takes_first = matches!(call.function, WindowFunction::Nth { nth: 1, ignore_nulls: false });
        let is_late = looks_back(frame) || reach == Reach::Rest && takes_first && !begins_ahead(frame);
        let null = || ScalarValue::try_from(data_type).map_err(from_datafusion);
        let picks = |nth: i64, ignore_nulls: bool, otherwise: &ScalarValue| -> Result<Box<dyn FrameFunction>> {
            let otherwise = otherwise.to_array().map_err(from_datafusion)?;
            Ok(Box::new(Picks::new(data_type.clone(), nth, ignore_nulls, reach, otherwise)))
        };
        let function = match &call.function {
            WindowFunction::Aggregate(function) => {
                aggregate(function, &call.arguments, call.filter.is_some(), reach, begins_ahead(frame))?
            }
            WindowFunction::Nth { nth: 0, .. } => Box::new(Nothing(data_type.clone())),
            WindowFunction::Nth { nth, ignore_nulls } => picks(*nth, *ignore_nulls, &null()?)?,
            WindowFunction::Shift { offset, default, ignore_nulls } => {
                let ignore_nulls = *ignore_nulls && *offset != 0;
                picks(if ignore_nulls { offset.saturating_neg() } else { 1 }, ignore_nulls, default)?
            }
            _ => Box::new(Nothing(data_type.clone())),
        };
        let kept = call.filter.clone().map(|filter| Kept::new(filter, reach));
        Ok(Self { place, function, arguments: call.arguments.clone(), kept, is_late })
    }

    fn push(&mut self, batch: &Batch, first: u64, starts: &[u32]) -> Result<()> {
        let values = |batch: &Batch| {
            self.arguments.iter().map(|argument| argument.evaluate(batch)?.flat()).collect::<Result<Vec<_>>>()
        };
        let Some(kept) = &mut self.kept else {
            return self.function.push(&Arrival { first, rows: batch.rows(), starts, values: &values(batch)? });
        };
        let rows = kept.push(batch, first, starts)?;
        // The condition comes first: an argument may fail where it guards it.
        let Some(batch) = batch.clone().select(&rows.selection)? else { return Ok(()) };
        let values = values(&batch)?;
        self.function.push(&Arrival { first: rows.first, rows: rows.rows, starts: &rows.starts, values: &values })
    }

    /// Takes rows that go on, once it is certain what their frames are.
    fn go_on(&mut self, batch: &Batch, first: u64, starts: &[u32]) -> Result<()> {
        if self.is_late {
            return self.push(batch, first, starts);
        }
        if self.function.revisits() {
            let values = self.arguments.iter().map(|argument| argument.evaluate(batch)?.flat());
            let values = values.collect::<Result<Vec<_>>>()?;
            return self.function.revisit(&Arrival { first, rows: batch.rows(), starts, values: &values });
        }
        Ok(())
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        match &mut self.kept {
            Some(kept) => self.function.evaluate(&kept.stretches(stretches)),
            None => self.function.evaluate(stretches),
        }
    }
}

impl Columns {
    /// Whether these columns depend on where peers begin.
    pub fn wants_peers(&self) -> bool {
        match self {
            Columns::Ranks(ranking, _) => ranking.wants_peers(),
            Columns::Framed(framed) => framed.frames.wants_peers(),
            Columns::Evaluated(..) => true,
        }
    }

    /// Takes the batch from position `first` on, in which partitions begin at `starts`.
    pub fn push(&mut self, batch: &Batch, first: u64, starts: &[u32]) -> Result<()> {
        match self {
            Columns::Ranks(..) => Ok(()),
            Columns::Framed(framed) => {
                framed.frames.push(batch, first)?;
                let mut early = framed.functions.iter_mut().filter(|function| !function.is_late);
                early.try_for_each(|function| function.push(batch, first, starts))
            }
            Columns::Evaluated(evaluated, _) => evaluated.push(batch, first),
        }
    }

    /// Whether the values of the rows before `until` are certain.
    pub fn is_ready(&mut self, rows: &Rows, until: u64) -> Result<bool> {
        match self {
            Columns::Ranks(ranking, _) => Ok(ranking.is_ready(rows, until)),
            Columns::Framed(framed) => framed.frames.find(rows, until, &mut framed.stretches),
            Columns::Evaluated(evaluated, _) => Ok(evaluated.is_ready(rows, until)),
        }
    }

    /// The values of a batch's rows, those before `until`, for which `is_ready` has said so, with their places. Partitions begin at
    /// `starts`.
    pub fn take(
        &mut self,
        rows: &Rows,
        until: u64,
        batch: &Batch,
        starts: &[u32],
        out: &mut [Option<ArrayRef>],
    ) -> Result<()> {
        let count = batch.rows();
        match self {
            Columns::Ranks(ranking, place) => out[*place] = Some(ranking.take(rows, until)?),
            Columns::Evaluated(evaluated, place) => out[*place] = Some(evaluated.take(rows, until)?),
            Columns::Framed(framed) => {
                let stretches = framed.next_stretches(count as u64);
                let spread = (stretches.len() < count).then(|| {
                    let numbers = stretches.iter().enumerate();
                    let rows = numbers.flat_map(|(stretch, Stretch { rows, .. })| {
                        std::iter::repeat_n(stretch as u32, *rows as usize)
                    });
                    UInt32Array::from(rows.collect::<Vec<_>>())
                });
                for function in &mut framed.functions {
                    function.go_on(batch, until - count as u64, starts)?;
                    let values = function.evaluate(&stretches)?;
                    debug_assert_eq!(values.len(), stretches.len());
                    out[function.place] = Some(match &spread {
                        Some(spread) => take(&values, spread, None).map_err(from_arrow)?,
                        None => values,
                    });
                }
            }
        }
        Ok(())
    }

    /// Forgets what is not looked at any more. Returns the numbers of the first partition and the first peers that are.
    pub fn forget(&mut self) -> (u64, u64) {
        match self {
            Columns::Ranks(ranking, _) => ranking.needed(),
            Columns::Framed(framed) => framed.frames.forget(),
            Columns::Evaluated(evaluated, _) => evaluated.needed(),
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Columns::Ranks(..) => 0,
            Columns::Evaluated(evaluated, _) => evaluated.bytes(),
            Columns::Framed(framed) => {
                let functions = framed
                    .functions
                    .iter()
                    .map(|function| function.function.bytes() + function.kept.as_ref().map_or(0, Kept::bytes));
                functions.sum::<usize>() + framed.frames.bytes() + framed.stretches.capacity() * size_of::<Stretch>()
            }
        }
    }

    /// Bytes that a batch may add when it comes, about.
    pub fn bytes_of(&self, batch: &Batch) -> usize {
        match self {
            Columns::Ranks(..) => 0,
            Columns::Evaluated(evaluated, _) => evaluated.bytes_of(batch),
            Columns::Framed(framed) => framed.bytes_of(batch, |function| !function.is_late),
        }
    }

    /// Bytes that a batch may add when it goes on, about.
    pub fn late_bytes_of(&self, batch: &Batch) -> usize {
        match self {
            Columns::Framed(framed) => {
                framed.bytes_of(batch, |function| function.is_late || function.function.revisits())
            }
            _ => 0,
        }
    }
}

/// What functions of our own keep of a row at most, as a rule: a sum of 128 bits and a count.
const BYTES_PER_ROW: usize = 24;

/// Bytes of an expression's values, without computing them.
pub(super) fn bytes_of(expression: &Expr, batch: &Batch) -> usize {
    match expression.as_column() {
        Some(column) => batch.column(column).bytes(),
        None => expression.data_type().primitive_width().unwrap_or(BYTES_PER_ROW) * batch.rows(),
    }
}

impl Framed {
    fn bytes_of(&self, batch: &Batch, which: impl Fn(&Function) -> bool) -> usize {
        let functions = self.functions.iter().filter(|function| which(function)).map(|function| {
            let arguments = function.arguments.iter().map(|argument| bytes_of(argument, batch));
            arguments.sum::<usize>().max(BYTES_PER_ROW * batch.rows())
        });
        functions.sum()
    }

    /// The frames of the next rows, so many.
    fn next_stretches(&mut self, rows: u64) -> Vec<Stretch> {
        let mut left = rows;
        let mut stretches = Vec::new();
        while left > 0
            && let Some(stretch) = self.stretches.front_mut()
        {
            let part = stretch.rows.min(left);
            stretches.push(Stretch { rows: part, ..*stretch });
            stretch.rows -= part;
            left -= part;
            if stretch.rows == 0 {
                self.stretches.pop_front();
            }
        }
        stretches
    }
}
