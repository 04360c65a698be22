//! Aggregates over windows with a FILTER: the condition becomes the last argument.
//!
//! DataFusion's physical window functions tell nobody their FILTER. As an argument it is there for everyone to see:
//! lowering makes it a FILTER again. The aggregate filters by itself all the same, for DataFusion's planner makes
//! accumulators of it and asks them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::filter;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, LogicalPlan, SetMonotonicity, Signature, Volatility,
    WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;

/// The rule.
#[derive(Debug)]
pub struct WindowFilters;

impl AnalyzerRule for WindowFilters {
    fn name(&self) -> &str {
        "window_filters"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let filtered = plan.transform_up_with_subqueries(|node| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            node.map_expressions(|expression| {
                expression.transform_up(|expression| match expression {
                    Expr::WindowFunction(mut function) => {
                        let WindowFunctionDefinition::AggregateUDF(aggregate) = &function.fun else {
                            return Ok(Transformed::no(Expr::WindowFunction(function)));
                        };
                        let Some(condition) = function.params.filter.take() else {
                            return Ok(Transformed::no(Expr::WindowFunction(function)));
                        };
                        function.fun = WindowFunctionDefinition::AggregateUDF(Filtered::over(aggregate.clone()));
                        function.params.args.push(*condition);
                        Ok(Transformed::yes(Expr::WindowFunction(function)))
                    }
                    other => Ok(Transformed::no(other)),
                })
            })
        })?;
        Ok(filtered.data)
    }
}

/// An aggregate of the rows for which its last argument is true. To everyone who asks, it is the aggregate.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Filtered {
    aggregate: Arc<AggregateUDF>,
    signature: Signature,
}

impl Filtered {
    fn over(aggregate: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
        // Types have been coerced by now.
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(AggregateUDF::from(Self { aggregate, signature }))
    }

    /// The aggregate without the condition.
    pub fn aggregate(&self) -> &Arc<AggregateUDF> {
        &self.aggregate
    }

    /// The parameters as they were written.
    fn written(params: &WindowFunctionParams) -> WindowFunctionParams {
        let mut params = params.clone();
        params.filter = params.args.pop().map(Box::new);
        params
    }
}

/// All but the last.
fn without_condition<T>(arguments: &[T]) -> &[T] {
    &arguments[..arguments.len().saturating_sub(1)]
}

fn inner_args<'a>(args: &AccumulatorArgs<'a>) -> AccumulatorArgs<'a> {
    AccumulatorArgs {
        return_field: args.return_field.clone(),
        schema: args.schema,
        ignore_nulls: args.ignore_nulls,
        order_bys: args.order_bys,
        is_reversed: args.is_reversed,
        name: args.name,
        is_distinct: args.is_distinct,
        exprs: without_condition(args.exprs),
        expr_fields: without_condition(args.expr_fields),
    }
}

impl AggregateUDFImpl for Filtered {
    fn name(&self) -> &str {
        self.aggregate.name()
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.aggregate.window_function_schema_name(&Self::written(params))
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.aggregate.window_function_display_name(&Self::written(params))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.aggregate.return_type(without_condition(arguments))
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.aggregate.return_field(without_condition(arguments))
    }

    fn is_nullable(&self) -> bool {
        self.aggregate.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(FilteredAccumulator(self.aggregate.accumulator(inner_args(&args))?)))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(FilteredAccumulator(self.aggregate.create_sliding_accumulator(inner_args(&args))?)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.aggregate.state_fields(StateFieldsArgs { input_fields: without_condition(args.input_fields), ..args })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.aggregate.order_sensitivity()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.aggregate.default_value(data_type)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.aggregate.inner().set_monotonicity(data_type)
    }
}

/// Leaves out the rows for which the last argument is not true.
#[derive(Debug)]
struct FilteredAccumulator(Box<dyn Accumulator>);

fn kept(values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let Some((condition, values)) = values.split_last() else { return Ok(Vec::new()) };
    let condition = condition.as_boolean();
    Ok(values.iter().map(|values| filter(values, condition)).collect::<Result<_, _>>()?)
}

impl Accumulator for FilteredAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&kept(values)?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(&kept(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BooleanArray, Int64Array};
    use arrow::datatypes::{Field, Schema};
    use datafusion::functions_aggregate::sum::sum_udaf;
    use datafusion::physical_expr::aggregate::AggregateExprBuilder;
    use datafusion::physical_expr::expressions::col;

    use super::*;

    #[test]
    fn rows_that_the_condition_leaves_out_come_and_go_unseen() {
        let fields = vec![Field::new("n", DataType::Int64, true), Field::new("c", DataType::Boolean, true)];
        let schema = Arc::new(Schema::new(fields));
        let arguments = vec![col("n", &schema).unwrap(), col("c", &schema).unwrap()];
        let sum = AggregateExprBuilder::new(Filtered::over(sum_udaf()), arguments);
        let sum = sum.schema(schema).alias("sum").build().unwrap();
        assert_eq!(sum.field().data_type(), &DataType::Int64);
        let mut sum = sum.create_sliding_accumulator().unwrap();
        let rows = |numbers: Vec<i64>, conditions: Vec<Option<bool>>| {
            vec![Arc::new(Int64Array::from(numbers)) as ArrayRef, Arc::new(BooleanArray::from(conditions))]
        };
        sum.update_batch(&rows(vec![1, 2, 4, 8], vec![Some(true), Some(false), None, Some(true)])).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(Some(9)));
        sum.retract_batch(&rows(vec![1, 2], vec![Some(true), Some(false)])).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(Some(8)));
    }
}
