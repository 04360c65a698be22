//! ALTER SYSTEM, ALTER ROLE ALL and ALTER DATABASE … SET: what all sessions begin with.

use diligence_base::{Error, Result};
use diligence_catalog::CATALOG_NAME;
use diligence_catalog::authority::RoleChange;
use diligence_catalog::rights::DENIED;

use super::roles::change;
use super::words::Words;
use crate::planning::around::Around;
use crate::statement::{Maintenance, Statement};

impl Around<'_> {
    /// ALTER SYSTEM. Fails with 42501 if the session may not.
    pub(super) fn alter_system(&self, words: &mut Words) -> Result<Statement> {
        let (setting, value) = words.setting_change()?;
        words.end()?;
        if !self.speaker().is_superuser {
            let message = match &setting {
                Some(setting) => format!("permission denied to set parameter \"{setting}\""),
                None => "permission denied to perform ALTER SYSTEM RESET ALL".to_owned(),
            };
            return Err(Error::input(message).with_code(DENIED).with_hint("superusers may"));
        }
        self.outside_of_blocks("ALTER SYSTEM")?;
        Ok(Statement::Maintain(Maintenance::SetForAll { setting, value }))
    }

    /// ALTER DATABASE … SET and RESET, of the one that there is. Fails with 3D000 for another one, with 42501 if the
    /// session does not own it.
    pub(super) fn alter_database(&self, words: &mut Words) -> Result<Statement> {
        let name = words.name()?.0;
        if name != CATALOG_NAME {
            return Err(Error::input(format!("database \"{name}\" does not exist")).with_code("3D000"));
        }
        if !self.at.snapshot.rights.are_all() {
            return Err(Error::input(format!("must be owner of database {name}")).with_code(DENIED));
        }
        let (setting, value) = words.setting_change()?;
        words.end()?;
        Ok(Statement::Command(change(RoleChange::Set { setting, value }, "ALTER DATABASE")))
    }

    /// ALTER ROLE ALL. Fails with 42501 if the session may not.
    pub(super) fn set_for_all(&self, words: &mut Words, tag: &'static str) -> Result<Statement> {
        if words.take(&["in", "database"]) {
            words.name()?;
        }
        let (setting, value) = words.setting_change()?;
        words.end()?;
        if !self.speaker().is_superuser {
            let error = Error::input("must be superuser to alter settings globally").with_code(DENIED);
            return Err(error.with_hint("ALTER ROLE … SET changes those of one role"));
        }
        Ok(Statement::Command(change(RoleChange::Set { setting, value }, tag)))
    }
}
