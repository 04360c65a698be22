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
    /// One value for each stretch, whose rows have come. Starts and ends of frames never go back, from call to call either; what
    /// lies before all of them may be forgotten.
    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef>;
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
    Ok(match native(function, arguments, reach) {
        Some(native) => native,
        None => Box::new(Accumulated::new(function.clone(), arguments, filtered, reach)),
    })
}

fn native(function: &AggregateFunctionExpr, arguments: &[Expr], reach: Reach) -> Option<Box<dyn FrameFunction>> {
    if function.is_distinct() {
        return None;
    }
    let field = function.field();
    let result = field.data_type();
    let kind = function.fun().inner();
    let counts = |argument: &Expr| Counts::new(reach, argument.nullable());
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
            (DataType::Float64, DataType::Float64) => Some(Box::new(FloatSums::new(reach, counts(argument), false))),
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
            AverageKind::Float => Box::new(FloatSums::new(reach, counts(argument), true)),
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
