//! Aggregates with OVER that the engine computes of groups only: `mode(x) OVER w`, `quantile_cont(x, 0.5) OVER w`,
//! `max_by(x, y) OVER w`, and any with an ORDER BY of its own. They are aggregates of the array of the frame's values,
//! so each row holds the values of its frame while it is computed.

use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use diligence_types::functions::aggregates;
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, OrderByExpr,
};

use super::Binder;
use super::aggregates::{is_of_nested, is_other_form};
use super::functions::{is_distinct, written};
use super::scope::Level;
use super::windows::{ignores_nulls, is_window_function};
use crate::algebra::Scalar;
use crate::quoting::quoted;
use crate::walking::each_expression;

/// The place of a value among those that the array has, as it is written of an element.
fn field(place: usize, count: usize) -> String {
    match count {
        1 => "\"element\"".to_owned(),
        _ => format!("(\"element\").f{}", place + 1),
    }
}

/// Whether an expression is the same for all rows.
fn is_known(expression: &Expr) -> bool {
    let found = each_expression(expression, |part| match part {
        Expr::Value(_) | Expr::Array(_) | Expr::Cast { .. } | Expr::Nested(_) | Expr::UnaryOp { .. } => {
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Break(()),
    });
    found.is_continue()
}

/// The ORDER BY among the arguments.
fn own_order(function: &Function) -> &[OrderByExpr] {
    let FunctionArguments::List(list) = &function.args else { return &[] };
    let order = list.clauses.iter().find_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(keys) => Some(keys.as_slice()),
        _ => None,
    });
    order.unwrap_or_default()
}

impl Binder<'_> {
    /// One of these; `None` for aggregates that the engine computes of windows.
    pub(super) fn of_frame(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Option<Scalar>> {
        let order = own_order(function);
        let is_of_groups = is_other_form(name) && !matches!(name, "any_value" | "list");
        let is_ordered = !order.is_empty() && (is_other_form(name) || !aggregates(name).is_empty());
        if !order.is_empty() && !is_ordered && is_window_function(name) {
            let error = Error::unsupported(format!("an ORDER BY of its own is not supported for {name}"));
            return Err(error.with_code("0A000").with_hint("OVER (… ORDER BY …) says the order of the rows"));
        }
        let is_framed = is_of_groups || is_ordered || self.has_nested_extremes_of(name, function, level)?;
        if !function.within_group.is_empty() || !is_framed {
            return Ok(None);
        }
        let arguments = written(function).iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
            _ => None,
        });
        let Some(arguments) = arguments.collect::<Option<Vec<_>>>().filter(|arguments| !arguments.is_empty()) else {
            return Ok(None);
        };
        // What the array has: the arguments and keys that differ from row to row.
        let keys = order.iter().map(|key| &key.expr);
        let mut values = Vec::<&Expr>::new();
        for value in arguments.iter().copied().chain(keys) {
            if !is_known(value) && !values.contains(&value) {
                values.push(value);
            }
        }
        if values.is_empty() {
            values.push(arguments[0]);
        }
        let count = values.len();
        let of_element = |value: &Expr| match values.iter().position(|known| *known == value) {
            Some(place) => field(place, count),
            None => value.to_string(),
        };
        let taken = arguments.iter().copied().map(&of_element).collect::<Vec<_>>().join(", ");
        let order = order.iter().map(|key| format!("{}{}", of_element(&key.expr), key.options));
        let order = match order.collect::<Vec<_>>() {
            keys if keys.is_empty() => String::new(),
            keys => format!(" ORDER BY {}", keys.join(", ")),
        };
        let distinct = if is_distinct(function) { "DISTINCT " } else { "" };
        let filter = match ignores_nulls(function) {
            true => format!(" FILTER (WHERE {} IS NOT NULL)", of_element(arguments[0])),
            false => String::new(),
        };
        let aggregate = format!("{}({distinct}{taken}{order}){filter}", quoted(name));
        let array = self.scalar(&Expr::Function(array_of(function, &values)?), level)?;
        self.aggregate_of_elements(&aggregate, array, level).map(Some)
    }
}

impl Binder<'_> {
    /// Whether a call is `min` or `max` of arrays of arrays or of records.
    fn has_nested_extremes_of(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<bool> {
        if !matches!(name, "min" | "max") {
            return Ok(false);
        }
        match written(function) {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] => {
                Ok(is_of_nested(&self.scalar(value, level)?.sql_type()))
            }
            _ => Ok(false),
        }
    }
}

/// `array_agg` of these values, or of rows of several, over the window of a function and of the rows of its FILTER.
fn array_of(function: &Function, values: &[&Expr]) -> Result<Function> {
    let value = match values {
        [value] => value.to_string(),
        values => format!("ROW({})", values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    };
    let Expr::Function(mut array) = crate::parse::expression(&format!("array_agg({value})"))? else {
        return Err(Error::bug("a call is one"));
    };
    array.over.clone_from(&function.over);
    array.filter.clone_from(&function.filter);
    Ok(array)
}
