//! CHECKPOINT, BACKUP, EXPORT and IMPORT DATABASE, CHECK TABLE, REINDEX and SET CONSTRAINTS.

use std::path::PathBuf;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::rights::DENIED;
use diligence_catalog::{CATALOG_NAME, Object, Relation, Resolved, no_schema};
use sqlparser::ast;

use super::around::Around;
use super::definitions::lower;
use crate::parse::{
    BACKUP, CHECK, CHECKPOINT, CONCURRENTLY, EXPORT, IGNORED, IMPORT, PREPARED, REFUSED, SET_CONSTRAINTS,
    UNKNOWN_DROPS, UPKEEP,
};
use crate::statement::{Command, ExportFormat, Maintenance, Statement};

impl Around<'_> {
    /// What a call asks for that stands for such a statement; `None` for another call.
    pub(super) fn maintenance(&self, call: &ast::Function) -> Result<Option<Statement>> {
        let [part] = call.name.0.as_slice() else { return Ok(None) };
        let maintenance = match part.as_ident().map(|name| name.value.as_str()) {
            Some(CHECKPOINT) => Maintenance::Checkpoint,
            Some(BACKUP) => {
                self.planner.may_use_files("BACKUP DATABASE")?;
                let folders = arguments(call).map(|folder| folder_of(folder, of_backup)).collect::<Result<Vec<_>>>()?;
                match <[PathBuf; 2]>::try_from(folders) {
                    Ok([to, earlier]) => Maintenance::BackUp { to, earlier: Some(earlier) },
                    Err(folders) => match <[PathBuf; 1]>::try_from(folders) {
                        Ok([to]) => Maintenance::BackUp { to, earlier: None },
                        Err(_) => return Err(of_backup()),
                    },
                }
            }
            Some(EXPORT) => {
                self.planner.may_use_files("EXPORT DATABASE")?;
                let mut given = arguments(call);
                let to = given.next().map_or_else(|| Err(of_export()), |to| folder_of(to, of_export))?;
                let format = match given.next() {
                    None => ExportFormat::default(),
                    Some(Some(ast::Expr::Identifier(name))) if lower(name) == "parquet" => ExportFormat::Parquet,
                    Some(Some(ast::Expr::Identifier(name))) if lower(name) == "csv" => ExportFormat::Csv,
                    Some(_) => return Err(of_export()),
                };
                Maintenance::Export { to, format }
            }
            Some(IMPORT) => {
                self.planner.may_use_files("IMPORT DATABASE")?;
                let from =
                    arguments(call).next().map_or_else(|| Err(of_import()), |from| folder_of(from, of_import))?;
                Maintenance::Import { from }
            }
            Some(CHECK) => Maintenance::Check { tables: self.checked(call)? },
            Some(SET_CONSTRAINTS) => return set_constraints(call).map(Some),
            Some(IGNORED) => return self.ignored(call).map(Some),
            Some(UPKEEP) => return self.upkeep(call).map(Some),
            _ => return Ok(None),
        };
        Ok(Some(Statement::Maintain(maintenance)))
    }

    /// A statement with nothing to do, but for REINDEX. Fails with 42P01 if its table is not there.
    fn ignored(&self, call: &ast::Function) -> Result<Statement> {
        const TAGS: [&str; 11] = [
            "ALTER INDEX",
            "ALTER TABLE",
            "CLUSTER",
            "COMMENT",
            "DROP EXTENSION",
            "LOAD",
            "REINDEX",
            "REINDEX DATABASE",
            "REINDEX INDEX",
            "REINDEX SCHEMA",
            "REINDEX SYSTEM",
        ];
        let mut given = arguments(call);
        let tag = match given.next() {
            Some(Some(ast::Expr::Value(value))) => match &value.value {
                ast::Value::SingleQuotedString(tag) if let Some(what) = tag.strip_prefix(REFUSED) => {
                    return Err(refused(what));
                }
                ast::Value::SingleQuotedString(tag) => {
                    let alone = tag.strip_suffix(CONCURRENTLY);
                    if alone.is_some() {
                        self.outside_of_blocks("REINDEX CONCURRENTLY")?;
                    }
                    let known = TAGS.into_iter().chain(UNKNOWN_DROPS.map(|(tag, _)| tag));
                    known.into_iter().find(|known| *known == alone.unwrap_or(tag))
                }
                _ => None,
            },
            _ => None,
        };
        let tag = tag.ok_or_else(|| Error::bug("a statement without a tag"))?;
        if matches!(tag, "REINDEX SCHEMA" | "REINDEX DATABASE" | "REINDEX SYSTEM") {
            self.outside_of_blocks(tag)?;
        }
        let table = match given.next().flatten() {
            Some(ast::Expr::Identifier(name)) => Some(ast::ObjectName::from(vec![name.clone()])),
            Some(ast::Expr::CompoundIdentifier(names)) => Some(ast::ObjectName::from(names.clone())),
            _ => None,
        };
        if tag == "CLUSTER" && table.is_none() {
            self.outside_of_blocks(tag)?;
        }
        if let Some(kind) = tag.strip_prefix("REINDEX ") {
            return self.reindexed(kind, table.as_ref()).map(Statement::Maintain);
        }
        if let Some(table) = table {
            let name = self.relation_name(&table)?;
            let found = self.at.snapshot.readable(&name)?.ok_or_else(|| self.unknown(&name))?;
            if tag == "REINDEX"
                && let Resolved::Object(table) = found
                && matches!(table.relation, Relation::Native(_))
            {
                self.at.snapshot.rights.check_owner(&name)?;
                return Ok(Statement::Maintain(Maintenance::Reindex { tables: vec![table], only: None }));
            }
        }
        Ok(Statement::Command(Command::Nothing(tag)))
    }

    /// REINDEX of an index, a schema, the database, or of what describes the catalog, which has no indexes. Fails with
    /// PostgreSQL's codes if it is not there, or somebody else's.
    fn reindexed(&self, kind: &str, name: Option<&ast::ObjectName>) -> Result<Maintenance> {
        let (snapshot, rights) = (self.at.snapshot, &self.at.snapshot.rights);
        let missing = || Error::input(format!("REINDEX {kind} takes a name")).with_code("42601");
        let all = |tables| Maintenance::Reindex { tables, only: None };
        if kind == "INDEX" {
            let name = self.index_name(name.ok_or_else(missing)?)?;
            let Some((object, key)) = self.index_named(&name) else {
                return Err(match snapshot.get(&name) {
                    Some(_) => Error::input(format!("\"{}\" is not an index", name.name)).with_code("42809"),
                    None => Error::input(format!("relation \"{name}\" does not exist")).with_code("42P01"),
                });
            };
            rights.check_owner(&object.name)?;
            return Ok(Maintenance::Reindex { tables: vec![object.clone()], only: Some(key.name.clone()) });
        }
        let named = name.map(|name| match name.0.as_slice() {
            [part] => part.as_ident().map(lower).ok_or_else(missing),
            _ => Err(missing()),
        });
        let named = named.transpose()?;
        if kind == "SCHEMA" {
            let schema = named.ok_or_else(missing)?;
            if !snapshot.catalog.has_schema(&schema) {
                return Err(no_schema(&schema));
            }
            rights.check_schema_owner(&schema)?;
            return Ok(all(self.own_tables(|object| object.name.schema == schema)));
        }
        if named.is_some_and(|name| name != CATALOG_NAME) {
            let error = Error::unsupported("can only reindex the currently open database").with_code("0A000");
            return Err(error.with_hint(format!("this one is called {CATALOG_NAME}")));
        }
        if !rights.are_all() {
            return Err(Error::input(format!("must be owner of database {CATALOG_NAME}")).with_code(DENIED));
        }
        Ok(all(if kind == "DATABASE" { self.own_tables(|_| true) } else { vec![] }))
    }

    /// The tables of the database that the session sees and that fulfill a condition.
    fn own_tables(&self, is_wanted: impl Fn(&Object) -> bool) -> Vec<Arc<Object>> {
        let snapshot = self.at.snapshot;
        let objects = snapshot.catalog.objects().filter(|object| snapshot.sees(&object.name) && is_wanted(object));
        objects.filter(|object| matches!(object.relation, Relation::Native(_))).cloned().collect()
    }

    /// The tables that CHECK TABLE names; without names, all that the session may read.
    fn checked(&self, call: &ast::Function) -> Result<Vec<Arc<Object>>> {
        let snapshot = self.at.snapshot;
        let mut tables = Vec::new();
        for argument in arguments(call) {
            let name = match argument {
                Some(ast::Expr::Identifier(name)) => ast::ObjectName::from(vec![name.clone()]),
                Some(ast::Expr::CompoundIdentifier(names)) => ast::ObjectName::from(names.clone()),
                _ => return Err(Error::input("CHECK TABLE takes names of tables").with_code("42601")),
            };
            let name = self.relation_name(&name)?;
            match snapshot.readable(&name)? {
                Some(Resolved::Object(object)) if matches!(object.relation, Relation::Native(_)) => tables.push(object),
                Some(other) => {
                    let message =
                        format!("\"{}\" is {}: only tables of the database are checked", name.name, other.a_kind());
                    return Err(Error::input(message).with_code("42809"));
                }
                None => return Err(self.unknown(&name)),
            }
        }
        if tables.is_empty() {
            tables = self.native_tables();
        }
        Ok(tables)
    }
}

/// The error for what PostgreSQL has and this engine does not: code 0A000, with what to do instead.
fn refused(what: &str) -> Error {
    if let Some(name) = what.strip_prefix(PREPARED) {
        let message = format!("prepared transaction with identifier \"{name}\" does not exist");
        return Error::input(message).with_code("42704");
    }
    if what == "PREPARE TRANSACTION" {
        let error = Error::unsupported("prepared transactions are disabled").with_code("55000");
        return error.with_hint("there is no two-phase commit here: COMMIT ends a transaction in one step");
    }
    let hint = match what {
        "INHERIT" => "a view with UNION ALL shows several tables as one; LIKE copies the columns of another",
        "ATTACH PARTITION" | "DETACH PARTITION" => {
            "a table has its fragments in itself: DISTRIBUTED BY RANGE (column) divides its rows"
        }
        "CREATE RULE" => "triggers do what rules do; a view that cannot be changed takes one INSTEAD OF INSERT",
        "CREATE PUBLICATION" | "CREATE SUBSCRIPTION" => "BACKUP DATABASE … INCREMENTAL FROM copies what is new",
        "CREATE EVENT TRIGGER" => "GRANT and REVOKE say who may define what",
        // Rows that some may see and others not.
        _ => {
            "grant rights on a view that shows each role its rows (WHERE owner = current_user WITH CHECK OPTION), and \
             none on the table"
        }
    };
    Error::unsupported(format!("{what} is not supported")).with_code("0A000").with_hint(hint)
}

fn set_constraints(call: &ast::Function) -> Result<Statement> {
    let wrong = || Error::input("SET CONSTRAINTS takes names of constraints, or ALL").with_code("42601");
    let mut given = arguments(call);
    let is_deferred = match given.next() {
        Some(Some(ast::Expr::Value(value))) => value.value == ast::Value::Boolean(true),
        _ => return Err(wrong()),
    };
    // A schema says where to look for one. Here all of a name are meant.
    let names = given.map(|name| match name {
        Some(ast::Expr::Identifier(name)) => Ok(lower(name)),
        Some(ast::Expr::CompoundIdentifier(names)) => names.last().map(lower).ok_or_else(wrong),
        _ => Err(wrong()),
    });
    let names = names.collect::<Result<Vec<_>>>()?;
    Ok(Statement::Command(Command::SetConstraints { names, is_deferred }))
}

pub(super) fn arguments(call: &ast::Function) -> impl Iterator<Item = Option<&ast::Expr>> {
    let list = match &call.args {
        ast::FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    list.iter().map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    })
}

fn folder_of(argument: Option<&ast::Expr>, wrong: fn() -> Error) -> Result<PathBuf> {
    match argument {
        Some(ast::Expr::Value(value)) => match &value.value {
            ast::Value::SingleQuotedString(text) if !text.is_empty() => Ok(text.into()),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

fn of_export() -> Error {
    let error = Error::input("EXPORT DATABASE takes a folder as a text, and a format").with_code("42601");
    error.with_hint("write EXPORT DATABASE 'folder', or … 'folder' (FORMAT csv); formats are parquet and csv")
}

fn of_import() -> Error {
    let error = Error::input("IMPORT DATABASE takes a folder as a text").with_code("42601");
    error.with_hint("write IMPORT DATABASE 'folder', one that EXPORT DATABASE has written")
}

fn of_backup() -> Error {
    let error = Error::input("BACKUP DATABASE takes a folder as a text").with_code("42601");
    error.with_hint("write BACKUP DATABASE TO 'folder', or … TO 'folder' INCREMENTAL FROM 'earlier folder'")
}
