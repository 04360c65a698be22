//! DataFusion's `push_down_filter`, but for conditions without a column above an aggregate that has a row of nothing.
//!
//! It takes a condition of which all columns are keys below the aggregate. A condition without columns is one of those,
//! and where a grand total is among the groups, that comes out although the condition is false.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule.
#[derive(Debug, Default)]
pub struct KeptFilters(PushDownFilter);

impl OptimizerRule for KeptFilters {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Filter(filter) = &plan
            && let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref()
            && has_total(aggregate)
            && split_conjunction(&filter.predicate).iter().any(|condition| condition.column_refs().is_empty())
        {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

/// Whether one of the groups is there without any row.
fn has_total(aggregate: &Aggregate) -> bool {
    match aggregate.group_expr.as_slice() {
        [] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        [Expr::GroupingSet(_)] => true,
        _ => false,
    }
}
