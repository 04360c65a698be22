//! Finished groups as batches. Packets take the next piece of any partition; nobody waits for anybody, unless groups
//! are in temp space: then packets take pieces of that work, too, and whoever has merged a partition gives its groups.

use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};

use super::finished::{FinishedGroups, Piece};
use super::shared::{Finished, SharedAggregate};
use super::spill::board::{Board, Job};
use super::spill::merge::{Gather, Merge, Merged};
use super::spill::outgoing::Outgoing;
use super::spill::resolve::Resolve;
use crate::flow::{Pull, QueryContext, Source, SourceState};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::temp::BatchReader;

/// Batches that a packet should have at least, to be worth starting.
const BATCHES_PER_PACKET: usize = 4;

/// Reads the groups of an aggregate.
pub(super) struct AggregateSource {
    shared: Arc<SharedAggregate>,
    progress: Arc<SourceProgress>,
}

/// How far all packets together are.
#[derive(Default)]
struct SourceProgress {
    /// Groups that have been given, where there is a limit.
    given: AtomicUsize,
    /// Packets that have not ended.
    packets: AtomicUsize,
}

impl AggregateSource {
    pub fn new(shared: Arc<SharedAggregate>) -> Self {
        Self { shared, progress: Arc::default() }
    }
}

impl Source for AggregateSource {
    fn name(&self) -> &'static str {
        "Groups"
    }

    fn packets_max(&self) -> usize {
        let Ok(finished) = self.shared.finished() else { return 1 };
        let there = finished.parts.groups.div_ceil(BATCH_ROWS_MAX * BATCHES_PER_PACKET).max(1);
        finished.board.as_ref().map_or(there, |board| there.max(board.spill.packets))
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        let (shared, progress) = (self.shared.clone(), self.progress.clone());
        shared.begin_reading(context)?;
        progress.packets.fetch_add(1, Ordering::AcqRel);
        Ok(Box::new(GroupReader { shared, progress, context: context.clone(), work: SourceWork::None }))
    }
}

/// One packet's view.
struct GroupReader {
    shared: Arc<SharedAggregate>,
    progress: Arc<SourceProgress>,
    context: QueryContext,
    work: SourceWork,
}

/// What a packet does with what is left.
enum SourceWork {
    None,
    Write(Box<Outgoing>),
    Gather(Box<Gather>),
    Merge(Box<Merge>),
    Resolve(Box<Resolve>),
    /// Gives groups, from this one on.
    Give(Box<FinishedGroups>, usize),
    /// Gives rows that were written when they were finished.
    Read(Box<BatchReader>),
}

impl SourceState for GroupReader {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        let shared = self.shared.clone();
        let finished = shared.finished()?;
        if let SourceWork::Read(reader) = &mut self.work {
            return match reader.poll_next(waker) {
                Poll::Pending => Ok(Pull::Wait),
                Poll::Ready(Some(batch)) => {
                    let batch = batch?;
                    let rows = self.wanted(batch.rows());
                    Ok(if rows > 0 { Pull::Batch(batch.slice(0, rows)) } else { Pull::Done })
                }
                Poll::Ready(None) => {
                    self.work = SourceWork::None;
                    Ok(Pull::Again)
                }
            };
        }
        if matches!(self.work, SourceWork::None) {
            if self.has_enough() {
                return Ok(Pull::Done);
            }
            match finished.parts.poll_take(&self.context, waker) {
                Poll::Pending => return self.wait(waker),
                Poll::Ready(Some(Piece::Groups { of, first, rows })) => {
                    let rows = self.wanted(rows);
                    return Ok(match rows {
                        0 => Pull::Done,
                        _ => Pull::Batch(of.read(&shared.program, first, rows)?),
                    });
                }
                Poll::Ready(Some(Piece::File(file))) => {
                    let temp =
                        self.context.temp.as_ref().ok_or_else(|| Error::bug("groups in temp space without one"))?;
                    let reader = file.into_reader(shared.retired.get(&self.context, temp)?);
                    self.work = SourceWork::Read(Box::new(reader));
                    return Ok(Pull::Again);
                }
                Poll::Ready(None) => {}
            }
        }
        match &finished.board {
            Some(board) => self.work(board, waker),
            None => Ok(Pull::Done),
        }
    }
}

impl Drop for GroupReader {
    /// Whoever wants no more rows leaves its work undone. Those that wait for it must hear of that, to end as well.
    fn drop(&mut self) {
        let work = std::mem::replace(&mut self.work, SourceWork::None);
        let has_job = !matches!(work, SourceWork::None | SourceWork::Read(_));
        drop(work);
        if has_job && let Ok(Finished { board: Some(board), .. }) = self.shared.finished() {
            board.done(Vec::new());
        }
        if self.progress.packets.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.end_reading();
        }
    }
}

impl GroupReader {
    /// Some of the work that is left.
    fn work(&mut self, board: &Board, waker: &Waker) -> Result<Pull> {
        match &mut self.work {
            SourceWork::None => match board.poll_take(waker) {
                Poll::Pending => return self.wait(waker),
                Poll::Ready(None) => return Ok(Pull::Done),
                Poll::Ready(Some(Job::Write(outgoing))) => self.work = SourceWork::Write(outgoing),
                Poll::Ready(Some(Job::Merge(resident))) => {
                    self.work = SourceWork::Gather(Box::new(Gather::new(&board.spill, resident)?));
                }
                Poll::Ready(Some(Job::Read(partition))) => {
                    self.work = SourceWork::Merge(Box::new(Merge::new(&board.spill, partition)?));
                }
            },
            SourceWork::Write(outgoing) => match outgoing.poll(waker)? {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(()) => self.done(board),
            },
            SourceWork::Resolve(resolve) => match resolve.poll(waker)? {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(()) => self.done(board),
            },
            SourceWork::Gather(gather) => match gather.poll(board, waker)? {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(merged) => self.merged(merged, board),
            },
            SourceWork::Merge(merge) => match merge.poll(board, waker)? {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(merged) => self.merged(merged, board),
            },
            SourceWork::Give(..) => return self.give(board),
            SourceWork::Read(_) => {}
        }
        Ok(Pull::Again)
    }

    /// Goes on with what became of a partition.
    fn merged(&mut self, merged: Merged, board: &Board) {
        match merged {
            Merged::Again => {}
            Merged::Parts(parts) => {
                self.work = SourceWork::None;
                board.done(parts);
            }
            Merged::Groups(groups) => self.work = SourceWork::Give(groups, 0),
            Merged::Pairs(resolve) => self.work = SourceWork::Resolve(resolve),
        }
    }

    /// Others have what this packet waits for, or it is on its way to temp space.
    fn wait(&self, waker: &Waker) -> Result<Pull> {
        match self.shared.poll_reclaimed(waker)? {
            Poll::Pending => Ok(Pull::Wait),
            Poll::Ready(()) => Ok(Pull::Again),
        }
    }

    /// Whether a limit has been reached.
    fn has_enough(&self) -> bool {
        self.shared.program.limit.is_some_and(|limit| self.progress.given.load(Ordering::Relaxed) >= limit)
    }

    /// How many of so many rows are to be given: all, unless a limit is reached.
    fn wanted(&self, rows: usize) -> usize {
        match self.shared.program.limit {
            Some(limit) => rows.min(limit.saturating_sub(self.progress.given.fetch_add(rows, Ordering::Relaxed))),
            None => rows,
        }
    }

    /// The work is done; what it held goes first.
    fn done(&mut self, board: &Board) {
        self.work = SourceWork::None;
        board.done(Vec::new());
    }

    fn give(&mut self, board: &Board) -> Result<Pull> {
        let SourceWork::Give(groups, first) = &self.work else { return Ok(Pull::Again) };
        let rows = self.wanted(groups.batch_rows(&self.context).min(groups.groups - first));
        if rows == 0 {
            self.done(board);
            return Ok(Pull::Again);
        }
        let batch = groups.read(&self.shared.program, *first, rows)?;
        if let SourceWork::Give(_, first) = &mut self.work {
            *first += rows;
        }
        Ok(Pull::Batch(batch))
    }
}
