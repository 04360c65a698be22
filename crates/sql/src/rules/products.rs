//! DataFusion's `eliminate_cross_join`, only where there is a cross product to eliminate.
//!
//! That rule flattens every tree of inner joins and joins the relations one after another again, in every pass. It
//! would undo the join order, and it forgets a condition whose one side reads several relations that are no longer
//! joined first.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rule.
#[derive(Debug, Default)]
pub struct EliminateProducts(EliminateCrossJoin);

impl OptimizerRule for EliminateProducts {
    fn name(&self) -> &str {
        "eliminate_cross_join"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if is_safe(&plan)? { self.0.rewrite(plan, config) } else { Ok(Transformed::no(plan)) }
    }
}

/// True if there is a product, and every key of an inner join is a column of one relation.
fn is_safe(plan: &LogicalPlan) -> Result<bool> {
    let (mut product, mut plain) = (false, true);
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(join) = node
            && join.join_type == JoinType::Inner
        {
            product |= join.on.is_empty() && join.filter.is_none();
            let column = |expression: &Expr| matches!(expression, Expr::Column(_));
            plain &= join.on.iter().all(|(left, right)| column(left) && column(right));
        }
        Ok(if plain { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(product && plain)
}
