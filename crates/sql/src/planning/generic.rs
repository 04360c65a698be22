//! Generic plans (PostgreSQL's word): one plan of a statement for all values of its parameters.
//!
//! Only for statements whose parameters stand in conditions on the rows of single tables, as `WHERE key = $1`, and
//! nowhere else once the plan is optimized. There a value decides which rows a scan gives and nothing about the plan's
//! form, so the values are put into the scans' conditions when it starts. A plan made for values may be better, where
//! it pays to know how many rows they leave: that is for whoever chooses between the two to think of.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::{Expr, LogicalPlan};
use diligence_base::{Error, ErrorKind, Result};
use diligence_catalog::{SessionSnapshot, Uses};
use diligence_engine::plan::Needs;
use diligence_storage::foreign_error::from_datafusion;

use super::kinds::is_query;
use super::parameters::{self, inner, prepare, syntax_of};
use super::reusable::reusable;
use super::{Planned, Planner, Planning, guarded};
use crate::lowering::parameters::{put, udf};
use crate::parse::{self, Parsed};
use crate::statement::Query;

/// The SQLSTATE of a plan that needs to know a value.
const WITHOUT_VALUE: &str = "08P01";

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
                if !at.session.is_own {
                    return self.plan_borrowed(&at, parsed, types);
                }
                let planned = match self.plan_without_values(&at, parsed, types) {
                    Err(error) if error.kind() == ErrorKind::Input && error.code() == Some(WITHOUT_VALUE) => None,
                    planned => planned?,
                };
                Ok(planned.map(|(query, uses)| GenericPlan { query, parameters: types.len(), uses }))
            })
        })
    }
}

impl Planner {
    /// The same by DataFusion's front.
    fn plan_borrowed(&self, at: &Planning<'_>, parsed: &Parsed, types: &[DataType]) -> Result<Option<GenericPlan>> {
        let statement = prepare(parsed, types.iter().map(syntax_of).collect::<Result<Vec<_>>>()?)?;
        self.logical(at, statement, |plan, names| {
            let plan = inner(plan)?;
            let Some(uses) = reusable(&plan, names).map_err(from_datafusion)? else { return Ok(None) };
            let mut is_generic = true;
            let query = self.query_of(at, plan, None, |optimized| {
                let (plan, found) = with_functions(optimized)?;
                is_generic = found;
                Ok(plan)
            })?;
            Ok(is_generic.then_some(GenericPlan { query, parameters: types.len(), uses }))
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
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(udf(number, data_type), vec![]))))
}
