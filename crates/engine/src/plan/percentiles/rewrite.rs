//! The plan with sorted values in place of an aggregate with percentiles.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{CastExpr, Column as ColumnExpr, IsNotNullExpr};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::columns::{all_columns, column, columns, project, where_true};
use super::quantile::Quantile;
use super::sets::{SetColumns, for_each_set};
use super::steps::{PercentileStep, rank_type};
use super::{quantile_of, value_of};
use crate::expressions::Expr;
use crate::plan::{Aggregate, AggregateCall, Exclusion, Node, Plan, SortKey, Window, WindowCall, WindowFunction};

/// A value of which quantiles are wanted.
struct PercentileValue {
    argument: Expr,
    filter: Option<Expr>,
    /// Whether equal values count once.
    is_distinct: bool,
    /// Its column, from the first projection on.
    column: usize,
    /// Its quantiles, each with the column that says which rows are near it.
    quantiles: Vec<(Quantile, usize)>,
    /// If equal values count once, the column with the number of those that differ.
    count: Option<usize>,
}

/// Where columns of an aggregate's input are in the rows that are sorted: what is grouped by first, then what other
/// calls read, then the values, then what is added for grouping sets.
struct Layout {
    /// Expressions that are grouped by.
    groups: usize,
    /// Columns of the input that other calls read, by their places behind the groups.
    others: Vec<usize>,
    values: Vec<PercentileValue>,
    sets: Option<SetColumns>,
}

/// What `plan`, an aggregate that [can be sorted](super::can_sort), computes, by sorting.
pub(super) fn sorted(plan: &Plan, aggregate: &Aggregate) -> Result<Plan> {
    let mut layout = Layout::of(aggregate);
    let mut rows = layout.values_of(plan, aggregate)?;
    rows = layout.ranks_of(rows)?;
    if aggregate.has_grouping_id {
        let id_type = plan.schema.field(layout.groups).data_type();
        let (of_sets, added) = for_each_set(rows, aggregate, id_type)?;
        (rows, layout.sets) = (of_sets, Some(added));
    }
    for value in 0..layout.values.len() {
        rows = layout.numbered(rows, value)?;
    }
    layout.quantiles_of(plan, aggregate, rows)
}

impl Layout {
    fn of(aggregate: &Aggregate) -> Self {
        let mut layout = Self { groups: aggregate.groups.len(), others: Vec::new(), values: Vec::new(), sets: None };
        for call in &aggregate.aggregates {
            match value_of(call).zip(quantile_of(call)) {
                Some((value, quantile)) => layout.add(call, value, quantile),
                None => call.arguments.iter().chain(&call.filter).for_each(|read| layout.others.extend(read.columns())),
            }
        }
        layout.others.sort_unstable();
        layout.others.dedup();
        let first = layout.groups + layout.others.len();
        layout.values.iter_mut().zip(first..).for_each(|(value, column)| value.column = column);
        layout
    }

    fn add(&mut self, call: &AggregateCall, value: &Expr, quantile: Quantile) {
        let place = self.place(call).unwrap_or_else(|| {
            self.values.push(PercentileValue {
                argument: value.clone(),
                filter: call.filter.clone(),
                is_distinct: call.function.is_distinct(),
                column: 0,
                quantiles: Vec::new(),
                count: None,
            });
            self.values.len() - 1
        });
        let quantiles = &mut self.values[place].quantiles;
        if quantiles.iter().all(|(known, _)| *known != quantile) {
            quantiles.push((quantile, 0));
        }
    }

    /// Which value a call is of.
    fn place(&self, call: &AggregateCall) -> Option<usize> {
        self.values.iter().position(|value| {
            Some(&value.argument) == value_of(call)
                && value.filter == call.filter
                && value.is_distinct == call.function.is_distinct()
        })
    }

    /// The columns of the keys: what is grouped by, and the id of the grouping set.
    fn keys(&self) -> Vec<usize> {
        (0..self.groups).chain(self.sets.map(|sets| sets.id)).collect()
    }

    /// What is grouped by, what others read, and values.
    fn values_of(&self, plan: &Plan, aggregate: &Aggregate) -> Result<Plan> {
        let input = &aggregate.input;
        let mut columns = Vec::new();
        for (key, field) in aggregate.groups.iter().zip(plan.schema.fields()) {
            columns.push((field.name().clone(), key.clone()));
        }
        for &column in &self.others {
            columns.push((input.schema.field(column).name().clone(), Expr::column(column, &input.schema)?));
        }
        for value in &self.values {
            let name = match value.argument.as_column() {
                Some(column) => input.schema.field(column).name().clone(),
                None => value.argument.to_string(),
            };
            columns.push((name, value.filtered(&input.schema)?));
        }
        Ok(project(input.as_ref().clone(), columns))
    }

    /// The same rows with what stands for values in their places.
    fn ranks_of(&self, rows: Plan) -> Result<Plan> {
        let mut columns = all_columns(&rows)?;
        for value in &self.values {
            let of = value.argument.data_type();
            if rank_type(of).is_some_and(|ranks| ranks != *of) {
                let rank = PercentileStep::rank(column(value.column, &rows.schema), of.clone());
                columns[value.column].1 = Expr::new(rank, &rows.schema)?;
            }
        }
        Ok(project(rows, columns))
    }

    /// The rows in the order of a value, with a column for each of its quantiles, and one for the number of values that
    /// differ if equal ones count once.
    fn numbered(&mut self, rows: Plan, value: usize) -> Result<Plan> {
        let schema = rows.schema.clone();
        let width = schema.fields().len();
        let partition_by = columns(&self.keys(), &schema)?;
        let value = &mut self.values[value];
        let key = |expression: &Expr| SortKey { expression: expression.clone(), options: SortOptions::default() };
        let values_first = SortOptions { descending: false, nulls_first: false };
        let order = SortKey { expression: Expr::column(value.column, &schema)?, options: values_first };
        let keys = partition_by.iter().map(key).chain([order.clone()]).collect();
        let rows_estimate = rows.rows_estimate;
        let node = Node::Sort { input: Box::new(rows), keys, fetch: None };
        let sorted = Plan { node, schema: schema.clone(), rows_estimate, ordered: true };

        let number = |function| (Field::new("number", DataType::UInt64, false), call_of_rows(function, Vec::new()));
        let windowed = if value.is_distinct {
            // The first window lets rows go on as they come; only the second one has them wait for the last of their
            // partition.
            let numbered = window(sorted, &partition_by, vec![order], vec![number(WindowFunction::DenseRank)]);
            let differing = differing(value.column, width, &numbered.schema)?;
            window(numbered, &partition_by, Vec::new(), vec![differing])
        } else {
            let count = count(order.expression.clone(), &schema)?;
            window(sorted, &partition_by, vec![order], vec![number(WindowFunction::RowNumber), count])
        };

        let mut columns = all_columns(&windowed)?;
        let count = columns.split_off(width).pop();
        for (quantile, place) in &mut value.quantiles {
            *place = columns.len();
            let (number, count) = (column(width, &windowed.schema), column(width + 1, &windowed.schema));
            let near = PercentileStep::is_near(*quantile, number, count);
            columns.push((format!("near {quantile}"), Expr::new(near, &windowed.schema)?));
        }
        if value.is_distinct {
            value.count = Some(columns.len());
            columns.extend(count);
        }
        Ok(project(windowed, columns))
    }

    /// The groups of the numbered rows, with quantiles put together.
    fn quantiles_of(&self, plan: &Plan, aggregate: &Aggregate, rows: Plan) -> Result<Plan> {
        let input = rows.schema.clone();
        let keys = self.keys();
        let mut fields = plan.schema.fields()[..keys.len()].to_vec();
        let mut calls: Vec<AggregateCall> = Vec::new();
        // Of each call, which of the new calls is its first.
        let mut firsts = Vec::new();
        for call in &aggregate.aggregates {
            firsts.push(keys.len() + calls.len());
            match quantile_of(call) {
                Some(quantile) => calls.extend(self.parts(call, quantile, &input)?),
                None => calls.push(self.moved(call, &input)?),
            }
        }
        fields.extend(calls.iter().map(|call| call.function.field()));
        let node = Node::Aggregate(Aggregate {
            input: Box::new(rows),
            groups: columns(&keys, &input)?,
            grouping_sets: vec![vec![false; keys.len()]],
            has_grouping_id: false,
            aggregates: calls,
            limit: aggregate.limit,
        });
        let schema = Arc::new(Schema::new(fields));
        let (rows_estimate, ordered) = (plan.rows_estimate, plan.ordered);
        let grouped = Plan { node, schema: schema.clone(), rows_estimate, ordered };

        let mut expressions = (0..keys.len()).map(|key| Expr::column(key, &schema)).collect::<Result<Vec<_>>>()?;
        for (call, first) in aggregate.aggregates.iter().zip(firsts) {
            let of = call.function.field().data_type().clone();
            let value = match quantile_of(call) {
                Some(quantile) => {
                    PercentileStep::value(quantile, of, [0, 1, 2].map(|part| column(first + part, &schema)))
                }
                None => column(first, &schema),
            };
            expressions.push(Expr::new(value, &schema)?);
        }
        let node = Node::Project { input: Box::new(grouped), expressions };
        Ok(Plan { node, schema: plan.schema.clone(), rows_estimate, ordered })
    }

    /// The lower and the upper value of a quantile, and how many values there are.
    fn parts(&self, call: &AggregateCall, quantile: Quantile, input: &SchemaRef) -> Result<[AggregateCall; 3]> {
        let value = self.place(call).map(|place| &self.values[place]);
        let near = value.and_then(|value| value.quantiles.iter().find(|(known, _)| *known == quantile));
        let (Some(value), Some((_, near))) = (value, near) else {
            return Err(Error::bug("a percentile of a value that was not sorted"));
        };
        let (values, near) = (Expr::column(value.column, input)?, Some(Expr::column(*near, input)?));
        let name = |part: &str| format!("{part} of {}", call.function.name());
        // The same number in all rows.
        let count = match value.count {
            Some(count) => (max_udaf(), Expr::column(count, input)?),
            None => (count_udaf(), values.clone()),
        };
        Ok([
            AggregateCall::new(min_udaf(), name("low"), vec![values.clone()], near.clone(), input)?,
            AggregateCall::new(max_udaf(), name("high"), vec![values], near, input)?,
            AggregateCall::new(count.0, name("count"), vec![count.1], None, input)?,
        ])
    }

    /// Another call, over the sorted rows.
    fn moved(&self, call: &AggregateCall, input: &SchemaRef) -> Result<AggregateCall> {
        let moved = |expression: &Expr| {
            let physical = expression.physical().clone().transform(|node| {
                let Some(read) = node.downcast_ref::<ColumnExpr>() else { return Ok(Transformed::no(node)) };
                let place = self.groups + self.others.partition_point(|&other| other < read.index());
                Ok(Transformed::yes(Arc::new(ColumnExpr::new(read.name(), place)) as Arc<dyn PhysicalExpr>))
            });
            Expr::new(physical.map_err(from_datafusion)?.data, input)
        };
        let filter = call.filter.as_ref().map(moved).transpose()?;
        let filter = match (self.sets.and_then(|sets| sets.is_row), filter) {
            (Some(is_row), Some(filter)) => Some(where_true(column(is_row, input), filter.physical().clone(), input)?),
            (Some(is_row), None) => Some(Expr::column(is_row, input)?),
            (None, filter) => filter,
        };
        let arguments = call.arguments.iter().map(moved).collect::<Result<_>>()?;
        Ok(AggregateCall { function: call.function.clone(), arguments, filter })
    }
}

impl PercentileValue {
    /// The value where the filter is true.
    fn filtered(&self, input: &Schema) -> Result<Expr> {
        match &self.filter {
            Some(filter) => where_true(filter.physical().clone(), self.argument.physical().clone(), input),
            None => Ok(self.argument.clone()),
        }
    }
}

/// A window over sorted rows, whose calls add a column each.
fn window(input: Plan, partition_by: &[Expr], order_by: Vec<SortKey>, calls: Vec<(Field, WindowCall)>) -> Plan {
    let (added, calls): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
    let fields = input.schema.fields().iter().cloned().chain(added.into_iter().map(Arc::new));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let rows_estimate = input.rows_estimate;
    let window = Window { input: Box::new(input), partition_by: partition_by.to_vec(), order_by, calls };
    Plan { rows_estimate, ..Plan::new(Node::Window(window), schema) }
}

/// How many values there are in a row's partition.
fn count(values: Expr, input: &SchemaRef) -> Result<(Field, WindowCall)> {
    let call = AggregateCall::new(count_udaf(), "count".to_owned(), vec![values], None, input)?;
    let call = call_of_rows(WindowFunction::Aggregate(call.function), call.arguments);
    Ok((Field::new("count", DataType::Int64, false), call))
}

/// How many values there are in a row's partition, those in the same place of the order counted once: the greatest
/// number of a value. NULL if there are none.
fn differing(values: usize, numbers: usize, input: &SchemaRef) -> Result<(Field, WindowCall)> {
    let number = CastExpr::new(column(numbers, input), DataType::Int64, None);
    let number = vec![Expr::new(Arc::new(number), input)?];
    let call = AggregateCall::new(max_udaf(), "different".to_owned(), number, None, input)?;
    let is_value = Expr::new(Arc::new(IsNotNullExpr::new(column(values, input))), input)?;
    let call = call_of_rows(WindowFunction::Aggregate(call.function), call.arguments);
    Ok((Field::new("different", DataType::Int64, true), WindowCall { filter: Some(is_value), ..call }))
}

/// A call whose frame is the partition.
fn call_of_rows(function: WindowFunction, arguments: Vec<Expr>) -> WindowCall {
    let unbounded = ScalarValue::UInt64(None);
    let (start, end) = (WindowFrameBound::Preceding(unbounded.clone()), WindowFrameBound::Following(unbounded));
    let frame = Arc::new(WindowFrame::new_bounds(WindowFrameUnits::Rows, start, end));
    WindowCall { function, arguments, filter: None, frame, excludes: Exclusion::NoOthers }
}
