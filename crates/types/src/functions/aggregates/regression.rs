//! Covariances, correlation and regression of pairs of numbers, and variances of all there are, with PostgreSQL's sums:
//! those of Youngs and Cramer ("Some Results Relevant to Choice of Sum and Sum-of-Product Algorithms", Technometrics,
//! 1971). Of rows in one order the digits are PostgreSQL's.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion_common::{Result, ScalarValue, exec_datafusion_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

/// What is made of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Measure {
    Corr,
    CovarPop,
    CovarSamp,
    AverageX,
    AverageY,
    Intercept,
    R2,
    Slope,
    Sxx,
    Sxy,
    Syy,
    /// Of one number, not of a pair.
    VarPop,
    /// Likewise.
    StddevPop,
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Self::Corr => "corr",
            Self::CovarPop => "covar_pop",
            Self::CovarSamp => "covar_samp",
            Self::AverageX => "regr_avgx",
            Self::AverageY => "regr_avgy",
            Self::Intercept => "regr_intercept",
            Self::R2 => "regr_r2",
            Self::Slope => "regr_slope",
            Self::Sxx => "regr_sxx",
            Self::Sxy => "regr_sxy",
            Self::Syy => "regr_syy",
            Self::VarPop => "var_pop",
            Self::StddevPop => "stddev_pop",
        }
    }

    fn arguments(self) -> usize {
        if matches!(self, Self::VarPop | Self::StddevPop) { 1 } else { 2 }
    }
}

/// The function of a measure, of `double precision`: first Y, then X.
pub(super) fn regression(measure: Measure) -> Arc<AggregateUDF> {
    let signature = Signature::exact(vec![DataType::Float64; measure.arguments()], Volatility::Immutable);
    Arc::new(AggregateUDF::from(Regression { measure, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Regression {
    measure: Measure,
    signature: Signature,
}

impl AggregateUDFImpl for Regression {
    fn name(&self) -> &str {
        self.measure.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Accumulated { measure: self.measure, sums: Sums::default() }))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |part: &str| Arc::new(Field::new(format!("{}[{part}]", arguments.name), DataType::Float64, false));
        Ok(["n", "x", "xx", "y", "yy", "xy"].map(field).to_vec())
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// How many pairs there are, their sums, and the sums of squares and products of their distances from the means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    n: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Sums {
    fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.x += x;
        self.y += y;
        if self.n > 1.0 {
            let (to_x, to_y) = (x * self.n - self.x, y * self.n - self.y);
            let scale = 1.0 / (self.n * (self.n - 1.0));
            self.xx += to_x * to_x * scale;
            self.yy += to_y * to_y * scale;
            self.xy += to_x * to_y * scale;
            return;
        }
        // What is no number, or is beyond all, has no distance from its own mean.
        if !x.is_finite() {
            (self.xx, self.xy) = (f64::NAN, f64::NAN);
        }
        if !y.is_finite() {
            (self.yy, self.xy) = (f64::NAN, f64::NAN);
        }
    }

    fn remove(&mut self, x: f64, y: f64) {
        if self.n <= 1.0 {
            *self = Self::default();
            return;
        }
        let (to_x, to_y) = (x * self.n - self.x, y * self.n - self.y);
        let scale = 1.0 / (self.n * (self.n - 1.0));
        self.xx -= to_x * to_x * scale;
        self.yy -= to_y * to_y * scale;
        self.xy -= to_x * to_y * scale;
        self.n -= 1.0;
        self.x -= x;
        self.y -= y;
    }

    fn merge(&mut self, other: &Self) {
        if other.n == 0.0 {
            return;
        }
        if self.n == 0.0 {
            *self = *other;
            return;
        }
        let n = self.n + other.n;
        let (apart_x, apart_y) = (self.x / self.n - other.x / other.n, self.y / self.n - other.y / other.n);
        let weight = self.n * other.n / n;
        self.xx += other.xx + weight * apart_x * apart_x;
        self.yy += other.yy + weight * apart_y * apart_y;
        self.xy += other.xy + weight * apart_x * apart_y;
        (self.n, self.x, self.y) = (n, self.x + other.x, self.y + other.y);
    }

    fn measure(&self, measure: Measure) -> Option<f64> {
        if self.n < 1.0 {
            return None;
        }
        match measure {
            Measure::Corr => (self.xx != 0.0 && self.yy != 0.0).then(|| self.xy / (self.xx * self.yy).sqrt()),
            Measure::CovarPop => Some(self.xy / self.n),
            Measure::CovarSamp => (self.n >= 2.0).then(|| self.xy / (self.n - 1.0)),
            Measure::AverageX => Some(self.x / self.n),
            Measure::AverageY => Some(self.y / self.n),
            Measure::Intercept => (self.xx != 0.0).then(|| (self.y - self.x * self.xy / self.xx) / self.n),
            Measure::R2 if self.xx == 0.0 => None,
            Measure::R2 if self.yy == 0.0 => Some(1.0),
            Measure::R2 => Some(self.xy * self.xy / (self.xx * self.yy)),
            Measure::Slope => (self.xx != 0.0).then(|| self.xy / self.xx),
            Measure::Sxx => Some(self.xx),
            Measure::Sxy => Some(self.xy),
            Measure::Syy => Some(self.yy),
            Measure::VarPop => Some(self.xx / self.n),
            Measure::StddevPop => Some((self.xx / self.n).sqrt()),
        }
    }
}

#[derive(Debug)]
struct Accumulated {
    measure: Measure,
    sums: Sums,
}

/// The pairs of which neither is NULL, as X and Y.
fn pairs(values: &[ArrayRef]) -> Result<impl Iterator<Item = (f64, f64)>> {
    let columns = values.iter().filter_map(|values| values.as_primitive_opt::<Float64Type>()).collect::<Vec<_>>();
    match columns.as_slice() {
        [x] => Ok(x.iter().filter_map(|x| Some((x?, 0.0))).collect::<Vec<_>>().into_iter()),
        [y, x] => Ok(x.iter().zip(y.iter()).filter_map(|(x, y)| x.zip(y)).collect::<Vec<_>>().into_iter()),
        _ => Err(exec_datafusion_err!("a regression got other values than pairs of numbers")),
    }
}

impl Accumulator for Accumulated {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        pairs(values)?.for_each(|(x, y)| self.sums.add(x, y));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        pairs(values)?.for_each(|(x, y)| self.sums.remove(x, y));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.sums.measure(self.measure)))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Sums { n, x, xx, y, yy, xy } = self.sums;
        Ok([n, x, xx, y, yy, xy].map(ScalarValue::from).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let columns = states.iter().filter_map(|state| state.as_primitive_opt::<Float64Type>()).collect::<Vec<_>>();
        let [n, x, xx, y, yy, xy] = columns[..] else {
            return Err(exec_datafusion_err!("a regression got another state"));
        };
        for row in 0..n.len() {
            let at = |column: &Float64Array| column.value(row);
            self.sums.merge(&Sums { n: at(n), x: at(x), xx: at(xx), y: at(y), yy: at(yy), xy: at(xy) });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_have_postgresqls_digits() {
        let mut sums = Sums::default();
        for (x, y) in [(1.0, 2.0), (2.0, 4.0), (3.0, 7.0)] {
            sums.add(x, y);
        }
        assert_eq!(sums.measure(Measure::Slope), Some(2.5));
        assert_eq!(sums.measure(Measure::Intercept), Some(-0.6666666666666666));
        assert_eq!(sums.measure(Measure::Corr), Some(0.9933992677987828));
        assert_eq!(sums.measure(Measure::CovarSamp), Some(2.5));
        assert_eq!(Sums::default().measure(Measure::Sxx), None);
    }

    #[test]
    fn states_merge_and_rows_leave_again() {
        let rows = [(1.0, 2.0), (2.0, 4.0), (3.0, 7.0), (10.0, -1.0)];
        let of = |rows: &[(f64, f64)]| {
            let mut sums = Sums::default();
            rows.iter().for_each(|(x, y)| sums.add(*x, *y));
            sums
        };
        let mut left = of(&rows[..2]);
        left.merge(&of(&rows[2..]));
        let whole = of(&rows);
        let is_near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(is_near(left.xy, whole.xy) && is_near(left.xx, whole.xx) && left.n == 4.0);
        let mut fewer = whole;
        fewer.remove(10.0, -1.0);
        assert!(is_near(fewer.yy, of(&rows[..3]).yy) && fewer.n == 3.0);
        let mut infinite = Sums::default();
        infinite.add(f64::INFINITY, 1.0);
        assert!(infinite.measure(Measure::Sxx).is_some_and(f64::is_nan));
        assert!(infinite.measure(Measure::VarPop).is_some_and(f64::is_nan));
    }
}
