//! What is known without simulating: mean response times on the line with Poisson arrivals.

use super::line::Line;

/// The most queries in the queue that `gated` looks at: the time grows with their cube.
const QUEUED_MAX: usize = 1_000;
/// Longer queues than those looked at have at most about this probability.
const NEGLIGIBLE: f64 = 1e-9;

/// First come first served, each query paying for all modules: an M/G/1 queue (Pollaczek and Khinchine).
pub fn fcfs_ms(line: &Line, rate: f64) -> f64 {
    let demand_ms = line.demand_ms();
    let squared_ms2 = variance_ms2(line, 1) + demand_ms.powi(2);
    demand_ms + rate * squared_ms2 / (2.0 * (1.0 - rate * demand_ms))
}

/// Processor sharing: of the demand's distribution only the mean counts (Kleinrock, Queueing Systems II, section 4.4).
pub fn processor_sharing_ms(line: &Line, rate: f64) -> f64 {
    line.demand_ms() / (1.0 - rate * line.demand_ms())
}

/// The variance of what so many queries demand together; common data takes the same time always.
fn variance_ms2(line: &Line, queries: usize) -> f64 {
    queries as f64 * line.own_ms.powi(2) / line.draws() as f64
}

/// T-gated with cohorts of at most `queries_max`, and D-gated without such a number, on two modules or more (or without
/// common data). `None` where queues become too long to be looked at.
///
/// The length of the queue when a gate closes is a Markov chain: a cohort of `b` takes the common demand and `b` own
/// ones, Poisson arrivals during that time come to those left over, and an empty queue waits for one query. The
/// chain's stationary distribution gives what queries wait in all, by Little's law, and how many are served, per
/// cohort.
pub fn gated_ms(line: &Line, rate: f64, queries_max: Option<usize>) -> Option<f64> {
    let queued_max = queued_max(line, rate, queries_max)?;
    let cohort = |queued: usize| queries_max.map_or(queued, |max| queued.min(max));
    // Row by queue when the gate closes, column by that when the next one does; both begin with one query.
    let mut chain = vec![vec![0.0; queued_max]; queued_max];
    let mut arrivals = Vec::new();
    for (row, next) in chain.iter_mut().enumerate() {
        let queued = row + 1;
        let left = queued - cohort(queued);
        if left == 0 || arrivals.is_empty() {
            arrivals = arrivals_during(line, rate, cohort(queued), queued_max);
        }
        for (come, probability) in arrivals.iter().enumerate() {
            next[(left + come).clamp(1, queued_max) - 1] += probability;
        }
    }
    let (mut spent_ms, mut served) = (0.0, 0.0);
    for (row, probability) in stationary(chain).iter().enumerate() {
        let queued = row + 1;
        let size = cohort(queued) as f64;
        let lasts_ms = line.common_ms + size * line.own_ms;
        let squared_ms2 = variance_ms2(line, cohort(queued)) + lasts_ms.powi(2);
        let waiting = (queued as f64 - size) * lasts_ms + rate * squared_ms2 / 2.0;
        // All pass all modules but the last, then one after another leaves that.
        let last_ms = line.own_ms / line.modules as f64;
        let inside = size * (lasts_ms - size * last_ms) + last_ms * size * (size + 1.0) / 2.0;
        spent_ms += probability * (waiting + inside);
        served += probability * size;
    }
    Some(spent_ms / served)
}

/// Queues up to which length are worth looking at, from how fast longer ones become rarer.
fn queued_max(line: &Line, rate: f64, queries_max: Option<usize>) -> Option<usize> {
    // A queue of many is served at this load.
    let common_ms = queries_max.map_or(0.0, |max| line.common_ms / max as f64);
    let load = rate * (line.own_ms + common_ms);
    let lengths = NEGLIGIBLE.ln() / load.ln();
    // What comes while the common data of one cohort is fetched is there in any case.
    let queued = 20 + (2.0 * rate * line.common_ms) as usize + lengths as usize;
    (load < 1.0 && queued <= QUEUED_MAX).then_some(queued)
}

/// The probabilities of 0, 1, … arrivals during a cohort; the last stands for all beyond.
fn arrivals_during(line: &Line, rate: f64, cohort: usize, queued_max: usize) -> Vec<f64> {
    // Poisson while common data is fetched.
    let mean = rate * line.common_ms;
    let poisson: Vec<f64> = std::iter::successors(Some((0, (-mean).exp())), |(count, probability)| {
        Some((count + 1, probability * mean / f64::from(count + 1)))
    })
    .map(|(_, probability): (u32, f64)| probability)
    .take(queued_max + 1)
    .collect();
    // During a sum of exponential times: negative binomial.
    let shape = (cohort * line.draws()) as f64;
    let odds = rate * line.own_ms / line.draws() as f64;
    let own: Vec<f64> = std::iter::successors(Some((0, (1.0 + odds).powf(-shape))), |(count, probability)| {
        let next = f64::from(*count) + 1.0;
        Some((count + 1, probability * (shape + next - 1.0) / next * odds / (1.0 + odds)))
    })
    .map(|(_, probability): (u32, f64)| probability)
    .take(queued_max + 1)
    .collect();
    let mut both = vec![0.0; queued_max + 1];
    for (first, probability) in poisson.iter().enumerate().take_while(|(_, probability)| **probability > 1e-18) {
        for (second, own) in own[..=queued_max - first].iter().enumerate() {
            both[first + second] += probability * own;
        }
    }
    let seen: f64 = both[..queued_max].iter().sum();
    both[queued_max] = (1.0 - seen).max(0.0);
    both
}

/// The stationary distribution of a chain by elimination of one state after another, without any subtraction
/// (Grassmann, Taksar and Heyman, Operations Research 33, 1985).
fn stationary(mut chain: Vec<Vec<f64>>) -> Vec<f64> {
    let states = chain.len();
    for last in (1..states).rev() {
        let (before, rest) = chain.split_at_mut(last);
        let gone = &rest[0][..last];
        let leaves: f64 = gone.iter().sum();
        for row in before {
            row[last] /= leaves;
            let through = row[last];
            if through > 0.0 {
                row[..last].iter_mut().zip(gone).for_each(|(direct, onward)| *direct += through * onward);
            }
        }
    }
    let mut distribution = vec![1.0];
    for state in 1..states {
        let comes: f64 = distribution.iter().zip(&chain).map(|(share, row)| share * row[state]).sum();
        distribution.push(comes);
    }
    let total: f64 = distribution.iter().sum();
    distribution.iter().map(|share| share / total).collect()
}

#[cfg(test)]
mod tests {
    use super::super::line::Sizes;
    use super::*;

    #[test]
    fn a_chain_of_three_states_has_the_distribution_of_its_equations() {
        let chain = vec![vec![0.5, 0.5, 0.0], vec![0.25, 0.5, 0.25], vec![0.0, 0.5, 0.5]];
        let found = stationary(chain);
        for (found, expected) in found.iter().zip([0.25, 0.5, 0.25]) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
    }

    #[test]
    fn arrivals_have_the_mean_of_the_time_they_come_in() {
        let line = Line::with_share(5, 100.0, 0.3, Sizes::Whole);
        let rate = line.rate(0.6);
        let found = arrivals_during(&line, rate, 4, 200);
        let mean: f64 = found.iter().enumerate().map(|(count, probability)| count as f64 * probability).sum();
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((mean - rate * (30.0 + 4.0 * 70.0)).abs() < 1e-6, "{mean}");
    }

    #[test]
    fn without_common_data_one_module_is_the_same_under_every_gate() {
        let line = Line::with_share(1, 100.0, 0.0, Sizes::Whole);
        for load in [0.3, 0.8] {
            let rate = line.rate(load);
            let theory_ms = 100.0 / (1.0 - load);
            for found_ms in [Some(1), Some(2), Some(7), None].map(|max| gated_ms(&line, rate, max).unwrap()) {
                assert!((found_ms - theory_ms).abs() < 1e-4, "{found_ms} beside {theory_ms}");
            }
            assert!((fcfs_ms(&line, rate) - theory_ms).abs() < 1e-9);
            assert!((processor_sharing_ms(&line, rate) - theory_ms).abs() < 1e-9);
        }
    }

    #[test]
    fn cohorts_of_one_are_pollaczek_and_khinchines_queue() {
        for sizes in [Sizes::Whole, Sizes::Each] {
            let line = Line::with_share(5, 100.0, 0.4, sizes);
            let rate = line.rate(0.7);
            let (found_ms, theory_ms) = (gated_ms(&line, rate, Some(1)).unwrap(), fcfs_ms(&line, rate));
            assert!((found_ms - theory_ms).abs() < 1e-4, "{found_ms} beside {theory_ms}");
        }
    }

    #[test]
    fn queues_that_grow_for_ever_have_no_mean() {
        let line = Line::with_share(5, 100.0, 0.5, Sizes::Whole);
        assert_eq!(gated_ms(&line, line.rate(1.5), Some(2)), None);
        assert!(gated_ms(&line, line.rate(1.5), None).is_some(), "D-gated pays less the more wait");
    }
}
