//! Tests of the scheduler: orders, cut turns, starvation, spare work, stand-ins, workers on threads.

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
    let scheduler = Arc::new(Scheduler::new(1, kind.build(), kind.into(), knobs(), Arc::new(SystemClock::default())));
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
    let scheduler = Arc::new(Scheduler::new(1, kind.build(), kind.into(), knobs(), Arc::new(ManualClock::stepping(0))));
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
