//! From a logical plan to the engine's: DataFusion's optimizer and physical planner, run for one statement, and
//! lowering.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use chrono::{DateTime, Utc};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::displayable;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use diligence_base::Result;

use super::{Planner, Planning};
use crate::errors;
use crate::lower::lower;
use crate::rewrite::duplicates;
use crate::statement::Query;

impl Planner {
    /// Optimizes a logical plan and lowers it. `details` gets DataFusion's plans as text.
    pub(super) fn query(&self, at: &Planning<'_>, plan: LogicalPlan, details: Option<&mut String>) -> Result<Query> {
        self.query_of(at, plan, details, Ok)
    }

    /// The same with something done to the optimized plan.
    pub(super) fn query_of(
        &self,
        at: &Planning<'_>,
        plan: LogicalPlan,
        details: Option<&mut String>,
        last: impl FnOnce(LogicalPlan) -> DataFusionResult<LogicalPlan>,
    ) -> Result<Query> {
        let shown = duplicates::shown(&plan);
        let optimized = optimize(&at.session.state, plan).and_then(last);
        let optimized = optimized.map_err(|error| errors::planning(error, at))?;
        let physical = physical(&at.session.state, &optimized).map_err(|error| errors::planning(error, at))?;
        if let Some(details) = details {
            *details = format!(
                "Logical plan:\n{}\n\nDataFusion's physical plan:\n{}",
                optimized.display_indent(),
                displayable(physical.as_ref()).indent(false)
            );
        }
        let mut plan = lower(&physical, asks_for_order(&optimized), at.session.task.clone())?;
        if let Some(names) = shown {
            plan.schema = duplicates::renamed(&plan.schema, names);
        }
        Ok(Query { plan })
    }
}

fn optimize(state: &SessionState, plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let options = state.config_options();
    let analyzed = state.analyzer().execute_and_check(plan, options, |_, _| {})?;
    let config = StatementConfig { inner: OptimizerContext::new_with_config_options(options.clone()), state };
    state.optimizer().optimize(analyzed, &config, |_, _| {})
}

/// The plan with the types that running it gives.
pub(super) fn optimize_types(state: &SessionState, plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})
}

fn physical(state: &SessionState, plan: &LogicalPlan) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    block_on(DefaultPhysicalPlanner::default().create_physical_plan(plan, state))
}

/// True if the statement itself orders its rows: an order that only happens to be there need not be kept.
fn asks_for_order(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(projection) => asks_for_order(&projection.input),
        LogicalPlan::Filter(filter) => asks_for_order(&filter.input),
        LogicalPlan::Limit(limit) => asks_for_order(&limit.input),
        LogicalPlan::SubqueryAlias(alias) => asks_for_order(&alias.input),
        _ => false,
    }
}

/// The optimizer's view of one statement: `now()` is when it began.
struct StatementConfig<'a> {
    inner: OptimizerContext,
    state: &'a SessionState,
}

impl OptimizerConfig for StatementConfig<'_> {
    fn query_execution_start_time(&self) -> Option<DateTime<Utc>> {
        self.inner.query_execution_start_time()
    }

    fn alias_generator(&self) -> &Arc<AliasGenerator> {
        self.inner.alias_generator()
    }

    fn options(&self) -> Arc<ConfigOptions> {
        self.inner.options()
    }

    fn function_registry(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.state)
    }
}

/// Waits for a future of the planner. They never wait for anything but each other, so this works on any thread, inside
/// another executor too.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
