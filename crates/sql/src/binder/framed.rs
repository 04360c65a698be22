//! Aggregates with OVER that are made of all rows of a frame: `mode(x) OVER w`, `quantile_cont(x, 0.5) OVER w`,
//! `max_by(x, y) OVER w`, and any with an ORDER BY of its own. A frame of a whole partition is computed once; where
//! frames grow, their rows are kept, and computed anew for each.

use std::cell::RefCell;

use diligence_base::{Error, Result};
use diligence_types::functions::aggregates;
use sqlparser::ast::{Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments};

use super::Binder;
use super::aggregates::{Call, is_of_nested, is_other_form};
use super::scope::Level;
use super::syntax::written;
use super::windows::{ignores_nulls, is_window_function};
use crate::algebra::{AggregateItem, Scalar};

/// Whether the arguments have an ORDER BY.
fn has_order(function: &Function) -> bool {
    matches!(&function.args, FunctionArguments::List(list)
        if list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_))))
}

/// The call without IGNORE NULLS.
fn with_nulls(function: &Function) -> Function {
    let mut plain = function.clone();
    plain.null_treatment = None;
    if let FunctionArguments::List(list) = &mut plain.args {
        list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_)));
    }
    plain
}

impl Binder<'_> {
    /// One of these; `None` for other aggregates.
    pub(super) fn of_frame(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Option<Scalar>> {
        let has_order = has_order(function);
        let is_of_groups = is_other_form(name) && !matches!(name, "any_value" | "list");
        let is_ordered = has_order && (is_other_form(name) || !aggregates(name).is_empty());
        if has_order && !is_ordered && is_window_function(name) {
            let error = Error::unsupported(format!("an ORDER BY of its own is not supported for {name}"));
            return Err(error.with_code("0A000").with_hint("OVER (… ORDER BY …) says the order of the rows"));
        }
        let is_framed = is_of_groups || is_ordered || self.has_nested_extremes_of(name, function, level)?;
        if !function.within_group.is_empty() || !is_framed || written(function).is_empty() {
            return Ok(None);
        }
        if !written(function).iter().all(|argument| matches!(argument, FunctionArg::Unnamed(_))) {
            return Ok(None);
        }
        let Some(over) = &function.over else { return Err(Error::bug("a window function without OVER")) };
        let was = level.in_window.replace(true);
        let bound = self.over(over, level).and_then(|over| Ok((over, self.frame_call(name, function, level)?)));
        level.in_window.set(was);
        let (over, parts) = bound?;
        let over = RefCell::new(over);
        let place = |item: AggregateItem, nullable| self.put_aggregate(&over, item, nullable, level);
        self.aggregate_of_rows(name, parts, &place).map(Some)
    }

    /// What is bound of such a call. IGNORE NULLS is a condition for the first argument.
    fn frame_call(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Call> {
        if !ignores_nulls(function) {
            return self.aggregate_parts(name, function, level);
        }
        let mut parts = self.aggregate_parts(name, &with_nulls(function), level)?;
        if let Some(first) = parts.arguments.first() {
            let is_there = Scalar::IsNull(Box::new(first.clone())).negate();
            parts.filter = Some(Scalar::all([is_there].into_iter().chain(parts.filter.take())));
        }
        Ok(parts)
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
