//! Domains: types whose values are some of another type's (manual, section 8.18).
//!
//! A value is held, compared and sent as one of the base type; an expression never has a domain as its type. Only what
//! takes values has one: a column, a cast. What a domain demands is looked up where values are taken, so a column notes
//! no more than which domain it is.

use std::fmt;

use crate::SqlType;
use crate::quoted::quoted_name;

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DomainType {
    /// The number by which PostgreSQL's clients know it.
    pub oid: u32,
    /// That of its arrays.
    pub array_oid: u32,
    /// Its schema, if it is not the one that needs no name.
    pub schema: Option<String>,
    /// Its name.
    pub name: String,
    /// The type whose values it takes: another domain, maybe.
    pub base: SqlType,
}

/// What is between the parts of the text in which a field notes a domain. No name has it.
const PART: char = '\u{1}';
/// What that text begins with.
const HEAD: &str = "domain\u{1}";

impl DomainType {
    /// The text in which a field notes it. The base type's stands last, which may have parts of its own.
    pub(crate) fn noted(&self) -> String {
        let Self { oid, array_oid, schema, name, base } = self;
        let schema = schema.as_deref().unwrap_or_default();
        format!("{HEAD}{oid}{PART}{array_oid}{PART}{schema}{PART}{name}{PART}{}", base.noted())
    }

    /// The domain that a field has noted.
    pub(crate) fn of_noted(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(HEAD)?.splitn(5, PART);
        let (oid, array_oid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let schema = Some(parts.next()?.to_owned()).filter(|schema| !schema.is_empty());
        let name = parts.next()?.to_owned();
        Some(Self { oid, array_oid, schema, name, base: SqlType::parse(parts.next()?)? })
    }
}

impl fmt::Display for DomainType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{}.", quoted_name(schema))?;
        }
        f.write_str(&quoted_name(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::enum_type::EnumType;

    #[test]
    fn a_field_notes_a_domain_with_its_base_type() {
        let labels = vec!["a".to_owned(), String::new()];
        let mood = EnumType { oid: 7, array_oid: 8, schema: None, name: "Mood".to_owned(), labels };
        let mut base = SqlType::Integer;
        for next in [SqlType::Varchar(Some(3)), SqlType::array_of(SqlType::Integer), SqlType::Enum(Arc::new(mood))] {
            for schema in [None, Some("s".to_owned())] {
                let one = DomainType { oid: 1, array_oid: 2, schema, name: "Ab c".to_owned(), base: base.clone() };
                let sql_type = SqlType::Domain(Arc::new(one));
                assert_eq!(SqlType::of_field(&sql_type.field("a", true)), Some(sql_type.clone()));
                assert_eq!(*sql_type.base(), base);
                let above = DomainType { oid: 3, array_oid: 4, schema: None, name: "d".to_owned(), base: sql_type };
                let above = SqlType::Domain(Arc::new(above));
                assert_eq!(SqlType::of_field(&above.field("a", true)), Some(above.clone()));
                assert_eq!((above.base(), above.arrow()), (&base, base.arrow()));
            }
            base = next;
        }
    }
}
