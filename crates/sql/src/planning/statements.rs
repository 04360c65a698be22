//! What kind of statement it is, what it names, and what comes of each kind.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_catalog::Uses;
use diligence_engine::plan::{Plan, PlanTables};
use diligence_types::SqlType;
use sqlparser::ast::{self, Ident, SetExpr};

use super::around::Around;
use super::bound::BoundStatement;
use super::names::Names;
use super::{
    Description, Planned, Planner, Planning, attach, authority, calls, domains, kinds, materialized, sequences, several,
};
use crate::binder::{self, Bound};
use crate::front;
use crate::parse::{CopySource, Explain, Parsed, SyntaxTree, VARIABLE, lower};
use crate::statement::{AnyWrite, Command, Query, Statement, Write};

impl Planner {
    /// Plans a statement with values for its parameters.
    pub(super) fn plan_in(&self, at: &Planning<'_>, parsed: &Parsed, values: &[ScalarValue]) -> Result<Planned> {
        let names = Names::new(at);
        let types = values.iter().map(|value| SqlType::of_arrow(&value.data_type()).unwrap_or(SqlType::Text));
        let types = types.collect::<Vec<_>>();
        let around = Around::new(self, at, &names, types.clone()).with_values(values);
        let error = match around.bind(&parsed.statement, parsed) {
            Ok(bound) => return around.planned(bound, values),
            Err(error) if are_texts_refused(&error, &types) => error,
            Err(error) => return Err(error),
        };
        // A text that is sent may stand for a value of any type that is held as text, where the statement says which.
        let undecided = types.into_iter().map(|given| if is_text(&given) { SqlType::Unknown } else { given });
        let around = Around::new(self, at, &names, undecided.collect()).with_values(values);
        let bound = around.bind(&parsed.statement, parsed).map_err(|_| error)?;
        around.planned(bound, values)
    }

    /// What a statement takes and gives; `given` are the types that its sender declares.
    pub(super) fn described(&self, at: &Planning<'_>, parsed: &Parsed, given: Vec<SqlType>) -> Result<Description> {
        let names = Names::new(at);
        let around = Around::new(self, at, &names, given).without_rows();
        Ok(around.bind(&parsed.statement, parsed)?.described())
    }
}

impl Planner {
    /// A statement's plan for all values of parameters of these types, which stand for them in conditions and computed
    /// columns; `None` if it is for this time only. Fails with 08P01 if a value must be known.
    pub(super) fn plan_without_values(
        &self,
        at: &Planning<'_>,
        parsed: &Parsed,
        types: &[DataType],
    ) -> Result<Option<Unvalued>> {
        let names = Names::new(at);
        let count = types.len();
        let types = types.iter().map(|given| SqlType::of_arrow(given).unwrap_or(SqlType::Text));
        let types = types.collect::<Vec<_>>();
        let around = Around::new(self, at, &names, types.clone()).with_now(count);
        let bound = match around.bind(&parsed.statement, parsed) {
            // Texts become values of other types, which is looked at for each.
            Err(error) if are_texts_refused(&error, &types) => return Ok(None),
            bound => bound?,
        };
        let (bound, write) = match bound {
            BoundStatement::Query(bound) => (bound, None),
            BoundStatement::Write { tag, rows, again: Some(writer), returning, .. } if !writer.calls_triggers() => {
                (rows, Some(AnyWrite::new(tag, writer, returning.map(|(schema, _)| schema))))
            }
            _ => return Ok(None),
        };
        let planned = front::without_values(bound, &around, &at.session.options)?;
        let uses = if planned.is_transient { None } else { names.uses() };
        Ok(uses.map(|uses| Unvalued { plan: planned.plan, tables: planned.tables, write, uses }))
    }
}

fn is_text(given: &SqlType) -> bool {
    matches!(given, SqlType::Text) || given.element().is_some_and(is_text)
}

/// Whether a statement was refused as texts are not of the types that it takes.
fn are_texts_refused(error: &Error, given: &[SqlType]) -> bool {
    matches!(error.code(), Some("42883" | "42804")) && given.iter().any(is_text)
}

/// Whether SET is of one of DuckDB's variables.
fn is_variable(name: &ast::ObjectName) -> bool {
    matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value.starts_with(VARIABLE)))
}

/// A statement's plan for all values.
pub(super) struct Unvalued {
    /// The plan of its rows.
    pub plan: Plan,
    /// The tables that it names.
    pub tables: PlanTables,
    /// What is done with them.
    pub write: Option<AnyWrite>,
    /// What it was made from.
    pub uses: Uses,
}

/// PostgreSQL's extensions whose functions are here already.
const EXTENSIONS: [&str; 9] = [
    "btree_gin",
    "btree_gist",
    "fuzzystrmatch",
    "pg_stat_statements",
    "pg_trgm",
    "pgcrypto",
    "plpgsql",
    "unaccent",
    "uuid-ossp",
];

/// CREATE EXTENSION of one of [`EXTENSIONS`] does nothing. Fails with 0A000 for another.
fn extension(create: &ast::CreateExtension, around: &Around<'_>) -> Result<Statement> {
    let name = &create.name.value;
    if EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        if create.if_not_exists {
            around.tell_existing(&format!("extension \"{name}\""), "42710");
        }
        return Ok(Statement::Command(Command::Nothing("CREATE EXTENSION")));
    }
    let error = Error::unsupported(format!("extension \"{name}\" is not available")).with_code("0A000");
    Err(error.with_hint("there is nothing to install: what there is, is there"))
}

impl Around<'_> {
    /// Finds what a statement names. `parsed` is what it is part of.
    pub(super) fn bind(&self, statement: &SyntaxTree, parsed: &Parsed) -> Result<BoundStatement> {
        match self.bind_once(statement, parsed) {
            // It names the numbers of rows, which few do.
            Err(_) if self.gives_numbers_now() => self.bind_once(statement, parsed),
            bound => bound,
        }
        .and_then(|bound| self.check_read().map(|()| bound))
    }

    fn bind_once(&self, statement: &SyntaxTree, parsed: &Parsed) -> Result<BoundStatement> {
        match statement {
            SyntaxTree::Statement(statement) => self.bind_statement(statement, parsed),
            SyntaxTree::CopyTo(copy) => {
                let mut copy = copy.clone();
                if let CopySource::Relation(name, columns) = &mut copy.source
                    && let Ok(table) = self.relation_name(name)
                {
                    let named = columns.iter().map(lower).collect::<Vec<_>>();
                    let copied = self.planner.copied_columns(self.at.snapshot, &table, &named)?;
                    if copied.len() != named.len() {
                        *columns = copied.iter().map(|name| Ident::with_quote('"', name)).collect();
                    }
                }
                let query = copy.source.query()?;
                self.copy(&mut copy, &query)
            }
            SyntaxTree::CreateExternalTable(create) => self.create_external_table(create).map(BoundStatement::Other),
            SyntaxTree::Explain(explain) => self.explain(explain, parsed),
            SyntaxTree::Reset(name) => kinds::reset(name, self.planner).map(BoundStatement::Other),
        }
    }

    fn bind_statement(&self, statement: &ast::Statement, parsed: &Parsed) -> Result<BoundStatement> {
        if let Some(bound) = self.instead(statement, None)? {
            return Ok(bound);
        }
        if let Some(behind) = self.through_view(statement)? {
            return self.bind_statement(&behind, parsed);
        }
        let other = |statement: Statement| Ok(BoundStatement::Other(statement));
        match statement {
            ast::Statement::Query(query) if several::writes_before(query) => self.several(query),
            ast::Statement::Query(query) => self.bind_body(query, query.with.as_ref()),
            ast::Statement::Insert(insert) => self.insert(insert, None),
            ast::Statement::CreateTable(create) => match domains::domain_name(&create.name) {
                Some(name) => other(self.create_domain(&name, create)?),
                None => match self.with_executed(create)? {
                    Some(create) => self.create_table(&create),
                    None => self.create_table(create),
                },
            },
            ast::Statement::CreateView(create) if create.materialized => self.create_materialized(create),
            ast::Statement::Call(call) if materialized::is_refresh(call) => self.refresh(call),
            ast::Statement::Call(call) if attach::is_detach(call) => other(self.detach(call)?),
            ast::Statement::Call(call) if sequences::is_alter_sequence(call) => other(self.alter_sequence(call)?),
            ast::Statement::CreateView(create) => other(self.create_view(create, statement, parsed)?),
            ast::Statement::Drop { .. } => other(self.drop_objects(statement)?),
            ast::Statement::AttachDatabase { database_file_name, schema_name, .. } => {
                other(self.attach(database_file_name, schema_name)?)
            }
            ast::Statement::CreateSchema { .. } => other(self.create_schema(statement)?),
            ast::Statement::CreateType { name, representation } => {
                other(self.create_type(name, representation.as_ref())?)
            }
            ast::Statement::CreateCollation(create) => other(self.create_collation(create)?),
            ast::Statement::AlterCollation(alter) => other(self.alter_collation(alter)?),
            ast::Statement::CreateExtension(create) => other(extension(create, self)?),
            ast::Statement::AlterType(alter) => other(self.alter_type(alter)?),
            ast::Statement::Truncate(truncate) => other(self.truncate(truncate)?),
            ast::Statement::Prepare { .. } => other(self.prepare(statement, parsed)?),
            ast::Statement::Execute { .. } => other(self.execute(statement)?),
            ast::Statement::ExplainTable { table_name, .. } => self.describe_table(table_name),
            ast::Statement::Explain { describe_alias, statement, .. }
                if *describe_alias != ast::DescribeAlias::Explain =>
            {
                self.describe_query(statement)
            }
            ast::Statement::ShowVariable { variable } => match self.shown_table(variable) {
                Some(table) => self.describe_table(&table),
                None => other(self.planner.session_statement(statement)?),
            },
            ast::Statement::ShowTables { show_options, .. } => self.show_tables(show_options),
            ast::Statement::ShowSchemas { .. } => self.show_schemas(),
            ast::Statement::Update(update) => self.update(update, None),
            ast::Statement::Delete(delete) => self.delete(delete, None),
            ast::Statement::Merge(merge) => self.merge(merge, None),
            ast::Statement::AlterTable(alter) => match domains::domain_name(&alter.name) {
                Some(name) => other(self.alter_domain(&name, alter)?),
                None => self.alter_table(alter),
            },
            ast::Statement::CreateIndex(create) => self.create_index(create),
            ast::Statement::AlterIndex { name, operation } => {
                let ast::AlterIndexOperation::RenameIndex { index_name } = operation;
                self.rename_index(name, index_name)
            }
            ast::Statement::Comment { object_type, object_name, comment, .. } => {
                self.comment(object_type, object_name, comment.as_deref())
            }
            ast::Statement::Set(ast::Set::SingleAssignment { variable, values, .. }) if is_variable(variable) => {
                other(self.set_variable(variable, values)?)
            }
            ast::Statement::CreateFunction(_) | ast::Statement::CreateMacro { .. } => {
                other(self.create_routine(statement, parsed)?)
            }
            ast::Statement::DropFunction(drop) => other(self.drop_routines(drop, "DROP FUNCTION")?),
            ast::Statement::DropProcedure { if_exists, proc_desc, drop_behavior } => {
                let (func_desc, drop_behavior) = (proc_desc.clone(), *drop_behavior);
                let drop = ast::DropFunction { if_exists: *if_exists, func_desc, drop_behavior };
                other(self.drop_routines(&drop, "DROP PROCEDURE")?)
            }
            ast::Statement::Lock(lock) => other(self.lock_tables(lock)?),
            ast::Statement::CreateSequence { .. } => other(self.create_sequence(statement)?),
            ast::Statement::Call(call) => match self.maintenance(call)? {
                Some(maintenance) => other(maintenance),
                None if authority::is_one(call) => self.authority(call),
                None if calls::is_do(call) => other(calls::do_block(call)?),
                None if calls::gives_rows(call) => self.rows_of_call(call),
                None => other(self.call(call)?),
            },
            _ => other(self.planner.session_statement(statement)?),
        }
    }

    /// A query, or a statement that writes, behind a WITH.
    pub(super) fn bind_body(&self, query: &ast::Query, with: Option<&ast::With>) -> Result<BoundStatement> {
        match query.body.as_ref() {
            SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement) => {
                let mut behind = std::borrow::Cow::Borrowed(statement);
                loop {
                    if let Some(bound) = self.instead(&behind, with)? {
                        return Ok(bound);
                    }
                    let Some(next) = self.through_view(&behind)? else { break };
                    behind = std::borrow::Cow::Owned(next);
                }
                match behind.as_ref() {
                    ast::Statement::Insert(insert) => self.insert(insert, with),
                    ast::Statement::Update(update) => self.update(update, with),
                    ast::Statement::Delete(delete) => self.delete(delete, with),
                    _ => Ok(BoundStatement::Query(binder::bind_shown(query, self)?)),
                }
            }
            SetExpr::Merge(ast::Statement::Merge(merge)) => self.merge(merge, with),
            _ => Ok(BoundStatement::Query(binder::bind_shown(query, self)?)),
        }
    }

    fn explain(&self, explain: &Explain, parsed: &Parsed) -> Result<BoundStatement> {
        let Explain { analyze, verbose, json, .. } = *explain;
        let statement = Box::new(self.bind(&explain.statement, parsed)?);
        match statement.as_ref() {
            BoundStatement::Query(_) | BoundStatement::Other(Statement::Query(_)) => {}
            BoundStatement::Write { .. } | BoundStatement::Several(_) if !analyze => {}
            // What is in files stays there.
            BoundStatement::Write { writer, .. } if writer.is_undoable() => {}
            BoundStatement::Write { .. } | BoundStatement::Several(_) => {
                let error =
                    Error::unsupported("EXPLAIN ANALYZE runs no statement that writes files or whose WITH writes");
                return Err(error.with_code("0A000").with_hint("explain the query alone"));
            }
            _ => return Err(Error::input("only queries have plans to explain")),
        }
        Ok(BoundStatement::Explain { statement, analyze, json, verbose })
    }

    pub(super) fn planned(&self, bound: BoundStatement, values: &[ScalarValue]) -> Result<Planned> {
        let done = |statement| Ok(Planned::Other(Box::new(statement)));
        match bound {
            BoundStatement::Query(bound) => {
                let planned = self.front(bound, values, false)?;
                let uses = if planned.is_transient { None } else { self.names.uses() };
                Ok(Planned::Query(Arc::new(self.query(planned)), uses))
            }
            BoundStatement::Write { tag, rows, writer, returning, .. } => {
                self.plan_later(values)?;
                let mut front = self.front(rows, values, false)?;
                if !writer.keeps_order() {
                    self.at.session.kept_order.let_go(&mut front.plan, &front.tables);
                }
                let rows = self.query(front);
                done(Statement::Write(Write { returning, ..Write::new(tag, rows, writer) }))
            }
            BoundStatement::Several(several) => done(Statement::Several(self.planned_several(several, values)?)),
            BoundStatement::Explain { statement, analyze, json, verbose } => {
                self.plan_later(values)?;
                let (query, details) = self.explained(*statement, values, verbose)?;
                done(Statement::Explain { query, analyze, json, details })
            }
            // EXECUTE: its plan has the values of this time.
            BoundStatement::Other(Statement::Query(query)) => Ok(Planned::Query(Arc::new(query), None)),
            BoundStatement::Other(Statement::Command(command)) => done(Statement::Command(self.noted(command))),
            BoundStatement::Other(statement) => done(statement),
        }
    }

    /// The plan of what is explained, and its forms on the way if they are asked for.
    fn explained(
        &self,
        bound: BoundStatement,
        values: &[ScalarValue],
        verbose: bool,
    ) -> Result<(Query, Option<String>)> {
        let (rows, write) = match bound {
            BoundStatement::Query(bound) => (bound, None),
            BoundStatement::Write { tag, rows, writer, .. } => (rows, Some((tag, writer))),
            BoundStatement::Other(Statement::Query(query)) => return Ok((query, None)),
            BoundStatement::Several(several) => {
                let several = self.planned_several(several, values)?;
                return Ok((several.last_query(), Some(several.shown_before())));
            }
            _ => return Err(Error::bug("a statement without a plan is explained")),
        };
        let planned = self.front(rows, values, verbose)?;
        let forms = &planned.forms;
        let text =
            format!("Bound:\n{}\n\nUnnested:\n{}\n\nRewritten:\n{}", forms.bound, forms.unnested, forms.rewritten);
        let mut query = self.query(planned);
        if let Some((tag, writer)) = write {
            query = Write::new(tag, query, writer).query;
        }
        Ok((query, verbose.then_some(text)))
    }

    /// A planned query as it is run.
    pub(super) fn query(&self, planned: front::Planned) -> Query {
        let (is_locking, is_calling) = (self.is_locking(), self.is_calling());
        Query { is_locking, is_calling, ..Query::new(planned.plan, planned.tables) }
    }

    pub(super) fn front(&self, bound: Bound, values: &[ScalarValue], is_shown: bool) -> Result<front::Planned> {
        front::of_bound(bound, values, is_shown, self, &self.at.session.options)
    }
}
