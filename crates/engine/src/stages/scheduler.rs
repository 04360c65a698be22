//! The scheduler: the stages' queues behind one policy, the workers, the counters.

use std::sync::{Arc, OnceLock};
use std::task::Waker;

use diligence_base::limits::{QUANTUM_CUT, STAND_INS_MAX};
use diligence_base::seams::{Clock, NiceSpawn, PinnedSpawn, Spawn, Thread};
use diligence_base::{Error, Result};

use super::info::{StageCounters, StageInfo, WorkerInfo, WorkerSlot};
use super::policy_kind::AnyOrder;
use super::{Arrival, Packet, Policies, Policy, Quantum, Queueing, StageId, StageWorkers};
use crate::knobs::Knobs;
use crate::sync::{
    self, Condvar, Latch, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// The one lock of the stages: every packet passes it twice a turn.
static QUEUES: Latch = Latch::new("stages");

/// Every so many turns the packet that has waited longest runs, whatever the policy says. With a quantum of 2 ms a
/// packet that any policy holds back is served within about 16 x 2 ms x the packets older than it.
const OLDEST_FIRST_EVERY: u64 = 16;

/// The worker that looks for work before it sleeps. There is one at most: more would be in each other's way.
#[derive(PartialEq, Eq)]
enum Lingerer {
    Nobody,
    /// It looks at `called`.
    Looks,
    /// It has been told of a packet, and will come to the queues.
    Called,
}

/// A packet's turn on a worker.
struct WorkerTurn {
    packet: Arc<Packet>,
    /// Whether the packet is one of those that go before others.
    is_urgent: bool,
    /// Whether the turn is shorter if such a packet comes.
    may_be_cut: bool,
    /// Whether the policy hears of its end.
    is_followed: bool,
}

struct Queues {
    policy: Box<dyn Policy>,
    policies: Policies,
    limits: StageWorkers,
    pops: u64,
    /// Workers that sleep.
    idle: usize,
    /// Workers that run packets which others go before.
    long_turns: usize,
    express_sleeps: bool,
    lingerer: Lingerer,
    /// Turns whose threads wait for something outside of the engine.
    absent: usize,
    /// Threads that stand in for such, those of them that run packets, and those that sleep.
    stand_ins: usize,
    standing_in: usize,
    stand_ins_idle: usize,
    stopping: bool,
}

impl Queues {
    /// Whether one more may run packets in the place of a worker that waits.
    fn needs_stand_in(&self) -> bool {
        self.standing_in < self.absent
    }

    /// A turn that waits may wait for a packet of its own stage.
    fn allow_for_absent(&mut self) {
        let absent = self.absent;
        self.policy.allow_beyond(absent);
    }

    /// Whether a packet that goes before others would have to wait for the end of another's turn.
    fn needs_express(&self) -> bool {
        self.idle == 0 && self.long_turns > 0 && self.policy.has_urgent()
    }
}

/// The workers of a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    /// How many, beside the express worker.
    pub workers: usize,
    /// How far they stand back (see [`NiceSpawn`]). The express worker does not.
    pub nice: u8,
    /// Whether each stays on one core. The express worker does not, as it is to find one that is free.
    pub is_pinned: bool,
}

/// What it takes to start a thread that runs packets.
struct Starting {
    spawn: Arc<dyn Spawn>,
    nice: u8,
    runtime: tokio::runtime::Handle,
}

/// The stages' queues, their policy, and the workers that serve them.
pub struct Scheduler {
    queues: Mutex<Queues>,
    available: Condvar,
    express: Condvar,
    stand_in: Condvar,
    /// How threads are started that stand in; `None` without threads.
    starting: Option<Starting>,
    /// Where they say what they do.
    stand_in_slot: WorkerSlot,
    /// Tells the worker that lingers that there is work.
    called: AtomicBool,
    /// Whether a packet waits for which others' turns are cut short.
    urgent: AtomicBool,
    /// Whether a reader lingers.
    reader_lingers: AtomicBool,
    /// What a worker does that has looked for a packet and found none, if it is wanted.
    spare_work: OnceLock<Box<dyn Fn() + Send + Sync>>,
    spare_work_wanted: AtomicBool,
    between_turns: OnceLock<fn()>,
    /// Whoever looks at the stages from time to time, and when the next time is; never, if that is `u64::MAX`.
    watch: OnceLock<Box<dyn Fn(u64) + Send + Sync>>,
    watch_at_ns: AtomicU64,
    knobs: Arc<Knobs>,
    counters: Vec<StageCounters>,
    workers: Vec<WorkerSlot>,
    clock: Arc<dyn Clock>,
    threads: Mutex<Vec<Box<dyn Thread>>>,
}

impl Queueing for Scheduler {
    fn enqueue(&self, packet: Arc<Packet>, arrival: Arrival) {
        let counters = &self.counters[packet.stage() as usize];
        counters.queued.fetch_add(1, Ordering::Relaxed);
        if arrival == Arrival::New {
            counters.packets_total.fetch_add(1, Ordering::Relaxed);
        }
        packet.queued_at_ns.store(self.clock.now_ns(), Ordering::Relaxed);
        self.push(self.queues.lock(), packet, arrival);
    }
}

impl Scheduler {
    /// A scheduler whose packets run on the threads of a crew and the express worker, started now. Each of them is in
    /// `runtime` as long as it lives.
    pub fn start(
        crew: Crew,
        policies: Policies,
        knobs: Arc<Knobs>,
        clock: Arc<dyn Clock>,
        spawn: Arc<dyn Spawn>,
        runtime: tokio::runtime::Handle,
    ) -> Result<Arc<Self>> {
        let Crew { workers, nice, is_pinned } = crew;
        let starting = Starting { spawn: spawn.clone(), nice, runtime: runtime.clone() };
        let scheduler =
            Self { starting: Some(starting), ..Self::new(workers + 1, policies.build(), policies, knobs, clock) };
        let scheduler = Arc::new(scheduler);
        for index in 0..=workers {
            // A worker holds the scheduler strongly; `stop` ends it.
            let own = scheduler.clone();
            let runtime = runtime.clone();
            let is_express = index == workers;
            let body = Box::new(move || {
                let _entered = sync::enter(&runtime);
                own.serve(index, if is_express { Self::wait_for_urgent } else { Self::wait_for_packet });
            });
            let core = (is_pinned && !is_express).then_some(index);
            let spawn = &NiceSpawn { spawn: spawn.as_ref(), nice: if is_express { 0 } else { nice } };
            let spawn = PinnedSpawn { spawn, core };
            let name = if is_express { "diligence-express".to_owned() } else { format!("diligence-worker-{index}") };
            let thread = spawn.spawn(name.clone(), body).map_err(|error| {
                scheduler.stop();
                Error::resource(format!("the system refuses to start {name} beside {index} other workers: {error}"))
            })?;
            scheduler.threads.lock().push(thread);
        }
        Ok(scheduler)
    }

    /// A scheduler without threads: [`run_one`](Self::run_one) runs packets on the calling thread, in an order that the
    /// seed gives.
    pub fn inline(seed: u64, knobs: Arc<Knobs>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self::new(1, Box::new(AnyOrder::new(seed)), Policies::default(), knobs, clock))
    }

    fn new(
        workers: usize,
        policy: Box<dyn Policy>,
        policies: Policies,
        knobs: Arc<Knobs>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            queues: Mutex::named(
                &QUEUES,
                Queues {
                    policy,
                    policies,
                    limits: StageWorkers::default(),
                    pops: 0,
                    idle: 0,
                    long_turns: 0,
                    express_sleeps: false,
                    lingerer: Lingerer::Nobody,
                    absent: 0,
                    stand_ins: 0,
                    standing_in: 0,
                    stand_ins_idle: 0,
                    stopping: false,
                },
            ),
            available: Condvar::new(),
            express: Condvar::new(),
            stand_in: Condvar::new(),
            starting: None,
            stand_in_slot: WorkerSlot::default(),
            called: AtomicBool::new(false),
            urgent: AtomicBool::new(false),
            reader_lingers: AtomicBool::new(false),
            spare_work: OnceLock::new(),
            spare_work_wanted: AtomicBool::new(false),
            between_turns: OnceLock::new(),
            watch: OnceLock::new(),
            watch_at_ns: AtomicU64::new(u64::MAX),
            knobs,
            counters: StageId::ALL.iter().map(|_| StageCounters::default()).collect(),
            workers: (0..workers).map(|_| WorkerSlot::default()).collect(),
            clock,
            threads: Mutex::default(),
        }
    }

    /// What a worker is to do that has no packet, whenever somebody [wants that](Self::want_spare_work). To be said
    /// once.
    pub(crate) fn set_spare_work(&self, work: Box<dyn Fn() + Send + Sync>) {
        let is_first = self.spare_work.set(work).is_ok();
        debug_assert!(is_first, "spare work is said once");
    }

    /// The next worker that finds no packet for some 50 us does the spare work, once.
    pub(crate) fn want_spare_work(&self) {
        self.spare_work_wanted.store(true, Ordering::Release);
        if self.queues.lock().idle > 0 {
            self.available.notify_one();
        }
    }

    /// What each worker does after every turn; only the first is heeded.
    pub(crate) fn set_between_turns(&self, tidy: fn()) {
        let _ = self.between_turns.set(tidy);
    }

    /// Who looks at the stages from time to time, between two turns of a worker, with the time. To be said once.
    pub(crate) fn set_watch(&self, watch: Box<dyn Fn(u64) + Send + Sync>) {
        let is_first = self.watch.set(watch).is_ok();
        debug_assert!(is_first, "who watches is said once");
    }

    /// When it looks the next time; `None` is never.
    pub(crate) fn watch_at(&self, at_ns: Option<u64>) {
        self.watch_at_ns.store(at_ns.unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Has it look if it is time. One worker does so at a time, and says itself when the next time is.
    fn look(&self, now_ns: u64) {
        let at_ns = self.watch_at_ns.load(Ordering::Relaxed);
        if now_ns < at_ns || at_ns == u64::MAX {
            return;
        }
        let is_own = self.watch_at_ns.compare_exchange(at_ns, u64::MAX, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if let Some(watch) = self.watch.get().filter(|_| is_own) {
            watch(now_ns);
        }
    }

    /// The policies in force.
    pub fn policy(&self) -> Policies {
        self.queues.lock().policies
    }

    /// Changes the policies; packets that wait move over.
    pub fn set_policy(&self, policies: Policies) {
        let mut queues = self.queues.lock();
        queues.policies = policies;
        self.rebuild(queues);
    }

    /// How many workers may serve each stage at once.
    pub fn limits(&self) -> StageWorkers {
        self.queues.lock().limits
    }

    /// Changes how many workers may serve each stage at once. Turns that are under way are not among those that count.
    pub fn set_limits(&self, limits: StageWorkers) {
        let mut queues = self.queues.lock();
        queues.limits = limits;
        self.rebuild(queues);
    }

    /// Moves packets that wait into the queues that policies and limits want.
    fn rebuild(&self, mut queues: MutexGuard<'_, Queues>) {
        let mut policy = queues.policies.build_with(queues.limits);
        policy.allow_beyond(queues.absent);
        queues.policy.allow_beyond(usize::MAX);
        while let Some(packet) = queues.policy.pop() {
            policy.push(packet, Arrival::Woken);
        }
        queues.policy = policy;
        drop(queues);
        // Workers may sleep that limits kept from these packets.
        self.available.notify_all();
    }

    /// Cohorts that gated policies have admitted since the last change of policy, and the packets in them.
    pub fn cohorts(&self) -> (u64, u64) {
        self.queues.lock().policy.cohorts()
    }

    /// The stages at this moment.
    pub fn stages(&self) -> Vec<StageInfo> {
        StageId::ALL.iter().zip(&self.counters).map(|(stage, counters)| counters.info(stage.name())).collect()
    }

    /// The workers at this moment.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        // The express worker is the last; without threads there is only one slot, and no express worker.
        let express = (self.workers.len() > 1).then(|| self.workers.len() - 1);
        self.workers.iter().enumerate().map(|(index, slot)| slot.info(index, express == Some(index))).collect()
    }

    /// Puts it into its queue, and calls a worker if one is needed.
    fn push(&self, mut queues: MutexGuard<'_, Queues>, packet: Arc<Packet>, arrival: Arrival) {
        queues.policy.push(packet, arrival);
        self.urgent.store(queues.policy.has_urgent(), Ordering::Relaxed);
        if queues.lingerer == Lingerer::Looks {
            queues.lingerer = Lingerer::Called;
            self.called.store(true, Ordering::Release);
        } else if queues.idle > 0 {
            drop(queues);
            self.available.notify_one();
        } else {
            if queues.stand_ins_idle > 0 && queues.needs_stand_in() {
                self.stand_in.notify_one();
            }
            self.call_express(&queues);
        }
    }

    fn call_express(&self, queues: &Queues) {
        if queues.express_sleeps && queues.needs_express() {
            self.express.notify_one();
        }
    }

    fn pop(&self, queues: &mut Queues) -> Option<WorkerTurn> {
        queues.pops += 1;
        let policy = &mut queues.policy;
        let is_guarded = queues.pops.is_multiple_of(OLDEST_FIRST_EVERY);
        let packet = if is_guarded { policy.pop_oldest() } else { policy.pop() }?;
        let some_urgent = policy.has_urgent();
        self.urgent.store(some_urgent, Ordering::Relaxed);
        let is_urgent = policy.is_urgent(&packet);
        if !is_urgent {
            queues.long_turns += 1;
        }
        self.call_express(queues);
        // Who had its turn although such packets waited has all of it.
        let may_be_cut = !some_urgent && !is_urgent;
        Some(WorkerTurn { packet, is_urgent, may_be_cut, is_followed: queues.policy.follows_turns() })
    }

    /// Looks for a moment whether a reader was called. One reader at a time does so: many would take the cores from the
    /// workers that they wait for.
    pub(crate) fn linger(&self, called: impl Fn() -> bool) -> bool {
        if self.reader_lingers.swap(true, Ordering::Acquire) {
            return called();
        }
        let was_called = sync::linger(called);
        self.reader_lingers.store(false, Ordering::Release);
        was_called
    }

    /// Runs one packet on the calling thread. False if none is queued.
    pub fn run_one(&self) -> bool {
        let turn = self.pop(&mut self.queues.lock());
        let Some(turn) = turn else { return false };
        let end_ns = self.give(&self.workers[0], &turn);
        drop(turn);
        self.look(end_ns);
        true
    }

    fn serve(&self, index: usize, wait: fn(&Self) -> Option<WorkerTurn>) {
        while let Some(turn) = wait(self) {
            let end_ns = self.give(&self.workers[index], &turn);
            drop(turn);
            if let Some(tidy) = self.between_turns.get() {
                tidy();
            }
            self.look(end_ns);
        }
    }

    /// The calling thread, which runs a packet, will wait for something outside of the engine. Until it
    /// [comes back](Self::come_back), another thread takes its place: one that has done so before, or a new one, as
    /// long as there are not too many.
    pub(crate) fn leave(self: &Arc<Self>) {
        let Some(starting) = &self.starting else { return };
        let mut queues = self.queues.lock();
        queues.absent += 1;
        queues.allow_for_absent();
        if queues.idle > 0 && queues.limits.is_any() {
            self.available.notify_one();
        }
        if queues.stopping {
            return;
        }
        if queues.stand_ins_idle > 0 {
            drop(queues);
            return self.stand_in.notify_one();
        }
        if queues.stand_ins >= STAND_INS_MAX || queues.stand_ins >= queues.absent {
            return;
        }
        let own = self.clone();
        let runtime = starting.runtime.clone();
        let body = Box::new(move || {
            let _entered = sync::enter(&runtime);
            own.stand_in();
        });
        let spawn = NiceSpawn { spawn: starting.spawn.as_ref(), nice: starting.nice };
        // Without one, others wait until this thread is back.
        if let Ok(thread) = spawn.spawn(format!("diligence-stand-in-{}", queues.stand_ins), body) {
            queues.stand_ins += 1;
            self.threads.lock().push(thread);
        }
    }

    /// The calling thread goes on. Who has its place gives it up after its turn.
    pub(crate) fn come_back(&self) {
        if self.starting.is_some() {
            let mut queues = self.queues.lock();
            queues.absent -= 1;
            queues.allow_for_absent();
        }
    }

    /// Runs packets in the places of workers that wait, whenever there are such.
    fn stand_in(&self) {
        loop {
            let turn = {
                let mut queues = self.queues.lock();
                loop {
                    if queues.stopping {
                        return;
                    }
                    let turn = if queues.needs_stand_in() { self.pop(&mut queues) } else { None };
                    if let Some(turn) = turn {
                        queues.standing_in += 1;
                        break turn;
                    }
                    queues.stand_ins_idle += 1;
                    self.stand_in.wait(&mut queues);
                    queues.stand_ins_idle -= 1;
                }
            };
            self.give(&self.stand_in_slot, &turn);
            drop(turn);
            if let Some(tidy) = self.between_turns.get() {
                tidy();
            }
            self.queues.lock().standing_in -= 1;
        }
    }

    /// The next packet that goes before others and would have to wait otherwise; `None` when the scheduler stops.
    fn wait_for_urgent(&self) -> Option<WorkerTurn> {
        let mut queues = self.queues.lock();
        while !queues.stopping {
            let packet = if queues.needs_express() { queues.policy.pop_urgent() } else { None };
            if let Some(packet) = packet {
                self.urgent.store(queues.policy.has_urgent(), Ordering::Relaxed);
                let is_followed = queues.policy.follows_turns();
                return Some(WorkerTurn { packet, is_urgent: true, may_be_cut: false, is_followed });
            }
            queues.express_sleeps = true;
            self.express.wait(&mut queues);
            queues.express_sleeps = false;
        }
        None
    }

    /// The next packet; `None` when the scheduler stops.
    fn wait_for_packet(&self) -> Option<WorkerTurn> {
        let mut queues = self.queues.lock();
        let mut may_linger = true;
        loop {
            if queues.stopping {
                return None;
            }
            if let Some(turn) = self.pop(&mut queues) {
                return Some(turn);
            }
            if may_linger && queues.lingerer == Lingerer::Nobody {
                queues.lingerer = Lingerer::Looks;
                drop(queues);
                sync::linger(|| self.called.load(Ordering::Acquire));
                queues = self.queues.lock();
                queues.lingerer = Lingerer::Nobody;
                self.called.store(false, Ordering::Relaxed);
                may_linger = false;
                continue;
            }
            if !may_linger
                && self.spare_work_wanted.swap(false, Ordering::AcqRel)
                && let Some(work) = self.spare_work.get()
            {
                drop(queues);
                work();
                queues = self.queues.lock();
                continue;
            }
            queues.idle += 1;
            self.available.wait(&mut queues);
            queues.idle -= 1;
            may_linger = true;
        }
    }

    /// Gives a packet its turn. Returns when that has ended.
    fn give(&self, slot: &WorkerSlot, turn: &WorkerTurn) -> u64 {
        let packet = &turn.packet;
        let counters = &self.counters[packet.stage() as usize];
        counters.queued.fetch_sub(1, Ordering::Relaxed);
        counters.running.fetch_add(1, Ordering::Relaxed);
        slot.query.store(packet.query().0, Ordering::Relaxed);
        slot.stage.store(packet.stage() as usize + 1, Ordering::Relaxed);

        let waker = Waker::from(packet.clone());
        let mut quantum = Quantum::new(&waker, self.clock.as_ref(), self.knobs.quantum_us.get() as u64 * 1000);
        if turn.may_be_cut {
            quantum = quantum.with_cut(QUANTUM_CUT.as_nanos() as u64, &self.urgent);
        }
        let waited_ns = quantum.start_ns().saturating_sub(packet.queued_at_ns.load(Ordering::Relaxed));
        packet.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
        let again = packet.run(&quantum);
        let end_ns = quantum.now_ns();
        let worked_ns = end_ns.saturating_sub(quantum.start_ns());

        packet.worked(worked_ns);
        counters.turns_total.fetch_add(1, Ordering::Relaxed);
        counters.wait_ns_total.fetch_add(waited_ns, Ordering::Relaxed);
        counters.service_ns_total.fetch_add(worked_ns, Ordering::Relaxed);
        counters.running.fetch_sub(1, Ordering::Relaxed);
        slot.turns_total.fetch_add(1, Ordering::Relaxed);
        slot.busy_ns_total.fetch_add(worked_ns, Ordering::Relaxed);
        slot.turn_ns_max.fetch_max(worked_ns, Ordering::Relaxed);
        slot.stage.store(0, Ordering::Relaxed);
        if again {
            counters.queued.fetch_add(1, Ordering::Relaxed);
            packet.queued_at_ns.store(self.clock.now_ns(), Ordering::Relaxed);
        } else {
            counters.waits_total.fetch_add(1, Ordering::Relaxed);
            if turn.is_urgent && !turn.is_followed {
                return end_ns;
            }
        }
        let mut queues = self.queues.lock();
        queues.long_turns -= usize::from(!turn.is_urgent);
        if turn.is_followed {
            queues.policy.turn_ended(packet, worked_ns);
        }
        if again {
            // Under the same lock: nobody sees it neither on a worker nor in a queue.
            self.push(queues, packet.clone(), Arrival::Yielded);
        } else if queues.idle > 0 && queues.limits.is_any() {
            // Another packet of the stage may have its turn, and this worker may be one that does not ask for it.
            drop(queues);
            self.available.notify_one();
        }
        end_ns
    }

    /// Ends the workers after their present turn and waits for them. Packets that are queued stay there until somebody
    /// calls [`run_one`](Self::run_one) or the scheduler is dropped. Legal to call twice, and from a worker (which is
    /// then not waited for).
    pub fn stop(&self) {
        self.queues.lock().stopping = true;
        self.available.notify_all();
        self.express.notify_all();
        self.stand_in.notify_all();
        // Not under the lock: a worker may be here as well.
        let threads = std::mem::take(&mut *self.threads.lock());
        threads.into_iter().for_each(Thread::join);
    }
}

#[cfg(test)]
mod tests;
