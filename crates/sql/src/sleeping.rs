//! `pg_sleep`: a function that waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, IntervalMonthDayNanoType};
use datafusion_expr::{ScalarUDF, Volatility};
use diligence_base::{Error, Result};
use diligence_engine::expressions::{Outside, outside_function};
use diligence_engine::stages::Caller;
use diligence_storage::foreign_error::from_arrow;

/// Seconds of waiting at most: a century.
const SECONDS_MAX: f64 = 100.0 * 366.0 * 86_400.0;
/// How often it is looked whether the query goes on.
const LOOK: Duration = Duration::from_millis(20);

/// The function of this name, if it is one that waits.
pub(crate) fn function(name: &str) -> Option<Arc<ScalarUDF>> {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 48);
    let name = ["pg_sleep", "pg_sleep_for"].into_iter().find(|known| *known == name)?;
    Some(outside_function(Arc::new(Sleep { name, number: NEXT.fetch_add(1, Ordering::Relaxed) })))
}

/// `pg_sleep(seconds)` and `pg_sleep_for(interval)`.
#[derive(Debug)]
struct Sleep {
    name: &'static str,
    number: u64,
}

impl Outside for Sleep {
    fn name(&self) -> &str {
        self.name
    }

    fn identity(&self) -> u64 {
        self.number
    }

    fn returns(&self) -> DataType {
        DataType::Utf8View
    }

    fn volatility(&self) -> Volatility {
        Volatility::Volatile
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn call(&self, arguments: &[ArrayRef], rows: usize, caller: &dyn Caller) -> Result<ArrayRef> {
        let [given] = arguments else {
            return Err(Error::input(format!("function {} takes one argument", self.name)).with_code("42883"));
        };
        for row in 0..rows {
            let until = Instant::now() + seconds(given, row)?;
            while Instant::now() < until {
                if caller.is_stopped() {
                    return Err(Error::cancelled());
                }
                std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
            }
        }
        // The empty text, as PostgreSQL shows what gives nothing.
        Ok(Arc::new(StringViewArray::from_iter_values(vec![""; rows])))
    }
}

/// How long a value says; nothing if it is NULL or less.
fn seconds(given: &ArrayRef, row: usize) -> Result<Duration> {
    if given.is_null(row) {
        return Ok(Duration::ZERO);
    }
    let seconds = match given.as_primitive_opt::<IntervalMonthDayNanoType>() {
        Some(intervals) => {
            let value = intervals.value(row);
            (f64::from(value.months) * 30.0 + f64::from(value.days)) * 86_400.0 + value.nanoseconds as f64 / 1e9
        }
        None => {
            let numbers = cast(given, &DataType::Float64).map_err(from_arrow)?;
            numbers.as_primitive::<Float64Type>().value(row)
        }
    };
    Ok(Duration::from_secs_f64(if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, SECONDS_MAX) }))
}

#[cfg(test)]
mod tests {
    use arrow::array::Float64Array;

    use super::*;

    #[test]
    fn it_is_known_how_long_it_waits() {
        let given: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.25), None, Some(-1.0), Some(f64::NAN)]));
        let waits = (0..4).map(|row| seconds(&given, row).unwrap().as_millis()).collect::<Vec<_>>();
        assert_eq!(waits, [250, 0, 0, 0]);
        assert!(function("pg_sleep").is_some() && function("sleep").is_none());
    }
}
