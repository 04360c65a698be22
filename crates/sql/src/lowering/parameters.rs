//! Parameters whose values are not known when a plan is made: functions in conditions and computed columns, which
//! values take the place of when the plan starts.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_common::error::Result as DataFusionResult;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::Result;
use diligence_engine::plan::{Node, Plan};
use diligence_storage::foreign_error::from_datafusion;
use diligence_types::SqlType;

use crate::expression::expression;

/// The function that stands for a parameter, counted from 0.
pub(super) fn function(
    index: usize,
    sql_type: &SqlType,
    schema: &Schema,
    options: &Arc<ConfigOptions>,
) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
    Ok(Arc::new(ScalarFunctionExpr::try_new(udf(index + 1, sql_type.arrow()), vec![], schema, options.clone())?))
}

/// The function that stands for a parameter of a number, from 1 on.
pub(crate) fn udf(number: usize, data_type: DataType) -> Arc<ScalarUDF> {
    let signature = Signature::nullary(Volatility::Stable);
    Arc::new(ScalarUDF::from(Parameter { number, data_type, signature }))
}

/// The number and the type of the parameter that a function stands for.
pub(super) fn parameter_of(function: &ScalarUDF) -> Option<(usize, &DataType)> {
    let Parameter { number, data_type, .. } = function.inner().downcast_ref()?;
    Some((*number, data_type))
}

/// Stands for a parameter in a physical expression; never called.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Parameter {
    /// From 1 on.
    number: usize,
    data_type: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Parameter {
    fn name(&self) -> &str {
        "parameter"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        datafusion_common::internal_err!("the parameter ${} has no value", self.number)
    }
}

/// Puts values in the place of parameters, in all scans, filters and projections.
pub(crate) fn put(plan: &mut Plan, values: &[ScalarValue]) -> Result<()> {
    let (schema, expressions) = match &mut plan.node {
        Node::Scan(scan) => (scan.table_schema.clone(), scan.filters.iter_mut().collect()),
        Node::Filter { input, predicate } => (input.schema.clone(), vec![predicate]),
        Node::Project { input, expressions } => (input.schema.clone(), expressions.iter_mut().collect()),
        _ => (plan.schema.clone(), vec![]),
    };
    for own in expressions {
        if let Some(put) = with_values(own.physical(), values, &schema).map_err(from_datafusion)? {
            *own = expression(put, &schema)?;
        }
    }
    plan.inputs_mut().into_iter().try_for_each(|input| put(input, values))
}

/// The expression with a column in the place of each parameter: column n in that of parameter n + 1. `None` if it reads
/// columns already.
pub(crate) fn as_columns(expression: &Arc<dyn PhysicalExpr>) -> DataFusionResult<Option<Arc<dyn PhysicalExpr>>> {
    if expression.exists(|node| Ok(node.is::<Column>()))? {
        return Ok(None);
    }
    let columns = expression.clone().transform_up(|node| {
        let function = node.downcast_ref::<ScalarFunctionExpr>().map(|call| call.fun().inner());
        let parameter = function.and_then(|function| function.downcast_ref::<Parameter>());
        Ok(match parameter.and_then(|parameter| parameter.number.checked_sub(1)) {
            Some(place) => Transformed::yes(Arc::new(Column::new("parameter", place)) as Arc<dyn PhysicalExpr>),
            None => Transformed::no(node),
        })
    })?;
    Ok(Some(columns.data))
}

/// The condition with values; `None` if it has no parameter.
fn with_values(
    condition: &Arc<dyn PhysicalExpr>,
    values: &[ScalarValue],
    schema: &Schema,
) -> DataFusionResult<Option<Arc<dyn PhysicalExpr>>> {
    let put = condition.clone().transform_up(|node| {
        let function = node.downcast_ref::<ScalarFunctionExpr>().map(|call| call.fun().inner());
        let parameter = function.and_then(|function| function.downcast_ref::<Parameter>());
        let Some(parameter) = parameter else { return Ok(Transformed::no(node)) };
        let Some(value) = values.get(parameter.number - 1) else { return Ok(Transformed::no(node)) };
        // What was planned with the parameter takes its type for granted, down to the spelling of a time zone.
        let value = value.cast_to(&parameter.data_type)?;
        Ok(Transformed::yes(Arc::new(Literal::new(value)) as Arc<dyn PhysicalExpr>))
    })?;
    if !put.transformed {
        return Ok(None);
    }
    // A cast of the column to the parameter's type becomes one of the value: then clusters can be told by their
    // statistics.
    let simplified = PhysicalExprSimplifier::new(schema).simplify(put.data.clone())?;
    let looks_at_rows = simplified.exists(|node| Ok(node.is::<Column>()))?;
    Ok(Some(if looks_at_rows { simplified } else { put.data }))
}
