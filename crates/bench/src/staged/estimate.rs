//! A mean of several independent runs, and how far from the truth it may be.

/// Quantiles of the normal distribution for 95 and 99.9 % confidence.
pub const NORMAL_95: f64 = 1.959_964;
#[cfg(test)]
pub const NORMAL_999: f64 = 3.290_527;

/// The first queries of a run find an emptier system than the later ones; this part of them is left out.
const EARLY: usize = 10;

/// The mean without the first tenth.
pub fn mean_of_late(values: &[f64]) -> f64 {
    let late = &values[values.len() / EARLY..];
    late.iter().sum::<f64>() / late.len() as f64
}

/// The mean of runs with different seeds.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    error: f64,
    runs: usize,
}

impl Estimate {
    /// Of two runs or more.
    pub fn of(runs: &[f64]) -> Self {
        let count = runs.len() as f64;
        let mean = runs.iter().sum::<f64>() / count;
        let variance = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Self { mean, error: (variance / count).sqrt(), runs: runs.len() }
    }

    /// How far the mean may be from the truth, with the confidence of this quantile of the normal distribution.
    pub fn half_width(&self, normal: f64) -> f64 {
        self.error * student(normal, self.runs as f64 - 1.0)
    }
}

/// The quantile of Student's distribution beside one of the normal distribution (Abramowitz and Stegun, 26.7.5).
fn student(normal: f64, freedom: f64) -> f64 {
    let x = normal;
    let terms = [
        x,
        (x.powi(3) + x) / 4.0,
        (5.0 * x.powi(5) + 16.0 * x.powi(3) + 3.0 * x) / 96.0,
        (3.0 * x.powi(7) + 19.0 * x.powi(5) + 17.0 * x.powi(3) - 15.0 * x) / 384.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| sum / freedom + term)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        for (normal, freedom, table) in [(NORMAL_95, 9.0, 2.262), (NORMAL_95, 19.0, 2.093), (NORMAL_999, 19.0, 3.883)] {
            let found = student(normal, freedom);
            assert!((found - table).abs() < 0.005, "{found} beside {table}");
        }
    }

    #[test]
    fn the_error_is_that_of_the_mean() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(estimate.mean, 3.0);
        assert!((estimate.error - (2.5_f64 / 5.0).sqrt()).abs() < 1e-12);
        assert!(estimate.half_width(NORMAL_95) > NORMAL_95 * estimate.error);
    }

    #[test]
    fn the_first_tenth_does_not_count() {
        assert_eq!(mean_of_late(&[1000.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 1.0);
    }
}
