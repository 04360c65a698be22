//! The first rows in the order of an index, in the place of all rows that are put in order: for ORDER BY … LIMIT, and
//! for min() and max() of whole tables.
//!
//! What is above the scan stays: a sort of few rows costs little, and a scan may give rows beside those that are
//! wanted.

use std::borrow::Cow;
use std::sync::Arc;

use diligence_storage::{FirstRows, OrderColumn, Table};

use super::{Aggregate, Node, Plan, PlanTables, Scan, SortKey};

/// Rows that are looked for by an index, at most: more are put in order sooner.
const ROWS_MAX: usize = 10_000;

/// The plan with scans of few rows, where their tables have the order, and adds what is scanned then to the tables;
/// otherwise the plan itself.
pub(crate) fn with_first_rows<'p>(plan: Cow<'p, Plan>, tables: &mut PlanTables) -> Cow<'p, Plan> {
    match any(&plan) {
        true => {
            let mut plan = plan.into_owned();
            put(&mut plan, tables);
            Cow::Owned(plan)
        }
        false => plan,
    }
}

fn any(plan: &Plan) -> bool {
    wanted(plan).is_some() || plan.inputs().into_iter().any(any)
}

fn put(plan: &mut Plan, tables: &mut PlanTables) {
    if let Some(wanted) = wanted(plan)
        && let Some(scan) = plan.inputs_mut().into_iter().find_map(scan_of_mut)
        && let Some(table) = few(scan, &wanted, tables)
    {
        scan.table = tables.add(table);
        return;
    }
    plan.inputs_mut().into_iter().for_each(|input| put(input, tables));
}

/// The table with those of a scan's rows that are wanted.
fn few(scan: &Scan, wanted: &[FirstRows], tables: &PlanTables) -> Option<Arc<dyn Table>> {
    tables.find(scan.table)?.first_rows(scan.condition().as_ref(), wanted)
}

/// Which rows of the scan below it are all that a node needs; `None` if it needs others.
fn wanted(plan: &Plan) -> Option<Vec<FirstRows>> {
    match &plan.node {
        Node::Sort { input, keys, fetch: Some(rows) } if *rows <= ROWS_MAX => {
            let order = keys.iter().map(|SortKey { expression, options }| {
                let column = source(input, expression.as_column()?)?;
                Some(OrderColumn { column, descending: options.descending, nulls_first: Some(options.nulls_first) })
            });
            Some(vec![FirstRows { order: order.collect::<Option<_>>()?, rows: *rows }])
        }
        Node::Aggregate(Aggregate { input, groups, aggregates, grouping_sets, .. })
            if groups.is_empty() && grouping_sets.len() <= 1 && !aggregates.is_empty() =>
        {
            let wanted = aggregates.iter().map(|call| {
                let descending = match call.function.fun().name() {
                    "min" => false,
                    "max" => true,
                    _ => return None,
                };
                let ([argument], None) = (call.arguments.as_slice(), &call.filter) else { return None };
                let column = source(input, argument.as_column()?)?;
                Some(FirstRows { order: vec![OrderColumn { column, descending, nulls_first: None }], rows: 1 })
            });
            wanted.collect()
        }
        _ => None,
    }
}

/// The column of the table below from which a column comes, if nothing but a scan and columns in another order are
/// below.
fn source(plan: &Plan, column: usize) -> Option<usize> {
    match &plan.node {
        Node::Project { input, expressions } => source(input, expressions.get(column)?.as_column()?),
        Node::Scan(scan) if scan.runtime_filters.is_empty() && scan.limit.is_none() => {
            scan.columns.get(column).copied()
        }
        _ => None,
    }
}

fn scan_of_mut(plan: &mut Plan) -> Option<&mut Scan> {
    match &mut plan.node {
        Node::Project { input, .. } => scan_of_mut(input),
        Node::Scan(scan) => Some(scan),
        _ => None,
    }
}
