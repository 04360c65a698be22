//! A database: an engine, and the relations that its sessions share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use diligence_base::ids::QueryId;
use diligence_base::limits::WORKERS_MAX;
use diligence_base::seams::{Disk, LocalDisk};
use diligence_base::{Error, Result};
use diligence_catalog::{
    Catalog, ComputedTable, DEFAULT_SCHEMA, Object, Relation, RelationName, Rights, SessionCatalogs,
};
use diligence_disk::TempOptions;
use diligence_engine::plan::bytes::PlanPass;
use diligence_engine::{Engine, EngineOptions};
use diligence_native::{
    Backup, CheckpointInfo, Checkpoints, FolderReader, LogInfo, LostIndex, Repaired, SegmentSizes, StoreOptions,
};
use diligence_pool::{Pool, PoolOptions};
use diligence_remote::Servers;
use diligence_sql::{Closures, FollowedRows, Planner, PlannerOptions};
use diligence_storage::Table;
use diligence_storage::segment::FormatChoice;
use parking_lot::RwLock;

use crate::activity::{Activities, Activity};
use crate::channels::Channels;
use crate::data_folder::{DataChanges, DataFolder};
use crate::kept::KeptFolder;
use crate::plans::PlanCache;
use crate::postgres;
use crate::settings::{Defaults, Settings, SettingsView, budget, is_everybodys};
use crate::status::Status;
use crate::system::WaitingQuery;

/// How a database is opened. The default is an empty one on all cores.
#[derive(Clone, Debug, Default)]
pub struct DatabaseOptions {
    /// The folder in which the database keeps its tables and views; made if it is not there. If `None`, they are in
    /// memory only, and end with the database.
    pub folder: Option<PathBuf>,
    /// Whether the folder is read as it was at its last checkpoint, and nothing but temporary tables changes: another
    /// process may have it open.
    pub read_only: bool,
    /// How many rows the segments of that folder have.
    pub segments: SegmentSizes,
    /// Folders, in which every file that can be a table, and every folder of such files, is one, named by its stem; and
    /// files, each of which is one.
    pub data: Vec<PathBuf>,
    /// Worker threads; one per core if `None`.
    pub workers: Option<usize>,
    /// How far workers stand back behind other threads, from 0, which is not at all, to 19, as nice(2) counts it: for a
    /// server, whose clients wait for the threads of its network as well.
    pub worker_nice: u8,
    /// Whether each worker stays on one core (Linux).
    pub pin_workers: bool,
    /// The memory budget in bytes, 16 MiB at least; a share of the machine's if `None`.
    pub memory_bytes: Option<usize>,
    /// Where rows go that do not fit in memory, and how; if `None`, in the system's folder for such files, in clusters
    /// that go well with the budget.
    pub temp: Option<TempOptions>,
    /// Runs everything on the calling thread, in an order given by this seed.
    pub inline_seed: Option<u64>,
    /// Settings that every session begins with, by name.
    pub settings: Vec<(String, String)>,
    /// What becomes of each plan before it runs. For tests.
    pub plan_pass: Option<Arc<dyn PlanPass>>,
}

/// A database. Clones are the same database; it lives as long as one of them, or a session.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    engine: Arc<Engine>,
    catalog: Arc<Catalog>,
    files: Arc<dyn Disk>,
    defaults: Defaults,
    segment_format: Arc<FormatChoice>,
    /// What sessions' planners begin as.
    planner: Planner,
    plans: Arc<PlanCache>,
    status: Status,
    postgres: Arc<BTreeMap<String, Arc<dyn ComputedTable>>>,
    /// System tables of whoever serves the database.
    more_system_tables: RwLock<BTreeMap<String, Arc<dyn ComputedTable>>>,
    /// Tells which queries wait at a server's door.
    waiting: RwLock<Option<Waiting>>,
    activities: Arc<Activities>,
    channels: Channels,
    /// Procedures that run and that others have called, in all sessions.
    procedures_called: AtomicUsize,
    kept: Option<KeptFolder>,
    /// A folder that is only read.
    read: Option<FolderReader>,
    /// The folder of data.
    data: Option<DataFolder>,
}

type Waiting = Arc<dyn Fn() -> Vec<WaitingQuery> + Send + Sync>;

/// A table or view, as [`Database::tables`] lists it.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// Its name; with the schema, if that is not the default one.
    pub name: String,
    /// What it is: `table`, `view`, `external table`.
    pub kind: &'static str,
    /// Its columns, or why they are not known: files may be missing or corrupt.
    pub schema: Result<SchemaRef>,
}

impl Database {
    /// Opens a database: starts its engine, and lists the folder's files without opening them. Fails with kind `Input`
    /// if an option or a setting makes no sense, or if there is no such folder or file of data, or two of them have
    /// tables of one name; with kind `File` if the folder or temp space cannot be used, or the database is open in
    /// another process; with kind `Resource` if the system has no threads left, or the tables that the database keeps
    /// do not fit into memory.
    pub fn open(options: DatabaseOptions) -> Result<Self> {
        if let Some(workers) = options.workers.filter(|workers| *workers > WORKERS_MAX) {
            return Err(Error::input(format!(
                "{workers} worker threads are too many; at most {WORKERS_MAX} are allowed"
            ))
            .with_hint("by default there is one per core, and more are rarely faster"));
        }
        let memory_bytes = options.memory_bytes.map(budget).transpose()?;
        let base = match options.inline_seed {
            Some(seed) => EngineOptions::inline(seed),
            None => EngineOptions::default(),
        };
        let memory_bytes = memory_bytes.unwrap_or(base.memory_bytes);
        let (clock, spawn) = (base.clock.clone(), base.spawn.clone());
        let engine = Engine::start(EngineOptions {
            workers: options.workers.unwrap_or(base.workers),
            worker_nice: options.worker_nice,
            pin_workers: options.pin_workers,
            memory_bytes,
            temp: options.temp.unwrap_or_else(|| TempOptions::within(memory_bytes)),
            plan_pass: options.plan_pass,
            ..base
        })?;
        let catalog: Arc<Catalog> = Arc::default();
        let files: Arc<dyn Disk> = Arc::new(LocalDisk);
        let activities = Arc::<Activities>::default();
        let postgres = Arc::new(postgres::tables(catalog.locks(), &activities));
        let rights = Arc::new(Rights::all());
        let catalogs = SessionCatalogs::new(catalog.clone(), Arc::default(), postgres.clone(), rights);
        let tables = engine.table_memory().clone();
        let pool = Pool::new(PoolOptions::default(), clock, spawn);
        let status = Status::new(engine.clone(), pool.clone());
        let planning = PlannerOptions {
            paths_are_tables: false,
            files: files.clone(),
            tables,
            may_program: false,
            pool,
            closures: Arc::default(),
            servers: Arc::default(),
        };
        let planner = Planner::new(catalogs.clone(), planning.clone());
        catalog.follow_by(Arc::new(FollowedRows::new(&planner)));
        let segment_format = Arc::<FormatChoice>::default();
        let (mut kept, mut read) = (None, None);
        if let Some(folder) = &options.folder {
            let naming = || PlannerOptions { paths_are_tables: true, ..planning.clone() };
            let planner = planner.for_session(catalogs.clone(), naming());
            let (template, shown) = (planner.for_session(catalogs, naming()), postgres.clone());
            let of_past = move |past: &Arc<Catalog>| {
                let rights = Arc::new(Rights::all());
                let catalogs = SessionCatalogs::new(past.clone(), Arc::default(), shown.clone(), rights);
                template.for_session(catalogs, template.options().clone())
            };
            let (sizes, format) = (options.segments, segment_format.clone());
            let buffer = Some(engine.buffer().clone());
            let store = StoreOptions { sizes, format, buffer, ..StoreOptions::new(folder, files.clone()) };
            match options.read_only {
                true => read = Some(KeptFolder::read(&store, &catalog, &planner, engine.table_memory())?),
                false => kept = Some(KeptFolder::open(store, &catalog, &planner, engine.table_memory(), of_past)?),
            }
        }
        let mut inner = Inner {
            defaults: Defaults::new(&engine),
            segment_format,
            engine,
            plans: PlanCache::new(&catalog),
            status,
            catalog,
            files,
            planner,
            kept,
            read,
            data: None,
            postgres,
            more_system_tables: RwLock::default(),
            waiting: RwLock::default(),
            activities,
            channels: Channels::default(),
            procedures_called: AtomicUsize::new(0),
        };
        if !options.data.is_empty() {
            let data = DataFolder::new(&options.data, &inner.files)?;
            data.look(&inner.catalog, &inner.files)?;
            inner.data = Some(data);
        }
        for (name, value) in inner.catalog.snapshot().authority().settings() {
            // One that nobody knows any more holds nobody up.
            if is_everybodys(name) {
                let _ = inner.settings(&Settings::at_the_opening(), &inner.planner).set(name, value);
            }
        }
        // A wrong name or value is an error now, not in every session. What is the engine's or the planner's is set
        // here, what is a session's in every session.
        for (name, value) in &options.settings {
            inner.settings(&Settings::at_the_opening(), &inner.planner).set(name, value)?;
        }
        inner.defaults.remember(&options.settings);
        Ok(Self(Arc::new(inner)))
    }

    /// An empty database on all cores. Fails with kind `File` if temp space cannot be used, and with kind `Resource` if
    /// the system has no threads left.
    pub fn in_memory() -> Result<Self> {
        Self::open(DatabaseOptions::default())
    }

    /// Makes a closure a function that all sessions can call, under what stands behind `CREATE FUNCTION`:
    /// `f(x bigint, s text) RETURNS bigint IMMUTABLE STRICT`. It is called with the columns of its arguments, in the
    /// types that Arrow has for the SQL types, and how many rows they have, and gives as many values; from many threads
    /// at once. It is found before a function of that name that a statement made, and is not kept with the tables.
    ///
    /// Fails with 42601 if the signature is none, 42723 if there is one with these parameters. A call fails as the
    /// closure does, with 38000 if it panics, 39000 if it gives fewer or more values, 42804 if they are of a type that
    /// cannot be cast.
    pub fn register_function(
        &self,
        signature: &str,
        function: impl Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Result<()> {
        self.closures().register(signature, Arc::new(function))
    }

    /// Adds a table to the schema `system`, in place of one of the same name. Sessions that begin later see it.
    pub fn add_system_table(&self, name: &str, table: Arc<dyn ComputedTable>) {
        self.0.more_system_tables.write().insert(name.to_owned(), table);
    }

    /// Says what users may do, by their names: for statements that ask for the privileges of another user
    /// (`has_table_privilege`). The rights of a session are those of its options.
    pub fn set_users(&self, users: BTreeMap<String, Arc<Rights>>) {
        self.0.catalog.set_users(users);
    }

    /// Has processes started for the functions in Python and WebAssembly that there are, so that the first call of one
    /// finds a process. Fails with kind `Resource` as the system refuses threads.
    pub fn prime_functions(&self) -> Result<()> {
        self.0.planner.prime_programs()
    }

    /// Has `system.queries` also show the queries that `waiting` returns: those that a server has not let in yet.
    /// Replaces the function that was given before.
    pub fn show_waiting(&self, waiting: impl Fn() -> Vec<WaitingQuery> + Send + Sync + 'static) {
        *self.0.waiting.write() = Some(Arc::new(waiting));
    }

    /// Has `pg_stat_activity` list the sessions that `sessions` returns: those of the server of the database.
    pub fn show_activity(&self, sessions: impl Fn() -> Vec<Activity> + Send + Sync + 'static) {
        self.0.activities.show(Arc::new(sessions));
    }

    /// Has `pg_cancel_backend` and `pg_terminate_backend` call `stopper`: with the number of a session of the server,
    /// and whether to end the session (`true`) or only its statement. It returns whether there was such a session.
    pub fn stop_sessions_by(&self, stopper: impl Fn(i32, bool) -> bool + Send + Sync + 'static) {
        self.0.activities.stop_by(Arc::new(stopper));
    }

    /// How many procedures run that others have called.
    pub(crate) fn procedures_called(&self) -> &AtomicUsize {
        &self.0.procedures_called
    }

    pub(crate) fn channels(&self) -> &Channels {
        &self.0.channels
    }

    pub(crate) fn activities(&self) -> &Activities {
        &self.0.activities
    }

    pub(crate) fn waiting(&self) -> Vec<WaitingQuery> {
        let waiting = self.0.waiting.read().clone();
        waiting.map(|waiting| waiting()).unwrap_or_default()
    }

    /// What the engine does: a handle whose methods tell of the moment when they are called.
    pub fn status(&self) -> &Status {
        &self.0.status
    }

    /// Cancels the query with this number in `system.queries`; false if there is none that waits or runs.
    pub fn cancel(&self, query: QueryId) -> bool {
        self.0.engine.cancel(query)
    }

    /// The plans of statements that sessions have planned, with their hits and misses.
    pub fn plan_cache(&self) -> &PlanCache {
        &self.0.plans
    }

    /// Looks at the folders of data again: files and folders that have come since become tables, and the tables of
    /// those that are gone go. Gives what has changed. Statements do not wait for it. Does nothing if there is no such
    /// folder. Fails with kind `Input` if one of them is gone, and with kind `File` if one cannot be listed; then
    /// everything is as it was.
    pub fn look_at_data(&self) -> Result<DataChanges> {
        self.0
            .data
            .as_ref()
            .map_or_else(|| Ok(DataChanges::default()), |data| data.look(&self.0.catalog, &self.0.files))
    }

    /// Whether it has a folder of data.
    pub fn has_data(&self) -> bool {
        self.0.data.is_some()
    }

    /// Whether it has a folder that it only reads.
    pub fn is_read_only(&self) -> bool {
        self.0.read.is_some()
    }

    /// Says where other processes that want to open the database's folder can speak to this one: the URL of a server
    /// of it. Does nothing for a database in memory. Fails with kind `File` if that cannot be written.
    pub fn has_door(&self, url: &str) -> Result<()> {
        self.0.kept.as_ref().map_or(Ok(()), |kept| kept.has_door(url))
    }

    /// Writes everything that the database keeps into an image, so that opening it takes no longer than reading that.
    /// It is done from time to time anyway. Does nothing for a database in memory. Fails with kind `File` if the image
    /// cannot be written; then nothing is lost.
    pub fn checkpoint(&self) -> Result<()> {
        self.0.kept.as_ref().map_or(Ok(()), |kept| kept.store().checkpoint())
    }

    /// As [`checkpoint`](Self::checkpoint), which writes some tables anew wherever any of their rows is gone. Fails as
    /// that does.
    pub(crate) fn vacuum(&self, whole: &[Arc<Object>]) -> Result<()> {
        let whole = whole.iter().map(|table| table.id).collect();
        self.0.kept.as_ref().map_or(Ok(()), |kept| kept.store().checkpoint_with(&whole))
    }

    /// The checkpoints since the database was opened; `None` for one in memory.
    pub fn checkpoints(&self) -> Option<Checkpoints> {
        self.0.kept.as_ref().map(|kept| kept.store().checkpoints())
    }

    /// The last checkpoints since the database was opened, oldest first, with those that failed.
    pub fn last_checkpoints(&self) -> Vec<CheckpointInfo> {
        self.0.kept.as_ref().map(|kept| kept.store().last_checkpoints()).unwrap_or_default()
    }

    /// The files of the log, oldest first; none for a database in memory, or one that is only read. Fails with kind
    /// `File` if the folder cannot be read.
    pub fn logs(&self) -> Result<Vec<LogInfo>> {
        self.0.kept.as_ref().map_or_else(|| Ok(vec![]), |kept| kept.store().logs())
    }

    /// Bytes of records in the present file of the log; `None` for a database in memory, or one that is only read.
    pub fn log_bytes(&self) -> Option<u64> {
        self.0.kept.as_ref().map(|kept| kept.store().log_bytes())
    }

    /// Writes down what only an end in order writes down, for a process that is about to end while somebody has the
    /// database: sequences leave no numbers out then. It may go on. Fails with kind `File` if it cannot be written.
    pub fn rest(&self) -> Result<()> {
        self.0.kept.as_ref().map_or(Ok(()), |kept| kept.rest())
    }

    /// Makes a folder that opens as the database is now, while statements go on; `earlier` is another backup, from
    /// which files are taken that are the same. Fails with code 58P02 if there is something at the path, 55000 for a
    /// database in memory, and with kind `File` if the folder cannot be written; then there is none.
    pub fn back_up(&self, to: &Path, earlier: Option<&Path>) -> Result<Backup> {
        match &self.0.kept {
            Some(kept) => kept.store().back_up(to, earlier),
            None if self.is_read_only() => {
                let error = Error::unsupported("a database that is open for reading only is not backed up");
                Err(error.with_code("25006").with_hint("have the process that has it open back it up"))
            }
            None => {
                let error = Error::unsupported("a database in memory cannot be backed up").with_code("55000");
                Err(error.with_hint("open one on disk with --db, or write tables to files with COPY … TO"))
            }
        }
    }

    /// Saves what can be saved of a database's folder into another one, which is made; the folder stays as it is.
    /// `memory_bytes` is the budget, as in [`DatabaseOptions`]. Blocks the calling thread. Fails with code 58P02 if
    /// there is something at the other path, 55006 if a process has the folder open, with kind `File` if nothing can be
    /// read or the other folder cannot be written, `Resource` if the rows do not fit into memory.
    pub fn repair(folder: &Path, to: &Path, memory_bytes: Option<usize>) -> Result<Repaired> {
        let database = Self::open(DatabaseOptions { memory_bytes, ..DatabaseOptions::default() })?;
        let inner = &database.0;
        let catalogs = inner.planner.catalogs().clone();
        let options = PlannerOptions { paths_are_tables: true, ..inner.planner.options().clone() };
        let planner = inner.planner.for_session(catalogs, options);
        let store = StoreOptions::new(folder, inner.files.clone());
        KeptFolder::repair(&store, to, &inner.catalog, &planner, inner.engine.table_memory())
    }

    /// The engine that runs the queries.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    /// The tables and views, in order of their names. Opens files that no statement has used yet.
    pub fn tables(&self) -> Vec<TableInfo> {
        let info = |object: &Arc<Object>| TableInfo {
            name: object.name.to_string(),
            kind: object.relation.kind(),
            schema: object.relation.schema(),
        };
        self.0.catalog.snapshot().objects().map(info).collect()
    }

    /// What in the data folder is no table, and why: folders whose files do not fit together.
    pub fn left_out(&self) -> Vec<(String, String)> {
        self.0.catalog.snapshot().left_out().map(|(name, why)| (name.to_owned(), why.to_owned())).collect()
    }

    /// Indexes that the database was opened without, each as a sentence: what computed them is gone. The next opening
    /// misses them no more.
    pub fn lost_indexes(&self) -> Vec<String> {
        let lost = self.0.kept.as_ref().map(|kept| kept.store().lost_indexes());
        let shown = |lost: &LostIndex| {
            let LostIndex { table, name, error } = lost;
            format!("the index '{name}' of {table} is lost, as nothing computes it: {}", error.message())
        };
        lost.into_iter().flatten().map(shown).collect()
    }

    /// Gives a table that the caller made a name, in place of the table that had it before. Fails with kind `Input` if
    /// a view has the name.
    pub fn register(&self, name: &str, table: Arc<dyn Table>) -> Result<()> {
        self.0.catalog.create(&RelationName::new(DEFAULT_SCHEMA, name), Relation::Table(table), true)
    }

    /// The catalog: schemas, tables, views, functions and roles, and the snapshots of them.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.0.catalog
    }

    pub(crate) fn planner(&self) -> &Planner {
        &self.0.planner
    }

    pub(crate) fn postgres(&self) -> &Arc<BTreeMap<String, Arc<dyn ComputedTable>>> {
        &self.0.postgres
    }

    pub(crate) fn more_system_tables(&self) -> BTreeMap<String, Arc<dyn ComputedTable>> {
        self.0.more_system_tables.read().clone()
    }

    /// The servers that are attached.
    pub(crate) fn servers(&self) -> &Arc<Servers> {
        &self.0.planner.options().servers
    }

    /// The closures that are functions.
    pub(crate) fn closures(&self) -> &Arc<Closures> {
        &self.0.planner.options().closures
    }

    /// The processes that compute functions in other languages.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.0.planner.options().pool
    }

    pub(crate) fn files(&self) -> &Arc<dyn Disk> {
        &self.0.files
    }

    /// Settings of a session, with those that belong to the engine.
    pub(crate) fn settings<'a>(&'a self, own: &'a Settings, planner: &'a Planner) -> SettingsView<'a> {
        self.0.settings(own, planner)
    }

    pub(crate) fn defaults(&self) -> &Defaults {
        &self.0.defaults
    }
}

impl Inner {
    fn settings<'a>(&'a self, own: &'a Settings, planner: &'a Planner) -> SettingsView<'a> {
        let segment_format = &*self.segment_format;
        let store = self.kept.as_ref().map(|kept| kept.store());
        let (engine, defaults) = (&self.engine, &self.defaults);
        SettingsView { settings: own, engine, planner, defaults, segment_format, store }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({:?})", self.engine())
    }
}
