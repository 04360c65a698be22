//! Whatever the engine does not have natively: DataFusion's own operators over our inputs.
//!
//! Neighbouring foreign nodes stay one tree; every native subtree below becomes an input.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
    StatisticsArgs, replace_children_if_necessary,
};
use diligence_base::Result;
use diligence_engine::operators::foreign::InputExec;
use diligence_engine::plan::{Foreign, Node, Plan};
use diligence_storage::foreign_error::from_datafusion;

use super::{Lowering, Native, limit};

impl Lowering {
    pub(super) fn foreign(&mut self, exec: &Arc<dyn ExecutionPlan>, _ordered: bool) -> Result<Plan> {
        let mut inputs = Vec::new();
        let tree = self.tree(exec, &mut inputs)?;
        let operator = Arc::new(SessionExec { inner: tree, context: self.context.clone() });
        Ok(Plan::new(Node::Foreign(Foreign { operator, inputs }), exec.schema()))
    }

    /// The foreign nodes from here down, with an input in place of every native subtree.
    fn tree(&mut self, exec: &Arc<dyn ExecutionPlan>, inputs: &mut Vec<Plan>) -> Result<Arc<dyn ExecutionPlan>> {
        let children = exec
            .children()
            .into_iter()
            .map(|child| {
                if Native::of(child).is_none() {
                    stacker::maybe_grow(super::STACK_RED_ZONE, super::STACK_GROWTH, || self.tree(child, inputs))
                } else {
                    self.input(child, inputs)
                }
            })
            .collect::<Result<Vec<_>>>()?;
        if children.is_empty() {
            return Ok(exec.clone());
        }
        replace_children_if_necessary(exec.clone(), children).map_err(from_datafusion)
    }

    fn input(&mut self, child: &Arc<dyn ExecutionPlan>, inputs: &mut Vec<Plan>) -> Result<Arc<dyn ExecutionPlan>> {
        // An operator of DataFusion's may rely on any order that its input promises.
        let plan = self.plan(child, limit::has_order(child))?;
        let properties = child.properties().as_ref().clone().with_partitioning(Partitioning::UnknownPartitioning(1));
        let input = InputExec::new(inputs.len(), Arc::new(properties));
        inputs.push(plan);
        Ok(Arc::new(input))
    }
}

/// Runs an operator with the settings and object stores of the session that planned it, and the memory of the query
/// that runs it. To everyone who asks, it is the operator.
struct SessionExec {
    inner: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
}

impl fmt::Debug for SessionExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl DisplayAs for SessionExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for SessionExec {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.inner]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(inner), true) => Ok(Arc::new(SessionExec { inner, context: self.context.clone() })),
            _ => internal_err!("a foreign operator's session has one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(inner), true) => Ok(Arc::new(SessionExec { inner, context: self.context.clone() })),
            _ => internal_err!("a foreign operator's session has one input"),
        }
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> DataFusionResult<Arc<Statistics>> {
        Ok(inputs[0].clone())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }

    fn execute(&self, partition: usize, engine: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let ours = self.context.runtime_env();
        let runtime = RuntimeEnv {
            memory_pool: engine.runtime_env().memory_pool.clone(),
            disk_manager: engine.runtime_env().disk_manager.clone(),
            ..ours.as_ref().clone()
        };
        let context = TaskContext::new(
            engine.task_id(),
            self.context.session_id(),
            self.context.session_config().clone().with_batch_size(engine.session_config().batch_size()),
            // information_schema lists the functions that it finds here.
            self.context.scalar_functions().clone(),
            self.context.higher_order_functions().clone(),
            self.context.aggregate_functions().clone(),
            self.context.window_functions().clone(),
            Arc::new(runtime),
        );
        self.inner.execute(partition, Arc::new(context))
    }
}
