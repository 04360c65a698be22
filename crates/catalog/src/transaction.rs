//! A transaction: changes that nobody else sees until they are committed, all at once.
//!
//! ```text
//!   begin ──▶ start: the names as all see them
//!             own:   a catalog of its own, in which the statements of the transaction run
//!   refresh   own becomes what it has changed since start, on top of what all see now; start becomes that
//!   commit    the same onto what all see, as one change
//! ```
//! Since no node of a catalog ever changes, a savepoint is the two roots, and a rollback drops them.
//!
//! A transaction locks the rows that it takes away and the unique keys that it brings ([`guard`](crate::guard)), so
//! that others which want them wait for its end. What meets others all the same, as by DDL, fails when it is committed
//! (40001).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::BooleanArray;
use arrow::compute::{filter_record_batch, interleave_record_batch};
use diligence_base::ids::TableId;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use parking_lot::Mutex;

use crate::carried::Carried;
use crate::catalog::{Inside, objects_mut, put};
use crate::deferred::DeferredConstraints;
use crate::journal::{Entry, LogPosition, Staged};
use crate::lock_guard::LockGuard;
use crate::locks::{LockMark, LockOwner};
use crate::moved::{MovedMark, MovedRows};
use crate::pieces::{Piece, PieceRows, conflict};
use crate::references::{self, ChangedTable, Followed, ReferredVersions, note_referred};
use crate::rules::Deferral;
use crate::snapshot::{Root, Schema};
use crate::{Catalog, CatalogChange, NativeTable, NewRows, Object, Relation, RelationName, RowChange};

mod led;

pub use self::led::{Following, LedChange};

/// A transaction of one session. Used from any thread.
#[derive(Debug)]
pub struct Transaction {
    base: Arc<Catalog>,
    own: Arc<Catalog>,
    start: Arc<Mutex<Arc<Root>>>,
    owner: LockOwner,
    must_see: Arc<AtomicU64>,
    sees_start: Arc<AtomicBool>,
    deferred: Arc<Mutex<DeferredConstraints>>,
    moved: Arc<Mutex<MovedRows>>,
    reads: Arc<Mutex<HashSet<TableId>>>,
    /// What its new and altered tables refer to, as it was when that began.
    referred: Mutex<ReferredVersions>,
    /// Whether it is that of one statement, which may wait and begin anew.
    is_statement: bool,
}

impl Drop for Transaction {
    fn drop(&mut self) {
        match self.is_statement {
            true => self.base.locks().end_statement(self.owner),
            false => self.unlock(),
        }
    }
}

/// The changes of a transaction up to a moment.
#[derive(Clone, Debug)]
pub struct TransactionMark {
    start: Arc<Root>,
    own: Arc<Root>,
    deferred: DeferredConstraints,
    moved: MovedMark,
    /// Its locks; `None` where they stay all the same.
    locks: Option<LockMark>,
}

impl PartialEq for TransactionMark {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.start, &other.start) && Arc::ptr_eq(&self.own, &other.own) && self.deferred == other.deferred
    }
}

/// What a transaction has done to one table.
struct TableDifference {
    deleted: Vec<i64>,
    inserted: Vec<NewRows>,
    memory: Option<Reservation>,
}

impl Transaction {
    /// Begins with what all see now; who has its locks is nobody else.
    pub fn begin(base: Arc<Catalog>) -> Self {
        let owner = base.locks().new_owner();
        Self::begin_as(base, owner)
    }

    /// Begins with what all see now.
    pub fn begin_as(base: Arc<Catalog>, owner: LockOwner) -> Self {
        let now = base.snapshot().0;
        let start = Arc::new(Mutex::new(now.clone()));
        let must_see = Arc::<AtomicU64>::default();
        let deferred = Arc::<Mutex<DeferredConstraints>>::default();
        let moved = Arc::<Mutex<MovedRows>>::default();
        let reads = Arc::<Mutex<HashSet<TableId>>>::default();
        let sees_start = Arc::<AtomicBool>::default();
        let inside = Inside {
            base: base.clone(),
            start: start.clone(),
            owner,
            must_see: must_see.clone(),
            passes: Arc::default(),
            defers_keys: Arc::default(),
            sees_start: sees_start.clone(),
            deferred: deferred.clone(),
            moved: moved.clone(),
            reads: reads.clone(),
        };
        let (own, referred, is_statement) = (Arc::new(base.fork(now, inside)), Mutex::default(), false);
        Self { own, base, start, owner, must_see, sees_start, deferred, moved, reads, referred, is_statement }
    }

    /// The same for one statement, of which nobody hears before it is committed: dropped while that waits for another
    /// transaction, its owner goes on waiting.
    pub fn of_statement(mut self) -> Self {
        self.is_statement = true;
        if let Some(inside) = self.own.inside() {
            inside.passes.store(true, Ordering::Release);
        }
        self
    }

    /// Whether all its statements see of others what its first one does.
    pub fn see_start(&self, sees: bool) {
        self.sees_start.store(sees, Ordering::Release);
    }

    /// SET CONSTRAINTS: whether deferrable constraints of these names, or all if there are none, are looked at when it
    /// is committed, or after each statement. In the second case they are looked at now. Fails with code 23503 if a row
    /// refers to nothing, 23505 if two have one key; then all is as it was.
    pub fn set_deferred(&self, names: &[String], is_deferred: bool) -> Result<()> {
        if !is_deferred {
            self.check_deferred(names).map_err(|error| match error.code() {
                Some("23505" | "23P01") => self.wait_for_deferred().err().unwrap_or(error),
                _ => error,
            })?;
        }
        self.deferred.lock().set(names, is_deferred);
        Ok(())
    }

    /// Whether a constraint of this name is not looked at yet.
    pub(crate) fn is_deferred(&self, name: &str, deferral: Deferral) -> bool {
        self.deferred.lock().has_named(name, deferral)
    }

    /// Whether it has brought rows whose unique keys are looked at when it ends.
    pub fn defers_keys(&self) -> bool {
        self.own.inside().is_some_and(|inside| inside.defers_keys.load(Ordering::Acquire))
    }

    /// Waits for another transaction that takes rows away which have unique keys that were deferred here. Fails with
    /// code `MUST_WAIT` if there is one (the owner is in the queue then), 40P01 if that waits for this one, and 40001
    /// if such rows are gone since the last statement began.
    pub fn wait_for_deferred(&self) -> Result<()> {
        if !self.defers_keys() {
            return Ok(());
        }
        let (start, deferred) = (self.start.lock().clone(), self.deferred.lock().clone());
        for change in differences(&start, &self.own.snapshot().0)? {
            let Carried::Rows(object, rows) = change else { continue };
            let Relation::Native(table) = &object.relation else { continue };
            let keys = table.rules().keys.iter().filter(|key| deferred.has_key(key));
            let keys = keys.map(|key| key.name.clone()).collect::<Vec<_>>();
            let rows = rows.inserted.iter().filter_map(NewRows::batch).cloned().collect::<Vec<_>>();
            if !keys.is_empty() {
                self.own.wait_for_keys(&LockGuard(None), &object.reference(), &rows, &keys)?;
            }
        }
        Ok(())
    }

    /// Looks at constraints that were deferred, as committing does.
    fn check_deferred(&self, names: &[String]) -> Result<()> {
        let start = self.start.lock().clone();
        let mut root = start.clone();
        let changes = differences(&start, &self.own.snapshot().0)?;
        let mut others = DeferredConstraints::default();
        if !names.is_empty() {
            others.set(&[], true);
        }
        others.set(names, false);
        let put = changes.iter().filter_map(Carried::put).cloned().collect::<Vec<_>>();
        let mut changed = VecDeque::new();
        for change in changes {
            self.base.carry(&mut root, change, true, Some(&others), &mut changed)?;
        }
        for table in &changed {
            let settle = |_: &Arc<Root>, _: &NativeTable, _: Followed<'_>| Err(conflict());
            references::follow(&mut root, table, Some(&others), settle, |_, _| Err(conflict()))?;
        }
        changed.iter().try_for_each(|table| references::came_well(&root, table, Some(&others)))?;
        put.iter().try_for_each(|put| references::put_well(&root, put, Some(&others)))
    }

    /// Gives its locks back: it has ended.
    pub fn unlock(&self) {
        self.base.locks().end_transaction(self.owner);
    }

    /// Where its statements run.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.own
    }

    /// What has been changed up to now. Going back to it frees no lock.
    pub fn mark(&self) -> TransactionMark {
        let start = self.start.lock().clone();
        let (deferred, moved) = (self.deferred.lock().clone(), self.moved.lock().mark());
        TransactionMark { start, own: self.own.snapshot().0, deferred, moved, locks: None }
    }

    /// What has been changed up to now. Going back to it frees the locks that were taken since.
    pub fn savepoint(&self) -> TransactionMark {
        TransactionMark { locks: Some(self.base.locks().mark(self.owner)), ..self.mark() }
    }

    /// Whether it has changed anything.
    fn has_changes(&self) -> bool {
        !Arc::ptr_eq(&*self.start.lock(), &self.own.snapshot().0)
    }

    /// Takes back what has been changed since.
    pub fn back_to(&self, mark: &TransactionMark) {
        *self.start.lock() = mark.start.clone();
        *self.deferred.lock() = mark.deferred.clone();
        self.moved.lock().back_to(mark.moved);
        self.own.become_root(mark.own.clone());
        if let Some(locks) = &mark.locks {
            self.base.locks().back_to(self.owner, locks);
        }
    }

    /// Whether its end waits for a disk.
    pub fn waits_at_end(&self) -> bool {
        self.has_changes() || !self.base.has_published(self.must_see.load(Ordering::Acquire))
    }

    /// Sees what others have committed meanwhile, beneath its own changes; also what may still be lost, where it has
    /// passed locks of that. Fails with code 40001, and changes nothing, if they do not go together.
    pub fn refresh(&self) -> Result<()> {
        let mut start = self.start.lock();
        let (now, position) = self.base.with_changes_to(self.must_see.load(Ordering::Acquire));
        if Arc::ptr_eq(&*start, &now) {
            return Ok(());
        }
        self.check_kept(&start, &now)?;
        // What it has seen once it goes on seeing.
        self.must_see.fetch_max(position, Ordering::AcqRel);
        let mut root = now.clone();
        let mut changed = VecDeque::new();
        let deferred = self.deferred.lock();
        let changes = differences(&start, &self.own.snapshot().0)?;
        let renumbered = self.moved.lock().renumbered(&changes, &start, &now);
        let mut referred = self.referred.lock();
        changes.iter().filter_map(Carried::put).for_each(|put| note_referred(&start, put, &mut referred));
        for change in changes {
            self.base.carry(&mut root, change, true, Some(&deferred), &mut changed)?;
        }
        if let Some(renumbered) = renumbered {
            self.moved.lock().age(renumbered);
        }
        self.own.become_root(root);
        *start = now;
        Ok(())
    }

    /// Its statements read tables.
    pub fn note_read(&self, tables: impl Iterator<Item = TableId>) {
        self.reads.lock().extend(tables);
    }

    /// Makes all its changes everybody's. Fails with code 40001 if they do not go together with what others have
    /// committed meanwhile; if it is `serializable`, also if others have changed a table that it has read; and as a log
    /// fails. Then nothing of them is kept. One without changes has seen one moment, and never fails for others.
    pub fn commit(&self, serializable: bool) -> Result<()> {
        let committed = self.commit_changes(serializable);
        self.unlock();
        committed
    }

    fn commit_changes(&self, serializable: bool) -> Result<()> {
        let start = self.start.lock();
        let own = self.own.snapshot().0;
        if Arc::ptr_eq(&*start, &own) {
            // What it has told of others' changes must be true.
            return match self.must_see.load(Ordering::Acquire) {
                0 => Ok(()),
                position => self.base.settle(position),
            };
        }
        let changes = differences(&start, &own)?;
        let mut referred = self.referred.lock();
        changes.iter().filter_map(Carried::put).for_each(|put| note_referred(&start, put, &mut referred));
        let position = self.base.append_all(changes, Some(&*referred), |now| {
            if serializable && !Arc::ptr_eq(&*start, now) && !self.reads_are_current(&start, now) {
                let error =
                    Error::input("could not serialize access due to read/write dependencies among transactions");
                let detail = "Another transaction has changed a table that this one has read.";
                let hint = "The transaction might succeed if retried.";
                return Err(error.with_code("40001").with_detail(detail).with_hint(hint));
            }
            self.check_kept(&start, now)
        })?;
        if position > 0 {
            self.base.locks().settle(self.owner, position);
        }
        self.base.settle(position)
    }

    /// Whether the tables that it has read are as they were when it began: so it might have run as a whole now.
    fn reads_are_current(&self, start: &Root, now: &Root) -> bool {
        let reads = self.reads.lock();
        let mut objects = start.schemas.values().flat_map(|schema| schema.objects.values());
        objects.all(|object| {
            let Relation::Native(rows) = &object.relation else { return true };
            let is_same =
                || now.get(&object.name).is_some_and(|now| (now.id, now.version) == (object.id, object.version));
            !reads.contains(&rows.id()) || is_same()
        })
    }

    /// Whether the changes of others that it builds on are still there, as far as is known. Numbers of rows that were
    /// lost are given again. Fails with code 40001.
    fn check_kept(&self, start: &Root, now: &Root) -> Result<()> {
        match self.must_see.load(Ordering::Acquire) > 0 && start.losses != now.losses {
            true => Err(conflict()),
            false => Ok(()),
        }
    }
}

/// What the names in `own` are, beside those of `start`.
fn differences(start: &Root, own: &Root) -> Result<Vec<Carried>> {
    let mut changes = Vec::new();
    if start.authority != own.authority {
        changes.push(Carried::Authority(start.authority.clone(), own.authority.clone()));
    }
    let none = BTreeMap::new();
    let schemas = start.schemas.keys().chain(own.schemas.keys()).collect::<BTreeSet<_>>();
    for name in schemas {
        let (before, after) = (start.schemas.get(name), own.schemas.get(name));
        if let (Some(before), Some(after)) = (before, after)
            && Arc::ptr_eq(before, after)
        {
            continue;
        }
        if let (None, Some(made)) = (before, after) {
            changes.push(Carried::CreateSchema(name.clone(), Schema::new(made.id)));
        }
        let objects = |schema: Option<&Arc<Schema>>| schema.map_or(none.clone(), |schema| schema.objects.clone());
        let (before_objects, after_objects) = (objects(before), objects(after));
        for name in before_objects.keys().chain(after_objects.keys()).collect::<BTreeSet<_>>() {
            let change = match (before_objects.get(name), after_objects.get(name)) {
                (Some(before), Some(after)) if before.version == after.version => None,
                (Some(before), Some(after)) => match (&before.relation, &after.relation) {
                    (Relation::Native(was), Relation::Native(is))
                        if before.id == after.id && is.is_declared_as(was) =>
                    {
                        row_change(was, is)?.map(|rows| Carried::Rows(after.clone(), rows))
                    }
                    _ => Some(Carried::Put(after.clone(), Some(before.clone()))),
                },
                (None, Some(after)) => Some(Carried::Put(after.clone(), None)),
                (Some(before), None) => Some(Carried::Drop(before.clone())),
                (None, None) => None,
            };
            changes.extend(change);
        }
        if after.is_none() {
            changes.push(Carried::DropSchema(name.clone()));
        }
    }
    Ok(changes)
}

/// What has become of a table's rows; `None` if nothing.
fn row_change(was: &NativeTable, is: &NativeTable) -> Result<Option<RowChange>> {
    let TableDifference { deleted, inserted, memory } = difference(was, is)?;
    let Some(mut memory) = memory.filter(|_| !deleted.is_empty() || !inserted.is_empty()) else { return Ok(None) };
    memory.grow(inserted.iter().map(NewRows::bytes_in_memory).sum())?;
    Ok(Some(RowChange { deleted, inserted, memory, pairs: 0 }))
}

fn difference(was: &NativeTable, is: &NativeTable) -> Result<TableDifference> {
    // Rows of before have smaller numbers than those that came.
    let first_new = was.next_number();
    let pieces = is.pieces();
    let mut deleted = Vec::new();
    let ascends = was.ascends() && is.ascends();
    let unsorted = if ascends { &[] } else { was.pieces() };
    deleted.extend(gone_from(unsorted, is)?);
    for piece in was.pieces().iter().filter(|_| ascends) {
        // Numbers ascend, within a piece and from piece to piece: both sides are walked along once.
        let mut place = pieces.partition_point(|kept| kept.last() < piece.first());
        if pieces.get(place).is_some_and(|kept| kept.is_same(piece)) {
            continue;
        }
        if let Some(gone) = pieces.get(place).and_then(|now| piece.gone_in(now)) {
            deleted.extend(gone);
            continue;
        }
        let mut kept = pieces.get(place).map(Piece::live_numbers);
        let mut found = None;
        for number in piece.live_numbers() {
            while found.is_none_or(|found| found < number) {
                let Some(numbers) = &mut kept else { break };
                found = numbers.next();
                if found.is_none() {
                    place += 1;
                    kept = pieces.get(place).map(Piece::live_numbers);
                }
            }
            if found != Some(number) {
                deleted.push(number);
            }
        }
    }
    deleted.sort_unstable();
    let mut inserted = if ascends { Vec::new() } else { came_since(is, first_new)? };
    for piece in pieces.iter().filter(|piece| ascends && piece.last() >= first_new) {
        // Whole clusters come at once.
        if piece.first() >= first_new && piece.batch().is_none() {
            inserted.push(is.as_own(piece.as_new()));
            continue;
        }
        let rows = piece.read()?;
        let is_new = BooleanArray::from_iter(piece.live_numbers().map(|number| Some(number >= first_new)));
        inserted.push(NewRows::Memory(match is_new.true_count() == rows.num_rows() {
            true => rows,
            false => filter_record_batch(&rows, &is_new).map_err(from_arrow)?,
        }));
    }
    let memory = is.counted().or_else(|| was.counted()).map(Reservation::sibling);
    Ok(TableDifference { deleted, inserted, memory })
}

/// The rows of a version from a number on, in the order of their numbers.
fn came_since(is: &NativeTable, first_new: i64) -> Result<Vec<NewRows>> {
    let (mut batches, mut rows, mut clusters) = (Vec::new(), Vec::new(), Vec::new());
    for piece in is.pieces().iter().filter(|piece| piece.last() >= first_new) {
        // Whole clusters come at once.
        if piece.first() >= first_new && piece.batch().is_none() {
            clusters.push((piece.first(), is.as_own(piece.as_new())));
            continue;
        }
        let numbers = piece.live_numbers().enumerate().filter(|(_, number)| *number >= first_new);
        rows.extend(numbers.map(|(row, number)| (number, (batches.len(), row))));
        batches.push(piece.read()?);
    }
    rows.sort_unstable();
    clusters.sort_by_key(|(first, _)| *first);
    let batches = batches.iter().collect::<Vec<_>>();
    let (mut rest, mut inserted) = (rows.as_slice(), Vec::new());
    let mut put = |inserted: &mut Vec<NewRows>, before: i64| -> Result<()> {
        let (own, later) = rest.split_at(rest.partition_point(|(number, _)| *number < before));
        rest = later;
        for own in own.chunks(BATCH_ROWS_MAX) {
            let places = own.iter().map(|(_, place)| *place).collect::<Vec<_>>();
            let rows = interleave_record_batch(&batches, &places).map_err(from_arrow)?;
            inserted.push(NewRows::Memory(rows));
        }
        Ok(())
    };
    for (first, cluster) in clusters {
        put(&mut inserted, first)?;
        inserted.push(cluster);
    }
    put(&mut inserted, i64::MAX)?;
    Ok(inserted)
}

/// The numbers of the rows of some pieces that a later version of their table does not have.
fn gone_from(pieces: &[Piece], is: &NativeTable) -> Result<Vec<i64>> {
    let cluster = |piece: &Piece| match piece.rows() {
        PieceRows::Stored(stored) => Some((stored.view.segment().number(), stored.cluster)),
        PieceRows::Memory(_) => None,
    };
    let now = is.pieces().iter().filter_map(|piece| Some((cluster(piece)?, piece))).collect::<HashMap<_, _>>();
    let mut gone = Vec::new();
    for piece in pieces {
        let same = cluster(piece).and_then(|cluster| now.get(&cluster));
        match same.and_then(|now| piece.gone_in(now)) {
            Some(numbers) => gone.extend(numbers),
            None => gone.extend(piece.live_numbers().filter(|number| !is.has_row(*number))),
        }
    }
    Ok(gone)
}

impl Catalog {
    /// Applies all changes of a statement, as one, with what follows from them in tables that refer to each other.
    pub(crate) fn commit_all(&self, changes: Vec<Carried>) -> Result<()> {
        let position = self.append_all(changes, None, |_| Ok(()))?;
        self.settle(position)
    }

    /// The first half of that: the changes are in the log, and may still be lost. `check` looks at the names before.
    /// If they were made in a transaction before, `carried` has the versions that it saw of what its tables refer to.
    fn append_all(
        &self,
        changes: Vec<Carried>,
        carried: Option<&ReferredVersions>,
        check: impl FnOnce(&Arc<Root>) -> Result<()>,
    ) -> Result<LogPosition> {
        let is_carried = carried.is_some();
        // Nobody makes the next version of a table meanwhile.
        let changed = changes.iter().filter_map(|change| match change {
            Carried::Rows(object, _) => Some(object.clone()),
            _ => None,
        });
        let mut changed = changed.collect::<Vec<_>>();
        changed.sort_by_key(|object| object.id);
        let staged = changes.iter().map(|change| match change {
            Carried::Rows(_, rows) => self.staged(&rows.inserted),
            Carried::Put(object, _) => match &object.relation {
                Relation::Native(table) => self.staged(&table.new_rows()),
                _ => Ok(Staged::default()),
            },
            _ => Ok(Staged::default()),
        });
        let staged = staged.collect::<Result<Vec<_>>>()?;
        let put = changes.iter().filter(|_| is_carried).filter_map(Carried::put).cloned().collect::<Vec<_>>();
        let writing = changed.iter().map(|object| object.writer.lock()).collect::<Vec<_>>();
        let (position, before) = self.append(staged, |root| {
            check(root)?;
            let before = root.clone();
            let (mut told, mut entries) = (Vec::new(), Vec::new());
            let mut changed = VecDeque::new();
            let deferred = self.deferred();
            let deferred = deferred.as_deref();
            for change in changes {
                let (more, entry) = self.carry(root, change, is_carried, deferred, &mut changed)?;
                told.extend(more);
                entries.push((None, entry));
            }
            // A change of one table may ask for one of another, and so on; each row goes once.
            let mut followed = Vec::new();
            while let Some(table) = changed.pop_front() {
                let settle = |root: &Arc<Root>, table: &NativeTable, followed: Followed<'_>| {
                    let Followed { rows, columns, to_defaults } = followed;
                    self.followed(root, table, rows, columns, to_defaults)
                };
                references::follow(root, &table, deferred, settle, |root, change| {
                    let staged = match (&change, self.journal()) {
                        (Carried::Rows(_, rows), Some(journal)) => journal.stage(&rows.inserted)?,
                        _ => Staged::default(),
                    };
                    let (more, entry) = self.carry(root, change, false, deferred, &mut changed)?;
                    told.extend(more);
                    entries.push((Some(staged), entry));
                    Ok(())
                })?;
                followed.push(table);
            }
            followed.iter().try_for_each(|table| references::came_well(root, table, deferred))?;
            put.iter().try_for_each(|put| references::put_well(root, put, deferred))?;
            if let Some(known) = carried {
                put.iter().try_for_each(|put| references::refers_still(root, &before, known, put))?;
            }
            self.note_changed(&followed);
            Ok((told, entries))
        })?;
        drop((writing, before));
        Ok(position)
    }

    /// Makes one change of a transaction to the names. Keys that are `deferred` are not looked at. Fails with code
    /// 40001 if it does not go together with them.
    fn carry(
        &self,
        root: &mut Arc<Root>,
        change: Carried,
        is_carried: bool,
        deferred: Option<&DeferredConstraints>,
        changed: &mut VecDeque<ChangedTable>,
    ) -> Result<(Vec<CatalogChange>, Option<Entry>)> {
        let told =
            |object: &Object, is_naming| CatalogChange { name: object.name.clone(), object: object.id, is_naming };
        let is_as_it_was = |root: &Root, name: &RelationName, was: Option<&Arc<Object>>| {
            root.get(name).map(|object| (object.id, object.version)) == was.map(|object| (object.id, object.version))
        };
        Ok(match change {
            Carried::CreateSchema(name, schema) => {
                if root.schemas.contains_key(&name) {
                    return Err(conflict());
                }
                let id = schema.id;
                Arc::make_mut(root).schemas.insert(name.clone(), schema);
                (vec![], Some(Entry::CreateSchema { id, name }))
            }
            Carried::DropSchema(name) => {
                if root.schemas.get(&name).is_none_or(|schema| !schema.objects.is_empty()) {
                    return Err(conflict());
                }
                Arc::make_mut(root).schemas.remove(&name);
                (vec![], Some(Entry::DropSchema { name }))
            }
            Carried::Put(object, was) => {
                if !is_as_it_was(root, &object.name, was.as_ref()) {
                    return Err(conflict());
                }
                put(root, Object::clone(&object))?;
                let changes = was.iter().filter(|was| was.id != object.id).map(|was| told(was, true));
                let changes = changes.chain([told(&object, true)]).collect();
                (changes, object.relation.is_kept().then(|| Entry::Create(object.clone())))
            }
            Carried::Drop(object) => {
                if root.get(&object.name).is_none_or(|now| now.id != object.id) {
                    return Err(conflict());
                }
                if let Some(objects) = objects_mut(root, &object.name.schema) {
                    objects.remove(&object.name.name);
                }
                let entry = object.relation.is_kept().then(|| Entry::Drop { name: object.name.clone() });
                (vec![told(&object, true)], entry)
            }
            Carried::Authority(before, after) => {
                let merged = Arc::new(root.authority.merged(&before, &after).ok_or_else(conflict)?);
                Arc::make_mut(root).authority = merged.clone();
                (vec![], Some(Entry::Authority(merged)))
            }
            Carried::Rows(object, change) => {
                let now = root.get(&object.name).filter(|now| now.id == object.id).cloned().ok_or_else(conflict)?;
                let Relation::Native(table) = &now.relation else { return Err(conflict()) };
                // It was altered, by somebody who did not wait for the transaction.
                if let (true, Relation::Native(own)) = (is_carried, &object.relation)
                    && !table.takes_rows_of(own)
                {
                    return Err(conflict());
                }
                let RowChange { mut deleted, inserted, memory, pairs } = change;
                let in_order = deleted.clone();
                deleted.sort_unstable();
                let table = table.changed(&deleted, &inserted, memory, deferred, self.next_table_version())?;
                let relation = Relation::Native(Arc::new(table));
                let after = Arc::new(Object { relation, version: self.next_version(), ..Object::clone(&now) });
                put(root, Object::clone(&after))?;
                changed.push_back(ChangedTable { before: now, after, deleted: in_order, inserted, pairs, is_carried });
                let entry = Entry::Change { table: object.id, name: object.name.clone(), deleted, replace: false };
                (vec![told(&object, false)], Some(entry))
            }
        })
    }
}

#[cfg(test)]
mod tests;
