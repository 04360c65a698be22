//! How many different values an expression has at most, by what its table knows of its columns.

use datafusion_common::JoinType;

use crate::expressions::Expr;
use crate::plan::{Node, Plan};

/// Different values of an expression over a plan's rows, about; `None` if nothing is known of a column that it reads.
pub(super) fn values_of(expression: &Expr, plan: &Plan) -> Option<usize> {
    let mut values = expression.columns().iter().map(|column| values_of_column(plan, *column));
    values.try_fold(1usize, |all, values| Some(all.saturating_mul(values?)))
}

fn values_of_column(plan: &Plan, column: usize) -> Option<usize> {
    match &plan.node {
        Node::Scan(scan) => {
            let statistics = scan.table.statistics();
            let known = statistics.column_statistics.get(*scan.columns.get(column)?)?;
            known.distinct_count.get_value().copied()
        }
        Node::Filter { input, .. } | Node::Limit { input, .. } | Node::Sort { input, .. } => {
            values_of_column(input, column)
        }
        Node::Project { input, expressions } => values_of(expressions.get(column)?, input),
        Node::HashJoin(join) => joined(&join.left, &join.right, join.join_type, join.projection.as_ref(), column),
        Node::NestedLoopJoin(join) => joined(&join.left, &join.right, join.join_type, join.projection.as_ref(), column),
        _ => None,
    }
}

fn joined(
    left: &Plan,
    right: &Plan,
    join_type: JoinType,
    projection: Option<&Vec<usize>>,
    column: usize,
) -> Option<usize> {
    let column = projection.map_or(Some(column), |columns| columns.get(column).copied())?;
    let width = left.schema.fields().len();
    match join_type {
        JoinType::RightSemi | JoinType::RightAnti => values_of_column(right, column),
        JoinType::LeftMark | JoinType::RightMark => None,
        _ if column < width => values_of_column(left, column),
        _ => values_of_column(right, column - width),
    }
}
