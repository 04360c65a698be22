//! The live catalog, which all sessions of a database share, and its changes.
//!
//! A change takes a short lock, puts a new object in the place of the old one, and then tells the observers. What takes
//! long (copying rows, freeing them) happens outside of that lock.
//!
//! Where a [`Journal`] keeps the changes, statements see one as soon as it cannot be lost any more. The next change
//! builds on it before that, so that many are synced at once.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use diligence_base::ids::{ObjectId, ObjectVersion, TableId, TableVersion};
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::external::OpenOptions;
use diligence_storage::foreign_error::from_arrow;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::carried::Carried;
use crate::deferred::DeferredConstraints;
use crate::journal::{Entry, Journal, LogPosition, RowStore, Staged};
use crate::key_store::KeyStore;
use crate::lock_guard::LockGuard;
use crate::locks::{LockOwner, Locks};
use crate::moment::micros_now;
use crate::moved::MovedRows;
use crate::name::{OBJECTS_FROM, SHOWN_SCHEMAS};
use crate::pieces::conflict;
use crate::references;
use crate::sequence::{Sequence, SequenceState};
use crate::snapshot::{Root, Schema};
use crate::{
    CatalogSnapshot, DEFAULT_SCHEMA, EarlierHistory, FileRelation, History, HistoryState, NativeTable, NewRows, Object,
    ObjectRef, Relation, RelationName, Rights, RowChange, RowRules, SHOWN_FROM, TableAlteration,
};

mod authorized;
mod changed;
mod named;
mod published;
mod restored;
#[cfg(test)]
mod tests;

pub use self::named::RenamedObject;

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
    /// Whether it passes locks of changes that are in the log and may still be lost.
    pub(crate) passes: Arc<AtomicBool>,
    /// Whether all its statements see of others what its first one does.
    pub(crate) sees_start: Arc<AtomicBool>,
    /// Whether it has brought rows whose unique keys are looked at later.
    pub(crate) defers_keys: Arc<AtomicBool>,
    /// What SET CONSTRAINTS has said.
    pub(crate) deferred: Arc<Mutex<DeferredConstraints>>,
    /// Where rows have gone that somebody follows.
    pub(crate) moved: Arc<Mutex<MovedRows>>,
    /// The tables that its statements have read.
    pub(crate) reads: Arc<Mutex<HashSet<TableId>>>,
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
    versions: Arc<AtomicU64>,
    /// Files that statements named by their path, so that the next one need not open them again.
    paths: Mutex<HashMap<String, Arc<FileRelation>>>,
    observers: RwLock<Vec<Weak<dyn CatalogObserver>>>,
    /// Oids of what the engine shows of itself; never taken back.
    shown: Mutex<BTreeMap<RelationName, u32>>,
    users: RwLock<Arc<BTreeMap<String, Arc<Rights>>>>,
    row_rules: OnceLock<Arc<dyn RowRules>>,
    key_store: OnceLock<Arc<dyn KeyStore>>,
    history: History,
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
            versions: Arc::new(AtomicU64::new(1)),
            paths: Mutex::default(),
            observers: RwLock::default(),
            shown: Mutex::default(),
            users: RwLock::default(),
            row_rules: OnceLock::new(),
            key_store: OnceLock::new(),
            history: History::default(),
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

    /// A catalog by itself that begins with these names: nothing of it is kept, and its locks are its own.
    pub fn of_names(names: &CatalogSnapshot) -> Self {
        Self::with_root(names.0.clone(), Arc::default())
    }

    /// A transaction's catalog with these names, in which ids and versions are those of no other.
    pub(crate) fn fork(&self, root: Arc<Root>, inside: Inside) -> Self {
        Self { inside: Some(inside), ..Self::with_root(root, self.shared.clone()) }
    }

    pub(crate) fn inside(&self) -> Option<&Inside> {
        self.inside.as_ref()
    }

    /// Which constraints are not looked at yet, in a transaction.
    pub(crate) fn deferred(&self) -> Option<MutexGuard<'_, DeferredConstraints>> {
        self.inside.as_ref().map(|inside| inside.deferred.lock())
    }

    /// Whether its changes are those of a transaction, which become everybody's at its end.
    pub fn is_of_transaction(&self) -> bool {
        self.inside.is_some()
    }

    /// Keeps the past of the database for so many microseconds from now on; not at all, if that is 0.
    pub fn retain_history(&self, retention: i64) {
        let base = self.inside.as_ref().map_or(self, |inside| &*inside.base);
        self.shared.history.retain(retention, micros_now(), base.snapshot().0);
    }

    /// Goes on with the past of a database that is opened: what there is now has been there since a moment, and
    /// `earlier` has what was before that. Times are microseconds since 1970.
    pub fn resume_history(&self, retention: i64, since: i64, earlier: Weak<dyn EarlierHistory>) {
        self.shared.history.resume(retention, since, self.snapshot().0, earlier);
    }

    /// An empty catalog for what this one was at a moment: its tables have other versions than all tables of this one.
    pub fn of_past(&self) -> Self {
        let shared = Shared { versions: self.shared.versions.clone(), ..Shared::default() };
        Self::with_root(Arc::default(), Arc::new(shared))
    }

    /// How much there is of the past.
    pub fn history(&self) -> HistoryState {
        self.shared.history.state(micros_now())
    }

    /// The names and rows of the database at a moment, in microseconds since 1970. Fails with code 22023 if it is to
    /// come, 72000 if it is not retained.
    pub fn at_moment(&self, moment: i64) -> Result<CatalogSnapshot> {
        self.shared.history.at(moment, micros_now())
    }

    /// Forgets what is not retained any more. To be called from time to time.
    pub fn trim_history(&self) {
        self.shared.history.trim(micros_now());
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

    /// Has keys of indexes that come in great number go into files from now on. Called once, before there are tables.
    pub fn store_keys_in(&self, store: Arc<dyn KeyStore>) {
        let _ = self.shared.key_store.set(store);
    }

    /// Where the keys of a table of this name go if they are many; `None` if they stay in memory.
    pub fn key_store_of(&self, name: &RelationName) -> Option<&Arc<dyn KeyStore>> {
        self.shared.key_store.get().filter(|_| !name.is_temporary())
    }

    /// A relation that gets this name has its keys where they belong.
    fn keep_keys_of(&self, name: &RelationName, relation: &Relation) {
        if let (Relation::Native(table), Some(store)) = (relation, self.key_store_of(name)) {
            table.keep_keys_in(store);
        }
    }

    /// Has rows that follow others held against the rules of their tables. Called once, before any statement runs.
    pub fn follow_by(&self, rules: Arc<dyn RowRules>) {
        let _ = self.shared.row_rules.set(rules);
    }

    /// Rows of a table of these names, in which some columns have got other values, as they are to be written. Fails as
    /// [`RowRules::followed`] does.
    pub(crate) fn followed(
        &self,
        root: &Arc<Root>,
        table: &NativeTable,
        rows: RecordBatch,
        columns: &[String],
        to_defaults: bool,
    ) -> Result<RecordBatch> {
        match self.shared.row_rules.get() {
            Some(rules) => rules.followed(&CatalogSnapshot(root.clone()), table, rows, columns, to_defaults),
            None => Ok(rows),
        }
    }

    /// Rows that are to come into a table, of which these columns have got other values, as they are to be written.
    /// Fails as [`RowRules::followed`] does, and if the table is gone.
    pub fn settled(&self, table: &ObjectRef, rows: RecordBatch, columns: &[String]) -> Result<RecordBatch> {
        let object = self.object(table)?;
        let Relation::Native(native) = &object.relation else { return Err(not_in_memory(&object)) };
        let root = self.newest();
        self.followed(&root, native, rows, columns, false)
    }

    /// The rows of a table that have these numbers, in their order. Fails with code 40001 if one is gone.
    pub fn rows_of(&self, table: &ObjectRef, numbers: &[i64]) -> Result<RecordBatch> {
        let object = self.object(table)?;
        let Relation::Native(native) = &object.relation else { return Err(not_in_memory(&object)) };
        native.rows_of(numbers)
    }

    /// As [`NativeTable::rows_with_key`], of the table as it is now. Fails as that does, and with kind `Input` if it is
    /// gone.
    pub fn rows_with_key(&self, table: &ObjectRef, key: &str, rows: &RecordBatch) -> Result<RecordBatch> {
        let object = self.object(table)?;
        let Relation::Native(native) = &object.relation else { return Err(not_in_memory(&object)) };
        native.rows_with_key(key, rows)
    }

    /// Where rows go that come in great number; `None` if they stay in memory.
    pub fn row_store(&self) -> Option<&Arc<dyn RowStore>> {
        match &self.inside {
            Some(inside) => inside.base.row_store(),
            None => self.row_store.get(),
        }
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

    /// The newest version of an object.
    pub(crate) fn object(&self, wanted: &ObjectRef) -> Result<Arc<Object>> {
        let object = self.head.lock().root.get(&wanted.name).cloned();
        object.filter(|object| object.id == wanted.id).ok_or_else(|| gone(wanted))
    }
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
