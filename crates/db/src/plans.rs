//! Plans of texts that a session has planned before, for all sessions of a database: a text that comes again is neither
//! parsed nor planned.
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
    changes: u64,
}

/// A text that is about to be planned, with the state of things before that.
pub(crate) struct Begun {
    key: Key,
    changes: u64,
}

impl Default for Plans {
    fn default() -> Self {
        Self(Mutex::new(Kept { plans: Recent::new(PLANS_MAX), changes: 0 }))
    }
}

impl Plans {
    /// What a text is remembered under, to be said before it is planned; `None` for one that is too long.
    pub fn begin(&self, session: &Session, text: &str) -> Option<Begun> {
        let changes = session.database().catalog().changes();
        (text.len() <= TEXT_BYTES_MAX).then(|| Begun { key: (text.to_owned(), session.planning_identity()), changes })
    }

    /// The statement of this text, to be started, if its plan is known and current. May look at files.
    pub fn find(&self, session: &Session, begun: &Begun) -> Option<PlannedStatement> {
        self.heed(session);
        let planned = self.0.lock().plans.get(&begun.key)?.clone();
        if planned.is_current(session) { planned.again() } else { None }
    }

    /// Remembers a plan, if it can run again, and neither the catalog nor the session's settings have changed since it
    /// was begun.
    pub fn keep(&self, session: &Session, begun: Begun, planned: &PlannedStatement) {
        let Some(again) = planned.again() else { return };
        if begun.key.1 != session.planning_identity() {
            return;
        }
        self.heed(session);
        let mut kept = self.0.lock();
        if kept.changes == begun.changes {
            kept.plans.insert(begun.key, Arc::new(again));
        }
    }

    /// Forgets all if the catalog has changed.
    pub fn heed(&self, session: &Session) {
        let catalog = session.database().catalog();
        let mut kept = self.0.lock();
        let changes = catalog.changes();
        if changes != kept.changes {
            kept.plans.clear();
            kept.changes = changes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    #[test]
    fn a_text_is_found_planned_by_every_session_that_plans_alike_until_something_changes() {
        let database = Database::in_memory().unwrap();
        let [session, other] = [(); 2].map(|()| database.session());
        let is_found = |session: &Session, text: &str| {
            let plans = database.plans();
            plans.begin(session, text).is_some_and(|begun| plans.find(session, &begun).is_some())
        };
        let run = |text: &str| drop(session.execute(text).unwrap().collect().unwrap());
        run("CREATE TABLE t AS SELECT 1 AS a");
        let (text, long) = ("SELECT a FROM t", format!("SELECT a FROM t --{}", "x".repeat(TEXT_BYTES_MAX)));
        assert!(!is_found(&session, text));
        run(text);
        run(&long);
        run("SELECT now()");
        assert!(is_found(&session, text) && is_found(&other, text));
        assert!(!is_found(&session, &long) && !is_found(&session, "SELECT now()"));
        other.execute("SET datafusion.execution.time_zone = 'UTC'").unwrap();
        assert!(is_found(&session, text) && !is_found(&other, text));
        run("SELECT * FROM system.settings");
        assert!(is_found(&session, text), "to look at the system changes nothing");
        for change in ["INSERT INTO t VALUES (2)", "CREATE TABLE u AS SELECT 1 AS b", "DROP TABLE u"] {
            run(text);
            assert!(is_found(&session, text));
            run(change);
            assert!(!is_found(&session, text), "{change}");
        }
    }

    #[test]
    fn a_plan_made_while_something_changed_is_not_kept() {
        let session = Database::in_memory().unwrap().session();
        session.execute("CREATE TABLE t AS SELECT 1 AS a").unwrap();
        let (plans, text) = (session.database().plans(), "SELECT a FROM t");
        for change in ["INSERT INTO t VALUES (2)", "SET datafusion.execution.time_zone = 'UTC'"] {
            let begun = plans.begin(&session, text).unwrap();
            let planned = session.plan(&session.parse(text).unwrap(), &[]).unwrap();
            session.execute(change).unwrap();
            plans.keep(&session, begun, &planned);
            assert!(plans.find(&session, &plans.begin(&session, text).unwrap()).is_none(), "{change}");
            assert!(plans.0.lock().plans.is_empty(), "{change}");
        }
    }
}
