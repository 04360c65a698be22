//! The policies that one can choose.
//!
//! The names and meanings are those of the Staged Database System (section 3.3.2 of the thesis proposal): processor
//! sharing, first come first served, and three gated policies (`gated.rs`). The default is none of them but two levels
//! of processor sharing (Kleinrock, Queueing Systems II, 1976, section 4.7): a short query is behind others that have
//! only begun, and not behind every long one that runs.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use diligence_base::Error;
use diligence_base::ids::QueryId;
use diligence_base::seams::Random;

use super::gated::Gated;
use super::{Arrival, Packet, Policy, StageId};
use crate::sync::atomic::Ordering;

/// The policies one can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// Queries take turns, one quantum each; those that have used less than so many milliseconds of workers before all
    /// others.
    TwoLevel(u64),
    /// Queries take turns, one quantum each.
    ProcessorSharing,
    /// The oldest query first.
    Fcfs,
    /// All queries that wait are admitted and pass the stages together, then the next cohort of queries.
    DGated,
    /// The same, at most so many queries at a time.
    TGated(usize),
    /// As `DGated`, but a query that has used so many milliseconds in one stage joins the next cohort.
    CGated(u64),
}

/// The queries a cohort of T-gated has if the setting does not say.
const T_GATED_QUERIES: usize = 2;
/// The cutoff of C-gated in milliseconds if the setting does not say: some quanta.
const C_GATED_CUTOFF_MS: u64 = 10;

/// The lower level of two begins after so many milliseconds if the setting does not say: some quanta, and more than a
/// lookup or a first row takes.
const TWO_LEVEL_MS: u64 = 6;

impl Default for PolicyKind {
    fn default() -> Self {
        PolicyKind::TwoLevel(TWO_LEVEL_MS)
    }
}

impl PolicyKind {
    /// All kinds, with the default parameters.
    pub const ALL: [PolicyKind; 6] = [
        PolicyKind::TwoLevel(TWO_LEVEL_MS),
        PolicyKind::ProcessorSharing,
        PolicyKind::Fcfs,
        PolicyKind::DGated,
        PolicyKind::TGated(T_GATED_QUERIES),
        PolicyKind::CGated(C_GATED_CUTOFF_MS),
    ];

    /// The policy itself, with empty queues.
    pub fn build(self) -> Box<dyn Policy> {
        match self {
            PolicyKind::TwoLevel(young_ms) => Box::new(TwoLevel::new(young_ms * 1_000_000)),
            PolicyKind::ProcessorSharing => Box::new(ProcessorSharing::default()),
            PolicyKind::Fcfs => Box::new(Fcfs::default()),
            PolicyKind::DGated => Box::new(Gated::new(None, None)),
            PolicyKind::TGated(queries) => Box::new(Gated::new(Some(queries), None)),
            PolicyKind::CGated(cutoff_ms) => Box::new(Gated::new(None, Some(cutoff_ms * 1_000_000))),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyKind::TwoLevel(young_ms) => write!(f, "two_level({young_ms})"),
            PolicyKind::ProcessorSharing => f.write_str("processor_sharing"),
            PolicyKind::Fcfs => f.write_str("fcfs"),
            PolicyKind::DGated => f.write_str("d_gated"),
            PolicyKind::TGated(queries) => write!(f, "t_gated({queries})"),
            PolicyKind::CGated(cutoff_ms) => write!(f, "c_gated({cutoff_ms})"),
        }
    }
}

impl FromStr for PolicyKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim().to_ascii_lowercase().replace('-', "_");
        let (name, number) = match text.split_once('(') {
            Some((name, rest)) => (name.trim(), Some(rest.trim_end_matches(')').trim())),
            None => (text.as_str(), None),
        };
        let wrong = || {
            Error::input(format!("'{text}' is not a stage policy")).with_hint(
                "use two_level(MILLISECONDS), processor_sharing, fcfs, d_gated, t_gated(QUERIES) or c_gated(MILLISECONDS), e.g. t_gated(4)",
            )
        };
        let number = number
            .map(|number| number.parse::<u64>().ok().filter(|&number| number > 0 && number <= 1_000_000))
            .map(|number| number.ok_or_else(wrong))
            .transpose()?;
        match (name, number) {
            ("two_level", number) => Ok(PolicyKind::TwoLevel(number.unwrap_or(TWO_LEVEL_MS))),
            ("processor_sharing" | "ps", None) => Ok(PolicyKind::ProcessorSharing),
            ("fcfs", None) => Ok(PolicyKind::Fcfs),
            ("d_gated", None) => Ok(PolicyKind::DGated),
            ("t_gated", number) => Ok(PolicyKind::TGated(number.map_or(T_GATED_QUERIES, |number| number as usize))),
            ("c_gated", number) => Ok(PolicyKind::CGated(number.unwrap_or(C_GATED_CUTOFF_MS))),
            _ => Err(wrong()),
        }
    }
}

/// Packets by query; within a query in the order of arrival.
type Lanes = BTreeMap<QueryId, VecDeque<Arc<Packet>>>;

fn take_front(lanes: &mut Lanes, query: QueryId) -> Option<Arc<Packet>> {
    let lane = lanes.get_mut(&query)?;
    let packet = lane.pop_front();
    if lane.is_empty() {
        lanes.remove(&query);
    }
    packet
}

/// When the packet that has waited longest was queued, and its query.
fn oldest_of(lanes: &Lanes) -> Option<(u64, QueryId)> {
    let fronts = lanes.iter();
    fronts.filter_map(|(query, lane)| Some((lane.front()?.queued_at_ns.load(Ordering::Relaxed), *query))).min()
}

fn oldest_query(lanes: &Lanes) -> Option<QueryId> {
    oldest_of(lanes).map(|(_, query)| query)
}

/// Queries take turns.
#[derive(Default)]
struct ProcessorSharing {
    lanes: Lanes,
    /// The queries with waiting packets, whose turn is next in front.
    turns: VecDeque<QueryId>,
}

impl Policy for ProcessorSharing {
    fn push(&mut self, packet: Arc<Packet>, _arrival: Arrival) {
        let query = packet.query();
        let lane = self.lanes.entry(query).or_default();
        if lane.is_empty() {
            self.turns.push_back(query);
        }
        lane.push_back(packet);
    }

    fn pop(&mut self) -> Option<Arc<Packet>> {
        let query = self.turns.pop_front()?;
        let packet = take_front(&mut self.lanes, query);
        if self.lanes.contains_key(&query) {
            self.turns.push_back(query);
        }
        packet
    }

    fn pop_oldest(&mut self) -> Option<Arc<Packet>> {
        let query = oldest_query(&self.lanes)?;
        let packet = take_front(&mut self.lanes, query);
        if !self.lanes.contains_key(&query) {
            self.turns.retain(|&other| other != query);
        }
        packet
    }
}

/// Turns that queries which have used little have before one of the others: those are shorter, so both have about half
/// of the time where neither is ever done.
const YOUNG_TURNS: u32 = 4;

/// Queries take turns, those that have used little before the others.
struct TwoLevel {
    young_ns: u64,
    /// Turns since one of the others had one.
    young_turns: u32,
    young: ProcessorSharing,
    others: ProcessorSharing,
}

impl TwoLevel {
    fn new(young_ns: u64) -> Self {
        let [young, others] = [(); 2].map(|()| ProcessorSharing::default());
        Self { young_ns, young_turns: 0, young, others }
    }
}

impl Policy for TwoLevel {
    fn push(&mut self, packet: Arc<Packet>, arrival: Arrival) {
        let level = if self.is_urgent(&packet) { &mut self.young } else { &mut self.others };
        level.push(packet, arrival);
    }

    fn pop(&mut self) -> Option<Arc<Packet>> {
        let other = if self.young_turns >= YOUNG_TURNS { self.others.pop() } else { None };
        let young = if other.is_none() { self.young.pop() } else { None };
        self.young_turns = if young.is_some() { self.young_turns.saturating_add(1) } else { 0 };
        other.or(young).or_else(|| self.others.pop())
    }

    fn pop_urgent(&mut self) -> Option<Arc<Packet>> {
        self.young.pop()
    }

    fn is_urgent(&self, packet: &Packet) -> bool {
        // What gives memory back is waited for by others, young ones among them.
        packet.attained_ns() < self.young_ns || packet.stage() == StageId::Memory
    }

    fn has_urgent(&self) -> bool {
        !self.young.lanes.is_empty()
    }

    fn pop_oldest(&mut self) -> Option<Arc<Packet>> {
        let [young, others] = [&self.young, &self.others].map(|level| oldest_of(&level.lanes).map(|(at_ns, _)| at_ns));
        let young_first = others.is_none_or(|others| young.is_some_and(|young| young < others));
        if young_first { self.young.pop_oldest() } else { self.others.pop_oldest() }
    }
}

/// The query that came first runs first; queries are numbered in the order they come.
#[derive(Default)]
struct Fcfs {
    lanes: Lanes,
}

impl Policy for Fcfs {
    fn push(&mut self, packet: Arc<Packet>, arrival: Arrival) {
        let lane = self.lanes.entry(packet.query()).or_default();
        match arrival {
            Arrival::Yielded => lane.push_front(packet),
            Arrival::New | Arrival::Woken => lane.push_back(packet),
        }
    }

    fn pop(&mut self) -> Option<Arc<Packet>> {
        let query = *self.lanes.keys().next()?;
        take_front(&mut self.lanes, query)
    }

    fn pop_oldest(&mut self) -> Option<Arc<Packet>> {
        let query = oldest_query(&self.lanes)?;
        take_front(&mut self.lanes, query)
    }
}

/// Any packet, by a seed: what the inline executor uses to look for wrong assumptions about order.
pub(super) struct AnyOrder {
    packets: Vec<Arc<Packet>>,
    random: Random,
}

impl AnyOrder {
    pub(super) fn new(seed: u64) -> Self {
        Self { packets: Vec::new(), random: Random::new(seed) }
    }
}

impl Policy for AnyOrder {
    fn push(&mut self, packet: Arc<Packet>, _arrival: Arrival) {
        self.packets.push(packet);
    }

    fn pop(&mut self) -> Option<Arc<Packet>> {
        if self.packets.is_empty() {
            return None;
        }
        let index = self.random.below(self.packets.len());
        Some(self.packets.swap_remove(index))
    }

    fn pop_oldest(&mut self) -> Option<Arc<Packet>> {
        self.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_reads_back_its_own_name() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.to_string().parse::<PolicyKind>().unwrap(), kind);
        }
        assert_eq!("two_level".parse::<PolicyKind>().unwrap(), PolicyKind::default());
        assert_eq!("T-Gated(7)".parse::<PolicyKind>().unwrap(), PolicyKind::TGated(7));
        for wrong in ["", "lifo", "t_gated(0)", "c_gated(x)", "fcfs(3)"] {
            assert!(wrong.parse::<PolicyKind>().unwrap_err().hint().unwrap().contains("t_gated"), "{wrong}");
        }
    }
}
