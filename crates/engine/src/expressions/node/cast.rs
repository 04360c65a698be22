//! CAST, explicit or put in by the planner to bring two sides to one type.
//!
//! Casts that cannot fail by the declared types run on the narrow forms; all others go to DataFusion on the logical
//! form.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast};
use arrow::datatypes::{DECIMAL64_MAX_SCALE, DataType, Int8Type, Int16Type, Int32Type, Int64Type};
use diligence_base::Result;
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::Node;
use super::arithmetic::{power_of_ten, scaled};
use super::strings::is_string;
use crate::batch::{Batch, nulls_of};
use crate::expressions::operand::{Narrow, Operand};

/// An expression cast to another type.
#[derive(Debug)]
pub(in crate::expressions) struct Cast {
    pub(in crate::expressions) input: Box<Node>,
    from: DataType,
    to: DataType,
    options: CastOptions<'static>,
    way: Way,
}

#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// A decimal times a factor, to a type that holds every value of the declared source type.
    Rescale(i64),
    /// An integer times a factor, to a decimal that holds every integer of the source type.
    IntegerToDecimal(i64),
    /// Numbers to wider numbers or floats, by Arrow on the physical form.
    Number,
    /// Strings to strings of another layout: a dictionary is a narrow form of both.
    Text,
    /// By DataFusion.
    Foreign,
}

impl Cast {
    pub(in crate::expressions) fn new(
        input: Node,
        from: DataType,
        to: &DataType,
        options: &CastOptions<'static>,
    ) -> Self {
        let way = Way::of(&from, to, options).unwrap_or(Way::Foreign);
        Self { input: Box::new(input), from, to: to.clone(), options: options.clone(), way }
    }

    /// Whether some value may make it fail.
    pub(in crate::expressions) fn may_fail(&self) -> bool {
        self.way == Way::Foreign
    }

    /// The cast values for a batch's rows.
    pub(in crate::expressions) fn evaluate(&self, batch: &Batch) -> Result<Operand> {
        let input = self.input.evaluate(batch)?;
        let constant = input.constant;
        let narrow = match (&self.way, &self.to) {
            (Way::Rescale(factor), DataType::Decimal128(precision, scale)) => {
                input.narrow().and_then(|values| scaled(values, *factor)).map(|values| (values, precision, scale))
            }
            (Way::IntegerToDecimal(factor), DataType::Decimal128(precision, scale)) => integers(&input.array)
                .and_then(|values| scaled(values, *factor))
                .map(|values| (values, precision, scale)),
            _ => None,
        };
        if let Some((values, precision, scale)) = narrow {
            return values.into_operand(*precision, *scale, constant);
        }
        match self.way {
            Way::Number => {
                let array = cast(&input.array, &self.to).map_err(from_arrow)?;
                Ok(Operand { array, constant, bound: None })
            }
            Way::Text if matches!(input.array.data_type(), DataType::Dictionary(..)) => Ok(input),
            _ => {
                let logical = input.to_logical(&self.from)?.to_columnar()?;
                let value = logical.cast_to(&self.to, Some(&self.options)).map_err(from_datafusion)?;
                Operand::from_columnar(value)
            }
        }
    }
}

impl Way {
    fn of(from: &DataType, to: &DataType, options: &CastOptions<'static>) -> Option<Self> {
        use DataType::*;
        if options.safe {
            return None;
        }
        match (from, to) {
            (Decimal128(from_precision, from_scale), Decimal128(precision, scale)) => {
                // The condition under which Arrow too casts without looking at the values.
                let more_digits = scale.checked_sub(*from_scale).filter(|more| *more >= 0)?;
                let holds_all = from_precision.checked_add(more_digits as u8)? <= *precision;
                (holds_all && (0..=DECIMAL64_MAX_SCALE).contains(scale)).then_some(())?;
                power_of_ten(more_digits).map(Way::Rescale)
            }
            (Int8 | Int16 | Int32 | Int64, Decimal128(precision, scale)) => {
                let digits = match from {
                    Int8 => 3,
                    Int16 => 5,
                    Int32 => 10,
                    _ => 19,
                };
                let holds_all = (0..=DECIMAL64_MAX_SCALE).contains(scale) && digits + *scale as u8 <= *precision;
                holds_all.then(|| power_of_ten(*scale).map(Way::IntegerToDecimal)).flatten()
            }
            (Decimal128(..), Float64 | Float32) => Some(Way::Number),
            (Int8, Int16 | Int32 | Int64 | Float32 | Float64) => Some(Way::Number),
            (Int16, Int32 | Int64 | Float32 | Float64) => Some(Way::Number),
            (Int32, Int64 | Float32 | Float64) => Some(Way::Number),
            (Int64, Float32 | Float64) => Some(Way::Number),
            (Float32, Float64) => Some(Way::Number),
            (from, to) if is_string(from) && is_string(to) => Some(Way::Text),
            _ => None,
        }
    }
}

/// Integers as the values of a decimal of scale zero.
fn integers(array: &ArrayRef) -> Option<Narrow> {
    macro_rules! widened {
        ($type:ty, $largest:expr) => {{
            let values = array.as_primitive::<$type>().values().iter().map(|value| i64::from(*value));
            let values = values.collect::<Vec<_>>().into();
            Some(Narrow { values, nulls: nulls_of(array), bound: $largest })
        }};
    }
    match array.data_type() {
        DataType::Int8 => widened!(Int8Type, i8::MIN.unsigned_abs().into()),
        DataType::Int16 => widened!(Int16Type, i16::MIN.unsigned_abs().into()),
        DataType::Int32 => widened!(Int32Type, i32::MIN.unsigned_abs().into()),
        DataType::Int64 => {
            let values = array.as_primitive::<Int64Type>().values().clone();
            let decimals = arrow::array::Decimal64Array::new(values, nulls_of(array));
            Operand::rows(Arc::new(decimals)).narrow()
        }
        _ => None,
    }
}
