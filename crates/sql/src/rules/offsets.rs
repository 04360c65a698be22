//! An ORDER BY below an OFFSET without a LIMIT, kept.
//!
//! DataFusion's physical optimizer keeps a sort only for whom asks for its order. An OFFSET does not ask, so its sort is dropped
//! inside of a subquery, and any rows are skipped. Here somebody asks in its name.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::Distribution;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

/// The rule. It comes before the rule that drops sorts.
#[derive(Debug)]
pub struct OffsetOrder;

impl PhysicalOptimizerRule for OffsetOrder {
    fn name(&self) -> &str {
        "offset_order"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let kept = plan.transform_up(|node| match node.downcast_ref::<GlobalLimitExec>() {
            Some(limit) if limit.fetch().is_none() => {
                let input = with_order_kept(limit.input())?;
                Ok(Transformed::yes(replace_children_if_necessary(node, vec![input])?))
            }
            _ => Ok(Transformed::no(node)),
        })?;
        Ok(kept.data)
    }
}

/// The plan with the sort that its rows come from asked for; the plan itself if they come from none.
fn with_order_kept(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let order = Some(sort.expr().clone().into());
        let asked = OutputRequirementExec::new(plan.clone(), order, Distribution::UnspecifiedDistribution, None);
        return Ok(Arc::new(asked));
    }
    match (plan.children().as_slice(), plan.maintains_input_order().as_slice()) {
        ([input], [true]) => replace_children_if_necessary(plan.clone(), vec![with_order_kept(input)?]),
        _ => Ok(plan.clone()),
    }
}
