//! What gates admit, in which order cohorts pass the stages, with one worker and with several, policies of single
//! stages beside them, and stages that few workers may serve.

use std::collections::BTreeMap;
use std::sync::Arc;

use diligence_base::ids::QueryId;
use diligence_base::seams::{ManualClock, Random};

use super::{Arrival, Packet, Policies, Policy, PolicyKind, Quantum, Scheduler, StageId, Step, Work};
use crate::sync::Mutex;

use StageId::{Aggregate, Join, Memory, Scan, Sort};

/// A query's way through the stages: so many turns of a millisecond in each. At each turn it says its number and where
/// it is, and others may come then.
struct Route {
    query: u64,
    places: Vec<(StageId, usize)>,
    line: Arc<Line>,
}

/// What all queries of a test have in common.
struct Line {
    scheduler: Arc<Scheduler>,
    clock: Arc<ManualClock>,
    turns: Mutex<Vec<(u64, StageId)>>,
    /// Who comes when so many turns have been given.
    comes: Mutex<BTreeMap<usize, Vec<(u64, Vec<(StageId, usize)>)>>>,
}

impl Line {
    fn new(policies: impl Into<Policies>) -> Arc<Self> {
        let clock = Arc::new(ManualClock::stepping(0));
        let scheduler = Scheduler::inline(1, Arc::new(crate::knobs::Knobs::new(1)), clock.clone());
        scheduler.set_policy(policies.into());
        Arc::new(Self { scheduler, clock, turns: Mutex::default(), comes: Mutex::default() })
    }

    fn submit(self: &Arc<Self>, query: u64, places: &[(StageId, usize)]) {
        let work = Route { query, places: places.to_vec(), line: self.clone() };
        Packet::new(QueryId(query), places[0].0, Box::new(work), &self.scheduler).submit(Arrival::New);
    }

    fn comes_at(&self, turn: usize, query: u64, places: &[(StageId, usize)]) {
        self.comes.lock().entry(turn).or_default().push((query, places.to_vec()));
    }

    /// Gives turns until nobody is left, and says who had them.
    fn served(&self) -> Vec<(u64, StageId)> {
        while self.scheduler.run_one() {}
        std::mem::take(&mut *self.turns.lock())
    }
}

impl Work for Route {
    fn run(&mut self, _quantum: &Quantum<'_>) -> Step {
        self.line.clock.advance(1_000_000);
        let turn = {
            let mut turns = self.line.turns.lock();
            turns.push((self.query, self.places[0].0));
            turns.len()
        };
        let comes = self.line.comes.lock().remove(&turn).unwrap_or_default();
        for (query, places) in comes {
            self.line.submit(query, &places);
        }
        self.places[0].1 -= 1;
        if self.places[0].1 > 0 {
            return Step::Yield;
        }
        // The next packet is there before this one ends, as in a query.
        if self.places.len() > 1 {
            self.line.submit(self.query, &self.places[1..]);
        }
        Step::Done
    }
}

#[test]
fn a_cohort_passes_every_stage_before_the_next_is_admitted() {
    let line = Line::new(PolicyKind::DGated);
    line.submit(1, &[(Scan, 2), (Join, 1), (Sort, 1)]);
    line.submit(2, &[(Scan, 1), (Join, 2)]);
    // The third comes in the cohort's first turn, and the fourth at its end; both are in the next one.
    line.comes_at(1, 3, &[(Scan, 1), (Sort, 1)]);
    line.comes_at(7, 4, &[(Scan, 1), (Join, 1)]);
    let first = [(1, Scan), (1, Scan), (2, Scan), (1, Join), (2, Join), (2, Join), (1, Sort)];
    let second = [(3, Scan), (4, Scan), (4, Join), (3, Sort)];
    assert_eq!(line.served(), [&first[..], &second].concat());
    assert_eq!(line.scheduler.cohorts(), (2, 4));
}

#[test]
fn a_query_that_comes_back_to_a_stage_is_in_its_cohort_still() {
    let line = Line::new(PolicyKind::DGated);
    line.submit(1, &[(Scan, 1), (Join, 1), (Scan, 1), (Aggregate, 1)]);
    line.submit(2, &[(Scan, 1), (Aggregate, 1)]);
    line.comes_at(1, 3, &[(Scan, 1)]);
    let cohort = [(1, Scan), (2, Scan), (1, Join), (2, Aggregate), (1, Scan), (1, Aggregate)];
    assert_eq!(line.served(), [&cohort[..], &[(3, Scan)]].concat());
}

#[test]
fn a_threshold_admits_the_first_of_those_that_wait() {
    let line = Line::new(PolicyKind::TGated(2));
    for query in 1..=5 {
        line.submit(query, &[(Scan, 1), (Join, 1)]);
    }
    let cohort = |queries: &[u64]| [Scan, Join].iter().flat_map(|&at| queries.iter().map(move |&q| (q, at))).collect();
    let cohorts: [Vec<_>; 3] = [cohort(&[1, 2]), cohort(&[3, 4]), cohort(&[5])];
    assert_eq!(line.served(), cohorts.concat());
    assert_eq!(line.scheduler.cohorts(), (3, 5));
}

#[test]
fn d_gated_is_first_come_first_served_while_one_query_at_most_is_queued() {
    let served = |kind: PolicyKind| {
        let line = Line::new(kind);
        line.submit(1, &[(Scan, 2), (Join, 2), (Sort, 1)]);
        line.comes_at(3, 2, &[(Scan, 1), (Join, 3)]);
        line.comes_at(7, 3, &[(Join, 2), (Scan, 1)]);
        line.served()
    };
    assert_eq!(served(PolicyKind::DGated), served(PolicyKind::Fcfs));
    assert_eq!(served(PolicyKind::TGated(2)), served(PolicyKind::Fcfs));
}

#[test]
fn who_exceeds_the_cutoff_in_a_stage_joins_the_next_cohort() {
    let line = Line::new(PolicyKind::CGated(2));
    // 2 ms in each of two stages are below the cutoff until they are reached.
    line.submit(1, &[(Scan, 5), (Join, 1)]);
    line.submit(2, &[(Scan, 1), (Join, 1)]);
    line.comes_at(1, 3, &[(Scan, 1), (Join, 1)]);
    let cohorts = [
        // The first has had its 2 ms and stays where it is; the second passes the line.
        [(1, Scan), (1, Scan), (2, Scan), (2, Join)].as_slice(),
        // It is the first of the next cohort, as it came first.
        &[(1, Scan), (1, Scan), (3, Scan), (3, Join)],
        &[(1, Scan), (1, Join)],
    ];
    assert_eq!(line.served(), cohorts.concat());
}

#[test]
fn what_gives_memory_back_passes_the_gate() {
    let line = Line::new(PolicyKind::TGated(1));
    line.submit(1, &[(Scan, 3)]);
    line.comes_at(1, 2, &[(Memory, 1)]);
    assert_eq!(line.served(), [(1, Scan), (2, Memory), (1, Scan), (1, Scan)]);
}

/// Packets that are moved by hand, as workers would.
struct ByHand {
    policy: Box<dyn Policy>,
    scheduler: Arc<Scheduler>,
}

/// Never run.
struct Nothing;

impl Work for Nothing {
    fn run(&mut self, _quantum: &Quantum<'_>) -> Step {
        Step::Done
    }
}

impl ByHand {
    fn new(policies: impl Into<Policies>) -> Self {
        let scheduler = Scheduler::inline(1, Arc::new(crate::knobs::Knobs::new(1)), Arc::new(ManualClock::stepping(0)));
        Self { policy: policies.into().build(), scheduler }
    }

    fn limited(policies: impl Into<Policies>, limits: &str) -> Self {
        Self { policy: policies.into().build_with(limits.parse().unwrap()), ..Self::new(PolicyKind::Fcfs) }
    }

    fn packet(&self, query: u64, stage: StageId) -> Arc<Packet> {
        Packet::new(QueryId(query), stage, Box::new(Nothing), &self.scheduler)
    }

    fn comes(&mut self, query: u64, stage: StageId) {
        let packet = self.packet(query, stage);
        self.policy.push(packet, Arrival::New);
    }

    /// A worker asks for a packet, which is to be of this query and stage.
    #[track_caller]
    fn takes(&mut self, query: u64, stage: StageId) -> Arc<Packet> {
        let packet = self.policy.pop().expect("a packet is in a queue");
        assert_eq!((packet.query(), packet.stage()), (QueryId(query), stage));
        packet
    }

    fn yields(&mut self, packet: Arc<Packet>) {
        self.policy.turn_ended(&packet, 1);
        self.policy.push(packet, Arrival::Yielded);
    }

    /// It waits, or has ended.
    fn leaves(&mut self, packet: &Arc<Packet>) {
        self.policy.turn_ended(packet, 1);
    }
}

#[test]
fn a_gate_stays_closed_while_a_member_runs_on_another_worker() {
    let mut line = ByHand::new(PolicyKind::TGated(1));
    line.comes(1, Scan);
    line.comes(2, Scan);
    let member = line.takes(1, Scan);
    // The other worker would be idle: a guest has a turn, and is not admitted by that.
    let guest = line.takes(2, Scan);
    line.yields(member);
    line.yields(guest);
    // Both are free: the member is first, as it is inside, and again as long as it yields.
    for _ in 0..3 {
        let member = line.takes(1, Scan);
        let guest = line.takes(2, Scan);
        line.yields(guest);
        line.yields(member);
    }
    assert_eq!(line.policy.cohorts(), (1, 1));
    let member = line.takes(1, Scan);
    line.comes(1, Join);
    line.leaves(&member);
    let last = line.takes(1, Join);
    line.leaves(&last);
    assert_eq!(line.policy.cohorts(), (1, 1));
    let second = line.takes(2, Scan);
    assert_eq!(line.policy.cohorts(), (2, 2));
    line.leaves(&second);
    assert!(line.policy.pop().is_none());
}

#[test]
fn a_worker_that_finds_nobody_in_the_cohorts_stage_goes_ahead_and_comes_back() {
    let mut line = ByHand::new(PolicyKind::DGated);
    line.comes(1, Scan);
    line.comes(2, Join);
    line.comes(3, Scan);
    let [first, third] = [line.takes(1, Scan), line.takes(3, Scan)];
    let ahead = line.takes(2, Join);
    line.yields(third);
    line.yields(ahead);
    // The cohort is at the scans as long as one of it is there.
    let third = line.takes(3, Scan);
    let ahead = line.takes(2, Join);
    line.leaves(&third);
    line.comes(3, Join);
    line.yields(ahead);
    line.yields(first);
    let first = line.takes(1, Scan);
    line.leaves(&first);
    // It goes on, and each of it to its end there.
    for query in [2, 3] {
        let packet = line.takes(query, Join);
        line.leaves(&packet);
    }
    assert!(line.policy.pop().is_none());
}

#[test]
fn a_cohort_whose_members_wait_has_ended_and_they_are_the_first_of_the_next() {
    let mut line = ByHand::new(PolicyKind::TGated(2));
    for query in 1..=4 {
        line.comes(query, Scan);
    }
    let [first, second] = [line.takes(1, Scan), line.takes(2, Scan)];
    // The first waits and is woken while its cohort goes on: it is inside still.
    line.leaves(&first);
    line.policy.push(first, Arrival::Woken);
    line.yields(second);
    let second = line.takes(2, Scan);
    let first = line.takes(1, Scan);
    line.leaves(&first);
    line.leaves(&second);
    // Both wait, for whatever: others are admitted, and they come back before those that came later.
    let third = line.takes(3, Scan);
    line.policy.push(first, Arrival::Woken);
    line.yields(third);
    let third = line.takes(3, Scan);
    let fourth = line.takes(4, Scan);
    line.leaves(&third);
    line.leaves(&fourth);
    assert_eq!(line.policy.cohorts(), (2, 4));
    let first = line.takes(1, Scan);
    line.comes(5, Scan);
    line.comes(6, Scan);
    line.policy.push(fourth, Arrival::Woken);
    line.leaves(&first);
    assert_eq!(line.policy.cohorts(), (3, 5));
    line.takes(4, Scan);
    line.takes(5, Scan);
    assert_eq!(line.policy.cohorts(), (4, 7));
}

#[test]
fn a_packet_that_is_woken_before_its_worker_says_that_it_waits_is_in_its_cohort() {
    let mut line = ByHand::new(PolicyKind::TGated(1));
    line.comes(1, Scan);
    line.comes(2, Scan);
    let packet = line.takes(1, Scan);
    // Another thread wakes it, and another worker takes it.
    line.policy.push(packet.clone(), Arrival::Woken);
    let again = line.takes(1, Scan);
    line.leaves(&packet);
    line.yields(again);
    let again = line.takes(1, Scan);
    line.leaves(&again);
    line.takes(2, Scan);
    assert_eq!(line.policy.cohorts(), (2, 2));
}

#[test]
fn turns_that_another_policy_gave_change_nothing() {
    let mut line = ByHand::new(PolicyKind::TGated(1));
    let stray = line.packet(1, Scan);
    line.comes(1, Scan);
    line.comes(2, Scan);
    let member = line.takes(1, Scan);
    line.leaves(&stray);
    line.yields(member);
    line.takes(1, Scan);
    assert_eq!(line.policy.cohorts(), (1, 1));
}

/// What happens to packets at random, on so many workers.
fn anything(policies: &str, seed: u64) {
    let mut random = Random::new(seed);
    let mut line = ByHand::new(policies.parse::<Policies>().unwrap());
    let workers = 1 + random.below(4);
    let (mut queued, mut running, mut waiting) = (Vec::<Arc<Packet>>::new(), Vec::<Arc<Packet>>::new(), Vec::new());
    for step in 0..400_u64 {
        match random.below(6) {
            0 => {
                let stage = random.pick(&[Scan, Join, Sort, Memory]);
                // Of a query that is there, or of a new one.
                let query = if random.chance(50) { step } else { random.below(1 + step as usize) as u64 };
                let packet = line.packet(query, stage);
                line.policy.push(packet.clone(), Arrival::New);
                queued.push(packet);
            }
            1 if !waiting.is_empty() => {
                let packet: Arc<Packet> = waiting.swap_remove(random.below(waiting.len()));
                line.policy.push(packet.clone(), Arrival::Woken);
                queued.push(packet);
            }
            2 | 3 if !running.is_empty() => {
                let packet = running.swap_remove(random.below(running.len()));
                line.policy.turn_ended(&packet, 400_000);
                match random.below(3) {
                    0 => {
                        line.policy.push(packet.clone(), Arrival::Yielded);
                        queued.push(packet);
                    }
                    1 => waiting.push(packet),
                    _ => {}
                }
            }
            _ if running.len() < workers => {
                let oldest = random.chance(10);
                let packet = if oldest { line.policy.pop_oldest() } else { line.policy.pop() };
                assert_eq!(packet.is_some(), !queued.is_empty(), "{policies}, seed {seed}, step {step}");
                let Some(packet) = packet else { continue };
                let place = queued.iter().position(|queued| Arc::ptr_eq(queued, &packet));
                queued.swap_remove(place.unwrap_or_else(|| panic!("{policies}, seed {seed}: {packet:?} twice")));
                running.push(packet);
            }
            _ => {}
        }
    }
    while let Some(packet) = line.policy.pop() {
        let place = queued.iter().position(|queued| Arc::ptr_eq(queued, &packet)).unwrap();
        queued.swap_remove(place);
    }
    assert!(queued.is_empty(), "{policies}, seed {seed}: {queued:?} are in no queue");
}

#[test]
fn whoever_asks_gets_a_packet_if_one_is_queued_and_each_once() {
    for seed in 0..300 {
        for policies in [
            "d_gated",
            "t_gated(1)",
            "t_gated(3)",
            "c_gated(1)",
            "two_level(6), scan: t_gated(2)",
            "fcfs, scan: d_gated, join: processor_sharing",
            "t_gated(2), sort: c_gated(1), memory: fcfs",
        ] {
            anything(policies, seed);
        }
    }
}

#[test]
fn a_stages_own_policy_chooses_who_stands_for_it() {
    // Across stages queries take turns; of the scans, one query after the other goes to its end there.
    let line = Line::new("processor_sharing, scan: t_gated(1)".parse::<Policies>().unwrap());
    line.submit(1, &[(Scan, 2)]);
    line.submit(2, &[(Scan, 2)]);
    line.submit(3, &[(Join, 3)]);
    let scans = |served: &[(u64, StageId)]| served.iter().filter(|(_, at)| *at == Scan).copied().collect::<Vec<_>>();
    let served = line.served();
    assert_eq!(scans(&served), [(1, Scan), (1, Scan), (2, Scan), (2, Scan)]);
    // And the join has its turns between theirs.
    let joins: Vec<_> = served.iter().enumerate().filter(|(_, (_, at))| *at == Join).map(|(turn, _)| turn).collect();
    assert!(joins.len() == 3 && joins[0] <= 2 && joins[2] < served.len(), "{served:?}");
    assert_eq!(line.scheduler.cohorts(), (2, 2));
}

#[test]
fn nothing_starves_behind_an_endless_scan_whatever_its_stage_says() {
    for policies in
        ["fcfs, scan: fcfs", "two_level(6), scan: t_gated(1)", "d_gated, join: t_gated(1)", "fcfs, join: fcfs"]
    {
        let line = Line::new(policies.parse::<Policies>().unwrap());
        line.submit(1, &[(Scan, 900)]);
        line.submit(2, &[(Scan, 1)]);
        line.submit(3, &[(Join, 1)]);
        let served = line.served();
        for query in [2, 3] {
            let turn = served.iter().position(|(other, _)| *other == query).unwrap();
            // The guard asks one of eleven queues every sixteenth turn.
            assert!(turn <= 2 * 11 * 16, "{policies}: query {query} had turn {turn}");
        }
    }
}

#[test]
fn policies_of_stages_are_read_and_shown() {
    let policies: Policies = " T-Gated(3) , SCAN: ps, sort : c_gated ".parse().unwrap();
    assert_eq!(policies.to_string(), "t_gated(3), scan: processor_sharing, sort: c_gated(10)");
    assert_eq!(policies.to_string().parse::<Policies>().unwrap(), policies);
    let alone: Policies = "scan: fcfs".parse().unwrap();
    assert_eq!(alone.to_string(), "two_level(6), scan: fcfs");
    assert_eq!(Policies::from(PolicyKind::Fcfs).to_string(), "fcfs");
    for (wrong, hint) in [
        ("scans: fcfs", "scan, join"),
        ("fcfs, scan: lifo", "t_gated"),
        ("fcfs, d_gated", "at most one"),
        ("fcfs, scan: fcfs, scan: d_gated", "at most one"),
        ("fcfs,", "t_gated"),
        ("", "t_gated"),
    ] {
        let error = wrong.parse::<Policies>().unwrap_err();
        assert!(error.hint().unwrap().contains(hint), "{wrong}: {error}");
    }
}

#[test]
fn a_stage_has_no_more_workers_than_it_may() {
    let mut line = ByHand::limited(PolicyKind::ProcessorSharing, "scan: 1");
    (1..=3).for_each(|query| line.comes(query, Scan));
    line.comes(4, Join);
    let other = line.takes(4, Join);
    let first = line.takes(1, Scan);
    assert!(line.policy.pop().is_none() && line.policy.pop_oldest().is_none(), "two scans wait");
    line.leaves(&other);
    assert!(line.policy.pop().is_none(), "a place elsewhere is none here");
    line.yields(first);
    let second = line.takes(2, Scan);
    assert!(line.policy.pop().is_none());
    // Who waits for something outside holds no place.
    line.policy.allow_beyond(1);
    let third = line.takes(3, Scan);
    assert!(line.policy.pop().is_none());
    line.policy.allow_beyond(0);
    line.leaves(&second);
    assert!(line.policy.pop().is_none(), "one scan has a turn");
    line.leaves(&third);
    let first = line.policy.pop_oldest().expect("the first waits still");
    assert_eq!(first.query(), QueryId(1));
    line.leaves(&first);
    assert!(line.policy.pop().is_none());
}

#[test]
fn who_finds_no_place_in_a_stage_cuts_nobodys_turn_short() {
    let mut line = ByHand::limited(PolicyKind::default(), "scan: 1");
    line.comes(1, Scan);
    assert!(line.policy.has_urgent());
    let first = line.takes(1, Scan);
    line.comes(2, Scan);
    assert!(!line.policy.has_urgent() && line.policy.pop_urgent().is_none());
    line.leaves(&first);
    assert!(line.policy.has_urgent());
    assert_eq!(line.policy.pop_urgent().map(|packet| packet.query()), Some(QueryId(2)));
}

#[test]
fn gates_and_limits_of_a_stage_go_together() {
    for (policies, limits) in [("t_gated(1)", "scan: 1"), ("two_level(6), scan: d_gated", "scan: 2, join: 1")] {
        let line = Line::new(policies.parse::<Policies>().unwrap());
        line.scheduler.set_limits(limits.parse().unwrap());
        for query in 1..=4 {
            line.submit(query, &[(Scan, 2), (Join, 1), (Sort, 1)]);
        }
        let mut served = line.served();
        served.sort_unstable();
        let expected = (1..=4).flat_map(|query| [Scan, Scan, Join, Sort].map(|stage| (query, stage)));
        assert_eq!(served, expected.collect::<Vec<_>>(), "{policies}, {limits}");
    }
}
