//! Grouping and aggregation: DataFusion's one-step form, or its two-step form put together again.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use diligence_base::Result;
use diligence_engine::plan::{Aggregate, AggregateCall, Node, Plan};

use super::Lowering;
use crate::expression::expression;

/// An aggregation over its raw input.
pub(super) struct Parts<'a> {
    /// The node whose output comes out.
    output: &'a AggregateExec,
    groups: &'a PhysicalGroupBy,
    functions: &'a [Arc<AggregateFunctionExpr>],
    filters: &'a [Option<Arc<dyn PhysicalExpr>>],
    input: &'a Arc<dyn ExecutionPlan>,
    /// Groups wanted at most.
    limit: Option<usize>,
}

impl<'a> Parts<'a> {
    /// The parts, if the node computes results and not intermediate states.
    pub(super) fn of(output: &'a AggregateExec) -> Option<Self> {
        let raw = match output.mode() {
            AggregateMode::Single | AggregateMode::SinglePartitioned => output,
            AggregateMode::Final | AggregateMode::FinalPartitioned => partial_below(output.input())?,
            AggregateMode::Partial | AggregateMode::PartialReduce => return None,
        };
        let limit = match output.limit_options() {
            // Groups in the order of an aggregate: our own top-N above does that.
            Some(options) if options.descending().is_some() => None,
            Some(options) => Some(options.limit()),
            None => None,
        };
        Some(Self {
            output,
            groups: raw.group_expr(),
            functions: raw.aggr_expr(),
            filters: raw.filter_expr(),
            input: raw.input(),
            limit,
        })
    }
}

fn partial_below(exec: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    if let Some(partial) = exec.downcast_ref::<AggregateExec>() {
        return (*partial.mode() == AggregateMode::Partial).then_some(partial);
    }
    if let Some(repartition) = exec.downcast_ref::<RepartitionExec>() {
        return partial_below(repartition.input());
    }
    partial_below(exec.downcast_ref::<CoalescePartitionsExec>()?.input())
}

impl Lowering {
    pub(super) fn aggregate(&mut self, parts: Parts<'_>) -> Result<Plan> {
        // array_agg and its kin show the order of their input, whether the statement asked for one or not.
        let shows_order = parts.functions.iter().any(|function| !function.order_sensitivity().is_insensitive());
        let input = self.plan(parts.input, shows_order && parts.input.output_ordering().is_some())?;
        let groups = parts.groups.expr().iter().map(|(expr, _)| expression(expr.clone(), &input.schema));
        let groups = groups.collect::<Result<Vec<_>>>()?;
        let aggregates = parts
            .functions
            .iter()
            .zip(parts.filters)
            .map(|(function, filter)| {
                let arguments = function.expressions().into_iter().map(|expr| expression(expr, &input.schema));
                Ok(AggregateCall {
                    arguments: arguments.collect::<Result<Vec<_>>>()?,
                    filter: filter.clone().map(|filter| expression(filter, &input.schema)).transpose()?,
                    function: function.clone(),
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let grouping_sets = match parts.groups.groups() {
            [] => vec![vec![false; groups.len()]],
            sets => sets.to_vec(),
        };
        let node = Node::Aggregate(Aggregate {
            input: Box::new(input),
            groups,
            grouping_sets,
            has_grouping_id: parts.groups.has_grouping_set(),
            aggregates,
            limit: parts.limit,
        });
        Ok(Plan::new(node, parts.output.schema()))
    }
}
