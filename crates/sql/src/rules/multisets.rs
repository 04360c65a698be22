//! `EXCEPT ALL` and `INTERSECT ALL` that count.
//!
//! DataFusion plans them as an anti or a semi join on all columns, which drops or keeps all copies of a row together. Here the
//! copies of a row are numbered on both sides, and the number joins too: so every row of the right side takes away, or lets
//! pass, one row of the left.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// The rule.
#[derive(Debug)]
pub struct CountedSets;

impl AnalyzerRule for CountedSets {
    fn name(&self) -> &str {
        "counted_sets"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let counted = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if is_counted(&join) => Ok(Transformed::yes(numbered(join)?)),
            node => Ok(Transformed::no(node)),
        })?;
        Ok(counted.data)
    }
}

/// Whether a join stands for a set operation with ALL: it is on all columns in their order and takes NULLs as equal, which
/// no other statement plans to at this stage. Without ALL, or without duplicates, the left side is distinct.
fn is_counted(join: &Join) -> bool {
    let (left, right) = (join.left.schema(), join.right.schema());
    let same = |expression: &Expr, column: Column| matches!(expression, Expr::Column(found) if *found == column);
    matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && !matches!(*join.left, LogicalPlan::Distinct(Distinct::All(_)))
        && join.on.len() == left.fields().len()
        && join.on.len() == right.fields().len()
        && join.on.iter().zip(left.columns()).all(|((key, _), column)| same(key, column))
        && join.on.iter().zip(right.columns()).all(|((_, key), column)| same(key, column))
}

fn numbered(join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let schema = join.left.schema().clone();
    let (left, left_number) = with_number(&join.left, "left copy")?;
    let (right, right_number) = with_number(&join.right, "right copy")?;
    let (mut left_keys, mut right_keys) = (columns.clone(), join.right.schema().columns());
    left_keys.push(left_number);
    right_keys.push(right_number);
    let joined = LogicalPlanBuilder::from(left)
        .join_detailed(right, join.join_type, (left_keys, right_keys), None, NullEquality::NullEqualsNull)?
        .build()?;
    let expressions = columns.into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new_with_schema(expressions, Arc::new(joined), schema)?))
}

/// The plan with one more column: which copy of its row a row is.
fn with_number(plan: &LogicalPlan, name: &str) -> Result<(LogicalPlan, Column)> {
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let number = row_number().partition_by(columns.clone()).build()?;
    let windowed = LogicalPlanBuilder::from(plan.clone()).window(vec![number])?;
    let last = windowed.schema().columns().pop().map(Expr::Column).unwrap_or_else(row_number);
    let mut expressions = columns;
    expressions.push(last.alias(name));
    Ok((windowed.project(expressions)?.build()?, Column::new_unqualified(name)))
}
