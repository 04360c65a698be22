//! `WHERE CURRENT OF` a cursor: its query with the numbers of its rows, and the number of the one on which it stands.
//!
//! A cursor knows its rows by the numbers that they had when it was opened. The catalog knows where they have gone
//! since ([`Catalog::row_now`](diligence_catalog::Catalog::row_now)). Of a statement of a client a number becomes part
//! of the text.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use diligence_base::{Error, Result};
use diligence_catalog::{Catalog, FollowedSince, Object, ObjectRef, Relation, RowNow};
use diligence_engine::query::KeptRows;
use diligence_sql::procedural::{at_number, changed_at_cursor, numbered};
use parking_lot::Mutex;

use crate::cursors::{CursorRows, Found, OpenCursor};
use crate::plans::ParsedStatement;
use crate::session::Session;

/// A cursor that is declared for no more than going on keeps the rows of tables with so many, so that
/// `WHERE CURRENT OF` finds them; those of larger tables come as they are read.
const KEPT_ROWS: usize = 1 << 16;

/// The query of a client's cursor, whose rows are found again.
#[derive(Debug)]
pub struct FollowedQuery {
    /// The query, with the numbers of its rows behind its columns.
    pub text: String,
    /// Whether it locks rows.
    pub is_locking: bool,
    /// Whether its tables have so few rows that they are best kept, whatever the cursor is for.
    pub is_small: bool,
    tables: Vec<ObjectRef>,
    since: Option<FollowedSince>,
}

/// A statement of a client that changes the row on which a cursor stands, as one that changes the row of a number.
#[derive(Debug)]
pub struct StatementAtRow {
    /// The statement.
    pub statement: ParsedStatement,
    is_own: bool,
    since: Option<FollowedSince>,
}

impl Session {
    fn names_now(&self) -> Arc<Catalog> {
        self.planner().catalogs().catalog()
    }

    /// A cursor's query with the numbers of its rows. `None` if they are not rows of tables.
    pub fn followed_query(&self, parsed: &ParsedStatement) -> Option<FollowedQuery> {
        let numbered = numbered(parsed.tree());
        let tables = numbered.tables.iter().map(|name| self.planner().object_named(name));
        let tables = tables.map(|object| object.filter(|object| matches!(object.relation, Relation::Native(_))));
        let tables = tables.collect::<Option<Vec<_>>>().filter(|tables| !tables.is_empty())?;
        let rows = |object: &Arc<Object>| match &object.relation {
            Relation::Native(table) => table.rows(),
            _ => usize::MAX,
        };
        Some(FollowedQuery {
            is_small: tables.iter().all(|object| rows(object) <= KEPT_ROWS),
            text: numbered.query.statement.to_string(),
            is_locking: numbered.is_locking,
            tables: tables.iter().map(|object| object.reference()).collect(),
            since: None,
        })
    }

    /// The query of a cursor is about to begin, or has begun: from now on its rows are followed.
    pub fn follow(&self, query: &mut FollowedQuery) {
        query.since = self.names_now().follow_rows();
    }

    /// The rows of a cursor, with the numbers of rows behind its columns, are there.
    pub fn followed_cursor_is_kept(&self, name: &str, rows: KeptRows, query: FollowedQuery) -> Arc<Mutex<CursorRows>> {
        let FollowedQuery { is_locking, tables, since, .. } = query;
        let hidden = tables.len();
        let first = rows.schema().fields().len().saturating_sub(hidden);
        let found = Found { tables: tables.into_iter().zip(first..).collect(), is_locking, since };
        let rows = Arc::new(Mutex::new(CursorRows::new(rows).hiding(hidden)));
        self.parts().cursors().keep(name, OpenCursor { rows: rows.clone(), found: Some(Arc::new(found)) });
        rows
    }

    /// A statement that says `WHERE CURRENT OF`, as one of no row: what it takes and gives is the same. `None` for any
    /// other. Fails as parsing it does.
    pub fn without_cursor(&self, parsed: &ParsedStatement) -> Result<Option<ParsedStatement>> {
        if changed_at_cursor(parsed.tree()).is_none() {
            return Ok(None);
        }
        at_number(parsed.tree(), None).map(|text| self.parse(&text)).transpose()
    }

    /// A statement that says `WHERE CURRENT OF`, as one of the row on which the cursor stands now. `None` for any
    /// other. Fails as [`row_of_cursor`](Self::row_of_cursor) does.
    pub fn at_cursor(&self, parsed: &ParsedStatement) -> Result<Option<StatementAtRow>> {
        let Some((cursor, table)) = changed_at_cursor(parsed.tree()) else { return Ok(None) };
        self.planner().catalogs().refresh()?;
        let since = self.names_now().follow_rows();
        let now = self.row_of_cursor(&cursor, &table)?;
        let Some(text) = at_number(parsed.tree(), now.as_ref().map(|now| now.number)) else { return Ok(None) };
        let is_own = now.is_some_and(|now| now.is_own);
        Ok(Some(StatementAtRow { statement: self.parse(&text)?, is_own, since }))
    }

    /// Fails with 40001 if the number of the row may be another one since [`at_cursor`](Self::at_cursor): rows that the
    /// transaction has made get others when it sees what others have committed.
    pub fn stays_at(&self, at: &StatementAtRow) -> Result<()> {
        if !at.is_own || at.since == self.names_now().follow_rows() {
            return Ok(());
        }
        let error = Error::value("the row of a cursor has got another number").with_code("40001");
        Err(error.with_hint("run the transaction again"))
    }

    /// The row of a table that a cursor stands on; `None` if there is none any more. Fails with 34000 if there is no
    /// such cursor, 24000 if its rows are not those of the table, or it stands on none, 0A000 if they are not kept.
    pub(crate) fn row_of_cursor(&self, portal: &str, table: &[String]) -> Result<Option<RowNow>> {
        let missing = || Error::input(format!("cursor \"{portal}\" does not exist")).with_code("34000");
        let open = self.parts().cursors().get(portal).map_err(|error| {
            let error = Error::unsupported(error.message().to_owned()).with_code("0A000");
            error.with_hint("DECLARE it with FOR UPDATE behind its query, or as SCROLL CURSOR")
        });
        let open = open?.ok_or_else(missing)?;
        let Some(object) = self.planner().object_named(table) else {
            // The statement fails by itself.
            return Ok(None);
        };
        let name = &object.name.name;
        if matches!(object.relation, Relation::View(_)) {
            let error = Error::unsupported("WHERE CURRENT OF on a view is not implemented").with_code("0A000");
            return Err(error.with_hint("change the rows of the table behind it"));
        }
        let found = open.found.as_deref();
        let own = found.iter().flat_map(|found| &found.tables).filter(|(table, _)| table.id == object.id);
        let column = match (own.collect::<Vec<_>>().as_slice(), found.is_some_and(|found| found.is_locking)) {
            ([(_, column)], _) => *column,
            ([], false) => {
                let message = format!("cursor \"{portal}\" is not a simply updatable scan of table \"{name}\"");
                let hint = "a cursor FOR UPDATE may join and sort, too";
                return Err(Error::input(message).with_code("24000").with_hint(hint));
            }
            ([], true) => {
                let message =
                    format!("cursor \"{portal}\" does not have a FOR UPDATE/SHARE reference to table \"{name}\"");
                return Err(Error::input(message).with_code("24000"));
            }
            _ => {
                let message =
                    format!("cursor \"{portal}\" has multiple FOR UPDATE/SHARE references to table \"{name}\"");
                return Err(Error::input(message).with_code("24000"));
            }
        };
        let off = || Error::input(format!("cursor \"{portal}\" is not positioned on a row")).with_code("24000");
        let row = open.rows.lock().current_whole()?.ok_or_else(off)?;
        let since = found.and_then(|found| found.since.as_ref()).ok_or_else(|| Error::bug("nobody follows rows"))?;
        let numbers = row.column(column).as_primitive_opt::<Int64Type>();
        let numbers = numbers.ok_or_else(|| Error::bug("the numbers of rows are none"))?;
        if numbers.is_null(0) {
            return Ok(None);
        }
        self.names_now().row_now(&object.reference(), numbers.value(0), since)
    }
}
