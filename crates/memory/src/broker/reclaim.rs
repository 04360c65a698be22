//! States at rest: complete, with nobody who adds to them, and perhaps nobody who reads them yet. No packet looks at
//! such a state before its next batch, so when memory is short, a packet that is there for that alone asks it to give
//! back.

use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use diligence_base::Result;
use diligence_base::sync::Mutex;

/// A state that can give memory back while nobody adds to it: a finished hash table, groups, sorted rows.
pub trait Reclaim: Send + Sync {
    /// Bytes that it could give back at the moment.
    fn reclaimable_bytes(&self) -> usize;

    /// Gives back some of its memory, `bytes` or more if it can, most often by writing rows to temp space: then
    /// [`reclaimable_bytes`](Self::reclaimable_bytes) is less than before. When pending, the waker is woken when it is
    /// worth calling again. Called by one thread at a time. Readers may be at work meanwhile. An error ends the query.
    fn poll_reclaim(&self, bytes: usize, waker: &Waker) -> Poll<Result<()>>;
}

/// Who sees to it that a query gives memory back when it is asked.
pub trait Giving: Send + Sync {
    /// Packets that hold revocable memory are asked: whatever they wait for, they are to look.
    fn wake_packets(&self);
    /// States at rest are asked: [`poll_reclaim`](super::QueryMemory::poll_reclaim) is to be called until it says true.
    fn start_reclaiming(&self);
    /// Somebody waits to be admitted: a query whose reader rests is to give up what it was sure of.
    fn rest(&self);
}

/// The states at rest of a query, and who has it give back.
#[derive(Default)]
pub(super) struct AtRest {
    states: Mutex<Vec<Weak<dyn Reclaim>>>,
    giving: Mutex<Option<Arc<dyn Giving>>>,
}

impl AtRest {
    pub fn keep(&self, state: &Arc<dyn Reclaim>) {
        let mut states = self.states.lock();
        states.retain(|state| state.strong_count() > 0);
        states.push(Arc::downgrade(state));
    }

    pub fn set_giving(&self, giving: Arc<dyn Giving>) {
        *self.giving.lock() = Some(giving);
    }

    pub fn giving(&self) -> Option<Arc<dyn Giving>> {
        self.giving.lock().clone()
    }

    /// The state that can give back most; `None` if none can.
    pub fn largest(&self) -> Option<Arc<dyn Reclaim>> {
        let states: Vec<_> = self.states.lock().iter().filter_map(Weak::upgrade).collect();
        let sized = states.into_iter().map(|state| (state.reclaimable_bytes(), state));
        sized.filter(|(bytes, _)| *bytes > 0).max_by_key(|(bytes, _)| *bytes).map(|(_, state)| state)
    }
}

impl std::fmt::Debug for AtRest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AtRest({})", self.states.lock().len())
    }
}
