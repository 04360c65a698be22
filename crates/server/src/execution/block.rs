//! A script as one transaction, for requests that have no session of their own.
//!
//! What its statements give is kept until the transaction has been committed, so there is a limit to it. Where others
//! were in the way (40001, 40P01), the whole is to be run once more ([`Attempts`]).

use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_db::{Isolation, Printed, Session};

use super::running::{CommandDone, RunningStatement};
use super::{Allowed, StatementExecution};
use crate::admission::{Asker, Passed};
use crate::sqlstate;

/// How often a script is run once more since others were in the way. Of those that meet one comes through each time, so
/// more than these are crowded out only where many write the same without pause.
pub const REPEATS_MAX: u32 = 10;
/// The longest rest before the first repeat: a transaction of a few short statements takes less. Before each other one
/// it is twice as long, so often.
const REST_MAX: Duration = Duration::from_millis(2);
const DOUBLINGS_MAX: u32 = 5;
/// Bytes of rows that a script gives at most, and of the answer with them. They are in memory until it has been
/// committed.
const SCRIPT_ROWS_BYTES_MAX: usize = 16 << 20;

/// A statement of a script.
#[derive(Clone, Debug)]
pub struct ScriptStatement {
    /// Its text, with `$1`, `$2`, … for its parameters.
    pub sql: String,
    /// Their values: arrays of one row.
    pub values: Vec<ArrayRef>,
}

/// What a script has done.
#[derive(Debug)]
pub struct ScriptDone {
    /// The rows of the last statement that gave some or none, but not only a count.
    pub rows: Option<ScriptRows>,
    /// The last statement: what it was and how many rows it concerned.
    pub last: CommandDone,
    /// How that was let in.
    pub passed: Passed,
    /// What all statements have said beside their rows.
    pub printed: Printed,
}

/// Rows that a script gives.
#[derive(Debug)]
pub struct ScriptRows {
    /// Their columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// The number that the query had in `system.queries`.
    pub query: Option<u64>,
}

impl ScriptRows {
    /// The first of them, if there is one.
    #[must_use]
    pub fn first(mut self) -> Self {
        self.batches.retain(|batch| batch.num_rows() > 0);
        self.batches.truncate(1);
        self.batches.iter_mut().for_each(|batch| *batch = batch.slice(0, 1));
        self
    }
}

/// A transaction that is open. Dropped, it is rolled back.
pub struct OpenBlock<'a> {
    execution: &'a StatementExecution,
    session: &'a Session,
}

impl StatementExecution {
    /// Begins a transaction of a session that has none. Fails with code 25001 if it has.
    pub fn begin<'a>(&'a self, session: &'a Session, isolation: Isolation) -> Result<OpenBlock<'a>> {
        session.begin(isolation)?;
        Ok(OpenBlock { execution: self, session })
    }
}

impl Drop for OpenBlock<'_> {
    fn drop(&mut self) {
        self.session.roll_back();
    }
}

impl OpenBlock<'_> {
    /// Runs statements, one after the other, to their ends. Fails with the error of the first that fails, with code
    /// 54000 if there are more rows than are kept, and with kind `Input` if there is no statement.
    pub async fn run(&self, asker: &Asker, statements: &[ScriptStatement]) -> Result<ScriptDone> {
        let mut rows = None;
        let mut last = None;
        let printed = Printed::default();
        for statement in statements {
            let parsed = self.execution.parse(self.session, statement.sql.clone()).await?;
            let values = statement.values.clone();
            let start = self.execution.start(self.session, asker, &parsed, values, Allowed::Undoable);
            let running = start.await?;
            let (passed, said) = (running.passed().clone(), running.printed());
            let done = if running.is_command() {
                running.finish().await?
            } else {
                let (done, given) = collected(running).await?;
                rows = Some(given);
                done
            };
            said.take().into_iter().for_each(|message| printed.add(message));
            last = Some((done, passed));
        }
        let (last, passed) = last.ok_or_else(|| Error::input("there is no statement").with_code("42601"))?;
        Ok(ScriptDone { rows, last, passed, printed })
    }

    /// Makes the changes everybody's. Fails as [`Session::commit`] does; then nothing of them is there.
    pub async fn commit(self) -> Result<()> {
        self.execution.commit(self.session).await
    }
}

/// Fails with code 54000 if a script gives more bytes than are kept.
pub(crate) fn check_bytes(bytes: usize) -> Result<()> {
    if bytes <= SCRIPT_ROWS_BYTES_MAX {
        return Ok(());
    }
    let error = Error::resource("a transaction in one request gives at most 16 MiB of rows");
    let hint = "end the query with LIMIT, or read the rows in a request of their own";
    Err(error.with_code(sqlstate::LIMIT).with_hint(hint))
}

async fn collected(mut running: RunningStatement) -> Result<(CommandDone, ScriptRows)> {
    let (mut batches, mut bytes) = (Vec::new(), 0);
    while let Some(batch) = running.next().await {
        let batch = batch?;
        bytes += batch.get_array_memory_size();
        check_bytes(bytes)?;
        batches.push(batch);
    }
    let count = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let select = || CommandDone { tag: "SELECT".to_owned(), rows: Some(count) };
    let done = running.written().unwrap_or_else(select);
    Ok((done, ScriptRows { schema: running.schema().clone(), batches, query: running.id() }))
}

/// How often a script has been run.
#[derive(Debug, Default)]
pub struct Attempts {
    repeats: u32,
}

impl Attempts {
    /// Whether a script that failed so is to be run once more; rests before that, so that those that have met do not
    /// meet again.
    pub async fn again(&mut self, error: &Error) -> bool {
        let Some(most) = self.rest_max(error) else { return false };
        let random = crate::scram::random(1).map_or(0, |bytes| bytes.first().copied().unwrap_or_default());
        tokio::time::sleep(most * u32::from(random) / 255).await;
        true
    }

    /// The longest rest before a script that failed so is run once more; `None` if it is not.
    fn rest_max(&mut self, error: &Error) -> Option<Duration> {
        let is_in_the_way = matches!(sqlstate::of(error), sqlstate::SERIALIZATION_FAILURE | sqlstate::DEADLOCK);
        let rest = REST_MAX * 2_u32.pow(self.repeats.min(DOUBLINGS_MAX));
        self.repeats += 1;
        (is_in_the_way && self.repeats <= REPEATS_MAX).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    use super::super::tests::execution;
    use super::*;

    fn script(statements: &[&str]) -> Vec<ScriptStatement> {
        statements.iter().map(|sql| ScriptStatement { sql: (*sql).to_owned(), values: vec![] }).collect()
    }

    fn sum(session: &Session) -> i64 {
        let rows = session.execute("SELECT coalesce(sum(a), 0)::bigint FROM t").unwrap().collect().unwrap();
        rows[0].column(0).as_primitive::<Int64Type>().value(0)
    }

    #[tokio::test]
    async fn a_script_is_there_as_a_whole_or_not_at_all() {
        let (execution, session, asker) = execution(256 << 20, None);
        session.execute("CREATE TABLE t (a BIGINT PRIMARY KEY)").unwrap();
        let other = execution.database().session();
        let good = script(&["INSERT INTO t VALUES (1), (2) RETURNING a", "UPDATE t SET a = a + 10"]);
        let block = execution.begin(&session, Isolation::ReadCommitted).unwrap();
        let done = block.run(&asker, &good).await.unwrap();
        assert_eq!((done.last.tag.as_str(), done.last.rows), ("UPDATE", Some(2)));
        assert_eq!(done.rows.unwrap().batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
        assert_eq!((sum(&session), sum(&other)), (23, 0));
        block.commit().await.unwrap();
        assert_eq!(sum(&other), 23);
        // What fails, and what nobody waits for any more, leaves nothing.
        for bad in [
            ["DELETE FROM t", "INSERT INTO t VALUES (5), (5)"],
            ["DELETE FROM t", "SELECT repeat(i::text, 300) FROM generate_series(1, 100000) AS s(i)"],
            ["DELETE FROM t", "COMMIT"],
            ["DELETE FROM t", "SELECT 1"],
        ] {
            let block = execution.begin(&session, Isolation::ReadCommitted).unwrap();
            assert_eq!(block.run(&asker, &script(&bad)).await.is_ok(), bad[1] == "SELECT 1", "{bad:?}");
            drop(block);
            assert_eq!((sum(&session), sum(&other)), (23, 23), "{bad:?}");
        }
        assert!(execution.begin(&session, Isolation::ReadCommitted).is_ok());
    }

    #[test]
    fn only_what_others_were_in_the_way_of_is_run_again() {
        for (code, times) in [("40001", REPEATS_MAX), ("40P01", REPEATS_MAX), ("23505", 0)] {
            let mut attempts = Attempts::default();
            let error = Error::input("x").with_code(code);
            let rests = (0..100).map_while(|_| attempts.rest_max(&error)).collect::<Vec<_>>();
            assert_eq!(rests.len(), times as usize, "{code}");
            assert!(rests.is_sorted() && rests.iter().all(|rest| *rest <= Duration::from_millis(64)), "{rests:?}");
        }
    }
}
