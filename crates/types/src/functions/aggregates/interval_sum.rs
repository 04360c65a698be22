//! `sum` of intervals: of their months, days and times, each by itself.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion_common::error::DataFusionError;
use datafusion_common::{Result, ScalarValue, exec_datafusion_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::super::errors::datetime_overflow;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The function. Fails with 22008 where a part of a sum is beyond what an interval holds.
pub(super) fn interval_sum() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(IntervalSum { signature: Signature::exact(vec![INTERVAL], Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalSum {
    signature: Signature,
}

impl AggregateUDFImpl for IntervalSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sum::default()))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sum::default()))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |part: &str| Arc::new(Field::new(format!("{}[{part}]", arguments.name), DataType::Int64, false));
        Ok(vec![field("count"), field("months"), field("days"), field("nanoseconds")])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The sums so far, wider than what an interval holds, so that rows may leave again.
#[derive(Debug, Default)]
struct Sum {
    count: i64,
    months: i64,
    days: i64,
    nanoseconds: i64,
}

impl Sum {
    fn add(&mut self, count: i64, months: i64, days: i64, nanoseconds: i64) -> Result<()> {
        let sum = |sum: i64, more: i64| {
            sum.checked_add(more).ok_or_else(|| DataFusionError::External(Box::new(datetime_overflow("interval"))))
        };
        self.count = sum(self.count, count)?;
        self.months = sum(self.months, months)?;
        self.days = sum(self.days, days)?;
        self.nanoseconds = sum(self.nanoseconds, nanoseconds)?;
        Ok(())
    }

    fn add_all(&mut self, values: &[ArrayRef], sign: i64) -> Result<()> {
        let values = values.first().and_then(|values| values.as_primitive_opt::<IntervalMonthDayNanoType>());
        let values = values.ok_or_else(|| exec_datafusion_err!("a sum of intervals got other values"))?;
        values.iter().flatten().try_for_each(|value| {
            self.add(sign, sign * i64::from(value.months), sign * i64::from(value.days), sign * value.nanoseconds)
        })
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add_all(values, 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add_all(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let part = |value: i64| {
            i32::try_from(value).map_err(|_| DataFusionError::External(Box::new(datetime_overflow("interval"))))
        };
        let (months, days) = (part(self.months)?, part(self.days)?);
        let interval = IntervalMonthDayNano { months, days, nanoseconds: self.nanoseconds };
        Ok(ScalarValue::IntervalMonthDayNano(Some(interval)))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok([self.count, self.months, self.days, self.nanoseconds].map(ScalarValue::from).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let columns = states.iter().filter_map(|state| state.as_primitive_opt::<arrow::datatypes::Int64Type>());
        let columns = columns.collect::<Vec<_>>();
        let [counts, months, days, nanoseconds] = columns.as_slice() else {
            return Err(exec_datafusion_err!("a sum of intervals got another state"));
        };
        (0..counts.len())
            .try_for_each(|row| self.add(counts.value(row), months.value(row), days.value(row), nanoseconds.value(row)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::IntervalMonthDayNanoArray;

    use super::*;

    fn array(parts: &[(i32, i32, i64)]) -> Vec<ArrayRef> {
        let values =
            parts.iter().map(|&(months, days, nanoseconds)| Some(IntervalMonthDayNano { months, days, nanoseconds }));
        vec![Arc::new(IntervalMonthDayNanoArray::from_iter(values.chain([None]))) as ArrayRef]
    }

    #[test]
    fn parts_are_added_each_by_itself_and_taken_back() {
        let mut sum = Sum::default();
        assert!(sum.evaluate().unwrap().is_null());
        sum.update_batch(&array(&[(1, 2, 3), (i32::MAX, 0, 5)])).unwrap();
        assert!(sum.evaluate().unwrap_err().to_string().contains("out of range"));
        sum.retract_batch(&array(&[(1, 2, 3)])).unwrap();
        let expected = IntervalMonthDayNano { months: i32::MAX, days: 0, nanoseconds: 5 };
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::IntervalMonthDayNano(Some(expected)));
        let state = sum.state().unwrap().iter().map(|part| part.to_array().unwrap()).collect::<Vec<_>>();
        let mut other = Sum::default();
        other.merge_batch(&state).unwrap();
        other.retract_batch(&array(&[(i32::MAX, 0, 0)])).unwrap();
        assert!(other.evaluate().unwrap().is_null());
    }
}
