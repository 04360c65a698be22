//! A packet: a piece of a query's work that can be queued (Staged DB's packet).

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use diligence_base::ids::QueryId;
use diligence_base::seams::Clock;

use super::StageId;
use crate::sync::{
    Latch, Mutex,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

/// What packets do.
static WORK: Latch = Latch::new("packet");

/// What a packet does. Called by one worker at a time.
pub trait Work: Send {
    /// Works until it is finished, has to wait, or the quantum is over. Must not panic and must not block, but for what
    /// is [outside of the engine](super::Caller).
    fn run(&mut self, quantum: &Quantum<'_>) -> Step;
}

/// Where packets wait for workers: the scheduler, as far as packets know it.
pub trait Queueing: Send + Sync + 'static {
    /// Queues a packet that was made ready by [`Packet::submit`].
    fn enqueue(&self, packet: Arc<Packet>, arrival: Arrival);
}

/// How a packet's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The quantum is over: queue it again.
    Yield,
    /// It waits: the quantum's waker was given to whoever will wake it.
    Wait,
    /// Nothing is left to do: the work is dropped.
    Done,
}

/// Why a packet enters a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was just made.
    New,
    /// What it waited for has happened.
    Woken,
    /// Its quantum was over.
    Yielded,
}

/// One turn of a packet on a worker.
pub struct Quantum<'a> {
    /// Wakes this packet; clones may be kept.
    pub waker: &'a Waker,
    clock: &'a dyn Clock,
    start_ns: u64,
    end_ns: u64,
    /// When it may be cut short, and whether it is to be.
    cut: Option<(u64, &'a AtomicBool)>,
}

impl<'a> Quantum<'a> {
    /// A turn that starts now and lasts `length_ns`.
    pub fn new(waker: &'a Waker, clock: &'a dyn Clock, length_ns: u64) -> Self {
        let start_ns = clock.now_ns();
        Self { waker, clock, start_ns, end_ns: start_ns.saturating_add(length_ns), cut: None }
    }

    /// The same, which ends after `length_ns` already if `wanted` is true.
    pub(super) fn with_cut(self, length_ns: u64, wanted: &'a AtomicBool) -> Self {
        Self { cut: Some((self.start_ns.saturating_add(length_ns), wanted)), ..self }
    }

    /// When the turn started.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// The time.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// True when it is time to yield.
    pub fn is_over(&self, now_ns: u64) -> bool {
        let is_cut = |(end_ns, wanted): (u64, &AtomicBool)| now_ns >= end_ns && wanted.load(Ordering::Relaxed);
        now_ns >= self.end_ns || self.cut.is_some_and(is_cut)
    }
}

/// Where a packet is.
///
/// ```text
///              submit, wake            taken by a worker
///     Waiting ------------> Queued -----------------------> Running
///        ^                    ^  ^                           |  |  |
///        |                    |  +-------- yield ------------+  |  | done
///        +---- wait ----------|---------------------------------+  +-----> Finished
///                             |                          wake   |
///                             +------- wait, yield -- Woken <---+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketState {
    /// In no queue; somebody holds its waker.
    Waiting,
    /// In its stage's queue.
    Queued,
    /// On a worker.
    Running,
    /// On a worker, and woken meanwhile: it goes back to the queue even if it says `Wait`.
    Woken,
    /// Its work is done and dropped.
    Finished,
}

impl PacketState {
    fn from_u8(value: u8) -> Self {
        match value {
            0 => PacketState::Waiting,
            1 => PacketState::Queued,
            2 => PacketState::Running,
            3 => PacketState::Woken,
            _ => PacketState::Finished,
        }
    }
}

/// A packet and where it is.
pub struct Packet {
    query: QueryId,
    stage: StageId,
    state: AtomicU8,
    work: Mutex<Option<Box<dyn Work>>>,
    scheduler: Weak<dyn Queueing>,
    /// When it entered the queue, for waiting times and against starvation.
    pub(super) queued_at_ns: AtomicU64,
    /// What all packets of its query have used of workers.
    attained_ns: Arc<AtomicU64>,
    /// Totals, for EXPLAIN ANALYZE.
    pub(super) waited_ns: AtomicU64,
    worked_ns: AtomicU64,
}

impl Packet {
    /// A packet that waits to be submitted, of a query without others.
    #[cfg(test)]
    pub fn new(query: QueryId, stage: StageId, work: Box<dyn Work>, scheduler: &Arc<impl Queueing>) -> Arc<Self> {
        Self::beside(Arc::new(AtomicU64::new(0)), query, stage, work, scheduler)
    }

    /// A packet that waits to be submitted, beside others of its query: what they use of workers is counted together.
    pub fn beside(
        attained_ns: Arc<AtomicU64>,
        query: QueryId,
        stage: StageId,
        work: Box<dyn Work>,
        scheduler: &Arc<impl Queueing>,
    ) -> Arc<Self> {
        let scheduler = Arc::downgrade(scheduler);
        Arc::new(Self {
            query,
            stage,
            state: AtomicU8::new(PacketState::Waiting as u8),
            work: Mutex::named(&WORK, Some(work)),
            scheduler,
            queued_at_ns: AtomicU64::new(0),
            attained_ns,
            waited_ns: AtomicU64::new(0),
            worked_ns: AtomicU64::new(0),
        })
    }

    /// The query it belongs to.
    pub fn query(&self) -> QueryId {
        self.query
    }

    /// The stage that serves it.
    pub fn stage(&self) -> StageId {
        self.stage
    }

    /// Where it is at the moment.
    pub fn state(&self) -> PacketState {
        PacketState::from_u8(self.state.load(Ordering::Acquire))
    }

    /// Nanoseconds spent in queues so far.
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns.load(Ordering::Relaxed)
    }

    /// Nanoseconds spent on workers so far.
    pub fn worked_ns(&self) -> u64 {
        self.worked_ns.load(Ordering::Relaxed)
    }

    /// Nanoseconds that all packets of its query have spent on workers so far.
    pub fn attained_ns(&self) -> u64 {
        self.attained_ns.load(Ordering::Relaxed)
    }

    /// Notes a turn on a worker.
    pub(super) fn worked(&self, worked_ns: u64) {
        for total in [&self.worked_ns, &*self.attained_ns] {
            total.fetch_add(worked_ns, Ordering::Relaxed);
        }
    }

    /// Puts the packet into its stage's queue, if it waits. Waking a running packet makes it run once more; waking a
    /// queued or finished one does nothing.
    pub fn submit(self: &Arc<Self>, arrival: Arrival) {
        let moved =
            self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| match PacketState::from_u8(state) {
                PacketState::Waiting => Some(PacketState::Queued as u8),
                PacketState::Running => Some(PacketState::Woken as u8),
                PacketState::Queued | PacketState::Woken | PacketState::Finished => None,
            });
        if moved == Ok(PacketState::Waiting as u8)
            && let Some(scheduler) = self.scheduler.upgrade()
        {
            scheduler.enqueue(self.clone(), arrival);
        }
    }

    /// Runs one turn. Returns true if the packet has to go back to the queue.
    pub(super) fn run(&self, quantum: &Quantum<'_>) -> bool {
        self.transition(PacketState::Queued, PacketState::Running);
        let mut slot = self.work.lock();
        let step = slot.as_mut().map_or(Step::Done, |work| work.run(quantum));
        if step == Step::Done {
            // Drop the work before anybody can see the packet as finished.
            drop(slot.take());
            self.state.store(PacketState::Finished as u8, Ordering::Release);
            return false;
        }
        drop(slot);
        if step == Step::Yield {
            self.state.store(PacketState::Queued as u8, Ordering::Release);
            return true;
        }
        let waits = self.state.compare_exchange(
            PacketState::Running as u8,
            PacketState::Waiting as u8,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if waits.is_err() {
            self.transition(PacketState::Woken, PacketState::Queued);
            return true;
        }
        false
    }

    fn transition(&self, from: PacketState, to: PacketState) {
        let before = self.state.swap(to as u8, Ordering::AcqRel);
        debug_assert_eq!(PacketState::from_u8(before), from, "a packet went to {to:?} from the wrong state");
    }
}

impl Wake for Packet {
    fn wake(self: Arc<Self>) {
        self.submit(Arrival::Woken);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.submit(Arrival::Woken);
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet({} in {}, {:?})", self.query, self.stage.name(), self.state())
    }
}
