//! Statements about the session: settings, transactions, and prepared statements that go.

use diligence_base::{Error, Result};
use diligence_catalog::{CATALOG_NAME, DEFAULT_SCHEMA, Isolation, no_schema};
use sqlparser::ast;

use super::Planner;
use super::path::SEARCH_PATH;
use super::prepared::no_prepared;
use super::settings::{set_statement, setting_name};
use crate::parse::{Parsed, SyntaxTree, VARIABLE};
use crate::quoting::quoted;
use crate::statement::{Command, Maintenance, Statement, TransactionStep};

impl Planner {
    /// What a statement does to the session. Fails with 0A000 for statements that there is nothing for.
    pub(super) fn session_statement(&self, statement: &ast::Statement) -> Result<Statement> {
        match statement {
            ast::Statement::Set(set) => set_statement(set.clone()),
            ast::Statement::ShowVariable { variable } => {
                let words = variable.iter().map(|word| word.value.to_lowercase()).collect::<Vec<_>>();
                let name = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                    ["all"] => None,
                    ["time", "zone"] | ["timezone"] => Some("timezone".to_owned()),
                    _ => Some(words.join(".")),
                };
                Ok(Statement::Show { name })
            }
            ast::Statement::StartTransaction { modes, .. } => {
                let level = modes.iter().rev().find_map(|mode| match mode {
                    ast::TransactionMode::IsolationLevel(level) => Some(level),
                    ast::TransactionMode::AccessMode(_) => None,
                });
                let isolation = match level {
                    Some(ast::TransactionIsolationLevel::Serializable) => Isolation::Serializable,
                    Some(ast::TransactionIsolationLevel::RepeatableRead | ast::TransactionIsolationLevel::Snapshot) => {
                        Isolation::RepeatableRead
                    }
                    _ => Isolation::ReadCommitted,
                };
                Ok(Statement::Transaction(TransactionStep::Begin(isolation)))
            }
            ast::Statement::Commit { chain: true, .. } => {
                Ok(Statement::Transaction(TransactionStep::Chain { commits: true }))
            }
            ast::Statement::Rollback { chain: true, savepoint: None } => {
                Ok(Statement::Transaction(TransactionStep::Chain { commits: false }))
            }
            ast::Statement::Commit { .. } => Ok(Statement::Transaction(TransactionStep::Commit)),
            ast::Statement::Rollback { savepoint, .. } => Ok(Statement::Transaction(match savepoint {
                None => TransactionStep::RollBack,
                Some(name) => TransactionStep::RollBackTo(name.value.clone()),
            })),
            ast::Statement::Savepoint { name } => {
                Ok(Statement::Transaction(TransactionStep::Savepoint(name.value.clone())))
            }
            ast::Statement::ReleaseSavepoint { name } => {
                Ok(Statement::Transaction(TransactionStep::Release(name.value.clone())))
            }
            // What they are for is done all the time: rows that are gone hold no room, and statistics are those of the
            // rows that a statement sees.
            ast::Statement::Vacuum(_) => Ok(Statement::Maintain(Maintenance::Vacuum { whole: vec![], tag: "VACUUM" })),
            ast::Statement::Analyze(_) => Ok(Statement::Command(Command::Nothing("ANALYZE"))),
            // DuckDB's USE names a database, a schema or both.
            ast::Statement::Use(given) => {
                let name = match given {
                    ast::Use::Object(name) | ast::Use::Database(name) | ast::Use::Schema(name) => name,
                    other => return Err(Error::unsupported(format!("{other} is not supported")).with_code("0A000")),
                };
                let parts = name.0.iter().filter_map(|part| part.as_ident()).map(|part| match part.quote_style {
                    Some(_) => part.value.clone(),
                    None => part.value.to_lowercase(),
                });
                let schema = match parts.collect::<Vec<_>>().as_slice() {
                    [only] if only == CATALOG_NAME || only == "memory" => DEFAULT_SCHEMA.to_owned(),
                    [only] | [_, only] if only == "main" => DEFAULT_SCHEMA.to_owned(),
                    [schema] | [_, schema] => schema.clone(),
                    _ => return Err(Error::input(format!("{name} is no schema")).with_code("3F000")),
                };
                if !self.catalogs().snapshot().catalog.has_schema(&schema) {
                    return Err(no_schema(&schema));
                }
                let quoted = quoted(&schema);
                let value = if schema == DEFAULT_SCHEMA { schema } else { quoted };
                Ok(Statement::Set { name: SEARCH_PATH.to_owned(), value, is_local: false })
            }
            ast::Statement::Deallocate { name, .. } => {
                let name = name.value.to_lowercase();
                let mut prepared = self.prepared.lock();
                if name == "all" {
                    prepared.clear();
                } else if prepared.remove(&name).is_none() {
                    return Err(no_prepared(&name, &prepared));
                }
                Ok(Statement::Command(Command::Nothing("DEALLOCATE")))
            }
            other => {
                let text = other.to_string();
                let words = text.split_whitespace().take_while(|word| word.chars().all(|c| c.is_ascii_uppercase()));
                let words = words.take(3).collect::<Vec<_>>().join(" ");
                let what = if words.is_empty() { "this statement".to_owned() } else { words };
                Err(Error::unsupported(format!("{what} is not supported")).with_code("0A000"))
            }
        }
    }
}

/// RESET.
pub(super) fn reset(name: &ast::ObjectName, planner: &Planner) -> Result<Statement> {
    if let [part] = name.0.as_slice()
        && let Some(variable) = part.as_ident().and_then(|name| name.value.strip_prefix(VARIABLE))
    {
        planner.variables.lock().remove(variable);
        return Ok(Statement::Command(Command::Nothing("RESET")));
    }
    let name = setting_name(name);
    Ok(Statement::Reset { name: (name != "all").then_some(name), is_local: false })
}

/// Whether a statement reads or changes rows.
pub(super) fn has_rows(parsed: &Parsed) -> bool {
    match &parsed.statement {
        SyntaxTree::Statement(statement) => matches!(
            **statement,
            ast::Statement::Query(_)
                | ast::Statement::Insert(_)
                | ast::Statement::Update(_)
                | ast::Statement::Delete(_)
                | ast::Statement::Merge(_)
        ),
        _ => false,
    }
}

/// Statements that change the session while they are planned.
pub(super) fn acts_when_planned(parsed: &Parsed) -> bool {
    match &parsed.statement {
        SyntaxTree::Statement(statement) => {
            matches!(**statement, ast::Statement::Prepare { .. } | ast::Statement::Deallocate { .. })
        }
        _ => false,
    }
}
