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
use sqlparser::ast::{Distinct, LockClause, LockType, NonBlock, ObjectName, ObjectNamePart, Query, Select, SetExpr};

use super::syntax::has_groups;
use super::{Binder, Rows, normalized};
use crate::algebra::{Column, Constant, Relation, Scalar};
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
    /// Columns of subqueries whose rows are locked within.
    within: Vec<Column>,
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
    /// The same for a subquery: of all of its tables.
    behind: LockClause,
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
            None => Ok(Some(Self { wanted, found: vec![], within: vec![] })),
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

    /// The clauses for a subquery that FROM calls so.
    pub(super) fn clauses_of(&mut self, name: Option<&str>) -> Vec<LockClause> {
        let is_its = |wanted: &&mut WantedLock| wanted.of.as_deref().is_none_or(|of| Some(of) == name);
        let meet = |wanted: &mut WantedLock| {
            wanted.is_met = true;
            wanted.behind.clone()
        };
        self.wanted.iter_mut().filter(is_its).map(meet).collect()
    }

    /// Rows with these columns are locked in a subquery.
    pub(super) fn found_within(&mut self, columns: &[Column]) {
        self.within.extend_from_slice(columns);
    }

    /// Fails with 0A000 if rows of one side of a join are locked, which may be none of its table.
    pub(super) fn refuse_nullable(&self, side: &Relation) -> Result<()> {
        let columns = side.columns();
        let locked = self.found.iter().map(|found| &found.number).chain(&self.within);
        if !locked.into_iter().any(|own| columns.iter().any(|column| column.id == own.id)) {
            return Ok(());
        }
        let message = format!("{} cannot be applied to the nullable side of an outer join", self.clause());
        Err(Error::input(message).with_code("0A000"))
    }

    /// Fails with 0A000: there are window functions.
    pub(super) fn refuse_windows(&self) -> Result<()> {
        Err(Error::input(format!("{} is not allowed with window functions", self.clause())).with_code("0A000"))
    }

    fn clause(&self) -> &'static str {
        self.wanted.first().map_or("FOR UPDATE", |wanted| wanted.clause)
    }

    /// A table is locked by the numbers in this column.
    pub(super) fn found(&mut self, number: Column, function: Arc<ScalarUDF>) {
        self.found.push(FoundLock { number, function });
    }
}

impl WantedLock {
    fn of(clause: &LockClause) -> Self {
        let is_marker = |part: &&ObjectNamePart| {
            part.as_ident().is_some_and(|part| [NO_KEY_UPDATE, KEY_SHARE].contains(&part.value.as_str()))
        };
        let markers = clause.of.iter().flat_map(|of| &of.0).filter(is_marker).cloned().collect::<Vec<_>>();
        let behind = LockClause { of: (!markers.is_empty()).then_some(ObjectName(markers)), ..clause.clone() };
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
        Self { clause: clause_name, mode, way, of: parts.last().map(normalized), is_met: false, behind }
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
        // Without a name, the clause is for those tables that there are.
        for WantedLock { clause, of, .. } in locking.wanted.iter().filter(|wanted| !wanted.is_met) {
            if let Some(of) = of {
                let message = format!("relation \"{of}\" in {clause} clause not found in FROM clause");
                return Err(Error::input(message).with_code("42P01"));
            }
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
