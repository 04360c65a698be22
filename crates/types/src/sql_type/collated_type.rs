//! Texts with a collation that is not the database's.
//!
//! What it is beside its base type stays with every expression and column; choosing overloads, casting and printing
//! look at the base type ([`SqlType::uncollated`]). Sorting, grouping, joining and comparing look at the collation, by
//! way of the key that it gives the texts (`functions::order_key`).

use std::sync::Arc;

use crate::SqlType;
use crate::collation::Collation;
use crate::sql_type::RecordField;

/// A text type with a collation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CollatedType {
    /// The type of the values.
    pub base: SqlType,
    /// How they are compared.
    pub collation: Collation,
}

/// What is between the parts of the text in which a field notes a collated type. No name has it.
const PART: char = '\u{1}';
/// What that text begins with.
const HEAD: &str = "collated\u{1}";

impl CollatedType {
    /// The text in which a field notes it. The base type's stands last.
    pub(crate) fn noted(&self) -> String {
        let mut text = HEAD.to_owned();
        for part in self.collation.noted() {
            text.push_str(&part);
            text.push(PART);
        }
        text + &self.base.noted()
    }

    /// The collated type that a field has noted.
    pub(crate) fn of_noted(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(HEAD)?.splitn(6, PART);
        let mut part = || parts.next();
        let collation = Collation::of_noted([part()?, part()?, part()?, part()?, part()?])?;
        Some(Self { base: SqlType::parse(part()?)?, collation })
    }
}

impl SqlType {
    /// Whether a collation is anywhere in it.
    pub fn has_collation(&self) -> bool {
        match self {
            Self::Collated(_) => true,
            Self::Array(element) => element.has_collation(),
            Self::Record(fields) => fields.iter().any(|field| field.sql_type.has_collation()),
            Self::Map(pair) => pair.0.has_collation() || pair.1.has_collation(),
            _ => false,
        }
    }

    /// The type without any collation in it.
    pub fn uncollated(&self) -> Self {
        match self {
            Self::Collated(one) => one.base.clone(),
            _ if !self.has_collation() => self.clone(),
            Self::Array(element) => Self::array_of(element.uncollated()),
            Self::Record(fields) => {
                let field =
                    |field: &RecordField| RecordField { sql_type: field.sql_type.uncollated(), ..field.clone() };
                Self::Record(fields.with(fields.iter().map(field).collect()))
            }
            Self::Map(pair) => Self::Map(Arc::new((pair.0.uncollated(), pair.1.uncollated()))),
            other => other.clone(),
        }
    }

    /// The collation of a text, or of the texts in an array; `None` if it is the database's.
    pub fn collation(&self) -> Option<&Collation> {
        match self.innermost() {
            Self::Collated(one) => Some(&one.collation),
            _ => None,
        }
    }

    /// Whether its values are texts, or arrays of these, that a collation compares.
    pub fn is_collatable(&self) -> bool {
        matches!(self.innermost(), Self::Text | Self::Varchar(_) | Self::Char(_) | Self::Name | Self::Collated(_))
    }

    /// The type with a collation in the place of its own; without any, where it is the database's. What is not
    /// [collatable](Self::is_collatable) stays as it is.
    pub fn with_collation(&self, collation: Option<&Collation>) -> Self {
        match self {
            Self::Array(element) => Self::array_of(element.with_collation(collation)),
            Self::Collated(one) => one.base.with_collation(collation),
            other => match collation {
                Some(collation) if other.is_collatable() => {
                    Self::Collated(Arc::new(CollatedType { base: other.clone(), collation: collation.clone() }))
                }
                _ => other.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_notes_a_collation_with_its_base_type() {
        for name in ["de-x-icu", "C", "default"] {
            let collation = Collation::predefined(name).unwrap();
            for base in [SqlType::Text, SqlType::Varchar(Some(5)), SqlType::Char(Some(3))] {
                for plain in [base.clone(), SqlType::array_of(base.clone())] {
                    let collated = plain.with_collation(Some(&collation));
                    let field = collated.field("a", true);
                    assert_eq!(SqlType::of_field(&field), Some(collated.clone()));
                    assert_eq!(field.data_type(), plain.field("a", true).data_type());
                    assert_eq!((collated.uncollated(), collated.oid()), (plain.clone(), plain.oid()));
                    assert_eq!((collated.to_string(), collated.collation()), (plain.to_string(), Some(&collation)));
                    assert_eq!(collated.with_collation(None), plain);
                }
            }
        }
        let german = Collation::predefined("de-x-icu").unwrap();
        assert_eq!(SqlType::Integer.with_collation(Some(&german)), SqlType::Integer);
    }
}
