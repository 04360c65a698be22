//! Grouping sets as groups of rows: each row comes once for each set, with NULLs in place of the keys that are not in
//! it, and the set's id is one more key. So there is one sort for all sets, and what is below runs once.
//!
//! ```text
//!   Union
//!     Project              keys in the set, the other columns, id, true
//!       NestedLoopJoin     each set with each row
//!         Values           id, and of each key whether it is in the set
//!         rows
//!     Values               for each set without keys: NULLs, id, false
//! ```
//!
//! A set without keys is a group even where there are no rows. So it always has a row that is none of the input: all
//! NULL, with a mark that tells it from the others.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::{cast, filter};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion_common::{JoinType, ScalarValue};
use datafusion_physical_expr::expressions::Literal;
use diligence_base::Result;
use diligence_storage::foreign_error::from_arrow;

use super::columns::{column, project, where_true};
use crate::expressions::Expr;
use crate::plan::{Aggregate, NestedLoopJoin, Node, Plan};

/// Where the columns are that [`for_each_set`] adds.
#[derive(Clone, Copy)]
pub(super) struct SetColumns {
    /// The grouping id.
    pub id: usize,
    /// Whether a row is one of the input; `None` if all are.
    pub is_row: Option<usize>,
}

/// The rows, whose first columns are the aggregate's keys, for each of its grouping sets.
pub(super) fn for_each_set(rows: Plan, aggregate: &Aggregate, id_type: &DataType) -> Result<(Plan, SetColumns)> {
    let ids: ArrayRef = Arc::new(UInt64Array::from(aggregate.grouping_ids()));
    let ids = cast(&ids, id_type).map_err(from_arrow)?;
    let is_total = |set: &Vec<bool>| set.iter().all(|&masked| masked);
    let are_totals = BooleanArray::from(aggregate.grouping_sets.iter().map(is_total).collect::<Vec<_>>());
    let totals = filter(&ids, &are_totals).map_err(from_arrow)?;
    let width = rows.schema.fields().len();
    let added = SetColumns { id: width, is_row: (!totals.is_empty()).then_some(width + 1) };

    let rows = masked(rows, aggregate, ids, added.is_row.is_some())?;
    if totals.is_empty() {
        return Ok((rows, added));
    }
    let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(rows.schema.fields().iter().map(nullable).collect::<Vec<_>>()));
    let nulls = schema.fields()[..width].iter().map(|field| new_null_array(field.data_type(), totals.len()));
    let are_rows = Arc::new(BooleanArray::from(vec![false; totals.len()]));
    let columns = nulls.chain([totals.clone(), are_rows as ArrayRef]).collect();
    let batch = RecordBatch::try_new(schema.clone(), columns).map_err(from_arrow)?;
    let none = Plan::new(Node::Values { batches: vec![batch] }, schema.clone());
    let rows_estimate = rows.rows_estimate;
    Ok((Plan { rows_estimate, ..Plan::new(Node::Union { inputs: vec![rows, none] }, schema) }, added))
}

/// Each row with each set: keys that are in the set, the other columns, the set's id, and, if asked for, that it is a
/// row.
fn masked(rows: Plan, aggregate: &Aggregate, ids: ArrayRef, with_mark: bool) -> Result<Plan> {
    let sets = &aggregate.grouping_sets;
    let keys = aggregate.groups.len();
    let mut fields = vec![Field::new("id", ids.data_type().clone(), false)];
    let mut columns = vec![ids];
    for (key, field) in rows.schema.fields()[..keys].iter().enumerate() {
        fields.push(Field::new(format!("has {}", field.name()), DataType::Boolean, false));
        columns.push(Arc::new(BooleanArray::from(sets.iter().map(|set| !set[key]).collect::<Vec<_>>())));
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns).map_err(from_arrow)?;
    let rows_estimate = Some(sets.len());
    let values = Plan { rows_estimate, ..Plan::new(Node::Values { batches: vec![batch] }, schema.clone()) };

    let fields = schema.fields().iter().chain(rows.schema.fields()).cloned().collect::<Vec<_>>();
    let schema = Arc::new(Schema::new(fields));
    let rows_estimate = rows.rows_estimate.map(|estimate| estimate.saturating_mul(sets.len()));
    let width = rows.schema.fields().len();
    let (left, right) = (Box::new(values), Box::new(rows));
    let join = NestedLoopJoin { left, right, filter: None, join_type: JoinType::Inner, projection: None };
    let joined = Plan { rows_estimate, ..Plan::new(Node::NestedLoopJoin(join), schema.clone()) };

    let mut columns = Vec::new();
    for place in 0..width {
        let index = 1 + keys + place;
        let value = match place < keys && sets.iter().any(|set| set[place]) {
            true => where_true(column(1 + place, &schema), column(index, &schema), &schema)?,
            false => Expr::column(index, &schema)?,
        };
        columns.push((schema.field(index).name().clone(), value));
    }
    columns.push(("id".to_owned(), Expr::column(0, &schema)?));
    if with_mark {
        let mark = Literal::new(ScalarValue::Boolean(Some(true)));
        columns.push(("is a row".to_owned(), Expr::new(Arc::new(mark), &schema)?));
    }
    Ok(project(joined, columns))
}
