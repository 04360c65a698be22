//! A statement that runs: its rows as they come, and what becomes of what it held.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::{Error, ErrorKind, Result};
use diligence_db::plans::{ANSWER_BYTES_MAX, PlanHistory};
use diligence_db::{CancelToken, PlannedStatement, Printed, QueryResult, ResultKind, Session};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::admission::lanes::Ticket;
use crate::admission::{Admitted, Asker, Class, Expected, Passed};
use crate::measures::Watch;
use crate::sqlstate;
use crate::stages::Stage;

/// What statements that run have in common: the stages where their work is done, and whose they are.
pub(super) struct Runner {
    execute: Stage,
    write: Stage,
    disconnect: Stage,
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

impl Runner {
    pub(super) fn new(execute: Stage, write: Stage, disconnect: Stage, result_rows_max: Option<u64>) -> Self {
        Self { execute, write, disconnect, result_rows_max, owners: Mutex::default() }
    }

    /// *execute*, *write* and *disconnect*.
    pub(super) fn stages(&self) -> [&Stage; 3] {
        [&self.execute, &self.write, &self.disconnect]
    }

    /// Has work done on a thread of *execute*.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.execute.run(work).await
    }

    /// Has work done on a thread that may wait for a disk.
    pub(super) async fn commit<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.write.run(work).await
    }

    /// Whose a query is that runs.
    pub(super) fn owner(&self, query: u64) -> Option<String> {
        self.owners.lock().get(&query).map(|owner| owner.user.clone())
    }

    /// The number of the query that had this ticket at the door, if it runs and its user is one that `may` be touched.
    pub(super) fn query_of(&self, ticket: Ticket, may: impl Fn(&str) -> bool) -> Option<u64> {
        let owners = self.owners.lock();
        let mut found = owners.iter().filter(|(_, owner)| owner.ticket == ticket && may(&owner.user));
        found.next().map(|(id, _)| *id)
    }

    /// Rows that this client may have of a statement.
    fn rows_max(&self, asker: &Asker) -> Option<u64> {
        [self.result_rows_max, asker.role.limits.result_rows_max].into_iter().flatten().min()
    }
}

/// A result with how it began.
pub(super) struct StartedStatement {
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

impl StartedStatement {
    /// Starts a planned statement. A cheap one does not wait for memory; but only if it can be started again where it
    /// needs more than is free.
    pub(super) fn start(session: &Session, planned: PlannedStatement, expected: Expected) -> Result<Self> {
        let planned = planned.expected_to_work(expected.work);
        let fingerprint = planned.fingerprint();
        let again = if expected.class == Class::Cheap { planned.once_more() } else { None };
        let planned = if again.is_some() { planned.needing_little() } else { planned };
        let retry = again.map(|planned| Retry { session: session.clone(), planned });
        Ok(Self { result: session.start_planned(planned)?, fingerprint, retry })
    }
}

/// A statement that runs. Dropped, it is cancelled.
pub struct RunningStatement {
    runner: Arc<Runner>,
    owner: Owner,
    /// Only `None` while it is dropped or moved to the stage that waits for it.
    result: Option<QueryResult>,
    admitted: Option<Admitted>,
    passed: Passed,
    /// Until what it needed is noted.
    history: Option<Arc<PlanHistory>>,
    fingerprint: Option<String>,
    schema: SchemaRef,
    is_command: bool,
    id: Option<u64>,
    rows: u64,
    rows_max: Option<u64>,
    retry: Option<Retry>,
    /// Its rows so far, and where to remember them.
    answer: Option<(Vec<RecordBatch>, Arc<OnceLock<Vec<RecordBatch>>>)>,
    /// Its second start, while it is under way.
    restarting: Option<BoxFuture<'static, Result<StartedStatement>>>,
    watch: Option<Watch>,
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
    history: Option<Arc<PlanHistory>>,
    _admitted: Option<Admitted>,
}

impl Drop for Remains {
    fn drop(&mut self) {
        note(self.history.take(), &self.result, false);
    }
}

/// Notes what a query needed.
fn note(history: Option<Arc<PlanHistory>>, result: &QueryResult, complete: bool) {
    if let Some(history) = history
        && let Some(used) = result.used()
    {
        history.note(used, complete);
    }
}

/// Says that a statement is at its end.
fn done(watch: Option<Watch>, result: Option<&QueryResult>) {
    if let Some(mut watch) = watch {
        watch.done(|| Some(result?.profile()?.to_string()));
    }
}

impl RunningStatement {
    pub(super) fn new(
        runner: &Arc<Runner>,
        asker: &Asker,
        started: StartedStatement,
        admitted: Admitted,
        passed: Passed,
        history: Option<Arc<PlanHistory>>,
    ) -> Self {
        let result = started.result;
        let mut running = Self {
            runner: runner.clone(),
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
            rows_max: runner.rows_max(asker),
            retry: started.retry,
            answer: None,
            restarting: None,
            watch: None,
        };
        running.is(result);
        running
    }

    /// A statement whose rows are known. It needs no worker, so it stands in no line.
    pub(super) fn answered(runner: &Arc<Runner>, asker: &Asker, plan: &PlannedStatement, rows: &[RecordBatch]) -> Self {
        let schema = plan.schema().unwrap_or_else(|| Arc::new(Schema::empty()));
        Self::done(runner, asker, QueryResult::rows(schema, rows.to_vec()), plan.fingerprint())
    }

    /// A statement that is done.
    pub(super) fn done(runner: &Arc<Runner>, asker: &Asker, result: QueryResult, fingerprint: Option<String>) -> Self {
        Self {
            runner: runner.clone(),
            owner: Owner { user: asker.user.clone(), ticket: Ticket(0) },
            schema: result.schema(),
            is_command: matches!(result.kind(), ResultKind::Command { .. }),
            result: Some(result),
            admitted: None,
            passed: Passed { class: Class::Cheap, place: None, waited: Duration::ZERO },
            history: None,
            fingerprint,
            id: None,
            rows: 0,
            rows_max: runner.rows_max(asker),
            retry: None,
            answer: None,
            restarting: None,
            watch: None,
        }
    }

    /// The same, whose rows will be remembered if they are few.
    pub(super) fn remembering(mut self, answer: Option<Arc<OnceLock<Vec<RecordBatch>>>>) -> Self {
        self.answer = answer.map(|answer| (Vec::new(), answer));
        self
    }

    /// The same, and told of how it ends.
    pub(super) fn watched(mut self, watch: Watch) -> Self {
        self.watch = Some(watch);
        self
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

    /// What functions in other languages print while it runs.
    pub fn printed(&self) -> Printed {
        self.result.as_ref().map(QueryResult::printed).unwrap_or_default()
    }

    /// What a statement with RETURNING has done, once its rows are there.
    pub fn written(&self) -> Option<CommandDone> {
        let (tag, rows) = self.result.as_ref()?.written()?;
        Some(CommandDone { tag: tag.to_owned(), rows: Some(rows) })
    }

    /// A text that changes with the tables behind the query.
    pub fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// The next rows. Waits without a thread; may be dropped and called again. Fails with the error that ends the
    /// statement, and with kind `Resource` if there are more rows than the client may have.
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
            if let Some(watch) = &mut self.watch {
                watch.gave_rows();
            }
            if let Some((kept, _)) = &mut self.answer {
                kept.push(rows.clone());
                if kept.iter().map(RecordBatch::get_array_memory_size).sum::<usize>() > ANSWER_BYTES_MAX {
                    self.answer = None;
                }
            }
            return match self.rows_max {
                Some(most) if self.rows > most => {
                    let error = Error::resource(format!("the result has more than {most} rows: no more are given"));
                    let hint =
                        "end the query with LIMIT, or have it aggregate; the limit is the server's or the role's";
                    let error = error.with_code(sqlstate::LIMIT).with_hint(hint);
                    self.failed(&error);
                    Some(Err(error))
                }
                _ => batch,
            };
        }
        if let Some(result) = &self.result {
            note(self.history.take(), result, batch.is_none());
        }
        match &batch {
            Some(Err(error)) => self.failed(error),
            _ => done(self.watch.take(), self.result.as_ref()),
        }
        if let (Some((rows, answer)), None) = (self.answer.take(), &batch) {
            let _ = answer.set(rows);
        }
        // Others may run while the last rows are on their way.
        self.admitted = None;
        batch
    }

    fn failed(&mut self, error: &Error) {
        if let Some(watch) = &mut self.watch {
            watch.failed(error);
        }
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
        let Self { result, admitted, id, runner, owner, .. } = self;
        let result = result.as_mut()?;
        poll_fn(|context| {
            let batch = result.poll_batch(context);
            if batch.is_pending() && result.is_waiting() {
                // The transaction that it waits for may need the place.
                *admitted = None;
            }
            // It has another number when it was started again.
            if let Some(now) = result.id().map(|id| id.0).filter(|now| *id != Some(*now)) {
                let mut owners = runner.owners.lock();
                id.replace(now).inspect(|before| drop(owners.remove(before)));
                owners.insert(now, owner.clone());
            }
            batch
        })
        .await
    }

    /// Starts it anew, this time with the memory that it is sure of.
    fn restart(&mut self) {
        let Some(Retry { session, planned }) = self.retry.take() else { return };
        self.let_go(None, None);
        let runner = self.runner.clone();
        let start = move || StartedStatement::start(&session, planned, Expected::unknown(Class::Heavy));
        self.restarting = Some(Box::pin(async move { runner.compute(start).await }));
    }

    /// Takes over a result as its own.
    fn is(&mut self, result: QueryResult) {
        self.id = result.id().map(|id| id.0);
        if let Some(id) = self.id {
            self.runner.owners.lock().insert(id, self.owner.clone());
        }
        if self.admitted.as_ref().is_some_and(Admitted::is_unwanted) {
            result.cancel_token().cancel();
        }
        self.result = Some(result);
    }

    /// Has the result freed, and the place among those that run.
    fn let_go(&mut self, history: Option<Arc<PlanHistory>>, admitted: Option<Admitted>) {
        let had_number = self.id.take().inspect(|id| drop(self.runner.owners.lock().remove(id))).is_some();
        if let Some(result) = self.result.take()
            && had_number
        {
            result.cancel_token().cancel();
            // Freeing what a query holds takes a while: not on a thread of the network.
            self.runner.disconnect.dispose(Remains { result, history, _admitted: admitted });
        }
    }

    /// Does not count as running any more: its client does not read. What memory it was sure of, others may have, too.
    /// May be said again and again: a query that was busy the first time may have come to rest.
    pub fn stall(&mut self) {
        self.admitted = None;
        if let Some(result) = &mut self.result {
            result.pause();
        }
    }

    /// Does a command's work to its end. Fails with the error that ends it.
    pub async fn finish(mut self) -> Result<CommandDone> {
        let mut watch = self.watch.take();
        let ended = self.run_to_its_end().await;
        match &ended {
            Ok((_, result)) => done(watch, Some(result)),
            Err(error) => {
                if let Some(watch) = &mut watch {
                    watch.failed(error);
                }
            }
        }
        ended.map(|(command, _)| command)
    }

    async fn run_to_its_end(&mut self) -> Result<(CommandDone, QueryResult)> {
        let Some(mut result) = self.result.take() else { return Err(Error::bug("a command ran twice")) };
        let token = CancelOnDrop(Some(result.cancel_token()));
        while !result.is_done() {
            let work = move || result.work_blocking().map(|waits| (waits, result));
            let waits = match self.runner.write.run(work).await {
                Ok((waits, worked)) => {
                    result = worked;
                    waits
                }
                Err(error) => {
                    token.keep();
                    return Err(error);
                }
            };
            if !waits {
                break;
            }
            // Neither a thread nor a place is taken meanwhile: the transaction that it waits for may need them.
            self.admitted = None;
            result.wait().await?;
        }
        token.keep();
        note(self.history.take(), &result, true);
        match result.kind() {
            ResultKind::Command { tag, rows } => {
                let command = CommandDone { tag: tag.to_owned(), rows };
                Ok((command, result))
            }
            ResultKind::Rows => Err(Error::bug("rows were taken for a command")),
        }
    }
}

impl Drop for RunningStatement {
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
