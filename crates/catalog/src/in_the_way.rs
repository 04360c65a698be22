//! Rows that keep others from coming, and that go with a transaction that has not ended.
//!
//! A row that comes meets one with its unique key. If another transaction takes that one away, nobody knows yet whether
//! it is in the way: the statement waits for the end of the other. If that is committed, it begins anew and finds the
//! key free; if not, the key is there. So it is in PostgreSQL, for INSERT, UPDATE and MERGE and for rows that
//! ON CONFLICT DO NOTHING would leave out.

use std::cell::RefCell;

use arrow::array::RecordBatch;
use diligence_base::{Error, Result};

use crate::guard::rows_in;
use crate::lock_guard::LockGuard;
use crate::locks::LockOwner;
use crate::pieces::conflict;
use crate::{Catalog, NewRows, ObjectRef, Relation};

impl LockGuard {
    /// Who has the locks of a statement.
    fn owner(&self, catalog: &Catalog) -> Option<LockOwner> {
        catalog.inside().map(|inside| inside.owner).or(self.0.as_ref().map(|(_, owner)| *owner))
    }

    /// Whether anybody else has something of a table.
    pub(crate) fn meets_others(&self, catalog: &Catalog, table: &ObjectRef) -> bool {
        self.owner(catalog).is_some_and(|owner| catalog.locks().has_others(owner, table.id))
    }
}

impl Catalog {
    /// What a statement fails with whose rows could not come, for this reason: another one where it is to wait for
    /// another transaction, or to begin anew ([`wait_for_keys`](Self::wait_for_keys)). `locked` is what it has locked.
    pub fn refused(&self, locked: &LockGuard, table: &ObjectRef, rows: &[NewRows], error: Error) -> Error {
        if !matches!(error.code(), Some("23505" | "23P01")) {
            return error;
        }
        let rows = rows.iter().filter_map(NewRows::batch).cloned().collect::<Vec<_>>();
        self.wait_for_keys(locked, table, &rows, &[]).err().unwrap_or(error)
    }

    /// Waits for another transaction that takes rows away which are in the way of these, by the keys of these names or
    /// all. Fails with code `MUST_WAIT` if there is one (the owner is in the queue then), 40P01 if that waits for this
    /// one, 40001 if such rows are gone since the transaction's statement began, and as rows are read.
    pub(crate) fn wait_for_keys(
        &self,
        locked: &LockGuard,
        table: &ObjectRef,
        rows: &[RecordBatch],
        keys: &[String],
    ) -> Result<()> {
        let Some(owner) = locked.owner(self) else { return Ok(()) };
        let object = self.object(table)?;
        let Relation::Native(own) = &object.relation else { return Ok(()) };
        let Some(first_own) = self.first_own(table, own) else { return Ok(()) };
        let is_there = |row: i64| {
            let newest = self.inside().map_or_else(|| self.newest(), |inside| inside.base.newest());
            rows_in(&newest, table).is_some_and(|newest| newest.has_row(row))
        };
        let met = RefCell::new(Vec::new());
        // Who has ended after the first question has taken the row away before the second one.
        let goes = |row: i64| {
            let is_others = row < first_own && own.has_row(row);
            let goes = is_others && (self.locks().goes(owner, table.id, row) || !is_there(row));
            if goes {
                met.borrow_mut().push(row);
            }
            goes
        };
        if !own.has_beside(rows, keys, goes)? {
            return Ok(());
        }
        let met = met.into_inner();
        if !met.iter().all(|row| is_there(*row)) {
            return Err(conflict());
        }
        let passed = self.locks().wait_for_going(owner, table.id, &met, self.may_pass())?;
        if let Some(inside) = self.inside() {
            inside.has_passed(passed);
        }
        // It has ended meanwhile.
        Err(conflict())
    }
}
