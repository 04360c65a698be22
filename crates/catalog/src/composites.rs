//! The composite types among the names of a catalog.

use std::sync::Arc;

use diligence_types::SqlType;
use diligence_types::record_type::RecordType;

use crate::{CatalogSnapshot, Object, Relation};

impl Object {
    /// The composite type that it is.
    pub fn composite_type(&self) -> Option<RecordType> {
        match &self.relation {
            Relation::Composite(definition) => Some(definition.of_object(self.id, &self.name)),
            _ => None,
        }
    }

    /// The type that it is.
    pub fn made_type(&self) -> Option<SqlType> {
        let of_enum = || self.enum_type().map(|one| SqlType::Enum(Arc::new(one)));
        let of_domain = || self.domain().map(|(one, _)| SqlType::Domain(Arc::new(one)));
        self.composite_type().map(SqlType::Record).or_else(of_enum).or_else(of_domain)
    }
}

impl CatalogSnapshot {
    /// The composite types, in the order of their names.
    pub fn composites(&self) -> impl Iterator<Item = (&Arc<Object>, RecordType)> {
        self.all_objects().filter_map(|object| Some((object, object.composite_type()?)))
    }
}
