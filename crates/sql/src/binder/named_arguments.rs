//! Arguments with names in front of them: `make_interval(days => 10)`, `jsonb_set(a, b, c, create_if_missing =>
//! false)`.

use diligence_base::{Error, Result};
use diligence_types::functions::argument_names;
use sqlparser::ast::FunctionArg;

use super::literals::unknown;
use super::scope::Level;
use super::{Binder, normalized};
use crate::algebra::{Constant, Scalar};

impl Binder<'_> {
    /// Arguments of which some have names, in the function's order. Fails with 42883 for a name that it does not have,
    /// and with 42601 for one that is given twice.
    pub(super) fn named_arguments(
        &self,
        name: &str,
        arguments: &[FunctionArg],
        level: &Level<'_>,
    ) -> Result<Vec<Scalar>> {
        let names = argument_names(name);
        let none = |argument: &dyn std::fmt::Display| {
            Error::input(format!("{name} has no argument {argument}")).with_code("42883")
        };
        let mut places = std::iter::repeat_with(|| None).take(names.len()).collect::<Vec<Option<Scalar>>>();
        for (position, argument) in arguments.iter().enumerate() {
            let (place, value) = match argument {
                FunctionArg::Unnamed(value) => (Some(position), value),
                FunctionArg::Named { name, arg, .. } => {
                    (names.iter().position(|known| *known == normalized(name)), arg)
                }
                FunctionArg::ExprNamed { arg, .. } => (None, arg),
            };
            let place = place.filter(|place| *place < names.len()).ok_or_else(|| none(argument))?;
            if places[place].replace(self.argument(value, level)?).is_some() {
                let message = format!("argument name \"{}\" used more than once", names[place]);
                return Err(Error::input(message).with_code("42601"));
            }
        }
        while matches!(places.last(), Some(None)) {
            places.pop();
        }
        let given = |(place, value): (usize, Option<Scalar>)| {
            value.or_else(|| default_of(names[place])).ok_or_else(|| none(&format!("for {}", names[place])))
        };
        places.into_iter().enumerate().map(given).collect()
    }
}

/// What an argument is that is left out in front of others; `None` if it has to be given.
fn default_of(argument: &str) -> Option<Scalar> {
    Some(Scalar::Constant(match argument {
        "years" | "months" | "weeks" | "days" | "hours" | "mins" => Constant::integer(0),
        "vars" => unknown("{}"),
        "silent" | "insert_after" => Constant::boolean(false),
        "create_if_missing" | "strict" => Constant::boolean(true),
        _ => return None,
    }))
}
