//! A plan whose expressions read the values of scalar subqueries from slots of their own, so that runs of one plan do
//! not fill each other's.
//!
//! Not here: expressions in an aggregate's own ORDER BY. DataFusion keeps them where they are, so they read the plan's
//! slots, which the first run fills for all.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::scalar_subquery::ScalarSubqueryExpr;
use diligence_base::Result;
use diligence_storage::foreign_error::from_datafusion;

use super::{Node, Pact, PairFilter, Plan, SortKey};
use crate::expressions::Expr;

impl Plan {
    /// The same plan, whose expressions read `fresh` instead of `results`.
    pub(crate) fn reading(&self, results: &ScalarSubqueryResults, fresh: &ScalarSubqueryResults) -> Result<Plan> {
        let mut plan = self.clone();
        Slots { results, fresh }.plan(&mut plan)?;
        Ok(plan)
    }
}

struct Slots<'a> {
    results: &'a ScalarSubqueryResults,
    fresh: &'a ScalarSubqueryResults,
}

impl Slots<'_> {
    fn plan(&self, plan: &mut Plan) -> Result<()> {
        match &mut plan.node {
            Node::Values { .. } | Node::WorkTable(_) | Node::Incoming(_) => Ok(()),
            Node::Scan(scan) => self.expressions(&mut scan.filters, &scan.table_schema),
            Node::Filter { input, predicate } => {
                self.expression(predicate, &input.schema)?;
                self.plan(input)
            }
            Node::Project { input, expressions } => {
                self.expressions(expressions, &input.schema)?;
                self.plan(input)
            }
            Node::Limit { input, .. } | Node::FragmentWise { input, .. } => self.plan(input),
            Node::Mask(mask) => self.plan(&mut mask.input),
            Node::Write(write) => self.plan(&mut write.input),
            Node::Unnest(unnest) => {
                let schema = unnest.input.schema.clone();
                unnest.arrays.iter_mut().try_for_each(|(array, _)| self.expression(array, &schema))?;
                self.plan(&mut unnest.input)
            }
            Node::Sort { input, keys, .. } => {
                self.keys(keys, &input.schema)?;
                self.plan(input)
            }
            Node::HashJoin(join) => {
                for (left, right) in &mut join.on {
                    self.expression(left, &join.left.schema)?;
                    self.expression(right, &join.right.schema)?;
                }
                self.pairs(&mut join.filter)?;
                self.plan(&mut join.left)?;
                self.plan(&mut join.right)
            }
            Node::NestedLoopJoin(join) => {
                self.pairs(&mut join.filter)?;
                self.plan(&mut join.left)?;
                self.plan(&mut join.right)
            }
            Node::Aggregate(aggregate) => {
                let schema = aggregate.input.schema.clone();
                self.expressions(&mut aggregate.groups, &schema)?;
                for call in &mut aggregate.aggregates {
                    self.expressions(&mut call.arguments, &schema)?;
                    self.expressions(&mut call.filter, &schema)?;
                }
                self.plan(&mut aggregate.input)
            }
            Node::Window(window) => {
                let schema = window.input.schema.clone();
                self.expressions(&mut window.partition_by, &schema)?;
                self.keys(&mut window.order_by, &schema)?;
                for call in &mut window.calls {
                    self.expressions(&mut call.arguments, &schema)?;
                    self.expressions(&mut call.filter, &schema)?;
                }
                self.plan(&mut window.input)
            }
            Node::Union { inputs } => inputs.iter_mut().try_for_each(|input| self.plan(input)),
            Node::ScalarSubqueries { input, subqueries, .. } => {
                self.plan(input)?;
                subqueries.iter_mut().try_for_each(|subquery| self.plan(subquery))
            }
            Node::Exchange { input, pact, .. } => {
                match pact {
                    Pact::Hash(keys) => self.expressions(keys, &input.schema)?,
                    Pact::Range(keys) | Pact::Merge(keys) => self.keys(keys, &input.schema)?,
                    Pact::Pipeline | Pact::RoundRobin | Pact::Broadcast | Pact::Gather => {}
                }
                self.plan(input)
            }
            Node::Recursive(query) => {
                self.plan(&mut query.base)?;
                self.plan(&mut query.step)
            }
            Node::Common(common) => {
                common.parts.iter_mut().try_for_each(|part| self.plan(&mut part.plan))?;
                self.plan(&mut common.input)
            }
        }
    }

    fn pairs(&self, filter: &mut Option<PairFilter>) -> Result<()> {
        filter.iter_mut().try_for_each(|filter| self.expression(&mut filter.expression, &filter.schema))
    }

    fn keys(&self, keys: &mut [SortKey], schema: &SchemaRef) -> Result<()> {
        self.expressions(keys.iter_mut().map(|key| &mut key.expression), schema)
    }

    fn expressions<'e>(&self, all: impl IntoIterator<Item = &'e mut Expr>, schema: &Schema) -> Result<()> {
        all.into_iter().try_for_each(|expression| self.expression(expression, schema))
    }

    fn expression(&self, expression: &mut Expr, schema: &Schema) -> Result<()> {
        let physical = expression.physical().clone();
        let read = physical.transform(|node| match node.downcast_ref::<ScalarSubqueryExpr>() {
            Some(value) if ScalarSubqueryResults::ptr_eq(value.results(), self.results) => {
                let field = value.return_field(schema)?;
                #[allow(deprecated, reason = "nothing else tells the slot")]
                let index = value.index();
                let (data_type, nullable) = (field.data_type().clone(), field.is_nullable());
                let value = ScalarSubqueryExpr::new(data_type, nullable, index, self.fresh.clone());
                Ok(Transformed::yes(Arc::new(value) as Arc<dyn PhysicalExpr>))
            }
            _ => Ok(Transformed::no(node)),
        });
        let read = read.map_err(from_datafusion)?;
        if read.transformed {
            *expression = Expr::new(read.data, schema)?;
        }
        Ok(())
    }
}
