//! Statements that change rows: UPDATE, DELETE, MERGE, and what INSERT has beyond adding rows.
//!
//! The query of such a statement reads the table with the numbers of its rows, all of it in one snapshot. The writer
//! keeps what it gives, and takes the rows away and adds others when it is committed. So no statement sees its own
//! changes.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{MemoryRelation, ObjectRef, Relation, RelationName, Resolved};
use diligence_types::SqlType;
use sqlparser::ast::{self, ObjectName, TableFactor, TableObject, With};

use super::around::Around;
use super::definitions::unwritable;
use super::statements::{BoundStatement, returned_schema};
use crate::binder::{self, ChangedTable, Changes, Target};
use crate::write::changes::{ChangeKind, Returned};
use crate::write::memory::MemoryTarget;

impl Around<'_> {
    /// UPDATE; `with` is before the whole statement.
    pub(super) fn update(&self, update: &ast::Update, with: Option<&With>) -> Result<BoundStatement> {
        let TableFactor::Table { name, args: None, .. } = &update.table.relation else {
            return Err(Error::unsupported("UPDATE of what is no table is not supported").with_code("0A000"));
        };
        let (object, relation, table) = self.changed_table(name, "UPDATE")?;
        let changes = binder::bind_update(&table, update, with, self)?;
        self.change("UPDATE", object, &relation, ChangeKind::Update, changes)
    }

    /// DELETE; `with` is before the whole statement.
    pub(super) fn delete(&self, delete: &ast::Delete, with: Option<&With>) -> Result<BoundStatement> {
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
        let target = match from.as_slice() {
            [one] if one.joins.is_empty() => Some(&one.relation),
            _ => None,
        };
        let Some(TableFactor::Table { name, alias, args: None, .. }) = target else {
            return Err(Error::unsupported("DELETE takes one table")
                .with_code("0A000")
                .with_hint("others go to USING"));
        };
        let (object, relation, table) = self.changed_table(name, "DELETE")?;
        let changes = binder::bind_delete(&table, delete, alias.as_ref(), with, self)?;
        self.change("DELETE", object, &relation, ChangeKind::Delete, changes)
    }

    /// The statement of bound changes.
    pub(super) fn change(
        &self,
        tag: &'static str,
        object: ObjectRef,
        relation: &MemoryRelation,
        kind: ChangeKind,
        changes: Changes,
    ) -> Result<BoundStatement> {
        let Changes { rows, returned } = changes;
        let returned = (returned > 0).then(|| Returned::new(returned_schema(&rows, returned)));
        let target = MemoryTarget::Change { table: object, kind, columns: relation.schema().fields().len() };
        let writer = self.memory_writer(target).with_returned(returned.clone());
        Ok(BoundStatement::Write { tag, rows, writer: Arc::new(writer), returned })
    }

    /// A table whose rows a statement changes. Fails with 42501 if the session may not change or not read it, 42P01 if
    /// there is none, 0A000 or 42809 if its rows cannot be changed.
    pub(super) fn changed_table(
        &self,
        name: &ObjectName,
        what: &str,
    ) -> Result<(ObjectRef, Arc<MemoryRelation>, ChangedTable)> {
        let name = self.changeable(name)?;
        let found = self.at.snapshot.readable(&name)?.ok_or_else(|| self.unknown(&name))?;
        if let Resolved::Object(object) = &found
            && let Relation::Memory(memory) = &object.relation
        {
            let table = ChangedTable {
                numbered: memory.numbered(),
                schema: name.schema.clone(),
                name: name.name.clone(),
                targets: targets_of(memory)?,
            };
            return Ok((object.reference(), memory.clone(), table));
        }
        let is_fixed = matches!(&found, Resolved::Object(object) if !matches!(object.relation, Relation::Table(_)));
        Err(if is_fixed { fixed(&name, what) } else { unwritable(&name, &found) })
    }
}

/// The columns of a table in memory as statements give values to them.
pub(super) fn targets_of(memory: &MemoryRelation) -> Result<Vec<Target>> {
    let targets = memory.schema().fields().iter().map(|field| {
        let sql_type = SqlType::of_field(field)
            .ok_or_else(|| Error::unsupported(format!("the column '{}' cannot be written to", field.name())))?;
        let default = memory.column_defaults().get(field.name()).cloned();
        Ok(Target { default, ..Target::plain(field.name(), sql_type) })
    });
    targets.collect()
}

fn fixed(name: &RelationName, what: &str) -> Error {
    let error = Error::unsupported(format!("the rows of '{name}' cannot be changed: it is no table in memory"));
    error.with_code("0A000").with_hint(format!("CREATE TABLE … AS SELECT makes a table that {what} takes"))
}

/// The table that INSERT names. Fails with 0A000 for a function.
pub(super) fn inserted_name(insert: &ast::Insert) -> Result<&ObjectName> {
    match &insert.table {
        TableObject::TableName(name) => Ok(name),
        _ => Err(Error::unsupported("INSERT into a function is not supported").with_code("0A000")),
    }
}
