//! Whether a plan of a statement can run again.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use diligence_catalog::Uses;

use super::names::Names;

/// What the plan uses, if nothing else decides what it is: no function that depends on when or by whom it is called.
pub(super) fn reusable(plan: &LogicalPlan, names: &Names<'_>) -> DataFusionResult<Option<Uses>> {
    let Some(uses) = names.uses() else { return Ok(None) };
    let mut fixed = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            fixed &= !expr.exists(|expr| Ok(depends(expr)))?;
            Ok(if fixed { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })
    })?;
    Ok(fixed.then_some(uses))
}

fn depends(expr: &Expr) -> bool {
    let volatility = match expr {
        Expr::ScalarFunction(function) => function.func.signature().volatility,
        Expr::ScalarVariable(..) => Volatility::Volatile,
        _ => Volatility::Immutable,
    };
    volatility != Volatility::Immutable
}
