//! A session: a planner with its settings and prepared statements.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use diligence_base::Result;
use diligence_engine::query::{QueryOptions, QueryStream};
use diligence_sql::catalog::SessionCatalogs;
use diligence_sql::{Planner, PlannerOptions, Query, Statement};
use diligence_storage::foreign_error::from_arrow;
use parking_lot::Mutex;

use crate::database::Shared;
use crate::result::QueryResult;
use crate::settings::{SessionSettings, SettingInfo, Settings};
use crate::system;

/// Words that a completion offers besides the names of tables, columns and functions.
const KEYWORDS: &[&str] = &[
    "ALL",
    "ANALYZE",
    "AND",
    "ANTI",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COPY",
    "CREATE",
    "CROSS",
    "CUBE",
    "CURRENT",
    "DELIMITER",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "FILTER",
    "FIRST",
    "FOLLOWING",
    "FROM",
    "FULL",
    "GROUP",
    "GROUPING",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LAST",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "NATURAL",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OPTIONS",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PRECEDING",
    "PREPARE",
    "RANGE",
    "RECURSIVE",
    "RESET",
    "RIGHT",
    "ROLLUP",
    "ROWS",
    "SELECT",
    "SEMI",
    "SET",
    "SETS",
    "SHOW",
    "STORED",
    "TABLE",
    "THEN",
    "TO",
    "UNBOUNDED",
    "UNION",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];

/// A session of a database. Statements may run at the same time, from several threads; settings are for those that come.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
    planner: Arc<Planner>,
    settings: Settings,
}

impl Session {
    pub(crate) fn open(shared: Arc<Shared>) -> Result<Self> {
        let settings = Settings {
            engine: shared.engine.clone(),
            session: Arc::new(Mutex::new(SessionSettings::default())),
            memory_default_bytes: shared.engine.broker().budget_bytes(),
        };
        let catalogs = SessionCatalogs {
            catalog: shared.catalog.clone(),
            system: Arc::new(system::tables(&shared.engine, &settings)),
        };
        let options = PlannerOptions { paths_are_tables: true, files: shared.files.clone() };
        let planner = Arc::new(Planner::new(catalogs, shared.runtime.clone(), options));
        for (name, value) in &shared.settings {
            settings.set(&planner, name, value)?;
        }
        Ok(Self { shared, planner, settings })
    }

    /// Runs one statement. Queries are started; everything else is done when this returns.
    pub fn execute(&self, sql: &str) -> Result<QueryResult> {
        let _entered = self.shared.engine.io_handle().enter();
        match self.planner.plan(sql)? {
            Statement::Query(query) => Ok(QueryResult::stream(self.start(&query, sql)?)),
            Statement::Explain { query, analyze, details } => self.explain(&query, analyze, details, sql),
            Statement::Write(write) => {
                let batches = collect(self.start(&write.query, sql)?)?;
                let (tag, rows) = write.target.finish(batches, &self.shared.catalog)?;
                Ok(QueryResult::command(tag, Some(rows)))
            }
            Statement::Copy(query) => {
                let rows = collect(self.start(&query, sql)?)?.iter().map(written).sum();
                Ok(QueryResult::command("COPY", Some(rows)))
            }
            Statement::Command(command) => Ok(QueryResult::command(command.apply(&self.shared.catalog)?, None)),
            Statement::Set { name, value } => {
                self.settings.set(&self.planner, &name, &value)?;
                Ok(QueryResult::command("SET", None))
            }
            Statement::Reset { name } => {
                match name {
                    Some(name) => self.settings.reset(&self.planner, &name)?,
                    None => self.settings.reset_all(&self.planner)?,
                }
                Ok(QueryResult::command("RESET", None))
            }
            Statement::Show { name: Some(name) } => show(&[self.settings.show(&self.planner, &name)?]),
            Statement::Show { name: None } => show(&self.settings.all(&self.planner)),
        }
    }

    /// As [`execute`](Self::execute), for async code: planning happens on a thread of its own.
    pub async fn execute_async(&self, sql: &str) -> Result<QueryResult> {
        let (session, sql) = (self.clone(), sql.to_owned());
        let handle = self.shared.engine.io_handle();
        let task = handle.spawn_blocking(move || session.execute(&sql));
        task.await.unwrap_or_else(|error| Err(diligence_base::Error::bug(format!("planning ended early: {error}"))))
    }

    /// Cuts a script into statements. Semicolons in strings, names and comments do not count.
    pub fn split(sql: &str) -> Result<Vec<String>> {
        diligence_sql::parse::split(sql)
    }

    /// Words that may come next anywhere in a statement: keywords, tables, columns, functions; sorted.
    pub fn completions(&self) -> Vec<String> {
        let catalogs = self.planner.catalogs();
        let mut words: Vec<String> = KEYWORDS.iter().map(|&word| word.to_owned()).collect();
        for name in catalogs.names() {
            if let Some(relation) = catalogs.get(&name) {
                words.extend(relation.schema().fields().iter().map(|field| field.name().clone()));
            }
            words.push(format!("{}.{}", name.schema, name.name));
            words.push(name.name);
        }
        words.extend(self.planner.function_names());
        words.sort_unstable();
        words.dedup();
        words
    }

    fn options(&self, sql: &str) -> QueryOptions {
        let settings = *self.settings.session.lock();
        QueryOptions {
            label: sql.trim().to_owned(),
            memory_limit_bytes: settings.query_memory,
            packets: settings.packets,
            batch_rows: settings.batch_rows,
        }
    }

    fn start(&self, query: &Query, sql: &str) -> Result<QueryStream> {
        self.shared.engine.run(&query.plan, self.options(sql))
    }

    fn explain(&self, query: &Query, analyze: bool, details: Option<String>, sql: &str) -> Result<QueryResult> {
        let mut text = self.shared.engine.explain(&query.plan, &self.options(sql))?;
        if analyze {
            let mut stream = self.start(query, sql)?;
            while let Some(batch) = stream.next_blocking() {
                batch?;
            }
            text = format!("{}\n{}", query.plan, stream.profile());
        }
        if let Some(details) = details {
            text = format!("{text}\n{details}");
        }
        let lines: ArrayRef = Arc::new(text.lines().map(Some).collect::<StringArray>());
        let schema = Arc::new(Schema::new(vec![Field::new("plan", DataType::Utf8, false)]));
        Ok(QueryResult::batch(RecordBatch::try_new(schema, vec![lines]).map_err(from_arrow)?))
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Session")
    }
}

fn collect(mut stream: QueryStream) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    while let Some(batch) = stream.next_blocking() {
        batches.push(batch?);
    }
    Ok(batches)
}

/// The number of rows that a row of a file sink tells.
fn written(batch: &RecordBatch) -> u64 {
    let counts = batch.columns().first().and_then(|column| column.as_primitive_opt::<UInt64Type>().cloned());
    counts.map_or(0, |counts| counts.iter().flatten().sum())
}

fn show(settings: &[SettingInfo]) -> Result<QueryResult> {
    let columns = system::columns(settings);
    let fields = ["name", "value", "description"].into_iter().zip(&columns);
    let fields: Vec<Field> = fields.map(|(name, column)| Field::new(name, column.data_type().clone(), true)).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(from_arrow)?;
    Ok(QueryResult::batch(batch))
}
