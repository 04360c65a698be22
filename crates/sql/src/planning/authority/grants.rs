//! GRANT and REVOKE, of privileges and of roles.

use std::collections::BTreeMap;

use diligence_base::{Error, Result};
use diligence_catalog::authority::{
    DefaultsOf, GrantChange, GrantedOn, Language, Privilege, Privileges, RoleChange, Subject, SubjectKind,
};
use diligence_catalog::rights::DENIED;
use diligence_catalog::{CATALOG_NAME, Object, RelationName, Resolved, no_schema};
use sqlparser::ast;

use super::roles::{change, refuse_without_effect};
use super::words::Words;
use crate::parse;
use crate::planning::around::Around;
use crate::statement::{Command, Statement};

/// The privileges of a list.
#[derive(Default)]
struct Listed {
    /// Everything, if `None`.
    privileges: Option<Vec<Privilege>>,
    /// Those of columns; everything, if `None`.
    columns: Vec<(String, Option<Privilege>)>,
}

impl Listed {
    /// Fails with 0LP01 if one is none of the kind.
    fn of_kind(&self, kind: SubjectKind) -> Result<Option<Privileges>> {
        let Some(privileges) = &self.privileges else { return Ok(None) };
        if let Some(wrong) = privileges.iter().find(|privilege| !kind.all().has(**privilege)) {
            let message = format!("invalid privilege type {} for {}", wrong.name(), kind.word());
            return Err(Error::input(message).with_code("0LP01"));
        }
        Ok(Some(Privileges::of(privileges)))
    }

    /// Whether something is listed that is not of columns.
    fn is_of_whole(&self) -> bool {
        self.privileges.as_ref().is_none_or(|privileges| !privileges.is_empty())
    }

    /// The privileges of each column. Fails with 0LP01 if columns have none such.
    fn by_column(&self) -> Result<BTreeMap<&str, Privileges>> {
        let all = SubjectKind::Column.all();
        let mut by_column = BTreeMap::<&str, Privileges>::new();
        for (column, privilege) in &self.columns {
            let privileges = privilege.map_or(all, |privilege| Privileges::of(&[privilege]));
            if privileges.without(all) != Privileges::NONE {
                let name = privilege.map_or("", Privilege::name);
                return Err(Error::input(format!("invalid privilege type {name} for column")).with_code("0LP01"));
            }
            let known = by_column.entry(column).or_default();
            *known = known.with(privileges);
        }
        Ok(by_column)
    }
}

impl Around<'_> {
    /// GRANT and REVOKE.
    pub(super) fn grant_or_revoke(&self, words: &mut Words, is_grant: bool) -> Result<Statement> {
        let tag = if is_grant { "GRANT" } else { "REVOKE" };
        if words.clone().split_at_last("on").is_none() {
            return self.memberships(words, is_grant, if is_grant { "GRANT ROLE" } else { "REVOKE ROLE" });
        }
        let only_options = !is_grant && words.take(&["grant", "option", "for"]);
        let listed = listed(words)?;
        words.expect(&["on"])?;
        let subjects = self.subjects(words)?;
        let (grantees, options, cascade) = self.grantees(words, is_grant)?;
        let mut commands = Vec::new();
        for (subject, kind, table) in &subjects {
            for (column, privileges) in listed.by_column()? {
                let subject = self.column_subject(*subject, *kind, table, column)?;
                let shown = format!("\"{column}\" of relation \"{table}\"");
                let grant = GrantChange {
                    is_grant,
                    on: GrantedOn::Subjects(vec![(subject, SubjectKind::Column, shown)]),
                    privileges: Some(privileges),
                    grantees: grantees.clone(),
                    options: options || only_options,
                    cascade,
                };
                commands.push(change(RoleChange::Grant(grant), tag));
            }
        }
        for kind in SubjectKind::ALL.into_iter().filter(|_| listed.is_of_whole()) {
            let of_kind = subjects.iter().filter(|(_, known, _)| *known == kind).cloned().collect::<Vec<_>>();
            if of_kind.is_empty() {
                continue;
            }
            // Sequences may be named as tables.
            let named_kind =
                if kind == SubjectKind::Sequence && subjects.len() > of_kind.len() { SubjectKind::Table } else { kind };
            let grant = GrantChange {
                is_grant,
                on: GrantedOn::Subjects(of_kind),
                privileges: listed.of_kind(named_kind)?,
                grantees: grantees.clone(),
                options: options || only_options,
                cascade,
            };
            commands.push(change(RoleChange::Grant(grant), tag));
        }
        // Of all that is in a schema there may be nothing.
        if subjects.is_empty() {
            return Ok(Statement::Command(Command::Nothing(tag)));
        }
        match commands.len() {
            1 => commands.pop().map(Statement::Command).ok_or_else(|| Error::bug("one is none")),
            _ => Ok(Statement::Command(Command::All { commands, tag })),
        }
    }

    /// TO or FROM whom, and what is said behind that.
    fn grantees(&self, words: &mut Words, is_grant: bool) -> Result<(Vec<String>, bool, bool)> {
        words.expect(&[if is_grant { "to" } else { "from" }])?;
        let grantees = words.list(|words| self.grantee(words))?;
        let options = is_grant && words.take(&["with", "grant", "option"]);
        if words.take(&["granted", "by"]) {
            self.role(words)?;
        }
        let cascade = words.take(&["cascade"]);
        if !cascade {
            let _ = words.take(&["restrict"]);
        }
        words.end()?;
        Ok((grantees, options, cascade))
    }

    /// GRANT role TO role.
    fn memberships(&self, words: &mut Words, is_grant: bool, tag: &'static str) -> Result<Statement> {
        let only_admin = !is_grant && words.take(&["admin", "option", "for"]);
        let roles = words.list(|words| self.role(words))?;
        words.expect(&[if is_grant { "to" } else { "from" }])?;
        let members = words.list(|words| self.role(words))?;
        let is_admin = is_grant && words.take(&["with", "admin", "option"]);
        if words.take(&["granted", "by"]) {
            self.role(words)?;
        }
        let _ = words.take(&["cascade"]) || words.take(&["restrict"]);
        words.end()?;
        if is_grant {
            roles.iter().try_for_each(|role| refuse_without_effect(role))?;
        }
        let membership = match is_grant {
            true => RoleChange::Join { roles: roles.clone(), members: members.clone(), is_admin },
            false => RoleChange::Leave { roles: roles.clone(), members: members.clone(), only_admin },
        };
        let named = [roles, members].concat();
        Ok(Statement::Command(self.with_entries(&named, change(membership, tag), tag)))
    }

    /// Of what something is granted.
    fn subjects(&self, words: &mut Words) -> Result<Vec<(Subject, SubjectKind, String)>> {
        if words.take(&["all"]) {
            let what = words.word()?;
            words.expect(&["in", "schema"])?;
            let schemas = words.list(|words| Ok(words.name()?.0))?;
            let kind = match what.as_str() {
                "tables" => SubjectKind::Table,
                "sequences" => SubjectKind::Sequence,
                "functions" | "procedures" | "routines" => SubjectKind::Routine,
                _ => return Err(words.wrong()),
            };
            let snapshot = &self.at.snapshot.catalog;
            for schema in &schemas {
                if !snapshot.has_schema(schema) {
                    return Err(no_schema(schema));
                }
            }
            let objects = snapshot
                .all_objects()
                .filter(|object| object.relation.subject_kind() == kind && schemas.contains(&object.name.schema));
            return Ok(objects.map(|object| subject(object)).collect());
        }
        if words.take(&["schema"]) {
            return words.list(|words| {
                let name = words.name()?.0;
                self.schema_subject(&name)
            });
        }
        if words.take(&["database"]) {
            return words.list(|words| {
                let name = words.name()?.0;
                if name != CATALOG_NAME {
                    return Err(Error::input(format!("database \"{name}\" does not exist")).with_code("3D000"));
                }
                Ok((Subject::Database, SubjectKind::Database, name))
            });
        }
        if ["function", "procedure", "routine"].iter().any(|kind| words.take(&[kind])) {
            return words.list(|words| self.routine_subject(words));
        }
        if words.take(&["type"]) || words.take(&["domain"]) {
            return words.list(|words| {
                let name = words.object()?;
                let missing = || Error::input(format!("type {name} does not exist")).with_code("42704");
                Ok(subject(&*self.type_object(&name)?.ok_or_else(missing)?))
            });
        }
        if words.take(&["language"]) {
            return words.list(|words| self.language_subject(&words.name()?.0));
        }
        if words.come(&["tablespace"]) || words.come(&["foreign"]) {
            let what = words.word()?;
            let error = Error::unsupported(format!("privileges of a {what} are not supported")).with_code("0A000");
            return Err(error.with_hint("the server's file of users says who may make functions and name files"));
        }
        let is_sequence = words.take(&["sequence"]);
        if !is_sequence {
            let _ = words.take(&["table"]);
        }
        words.list(|words| {
            let name = words.object()?;
            let found = self.relation_object(&name)?;
            if is_sequence && found.1 != SubjectKind::Sequence {
                return Err(Error::input(format!("\"{}\" is not a sequence", found.2)).with_code("42809"));
            }
            Ok(found)
        })
    }

    /// A language of functions. Fails with 42704 if there is none of the name, with 0A000 for one that is everybody's,
    /// and with 42501 if whoever grants it may do everything but make such functions.
    fn language_subject(&self, name: &str) -> Result<(Subject, SubjectKind, String)> {
        let Some(language) = Language::named(name) else {
            if ["sql", "plpgsql", "internal", "c"].contains(&name) {
                let message = format!("privileges of the language {name} are not supported");
                return Err(Error::unsupported(message).with_code("0A000").with_hint("everybody may use it"));
            }
            return Err(Error::input(format!("language \"{name}\" does not exist")).with_code("42704"));
        };
        if self.planner.catalogs().speaker().is_superuser {
            self.may_program()?;
        }
        Ok((Subject::Language(language), SubjectKind::Language, language.name().to_owned()))
    }

    /// A column of a relation. Fails with 0LP01 for what has no columns, 42703 if there is none of the name.
    fn column_subject(&self, of: Subject, kind: SubjectKind, table: &str, column: &str) -> Result<Subject> {
        let object = match of {
            Subject::Object(id) if kind == SubjectKind::Table => {
                self.at.snapshot.catalog.all_objects().find(|object| object.id == id)
            }
            _ => None,
        };
        let Some(object) = object else {
            return Err(Error::input("column privileges are only valid for relations").with_code("0LP01"));
        };
        let missing = || {
            let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
            Error::input(message).with_code("42703")
        };
        object.column_number(column).map(|number| Subject::Column(object.id, number)).ok_or_else(missing)
    }

    fn schema_subject(&self, name: &str) -> Result<(Subject, SubjectKind, String)> {
        let mut schemas = self.at.snapshot.catalog.schemas();
        let found = schemas.find(|(known, _)| *known == name).map(|(_, id)| id).ok_or_else(|| no_schema(name))?;
        Ok((Subject::Schema(found), SubjectKind::Schema, name.to_owned()))
    }

    /// A relation by its name. Fails with 42P01 if there is none.
    pub(super) fn relation_object(&self, name: &ast::ObjectName) -> Result<(Subject, SubjectKind, String)> {
        let relation = self.relation_name(name)?;
        match self.at.snapshot.get(&relation) {
            Some(Resolved::Object(object)) => Ok(subject(&object)),
            Some(Resolved::Computed(_)) => {
                let message = format!("permission denied: \"{name}\" shows the engine");
                let hint = "what describes the catalog everybody may read; the server's file of users gives system.*";
                Err(Error::input(message).with_code(DENIED).with_hint(hint))
            }
            None => Err(Error::input(format!("relation \"{relation}\" does not exist")).with_code("42P01")),
        }
    }

    /// A function by its name and, if there are several, its arguments. Fails with 42883, and 42725.
    pub(super) fn routine_subject(&self, words: &mut Words) -> Result<(Subject, SubjectKind, String)> {
        let name = words.object()?;
        let arguments = words.parenthesized().map(|arguments| format!("({arguments})")).unwrap_or_default();
        let parsed = parse::parse_one(&format!("DROP FUNCTION {name}{arguments}"))?;
        let crate::parse::SyntaxTree::Statement(statement) = parsed.statement else {
            return Err(words.wrong());
        };
        let ast::Statement::DropFunction(dropped) = *statement else { return Err(words.wrong()) };
        let mut found = Vec::new();
        for wanted in &dropped.func_desc {
            found.extend(self.routine_named(wanted, false)?);
        }
        let object = found.first().and_then(|name: &RelationName| self.at.snapshot.catalog.get(name));
        object.map(|object| subject(object)).ok_or_else(|| words.wrong())
    }

    /// ALTER DEFAULT PRIVILEGES.
    pub(super) fn default_privileges(&self, words: &mut Words) -> Result<Statement> {
        const TAG: &str = "ALTER DEFAULT PRIVILEGES";
        let (mut roles, mut schemas) = (Vec::new(), Vec::new());
        loop {
            if words.take(&["for", "role"]) || words.take(&["for", "user"]) {
                roles = words.list(|words| self.role(words))?;
            } else if words.take(&["in", "schema"]) {
                schemas = words.list(|words| Ok(words.name()?.0))?;
            } else {
                break;
            }
        }
        let by = self.planner.catalogs().speaker();
        if roles.is_empty() {
            roles.push(by.name.clone());
        }
        if let Some(role) = roles.iter().find(|role| !by.is_superuser && !by.roles.contains(*role)) {
            return Err(Error::input(format!("must be member of role \"{role}\"")).with_code(DENIED));
        }
        let is_grant = words.take(&["grant"]);
        if !is_grant {
            words.expect(&["revoke"])?;
        }
        let only_options = !is_grant && words.take(&["grant", "option", "for"]);
        let listed = listed(words)?;
        if !listed.columns.is_empty() {
            return Err(Error::input("default privileges cannot be set for columns").with_code("0LP01"));
        }
        words.expect(&["on"])?;
        let kind = match words.word()?.as_str() {
            "tables" => SubjectKind::Table,
            "sequences" => SubjectKind::Sequence,
            "functions" | "routines" => SubjectKind::Routine,
            "types" => SubjectKind::Type,
            "schemas" if schemas.is_empty() => SubjectKind::Schema,
            _ => return Err(words.wrong()),
        };
        let (grantees, options, cascade) = self.grantees(words, is_grant)?;
        let mut of = Vec::new();
        for role in roles {
            if schemas.is_empty() {
                of.push(DefaultsOf { role: role.clone(), schema: None, kind });
            }
            for schema in &schemas {
                let Subject::Schema(id) = self.schema_subject(schema)?.0 else { continue };
                of.push(DefaultsOf { role: role.clone(), schema: Some(id), kind });
            }
        }
        let grant = GrantChange {
            is_grant,
            on: GrantedOn::Defaults(of),
            privileges: listed.of_kind(kind)?,
            grantees,
            options: options || only_options,
            cascade,
        };
        Ok(Statement::Command(change(RoleChange::Grant(grant), TAG)))
    }
}

/// The privileges that are listed.
fn listed(words: &mut Words) -> Result<Listed> {
    let columns = |words: &mut Words| -> Result<Vec<String>> {
        if !words.take(&["("]) {
            return Ok(vec![]);
        }
        let names = words.list(|words| Ok(words.name()?.0))?;
        words.expect(&[")"])?;
        Ok(names)
    };
    if words.take(&["all"]) {
        let _ = words.take(&["privileges"]);
        let columns = columns(words)?;
        return Ok(match columns.is_empty() {
            true => Listed::default(),
            false => {
                Listed { privileges: Some(vec![]), columns: columns.into_iter().map(|column| (column, None)).collect() }
            }
        });
    }
    let (mut whole, mut of_columns) = (Vec::new(), Vec::new());
    words.list(|words| {
        let word = words.word()?;
        let unknown = || Error::input(format!("unrecognized privilege type \"{word}\"")).with_code("42601");
        let privilege = Privilege::named(&word).ok_or_else(unknown)?;
        match columns(words)? {
            columns if columns.is_empty() => whole.push(privilege),
            columns => of_columns.extend(columns.into_iter().map(|column| (column, Some(privilege)))),
        }
        Ok(())
    })?;
    Ok(Listed { privileges: Some(whole), columns: of_columns })
}

/// An object as something is granted of it.
pub(super) fn subject(object: &Object) -> (Subject, SubjectKind, String) {
    let name = &object.name;
    let shown = name.routine().map_or(name.name.as_str(), |routine| routine.split('(').next().unwrap_or(routine));
    (Subject::Object(object.id), object.relation.subject_kind(), shown.to_owned())
}
