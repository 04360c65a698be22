//! Names of relations, and the schemas that are always there.

use std::fmt;

use diligence_base::ids::ObjectId;

use crate::locks::LockOwner;

/// The name of the only database in a catalog.
pub const CATALOG_NAME: &str = "diligence";
/// Where names without a schema are looked up.
pub const DEFAULT_SCHEMA: &str = "public";
/// Where the engine shows itself.
pub const SYSTEM_SCHEMA: &str = "system";
/// The catalog as PostgreSQL describes it.
pub const POSTGRES_SCHEMA: &str = "pg_catalog";
/// The catalog as the SQL standard describes it.
pub const INFORMATION_SCHEMA: &str = "information_schema";

/// The schemas in which the engine shows itself.
pub(crate) const SHOWN_SCHEMAS: [&str; 3] = [SYSTEM_SCHEMA, POSTGRES_SCHEMA, INFORMATION_SCHEMA];

/// The first id of a user's object; those below are built in.
pub(crate) const OBJECTS_FROM: u64 = 16_384;
/// Relations in which the engine shows itself have oids from here on, and no others.
pub const SHOWN_FROM: u32 = 1_000_000_000;
/// The id of the default schema, which PostgreSQL's clients know.
pub(crate) const DEFAULT_SCHEMA_ID: ObjectId = ObjectId(2200);

/// The oid of a schema that shows the engine.
pub(crate) fn shown_schema_oid(name: &str) -> Option<u32> {
    match name {
        POSTGRES_SCHEMA => Some(11),
        INFORMATION_SCHEMA => Some(13_000),
        SYSTEM_SCHEMA => Some(13_001),
        _ => None,
    }
}

/// The number by which PostgreSQL's clients know an object. It has 32 bits, so it begins again after a billion objects.
pub fn oid_of(id: ObjectId) -> u32 {
    let oid = match id.0.checked_sub(OBJECTS_FROM) {
        Some(number) => OBJECTS_FROM + number % (u64::from(SHOWN_FROM) - OBJECTS_FROM),
        None => id.0,
    };
    u32::try_from(oid).unwrap_or(SHOWN_FROM - 1)
}

/// Numbers of what tables are declared with begin here.
const DECLARED_FROM: i64 = 100_000_000;
/// So many of them are a table's, and so many of each kind.
const OF_TABLE: i64 = 1024;
const OF_KIND: i64 = 256;

/// The number of what a table is declared with, by the table's number, the kind (indexes are 0) and the place among
/// those of the kind.
pub fn declared_oid(table: u32, kind: i64, place: usize) -> i64 {
    DECLARED_FROM + i64::from(table) % 800_000 * OF_TABLE + kind * OF_KIND + place as i64 % OF_KIND
}

/// A relation's full name within its catalog.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationName {
    /// The schema.
    pub schema: String,
    /// The name in the schema.
    pub name: String,
}

/// What the schemas of temporary objects begin with, before the number of their session.
const TEMPORARY: &str = "pg_temp_";

/// The schema of a session's temporary objects.
pub(crate) fn temporary_schema(owner: LockOwner) -> String {
    format!("{TEMPORARY}{}", owner.number())
}

/// Whether a schema is that of a session's temporary objects, which no log keeps.
pub(crate) fn is_temporary(schema: &str) -> bool {
    schema.starts_with(TEMPORARY)
}

impl RelationName {
    /// Whether it is a temporary object's.
    pub fn is_temporary(&self) -> bool {
        is_temporary(&self.schema)
    }

    /// A name in a schema.
    pub fn new(schema: impl Into<String>, name: impl Into<String>) -> Self {
        Self { schema: schema.into(), name: name.into() }
    }

    /// The name that a text names, as PostgreSQL's functions take it: `t`, `Sales.T` (without capitals),
    /// `public."T"`. `None` for a text that is no name, or names another database.
    pub fn parse(text: &str) -> Option<Self> {
        let parts = identifiers(text)?;
        match <[String; 3]>::try_from(parts) {
            Ok([catalog, schema, name]) => (catalog == CATALOG_NAME).then_some(Self { schema, name }),
            Err(parts) => match <[String; 2]>::try_from(parts) {
                Ok([schema, name]) => Some(Self { schema, name }),
                Err(parts) => Some(Self::new(DEFAULT_SCHEMA, parts.into_iter().next()?)),
            },
        }
    }

    /// Whether a change of what has the other name may change what this one stands for: names without capitals find
    /// those with capitals.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.schema == other.schema && self.name.to_lowercase() == other.name.to_lowercase()
    }
}

impl fmt::Display for RelationName {
    /// Without the default schema and that of temporary objects, as a user would write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.schema != DEFAULT_SCHEMA && !self.is_temporary() {
            write!(f, "{}.", self.schema)?;
        }
        f.write_str(&self.name)
    }
}

/// The identifiers of a text with dots between them, three at most: those without quotes in lower case.
pub(crate) fn identifiers(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut part = String::new();
                let mut characters = quoted.char_indices();
                let end = loop {
                    let (at, character) = characters.next()?;
                    if character != '"' {
                        part.push(character);
                    } else if quoted[at + 1..].starts_with('"') {
                        characters.next();
                        part.push('"');
                    } else {
                        break at + 1;
                    }
                };
                (part, &quoted[end..])
            }
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].trim().to_lowercase(), &rest[end..])
            }
        };
        if part.is_empty() || parts.len() == 3 {
            return None;
        }
        parts.push(part);
        match after.trim_start().strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None => return after.trim().is_empty().then_some(parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_relations_as_postgresql_reads_them() {
        let parsed = |text: &str| RelationName::parse(text).map(|name| (name.schema, name.name));
        let named = |schema: &str, name: &str| Some((schema.to_owned(), name.to_owned()));
        for (text, expected) in [
            ("Orders", named("public", "orders")),
            ("\"Orders\"", named("public", "Orders")),
            ("Sales.\"a.b\"", named("sales", "a.b")),
            ("\"s\" . \"say \"\"x\"\"\"", named("s", "say \"x\"")),
            ("diligence.s.t", named("s", "t")),
            ("other.s.t", None),
            ("a.b.c.d", None),
            ("", None),
            ("a.", None),
            ("\"a", None),
            ("\"a\"b", None),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn oids_are_ids_until_they_would_be_those_of_what_the_engine_shows() {
        assert_eq!(oid_of(DEFAULT_SCHEMA_ID), 2200);
        assert_eq!(oid_of(ObjectId(OBJECTS_FROM)), 16_384);
        assert_eq!(oid_of(ObjectId(u64::from(SHOWN_FROM) - 1)), SHOWN_FROM - 1);
        assert_eq!(oid_of(ObjectId(u64::from(SHOWN_FROM))), 16_384);
    }
}
