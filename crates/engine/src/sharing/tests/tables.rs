//! Joins with equal build sides share one hash table and answer as if each had its own, whoever comes, goes, fails or
//! is short of memory.

use std::sync::Arc;

use datafusion_common::JoinType;
use diligence_base::ErrorKind;
use diligence_base::ids::QueryId;
use diligence_base::seams::Random;

use super::plans::{Tables, Wanted};
use super::{SharingMode, alone, answer, engines, engines_with, inline, is_free, is_inline, options};
use crate::matching::signature::Signature;
use crate::options::QueryOptions;
use crate::plan::{Node, Plan, RuntimeFilterId};
use crate::query::QueryStream;
use crate::{Engine, EngineOptions};

/// Those whose tables keep the same of the same build side, side by side.
const TYPES: [[JoinType; 3]; 2] =
    [[JoinType::Inner, JoinType::Right, JoinType::LeftSemi], [JoinType::Left, JoinType::Full, JoinType::LeftAnti]];

/// Tables, but no runs of several queries: those would answer most of what is asked here.
fn run(engine: &Arc<Engine>, plan: &Plan) -> QueryStream {
    engine.run(plan, options(SharingMode::States)).unwrap()
}

fn of_kind(kind: i64) -> Wanted {
    Wanted::between(10, 90).of_kind(kind)
}

/// Queries that differ, of which many have an equal build side.
fn plans(tables: &Tables) -> Vec<Plan> {
    let plans = TYPES.iter().flatten().chain(&[JoinType::RightSemi, JoinType::RightAnti]);
    plans.flat_map(|join_type| [0, 2].map(|kind| tables.joined(&of_kind(kind), *join_type, false))).collect()
}

#[test]
fn joins_with_equal_build_sides_read_one_table() {
    let tables = Tables::new(3000);
    for engine in engines() {
        let plans = plans(&tables);
        let expected = plans.iter().map(|plan| alone(&engine, plan)).collect::<Vec<_>>();
        assert_eq!(engine.sharing().tables_built_total, 0, "whoever shares nothing asks for nothing");
        let streams = plans.iter().map(|plan| run(&engine, plan)).collect::<Vec<_>>();
        for (index, (stream, expected)) in streams.into_iter().zip(expected).enumerate() {
            assert_eq!(answer(stream), expected, "{engine:?}\n{}", plans[index]);
        }
        let (built, read) = (engine.sharing().tables_built_total, engine.sharing().tables_read_total);
        assert_eq!(built + read, 16, "{engine:?}");
        // Semi and anti joins of the other side keep no columns of this one.
        assert!(built == 3 || !is_inline(&engine) && built > 3, "{built} built on {engine:?}");
        is_free(&engine);
        assert!(engine.broker().holders().is_empty());
    }
}

#[test]
fn one_query_builds_an_equal_table_once() {
    let tables = Tables::new(3000);
    for engine in engines() {
        let plan = tables.joined_twice(&of_kind(0));
        let expected = alone(&engine, &plan);
        let stream = run(&engine, &plan);
        assert_eq!(answer(stream), expected);
        let info = engine.sharing();
        assert_eq!((info.tables_built_total, info.tables_read_total), (1, 1), "{engine:?}");
        is_free(&engine);
    }
}

/// Arrivals, reads and cancels in an order given by a seed; some fail, some have little memory.
#[test]
fn whoever_builds_may_go_or_fail() {
    let tables = Tables::new(700);
    let (mut read, mut failed) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let retained_percent = [0, 10][seed as usize % 2];
        let engine = Engine::start(EngineOptions { retained_percent, ..inline(seed) }).unwrap();
        let mut running = Vec::new();
        for _ in 0..14 {
            let wanted = Wanted::between([0, 1][random.below(2)], 90).of_kind(random.below(4) as i64);
            let join_type = TYPES[random.below(2)][random.below(3)];
            let plan = match random.below(3) {
                0 => tables.joined_or_failed(&wanted, join_type),
                1 => tables.joined_twice(&wanted),
                _ => tables.joined(&wanted, join_type, random.below(4) == 0),
            };
            let mode = [SharingMode::States, SharingMode::States, SharingMode::All][random.below(3)];
            let stream = engine.run(&plan, options(mode)).unwrap();
            running.push((plan, stream));
            for _ in 0..random.below(40) {
                engine.scheduler().run_one();
            }
            if random.below(3) == 0 {
                let gone = random.below(running.len());
                drop(running.swap_remove(gone));
            }
        }
        let other = Engine::start(inline(seed)).unwrap();
        for (plan, stream) in running {
            let expected = alone(&other, &plan);
            failed += usize::from(expected.is_err());
            assert_eq!(answer(stream), expected, "seed {seed}\n{plan}");
        }
        read += engine.sharing().tables_read_total;
        is_free(&engine);
    }
    assert!(read > 300 && failed > 100, "{read} {failed}");
}

#[test]
fn the_like_is_kept_when_it_is_asked_for_again() {
    let tables = Tables::new(3000);
    for engine in engines_with(10) {
        let mut expected = Vec::new();
        let mut ask = |join_type, kind| {
            let plan = tables.joined(&of_kind(kind), join_type, false);
            expected.push(alone(&engine, &plan));
            let mut stream = run(&engine, &plan);
            let mut rows = Vec::new();
            while let Some(batch) = stream.next_blocking() {
                rows.push(batch.unwrap());
            }
            assert_eq!(Ok(super::lines(&rows)), expected.pop().unwrap());
            (engine.sharing().tables_read_total, stream.profile().to_string())
        };
        let is_kept = || engine.sharing().builds.iter().any(|build| build.state == "retained table");
        // What nobody repeats costs what it costs.
        assert_eq!(ask(JoinType::Inner, 0).0, 0);
        is_free(&engine);
        assert!(!is_kept());
        assert_eq!(ask(JoinType::Right, 1).0, 0);
        is_free(&engine);
        assert!(is_kept());
        let (read, profile) = ask(JoinType::LeftSemi, 2);
        assert_eq!(read, 1);
        assert!(profile.contains("Sharing: 1 hash table was built by another join"), "{profile}");
        let holders = engine.broker().holders();
        assert!(holders.iter().any(|holder| holder.operator == "Shared tables" && holder.is_revocable));
        let plan = tables.joined(&of_kind(3), JoinType::Inner, false);
        let explained = engine.explain(&plan, &options(SharingMode::States)).unwrap();
        assert!(
            explained.contains("hash tables of 1 joins, with joins of equal build sides, of which 1 are there"),
            "{explained}"
        );
        // Whoever is short has it dropped, and the next builds another.
        let memory = engine.broker().account(QueryId(1000), None);
        let mut all = memory.reservation("Test");
        all.grow(engine.broker().budget_bytes()).unwrap();
        assert!(!is_kept() && engine.sharing().retained_bytes == 0);
        drop(all);
        assert_eq!(ask(JoinType::LeftSemi, 3).0, 1);
        is_free(&engine);
        assert!(is_kept());
        // Another state of the table is another table.
        let others = Tables::new(3000);
        let changed = others.joined(&of_kind(1), JoinType::LeftSemi, false);
        assert_eq!(answer(run(&engine, &changed)), alone(&engine, &changed));
        assert_eq!(engine.sharing().tables_read_total, 1);
        engine.set_retained_percent(0);
        is_free(&engine);
        assert!(!is_kept());
    }
}

#[test]
fn what_does_not_fit_is_not_shared() {
    let tables = Tables::new(300_000);
    let plans =
        [JoinType::Inner, JoinType::Right].map(|join_type| tables.joined(&of_kind(0).of_all(), join_type, false));
    // An eighth of the budget is less than the table; or the queries' own limit is, so that it is spilled.
    for (memory_bytes, memory_limit_bytes) in [(64 << 20, None), (1 << 30, Some(12 << 20))] {
        for options in [EngineOptions { workers: 2, ..EngineOptions::default() }, inline(3)] {
            let engine = Engine::start(EngineOptions { memory_bytes, retained_percent: 10, ..options }).unwrap();
            let expected = plans.iter().map(|plan| alone(&engine, plan)).collect::<Vec<_>>();
            for _ in 0..2 {
                let limited = || QueryOptions { memory_limit_bytes, ..super::options(SharingMode::States) };
                let streams = plans.iter().map(|plan| engine.run(plan, limited()).unwrap()).collect::<Vec<_>>();
                for (stream, expected) in streams.into_iter().zip(&expected) {
                    match answer(stream) {
                        // The limit is little for the groups of all packets as well.
                        Err(message) if memory_limit_bytes.is_some() && message.contains("not enough memory") => {}
                        answer => assert_eq!(&answer, expected),
                    }
                }
            }
            let sharing = engine.sharing();
            assert!(sharing.tables_read_total == 0 && sharing.tables_built_total > 0, "{engine:?}");
            is_free(&engine);
        }
    }
}

#[test]
fn a_table_that_is_read_stays_and_one_that_is_not_may_go() {
    let tables = Tables::new(3000);
    for seed in 0..100 {
        let engine = Engine::start(inline(seed)).unwrap();
        let mut random = Random::new(seed);
        let plans = plans(&tables);
        let expected = plans.iter().map(|plan| alone(&engine, plan)).collect::<Vec<_>>();
        let streams = plans.iter().map(|plan| run(&engine, plan)).collect::<Vec<_>>();
        // At some moment somebody needs all of the memory, and waits for it.
        for _ in 0..random.below(400) {
            engine.scheduler().run_one();
        }
        let memory = engine.broker().account(QueryId(1000), None);
        let mut all = memory.reservation("Test");
        all.overdraw(engine.broker().budget_bytes());
        let mut more = memory.reservation("Test");
        let _ = more.grow(1 << 20);
        for _ in 0..random.below(400) {
            engine.scheduler().run_one();
        }
        drop((all, more));
        for (index, (stream, expected)) in streams.into_iter().zip(expected).enumerate() {
            match answer(stream) {
                Err(message) if message.contains("not enough memory") => {}
                answer => assert_eq!(answer, expected, "seed {seed}\n{}", plans[index]),
            }
        }
        is_free(&engine);
    }
}

#[test]
fn a_table_stands_for_its_build_side_and_nothing_else() {
    let tables = Tables::new(10);
    let of = |plan: &Plan| {
        let Node::Aggregate(aggregate) = &plan.node else { panic!("{plan}") };
        let Node::HashJoin(join) = &aggregate.input.node else { panic!("{plan}") };
        Signature::table(join, &"all", &options(SharingMode::All))
    };
    let plan = tables.joined(&of_kind(0), JoinType::Inner, false);
    let equal = tables.joined(&of_kind(2), JoinType::Full, true);
    assert!(of(&plan).is_some() && of(&plan) == of(&equal), "the probe side and the join's type do not count");
    assert!(of(&plan) != of(&tables.joined(&Wanted::between(10, 91), JoinType::Inner, false)));
    // A filter of a join above takes rows away that others want; one of the same part does not.
    let filtered = |plan: &Plan, id| {
        let mut plan = plan.clone();
        let Node::Aggregate(aggregate) = &mut plan.node else { panic!("{plan}") };
        let Node::HashJoin(join) = &mut aggregate.input.node else { panic!("{plan}") };
        let Node::Scan(scan) = &mut join.left.node else { panic!("{}", join.left) };
        scan.runtime_filters.push((RuntimeFilterId(id), 0));
        plan
    };
    assert!(of(&filtered(&plan, 7)).is_none());
    let exact = |plan: &Plan| Signature::exact(plan, &options(SharingMode::All));
    assert!(exact(&filtered(&plan, 7)) == exact(&filtered(&plan, 8)), "numbers do not count");
    assert!(exact(&filtered(&plan, 7)) != exact(&plan));
}

#[test]
fn an_error_of_a_build_side_belongs_to_those_who_have_it() {
    let tables = Tables::new(1000);
    for engine in engines() {
        let plans: Vec<_> = (0..8)
            .map(|low| tables.joined_or_failed(&Wanted::between(low % 2, 90).of_kind(low), TYPES[0][low as usize % 3]))
            .collect();
        let expected = plans.iter().map(|plan| alone(&engine, plan)).collect::<Vec<_>>();
        assert_eq!(expected.iter().filter(|answer| answer.is_err()).count(), 4);
        let mut streams = plans.iter().map(|plan| run(&engine, plan)).collect::<Vec<_>>();
        let error = streams.remove(0).next_blocking().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Value);
        for (stream, expected) in streams.into_iter().zip(expected.into_iter().skip(1)) {
            assert_eq!(answer(stream), expected);
        }
        is_free(&engine);
    }
}
