//! Where statements run: a database in this process, or a server.

use std::task::Poll;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::Error;
use diligence_db::{QueryResult, ResultKind, Session};
use diligence_engine::query::Progress;

use crate::interrupt::Guard;
use crate::progress::StatementProgress;

/// How often progress and interrupts are looked at.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs statements, one at a time.
pub trait Target {
    /// Starts a statement, and waits until its columns are known or it is under way. An interrupt ends the waiting.
    fn begin<'a>(
        &'a self,
        sql: &str,
        interrupt: &Guard<'_>,
        progress: &mut StatementProgress,
    ) -> Result<Box<dyn Running + 'a>, Error>;

    /// Words that a statement may go on with, and those of them that are tables and views.
    fn words(&self) -> (Vec<String>, Vec<String>);

    /// Folders of the data folder that are no tables, and why.
    fn left_out(&self) -> Vec<(String, String)>;
}

/// A statement that runs. Dropped, it is cancelled.
pub trait Running {
    /// The columns; none for a command.
    fn schema(&self) -> SchemaRef;

    /// What it gives. A command's count is known when there are no more batches.
    fn kind(&self) -> Kind;

    /// The next rows, if there are some within the time; pending otherwise.
    fn next_within(&mut self, time: Duration) -> Poll<Option<Result<RecordBatch, Error>>>;

    /// How far it is.
    fn progress(&self) -> Progress;
}

/// What a statement gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rows.
    Rows,
    /// The word that it is done.
    Command {
        /// What was done, as `INSERT`.
        tag: String,
        /// Rows that it concerned.
        rows: Option<u64>,
    },
}

impl Target for Session {
    fn begin<'a>(
        &'a self,
        sql: &str,
        interrupt: &Guard<'_>,
        progress: &mut StatementProgress,
    ) -> Result<Box<dyn Running + 'a>, Error> {
        let beginning = Session::begin(self, sql);
        let result = loop {
            match beginning.wait(LOOK_EVERY) {
                Poll::Ready(begun) => break begun?,
                Poll::Pending if interrupt.interrupted() => return Err(Error::cancelled()),
                Poll::Pending => progress.show_planning(),
            }
        };
        let token = result.cancel_token();
        interrupt.cancels(move || token.cancel());
        Ok(Box::new(result))
    }

    fn words(&self) -> (Vec<String>, Vec<String>) {
        (self.completions(), self.relation_names())
    }

    fn left_out(&self) -> Vec<(String, String)> {
        self.database().left_out()
    }
}

impl Running for QueryResult {
    fn schema(&self) -> SchemaRef {
        QueryResult::schema(self)
    }

    fn kind(&self) -> Kind {
        match QueryResult::kind(self) {
            ResultKind::Rows => Kind::Rows,
            ResultKind::Command { tag, rows } => Kind::Command { tag: tag.to_owned(), rows },
        }
    }

    fn next_within(&mut self, time: Duration) -> Poll<Option<Result<RecordBatch, Error>>> {
        QueryResult::next_within(self, time)
    }

    fn progress(&self) -> Progress {
        QueryResult::progress(self)
    }
}
