//! A session as the sqllogictest library wants to see a database.

use std::sync::Arc;

use diligence_base::Error;
use diligence_db::{ResultKind, Session};
use parking_lot::Mutex;
use sqllogictest::{DB, DBOutput};

use super::display::{self, ColumnLetter};
use super::watchdog::Watchdog;
use super::wire::Wire;

/// Runs the statements of one script.
pub struct Adapter {
    pub door: Door,
    pub watchdog: Watchdog,
}

/// The way into the database.
#[derive(Clone)]
pub enum Door {
    /// The library.
    Session(Arc<Session>),
    /// PostgreSQL's protocol.
    Wire(Arc<Mutex<Wire>>),
}

impl DB for Adapter {
    type Error = Error;
    type ColumnType = ColumnLetter;

    fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnLetter>, Error> {
        // Planning cannot be cancelled, so it is watched without a token.
        let planning = self.watchdog.watch(sql, None);
        let session = match &self.door {
            Door::Session(session) => session,
            Door::Wire(wire) => return wire.lock().run(sql),
        };
        let mut result = session.start(sql)?;
        drop(planning);
        let _running = self.watchdog.watch(sql, Some(result.cancel_token()));
        let mut batches = Vec::new();
        while let Some(batch) = result.next_blocking() {
            batches.push(batch?);
        }
        Ok(match result.kind() {
            // The scripts see the number of rows that were written as an answer of one row.
            ResultKind::Command { rows: Some(rows), .. } => {
                DBOutput::Rows { types: vec![display::INTEGER], rows: vec![vec![rows.to_string()]] }
            }
            ResultKind::Command { rows: None, .. } => DBOutput::StatementComplete(0),
            ResultKind::Rows => {
                let rows = display::rows(&batches).map_err(|error| Error::value(error.to_string()))?;
                DBOutput::Rows { types: display::letters(&result.schema()), rows }
            }
        })
    }

    /// What `skipif` and `onlyif` of the scripts call this.
    fn engine_name(&self) -> &str {
        match self.door {
            Door::Session(_) => "library",
            Door::Wire(_) => "pgwire",
        }
    }
}
