//! CREATE OR REPLACE of a function: what has to stay as it was, because what calls the function relies on it.

use diligence_base::{Error, Result};
use diligence_catalog::{Relation, RelationName};

use super::around::Around;
use crate::binder::is_fold;
use crate::routines::{Definition, RoutineParameter, type_name};

impl Around<'_> {
    /// Fails with 42P13 if a function is to be replaced by one that gives another type, calls its parameters by other
    /// names or has fewer defaults.
    pub(super) fn refuse_other_shape(&self, name: &RelationName, next: &Definition) -> Result<()> {
        let Some(object) = self.at.snapshot.catalog.get(name) else { return Ok(()) };
        let Relation::Routine(routine) = &object.relation else { return Ok(()) };
        let before = Definition::of(&routine.source)?;
        if [&before, next].into_iter().any(|one| one.is_macro || is_fold(one)) {
            return Ok(());
        }
        let kind = if next.is_procedure { "procedure" } else { "function" };
        let wrong = |message: String| {
            let shown = name.routine().unwrap_or(&name.name);
            let error = Error::input(message).with_code("42P13");
            Err(error.with_hint(format!("Use DROP {} {shown} first.", kind.to_uppercase())))
        };
        if gives(&before) != gives(next) {
            return wrong(format!("cannot change return type of existing {kind}"));
        }
        let renamed = before
            .parameters
            .iter()
            .zip(&next.parameters)
            .find(|(before, next)| !before.name.is_empty() && before.name != next.name);
        if let Some((before, _)) = renamed {
            return wrong(format!("cannot change name of input parameter \"{}\"", before.name));
        }
        let defaults =
            |parameters: &[RoutineParameter]| parameters.iter().filter(|parameter| parameter.default.is_some()).count();
        if defaults(&before.parameters) > defaults(&next.parameters) {
            return wrong(format!("cannot remove parameter defaults from existing {kind}"));
        }
        Ok(())
    }
}

/// What a function gives, as far as two are compared: whether any number of rows, the type, and the columns.
fn gives(definition: &Definition) -> (bool, bool, bool, Option<String>, Vec<(&str, String)>) {
    let columns = definition.columns.iter().map(|(name, given)| (name.as_str(), type_name(given)));
    let returns = definition.returns.as_ref().map(type_name);
    (definition.gives_rows, definition.is_record, definition.is_trigger, returns, columns.collect())
}
