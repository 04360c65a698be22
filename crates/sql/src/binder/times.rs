//! Types of times with a modifier, such as `timestamp(3)` and `interval hour to minute`: what becomes of a value that
//! is taken as one of them.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::timed_type::TimedType;
use sqlparser::ast::{ArrayElemTypeDef, DataType, Expr, Function, FunctionArg, FunctionArgExpr, Value};

use super::Binder;
use super::literals::{minutes_and_seconds, unknown};
use super::operators::Way;
use super::syntax::written;
use crate::algebra::{Constant, Scalar};
use crate::procedural::record_of;

impl Binder<'_> {
    /// The type of a name like [`sql_type`](Self::sql_type), of times with its modifier.
    pub(super) fn timed_type(&self, data_type: &DataType) -> Result<SqlType> {
        let plain = self.sql_type(data_type)?;
        // Of an array, its elements say it.
        let mut data_type = data_type;
        while let DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::Parenthesis(element),
        ) = data_type
        {
            data_type = element;
        }
        let (digits, fields) = match data_type {
            DataType::Time(digits, _) | DataType::Timestamp(digits, _) | DataType::Datetime(digits) => (*digits, None),
            DataType::Interval { fields, precision } => (*precision, fields.as_ref().map(ToString::to_string)),
            // `timestamptz(3)` and `timetz(3)`, where they are names like others.
            DataType::Custom(_, modifiers) => (modifiers.first().and_then(|digits| digits.trim().parse().ok()), None),
            _ => (None, None),
        };
        match TimedType::new(plain.clone(), digits, fields.as_deref()) {
            Some(timed) => Ok(SqlType::Timed(Arc::new(timed))),
            None => Ok(plain),
        }
    }

    /// The type that a cast or a parameter is of: like [`timed_type`](Self::timed_type), or the row of a table.
    pub(super) fn cast_type(&self, data_type: &DataType) -> Result<SqlType> {
        self.timed_type(data_type).or_else(|error| match error.code() {
            Some("42704") => self.row_type(data_type, error),
            _ => Err(error),
        })
    }

    /// The row of a table whose name stands where a type should be, or an array of its rows. Fails with an error if
    /// there is none.
    fn row_type(&self, data_type: &DataType, error: Error) -> Result<SqlType> {
        match data_type {
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
                self.row_type(element, error).map(SqlType::array_of)
            }
            DataType::Custom(name, modifiers) if modifiers.is_empty() => {
                self.context.row_columns(name)?.map(|columns| record_of(&columns)).ok_or(error)
            }
            _ => Err(error),
        }
    }

    /// A clock's time with as many digits of seconds as its call says: `current_timestamp(3)`.
    pub(super) fn with_digits(&self, time: Scalar, function: &Function) -> Result<Scalar> {
        let digits = match written(function) {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => match &value.value {
                Value::Number(digits, _) => digits.parse().ok(),
                _ => None,
            },
            _ => None,
        };
        match digits.and_then(|digits| TimedType::new(time.sql_type(), Some(digits), None)) {
            Some(timed) => self.of_timed(time, &timed, Way::Explicit),
            None => Ok(time),
        }
    }

    /// The value as one of a type of times with a modifier: rounded, and without its smaller fields. Fails as a cast to
    /// the type without the modifier does.
    pub(super) fn of_timed(&self, scalar: Scalar, timed: &TimedType, way: Way) -> Result<Scalar> {
        let scalar = match (scalar, timed.last_field()) {
            (Scalar::Constant(constant), Some(last)) if constant.sql_type == SqlType::Unknown => {
                let is_array = timed.base.element().is_some();
                let text = constant.value.try_as_str().flatten().filter(|_| !is_array).map(str::to_owned);
                match text {
                    // The last field names the unit of a number alone.
                    Some(text) if text.trim().parse::<f64>().is_ok() => {
                        Scalar::Constant(unknown(&format!("{} {last}", text.trim())))
                    }
                    Some(text) if timed.fields() == Some("minute to second") => {
                        Scalar::Constant(unknown(&minutes_and_seconds(&text)))
                    }
                    _ => Scalar::Constant(constant),
                }
            }
            (scalar, _) => scalar,
        };
        let mut value = match way {
            Way::Explicit | Way::Try => self.explicit(scalar, &timed.base, way == Way::Try)?,
            Way::Implicit | Way::Assignment => self.cast(scalar, &timed.base, way)?,
        };
        if let Some(fields) = timed.fields() {
            value = self.call("interval_up_to", vec![value, Scalar::Constant(Constant::text(fields))])?;
        }
        self.with_seconds_digits(value, timed.digits().filter(|digits| *digits < 6))
    }
}
