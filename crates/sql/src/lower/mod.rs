//! A DataFusion physical plan turned into the engine's own.
//!
//! DataFusion plans for one partition, so its plan is a plain tree without exchanges. Every node that the engine has
//! natively becomes one of [`Node`](diligence_engine::plan::Node); what only moves rows between partitions is dropped;
//! the rest becomes a foreign operator over native inputs. One file per family.
//!
//! **Order.** DataFusion's plan says of every node which order its rows have. A node keeps its order, at the price of
//! one packet, only if somebody depends on it: the statement's ORDER BY, a LIMIT over an order, a foreign operator. A
//! join, an aggregate or a union that must hand on an order that its input had gets a sort on top instead: they are
//! faster without order, and the case is rare.
//!
//! Invariant: a lowered node has the schema of the DataFusion node it came from, column for column.

mod aggregate;
mod filter;
mod foreign;
mod join;
mod limit;
mod project;
mod recursive;
mod scan;
mod sort;
mod subqueries;
mod union;
mod values;
mod window;

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, StatisticsArgs, StatisticsContext};
use diligence_base::Result;
use diligence_engine::plan::Plan;
use diligence_storage::foreign_error::from_datafusion;

use crate::rules::offsets::WholeInput;
use crate::tables::TableScanExec;

/// Bytes of stack that must be left before going one node deeper, and how much is added if there is less.
const STACK_RED_ZONE: usize = 128 * 1024;
const STACK_GROWTH: usize = 2 * 1024 * 1024;

/// Lowers a plan. `ordered`: whether the rows must come out in the order that the plan promises. `context` is what
/// foreign operators run with.
pub fn lower(root: &Arc<dyn ExecutionPlan>, ordered: bool, context: Arc<TaskContext>) -> Result<Plan> {
    let mut lowering = Lowering {
        statistics: StatisticsContext::new(),
        runtime_filters: 0,
        work_tables: 0,
        around: Vec::new(),
        context,
    };
    let ordered = ordered && limit::has_order(root);
    lowering.plan(root, ordered)
}

/// What lowering one plan needs along the way.
struct Lowering {
    statistics: StatisticsContext,
    /// Runtime filters numbered so far.
    runtime_filters: u32,
    /// Recursive queries numbered so far.
    work_tables: u32,
    /// Those whose steps the node at hand is in, the innermost last.
    around: Vec<recursive::Around>,
    context: Arc<TaskContext>,
}

impl Lowering {
    /// Lowers a node and everything below it. `ordered`: somebody depends on the node's order.
    fn plan(&mut self, exec: &Arc<dyn ExecutionPlan>, ordered: bool) -> Result<Plan> {
        stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || {
            let mut plan = self.node(exec, ordered)?;
            plan.schema = exec.schema();
            plan.ordered = ordered;
            if plan.rows_estimate.is_none() {
                plan.rows_estimate = self.rows(exec);
            }
            Ok(plan)
        })
    }

    fn node(&mut self, exec: &Arc<dyn ExecutionPlan>, ordered: bool) -> Result<Plan> {
        let Some(native) = Native::of(exec) else { return self.foreign(exec, ordered) };
        match native {
            Native::Scan(scan) => self.scan(scan),
            Native::Filter(filter) => self.filter(filter, ordered),
            Native::Projection(projection) => self.projection(projection, ordered),
            Native::GlobalLimit(limit) => self.limit(limit.input(), limit.skip(), limit.fetch()),
            Native::LocalLimit(limit) => self.limit(limit.input(), 0, Some(limit.fetch())),
            Native::Sort(sort) => self.sort(sort, ordered),
            Native::Merge(merge) => self.merge(merge, ordered),
            Native::HashJoin(join) => {
                if let Some(columns) = join.projection.as_ref().filter(|_| ordered && exec.output_ordering().is_none())
                {
                    let whole = join.builder().with_projection(None).build_exec().map_err(from_datafusion)?;
                    return self.ordered_columns(&whole, columns, exec);
                }
                self.reordered(exec, ordered, |lowering| lowering.hash_join(join))
            }
            Native::NestedLoopJoin(join) => {
                if let Some(columns) =
                    join.projection().as_ref().filter(|_| ordered && exec.output_ordering().is_none())
                {
                    let whole = NestedLoopJoinExec::try_new(
                        join.left().clone(),
                        join.right().clone(),
                        join.filter().cloned(),
                        join.join_type(),
                        None,
                    );
                    return self.ordered_columns(&(Arc::new(whole.map_err(from_datafusion)?) as _), columns, exec);
                }
                self.reordered(exec, ordered, |lowering| lowering.nested_loop_join(join))
            }
            Native::CrossJoin(join) => self.reordered(exec, ordered, |lowering| lowering.cross_join(join)),
            Native::Aggregate(parts) => self.reordered(exec, ordered, |lowering| lowering.aggregate(parts)),
            Native::Window(windows) => self.windows(exec, &windows, ordered),
            Native::Union(inputs) => self.reordered(exec, ordered, |lowering| lowering.union(inputs)),
            Native::Values(batches) => values::values(exec, batches),
            Native::Recursive(query) => self.recursive(query),
            Native::WorkTable(table) => self.work_table(table),
            Native::ScalarSubqueries(subqueries) => self.scalar_subqueries(subqueries, ordered),
            Native::PassThrough(input, fetch) => match fetch {
                Some(fetch) => self.limit(input, 0, Some(fetch)),
                None => self.plan(input, ordered && exec.maintains_input_order()[0]),
            },
        }
    }

    /// A node that does not keep order, with a sort on top if somebody depends on the order that DataFusion promised.
    fn reordered(
        &mut self,
        exec: &Arc<dyn ExecutionPlan>,
        ordered: bool,
        lower: impl FnOnce(&mut Self) -> Result<Plan>,
    ) -> Result<Plan> {
        let plan = lower(self)?;
        match exec.output_ordering() {
            Some(ordering) if ordered => self.sorted(plan, exec, ordering),
            _ => Ok(plan),
        }
    }

    /// Columns of a join whose order is told by columns that are not among them: they go when the order is made.
    fn ordered_columns(
        &mut self,
        whole: &Arc<dyn ExecutionPlan>,
        columns: &[usize],
        exec: &Arc<dyn ExecutionPlan>,
    ) -> Result<Plan> {
        let plan = self.plan(whole, true)?;
        project::columns(plan, columns, exec.schema())
    }

    fn sorted(&mut self, mut plan: Plan, exec: &Arc<dyn ExecutionPlan>, ordering: &LexOrdering) -> Result<Plan> {
        plan.schema = exec.schema();
        plan.rows_estimate = self.rows(exec);
        sort::sort_node(plan, ordering, None)
    }

    /// Rows that DataFusion expects of a node.
    fn rows(&self, exec: &Arc<dyn ExecutionPlan>) -> Option<usize> {
        // Statistics are a help, not a need: a node that cannot tell is a node without an estimate.
        let statistics = self.statistics.compute(exec.as_ref(), &StatisticsArgs::new()).ok()?;
        statistics.num_rows.get_value().copied()
    }
}

/// A node of DataFusion's that the engine has, or does not need.
enum Native<'a> {
    Scan(&'a TableScanExec),
    Filter(&'a FilterExec),
    Projection(&'a ProjectionExec),
    GlobalLimit(&'a GlobalLimitExec),
    LocalLimit(&'a LocalLimitExec),
    Sort(&'a SortExec),
    Merge(&'a SortPreservingMergeExec),
    HashJoin(&'a HashJoinExec),
    NestedLoopJoin(&'a NestedLoopJoinExec),
    CrossJoin(&'a CrossJoinExec),
    Aggregate(aggregate::Parts<'a>),
    Window(window::Windows<'a>),
    Union(&'a [Arc<dyn ExecutionPlan>]),
    Values(values::Rows<'a>),
    Recursive(&'a RecursiveQueryExec),
    WorkTable(&'a WorkTableExec),
    ScalarSubqueries(&'a ScalarSubqueryExec),
    /// Rows go through unchanged; at most so many of them.
    PassThrough(&'a Arc<dyn ExecutionPlan>, Option<usize>),
}

impl<'a> Native<'a> {
    fn of(exec: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let exec = exec.as_ref();
        Some(if let Some(scan) = exec.downcast_ref::<TableScanExec>() {
            Native::Scan(scan)
        } else if let Some(filter) = exec.downcast_ref::<FilterExec>() {
            Native::Filter(filter)
        } else if let Some(projection) = exec.downcast_ref::<ProjectionExec>() {
            Native::Projection(projection)
        } else if let Some(limit) = exec.downcast_ref::<GlobalLimitExec>() {
            Native::GlobalLimit(limit)
        } else if let Some(limit) = exec.downcast_ref::<LocalLimitExec>() {
            Native::LocalLimit(limit)
        } else if let Some(sort) = exec.downcast_ref::<SortExec>() {
            Native::Sort(sort)
        } else if let Some(merge) = exec.downcast_ref::<SortPreservingMergeExec>() {
            Native::Merge(merge)
        } else if let Some(join) = exec.downcast_ref::<HashJoinExec>() {
            Native::HashJoin(join)
        } else if let Some(join) = exec.downcast_ref::<NestedLoopJoinExec>() {
            Native::NestedLoopJoin(join)
        } else if let Some(join) = exec.downcast_ref::<CrossJoinExec>() {
            Native::CrossJoin(join)
        } else if let Some(aggregate) = exec.downcast_ref::<AggregateExec>() {
            Native::Aggregate(aggregate::Parts::of(aggregate)?)
        } else if let Some(union) = exec.downcast_ref::<UnionExec>() {
            Native::Union(union.inputs())
        } else if let Some(union) = exec.downcast_ref::<InterleaveExec>() {
            Native::Union(union.inputs())
        } else if let Some(windows) = window::Windows::of(exec) {
            Native::Window(windows)
        } else if exec.is::<EmptyExec>() {
            Native::Values(values::Rows::None)
        } else if exec.is::<PlaceholderRowExec>() {
            Native::Values(values::Rows::OneOfNulls)
        } else if let Some(rows) = values::Rows::of_memory_source(exec) {
            Native::Values(rows)
        } else if let Some(subqueries) = exec.downcast_ref::<ScalarSubqueryExec>() {
            Native::ScalarSubqueries(subqueries)
        } else if let Some(query) = exec.downcast_ref::<RecursiveQueryExec>() {
            Native::Recursive(query)
        } else if let Some(table) = exec.downcast_ref::<WorkTableExec>() {
            Native::WorkTable(table)
        } else if let Some(coalesce) = exec.downcast_ref::<CoalescePartitionsExec>() {
            Native::PassThrough(coalesce.input(), coalesce.fetch())
        } else if let Some(repartition) = exec.downcast_ref::<RepartitionExec>() {
            Native::PassThrough(repartition.input(), None)
        } else if let Some(cooperative) = exec.downcast_ref::<CooperativeExec>() {
            Native::PassThrough(cooperative.input(), None)
        } else if exec.is::<BufferExec>() || exec.is::<OutputRequirementExec>() || exec.is::<WholeInput>() {
            Native::PassThrough(exec.children().first()?, exec.fetch())
        } else {
            return None;
        })
    }
}
