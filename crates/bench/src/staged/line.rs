//! The production line: modules that every query passes in the same order, and the queries that come.
//!
//! Each module has data and code that all queries need. They are in the cache as long as the processor stays in the
//! module, and all gone when it comes back from another one; whoever finds them gone pays for fetching them.

use diligence_base::seams::Random;

/// How the demand of a query is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// One exponential size for each query, divided equally among the modules: who is large is large everywhere.
    Whole,
    /// An exponential size for each module.
    Each,
}

/// Modules that are alike, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// How many modules, at least one.
    pub modules: usize,
    /// What a query demands of all modules together that find their common data in the cache, in the mean.
    pub own_ms: f64,
    /// What fetching the common data of all modules takes together.
    pub common_ms: f64,
    /// How the own demand is drawn.
    pub sizes: Sizes,
}

impl Line {
    /// A line on which queries demand so much in the mean if every module is cold, a share of it for common data.
    pub fn with_share(modules: usize, demand_ms: f64, share: f64, sizes: Sizes) -> Self {
        Self { modules, own_ms: demand_ms * (1.0 - share), common_ms: demand_ms * share, sizes }
    }

    /// What a query demands of the processor if every module is cold, in the mean.
    pub fn demand_ms(&self) -> f64 {
        self.own_ms + self.common_ms
    }

    /// Queries per millisecond that make this load if all of them find every module cold.
    pub fn rate(&self, load: f64) -> f64 {
        load / self.demand_ms()
    }

    /// How many independent exponential numbers a query's own demand is the sum of.
    pub fn draws(&self) -> usize {
        match self.sizes {
            Sizes::Whole => 1,
            Sizes::Each => self.modules,
        }
    }
}

/// Queries in the order in which they come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queries {
    /// When each comes, in milliseconds.
    pub arrivals_ms: Vec<f64>,
    /// What each demands of each module beyond the common data; a query's modules are beside each other.
    pub demands_ms: Vec<f64>,
}

impl Queries {
    /// So many queries of a Poisson process with `rate` per millisecond.
    pub fn draw(line: &Line, rate: f64, count: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut queries = Self::default();
        let mut now_ms = 0.0;
        let mean_ms = line.own_ms / line.modules as f64;
        for _ in 0..count {
            now_ms += exponential(&mut random, 1.0 / rate);
            queries.arrivals_ms.push(now_ms);
            match line.sizes {
                Sizes::Whole => {
                    let demand_ms = exponential(&mut random, mean_ms);
                    queries.demands_ms.extend(std::iter::repeat_n(demand_ms, line.modules));
                }
                Sizes::Each => {
                    queries.demands_ms.extend((0..line.modules).map(|_| exponential(&mut random, mean_ms)));
                }
            }
        }
        queries
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.arrivals_ms.len()
    }
}

/// A number of the exponential distribution with this mean.
fn exponential(random: &mut Random, mean: f64) -> f64 {
    // 53 bits make a number in (0, 1].
    let uniform = ((random.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    -mean * uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_gaps_have_their_means_and_are_as_wide_as_exponential_ones() {
        for (sizes, variance_ms2) in [(Sizes::Whole, 60.0 * 60.0), (Sizes::Each, 60.0 * 60.0 / 4.0)] {
            let line = Line::with_share(4, 100.0, 0.4, sizes);
            let queries = Queries::draw(&line, line.rate(0.5), 100_000, 1);
            let count = queries.len() as f64;
            let totals = || queries.demands_ms.chunks(4).map(|own| own.iter().sum::<f64>());
            let mean_ms = totals().sum::<f64>() / count;
            let spread_ms2 = totals().map(|own_ms| (own_ms - mean_ms).powi(2)).sum::<f64>() / count;
            assert!((mean_ms / 60.0 - 1.0).abs() < 0.01, "{sizes:?}: {mean_ms}");
            assert!((spread_ms2 / variance_ms2 - 1.0).abs() < 0.03, "{sizes:?}: {spread_ms2}");
            assert!((queries.arrivals_ms.last().unwrap() / count / 200.0 - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn a_seed_gives_the_same_queries() {
        let line = Line::with_share(2, 100.0, 0.1, Sizes::Whole);
        let draw = |seed| Queries::draw(&line, line.rate(0.9), 10, seed);
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
