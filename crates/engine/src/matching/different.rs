//! Aggregates of different values (`count(DISTINCT x)`, `sum(DISTINCT x)`) for several queries at once.
//!
//! A value of a group counts for the queries that want any of the rows that have it: for those in the masks of these
//! rows together. So rows are grouped by the keys and the mask, and also by the keys and the value. What comes of a
//! value then belongs to a cell, as what comes of rows does:
//!
//! ```text
//!   rows                  by keys and mask             by keys and value       cells
//!   Ulm  web   q0         Ulm  q0     1 row            Ulm  web   q0 q1        Ulm  q0     1 row
//!   Ulm  web      q1      Ulm     q1  1 row     and    Ulm  shop     q1  -->   Ulm     q1  1 row
//!   Ulm  shop     q1      Ulm     q1  1 row more                               Ulm  q0 q1          1 value
//!                                                                              Ulm     q1          1 value
//! ```
//!
//! There are as many pairs of a group and a value as one query would have that wants all rows, whatever the masks are;
//! they are no part of what is kept. The rows go to all groupings as they come.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_functions_aggregate::bit_and_or_xor::bit_or_udaf;
use datafusion_physical_expr::expressions::CaseExpr;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::cells::{Cell, call, grouped, literal};
use super::common::{next_table, place_of};
use super::mask_joins::mask_field;
use crate::expressions::Expr;
use crate::plan::{Common, CommonPart, Node, Plan, WorkTableId};

/// The cells by these keys, over an input that has the mask as its last column; some are of different values. Output:
/// keys, mask, values of the cells, NULL for those that other rows have.
pub(super) fn by_cells(keys: &[Expr], output: &Schema, cells: &[Cell], input: Plan) -> Result<Plan> {
    let mut different = Vec::new();
    for cell in cells.iter().filter(|cell| cell.distinct) {
        let value = value_of(cell, &input.schema)?;
        if !different.contains(&value) {
            different.push(value);
        }
    }
    // What only reads rows that come anyway can be there several times.
    let table = (!is_of_work_table(&input)).then(|| WorkTableId(next_table(&input)));
    let rows = match table {
        Some(table) => place_of(table, &input.schema),
        None => input.clone(),
    };
    let cells = Cells { keys, output, cells };
    let own = cells.cells.iter().any(|cell| !cell.distinct).then(|| cells.of_rows(&rows));
    let of_values = different.iter().map(|value| cells.of_values(&rows, value));
    let parts = own.into_iter().chain(of_values).collect::<Result<Vec<_>>>()?;
    let schema = cells.schema(&parts);
    let places = parts.len();
    let inputs = parts.into_iter().map(|part| cells.with_nulls(part, &schema)).collect::<Result<Vec<_>>>()?;
    let all = Plan::new(Node::Union { inputs }, schema.clone());
    let Some(table) = table else { return Ok(all) };
    let part = CommonPart { plan: input, table, places };
    Ok(Plan::new(Node::Common(Common { parts: vec![part], input: Box::new(all) }), schema))
}

/// Whether a plan only works on each row of a common part.
fn is_of_work_table(plan: &Plan) -> bool {
    match &plan.node {
        Node::WorkTable(_) => true,
        Node::Filter { input, .. } | Node::Project { input, .. } => is_of_work_table(input),
        Node::Mask(mask) => is_of_work_table(&mask.input),
        _ => false,
    }
}

/// What is wanted.
struct Cells<'a> {
    keys: &'a [Expr],
    output: &'a Schema,
    cells: &'a [Cell],
}

/// Groups by the keys and the mask, and which of the cells they have, in the order of their columns.
struct CellGroups {
    plan: Plan,
    cells: Vec<usize>,
}

impl Cells<'_> {
    fn key_fields(&self) -> impl Iterator<Item = Field> {
        self.output.fields()[..self.keys.len()].iter().map(|field| field.as_ref().clone().with_nullable(true))
    }

    /// The cells that are of rows.
    fn of_rows(&self, rows: &Plan) -> Result<CellGroups> {
        let own: Vec<_> = (0..self.cells.len()).filter(|cell| !self.cells[*cell].distinct).collect();
        let calls = own.iter().map(|cell| {
            let cell = &self.cells[*cell];
            call(cell.kind.function(), cell.arguments.clone(), cell.filter.clone(), &rows.schema)
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let mask = Expr::column(rows.schema.fields().len() - 1, &rows.schema)?;
        let groups = self.keys.iter().cloned().chain([mask]).collect();
        Ok(CellGroups {
            plan: grouped(rows.clone(), groups, self.key_fields().chain([mask_field()]), calls),
            cells: own,
        })
    }

    /// The cells that are of the different values of an expression.
    fn of_values(&self, rows: &Plan, value: &Expr) -> Result<CellGroups> {
        let input = &rows.schema;
        let mask = Expr::column(input.fields().len() - 1, input)?;
        let groups = self.keys.iter().chain([value]).cloned().collect();
        let value_field = Field::new("value", value.data_type().clone(), true);
        let masks = vec![call(bit_or_udaf(), vec![mask], None, input)?];
        let pairs = grouped(rows.clone(), groups, self.key_fields().chain([value_field]), masks);

        let width = self.keys.len();
        let schema = pairs.schema.clone();
        let mut own = Vec::new();
        let mut calls = Vec::new();
        for (place, cell) in self.cells.iter().enumerate().filter(|(_, cell)| cell.distinct) {
            if value_of(cell, input)? == *value {
                own.push(place);
                calls.push(call(cell.kind.function(), vec![Expr::column(width, &schema)?], None, &schema)?);
            }
        }
        let groups = (0..width).chain([width + 1]).map(|column| Expr::column(column, &schema));
        let groups = groups.collect::<Result<Vec<_>>>()?;
        let fields = self.key_fields().chain([mask_field().with_nullable(true)]);
        Ok(CellGroups { plan: grouped(pairs, groups, fields, calls), cells: own })
    }

    /// The columns of all parts together.
    fn schema(&self, parts: &[CellGroups]) -> SchemaRef {
        let width = self.keys.len() + 1;
        let mut values = vec![None; self.cells.len()];
        for part in parts {
            for (cell, field) in part.cells.iter().zip(&part.plan.schema.fields()[width..]) {
                values[*cell] = Some(field.as_ref().clone().with_nullable(true));
            }
        }
        let fields = self.key_fields().chain([mask_field().with_nullable(true)]);
        Arc::new(Schema::new(fields.chain(values.into_iter().flatten()).collect::<Vec<_>>()))
    }

    /// A part's rows in the columns of all.
    fn with_nulls(&self, part: CellGroups, schema: &SchemaRef) -> Result<Plan> {
        let CellGroups { plan, cells } = part;
        let width = self.keys.len() + 1;
        let own = (0..width).map(|column| Expr::column(column, &plan.schema));
        let values = schema.fields()[width..].iter().enumerate().map(|(cell, field)| {
            match cells.iter().position(|own| *own == cell) {
                Some(place) => Expr::column(width + place, &plan.schema),
                None => {
                    let null = ScalarValue::try_from(field.data_type()).map_err(from_datafusion)?;
                    Expr::new(literal(null), &plan.schema)
                }
            }
        });
        let expressions = own.chain(values).collect::<Result<Vec<_>>>()?;
        Ok(Plan::new(Node::Project { input: Box::new(plan), expressions }, schema.clone()))
    }
}

/// What a cell's different values are: NULL, which no function looks at, where the filter leaves a row out.
fn value_of(cell: &Cell, rows: &Schema) -> Result<Expr> {
    let [argument] = cell.arguments.as_slice() else { return Err(Error::bug("different values of several arguments")) };
    let Some(filter) = &cell.filter else { return Ok(argument.clone()) };
    let (when, then) = (filter.physical().clone(), argument.physical().clone());
    let chosen = CaseExpr::try_new(None, vec![(when, then)], None).map_err(from_datafusion)?;
    Expr::new(Arc::new(chosen), rows)
}
