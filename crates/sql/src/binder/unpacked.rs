//! `unnest(x, recursive := true)` and `unnest(x, max_depth := n)` in a SELECT list: lists in lists become rows, and
//! structs columns.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Ident, Value};

use super::scope::{Item, Level};
use super::select_list::UNNEST;
use super::syntax::{bare_name, written};
use super::{Binder, normalized, unsupported};
use crate::algebra::Scalar;

impl Binder<'_> {
    /// The items of such a call; false if it is none. Fails with 42601 for a depth that is no literal.
    pub(super) fn unpacked<'e>(
        &self,
        items: &mut Vec<Item<'e>>,
        expression: &'e Expr,
        level: &Level<'_>,
    ) -> Result<bool> {
        let Expr::Function(function) = expression else { return Ok(false) };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)), depth] = written(function) else {
            return Ok(false);
        };
        if bare_name(function) != UNNEST || function.over.is_some() {
            return Ok(false);
        }
        let (name, value) = match depth {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(Expr::Value(value)), .. } => {
                (normalized(name), value)
            }
            _ => return Ok(false),
        };
        let depth = match (name.as_str(), &value.value) {
            ("recursive", Value::Boolean(true)) => usize::MAX,
            ("recursive", Value::Boolean(false)) => 1,
            ("max_depth", Value::Number(depth, _)) => depth.parse().unwrap_or(usize::MAX),
            _ => {
                let error = Error::input("unnest takes recursive := true or max_depth := a number").with_code("42601");
                return Err(error);
            }
        };
        let mut array = self.typed_scalar(argument, level)?;
        let mut left = depth;
        while left > 1 && array.sql_type().element().is_some_and(|element| element.element().is_some()) {
            array = self.call("flatten", vec![array])?;
            left -= 1;
        }
        if name == "max_depth" && array.sql_type().element().is_some_and(|element| element.element().is_some()) {
            let error = unsupported("max_depth := n of lists that nest deeper");
            return Err(error.with_hint("unnest(x) takes lists in lists apart, as PostgreSQL takes arrays"));
        }
        let row = match array.sql_type() {
            SqlType::Record(_) => array,
            _ => {
                left = left.saturating_sub(1);
                self.named_call(UNNEST, vec![array], level)?
            }
        };
        self.unpack(items, UNNEST.to_owned(), row, left, expression)?;
        Ok(true)
    }

    fn unpack<'e>(
        &self,
        items: &mut Vec<Item<'e>>,
        name: String,
        value: Scalar,
        left: usize,
        expression: &'e Expr,
    ) -> Result<()> {
        match value.sql_type() {
            SqlType::Record(fields) if left > 0 => {
                for field in fields.iter() {
                    let own = self.field(value.clone(), &Ident::with_quote('"', &field.name))?;
                    self.unpack(items, field.name.clone(), own, left - 1, expression)?;
                }
            }
            _ => items.push(Item { name, scalar: value, expression: Some(expression) }),
        }
        Ok(())
    }
}
