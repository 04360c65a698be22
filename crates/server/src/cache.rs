//! Plans of statements that were planned before, for all sessions; with them syntax trees of texts, and the rows of
//! constant statements.
//!
//! The key is the statement's text, normalized, with its parameters' values, and the settings that it was planned
//! under. An entry is only used if the tables behind it are in the same state still: that is looked at every time.
//!
//! A statement that comes again with other values of its parameters gets a generic plan, if it has one and is cheap:
//! then planning is what it costs most. For heavy ones it pays to plan with the values.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use diligence_base::recent::Recent;
use diligence_db::{
    CatalogChange, CatalogObserver, Database, GenericPlan, Needs, ParsedStatement, PlannedStatement, Session,
};
use parking_lot::Mutex;

use crate::admission::History;

/// Plans remembered at most. A plan has some 10 KiB, and now and then a few hundred.
pub const PLANS_MAX: usize = 512;

/// Syntax trees remembered at most, and bytes of their texts: a tree may have fifty times as many.
const PARSED_MAX: usize = 128;
const PARSED_BYTES_MAX: usize = 2 * 1024;

/// Bytes that the rows of a constant statement may have to be remembered with its plan: more are computed as fast as
/// they are sent.
pub const ANSWER_BYTES_MAX: usize = 4 * 1024;

/// Bytes of a text that is remembered at most: who sends more writes constants into it.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// What a plan is remembered under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanKey {
    text: String,
    values: String,
    planning: (u64, bool),
}

impl PlanKey {
    /// The key of a statement in a session; `None` for one that is too large to be remembered.
    pub fn new(session: &Session, text: &str, values: &[ArrayRef]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let mut rendered = String::new();
        for value in values {
            let options = FormatOptions::default().with_null("\0");
            let formatter = ArrayFormatter::try_new(value, &options).ok()?;
            let text = formatter.value(0).to_string();
            if rendered.len() + text.len() > TEXT_BYTES_MAX {
                return None;
            }
            write!(rendered, "{}:{}:{text};", value.data_type(), text.len()).ok()?;
        }
        Some(Self { text: normalized(text), values: rendered, planning: session.planning_identity() })
    }
}

/// A text as it was sent, and the settings that it is read under.
type TextKey = (String, (u64, bool));

/// What a generic plan is remembered under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GenericKey {
    text: String,
    types: Vec<DataType>,
    planning: (u64, bool),
}

impl GenericKey {
    /// The key of a statement with parameters; `None` for one without.
    pub fn new(key: &PlanKey, values: &[ArrayRef]) -> Option<Self> {
        let types = values.iter().map(|value| value.data_type().clone()).collect::<Vec<_>>();
        (!types.is_empty()).then(|| Self { text: key.text.clone(), types, planning: key.planning })
    }

    /// The types of the parameters.
    pub fn types(&self) -> &[DataType] {
        &self.types
    }
}

/// The statement without comments, with one space where there were more, and without a semicolon at its end.
pub fn normalized(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut gap = false;
    while let Some(character) = rest.next() {
        match character {
            '-' if rest.peek() == Some(&'-') => {
                for skipped in rest.by_ref() {
                    if skipped == '\n' {
                        break;
                    }
                }
                gap = true;
                continue;
            }
            c if c.is_whitespace() => {
                gap = true;
                continue;
            }
            _ => {}
        }
        if gap && !out.is_empty() {
            out.push(' ');
        }
        gap = false;
        out.push(character);
        // What is in quotes stays as it is. A backslash could be an escape or not: then the text stays, which only
        // costs hits.
        if character == '\'' || character == '"' {
            for quoted in rest.by_ref() {
                out.push(quoted);
                if quoted == '\\' {
                    return text.to_owned();
                }
                if quoted == character {
                    break;
                }
            }
        } else if character == '$' || character == '/' && rest.peek() == Some(&'*') {
            // Dollar quotes and nested comments.
            if character == '/' || !rest.peek().is_some_and(char::is_ascii_digit) {
                return text.to_owned();
            }
        }
    }
    if out.ends_with(';') {
        out.pop();
    }
    out
}

/// A normalized statement with `?` for its constants; several in a row are one. It only has to be the same for the same
/// query: where a text in quotes ends may be misread.
fn template(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let is_word = |character: char| character.is_alphanumeric() || matches!(character, '_' | '$' | '.');
    while let Some(character) = rest.next() {
        let inside_word = out.chars().next_back().is_some_and(is_word);
        match character {
            '\'' => {
                rest.by_ref().take_while(|quoted| *quoted != '\'').for_each(drop);
            }
            '"' => {
                out.push(character);
                for quoted in rest.by_ref() {
                    out.push(quoted);
                    if quoted == character {
                        break;
                    }
                }
                continue;
            }
            '0'..='9' if !inside_word => while rest.next_if(|character| is_word(*character)).is_some() {},
            _ => {
                out.push(character);
                continue;
            }
        }
        // Lists of any length are alike.
        let list = out.trim_end_matches(' ').strip_suffix(',').map(|before| before.trim_end_matches(' '));
        match list.filter(|before| before.ends_with('?')).map(str::len) {
            Some(length) => out.truncate(length),
            None => out.push('?'),
        }
    }
    out
}

/// Statements of a template whose plans are expected to need about the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TemplateKey {
    text: String,
    planning: (u64, bool),
    /// How large the plan is expected to be, in powers of four: other constants can make another query of it.
    size: (u32, u32),
}

impl TemplateKey {
    fn new(key: &PlanKey, needs: Needs) -> Self {
        let size = |number: usize| number.checked_ilog2().unwrap_or(0) / 2;
        Self { text: template(&key.text), planning: key.planning, size: (size(needs.rows), size(needs.memory_bytes)) }
    }

    /// The same of one statement with its constants and values: of what is not remembered planned, as table functions,
    /// the plan does not tell large from small.
    fn exact(key: &PlanKey, needs: Needs) -> Self {
        Self { text: format!("{}\0{}", key.text, key.values), ..Self::new(key, needs) }
    }
}

/// The plans.
pub struct PlanCache {
    database: Database,
    plans: Mutex<Recent<PlanKey, Remembered>>,
    /// What statements needed that differ in constants only.
    templates: Mutex<Recent<TemplateKey, Arc<History>>>,
    generics: Mutex<Recent<GenericKey, Generic>>,
    /// Syntax trees of texts that are one statement for the engine.
    parsed: Mutex<Recent<TextKey, ParsedStatement>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl PlanCache {
    /// A cache for statements of a database, whose changes it hears of.
    pub fn new(database: &Database) -> Arc<Self> {
        let cache = Arc::new(Self {
            database: database.clone(),
            plans: Mutex::new(Recent::new(PLANS_MAX)),
            templates: Mutex::new(Recent::new(PLANS_MAX)),
            generics: Mutex::new(Recent::new(PLANS_MAX)),
            parsed: Mutex::new(Recent::new(PARSED_MAX)),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        });
        let observer = Arc::downgrade(&cache);
        database.catalog().observe(observer);
        cache
    }
}

impl CatalogObserver for PlanCache {
    /// Forgets the plans of the table: a plan keeps its tables in memory.
    fn changed(&self, change: &CatalogChange) {
        // What is dropped may be large; it is dropped outside the locks.
        let plans = self.plans.lock().take_unless(|remembered| !remembered.plan.depends_on(change));
        let depends = |generic: &Generic| matches!(&generic.plan, Some(Some(plan)) if plan.depends_on(change));
        let generics = self.generics.lock().take_unless(|generic| !depends(generic));
        drop((plans, generics));
    }
}

/// A plan, and what it needed when it ran.
#[derive(Clone)]
pub struct Remembered {
    /// The plan.
    pub plan: Arc<PlannedStatement>,
    /// What it needed.
    pub history: Arc<History>,
    /// Its rows, if they are few and the same every time ([`PlannedStatement::is_constant`]). Set when it has run.
    pub answer: Arc<OnceLock<Vec<RecordBatch>>>,
}

/// A statement with parameters that has run, for other values.
#[derive(Clone)]
pub struct Generic {
    /// Its plan for all values, or that it has none; `None` while nobody has tried.
    pub plan: Option<Option<Arc<GenericPlan>>>,
    /// What it needed with the values that it had last.
    pub history: Arc<History>,
}

/// The cache's counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct CacheInfo {
    /// Plans that are remembered.
    pub plans: usize,
    /// Statements that went straight to execute.
    pub hits_total: u64,
    /// Statements that had to be planned.
    pub misses_total: u64,
}

impl PlanCache {
    /// The plan under a key. Whether it is current is for the caller to see, on a thread that may look at files.
    pub fn get(&self, key: &PlanKey) -> Option<Remembered> {
        self.plans.lock().get(key).cloned()
    }

    /// Remembers a plan, if it may run again; forgets the one that was not used for the longest time, if there are too
    /// many. What an earlier plan under this key needed is the best guess for this one, and then what its template
    /// needed. Gives where to note what it needs, for one that cannot run again, too. Nothing is remembered of what
    /// changes something.
    pub fn put(&self, key: PlanKey, plan: &PlannedStatement) -> Arc<History> {
        if !plan.is_read_only() {
            return Arc::default();
        }
        let needs = plan.needs();
        let Some(plan) = plan.again() else { return self.template(TemplateKey::exact(&key, needs)) };
        let template = self.template(TemplateKey::new(&key, needs));
        let plan = Arc::new(plan);
        let mut plans = self.plans.lock();
        let history = plans.get(&key).map(|remembered| remembered.history.clone());
        let history = history.unwrap_or_else(|| Arc::new(History::of(template)));
        // A change from here on is told when the lock is free.
        if !plan.is_gone(&self.database) {
            let remembered = Remembered { plan, history: history.clone(), answer: Arc::default() };
            plans.insert(key, remembered);
        }
        history
    }

    fn template(&self, key: TemplateKey) -> Arc<History> {
        self.templates.lock().get_or_default(key).clone()
    }

    /// What is known of a statement with parameters for other values.
    pub fn generic(&self, key: &GenericKey) -> Option<Generic> {
        self.generics.lock().get(key).cloned()
    }

    /// Remembers what is known of a statement with parameters.
    pub fn put_generic(&self, key: GenericKey, generic: Generic) {
        let mut generics = self.generics.lock();
        let is_gone = matches!(&generic.plan, Some(Some(plan)) if plan.is_gone(&self.database));
        let plan = if is_gone { None } else { generic.plan };
        generics.insert(key, Generic { plan, history: generic.history });
    }

    /// The syntax tree of a text.
    pub fn parsed(&self, session: &Session, text: &str) -> Option<ParsedStatement> {
        if text.len() > PARSED_BYTES_MAX {
            return None;
        }
        let key = (text.to_owned(), session.planning_identity());
        self.parsed.lock().get(&key).cloned()
    }

    /// Remembers the syntax tree of a text.
    pub fn put_parsed(&self, session: &Session, text: &str, statement: &ParsedStatement) {
        if text.len() > PARSED_BYTES_MAX {
            return;
        }
        let key = (text.to_owned(), session.planning_identity());
        self.parsed.lock().insert(key, statement.clone());
    }

    /// Counts a statement that was found, and current, or was not.
    pub fn count(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters now.
    pub fn info(&self) -> CacheInfo {
        CacheInfo {
            plans: self.plans.lock().len(),
            hits_total: self.hits.load(Ordering::Relaxed),
            misses_total: self.misses.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use diligence_db::Used;

    use super::*;

    #[test]
    fn plans_of_tables_that_are_dropped_or_changed_are_forgotten() {
        let session = Database::in_memory().unwrap().session();
        let cache = PlanCache::new(session.database());
        let run = |sql: &str| drop(session.execute(sql).unwrap().collect().unwrap());
        let key = |table: &str| PlanKey::new(&session, &format!("SELECT a FROM {table}"), &[]).unwrap();
        let tables = ["t", "u", "v", "w"];
        for table in tables {
            run(&format!("CREATE TABLE {table} AS SELECT 1 AS a"));
        }
        let ran = |table: &str| {
            let parsed = session.parse(&format!("SELECT a FROM {table}")).unwrap();
            cache.put(key(table), &session.plan(&parsed, &[]).unwrap());
        };
        tables.into_iter().for_each(ran);
        assert!(tables.iter().all(|table| cache.get(&key(table)).is_some()));
        for change in ["DROP TABLE t", "INSERT INTO u VALUES (2)", "CREATE OR REPLACE TABLE v AS SELECT 3 AS a"] {
            run(change);
        }
        assert_eq!(tables.map(|table| cache.get(&key(table)).is_some()), [false, false, false, true]);
    }

    #[test]
    fn constants_do_not_make_another_template() {
        let of = |text| template(&normalized(text));
        assert_eq!(
            of("SELECT a1, t2.b FROM t2 WHERE x = 12.5e3 AND y = 'it''s' LIMIT 10"),
            "SELECT a1, t2.b FROM t2 WHERE x = ? AND y = ?? LIMIT ?"
        );
        assert_eq!(of("SELECT 1 WHERE x IN (1, 2,3 , 'a')"), of("SELECT  7 WHERE x IN (5)"));
        assert_eq!(of("SELECT \"a 1\", $1 FROM t"), "SELECT \"a 1\", $1 FROM t");
        assert_ne!(of("SELECT a FROM t WHERE b = 1"), of("SELECT a FROM t WHERE c = 1"));
    }

    #[test]
    fn one_constant_is_known_by_what_another_needed_unless_it_is_expected_to_need_much_more() {
        let key = |text: &str| PlanKey { text: text.to_owned(), values: String::new(), planning: (1, false) };
        let needs = |rows| Needs { rows, memory_bytes: 1000 };
        let cache = PlanCache::new(&Database::in_memory().unwrap());
        let history = |text: &str, rows: usize| History::of(cache.template(TemplateKey::new(&key(text), needs(rows))));
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

    #[test]
    fn texts_that_differ_in_space_and_comments_are_one() {
        assert_eq!(normalized(" SELECT  1 -- one\n FROM t ; "), "SELECT 1 FROM t ");
        assert_eq!(normalized("SELECT 1;"), "SELECT 1");
        assert_eq!(normalized("SELECT 'a  b', \"c  d\""), "SELECT 'a  b', \"c  d\"");
        assert_eq!(normalized("SELECT $1   + 1"), "SELECT $1 + 1");
        let kept = "SELECT  E'a\\'  b'";
        assert_eq!(normalized(kept), kept);
        let kept = "SELECT /* a  */  1";
        assert_eq!(normalized(kept), kept);
    }
}
