//! What one session sees of the catalog: its system tables beside the relations, under its rights.

mod acting;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::ids::{ObjectId, TableId};
use diligence_base::{Error, Result};
use parking_lot::{Mutex, RwLock};

use self::acting::{Acting, rights_of};
use crate::authority::OWNER;
use crate::authority::{Privilege, Speaker, Subject};
use crate::locks::{LockOwner, Locks};
use crate::moment::micros_now;
use crate::name::{shown_schema_oid, temporary_schema};
use crate::object::with_article;
use crate::rights::DENIED;
use crate::rules::Deferral;
use crate::sequence::SequenceState;
use crate::transaction::{Transaction, TransactionMark};
use crate::{
    Catalog, CatalogSnapshot, DEFAULT_SCHEMA, Object, ObjectRef, POSTGRES_SCHEMA, Relation, RelationName, Rights,
    SYSTEM_SCHEMA,
};

/// A table whose rows are computed when a statement asks for them.
pub trait ComputedTable: Send + Sync + fmt::Debug {
    /// Its columns.
    fn schema(&self) -> SchemaRef;
    /// Its rows now, for a statement that sees this snapshot. Called once per statement that names the table. Fails
    /// with kind `Bug` if the rows do not fit the columns.
    fn rows(&self, snapshot: &SessionSnapshot) -> Result<RecordBatch>;
}

/// Computed tables by name.
type ComputedTables = Arc<BTreeMap<String, Arc<dyn ComputedTable>>>;

/// A database's catalog with the system tables of one session.
#[derive(Clone)]
pub struct SessionCatalogs {
    /// What all sessions share.
    base: Arc<Catalog>,
    /// The transaction that the session is in; that of clones, too.
    inside: Arc<RwLock<Option<SessionTransaction>>>,
    /// The numbers that sequences have given to the session.
    given: Arc<Mutex<GivenNumbers>>,
    /// Who has the session's locks.
    owner: Arc<SessionOwner>,
    /// Temporary tables that lose their rows at each COMMIT or, if that is true, go with it.
    on_commit: Arc<Mutex<Vec<(RelationName, bool)>>>,
    /// What the session may do with it, before anything is granted to the role that it acts as.
    own_rights: Arc<Rights>,
    /// Whom it acts as.
    acting: Arc<RwLock<Acting>>,
    /// Whether its transaction only reads.
    only_reads: Arc<AtomicBool>,
    shown: Arc<Shown>,
}

/// Who has a session's locks; they are free when it ends.
struct SessionOwner(Arc<Catalog>, LockOwner);

impl Drop for SessionOwner {
    fn drop(&mut self) {
        self.0.locks().release(self.1);
        // Nothing keeps it, so nothing can fail.
        let _ = self.0.drop_schema(&temporary_schema(self.1), true);
    }
}

/// The numbers that sequences have given to a session.
#[derive(Default)]
struct GivenNumbers {
    by_sequence: HashMap<ObjectId, i64>,
    /// The sequence that gave the last one.
    last: Option<ObjectId>,
}

/// A transaction that a session is in.
#[derive(Clone)]
struct SessionTransaction {
    transaction: Arc<Transaction>,
    isolation: Isolation,
    /// When, in microseconds since 1970.
    begun: i64,
    /// Whether a statement has run that depends on what is there. Until then it sees what others commit, whatever the
    /// isolation.
    has_seen: Arc<AtomicBool>,
}

impl SessionTransaction {
    /// Whether its next statement sees what others have committed since the one before it.
    fn sees_others(&self) -> bool {
        self.isolation == Isolation::ReadCommitted || !self.has_seen.load(Ordering::Acquire)
    }
}

/// What a transaction sees of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed when it began.
    #[default]
    ReadCommitted,
    /// All statements see what was committed when the first one began.
    RepeatableRead,
    /// The same, and nobody else changes what it reads before it commits its own changes.
    Serializable,
}

/// What the engine shows of itself.
struct Shown {
    /// `system.*` for this session.
    system: ComputedTables,
    /// The oids of those.
    oids: BTreeMap<String, u32>,
    /// `pg_catalog.*`: the catalog as PostgreSQL's clients look at it. Found without the schema's name, too.
    postgres: ComputedTables,
}

impl SessionCatalogs {
    /// The catalog, with the tables of `system` and of `pg_catalog`, for a session with these rights.
    pub fn new(catalog: Arc<Catalog>, system: ComputedTables, postgres: ComputedTables, rights: Arc<Rights>) -> Self {
        let oid = |name: &String| (name.clone(), catalog.shown_oid(RelationName::new(SYSTEM_SCHEMA, name)));
        let oids = system.keys().map(oid).collect();
        let shown = Arc::new(Shown { system, oids, postgres });
        let owner = Arc::new(SessionOwner(catalog.clone(), catalog.locks().new_owner()));
        Self {
            base: catalog,
            inside: Arc::default(),
            given: Arc::default(),
            owner,
            on_commit: Arc::default(),
            own_rights: rights,
            acting: Arc::default(),
            only_reads: Arc::default(),
            shown,
        }
    }

    /// Who has the locks of the session and of its transactions.
    pub fn owner(&self) -> LockOwner {
        self.owner.1
    }

    /// The schema of the session's temporary objects, which ends with it. Made when it is asked for, in the transaction
    /// if there is one. Fails as [`Catalog::create_schema`] does.
    pub fn make_temporary_schema(&self) -> Result<String> {
        let name = temporary_schema(self.owner());
        self.catalog().create_schema(&name)?;
        Ok(name)
    }

    /// The name of that schema, whether it is there or not.
    pub fn temporary_schema(&self) -> String {
        temporary_schema(self.owner())
    }

    /// Drops the session's temporary objects. Fails as [`Catalog::drop_schema`] does.
    pub fn drop_temporary(&self) -> Result<()> {
        self.catalog().drop_schema(&self.temporary_schema(), true).map(|_| ())
    }

    /// The locks of the database.
    pub fn locks(&self) -> &Arc<Locks> {
        self.base.locks()
    }

    /// Sees what others have committed, in a transaction whose statements do. Fails with code 40001 if its own changes
    /// do not go together with that.
    pub fn refresh(&self) -> Result<()> {
        match &*self.inside.read() {
            Some(inside) if inside.sees_others() => inside.transaction.refresh(),
            _ => Ok(()),
        }
    }

    /// A statement runs that depends on what is there: in a transaction whose statements see one moment, that is the
    /// moment.
    pub fn note_seen(&self) {
        if let Some(inside) = &*self.inside.read() {
            inside.has_seen.store(true, Ordering::Release);
        }
    }

    /// The time of the transaction's begin or, outside of one, of now; in microseconds since 1970.
    pub fn now(&self) -> i64 {
        self.inside.read().as_ref().map_or_else(micros_now, |inside| inside.begun)
    }

    /// What a transaction sees of others; `None` outside of one.
    pub fn isolation(&self) -> Option<Isolation> {
        self.inside.read().as_ref().map(|inside| inside.isolation)
    }

    /// The catalog that all sessions share.
    pub(crate) fn shared(&self) -> &Arc<Catalog> {
        &self.base
    }

    /// The catalog that statements change: that of the transaction, in one.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inside.read().as_ref().map_or_else(|| self.base.clone(), |inside| inside.transaction.catalog().clone())
    }

    /// Begins a transaction. Fails with code 25001 if there is one.
    pub fn begin(&self, isolation: Isolation) -> Result<()> {
        self.empty_behind_statements();
        let mut inside = self.inside.write();
        if inside.is_some() {
            return Err(Error::input("there is a transaction already").with_code("25001"));
        }
        let transaction = Arc::new(Transaction::begin_as(self.base.clone(), self.owner()));
        transaction.see_start(isolation != Isolation::ReadCommitted);
        let (begun, has_seen) = (micros_now(), Arc::default());
        *inside = Some(SessionTransaction { transaction, isolation, begun, has_seen });
        Ok(())
    }

    /// Ends the transaction, and makes its changes everybody's; without one it does nothing. Fails with code 40001 if
    /// they do not go together with what others have committed meanwhile, and as a log fails. Then nothing of them is
    /// kept.
    pub fn commit(&self) -> Result<()> {
        let Some(inside) = self.inside.write().take() else { return Ok(()) };
        let own = inside.transaction.catalog();
        self.on_commit.lock().retain(|(name, drops)| {
            // Temporary tables are in memory, and nothing refers to them: nothing can fail.
            let found = own.snapshot().get(name).map(|object| object.reference());
            match found {
                Some(_) if *drops => drop(own.as_ref().drop(name, |_| Ok(()))),
                Some(table) => drop(own.truncate(&[table], false, false)),
                None => return false,
            }
            !drops
        });
        inside.transaction.commit(inside.isolation == Isolation::Serializable)
    }

    /// What becomes of a temporary table at each COMMIT: it goes if that is true, and loses its rows otherwise.
    pub fn at_commit(&self, table: RelationName, drops: bool) {
        self.on_commit.lock().push((table, drops));
    }

    /// The same table does not.
    pub fn keep_at_commit(&self, table: &RelationName) {
        self.on_commit.lock().retain(|(name, _)| name != table);
    }

    /// Outside of a transaction, each statement was one: what it has left in tables that lose their rows at COMMIT goes
    /// before anybody looks.
    fn empty_behind_statements(&self) {
        let on_commit = self.on_commit.lock();
        if on_commit.is_empty() || self.inside.read().is_some() {
            return;
        }
        let snapshot = self.base.snapshot();
        for (name, _) in on_commit.iter().filter(|(_, drops)| !drops) {
            let Some(object) = snapshot.get(name) else { continue };
            if matches!(&object.relation, Relation::Native(table) if table.rows() > 0) {
                // As at COMMIT, nothing can fail.
                drop(self.base.truncate(&[object.reference()], false, false));
            }
        }
    }

    /// Whether a change waits for no disk: in a transaction, or where nothing is kept. With `ends`, whether the end of
    /// the transaction does not.
    pub fn commits_at_once(&self, ends: bool) -> bool {
        if self.base.journal().is_none() {
            return true;
        }
        match &*self.inside.read() {
            Some(inside) => !ends || !inside.transaction.waits_at_end(),
            None => ends,
        }
    }

    /// Whether [`wait_for_deferred`](Self::wait_for_deferred) may have to wait.
    pub fn defers_keys(&self) -> bool {
        self.inside.read().as_ref().is_some_and(|inside| inside.transaction.defers_keys())
    }

    /// As [`Transaction::wait_for_deferred`]; without a transaction nothing is deferred. Fails as that does.
    pub fn wait_for_deferred(&self) -> Result<()> {
        self.inside.read().as_ref().map_or(Ok(()), |inside| inside.transaction.wait_for_deferred())
    }

    /// Ends the transaction without its changes.
    pub fn roll_back(&self) {
        let inside = self.inside.write().take();
        if let Some(inside) = inside {
            inside.transaction.unlock();
        }
    }

    /// Gives the transaction's locks back before its end: it has failed, and can only be rolled back.
    pub fn unlock_failed(&self) {
        if let Some(inside) = &*self.inside.read() {
            inside.transaction.unlock();
        }
    }

    /// A statement runs that reads tables: in a transaction that sees one moment, this is it at the latest, and if the
    /// transaction is to be as if it had run alone, they have to be the same when it ends.
    pub fn note_read(&self, tables: impl Iterator<Item = TableId>) {
        let Some(inside) = &*self.inside.read() else { return };
        inside.has_seen.store(true, Ordering::Release);
        if inside.isolation != Isolation::ReadCommitted {
            inside.transaction.note_read(tables);
        }
    }

    /// Changes what the transaction sees of others, from its next statement on.
    pub fn set_isolation(&self, isolation: Isolation) {
        if let Some(inside) = &mut *self.inside.write() {
            inside.isolation = isolation;
            inside.transaction.see_start(isolation != Isolation::ReadCommitted);
        }
    }

    /// The changes of the transaction up to now; `None` outside of one.
    pub fn mark(&self) -> Option<TransactionMark> {
        self.inside.read().as_ref().map(|inside| inside.transaction.mark())
    }

    /// The same, with the locks: going back to it frees those that were taken since.
    pub fn savepoint(&self) -> Option<TransactionMark> {
        self.inside.read().as_ref().map(|inside| inside.transaction.savepoint())
    }

    /// SET CONSTRAINTS: whether deferrable constraints of these names, or all if there are none, are looked at when the
    /// transaction ends, or after each statement. Changes nothing outside of one. Fails with code 42704 if there is no
    /// constraint of a name, 42809 if it is not deferrable, 23503 or 23505 if the rows break one now.
    pub fn set_deferred(&self, names: &[String], is_deferred: bool) -> Result<()> {
        let snapshot = self.catalog().snapshot();
        for name in names {
            let mut rules = snapshot.all_objects().filter_map(|object| match &object.relation {
                Relation::Native(table) if table.rules().has_constraint(name) => Some(table.rules()),
                _ => None,
            });
            match rules.next() {
                None => {
                    let message = format!("constraint \"{name}\" does not exist");
                    return Err(Error::input(message).with_code("42704"));
                }
                Some(first) if ![first].into_iter().chain(rules).any(|rules| rules.has_deferrable(name)) => {
                    let message = format!("constraint \"{name}\" is not deferrable");
                    return Err(Error::input(message).with_code("42809"));
                }
                Some(_) => {}
            }
        }
        match &*self.inside.read() {
            Some(inside) => inside.transaction.set_deferred(names, is_deferred),
            None => Ok(()),
        }
    }

    /// Whether a constraint of this name is not looked at yet, in the transaction.
    pub fn is_deferred(&self, name: &str, deferral: Deferral) -> bool {
        if deferral == Deferral::Never {
            return false;
        }
        match &*self.inside.read() {
            Some(inside) => inside.transaction.is_deferred(name, deferral),
            None => deferral == Deferral::Deferred,
        }
    }

    /// Takes back the changes of the transaction since a mark of it, and its locks, if that is a savepoint.
    pub fn back_to(&self, mark: &TransactionMark) {
        if let Some(inside) = &*self.inside.read() {
            inside.transaction.back_to(mark);
        }
    }

    /// Says whether statements only read from now on, so that no sequence counts but temporary ones.
    pub fn set_only_reads(&self, only_reads: bool) {
        self.only_reads.store(only_reads, Ordering::Relaxed);
    }

    /// Fails with code 25006 if a sequence is not to count now.
    fn check_counting(&self, function: &str, name: &RelationName) -> Result<()> {
        if name.is_temporary() || !self.only_reads.load(Ordering::Relaxed) {
            return Ok(());
        }
        let error = Error::input(format!("cannot execute {function}() in a read-only transaction")).with_code("25006");
        Err(error.with_hint("begin one that may write: BEGIN READ WRITE"))
    }

    /// The next number of a sequence. May wait for a disk. Fails with code 42P01 if there is none of the name, 42809 if
    /// that is something else, 42501 if the session may not, 25006 if its statements only read, 2200H behind the last
    /// number, and as a log fails.
    pub fn next_value(&self, name: &RelationName) -> Result<i64> {
        self.check_counting("nextval", name)?;
        let (catalog, sequence) = self.sequence(name, &[Privilege::Usage, Privilege::Update])?;
        let number = catalog.next_value(&sequence)?;
        let mut given = self.given.lock();
        given.by_sequence.insert(sequence.id, number);
        given.last = Some(sequence.id);
        Ok(number)
    }

    /// The number that a sequence gave to the session last. Fails with code 55000 if it gave none.
    pub fn current_value(&self, name: &RelationName) -> Result<i64> {
        let (_, sequence) = self.sequence(name, &[Privilege::Usage, Privilege::Select])?;
        self.given.lock().by_sequence.get(&sequence.id).copied().ok_or_else(|| {
            let message = format!("currval of sequence \"{}\" is not yet defined in this session", name.name);
            Error::input(message).with_code("55000").with_hint("nextval gives a number")
        })
    }

    /// The number of the sequence that gave one to the session last: that number, or what was set since. Fails with
    /// code 55000 if none did.
    pub fn last_value(&self) -> Result<i64> {
        let none = || Error::input("lastval is not yet defined in this session").with_code("55000");
        let given = self.given.lock();
        given.last.and_then(|sequence| given.by_sequence.get(&sequence).copied()).ok_or_else(none)
    }

    /// Forgets the numbers that sequences have given to the session.
    pub fn forget_numbers(&self) {
        *self.given.lock() = GivenNumbers::default();
    }

    /// Has a sequence go on from a state. Fails as [`next_value`](Self::next_value) does, with code 22003 for a number
    /// outside of its own.
    pub fn set_value(&self, name: &RelationName, state: SequenceState) -> Result<()> {
        self.check_counting("setval", name)?;
        let (catalog, sequence) = self.sequence(name, &[Privilege::Update])?;
        catalog.set_value(&sequence, state)?;
        if state.is_called {
            self.given.lock().by_sequence.insert(sequence.id, state.last);
        }
        Ok(())
    }

    /// A sequence, and the catalog that keeps its numbers: that of all, if it is there, as numbers are not taken back.
    /// Any of the privileges will do.
    fn sequence(&self, name: &RelationName, any: &[Privilege]) -> Result<(Arc<Catalog>, ObjectRef)> {
        let inside = self.catalog();
        let found = inside.snapshot().get(name).map(|object| object.reference());
        let found =
            found.ok_or_else(|| Error::input(format!("relation \"{name}\" does not exist")).with_code("42P01"))?;
        let rights = self.rights();
        let may = any.iter().any(|privilege| rights.may(name, *privilege));
        if !may && !self.counts_for_granted(&inside.snapshot(), name, &rights) {
            rights.check(name, any.first().copied().unwrap_or(Privilege::Usage))?;
        }
        // One that the transaction has made count otherwise counts for it alone until then.
        let is_changed = inside.has_changed(&found);
        let is_shared = !is_changed && self.base.snapshot().get(name).is_some_and(|object| object.id == found.id);
        Ok((if is_shared { self.base.clone() } else { inside }, found))
    }

    /// Whether a sequence is that of an identity column of a table that may get rows.
    fn counts_for_granted(&self, names: &CatalogSnapshot, name: &RelationName, rights: &Rights) -> bool {
        let Some(Relation::Sequence(sequence)) = names.get(name).map(|object| &object.relation) else { return false };
        let Some((table, column)) = &sequence.options.owner else { return false };
        let Some(table) = names.objects().find(|object| object.id == *table) else { return false };
        match &table.relation {
            Relation::Native(rows) => {
                rows.rules().identities.contains_key(column) && rights.may(&table.name, Privilege::Insert)
            }
            _ => false,
        }
    }

    /// What statements see: of others what they have committed, as far as the isolation says.
    fn seen(&self) -> CatalogSnapshot {
        let Some(inside) = self.inside.read().clone() else { return self.base.snapshot() };
        if inside.sees_others() {
            // What does not go together is an error of COMMIT; until then the transaction sees what it saw.
            let _ = inside.transaction.refresh();
        }
        inside.transaction.catalog().snapshot()
    }

    /// What the session sees now.
    pub fn snapshot(&self) -> SessionSnapshot {
        self.empty_behind_statements();
        let catalog = self.seen();
        SessionSnapshot {
            rights: self.rights_in(&catalog),
            catalog,
            users: self.base.users(),
            shown: self.shown.clone(),
            temporary: self.temporary_schema(),
        }
    }
}

impl fmt::Debug for SessionCatalogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionCatalogs({:?})", self.base)
    }
}

/// What one session sees at one moment. A statement resolves all its names against one.
#[derive(Clone)]
pub struct SessionSnapshot {
    /// The relations.
    pub catalog: CatalogSnapshot,
    /// What the session may do with them.
    pub rights: Arc<Rights>,
    pub(crate) users: Arc<BTreeMap<String, Arc<Rights>>>,
    shown: Arc<Shown>,
    /// The schema of its temporary objects.
    temporary: String,
}

/// What a session finds under a name.
#[derive(Clone, Debug)]
pub enum Resolved {
    /// An object of the catalog.
    Object(Arc<Object>),
    /// Rows that are computed when a statement asks for them.
    Computed(Arc<dyn ComputedTable>),
}

impl Resolved {
    /// What it is, with its article.
    pub fn a_kind(&self) -> String {
        match self {
            Resolved::Object(object) => object.relation.a_kind(),
            Resolved::Computed(_) => with_article("system table"),
        }
    }

    /// Its columns. Opens files if they have not been opened yet; fails as opening them does.
    pub fn schema(&self) -> Result<SchemaRef> {
        match self {
            Resolved::Object(object) => object.relation.schema(),
            Resolved::Computed(computed) => Ok(computed.schema()),
        }
    }

    /// Whether it is a view: of a user, or rows that are computed.
    pub fn is_view(&self) -> bool {
        match self {
            Resolved::Object(object) => matches!(object.relation, Relation::View(_)),
            Resolved::Computed(_) => true,
        }
    }
}

impl SessionSnapshot {
    /// What a statement means by a name: what [`CatalogSnapshot::resolve`] finds, or a system table. Names in the
    /// default schema are looked for in `pg_catalog` after that.
    pub fn get(&self, name: &RelationName) -> Option<Resolved> {
        let computed = |tables: &ComputedTables| tables.get(&name.name).cloned().map(Resolved::Computed);
        match name.schema.as_str() {
            SYSTEM_SCHEMA => computed(&self.shown.system),
            POSTGRES_SCHEMA => computed(&self.shown.postgres),
            schema => match self.catalog.resolve(name).filter(|object| object.relation.is_listed()) {
                Some(object) => Some(Resolved::Object(object.clone())),
                None if schema == DEFAULT_SCHEMA => computed(&self.shown.postgres),
                None => None,
            },
        }
    }

    /// As [`get`](Self::get), for whoever reads the relation. Fails with kind `Input` and code `42501` if the session
    /// may not.
    pub fn readable(&self, name: &RelationName) -> Result<Option<Resolved>> {
        if name.is_temporary() && name.schema != self.temporary {
            return Ok(None);
        }
        let found = self.get(name);
        // What describes the catalog is found under the default schema, too.
        let describes = matches!(found, Some(Resolved::Computed(_))) && name.schema != SYSTEM_SCHEMA;
        if found.is_some() && !describes {
            self.rights.check_use_schema(&name.schema)?;
            self.rights.check_read(name)?;
        }
        Ok(found)
    }

    /// As [`readable_by`](Self::readable_by), where some of the columns may be read; `None` if none may.
    pub fn readable_in_part(&self, owner: Option<&str>, name: &RelationName) -> Option<Resolved> {
        let rights = self.rights_behind(owner);
        let found = self.get(name).filter(|_| self.sees(name))?;
        let is_readable = rights.may_use_schema(&name.schema) && rights.may_any_column(name, Privilege::Select);
        is_readable.then_some(found)
    }

    /// The rights of an owner, or those of the session.
    pub fn rights_behind(&self, owner: Option<&str>) -> Arc<Rights> {
        match owner {
            None => self.rights.clone(),
            Some(owner) => {
                let rights = rights_of(&self.catalog, &self.users, owner, None);
                rights.unwrap_or_else(|| Arc::new(Rights::only(vec![], vec![])))
            }
        }
    }

    /// As [`readable`](Self::readable), for what stands behind a view that was granted: under the rights of its owner.
    /// Fails with code 42501 if the owner may not read it.
    pub fn readable_by(&self, owner: Option<&str>, name: &RelationName) -> Result<Option<Resolved>> {
        match owner {
            None => self.readable(name),
            Some(owner) => Self { rights: self.rights_behind(Some(owner)), ..self.clone() }.readable(name),
        }
    }

    /// Under whose rights what stands behind a view is looked up: `None` for those of the session, where the server's
    /// file of users lets it read the view, or it may do everything.
    pub fn owner_behind(&self, view: &Object) -> Option<String> {
        match self.rights.fit(&view.name, Privilege::Select) {
            true => None,
            false => Some(self.catalog.authority().owner_of(Subject::Object(view.id)).to_owned()),
        }
    }

    /// What somebody may do; `None` if nobody is named so.
    pub fn rights_of(&self, role: &str) -> Option<Arc<Rights>> {
        rights_of(&self.catalog, &self.users, role, None)
    }

    /// The users of the server's file, with what it lets them do.
    pub fn users(&self) -> &BTreeMap<String, Arc<Rights>> {
        &self.users
    }

    /// The name of every relation that the session may read, system tables included.
    pub fn names(&self) -> Vec<RelationName> {
        let mut names = self.catalog.objects().map(|object| object.name.clone()).collect::<Vec<_>>();
        names.extend(self.shown.system.keys().map(|name| RelationName::new(SYSTEM_SCHEMA, name)));
        names.retain(|name| self.rights.may_read(name) && self.sees(name));
        names
    }

    /// Whether it is not another session's temporary object.
    pub fn sees(&self, name: &RelationName) -> bool {
        !name.is_temporary() || name.schema == self.temporary
    }

    /// The names of one schema that the session may read, in order.
    pub fn names_in(&self, schema: &str) -> Vec<String> {
        let mut names = match schema == SYSTEM_SCHEMA {
            true => self.shown.system.keys().cloned().collect(),
            false => self.catalog.names_in(schema),
        };
        names.retain(|name| self.rights.may_read(&RelationName::new(schema, name)));
        names
    }

    /// The tables of `system` with their oids, in order.
    pub fn system_tables(&self) -> impl Iterator<Item = (&str, u32, &Arc<dyn ComputedTable>)> {
        let oid = |name: &String| self.shown.oids.get(name).copied().unwrap_or_default();
        self.shown.system.iter().map(move |(name, table)| (name.as_str(), oid(name), table))
    }

    /// Whether the catalog is shown as PostgreSQL's clients look at it.
    pub fn has_postgres_tables(&self) -> bool {
        !self.shown.postgres.is_empty()
    }

    /// The number by which PostgreSQL's clients know a schema; `None` if there is no such schema.
    pub fn schema_oid(&self, schema: &str) -> Option<u32> {
        shown_schema_oid(schema).or_else(|| self.catalog.schema_oid(schema))
    }
}

impl fmt::Debug for SessionSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionSnapshot({} relations)", self.names().len())
    }
}
