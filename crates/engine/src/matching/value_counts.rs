//! How many different values an expression has at most, by what its table knows of its columns.

use datafusion_common::JoinType;

use crate::expressions::Expr;
use crate::plan::{Node, Plan, PlanTables};

/// Different values of an expression over a plan's rows, about; `None` if nothing is known of a column that it reads.
pub(super) fn values_of(expression: &Expr, plan: &Plan, tables: &PlanTables) -> Option<usize> {
    let mut values = expression.columns().iter().map(|column| values_of_column(plan, *column, tables));
    values.try_fold(1usize, |all, values| Some(all.saturating_mul(values?)))
}

fn values_of_column(plan: &Plan, column: usize, tables: &PlanTables) -> Option<usize> {
    let joined = |left, right, join_type, projection: &Option<Vec<usize>>| {
        let (input, column) = joined(left, right, join_type, projection.as_ref(), column)?;
        values_of_column(input, column, tables)
    };
    match &plan.node {
        Node::Scan(scan) => {
            let statistics = tables.find(scan.table)?.statistics();
            let known = statistics.column_statistics.get(*scan.columns.get(column)?)?;
            known.distinct_count.get_value().copied()
        }
        Node::Filter { input, .. } | Node::Limit { input, .. } | Node::Sort { input, .. } => {
            values_of_column(input, column, tables)
        }
        Node::Project { input, expressions } => values_of(expressions.get(column)?, input, tables),
        Node::HashJoin(join) => joined(&join.left, &join.right, join.join_type, &join.projection),
        Node::NestedLoopJoin(join) => joined(&join.left, &join.right, join.join_type, &join.projection),
        _ => None,
    }
}

/// The input of a join from which a column comes, and its place there; `None` if it comes from neither.
fn joined<'p>(
    left: &'p Plan,
    right: &'p Plan,
    join_type: JoinType,
    projection: Option<&Vec<usize>>,
    column: usize,
) -> Option<(&'p Plan, usize)> {
    let column = projection.map_or(Some(column), |columns| columns.get(column).copied())?;
    let width = left.schema.fields().len();
    match join_type {
        JoinType::RightSemi | JoinType::RightAnti => Some((right, column)),
        JoinType::LeftMark | JoinType::RightMark => None,
        _ if column < width => Some((left, column)),
        _ => Some((right, column - width)),
    }
}
