//! `min` and `max` of types whose values do not compare as their arrays do: each value comes with its order key (an
//! interval with its length, a `char(n)` without its blanks, an array with itself), and the value with the least or
//! greatest key is kept.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue, exec_datafusion_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::external;
use crate::SqlType;
use crate::functions::comparisons::comparer;
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
        Ok(Box::new(Best::new(self.is_greatest, &arguments.expr_fields[0], &arguments.expr_fields[1])?))
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
    /// Arrays of lists may come without what the type says of the elements.
    value_type: DataType,
    key_type: DataType,
    /// By which keys compare.
    order: SqlType,
    value: ScalarValue,
    key: ScalarValue,
}

impl Best {
    fn new(is_greatest: bool, value: &Field, key: &Field) -> Result<Self> {
        let order = SqlType::of_field(key).ok_or_else(|| exec_datafusion_err!("{} has no order", key.data_type()))?;
        let (value_type, key_type) = (value.data_type().clone(), key.data_type().clone());
        let (value, key) = (ScalarValue::try_new_null(&value_type)?, ScalarValue::try_new_null(&key_type)?);
        Ok(Self { is_greatest, value_type, key_type, order, value, key })
    }

    /// Whether one is preferred to another that it compares so with.
    fn prefers(&self, order: Ordering) -> bool {
        if self.is_greatest { order.is_gt() } else { order.is_lt() }
    }
}

/// An array in a type that says more of it.
fn in_type(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    match array.data_type() == data_type {
        true => Ok(array.clone()),
        false => Ok(cast(array, data_type)?),
    }
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (values, keys) = (in_type(&values[0], &self.value_type)?, in_type(&values[1], &self.key_type)?);
        let mut rows = (0..keys.len()).filter(|&row| keys.is_valid(row));
        let Some(first) = rows.next() else { return Ok(()) };
        let compared = comparer(&self.order, &keys, &keys).map_err(external)?;
        let best = rows.fold(first, |best, row| if self.prefers(compared(row, best)) { row } else { best });
        if !self.key.is_null() {
            let held = self.key.to_array()?;
            if !self.prefers(comparer(&self.order, &keys, &held).map_err(external)?(best, 0)) {
                return Ok(());
            }
        }
        (self.key, self.value) = (value_at(&keys, best)?, value_at(&values, best)?);
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
    use arrow::array::{Int64Array, ListArray, StringViewArray};
    use arrow::buffer::OffsetBuffer;

    use super::*;

    #[test]
    fn the_key_decides_and_the_first_of_equal_ones_stays() {
        let values: ArrayRef = Arc::new(StringViewArray::from(vec![Some("b "), Some("b"), Some("a"), None]));
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), Some(2), Some(1), None]));
        let (value, key) = (SqlType::Text.field("value", true), SqlType::BigInt.field("key", true));
        for (is_greatest, expected) in [(true, "b "), (false, "a")] {
            let mut best = Best::new(is_greatest, &value, &key).unwrap();
            assert_eq!(best.evaluate().unwrap(), ScalarValue::Utf8View(None));
            best.update_batch(&[values.clone(), keys.clone()]).unwrap();
            let state = best.state().unwrap().iter().map(|part| part.to_array().unwrap()).collect::<Vec<_>>();
            let mut other = Best::new(is_greatest, &value, &key).unwrap();
            other.merge_batch(&state).unwrap();
            assert_eq!(other.evaluate().unwrap(), ScalarValue::Utf8View(Some(expected.to_owned())));
        }
    }

    #[test]
    fn arrays_keep_their_type_and_compare_by_their_elements() {
        let field = SqlType::array_of(SqlType::Varchar(Some(4))).field("value", true);
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["b", "a", "z"]));
        let bare = Field::new_list_field(DataType::Utf8View, true);
        let offsets = OffsetBuffer::from_lengths([1, 2]);
        let lists: ArrayRef = Arc::new(ListArray::new(Arc::new(bare), offsets, texts, None));
        for (is_greatest, row) in [(true, 0), (false, 1)] {
            let mut best = Best::new(is_greatest, &field, &field).unwrap();
            best.update_batch(&[lists.clone(), lists.clone()]).unwrap();
            for state in best.state().unwrap() {
                assert_eq!(state.data_type(), *field.data_type());
            }
            let value = best.evaluate().unwrap().to_array().unwrap();
            assert_eq!(&cast(&value, lists.data_type()).unwrap(), &lists.slice(row, 1));
        }
    }
}
