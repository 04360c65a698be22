//! Channels: what NOTIFY says in one session is heard in those that LISTEN.
//!
//! What a transaction says is heard when it has been committed, in the order in which it was said, and equal messages
//! once. Whoever listens has a queue of its own, which its client empties when it is in no transaction.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Weak};

use diligence_base::{Error, Result};
use diligence_sql::ChannelStep;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Messages that wait for one client, at most: one that does not read holds up whoever notifies, and nobody's memory.
const WAITING_MAX: usize = 65_536;
/// Bytes of a message, at most, as in PostgreSQL.
const PAYLOAD_BYTES_MAX: usize = 8000;

/// What a session has heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Where it was said.
    pub channel: String,
    /// What; may be empty.
    pub payload: String,
    /// The number of the process that has said it.
    pub process_id: i32,
}

/// The sessions of a database that have listened to anything.
#[derive(Debug, Default)]
pub(crate) struct Channels(Mutex<Vec<Weak<Ears>>>);

/// What one session listens to.
#[derive(Debug, Default)]
pub(crate) struct Ears {
    channels: Mutex<BTreeSet<String>>,
    heard: Mutex<VecDeque<Notification>>,
    woken: Notify,
}

/// What a transaction has said and not done yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    steps: Vec<ChannelStep>,
}

impl Pending {
    /// How many steps there are.
    pub(crate) fn count(&self) -> usize {
        self.steps.len()
    }

    /// The transaction goes back to where there were so many.
    pub(crate) fn back_to(&mut self, count: usize) {
        self.steps.truncate(count);
    }

    pub(crate) fn take(&mut self) -> Vec<ChannelStep> {
        std::mem::take(&mut self.steps)
    }

    /// Adds a step. Equal messages are said once.
    pub(crate) fn add(&mut self, step: ChannelStep) {
        if !matches!(step, ChannelStep::Notify { .. }) || !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }
}

/// Fails with code 22023 for what is no message.
pub(crate) fn check(step: &ChannelStep) -> Result<()> {
    let ChannelStep::Notify { channel, payload } = step else { return Ok(()) };
    let refuse = |text: &str| Err(Error::input(text).with_code("22023"));
    match (channel.as_str(), payload.len()) {
        ("", _) => refuse("channel name cannot be empty"),
        (_, PAYLOAD_BYTES_MAX..) => refuse("payload string too long"),
        (name, _) if name.len() > 63 => refuse("channel name too long"),
        _ => Ok(()),
    }
}

impl Channels {
    /// Fails with code 54000 if somebody who listens to a channel does not read.
    pub(crate) fn have_room(&self, channel: &str) -> Result<()> {
        let is_full = |ears: &Arc<Ears>| ears.hears(channel) && ears.heard.lock().len() >= WAITING_MAX;
        if self.0.lock().iter().filter_map(Weak::upgrade).any(|ears| is_full(&ears)) {
            let error = Error::resource("too many notifications wait for a session that does not read them");
            return Err(error.with_code("54000").with_hint("UNLISTEN there, or end its transaction"));
        }
        Ok(())
    }

    /// Does what was said, for a session of a process.
    pub(crate) fn done(&self, own: &Arc<Ears>, steps: Vec<ChannelStep>, process_id: i32) {
        for step in steps {
            match step {
                ChannelStep::Listen(channel) => {
                    let mut sessions = self.0.lock();
                    sessions.retain(|ears| ears.strong_count() > 0);
                    if !sessions.iter().any(|ears| ears.as_ptr() == Arc::as_ptr(own)) {
                        sessions.push(Arc::downgrade(own));
                    }
                    own.channels.lock().insert(channel);
                }
                ChannelStep::Unlisten(Some(channel)) => drop(own.channels.lock().remove(&channel)),
                ChannelStep::Unlisten(None) => own.channels.lock().clear(),
                ChannelStep::Notify { channel, payload } => {
                    let said = Notification { channel, payload, process_id };
                    for ears in self.0.lock().iter().filter_map(Weak::upgrade).filter(|ears| ears.hears(&said.channel))
                    {
                        ears.heard.lock().push_back(said.clone());
                        ears.woken.notify_one();
                    }
                }
            }
        }
    }
}

impl Ears {
    fn hears(&self, channel: &str) -> bool {
        self.channels.lock().contains(channel)
    }

    /// What has been heard since the last time.
    pub(crate) fn take(&self) -> Vec<Notification> {
        self.heard.lock().drain(..).collect()
    }

    /// Returns when there may be something to hear.
    pub(crate) async fn woken(&self) {
        if self.heard.lock().is_empty() {
            self.woken.notified().await;
        }
    }

    /// The channels that are listened to, in order.
    pub(crate) fn listening(&self) -> Vec<String> {
        let mut channels = self.channels.lock().iter().cloned().collect::<Vec<_>>();
        channels.sort_unstable();
        channels
    }

    /// Hears nothing from now on.
    pub(crate) fn close(&self) {
        self.channels.lock().clear();
        self.heard.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use crate::{Database, Session};

    fn run(session: &Session, statements: &[&str]) {
        for statement in statements {
            let done = session.execute(statement).and_then(|result| result.collect());
            done.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }

    fn heard(session: &Session) -> Vec<String> {
        let heard = session.take_notifications().into_iter();
        heard.map(|said| format!("{}:{}", said.channel, said.payload)).collect()
    }

    #[test]
    fn what_is_committed_is_heard_by_those_who_listen() {
        let database = Database::in_memory().unwrap();
        let (ann, bob) = (database.session(), database.session());
        run(&ann, &["LISTEN news", "LISTEN \"Other\""]);
        run(&bob, &["NOTIFY news", "NOTIFY news, 'it''s'", "NOTIFY \"Other\", 'x'", "NOTIFY others"]);
        assert_eq!(heard(&ann), ["news:", "news:it's", "Other:x"]);
        assert!(heard(&ann).is_empty() && heard(&bob).is_empty());
        // Of a transaction, when it is committed, and equal ones once.
        run(
            &bob,
            &["BEGIN", "NOTIFY news, 'a'", "NOTIFY news, 'b'", "NOTIFY news, 'a'", "SELECT pg_notify('news', 'c')"],
        );
        assert!(heard(&ann).is_empty());
        run(&bob, &["COMMIT"]);
        assert_eq!(heard(&ann), ["news:a", "news:b", "news:c"]);
        run(&bob, &["BEGIN", "NOTIFY news, 'lost'", "ROLLBACK"]);
        run(&bob, &["BEGIN", "NOTIFY news, '1'", "SAVEPOINT s", "NOTIFY news, '2'", "ROLLBACK TO s", "COMMIT"]);
        assert_eq!(heard(&ann), ["news:1"]);
        // So is LISTEN.
        run(&ann, &["UNLISTEN news", "BEGIN", "LISTEN news", "ROLLBACK"]);
        run(&bob, &["NOTIFY news, 'nobody'"]);
        assert!(heard(&ann).is_empty());
        run(&ann, &["LISTEN news", "NOTIFY news, 'own'", "UNLISTEN *", "NOTIFY news, 'none'"]);
        assert_eq!(heard(&ann), ["news:own"]);
        let code = |sql: &str| bob.execute(sql).map(|_| ()).unwrap_err().code();
        assert_eq!(code(&format!("NOTIFY news, '{}'", "x".repeat(8000))), Some("22023"));
        assert_eq!(code("NOTIFY"), Some("42601"));
    }
}
