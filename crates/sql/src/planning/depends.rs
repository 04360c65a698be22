//! What stands on a table: views, whose queries name it.
//!
//! A view keeps the text of its query. Whether it stands on a table is found by binding that, and whether it still
//! stands on the table as a statement would make it, by binding it over a table of those columns.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_catalog::{Object, Relation, RelationName};
use diligence_storage::Table;
use diligence_storage::memory::MemoryTable;
use diligence_types::SqlType;
use sqlparser::ast;

use super::around::Around;
use super::names::Names;
use super::tables::Declaration;
use crate::binder::{self, Bound, Context};

/// What PostgreSQL says to do where something stands on what is to go.
const HINT: &str = "Use DROP ... CASCADE to drop the dependent objects too.";

impl Around<'_> {
    /// The views that are to go with these relations: all that stand on one of them. Fails with code 2BP01 if there are
    /// any, and `cascades` does not say that they go.
    pub(super) fn dependent_views(&self, names: &[RelationName], cascades: bool) -> Result<Vec<RelationName>> {
        let mut also = Vec::new();
        for object in self.views() {
            if names.contains(&object.name) {
                continue;
            }
            let Some(name) = self.named_by(&object, names) else { continue };
            if !cascades {
                let what = self.kind_of(&name);
                let message = format!("cannot drop {what} {} because other objects depend on it", name.name);
                let detail = format!("{} {} depends on {what} {}", kind(&object), object.name.name, name.name);
                return Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(HINT));
            }
            also.push(object.name.clone());
        }
        Ok(also)
    }

    /// Fails with code 2BP01 if a view stands on a table and does not on what it becomes.
    pub(super) fn check_views(&self, object: &Object, declaration: &Declaration) -> Result<()> {
        let table = std::slice::from_ref(&object.name);
        for view in self.views() {
            if self.named_by(&view, table).is_none() {
                continue;
            }
            self.check_types(&view, object, declaration)?;
            if declaration.name == object.name && self.stands_on(&view, &object.name, declaration.schema())? {
                continue;
            }
            let (name, view_name) = (&object.name.name, &view.name.name);
            let columns = match &object.relation {
                Relation::Native(table) => table.schema().fields().iter().map(|field| field.name().clone()).collect(),
                _ => vec![],
            };
            let gone = columns.iter().find(|column| !declaration.has_column(column));
            let is_fewer = declaration.schema().fields().len() < columns.len();
            let (message, detail) = match gone.filter(|_| is_fewer) {
                Some(column) => (
                    format!("cannot drop column {column} of table {name} because other objects depend on it"),
                    format!("{} {view_name} depends on column {column} of table {name}", kind(&view)),
                ),
                None => (
                    format!("cannot alter table {name} because other objects depend on it"),
                    format!("{} {view_name} depends on table {name}", kind(&view)),
                ),
            };
            let hint = format!("drop the {} first, and make it again afterwards", kind(&view));
            return Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(hint));
        }
        Ok(())
    }

    /// Fails with 0A000 if a column that a view uses gets another type.
    fn check_types(&self, view: &Arc<Object>, object: &Object, declaration: &Declaration) -> Result<()> {
        let Relation::Native(table) = &object.relation else { return Ok(()) };
        let (old, new) = (table.schema(), declaration.schema());
        for field in old.fields() {
            let Ok(place) = new.index_of(field.name()) else { continue };
            if SqlType::of_field(field) == SqlType::of_field(new.field(place)) {
                continue;
            }
            let others = old.fields().iter().filter(|other| other.name() != field.name()).cloned();
            let without = Arc::new(Schema::new(others.collect::<Vec<_>>()));
            if !self.stands_on(view, &object.name, without)? {
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
        let bound = self.with_view(view, None, |bound, around| {
            bound.ok()?;
            names.iter().find(|name| **name != view.name && around.has_met(name)).cloned()
        });
        bound.ok().flatten()
    }

    /// Whether a view's query has all of its columns where a table has these.
    fn stands_on(&self, view: &Object, name: &RelationName, columns: SchemaRef) -> Result<bool> {
        let version = self.planner.catalogs().catalog().next_table_version();
        let table = MemoryTable::new(name.to_string(), columns, vec![], version)?;
        self.with_view(view, Some((name, Arc::new(table))), |bound, _| match (bound, &view.relation) {
            (Ok(bound), Relation::View(view)) if view.column_names().is_empty() => {
                let has = |name: &String| bound.columns.iter().any(|column| column.name == *name);
                view.schema.fields().iter().all(|field| has(field.name()))
            }
            (Ok(bound), Relation::View(view)) => bound.columns.len() >= view.schema.fields().len(),
            (Ok(bound), Relation::Native(table)) => bound.columns.len() >= table.schema().fields().len(),
            _ => false,
        })
    }

    /// Binds a view's query, with another table in the place of one.
    fn with_view<T>(
        &self,
        view: &Object,
        instead: Option<(&RelationName, Arc<dyn Table>)>,
        then: impl FnOnce(Result<Bound>, &Around<'_>) -> T,
    ) -> Result<T> {
        let query: Arc<ast::Query> = match (&view.relation, view.relation.materialized()) {
            (Relation::View(view), _) => view.query()?,
            (_, Some(materialized)) => Arc::new(crate::parse::query(&materialized.query)?),
            _ => return Err(Error::bug("a view is none")),
        };
        let names = Names::new(self.at);
        let around = Around::new(self.planner, self.at, &names, vec![]);
        if let Some((name, table)) = instead {
            around.knows(name, table);
        }
        around.enter_view(&view.name.schema);
        let bound = binder::bind_query(&query, &around);
        around.leave_view();
        Ok(then(bound, &around))
    }
}

fn kind(object: &Object) -> &'static str {
    match &object.relation {
        Relation::View(_) => "view",
        relation if relation.materialized().is_some() => "materialized view",
        _ => "table",
    }
}
