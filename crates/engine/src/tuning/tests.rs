//! The tuner on machines that are made up: a clock that is moved by hand, and counters that follow from what knobs are
//! set to.

use std::cell::RefCell;

use diligence_base::seams::Random;
use proptest::prelude::*;

use super::counters::{CLASSES, ClassCounters, STAGES, StageCounters, logarithm};
use super::settings::{Direction, OTHER};
use super::tuner::Tuner;
use super::*;
use crate::stages::StageId;

const SECOND_NS: u64 = 1_000_000_000;

/// An engine as a formula: what queries take depends on what knobs are set to.
struct Formula {
    values: RefCell<[usize; KNOBS]>,
    counters: RefCell<Counters>,
    /// What a short query takes, in nanoseconds, with these values.
    takes_ns: fn(&[usize; KNOBS]) -> u64,
    turns: RefCell<Vec<(KnobId, usize)>>,
}

impl Formula {
    fn new(takes_ns: fn(&[usize; KNOBS]) -> u64) -> Self {
        Self {
            values: RefCell::new([2, 2000, 4, 2, 8192, 4, 1, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2]),
            counters: RefCell::default(),
            takes_ns,
            turns: RefCell::default(),
        }
    }

    /// Time passes, in which reads wait for threads and queries end.
    fn pass(&self, ns: u64, random: &mut Random) {
        let mut counters = self.counters.borrow_mut();
        counters.now_ns += ns;
        let io = &mut counters.io;
        (io.turns, io.service_ns, io.wait_ns) = (io.turns + 100, io.service_ns + ns, io.wait_ns + 2 * ns);
        let scan = &mut counters.stages[StageId::Scan as usize];
        (scan.turns, scan.service_ns, scan.wait_ns) = (scan.turns + 100, scan.service_ns + ns, scan.wait_ns + ns / 10);
        for _ in 0..5 {
            let takes_ns = (self.takes_ns)(&self.values.borrow());
            let took_ns = takes_ns * random.between(95, 105) / 100;
            let class = &mut counters.classes[1];
            *class = class.and(ClassCounters { ended: 1, logarithms: logarithm(took_ns) });
        }
    }
}

impl Machine for Formula {
    fn counters(&self, now_ns: u64) -> Counters {
        assert_eq!(now_ns, self.counters.borrow().now_ns);
        *self.counters.borrow()
    }

    fn value(&self, knob: KnobId) -> usize {
        self.values.borrow()[knob.index()]
    }

    fn turn(&self, knob: KnobId, value: usize) {
        self.values.borrow_mut()[knob.index()] = value;
        self.turns.borrow_mut().push((knob, value));
    }

    fn workers(&self) -> usize {
        2
    }
}

/// Has the tuner look at a machine as often as it wants to for so long.
fn watch(tuning: &Tuning, machine: &Formula, seconds: u64, random: &mut Random) {
    let end_ns = machine.counters.borrow().now_ns + seconds * SECOND_NS;
    let mut next_ns = 0;
    while machine.counters.borrow().now_ns < end_ns {
        machine.pass(50_000_000, random);
        let now_ns = machine.counters.borrow().now_ns;
        if now_ns >= next_ns {
            next_ns = tuning.look(now_ns, machine).expect("it is to be called again");
            assert!(next_ns > now_ns);
        }
    }
}

/// More I/O threads help, up to eight.
fn wants_io_threads(values: &[usize; KNOBS]) -> u64 {
    let threads = values[KnobId::IoThreads.index()].min(8) as u64;
    20_000_000 - 2_000_000 * threads
}

fn started(machine: &Formula, mode: TuningMode) -> Tuning {
    let tuning = Tuning::new(machine);
    assert_eq!(tuning.set_mode(mode, machine), mode != TuningMode::Off);
    tuning
}

#[test]
fn what_pays_is_kept_and_what_does_not_is_undone() {
    let machine = Formula::new(wants_io_threads);
    let tuning = started(&machine, TuningMode::On);
    watch(&tuning, &machine, 120, &mut Random::new(1));
    let decisions = tuning.decisions();
    let seen: Vec<_> = decisions.iter().map(|one| (one.knob, one.from, one.to, one.outcome)).collect();
    let kept = [(4, 6), (6, 8)].map(|(from, to)| (KnobId::IoThreads, from, to, Outcome::Kept));
    assert_eq!(seen[..2], kept, "{decisions:?}");
    assert_eq!(seen[2], (KnobId::IoThreads, 8, 12, Outcome::Undone), "more than eight do not help");
    assert!(decisions[0].reason.contains("reads wait 2.0 times"), "{}", decisions[0].reason);
    let (before_ns, after_ns) = decisions[0].took_ns.unwrap();
    assert!((11e6..13e6).contains(&before_ns) && (7e6..9e6).contains(&after_ns), "{before_ns} {after_ns}");
    assert_eq!(machine.value(KnobId::IoThreads), 8);
    assert!(machine.turns.borrow().iter().all(|(knob, _)| *knob == KnobId::IoThreads), "nothing spoke for another");
}

#[test]
fn what_did_not_pay_is_tried_ever_less_often() {
    let machine = Formula::new(|_| 10_000_000);
    let tuning = started(&machine, TuningMode::On);
    watch(&tuning, &machine, 3600, &mut Random::new(2));
    let decisions = tuning.decisions();
    assert!(decisions.iter().all(|one| one.outcome == Outcome::Undone), "{decisions:?}");
    let gaps: Vec<_> = decisions.windows(2).map(|pair| (pair[1].at_ns - pair[0].at_ns) / SECOND_NS).collect();
    assert!((5..=8).contains(&decisions.len()) && gaps.is_sorted() && gaps[0] >= 30, "{gaps:?}");
    assert_eq!(machine.value(KnobId::IoThreads), 4);
}

#[test]
fn what_harms_is_given_up_at_once() {
    let machine = Formula::new(|values| if values[KnobId::IoThreads.index()] > 4 { 30_000_000 } else { 10_000_000 });
    let tuning = started(&machine, TuningMode::On);
    watch(&tuning, &machine, 10, &mut Random::new(3));
    let decisions = tuning.decisions();
    assert_eq!((decisions.len(), decisions[0].outcome), (1, Outcome::Harmful));
    assert_eq!(*machine.turns.borrow(), [(KnobId::IoThreads, 6), (KnobId::IoThreads, 4)], "one span of it was enough");
    assert_eq!(tuning.totals().iter().find(|(outcome, _)| *outcome == Outcome::Harmful).unwrap().1, 1);
}

#[test]
fn whoever_observes_turns_nothing() {
    let machine = Formula::new(wants_io_threads);
    let tuning = started(&machine, TuningMode::Observe);
    watch(&tuning, &machine, 600, &mut Random::new(4));
    let decisions = tuning.decisions();
    assert!(machine.turns.borrow().is_empty());
    assert!((2..=8).contains(&decisions.len()), "it does not say the same all the time: {}", decisions.len());
    let first = &decisions[0];
    assert_eq!((first.knob, first.from, first.to, first.outcome), (KnobId::IoThreads, 4, 6, Outcome::Observed));
    assert_eq!(started(&machine, TuningMode::Off).look(0, &machine), None);
}

#[test]
fn a_person_is_not_overruled_and_off_means_home() {
    let machine = Formula::new(wants_io_threads);
    let tuning = started(&machine, TuningMode::On);
    let mut random = Random::new(5);
    watch(&tuning, &machine, 30, &mut random);
    assert!(machine.value(KnobId::IoThreads) > 4);
    tuning.set_mode(TuningMode::Off, &machine);
    assert_eq!(machine.value(KnobId::IoThreads), 4);

    let machine = Formula::new(wants_io_threads);
    let tuning = started(&machine, TuningMode::On);
    watch(&tuning, &machine, 2, &mut random);
    assert!(!machine.turns.borrow().is_empty() && tuning.decisions().is_empty(), "something is being tried");
    tuning.pin(&[KnobId::IoThreads], &machine, || machine.turn(KnobId::IoThreads, 3));
    watch(&tuning, &machine, 300, &mut random);
    assert_eq!(machine.value(KnobId::IoThreads), 3);
    let outcomes: Vec<_> = tuning.decisions().iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [Outcome::Void], "what was under way is over");
    tuning.set_mode(TuningMode::Off, &machine);
    assert_eq!(machine.value(KnobId::IoThreads), 3, "that is home now");

    tuning.pin(&[KnobId::IoThreads], &machine, || machine.turn(KnobId::IoThreads, 4));
    tuning.release(&[KnobId::IoThreads]);
    tuning.set_mode(TuningMode::On, &machine);
    watch(&tuning, &machine, 300, &mut random);
    assert_eq!(machine.value(KnobId::IoThreads), 8);
}

#[test]
fn what_has_no_reason_any_more_goes_home() {
    let machine = Formula::new(|_| 10_000_000);
    // Reads wait, as in any of these machines; but nothing speaks for fewer rows in a batch.
    let tuning = started(&machine, TuningMode::On);
    machine.turn(KnobId::BatchRows, 2048);
    tuning.pin(&[KnobId::IoThreads], &machine, || ());
    watch(&tuning, &machine, 60, &mut Random::new(6));
    let seen: Vec<_> = tuning.decisions().iter().map(|one| (one.knob, one.from, one.to, one.outcome)).collect();
    let homeward = [(2048, 4096), (4096, 8192)].map(|(from, to)| (KnobId::BatchRows, from, to, Outcome::Kept));
    assert_eq!(seen, homeward);
}

#[test]
fn a_crowded_stage_gets_fewer_workers_while_short_queries_wait() {
    let (mut homes, scan) = ([4; KNOBS], KnobId::WorkersOf(StageId::Scan));
    KnobId::ALL.into_iter().filter(|knob| matches!(knob, KnobId::PolicyOf(_))).for_each(|knob| homes[knob.index()] = 0);
    let mut settings = Settings { workers: 4, values: homes, homes, pinned: [false; KNOBS], may_turn: true };
    let work = |seconds: u64| {
        let (service_ns, wait_ns) = (seconds * SECOND_NS, seconds * SECOND_NS * 3 / 2);
        StageCounters { turns: 100, service_ns, wait_ns, ..StageCounters::default() }
    };
    let mut span = Counters::default();
    (span.stages[StageId::Scan as usize], span.stages[StageId::Join as usize]) = (work(8), work(2));
    (span.classes[0].ended, span.classes[CLASSES - 1].ended) = (50, 3);
    let of = |span: &Counters, settings: &Settings| {
        let of_workers = |one: &reasons::Proposal| matches!(one.knob, KnobId::WorkersOf(_));
        reasons::proposals(span, settings).into_iter().filter(of_workers).collect::<Vec<_>>()
    };
    let found = of(&span, &settings);
    assert_eq!((found.len(), found[0].knob, found[0].direction), (1, scan, Direction::Down), "{found:?}");
    assert!(found[0].reason.contains("80 % of the work is in one stage"), "{}", found[0].reason);

    let mut no_short = span;
    no_short.classes[0].ended = 0;
    let mut one_stage = span;
    one_stage.stages[StageId::Join as usize] = StageCounters::default();
    for other in [no_short, one_stage] {
        assert_eq!(of(&other, &settings), []);
    }
    // Without a reason it goes back, one worker at a time.
    settings.values[scan.index()] = 2;
    let found = of(&Counters::default(), &settings);
    assert_eq!((found.len(), found[0].direction, found[0].leads_home), (1, Direction::Up, true), "{found:?}");
    assert_eq!(settings.next(scan, Direction::Up), Some(3));
}

#[test]
fn the_same_counters_and_seed_give_the_same_decisions() {
    let run = |seed| {
        let machine = Formula::new(wants_io_threads);
        let tuning = started(&machine, TuningMode::On);
        watch(&tuning, &machine, 200, &mut Random::new(seed));
        (tuning.decisions(), machine.turns.into_inner())
    };
    assert_eq!(run(7), run(7));
}

/// Counters of any kind: small, as large as can be, and such that go back.
fn any_counters() -> impl Strategy<Value = Counters> {
    let number = || prop_oneof![Just(0u64), 0..100u64, any::<u64>(), Just(u64::MAX)];
    let stage = || {
        (number(), number(), number(), number(), number()).prop_map(|(queued, turns, waits, wait_ns, service_ns)| {
            StageCounters { queued, turns, waits, wait_ns, service_ns }
        })
    };
    let class = (number(), number()).prop_map(|(ended, logarithms)| ClassCounters { ended, logarithms });
    let stages = proptest::collection::vec(stage(), STAGES);
    let classes = proptest::collection::vec(class, CLASSES);
    let rest = (number(), number(), number(), number(), number(), number());
    (stages, stage(), classes, rest).prop_map(|(stages, io, classes, rest)| Counters {
        now_ns: 0,
        stages: stages.try_into().unwrap(),
        io,
        running: rest.0,
        classes: classes.try_into().unwrap(),
        budget_bytes: rest.1,
        taken_bytes: rest.2,
        memory_waits: rest.3,
        spilled_bytes: rest.4,
        temp_waits: rest.5,
    })
}

/// How time goes on between two looks: as asked for, in a jump, or back.
fn any_time() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![8 => Just(None), 1 => any::<u64>().prop_map(Some), 1 => Just(Some(0))]
}

proptest! {
    #[test]
    fn no_counters_ever_take_a_knob_out_of_its_limits(
        seed in any::<u64>(),
        workers in 0..9usize,
        looks in proptest::collection::vec((any_counters(), any_time(), any::<bool>(), 0..20usize), 1..200),
    ) {
        let mut tuner = Tuner::new(seed);
        let values = KnobId::ALL.map(|knob| knob.steps(workers)[0]);
        let mut settings = Settings { workers, values, homes: values, pinned: [false; KNOBS], may_turn: true };
        let mut now_ns = 0;
        for (mut counters, time, may_turn, person) in looks {
            counters.now_ns = time.unwrap_or(now_ns);
            settings.may_turn = may_turn || person < 15;
            // From time to time a person turns a knob, to whatever.
            if let Some(pinned) = settings.pinned.get_mut(person) {
                *pinned = !*pinned;
                settings.values[person] = if *pinned { OTHER } else { values[person] };
            }
            let before = settings.clone();
            let look = tuner.look(&counters, &settings);
            now_ns = look.next_ns;
            if let Some((knob, value)) = look.turn {
                let steps = knob.steps(workers);
                prop_assert!(steps.contains(&value), "{knob:?} to {value}");
                prop_assert!(before.may_turn && !before.pinned[knob.index()]);
                let place = |value| steps.iter().position(|step| *step == value).unwrap();
                prop_assert!(place(value).abs_diff(place(before.of(knob))) <= 1, "by one step");
                settings.values[knob.index()] = value;
            }
        }
        for knob in KnobId::ALL.into_iter().filter(|knob| !settings.pinned[knob.index()]) {
            prop_assert!(knob.steps(workers).contains(&settings.of(knob)));
            for direction in [Direction::Up, Direction::Down] {
                prop_assert!(settings.next(knob, direction).is_none_or(|next| knob.steps(workers).contains(&next)));
            }
        }
    }
}
