//! The closed list of what the engine can run. A [`Plan`] is a tree of [`Node`]s without any parallelism in it: the
//! exchange and the pipelines add that. Its `Display` is what EXPLAIN shows.
//!
//! Invariants:
//! * A plan holds no runtime state: it can be run many times, at the same time; but one of rows that come from outside
//!   runs once.
//! * A plan holds no table, but names the rows that it reads: the [tables](PlanTables) stand beside it.
//! * `schema` is logical and in the order of the node's output columns.

pub(crate) mod average;
pub mod bytes;
mod display;
pub mod estimates;
mod first_rows;
mod fragments;
mod incoming;
pub(crate) mod mask_lookup;
mod needs;
mod pact;
mod percentiles;
mod results;
pub(crate) mod sort_plan;
mod tables;
mod width;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::{JoinSide, JoinType, NullEquality, ScalarValue};
use datafusion_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion_expr::{AggregateUDF, WindowFrame};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::utils::conjunction;
use diligence_base::Result;
use diligence_base::ids::TableIdentity;
use diligence_storage::foreign_error::from_datafusion;
use diligence_storage::{Table, Writer};

use crate::expressions::Expr;

pub use display::ShownWith;
pub(crate) use first_rows::with_first_rows;
pub(crate) use fragments::{filters_from_outside, of_fragment, with_fragments};
pub(crate) use incoming::IncomingRows;
pub use incoming::{RowsSender, SentRows, incoming};
use mask_lookup::Lookup;
pub use needs::Needs;
pub use pact::Pact;
pub(crate) use percentiles::with_sorted_percentiles;
pub use sort_plan::SortPlan;
pub use tables::PlanTables;

/// A node with its output columns and what is expected of it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is done.
    pub node: Node,
    /// The columns that come out.
    pub schema: SchemaRef,
    /// Rows expected to come out, where anything is known.
    pub rows_estimate: Option<usize>,
    /// True if somebody depends on the order in which rows come out, so one packet must carry them.
    pub ordered: bool,
}

/// Everything that can be done.
#[derive(Clone, Debug)]
pub enum Node {
    /// Reads a table.
    Scan(Scan),
    /// Rows that are known already.
    Values {
        /// The rows, in order.
        batches: Vec<RecordBatch>,
    },
    /// Keeps the rows for which the predicate is true.
    Filter {
        /// Where rows come from.
        input: Box<Plan>,
        /// A condition over the input.
        predicate: Expr,
    },
    /// Computes columns.
    Project {
        /// Where rows come from.
        input: Box<Plan>,
        /// One expression over the input per output column.
        expressions: Vec<Expr>,
    },
    /// Skips rows, then keeps at most so many.
    Limit {
        /// Where rows come from.
        input: Box<Plan>,
        /// Rows left out first.
        skip: usize,
        /// Rows kept at most; all if `None`.
        fetch: Option<usize>,
    },
    /// Orders rows; with `fetch` it keeps only the first so many.
    Sort {
        /// Where rows come from.
        input: Box<Plan>,
        /// The order, most significant first.
        keys: Vec<SortKey>,
        /// Rows kept at most; all if `None`.
        fetch: Option<usize>,
    },
    /// Joins on equal keys, by a hash table.
    HashJoin(HashJoin),
    /// Joins on any condition, by looking at all pairs. Without a filter and `Inner`: a cross product.
    NestedLoopJoin(NestedLoopJoin),
    /// Groups and aggregates.
    Aggregate(Aggregate),
    /// Functions of the rows around each row.
    Window(Window),
    /// Gives rows to a place that takes them: files, or a table. Output: one row with their number.
    Write(Write),
    /// The rows of all inputs, in no order.
    Union {
        /// Where rows come from; all with this plan's column types.
        inputs: Vec<Plan>,
    },
    /// Runs the subqueries first, then the input, whose expressions read the results.
    ScalarSubqueries {
        /// The plan that reads the results.
        input: Box<Plan>,
        /// Each gives one column and at most one row; `results` slot by index.
        subqueries: Vec<Plan>,
        /// Where the input's expressions look; a run gives them slots of its own.
        results: ScalarSubqueryResults,
    },
    /// Moves rows between two pipelines.
    Exchange {
        /// Where rows come from.
        input: Box<Plan>,
        /// Which packet gets which row.
        pact: Pact,
        /// Packets that carry the rows on.
        consumers: usize,
    },
    /// Says of each row which of several queries want it, and drops those that none does. Made by
    /// `sharing` only.
    Mask(Mask),
    /// A base and a step that runs again and again on the rows of the step before.
    Recursive(Recursive),
    /// Elements of arrays as rows.
    Unnest(Unnest),
    /// The rows of the step before, or of a common part.
    WorkTable(WorkTable),
    /// Computes parts that the input has several times, once. Made where a query starts.
    Common(Common),
    /// Rows that come from outside while the plan runs. Output: as they come.
    Incoming(SentRows),
    /// Runs the input for each fragment of its tables by itself. Output: the rows of all, in no order. Made where a
    /// plan is cut into pipelines.
    FragmentWise {
        /// A plan whose tables are all divided by one rule.
        input: Box<Plan>,
        /// How many fragments each of its tables has.
        fragments: usize,
    },
}

/// Adds a column with a bit for each query. Output: the columns kept, then the mask, which is not zero.
#[derive(Clone, Debug)]
pub struct Mask {
    /// Where rows come from.
    pub input: Box<Plan>,
    /// The bits of all queries.
    pub(crate) queries: u64,
    /// Columns of the input by which queries choose, and how.
    pub(crate) lookups: Vec<(usize, Arc<Lookup>)>,
    /// Conditions on the input, each with a bit for every query that has it.
    pub(crate) conditions: Vec<(Expr, u64)>,
    /// Columns of the input that are masks already.
    pub(crate) masks: Vec<usize>,
    /// Columns of the input that are masks of those who do not want the row; NULL where all do.
    pub(crate) unwanted: Vec<usize>,
    /// In which order each query wants so many first rows, and no others: columns of the input.
    pub(crate) first: Option<(Vec<SortKey>, usize)>,
    /// Columns of the input that come out.
    pub columns: Vec<usize>,
}

/// Reads columns of a table.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Which rows are read: one of the [tables](PlanTables) beside the plan is called so.
    pub table: TableIdentity,
    /// The table's columns.
    pub table_schema: SchemaRef,
    /// The name in the statement.
    pub name: String,
    /// Positions in the table's schema, in output order.
    pub columns: Vec<usize>,
    /// Conditions over the *table's* schema that every row that comes out fulfils. They prune clusters and drop rows
    /// while decoding.
    pub filters: Vec<Expr>,
    /// Join filters that later pipelines fill: the filter's id and the table column that it looks at.
    pub runtime_filters: Vec<(RuntimeFilterId, usize)>,
    /// Rows wanted at most, where nothing else is between the scan and a LIMIT.
    pub limit: Option<usize>,
}

impl Scan {
    /// A scan of these columns of all rows of a table, which a statement calls by a name.
    pub fn new(table: &dyn Table, name: impl Into<String>, columns: Vec<usize>) -> Self {
        let (filters, runtime_filters, name) = (Vec::new(), Vec::new(), name.into());
        let (table, table_schema) = (table.identity(), table.schema());
        Self { table, table_schema, name, columns, filters, runtime_filters, limit: None }
    }

    /// That all of its conditions are true, over the table's schema; `None` if it has none.
    pub(crate) fn condition(&self) -> Option<Arc<dyn PhysicalExpr>> {
        let conditions = self.filters.iter().map(|filter| filter.physical().clone()).collect::<Vec<_>>();
        (!conditions.is_empty()).then(|| conjunction(conditions))
    }
}

/// A Bloom filter with bounds that a join's build side makes and a scan on the probe side uses. Unique in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuntimeFilterId(pub u32);

/// One part of an order.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// What is compared.
    pub expression: Expr,
    /// Direction, and where NULLs go.
    pub options: SortOptions,
}

/// A condition over a pair of rows, one from each side of a join.
#[derive(Clone, Debug)]
pub struct PairFilter {
    /// The condition over a batch of just the columns listed in `columns`.
    pub expression: Expr,
    /// For each column that the expression reads by position: the side (`Left` is the build side) and the column there.
    pub columns: Vec<(JoinSide, usize)>,
    /// The schema of such a batch.
    pub schema: SchemaRef,
}

/// A join on equal keys. The *left* input is the build side, as in DataFusion.
#[derive(Clone, Debug)]
pub struct HashJoin {
    /// The build side.
    pub left: Box<Plan>,
    /// The probe side.
    pub right: Box<Plan>,
    /// Pairs of keys: over the left input, over the right input; equal logical types.
    pub on: Vec<(Expr, Expr)>,
    /// A further condition on pairs with equal keys.
    pub filter: Option<PairFilter>,
    /// Which rows come out. `Left*` variants speak of the build side.
    pub join_type: JoinType,
    /// Whether NULL keys are equal to each other.
    pub null_equality: NullEquality,
    /// `NOT IN` semantics: with `LeftAnti`, a NULL among the probe keys means no row comes out, and build rows with a
    /// NULL key come out only if the probe side is empty.
    pub null_aware: bool,
    /// Positions in the join's full output (left columns then right columns; one side for semi and anti joins; left
    /// columns and the mark for mark joins) that come out; all if `None`.
    pub projection: Option<Vec<usize>>,
    /// Runtime filters that the build side makes: the id and the position in `on`.
    pub runtime_filters: Vec<(RuntimeFilterId, usize)>,
}

impl HashJoin {
    /// The column of the probe side that comes out at a position, if no row comes out but for rows of the probe side.
    pub(crate) fn probe_column(&self, output: usize) -> Option<usize> {
        let column = self.projection.as_ref().map_or(Some(output), |columns| columns.get(output).copied())?;
        let before = match self.join_type {
            JoinType::Inner | JoinType::Right => self.left.schema.fields().len(),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => 0,
            JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                return None;
            }
        };
        column.checked_sub(before).filter(|column| *column < self.right.schema.fields().len())
    }
}

/// A join on any condition. The *left* input is held in memory.
#[derive(Clone, Debug)]
pub struct NestedLoopJoin {
    /// The side that is held.
    pub left: Box<Plan>,
    /// The side that streams.
    pub right: Box<Plan>,
    /// The condition; every pair joins if `None`.
    pub filter: Option<PairFilter>,
    /// Which rows come out.
    pub join_type: JoinType,
    /// As for [`HashJoin::projection`].
    pub projection: Option<Vec<usize>>,
}

/// Grouping and aggregation in one step. Output: the group columns, the grouping id if there are several grouping sets,
/// the aggregates.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Where rows come from.
    pub input: Box<Plan>,
    /// What is grouped by. Empty: one group, which exists even without input rows.
    pub groups: Vec<Expr>,
    /// For each grouping set, which of `groups` are replaced by NULL. One set without NULLs is a plain GROUP BY.
    pub grouping_sets: Vec<Vec<bool>>,
    /// True if the output has the `__grouping_id` column between groups and aggregates.
    pub has_grouping_id: bool,
    /// What is computed for each group.
    pub aggregates: Vec<AggregateCall>,
    /// Groups wanted at most, any of them (DISTINCT with LIMIT).
    pub limit: Option<usize>,
}

/// One aggregate of an [`Aggregate`].
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// The function with its types, DISTINCT and ORDER BY.
    pub function: Arc<AggregateFunctionExpr>,
    /// Its arguments over the input, those of its ORDER BY not included.
    pub arguments: Vec<Expr>,
    /// Only rows for which this is true count.
    pub filter: Option<Expr>,
}

/// Functions of the rows around each row. Output: the input's columns, then one per function; rows keep their order.
#[derive(Clone, Debug)]
pub struct Window {
    /// Where rows come from. Rows of a partition come side by side, in the order of `order_by`.
    pub input: Box<Plan>,
    /// Rows with equal values are a partition. Empty: all rows are.
    pub partition_by: Vec<Expr>,
    /// The order of a partition's rows; rows with equal values are peers. Empty: all are.
    pub order_by: Vec<SortKey>,
    /// What is computed for each row.
    pub calls: Vec<WindowCall>,
}

/// One function of a [`Window`].
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// What is computed.
    pub function: WindowFunction,
    /// Its arguments over the input, those that are part of the function not included.
    pub arguments: Vec<Expr>,
    /// Only rows for which this is true count. For aggregates alone.
    pub filter: Option<Expr>,
    /// Which rows of the partition each row's value is of. Ranks, `lag` and `lead` look at none.
    pub frame: Arc<WindowFrame>,
    /// Which of these rows it leaves out.
    pub excludes: Exclusion,
}

/// Which rows around its row a frame leaves out (EXCLUDE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Exclusion {
    /// None.
    #[default]
    NoOthers,
    /// The row itself.
    CurrentRow,
    /// The row and its peers.
    Group,
    /// The row's peers, but not the row itself.
    Ties,
}

/// A function of the rows around a row.
#[derive(Clone, Debug)]
pub enum WindowFunction {
    /// The row's number in its partition, from 1 on.
    RowNumber,
    /// One more than the rows before the first peer.
    Rank,
    /// One more than the groups of peers before the row's own.
    DenseRank,
    /// The rows before the first peer, as a share of all rows but one.
    PercentRank,
    /// The rows up to the last peer, as a share of all rows.
    CumeDist,
    /// The number of the row's part, where the partition is cut into so many equal parts.
    Ntile(u64),
    /// `lag` and `lead`: the argument's value in another row of the partition.
    Shift {
        /// How many rows before this one; behind it, if negative.
        offset: i64,
        /// The value where there is no such row.
        default: ScalarValue,
        /// Whether only rows count where the argument is not NULL.
        ignore_nulls: bool,
    },
    /// `first_value`, `last_value` and `nth_value`: the argument's value in one row of the frame; NULL if there is
    /// none.
    Nth {
        /// 1 is the first row, -1 the last, 0 none.
        nth: i64,
        /// Whether only rows count where the argument is not NULL.
        ignore_nulls: bool,
    },
    /// `ntile` of an argument: the number of parts is its value in the partition's first row, NULL if that is NULL.
    /// Fails with 22014 unless it is above zero.
    NtileOf,
    /// `lag` and `lead` of two or three arguments: the value of the first in the row that is as far away as the second
    /// says in this row; else the third's value in this row. NULL if the second is.
    ShiftOf {
        /// `lead`: rows behind this one.
        is_ahead: bool,
        /// Whether only rows count where the first argument is not NULL.
        ignore_nulls: bool,
    },
    /// `nth_value` of two arguments: the first's value in the frame's row with the number that the second has in this
    /// row. Fails with 22016 unless that is above zero.
    NthOf {
        /// Whether only rows count where the first argument is not NULL.
        ignore_nulls: bool,
    },
    /// An aggregate of the frame, with its types and DISTINCT.
    Aggregate(Arc<AggregateFunctionExpr>),
}

/// A recursive query. Output: the rows of the base and of all steps, in no order.
#[derive(Clone, Debug)]
pub struct Recursive {
    /// The name in the statement.
    pub name: String,
    /// Where the recursion begins.
    pub base: Box<Plan>,
    /// What it does with the rows of the step before (first with the base's); with the base's column types.
    pub step: Box<Plan>,
    /// What the step calls these rows.
    pub table: WorkTableId,
    /// UNION: a row that was there before is not there again, and no step sees it.
    pub is_distinct: bool,
}

/// Elements of arrays as rows, beside the rows that they are of. Output: the columns kept, the elements of each array
/// (or the fields of its elements), the ordinal.
#[derive(Clone, Debug)]
pub struct Unnest {
    /// Where rows come from.
    pub input: Box<Plan>,
    /// Columns of the input that come out.
    pub kept: Vec<usize>,
    /// Lists over the input, and whether their elements are records that become a column per field.
    pub arrays: Vec<(Expr, bool)>,
    /// Whether a column counts the elements of each row from 1.
    pub ordinality: bool,
    /// Whether a row without elements comes out with NULLs.
    pub keeps_all: bool,
}

/// The rows of the step before, in one of the steps below a [`Recursive`] node; or, below a [`Common`] one, those of a
/// part.
#[derive(Clone, Debug)]
pub struct WorkTable {
    /// Whose rows.
    pub table: WorkTableId,
    /// The name in the statement.
    pub name: String,
    /// Positions in the rows of the recursive query, in output order; of a common part, all of them.
    pub columns: Vec<usize>,
}

/// Common parts of a plan. Output: the input's.
#[derive(Clone, Debug)]
pub struct Common {
    /// The parts.
    pub parts: Vec<CommonPart>,
    /// What reads them.
    pub input: Box<Plan>,
}

/// A part that a plan has several times.
#[derive(Clone, Debug)]
pub struct CommonPart {
    /// What computes it.
    pub plan: Plan,
    /// What its places in the plan call it.
    pub table: WorkTableId,
    /// How many places there are.
    pub places: usize,
}

impl Common {
    /// Whether the rows of a part can go to all of its places as they come, so that nobody keeps them: each place is
    /// below an aggregate, with nothing between them but what works on each row by itself, and waits for nothing else.
    pub(crate) fn is_streamed(&self, part: &CommonPart) -> bool {
        part.places > 1 && streamed_places(&self.input, part.table, false) == Some(part.places)
    }
}

/// How many places a plan has that read a common part right below an aggregate; `None` if any other place reads it.
/// `grouped`: only work on each row is between this plan and an aggregate above it.
fn streamed_places(plan: &Plan, part: WorkTableId, grouped: bool) -> Option<usize> {
    let all = |inputs: Vec<&Plan>, grouped| {
        inputs.into_iter().try_fold(0, |sum, input| Some(sum + streamed_places(input, part, grouped)?))
    };
    match &plan.node {
        Node::WorkTable(table) if table.table == part => (grouped && !plan.ordered).then_some(1),
        Node::Aggregate(aggregate) => streamed_places(&aggregate.input, part, !plan.ordered),
        Node::Filter { .. } | Node::Project { .. } | Node::Mask(_) => all(plan.inputs(), grouped && !plan.ordered),
        // What reads values of subqueries waits for these.
        Node::ScalarSubqueries { input, subqueries, .. } => {
            let own = all(subqueries.iter().collect(), false)?;
            (streamed_places(input, part, false)? == 0).then_some(own)
        }
        // These run plans of their own.
        Node::Recursive(_) | Node::FragmentWise { .. } => (all(plan.inputs(), false)? == 0).then_some(0),
        _ => all(plan.inputs(), false),
    }
}

/// Which recursive query, or common part, a work table belongs to. Unique in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkTableId(pub u32);

/// Rows that go somewhere. Output: one column, the number of rows.
#[derive(Clone, Debug)]
pub struct Write {
    /// Where rows come from. If it is ordered, they are written in its order.
    pub input: Box<Plan>,
    /// Where they go.
    pub writer: Arc<dyn Writer>,
}

impl Aggregate {
    /// The `__grouping_id` of each grouping set: masks as bits, the first column's the highest; above them a number
    /// that tells equal sets apart.
    pub(crate) fn grouping_ids(&self) -> Vec<u64> {
        let columns = self.groups.len() as u32;
        let mut seen: HashMap<&[bool], u64> = HashMap::new();
        let id = |masked| {
            let ordinal = seen.entry(masked).or_insert(0);
            let bits = masked.iter().fold(0, |bits, &masked| bits << 1 | u64::from(masked));
            let id = bits | ordinal.checked_shl(columns).unwrap_or(0);
            *ordinal += 1;
            id
        };
        self.grouping_sets.iter().map(Vec::as_slice).map(id).collect()
    }
}

impl AggregateCall {
    /// A call under a name, over batches of `input`. Fails if the function does not take the arguments' types.
    pub(crate) fn new(
        function: Arc<AggregateUDF>,
        name: String,
        arguments: Vec<Expr>,
        filter: Option<Expr>,
        input: &SchemaRef,
    ) -> Result<Self> {
        let physical = arguments.iter().map(|argument| argument.physical().clone()).collect();
        let function = AggregateExprBuilder::new(function, physical).schema(input.clone()).alias(name).build();
        Ok(Self { function: Arc::new(function.map_err(from_datafusion)?), arguments, filter })
    }
}

impl Plan {
    /// A plan that gives the rows of `input` to a writer.
    pub fn write(input: Plan, writer: Arc<dyn Writer>) -> Self {
        let node = Node::Write(Write { input: Box::new(input), writer });
        let count = Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)]));
        Self { rows_estimate: Some(1), ..Self::new(node, count) }
    }

    /// A plan without an estimate and without an order to keep.
    pub fn new(node: Node, schema: SchemaRef) -> Self {
        Self { node, schema, rows_estimate: None, ordered: false }
    }

    /// The plans whose rows this one reads, in display order.
    pub fn inputs(&self) -> Vec<&Plan> {
        match &self.node {
            Node::Scan(_) | Node::Values { .. } | Node::WorkTable(_) | Node::Incoming(_) => vec![],
            Node::Filter { input, .. }
            | Node::Project { input, .. }
            | Node::Limit { input, .. }
            | Node::Sort { input, .. }
            | Node::FragmentWise { input, .. }
            | Node::Exchange { input, .. } => vec![input],
            Node::HashJoin(join) => vec![&join.left, &join.right],
            Node::NestedLoopJoin(join) => vec![&join.left, &join.right],
            Node::Aggregate(aggregate) => vec![&aggregate.input],
            Node::Window(window) => vec![&window.input],
            Node::Mask(mask) => vec![&mask.input],
            Node::Write(write) => vec![&write.input],
            Node::Unnest(unnest) => vec![&unnest.input],
            Node::Union { inputs } => inputs.iter().collect(),
            Node::ScalarSubqueries { input, subqueries, .. } => {
                std::iter::once(input.as_ref()).chain(subqueries).collect()
            }
            Node::Recursive(query) => vec![&query.base, &query.step],
            Node::Common(common) => common.parts.iter().map(|part| &part.plan).chain([common.input.as_ref()]).collect(),
        }
    }

    /// The same plans, to be changed.
    pub fn inputs_mut(&mut self) -> Vec<&mut Plan> {
        match &mut self.node {
            Node::Scan(_) | Node::Values { .. } | Node::WorkTable(_) | Node::Incoming(_) => vec![],
            Node::Filter { input, .. }
            | Node::Project { input, .. }
            | Node::Limit { input, .. }
            | Node::Sort { input, .. }
            | Node::FragmentWise { input, .. }
            | Node::Exchange { input, .. } => vec![input],
            Node::HashJoin(join) => vec![&mut join.left, &mut join.right],
            Node::NestedLoopJoin(join) => vec![&mut join.left, &mut join.right],
            Node::Aggregate(aggregate) => vec![&mut aggregate.input],
            Node::Window(window) => vec![&mut window.input],
            Node::Mask(mask) => vec![&mut mask.input],
            Node::Write(write) => vec![&mut write.input],
            Node::Unnest(unnest) => vec![&mut unnest.input],
            Node::Union { inputs } => inputs.iter_mut().collect(),
            Node::ScalarSubqueries { input, subqueries, .. } => {
                std::iter::once(input.as_mut()).chain(subqueries).collect()
            }
            Node::Recursive(query) => vec![&mut query.base, &mut query.step],
            Node::Common(common) => {
                common.parts.iter_mut().map(|part| &mut part.plan).chain([common.input.as_mut()]).collect()
            }
        }
    }
}
