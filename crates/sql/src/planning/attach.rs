//! ATTACH: a schema of external tables over the tables of a database.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{FileRelation, RelationName};
use diligence_storage::external::{Format, OpenOptions, sqlite_tables};
use sqlparser::ast;

use super::around::Around;
use crate::binder::normalized;
use crate::external::OptionValue;
use crate::parse::ATTACHED;
use crate::statement::{Command, Statement};

impl Around<'_> {
    /// ATTACH. Only the names of the tables are read. Fails with 0A000 for a database of another kind, 42501 if the
    /// session may not use files, 42P06 if there is a schema of that name.
    pub(super) fn attach(&self, database: &ast::Expr, schema: &ast::Ident) -> Result<Statement> {
        self.planner.may_use_files("ATTACH")?;
        let literal = |expression: &ast::Expr| OptionValue::of(expression)?.texts().ok().map(|texts| texts.concat());
        let (path, kind) = match database {
            ast::Expr::Function(call) if call.name.to_string().trim_matches('"') == ATTACHED => {
                let arguments = match &call.args {
                    ast::FunctionArguments::List(list) => list.args.as_slice(),
                    _ => &[],
                };
                let mut texts = arguments.iter().map(|argument| match argument {
                    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(text)) => literal(text),
                    _ => None,
                });
                (texts.next().flatten(), texts.next().flatten().unwrap_or_default())
            }
            other => (literal(other), String::new()),
        };
        let Some(path) = path else {
            return Err(Error::input("ATTACH takes the path of a database as a text").with_code("42601"));
        };
        if !kind.is_empty() && kind != "sqlite" || path.contains("://") || path.contains("host=") {
            let kind = if kind.is_empty() { String::new() } else { format!(" of type '{kind}'") };
            return Err(Error::unsupported(format!("a database{kind} is not attached"))
                .with_code("0A000")
                .with_hint("ATTACH 'file' AS name (TYPE sqlite) attaches a local database of SQLite"));
        }
        let schema = normalized(schema);
        if self.at.snapshot.schema_oid(&schema).is_some() {
            return Err(Error::input(format!("schema \"{schema}\" already exists")).with_code("42P06"));
        }
        let disk = &self.at.options.files;
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let tables = sqlite_tables(&path, disk)?.into_iter().map(|table| {
            let format = Some(Format::Sqlite);
            let options = OpenOptions { format, table: Some(table.clone()), ..OpenOptions::default() };
            let mut relation = FileRelation::new(path.clone(), options, disk.clone());
            relation.definition = Some(format!(
                "CREATE EXTERNAL TABLE {}.{} STORED AS SQLITE LOCATION {} OPTIONS ('table' {})",
                quoted(&schema),
                quoted(&table),
                text(&path),
                text(&table)
            ));
            (RelationName::new(&schema, &table), Arc::new(relation))
        });
        let tables = tables.collect();
        Ok(Statement::Command(Command::Attach { schema, tables }))
    }
}
