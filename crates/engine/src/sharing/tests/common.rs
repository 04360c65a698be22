//! What a plan has several times is computed once.

use super::*;
use crate::matching::common::with_common_parts;
use crate::plan::{Node, RuntimeFilterId};

/// Any size is small enough.
const ANY: usize = usize::MAX;

fn small() -> Wanted {
    Wanted::between(20, 60)
}

/// Scans without an estimate count as so many rows.
fn touching(rows: usize) -> QueryOptions {
    QueryOptions { sharing_rows_min: rows, ..options(SharingMode::States) }
}

#[test]
fn equal_parts_are_computed_once_and_different_ones_are_not() {
    let tables = Tables::new(2000);
    let twice = tables.compared(&small(), &small());
    // Nobody knows how many rows the scans have; so few groups are worth it if these are many.
    let found = with_common_parts(&twice, &touching(1000), ANY).unwrap().to_string();
    assert!(found.starts_with("Common part 0 for 2 places"), "{found}");
    assert_eq!(found.matches("WorkTable part 0").count(), 2, "{found}");
    assert_eq!(found.matches("Scan t").count(), 1, "{found}");
    for other in [tables.compared(&small(), &small().below(61)), tables.groups(&small()), tables.volatile()] {
        assert!(with_common_parts(&other, &touching(1000), ANY).is_none(), "{other}");
    }
    for mode in [SharingMode::Off, SharingMode::Scans] {
        let off = QueryOptions { sharing: mode, ..touching(1000) };
        assert!(with_common_parts(&twice, &off, ANY).is_none());
    }
    assert!(
        with_common_parts(&twice, &touching(1000), 35).is_none(),
        "its rows are expected to be too many to be kept"
    );
    assert!(with_common_parts(&twice, &touching(10), ANY).is_none(), "35 groups of 10 rows are not worth it");
}

#[test]
fn rows_of_joins_are_kept_only_where_all_are_wanted() {
    let tables = Tables::new(2000);
    let found = |plan: &Plan| with_common_parts(plan, &touching(1000), ANY).is_some();
    assert!(found(&tables.pairs_twice(&small(), false)));
    assert!(!found(&tables.pairs_twice(&small(), true)));
}

#[test]
fn filters_of_joins_above_are_left_out_of_a_part_that_another_place_has_without_them() {
    let tables = Tables::new(2000);
    let filtered = |left: bool, right: bool| {
        let mut plan = tables.compared(&small(), &small());
        let Node::HashJoin(join) = &mut plan.node else { panic!("{plan}") };
        join.runtime_filters.push((RuntimeFilterId(7), 0));
        let scan = |plan: &mut Plan| {
            let mut node = plan;
            while !matches!(node.node, Node::Scan(_)) {
                node = node.inputs_mut().swap_remove(0);
            }
            let Node::Scan(scan) = &mut node.node else { unreachable!() };
            scan.runtime_filters.push((RuntimeFilterId(7), 0));
        };
        if left {
            scan(&mut join.left);
        }
        if right {
            scan(&mut join.right);
        }
        with_common_parts(&plan, &touching(1000), ANY).map(|plan| plan.to_string())
    };
    for (left, right) in [(true, false), (false, true)] {
        let found = filtered(left, right).unwrap();
        assert!(!found.contains("join filter"), "{found}");
    }
    assert_eq!(filtered(true, true), None, "both places want fewer rows than the part has");
}

#[test]
fn plans_with_common_parts_answer_as_without_them() {
    let tables = Tables::new(3000);
    for engine in engines() {
        let mut random = Random::new(3);
        for _ in 0..6 {
            let (wanted, other) = (Wanted::coarse(&mut random), Wanted::coarse(&mut random));
            for plan in [
                tables.compared(&wanted, &wanted),
                tables.compared(&wanted, &other),
                tables.pairs_twice(&wanted, false),
            ] {
                let expected = alone(&engine, &plan);
                for mode in [SharingMode::States, SharingMode::All] {
                    let options = QueryOptions { sharing: mode, ..touching(1000) };
                    assert_eq!(answer(engine.run(&plan, options).unwrap()), expected, "{plan}");
                }
            }
        }
        let plan = tables.compared(&small(), &small());
        assert!(engine.explain(&plan, &touching(1000)).unwrap().contains("=> Part 0"));
        // A reader that leaves early leaves nothing behind.
        drop(engine.run(&plan, touching(1000)).unwrap());
        is_free(&engine);
    }
}

#[test]
fn queries_with_equal_common_parts_share_their_states() {
    let tables = Tables::new(3000);
    let plans = (0..4).map(|_| tables.compared(&small(), &small())).collect::<Vec<_>>();
    for seed in 0..4 {
        let engine = Engine::start(inline(seed)).unwrap();
        let expected = alone(&engine, &plans[0]);
        let run = |plan| engine.run(plan, touching(1000)).unwrap();
        let streams = plans.iter().map(run).collect::<Vec<_>>();
        streams.into_iter().for_each(|stream| assert_eq!(answer(stream), expected));
        assert_eq!(engine.sharing().satellites_total, 3);
    }
}

#[test]
fn errors_in_a_common_part_are_those_of_its_query() {
    let tables = Tables::new(3000);
    let mut plan = tables.pairs_twice(&small(), false);
    let Node::Union { inputs } = &mut plan.node else { panic!("{plan}") };
    let failing = tables.inverses(&Wanted::between(0, 60));
    let schema = failing.schema.clone();
    *inputs = vec![failing.clone(), failing];
    plan.schema = schema;
    for engine in engines() {
        let error = answer(engine.run(&plan, touching(1000)).unwrap()).unwrap_err();
        assert!(error.contains("zero") || error.contains("Divide"), "{error}");
        is_free(&engine);
    }
}
