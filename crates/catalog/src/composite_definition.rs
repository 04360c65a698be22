//! What a composite type is that a statement made.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use diligence_base::ids::ObjectId;
use diligence_types::SqlType;
use diligence_types::record_type::{CompositeName, RecordType};
use diligence_types::sql_type::RecordField;

use crate::name::oid_of;
use crate::{CatalogSnapshot, DEFAULT_SCHEMA, Object, Relation, RelationName};

/// A composite type as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeDefinition {
    /// Its columns.
    pub columns: SchemaRef,
    /// The id of the type of its arrays.
    pub array: ObjectId,
}

impl CompositeDefinition {
    /// The type, where it is an object's.
    pub fn of_object(&self, id: ObjectId, name: &RelationName) -> RecordType {
        let own = CompositeName {
            oid: oid_of(id),
            array_oid: oid_of(self.array),
            schema: Some(name.schema.clone()).filter(|schema| schema != DEFAULT_SCHEMA),
            name: name.name.clone(),
        };
        let fields = self.columns.fields().iter().map(|field| RecordField {
            name: field.name().clone(),
            sql_type: SqlType::of_field(field).unwrap_or(SqlType::Text),
        });
        RecordType::composite(own, fields.collect())
    }
}

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
        self.composite_type().map(SqlType::Record).or_else(of_enum)
    }
}

impl CatalogSnapshot {
    /// The composite types, in the order of their names.
    pub fn composites(&self) -> impl Iterator<Item = (&Arc<Object>, RecordType)> {
        self.all_objects().filter_map(|object| Some((object, object.composite_type()?)))
    }
}
