//! Sums over windows that overflow, found.
//!
//! The engine's own sums find them. But the windows of a recursive query's recursive part run through DataFusion, whose sums wrap
//! around. Here they sum in 128 bits and look at the type of the result in the end, as the engine's do.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, FieldRef, Int64Type, UInt64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, LogicalPlan, ReversedUDAF, SetMonotonicity, Signature,
    WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;
use diligence_base::Error;
use diligence_storage::foreign_error::to_datafusion;

/// The rule.
#[derive(Debug)]
pub struct WindowSums;

impl AnalyzerRule for WindowSums {
    fn name(&self) -> &str {
        "window_sums"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let checked = plan.transform_up_with_subqueries(|node| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            node.map_expressions(|expression| {
                expression.transform_up(|expression| match expression {
                    Expr::WindowFunction(function) if is_exact_sum(&function) => {
                        let mut function = function;
                        function.fun = WindowFunctionDefinition::AggregateUDF(SUM.clone());
                        Ok(Transformed::yes(Expr::WindowFunction(function)))
                    }
                    other => Ok(Transformed::no(other)),
                })
            })
        })?;
        Ok(checked.data)
    }
}

/// DISTINCT is left to DataFusion, which keeps the values by themselves.
fn is_exact_sum(function: &WindowFunction) -> bool {
    let WindowFunctionDefinition::AggregateUDF(aggregate) = &function.fun else { return false };
    aggregate.inner().is::<Sum>() && !function.params.distinct
}

static SUM: LazyLock<Arc<AggregateUDF>> =
    LazyLock::new(|| Arc::new(AggregateUDF::from(CheckedSum { sum: Sum::new() })));

/// DataFusion's sum in all but its arithmetic, its name included: what refers to it by name finds it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedSum {
    sum: Sum,
}

impl CheckedSum {
    fn checked(args: &AccumulatorArgs) -> Option<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type();
        let exact = matches!(data_type, DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..));
        exact.then(|| Box::new(ExactSum { sum: Some(0), count: 0, data_type: data_type.clone() }) as _)
    }
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.sum.name()
    }

    fn signature(&self) -> &Signature {
        self.sum.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.sum.return_type(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match Self::checked(&args) {
            Some(accumulator) => Ok(accumulator),
            None => self.sum.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match Self::checked(&args) {
            Some(accumulator) => Ok(accumulator),
            None => self.sum.create_sliding_accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.sum.state_fields(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.sum.order_sensitivity()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.sum.set_monotonicity(data_type)
    }
}

/// A sum that says when it does not fit.
#[derive(Debug)]
struct ExactSum {
    /// `None` once it has left 128 bits.
    sum: Option<i128>,
    count: u64,
    data_type: DataType,
}

impl ExactSum {
    fn of(&self, values: &ArrayRef) -> Option<i128> {
        fn total(mut values: impl Iterator<Item = i128>) -> Option<i128> {
            values.try_fold(0i128, i128::checked_add)
        }
        match &self.data_type {
            DataType::Int64 => total(values.as_primitive::<Int64Type>().iter().flatten().map(i128::from)),
            DataType::UInt64 => total(values.as_primitive::<UInt64Type>().iter().flatten().map(i128::from)),
            _ => total(values.as_primitive::<Decimal128Type>().iter().flatten()),
        }
    }
}

fn known(values: &ArrayRef) -> u64 {
    (values.len() - values.null_count()) as u64
}

impl Accumulator for ExactSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count += known(&values[0]);
        self.sum = self.sum.zip(self.of(&values[0])).and_then(|(sum, more)| sum.checked_add(more));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count -= known(&values[0]);
        self.sum = self.sum.zip(self.of(&values[0])).and_then(|(sum, less)| sum.checked_sub(less));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let overflow = || {
            let error = Error::value(format!("arithmetic overflow: a sum does not fit {}", self.data_type));
            to_datafusion(error.with_hint("cast what is summed to a wider type, such as DECIMAL(38, 0) or DOUBLE"))
        };
        let sum = self.sum.ok_or_else(overflow)?;
        let any = self.count > 0;
        Ok(match &self.data_type {
            DataType::Int64 => ScalarValue::Int64(any.then_some(i64::try_from(sum).map_err(|_| overflow())?)),
            DataType::UInt64 => ScalarValue::UInt64(any.then_some(u64::try_from(sum).map_err(|_| overflow())?)),
            DataType::Decimal128(precision, scale) => {
                if sum.unsigned_abs() >= 10u128.pow(u32::from(*precision)) {
                    return Err(overflow());
                }
                ScalarValue::Decimal128(any.then_some(sum), *precision, *scale)
            }
            other => return Err(to_datafusion(Error::bug(format!("a sum over a window cannot be {other}")))),
        })
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn a_sum_may_leave_its_type_on_the_way_but_not_stay_there() {
        let mut sum = ExactSum { sum: Some(0), count: 0, data_type: DataType::Int64 };
        let values = |values: Vec<Option<i64>>| vec![Arc::new(Int64Array::from(values)) as ArrayRef];
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(None));
        sum.update_batch(&values(vec![Some(i64::MAX), None, Some(1)])).unwrap();
        assert!(sum.evaluate().unwrap_err().to_string().contains("arithmetic overflow"));
        sum.retract_batch(&values(vec![Some(i64::MAX)])).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(Some(1)));
        sum.retract_batch(&values(vec![Some(1)])).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(None));
    }
}
