//! A statement's way through the stages, for all doors.
//!
//! ```text
//!             parse ──▶ optimize ──▶ admission ──▶ execute ──▶ rows ──▶ disconnect
//!               ╰── a plan that is remembered ────────▲
//! ```
//!
//! Sessions wait here without a thread. What they give up (a cancel, a time limit, a client that left) ends by being
//! dropped: work in a queue is not begun, a query that runs is cancelled.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use diligence_base::ids::QueryId;
use diligence_base::{Error, Result};
use diligence_db::{Database, Description, Needs, ParsedStatement, PlannedStatement, Session};
use parking_lot::Mutex;

use crate::admission::lanes::Ticket;
use crate::admission::{Admission, AdmissionOptions, Asker, Class, History, Query};
use crate::cache::{Generic, GenericKey, PlanCache, PlanKey, Remembered};
use crate::running::{Running, begin};
use crate::sqlstate;
use crate::stages::{Stage, StageInfo};

/// How many threads and places the stages have, and how many queries run.
#[derive(Clone, Copy, Debug)]
pub struct PathOptions {
    /// Threads of the stages that compute; one per core if `None`.
    pub threads: Option<usize>,
    /// Places in the queue of each stage.
    pub stage_queue_max: usize,
    /// Cheap queries that run at once.
    pub running_max: usize,
    /// Heavy queries that run at once.
    pub heavy_max: usize,
    /// Queries that wait for their turn to run, of each class.
    pub queue_max: usize,
}

impl Default for PathOptions {
    /// More running queries than cores keep the cores busy while others wait for files or for slow clients; a thousand
    /// waiting ones are some seconds of short queries. Heavy ones that run together share work and share the workers:
    /// with more of them each takes longer, and cheap ones wait longer for a worker.
    fn default() -> Self {
        Self { threads: None, stage_queue_max: 256, running_max: 64, heavy_max: 16, queue_max: 1024 }
    }
}

/// Threads that statements which write wait on: they block until the write is done.
const WRITE_THREADS: usize = 4;

/// The stages, and what is remembered between statements.
pub struct Path {
    database: Database,
    parse: Stage,
    optimize: Stage,
    pub(crate) execute: Stage,
    pub(crate) write: Stage,
    pub(crate) disconnect: Stage,
    cache: Arc<PlanCache>,
    admission: Arc<Admission>,
    result_rows_max: Option<u64>,
    /// Whose the queries are that run, by their numbers.
    pub(crate) owners: Mutex<HashMap<u64, Owner>>,
}

/// Whose a query is that runs.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) user: String,
    /// What it was known by at the door.
    pub(crate) ticket: Ticket,
}

/// A plan that is ready to start, and where to note what it needs.
pub struct Ready {
    /// The plan.
    pub planned: PlannedStatement,
    history: Option<Arc<History>>,
}

impl Path {
    /// Starts the stages.
    pub fn open(database: Database, options: PathOptions, result_rows_max: Option<u64>) -> Result<Arc<Self>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.unwrap_or(cores).max(1);
        let queue = options.stage_queue_max;
        let PathOptions { running_max: cheap_max, heavy_max, queue_max, .. } = options;
        let engine = database.engine().clone();
        let budget = move || engine.broker().budget_bytes();
        let admission = Admission::new(AdmissionOptions { cheap_max, heavy_max, queue_max }, budget);
        let cache = PlanCache::new(&database);
        Ok(Arc::new(Self {
            database,
            parse: Stage::start("parse", threads, queue)?,
            optimize: Stage::start("optimize", threads, queue)?,
            execute: Stage::start("execute", threads, queue)?,
            write: Stage::start("write", WRITE_THREADS, queue)?,
            disconnect: Stage::start("disconnect", 1, queue)?,
            cache,
            admission,
            result_rows_max,
            owners: Mutex::default(),
        }))
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Who may run.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Whose a query is that runs.
    pub fn owner(&self, query: u64) -> Option<String> {
        self.owners.lock().get(&query).map(|owner| owner.user.clone())
    }

    /// Cancels a query by its number, if its user (`None` once nobody is its owner any more) is one that `may` be
    /// touched. A number below zero is that of a query in line; it still holds when the query has been let in. False if
    /// there is no such query.
    pub fn cancel(&self, number: i64, may: impl Fn(Option<&str>) -> bool) -> bool {
        let engine = self.database.engine();
        let Some(ticket) = Ticket::numbered(number) else {
            let id = number.unsigned_abs();
            return may(self.owner(id).as_deref()) && engine.cancel(QueryId(id));
        };
        // Noted at the door first: whoever has no number yet looks there when he has one.
        let is_known = self.admission.cancel(ticket, |user| may(Some(user)));
        let running = {
            let owners = self.owners.lock();
            let mut found = owners.iter().filter(|(_, owner)| owner.ticket == ticket && may(Some(&owner.user)));
            found.next().map(|(id, _)| QueryId(*id))
        };
        running.is_some_and(|id| engine.cancel(id)) || is_known
    }

    /// Plans that are remembered.
    pub fn cache(&self) -> &PlanCache {
        &self.cache
    }

    /// The stages' counters, in the order in which a statement meets them.
    pub fn stages(&self) -> Vec<StageInfo> {
        [&self.parse, &self.optimize, &self.execute, &self.write, &self.disconnect].map(Stage::info).to_vec()
    }

    /// Cuts a script into statements.
    pub async fn statements_of(&self, script: String) -> Result<Vec<String>> {
        let coded = |error: Error| if error.code().is_some() { error } else { error.with_code("42601") };
        self.parse.run(move || Session::split(&script).map_err(coded)).await
    }

    /// The syntax tree of a statement.
    pub async fn parse(&self, session: &Session, sql: String) -> Result<ParsedStatement> {
        if let Some(parsed) = self.cache.parsed(session, &sql) {
            return Ok(parsed);
        }
        let (own, text) = (session.clone(), sql.clone());
        let parsed = self.parse.run(move || own.parse(&text)).await?;
        self.cache.put_parsed(session, &sql, &parsed);
        Ok(parsed)
    }

    /// What a statement takes and gives. A statement without parameters is remembered planned.
    pub async fn describe(
        &self,
        session: &Session,
        parsed: &ParsedStatement,
        given: Vec<Option<DataType>>,
    ) -> Result<Description> {
        let key = PlanKey::new(session, parsed.text(), &[]);
        let known = key.as_ref().filter(|_| given.is_empty()).and_then(|key| self.cache.get(key));
        let known = known.map(|remembered| remembered.plan);
        let of = |plan: &PlannedStatement| Description { parameters: vec![], schema: plan.schema() };
        if let Some(plan) = known.as_ref().filter(|plan| plan.is_constant()) {
            return Ok(of(plan));
        }
        if let Some(plan) = known {
            let (own, known) = (session.clone(), plan.clone());
            if self.execute.run(move || Ok(known.is_current(&own))).await? {
                return Ok(of(&plan));
            }
        }
        let (own, statement) = (session.clone(), parsed.clone());
        let described = self.optimize.run(move || own.describe(&statement, &given));
        let (description, planned) = described.await?;
        if let (Some(key), Some(planned)) = (key, planned) {
            self.cache.put(key, &planned);
        }
        Ok(description)
    }

    /// Plans a statement, or finds it planned, and starts it. With `read_only` it must not change anything.
    pub async fn start(
        self: &Arc<Self>,
        session: &Session,
        asker: &Asker,
        parsed: &ParsedStatement,
        values: Vec<ArrayRef>,
        read_only: bool,
    ) -> Result<Running> {
        let key = PlanKey::new(session, parsed.text(), &values);
        if let Some(Remembered { plan, history, answer }) = key.as_ref().and_then(|key| self.cache.get(key)) {
            if let Some(rows) = answer.get() {
                self.cache.count(true);
                return Ok(Running::answered(self, asker, &plan, rows));
            }
            let answer = plan.is_constant().then_some(answer);
            let query = Query::new(parsed.text(), plan.needs(), history.used());
            let expected = query.expected;
            let (admitted, passed) = self.admission.enter(asker, query).await?;
            let own = session.clone();
            let started = self.execute.run(move || {
                if !plan.is_current(&own) {
                    return Ok(None);
                }
                plan.again().map(|plan| begin(&own, plan, expected)).transpose()
            });
            if let Some(started) = started.await? {
                self.cache.count(true);
                let running = Running::new(self, asker, started, admitted, passed, Some(history));
                return Ok(running.remembering(answer));
            }
        }
        let generic = key.as_ref().and_then(|key| GenericKey::new(key, &values));
        if let Some(generic) = &generic
            && let Some(running) = self.start_generic(generic, session, asker, parsed, &values).await?
        {
            self.cache.count(true);
            return Ok(running);
        }
        self.cache.count(false);
        let (own, statement) = (session.clone(), parsed.clone());
        let planned = self.optimize.run(move || own.plan(&statement, &values)).await?;
        if read_only && !planned.is_read_only() {
            let error = Error::unsupported(
                "this statement cannot run inside a transaction: what it changes could not be undone",
            );
            return Err(error
                .with_code(sqlstate::READ_ONLY)
                .with_hint("transactions are read-only here; run it by itself (autocommit)"));
        }
        let history = key.map(|key| self.cache.put(key, &planned));
        if let (Some(generic), Some(history)) = (generic, &history)
            && self.cache.generic(&generic).is_none()
        {
            self.cache.put_generic(generic, Generic { plan: None, history: history.shared() });
        }
        self.begin(session, asker, parsed.text(), Ready { planned, history }).await
    }

    /// Starts a statement that has run with other values, by its generic plan; `None` if it has none, or is not known
    /// to be cheap.
    async fn start_generic(
        self: &Arc<Self>,
        key: &GenericKey,
        session: &Session,
        asker: &Asker,
        parsed: &ParsedStatement,
        values: &[ArrayRef],
    ) -> Result<Option<Running>> {
        let Some(Generic { plan, history }) = self.cache.generic(key) else { return Ok(None) };
        let Some(used) = history.used() else { return Ok(None) };
        if Query::new(parsed.text(), Needs::default(), Some(used)).expected.class != Class::Cheap {
            return Ok(None);
        }
        let plan = match plan {
            Some(plan) => plan,
            None => {
                let (own, statement, types) = (session.clone(), parsed.clone(), key.types().to_vec());
                let planning = self.optimize.run(move || own.plan_generic(&statement, &types));
                // An error may be this session's alone. It is said when the statement is planned with its values.
                let Ok(plan) = planning.await else { return Ok(None) };
                let plan = plan.map(Arc::new);
                let known = Generic { plan: Some(plan.clone()), history: history.clone() };
                self.cache.put_generic(key.clone(), known);
                plan
            }
        };
        let Some(plan) = plan else { return Ok(None) };
        let query = Query::new(parsed.text(), plan.needs(), Some(used));
        let expected = query.expected;
        let (admitted, passed) = self.admission.enter(asker, query).await?;
        let (own, values) = (session.clone(), values.to_vec());
        let started = self.execute.run(move || {
            // These values may not suit the plan: then one is made for them.
            let planned = plan.is_current(&own).then(|| plan.with(&values)).and_then(Result::ok);
            planned.map(|planned| begin(&own, planned, expected)).transpose()
        });
        let Some(started) = started.await? else {
            // Its tables have changed, most likely: the next one tries again.
            self.cache.put_generic(key.clone(), Generic { plan: None, history });
            return Ok(None);
        };
        Ok(Some(Running::new(self, asker, started, admitted, passed, Some(history))))
    }

    /// Plans a statement that only reads, or finds it planned.
    pub async fn plan(&self, session: &Session, parsed: &ParsedStatement, values: Vec<ArrayRef>) -> Result<Ready> {
        let key = PlanKey::new(session, parsed.text(), &values);
        if let Some(Remembered { plan, history, .. }) = key.as_ref().and_then(|key| self.cache.get(key)) {
            let own = session.clone();
            let look = self.execute.run(move || Ok(if plan.is_current(&own) { plan.again() } else { None }));
            if let Some(planned) = look.await? {
                self.cache.count(true);
                return Ok(Ready { planned, history: Some(history) });
            }
        }
        self.cache.count(false);
        let (own, statement) = (session.clone(), parsed.clone());
        let planned = self.optimize.run(move || own.plan(&statement, &values)).await?;
        if !planned.is_read_only() {
            return Err(Error::unsupported("only statements that read are allowed here").with_code(sqlstate::READ_ONLY));
        }
        let history = key.map(|key| self.cache.put(key, &planned));
        Ok(Ready { planned, history })
    }

    /// Starts a planned statement with this text.
    pub async fn begin(
        self: &Arc<Self>,
        session: &Session,
        asker: &Asker,
        statement: &str,
        ready: Ready,
    ) -> Result<Running> {
        let Ready { planned, history } = ready;
        let used = history.as_ref().and_then(|history| history.used());
        let query = Query::new(statement, planned.needs(), used);
        let expected = query.expected;
        let (admitted, passed) = self.admission.enter(asker, query).await?;
        let own = session.clone();
        let started = self.execute.run(move || begin(&own, planned, expected)).await?;
        Ok(Running::new(self, asker, started, admitted, passed, history))
    }

    /// Rows that this one may have of a statement.
    pub(crate) fn rows_max(&self, asker: &Asker) -> Option<u64> {
        [self.result_rows_max, asker.role.limits.result_rows_max].into_iter().flatten().min()
    }

    /// Has something computed that belongs to delivering results or taking data in.
    pub async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        self.execute.run(work).await
    }
}
