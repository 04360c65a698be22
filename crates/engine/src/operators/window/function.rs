//! What a function over frames must do, and which function does it for which call.

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
use super::sums::{Counts, ExactSums};
use crate::expressions::Expr;
use crate::operators::aggregate::AverageKind;

/// Rows that have come.
pub(super) struct Arrival<'a> {
    /// The position of the first.
    pub first: u64,
    pub rows: usize,
    /// The rows among them at which a partition begins, ascending.
    pub starts: &'a [u32],
    /// The function's arguments, in their logical type or a narrow form of it.
    pub values: &'a [ArrayRef],
}

/// A function of the rows in a frame.
pub(super) trait FrameFunction: Send {
    /// Takes the next rows.
    fn push(&mut self, arrival: &Arrival<'_>) -> Result<()>;
    /// Whether rows are to come a second time.
    fn revisits(&self) -> bool {
        false
    }
    /// Takes rows once more, in their order, before the values of the first frames that begin among them are asked for.
    fn revisit(&mut self, _arrival: &Arrival<'_>) -> Result<()> {
        Ok(())
    }
    /// One value for each stretch, whose rows have come. Starts and ends of frames never go back, from call to call either; what
    /// lies before all of them may be forgotten.
    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef>;
    /// Bytes held.
    fn bytes(&self) -> usize;
}

/// The function for an aggregate; `filtered`: of rows that a condition leaves; `begins_ahead`: frames may
/// begin behind their row.
pub(super) fn aggregate(
    function: &Arc<AggregateFunctionExpr>,
    arguments: &[Expr],
    filtered: bool,
    reach: Reach,
    begins_ahead: bool,
) -> Result<Box<dyn FrameFunction>> {
    Ok(match native(function, arguments, reach, begins_ahead) {
        Some(native) => native,
        None => Box::new(Accumulated::new(function.clone(), arguments, filtered, reach)),
    })
}

fn native(
    function: &AggregateFunctionExpr,
    arguments: &[Expr],
    reach: Reach,
    begins_ahead: bool,
) -> Option<Box<dyn FrameFunction>> {
    if function.is_distinct() {
        return None;
    }
    let field = function.field();
    let result = field.data_type();
    let kind = function.fun().inner();
    // Rows that come a second time do so when they go on. That is too late for frames that begin behind them; and floats are not taken
    // away from a sum.
    let once = if reach == Reach::Rest { Reach::Sliding } else { reach };
    let twice = if begins_ahead { once } else { reach };
    let counts = |argument: &Expr| Counts::new(twice, argument.nullable());
    let floats = |argument: &Expr, is_average: bool| -> Box<dyn FrameFunction> {
        Box::new(FloatSums::new(reach, Counts::new(once, argument.nullable()), is_average))
    };
    if kind.is::<Count>() {
        return match arguments {
            [] => Some(Box::new(Counts::new(reach, false))),
            [argument] => Some(Box::new(counts(argument))),
            _ => None,
        };
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
                Some(Box::new(ExactSums::new(twice, counts(argument), result.clone(), None)))
            }
            _ => None,
        };
    }
    if kind.is::<Avg>() {
        let average = AverageKind::new(from, result)?;
        return Some(match average {
            AverageKind::Float => floats(argument, true),
            AverageKind::Decimal { .. } => {
                Box::new(ExactSums::new(twice, counts(argument), result.clone(), Some(average)))
            }
        });
    }
    None
}

/// A function whose value is always NULL.
pub(super) struct Nothing(pub DataType);

impl FrameFunction for Nothing {
    fn push(&mut self, _: &Arrival<'_>) -> Result<()> {
        Ok(())
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        Ok(new_null_array(&self.0, stretches.len()))
    }

    fn bytes(&self) -> usize {
        0
    }
}
