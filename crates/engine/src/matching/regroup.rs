//! Aggregates of the rows of several queries at once, and what each query makes of them.
//!
//! A merged run groups by the keys *and the mask*: the rows of a group are wanted by the same queries. So each group is
//! a cell of the grid that the queries' constants cut the rows into, and a query's own groups are put together from the
//! cells with its bit: sums of sums and of counts, the least of minima, averages from sums and counts. All of that is
//! exact, so it is done for functions where it is, and for no others.
//!
//! Where different values are counted or added up, the cells get what is computed of the [values](super::different)
//! that a query has.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_functions_aggregate::average::Avg;
use datafusion_functions_aggregate::count::Count;
use datafusion_functions_aggregate::min_max::{Max, Min};
use datafusion_functions_aggregate::sum::Sum;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, CaseExpr, CastExpr, IsNullExpr};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::cells::{Cell, Kind, call, column, grouped, literal};
use super::different;
use super::mask_joins::mask_field;
use super::masks::with_mask;
use super::quotient::Quotient;
use super::value_counts;
use crate::expressions::Expr;
use crate::plan::average::AverageKind;
use crate::plan::{Aggregate, AggregateCall, Node, Plan, PlanTables};

/// Pairs of a group and a different value that are expected to lie in the caches of processors.
const FEW_PAIRS: usize = 256 * 1024;

/// Where there are more, a run for several queries takes several times as long as a lone one.
const MANY_PAIRS_QUERIES_MIN: usize = 4;

/// How an aggregate's result comes from those of the cells, which are named by number.
#[derive(PartialEq)]
enum RegroupPart {
    Sum(usize),
    Count(usize),
    Extreme(usize),
    Average { sum: usize, count: usize, argument: DataType },
}

/// An aggregate taken apart.
struct Parts {
    cells: Vec<Cell>,
    parts: Vec<RegroupPart>,
}

impl Parts {
    /// `None` if the results of parts cannot be put together exactly.
    fn of(aggregate: &Aggregate) -> Option<Self> {
        let is_plain = matches!(aggregate.grouping_sets.as_slice(), [set] if !set.contains(&true));
        if !is_plain || aggregate.has_grouping_id || aggregate.limit.is_some() {
            return None;
        }
        let mut parts = Self { cells: Vec::new(), parts: Vec::new() };
        for call in &aggregate.aggregates {
            let part = parts.part(call, &aggregate.input.schema)?;
            parts.parts.push(part);
        }
        Some(parts)
    }

    fn part(&mut self, call: &AggregateCall, input: &Schema) -> Option<RegroupPart> {
        let function = call.function.fun().inner();
        let field = call.function.field();
        let result = field.data_type();
        if call.function.ignore_nulls() || !call.function.order_bys().is_empty() {
            return None;
        }
        let [argument] = call.arguments.as_slice() else { return None };
        if function.is::<Count>() {
            return Some(RegroupPart::Count(self.cell(Kind::Count, call)));
        }
        let argument = argument.data_type();
        if function.is::<Sum>() {
            let is_exact = result.is_integer()
                || matches!((argument, result), (DataType::Decimal128(..), DataType::Decimal128(..)));
            return is_exact.then(|| RegroupPart::Sum(self.cell(Kind::Sum, call)));
        }
        if function.is::<Avg>() {
            if let Some(integer) = small_integer(&call.arguments[0], input) {
                let sum = self.cell_of(Kind::Sum, vec![integer], call);
                return Some(RegroupPart::Average {
                    sum,
                    count: self.cell(Kind::Count, call),
                    argument: DataType::Int64,
                });
            }
            let is_exact = matches!(AverageKind::new(argument, result), Some(AverageKind::Decimal { .. }));
            let argument = argument.clone();
            return is_exact.then(|| RegroupPart::Average {
                sum: self.cell(Kind::Sum, call),
                count: self.cell(Kind::Count, call),
                argument,
            });
        }
        let kind = if function.is::<Min>() { Kind::Least } else { Kind::Greatest };
        ((function.is::<Min>() || function.is::<Max>()) && argument == result)
            .then(|| RegroupPart::Extreme(self.cell(kind, call)))
    }

    /// The number of a cell value; aggregates with the same one share it.
    fn cell(&mut self, kind: Kind, call: &AggregateCall) -> usize {
        self.cell_of(kind, call.arguments.clone(), call)
    }

    fn cell_of(&mut self, kind: Kind, arguments: Vec<Expr>, call: &AggregateCall) -> usize {
        let distinct = call.function.is_distinct() && matches!(kind, Kind::Sum | Kind::Count);
        let cell = Cell { kind, arguments, filter: call.filter.clone(), distinct };
        self.cells.iter().position(|other| *other == cell).unwrap_or_else(|| {
            self.cells.push(cell);
            self.cells.len() - 1
        })
    }
}

/// What is averaged as a float, as the 64-bit integer that it is, if it has less than 64 bits: the float sums of such
/// are exact.
fn small_integer(argument: &Expr, input: &Schema) -> Option<Expr> {
    let cast = argument.physical().downcast_ref::<CastExpr>()?;
    let is_small = matches!(
        cast.expr().data_type(input).ok()?,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 | DataType::UInt32
    );
    let integer = Arc::new(CastExpr::new(cast.expr().clone(), DataType::Int64, None));
    if is_small && *argument.data_type() == DataType::Float64 { Expr::new(integer, input).ok() } else { None }
}

/// Whether queries with this aggregate can be answered by one run.
pub(super) fn can_merge(aggregate: &Aggregate) -> bool {
    Parts::of(aggregate).is_some()
}

/// Whether the cells of two aggregates that can be merged are of the same kinds, and are put together in the same way.
pub(super) fn is_alike(one: &Aggregate, other: &Aggregate) -> bool {
    let kinds = |parts: Parts| {
        let cells = parts.cells.iter().map(|cell| (cell.kind, cell.distinct)).collect::<Vec<_>>();
        (cells, parts.parts)
    };
    Parts::of(one).map(kinds) == Parts::of(other).map(kinds)
}

/// How many queries go together at least for one run to be worth it, for an aggregate that can be merged and is
/// expected to have so many groups.
pub(super) fn queries_min(aggregate: &Aggregate, groups: Option<usize>, tables: &PlanTables) -> usize {
    let cells = Parts::of(aggregate).map(|parts| parts.cells).unwrap_or_default();
    let values = cells.iter().filter(|cell| cell.distinct).flat_map(|cell| &cell.arguments);
    let are_few = |value: &Expr| {
        let values = value_counts::values_of(value, &aggregate.input, tables);
        let pairs = values.zip(groups).map(|(values, groups)| values.saturating_mul(groups.max(1)));
        // There are never more pairs than rows.
        pairs.into_iter().chain(aggregate.input.rows_estimate).any(|pairs| pairs <= FEW_PAIRS)
    };
    if values.into_iter().all(are_few) { 1 } else { MANY_PAIRS_QUERIES_MIN }
}

/// The values of cells that an aggregate's results are put together from, in the order of [`by_cells`]: kind,
/// arguments, filter, and which of the aggregate's calls has it as its result, if one does. `None` if the results of
/// groups cannot be put together exactly.
pub(super) fn cells_of(aggregate: &Aggregate) -> Option<Vec<(Kind, Vec<Expr>, Option<Expr>, Option<usize>)>> {
    let Parts { cells, parts } = Parts::of(aggregate)?;
    if cells.iter().any(|cell| cell.distinct) {
        return None;
    }
    let call = |wanted: usize| {
        let gives = |part: &RegroupPart| matches!(part, RegroupPart::Sum(cell) | RegroupPart::Count(cell) | RegroupPart::Extreme(cell) if *cell == wanted);
        parts.iter().position(gives)
    };
    let cells = cells.into_iter().enumerate();
    Some(cells.map(|(index, cell)| (cell.kind, cell.arguments, cell.filter, call(index))).collect())
}

/// The aggregate over an input that has the mask as its last column, by cells. Output: group columns, mask, values of
/// the cells.
pub(super) fn by_cells(aggregate: &Aggregate, output: &Schema, input: Plan) -> Result<Plan> {
    let parts = parts_of(aggregate)?;
    if parts.cells.iter().any(|cell| cell.distinct) {
        return different::by_cells(&aggregate.groups, output, &parts.cells, input);
    }
    let mut groups = aggregate.groups.clone();
    let fields = output.fields()[..groups.len()].iter().cloned().chain([Arc::new(mask_field())]);
    groups.push(Expr::column(input.schema.fields().len() - 1, &input.schema)?);
    let calls = parts.cells.into_iter().map(|cell| {
        let Cell { kind, arguments, filter, .. } = cell;
        call(kind.function(), arguments, filter, &input.schema)
    });
    let calls = calls.collect::<Result<Vec<_>>>()?;
    Ok(grouped(input, groups, fields, calls))
}

/// The groups of one query, from the cells of a merged run: what `plan`, an aggregate, would have given.
pub(super) fn own_groups(plan: &Plan, cells: SchemaRef, batches: Vec<RecordBatch>, query: usize) -> Result<Plan> {
    let Node::Aggregate(aggregate) = &plan.node else { return Err(Error::bug("groups of a plan without any")) };
    let width = aggregate.groups.len();
    let predicate = Expr::new(has_bit(width, query, &cells), &cells)?;
    let known = Plan::new(Node::Values { batches }, cells.clone());
    let values = (width + 1..cells.fields().len()).collect::<Vec<_>>();
    let own = Plan::new(Node::Filter { input: Box::new(known), predicate }, cells);
    from_cells(plan, own, &(0..width).collect::<Vec<_>>(), &values)
}

/// Whether the mask in a column has a query's bit.
pub(super) fn has_bit(mask: usize, query: usize, cells: &Schema) -> Arc<dyn PhysicalExpr> {
    let bit = literal(ScalarValue::UInt64(Some(1 << query)));
    let bits = Arc::new(BinaryExpr::new(column(mask, cells), Operator::BitwiseAnd, bit));
    Arc::new(BinaryExpr::new(bits, Operator::NotEq, literal(ScalarValue::UInt64(Some(0)))))
}

/// What `plan`, an aggregate, gives, put together from rows that have its group columns in the columns `keys`, and the
/// values of its cells, in their order, in the columns `values`.
pub(super) fn from_cells(plan: &Plan, rows: Plan, keys: &[usize], values: &[usize]) -> Result<Plan> {
    let Node::Aggregate(aggregate) = &plan.node else { return Err(Error::bug("groups of a plan without any")) };
    let parts = parts_of(aggregate)?;
    let (width, cells) = (keys.len(), rows.schema.clone());
    if width != aggregate.groups.len() || values.len() != parts.cells.len() {
        return Err(Error::bug("groups put together from other ones"));
    }
    let groups = keys.iter().map(|&key| Expr::column(key, &cells)).collect::<Result<Vec<_>>>()?;
    let fields = plan.schema.fields()[..width].iter().cloned();
    let calls = parts
        .cells
        .iter()
        .zip(values)
        .map(|(cell, value)| call(cell.kind.together(), vec![Expr::column(*value, &cells)?], None, &cells));
    let calls = calls.collect::<Result<Vec<_>>>()?;
    let together = grouped(rows, groups, fields, calls);

    let schema = together.schema.clone();
    let mut expressions = (0..width).map(|index| Expr::column(index, &schema)).collect::<Result<Vec<_>>>()?;
    for (part, field) in parts.parts.iter().zip(&plan.schema.fields()[width..]) {
        let of_cell = |cell: usize| column(width + cell, &schema);
        let value: Arc<dyn PhysicalExpr> = match part {
            RegroupPart::Extreme(cell) => of_cell(*cell),
            // A sum of sums has more digits by its type, but not by its value.
            RegroupPart::Sum(cell) if schema.field(width + cell).data_type() == field.data_type() => of_cell(*cell),
            RegroupPart::Sum(cell) => Arc::new(CastExpr::new(of_cell(*cell), field.data_type().clone(), None)),
            RegroupPart::Count(cell) => {
                // Without any row there is no cell to add up, and the count is zero.
                let none: Arc<dyn PhysicalExpr> = Arc::new(IsNullExpr::new(of_cell(*cell)));
                let zero = literal(ScalarValue::Int64(Some(0)));
                let counted = CaseExpr::try_new(None, vec![(none, zero)], Some(of_cell(*cell)));
                Arc::new(counted.map_err(from_datafusion)?)
            }
            RegroupPart::Average { sum, count, argument } => {
                let result = field.data_type().clone();
                Arc::new(Quotient::new(of_cell(*sum), of_cell(*count), argument.clone(), result))
            }
        };
        expressions.push(Expr::new(value, &schema)?);
    }
    Ok(Plan {
        node: Node::Project { input: Box::new(together), expressions },
        schema: plan.schema.clone(),
        rows_estimate: plan.rows_estimate,
        ordered: plan.ordered,
    })
}

/// The run for several queries: `aggregate`, a plan of their template, over the rows that any of them wants.
pub(super) fn merged(aggregate: &Plan, queries: &[Arc<super::parameters::Parameters>]) -> Result<Plan> {
    let Node::Aggregate(node) = &aggregate.node else { return Err(Error::bug("a template without groups")) };
    by_cells(node, &aggregate.schema, with_mask(&node.input, queries)?)
}

fn parts_of(aggregate: &Aggregate) -> Result<Parts> {
    Parts::of(aggregate).ok_or_else(|| Error::bug("an aggregate that cannot be put together was merged"))
}
