//! An ORDER BY below an OFFSET without a LIMIT, kept; and one above it, kept above.
//!
//! DataFusion's physical optimizer keeps a sort only for whom asks for its order. An OFFSET does not ask, so its sort
//! is dropped inside of a subquery, and any rows are skipped. Here somebody asks in its name. And it moves a sort below
//! everything that keeps the order of rows, an OFFSET too, which then skips other rows: a [`WholeInput`] around the
//! OFFSET says that it does not.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};

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
                Ok(Transformed::yes(Arc::new(WholeInput::new(replace_children_if_necessary(node, vec![input])?))))
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

/// Rows as they come, in their order; but no sort is moved below it, because its input is one whole.
#[derive(Debug)]
pub struct WholeInput {
    input: Arc<dyn ExecutionPlan>,
}

impl WholeInput {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input }
    }

    fn around(children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self::new(input))),
            Err(_) => internal_err!("a WholeInput has one input"),
        }
    }
}

impl DisplayAs for WholeInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WholeInput")
    }
}

impl ExecutionPlan for WholeInput {
    fn name(&self) -> &str {
        "WholeInput"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        // Its rows have the order of the input's: `maintains_input_order` only says what may be moved.
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Self::around(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Self::around(children)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
