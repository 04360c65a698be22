//! Queries of several templates over the same joins: one run reads, filters and joins for all, and each different
//! aggregate has a branch of its own.

use datafusion_common::JoinType;
use diligence_base::seams::Random;

use super::plans::{Tables, Wanted};
use super::{SharingMode, alone, come_and_go, engines, engines_with, inline, is_free, is_inline, judge, options};
use crate::matching::page;
use crate::matching::parts::part_below;
use crate::plan::{Node, Plan};
use crate::{Engine, EngineOptions};

/// The charts of a page over table `t`.
fn charts(tables: &Tables, wanted: &Wanted) -> Vec<Plan> {
    vec![
        tables.groups(wanted),
        tables.total(wanted),
        tables.different(wanted),
        tables.averages(wanted),
        tables.sums(wanted, &[0]),
        tables.sums(wanted, &[0, 3]),
        tables.floats(wanted),
    ]
}

/// The charts of a page over a join.
fn joined_charts(tables: &Tables, wanted: &Wanted) -> Vec<Plan> {
    vec![
        tables.joined(wanted, JoinType::Inner, false),
        tables.different_joined(wanted),
        tables.floats_joined(wanted),
        tables.joined_sums(wanted, &[0], false),
        tables.joined_sums(wanted, &[0, 5], false),
    ]
}

/// What was said of the sharing of queries that all came at once and answered as they do alone.
fn said_of(engine: &std::sync::Arc<Engine>, plans: &[Plan]) -> Vec<String> {
    let expected = plans.iter().map(|plan| alone(engine, plan)).collect::<Vec<_>>();
    let streams = plans.iter().map(|plan| engine.run(plan, options(SharingMode::All)).unwrap()).collect::<Vec<_>>();
    let mut said = Vec::new();
    for (mut stream, expected) in streams.into_iter().zip(expected) {
        let mut batches = Vec::new();
        while let Some(batch) = stream.next_blocking() {
            batches.push(batch.unwrap());
        }
        assert_eq!(Ok(super::lines(&batches)), expected);
        said.push(stream.profile().sharing.unwrap_or_default());
    }
    is_free(engine);
    said
}

#[test]
fn a_page_over_one_filter_is_one_run() {
    let tables = Tables::new(3000);
    for charts in [charts, joined_charts] {
        for engine in engines() {
            let plans = charts(&tables, &Wanted::between(10, 60));
            let said = said_of(&engine, &plans);
            // One begins at once, the others wait for it.
            let is_of_page = |said: &&String| said.contains(" different queries of several templates");
            let merged = said.iter().filter(is_of_page).count();
            // One whose different values may be many goes with its own template only.
            assert!(!is_inline(&engine) || merged + 2 >= plans.len(), "{said:?}");
            assert_eq!(engine.sharing().retries_total, 0);
        }
    }
}

#[test]
fn pages_with_other_conditions_go_together() {
    let tables = Tables::new(3000);
    for charts in [charts, joined_charts] {
        for engine in engines() {
            let mut random = Random::new(17);
            for _ in 0..4 {
                let pages = (0..6).map(|_| charts(&tables, &Wanted::coarse(&mut random))).collect::<Vec<_>>();
                judge(&engine, &pages.into_iter().flatten().collect::<Vec<_>>());
            }
            let info = engine.sharing();
            assert!(!is_inline(&engine) || info.merged_queries_total > 50, "{info:?}");
            assert_eq!(info.retries_total, 0);
        }
    }
}

#[test]
fn queries_of_a_page_come_and_go() {
    let tables = Tables::new(500);
    for seed in 0..200 {
        come_and_go(seed, 16, 12, |random| {
            let wanted = Wanted::coarse(random);
            let mut all = if random.below(2) == 0 { charts(&tables, &wanted) } else { joined_charts(&tables, &wanted) };
            (all.swap_remove(random.below(all.len())), SharingMode::All)
        });
    }
}

#[test]
fn what_a_page_leaves_serves_each_chart_again() {
    let tables = Tables::new(2000);
    for engine in engines_with(10) {
        let plans = charts(&tables, &Wanted::between(10, 60));
        judge(&engine, &plans);
        let before = engine.sharing();
        judge(&engine, &plans);
        let after = engine.sharing();
        assert_eq!(after.builds_total, before.builds_total, "nothing is built again: {after:?}");
    }
}

#[test]
fn an_error_belongs_to_the_query_that_causes_it() {
    let tables = Tables::new(1000);
    for engine in engines() {
        let wanted = (0..3).map(|low| Wanted::between(low, 90)).collect::<Vec<_>>();
        let pages =
            wanted.iter().flat_map(|wanted| [tables.inverses(wanted), tables.groups(wanted), tables.total(wanted)]);
        let plans = pages.collect::<Vec<_>>();
        assert_eq!(plans.iter().filter(|plan| alone(&engine, plan).is_err()).count(), 1);
        judge(&engine, &plans);
    }
}

#[test]
fn little_memory_is_enough_for_a_page() {
    let tables = Tables::new(20_000);
    // Two queries that end at the same time need 22 MiB, and without admission neither waits for the other.
    for memory_bytes in [24 << 20, 32 << 20, 64 << 20] {
        for seed in 0..4 {
            let engine = Engine::start(EngineOptions { memory_bytes, ..inline(seed) }).unwrap();
            let mut random = Random::new(seed);
            let pages = (0..4).map(|_| joined_charts(&tables, &Wanted::coarse(&mut random))).collect::<Vec<_>>();
            judge(&engine, &pages.into_iter().flatten().collect::<Vec<_>>());
        }
    }
}

/// The aggregate of a plan.
fn groups_of(plan: &Plan) -> &Plan {
    (0..).map(|depth| part_below(plan, depth).unwrap()).find(|part| matches!(part.node, Node::Aggregate(_))).unwrap()
}

#[test]
fn rows_of_a_page_go_to_all_branches_as_they_come() {
    let tables = Tables::new(100);
    let one = charts(&tables, &Wanted::between(10, 60));
    let other = charts(&tables, &Wanted::between(20, 50));
    let parts = [&one[0], &one[1], &other[0]].map(groups_of);
    let page = page::page(&parts, &options(SharingMode::All)).unwrap().unwrap();
    let Node::Common(common) = &page.plan.node else { panic!("{}", page.plan) };
    assert!(common.is_streamed(&common.parts[0]), "{}", page.plan);
    assert_eq!(page.places.iter().map(|place| place.branch).collect::<Vec<_>>(), [0, 1, 0]);
    let bits = page.places.iter().map(|place| place.portion.map(|portion| portion.bit));
    assert_eq!(bits.collect::<Vec<_>>(), [Some(0), None, Some(1)], "the total has rows of one query only");
    // Those of one filter have no masks.
    let parts = [&one[0], &one[1]].map(groups_of);
    let page = page::page(&parts, &options(SharingMode::All)).unwrap().unwrap();
    assert!(!page.plan.to_string().contains("Mask"), "{}", page.plan);
    // Sums of floats are made of the rows of one query.
    let parts = [&one[6], &other[6], &one[0]].map(groups_of);
    assert!(page::page(&parts, &options(SharingMode::All)).unwrap().is_none());
}
