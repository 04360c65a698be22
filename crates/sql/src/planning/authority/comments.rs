//! COMMENT ON everything but tables and their columns, whose comments are among the rules of their table.

use std::sync::Arc;

use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};
use diligence_catalog::authority::{RoleChange, Subject, Topic};
use diligence_catalog::rights::DENIED;
use diligence_catalog::rules::TableRules;
use diligence_catalog::{CATALOG_NAME, NativeTable, Object, Relation, Resolved, no_schema};
use sqlparser::ast;

use super::roles::change;
use super::words::Words;
use crate::planning::around::Around;
use crate::planning::writable::unwritable;
use crate::statement::{Command, Statement};

impl Around<'_> {
    /// COMMENT ON; the words behind COMMENT. Fails with PostgreSQL's codes if it is not there, or somebody else's.
    pub(super) fn comment_on(&self, words: &mut Words) -> Result<Statement> {
        words.expect(&["on"])?;
        let Some((mut words, mut told)) = words.split_at_last("is") else { return Err(words.wrong()) };
        let text = match told.take(&["null"]) {
            true => None,
            false => Some(told.text()?).filter(|text| !text.is_empty()),
        };
        told.end()?;
        let topic = self.topic(&mut words)?;
        words.end()?;
        Ok(Statement::Command(match topic {
            Some(topic) => change(RoleChange::Comment { topic, text }, "COMMENT"),
            None => Command::Nothing("COMMENT"),
        }))
    }

    /// What forgets the comment of something that goes and is not found again by a number; `None` if there is none.
    pub(in crate::planning) fn forgotten(&self, topic: Topic) -> Option<Command> {
        let is_said = self.at.snapshot.catalog.authority().comments().contains_key(&topic);
        is_said.then(|| change(RoleChange::Comment { topic, text: None }, "COMMENT"))
    }

    /// What gives the comment of something that has another name to that name.
    pub(in crate::planning) fn comment_along(&self, from: Topic, to: Topic) -> Vec<Command> {
        let Some(text) = self.at.snapshot.catalog.authority().comments().get(&from) else { return vec![] };
        let text = Some(text.clone());
        [RoleChange::Comment { topic: from, text: None }, RoleChange::Comment { topic: to, text }]
            .map(|made| change(made, "COMMENT"))
            .into()
    }

    /// What becomes of the comments of a table's indexes and constraints, once the table has other rules. `renamed` are
    /// the old and the new names of those that are called otherwise.
    pub(in crate::planning) fn comments_of_parts(
        &self,
        table: ObjectId,
        rules: &TableRules,
        renamed: &[(String, String)],
    ) -> Vec<Command> {
        let mut commands = Vec::new();
        for topic in self.at.snapshot.catalog.authority().comments().keys() {
            let (name, with_name): (_, fn(ObjectId, String) -> Topic) = match topic {
                Topic::Index(of, name) if *of == table => (name, Topic::Index),
                Topic::Constraint(of, name) if *of == table => (name, Topic::Constraint),
                _ => continue,
            };
            match renamed.iter().find(|(old, _)| old == name) {
                Some((_, new)) => {
                    commands.extend(self.comment_along(topic.clone(), with_name(table, new.clone())));
                }
                None if rules.has_constraint(name) => {}
                None => commands.extend(self.forgotten(topic.clone())),
            }
        }
        commands
    }

    /// What a comment is of; `None` for another database, of which PostgreSQL warns.
    fn topic(&self, words: &mut Words) -> Result<Option<Topic>> {
        let rights = &self.at.snapshot.rights;
        let kind = words.word()?;
        Ok(Some(match kind.as_str() {
            "schema" => {
                let name = words.name()?.0;
                let mut schemas = self.at.snapshot.catalog.schemas();
                let found = schemas.find(|(known, _)| *known == name).map(|(_, id)| id);
                let found = found.ok_or_else(|| no_schema(&name))?;
                rights.check_schema_owner(&name)?;
                Topic::Subject(Subject::Schema(found))
            }
            "view" | "sequence" => {
                let object = self.commented(&words.object()?)?;
                Topic::Subject(Subject::Object(of_kind(&object, &kind)?.id))
            }
            "materialized" => {
                words.expect(&["view"])?;
                let object = self.commented(&words.object()?)?;
                Topic::Subject(Subject::Object(of_kind(&object, "materialized view")?.id))
            }
            "index" => self.commented_index(&words.object()?)?,
            "type" | "domain" => {
                let object = self.commented_type(&words.object()?)?;
                if kind == "domain" && !matches!(object.relation, Relation::Domain(_)) {
                    return Err(wrong_kind(&object.name.name, "a domain"));
                }
                Topic::Subject(Subject::Object(object.id))
            }
            "function" | "procedure" | "routine" => {
                let (subject, ..) = self.routine_subject(words)?;
                self.check_owner_of(subject)?;
                Topic::Subject(subject)
            }
            "constraint" => self.commented_constraint(words)?,
            "trigger" => {
                let name = words.name()?.0;
                words.expect(&["on"])?;
                let object = self.commented(&words.object()?)?;
                if !object.relation.triggers().iter().any(|trigger| trigger.name == name) {
                    let message = format!("trigger \"{name}\" for table \"{}\" does not exist", object.name.name);
                    return Err(Error::input(message).with_code("42704"));
                }
                Topic::Trigger(object.id, name)
            }
            "role" => {
                let role = self.role(words)?;
                if !self.makes_roles() {
                    return Err(Error::input("must have CREATEROLE privilege").with_code(DENIED));
                }
                Topic::Role(role)
            }
            "database" => {
                let name = words.name()?.0;
                if name != CATALOG_NAME {
                    return Ok(None);
                }
                if !rights.are_all() {
                    return Err(Error::input(format!("must be owner of database {name}")).with_code(DENIED));
                }
                Topic::Subject(Subject::Database)
            }
            _ => return Err(words.wrong()),
        }))
    }

    /// A relation that the session owns.
    fn commented(&self, name: &ast::ObjectName) -> Result<Arc<Object>> {
        let name = self.changeable(name)?;
        match self.at.snapshot.get(&name) {
            Some(Resolved::Object(object)) => Ok(object),
            Some(other) => Err(unwritable(&name, &other)),
            None => Err(Error::input(format!("relation \"{name}\" does not exist")).with_code("42P01")),
        }
    }

    fn commented_index(&self, name: &ast::ObjectName) -> Result<Topic> {
        let name = self.index_name(name)?;
        match self.index_named(&name) {
            Some((object, key)) => {
                self.at.snapshot.rights.check_owner(&object.name)?;
                Ok(Topic::Index(object.id, key.name.clone()))
            }
            None if self.at.snapshot.get(&name).is_some() => Err(wrong_kind(&name.name, "an index")),
            None => Err(Error::input(format!("relation \"{name}\" does not exist")).with_code("42P01")),
        }
    }

    fn commented_type(&self, name: &ast::ObjectName) -> Result<Arc<Object>> {
        let parts = name.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.as_str());
        let shown = parts.collect::<Vec<_>>().join(".");
        let missing = || Error::input(format!("type \"{shown}\" does not exist")).with_code("42704");
        let object = self.type_object(name)?.ok_or_else(missing)?;
        self.at.snapshot.rights.check_owner(&object.name)?;
        Ok(object)
    }

    fn commented_constraint(&self, words: &mut Words) -> Result<Topic> {
        let name = words.name()?.0;
        words.expect(&["on"])?;
        let (object, of) = match words.take(&["domain"]) {
            true => (self.commented_type(&words.object()?)?, "domain"),
            false => (self.commented(&words.object()?)?, "table"),
        };
        let is_there = match &object.relation {
            Relation::Native(table) => has_constraint(table, &name),
            Relation::Domain(domain) => domain.checks.iter().any(|check| check.name == name),
            _ => false,
        };
        if !is_there {
            let message = format!("constraint \"{name}\" for {of} \"{}\" does not exist", object.name.name);
            return Err(Error::input(message).with_code("42704"));
        }
        Ok(Topic::Constraint(object.id, name))
    }
}

fn has_constraint(table: &NativeTable, name: &str) -> bool {
    let rules = table.rules();
    let is_index = rules.keys.iter().any(|key| key.name == name && !key.kind.is_constraint());
    !is_index && rules.has_constraint(name)
}

/// The object, if it is of a kind. Fails with 42809 if it is of another one.
fn of_kind<'o>(object: &'o Object, kind: &str) -> Result<&'o Object> {
    match object.relation.kind() == kind {
        true => Ok(object),
        false => Err(wrong_kind(&object.name.name, &format!("a {kind}"))),
    }
}

fn wrong_kind(name: &str, a_kind: &str) -> Error {
    Error::input(format!("\"{name}\" is not {a_kind}")).with_code("42809")
}
