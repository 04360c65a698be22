//! A session: a state machine over messages.
//!
//! ```text
//!            ╭── Query ──▶ answers ──▶ ReadyForQuery
//! Ready ─────┤
//!            ╰── Parse, Bind, Describe, Execute, Close ──▶ answers … Sync ──▶ ReadyForQuery
//!                    ╰── error ──▶ everything is skipped up to Sync
//! ```
//!
//! Transactions: BEGIN opens a block, whose changes others see when COMMIT is answered, all at once. Files cannot be
//! written in a block (25001), because that could not be rolled back. Statements that are sent together, as a script or
//! before one Sync, are an [implicit block](super::implicit). Outside of a block every statement stands by itself and
//! is done when it is answered. Settings can be rolled back: [`changes`](crate::session::changes) knows what they were.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::ArrayRef;
use diligence_base::{Error, Result};
use diligence_db::plans::normalized;
use diligence_db::postgres::{TEXT, origin};
use diligence_db::{Facts, Isolation, Notification, PlanningIdentity, Session};
use pgwire::messages::data::{FieldDescription, NoData, ParameterDescription, RowDescription};
use pgwire::messages::extendedquery::{Bind, BindComplete, CloseComplete, Execute, Parse, ParseComplete};
use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, NotificationResponse, ReadyForQuery, TransactionStatus,
};
use pgwire::messages::startup::{BackendKeyData, ParameterStatus, SecretKey};
use pgwire::messages::{PgWireBackendMessage as Out, PgWireFrontendMessage as In};
use tokio::time::Instant;

use super::Peer;
use super::cursor::Cursor;
use super::deadlines::{Deadline, Over, sooner};
use super::portal::{Portal, PortalState, Prepared, PreparedKind, Reading, same_columns};
use super::startup::Arrival;
use super::templates::{Templates, templates};
use super::trouble::{Block, Outcome, Trouble};
use super::wire::{Broken, Inbox, Outbox, Received, error_response, failure, notice};
use crate::admission::Asker;
use crate::encoding::columns::{Columns, Form, form_of};
use crate::encoding::parameters::{declared, declared_name, differs, number_of, value};
use crate::execution::STALLED_AFTER;
use crate::registry::{InBlock, Registered};
use crate::service::Service;
use crate::session::changes::Changes;
use crate::session::commands::{self, Command, Lasts};
use crate::session::settings::{ClientSettings, SHARED, command_line_settings, shown_name};
use crate::sqlstate;

/// Prepared statements and portals of one session at most.
const NAMED_MAX: usize = 10_000;

/// One client's session.
pub(super) struct PgSession {
    pub(super) service: Arc<Service>,
    pub(super) session: Session,
    pub(super) asker: Asker,
    pub(super) entry: Registered,
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
    pub(super) settings: ClientSettings,
    pub(super) block: Block,
    /// Whether the block that is open ends with the statements that were sent together, without a COMMIT.
    pub(super) is_implicit: bool,
    /// When the block began, if there is one.
    pub(super) block_began: Option<Instant>,
    /// Whether statements of the block may write.
    pub(super) writes: bool,
    /// Whether the block is DEFERRABLE, as SHOW has it: nothing waits for a moment without conflicts.
    pub(super) is_deferrable: bool,
    /// What the block sees of others.
    pub(super) isolation: Isolation,
    /// Whether a statement of the block has seen something.
    pub(super) has_seen: bool,
    /// Whether functions about the session were told of the block, or of what has changed in it.
    told_in_block: bool,
    /// Whether a statement is done only when something else is, and what is to be said of it then.
    holds_completion: bool,
    held_completion: Option<String>,
    /// Settings that were changed in the block.
    pub(super) changes: Changes,
    /// By what statements were planned when the client was last told of settings.
    pub(super) planned_by: Option<PlanningIdentity>,
    statements: HashMap<String, Arc<Prepared>>,
    pub(super) portals: HashMap<String, Portal>,
    pub(super) cursors: HashMap<String, Cursor>,
    /// Statements that differed in constants only.
    pub(super) templates: Templates,
    /// Skips messages up to Sync, after an error.
    skipping: bool,
    /// Where the error occurred that the client is told of next, if not in a statement.
    pub(super) context: Option<String>,
}

/// Serves a client that was let in until it leaves.
pub(crate) async fn run(service: Arc<Service>, arrival: Arrival, peer: Peer) {
    let Arrival { inbox, mut outbox, user, role, parameters, key_bytes } = arrival;
    let most = service.options().limits.sessions_max;
    let refusal = if service.is_stopping() {
        Some(Error::resource("the server is stopping").with_code(sqlstate::SHUTDOWN))
    } else if service.registry().count() >= most {
        Some(
            Error::resource(format!("there are {most} sessions already: no more are taken"))
                .with_code(sqlstate::TOO_MANY)
                .with_hint("close sessions that are not used, or raise --sessions-max"),
        )
    } else {
        None
    };
    let registered = match refusal {
        Some(error) => Err(error),
        None => service.registry().register("postgres", &user, peer.to_string(), key_bytes),
    };
    let entry = match registered {
        Ok(entry) => entry,
        Err(error) => {
            service.registry().refused_total.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            outbox.put(error_response(&error, None, true));
            return outbox.close().await;
        }
    };
    let session = service.database().session_with(role.options_of(&user));
    let timeout = role.time(service.options().limits.statement_time_max);
    let settings = ClientSettings::new(&user, timeout, role.limits.time);
    let asker = Asker::new(&user, role);
    let mut session = PgSession {
        service,
        session,
        asker,
        entry,
        inbox,
        outbox,
        settings,
        block: Block::None,
        is_implicit: false,
        block_began: None,
        writes: true,
        is_deferrable: false,
        isolation: Isolation::default(),
        has_seen: false,
        told_in_block: false,
        holds_completion: false,
        held_completion: None,
        changes: Changes::default(),
        planned_by: None,
        statements: HashMap::new(),
        portals: HashMap::new(),
        cursors: HashMap::new(),
        templates: templates(),
        skipping: false,
        context: None,
    };
    let broken = match session.greet(&parameters).await {
        Ok(()) => session.serve().await,
        Err(broken) => broken,
    };
    if let Broken::Malformed(error) = broken {
        session.outbox.put(error_response(&error, None, true));
    }
    // What still runs ends now, not when the client's socket is closed.
    session.portals.clear();
    session.cursors.clear();
    // Nor do others wait for its locks until the client has read its last message.
    session.session.roll_back();
    session.outbox.close().await;
}

impl PgSession {
    /// When a statement that begins now has to end.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        let now = Instant::now();
        let statement = self.settings.timeout().map(|time| Deadline { at: now + time, of: Over::Statement });
        sooner(statement, self.transaction_deadline(now))
    }

    /// When a session that rests since then has to do something.
    pub(super) fn rest_deadline(&self, since: Instant) -> Option<Deadline> {
        let until = |name, of| self.settings.duration(name).map(|time| Deadline { at: since + time, of });
        match self.block {
            Block::None => until("idle_session_timeout", Over::Rest),
            Block::Open | Block::Failed => sooner(
                until("idle_in_transaction_session_timeout", Over::RestInTransaction),
                self.transaction_deadline(since),
            ),
        }
    }

    /// When the transaction has to end that goes on, or that begins now.
    fn transaction_deadline(&self, now: Instant) -> Option<Deadline> {
        let time: Duration = self.settings.duration("transaction_timeout")?;
        Some(Deadline { at: self.block_began.unwrap_or(now) + time, of: Over::Transaction })
    }

    async fn greet(&mut self, parameters: &[(String, String)]) -> Result<(), Broken> {
        for (name, value) in self.session.initial_settings() {
            self.settings.begin_with(&name, &value);
        }
        for name in SHARED {
            self.shared_changed(name);
        }
        for (name, value) in parameters {
            match name.as_str() {
                "user" | "database" | "replication" | "options" => {}
                name if name.starts_with("_pq_.") => {}
                name => {
                    // A start-up that fails because of a setting helps nobody; the client sees in ParameterStatus what
                    // holds.
                    let set = match self.settings.has(name) {
                        true => self.set(name, value, Lasts::Session).map(|_| ()),
                        false => self.settings.set(name, value).map(|_| ()),
                    };
                    if let Err(error) = set {
                        self.outbox.put(notice("WARNING", &error));
                    }
                }
            }
        }
        if let Some((_, options)) = parameters.iter().find(|(name, _)| name == "options") {
            for (name, value) in command_line_settings(options) {
                if let Err(error) = self.set(&name, &value, Lasts::Session) {
                    self.outbox.put(notice("WARNING", &error));
                }
            }
        }
        self.tell_facts();
        for (name, value) in self.settings.reports() {
            self.outbox.put(Out::ParameterStatus(ParameterStatus::new(name.to_owned(), value)));
        }
        let key = match <[u8; 4]>::try_from(self.entry.key.as_slice()) {
            Ok(four) => SecretKey::I32(i32::from_be_bytes(four)),
            Err(_) => SecretKey::Bytes(self.entry.key.clone().into()),
        };
        self.outbox.put(Out::BackendKeyData(BackendKeyData::new(self.entry.id, key)));
        self.ready();
        Ok(())
    }

    /// What functions about the client answer, and listings show, from now on.
    pub(super) fn tell_facts(&mut self) {
        self.told_in_block |= self.block != Block::None;
        self.entry.is_called(&self.settings.get("application_name").unwrap_or_default());
        self.outbox.tell_from(&self.settings.get("client_min_messages").unwrap_or_default());
        let mut settings = self.settings.all();
        for name in ["transaction_deferrable", "transaction_isolation", "transaction_read_only"] {
            settings.extend(self.transaction_setting(name).map(|value| (name.to_owned(), value)));
        }
        self.session.set_facts(Facts { user: self.entry.user.clone(), process_id: self.entry.id, settings });
        let known = self.settings.clone();
        self.session.set_client_check(Arc::new(move |name: &str, value: &str| {
            let mut known = known.clone();
            known.set(name, value)?;
            Ok(known.get(name).unwrap_or_default())
        }));
    }

    async fn serve(&mut self) -> Broken {
        let mut rests_since = None;
        loop {
            if !self.inbox.has_message() {
                if let Err(broken) = self.send_at_rest().await {
                    return broken;
                }
                self.outbox.rest();
            }
            let reads = self.readings().next().is_some();
            let since = *rests_since.get_or_insert_with(Instant::now);
            let deadline = self.rest_deadline(since);
            let message = tokio::select! {
                biased;
                message = self.inbox.next() => message,
                over = Deadline::over(deadline) => match over {
                    Trouble::Broken(broken) => return broken,
                    Trouble::Failed(error) => return Broken::Malformed(error),
                },
                () = tokio::time::sleep(STALLED_AFTER), if reads => {
                    self.readings().for_each(|reading| reading.running.stall());
                    continue;
                }
                () = self.session.notified(), if self.block == Block::None => {
                    self.tell_notifications();
                    continue;
                }
                () = self.entry.ended() => return Broken::Malformed(ended_by_another()),
                () = self.service.stopping() => {
                    let error = Error::resource("the server is stopping").with_code(sqlstate::SHUTDOWN);
                    return Broken::Malformed(error);
                }
            };
            let message = match message {
                Ok(Received::Message(In::Terminate(_))) => return Broken::Gone,
                Ok(message) => message,
                Err(broken) => return broken,
            };
            match self.message(message).await {
                Ok(()) => rests_since = None,
                Err(broken) => return broken,
            }
        }
    }

    /// Queries that the client has not read to their end: of portals, and of cursors.
    fn readings(&mut self) -> impl Iterator<Item = &mut Reading> {
        let portals = self.portals.values_mut().chain(self.cursors.values_mut().map(|cursor| &mut cursor.portal));
        portals.filter_map(|portal| match &mut portal.state {
            PortalState::Running(reading) => Some(&mut **reading),
            PortalState::Bound | PortalState::Done => None,
        })
    }

    async fn message(&mut self, received: Received) -> Result<(), Broken> {
        if self.skipping && !matches!(received, Received::Message(In::Sync(_))) {
            return Ok(());
        }
        let Received::Message(message) = received else {
            let error = Error::unsupported("functions are not called by a message of their own here")
                .with_code(sqlstate::UNSUPPORTED)
                .with_hint("call it in a query: SELECT name(…)");
            self.told(Err(error.into()), None)?;
            self.ready();
            return Ok(());
        };
        let outcome = match message {
            In::Query(query) => {
                let outcome = self.simple(&query.query).await;
                self.entry.does(None);
                match self.told(outcome, Some(&query.query)) {
                    Ok(_) => self.ready(),
                    Err(broken) => return Err(broken),
                }
                return Ok(());
            }
            In::Parse(parse) => {
                let statement = parse.query.clone();
                let outcome = self.parse(parse).await;
                if !self.told(outcome, Some(&statement))? {
                    self.skipping = true;
                }
                return Ok(());
            }
            In::Bind(bind) => self.bind(bind),
            In::Describe(describe) => self.describe(describe.target_type, &describe.name.unwrap_or_default()).await,
            In::Execute(execute) => self.execute(execute).await,
            In::Close(close) => self.close(close.target_type, &close.name.unwrap_or_default()),
            In::Flush(_) => self.send_at_rest().await.map_err(Trouble::Broken),
            In::Sync(_) => {
                self.skipping = false;
                let ended = self.end_implicit_block().await;
                self.entry.does(None);
                self.told(ended, None)?;
                if self.block == Block::None {
                    self.portals.clear();
                }
                self.ready();
                return Ok(());
            }
            // What is left of a COPY that failed.
            In::CopyData(_) | In::CopyDone(_) | In::CopyFail(_) => Ok(()),
            _ => {
                Err(Trouble::Failed(Error::input("a message that does not belong here").with_code(sqlstate::PROTOCOL)))
            }
        };
        if !self.told(outcome, None)? {
            self.skipping = true;
        }
        Ok(())
    }

    /// Tells the client of a failure; false if there was one. A block that is open has failed then.
    pub(super) fn told(&mut self, outcome: Outcome, statement: Option<&str>) -> Result<bool, Broken> {
        match outcome {
            Ok(()) => Ok(true),
            Err(Trouble::Broken(broken)) => Err(broken),
            Err(Trouble::Failed(error)) => {
                self.outbox.put(failure(&error, statement, self.context.take()));
                self.block_fails();
                Ok(false)
            }
        }
    }

    /// A block that is open has failed. Without a savepoint nothing but its end can follow, so others have its locks.
    /// Of an implicit one, this is the end.
    fn block_fails(&mut self) {
        if self.is_implicit {
            self.session.roll_back();
            self.leave_block(false);
        } else if self.block == Block::Open {
            self.block = Block::Failed;
            if !self.changes.has_savepoints() {
                self.session.unlock_failed();
            }
        }
    }

    pub(super) fn ready(&mut self) {
        let (status, block) = match self.block {
            Block::None => (TransactionStatus::Idle, InBlock::No),
            Block::Open => (TransactionStatus::Transaction, InBlock::Yes),
            Block::Failed => (TransactionStatus::Error, InBlock::Failed),
        };
        self.entry.is_in(block);
        self.follow_settings();
        self.tell_notifications();
        self.outbox.put(Out::ReadyForQuery(ReadyForQuery::new(status)));
    }

    /// Tells the client what was said in the channels that it listens to, unless it is in a transaction.
    fn tell_notifications(&mut self) {
        if self.block != Block::None {
            return;
        }
        for Notification { channel, payload, process_id } in self.session.take_notifications() {
            let told = NotificationResponse::new(process_id, channel, payload);
            self.outbox.put(Out::NotificationResponse(told));
        }
    }

    pub(super) fn complete(&mut self, tag: impl Into<String>) {
        match self.holds_completion {
            true => self.held_completion = Some(tag.into()),
            false => self.outbox.put(Out::CommandComplete(CommandComplete::new(tag.into()))),
        }
    }

    /// Runs work that is waited for, until it is done, somebody cancels it, its time is over, or the client leaves.
    pub(super) async fn until<T>(
        entry: &Registered,
        inbox: &mut Inbox,
        service: &Service,
        deadline: Option<Deadline>,
        work: impl Future<Output = Result<T>>,
    ) -> Outcome<T> {
        let cancelled = || Trouble::Failed(Error::cancelled().with_code(sqlstate::CANCELLED));
        let asked = entry.cancel.notified();
        tokio::pin!(asked);
        asked.as_mut().enable();
        if entry.is_cancelled() {
            return Err(cancelled());
        }
        tokio::select! {
            biased;
            done = work => Ok(done?),
            () = asked => Err(cancelled()),
            over = Deadline::over(deadline) => Err(over),
            () = inbox.left() => Err(Trouble::Broken(Broken::Gone)),
            broken = over(entry, service) => Err(Trouble::Broken(broken)),
        }
    }

    /// The simple protocol: a script, whose statements are answered one after the other. The last one of an implicit
    /// block is done when the block is committed.
    async fn simple(&mut self, script: &str) -> Outcome {
        let outcome = self.script(script).await;
        self.holds_completion = false;
        let held = self.held_completion.take();
        if let (Ok(()), Some(tag)) = (&outcome, held) {
            self.complete(tag);
        }
        outcome
    }

    async fn script(&mut self, script: &str) -> Outcome {
        self.entry.does(Some(script));
        // Those end with each simple query.
        self.portals.remove("");
        let execution = self.service.execution().clone();
        let deadline = self.deadline();
        if let Some((prepared, values)) = self.like_before(script, deadline).await? {
            self.holds_completion = self.is_implicit;
            self.run_alone(prepared, values).await?;
            return self.end_implicit_block().await;
        }
        let known = execution.plan_cache().parsed(self.session.planning_identity(), script);
        let statements = match &known {
            Some(known) => vec![known.text().to_owned()],
            None => {
                let split = execution.statements_of(script.to_owned());
                Self::until(&self.entry, &mut self.inbox, &self.service, deadline, split).await?
            }
        };
        let (is_new, is_script) = (known.is_none() && statements.len() == 1, statements.len() > 1);
        if statements.is_empty() {
            self.outbox.put(Out::EmptyQueryResponse(EmptyQueryResponse::new()));
            return self.end_implicit_block().await;
        }
        let last = statements.len() - 1;
        for (place, text) in statements.into_iter().enumerate() {
            let prepared = self.prepare(text, vec![], false).await?;
            if let (true, PreparedKind::Statement(parsed, _)) = (is_new, &prepared.kind) {
                execution.plan_cache().put_parsed(self.session.planning_identity(), script, parsed);
            }
            if is_script {
                self.open_implicit_block(&prepared)?;
            }
            self.holds_completion = self.is_implicit && place == last;
            self.run_alone(Arc::new(prepared), vec![]).await?;
        }
        self.end_implicit_block().await
    }

    /// Runs a statement of the simple protocol, and sends all its rows as text.
    async fn run_alone(&mut self, statement: Arc<Prepared>, values: Vec<ArrayRef>) -> Outcome {
        let (state, forms) = (PortalState::Bound, vec![]);
        let mut portal = Portal { statement, values, forms, state, sent: 0, written: None };
        self.run_portal(&mut portal, None, true).await
    }

    /// Makes a statement ready: for the engine its syntax tree, and with `describe` what it takes and gives.
    pub(super) async fn prepare(&mut self, text: String, oids: Vec<u32>, describe: bool) -> Outcome<Prepared> {
        if normalized(&text).is_empty() {
            return Ok(Prepared { text, kind: PreparedKind::Empty, declared: oids, parameters: vec![], query: None });
        }
        let command =
            commands::command(&text).map_err(|refused| Error::input(refused.message).with_code(refused.code))?;
        let Some(command) = command else { return self.prepare_statement(text, oids, describe).await };
        let query = match &command {
            Command::Declare(declared) if describe && declared.query.contains('$') => {
                Some(Arc::new(self.prepare_statement(declared.query.clone(), oids.clone(), true).await?))
            }
            _ => None,
        };
        let parameters = query.as_ref().map_or_else(Vec::new, |query| query.parameters.clone());
        Ok(Prepared { text, kind: PreparedKind::Command(command), declared: oids, parameters, query })
    }

    /// As [`prepare`](Self::prepare), of a statement for the engine.
    async fn prepare_statement(&mut self, text: String, oids: Vec<u32>, describe: bool) -> Outcome<Prepared> {
        if self.block == Block::Failed {
            return Err(failed_block());
        }
        let (execution, deadline) = (self.service.execution().clone(), self.deadline());
        let given = oids.iter().map(|oid| declared(*oid)).collect::<Vec<_>>();
        let names = oids.iter().map(|oid| declared_name(*oid)).collect::<Vec<_>>();
        let session = self.session.clone();
        let work = async {
            let parsed = execution.parse(&session, text.clone()).await?;
            if !describe {
                return Ok((parsed, diligence_db::Description::default()));
            }
            let told = session.without_cursor(&parsed)?;
            let described = execution.describe(&session, told.as_ref().unwrap_or(&parsed), given.clone()).await;
            // What the client declares may be what an operator means.
            let is_other = match &described {
                Ok(description) => differs(description, &names),
                Err(error) => matches!(error.code(), Some("42725" | "42883" | "42804" | "42846")),
            };
            if is_other && names.iter().any(Option::is_some) {
                let declared = execution.parse(&session, Session::with_declared(&text, &names)?).await?;
                let told = session.without_cursor(&declared)?;
                let description = execution.describe(&session, told.as_ref().unwrap_or(&declared), given).await;
                if let Ok(description) = description {
                    return Ok((declared, description));
                }
            }
            Ok((parsed, described?))
        };
        let (parsed, description) = Self::until(&self.entry, &mut self.inbox, &self.service, deadline, work).await?;
        let parameters = description.parameter_types.iter().enumerate().map(|(index, known)| match oids.get(index) {
            Some(oid) if *oid != 0 && *oid != 705 => *oid,
            _ => number_of(known),
        });
        let parameters = parameters.collect();
        let kind = PreparedKind::Statement(parsed, description);
        Ok(Prepared { text, kind, declared: oids, parameters, query: None })
    }

    /// Fails if a statement does not give the columns any more that it was described with. Described anew, since what
    /// it is described with and what it gives could differ for other reasons.
    pub(super) async fn check_columns(&mut self, statement: &Prepared) -> Outcome {
        let Some(before) = statement.described() else { return Ok(()) };
        let again = self.prepare(statement.text.clone(), statement.declared.clone(), true).await?;
        if again.described().is_some_and(|now| same_columns(before, now)) {
            return Ok(());
        }
        let error = Error::unsupported(
            "cached plan must not change result type: the statement gives other columns than when it was prepared",
        );
        Err(error
            .with_code(sqlstate::UNSUPPORTED)
            .with_hint("prepare it again: what it reads has been replaced since by something with other columns")
            .into())
    }

    async fn parse(&mut self, parse: Parse) -> Outcome {
        let name = parse.name.unwrap_or_default();
        self.entry.does(Some(&parse.query));
        if !name.is_empty() {
            if self.statements.contains_key(&name) {
                let error = Error::input(format!("a prepared statement named '{name}' exists already"));
                return Err(error.with_code("42P05").into());
            }
            if self.statements.len() >= NAMED_MAX {
                let error = Error::resource(format!("a session has at most {NAMED_MAX} prepared statements"));
                return Err(error.with_code(sqlstate::LIMIT).into());
            }
        } else {
            self.statements.remove("");
        }
        let (execution, deadline) = (self.service.execution().clone(), self.deadline());
        let is_known = execution.plan_cache().parsed(self.session.planning_identity(), &parse.query).is_some();
        let pieces = if is_known {
            vec![]
        } else {
            let split = execution.statements_of(parse.query.clone());
            Self::until(&self.entry, &mut self.inbox, &self.service, deadline, split).await?
        };
        if pieces.len() > 1 {
            let error = Error::input("a prepared statement is one statement, and this text has several");
            return Err(error.with_code("42601").into());
        }
        let prepared = self.prepare(parse.query, parse.type_oids, true).await?;
        if !name.is_empty() {
            self.session.client_prepares(&name, &prepared.text, &prepared.parameters);
        }
        self.statements.insert(name, Arc::new(prepared));
        self.outbox.put(Out::ParseComplete(ParseComplete::new()));
        Ok(())
    }

    fn bind(&mut self, bind: Bind) -> Outcome {
        let statement = self.statement(&bind.statement_name.unwrap_or_default())?;
        let name = bind.portal_name.unwrap_or_default();
        if !name.is_empty() && (self.portals.contains_key(&name) || self.portals.len() >= NAMED_MAX) {
            return Err(Error::input(format!("a portal named '{name}' exists already")).with_code("42P03").into());
        }
        let (given, wanted) = (bind.parameters.len(), statement.parameters.len());
        if given != wanted {
            let error = Error::input(format!("the statement has {wanted} parameters; found {given} values"));
            return Err(error.with_code(sqlstate::PROTOCOL).into());
        }
        let codes = &bind.parameter_format_codes;
        if codes.len() > 1 && codes.len() != given {
            return Err(Error::input("there are not as many format codes as parameters")
                .with_code(sqlstate::PROTOCOL)
                .into());
        }
        let mut values = Vec::with_capacity(given);
        let with_parameters = statement.query.as_deref().unwrap_or(&statement);
        if let PreparedKind::Statement(_, description) = &with_parameters.kind {
            let zone = self.session.time_zone();
            for (index, bytes) in bind.parameters.iter().enumerate() {
                let form = match codes.as_slice() {
                    [] => Form::Text,
                    [one] => form_of(*one)?,
                    many => form_of(many[index])?,
                };
                let wanted = &description.parameter_types[index];
                let one = value(bytes.as_deref(), statement.parameters[index], form, wanted, zone);
                let portal = if name.is_empty() { "unnamed portal".to_owned() } else { format!("portal \"{name}\"") };
                let one = one.inspect_err(|_| self.context = Some(format!("{portal} parameter ${}", index + 1)))?;
                values.push(one);
            }
        }
        let forms = &bind.result_column_format_codes;
        for code in forms {
            form_of(*code)?;
        }
        let described = match &statement.kind {
            PreparedKind::Statement(_, description) => description.schema.as_ref(),
            _ => None,
        };
        if let Some(schema) = described
            && forms.len() > 1
            && forms.len() != schema.fields().len()
        {
            let (formats, columns) = (forms.len(), schema.fields().len());
            let message = format!("bind message has {formats} result formats but query has {columns} columns");
            return Err(Error::input(message).with_code(sqlstate::PROTOCOL).into());
        }
        let portal = Portal {
            statement,
            values,
            forms: bind.result_column_format_codes,
            state: PortalState::Bound,
            sent: 0,
            written: None,
        };
        self.portals.insert(name, portal);
        self.outbox.put(Out::BindComplete(BindComplete::new()));
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<Arc<Prepared>> {
        self.statements
            .get(name)
            .cloned()
            .ok_or_else(|| Error::input(format!("no prepared statement is named '{name}'")).with_code("26000"))
    }

    async fn describe(&mut self, target: u8, name: &str) -> Outcome {
        let (statement, forms) = if target == b'S' {
            (self.statement(name)?, vec![])
        } else {
            // What DECLARE has opened is a portal, too.
            let cursor = || self.cursors.get(name).map(|cursor| &cursor.portal);
            let portal = self.portals.get(name).or_else(cursor).ok_or_else(|| no_portal(name))?;
            (portal.statement.clone(), portal.forms.clone())
        };
        if target == b'S' {
            let types = statement.parameters.clone();
            self.outbox.put(Out::ParameterDescription(ParameterDescription::new(types)));
        }
        match &statement.kind {
            PreparedKind::Statement(_, description) => match &description.schema {
                Some(schema) => {
                    let columns = Columns::new(schema, &forms)?;
                    self.describe_rows(schema, &columns);
                }
                None => self.outbox.put(Out::NoData(NoData::new())),
            },
            PreparedKind::Command(Command::Show(name)) => self.describe_text(shown_name(name)),
            PreparedKind::Command(Command::Fetch(_, cursor)) => {
                let found = self.cursors.get(cursor).map(|cursor| cursor.portal.statement.clone());
                let of_procedure = || self.session.cursor(cursor).map(|rows| rows.lock().schema().clone());
                if found.is_none()
                    && let Some(schema) = of_procedure()
                {
                    let columns = Columns::new(&schema, &[])?;
                    self.describe_rows(&schema, &columns);
                    return Ok(());
                }
                match found.as_deref().map(|statement| &statement.kind) {
                    Some(PreparedKind::Statement(_, description)) if description.schema.is_some() => {
                        let schema =
                            description.schema.clone().unwrap_or_else(|| Arc::new(arrow::datatypes::Schema::empty()));
                        let columns = Columns::new(&schema, &forms)?;
                        self.describe_rows(&schema, &columns);
                    }
                    _ => self.outbox.put(Out::NoData(NoData::new())),
                }
            }
            PreparedKind::Command(_) | PreparedKind::Empty => self.outbox.put(Out::NoData(NoData::new())),
        }
        Ok(())
    }

    pub(super) fn describe_rows(&mut self, schema: &arrow::datatypes::Schema, columns: &Columns) {
        let fields = schema.fields().iter().zip(columns.iter()).map(|(field, (column, form))| {
            let code = i16::from(*form == Form::Binary);
            let (table, place) = origin(field);
            FieldDescription::new(
                field.name().clone(),
                table as i32,
                place,
                column.oid,
                column.bytes(),
                column.modifier,
                code,
            )
        });
        self.outbox.put(Out::RowDescription(RowDescription::new(fields.collect())));
    }

    /// One column of text, as SHOW has.
    pub(super) fn describe_text(&mut self, name: &str) {
        let field = FieldDescription::new(name.to_owned(), 0, 0, TEXT.oid, TEXT.bytes, -1, 0);
        self.outbox.put(Out::RowDescription(RowDescription::new(vec![field])));
    }

    async fn execute(&mut self, execute: Execute) -> Outcome {
        let name = execute.name.unwrap_or_default();
        let mut portal = self.portals.remove(&name).ok_or_else(|| no_portal(&name))?;
        let text = portal.statement.text.clone();
        self.entry.does(Some(&text));
        let most = usize::try_from(execute.max_rows).ok().filter(|rows| *rows > 0);
        let outcome = match self.open_pipeline(&portal.statement) {
            Ok(()) => self.run_portal(&mut portal, most, false).await,
            failed => failed,
        };
        match &outcome {
            Ok(()) => {
                self.portals.insert(name, portal);
                Ok(())
            }
            // The place in the text is told here, where the text is known.
            Err(Trouble::Failed(error)) => {
                self.outbox.put(failure(error, Some(&text), self.context.take()));
                self.block_fails();
                self.skipping = true;
                Ok(())
            }
            Err(_) => outcome,
        }
    }

    fn close(&mut self, target: u8, name: &str) -> Outcome {
        if target == b'S' {
            self.deallocate(Some(name));
        } else {
            self.portals.remove(name);
        }
        self.outbox.put(Out::CloseComplete(CloseComplete::new()));
        Ok(())
    }

    /// Whether the client has prepared a statement of that name over the protocol.
    pub(super) fn is_prepared(&self, name: &str) -> bool {
        self.statements.contains_key(name)
    }

    /// Forgets a statement that was prepared over the protocol, or all.
    pub(super) fn deallocate(&mut self, name: Option<&str>) {
        self.session.client_forgets(name);
        match name {
            None => self.statements.clear(),
            Some(name) => drop(self.statements.remove(name)),
        }
    }

    /// The end of a block: its portals and cursors end, too, and settings become what they are to be after it. Fails
    /// where its changes cannot be committed; then it is rolled back.
    pub(super) async fn end_block(&mut self, commits: bool) -> Outcome {
        let held = if commits { self.hold_cursors().await } else { Ok(()) };
        let commits = commits && held.is_ok();
        let committed = match commits {
            false => {
                self.session.roll_back();
                Ok(())
            }
            true if self.session.commits_at_once(true) => self.session.commit(),
            true => self.commit_in_time().await,
        };
        self.show_printed(&self.session.printed().clone());
        self.leave_block(commits && committed.is_ok());
        held?;
        Ok(committed?)
    }

    /// What belongs to the session is as it is to be after a block that has been committed, or rolled back.
    fn leave_block(&mut self, is_committed: bool) {
        (self.block, self.block_began, self.is_implicit) = (Block::None, None, false);
        let undone = self.changes.end(is_committed);
        if std::mem::take(&mut self.told_in_block) || !undone.is_empty() {
            self.undo(undone);
        } else {
            self.follow_settings();
        }
        self.portals.clear();
        self.end_cursors(is_committed);
    }

    /// Everything as at the start of the session.
    pub(super) fn discard(&mut self) {
        self.statements.clear();
        self.portals.clear();
        self.cursors.clear();
        self.settings.reset_all();
        self.session.discard();
        self.tell_facts();
    }
}

fn no_portal(name: &str) -> Error {
    Error::input(format!("no portal is named '{name}'")).with_code("34000")
}

pub(super) fn failed_block() -> Trouble {
    let error = Error::input("the transaction has failed; nothing is done until it ends");
    Trouble::Failed(error.with_code(sqlstate::FAILED_TRANSACTION).with_hint("ROLLBACK ends it"))
}

/// Comes back when the session has to end, whatever its client does.
pub(super) async fn over(entry: &Registered, service: &Service) -> Broken {
    tokio::select! {
        biased;
        () = entry.ended() => Broken::Malformed(ended_by_another()),
        () = service.stopping_hard() => {
            Broken::Malformed(Error::resource("the server is stopping").with_code(sqlstate::SHUTDOWN))
        }
    }
}

/// What a session says whose end somebody has asked for.
pub(super) fn ended_by_another() -> Error {
    Error::resource("terminating connection due to administrator command").with_code(sqlstate::SHUTDOWN)
}
