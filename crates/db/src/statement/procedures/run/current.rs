//! The row that a cursor stands on: `WHERE CURRENT OF`.
//!
//! A cursor knows its rows by the numbers that they had when it was opened. The catalog knows where they have gone
//! since ([`Catalog::row_now`](diligence_catalog::Catalog::row_now)).

use diligence_catalog::{Catalog, Relation};
use diligence_sql::procedural::numbered;

use super::*;
use crate::cursors::{Found, OpenCursor};

/// How often a statement begins anew because rows have got other numbers while it was planned.
const TRIES_MAX: usize = 16;

impl Run<'_> {
    fn catalog(&self) -> Arc<Catalog> {
        self.session.planner().catalogs().catalog()
    }

    /// The rows of a cursor's query, with the numbers that `WHERE CURRENT OF` needs, if it may be asked for.
    pub(super) fn opened(&self, tree: &Tree, values: &[ArrayRef]) -> Result<OpenCursor> {
        if !self.procedure.block.has_current {
            return self.started(&tree.statement, values)?.into_cursor(None);
        }
        let numbered = numbered(tree.statement.tree());
        let mut found = Found { tables: vec![], is_locking: numbered.is_locking, since: None };
        let tables = numbered.tables.iter().map(|name| self.session.planner().object_named(name));
        let tables = tables.map(|object| object.filter(|object| matches!(object.relation, Relation::Native(_))));
        let Some(tables) = tables.collect::<Option<Vec<_>>>().filter(|tables| !tables.is_empty()) else {
            return self.started(&tree.statement, values)?.into_cursor(Some(found));
        };
        let statement = ParsedStatement::new(tree.statement.text(), numbered.query);
        // A query of one group has no rows of the table, for example.
        if self.session.plan(&statement, values).is_err() {
            return self.started(&tree.statement, values)?.into_cursor(Some(found));
        }
        let _ = self.catalog().follow_rows();
        let ran = self.started(&statement, values)?;
        let first = ran.schema().fields().len().saturating_sub(tables.len());
        found.since = self.catalog().follow_rows();
        found.tables = tables.iter().map(|object| object.reference()).zip(first..).collect();
        ran.into_cursor(Some(found))
    }

    /// The number of the row of a table that a cursor stands on; NULL if there is none any more. Fails with 34000 if
    /// there is no such cursor, 24000 if its rows are not those of the table, or it stands on none.
    pub(super) fn current_number(&self, cursor: &str, table: &[String]) -> Result<Typed> {
        let named = self.scopes.find(cursor).map(|variable| variable.value()).transpose()?;
        let named = named.map(|value| value.shown(&self.zone)).transpose()?.flatten();
        let portal = named.unwrap_or_else(|| cursor.to_owned());
        let now = self.session.row_of_cursor(&portal, table)?;
        self.stands_on_own.set(self.stands_on_own.get() || now.as_ref().is_some_and(|now| now.is_own));
        Ok(now.map_or_else(|| Typed::null(SqlType::BigInt), |now| Typed::bigint(now.number)))
    }

    /// Runs a statement that may change the row of a cursor. Rows that the transaction has made have other numbers when
    /// it sees what others have committed meanwhile; then the statement is undone and begins anew. Fails with 40001 if
    /// that happens again and again.
    pub(super) fn on_current(&self, tree: &Tree, run: impl Fn() -> Result<Ran>) -> Result<Ran> {
        if !tree.names.iter().any(|(names, _)| names.first().is_some_and(|first| first == CURRENT_OF)) {
            return run();
        }
        for _ in 0..TRIES_MAX {
            self.look()?;
            self.session.planner().catalogs().refresh()?;
            let (mark, before) = (self.session.transaction_mark(), self.catalog().follow_rows());
            self.stands_on_own.set(false);
            let done = run();
            if done.is_err() || !self.stands_on_own.get() || before == self.catalog().follow_rows() {
                return done;
            }
            if let Some(mark) = mark {
                self.session.back_to(&mark);
            }
        }
        let error = Error::value("the row of a cursor has got another number again and again").with_code("40001");
        Err(error.with_hint("run the transaction again"))
    }
}
