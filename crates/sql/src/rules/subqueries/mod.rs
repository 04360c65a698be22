//! Subqueries where DataFusion does not plan them, in forms that it does.
//!
//! Before analysis ([`before_analysis`]):
//! - [`places`]: subqueries inside of aggregates, windows, ORDER BY and join conditions move into a projection or a
//!   filter below or above;
//! - [`scalar`]: a scalar subquery with LIMIT 1 becomes an aggregate, and one that may have several rows, or none where
//!   its column allows no NULL, gets the aggregate [`single_value`](diligence_types::functions::single_value_udaf).
//!
//! And what would take DataFusion for ever is refused.
//!
//! While optimizing, before DataFusion makes joins of subqueries ([`marks`]): EXISTS and IN as values.

pub(super) mod marks;
mod places;
mod scalar;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan};
use diligence_base::Error;
use diligence_storage::foreign_error::to_datafusion;

/// The most visits that DataFusion's check of subqueries may take: a tenth of a second. It sees one that is nested n
/// deep 2^n times.
const VISITS_MAX: u64 = 1 << 15;

/// Rewrites the subqueries of a plan as the planner made it. Fails if they nest so deeply that planning would not come
/// to an end.
pub(super) fn before_analysis(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if visits(&plan) > VISITS_MAX {
        let error = Error::input("the statement has too many subqueries within one another").with_code("54001");
        return Err(to_datafusion(error.with_hint("name the inner ones with WITH, or join them")));
    }
    let mut moved = 0;
    plan.transform_up_with_subqueries(|node| {
        if !has_subquery(&node) {
            return Ok(Transformed::no(node));
        }
        Ok(Transformed::yes(scalar::rewrite(places::rewrite(node, &mut moved)?)?))
    })
}

/// How often DataFusion's check visits the subqueries in the expressions of a plan.
fn visits(plan: &LogicalPlan) -> u64 {
    let mut visits = 0_u64;
    // The closures never fail.
    let _ = plan.apply(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::ScalarSubquery(subquery)
                | Expr::Exists(Exists { subquery, .. })
                | Expr::InSubquery(InSubquery { subquery, .. })
                | Expr::SetComparison(SetComparison { subquery, .. }) = part
                {
                    let inner = self::visits(&subquery.subquery);
                    visits = visits.saturating_add(inner.saturating_mul(2)).saturating_add(1);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    visits
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
