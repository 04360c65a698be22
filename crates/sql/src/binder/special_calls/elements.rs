//! Arrays and what has elements: made of arguments, or with other elements in their places.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Value};

use super::super::operators::Way;
use super::super::subqueries::constant_elements;
use super::super::targets::Target;
use super::SpecialCall;
use crate::algebra::{Constant, Scalar};

impl SpecialCall<'_, '_, '_> {
    /// An array or what is like one.
    pub(super) fn of_elements(&self) -> Result<Option<Scalar>> {
        let scalar = match self.name {
            "make_array" | "list_value" => self.binder.array(self.bound()?),
            "array_fill" => self.filled(),
            // A literal is a text here, and not that of a list.
            "list_slice" | "array_slice" | "list_extract" | "list_element" | "array_extract"
                if begins_with_text(self.written()) =>
            {
                self.part_of_text()
            }
            "set element" => self.with_element(),
            "set part" => self.with_part(),
            _ => return Ok(None),
        };
        scalar.map(Some)
    }

    fn part_of_text(&self) -> Result<Scalar> {
        let mut arguments = self.bound()?;
        if let Some(text) = arguments.first_mut() {
            *text = self.binder.explicit(text.clone(), &SqlType::Text, false)?;
        }
        self.binder.call(self.name, arguments)
    }

    /// `array_fill(element, lengths)`; of several dimensions, an array of arrays.
    fn filled(&self) -> Result<Scalar> {
        let [element, lengths] = self.exactly("an element and the array of its lengths")?;
        if matches!(&element, Scalar::Constant(constant) if constant.sql_type == SqlType::Unknown) {
            let message = "could not determine polymorphic type because input has type unknown";
            let hint = "cast the element: array_fill(NULL::integer, …)";
            return Err(Error::input(message).with_code("42804").with_hint(hint));
        }
        let known = match &lengths {
            Scalar::Array { elements, .. } => elements.clone(),
            Scalar::Constant(constant) if constant.sql_type.element().is_some() && !constant.is_null() => {
                constant_elements(constant)?
            }
            _ => vec![],
        };
        if known.len() < 2 {
            return self.binder.call("array_fill", vec![element, lengths]);
        }
        let mut filled = self.binder.typed(element)?;
        for length in known.into_iter().rev() {
            filled = self.binder.call("array_fill", vec![filled, self.binder.array(vec![length])?])?;
        }
        Ok(filled)
    }

    /// `a[1][2] = x`: a value, places and the element: the value with the element there.
    fn with_element(&self) -> Result<Scalar> {
        let mut arguments = self.bound()?.into_iter();
        let (Some(value), Some(element)) = (arguments.next(), arguments.next_back()) else {
            return Err(self.wrong("a value, a place and an element"));
        };
        let places = arguments.collect::<Vec<_>>();
        match value.sql_type() {
            SqlType::Array(own) if places.len() == 1 || own.element().is_some() => {
                self.with_inner_element(value, &places, element)
            }
            SqlType::Array(_) => {
                let error = Error::input("wrong number of array subscripts").with_code("2202E");
                Err(error.with_hint("the column's type has one dimension: declare it as type[][]"))
            }
            SqlType::Jsonb => self.with_json_element(value, places, element),
            other => {
                let message = format!("cannot subscript type {other} because it does not support subscripting");
                Err(Error::input(message).with_code("42804"))
            }
        }
    }

    /// The array with another array in a place, which has another element. Fails with 2202E for more places than there
    /// are dimensions.
    fn with_inner_element(&self, array: Scalar, places: &[Scalar], element: Scalar) -> Result<Scalar> {
        let SqlType::Array(own) = array.sql_type() else {
            return Err(Error::input("wrong number of array subscripts").with_code("2202E"));
        };
        let Some((place, inner)) = places.split_first() else { return Err(Error::bug("an element without a place")) };
        let element = match inner {
            [] => self.binder.assign(element, &Target::new("", own.as_ref().clone()))?,
            inner => {
                let there = self.binder.call("array_get", vec![array.clone(), place.clone()])?;
                self.with_inner_element(there, inner, element)?
            }
        };
        self.binder.call("array_with_element", vec![array, place.clone(), element])
    }

    fn with_json_element(&self, value: Scalar, places: Vec<Scalar>, element: Scalar) -> Result<Scalar> {
        let binder = self.binder;
        let is_place = places.first().is_some_and(|place| place.sql_type() == SqlType::Integer);
        let texts = places.into_iter().map(|place| binder.cast(place, &SqlType::Text, Way::Explicit));
        let path = binder.array(texts.collect::<Result<_>>()?)?;
        let json = |text: &str| binder.cast(Scalar::Constant(Constant::text(text)), &SqlType::Jsonb, Way::Explicit);
        let value = Scalar::Coalesce(vec![value, json(if is_place { "[]" } else { "{}" })?]);
        let element = binder.cast(element, &SqlType::Jsonb, Way::Implicit)?;
        let element = Scalar::Coalesce(vec![element, json("null")?]);
        binder.call("jsonb_with_element", vec![value, path, element])
    }

    /// `a[1:2] = x`.
    fn with_part(&self) -> Result<Scalar> {
        let [value, low, high, part] = self.exactly("an array, two places and an array")?;
        let part = self.binder.assign(part, &Target::new("", value.sql_type()))?;
        self.binder.call("array_with_part", vec![value, low, high, part])
    }
}

fn begins_with_text(arguments: &[FunctionArg]) -> bool {
    match arguments.first() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) => {
            matches!(value.value, Value::SingleQuotedString(_))
        }
        _ => false,
    }
}
