//! A retained state that has more than a query wants: fewer conditions, finer groups, more columns, more rows of an
//! order.
//!
//! ```text
//!   kept       WHERE day >= '1998-01-01'      GROUP BY day, town     sum(amount), count(*)
//!   wanted     WHERE day >= '1998-06-01'      GROUP BY town          sum(amount)
//!              `-- implies what is kept, and  `-- among the keys     `-- sums of the finer groups' sums
//!                  looks at a key
//! ```
//!
//! The query's answer is in the state if (1) both are over the same rows, (2) whatever the query's conditions let
//! through, the state's conditions do, (3) each condition of the query that the state has not compares a key of the
//! state with constants, and (4) the query's keys are keys of the state, and its values come from the state's values:
//! as they are where no groups fall together, otherwise by [adding up](super::regroup), which is exact for what it is
//! done for. A query that wants an order, or some rows of one, has them (5) where they are at [the same
//! places](super::order) of the state's order; otherwise it sorts what it makes of the state. (Harizopoulos, "Staged
//! Database Systems", section 4.2, calls the state's plan a superset; Goldstein & Larson, "Optimizing Queries Using
//! Materialized Views: A Practical, Scalable Solution", SIGMOD 2001, section 3, has the same tests.)

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column as ColumnExpr};
use diligence_base::{Error, Result};

use super::order::Slice;
use super::parameters::Parameter;
use super::regroup;
use super::shape::{Condition, Shape};
use crate::expressions::Expr;
use crate::plan::mask_lookup::{ClassKey, Comparison};
use crate::plan::{Node, Plan};

/// What is to be made of a state, so that it is a query's answer.
pub(crate) struct Residual {
    /// Which of the query's conditions are applied, and to which column of the state each.
    conditions: Vec<(usize, usize)>,
    /// The columns of the state that are the query's keys.
    keys: Vec<usize>,
    values: ValueSet,
    /// What is taken of it, if the query wants an order and the state has it.
    slice: Option<Slice>,
    /// Keys of the state.
    keys_kept: usize,
    /// Keys and values of the query that it was built for.
    columns_kept: usize,
}

/// Where the values come from that belong to the keys.
enum ValueSet {
    /// From columns of the state, row by row; from none, if there are no groups.
    Columns(Vec<usize>),
    /// From cells in these columns, of groups that fall together.
    Cells(Vec<usize>),
}

impl Residual {
    /// What a query with the shape `wanted` has to make of a state with the shape `kept`, which has cells of several
    /// queries if `has_cells`; `None` if its answer is not provably there.
    pub fn of(kept: &Shape, has_cells: bool, wanted: &Shape) -> Option<Self> {
        if kept.core != wanted.core
            || !kept.conditions.iter().all(|condition| is_implied(condition, &wanted.conditions))
        {
            return None;
        }
        let slice = match (&kept.order, &wanted.order) {
            (Some(kept), Some(wanted)) => Some(Slice::of(kept, wanted)?),
            (None, Some(_)) => return None,
            (Some(kept), None) if kept.only_places => return None,
            (_, None) => None,
        };
        let mut conditions = Vec::new();
        for (index, condition) in wanted.conditions.iter().enumerate() {
            if kept.conditions.iter().all(|other| other.form != condition.form) {
                conditions.push((index, kept.key_of_leaf(condition.range.as_ref()?.column)?));
            }
        }
        let key = |wanted| kept.keys.iter().position(|key| key == wanted);
        let keys = wanted.keys.iter().map(key).collect::<Option<Vec<_>>>()?;
        let keys_kept = kept.keys.len();
        let values = match (&kept.groups, &wanted.groups) {
            (None, None) => ValueSet::Columns(vec![]),
            (Some(kept), Some(wanted)) => {
                let is_as_fine = (0..keys_kept).all(|key| keys.contains(&key));
                let columns = (is_as_fine && !has_cells).then(|| {
                    let column = |call| Some(keys_kept + kept.calls.iter().position(|other| other == call)?);
                    wanted.calls.iter().map(column).collect::<Option<Vec<_>>>()
                });
                match columns.flatten() {
                    Some(columns) => ValueSet::Columns(columns),
                    None => {
                        let (kept, wanted) = (kept.cells.as_ref()?, wanted.cells.as_ref()?);
                        let column = |cell: &super::shape::Cell| {
                            let place = kept.iter().position(|other| other.value == cell.value)?;
                            // Before cells there is the mask.
                            if has_cells { Some(keys_kept + 1 + place) } else { Some(keys_kept + kept[place].call?) }
                        };
                        ValueSet::Cells(wanted.iter().map(column).collect::<Option<Vec<_>>>()?)
                    }
                }
            }
            _ => return None,
        };
        let columns_kept = keys_kept + kept.groups.as_ref().map_or(0, |groups| groups.calls.len());
        Some(Self { conditions, keys, values, slice, keys_kept, columns_kept })
    }

    /// Whether no condition chooses among the rows of the state.
    pub fn is_of_all_rows(&self) -> bool {
        self.conditions.is_empty()
    }

    /// For people.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        if !self.conditions.is_empty() {
            parts.push(match self.conditions.len() {
                1 => "filtered by one more condition".to_owned(),
                several => format!("filtered by {several} more conditions"),
            });
        }
        if matches!(self.values, ValueSet::Cells(_)) {
            parts.push(format!("grouped by {} of {} keys", self.keys.len(), self.keys_kept));
        }
        parts.extend(self.slice.as_ref().and_then(Slice::describe_places));
        let columns = match &self.values {
            ValueSet::Columns(columns) => self.keys.len() + columns.len(),
            ValueSet::Cells(_) => self.columns_kept,
        };
        match parts.is_empty() {
            true if columns < self.columns_kept => parts.push("with columns left out".to_owned()),
            true if self.slice.is_none() => parts.push("with columns in another order".to_owned()),
            _ => {}
        }
        parts.extend(self.slice.as_ref().map(|slice| slice.describe_order().to_owned()));
        parts.join(", ")
    }

    /// The plan over the state's rows that gives what `part`, a plan with the shape `wanted`, would have given. `bit`
    /// is the kept query's, if the state has cells of several.
    pub fn plan(
        &self,
        part: &Plan,
        wanted: &Shape,
        bit: Option<usize>,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
    ) -> Result<Plan> {
        let mut predicates = Vec::new();
        for &(condition, column) in &self.conditions {
            let condition = wanted.conditions.get(condition).ok_or_else(|| Error::bug("a condition that is none"))?;
            predicates.push(over_column(condition.form.physical(), column, &schema)?);
        }
        match &self.values {
            ValueSet::Cells(cells) => {
                if let Some(bit) = bit {
                    predicates.push(regroup::has_bit(self.keys_kept, bit, &schema));
                }
                let known = filtered(predicates, schema, batches)?;
                regroup::from_cells(part, known, &self.keys, cells)
            }
            ValueSet::Columns(columns) => {
                let known = filtered(predicates, schema.clone(), batches)?;
                let known = match &self.slice {
                    Some(slice) => slice.plan(known),
                    None => known,
                };
                let expressions = self.keys.iter().chain(columns).map(|&column| Expr::column(column, &schema));
                let expressions = expressions.collect::<Result<Vec<_>>>()?;
                let fields = part.schema.fields();
                let fits = expressions.len() == fields.len()
                    && expressions.iter().zip(fields).all(|(own, field)| own.data_type() == field.data_type());
                if !fits {
                    return Err(Error::bug("a state with the columns of a plan, but not their types"));
                }
                Ok(Plan {
                    node: Node::Project { input: Box::new(known), expressions },
                    schema: part.schema.clone(),
                    rows_estimate: part.rows_estimate,
                    // One packet carries the rows from here down.
                    ordered: part.ordered || self.slice.is_some(),
                })
            }
        }
    }
}

/// The rows for which all predicates are true.
fn filtered(predicates: Vec<Arc<dyn PhysicalExpr>>, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Plan> {
    let known = Plan::new(Node::Values { batches }, schema.clone());
    let all = predicates.into_iter().reduce(|left, right| Arc::new(BinaryExpr::new(left, Operator::And, right)));
    let Some(all) = all else { return Ok(known) };
    let predicate = Expr::new(all, &schema)?;
    Ok(Plan::new(Node::Filter { input: Box::new(known), predicate }, schema))
}

/// A condition on one leaf, on a column.
fn over_column(physical: &Arc<dyn PhysicalExpr>, column: usize, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    if physical.is::<ColumnExpr>() {
        return Ok(Arc::new(ColumnExpr::new(schema.field(column).name(), column)));
    }
    let children = physical.children();
    if children.is_empty() {
        return Ok(physical.clone());
    }
    let children = children.into_iter().map(|child| over_column(child, column, schema)).collect::<Result<Vec<_>>>()?;
    physical.clone().with_new_children(children).map_err(diligence_storage::foreign_error::from_datafusion)
}

/// Whether a condition holds wherever all the others do.
fn is_implied(condition: &Condition, by: &[Condition]) -> bool {
    let implies = |other: &Condition| {
        let ranges = other.range.as_ref().zip(condition.range.as_ref());
        other.form == condition.form || ranges.is_some_and(|(other, range)| implies(other, range))
    };
    by.iter().any(implies)
}

/// Whether every value that fulfils the first condition fulfils the second.
fn implies(narrow: &Parameter, wide: &Parameter) -> bool {
    let keys = |parameter: &Parameter| parameter.constants.iter().map(ClassKey::of).collect::<Option<Vec<_>>>();
    let (Some(narrow_keys), Some(wide_keys)) = (keys(narrow), keys(wide)) else { return false };
    if narrow.column != wide.column {
        return false;
    }
    if wide.comparison == Comparison::Among {
        return narrow.comparison == Comparison::Among && narrow_keys.iter().all(|key| wide_keys.contains(key));
    }
    let Some(wide_key) = wide_keys.first() else { return false };
    narrow_keys.iter().all(|key| match (narrow.comparison, wide.comparison) {
        (Comparison::Less, Comparison::Less | Comparison::AtMost) => key <= wide_key,
        (Comparison::AtMost, Comparison::AtMost) => key <= wide_key,
        (Comparison::AtMost, Comparison::Less) => key < wide_key,
        (Comparison::Greater, Comparison::Greater | Comparison::AtLeast) => key >= wide_key,
        (Comparison::AtLeast, Comparison::AtLeast) => key >= wide_key,
        (Comparison::AtLeast, Comparison::Greater) => key > wide_key,
        (Comparison::Among, Comparison::Less) => key < wide_key,
        (Comparison::Among, Comparison::AtMost) => key <= wide_key,
        (Comparison::Among, Comparison::Greater) => key > wide_key,
        (Comparison::Among, Comparison::AtLeast) => key >= wide_key,
        _ => false,
    })
}
