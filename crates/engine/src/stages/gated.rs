//! The gated policies: a *cohort* of queries is admitted together and carried through the stages to the end, one stage
//! after another, so that what a stage needs of the caches is there for all of its queries (Harizopoulos, "Staged
//! Database Systems", thesis proposal, section 3.3.2).
//!
//! ```text
//!                 gate                     cohort
//!   queries ---->  |  ---> scan ---> join ---> aggregate ---> ... ---> ended
//!   in front of it |         ^                                   |
//!        ^         |         +----- a query comes back here -----+
//!        +--- left behind: longer in a stage than the cutoff, or waiting when the cohort ends
//! ```
//!
//! D-gated admits all queries that are in front of the gate, T-gated(N) the first N of them, C-gated all, but whoever
//! has used more than the cutoff in one stage is left behind and joins the next cohort. Within a stage packets are
//! served first come first served, and each to its end there; the cohort goes on when nobody of it is left in a stage.
//!
//! The paper's line has one processor and no waiting. Here there are many workers, and packets wait: for I/O, for
//! credits of a port, for memory, for a table or a state of another query, for a reader. So these rules hold as well:
//!
//! * What a gate admits is a query, with all packets that it has or will have: a packet may wait for another one of its
//!   query, which must not be on the other side of the gate.
//! * A cohort has ended when a worker asks for a packet and no query of the cohort has one in a queue or on a worker.
//!   Who waits then is left behind. When it is woken it is in front of the gate as everybody who comes, in the order of
//!   queries, and so before those that came after it. So no place in a cohort is held by who waits, neither for a slow
//!   reader nor for a query in front of the gate that has the memory which it needs.
//! * A gate keeps nobody from an idle worker. While members of the cohort run on other workers and none is in a queue,
//!   a worker gives a turn to a *guest* from in front of the gate, and members are first again after it. Guests stay
//!   where they are, so a cohort has N queries at most, and no other is admitted before it has ended.
//! * What gives memory back goes first, in the cohort or not: others wait for it.
//!
//! It follows that whenever a packet is in a queue, a worker that asks gets one. Policies do not decide anything else,
//! so whatever can end under another one ends under these, and nothing can wait in a circle because of a gate.
//!
//! As the policy of one stage ([`Policies`](super::Policies)) a gate sees the packets of that stage alone: a cohort is
//! served to its end in the stage.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use diligence_base::ids::QueryId;

use super::{Arrival, Packet, Policy, StageId};
use crate::sync::atomic::Ordering;

const STAGES: usize = StageId::ALL.len();

/// All three gated policies.
pub(super) struct Gated {
    /// Who is in front of the gate. Queries are numbered in the order in which they come.
    outside: BTreeMap<QueryId, VecDeque<Arc<Packet>>>,
    /// The queries of the cohort, and what each has used in each stage since it was admitted, in nanoseconds.
    members: BTreeMap<QueryId, [u64; STAGES]>,
    /// The packets of the cohort that wait for a worker, by stage.
    inside: [VecDeque<Arc<Packet>>; STAGES],
    /// What gives memory back.
    first: VecDeque<Arc<Packet>>,
    /// Packets on workers. One that has waited and was woken before its worker said so is here twice.
    running: Vec<Arc<Packet>>,
    /// Where the cohort is.
    stage: usize,
    cohorts_total: u64,
    admitted_total: u64,
    queries_max: usize,
    cutoff_ns: u64,
}

impl Gated {
    /// A policy whose cohorts have at most `queries_max` queries, each of which is left behind after `cutoff_ns` in a
    /// stage.
    pub(super) fn new(queries_max: Option<usize>, cutoff_ns: Option<u64>) -> Self {
        Self {
            outside: BTreeMap::new(),
            members: BTreeMap::new(),
            inside: Default::default(),
            first: VecDeque::new(),
            running: Vec::new(),
            stage: 0,
            cohorts_total: 0,
            admitted_total: 0,
            queries_max: queries_max.unwrap_or(usize::MAX),
            cutoff_ns: cutoff_ns.unwrap_or(u64::MAX),
        }
    }

    /// Whether a member of the cohort is on a worker, in that stage or in any.
    fn runs(&self, stage: Option<usize>) -> bool {
        let here = |packet: &Packet| stage.is_none_or(|stage| packet.stage() as usize == stage);
        self.running.iter().any(|packet| here(packet) && self.members.contains_key(&packet.query()))
    }

    fn cohort_has_ended(&self) -> bool {
        self.inside.iter().all(VecDeque::is_empty) && !self.runs(None)
    }

    /// Opens the gate for the next cohort, if anybody is there.
    fn admit(&mut self) {
        self.members.clear();
        self.stage = 0;
        while self.members.len() < self.queries_max
            && let Some((query, packets)) = self.outside.pop_first()
        {
            self.members.insert(query, [0; STAGES]);
            self.admitted_total += packets.len() as u64;
            for packet in packets {
                self.inside[packet.stage() as usize].push_back(packet);
            }
        }
        self.cohorts_total += u64::from(!self.members.is_empty());
    }

    /// The cohort goes on to the next stage where it has anybody, if it has nobody in this one.
    fn go_on(&mut self) {
        let mut stages = (0..STAGES).map(|step| (self.stage + step) % STAGES);
        if let Some(stage) = stages.find(|&stage| !self.inside[stage].is_empty() || self.runs(Some(stage))) {
            self.stage = stage;
        }
    }

    /// A query is left behind, with all of its packets.
    fn leave_behind(&mut self, query: QueryId) {
        self.members.remove(&query);
        for lane in &mut self.inside {
            let (left, stay): (VecDeque<_>, _) = lane.drain(..).partition(|packet| packet.query() == query);
            *lane = stay;
            if !left.is_empty() {
                self.outside.entry(query).or_default().extend(left);
            }
        }
    }

    /// The next packet of the cohort: of the stage where it is, or else, while others of it run there, of a later one.
    fn next_inside(&mut self) -> Option<Arc<Packet>> {
        self.go_on();
        (0..STAGES).find_map(|step| self.inside[(self.stage + step) % STAGES].pop_front())
    }

    fn next_outside(&mut self) -> Option<Arc<Packet>> {
        let mut query = self.outside.first_entry()?;
        let packet = query.get_mut().pop_front();
        if query.get().is_empty() {
            query.remove();
        }
        packet
    }
}

impl Policy for Gated {
    fn push(&mut self, packet: Arc<Packet>, arrival: Arrival) {
        let query = packet.query();
        let lane = match packet.stage() {
            StageId::Memory => &mut self.first,
            stage if self.members.contains_key(&query) => &mut self.inside[stage as usize],
            _ => self.outside.entry(query).or_default(),
        };
        // To its end in this stage: it goes on before those behind it.
        if arrival == Arrival::Yielded { lane.push_front(packet) } else { lane.push_back(packet) }
    }

    fn pop(&mut self) -> Option<Arc<Packet>> {
        if self.cohort_has_ended() {
            self.admit();
        }
        let first = self.first.pop_front();
        let packet = first.or_else(|| self.next_inside()).or_else(|| self.next_outside())?;
        self.running.push(packet.clone());
        Some(packet)
    }

    fn pop_oldest(&mut self) -> Option<Arc<Packet>> {
        let lanes = self.outside.values_mut().chain(&mut self.inside).chain([&mut self.first]);
        let (lane, index, _) = lanes
            .filter_map(|lane| {
                let ages = lane.iter().map(|packet| packet.queued_at_ns.load(Ordering::Relaxed));
                let (index, age) = ages.enumerate().min_by_key(|&(_, age)| age)?;
                Some((lane, index, age))
            })
            .min_by_key(|&(_, _, age)| age)?;
        let packet = lane.remove(index)?;
        self.outside.retain(|_, lane| !lane.is_empty());
        self.running.push(packet.clone());
        Some(packet)
    }

    fn follows_turns(&self) -> bool {
        true
    }

    fn turn_ended(&mut self, packet: &Arc<Packet>, worked_ns: u64) {
        // Whoever was taken under another policy is not among them.
        let Some(place) = self.running.iter().position(|running| Arc::ptr_eq(running, packet)) else { return };
        self.running.swap_remove(place);
        if let Some(used_ns) = self.members.get_mut(&packet.query()) {
            let used_ns = &mut used_ns[packet.stage() as usize];
            *used_ns = used_ns.saturating_add(worked_ns);
            if *used_ns >= self.cutoff_ns {
                self.leave_behind(packet.query());
            }
        }
    }

    fn cohorts(&self) -> (u64, u64) {
        (self.cohorts_total, self.admitted_total)
    }
}
