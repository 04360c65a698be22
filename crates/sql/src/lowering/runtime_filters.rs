//! Which scans can use what a join's build side learns.
//!
//! A hash join knows all build keys before it sees the first probe row. Where a probe row without a partner contributes
//! nothing, the scan that it came from may drop it at once. This file finds those scans: it follows a probe key that is
//! a plain column down to where the column is read.
//!
//! Invariant: between the join and the scan there is nothing that would answer differently with fewer rows than "the
//! same, less those rows": no LIMIT, no window, no other aggregate's input, no side of a join that is padded with
//! NULLs.

use datafusion_common::{JoinType, NullEquality};
use diligence_engine::plan::{HashJoin, NestedLoopJoin, Node, Plan, RuntimeFilterId};

/// Numbers a filter for every key of the join that some scan on the probe side can use, on both sides. `next` is the
/// number that the plan's next filter gets.
pub(crate) fn add(join: &mut HashJoin, next: &mut u32) {
    let probe_needs_partner = match join.join_type {
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftMark | JoinType::RightSemi => true,
        // With NOT IN semantics a NULL among the probe keys matters, so every probe row must arrive.
        JoinType::LeftAnti => !join.null_aware,
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark => false,
    };
    // A filter never lets a NULL through.
    if !probe_needs_partner || join.null_equality == NullEquality::NullEqualsNull || join.null_aware {
        return;
    }
    for (position, (_, probe)) in join.on.iter().enumerate() {
        let id = RuntimeFilterId(*next);
        if probe.as_column().is_some_and(|column| attach(&mut join.right, column, id)) {
            join.runtime_filters.push((id, position));
            *next += 1;
        }
    }
}

/// Gives the filter to every scan that feeds the plan's column. False if no scan can use it.
fn attach(plan: &mut Plan, column: usize, id: RuntimeFilterId) -> bool {
    match &mut plan.node {
        Node::Scan(scan) => {
            if scan.limit.is_some() {
                return false;
            }
            scan.runtime_filters.push((id, scan.columns[column]));
            true
        }
        Node::Filter { input, .. } | Node::Sort { input, fetch: None, .. } | Node::Exchange { input, .. } => {
            attach(input, column, id)
        }
        Node::Project { input, expressions } => match expressions[column].as_column() {
            Some(column) => attach(input, column, id),
            None => false,
        },
        Node::Aggregate(aggregate) => {
            // Without some of its rows a group would be another group: only whole groups may go.
            let grouped = column < aggregate.groups.len() && aggregate.grouping_sets.iter().all(|set| !set[column]);
            match aggregate.groups.get(column).and_then(|group| group.as_column()) {
                Some(column) if grouped && aggregate.limit.is_none() => attach(&mut aggregate.input, column, id),
                _ => false,
            }
        }
        Node::HashJoin(join) => attach_to_hash_join(join, column, id),
        Node::NestedLoopJoin(join) => attach_to_nested_loop_join(join, column, id),
        Node::Union { inputs } => inputs.iter_mut().fold(false, |attached, input| attach(input, column, id) | attached),
        Node::ScalarSubqueries { input, .. } => attach(input, column, id),
        Node::Window(window) => {
            // Without some of its rows a partition would be another one: only whole partitions may go.
            let is_partitioned = window.partition_by.iter().any(|key| key.as_column() == Some(column));
            is_partitioned && attach(&mut window.input, column, id)
        }
        // What a step does not find at once, a later one may need.
        Node::Recursive(_) | Node::WorkTable(_) => false,
        Node::Unnest(unnest) => match unnest.kept.get(column) {
            Some(column) => attach(&mut unnest.input, *column, id),
            None => false,
        },
        // Found when a query starts, after this.
        Node::Common(_) | Node::FragmentWise { .. } => false,
        Node::Write(_)
        | Node::Values { .. }
        | Node::Limit { .. }
        | Node::Sort { .. }
        | Node::Mask(_)
        | Node::Incoming(_) => false,
    }
}

fn attach_to_hash_join(join: &mut HashJoin, column: usize, id: RuntimeFilterId) -> bool {
    let column = join.projection.as_ref().map_or(column, |projection| projection[column]);
    let Some((side, column)) = origin(join.join_type, join.left.schema.fields().len(), column) else { return false };
    let mut attached = match side {
        Side::Left => attach(&mut join.left, column, id),
        Side::Right => attach(&mut join.right, column, id),
    };
    // A row that finds its partner by this column has the same value on both sides: the partners' scan can use the
    // filter just as well.
    if matches!(join.join_type, JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi) {
        for (left, right) in &join.on {
            attached |= match side {
                Side::Left if left.as_column() == Some(column) => {
                    right.as_column().is_some_and(|column| attach(&mut join.right, column, id))
                }
                Side::Right if right.as_column() == Some(column) => {
                    left.as_column().is_some_and(|column| attach(&mut join.left, column, id))
                }
                _ => false,
            };
        }
    }
    attached
}

fn attach_to_nested_loop_join(join: &mut NestedLoopJoin, column: usize, id: RuntimeFilterId) -> bool {
    let column = join.projection.as_ref().map_or(column, |projection| projection[column]);
    match origin(join.join_type, join.left.schema.fields().len(), column) {
        Some((Side::Left, column)) => attach(&mut join.left, column, id),
        Some((Side::Right, column)) => attach(&mut join.right, column, id),
        None => false,
    }
}

enum Side {
    Left,
    Right,
}

/// The input column behind a column of a join's full output, if dropping that input's rows drops just the output rows
/// with their values: not on a side that is padded with NULLs, and not the mark.
fn origin(join_type: JoinType, left_columns: usize, column: usize) -> Option<(Side, usize)> {
    let (left, right) = match join_type {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
        JoinType::Right => (false, true),
        JoinType::Full => (false, false),
        // Their output begins with the right input's columns.
        JoinType::RightSemi | JoinType::RightAnti => return Some((Side::Right, column)),
        JoinType::RightMark => return None,
    };
    if column < left_columns {
        left.then_some((Side::Left, column))
    } else {
        right.then_some((Side::Right, column - left_columns))
    }
}
