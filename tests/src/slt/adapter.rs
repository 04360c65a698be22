//! A session as the sqllogictest library wants to see a database.

use std::sync::Arc;

use arrow::array::RecordBatch;
use diligence_base::Error;
use diligence_db::{QueryResult, ResultKind, Session};
use parking_lot::Mutex;
use sqllogictest::{DB, DBOutput};

use super::display::{self, ColumnLetter};
use super::watchdog::Watchdog;
use super::wire::Wire;

/// Runs the statements of one script.
pub struct Adapter {
    pub door: Door,
    pub watchdog: Watchdog,
    /// Whether a second copy of each query runs at the same time, and must get the same.
    pub twice: bool,
}

/// The way into the database.
#[derive(Clone)]
pub enum Door {
    /// The library.
    Session(Arc<Session>),
    /// PostgreSQL's protocol.
    Wire(Arc<Mutex<Wire>>),
}

/// Whether it is a query that changes nothing, and whose answer is the same however often it is asked.
fn may_run_twice(sql: &str) -> bool {
    let sql = sql.trim_start().to_ascii_lowercase();
    let changes =
        ["random", "uuid", "now(", "current_", "system.", "nextval", " into ", "update ", "delete from", "-- changes"];
    ["select", "with", "values", "("].iter().any(|word| sql.starts_with(word))
        && !changes.iter().any(|word| sql.contains(word))
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
        let mut twin = (self.twice && may_run_twice(sql)).then(|| session.start(sql)).transpose()?;
        drop(planning);
        let _running = self.watchdog.watch(sql, Some(result.cancel_token()));
        let (mut batches, mut twins) = (Vec::new(), Vec::new());
        let next = |result: &mut QueryResult, batches: &mut Vec<RecordBatch>| match result.next_blocking() {
            Some(batch) => batch.map(|batch| batches.push(batch)).map(|()| true),
            None => Ok(false),
        };
        // A batch of the one, a batch of the other.
        let (mut ended, mut failed) = (false, None);
        while !ended {
            ended = true;
            for (result, batches) in
                [Some((&mut result, &mut batches)), twin.as_mut().map(|twin| (twin, &mut twins))].into_iter().flatten()
            {
                match next(result, batches) {
                    Ok(more) => ended &= !more,
                    Err(error) => failed = Some(error),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
        if twin.is_some() {
            let sorted = |batches: &[RecordBatch]| {
                let mut rows = display::rows(batches)?;
                rows.sort();
                Ok::<_, Error>(rows)
            };
            if sorted(&batches)? != sorted(&twins)? {
                return Err(Error::bug("the same query at the same time gets other rows"));
            }
        }
        Ok(match result.kind() {
            // The scripts see the number of rows that were written as an answer of one row.
            ResultKind::Command { rows: Some(rows), .. } => {
                DBOutput::Rows { types: vec![display::INTEGER], rows: vec![vec![rows.to_string()]] }
            }
            ResultKind::Command { rows: None, .. } => DBOutput::StatementComplete(0),
            ResultKind::Rows => {
                let rows = display::rows(&batches)?;
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
