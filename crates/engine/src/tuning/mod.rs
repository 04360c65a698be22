//! The tuner: watches the stages, memory and I/O of an engine, and turns its knobs.
//!
//! The staged database was to "continuously monitor and automatically tune" the threads of each stage, the size of the
//! pages between them, and the policy (thesis proposal, section 4.4.1). Here these are the packets of a pipeline, the
//! workers that may serve a stage and the I/O threads, the rows of a batch, the credits of ports and what scans read
//! ahead, the quantum, and the policies across stages and within them. What it would need to merge and split stages
//! does not exist: operators of a pipeline are fused already.
//!
//! * `counters`: what it looks at.
//! * `settings`: what it may turn, and how far.
//! * `reasons`: what the counters speak for.
//! * `judge`: whether a change pays.
//! * `tuner`: its mind, a function of these and of a seed.
//!
//! Here is what it shares with people, who may turn the same knobs, and with whoever asks what it did. It has no
//! thread: a worker calls it between two turns when it is time to look again, so an idle engine is left alone.
//!
//! Invariants: one thread looks at a time, and a person who turns a knob is not overtaken; when the tuner is turned
//! off, every knob that it has turned goes back.

pub mod counters;
mod judge;
mod reasons;
pub mod settings;
#[cfg(test)]
mod tests;
mod tuner;

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use diligence_base::limits::TUNING_HISTORY_MAX;
use diligence_base::{Error, Result};

use self::counters::Counters;
use self::settings::{KNOBS, KnobId, Settings};
use crate::sync::{Latch, Mutex};

pub use tuner::{Decision, Outcome};
use tuner::{Look, Tuner};

/// What the tuner thinks.
static TUNING: Latch = Latch::new("tuning");

/// The seed of the tuner's choices. The same for all engines: what it has to choose from differs enough.
const SEED: u64 = 1;

/// What the tuner does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TuningMode {
    /// Nothing.
    Off,
    /// It says what it would turn.
    #[default]
    Observe,
    /// It turns knobs.
    On,
}

impl fmt::Display for TuningMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TuningMode::Off => "off",
            TuningMode::Observe => "observe",
            TuningMode::On => "on",
        })
    }
}

impl FromStr for TuningMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "off" => Ok(TuningMode::Off),
            "observe" => Ok(TuningMode::Observe),
            "on" => Ok(TuningMode::On),
            _ => Err(Error::input(format!("expected off, observe or on, found '{text}'"))),
        }
    }
}

/// The machine that the tuner looks at and turns: an engine, or what a test has in its place.
pub trait Machine {
    /// Its counters now.
    fn counters(&self, now_ns: u64) -> Counters;
    /// What a knob is set to.
    fn value(&self, knob: KnobId) -> usize;
    /// Turns a knob.
    fn turn(&self, knob: KnobId, value: usize);
    /// Worker threads.
    fn workers(&self) -> usize;
}

/// The tuner of an engine, and what people have said.
#[derive(Debug)]
pub struct Tuning(Mutex<TuningState>);

#[derive(Debug)]
struct TuningState {
    mode: TuningMode,
    tuner: Tuner,
    /// What knobs are when the tuner does not turn them.
    homes: [usize; KNOBS],
    pinned: [bool; KNOBS],
    decisions: VecDeque<Decision>,
    /// How many there were of each outcome.
    totals: [(Outcome, u64); 5],
    /// Every look, for a record.
    record: Option<Vec<Counters>>,
}

impl Tuning {
    /// The tuner of a machine whose knobs are at home now.
    pub fn new(machine: &impl Machine) -> Self {
        let outcomes = [Outcome::Kept, Outcome::Undone, Outcome::Harmful, Outcome::Void, Outcome::Observed];
        Self(Mutex::named(
            &TUNING,
            TuningState {
                mode: TuningMode::Off,
                tuner: Tuner::new(SEED),
                homes: KnobId::ALL.map(|knob| machine.value(knob)),
                pinned: [false; KNOBS],
                decisions: VecDeque::new(),
                totals: outcomes.map(|outcome| (outcome, 0)),
                record: None,
            },
        ))
    }

    /// What it does.
    pub fn mode(&self) -> TuningMode {
        self.0.lock().mode
    }

    /// Has it do something else. What it has turned goes back unless it goes on turning. Returns whether it is to be
    /// called from now on.
    pub fn set_mode(&self, mode: TuningMode, machine: &impl Machine) -> bool {
        let mut state = self.0.lock();
        state.mode = mode;
        if let Some((knob, value)) = state.tuner.give_up().filter(|(knob, _)| !state.pinned[knob.index()]) {
            machine.turn(knob, value);
        }
        if mode != TuningMode::On {
            state.go_home(machine);
        }
        mode != TuningMode::Off
    }

    /// Looks at the machine, and turns at most one knob. Returns when to look again, in nanoseconds of the machine's
    /// clock, or `None` if not at all.
    pub fn look(&self, now_ns: u64, machine: &impl Machine) -> Option<u64> {
        let mut state = self.0.lock();
        if state.mode == TuningMode::Off {
            return None;
        }
        let counters = machine.counters(now_ns);
        let settings = Settings {
            workers: machine.workers(),
            values: KnobId::ALL.map(|knob| machine.value(knob)),
            homes: state.homes,
            pinned: state.pinned,
            may_turn: state.mode == TuningMode::On,
        };
        if let Some(record) = &mut state.record {
            record.push(counters);
        }
        let Look { turn, decision, next_ns } = state.tuner.look(&counters, &settings);
        if let Some((knob, value)) = turn {
            machine.turn(knob, value);
        }
        if let Some(decision) = decision {
            state.note(decision);
        }
        Some(next_ns)
    }

    /// A person turns knobs by `turn`: they stay as they are then, until they are [released](Self::release).
    pub fn pin(&self, knobs: &[KnobId], machine: &impl Machine, turn: impl FnOnce()) {
        let mut state = self.0.lock();
        turn();
        for knob in knobs {
            state.homes[knob.index()] = machine.value(*knob);
            state.pinned[knob.index()] = true;
        }
    }

    /// The tuner may turn knobs again that a person has set.
    pub fn release(&self, knobs: &[KnobId]) {
        let mut state = self.0.lock();
        knobs.iter().for_each(|knob| state.pinned[knob.index()] = false);
    }

    /// The last decisions, oldest first.
    pub fn decisions(&self) -> Vec<Decision> {
        self.0.lock().decisions.iter().cloned().collect()
    }

    /// How many there were of each outcome.
    pub fn totals(&self) -> Vec<(Outcome, u64)> {
        self.0.lock().totals.to_vec()
    }

    /// Begins to record what it looks at, or ends that. Returns what was recorded until then.
    pub fn record(&self, is_wanted: bool) -> Vec<Counters> {
        std::mem::replace(&mut self.0.lock().record, is_wanted.then(Vec::new)).unwrap_or_default()
    }
}

impl TuningState {
    /// Turns every knob back that the tuner has turned.
    fn go_home(&self, machine: &impl Machine) {
        for knob in KnobId::ALL {
            let home = self.homes[knob.index()];
            if !self.pinned[knob.index()] && machine.value(knob) != home {
                machine.turn(knob, home);
            }
        }
    }

    fn note(&mut self, decision: Decision) {
        self.totals.iter_mut().filter(|(outcome, _)| *outcome == decision.outcome).for_each(|(_, total)| *total += 1);
        if self.decisions.len() >= TUNING_HISTORY_MAX {
            self.decisions.pop_front();
        }
        self.decisions.push_back(decision);
    }
}
