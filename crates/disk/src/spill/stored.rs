//! The clusters of a spill file, each somewhere in temp space: what its writer, its readers and their requests share.
//!
//! ```text
//!   Writing ----> Stored ----> Freed
//!      |
//!      +--> (the file has failed: reading it gives the error)
//! ```

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::sync::atomic::Ordering;
use diligence_base::sync::{Latch, Mutex};
use diligence_base::{Error, Result};
use foldhash::quality::FixedState;

use crate::info::count;
use crate::space::Space;
use crate::volumes::Place;
use crate::wait::enlist;

/// Where the clusters of spill files are.
static FILE: Latch = Latch::new("spill file");

/// What a cluster's bytes are checked by. It never leaves the process, so it may be a hash of any kind: this one keeps
/// up with memory.
pub(super) fn checksum_of(bytes: &[u8]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// A cluster of a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// On its way to the disk.
    Writing,
    Stored(Stored),
    /// Its place belongs to somebody else by now.
    Freed,
}

/// A cluster on the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub place: Place,
    /// The bytes that say something.
    pub bytes: u32,
    /// What they are checked by.
    pub checksum: u64,
}

/// A file as its writer, its readers and their requests share it. Dropping it frees its clusters; a request that is
/// under way holds it until it is done.
pub(super) struct FileShared {
    pub space: Arc<Space>,
    pub number: u64,
    state: Mutex<FileState>,
}

#[derive(Default)]
struct FileState {
    slots: Vec<Slot>,
    /// Clusters on their way to the disk.
    writing: usize,
    bytes: u64,
    error: Option<Error>,
    waiting: Vec<Waker>,
}

impl FileShared {
    pub fn new(space: &Arc<Space>) -> Arc<Self> {
        count(&space.counters.files, 1);
        let number = space.next_file.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { space: space.clone(), number, state: Mutex::named(&FILE, FileState::default()) })
    }

    pub fn clusters(&self) -> usize {
        self.state.lock().slots.len()
    }

    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// What has gone wrong.
    pub fn check(&self) -> Result<()> {
        self.state.lock().error.clone().map_or(Ok(()), Err)
    }

    /// Appends clusters that will be written; the number of the first.
    pub fn announce(&self, clusters: usize) -> usize {
        let mut state = self.state.lock();
        let first = state.slots.len();
        state.slots.resize(first + clusters, Slot::Writing);
        state.writing += clusters;
        first
    }

    /// Announced clusters have been written, or not.
    pub fn written(&self, first: usize, count: usize, stored: Result<Vec<Stored>>) {
        let waiting = {
            let mut state = self.state.lock();
            state.writing -= count;
            match stored {
                Ok(stored) => {
                    for (slot, stored) in stored.into_iter().enumerate() {
                        state.bytes += u64::from(stored.bytes);
                        state.slots[first + slot] = Slot::Stored(stored);
                    }
                }
                Err(error) => {
                    state.error.get_or_insert(error);
                }
            }
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Where a cluster is. After `Pending` the waker is woken when one has been written.
    pub fn poll_stored(&self, cluster: usize, waker: &Waker) -> Poll<Result<Stored>> {
        let mut state = self.state.lock();
        match (state.slots.get(cluster).copied(), &state.error) {
            (Some(Slot::Stored(stored)), _) => Poll::Ready(Ok(stored)),
            (_, Some(error)) => Poll::Ready(Err(error.clone())),
            (Some(Slot::Writing), None) => {
                enlist(&mut state.waiting, waker);
                Poll::Pending
            }
            (Some(Slot::Freed) | None, None) => Poll::Ready(Err(Error::bug(format!(
                "cluster {cluster} of spill file {} was asked for, which has been freed or never was",
                self.number
            )))),
        }
    }

    /// The same without waiting.
    pub fn stored(&self, cluster: usize) -> Option<Stored> {
        match self.state.lock().slots.get(cluster) {
            Some(Slot::Stored(stored)) => Some(*stored),
            _ => None,
        }
    }

    /// After `Pending` the waker is woken when a write is done.
    pub fn poll_written(&self, waker: &Waker) -> Poll<Result<()>> {
        let mut state = self.state.lock();
        if state.writing > 0 {
            enlist(&mut state.waiting, waker);
            return Poll::Pending;
        }
        Poll::Ready(state.error.clone().map_or(Ok(()), Err))
    }

    /// A cluster was read for the last time.
    pub fn free(&self, cluster: usize) {
        let freed = {
            let mut state = self.state.lock();
            state.slots.get_mut(cluster).and_then(|slot| match std::mem::replace(slot, Slot::Freed) {
                Slot::Stored(stored) => Some(stored.place),
                _ => None,
            })
        };
        if let Some(place) = freed {
            count(&self.space.counters.consumed, 1);
            self.space.free(self.number, &[(cluster, place)]);
        }
    }
}

impl Drop for FileShared {
    fn drop(&mut self) {
        let slots = std::mem::take(&mut self.state.lock().slots);
        let places = slots.into_iter().enumerate().filter_map(|(cluster, slot)| match slot {
            Slot::Stored(stored) => Some((cluster, stored.place)),
            Slot::Writing | Slot::Freed => None,
        });
        self.space.free(self.number, &places.collect::<Vec<_>>());
        self.space.counters.files.fetch_sub(1, Ordering::Relaxed);
    }
}
