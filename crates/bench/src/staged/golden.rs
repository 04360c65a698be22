//! The simulator beside what is known: exactly where policies are the same by their definition, else within the
//! confidence that [`Estimate`] states.

use super::estimate::{Estimate, NORMAL_999};
use super::line::{Line, Queries, Sizes};
use super::policies::Policy;
use super::theory;

/// Runs and queries of each: means are known to some percent.
const RUNS: usize = 20;
const QUERIES: usize = 40_000;

const POLICIES: [Policy; 6] =
    [Policy::ProcessorSharing, Policy::Fcfs, Policy::NonGated, Policy::DGated, Policy::TGated(2), Policy::CGated(20.0)];

fn simulated(policy: Policy, line: &Line, load: f64) -> Estimate {
    let seeds = (0..RUNS as u64).map(|run| 1_000 * run + 17);
    let means = seeds.map(|seed| {
        let queries = Queries::draw(line, line.rate(load), QUERIES, seed);
        super::estimate::mean_of_late(&policy.responses_ms(line, &queries))
    });
    Estimate::of(&means.collect::<Vec<_>>())
}

/// Within 99.9 % confidence, which is narrow enough to say something.
fn agrees(policy: Policy, line: &Line, load: f64, theory_ms: f64) {
    let found = simulated(policy, line, load);
    let within_ms = found.half_width(NORMAL_999);
    assert!(
        (found.mean - theory_ms).abs() < within_ms && within_ms < 0.08 * theory_ms,
        "{policy} at {load} of {line:?}: {} ± {within_ms} ms, in theory {theory_ms}",
        found.mean
    );
}

/// Queries that come at these moments and demand so much of each module.
fn given(line: &Line, arrivals_ms: &[f64], own_ms: &[f64]) -> Queries {
    let demands_ms = own_ms.iter().flat_map(|&own_ms| std::iter::repeat_n(own_ms, line.modules)).collect();
    Queries { arrivals_ms: arrivals_ms.to_vec(), demands_ms }
}

#[test]
fn one_module_is_an_m_m_1_queue_under_every_policy_that_serves_to_the_end() {
    let line = Line::with_share(1, 100.0, 0.0, Sizes::Whole);
    for load in [0.3, 0.8] {
        let theory_ms = 100.0 / (1.0 - load);
        for policy in [Policy::ProcessorSharing, Policy::Fcfs, Policy::NonGated, Policy::DGated, Policy::TGated(3)] {
            agrees(policy, &line, load, theory_ms);
        }
    }
}

#[test]
fn on_one_module_all_gates_are_first_come_first_served_query_by_query() {
    let line = Line::with_share(1, 100.0, 0.0, Sizes::Whole);
    let queries = Queries::draw(&line, line.rate(0.9), 5_000, 5);
    let expected = Policy::Fcfs.responses_ms(&line, &queries);
    for policy in [Policy::NonGated, Policy::DGated, Policy::TGated(1), Policy::TGated(4), Policy::CGated(1e9)] {
        assert_eq!(policy.responses_ms(&line, &queries), expected, "{policy}");
    }
}

#[test]
fn first_come_first_served_is_pollaczek_and_khinchines_queue() {
    for sizes in [Sizes::Whole, Sizes::Each] {
        for share in [0.0, 0.3, 0.7] {
            let line = Line::with_share(5, 100.0, share, sizes);
            agrees(Policy::Fcfs, &line, 0.7, theory::fcfs_ms(&line, line.rate(0.7)));
        }
    }
}

#[test]
fn processor_sharing_knows_only_the_mean_demand() {
    for sizes in [Sizes::Whole, Sizes::Each] {
        for share in [0.0, 0.3, 0.7] {
            agrees(Policy::ProcessorSharing, &Line::with_share(5, 100.0, share, sizes), 0.7, 100.0 / 0.3);
        }
    }
}

#[test]
fn gated_cohorts_are_their_markov_chain() {
    for sizes in [Sizes::Whole, Sizes::Each] {
        for (share, load) in [(0.1, 0.5), (0.3, 0.8), (0.7, 0.9)] {
            let line = Line::with_share(5, 100.0, share, sizes);
            for (policy, max) in [(Policy::DGated, None), (Policy::TGated(2), Some(2)), (Policy::TGated(5), Some(5))] {
                agrees(policy, &line, load, theory::gated_ms(&line, line.rate(load), max).unwrap());
            }
        }
    }
}

#[test]
fn d_gated_is_first_come_first_served_while_one_query_at_most_is_queued() {
    let line = Line::with_share(5, 100.0, 0.3, Sizes::Each);
    let mut queries = Queries::draw(&line, line.rate(0.9), 2_000, 11);
    // Each comes while the one before is served: when that began is when this one's predecessor had left.
    let mut free_ms = 0.0;
    for query in 0..queries.len() {
        let own_ms: f64 = queries.demands_ms[query * 5..][..5].iter().sum();
        let began_ms = if query % 3 == 0 { free_ms + 7.0 } else { free_ms };
        queries.arrivals_ms[query] = if query % 3 == 0 { began_ms } else { free_ms - 0.25 };
        free_ms = began_ms + own_ms + line.common_ms;
    }
    let expected = Policy::Fcfs.responses_ms(&line, &queries);
    assert!(expected.iter().zip(&queries.arrivals_ms).any(|(response_ms, _)| *response_ms > 100.0));
    assert_eq!(Policy::DGated.responses_ms(&line, &queries), expected);
    assert_eq!(Policy::TGated(2).responses_ms(&line, &queries), expected);
}

#[test]
fn a_cohort_of_one_is_first_come_first_served() {
    let line = Line::with_share(4, 100.0, 0.3, Sizes::Each);
    let queries = Queries::draw(&line, line.rate(0.95), 5_000, 2);
    assert_eq!(Policy::TGated(1).responses_ms(&line, &queries), Policy::Fcfs.responses_ms(&line, &queries));
}

#[test]
fn a_cohort_pays_once_for_each_module() {
    let line = Line { modules: 2, own_ms: 20.0, common_ms: 6.0, sizes: Sizes::Whole };
    let queries = given(&line, &[0.0; 4], &[10.0; 4]);
    let last = |policy: Policy| policy.responses_ms(&line, &queries).into_iter().fold(0.0, f64::max);
    assert_eq!(last(Policy::Fcfs), 4.0 * 26.0);
    assert_eq!(last(Policy::ProcessorSharing), 4.0 * 26.0);
    assert_eq!(last(Policy::TGated(2)), 4.0 * 20.0 + 2.0 * 6.0);
    assert_eq!(last(Policy::TGated(3)), 4.0 * 20.0 + 2.0 * 6.0);
    assert_eq!(last(Policy::DGated), 4.0 * 20.0 + 6.0);
    assert_eq!(last(Policy::NonGated), 4.0 * 20.0 + 6.0);
}

#[test]
fn a_gate_keeps_out_who_comes_during_the_cohort() {
    let line = Line { modules: 2, own_ms: 20.0, common_ms: 6.0, sizes: Sizes::Whole };
    // The second comes while the first is in the first module, the third while it is in the second.
    let queries = given(&line, &[0.0, 5.0, 25.0], &[10.0; 3]);
    // The first alone: 3 + 10 in each module. Then both others: 3 + 20 in each.
    assert_eq!(Policy::DGated.responses_ms(&line, &queries), [26.0, 26.0 + 36.0 - 5.0, 26.0 + 46.0 - 25.0]);
    // The first module serves two until 23, the second module both, then the third has the line for itself.
    assert_eq!(Policy::NonGated.responses_ms(&line, &queries), [36.0, 46.0 - 5.0, 46.0 + 26.0 - 25.0]);
}

#[test]
fn who_exceeds_the_cutoff_stays_in_the_module_for_the_next_cohort() {
    let line = Line { modules: 2, own_ms: 20.0, common_ms: 6.0, sizes: Sizes::Whole };
    let queries = given(&line, &[0.0, 0.0], &[25.0, 10.0]);
    // Cohort 1: 3 + 12 for the large one, which stays, 10 for the small one, then 3 + 10 for it in the second module.
    // Cohort 2: 3 + 12, the large one stays again. Cohort 3: the last 1 there, without fetching, then 3 + 12 in the
    // second module, and so on to 12 and 1 there, which is warm.
    assert_eq!(Policy::CGated(12.0).responses_ms(&line, &queries), [38.0 + 15.0 + 1.0 + 15.0 + 13.0, 38.0]);
}

#[test]
fn every_policy_serves_everybody_and_nobody_faster_than_alone() {
    for sizes in [Sizes::Whole, Sizes::Each] {
        let line = Line::with_share(3, 100.0, 0.5, sizes);
        let queries = Queries::draw(&line, line.rate(0.9), 3_000, 8);
        for policy in POLICIES {
            let responses_ms = policy.responses_ms(&line, &queries);
            for (response_ms, own_ms) in responses_ms.iter().zip(queries.demands_ms.chunks(3)) {
                assert!(*response_ms > own_ms.iter().sum::<f64>() - 1e-6, "{policy}: {response_ms} for {own_ms:?}");
            }
        }
    }
}
