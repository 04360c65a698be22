//! Joins. In all of them the left input is the one that is held in memory.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use diligence_base::Result;
use diligence_engine::plan::{HashJoin, NestedLoopJoin, Node, PairFilter, Plan};

use super::{Lowering, limit};
use crate::expression::expression;
use crate::lowering::runtime_filters;

impl Lowering {
    pub(super) fn hash_join(&mut self, join: &HashJoinExec) -> Result<Plan> {
        let left = self.plan(join.left(), false)?;
        let right = self.plan(join.right(), false)?;
        let on = join
            .on()
            .iter()
            .map(|(l, r)| Ok((expression(l.clone(), &left.schema)?, expression(r.clone(), &right.schema)?)));
        let mut node = HashJoin {
            on: on.collect::<Result<Vec<_>>>()?,
            left: Box::new(left),
            right: Box::new(right),
            filter: join.filter().map(pair_filter).transpose()?,
            join_type: *join.join_type(),
            null_equality: join.null_equality(),
            null_aware: join.null_aware,
            projection: join.projection.as_ref().map(|columns| columns.to_vec()),
            runtime_filters: vec![],
        };
        runtime_filters::add(&mut node, &mut self.runtime_filters);
        let plan = Plan::new(Node::HashJoin(node), join.schema());
        match join.fetch() {
            // Any rows will do: a join that stops early has no order to keep.
            Some(fetch) => Ok(limit::limit_node(plan, 0, Some(fetch))),
            None => Ok(plan),
        }
    }

    pub(super) fn nested_loop_join(&mut self, join: &NestedLoopJoinExec) -> Result<Plan> {
        let node = NestedLoopJoin {
            left: Box::new(self.plan(join.left(), false)?),
            right: Box::new(self.plan(join.right(), false)?),
            filter: join.filter().map(pair_filter).transpose()?,
            join_type: *join.join_type(),
            projection: join.projection().as_ref().map(|columns| columns.to_vec()),
        };
        let plan = Plan::new(Node::NestedLoopJoin(node), join.schema());
        match join.fetch() {
            Some(fetch) => Ok(limit::limit_node(plan, 0, Some(fetch))),
            None => Ok(plan),
        }
    }

    pub(super) fn cross_join(&mut self, join: &CrossJoinExec) -> Result<Plan> {
        let node = NestedLoopJoin {
            left: Box::new(self.plan(join.left(), false)?),
            right: Box::new(self.plan(join.right(), false)?),
            filter: None,
            join_type: JoinType::Inner,
            projection: None,
        };
        Ok(Plan::new(Node::NestedLoopJoin(node), join.schema()))
    }
}

fn pair_filter(filter: &JoinFilter) -> Result<PairFilter> {
    Ok(PairFilter {
        expression: expression(Arc::clone(filter.expression()), filter.schema())?,
        columns: filter.column_indices().iter().map(|column| (column.side, column.index)).collect(),
        schema: filter.schema().clone(),
    })
}
