//! A plan as text: one node a line, inputs indented below.

use std::fmt;

use super::{Node, Plan};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_indented(self, 0, f)
    }
}

fn write_indented(plan: &Plan, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{:width$}{}", "", plan.node, width = depth * 2)?;
    if let Some(rows) = plan.rows_estimate {
        write!(f, "  (about {rows} rows)")?;
    }
    writeln!(f)?;
    plan.inputs().into_iter().try_for_each(|input| write_indented(input, depth + 1, f))
}

fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Scan(scan) => {
                let schema = scan.table.schema();
                let columns = list(scan.columns.iter().map(|&index| schema.field(index).name()));
                write!(f, "Scan {} [{columns}] {}", scan.name, scan.table.describe())?;
                if !scan.filters.is_empty() {
                    write!(
                        f,
                        " where {}",
                        scan.filters.iter().map(|e| e.to_string()).collect::<Vec<_>>().join(" AND ")
                    )?;
                }
                if !scan.runtime_filters.is_empty() {
                    let filters = scan
                        .runtime_filters
                        .iter()
                        .map(|(id, column)| format!("{} in join filter {}", schema.field(*column).name(), id.0));
                    write!(f, " and {}", list(filters))?;
                }
                if let Some(limit) = scan.limit {
                    write!(f, " limit {limit}")?;
                }
                Ok(())
            }
            Node::Values { batches } => {
                write!(f, "Values {} rows", batches.iter().map(|batch| batch.num_rows()).sum::<usize>())
            }
            Node::Filter { predicate, .. } => write!(f, "Filter {predicate}"),
            Node::Project { expressions, .. } => write!(f, "Project {}", list(expressions)),
            Node::Limit { skip, fetch, .. } => {
                f.write_str("Limit")?;
                if let Some(fetch) = fetch {
                    write!(f, " {fetch}")?;
                }
                if *skip > 0 { write!(f, " skip {skip}") } else { Ok(()) }
            }
            Node::Sort { keys, fetch, .. } => {
                let keys = list(keys.iter().map(|key| {
                    let direction = if key.options.descending { "DESC" } else { "ASC" };
                    let nulls = if key.options.nulls_first { "NULLS FIRST" } else { "NULLS LAST" };
                    format!("{} {direction} {nulls}", key.expression)
                }));
                match fetch {
                    Some(fetch) => write!(f, "TopN {fetch} by {keys}"),
                    None => write!(f, "Sort by {keys}"),
                }
            }
            Node::HashJoin(join) => {
                write!(
                    f,
                    "HashJoin {} on {}",
                    join.join_type,
                    list(join.on.iter().map(|(l, r)| format!("{l} = {r}")))
                )?;
                if let Some(filter) = &join.filter {
                    write!(f, " and {}", filter.expression)?;
                }
                if join.null_aware {
                    f.write_str(" null-aware")?;
                }
                if !join.runtime_filters.is_empty() {
                    write!(f, " makes join filter {}", list(join.runtime_filters.iter().map(|(id, _)| id.0)))?;
                }
                Ok(())
            }
            Node::NestedLoopJoin(join) => match &join.filter {
                Some(filter) => write!(f, "NestedLoopJoin {} on {}", join.join_type, filter.expression),
                None => write!(f, "CrossJoin {}", join.join_type),
            },
            Node::Aggregate(aggregate) => {
                f.write_str("Aggregate")?;
                if aggregate.grouping_sets.len() > 1 {
                    write!(f, " {} grouping sets of", aggregate.grouping_sets.len())?;
                }
                if !aggregate.groups.is_empty() {
                    write!(f, " by {}", list(&aggregate.groups))?;
                }
                if !aggregate.aggregates.is_empty() {
                    write!(f, " compute {}", list(aggregate.aggregates.iter().map(|call| call.function.name())))?;
                }
                Ok(())
            }
            Node::Union { inputs } => write!(f, "Union of {}", inputs.len()),
            Node::ScalarSubqueries { subqueries, .. } => write!(f, "ScalarSubqueries {}", subqueries.len()),
            Node::Exchange { pact, consumers, .. } => write!(f, "Exchange {pact} to {consumers}"),
            Node::Foreign(foreign) => write!(f, "Foreign {}", foreign.operator.name()),
        }
    }
}
