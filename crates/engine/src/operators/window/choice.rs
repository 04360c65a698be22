//! Which function over frames a call has.

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
use super::function::{Arrival, FrameFunction, Need, Side};
use super::moments::of_moments;
use super::sums::{Counts, ExactSums};
use crate::expressions::Expr;
use crate::plan::average::AverageKind;

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
