//! The tuner's mind: from counters and settings to one change at a time.
//!
//! ```text
//!   watch --a span speaks for a change--> try it:  new old old new old new new old  --better--> keep it
//!     ^                                            (a span each, what is under way      |
//!     |                                             at a change left out)               +-----> undo it
//!     +---- rest: the longer, the less it paid -----------------------------------------+
//! ```
//!
//! The new and the old setting take turns, in an order in which neither a load that grows nor one that swings favors
//! one of them (Thue and Morse). It knows no clock and no thread: the same counters and the same seed give the same
//! decisions, so what was recorded can be replayed.
//!
//! Invariants: one knob is turned at a time, by one step; what it is set to is one of its
//! [steps](super::settings::KnobId::steps), whatever the counters say; a knob that a person has set is left alone.

use diligence_base::seams::Random;

use super::counters::Counters;
use super::judge::{Measured, Verdict, is_harmful, judge};
use super::reasons::{Proposal, proposals};
use super::settings::{Direction, KNOBS, KnobId, Settings};

/// How long it watches at least before it tries something.
const WATCH_NS: u64 = 1_000_000_000;

/// How long at most: what was long ago speaks for nothing.
const WATCH_NS_MAX: u64 = 60_000_000_000;

/// Queries that must have ended meanwhile.
const WATCH_ENDED_MIN: u64 = 8;

/// The order in which the new setting, true, and the old one are in force.
const TURNS: [bool; 8] = [true, false, false, true, false, true, true, false];

/// How many times what queries take a span lasts, and its bounds.
const SPAN_QUERIES: u64 = 4;
const SPAN_NS_MIN: u64 = 250_000_000;
const SPAN_NS_MAX: u64 = 8_000_000_000;

/// Queries that must end in a span, for which it is longer, up to so many times.
const SPAN_ENDED_MIN: u64 = 4;
const SPAN_PATIENCE: u64 = 4;

/// The part of a span, as its divisor, after a change, in which what began before it is not counted.
const SETTLE_DIVISOR: u64 = 4;

/// It rests for so many times what a change that did not pay has taken, so that trying costs little even where it
/// harms.
const REST: u64 = 9;

/// How long it does not try a change again that did not pay: twice as long each time.
const COOL_NS: u64 = 30_000_000_000;
const COOL_DOUBLINGS_MAX: u32 = 7;

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It stays.
    Kept,
    /// It did not pay.
    Undone,
    /// It made some queries much slower, and was given up at once.
    Harmful,
    /// Too few queries ended, or a person has changed the setting.
    Void,
    /// It would have been tried.
    Observed,
}

impl Outcome {
    /// The word in `system.tuning`.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Kept => "kept",
            Outcome::Undone => "undone",
            Outcome::Harmful => "harmful",
            Outcome::Void => "void",
            Outcome::Observed => "observed",
        }
    }
}

/// What was decided, and why: a row of `system.tuning`.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When, in nanoseconds of the engine's clock.
    pub at_ns: u64,
    /// The knob.
    pub knob: KnobId,
    /// What it was set to.
    pub from: usize,
    /// What was tried.
    pub to: usize,
    /// Why.
    pub reason: String,
    /// What queries took without it and with it, in nanoseconds, if that was measured.
    pub took_ns: Option<(f64, f64)>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// A knob to turn, and to what.
    pub turn: Option<(KnobId, usize)>,
    /// What was decided.
    pub decision: Option<Decision>,
    /// When to look again, in nanoseconds of the engine's clock.
    pub next_ns: u64,
}

#[derive(Clone, Debug)]
struct Trial {
    proposal: Proposal,
    from: usize,
    to: usize,
    began_ns: u64,
    span_ns: u64,
    /// Its place in [`TURNS`].
    turn: usize,
    /// Whether what began before the last change is over.
    is_settled: bool,
    /// From where on is counted.
    mark: Counters,
    before: Measured,
    after: Measured,
}

#[derive(Clone, Debug)]
enum TrialPhase {
    /// Nothing was seen yet.
    Begins,
    Watches(Counters),
    Tries(Box<Trial>),
}

/// When a change may be tried again, and how often it did not pay.
#[derive(Clone, Copy, Debug, Default)]
struct Cooling {
    until_ns: u64,
    failures: u32,
}

/// The tuner's mind.
#[derive(Clone, Debug)]
pub struct Tuner {
    phase: TrialPhase,
    rests_until_ns: u64,
    cooling: [[Cooling; 2]; KNOBS],
    random: Random,
}

impl Tuner {
    /// One that has seen nothing.
    pub fn new(seed: u64) -> Self {
        Self { phase: TrialPhase::Begins, rests_until_ns: 0, cooling: Default::default(), random: Random::new(seed) }
    }

    /// Looks at the counters of this moment. Whoever calls turns the knob that it says, and no other.
    pub fn look(&mut self, now: &Counters, settings: &Settings) -> Look {
        match std::mem::replace(&mut self.phase, TrialPhase::Begins) {
            TrialPhase::Begins => self.watch(*now, now),
            TrialPhase::Watches(since) => self.watches(since, now, settings),
            TrialPhase::Tries(trial) => self.tries(trial, now, settings),
        }
    }

    /// Ends what is being tried: the value that the knob goes back to.
    pub fn give_up(&mut self) -> Option<(KnobId, usize)> {
        match std::mem::replace(&mut self.phase, TrialPhase::Begins) {
            TrialPhase::Tries(trial) => Some((trial.proposal.knob, trial.from)),
            TrialPhase::Begins | TrialPhase::Watches(_) => None,
        }
    }

    fn watch(&mut self, since: Counters, now: &Counters) -> Look {
        self.phase = TrialPhase::Watches(since);
        Look { turn: None, decision: None, next_ns: now.now_ns.saturating_add(WATCH_NS) }
    }

    fn watches(&mut self, since: Counters, now: &Counters, settings: &Settings) -> Look {
        let span = now.since(&since);
        if span.now_ns > WATCH_NS_MAX || now.now_ns < self.rests_until_ns {
            return self.watch(*now, now);
        }
        if span.now_ns < WATCH_NS || span.ended() < WATCH_ENDED_MIN {
            return self.watch(since, now);
        }
        let mut worth: Vec<_> = proposals(&span, settings);
        worth.retain(|one| self.cooling_of(one.knob, one.direction).until_ns <= now.now_ns);
        let Some(proposal) = worth.get(self.random.below(worth.len())).cloned() else { return self.watch(*now, now) };
        let from = settings.of(proposal.knob);
        let Some(to) = settings.next(proposal.knob, proposal.direction) else { return self.watch(*now, now) };
        if !settings.may_turn {
            self.cool(&proposal, now.now_ns);
            let decision = decision(&proposal, (from, to), now.now_ns, None, Outcome::Observed);
            return Look { decision: Some(decision), ..self.watch(*now, now) };
        }
        let mut before = Measured::default();
        before.add(&span);
        let trial = Trial {
            from,
            to,
            began_ns: now.now_ns,
            span_ns: span_ns(&span),
            turn: 0,
            is_settled: false,
            mark: *now,
            before,
            after: Measured::default(),
            proposal,
        };
        self.go_on(Box::new(trial), now, Some(to))
    }

    /// Waits for the end of the present part of a trial.
    fn go_on(&mut self, trial: Box<Trial>, now: &Counters, value: Option<usize>) -> Look {
        let wait_ns = if trial.is_settled { trial.span_ns } else { trial.span_ns / SETTLE_DIVISOR };
        let due_ns = trial.mark.now_ns.saturating_add(wait_ns);
        // A span that is longer than it was to be is looked at again soon.
        let next_ns = due_ns.max(now.now_ns.saturating_add(SPAN_NS_MIN / SETTLE_DIVISOR));
        let turn = value.map(|value| (trial.proposal.knob, value));
        self.phase = TrialPhase::Tries(trial);
        Look { turn, decision: None, next_ns }
    }

    fn tries(&mut self, mut trial: Box<Trial>, now: &Counters, settings: &Settings) -> Look {
        let knob = trial.proposal.knob;
        let is_new = TURNS[trial.turn];
        let in_force = if is_new { trial.to } else { trial.from };
        if settings.of(knob) != in_force || settings.pinned[knob.index()] || !settings.may_turn {
            // Somebody else has turned it.
            return self.end(&trial, now, None, Outcome::Void, None);
        }
        let span = now.since(&trial.mark);
        if !trial.is_settled {
            if span.now_ns >= trial.span_ns / SETTLE_DIVISOR {
                trial.is_settled = true;
                trial.mark = *now;
            }
            return self.go_on(trial, now, None);
        }
        let is_long = span.now_ns >= trial.span_ns.saturating_mul(SPAN_PATIENCE);
        if span.now_ns < trial.span_ns || span.ended() < SPAN_ENDED_MIN && !is_long {
            return self.go_on(trial, now, None);
        }
        if is_new {
            trial.after.add(&span);
        } else {
            trial.before.add(&span);
        }
        if is_new && is_harmful(&trial.before, &trial.after) {
            let took_ns = judge(&trial.before, &trial.after, false).took_ns;
            return self.end(&trial, now, Some(trial.from), Outcome::Harmful, took_ns);
        }
        trial.turn += 1;
        if let Some(&is_new) = TURNS.get(trial.turn) {
            let next = if is_new { trial.to } else { trial.from };
            trial.is_settled = false;
            trial.mark = *now;
            return self.go_on(trial, now, (next != in_force).then_some(next));
        }
        let Verdict { keep, took_ns } = judge(&trial.before, &trial.after, trial.proposal.leads_home);
        let outcome = match (keep, took_ns) {
            (true, _) => Outcome::Kept,
            (false, Some(_)) => Outcome::Undone,
            (false, None) => Outcome::Void,
        };
        let value = if keep { trial.to } else { trial.from };
        self.end(&trial, now, (value != in_force).then_some(value), outcome, took_ns)
    }

    fn end(
        &mut self,
        trial: &Trial,
        now: &Counters,
        value: Option<usize>,
        outcome: Outcome,
        took_ns: Option<(f64, f64)>,
    ) -> Look {
        let Trial { proposal, from, to, began_ns, .. } = trial;
        if outcome == Outcome::Kept {
            self.cooling[proposal.knob.index()] = Default::default();
            // What has just been found good is not undone by the next whim.
            self.cool(&Proposal { direction: opposite(proposal.direction), ..proposal.clone() }, now.now_ns);
        } else {
            self.cool(proposal, now.now_ns);
            let took_ns = now.now_ns.saturating_sub(*began_ns);
            self.rests_until_ns = now.now_ns.saturating_add(took_ns.saturating_mul(REST));
        }
        let decision = decision(proposal, (*from, *to), now.now_ns, took_ns, outcome);
        let turn = value.map(|value| (proposal.knob, value));
        Look { turn, decision: Some(decision), ..self.watch(*now, now) }
    }

    fn cooling_of(&mut self, knob: KnobId, direction: Direction) -> &mut Cooling {
        &mut self.cooling[knob.index()][usize::from(direction == Direction::Up)]
    }

    fn cool(&mut self, proposal: &Proposal, now_ns: u64) {
        let cooling = self.cooling_of(proposal.knob, proposal.direction);
        cooling.until_ns = now_ns.saturating_add(COOL_NS << cooling.failures.min(COOL_DOUBLINGS_MAX));
        cooling.failures = cooling.failures.saturating_add(1);
    }
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Up => Direction::Down,
        Direction::Down => Direction::Up,
    }
}

fn decision(
    proposal: &Proposal,
    (from, to): (usize, usize),
    at_ns: u64,
    took_ns: Option<(f64, f64)>,
    outcome: Outcome,
) -> Decision {
    Decision { at_ns, knob: proposal.knob, from, to, reason: proposal.reason.clone(), took_ns, outcome }
}

/// How long the spans of a trial are: some times what the slowest queries take.
fn span_ns(span: &Counters) -> u64 {
    let means = span.classes.iter().filter_map(|class| class.mean()).map(f64::exp);
    let longest_ns = means.fold(0.0, f64::max) as u64;
    longest_ns.saturating_mul(SPAN_QUERIES).clamp(SPAN_NS_MIN, SPAN_NS_MAX)
}
