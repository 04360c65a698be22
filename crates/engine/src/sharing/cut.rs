//! Where a plan is cut in two: what is worth sharing, and what each query does for itself.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use diligence_base::limits::SHARED_STATE_BYTES_MAX;

use super::signature::Signature;
use super::{Parameter, SharingMode, regroup};
use crate::memory::display_bytes;
use crate::plan::{Node, Plan};
use crate::query::QueryOptions;

/// Bytes that a string is taken for.
const STRING_BYTES: usize = 24;

/// What a query would share.
#[derive(Clone)]
pub(crate) struct Wish {
    /// How many nodes are above the cut.
    pub depth: usize,
    /// What is below the cut.
    pub exact: Signature,
    /// The same without its constants, and those; `None` if it cannot be merged.
    pub template: Option<(Signature, Arc<Vec<Parameter>>)>,
}

/// Why a query is to run for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    Off,
    /// It is expected to touch fewer rows than this.
    Small(usize),
    /// Its rows are expected to be too many to be kept, or nothing is known of them.
    Large,
    /// It has something that cannot be compared.
    Unknown,
}

impl fmt::Display for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alone::Off => f.write_str("it is off"),
            Alone::Small(rows) => write!(f, "it is expected to touch fewer than {rows} rows"),
            Alone::Large => {
                let bytes = display_bytes(SHARED_STATE_BYTES_MAX / 2);
                write!(f, "it is not known that its rows have at most {bytes}")
            }
            Alone::Unknown => f.write_str(
                "it has a function whose value may differ from one call to the next, or an operator that is not compared (windows, scalar \
                 subqueries, rows in the statement, recursion, DataFusion's own)",
            ),
        }
    }
}

impl Wish {
    /// What a query with this plan would share, or why it is to run for itself.
    pub fn of(plan: &Plan, options: &QueryOptions) -> Result<Self, Alone> {
        if matches!(options.sharing, SharingMode::Off | SharingMode::Scans) {
            return Err(Alone::Off);
        }
        if rows_touched(plan, options.sharing_rows_min) < options.sharing_rows_min {
            return Err(Alone::Small(options.sharing_rows_min));
        }
        if let Some((depth, aggregate)) = topmost_aggregate(plan)
            && is_small(aggregate)
        {
            let exact = Signature::exact(aggregate, options).ok_or(Alone::Unknown)?;
            let template = match &aggregate.node {
                Node::Aggregate(node) if options.sharing == SharingMode::All && regroup::can_merge(node) => {
                    Signature::template(aggregate, options)
                }
                _ => None,
            };
            let template = template.map(|(template, parameters)| (template, Arc::new(parameters)));
            return Ok(Self { depth, exact, template });
        }
        if !is_small(plan) {
            return Err(Alone::Large);
        }
        Ok(Self { depth: 0, exact: Signature::exact(plan, options).ok_or(Alone::Unknown)?, template: None })
    }
}

/// The highest aggregate with only nodes of one input above it, and how many.
fn topmost_aggregate(plan: &Plan) -> Option<(usize, &Plan)> {
    let mut node = plan;
    for depth in 0.. {
        if matches!(node.node, Node::Aggregate(_)) {
            return Some((depth, node));
        }
        node = below(node)?;
    }
    None
}

/// The node below one that a cut may have above it.
fn below(plan: &Plan) -> Option<&Plan> {
    match &plan.node {
        Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::Limit { input, .. }
        | Node::Sort { input, .. }
        | Node::ScalarSubqueries { input, .. } => Some(input),
        Node::Window(window) => Some(&window.input),
        _ => None,
    }
}

/// The plan below the cut.
pub(super) fn part_below(plan: &Plan, depth: usize) -> Option<&Plan> {
    (0..depth).try_fold(plan, |node, _| below(node))
}

/// How many nodes are above what only chooses and computes rows: behind the last that depends on which rows there are beside each.
pub(super) fn depth_of_rows(plan: &Plan, depth: usize) -> usize {
    let depends = |node: &Node| {
        matches!(node, Node::Limit { .. } | Node::Sort { .. } | Node::Window(_) | Node::ScalarSubqueries { .. })
    };
    let chain = (depth..).map_while(|depth| part_below(plan, depth));
    let last = chain.enumerate().filter(|(_, node)| depends(&node.node)).map(|(place, _)| place).last();
    last.map_or(depth, |place| depth + place + 1)
}

/// The plan with `part` in the place of what is below the cut.
pub(super) fn with_part(plan: &Plan, depth: usize, part: Plan) -> Plan {
    let Some(above) = depth.checked_sub(1) else { return part };
    let mut changed = plan.clone();
    match &mut changed.node {
        Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::Limit { input, .. }
        | Node::Sort { input, .. }
        | Node::ScalarSubqueries { input, .. } => **input = with_part(input, above, part),
        Node::Window(window) => *window.input = with_part(&window.input, above, part),
        _ => {}
    }
    changed
}

/// Rows that all nodes together are expected to give; a scan of unknown size counts as large.
pub(super) fn rows_touched(plan: &Plan, unknown: usize) -> usize {
    let own = match (plan.rows_estimate, &plan.node) {
        (Some(rows), _) => rows,
        (None, Node::Scan(_)) => unknown,
        (None, _) => 0,
    };
    plan.inputs().into_iter().fold(own, |sum, input| sum.saturating_add(rows_touched(input, unknown)))
}

/// Whether the rows are expected to be few enough to be kept.
fn is_small(plan: &Plan) -> bool {
    plan.rows_estimate.is_some_and(|rows| rows.saturating_mul(row_bytes(&plan.schema)) <= SHARED_STATE_BYTES_MAX / 2)
}

pub(super) fn row_bytes(schema: &Schema) -> usize {
    let bytes = |data_type: &DataType| data_type.primitive_width().unwrap_or(STRING_BYTES);
    schema.fields().iter().map(|field| bytes(field.data_type())).sum::<usize>().max(1)
}
