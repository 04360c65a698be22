//! The target of statements: a database in this process, or a server.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::Error;
use diligence_db::{Progress, QueryResult, ResultKind, Session, sqlstate};
use diligence_server::{ProcessCopy, ProcessFileCopy, is_idle_setting};

use crate::failure::complain;
use crate::interrupt::InterruptGuard;
use crate::output::printable_lines;
use crate::progress::StatementProgress;

/// The interval at which progress and interrupts are checked.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// PostgreSQL's `undefined_object`: of settings, among others.
const UNKNOWN_SETTING: &str = "42704";

/// Runs statements, one at a time.
pub trait Target {
    /// Starts a statement, and waits until its columns are known or it has started. Fails with the error of the
    /// statement, or with kind `Cancelled` after an interrupt.
    fn begin<'a>(
        &'a self,
        sql: &str,
        interrupt: &InterruptGuard<'_>,
        progress: &mut StatementProgress,
    ) -> Result<Box<dyn RunningStatement + 'a>, Error>;

    /// Whether rows of COPY … FROM STDIN and TO STDOUT go over a connection, as [`copy`](Self::copy) has them.
    fn copies(&self) -> bool {
        false
    }

    /// Runs a COPY … FROM STDIN or TO STDOUT to its end. Fails as the statement does, and if the stream fails.
    fn copy(&self, sql: &str, stream: CopyStream<'_>, interrupt: &InterruptGuard<'_>)
    -> Result<StatementResult, Error>;

    /// Runs a COPY with a file in a format that COPY … FROM STDIN has; `None` of other statements, and if the target
    /// does that itself.
    fn copy_file(&self, _sql: &str, _interrupt: &InterruptGuard<'_>) -> Option<Result<StatementResult, Error>> {
        None
    }

    /// Names for completion.
    fn words(&self) -> KnownWords;

    /// Whether the columns of results have the types that they have in SQL.
    fn knows_types(&self) -> bool;

    /// Directories in the data directory that cannot be read as tables, and why.
    fn left_out(&self) -> Vec<(String, String)>;

    /// Makes tables of what has come into the data directory, and takes those away that have gone. Gives whether any
    /// has come.
    fn look_at_data(&self) -> bool {
        false
    }
}

/// What is at this end of a COPY.
pub enum CopyStream<'a> {
    /// The rows to send, as COPY … FROM STDIN reads them.
    From(&'a mut dyn Read),
    /// Where the rows go, as COPY … TO STDOUT writes them.
    To(&'a mut dyn Write),
}

/// Names that a statement may use.
#[derive(Clone, Debug, Default)]
pub struct KnownWords {
    /// All of them: keywords (in capitals), tables, columns, functions and settings.
    pub words: Vec<String>,
    /// The tables and views.
    pub relations: Vec<String>,
    /// The columns of each table and view that can be read.
    pub columns: BTreeMap<String, Vec<String>>,
}

/// A running statement. Dropping it cancels the statement.
pub trait RunningStatement {
    /// The columns; empty for a command.
    fn schema(&self) -> SchemaRef;

    /// The kind of result. The row count of a command is known once there are no more batches.
    fn kind(&self) -> StatementResult;

    /// The next rows, or `Pending` if there are none within the time.
    fn next_within(&mut self, time: Duration) -> Poll<Option<Result<RecordBatch, Error>>>;

    /// The progress so far.
    fn progress(&self) -> Progress;
}

/// The kind of result of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementResult {
    /// Rows.
    Rows,
    /// No rows, only the report that the command is done.
    Command {
        /// The command tag, such as `INSERT`.
        tag: String,
        /// The number of affected rows, if the command has one.
        rows: Option<u64>,
    },
}

impl Target for Session {
    fn begin<'a>(
        &'a self,
        sql: &str,
        interrupt: &InterruptGuard<'_>,
        progress: &mut StatementProgress,
    ) -> Result<Box<dyn RunningStatement + 'a>, Error> {
        let pending = self.start_pending(sql);
        let result = loop {
            match pending.wait(LOOK_EVERY) {
                // Scripts for PostgreSQL begin with settings that mean nothing here.
                Poll::Ready(Err(error)) if sqlstate(&error) == UNKNOWN_SETTING && is_idle_setting(sql) => {
                    return Ok(Box::new(Idle));
                }
                Poll::Ready(started) => break started?,
                Poll::Pending if interrupt.interrupted() => return Err(Error::cancelled()),
                Poll::Pending => progress.show_planning(),
            }
        };
        let token = result.cancel_token();
        interrupt.cancels(move || token.cancel());
        Ok(Box::new(OwnRunning { result, session: self }))
    }

    fn copy(
        &self,
        sql: &str,
        stream: CopyStream<'_>,
        interrupt: &InterruptGuard<'_>,
    ) -> Result<StatementResult, Error> {
        let Some(copy) = ProcessCopy::of(sql)? else {
            return Err(Error::input("this is no COPY … FROM STDIN or TO STDOUT").with_code("42601"));
        };
        let is_stopped = || interrupt.interrupted();
        let rows = match stream {
            CopyStream::From(input) => {
                let mut tell = |note: &str| complain(format!("notice: {}", printable_lines(note)));
                copy.read(self, input, &is_stopped, &mut tell)?
            }
            CopyStream::To(output) => copy.write(self, output, &is_stopped)?,
        };
        Ok(StatementResult::Command { tag: "COPY".to_owned(), rows: Some(rows) })
    }

    fn copy_file(&self, sql: &str, interrupt: &InterruptGuard<'_>) -> Option<Result<StatementResult, Error>> {
        // What cannot be read fails as a statement of its own.
        let copy = ProcessFileCopy::of(sql).ok().flatten()?;
        let mut tell = |note: &str| complain(format!("notice: {}", printable_lines(note)));
        let rows = copy.run(self, &|| interrupt.interrupted(), &mut tell);
        Some(rows.map(|rows| StatementResult::Command { tag: "COPY".to_owned(), rows: Some(rows) }))
    }

    fn words(&self) -> KnownWords {
        let columns = self.database().tables().into_iter().filter_map(|table| {
            let fields = table.schema.ok()?;
            Some((table.name, fields.fields().iter().map(|field| field.name().clone()).collect()))
        });
        KnownWords { words: self.completions(), relations: self.relation_names(), columns: columns.collect() }
    }

    fn knows_types(&self) -> bool {
        true
    }

    fn left_out(&self) -> Vec<(String, String)> {
        self.database().left_out()
    }

    fn look_at_data(&self) -> bool {
        // If it cannot be listed, its tables stay.
        self.database().look_at_data().is_ok_and(|changes| !changes.appeared.is_empty())
    }
}

/// A statement that has nothing to do.
struct Idle;

impl RunningStatement for Idle {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::empty())
    }

    fn kind(&self) -> StatementResult {
        StatementResult::Command { tag: "SET".to_owned(), rows: None }
    }

    fn next_within(&mut self, _time: Duration) -> Poll<Option<Result<RecordBatch, Error>>> {
        Poll::Ready(None)
    }

    fn progress(&self) -> Progress {
        Progress::default()
    }
}

/// A statement that is running in this process.
struct OwnRunning<'a> {
    result: QueryResult,
    session: &'a Session,
}

impl RunningStatement for OwnRunning<'_> {
    fn schema(&self) -> SchemaRef {
        self.result.schema()
    }

    fn kind(&self) -> StatementResult {
        match self.result.kind() {
            ResultKind::Rows => StatementResult::Rows,
            ResultKind::Command { tag, rows } => StatementResult::Command { tag: tag.to_owned(), rows },
        }
    }

    fn next_within(&mut self, time: Duration) -> Poll<Option<Result<RecordBatch, Error>>> {
        let next = self.result.next_within(time);
        if next.is_ready() {
            // What functions print is no part of the result.
            let printed = self.result.printed().take();
            printed.iter().for_each(|message| {
                let level = message.level.to_string().to_lowercase();
                complain(format!("{level}: {}", printable_lines(message.text())));
            });
        }
        next.map(|next| next.map(|rows| rows.and_then(|rows| self.session.shown(rows))))
    }

    fn progress(&self) -> Progress {
        self.result.progress()
    }
}
