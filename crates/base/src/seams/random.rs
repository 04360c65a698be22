//! Randomness as a seam: a small generator that is always seeded.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A seeded generator. The same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Random {
    seed: u64,
    rng: SmallRng,
}

impl Random {
    /// The generator that belongs to a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, rng: SmallRng::seed_from_u64(seed) }
    }

    /// The seed it was made with: what a failing test prints.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.rng.random()
    }

    /// A number in `0..bound`; zero if the bound is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { self.rng.random_range(0..bound) }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.rng.random_range(low..=high)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of the values, of which there must be one at least.
    pub fn pick<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..20).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
