//! A plan as text: one node a line, inputs indented below. What its tables say of themselves is there if they are.

use std::fmt;

use arrow::util::display::array_value_to_string;
use datafusion_expr::WindowFrameBound;

use super::{Exclusion, Node, Plan, PlanTables, Scan, SortKey, WindowCall, WindowFunction};

/// A plan, or a node without its inputs, as text.
#[derive(Clone, Copy, Debug)]
pub struct ShownWith<'p, T> {
    what: &'p T,
    tables: &'p PlanTables,
}

impl Plan {
    /// As text, with what these tables say of themselves.
    pub fn shown<'p>(&'p self, tables: &'p PlanTables) -> ShownWith<'p, Plan> {
        ShownWith { what: self, tables }
    }
}

impl Node {
    /// As text on one line, with what these tables say of themselves.
    pub fn shown<'p>(&'p self, tables: &'p PlanTables) -> ShownWith<'p, Node> {
        ShownWith { what: self, tables }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown(&PlanTables::default()).fmt(f)
    }
}

impl fmt::Display for ShownWith<'_, Plan> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_indented(self.what, 0, self.tables, f)
    }
}

fn write_indented(plan: &Plan, depth: usize, tables: &PlanTables, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{:width$}{}", "", plan.node.shown(tables), width = depth * 2)?;
    if let Some(rows) = plan.rows_estimate {
        write!(f, "  (about {rows} rows)")?;
    }
    writeln!(f)?;
    plan.inputs().into_iter().try_for_each(|input| write_indented(input, depth + 1, tables, f))
}

fn write_scan(scan: &Scan, tables: &PlanTables, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (table, condition) = (tables.find(scan.table), scan.condition());
    let columns = list(scan.columns.iter().map(|&index| scan.table_schema.field(index).name()));
    write!(f, "Scan {} [{columns}]", scan.name)?;
    if let Some(table) = &table {
        write!(f, " {}", table.describe())?;
        if let Some(access) = condition.as_ref().and_then(|condition| table.access(condition)) {
            write!(f, ", {access}")?;
        }
    }
    if !scan.filters.is_empty() {
        write!(f, " where {}", scan.filters.iter().map(|e| e.to_string()).collect::<Vec<_>>().join(" AND "))?;
    }
    if let Some((wanted, all)) = table.and_then(|table| table.fragments(condition.as_ref())) {
        write!(f, ", fragments: {wanted} of {all}")?;
    }
    if !scan.runtime_filters.is_empty() {
        let name = |column: usize| scan.table_schema.field(column).name();
        let filters =
            scan.runtime_filters.iter().map(|(id, column)| format!("{} in join filter {}", name(*column), id.0));
        write!(f, " and {}", list(filters))?;
    }
    scan.limit.map_or(Ok(()), |limit| write!(f, " limit {limit}"))
}

fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.options.descending { "DESC" } else { "ASC" };
        let nulls = if self.options.nulls_first { "NULLS FIRST" } else { "NULLS LAST" };
        write!(f, "{} {direction} {nulls}", self.expression)
    }
}

impl fmt::Display for WindowCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut arguments = self.arguments.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (name, has_frame, ignore_nulls) = match &self.function {
            WindowFunction::RowNumber => ("row_number", false, false),
            WindowFunction::Rank => ("rank", false, false),
            WindowFunction::DenseRank => ("dense_rank", false, false),
            WindowFunction::PercentRank => ("percent_rank", false, false),
            WindowFunction::CumeDist => ("cume_dist", false, false),
            WindowFunction::Ntile(tiles) => {
                arguments = vec![tiles.to_string()];
                ("ntile", false, false)
            }
            WindowFunction::Shift { offset, default, ignore_nulls } => {
                arguments.push(offset.unsigned_abs().to_string());
                if !default.is_null() {
                    arguments.push(default.to_string());
                }
                (if *offset < 0 { "lead" } else { "lag" }, false, *ignore_nulls)
            }
            WindowFunction::Nth { nth: 1, ignore_nulls } => ("first_value", true, *ignore_nulls),
            WindowFunction::Nth { nth: -1, ignore_nulls } => ("last_value", true, *ignore_nulls),
            WindowFunction::Nth { nth, ignore_nulls } => {
                arguments.push(nth.to_string());
                ("nth_value", true, *ignore_nulls)
            }
            WindowFunction::NtileOf => ("ntile", false, false),
            WindowFunction::ShiftOf { is_ahead, ignore_nulls } => {
                (if *is_ahead { "lead" } else { "lag" }, false, *ignore_nulls)
            }
            WindowFunction::NthOf { ignore_nulls } => ("nth_value", true, *ignore_nulls),
            WindowFunction::Aggregate(function) => (function.fun().name(), true, function.ignore_nulls()),
        };
        let distinct = matches!(&self.function, WindowFunction::Aggregate(function) if function.is_distinct());
        write!(f, "{name}({}{})", if distinct { "DISTINCT " } else { "" }, arguments.join(", "))?;
        if ignore_nulls {
            f.write_str(" IGNORE NULLS")?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " where {filter}")?;
        }
        if !has_frame {
            return Ok(());
        }
        let bounds = [&self.frame.start_bound, &self.frame.end_bound].map(bound_text);
        write!(f, " {} BETWEEN {} AND {}", self.frame.units, bounds[0], bounds[1])?;
        f.write_str(match self.excludes {
            Exclusion::NoOthers => "",
            Exclusion::CurrentRow => " EXCLUDE CURRENT ROW",
            Exclusion::Group => " EXCLUDE GROUP",
            Exclusion::Ties => " EXCLUDE TIES",
        })
    }
}

/// A bound of a frame; distances as results show them.
fn bound_text(bound: &WindowFrameBound) -> String {
    let (distance, side) = match bound {
        WindowFrameBound::CurrentRow => return bound.to_string(),
        WindowFrameBound::Preceding(distance) => (distance, "PRECEDING"),
        WindowFrameBound::Following(distance) => (distance, "FOLLOWING"),
    };
    let shown = distance.to_array().ok().filter(|_| !distance.is_null());
    match shown.and_then(|shown| array_value_to_string(&shown, 0).ok()) {
        Some(shown) => format!("{shown} {side}"),
        None => bound.to_string(),
    }
}

impl fmt::Display for ShownWith<'_, Node> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Node::Scan(scan) => write_scan(scan, self.tables, f),
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
                let keys = list(keys);
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
            Node::Window(window) => {
                write!(f, "Window compute {}", list(&window.calls))?;
                if !window.partition_by.is_empty() {
                    write!(f, " partition by {}", list(&window.partition_by))?;
                }
                if !window.order_by.is_empty() {
                    write!(f, " order by {}", list(&window.order_by))?;
                }
                Ok(())
            }
            Node::Write(write) => write!(f, "Write {}", write.writer.describe()),
            Node::Union { inputs } => write!(f, "Union of {}", inputs.len()),
            Node::ScalarSubqueries { subqueries, .. } => write!(f, "ScalarSubqueries {}", subqueries.len()),
            Node::Mask(mask) => {
                let schema = &mask.input.schema;
                let columns = mask.lookups.iter().map(|(column, _)| column).chain(&mask.masks).chain(&mask.unwanted);
                let columns = columns.map(|&column| schema.field(column).name().to_string());
                let conditions = mask.conditions.iter().map(|(condition, _)| condition.to_string());
                write!(f, "Mask by {}", list(columns.chain(conditions)))?;
                if let Some((keys, wanted)) = &mask.first {
                    write!(f, ", first {wanted} of each by {}", list(keys))?;
                }
                Ok(())
            }
            Node::Exchange { pact, consumers, .. } => write!(f, "Exchange {pact} to {consumers}"),
            Node::Recursive(query) => {
                write!(f, "Recursive {}{}", query.name, if query.is_distinct { " distinct" } else { "" })
            }
            Node::WorkTable(table) => write!(f, "WorkTable {}", table.name),
            Node::Common(common) => {
                let parts = common.parts.iter().map(|part| format!("part {} for {} places", part.table.0, part.places));
                write!(f, "Common {}", list(parts))
            }
            Node::Unnest(unnest) => {
                let arrays = unnest.arrays.iter().map(|(array, _)| array.to_string());
                write!(f, "Unnest {}", list(arrays))?;
                if unnest.ordinality {
                    f.write_str(", with ordinality")?;
                }
                if unnest.keeps_all {
                    f.write_str(", keeping all rows")?;
                }
                Ok(())
            }
            Node::Incoming(_) => f.write_str("Incoming"),
            Node::FragmentWise { fragments, .. } => write!(f, "FragmentWise of {fragments}"),
        }
    }
}
