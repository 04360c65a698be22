//! Variances, covariances, correlations and linear regressions, out of the *moments* of a frame: how many rows it has,
//! the means of their values, and the sums of squares and products of what values differ from these.
//!
//! Rows are added as DataFusion's accumulators do it (Welford, "Note on a method for calculating corrected sums of
//! squares and products", Technometrics 4(3), 1962), but never taken back: a value that leaves would leave what it has
//! rounded off. Blocks of rows are merged instead (Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm
//! for Computing Sample Variances", Stanford STAN-CS-79-773, 1979; "Algorithms for Computing the Sample Variance", The
//! American Statistician 37(3), 1983). Nothing is subtracted from a sum of squares, so none is negative; where all
//! values are the same it is zero.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, UInt64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use diligence_base::Result;

use super::blocks::{Summaries, Summary};
use super::frames::{Reach, Stretch};
use super::function::{Arrival, FrameFunction, Need, Side};
use crate::batch::to_logical;
use crate::expressions::Expr;

/// Of rows with so many values, one or two.
#[derive(Clone, Copy)]
struct Moments<const VALUES: usize> {
    /// Rows without NULL.
    count: u64,
    means: [f64; VALUES],
    /// Sums of squares of differences from the mean.
    squares: [f64; VALUES],
    /// The sum of products of both values' differences from their means.
    products: f64,
}

impl<const VALUES: usize> Default for Moments<VALUES> {
    fn default() -> Self {
        Self { count: 0, means: [0.0; VALUES], squares: [0.0; VALUES], products: 0.0 }
    }
}

impl<const VALUES: usize> Summary for Moments<VALUES> {
    /// `None` if one of the values is NULL.
    type Row = Option<[f64; VALUES]>;

    fn add(mut self, row: Option<[f64; VALUES]>) -> Self {
        let Some(row) = row else { return self };
        self.count += 1;
        let first_difference = row[0] - self.means[0];
        for (place, value) in row.into_iter().enumerate() {
            let difference = value - self.means[place];
            self.means[place] += difference / self.count as f64;
            self.squares[place] += difference * (value - self.means[place]);
        }
        self.products += first_difference * (row[VALUES - 1] - self.means[VALUES - 1]);
        self
    }

    fn merge(self, behind: Self) -> Self {
        // No rows have no means.
        if self.count == 0 || behind.count == 0 {
            return if self.count == 0 { behind } else { self };
        }
        let count = self.count + behind.count;
        let share = behind.count as f64 / count as f64;
        let weight = self.count as f64 * share;
        let differences: [f64; VALUES] = std::array::from_fn(|place| behind.means[place] - self.means[place]);
        let square = |place: usize| differences[place] * differences[place] * weight;
        Self {
            count,
            means: std::array::from_fn(|place| self.means[place] + differences[place] * share),
            squares: std::array::from_fn(|place| self.squares[place] + behind.squares[place] + square(place)),
            products: self.products + behind.products + differences[0] * differences[VALUES - 1] * weight,
        }
    }
}

impl<const VALUES: usize> Moments<VALUES> {
    /// A sum over all rows but one.
    fn sample(&self, sum: f64) -> Option<f64> {
        (self.count > 1).then(|| sum / (self.count - 1) as f64)
    }

    /// A sum over all rows.
    fn population(&self, sum: f64) -> Option<f64> {
        (self.count > 0).then(|| sum / self.count as f64)
    }

    fn if_any(&self, value: f64) -> Option<f64> {
        (self.count > 0).then_some(value)
    }
}

impl Moments<1> {
    /// That of one row is zero, whatever its value.
    fn variance_of_population(&self) -> Option<f64> {
        if self.count == 1 { Some(0.0) } else { self.population(self.squares[0]) }
    }
}

impl Moments<2> {
    fn correlation(&self) -> Option<f64> {
        match self.means.map(f64::is_nan) {
            [true, true] => return Some(f64::NAN),
            [false, false] if self.count > 1 => {}
            _ => return None,
        }
        let count = self.count as f64;
        let deviations = self.squares.map(|squares| (squares / count).sqrt());
        (!deviations.contains(&0.0)).then(|| self.products / count / deviations[0] / deviations[1])
    }

    /// Of the second value over the first. There is none for a single point, nor where all points lie above each other.
    fn slope(&self) -> Option<f64> {
        let count = self.count as f64;
        let variance = self.squares[0] / count;
        (self.count > 1 && variance != 0.0).then(|| self.products / count / variance)
    }

    fn determination(&self) -> Option<f64> {
        let count = self.count as f64;
        let [first, second] = self.squares.map(|squares| squares / count);
        let covariance = self.products / count;
        (self.count > 1 && first != 0.0 && second != 0.0).then(|| covariance * covariance / (first * second))
    }
}

type Value<const VALUES: usize> = fn(&Moments<VALUES>) -> Option<f64>;

/// What is made of moments.
enum Statistic {
    OfOne(Value<1>),
    OfTwo(Value<2>),
    /// Of the arguments y and x, with x as the first value: so DataFusion's accumulators take them.
    Regression(Value<2>),
    /// The rows that a regression has.
    Points,
}

/// The statistic of this name. These are DataFusion's names; aliases are resolved by now.
fn statistic(name: &str) -> Option<Statistic> {
    use Statistic::{OfOne, OfTwo, Points, Regression};
    Some(match name {
        "var" => OfOne(|moments| moments.sample(moments.squares[0])),
        "var_pop" => OfOne(Moments::variance_of_population),
        "stddev" => OfOne(|moments| moments.sample(moments.squares[0]).map(f64::sqrt)),
        "stddev_pop" => OfOne(|moments| moments.variance_of_population().map(f64::sqrt)),
        "covar_samp" => OfTwo(|moments| moments.sample(moments.products)),
        "covar_pop" => OfTwo(|moments| moments.population(moments.products)),
        "corr" => OfTwo(Moments::correlation),
        "regr_slope" => Regression(Moments::slope),
        "regr_intercept" => {
            Regression(|moments| moments.slope().map(|slope| moments.means[1] - slope * moments.means[0]))
        }
        "regr_count" => Points,
        "regr_r2" => Regression(Moments::determination),
        "regr_avgx" => Regression(|moments| moments.if_any(moments.means[0])),
        "regr_avgy" => Regression(|moments| moments.if_any(moments.means[1])),
        "regr_sxx" => Regression(|moments| moments.if_any(moments.squares[0])),
        "regr_syy" => Regression(|moments| moments.if_any(moments.squares[1])),
        "regr_sxy" => Regression(|moments| moments.if_any(moments.products)),
        _ => return None,
    })
}

/// Whether an aggregate is one of these.
pub(super) fn is_of_moments(function: &AggregateFunctionExpr) -> bool {
    statistic(function.fun().name()).is_some()
}

/// The function for an aggregate, if it is one of these.
pub(super) fn of_moments(
    function: &AggregateFunctionExpr,
    arguments: &[Expr],
    reach: Reach,
) -> Option<Box<dyn FrameFunction>> {
    if arguments.iter().any(|argument| argument.data_type() != &DataType::Float64) {
        return None;
    }
    Some(match (statistic(function.fun().name())?, arguments.len()) {
        (Statistic::OfOne(value), 1) => Box::new(OfMoments::new(reach, false, Some(value))),
        (Statistic::OfTwo(value), 2) => Box::new(OfMoments::new(reach, false, Some(value))),
        (Statistic::Regression(value), 2) => Box::new(OfMoments::new(reach, true, Some(value))),
        (Statistic::Points, 2) => Box::new(OfMoments::<2>::new(reach, true, None)),
        _ => return None,
    })
}

/// A statistic of frames.
struct OfMoments<const VALUES: usize> {
    moments: Summaries<Moments<VALUES>>,
    /// Whether the last argument is the first value.
    is_reversed: bool,
    /// The count if there is none.
    value: Option<Value<VALUES>>,
}

impl<const VALUES: usize> OfMoments<VALUES> {
    fn new(reach: Reach, is_reversed: bool, value: Option<Value<VALUES>>) -> Self {
        Self { moments: Summaries::new(reach), is_reversed, value }
    }
}

impl<const VALUES: usize> FrameFunction for OfMoments<VALUES> {
    fn takes(&self, side: Side) -> bool {
        self.moments.takes(side)
    }

    fn push(&mut self, side: Side, arrival: &Arrival<'_>) -> Result<()> {
        let values = arrival.values.iter().map(|values| to_logical(values, &DataType::Float64));
        let values = values.collect::<Result<Vec<_>>>()?;
        let argument = |place: usize| if self.is_reversed { VALUES - 1 - place } else { place };
        let values: [&Float64Array; VALUES] =
            std::array::from_fn(|place| values[argument(place)].as_primitive::<Float64Type>());
        let row = |row: usize| {
            values.iter().all(|values| values.is_valid(row)).then(|| values.map(|values| values.value(row)))
        };
        self.moments.push(side, arrival, row);
        Ok(())
    }

    fn advance(&mut self, stretch: &Stretch) -> Result<()> {
        self.moments.advance(stretch);
        Ok(())
    }

    fn lacks(&self, stretch: &Stretch) -> Option<Need> {
        self.moments.lacks(stretch)
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let moments = stretches.iter().map(|stretch| self.moments.of(stretch));
        Ok(match self.value {
            Some(value) => Arc::new(moments.map(|moments| value(&moments)).collect::<Float64Array>()),
            None => Arc::new(UInt64Array::from_iter_values(moments.map(|moments| moments.count))),
        })
    }

    fn bytes(&self) -> usize {
        self.moments.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const VALUES: usize>(rows: &[[f64; VALUES]]) -> Moments<VALUES> {
        rows.iter().fold(Moments::default(), |moments, row| moments.add(Some(*row)))
    }

    #[test]
    fn moments_of_parts_are_those_of_all_rows() {
        // Deviations of -2 to 2, far away from zero.
        let rows = (0..5).map(|row| [1e9 + f64::from(row), 1e9 - 2.0 * f64::from(row)]).collect::<Vec<_>>();
        for place in 0..=rows.len() {
            let moments = of(&rows[..place]).merge(of(&rows[place..]));
            assert_eq!((moments.count, moments.means), (5, [1e9 + 2.0, 1e9 - 4.0]), "cut at {place}");
            assert!((moments.squares[0] - 10.0).abs() < 1e-6, "cut at {place}: {:?}", moments.squares);
            assert!((moments.squares[1] - 40.0).abs() < 1e-6, "cut at {place}: {:?}", moments.squares);
            assert!((moments.products + 20.0).abs() < 1e-6, "cut at {place}: {}", moments.products);
        }
    }

    #[test]
    fn equal_values_do_not_vary_however_they_are_cut() {
        for value in [0.1, -1e300, f64::MAX, 0.0] {
            let rows = [[value, value]; 17];
            for place in 0..=rows.len() {
                let moments = of(&rows[..place]).merge(of(&rows[place..]));
                assert_eq!((moments.means, moments.squares, moments.products), ([value; 2], [0.0; 2], 0.0));
                assert_eq!((moments.correlation(), moments.slope(), moments.determination()), (None, None, None));
            }
        }
    }

    #[test]
    fn rows_with_nulls_and_parts_without_rows_change_nothing() {
        let infinite = of(&[[f64::INFINITY]]);
        let moments = Moments::default().merge(infinite.add(None)).merge(Moments::default());
        assert_eq!((moments.count, moments.means), (1, [f64::INFINITY]));
        assert_eq!((moments.variance_of_population(), moments.sample(moments.squares[0])), (Some(0.0), None));
    }
}
