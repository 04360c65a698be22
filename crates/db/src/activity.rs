//! Activity: the sessions of a database's server, and which process has which locks, for `pg_stat_activity` and
//! `pg_locks`.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

/// A session of a server, as `pg_stat_activity` lists it. Times are in microseconds since 1970.
#[derive(Clone, Debug)]
pub struct Activity {
    /// The number that a cancel request names.
    pub process_id: i32,
    /// Who logged in.
    pub user: String,
    /// What the client calls itself.
    pub application: String,
    /// Where from, if over a network.
    pub address: Option<String>,
    /// From which port there.
    pub port: Option<u16>,
    /// When it began.
    pub began_us: i64,
    /// When its transaction began, if it is in one.
    pub transaction_began_us: Option<i64>,
    /// When its last statement began.
    pub statement_began_us: Option<i64>,
    /// When its state has changed.
    pub changed_us: i64,
    /// `active`, `idle`, `idle in transaction`, `idle in transaction (aborted)`.
    pub state: &'static str,
    /// Its last statement.
    pub statement: Option<String>,
}

/// Ends a session or, without the flag, its statement; gives whether there is one of that number.
type Stopper = Arc<dyn Fn(i32, bool) -> bool + Send + Sync>;
type ActivitySource = Arc<dyn Fn() -> Vec<Activity> + Send + Sync>;

/// What is known of the sessions of a database.
#[derive(Default)]
pub(crate) struct Activities {
    /// Processes by the number of who has their locks.
    processes: Mutex<HashMap<u64, i32>>,
    /// Tells of the server's sessions.
    source: RwLock<Option<ActivitySource>>,
    /// Ends the server's sessions.
    stopper: RwLock<Option<Stopper>>,
}

impl Activities {
    /// The locks of this owner are of that process.
    pub(crate) fn is_of(&self, owner: u64, process_id: i32) {
        // What is not served has no process of its own.
        if process_id != 0 {
            self.processes.lock().insert(owner, process_id);
        }
    }

    /// The owner has ended.
    pub(crate) fn ended(&self, owner: u64) {
        self.processes.lock().remove(&owner);
    }

    /// Whose an owner's locks are; `None` of one that is not a session, or has ended.
    pub(crate) fn process_of(&self, owner: u64) -> Option<i32> {
        self.processes.lock().get(&owner).copied()
    }

    /// Has sessions listed.
    pub(crate) fn show(&self, source: ActivitySource) {
        *self.source.write() = Some(source);
    }

    /// Has sessions ended by this.
    pub(crate) fn stop_by(&self, stopper: Stopper) {
        *self.stopper.write() = Some(stopper);
    }

    /// Ends a session or its statement; gives whether there is one of that number.
    pub(crate) fn stop(&self, process_id: i32, is_end: bool) -> bool {
        let stopper = self.stopper.read().clone();
        stopper.is_some_and(|stopper| stopper(process_id, is_end))
    }

    /// The server's sessions; none without a server.
    pub(crate) fn all(&self) -> Vec<Activity> {
        let source = self.source.read().clone();
        source.map(|source| source()).unwrap_or_default()
    }
}
