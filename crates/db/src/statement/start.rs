//! Start: a planned statement becomes a running one, with a result.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_engine::{QueryOptions, SharingMode, SharingOffer};
use diligence_sql::{Planned, Query, Statement};
use diligence_storage::foreign_error::from_arrow;

use super::result::{Again, Explained, QueryResult};
use crate::plan_json;
use crate::plans::{ParsedStatement, PlannedStatement};
use crate::session::Session;
use crate::settings::Shown;

impl Session {
    /// Whether a planned statement is a query that is large enough to share with others, if it has anything to.
    pub fn may_share(&self, planned: &PlannedStatement) -> bool {
        let options = self.query_options("");
        let is_off = matches!(options.sharing, SharingMode::Off | SharingMode::Scans);
        matches!(planned.planned, Planned::Query(..)) && !is_off && planned.needs().rows >= options.sharing_rows_min
    }

    /// What a planned statement would share with others if it started now; `None` if that is nothing.
    pub fn sharing_offer(&self, planned: &PlannedStatement) -> Option<SharingOffer> {
        match &planned.planned {
            Planned::Query(query, _) => self.database().engine().sharing_offer(&query.plan, &self.query_options("")),
            Planned::Other(_) => None,
        }
    }

    /// Starts a planned statement. Its work is done while the result is read. Fails with kind `Resource` if there is no
    /// memory to start with, with kind `File` if a file that is to be written cannot be, and for a statement that is
    /// done at once (DDL, SET) with its own error.
    pub fn start_planned(&self, planned: PlannedStatement) -> Result<QueryResult> {
        let options = QueryOptions {
            waits_for_memory: planned.waits_for_memory,
            work_expected_ns: planned.work_expected_ns,
            ..self.query_options(&planned.text)
        };
        let again = planned.source.filter(|_| self.transaction_mark().is_none()).map(|source| self.again(source));
        self.in_runtime(|| match planned.planned {
            Planned::Query(query, _) => self.start_query(&query, options),
            Planned::Other(statement) => Ok(self.start_statement(*statement, options)?.with_retries(again)),
        })
    }

    /// Plans and starts a statement that writes once more.
    fn again(&self, source: (ParsedStatement, Vec<ScalarValue>)) -> Again {
        let session = self.clone();
        Box::new(move || {
            let (parsed, values) = &source;
            session.in_runtime(|| {
                let planned = session.planner().plan(&session.snapshot(), parsed.tree(), values)?;
                let Planned::Other(statement) = planned else { return Err(Error::bug("a query is started anew")) };
                let Statement::Write(write) = *statement else {
                    return Err(Error::bug("a command is started anew"));
                };
                let stream =
                    session.database().engine().run(&write.query.plan, session.query_options(parsed.text()))?;
                Ok((stream, write.returning.map(|(_, returned)| returned)))
            })
        })
    }

    fn start_query(&self, query: &Query, options: QueryOptions) -> Result<QueryResult> {
        Ok(QueryResult::query(self.database().engine().run(&query.plan, options)?))
    }

    fn start_statement(&self, statement: Statement, options: QueryOptions) -> Result<QueryResult> {
        let engine = self.database().engine();
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
                QueryResult::write(write.tag, engine.run(&write.query.plan, options)?, write.returning)
            }
            Statement::Command(command) => QueryResult::done(command.apply(self.planner().catalogs())?),
            Statement::Checkpoint => {
                self.database().checkpoint()?;
                QueryResult::done("CHECKPOINT")
            }
            Statement::Transaction(step) => QueryResult::done(self.step(step)?),
            Statement::Set { name, value } => {
                self.set(&name, &value)?;
                QueryResult::done("SET")
            }
            Statement::Reset { name } => {
                match name {
                    Some(name) => self.settings().reset(&name)?,
                    None => self.settings().reset_all()?,
                }
                QueryResult::done("RESET")
            }
            Statement::Show { name: Some(name) } => shown(vec![self.settings().show(&name)?], false)?,
            Statement::Show { name: None } => shown(self.settings().all(), true)?,
        })
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
