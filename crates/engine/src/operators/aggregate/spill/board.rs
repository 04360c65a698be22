//! The work that is left when the input of a spilled aggregate has ended, dealt out to packets.
//!
//! ```text
//!   Memory ---------------------------------> Pairs ------------------> Groups -------------------> Done
//!   what of spilled pieces is in memory is    partitions of pairs       partitions of groups
//!   written, pieces that stayed are merged
//! ```
//! A piece that stayed and is waiting gives its memory up for whoever needs it: then it is written as well.
//!
//! Each phase begins when all work of the one before is done. Parts of a partition that was split come before
//! everything else, so that temp space is free again soon.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::super::group_table::Chunk;
use super::Spill;
use super::files::Partition;
use super::outgoing::Outgoing;
use crate::sync::Mutex;

/// A piece of work.
pub(in super::super) enum Job {
    /// To be written.
    Write(Box<Outgoing>),
    /// To be merged, out of memory.
    Merge(Resident),
    /// To be merged, out of temp space.
    Read(Partition),
}

/// The groups of a piece of which nothing has spilled.
#[derive(Default)]
pub(in super::super) struct Resident {
    pub chunks: Vec<Chunk>,
    /// The partitions that have not been merged yet.
    pub counting: Vec<Range<usize>>,
}

impl Resident {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(Chunk::bytes).sum()
    }

    /// The same groups, to be written.
    pub fn outgoing(self, spill: &Arc<Spill>) -> impl Iterator<Item = Outgoing> {
        let Self { chunks, counting } = self;
        chunks.into_iter().map(move |chunk| Outgoing::of_chunk(spill, chunk, &counting))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BoardPhase {
    Memory,
    Pairs,
    Groups,
}

struct BoardState {
    phase: BoardPhase,
    writes: VecDeque<Outgoing>,
    residents: VecDeque<Resident>,
    partitions: VecDeque<Partition>,
    /// Jobs that somebody is working on.
    active: usize,
    waiting: Vec<Waker>,
}

/// See the module.
pub(in super::super) struct Board {
    pub spill: Arc<Spill>,
    state: Mutex<BoardState>,
}

impl Board {
    /// The work that begins with writing `writes` and merging `residents`. Both are at rest until somebody takes them.
    pub fn new(spill: &Arc<Spill>, mut writes: VecDeque<Outgoing>, residents: VecDeque<Resident>) -> Self {
        writes.iter_mut().for_each(Outgoing::rest);
        let (partitions, waiting) = (VecDeque::new(), Vec::new());
        let state = BoardState { phase: BoardPhase::Memory, writes, residents, partitions, active: 0, waiting };
        Self { spill: spill.clone(), state: Mutex::new(state) }
    }

    /// Bytes of what is to be written, and of pieces that stayed, as far as nobody works on them.
    pub fn resident_bytes(&self) -> usize {
        let state = self.state.lock();
        let writes = state.writes.iter().map(Outgoing::held_bytes).sum::<usize>();
        writes + state.residents.iter().map(Resident::bytes).sum::<usize>()
    }

    /// Takes the largest piece that nobody works on, to be written by somebody who has a job.
    pub fn evict(&self) -> VecDeque<Outgoing> {
        self.evict_of(&mut self.state.lock())
    }

    /// The same for somebody who has none: if there is anything, writing it is one, until that is [`done`](Self::done).
    /// What is to be written anyway comes first.
    pub fn evict_at_rest(&self) -> VecDeque<Outgoing> {
        let mut state = self.state.lock();
        let outgoing = match state.writes.pop_front() {
            Some(outgoing) => VecDeque::from([outgoing]),
            None => self.evict_of(&mut state),
        };
        state.active += usize::from(!outgoing.is_empty());
        outgoing
    }

    fn evict_of(&self, state: &mut BoardState) -> VecDeque<Outgoing> {
        let largest = state.residents.iter().enumerate().max_by_key(|(_, resident)| resident.bytes());
        let Some((index, _)) = largest else { return VecDeque::new() };
        let resident = state.residents.remove(index);
        resident.into_iter().flat_map(|resident| resident.outgoing(&self.spill)).collect()
    }

    /// The next piece of work, `None` if there will be none. After `Pending` the waker is woken when it is worth asking
    /// again. Whoever has taken a job says when it is [`done`](Self::done).
    pub fn poll_take(&self, waker: &Waker) -> Poll<Option<Job>> {
        let mut state = self.state.lock();
        loop {
            let job = if let Some(mut outgoing) = state.writes.pop_front() {
                outgoing.hold_firm();
                Some(Job::Write(Box::new(outgoing)))
            } else if let Some(resident) = state.residents.pop_front() {
                Some(Job::Merge(resident))
            } else {
                state.partitions.pop_front().map(Job::Read)
            };
            if job.is_some() {
                state.active += 1;
                return Poll::Ready(job);
            }
            if state.active > 0 {
                state.waiting.push(waker.clone());
                return Poll::Pending;
            }
            let (phase, files) = match state.phase {
                BoardPhase::Memory => (BoardPhase::Pairs, &self.spill.pairs),
                BoardPhase::Pairs => (BoardPhase::Groups, &self.spill.groups),
                BoardPhase::Groups => return Poll::Ready(None),
            };
            state.phase = phase;
            // The others wait until the files are there; no lock is held while their last clusters are written.
            state.active += 1;
            drop(state);
            self.done(files.finish().into_iter().map(|file| Partition::of(files, file)).collect());
            state = self.state.lock();
        }
    }

    /// A job is done, and has left these parts.
    pub fn done(&self, parts: Vec<Partition>) {
        let waiting = {
            let mut state = self.state.lock();
            state.active -= 1;
            parts.into_iter().rev().for_each(|part| state.partitions.push_front(part));
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}
