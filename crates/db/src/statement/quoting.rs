//! Names and texts as the statements of EXPORT DATABASE have them.

use diligence_catalog::RelationName;

/// A name in double quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A relation with its schema.
pub(super) fn qualified(name: &RelationName) -> String {
    format!("{}.{}", quoted(&name.schema), quoted(&name.name))
}

/// A text in single quotes.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
