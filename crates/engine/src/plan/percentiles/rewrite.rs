//! The plan with sorted values in place of an aggregate with percentiles.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{CaseExpr, Column as ColumnExpr};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::quantile::Quantile;
use super::quantile_of;
use super::steps::{Step, rank_type};
use crate::expressions::Expr;
use crate::plan::{Aggregate, AggregateCall, Node, Plan, SortKey, Window, WindowCall, WindowFunction};

/// A value of which quantiles are wanted.
struct Value {
    argument: Expr,
    filter: Option<Expr>,
    /// Its column, from the first projection on.
    column: usize,
    /// Its quantiles, each with the column that says which rows are near it.
    quantiles: Vec<(Quantile, usize)>,
}

/// Where columns of an aggregate's input are in the rows that are sorted: keys first, then what other calls read, then the values.
struct Layout {
    keys: usize,
    /// Columns of the input that other calls read, by their places behind the keys.
    others: Vec<usize>,
    values: Vec<Value>,
}

/// What `plan`, an aggregate that [can be sorted](super::can_sort), computes, by sorting.
pub(super) fn sorted(plan: &Plan, aggregate: &Aggregate) -> Result<Plan> {
    let mut layout = Layout::of(aggregate);
    let mut rows = layout.values_of(plan, aggregate)?;
    rows = layout.ranks_of(rows)?;
    for value in 0..layout.values.len() {
        rows = layout.numbered(rows, value)?;
    }
    layout.quantiles_of(plan, aggregate, rows)
}

impl Layout {
    fn of(aggregate: &Aggregate) -> Self {
        let mut layout = Self { keys: aggregate.groups.len(), others: Vec::new(), values: Vec::new() };
        for call in &aggregate.aggregates {
            match quantile_of(call) {
                Some(quantile) => layout.add(call, quantile),
                None => call.arguments.iter().chain(&call.filter).for_each(|read| layout.others.extend(read.columns())),
            }
        }
        layout.others.sort_unstable();
        layout.others.dedup();
        let first = layout.keys + layout.others.len();
        layout.values.iter_mut().zip(first..).for_each(|(value, column)| value.column = column);
        layout
    }

    fn add(&mut self, call: &AggregateCall, quantile: Quantile) {
        let place = self.place(call).unwrap_or_else(|| {
            let (argument, filter) = (call.arguments[0].clone(), call.filter.clone());
            self.values.push(Value { argument, filter, column: 0, quantiles: Vec::new() });
            self.values.len() - 1
        });
        let quantiles = &mut self.values[place].quantiles;
        if quantiles.iter().all(|(known, _)| *known != quantile) {
            quantiles.push((quantile, 0));
        }
    }

    /// Which value a call is of.
    fn place(&self, call: &AggregateCall) -> Option<usize> {
        self.values.iter().position(|value| value.argument == call.arguments[0] && value.filter == call.filter)
    }

    /// Keys, what others read, and values.
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
                let rank = Step::rank(column(value.column, &rows.schema), of.clone());
                columns[value.column].1 = Expr::new(rank, &rows.schema)?;
            }
        }
        Ok(project(rows, columns))
    }

    /// The rows in the order of a value, with a column for each of its quantiles.
    fn numbered(&mut self, rows: Plan, value: usize) -> Result<Plan> {
        let value = &mut self.values[value];
        let schema = rows.schema.clone();
        let partition_by = (0..self.keys).map(|key| Expr::column(key, &schema)).collect::<Result<Vec<_>>>()?;
        let key = |expression: &Expr| SortKey { expression: expression.clone(), options: SortOptions::default() };
        let values_first = SortOptions { descending: false, nulls_first: false };
        let order = SortKey { expression: Expr::column(value.column, &schema)?, options: values_first };
        let keys = partition_by.iter().map(key).chain([order.clone()]).collect();
        let rows_estimate = rows.rows_estimate;
        let node = Node::Sort { input: Box::new(rows), keys, fetch: None };
        let input = Plan { node, schema: schema.clone(), rows_estimate, ordered: true };

        let calls =
            vec![call_of_rows(WindowFunction::RowNumber, Vec::new()), count(order.expression.clone(), &schema)?];
        let added = [Field::new("number", DataType::UInt64, false), Field::new("count", DataType::Int64, false)];
        let fields = schema.fields().iter().cloned().chain(added.map(Arc::new));
        let windowed = Arc::new(Schema::new(fields.collect::<Vec<FieldRef>>()));
        let window = Window { input: Box::new(input), partition_by, order_by: vec![order], calls };
        let window = Plan { rows_estimate, ..Plan::new(Node::Window(window), windowed.clone()) };

        let width = schema.fields().len();
        let mut columns = all_columns(&window)?;
        columns.truncate(width);
        for (quantile, place) in &mut value.quantiles {
            *place = columns.len();
            let near = Step::is_near(*quantile, column(width, &windowed), column(width + 1, &windowed));
            columns.push((format!("near {quantile}"), Expr::new(near, &windowed)?));
        }
        Ok(project(window, columns))
    }

    /// The groups of the numbered rows, with quantiles put together.
    fn quantiles_of(&self, plan: &Plan, aggregate: &Aggregate, rows: Plan) -> Result<Plan> {
        let input = rows.schema.clone();
        let mut fields = plan.schema.fields()[..self.keys].to_vec();
        let mut calls: Vec<AggregateCall> = Vec::new();
        // Of each call, which of the new calls is its first.
        let mut firsts = Vec::new();
        for call in &aggregate.aggregates {
            firsts.push(self.keys + calls.len());
            match quantile_of(call) {
                Some(quantile) => calls.extend(self.parts(call, quantile, &input)?),
                None => calls.push(self.moved(call, &input)?),
            }
        }
        fields.extend(calls.iter().map(|call| call.function.field()));
        let groups = (0..self.keys).map(|key| Expr::column(key, &input)).collect::<Result<_>>()?;
        let node = Node::Aggregate(Aggregate {
            input: Box::new(rows),
            groups,
            grouping_sets: aggregate.grouping_sets.clone(),
            has_grouping_id: aggregate.has_grouping_id,
            aggregates: calls,
            limit: aggregate.limit,
        });
        let schema = Arc::new(Schema::new(fields));
        let (rows_estimate, ordered) = (plan.rows_estimate, plan.ordered);
        let grouped = Plan { node, schema: schema.clone(), rows_estimate, ordered };

        let mut expressions = (0..self.keys).map(|key| Expr::column(key, &schema)).collect::<Result<Vec<_>>>()?;
        for (call, first) in aggregate.aggregates.iter().zip(firsts) {
            let of = call.function.field().data_type().clone();
            let value = match quantile_of(call) {
                Some(quantile) => Step::value(quantile, of, [0, 1, 2].map(|part| column(first + part, &schema))),
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
        Ok([
            AggregateCall::new(min_udaf(), name("low"), vec![values.clone()], near.clone(), input)?,
            AggregateCall::new(max_udaf(), name("high"), vec![values.clone()], near, input)?,
            AggregateCall::new(count_udaf(), name("count"), vec![values], None, input)?,
        ])
    }

    /// Another call, over the sorted rows.
    fn moved(&self, call: &AggregateCall, input: &SchemaRef) -> Result<AggregateCall> {
        let moved = |expression: &Expr| {
            let physical = expression.physical().clone().transform(|node| {
                let Some(read) = node.downcast_ref::<ColumnExpr>() else { return Ok(Transformed::no(node)) };
                let place = self.keys + self.others.partition_point(|&other| other < read.index());
                Ok(Transformed::yes(Arc::new(ColumnExpr::new(read.name(), place)) as Arc<dyn PhysicalExpr>))
            });
            Expr::new(physical.map_err(from_datafusion)?.data, input)
        };
        Ok(AggregateCall {
            function: call.function.clone(),
            arguments: call.arguments.iter().map(moved).collect::<Result<_>>()?,
            filter: call.filter.as_ref().map(moved).transpose()?,
        })
    }
}

impl Value {
    /// The value where the filter is true, and NULL where it is not: there it is not computed, either.
    fn filtered(&self, input: &Schema) -> Result<Expr> {
        let Some(filter) = &self.filter else { return Ok(self.argument.clone()) };
        let when = vec![(filter.physical().clone(), self.argument.physical().clone())];
        let value = CaseExpr::try_new(None, when, None).map_err(from_datafusion)?;
        Expr::new(Arc::new(value), input)
    }
}

/// A projection to columns with names.
fn project(input: Plan, columns: Vec<(String, Expr)>) -> Plan {
    let field =
        |(name, expression): &(String, Expr)| Field::new(name, expression.data_type().clone(), expression.nullable());
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let rows_estimate = input.rows_estimate;
    let expressions = columns.into_iter().map(|(_, expression)| expression).collect();
    Plan { rows_estimate, ..Plan::new(Node::Project { input: Box::new(input), expressions }, schema) }
}

fn all_columns(plan: &Plan) -> Result<Vec<(String, Expr)>> {
    let fields = plan.schema.fields().iter().enumerate();
    fields.map(|(index, field)| Ok((field.name().clone(), Expr::column(index, &plan.schema)?))).collect()
}

fn column(index: usize, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    Arc::new(ColumnExpr::new(schema.field(index).name(), index))
}

/// How many values there are in a row's partition.
fn count(values: Expr, input: &SchemaRef) -> Result<WindowCall> {
    let call = AggregateCall::new(count_udaf(), "count".to_owned(), vec![values], None, input)?;
    Ok(call_of_rows(WindowFunction::Aggregate(call.function), call.arguments))
}

/// A call whose frame is the partition.
fn call_of_rows(function: WindowFunction, arguments: Vec<Expr>) -> WindowCall {
    let unbounded = ScalarValue::UInt64(None);
    let (start, end) = (WindowFrameBound::Preceding(unbounded.clone()), WindowFrameBound::Following(unbounded));
    let frame = Arc::new(WindowFrame::new_bounds(WindowFrameUnits::Rows, start, end));
    WindowCall { function, arguments, filter: None, frame }
}
