//! What kind of statement it is, and what comes of each kind.

use std::sync::Arc;

use datafusion::common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement as LogicalStatement};
use datafusion::sql::parser::{ResetStatement, Statement as ParsedStatement};
use datafusion::sql::sqlparser::ast;
use diligence_base::{Error, Result};

use super::settings::{set_statement, setting_name};
use super::{Planner, Planning, execute, own};
use crate::parse::Parsed;
use crate::statement::{Command, Statement, Write};
use crate::write::CopyTarget;
use crate::write::plan::copy_plan;

impl Planner {
    /// Plans a statement without values.
    pub(super) fn statement(&self, at: &Planning<'_>, parsed: Parsed) -> Result<Statement> {
        let Parsed { statement, source, depth, .. } = parsed;
        match statement {
            ParsedStatement::Explain(explain) => self.explain(
                at,
                Parsed { statement: *explain.statement, source, refused: None, depth },
                &explain.options,
            ),
            ParsedStatement::Reset(ResetStatement::Variable(name)) => {
                let name = setting_name(&name);
                Ok(Statement::Reset { name: (name != "all").then_some(name) })
            }
            ParsedStatement::Statement(statement) => match *statement {
                ast::Statement::Set(set) => set_statement(set),
                ast::Statement::ShowVariable { variable } => {
                    let words = variable.iter().map(|word| word.value.to_lowercase()).collect::<Vec<_>>();
                    let name = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                        ["all"] => None,
                        ["time", "zone"] | ["timezone"] => Some("datafusion.execution.time_zone".to_owned()),
                        _ => Some(words.join(".")),
                    };
                    Ok(Statement::Show { name })
                }
                ast::Statement::StartTransaction { .. }
                | ast::Statement::Commit { .. }
                | ast::Statement::Rollback { .. }
                | ast::Statement::Savepoint { .. } => {
                    Err(Error::unsupported("there are no transactions: every statement stands by itself"))
                }
                ast::Statement::Deallocate { name, .. } => {
                    let name = name.value.to_lowercase();
                    let mut prepared = self.prepared.lock();
                    if name == "all" {
                        prepared.clear();
                    } else if prepared.remove(&name).is_none() {
                        return Err(execute::no_prepared(&name, &prepared));
                    }
                    Ok(Statement::Command(Command::Nothing("DEALLOCATE")))
                }
                prepare @ ast::Statement::Prepare { .. } => self.prepare(at, prepare, depth),
                statement => {
                    let view = matches!(statement, ast::Statement::CreateView(_)).then(|| Box::new(statement.clone()));
                    let view = view.map(|statement| Parsed {
                        statement: ParsedStatement::Statement(statement),
                        source: source.clone(),
                        refused: None,
                        depth,
                    });
                    let statement = ParsedStatement::Statement(Box::new(statement));
                    self.logical(at, statement, |plan, _| self.planned(at, plan, view))
                }
            },
            ParsedStatement::CopyTo(mut copy) => {
                self.may_use_files("COPY … TO a file")?;
                let target = CopyTarget::of(&mut copy)?;
                self.logical(at, ParsedStatement::CopyTo(copy), |plan, _| {
                    let LogicalPlan::Copy(plan) = plan else {
                        return Err(Error::bug("COPY planned to something else"));
                    };
                    let (rows, writer) = copy_plan(&at.session.state, plan, target, self.options.files.clone())?;
                    Ok(Statement::Write(Write::new("COPY", self.query(at, rows, None)?, Arc::new(writer))))
                })
            }
            statement => {
                if matches!(statement, ParsedStatement::CreateExternalTable(_)) {
                    self.may_use_files("CREATE EXTERNAL TABLE")?;
                }
                let definition =
                    matches!(statement, ParsedStatement::CreateExternalTable(_)).then(|| statement.to_string());
                self.logical(at, statement, |plan, _| match (plan, definition) {
                    (LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)), Some(definition)) => {
                        self.create_external_table(at, *create, definition)
                    }
                    (plan, _) => self.planned(at, plan, None),
                })
            }
        }
    }

    /// What a logical plan asks for. `view` is the statement, if it is CREATE VIEW.
    pub(super) fn planned(&self, at: &Planning<'_>, plan: LogicalPlan, view: Option<Parsed>) -> Result<Statement> {
        match plan {
            LogicalPlan::Ddl(ddl) => self.ddl(at, ddl, view),
            LogicalPlan::Dml(dml) => self.dml(at, dml),
            LogicalPlan::Statement(LogicalStatement::Execute(execute)) => self.execute(at, execute),
            LogicalPlan::Statement(other) => Err(Error::unsupported(format!("{} is not supported", other.name()))),
            plan => Ok(Statement::Query(self.query(at, plan, None)?)),
        }
    }

    fn explain(&self, at: &Planning<'_>, parsed: Parsed, options: &ExplainStatementOptions) -> Result<Statement> {
        let analyze = options.analyze;
        let json = match options.format {
            None | Some(ExplainFormat::Indent) => false,
            Some(ExplainFormat::PostgresJSON) => true,
            Some(ExplainFormat::Tree | ExplainFormat::Graphviz) => {
                return Err(Error::unsupported("plans are shown as TEXT or JSON"));
            }
        };
        let mut details = options.verbose.then(String::new);
        let query = match parsed.statement {
            ParsedStatement::Statement(statement) if matches!(*statement, ast::Statement::Query(_)) => {
                match own::query_of_source(parsed.source.as_deref()).filter(|_| at.session.is_own) {
                    Some(query) => {
                        let (query, forms) = self.explained_own(at, query)?;
                        if let Some(details) = &mut details {
                            *details = forms;
                        }
                        query
                    }
                    None => {
                        let statement = ParsedStatement::Statement(statement);
                        self.logical(at, statement, |plan, _| self.query(at, plan, details.as_mut()))?
                    }
                }
            }
            statement => match self
                .statement(at, Parsed { statement, source: parsed.source, refused: None, depth: parsed.depth })?
            {
                Statement::Query(query) => query,
                Statement::Write(write) if !analyze => write.query,
                Statement::Write(_) => {
                    let error = Error::unsupported("EXPLAIN ANALYZE does not run statements that write");
                    return Err(error.with_hint("explain the query alone"));
                }
                _ => return Err(Error::input("only queries have plans to explain")),
            },
        };
        Ok(Statement::Explain { query, analyze, json, details })
    }
}

pub(super) fn is_query(parsed: &Parsed) -> bool {
    match &parsed.statement {
        ParsedStatement::Statement(statement) => matches!(**statement, ast::Statement::Query(_)),
        _ => false,
    }
}

/// Statements that change the session while they are planned.
pub(super) fn acts_when_planned(parsed: &Parsed) -> bool {
    match &parsed.statement {
        ParsedStatement::Statement(statement) => {
            matches!(**statement, ast::Statement::Prepare { .. } | ast::Statement::Deallocate { .. })
        }
        _ => false,
    }
}
