//! Calls that choose among their arguments, or compare them.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::has_function;

use super::super::operators::Way;
use super::SpecialCall;
use crate::algebra::{Comparison, Constant, Scalar};

impl SpecialCall<'_, '_, '_> {
    /// A choice or a comparison.
    pub(super) fn conditional(&self) -> Result<Option<Scalar>> {
        let scalar = match self.name {
            "coalesce" => self.coalesce(),
            "nullif" => self.nullif(),
            "between symmetric" => self.between_symmetric(),
            "in value" => {
                let [value, list] = self.exactly("a value and a list")?;
                self.binder.in_value(value, list)
            }
            "ifnull" | "nvl" if !has_function(self.name) => self.coalesce(),
            "if" | "iif" if !has_function(self.name) => self.choice(),
            "nvl2" if !has_function(self.name) => self.choice_by_null(),
            _ => return Ok(None),
        };
        scalar.map(Some)
    }

    fn coalesce(&self) -> Result<Scalar> {
        let values = self.binder.without_rows("COALESCE", self.level, || self.bound())?;
        if values.is_empty() {
            return Err(self.wrong("at least one argument").with_code("42601"));
        }
        let (values, _) = self.binder.in_common(values, "COALESCE")?;
        match values.len() {
            1 => values.into_iter().next().ok_or_else(|| Error::bug("no argument")),
            _ => Ok(Scalar::Coalesce(values)),
        }
    }

    fn nullif(&self) -> Result<Scalar> {
        let two = <[Scalar; 2]>::try_from(self.bound()?);
        let [left, right] = two.map_err(|_| self.wrong("two arguments").with_code("42601"))?;
        let left = self.as_compared(left, &right)?;
        let left = self.binder.evaluated_once(left, self.level)?;
        let equal = self.binder.compare(Comparison::Equal, left.clone(), right)?;
        let left = self.binder.typed(left)?;
        let sql_type = left.sql_type();
        let null = Scalar::Constant(Constant::null(sql_type.clone()));
        Ok(Scalar::Case { arms: vec![(equal, null)], otherwise: Some(Box::new(left)), sql_type })
    }

    /// A value with the type by which it is compared with another.
    fn as_compared(&self, left: Scalar, right: &Scalar) -> Result<Scalar> {
        match (left.sql_type(), right.sql_type()) {
            (SqlType::Unknown, SqlType::Varchar(_)) => self.binder.cast(left, &SqlType::Text, Way::Implicit),
            (SqlType::Unknown, other) if other != SqlType::Unknown => self.binder.cast(left, &other, Way::Implicit),
            (SqlType::Varchar(_), _) => Ok(left.cast(SqlType::Text, false)),
            (from, other) => match compared_number(&from, &other) {
                Some(wider) => Ok(left.cast(wider, false)),
                None => Ok(left),
            },
        }
    }

    /// `if(condition, yes, no)`.
    fn choice(&self) -> Result<Scalar> {
        let [condition, yes, no] = self.exactly("three arguments")?;
        let condition = self.binder.wanted(condition, &SqlType::Boolean, |from| {
            format!("argument of {} must be type boolean, not type {from}", self.name)
        })?;
        let (values, sql_type) = self.binder.in_common(vec![yes, no], "CASE")?;
        let [yes, no] = both(values)?;
        Ok(Scalar::Case { arms: vec![(condition, yes)], otherwise: Some(Box::new(no)), sql_type })
    }

    /// `nvl2(tested, yes, no)`.
    fn choice_by_null(&self) -> Result<Scalar> {
        let [tested, yes, no] = self.exactly("three arguments")?;
        let is_null = Scalar::IsNull(Box::new(self.binder.typed(tested)?));
        let (values, sql_type) = self.binder.in_common(vec![no, yes], "CASE")?;
        let [no, yes] = both(values)?;
        Ok(Scalar::Case { arms: vec![(is_null, no)], otherwise: Some(Box::new(yes)), sql_type })
    }

    fn between_symmetric(&self) -> Result<Scalar> {
        let [value, one, other] = self.exactly("three arguments")?;
        let there = self.binder.between(value.clone(), one.clone(), other.clone())?;
        let back = self.binder.between(value, other, one)?;
        Ok(Scalar::any([there, back]))
    }
}

fn both(values: Vec<Scalar>) -> Result<[Scalar; 2]> {
    values.try_into().map_err(|_| Error::bug("two values are two"))
}

/// The type in which a number is compared with one of another type, if that is not its own and not an integer.
fn compared_number(from: &SqlType, other: &SqlType) -> Option<SqlType> {
    let is_integer = |one: &SqlType| matches!(one, SqlType::SmallInt | SqlType::Integer | SqlType::BigInt);
    match (from, other) {
        (from, SqlType::Numeric(_)) if is_integer(from) => Some(SqlType::NUMERIC),
        (SqlType::Numeric(_), SqlType::Real | SqlType::Double) => Some(SqlType::Double),
        (from, SqlType::Real | SqlType::Double) if is_integer(from) => Some(SqlType::Double),
        _ => None,
    }
}
