//! Joins whose sides have [masks](super::masks) as their last columns.
//!
//! ```text
//!   pairs (inner)       the queries that want both rows
//!   EXISTS, IN          the chosen row, with the masks of all rows that have its key
//!   LEFT and RIGHT      the pairs; and once more, padded with NULLs, each row for the queries that want no partner
//!                       of it
//! ```
//!
//! For the last, the side that is padded gets a row of NULLs for each of its keys, for the queries that want no row
//! with that key: then the join itself finds the padded rows.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::{JoinType, ScalarValue};
use datafusion_expr::Operator;
use datafusion_functions_aggregate::bit_and_or_xor::bit_or_udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Literal};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::cells::grouped;
use crate::expressions::Expr;
use crate::plan::{AggregateCall, HashJoin, Mask, Node, Plan};

/// The column of masks.
pub(super) fn mask_field() -> Field {
    Field::new("queries", DataType::UInt64, false)
}

/// A join one of whose sides only chooses rows of the other.
#[derive(Clone, Copy)]
pub(super) struct Chooses {
    /// Whether it is the right one that chooses.
    pub right: bool,
    /// Whether it chooses rows that have no partner.
    without_partner: bool,
}

impl Chooses {
    pub fn of(join_type: JoinType) -> Option<Self> {
        let (right, without_partner) = match join_type {
            JoinType::LeftSemi => (true, false),
            JoinType::LeftAnti => (true, true),
            JoinType::RightSemi => (false, false),
            JoinType::RightAnti => (false, true),
            _ => return None,
        };
        Some(Self { right, without_partner })
    }

    pub fn is_masked(self, (left, right): (bool, bool)) -> bool {
        if self.right { right } else { left }
    }
}

/// Such a join, where the side that chooses has masks as its last column: a join with its keys, each once, and the
/// masks of all rows that have them.
pub(super) fn chosen(
    join: HashJoin,
    chooses: Chooses,
    plan: &Plan,
    masked: (bool, bool),
    queries: u64,
) -> Result<Plan> {
    let before = plan.inputs().iter().map(|input| input.schema.fields().len()).collect::<Vec<_>>();
    let (left, right) = (*join.left, *join.right);
    let (rows, by, rows_width, rows_masked) =
        if chooses.right { (left, right, before[0], masked.0) } else { (right, left, before[1], masked.1) };
    let keys: Vec<_> =
        join.on.iter().map(|(left, right)| if chooses.right { right.clone() } else { left.clone() }).collect();
    let count = keys.len();
    let by = masks_by_keys(by, keys)?;
    let key = |place: usize| Expr::column(place, &by.schema);
    let on = join.on.iter().enumerate().map(|(place, (left, right))| {
        Ok(if chooses.right { (left.clone(), key(place)?) } else { (key(place)?, right.clone()) })
    });
    let on = on.collect::<Result<Vec<_>>>()?;
    // Where the columns begin in the join's full output.
    let all = rows.schema.fields().len();
    let (rows_start, by_start) = if chooses.right { (0, all) } else { (count + 1, 0) };
    let mut columns: Vec<usize> = match &join.projection {
        Some(columns) => columns.iter().map(|column| rows_start + column).collect(),
        None => (rows_start..rows_start + rows_width).collect(),
    };
    let width = columns.len();
    let mut masks = Vec::new();
    if rows_masked {
        columns.push(rows_start + rows_width);
        masks.push(width);
    }
    columns.push(by_start + count);
    let place = columns.len() - 1;
    let unwanted = if chooses.without_partner { vec![place] } else { vec![] };
    if !chooses.without_partner {
        masks.push(place);
    }
    let join_type = match (chooses.without_partner, chooses.right) {
        (false, _) => JoinType::Inner,
        (true, true) => JoinType::Left,
        (true, false) => JoinType::Right,
    };
    let (left, right) = if chooses.right { (rows, by) } else { (by, rows) };
    let (left, right) = (Box::new(left), Box::new(right));
    let added = (width..columns.len()).map(|column| mask_field().with_nullable(unwanted.contains(&column)));
    let schema = beside(&plan.schema, added);
    let join = HashJoin { left, right, on, join_type, projection: Some(columns), ..join };
    let joined =
        Plan { schema, rows_estimate: plan.rows_estimate, ..Plan::new(Node::HashJoin(join), plan.schema.clone()) };
    let (lookups, conditions, columns) = (vec![], vec![], (0..width).collect());
    let node = Mask { input: Box::new(joined), queries, lookups, conditions, masks, unwanted, first: None, columns };
    Ok(Plan::new(Node::Mask(node), beside(&plan.schema, [mask_field()])))
}

/// The side of a join that is padded with NULLs where the other side's rows have no partner: whether it is the right
/// one. `None` if there is no such side, or if both are.
pub(super) fn padded_side(join_type: JoinType) -> Option<bool> {
    match join_type {
        JoinType::Left => Some(true),
        JoinType::Right => Some(false),
        _ => None,
    }
}

/// Such a join, where the side that is padded has masks as its last column.
pub(super) fn padded(
    mut join: HashJoin,
    is_right: bool,
    plan: &Plan,
    masked: (bool, bool),
    queries: u64,
) -> Result<Plan> {
    let before = plan.inputs().iter().map(|input| input.schema.fields().len()).collect::<Vec<_>>();
    let keys: Vec<_> =
        join.on.iter().map(|(left, right)| if is_right { right.clone() } else { left.clone() }).collect();
    let (width, count) = (before[usize::from(is_right)], keys.len());
    let side = if is_right { &mut join.right } else { &mut join.left };
    **side = with_padding(side, &keys, queries)?;
    for (place, (left, right)) in join.on.iter_mut().enumerate() {
        *(if is_right { right } else { left }) = Expr::column(width + place, &side.schema)?;
    }
    // Where the right side's columns begin in the join's full output.
    let start = join.left.schema.fields().len();
    let moved = |column: usize| if column < before[0] { column } else { column - before[0] + start };
    let mut columns: Vec<usize> = match &join.projection {
        Some(columns) => columns.iter().map(|column| moved(*column)).collect(),
        None => (0..before[0] + before[1]).map(moved).collect(),
    };
    let kept = columns.len();
    let mut masks = Vec::new();
    if if is_right { masked.0 } else { masked.1 } {
        masks.push(columns.len());
        columns.push(if is_right { before[0] } else { start + before[1] });
    }
    let unwanted = vec![columns.len()];
    columns.push(if is_right { start } else { 0 } + width + count);
    let added = (kept..columns.len()).map(|column| mask_field().with_nullable(unwanted.contains(&column)));
    let schema = beside(&plan.schema, added);
    join.projection = Some(columns);
    let joined = Plan { rows_estimate: plan.rows_estimate, ..Plan::new(Node::HashJoin(join), schema) };
    let (lookups, conditions, columns) = (vec![], vec![], (0..kept).collect());
    let node = Mask { input: Box::new(joined), queries, lookups, conditions, masks, unwanted, first: None, columns };
    Ok(Plan::new(Node::Mask(node), beside(&plan.schema, [mask_field()])))
}

/// The rows of a side that has masks as its last column, and a row of NULLs for each key of which not every query wants
/// a row. Output: the columns, the keys, the masks of those who do *not* want the row.
fn with_padding(side: &Plan, keys: &[Expr], queries: u64) -> Result<Plan> {
    let input = side.schema.clone();
    let width = input.fields().len() - 1;
    let all = || Arc::new(Literal::new(ScalarValue::UInt64(Some(queries)))) as Arc<dyn PhysicalExpr>;
    let with_all = |mask: &Expr, operator, schema: &SchemaRef| {
        Expr::new(Arc::new(BinaryExpr::new(mask.physical().clone(), operator, all())), schema)
    };
    let fields = input.fields()[..width].iter().map(|field| field.as_ref().clone().with_nullable(true));
    let key_fields = keys.iter().enumerate().map(|(place, key)| key_field(place, key));
    let fields: Vec<_> = fields.chain(key_fields).chain([mask_field().with_nullable(true)]).collect();
    let schema = Arc::new(Schema::new(fields));
    // A join makes its filter once.
    let mut by = side.clone();
    forget_runtime_filters(&mut by);
    let own = (0..width).map(|column| Expr::column(column, &input)).collect::<Result<Vec<_>>>()?;
    let not_wanted = with_all(&Expr::column(width, &input)?, Operator::BitwiseXor, &input)?;
    let expressions = own.into_iter().chain(keys.iter().cloned()).chain([not_wanted]).collect();
    let rows = Plan {
        rows_estimate: side.rows_estimate,
        ..Plan::new(Node::Project { input: Box::new(side.clone()), expressions }, schema.clone())
    };
    let by = masks_by_keys(by, keys.to_vec())?;
    let by_schema = by.schema.clone();
    let wanted = Expr::column(keys.len(), &by_schema)?;
    let predicate = with_all(&wanted, Operator::NotEq, &by_schema)?;
    let some = Plan::new(Node::Filter { input: Box::new(by), predicate }, by_schema.clone());
    let nothing = |field: &Arc<Field>| {
        let null = ScalarValue::try_from(field.data_type()).map_err(from_datafusion)?;
        Expr::new(Arc::new(Literal::new(null)), &by_schema)
    };
    let nothing = input.fields()[..width].iter().map(nothing).collect::<Result<Vec<_>>>()?;
    let found = (0..=keys.len()).map(|column| Expr::column(column, &by_schema)).collect::<Result<Vec<_>>>()?;
    let expressions = nothing.into_iter().chain(found).collect();
    let padding = Plan::new(Node::Project { input: Box::new(some), expressions }, schema.clone());
    let union = Plan::new(Node::Union { inputs: vec![rows, padding] }, schema);
    Ok(Plan { rows_estimate: side.rows_estimate.map(|rows| rows.saturating_mul(2)), ..union })
}

/// Each of the keys once, with the masks of all rows that have it in one. The input has masks as its last column.
fn masks_by_keys(input: Plan, keys: Vec<Expr>) -> Result<Plan> {
    let schema = input.schema.clone();
    let mask = Expr::column(schema.fields().len() - 1, &schema)?;
    let call = AggregateCall::new(bit_or_udaf(), "queries".to_owned(), vec![mask], None, &schema)?;
    let fields = keys.iter().enumerate().map(|(place, key)| key_field(place, key)).collect::<Vec<_>>();
    let fields = fields.into_iter().chain([mask_field().with_nullable(true)]);
    Ok(grouped(input, keys, fields, vec![call]))
}

/// A join whose sides have got masks as their last columns: they come out behind the join's own columns, as one.
pub(super) fn joined(
    mut changed: Plan,
    plan: &Plan,
    (left, right): (bool, bool),
    projection_of: impl Fn(&mut Node) -> Option<(JoinType, &mut Option<Vec<usize>>)>,
) -> Result<(Plan, bool)> {
    let widths = |plan: &Plan| plan.inputs().iter().map(|input| input.schema.fields().len()).collect::<Vec<_>>();
    let (before, after) = (widths(plan), widths(&changed));
    let Some((join_type, projection)) = projection_of(&mut changed.node) else {
        return Err(Error::bug("a join that is none"));
    };
    let (has_left, has_right) = match join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => (true, false),
        JoinType::RightSemi | JoinType::RightAnti => (false, true),
        _ => (true, true),
    };
    // Where the right side's columns begin in the join's full output.
    let (start_before, start_after) = if has_left { (before[0], after[0]) } else { (0, 0) };
    let full = start_before + if has_right { before[1] } else { 0 };
    let moved = |column: usize| if column < start_before { column } else { column - start_before + start_after };
    let mut columns: Vec<usize> = match projection.take() {
        Some(columns) => columns.into_iter().map(moved).collect(),
        None => (0..full).map(moved).collect(),
    };
    let width = columns.len();
    if left {
        columns.push(before[0]);
    }
    if right {
        columns.push(start_after + before[1]);
    }
    *projection = Some(columns);
    if !left && !right {
        return Ok((plan.clone(), false));
    }
    let masks = usize::from(left) + usize::from(right);
    changed.schema = beside(&plan.schema, (0..masks).map(|_| mask_field()));
    if masks == 1 {
        return Ok((changed, true));
    }
    let node = Mask {
        input: Box::new(changed),
        queries: u64::MAX,
        lookups: vec![],
        conditions: vec![],
        masks: vec![width, width + 1],
        unwanted: vec![],
        first: None,
        columns: (0..width).collect(),
    };
    Ok((Plan::new(Node::Mask(node), beside(&plan.schema, [mask_field()])), true))
}

pub(super) fn beside(schema: &SchemaRef, fields: impl IntoIterator<Item = Field>) -> SchemaRef {
    let own = schema.fields().iter().cloned();
    Arc::new(Schema::new(own.chain(fields.into_iter().map(Arc::new)).collect::<Vec<_>>()))
}

fn key_field(place: usize, key: &Expr) -> Field {
    Field::new(format!("key {place}"), key.data_type().clone(), true)
}

fn forget_runtime_filters(plan: &mut Plan) {
    match &mut plan.node {
        Node::Scan(scan) => scan.runtime_filters.clear(),
        Node::HashJoin(join) => join.runtime_filters.clear(),
        _ => {}
    }
    plan.inputs_mut().into_iter().for_each(forget_runtime_filters);
}
