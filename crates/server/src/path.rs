//! A statement's way through the stages, for all doors.
//!
//! ```text
//!             parse ──▶ optimize ──▶ admission ──▶ execute ──▶ rows ──▶ disconnect
//!               ╰── a plan that is remembered ────────▲
//! ```
//!
//! Sessions wait here without a thread. What they give up (a cancel, a time limit, a client that left) ends by being dropped:
//! work in a queue is not begun, a query that runs is cancelled.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use diligence_base::ids::QueryId;
use diligence_base::{Error, ErrorKind, Result};
use diligence_db::{
    CancelToken, Database, Description, ParsedStatement, PlannedStatement, QueryResult, ResultKind, Session,
};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::admission::lanes::Ticket;
use crate::admission::{Admission, AdmissionOptions, Admitted, Asker, Class, History, Passed, Query};
use crate::cache::{PlanCache, PlanKey, Remembered};
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
    /// More running queries than cores keep the cores busy while others wait for files or for slow clients; a thousand waiting
    /// ones are some seconds of short queries. Heavy ones that run together share work and share the workers: with more of them each
    /// takes longer, and cheap ones wait longer for a worker.
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
    execute: Stage,
    write: Stage,
    disconnect: Stage,
    cache: PlanCache,
    admission: Arc<Admission>,
    result_rows_max: Option<u64>,
    /// Whose the queries are that run, by their numbers.
    owners: Mutex<HashMap<u64, Owner>>,
}

/// Whose a query is that runs.
#[derive(Clone)]
struct Owner {
    user: String,
    /// What it was known by at the door.
    ticket: Ticket,
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
        Ok(Arc::new(Self {
            database,
            parse: Stage::start("parse", threads, queue)?,
            optimize: Stage::start("optimize", threads, queue)?,
            execute: Stage::start("execute", threads, queue)?,
            write: Stage::start("write", WRITE_THREADS, queue)?,
            disconnect: Stage::start("disconnect", 1, queue)?,
            cache: PlanCache::default(),
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

    /// Cancels a query by its number, if its user (`None` once nobody is its owner any more) is one that `may` be touched. A number
    /// below zero is that of a query in line; it still holds when the query has been let in. False if there is no such query.
    pub fn cancel(&self, number: i64, may: impl Fn(Option<&str>) -> bool) -> bool {
        let engine = self.database.engine();
        let Some(ticket) = Ticket::numbered(number) else {
            let id = number.unsigned_abs();
            return may(self.owner(id).as_deref()) && engine.cancel(QueryId(id));
        };
        if self.admission.cancel(ticket, |user| may(Some(user))) {
            return true;
        }
        let running = {
            let owners = self.owners.lock();
            let mut found = owners.iter().filter(|(_, owner)| owner.ticket == ticket && may(Some(&owner.user)));
            found.next().map(|(id, _)| QueryId(*id))
        };
        running.is_some_and(|id| engine.cancel(id))
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
        let session = session.clone();
        self.parse.run(move || session.parse(&sql)).await
    }

    /// What a statement takes and gives. A statement without parameters is remembered planned.
    pub async fn describe(
        &self,
        session: &Session,
        parsed: &ParsedStatement,
        given: Vec<Option<DataType>>,
    ) -> Result<Description> {
        let key = PlanKey::new(session, parsed.text(), &[]);
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
        if let Some(Remembered { plan, history }) = key.as_ref().and_then(|key| self.cache.get(key)) {
            let query = Query::new(parsed.text(), plan.needs(), history.used());
            let class = query.class;
            let (admitted, passed) = self.admission.enter(asker, query).await?;
            let own = session.clone();
            let started = self.execute.run(move || {
                if !plan.is_current(&own) {
                    return Ok(None);
                }
                plan.again().map(|plan| begin(&own, plan, class)).transpose()
            });
            if let Some(started) = started.await? {
                self.cache.count(true);
                return Ok(Running::new(self, asker, started, admitted, passed, Some(history)));
            }
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
        let history = key.and_then(|key| self.cache.put(key, &planned));
        self.begin(session, asker, parsed.text(), Ready { planned, history }).await
    }

    /// Plans a statement that only reads, or finds it planned.
    pub async fn plan(&self, session: &Session, parsed: &ParsedStatement, values: Vec<ArrayRef>) -> Result<Ready> {
        let key = PlanKey::new(session, parsed.text(), &values);
        if let Some(Remembered { plan, history }) = key.as_ref().and_then(|key| self.cache.get(key)) {
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
        let history = key.and_then(|key| self.cache.put(key, &planned));
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
        let class = query.class;
        let (admitted, passed) = self.admission.enter(asker, query).await?;
        let own = session.clone();
        let started = self.execute.run(move || begin(&own, planned, class)).await?;
        Ok(Running::new(self, asker, started, admitted, passed, history))
    }

    /// Has something computed that belongs to delivering results or taking data in.
    pub async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        self.execute.run(work).await
    }
}

/// A result with how it began.
struct Started {
    result: QueryResult,
    fingerprint: Option<String>,
    /// The same once more, for one that does not wait for memory.
    retry: Option<Retry>,
}

/// What it takes to start a statement that was taken for cheap as one that waits for the memory that it needs.
struct Retry {
    session: Session,
    planned: PlannedStatement,
}

/// Starts a planned statement. A cheap one does not wait for memory; but only if it can be started again where it needs more than is free.
fn begin(session: &Session, planned: PlannedStatement, class: Class) -> Result<Started> {
    let fingerprint = planned.fingerprint();
    let again = if class == Class::Cheap { planned.again() } else { None };
    let planned = if again.is_some() { planned.needing_little() } else { planned };
    let retry = again.map(|planned| Retry { session: session.clone(), planned });
    Ok(Started { result: session.start_planned(planned)?, fingerprint, retry })
}

/// A statement that runs. Dropped, it is cancelled.
pub struct Running {
    path: Arc<Path>,
    owner: Owner,
    /// Only `None` while it is dropped or moved to the stage that waits for it.
    result: Option<QueryResult>,
    admitted: Option<Admitted>,
    passed: Passed,
    /// Until what it needed is noted.
    history: Option<Arc<History>>,
    fingerprint: Option<String>,
    schema: SchemaRef,
    is_command: bool,
    id: Option<u64>,
    rows: u64,
    rows_max: Option<u64>,
    retry: Option<Retry>,
    /// Its second start, while it is under way.
    restarting: Option<BoxFuture<'static, Result<Started>>>,
}

/// What a command did.
#[derive(Clone, Debug)]
pub struct CommandDone {
    /// What, as `INSERT`.
    pub tag: String,
    /// Rows that it concerned.
    pub rows: Option<u64>,
}

/// What is left of a statement that ended early; freed where that may take a while.
struct Remains {
    result: QueryResult,
    history: Option<Arc<History>>,
    _admitted: Option<Admitted>,
}

impl Drop for Remains {
    fn drop(&mut self) {
        note(self.history.take(), &self.result, false);
    }
}

/// Notes what a query needed.
fn note(history: Option<Arc<History>>, result: &QueryResult, complete: bool) {
    if let Some(history) = history
        && let Some(used) = result.used()
    {
        history.note(used, complete);
    }
}

impl Running {
    fn new(
        path: &Arc<Path>,
        asker: &Asker,
        started: Started,
        admitted: Admitted,
        passed: Passed,
        history: Option<Arc<History>>,
    ) -> Self {
        let result = started.result;
        let mut running = Self {
            path: path.clone(),
            owner: Owner { user: asker.user.clone(), ticket: admitted.ticket() },
            schema: result.schema(),
            is_command: matches!(result.kind(), ResultKind::Command { .. }),
            id: None,
            result: None,
            admitted: Some(admitted),
            passed,
            history,
            fingerprint: started.fingerprint,
            rows: 0,
            rows_max: [path.result_rows_max, asker.role.limits.result_rows_max].into_iter().flatten().min(),
            retry: started.retry,
            restarting: None,
        };
        running.is(result);
        running
    }

    /// How it was let in.
    pub fn passed(&self) -> &Passed {
        &self.passed
    }

    /// The columns; none for a command.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether it gives no rows but does something.
    pub fn is_command(&self) -> bool {
        self.is_command
    }

    /// Its number in `system.queries`.
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// A text that changes with the tables behind the query.
    pub fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// The next rows. Waits without a thread; may be dropped and called again.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        let batch = match self.poll_once().await {
            // There was less memory than a cheap query needs: it waits for it like others.
            Some(Err(error)) if error.kind() == ErrorKind::Resource && self.rows == 0 && self.retry.is_some() => {
                self.restart();
                self.poll_once().await
            }
            batch => batch,
        };
        if let Some(Ok(rows)) = &batch {
            self.rows += rows.num_rows() as u64;
            return match self.rows_max {
                Some(most) if self.rows > most => {
                    let error = Error::resource(format!("the result has more than {most} rows: no more are given"));
                    let hint =
                        "end the query with LIMIT, or have it aggregate; the limit is the server's or the role's";
                    Some(Err(error.with_code(sqlstate::LIMIT).with_hint(hint)))
                }
                _ => batch,
            };
        }
        if let Some(result) = &self.result {
            note(self.history.take(), result, batch.is_none());
        }
        // Others may run while the last rows are on their way.
        self.admitted = None;
        batch
    }

    async fn poll_once(&mut self) -> Option<Result<RecordBatch>> {
        if let Some(restarting) = &mut self.restarting {
            let started = restarting.await;
            self.restarting = None;
            match started {
                Ok(started) => self.is(started.result),
                Err(error) => return Some(Err(error)),
            }
        }
        let result = self.result.as_mut()?;
        poll_fn(|context| result.poll_batch(context)).await
    }

    /// Starts it anew, this time with the memory that it is sure of.
    fn restart(&mut self) {
        let Some(Retry { session, planned }) = self.retry.take() else { return };
        self.let_go(None, None);
        let path = self.path.clone();
        let start = async move { path.execute.run(move || begin(&session, planned, Class::Heavy)).await };
        self.restarting = Some(Box::pin(start));
    }

    /// Takes over a result as its own.
    fn is(&mut self, result: QueryResult) {
        self.id = result.id().map(|id| id.0);
        if let Some(id) = self.id {
            self.path.owners.lock().insert(id, self.owner.clone());
        }
        self.result = Some(result);
    }

    /// Has the result freed, and the place among those that run.
    fn let_go(&mut self, history: Option<Arc<History>>, admitted: Option<Admitted>) {
        if let Some(id) = self.id.take() {
            self.path.owners.lock().remove(&id);
        }
        if let Some(result) = self.result.take() {
            result.cancel_token().cancel();
            // Freeing what a query holds takes a while: not on a thread of the network.
            self.path.disconnect.dispose(Remains { result, history, _admitted: admitted });
        }
    }

    /// Does not count as running any more: its client does not read.
    pub fn stall(&mut self) {
        self.admitted = None;
    }

    /// Does a command's work to its end.
    pub async fn finish(mut self) -> Result<CommandDone> {
        let Some(mut result) = self.result.take() else { return Err(Error::bug("a command ran twice")) };
        let token = CancelOnDrop(Some(result.cancel_token()));
        let work = move || {
            while let Some(batch) = result.next_blocking() {
                batch?;
            }
            match result.kind() {
                ResultKind::Command { tag, rows } => Ok(CommandDone { tag: tag.to_owned(), rows }),
                ResultKind::Rows => Err(Error::bug("rows were taken for a command")),
            }
        };
        let done = self.path.write.run(work).await;
        token.keep();
        done
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (history, admitted) = (self.history.take(), self.admitted.take());
        self.let_go(history, admitted);
    }
}

/// Cancels a statement whose asker went away while it was waited for.
struct CancelOnDrop(Option<CancelToken>);

impl CancelOnDrop {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(token) = &self.0 {
            token.cancel();
        }
    }
}
