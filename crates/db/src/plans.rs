//! Plans of texts that a session has planned before, for all sessions of a database: a text that comes again is neither parsed nor planned.
//!
//! A server has a cache of its own, which also knows what plans needed.
//!
//! Invariant: no plan is kept beyond a change of the catalog, so that none keeps a table that is gone in memory.

use std::sync::Arc;

use diligence_base::recent::Recent;
use parking_lot::Mutex;

use crate::session::Session;
use crate::steps::PlannedStatement;

/// Plans kept at most. A plan has some 10 KiB.
const PLANS_MAX: usize = 256;

/// Bytes of a text that is remembered at most: who sends more writes constants into it.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// The text, and what it is planned under.
type Key = (String, (u64, bool));

/// See the module.
pub(crate) struct Plans(Mutex<Kept>);

struct Kept {
    plans: Recent<Key, Arc<PlannedStatement>>,
    /// The catalog's when they were made.
    catalog_version: u64,
}

impl Default for Plans {
    fn default() -> Self {
        Self(Mutex::new(Kept { plans: Recent::new(PLANS_MAX), catalog_version: 0 }))
    }
}

impl Plans {
    /// The statement of this text, to be started, if its plan is known and current. May look at files.
    pub fn find(&self, session: &Session, text: &str) -> Option<PlannedStatement> {
        let key = Self::key(session, text)?;
        let planned = {
            let mut kept = self.0.lock();
            kept.heed(session);
            kept.plans.get(&key)?.clone()
        };
        if planned.is_current(session) { planned.again() } else { None }
    }

    /// Remembers a plan, if it can run again.
    pub fn keep(&self, session: &Session, text: &str, planned: &PlannedStatement) {
        if let (Some(key), Some(again)) = (Self::key(session, text), planned.again()) {
            let mut kept = self.0.lock();
            kept.heed(session);
            kept.plans.insert(key, Arc::new(again));
        }
    }

    /// Forgets all: the catalog may have changed.
    pub fn clear(&self) {
        self.0.lock().plans.clear();
    }

    fn key(session: &Session, text: &str) -> Option<Key> {
        (text.len() <= TEXT_BYTES_MAX).then(|| (text.to_owned(), session.planning_identity()))
    }
}

impl Kept {
    fn heed(&mut self, session: &Session) {
        let version = session.database().catalog().version();
        if version != self.catalog_version {
            self.plans.clear();
            self.catalog_version = version;
        }
    }
}
