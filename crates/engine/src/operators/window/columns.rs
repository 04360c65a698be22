//! The columns that the operator adds: each function with what it needs to know.

use std::sync::Arc;
use std::task::Poll;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use diligence_base::Result;
use diligence_storage::foreign_error::from_datafusion;

use super::buffer::RowReader;
use super::by_row::{ByRow, RowFunction};
use super::choice::{Nothing, aggregate};
use super::framed::{FrameKind, Framed, Function};
use super::frames::{Frames, reach};
use super::function::FrameFunction;
use super::picks::Picks;
use super::ranking::{Ranking, RankingFunction};
use super::turn::Turn;
use crate::batch::Batch;
use crate::plan::{Exclusion, SortKey, WindowCall, WindowFunction};

/// Some columns that are found together, with their places among all columns added.
pub(super) enum Columns {
    Ranks(Ranking, usize),
    /// Functions over the same frames.
    Framed(Box<Framed>),
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
            WindowFunction::Shift { .. }
            | WindowFunction::Nth { .. }
            | WindowFunction::NtileOf
            | WindowFunction::ShiftOf { .. }
            | WindowFunction::NthOf { .. }
            | WindowFunction::Aggregate(_) => None,
        };
        if let Some(rank) = rank {
            all.push(Columns::Ranks(Ranking::new(rank), place));
            continue;
        }
        let kind = kind_of(call);
        let function = function(place, call, &kind, order_by, data_type)?;
        let same = all.iter_mut().find_map(|columns| match columns {
            Columns::Framed(framed) if framed.kind == kind => Some(framed),
            _ => None,
        });
        match same {
            Some(framed) => framed.add(function),
            None => {
                let frames = Frames::new(&kind.frame, kind.excludes, kind.row_by_row, order_by)?;
                all.push(Columns::Framed(Box::new(Framed::new(kind, frames, function))));
            }
        }
    }
    Ok(all)
}

/// The frames that a call looks at. Functions of a number that each row says for itself look at them row by row.
fn kind_of(call: &WindowCall) -> FrameKind {
    let unbounded = ScalarValue::UInt64(None);
    let whole = || {
        let (start, end) =
            (WindowFrameBound::Preceding(unbounded.clone()), WindowFrameBound::Following(unbounded.clone()));
        Arc::new(WindowFrame::new_bounds(WindowFrameUnits::Rows, start, end))
    };
    match call.function {
        WindowFunction::NtileOf | WindowFunction::ShiftOf { .. } => {
            FrameKind { frame: whole(), excludes: Exclusion::NoOthers, row_by_row: true }
        }
        WindowFunction::NthOf { .. } => {
            FrameKind { frame: call.frame.clone(), excludes: call.excludes, row_by_row: true }
        }
        WindowFunction::Shift { .. } => {
            FrameKind { frame: frame_of(call), excludes: Exclusion::NoOthers, row_by_row: false }
        }
        _ => {
            let row_by_row = call.excludes != Exclusion::NoOthers;
            FrameKind { frame: call.frame.clone(), excludes: call.excludes, row_by_row }
        }
    }
}

/// The frame that a call looks at. `lag` and `lead` have one of a single row; where they leave out NULLs, the rows
/// before or behind.
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

fn function(
    place: usize,
    call: &WindowCall,
    kind: &FrameKind,
    order_by: &[SortKey],
    data_type: &DataType,
) -> Result<Function> {
    let reach = reach(&kind.frame, order_by);
    let null = || ScalarValue::try_from(data_type).map_err(from_datafusion);
    let picks = |nth: i64, ignore_nulls: bool, otherwise: &ScalarValue| -> Result<Box<dyn FrameFunction>> {
        let otherwise = otherwise.to_array().map_err(from_datafusion)?;
        Ok(Box::new(Picks::new(data_type.clone(), nth, ignore_nulls, reach, otherwise)))
    };
    let by_row = |function| -> Box<dyn FrameFunction> {
        let types = call.arguments.iter().map(|argument| argument.data_type().clone()).collect();
        Box::new(ByRow::new(function, types, data_type.clone()))
    };
    let function = match &call.function {
        WindowFunction::Aggregate(function) if kind.row_by_row => by_row(RowFunction::Aggregate(function.clone())),
        WindowFunction::Nth { nth, ignore_nulls } if kind.row_by_row => {
            by_row(RowFunction::Nth { nth: Some(*nth), ignore_nulls: *ignore_nulls })
        }
        WindowFunction::NthOf { ignore_nulls } => by_row(RowFunction::Nth { nth: None, ignore_nulls: *ignore_nulls }),
        WindowFunction::ShiftOf { is_ahead, ignore_nulls } => {
            by_row(RowFunction::Shift { is_ahead: *is_ahead, ignore_nulls: *ignore_nulls })
        }
        WindowFunction::NtileOf => by_row(RowFunction::Ntile),
        WindowFunction::Aggregate(function) => aggregate(function, &call.arguments, call.filter.is_some(), reach)?,
        WindowFunction::Nth { nth: 0, .. } => Box::new(Nothing(data_type.clone())),
        WindowFunction::Nth { nth, ignore_nulls } => picks(*nth, *ignore_nulls, &null()?)?,
        WindowFunction::Shift { offset, default, ignore_nulls } => {
            let ignore_nulls = *ignore_nulls && *offset != 0;
            picks(if ignore_nulls { offset.saturating_neg() } else { 1 }, ignore_nulls, default)?
        }
        _ => Box::new(Nothing(data_type.clone())),
    };
    let (arguments, filter) = (call.arguments.clone(), call.filter.clone());
    Ok(Function { place, function, arguments, filter, reader: RowReader::default() })
}

impl Columns {
    /// Whether these columns depend on where peers begin.
    pub fn wants_peers(&self) -> bool {
        match self {
            Columns::Ranks(ranking, _) => ranking.wants_peers(),
            Columns::Framed(framed) => framed.frames.wants_peers(),
        }
    }

    /// Takes the batch from position `first` on, in which partitions begin at `starts`.
    pub fn push(&mut self, batch: &Batch, first: u64, starts: &[u32]) -> Result<()> {
        match self {
            Columns::Ranks(..) => Ok(()),
            Columns::Framed(framed) => framed.push(batch, first, starts),
        }
    }

    /// Notes the rows from `first` on, which are to go on next.
    pub fn look_at(&mut self, batch: &Batch, first: u64) -> Result<()> {
        match self {
            Columns::Ranks(..) => Ok(()),
            Columns::Framed(framed) => framed.frames.look_at(batch, first),
        }
    }

    /// Whether `look_at` is needed before it can be said whether values are certain.
    pub fn looks_at_rows(&self) -> bool {
        matches!(self, Columns::Framed(framed) if framed.frames.looks_at_rows())
    }

    /// Whether it is certain which rows the values of the rows before `until` are of.
    pub fn poll_ready(&mut self, turn: &mut Turn<'_>, until: u64) -> Poll<Result<bool>> {
        match self {
            Columns::Ranks(ranking, _) => Poll::Ready(Ok(ranking.is_ready(turn.rows, until))),
            Columns::Framed(framed) => framed.poll_ready(turn, until),
        }
    }

    /// The values of the next rows, so many, those before `until`, for which `is_ready` has said so, at their places.
    /// After `Pending`, call it again for the same rows.
    pub fn poll_take(
        &mut self,
        turn: &mut Turn<'_>,
        until: u64,
        rows: usize,
        out: &mut [Option<ArrayRef>],
    ) -> Poll<Result<()>> {
        match self {
            Columns::Ranks(ranking, place) => {
                out[*place] = Some(ranking.take(turn.rows, until)?);
                Poll::Ready(Ok(()))
            }
            Columns::Framed(framed) => framed.poll_take(turn, rows, out),
        }
    }

    /// Forgets what is not looked at any more. Returns the numbers of the first partition and the first peers that are.
    pub fn forget(&self) -> (u64, u64) {
        match self {
            Columns::Ranks(ranking, _) => ranking.needed(),
            Columns::Framed(framed) => framed.frames.forget(),
        }
    }

    /// The first position whose row may have to be read, of those that have gone on.
    pub fn needed(&self) -> u64 {
        match self {
            Columns::Ranks(..) => u64::MAX,
            Columns::Framed(framed) => framed.needed(),
        }
    }

    /// How many readers of rows there may be at once.
    pub fn readers(&self) -> usize {
        match self {
            Columns::Ranks(..) => 0,
            Columns::Framed(framed) => framed.readers(),
        }
    }

    /// The columns of the input that are read again after rows have come.
    pub fn inputs(&self) -> Vec<usize> {
        match self {
            Columns::Ranks(..) => Vec::new(),
            Columns::Framed(framed) => framed.columns().collect(),
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Columns::Ranks(..) => 0,
            Columns::Framed(framed) => framed.bytes(),
        }
    }

    /// Bytes that a batch may add when it comes, about.
    pub fn bytes_of(&self, batch: &Batch) -> usize {
        match self {
            Columns::Ranks(..) => 0,
            Columns::Framed(framed) => framed.bytes_of(batch),
        }
    }
}
