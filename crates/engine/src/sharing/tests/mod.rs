//! Many queries at once answer as each of them alone: merged and not, cancelled and failing, on workers and inline.

mod by_rows;
mod columns;
mod common;
mod more;
mod orders;
mod pages;
mod plans;
mod retained;
mod tables;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_common::JoinType;
use diligence_base::ErrorKind;
use diligence_base::ids::QueryId;
use diligence_base::limits::SHARING_PATIENCE;
use diligence_base::seams::Random;

use self::plans::{Tables, Wanted};
use crate::matching::cut::ShareRequest;
use crate::matching::signature::Signature;
use crate::options::{QueryOptions, SharingMode};
use crate::plan::Plan;
use crate::query::QueryStream;
use crate::{Engine, EngineOptions};

fn options(sharing: SharingMode) -> QueryOptions {
    QueryOptions { sharing, sharing_rows_min: 0, tables: plans::tables(), ..QueryOptions::default() }
}

/// The rows as text, in an order of their own; or the error.
fn answer(mut stream: QueryStream) -> Result<Vec<String>, String> {
    let mut batches = Vec::new();
    while let Some(batch) = stream.next_blocking() {
        batches.push(batch.map_err(|error| error.message().to_owned())?);
    }
    Ok(lines(&batches))
}

fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns = columns.collect::<Vec<_>>();
        for row in 0..batch.num_rows() {
            lines.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" "));
        }
    }
    lines.sort();
    lines
}

fn alone(engine: &Arc<Engine>, plan: &Plan) -> Result<Vec<String>, String> {
    answer(engine.run(plan, options(SharingMode::Off)).unwrap())
}

/// Some engines with workers, some inline; nothing is kept for later.
fn engines() -> Vec<Arc<Engine>> {
    engines_with(0)
}

/// The same; finished states may have so many percent of the budget.
fn engines_with(retained_percent: usize) -> Vec<Arc<Engine>> {
    let threads = [1, 4].map(|workers| EngineOptions { workers, ..EngineOptions::default() });
    threads
        .into_iter()
        .chain((0..8).map(EngineOptions::inline))
        .map(|options| Engine::start(EngineOptions { retained_percent, ..options }).unwrap())
        .collect()
}

/// One inline that keeps nothing for later.
fn inline(seed: u64) -> EngineOptions {
    EngineOptions { retained_percent: 0, ..EngineOptions::inline(seed) }
}

fn is_inline(engine: &Engine) -> bool {
    format!("{engine:?}").contains("Inline")
}

/// Whatever was reserved is given back, soon.
fn is_free(engine: &Engine) {
    // Inline, what was cancelled drops what it holds when somebody runs it.
    while engine.scheduler().run_one() {}
    let end = Instant::now() + Duration::from_secs(10);
    let kept = || {
        let sharing = engine.sharing();
        sharing.retained_bytes + sharing.columns_bytes
    };
    while engine.broker().reserved_bytes() > kept() {
        assert!(Instant::now() < end, "{:?} {:?}", engine.broker().holders(), engine.sharing());
        std::thread::yield_now();
    }
    assert!(
        engine.sharing().builds.iter().all(|build| ["retained", "retained table", "decoded"].contains(&build.state))
    );
}

/// Runs all at once and compares each with itself alone.
fn judge(engine: &Arc<Engine>, plans: &[Plan]) {
    let expected = plans.iter().map(|plan| alone(engine, plan)).collect::<Vec<_>>();
    let streams = plans.iter().map(|plan| engine.run(plan, options(SharingMode::All)).unwrap()).collect::<Vec<_>>();
    for (index, (stream, expected)) in streams.into_iter().zip(expected).enumerate() {
        assert_eq!(answer(stream), expected, "query {index} on {engine:?}\n{}", plans[index]);
    }
    is_free(engine);
}

#[test]
fn merged_queries_answer_as_lone_ones() {
    let tables = Tables::new(3000);
    for engine in engines() {
        let mut random = Random::new(7);
        let wanted = (0..100).map(|_| Wanted::random(&mut random)).collect::<Vec<_>>();
        judge(&engine, &wanted.iter().map(|wanted| tables.groups(wanted)).collect::<Vec<_>>());
        judge(&engine, &wanted.iter().map(|wanted| tables.total(wanted)).collect::<Vec<_>>());
        let info = engine.sharing();
        // On threads it depends on who comes when, and on whether a worker has something to do.
        assert!(!is_inline(&engine) || (info.merged_builds_total >= 2 && info.merged_queries_total > 50), "{info:?}");
        assert_eq!(info.retries_total, 0);
    }
}

#[test]
fn conditions_that_are_no_comparisons_are_evaluated_for_each_query() {
    let tables = Tables::new(3000);
    for engine in engines() {
        let mut random = Random::new(11);
        let wanted = (0..70).map(|_| Wanted::random(&mut random)).collect::<Vec<_>>();
        for is_joined in [false, true] {
            judge(&engine, &wanted.iter().map(|one| tables.groups_of_open(one, is_joined)).collect::<Vec<_>>());
        }
        let info = engine.sharing();
        assert!(!is_inline(&engine) || (info.merged_builds_total >= 2 && info.merged_queries_total > 50), "{info:?}");
        assert_eq!(info.retries_total, 0);
    }
}

#[test]
fn a_condition_that_may_fail_keeps_its_constants() {
    let tables = Tables::new(100);
    let template = |plan: &Plan| {
        ShareRequest::of(plan, &options(SharingMode::All), |_| None)
            .unwrap()
            .template
            .map(|template| template.signature)
    };
    let (one, other) = (Wanted::between(10, 90), Wanted::between(20, 60).of_word("beech"));
    assert!(template(&tables.groups_of_open(&one, true)) == template(&tables.groups_of_open(&other, true)));
    assert!(template(&tables.groups_of_open(&one, true)) != template(&tables.groups_of_open(&one, false)));
    let inverse = |divided| tables.groups_of_inverse(&one, divided);
    assert!(template(&inverse(1000)).is_some());
    assert!(template(&inverse(1000)) == template(&inverse(1000)));
    assert!(template(&inverse(1000)) != template(&inverse(2000)));
}

#[test]
fn masks_meet_in_joins() {
    let tables = Tables::new(1000);
    let types = [
        JoinType::Inner,
        JoinType::Left,
        JoinType::Right,
        JoinType::LeftSemi,
        JoinType::LeftAnti,
        JoinType::RightSemi,
        JoinType::RightAnti,
        JoinType::Full,
    ];
    for engine in engines() {
        let mut random = Random::new(11);
        for join_type in types {
            for projected in [false, true] {
                let plans = (0..20).map(|_| tables.joined(&Wanted::random(&mut random), join_type, projected));
                judge(&engine, &plans.collect::<Vec<_>>());
            }
        }
        assert!(!is_inline(&engine) || engine.sharing().merged_builds_total >= 14, "{:?}", engine.sharing());
    }
}

#[test]
fn conditions_on_pairs_have_constants_of_their_own() {
    let tables = Tables::new(1000);
    for engine in engines() {
        let mut random = Random::new(12);
        for (join_type, merged) in [(JoinType::Inner, 15), (JoinType::Left, 0), (JoinType::LeftSemi, 0)] {
            for projected in [false, true] {
                let before = engine.sharing().merged_queries_total;
                let wanted = (0..20).map(|_| Wanted::random(&mut random)).collect::<Vec<_>>();
                let plans = wanted.iter().map(|one| tables.joined_on_pairs(one, join_type, projected));
                judge(&engine, &plans.collect::<Vec<_>>());
                let more = engine.sharing().merged_queries_total - before;
                assert!(!is_inline(&engine) || more >= merged, "{more} {join_type:?} merged");
            }
        }
        assert_eq!(engine.sharing().retries_total, 0);
    }
}

#[test]
fn equal_queries_are_answered_by_one_run() {
    let tables = Tables::new(2000);
    for engine in engines() {
        let plan = tables.sorted(&Wanted::between(10, 90));
        let expected = alone(&engine, &plan).unwrap();
        let mut streams = Vec::new();
        for _ in 0..10 {
            streams.push(engine.run(&plan, options(SharingMode::States)).unwrap());
        }
        let (builds, satellites) = (engine.sharing().builds_total, engine.sharing().satellites_total);
        assert_eq!(builds + satellites, 10);
        let host = streams.remove(0);
        // The first one leaves: the others get what it started.
        drop(host);
        for stream in streams {
            assert_eq!(answer(stream).unwrap(), expected);
        }
        assert_eq!(engine.sharing().retries_total, 0);
        is_free(&engine);
    }
}

#[test]
fn a_run_that_nobody_reads_is_cancelled() {
    let tables = Tables::new(50_000);
    for seed in 0..20 {
        let engine = Engine::start(inline(seed)).unwrap();
        let streams = (0..5).map(|low| tables.groups(&Wanted::between(low, 90)));
        let streams = streams.map(|plan| engine.run(&plan, options(SharingMode::All)).unwrap()).collect::<Vec<_>>();
        drop(streams);
        is_free(&engine);
    }
}

#[test]
fn an_error_belongs_to_the_query_that_causes_it() {
    let tables = Tables::new(1000);
    for engine in engines() {
        // The argument divides by x: whoever wants the rows where it is zero gets an error, in whatever company.
        let plans = (0..20).map(|low| tables.inverses(&Wanted::between(low % 3, 90))).collect::<Vec<_>>();
        let failed = plans.iter().filter(|plan| alone(&engine, plan).is_err()).count();
        assert_eq!(failed, 7);
        judge(&engine, &plans);
        assert!(!is_inline(&engine) || engine.sharing().retries_total > 0);
        let error = engine.run(&plans[0], options(SharingMode::All)).unwrap().next_blocking().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Value);
    }
}

/// Arrivals, reads and cancels of so many queries in an order given by a seed, with fewer turns than `turns` between
/// two: those that stay get their rows.
fn come_and_go(seed: u64, queries: usize, turns: usize, mut next: impl FnMut(&mut Random) -> (Plan, SharingMode)) {
    let mut random = Random::new(seed);
    let engine = Engine::start(inline(seed)).unwrap();
    let mut running = Vec::new();
    for _ in 0..queries {
        let (plan, mode) = next(&mut random);
        let stream = engine.run(&plan, options(mode)).unwrap();
        running.push((plan, stream));
        for _ in 0..random.below(turns) {
            engine.scheduler().run_one();
        }
        if random.below(4) == 0 {
            let gone = random.below(running.len());
            drop(running.swap_remove(gone));
        }
    }
    let other = Engine::start(inline(seed)).unwrap();
    for (plan, stream) in running {
        assert_eq!(answer(stream), alone(&other, &plan), "seed {seed}\n{plan}");
    }
    is_free(&engine);
}

#[test]
fn whoever_comes_and_goes_the_others_get_their_rows() {
    let tables = Tables::new(500);
    for seed in 0..300 {
        come_and_go(seed, 12, 20, |random| {
            let wanted = Wanted::random(random);
            let plan = match random.below(4) {
                0 => tables.total(&wanted),
                1 => tables.joined(&wanted, JoinType::Inner, false),
                2 => tables.inverses(&wanted),
                _ => tables.groups(&wanted),
            };
            (plan, if random.below(4) == 0 { SharingMode::States } else { SharingMode::All })
        });
    }
}

#[test]
fn too_many_rows_are_not_kept() {
    let tables = Tables::new(50_000);
    for memory_bytes in [32 << 20, 128 << 20] {
        let engine = Engine::start(EngineOptions { memory_bytes, ..inline(3) }).unwrap();
        let plan = tables.each_row(&Wanted::between(0, 100));
        let expected = alone(&engine, &plan).unwrap();
        for _ in 0..2 {
            let streams = (0..3).map(|_| engine.run(&plan, options(SharingMode::All)).unwrap()).collect::<Vec<_>>();
            for stream in streams {
                assert_eq!(answer(stream).unwrap(), expected);
            }
        }
        // The first time it is tried, the second time it is known.
        assert_eq!(engine.sharing().retries_total, if memory_bytes == 32 << 20 { 3 } else { 0 });
        is_free(&engine);
    }
}

#[test]
fn fewer_go_together_where_more_have_had_too_many_rows() {
    let tables = Tables::new(50_000);
    let engine = Engine::start(EngineOptions { memory_bytes: 32 << 20, ..inline(3) }).unwrap();
    let plans = (0..20).map(|low| tables.each_row(&Wanted::between(5 * low, 5 * low + 5))).collect::<Vec<_>>();
    let rounds = (0..6).map(|_| {
        let before = engine.sharing();
        judge(&engine, &plans);
        let after = engine.sharing();
        (after.retries_total - before.retries_total, after.merged_builds_total - before.merged_builds_total)
    });
    let rounds = rounds.collect::<Vec<_>>();
    assert!(rounds[0].0 > 10, "the rows of many at once are too many: {rounds:?}");
    assert!(rounds[5].0 == 0 && rounds[5].1 > 1, "those of fewer are kept: {rounds:?}");
}

#[test]
fn what_is_not_worked_is_counted() {
    let engine = Engine::start(inline(1)).unwrap();
    let tables = Tables::new(20_000);
    let run = |plan: &Plan| engine.run(plan, options(SharingMode::All)).unwrap();
    let plan = tables.groups(&Wanted::between(0, 9));
    answer(run(&plan)).unwrap();
    assert_eq!(engine.sharing().saved_ns_total, 0, "nobody else was there");
    // One runs, and one waits with its equal: that one saves a run.
    let plans = [0, 1, 1].map(|low| tables.groups(&Wanted::between(low, 9)));
    let said = plans.iter().map(run).collect::<Vec<_>>().into_iter().map(|mut stream| {
        while let Some(batch) = stream.next_blocking() {
            batch.unwrap();
        }
        stream.profile().sharing.unwrap_or_default()
    });
    let said = said.collect::<Vec<_>>();
    assert!(!said[1].contains("saves") && said[2].contains("; saves "), "{said:?}");
    assert!(engine.sharing().saved_ns_total > 0);
}

#[test]
fn the_profile_says_what_was_shared() {
    let engine = Engine::start(inline(1)).unwrap();
    let tables = Tables::new(2000);
    let run = |plan: &Plan| engine.run(plan, options(SharingMode::All)).unwrap();
    let read = |mut stream: QueryStream| {
        while let Some(batch) = stream.next_blocking() {
            batch.unwrap();
        }
        let profile = stream.profile();
        assert!(profile.to_string().contains("Scan t"), "the work of the run it shares is shown:\n{profile}");
        profile.sharing
    };
    assert_eq!(read(run(&tables.groups(&Wanted::between(0, 9)))), None, "nobody else was there");
    let plans = [0, 1, 2, 2].map(|low| tables.groups(&Wanted::between(low, 9)));
    let streams = plans.iter().map(run).collect::<Vec<_>>();
    let waiting = engine.sharing().builds;
    assert_eq!(
        waiting.iter().map(|build| (build.state, build.readers)).collect::<Vec<_>>(),
        [("building", 1), ("waiting", 1), ("waiting", 2)]
    );
    let said = streams.into_iter().map(read).collect::<Vec<_>>();
    assert_eq!(said[0], None);
    let host = said[1].as_deref().unwrap();
    assert!(
        host.starts_with("merged, one run for 2 different queries; this is a host beside 2 other queries; ")
            && host.ends_with(" of work for all"),
        "{host}"
    );
    assert!(
        said[3]
            .as_ref()
            .is_some_and(|said| said.contains("satellite") && said.contains("; attached before it began; "))
    );
}

#[test]
fn who_waits_for_a_run_of_the_template_starts_when_a_worker_has_nothing_to_do() {
    let engine = Engine::start(inline(1)).unwrap();
    let tables = Tables::new(2000);
    let plans = [0, 1, 2].map(|low| tables.groups(&Wanted::between(low, 9)));
    let expected = plans.iter().map(|plan| alone(&engine, plan)).collect::<Vec<_>>();
    let streams = plans.iter().map(|plan| engine.run(plan, options(SharingMode::All)).unwrap()).collect::<Vec<_>>();
    let states = || {
        let mut states = engine.sharing().builds.iter().map(|build| (build.state, build.queries)).collect::<Vec<_>>();
        states.sort();
        states
    };
    assert_eq!(states(), [("building", 1), ("waiting", 1), ("waiting", 1)]);
    engine.running.start_in_spare_time();
    assert_eq!(states(), [("building", 1), ("building", 2)]);
    engine.running.start_in_spare_time();
    assert_eq!(states().len(), 2, "nobody waits any more");
    assert_eq!(streams.into_iter().map(answer).collect::<Vec<_>>(), expected);
    is_free(&engine);
}

#[test]
fn those_of_a_template_wait_for_as_long_as_some_of_them_would_work() {
    let engine = Engine::start(inline(1)).unwrap();
    let tables = Tables::new(2000);
    // Not over the same table: those would wait, too.
    let viewed = tables.viewed();
    let run = |plan: &Plan| engine.run(plan, options(SharingMode::All)).unwrap();
    let wanted = [0, 1].map(|low| Wanted::between(low, 9));
    let plans = [
        tables.groups(&wanted[0]),
        viewed.total(&wanted[0]),
        tables.groups(&wanted[1]),
        tables.joined(&wanted[0], JoinType::Inner, false),
    ];
    let expected = plans.iter().map(|plan| alone(&engine, plan)).collect::<Vec<_>>();
    let streams = plans.iter().map(run).collect::<Vec<_>>();
    let building = || engine.sharing().builds.iter().filter(|build| build.state == "building").count();
    assert_eq!(building(), 2, "as many as there are workers, and two at least");
    let second = SHARING_PATIENCE.as_nanos() as u64;
    let first_build = QueryId(streams[0].id().0 + 1);
    assert!(engine.running.expire(first_build, second / 2), "it has taken long, but worked little: others start");
    assert_eq!(building(), 3);
    let second_build = QueryId(streams[1].id().0 + 1);
    assert!(engine.running.expire(second_build, 0), "others may start, but none waits");
    assert_eq!(building(), 3, "the first one still keeps its own from starting");
    assert!(!engine.running.expire(first_build, second), "its own start, too");
    assert_eq!(building(), 4);
    assert!(!engine.running.expire(QueryId(u64::MAX), second), "one that has ended");
    assert_eq!(streams.into_iter().map(answer).collect::<Vec<_>>(), expected);
    is_free(&engine);
}

#[test]
fn groups_of_which_too_many_are_expected_are_shared_once_they_are_known_to_be_few() {
    let tables = Tables::new(3000);
    for engine in engines() {
        let plans = (0..5).map(|low| tables.first_groups(&Wanted::between(low, 90))).collect::<Vec<_>>();
        let can_be_merged = || {
            let said = engine.explain_sharing(&plans[0], &options(SharingMode::All)).unwrap();
            (said.contains("in one run"), said)
        };
        assert!(!can_be_merged().0, "{}", can_be_merged().1);
        judge(&engine, &plans);
        // The first of them has said it while the others waited.
        assert!(!is_inline(&engine) || engine.sharing().merged_queries_total == 4, "{:?}", engine.sharing());
        assert!(can_be_merged().0, "{}", can_be_merged().1);
        judge(&engine, &plans);
        assert!(!is_inline(&engine) || engine.sharing().merged_queries_total >= 8, "{:?}", engine.sharing());
    }
}

#[test]
fn one_query_that_says_how_many_groups_there_are_is_waited_for_and_may_go() {
    let engine = Engine::start(inline(1)).unwrap();
    let tables = Tables::new(3000);
    let plans = (0..4).map(|low| tables.first_groups(&Wanted::between(low, 90))).collect::<Vec<_>>();
    let expected = plans.iter().map(|plan| alone(&engine, plan)).collect::<Vec<_>>();
    let run = |plan: &Plan| engine.run(plan, options(SharingMode::All)).unwrap();
    let building = || engine.sharing().builds.iter().filter(|build| build.state == "building").count();
    let mut streams = plans.iter().map(run).collect::<Vec<_>>();
    assert_eq!(building(), 1);
    let scout = QueryId(streams[0].id().0 + 1);
    assert!(!engine.running.expire(scout, 10 * SHARING_PATIENCE.as_nanos() as u64), "it takes too long to wait for");
    assert_eq!(building(), 2, "the next one is waited for");
    drop(streams.remove(0));
    assert_eq!(streams.into_iter().map(answer).collect::<Vec<_>>(), expected[1..]);
    is_free(&engine);
}

#[test]
fn groups_are_not_counted_by_a_query_that_stops_after_some_of_them() {
    let tables = Tables::new(3000);
    let engine = Engine::start(inline(1)).unwrap();
    let wanted = Wanted::between(0, 90);
    answer(engine.run(&tables.some_groups(&wanted), options(SharingMode::All)).unwrap()).unwrap();
    let can_be_merged =
        |plan: &Plan| engine.explain_sharing(plan, &options(SharingMode::All)).unwrap().contains("in one run");
    assert!(!can_be_merged(&tables.first_groups(&wanted)));
    answer(engine.run(&tables.first_groups(&wanted), options(SharingMode::All)).unwrap()).unwrap();
    assert!(can_be_merged(&tables.first_groups(&wanted)) && !can_be_merged(&tables.some_groups(&wanted)));
}

#[test]
fn how_a_query_lists_its_keys_and_values_does_not_count() {
    let tables = Tables::new(5000);
    let wanted = [(0, 90), (5, 80), (10, 99), (20, 70)].map(|(low, high)| Wanted::between(low, high));
    let plans = [
        tables.sums(&wanted[0], &[0, 3]),
        tables.sums_in_order(&wanted[1], &[3, 0], &[5, 2, 0, 1, 4, 3]),
        tables.sums_in_order(&wanted[2], &[0, 3], &[1, 0, 3, 2, 5, 4]),
        tables.sums_in_order(&wanted[3], &[3, 0], &[0, 1, 2, 3, 4, 5]),
    ];
    let template = |plan: &Plan| {
        ShareRequest::of(plan, &options(SharingMode::All), |_| None)
            .unwrap()
            .template
            .map(|template| template.signature)
    };
    assert!(template(&plans[0]).is_some() && plans.iter().all(|plan| template(plan) == template(&plans[0])));
    assert!(template(&plans[0]) != template(&tables.sums(&wanted[0], &[0, 1])));
    for engine in engines() {
        (0..10).for_each(|_| judge(&engine, &plans));
        assert!(!is_inline(&engine) || engine.sharing().merged_queries_total > 0);
    }
}

#[test]
fn what_is_equal_has_one_signature() {
    let tables = Tables::new(10);
    let exact = |plan: &Plan| Signature::exact(plan, &options(SharingMode::All));
    let template = |plan: &Plan| {
        ShareRequest::of(plan, &options(SharingMode::All), |_| None)
            .unwrap()
            .template
            .map(|template| template.signature)
    };
    let wanted = Wanted::between(3, 7);
    let plan = tables.groups(&wanted);
    assert!(exact(&plan).is_some() && exact(&plan) == exact(&tables.groups_written_otherwise(&wanted)));
    assert!(template(&plan).is_some() && template(&plan) == template(&tables.groups_written_otherwise(&wanted)));
    let other = tables.groups(&Wanted::between(3, 8));
    assert!(exact(&plan) != exact(&other) && template(&plan) == template(&other));
    assert!(template(&plan) != template(&tables.total(&wanted)));
    // Another state of the table, or other settings.
    assert!(exact(&plan) != exact(&Tables::new(10).groups(&wanted)));
    let limited = QueryOptions { memory_limit_bytes: Some(1 << 20), ..options(SharingMode::All) };
    assert!(exact(&plan) != Signature::exact(&plan, &limited));
    // What differs from one evaluation to the next is not shared, and neither is what is not known.
    assert!(exact(&tables.volatile()).is_none());
    assert!(exact(&crate::query::tests::numbers(3)).is_none());
}

impl std::fmt::Debug for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signature")
    }
}
