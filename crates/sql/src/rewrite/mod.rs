//! What SQL means but DataFusion's planner does not read, or reads without a word, put right in the syntax tree.
//!
//! [`precedence`] and [`statement`] follow parsing and need the tree alone. Others come with each planning: [`facts`]
//! puts in what the session answers, [`using`] needs the columns of tables, which may have changed, and [`duplicates`]
//! comes only if a name that is given twice made planning fail. What is put into the tree has the place of what it
//! stands for wherever errors point at it.

mod columns;
pub(crate) mod duplicates;
pub(crate) mod facts;
mod fields;
mod function_columns;
mod numbers;
pub(crate) mod postgres;
pub(crate) mod precedence;
mod references;
pub(crate) mod using;
mod windows;

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    self, Expr, ObjectName, Query, Select, SelectFlavor, SelectItem, SetExpr, TableFactor, VisitMut, VisitorMut,
    WildcardAdditionalOptions,
};
use diligence_base::{Error, Result, Span};

pub use self::facts::Facts;
pub(crate) use self::facts::version;
use crate::errors;

/// Rewrites a statement's queries; an error for what they ask for that would be ignored.
pub(crate) fn statement(statement: &mut Statement) -> Result<()> {
    function_columns::name(statement);
    match walk(statement, &mut Rewrite::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// Walks over a statement's queries and expressions, whatever kind of statement it is. The values of SET are no
/// expressions: they are read as they are written.
fn walk<V: VisitorMut>(statement: &mut Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) if matches!(**statement, ast::Statement::Set(_)) => ControlFlow::Continue(()),
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => walk(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// The end of a walk that nothing breaks off.
fn finish(flow: ControlFlow<Infallible>) {
    match flow {
        ControlFlow::Continue(()) => {}
        ControlFlow::Break(never) => match never {},
    }
}

/// Shows a visitor that breaks nothing off all of a statement.
pub(crate) fn walked(statement: &mut Statement, visitor: &mut impl VisitorMut<Break = Infallible>) {
    finish(walk(statement, visitor));
}

/// All rewriting that needs the tree alone, in one walk.
#[derive(Default)]
struct Rewrite {
    /// The named windows of the SELECTs around, the innermost last.
    windows: Vec<windows::Definitions>,
}

impl VisitorMut for Rewrite {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            numbers::same_in_columns(values);
        }
        // A query's ORDER BY sees the windows of its SELECT.
        let definitions = match query.body.as_ref() {
            SetExpr::Select(select) => windows::Definitions::of(select),
            _ => windows::Definitions::default(),
        };
        self.windows.push(definitions);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.windows.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            select.projection.push(SelectItem::Wildcard(WildcardAdditionalOptions::default()));
            select.flavor = SelectFlavor::FromFirst;
        }
        select.projection.iter_mut().for_each(fields::named);
        postgres::select(select);
        self.windows.push(windows::Definitions::of(select));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Self::Break> {
        self.windows.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Self::Break> {
        postgres::table(table);
        match ignored(table) {
            Some(error) => ControlFlow::Break(Box::new(error)),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Subquery(query) | Expr::InSubquery { subquery: query, .. } = expression
            && has_no_columns(query)
        {
            let error = Error::input("a subquery whose value is used needs a column").with_code("42601");
            return ControlFlow::Break(Box::new(error.with_hint("say what it selects: (SELECT column FROM …)")));
        }
        postgres::subquery(expression);
        if let Expr::Function(function) = expression
            && let Some(over) = function.over.as_mut()
            && let Some(definitions) = self.windows.last()
            && let Err(error) = definitions.put_into(over)
        {
            return ControlFlow::Break(Box::new(error));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Self::Break> {
        numbers::double(expression);
        fields::expression(expression);
        postgres::expression(expression);
        ControlFlow::Continue(())
    }
}

/// Whether a query selects nothing: `SELECT FROM t`.
fn has_no_columns(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    select.projection.is_empty() && select.flavor != SelectFlavor::FromFirstNoSelect
}

/// The error for what stands behind a table's name in FROM and would be ignored.
fn ignored(table: &TableFactor) -> Option<Error> {
    let (name, what, hint) = match table {
        TableFactor::Table { name, sample: Some(_), .. } => (Some(name), "TABLESAMPLE", SAMPLE_HINT),
        TableFactor::Derived { sample: Some(_), .. } => (None, "TABLESAMPLE", SAMPLE_HINT),
        TableFactor::Table { name, version: Some(_), .. } => {
            (Some(name), "a table's past version", "leave it out: tables are read as they are now")
        }
        TableFactor::Table { name, with_ordinality: true, .. } => {
            (Some(name), "WITH ORDINALITY", "row_number() OVER () numbers rows")
        }
        TableFactor::Table { name, partitions, .. } if !partitions.is_empty() => {
            (Some(name), "PARTITION behind a table's name", "say in WHERE which rows are wanted")
        }
        _ => return None,
    };
    let error = Error::unsupported(format!("{what} is not supported")).with_hint(hint);
    Some(errors::at(error, name.and_then(place)))
}

const SAMPLE_HINT: &str = "WHERE random() < 0.1 keeps about a tenth of the rows";

fn place(name: &ObjectName) -> Option<Span> {
    let start = name.0.first()?.as_ident()?.span.start;
    (start.line > 0).then_some(Span { line: start.line, column: start.column })
}
