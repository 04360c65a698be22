//! Scalar subqueries that DataFusion refuses, or answers wrongly.
//!
//! - A correlated one with `ORDER BY … LIMIT 1` is its `first_value(… ORDER BY …)`: aggregates are what DataFusion can
//!   join by the outer row.
//! - A correlated one without an aggregate has at most one row per outer row, or is an error of that row.
//! - One without a row is NULL, though its column may allow no NULL.
//!
//! And those that have one row always, an aggregate of all rows, whatever else asks for them: EXISTS is true, and IN,
//! ANY and ALL compare with that row. DataFusion would join them by the outer row, and find none where no row was
//! aggregated.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    AggregateUDF, BinaryExpr, EmptyRelation, Expr, FetchType, LogicalPlan, LogicalPlanBuilder, Operator, SkipType,
    SortExpr, Subquery, lit,
};
use diligence_types::functions::single_value_udaf;

/// Rewrites the scalar subqueries of a node, and those that are as good as one.
pub(super) fn rewrite(node: LogicalPlan) -> Result<LogicalPlan> {
    let names = NamePreserver::new(&node);
    let rewritten = node.map_expressions(|expression| {
        let name = names.save(&expression);
        let rewritten = expression.transform_up(|part| match part {
            Expr::ScalarSubquery(subquery) => match aggregated(&subquery)? {
                Some(plan) => {
                    let subquery = Subquery { subquery: Arc::new(plan), ..subquery };
                    Ok(Transformed::yes(Expr::ScalarSubquery(subquery)))
                }
                None => Ok(Transformed::no(Expr::ScalarSubquery(subquery))),
            },
            Expr::Exists(exists) if has_one_row(&exists.subquery.subquery) => {
                Ok(Transformed::yes(lit(!exists.negated)))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) if is_one_row_of_each(&subquery) => {
                let operator = if negated { Operator::NotEq } else { Operator::Eq };
                Ok(Transformed::yes(compared(expr, operator, subquery)))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, .. }) if is_one_row_of_each(&subquery) => {
                Ok(Transformed::yes(compared(expr, op, subquery)))
            }
            part => Ok(Transformed::no(part)),
        })?;
        Ok(rewritten.update_data(|expression| name.restore(expression)))
    })?;
    Ok(rewritten.data)
}

fn is_one_row_of_each(subquery: &Subquery) -> bool {
    !subquery.outer_ref_columns.is_empty() && has_one_row(&subquery.subquery)
}

fn compared(value: Box<Expr>, op: Operator, subquery: Subquery) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: value, op, right: Box::new(Expr::ScalarSubquery(subquery)) })
}

/// The subquery's plan as an aggregate, if it has to be one.
fn aggregated(subquery: &Subquery) -> Result<Option<LogicalPlan>> {
    let plan = subquery.subquery.as_ref();
    let [field] = plan.schema().fields().iter().as_slice() else { return Ok(None) };
    if subquery.outer_ref_columns.is_empty() {
        if field.is_nullable() || has_one_row(plan) {
            return Ok(None);
        }
        return single(plan).map(Some);
    }
    if let Some((input, value, order)) = first(plan)? {
        return aggregate(input, first_value(value, order), plan).map(Some);
    }
    match has_aggregate(plan) || plan.max_rows() == Some(1) {
        true => Ok(None),
        false => single(plan).map(Some),
    }
}

/// The value of the first row: what `[ORDER BY …] LIMIT 1` reads, which value, and in which order.
fn first(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Expr, Vec<SortExpr>)>> {
    let LogicalPlan::Limit(limit) = plan else { return Ok(None) };
    let one = matches!(limit.get_fetch_type()?, FetchType::Literal(Some(1)));
    if !one || !matches!(limit.get_skip_type()?, SkipType::Literal(0)) {
        return Ok(None);
    }
    let value = Expr::Column(limit.input.schema().columns().swap_remove(0));
    Ok(match limit.input.as_ref() {
        LogicalPlan::Sort(sort) => Some((LogicalPlan::clone(&sort.input), value, sort.expr.clone())),
        // The columns to sort by that the subquery does not select go after sorting.
        LogicalPlan::Projection(projection) => match (projection.input.as_ref(), projection.expr.as_slice()) {
            (LogicalPlan::Sort(sort), [value]) => {
                Some((LogicalPlan::clone(&sort.input), value.clone().unalias(), sort.expr.clone()))
            }
            _ => Some((LogicalPlan::clone(&limit.input), value, Vec::new())),
        },
        input => Some((input.clone(), value, Vec::new())),
    })
}

fn single(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let value = Expr::Column(plan.schema().columns().swap_remove(0));
    let function = AggregateUDF::clone(&single_value_udaf());
    aggregate(plan.clone(), function.call(vec![value]), plan)
}

/// The aggregate of all rows of a plan, under the name of another plan's only column.
fn aggregate(input: LogicalPlan, function: Expr, named: &LogicalPlan) -> Result<LogicalPlan> {
    let aggregated = LogicalPlanBuilder::from(input).aggregate(Vec::<Expr>::new(), vec![function])?.build()?;
    let value = Expr::Column(aggregated.schema().columns().swap_remove(0));
    let name = named.schema().field(0).name().clone();
    LogicalPlanBuilder::from(aggregated).project(vec![value.alias(name)])?.build()
}

/// What there is one row of, always.
pub(super) fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row, .. }) => *produce_one_row,
        _ => false,
    }
}

/// What DataFusion takes for an aggregate.
fn has_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_aggregate(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_aggregate(&alias.input),
        LogicalPlan::Filter(filter) => matches!(*filter.input, LogicalPlan::Aggregate(_)),
        LogicalPlan::Aggregate(_) => true,
        _ => false,
    }
}
