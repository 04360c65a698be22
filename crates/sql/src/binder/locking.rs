//! SELECT … FOR UPDATE and its kin: rows are locked after they are in order and before LIMIT counts them.
//!
//! A table that is locked is read with the numbers of its rows. A condition that locks a row by its number stands
//! between sort and limit: it takes as many rows as the limit wants, and leaves those out that others have
//! (SKIP LOCKED).

use std::sync::Arc;

use datafusion_expr::ScalarUDF;
use diligence_base::{Error, Result};
use diligence_catalog::LockWay;
use diligence_catalog::locks::RowLock;
use diligence_storage::Table;
use diligence_types::SqlType;
use sqlparser::ast::{Distinct, LockClause, LockType, NonBlock, Query, Select, SetExpr};

use super::select::has_groups;
use super::{Binder, Rows, normalized};
use crate::algebra::{Column, Constant, Scalar};
use crate::parse::{KEY_SHARE, NO_KEY_UPDATE};

/// A table whose rows can be locked.
pub(crate) struct Lockable {
    /// Its rows with their numbers.
    pub table: Arc<dyn Table>,
    /// What locks a row: takes its number, and how many rows are wanted and left out before them (NULL for all), and
    /// says whether the row is locked.
    pub function: Arc<ScalarUDF>,
}

/// The tables of one FROM whose rows are locked.
#[derive(Default)]
pub(super) struct Locking {
    wanted: Vec<WantedLock>,
    found: Vec<FoundLock>,
}

/// A clause behind the query.
struct WantedLock {
    /// What it is called in messages.
    clause: &'static str,
    mode: RowLock,
    way: LockWay,
    /// Of which table; of all, without one.
    of: Option<String>,
    is_met: bool,
}

/// A table that is locked.
struct FoundLock {
    number: Column,
    function: Arc<ScalarUDF>,
}

impl Locking {
    /// What the clauses behind a query say; `None` without any. Fails with 0A000 where rows of tables are not rows of
    /// the query.
    pub(super) fn of(query: &Query) -> Result<Option<Self>> {
        if query.locks.is_empty() {
            return Ok(None);
        }
        let wanted = query.locks.iter().map(WantedLock::of).collect::<Vec<_>>();
        let clause = wanted[0].clause;
        let refused = match query.body.as_ref() {
            SetExpr::Select(select) => refused(select).map(|what| format!("{clause} is not allowed with {what}")),
            SetExpr::Values(_) => Some(format!("{clause} cannot be applied to VALUES")),
            _ => Some(format!("{clause} is not allowed with UNION/INTERSECT/EXCEPT")),
        };
        match refused {
            Some(message) => Err(Error::input(message).with_code("0A000")),
            None => Ok(Some(Self { wanted, found: vec![] })),
        }
    }

    /// How a table that FROM calls so is locked, if it is; the strongest way counts.
    pub(super) fn way_of(&mut self, name: &str) -> Option<(RowLock, LockWay)> {
        let mut way: Option<(RowLock, LockWay)> = None;
        for wanted in self.wanted.iter_mut().filter(|wanted| wanted.of.as_deref().is_none_or(|of| of == name)) {
            wanted.is_met = true;
            if way.is_none_or(|(mode, _)| wanted.mode > mode) {
                way = Some((wanted.mode, wanted.way));
            }
        }
        way
    }

    /// A table is locked by the numbers in this column.
    pub(super) fn found(&mut self, number: Column, function: Arc<ScalarUDF>) {
        self.found.push(FoundLock { number, function });
    }
}

impl WantedLock {
    fn of(clause: &LockClause) -> Self {
        let mut parts = clause.of.iter().flat_map(|of| &of.0).filter_map(|part| part.as_ident()).peekable();
        let is_marked = parts.next_if(|part| [NO_KEY_UPDATE, KEY_SHARE].contains(&part.value.as_str())).is_some();
        let (clause_name, mode) = match (&clause.lock_type, is_marked) {
            (LockType::Update, false) => ("FOR UPDATE", RowLock::Update),
            (LockType::Update, true) => ("FOR NO KEY UPDATE", RowLock::NoKeyUpdate),
            (LockType::Share, false) => ("FOR SHARE", RowLock::Share),
            (LockType::Share, true) => ("FOR KEY SHARE", RowLock::KeyShare),
        };
        let way = match clause.nonblock {
            None => LockWay::Wait,
            Some(NonBlock::Nowait) => LockWay::Fail,
            Some(NonBlock::SkipLocked) => LockWay::Skip,
        };
        Self { clause: clause_name, mode, way, of: parts.last().map(normalized), is_met: false }
    }
}

/// A clause whose rows are not those of tables.
fn refused(select: &Select) -> Option<&'static str> {
    if matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_))) {
        return Some("DISTINCT clause");
    }
    if has_groups(&select.group_by) {
        return Some("GROUP BY clause");
    }
    select.having.is_some().then_some("HAVING clause")
}

impl Binder<'_> {
    /// The rows that are locked: so many of them, if a limit is given, and those that are left out before them.
    /// Fails with 42P01 if a clause names a table that is not in FROM, 0A000 if the rows are not those of tables.
    pub(super) fn locked(
        &self,
        mut rows: Rows,
        locking: Locking,
        fetch: Option<&Scalar>,
        skip: Option<&Scalar>,
    ) -> Result<Rows> {
        if let Some(wanted) = locking.wanted.iter().find(|wanted| !wanted.is_met) {
            let clause = wanted.clause;
            return Err(match &wanted.of {
                Some(of) => {
                    let message = format!("relation \"{of}\" in {clause} clause not found in FROM clause");
                    Error::input(message).with_code("42P01")
                }
                None => {
                    let message = format!("{clause} locks rows of tables in FROM, and there is none");
                    let error = Error::unsupported(message).with_code("0A000");
                    error.with_hint("write the clause into the query that names the table")
                }
            });
        }
        let columns = rows.relation.columns();
        for FoundLock { number, function } in locking.found {
            if !columns.iter().any(|column| column.id == number.id) {
                let clause = locking.wanted[0].clause;
                let message = format!("{clause} is not allowed with aggregate functions");
                return Err(Error::input(message).with_code("0A000"));
            }
            self.is_transient.set(true);
            let all = || Scalar::Constant(Constant::null(SqlType::BigInt));
            let count = |given: Option<&Scalar>| given.cloned().unwrap_or_else(all);
            let arguments = vec![number.scalar(), count(fetch), count(skip)];
            let is_locked = Scalar::Asked { function, arguments, sql_type: SqlType::Boolean };
            rows.relation = rows.relation.filtered(is_locked);
        }
        Ok(rows)
    }
}
