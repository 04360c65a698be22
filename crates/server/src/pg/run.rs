//! What an Execute or a statement of a script does: rows to the client, commands of the session.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use bytes::{BufMut, BytesMut};
use diligence_base::{Error, Result};
use diligence_db::{AskedSetting, Isolation, ParsedStatement, Printed};
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::data::DataRow;
use pgwire::messages::extendedquery::PortalSuspended;
use pgwire::messages::response::EmptyQueryResponse;
use pgwire::messages::startup::ParameterStatus;
use tokio::time::Instant;

use super::deadlines::Deadline;
use super::implicit;
use super::portal::{Portal, PortalState, Prepared, PreparedKind, Reading, same_columns};
use super::session::{PgSession, failed_block};
use super::trouble::{Block, Outcome, Trouble};
use super::wire::notice;
use crate::encoding::columns::{Columns, Rows};
use crate::encoding::parameters::boolean;
use crate::execution::{Allowed, CommandDone, RunningStatement};
use crate::session::commands::{Command, Discarded, Lasts, TransactionMode};
use crate::session::settings::{SHARED, Value, shared, shown_name};
use crate::sqlstate;

/// Rows that are written on the network's thread itself: less work than handing it over.
const ROWS_AT_ONCE: usize = 32;
/// How long a portal that has given as many rows as are wanted is asked whether it has more.
const LOOK_AHEAD: Duration = Duration::from_millis(10);
/// Bytes of rows that are made before they go out.
pub(super) const ROWS_BYTES: usize = 128 * 1024;
/// How long a statement waits for its turn before its client is told: shorter waits are nothing to talk about.
const TELL_AFTER: Duration = Duration::from_millis(200);
/// How long until it is told again, if it stands elsewhere then.
const TELL_AGAIN_AFTER: Duration = Duration::from_secs(2);

impl PgSession {
    /// Runs a portal for so many rows, or to its end. With `describe` the rows are announced first. What `set_config`
    /// has changed of the client's settings is taken over if nothing fails.
    pub(super) async fn run_portal(&mut self, portal: &mut Portal, most: Option<usize>, describe: bool) -> Outcome {
        let outcome = self.run_to(portal, most, describe).await;
        let asked = self.session.take_asked_settings();
        outcome?;
        for AskedSetting { name, value, is_local } in asked {
            let lasts = if is_local { Lasts::Block } else { Lasts::Session };
            if self.block == Block::None && is_local || !self.settings.has(&name) {
                continue;
            }
            self.set_noted(&name, &value, lasts)?;
            let mode = mode_of_setting(&name, &value).filter(|_| self.block != Block::None);
            mode.map_or(Ok(()), |mode| self.set_mode(mode))?;
        }
        Ok(())
    }

    async fn run_to(&mut self, portal: &mut Portal, most: Option<usize>, describe: bool) -> Outcome {
        let statement = portal.statement.clone();
        match &statement.kind {
            PreparedKind::Empty => {
                self.outbox.put(Out::EmptyQueryResponse(EmptyQueryResponse::new()));
                return Ok(());
            }
            PreparedKind::Command(Command::Declare(declared)) if self.block != Block::Failed => {
                let values = std::mem::take(&mut portal.values);
                return self.declare(declared, &statement.declared, values).await;
            }
            PreparedKind::Command(command) => return self.command(command, describe).await,
            PreparedKind::Statement(..) if self.block == Block::Failed => return Err(failed_block()),
            PreparedKind::Statement(..) => {}
        }
        if matches!(portal.state, PortalState::Bound) {
            if !self.start(portal, &statement).await? {
                return Ok(());
            }
            if describe && let PortalState::Running(reading) = &portal.state {
                let (schema, columns) = (reading.running.schema().clone(), reading.columns.clone());
                self.describe_rows(&schema, &columns);
            }
        }
        let before = portal.sent;
        let ended = self.rows(portal, most).await?;
        if ended {
            let written = portal.written.take();
            // The rows of this time only.
            self.complete(written.map_or_else(|| format!("SELECT {}", portal.sent - before), |done| tag_of(&done)));
        } else {
            self.outbox.put(Out::PortalSuspended(PortalSuspended::new()));
        }
        Ok(())
    }

    /// Starts the portal's statement. False for one without rows, which is done and answered then.
    pub(super) async fn start(&mut self, portal: &mut Portal, statement: &Prepared) -> Outcome<bool> {
        let PreparedKind::Statement(parsed, _) = &statement.kind else {
            return Err(Error::bug("not a statement").into());
        };
        let deadline = self.deadline();
        let at = if self.cursors.is_empty() { None } else { self.session.at_cursor(parsed)? };
        let parsed = at.as_ref().map_or(parsed, |at| &at.statement);
        let running = self.started(deadline, parsed, portal.values.clone(), self.allowed()).await?;
        at.as_ref().map_or(Ok(()), |at| self.session.stays_at(at))?;
        // The client reads rows by what it was told at some time before.
        let is_as_described = |described: &SchemaRef| {
            Arc::ptr_eq(described, running.schema())
                || !running.is_command() && same_columns(described, running.schema())
        };
        if !statement.described().is_none_or(is_as_described) {
            Box::pin(self.check_columns(statement)).await?;
        }
        if running.is_command() {
            portal.state = PortalState::Done;
            let printed = running.printed();
            let finish = running.finish();
            let done = Self::until(&self.entry, &mut self.inbox, &self.service, deadline, finish).await;
            self.show_printed(&printed);
            let done = done?;
            at.as_ref().map_or(Ok(()), |at| self.session.stays_at(at))?;
            self.complete(tag_of(&done));
            return Ok(false);
        }
        let mut columns = Columns::new(running.schema(), &portal.forms)?.in_zone(self.session.time_zone());
        if let Some(told) = statement.described() {
            columns = columns.with_told(told);
        }
        portal.state = PortalState::Running(Box::new(Reading::new(running, columns)));
        Ok(true)
    }

    /// Starts a statement. One that cannot be part of an implicit block ends the block, and runs by itself.
    pub(super) async fn started(
        &mut self,
        deadline: Option<Deadline>,
        parsed: &ParsedStatement,
        values: Vec<ArrayRef>,
        allowed: Allowed,
    ) -> Outcome<RunningStatement> {
        if !self.is_implicit {
            return self.started_here(deadline, parsed, values, allowed).await;
        }
        let is_first = !self.has_seen;
        match self.started_here(deadline, parsed, values.clone(), allowed).await {
            Err(Trouble::Failed(error)) if implicit::stands_alone(&error, is_first) => {
                self.end_block(true).await?;
                self.started_here(deadline, parsed, values, self.allowed()).await
            }
            outcome => outcome,
        }
    }

    /// Starts a statement where it stands. A client that has to wait for its turn is told where it stands in line.
    async fn started_here(
        &mut self,
        deadline: Option<Deadline>,
        parsed: &ParsedStatement,
        values: Vec<ArrayRef>,
        allowed: Allowed,
    ) -> Outcome<RunningStatement> {
        let execution = self.service.execution().clone();
        self.has_seen = true;
        self.session.set_only_reads(self.allowed() == Allowed::Reading);
        let (asker, outbox) = (&self.asker, &mut self.outbox);
        let started = async {
            let start = execution.start(&self.session, asker, parsed, values, allowed);
            tokio::pin!(start);
            let (mut told, mut patience) = (None, TELL_AFTER);
            loop {
                let is_told = !outbox.buffer.is_empty() && told.is_some();
                tokio::select! {
                    biased;
                    running = &mut start => return running,
                    // Somebody who does not read what he is told is noticed as gone, or at the end of his time.
                    flushed = outbox.flush(|| {}), if is_told => flushed.map_err(|_| Error::cancelled())?,
                    () = tokio::time::sleep(patience), if !is_told => {
                        let place = execution.admission().place(asker);
                        if let Some(place) = &place
                            && told.as_ref() != Some(place)
                        {
                            let text = Error::input(place.to_string()).with_code(sqlstate::SUCCESS);
                            outbox.put(notice("NOTICE", &text));
                            told = Some(place.clone());
                        }
                        patience = if told.is_some() { TELL_AGAIN_AFTER } else { TELL_AFTER };
                    }
                }
            }
        };
        Self::until(&self.entry, &mut self.inbox, &self.service, deadline, started).await
    }

    /// Sends rows; true at the end of them, false as soon as there were `most`.
    pub(super) async fn rows(&mut self, portal: &mut Portal, most: Option<usize>) -> Outcome<bool> {
        let deadline = self.deadline();
        let mut left = most.unwrap_or(usize::MAX);
        while left > 0 {
            let Some((rows, from)) = self.next_rows(portal, deadline).await? else { return Ok(true) };
            let PortalState::Running(reading) = &mut portal.state else { return Ok(true) };
            let to = rows.count().min(from.saturating_add(left));
            let mut out = std::mem::take(&mut self.outbox.buffer);
            let next = if to - from <= ROWS_AT_ONCE {
                rows.write_messages(from, to, usize::MAX, &mut out)
            } else {
                let shared = rows.clone();
                let write = self.service.execution().compute(move || Ok(messages(&shared, from, to, out)));
                let (next, made) = write.await?;
                out = made;
                next
            };
            self.outbox.buffer = out;
            portal.sent += (next - from) as u64;
            left -= next - from;
            if next < rows.count() {
                reading.rows = Some((rows, next));
            }
            if self.outbox.buffer.len() >= ROWS_BYTES {
                let running = &mut reading.running;
                self.send(|| running.stall()).await?;
            }
        }
        self.look_ahead(portal).await?;
        Ok(false)
    }

    /// Looks for a moment whether a portal has more rows, which are kept: a statement that is at its end gives back its
    /// place, and what it needed is known.
    async fn look_ahead(&mut self, portal: &mut Portal) -> Outcome {
        let PortalState::Running(reading) = &mut portal.state else { return Ok(()) };
        if reading.rows.is_some() {
            return Ok(());
        }
        let printed = reading.running.printed();
        let next = async { reading.running.next().await.transpose() };
        let next = Self::until(&self.entry, &mut self.inbox, &self.service, None, next);
        let next = tokio::time::timeout(LOOK_AHEAD, next).await;
        self.show_printed(&printed);
        let Ok(next) = next else { return Ok(()) };
        if let Some(there) = self.made_ready(portal, next).await?
            && let PortalState::Running(reading) = &mut portal.state
        {
            reading.rows = Some(there);
        }
        Ok(())
    }

    /// Rows that were not sent yet, and the first of them; `None` at the end.
    async fn next_rows(
        &mut self,
        portal: &mut Portal,
        deadline: Option<Deadline>,
    ) -> Outcome<Option<(Arc<Rows>, usize)>> {
        let PortalState::Running(reading) = &mut portal.state else { return Ok(None) };
        if let Some(there) = reading.rows.take() {
            return Ok(Some(there));
        }
        let printed = reading.running.printed();
        let next = async { reading.running.next().await.transpose() };
        let next = Self::until(&self.entry, &mut self.inbox, &self.service, deadline, next).await;
        self.show_printed(&printed);
        self.made_ready(portal, next).await
    }

    /// A portal's next batch made ready to be sent, and its first row; `None` at the end. Fails with the statement's
    /// error.
    async fn made_ready(
        &mut self,
        portal: &mut Portal,
        next: Outcome<Option<RecordBatch>>,
    ) -> Outcome<Option<(Arc<Rows>, usize)>> {
        let PortalState::Running(reading) = &mut portal.state else { return Ok(None) };
        match next {
            Ok(Some(batch)) if batch.num_rows() <= ROWS_AT_ONCE => {
                Ok(Some((Arc::new(reading.columns.rows(&batch)?), 0)))
            }
            Ok(Some(batch)) => {
                let columns = reading.columns.clone();
                let ready = self.service.execution().compute(move || columns.rows(&batch));
                Ok(Some((Arc::new(ready.await?), 0)))
            }
            ended => {
                portal.written = reading.running.written();
                portal.state = PortalState::Done;
                ended.map(|_| None)
            }
        }
    }

    /// Tells the client what functions have printed.
    pub(super) fn show_printed(&mut self, printed: &Printed) {
        for message in printed.take() {
            self.outbox.put(notice(&message.level.to_string(), &message.said));
        }
    }

    /// Goes over rows without sending them; how many there were.
    pub(super) async fn pass_over(&mut self, portal: &mut Portal, most: Option<usize>) -> Outcome<usize> {
        let deadline = self.deadline();
        let most = most.unwrap_or(usize::MAX);
        let mut passed = 0;
        while passed < most {
            let Some((rows, from)) = self.next_rows(portal, deadline).await? else { break };
            let to = rows.count().min(from.saturating_add(most - passed));
            passed += to - from;
            if let PortalState::Running(reading) = &mut portal.state
                && to < rows.count()
            {
                reading.rows = Some((rows, to));
            }
        }
        Ok(passed)
    }

    /// Answers a command of the session.
    async fn command(&mut self, command: &Command, describe: bool) -> Outcome {
        if self.block == Block::Failed
            && !matches!(command, Command::Commit | Command::Rollback | Command::Chain { .. } | Command::RollbackTo(_))
        {
            return Err(failed_block());
        }
        match command {
            Command::Begin(mode) => self.begin_block(*mode, "BEGIN")?,
            Command::Start(mode) => self.begin_block(*mode, "START TRANSACTION")?,
            Command::Commit | Command::Rollback => {
                if !self.is_in_block() {
                    let error = Error::input("there is no transaction").with_code("25P01");
                    self.outbox.put(notice("WARNING", &error));
                }
                let commits = *command == Command::Commit && self.block != Block::Failed;
                self.end_block(commits).await?;
                self.complete(if commits { "COMMIT" } else { "ROLLBACK" });
            }
            Command::Chain { commits } => self.chain_blocks(*commits).await?,
            Command::Savepoint(name) => {
                self.check_savepoint()?;
                self.changes.savepoint(name, self.session.transaction_mark())?;
                self.complete("SAVEPOINT");
            }
            Command::Release(name) => {
                self.check_savepoint()?;
                self.changes.release(name)?;
                self.complete("RELEASE");
            }
            Command::RollbackTo(name) => self.back_to_savepoint(name)?,
            Command::Set(name, value, lasts) => {
                if self.has_effect(*lasts) {
                    self.set_noted(name, value, *lasts)?;
                    let mode = mode_of_setting(name, value).filter(|_| self.block != Block::None);
                    mode.map_or(Ok(()), |mode| self.set_mode(mode))?;
                }
                self.complete("SET");
            }
            Command::Reset(name, lasts) => {
                if self.has_effect(*lasts) {
                    let was = self.before_change(name);
                    self.reset(name, *lasts)?;
                    if let Some(was) = was {
                        self.changes.note(was, *lasts);
                    }
                }
                self.complete("RESET");
            }
            Command::ResetAll => self.reset_all_settings()?,
            Command::Show(name) => self.show_setting(name, describe)?,
            Command::SetTransaction(mode) => self.set_transaction(*mode)?,
            Command::SetTransactions(mode) => self.set_transactions(*mode)?,
            Command::Discard(discarded) => {
                if *discarded == Discarded::All {
                    if self.block != Block::None {
                        let error = Error::input("DISCARD ALL cannot run inside a transaction block");
                        return Err(error.with_code("25001").into());
                    }
                    let before = self.settings.reports();
                    self.discard();
                    self.session.reset_all()?;
                    self.report_since(&before);
                } else {
                    discarded.give_back(&self.session)?;
                }
                self.complete(discarded.tag());
            }
            Command::Deallocate(name) => {
                if let Some(name) = name.as_ref().filter(|name| !self.is_prepared(name)) {
                    self.deallocate_in_engine(name).await?;
                } else {
                    self.deallocate(name.as_deref());
                }
                self.complete(if name.is_some() { "DEALLOCATE" } else { "DEALLOCATE ALL" });
            }
            Command::Close(name) => self.close_cursor(name.as_deref())?,
            Command::Declare(declared) => self.declare(declared, &[], vec![]).await?,
            Command::Fetch(way, name) => self.fetch(*way, name, true, describe).await?,
            Command::Move(way, name) => self.fetch(*way, name, false, describe).await?,
            Command::CopyOut(copy) => self.copy_out(copy).await?,
            Command::CopyIn(copy) => self.copy_in(copy).await?,
        }
        Ok(())
    }

    /// BEGIN and START TRANSACTION.
    fn begin_block(&mut self, mode: TransactionMode, tag: &str) -> Outcome {
        if self.block == Block::Open {
            if !self.is_implicit {
                let error = Error::input("there is a transaction already").with_code("25001");
                self.outbox.put(notice("WARNING", &error));
            }
            self.set_mode(mode)?;
        } else {
            let isolation = mode.isolation.unwrap_or_else(|| self.settings.isolation());
            self.open_block(isolation, mode.writes.unwrap_or_else(|| !self.settings.is_read_only()))?;
            self.is_deferrable = mode.is_deferrable.unwrap_or_else(|| self.settings.is_deferrable());
            self.tell_mode();
        }
        // From now on it ends with COMMIT, and what has been done in it already belongs to it.
        (self.block, self.is_implicit) = (Block::Open, false);
        self.complete(tag);
        Ok(())
    }

    /// COMMIT AND CHAIN, ROLLBACK AND CHAIN.
    async fn chain_blocks(&mut self, commits: bool) -> Outcome {
        if !self.is_in_block() {
            let what = if commits { "COMMIT" } else { "ROLLBACK" };
            let message = format!("{what} AND CHAIN can only be used in transaction blocks");
            return Err(Error::input(message).with_code("25P01").into());
        }
        let commits = commits && self.block != Block::Failed;
        let (isolation, writes) = (self.isolation, self.writes);
        self.end_block(commits).await?;
        self.open_block(isolation, writes)?;
        self.tell_mode();
        self.complete(if commits { "COMMIT" } else { "ROLLBACK" });
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT.
    fn back_to_savepoint(&mut self, name: &str) -> Outcome {
        self.check_savepoint()?;
        let (undone, mark) = self.changes.back_to(name)?;
        if let Some(mark) = mark {
            self.session.back_to(&mark);
        }
        self.undo(undone);
        self.block = Block::Open;
        self.complete("ROLLBACK");
        Ok(())
    }

    /// Gives a setting another value, and remembers what it was for the end of the block.
    fn set_noted(&mut self, name: &str, value: &str, lasts: Lasts) -> Outcome {
        let was = self.before_change(name);
        let report = self.set(name, value, lasts)?;
        self.report(report);
        if let Some(was) = was {
            self.changes.note(was, lasts);
        }
        Ok(())
    }

    /// RESET ALL.
    fn reset_all_settings(&mut self) -> Outcome {
        let changed = if self.block == Block::None { vec![] } else { self.settings.changed() };
        let changed = changed.into_iter().filter_map(|name| self.before_change(name)).collect::<Vec<_>>();
        let before = self.settings.reports();
        self.session.reset_all_within()?;
        self.settings.reset_all();
        self.report_since(&before);
        changed.into_iter().for_each(|was| self.changes.note(was, Lasts::Session));
        self.complete("RESET");
        Ok(())
    }

    /// SHOW.
    fn show_setting(&mut self, name: &str, describe: bool) -> Outcome {
        let of_client = || self.transaction_setting(name).or_else(|| self.settings.get(name));
        let value = match shared(name) {
            Some(shared) => self.session.setting(shared)?,
            None => of_client().map_or_else(|| self.session.setting(name), Ok)?,
        };
        if describe {
            self.describe_text(shown_name(name));
        }
        let mut data = BytesMut::new();
        data.put_i32(value.len() as i32);
        data.put_slice(value.as_bytes());
        self.outbox.put(Out::DataRow(DataRow::new(data, 1)));
        self.complete("SHOW");
        Ok(())
    }

    /// SET TRANSACTION.
    fn set_transaction(&mut self, mode: TransactionMode) -> Outcome {
        if self.block == Block::None {
            let error = Error::input("SET TRANSACTION can only be used in transaction blocks");
            self.outbox.put(notice("WARNING", &error.with_code("25P01")));
        }
        self.set_mode(mode)?;
        self.complete("SET");
        Ok(())
    }

    /// Changes how the transaction is. Fails with code 25001 if it is too late for that.
    fn set_mode(&mut self, mode: TransactionMode) -> Outcome {
        let is_late = self.block != Block::None && self.has_seen;
        if is_late && mode.isolation.is_some_and(|isolation| isolation != self.isolation) {
            let error = Error::input("SET TRANSACTION ISOLATION LEVEL must be called before any query");
            return Err(error.with_code("25001").into());
        }
        if is_late && mode.is_deferrable.is_some_and(|is_deferrable| is_deferrable != self.is_deferrable) {
            let error = Error::input("SET TRANSACTION [NOT] DEFERRABLE must be called before any query");
            return Err(error.with_code("25001").into());
        }
        if is_late && mode.writes == Some(true) && !self.writes {
            let error = Error::input("transaction read-write mode must be set before any query");
            return Err(error.with_code("25001").into());
        }
        if let Some(isolation) = mode.isolation {
            self.session.set_isolation(isolation);
            self.isolation = isolation;
        }
        if let Some(writes) = mode.writes.filter(|_| self.block != Block::None) {
            self.writes = writes;
        }
        if let Some(is_deferrable) = mode.is_deferrable.filter(|_| self.block != Block::None) {
            self.is_deferrable = is_deferrable;
        }
        if self.block != Block::None {
            self.tell_facts();
        }
        Ok(())
    }

    /// Has functions about the session know how a transaction is that begins otherwise than others.
    fn tell_mode(&mut self) {
        let settings = &self.settings;
        let usual = (settings.isolation(), !settings.is_read_only(), settings.is_deferrable());
        if (self.isolation, self.writes, self.is_deferrable) != usual {
            self.tell_facts();
        }
    }

    /// SET SESSION CHARACTERISTICS.
    fn set_transactions(&mut self, mode: TransactionMode) -> Outcome {
        let isolation = mode.isolation.map(|isolation| ("default_transaction_isolation", shown(isolation)));
        let switch = |writes: bool| if writes { "off" } else { "on" };
        let writes = mode.writes.map(|writes| ("default_transaction_read_only", switch(writes)));
        let deferrable = |is_deferrable| ("default_transaction_deferrable", if is_deferrable { "on" } else { "off" });
        for (name, value) in isolation.into_iter().chain(writes).chain(mode.is_deferrable.map(deferrable)) {
            self.set_noted(name, value, Lasts::Session)?;
        }
        self.complete("SET");
        Ok(())
    }

    /// Forgets a statement that PREPARE made.
    async fn deallocate_in_engine(&mut self, name: &str) -> Outcome {
        let (execution, deadline, session) = (self.service.execution().clone(), self.deadline(), self.session.clone());
        let asker = &self.asker;
        let sql = format!("DEALLOCATE \"{}\"", name.replace('"', "\"\""));
        let work = async {
            let parsed = execution.parse(&session, sql).await?;
            execution.start(&session, asker, &parsed, vec![], Allowed::Anything).await?.finish().await
        };
        Self::until(&self.entry, &mut self.inbox, &self.service, deadline, work).await?;
        Ok(())
    }

    /// Changes a setting of the client's or of the engine's. What the client is to be told.
    pub(super) fn set(&mut self, name: &str, value: &str, lasts: Lasts) -> Result<Option<(&'static str, String)>> {
        let is_local = lasts == Lasts::Block;
        if !self.settings.has(name) {
            self.session.set_within(name, Some(value), is_local)?;
            return Ok(None);
        }
        if let Some(name) = shared(name) {
            self.session.set_within(name, Some(value), is_local)?;
            let report = self.shared_changed(name);
            self.tell_facts();
            return Ok(report);
        }
        let report = self.settings.set(name, value)?;
        self.tell_facts();
        Ok(report)
    }

    /// Gives a setting of the client's or of the engine's its first value back.
    fn reset(&mut self, name: &str, lasts: Lasts) -> Result<()> {
        let is_local = lasts == Lasts::Block;
        if let Some(name) = shared(name) {
            self.session.set_within(name, None, is_local)?;
            let report = self.shared_changed(name);
            self.report(report);
        } else if self.settings.has(name) {
            let report = self.settings.reset(name);
            self.report(report);
        } else {
            self.session.set_within(name, None, is_local)?;
        }
        self.tell_facts();
        Ok(())
    }

    /// Takes over a setting of the session's; what the client is to be told.
    pub(super) fn shared_changed(&mut self, name: &str) -> Option<(&'static str, String)> {
        let value = self.session.setting(name).ok()?;
        self.settings.set(name, &value).ok().flatten()
    }

    /// What SHOW says of the transaction; of the next one, if there is none.
    pub(super) fn transaction_setting(&self, name: &str) -> Option<String> {
        let is_open = self.block != Block::None;
        let value = match name.to_lowercase().as_str() {
            "transaction_isolation" if is_open => shown(self.isolation),
            "transaction_isolation" => shown(self.settings.isolation()),
            "transaction_read_only" => {
                let writes = if is_open { self.writes } else { !self.settings.is_read_only() };
                if writes { "off" } else { "on" }
            }
            "transaction_deferrable" => {
                let is_deferrable = if is_open { self.is_deferrable } else { self.settings.is_deferrable() };
                if is_deferrable { "on" } else { "off" }
            }
            _ => return None,
        };
        Some(value.to_owned())
    }

    /// What statements may do now.
    pub(super) fn allowed(&self) -> Allowed {
        match self.block {
            Block::None if self.settings.is_read_only() => Allowed::Reading,
            Block::None => Allowed::Anything,
            _ if self.writes => Allowed::Undoable,
            _ => Allowed::Reading,
        }
    }

    /// Whether there is a block that ends with COMMIT or ROLLBACK.
    fn is_in_block(&self) -> bool {
        self.block != Block::None && !self.is_implicit
    }

    /// Begins a block.
    pub(super) fn open_block(&mut self, isolation: Isolation, writes: bool) -> Result<()> {
        self.session.begin(isolation)?;
        (self.block, self.block_began) = (Block::Open, Some(Instant::now()));
        (self.isolation, self.writes, self.has_seen) = (isolation, writes, false);
        Ok(())
    }

    fn check_savepoint(&self) -> Result<()> {
        if self.is_in_block() {
            return Ok(());
        }
        Err(Error::input("savepoints belong to transactions, and there is none").with_code("25P01"))
    }

    /// Whether SET does anything; the client is warned if it does not: SET LOCAL outside of a block.
    fn has_effect(&mut self, lasts: Lasts) -> bool {
        let has_effect = lasts == Lasts::Session || self.block != Block::None;
        if !has_effect {
            let error = Error::input("SET LOCAL lasts until its transaction ends, and there is none");
            self.outbox.put(notice("WARNING", &error.with_code("25P01")));
        }
        has_effect
    }

    /// What a setting of the client is that is about to be changed, if that is to be remembered here.
    fn before_change(&self, name: &str) -> Option<Value> {
        let is_here = self.block != Block::None && shared(name).is_none();
        self.settings.now(name).filter(|_| is_here)
    }

    /// Makes settings of the client what they were, when those of the session are.
    pub(super) fn undo(&mut self, settings: Vec<Value>) {
        for was in settings {
            let report = self.settings.restore(was);
            self.report(report);
        }
        self.follow_shared();
        self.tell_facts();
    }

    /// Tells the client what has become of settings of the session, by `set_config` for example; whether of any.
    fn follow_shared(&mut self) -> bool {
        let others = |name: &&str| self.session.setting(name).ok() != self.settings.get(name);
        let others = SHARED.into_iter().filter(others).collect::<Vec<_>>();
        for name in &others {
            let report = self.shared_changed(name);
            self.report(report);
        }
        !others.is_empty()
    }

    /// The same behind statements, where looking costs next to nothing if none has changed what statements are planned
    /// by.
    pub(super) fn follow_settings(&mut self) {
        let identity = Some(self.session.planning_identity());
        if self.planned_by != identity {
            self.planned_by = identity;
            if self.follow_shared() {
                self.tell_facts();
            }
        }
    }

    /// All settings may have other values than before: tells the client, and functions about it, which have.
    fn report_since(&mut self, before: &[(&'static str, String)]) {
        for name in SHARED {
            self.shared_changed(name);
        }
        self.tell_facts();
        for report in self.settings.reports() {
            let is_other = !before.contains(&report);
            self.report(Some(report).filter(|_| is_other));
        }
    }

    fn report(&mut self, report: Option<(&'static str, String)>) {
        if let Some((name, value)) = report {
            self.outbox.put(Out::ParameterStatus(ParameterStatus::new(name.to_owned(), value)));
        }
    }
}

/// Rows as messages, as many as go out at once; and the first that is left.
pub(super) fn messages(rows: &Rows, from: usize, to: usize, mut out: BytesMut) -> (usize, BytesMut) {
    out.reserve(ROWS_BYTES + ROWS_BYTES / 8);
    (rows.write_messages(from, to, ROWS_BYTES, &mut out), out)
}

/// What a statement is called when it is done, as PostgreSQL says it.
fn tag_of(done: &CommandDone) -> String {
    let rows = done.rows.unwrap_or(0);
    match done.tag.as_str() {
        "INSERT" => format!("INSERT 0 {rows}"),
        "CREATE TABLE AS" | "CREATE MATERIALIZED VIEW" if done.rows.is_some() => format!("SELECT {rows}"),
        tag @ ("UPDATE" | "DELETE" | "MERGE" | "COPY") => format!("{tag} {rows}"),
        tag => tag.strip_suffix(" WITH NO DATA").unwrap_or(tag).to_owned(),
    }
}

/// What a setting says of the transaction that goes on, if it is one of those that do.
fn mode_of_setting(name: &str, value: &str) -> Option<TransactionMode> {
    let is_on = || boolean(value) == Some(true);
    let mode = TransactionMode::default();
    match name.to_lowercase().as_str() {
        "transaction_read_only" => Some(TransactionMode { writes: Some(!is_on()), ..mode }),
        "transaction_deferrable" => Some(TransactionMode { is_deferrable: Some(is_on()), ..mode }),
        "transaction_isolation" => {
            let isolation = match value.trim().to_lowercase().as_str() {
                "repeatable read" => Isolation::RepeatableRead,
                "serializable" => Isolation::Serializable,
                _ => Isolation::ReadCommitted,
            };
            Some(TransactionMode { isolation: Some(isolation), ..mode })
        }
        _ => None,
    }
}

/// What a transaction sees of others, as SHOW says it.
fn shown(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "read committed",
        Isolation::RepeatableRead => "repeatable read",
        Isolation::Serializable => "serializable",
    }
}
