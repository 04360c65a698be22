//! The work that is left when the input of a spilled aggregate has ended, dealt out to packets.
//!
//! ```text
//!   Writing ------------> Pairs ------------------> Groups -------------------> Done
//!   what is in memory     partitions of pairs       partitions of groups
//! ```
//! Each phase begins when all work of the one before is done. Parts of a partition that was split come before everything else, so that
//! temp space is free again soon.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::Spill;
use super::merge::Partition;
use super::outgoing::Outgoing;
use crate::sync::Mutex;

/// A piece of work.
pub(in super::super) enum Job {
    /// To be written.
    Write(Box<Outgoing>),
    /// To be merged.
    Merge(Partition),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Writing,
    Pairs,
    Groups,
}

struct State {
    phase: Phase,
    jobs: VecDeque<Job>,
    /// Jobs that somebody is working on.
    active: usize,
    waiting: Vec<Waker>,
}

/// See the module.
pub(in super::super) struct Board {
    pub spill: Arc<Spill>,
    state: Mutex<State>,
}

impl Board {
    /// The work that begins with writing `rest`.
    pub fn new(spill: &Arc<Spill>, rest: VecDeque<Outgoing>) -> Self {
        let jobs = rest.into_iter().map(|outgoing| Job::Write(Box::new(outgoing))).collect();
        let state = State { phase: Phase::Writing, jobs, active: 0, waiting: Vec::new() };
        Self { spill: spill.clone(), state: Mutex::new(state) }
    }

    /// The next piece of work, `None` if there will be none. After `Pending` the waker is woken when it is worth asking again. Whoever
    /// has taken a job says when it is [`done`](Self::done).
    pub fn poll_take(&self, waker: &Waker) -> Poll<Option<Job>> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.active += 1;
                return Poll::Ready(Some(job));
            }
            if state.active > 0 {
                state.waiting.push(waker.clone());
                return Poll::Pending;
            }
            let (phase, files) = match state.phase {
                Phase::Writing => (Phase::Pairs, &self.spill.pairs),
                Phase::Pairs => (Phase::Groups, &self.spill.groups),
                Phase::Groups => return Poll::Ready(None),
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
            parts.into_iter().rev().for_each(|part| state.jobs.push_front(Job::Merge(part)));
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}
