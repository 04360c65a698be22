//! Generic plans (PostgreSQL's word): one plan of a statement for all values of its parameters.
//!
//! Only for statements whose parameters stand in conditions on the rows of single tables, as `WHERE key = $1`, and
//! nowhere else once the plan is optimized. There a value decides which rows a scan gives and nothing about the plan's
//! form, so the values are put into the scans' conditions when it starts. A plan made for values may be better, where
//! it pays to know how many rows they leave: that is for whoever chooses between the two to think of.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::{Error, Result};
use diligence_catalog::{SessionSnapshot, Uses};
use diligence_engine::plan::{Needs, Node, Plan};
use diligence_storage::foreign_error::from_datafusion;

use super::kinds::is_query;
use super::parameters::{self, inner, prepare, syntax_of};
use super::reusable::reusable;
use super::{Planned, Planner, guarded};
use crate::expression::expression;
use crate::parse::{self, Parsed};
use crate::statement::Query;

/// A plan for all values of a statement's parameters.
#[derive(Debug)]
pub struct GenericPlan {
    query: Query,
    /// How many it has.
    parameters: usize,
    uses: Uses,
}

impl Planner {
    /// A plan for all values of these types of `$1`, `$2`, …; `None` if there is none. Fails where the statement cannot
    /// be planned without values, or not by this session.
    pub fn plan_generic(
        &self,
        snapshot: &SessionSnapshot,
        parsed: &Parsed,
        types: &[DataType],
    ) -> Result<Option<GenericPlan>> {
        let at = self.planning(snapshot);
        guarded(|| {
            parse::with_stack(parsed.depth, || {
                if types.is_empty() || parameters::count(parsed)? != types.len() || !is_query(parsed) {
                    return Ok(None);
                }
                let statement = prepare(parsed, types.iter().map(syntax_of).collect::<Result<Vec<_>>>()?)?;
                self.logical(&at, statement, |plan, names| {
                    let plan = inner(plan)?;
                    let Some(uses) = reusable(&plan, names).map_err(from_datafusion)? else { return Ok(None) };
                    let mut is_generic = true;
                    let query = self.query_of(&at, plan, None, |optimized| {
                        let (plan, found) = with_functions(optimized)?;
                        is_generic = found;
                        Ok(plan)
                    })?;
                    Ok(is_generic.then_some(GenericPlan { query, parameters: types.len(), uses }))
                })
            })
        })
    }
}

impl GenericPlan {
    /// What running it is expected to need, whatever the values.
    pub fn needs(&self) -> Needs {
        self.query.plan.needs()
    }

    /// What it was made from.
    pub fn uses(&self) -> &Uses {
        &self.uses
    }

    /// The plan for these values, one for each parameter.
    pub fn with(&self, values: &[ScalarValue]) -> Result<Planned> {
        if values.len() != self.parameters {
            return Err(Error::bug("a generic plan has other parameters"));
        }
        let mut plan = self.query.plan.clone();
        put(&mut plan, values)?;
        Ok(Planned::Query(Arc::new(Query { plan }), Some(self.uses.clone())))
    }
}

/// The plan with functions for parameters, and whether all of them are in conditions of scans. They only become
/// functions when nothing is optimized any more: before, nothing computes with a placeholder.
fn with_functions(plan: LogicalPlan) -> DataFusionResult<(LogicalPlan, bool)> {
    let mut is_generic = true;
    let plan = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else {
            node.apply_expressions(|expr| {
                is_generic &= !expr.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_))))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            return Ok(Transformed::no(node));
        };
        let filters = std::mem::take(&mut scan.filters).into_iter();
        let filters = filters.map(|filter| filter.transform_up(as_function).map(|filter| filter.data));
        scan.filters = filters.collect::<DataFusionResult<Vec<_>>>()?;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok((plan.data, is_generic))
}

fn as_function(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    let known = match &expr {
        Expr::Placeholder(Placeholder { id, field: Some(field) }) => {
            let number = id.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
            number.map(|number| (number, field.data_type().clone()))
        }
        _ => None,
    };
    let Some((number, data_type)) = known else { return Ok(Transformed::no(expr)) };
    let function = ScalarUDF::from(Parameter { number, data_type, signature: Signature::nullary(Volatility::Stable) });
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![]))))
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
        datafusion::common::internal_err!("the parameter ${} has no value", self.number)
    }
}

/// Puts values in the place of parameters, in all scans.
fn put(plan: &mut Plan, values: &[ScalarValue]) -> Result<()> {
    if let Node::Scan(scan) = &mut plan.node {
        let schema = scan.table.schema();
        for filter in &mut scan.filters {
            if let Some(put) = with_values(filter.physical(), values, &schema).map_err(from_datafusion)? {
                *filter = expression(put, &schema)?;
            }
        }
    }
    plan.inputs_mut().into_iter().try_for_each(|input| put(input, values))
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
    let looks_at_rows = simplified.exists(|node| Ok(node.is::<datafusion::physical_expr::expressions::Column>()))?;
    Ok(Some(if looks_at_rows { simplified } else { put.data }))
}
