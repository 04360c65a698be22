//! VARIADIC in front of a call's last argument: an array that stands for further arguments.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr};

use super::operators::Way;
use super::scope::Level;
use super::subqueries::constant_elements;
use super::syntax::{bare_name, written};
use super::{Binder, unsupported};
use crate::algebra::{Constant, Scalar};
use crate::parse::VARIADIC_ARRAY;

/// Functions with nothing before VARIADIC.
const ALONE: [&str; 4] = ["concat", "jsonb_build_array", "num_nonnulls", "num_nulls"];

impl Binder<'_> {
    /// A call such as `format(pattern, VARIADIC array)` or `jsonb_extract_path(doc, VARIADIC path)` of an array that is
    /// not known yet; `None` of other calls. Fails with 42804 if it is no array.
    pub(super) fn variadic_array(
        &self,
        name: &str,
        arguments: &[FunctionArg],
        level: &Level<'_>,
    ) -> Result<Option<Scalar>> {
        let (first, last) = match arguments {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(last)))] => (None, last),
            [FunctionArg::Unnamed(first), FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(last)))] => {
                (Some(first), last)
            }
            _ => return Ok(None),
        };
        if bare_name(last) != VARIADIC_ARRAY || first.is_some() == ALONE.contains(&name) {
            return Ok(None);
        }
        let Some(array) = self.arguments("variadic", written(last), level)?.into_iter().next() else { return Ok(None) };
        if matches!(array, Scalar::Array { .. }) || !matches!(array.sql_type(), SqlType::Array(_)) {
            return Ok(None);
        }
        let array = self.flattened(array)?;
        let texts = |array| self.explicit(array, &SqlType::array_of(SqlType::Text), false);
        let first = first.map(|first| self.argument(first, level)).transpose()?;
        let document = |document: Scalar, to: SqlType| match document.sql_type() {
            SqlType::Unknown => self.cast(document, &to, Way::Implicit),
            _ => Ok(document),
        };
        let without_nulls = |array: Scalar| {
            let null = Constant::null(array.sql_type().innermost().clone());
            self.call("cardinality", vec![self.call("array_remove", vec![array, Scalar::Constant(null)])?])
        };
        let value = match (name, first) {
            ("format", Some(pattern)) => self.call("format of array", vec![pattern, texts(array)?])?,
            ("concat_ws", Some(by)) => self.call("array_to_string", vec![texts(array)?, by])?,
            ("json_extract_path", Some(from)) => {
                self.operator("#>", vec![document(from, SqlType::Json)?, texts(array)?])?
            }
            ("jsonb_extract_path", Some(from)) => {
                self.operator("#>", vec![document(from, SqlType::Jsonb)?, texts(array)?])?
            }
            ("json_extract_path_text", Some(from)) => {
                self.operator("#>>", vec![document(from, SqlType::Json)?, texts(array)?])?
            }
            ("jsonb_extract_path_text", Some(from)) => {
                self.operator("#>>", vec![document(from, SqlType::Jsonb)?, texts(array)?])?
            }
            ("concat", None) => self.call("array_to_string", vec![array, Scalar::Constant(Constant::text(""))])?,
            ("jsonb_build_array", None) => self.call("to_jsonb", vec![array])?,
            ("num_nonnulls", None) => without_nulls(array)?,
            ("num_nulls", None) => {
                let all = self.call("cardinality", vec![array.clone()])?;
                self.operator("-", vec![all, without_nulls(array)?])?
            }
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    /// The arguments that an array stands for behind VARIADIC. Fails with 42804 if it is none.
    pub(super) fn elements_of(&self, name: &str, array: Scalar) -> Result<Vec<Scalar>> {
        let array = match array.sql_type() {
            // All elements count, whatever dimensions it has.
            SqlType::Array(_) => self.flattened(array)?,
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
