//! Parts of a plan: what is above and below a node, and what is expected of them.

use diligence_base::limits::SHARED_STATE_BYTES_MAX;

use crate::plan::estimates::row_bytes;
use crate::plan::{Node, Plan};

/// The highest aggregate with only nodes of one input above it, and how many.
pub(super) fn topmost_aggregate(plan: &Plan) -> Option<(usize, &Plan)> {
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
pub(crate) fn part_below(plan: &Plan, depth: usize) -> Option<&Plan> {
    (0..depth).try_fold(plan, |node, _| below(node))
}

/// How many nodes are above what only chooses and computes rows: behind the last that depends on which rows there are
/// beside each.
pub(super) fn depth_of_rows(plan: &Plan, depth: usize) -> usize {
    let depends = |node: &Node| {
        matches!(node, Node::Limit { .. } | Node::Sort { .. } | Node::Window(_) | Node::ScalarSubqueries { .. })
    };
    let chain = (depth..).map_while(|depth| part_below(plan, depth));
    let last = chain.enumerate().filter(|(_, node)| depends(&node.node)).map(|(place, _)| place).last();
    last.map_or(depth, |place| depth + place + 1)
}

/// How many nodes are above what gives rows in an order: a sort, with what is right above it and cuts or computes
/// columns. `None` if there is none.
pub(super) fn depth_of_order(plan: &Plan, depth: usize) -> Option<usize> {
    let mut first = depth;
    for place in depth.. {
        match part_below(plan, place)?.node {
            Node::Sort { .. } => return Some(first),
            Node::Project { .. } | Node::Limit { .. } => {}
            _ => first = place + 1,
        }
    }
    None
}

/// The plan with `part` in the place of what is below the cut.
pub(crate) fn with_part(plan: &Plan, depth: usize, part: Plan) -> Plan {
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
pub(crate) fn rows_touched(plan: &Plan, unknown: usize) -> usize {
    let own = match (plan.rows_estimate, &plan.node) {
        (Some(rows), _) => rows,
        (None, Node::Scan(_)) => unknown,
        (None, _) => 0,
    };
    plan.inputs().into_iter().fold(own, |sum, input| sum.saturating_add(rows_touched(input, unknown)))
}

/// Whether a plan, or a subquery in it, has rows of its own: a scan, or what is not known better.
pub(crate) fn reads_tables(plan: &Plan) -> bool {
    let has_rows = matches!(plan.node, Node::Scan(_) | Node::Incoming(_) | Node::Recursive(_));
    has_rows || plan.inputs().into_iter().any(reads_tables)
}

/// Whether the rows are expected to be few enough to be kept.
pub(super) fn is_small(plan: &Plan) -> bool {
    plan.rows_estimate.is_some_and(|rows| rows.saturating_mul(row_bytes(&plan.schema)) <= SHARED_STATE_BYTES_MAX / 2)
}

/// The rows at the point up to which those of several queries can go together: an aggregate's input.
pub(super) fn rows_of(point: &Plan) -> &Plan {
    match &point.node {
        Node::Aggregate(aggregate) => &aggregate.input,
        _ => point,
    }
}
