//! Stages: every packet runs to its end on one worker at a time, no wake-up is lost, stopping leaves nothing behind.

use std::sync::{Arc, Weak};
use std::task::Waker;

use diligence_base::ids::QueryId;
use diligence_base::limits::PORT_CREDITS;
use diligence_base::seams::ManualClock;
use diligence_disk::IoPool;
use diligence_memory::QueryMemory;
use shuttle::thread;

use super::{DrivenSpawn, interleave, own_waker, receive};
use crate::exchange::Exchange;
use crate::exchange::port::{Receiver, Sender, port};
use crate::flow::profile::Meter;
use crate::flow::{Accept, QueryContext, Sink, Source};
use crate::operators::values::Values;
use crate::pipeline::PipelinePacket;
use crate::plan::Node;
use crate::plan::Pact;
use crate::query::tests::numbers;
use crate::stages::{
    Arrival, Crew, Packet, PacketState, Policies, PolicyKind, Quantum, Scheduler, StageId, StageWorkers, Step, Work,
};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};

/// What packets do is not measured in time: each turn says itself how it ends.
pub(super) fn scheduler(workers: usize, policies: impl Into<Policies>) -> Arc<Scheduler> {
    let clock = Arc::new(ManualClock::stepping(1_000_000));
    Scheduler::start(
        Crew { workers, nice: 0, is_pinned: false },
        policies.into(),
        Arc::new(crate::knobs::Knobs::new(workers)),
        clock,
        Arc::new(DrivenSpawn),
        runtime(),
    )
    .unwrap()
}

/// Schedulers want one; threads of shuttle never enter it.
fn runtime() -> tokio::runtime::Handle {
    static RUNTIME: std::sync::OnceLock<tokio::runtime::Runtime> = std::sync::OnceLock::new();
    let make = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    RUNTIME.get_or_init(make).handle().clone()
}

/// Counts what is left to do, and wakes a thread when that is nothing.
struct Countdown {
    left: AtomicUsize,
    waker: Waker,
}

impl Countdown {
    fn new(left: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(left), waker: own_waker() })
    }

    fn one_less(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waker.wake_by_ref();
        }
    }

    /// Called by the thread that made it.
    fn wait(&self) {
        while self.left.load(Ordering::Acquire) > 0 {
            thread::park();
        }
    }
}

/// Events that a packet waits for, one per turn.
#[derive(Default)]
struct Events {
    happened: AtomicUsize,
    waiting: Mutex<Option<Waker>>,
}

impl Events {
    fn happen(&self) {
        self.happened.fetch_add(1, Ordering::AcqRel);
        let waiting = self.waiting.lock().take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}

/// Takes so many turns; those with an even number left wait for an event.
struct Turns {
    left: usize,
    taken: usize,
    events: Arc<Events>,
    busy: Arc<AtomicBool>,
    done: Arc<Countdown>,
}

impl Work for Turns {
    fn run(&mut self, quantum: &Quantum<'_>) -> Step {
        assert!(!self.busy.swap(true, Ordering::AcqRel), "a packet runs on two workers");
        let step = self.turn(quantum.waker);
        self.busy.store(false, Ordering::Release);
        step
    }
}

impl Turns {
    fn turn(&mut self, waker: &Waker) -> Step {
        if self.left.is_multiple_of(2) && self.events.happened.load(Ordering::Acquire) <= self.taken {
            *self.events.waiting.lock() = Some(waker.clone());
            // It may have happened before anybody could see the waker.
            if self.events.happened.load(Ordering::Acquire) <= self.taken {
                return Step::Wait;
            }
        }
        self.taken += usize::from(self.left.is_multiple_of(2));
        self.left -= 1;
        if self.left > 0 {
            return Step::Yield;
        }
        self.done.one_less();
        Step::Done
    }
}

const TURNS: usize = 5;

/// Two queries that meet in a stage, one of them in two stages.
const PLACES: [(u64, StageId); 3] = [(0, StageId::Scan), (1, StageId::Scan), (1, StageId::Join)];

fn submit(
    scheduler: &Arc<Scheduler>,
    (query, stage): (u64, StageId),
    done: &Arc<Countdown>,
) -> (Arc<Packet>, Arc<Events>) {
    let events = Arc::<Events>::default();
    let work = Turns { left: TURNS, taken: 0, events: events.clone(), busy: Arc::default(), done: done.clone() };
    let packet = Packet::new(QueryId(query), stage, Box::new(work), scheduler);
    packet.submit(Arrival::New);
    (packet, events)
}

fn serve(policies: impl Into<Policies>, changes: &[Policies]) {
    serve_while(&scheduler(2, policies), |scheduler| changes.iter().for_each(|one| scheduler.set_policy(*one)));
}

fn serve_while(scheduler: &Arc<Scheduler>, changes: impl FnOnce(&Scheduler)) {
    let done = Countdown::new(3);
    let packets: Vec<_> = PLACES.into_iter().map(|place| submit(scheduler, place, &done)).collect();
    let waking = {
        let events: Vec<_> = packets.iter().map(|(_, events)| events.clone()).collect();
        thread::spawn(move || {
            for _ in 0..TURNS / 2 {
                events.iter().for_each(|events| events.happen());
            }
        })
    };
    changes(scheduler);
    done.wait();
    waking.join().unwrap();
    scheduler.stop();
    assert!(packets.iter().all(|(packet, _)| packet.state() == PacketState::Finished));
    let stages = scheduler.stages();
    assert_eq!(stages.iter().map(|stage| stage.queued + stage.running).sum::<usize>(), 0, "{stages:?}");
    assert_eq!(stages.iter().map(|stage| stage.packets_total).sum::<u64>(), 3);
    let turns: u64 = stages.iter().map(|stage| stage.turns_total).sum();
    let waits: u64 = stages.iter().map(|stage| stage.waits_total).sum();
    // A packet's last turn counts among the waits; a wake-up in mid-turn makes one more.
    assert!(turns >= 3 * TURNS as u64 && turns <= 3 * (TURNS + TURNS / 2) as u64, "{turns} turns");
    assert!((3..=3 + 3 * (TURNS / 2) as u64).contains(&waits), "{waits} waits");
}

#[test]
fn packets_take_turns_under_processor_sharing() {
    interleave(2_000, || serve(PolicyKind::ProcessorSharing, &[]));
}

#[test]
fn packets_are_served_first_come_first_served() {
    interleave(1_000, || serve(PolicyKind::Fcfs, &[]));
}

#[test]
fn packets_pass_gates() {
    interleave(1_000, || serve(PolicyKind::DGated, &[]));
    interleave(1_000, || serve(PolicyKind::TGated(1), &[]));
    // A millisecond is one look at the clock: members leave the cohort after a turn or two.
    interleave(1_000, || serve(PolicyKind::CGated(2), &[]));
}

#[test]
fn packets_move_over_when_the_policy_changes() {
    interleave(2_000, || serve(PolicyKind::TGated(1), &[PolicyKind::Fcfs, PolicyKind::DGated].map(Policies::from)));
    interleave(1_000, || {
        let of_stages: Policies = "processor_sharing, scan: t_gated(1)".parse().unwrap();
        serve(of_stages, &[PolicyKind::CGated(2).into(), of_stages, PolicyKind::default().into()]);
    });
}

#[test]
fn packets_pass_the_gate_of_one_stage() {
    interleave(1_000, || serve("two_level(6), scan: t_gated(1)".parse::<Policies>().unwrap(), &[]));
    interleave(1_000, || serve("d_gated, scan: fcfs, join: d_gated".parse::<Policies>().unwrap(), &[]));
}

/// One whose stages so many workers may serve.
fn limited(workers: usize, policies: &str, limits: &str) -> Arc<Scheduler> {
    let scheduler = scheduler(workers, policies.parse::<Policies>().unwrap());
    scheduler.set_limits(limits.parse().unwrap());
    scheduler
}

#[test]
fn packets_pass_stages_that_few_workers_serve() {
    interleave(2_000, || serve_while(&limited(2, "processor_sharing", "scan: 1"), |_| ()));
    interleave(1_000, || serve_while(&limited(2, "two_level(6)", "scan: 1, join: 1"), |_| ()));
    interleave(2_000, || {
        serve_while(&limited(2, "t_gated(1), scan: fcfs", "scan: 1"), |scheduler| {
            scheduler.set_limits(StageWorkers::default());
            scheduler.set_policy(PolicyKind::DGated.into());
            scheduler.set_limits("join: 1, scan: 2".parse().unwrap());
        });
    });
}

/// Yields so many times, and sees to it that no other like it runs meanwhile.
struct Sole {
    left: usize,
    here: Arc<AtomicUsize>,
    done: Arc<Countdown>,
}

impl Work for Sole {
    fn run(&mut self, _quantum: &Quantum<'_>) -> Step {
        assert_eq!(self.here.fetch_add(1, Ordering::AcqRel), 0, "two workers serve the stage");
        thread::yield_now();
        self.here.fetch_sub(1, Ordering::AcqRel);
        self.left -= 1;
        if self.left > 0 {
            return Step::Yield;
        }
        self.done.one_less();
        Step::Done
    }
}

#[test]
fn one_worker_at_a_time_serves_a_stage_that_one_may_serve() {
    interleave(3_000, || {
        const PACKETS: usize = 3;
        let scheduler = limited(2, "two_level(6)", "scan: 1");
        let (here, done) = (Arc::new(AtomicUsize::new(0)), Countdown::new(PACKETS));
        for query in 0..PACKETS {
            let work = Sole { left: 2, here: here.clone(), done: done.clone() };
            Packet::new(QueryId(query as u64), StageId::Scan, Box::new(work), &scheduler).submit(Arrival::New);
        }
        done.wait();
        scheduler.stop();
        assert_eq!(scheduler.stages()[StageId::Scan as usize].turns_total, 2 * PACKETS as u64);
    });
}

/// Yields so many times. Counts the queries that have begun, and those that have ended.
struct Yields {
    left: usize,
    begun: Option<Arc<AtomicUsize>>,
    done: Arc<Countdown>,
}

impl Work for Yields {
    fn run(&mut self, _quantum: &Quantum<'_>) -> Step {
        if let Some(begun) = self.begun.take() {
            begun.fetch_add(1, Ordering::AcqRel);
        }
        self.left -= 1;
        if self.left > 0 {
            return Step::Yield;
        }
        self.done.one_less();
        Step::Done
    }
}

#[test]
fn a_gate_opens_once_for_each_cohort_however_its_members_run() {
    interleave(3_000, || {
        const QUERIES: usize = 4;
        let scheduler = scheduler(2, PolicyKind::TGated(1));
        let (begun, done) = (Arc::new(AtomicUsize::new(0)), Countdown::new(QUERIES));
        for query in 0..QUERIES {
            let work = Yields { left: 3, begun: Some(begun.clone()), done: done.clone() };
            Packet::new(QueryId(query as u64), StageId::Scan, Box::new(work), &scheduler).submit(Arrival::New);
        }
        done.wait();
        scheduler.stop();
        assert_eq!(begun.load(Ordering::Acquire), QUERIES);
        // A member that yields is in its cohort still, so nobody is admitted twice; who was a guest only, never.
        let (cohorts, packets) = scheduler.cohorts();
        assert!(
            (1..=QUERIES as u64).contains(&cohorts) && packets == cohorts,
            "{cohorts} cohorts of {packets} packets"
        );
    });
}

/// Waits until another packet of its query has had its turn, which is made only in its own first turn.
struct WaitsForOwn {
    scheduler: Weak<Scheduler>,
    query: QueryId,
    events: Arc<Events>,
    made: bool,
    done: Arc<Countdown>,
}

impl Work for WaitsForOwn {
    fn run(&mut self, quantum: &Quantum<'_>) -> Step {
        if !self.made {
            self.made = true;
            *self.events.waiting.lock() = Some(quantum.waker.clone());
            if let Some(scheduler) = self.scheduler.upgrade() {
                let work = Box::new(Happens(self.events.clone()));
                Packet::new(self.query, StageId::Sort, work, &scheduler).submit(Arrival::New);
            }
        }
        if self.events.happened.load(Ordering::Acquire) == 0 {
            return Step::Wait;
        }
        self.done.one_less();
        Step::Done
    }
}

struct Happens(Arc<Events>);

impl Work for Happens {
    fn run(&mut self, _quantum: &Quantum<'_>) -> Step {
        self.0.happen();
        Step::Done
    }
}

/// Waits until a packet of the query behind it has ended, as one that waits for that one's memory or table.
struct WaitsForOther {
    events: Arc<Events>,
    done: Arc<Countdown>,
}

impl Work for WaitsForOther {
    fn run(&mut self, quantum: &Quantum<'_>) -> Step {
        *self.events.waiting.lock() = Some(quantum.waker.clone());
        if self.events.happened.load(Ordering::Acquire) == 0 {
            return Step::Wait;
        }
        self.done.one_less();
        Step::Done
    }
}

#[test]
fn who_waits_inside_of_a_gate_waits_for_nobody_whom_the_gate_keeps_out() {
    fn body(workers: usize, policies: Policies) {
        let scheduler = scheduler(workers, policies);
        let done = Countdown::new(3);
        for query in [1, 2].map(QueryId) {
            let (scheduler_of, events) = (Arc::downgrade(&scheduler), Arc::default());
            let work = WaitsForOwn { scheduler: scheduler_of, query, events, made: false, done: done.clone() };
            Packet::new(query, StageId::Scan, Box::new(work), &scheduler).submit(Arrival::New);
        }
        let events = Arc::<Events>::default();
        let work = WaitsForOther { events: events.clone(), done: done.clone() };
        Packet::new(QueryId(3), StageId::Scan, Box::new(work), &scheduler).submit(Arrival::New);
        Packet::new(QueryId(4), StageId::Scan, Box::new(Happens(events)), &scheduler).submit(Arrival::New);
        done.wait();
        scheduler.stop();
    }
    for policies in ["d_gated", "t_gated(1)", "c_gated(1)", "t_gated(1), scan: t_gated(1)"] {
        let policies: Policies = policies.parse().unwrap();
        for workers in [1, 2] {
            interleave(500, move || body(workers, policies));
        }
    }
}

/// Sends numbers into a port until they are all in.
struct Produce {
    next: usize,
    sender: Option<Sender<usize>>,
}

const NUMBERS: usize = 4;

impl Work for Produce {
    fn run(&mut self, quantum: &Quantum<'_>) -> Step {
        let Some(sender) = &self.sender else { return Step::Done };
        while self.next < NUMBERS {
            self.next += 1;
            if sender.send(self.next, quantum.waker) == Accept::Wait {
                return Step::Wait;
            }
        }
        self.sender = None;
        Step::Done
    }
}

/// Adds up what comes out of a port.
struct Consume {
    receiver: Receiver<usize>,
    sum: Arc<AtomicUsize>,
    done: Arc<Countdown>,
}

impl Work for Consume {
    fn run(&mut self, quantum: &Quantum<'_>) -> Step {
        match self.receiver.receive(quantum.waker) {
            std::task::Poll::Pending => Step::Wait,
            std::task::Poll::Ready(Some(number)) => {
                self.sum.fetch_add(number.unwrap(), Ordering::Relaxed);
                Step::Yield
            }
            std::task::Poll::Ready(None) => {
                self.done.one_less();
                Step::Done
            }
        }
    }
}

#[test]
fn packets_that_wait_for_a_port_are_woken() {
    interleave(4_000, || {
        let scheduler = scheduler(2, PolicyKind::ProcessorSharing);
        let done = Countdown::new(2);
        let sum = Arc::new(AtomicUsize::new(0));
        for query in 0..2 {
            let (sender, receiver) = port(1);
            let consume = Consume { receiver, sum: sum.clone(), done: done.clone() };
            let produce = [sender.clone(), sender].map(|sender| Produce { next: 0, sender: Some(sender) });
            let packet = |work| Packet::new(QueryId(query), StageId::Exchange, work, &scheduler);
            packet(Box::new(consume)).submit(Arrival::New);
            produce.into_iter().for_each(|work| packet(Box::new(work)).submit(Arrival::New));
        }
        done.wait();
        scheduler.stop();
        assert_eq!(sum.load(Ordering::Relaxed), 2 * 2 * (1..=NUMBERS).sum::<usize>());
    });
}

/// A packet of a pipeline without a query.
struct Alone(PipelinePacket);

impl Work for Alone {
    fn run(&mut self, quantum: &Quantum<'_>) -> Step {
        self.0.run(quantum).unwrap()
    }
}

#[test]
fn the_slowest_consumer_holds_its_producers() {
    interleave(2_000, || {
        const ROWS: usize = 16;
        const PRODUCERS: usize = 2;
        let scheduler = scheduler(2, PolicyKind::ProcessorSharing);
        let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 1, packets: PRODUCERS };
        let Node::Values { batches } = numbers(ROWS as i64).node else { unreachable!("numbers are values") };
        let source = Values::new(&batches, context.batch_rows);
        let exchange = Exchange::new(Pact::Broadcast, 2);
        let ends = [exchange.take_receiver().unwrap(), exchange.take_receiver().unwrap()];
        for _ in 0..PRODUCERS {
            let meter = || Meter::new(Arc::default());
            let source = (Source::open(source.as_ref(), &context).unwrap(), meter());
            let sink = (Sink::open(exchange.as_ref(), &context).unwrap(), meter());
            let work = Box::new(Alone(PipelinePacket::new(context.memory.clone(), source, Vec::new(), sink)));
            Packet::new(QueryId(1), StageId::Values, work, &scheduler).submit(Arrival::New);
        }
        exchange.complete().unwrap();
        let reading = ends.map(|end| {
            thread::spawn(move || {
                let mut rows = 0;
                while let Some(batch) = receive(&end) {
                    rows += batch.unwrap().rows();
                    assert!(end.queued() <= PORT_CREDITS + PRODUCERS, "{} batches are queued", end.queued());
                }
                rows
            })
        });
        for thread in reading {
            assert_eq!(thread.join().unwrap(), ROWS);
        }
        scheduler.stop();
    });
}

/// Something that happens once.
#[derive(Default)]
struct Flag(Mutex<bool>, Condvar);

impl Flag {
    fn raise(&self) {
        *self.0.lock() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        let mut is_raised = self.0.lock();
        while !*is_raised {
            self.1.wait(&mut is_raised);
        }
    }
}

/// Waits in the middle of its turns, outside of the engine, for packets that come later.
struct Outside {
    turns: usize,
    awaited: Option<Arc<Flag>>,
    raises: Arc<Flag>,
    scheduler: Arc<Scheduler>,
    done: Arc<Countdown>,
}

impl Work for Outside {
    fn run(&mut self, _quantum: &Quantum<'_>) -> Step {
        self.raises.raise();
        if let Some(awaited) = &self.awaited {
            self.scheduler.leave();
            awaited.wait();
            self.scheduler.come_back();
        }
        self.turns -= 1;
        if self.turns > 0 {
            return Step::Yield;
        }
        self.done.one_less();
        Step::Done
    }
}

#[test]
fn whoever_waits_outside_is_stood_in_for() {
    fn body(scheduler: &Arc<Scheduler>) {
        const PACKETS: u64 = 3;
        let done = Countdown::new(PACKETS as usize);
        let flags = (0..PACKETS).map(|_| Arc::<Flag>::default()).collect::<Vec<_>>();
        for query in 0..PACKETS {
            // With as many threads as workers, nobody would ever get on.
            let awaited = flags.get(query as usize + 1).cloned();
            let (raises, own) = (flags[query as usize].clone(), scheduler.clone());
            let work = Outside { turns: 2, awaited, raises, scheduler: own, done: done.clone() };
            Packet::new(QueryId(query), StageId::Scan, Box::new(work), scheduler).submit(Arrival::New);
        }
        done.wait();
        scheduler.stop();
        assert_eq!(scheduler.stages()[StageId::Scan as usize].turns_total, 2 * PACKETS);
    }
    interleave(3_000, || body(&scheduler(1, PolicyKind::ProcessorSharing)));
    // They wait for packets of their own stage, which one worker may serve.
    interleave(3_000, || body(&limited(1, "processor_sharing", "scan: 1")));
    interleave(1_000, || body(&limited(2, "two_level(6)", "scan: 1")));
}

/// Goes on for ever. Its token tells whether it still exists.
struct Endless(#[expect(dead_code, reason = "counted")] Arc<()>);

impl Work for Endless {
    fn run(&mut self, _quantum: &Quantum<'_>) -> Step {
        // Else PCT would let it go on for ever.
        thread::yield_now();
        Step::Yield
    }
}

/// Stops the scheduler that it runs on.
struct Stop(Weak<Scheduler>);

impl Work for Stop {
    fn run(&mut self, _quantum: &Quantum<'_>) -> Step {
        if let Some(scheduler) = self.0.upgrade() {
            scheduler.stop();
        }
        Step::Done
    }
}

#[test]
fn stopping_while_work_is_queued_leaves_nothing() {
    interleave(4_000, || {
        let scheduler = scheduler(2, PolicyKind::ProcessorSharing);
        let token = Arc::new(());
        for query in 0..3 {
            let work = Box::new(Endless(token.clone()));
            Packet::new(QueryId(query), StageId::Sort, work, &scheduler).submit(Arrival::New);
        }
        let own = scheduler.clone();
        let other = thread::spawn(move || own.stop());
        scheduler.stop();
        other.join().unwrap();
        scheduler.stop();
        let scheduler = Arc::into_inner(scheduler).expect("the workers have let go of their scheduler");
        assert_eq!(scheduler.stages().iter().map(|stage| stage.running).sum::<usize>(), 0);
        drop(scheduler);
        assert_eq!(Arc::strong_count(&token), 1, "a queued packet outlives its scheduler");
    });
}

#[test]
fn a_worker_may_stop_its_scheduler() {
    interleave(2_000, || {
        let scheduler = scheduler(2, PolicyKind::ProcessorSharing);
        let token = Arc::new(());
        Packet::new(QueryId(1), StageId::Sort, Box::new(Endless(token.clone())), &scheduler).submit(Arrival::New);
        let work = Box::new(Stop(Arc::downgrade(&scheduler)));
        Packet::new(QueryId(2), StageId::Sort, work, &scheduler).submit(Arrival::New);
        scheduler.stop();
    });
}

#[test]
fn jobs_run_once_and_stopping_drops_the_rest() {
    interleave(3_000, || {
        let clock = Arc::new(ManualClock::stepping(1));
        let pool = IoPool::start(2, clock, Arc::new(DrivenSpawn)).unwrap();
        let token = Arc::new(());
        let done = Countdown::new(4);
        let job = |done: &Arc<Countdown>| {
            let (token, done) = (token.clone(), done.clone());
            Box::new(move || {
                let _token = token;
                done.one_less();
            })
        };
        let submitting = {
            let (pool, jobs) = (pool.clone(), [job(&done), job(&done)]);
            thread::spawn(move || jobs.into_iter().for_each(|job| pool.submit(job)))
        };
        pool.submit(job(&done));
        pool.submit(job(&done));
        done.wait();
        submitting.join().unwrap();
        let late = Countdown::new(3);
        (0..3).for_each(|_| pool.submit(job(&late)));
        pool.stop();
        assert_eq!(pool.info().running, 0);
        assert_eq!(Arc::strong_count(&token), 1, "a job outlives the pool's threads");
    });
}
