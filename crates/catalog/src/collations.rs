//! Collations that statements make.
//!
//! Among the objects of a schema a collation has a name that no relation can have: a collation and a table may be
//! called alike. Columns note all of a collation, so nothing is looked up where texts are compared.

use std::sync::Arc;

use diligence_types::collation::{Collation, TextOrder};

use crate::{CatalogSnapshot, DEFAULT_SCHEMA, Object, Relation, RelationName};

/// What the names of collations begin with among those of a schema's objects.
const PREFIX: &str = "\u{1}collation ";

/// The texts in which a database on disk keeps an order: the locale, and whether it is deterministic.
pub fn kept_order(order: &TextOrder) -> Vec<String> {
    match order {
        TextOrder::Icu { locale, is_deterministic } => vec![locale.clone(), is_deterministic.to_string()],
        TextOrder::Bytes | TextOrder::Undecided(_) => vec![],
    }
}

/// The order that was kept in these texts.
pub fn order_of_kept(texts: &[String]) -> TextOrder {
    match texts {
        [locale, is_deterministic] => {
            TextOrder::Icu { locale: locale.clone(), is_deterministic: is_deterministic == "true" }
        }
        _ => TextOrder::Bytes,
    }
}

impl RelationName {
    /// The name of a collation.
    pub fn of_collation(schema: &str, name: &str) -> Self {
        Self::new(schema, format!("{PREFIX}{name}"))
    }

    /// The collation's name, if it is one's.
    pub fn collation(&self) -> Option<&str> {
        self.name.strip_prefix(PREFIX)
    }
}

impl Object {
    /// The collation that it is.
    pub fn collation(&self) -> Option<Collation> {
        let Relation::Collation(order) = &self.relation else { return None };
        let name = self.name.collation()?.to_owned();
        let schema = Some(self.name.schema.clone()).filter(|schema| schema != DEFAULT_SCHEMA);
        Some(Collation { oid: self.oid(), schema, name, order: TextOrder::clone(order) })
    }
}

impl CatalogSnapshot {
    /// The collations that statements made, in the order of their names.
    pub fn collations(&self) -> impl Iterator<Item = (&Arc<Object>, Collation)> {
        self.all_objects().filter_map(|object| Some((object, object.collation()?)))
    }
}
