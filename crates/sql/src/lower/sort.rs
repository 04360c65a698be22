//! Sorts, top-N, and merges of sorted partitions.

use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use diligence_base::Result;
use diligence_engine::plan::{Node, Plan, SortKey};

use super::Lowering;
use crate::expression::expression;

impl Lowering {
    pub(super) fn sort(&mut self, sort: &SortExec, ordered: bool) -> Result<Plan> {
        let input = self.plan(sort.input(), false)?;
        // An order that nobody depends on is not worth making.
        if !ordered && sort.fetch().is_none() {
            return Ok(input);
        }
        sort_node(input, sort.expr(), sort.fetch())
    }

    /// DataFusion merges partitions that are sorted each; here they are one input, which is sorted as a whole.
    pub(super) fn merge(&mut self, merge: &SortPreservingMergeExec, ordered: bool) -> Result<Plan> {
        if merge.input().output_partitioning().partition_count() == 1 {
            return match merge.fetch() {
                Some(fetch) => self.limit(merge.input(), 0, Some(fetch)),
                None => self.plan(merge.input(), ordered),
            };
        }
        let input = match merge.input().downcast_ref::<SortExec>() {
            Some(sort) if sort.preserve_partitioning() => self.plan(sort.input(), false)?,
            _ => self.plan(merge.input(), false)?,
        };
        if !ordered && merge.fetch().is_none() {
            return Ok(input);
        }
        sort_node(input, merge.expr(), merge.fetch())
    }
}

/// The rows of a plan in an order; the first `fetch` of them.
pub(super) fn sort_node(input: Plan, ordering: &LexOrdering, fetch: Option<usize>) -> Result<Plan> {
    let keys = ordering
        .iter()
        .map(|key| Ok(SortKey { expression: expression(key.expr.clone(), &input.schema)?, options: key.options }));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let schema = input.schema.clone();
    let rows_estimate = match (input.rows_estimate, fetch) {
        (Some(rows), Some(fetch)) => Some(rows.min(fetch)),
        (rows, fetch) => rows.or(fetch),
    };
    let mut plan = Plan::new(Node::Sort { input: Box::new(input), keys, fetch }, schema);
    plan.rows_estimate = rows_estimate;
    Ok(plan)
}
