//! Our own rules for DataFusion's analyzer and logical optimizer, one file each.
//!
//! What comes [before the analyzer](before_analysis) and rules of the analyzer mend what would be answered wrongly
//! ([`analyzers`]), and so does one among the physical rules ([`physical`]). A rule of the optimizer is added to
//! [`install`] at the place in DataFusion's list where its input has the form that it expects.

mod cardinality;
mod comparisons;
mod decimals;
mod join_order;
mod kept_filters;
mod multisets;
pub(crate) mod offsets;
mod overflow;
mod products;
mod quantified;
mod subqueries;
mod window_filters;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;

pub(crate) use window_filters::Filtered;

/// What comes before DataFusion's own analysis, so on plans as they were made from the syntax tree.
pub fn before_analysis(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = subqueries::before_analysis(plan)?.transform_data(decimals::beside_doubles)?;
    if !plan.transformed {
        return Ok(plan.data);
    }
    // Types and what may be NULL have changed, also for whoever reads a subquery's columns.
    let plan = plan.data.transform_up_with_subqueries(|node| node.recompute_schema().map(Transformed::yes))?;
    Ok(plan.data)
}

/// What comes after DataFusion's own analysis, so on plans with their types coerced.
pub fn analyzers() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        Arc::new(overflow::ConstantOverflow),
        Arc::new(comparisons::Comparisons),
        Arc::new(multisets::CountedSets),
        Arc::new(quantified::QuantifiedNames),
        Arc::new(window_filters::WindowFilters),
    ]
}

/// What comes before DataFusion's physical rule of this name, which would drop what is needed.
pub fn physical(before: &str) -> Option<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    (before == "EnsureRequirements").then(|| Arc::new(offsets::OffsetOrder) as _)
}

/// DataFusion's rules in their order, without those that do nothing for our plans, with ours at their places.
pub fn install() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    rules.retain(|rule| !USELESS.contains(&rule.name()));
    for rule in &mut rules {
        match rule.name() {
            "eliminate_cross_join" => *rule = Arc::new(products::EliminateProducts::default()),
            "push_down_filter" => *rule = Arc::new(kept_filters::KeptFilters::default()),
            _ => {}
        }
    }
    let simplifiers = rules.iter().enumerate().filter(|(_, rule)| rule.name() == "simplify_expressions");
    let simplifiers = simplifiers.map(|(place, _)| place).collect::<Vec<_>>();
    for place in simplifiers.into_iter().rev() {
        rules.insert(place, Arc::new(overflow::ConstantOverflow));
    }
    let place = rules.iter().position(|rule| rule.name() == "decorrelate_predicate_subquery").unwrap_or(0);
    rules.insert(place, Arc::new(subqueries::marks::SubqueryValues::default()));
    // Conditions have found their tables by then, and projections do not stand between the joins yet.
    insert_after(&mut rules, "push_down_filter", Arc::new(join_order::JoinOrder));
    rules
}

/// Rules that are off by their settings, or prepare for scans that can evaluate expressions: ours read columns.
const USELESS: [&str; 4] =
    ["unions_to_filter", "filter_null_join_keys", "extract_leaf_expressions", "push_down_leaf_projections"];

/// Puts a rule right after another; at the end if there is no such rule.
fn insert_after(
    rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>,
    name: &str,
    rule: Arc<dyn OptimizerRule + Send + Sync>,
) {
    let place = rules.iter().position(|rule| rule.name() == name).map_or(rules.len(), |place| place + 1);
    rules.insert(place, rule);
}
