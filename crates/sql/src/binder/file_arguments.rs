//! Arguments of functions that read files: literals, and expressions whose values are known before there are rows.

use diligence_base::{Error, Result};
use sqlparser::ast::{BinaryOperator, Expr, FunctionArg, FunctionArgExpr};

use super::scope::Level;
use super::{Binder, place, placed};
use crate::external::OptionValue;

impl Binder<'_> {
    /// An argument of a function that reads files: `name = value`, with `:=` or `=>` as well, or a value alone. Fails
    /// with 42601 if nothing is known of its value, and where computing it fails.
    pub(super) fn file_argument(
        &self,
        argument: &FunctionArg,
        level: &Level<'_>,
    ) -> Result<(Option<String>, OptionValue)> {
        let value_of = |expression: &Expr| match OptionValue::of(expression) {
            Some(value) => Ok(value),
            None => self.value_before_rows(expression, level).map_err(|error| placed(error, || place(expression))),
        };
        match argument {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                Ok((Some(name.value.to_lowercase()), value_of(value)?))
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })) => {
                match left.as_ref() {
                    Expr::Identifier(name) => Ok((Some(name.value.to_lowercase()), value_of(right)?)),
                    other => Err(Error::input(format!("{other} is no name of an option")).with_code("42601")),
                }
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Ok((None, value_of(value)?)),
            other => Err(Error::input(format!("{other} is no option of files")).with_code("42601")),
        }
    }

    /// The value of an expression without columns, or its values if it is a list: `'data/' || getvariable('name')`.
    fn value_before_rows(&self, expression: &Expr, level: &Level<'_>) -> Result<OptionValue> {
        let unknown = |why: &str| {
            let message = format!("{expression} is {why}; options of files are literals, or computed of literals");
            Error::input(message).with_code("42601")
        };
        let is_computed = matches!(
            expression,
            Expr::Function(_) | Expr::BinaryOp { .. } | Expr::Nested(_) | Expr::Cast { .. } | Expr::Array(_)
        ) || matches!(expression, Expr::CompoundFieldAccess { .. } | Expr::Case { .. });
        if !is_computed {
            return Err(unknown("no literal"));
        }
        let is_list = self.typed_scalar(expression, level)?.sql_type().element().is_some();
        let text = match is_list {
            true => format!("SELECT \"value\"::text FROM unnest({expression}) AS \"values\"(\"value\")"),
            false => format!("SELECT ({expression})::text"),
        };
        let rows = self.context.texts_of(&crate::parse::query(&text)?)?;
        let values = rows.into_iter().filter_map(|row| row.into_iter().next());
        let values = values.map(|value| value.map(OptionValue::One)).collect::<Option<Vec<_>>>();
        match values {
            Some(values) if is_list => Ok(OptionValue::List(values)),
            Some(values) => values.into_iter().next().ok_or_else(|| Error::bug("a row has a value")),
            None => Err(unknown("NULL")),
        }
    }
}
