//! The sessions that are there: for cancel requests, listings, and the end of the server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

use diligence_base::{Error, Result};
use diligence_db::{Activity, without_passwords};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::scram::{random, same};
use crate::sqlstate;

/// What others may know of a session, and tell it.
#[derive(Debug)]
pub struct Entry {
    /// Its number, which is also what clients take for the server's process.
    pub id: i32,
    /// The key that a cancel request has to show.
    pub key: Vec<u8>,
    /// Who logged in.
    pub user: String,
    /// Which door: `postgres` or `http`.
    pub door: &'static str,
    /// Where from.
    pub peer: String,
    /// Since when.
    pub began: Instant,
    /// The same, in microseconds since 1970.
    began_us: i64,
    /// Told when the running statement is to end.
    pub cancel: Notify,
    /// Whether somebody asked for that since the statement began.
    cancel_asked: AtomicBool,
    /// Told when the session is to end.
    end: Notify,
    /// Whether somebody asked for that.
    end_asked: AtomicBool,
    state: Mutex<SessionState>,
}

#[derive(Clone, Debug, Default)]
struct SessionState {
    /// The statement that runs, or the last one.
    statement: Option<String>,
    is_running: bool,
    block: InBlock,
    application: String,
    statement_began_us: Option<i64>,
    block_began_us: Option<i64>,
    changed_us: i64,
}

/// Whether a session is within a block of statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InBlock {
    /// It is not.
    #[default]
    No,
    /// It is.
    Yes,
    /// It is, and the block has failed.
    Failed,
}

/// Now, in microseconds since 1970.
fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A session as it is listed.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// Its number.
    pub id: i32,
    /// Who.
    pub user: String,
    /// Which door.
    pub door: &'static str,
    /// Where from.
    pub peer: String,
    /// What the client calls itself.
    pub application: String,
    /// The statement that runs, if one does.
    pub statement: Option<String>,
    /// Since when it is there, in microseconds.
    pub elapsed_us: u64,
}

/// Bytes of a statement that are listed.
const STATEMENT_BYTES_SHOWN: usize = 2000;

impl Entry {
    /// Whether somebody asked for the statement's end since it began.
    pub fn is_cancelled(&self) -> bool {
        self.cancel_asked.load(Ordering::Acquire)
    }

    /// Comes back when somebody wants the session to end.
    pub async fn ended(&self) {
        let told = self.end.notified();
        tokio::pin!(told);
        told.as_mut().enable();
        if !self.end_asked.load(Ordering::Acquire) {
            told.await;
        }
    }

    /// Comes back when somebody wants the session or its statement to end: with what its client is told.
    pub async fn stopped(&self) -> Error {
        let cancelled = || Error::cancelled().with_code(sqlstate::CANCELLED);
        let asked = self.cancel.notified();
        tokio::pin!(asked);
        asked.as_mut().enable();
        if self.is_cancelled() {
            return cancelled();
        }
        tokio::select! {
            biased;
            () = self.ended() => {
                Error::resource("terminating connection due to administrator command").with_code(sqlstate::SHUTDOWN)
            }
            () = asked => cancelled(),
        }
    }

    /// What the session does now.
    pub fn does(&self, statement: Option<&str>) {
        if statement.is_some() {
            self.cancel_asked.store(false, Ordering::Release);
        }
        let mut state = self.state.lock();
        state.is_running = statement.is_some();
        state.changed_us = now_us();
        if let Some(text) = statement {
            let end = (0..=STATEMENT_BYTES_SHOWN.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
            state.statement = Some(without_passwords(&text[..end.unwrap_or(0)]).into_owned());
            state.statement_began_us = Some(state.changed_us);
        }
    }

    /// Whether the session is within a block.
    pub fn is_in(&self, block: InBlock) {
        let mut state = self.state.lock();
        match block {
            InBlock::No => state.block_began_us = None,
            // As the statement that has begun it.
            _ if state.block == InBlock::No => state.block_began_us = state.statement_began_us,
            _ => {}
        }
        state.block = block;
    }

    /// As `pg_stat_activity` shows it.
    fn activity(&self) -> Activity {
        let state = self.state.lock().clone();
        let address = self.peer.parse::<SocketAddr>().ok();
        Activity {
            process_id: self.id,
            user: self.user.clone(),
            application: state.application,
            address: address.map(|address| address.ip().to_string()),
            port: address.map(|address| address.port()),
            began_us: self.began_us,
            transaction_began_us: state.block_began_us.or(state.statement_began_us.filter(|_| state.is_running)),
            statement_began_us: state.statement_began_us,
            changed_us: state.changed_us,
            state: match (state.is_running, state.block) {
                (true, _) => "active",
                (false, InBlock::No) => "idle",
                (false, InBlock::Yes) => "idle in transaction",
                (false, InBlock::Failed) => "idle in transaction (aborted)",
            },
            statement: state.statement,
        }
    }

    /// What the client calls itself.
    pub fn is_called(&self, application: &str) {
        application.clone_into(&mut self.state.lock().application);
    }
}

/// The sessions.
#[derive(Debug, Default)]
pub struct Registry {
    sessions: Mutex<HashMap<i32, Arc<Entry>>>,
    next: AtomicI32,
    /// Clients that are connecting.
    pub connecting: AtomicUsize,
    /// Sessions since the start.
    pub sessions_total: AtomicU64,
    /// Connections turned away since the start.
    pub refused_total: AtomicU64,
    /// Told when a session ends.
    pub ended: Notify,
}

/// A session in the list, as long as it lives.
pub struct Registered {
    registry: Arc<Registry>,
    entry: Arc<Entry>,
}

impl std::ops::Deref for Registered {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl Registered {
    /// The session itself, for those who are told of its end.
    pub fn told(&self) -> Arc<Entry> {
        self.entry.clone()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.sessions.lock().remove(&self.entry.id);
        let Entry { id, user, door, peer, began, .. } = &*self.entry;
        let seconds = began.elapsed().as_secs_f64();
        match *door {
            "http" => tracing::debug!(session = id, user, door, seconds, "a session ended"),
            _ => tracing::info!(session = id, user, door, peer, seconds, "a session ended"),
        }
        self.registry.ended.notify_waiters();
    }
}

impl Registry {
    /// Lists a session. Its key has `key_bytes`: four in protocol 3.0.
    pub fn register(
        self: &Arc<Self>,
        door: &'static str,
        user: &str,
        peer: String,
        key_bytes: usize,
    ) -> Result<Registered> {
        let (key, began_us) = (random(key_bytes)?, now_us());
        let mut sessions = self.sessions.lock();
        let id = loop {
            // Positive, and not one that is there, after two thousand million sessions.
            let id = (self.next.fetch_add(1, Ordering::Relaxed) & i32::MAX).max(1);
            if !sessions.contains_key(&id) {
                break id;
            }
        };
        let entry = Arc::new(Entry {
            id,
            key,
            user: user.to_owned(),
            door,
            peer,
            began: Instant::now(),
            began_us,
            cancel: Notify::new(),
            cancel_asked: AtomicBool::new(false),
            end: Notify::new(),
            end_asked: AtomicBool::new(false),
            state: Mutex::new(SessionState { changed_us: began_us, ..SessionState::default() }),
        });
        sessions.insert(id, entry.clone());
        self.sessions_total.fetch_add(1, Ordering::Relaxed);
        match door {
            // One for each request.
            "http" => tracing::debug!(session = id, user, door, "a session began"),
            _ => tracing::info!(session = id, user, door, peer = %entry.peer, "a session began"),
        }
        Ok(Registered { registry: self.clone(), entry })
    }

    /// Ends a session's statement, if the key is right. Whoever asks does not learn whether it was.
    pub fn cancel(&self, id: i32, key: &[u8]) {
        let entry = self.sessions.lock().get(&id).cloned();
        if let Some(entry) = entry
            && same(&entry.key, key)
        {
            tracing::info!(session = id, user = %entry.user, door = entry.door, "a statement is cancelled by its client");
            entry.cancel_asked.store(true, Ordering::Release);
            entry.cancel.notify_waiters();
        }
    }

    /// Ends a session, or its statement only: `pg_terminate_backend` and `pg_cancel_backend`, whose caller may do that.
    /// Gives whether there is such a session, and it can be told: those of Flight SQL are not.
    pub fn stop(&self, id: i32, is_end: bool) -> bool {
        let Some(entry) = self.sessions.lock().get(&id).cloned() else { return false };
        let (user, door) = (&entry.user, entry.door);
        if door == "flight" {
            return false;
        }
        match is_end {
            true => {
                tracing::info!(session = id, %user, door, "a session is ended by another");
                entry.end_asked.store(true, Ordering::Release);
                entry.end.notify_waiters();
            }
            false => {
                tracing::info!(session = id, %user, door, "a statement is cancelled by another session");
                entry.cancel_asked.store(true, Ordering::Release);
                entry.cancel.notify_waiters();
            }
        }
        true
    }

    /// How many sessions there are.
    pub fn count(&self) -> usize {
        self.sessions.lock().len()
    }

    /// The sessions.
    pub fn list(&self) -> Vec<SessionInfo> {
        let mut sessions = self.sessions.lock().values().cloned().collect::<Vec<_>>();
        sessions.sort_by_key(|entry| entry.id);
        let info = |entry: Arc<Entry>| {
            let SessionState { statement, application, is_running, .. } = entry.state.lock().clone();
            SessionInfo {
                id: entry.id,
                user: entry.user.clone(),
                door: entry.door,
                peer: entry.peer.clone(),
                application,
                statement: statement.filter(|_| is_running),
                elapsed_us: entry.began.elapsed().as_micros() as u64,
            }
        };
        sessions.into_iter().map(info).collect()
    }

    /// The sessions as `pg_stat_activity` shows them.
    pub(crate) fn activities(&self) -> Vec<Activity> {
        let mut sessions = self.sessions.lock().values().cloned().collect::<Vec<_>>();
        sessions.sort_by_key(|entry| entry.id);
        sessions.iter().map(|entry| entry.activity()).collect()
    }
}
