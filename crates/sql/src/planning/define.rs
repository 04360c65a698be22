//! Statements that define relations, and those that write to them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::dml::{InsertOp, WriteOp};
use datafusion::logical_expr::{CreateExternalTable, CreateMemoryTable, DdlStatement, DmlStatement, Expr, LogicalPlan};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::unparser::expr_to_sql;
use diligence_base::{Error, Result};
use diligence_catalog::{FileRelation, View};
use diligence_storage::foreign_error::from_datafusion;

use super::names::relation_name;
use super::{Planner, Planning};
use crate::parse::Parsed;
use crate::rewrite::duplicates;
use crate::statement::{Command, Statement, Write, nullable};
use crate::tables::StoredTable;
use crate::write::borrowed::insert_plan;
use crate::write::memory::{MemoryTarget, MemoryWriter, NewTable};
use crate::{errors, external};

impl Planner {
    pub(super) fn ddl(&self, at: &Planning<'_>, ddl: DdlStatement, view: Option<Parsed>) -> Result<Statement> {
        let name = |name: TableReference| {
            let name = relation_name(name).map_err(|error| errors::planning(error, at))?;
            at.snapshot.rights.check_write(&name)?;
            Ok(name)
        };
        let command = match ddl {
            DdlStatement::CreateMemoryTable(create) => return self.create_table(at, create),
            DdlStatement::CreateExternalTable(create) => {
                let definition = format!("CREATE EXTERNAL TABLE {}", create.name);
                return self.create_external_table(at, *create, definition);
            }
            DdlStatement::CreateView(create) => {
                let Some(Parsed { statement: ParsedStatement::Statement(statement), depth, .. }) = view else {
                    return Err(Error::bug("a view without its statement"));
                };
                if create.temporary {
                    return Err(Error::unsupported("temporary views are not supported"));
                }
                duplicates::refused(create.input.schema())?;
                let schema = create.input.schema().inner().clone();
                let view = Arc::new(View { source: Arc::new(*statement), depth, schema });
                Command::CreateView { name: name(create.name)?, view, or_replace: create.or_replace }
            }
            DdlStatement::DropTable(drop) => {
                Command::Drop { names: vec![name(drop.name)?], view: false, if_exists: drop.if_exists }
            }
            DdlStatement::DropView(drop) => {
                Command::Drop { names: vec![name(drop.name)?], view: true, if_exists: drop.if_exists }
            }
            DdlStatement::CreateCatalogSchema(create) => {
                at.snapshot.rights.check_write_schema(&create.schema_name)?;
                Command::CreateSchema { name: create.schema_name, if_not_exists: create.if_not_exists }
            }
            DdlStatement::DropCatalogSchema(drop) => {
                let name = drop.name.schema_name().to_owned();
                at.snapshot.rights.check_write_schema(&name)?;
                Command::DropSchema { name, if_exists: drop.if_exists, cascade: drop.cascade }
            }
            other => return Err(Error::unsupported(format!("{} is not supported", other.name()))),
        };
        Ok(Statement::Command(command))
    }

    fn create_table(&self, at: &Planning<'_>, create: CreateMemoryTable) -> Result<Statement> {
        let name = relation_name(create.name).map_err(|error| errors::planning(error, at))?;
        at.snapshot.rights.check_write(&name)?;
        if create.temporary {
            return Err(Error::unsupported("temporary tables are not supported"));
        }
        if let Some(existing) = at.snapshot.catalog.get(&name)
            && !create.or_replace
        {
            if create.if_not_exists {
                return Ok(Statement::Command(Command::Nothing("CREATE TABLE")));
            }
            let error = Error::input(format!("{} named '{name}' exists already", existing.relation.a_kind()));
            return Err(error.with_hint("drop it first, or write CREATE OR REPLACE TABLE or IF NOT EXISTS"));
        }
        if !create.constraints.is_empty() {
            let error = Error::unsupported("PRIMARY KEY and UNIQUE are not supported: nothing would enforce them");
            return Err(error.with_hint("leave them out; NOT NULL is enforced"));
        }
        let input = Arc::unwrap_or_clone(create.input);
        duplicates::refused(input.schema())?;
        let schema = match &input {
            LogicalPlan::EmptyRelation(_) => input.schema().inner().clone(),
            _ => nullable(input.schema().as_arrow()),
        };
        let query = self.query(at, input, None)?;
        let target = MemoryTarget::Create(NewTable {
            name,
            or_replace: create.or_replace,
            if_not_exists: create.if_not_exists,
            schema,
            column_defaults: defaults(create.column_defaults)?,
        });
        Ok(Statement::Write(Write::new("CREATE TABLE", query, self.memory_writer(target))))
    }

    fn memory_writer(&self, target: MemoryTarget) -> Arc<MemoryWriter> {
        Arc::new(MemoryWriter::new(target, self.options.tables.clone(), self.catalogs.catalog.clone()))
    }

    pub(super) fn create_external_table(
        &self,
        at: &Planning<'_>,
        create: CreateExternalTable,
        definition: String,
    ) -> Result<Statement> {
        let name = relation_name(create.name).map_err(|error| errors::planning(error, at))?;
        at.snapshot.rights.check_write(&name)?;
        for (given, what) in [
            (create.temporary, "TEMPORARY"),
            (create.unbounded, "UNBOUNDED"),
            (!create.order_exprs.is_empty(), "WITH ORDER"),
        ] {
            if given {
                return Err(Error::unsupported(format!("{what} is not supported for external tables")));
            }
        }
        let [location] = create.locations.as_slice() else {
            let error = Error::unsupported("an external table has one LOCATION");
            return Err(error.with_hint("a folder or a pattern (dir/*.parquet) names many files"));
        };
        let pairs = create.options.into_iter().map(|(key, value)| (key.to_lowercase(), value)).collect();
        let schema = create.schema.inner();
        let schema = (!schema.fields().is_empty()).then(|| schema.clone());
        let mut options = external::open_options(&create.file_type, &pairs, schema)?;
        external::partitioned_by(&mut options, &create.table_partition_cols)?;
        let mut relation = FileRelation::new(location, options, self.options.files.clone());
        relation.definition = Some(definition);
        relation.column_defaults = defaults(create.column_defaults.into_iter().collect())?;
        Ok(Statement::Command(Command::CreateExternalTable {
            name,
            relation: Arc::new(relation),
            or_replace: create.or_replace,
            if_not_exists: create.if_not_exists,
        }))
    }

    pub(super) fn dml(&self, at: &Planning<'_>, dml: DmlStatement) -> Result<Statement> {
        let name = relation_name(dml.table_name).map_err(|error| errors::planning(error, at))?;
        at.snapshot.rights.check_write(&name)?;
        let provider = source_as_provider(&dml.target).map_err(from_datafusion)?;
        let stored = provider.downcast_ref::<StoredTable>();
        let memory = stored.and_then(StoredTable::memory);
        let files = stored.and_then(StoredTable::files).cloned();
        match (dml.op, memory, files) {
            (WriteOp::Insert(op), Some(table), _) => {
                let replace = replaces(&op)?;
                let query = self.query(at, Arc::unwrap_or_clone(dml.input), None)?;
                let writer = self.memory_writer(MemoryTarget::Insert { table, replace });
                Ok(Statement::Write(Write::new("INSERT", query, writer)))
            }
            (WriteOp::Insert(op), None, Some(relation)) => {
                self.may_use_files("INSERT into files")?;
                let replace = replaces(&op)?;
                let (input, disk) = (Arc::unwrap_or_clone(dml.input), self.options.files.clone());
                let (rows, writer) = insert_plan(&at.session.state, input, &relation, replace, disk)?;
                Ok(Statement::Write(Write::new("INSERT", self.query(at, rows, None)?, Arc::new(writer))))
            }
            (WriteOp::Truncate, Some(table), _) => Ok(Statement::Command(Command::Truncate(table))),
            (_, None, None) => {
                let error = Error::unsupported(format!("the table '{name}' cannot be written to"));
                Err(error.with_hint("COPY … TO writes files; CREATE TABLE … AS makes a table that can be changed"))
            }
            (op, ..) => Err(Error::unsupported(format!("{} is not supported", op.name().to_uppercase()))),
        }
    }
}

/// Whether an INSERT puts its rows in the place of all others.
fn replaces(op: &InsertOp) -> Result<bool> {
    match op {
        InsertOp::Append => Ok(false),
        InsertOp::Overwrite => Ok(true),
        InsertOp::Replace => Err(Error::unsupported("REPLACE INTO is not supported: tables have no keys")),
    }
}

/// Defaults as statements have them.
fn defaults(defaults: Vec<(String, Expr)>) -> Result<HashMap<String, Arc<ast::Expr>>> {
    let syntax = |(name, default): (String, Expr)| {
        let text = expr_to_sql(&default).map_err(from_datafusion)?;
        Ok((name, Arc::new(text)))
    };
    defaults.into_iter().map(syntax).collect()
}
