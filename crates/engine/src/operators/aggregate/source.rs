//! Finished groups as batches. Packets take the next piece of any partition; nobody waits for anybody, unless groups are in temp space:
//! then packets take pieces of that work, too, and whoever has merged a partition gives its groups.

use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::{ArrayRef, RecordBatch};
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};

use super::key_encoding::into_type;
use super::sink::{Finished, FinishedGroups, Shared};
use super::spill::board::{Board, Job};
use super::spill::merge::{Gather, Merge, Merged};
use super::spill::outgoing::Outgoing;
use super::spill::resolve::Resolve;
use crate::batch::Batch;
use crate::pipeline::{Pull, Setup, Source, SourceState};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Batches that a packet should have at least, to be worth starting.
const BATCHES_PER_PACKET: usize = 4;

/// Reads the groups of an aggregate.
pub(super) struct AggregateSource {
    shared: Arc<Shared>,
    progress: Arc<Progress>,
}

/// How far all packets together are.
#[derive(Default)]
struct Progress {
    /// The next piece of the parts that are there.
    piece: AtomicUsize,
    /// Groups out of temp space that have been given.
    merged: AtomicUsize,
}

impl AggregateSource {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, progress: Arc::default() }
    }
}

impl Source for AggregateSource {
    fn name(&self) -> &'static str {
        "Groups"
    }

    fn packets_max(&self) -> usize {
        let Ok(finished) = self.shared.finished() else { return 1 };
        let there = finished.groups().div_ceil(BATCH_ROWS_MAX * BATCHES_PER_PACKET).max(1);
        finished.board.as_ref().map_or(there, |board| there.max(board.spill.packets))
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn SourceState>> {
        let finished = self.shared.finished()?;
        // The pieces of each part, numbered through.
        let batch_rows = setup.batch_rows.max(1);
        let mut starts = vec![0];
        let mut pieces = 0;
        for part in &finished.parts {
            pieces += part.groups.div_ceil(batch_rows);
            starts.push(pieces);
        }
        let (shared, progress) = (self.shared.clone(), self.progress.clone());
        Ok(Box::new(GroupReader { shared, progress, starts, batch_rows, work: Work::None }))
    }
}

/// One packet's view.
struct GroupReader {
    shared: Arc<Shared>,
    progress: Arc<Progress>,
    starts: Vec<usize>,
    batch_rows: usize,
    work: Work,
}

/// What a packet does with what is left.
enum Work {
    None,
    Write(Box<Outgoing>),
    Gather(Box<Gather>),
    Merge(Box<Merge>),
    Resolve(Box<Resolve>),
    /// Gives groups, from this one on.
    Give(Box<FinishedGroups>, usize),
}

impl Finished {
    /// Groups in the parts that are there.
    fn groups(&self) -> usize {
        self.parts.iter().map(|part| part.groups).sum()
    }
}

impl SourceState for GroupReader {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        let shared = self.shared.clone();
        let finished = shared.finished()?;
        if let Some(batch) = self.next_piece(finished)? {
            return Ok(Pull::Batch(batch));
        }
        match &finished.board {
            Some(board) => self.work(finished, board, waker),
            None => Ok(Pull::Done),
        }
    }
}

impl Drop for GroupReader {
    /// Whoever wants no more rows leaves its work undone. Those that wait for it must hear of that, to end as well.
    fn drop(&mut self) {
        if !matches!(self.work, Work::None) {
            self.work = Work::None;
            if let Ok(Finished { board: Some(board), .. }) = self.shared.finished() {
                board.done(Vec::new());
            }
        }
    }
}

impl GroupReader {
    /// The next piece of the parts that are there.
    fn next_piece(&mut self, finished: &Finished) -> Result<Option<Batch>> {
        let pieces = self.starts.last().copied().unwrap_or(0);
        if self.progress.piece.load(Ordering::Relaxed) >= pieces {
            return Ok(None);
        }
        let piece = self.progress.piece.fetch_add(1, Ordering::Relaxed);
        let number = self.starts.partition_point(|&start| start <= piece) - 1;
        let Some(part) = finished.parts.get(number) else { return Ok(None) };
        let first = (piece - self.starts[number]) * self.batch_rows;
        let all = self.batch_rows.min(part.groups - first);
        let mut rows = all;
        if let Some(limit) = self.shared.program.limit {
            let before = finished.parts[..number].iter().map(|part| part.groups).sum::<usize>() + first;
            rows = rows.min(limit.saturating_sub(before));
            if rows == 0 {
                return Ok(None);
            }
        }
        let groups = part.get()?;
        let batch = self.read(&groups, first, rows)?;
        drop(groups);
        part.done(all);
        Ok(Some(batch))
    }

    /// Some of the work that is left.
    fn work(&mut self, finished: &Finished, board: &Board, waker: &Waker) -> Result<Pull> {
        if matches!(self.work, Work::None) && self.has_enough(finished) {
            return Ok(Pull::Done);
        }
        match &mut self.work {
            Work::None => match board.poll_take(waker) {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(None) => return Ok(Pull::Done),
                Poll::Ready(Some(Job::Write(outgoing))) => self.work = Work::Write(outgoing),
                Poll::Ready(Some(Job::Merge(resident))) => {
                    self.work = Work::Gather(Box::new(Gather::new(&board.spill, resident)?));
                }
                Poll::Ready(Some(Job::Read(partition))) => {
                    self.work = Work::Merge(Box::new(Merge::new(&board.spill, partition)?));
                }
            },
            Work::Write(outgoing) => match outgoing.poll(waker)? {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(()) => self.done(board),
            },
            Work::Resolve(resolve) => match resolve.poll(waker)? {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(()) => self.done(board),
            },
            Work::Gather(gather) => match gather.poll(board, waker)? {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(merged) => self.merged(merged, board),
            },
            Work::Merge(merge) => match merge.poll(waker)? {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(merged) => self.merged(merged, board),
            },
            Work::Give(..) => return self.give(finished, board),
        }
        Ok(Pull::Again)
    }

    /// Goes on with what became of a partition.
    fn merged(&mut self, merged: Merged, board: &Board) {
        match merged {
            Merged::Again => {}
            Merged::Parts(parts) => {
                self.work = Work::None;
                board.done(parts);
            }
            Merged::Groups(groups) => self.work = Work::Give(groups, 0),
            Merged::Pairs(resolve) => self.work = Work::Resolve(resolve),
        }
    }

    /// Whether a limit has been reached.
    fn has_enough(&self, finished: &Finished) -> bool {
        let given = finished.groups() + self.progress.merged.load(Ordering::Relaxed);
        self.shared.program.limit.is_some_and(|limit| given >= limit)
    }

    /// The work is done; what it held goes first.
    fn done(&mut self, board: &Board) {
        self.work = Work::None;
        board.done(Vec::new());
    }

    fn give(&mut self, finished: &Finished, board: &Board) -> Result<Pull> {
        let Work::Give(groups, first) = &self.work else { return Ok(Pull::Again) };
        let mut rows = self.batch_rows.min(groups.groups - first);
        if let Some(limit) = self.shared.program.limit {
            let before = finished.groups() + self.progress.merged.fetch_add(rows, Ordering::Relaxed);
            rows = rows.min(limit.saturating_sub(before));
            if rows == 0 {
                self.done(board);
                return Ok(Pull::Again);
            }
        }
        if rows == 0 {
            self.done(board);
            return Ok(Pull::Again);
        }
        let batch = self.read(groups, *first, rows)?;
        if let Work::Give(_, first) = &mut self.work {
            *first += rows;
        }
        Ok(Pull::Batch(batch))
    }

    fn read(&self, groups: &FinishedGroups, first: usize, rows: usize) -> Result<Batch> {
        let program = &self.shared.program;
        let mut columns: Vec<ArrayRef> = match program.grouped {
            true => groups.keys.columns(&program.layout, first, rows)?,
            false => Vec::new(),
        };
        for output in &program.outputs {
            let field = program.output_schema.field(columns.len());
            columns.push(into_type(output.read(&groups.states, first..first + rows)?, field.data_type())?);
        }
        debug_assert!(fits(&columns, program), "an aggregate gave other types than planned");
        Ok(Batch::from_arrays(columns, rows))
    }
}

fn fits(columns: &[ArrayRef], program: &super::program::Program) -> bool {
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(columns.first().map_or(0, |c| c.len())));
    RecordBatch::try_new_with_options(program.output_schema.clone(), columns.to_vec(), &options)
        .map_err(|error| Error::bug(error.to_string()))
        .is_ok()
}
