//! A session: one client's conversation with a database. Its settings, rights, and planner; what happens to its
//! statements is told in [`statement`](crate::statement).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use diligence_base::function_limits::FunctionLimits;
use diligence_base::{Error, Result};
use diligence_catalog::authority::{RoleDefinition, SIGNAL_BACKEND};
use diligence_catalog::types::type_of_oid;
use diligence_catalog::{HistoryState, PlanningIdentity, Rights, SessionCatalogs, SessionSnapshot};
use diligence_engine::query::{KeptRows, Printed, QueryStream};
use diligence_engine::stages::{Level, Message, caller};
use diligence_engine::{QueryOptions, SharingMode};
use diligence_memory::Reservation;
use diligence_remote::Server;
use diligence_sql::{
    ChannelStep, DeferredTrigger, Facts, Formula, Planner, PlannerOptions, PreparedInfo, Query, QueryRunner,
    SettingsSink,
};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;
use diligence_types::range_type::RangeKind;
use diligence_types::text::{Printer, Zone};
use parking_lot::{Mutex, MutexGuard};

use crate::channels::{self, Ears, Notification, Pending};
use crate::cursors::{CursorInfo, CursorRows, Cursors, OpenCursor};
use crate::database::Database;
use crate::known_settings::{known_settings, meaningless};
use crate::plans::{KnownBlocks, ParsedStatement};
use crate::put_off::PutOff;
use crate::remembered::{Remembered, SessionMark, Was};
use crate::settings::{self, Settings, SettingsView, Shown};
use crate::system::{self, SessionView, WaitingQuery};

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

/// Procedures within each other at most: a thread waits for each.
const PROCEDURES_MAX: usize = 64;
/// The same of all sessions: procedures that others have called.
const CALLED_MAX: usize = 1024;

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
}

impl Parts {
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

    /// `current_setting` answers what the settings are now.
    fn tell(&self, mut facts: Facts) {
        self.database.activities().is_of(self.planner.catalogs().owner().number(), facts.process_id);
        facts.settings.retain(|name, _| !settings::is_custom(name));
        facts.settings.extend(self.settings().all().into_iter().map(|shown| (shown.name, shown.value)));
        self.planner.set_facts(facts);
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

impl SettingsSink for Parts {
    fn notify(&self, channel: &str, payload: &str) -> Result<()> {
        self.channel(ChannelStep::Notify { channel: channel.to_owned(), payload: payload.to_owned() })
    }

    fn listening(&self) -> Vec<String> {
        self.ears.listening()
    }

    fn trigger_depth(&self) -> i32 {
        i32::try_from(self.triggers.load(Ordering::Relaxed)).unwrap_or(i32::MAX)
    }

    fn stop_session(&self, process_id: i32, is_end: bool) -> Result<bool> {
        let activities = self.database.activities();
        let Some(other) = activities.all().into_iter().find(|other| other.process_id == process_id) else {
            let said = Error::input(format!("PID {process_id} is not a PostgreSQL backend process"));
            let message = Message { level: Level::Warning, said: said.with_code("01000") };
            if let Some(caller) = caller() {
                caller.printed(message);
            }
            return Ok(false);
        };
        let (catalogs, facts) = (self.planner.catalogs(), self.planner.facts());
        let by = catalogs.speaker();
        let is_own = catalogs.role().is_none() && facts.user == other.user;
        let snapshot = catalogs.snapshot();
        let authority = snapshot.catalog.authority();
        // Whoever may everything is stopped by their like alone.
        let may_signal = by.roles.contains(SIGNAL_BACKEND) && !authority.is_superuser(&other.user);
        if !is_own && !by.is_superuser && !may_signal && !authority.is_member(&by.name, &other.user) {
            let what = if is_end { "process is being terminated" } else { "query is being canceled" };
            let message = format!("must be a member of the role whose {what} or member of pg_signal_backend");
            return Err(Error::input(message).with_code("42501"));
        }
        Ok(activities.stop(process_id, is_end))
    }

    fn setting(&self, name: &str) -> Option<String> {
        let own = self.settings().show(name).ok().map(|shown| shown.value);
        let of_client = || self.planner.facts().settings.get(name).cloned();
        let at_first = || known_settings().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
        own.or_else(of_client).or_else(at_first).or_else(|| settings::is_custom(name).then(String::new))
    }

    fn set_config(&self, name: &str, value: &str, is_local: bool) -> Result<String> {
        let name = name.to_lowercase();
        if self.settings().show(&name).is_err() && !settings::is_custom(&name) {
            // One of the client's, which only it changes.
            return Ok(value.to_owned());
        }
        match self.change(&name, Some(value), is_local)? {
            true => Ok(self.settings().show(&name)?.value),
            // For this statement's transaction, which ends with it.
            false => Ok(value.to_owned()),
        }
    }
}

impl Parts {
    /// Changes a setting, or gives it its default back: until its transaction is rolled back or, with `is_local`, until
    /// it ends. Gives whether it has: without a transaction, nothing is local. Fails with kind `Input` if there is no
    /// such setting, if this is no value of it, or if it is everybody's and the session may not change it; with code
    /// 55P02 if it is everybody's, and `is_local`.
    fn change(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<bool> {
        let is_inside = self.planner.catalogs().isolation().is_some();
        if is_local && !is_inside {
            return Ok(false);
        }
        let was = if is_inside { self.own_setting(name)? } else { None };
        if is_local && was.is_none() {
            let error = Error::input(format!("the setting '{name}' is everybody's: it does not go with a transaction"));
            return Err(error.with_code("55P02").with_hint("write SET without LOCAL"));
        }
        match value {
            Some(value) => self.settings().set(name, value)?,
            None => self.settings().reset(name)?,
        }
        if let Some(value) = was {
            self.remembered.lock().note(Was::Setting { name: name.to_lowercase(), value }, is_local);
        }
        self.tell(Facts::clone(&self.planner.facts()));
        Ok(true)
    }

    /// A setting's value; `None` of a setting that is everybody's. Fails with kind `Input` if there is no such setting.
    fn own_setting(&self, name: &str) -> Result<Option<String>> {
        let shown = match self.settings().show(name) {
            Err(_) if settings::is_custom(name) => return Ok(Some(String::new())),
            Err(_) if meaningless(name).is_some() => return Ok(meaningless(name).map(str::to_owned)),
            shown => shown?,
        };
        Ok((!settings::is_everybodys(name)).then_some(shown.value))
    }

    /// Makes what was changed what it was.
    fn restore(&self, changed: Vec<Was>) {
        if changed.is_empty() {
            return;
        }
        for was in changed {
            // They had that value, so it is one.
            let _ = match was {
                // One that had no value is shown as nothing.
                Was::Setting { name, value } if value.is_empty() && settings::is_custom(&name) => {
                    self.settings().reset(&name)
                }
                Was::Setting { name, value } => self.settings().set(&name, &value),
                Was::Role(role) => {
                    self.planner.catalogs().restore_role(role);
                    Ok(())
                }
                Was::Authorization(user) => {
                    self.planner.catalogs().restore_authorization(user);
                    Ok(())
                }
            };
        }
        self.tell(Facts::clone(&self.planner.facts()));
    }
}

impl Parts {
    /// Whether the procedure that is called next may end the transaction.
    pub(crate) fn cursors(&self) -> &Cursors {
        &self.cursors
    }

    pub(crate) fn blocks(&self) -> &KnownBlocks {
        &self.blocks
    }

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

/// Settings that a procedure has changed, until it is dropped.
pub(crate) struct SetMeanwhile {
    session: Session,
    was: Vec<Was>,
}

impl Drop for SetMeanwhile {
    fn drop(&mut self) {
        self.session.restore(std::mem::take(&mut self.was));
    }
}

/// A procedure that runs, until it is dropped.
pub(crate) struct Within<'s> {
    depth: Counted<'s>,
    _called: Option<Counted<'s>>,
}

/// One of several that are counted, until it is dropped.
pub(crate) struct Counted<'c> {
    count: &'c AtomicUsize,
    /// How many there were before.
    others: usize,
}

impl<'c> Counted<'c> {
    fn one_more(count: &'c AtomicUsize) -> Self {
        Self { count, others: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SessionView for Parts {
    fn settings(&self) -> Vec<Shown> {
        Parts::settings(self).all()
    }

    fn client_settings(&self) -> Vec<(String, String)> {
        let facts = self.planner.facts();
        facts.settings.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn waiting(&self) -> Vec<WaitingQuery> {
        self.database.waiting()
    }

    fn history(&self) -> HistoryState {
        self.database.catalog().history()
    }

    fn cursors(&self) -> Vec<(String, CursorInfo)> {
        self.cursors.infos()
    }

    fn prepared(&self) -> Vec<(String, PreparedInfo, bool)> {
        let own = self.planner.prepared().into_iter().map(|(name, info)| (name, info, true));
        let of_client = self.prepared_by_client.lock();
        let of_client = of_client.iter().map(|(name, info)| (name.clone(), info.clone(), false));
        own.chain(of_client).collect()
    }

    fn attached(&self) -> Vec<Arc<Server>> {
        self.database.servers().all()
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

    /// A trigger begins. The statement that fires it waits for it: the session runs no other meanwhile but those within
    /// it.
    pub(crate) fn enter_trigger(&self) -> Counted<'_> {
        Counted::one_more(&self.0.triggers)
    }

    /// A procedure begins. Fails with 54001 if too many run within each other, with 53000 if that many do in all
    /// sessions.
    pub(crate) fn enter_procedure(&self) -> Result<Within<'_>> {
        let mut within = Within { depth: Counted::one_more(&self.0.depth), _called: None };
        if within.depth.others >= PROCEDURES_MAX {
            let message =
                format!("stack depth limit exceeded: more than {PROCEDURES_MAX} procedures within each other");
            return Err(Error::resource(message).with_code("54001"));
        }
        if within.depth.others > 0 {
            let called = Counted::one_more(self.database().procedures_called());
            if called.others >= CALLED_MAX {
                let message = format!("more than {CALLED_MAX} procedures run that other procedures have called");
                let hint = "each holds a thread; run fewer statements at once that nest them";
                return Err(Error::resource(message).with_code("53000").with_hint(hint));
            }
            within._called = Some(called);
        }
        Ok(within)
    }

    /// A setting's value, as SHOW has it. Fails with kind `Input` if there is no such setting.
    pub fn setting(&self, name: &str) -> Result<String> {
        Ok(self.0.settings().show(name)?.value)
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

    /// Changes a setting as SET does or, with `is_local`, as SET LOCAL; without a value, gives it its default back. A
    /// transaction that is rolled back has not changed it. Gives whether there is a change: nothing is local without a
    /// transaction. Fails as [`set`](Self::set) does, and with code 55P02 if it is everybody's, and `is_local`.
    pub fn set_within(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<bool> {
        self.0.change(name, value, is_local)
    }

    /// As [`reset_all`](Self::reset_all), until its transaction is rolled back. Fails as that does.
    pub fn reset_all_within(&self) -> Result<()> {
        let is_inside = self.planner().catalogs().isolation().is_some();
        let names = if is_inside { self.changed_settings() } else { vec![] };
        let was = names.into_iter().map(|name| Ok((self.0.own_setting(&name)?, name)));
        let was = was.collect::<Result<Vec<_>>>()?;
        self.reset_all()?;
        let mut remembered = self.0.remembered.lock();
        for (value, name) in was {
            if let Some(value) = value {
                remembered.note(Was::Setting { name, value }, false);
            }
        }
        Ok(())
    }

    /// SET ROLE and SET SESSION AUTHORIZATION have changed whom it acts as.
    pub(crate) fn was_acting_as(&self, was: Vec<Was>, is_local: bool) {
        let mut remembered = self.0.remembered.lock();
        was.into_iter().for_each(|was| remembered.note(was, is_local));
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

    /// Makes what was changed what it was.
    pub(crate) fn restore(&self, changed: Vec<Was>) {
        self.0.restore(changed);
    }

    /// Changes settings for a procedure, until what is given is dropped: then they are what they were, whatever it has
    /// changed. Those of the client, which only it changes, stay as they are. Fails with kind `Input` if one is no
    /// value of its setting, and with code 55P02 if its setting is everybody's.
    pub(crate) fn set_meanwhile(&self, changed: &[(String, String)]) -> Result<SetMeanwhile> {
        let mut set = SetMeanwhile { session: self.clone(), was: vec![] };
        for (name, value) in changed {
            if !settings::is_custom(name) && self.0.settings().show(name).is_err() {
                continue;
            }
            let Some(now) = self.0.own_setting(name)? else {
                let message = format!("the setting '{name}' is everybody's: a function has no own value of it");
                return Err(Error::input(message).with_code("55P02"));
            };
            self.0.settings().set(name, value)?;
            let was = Was::Setting { name: name.clone(), value: now };
            // What it sets for the transaction is gone with the function, too.
            if self.planner().catalogs().isolation().is_some() {
                self.0.remembered.lock().note(was.clone(), true);
            }
            set.was.push(was);
        }
        if !set.was.is_empty() {
            self.tell_settings();
        }
        Ok(set)
    }

    /// The session's own settings that differ from their defaults.
    pub fn changed_settings(&self) -> Vec<String> {
        let all = self.0.settings().all().into_iter();
        let changed = all.filter(|shown| shown.value != shown.default && !settings::is_everybodys(&shown.name));
        changed.map(|shown| shown.name).collect()
    }

    /// Gives a setting its default back. Fails with kind `Input` if there is no such setting, or it is everybody's and
    /// the session may not change it.
    pub fn reset(&self, name: &str) -> Result<()> {
        self.0.settings().reset(name)?;
        self.tell_settings();
        Ok(())
    }

    /// Gives all settings that the session can change their defaults back. Fails with kind `Input` if a default is no
    /// longer a value of its setting.
    pub fn reset_all(&self) -> Result<()> {
        self.0.settings().reset_all()?;
        self.tell_settings();
        Ok(())
    }

    /// What functions about the session and its client answer.
    pub fn set_facts(&self, facts: Facts) {
        self.0.tell(facts);
    }

    fn tell_settings(&self) {
        self.set_facts(Facts::clone(&self.0.planner.facts()));
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

    /// What it has heard of the channels that it listens to, since the last time.
    pub fn take_notifications(&self) -> Vec<Notification> {
        self.0.ears.take()
    }

    /// Returns when there may be something to hear; never, if it listens to nothing.
    pub async fn notified(&self) {
        let ears = self.0.ears.clone();
        ears.woken().await;
    }

    /// A place for rows that a cursor is to have.
    pub fn rows_to_keep(&self, schema: SchemaRef) -> KeptRows {
        self.keep_rows(schema)
    }

    /// Opens a cursor whose rows somebody else has. Fails with 42P03 if one of its name is open.
    pub fn open_cursor(&self, name: &str, info: CursorInfo) -> Result<()> {
        self.0.cursors.open(name, info, None)
    }

    /// From now on an open cursor's rows are there, for procedures too.
    pub fn cursor_is_kept(&self, name: &str, rows: &Arc<Mutex<CursorRows>>) {
        self.0.cursors.keep(name, OpenCursor { rows: rows.clone(), found: None });
    }

    /// The rows of a cursor that a procedure has opened; `None` if there is no such cursor.
    pub fn cursor(&self, name: &str) -> Option<Arc<Mutex<CursorRows>>> {
        self.0.cursors.get(name).ok().flatten().map(|cursor| cursor.rows)
    }

    /// Closes a cursor; whether it was open.
    pub fn close_cursor(&self, name: &str) -> bool {
        self.0.cursors.close(name)
    }

    /// Closes all cursors of the session.
    pub fn close_cursors(&self) {
        self.0.cursors.close_all();
    }

    /// The client has prepared a statement over its protocol, whose parameters have types of these numbers.
    pub fn client_prepares(&self, name: &str, statement: &str, types: &[u32]) {
        let shown = |oid: &u32| match type_of_oid(*oid) {
            Some((known, true)) => format!("{}[]", known.sql_name),
            Some((known, false)) => known.sql_name.to_owned(),
            None => oid.to_string(),
        };
        let types = types.iter().map(shown).collect();
        let info = PreparedInfo { statement: statement.to_owned(), since: SystemTime::now(), types };
        self.0.prepared_by_client.lock().insert(name.to_owned(), info);
    }

    /// The client forgets a statement that it has prepared over its protocol; without a name all, those of PREPARE
    /// included.
    pub fn client_forgets(&self, name: Option<&str>) {
        let mut prepared = self.0.prepared_by_client.lock();
        match name {
            Some(name) => drop(prepared.remove(name)),
            None => {
                prepared.clear();
                self.planner().forget_prepared();
            }
        }
    }

    /// Gives back what only the session has: temporary objects, and numbers that applications lock.
    pub fn discard(&self) {
        self.close_cursors();
        self.client_forgets(None);
        let catalogs = self.planner().catalogs();
        catalogs.forget_numbers();
        // Nothing keeps them, so nothing can fail.
        let _ = catalogs.drop_temporary();
        catalogs.locks().release_all_advisory(catalogs.owner());
        self.0.ears.close();
    }

    /// Gives the locks of a transaction back that has failed, and can only be rolled back. Others need not wait for
    /// that.
    pub fn unlock_failed(&self) {
        self.planner().catalogs().unlock_failed();
    }

    /// Drops the session's temporary tables and views. Fails with the error of DROP if the catalog can no longer be
    /// changed.
    pub fn drop_temporary(&self) -> Result<()> {
        self.planner().catalogs().drop_temporary()
    }

    /// Forgets what numbers sequences have given to the session: `currval` and `lastval` know none.
    pub fn forget_numbers(&self) {
        self.planner().catalogs().forget_numbers();
    }

    /// Changes a setting, as SET does. Fails with kind `Input` if there is no such setting, if this is no value of it,
    /// or if it is everybody's and the session may not change it.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        self.0.settings().set(name, value)?;
        self.tell_settings();
        Ok(())
    }

    /// Tables and views, as a statement names them; in order.
    pub fn relation_names(&self) -> Vec<String> {
        self.snapshot().names().iter().map(ToString::to_string).collect()
    }

    /// The settings that it knows.
    pub(crate) fn setting_names(&self) -> impl Iterator<Item = String> {
        self.0.settings().all().into_iter().map(|shown| shown.name)
    }

    pub(crate) fn settings(&self) -> SettingsView<'_> {
        self.0.settings()
    }
}
