//! Statements that write rows: INSERT and COPY … TO.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_sql::parser::CopyToStatement;
use diligence_base::{Error, Result};
use diligence_catalog::{ObjectRef, Relation, RelationName, Resolved};
use diligence_storage::Table;
use diligence_types::SqlType;
use sqlparser::ast::{self, Ident, ObjectName, SetExpr, TableFactor, TableObject, With};

use super::around::Around;
use super::definitions::{refuse_twice, unwritable};
use super::statements::BoundStatement;
use crate::binder::{self, Target};
use crate::errors;
use crate::write::memory::{MemoryTarget, MemoryWriter};
use crate::write::plan::{copy_plan, insert_plan};
use crate::write::{CopyTarget, option_pairs};

/// Where INSERT puts rows.
enum Place {
    Memory(ObjectRef),
    Files(Arc<diligence_catalog::FileRelation>),
}

impl Around<'_> {
    /// INSERT; `with` is before the whole statement.
    pub(super) fn insert(&self, insert: &ast::Insert, with: Option<&With>) -> Result<BoundStatement> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(Error::unsupported("INSERT into a function is not supported").with_code("0A000"));
        };
        refuse_clauses(insert)?;
        let name = self.changeable(name)?;
        let (place, schema, defaults) = self.place(&name)?;
        let targets = schema.fields().iter().map(|field| {
            let sql_type = SqlType::of_field(field)
                .ok_or_else(|| Error::unsupported(format!("the column '{}' cannot be written to", field.name())))?;
            Ok(Target { name: field.name().clone(), sql_type, default: defaults.get(field.name()).cloned() })
        });
        let targets = targets.collect::<Result<Vec<_>>>()?;
        let given = match insert.columns.as_slice() {
            [] => None,
            columns => Some(places(columns, &targets, &name)?),
        };
        let source = insert.source.as_deref().map(|source| with_before(source, with));
        let rows = binder::bind_insert(source.as_ref(), &targets, given.as_deref(), self)?;
        Ok(match place {
            Place::Memory(table) => {
                let target = MemoryTarget::Insert { table, replace: insert.overwrite };
                BoundStatement::Write { tag: "INSERT", rows, writer: self.memory_writer(target) }
            }
            Place::Files(relation) => {
                self.planner.may_use_files("INSERT into files")?;
                let disk = self.planner.options.files.clone();
                let settings = &self.at.session.options;
                let (rows, writer) = insert_plan(settings, rows, &relation, insert.overwrite, disk, &self.numbers)?;
                BoundStatement::Write { tag: "INSERT", rows, writer: Arc::new(writer) }
            }
        })
    }

    /// COPY of a query's rows into files.
    pub(super) fn copy(&self, copy: &mut CopyToStatement, query: &ast::Query) -> Result<BoundStatement> {
        self.planner.may_use_files("COPY … TO a file")?;
        let target = CopyTarget::of(copy)?;
        let rows = binder::bind_query(query, self)?;
        let options = option_pairs(copy)?;
        let disk = self.planner.options.files.clone();
        let settings = &self.at.session.options;
        let partitions = copy.partitioned_by.clone();
        let (rows, writer) = copy_plan(settings, rows, target, partitions, &options, disk, &self.numbers)?;
        Ok(BoundStatement::Write { tag: "COPY", rows, writer: Arc::new(writer) })
    }

    pub(super) fn memory_writer(&self, target: MemoryTarget) -> Arc<MemoryWriter> {
        let planner = self.planner;
        Arc::new(MemoryWriter::new(target, planner.options.tables.clone(), planner.catalogs.catalog()))
    }

    /// Where the rows of an INSERT into a table go, its columns, and what they get that are left out.
    #[allow(clippy::type_complexity)]
    fn place(
        &self,
        name: &RelationName,
    ) -> Result<(Place, arrow::datatypes::SchemaRef, HashMap<String, Arc<ast::Expr>>)> {
        let found = self.at.snapshot.get(name).ok_or_else(|| self.unknown(name))?;
        if let Resolved::Object(object) = &found {
            match &object.relation {
                Relation::Memory(memory) => {
                    let defaults = memory.column_defaults().clone();
                    return Ok((Place::Memory(object.reference()), memory.schema().clone(), defaults));
                }
                Relation::Files(files) => {
                    let schema = files.table()?.schema();
                    return Ok((Place::Files(files.clone()), schema, files.column_defaults.clone()));
                }
                Relation::Table(_) | Relation::View(_) => {}
            }
        }
        Err(unwritable(name, &found))
    }

    /// The error for a table that is not there.
    pub(super) fn unknown(&self, name: &RelationName) -> Error {
        let error = Error::input(format!("no table is named '{name}'")).with_code("42P01");
        errors::suggest(error, &name.to_string(), &binder::Context::relations(self))
    }
}

/// A query of all of a table, with everything that may stand before its name.
pub(super) fn whole_table(name: &ObjectName) -> Result<ast::Query> {
    let mut query = crate::parse::query("SELECT * FROM t")?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(TableFactor::Table { name: table, .. }) = select.from.first_mut().map(|from| &mut from.relation)
    {
        *table = name.clone();
    }
    Ok(query)
}

/// The places of the columns that a statement lists.
fn places(columns: &[ObjectName], targets: &[Target], table: &RelationName) -> Result<Vec<usize>> {
    let names = columns.iter().map(|column| match column.0.as_slice() {
        [part] => part.as_ident().map(|name| name_in(name, targets)),
        _ => None,
    });
    let names = names.zip(columns).map(|(name, written)| {
        name.ok_or_else(|| Error::unsupported(format!("{written}: fields of columns cannot be set")).with_code("0A000"))
    });
    let names = names.collect::<Result<Vec<_>>>()?;
    refuse_twice(names.iter().map(String::as_str))?;
    let known = || targets.iter().map(|target| target.name.clone()).collect::<Vec<_>>();
    let place = |name: &String| {
        targets.iter().position(|target| target.name == *name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            errors::suggest(Error::input(message).with_code("42703"), name, &known())
        })
    };
    names.iter().map(place).collect()
}

/// The column that a name means: without quotes, one with capitals too, if it is the only one.
pub(super) fn name_in(name: &Ident, targets: &[Target]) -> String {
    if name.quote_style.is_some() {
        return name.value.clone();
    }
    let lower = name.value.to_lowercase();
    let mut alike = targets.iter().filter(|target| target.name.to_lowercase() == lower);
    match (targets.iter().any(|target| target.name == lower), alike.next(), alike.next()) {
        (false, Some(only), None) => only.name.clone(),
        _ => lower,
    }
}

/// A source with the common table expressions that stand before the whole statement.
pub(super) fn with_before(source: &ast::Query, with: Option<&With>) -> ast::Query {
    let mut source = source.clone();
    if let Some(with) = with {
        let mut with = with.clone();
        if let Some(own) = source.with.take() {
            with.recursive |= own.recursive;
            with.cte_tables.extend(own.cte_tables);
        }
        source.with = Some(with);
    }
    source
}

/// Fails on clauses of INSERT that there is nothing for yet.
fn refuse_clauses(insert: &ast::Insert) -> Result<()> {
    for (given, what, hint) in [
        (insert.or.is_some() || insert.replace_into, "INSERT OR REPLACE", "tables have no keys"),
        (insert.on.is_some(), "ON CONFLICT", "tables have no keys: leave the clause out"),
        (insert.returning.is_some(), "RETURNING", "select the rows in another statement"),
        (!insert.assignments.is_empty(), "INSERT … SET", "write INSERT INTO t (a, b) VALUES (…)"),
        (insert.partitioned.is_some(), "PARTITION", "name the partition's columns like the others"),
    ] {
        if given {
            return Err(Error::unsupported(format!("{what} is not supported")).with_code("0A000").with_hint(hint));
        }
    }
    Ok(())
}
