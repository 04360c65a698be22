//! What is kept for later is what would be computed again, and is there only while nobody needs its memory.

use datafusion_common::JoinType;
use diligence_base::seams::Random;

use super::plans::{Tables, Wanted};
use super::{SharingMode, alone, answer, engines_with, is_free, options};
use crate::plan::Plan;
use crate::query::QueryStream;
use crate::reuse::SharingInfo;
use crate::{Engine, EngineOptions};

use std::sync::Arc;

fn run(engine: &Arc<Engine>, plan: &Plan) -> QueryStream {
    engine.run(plan, options(SharingMode::All)).unwrap()
}

/// Runs a plan, compares it with itself alone, and says how many queries have found a state, and more than they wanted.
fn found(engine: &Arc<Engine>, plan: &Plan) -> (u64, u64) {
    let expected = alone(engine, plan);
    assert_eq!(answer(run(engine, plan)), expected, "{engine:?}\n{plan}");
    let SharingInfo { retained_hits_total, subsumed_total, .. } = engine.sharing();
    (retained_hits_total, subsumed_total)
}

fn inline() -> Arc<Engine> {
    Engine::start(EngineOptions::inline(1)).unwrap()
}

#[test]
fn what_was_computed_is_read_again() {
    let tables = Tables::new(2000);
    for engine in engines_with(10) {
        let plan = tables.groups(&Wanted::between(10, 90));
        assert_eq!(found(&engine, &plan), (0, 0));
        assert_eq!(found(&engine, &tables.groups_written_otherwise(&Wanted::between(10, 90))), (1, 0));
        let info = engine.sharing();
        assert_eq!((info.builds_total, info.retained_states), (1, 1));
        assert_eq!((info.builds[0].state, info.builds[0].uses, info.builds[0].readers), ("retained", 1, 0));
        assert!(info.retained_bytes > 0 && info.builds[0].value > 0.0);
        let holders = engine.broker().holders();
        let holder = &holders[0];
        assert_eq!((holder.operator, holder.query, holder.bytes), ("Shared states", None, info.retained_bytes));
        assert!(holder.is_revocable && holders.len() == 1);
        let mut stream = run(&engine, &plan);
        while let Some(batch) = stream.next_blocking() {
            batch.unwrap();
        }
        let said = stream.profile().sharing.unwrap();
        assert!(said.starts_with("a state from ") && said.ends_with(" of work, used 2 times"), "{said}");
        // Whoever shares nothing finds nothing.
        answer(engine.run(&plan, options(SharingMode::Off)).unwrap()).unwrap();
        assert_eq!(engine.sharing().retained_hits_total, 2);
        is_free(&engine);
    }
}

#[test]
fn what_one_run_computed_for_many_is_kept_for_each_of_them() {
    let tables = Tables::new(2000);
    for engine in engines_with(10) {
        let plans = (0..20).map(|low| tables.groups(&Wanted::between(low, 90))).collect::<Vec<_>>();
        let streams = plans.iter().map(|plan| run(&engine, plan)).collect::<Vec<_>>();
        for (stream, plan) in streams.into_iter().zip(&plans) {
            assert_eq!(answer(stream), alone(&engine, plan));
        }
        let builds = engine.sharing().builds_total;
        assert!(builds < 20);
        for (index, plan) in plans.iter().enumerate() {
            assert_eq!(found(&engine, plan), (index as u64 + 1, 0));
        }
        assert_eq!(engine.sharing().builds_total, builds);
        is_free(&engine);
    }
}

#[test]
fn what_was_made_of_a_table_goes_with_it() {
    let engine = inline();
    let wanted = Wanted::between(10, 90);
    let tables = Tables::new(2000);
    found(&engine, &tables.groups(&wanted));
    let others = Tables::new(3000);
    assert_eq!(found(&engine, &others.groups(&wanted)), (0, 0));
    assert_eq!(engine.sharing().retained_states, 2);
    drop(tables);
    assert_eq!((engine.sharing().retained_states, engine.sharing().retained_drops_total), (1, 1));
    drop(others);
    assert_eq!((engine.sharing().retained_bytes, engine.broker().reserved_bytes()), (0, 0));
}

#[test]
fn a_state_of_a_view_stays_as_long_as_the_table_behind_it() {
    let engine = inline();
    let wanted = Wanted::between(10, 90);
    let tables = Tables::new(2000);
    assert_eq!(found(&engine, &tables.viewed().groups(&wanted)), (0, 0));
    assert_eq!(found(&engine, &tables.viewed().groups(&wanted)), (1, 0), "another view that is the same");
    assert_eq!(found(&engine, &tables.groups(&wanted)), (1, 0), "rows that are read otherwise");
    assert_eq!(engine.sharing().retained_states, 2);
    drop(tables);
    assert_eq!((engine.sharing().retained_states, engine.sharing().retained_drops_total), (0, 2));
    assert_eq!(engine.broker().reserved_bytes(), 0);
}

#[test]
fn states_have_their_part_of_the_budget_and_no_more() {
    let tables = Tables::new(2000);
    let options = EngineOptions { memory_bytes: 1 << 20, retained_percent: 10, ..EngineOptions::inline(1) };
    let engine = Engine::start(options).unwrap();
    for low in 0..90 {
        found(&engine, &tables.each_row(&Wanted::between(low, low + 10)));
        assert!(engine.sharing().retained_bytes <= (1 << 20) / 10);
    }
    let info = engine.sharing();
    assert!(info.retained_states > 1 && info.retained_drops_total > 0, "{info:?}");
    // What is used is worth more than what is not.
    let used = tables.each_row(&Wanted::between(80, 90));
    let hits = found(&engine, &used).0;
    for low in 0..80 {
        found(&engine, &tables.each_row(&Wanted::between(low, low + 9)));
        assert_eq!(found(&engine, &used).0, hits + low as u64 + 1);
    }
    engine.set_retained_percent(0);
    assert_eq!((engine.sharing().retained_states, engine.broker().reserved_bytes()), (0, 0));
    assert_eq!(found(&engine, &used).0, hits + 80);
    assert_eq!(engine.sharing().retained_states, 0);
}

#[test]
fn whoever_needs_the_memory_has_it() {
    let tables = Tables::new(2000);
    let plan = tables.groups(&Wanted::between(10, 90));
    // Inline, so that the reader is still there when somebody looks.
    for seed in 0..8 {
        let engine = Engine::start(EngineOptions::inline(seed)).unwrap();
        let (budget, spillable) = (engine.broker().budget_bytes(), engine.broker().spillable_bytes());
        let other = engine.broker().account(diligence_base::ids::QueryId(1_000_000), None);
        // Rows that can spill do not, and what cannot is not refused.
        for revocable in [true, false] {
            found(&engine, &plan);
            is_free(&engine);
            assert_eq!(engine.sharing().retained_states, 1);
            let mut rows = if revocable { other.revocable("Sort") } else { other.reservation("Sort") };
            rows.grow(if revocable { spillable } else { budget } - 1).unwrap();
            assert_eq!((engine.sharing().retained_states, engine.broker().asks_total()), (0, 0));
        }
        // Nobody waits for a grant, either, and a state that is read at the moment is kept by its reader alone.
        found(&engine, &plan);
        is_free(&engine);
        let mut stream = run(&engine, &plan);
        assert!(other.poll_admit(budget, std::task::Waker::noop()).is_pending(), "the reader runs");
        assert_eq!(engine.sharing().retained_states, 0);
        while let Some(batch) = stream.next_blocking() {
            batch.unwrap();
        }
        drop(stream);
        assert!(other.poll_admit(budget, std::task::Waker::noop()).is_ready());
        other.end_grant();
        // While somebody waits for memory, nothing is kept.
        let mut all = other.reservation("Sort");
        all.overdraw(budget);
        all.shrink(budget / 2);
        found(&engine, &plan);
        assert_eq!(engine.sharing().retained_states, 1);
        engine.broker().set_budget_bytes(budget / 2);
        assert_eq!(engine.sharing().retained_states, 0);
    }
}

#[test]
fn a_state_with_more_gives_what_is_wanted() {
    let tables = Tables::new(2000);
    let fine = || Wanted::between(10, 90);
    for engine in engines_with(10) {
        found(&engine, &tables.sums(&fine(), &[1, 3, 0]));
        // Fewer keys, in another order; no keys; another range; and all of it.
        assert_eq!(found(&engine, &tables.sums(&fine(), &[0, 1])), (1, 1));
        assert_eq!(found(&engine, &tables.sums(&fine(), &[])), (2, 2));
        assert_eq!(found(&engine, &tables.sums(&fine().below(50), &[3, 0, 1])), (3, 3));
        assert_eq!(found(&engine, &tables.sums(&Wanted::between(20, 30), &[3])), (4, 4));
        // More than it has is not there: another range, or a key.
        assert_eq!(found(&engine, &tables.sums(&fine().below(91), &[1, 3])), (4, 4));
        assert_eq!(found(&engine, &tables.sums(&fine(), &[2])), (4, 4));
        // A range of what is no key is not seen in the groups.
        found(&engine, &tables.sums(&Wanted::between(5, 95), &[0]));
        assert_eq!(found(&engine, &tables.sums(&Wanted::between(5, 94), &[0])), (4, 4));
        is_free(&engine);
    }
}

#[test]
fn columns_and_values_may_be_left_out() {
    let tables = Tables::new(2000);
    for engine in engines_with(10) {
        let fine = Wanted::between(10, 90);
        found(&engine, &tables.joined_sums(&fine, &[5, 1, 3], false));
        assert_eq!(found(&engine, &tables.joined_sums(&fine.below(40), &[1, 5], true)), (1, 1));
        found(&engine, &tables.plain(&Wanted::between(10, 90)));
        assert_eq!(found(&engine, &tables.computed(&Wanted::between(20, 90))), (1, 1), "nothing has the sum");
        assert_eq!(found(&engine, &tables.plain(&Wanted::between(20, 90))), (2, 2));
        // The first fifty of fewer.
        assert_eq!(found(&engine, &tables.sorted(&Wanted::between(20, 80))), (3, 3));
        assert_eq!(found(&engine, &tables.computed(&Wanted::between(30, 90))), (4, 4), "kept with the sum");
        // Rows below the padded side of a join are not rows above it.
        found(&engine, &tables.padded(&Wanted::between(10, 90)));
        assert_eq!(found(&engine, &tables.padded(&Wanted::between(20, 90))), (4, 4));
        is_free(&engine);
    }
}

#[test]
fn explain_says_what_could_be_shared() {
    let engine = inline();
    let tables = Tables::new(2000);
    let explained = |plan: &Plan| {
        let text = engine.explain(plan, &options(SharingMode::All)).unwrap();
        text.lines().find_map(|line| line.strip_prefix("Sharing: ").map(str::to_owned)).unwrap()
    };
    let plan = tables.sums(&Wanted::between(10, 90), &[0, 1]);
    let merged = "what is below its aggregate, with equal queries, and in one run with queries that differ in 4 conditions \
                  with constants";
    assert_eq!(explained(&plan), merged);
    found(&engine, &plan);
    assert_eq!(explained(&plan), format!("{merged}; it is retained"));
    assert_eq!(
        explained(&tables.sums(&Wanted::between(20, 90), &[0])),
        format!(
            "{merged}; more than it is retained, and can be filtered by one more condition, grouped by 1 of 2 keys"
        )
    );
    assert!(
        explained(&tables.volatile())
            .starts_with("what its scans decode, and no more, because it has a function whose value may differ")
    );
    let off = engine.explain(&plan, &options(SharingMode::Off)).unwrap();
    assert!(off.contains("Sharing: no, because it is off"));
    let small = engine
        .explain(&plan, &crate::options::QueryOptions { sharing_rows_min: 1_000_000, ..options(SharingMode::All) });
    assert!(small.is_ok());
}

/// Arrivals, reads, cancels, failures, changes of tables and of the memory, in an order given by a seed.
#[test]
fn whatever_is_kept_or_dropped_each_gets_its_rows() {
    let (mut hits, mut subsumed, mut drops) = (0, 0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let memory_bytes = if random.below(3) == 0 { 16 << 20 } else { 256 << 20 };
        let retained_percent = 1 + random.below(10);
        let engine = EngineOptions { memory_bytes, retained_percent, ..EngineOptions::inline(seed) };
        let engine = Engine::start(engine).unwrap();
        let other = Engine::start(EngineOptions { retained_percent: 0, ..EngineOptions::inline(seed) }).unwrap();
        let mut tables = Tables::new(500);
        // With the tables that the plan reads.
        let mut running: Vec<(QueryStream, Plan, Tables)> = Vec::new();
        for _ in 0..30 {
            let wanted = Wanted::coarse(&mut random);
            let keys = [&[0usize, 1, 3][..], &[3, 1], &[1], &[0], &[]][random.below(5)];
            let plan = match random.below(8) {
                0 => tables.inverses(&wanted),
                1 => tables.joined_sums(&wanted, keys, random.below(2) == 0),
                2 => tables.plain(&wanted),
                3 => tables.sorted(&wanted),
                4 => tables.joined(&wanted, JoinType::Left, false),
                5 => tables.groups(&wanted),
                _ => tables.sums(&wanted, keys),
            };
            running.push((run(&engine, &plan), plan, tables.clone()));
            for _ in 0..random.below(200) {
                engine.scheduler().run_one();
            }
            match random.below(16) {
                0 => drop(running.swap_remove(random.below(running.len()))),
                1 => tables = Tables::new(400 + random.below(200) as i64),
                2 => {
                    let account = engine.broker().account(diligence_base::ids::QueryId(1 << 40), None);
                    // Whatever is kept makes room for it.
                    let taken = engine.broker().taken_bytes() - engine.sharing().retained_bytes;
                    let is_read =
                        engine.sharing().builds.iter().any(|build| build.readers > 0 && build.state == "retained");
                    let spillable = engine.broker().spillable_bytes();
                    let grown = account.revocable("Sort").grow(spillable.saturating_sub(taken));
                    assert!(grown.is_ok() || is_read || taken > spillable, "seed {seed}: {grown:?}");
                }
                3..6 => {
                    let (stream, plan, _tables) = running.swap_remove(random.below(running.len()));
                    assert_eq!(answer(stream), alone(&other, &plan), "seed {seed}\n{plan}");
                }
                _ => {}
            }
        }
        for (stream, plan, _tables) in running {
            assert_eq!(answer(stream), alone(&other, &plan), "seed {seed}\n{plan}");
        }
        is_free(&engine);
        drop(tables);
        let info = engine.sharing();
        assert_eq!((info.retained_bytes, engine.broker().reserved_bytes()), (0, 0), "seed {seed}");
        hits += info.retained_hits_total;
        subsumed += info.subsumed_total;
        drops += info.retained_drops_total;
    }
    assert!(hits > 300 && subsumed > 100 && drops > 300, "{hits} {subsumed} {drops}");
}

#[test]
fn many_threads_read_what_is_kept() {
    let tables = Tables::new(1000);
    let options = EngineOptions { workers: 4, memory_bytes: 64 << 20, retained_percent: 1, ..EngineOptions::default() };
    let engine = Engine::start(options).unwrap();
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (engine, tables) = (&engine, &tables);
            scope.spawn(move || {
                tables.are_here();
                let mut random = Random::new(client);
                for _ in 0..60 {
                    let wanted = Wanted::coarse(&mut random);
                    let keys = [&[0usize, 1, 3][..], &[3, 1], &[1], &[]][random.below(4)];
                    let plan = match random.below(4) {
                        0 => tables.each_row(&wanted),
                        1 => tables.inverses(&wanted),
                        _ => tables.sums(&wanted, keys),
                    };
                    if random.below(8) == 0 {
                        drop(run(engine, &plan));
                    }
                    assert_eq!(answer(run(engine, &plan)), alone(engine, &plan), "{plan}");
                }
            });
        }
    });
    let info = engine.sharing();
    assert!(info.retained_hits_total > 20 && info.subsumed_total > 0, "{info:?}");
    is_free(&engine);
}
