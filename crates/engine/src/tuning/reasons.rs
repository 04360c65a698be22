//! What the counters of a span speak for.

use super::counters::{Counters, StageCounters};
use super::settings::{Direction, KnobId, Settings};
use crate::stages::StageId;

/// A change worth trying.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// What is turned.
    pub knob: KnobId,
    /// Which way.
    pub direction: Direction,
    /// Why, for people.
    pub reason: String,
    /// Whether it only undoes what has no reason any more.
    pub leads_home: bool,
}

/// Turns that end waiting, of all, from which on whoever waits is in want of it.
const WAITS_SHARE: f64 = 0.25;

/// Time in queues, beside that on workers, from which on workers are short.
const QUEUED_MUCH: f64 = 1.0;

/// The same, from which on it matters who goes first.
const QUEUED_VERY_MUCH: f64 = 2.0;

/// The same of I/O threads.
const IO_QUEUED: f64 = 0.5;

/// The part of the budget that is taken when memory is short.
const TAKEN_SHARE: f64 = 0.9;

/// The part of all time in queues, or on workers, that makes a stage the one where packets wait, or where work is.
const CROWDED_SHARE: f64 = 0.6;

/// The part of all work in a stage from which on others have next to none.
const ALL_SHARE: f64 = 0.98;

/// The part of a quantum that a turn has when it is the quantum that ends it.
const FULL_TURN: f64 = 0.8;

/// The first class of queries that are not short.
const LONG_CLASS: usize = 2;

/// A part of a whole; zero of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl StageCounters {
    fn waits_share(self) -> f64 {
        share(self.waits, self.turns)
    }

    fn queued_share(self) -> f64 {
        share(self.wait_ns, self.service_ns)
    }
}

/// All changes that what happened in a span speaks for, and those that lead home where nothing speaks against it.
pub fn proposals(span: &Counters, settings: &Settings) -> Vec<Proposal> {
    let mut all = Vec::new();
    let mut propose =
        |knob, direction, reason: String| all.push(Proposal { knob, direction, reason, leads_home: false });
    let stages = span.all_stages();
    let scan = span.stages[StageId::Scan as usize];
    let exchange = span.stages[StageId::Exchange as usize];
    let queued = stages.queued_share();
    let taken = share(span.taken_bytes, span.budget_bytes);
    let spills = span.spilled_bytes > 0;
    let is_short = spills || span.memory_waits > 0 || taken > TAKEN_SHARE;
    let ended = |classes: &[super::counters::ClassCounters]| {
        classes.iter().fold(0u64, |ended, class| ended.saturating_add(class.ended))
    };
    let (short, long) = (ended(&span.classes[..LONG_CLASS]), ended(&span.classes[LONG_CLASS..]));
    let turn_us = share(stages.service_ns / 1000, stages.turns);
    let memory = || {
        format!(
            "memory is short: {:.0} % of the budget is taken, {} waits, {} bytes spilled",
            100.0 * taken,
            span.memory_waits,
            span.spilled_bytes
        )
    };

    if span.io.queued_share() > IO_QUEUED {
        let times = span.io.queued_share();
        propose(
            KnobId::IoThreads,
            Direction::Up,
            format!("reads wait {times:.1} times as long for a thread as they take"),
        );
    }
    if scan.waits_share() > WAITS_SHARE && span.io.turns > 0 && !is_short {
        let percent = 100.0 * scan.waits_share();
        propose(
            KnobId::ReadAhead,
            Direction::Up,
            format!("{percent:.0} % of the turns of scans end waiting for a read"),
        );
    }
    if exchange.waits_share() > WAITS_SHARE && !is_short {
        let percent = 100.0 * exchange.waits_share();
        propose(KnobId::PortCredits, Direction::Up, format!("{percent:.0} % of the turns behind ports end waiting"));
    }
    if is_short {
        for knob in [KnobId::Packets, KnobId::ReadAhead, KnobId::PortCredits, KnobId::BatchRows] {
            propose(knob, Direction::Down, memory());
        }
    }
    let workers = settings.workers as u64;
    if span.running >= workers.saturating_mul(2) && queued > QUEUED_MUCH {
        let reason = format!("{} queries keep {workers} workers busy, whatever each has of them", span.running);
        propose(KnobId::Packets, Direction::Down, reason);
    }
    if queued > QUEUED_MUCH {
        let times = format!("packets wait {queued:.1} times as long as they run");
        if short > 0 && long > 0 {
            propose(KnobId::Quantum, Direction::Down, format!("{times}, {short} short queries among them"));
        }
        if short == 0 && turn_us > FULL_TURN * settings.of(KnobId::Quantum) as f64 {
            propose(KnobId::Quantum, Direction::Up, format!("{times}, and no query is short"));
        }
        for knob in KnobId::ALL.into_iter().filter(|_| short > 0 && long > 0) {
            let KnobId::WorkersOf(stage) = knob else { continue };
            let part = share(span.stages[stage as usize].service_ns, stages.service_ns);
            // Where all work is in one stage, its limit would keep workers idle.
            if (CROWDED_SHARE..ALL_SHARE).contains(&part) {
                let reason = format!("{times}, {:.0} % of the work is in one stage", 100.0 * part);
                propose(knob, Direction::Down, reason);
            }
        }
        if queued > QUEUED_VERY_MUCH {
            if short > 0 {
                propose(KnobId::Policy, Direction::Down, format!("{times}, {short} short queries among them"));
            }
            if long > short {
                propose(KnobId::Policy, Direction::Up, format!("{times}, and most queries are long"));
            }
            for knob in KnobId::ALL {
                let KnobId::PolicyOf(stage) = knob else { continue };
                let part = share(span.stages[stage as usize].wait_ns, stages.wait_ns);
                if part > CROWDED_SHARE {
                    let reason = format!("{times}, {:.0} % of that in one stage", 100.0 * part);
                    propose(knob, Direction::Up, reason);
                }
            }
        }
    }
    let wanted: Vec<_> = all.iter().map(|proposal| proposal.knob).collect();
    for knob in KnobId::ALL.into_iter().filter(|knob| !wanted.contains(knob)) {
        if let Some(direction) = settings.homeward(knob) {
            let reason = "nothing speaks for it any more".to_owned();
            all.push(Proposal { knob, direction, reason, leads_home: true });
        }
    }
    all.retain(|proposal| settings.next(proposal.knob, proposal.direction).is_some());
    all
}
