//! The gated policies: the workers visit one stage at a time and serve a *cohort* there, so that its code and data stay
//! in the caches.
//!
//! A gate closes behind those who wait; who comes later joins the next cohort. Members run to their end in the stage.
//! D-gated admits everybody, T-gated(N) the packets of N queries, C-gated everybody but sends whoever has used more
//! than the cutoff to the next cohort (Harizopoulos, "Staged Database Systems", section 3.3.2).

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Arrival, Packet, Policy, StageId};
use crate::sync::atomic::Ordering;

/// All three gated policies.
pub(super) struct Gated {
    /// Those who wait in front of each stage's gate.
    waiting: Vec<VecDeque<Arc<Packet>>>,
    /// Those who are inside, and where.
    cohort: VecDeque<Arc<Packet>>,
    stage: usize,
    /// The number of the cohort inside; counts cohorts.
    number: u64,
    admitted_total: u64,
    queries_max: Option<usize>,
    cutoff_ns: Option<u64>,
}

impl Gated {
    /// A policy whose cohorts have at most `queries_max` queries and whose members stay at most `cutoff_ns`.
    pub(super) fn new(queries_max: Option<usize>, cutoff_ns: Option<u64>) -> Self {
        Self {
            waiting: StageId::ALL.iter().map(|_| VecDeque::new()).collect(),
            cohort: VecDeque::new(),
            stage: 0,
            number: 0,
            admitted_total: 0,
            queries_max,
            cutoff_ns,
        }
    }

    fn is_inside(&self, packet: &Packet) -> bool {
        packet.stage() as usize == self.stage
            && packet.cohort.load(Ordering::Relaxed) == self.number
            && self.cutoff_ns.is_none_or(|cutoff| packet.cohort_used_ns.load(Ordering::Relaxed) < cutoff)
    }

    /// Opens the gate of the next stage where anybody waits.
    fn admit(&mut self) {
        let stages = self.waiting.len();
        let next = (1..=stages).map(|step| (self.stage + step) % stages).find(|&stage| !self.waiting[stage].is_empty());
        let Some(stage) = next else { return };
        self.stage = stage;
        self.number += 1;
        let mut queries = Vec::new();
        for packet in std::mem::take(&mut self.waiting[stage]) {
            if !queries.contains(&packet.query()) {
                if self.queries_max.is_some_and(|max| queries.len() >= max) {
                    self.waiting[stage].push_back(packet);
                    continue;
                }
                queries.push(packet.query());
            }
            packet.cohort.store(self.number, Ordering::Relaxed);
            packet.cohort_used_ns.store(0, Ordering::Relaxed);
            self.cohort.push_back(packet);
        }
        self.admitted_total += self.cohort.len() as u64;
    }
}

impl Policy for Gated {
    fn push(&mut self, packet: Arc<Packet>, arrival: Arrival) {
        if arrival == Arrival::Yielded && self.is_inside(&packet) {
            // To its end in this stage: it goes on before those behind it.
            self.cohort.push_front(packet);
        } else {
            self.waiting[packet.stage() as usize].push_back(packet);
        }
    }

    fn pop(&mut self) -> Option<Arc<Packet>> {
        if self.cohort.is_empty() {
            self.admit();
        }
        self.cohort.pop_front()
    }

    fn pop_oldest(&mut self) -> Option<Arc<Packet>> {
        let lanes = std::iter::once(&mut self.cohort).chain(&mut self.waiting);
        let (lane, index, _) = lanes
            .filter_map(|lane| {
                let ages = lane.iter().map(|packet| packet.queued_at_ns.load(Ordering::Relaxed));
                let (index, age) = ages.enumerate().min_by_key(|&(_, age)| age)?;
                Some((lane, index, age))
            })
            .min_by_key(|&(_, _, age)| age)?;
        lane.remove(index)
    }

    fn cohorts(&self) -> (u64, u64) {
        (self.number, self.admitted_total)
    }
}
