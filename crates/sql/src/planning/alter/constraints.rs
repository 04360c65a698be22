//! ALTER TABLE … ALTER CONSTRAINT, and what DROP CONSTRAINT takes along.

use diligence_base::{Error, Result};
use diligence_catalog::authority::Topic;
use diligence_catalog::rules::{Deferral, Key, Reference};
use diligence_catalog::{Object, Relation, RelationName, TableAlteration};

use super::{Altered, Around, no_constraint};
use crate::statement::Command;

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

impl Around<'_> {
    /// Has the references to a key go that is dropped. Fails with code 2BP01 if there are any and CASCADE is not said.
    pub(super) fn drop_referring(
        &self,
        altered: &mut Altered,
        key: &Key,
        is_cascade: bool,
        object: &Object,
    ) -> Result<()> {
        // Another key of the same columns takes its place.
        let others = altered.declaration.rules.keys.iter().filter(|other| other.name != key.name);
        let others = others.cloned().collect::<Vec<_>>();
        let refers = |reference: &Reference| {
            let is_kept = others.iter().any(|other| other.refers_to(&reference.referred));
            reference.table == object.id && key.refers_to(&reference.referred) && !is_kept
        };
        let mut depending = Vec::new();
        for other in self.at.snapshot.catalog.objects() {
            let Relation::Native(rows) = &other.relation else { continue };
            let is_own = other.id == object.id;
            let references = if is_own { &altered.declaration.rules.references } else { &rows.rules().references };
            let found = references.iter().filter(|reference| refers(reference)).map(|reference| reference.name.clone());
            let found = found.collect::<Vec<_>>();
            let told =
                |name: &String| format!("constraint {name} on table {} depends on index {}", other.name.name, key.name);
            depending.extend(found.iter().map(told));
            if is_own {
                altered.declaration.rules.references.retain(|reference| !refers(reference));
            } else if !found.is_empty() {
                let mut rules = rows.rules().clone();
                rules.references.retain(|reference| !refers(reference));
                let unproven = std::mem::take(&mut rules.unproven);
                rules.unproven = unproven.into_iter().filter(|name| rules.has_name(name)).collect();
                let columns = rows.schema().clone();
                let places = (0..columns.fields().len()).map(Some).collect();
                altered.before.push(Command::Alter {
                    table: other.reference(),
                    built_on: other.version,
                    alteration: Box::new(TableAlteration { name: other.name.clone(), columns, places, rules }),
                    memory: self.planner.options.tables.clone(),
                    is_concurrent: false,
                    tag: "ALTER TABLE",
                });
                let constraint = |name: &String| self.forgotten(Topic::Constraint(other.id, name.clone()));
                altered.also.extend(found.iter().filter_map(constraint));
                altered.cut.extend(found.into_iter().map(|name| (other.name.clone(), name)));
            }
        }
        if depending.is_empty() || is_cascade {
            return Ok(());
        }
        let (name, table) = (&key.name, &object.name.name);
        let message = format!("cannot drop constraint {name} on table {table} because other objects depend on it");
        let error = Error::input(message).with_code("2BP01").with_detail(depending.join("\n"));
        Err(error.with_hint("Use DROP ... CASCADE to drop the dependent objects too."))
    }
}
