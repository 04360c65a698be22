//! Statements that are read word by word: those about roles and what they may do, about
//! channels and, in `triggers`, about triggers.
//!
//! * `roles`: CREATE, ALTER and DROP ROLE, and their memberships;
//! * `grants`: GRANT and REVOKE of privileges, and those of what is to come;
//! * `comments`: COMMENT ON what is no table;
//! * `systems`: ALTER SYSTEM, and what all sessions begin with;
//! * `owners`: whose objects are, REASSIGN and DROP OWNED;
//! * here: SET ROLE and SET SESSION AUTHORIZATION, and how roles are named.

mod comments;
mod grants;
mod owners;
mod passwords;
mod roles;
mod systems;
mod words;

use diligence_base::{Error, Result};
use diligence_catalog::authority::{PUBLIC, predefined_role};
use diligence_catalog::privileges::OWNER;
use sqlparser::ast;

pub(super) use self::words::Words;
use super::around::Around;
use super::bound::BoundStatement;
use crate::parse::AUTHORITY;
use crate::statement::{ChannelStep, Command, Statement};

/// Whether a call stands for a statement about roles.
pub(super) fn is_one(call: &ast::Function) -> bool {
    matches!(call.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == AUTHORITY))
}

impl Around<'_> {
    /// What a statement about roles does. Fails with kind `Input` and PostgreSQL's codes.
    pub(super) fn authority(&self, call: &ast::Function) -> Result<BoundStatement> {
        let mut words = Words::of(call);
        let first = words.word()?;
        match first.as_str() {
            "create" if ["trigger", "or", "constraint"].iter().any(|word| words.come(&[word])) => {
                return self.create_trigger(&mut words);
            }
            "drop" if words.take(&["trigger"]) => return self.drop_trigger(&mut words),
            "alter" if words.take(&["trigger"]) => return self.rename_trigger(&mut words),
            "create" if words.take(&["statistics"]) => return self.create_statistics(&mut words),
            "drop" if words.take(&["statistics"]) => return self.drop_statistics(&mut words),
            "alter" if words.take(&["statistics"]) => return self.alter_statistics(&mut words),
            "alter" if let Some(moved) = self.moved_if(&words)? => return Ok(moved),
            "alter"
                if ["function", "procedure", "routine"].iter().any(|kind| words.come(&[kind]))
                    && words.split_at_last("owner").is_none() =>
            {
                return self.alter_routine(&mut words).map(BoundStatement::Other);
            }
            "alter" if words.come(&["table"]) && words.split_at_last("owner").is_none() => {
                words.word()?;
                return self.switch_triggers(&mut words);
            }
            _ => {}
        }
        let statement = match first.as_str() {
            "listen" | "unlisten" | "notify" => channel(&first, &mut words),
            "grant" | "revoke" => self.grant_or_revoke(&mut words, first == "grant"),
            "comment" => self.comment_on(&mut words),
            "reassign" => self.reassign_owned(&mut words),
            "drop" if words.take(&["owned"]) => self.drop_owned(&mut words),
            "create" if words.take(&["schema"]) => self.create_schema_of(&mut words),
            "create" => self.create_role(&mut words),
            "drop" => self.drop_roles(&mut words),
            "set" => self.set_role(&mut words),
            "reset" => {
                let is_authorization = words.take(&["session", "authorization"]);
                Ok(set_role(None, is_authorization, false, "RESET"))
            }
            _ if words.take(&["default", "privileges"]) => self.default_privileges(&mut words),
            _ if words.take(&["system"]) => self.alter_system(&mut words),
            _ if words.come(&["database"]) && words.split_at_last("owner").is_none() => {
                words.word()?;
                self.alter_database(&mut words)
            }
            _ if ["role", "user", "group"].iter().any(|kind| words.come(&[kind])) => self.alter_role(&mut words),
            _ => self.alter_owner(&mut words),
        };
        statement.map(BoundStatement::Other)
    }

    /// What moves into another schema, or is a function that gets another name.
    fn moved_if(&self, words: &Words) -> Result<Option<BoundStatement>> {
        let of_roles = [&["role"][..], &["user"], &["group"], &["default", "privileges"]];
        match of_roles.iter().any(|kind| words.come(kind)) {
            true => Ok(None),
            false => self.moved(words),
        }
    }

    /// SET ROLE and SET SESSION AUTHORIZATION.
    fn set_role(&self, words: &mut Words) -> Result<Statement> {
        let is_local = words.take(&["local"]);
        if words.come(&["session", "role"]) || words.come(&["session", "session"]) {
            words.word()?;
        }
        let is_authorization = words.take(&["session", "authorization"]);
        if !is_authorization {
            words.expect(&["role"])?;
        }
        let _ = words.take(&["to"]) || words.take(&["="]);
        let none = if is_authorization { "default" } else { "none" };
        let role = match words.text() {
            Ok(text) => Some(text),
            Err(_) => {
                let (name, is_quoted) = words.name()?;
                (is_quoted || name != none && name != "default").then_some(name)
            }
        };
        words.end()?;
        // Its own name is nobody else's.
        let own = self.planner.facts().user.clone();
        let is_own = |role: &String| *role == own && !self.is_role(role);
        Ok(set_role(role.filter(|role| !is_own(role)), is_authorization, is_local, "SET"))
    }

    /// The name of a role that is there. Fails with 42704 if there is none.
    fn role(&self, words: &mut Words) -> Result<String> {
        match self.grantee(words)? {
            name if name == PUBLIC => Err(Error::input("role name \"public\" is reserved").with_code("42939")),
            name => Ok(name),
        }
    }

    /// The same, or everybody.
    fn grantee(&self, words: &mut Words) -> Result<String> {
        let _ = words.take(&["group"]);
        let (name, is_quoted) = words.name()?;
        let name = match name.as_str() {
            "public" if !is_quoted => return Ok(PUBLIC.to_owned()),
            "current_user" | "current_role" if !is_quoted => self.planner.current_user(),
            "session_user" if !is_quoted => self.planner.session_user(),
            _ => name,
        };
        if self.is_role(&name) {
            return Ok(name);
        }
        // Whoever runs the database may be called anything.
        if name == self.planner.session_user() {
            return Ok(OWNER.to_owned());
        }
        let error = Error::input(format!("role \"{name}\" does not exist")).with_code("42704");
        Err(error.with_hint("CREATE ROLE makes one"))
    }

    fn is_role(&self, name: &str) -> bool {
        let snapshot = &self.at.snapshot;
        let is_made = snapshot.catalog.authority().roles().contains_key(name) || snapshot.users().contains_key(name);
        name == OWNER || is_made || predefined_role(name).is_some()
    }

    /// Users of the server's file and predefined roles become roles of the catalog, too, where it has to remember
    /// something of them.
    fn with_entries(&self, names: &[String], command: Command, tag: &'static str) -> Command {
        let roles = self.at.snapshot.catalog.authority().roles();
        let missing = names.iter().filter(|name| *name != OWNER && !roles.contains_key(*name));
        let mut commands = missing.map(|name| self.entry_of(name)).collect::<Vec<_>>();
        if commands.is_empty() {
            return command;
        }
        commands.push(command);
        Command::All { commands, tag }
    }
}

/// LISTEN, UNLISTEN and NOTIFY.
fn channel(what: &str, words: &mut Words) -> Result<Statement> {
    let channel = match what == "unlisten" && words.take(&["*"]) {
        true => None,
        false => Some(words.name()?.0),
    };
    let step = match (what, channel) {
        ("listen", Some(channel)) => ChannelStep::Listen(channel),
        ("notify", Some(channel)) => {
            let payload = if words.take(&[","]) { words.text()? } else { String::new() };
            ChannelStep::Notify { channel, payload }
        }
        (_, channel) => ChannelStep::Unlisten(channel),
    };
    words.end()?;
    Ok(Statement::Channel(step))
}

fn set_role(role: Option<String>, is_authorization: bool, is_local: bool, tag: &'static str) -> Statement {
    Statement::Command(Command::SetRole { role, is_authorization, is_local, tag })
}
