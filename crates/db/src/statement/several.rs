//! Several: a statement whose WITH writes is several, which run one after the other and are one to everybody else.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use diligence_base::{Error, Result};
use diligence_catalog::StatementBlock;
use diligence_engine::query::QueryStream;
use diligence_sql::{Part, Returned, Several};
use tokio::task::JoinHandle;

use super::done::count_of;
use crate::session::Session;

/// A run of a statement that is several. Dropped, nothing of it is left.
pub(crate) struct SeveralRun {
    session: Session,
    block: Arc<StatementBlock>,
    text: String,
    /// The one that runs.
    part: Part,
    stream: QueryStream,
    returned: Option<Arc<Returned>>,
    /// Its rows so far.
    rows: Vec<RecordBatch>,
    /// How many it has written.
    count: u64,
    /// Those behind it.
    rest: VecDeque<Part>,
}

/// How a run ends.
pub(crate) struct SeveralEnd {
    /// The rows that the statement gives.
    pub(crate) rows: Vec<RecordBatch>,
    /// How many it has written.
    pub(crate) count: Option<u64>,
}

impl SeveralRun {
    /// Starts the first one. Fails with kind `Resource` if there is no memory to start with.
    pub(super) fn start(session: &Session, several: Several, block: Arc<StatementBlock>, text: &str) -> Result<Self> {
        let mut rest = VecDeque::from(several.before);
        rest.push_back(several.last);
        let part = rest.pop_front().ok_or_else(|| Error::bug("a statement has no parts"))?;
        let (stream, returned) = begun(session, &part, &block, text)?;
        let (session, text, rows) = (session.clone(), text.to_owned(), vec![]);
        Ok(Self { session, block, text, part, stream, returned, rows, count: 0, rest })
    }

    /// The query of the one that runs.
    pub(crate) fn stream(&self) -> &QueryStream {
        &self.stream
    }

    /// The same, to be read.
    pub(crate) fn stream_mut(&mut self) -> &mut QueryStream {
        &mut self.stream
    }

    /// A batch came of it.
    pub(crate) fn took(&mut self, batch: RecordBatch) {
        match self.part.is_writing() {
            true => self.count += count_of(&batch),
            false => self.rows.push(batch),
        }
    }

    /// The one that runs has ended: whether another one runs now. Fails as starting it does.
    pub(crate) fn goes_on(&mut self) -> Result<bool> {
        if let Some(returned) = self.returned.take() {
            self.rows = returned.take();
        }
        let Some(next) = self.rest.pop_front() else { return Ok(false) };
        self.part.gave(std::mem::take(&mut self.rows))?;
        let session = self.session.clone();
        (self.stream, self.returned) = session.in_runtime(|| begun(&session, &next, &self.block, &self.text))?;
        (self.part, self.count) = (next, 0);
        Ok(true)
    }

    /// All have ended.
    pub(crate) fn end(self) -> SeveralEnd {
        let count = self.part.is_writing().then_some(self.count);
        SeveralEnd { rows: self.rows, count }
    }

    /// Ends its block: at once, or on a thread that may wait for a disk.
    pub(crate) fn commit(&self, may_block: bool) -> Committing {
        let block = self.block.clone();
        if may_block || block.commits_at_once() {
            return Committing::Done(block.commit());
        }
        Committing::Under(self.session.database().engine().io_handle().spawn_blocking(move || block.commit()))
    }
}

/// A commit.
pub(crate) enum Committing {
    /// It has ended so.
    Done(Result<()>),
    /// It is under way.
    Under(JoinHandle<Result<()>>),
}

fn begun(
    session: &Session,
    part: &Part,
    block: &StatementBlock,
    text: &str,
) -> Result<(QueryStream, Option<Arc<Returned>>)> {
    let (query, returned) = part.begin(block.catalog(), session.planner().catalogs().owner());
    Ok((session.run_query(&query, session.query_options(text))?, returned))
}
