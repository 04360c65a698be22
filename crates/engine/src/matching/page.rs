//! One run for queries of several templates over the same joins: a page of charts.
//!
//! ```text
//!   SELECT town, sum(amount) FROM sales WHERE day < 3 GROUP BY town             q0
//!   SELECT door, count(*)    FROM sales WHERE day < 3 GROUP BY door             q1
//!   SELECT door, count(*)    FROM sales WHERE day < 5 GROUP BY door             q2
//!
//!                                                    +--> q0:    Aggregate by town: sum(amount)
//!   sales where day < 5 --> mask of the conditions --|
//!                           01: day < 3, 10: day < 5 +--> q1 q2: Aggregate by door, mask: count(*)
//! ```
//!
//! The rows are read, joined and given masks once; then they go to a *branch* for each different aggregate
//! ([`Common::is_streamed`](crate::plan::Common)). A bit of the masks stands for a set of conditions, of which queries
//! of different templates may have the same; where all do, there are no masks. A branch for queries with several sets
//! of conditions groups by the mask as well, as [runs of one template](super::regroup) do.
//!
//! All branches end in one result: a column says of which branch a row is, and branches share the other columns, each
//! of which has as many as its groups have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column as ColumnExpr;
use diligence_base::limits::{MERGED_QUERIES_MAX, SHARED_STATE_BYTES_MAX};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::canonical::Canonical;
use super::cells::literal;
use super::common::{next_table, place_of};
use super::cut::ShareRequest;
use super::mask_joins::mask_field;
use super::masks::bits_of;
use super::merge::{Portion, Way};
use super::shape::{Body, Condition, Shape, leaf_of};
use super::signature::Signature;
use super::widening::{Wider, widened};
use super::{parts, regroup};
use crate::expressions::Expr;
use crate::options::{QueryOptions, SharingMode};
use crate::plan::estimates::row_bytes;
use crate::plan::mask_lookup::{Lookup, Terms};
use crate::plan::{Aggregate, Common, CommonPart, Mask, Node, Plan, WorkTableId};

/// The part of a state, as its divisor, that the groups of one branch are expected to have at most.
const BRANCH_PART: usize = 8;

/// A run for several queries, and where each finds its groups.
pub(crate) struct Page {
    pub plan: Plan,
    /// In the order of the queries.
    pub places: Vec<PagePlace>,
}

/// Where one query finds its groups.
#[derive(Clone)]
pub(crate) struct PagePlace {
    /// The number of its branch.
    pub branch: usize,
    /// Which of these groups are its own; all if `None`.
    pub portion: Option<Portion>,
    /// The columns of the result that its branch has.
    columns: Arc<[usize]>,
    schema: SchemaRef,
}

/// Whom a query with this plan can go with in such a run, if it has a shape of its own groups; `None` if it cannot.
pub(crate) fn key_of(
    plan: &Plan,
    request: &ShareRequest,
    shape: Option<&Shape>,
    options: &QueryOptions,
) -> Option<Signature> {
    let shape = shape.filter(|shape| shape.groups.is_some() && shape.order.is_none())?;
    let is_counted = request.measured_for.is_none();
    // Where several are to wait for one another, one of each template may not go.
    let waits_for_others = request.template.as_ref().is_some_and(|template| template.queries_min > 1);
    // The result has all columns of all branches.
    let part = parts::part_below(plan, request.depth)?;
    let bytes = part.rows_estimate?.saturating_mul(row_bytes(&part.schema));
    let are_few = bytes <= SHARED_STATE_BYTES_MAX / BRANCH_PART;
    let may = options.sharing == SharingMode::All && is_counted && !waits_for_others && are_few;
    may.then(|| shape.core.with("page", Vec::new()))
}

/// A query of a page.
struct PageQuery<'a> {
    part: &'a Plan,
    aggregate: &'a Aggregate,
    body: Body,
    /// The bit of its conditions.
    bit: usize,
}

/// One run for these aggregates, whose rows have the same [core](super::shape::Shape::core). `None` if there cannot be
/// one: if a query's condition may fail for rows of the others, for example, or if the results of one with several sets
/// of conditions cannot be put together.
pub(crate) fn page(parts: &[&Plan], options: &QueryOptions) -> Result<Option<Page>> {
    let Some((queries, sets)) = queries_of(parts, options) else { return Ok(None) };
    let Some(rows) = Rows::of(&queries, &sets, options)? else { return Ok(None) };
    let mut branches: Vec<Vec<usize>> = Vec::new();
    for (number, query) in queries.iter().enumerate() {
        let is_same = |branch: &&mut Vec<usize>| {
            let other = &queries[branch[0]];
            other.body.keys == query.body.keys
                && other.body.calls == query.body.calls
                && regroup::is_alike(other.aggregate, query.aggregate)
        };
        match branches.iter_mut().find(is_same) {
            Some(branch) => branch.push(number),
            None => branches.push(vec![number]),
        }
    }
    let mut plans = Vec::new();
    for branch in &branches {
        let of_branch: Vec<_> = branch.iter().map(|query| &queries[*query]).collect();
        let Some(plan) = rows.branch(&of_branch)? else { return Ok(None) };
        plans.push(plan);
    }
    let several = |branch: &[usize]| has_several(branch.iter().map(|query| &queries[*query]));
    let (slots, schema) = slots_of(&plans);
    let mut inputs = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        inputs.push(tagged(number, plan.clone(), &slots[number], &schema)?);
    }
    let input = Box::new(Plan::new(Node::Union { inputs }, schema.clone()));
    let places = plans.iter().map(|plan| places_of(plan, rows.table)).sum();
    let part = CommonPart { table: rows.table, places, plan: rows.plan };
    let plan = Plan::new(Node::Common(Common { parts: vec![part], input }), schema);
    let mut places: Vec<Option<PagePlace>> = queries.iter().map(|_| None).collect();
    for (branch, of_branch) in branches.iter().enumerate() {
        for &query in of_branch {
            let portion = several(of_branch).then(|| Portion { bit: queries[query].bit, way: Way::Cells });
            let (columns, schema) = (slots[branch].clone().into(), plans[branch].schema.clone());
            places[query] = Some(PagePlace { branch, portion, columns, schema });
        }
    }
    let places = places.into_iter().collect::<Option<Vec<_>>>();
    Ok(Some(Page { plan, places: places.ok_or_else(|| Error::bug("a query without a branch"))? }))
}

/// The groups of each branch, from the result of such a run.
pub(crate) fn branches_of(batches: &[RecordBatch], places: &[PagePlace]) -> Result<Vec<(SchemaRef, Vec<RecordBatch>)>> {
    let count = places.iter().map(|place| place.branch + 1).max().unwrap_or(0);
    let mut branches: Vec<Option<(SchemaRef, Vec<RecordBatch>)>> = vec![None; count];
    for place in places {
        if branches[place.branch].is_none() {
            let own = batches.iter().filter_map(|batch| own_rows(batch, place).transpose());
            branches[place.branch] = Some((place.schema.clone(), own.collect::<Result<_>>()?));
        }
    }
    branches.into_iter().collect::<Option<_>>().ok_or_else(|| Error::bug("a branch without queries"))
}

/// The rows of a batch that are of a branch: all, or none, as each branch ends its own batches.
fn own_rows(batch: &RecordBatch, place: &PagePlace) -> Result<Option<RecordBatch>> {
    let tags = batch.column(0).as_primitive::<Int32Type>();
    let of_branch = tags.values().iter().filter(|tag| **tag == place.branch as i32).count();
    if of_branch == 0 {
        return Ok(None);
    }
    if of_branch < batch.num_rows() {
        return Err(Error::bug("a batch of several branches"));
    }
    let columns = place.columns.iter().map(|&column| batch.column(column).clone()).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(place.schema.clone(), columns, &options).map(Some).map_err(from_arrow)
}

/// The queries, and the sets of conditions that they have, by bit. `None` if they cannot go together.
fn queries_of<'a>(parts: &[&'a Plan], options: &QueryOptions) -> Option<(Vec<PageQuery<'a>>, Vec<Vec<Condition>>)> {
    let mut sets: Vec<Vec<Condition>> = Vec::new();
    let mut queries = Vec::new();
    for part in parts {
        let Node::Aggregate(aggregate) = &part.node else { return None };
        let body = Body::of(aggregate, options)?;
        let is_same = |set: &Vec<Condition>| {
            set.len() == body.conditions.len() && body.conditions.iter().all(|one| has(set, &one.form))
        };
        let bit = sets.iter().position(is_same).unwrap_or_else(|| {
            sets.push(body.conditions.clone());
            sets.len() - 1
        });
        queries.push(PageQuery { part, aggregate, body, bit });
    }
    (sets.len() <= MERGED_QUERIES_MAX).then_some((queries, sets))
}

fn has(set: &[Condition], form: &Canonical) -> bool {
    set.iter().any(|condition| condition.form == *form)
}

fn has_several<'a>(queries: impl Iterator<Item = &'a PageQuery<'a>>) -> bool {
    queries.map(|query| query.bit).collect::<BTreeSet<_>>().len() > 1
}

/// The rows that any of the queries wants, with a mask of those that do.
struct Rows {
    plan: Plan,
    table: WorkTableId,
    /// Where leaves are.
    places: BTreeMap<usize, usize>,
    /// The column of masks, if queries differ in their conditions.
    mask: Option<usize>,
}

impl Rows {
    fn of(queries: &[PageQuery<'_>], sets: &[Vec<Condition>], options: &QueryOptions) -> Result<Option<Self>> {
        let Some((first, first_set)) = queries.first().zip(sets.first()) else { return Ok(None) };
        let in_all = |condition: &&Condition| sets.iter().all(|set| has(set, &condition.form));
        let kept: Vec<_> = first_set.iter().filter(in_all).map(|condition| condition.form.clone()).collect();
        let own = |set: &Vec<Condition>| {
            set.iter().filter(|condition| !kept.contains(&condition.form)).cloned().collect::<Vec<_>>()
        };
        let own: Vec<_> = sets.iter().map(own).collect();
        let lookups = lookups_of(&own)?;
        let mut leaves = BTreeSet::new();
        queries.iter().flat_map(|query| &query.body.columns).for_each(|column| add_leaves(column, &mut leaves));
        own.iter().flatten().for_each(|condition| add_leaves(condition.form.physical(), &mut leaves));
        let wider = Wider { kept: &kept, leaves: &leaves, lookups: &lookups };
        let rows = widened(&first.aggregate.input, &wider, options)?;
        // What comes out on one side of a join only cannot be read on top.
        if rows.plan.ordered || leaves.iter().any(|leaf| !rows.places.contains_key(leaf)) {
            return Ok(None);
        }
        let schema = rows.plan.schema.clone();
        let columns: Vec<usize> = leaves.iter().map(|leaf| rows.places[leaf]).collect();
        let expressions = columns.iter().map(|&column| Expr::column(column, &schema)).collect::<Result<Vec<_>>>()?;
        let fields: Vec<_> = columns.iter().map(|&column| schema.fields()[column].clone()).collect();
        let project = Node::Project { input: Box::new(rows.plan), expressions };
        let plan = Plan::new(project, Arc::new(Schema::new(fields)));
        let places = leaves.iter().copied().zip(0..).collect();
        let table = WorkTableId(next_table(&plan));
        let rows = Self { plan, table, places, mask: None };
        if sets.len() == 1 { Ok(Some(rows)) } else { rows.masked(&own, &lookups) }
    }

    /// The rows with masks, of which each bit stands for a set of conditions.
    fn masked(self, sets: &[Vec<Condition>], lookups: &BTreeMap<usize, Arc<Lookup>>) -> Result<Option<Self>> {
        let schema = self.plan.schema.clone();
        let mut conditions: Vec<(Expr, u64)> = Vec::new();
        for (bit, set) in sets.iter().enumerate() {
            for condition in set {
                if condition.range.as_ref().is_some_and(|range| lookups.contains_key(&range.column)) {
                    continue;
                }
                let condition = self.over_columns(condition.form.physical())?;
                // It is evaluated for rows that its query's other conditions would have kept from it.
                if condition.may_fail() {
                    return Ok(None);
                }
                match conditions.iter_mut().find(|(other, _)| *other == condition) {
                    Some((_, bits)) => *bits |= 1 << bit,
                    None => conditions.push((condition, 1 << bit)),
                }
            }
        }
        let width = schema.fields().len();
        let node = Mask {
            input: Box::new(self.plan),
            queries: bits_of(sets.len()),
            lookups: lookups.iter().map(|(leaf, lookup)| (self.places[leaf], lookup.clone())).collect(),
            conditions,
            masks: vec![],
            unwanted: vec![],
            first: None,
            columns: (0..width).collect(),
        };
        let plan = Plan::new(Node::Mask(node), with_mask_field(&schema));
        Ok(Some(Self { plan, mask: Some(width), ..self }))
    }

    /// An expression over leaves, over these rows.
    fn over_columns(&self, physical: &Arc<dyn PhysicalExpr>) -> Result<Expr> {
        let schema = &self.plan.schema;
        let moved = physical.clone().transform_down(|node| {
            let Some(leaf) = leaf_of(&node) else { return Ok(Transformed::no(node)) };
            let place = self.places.get(&leaf).copied().unwrap_or_default();
            let column: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(schema.field(place).name(), place));
            Ok(Transformed::yes(column))
        });
        Expr::new(moved.map_err(from_datafusion)?.data, schema)
    }

    /// The aggregate of queries that differ in their conditions at most, over these rows. `None` if their results
    /// cannot be put together.
    fn branch(&self, queries: &[&PageQuery<'_>]) -> Result<Option<Plan>> {
        let query = queries[0];
        let several = has_several(queries.iter().copied());
        if several && !regroup::can_merge(query.aggregate) {
            return Ok(None);
        }
        let schema = self.plan.schema.clone();
        let mut rows = place_of(self.table, &schema);
        if let Some(mask) = self.mask {
            let bits = queries.iter().fold(0, |bits, query| bits | 1 << query.bit);
            let node = Mask {
                input: Box::new(rows),
                queries: bits,
                lookups: vec![],
                conditions: vec![],
                masks: vec![mask],
                unwanted: vec![],
                first: None,
                columns: (0..mask).collect(),
            };
            rows = Plan::new(Node::Mask(node), schema.clone());
        }
        let expressions = query.body.columns.iter().map(|column| self.over_columns(column));
        let mut expressions = expressions.collect::<Result<Vec<_>>>()?;
        let mut input = query.aggregate.input.schema.clone();
        if let (true, Some(mask)) = (several, self.mask) {
            expressions.push(Expr::column(mask, &schema)?);
            input = with_mask_field(&input);
        }
        let rows = Plan::new(Node::Project { input: Box::new(rows), expressions }, input);
        if several {
            return regroup::by_cells(query.aggregate, &query.part.schema, rows).map(Some);
        }
        let aggregate = Aggregate { input: Box::new(rows), ..query.aggregate.clone() };
        Ok(Some(Plan { node: Node::Aggregate(aggregate), ..query.part.clone() }))
    }
}

/// How often a plan reads a common part.
fn places_of(plan: &Plan, part: WorkTableId) -> usize {
    let is_place = matches!(&plan.node, Node::WorkTable(table) if table.table == part);
    usize::from(is_place) + plan.inputs().into_iter().map(|input| places_of(input, part)).sum::<usize>()
}

fn with_mask_field(schema: &Schema) -> SchemaRef {
    let own = schema.fields().iter().cloned();
    Arc::new(Schema::new(own.chain([Arc::new(mask_field())]).collect::<Vec<_>>()))
}

fn add_leaves(physical: &Arc<dyn PhysicalExpr>, leaves: &mut BTreeSet<usize>) {
    leaves.extend(leaf_of(physical));
    physical.children().into_iter().for_each(|child| add_leaves(child, leaves));
}

/// For each leaf that every set of conditions compares with constants, the lookup of its values.
fn lookups_of(sets: &[Vec<Condition>]) -> Result<BTreeMap<usize, Arc<Lookup>>> {
    let ranges = sets.iter().flatten().filter_map(|condition| condition.range.as_ref());
    let leaves: BTreeSet<_> = ranges.map(|range| range.column).collect();
    let mut lookups = BTreeMap::new();
    for leaf in leaves {
        let terms = |set: &Vec<Condition>| -> Terms {
            let ranges = set.iter().filter_map(|condition| condition.range.as_ref());
            let of_leaf = ranges.filter(|range| range.column == leaf);
            of_leaf.map(|range| (range.comparison, range.constants.clone())).collect()
        };
        let terms: Vec<_> = sets.iter().map(terms).collect();
        // One that says nothing of a leaf wants every value, NULL among them.
        if terms.iter().all(|terms| !terms.is_empty()) {
            lookups.insert(leaf, Arc::new(Lookup::new(&terms)?));
        }
    }
    Ok(lookups)
}

/// For each branch the columns of the result that it has, and the result's columns: first the number of the branch.
fn slots_of(branches: &[Plan]) -> (Vec<Vec<usize>>, SchemaRef) {
    let mut types: Vec<DataType> = vec![DataType::Int32];
    let mut slots = Vec::new();
    for branch in branches {
        let mut own: Vec<usize> = Vec::new();
        for field in branch.schema.fields() {
            let free = (1..types.len()).find(|slot| types[*slot] == *field.data_type() && !own.contains(slot));
            own.push(free.unwrap_or_else(|| {
                types.push(field.data_type().clone());
                types.len() - 1
            }));
        }
        slots.push(own);
    }
    let field = |(slot, data_type)| Field::new(format!("c{slot}"), data_type, slot > 0);
    (slots, Arc::new(Schema::new(types.into_iter().enumerate().map(field).collect::<Vec<_>>())))
}

/// The groups of a branch as rows of the result.
fn tagged(number: usize, branch: Plan, slots: &[usize], result: &SchemaRef) -> Result<Plan> {
    let tag = literal(ScalarValue::Int32(Some(number as i32)));
    let mut expressions = vec![Expr::new(tag, &branch.schema)?];
    for (slot, field) in result.fields().iter().enumerate().skip(1) {
        expressions.push(match slots.iter().position(|own| *own == slot) {
            Some(column) => Expr::column(column, &branch.schema)?,
            None => {
                let null = ScalarValue::try_new_null(field.data_type()).map_err(from_datafusion)?;
                Expr::new(literal(null), &branch.schema)?
            }
        });
    }
    Ok(Plan::new(Node::Project { input: Box::new(branch), expressions }, result.clone()))
}
