//! Statements that the session answers itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::{Error, Result};

use super::cancellation::Cancellation;
use super::prepared::Kind;
use super::session::FlightSession;
use super::statement::Outcome;
use crate::session::commands::{Command, Discarded};
use crate::session::settings::shown_name;
use crate::sqlstate;

impl FlightSession {
    /// The columns of a command that gives rows.
    pub(super) fn schema_of(&self, command: &Command) -> Option<SchemaRef> {
        let Command::Show(name) = command else { return None };
        Some(Arc::new(Schema::new(vec![Field::new(shown_name(name), DataType::Utf8View, true)])))
    }

    /// Does what a command says.
    pub(super) async fn command(&self, command: &Command, cancellation: &Cancellation) -> Result<Outcome> {
        if !matches!(command, Command::Commit | Command::Rollback | Command::RollbackTo(_)) {
            self.allowed()?;
        }
        match command {
            // PostgreSQL warns, and goes on.
            Command::Begin(_) | Command::Start(_) if self.state.lock().open.is_some() => {}
            Command::Begin(mode) | Command::Start(mode) => drop(self.begin(*mode)?),
            Command::Commit => {
                self.in_transaction()?;
                self.commit().await?;
            }
            Command::Rollback => {
                self.in_transaction()?;
                self.roll_back();
            }
            // The client names its transactions, and would not know the next one's name.
            Command::Chain { .. } => {
                let error = Error::unsupported("AND CHAIN belongs to PostgreSQL's protocol").with_code("0A000");
                return Err(error.with_hint("end the transaction, and begin another one"));
            }
            Command::Savepoint(name) => self.savepoint(name)?,
            Command::Release(name) => self.release(name)?,
            Command::RollbackTo(name) => self.back_to(name)?,
            Command::Set(name, value, lasts) => self.change_setting(name, Some(value), *lasts)?,
            Command::Reset(name, lasts) => self.change_setting(name, None, *lasts)?,
            Command::ResetAll => self.reset_all()?,
            Command::Show(name) => {
                let value: ArrayRef = Arc::new(StringViewArray::from_iter_values([self.setting(name)?]));
                let schema = self.schema_of(command).ok_or_else(|| Error::bug("SHOW without a column"))?;
                let rows = RecordBatch::try_new(schema, vec![value]);
                return rows.map(Outcome::Rows).map_err(|error| Error::bug(error.to_string()));
            }
            Command::SetTransaction(mode) => self.set_transaction(*mode),
            Command::SetTransactions(_) => {
                let error = Error::unsupported("SET SESSION CHARACTERISTICS belongs to PostgreSQL's protocol");
                return Err(error
                    .with_code("0A000")
                    .with_hint("each transaction says its own: BEGIN ISOLATION LEVEL …"));
            }
            Command::Discard(discarded) if *discarded != Discarded::All => discarded.give_back(&self.session)?,
            Command::Discard(_) => {
                if self.state.lock().open.is_some() {
                    let error = Error::input("DISCARD ALL cannot run inside a transaction block");
                    return Err(error.with_code(sqlstate::ACTIVE_TRANSACTION));
                }
                self.forget_prepared();
                self.session.discard();
                self.reset_all()?;
            }
            // What PREPARE made is the engine's.
            Command::Deallocate(None) => self.forget_prepared(),
            Command::Deallocate(Some(name)) => {
                let sql = format!("DEALLOCATE \"{}\"", name.replace('"', "\"\""));
                let parse = self.execution().parse(&self.session, sql);
                let parsed = cancellation.within(&self.service, parse).await?;
                Box::pin(self.run(&Kind::Statement(parsed), vec![], cancellation)).await?;
            }
            Command::Declare(..) | Command::Fetch(..) | Command::Move(..) | Command::Close(_) => {
                let error = Error::unsupported("cursors belong to PostgreSQL's protocol").with_code("0A000");
                return Err(error.with_hint("run the query: its rows come as fast as they are read"));
            }
            Command::CopyOut(_) | Command::CopyIn(_) => {
                let error = Error::unsupported("COPY with the client belongs to PostgreSQL's protocol");
                let hint = "read the rows by a query, and ingest those that come";
                return Err(error.with_code("0A000").with_hint(hint));
            }
        }
        Ok(Outcome::Done(None))
    }

    fn in_transaction(&self) -> Result<()> {
        if self.state.lock().open.is_some() {
            return Ok(());
        }
        Err(Error::input("there is no transaction").with_code("25P01"))
    }
}
