//! CREATE, ALTER and DROP ROLE.

use std::sync::Arc;

use datafusion_common::ScalarValue;
use diligence_base::function_limits::FunctionLimits;
use diligence_base::{Error, Result};
use diligence_catalog::authority::{Membership, RoleChange, RoleDefinition, Speaker, predefined_role};
use diligence_catalog::privileges::OWNER;
use diligence_catalog::rights::DENIED;

use super::passwords::verifier;
use super::words::Words;
use crate::planning::around::Around;
use crate::statement::{Command, Statement};
use crate::{binder, parse};

/// What CREATE ROLE says beside the role's attributes.
#[derive(Default)]
struct Members {
    /// Who becomes a member of it, and whether as one who may make others members.
    of_it: Vec<(String, bool)>,
    /// What it becomes a member of.
    of: Vec<String>,
}

pub(super) fn change(change: RoleChange, tag: &'static str) -> Command {
    Command::Roles { change: Arc::new(change), tag }
}

impl Around<'_> {
    pub(super) fn speaker(&self) -> Speaker {
        self.planner.catalogs().speaker()
    }

    /// Whether the session may make and change roles.
    pub(super) fn makes_roles(&self) -> bool {
        let by = self.speaker();
        let known = self.at.snapshot.catalog.authority().roles().get(&by.name);
        by.is_superuser || known.is_some_and(|role| role.makes_roles)
    }

    /// A role for a user of the server's file.
    pub(super) fn entry_of(&self, name: &str) -> Command {
        let definition = RoleDefinition::new(self.planner.catalogs().catalog().new_role_id());
        change(RoleChange::Create { name: name.to_owned(), definition, members: vec![] }, "CREATE ROLE")
    }

    /// CREATE ROLE, CREATE USER and CREATE GROUP.
    pub(super) fn create_role(&self, words: &mut Words) -> Result<Statement> {
        let is_user = words.come(&["user"]);
        words.word()?;
        if !self.makes_roles() {
            return Err(Error::input("permission denied to create role").with_code(DENIED));
        }
        let (name, is_quoted) = words.name()?;
        check_name(&name, is_quoted)?;
        // Whoever has come under a name without a role is somebody all the same.
        if self.is_role(&name) || name == self.planner.session_user() {
            return Err(Error::input(format!("role \"{name}\" already exists")).with_code("42710"));
        }
        let mut definition = RoleDefinition::new(self.planner.catalogs().catalog().new_role_id());
        definition.logs_in = is_user;
        let _ = words.take(&["with"]);
        let members = self.attributes(words, &mut definition, true)?;
        if definition.is_superuser && !self.speaker().is_superuser {
            return Err(Error::input("must be superuser to create superusers").with_code(DENIED));
        }
        let grantor = self.speaker().name;
        for of in &members.of {
            let membership = Membership { grantor: grantor.clone(), is_admin: false };
            definition.member_of.insert(of.clone(), membership);
        }
        members.of.iter().try_for_each(|role| refuse_without_effect(role))?;
        let create = RoleChange::Create { name, definition, members: members.of_it };
        Ok(Statement::Command(self.with_entries(&members.of, change(create, "CREATE ROLE"), "CREATE ROLE")))
    }

    /// The attributes of a role, up to the end.
    fn attributes(&self, words: &mut Words, role: &mut RoleDefinition, is_new: bool) -> Result<Members> {
        let mut members = Members::default();
        while !words.is_end() {
            let _ = words.take(&["encrypted"]);
            if words.take(&["password"]) {
                role.password = if words.take(&["null"]) { None } else { verifier(&words.text()?) };
            } else if words.take(&["valid", "until"]) {
                role.valid_until = self.until(&words.text()?)?;
            } else if words.take(&["connection", "limit"]) {
                role.connections_max = words.number()?;
            } else if words.take(&["sysid"]) {
                words.number()?;
            } else if is_new && (words.take(&["in", "role"]) || words.take(&["in", "group"])) {
                members.of.extend(words.list(|words| self.role(words))?);
            } else if is_new && (words.take(&["role"]) || words.take(&["user"])) {
                members.of_it.extend(words.list(|words| Ok((self.role(words)?, false)))?);
            } else if is_new && words.take(&["admin"]) {
                members.of_it.extend(words.list(|words| Ok((self.role(words)?, true)))?);
            } else {
                let before = words.clone();
                let word = words.word()?;
                let (name, value) = match word.strip_prefix("no") {
                    Some(rest) => (rest, false),
                    None => (word.as_str(), true),
                };
                let attribute = match name {
                    "superuser" => &mut role.is_superuser,
                    "createdb" => &mut role.makes_databases,
                    "createrole" => &mut role.makes_roles,
                    "inherit" => &mut role.inherits,
                    "login" => &mut role.logs_in,
                    "replication" => &mut role.replicates,
                    "bypassrls" => &mut role.bypasses_rules,
                    _ => return Err(before.wrong()),
                };
                *attribute = value;
            }
        }
        Ok(members)
    }

    /// A moment, in microseconds since 1970; none for ever. Fails as the text is read.
    fn until(&self, text: &str) -> Result<Option<i64>> {
        if text.trim().eq_ignore_ascii_case("infinity") {
            return Ok(None);
        }
        let quoted = text.replace('\'', "''");
        let value = parse::expression(&format!("CAST('{quoted}' AS TIMESTAMPTZ)"))?;
        match self.constant(&value, &binder::bind_any(&value, self)?)?.value {
            ScalarValue::TimestampMicrosecond(until, _) => Ok(until),
            _ => Err(Error::bug("a moment is none")),
        }
    }

    /// ALTER ROLE, ALTER USER and ALTER GROUP.
    pub(super) fn alter_role(&self, words: &mut Words) -> Result<Statement> {
        let is_group = words.come(&["group"]);
        words.word()?;
        if words.take(&["all"]) {
            return self.set_for_all(words, "ALTER ROLE");
        }
        let name = self.role(words)?;
        if name == OWNER {
            let error = Error::unsupported(format!("the role \"{OWNER}\" cannot be altered")).with_code("0A000");
            return Err(error.with_hint("it stands for whoever runs the database"));
        }
        if predefined_role(&name).is_some() {
            return Err(reserved(&name));
        }
        let by = self.speaker();
        let authority = self.at.snapshot.catalog.authority();
        let known = authority.roles().get(&name).cloned();
        let is_own = by.name == name;
        let is_superuser = known.as_ref().is_some_and(|role| role.is_superuser);
        let denied = || Error::input("permission denied").with_code(DENIED);
        if words.take(&["rename", "to"]) {
            if !self.makes_roles() || is_superuser && !by.is_superuser {
                return Err(Error::input("permission denied to rename role").with_code(DENIED));
            }
            if self.at.snapshot.users().contains_key(&name) {
                return Err(of_file(&name));
            }
            let (to, is_quoted) = words.name()?;
            words.end()?;
            check_name(&to, is_quoted)?;
            let rename = RoleChange::Rename { from: name, to };
            return Ok(Statement::Command(change(rename, "ALTER ROLE")));
        }
        if is_group && (words.come(&["add", "user"]) || words.come(&["drop", "user"])) {
            let adds = words.word()? == "add";
            words.word()?;
            let members = words.list(|words| self.role(words))?;
            let roles = vec![name];
            let membership = match adds {
                true => RoleChange::Join { roles, members: members.clone(), is_admin: false },
                false => RoleChange::Leave { roles, members: members.clone(), only_admin: false },
            };
            let command = self.with_entries(&members, change(membership, "ALTER ROLE"), "ALTER ROLE");
            return Ok(Statement::Command(command));
        }
        let mut definition = match known {
            Some(known) => known,
            None => RoleDefinition::new(self.planner.catalogs().catalog().new_role_id()),
        };
        if words.take(&["in", "database"]) {
            words.name()?;
        }
        if words.come(&["set"]) || words.come(&["reset"]) {
            if !is_own && !self.makes_roles() {
                return Err(denied());
            }
            self.change_settings(words, &mut definition)?;
        } else {
            if self.at.snapshot.users().contains_key(&name) {
                return Err(of_file(&name));
            }
            let before = definition.clone();
            let _ = words.take(&["with"]);
            self.attributes(words, &mut definition, false)?;
            let only_password = RoleDefinition { password: before.password.clone(), ..definition.clone() } == before;
            let touches_superuser = before.is_superuser || definition.is_superuser;
            if touches_superuser && !by.is_superuser {
                let message = "must be superuser to alter superuser roles or change superuser attribute";
                return Err(Error::input(message).with_code(DENIED));
            }
            if !(self.makes_roles() || is_own && only_password) {
                return Err(denied());
            }
        }
        words.end()?;
        let put = change(RoleChange::Put { name: name.clone(), definition }, "ALTER ROLE");
        Ok(Statement::Command(self.with_entries(&[name], put, "ALTER ROLE")))
    }

    /// SET and RESET of ALTER ROLE. Fails with 42501 if a role changes its own limits, with 22023 if a limit is none.
    fn change_settings(&self, words: &mut Words, role: &mut RoleDefinition) -> Result<()> {
        let may_limit = self.makes_roles();
        let check = |setting: &str| match FunctionLimits::is_one(setting) && !may_limit {
            true => {
                let error = Error::input(format!("permission denied to set \"{setting}\" of a role"));
                Err(error.with_code(DENIED).with_hint("a role's limits are set by those who may make roles"))
            }
            false => Ok(()),
        };
        match words.setting_change()? {
            (None, _) => role.settings.retain(|setting, _| check(setting).is_err()),
            (Some(setting), None) => {
                check(&setting)?;
                role.settings.remove(&setting);
            }
            (Some(setting), Some(value)) => {
                check(&setting)?;
                FunctionLimits::default().set(&setting, &value)?;
                role.settings.insert(setting, value);
            }
        }
        Ok(())
    }

    /// DROP ROLE.
    pub(super) fn drop_roles(&self, words: &mut Words) -> Result<Statement> {
        words.word()?;
        if !self.makes_roles() {
            return Err(Error::input("permission denied to drop role").with_code(DENIED));
        }
        let if_exists = words.take(&["if", "exists"]);
        let names = words.list(|words| Ok(words.name()?.0))?;
        words.end()?;
        let by = self.speaker();
        let roles = self.at.snapshot.catalog.authority().roles();
        for name in &names {
            if if_exists && !roles.contains_key(name) && !self.at.snapshot.users().contains_key(name) {
                self.tell_missing(&format!("role \"{name}\""));
            }
            if *name == self.planner.current_user() {
                return Err(Error::input("current user cannot be dropped").with_code("55006"));
            }
            if *name == self.planner.session_user() {
                return Err(Error::input("session user cannot be dropped").with_code("55006"));
            }
            if *name == OWNER || predefined_role(name).is_some() {
                let message = format!("cannot drop role {name} because it is required by the database system");
                return Err(Error::input(message).with_code("2BP01"));
            }
            if roles.get(name).is_some_and(|role| role.is_superuser) && !by.is_superuser {
                return Err(Error::input("must be superuser to drop superusers").with_code(DENIED));
            }
            if self.at.snapshot.users().contains_key(name) && !roles.contains_key(name) {
                return Err(of_file(name));
            }
        }
        Ok(Statement::Command(change(RoleChange::Drop { names, if_exists }, "DROP ROLE")))
    }
}

fn of_file(name: &str) -> Error {
    let error = Error::unsupported(format!("role \"{name}\" is a user of the server's file")).with_code("0A000");
    error.with_hint("what that says of a user is changed there")
}

fn reserved(name: &str) -> Error {
    Error::input(format!("role name \"{name}\" is reserved")).with_code("42939")
}

/// Fails with 0A000 for a predefined role that nobody can become a member of.
pub(super) fn refuse_without_effect(role: &str) -> Result<()> {
    match predefined_role(role).and_then(|role| role.refused) {
        Some(reason) => {
            let error = Error::unsupported(format!("role \"{role}\" cannot be granted")).with_code("0A000");
            Err(error.with_hint(reason))
        }
        None => Ok(()),
    }
}

/// Fails with 42939 for names that are nobody's.
fn check_name(name: &str, is_quoted: bool) -> Result<()> {
    if name == "public" || name == "none" || name.starts_with("pg_") {
        return Err(reserved(name));
    }
    if !is_quoted && ["current_user", "session_user", "current_role"].contains(&name) {
        return Err(
            Error::input(format!("{} cannot be used as a role name here", name.to_uppercase())).with_code("42601")
        );
    }
    Ok(())
}
