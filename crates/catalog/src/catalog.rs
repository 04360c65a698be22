//! The live catalog, which all sessions of a database share, and its changes.
//!
//! A change takes a short lock, puts a new object in the place of the old one, and then tells the observers. What takes
//! long (copying rows, freeing them) happens outside of that lock.
//!
//! Where a [`Journal`] keeps the changes, statements see one as soon as it cannot be lost any more. The next change
//! builds on it before that, so that many are synced at once.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use diligence_base::ids::{ObjectId, ObjectVersion, TableVersion};
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::external::OpenOptions;
use diligence_storage::foreign_error::from_arrow;
use parking_lot::{Mutex, RwLock};

use crate::carried::Carried;
use crate::journal::{Entry, Journal, LogPosition, RowStore, Staged};
use crate::locks::{LockOwner, Locks};
use crate::name::{OBJECTS_FROM, SHOWN_SCHEMAS};
use crate::pieces::conflict;
use crate::references;
use crate::references::DeferredReferences;
use crate::sequence::{Sequence, SequenceState};
use crate::snapshot::{Root, Schema};
use crate::{
    CatalogSnapshot, DEFAULT_SCHEMA, FileRelation, NativeTable, NewRows, Object, ObjectRef, Relation, RelationName,
    Rights, RowChange, SHOWN_FROM, TableAlteration,
};

/// Paths remembered at most; then all are forgotten, which costs opening them again.
const PATHS_MAX: usize = 1000;

/// The relations of a database. Used from any thread.
pub struct Catalog {
    /// What statements see.
    root: RwLock<Arc<Root>>,
    /// What the next change builds on. Locked before `root`.
    head: Mutex<Head>,
    journal: OnceLock<Arc<dyn Journal>>,
    row_store: OnceLock<Arc<dyn RowStore>>,
    shared: Arc<Shared>,
    /// Of a transaction's catalog.
    inside: Option<Inside>,
}

/// What a transaction's catalog knows of the one that all see.
pub(crate) struct Inside {
    pub(crate) base: Arc<Catalog>,
    /// What the transaction's changes build on.
    pub(crate) start: Arc<Mutex<Arc<Root>>>,
    /// Who has its locks.
    pub(crate) owner: LockOwner,
    /// Up to where in the log it has to see what others have done.
    pub(crate) must_see: Arc<AtomicU64>,
    /// What SET CONSTRAINTS has said.
    pub(crate) deferred: Arc<Mutex<DeferredReferences>>,
}

impl Inside {
    /// The transaction has passed locks of changes that are in the log up to a place.
    pub(crate) fn has_passed(&self, position: LogPosition) {
        self.must_see.fetch_max(position, Ordering::AcqRel);
    }
}

/// What a database's catalog has in common with those of its transactions.
pub(crate) struct Shared {
    ids: AtomicU64,
    versions: AtomicU64,
    /// Files that statements named by their path, so that the next one need not open them again.
    paths: Mutex<HashMap<String, Arc<FileRelation>>>,
    observers: RwLock<Vec<Weak<dyn CatalogObserver>>>,
    /// Oids of what the engine shows of itself; never taken back.
    shown: Mutex<BTreeMap<RelationName, u32>>,
    users: RwLock<Arc<BTreeMap<String, Arc<Rights>>>>,
    locks: Arc<Locks>,
}

/// The names with all changes, those that may still be lost included.
#[derive(Default)]
struct Head {
    root: Arc<Root>,
    /// Statements see all changes up to here.
    published: LogPosition,
    /// Changes that statements do not see yet, in order.
    pending: VecDeque<PendingChange>,
}

/// A change that is in the log, but may still be lost.
struct PendingChange {
    position: LogPosition,
    root: Arc<Root>,
    told: Vec<CatalogChange>,
}

/// What has become of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogChange {
    /// Its name.
    pub name: RelationName,
    /// The object that was made, changed or dropped. An object that took another one's place is two changes.
    pub object: ObjectId,
    /// Whether the name was given or taken away. Otherwise only the rows are others.
    pub is_naming: bool,
}

/// Is told of changes.
pub trait CatalogObserver: Send + Sync {
    /// Called after each change, by the thread that made it, which holds no lock of the catalog. Two changes may be
    /// told in another order than they were made, or at once.
    fn changed(&self, change: &CatalogChange);
}

impl Default for Catalog {
    fn default() -> Self {
        Self::with_root(Arc::default(), Arc::default())
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            ids: AtomicU64::new(OBJECTS_FROM),
            versions: AtomicU64::new(1),
            paths: Mutex::default(),
            observers: RwLock::default(),
            shown: Mutex::default(),
            users: RwLock::default(),
            locks: Arc::default(),
        }
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Catalog({} relations)", self.snapshot().objects().count())
    }
}

impl Catalog {
    pub(crate) fn with_root(root: Arc<Root>, shared: Arc<Shared>) -> Self {
        let head = Head { root: root.clone(), published: 0, pending: VecDeque::new() };
        let (journal, row_store) = (OnceLock::new(), OnceLock::new());
        Self { root: RwLock::new(root), head: Mutex::new(head), journal, row_store, shared, inside: None }
    }

    /// A transaction's catalog with these names, in which ids and versions are those of no other.
    pub(crate) fn fork(&self, root: Arc<Root>, inside: Inside) -> Self {
        Self { inside: Some(inside), ..Self::with_root(root, self.shared.clone()) }
    }

    pub(crate) fn inside(&self) -> Option<&Inside> {
        self.inside.as_ref()
    }

    /// The locks of the database.
    pub fn locks(&self) -> &Arc<Locks> {
        &self.shared.locks
    }

    /// Has other names from now on: for a catalog that nothing keeps.
    pub(crate) fn become_root(&self, root: Arc<Root>) {
        let mut head = self.head.lock();
        head.pending.clear();
        let before = std::mem::replace(&mut head.root, root.clone());
        let seen = std::mem::replace(&mut *self.root.write(), root);
        drop(head);
        drop((before, seen));
    }

    /// The names as they are now.
    pub fn snapshot(&self) -> CatalogSnapshot {
        CatalogSnapshot(self.root.read().clone())
    }

    /// A version that no table has had yet.
    pub fn next_table_version(&self) -> TableVersion {
        TableVersion(self.shared.versions.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn next_version(&self) -> ObjectVersion {
        ObjectVersion(self.shared.versions.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn next_id(&self) -> ObjectId {
        ObjectId(self.shared.ids.fetch_add(1, Ordering::Relaxed))
    }

    /// Has changes told, as long as the observer lives.
    pub fn observe(&self, observer: Weak<dyn CatalogObserver>) {
        let mut observers = self.shared.observers.write();
        observers.retain(|known| known.strong_count() > 0);
        observers.push(observer);
    }

    /// Has all changes from now on kept. Called once, before any statement runs.
    pub fn keep_in(&self, journal: Arc<dyn Journal>) {
        let _ = self.journal.set(journal);
    }

    /// Has rows that come in great number go into segments from now on. Called once, before any statement runs.
    pub fn store_rows_in(&self, row_store: Arc<dyn RowStore>) {
        let _ = self.row_store.set(row_store);
    }

    /// Where rows go that come in great number; `None` if they stay in memory.
    pub fn row_store(&self) -> Option<&Arc<dyn RowStore>> {
        match &self.inside {
            Some(inside) => inside.base.row_store(),
            None => self.row_store.get(),
        }
    }

    /// Makes a change to the names, which is published when this returns. `change` says what is told of it, and what is
    /// to be kept; where it fails, it has changed nothing.
    pub(crate) fn commit(
        &self,
        staged: Staged,
        change: impl FnOnce(&mut Arc<Root>) -> Result<(Vec<CatalogChange>, Option<Entry>)>,
    ) -> Result<()> {
        let (position, before) = self.append(vec![staged], |root| {
            let (told, entry) = change(root)?;
            Ok((told, vec![(None, entry)]))
        })?;
        drop(before);
        self.settle(position)
    }

    /// The first half of a change: the next one builds on it. Also gives what was there before, to be dropped where
    /// nobody waits for that: it may have many rows. `staged` has the rows of the first entries; others bring theirs.
    pub(crate) fn append(
        &self,
        staged: Vec<Staged>,
        change: impl FnOnce(&mut Arc<Root>) -> Result<(Vec<CatalogChange>, Vec<(Option<Staged>, Option<Entry>)>)>,
    ) -> Result<(LogPosition, Arc<Root>)> {
        let mut head = self.head.lock();
        let mut root = head.root.clone();
        let (told, entries) = change(&mut root)?;
        let mut staged = staged.into_iter();
        let with_rows = |(own, entry): (Option<Staged>, Option<Entry>)| {
            let rows = own.or_else(|| staged.next()).unwrap_or_default();
            Some((rows, entry.filter(|entry| !entry.is_temporary())?))
        };
        let entries = entries.into_iter().filter_map(with_rows).collect::<Vec<_>>();
        // What is not kept is seen with what it builds on.
        let mut position = head.pending.back().map_or(0, |last| last.position);
        if let Some(journal) = self.journal.get().filter(|_| !entries.is_empty()) {
            position = match journal.append(entries) {
                Ok(position) => position,
                Err(error) => {
                    drop(head);
                    self.lose(journal);
                    return Err(error);
                }
            };
        }
        let before = std::mem::replace(&mut head.root, root.clone());
        head.pending.push_back(PendingChange { position, root, told });
        Ok((position, before))
    }

    /// The second half: statements see the change, as soon as it is where a crash leaves it.
    pub(crate) fn settle(&self, position: LogPosition) -> Result<()> {
        if let Some(journal) = self.journal.get().filter(|_| position > 0)
            && let Err(error) = journal.sync(position)
        {
            self.lose(journal);
            return Err(error);
        }
        self.publish(position);
        Ok(())
    }

    /// Shows statements all changes up to a position.
    fn publish(&self, position: LogPosition) {
        let mut head = self.head.lock();
        let published = self.publish_locked(&mut head, position);
        drop(head);
        self.announce(published);
    }

    fn publish_locked(&self, head: &mut Head, position: LogPosition) -> Vec<PendingChange> {
        let count = head.pending.partition_point(|pending| pending.position <= position);
        let mut published = head.pending.drain(..count).collect::<Vec<_>>();
        if let Some(last) = published.last_mut() {
            head.published = head.published.max(last.position);
            std::mem::swap(&mut *self.root.write(), &mut last.root);
        }
        published
    }

    fn announce(&self, published: Vec<PendingChange>) {
        for PendingChange { root, told, .. } in published {
            // The last one of what was seen before may go with it, and its rows.
            drop(root);
            self.tell(&told);
        }
    }

    /// Undoes all changes that the journal has lost.
    fn lose(&self, journal: &Arc<dyn Journal>) {
        let mut head = self.head.lock();
        if !journal.has_lost() {
            return;
        }
        let published = self.publish_locked(&mut head, journal.synced());
        let lost = std::mem::take(&mut head.pending);
        // Whoever has seen lost changes finds out.
        let mut root = Root::clone(&self.root.read());
        root.losses += 1;
        head.root = Arc::new(root);
        *self.root.write() = head.root.clone();
        journal.forget_lost();
        drop(head);
        drop(lost);
        self.announce(published);
    }

    /// The rows of a statement on their way into the log.
    pub(crate) fn staged(&self, rows: &[NewRows]) -> Result<Staged> {
        let Some(journal) = self.journal.get() else { return Ok(Staged::default()) };
        journal.stage(rows).inspect_err(|_| self.lose(journal))
    }

    /// Runs something while nothing changes and all changes are kept and seen. Fails if one cannot be kept, and as
    /// `body` does.
    pub fn at_rest<T>(&self, body: impl FnOnce(CatalogSnapshot) -> Result<T>) -> Result<T> {
        let mut head = self.head.lock();
        let position = head.pending.back().map_or(0, |last| last.position);
        if let Some(journal) = self.journal.get().filter(|_| position > 0)
            && let Err(error) = journal.sync(position)
        {
            drop(head);
            self.lose(journal);
            return Err(error);
        }
        let published = self.publish_locked(&mut head, position);
        let done = body(CatalogSnapshot(head.root.clone()));
        drop(head);
        self.announce(published);
        done
    }

    /// Gives an object the name and the id that it had when it was written down. No id is given again.
    /// Fails with code 3F000 if there is no such schema.
    pub fn restore(&self, id: ObjectId, name: &RelationName, relation: Relation) -> Result<()> {
        self.shared.ids.fetch_max(id.0 + 1, Ordering::Relaxed);
        let version = self.next_version();
        self.commit(Staged::default(), |root| {
            // It may have had another name before.
            if let Some(objects) = objects_mut(root, &name.schema) {
                objects.retain(|_, object| object.id != id);
            }
            put(root, Object { id, version, name: name.clone(), relation, writer: Arc::default() })?;
            Ok((vec![CatalogChange { name: name.clone(), object: id, is_naming: true }], None))
        })
    }

    /// As [`restore`](Self::restore), for a schema. Fails never, as nothing is kept yet.
    pub fn restore_schema(&self, id: ObjectId, name: &str) -> Result<()> {
        self.shared.ids.fetch_max(id.0 + 1, Ordering::Relaxed);
        self.commit(Staged::default(), |root| {
            Arc::make_mut(root).schemas.entry(name.to_owned()).or_insert_with(|| Schema::new(id));
            Ok((vec![], None))
        })
    }

    /// As [`change`](Self::change) or, with `replace`, [`insert`](Self::insert), for what was written down: what
    /// follows from it in other tables was written down, too. Fails as they do.
    pub fn restore_rows(&self, table: &ObjectRef, change: RowChange, replace: bool) -> Result<()> {
        let RowChange { deleted, inserted, memory, .. } = change;
        let (version, name) = (self.next_table_version(), table.name.clone());
        let entry = Entry::Change { table: table.id, name, deleted: deleted.clone(), replace };
        self.change_rows(table, &inserted, entry, |present| match replace {
            true => present.with_rows(&inserted, memory, true, version),
            false => present.changed(&deleted, &inserted, memory, version),
        })
    }

    /// As [`alter`](Self::alter), for what was written down. Fails as that does.
    pub fn restore_alteration(
        &self,
        table: &ObjectRef,
        alteration: TableAlteration,
        memory: &Reservation,
    ) -> Result<()> {
        let version = self.object(table)?.version;
        self.alter(table, version, alteration, memory)
    }

    /// Where a sequence was when it was written down; nothing, if there is no such sequence. Fails never, as nothing is
    /// kept yet.
    pub fn restore_count(&self, sequence: &ObjectRef, state: SequenceState) -> Result<()> {
        let Ok(object) = self.object(sequence) else { return Ok(()) };
        let Relation::Sequence(before) = &object.relation else { return Ok(()) };
        let next = Sequence::at(before.options.clone(), state);
        self.restore(object.id, &object.name, Relation::Sequence(Arc::new(next)))
    }

    /// Gives no id below this one from now on.
    pub fn reserve_ids(&self, next: u64) {
        self.shared.ids.fetch_max(next, Ordering::Relaxed);
    }

    /// The id that the next object gets.
    pub fn next_object(&self) -> u64 {
        self.shared.ids.load(Ordering::Relaxed)
    }

    fn tell(&self, changes: &[CatalogChange]) {
        let observers = self.shared.observers.read().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        for change in changes {
            observers.iter().for_each(|observer| observer.changed(change));
        }
    }

    /// The files at a path that a statement names.
    pub fn path(&self, path: &str, files: &Arc<dyn Disk>) -> Arc<FileRelation> {
        let mut paths = self.shared.paths.lock();
        if paths.len() >= PATHS_MAX {
            paths.clear();
        }
        let relation = || Arc::new(FileRelation::new(path, OpenOptions::default(), files.clone()));
        paths.entry(path.to_owned()).or_insert_with(relation).clone()
    }

    /// Remembers what somebody may look for in vain, and why.
    pub fn leave_out(&self, names: impl IntoIterator<Item = (String, String)>) {
        let names = names.into_iter().collect::<Vec<_>>();
        let change = |root: &mut Arc<Root>| {
            Arc::make_mut(root).left_out.extend(names);
            Ok((vec![], None))
        };
        // Not kept, so nothing can fail.
        let _ = self.commit(Staged::default(), change);
    }

    /// The oid of a relation in which the engine shows itself.
    pub(crate) fn shown_oid(&self, name: RelationName) -> u32 {
        let mut shown = self.shared.shown.lock();
        let next = SHOWN_FROM + u32::try_from(shown.len()).unwrap_or(u32::MAX - SHOWN_FROM);
        *shown.entry(name).or_insert(next)
    }

    /// Says what the users that may log in may do, for those who ask ([`privileges`](crate::privileges)).
    pub fn set_users(&self, users: BTreeMap<String, Arc<Rights>>) {
        *self.shared.users.write() = Arc::new(users);
    }

    pub(crate) fn users(&self) -> Arc<BTreeMap<String, Arc<Rights>>> {
        self.shared.users.read().clone()
    }

    /// Gives a relation a name. A view in the place of another one is a new version of the same object; anything else
    /// is a new object. Fails with kind `Input` if there is no such schema, the schema shows the engine, the name is
    /// taken and may not be replaced, or a view is to replace a table or a table a view.
    pub fn create(&self, name: &RelationName, relation: Relation, or_replace: bool) -> Result<()> {
        may_change(&name.schema, &format!("'{name}' cannot be made"))?;
        let is_kept = relation.is_kept();
        let staged = match &relation {
            Relation::Native(memory) if is_kept => self.staged(&memory.new_rows())?,
            _ => Staged::default(),
        };
        self.commit(staged, |root| {
            let told = self.created(root, name, relation, or_replace)?;
            Ok((told, root.get(name).filter(|_| is_kept).cloned().map(Entry::Create)))
        })
    }

    pub(crate) fn created(
        &self,
        root: &mut Arc<Root>,
        name: &RelationName,
        relation: Relation,
        or_replace: bool,
    ) -> Result<Vec<CatalogChange>> {
        if !root.schemas.contains_key(&name.schema) {
            return Err(no_schema(&name.schema));
        }
        let existing = root.get(name).cloned();
        let mut id = None;
        if let Some(existing) = &existing {
            let before = &existing.relation;
            if !or_replace {
                let name = name.routine().map_or_else(|| name.to_string(), str::to_owned);
                let error = Error::input(format!("{} named '{name}' exists already", before.a_kind()));
                let error = match before {
                    Relation::Routine(_) => error.with_code("42723"),
                    _ => error,
                };
                return Err(error.with_hint("drop it first, or write CREATE OR REPLACE"));
            }
            let views = [before, &relation].map(|relation| matches!(relation, Relation::View(_)));
            // Replacing a view by a table is more often a slip than a wish.
            if views[0] != views[1] {
                return Err(Error::input(format!("'{name}' is {}, not {}", before.a_kind(), relation.a_kind()))
                    .with_code("42809")
                    .with_hint(format!("drop the {} first", before.kind())));
            }
            let is_routine = matches!(before, Relation::Routine(_));
            id = (views[0] || is_routine).then_some(existing.id);
        }
        let id = id.unwrap_or_else(|| self.next_id());
        put(root, Object { id, version: self.next_version(), name: name.clone(), relation, writer: Arc::default() })?;
        let replaced = existing.map(|existing| existing.id).filter(|replaced| *replaced != id);
        let change = |object| CatalogChange { name: name.clone(), object, is_naming: true };
        Ok(replaced.into_iter().chain([id]).map(change).collect())
    }

    /// Takes a name away if `wanted` agrees to what it stands for; false if there is no such name. Fails if `wanted`
    /// does.
    pub fn drop(&self, name: &RelationName, wanted: impl FnOnce(&Relation) -> Result<()>) -> Result<bool> {
        let mut is_there = false;
        self.commit(Staged::default(), |root| {
            let Some(object) = root.get(name).cloned() else { return Ok((vec![], None)) };
            wanted(&object.relation)?;
            is_there = true;
            if let Some(objects) = objects_mut(root, &name.schema) {
                objects.remove(&name.name);
            }
            let entry = object.relation.is_kept().then(|| Entry::Drop { name: name.clone() });
            Ok((vec![CatalogChange { name: name.clone(), object: object.id, is_naming: true }], entry))
        })?;
        Ok(is_there)
    }

    pub(crate) fn journal(&self) -> Option<&Arc<dyn Journal>> {
        self.journal.get()
    }

    /// The names as statements see them, if they have all changes up to a place in the log; otherwise with all changes.
    /// Also the place of the last change among them that may still be lost; 0 if there is none.
    pub(crate) fn with_changes_to(&self, position: LogPosition) -> (Arc<Root>, LogPosition) {
        let head = self.head.lock();
        match head.pending.back().filter(|_| position > head.published) {
            Some(last) => (head.root.clone(), last.position),
            None => (self.root.read().clone(), 0),
        }
    }

    /// Whether statements see all changes up to a place in the log.
    pub(crate) fn has_published(&self, position: LogPosition) -> bool {
        position == 0 || position <= self.head.lock().published
    }

    /// The names with all changes, those that may still be lost included.
    pub(crate) fn newest(&self) -> Arc<Root> {
        self.head.lock().root.clone()
    }

    /// Makes a schema; false if there is one already. Fails with kind `File` if it cannot be kept.
    pub fn create_schema(&self, name: &str) -> Result<bool> {
        if SHOWN_SCHEMAS.contains(&name) {
            return Ok(false);
        }
        let id = self.next_id();
        let mut is_new = false;
        self.commit(Staged::default(), |root| {
            if root.schemas.contains_key(name) {
                return Ok((vec![], None));
            }
            is_new = true;
            Arc::make_mut(root).schemas.insert(name.to_owned(), Schema::new(id));
            Ok((vec![], Some(Entry::CreateSchema { id, name: name.to_owned() })))
        })?;
        Ok(is_new)
    }

    /// Takes a schema away; false if there is none. Fails with kind `Input` on one that is always there, and on one
    /// with relations unless `cascade`.
    pub fn drop_schema(&self, name: &str, cascade: bool) -> Result<bool> {
        may_change(name, "it cannot be dropped")?;
        if name == DEFAULT_SCHEMA {
            return Err(Error::input(format!("the schema '{name}' cannot be dropped")));
        }
        let mut is_there = false;
        self.commit(Staged::default(), |root| {
            let Some(schema) = root.schemas.get(name).cloned() else { return Ok((vec![], None)) };
            is_there = true;
            if !schema.objects.is_empty() && !cascade {
                return Err(Error::input(format!(
                    "the schema '{name}' is not empty: it has {}",
                    schema.objects.values().map(|object| shown_name(&object.name)).collect::<Vec<_>>().join(", ")
                ))
                .with_code("2BP01")
                .with_hint("write DROP SCHEMA … CASCADE to drop them too"));
            }
            Arc::make_mut(root).schemas.remove(name);
            let change =
                |object: &Arc<Object>| CatalogChange { name: object.name.clone(), object: object.id, is_naming: true };
            let told = schema.objects.values().map(change).collect();
            Ok((told, Some(Entry::DropSchema { name: name.to_owned() })))
        })?;
        Ok(is_there)
    }

    /// Adds rows to a table in memory, or puts them in the place of all present ones. All or nothing. The new rows are
    /// counted in `memory`. Fails with kind `Input` if the table has been dropped or replaced, `Value` if a value does
    /// not fit its column or a constraint refuses a row (23502, 23503, 23505), `Resource` if memory is short.
    pub fn insert(&self, table: &ObjectRef, rows: &[NewRows], memory: Reservation, replace: bool) -> Result<()> {
        if self.is_referring(table) {
            let deleted = if replace { self.numbers_of(table)? } else { Vec::new() };
            return self.change(table, RowChange { deleted, inserted: rows.to_vec(), memory, pairs: 0 });
        }
        let entry = Entry::Change { table: table.id, name: table.name.clone(), deleted: Vec::new(), replace };
        let version = self.next_table_version();
        self.change_rows(table, rows, entry, |present| present.with_rows(rows, memory, replace, version))
    }

    /// As [`insert`](Self::insert), for the rows only whose keys no other row has, of the table or before them.
    /// `keys` are the names of the keys that count; all, if empty. Gives those rows, by batch. Fails as that does.
    pub fn insert_new(
        &self,
        table: &ObjectRef,
        rows: &[RecordBatch],
        memory: Reservation,
        keys: &[String],
    ) -> Result<Vec<BooleanArray>> {
        let mut memory = Some(memory);
        loop {
            let present = self.object(table)?;
            let Relation::Native(relation) = &present.relation else { return Err(not_in_memory(&present)) };
            let masks = relation.new_keys(rows, keys)?;
            let new = rows.iter().zip(&masks).map(|(rows, mask)| filter_record_batch(rows, mask).map_err(from_arrow));
            let new = new.collect::<Result<Vec<_>>>()?;
            drop(present);
            let counted = memory.as_ref().map(Reservation::sibling).map_or_else(
                || Err(Error::bug("rows are counted nowhere")),
                |mut counted| {
                    counted.grow(new.iter().map(RecordBatch::get_array_memory_size).sum())?;
                    Ok(counted)
                },
            )?;
            if new.iter().all(|rows| rows.num_rows() == 0) {
                return Ok(masks);
            }
            match self.insert(table, &new.into_iter().map(NewRows::Memory).collect::<Vec<_>>(), counted, false) {
                Ok(()) => {
                    drop(memory.take());
                    return Ok(masks);
                }
                // Somebody else was faster; then the row is there now, unless another key refuses it.
                Err(error) if error.code() == Some("23505") => {
                    let again = self.object(table)?;
                    let Relation::Native(relation) = &again.relation else { return Err(error) };
                    if relation.new_keys(rows, keys)? == masks {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes rows of a table in memory away and adds others; rows of other tables that refer to them go or change as
    /// well. All or nothing. Fails as [`insert`](Self::insert) does, and with code 40001 if another statement has taken
    /// one of the rows away first.
    pub fn change(&self, table: &ObjectRef, change: RowChange) -> Result<()> {
        if self.is_referring(table) {
            let object = self.object(table)?;
            return self.commit_all(vec![Carried::Rows(object, change)]);
        }
        let RowChange { mut deleted, inserted, memory, .. } = change;
        deleted.sort_unstable();
        let entry =
            Entry::Change { table: table.id, name: table.name.clone(), deleted: deleted.clone(), replace: false };
        let version = self.next_table_version();
        self.change_rows(table, &inserted, entry, |present| present.changed(&deleted, &inserted, memory, version))
    }

    /// Takes all rows of tables in memory away; with `cascade`, also of those that refer to them. With `restarts`,
    /// their columns count from the beginning. Fails with kind `Input` if one has been dropped or replaced, with code
    /// 0A000 if one is referred to by another table that is not among them and not `cascade`.
    pub fn truncate(&self, tables: &[ObjectRef], restarts: bool, cascade: bool) -> Result<()> {
        let newest = self.newest();
        let mut all = tables.to_vec();
        let mut next = 0;
        while next < all.len() {
            let table = all[next].clone();
            next += 1;
            for (other, _) in references::referring(&newest, table.id) {
                if all.iter().any(|known| known.id == other.id) {
                    continue;
                }
                if cascade {
                    all.push(other.reference());
                    continue;
                }
                let error = Error::unsupported("cannot truncate a table referenced in a foreign key constraint");
                let other = &other.name.name;
                let detail = format!("Table \"{other}\" references \"{}\".", table.name.name);
                let hint = format!("Truncate table \"{other}\" at the same time, or use TRUNCATE ... CASCADE.");
                return Err(error.with_code("0A000").with_detail(detail).with_hint(hint));
            }
        }
        for table in &all {
            let entry = Entry::Change { table: table.id, name: table.name.clone(), deleted: Vec::new(), replace: true };
            self.change_rows(table, &[], entry, |present| present.without_rows(self.next_table_version()))?;
            for sequence in newest.owned_by(table.id).iter().filter(|_| restarts) {
                self.restart(&sequence.reference())?;
            }
        }
        Ok(())
    }

    fn numbers_of(&self, table: &ObjectRef) -> Result<Vec<i64>> {
        let object = self.object(table)?;
        let Relation::Native(rows) = &object.relation else { return Err(not_in_memory(&object)) };
        Ok(rows.pieces().iter().flat_map(|piece| piece.live_numbers()).collect())
    }

    /// Whether rows of a table and of others depend on each other.
    fn is_referring(&self, table: &ObjectRef) -> bool {
        let newest = self.newest();
        let object = newest.get(&table.name);
        let refers = object.is_some_and(|object| match &object.relation {
            Relation::Native(rows) => !rows.rules().references.is_empty(),
            _ => false,
        });
        refers || references::referring(&newest, table.id).next().is_some()
    }

    /// Publishes other rows of a table in memory, computed from the present ones. One writer of a table follows
    /// another; readers wait for none. Fails with kind `Input` if the table has been dropped or replaced, and if
    /// `change` does.
    fn change_rows(
        &self,
        table: &ObjectRef,
        rows: &[NewRows],
        entry: Entry,
        change: impl FnOnce(&NativeTable) -> Result<NativeTable>,
    ) -> Result<()> {
        let writer = self.object(table)?.writer.clone();
        let staged = self.staged(rows)?;
        let writing = writer.lock();
        let present = self.object(table)?;
        let Relation::Native(rows) = &present.relation else { return Err(not_in_memory(&present)) };
        let next = Object {
            relation: Relation::Native(Arc::new(change(rows)?)),
            version: self.next_version(),
            ..Object::clone(&present)
        };
        let built_on = present.version;
        drop(present);
        let (position, before) = self.append(vec![staged], |root| {
            let now = root.get(&table.name).filter(|object| object.id == table.id).ok_or_else(|| gone(table))?;
            // What it builds on may have been lost meanwhile: nobody else makes a version while this writes.
            if now.version != built_on {
                return Err(conflict());
            }
            put(root, next)?;
            Ok((
                vec![CatalogChange { name: table.name.clone(), object: table.id, is_naming: false }],
                vec![(None, Some(entry))],
            ))
        })?;
        drop((writing, before));
        self.settle(position)
    }

    /// Has rows of a table lie on disk from now on: statements that begin later read them there. The rows are the same,
    /// so nothing is written down, and no plan is obsolete. Does nothing if the table is not of this
    /// [origin](NativeTable::origin) any more. The pieces ascend. Fails with kind `Resource` if memory is short.
    pub fn store_rows(&self, table: &ObjectRef, origin: TableVersion, stored: &[crate::StoredPiece]) -> Result<()> {
        let Ok(object) = self.object(table) else { return Ok(()) };
        let writer = object.writer.clone();
        drop(object);
        let writing = writer.lock();
        let (position, before) = self.append(vec![], |root| {
            let now = root.get(&table.name).filter(|object| object.id == table.id).cloned();
            if let Some(now) = now
                && let Relation::Native(rows) = &now.relation
                && rows.origin() == origin
            {
                let relation = Relation::Native(Arc::new(rows.with_stored(stored)?));
                put(root, Object { relation, ..Object::clone(&now) })?;
            }
            Ok((vec![], vec![]))
        })?;
        drop((writing, before));
        self.settle(position)
    }

    /// The newest version of an object.
    pub(crate) fn object(&self, wanted: &ObjectRef) -> Result<Arc<Object>> {
        let object = self.head.lock().root.get(&wanted.name).cloned();
        object.filter(|object| object.id == wanted.id).ok_or_else(|| gone(wanted))
    }
}

/// An object's name in messages.
fn shown_name(name: &RelationName) -> &str {
    name.routine().unwrap_or(&name.name)
}

/// Gives an object its name, in nodes that no snapshot has.
pub(crate) fn put(root: &mut Arc<Root>, object: Object) -> Result<()> {
    let objects = objects_mut(root, &object.name.schema).ok_or_else(|| no_schema(&object.name.schema))?;
    objects.insert(object.name.name.clone(), Arc::new(object));
    Ok(())
}

/// The objects of a schema, in nodes that no snapshot has.
pub(crate) fn objects_mut<'a>(root: &'a mut Arc<Root>, schema: &str) -> Option<&'a mut BTreeMap<String, Arc<Object>>> {
    let schema = Arc::make_mut(root).schemas.get_mut(schema)?;
    Some(&mut Arc::make_mut(schema).objects)
}

pub(crate) fn gone(table: &ObjectRef) -> Error {
    let error = Error::input(format!("the table '{}' was dropped or replaced before its rows came", table.name));
    error.with_code("42P01")
}

pub(crate) fn not_in_memory(object: &Object) -> Error {
    let (name, kind) = (&object.name, object.relation.a_kind());
    Error::unsupported(format!("'{name}' is {kind}; rows are added to tables in memory")).with_code("42809")
}

/// Fails with kind `Input` on the schemas in which the engine shows itself. `what` is the beginning of the message.
pub fn may_change(schema: &str, what: &str) -> Result<()> {
    if !SHOWN_SCHEMAS.contains(&schema) {
        return Ok(());
    }
    Err(Error::input(format!("{what}: what is in the schema '{schema}' shows the engine, and cannot be changed")))
}

/// The error for a schema that is not there.
pub fn no_schema(name: &str) -> Error {
    let error = Error::input(format!("no schema is named '{name}'")).with_code("3F000");
    error.with_hint(format!("CREATE SCHEMA {name} makes one"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use diligence_memory::QueryMemory;
    use diligence_storage::{DecodeRequest, Fetch, ScanRequest, Table};

    use super::*;

    fn batch(values: &[i64]) -> RecordBatch {
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef)]).unwrap()
    }

    fn reservation() -> Reservation {
        QueryMemory::unbounded().reservation("a table in memory")
    }

    fn name(name: &str) -> RelationName {
        RelationName::new(DEFAULT_SCHEMA, name)
    }

    fn table(catalog: &Catalog, table: &str) -> ObjectRef {
        let rows = batch(&[1, 2]);
        let relation =
            NativeTable::new(&name(table), &rows.schema(), &[rows], reservation(), catalog.next_table_version())
                .unwrap();
        catalog.create(&name(table), Relation::Native(Arc::new(relation)), true).unwrap();
        catalog.snapshot().get(&name(table)).unwrap().reference()
    }

    fn rows(snapshot: &CatalogSnapshot, table: &str) -> usize {
        match &snapshot.get(&name(table)).unwrap().relation {
            Relation::Native(memory) => memory.rows(),
            other => panic!("{other:?}"),
        }
    }

    #[derive(Default)]
    struct Heard(Mutex<Vec<CatalogChange>>);

    impl CatalogObserver for Heard {
        fn changed(&self, change: &CatalogChange) {
            self.0.lock().push(change.clone());
        }
    }

    #[test]
    fn a_snapshot_keeps_names_and_rows_while_the_catalog_changes() {
        let catalog = Catalog::default();
        let (t, _) = (table(&catalog, "t"), table(&catalog, "u"));
        let before = catalog.snapshot();
        catalog.insert(&t, &[batch(&[3]).into()], reservation(), false).unwrap();
        catalog.drop(&name("u"), |_| Ok(())).unwrap();
        assert!(catalog.create_schema("lab").unwrap());
        assert_eq!((rows(&before, "t"), rows(&before, "u"), before.has_schema("lab")), (2, 2, false));
        let after = catalog.snapshot();
        assert_eq!((rows(&after, "t"), after.has_schema("lab")), (3, true));
        assert!(after.get(&name("u")).is_none());
        catalog.truncate(std::slice::from_ref(&t), false, false).unwrap();
        assert_eq!((rows(&catalog.snapshot(), "t"), rows(&after, "t")), (0, 3));
    }

    #[test]
    fn a_change_gives_its_object_another_version_and_no_other_one() {
        let catalog = Catalog::default();
        let (t, u) = (table(&catalog, "t"), table(&catalog, "u"));
        let versions = || {
            let snapshot = catalog.snapshot();
            ["t", "u"].map(|table| snapshot.get(&name(table)).map(|object| (object.id, object.version)).unwrap())
        };
        let before = versions();
        catalog.insert(&t, &[batch(&[3]).into()], reservation(), false).unwrap();
        let after = versions();
        assert_eq!((after[0].0, after[1]), (before[0].0, before[1]));
        assert_ne!(after[0].1, before[0].1);
        assert_ne!(table(&catalog, "t").id, t.id, "a table in the place of another one is another object");
        assert_eq!(versions()[1].0, u.id);
    }

    #[test]
    fn rows_for_a_table_that_is_gone_are_refused() {
        let catalog = Catalog::default();
        let first = table(&catalog, "t");
        let second = table(&catalog, "t");
        for gone in [first, ObjectRef { name: name("nowhere"), ..second.clone() }] {
            let error = catalog.insert(&gone, &[batch(&[3]).into()], reservation(), false).unwrap_err();
            assert_eq!(error.code(), Some("42P01"), "{error}");
        }
        catalog.insert(&second, &[batch(&[3]).into()], reservation(), false).unwrap();
        assert_eq!(rows(&catalog.snapshot(), "t"), 3);
    }

    #[test]
    fn rows_are_found_by_number_however_they_move() {
        let catalog = Catalog::default();
        let t = table(&catalog, "t");
        let numbered = || match &catalog.snapshot().get(&name("t")).unwrap().relation {
            Relation::Native(memory) => numbered_rows(memory.numbered().as_ref()),
            other => panic!("{other:?}"),
        };
        let change = |deleted: &[i64], inserted: &[i64]| {
            let inserted = vec![batch(inserted).into()];
            catalog.change(&t, RowChange { deleted: deleted.to_vec(), inserted, memory: reservation(), pairs: 0 })
        };
        assert_eq!(numbered(), [(1, 0), (2, 1)]);
        change(&[0], &[10, 20]).unwrap();
        assert_eq!(numbered(), [(2, 1), (10, 2), (20, 3)]);
        change(&[3, 1], &[30]).unwrap();
        assert_eq!(numbered(), [(10, 2), (30, 4)]);
        // What has gone does not go again, and then nothing else happens.
        assert_eq!(change(&[2, 3], &[40]).unwrap_err().code(), Some("40001"));
        assert_eq!(change(&[9], &[]).unwrap_err().code(), Some("40001"));
        assert_eq!(numbered(), [(10, 2), (30, 4)]);
        change(&[2, 4], &[]).unwrap();
        assert_eq!(numbered(), []);
        change(&[], &[50]).unwrap();
        assert_eq!(numbered(), [(50, 5)], "no number comes twice");
    }

    /// The first column with the row's number.
    fn numbered_rows(table: &dyn Table) -> Vec<(i64, i64)> {
        let columns = vec![0, table.schema().fields().len() - 1];
        let request = DecodeRequest { columns, batch_rows: 8, ..DecodeRequest::default() };
        let mut rows = Vec::new();
        for cluster in table.scan(&ScanRequest::default()).unwrap().clusters {
            let Fetch::Ready(fetched) = cluster.fetch(&[]) else { panic!("memory needs no reading") };
            let mut decode = cluster.decode(fetched, &request).unwrap();
            while let Some(chunk) = decode.next().unwrap() {
                let values = chunk.columns.iter().map(|column| column.as_primitive::<Int64Type>().values());
                let values = values.collect::<Vec<_>>();
                rows.extend(values[0].iter().copied().zip(values[1].iter().copied()));
            }
        }
        rows
    }

    #[test]
    fn observers_hear_of_each_object_that_changes() {
        let catalog = Catalog::default();
        let heard = Arc::new(Heard::default());
        catalog.observe(Arc::downgrade(&heard) as Weak<dyn CatalogObserver>);
        let told = || std::mem::take(&mut *heard.0.lock()).into_iter().map(|change| change.object).collect::<Vec<_>>();
        let t = table(&catalog, "t");
        assert_eq!(told(), [t.id]);
        catalog.insert(&t, &[batch(&[3]).into()], reservation(), true).unwrap();
        assert_eq!(told(), [t.id]);
        let again = table(&catalog, "t");
        assert_eq!(told(), [t.id, again.id]);
        catalog.drop(&name("t"), |_| Ok(())).unwrap();
        assert!(!catalog.drop(&name("t"), |_| Ok(())).unwrap());
        assert_eq!(told(), [again.id]);
    }

    #[test]
    fn what_shows_the_engine_is_not_changed() {
        let catalog = Catalog::default();
        let rows = batch(&[1]);
        let relation = NativeTable::new(&name("t"), &rows.schema(), &[rows], reservation(), TableVersion(1)).unwrap();
        let relation = Relation::Native(Arc::new(relation));
        for schema in SHOWN_SCHEMAS {
            assert!(catalog.create(&RelationName::new(schema, "t"), relation.clone(), true).is_err(), "{schema}");
            assert!(!catalog.create_schema(schema).unwrap() && catalog.drop_schema(schema, true).is_err(), "{schema}");
        }
        assert_eq!(catalog.create(&RelationName::new("lab", "t"), relation, true).unwrap_err().code(), Some("3F000"));
        assert!(catalog.drop_schema(DEFAULT_SCHEMA, true).is_err());
    }
}
