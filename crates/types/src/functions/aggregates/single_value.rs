//! The aggregate behind scalar subqueries: the value of the only row, NULL if there is none, and an error if there are
//! more.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::error::DataFusionError;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use diligence_base::Error;

use crate::values::value_at;

/// The function.
pub fn single_value_udaf() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(SingleValue::default()))
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl Default for SingleValue {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        "single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    /// What the field notes of the SQL type goes with the value.
    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(Field::clone(&arguments[0]).with_name(self.name()).with_nullable(true)))
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(arguments.return_field.data_type())?;
        Ok(Box::new(Value { value, seen: false }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = arguments.return_field.data_type().clone();
        let name = |part: &str| format!("{}[{part}]", arguments.name);
        Ok(vec![
            Arc::new(Field::new(name("value"), value, true)),
            Arc::new(Field::new(name("seen"), DataType::Boolean, false)),
        ])
    }
}

#[derive(Debug)]
struct Value {
    value: ScalarValue,
    seen: bool,
}

impl Value {
    fn see(&mut self, values: &ArrayRef, row: usize) -> Result<()> {
        if self.seen {
            let error = Error::value("more than one row returned by a subquery used as an expression");
            return Err(DataFusionError::External(Box::new(error.with_code("21000"))));
        }
        self.value = value_at(values, row)?;
        self.seen = true;
        Ok(())
    }
}

impl Accumulator for Value {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len()).try_for_each(|row| self.see(&values[0], row))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.value.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::from(self.seen)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let seen = states[1].as_boolean();
        (0..seen.len()).filter(|&row| seen.value(row)).try_for_each(|row| self.see(&states[0], row))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;

    use super::*;

    fn value() -> Value {
        Value { value: ScalarValue::Int64(None), seen: false }
    }

    #[test]
    fn one_row_is_its_value_and_two_are_an_error() {
        let rows = |rows: Vec<Option<i64>>| vec![Arc::new(Int64Array::from(rows)) as ArrayRef];
        let mut none = value();
        none.update_batch(&rows(vec![])).unwrap();
        assert_eq!(none.evaluate().unwrap(), ScalarValue::Int64(None));
        let mut one = value();
        one.update_batch(&rows(vec![Some(7)])).unwrap();
        assert_eq!(one.evaluate().unwrap(), ScalarValue::Int64(Some(7)));
        // A row with NULL is a row.
        let mut null = value();
        null.update_batch(&rows(vec![None])).unwrap();
        assert!(null.update_batch(&rows(vec![Some(7)])).unwrap_err().to_string().contains("more than one row"));
        let states = one.state().unwrap().into_iter().map(|state| state.to_array().unwrap()).collect::<Vec<_>>();
        none.merge_batch(&states).unwrap();
        assert_eq!(none.evaluate().unwrap(), ScalarValue::Int64(Some(7)));
        assert!(none.merge_batch(&states).is_err());
    }
}
