//! The buffers of one operator: a cluster each, reserved, bounded and used again.
//!
//! A refused reservation is not an error as long as one of the operator's own writes is under way: its buffer comes
//! back, and whoever asked is woken then. Read-ahead is a luxury that never takes the clusters of `clusters_min`. So an
//! operator never fails that reserves a cluster for each file that it fills and one more, and two for each that it
//! reads: one under the batch that it works on, and the next. Compression needs one cluster more for all writers
//! together, and reserves what it unpacks, an eighth of a cluster at a time as a rule, beside the clusters.

use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::limits::TEMP_WRITES_MAX;
use diligence_base::sync::{Latch, Mutex};
use diligence_base::{Error, Result};
use diligence_memory::Reservation;

use crate::files::PAGE_BYTES;
use crate::info::count;
use crate::space::{Space, TempSpace};
use crate::wait::enlist;

/// Buffers of the operators that spill.
static BUFFERS: Latch = Latch::new("spill buffers");

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

type Pages = Box<[Page]>;

/// How much memory an operator lets its files have.
#[derive(Clone, Copy, Debug)]
pub struct SpillMemory {
    /// Clusters that stay reserved from the beginning to the end, or [as long as they are
    /// kept](SpillBuffers::keep): asking for fewer is never refused.
    pub clusters_min: usize,
    /// Clusters at most, even if the budget has more; `usize::MAX` leaves it to the budget.
    pub clusters_max: usize,
    /// Clusters that may be on their way to the disk when a writer asks for another one.
    pub writes_max: usize,
}

impl Default for SpillMemory {
    fn default() -> Self {
        Self { clusters_min: 0, clusters_max: usize::MAX, writes_max: TEMP_WRITES_MAX }
    }
}

/// The buffers of an operator's spill files. Clones are the same buffers.
#[derive(Clone)]
pub struct SpillBuffers(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub space: Arc<Space>,
    memory: SpillMemory,
    state: Mutex<BufferState>,
}

struct BufferState {
    /// Clusters that stay reserved now.
    clusters_min: usize,
    spare: Vec<Pages>,
    /// Buffers that somebody holds: those that were filled, and those that were read and wanted.
    wanted: usize,
    /// Buffers into which something is read that nobody wants yet.
    ahead: usize,
    /// Buffers on their way to the disk: they come back whatever happens.
    writing: usize,
    waiting: Vec<Waker>,
    /// At least for the buffers that are wanted and spare, or for the minimum, and for those that were read ahead.
    reservation: Reservation,
}

impl SpillBuffers {
    /// Buffers whose bytes are reserved in `reservation`, in which nothing is reserved yet: it is a
    /// [`sibling`](Reservation::sibling) of the operator's own, as a rule. Fails with kind `Resource` if `clusters_min`
    /// do not fit.
    pub fn new(space: &TempSpace, mut reservation: Reservation, memory: SpillMemory) -> Result<Self> {
        reservation.resize(memory.clusters_min * space.cluster_bytes())?;
        let state = Mutex::named(
            &BUFFERS,
            BufferState {
                clusters_min: memory.clusters_min,
                spare: Vec::new(),
                wanted: 0,
                ahead: 0,
                writing: 0,
                waiting: Vec::new(),
                reservation,
            },
        );
        let memory = SpillMemory {
            clusters_max: memory.clusters_max.max(memory.clusters_min).max(1),
            writes_max: memory.writes_max.max(1),
            ..memory
        };
        Ok(Self(Arc::new(Shared { space: space.0.clone(), memory, state })))
    }

    /// The temp space they belong to.
    pub fn space(&self) -> TempSpace {
        TempSpace(self.0.space.clone())
    }

    /// Clusters in memory at the moment: filled, queued, read ahead or under arrays.
    pub fn clusters(&self) -> usize {
        let state = self.0.state.lock();
        state.wanted + state.ahead
    }

    /// Clusters that can be had without more memory than is reserved now and without waiting. When none is left, an
    /// operator that groups its writes submits a group.
    pub fn at_hand(&self) -> usize {
        let state = self.0.state.lock();
        let reserved = (state.reservation.bytes() / self.0.space.cluster_bytes).min(self.0.memory.clusters_max);
        reserved.saturating_sub(state.wanted + state.ahead)
    }

    /// Gives back the memory of buffers that nobody uses at the moment, but for `clusters_min`.
    pub fn release_spare(&self) {
        let spare = {
            let mut state = self.0.state.lock();
            let spare = std::mem::take(&mut state.spare);
            self.0.shrink(&mut state);
            spare
        };
        drop(spare);
    }

    /// Keeps so many clusters reserved from now on, in place of `clusters_min`, even if memory is refused. What waits
    /// for its reader keeps none: the buffers that it still has go back as soon as nobody uses them.
    pub fn keep(&self, clusters: usize) {
        let spare = {
            let mut state = self.0.state.lock();
            let missing = self.0.missing_to_keep(&state, clusters);
            if state.reservation.grow(missing).is_err() {
                state.reservation.overdraw(missing);
            }
            self.0.keep(&mut state, clusters)
        };
        drop(spare);
    }

    /// A buffer to be filled. After `Pending` the waker is woken when one of the writes is done. Fails with kind
    /// `Resource` if there is neither memory nor a write to wait for.
    pub(super) fn poll_take_to_write(&self, waker: &Waker) -> Poll<Result<ClusterBuffer>> {
        self.poll(self.0.memory.writes_max, waker)
    }

    /// A buffer for a reader, or for whatever else makes room by it. After `Pending` the waker is woken when one of the
    /// writes is done. Fails with kind `Resource` if there is neither memory nor a write to wait for.
    pub fn poll_take(&self, waker: &Waker) -> Poll<Result<ClusterBuffer>> {
        self.poll(usize::MAX, waker)
    }

    fn poll(&self, writes_max: usize, waker: &Waker) -> Poll<Result<ClusterBuffer>> {
        let spare = {
            let mut state = self.0.state.lock();
            let granted = if state.writing >= writes_max { None } else { Some(self.0.grant(&mut state, 1, 0)) };
            match granted {
                Some(Ok(spare)) => spare,
                Some(Err(error)) if state.writing == 0 => return Poll::Ready(Err(error)),
                None | Some(Err(_)) => {
                    enlist(&mut state.waiting, waker);
                    count(&self.0.space.counters.waits, 1);
                    return Poll::Pending;
                }
            }
        };
        Poll::Ready(Ok(self.0.buffer(spare, false)))
    }

    /// A buffer for what nobody wants yet, if there is memory that nobody needs.
    pub(super) fn try_take_ahead(&self) -> Option<ClusterBuffer> {
        let spare = self.0.grant(&mut self.0.state.lock(), 0, 1).ok()?;
        Some(self.0.buffer(spare, true))
    }

    /// An empty reservation of the same account, for what is held beside the clusters.
    pub fn sibling(&self) -> Reservation {
        self.0.state.lock().reservation.sibling()
    }

    /// So many buffers go to the disk.
    pub(super) fn writes_begin(&self, clusters: usize) {
        self.0.state.lock().writing += clusters;
    }

    /// They have arrived there, or failed to; the buffers are dropped already.
    pub(super) fn writes_end(&self, clusters: usize) {
        let waiting = {
            let mut state = self.0.state.lock();
            state.writing -= clusters;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl std::fmt::Debug for SpillBuffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SpillBuffers({} clusters in use)", self.clusters())
    }
}

impl Shared {
    /// Reserves for `wanted` or `ahead` buffers more, and takes a spare one for it if there is one.
    fn grant(&self, state: &mut BufferState, wanted: usize, ahead: usize) -> Result<Option<Pages>> {
        let (wanted, ahead) = (state.wanted + wanted, state.ahead + ahead);
        let needed = wanted + ahead;
        let reserved_for_need = if ahead > state.ahead { wanted.max(state.clusters_min) + ahead } else { needed };
        if reserved_for_need > self.memory.clusters_max {
            return Err(Error::resource(format!(
                "an operator has all of its {} clusters of temp space in memory",
                self.memory.clusters_max
            )));
        }
        let spare = state.spare.len().saturating_sub(1);
        let reserved = self.reserved_clusters(state.clusters_min, wanted, spare, ahead);
        let missing = (reserved * self.space.cluster_bytes).saturating_sub(state.reservation.bytes());
        state.reservation.grow(missing)?;
        (state.wanted, state.ahead) = (wanted, ahead);
        Ok(state.spare.pop())
    }

    fn reserved_clusters(&self, clusters_min: usize, wanted: usize, spare: usize, ahead: usize) -> usize {
        (wanted + spare).max(clusters_min) + ahead
    }

    /// Bytes that are to be reserved to keep so many clusters.
    fn missing_to_keep(&self, state: &BufferState, clusters: usize) -> usize {
        let reserved = self.reserved_clusters(clusters, state.wanted, state.spare.len(), state.ahead);
        (reserved * self.space.cluster_bytes).saturating_sub(state.reservation.bytes())
    }

    /// Keeps so many clusters; what they need is reserved. Returns spare buffers, if there are to be none.
    fn keep(&self, state: &mut BufferState, clusters: usize) -> Vec<Pages> {
        state.clusters_min = clusters;
        let spare = if clusters == 0 { std::mem::take(&mut state.spare) } else { Vec::new() };
        self.shrink(state);
        spare
    }

    fn buffer(self: &Arc<Self>, spare: Option<Pages>, is_ahead: bool) -> ClusterBuffer {
        let pages = spare
            .unwrap_or_else(|| vec![Page([0; PAGE_BYTES]); self.space.cluster_bytes / PAGE_BYTES].into_boxed_slice());
        ClusterBuffer { pages: Some(pages), is_ahead, owner: self.clone() }
    }

    /// Reserves no more than what there are buffers for, and the minimum.
    fn shrink(&self, state: &mut BufferState) {
        let clusters = self.reserved_clusters(state.clusters_min, state.wanted, state.spare.len(), state.ahead);
        let surplus = state.reservation.bytes().saturating_sub(clusters * self.space.cluster_bytes);
        state.reservation.shrink(surplus);
    }

    fn give_back(&self, pages: Pages, is_ahead: bool) {
        let (surplus, waiting) = {
            let mut state = self.state.lock();
            if is_ahead {
                state.ahead -= 1;
            } else {
                state.wanted -= 1;
            }
            // Whoever never had a minimum is at work, whoever has given it up is not.
            let is_at_work = state.clusters_min > 0 || self.memory.clusters_min == 0;
            let surplus = if is_at_work && state.spare.len() < self.memory.writes_max {
                state.spare.push(pages);
                None
            } else {
                Some(pages)
            };
            self.shrink(&mut state);
            (surplus, std::mem::take(&mut state.waiting))
        };
        drop(surplus);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Memory for a cluster, at an address that direct I/O accepts. Goes back to its operator's buffers when dropped.
pub struct ClusterBuffer {
    pages: Option<Pages>,
    is_ahead: bool,
    owner: Arc<Shared>,
}

impl ClusterBuffer {
    /// What was read ahead is wanted now.
    pub(super) fn is_wanted(&mut self) {
        if std::mem::take(&mut self.is_ahead) {
            let mut state = self.owner.state.lock();
            state.ahead -= 1;
            state.wanted += 1;
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        let pages = self.pages.as_deref().unwrap_or_default();
        // SAFETY: a page is an array of bytes and nothing else (repr C, size equal to alignment), and so are several.
        unsafe { std::slice::from_raw_parts(pages.as_ptr().cast(), size_of_val(pages)) }
    }

    /// Its bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let pages = self.pages.as_deref_mut().unwrap_or_default();
        // SAFETY: as above; every byte is initialized and any byte is a valid one.
        unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), size_of_val(pages)) }
    }
}

impl Drop for ClusterBuffer {
    fn drop(&mut self) {
        if let Some(pages) = self.pages.take() {
            self.owner.give_back(pages, self.is_ahead);
        }
    }
}
