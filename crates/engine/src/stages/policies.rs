//! One policy for all stages, and others within single stages.
//!
//! Scheduling has two levels, as in the staged database (thesis proposal, sections 3.2 and 3.2.1): within a stage and
//! across stages. A stage with a policy of its own has a queue of its own, and its policy says which of its packets
//! *stands for* it; the policy across stages decides among these and the packets of all other stages, and knows of no
//! more than that one. Once that has a turn, another one stands for the stage when the next packet is asked for.
//!
//! So a packet is served when both policies say so, and a long query that stands for a stage holds up a short one
//! behind it: that is what the stage's policy wants. Whenever a packet is asked for, one stands for each stage that has
//! any, so a worker that asks gets one if one is in a queue. Nothing starves: when the scheduler asks for the packet
//! that has waited longest, the queues take turns in giving theirs.
//!
//! A stage that so many workers may serve at once ([`StageWorkers`]) has a queue of its own as well. While as many of
//! its packets have turns, none stands for it. So a worker that asks may get nothing although packets wait; the end of
//! a turn of the stage lets the next one in.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use diligence_base::{Error, Result};

use super::{Arrival, Packet, Policy, PolicyKind, StageId, StageWorkers};

const STAGES: usize = StageId::ALL.len();

/// Which policies are in force: as text `two_level(6), scan: t_gated(2)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Across stages, and within those that have none of their own.
    pub global: PolicyKind,
    /// Within single stages, in the order of [`StageId::ALL`].
    pub of_stages: [Option<PolicyKind>; STAGES],
}

impl From<PolicyKind> for Policies {
    fn from(global: PolicyKind) -> Self {
        Self { global, of_stages: [None; STAGES] }
    }
}

impl Policies {
    /// The policy itself, with empty queues and all workers for every stage.
    pub fn build(self) -> Box<dyn Policy> {
        self.build_with(StageWorkers::default())
    }

    /// The policy itself, with empty queues, where so many workers may serve single stages.
    pub fn build_with(self, limits: StageWorkers) -> Box<dyn Policy> {
        if self.of_stages.iter().all(Option::is_none) && !limits.is_any() {
            return self.global.build();
        }
        let own = StageId::ALL.map(|stage| {
            let (kind, limit) = (self.of_stages[stage as usize], limits.of(stage));
            (kind.is_some() || limit.is_some()).then(|| Own {
                policy: kind.unwrap_or(self.global).build(),
                stands: false,
                has_urgent: false,
                limit,
                running: Vec::new(),
            })
        });
        Box::new(TwoLevels { global: self.global.build(), own, oldest_of: 0, beyond: 0 })
    }
}

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.global)?;
        for (stage, kind) in StageId::ALL.iter().zip(self.of_stages) {
            if let Some(kind) = kind {
                write!(f, ", {}: {kind}", stage.name())?;
            }
        }
        Ok(())
    }
}

impl FromStr for Policies {
    type Err = Error;

    /// An input error where a part is no policy, a stage has no such name, or one has two policies.
    fn from_str(text: &str) -> Result<Self> {
        let (mut global, mut policies) = (None, Self::default());
        for part in text.split(',') {
            let (place, kind, of) = match part.split_once(':') {
                None => (&mut global, part, "all stages".to_owned()),
                Some((name, kind)) => {
                    let name = name.trim().to_ascii_lowercase();
                    let found = StageId::ALL.iter().position(|stage| stage.name() == name);
                    let index = found.ok_or_else(|| {
                        let names = StageId::ALL.map(StageId::name).join(", ");
                        Error::input(format!("there is no stage '{name}'")).with_hint(format!("the stages are {names}"))
                    })?;
                    (&mut policies.of_stages[index], kind, name)
                }
            };
            if place.replace(kind.parse()?).is_some() {
                return Err(Error::input(format!("two policies for {of}")).with_hint(
                    "name one for all stages, and at most one for each, e.g. two_level(6), scan: t_gated(2)",
                ));
            }
        }
        policies.global = global.unwrap_or_default();
        Ok(policies)
    }
}

/// A stage with a queue of its own.
struct Own {
    policy: Box<dyn Policy>,
    /// Whether one of its packets is among those that the global policy chooses from.
    stands: bool,
    /// Whether one that goes before others has come since the last was chosen to stand for it.
    has_urgent: bool,
    /// How many of its packets may be on workers; `None` is any number.
    limit: Option<usize>,
    /// Those that are, if there is a limit. One that has waited and was woken before its worker said so may be here
    /// twice.
    running: Vec<Arc<Packet>>,
}

impl Own {
    /// Whether one more may have a turn, or stand for the stage, with so many beyond the limit.
    fn has_place(&self, beyond: usize) -> bool {
        let taken = self.running.len() + usize::from(self.stands);
        self.limit.is_none_or(|limit| taken < limit.saturating_add(beyond))
    }

    fn begins(&mut self, packet: &Arc<Packet>) {
        if self.limit.is_some() {
            self.running.push(packet.clone());
        }
    }
}

/// Policies of stages below one across stages.
struct TwoLevels {
    global: Box<dyn Policy>,
    own: [Option<Own>; STAGES],
    /// Which queue is asked first for the packet that has waited longest: the global policy's, then each stage's.
    oldest_of: usize,
    /// Turns beyond its limit that every stage may have.
    beyond: usize,
}

impl TwoLevels {
    /// Has a packet stand for each stage that has some in its own queue, and a worker for it. Only when a packet is
    /// asked for: until then one that goes before these may come.
    fn stand(&mut self) {
        let beyond = self.beyond;
        for own in self.own.iter_mut().flatten().filter(|own| !own.stands && own.has_place(beyond)) {
            own.has_urgent = false;
            if let Some(packet) = own.policy.pop() {
                own.stands = true;
                self.global.push(packet, Arrival::Woken);
            }
        }
    }

    /// The global policy has chosen a packet.
    fn taken(&mut self, packet: Arc<Packet>) -> Arc<Packet> {
        if let Some(own) = &mut self.own[packet.stage() as usize] {
            own.stands = false;
            own.begins(&packet);
        }
        packet
    }
}

impl Policy for TwoLevels {
    fn push(&mut self, packet: Arc<Packet>, arrival: Arrival) {
        match &mut self.own[packet.stage() as usize] {
            None => self.global.push(packet, arrival),
            Some(own) => {
                own.has_urgent |= self.global.is_urgent(&packet);
                own.policy.push(packet, arrival);
            }
        }
    }

    fn pop(&mut self) -> Option<Arc<Packet>> {
        self.stand();
        let packet = self.global.pop()?;
        Some(self.taken(packet))
    }

    fn pop_oldest(&mut self) -> Option<Arc<Packet>> {
        self.stand();
        let queues = 1 + STAGES;
        for step in 0..queues {
            let queue = (self.oldest_of + step) % queues;
            let packet = match queue.checked_sub(1) {
                None => self.global.pop_oldest().map(|packet| self.taken(packet)),
                Some(stage) => {
                    let beyond = self.beyond;
                    let own = self.own[stage].as_mut().filter(|own| own.has_place(beyond));
                    own.and_then(|own| own.policy.pop_oldest().inspect(|packet| own.begins(packet)))
                }
            };
            if packet.is_some() {
                self.oldest_of = (queue + 1) % queues;
                return packet;
            }
        }
        None
    }

    fn pop_urgent(&mut self) -> Option<Arc<Packet>> {
        self.stand();
        let packet = self.global.pop_urgent()?;
        Some(self.taken(packet))
    }

    fn is_urgent(&self, packet: &Packet) -> bool {
        self.global.is_urgent(packet)
    }

    fn has_urgent(&self) -> bool {
        let waits = |own: &Own| own.has_urgent && !own.stands && own.has_place(self.beyond);
        self.global.has_urgent() || self.own.iter().flatten().any(waits)
    }

    fn follows_turns(&self) -> bool {
        let mut own = self.own.iter().flatten();
        self.global.follows_turns() || own.any(|own| own.limit.is_some() || own.policy.follows_turns())
    }

    fn turn_ended(&mut self, packet: &Arc<Packet>, worked_ns: u64) {
        self.global.turn_ended(packet, worked_ns);
        if let Some(own) = &mut self.own[packet.stage() as usize] {
            own.policy.turn_ended(packet, worked_ns);
            if let Some(place) = own.running.iter().position(|running| Arc::ptr_eq(running, packet)) {
                own.running.swap_remove(place);
            }
        }
    }

    fn allow_beyond(&mut self, turns: usize) {
        self.beyond = turns;
    }

    fn cohorts(&self) -> (u64, u64) {
        let all = self.own.iter().flatten().map(|own| own.policy.cohorts()).chain([self.global.cohorts()]);
        all.fold((0, 0), |(cohorts, packets), (more, more_packets)| (cohorts + more, packets + more_packets))
    }
}
