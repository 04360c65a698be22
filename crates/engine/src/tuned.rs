//! The engine as the tuner sees it: its counters, its knobs.

use diligence_disk::PoolInfo;

use crate::launcher::Launcher;
use crate::stages::{Policies, StageId, StageInfo};
use crate::tuning::Machine;
use crate::tuning::counters::{Counters, StageCounters};
use crate::tuning::settings::{KnobId, OTHER, POLICIES, STAGE_POLICIES};

impl Machine for Launcher {
    fn counters(&self, now_ns: u64) -> Counters {
        let mut counters = Counters { now_ns, ..Counters::default() };
        for (stage, info) in counters.stages.iter_mut().zip(self.scheduler.stages()) {
            *stage = of_stage(&info);
        }
        counters.io = of_pool(&self.io.pool.info());
        (counters.running, counters.classes) = self.registry.counted();
        counters.budget_bytes = self.broker.budget_bytes() as u64;
        counters.taken_bytes = self.broker.taken_bytes() as u64;
        counters.memory_waits = self.broker.waits_total() + self.broker.refusals_total();
        let temp = self.temp.info();
        (counters.spilled_bytes, counters.temp_waits) = (temp.written_bytes_total, temp.waits_total);
        counters
    }

    fn value(&self, knob: KnobId) -> usize {
        let knobs = &self.knobs;
        match knob {
            KnobId::Packets => knobs.packets.get(),
            KnobId::Quantum => knobs.quantum_us.get(),
            KnobId::PortCredits => knobs.port_credits.get(),
            KnobId::ReadAhead => knobs.read_ahead.get(),
            KnobId::BatchRows => knobs.batch_rows.get(),
            KnobId::IoThreads => knobs.io_threads.get(),
            KnobId::Policy => place(&POLICIES, self.scheduler.policy().global),
            KnobId::PolicyOf(stage) => place(&STAGE_POLICIES, self.scheduler.policy().of_stages[stage as usize]),
            KnobId::WorkersOf(stage) => {
                let workers = self.workers.max(1);
                self.scheduler.limits().of(stage).map_or(workers, |limit| limit.min(workers))
            }
        }
    }

    fn turn(&self, knob: KnobId, value: usize) {
        let knobs = &self.knobs;
        match knob {
            KnobId::Packets => knobs.packets.set(value),
            KnobId::Quantum => knobs.quantum_us.set(value),
            KnobId::PortCredits => knobs.port_credits.set(value),
            KnobId::ReadAhead => knobs.read_ahead.set(value),
            KnobId::BatchRows => knobs.batch_rows.set(value),
            KnobId::IoThreads => {
                knobs.io_threads.set(value);
                // The pool goes on with those that it has if the system has no more.
                let there = self.io.pool.set_threads(knobs.io_threads.get());
                knobs.io_threads.set(there);
            }
            KnobId::Policy => {
                if let Some(&global) = POLICIES.get(value) {
                    self.scheduler.set_policy(Policies { global, ..self.scheduler.policy() });
                }
            }
            KnobId::PolicyOf(stage) => {
                if let Some(&kind) = STAGE_POLICIES.get(value) {
                    let mut policies = self.scheduler.policy();
                    policies.of_stages[stage as usize] = kind;
                    self.scheduler.set_policy(policies);
                }
            }
            KnobId::WorkersOf(stage) => {
                let limit = Some(value.max(1)).filter(|limit| *limit < self.workers);
                self.scheduler.set_limits(self.scheduler.limits().with(stage, limit));
            }
        }
    }

    fn workers(&self) -> usize {
        self.workers
    }
}

/// All knobs that a setting of policies turns.
pub(crate) fn policy_knobs() -> Vec<KnobId> {
    let is_policy = |knob: &KnobId| matches!(knob, KnobId::Policy | KnobId::PolicyOf(_));
    KnobId::ALL.into_iter().filter(is_policy).collect()
}

/// All knobs that a setting of stages' workers turns.
pub(crate) fn workers_knobs() -> Vec<KnobId> {
    KnobId::ALL.into_iter().filter(|knob| matches!(knob, KnobId::WorkersOf(_))).collect()
}

fn place<T: PartialEq>(ladder: &[T], value: T) -> usize {
    ladder.iter().position(|step| *step == value).unwrap_or(OTHER)
}

fn of_stage(info: &StageInfo) -> StageCounters {
    debug_assert!(StageId::ALL.iter().any(|stage| stage.name() == info.name));
    StageCounters {
        queued: info.queued as u64,
        turns: info.turns_total,
        waits: info.waits_total,
        wait_ns: info.wait_ns_total,
        service_ns: info.service_ns_total,
    }
}

fn of_pool(info: &PoolInfo) -> StageCounters {
    StageCounters {
        queued: info.queued as u64,
        turns: info.jobs_total,
        waits: 0,
        wait_ns: info.wait_ns_total,
        service_ns: info.service_ns_total,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diligence_base::seams::ManualClock;

    use super::*;
    use crate::query::tests::{numbers, options, read};
    use crate::stages::StageWorkers;
    use crate::tuning::TuningMode;
    use crate::{Engine, EngineOptions};

    /// An engine whose clock goes on by more than half a second at every look.
    fn engine(tuning: TuningMode) -> Arc<Engine> {
        let clock = Arc::new(ManualClock::stepping(600_000_000));
        Engine::start(EngineOptions { workers: 3, clock, tuning, ..EngineOptions::default() }).unwrap()
    }

    fn answers(engine: &Arc<Engine>) {
        let mut rows = read(engine.run(&numbers(50), options(2)).unwrap()).unwrap();
        rows.sort_unstable();
        assert_eq!(rows, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn every_knob_turns_to_each_of_its_steps_and_answers_stay() {
        let engine = engine(TuningMode::Off);
        for knob in KnobId::ALL {
            let home = engine.knob(knob);
            assert!(knob.steps(3).contains(&home), "{knob:?} is at {home}");
            for step in knob.steps(3) {
                engine.set_knob(knob, step);
                assert_eq!(engine.knob(knob), step, "{knob:?}");
                answers(&engine);
            }
            engine.set_knob(knob, home);
        }
        assert_eq!(engine.policy(), Policies::default());
        assert_eq!(engine.stage_workers(), StageWorkers::default(), "all workers is no limit");
        engine.set_policy("t_gated(7), sort: t_gated(7)".parse::<Policies>().unwrap());
        assert_eq!([KnobId::Policy, KnobId::PolicyOf(StageId::Sort)].map(|knob| engine.knob(knob)), [OTHER; 2]);
    }

    #[test]
    fn answers_stay_where_stages_have_one_worker_each() {
        let engine = engine(TuningMode::Off);
        let limits = "scan: 1, join: 1, aggregate: 1, sort: 1, exchange: 1, window: 1, recursive: 1, values: 1";
        engine.set_stage_workers(limits.parse().unwrap());
        assert_eq!(engine.stage_workers().to_string(), limits);
        assert_eq!(engine.knob(KnobId::WorkersOf(StageId::Join)), 1);
        (0..20).for_each(|_| answers(&engine));
        // More than there are is no limit for the tuner.
        engine.set_stage_workers("scan: 9".parse().unwrap());
        assert_eq!(engine.knob(KnobId::WorkersOf(StageId::Scan)), 3);
        answers(&engine);
    }

    #[test]
    fn a_worker_looks_when_the_clock_says_so() {
        let engine = engine(TuningMode::Observe);
        engine.tuning().record(true);
        (0..30).for_each(|_| answers(&engine));
        let looks = engine.tuning().record(true);
        assert!(looks.len() > 3, "{} looks", looks.len());
        assert!(looks.windows(2).all(|pair| pair[1].now_ns >= pair[0].now_ns + 1_000_000_000), "not too often");
        let (first, last) = (looks[0], looks[looks.len() - 1]);
        let span = last.since(&first);
        assert!(span.ended() > 0 && span.all_stages().turns > 0 && last.budget_bytes > 0, "{span:?}");

        engine.set_tuning_mode(TuningMode::Off);
        engine.tuning().record(true);
        (0..5).for_each(|_| answers(&engine));
        assert_eq!(engine.tuning().record(false), []);
    }
}
