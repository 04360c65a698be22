//! Procedures: blocks whose statements run one after the other in the session that calls them.
//!
//! * `variables`: what names in a block stand for.
//! * `run`: the steps of a block; each statement is planned with the values of the variables that it names.
//! * `raised`: RAISE, and which errors a handler is for.
//!
//! A statement that calls a procedure runs in the session's transaction, or in one of its own that is committed when it
//! has ended, so that all of it is there or nothing. Its query has one packet for each pipeline: rows call one by one.

mod conditions;
mod raised;
mod run;
#[cfg(test)]
mod tests;
mod variables;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_catalog::Isolation;
use diligence_engine::QueryOptions;
use diligence_engine::query::{KeptRows, Printed, QueryStream};
use diligence_engine::stages::{Caller, caller, outside};
use diligence_sql::procedural::{Gives, Procedure};
use diligence_sql::{
    Called, Command, DeferredTrigger, Part, Planned, Query, QueryRunner, Several, Statement, TriggerRunner, Write,
};
use diligence_storage::foreign_error::from_arrow;
use parking_lot::MutexGuard;

use self::run::Run;
use super::cancelling::CancelToken;
use super::done::count_of;
use super::explained::Explained;
use super::ready::ReadyRows;
use super::result::QueryResult;
use super::start::{RETRIES_MAX, is_of_others};
use super::transaction::in_transaction;
use crate::plans::Source;
use crate::sender::Sender;
use crate::session::{Parts, Session};

impl QueryRunner for Parts {
    fn rows(&self, query: &Query) -> Result<Vec<RecordBatch>> {
        let session = self.session()?;
        let options = session.query_options("values of PIVOT");
        let mut stream = session.run_query(query, options)?;
        let mut rows = Vec::new();
        while let Some(batch) = stream.next_blocking() {
            rows.push(batch?);
        }
        Ok(rows)
    }

    fn call(&self, procedure: &Arc<Procedure>, arguments: Vec<ArrayRef>, caller: &dyn Caller) -> Result<Vec<ArrayRef>> {
        call(&self.session()?, procedure, arguments, caller)
    }
}

impl TriggerRunner for Parts {
    fn fire(
        &self,
        procedure: &Arc<Procedure>,
        arguments: Vec<ArrayRef>,
        tables: Vec<(String, RecordBatch)>,
    ) -> Result<Vec<ArrayRef>> {
        let session = self.session()?;
        let _fired = session.enter_trigger();
        outside(|caller| call_with(&session, procedure, arguments, caller, tables))
    }

    fn defer(&self, trigger: DeferredTrigger) {
        self.put_off(trigger);
    }

    fn returned(&self, query: &Query) -> Result<Vec<RecordBatch>> {
        let session = self.session()?;
        // The statement that it is a part of holds what others wait for.
        let _within = session.enter_procedure()?;
        outside(|caller| session.calling(query, session.query_options("RETURNING"), caller))
    }
}

/// Runs a procedure. Fails as [`QueryRunner::call`] does.
fn call(
    session: &Session,
    procedure: &Procedure,
    arguments: Vec<ArrayRef>,
    caller: &dyn Caller,
) -> Result<Vec<ArrayRef>> {
    call_with(session, procedure, arguments, caller, vec![])
}

/// The same for one whose statements see these tables.
fn call_with(
    session: &Session,
    procedure: &Procedure,
    arguments: Vec<ArrayRef>,
    caller: &dyn Caller,
    tables: Vec<(String, RecordBatch)>,
) -> Result<Vec<ArrayRef>> {
    let _seen = session.planner().see_tables(tables)?;
    run(session, Run::new(session, procedure, caller), arguments)
}

fn run(session: &Session, run: Run<'_>, arguments: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
    let _within = session.enter_procedure()?;
    let _acting = run.acts_as().map(|owner| session.planner().catalogs().act_as_owner(owner));
    let _set = session.set_meanwhile(run.settings())?;
    run.called(arguments)
}

/// Who waits for a statement that is cancelled by a token.
fn sender_of(token: &CancelToken, printed: Printed) -> Sender {
    let token = token.clone();
    Sender::new(move || token.check().is_err(), printed)
}

/// Waits until no other statement of the session calls procedures. Fails with kind `Cancelled`.
fn turn<'s>(session: &'s Session, token: &CancelToken) -> Result<MutexGuard<'s, ()>> {
    loop {
        token.check()?;
        if let Some(turn) = session.parts().calling().try_lock_for(run::LOOK) {
            return Ok(turn);
        }
    }
}

fn statement_of(planned: Planned) -> Option<Statement> {
    match planned {
        Planned::Other(statement) => Some(*statement),
        Planned::Query(..) => None,
    }
}

fn another_kind() -> Error {
    Error::bug("a statement is planned anew as another one")
}

impl Session {
    /// Runs a statement on a thread of its own that other transactions may be in the way of: what it has done is taken
    /// back then, it waits, and is planned and done anew. It keeps its locks meanwhile.
    fn start_in_turns(
        &self,
        tag: &'static str,
        schema: Option<SchemaRef>,
        (planned, source): (Planned, Option<Source>),
        run: impl Fn(&Self, Planned, &Sender) -> Result<ReadyRows> + Send + 'static,
    ) -> QueryResult {
        self.start_with_token(tag, schema, move |session, sender, token| {
            in_transaction(session, Isolation::ReadCommitted, true, || {
                let (mut planned, mut left) = (planned, RETRIES_MAX);
                loop {
                    let begun = session.statement_mark();
                    let error = match run(session, planned, sender) {
                        Err(error) if is_of_others(&error) => error,
                        done => return done,
                    };
                    let Some(source) = &source else { return Err(error) };
                    if let Some(begun) = begun {
                        session.back_to(&begun);
                    }
                    if let Some(wait) = session.may_go_on(Some(error), &mut left)? {
                        token.wait_for(wait)?;
                    }
                    token.check()?;
                    planned = source.planned(session.planner(), &session.snapshot())?;
                }
            })
        })
    }

    /// Does something in the session's transaction, or in one of its own, on a thread of its own: procedures that it
    /// calls print for the client that waits, and end when none does. Statements that the session runs at the same time
    /// do it one after the other, as transactions are the session's; what a procedure runs is a part of its caller.
    fn start_on_thread(
        &self,
        tag: &'static str,
        schema: Option<SchemaRef>,
        work: impl FnOnce(&Self, &Sender) -> Result<ReadyRows> + Send + 'static,
    ) -> QueryResult {
        self.start_with_token(tag, schema, move |session, sender, _| work(session, sender))
    }

    /// The same with what cancels it.
    pub(super) fn start_with_token(
        &self,
        tag: &'static str,
        schema: Option<SchemaRef>,
        work: impl FnOnce(&Self, &Sender, &CancelToken) -> Result<ReadyRows> + Send + 'static,
    ) -> QueryResult {
        let (session, printed) = (self.clone(), Printed::default());
        let (said, is_called) = (printed.clone(), caller().is_some());
        let work = move |token: &CancelToken| {
            let _turn = if is_called { None } else { Some(turn(&session, token)?) };
            let sender = Arc::new(sender_of(token, said));
            sender.sends(|| session.in_runtime(|| work(&session, &sender, token)))
        };
        QueryResult::elsewhere(tag, schema, &self.database().engine().io_handle(), work).printing(printed)
    }

    /// Runs a query that calls procedures; its rows are given when it has ended.
    pub(super) fn start_calling(
        &self,
        query: Arc<Query>,
        source: Option<Source>,
        options: QueryOptions,
    ) -> QueryResult {
        let (schema, planned) = (query.schema().clone(), Planned::Query(query, None));
        self.start_in_turns("SELECT", Some(schema), (planned, source), move |session, planned, sender| {
            let query = match planned {
                Planned::Query(query, _) => query,
                Planned::Other(statement) => match *statement {
                    Statement::Query(query) => Arc::new(query),
                    _ => return Err(another_kind()),
                },
            };
            session.called(&query, options.clone(), sender).map(|(rows, _)| ReadyRows::kept(rows))
        })
    }

    /// The rows of a query that calls procedures and gives few.
    fn calling(&self, query: &Query, options: QueryOptions, caller: &dyn Caller) -> Result<Vec<RecordBatch>> {
        let (mut kept, _) = self.called(query, options, caller)?;
        let (mut rows, mut next) = (Vec::new(), 0);
        while let Some(batch) = kept.rows_from(next)? {
            next += batch.num_rows() as u64;
            rows.push(batch);
        }
        Ok(rows)
    }

    /// The rows of a query that calls procedures, and the query when it has ended.
    fn called(&self, query: &Query, options: QueryOptions, caller: &dyn Caller) -> Result<(KeptRows, QueryStream)> {
        let options = QueryOptions { packets: Some(1), ..options };
        let mut stream = self.run_query(query, options)?;
        let (token, printed) = (stream.cancel_token(), stream.printed());
        let mut rows = self.keep_rows(stream.schema());
        loop {
            let next = stream.next_within(run::LOOK);
            printed.take().into_iter().for_each(|message| caller.printed(message));
            match next {
                Poll::Ready(None) => return Ok((rows, stream)),
                Poll::Ready(Some(batch)) => rows.push(&batch?)?,
                Poll::Pending if caller.is_stopped() => token.cancel(),
                Poll::Pending => {}
            }
        }
    }

    /// The same for one that writes.
    pub(super) fn start_calling_write(
        &self,
        write: Write,
        source: Option<Source>,
        options: QueryOptions,
    ) -> QueryResult {
        let (tag, schema) = (write.tag, write.returning.as_ref().map(|(schema, _)| schema.clone()));
        let (is_returning, counted) = (schema.is_some(), Arc::<AtomicU64>::default());
        let counting = Arc::clone(&counted);
        let planned = Planned::Other(Box::new(Statement::Write(write)));
        let result = self.start_in_turns(tag, schema, (planned, source), move |session, planned, sender| {
            let Some(Statement::Write(write)) = statement_of(planned) else { return Err(another_kind()) };
            let counts = session.calling(&write.query, options.clone(), sender)?;
            AtomicU64::store(&counting, counts.iter().map(count_of).sum(), Ordering::Release);
            Ok(write.returning.as_ref().map_or_else(Vec::new, |(_, returned)| returned.take()).into())
        });
        result.writing(tag, is_returning, counted)
    }

    /// The same for one whose WITH writes: its parts run one after the other.
    pub(super) fn start_calling_several(&self, several: Several, source: Option<Source>, text: &str) -> QueryResult {
        let (text, tag, schema) = (text.to_owned(), several.tag(), several.schema());
        let (is_returning, counted) = (schema.is_some(), Arc::<AtomicU64>::default());
        let counting = Arc::clone(&counted);
        let first = (Planned::Other(Box::new(Statement::Several(several))), source);
        let result = self.start_in_turns(tag.unwrap_or("SELECT"), schema, first, move |session, planned, sender| {
            let Some(Statement::Several(several)) = statement_of(planned) else { return Err(another_kind()) };
            let run = |part: &Part| -> Result<Vec<RecordBatch>> {
                let catalogs = session.planner().catalogs();
                let (query, returned) = part.begin(catalogs.catalog(), catalogs.owner());
                let rows = session.calling(&query, session.query_options(&text), sender)?;
                if !part.is_writing() {
                    return Ok(rows);
                }
                AtomicU64::store(&counting, rows.iter().map(count_of).sum(), Ordering::Release);
                Ok(returned.map_or_else(Vec::new, |returned| returned.take()))
            };
            for part in &several.before {
                part.gave(run(part)?)?;
            }
            run(&several.last).map(Into::into)
        });
        match tag {
            Some(tag) => result.writing(tag, is_returning, counted),
            None => result,
        }
    }

    /// The same for EXPLAIN ANALYZE.
    pub(super) fn start_calling_analyze(
        &self,
        explain: Statement,
        source: Option<Source>,
        options: QueryOptions,
    ) -> QueryResult {
        let first = (Planned::Other(Box::new(explain)), source);
        self.start_in_turns("EXPLAIN", Some(Statement::plan_schema()), first, move |session, planned, sender| {
            let Some(Statement::Explain { query, json, .. }) = statement_of(planned) else {
                return Err(another_kind());
            };
            let plan = Explained::of(&query, json);
            let (_, stream) = session.called(&query, options.clone(), sender)?;
            Ok(vec![plan.ran(&stream)?].into())
        })
    }

    /// The same for TRUNCATE.
    pub(super) fn start_calling_truncate(&self, command: Command, source: Option<Source>) -> QueryResult {
        let first = (Planned::Other(Box::new(Statement::Command(command))), source);
        self.start_in_turns("TRUNCATE TABLE", None, first, move |session, planned, _| {
            let Some(Statement::Command(command)) = statement_of(planned) else { return Err(another_kind()) };
            let Command::Truncate { triggers, .. } = &command else { return Err(another_kind()) };
            triggers.run_before()?;
            command.apply(session.planner().catalogs())?;
            triggers.run_behind()?;
            Ok(ReadyRows::default())
        })
    }

    /// The same for SET CONSTRAINTS, which has triggers run that were put off.
    pub(super) fn start_calling_constraints(&self, command: Command, source: Option<Source>) -> QueryResult {
        let first = (Planned::Other(Box::new(Statement::Command(command))), source);
        self.start_in_turns("SET CONSTRAINTS", None, first, move |session, planned, _| {
            let Some(Statement::Command(command)) = statement_of(planned) else { return Err(another_kind()) };
            command.apply(session.planner().catalogs())?;
            session.run_no_longer_deferred()?;
            Ok(ReadyRows::default())
        })
    }

    /// Runs CALL and DO.
    pub(super) fn start_called(&self, called: Called) -> QueryResult {
        self.start_on_thread(called.tag, called.schema(), move |session, sender| {
            let is_lent = session.parts().ends_transactions().swap(false, Ordering::AcqRel);
            let may_end = is_lent || session.planner().catalogs().isolation().is_none();
            in_transaction(session, Isolation::ReadCommitted, true, || {
                let arguments = match &called.arguments {
                    None => vec![],
                    Some(query) => {
                        let rows = session.calling(query, session.query_options("arguments of CALL"), sender)?;
                        concat_batches(query.schema(), &rows).map_err(from_arrow)?.columns().to_vec()
                    }
                };
                let own = Run::new(session, &called.procedure, sender).ending_transactions(may_end);
                let given = run(session, own, arguments)?;
                match (called.schema(), &called.procedure.gives) {
                    (Some(schema), Gives::Row(_)) => {
                        Ok(vec![RecordBatch::try_new(schema, given).map_err(from_arrow)?].into())
                    }
                    _ => Ok(ReadyRows::default()),
                }
            })
        })
    }
}
