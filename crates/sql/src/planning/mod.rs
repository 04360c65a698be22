//! From a statement's syntax tree to what is to be done.
//!
//! The road of a statement, from the one door [`Planner::plan`]:
//! 1. `statements` tells what kind of statement it is and binds it: a query, with or without a writer of its rows
//!    (`writes`), or what it does to the catalog (`definitions`), shows of it (`describing`) or does to the session
//!    (`kinds`, `prepared`). `around` answers the binder's questions about names and the session.
//! 2. What is bound is planned ([`front`](crate::front)), or described before its parameters have values
//!    ([`Planner::describe`]).
//!
//! All names of a statement are resolved against one snapshot of the catalog, which the caller hands in.
//!
//! A planned query says what it [`Uses`]: as long as that is current, the same text with the same values would be
//! planned to the same, so the plan can run again. For other values there are generic plans (`generic`).

mod alter;
mod altered_kind;
mod altered_routines;
mod altered_types;
mod altered_views;
mod appends;
mod around;
mod attach;
mod authority;
mod bound;
mod called;
mod calls;
mod changes;
mod collations;
mod column_clauses;
mod column_names;
mod conflicts;
mod context;
mod definitions;
mod depends;
mod describing;
mod domains;
mod enums;
mod exclusions;
mod fields;
mod file_functions;
mod followed;
mod formula;
mod found_routines;
mod fragments;
mod function_users;
mod generic;
mod implied;
mod index_forms;
mod indexes;
mod instead;
mod kinds;
mod live;
mod maintenance;
mod materialized;
mod names;
mod notices;
mod parameters;
mod path;
mod prepared;
mod replaced_routines;
mod row_types;
mod schemas;
mod sequences;
mod settings;
mod several;
mod simple_views;
mod statements;
mod statistics;
mod tables;
mod triggers;
mod upkeep;
mod whole_files;
mod whole_names;
mod writable;
mod writes;

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_catalog::{PlanningIdentity, SessionCatalogs, SessionSnapshot, Uses};
use diligence_memory::QueryMemory;
use diligence_pool::Pool;
use diligence_remote::Servers;
use diligence_storage::Table;
use diligence_storage::external::Rejects;
use diligence_storage::memory::MemoryTable;
use diligence_types::SqlType;
use diligence_types::functions;
use diligence_types::search::Configuration;
use diligence_types::text::Styles;
use parking_lot::{Mutex, RwLock};

pub use self::appends::PlannedAppend;
pub use self::followed::FollowedRows;
pub use self::formula::Formula;
pub use self::generic::{GenericPlan, kept_tables};
pub use self::live::SessionLive;
pub use self::parameters::parameter_value;
use self::path::SearchPath;
use self::prepared::Prepared;
pub use self::prepared::PreparedInfo;
pub use self::settings::PlannerOption;
use crate::algebra::Constant;
use crate::default_order::DefaultOrder;
use crate::facts::Facts;
use crate::kept_order::KeptOrder;
use crate::parse::{self, Parsed};
use crate::registry::Closures;
use crate::session_functions::{QueryRunner, SettingsSink};
use crate::statement::{Query, Statement};
use crate::{catalog_functions, errors, privileges, type_names};

/// How a session plans.
#[derive(Clone, Debug)]
pub struct PlannerOptions {
    /// Whether a name in FROM that looks like a path is one, and statements may name files to read or write. Off for
    /// strangers: they must not touch the server's files.
    pub paths_are_tables: bool,
    /// Where local files are.
    pub files: Arc<dyn Disk>,
    /// What tables in memory are counted in.
    pub tables: QueryMemory,
    /// Whether statements may make functions in other languages than SQL. Such a function may do whatever our process
    /// may, so it is for those who may do everything else.
    pub may_program: bool,
    /// The processes that compute those functions.
    pub pool: Arc<Pool>,
    /// The closures that are functions.
    pub closures: Arc<Closures>,
    /// The servers that are attached.
    pub servers: Arc<Servers>,
}

/// A planned statement.
#[derive(Debug)]
pub enum Planned {
    /// A query, and what must be as it was for the plan to be used again; `None` if it may not be.
    Query(Arc<Query>, Option<Uses>),
    /// Anything else; done once.
    Other(Box<Statement>),
}

impl Planned {
    /// The columns that come out; `None` for a statement without rows.
    pub fn schema(&self) -> Option<SchemaRef> {
        match self {
            Planned::Query(query, _) => Some(query.schema().clone()),
            Planned::Other(statement) => match statement.as_ref() {
                Statement::Explain { .. } => Some(Statement::plan_schema()),
                Statement::Maintain(maintenance) => maintenance.schema(),
                Statement::Call(called) => called.schema(),
                Statement::Write(write) => write.returning.as_ref().map(|(schema, _)| schema.clone()),
                Statement::Several(several) => several.schema(),
                _ => None,
            },
        }
    }
}

/// Plans the statements of one session. Used from any thread; statements do not wait for each other.
pub struct Planner {
    options: PlannerOptions,
    catalogs: SessionCatalogs,
    session: RwLock<Arc<SessionParts>>,
    facts: RwLock<Arc<Facts>>,
    prepared: Mutex<HashMap<String, Prepared>>,
    /// DuckDB's variables.
    variables: Mutex<BTreeMap<String, Constant>>,
    /// Records of files that were left out.
    pub(crate) rejects: Arc<Rejects>,
    /// What `set_config` changes.
    settings_sink: OnceLock<Weak<dyn SettingsSink>>,
    /// What runs queries whose answers a plan depends on.
    query_runner: OnceLock<Weak<dyn QueryRunner>>,
    /// The tables that only statements of a procedure see, by procedure, the innermost last.
    seen: Mutex<Vec<Vec<(String, Arc<dyn Table>)>>>,
}

/// Tables that only statements of a procedure see, until this is dropped.
pub struct SeenTables<'p>(&'p Planner);

impl Drop for SeenTables<'_> {
    fn drop(&mut self) {
        self.0.seen.lock().pop();
    }
}

/// What planning reads; replaced as a whole when a setting changes. Sessions that have changed none share it.
pub(crate) struct SessionParts {
    pub(crate) options: Arc<ConfigOptions>,
    /// Where names are looked up.
    pub(crate) path: SearchPath,
    /// Whether scans may find rows by an index.
    pub(crate) uses_index: bool,
    /// When rows come in the order of what they are read from.
    pub(crate) kept_order: KeptOrder,
    /// What ORDER BY means where a statement does not say it.
    pub(crate) default_order: DefaultOrder,
    /// The configuration of text search that functions take which are given none.
    pub(crate) search_configuration: Configuration,
    /// How dates and intervals are read and written.
    pub(crate) styles: Styles,
    /// No other has had this number.
    id: u64,
}

/// What one statement is planned under: the settings of its session, and the names that it sees.
pub(crate) struct Planning<'a> {
    pub(crate) session: Arc<SessionParts>,
    pub(crate) snapshot: &'a SessionSnapshot,
    pub(crate) options: &'a PlannerOptions,
    facts: Arc<Facts>,
    /// Whether statements may name files.
    names_files: bool,
}

impl Planning<'_> {
    fn identity(&self) -> PlanningIdentity {
        (self.session.id, self.names_files)
    }
}

impl SessionParts {
    fn new(options: Arc<ConfigOptions>) -> Arc<Self> {
        let (path, search_configuration) = (SearchPath::default(), settings::search_configuration());
        let styles = Styles::default();
        let kept_order = KeptOrder::default();
        Arc::new(Self {
            options,
            path,
            uses_index: true,
            kept_order,
            default_order: DefaultOrder::default(),
            search_configuration,
            styles,
            id: Self::next_id(),
        })
    }

    /// The same parts with a change.
    fn changed(&self, change: impl FnOnce(&mut Self)) -> Arc<Self> {
        let mut parts = Self {
            options: self.options.clone(),
            path: self.path.clone(),
            uses_index: self.uses_index,
            kept_order: self.kept_order,
            default_order: self.default_order,
            search_configuration: self.search_configuration,
            styles: self.styles,
            id: Self::next_id(),
        };
        change(&mut parts);
        Arc::new(parts)
    }

    fn next_id() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

impl Planner {
    /// A planner over the relations that a session sees.
    pub fn new(catalogs: SessionCatalogs, options: PlannerOptions) -> Self {
        Self::with_parts(catalogs, SessionParts::new(Arc::new(settings::built_in())), options)
    }

    fn with_parts(catalogs: SessionCatalogs, parts: Arc<SessionParts>, options: PlannerOptions) -> Self {
        let session = RwLock::new(parts);
        Self {
            options,
            catalogs,
            session,
            facts: RwLock::default(),
            prepared: Mutex::default(),
            variables: Mutex::default(),
            rejects: Arc::default(),
            seen: Mutex::default(),
            settings_sink: OnceLock::new(),
            query_runner: OnceLock::new(),
        }
    }

    /// A planner for another session, with this one's settings. Cheap: what no SET has changed is shared.
    pub fn for_session(&self, catalogs: SessionCatalogs, options: PlannerOptions) -> Self {
        Self::with_parts(catalogs, self.session(), options)
    }

    pub(crate) fn session(&self) -> Arc<SessionParts> {
        self.session.read().clone()
    }

    /// Equal for two planners that plan the same text over the same names to the same.
    pub fn identity(&self) -> PlanningIdentity {
        (self.session.read().id, self.names_files())
    }

    /// Whether planning anew what a plan was made from, over the names of a snapshot, would give the same plan. Looks
    /// at the times of files, so it may block for a moment.
    pub fn is_current(&self, uses: &Uses, snapshot: &SessionSnapshot) -> bool {
        let path = |path: &str| self.catalogs.catalog().path(path, &self.options.files);
        uses.are_current(snapshot, self.identity(), path)
    }

    fn planning<'a>(&'a self, snapshot: &'a SessionSnapshot) -> Planning<'a> {
        Planning {
            session: self.session(),
            snapshot,
            options: &self.options,
            facts: self.facts(),
            names_files: self.names_files(),
        }
    }

    /// What functions about the session answer, such as `current_user`.
    pub fn facts(&self) -> Arc<Facts> {
        self.facts.read().clone()
    }

    /// Changes what functions about the session answer, for statements planned from now on.
    pub fn set_facts(&self, facts: Facts) {
        *self.facts.write() = Arc::new(facts);
    }

    /// What `set_config` changes. Said once.
    pub fn set_settings_sink(&self, sink: Weak<dyn SettingsSink>) {
        let _ = self.settings_sink.set(sink);
    }

    /// Statements of a procedure see tables of these names before any others, and none of those that others see, until
    /// what is given is dropped. Fails with kind `Bug` if a table's rows are none.
    pub fn see_tables(&self, tables: Vec<(String, RecordBatch)>) -> Result<SeenTables<'_>> {
        let table = |(name, rows): (String, RecordBatch)| {
            let version = self.catalogs.catalog().next_table_version();
            let table = MemoryTable::new(name.clone(), rows.schema(), vec![rows], version)?;
            Ok((name, Arc::new(table) as Arc<dyn Table>))
        };
        let tables = tables.into_iter().map(table).collect::<Result<Vec<_>>>()?;
        self.seen.lock().push(tables);
        Ok(SeenTables(self))
    }

    /// What runs queries whose answers a plan depends on. Said once.
    pub fn set_query_runner(&self, runner: Weak<dyn QueryRunner>) {
        let _ = self.query_runner.set(runner);
    }

    /// The relations that the session sees.
    pub fn catalogs(&self) -> &SessionCatalogs {
        &self.catalogs
    }

    /// How the session plans.
    pub fn options(&self) -> &PlannerOptions {
        &self.options
    }

    /// The syntax tree of exactly one statement. Fails with kind `Input` on anything else, and on one that nests too
    /// deep.
    pub fn parse(&self, sql: &str) -> Result<Parsed> {
        guarded(|| parse::parse_one(sql))
    }

    /// Plans a statement over the names of a snapshot, with values for `$1`, `$2`, …. May open files. Fails with kind
    /// `Input` where the statement makes no sense, names what there is not or has more parameters than values,
    /// `Unsupported` where it asks for what we do not have. A panic of the planner is an error of this statement, with
    /// kind `Bug`.
    pub fn plan(&self, snapshot: &SessionSnapshot, parsed: &Parsed, values: &[ScalarValue]) -> Result<Planned> {
        let at = self.planning(snapshot);
        let count = parameters::count(parsed)?;
        if count > values.len() {
            let error = Error::input(format!("the statement has {count} parameters; found {} values", values.len()));
            return Err(error.with_code("08P01"));
        }
        guarded(|| parse::with_stack(parsed.depth, || self.plan_in(&at, parsed, values)))
    }

    /// What a statement takes and gives, told before its parameters have values. `given` are types that its sender
    /// declared for parameters. Fails as [`plan`](Self::plan) does.
    pub fn describe(
        &self,
        snapshot: &SessionSnapshot,
        parsed: &Parsed,
        given: &[Option<DataType>],
    ) -> Result<Description> {
        if kinds::acts_when_planned(parsed) {
            return Ok(Description::default());
        }
        let at = self.planning(snapshot);
        let types = given.iter().map(|given| match given {
            Some(known) => SqlType::of_arrow(known).unwrap_or(SqlType::Text),
            None => SqlType::Unknown,
        });
        let types = types.collect();
        guarded(|| parse::with_stack(parsed.depth, || self.described(&at, parsed, types)))
    }

    /// Whose rights hold now: `current_user`.
    pub fn current_user(&self) -> String {
        self.catalogs.told().unwrap_or_else(|| self.session_user())
    }

    /// Whose session it is: `session_user`.
    pub fn session_user(&self) -> String {
        self.catalogs.authorization().unwrap_or_else(|| self.facts().user.clone())
    }

    /// Whether statements may name files now: not those of a role to which that is not given.
    pub(super) fn names_files(&self) -> bool {
        self.options.paths_are_tables && !self.catalogs.acts_as_role()
    }

    /// Fails with code 42501 unless statements may name files of the server.
    pub fn may_use_files(&self, what: &str) -> Result<()> {
        if self.names_files() {
            return Ok(());
        }
        let error = Error::input(format!("{what} is not allowed: this session may not use files of the server"));
        Err(error.with_code("42501").with_hint("the server's user file grants it: files = true"))
    }

    /// Every function's name, in order.
    pub fn function_names(&self) -> Vec<String> {
        let catalog = catalog_functions::names().chain(privileges::NAMES.iter().map(|(name, _)| *name));
        let catalog = catalog.chain([type_names::NAME]);
        let mut names = functions::names()
            .filter(|name| name.starts_with(|first: char| first.is_ascii_alphabetic()))
            .chain(catalog)
            .map(str::to_owned)
            .collect::<Vec<_>>();
        names.sort();
        names.dedup();
        names
    }
}

/// What a statement takes and gives.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// How values of `$1`, `$2`, … are held; as text where the statement does not say.
    pub parameters: Vec<DataType>,
    /// Their types; `Unknown` where the statement does not say.
    pub parameter_types: Vec<SqlType>,
    /// The columns that come out; `None` for a statement without rows.
    pub schema: Option<SchemaRef>,
}

impl Description {
    /// Of a statement with parameters of these types.
    fn new(parameter_types: Vec<SqlType>, schema: Option<SchemaRef>) -> Self {
        let parameters = parameter_types.iter().map(SqlType::arrow).collect();
        Self { parameters, parameter_types, schema }
    }
}

fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing outlives a failed planning but the catalog, whose locks are not held while planning.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(errors::panicked(payload)))
}
