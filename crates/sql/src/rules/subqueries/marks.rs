//! EXISTS and IN as values: in a SELECT list, a CASE, under a NOT.
//!
//! DataFusion makes mark joins of them in a filter only, and takes their mark for the value of an IN: false where it
//! should be NULL. Here:
//! - an EXISTS that does not depend on the row is a scalar subquery that counts up to one row;
//! - any other EXISTS in a projection is the mark of a join below it, which DataFusion's own rule makes for a filter
//!   that is thrown away then;
//! - `x IN (S)` is true by its mark, else NULL if S has a NULL, or if x is NULL and S has a row, else false. Only the
//!   parts that columns without NULL leave over are planned.
//!
//! Comes right before DataFusion's rule: types are coerced, and DISTINCT has become an aggregate.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, disjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Subquery, lit, not,
    when,
};
use datafusion::optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::scalar::has_one_row;

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct SubqueryValues(DecorrelatePredicateSubquery);

impl OptimizerRule for SubqueryValues {
    fn name(&self) -> &str {
        "subquery_values"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Projection(projection) if projection.expr.iter().any(has_predicate) => {
                self.projection(projection, config)
            }
            LogicalPlan::Filter(filter) if has_predicate(&filter.predicate) => of_filter(filter),
            plan => Ok(Transformed::no(plan)),
        }
    }
}

impl SubqueryValues {
    fn projection(&self, projection: Projection, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let names = NamePreserver::new_for_projection();
        let mut input = LogicalPlan::clone(&projection.input);
        let mut expressions = Vec::with_capacity(projection.expr.len());
        for expression in &projection.expr {
            let name = names.save(expression);
            let expression = three_valued(expression.clone(), projection.input.schema())?;
            let value = expression.transform_down(|part| match part {
                Expr::Exists(exists) if !depends_on_row(&exists) => {
                    Ok(Transformed::new(counted(exists)?, true, TreeNodeRecursion::Jump))
                }
                Expr::Exists(_) | Expr::InSubquery(_) => match self.mark(&input, &part, config)? {
                    Some((joined, mark)) => {
                        input = joined;
                        Ok(Transformed::new(mark, true, TreeNodeRecursion::Jump))
                    }
                    None => Ok(Transformed::no(part)),
                },
                part => Ok(Transformed::no(part)),
            })?;
            expressions.push(name.restore(value.data));
        }
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(input))?)))
    }

    /// The input joined to a subquery, and the mark that says whether a row has a partner. `None` if the subquery
    /// cannot be joined.
    fn mark(
        &self,
        input: &LogicalPlan,
        predicate: &Expr,
        config: &dyn OptimizerConfig,
    ) -> Result<Option<(LogicalPlan, Expr)>> {
        // Inside of an expression DataFusion's rule makes a mark join and puts the mark into the expression.
        let predicate = Expr::IsTrue(Box::new(predicate.clone()));
        let filter = Filter::try_new(predicate, Arc::new(input.clone()))?;
        let joined = self.0.rewrite(LogicalPlan::Filter(filter), config)?.data;
        let LogicalPlan::Projection(columns) = joined else { return Ok(None) };
        let LogicalPlan::Filter(filter) = columns.input.as_ref() else { return Ok(None) };
        match &filter.predicate {
            Expr::IsTrue(mark) if !has_predicate(mark) => {
                Ok(Some((LogicalPlan::clone(&filter.input), Expr::clone(mark))))
            }
            _ => Ok(None),
        }
    }
}

/// A filter keeps rows for which its predicate is true, so an IN below nothing but AND and OR may be false for NULL.
fn of_filter(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let schema = filter.input.schema().clone();
    let mut changed = false;
    let mut conditions = Vec::new();
    for condition in split_conjunction_owned(filter.predicate) {
        let whole = match &condition {
            Expr::Not(inner) => is_predicate(inner),
            other => is_predicate(other),
        };
        let next = match whole {
            _ if is_correlated_not_in(&condition) => false_for_null(condition.clone(), &schema)?,
            // DataFusion's anti join knows about NULLs.
            true => condition.clone(),
            false => below_and_or(condition.clone(), &schema)?,
        };
        changed |= next != condition;
        conditions.push(next);
    }
    let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
    let filter = LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?);
    Ok(if changed { Transformed::yes(filter) } else { Transformed::no(filter) })
}

/// What has no partner in an anti join may still have no row of the subquery at all, which is for each outer row
/// another one.
fn is_correlated_not_in(condition: &Expr) -> bool {
    let (predicate, is_not) = match condition {
        Expr::Not(inner) => (inner.as_ref(), true),
        other => (other, false),
    };
    match predicate {
        Expr::InSubquery(predicate) => predicate.negated != is_not && !predicate.subquery.outer_ref_columns.is_empty(),
        _ => false,
    }
}

/// A NOT IN in terms of what is true or false: of the join of an IN within an expression DataFusion makes a mark.
fn false_for_null(condition: Expr, schema: &DFSchema) -> Result<Expr> {
    let negated = match condition {
        Expr::Not(inner) => *inner,
        Expr::InSubquery(predicate) => Expr::InSubquery(InSubquery { negated: false, ..predicate }),
        other => other,
    };
    Ok(Expr::IsFalse(Box::new(three_valued(negated, schema)?)))
}

fn below_and_or(condition: Expr, schema: &DFSchema) -> Result<Expr> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (below_and_or(*left, schema)?, below_and_or(*right, schema)?);
            Ok(Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) }))
        }
        Expr::InSubquery(InSubquery { negated: false, .. }) => Ok(condition),
        other => three_valued(other, schema),
    }
}

/// The expression with the value of each IN, which may be NULL, in terms of IN and EXISTS that are true or false.
fn three_valued(expression: Expr, schema: &DFSchema) -> Result<Expr> {
    let rewritten = expression.transform_down(|part| match part {
        Expr::InSubquery(predicate) => {
            Ok(Transformed::new(value_of(predicate, schema)?, true, TreeNodeRecursion::Jump))
        }
        part => Ok(Transformed::no(part)),
    })?;
    Ok(rewritten.data)
}

fn value_of(predicate: InSubquery, schema: &DFSchema) -> Result<Expr> {
    let subquery = &predicate.subquery;
    let mut unknown = Vec::new();
    if subquery.subquery.schema().field(0).is_nullable() {
        let value = Expr::Column(subquery.subquery.schema().columns().swap_remove(0));
        let nulls = Filter::try_new(value.is_null(), subquery.subquery.clone())?;
        let nulls = Subquery { subquery: Arc::new(LogicalPlan::Filter(nulls)), ..subquery.clone() };
        unknown.push(exists(nulls)?);
    }
    if predicate.expr.nullable(schema)? {
        unknown.push(predicate.expr.clone().is_null().and(exists(subquery.clone())?));
    }
    let negated = predicate.negated;
    let Some(unknown) = disjunction(unknown) else { return Ok(Expr::InSubquery(predicate)) };
    let found = Expr::InSubquery(InSubquery { negated: false, ..predicate });
    let value = when(found, lit(!negated)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(negated))?;
    Ok(value)
}

fn exists(subquery: Subquery) -> Result<Expr> {
    let exists = Exists { subquery, negated: false };
    if depends_on_row(&exists) { Ok(Expr::Exists(exists)) } else { counted(exists) }
}

fn depends_on_row(exists: &Exists) -> bool {
    !exists.subquery.outer_ref_columns.is_empty() && !has_one_row(&exists.subquery.subquery)
}

/// Whether a subquery that does not depend on the row has a row.
fn counted(exists: Exists) -> Result<Expr> {
    let Exists { subquery, negated } = exists;
    if has_one_row(&subquery.subquery) {
        return Ok(lit(!negated));
    }
    let counted = LogicalPlanBuilder::from(LogicalPlan::clone(&subquery.subquery))
        .limit(0, Some(1))?
        .aggregate(Vec::<Expr>::new(), vec![count(lit(1_i64))])?
        .build()?;
    let rows = Expr::Column(counted.schema().columns().swap_remove(0));
    let counted = LogicalPlanBuilder::from(counted).project(vec![rows.gt(lit(0_i64)).alias("exists")])?.build()?;
    let value = Expr::ScalarSubquery(Subquery { subquery: Arc::new(counted), ..subquery });
    Ok(if negated { not(value) } else { value })
}

fn has_predicate(expression: &Expr) -> bool {
    // The closure never fails.
    expression.exists(|part| Ok(is_predicate(part))).unwrap_or(false)
}

fn is_predicate(expression: &Expr) -> bool {
    matches!(expression, Expr::Exists(_) | Expr::InSubquery(_))
}
