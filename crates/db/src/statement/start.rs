//! Start: a planned statement becomes a running one, with a result.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use diligence_base::{Error, ErrorKind, Result};
use diligence_catalog::Isolation;
use diligence_catalog::locks::{GivenUp, LockWait, MUST_WAIT};
use diligence_engine::{QueryOptions, SharingMode, SharingOffer};
use diligence_sql::{Command, Planned, Query, Statement};
use diligence_storage::foreign_error::from_arrow;

use super::done::{DoneAtOnce, count_of};
use super::explained::Explained;
use super::restart::{Again, Restarted, StatementLocks};
use super::result::QueryResult;
use super::second_start::SecondStart;
use crate::plan_json;
use crate::plans::{PlannedStatement, Source};
use crate::remembered::Was;
use crate::session::Session;
use crate::settings::Shown;

/// What became of a statement that may be short.
pub enum Short {
    /// It is done, or waits for another transaction and is done at once when that has ended.
    Done(QueryResult),
    /// It is none; nothing was done.
    Not(PlannedStatement),
}

/// Whether a statement that failed so may be started anew, most likely: others have or had what it wants.
pub(super) fn is_in_the_way(error: &Error) -> bool {
    matches!(error.code(), Some("40001" | MUST_WAIT))
}

/// The same of a statement that calls procedures, which raise errors with any code.
pub(super) fn is_of_others(error: &Error) -> bool {
    is_in_the_way(error) && error.kind() == ErrorKind::Input
}

/// How often a statement is started anew since others have changed what it was to change.
pub(super) const RETRIES_MAX: usize = 100;

impl Session {
    /// Whether a planned statement is a query that is large enough to share with others, if it has anything to.
    pub fn may_share(&self, planned: &PlannedStatement) -> bool {
        let options = self.query_options("");
        let is_off = matches!(options.sharing, SharingMode::Off | SharingMode::Scans);
        matches!(planned.planned, Planned::Query(..)) && !is_off && planned.needs().rows >= options.sharing_rows_min
    }

    /// What a planned statement would share with others if it started now; `None` if that is nothing.
    pub fn sharing_offer(&self, planned: &PlannedStatement) -> Option<SharingOffer> {
        match &planned.planned {
            Planned::Query(query, _) => {
                let options = QueryOptions { tables: query.tables.clone(), ..self.query_options("") };
                self.database().engine().sharing_offer(&query.plan, &options)
            }
            Planned::Other(_) => None,
        }
    }

    /// Starts a planned statement. Its work is done while the result is read. Fails with kind `Resource` if there is no
    /// memory to start with, with kind `File` if a file that is to be written cannot be, and for a statement that is
    /// done at once (DDL, SET) with its own error.
    pub fn start_planned(&self, planned: PlannedStatement) -> Result<QueryResult> {
        let own = self.query_options(&planned.text);
        let options = QueryOptions {
            waits_for_memory: planned.waits_for_memory && own.waits_for_memory,
            // Who plans a statement to need little keeps it for a second start.
            starts_again: !planned.waits_for_memory && own.waits_for_memory,
            work_expected_ns: planned.work_expected_ns,
            ..own
        };
        let text = planned.text;
        self.in_runtime(|| match (planned.planned, planned.source) {
            (Planned::Other(statement), source) if matches!(*statement, Statement::Several(_)) => match *statement {
                Statement::Several(several) if several.is_calling() => {
                    Ok(self.start_calling_several(several, source, &text))
                }
                Statement::Several(several) => self.start_several(several, source, &text),
                _ => Err(Error::bug("a statement is another one")),
            },
            (Planned::Query(query, _), source) if query.is_calling => Ok(self.start_calling(query, source, options)),
            (Planned::Other(statement), source)
                if matches!(statement.as_ref(), Statement::Write(write) if write.query.is_calling) =>
            {
                match *statement {
                    Statement::Write(write) => Ok(self.start_calling_write(write, source, options)),
                    _ => Err(Error::bug("a statement is another one")),
                }
            }
            (Planned::Query(query, _), source) => self.start_query(&query, source, options),
            (Planned::Other(statement), None) => self.start_statement(*statement, None, options),
            (Planned::Other(statement), Some(source)) => {
                let again = self.again(source.clone());
                let result = self.start_statement(*statement, Some(source), options)?;
                Ok(result.with_retries(Some(again), self.statement_locks()))
            }
        })
    }

    /// What a statement of the session has locked when it ends.
    pub(super) fn statement_locks(&self) -> StatementLocks {
        let catalogs = self.planner().catalogs();
        let (locks, owner) = (catalogs.locks().clone(), catalogs.owner());
        StatementLocks { locks, owner, is_inside: catalogs.isolation().is_some() }
    }

    /// Runs a planned statement at once, if it is a short one ([`diligence_engine::short`]): it is done when this
    /// returns, or waits for another transaction. Otherwise nothing was done. Waits for a disk if
    /// [`commits_at_once`](Self::commits_at_once) is false. Fails with the statement's error.
    pub fn run_short(&self, planned: PlannedStatement) -> Result<Short> {
        let error = match self.at_once(&planned.planned) {
            Ok(Some(done)) => return Ok(Short::Done(QueryResult::done_at_once(done, &planned.planned))),
            Ok(None) => return Ok(Short::Not(planned)),
            Err(error) => error,
        };
        let (Planned::Other(statement), true) = (&planned.planned, is_in_the_way(&error)) else { return Err(error) };
        let (Statement::Write(write), Some(source)) = (statement.as_ref(), planned.source) else { return Err(error) };
        let schema = write.returning.as_ref().map(|(schema, _)| schema.clone());
        let again = self.again(source);
        QueryResult::blocked(write.tag, schema, again, self.statement_locks(), error).map(Short::Done)
    }

    /// Runs a plan at once; `None`, and nothing was done, if it is not short. Fails with the statement's error.
    fn at_once(&self, planned: &Planned) -> Result<Option<DoneAtOnce>> {
        let (query, write) = match planned {
            Planned::Query(query, _) if !query.is_locking && !query.is_calling => (query.as_ref(), None),
            Planned::Other(statement) => match statement.as_ref() {
                Statement::Write(write) if !write.query.is_locking && !write.query.is_calling && write.is_undoable => {
                    (&write.query, Some(write))
                }
                _ => return Ok(None),
            },
            Planned::Query(..) => return Ok(None),
        };
        self.planner().catalogs().note_read(query.tables.identities().map(|identity| identity.table));
        let Some(rows) = self.database().engine().run_short(&query.plan, &query.tables)? else { return Ok(None) };
        Ok(Some(match write {
            None => DoneAtOnce { rows, count: None },
            Some(write) => {
                let returned = write.returning.as_ref().map_or_else(Vec::new, |(_, returned)| returned.take());
                DoneAtOnce { count: Some(rows.iter().map(count_of).sum()), rows: returned }
            }
        }))
    }

    /// Plans and starts a statement once more.
    fn again(&self, source: Source) -> Again {
        let (session, mut left) = (self.clone(), RETRIES_MAX);
        Box::new(move |mut error, may_block| {
            loop {
                if let Some(wait) = session.may_go_on(error, &mut left)? {
                    return Ok(Restarted::Waits(wait));
                }
                match session.in_runtime(|| session.start_anew(&source, may_block)) {
                    Err(failed) if is_in_the_way(&failed) => error = Some(failed),
                    started => return started,
                }
            }
        })
    }

    fn reads_anew(&self, query: &Query, options: QueryOptions) -> Result<Restarted> {
        let stream = self.run_query(query, options)?;
        let kept = self.keep_rows(stream.schema());
        Ok(Restarted::Reads(stream, kept))
    }

    fn start_anew(&self, source: &Source, may_block: bool) -> Result<Restarted> {
        let planned = source.planned(self.planner(), &self.snapshot())?;
        if (may_block || self.commits_at_once(false))
            && let Some(done) = self.at_once(&planned)?
        {
            return Ok(Restarted::Done(done));
        }
        let options = self.query_options(source.parsed.text());
        match planned {
            Planned::Query(query, _) => self.reads_anew(&query, options),
            Planned::Other(statement) => match *statement {
                Statement::Query(query) => self.reads_anew(&query, options),
                Statement::Write(write) => {
                    let stream = self.run_query(&write.query, options)?;
                    Ok(Restarted::Writes(stream, write.returning.map(|(_, returned)| returned)))
                }
                Statement::Explain { query, analyze: true, json, .. } => {
                    let plan = Explained::of(&query, json);
                    Ok(Restarted::Analyzes(self.run_query(&query, options)?, plan))
                }
                Statement::Command(command) => {
                    command.apply(self.planner().catalogs()).map(|_| Restarted::Done(DoneAtOnce::default()))
                }
                _ => Err(Error::bug("a statement of this kind is not started anew")),
            },
        }
    }

    /// Whether a statement may be started anew after this error: what it has to wait for first, if anything. Fails with
    /// the error if it may not.
    pub(super) fn may_go_on(&self, error: Option<Error>, left: &mut usize) -> Result<Option<LockWait>> {
        let catalogs = self.planner().catalogs();
        let Some(error) = error else { return Ok(None) };
        let sees_others = catalogs.isolation().is_none_or(|isolation| isolation == Isolation::ReadCommitted);
        match error.code() {
            // It may be its turn by now.
            Some(MUST_WAIT) => Ok(catalogs.locks().wait(catalogs.owner()).inspect(|wait| self.limit(wait))),
            _ if sees_others && *left > 0 => {
                *left -= 1;
                Ok(None)
            }
            _ => Err(error),
        }
    }

    /// Ends a waiting after the time that the session allows.
    fn limit(&self, wait: &LockWait) {
        let timeout = self.lock_timeout();
        if !timeout.is_zero() {
            let ender = wait.ender();
            self.database().engine().io_handle().spawn(async move {
                tokio::time::sleep(timeout).await;
                ender.end(GivenUp::TimeOver);
            });
        }
    }

    /// A change of the catalog, with what its client is told of it.
    fn start_command(&self, command: Command, source: Option<Source>) -> Result<QueryResult> {
        let (command, notices) = command.parted();
        let result = self.start_change(command, source)?;
        let printed = result.printed();
        notices.into_iter().for_each(|message| printed.add(message));
        Ok(result)
    }

    /// A change of the catalog, which may have to wait for another transaction, and is planned anew then.
    fn start_change(&self, command: Command, source: Option<Source>) -> Result<QueryResult> {
        let catalogs = self.planner().catalogs();
        if let Command::SetRole { is_authorization, is_local, tag, .. } = &command {
            let is_inside = catalogs.isolation().is_some();
            let mut was = vec![Was::Role(catalogs.role())];
            was.extend(is_authorization.then(|| Was::Authorization(catalogs.authorization())));
            if is_inside || !is_local {
                command.apply(catalogs)?;
            }
            if is_inside {
                self.was_acting_as(was, *is_local);
            }
            return Ok(QueryResult::done(tag));
        }
        if command.depends_on_moment() {
            catalogs.note_seen();
        }
        if !self.put_off().is_done() {
            let (tables, what) = command.changed_as_a_whole();
            self.put_off().refuse_waiting(&tables, what)?;
        }
        if matches!(&command, Command::Truncate { triggers, .. } if !triggers.is_empty()) {
            return Ok(self.start_calling_truncate(command, source));
        }
        if matches!(&command, Command::SetConstraints { is_deferred: false, .. }) && !self.put_off().is_done() {
            return Ok(self.start_calling_constraints(command, source));
        }
        if let (Command::Alter { is_concurrent: true, .. }, Some(source)) = (&command, &source) {
            let source = source.clone();
            return Ok(self.start_concurrently(command, source));
        }
        let error = match command.apply(catalogs) {
            Ok(tag) => return Ok(QueryResult::done(tag)),
            Err(error) if is_in_the_way(&error) => error,
            Err(error) => return Err(error),
        };
        let Some(source) = source else { return Err(error) };
        let tag = command.waiting_tag();
        let mut again = self.again(source);
        match again(Some(error), true)? {
            Restarted::Waits(wait) => {
                Ok(QueryResult::waiting(tag, wait)?.with_retries(Some(again), self.statement_locks()))
            }
            _ => Ok(QueryResult::done(tag)),
        }
    }

    fn start_query(&self, query: &Arc<Query>, source: Option<Source>, options: QueryOptions) -> Result<QueryResult> {
        if !query.is_locking {
            let second_start = SecondStart::of(self, query, &options);
            return Ok(QueryResult::query(self.run_query(query, options)?, second_start));
        }
        let stream = self.run_query(query, options)?;
        let again = source.map(|source| self.again(source));
        let kept = self.keep_rows(stream.schema());
        Ok(QueryResult::held(stream, kept).with_retries(again, self.statement_locks()))
    }

    fn start_statement(
        &self,
        statement: Statement,
        source: Option<Source>,
        options: QueryOptions,
    ) -> Result<QueryResult> {
        let engine = self.database().engine();
        Ok(match statement {
            Statement::Query(query) => self.start_query(&Arc::new(query), source, options)?,
            Statement::Explain { query, analyze: true, json, .. } if !query.is_calling => {
                let plan = Explained::of(&query, json);
                QueryResult::analyze(self.run_query(&query, options)?, plan)
            }
            Statement::Explain { analyze: true, .. } => self.start_calling_analyze(statement, source, options),
            Statement::Explain { query, json: true, .. } => {
                let options = QueryOptions { tables: query.tables.clone(), ..options };
                QueryResult::lines(&plan_json::planned(&query, &engine.explain_sharing(&query.plan, &options)?))?
            }
            Statement::Explain { query, analyze: false, json: false, details } => {
                let options = QueryOptions { tables: query.tables.clone(), ..options };
                let mut text = engine.explain(&query.plan, &options)?;
                if let Some(details) = details {
                    text = format!("{}\n\n{details}", text.trim_end());
                }
                QueryResult::lines(&text)?
            }
            Statement::Write(write) => {
                QueryResult::write(write.tag, self.run_query(&write.query, options)?, write.returning)
            }
            Statement::Several(_) => return Err(Error::bug("several statements start as one")),
            Statement::Command(command) => self.start_command(command, source)?,
            Statement::Maintain(maintenance) => self.maintain(maintenance),
            Statement::Call(called) => self.start_called(called),
            Statement::Transaction(step) => QueryResult::done(self.step(step)?),
            Statement::Channel(step) => {
                let tag = step.tag();
                self.channel(step)?;
                QueryResult::done(tag)
            }
            Statement::Set { name, value, is_local } => {
                self.set_within(&name, Some(&value), is_local)?;
                QueryResult::done("SET")
            }
            Statement::Reset { name, is_local } => {
                match name {
                    Some(name) => drop(self.set_within(&name, None, is_local)?),
                    None => self.reset_all_within()?,
                }
                QueryResult::done("RESET")
            }
            Statement::Show { name: Some(name) } => shown(vec![self.settings().show_any(&name)?], false)?,
            Statement::Show { name: None } => shown(self.settings().all(), true)?,
        })
    }
}

fn shown(rows: Vec<Shown>, all: bool) -> Result<QueryResult> {
    let column =
        |value: fn(&Shown) -> &str| Arc::new(StringViewArray::from_iter_values(rows.iter().map(value))) as ArrayRef;
    let mut names = vec!["name", "value"];
    let mut columns = vec![column(|shown| &shown.name), column(|shown| &shown.value)];
    if all {
        names.extend(["default", "description"]);
        columns.extend([column(|shown| &shown.default), column(|shown| &shown.description)]);
    }
    let fields = names.into_iter().map(|name| Field::new(name, DataType::Utf8View, false));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(schema.clone(), columns).map_err(from_arrow)?;
    Ok(QueryResult::rows(schema, vec![batch]))
}
