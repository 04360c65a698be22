//! Statements by DataFusion's front: what kind of statement it is, and what comes of each kind.

use std::sync::Arc;

use datafusion::common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement as LogicalStatement};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast;
use diligence_base::{Error, Result};

use super::{Planner, Planning, kinds};
use crate::parse::Parsed;
use crate::statement::{Statement, Write};
use crate::write::CopyTarget;
use crate::write::borrowed::copy_plan;

impl Planner {
    /// Plans a statement without values.
    pub(super) fn statement(&self, at: &Planning<'_>, parsed: Parsed) -> Result<Statement> {
        let Parsed { statement, depth, .. } = parsed;
        match statement {
            ParsedStatement::Explain(explain) => {
                self.explain(at, Parsed { statement: *explain.statement, refused: None, depth }, &explain.options)
            }
            reset @ ParsedStatement::Reset(_) => kinds::reset(&reset),
            ParsedStatement::Statement(statement) => match *statement {
                statement @ (ast::Statement::Set(_)
                | ast::Statement::ShowVariable { .. }
                | ast::Statement::StartTransaction { .. }
                | ast::Statement::Commit { .. }
                | ast::Statement::Rollback { .. }
                | ast::Statement::Savepoint { .. }
                | ast::Statement::Deallocate { .. }) => self.session_statement(&statement),
                prepare @ ast::Statement::Prepare { .. } => self.prepare(at, prepare, depth),
                statement => {
                    let view = matches!(statement, ast::Statement::CreateView(_)).then(|| Box::new(statement.clone()));
                    let view = view.map(|statement| Parsed {
                        statement: ParsedStatement::Statement(statement),
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
                let statement = ParsedStatement::Statement(statement);
                self.logical(at, statement, |plan, _| self.query(at, plan, details.as_mut()))?
            }
            statement => match self.statement(at, Parsed { statement, refused: None, depth: parsed.depth })? {
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
