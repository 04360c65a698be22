//! `min` and `max` of types whose values do not compare as their arrays do: each value comes with its order key (an
//! interval with its length, a `char(n)` without its blanks), and the value with the least or greatest key is kept.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::values::value_at;

/// The function of values and their keys.
pub(in crate::functions) fn extreme(is_greatest: bool) -> Arc<AggregateUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(AggregateUDF::from(Extreme { is_greatest, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    is_greatest: bool,
    signature: Signature,
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        if self.is_greatest { "max" } else { "min" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let null = |field: &FieldRef| ScalarValue::try_new_null(field.data_type());
        let (value, key) = (null(&arguments.expr_fields[0])?, null(&arguments.expr_fields[1])?);
        let data_type = arguments.expr_fields[0].data_type().clone();
        Ok(Box::new(Best { is_greatest: self.is_greatest, data_type, value, key }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |part: &str, of: &FieldRef| {
            Arc::new(Field::new(format!("{}[{part}]", arguments.name), of.data_type().clone(), true))
        };
        Ok(vec![field("value", &arguments.input_fields[0]), field("key", &arguments.input_fields[1])])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct Best {
    is_greatest: bool,
    /// Of the value: arrays of lists may come without what the type says of the elements.
    data_type: DataType,
    value: ScalarValue,
    key: ScalarValue,
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let keys = &values[1];
        let values = match values[0].data_type() == &self.data_type {
            true => values[0].clone(),
            false => cast(&values[0], &self.data_type)?,
        };
        for row in (0..keys.len()).filter(|&row| keys.is_valid(row)) {
            let key = value_at(keys, row)?;
            let is_better = self.key.is_null()
                || key
                    .partial_cmp(&self.key)
                    .is_some_and(|order| if self.is_greatest { order.is_gt() } else { order.is_lt() });
            if is_better {
                (self.key, self.value) = (key, value_at(&values, row)?);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.value.size() + self.key.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), self.key.clone()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn the_key_decides_and_the_first_of_equal_ones_stays() {
        let values: ArrayRef = Arc::new(StringViewArray::from(vec![Some("b "), Some("b"), Some("a"), None]));
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), Some(2), Some(1), None]));
        for (is_greatest, expected) in [(true, "b "), (false, "a")] {
            let null = || ScalarValue::Utf8View(None);
            let data_type = DataType::Utf8View;
            let mut best =
                Best { is_greatest, data_type: data_type.clone(), value: null(), key: ScalarValue::Int64(None) };
            assert_eq!(best.evaluate().unwrap(), null());
            best.update_batch(&[values.clone(), keys.clone()]).unwrap();
            let state = best.state().unwrap().iter().map(|part| part.to_array().unwrap()).collect::<Vec<_>>();
            let mut other = Best { is_greatest, data_type, value: null(), key: ScalarValue::Int64(None) };
            other.merge_batch(&state).unwrap();
            assert_eq!(other.evaluate().unwrap(), ScalarValue::Utf8View(Some(expected.to_owned())));
        }
    }
}
