//! What a session may do with relations: which ones it may read, and which ones it may change.
//!
//! Invariants:
//! * Every name that a statement uses is looked up under the rights of the session that runs it: in views, too, and in
//!   plans that another session made.
//! * Who may change a relation may read it. What describes the catalog (`pg_catalog`, `information_schema`) everybody
//!   may read.

use std::str::FromStr;

use diligence_base::{Error, Result};

use crate::{DEFAULT_SCHEMA, INFORMATION_SCHEMA, POSTGRES_SCHEMA, RelationName};

/// The code of errors about rights: `insufficient_privilege`.
pub const DENIED: &str = "42501";

/// What a session may do with relations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// `None` for all relations.
    read: Option<Vec<RelationPattern>>,
    /// `None` for all relations.
    write: Option<Vec<RelationPattern>>,
}

impl Rights {
    /// To do anything.
    pub fn all() -> Self {
        Self { read: None, write: None }
    }

    /// To read these relations, and to make, change and drop those.
    pub fn only(read: Vec<RelationPattern>, write: Vec<RelationPattern>) -> Self {
        Self { read: Some(read), write: Some(write) }
    }

    /// To read anything, and to change nothing.
    pub fn read_all() -> Self {
        Self { read: None, write: Some(vec![]) }
    }

    /// Whether there is nothing that it does not allow.
    pub fn are_all(&self) -> bool {
        self.write.is_none()
    }

    /// Whether the relation may be read.
    pub fn may_read(&self, name: &RelationName) -> bool {
        fits(&self.read, name) || self.may_write(name)
    }

    /// Whether the relation may be made, changed and dropped.
    pub fn may_write(&self, name: &RelationName) -> bool {
        fits(&self.write, name)
    }

    /// Fails with [`DENIED`] if the relation may not be read.
    pub fn check_read(&self, name: &RelationName) -> Result<()> {
        if self.may_read(name) {
            return Ok(());
        }
        Err(denied(format!("'{name}' may not be read by this user"), "tables", &name.to_string()))
    }

    /// Fails with [`DENIED`] if the relation may not be made, changed or dropped.
    pub fn check_write(&self, name: &RelationName) -> Result<()> {
        if self.may_write(name) {
            return Ok(());
        }
        Err(denied(format!("'{name}' may not be changed by this user"), "write", &name.to_string()))
    }

    /// Whether some relation of the schema may be read: those that describe the catalog everybody may.
    pub fn may_use_schema(&self, schema: &str) -> bool {
        let lower = schema.to_lowercase();
        let in_schema = |patterns: &Option<Vec<RelationPattern>>| {
            patterns.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| matches(&pattern.schema, &lower)))
        };
        [POSTGRES_SCHEMA, INFORMATION_SCHEMA].contains(&schema) || in_schema(&self.read) || in_schema(&self.write)
    }

    /// Whether everything in the schema may be made, changed and dropped.
    pub fn may_write_schema(&self, schema: &str) -> bool {
        let whole = |pattern: &RelationPattern| pattern.name == "*" && matches(&pattern.schema, &schema.to_lowercase());
        self.write.as_ref().is_none_or(|patterns| patterns.iter().any(whole))
    }

    /// Fails with [`DENIED`] if the schema may not be made or dropped: that takes the right to change all that is in
    /// it.
    pub fn check_write_schema(&self, schema: &str) -> Result<()> {
        if self.may_write_schema(schema) {
            return Ok(());
        }
        Err(denied(
            format!("the schema '{schema}' may not be made or dropped by this user"),
            "write",
            &format!("{schema}.*"),
        ))
    }
}

fn denied(message: String, right: &str, pattern: &str) -> Error {
    Error::input(message)
        .with_code(DENIED)
        .with_hint(format!("the server's file of users grants it to a role: {right} = [\"{pattern}\"]"))
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
        assert!(rights.may_write(&name("sales", "notes")) && !rights.may_write(&name("sales", "x")));
        assert!(
            rights.check_write(&name("public", "orders")).unwrap_err().hint().unwrap().contains("write = [\"orders\"]")
        );
        assert!(rights.may_use_schema("sales") && rights.may_use_schema("scratch") && !rights.may_use_schema("system"));
        assert!(Rights::all().are_all() && !rights.are_all() && !Rights::read_all().are_all());
        assert!(rights.check_write_schema("scratch").is_ok() && rights.check_write_schema("sales").is_err());
        assert!(Rights::all().may_write(&name("a", "b")) && Rights::all().check_write_schema("a").is_ok());
        assert!(Rights::read_all().may_read(&name("a", "b")) && !Rights::read_all().may_write(&name("a", "b")));
        for wrong in ["", ".x", "x."] {
            assert!(wrong.parse::<RelationPattern>().is_err(), "{wrong}");
        }
    }
}
