//! Enums: types whose values are some texts, in an order of their own.
//!
//! A value is held as its text, so it goes anywhere as it is; only comparisons other than equality, and sorting, look
//! at the place of its label (`enum_order_key`). A type carries its labels, so nothing has to be looked up where values
//! are read or compared; whoever changes the labels of a type gives it anew to what has it.

use std::fmt;

use arrow::array::StringViewArray;
use diligence_base::{Error, Result};

use crate::quoted::quoted_name;

/// An enum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EnumType {
    /// The number by which PostgreSQL's clients know it.
    pub oid: u32,
    /// That of its arrays.
    pub array_oid: u32,
    /// Its schema, if it is not the one that needs no name.
    pub schema: Option<String>,
    /// Its name; empty if it is written with its labels.
    pub name: String,
    /// Its values, in their order.
    pub labels: Vec<String>,
}

/// What is between the parts of the text in which a field notes an enum. No name and no label has it.
const PART: char = '\u{1}';
/// What that text begins with.
const HEAD: &str = "enum\u{1}";

/// The numbers of text and of its arrays, as which clients know enums without a name.
const TEXT_OIDS: (u32, u32) = (25, 1009);

impl EnumType {
    /// An enum without a name, which is written with its labels: `ENUM('a', 'b')`. Fails with 42710 for a label that is
    /// there twice, and 22023 for one that cannot be noted.
    pub fn inline(labels: Vec<String>) -> Result<Self> {
        for (place, label) in labels.iter().enumerate() {
            if labels[..place].contains(label) {
                return Err(Error::input(format!("enum label \"{label}\" used more than once")).with_code("42710"));
            }
            if !Self::can_note(label) {
                return Err(Error::input(format!("invalid enum label \"{label}\"")).with_code("22023"));
            }
        }
        let (oid, array_oid) = TEXT_OIDS;
        Ok(Self { oid, array_oid, schema: None, name: String::new(), labels })
    }

    /// The place of a label.
    pub fn place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|known| known == label)
    }

    /// Fails with 22P02 if a text is none of its values.
    pub(crate) fn check(&self, text: &str) -> Result<()> {
        match self.place(text) {
            Some(_) => Ok(()),
            None => Err(Error::input(format!("invalid input value for enum {self}: \"{text}\"")).with_code("22P02")),
        }
    }

    /// The places of the labels that an array has; `None` for NULL, the last one behind all for what is none of them.
    pub(crate) fn places(&self, array: &StringViewArray) -> Vec<Option<i32>> {
        // Few labels are found faster one by one than by hash.
        const FEW: usize = 8;
        let place = |place: usize| i32::try_from(place).unwrap_or(i32::MAX);
        if self.labels.len() <= FEW {
            let find = |label: &str| place(self.place(label).unwrap_or(self.labels.len()));
            return array.iter().map(|label| label.map(find)).collect();
        }
        let by_label: std::collections::HashMap<&str, usize> =
            self.labels.iter().enumerate().map(|(place, label)| (label.as_str(), place)).collect();
        let find = |label: &str| place(by_label.get(label).copied().unwrap_or(self.labels.len()));
        array.iter().map(|label| label.map(find)).collect()
    }

    /// The text in which a field notes it.
    pub(crate) fn noted(&self) -> String {
        let mut text = format!("{HEAD}{}{PART}{}{PART}", self.oid, self.array_oid);
        let schema = self.schema.as_deref().unwrap_or_default();
        for part in [schema, self.name.as_str()].into_iter().chain(self.labels.iter().map(String::as_str)) {
            text.push_str(part);
            text.push(PART);
        }
        text
    }

    /// The enum that a field has noted.
    pub(crate) fn of_noted(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(HEAD)?.strip_suffix(PART)?.split(PART);
        let (oid, array_oid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let schema = Some(parts.next()?.to_owned()).filter(|schema| !schema.is_empty());
        let name = parts.next()?.to_owned();
        Some(Self { oid, array_oid, schema, name, labels: parts.map(str::to_owned).collect() })
    }

    /// Whether a name or a label can be noted.
    pub fn can_note(text: &str) -> bool {
        !text.contains(PART)
    }
}

impl fmt::Display for EnumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            let labels = self.labels.iter().map(|label| format!("'{}'", label.replace('\'', "''")));
            return write!(f, "ENUM({})", labels.collect::<Vec<_>>().join(", "));
        }
        if let Some(schema) = &self.schema {
            write!(f, "{}.", quoted_name(schema))?;
        }
        f.write_str(&quoted_name(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqlType;

    #[test]
    fn a_field_notes_an_enum_with_its_labels() {
        for labels in [vec![], vec!["a"], vec!["", "b c", "ü[]", "d'e"]] {
            let labels = labels.into_iter().map(str::to_owned).collect::<Vec<_>>();
            let mood = EnumType { oid: 20_000, array_oid: 20_001, schema: None, name: "Mood".to_owned(), labels };
            assert_eq!(EnumType::of_noted(&mood.noted()), Some(mood.clone()));
            let in_schema = EnumType { schema: Some("s".to_owned()), ..mood };
            assert_eq!(in_schema.to_string(), "s.\"Mood\"");
            let sql_type = SqlType::Enum(std::sync::Arc::new(in_schema));
            for sql_type in [SqlType::array_of(sql_type.clone()), sql_type] {
                assert_eq!(SqlType::of_field(&sql_type.field("a", true)), Some(sql_type));
            }
        }
    }

    #[test]
    fn labels_are_found_by_their_places() {
        let labels = |count: usize| (0..count).rev().map(|label| label.to_string()).collect::<Vec<_>>();
        for count in [1, 5, 40] {
            let one = EnumType { oid: 1, array_oid: 2, schema: None, name: "n".to_owned(), labels: labels(count) };
            let array = StringViewArray::from(vec![Some("0"), None, Some("none")]);
            let last = i32::try_from(count).unwrap();
            assert_eq!(one.places(&array), [Some(last - 1), None, Some(last)]);
            assert!(one.check("0").is_ok() && one.check("none").is_err());
        }
    }
}
