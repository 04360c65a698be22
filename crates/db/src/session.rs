//! A session: one client's conversation with a database. Its settings (`own_settings`), rights and planner, what it has
//! for its client (`client`), procedures within each other (`nesting`), and what others ask of it (`asked`). What
//! happens to its statements is told in [`statement`](crate::statement).

mod asked;
mod client;
pub(crate) mod client_settings;
mod nesting;
mod own_settings;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use diligence_base::function_limits::FunctionLimits;
use diligence_base::{Error, Result};
use diligence_catalog::authority::RoleDefinition;
use diligence_catalog::{PlanningIdentity, Rights, SessionCatalogs, SessionSnapshot};
use diligence_engine::query::{KeptRows, Printed, QueryStream};
use diligence_engine::{QueryOptions, SharingMode};
use diligence_memory::Reservation;
use diligence_sql::{
    ChannelStep, DeferredTrigger, Formula, Planner, PlannerOptions, PreparedInfo, Query, QueryRunner, SettingsSink,
};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;
use diligence_types::range_type::RangeKind;
use diligence_types::text::{Printer, Zone};
use parking_lot::{Mutex, MutexGuard};

use crate::channels::{self, Ears, Pending};
use crate::cursors::Cursors;
use crate::database::Database;
use crate::plans::{KnownBlocks, ParsedStatement};
use crate::put_off::PutOff;
use crate::remembered::{Remembered, SessionMark};
use crate::settings::{self, Settings, SettingsView};
use crate::system::{self, SessionView};

/// A session: settings, prepared statements, and a planner over the database's tables. Used from any thread; statements
/// of one session do not wait for each other. Clones are the same session.
#[derive(Clone)]
pub struct Session(Arc<Parts>);

/// What a session may do. By default, anything.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Whether its statements may name files and URLs, to read or to write.
    pub files: bool,
    /// Which relations it may read, and which it may change.
    pub rights: Arc<Rights>,
    /// Whether it may change settings that are everybody's: the memory budget, the stages' policy.
    pub engine_settings: bool,
    /// Bytes that one of its queries may reserve at most, whatever its settings say.
    pub query_memory_bytes: Option<usize>,
    /// The role that it acts as, if the catalog has one of the name; whoever runs the database, if `None`.
    pub user: Option<String>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        let rights = Arc::new(Rights::all());
        Self { files: true, rights, engine_settings: true, query_memory_bytes: None, user: None }
    }
}

/// A savepoint: its name, and what had been changed.
pub(crate) type Savepoint = (String, SessionMark);

pub(crate) struct Parts {
    database: Database,
    planner: Planner,
    settings: Settings,
    /// Those of the transaction that the session's own statements have begun.
    savepoints: Mutex<Vec<Savepoint>>,
    /// Procedures that run within each other.
    depth: AtomicUsize,
    /// Triggers that run within each other.
    triggers: AtomicUsize,
    /// What it knows of the procedures that it runs.
    blocks: KnownBlocks,
    /// Its open cursors.
    cursors: Cursors,
    /// The statements that its client has prepared over a protocol.
    prepared_by_client: Mutex<BTreeMap<String, PreparedInfo>>,
    /// What its statements change of its client's settings.
    of_client: client_settings::OfClient,
    /// Whether the procedure that is called next may end the transaction, as the one may that calls it.
    ends_transactions: AtomicBool,
    /// Held by a statement that calls procedures: the session's next one of them begins when it has ended.
    calling: Mutex<()>,
    itself: Weak<Parts>,
    /// What settings were, and whom it acted as, before the transaction changed it.
    remembered: Mutex<Remembered>,
    /// What it listens to, and what its transaction has said.
    ears: Arc<Ears>,
    said: Mutex<Pending>,
    /// Triggers that run when the transaction ends.
    put_off: Mutex<PutOff>,
    /// What they print then.
    printed: Printed,
}

impl Parts {
    fn settings(&self) -> SettingsView<'_> {
        self.database.settings(&self.settings, &self.planner)
    }

    /// Listens, or says something: at once, or when the transaction has been committed. Fails with code 22023 for what
    /// is no message, 54000 if too many wait.
    fn channel(&self, step: ChannelStep) -> Result<()> {
        channels::check(&step)?;
        let all = self.database.channels();
        if let ChannelStep::Notify { channel, .. } = &step {
            all.have_room(channel)?;
        }
        match self.planner.catalogs().isolation() {
            Some(_) => self.said.lock().add(step),
            None => all.done(&self.ears, vec![step], self.planner.facts().process_id),
        }
        Ok(())
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.database.activities().ended(self.planner.catalogs().owner().number());
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

impl Parts {
    pub(crate) fn cursors(&self) -> &Cursors {
        &self.cursors
    }

    pub(crate) fn blocks(&self) -> &KnownBlocks {
        &self.blocks
    }

    /// Whether the procedure that is called next may end the transaction.
    pub(crate) fn ends_transactions(&self) -> &AtomicBool {
        &self.ends_transactions
    }

    /// Held by a statement that calls procedures.
    pub(crate) fn calling(&self) -> &Mutex<()> {
        &self.calling
    }

    /// Has a trigger run when the transaction ends.
    pub(crate) fn put_off(&self, trigger: DeferredTrigger) {
        self.put_off.lock().add(trigger);
    }

    /// The session. Fails with kind `Cancelled` when it has ended.
    pub(crate) fn session(&self) -> Result<Session> {
        self.itself.upgrade().map(Session).ok_or_else(Error::cancelled)
    }
}

impl Database {
    /// A new session. Sessions share tables and the engine, and have settings and prepared statements of their own.
    pub fn session(&self) -> Session {
        self.session_with(SessionOptions::default())
    }

    /// The role of the catalog that has a name, if there is one.
    pub fn role(&self, name: &str) -> Option<RoleDefinition> {
        self.catalog().snapshot().authority().roles().get(name).cloned()
    }

    /// A new session that may do only so much.
    pub fn session_with(&self, options: SessionOptions) -> Session {
        Session::new(self.clone(), options)
    }
}

impl Session {
    fn new(database: Database, options: SessionOptions) -> Self {
        let parts = Arc::new_cyclic(|parts: &Weak<Parts>| {
            let view: Weak<dyn SessionView> = parts.clone();
            let mut system = system::tables(database.status(), &view);
            system.extend(database.more_system_tables());
            let (catalog, postgres) = (database.catalog().clone(), database.postgres().clone());
            let catalogs = SessionCatalogs::new(catalog, Arc::new(system), postgres, options.rights.clone());
            if let Some(user) = &options.user {
                catalogs.set_user(user);
            }
            let (files, tables) = (database.files().clone(), database.engine().table_memory().clone());
            let planning = PlannerOptions {
                paths_are_tables: options.files,
                files,
                tables,
                may_program: options.files && options.engine_settings,
                pool: database.pool().clone(),
                closures: database.closures().clone(),
                servers: database.servers().clone(),
            };
            let planner = database.planner().for_session(catalogs, planning);
            let settings = Settings::new(options.engine_settings, options.query_memory_bytes);
            let sink: Weak<dyn SettingsSink> = parts.clone();
            planner.set_settings_sink(sink);
            let runner: Weak<dyn QueryRunner> = parts.clone();
            planner.set_query_runner(runner);
            Parts {
                planner,
                settings,
                database,
                savepoints: Mutex::default(),
                depth: AtomicUsize::new(0),
                triggers: AtomicUsize::new(0),
                ends_transactions: AtomicBool::new(false),
                calling: Mutex::new(()),
                itself: parts.clone(),
                remembered: Mutex::default(),
                blocks: KnownBlocks::default(),
                cursors: Cursors::default(),
                prepared_by_client: Mutex::default(),
                of_client: client_settings::OfClient::default(),
                ears: Arc::default(),
                said: Mutex::default(),
                put_off: Mutex::default(),
                printed: Printed::default(),
            }
        });
        let session = Self(parts);
        for (name, value) in session.0.database.defaults().for_session() {
            // Accepted when the database was opened.
            let _ = session.set(&name, &value);
        }
        for (name, value) in session.initial_settings() {
            // One that nobody knows any more holds nobody up. Limits of functions are looked up when queries begin;
            // what all sessions have is not this one's to change.
            if !FunctionLimits::is_one(&name) && !settings::is_everybodys(&name) {
                let _ = session.set(&name, &value);
            }
        }
        session.tell_settings();
        session
    }

    /// What it begins with: what ALTER SYSTEM and ALTER ROLE have set, but for what was given when the database was
    /// opened.
    pub fn initial_settings(&self) -> Vec<(String, String)> {
        let defaults = self.0.database.defaults();
        let settings = self.0.planner.catalogs().initial_settings().into_iter();
        settings.filter(|(name, _)| defaults.given(name).is_none()).collect()
    }

    /// Whether its statements only read from now on, so that no sequence counts but temporary ones.
    pub fn set_only_reads(&self, only_reads: bool) {
        self.0.planner.catalogs().set_only_reads(only_reads);
    }

    /// The database that the session is of.
    pub fn database(&self) -> &Database {
        &self.0.database
    }

    pub(crate) fn parts(&self) -> &Arc<Parts> {
        &self.0
    }

    /// What it may do with relations now.
    pub fn rights(&self) -> Arc<Rights> {
        self.0.planner.catalogs().rights()
    }

    /// Runs something of the planner or the engine: object stores and DataFusion's writers look for a runtime when they
    /// are made.
    pub(crate) fn in_runtime<T>(&self, body: impl FnOnce() -> T) -> T {
        let runtime = self.0.database.engine().io_handle();
        let _entered = runtime.enter();
        body()
    }

    /// How a query of this session is run.
    pub(crate) fn query_options(&self, text: &str) -> QueryOptions {
        let options = self.0.settings.query_options(text);
        let options = match self.planner().catalogs().function_limits() {
            limits if limits == FunctionLimits::default() => options,
            function_limits => QueryOptions { function_limits, sharing: SharingMode::Off, ..options },
        };
        match self.0.depth.load(Ordering::Relaxed) {
            0 => options,
            // The query that calls the procedure holds what others wait for, until this one has ended.
            _ => QueryOptions { waits_for_memory: false, sharing: SharingMode::Off, ..options },
        }
    }

    /// Starts a query with these options. Fails as [`Engine::run`](diligence_engine::Engine::run) does.
    pub(crate) fn run_query(&self, query: &Query, options: QueryOptions) -> Result<QueryStream> {
        self.planner().catalogs().note_read(query.tables.identities().map(|identity| identity.table));
        let options = QueryOptions { tables: query.tables.clone(), ..options };
        self.database().engine().run(&query.plan, options)
    }

    /// How long a statement of this session waits for a lock; for as long as it takes, if zero.
    pub(crate) fn lock_timeout(&self) -> Duration {
        self.0.settings.lock_timeout()
    }

    /// Rows as they are shown in the session's time zone, where they are held as texts in UTC: ranges of moments. Fails
    /// with kind `Bug` if a column does not hold its type.
    pub fn shown(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let moments = SqlType::Range(RangeKind::TimestampTz);
        let schema = rows.schema();
        let is_of_moments = |field: &FieldRef| SqlType::of_field(field).is_some_and(|sql_type| sql_type == moments);
        if !schema.fields().iter().any(is_of_moments) {
            return Ok(rows);
        }
        let columns = rows.columns().iter().zip(schema.fields()).map(|(column, field)| match is_of_moments(field) {
            true => {
                Printer::new(column, &moments, self.time_zone()).map(|printer| Arc::new(printer.texts()) as ArrayRef)
            }
            false => Ok(column.clone()),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(from_arrow)
    }

    /// The time zone in which timestamps are shown.
    pub fn time_zone(&self) -> Zone {
        self.0.planner.time_zone()
    }

    /// The triggers that run when its transaction ends.
    pub(crate) fn put_off(&self) -> MutexGuard<'_, PutOff> {
        self.0.put_off.lock()
    }

    /// What has been printed at the ends of its transactions, and was not taken yet.
    pub fn printed(&self) -> &Printed {
        &self.0.printed
    }

    pub(crate) fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.remembered.lock()
    }

    /// What a plan depends on beside the text: rights, search path and settings. Statements of equal texts have one
    /// plan only under equal identities.
    pub fn planning_identity(&self) -> PlanningIdentity {
        self.0.planner.identity()
    }

    /// The relations that a statement of this session sees which begins now.
    pub(crate) fn snapshot(&self) -> SessionSnapshot {
        self.0.planner.catalogs().snapshot()
    }

    /// A place for rows of these columns that are read when their query has ended.
    pub(crate) fn keep_rows(&self, schema: SchemaRef) -> KeptRows {
        self.database().engine().keep_rows(schema)
    }

    /// Memory for rows that procedures give.
    pub(crate) fn kept_memory(&self) -> Reservation {
        self.database().engine().kept_memory().reservation("rows of a function")
    }

    /// What a statement computes for values of these types, if it reads nothing. Fails where it cannot be planned
    /// without values.
    pub(crate) fn formula(&self, parsed: &ParsedStatement, types: &[DataType]) -> Result<Option<Formula>> {
        self.planner().formula(&self.snapshot(), parsed.tree(), types)
    }

    pub(crate) fn planner(&self) -> &Planner {
        &self.0.planner
    }

    pub(crate) fn savepoints(&self) -> MutexGuard<'_, Vec<Savepoint>> {
        self.0.savepoints.lock()
    }

    /// LISTEN, UNLISTEN and NOTIFY. Fails as [`Parts::channel`] does.
    pub(crate) fn channel(&self, step: ChannelStep) -> Result<()> {
        self.0.channel(step)
    }

    /// What its transaction has said is heard, or never was said.
    pub(crate) fn has_said(&self, is_committed: bool) {
        let said = self.0.said.lock().take();
        if is_committed && !said.is_empty() {
            self.0.database.channels().done(&self.0.ears, said, self.0.planner.facts().process_id);
        }
    }

    pub(crate) fn said(&self) -> MutexGuard<'_, Pending> {
        self.0.said.lock()
    }

    /// Tables and views, as a statement names them; in order.
    pub fn relation_names(&self) -> Vec<String> {
        self.snapshot().names().iter().map(ToString::to_string).collect()
    }
}
