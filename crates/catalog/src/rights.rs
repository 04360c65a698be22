//! What a session may do: which relations it may read, change and make, and what else was granted to it.
//!
//! Two things say so: the patterns of the server's file of users, and what was granted to the role that the session
//! acts as ([`authority`](crate::authority)). What either allows is allowed.
//!
//! Invariants:
//! * Every name that a statement uses is looked up under the rights of the session that runs it: in views, too, and in
//!   plans that another session made. Behind a view that was granted, names are looked up under the rights of its
//!   owner.
//! * By patterns, who may change a relation may read it. What describes the catalog (`pg_catalog`,
//!   `information_schema`) everybody may read.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use diligence_base::{Error, Result};

pub use crate::authority::DENIED;
use crate::authority::{Language, Privilege, Privileges, Subject, SubjectKind};
use crate::{
    CatalogSnapshot, DEFAULT_SCHEMA, INFORMATION_SCHEMA, Object, POSTGRES_SCHEMA, RelationName, SYSTEM_SCHEMA,
};

/// What a session may do with relations.
#[derive(Clone, Debug)]
pub struct Rights {
    /// `None` for all relations.
    read: Option<Vec<RelationPattern>>,
    /// `None` for all relations.
    write: Option<Vec<RelationPattern>>,
    /// What is granted to the role that it acts as.
    held: Option<Held>,
}

/// The roles whose rights a session has, and the names that these are about.
#[derive(Clone, Debug)]
struct Held {
    names: CatalogSnapshot,
    role: String,
    roles: BTreeSet<String>,
}

impl PartialEq for Rights {
    /// By what the server's file says, and by the role.
    fn eq(&self, other: &Self) -> bool {
        let role = |rights: &Self| rights.held.as_ref().map(|held| held.role.clone());
        (&self.read, &self.write) == (&other.read, &other.write) && role(self) == role(other)
    }
}

impl Eq for Rights {}

impl Held {
    fn object(&self, name: &RelationName) -> Option<&Arc<Object>> {
        self.names.resolve(name)
    }

    fn of_object(&self, object: &Object, options: bool) -> Privileges {
        let (subject, kind) = (Subject::Object(object.id), object.relation.subject_kind());
        self.names.authority().privileges(&self.roles, subject, kind, options)
    }

    fn of_column(&self, object: &Object, column: &str, options: bool) -> Privileges {
        let Some(number) = object.column_number(column) else { return Privileges::NONE };
        let subject = Subject::Column(object.id, number);
        self.names.authority().privileges(&self.roles, subject, SubjectKind::Column, options)
    }

    fn of_any_column(&self, object: &Object, options: bool) -> Privileges {
        let authority = self.names.authority();
        let columns = authority.granted_columns(object.id).map(|(column, _)| column);
        let columns = columns.map(|column| authority.privileges(&self.roles, column, SubjectKind::Column, options));
        columns.fold(Privileges::NONE, Privileges::with)
    }

    fn schema(&self, schema: &str) -> Option<Subject> {
        self.names.schemas().find(|(name, _)| *name == schema).map(|(_, id)| Subject::Schema(id))
    }

    fn of_schema(&self, schema: &str, options: bool) -> Privileges {
        let Some(subject) = self.schema(schema) else { return Privileges::NONE };
        self.names.authority().privileges(&self.roles, subject, SubjectKind::Schema, options)
    }

    fn owns(&self, subject: Subject) -> bool {
        self.roles.contains(self.names.authority().owner_of(subject))
    }
}

impl Rights {
    /// To do anything.
    pub fn all() -> Self {
        Self { read: None, write: None, held: None }
    }

    /// To read these relations, and to make, change and drop those.
    pub fn only(read: Vec<RelationPattern>, write: Vec<RelationPattern>) -> Self {
        Self { read: Some(read), write: Some(write), held: None }
    }

    /// To read anything, and to change nothing.
    pub fn read_all() -> Self {
        Self { read: None, write: Some(vec![]), held: None }
    }

    /// These, and what is granted to a role in a snapshot.
    #[must_use]
    pub(crate) fn with_role(&self, names: &CatalogSnapshot, role: &str) -> Self {
        let held = Held { names: names.clone(), role: role.to_owned(), roles: names.authority().held_by(role) };
        Self { held: Some(held), ..self.clone() }
    }

    /// Whether there is nothing that it does not allow.
    pub fn are_all(&self) -> bool {
        self.write.is_none()
    }

    /// Whether these are rights of a role, or of a member of it.
    pub fn has_role(&self, role: &str) -> bool {
        self.held.as_ref().is_some_and(|held| held.roles.contains(role))
    }

    /// The roles whose rights these are; none, if no role is acted as.
    pub fn roles(&self) -> BTreeSet<String> {
        self.held.as_ref().map(|held| held.roles.clone()).unwrap_or_default()
    }

    /// Whether the server's file of users allows it.
    pub(crate) fn fit(&self, name: &RelationName, privilege: Privilege) -> bool {
        fits(&self.write, name) || privilege == Privilege::Select && fits(&self.read, name)
    }

    /// Whether the relation, function or type may be used so.
    pub fn may(&self, name: &RelationName, privilege: Privilege) -> bool {
        let is_granted =
            |held: &Held| held.object(name).is_some_and(|object| held.of_object(object, false).has(privilege));
        name.is_temporary() || self.fit(name, privilege) || self.held.as_ref().is_some_and(is_granted)
    }

    /// Whether a column of a relation may be used so.
    pub fn may_column(&self, name: &RelationName, column: &str, privilege: Privilege) -> bool {
        let is_granted =
            |held: &Held| held.object(name).is_some_and(|object| held.of_column(object, column, false).has(privilege));
        self.may(name, privilege) || self.held.as_ref().is_some_and(is_granted)
    }

    /// Whether a relation, or one of its columns, may be used so.
    pub fn may_any_column(&self, name: &RelationName, privilege: Privilege) -> bool {
        let is_granted =
            |held: &Held| held.object(name).is_some_and(|object| held.of_any_column(object, false).has(privilege));
        self.may(name, privilege) || self.held.as_ref().is_some_and(is_granted)
    }

    /// Whether a privilege of a column, or of any without one, may be passed on.
    pub fn may_grant_column(&self, name: &RelationName, column: Option<&str>, privilege: Privilege) -> bool {
        let is_granted = |held: &Held| {
            held.object(name).is_some_and(|object| match column {
                Some(column) => held.of_column(object, column, true).has(privilege),
                None => held.of_any_column(object, true).has(privilege),
            })
        };
        self.may_grant(name, privilege) || self.held.as_ref().is_some_and(is_granted)
    }

    /// Fails with [`DENIED`] if one of the columns of a relation may not be used so.
    pub fn check_columns<'c>(
        &self,
        name: &RelationName,
        mut columns: impl Iterator<Item = &'c str>,
        privilege: Privilege,
    ) -> Result<()> {
        match self.may(name, privilege) || columns.all(|column| self.may_column(name, column, privilege)) {
            true => Ok(()),
            false => self.check(name, privilege),
        }
    }

    /// Whether that may be passed on.
    pub fn may_grant(&self, name: &RelationName, privilege: Privilege) -> bool {
        let is_granted =
            |held: &Held| held.object(name).is_some_and(|object| held.of_object(object, true).has(privilege));
        self.are_all() || self.held.as_ref().is_some_and(is_granted)
    }

    /// Whether a function may be called or a type used: there is nothing about them in the server's file, so everybody
    /// may, unless it was revoked.
    pub fn may_use(&self, name: &RelationName) -> bool {
        let Some(held) = self.held.as_ref().filter(|_| !self.are_all()) else { return true };
        let privileges = |object: &Arc<Object>| held.of_object(object, false) != Privileges::NONE;
        held.object(name).is_none_or(privileges) || self.fit(name, Privilege::Execute)
    }

    /// Whether the relation may be read.
    pub fn may_read(&self, name: &RelationName) -> bool {
        self.may(name, Privilege::Select)
    }

    /// Fails with [`DENIED`] if the relation may not be read.
    pub fn check_read(&self, name: &RelationName) -> Result<()> {
        self.check(name, Privilege::Select)
    }

    /// Fails with [`DENIED`] if the relation, function or type may not be used so.
    pub fn check(&self, name: &RelationName, privilege: Privilege) -> Result<()> {
        if self.may(name, privilege) || self.is_unknown(name) {
            return Ok(());
        }
        let right = if privilege == Privilege::Select { "tables" } else { "write" };
        let grant = format!("GRANT {} ON {name}", privilege.name());
        Err(denied(format!("permission denied for {}", self.shown(name)), &grant, right, &name.to_string()))
    }

    /// Whether a role acts that has no patterns, and there is nothing of this name: that is said in other words. What
    /// shows the engine is there.
    fn is_unknown(&self, name: &RelationName) -> bool {
        let has_none = |patterns: &Option<Vec<RelationPattern>>| patterns.as_ref().is_some_and(Vec::is_empty);
        name.schema != SYSTEM_SCHEMA
            && has_none(&self.read)
            && has_none(&self.write)
            && self.held.as_ref().is_some_and(|held| held.object(name).is_none() && held.names.get(name).is_none())
    }

    fn shown(&self, name: &RelationName) -> String {
        let kind = self.held.as_ref().and_then(|held| held.object(name)).map(|object| object.relation.kind());
        let shown = name.routine().map_or(name.name.as_str(), |routine| routine.split('(').next().unwrap_or(routine));
        format!("{} {shown}", kind.unwrap_or("table"))
    }

    /// Whether the relation, function or type may be altered and dropped.
    pub fn owns(&self, name: &RelationName) -> bool {
        let is_owner = |held: &Held| {
            let object = held.object(name).is_some_and(|object| held.owns(Subject::Object(object.id)));
            object || held.schema(&name.schema).is_some_and(|schema| held.owns(schema))
        };
        name.is_temporary() || fits(&self.write, name) || self.held.as_ref().is_some_and(is_owner)
    }

    /// Fails with [`DENIED`] if the relation, function or type may not be altered and dropped.
    pub fn check_owner(&self, name: &RelationName) -> Result<()> {
        if self.owns(name) || self.is_unknown(name) {
            return Ok(());
        }
        let message = format!("must be owner of {}", self.shown(name));
        Err(denied(message, "ALTER … OWNER TO", "write", &name.to_string()))
    }

    /// Fails with [`DENIED`] if nothing of this name may be made.
    pub fn check_create(&self, name: &RelationName) -> Result<()> {
        let is_granted = |held: &Held| held.of_schema(&name.schema, false).has(Privilege::Create);
        if name.is_temporary() || fits(&self.write, name) || self.held.as_ref().is_some_and(is_granted) {
            return Ok(());
        }
        if self.held.as_ref().is_some_and(|held| held.schema(&name.schema).is_none()) && self.is_unknown(name) {
            return Ok(());
        }
        let (schema, grant) = (&name.schema, format!("GRANT CREATE ON SCHEMA {}", name.schema));
        Err(denied(format!("permission denied for schema {schema}"), &grant, "write", &name.to_string()))
    }

    /// Whether names in a schema may be used: those of what describes the catalog everybody may.
    pub fn may_use_schema(&self, schema: &str) -> bool {
        let lower = schema.to_lowercase();
        let in_schema = |patterns: &Option<Vec<RelationPattern>>| {
            patterns.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| matches(&pattern.schema, &lower)))
        };
        let is_granted = |held: &Held| held.of_schema(schema, false).has(Privilege::Usage);
        [POSTGRES_SCHEMA, INFORMATION_SCHEMA].contains(&schema)
            || in_schema(&self.read)
            || in_schema(&self.write)
            || self.held.as_ref().is_some_and(is_granted)
    }

    /// Fails with [`DENIED`] if names in a schema may not be used.
    pub fn check_use_schema(&self, schema: &str) -> Result<()> {
        let is_there = self.held.as_ref().is_some_and(|held| held.schema(schema).is_some());
        if !is_there || self.may_use_schema(schema) {
            return Ok(());
        }
        let grant = format!("GRANT USAGE ON SCHEMA {schema}");
        let message = format!("permission denied for schema {schema}");
        Err(denied(message, &grant, "tables", &format!("{schema}.*")))
    }

    /// Whether everything in the schema may be made, changed and dropped by the server's file.
    fn may_write_schema(&self, schema: &str) -> bool {
        let whole = |pattern: &RelationPattern| pattern.name == "*" && matches(&pattern.schema, &schema.to_lowercase());
        self.write.as_ref().is_none_or(|patterns| patterns.iter().any(whole))
    }

    /// Whether things may be made in the schema.
    pub fn may_create_in(&self, schema: &str) -> bool {
        let is_granted = |held: &Held| held.of_schema(schema, false).has(Privilege::Create);
        self.may_write_schema(schema) || self.held.as_ref().is_some_and(is_granted)
    }

    /// Whether a privilege of a schema may be passed on.
    pub fn may_grant_schema(&self, schema: &str, privilege: Privilege) -> bool {
        self.are_all() || self.held.as_ref().is_some_and(|held| held.of_schema(schema, true).has(privilege))
    }

    /// Whether the database may be used so.
    pub fn may_of_database(&self, privilege: Privilege, options: bool) -> bool {
        let kind = SubjectKind::Database;
        match &self.held {
            _ if self.are_all() => true,
            None => !options && kind.public().has(privilege),
            Some(held) => {
                held.names.authority().privileges(&held.roles, Subject::Database, kind, options).has(privilege)
            }
        }
    }

    /// Whether a language of functions was granted.
    pub fn has_language(&self, language: Language) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| held.names.authority().has_language(&held.roles, language))
    }

    /// Fails with [`DENIED`] if the schema may not be made: that takes the right to change all that is in it, or to
    /// make things in the database.
    pub fn check_create_schema(&self, schema: &str) -> Result<()> {
        if self.may_write_schema(schema) || self.may_of_database(Privilege::Create, false) {
            return Ok(());
        }
        let message = format!("permission denied for database {}", crate::CATALOG_NAME);
        let grant = format!("GRANT CREATE ON DATABASE {}", crate::CATALOG_NAME);
        Err(denied(message, &grant, "write", &format!("{schema}.*")))
    }

    /// Fails with [`DENIED`] if the schema may not be altered or dropped.
    pub fn check_schema_owner(&self, schema: &str) -> Result<()> {
        let is_owner = |held: &Held| held.schema(schema).is_none_or(|subject| held.owns(subject));
        if self.may_write_schema(schema) || self.held.as_ref().is_some_and(is_owner) {
            return Ok(());
        }
        let message = format!("must be owner of schema {schema}");
        Err(denied(message, "ALTER SCHEMA … OWNER TO", "write", &format!("{schema}.*")))
    }
}

fn denied(message: String, grant: &str, right: &str, pattern: &str) -> Error {
    let hint = format!("{grant} allows it, or the server's file of users: {right} = [\"{pattern}\"]");
    Error::input(message).with_code(DENIED).with_hint(hint)
}

fn fits(patterns: &Option<Vec<RelationPattern>>, name: &RelationName) -> bool {
    patterns.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.fits(name)))
}

/// A pattern of relations' names: `orders`, `sales.*`, `sales.order_*`, `*.*`. A star stands for any characters within
/// the schema or the name; without a schema the default one is meant. Capitals do not matter, since names without them
/// find names with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationPattern {
    schema: String,
    name: String,
}

impl RelationPattern {
    /// Whether a relation's name is one of those that are meant.
    pub fn fits(&self, name: &RelationName) -> bool {
        matches(&self.schema, &name.schema.to_lowercase()) && matches(&self.name, &name.name.to_lowercase())
    }
}

impl FromStr for RelationPattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim().to_lowercase();
        let (schema, name) = text.split_once('.').unwrap_or((DEFAULT_SCHEMA, &text));
        if schema.is_empty() || name.is_empty() {
            let error = Error::input(format!("'{text}' names no tables"));
            return Err(error.with_hint("write it like \"orders\", \"sales.*\" or \"*.*\""));
        }
        Ok(Self { schema: schema.to_owned(), name: name.to_owned() })
    }
}

/// Whether a text is one that the pattern stands for; a star in the pattern is any characters, also none.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(mut piece) = pieces.next() else { return rest.is_empty() };
    // Each piece between two stars may be taken at the first place where it is: what comes later can only have more to
    // choose from.
    for next in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
        piece = next;
    }
    rest.ends_with(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<RelationPattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, text) in
            [("*", ""), ("a*", "a"), ("a*c", "abc"), ("*b*b*", "abab"), ("a*bc", "abcbc"), ("a", "a")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a*c", "ab"), ("*bb*b", "abb"), ("ab*b", "ab"), ("", "a"), ("a*b*", "a")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn rights_are_what_was_granted_and_nothing_else() {
        let rights = Rights::only(patterns(&["Orders", "sales.*"]), patterns(&["scratch.*", "sales.notes"]));
        let name = |schema: &str, name: &str| RelationName::new(schema, name);
        for readable in [name("public", "orders"), name("public", "ORDERS"), name("sales", "x"), name("scratch", "y")] {
            assert!(rights.may_read(&readable), "{readable}");
        }
        for hidden in [name("public", "orders2"), name("sales2", "orders"), name("system", "queries")] {
            assert_eq!(rights.check_read(&hidden).unwrap_err().code(), Some(DENIED), "{hidden}");
        }
        assert!(rights.owns(&name("sales", "notes")) && !rights.owns(&name("sales", "x")));
        let denied = rights.check(&name("public", "orders"), Privilege::Insert).unwrap_err();
        assert!(denied.hint().unwrap().contains("write = [\"orders\"]"), "{denied}");
        assert_eq!(denied.message(), "permission denied for table orders");
        assert!(rights.may_use_schema("sales") && rights.may_use_schema("scratch") && !rights.may_use_schema("system"));
        assert!(Rights::all().are_all() && !rights.are_all() && !Rights::read_all().are_all());
        assert!(rights.check_create_schema("scratch").is_ok() && rights.check_create_schema("sales").is_err());
        assert!(rights.check_schema_owner("scratch").is_ok() && rights.check_schema_owner("sales").is_err());
        assert!(Rights::all().owns(&name("a", "b")) && Rights::all().check_create_schema("a").is_ok());
        assert!(Rights::read_all().may_read(&name("a", "b")) && !Rights::read_all().owns(&name("a", "b")));
        for wrong in ["", ".x", "x."] {
            assert!(wrong.parse::<RelationPattern>().is_err(), "{wrong}");
        }
    }
}
