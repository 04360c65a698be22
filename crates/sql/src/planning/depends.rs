//! What stands on a table: views, whose queries name it.
//!
//! A view keeps the text of its query. Whether it stands on a table is found by binding that, and whether it still
//! stands on the table as a statement would make it, by binding it over a table of those columns. Where the table or
//! its columns get other names, the query gets them as well, and is bound in the same way.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_catalog::{Object, ObjectRef, Relation, RelationName, TableAlteration, View};
use diligence_storage::Table;
use diligence_storage::memory::MemoryTable;
use diligence_types::SqlType;
use sqlparser::ast::{self, TableFactor, VisitorMut};

use super::around::Around;
use super::definitions::lower;
use super::names::Names;
use crate::binder::{self, Bound, Context};
use crate::statement::Command;
use crate::walking::{walk, walk_mut};

/// What PostgreSQL says to do where something stands on what is to go.
const HINT: &str = "Use DROP ... CASCADE to drop the dependent objects too.";

impl Around<'_> {
    /// The views that are to go with these relations: all that stand on one of them. Fails with code 2BP01 if there are
    /// any, and `cascades` does not say that they go.
    pub(super) fn dependent_views(&self, names: &[RelationName], cascades: bool) -> Result<Vec<RelationName>> {
        let standing = self.standing_on(names);
        if cascades || standing.is_empty() {
            return Ok(standing.iter().map(|view| view.name.clone()).collect());
        }
        let message = match names {
            [name] => format!("cannot drop {} {} because other objects depend on it", self.kind_of(name), name.name),
            _ => "cannot drop desired object(s) because other objects depend on them".to_owned(),
        };
        let detail = self.dependents(names, &standing).join("\n");
        Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(HINT))
    }

    /// The views that stand on one of these relations, directly or on others that do.
    fn standing_on(&self, names: &[RelationName]) -> Vec<Arc<Object>> {
        let mut views = self.views();
        views.retain(|view| !names.contains(&view.name) && self.named_by(view, names).is_some());
        views
    }

    /// What stands on these relations besides what they are themselves, as PostgreSQL tells it: each view that stands
    /// on one of them or on another view that does, and the constraints of other tables.
    fn dependents(&self, names: &[RelationName], views: &[Arc<Object>]) -> Vec<String> {
        let catalog = &self.at.snapshot.catalog;
        let known = names.iter().chain(views.iter().map(|view| &view.name)).collect::<Vec<_>>();
        let mut told = Vec::new();
        for view in views {
            let named = query_of(view).map(|query| names_in(&query)).unwrap_or_default();
            let mut said = known.iter().filter(|name| ***name != view.name && named.contains(&name.name));
            let on = said.find(|name| self.named_by(view, std::slice::from_ref(**name)).is_some());
            let Some(on) = on.map(|name| RelationName::clone(name)).or_else(|| self.named_by(view, names)) else {
                continue;
            };
            let what = self.kind_of(&on);
            told.push((view.id, format!("{} {} depends on {what} {}", kind(view), view.name.name, on.name)));
        }
        for object in names.iter().filter_map(|name| catalog.get(name)) {
            let constraints = catalog.referring(object.id).filter(|(other, _)| !names.contains(&other.name));
            told.extend(constraints.map(|(other, reference)| {
                let (constraint, other_name, name) = (&reference.name, &other.name.name, &object.name.name);
                (other.id, format!("constraint {constraint} on table {other_name} depends on table {name}"))
            }));
        }
        // In the order in which they were made.
        told.sort_by_key(|(id, _)| *id);
        told.into_iter().map(|(_, text)| text).collect()
    }

    /// The same of views that stand on these.
    pub(super) fn dependents_above(&self, views: &[RelationName]) -> Vec<String> {
        self.dependents(views, &self.standing_on(views))
    }

    /// What becomes of the views that stand on a table which is altered: those that name it by a name that it or one of
    /// its columns had get other queries. Fails with code 2BP01 if a view does not stand on what the table becomes.
    pub(super) fn followed_views(&self, object: &Object, becomes: &Becomes) -> Result<Vec<Command>> {
        self.views_after(object, becomes, false).map(|(followed, _)| followed)
    }

    /// The same, and the views that go because they read a column that goes, if `cascades` says that they do; with
    /// those that stand on them.
    pub(super) fn views_after(
        &self,
        object: &Object,
        becomes: &Becomes,
        cascades: bool,
    ) -> Result<(Vec<Command>, Vec<RelationName>)> {
        let table = std::slice::from_ref(&object.name);
        let views = self.views().into_iter().filter(|view| self.named_by(view, table).is_some()).collect::<Vec<_>>();
        // All of them keep their columns, so each is looked at with the others as they are.
        let version = || self.planner.catalogs().catalog().next_table_version();
        let known = |name: &RelationName, columns: SchemaRef| {
            let table = MemoryTable::new(name.to_string(), columns, vec![], version())?;
            Ok((name.clone(), Arc::new(table) as Arc<dyn Table>))
        };
        let mut instead =
            views.iter().map(|view| known(&view.name, view.relation.schema()?)).collect::<Result<Vec<_>>>()?;
        instead.push(known(&becomes.name, becomes.columns.clone())?);
        let has_other_name = becomes.name != object.name;
        let is_renamed = has_other_name || !becomes.renamed.is_empty();
        let loses_columns = match &object.relation {
            Relation::Native(table) => {
                let mut names = table.schema().fields().iter().map(|field| field.name());
                names.any(|name| becomes.columns.column_with_name(name).is_none())
            }
            _ => false,
        };
        let (mut followed, mut gone) = (Vec::new(), Vec::new());
        for view in &views {
            self.check_types(view, object, becomes)?;
            let query = query_of(view)?;
            let stands = |query: &Arc<ast::Query>| self.stands_on(view, query, &instead);
            if !has_other_name && stands(&query) {
                continue;
            }
            let mut other = ast::Query::clone(&query);
            let names_it = is_renamed && self.follow(&mut other, view, &object.name, becomes);
            let other = Arc::new(other);
            match names_it {
                true if stands(&other) => followed.push(self.with_query(view, other)?),
                // It stands on another view only.
                false if stands(&query) && !self.names_directly(&query, view, &object.name, becomes) => {}
                _ if cascades && loses_columns => gone.push(view.name.clone()),
                _ => return Err(stands_still(object, becomes, view)),
            }
        }
        if !gone.is_empty() {
            let above = self.dependent_views(&gone, true)?;
            gone.extend(above);
            self.tell_dropped_with(&[], &gone);
        }
        Ok((followed, gone))
    }

    /// Whether a view's query itself names a relation.
    fn names_directly(&self, query: &ast::Query, view: &Object, name: &RelationName, becomes: &Becomes) -> bool {
        let mut following = self.following(view, name, becomes);
        let _ = walk_mut(&mut ast::Query::clone(query), &mut following);
        following.count > 0
    }

    fn following<'f>(&self, view: &Object, name: &'f RelationName, becomes: &'f Becomes) -> Following<'f> {
        let is_own = self.in_path(&name.name) == *name || view.name.schema == name.schema;
        Following { name, is_own, becomes, count: 0, is_hidden: false }
    }

    /// Has a view's query name a relation as it is called from now on; whether it names it.
    fn follow(&self, query: &mut ast::Query, view: &Object, name: &RelationName, becomes: &Becomes) -> bool {
        let mut following = self.following(view, name, becomes);
        let _ = walk_mut(query, &mut following);
        following.count > 0 && !following.is_hidden
    }

    /// What gives a view another query.
    fn with_query(&self, view: &Object, query: Arc<ast::Query>) -> Result<Command> {
        match &view.relation {
            Relation::View(before) => {
                let mut source = ast::Statement::clone(&before.source);
                let ast::Statement::CreateView(create) = &mut source else {
                    return Err(Error::bug("a view's statement makes no view"));
                };
                *create.query = ast::Query::clone(&query);
                let (source, depth) = (Arc::new(source), before.depth + FOLLOWED_DEPTH);
                let next = View { source, depth, schema: before.schema.clone(), triggers: before.triggers.clone() };
                Ok(Command::CreateView {
                    name: view.name.clone(),
                    view: Arc::new(next),
                    or_replace: true,
                    stands_on: vec![],
                })
            }
            Relation::Native(table) => {
                let mut rules = table.rules().clone();
                if let Some(materialized) = &mut rules.materialized {
                    materialized.query = query.to_string();
                }
                let columns = table.schema().clone();
                let places = (0..columns.fields().len()).map(Some).collect();
                let alteration = TableAlteration { name: view.name.clone(), columns, places, rules };
                Ok(Command::Alter {
                    table: view.reference(),
                    built_on: view.version,
                    alteration: Box::new(alteration),
                    memory: self.planner.options.tables.clone(),
                    is_concurrent: false,
                    tag: "ALTER TABLE",
                })
            }
            _ => Err(Error::bug("a view is none")),
        }
    }

    /// Fails with 0A000 if a column that a view uses gets another type.
    fn check_types(&self, view: &Object, object: &Object, becomes: &Becomes) -> Result<()> {
        let Relation::Native(table) = &object.relation else { return Ok(()) };
        let (old, new) = (table.schema(), &becomes.columns);
        for field in old.fields() {
            let Ok(place) = new.index_of(field.name()) else { continue };
            if SqlType::of_field(field) == SqlType::of_field(new.field(place)) {
                continue;
            }
            let others = old.fields().iter().filter(|other| other.name() != field.name()).cloned();
            let without = Arc::new(Schema::new(others.collect::<Vec<_>>()));
            let version = self.planner.catalogs().catalog().next_table_version();
            let table: Arc<dyn Table> = Arc::new(MemoryTable::new(object.name.to_string(), without, vec![], version)?);
            if !self.stands_on(view, &query_of(view)?, &[(object.name.clone(), table)]) {
                let error = Error::unsupported("cannot alter type of a column used by a view or rule");
                let (kind, view, column) = (kind(view), &view.name.name, field.name());
                let detail = format!("{kind} {view} depends on column \"{column}\"");
                return Err(error.with_code("0A000").with_detail(detail));
            }
        }
        Ok(())
    }

    fn views(&self) -> Vec<Arc<Object>> {
        let objects = self.at.snapshot.catalog.all_objects().filter(|object| self.at.snapshot.sees(&object.name));
        let is_view = |object: &&Arc<Object>| {
            matches!(object.relation, Relation::View(_)) || object.relation.materialized().is_some()
        };
        objects.filter(is_view).cloned().collect()
    }

    fn kind_of(&self, name: &RelationName) -> &'static str {
        self.at.snapshot.catalog.get(name).map_or("table", |object| kind(object))
    }

    /// The first of these relations that a view's query names, directly or through another view; `None` also for a view
    /// whose query means nothing any more.
    fn named_by(&self, view: &Object, names: &[RelationName]) -> Option<RelationName> {
        let bound = self.with_view(view, |bound, around| {
            bound.ok()?;
            names.iter().find(|name| **name != view.name && around.has_met(name)).cloned()
        });
        bound.ok().flatten()
    }

    /// The tables whose rows a view reads, itself or through other views. Fails if its query means nothing any more.
    pub(super) fn tables_of_view(&self, view: &Object) -> Result<Vec<ObjectRef>> {
        self.with_view(view, |bound, around| {
            bound?;
            let objects = around.at.snapshot.catalog.all_objects();
            let tables = objects.filter(|object| matches!(object.relation, Relation::Native(_)));
            Ok(tables.filter(|table| around.has_met(&table.name)).map(|table| table.reference()).collect())
        })?
    }

    /// Whether a query has all of its view's columns where these tables have these names, but for the view's own.
    fn stands_on(&self, view: &Object, query: &Arc<ast::Query>, instead: &[(RelationName, Arc<dyn Table>)]) -> bool {
        self.bound_query(view, query, instead, |bound, _| match (bound, &view.relation) {
            (Ok(bound), Relation::View(view)) if view.column_names().is_empty() => {
                let has = |name: &String| bound.columns.iter().any(|column| column.name == *name);
                view.schema.fields().iter().all(|field| has(field.name()))
            }
            (Ok(bound), Relation::View(view)) => bound.columns.len() >= view.schema.fields().len(),
            (Ok(bound), Relation::Native(table)) => bound.columns.len() >= table.schema().fields().len(),
            _ => false,
        })
    }

    /// Whether a view calls this one of several functions of a name: without it, its query means something else or
    /// nothing.
    pub(super) fn calls_routine(&self, view: &Object, routine: &RelationName) -> bool {
        let Ok(query) = query_of(view) else { return false };
        let meaning = |without: Option<&RelationName>| {
            let names = Names::new(self.at);
            let around = Around::new(self.planner, self.at, &names, vec![]);
            *around.without_routine.borrow_mut() = without.cloned();
            around.enter_view(&view.name.schema, &view.name.name);
            let bound = binder::bind_query(&query, &around);
            around.leave_view();
            bound.ok().map(|bound| format!("{:?}", bound.relation))
        };
        let (now, again, without) = (meaning(None), meaning(None), meaning(Some(routine)));
        if now == again {
            return now.is_some() && now != without;
        }
        // Procedures have a number in each query.
        let unnumbered =
            |text: Option<String>| text.map(|text| text.replace(|letter: char| letter.is_ascii_digit(), ""));
        let now = unnumbered(now);
        now == unnumbered(again) && now != unnumbered(without)
    }

    /// Binds a view's query.
    fn with_view<T>(&self, view: &Object, then: impl FnOnce(Result<Bound>, &Around<'_>) -> T) -> Result<T> {
        Ok(self.bound_query(view, &query_of(view)?, &[], then))
    }

    /// Binds a query where a view's is bound, with these tables in the places of others.
    fn bound_query<T>(
        &self,
        view: &Object,
        query: &Arc<ast::Query>,
        instead: &[(RelationName, Arc<dyn Table>)],
        then: impl FnOnce(Result<Bound>, &Around<'_>) -> T,
    ) -> T {
        let names = Names::new(self.at);
        let around = Around::new(self.planner, self.at, &names, vec![]);
        for (name, table) in instead.iter().filter(|(name, _)| *name != view.name) {
            around.knows(name, table.clone());
        }
        around.enter_view(&view.name.schema, &view.name.name);
        let bound = binder::bind_query(query, &around);
        around.leave_view();
        then(bound, &around)
    }
}

/// What a relation becomes.
pub(super) struct Becomes {
    /// Its name.
    pub name: RelationName,
    /// Its columns.
    pub columns: SchemaRef,
    /// Columns that have other names from now on: the old and the new one.
    pub renamed: Vec<(String, String)>,
}

/// Levels of the parser that a query may nest deeper after it has followed a name.
pub(super) const FOLLOWED_DEPTH: usize = 4;

/// Puts the name of a relation into a query in the place of the one that it had.
///
/// What the query calls it stays: the old name becomes its alias, and where columns have other names, the relation
/// becomes a query that gives them the old ones.
struct Following<'a> {
    name: &'a RelationName,
    /// Whether a name without a schema is that of the relation.
    is_own: bool,
    becomes: &'a Becomes,
    /// How often it was met.
    count: usize,
    /// Whether a common table expression may have the name.
    is_hidden: bool,
}

impl Following<'_> {
    fn is_it(&self, name: &ast::ObjectName) -> bool {
        let parts = name.0.iter().map(|part| part.as_ident().map(lower)).collect::<Option<Vec<_>>>();
        match parts.as_deref() {
            Some([name]) => self.is_own && *name == self.name.name,
            Some([.., schema, name]) => *schema == self.name.schema && *name == self.name.name,
            _ => false,
        }
    }
}

impl VisitorMut for Following<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Self::Break> {
        let mut names = query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| lower(&cte.alias.name));
        self.is_hidden |= names.any(|name| name == self.name.name || name == self.becomes.name.name);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        let TableFactor::Table { name, alias, .. } = factor else { return ControlFlow::Continue(()) };
        if !self.is_it(name) {
            return ControlFlow::Continue(());
        }
        self.count += 1;
        let quoted = |name: &str| ast::Ident::with_quote('"', name);
        let RelationName { schema, name: own } = &self.becomes.name;
        // Whatever the path of whoever uses the view.
        *name = ast::ObjectName::from(vec![quoted(schema), quoted(own)]);
        let old = alias.get_or_insert_with(|| ast::TableAlias {
            explicit: true,
            name: quoted(&self.name.name),
            columns: vec![],
            at: None,
        });
        if self.becomes.renamed.is_empty() {
            return ControlFlow::Continue(());
        }
        let renamed = self.becomes.renamed.iter();
        let renamed = renamed.map(|(old, new)| format!("{} AS {}", quoted(new), quoted(old))).collect::<Vec<_>>();
        let text = format!("SELECT * FROM (SELECT * RENAME ({}) FROM {name}) AS t", renamed.join(", "));
        let old = old.clone();
        if let Ok(query) = crate::parse::query(&text)
            && let ast::SetExpr::Select(mut select) = *query.body
            && let Some(mut made) = select.from.pop()
        {
            if let TableFactor::Derived { alias, .. } = &mut made.relation {
                *alias = Some(old);
            }
            *factor = made.relation;
        }
        ControlFlow::Continue(())
    }
}

/// The last parts of all names of relations in a query.
fn names_in(query: &ast::Query) -> Vec<String> {
    struct MetNames(Vec<String>);
    impl ast::Visitor for MetNames {
        type Break = ();

        fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<()> {
            self.0.extend(name.0.last().and_then(|part| part.as_ident()).map(lower));
            ControlFlow::Continue(())
        }
    }
    let mut named = MetNames(vec![]);
    let _ = walk(query, &mut named);
    named.0
}

/// What a view selects.
fn query_of(view: &Object) -> Result<Arc<ast::Query>> {
    match (&view.relation, view.relation.materialized()) {
        (Relation::View(view), _) => view.query(),
        (_, Some(materialized)) => Ok(Arc::new(crate::parse::query(&materialized.query)?)),
        _ => Err(Error::bug("a view is none")),
    }
}

/// The error for a view that does not stand on what a table becomes.
fn stands_still(object: &Object, becomes: &Becomes, view: &Object) -> Error {
    let (name, view_name) = (&object.name.name, &view.name.name);
    let columns = match &object.relation {
        Relation::Native(table) => table.schema().fields().iter().map(|field| field.name().clone()).collect(),
        _ => vec![],
    };
    let gone = columns.iter().find(|column| becomes.columns.column_with_name(column).is_none());
    let is_fewer = becomes.columns.fields().len() < columns.len();
    let (message, detail) = match gone.filter(|_| is_fewer) {
        Some(column) => (
            format!("cannot drop column {column} of table {name} because other objects depend on it"),
            format!("{} {view_name} depends on column {column} of table {name}", kind(view)),
        ),
        None => (
            format!("cannot alter table {name} because other objects depend on it"),
            format!("{} {view_name} depends on table {name}", kind(view)),
        ),
    };
    let hint = format!("drop the {} first, and make it again afterwards", kind(view));
    let hint = if is_fewer { HINT.to_owned() } else { hint };
    Error::input(message).with_code("2BP01").with_detail(detail).with_hint(hint)
}

fn kind(object: &Object) -> &'static str {
    match &object.relation {
        Relation::View(_) => "view",
        relation if relation.materialized().is_some() => "materialized view",
        _ => "table",
    }
}
