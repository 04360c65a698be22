//! Subqueries where DataFusion does not plan them, in forms that it does.
//!
//! Before analysis ([`before_analysis`]):
//! - [`places`]: subqueries inside of aggregates, windows, ORDER BY and join conditions move into a projection or a filter
//!   below or above;
//! - [`scalar`]: a scalar subquery with LIMIT 1 becomes an aggregate, and one that may have several rows, or none where its
//!   column allows no NULL, gets the aggregate [`SingleValue`](single_value::SingleValue).
//!
//! While optimizing, before DataFusion makes joins of subqueries ([`marks`]): EXISTS and IN as values.

pub(super) mod marks;
mod places;
mod scalar;
mod single_value;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Rewrites the subqueries of a plan as the planner made it.
pub(super) fn before_analysis(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut moved = 0;
    plan.transform_up_with_subqueries(|node| {
        if !has_subquery(&node) {
            return Ok(Transformed::no(node));
        }
        Ok(Transformed::yes(scalar::rewrite(places::rewrite(node, &mut moved)?)?))
    })
}

/// Whether a node's own expressions have a subquery.
fn has_subquery(node: &LogicalPlan) -> bool {
    let mut found = false;
    // The closures never fail.
    let _ = node.apply_expressions(|expression| {
        found |= contains_subquery(expression);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

fn contains_subquery(expression: &Expr) -> bool {
    // The closure never fails.
    expression.exists(|part| Ok(is_subquery(part))).unwrap_or(false)
}

fn is_subquery(expression: &Expr) -> bool {
    matches!(expression, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
}
