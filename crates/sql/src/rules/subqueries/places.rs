//! Subqueries move to where they can be planned: into a projection, or into a filter.
//!
//! `sum(x) FILTER (WHERE EXISTS (…))` reads a column of a projection below the aggregate; `JOIN … ON a.x = b.x AND
//! EXISTS (…)` becomes a filter on top, if the join is an inner one.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery};

use super::{contains_subquery, is_subquery};

/// `moved` counts the columns that were made so far.
pub(super) fn rewrite(node: LogicalPlan, moved: &mut usize) -> Result<LogicalPlan> {
    match node {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => above(join),
        LogicalPlan::Aggregate(_) => below(node, moved),
        LogicalPlan::Window(_) | LogicalPlan::Sort(_) => {
            let columns = node.schema().columns().into_iter().map(Expr::Column);
            LogicalPlanBuilder::from(below(node, moved)?).project(columns)?.build()
        }
        node => Ok(node),
    }
}

fn above(mut join: Join) -> Result<LogicalPlan> {
    let conditions = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
    let (with, without): (Vec<_>, Vec<_>) = conditions.into_iter().partition(contains_subquery);
    join.filter = conjunction(without);
    let joined = LogicalPlan::Join(join);
    match conjunction(with) {
        Some(condition) => Ok(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(joined))?)),
        None => Ok(joined),
    }
}

fn below(node: LogicalPlan, moved: &mut usize) -> Result<LogicalPlan> {
    let mut taken = Vec::new();
    let names = NamePreserver::new(&node);
    let expressions = node.expressions().into_iter().map(|expression| {
        let name = names.save(&expression);
        let read = expression.transform_down(|part| {
            if !is_subquery(&part) {
                return Ok(Transformed::no(part));
            }
            *moved += 1;
            let alias = format!("__subquery_{moved}");
            taken.push(part.alias(&alias));
            Ok(Transformed::new(Expr::Column(Column::new_unqualified(alias)), true, TreeNodeRecursion::Jump))
        })?;
        Ok(name.restore(read.data))
    });
    let expressions = expressions.collect::<Result<Vec<_>>>()?;
    let Some(&input) = node.inputs().first() else { return Ok(node) };
    let mut columns = input.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let input = match input {
        // An ORDER BY stands above the SELECT list, and its subqueries read what that was made of.
        LogicalPlan::Projection(list)
            if !finds_all(&taken, input.schema()) && finds_all(&taken, list.input.schema()) =>
        {
            columns.clone_from(&list.expr);
            LogicalPlan::clone(&list.input)
        }
        input => input.clone(),
    };
    columns.extend(taken);
    let input = LogicalPlanBuilder::from(input).project(columns)?.build()?;
    node.with_new_exprs(expressions, vec![super::scalar::rewrite(input)?])
}

/// Whether these subqueries find the columns of the outer row in a schema.
fn finds_all(subqueries: &[Expr], schema: &DFSchema) -> bool {
    let outer = |subquery: &Subquery| {
        subquery.outer_ref_columns.iter().all(|column| match column {
            Expr::OuterReferenceColumn(_, column) => schema.has_column(column),
            _ => true,
        })
    };
    subqueries.iter().all(|expression| {
        let inner = match expression {
            Expr::Alias(alias) => alias.expr.as_ref(),
            other => other,
        };
        let found = match inner {
            Expr::ScalarSubquery(subquery) => outer(subquery),
            Expr::Exists(exists) => outer(&exists.subquery),
            Expr::InSubquery(predicate) => outer(&predicate.subquery),
            Expr::SetComparison(comparison) => outer(&comparison.subquery),
            _ => true,
        };
        found && inner.column_refs().into_iter().all(|column| schema.has_column(column))
    })
}
