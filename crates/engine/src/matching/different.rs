//! Aggregates of different values (`count(DISTINCT x)`, `sum(DISTINCT x)`) for several queries at once.
//!
//! A value of a group counts for the queries that want any of the rows that have it: for those in the masks of these
//! rows together. So rows are grouped twice in one pass, by the keys and the mask, and by the keys and the value. What
//! comes of a value then belongs to a cell, as what comes of rows does:
//!
//! ```text
//!   rows                  by keys and mask             by keys and value       cells
//!   Ulm  web   q0         Ulm  q0     1 row            Ulm  web   q0 q1        Ulm  q0     1 row
//!   Ulm  web      q1      Ulm     q1  1 row     and    Ulm  shop     q1  -->   Ulm     q1  1 row,  1 value
//!   Ulm  shop     q1      Ulm     q1  1 row more                               Ulm  q0 q1          1 value
//! ```
//!
//! There are as many pairs of a group and a value as one query would have that wants all rows, whatever the masks are;
//! they are no part of what is kept.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_functions_aggregate::bit_and_or_xor::bit_or_udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, CaseExpr};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::cells::{Cell, call, column, literal};
use super::masks::mask_field;
use crate::expressions::Expr;
use crate::plan::{Aggregate, Node, Plan};

/// Group columns at most: a grouping id has a bit for each.
const COLUMNS_MAX: usize = 32;

/// Whether so many keys, the different values, if there are any, and the mask are not too many group columns.
pub(super) fn has_room(keys: usize, cells: &[Cell]) -> bool {
    let values = cells.iter().filter(|cell| cell.distinct).count();
    values == 0 || keys + values < COLUMNS_MAX
}

/// The cells by these keys, over an input that has the mask as its last column; some are of different values. Output:
/// keys, mask, values of the cells.
pub(super) fn by_cells(keys: &[Expr], output: &Schema, cells: &[Cell], input: Plan) -> Result<Plan> {
    let key_fields = || output.fields()[..keys.len()].iter().map(|field| field.as_ref().clone().with_nullable(true));
    let mut different = Vec::new();
    for cell in cells.iter().filter(|cell| cell.distinct) {
        let value = value_of(cell, &input.schema)?;
        if !different.contains(&value) {
            different.push(value);
        }
    }
    let pairs = Pairs { width: keys.len(), values: different.len() };
    let twice = pairs.grouped(keys, &different, key_fields(), cells, input)?;
    let Node::Aggregate(aggregate) = &twice.node else { return Err(Error::bug("pairs that are no groups")) };
    let (sets, schema) = (aggregate.grouping_ids(), twice.schema.clone());

    // What is behind the grouping id: the values of cells, and the masks of all rows of a group in one.
    let first = pairs.set_column() + 1;
    let plain = cells.iter().filter(|cell| !cell.distinct).count();
    let mut groups = (0..keys.len()).map(|key| Expr::column(key, &schema)).collect::<Result<Vec<_>>>()?;
    groups.push(Expr::column(first + plain, &schema)?);
    let mut fields: Vec<_> = key_fields().chain([mask_field().with_nullable(true)]).map(Arc::new).collect();
    let (mut aggregates, mut next) = (Vec::new(), first);
    for cell in cells {
        let (function, argument, set) = if cell.distinct {
            let value = value_of(cell, &aggregate.input.schema)?;
            let place = different.iter().position(|other| *other == value);
            let place = place.ok_or_else(|| Error::bug("a value that is not grouped by"))?;
            (cell.kind.function(), keys.len() + place, sets[1 + place])
        } else {
            next += 1;
            (cell.kind.together(), next - 1, sets[0])
        };
        let is_of_set = BinaryExpr::new(column(pairs.set_column(), &schema), Operator::Eq, set_literal(set));
        let filter = Some(Expr::new(Arc::new(is_of_set), &schema)?);
        let call = call(function, vec![Expr::column(argument, &schema)?], filter, &schema)?;
        fields.push(call.function.field());
        aggregates.push(call);
    }
    let grouping_sets = vec![vec![false; groups.len()]];
    let input = Box::new(twice);
    let node = Aggregate { input, groups, grouping_sets, has_grouping_id: false, aggregates, limit: None };
    Ok(Plan::new(Node::Aggregate(node), Arc::new(Schema::new(fields))))
}

/// The places of the columns of what is grouped twice: keys, values, mask, grouping id.
struct Pairs {
    width: usize,
    values: usize,
}

impl Pairs {
    fn mask_column(&self) -> usize {
        self.width + self.values
    }

    fn set_column(&self) -> usize {
        self.mask_column() + 1
    }

    /// The rows by keys and mask, and by keys and each of the values. Output: keys, values, mask, grouping id, values
    /// of the cells that are not of different values, masks of all rows in one.
    fn grouped(
        &self,
        keys: &[Expr],
        different: &[Expr],
        key_fields: impl Iterator<Item = Field>,
        cells: &[Cell],
        input: Plan,
    ) -> Result<Plan> {
        let rows = input.schema.clone();
        let mask = Expr::column(rows.fields().len() - 1, &rows)?;
        let with = |own| (0..self.set_column()).map(|column| column >= self.width && column != own).collect();
        let grouping_sets: Vec<Vec<bool>> =
            [self.mask_column()].into_iter().chain(self.width..self.mask_column()).map(with).collect();
        let groups = keys.iter().chain(different).chain([&mask]).cloned().collect();
        let values = different.iter().map(|value| Field::new("value", value.data_type().clone(), true));
        let ends = [mask_field().with_nullable(true), Field::new("set", DataType::UInt64, false)];
        let mut fields: Vec<_> = key_fields.chain(values).chain(ends).map(Arc::new).collect();
        let mut aggregates = Vec::new();
        for cell in cells.iter().filter(|cell| !cell.distinct) {
            aggregates.push(call(cell.kind.function(), cell.arguments.clone(), cell.filter.clone(), &rows)?);
        }
        aggregates.push(call(bit_or_udaf(), vec![mask], None, &rows)?);
        fields.extend(aggregates.iter().map(|call| call.function.field()));
        let input = Box::new(input);
        let node = Aggregate { input, groups, grouping_sets, has_grouping_id: true, aggregates, limit: None };
        Ok(Plan::new(Node::Aggregate(node), Arc::new(Schema::new(fields))))
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

fn set_literal(set: u64) -> Arc<dyn PhysicalExpr> {
    literal(ScalarValue::UInt64(Some(set)))
}
