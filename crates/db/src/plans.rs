//! Plans of texts that a session has planned before, for all sessions of a database: a text that comes again is neither
//! parsed nor planned.
//!
//! A server has a cache of its own, which also knows what plans needed.
//!
//! Invariant: no plan is kept whose tables or views have changed since, so that none keeps a table that is gone in
//! memory. A change of one table forgets no plan of another.

use std::sync::Arc;

use diligence_base::recent::Recent;
use diligence_catalog::{CatalogChange, CatalogObserver, PlanningIdentity};
use parking_lot::Mutex;

use crate::session::Session;
use crate::steps::PlannedStatement;

/// Plans kept at most. A plan has some 10 KiB.
const PLANS_MAX: usize = 256;

/// Bytes of a text that is remembered at most: who sends more writes constants into it.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// The text, and what it is planned under.
type Key = (String, PlanningIdentity);

/// See the module.
pub(crate) struct Plans(Mutex<Recent<Key, Arc<PlannedStatement>>>);

impl Default for Plans {
    fn default() -> Self {
        Self(Mutex::new(Recent::new(PLANS_MAX)))
    }
}

impl Plans {
    /// What a text is remembered under, to be said before it is planned; `None` for one that is too long.
    pub fn key(&self, session: &Session, text: &str) -> Option<Key> {
        (text.len() <= TEXT_BYTES_MAX).then(|| (text.to_owned(), session.planning_identity()))
    }

    /// The statement of this text, to be started, if its plan is known and current. May look at files.
    pub fn find(&self, session: &Session, key: &Key) -> Option<PlannedStatement> {
        let planned = self.0.lock().get(key)?.clone();
        if planned.is_current(session) { planned.again() } else { None }
    }

    /// Remembers a plan, if it can run again, and neither what it uses nor the session's settings have changed since
    /// its key was made.
    pub fn keep(&self, session: &Session, key: Key, planned: &PlannedStatement) {
        let Some(again) = planned.again() else { return };
        if key.1 != session.planning_identity() {
            return;
        }
        let mut plans = self.0.lock();
        // A change from here on is told when the lock is free.
        if !planned.is_gone(session.database()) {
            plans.insert(key, Arc::new(again));
        }
    }
}

impl CatalogObserver for Plans {
    fn changed(&self, change: &CatalogChange) {
        // What is dropped may be large; it is dropped outside the lock.
        let forgotten = self.0.lock().take_unless(|planned| !planned.depends_on(change));
        drop(forgotten);
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
            database.plans().key(session, text).is_some_and(|key| database.plans().find(session, &key).is_some())
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
    }

    #[test]
    fn a_change_forgets_the_plans_of_its_table_and_no_others() {
        let session = Database::in_memory().unwrap().session();
        let run = |text: &str| drop(session.execute(text).unwrap().collect().unwrap());
        let texts =
            ["SELECT a FROM t", "SELECT a FROM u", "SELECT a FROM v", "WITH w AS (SELECT 1 AS a) SELECT a FROM w"];
        let changes: [(&str, &[&str]); 9] = [
            ("INSERT INTO u VALUES (2)", &texts[1..2]),
            ("INSERT INTO t VALUES (2)", &[texts[0], texts[2]]),
            ("CREATE TABLE x AS SELECT 1 AS a", &[]),
            ("INSERT INTO x VALUES (2)", &[]),
            ("CREATE SCHEMA lab", &[]),
            ("DROP TABLE x", &[]),
            ("TRUNCATE TABLE u", &texts[1..2]),
            ("CREATE OR REPLACE VIEW v AS SELECT a + 1 AS a FROM t", &texts[2..3]),
            ("DROP TABLE u", &texts[1..2]),
        ];
        ["CREATE TABLE t AS SELECT 1 AS a", "CREATE TABLE u AS SELECT 1 AS a", "CREATE VIEW v AS SELECT a FROM t"]
            .into_iter()
            .for_each(run);
        let plans = session.database().plans();
        for (change, expected) in changes {
            texts.into_iter().for_each(run);
            run(change);
            let is_lost = |text: &&str| plans.find(&session, &plans.key(&session, text).unwrap()).is_none();
            let lost = texts.into_iter().filter(is_lost).collect::<Vec<_>>();
            assert_eq!(lost, expected, "{change}");
            assert_eq!(plans.0.lock().len(), texts.len() - lost.len(), "{change}");
        }
    }

    #[test]
    fn a_table_of_a_name_that_was_looked_up_before_takes_its_place() {
        let session = Database::in_memory().unwrap().session();
        let column = |text: &str| session.execute(text).unwrap().collect().unwrap()[0].schema().field(0).name().clone();
        session.execute("CREATE TABLE \"Sales\" AS SELECT 1 AS old").unwrap();
        assert_eq!([column("SELECT * FROM sales"), column("SELECT * FROM sales")], ["old", "old"]);
        session.execute("CREATE TABLE sales AS SELECT 1 AS new").unwrap();
        assert_eq!(column("SELECT * FROM sales"), "new");
    }

    #[test]
    fn a_plan_made_while_something_changed_is_not_kept() {
        let session = Database::in_memory().unwrap().session();
        session.execute("CREATE TABLE t AS SELECT 1 AS a").unwrap();
        let (plans, text) = (session.database().plans(), "SELECT a FROM t");
        for change in ["INSERT INTO t VALUES (2)", "SET datafusion.execution.time_zone = 'UTC'"] {
            let key = plans.key(&session, text).unwrap();
            let planned = session.plan(&session.parse(text).unwrap(), &[]).unwrap();
            session.execute(change).unwrap();
            plans.keep(&session, key, &planned);
            assert!(plans.find(&session, &plans.key(&session, text).unwrap()).is_none(), "{change}");
            assert!(plans.0.lock().is_empty(), "{change}");
        }
    }
}
