//! Aggregates that statements make of functions (CREATE AGGREGATE). Where processes compute the function of a step and
//! that which makes one state of two (COMBINEFUNC), they make partial states of the rows ([`partial_states`]). Of all
//! others the rows of a group become an array, and the function of a step makes a value of its state so far and each of
//! its elements.
//!
//! [`partial_states`]: crate::partial_states

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use datafusion_common::ScalarValue;
use datafusion_expr::Volatility;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;
use diligence_types::SqlType;
use diligence_types::coercion::{CastOptions, cast_array};
use diligence_types::functions::{AggregateCall, aggregates};
use diligence_types::values::value_at;
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value,
};

use super::Binder;
use super::aggregates::Call;
use super::scope::Level;
use super::syntax::{bare_name, written};
use crate::algebra::{AggregateItem, Constant, MadeAggregate, Scalar};
use crate::parse::{COMBINE, FOLD, expression, lower};
use crate::programs::{Carried, CombinedCall, Program};
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
    /// The function that makes one state of two.
    combine: Option<String>,
}

/// A function that a process computes, for a call.
struct InProcess {
    definition: Definition,
    program: Arc<Program>,
    /// The arguments of the call, in order.
    arguments: Vec<Expr>,
}

impl Fold {
    /// What a macro's body says, and what the aggregate is called with.
    fn of(body: &Expr) -> Option<(Self, Vec<Expr>)> {
        let Expr::Function(call) = body else { return None };
        if bare_name(call) != FOLD {
            return None;
        }
        let mut combine = None;
        let values = written(call).iter().filter(|argument| match argument {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(Expr::Value(value)), .. } => {
                if let (COMBINE, Value::SingleQuotedString(text)) = (lower(name).as_str(), &value.value) {
                    combine = Some(text.clone());
                }
                false
            }
            _ => true,
        });
        let values = values.map(|argument| match argument {
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
        Some((Self { step, state, first, last, combine }, values.collect()))
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
pub(crate) fn is_fold(definition: &Definition) -> bool {
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
        if let Some(value) = self.in_processes(definition, &fold, &values, function, level)? {
            return Ok(value);
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

    /// The aggregate of functions that processes compute; `None` if that is not what they are, or if the call says in
    /// which order, how often or over which rows of a window it sees rows.
    fn in_processes(
        &self,
        aggregate: &Definition,
        fold: &Fold,
        values: &[Expr],
        function: &Function,
        level: &Level<'_>,
    ) -> Result<Option<Scalar>> {
        let Some(combine) = &fold.combine else { return Ok(None) };
        if values.is_empty() || !is_plain(function) {
            return Ok(None);
        }
        let Expr::Cast { data_type, .. } = expression(&format!("CAST(NULL AS {})", fold.state))? else {
            return Ok(None);
        };
        let state = self.sql_type(&data_type)?;
        if matches!(state, SqlType::Domain(_)) {
            return Ok(None);
        }
        let nothing = expression(&format!("CAST(NULL AS {})", fold.state))?;
        let given = [nothing.clone()].into_iter().chain(values.iter().cloned()).collect();
        let Some(step) = self.in_process(&fold.step, given, &state, 1, level)? else { return Ok(None) };
        let given = vec![nothing.clone(), nothing];
        let Some(combine) = self.in_process(combine, given, &state, 2, level)? else { return Ok(None) };
        let step_call = self.program_call(&step.definition, &step.program)?;
        let combine_call = self.program_call(&combine.definition, &combine.program)?;
        let (Some(form), true) = (step_call.steps_form(), combine_call.is_of_process()) else { return Ok(None) };
        // Arrays and rows are no states that are handed on: they come back in another form, or are no values of steps.
        let parameters = [&step_call, &combine_call].into_iter().flat_map(|call| &call.parameters);
        if parameters
            .map(|(_, carried)| carried)
            .chain([&step_call.returns])
            .any(|carried| !carried.goes_through_steps())
        {
            return Ok(None);
        }
        let carried = step_call.returns.clone();
        let is_state = |other: &Carried| other.is_alike(&carried);
        let are_states = [&combine_call.returns, &combine_call.parameters[0].1, &combine_call.parameters[1].1];
        let first = first_of(fold, &state, &carried)?;
        let begins_with_value = first.1.is_none() && step_call.passes_over_nulls();
        if !are_states.into_iter().all(is_state) || begins_with_value && !is_state(&step_call.parameters[1].1) {
            return Ok(None);
        }
        let mut call = function.clone();
        let FunctionArguments::List(list) = &mut call.args else { return Ok(None) };
        let arguments = step.arguments.iter().zip(&step.definition.parameters).skip(1);
        let arguments = arguments.map(|(argument, parameter)| parameter.cast(argument));
        list.args = arguments.map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
        let (target, _, parts) = self.aggregate_at(FOLD, &call, level)?;
        let Call { arguments, filter, .. } = parts;
        let types = step_call.parameters.iter().skip(1).map(|(_, carried)| carried.sql_type.clone());
        let types = types.collect::<Vec<_>>();
        let arguments = arguments.into_iter().zip(&types).map(|(argument, sent)| argument.cast(sent.clone(), true));
        let arguments = arguments.collect();
        if [&step, &combine].iter().any(|made| made.program.volatility != Volatility::Immutable) {
            self.is_transient.set(true);
        }
        let none = Constant { value: first.0.clone(), sql_type: carried.sql_type.clone() };
        let name = &aggregate.name;
        let made = CombinedCall { name, step: step_call, form, combine: combine_call, first };
        let made = MadeAggregate { name: name.clone(), function: self.context.combined_program(&made)?, first: none };
        // It says nothing where an aggregate was made by a statement.
        let overload = aggregates("regr_sxy").first().ok_or_else(|| Error::bug("an aggregate is not known"))?;
        let call = AggregateCall { overload, arguments: types, returns: carried.sql_type };
        let item = AggregateItem { call, arguments, is_distinct: false, filter, order: vec![], made: Some(made) };
        let value = self.placed_for(level, target, item, true).cast(state, true);
        match &fold.last {
            None => Ok(Some(value)),
            Some(last) => {
                let body = expression(&format!("{last}($1)"))?;
                self.with_template(vec![value], || self.typed_scalar(&body, level)).map(Some)
            }
        }
    }

    /// The function of a name that takes these arguments, the first of which are states, and gives a state, if a
    /// process computes it.
    fn in_process(
        &self,
        name: &str,
        given: Vec<Expr>,
        state: &SqlType,
        states: usize,
        level: &Level<'_>,
    ) -> Result<Option<InProcess>> {
        let Expr::Function(call) = expression(&format!("{name}()"))? else { return Ok(None) };
        let routines = self.context.routines(&call.name)?;
        if routines.is_empty() || !routines.iter().all(|routine| matches!(routine.body, Body::Program(_))) {
            return Ok(None);
        }
        let count = given.len();
        let given = given.into_iter().map(|argument| (None, argument)).collect();
        let (definition, arguments) = self.routine_for(name, routines, &given, level)?;
        let Body::Program(program) = &definition.body else { return Ok(None) };
        if definition.gives_rows || definition.parameters.len() != count {
            return Ok(None);
        }
        let of_states = definition.parameters.iter().take(states).map(|parameter| parameter.data_type.as_ref());
        for data_type in of_states.chain([definition.returns.as_ref()]) {
            match data_type {
                Some(data_type) if self.sql_type(data_type)? == *state => {}
                _ => return Ok(None),
            }
        }
        let program = program.clone();
        Ok(Some(InProcess { definition, program, arguments }))
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

/// Whether a call says nothing but its arguments and FILTER.
fn is_plain(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
        && function.over.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
}

/// The state of no rows: as it is sent to processes, and as SQL shows it unless it is NULL. Fails as a literal of the
/// state's type does.
fn first_of(fold: &Fold, state: &SqlType, carried: &Carried) -> Result<(ScalarValue, Option<String>)> {
    let options = CastOptions { zone: "UTC".to_owned(), is_explicit: true, is_try: false };
    let Some(first) = &fold.first else {
        let nothing = ScalarValue::try_new_null(&carried.sql_type.arrow()).map_err(from_datafusion)?;
        return Ok((nothing, None));
    };
    let text: ArrayRef = Arc::new(StringViewArray::from(vec![Some(first.as_str())]));
    let value = cast_array(&text, &SqlType::Text, state, &options)?;
    let shown = cast_array(&value, state, &SqlType::Text, &options)?;
    let sent = cast_array(&value, state, &carried.sql_type, &options)?;
    let shown = shown.as_string_view_opt().map(|shown| shown.value(0).to_owned());
    let shown = shown.ok_or_else(|| Error::bug("a text is none"))?;
    Ok((value_at(&sent, 0).map_err(from_datafusion)?, Some(shown)))
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
