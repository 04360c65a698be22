//! How many rows a plan has at most, as far as one can know. Estimates of filters and groups are guesses, and too low a
//! one would end a query; too high a one costs the sort of rows that are few.

use datafusion_common::stats::Precision;
use diligence_storage::Table;

use crate::plan::{Node, Plan, PlanTables};

/// The rows of a plan at most; of joins, as many as are expected. `None` if nobody knows.
pub(super) fn rows_most(plan: &Plan, tables: &PlanTables) -> Option<usize> {
    let rows_most = |plan: &Plan| rows_most(plan, tables);
    match &plan.node {
        Node::Scan(scan) => match (tables.find(scan.table).and_then(|table| table_rows(table.as_ref())), scan.limit) {
            (Some(rows), Some(limit)) => Some(rows.min(limit)),
            (rows, limit) => rows.or(limit),
        },
        Node::Values { batches } => Some(batches.iter().map(|batch| batch.num_rows()).sum()),
        Node::Limit { input, fetch: Some(fetch), .. } | Node::Sort { input, fetch: Some(fetch), .. } => {
            Some(rows_most(input).map_or(*fetch, |rows| rows.min(*fetch)))
        }
        Node::Limit { input, .. }
        | Node::Sort { input, .. }
        | Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::Exchange { input, .. }
        | Node::FragmentWise { input, .. }
        | Node::ScalarSubqueries { input, .. } => rows_most(input),
        Node::Window(window) => rows_most(&window.input),
        Node::Mask(mask) => rows_most(&mask.input),
        Node::Common(common) => rows_most(&common.input),
        Node::Aggregate(aggregate) if aggregate.groups.is_empty() => Some(aggregate.grouping_sets.len()),
        Node::Aggregate(aggregate) => Some(rows_most(&aggregate.input)?.saturating_mul(aggregate.grouping_sets.len())),
        Node::HashJoin(join) => Some(rows_most(&join.left)?.max(rows_most(&join.right)?).max(plan.rows_estimate?)),
        Node::NestedLoopJoin(join) => Some(rows_most(&join.left)?.saturating_mul(rows_most(&join.right)?)),
        Node::Union { inputs } => {
            inputs.iter().map(rows_most).try_fold(0_usize, |sum, rows| Some(sum.saturating_add(rows?)))
        }
        Node::Write(_) => Some(1),
        Node::Unnest(_) | Node::WorkTable(_) | Node::Recursive(_) | Node::Incoming(_) => None,
    }
}

/// The rows of a table: a file of which nothing else is known has a byte for each at least.
fn table_rows(table: &dyn Table) -> Option<usize> {
    let statistics = table.statistics();
    [statistics.num_rows, statistics.total_byte_size].into_iter().find_map(|known| match known {
        Precision::Exact(most) | Precision::Inexact(most) => Some(most),
        Precision::Absent => None,
    })
}
