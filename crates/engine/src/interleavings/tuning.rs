//! Workers that look for the tuner, and people who turn the same knobs.

use std::sync::Arc;

use shuttle::thread;

use super::queries::{engine, sorted, start};
use super::{eventually, interleave};
use crate::plan::Pact;
use crate::query::tests::{exchange, numbers, read};
use crate::stages::{StageId, StageWorkers};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::tuning::counters::{ClassCounters, Counters, logarithm};
use crate::tuning::settings::{KNOBS, KnobId};
use crate::tuning::{Machine, Tuning, TuningMode};

const HOMES: [usize; KNOBS] = [2, 2000, 4, 2, 8192, 4, 1, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2];

/// A machine in which something speaks for a change whenever one looks, and each look is a second after the last.
struct Restless {
    now_ns: AtomicU64,
    values: [AtomicUsize; KNOBS],
}

impl Machine for Restless {
    fn counters(&self, now_ns: u64) -> Counters {
        let mut counters = Counters { now_ns, running: 9, ..Counters::default() };
        counters.classes[0] = ClassCounters { ended: now_ns / 1000, logarithms: now_ns / 1000 * logarithm(1_000_000) };
        (counters.io.turns, counters.io.wait_ns, counters.io.service_ns) = (now_ns, 9 * now_ns, now_ns);
        let scan = &mut counters.stages[StageId::Scan as usize];
        (scan.turns, scan.waits, scan.wait_ns, scan.service_ns) = (now_ns, now_ns, 9 * now_ns, now_ns);
        counters
    }

    fn value(&self, knob: KnobId) -> usize {
        self.values[knob.index()].load(Ordering::Relaxed)
    }

    fn turn(&self, knob: KnobId, value: usize) {
        self.values[knob.index()].store(value, Ordering::Relaxed);
    }

    fn workers(&self) -> usize {
        2
    }
}

#[test]
fn whoever_looks_overtakes_no_person_under_any_schedule() {
    interleave(2_000, || {
        let machine = Arc::new(Restless { now_ns: AtomicU64::new(0), values: HOMES.map(AtomicUsize::new) });
        let tuning = Arc::new(Tuning::new(machine.as_ref()));
        tuning.set_mode(TuningMode::On, machine.as_ref());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (machine, tuning) = (machine.clone(), tuning.clone());
                thread::spawn(move || {
                    for _ in 0..6 {
                        let now_ns = machine.now_ns.fetch_add(1_000_000_000, Ordering::Relaxed);
                        tuning.look(now_ns, machine.as_ref());
                    }
                })
            })
            .collect();
        // A person turns everything that may be under way.
        for knob in KnobId::ALL {
            let value = HOMES[knob.index()] + 1;
            tuning.pin(&[knob], machine.as_ref(), || machine.turn(knob, value));
        }
        let pinned = KnobId::ALL.map(|knob| machine.value(knob));
        assert_eq!(pinned, HOMES.map(|home| home + 1));
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(KnobId::ALL.map(|knob| machine.value(knob)), pinned, "what a person has set stays");

        tuning.release(&KnobId::ALL);
        let (other, own) = (tuning.clone(), machine.clone());
        let looks = thread::spawn(move || {
            for _ in 0..6 {
                let now_ns = own.now_ns.fetch_add(1_000_000_000, Ordering::Relaxed);
                other.look(now_ns, own.as_ref());
            }
        });
        tuning.set_mode(TuningMode::Off, machine.as_ref());
        looks.join().unwrap();
        assert_eq!(KnobId::ALL.map(|knob| machine.value(knob)), pinned, "which is home");
    });
}

#[test]
fn knobs_turn_while_queries_run_under_any_schedule() {
    interleave(500, || {
        let engine = engine();
        engine.set_tuning_mode(TuningMode::On);
        let turns = engine.clone();
        let person = thread::spawn(move || {
            for (knob, value) in [(KnobId::IoThreads, 6), (KnobId::Quantum, 200), (KnobId::IoThreads, 1)] {
                turns.set_knob(knob, value);
                assert_eq!(turns.knob(knob), value);
            }
            turns.set_stage_workers("exchange: 1, values: 1".parse().unwrap());
            turns.set_tuning_mode(TuningMode::Off);
            turns.release_knob(KnobId::Quantum);
            turns.set_stage_workers(StageWorkers::default());
        });
        for _ in 0..2 {
            let rows = sorted(read(start(&engine, &exchange(numbers(9), Pact::RoundRobin, 2))));
            assert_eq!(rows, (0..9).collect::<Vec<_>>());
        }
        person.join().unwrap();
        eventually(|| engine.stages().iter().all(|stage| stage.queued + stage.running == 0));
        assert_eq!((engine.knob(KnobId::IoThreads), engine.knob(KnobId::Quantum)), (1, 200));
    });
}
