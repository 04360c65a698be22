//! Queries of a template whose groups cannot be put together from parts, or that have none: one run gives the rows of
//! all, each with a mask.

use diligence_base::seams::Random;

use super::plans::{Tables, Wanted};
use super::{
    ShareRequest, SharingMode, alone, answer, engines, engines_with, inline, is_free, is_inline, judge, options,
};
use crate::matching::merge::Way;
use crate::plan::Plan;
use crate::{Engine, EngineOptions};

fn way(plan: &Plan) -> Option<Way> {
    ShareRequest::of(plan, &options(SharingMode::All), |_| None).unwrap().template.map(|template| template.way)
}

#[test]
fn what_cannot_be_put_together_from_cells_goes_by_rows() {
    let tables = Tables::new(100);
    let wanted = Wanted::between(10, 90);
    assert_eq!(way(&tables.groups(&wanted)), Some(Way::Cells));
    for plan in [
        tables.floats(&wanted),
        tables.floats_joined(&wanted),
        tables.first_rows(&wanted, 5),
        tables.each_inverse(&wanted),
    ] {
        assert_eq!(way(&plan), Some(Way::Rows), "{plan}");
    }
    // Nobody knows how many there are, but of first rows only few are kept; of many first rows, nobody knows it either.
    assert_eq!(way(&tables.sorted(&wanted)), Some(Way::Rows));
    let mut many = tables.first_rows(&wanted, 2000);
    many.inputs_mut().into_iter().for_each(|input| input.rows_estimate = None);
    assert_eq!(way(&many), None);
    // What is above counts, with all its constants.
    let template =
        |plan: &Plan| ShareRequest::of(plan, &options(SharingMode::All), |_| None).unwrap().template.unwrap().signature;
    let other = Wanted::between(0, 50);
    assert!(template(&tables.first_rows(&wanted, 5)) == template(&tables.first_rows(&other, 5)));
    assert!(template(&tables.first_rows(&wanted, 5)) != template(&tables.first_rows(&wanted, 6)));
    assert!(template(&tables.floats(&wanted)) == template(&tables.floats(&other)));
    assert!(template(&tables.floats(&wanted)) != template(&tables.groups(&wanted)));
}

#[test]
fn merged_queries_answer_as_lone_ones() {
    let tables = Tables::new(3000);
    for engine in engines() {
        let mut random = Random::new(5);
        let wanted = (0..90).map(|_| Wanted::random(&mut random)).collect::<Vec<_>>();
        judge(&engine, &wanted.iter().map(|wanted| tables.floats(wanted)).collect::<Vec<_>>());
        judge(&engine, &wanted.iter().map(|wanted| tables.floats_joined(wanted)).collect::<Vec<_>>());
        judge(&engine, &wanted.iter().map(|wanted| tables.first_rows(wanted, 20)).collect::<Vec<_>>());
        let info = engine.sharing();
        assert!(!is_inline(&engine) || (info.merged_builds_total >= 3 && info.merged_queries_total > 80), "{info:?}");
        assert_eq!(info.retries_total, 0);
    }
}

/// Queries of one template, most of which go together by rows, answer as lone ones.
fn assert_merged_by_rows(plans: &[Plan]) {
    assert_eq!(way(&plans[0]), Some(Way::Rows));
    for engine in engines() {
        judge(&engine, plans);
        let info = engine.sharing();
        assert!(!is_inline(&engine) || info.merged_queries_total > 30, "{info:?}");
        assert_eq!(info.retries_total, 0);
    }
}

#[test]
fn first_groups_are_made_of_all_rows() {
    let tables = Tables::new(3000);
    let mut random = Random::new(6);
    let plans = (0..40).map(|_| tables.first_floats(&Wanted::random(&mut random), 3)).collect::<Vec<_>>();
    assert_merged_by_rows(&plans);
}

#[test]
fn filters_above_first_rows_leave_each_scan_its_conditions() {
    let tables = Tables::new(3000);
    let mut random = Random::new(16);
    let plans = (0..40).map(|_| tables.some_of_first_pairs(&Wanted::random(&mut random))).collect::<Vec<_>>();
    assert_merged_by_rows(&plans);
}

#[test]
fn different_values_are_counted_and_added_up_from_cells() {
    let tables = Tables::new(3000);
    let wanted = Wanted::between(10, 90);
    for plan in [
        tables.different(&wanted),
        tables.different_joined(&wanted),
        tables.averages(&wanted),
        tables.differents(&wanted),
    ] {
        assert_eq!(way(&plan), Some(Way::Cells), "{plan}");
    }
    // Of few rows, there are few different values.
    let queries_min = |plan: &Plan| {
        ShareRequest::of(plan, &options(SharingMode::All), |_| None)
            .unwrap()
            .template
            .map(|template| template.queries_min)
    };
    let plans = [tables.groups(&wanted), tables.different(&wanted), tables.differents(&wanted)];
    assert_eq!(plans.map(|plan| queries_min(&plan)), [Some(1), Some(1), Some(4)]);
    for engine in engines() {
        let mut random = Random::new(5);
        let mut wanted = (0..60).map(|_| Wanted::random(&mut random)).collect::<Vec<_>>();
        // Of these there are no rows.
        wanted.push(Wanted::between(50, 50));
        judge(&engine, &wanted.iter().map(|wanted| tables.different(wanted)).collect::<Vec<_>>());
        judge(&engine, &wanted.iter().map(|wanted| tables.different_joined(wanted)).collect::<Vec<_>>());
        judge(&engine, &wanted.iter().map(|wanted| tables.averages(wanted)).collect::<Vec<_>>());
        judge(&engine, &wanted.iter().map(|wanted| tables.differents(wanted)).collect::<Vec<_>>());
        let info = engine.sharing();
        assert!(!is_inline(&engine) || (info.merged_builds_total >= 3 && info.merged_queries_total > 80), "{info:?}");
        assert_eq!(info.retries_total, 0);
    }
}

#[test]
fn an_error_belongs_to_the_query_that_causes_it() {
    let tables = Tables::new(1000);
    for engine in engines() {
        let plans = (0..20).map(|low| tables.each_inverse(&Wanted::between(low % 3, 90))).collect::<Vec<_>>();
        assert_eq!(plans.iter().filter(|plan| alone(&engine, plan).is_err()).count(), 7);
        judge(&engine, &plans);
        assert!(!is_inline(&engine) || engine.sharing().retries_total > 0);
    }
}

#[test]
fn what_is_kept_of_several_serves_each_of_them_again() {
    let tables = Tables::new(2000);
    for engine in engines_with(10) {
        let plans = (0..6).map(|low| tables.floats(&Wanted::between(low, 90))).collect::<Vec<_>>();
        judge(&engine, &plans);
        let before = engine.sharing();
        judge(&engine, &plans);
        // Others, whose sharing goes no further than to what is equal, find the same.
        for plan in &plans {
            let stream = engine.run(plan, options(SharingMode::States)).unwrap();
            assert_eq!(answer(stream), alone(&engine, plan));
        }
        let after = engine.sharing();
        assert_eq!(
            (after.builds_total, after.retained_hits_total),
            (before.builds_total, before.retained_hits_total + 12)
        );
        is_free(&engine);
    }
}

#[test]
fn only_as_many_go_together_as_have_few_rows() {
    let tables = Tables::new(500);
    let rows = |low, rows_estimate| {
        let mut plan = tables.first_rows(&Wanted::between(low, 90), 2000);
        plan.inputs_mut().into_iter().for_each(|input| input.rows_estimate = Some(rows_estimate));
        plan
    };
    let queries_max = |estimate| {
        let template = ShareRequest::of(&rows(1, estimate), &options(SharingMode::All), |_| None).unwrap().template;
        template.map(|template| template.queries_max)
    };
    assert_eq!([100, 100_000, 1_000_000].map(queries_max), [Some(64), Some(5), None]);
    // Of few first rows only those are kept that may be among them.
    let mut few = tables.first_rows(&Wanted::between(1, 90), 20);
    few.inputs_mut().into_iter().for_each(|input| input.rows_estimate = None);
    let template = ShareRequest::of(&few, &options(SharingMode::All), |_| None).unwrap().template;
    assert_eq!(template.map(|template| template.queries_max), Some(64));
    let engine = Engine::start(inline(1)).unwrap();
    judge(&engine, &(0..11).map(|low| rows(low, 100_000)).collect::<Vec<_>>());
    let info = engine.sharing();
    assert_eq!((info.builds_total, info.merged_builds_total, info.merged_queries_total), (3, 2, 10));
}

/// Arrivals, reads and cancels in an order given by a seed.
#[test]
fn whoever_comes_and_goes_the_others_get_their_rows() {
    let tables = Tables::new(500);
    let mut merged = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let retained_percent = [0, 10][seed as usize % 2];
        let engine = Engine::start(EngineOptions { retained_percent, ..EngineOptions::inline(seed) }).unwrap();
        let other = Engine::start(inline(seed)).unwrap();
        let mut running = Vec::new();
        for _ in 0..14 {
            let wanted = if random.below(2) == 0 { Wanted::coarse(&mut random) } else { Wanted::random(&mut random) };
            let plan = match random.below(6) {
                0 => tables.floats_joined(&wanted),
                1 => tables.first_rows(&wanted, 20),
                2 => tables.each_inverse(&wanted),
                3 => tables.groups(&wanted),
                _ => tables.floats(&wanted),
            };
            let mode = if random.below(4) == 0 { SharingMode::States } else { SharingMode::All };
            running.push((engine.run(&plan, options(mode)).unwrap(), plan));
            for _ in 0..random.below(20) {
                engine.scheduler().run_one();
            }
            if random.below(4) == 0 {
                drop(running.swap_remove(random.below(running.len())));
            }
        }
        for (stream, plan) in running {
            assert_eq!(answer(stream), alone(&other, &plan), "seed {seed}\n{plan}");
        }
        merged += engine.sharing().merged_queries_total;
        is_free(&engine);
    }
    assert!(merged > 5, "{merged}");
}
