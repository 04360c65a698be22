//! Aggregates that statements make of functions (CREATE AGGREGATE): the rows of a group become an array, and the
//! function of a step makes a value of its state so far and each of its elements.

use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value,
};

use super::Binder;
use super::functions::{bare_name, written};
use super::scope::Level;
use crate::algebra::Scalar;
use crate::parse::{FOLD, expression};
use crate::quoting::literal;
use crate::routines::{Body, Definition};
use crate::walking::each_expression_mut;

/// What stands for the array of a group's rows in the text that is made here.
const GROUP: &str = "fold group";
/// PostgreSQL's functions of numbers and texts that are operators here.
const OPERATORS: [(&str, &str); 13] = [
    ("float4pl", "+"),
    ("float8pl", "+"),
    ("int2pl", "+"),
    ("int4pl", "+"),
    ("int8pl", "+"),
    ("numeric_add", "+"),
    ("interval_pl", "+"),
    ("float8mul", "*"),
    ("int4mul", "*"),
    ("int8mul", "*"),
    ("numeric_mul", "*"),
    ("textcat", "||"),
    ("jsonb_concat", "||"),
];
/// Functions that take a NULL as a value.
const LENIENT: [&str; 5] = ["array_append", "array_cat", "array_prepend", "concat", "concat_ws"];

/// What such an aggregate does.
struct Fold {
    /// The function that makes a state of one and a row's values.
    step: String,
    /// The state's type.
    state: String,
    /// The first state, as a text.
    first: Option<String>,
    /// The function that makes the result of the last state.
    last: Option<String>,
}

impl Fold {
    /// What a macro's body says, and what the aggregate is called with.
    fn of(body: &Expr) -> Option<(Self, Vec<Expr>)> {
        let Expr::Function(call) = body else { return None };
        if bare_name(call) != FOLD {
            return None;
        }
        let values = written(call).iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
            _ => None,
        });
        let mut values = values.collect::<Option<Vec<_>>>()?.into_iter();
        let mut told = || match values.next() {
            Some(Expr::Value(value)) => match value.value {
                Value::SingleQuotedString(text) => Some(Some(text)),
                Value::Null => Some(None),
                _ => None,
            },
            _ => None,
        };
        let (step, state, first, last) = (told()??, told()??, told()?, told()?);
        Some((Self { step, state, first, last }, values.collect()))
    }

    /// The state that a value is.
    fn as_state(&self, value: &str) -> String {
        format!("CAST({value} AS {})", self.state)
    }

    fn first_state(&self) -> String {
        self.as_state(&self.first.as_deref().map_or_else(|| "NULL".to_owned(), literal))
    }

    /// The state behind a row, whose values have the names `f1`, `f2`, ….
    fn step(&self, values: usize, is_strict: bool) -> String {
        let values = (1..=values).map(|number| format!("(r).f{number}")).collect::<Vec<_>>();
        let operator = OPERATORS.iter().find(|(name, _)| self.step.eq_ignore_ascii_case(name));
        let step = match (operator, values.as_slice()) {
            (Some((_, sign)), [value]) => format!("s {sign} {value}"),
            _ => {
                let arguments = ["s".to_owned()].into_iter().chain(values.iter().cloned());
                format!("{}({})", self.step, arguments.collect::<Vec<_>>().join(", "))
            }
        };
        // Without a first state, the first value is the first state.
        match values.as_slice() {
            [value, ..] if is_strict && self.first.is_none() => {
                self.as_state(&format!("CASE WHEN s IS NULL THEN {value} ELSE {step} END"))
            }
            _ => self.as_state(&step),
        }
    }
}

/// Whether a routine is an aggregate that a statement made of functions.
pub(super) fn is_fold(definition: &Definition) -> bool {
    definition.is_macro && matches!(&definition.body, Body::Value(value) if Fold::of(value).is_some())
}

impl Binder<'_> {
    /// A call of such an aggregate, with what it says of DISTINCT, ORDER BY, FILTER and OVER. Fails with 42883 for
    /// another number of arguments, and with 0A000 for a state whose type the arguments decide.
    pub(super) fn fold(&self, definition: &Definition, function: &Function, level: &Level<'_>) -> Result<Scalar> {
        let name = &definition.name;
        let none = || Error::input(format!("no aggregate {name} takes such arguments")).with_code("42883");
        let arguments = written(function).iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(Some(value.clone())),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => Some(None),
            _ => None,
        });
        let arguments = arguments.collect::<Option<Vec<_>>>().ok_or_else(none)?;
        let arguments = arguments.into_iter().flatten().collect::<Vec<_>>();
        if arguments.len() != definition.parameters.len() {
            return Err(none());
        }
        let Body::Value(body) = definition.with_arguments(&arguments) else { return Err(none()) };
        let (fold, values) = Fold::of(&body).ok_or_else(none)?;
        if fold.state.to_lowercase().starts_with("any") {
            let message = format!("an aggregate whose state is {} is not supported", fold.state);
            let hint = "make one for each type: STYPE = integer[]";
            return Err(Error::unsupported(message).with_code("0A000").with_hint(hint));
        }
        let is_strict = self.is_strict_step(&fold.step)?;
        let group = group_of(function, &values, is_strict)?;
        let (first, step) = (fold.first_state(), fold.step(values.len(), is_strict));
        let reduced = format!("list_reduce(\"{GROUP}\", (s, r) -> {step}, {first})");
        let mut text = format!("CASE WHEN \"{GROUP}\" IS NULL THEN {first} ELSE {reduced} END");
        if let Some(last) = &fold.last {
            text = format!("{last}({text})");
        }
        let mut value = expression(&text)?;
        // It breaks nowhere.
        let _ = each_expression_mut(&mut value, |expression| {
            if matches!(expression, Expr::Identifier(name) if name.value == GROUP) {
                *expression = Expr::Function(group.clone());
            }
            ControlFlow::Continue(())
        });
        self.typed_scalar(&value, level)
    }

    /// Whether a step leaves the state as it is where a value is NULL.
    fn is_strict_step(&self, step: &str) -> Result<bool> {
        let Expr::Function(call) = expression(&format!("{step}()"))? else { return Ok(false) };
        let made = self.context.routines(&call.name)?;
        Ok(match made.is_empty() {
            true => !LENIENT.contains(&bare_name(&call).as_str()),
            false => made.iter().any(|routine| routine.is_strict),
        })
    }
}

/// The array of a group's rows: those without NULLs, if NULLs do not count.
fn group_of(function: &Function, values: &[Expr], is_strict: bool) -> Result<Function> {
    let is_there = |value: &Expr| Expr::IsNotNull(Box::new(Expr::Nested(Box::new(value.clone()))));
    let both = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    };
    let mut group = function.clone();
    group.name = ObjectName::from(vec![Ident::new("array_agg")]);
    if let Some(are_there) = values.iter().map(is_there).reduce(both).filter(|_| is_strict) {
        let filter = group.filter.take().map(Expr::Nested);
        group.filter = Some(Box::new(filter.into_iter().fold(are_there, both)));
    }
    let Expr::Function(mut row) = expression("ROW(1)")? else { return Err(Error::bug("a row is no call")) };
    let (FunctionArguments::List(list), FunctionArguments::List(of_row)) = (&mut group.args, &mut row.args) else {
        return Err(Error::bug("a call without arguments"));
    };
    if !values.is_empty() {
        let value = |value: &Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(value.clone()));
        of_row.args = values.iter().map(value).collect();
    }
    list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(row)))];
    Ok(group)
}
