//! Statements of Flight SQL, and how they are run.
//!
//! A query is run when its ticket is shown. A statement without rows, and one that writes, is run when its client asks
//! for the ticket of a statement without rows, or for its rows: so it is done when the call is answered.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_db::Description;

use super::cancellation::Cancellation;
use super::parameters::{Parameters, of_engine};
use super::prepared::{Kind, Prepared};
use super::session::{FlightSession, Running};
use crate::execution::RunningStatement;
use crate::session::commands;
use crate::sqlstate;

/// What a statement gives when it is run once.
pub(super) enum Outcome {
    /// Rows of a query that runs.
    Running(RunningStatement),
    /// Rows that are there.
    Rows(RecordBatch),
    /// No rows; what it concerned, if that is counted.
    Done(Option<u64>),
}

impl FlightSession {
    /// The types in which a prepared statement takes values that come in columns of these types. Where the statement
    /// leaves it open, they are the client's. Fails with code 08P01 if there are not as many as parameters.
    pub(super) async fn types_for(
        &self,
        prepared: &Prepared,
        sent: &Schema,
        cancellation: &Cancellation,
    ) -> Result<Vec<DataType>> {
        let known = &prepared.parameters;
        if sent.fields().len() != known.len() {
            let (wanted, found) = (known.len(), sent.fields().len());
            let error = Error::input(format!("the statement has {wanted} parameters; found {found} values"));
            return Err(error.with_code(sqlstate::PROTOCOL));
        }
        let open = known.iter().zip(sent.fields()).map(|(known, field)| {
            let own = of_engine(field.data_type());
            (*known == DataType::Utf8View && own != *known).then_some(own)
        });
        let given = open.collect::<Vec<_>>();
        if given.iter().all(Option::is_none) {
            return Ok(known.clone());
        }
        // Text is also what a parameter is of which the statement says nothing; else the client's type does not fit.
        match self.describe(&prepared.kind, given, cancellation).await {
            Ok(description) => Ok(description.parameters),
            Err(_) => Ok(known.clone()),
        }
    }

    /// The one statement of a text. Fails with code 42601 if there is none, or there are several.
    pub(super) async fn read(&self, text: &str, cancellation: &Cancellation) -> Result<Kind> {
        let mut statements = self.split(text, cancellation).await?;
        match (statements.pop(), statements.is_empty()) {
            (Some(statement), true) => self.parse(statement, cancellation).await,
            (None, _) => Err(Error::input("there is no statement").with_code("42601")),
            (Some(_), false) => {
                let error = Error::input("one statement is run at a time, and this text has several");
                Err(error.with_code("42601").with_hint("send them one by one, or as an update, which may have several"))
            }
        }
    }

    /// The statements of a text.
    pub(super) async fn split(&self, text: &str, cancellation: &Cancellation) -> Result<Vec<String>> {
        let split = self.execution().statements_of(text.to_owned());
        cancellation.within(&self.service, split).await
    }

    /// What a statement is.
    pub(super) async fn parse(&self, statement: String, cancellation: &Cancellation) -> Result<Kind> {
        let command =
            commands::command(&statement).map_err(|refused| Error::input(refused.message).with_code(refused.code))?;
        if let Some(command) = command {
            return Ok(Kind::Command(command));
        }
        self.allowed()?;
        let parse = self.execution().parse(&self.session, statement);
        Ok(Kind::Statement(cancellation.within(&self.service, parse).await?))
    }

    /// What a statement takes and gives, where its client has `given` some of the parameters' types.
    pub(super) async fn describe(
        &self,
        kind: &Kind,
        given: Vec<Option<DataType>>,
        cancellation: &Cancellation,
    ) -> Result<Description> {
        match kind {
            Kind::Command(command) => Ok(Description { schema: self.schema_of(command), ..Description::default() }),
            Kind::Statement(parsed) => {
                let describe = self.execution().describe(&self.session, parsed, given);
                cancellation.within(&self.service, describe).await
            }
        }
    }

    /// The columns of a query that only reads, as it has them when it is run; `None` for anything else.
    pub(super) async fn columns_of_query(
        &self,
        kind: &Kind,
        values: &Parameters,
        cancellation: &Cancellation,
    ) -> Result<Option<SchemaRef>> {
        let parsed = match kind {
            Kind::Command(command) => return Ok(self.schema_of(command)),
            Kind::Statement(parsed) => parsed,
        };
        let Some(first) = values.row(0) else { return Ok(None) };
        let plan = self.execution().plan(&self.session, parsed, first);
        match cancellation.within(&self.service, plan).await {
            Ok(ready) => Ok(ready.planned.schema()),
            Err(error) if error.code() == Some(sqlstate::READ_ONLY) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Begins to run a statement once, with these values.
    pub(super) async fn start(
        &self,
        kind: &Kind,
        values: Vec<ArrayRef>,
        cancellation: &Cancellation,
    ) -> Result<Outcome> {
        let parsed = match kind {
            Kind::Command(command) => return self.command(command, cancellation).await,
            Kind::Statement(parsed) => parsed,
        };
        let (allowed, asker) = (self.allowed()?, self.asker());
        let start = self.execution().start(&self.session, &asker, parsed, values, allowed);
        let running = cancellation.within(&self.service, start).await?;
        if running.is_command() {
            let done = cancellation.within(&self.service, running.finish()).await?;
            return Ok(Outcome::Done(done.rows));
        }
        Ok(Outcome::Running(running))
    }

    /// Runs a statement once to its end, whatever it gives; the rows that it concerned, if they are counted.
    pub(super) async fn run(
        &self,
        kind: &Kind,
        values: Vec<ArrayRef>,
        cancellation: &Cancellation,
    ) -> Result<Option<u64>> {
        match self.start(kind, values, cancellation).await? {
            Outcome::Done(rows) => Ok(rows),
            Outcome::Rows(rows) => Ok(Some(rows.num_rows() as u64)),
            Outcome::Running(mut running) => {
                let mut rows = 0;
                loop {
                    let next = async { running.next().await.transpose() };
                    match cancellation.within(&self.service, next).await? {
                        Some(batch) => rows += batch.num_rows() as u64,
                        None => return Ok(running.written().map_or(Some(rows), |done| done.rows)),
                    }
                }
            }
        }
    }

    /// Runs a statement without values, and gives its rows, which must be few.
    pub(super) async fn rows_of(
        &self,
        sql: &str,
        values: Vec<ArrayRef>,
        cancellation: &Cancellation,
    ) -> Result<Vec<RecordBatch>> {
        let kind = self.parse(sql.to_owned(), cancellation).await?;
        let Outcome::Running(mut running) = self.start(&kind, values, cancellation).await? else {
            return Err(Error::bug("a question about the catalog has no rows"));
        };
        let mut batches = Vec::new();
        loop {
            let next = async { running.next().await.transpose() };
            match cancellation.within(&self.service, next).await? {
                Some(batch) => batches.push(batch),
                None => return Ok(batches),
            }
        }
    }

    /// Runs the statements of a text, one after the other; the rows that the last of them concerned.
    pub(super) async fn update(&self, text: &str, running: &Running) -> Result<Option<u64>> {
        let cancellation = &running.cancellation;
        let statements = self.split(text, cancellation).await?;
        if statements.is_empty() {
            return Err(Error::input("there is no statement").with_code("42601"));
        }
        let mut rows = None;
        for statement in statements {
            let kind = self.parse(statement, cancellation).await?;
            rows = self.run(&kind, vec![], cancellation).await?;
        }
        Ok(rows)
    }

    /// Runs a statement with each row of the values, to its end: all of them or none. The rows that it concerned, of
    /// all together.
    pub(super) async fn run_each(
        self: &Arc<Self>,
        kind: &Kind,
        values: &Parameters,
        cancellation: &Cancellation,
    ) -> Result<Option<u64>> {
        let own = if values.count() > 1 { self.begin_own()? } else { None };
        let mut rows = None;
        for number in 0..values.count() {
            let Some(values) = values.row(number) else { break };
            let concerned = self.run(kind, values, cancellation).await?;
            rows = rows.map_or(concerned, |rows: u64| Some(rows + concerned.unwrap_or(0)));
        }
        if let Some(own) = own {
            own.commit().await?;
        }
        Ok(rows)
    }
}
