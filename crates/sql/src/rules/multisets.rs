//! `EXCEPT ALL` and `INTERSECT ALL` that count.
//!
//! DataFusion plans them as an anti or a semi join on all columns, which drops or keeps all copies of a row together.
//! Here the copies of a row are numbered on both sides, and the number joins too: so every row of the right side takes
//! away, or lets pass, one row of the left.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection,
};
use datafusion::optimizer::AnalyzerRule;

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

/// Whether a join stands for a set operation with ALL: it is on all columns in their order and takes NULLs as equal,
/// which no other statement plans to at this stage. Without ALL, or without duplicates, the left side is distinct.
fn is_counted(join: &Join) -> bool {
    let (left, right) = (join.left.schema(), join.right.schema());
    matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && !matches!(*join.left, LogicalPlan::Distinct(Distinct::All(_)))
        && join.on.len() == left.fields().len()
        && join.on.len() == right.fields().len()
        && join.on.iter().zip(left.columns()).all(|((key, _), column)| is_column(key, &column))
        && join.on.iter().zip(right.columns()).all(|((_, key), column)| is_column(key, &column))
}

/// Whether a key is a column, or its value in the type that both sides have in common.
fn is_column(key: &Expr, column: &Column) -> bool {
    match key {
        Expr::Column(found) => found == column,
        Expr::Cast(cast) => is_column(&cast.expr, column),
        _ => false,
    }
}

fn numbered(join: Join) -> Result<LogicalPlan> {
    let schema = join.left.schema().clone();
    let columns = schema.columns().into_iter().map(Expr::Column).collect();
    let (left_keys, right_keys): (Vec<_>, Vec<_>) = join.on.iter().cloned().unzip();
    let (left, left_number) = with_number(&join.left, left_keys, "left copy")?;
    let (right, right_number) = with_number(&join.right, right_keys, "right copy")?;
    let mut on = join.on;
    on.push((left_number, right_number));
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    Ok(LogicalPlan::Projection(Projection::try_new_with_schema(columns, Arc::new(LogicalPlan::Join(joined)), schema)?))
}

/// The plan with one more column: which of the rows with the same keys a row is.
fn with_number(plan: &LogicalPlan, keys: Vec<Expr>, name: &str) -> Result<(LogicalPlan, Expr)> {
    let number = row_number().partition_by(keys).build()?;
    let windowed = LogicalPlanBuilder::from(plan.clone()).window(vec![number])?.build()?;
    // The window's column comes last.
    let mut columns = windowed.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let number = columns.pop().map(|number| number.alias(name));
    columns.extend(number);
    let plan = LogicalPlanBuilder::from(windowed).project(columns)?.build()?;
    Ok((plan, Expr::Column(Column::new_unqualified(name))))
}

#[cfg(test)]
mod tests {
    use crate::Statement;
    use crate::planning::golden::{planner, statement};

    #[test]
    fn copies_are_numbered_only_where_all_is_said() {
        let planner = planner();
        let numbers = |sql: &str| {
            let Ok(Statement::Query(query)) = statement(&planner, sql) else { panic!("a query") };
            query.plan.to_string().matches("Window compute").count()
        };
        assert_eq!(numbers("SELECT id FROM people EXCEPT ALL SELECT person FROM visits"), 2);
        assert_eq!(numbers("SELECT id, city FROM people INTERSECT ALL SELECT day, place FROM visits"), 2);
        assert_eq!(numbers("SELECT id FROM people EXCEPT ALL SELECT CAST(person AS INT) FROM visits"), 2);
        assert_eq!(
            numbers("SELECT id FROM people WHERE id IN (SELECT a FROM empty EXCEPT ALL SELECT b FROM empty)"),
            2
        );
        assert_eq!(numbers("SELECT id FROM people EXCEPT SELECT person FROM visits"), 0);
        assert_eq!(numbers("SELECT id FROM people LEFT ANTI JOIN visits ON id IS NOT DISTINCT FROM person"), 0);
    }
}
