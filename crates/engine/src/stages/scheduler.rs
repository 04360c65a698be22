//! The scheduler: the stages' queues behind one policy, the workers, the counters.

use std::sync::{Arc, OnceLock};
use std::task::Waker;

use diligence_base::ids::WorkerId;
use diligence_base::limits::{QUANTUM_CUT, STAND_INS_MAX};
use diligence_base::seams::{Clock, NiceSpawn, PinnedSpawn, Spawn, Thread};
use diligence_base::{Error, Result};
use diligence_disk::PoolInfo;

use super::policy::AnyOrder;
use super::{Arrival, Packet, Policies, Policy, Quantum, StageId};
use crate::knobs::Knobs;
use crate::sync::{
    self, Condvar, Latch, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

/// The one lock of the stages: every packet passes it twice a turn.
static QUEUES: Latch = Latch::new("stages");

/// Every so many turns the packet that has waited longest runs, whatever the policy says. With a quantum of 2 ms a
/// packet that any policy holds back is served within about 16 x 2 ms x the packets older than it.
const OLDEST_FIRST_EVERY: u64 = 16;

/// What a stage has done so far.
#[derive(Debug, Default)]
pub struct StageCounters {
    queued: AtomicUsize,
    running: AtomicUsize,
    packets_total: AtomicU64,
    turns_total: AtomicU64,
    waits_total: AtomicU64,
    wait_ns_total: AtomicU64,
    service_ns_total: AtomicU64,
}

/// A stage at one moment: what `system.stages` shows.
#[derive(Clone, Debug)]
pub struct StageInfo {
    /// Its name.
    pub name: &'static str,
    /// Packets in its queue.
    pub queued: usize,
    /// Packets on workers.
    pub running: usize,
    /// Packets that ever entered.
    pub packets_total: u64,
    /// Turns that packets had on workers.
    pub turns_total: u64,
    /// Turns that ended waiting for something other than a worker.
    pub waits_total: u64,
    /// Time spent in its queue, in nanoseconds.
    pub wait_ns_total: u64,
    /// Time spent on workers, in nanoseconds.
    pub service_ns_total: u64,
}

impl From<PoolInfo> for StageInfo {
    /// Threads for what blocks are a stage as well: its packets are their jobs, which have one turn each.
    fn from(pool: PoolInfo) -> Self {
        Self {
            name: pool.name,
            queued: pool.queued,
            running: pool.running,
            packets_total: pool.jobs_total,
            turns_total: pool.jobs_total - pool.queued as u64,
            waits_total: 0,
            wait_ns_total: pool.wait_ns_total,
            service_ns_total: pool.service_ns_total,
        }
    }
}

/// A worker at one moment: what `system.workers` shows.
#[derive(Clone, Debug)]
pub struct WorkerInfo {
    /// Its number.
    pub id: WorkerId,
    /// Whether it is the express worker, which runs packets of short queries only.
    pub is_express: bool,
    /// The stage whose packet it runs, if any.
    pub stage: Option<&'static str>,
    /// The query whose packet it runs, if any.
    pub query: Option<u64>,
    /// Turns it has given.
    pub turns_total: u64,
    /// Time it has worked, in nanoseconds.
    pub busy_ns_total: u64,
    /// The longest turn that it has given, in nanoseconds: so long others had to wait behind one.
    pub turn_ns_max: u64,
}

#[derive(Debug, Default)]
struct WorkerSlot {
    /// 0 when idle, else 1 + the stage.
    stage: AtomicUsize,
    query: AtomicU64,
    turns_total: AtomicU64,
    busy_ns_total: AtomicU64,
    turn_ns_max: AtomicU64,
}

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
struct Turn {
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
        let mut policy = policies.build();
        while let Some(packet) = queues.policy.pop() {
            policy.push(packet, Arrival::Woken);
        }
        queues.policy = policy;
        queues.policies = policies;
    }

    /// Cohorts that gated policies have admitted since the last change of policy, and the packets in them.
    pub fn cohorts(&self) -> (u64, u64) {
        self.queues.lock().policy.cohorts()
    }

    /// The stages at this moment.
    pub fn stages(&self) -> Vec<StageInfo> {
        StageId::ALL
            .iter()
            .zip(&self.counters)
            .map(|(stage, counters)| StageInfo {
                name: stage.name(),
                queued: counters.queued.load(Ordering::Relaxed),
                running: counters.running.load(Ordering::Relaxed),
                packets_total: counters.packets_total.load(Ordering::Relaxed),
                turns_total: counters.turns_total.load(Ordering::Relaxed),
                waits_total: counters.waits_total.load(Ordering::Relaxed),
                wait_ns_total: counters.wait_ns_total.load(Ordering::Relaxed),
                service_ns_total: counters.service_ns_total.load(Ordering::Relaxed),
            })
            .collect()
    }

    /// The workers at this moment.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.workers
            .iter()
            .enumerate()
            .map(|(index, slot)| {
                let stage = slot.stage.load(Ordering::Relaxed).checked_sub(1).map(|stage| StageId::ALL[stage].name());
                WorkerInfo {
                    id: WorkerId(index as u32),
                    // The last; without threads there is only one slot, and no express worker.
                    is_express: index > 0 && index + 1 == self.workers.len(),
                    stage,
                    query: stage.map(|_| slot.query.load(Ordering::Relaxed)),
                    turns_total: slot.turns_total.load(Ordering::Relaxed),
                    busy_ns_total: slot.busy_ns_total.load(Ordering::Relaxed),
                    turn_ns_max: slot.turn_ns_max.load(Ordering::Relaxed),
                }
            })
            .collect()
    }

    /// Queues a packet that was made ready by [`Packet::submit`].
    pub(super) fn enqueue(&self, packet: Arc<Packet>, arrival: Arrival) {
        let counters = &self.counters[packet.stage() as usize];
        counters.queued.fetch_add(1, Ordering::Relaxed);
        if arrival == Arrival::New {
            counters.packets_total.fetch_add(1, Ordering::Relaxed);
        }
        packet.queued_at_ns.store(self.clock.now_ns(), Ordering::Relaxed);
        self.push(self.queues.lock(), packet, arrival);
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

    fn pop(&self, queues: &mut Queues) -> Option<Turn> {
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
        Some(Turn { packet, is_urgent, may_be_cut, is_followed: queues.policy.follows_turns() })
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

    fn serve(&self, index: usize, wait: fn(&Self) -> Option<Turn>) {
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
            self.queues.lock().absent -= 1;
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
    fn wait_for_urgent(&self) -> Option<Turn> {
        let mut queues = self.queues.lock();
        while !queues.stopping {
            let packet = if queues.needs_express() { queues.policy.pop_urgent() } else { None };
            if let Some(packet) = packet {
                self.urgent.store(queues.policy.has_urgent(), Ordering::Relaxed);
                let is_followed = queues.policy.follows_turns();
                return Some(Turn { packet, is_urgent: true, may_be_cut: false, is_followed });
            }
            queues.express_sleeps = true;
            self.express.wait(&mut queues);
            queues.express_sleeps = false;
        }
        None
    }

    /// The next packet; `None` when the scheduler stops.
    fn wait_for_packet(&self) -> Option<Turn> {
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
    fn give(&self, slot: &WorkerSlot, turn: &Turn) -> u64 {
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
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use diligence_base::ids::QueryId;
    use diligence_base::limits::QUANTUM;
    use diligence_base::seams::{ManualClock, SystemClock, ThreadSpawn};

    use super::super::{PacketState, PolicyKind, Step, Work};
    use super::*;

    /// Runs for so many turns, reports each, then is done.
    struct Turns {
        query: u64,
        left: usize,
        seen: mpsc::Sender<u64>,
    }

    impl Work for Turns {
        fn run(&mut self, _quantum: &Quantum<'_>) -> Step {
            self.seen.send(self.query).unwrap();
            self.left -= 1;
            if self.left == 0 { Step::Done } else { Step::Yield }
        }
    }

    fn knobs() -> Arc<Knobs> {
        Arc::new(Knobs::new(2))
    }

    fn served(kind: PolicyKind, queries: &[(u64, usize)]) -> Vec<u64> {
        let scheduler =
            Arc::new(Scheduler::new(1, kind.build(), kind.into(), knobs(), Arc::new(SystemClock::default())));
        let (seen, order) = mpsc::channel();
        for &(query, left) in queries {
            let work = Turns { query, left, seen: seen.clone() };
            Packet::new(QueryId(query), StageId::Scan, Box::new(work), &scheduler).submit(Arrival::New);
        }
        while scheduler.run_one() {}
        drop(seen);
        order.into_iter().collect()
    }

    /// With so many workers on threads, in a runtime that is to live as long.
    fn started(workers: usize) -> (Arc<Scheduler>, tokio::runtime::Runtime) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (kind, clock) = (PolicyKind::default(), Arc::new(SystemClock::default()));
        let spawn = Arc::new(ThreadSpawn);
        let scheduler = Scheduler::start(
            Crew { workers, nice: 0, is_pinned: false },
            kind.into(),
            knobs(),
            clock,
            spawn,
            runtime.handle().clone(),
        );
        (scheduler.unwrap(), runtime)
    }

    #[test]
    fn processor_sharing_takes_turns() {
        assert_eq!(served(PolicyKind::ProcessorSharing, &[(1, 3), (2, 1), (3, 2)]), vec![1, 2, 3, 1, 3, 1]);
    }

    /// Turns of 0.6 ms.
    struct Works(Turns, Arc<ManualClock>);

    impl Work for Works {
        fn run(&mut self, quantum: &Quantum<'_>) -> Step {
            self.1.advance(600_000);
            self.0.run(quantum)
        }
    }

    #[test]
    fn whoever_has_used_little_goes_first() {
        let (kind, clock) = (PolicyKind::TwoLevel(1), Arc::new(ManualClock::stepping(0)));
        let scheduler = Arc::new(Scheduler::new(1, kind.build(), kind.into(), knobs(), clock.clone()));
        let (seen, order) = mpsc::channel();
        let submit = |query: u64, left: usize, attained: &Arc<AtomicU64>| {
            let work = Box::new(Works(Turns { query, left, seen: seen.clone() }, clock.clone()));
            let attained = attained.clone();
            Packet::beside(attained, QueryId(query), StageId::Scan, work, &scheduler).submit(Arrival::New);
        };
        let [first, second] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        submit(1, 4, &first);
        (0..3).for_each(|_| assert!(scheduler.run_one()));
        // The first query has used more than a millisecond now, whichever of its packets; the second has not yet.
        submit(1, 1, &first);
        submit(2, 3, &second);
        while scheduler.run_one() {}
        drop(seen);
        assert_eq!(order.into_iter().collect::<Vec<_>>(), [1, 1, 1, 2, 2, 1, 2, 1]);
    }

    /// Works until its turn is over, says how long that was, and has another come in between.
    struct Long {
        clock: Arc<ManualClock>,
        lengths_ns: mpsc::Sender<u64>,
        comes: Option<Arc<Packet>>,
        left: usize,
    }

    impl Work for Long {
        fn run(&mut self, quantum: &Quantum<'_>) -> Step {
            while !quantum.is_over(quantum.now_ns()) {
                self.clock.advance(100_000);
                if let Some(packet) = self.comes.take() {
                    packet.submit(Arrival::New);
                }
            }
            self.lengths_ns.send(quantum.now_ns() - quantum.start_ns()).unwrap();
            self.left -= 1;
            if self.left == 0 { Step::Done } else { Step::Yield }
        }
    }

    #[test]
    fn a_turn_is_cut_short_for_who_has_used_little() {
        let run = |attained_ns: u64, comes_attained_ns: u64| {
            let (kind, clock) = (PolicyKind::TwoLevel(1), Arc::new(ManualClock::stepping(0)));
            let scheduler = Arc::new(Scheduler::new(1, kind.build(), kind.into(), knobs(), clock.clone()));
            let (lengths_ns, lengths) = mpsc::channel();
            let packet = |query: u64, attained_ns: u64, work: Box<dyn Work>| {
                let attained = Arc::new(AtomicU64::new(attained_ns));
                Packet::beside(attained, QueryId(query), StageId::Scan, work, &scheduler)
            };
            let (seen, _order) = mpsc::channel();
            let comes = packet(2, comes_attained_ns, Box::new(Turns { query: 2, left: 1, seen }));
            let long = Long { clock, lengths_ns, comes: Some(comes), left: 2 };
            packet(1, attained_ns, Box::new(long)).submit(Arrival::New);
            while scheduler.run_one() {}
            lengths.into_iter().collect::<Vec<_>>()
        };
        let (long, cut) = (QUANTUM.as_nanos() as u64, QUANTUM_CUT.as_nanos() as u64);
        assert_eq!(run(9_000_000, 0), [cut.next_multiple_of(100_000), long]);
        assert_eq!(run(9_000_000, 9_000_000), [long, long], "not for one that has used as much");
        assert_eq!(run(0, 0), [long, long], "nor one's that has used as little");
    }

    #[test]
    fn many_that_have_used_little_leave_turns_to_the_others() {
        let kind = PolicyKind::TwoLevel(1);
        let scheduler =
            Arc::new(Scheduler::new(1, kind.build(), kind.into(), knobs(), Arc::new(ManualClock::stepping(0))));
        let (seen, order) = mpsc::channel();
        for (query, attained_ns) in [(1, 5_000_000), (2, 0)] {
            let work = Box::new(Turns { query, left: 10, seen: seen.clone() });
            let attained = Arc::new(AtomicU64::new(attained_ns));
            Packet::beside(attained, QueryId(query), StageId::Scan, work, &scheduler).submit(Arrival::New);
        }
        while scheduler.run_one() {}
        drop(seen);
        let order = order.into_iter().collect::<Vec<_>>();
        assert_eq!(order[..12], [2, 2, 2, 2, 1, 2, 2, 2, 2, 1, 2, 2]);
    }

    #[test]
    fn first_come_is_first_served_to_the_end() {
        assert_eq!(served(PolicyKind::Fcfs, &[(1, 3), (2, 1), (3, 2)]), vec![1, 1, 1, 2, 3, 3]);
    }

    #[test]
    fn a_threshold_gate_admits_so_many_queries() {
        assert_eq!(served(PolicyKind::TGated(2), &[(1, 2), (2, 2), (3, 1)]), vec![1, 1, 2, 2, 3]);
    }

    #[test]
    fn nothing_starves_behind_an_endless_query() {
        for kind in PolicyKind::ALL {
            let order = served(kind, &[(1, 400), (2, 1)]);
            let turn = order.iter().position(|&query| query == 2).unwrap();
            assert!(turn <= 2 * OLDEST_FIRST_EVERY as usize, "{kind} served the short query in turn {turn}");
        }
    }

    #[test]
    fn a_worker_without_packets_does_spare_work_once_for_each_time_it_is_wanted() {
        let (scheduler, _runtime) = started(2);
        let (done, times) = mpsc::channel();
        scheduler.set_spare_work(Box::new(move || done.send(()).unwrap()));
        for _ in 0..3 {
            scheduler.want_spare_work();
            times.recv_timeout(Duration::from_secs(10)).unwrap();
        }
        scheduler.stop();
        assert!(times.try_recv().is_err());
    }

    /// Works until it is told to stop.
    struct Occupies {
        began: mpsc::Sender<()>,
        ends: Arc<Mutex<mpsc::Receiver<()>>>,
    }

    impl Work for Occupies {
        fn run(&mut self, _quantum: &Quantum<'_>) -> Step {
            self.began.send(()).unwrap();
            self.ends.lock().recv().unwrap();
            Step::Done
        }
    }

    #[test]
    fn a_short_query_does_not_wait_for_the_end_of_a_long_ones_turn() {
        let (scheduler, _runtime) = started(1);
        let packet = |query: u64, attained_ns: u64, work: Box<dyn Work>| {
            let attained = Arc::new(AtomicU64::new(attained_ns));
            let packet = Packet::beside(attained, QueryId(query), StageId::Scan, work, &scheduler);
            packet.submit(Arrival::New);
            packet
        };
        let long_ns = 1_000_000_000;
        let (began, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        let first = packet(1, long_ns, Box::new(Occupies { began, ends: Arc::new(Mutex::new(ends)) }));
        begins.recv_timeout(Duration::from_secs(10)).unwrap();
        let (seen, order) = mpsc::channel();
        let second = packet(2, long_ns, Box::new(Turns { query: 2, left: 1, seen: seen.clone() }));
        packet(3, 0, Box::new(Turns { query: 3, left: 3, seen }));
        let turns: Vec<_> = (0..3).map(|_| order.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
        assert_eq!((turns, first.state(), second.state()), (vec![3; 3], PacketState::Running, PacketState::Queued));
        end.send(()).unwrap();
        assert_eq!(order.recv_timeout(Duration::from_secs(10)), Ok(2));
        scheduler.stop();
        let workers = scheduler.workers();
        let served = workers.iter().map(|worker| (worker.is_express, worker.turns_total));
        assert_eq!(served.collect::<Vec<_>>(), [(false, 2), (true, 3)]);
    }

    /// Waits outside of the engine until it is told to go on.
    struct Waits(Occupies, Arc<Scheduler>);

    impl Work for Waits {
        fn run(&mut self, quantum: &Quantum<'_>) -> Step {
            self.1.leave();
            let step = self.0.run(quantum);
            self.1.come_back();
            step
        }
    }

    #[test]
    fn whoever_waits_outside_is_in_nobodys_way() {
        let (scheduler, _runtime) = started(1);
        let long_ns = 1_000_000_000;
        let packet = |query: u64, work: Box<dyn Work>| {
            let attained = Arc::new(AtomicU64::new(long_ns));
            Packet::beside(attained, QueryId(query), StageId::Scan, work, &scheduler).submit(Arrival::New);
        };
        let (began, begins) = mpsc::channel();
        let ends = (0..3).map(|query| {
            let (end, ends) = mpsc::channel();
            let occupies = Occupies { began: began.clone(), ends: Arc::new(Mutex::new(ends)) };
            packet(query, Box::new(Waits(occupies, scheduler.clone())));
            // Each waits while those before it do so as well.
            begins.recv_timeout(Duration::from_secs(10)).unwrap();
            end
        });
        let ends = ends.collect::<Vec<_>>();
        let (seen, order) = mpsc::channel();
        packet(9, Box::new(Turns { query: 9, left: 5, seen: seen.clone() }));
        (0..5).for_each(|_| assert_eq!(order.recv_timeout(Duration::from_secs(10)), Ok(9)));
        ends.iter().for_each(|end| end.send(()).unwrap());
        packet(10, Box::new(Turns { query: 10, left: 1, seen }));
        assert_eq!(order.recv_timeout(Duration::from_secs(10)), Ok(10));
        scheduler.stop();
        let queues = scheduler.queues.lock();
        assert_eq!((queues.absent, queues.standing_in), (0, 0));
        assert!((3..=4).contains(&queues.stand_ins), "{}", queues.stand_ins);
    }

    #[test]
    fn workers_serve_from_many_threads_and_stop() {
        let (scheduler, _runtime) = started(3);
        let (seen, order) = mpsc::channel();
        for query in 0..20 {
            let work = Turns { query, left: 10, seen: seen.clone() };
            Packet::new(QueryId(query), StageId::Join, Box::new(work), &scheduler).submit(Arrival::New);
        }
        drop(seen);
        let mut turns = 0;
        while order.recv_timeout(Duration::from_secs(10)).is_ok() {
            turns += 1;
        }
        assert_eq!(turns, 200);
        scheduler.stop();
        let info = &scheduler.stages()[StageId::Join as usize];
        assert_eq!((info.packets_total, info.turns_total, info.queued, info.running), (20, 200, 0, 0));
    }
}
