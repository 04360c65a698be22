//! Values that are known, and how values are compared.

use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::SqlType;

/// A value that is known when a statement is planned. The Arrow value has the type's Arrow type, NULLs too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Constant {
    /// The value.
    pub value: ScalarValue,
    /// What it means.
    pub sql_type: SqlType,
}

impl Constant {
    /// NULL of a type.
    pub(crate) fn null(sql_type: SqlType) -> Self {
        // Every type of ours has a NULL in Arrow.
        let value = ScalarValue::try_new_null(&sql_type.arrow()).unwrap_or(ScalarValue::Null);
        Self { value, sql_type }
    }

    /// A truth value.
    pub(crate) fn boolean(value: bool) -> Self {
        Self { value: ScalarValue::Boolean(Some(value)), sql_type: SqlType::Boolean }
    }

    /// An `integer`.
    pub(crate) fn integer(value: i32) -> Self {
        Self { value: ScalarValue::Int32(Some(value)), sql_type: SqlType::Integer }
    }

    /// A `bigint`.
    pub(crate) fn bigint(value: i64) -> Self {
        Self { value: ScalarValue::Int64(Some(value)), sql_type: SqlType::BigInt }
    }

    /// A `text`.
    pub(crate) fn text(value: impl Into<String>) -> Self {
        Self { value: ScalarValue::Utf8View(Some(value.into())), sql_type: SqlType::Text }
    }

    /// Whether it is NULL.
    pub(crate) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    /// The value as a distance of a frame, in rows or, with RANGE, in the order's values. Fails with 22004 for NULL,
    /// 22013 for a negative one.
    pub(crate) fn distance(&self, is_range: bool, is_start: bool) -> Result<ScalarValue> {
        let offset = if is_start { "frame starting offset" } else { "frame ending offset" };
        if self.is_null() {
            return Err(Error::input(format!("{offset} must not be null")).with_code("22004"));
        }
        let is_negative = match &self.value {
            ScalarValue::IntervalMonthDayNano(Some(interval)) => {
                // As PostgreSQL compares intervals: a month is 30 days, a day 24 hours.
                let days = i128::from(interval.months) * 30 + i128::from(interval.days);
                days * 86_400_000_000_000 + i128::from(interval.nanoseconds) < 0
            }
            ScalarValue::Float64(Some(value)) if value.is_nan() => true,
            other => ScalarValue::new_zero(&other.data_type())
                .is_ok_and(|zero| other.partial_cmp(&zero) == Some(std::cmp::Ordering::Less)),
        };
        match (is_negative, is_range, &self.value) {
            (true, true, _) => {
                Err(Error::input("invalid preceding or following size in window function").with_code("22013"))
            }
            (true, false, _) => Err(Error::input(format!("{offset} must not be negative")).with_code("22013")),
            (false, false, ScalarValue::Int64(Some(rows))) => Ok(ScalarValue::UInt64(u64::try_from(*rows).ok())),
            (false, false, other) => Err(Error::bug(format!("a number of rows is {other}"))),
            (false, true, other) => Ok(other.clone()),
        }
    }

    /// The truth value, if it is one and not NULL.
    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self.value {
            ScalarValue::Boolean(value) => value,
            _ => None,
        }
    }
}

/// How two values of one type are compared. The result is NULL if either is; of `IS [NOT] DISTINCT FROM` never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    IsDistinctFrom,
    IsNotDistinctFrom,
}

impl Comparison {
    /// The comparison that is true exactly where this one is false.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
            Self::IsDistinctFrom => Self::IsNotDistinctFrom,
            Self::IsNotDistinctFrom => Self::IsDistinctFrom,
        }
    }

    /// Whether it asks only whether values are equal.
    pub(crate) fn is_of_equality(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual | Self::IsDistinctFrom | Self::IsNotDistinctFrom)
    }

    /// The comparison with its sides exchanged.
    pub(crate) fn swapped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            other => other,
        }
    }

    /// Its sign.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::IsDistinctFrom => "IS DISTINCT FROM",
            Self::IsNotDistinctFrom => "IS NOT DISTINCT FROM",
        }
    }
}
