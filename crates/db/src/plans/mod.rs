//! Statements that are parsed and planned, and the plan cache: a text that comes again is neither parsed nor planned.
//!
//! The cache belongs to the database; its sessions and a server's doors use the same one. The key of a plan
//! ([`PlanKey`]) is the statement's text, normalized, with the values of its parameters and what it was planned under
//! ([`PlanningIdentity`]). A plan is only started if it is *current*: if the tables behind it are in the same state
//! still, but for the rows of tables in memory: it keeps none, and gets those of the moment when it starts. Whoever
//! takes it out of the cache looks at that, on a thread that may look at files.
//!
//! Beside plans the cache has syntax trees of short texts, the rows of constant statements, what plans have used when
//! they ran ([`PlanHistory`]), and generic plans ([`GenericPlan`]). A cheap statement that comes again with other
//! values of its parameters gets a generic plan, if it has one: then planning is what it costs most. A heavy one is
//! planned with its values.
//!
//! What procedures run has a room of its own (`of_blocks`): their statements come again within one statement.
//!
//! Invariant: no plan stays in the cache that uses a table or a view which has been dropped or has another definition.
//! The catalog tells each change, and a change of one table forgets no plan of another.

mod history;
mod key;
mod normalized;
mod of_blocks;
mod planned;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use diligence_base::recent::Recent;
use diligence_catalog::{Catalog, CatalogChange, CatalogObserver, PlanningIdentity};
use parking_lot::Mutex;

pub use history::{PlanHistory, Used};
use key::TemplateKey;
pub use key::{GenericKey, PlanKey};
pub use normalized::normalized;
pub(crate) use of_blocks::{BlockTrees, ComputedRow, KnownBlocks, Tree, Way};
pub(crate) use planned::Source;
pub use planned::{GenericPlan, ParsedStatement, PlannedStatement};

/// Plans remembered, at most. A plan has some 10 KiB, and now and then a few hundred.
pub const PLANS_MAX: usize = 512;

/// Syntax trees remembered, at most, and bytes of their texts: a tree may have fifty times as many.
const PARSED_MAX: usize = 128;
const PARSED_BYTES_MAX: usize = 2 * 1024;

/// Bytes of the rows of a constant statement that are remembered with its plan, at most: more rows are computed as fast
/// as they are sent.
pub const ANSWER_BYTES_MAX: usize = 4 * 1024;

/// A text as it was sent, and what it is read under.
type TextKey = (String, PlanningIdentity);

/// The plan cache of a database.
pub struct PlanCache {
    catalog: Arc<Catalog>,
    plans: Mutex<Recent<PlanKey, RememberedPlan>>,
    /// What statements used that differ in constants only.
    templates: Mutex<Recent<TemplateKey, Arc<PlanHistory>>>,
    generics: Mutex<Recent<GenericKey, RememberedGeneric>>,
    /// Syntax trees of texts that are one statement for the engine.
    parsed: Mutex<Recent<TextKey, ParsedStatement>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A plan in the cache.
#[derive(Clone)]
pub struct RememberedPlan {
    /// The plan.
    pub plan: Arc<PlannedStatement>,
    /// What it used when it ran.
    pub history: Arc<PlanHistory>,
    /// Its rows, if they are few and the same every time ([`PlannedStatement::is_constant`]). Set when it has run.
    pub answer: Arc<OnceLock<Vec<RecordBatch>>>,
}

/// A statement with parameters that has run, for other values.
#[derive(Clone)]
pub struct RememberedGeneric {
    /// Its plan for all values, or that it has none; `None` before anybody has tried.
    pub plan: Option<Option<Arc<GenericPlan>>>,
    /// What it used with the values that it had last.
    pub history: Arc<PlanHistory>,
}

/// The counters of a plan cache at one moment.
#[derive(Clone, Copy, Debug)]
pub struct PlanCacheInfo {
    /// Plans that are remembered.
    pub plans: usize,
    /// Statements that were found planned.
    pub hits_total: u64,
    /// Statements that had to be planned.
    pub misses_total: u64,
}

impl PlanCache {
    /// An empty cache of plans over this catalog, whose changes it hears of.
    pub(crate) fn new(catalog: &Arc<Catalog>) -> Arc<Self> {
        let cache = Arc::new(Self {
            catalog: catalog.clone(),
            plans: Mutex::new(Recent::new(PLANS_MAX)),
            templates: Mutex::new(Recent::new(PLANS_MAX)),
            generics: Mutex::new(Recent::new(PLANS_MAX)),
            parsed: Mutex::new(Recent::new(PARSED_MAX)),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        });
        let observer = Arc::downgrade(&cache);
        catalog.observe(observer);
        cache
    }

    /// The plan under a key. Whether it is current is for the caller to see.
    pub fn get(&self, key: &PlanKey) -> Option<RememberedPlan> {
        self.plans.lock().get(key).cloned()
    }

    /// Remembers a plan, if it can run again, and forgets the one that was not used for the longest time, if there are
    /// too many. A plan is not remembered if the session's settings or its tables have changed since the key was made.
    ///
    /// Gives where to note what the statement uses, also for a plan that is not remembered. What an earlier plan under
    /// this key used is the best guess for this one, and then what its template used. Nothing is remembered of a
    /// statement that changes something.
    pub fn put(&self, key: PlanKey, plan: &PlannedStatement) -> Arc<PlanHistory> {
        if !plan.is_read_only() {
            return Arc::default();
        }
        let needs = plan.needs();
        let is_as_keyed = plan.identity() == Some(key.identity());
        let Some(plan) = plan.kept().filter(|_| is_as_keyed) else {
            return self.template(TemplateKey::exact(&key, needs));
        };
        let template = self.template(TemplateKey::new(&key, needs));
        let plan = Arc::new(plan);
        let mut plans = self.plans.lock();
        let history = plans.get(&key).map(|remembered| remembered.history.clone());
        let history = history.unwrap_or_else(|| Arc::new(PlanHistory::of(template)));
        // A change from here on is told when the lock is free.
        if !plan.is_gone(&self.catalog) {
            plans.insert(key, RememberedPlan { plan, history: history.clone(), answer: Arc::default() });
        }
        history
    }

    fn template(&self, key: TemplateKey) -> Arc<PlanHistory> {
        self.templates.lock().get_or_default(key).clone()
    }

    /// What is known of a statement with parameters, for other values.
    pub fn generic(&self, key: &GenericKey) -> Option<RememberedGeneric> {
        self.generics.lock().get(key).cloned()
    }

    /// Remembers what is known of a statement with parameters. A plan is not remembered if the session's settings or
    /// its tables have changed since the key was made.
    pub fn put_generic(&self, key: GenericKey, generic: RememberedGeneric) {
        let mut generics = self.generics.lock();
        let is_kept = |plan: &GenericPlan| plan.identity() == key.identity() && !plan.is_gone(&self.catalog);
        let plan = generic.plan.filter(|plan| plan.as_ref().is_none_or(|plan| is_kept(plan)));
        generics.insert(key, RememberedGeneric { plan, history: generic.history });
    }

    /// The syntax tree of a text, if it is remembered: long texts are not.
    pub fn parsed(&self, identity: PlanningIdentity, text: &str) -> Option<ParsedStatement> {
        if text.len() > PARSED_BYTES_MAX {
            return None;
        }
        self.parsed.lock().get(&(text.to_owned(), identity)).cloned()
    }

    /// Remembers the syntax tree of a text, if it is short.
    pub fn put_parsed(&self, identity: PlanningIdentity, text: &str, statement: &ParsedStatement) {
        if text.len() <= PARSED_BYTES_MAX {
            self.parsed.lock().insert((text.to_owned(), identity), statement.clone());
        }
    }

    /// Counts a statement whose plan was found, and current, or was not.
    pub fn count(&self, is_hit: bool) {
        let counter = if is_hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// How many plans there are now, and the hits and misses since the database was opened.
    pub fn info(&self) -> PlanCacheInfo {
        PlanCacheInfo {
            plans: self.plans.lock().len(),
            hits_total: self.hits.load(Ordering::Relaxed),
            misses_total: self.misses.load(Ordering::Relaxed),
        }
    }
}

impl CatalogObserver for PlanCache {
    fn changed(&self, change: &CatalogChange) {
        // What is dropped may be large; it is dropped outside of the locks. A function may stand for another one that
        // any plan has called.
        let is_concerned = |depends: bool| depends || change.name.routine().is_some();
        let plans = self.plans.lock().take_unless(|remembered| !is_concerned(remembered.plan.depends_on(change)));
        let generics = self.generics.lock().take_unless(|generic| !is_concerned(generic.depends_on(change)));
        drop((plans, generics));
    }
}

impl RememberedGeneric {
    fn depends_on(&self, change: &CatalogChange) -> bool {
        matches!(&self.plan, Some(Some(plan)) if plan.depends_on(change))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use diligence_engine::plan::Needs;

    use super::*;
    use crate::{Database, Session};

    fn key(session: &Session, text: &str) -> PlanKey {
        PlanKey::new(session.planning_identity(), text, &[]).unwrap()
    }

    fn run(session: &Session, text: &str) {
        session.execute(text).unwrap().collect().unwrap();
    }

    #[test]
    fn a_change_forgets_the_plans_of_its_table_and_no_others() {
        let session = Database::in_memory().unwrap().session();
        let cache = session.database().plan_cache();
        let texts =
            ["SELECT a FROM t", "SELECT a FROM u", "SELECT a FROM v", "WITH w AS (SELECT 1 AS a) SELECT a FROM w"];
        let changes: [(&str, &[&str]); 10] = [
            ("INSERT INTO u VALUES (2)", &[]),
            ("INSERT INTO t VALUES (2)", &[]),
            ("ALTER TABLE t ADD COLUMN b INT", &[texts[0], texts[2]]),
            ("CREATE TABLE x AS SELECT 1 AS a", &[]),
            ("INSERT INTO x VALUES (2)", &[]),
            ("CREATE SCHEMA lab", &[]),
            ("DROP TABLE x", &[]),
            ("TRUNCATE TABLE u", &[]),
            ("CREATE OR REPLACE VIEW v AS SELECT a + 1 AS a FROM t", &texts[2..3]),
            ("DROP TABLE u", &texts[1..2]),
        ];
        for made in
            ["CREATE TABLE t AS SELECT 1 AS a", "CREATE TABLE u AS SELECT 1 AS a", "CREATE VIEW v AS SELECT a FROM t"]
        {
            run(&session, made);
        }
        for (change, expected) in changes {
            texts.iter().for_each(|text| run(&session, text));
            run(&session, change);
            let is_lost = |text: &&str| cache.get(&key(&session, text)).is_none();
            let lost = texts.into_iter().filter(is_lost).collect::<Vec<_>>();
            assert_eq!(lost, expected, "{change}");
            assert_eq!(cache.info().plans, texts.len() - lost.len(), "{change}");
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
    fn a_text_is_found_planned_by_every_session_that_plans_alike_until_its_tables_change() {
        let database = Database::in_memory().unwrap();
        let [session, other] = [(); 2].map(|()| database.session());
        let cache = database.plan_cache();
        let is_found = |session: &Session, text: &str| {
            let key = PlanKey::new(session.planning_identity(), text, &[]);
            key.and_then(|key| cache.get(&key)).is_some_and(|remembered| remembered.plan.renewed(session).is_some())
        };
        run(&session, "CREATE TABLE t AS SELECT 1 AS a");
        let (text, long) = ("SELECT a FROM t", format!("SELECT a FROM t --{}", "x".repeat(20_000)));
        assert!(!is_found(&session, text));
        run(&session, text);
        run(&session, &long);
        run(&session, "SELECT now()");
        assert!(is_found(&session, text) && is_found(&other, "SELECT  a FROM t; -- once more"));
        assert!(!is_found(&session, &long) && !is_found(&session, "SELECT now()"));
        other.execute("SET timezone = 'UTC'").unwrap();
        assert!(is_found(&session, text) && !is_found(&other, text));
        for harmless in ["SELECT * FROM system.settings", "CREATE TABLE u AS SELECT 1 AS b", "DROP TABLE u"] {
            run(&session, harmless);
            assert!(is_found(&session, text), "{harmless} changes nothing behind it");
        }
        run(&session, "INSERT INTO t VALUES (2)");
        assert!(is_found(&session, text));
        let many = "INSERT INTO t SELECT 1 FROM generate_series(1, 50000)";
        for change in [many, "CREATE OR REPLACE TABLE t AS SELECT 1 AS a", "ALTER TABLE t RENAME a TO b"] {
            if change.starts_with("ALTER") {
                run(&session, change);
                run(&session, "ALTER TABLE t RENAME b TO a");
            }
            run(&session, text);
            assert!(is_found(&session, text));
            run(&session, change);
            assert!(!is_found(&session, text), "{change}");
        }
    }

    #[test]
    fn a_plan_made_while_something_changed_is_not_kept() {
        let session = Database::in_memory().unwrap().session();
        session.execute("CREATE TABLE t AS SELECT 1 AS a").unwrap();
        let (cache, text) = (session.database().plan_cache(), "SELECT a FROM t");
        for change in ["ALTER TABLE t ADD COLUMN b INT", "SET timezone = 'UTC'"] {
            let begun = key(&session, text);
            let parsed = session.parse(text).unwrap();
            // The change comes in the middle of planning: after the relations were read, or before the settings were.
            let planned = if change.starts_with("ALTER") {
                let planned = session.plan(&parsed, &[]).unwrap();
                session.execute(change).unwrap();
                planned
            } else {
                session.execute(change).unwrap();
                session.plan(&parsed, &[]).unwrap()
            };
            cache.put(begun.clone(), &planned);
            assert!(cache.get(&begun).is_none() && cache.get(&key(&session, text)).is_none(), "{change}");
            assert_eq!(cache.info().plans, 0, "{change}");
        }
    }

    #[test]
    fn one_constant_is_known_by_what_another_used_unless_it_is_expected_to_need_much_more() {
        let session = Database::in_memory().unwrap().session();
        let cache = session.database().plan_cache();
        let needs = |rows| Needs { rows, memory_bytes: 1000 };
        let history = |text: &str, rows: usize| {
            PlanHistory::of(cache.template(TemplateKey::new(&key(&session, text), needs(rows))))
        };
        let used = Used { memory_bytes: 5, worked: Duration::from_millis(700) };
        let first = history("SELECT 1 FROM t", 1 << 20);
        assert_eq!(first.used(), None);
        first.note(used, true);
        assert_eq!(history("SELECT 2 FROM t", (1 << 20) + 1000).used(), Some(used));
        assert_eq!(history("SELECT 2 FROM t", 1 << 24).used(), None);
        assert_eq!(history("SELECT 2 FROM u", 1 << 20).used(), None);
        let own = Used { memory_bytes: 7, worked: Duration::ZERO };
        let second = history("SELECT 2 FROM t", 1 << 20);
        second.note(own, true);
        assert_eq!((first.used(), second.used()), (Some(used), Some(own)));
        (0..2 * PLANS_MAX).for_each(|number| drop(history(&format!("SELECT a{number} FROM t"), 1)));
        assert_eq!(cache.templates.lock().len(), PLANS_MAX);
    }
}
