//! What the parser or DataFusion's planner reads otherwise than SQL means it, put right in the syntax tree before planning.
//!
//! [`precedence`] needs the tree alone and follows parsing; [`using`] needs the columns of tables and comes with each planning,
//! since tables may have changed. Whatever they put into the tree has the place of what it stands for, so that errors point
//! at the statement's text.

mod columns;
pub(crate) mod precedence;
mod references;
pub(crate) mod using;

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{VisitMut, VisitorMut};

/// Walks over a statement's tree, whatever kind of statement it is.
fn walk(statement: &mut Statement, visitor: &mut impl VisitorMut<Break = Infallible>) {
    match statement {
        Statement::Statement(statement) => finish(statement.visit(visitor)),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                finish(query.visit(visitor));
            }
        }
        Statement::Explain(explain) => walk(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
    }
}

/// The end of a walk that nothing breaks off.
fn finish(flow: ControlFlow<Infallible>) {
    match flow {
        ControlFlow::Continue(()) => {}
        ControlFlow::Break(never) => match never {},
    }
}
