//! What a function over frames must do, and which function does it for which call.
//!
//! Where frames begin and where they end only moves forward. So a function gets its rows on two sides: once when they
//! enter frames, and once more when they leave them, and keeps only what lies around these two places; of the rows
//! between them it knows no more than sums, or so. Whatever depends on where a partition ends gets them when they come.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use datafusion_functions_aggregate::average::Avg;
use datafusion_functions_aggregate::count::Count;
use datafusion_functions_aggregate::min_max::{Max, Min};
use datafusion_functions_aggregate::sum::Sum;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use diligence_base::Result;

use super::accumulated::Accumulated;
use super::extremes::extremes;
use super::floats::FloatSums;
use super::frames::{Reach, Stretch};
use super::moments::of_moments;
use super::sums::{Counts, ExactSums};
use crate::expressions::Expr;
use crate::plan::average::AverageKind;

/// Where a function takes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// When they come.
    Arrival,
    /// Where frames begin.
    Start,
    /// Where frames end.
    End,
    /// All rows of one frame, for this frame alone.
    Frame,
}

/// What a function needs before it can give a frame's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The next rows on the side of the starts.
    Start,
    /// The next rows on the side of the ends.
    End,
    /// Rows of the frame, from this position on.
    Frame(u64),
}

/// Rows that a function takes.
pub(super) struct Arrival<'a> {
    /// The position of the first.
    pub first: u64,
    pub rows: usize,
    /// The rows among them at which a partition begins, ascending.
    pub starts: &'a [u32],
    /// The rows that a FILTER leaves, for functions that ask for them: values are of those only. Other functions find
    /// NULLs instead of the values of the rest.
    pub kept: Option<&'a [u32]>,
    /// The function's arguments, in their logical type or a narrow form of it.
    pub values: &'a [ArrayRef],
}

/// A function of the rows in a frame.
pub(super) trait FrameFunction: Send {
    /// Whether it takes rows on a side. On each side that it takes, they come in their order, from the first row of the
    /// input on; only those of single frames do not.
    fn takes(&self, side: Side) -> bool;
    /// Takes the next rows of a side.
    fn push(&mut self, side: Side, arrival: &Arrival<'_>) -> Result<()>;
    /// Forgets what neither this frame nor a later one needs. What is between rows that the frame has and rows that are
    /// to come is taken in, so that it need not be kept either.
    fn advance(&mut self, stretch: &Stretch) -> Result<()>;
    /// What it needs before the value of a frame can be asked for. If that is nothing, it needs nothing for the frames
    /// before, either.
    fn lacks(&self, stretch: &Stretch) -> Option<Need>;
    /// One value for each stretch, of which it lacks nothing. Starts and ends of frames never go back, from call to
    /// call either.
    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef>;
    /// Whether it may take rows of single frames: then they stay.
    fn may_read_frames(&self) -> bool {
        false
    }
    /// Whether it wants only the rows that a FILTER leaves, instead of NULLs in place of the others.
    fn wants_kept(&self) -> bool {
        false
    }
    /// Bytes held.
    fn bytes(&self) -> usize;
}

/// The function for an aggregate; `filtered`: of rows that a condition leaves.
pub(super) fn aggregate(
    function: &Arc<AggregateFunctionExpr>,
    arguments: &[Expr],
    filtered: bool,
    reach: Reach,
) -> Result<Box<dyn FrameFunction>> {
    Ok(match native(function, arguments, filtered, reach) {
        Some(native) => native,
        None => Box::new(Accumulated::new(function.clone(), arguments, filtered, reach)),
    })
}

fn native(
    function: &AggregateFunctionExpr,
    arguments: &[Expr],
    filtered: bool,
    reach: Reach,
) -> Option<Box<dyn FrameFunction>> {
    if function.is_distinct() {
        return None;
    }
    let field = function.field();
    let result = field.data_type();
    let kind = function.fun().inner();
    let counts = |argument: &Expr| Counts::new(reach, filtered || argument.nullable());
    let floats = |argument: &Expr, is_average: bool| -> Box<dyn FrameFunction> {
        Box::new(FloatSums::new(reach, counts(argument), is_average))
    };
    if kind.is::<Count>() {
        return match arguments {
            [] => Some(Box::new(Counts::new(reach, filtered))),
            [argument] => Some(Box::new(counts(argument))),
            _ => None,
        };
    }
    if let Some(of_moments) = of_moments(function, arguments, reach) {
        return Some(of_moments);
    }
    let [argument] = arguments else { return None };
    let from = argument.data_type();
    if kind.is::<Min>() || kind.is::<Max>() {
        return (from == result).then(|| extremes(from, kind.is::<Max>(), reach)).flatten();
    }
    // Our own sum stands under its name for DataFusion's.
    if kind.is::<Sum>() || kind.name() == "sum" {
        return match (from, result) {
            (DataType::Float64, DataType::Float64) => Some(floats(argument, false)),
            (DataType::Int64, DataType::Int64)
            | (DataType::UInt64, DataType::UInt64)
            | (DataType::Decimal128(..), DataType::Decimal128(..)) => {
                Some(Box::new(ExactSums::new(reach, counts(argument), result.clone(), None)))
            }
            _ => None,
        };
    }
    if kind.is::<Avg>() {
        let average = AverageKind::new(from, result)?;
        return Some(match average {
            AverageKind::Float => floats(argument, true),
            AverageKind::Decimal { .. } => {
                Box::new(ExactSums::new(reach, counts(argument), result.clone(), Some(average)))
            }
        });
    }
    None
}

/// A function whose value is always NULL.
pub(super) struct Nothing(pub DataType);

impl FrameFunction for Nothing {
    fn takes(&self, _: Side) -> bool {
        false
    }

    fn push(&mut self, _: Side, _: &Arrival<'_>) -> Result<()> {
        Ok(())
    }

    fn advance(&mut self, _: &Stretch) -> Result<()> {
        Ok(())
    }

    fn lacks(&self, _: &Stretch) -> Option<Need> {
        None
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        Ok(new_null_array(&self.0, stretches.len()))
    }

    fn bytes(&self) -> usize {
        0
    }
}
