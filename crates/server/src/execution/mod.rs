//! Statement execution: a statement's way through the stages, for all doors.
//!
//! ```text
//!             parse ──▶ optimize ──▶ admission ──▶ execute ──▶ rows ──▶ disconnect
//!               ╰── a plan that is remembered ────────▲
//! ```
//!
//! Sessions wait here without a thread. What they give up (a cancel, a time limit, a client that left) ends by being
//! dropped: work in a queue is not begun, a query that runs is cancelled.

mod block;
mod delivery;
mod running;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use diligence_base::ids::QueryId;
use diligence_base::waits::{Pace, Quiet, WaitWatch};
use diligence_base::{Error, Result};
use diligence_db::plans::{GenericKey, PlanCache, PlanHistory, PlanKey, RememberedGeneric, RememberedPlan, Used};
use diligence_db::{Database, Description, Needs, ParsedStatement, PlannedStatement, Session, SharingOffer, Short};

pub(crate) use self::block::check_bytes;
pub use self::block::{Attempts, OpenBlock, ScriptDone, ScriptRows, ScriptStatement};
pub(crate) use self::delivery::{Making, delivered};
pub use self::running::{CommandDone, RunningStatement};
use self::running::{Runner, StartedStatement};
use crate::admission::lanes::Ticket;
use crate::admission::{Admission, AdmissionOptions, Asker, Class, Query};
use crate::measures::{Measures, Watch};
use crate::sqlstate;
use crate::stages::{Stage, StageCounters};

/// How long a client may take none of a query's rows before the query is said to be stalled.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(1);

/// How many threads and places the stages have, and how many queries run.
#[derive(Clone, Copy, Debug)]
pub struct ExecutionOptions {
    /// Threads of the stages that compute; one per core if `None`.
    pub threads: Option<usize>,
    /// Places in the queue of each stage.
    pub stage_queue_max: usize,
    /// Cheap queries that run at once; those that share a run count as one.
    pub running_max: usize,
    /// Heavy queries that run at once; those that share a run count as one.
    pub heavy_max: usize,
    /// Queries that wait for their turn to run, of each class.
    pub queue_max: usize,
    /// From which time on a statement is slow, and is logged; none is if `None`.
    pub slow_statement: Option<Duration>,
}

impl Default for ExecutionOptions {
    /// More running queries than cores keep the cores busy while others wait for files or for slow clients; a thousand
    /// waiting ones are some seconds of short queries. Heavy ones that run together share work and share the workers:
    /// with more of them each takes longer, and cheap ones wait longer for a worker.
    fn default() -> Self {
        Self {
            threads: None,
            stage_queue_max: 256,
            running_max: 64,
            heavy_max: 16,
            queue_max: 1024,
            slow_statement: None,
        }
    }
}

/// Threads that statements which write wait on: they block until the write is done. As many as that can be synced at
/// once.
const WRITE_THREADS: usize = 32;

/// What a write takes at most, on average, that is waited for on a thread of the network: a delay that clients of its
/// other connections do not notice.
const WRITE_TIME_MAX: Duration = Duration::from_millis(1);

/// The stages, and the door to the engine.
pub struct StatementExecution {
    database: Database,
    parse: Stage,
    optimize: Stage,
    runner: Arc<Runner>,
    admission: Arc<Admission>,
    measures: Arc<Measures>,
    /// Whether short statements that read wait for a disk.
    short_reads: Quiet,
    /// What those take that write.
    writes: Pace,
}

/// A plan that is ready to start, and where to note what it uses.
pub struct ReadyStatement {
    /// The plan.
    pub planned: PlannedStatement,
    history: Option<Arc<PlanHistory>>,
}

/// What a statement may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Anything.
    Anything,
    /// What a rollback undoes: it is in a transaction.
    Undoable,
    /// Nothing but reading.
    Reading,
}

impl Allowed {
    fn check(self, planned: &PlannedStatement) -> Result<()> {
        if planned.is_transaction_step() {
            // Sessions that have transactions answer these themselves.
            let error =
                Error::unsupported("requests over HTTP have no session, so no statement begins or ends a transaction");
            let hint = "a request with the header Diligence-Transaction is one; blocks are for PostgreSQL's protocol";
            return Err(error.with_code(sqlstate::UNSUPPORTED).with_hint(hint));
        }
        if self == Self::Anything || planned.is_read_only() {
            return Ok(());
        }
        if self == Self::Reading && (planned.is_temporary() || planned.changes_nothing()) {
            return Ok(());
        }
        if self == Self::Reading {
            let error = Error::unsupported("this statement cannot run in a read-only transaction");
            return Err(error.with_code(sqlstate::READ_ONLY).with_hint("begin one that may write: BEGIN READ WRITE"));
        }
        if planned.is_undoable() {
            return Ok(());
        }
        let error = Error::unsupported("files cannot be written inside a transaction: it could not be undone");
        Err(error.with_code(sqlstate::ACTIVE_TRANSACTION).with_hint("run it by itself (autocommit)"))
    }
}

impl StatementExecution {
    /// Starts the stages. Fails with kind `Resource` if the system has no threads left.
    pub fn open(database: Database, options: ExecutionOptions, result_rows_max: Option<u64>) -> Result<Arc<Self>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.unwrap_or(cores).max(1);
        let queue = options.stage_queue_max;
        let ExecutionOptions { running_max: cheap_max, heavy_max, queue_max, .. } = options;
        let status = database.status().clone();
        let budget = move || status.memory_budget_bytes();
        let admission = Admission::new(AdmissionOptions { cheap_max, heavy_max, queue_max }, budget);
        let parse = Stage::start("parse", threads, queue)?;
        let optimize = Stage::start("optimize", threads, queue)?;
        let execute = Stage::start("execute", threads, queue)?;
        let write = Stage::start("write", WRITE_THREADS, queue)?;
        let disconnect = Stage::start("disconnect", 1, queue)?;
        let runner = Arc::new(Runner::new(execute, write, disconnect, result_rows_max));
        let measures = Arc::new(Measures::default());
        measures.slow_from(options.slow_statement);
        let (short_reads, writes) = (Quiet::default(), Pace::new(WRITE_TIME_MAX));
        Ok(Arc::new(Self { database, parse, optimize, runner, admission, measures, short_reads, writes }))
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Who may run.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// What statements took and how they ended.
    pub fn measures(&self) -> &Arc<Measures> {
        &self.measures
    }

    /// Whose a query is that runs.
    pub fn owner(&self, query: u64) -> Option<String> {
        self.runner.owner(query)
    }

    /// Cancels a query by its number, if its user (`None` once nobody is its owner any more) is one that `may` be
    /// touched. A number below zero is that of a query in line; it still holds when the query has been let in. False if
    /// there is no such query.
    pub fn cancel(&self, number: i64, may: impl Fn(Option<&str>) -> bool) -> bool {
        let Some(ticket) = Ticket::numbered(number) else {
            let id = number.unsigned_abs();
            let is_found = may(self.owner(id).as_deref()) && self.database.cancel(QueryId(id));
            tracing::info!(query = id, is_found, "a query is cancelled by its number");
            return is_found;
        };
        // Noted at the door first: a query that has no number yet is looked for there when it has one.
        let is_known = self.admission.cancel(ticket, |user| may(Some(user)));
        let running = self.runner.query_of(ticket, |user| may(Some(user)));
        let is_found = running.is_some_and(|id| self.database.cancel(QueryId(id))) || is_known;
        tracing::info!(query = number, is_found, "a waiting query is cancelled by its number");
        is_found
    }

    /// Plans that are remembered.
    pub fn plan_cache(&self) -> &PlanCache {
        self.database.plan_cache()
    }

    /// The stages' counters, in the order in which a statement meets them.
    pub fn stages(&self) -> Vec<StageCounters> {
        let [execute, write, disconnect] = self.runner.stages();
        [&self.parse, &self.optimize, execute, write, disconnect].map(Stage::counters).to_vec()
    }

    /// Cuts a script into statements. Fails as [`Session::split`] does.
    pub async fn statements_of(&self, script: String) -> Result<Vec<String>> {
        let coded = |error: Error| if error.code().is_some() { error } else { error.with_code("42601") };
        self.parse.run(move || Session::split(&script).map_err(coded)).await
    }

    /// The syntax tree of a statement. Fails as [`Session::parse`] does.
    pub async fn parse(&self, session: &Session, sql: String) -> Result<ParsedStatement> {
        let identity = session.planning_identity();
        if let Some(parsed) = self.plan_cache().parsed(identity, &sql) {
            return Ok(parsed);
        }
        let (own, text) = (session.clone(), sql.clone());
        let parsed = self.parse.run(move || own.parse(&text)).await;
        let parsed = parsed.inspect_err(|error| self.measures.failed(error, "", &sql))?;
        self.plan_cache().put_parsed(identity, &sql, &parsed);
        Ok(parsed)
    }

    /// What a statement takes and gives. Fails as [`Session::describe`] does.
    pub async fn describe(
        &self,
        session: &Session,
        parsed: &ParsedStatement,
        given: Vec<Option<DataType>>,
    ) -> Result<Description> {
        let key = PlanKey::of(session.planning_identity(), parsed, &[]);
        let wanted = key.as_ref().filter(|_| given.is_empty());
        if let Some(known) = self.current_plan(session, wanted).await? {
            return Ok(Description { schema: known.plan.schema(), ..Description::default() });
        }
        let (own, statement) = (session.clone(), parsed.clone());
        let described = self.optimize.run(move || {
            let description = own.describe(&statement, &given)?;
            // Whoever asks is about to run it. One that cannot be planned says why when it is run.
            let is_whole = description.parameters.is_empty() && description.schema.is_some();
            let planned = is_whole.then(|| own.plan(&statement, &[]).ok()).flatten();
            Ok((description, planned))
        });
        let described = described.await;
        let (description, planned) = described.inspect_err(|error| self.measures.failed(error, "", parsed.text()))?;
        if let (Some(key), Some(planned)) = (key, planned) {
            self.plan_cache().put(key, &planned);
        }
        Ok(description)
    }

    /// Plans a statement, or finds it planned, and starts it. Fails with the error of planning or starting it, with
    /// kind `Retry` if too many queries wait, with kind `Cancelled` if somebody wants it to wait no more, and with kind
    /// `Unsupported` if it would do what is not allowed.
    pub async fn start(
        &self,
        session: &Session,
        asker: &Asker,
        parsed: &ParsedStatement,
        values: Vec<ArrayRef>,
        allowed: Allowed,
    ) -> Result<RunningStatement> {
        let watch = Watch::begin(&self.measures, asker.origin(), parsed.text());
        watched(watch, self.start_unwatched(session, asker, parsed, values, allowed)).await
    }

    async fn start_unwatched(
        &self,
        session: &Session,
        asker: &Asker,
        parsed: &ParsedStatement,
        values: Vec<ArrayRef>,
        allowed: Allowed,
    ) -> Result<RunningStatement> {
        let cache = self.plan_cache();
        let generic = GenericKey::of(session.planning_identity(), parsed, &values);
        // What is done in no time is not looked for by its values.
        let is_short = generic.as_ref().is_some_and(|generic| self.is_short(generic));
        let key_of_values = || PlanKey::of(session.planning_identity(), parsed, &values);
        let key = if is_short { None } else { key_of_values() };
        if let Some(remembered) = key.as_ref().and_then(|key| cache.get(key))
            && let Some(running) = self.start_remembered(remembered, session, asker, parsed).await?
        {
            cache.count(true);
            return Ok(running);
        }
        if let Some(generic) = &generic
            && let Some(running) = self.start_generic(generic, session, asker, parsed, &values, allowed).await?
        {
            cache.count(true);
            return Ok(running);
        }
        let key = key.or_else(key_of_values);
        let ready = self.plan_anew(session, key, parsed, values).await?;
        allowed.check(&ready.planned)?;
        if let (Some(generic), Some(history)) = (generic, &ready.history) {
            let known = cache.generic(&generic);
            if known.as_ref().is_none_or(|known| known.history.used().is_none()) {
                let plan = known.and_then(|known| known.plan);
                cache.put_generic(generic, RememberedGeneric { plan, history: history.shared() });
            }
        }
        self.start_planned(session, asker, parsed.text(), ready).await
    }

    /// Starts a statement by the plan that is remembered, or gives the rows that are remembered; `None` if the plan is
    /// not current any more.
    async fn start_remembered(
        &self,
        remembered: RememberedPlan,
        session: &Session,
        asker: &Asker,
        parsed: &ParsedStatement,
    ) -> Result<Option<RunningStatement>> {
        let RememberedPlan { plan, history, answer } = remembered;
        if let Some(rows) = answer.get() {
            return Ok(Some(RunningStatement::answered(&self.runner, asker, &plan, rows)));
        }
        let answer = plan.is_constant().then_some(answer);
        let offer = match session.may_share(&plan) {
            false => None,
            // To compare plans takes longer than a thread of the network has.
            true => {
                let (own, plan) = (session.clone(), plan.clone());
                let offer = move || Ok(plan.renewed(&own).map(|plan| own.sharing_offer(&plan)));
                let Some(offer) = self.runner.compute(offer).await? else { return Ok(None) };
                offer
            }
        };
        let query = Query::new(parsed.text(), plan.needs(), history.used()).offered(offer);
        let text = parsed.text().to_owned();
        let current = move |session: &Session| plan.renewed(session).map(|plan| plan.labelled(&text));
        let running = self.admit(session, asker, query, Some(history), current).await?;
        Ok(running.map(|running| running.remembering(answer)))
    }

    /// Starts a statement that has run with other values, by its generic plan; `None` if it has none, or is not known
    /// to be cheap.
    async fn start_generic(
        &self,
        key: &GenericKey,
        session: &Session,
        asker: &Asker,
        parsed: &ParsedStatement,
        values: &[ArrayRef],
        allowed: Allowed,
    ) -> Result<Option<RunningStatement>> {
        let cache = self.plan_cache();
        let Some(RememberedGeneric { plan, history }) = cache.generic(key) else { return Ok(None) };
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
                let known = RememberedGeneric { plan: Some(plan.clone()), history: history.clone() };
                cache.put_generic(key.clone(), known);
                plan
            }
        };
        let Some(plan) = plan else { return Ok(None) };
        if plan.may_be_short() {
            let planned = plan.with(values, session).ok().flatten();
            return match planned.filter(|planned| allowed.check(planned).is_ok()) {
                Some(planned) => self.start_short(planned, session, asker, parsed, (history, used)).await.map(Some),
                None => {
                    cache.put_generic(key.clone(), RememberedGeneric { plan: None, history });
                    Ok(None)
                }
            };
        }
        let query = Query::new(parsed.text(), plan.needs(), Some(used));
        let values = values.to_vec();
        // These values may not suit the plan: then one is made for them.
        let with_values = move |session: &Session| {
            let planned = plan.with(&values, session).ok().flatten();
            planned.filter(|planned| allowed.check(planned).is_ok())
        };
        let running = self.admit(session, asker, query, Some(history.clone()), with_values).await?;
        if running.is_none() {
            // Its tables have changed, most likely: the next one tries again.
            cache.put_generic(key.clone(), RememberedGeneric { plan: None, history });
        }
        Ok(running)
    }

    /// Whether a plan for all values is remembered under a key, and may take the short path.
    pub fn is_short(&self, key: &GenericKey) -> bool {
        let known = self.plan_cache().generic(key).and_then(|known| known.plan).flatten();
        known.is_some_and(|plan| plan.may_be_short())
    }

    /// Plans a statement for all values, and remembers that under the key; whether it may take the short path. A
    /// statement that cannot be planned may not.
    pub async fn plan_short(&self, session: &Session, key: &GenericKey, parsed: &ParsedStatement) -> bool {
        let (own, statement, types) = (session.clone(), parsed.clone(), key.types().to_vec());
        let planned = self.optimize.run(move || own.plan_generic(&statement, &types)).await;
        let Some(plan) = planned.ok().flatten().filter(|plan| plan.may_be_short()) else { return false };
        let known = self.plan_cache().generic(key);
        let history = known.map(|known| known.history).unwrap_or_default();
        self.plan_cache().put_generic(key.clone(), RememberedGeneric { plan: Some(Some(plan)), history });
        true
    }

    /// Runs a statement at once that may be short, or starts it as any other. It takes less time than to hand it to
    /// another thread, so that is done only where it may wait for a disk for longer, or others wait as well: then they
    /// are synced together.
    async fn start_short(
        &self,
        planned: PlannedStatement,
        session: &Session,
        asker: &Asker,
        parsed: &ParsedStatement,
        (history, used): (Arc<PlanHistory>, Used),
    ) -> Result<RunningStatement> {
        let fingerprint = planned.fingerprint();
        let (own, reads) = (session.clone(), planned.is_read_only());
        let run = move || {
            let watch = WaitWatch::begin();
            let short = own.run_short(planned);
            (short, watch.has_waited())
        };
        let (short, has_waited) = if session.commits_at_once(false) || reads && self.short_reads.is_expected() {
            run()
        } else if reads {
            self.runner.commit(move || Ok(run())).await?
        } else {
            self.written(move || Ok(run())).await?
        };
        if reads {
            self.short_reads.note(has_waited);
        }
        let planned = match short? {
            Short::Done(result) => return Ok(RunningStatement::done(&self.runner, asker, result, fingerprint)),
            Short::Not(planned) => planned,
        };
        let query = Query::new(parsed.text(), planned.needs(), Some(used));
        let running = self.admit(session, asker, query, Some(history), move |_| Some(planned)).await?;
        running.ok_or_else(|| Error::bug("a planned statement did not start"))
    }

    /// Plans a statement that only reads, or finds it planned. Fails with the error of planning it, and with kind
    /// `Unsupported` if it does more than read.
    pub async fn plan(
        &self,
        session: &Session,
        parsed: &ParsedStatement,
        values: Vec<ArrayRef>,
    ) -> Result<ReadyStatement> {
        let key = PlanKey::of(session.planning_identity(), parsed, &values);
        if let Some(RememberedPlan { plan, history, .. }) = key.as_ref().and_then(|key| self.plan_cache().get(key)) {
            let own = session.clone();
            if let Some(planned) = self.runner.compute(move || Ok(plan.renewed(&own))).await? {
                self.plan_cache().count(true);
                return Ok(ReadyStatement { planned: planned.labelled(parsed.text()), history: Some(history) });
            }
        }
        let ready = self.plan_anew(session, key, parsed, values).await?;
        if !ready.planned.is_read_only() {
            return Err(Error::unsupported("only statements that read are allowed here").with_code(sqlstate::READ_ONLY));
        }
        Ok(ready)
    }

    /// What the tables are like behind a statement, as [`PlannedStatement::fingerprint`] tells it, if its plan is
    /// remembered and that can be told at once; otherwise `None`.
    pub fn states_behind(&self, session: &Session, parsed: &ParsedStatement, values: &[ArrayRef]) -> Option<String> {
        let key = PlanKey::of(session.planning_identity(), parsed, values)?;
        let states = self.plan_cache().get(&key)?.plan.states_now(session)?;
        self.plan_cache().count(true);
        Some(states)
    }

    /// Starts a planned statement with this text. Fails as [`start`](Self::start) does.
    pub async fn start_ready(
        &self,
        session: &Session,
        asker: &Asker,
        statement: &str,
        ready: ReadyStatement,
    ) -> Result<RunningStatement> {
        let watch = Watch::begin(&self.measures, asker.origin(), statement);
        watched(watch, self.start_planned(session, asker, statement, ready)).await
    }

    async fn start_planned(
        &self,
        session: &Session,
        asker: &Asker,
        statement: &str,
        ready: ReadyStatement,
    ) -> Result<RunningStatement> {
        let ReadyStatement { planned, history } = ready;
        let used = history.as_ref().and_then(|history| history.used());
        let (offer, planned) = self.offer(session, planned).await?;
        let query = Query::new(statement, planned.needs(), used).offered(offer);
        let running = self.admit(session, asker, query, history, move |_| Some(planned)).await?;
        running.ok_or_else(|| Error::bug("a planned statement did not start"))
    }

    /// What a statement could share if it started now, and its plan. To compare plans takes longer than a thread of the
    /// network has, so it is done elsewhere, of those that may share at all.
    async fn offer<P>(&self, session: &Session, planned: P) -> Result<(Option<SharingOffer>, P)>
    where
        P: Borrow<PlannedStatement> + Send + 'static,
    {
        if !session.may_share(planned.borrow()) {
            return Ok((None, planned));
        }
        let own = session.clone();
        self.runner.compute(move || Ok((own.sharing_offer(planned.borrow()), planned))).await
    }

    /// The plan that is remembered under a key, if it is current.
    async fn current_plan(&self, session: &Session, key: Option<&PlanKey>) -> Result<Option<RememberedPlan>> {
        let Some(remembered) = key.and_then(|key| self.plan_cache().get(key)) else { return Ok(None) };
        if remembered.plan.is_constant() {
            return Ok(Some(remembered));
        }
        let (own, plan) = (session.clone(), remembered.plan.clone());
        let is_current = self.runner.compute(move || Ok(plan.renewed(&own).is_some())).await?;
        Ok(is_current.then_some(remembered))
    }

    /// Plans a statement, and remembers the plan under the key.
    async fn plan_anew(
        &self,
        session: &Session,
        key: Option<PlanKey>,
        parsed: &ParsedStatement,
        values: Vec<ArrayRef>,
    ) -> Result<ReadyStatement> {
        self.plan_cache().count(false);
        let (own, statement) = (session.clone(), parsed.clone());
        let planned = self.optimize.run(move || own.plan(&statement, &values)).await?;
        let history = key.map(|key| self.plan_cache().put(key, &planned));
        Ok(ReadyStatement { planned, history })
    }

    /// Waits until the query may run, and starts what `plan` gives then; `None` if that is nothing. `plan` is called on
    /// a thread that may look at files.
    async fn admit(
        &self,
        session: &Session,
        asker: &Asker,
        query: Query<'_>,
        history: Option<Arc<PlanHistory>>,
        plan: impl FnOnce(&Session) -> Option<PlannedStatement> + Send + 'static,
    ) -> Result<Option<RunningStatement>> {
        let expected = query.expected;
        let (admitted, passed) = self.admission.enter(asker, &query).await?;
        let own = session.clone();
        let start = move || plan(&own).map(|planned| StartedStatement::start(&own, planned, expected)).transpose();
        let started = self.runner.compute(start).await?;
        Ok(started.map(|started| RunningStatement::new(&self.runner, asker, started, admitted, passed, history)))
    }

    /// Has work done that waits for a disk until it is written: here, if it is the only one and the disk is quick.
    async fn written<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let running = self.writes.begin();
        if running.may_stay() { work() } else { self.runner.commit(work).await }
    }

    /// Makes the changes of a session's transaction everybody's. Fails as [`Session::commit`] does; then nothing of
    /// them is there.
    pub async fn commit(&self, session: &Session) -> Result<()> {
        if session.commits_at_once(true) {
            return session.commit();
        }
        let own = session.clone();
        match session.has_put_off() {
            // Triggers take their own time, and it may wait for other transactions, whose ends it is not to hold up.
            true => {
                let io = session.database().engine().io_handle().clone();
                let committed = io.spawn_blocking(move || own.commit()).await;
                committed.unwrap_or_else(|error| Err(Error::bug(format!("a commit ended early: {error}"))))
            }
            false => self.written(move || own.commit()).await,
        }
    }

    /// Has something computed that belongs to delivering results or taking data in. Fails with the error of the work,
    /// and with kind `Resource` if the server is stopping.
    pub async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        self.runner.compute(work).await
    }
}

/// Has a statement watched from its start to its end.
async fn watched(mut watch: Watch, start: impl Future<Output = Result<RunningStatement>>) -> Result<RunningStatement> {
    match start.await {
        Ok(running) => Ok(running.watched(watch)),
        Err(error) => {
            watch.failed(&error);
            Err(error)
        }
    }
}
