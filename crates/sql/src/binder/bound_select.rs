//! The clauses of a SELECT, bound, and the operators that they become, from the bottom up.

use std::collections::HashSet;

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{Distinct, NamedWindowDefinition, OrderBy, Select, TableFactor, TableWithJoins};

use super::grouping::Groups;
use super::order::{By, Key};
use super::scope::{Clause, Item, Level, WindowUse, Withs};
use super::sides::JoinedSide;
use super::syntax::has_groups;
use super::{Binder, Output, Rows, name_place, normalized, place, placed};
use crate::algebra::{Column, ColumnId, FunctionItem, Relation, Scalar, SortKey, TableFunction};
use crate::errors;

/// Functions that give rows, for each row of a relation.
fn rows_on(input: Relation, items: Vec<FunctionItem>) -> Relation {
    Relation::TableFunction(TableFunction { input: Box::new(input), items, ordinality: None, keeps_all: false })
}

/// The functions that give rows which are called when DISTINCT ON has chosen its rows, as in PostgreSQL: all of them,
/// if nothing that is compared reads what they give.
fn called_after_choice(
    layers: &mut Vec<Vec<FunctionItem>>,
    keys: &[Key<'_>],
    on: &[By],
    items: &[Item<'_>],
) -> Vec<Vec<FunctionItem>> {
    let given = given_columns(layers);
    let reads = |by: &By| match by {
        By::Item(item) => items.get(*item).is_some_and(|item| reads_any(&item.scalar, &given)),
        By::Scalar(scalar) => reads_any(scalar, &given),
    };
    match keys.iter().map(|key| &key.by).chain(on).any(reads) {
        true => vec![],
        false => std::mem::take(layers),
    }
}

/// The columns that functions give.
fn given_columns(layers: &[Vec<FunctionItem>]) -> HashSet<ColumnId> {
    layers.iter().flatten().flat_map(|item| &item.columns).map(|column| column.id).collect()
}

fn reads_any(scalar: &Scalar, columns: &HashSet<ColumnId>) -> bool {
    !columns.is_empty() && scalar.columns().iter().any(|id| columns.contains(id))
}

/// Fails with 42P20 if WINDOW defines a name twice.
fn refuse_equal_windows(windows: &[NamedWindowDefinition]) -> Result<()> {
    let name = |window: &NamedWindowDefinition| normalized(&window.0);
    for (place, window) in windows.iter().enumerate() {
        if windows[..place].iter().any(|other| name(other) == name(window)) {
            let error = Error::input(format!("window \"{}\" is already defined", name(window))).with_code("42P20");
            return Err(errors::at(error, name_place(&window.0)));
        }
    }
    Ok(())
}

/// Fails with 42P19 if aggregates are over the rows of the recursive query that their SELECT is a part of: with each
/// step they give a row, so that there is no end. Subqueries in FROM may have them.
fn refuse_recursive_aggregates(from: &[TableWithJoins], withs: &Withs<'_>) -> Result<()> {
    let sides = from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    for side in sides {
        match side {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                refuse_recursive_aggregates(std::slice::from_ref(table_with_joins), withs)?;
            }
            TableFactor::Table { name, args: None, .. } => {
                let [part] = name.0.as_slice() else { continue };
                let Some(name) = part.as_ident() else { continue };
                if withs.find(&normalized(name)).is_some_and(|entry| entry.is_recursion) {
                    let message = "aggregate functions are not allowed in a recursive query's recursive term";
                    let error = Error::input(message).with_code("42P19");
                    let hint = "aggregate the rows of the whole query behind WITH RECURSIVE";
                    return Err(errors::at(error.with_hint(hint), name_place(name)));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The clauses of a SELECT behind FROM.
struct BoundSelect<'e> {
    condition: Option<Scalar>,
    items: Vec<Item<'e>>,
    groups: Groups,
    having: Option<Scalar>,
    qualify: Option<Scalar>,
    /// ORDER BY.
    keys: Vec<Key<'e>>,
    /// DISTINCT ON.
    on: Vec<By>,
    windows: Vec<WindowUse>,
    /// The functions that give rows.
    layers: Vec<Vec<FunctionItem>>,
    /// What is computed once per row because its value may change.
    hoisted: Vec<(Column, Scalar)>,
}

/// The columns that a SELECT computes for its list, and for its keys.
#[derive(Default)]
struct ComputedColumns {
    /// Those below the sort.
    early: Vec<(Column, Scalar)>,
    /// Those on top of it: what changes with each evaluation is evaluated in the order in which rows are shown.
    late: Vec<(Column, Scalar)>,
}

impl Binder<'_> {
    /// A SELECT: its rows in order, and what orders them.
    pub(super) fn select<'e>(
        &self,
        select: &'e Select,
        order: Option<&'e OrderBy>,
        outer: Option<&'e Level<'e>>,
        withs: &'e Withs<'e>,
        keeps_unknown: bool,
    ) -> Result<(Rows, Vec<SortKey>)> {
        refuse_foreign_clauses(select)?;
        let JoinedSide { relation, names } = self.from(&select.from, outer, withs)?;
        let mut level = Level::new(outer, withs, names, Clause::Where);
        level.windows = &select.named_window;
        refuse_equal_windows(&select.named_window)?;
        level.list = &select.projection;
        let level = level;
        let mut bound = self.clauses(select, order, keeps_unknown, &level)?;

        // Everything is bound: the operators, from the bottom up.
        let mut relation = self.with_markers(relation, &level.names);
        if let Some(condition) = bound.condition.take() {
            relation = relation.filtered(condition);
        }
        if !level.aggregates.borrow().is_empty() {
            refuse_recursive_aggregates(&select.from, withs)?;
        }
        if self.is_grouped(&bound.groups, bound.having.is_some(), &level) {
            relation = self.grouped(relation, &mut bound, &level)?;
        }
        if let Some(having) = bound.having.take() {
            relation = relation.filtered(having);
        }
        relation = bound.windows.drain(..).fold(relation, |relation, window| window.over(relation));
        if let Some(qualify) = bound.qualify.take() {
            relation = relation.filtered(qualify);
        }
        relation = relation.mapped_one_by_one(std::mem::take(&mut bound.hoisted));
        self.shown(relation, bound, select.distinct.as_ref(), order, &level)
    }

    /// The clauses behind FROM, in the order in which PostgreSQL binds them.
    fn clauses<'e>(
        &self,
        select: &'e Select,
        order: Option<&'e OrderBy>,
        keeps_unknown: bool,
        level: &Level<'e>,
    ) -> Result<BoundSelect<'e>> {
        let condition = match &select.selection {
            Some(condition) => {
                let each = self.condition_of_columns(condition, level)?;
                Some(self.condition(each.as_ref().unwrap_or(condition), level, "WHERE")?)
            }
            None => None,
        };
        level.references.borrow_mut().clear();

        level.clause.set(Clause::Select);
        let mut items = self.items(select, level)?;
        if !keeps_unknown || is_distinct(select.distinct.as_ref()) || order.is_some() || has_groups(&select.group_by) {
            for item in &mut items {
                let taken = std::mem::replace(&mut item.scalar, Scalar::boolean(false));
                item.scalar = self.typed(taken)?;
            }
        }
        let groups = self.groups(&select.group_by, &items, level)?;

        if select.having.is_some() || select.qualify.is_some() {
            let aliases = items.iter().map(|item| (item.name.clone(), item.scalar.clone()));
            *level.aliases.borrow_mut() = aliases.collect();
        }
        level.clause.set(Clause::Having);
        let having = select.having.as_ref().map(|having| self.condition(having, level, "HAVING")).transpose()?;
        level.clause.set(Clause::Qualify);
        let qualify = select.qualify.as_ref().map(|qualify| self.condition(qualify, level, "QUALIFY")).transpose()?;
        level.aliases.take();
        let keys = self.keys(order, &items, level)?;
        let on = match &select.distinct {
            Some(Distinct::On(expressions)) => self.distinct_on(expressions, &items, level)?,
            _ => vec![],
        };
        let windows = level.window_uses.take();
        if let (false, Some(locking)) = (windows.is_empty(), &*self.locking.borrow()) {
            locking.refuse_windows()?;
        }
        let (layers, hoisted) = (level.row_functions.take(), level.hoisted.take());
        Ok(BoundSelect { condition, items, groups, having, qualify, keys, on, windows, layers, hoisted })
    }

    /// Puts groups on top of FROM and WHERE, and all other clauses above them.
    fn grouped(&self, mut relation: Relation, bound: &mut BoundSelect<'_>, level: &Level<'_>) -> Result<Relation> {
        let BoundSelect { items, groups, having, qualify, keys, on, windows, layers, hoisted, .. } = bound;
        // What gives rows that are grouped is below the groups.
        let of_layer = |items: &Vec<FunctionItem>| given_columns(std::slice::from_ref(items));
        let below = layers.iter().rposition(|items| groups.reads(&of_layer(items))).map_or(0, |last| last + 1);
        relation = layers.drain(..below).fold(relation, rows_on);
        relation = self.aggregated(relation, groups, level)?;
        for (index, item) in items.iter_mut().enumerate() {
            if let Some(group) = groups.of_item(index) {
                item.scalar = group;
                continue;
            }
            self.above_groups(vec![&mut item.scalar], groups, level)
                .map_err(|error| placed(error, || item.expression.and_then(place)))?;
        }
        let own = keys.iter_mut().map(|key| &mut key.by).chain(on).filter_map(|by| match by {
            By::Scalar(scalar) => Some(scalar),
            By::Item(_) => None,
        });
        let rows = layers.iter_mut().flatten().map(|item| &mut item.array);
        let windows = windows.iter_mut().flat_map(|window| window.scalars_mut());
        let conditions = having.iter_mut().chain(qualify);
        let computed = hoisted.iter_mut().map(|(_, scalar)| scalar);
        let scalars = own.chain(rows).chain(windows).chain(conditions).chain(computed).collect();
        self.above_groups(scalars, groups, level)?;
        Ok(relation)
    }

    /// The columns of the list, without duplicates and in order.
    fn shown(
        &self,
        relation: Relation,
        mut bound: BoundSelect<'_>,
        distinct: Option<&Distinct>,
        order: Option<&OrderBy>,
        level: &Level<'_>,
    ) -> Result<(Rows, Vec<SortKey>)> {
        let after_choice = match distinct {
            Some(Distinct::On(_)) => called_after_choice(&mut bound.layers, &bound.keys, &bound.on, &bound.items),
            _ => vec![],
        };
        let relation = bound.layers.drain(..).fold(relation, rows_on);
        let mut columns = ComputedColumns::default();
        let is_distinct = is_distinct(distinct);
        let outputs = self.outputs(&mut bound, is_distinct, &given_columns(&after_choice), &mut columns, level);
        let on = bound.on.into_iter().map(|by| self.key_column(by, &outputs, &mut columns)).collect::<Vec<_>>();
        let mut sort = Vec::with_capacity(bound.keys.len());
        for key in bound.keys {
            let scalar = match key.by {
                By::Scalar(scalar) if !is_distinct => scalar,
                by => self.key_column(by, &outputs, &mut columns),
            };
            sort.push(self.sorted(scalar, key.options, key.expression)?);
        }
        let rows = Rows { relation: relation.mapped(columns.early), outputs };
        let mut rows = self.without_duplicates(rows, distinct, on, &sort, order)?;
        rows.relation = self.sorted_relation(rows.relation, &sort)?;
        rows.relation = after_choice.into_iter().fold(rows.relation, rows_on).mapped(columns.late);
        Ok((rows, sort))
    }

    /// The columns that the list shows.
    fn outputs(
        &self,
        bound: &mut BoundSelect<'_>,
        is_distinct: bool,
        given_late: &HashSet<ColumnId>,
        columns: &mut ComputedColumns,
        level: &Level<'_>,
    ) -> Vec<Output> {
        let keys = &bound.keys;
        let is_sorted_by = |index: usize| keys.iter().any(|key| matches!(key.by, By::Item(item) if item == index));
        let output = |(index, item): (usize, Item<'_>)| {
            let is_own = item.scalar.as_column().is_some_and(|id| !level.is_outer(id));
            if is_own || item.scalar.sql_type() == SqlType::Unknown {
                return Output { name: item.name, scalar: item.scalar };
            }
            let column = self.column_for(&item.name, &item.scalar);
            // A subquery becomes a join, which keeps no order.
            let may_wait = !keys.is_empty() && !is_distinct && !item.scalar.has_subquery();
            let is_volatile = may_wait && item.scalar.is_volatile() && !is_sorted_by(index);
            let is_late = is_volatile || reads_any(&item.scalar, given_late);
            let columns = if is_late { &mut columns.late } else { &mut columns.early };
            columns.push((column.clone(), item.scalar));
            Output { name: item.name, scalar: column.scalar() }
        };
        std::mem::take(&mut bound.items).into_iter().enumerate().map(output).collect()
    }

    /// The column of a key.
    fn key_column(&self, by: By, outputs: &[Output], columns: &mut ComputedColumns) -> Scalar {
        match by {
            By::Item(index) => {
                outputs.get(index).map_or_else(|| Scalar::boolean(false), |output| output.scalar.clone())
            }
            By::Scalar(scalar) if scalar.as_column().is_some() => scalar,
            // DISTINCT ON and ORDER BY have one column of what they both say.
            By::Scalar(scalar) => match columns.early.iter().find(|(_, known)| Relation::are_alike(known, &scalar)) {
                Some((column, _)) => column.scalar(),
                None => {
                    let column = self.column_for("key", &scalar);
                    columns.early.push((column.clone(), scalar));
                    column.scalar()
                }
            },
        }
    }

    /// DISTINCT and DISTINCT ON. Fails with 42P10 if ORDER BY does not go together with it.
    fn without_duplicates(
        &self,
        mut rows: Rows,
        distinct: Option<&Distinct>,
        on: Vec<Scalar>,
        sort: &[SortKey],
        order: Option<&OrderBy>,
    ) -> Result<Rows> {
        let wrong = |message: &str| Err(errors::at(Error::input(message).with_code("42P10"), order.and_then(place)));
        match distinct {
            Some(Distinct::Distinct) => {
                let columns = rows.columns();
                let shown = columns.iter().map(|column| column.id).collect::<HashSet<_>>();
                if sort.iter().any(|key| key.scalar.as_column().is_none_or(|id| !shown.contains(&id))) {
                    return wrong("for SELECT DISTINCT, ORDER BY expressions must appear in select list");
                }
                rows.relation = self.distinct(rows.relation, &columns)?;
            }
            Some(Distinct::On(_)) => {
                let wanted = on.iter().filter_map(Scalar::as_column).collect::<HashSet<_>>();
                let first = sort.iter().take(wanted.len()).filter_map(|key| key.scalar.as_column());
                let first = first.collect::<HashSet<_>>();
                if !sort.is_empty() && !first.is_subset(&wanted) {
                    return wrong("SELECT DISTINCT ON expressions must match initial ORDER BY expressions");
                }
                rows.relation = self.sorted_relation(rows.relation, sort)?;
                rows.relation = self.distinct_by(rows.relation, on)?;
            }
            Some(Distinct::All) | None => {}
        }
        Ok(rows)
    }

    /// Rows without duplicates. Where a type's values are equal without being the same, the first is shown.
    pub(super) fn distinct(&self, relation: Relation, columns: &[Column]) -> Result<Relation> {
        let (relation, keys) = self.with_keys(relation, columns)?;
        let mut met = HashSet::new();
        let on = keys.iter().map(|key| key.id).filter(|id| met.insert(*id)).collect::<Vec<ColumnId>>();
        let has_keys = keys.iter().zip(columns).any(|(key, column)| key.id != column.id);
        Ok(Relation::Distinct { input: Box::new(relation), on, keeps_all: has_keys })
    }

    fn distinct_by(&self, relation: Relation, on: Vec<Scalar>) -> Result<Relation> {
        let column = |scalar: &Scalar| match scalar {
            Scalar::Column { id, sql_type, nullable } => {
                Some(Column { id: *id, name: "on".into(), sql_type: sql_type.clone(), nullable: *nullable })
            }
            _ => None,
        };
        let columns = on.iter().filter_map(column).collect::<Vec<_>>();
        let (relation, keys) = self.with_keys(relation, &columns)?;
        let mut met = HashSet::new();
        let on = keys.iter().map(|key| key.id).filter(|id| met.insert(*id)).collect();
        Ok(Relation::Distinct { input: Box::new(relation), on, keeps_all: true })
    }

    /// A sort by the keys of the types that have one; the relation itself without keys.
    pub(super) fn sorted_relation(&self, relation: Relation, keys: &[SortKey]) -> Result<Relation> {
        if keys.is_empty() {
            return Ok(relation);
        }
        Ok(Relation::Sort { input: Box::new(relation), keys: self.comparable(keys)? })
    }

    /// Sort keys as they are compared.
    pub(super) fn comparable(&self, keys: &[SortKey]) -> Result<Vec<SortKey>> {
        let key = |key: &SortKey| Ok(SortKey { scalar: self.key(key.scalar.clone())?, ..key.clone() });
        keys.iter().map(key).collect()
    }
}

fn is_distinct(distinct: Option<&Distinct>) -> bool {
    matches!(distinct, Some(Distinct::Distinct | Distinct::On(_)))
}

/// Fails for clauses of other dialects that would be ignored.
fn refuse_foreign_clauses(select: &Select) -> Result<()> {
    let foreign = [
        ("TOP", select.top.is_some()),
        ("INTO within a SELECT", select.into.is_some()),
        ("LATERAL VIEW", !select.lateral_views.is_empty()),
        ("PREWHERE", select.prewhere.is_some()),
        ("CONNECT BY", !select.connect_by.is_empty()),
        ("CLUSTER BY", !select.cluster_by.is_empty()),
        ("DISTRIBUTE BY", !select.distribute_by.is_empty()),
        ("SORT BY", !select.sort_by.is_empty()),
        ("SELECT AS VALUE", select.value_table_mode.is_some()),
        ("EXCLUDE behind the list", select.exclude.is_some()),
    ];
    match foreign.iter().find(|(_, is_there)| *is_there) {
        Some((name, _)) => Err(super::unsupported(name)),
        None => Ok(()),
    }
}
