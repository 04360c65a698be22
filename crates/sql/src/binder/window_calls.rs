//! Functions that need OVER: ranks, shifts, and values of the frame.

use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_engine::plan::WindowFunction;
use diligence_types::SqlType;
use diligence_types::sql_type::Category;

use super::Binder;
use super::common_types::common_of_values;
use super::operators::Way;
use crate::algebra::{Column, Constant, Scalar};

/// An integer that a function of a window takes.
pub(super) enum Integer {
    /// It is known now; `None` is NULL.
    Known(Option<i64>),
    /// Each row says it.
    Of(Scalar),
}

impl Binder<'_> {
    /// Ranks, shifts and values of the frame. Fails with 42883 for arguments that they do not take.
    pub(super) fn engine_function(
        &self,
        name: &str,
        arguments: Vec<Scalar>,
        ignore_nulls: bool,
        put: &dyn Fn(WindowFunction, Vec<Scalar>, Column) -> Scalar,
    ) -> Result<Scalar> {
        let call = WindowCall { binder: self, name, ignore_nulls, put };
        match (rank(name), name, arguments.as_slice()) {
            (Some((function, sql_type)), _, []) => Ok(call.put(function, vec![], sql_type, false)),
            (None, "ntile", [parts]) => call.ntile(parts),
            (None, "lag" | "lead", [value, rest @ ..]) if rest.len() <= 2 => {
                call.shifted(value, rest.first(), rest.get(1))
            }
            (None, "first_value" | "last_value", [value]) => call.edge(value),
            (None, "nth_value", [value, nth]) => call.nth(value, nth),
            _ => Err(self.unknown_function(name, &arguments)),
        }
    }

    /// An integer that is known now, or a `bigint`. Fails if it is no integer.
    pub(super) fn known_integer(&self, scalar: &Scalar) -> Result<Integer> {
        let scalar = self.cast(scalar.clone(), &SqlType::BigInt, Way::Implicit)?;
        let constant = match &scalar {
            Scalar::Cast { input, .. } => input.as_constant(),
            other => other.as_constant(),
        };
        Ok(match constant.map(|constant| &constant.value) {
            Some(ScalarValue::Int16(value)) => Integer::Known(value.map(i64::from)),
            Some(ScalarValue::Int32(value)) => Integer::Known(value.map(i64::from)),
            Some(ScalarValue::Int64(value)) => Integer::Known(*value),
            _ => Integer::Of(scalar),
        })
    }
}

/// A function without arguments, which counts rows or peers.
fn rank(name: &str) -> Option<(WindowFunction, SqlType)> {
    match name {
        "row_number" => Some((WindowFunction::RowNumber, SqlType::BigInt)),
        "rank" => Some((WindowFunction::Rank, SqlType::BigInt)),
        "dense_rank" => Some((WindowFunction::DenseRank, SqlType::BigInt)),
        "percent_rank" => Some((WindowFunction::PercentRank, SqlType::Double)),
        "cume_dist" => Some((WindowFunction::CumeDist, SqlType::Double)),
        _ => None,
    }
}

/// A call of a function that needs OVER.
struct WindowCall<'c, 'b> {
    binder: &'c Binder<'b>,
    name: &'c str,
    ignore_nulls: bool,
    /// Puts a function to those of the window, whose value is a column.
    put: &'c dyn Fn(WindowFunction, Vec<Scalar>, Column) -> Scalar,
}

impl WindowCall<'_, '_> {
    /// The value of a function of the window.
    fn put(&self, function: WindowFunction, arguments: Vec<Scalar>, sql_type: SqlType, nullable: bool) -> Scalar {
        (self.put)(function, arguments, self.binder.numbers.named(self.name, sql_type, nullable))
    }

    fn ntile(&self, parts: &Scalar) -> Result<Scalar> {
        let parts = match self.binder.known_integer(parts)? {
            Integer::Known(Some(parts)) => parts,
            Integer::Known(None) => return Ok(null_of(SqlType::Integer)),
            Integer::Of(parts) => {
                return Ok(self.put(WindowFunction::NtileOf, vec![parts], SqlType::Integer, true));
            }
        };
        let parts = u64::try_from(parts).ok().filter(|parts| *parts > 0);
        let parts =
            parts.ok_or_else(|| Error::input("argument of ntile must be greater than zero").with_code("22014"))?;
        Ok(self.put(WindowFunction::Ntile(parts), vec![], SqlType::Integer, false))
    }

    /// `lag(value, offset, default)` and `lead`.
    fn shifted(&self, value: &Scalar, offset: Option<&Scalar>, default: Option<&Scalar>) -> Result<Scalar> {
        if let Some(offset) = offset.map(Scalar::sql_type)
            && offset.category() == Category::String
        {
            let from = self.binder.typed(value.clone())?.sql_type();
            let message = format!("function {}({from}, {offset}) does not exist", self.name);
            let hint = "the second argument is a number of rows, the third a default";
            return Err(Error::input(message).with_code("42883").with_hint(hint));
        }
        let offset = match offset {
            Some(offset) => self.binder.known_integer(offset)?,
            None => Integer::Known(Some(1)),
        };
        let sql_type = match default {
            Some(default) => {
                let common = common_of_values(&[value, default], self.name)?;
                self.binder.collated_in_common(common, [value, default])?
            }
            None => self.binder.typed(value.clone())?.sql_type(),
        };
        let value = self.binder.held_as(value.clone(), &sql_type)?;
        let default = || default.map(|default| self.binder.held_as(default.clone(), &sql_type)).transpose();
        match offset {
            Integer::Known(None) => Ok(null_of(sql_type)),
            Integer::Known(Some(offset)) => {
                let offset = if self.name == "lag" { Some(offset) } else { offset.checked_neg() };
                let offset = offset.ok_or_else(|| Error::input("integer out of range").with_code("22003"))?;
                Ok(self.shifted_by(offset, value, default()?, sql_type.clone()))
            }
            Integer::Of(offset) => {
                let arguments = [value, offset].into_iter().chain(default()?).collect();
                let shift = WindowFunction::ShiftOf { is_ahead: self.name == "lead", ignore_nulls: self.ignore_nulls };
                Ok(self.put(shift, arguments, sql_type, true))
            }
        }
    }

    /// The value of the row that is so many rows before; where there is none, the default.
    fn shifted_by(&self, offset: i64, value: Scalar, default: Option<Scalar>, sql_type: SqlType) -> Scalar {
        let ignore_nulls = self.ignore_nulls;
        let shift = |default| WindowFunction::Shift { offset, default, ignore_nulls };
        let null = Constant::null(sql_type.clone()).value;
        let Some(default) = default else { return self.put(shift(null), vec![value], sql_type, true) };
        if let Some(known) = default.as_constant() {
            return self.put(shift(known.value.clone()), vec![value], sql_type, true);
        }
        // A default of each row's own: where there is no such row, there is no TRUE in it.
        let is_true = match ignore_nulls {
            false => Scalar::boolean(true),
            true => Scalar::Case {
                arms: vec![(Scalar::IsNull(Box::new(value.clone())).negate(), Scalar::boolean(true))],
                otherwise: None,
                sql_type: SqlType::Boolean,
            },
        };
        let nothing = Constant::null(SqlType::Boolean).value;
        let there = self.put(shift(nothing), vec![is_true], SqlType::Boolean, true);
        let shifted = self.put(shift(null), vec![value], sql_type.clone(), true);
        let is_missing = Scalar::IsNull(Box::new(there));
        Scalar::Case { arms: vec![(is_missing, default)], otherwise: Some(Box::new(shifted)), sql_type }
    }

    /// `first_value` and `last_value`.
    fn edge(&self, value: &Scalar) -> Result<Scalar> {
        if value.sql_type() == SqlType::Unknown {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(Error::input(message).with_code("42804"));
        }
        let value = self.binder.typed(value.clone())?;
        let nth = if self.name == "first_value" { 1 } else { -1 };
        let sql_type = value.sql_type();
        Ok(self.put(WindowFunction::Nth { nth, ignore_nulls: self.ignore_nulls }, vec![value], sql_type, true))
    }

    fn nth(&self, value: &Scalar, nth: &Scalar) -> Result<Scalar> {
        let ignore_nulls = self.ignore_nulls;
        let value = self.binder.typed(value.clone())?;
        let sql_type = value.sql_type();
        match self.binder.known_integer(nth)? {
            Integer::Known(None) => Ok(null_of(sql_type)),
            Integer::Known(Some(nth)) if nth <= 0 => {
                Err(Error::input("argument of nth_value must be greater than zero").with_code("22016"))
            }
            Integer::Known(Some(nth)) => {
                Ok(self.put(WindowFunction::Nth { nth, ignore_nulls }, vec![value], sql_type, true))
            }
            Integer::Of(nth) => Ok(self.put(WindowFunction::NthOf { ignore_nulls }, vec![value, nth], sql_type, true)),
        }
    }
}

fn null_of(sql_type: SqlType) -> Scalar {
    Scalar::Constant(Constant::null(sql_type))
}
