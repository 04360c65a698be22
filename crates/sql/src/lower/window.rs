//! Window functions.
//!
//! DataFusion tells what its window functions are by their types, but not all of how they were planned: whether they
//! leave out NULLs, and whether an optimizer turned their order around. Their evaluators know, so they are asked with a
//! few values.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use datafusion::common::ScalarValue;
use datafusion::functions_window::cume_dist::CumeDist;
use datafusion::functions_window::lead_lag::WindowShift;
use datafusion::functions_window::nth_value::{NthValue, NthValueKind};
use datafusion::functions_window::ntile::Ntile;
use datafusion::functions_window::rank::Rank;
use datafusion::functions_window::row_number::RowNumber;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, StandardWindowFunctionExpr, WindowExpr,
};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use diligence_base::{Error, Result};
use diligence_engine::plan::{Exclusion, Node, Plan, SortKey, Window, WindowCall, WindowFunction};
use diligence_storage::foreign_error::from_datafusion;

use super::{Lowering, limit, sort};
use crate::expression::expression;
use crate::rules::Filtered;

/// The most values with which an evaluator is asked which one it takes: a bit each, twice.
const ASKED_VALUES_MAX: u64 = 1 << 24;

/// The greatest distance of `lag` and `lead` that an evaluator is asked about.
const ASKED_DISTANCE_MAX: i64 = 1 << 60;

/// The functions over one partitioning and order.
pub(super) struct Windows<'a> {
    functions: &'a [Arc<dyn WindowExpr>],
    input: &'a Arc<dyn ExecutionPlan>,
    /// Whether the input comes in the order that the functions need.
    is_sorted: bool,
}

impl<'a> Windows<'a> {
    /// The parts, if the node is of this kind and somebody can tell what its functions are.
    pub(super) fn of(exec: &'a dyn ExecutionPlan) -> Option<Self> {
        let windows = if let Some(exec) = exec.downcast_ref::<WindowAggExec>() {
            Self { functions: exec.window_expr(), input: exec.input(), is_sorted: true }
        } else {
            let exec = exec.downcast_ref::<BoundedWindowAggExec>()?;
            let is_sorted = exec.input_order_mode == InputOrderMode::Sorted;
            Self { functions: exec.window_expr(), input: exec.input(), is_sorted }
        };
        windows.functions.iter().all(|function| Kind::of(function.as_ref()).is_some()).then_some(windows)
    }
}

/// What a window function computes, by how DataFusion evaluates it.
enum Kind<'a> {
    Standard(&'a Arc<dyn StandardWindowFunctionExpr>),
    Aggregate(&'a AggregateFunctionExpr),
}

impl<'a> Kind<'a> {
    fn of(function: &'a dyn WindowExpr) -> Option<Self> {
        let function = function.as_any();
        if let Some(standard) = function.downcast_ref::<StandardWindowExpr>() {
            return Some(Kind::Standard(standard.get_standard_func_expr()));
        }
        let plain = function.downcast_ref::<PlainAggregateWindowExpr>().map(|plain| plain.get_aggregate_expr());
        let sliding = function.downcast_ref::<SlidingAggregateWindowExpr>();
        plain.or_else(|| sliding.map(|sliding| sliding.get_aggregate_expr())).map(Kind::Aggregate)
    }
}

impl Lowering {
    /// Functions over windows. Rows keep the order of the input if that is the order that the functions need.
    pub(super) fn windows(
        &mut self,
        exec: &Arc<dyn ExecutionPlan>,
        windows: &Windows<'_>,
        ordered: bool,
    ) -> Result<Plan> {
        let Some(first) = windows.functions.first() else { return Err(Error::bug("a window without a function")) };
        let has_order = windows.is_sorted && limit::has_order(windows.input);
        let mut input = self.plan(windows.input, has_order)?;
        let schema = input.schema.clone();
        if !windows.is_sorted {
            let keys = first.partition_by().iter().map(|key| PhysicalSortExpr::new_default(key.clone()));
            if let Some(keys) = LexOrdering::new(keys.chain(first.order_by().iter().cloned())) {
                input = sort::sort_node(input, &keys, None)?;
                input.ordered = true;
            }
        }
        let partition_by = first.partition_by().iter().map(|key| expression(key.clone(), &schema));
        let partition_by = partition_by.collect::<Result<_>>()?;
        let key = |key: &PhysicalSortExpr| {
            Ok(SortKey { expression: expression(key.expr.clone(), &schema)?, options: key.options })
        };
        let order_by = first.order_by().iter().map(key).collect::<Result<_>>()?;
        let calls = windows.functions.iter().map(|function| {
            let (function_is, arguments, filter) = match Kind::of(function.as_ref()) {
                Some(Kind::Standard(standard)) => (standard_function(standard)?, arguments(standard), None),
                Some(Kind::Aggregate(aggregate)) => aggregate_function(aggregate, &schema)?,
                None => return Err(Error::bug("a window function of an unknown kind")),
            };
            let arguments = arguments.into_iter().map(|argument| expression(argument, &schema));
            Ok(WindowCall {
                function: function_is,
                arguments: arguments.collect::<Result<_>>()?,
                filter: filter.map(|filter| expression(filter, &schema)).transpose()?,
                frame: function.get_window_frame().clone(),
                excludes: Exclusion::NoOthers,
            })
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let node = Node::Window(Window { input: Box::new(input), partition_by, order_by, calls });
        let plan = Plan::new(node, exec.schema());
        match exec.properties().output_ordering() {
            Some(ordering) if ordered && !windows.is_sorted => self.sorted(plan, exec, ordering),
            _ => Ok(plan),
        }
    }
}

/// An aggregate, its arguments and its FILTER.
#[allow(clippy::type_complexity, reason = "three parts of one call, taken apart at once")]
fn aggregate_function(
    aggregate: &AggregateFunctionExpr,
    schema: &arrow::datatypes::SchemaRef,
) -> Result<(WindowFunction, Vec<Arc<dyn PhysicalExpr>>, Option<Arc<dyn PhysicalExpr>>)> {
    let mut arguments = aggregate.expressions();
    let Some(filtered) = aggregate.fun().inner().downcast_ref::<Filtered>() else {
        return Ok((WindowFunction::Aggregate(Arc::new(aggregate.clone())), arguments, None));
    };
    let condition = arguments.pop();
    let plain = AggregateExprBuilder::new(filtered.aggregate().clone(), arguments.clone())
        .schema(schema.clone())
        .alias(aggregate.name())
        .with_ignore_nulls(aggregate.ignore_nulls())
        .with_distinct(aggregate.is_distinct())
        .with_reversed(aggregate.is_reversed())
        .build()
        .map_err(from_datafusion)?;
    Ok((WindowFunction::Aggregate(Arc::new(plain)), arguments, condition))
}

/// The arguments that have a value per row. How many rows `nth_value` goes is part of the function.
fn arguments(standard: &Arc<dyn StandardWindowFunctionExpr>) -> Vec<Arc<dyn PhysicalExpr>> {
    let mut arguments = standard.expressions();
    let window = standard.as_any().downcast_ref::<WindowUDFExpr>();
    if window.is_some_and(|window| window.fun().inner().is::<NthValue>()) {
        arguments.truncate(1);
    }
    arguments
}

fn standard_function(standard: &Arc<dyn StandardWindowFunctionExpr>) -> Result<WindowFunction> {
    if let Some(known) = known_function(standard)? {
        return Ok(known);
    }
    // What is wrong with it is for its evaluator to say.
    standard.create_evaluator().map_err(from_datafusion)?;
    Err(Error::input(format!("{} with these arguments is not supported", standard.name())))
}

/// The function, if it is one of ours.
fn known_function(standard: &Arc<dyn StandardWindowFunctionExpr>) -> Result<Option<WindowFunction>> {
    let Some(window) = standard.as_any().downcast_ref::<WindowUDFExpr>() else { return Ok(None) };
    let function = window.fun().inner();
    if function.is::<RowNumber>() {
        return Ok(Some(WindowFunction::RowNumber));
    }
    if function.is::<CumeDist>() {
        return Ok(Some(WindowFunction::CumeDist));
    }
    if function.is::<Rank>() {
        return Ok(match function.name() {
            "rank" => Some(WindowFunction::Rank),
            "dense_rank" => Some(WindowFunction::DenseRank),
            "percent_rank" => Some(WindowFunction::PercentRank),
            _ => None,
        });
    }
    if function.is::<Ntile>() {
        return Ok(literal(window.args(), 0).and_then(|tiles| match integer(tiles)? {
            tiles if tiles > 0 => Some(WindowFunction::Ntile(tiles as u64)),
            _ => None,
        }));
    }
    if function.is::<WindowShift>() {
        return shift(standard, window.args());
    }
    match function.downcast_ref::<NthValue>() {
        Some(nth) => nth_value(nth.kind(), standard, window.args()),
        None => Ok(None),
    }
}

/// `lag` and `lead`. The distance is among the arguments; the direction may have been turned around since.
fn shift(
    standard: &Arc<dyn StandardWindowFunctionExpr>,
    arguments: &[Arc<dyn PhysicalExpr>],
) -> Result<Option<WindowFunction>> {
    let distance = match arguments.len() {
        0 | 1 => Some(1),
        _ => literal(arguments, 1).and_then(integer),
    };
    // No partition has as many rows.
    let Some(distance) = distance.map(|distance| distance.clamp(1 - ASKED_DISTANCE_MAX, ASKED_DISTANCE_MAX - 1)) else {
        return Ok(None);
    };
    let evaluator = standard.create_evaluator().map_err(from_datafusion)?;
    let looks_back = evaluator.is_causal();
    // With so many rows before and behind, only who leaves out NULLs asks for all of them.
    let (row, rows) = (usize::MAX / 4, usize::MAX / 2);
    let range = evaluator.get_range(row, rows).map_err(from_datafusion)?;
    let ignore_nulls = if looks_back { range.start == 0 } else { range.end == rows };
    let field = standard.field().map_err(from_datafusion)?;
    let default = match literal(arguments, 2) {
        Some(default) if !default.is_null() => default.cast_to(field.data_type()),
        _ => ScalarValue::try_from(field.data_type()),
    };
    let default = default.map_err(from_datafusion)?;
    let offset = if looks_back { distance.abs() } else { -distance.abs() };
    Ok(Some(WindowFunction::Shift { offset, default, ignore_nulls }))
}

/// `first_value`, `last_value` and `nth_value`.
fn nth_value(
    kind: &NthValueKind,
    standard: &Arc<dyn StandardWindowFunctionExpr>,
    arguments: &[Arc<dyn PhysicalExpr>],
) -> Result<Option<WindowFunction>> {
    if arguments.is_empty() {
        return Ok(None);
    }
    let asked = |values: BooleanArray| {
        let frame = 0..values.len();
        let values: ArrayRef = Arc::new(values);
        let mut evaluator = standard.create_evaluator().map_err(from_datafusion)?;
        evaluator.evaluate(&[values], &frame).map_err(from_datafusion)
    };
    let nth = match kind {
        NthValueKind::First => 1,
        NthValueKind::Last => -1,
        NthValueKind::Nth => {
            let Some(distance) = literal(arguments, 1).and_then(integer).map(i64::unsigned_abs) else {
                return Ok(None);
            };
            if distance > ASKED_VALUES_MAX {
                return Err(Error::input(format!("nth_value goes {ASKED_VALUES_MAX} rows at most")));
            }
            // Of twice as many it is the last of the first half, or the first of the second.
            let distance = distance as i64;
            match asked(halves(distance.max(1) as usize, Some(false), Some(true)))? {
                _ if distance == 0 => 0,
                ScalarValue::Boolean(Some(false)) => distance,
                _ => -distance,
            }
        }
    };
    // So many NULLs, and as many values behind them: who leaves out NULLs finds a value wherever it begins.
    let distance = nth.unsigned_abs() as usize;
    let values = if nth < 0 { halves(distance, Some(true), None) } else { halves(distance, None, Some(true)) };
    let ignore_nulls = nth != 0 && !asked(values)?.is_null();
    Ok(Some(WindowFunction::Nth { nth, ignore_nulls }))
}

/// So many equal values, and as many others.
fn halves(values: usize, first: Option<bool>, second: Option<bool>) -> BooleanArray {
    std::iter::repeat_n(first, values).chain(std::iter::repeat_n(second, values)).collect()
}

fn literal(arguments: &[Arc<dyn PhysicalExpr>], index: usize) -> Option<&ScalarValue> {
    arguments.get(index)?.downcast_ref::<Literal>().map(Literal::value)
}

/// An integer's value; that of NULL is zero, as DataFusion reads it.
fn integer(value: &ScalarValue) -> Option<i64> {
    if value.is_null() {
        return Some(0);
    }
    if !value.data_type().is_integer() {
        return None;
    }
    match value.cast_to(&arrow::datatypes::DataType::Int64) {
        Ok(ScalarValue::Int64(value)) => value,
        _ => None,
    }
}
