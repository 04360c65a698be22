//! What a plan is expected to need: for whoever decides which queries run at the same time.
//!
//! Guesses from the plan alone. They err towards more: of what is unknown a table's size is taken, and memory is added
//! up over all operators although not all of them hold theirs at once.

use super::estimates::{HASH_ROW_BYTES, MADE_ROWS, SORT_ROW_BYTES, UNKNOWN_ROWS, row_bytes, table_rows};
use super::{Node, Plan, PlanTables, Scan};

/// What a query is expected to need, or has needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Rows that all operators together touch.
    pub rows: usize,
    /// Bytes that its operators hold.
    pub memory_bytes: usize,
}

impl Plan {
    /// What running this with these tables is expected to need.
    pub fn needs(&self, tables: &PlanTables) -> Needs {
        let mut needs = Needs::default();
        add(self, None, tables, &mut needs);
        needs
    }
}

/// Adds what a plan needs from which at most `wanted` rows are taken, and gives the rows that come out.
fn add(plan: &Plan, wanted: Option<usize>, tables: &PlanTables, needs: &mut Needs) -> usize {
    let bounded = |rows: usize| wanted.map_or(rows, |wanted| rows.min(wanted));
    let (rows, held) = match &plan.node {
        Node::Scan(scan) => {
            let read = scanned(scan, wanted, tables);
            needs.rows = needs.rows.saturating_add(read);
            return bounded(plan.rows_estimate.unwrap_or(read).min(read));
        }
        Node::Values { batches } => (batches.iter().map(|batch| batch.num_rows()).sum(), 0),
        Node::WorkTable(_) => (plan.rows_estimate.unwrap_or(MADE_ROWS), 0),
        // Rows go through: whoever wants few of them has few read.
        Node::Project { input, .. } | Node::Exchange { input, .. } | Node::FragmentWise { input, .. } => {
            (add(input, wanted, tables, needs), 0)
        }
        Node::Limit { input, skip, fetch } => {
            let wanted = fetch.map(|fetch| bounded(fetch).saturating_add(*skip)).or(wanted);
            (add(input, wanted, tables, needs), 0)
        }
        Node::Filter { input, .. } => (add(input, None, tables, needs), 0),
        Node::Unnest(unnest) => (add(&unnest.input, None, tables, needs), 0),
        Node::Mask(mask) => (add(&mask.input, None, tables, needs), 0),
        Node::Write(write) => (add(&write.input, None, tables, needs), 0),
        Node::Union { inputs } => (sum(inputs.iter().map(|input| add(input, wanted, tables, needs))), 0),
        Node::ScalarSubqueries { input, subqueries, .. } => {
            subqueries.iter().for_each(|subquery| {
                add(subquery, None, tables, needs);
            });
            (add(input, wanted, tables, needs), 0)
        }
        Node::Sort { input, fetch, .. } => {
            let rows = add(input, None, tables, needs);
            let kept = fetch.map_or(rows, |fetch| rows.min(fetch));
            (kept, kept.saturating_mul(row_bytes(&input.schema) + SORT_ROW_BYTES))
        }
        Node::HashJoin(join) => {
            let build = add(&join.left, None, tables, needs);
            let probe = add(&join.right, None, tables, needs);
            (build.max(probe), build.saturating_mul(row_bytes(&join.left.schema) + HASH_ROW_BYTES))
        }
        Node::NestedLoopJoin(join) => {
            let held = add(&join.left, None, tables, needs);
            let streamed = add(&join.right, None, tables, needs);
            // All pairs are looked at, whether they come out or not.
            let pairs = bounded(held.saturating_mul(streamed));
            needs.rows = needs.rows.saturating_add(pairs);
            (pairs, held.saturating_mul(row_bytes(&join.left.schema)))
        }
        Node::Aggregate(aggregate) => {
            let rows = add(&aggregate.input, None, tables, needs);
            let groups = match aggregate.groups.is_empty() {
                true => 1,
                false => plan.rows_estimate.unwrap_or(rows).min(rows),
            };
            (groups, groups.saturating_mul(row_bytes(&plan.schema) + HASH_ROW_BYTES))
        }
        Node::Window(window) => {
            let rows = add(&window.input, None, tables, needs);
            (rows, rows.saturating_mul(row_bytes(&plan.schema)))
        }
        Node::Recursive(query) => {
            let rows = add(&query.base, None, tables, needs).saturating_add(add(&query.step, None, tables, needs));
            (rows, rows.saturating_mul(row_bytes(&plan.schema) + HASH_ROW_BYTES))
        }
        Node::Common(common) => {
            let held = common.parts.iter().map(|part| {
                let rows = add(&part.plan, None, tables, needs);
                rows.saturating_mul(row_bytes(&part.plan.schema))
            });
            let held = sum(held);
            (add(&common.input, wanted, tables, needs), held)
        }
        Node::Incoming(_) => (MADE_ROWS, 0),
    };
    let rows = bounded(plan.rows_estimate.unwrap_or(rows));
    needs.rows = needs.rows.saturating_add(rows);
    needs.memory_bytes = needs.memory_bytes.saturating_add(held);
    rows
}

fn sum(rows: impl Iterator<Item = usize>) -> usize {
    rows.fold(0, usize::saturating_add)
}

/// Rows that a scan reads. Clusters that statistics prove to be of no use are not known yet and counted.
fn scanned(scan: &Scan, wanted: Option<usize>, tables: &PlanTables) -> usize {
    let rows = tables.find(scan.table).map_or(UNKNOWN_ROWS, |table| table_rows(table.as_ref()));
    let wanted = match (wanted, scan.limit) {
        (Some(wanted), Some(limit)) => Some(wanted.min(limit)),
        (wanted, limit) => wanted.or(limit),
    };
    match wanted {
        // With filters nobody knows how many rows have to be read for so many.
        Some(wanted) if scan.filters.is_empty() && scan.runtime_filters.is_empty() => rows.min(wanted),
        _ => rows,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use arrow::compute::SortOptions;
    use diligence_base::ids::TableVersion;
    use diligence_storage::memory::MemoryTable;

    use super::super::{NestedLoopJoin, SortKey};
    use super::*;
    use crate::expressions::Expr;

    /// A scan of a table with 10,000 rows of one number.
    fn scan() -> (Plan, PlanTables) {
        let batch =
            RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from_iter_values(0..10_000)) as _)]).unwrap();
        let schema = batch.schema();
        let table = MemoryTable::new("t".to_owned(), schema.clone(), vec![batch], TableVersion(1)).unwrap();
        let plan = Plan::new(Node::Scan(Scan::new(&table, "t", vec![0])), schema);
        (plan, [Arc::new(table) as _].into_iter().collect())
    }

    fn limit(input: Plan, fetch: usize) -> Plan {
        let schema = input.schema.clone();
        Plan::new(Node::Limit { input: Box::new(input), skip: 0, fetch: Some(fetch) }, schema)
    }

    fn sort(input: Plan) -> Plan {
        let schema = input.schema.clone();
        let expression = Expr::column(0, &schema).unwrap();
        let keys = vec![SortKey { expression, options: SortOptions::default() }];
        Plan::new(Node::Sort { input: Box::new(input), keys, fetch: None }, schema)
    }

    #[test]
    fn whoever_wants_few_rows_has_few_read_unless_all_must_be_seen() {
        let (scan, tables) = scan();
        assert_eq!(scan.needs(&tables), Needs { rows: 10_000, memory_bytes: 0 });
        assert!(limit(scan.clone(), 5).needs(&tables).rows <= 10);
        let sorted = limit(sort(scan), 5).needs(&tables);
        assert!(sorted.rows >= 10_000 && sorted.memory_bytes >= 80_000, "{sorted:?}");
    }

    #[test]
    fn pairs_count_and_sums_do_not_overflow() {
        let (mut plan, tables) = scan();
        let one = plan.clone();
        for _ in 0..8 {
            let schema = plan.schema.clone();
            let (left, right) = (Box::new(one.clone()), Box::new(plan));
            let join = NestedLoopJoin {
                left,
                right,
                filter: None,
                join_type: datafusion_common::JoinType::Inner,
                projection: None,
            };
            plan = Plan::new(Node::NestedLoopJoin(join), schema);
        }
        assert_eq!(plan.needs(&tables).rows, usize::MAX);
    }
}
