//! VARIADIC in front of a call's last argument: an array that stands for further arguments.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr};

use super::functions::{bare_name, written};
use super::operators::Way;
use super::scope::Level;
use super::subqueries::constant_elements;
use super::{Binder, unsupported};
use crate::algebra::{Constant, Scalar};
use crate::parse::VARIADIC_ARRAY;

impl Binder<'_> {
    /// `format(pattern, VARIADIC array)` and `concat_ws(by, VARIADIC array)` of an array that is not known yet; `None`
    /// of other calls. Fails with 42804 if it is no array.
    pub(super) fn variadic_text(
        &self,
        name: &str,
        arguments: &[FunctionArg],
        level: &Level<'_>,
    ) -> Result<Option<Scalar>> {
        let [FunctionArg::Unnamed(first), FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(last)))] =
            arguments
        else {
            return Ok(None);
        };
        if bare_name(last) != VARIADIC_ARRAY {
            return Ok(None);
        }
        let Some(array) = self.arguments("variadic", written(last), level)?.into_iter().next() else { return Ok(None) };
        if matches!(array, Scalar::Array { .. }) || !matches!(array.sql_type(), SqlType::Array(_)) {
            return Ok(None);
        }
        let texts = self.explicit(array, &SqlType::array_of(SqlType::Text), false)?;
        let first = self.argument(first, level)?;
        match name {
            "format" => self.call("format of array", vec![first, texts]).map(Some),
            _ => self.call("array_to_string", vec![texts, first]).map(Some),
        }
    }

    /// The arguments that an array stands for behind VARIADIC. Fails with 42804 if it is none.
    pub(super) fn elements_of(&self, name: &str, array: Scalar) -> Result<Vec<Scalar>> {
        let array = match array.sql_type() {
            SqlType::Array(_) => array,
            SqlType::Unknown => self.cast(array, &SqlType::array_of(SqlType::Text), Way::Implicit)?,
            _ => return Err(Error::input("VARIADIC argument must be an array").with_code("42804")),
        };
        match (name, array) {
            (_, Scalar::Array { elements, .. }) => Ok(elements),
            (_, Scalar::Constant(constant)) if !constant.is_null() => constant_elements(&constant),
            // Joined elements are one text.
            ("concat", array) => {
                let nothing = Scalar::Constant(Constant::text(""));
                Ok(vec![self.call("array_to_string", vec![array, nothing])?])
            }
            _ => Err(unsupported(format!("VARIADIC of an array that is not known yet, in {name}()"))),
        }
    }
}
