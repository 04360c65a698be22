//! What is written like a call but is an expression of its own: a condition, a struct, an array with another element, a
//! fact that is known while the statement is bound.

mod conditionals;
mod elements;
mod facts;
mod structs;
mod texts;
mod times;

use diligence_base::{Error, Result};
use sqlparser::ast::{Function, FunctionArg};

use super::Binder;
use super::scope::Level;
use super::syntax::written;
use crate::algebra::Scalar;

impl Binder<'_> {
    /// What is written like a call but is an expression of its own; `None` for other names. Fails with 42883 if the
    /// arguments are not those that the name takes.
    pub(super) fn special(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Option<Scalar>> {
        let call = SpecialCall { binder: self, name, function, level };
        let themes = [
            SpecialCall::conditional,
            SpecialCall::of_structs,
            SpecialCall::of_elements,
            SpecialCall::of_texts,
            SpecialCall::of_times,
            SpecialCall::fact,
        ];
        for theme in themes {
            if let Some(scalar) = theme(&call)? {
                return Ok(Some(scalar));
            }
        }
        Ok(None)
    }
}

/// A call that may be special. Each theme gives its expression, or `None` if the name is none of its own.
struct SpecialCall<'c, 'b, 'l> {
    binder: &'c Binder<'b>,
    name: &'c str,
    function: &'c Function,
    level: &'c Level<'l>,
}

impl<'c> SpecialCall<'c, '_, '_> {
    /// The arguments as they are written.
    fn written(&self) -> &'c [FunctionArg] {
        written(self.function)
    }

    /// The arguments, bound.
    fn bound(&self) -> Result<Vec<Scalar>> {
        self.binder.arguments(self.name, self.written(), self.level)
    }

    /// As many arguments, bound. Fails with 42883 if there are more or fewer.
    fn exactly<const N: usize>(&self, wanted: &str) -> Result<[Scalar; N]> {
        self.bound()?.try_into().map_err(|_| self.wrong(wanted))
    }

    /// The error for other arguments than it takes.
    fn wrong(&self, wanted: &str) -> Error {
        Error::input(format!("{} takes {wanted}", self.name)).with_code("42883")
    }
}
