//! SELECT from WHERE on, and what a query has around it. Its order and its LIMIT are bound in `order`.

use std::collections::HashSet;

use diligence_base::{Error, Result, Span};
use diligence_types::SqlType;
use sqlparser::ast::{
    self, Distinct, ExceptSelectItem, ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, GroupByExpr, Ident,
    NamedWindowDefinition, ObjectName, OrderBy, Query, RenameSelectItem, Select, SelectFlavor, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

use super::from::JoinedSide;
use super::functions::{bare_name, written};
use super::locking::Locking;
use super::order::By;
use super::scope::{Clause, Level, Withs};
use super::{Binder, Output, Rows, STACK_GROWTH, STACK_RED_ZONE, name_place, normalized, place, placed, unsupported};
use crate::algebra::{Column, ColumnId, FunctionItem, Relation, Scalar, SortKey, TableFunction};
use crate::errors;

/// The function, and what it calls elements.
pub(super) const UNNEST: &str = "unnest";

/// Functions that give rows, for each row of a relation.
fn rows_on(input: Relation, items: Vec<FunctionItem>) -> Relation {
    Relation::TableFunction(TableFunction { input: Box::new(input), items, ordinality: None, keeps_all: false })
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

/// An expression of the SELECT list.
pub(super) struct Item<'e> {
    pub name: String,
    pub scalar: Scalar,
    /// Where it comes from; not of a column that `*` stands for.
    pub(super) expression: Option<&'e Expr>,
}

impl Item<'_> {
    pub(super) fn place(&self) -> Option<Span> {
        self.expression.and_then(place)
    }
}

impl Binder<'_> {
    /// A query: what it has around a SELECT or a set operation. Fails with kind `Input` and PostgreSQL's SQLSTATE.
    pub(super) fn query(&self, query: &Query, outer: Option<&Level<'_>>, withs: &Withs<'_>) -> Result<Rows> {
        stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || match &query.with {
            None => self.query_body(query, outer, withs, false),
            Some(with) => {
                let inner = Withs { outer: Some(withs), written: Some(with), ..Withs::default() };
                let definitions = self.definitions(with, outer, &inner)?;
                let rows = self.query_body(query, outer, &inner, false)?;
                Ok(self.defined(definitions, rows))
            }
        })
    }

    /// A query below a set operation, whose literals have no type yet.
    pub(super) fn query_part(&self, query: &Query, outer: Option<&Level<'_>>, withs: &Withs<'_>) -> Result<Rows> {
        match &query.with {
            Some(_) => self.query(query, outer, withs),
            None => stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || self.query_body(query, outer, withs, true)),
        }
    }

    fn query_body(
        &self,
        query: &Query,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
        keeps_unknown: bool,
    ) -> Result<Rows> {
        if query.for_clause.is_some() || query.format_clause.is_some() {
            return Err(unsupported("FOR and FORMAT behind a query"));
        }
        if !query.pipe_operators.is_empty() {
            return Err(unsupported("|> behind a query"));
        }
        let order = query.order_by.as_ref();
        let around = self.locking.replace(Locking::of(query)?);
        let bound = self.ordered_body(query, order, outer, withs, keeps_unknown);
        let locking = self.locking.replace(around);
        let (rows, keys) = bound?;
        self.limited(rows, keys, query, locking, outer, withs)
    }

    /// The rows in order, and what orders them.
    fn ordered_body(
        &self,
        query: &Query,
        order: Option<&OrderBy>,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
        keeps_unknown: bool,
    ) -> Result<(Rows, Vec<SortKey>)> {
        Ok(match query.body.as_ref() {
            SetExpr::Select(select) => self.select(select, order, outer, withs, keeps_unknown)?,
            body => {
                let keeps_unknown = keeps_unknown && order.is_none();
                let rows = self.set_expression(body, outer, withs, keeps_unknown)?;
                match order {
                    None => (rows, vec![]),
                    Some(order) => {
                        let rows = self.settled(rows)?;
                        self.ordered(rows, order)?
                    }
                }
            }
        })
    }

    /// What a query selects from: a SELECT, another query, a set operation, VALUES or a table.
    pub(super) fn set_expression(
        &self,
        body: &SetExpr,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
        keeps_unknown: bool,
    ) -> Result<Rows> {
        match body {
            SetExpr::Select(select) => Ok(self.select(select, None, outer, withs, keeps_unknown)?.0),
            SetExpr::Query(query) if keeps_unknown => self.query_part(query, outer, withs),
            SetExpr::Query(query) => self.query(query, outer, withs),
            SetExpr::SetOperation { .. } => self.set_operation(body, outer, withs),
            SetExpr::Values(values) => self.values(values, outer, withs, None),
            SetExpr::Table(table) => {
                let side = self.whole_table(table, withs)?;
                Ok(rows_of(side))
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(unsupported("a statement that changes rows within a query"))
            }
        }
    }

    fn select<'e>(
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
        let condition = match &select.selection {
            Some(condition) => {
                let each = self.condition_of_columns(condition, &level)?;
                Some(self.condition(each.as_ref().unwrap_or(condition), &level, "WHERE")?)
            }
            None => None,
        };
        level.references.borrow_mut().clear();

        level.clause.set(Clause::Select);
        let mut items = self.items(select, &level)?;
        let is_distinct = matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_)));
        if !keeps_unknown || is_distinct || order.is_some() || has_groups(&select.group_by) {
            for item in &mut items {
                let taken = std::mem::replace(&mut item.scalar, Scalar::boolean(false));
                item.scalar = self.typed(taken)?;
            }
        }
        let mut groups = self.groups(&select.group_by, &items, &level)?;

        let aliases = items.iter().map(|item| (item.name.clone(), item.scalar.clone()));
        if select.having.is_some() || select.qualify.is_some() {
            *level.aliases.borrow_mut() = aliases.collect();
        }
        level.clause.set(Clause::Having);
        let mut having = match &select.having {
            Some(having) => Some(self.condition(having, &level, "HAVING")?),
            None => None,
        };
        level.clause.set(Clause::Qualify);
        let mut qualify = match &select.qualify {
            Some(qualify) => Some(self.condition(qualify, &level, "QUALIFY")?),
            None => None,
        };
        level.aliases.take();
        let mut keys = self.keys(order, &items, &level)?;
        let mut on = match &select.distinct {
            Some(Distinct::On(expressions)) => self.distinct_on(expressions, &items, &level)?,
            _ => vec![],
        };

        // Everything is bound: the operators, from the bottom up.
        let mut uses = level.window_uses.take();
        if let (false, Some(locking)) = (uses.is_empty(), &*self.locking.borrow()) {
            locking.refuse_windows()?;
        }
        let mut layers = level.row_functions.take();
        let mut hoisted = level.hoisted.take();
        let mut relation = self.with_markers(relation, &level.names);
        if let Some(condition) = condition {
            relation = relation.filtered(condition);
        }
        if !level.aggregates.borrow().is_empty() {
            refuse_recursive_aggregates(&select.from, withs)?;
        }
        if self.is_grouped(&groups, having.is_some(), &level) {
            // What gives rows that are grouped is below the groups.
            let of_layer = |items: &Vec<FunctionItem>| {
                items.iter().flat_map(|item| &item.columns).map(|column| column.id).collect::<HashSet<_>>()
            };
            let below = layers.iter().rposition(|items| groups.reads(&of_layer(items))).map_or(0, |last| last + 1);
            for items in layers.drain(..below) {
                relation = rows_on(relation, items);
            }
            relation = self.aggregated(relation, &mut groups, &level)?;
            for (index, item) in items.iter_mut().enumerate() {
                if let Some(group) = groups.of_item(index) {
                    item.scalar = group;
                    continue;
                }
                self.above_groups(vec![&mut item.scalar], &groups, &level)
                    .map_err(|error| placed(error, || item.expression.and_then(place)))?;
            }
            let own = keys.iter_mut().map(|key| &mut key.by).chain(&mut on).filter_map(|by| match by {
                By::Scalar(scalar) => Some(scalar),
                By::Item(_) => None,
            });
            let rows = layers.iter_mut().flatten().map(|item| &mut item.array);
            let windows = uses.iter_mut().flat_map(|window| window.scalars_mut());
            let conditions = having.iter_mut().chain(&mut qualify);
            let computed = hoisted.iter_mut().map(|(_, scalar)| scalar);
            let scalars = own.chain(rows).chain(windows).chain(conditions).chain(computed).collect();
            self.above_groups(scalars, &groups, &level)?;
        }
        if let Some(having) = having {
            relation = relation.filtered(having);
        }
        for window in uses {
            relation = window.over(relation);
        }
        if let Some(qualify) = qualify {
            relation = relation.filtered(qualify);
        }
        relation = relation.mapped_one_by_one(hoisted);
        for items in layers {
            relation = rows_on(relation, items);
        }

        let mut computed = Vec::new();
        // What changes with each evaluation is evaluated in the order in which rows are shown.
        let mut late = Vec::new();
        let is_sorted_by = |index: usize| keys.iter().any(|key| matches!(key.by, By::Item(item) if item == index));
        let mut outputs = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let is_own = item.scalar.as_column().is_some_and(|id| !level.is_outer(id));
            let scalar = if is_own || item.scalar.sql_type() == SqlType::Unknown {
                item.scalar
            } else {
                let column = self.column_for(&item.name, &item.scalar);
                // A subquery becomes a join, which keeps no order.
                let may_wait = !keys.is_empty() && !is_distinct && !item.scalar.has_subquery();
                let is_late = may_wait && item.scalar.is_volatile() && !is_sorted_by(index);
                let columns = if is_late { &mut late } else { &mut computed };
                columns.push((column.clone(), item.scalar));
                column.scalar()
            };
            outputs.push(Output { name: item.name, scalar });
        }
        let key_columns = |by: By, computed: &mut Vec<(Column, Scalar)>| match by {
            By::Item(index) => {
                outputs.get(index).map_or_else(|| Scalar::boolean(false), |output| output.scalar.clone())
            }
            By::Scalar(scalar) if scalar.as_column().is_some() => scalar,
            // DISTINCT ON and ORDER BY have one column of what they both say.
            By::Scalar(scalar) => match computed.iter().find(|(_, known)| Relation::are_alike(known, &scalar)) {
                Some((column, _)) => column.scalar(),
                None => {
                    let column = self.column_for("key", &scalar);
                    computed.push((column.clone(), scalar));
                    column.scalar()
                }
            },
        };
        let on = on.into_iter().map(|by| key_columns(by, &mut computed)).collect::<Vec<_>>();
        let mut sort = Vec::with_capacity(keys.len());
        for key in keys {
            let scalar = match (key.by, is_distinct) {
                (by @ By::Item(_), _) => key_columns(by, &mut computed),
                (By::Scalar(scalar), false) => scalar,
                (by @ By::Scalar(_), true) => key_columns(by, &mut computed),
            };
            sort.push(self.sorted(scalar, key.options, key.expression)?);
        }
        relation = relation.mapped(computed);
        let mut rows = Rows { relation, outputs };
        match &select.distinct {
            Some(Distinct::Distinct) => {
                let columns = rows.columns();
                let shown = columns.iter().map(|column| column.id).collect::<HashSet<_>>();
                if sort.iter().any(|key| key.scalar.as_column().is_none_or(|id| !shown.contains(&id))) {
                    let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                    return Err(errors::at(Error::input(message).with_code("42P10"), order.and_then(place)));
                }
                rows.relation = self.distinct(rows.relation, &columns)?;
            }
            Some(Distinct::On(_)) => {
                let wanted = on.iter().filter_map(Scalar::as_column).collect::<HashSet<_>>();
                let first = sort.iter().take(wanted.len()).filter_map(|key| key.scalar.as_column());
                let first = first.collect::<HashSet<_>>();
                if !sort.is_empty() && !first.is_subset(&wanted) {
                    let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                    return Err(errors::at(Error::input(message).with_code("42P10"), order.and_then(place)));
                }
                rows.relation = self.sorted_relation(rows.relation, &sort)?;
                rows.relation = self.distinct_by(rows.relation, on)?;
            }
            Some(Distinct::All) | None => {}
        }
        rows.relation = self.sorted_relation(rows.relation, &sort)?.mapped(late);
        Ok((rows, sort))
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

    /// The SELECT list.
    pub(super) fn items<'e>(&self, select: &'e Select, level: &Level<'_>) -> Result<Vec<Item<'e>>> {
        let mut items = Vec::with_capacity(select.projection.len());
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            self.wildcard(&mut items, None, level)?;
        }
        for projected in &select.projection {
            if let SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } = projected
                && let Some(expanded) = self.of_columns(expression, level)?
            {
                for (column, each) in expanded {
                    let scalar = self.scalar(&each, level).map_err(|error| placed(error, || place(expression)))?;
                    let name = match (projected, &each) {
                        (SelectItem::ExprWithAlias { alias, .. }, _) => {
                            self.alias_of_columns(&normalized(alias), column.as_deref(), expression)?
                        }
                        (_, each) => column.unwrap_or_else(|| self.item_name(each, &scalar)),
                    };
                    items.push(Item { name, scalar, expression: Some(expression) });
                }
                continue;
            }
            match projected {
                SelectItem::UnnamedExpr(expression) if self.unpacked(&mut items, expression, level)? => {}
                SelectItem::UnnamedExpr(expression) => {
                    let scalar = match unnested_argument(expression) {
                        Some(argument) => {
                            let argument = self.scalar(argument, level)?;
                            // The columns of a struct, as in DuckDB.
                            if matches!(argument.sql_type(), SqlType::Record(_)) {
                                self.expand(&mut items, argument, place(expression))?;
                                continue;
                            }
                            self.named_call("unnest", vec![argument], level)
                                .map_err(|error| placed(error, || place(expression)))?
                        }
                        None => self.scalar(expression, level)?,
                    };
                    let name = self.item_name(expression, &scalar);
                    items.push(Item { name, scalar, expression: Some(expression) });
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    let first = items.len();
                    if self.unpacked(&mut items, expr, level)? {
                        // The fields of structs keep their names.
                        let elements = items.iter_mut().skip(first).filter(|item| item.name == UNNEST);
                        elements.for_each(|item| item.name = normalized(alias));
                        continue;
                    }
                    let scalar = self.scalar(expr, level)?;
                    items.push(Item { name: normalized(alias), scalar, expression: Some(expr) });
                }
                SelectItem::ExprWithAliases { expr, .. } => {
                    return Err(errors::at(unsupported("several names for an expression"), place(expr)));
                }
                SelectItem::Wildcard(options) => self.wildcard(&mut items, Some(options), level)?,
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let names = name.0.iter().filter_map(|part| part.as_ident()).cloned().collect::<Vec<Ident>>();
                    let found =
                        std::iter::successors(Some(level), |level| level.outer).find_map(|at| at.names.source(&names));
                    match found {
                        Some(source) => {
                            let first = items.len();
                            for column in source.starred() {
                                self.reads_of(source, column.id);
                                self.met_column(column, level);
                                let (name, scalar) = (column.name.clone(), column.scalar());
                                items.push(Item { name, scalar, expression: None });
                            }
                            self.with_options(&mut items, first, options, level)?;
                        }
                        None => {
                            let row = self.compound_row(&names, level)?;
                            let first = items.len();
                            self.expand(&mut items, row, None)?;
                            self.with_options(&mut items, first, options, level)?;
                        }
                    }
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), options) => {
                    let row = self.typed_scalar(expr, level)?;
                    let first = items.len();
                    self.expand(&mut items, row, place(expr))?;
                    self.with_options(&mut items, first, options, level)?;
                }
            }
        }
        Ok(items)
    }

    /// The name of a column without AS: a scalar subquery's is that of its column, even behind `*`.
    fn item_name(&self, expression: &Expr, scalar: &Scalar) -> String {
        if let (Expr::Subquery(_), Scalar::Subquery(subquery)) = (expression, scalar)
            && let Some(column) = subquery.columns.first()
        {
            return column.name.clone();
        }
        self.column_name(expression)
    }

    /// Column names and a row: `x.*` where `x` is a column that is a record.
    fn compound_row(&self, names: &[Ident], level: &Level<'_>) -> Result<Scalar> {
        match names {
            [name] => match self.known_identifier(name, level)? {
                Some(scalar) => Ok(scalar),
                None => {
                    let error = Error::input(format!("no table or alias is named '{}' here", name.value));
                    let known = level.names.sources.iter().filter_map(|source| source.name.clone()).collect::<Vec<_>>();
                    let error = errors::at(error.with_code("42P01"), name_place(name));
                    Err(errors::suggest(error, &name.value, &known))
                }
            },
            names => self.compound(names, level),
        }
    }

    /// `(row).*`.
    fn expand<'e>(&self, items: &mut Vec<Item<'e>>, row: Scalar, at: Option<Span>) -> Result<()> {
        let sql_type = row.sql_type();
        let SqlType::Record(fields) = &sql_type else {
            let error = Error::input(format!("type {sql_type} is not composite")).with_code("42809");
            return Err(errors::at(error, at));
        };
        for (index, field) in fields.iter().enumerate() {
            let scalar = Scalar::Field { input: Box::new(row.clone()), index, sql_type: field.sql_type.clone() };
            items.push(Item { name: field.name.clone(), scalar, expression: None });
        }
        Ok(())
    }

    fn wildcard<'e>(
        &self,
        items: &mut Vec<Item<'e>>,
        options: Option<&'e WildcardAdditionalOptions>,
        level: &Level<'_>,
    ) -> Result<()> {
        if level.names.sources.is_empty() {
            return Err(Error::input("SELECT * with no tables specified is not valid").with_code("42601"));
        }
        let first = items.len();
        for column in level.names.columns() {
            self.reads(&level.names, column.id);
            items.push(Item { name: column.name.clone(), scalar: column.scalar(), expression: None });
        }
        match options {
            Some(options) => self.with_options(items, first, options, level),
            None => Ok(()),
        }
    }

    /// EXCLUDE, EXCEPT, REPLACE, RENAME and ILIKE behind `*`. Fails with 42703 for a name that `*` does not show.
    fn with_options<'e>(
        &self,
        items: &mut Vec<Item<'e>>,
        first: usize,
        options: &'e WildcardAdditionalOptions,
        level: &Level<'_>,
    ) -> Result<()> {
        if options.opt_alias.is_some() {
            return Err(unsupported("a name for *"));
        }
        let find = |items: &[Item<'e>], name: &Ident| {
            let wanted = normalized(name);
            let found = items[first..].iter().position(|item| item.name == wanted);
            let folded = || items[first..].iter().position(|item| item.name.eq_ignore_ascii_case(&wanted));
            found.or_else(folded).map(|index| first + index).ok_or_else(|| {
                let error = Error::input(format!("no column is named '{}'", name.value)).with_code("42703");
                let known = items[first..].iter().map(|item| item.name.clone()).collect::<Vec<_>>();
                errors::suggest(errors::at(error, name_place(name)), &name.value, &known)
            })
        };
        if let Some(pattern) = &options.opt_ilike {
            let pattern = pattern.pattern.to_lowercase();
            let mut index = 0;
            items.retain(|item| {
                index += 1;
                index <= first || is_like(&item.name.to_lowercase(), &pattern)
            });
        }
        let mut excluded = Vec::<Vec<&Ident>>::new();
        let parts = |name: &'e ObjectName| name.0.iter().filter_map(|part| part.as_ident()).collect();
        match &options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => excluded.push(parts(name)),
            Some(ExcludeSelectItem::Multiple(names)) => excluded.extend(names.iter().map(parts)),
            None => {}
        }
        if let Some(ExceptSelectItem { first_element, additional_elements }) = &options.opt_except {
            excluded.push(vec![first_element]);
            excluded.extend(additional_elements.iter().map(|name| vec![name]));
        }
        for parts in excluded {
            let Some((name, table)) = parts.split_last() else { continue };
            // Of one table if the name says so, of each table that has such a column otherwise.
            let of_table = self.column_of(table, name, level)?;
            let named = match of_table {
                Some(_) => None,
                None => Some(items[find(items, name)?].name.clone()),
            };
            let mut index = 0;
            items.retain(|item| {
                index += 1;
                let is_gone = match &named {
                    Some(named) => item.name == *named,
                    None => item.scalar.as_column() == of_table,
                };
                index <= first || !is_gone
            });
        }
        if let Some(replaced) = &options.opt_replace {
            for element in &replaced.items {
                let index = find(items, &element.column_name)?;
                items[index].scalar = self.scalar(&element.expr, level)?;
                items[index].expression = Some(&element.expr);
            }
        }
        let renamed = match &options.opt_rename {
            Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
            Some(RenameSelectItem::Multiple(several)) => several,
            None => &[],
        };
        let found = renamed.iter().map(|one| Ok((find(items, &one.ident)?, normalized(&one.alias))));
        for (index, name) in found.collect::<Result<Vec<_>>>()? {
            let old = std::mem::replace(&mut items[index].name, name.clone());
            items[first..].iter_mut().filter(|item| item.name == old).for_each(|item| item.name.clone_from(&name));
        }
        Ok(())
    }

    /// The column that a name with a table's name in front means; `None` for any other name. Fails with 42703 if the
    /// table has no such column.
    fn column_of(&self, table: &[&Ident], name: &Ident, level: &Level<'_>) -> Result<Option<ColumnId>> {
        let names = table.iter().map(|part| (*part).clone()).collect::<Vec<_>>();
        let mut levels = std::iter::successors(Some(level), |level| level.outer);
        let Some(source) = levels.find_map(|at| at.names.source(&names)) else { return Ok(None) };
        let wanted = normalized(name);
        let exact = source.columns.iter().find(|column| column.name == wanted);
        let found = exact.or_else(|| source.columns.iter().find(|column| column.name.eq_ignore_ascii_case(&wanted)));
        let found = found.ok_or_else(|| {
            let error = Error::input(format!("no column is named '{}'", name.value)).with_code("42703");
            let known = source.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
            errors::suggest(errors::at(error, name_place(name)), &name.value, &known)
        })?;
        Ok(Some(found.id))
    }
}

/// All columns of a side.
fn rows_of(side: JoinedSide) -> Rows {
    let outputs = side.names.columns().map(|column| Output { name: column.name.clone(), scalar: column.scalar() });
    let outputs = outputs.collect();
    Rows { relation: side.relation, outputs }
}

/// What `unnest(…)` takes apart.
fn unnested_argument(expression: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = expression else { return None };
    match written(function) {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))]
            if function.over.is_none() && bare_name(function) == "unnest" =>
        {
            // Series give rows by themselves.
            let is_series = matches!(argument, Expr::Function(inner) if bare_name(inner) == "generate_series");
            (!is_series).then_some(argument)
        }
        _ => None,
    }
}

pub(super) fn has_groups(by: &GroupByExpr) -> bool {
    !matches!(by, GroupByExpr::Expressions(expressions, _) if expressions.is_empty())
}

/// Whether a name is like a pattern, for `* ILIKE '…'`.
pub(super) fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern) = (name.chars().collect::<Vec<_>>(), pattern.chars().collect::<Vec<_>>());
    // Which prefixes of the name the pattern so far is like.
    let mut like = vec![false; name.len() + 1];
    like[0] = true;
    for sign in pattern {
        let mut next = vec![false; name.len() + 1];
        match sign {
            '%' => {
                let mut any = false;
                for (index, is_like) in like.iter().enumerate() {
                    any |= is_like;
                    next[index] = any;
                }
            }
            sign => {
                for index in 0..name.len() {
                    next[index + 1] = like[index] && (sign == '_' || sign == name[index]);
                }
            }
        }
        like = next;
    }
    like[name.len()]
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
        Some((name, _)) => Err(unsupported(name)),
        None => Ok(()),
    }
}

impl Binder<'_> {
    /// Notes that `t.*` shows a column, which may be one of a level around.
    fn met_column(&self, column: &Column, level: &Level<'_>) {
        let is_own = level.names.sources.iter().any(|source| source.columns.iter().any(|own| own.id == column.id));
        if is_own {
            let place = (None, column.name.clone());
            level.references.borrow_mut().entry(column.id).or_insert(place);
        } else {
            let around = std::iter::successors(level.outer, |level| level.outer);
            for at in around {
                if at.names.sources.iter().any(|source| source.columns.iter().any(|own| own.id == column.id)) {
                    at.is_read.set(true);
                    at.read.borrow_mut().insert(column.id);
                    return;
                }
            }
        }
    }

    /// The rows of VALUES alone, as a query's source.
    pub(super) fn plain_values(query: &ast::Query) -> Option<&ast::Values> {
        let is_plain = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
        match query.body.as_ref() {
            SetExpr::Values(values) if is_plain && query.fetch.is_none() => Some(values),
            _ => None,
        }
    }
}
