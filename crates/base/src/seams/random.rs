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

    /// A number in `0..bound`; zero if the bound is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { self.rng.random_range(0..bound) }
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
