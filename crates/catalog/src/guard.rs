//! What a statement locks before it changes rows, and SELECT … FOR UPDATE.
//!
//! A statement by itself has its locks until its change is seen; a transaction keeps them until it ends. With the
//! locks, a transaction looks at what others have committed since its last statement began: if the rows have gone
//! meanwhile, or their keys have come, the statement fails with code 40001. READ COMMITTED starts it anew, then.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};

use crate::catalog::{Inside, not_in_memory};
use crate::lock_guard::LockGuard;
use crate::locks::{LOCK_NOT_AVAILABLE, LockOwner, LockRequest, NAMES, RowLock, TableLock};
use crate::moved::FollowedSince;
use crate::pieces::conflict;
use crate::referred::{ChangingRows, GoneKeys, KeptKeys};
use crate::rules::{Key, ReferenceAction};
use crate::snapshot::Root;
use crate::{Catalog, Declaration, NativeTable, NewRows, ObjectRef, Relation, RelationName};

/// What is done where another transaction has the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockWay {
    /// The statement waits.
    Wait,
    /// NOWAIT: it fails.
    Fail,
    /// SKIP LOCKED: the row is left out.
    Skip,
}

/// Whether a row is the owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsLocked {
    /// It is.
    Locked,
    /// It is left out.
    Skipped,
}

impl Key {
    /// A number that no other key of the table has, most likely.
    pub(crate) fn number(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        hasher.finish()
    }
}

/// A number that no other name has, most likely.
fn number_of_name(name: &RelationName) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (&name.schema, &name.name).hash(&mut hasher);
    hasher.finish()
}

/// The rows of a table among some names.
pub(crate) fn rows_in<'a>(root: &'a Root, table: &ObjectRef) -> Option<&'a NativeTable> {
    match &root.get(&table.name).filter(|object| object.id == table.id)?.relation {
        Relation::Native(rows) => Some(rows),
        _ => None,
    }
}

/// Fails with code 40001 if a statement was planned for a table that was declared otherwise; `planned` also says
/// whether its rows are in segments.
fn as_planned(now: &NativeTable, planned: Option<(&Declaration, bool)>) -> Result<()> {
    match planned.is_none_or(|(planned, in_segments)| now.takes_rows_for(planned, in_segments)) {
        true => Ok(()),
        false => Err(conflict()),
    }
}

impl Catalog {
    /// Locks rows of a table in memory that are to go, and the unique keys of others that are to come. `by` has the
    /// locks, unless this is a transaction's catalog. `planned` is what the table was declared as when the statement
    /// was planned, if it was. Fails with code `MUST_WAIT` if another transaction has one of them (the owner is in the
    /// queue then), 40P01 if that waits for this one, 40001 if others have changed the rows since the transaction's
    /// statement began, or altered the table since it was planned, and as rows are read. Keys of other tables that rows
    /// come to refer to stay, and those that others refer to and that go nobody comes to refer to, until the locks are
    /// free.
    pub fn lock_change(
        &self,
        by: LockOwner,
        table: &ObjectRef,
        planned: Option<&Declaration>,
        deleted: &[i64],
        inserted: &[NewRows],
    ) -> Result<LockGuard> {
        let object = self.object(table)?;
        let Relation::Native(relation) = &object.relation else { return Err(not_in_memory(&object)) };
        let Some(first_own) = self.first_own(table, relation) else { return Ok(LockGuard(None)) };
        let mut rows = deleted.iter().copied().filter(|row| *row < first_own).collect::<Vec<_>>();
        rows.sort_unstable();
        let loaded = inserted.iter().filter(|rows| rows.batch().is_none()).cloned().collect::<Vec<_>>();
        let is_loaded = !loaded.is_empty();
        let planned = planned.map(|planned| (planned, is_loaded));
        as_planned(relation, planned)?;
        let inserted = inserted.iter().filter_map(NewRows::batch).cloned().collect::<Vec<_>>();
        let keys = relation.key_hashes(&inserted)?;
        // The keys of very many rows are not locked one by one.
        let is_unique = relation.rules().keys.iter().any(|key| key.kind.keeps_apart());
        let mode = if is_loaded && is_unique { TableLock::ShareRowExclusive } else { TableLock::RowExclusive };
        let may_pass = self.may_pass();
        let own = self.newest();
        let deferred = self.deferred().as_deref().cloned();
        if let (Some(inside), Some(deferred)) = (self.inside(), &deferred)
            && !inserted.is_empty()
            && relation.rules().keys.iter().any(|key| deferred.has_key(key))
        {
            inside.defers_keys.store(true, Ordering::Release);
        }
        let change = ChangingRows {
            object: &object,
            table: relation,
            deleted,
            inserted: &inserted,
            loaded: &loaded,
            deferred: deferred.as_ref(),
        };
        let (gone, kept) = (change.gone(&own)?, change.kept(&own)?);
        let row_mode = match inserted.is_empty() || !gone.is_empty() {
            true => RowLock::Update,
            false => RowLock::NoKeyUpdate,
        };
        let hashes = self.gone_hashes(by, &change, &gone, &keys)?;
        let request = LockRequest {
            rows: &rows,
            row_mode,
            rows_go: true,
            keys: &keys,
            gone: &hashes,
            ..LockRequest::of_table(table.id, mode, may_pass)
        };
        let locks = self.locks();
        let Some(inside) = self.inside() else {
            self.take(by, &request, LockWay::Wait)?;
            // A statement by itself that waits has nothing meanwhile: it begins anew.
            let others = self.keep(by, &kept).and_then(|()| self.lock_referring(by, &own, &change, &gone));
            // From now on nobody alters the table.
            let others = others.and_then(|()| match &self.object(table)?.relation {
                Relation::Native(now) => as_planned(now, planned),
                _ => Err(conflict()),
            });
            others.inspect_err(|_| locks.give_back(by))?;
            return Ok(LockGuard(Some((locks.clone(), by))));
        };
        self.take(inside.owner, &request, LockWay::Wait)?;
        self.keep(inside.owner, &kept)?;
        self.lock_referring(inside.owner, &own, &change, &gone)?;
        let newest = inside.base.newest();
        if let Some(newest) = rows_in(&newest, table) {
            // Where the columns are others, by this transaction or another, its commit finds out.
            let has_newer =
                relation.is_declared_as(newest) && newest.has_beside(&inserted, &[], |number| number >= first_own)?;
            if has_newer || !rows.iter().all(|row| newest.has_row(*row)) {
                return Err(conflict());
            }
        }
        let start = inside.start.lock().clone();
        let sees_start = inside.sees_start.load(Ordering::Acquire);
        let refers = change.refers_as_now(&start, &own, &newest, sees_start)?;
        match refers && !change.has_new_referring(&gone, &start, &newest, sees_start)? {
            true => Ok(LockGuard(None)),
            false => Err(conflict()),
        }
    }

    /// The hashes of keys that go: of those that others refer to, and of all unique ones, if anybody keeps some.
    fn gone_hashes(
        &self,
        by: LockOwner,
        change: &ChangingRows<'_>,
        gone: &[GoneKeys],
        come: &[u64],
    ) -> Result<Vec<u64>> {
        let mut hashes = GoneKeys::hashes(gone);
        if self.locks().has_keepers(self.inside().map_or(by, |inside| inside.owner), change.object.id) {
            hashes.extend(change.table.gone_hashes(change.deleted, come)?);
            hashes.sort_unstable();
            hashes.dedup();
        }
        Ok(hashes)
    }

    /// Locks keys of other tables that rows come to refer to, and the rows that have them, as SELECT … FOR KEY SHARE
    /// does.
    fn keep(&self, owner: LockOwner, kept: &BTreeMap<ObjectId, KeptKeys>) -> Result<()> {
        let (start, may_pass) = (self.inside().map(|inside| inside.start.lock().clone()), self.may_pass());
        for (table, KeptKeys { hashes, rows }) in kept {
            // The numbers of rows that only the transaction sees others may give to their own.
            let before = start.as_ref().and_then(|start| start.rows_of(*table));
            let end = match (&start, before) {
                (None, _) => rows.len(),
                (Some(_), None) => 0,
                (Some(_), Some(before)) => rows.partition_point(|row| *row < before.next_number()),
            };
            let row_mode = RowLock::KeyShare;
            let of_table = LockRequest::of_table(*table, TableLock::RowShare, may_pass);
            self.take(owner, &LockRequest { rows: &rows[..end], row_mode, kept: hashes, ..of_table }, LockWay::Wait)?;
        }
        Ok(())
    }

    /// Locks rows that refer to keys which go, as PostgreSQL does: those that follow, to change them, and what follows
    /// these; the others, as somebody may be about to take them away.
    fn lock_referring(&self, owner: LockOwner, own: &Root, change: &ChangingRows<'_>, gone: &[GoneKeys]) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let mut met = change.deleted.iter().map(|row| (change.object.id, *row)).collect::<HashSet<_>>();
        let is_busy = |table| self.locks().has_others(owner, table);
        let (may_pass, newest) = (self.may_pass(), self.inside().map(|inside| inside.base.newest()));
        let mut left = change.referring(gone, own, is_busy)?;
        while let Some(mut referring) = left.pop() {
            let object = referring.object.clone();
            let Relation::Native(table) = &object.relation else { continue };
            referring.rows.retain(|row| met.insert((object.id, *row)));
            let deferred = change.deferred;
            let next =
                ChangingRows { object: &object, table, deleted: &referring.rows, inserted: &[], loaded: &[], deferred };
            let goes = referring.reference.on_delete == ReferenceAction::Cascade;
            let (mode, row_mode, gone) = match referring.reference.changes_rows() {
                true => {
                    let gone = referring.gone(next.gone(own)?);
                    let is_key = goes || !gone.is_empty();
                    let row_mode = if is_key { RowLock::Update } else { RowLock::NoKeyUpdate };
                    (TableLock::RowExclusive, row_mode, gone)
                }
                false => (TableLock::RowShare, RowLock::KeyShare, vec![]),
            };
            let first_own = self.first_own(&object.reference(), table).unwrap_or(i64::MIN);
            let rows = &referring.rows[..referring.rows.partition_point(|row| *row < first_own)];
            let hashes = GoneKeys::hashes(&gone);
            let of_table = LockRequest::of_table(object.id, mode, may_pass);
            let rows_go = referring.reference.changes_rows();
            self.take(owner, &LockRequest { rows, row_mode, rows_go, gone: &hashes, ..of_table }, LockWay::Wait)?;
            let newest = newest.as_ref().and_then(|newest| rows_in(newest, &object.reference()));
            if newest.is_some_and(|newest| rows.iter().any(|row| !newest.has_row(*row))) {
                return Err(conflict());
            }
            left.extend(next.referring(&gone, own, is_busy)?);
        }
        Ok(())
    }

    /// Whether the transaction has itself given an object another definition.
    pub(crate) fn has_changed(&self, object: &ObjectRef) -> bool {
        let Some(inside) = self.inside() else { return false };
        let version = |root: Arc<Root>| root.get(&object.name).map(|object| (object.id, object.version));
        version(inside.start.lock().clone()) != version(self.newest())
    }

    /// Locks tables whose definition is to change, or that are to go, so that nobody else changes their rows: until the
    /// transaction ends or, outside of one, the guard. `by` has the locks outside. Fails with code `MUST_WAIT` if
    /// somebody else changes rows of one, 40P01 if that waits for this one; then those before it stay locked until the
    /// statement ends.
    pub fn lock_definitions<'a>(
        &self,
        by: LockOwner,
        tables: impl Iterator<Item = &'a ObjectRef>,
    ) -> Result<LockGuard> {
        let owner = self.inside().map_or(by, |inside| inside.owner);
        for table in tables {
            let request = LockRequest::of_table(table.id, TableLock::AccessExclusive, self.may_pass());
            self.take(owner, &request, LockWay::Wait)?;
        }
        Ok(LockGuard(self.inside().is_none().then(|| (self.locks().clone(), by))))
    }

    /// Has nobody else make anything of these names until the transaction ends or, outside of one, the guard. `by` has
    /// the locks outside. Fails with code `MUST_WAIT` if another transaction makes something of one of them, 40P01 if
    /// that waits for this one, and 40001 if something has come or gone since the transaction's statement began.
    pub fn lock_names(&self, by: LockOwner, names: &[RelationName]) -> Result<LockGuard> {
        let mut keys = names.iter().map(number_of_name).collect::<Vec<_>>();
        keys.sort_unstable();
        keys.dedup();
        let inside = self.inside();
        let owner = inside.map_or(by, |inside| inside.owner);
        let of_names = LockRequest::of_table(NAMES, TableLock::RowExclusive, self.may_pass());
        self.take(owner, &LockRequest { keys: &keys, ..of_names }, LockWay::Wait)?;
        let Some(inside) = inside else { return Ok(LockGuard(Some((self.locks().clone(), by)))) };
        let (start, newest) = (inside.start.lock().clone(), inside.base.newest());
        let known = |root: &Root, name: &RelationName| match name.schema.is_empty() {
            true => root.schemas.get(&name.name).map(|schema| schema.id),
            false => root.get(name).map(|object| object.id),
        };
        match names.iter().all(|name| known(&start, name) == known(&newest, name)) {
            true => Ok(LockGuard(None)),
            false => Err(conflict()),
        }
    }

    /// Has what a new view names stay until the transaction ends; outside of one, nothing comes in between. Fails with
    /// code `MUST_WAIT` if another transaction drops or alters it, 40P01 if that waits for this one, and 40001 if it
    /// has gone or has another name.
    pub fn lock_named(&self, named: &[ObjectRef]) -> Result<()> {
        let Some(inside) = self.inside() else { return Ok(()) };
        for object in named {
            let request = LockRequest::of_table(object.id, TableLock::AccessShare, self.may_pass());
            self.take(inside.owner, &request, LockWay::Wait)?;
        }
        let (start, newest) = (inside.start.lock().clone(), inside.base.newest());
        let is_there = |root: &Root, object: &ObjectRef| root.get(&object.name).is_some_and(|now| now.id == object.id);
        match named.iter().all(|object| !is_there(&start, object) || is_there(&newest, object)) {
            true => Ok(()),
            false => Err(conflict()),
        }
    }

    /// Fails with code 40001 if others have changed one of these tables since the transaction's statement began, so
    /// that it does not see all of the rows.
    pub fn check_all_seen(&self, tables: &[ObjectRef]) -> Result<()> {
        let Some(inside) = self.inside() else { return Ok(()) };
        let (start, newest) = (inside.start.lock().clone(), inside.base.newest());
        let version = |root: &Root, table: &ObjectRef| root.get(&table.name).map(|object| (object.id, object.version));
        match tables.iter().all(|table| version(&start, table) == version(&newest, table)) {
            true => Ok(()),
            false => Err(conflict()),
        }
    }

    /// Which of some rows the transaction has itself taken away. Fails with code 42P01 if the table is gone.
    pub fn own_taken(&self, table: &ObjectRef, rows: impl Iterator<Item = i64>) -> Result<HashSet<i64>> {
        let Some(inside) = self.inside() else { return Ok(HashSet::new()) };
        let (object, newest) = (self.object(table)?, inside.base.newest());
        let Relation::Native(own) = &object.relation else { return Err(not_in_memory(&object)) };
        let Some(newest) = rows_in(&newest, table) else { return Ok(HashSet::new()) };
        Ok(rows.filter(|row| !own.has_row(*row) && newest.has_row(*row)).collect())
    }

    /// Whether a table has all rows of these numbers.
    pub fn has_rows<'n>(&self, table: &ObjectRef, numbers: impl IntoIterator<Item = &'n i64>) -> bool {
        rows_in(&self.newest(), table).is_some_and(|rows| numbers.into_iter().all(|number| rows.has_row(*number)))
    }

    /// Locks a row, as SELECT … FOR UPDATE does, until the transaction or, outside of one, the statement of `by` ends
    /// ([`Locks::end_transaction`](crate::locks::Locks::end_transaction)). Fails as [`lock_change`](Self::lock_change)
    /// does, and with code 55P03 for good where it may not wait.
    pub fn lock_row(
        &self,
        by: LockOwner,
        table: &ObjectRef,
        row: i64,
        row_mode: RowLock,
        way: LockWay,
    ) -> Result<RowsLocked> {
        let owner = self.inside().map_or(by, |inside| inside.owner);
        let object = self.object(table)?;
        let Relation::Native(relation) = &object.relation else { return Err(not_in_memory(&object)) };
        if self.first_own(table, relation).is_none_or(|first| row >= first) {
            return Ok(RowsLocked::Locked);
        }
        let of_table = LockRequest::of_table(table.id, TableLock::RowShare, self.may_pass());
        // The row may get another number meanwhile, not another key.
        let kept = match row_mode {
            RowLock::KeyShare => relation.row(row)?.map_or(Ok(vec![]), |row| relation.unique_hashes(&[row]))?,
            _ => vec![],
        };
        let request = LockRequest { rows: &[row], row_mode, kept: &kept, ..of_table };
        if !self.take(owner, &request, way)? {
            if way == LockWay::Skip {
                return Ok(RowsLocked::Skipped);
            }
            let message = format!("could not obtain lock on row in relation \"{}\"", table.name.name);
            return Err(Error::input(message).with_code(LOCK_NOT_AVAILABLE));
        }
        let newest = self.inside().map_or_else(|| self.newest(), |inside| inside.base.newest());
        match rows_in(&newest, table).is_some_and(|newest| newest.has_row(row)) {
            true => Ok(RowsLocked::Locked),
            false if way == LockWay::Skip => Ok(RowsLocked::Skipped),
            false => Err(conflict()),
        }
    }

    /// Locks rows that a statement of a transaction is about to change, before triggers run that see them. Fails as
    /// [`lock_change`](Self::lock_change) does.
    pub fn lock_rows(&self, by: LockOwner, table: &ObjectRef, rows: &[i64], row_mode: RowLock) -> Result<()> {
        let object = self.object(table)?;
        let Relation::Native(relation) = &object.relation else { return Err(not_in_memory(&object)) };
        let Some(first_own) = self.first_own(table, relation) else { return Ok(()) };
        let mut rows = rows.iter().copied().filter(|row| *row < first_own).collect::<Vec<_>>();
        if rows.is_empty() {
            return Ok(());
        }
        rows.sort_unstable();
        let of_table = LockRequest::of_table(table.id, TableLock::RowExclusive, self.may_pass());
        let owner = self.inside().map_or(by, |inside| inside.owner);
        self.take(owner, &LockRequest { rows: &rows, row_mode, ..of_table }, LockWay::Wait)?;
        let newest = self.inside().map_or_else(|| self.newest(), |inside| inside.base.newest());
        match rows_in(&newest, table).is_some_and(|newest| rows.iter().all(|row| newest.has_row(*row))) {
            true => Ok(()),
            false => Err(conflict()),
        }
    }

    /// Since when its own rows of a table have the numbers that they have now, if some of these are of such rows.
    /// Fails with kind `Input` if the table is gone.
    pub fn own_followed(&self, table: &ObjectRef, rows: &[i64]) -> Result<Option<FollowedSince>> {
        let object = self.object(table)?;
        let Relation::Native(relation) = &object.relation else { return Err(not_in_memory(&object)) };
        let first_own = self.first_own(table, relation).unwrap_or(i64::MIN);
        Ok(if rows.iter().any(|row| *row >= first_own) { self.follow_rows() } else { None })
    }

    /// Fails with code 40001 if own rows may have other numbers since: others have committed, and the transaction has
    /// seen it.
    pub fn stay_followed(&self, since: Option<&FollowedSince>) -> Result<()> {
        match since.is_none_or(|since| self.follow_rows().as_ref() == Some(since)) {
            true => Ok(()),
            false => Err(conflict()),
        }
    }

    /// LOCK TABLE, for a transaction. Fails with code `MUST_WAIT` or, if it may not wait, 55P03 if another one has
    /// the table in a way that excludes this one, 40P01 if that waits for this one, and 25P01 outside
    /// of a transaction.
    pub fn lock_table(&self, table: &ObjectRef, mode: TableLock, way: LockWay) -> Result<()> {
        let outside = || Error::input("LOCK TABLE can only be used in transaction blocks").with_code("25P01");
        let inside = self.inside().ok_or_else(outside)?;
        let request = LockRequest::of_table(table.id, mode, self.may_pass());
        match self.take(inside.owner, &request, way)? {
            true => Ok(()),
            false => {
                let message = format!("could not obtain lock on relation \"{}\"", table.name.name);
                Err(Error::input(message).with_code(LOCK_NOT_AVAILABLE))
            }
        }
    }

    /// Whether locks are passed of changes that may still be lost: by a statement of which nobody hears before these
    /// and its own are kept. Others would tell their client what is not so after a crash.
    pub(crate) fn may_pass(&self) -> bool {
        self.inside().is_some_and(|inside| inside.passes.load(Ordering::Acquire))
    }

    /// Takes locks; whether they are taken. A transaction will see what those have done whose locks it passes. Fails as
    /// [`Locks::take`] does, where it may wait.
    fn take(&self, owner: LockOwner, request: &LockRequest<'_>, way: LockWay) -> Result<bool> {
        let passed = match way {
            LockWay::Wait => Some(self.locks().take(owner, request)?),
            LockWay::Fail | LockWay::Skip => self.locks().try_take(owner, request),
        };
        if let (Some(position), Some(inside)) = (passed, self.inside()) {
            inside.has_passed(position);
        }
        Ok(passed.is_some())
    }

    /// The number of the first row that only the transaction sees; of no row, outside of one. `None` if it has made the
    /// table itself, or all its rows anew.
    pub(crate) fn first_own(&self, table: &ObjectRef, now: &NativeTable) -> Option<i64> {
        let Some(Inside { start, .. }) = self.inside() else { return Some(i64::MAX) };
        let start = start.lock();
        rows_in(&start, table).filter(|start| start.origin() == now.origin()).map(NativeTable::next_number)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use diligence_base::ids::TableVersion;
    use diligence_memory::{QueryMemory, Reservation};
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::*;
    use crate::locks::MUST_WAIT;
    use crate::rules::{Check, KeyKind, TableRules};
    use crate::transaction::Transaction;
    use crate::{DEFAULT_SCHEMA, Object, RowChange, TableAlteration};

    fn batch(values: &[i64]) -> RecordBatch {
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef)]).unwrap()
    }

    fn memory() -> Reservation {
        QueryMemory::unbounded().reservation("a table in memory")
    }

    fn code<T>(result: Result<T>) -> Option<&'static str> {
        result.err().and_then(|error| error.code())
    }

    #[test]
    fn rows_that_were_made_for_what_a_table_was_before_do_not_come() {
        let catalog = Arc::new(Catalog::default());
        let name = RelationName::new(DEFAULT_SCHEMA, "t");
        let fields = |name: &str| Arc::new(Schema::new(vec![Field::new(name, DataType::Int64, true)]));
        let object = || catalog.snapshot().get(&name).unwrap().clone();
        let rows = |object: &Object| match &object.relation {
            Relation::Native(rows) => rows.clone(),
            _ => panic!("a table is one"),
        };
        let table = NativeTable::new(&name, &fields("a"), &[], memory(), TableVersion(1)).unwrap();
        catalog.create(&name, Relation::Native(Arc::new(table)), false).unwrap();
        let alone = catalog.locks().new_owner();
        let insert = |planned: &Declaration| {
            let (object, inserted): (_, Vec<NewRows>) = (object().reference(), vec![batch(&[5]).into()]);
            let _locked = catalog.lock_change(alone, &object, Some(planned), &[], &inserted)?;
            catalog.insert(&object, &inserted, memory(), false)
        };
        let alter = |column: &str, place: Option<usize>, rules: TableRules| {
            let object = object();
            let (name, columns) = (name.clone(), fields(column));
            let alteration = TableAlteration { name, columns, places: vec![place], rules };
            catalog.alter(&object.reference(), object.version, alteration, &memory()).unwrap();
        };
        let check = |condition: &str| {
            let mut parser = Parser::new(&GenericDialect {}).try_with_sql(condition).unwrap();
            let condition = Arc::new(parser.parse_expr().unwrap());
            TableRules { checks: vec![Check { name: "c".to_owned(), condition }], ..TableRules::default() }
        };
        // Other rows, and indexes, leave a plan good.
        let planned = rows(&object()).declaration();
        insert(&planned).unwrap();
        insert(&planned).unwrap();
        // A condition that the plan does not know, and another one of that name.
        alter("a", Some(0), check("a < 100"));
        assert_eq!(code(insert(&planned)), Some("40001"));
        let planned = rows(&object()).declaration();
        insert(&planned).unwrap();
        alter("a", Some(0), check("a < 10"));
        assert_eq!(code(insert(&planned)), Some("40001"));
        // Another column of the same type in the place of one.
        let planned = rows(&object()).declaration();
        alter("b", None, TableRules::default());
        assert_eq!(code(insert(&planned)), Some("40001"));
        assert_eq!(rows(&object()).rows(), 3);
        insert(&rows(&object()).declaration()).unwrap();
        assert_eq!(rows(&object()).rows(), 4);
    }

    #[test]
    fn rows_and_keys_are_of_one_transaction_at_a_time() {
        let catalog = Arc::new(Catalog::default());
        let name = RelationName::new(DEFAULT_SCHEMA, "t");
        let rows = batch(&[1, 2]);
        let key = Key {
            name: "t_pkey".to_owned(),
            columns: vec!["a".to_owned()],
            kind: KeyKind::Primary,
            nulls_are_equal: false,
            computed: None,
            deferral: Default::default(),
            form: None,
        };
        let rules = TableRules { keys: vec![key], ..TableRules::default() };
        let table = NativeTable::new(&name, &rows.schema(), &[rows], memory(), TableVersion(1)).unwrap();
        let table = table.with_rules(rules, &memory(), TableVersion(2)).unwrap();
        catalog.create(&name, Relation::Native(Arc::new(table)), false).unwrap();
        let table = catalog.snapshot().get(&name).unwrap().reference();
        let change = |on: &Catalog, by, deleted: &[i64], inserted: &[i64]| {
            let inserted = vec![batch(inserted).into()];
            let _locked = on.lock_change(by, &table, None, deleted, &inserted)?;
            on.change(&table, RowChange { deleted: deleted.to_vec(), inserted, memory: memory(), pairs: 0 })
        };
        let (ann, bob) = (Transaction::begin(catalog.clone()), Transaction::begin(catalog.clone()));
        let alone = catalog.locks().new_owner();
        change(ann.catalog(), alone, &[0], &[10]).unwrap();
        // Others cannot have the row or the key, and can have the rest.
        assert_eq!(code(change(bob.catalog(), alone, &[0], &[11])), Some(MUST_WAIT));
        assert_eq!(code(change(&catalog, alone, &[], &[10])), Some(MUST_WAIT));
        change(&catalog, alone, &[1], &[20]).unwrap();
        let locks = catalog.locks();
        assert!(locks.wait(alone).is_none_or(|wait| wait.is_waiting()));
        // What was changed meanwhile is to be looked at again.
        assert_eq!(code(change(bob.catalog(), alone, &[1], &[21])), Some("40001"));
        assert_eq!(code(change(bob.catalog(), alone, &[], &[20])), Some("40001"));
        ann.commit(false).unwrap();
        bob.refresh().unwrap();
        assert_eq!(code(change(bob.catalog(), alone, &[], &[10])), Some("23505"));
        let number = 3;
        let lock = |on: &Transaction, way| on.catalog().lock_row(alone, &table, number, RowLock::Update, way);
        assert_eq!(lock(&bob, LockWay::Wait).unwrap(), RowsLocked::Locked);
        let carl = Transaction::begin(catalog.clone());
        assert_eq!(lock(&carl, LockWay::Skip).unwrap(), RowsLocked::Skipped);
        assert_eq!(code(lock(&carl, LockWay::Fail)), Some(LOCK_NOT_AVAILABLE));
        assert!(code(lock(&carl, LockWay::Wait)).is_some());
        assert_eq!(code(carl.catalog().lock_table(&table, TableLock::Share, LockWay::Fail)), Some(LOCK_NOT_AVAILABLE));
        drop(bob);
        assert_eq!(lock(&carl, LockWay::Wait).unwrap(), RowsLocked::Locked);
        carl.catalog().lock_table(&table, TableLock::Share, LockWay::Wait).unwrap();
    }
}
