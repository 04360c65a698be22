//! Statements that change rows of a view with INSTEAD OF triggers: a query finds the rows as they are and as they are
//! to be, and the triggers do the rest, row by row.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::authority::Privilege;
use diligence_catalog::{Object, Relation, Resolved};
use sqlparser::ast::{self, Ident, ObjectName, TableFactor, UpdateTableFromKind, With};

use super::around::Around;
use super::bound::{BoundStatement, schema_of};
use super::changes::{ChangedTable, names_columns, others};
use super::writes::places;
use crate::binder::{self, BoundChange, BoundLater, Given, Overriding};
use crate::write::instead::InsteadWriter;
use crate::write::native::Returned;
use crate::write::triggers::{Operation, Triggers};

impl Around<'_> {
    /// A statement that changes rows of a view whose triggers do that; `None` if it is none. Fails with 42501.
    pub(super) fn instead(&self, statement: &ast::Statement, with: Option<&With>) -> Result<Option<BoundStatement>> {
        match statement {
            ast::Statement::Insert(insert) => {
                let ast::TableObject::TableName(name) = &insert.table else { return Ok(None) };
                let alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
                let Some(view) = self.view_with(name, Operation::Insert)? else { return Ok(None) };
                self.insert_instead(insert, with, &view, alias).map(Some)
            }
            ast::Statement::Update(update) => {
                let TableFactor::Table { name, alias, .. } = &update.table.relation else { return Ok(None) };
                let Some(view) = self.view_with(name, Operation::Update)? else { return Ok(None) };
                self.update_instead(update, with, &view, alias.as_ref().map(|alias| &alias.name)).map(Some)
            }
            ast::Statement::Delete(delete) => {
                let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
                let [target] = from.as_slice() else { return Ok(None) };
                let TableFactor::Table { name, alias, .. } = &target.relation else { return Ok(None) };
                let Some(view) = self.view_with(name, Operation::Delete)? else { return Ok(None) };
                self.delete_instead(delete, with, &view, alias.as_ref().map(|alias| &alias.name)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A view that has a trigger in the place of this.
    fn view_with(&self, name: &ObjectName, operation: Operation) -> Result<Option<Arc<Object>>> {
        let relation = self.relation_name(name)?;
        let Some(Resolved::Object(object)) = self.at.snapshot.get(&relation) else { return Ok(None) };
        let is_one = |trigger: &diligence_catalog::Trigger| {
            trigger.is_instead && trigger.is_enabled() && operation.is_meant_by(trigger)
        };
        let is_view = matches!(object.relation, Relation::View(_));
        Ok((is_view && object.relation.triggers().iter().any(is_one)).then_some(object))
    }

    /// The view as what a statement changes. From now on [`CHANGED`](binder::CHANGED) means it.
    fn changed_view(&self, view: &Arc<Object>, alias: Option<&Ident>) -> Result<ChangedTable> {
        *self.changed_name.borrow_mut() = Some(view.name.clone());
        *self.changed_view.borrow_mut() = Some(view.clone());
        self.names.uses_object(&view.name, view);
        let own = Ident::with_quote('"', &view.name.name);
        let called = (alias.unwrap_or(&own), alias.is_some());
        ChangedTable::of_view(view, &*view.relation.schema()?, called, self.next_table_version())
    }

    fn insert_instead(
        &self,
        insert: &ast::Insert,
        with: Option<&With>,
        view: &Arc<Object>,
        alias: Option<&Ident>,
    ) -> Result<BoundStatement> {
        self.check_granted(&view.name, Privilege::Insert)?;
        if insert.returning.is_some() {
            self.check_granted(&view.name, Privilege::Select)?;
        }
        if insert.on.is_some() || insert.overwrite {
            let error = Error::unsupported("a view with INSTEAD OF triggers takes no ON CONFLICT").with_code("0A000");
            return Err(error.with_hint("the trigger says what happens to rows"));
        }
        let changed = self.changed_view(view, alias)?;
        let given = match insert.columns.as_slice() {
            [] => Given::All,
            columns => Given::Places(places(columns, &changed.targets, &view.name)?),
        };
        let described = changed.described(insert.returning.as_deref(), with, &[]);
        let bound =
            binder::bind_new_rows(insert.source.as_deref(), &given, Overriding::Nothing, None, &described, self)?;
        self.instead_of("INSERT", Operation::Insert, view, None, bound)
    }

    fn update_instead(
        &self,
        update: &ast::Update,
        with: Option<&With>,
        view: &Arc<Object>,
        alias: Option<&Ident>,
    ) -> Result<BoundStatement> {
        self.check_granted(&view.name, Privilege::Update)?;
        let reads = update.from.is_some() || update.selection.is_some() || update.returning.is_some();
        if reads || update.assignments.iter().any(|assignment| names_columns(&assignment.value)) {
            self.check_granted(&view.name, Privilege::Select)?;
        }
        let changed = self.changed_view(view, alias)?;
        let from: &[ast::TableWithJoins] = match &update.from {
            None => &[],
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => from,
        };
        let values = changed.values(&update.assignments)?;
        let described = changed.described(update.returning.as_deref(), with, &[]);
        let bound = binder::bind_update(&values, from, update.selection.as_ref(), &described, self)?;
        let assigned = changed.assigned(&update.assignments)?;
        self.instead_of("UPDATE", Operation::Update, view, Some(&assigned), bound)
    }

    fn delete_instead(
        &self,
        delete: &ast::Delete,
        with: Option<&With>,
        view: &Arc<Object>,
        alias: Option<&Ident>,
    ) -> Result<BoundStatement> {
        self.check_granted(&view.name, Privilege::Delete)?;
        if delete.using.is_some() || delete.selection.is_some() || delete.returning.is_some() {
            self.check_granted(&view.name, Privilege::Select)?;
        }
        let changed = self.changed_view(view, alias)?;
        let using = others(delete.using.as_deref());
        let described = changed.described(delete.returning.as_deref(), with, &[]);
        let bound = binder::bind_delete(using, delete.selection.as_ref(), &described, self)?;
        self.instead_of("DELETE", Operation::Delete, view, None, bound)
    }

    /// A statement whose rows go to the triggers of a view.
    fn instead_of(
        &self,
        tag: &'static str,
        operation: Operation,
        view: &Arc<Object>,
        assigned: Option<&[String]>,
        bound: BoundChange,
    ) -> Result<BoundStatement> {
        let BoundChange { rows, later, .. } = bound;
        let given = later.as_ref().map(|later| schema_of(&later.rows));
        let later = later.map(|BoundLater { rows, from }| self.computes_later(rows, from));
        let own = self.own_triggers(view, vec![operation], assigned, true)?;
        let own = own.ok_or_else(|| Error::bug("a view has lost its triggers"))?;
        self.calls();
        let returned = Arc::<Returned>::default();
        let writer = InsteadWriter {
            triggers: Arc::new(Triggers { returned: later, ..own }),
            operation,
            memory: self.planner.options.tables.clone(),
            returned: returned.clone(),
        };
        let returning = given.map(|schema| (schema, returned));
        Ok(BoundStatement::Write { tag, rows, writer: Arc::new(writer), returning, again: None })
    }
}
