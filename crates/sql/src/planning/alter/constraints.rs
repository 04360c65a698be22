//! ALTER TABLE … ALTER CONSTRAINT.

use diligence_base::{Error, Result};
use diligence_catalog::RelationName;
use diligence_catalog::rules::Deferral;

use super::{Altered, no_constraint};

/// ALTER CONSTRAINT: when a reference holds, in front of its name. Fails with 42704 if there is no such constraint, and
/// with 42809 if it is no reference.
pub(super) fn alter(altered: &mut Altered, said: &str, table: &RelationName) -> Result<()> {
    let (deferral, name) = said.split_once(' ').ok_or_else(|| Error::bug("a constraint without a name"))?;
    let deferral = match deferral {
        "deferred" => Deferral::Deferred,
        "immediate" => Deferral::Immediate,
        "never" => Deferral::Never,
        _ => {
            let error = Error::input("constraint declared INITIALLY DEFERRED must be DEFERRABLE");
            return Err(error.with_code("42601"));
        }
    };
    let rules = &mut altered.declaration.rules;
    if !rules.has_name(name) {
        return Err(no_constraint(name, table));
    }
    let Some(reference) = rules.references.iter_mut().find(|reference| reference.name == name) else {
        let message = format!("constraint \"{name}\" of relation \"{}\" is not a foreign key constraint", table.name);
        return Err(Error::input(message).with_code("42809"));
    };
    reference.deferral = deferral;
    Ok(())
}
