//! From a statement's syntax tree to what is to be done.
//!
//! A session that has chosen the front of our own goes to `own`. The road of every other statement, from the one door
//! [`Planner::plan`]:
//! 1. `parameters`: a statement with `$1`, `$2`, … becomes a PREPARE with the types of its values.
//! 2. `borrowed` tells what kind of statement it is. Settings (`kinds`, for both fronts), EXPLAIN, DDL (`define`), and
//!    PREPARE and EXECUTE (`execute`) are ours; they come out as they are, or with a query inside of them.
//! 3. `logical`: facts about the session become constants, `names` resolves tables (of the catalog, or files by their
//!    path) and functions, and DataFusion makes a logical plan.
//! 4. `optimize`: DataFusion's analyzer and optimizer with our [rules](crate::rules), its physical planner, and then
//!    [`lower`](crate::lower::lower) to the engine's plan.
//!
//! All names of a statement are resolved against one snapshot of the catalog, which the caller hands in.
//!
//! A planned query says what it [`Uses`]: as long as that is current, the same text with the same values would be
//! planned to the same, so the plan can run again (`reusable`). For other values there are generic plans (`generic`).
//! `describe` tells what a statement takes and gives before its values are known.

mod borrowed;
mod define;
mod describe;
mod execute;
mod generic;
#[cfg(test)]
pub(crate) mod golden;
mod kinds;
mod known;
mod logical;
mod names;
mod optimize;
mod own;
mod parameters;
mod reusable;
mod settings;
#[cfg(test)]
mod window_judged;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_catalog::{PlanningIdentity, SessionCatalogs, SessionSnapshot, Uses};
use diligence_memory::QueryMemory;
use diligence_storage::foreign_error::from_datafusion;
use parking_lot::{Mutex, RwLock};

pub use self::describe::Description;
pub use self::generic::GenericPlan;
pub use self::parameters::parameter_value;
pub use self::settings::PlannerOption;
use crate::bounded::while_planning;
use crate::errors;
use crate::parse::{self, Parsed};
use crate::privileges;
use crate::rewrite::Facts;
use crate::state::session_state;
use crate::statement::{Query, Statement};

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
    prepared: Mutex<HashMap<String, own::Prepared>>,
}

/// What planning reads; replaced as a whole when a setting changes. Sessions that have changed none share it.
pub(crate) struct SessionParts {
    pub(crate) state: SessionState,
    /// What foreign operators run with.
    task: Arc<TaskContext>,
    /// No other has had this number.
    id: u64,
    /// Whether queries are planned by the front of our own instead of DataFusion's.
    is_own: bool,
}

/// What one statement is planned under: the settings of its session, and the names that it sees.
pub(crate) struct Planning<'a> {
    pub(crate) session: Arc<SessionParts>,
    pub(crate) snapshot: &'a SessionSnapshot,
    pub(crate) options: &'a PlannerOptions,
    facts: Arc<Facts>,
}

impl Planning<'_> {
    fn identity(&self) -> PlanningIdentity {
        (self.session.id, self.options.paths_are_tables)
    }
}

impl SessionParts {
    fn new(state: SessionState, is_own: bool) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let task = state.task_ctx();
        Arc::new(Self { state, task, id: NEXT.fetch_add(1, Ordering::Relaxed), is_own })
    }
}

impl Planner {
    /// A planner over the relations that a session sees.
    pub fn new(catalogs: SessionCatalogs, runtime: Arc<RuntimeEnv>, options: PlannerOptions) -> Self {
        let state = session_state(runtime);
        Self::with_parts(catalogs, SessionParts::new(state, false), options)
    }

    fn with_parts(catalogs: SessionCatalogs, parts: Arc<SessionParts>, options: PlannerOptions) -> Self {
        let session = RwLock::new(parts);
        Self { options, catalogs, session, facts: RwLock::default(), prepared: Mutex::default() }
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
        (self.session.read().id, self.options.paths_are_tables)
    }

    /// Whether planning anew what a plan was made from, over the names of a snapshot, would give the same plan. Looks
    /// at the times of files, so it may block for a moment.
    pub fn is_current(&self, uses: &Uses, snapshot: &SessionSnapshot) -> bool {
        let path = |path: &str| self.catalogs.catalog.path(path, &self.options.files);
        uses.are_current(snapshot, self.identity(), path)
    }

    fn planning<'a>(&'a self, snapshot: &'a SessionSnapshot) -> Planning<'a> {
        Planning { session: self.session(), snapshot, options: &self.options, facts: self.facts() }
    }

    /// Whether queries are planned by the front of our own.
    pub fn is_own(&self) -> bool {
        self.session.read().is_own
    }

    /// Has queries planned by the front of our own, or by DataFusion's, from now on.
    pub fn set_own(&self, is_own: bool) {
        let mut session = self.session.write();
        if session.is_own != is_own {
            *session = SessionParts::new(session.state.clone(), is_own);
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
        let session = self.session();
        let dialect = session.state.config_options().sql_parser.dialect;
        guarded(|| match session.is_own {
            true => parse::parse_any(sql, dialect.as_ref()),
            false => parse::parse_one(sql, dialect.as_ref()),
        })
    }

    /// Plans a statement over the names of a snapshot, with values for `$1`, `$2`, …. May open files. Fails with kind
    /// `Input` where the statement makes no sense, names what there is not or has more parameters than values,
    /// `Unsupported` where it asks for what we do not have. A panic of the planner is an error of this statement, with
    /// kind `Bug`.
    pub fn plan(&self, snapshot: &SessionSnapshot, parsed: &Parsed, values: &[ScalarValue]) -> Result<Planned> {
        let at = self.planning(snapshot);
        guarded(|| parse::with_stack(parsed.depth, || self.plan_in(&at, parsed, values)))
    }

    fn plan_in(&self, at: &Planning<'_>, parsed: &Parsed, values: &[ScalarValue]) -> Result<Planned> {
        if at.session.is_own {
            return self.plan_own(at, parsed, values);
        }
        if let Some(refused) = &parsed.refused {
            return Err(refused.clone());
        }
        let count = parameters::count(parsed)?;
        if count > values.len() {
            let error = Error::input(format!("the statement has {count} parameters; found {} values", values.len()));
            return Err(error.with_code("08P01"));
        }
        if count == 0 && !kinds::is_query(parsed) {
            return Ok(match self.statement(at, parsed.clone())? {
                // EXECUTE: its plan has the values of this time.
                Statement::Query(query) => Planned::Query(Arc::new(query), None),
                other => Planned::Other(Box::new(other)),
            });
        }
        let statement = match count {
            0 => parsed.statement.clone(),
            _ => parameters::prepare(parsed, parameters::types_of(values)?)?,
        };
        self.logical_with(at, statement, values, |plan, names| {
            let plan = if count == 0 { plan } else { parameters::with_values(at, plan, values)? };
            let uses = reusable::reusable(&plan, names).map_err(from_datafusion)?;
            Ok(match self.planned(at, plan, None)? {
                Statement::Query(query) => Planned::Query(Arc::new(query), uses),
                other => Planned::Other(Box::new(other)),
            })
        })
    }

    pub(super) fn may_use_files(&self, what: &str) -> Result<()> {
        if self.options.paths_are_tables {
            return Ok(());
        }
        let error = Error::input(format!("{what} is not allowed: this session may not use files of the server"));
        Err(error.with_code("42501").with_hint("the server's user file grants it: files = true"))
    }

    /// Every function's name, in order.
    pub fn function_names(&self) -> Vec<String> {
        self.session().function_names()
    }
}

impl SessionParts {
    fn function_names(&self) -> Vec<String> {
        let state = &self.state;
        let mut names = state.scalar_functions().keys().cloned().collect::<Vec<_>>();
        names.extend(state.aggregate_functions().keys().cloned());
        names.extend(state.window_functions().keys().cloned());
        names.extend(state.higher_order_functions().keys().cloned());
        names.extend(state.table_functions().keys().cloned());
        names.extend(privileges::NAMES.iter().map(|(name, _)| (*name).to_owned()));
        names.sort();
        names.dedup();
        names
    }
}

pub(crate) fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing outlives a failed planning but the catalog, whose locks are not held while planning.
    catch_unwind(AssertUnwindSafe(|| while_planning(body))).unwrap_or_else(|payload| Err(errors::panicked(payload)))
}
