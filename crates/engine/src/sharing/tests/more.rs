//! A query whose rows another one has, too, in another order of columns, beside more of them or in finer groups, reads
//! what that one builds, before it is there as well as while it is built.

use std::sync::Arc;

use diligence_base::seams::Random;

use super::plans::{Tables, Wanted};
use super::{SharingMode, alone, answer, engines, inline, is_free, is_inline, options};
use crate::plan::Plan;
use crate::query::QueryStream;
use crate::{Engine, EngineOptions};

fn run(engine: &Arc<Engine>, plan: &Plan) -> QueryStream {
    engine.run(plan, options(SharingMode::All)).unwrap()
}

/// Starts the plans, one right after the other, and compares each with itself alone; the runs that it took.
fn builds(engine: &Arc<Engine>, plans: &[Plan]) -> u64 {
    let before = engine.sharing().builds_total;
    let streams = plans.iter().map(|plan| run(engine, plan)).collect::<Vec<_>>();
    for (stream, plan) in streams.into_iter().zip(plans) {
        assert_eq!(answer(stream), alone(engine, plan), "{engine:?}\n{plan}");
    }
    is_free(engine);
    engine.sharing().builds_total - before
}

/// The builds of runs in flight at the same time; on threads, some may be over before the next comes.
fn assert_builds(engine: &Arc<Engine>, plans: &[Plan], expected: u64) {
    let builds = builds(engine, plans);
    assert!(builds == expected || !is_inline(engine) && builds >= expected, "{builds} instead of {expected}");
}

#[test]
fn the_order_of_columns_does_not_hide_what_is_equal() {
    let tables = Tables::new(3000);
    let wanted = || Wanted::between(10, 90);
    for engine in engines() {
        // Groups in another order, and fewer of them; and other columns of what is read and joined.
        let sums = [&[1, 3, 0][..], &[0, 1, 3], &[3, 1], &[]].map(|keys| tables.sums(&wanted(), keys));
        assert_builds(&engine, &sums, 1);
        let joined = [(&[5, 1, 3][..], false), (&[1, 3, 5], true), (&[5], true)];
        let joined = joined.map(|(keys, few)| tables.joined_sums(&wanted(), keys, few));
        assert_builds(&engine, &joined, 1);
        // Rows without groups: all of them, then the first fifty of the same.
        assert_builds(&engine, &[tables.plain(&wanted()), tables.sorted(&wanted())], 1);
        // What is not there is not found: finer groups than are built, a value, other rows.
        assert_builds(&engine, &[&[1, 3][..], &[1, 3, 0]].map(|keys| tables.sums(&wanted(), keys)), 2);
        assert_builds(&engine, &[true, false].map(|few| tables.joined_sums(&wanted(), &[1, 5], few)), 2);
        assert_builds(&engine, &[tables.plain(&wanted()), tables.computed(&Wanted::between(10, 89))], 2);
    }
}

#[test]
fn it_is_found_while_it_waits_and_among_the_cells_of_several() {
    let tables = Tables::new(2000);
    for engine in engines() {
        let sums = |low: i64, keys: &[usize]| tables.sums(&Wanted::between(low, 90), keys);
        // The first runs; the others wait, go together, and have readers with other columns.
        let plans = [
            sums(0, &[1, 3, 0]),
            sums(1, &[1, 3, 0]),
            sums(2, &[1, 3, 0]),
            sums(1, &[0, 3, 1]),
            sums(2, &[3]),
            sums(2, &[]),
            sums(0, &[0]),
        ];
        assert_builds(&engine, &plans, 2);
    }
}

#[test]
fn whoever_reads_more_than_it_wants_is_told() {
    let engine = Engine::start(inline(1)).unwrap();
    let tables = Tables::new(2000);
    let plans = [&[1, 3, 0][..], &[0, 1, 3], &[3]].map(|keys| tables.sums(&Wanted::between(10, 90), keys));
    let streams = plans.iter().map(|plan| run(&engine, plan)).collect::<Vec<_>>();
    let said = streams.into_iter().map(|mut stream| {
        while let Some(batch) = stream.next_blocking() {
            batch.unwrap();
        }
        stream.profile().sharing.unwrap()
    });
    let expected = [("host", "; "), ("satellite", "; attached "), ("satellite", "; grouped by 1 of 3 keys; attached ")];
    for (said, (role, more)) in said.zip(expected) {
        let expected = format!("{role}, one run for this and 2 other queries with the same plan{more}");
        assert!(said.starts_with(&expected) && said.ends_with(" of work for all"), "{said}");
    }
}

#[test]
fn the_host_may_leave_and_its_errors_are_its_own() {
    let tables = Tables::new(2000);
    for seed in 0..8 {
        let engine = Engine::start(inline(seed)).unwrap();
        let sums = |low: i64, keys: &[usize]| tables.sums(&Wanted::between(low, 90), keys);
        // One that runs keeps the next waiting. Its host leaves, and who is left wants something else than what is
        // built.
        let first = run(&engine, &sums(0, &[1, 3, 0]));
        let host = run(&engine, &sums(1, &[1, 3, 0]));
        let plan = sums(1, &[3]);
        let left = run(&engine, &plan);
        drop(host);
        assert_eq!(answer(left), alone(&engine, &plan));
        drop(first);
        is_free(&engine);
        assert_eq!((engine.sharing().builds_total, engine.sharing().retries_total), (2, 0));
        // A column that is not wanted fails.
        let zero = [true, false].map(|inverses| tables.counts(&Wanted::between(0, 90), inverses));
        assert!(alone(&engine, &zero[0]).is_err() && alone(&engine, &zero[1]).is_ok());
        assert_eq!(builds(&engine, &zero), 1);
        assert_eq!(engine.sharing().retries_total, 2);
    }
}

/// Arrivals, reads and cancels in an order given by a seed; nothing is kept for later.
#[test]
fn whoever_finds_more_gets_its_own() {
    let tables = Tables::new(500);
    let mut satellites = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let engine = Engine::start(inline(seed)).unwrap();
        let other = Engine::start(EngineOptions { retained_percent: 0, ..EngineOptions::inline(seed) }).unwrap();
        let mut running: Vec<(QueryStream, Plan)> = Vec::new();
        for _ in 0..20 {
            // So few different ones that there is most often another with the same rows.
            let wanted = Wanted::between([0, 20][random.below(2)], 90);
            let keys = [&[0usize, 1, 3][..], &[3, 1, 0], &[1], &[0], &[]][random.below(5)];
            let plan = match random.below(7) {
                0 => tables.counts(&wanted, random.below(2) == 0),
                1 => tables.joined_sums(&wanted, keys, random.below(2) == 0),
                2 => tables.plain(&wanted),
                3 => tables.sorted(&wanted),
                4 => tables.groups(&wanted),
                _ => tables.sums(&wanted, keys),
            };
            running.push((run(&engine, &plan), plan));
            for _ in 0..random.below(40) {
                engine.scheduler().run_one();
            }
            if random.below(4) == 0 {
                drop(running.swap_remove(random.below(running.len())));
            }
        }
        for (stream, plan) in running {
            assert_eq!(answer(stream), alone(&other, &plan), "seed {seed}\n{plan}");
        }
        is_free(&engine);
        satellites += engine.sharing().satellites_total;
    }
    // Most of those that wait go together as a page, or as queries of one template.
    assert!(satellites > 20, "{satellites}");
}
