//! Parts that a plan has several times, computed once: common table expressions that are named twice, and what a
//! subquery repeats of its query. (A plan is a tree, and DataFusion puts a common table expression in every place that
//! names it.)
//!
//! ```text
//!        Join                             Common part 0 for 2 places
//!       /    \                           /                \
//!   Filter   Aggregate    becomes   Aggregate             Join
//!     |         |                       |                /    \
//!   Aggregate   X                       X            Filter   WorkTable part 0
//!     |                                                |
//!     X                                            WorkTable part 0
//! ```
//!
//! Invariants:
//! * Two parts are one if they have equal [signatures](Signature): they give the same rows in the same columns. Nobody
//!   depends on their order.
//! * A part is not computed where nobody may want its rows: it ends in groups or sorted rows, or all its rows are
//!   wanted.

use std::collections::HashMap;

use arrow::datatypes::SchemaRef;
use diligence_base::ids::TableIdentity;

use super::parts::rows_touched;
use super::signature::Signature;
use crate::options::{QueryOptions, SharingMode};
use crate::plan::estimates::row_bytes;
use crate::plan::{Common, CommonPart, Node, Plan, RuntimeFilterId, WorkTable, WorkTableId};

/// Rows of a join are kept if computing them again touches so many times as many.
const JOIN_GAIN_MIN: usize = 4;
/// The same of groups, which are few as a rule.
const GROUPS_GAIN_MIN: usize = 2;
/// Parts of one plan at most.
const PARTS_MAX: usize = 32;

/// Where a node is: which input to take, from the top.
type Path = Vec<usize>;

/// A part that may be common.
struct Candidate {
    path: Path,
    /// Whether it has all the join filters that its scans use.
    is_closed: bool,
}

/// The plan with its common parts computed once; `None` if it has none that are worth it, or if nothing is to be
/// shared. Parts are expected to have `bytes_max` bytes at most.
pub(crate) fn with_common_parts(plan: &Plan, options: &QueryOptions, bytes_max: usize) -> Option<Plan> {
    if matches!(options.sharing, SharingMode::Off | SharingMode::Scans) || !reads_twice(plan) {
        return None;
    }
    let mut found: Option<Plan> = None;
    for _ in 0..PARTS_MAX {
        let plan = found.as_ref().unwrap_or(plan);
        let Some(paths) = largest(plan, options, bytes_max) else { break };
        found = Some(with_part(plan, &paths));
    }
    found
}

/// Whether any table is read more than once: most plans need no closer look.
fn reads_twice(plan: &Plan) -> bool {
    let mut tables = HashMap::new();
    count_tables(plan, &mut tables);
    tables.into_values().any(|count| count > 1)
}

fn count_tables(plan: &Plan, tables: &mut HashMap<TableIdentity, usize>) {
    if let Node::Scan(scan) = &plan.node {
        *tables.entry(scan.table).or_default() += 1;
    }
    plan.inputs().into_iter().for_each(|input| count_tables(input, tables));
}

/// The places of the largest common part, one that is closed first; `None` if there is none.
fn largest(plan: &Plan, options: &QueryOptions, bytes_max: usize) -> Option<Vec<Path>> {
    let mut tables = HashMap::new();
    count_tables(plan, &mut tables);
    let mut candidates = Vec::new();
    let repeated = |plan: &Plan| {
        let mut own = HashMap::new();
        count_tables(plan, &mut own);
        !own.is_empty() && own.iter().all(|(table, count)| tables[table] > *count)
    };
    walk(plan, Vec::new(), false, &mut |plan, path, may_stop| {
        if is_worth_it(plan, may_stop, options, bytes_max) && repeated(plan) {
            candidates.push((plan, path.clone()));
        }
    });
    let mut by_signature: HashMap<Signature, Vec<Candidate>> = HashMap::new();
    let mut order = Vec::new();
    for (plan, path) in candidates {
        let Some((signature, is_closed)) = Signature::part(plan, options) else { continue };
        order.push(signature.clone());
        by_signature.entry(signature).or_default().push(Candidate { path, is_closed });
    }
    // What is above comes first, so the first that is there twice is part of no other.
    order.into_iter().find_map(|signature| {
        let mut places = by_signature.remove(&signature)?;
        // One that is computed without the filters of joins above it has all the rows of the others.
        let first = places.iter().position(|place| place.is_closed)?;
        places.swap(0, first);
        (places.len() > 1).then(|| places.into_iter().map(|place| place.path).collect())
    })
}

/// Calls `visit` for each node below which nothing runs more than once. `may_stop`: somebody above may want only some
/// of the rows.
fn walk<'a>(plan: &'a Plan, path: Path, may_stop: bool, visit: &mut impl FnMut(&'a Plan, &Path, bool)) {
    visit(plan, &path, may_stop);
    let below = |input: usize| match &plan.node {
        Node::Limit { .. } => true,
        Node::Sort { .. } | Node::Aggregate(_) => false,
        // The build side is read to its end.
        Node::HashJoin(_) | Node::NestedLoopJoin(_) => may_stop && input == 1,
        Node::Common(common) => may_stop && input == common.parts.len(),
        _ => may_stop,
    };
    if matches!(plan.node, Node::Recursive(_) | Node::FragmentWise { .. }) {
        return;
    }
    for (input, plan) in plan.inputs().into_iter().enumerate() {
        let mut path = path.clone();
        path.push(input);
        walk(plan, path, below(input), visit);
    }
}

/// Whether keeping a part's rows costs less than computing them again.
fn is_worth_it(plan: &Plan, may_stop: bool, options: &QueryOptions, bytes_max: usize) -> bool {
    let mut top = plan;
    while let Node::Filter { input, .. } | Node::Project { input, .. } = &top.node {
        top = input;
    }
    let gain_min = match &top.node {
        Node::Aggregate(_) | Node::Sort { fetch: Some(_), .. } => GROUPS_GAIN_MIN,
        Node::HashJoin(_) | Node::NestedLoopJoin(_) if !may_stop => JOIN_GAIN_MIN,
        _ => return false,
    };
    let touched = rows_touched(plan, options.sharing_rows_min);
    let gains = match plan.rows_estimate {
        Some(rows) => {
            rows.saturating_mul(gain_min) <= touched && rows.saturating_mul(row_bytes(&plan.schema)) <= bytes_max
        }
        // Of text files nothing is known; groups are fewer than their rows.
        None => gain_min == GROUPS_GAIN_MIN,
    };
    gains && !plan.ordered && touched >= options.sharing_rows_min
}

fn at<'a>(plan: &'a Plan, path: &[usize]) -> &'a Plan {
    path.iter().fold(plan, |plan, &input| plan.inputs()[input])
}

fn at_mut<'a>(plan: &'a mut Plan, path: &[usize]) -> &'a mut Plan {
    path.iter().fold(plan, |plan, &input| plan.inputs_mut().swap_remove(input))
}

/// The plan with the part at these places computed once, as it is at the first of them.
fn with_part(plan: &Plan, places: &[Path]) -> Plan {
    let mut plan = plan.clone();
    let table = WorkTableId(next_table(&plan));
    let part = at(&plan, &places[0]).clone();
    for path in places {
        let place = at_mut(&mut plan, path);
        let columns = (0..place.schema.fields().len()).collect();
        let name = format!("part {}", table.0);
        // Names are those of the place.
        place.node = Node::WorkTable(WorkTable { table, name, columns });
        place.rows_estimate = part.rows_estimate;
    }
    let around = places.iter().skip(1).fold(places[0].as_slice(), |around, path| {
        let common = around.iter().zip(path).take_while(|(left, right)| left == right).count();
        &around[..common]
    });
    let around = at_mut(&mut plan, around);
    let (schema, rows_estimate, ordered) = (around.schema.clone(), around.rows_estimate, around.ordered);
    let nothing = Plan::new(Node::Values { batches: Vec::new() }, schema.clone());
    let input = Box::new(std::mem::replace(around, nothing));
    let parts = vec![CommonPart { plan: part, table, places: places.len() }];
    *around = Plan { node: Node::Common(Common { parts, input }), schema, rows_estimate, ordered };
    let mut used = Vec::new();
    add_used_filters(&plan, &mut used);
    drop_unused_filters(&mut plan, &used);
    plan
}

/// A place that reads all columns of a part.
pub(super) fn place_of(table: WorkTableId, schema: &SchemaRef) -> Plan {
    let columns = (0..schema.fields().len()).collect();
    Plan::new(Node::WorkTable(WorkTable { table, name: format!("part {}", table.0), columns }), schema.clone())
}

pub(super) fn next_table(plan: &Plan) -> u32 {
    let own = match &plan.node {
        Node::Recursive(query) => query.table.0 + 1,
        Node::Common(common) => common.parts.iter().map(|part| part.table.0 + 1).max().unwrap_or(0),
        _ => 0,
    };
    plan.inputs().into_iter().map(next_table).fold(own, u32::max)
}

fn add_used_filters(plan: &Plan, used: &mut Vec<RuntimeFilterId>) {
    if let Node::Scan(scan) = &plan.node {
        used.extend(scan.runtime_filters.iter().map(|(id, _)| *id));
    }
    plan.inputs().into_iter().for_each(|input| add_used_filters(input, used));
}

/// Joins make no filters whose scans are gone.
fn drop_unused_filters(plan: &mut Plan, used: &[RuntimeFilterId]) {
    if let Node::HashJoin(join) = &mut plan.node {
        join.runtime_filters.retain(|(id, _)| used.contains(id));
    }
    plan.inputs_mut().into_iter().for_each(|input| drop_unused_filters(input, used));
}
