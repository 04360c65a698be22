//! What routines the name of a call means.

use diligence_base::Result;
use diligence_catalog::authority::Privilege;
use diligence_catalog::{CATALOG_NAME, Relation, RelationName};
use sqlparser::ast;

use super::Planner;
use super::around::{Around, parts_of};
use crate::routines::{Body, Definition};

impl Planner {
    /// Has processes started for the functions of the catalog that are programs, before one of them is called. Fails as
    /// the system refuses threads.
    pub fn prime_programs(&self) -> Result<()> {
        let snapshot = self.catalogs.catalog().snapshot();
        for object in snapshot.all_objects() {
            let Relation::Routine(routine) = &object.relation else { continue };
            // What does not make sense any more is said when it is called.
            for definition in Definition::all_of(&routine.source).unwrap_or_default() {
                if let Body::Program(program) = &definition.body {
                    self.options.pool.prime(program.form.runtime(), &program.limits)?;
                }
            }
        }
        Ok(())
    }
}

impl Around<'_> {
    /// The functions, procedures and macros that a name means: those of the first schema of the path that has one.
    /// Fails with 42501 if one may not be used.
    pub(super) fn found_routines(&self, name: &ast::ObjectName) -> Result<Vec<Definition>> {
        let Some(parts) = parts_of(name) else { return Ok(vec![]) };
        let (schemas, name) = match parts.as_slice() {
            [name] => (self.schemas(), name),
            [schema, name] => (vec![schema.clone()], name),
            [catalog, schema, name] if catalog == CATALOG_NAME => (vec![schema.clone()], name),
            _ => return Ok(vec![]),
        };
        let mut found = self.planner.options.closures.named(name);
        if !found.is_empty() {
            // Another may be registered before the next statement.
            self.names.not_reusable();
            return Ok(found);
        }
        for schema in schemas {
            for object in self.at.snapshot.catalog.routines(&schema, name) {
                let Relation::Routine(routine) = &object.relation else { continue };
                if self.without_routine.borrow().as_ref() == Some(&object.name) {
                    continue;
                }
                if self.behind().is_none() && !self.at.snapshot.rights.may_use(&object.name) {
                    self.at.snapshot.rights.check(&object.name, Privilege::Execute)?;
                }
                self.names.uses_object(&object.name, object);
                let made = Definition::all_of(&routine.source)?;
                found.extend(made.into_iter().map(|made| Definition { acts_as: self.owner_acting(object), ..made }));
            }
            if !found.is_empty() {
                break;
            }
            // A macro of the session that is made later comes before what is found now.
            let here = RelationName::of_routine(&schema, name, None);
            if here.is_temporary() {
                self.names.uses_nothing(&here);
            }
        }
        Ok(found)
    }
}
