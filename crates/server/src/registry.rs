//! The sessions that are there: for cancel requests, listings, and the end of the server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use diligence_base::Result;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::scram::{random, same};

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
    /// Told when the running statement is to end.
    pub cancel: Notify,
    /// Whether somebody asked for that since the statement began.
    cancel_asked: AtomicBool,
    state: Mutex<SessionState>,
}

#[derive(Clone, Debug, Default)]
struct SessionState {
    statement: Option<String>,
    application: String,
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

    /// What the session does now.
    pub fn does(&self, statement: Option<&str>) {
        if statement.is_some() {
            self.cancel_asked.store(false, Ordering::Release);
        }
        self.state.lock().statement = statement.map(|text| {
            let end = (0..=STATEMENT_BYTES_SHOWN.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
            text[..end.unwrap_or(0)].to_owned()
        });
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

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.sessions.lock().remove(&self.entry.id);
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
        let key = random(key_bytes)?;
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
            cancel: Notify::new(),
            cancel_asked: AtomicBool::new(false),
            state: Mutex::default(),
        });
        sessions.insert(id, entry.clone());
        self.sessions_total.fetch_add(1, Ordering::Relaxed);
        Ok(Registered { registry: self.clone(), entry })
    }

    /// Ends a session's statement, if the key is right. Whoever asks does not learn whether it was.
    pub fn cancel(&self, id: i32, key: &[u8]) {
        let entry = self.sessions.lock().get(&id).cloned();
        if let Some(entry) = entry
            && same(&entry.key, key)
        {
            entry.cancel_asked.store(true, Ordering::Release);
            entry.cancel.notify_waiters();
        }
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
            let SessionState { statement, application } = entry.state.lock().clone();
            SessionInfo {
                id: entry.id,
                user: entry.user.clone(),
                door: entry.door,
                peer: entry.peer.clone(),
                application,
                statement,
                elapsed_us: entry.began.elapsed().as_micros() as u64,
            }
        };
        sessions.into_iter().map(info).collect()
    }
}
