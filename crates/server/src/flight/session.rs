//! A session: what a client has on the server between its calls.
//!
//! A session belongs to a token, or, where nobody has to log in, to a connection. Its calls may come at the same time.
//! It has one transaction at most: what [`transaction`](super::transaction) begins, all its statements are in.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use diligence_base::{Error, Result};
use diligence_db::{Facts, Session};
use parking_lot::Mutex;

use super::cancellation::Cancellation;
use super::prepared::{Offer, Prepared};
use crate::admission::Asker;
use crate::execution::{Allowed, StatementExecution};
use crate::registry::Registered;
use crate::roles::Role;
use crate::service::Service;
use crate::session::changes::Changes;
use crate::session::settings::{ClientSettings, SHARED};
use crate::sqlstate;

/// Prepared statements of one session, and statements that wait to be fetched, at most.
const NAMED_MAX: usize = 10_000;

/// A session.
pub(super) struct FlightSession {
    pub(super) service: Arc<Service>,
    pub(super) session: Session,
    pub(super) entry: Registered,
    role: Arc<Role>,
    next: AtomicU64,
    pub(super) state: Mutex<State>,
}

/// What changes.
pub(super) struct State {
    pub(super) settings: ClientSettings,
    /// Settings that were changed in the transaction, and its savepoints.
    pub(super) changes: Changes,
    /// Names of savepoints by their numbers.
    pub(super) savepoints: HashMap<u64, String>,
    pub(super) open: Option<Open>,
    /// The number of the last transaction whose commit has failed.
    pub(super) lost: Option<u64>,
    prepared: HashMap<u64, Arc<Prepared>>,
    /// Statements whose tickets were given out; the oldest first.
    offers: BTreeMap<u64, Offer>,
    running: HashMap<u64, Cancellation>,
}

/// A transaction that is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// What its client calls it.
    pub(super) number: u64,
    /// Whether its statements may write.
    pub(super) writes: bool,
    /// Whether a statement has failed: nothing but a rollback goes on.
    pub(super) has_failed: bool,
}

/// A statement that runs, as long as it lives.
pub(super) struct Running {
    session: Arc<FlightSession>,
    number: u64,
    pub(super) cancellation: Cancellation,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.session.state.lock();
        state.running.remove(&self.number);
        if state.running.is_empty() {
            self.session.entry.does(None);
        }
    }
}

impl FlightSession {
    /// A new session. Fails with code 57P01 if the server is stopping, and with code 53300 if there are too many
    /// sessions.
    pub(super) fn open(service: &Arc<Service>, user: &str, role: Arc<Role>, peer: String) -> Result<Arc<Self>> {
        if service.is_stopping() {
            return Err(Error::resource("the server is stopping").with_code(sqlstate::SHUTDOWN));
        }
        let most = service.options().limits.sessions_max;
        if service.registry().count() >= most {
            service.registry().refused_total.fetch_add(1, Ordering::Relaxed);
            let error = Error::resource(format!("there are {most} sessions already: no more are taken"));
            let hint = "close sessions that are not used, or raise --sessions-max";
            return Err(error.with_code(sqlstate::TOO_MANY).with_hint(hint));
        }
        let entry = service.registry().register("flight", user, peer, 4)?;
        let session = service.database().session_with(role.options_of(user));
        let timeout = role.time(service.options().limits.statement_time_max);
        let mut settings = ClientSettings::new(user, timeout, role.limits.time);
        for (name, value) in session.initial_settings() {
            settings.begin_with(&name, &value);
        }
        for name in SHARED {
            if let Ok(value) = session.setting(name) {
                settings.set(name, &value)?;
            }
        }
        let state = State {
            settings,
            changes: Changes::default(),
            savepoints: HashMap::new(),
            open: None,
            lost: None,
            prepared: HashMap::new(),
            offers: BTreeMap::new(),
            running: HashMap::new(),
        };
        let opened =
            Self { service: service.clone(), session, entry, role, next: AtomicU64::new(1), state: Mutex::new(state) };
        opened.tell_facts(&opened.state.lock());
        Ok(Arc::new(opened))
    }

    /// What functions about the session answer, and listings show, from now on.
    pub(super) fn tell_facts(&self, state: &State) {
        self.entry.is_called(&state.settings.get("application_name").unwrap_or_default());
        self.session.set_facts(Facts {
            user: self.entry.user.clone(),
            process_id: self.entry.id,
            settings: state.settings.all(),
        });
    }

    /// What runs statements.
    pub(super) fn execution(&self) -> &Arc<StatementExecution> {
        self.service.execution()
    }

    /// Who asks at the door to the engine, for one statement.
    pub(super) fn asker(&self) -> Asker {
        Asker::new(&self.entry.user, self.role.clone()).at("flight")
    }

    /// A number that nothing of this session had before.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// What statements may do now. Fails with code 25P02 in a transaction that has failed.
    pub(super) fn allowed(&self) -> Result<Allowed> {
        match &self.state.lock().open {
            None => Ok(Allowed::Anything),
            Some(open) if open.has_failed => {
                let error = Error::input("the transaction has failed; nothing is done until it ends");
                Err(error.with_code(sqlstate::FAILED_TRANSACTION).with_hint("ROLLBACK ends it"))
            }
            Some(open) if open.writes => Ok(Allowed::Undoable),
            Some(_) => Ok(Allowed::Reading),
        }
    }

    /// A statement with this text begins; its calls know it by the number, if they are told one.
    pub(super) fn begins(self: &Arc<Self>, number: u64, text: &str) -> Running {
        self.entry.does(Some(text));
        let mut state = self.state.lock();
        let cancellation = Cancellation::new(state.settings.timeout().unwrap_or_default());
        state.running.insert(number, cancellation.clone());
        drop(state);
        Running { session: self.clone(), number, cancellation }
    }

    /// Ends a statement that runs, or is not to run any more, by its number. False if there is none.
    pub(super) fn cancel(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let offered = state.offers.remove(&number).is_some();
        let running = state.running.get(&number).inspect(|running| running.cancel()).is_some();
        offered || running
    }

    /// Keeps a statement until it is fetched. Where too many wait, the oldest is forgotten.
    pub(super) fn offer(&self, number: u64, offer: Offer) {
        let mut state = self.state.lock();
        state.offers.insert(number, offer);
        if state.offers.len() > NAMED_MAX {
            state.offers.pop_first();
        }
    }

    /// The statement of a ticket, which is good once. Fails with code 26000 if there is none.
    pub(super) fn take_offer(&self, number: u64) -> Result<Offer> {
        self.state.lock().offers.remove(&number).ok_or_else(|| {
            let error = Error::input("no statement waits under this ticket").with_code("26000");
            error.with_hint("a ticket is good once, in the session that it was given to: ask for the statement anew")
        })
    }

    /// Keeps a prepared statement under a new number. Fails with code 54000 if there are too many.
    pub(super) fn keep(&self, prepared: Prepared) -> Result<u64> {
        let number = self.number();
        let mut state = self.state.lock();
        if state.prepared.len() >= NAMED_MAX {
            let error = Error::resource(format!("a session has at most {NAMED_MAX} prepared statements"));
            return Err(error.with_code(sqlstate::LIMIT).with_hint("close those that are not used"));
        }
        state.prepared.insert(number, Arc::new(prepared));
        Ok(number)
    }

    /// A prepared statement. Fails with code 26000 if there is none.
    pub(super) fn prepared(&self, number: u64) -> Result<Arc<Prepared>> {
        let known = self.state.lock().prepared.get(&number).cloned();
        known.ok_or_else(|| Error::input("no prepared statement has this handle").with_code("26000"))
    }

    /// Replaces a prepared statement, or forgets it.
    pub(super) fn replace(&self, number: u64, prepared: Option<Prepared>) {
        let mut state = self.state.lock();
        match prepared {
            Some(prepared) => drop(state.prepared.insert(number, Arc::new(prepared))),
            None => drop(state.prepared.remove(&number)),
        }
    }

    /// Forgets all prepared statements.
    pub(super) fn forget_prepared(&self) {
        self.state.lock().prepared.clear();
    }

    /// Everything ends that the session has under way.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.running.values().for_each(Cancellation::cancel);
        state.offers.clear();
        state.prepared.clear();
        state.open = None;
        drop(state);
        self.session.roll_back();
        self.session.discard();
    }
}

impl Drop for FlightSession {
    fn drop(&mut self) {
        // Others do not wait for its locks any longer.
        self.session.roll_back();
    }
}
