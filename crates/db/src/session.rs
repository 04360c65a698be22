//! One client's conversation with a database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use diligence_base::{Error, Result};
use diligence_catalog::{PlanningIdentity, Rights, SessionCatalogs, SessionSnapshot};
use diligence_engine::QueryOptions;
use diligence_sql::Facts;
use diligence_sql::{Planner, PlannerOptions, Query, Statement, parse};
use diligence_storage::foreign_error::from_arrow;

use crate::beginning::Beginning;
use crate::database::Database;
use crate::plan_json;
use crate::result::{Explained, QueryResult};
use crate::settings::{self, Settings, SettingsView, Shown};
use crate::system;

/// A session: settings, prepared statements, and a planner over the database's tables. Used from any thread; statements
/// of one session do not wait for each other. Clones are the same session.
#[derive(Clone)]
pub struct Session(Arc<Parts>);

/// What a session may do. By default, anything.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Whether its statements may name files and URLs, to read or to write.
    pub files: bool,
    /// Which relations it may read, and which it may change.
    pub rights: Arc<Rights>,
    /// Whether it may change settings that are everybody's: the memory budget, the stages' policy.
    pub engine_settings: bool,
    /// Bytes that one of its queries may reserve at most, whatever its settings say.
    pub query_memory_bytes: Option<usize>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { files: true, rights: Arc::new(Rights::all()), engine_settings: true, query_memory_bytes: None }
    }
}

/// What a session is made of; its system tables look at it.
pub(crate) struct Parts {
    database: Database,
    planner: Planner,
    settings: Settings,
}

impl Parts {
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn settings(&self) -> SettingsView<'_> {
        SettingsView {
            settings: &self.settings,
            engine: self.database.engine(),
            planner: &self.planner,
            defaults: self.database.defaults(),
        }
    }
}

impl Session {
    pub(crate) fn new(database: Database, options: SessionOptions) -> Self {
        let parts = Arc::new_cyclic(|parts: &Weak<Parts>| {
            let mut system = system::tables(database.engine(), parts);
            system.extend(database.more_system_tables());
            let (catalog, postgres) = (database.catalog().clone(), database.postgres().clone());
            let catalogs = SessionCatalogs::new(catalog, Arc::new(system), postgres, options.rights.clone());
            let planning = PlannerOptions { paths_are_tables: options.files, files: database.files().clone() };
            let planner = database.planner().for_session(catalogs, planning);
            let settings = Settings::new(options.engine_settings, options.query_memory_bytes);
            Parts { planner, settings, database }
        });
        let session = Self(parts);
        for (name, value) in session.0.database.defaults().for_session() {
            // Accepted when the database was opened.
            let _ = session.set(&name, &value);
        }
        session
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.0.database
    }

    /// What it may do with relations.
    pub fn rights(&self) -> &Rights {
        &self.0.planner.catalogs().rights
    }

    /// Runs exactly one statement. A query's rows come out of the result as they appear; a statement that changes
    /// something is done when this returns.
    pub fn execute(&self, sql: &str) -> Result<QueryResult> {
        let mut result = self.start(sql)?;
        result.settle()?;
        Ok(result)
    }

    /// As [`execute`](Self::execute), for async code: planning, which may open files, happens on a thread of its own.
    pub async fn execute_async(&self, sql: &str) -> Result<QueryResult> {
        let (session, sql) = (Self(self.0.clone()), sql.to_owned());
        let planning = self.0.database.engine().io_handle().spawn_blocking(move || session.start(&sql));
        let planned = planning.await.map_err(|error| Error::bug(format!("planning ended early: {error}")))?;
        let mut result = planned?;
        result.settle_async().await?;
        Ok(result)
    }

    /// Starts exactly one statement. Unlike with [`execute`](Self::execute), a statement that changes something does
    /// its work while the result is read, so that its progress can be seen and it can be cancelled; unread, it does
    /// nothing.
    pub fn start(&self, sql: &str) -> Result<QueryResult> {
        self.start_unless(sql, &AtomicBool::new(false))
    }

    /// Starts exactly one statement on a thread of its own, so that one can give up waiting for it: planning opens
    /// files and computes constants, and cannot be interrupted.
    pub fn begin(&self, sql: &str) -> Beginning {
        Beginning::new(self.clone(), sql.to_owned())
    }

    /// As [`start`](Self::start). Once it was given up, a planned statement does nothing.
    pub(crate) fn start_unless(&self, sql: &str, given_up: &AtomicBool) -> Result<QueryResult> {
        let (text, plans) = (sql.trim(), self.0.database.plans());
        let key = plans.key(self, text);
        let planned = match key.as_ref().and_then(|key| plans.find(self, key)) {
            Some(planned) => planned,
            None => {
                let planned = self.plan(&self.parse(text)?, &[])?;
                if let Some(key) = key {
                    plans.keep(self, key, &planned);
                }
                planned
            }
        };
        if given_up.load(Ordering::Relaxed) {
            return Err(Error::cancelled());
        }
        self.start_planned(planned)
    }

    /// Runs something of the planner or the engine: object stores and DataFusion's writers look for a runtime when they
    /// are made.
    pub(crate) fn in_runtime<T>(&self, body: impl FnOnce() -> T) -> T {
        let runtime = self.0.database.engine().io_handle();
        let _entered = runtime.enter();
        body()
    }

    /// How a query of this session is run.
    pub(crate) fn query_options(&self, text: &str) -> QueryOptions {
        self.0.settings.query_options(text)
    }

    pub(crate) fn start_query(&self, query: &Query, options: QueryOptions) -> Result<QueryResult> {
        Ok(QueryResult::query(self.0.database.engine().run(&query.plan, options)?))
    }

    pub(crate) fn start_statement(&self, statement: Statement, options: QueryOptions) -> Result<QueryResult> {
        let parts = &self.0;
        let engine = parts.database.engine();
        Ok(match statement {
            Statement::Query(query) => self.start_query(&query, options)?,
            Statement::Explain { query, analyze: true, json, .. } => {
                let plan =
                    if json { Explained::Json(query.plan.clone()) } else { Explained::Text(query.plan.to_string()) };
                QueryResult::analyze(engine.run(&query.plan, options)?, plan)
            }
            Statement::Explain { query, json: true, .. } => {
                QueryResult::lines(&plan_json::planned(&query.plan, &engine.explain_sharing(&query.plan, &options)?))?
            }
            Statement::Explain { query, analyze: false, json: false, details } => {
                let mut text = engine.explain(&query.plan, &options)?;
                if let Some(details) = details {
                    text = format!("{}\n\n{details}", text.trim_end());
                }
                QueryResult::lines(&text)?
            }
            Statement::Write(write) => {
                let stream = engine.run(&write.query.plan, options)?;
                let memory = engine.table_memory().reservation("a table in memory");
                QueryResult::write(stream, memory, write.target, parts.database.catalog().clone())
            }
            Statement::WriteFiles(write) => {
                write.target.begin()?;
                QueryResult::write_files(engine.run(&write.query.plan, options)?, write.target)
            }
            Statement::Command(command) => QueryResult::done(command.apply(parts.planner.catalogs())?),
            Statement::Set { name, value } => {
                self.set(&name, &value)?;
                QueryResult::done("SET")
            }
            Statement::Reset { name } => {
                match name {
                    Some(name) => parts.settings().reset(&name)?,
                    None => parts.settings().reset_all()?,
                }
                QueryResult::done("RESET")
            }
            Statement::Show { name: Some(name) } => shown(vec![parts.settings().show(&name)?], false)?,
            Statement::Show { name: None } => shown(parts.settings().all(), true)?,
        })
    }

    /// A setting's value, as SHOW has it.
    pub fn setting(&self, name: &str) -> Result<String> {
        Ok(self.0.settings().show(name)?.value)
    }

    /// A setting's value, for [`restore_setting`](Self::restore_setting); `None` of a setting that is everybody's.
    pub fn own_setting(&self, name: &str) -> Result<Option<String>> {
        let shown = self.0.settings().show(name)?;
        Ok((!settings::is_everybodys(name)).then_some(shown.value))
    }

    /// Makes a setting what it was.
    pub fn restore_setting(&self, name: &str, value: &str) -> Result<()> {
        // One that had no value is shown as nothing.
        if value.is_empty() { self.reset(name) } else { self.set(name, value) }
    }

    /// The session's own settings that differ from their defaults.
    pub fn changed_settings(&self) -> Vec<String> {
        let all = self.0.settings().all().into_iter();
        let changed = all.filter(|shown| shown.value != shown.default && !settings::is_everybodys(&shown.name));
        changed.map(|shown| shown.name).collect()
    }

    /// Gives a setting its default back.
    pub fn reset(&self, name: &str) -> Result<()> {
        self.0.settings().reset(name)
    }

    /// Gives all settings that the session can change their defaults back.
    pub fn reset_all(&self) -> Result<()> {
        self.0.settings().reset_all()
    }

    /// What functions about the session and its client answer.
    pub fn set_facts(&self, facts: Facts) {
        self.0.planner.set_facts(facts);
    }

    /// Two sessions with the same number plan the same text to the same.
    pub fn planning_identity(&self) -> PlanningIdentity {
        self.0.planner.identity()
    }

    /// The relations that a statement of this session sees which begins now.
    pub(crate) fn snapshot(&self) -> SessionSnapshot {
        self.0.planner.catalogs().snapshot()
    }

    pub(crate) fn planner(&self) -> &Planner {
        &self.0.planner
    }

    /// Changes a setting, as SET does.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        self.0.settings().set(name, value)
    }

    /// Cuts a script at its semicolons.
    pub fn split(sql: &str) -> Result<Vec<String>> {
        parse::split(sql)
    }

    /// Tables and views, as a statement names them; in order.
    pub fn relation_names(&self) -> Vec<String> {
        self.snapshot().names().iter().map(ToString::to_string).collect()
    }

    /// Words of SQL's own, in capitals.
    pub fn keywords() -> &'static [&'static str] {
        &KEYWORDS
    }

    /// Words that a statement may go on with: keywords, relations, columns, functions, settings; in order, without
    /// doubles.
    pub fn completions(&self) -> Vec<String> {
        let mut words = KEYWORDS.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let snapshot = self.snapshot();
        for name in snapshot.names() {
            words.push(name.to_string());
            if let Some(Ok(schema)) = snapshot.get(&name).map(|relation| relation.schema()) {
                words.extend(schema.fields().iter().map(|field| field.name().clone()));
            }
        }
        words.extend(self.0.planner.function_names());
        words.extend(self.0.settings().all().into_iter().map(|shown| shown.name));
        words.sort();
        words.dedup();
        words
    }
}

fn shown(rows: Vec<Shown>, all: bool) -> Result<QueryResult> {
    let column =
        |value: fn(&Shown) -> &str| Arc::new(StringViewArray::from_iter_values(rows.iter().map(value))) as ArrayRef;
    let mut names = vec!["name", "value"];
    let mut columns = vec![column(|shown| &shown.name), column(|shown| &shown.value)];
    if all {
        names.extend(["default", "description"]);
        columns.extend([column(|shown| &shown.default), column(|shown| &shown.description)]);
    }
    let fields = names.into_iter().map(|name| Field::new(name, DataType::Utf8View, false));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(schema.clone(), columns).map_err(from_arrow)?;
    Ok(QueryResult::rows(schema, vec![batch]))
}

/// The words of SQL that statements are mostly made of.
#[rustfmt::skip]
const KEYWORDS: [&str; 123] = [
    "ALL", "ALTER", "ANALYZE", "AND", "ANTI", "ANY", "AS", "ASC", "BETWEEN", "BIGINT", "BOOLEAN", "BY", "CASCADE",
    "CASE", "CAST", "COLUMNS", "COPY", "CREATE", "CROSS", "CUBE", "CURRENT", "DATE", "DEALLOCATE", "DECIMAL",
    "DEFAULT", "DELETE", "DESC", "DESCRIBE", "DISTINCT", "DOUBLE", "DROP", "ELSE", "END", "ESCAPE", "EXCEPT",
    "EXECUTE", "EXISTS", "EXPLAIN", "EXTERNAL", "EXTRACT", "FALSE", "FETCH", "FILTER", "FIRST", "FLOAT",
    "FOLLOWING", "FOR", "FROM", "FULL", "GROUP", "GROUPING", "HAVING", "IF", "ILIKE", "IN", "INNER", "INSERT",
    "INT", "INTEGER", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN", "LAST", "LATERAL", "LEFT", "LIKE", "LIMIT",
    "LOCATION", "NATURAL", "NOT", "NULL", "NULLS", "OFFSET", "ON", "OPTIONS", "OR", "ORDER", "OUTER", "OVER",
    "OVERWRITE", "PARTITION", "PRECEDING", "PREPARE", "RANGE", "RECURSIVE", "REPLACE", "RESET", "RIGHT", "ROLLUP",
    "ROW", "ROWS", "SCHEMA", "SELECT", "SEMI", "SET", "SETS", "SHOW", "SIMILAR", "SMALLINT", "STORED", "TABLE",
    "TABLES", "TEXT", "THEN", "TIMESTAMP", "TO", "TRUE", "TRUNCATE", "UNBOUNDED", "UNION", "UNNEST", "USING",
    "VALUES", "VARCHAR", "VERBOSE", "VIEW", "WHEN", "WHERE", "WINDOW", "WITH", "WITHIN",
];
