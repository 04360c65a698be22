//! LIMIT and OFFSET.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use diligence_base::Result;
use diligence_engine::plan::{Node, Plan};

use super::Lowering;

impl Lowering {
    /// At most `fetch` rows of an input after the first `skip`. If the input has an order, they are the first in it.
    pub(super) fn limit(&mut self, input: &Arc<dyn ExecutionPlan>, skip: usize, fetch: Option<usize>) -> Result<Plan> {
        let input = self.plan(input, has_order(input))?;
        Ok(limit_node(input, skip, fetch))
    }
}

/// True if a node's rows come in an order. A projection may drop the columns that the order is told by; the order is
/// there all the same.
pub(super) fn has_order(exec: &Arc<dyn ExecutionPlan>) -> bool {
    exec.output_ordering().is_some()
        || exec.maintains_input_order().into_iter().zip(exec.children()).any(|(kept, input)| kept && has_order(input))
}

/// The node; a scan right below learns that it may stop.
pub(super) fn limit_node(mut input: Plan, skip: usize, fetch: Option<usize>) -> Plan {
    if let Some(fetch) = fetch {
        hint(&mut input, skip.saturating_add(fetch));
    }
    let schema = input.schema.clone();
    let rows = input.rows_estimate.map(|rows| rows.saturating_sub(skip));
    let mut plan = Plan::new(Node::Limit { input: Box::new(input), skip, fetch }, schema);
    plan.rows_estimate = match (rows, fetch) {
        (Some(rows), Some(fetch)) => Some(rows.min(fetch)),
        (rows, fetch) => rows.or(fetch),
    };
    plan
}

fn hint(plan: &mut Plan, rows: usize) {
    match &mut plan.node {
        Node::Scan(scan) => scan.limit = Some(scan.limit.map_or(rows, |limit| limit.min(rows))),
        Node::Project { input, .. } => hint(input, rows),
        _ => {}
    }
}
