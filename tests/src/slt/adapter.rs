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
    /// The functions of the script whose calls change something: a session has one transaction, one user and one value
    /// of each setting, which two calls at a time would share.
    pub changing: Vec<String>,
}

/// The way into the database.
#[derive(Clone)]
pub enum Door {
    /// The library.
    Session(Arc<Session>),
    /// PostgreSQL's protocol.
    Wire(Arc<Mutex<Wire>>),
}

/// What a query says whose answers are not the same, or which changes something.
const CHANGES: [&str; 9] =
    ["random", "uuid", "now(", "current_", "system.", "nextval", " into ", "update ", "delete from"];

/// What a function says that changes something: rows, the transaction, settings, who the user is, or which cursors the
/// session has.
const CHANGES_IN_FUNCTIONS: [&str; 11] = [
    "cursor",
    "insert ",
    "update ",
    "delete ",
    "merge ",
    "truncate ",
    "execute ",
    "exception",
    " set ",
    "set_config",
    "security definer",
];

/// How statements begin that say what a function does.
const SAY_OF_FUNCTIONS: [&str; 4] =
    ["create function ", "create or replace function ", "alter function ", "alter routine "];

impl Adapter {
    /// Whether it is a query that changes nothing, and whose answer is the same however often it is asked.
    fn may_run_twice(&self, sql: &str) -> bool {
        let sql = sql.trim_start().to_ascii_lowercase();
        ["select", "with", "values", "("].iter().any(|word| sql.starts_with(word))
            && !CHANGES.iter().any(|word| sql.contains(word))
            && !self.calls_what_changes(&sql)
    }

    /// Keeps the name of a function if its calls change something, itself or by what it calls.
    fn learn(&mut self, sql: &str) {
        let sql = sql.trim_start().to_ascii_lowercase();
        let Some(function) = SAY_OF_FUNCTIONS.iter().find_map(|words| sql.strip_prefix(words)) else { return };
        let name = function.split('(').next().unwrap_or_default().rsplit('.').next().unwrap_or_default();
        if CHANGES_IN_FUNCTIONS.iter().any(|word| sql.contains(word)) || self.calls_what_changes(&sql) {
            self.changing.push(format!("{}(", name.trim()));
        }
    }

    fn calls_what_changes(&self, sql: &str) -> bool {
        self.changing.iter().any(|call| sql.contains(call.as_str()))
    }
}

impl DB for Adapter {
    type Error = Error;
    type ColumnType = ColumnLetter;

    fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnLetter>, Error> {
        self.learn(sql);
        // Planning cannot be cancelled, so it is watched without a token.
        let planning = self.watchdog.watch(sql, None);
        let session = match &self.door {
            Door::Session(session) => session,
            Door::Wire(wire) => return wire.lock().run(sql),
        };
        let twice = self.twice && self.may_run_twice(sql);
        let mut result = session.start(sql)?;
        let mut twin = twice.then(|| session.start(sql)).transpose()?;
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
