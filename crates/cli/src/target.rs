//! The target of statements: a database in this process, or a server.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::task::Poll;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::Error;
use diligence_db::{Progress, QueryResult, ResultKind, Session};

use crate::failure::complain;
use crate::interrupt::InterruptGuard;
use crate::output::printable;
use crate::progress::StatementProgress;

/// The interval at which progress and interrupts are checked.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

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

    /// Runs a COPY … FROM STDIN or TO STDOUT to its end. Fails as the statement does, if the stream fails, and with
    /// kind `Unsupported` if the target does not copy.
    fn copy(
        &self,
        _sql: &str,
        _stream: CopyStream<'_>,
        _interrupt: &InterruptGuard<'_>,
    ) -> Result<StatementResult, Error> {
        Err(Error::unsupported("COPY with the rows of a client needs a server"))
    }

    /// Names for completion.
    fn words(&self) -> KnownWords;

    /// Whether the columns of results have the types that they have in SQL.
    fn knows_types(&self) -> bool;

    /// Directories in the data directory that cannot be read as tables, and why.
    fn left_out(&self) -> Vec<(String, String)>;
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
                Poll::Ready(started) => break started?,
                Poll::Pending if interrupt.interrupted() => return Err(Error::cancelled()),
                Poll::Pending => progress.show_planning(),
            }
        };
        let token = result.cancel_token();
        interrupt.cancels(move || token.cancel());
        Ok(Box::new(OwnRunning { result, session: self }))
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
                complain(format!("{level}: {}", printable(message.text().trim_end())));
            });
        }
        next.map(|next| next.map(|rows| rows.and_then(|rows| self.session.shown(rows))))
    }

    fn progress(&self) -> Progress {
        self.result.progress()
    }
}
