//! What a composite type is that a statement made.

use arrow::datatypes::SchemaRef;
use diligence_base::ids::ObjectId;
use diligence_types::SqlType;
use diligence_types::record_type::{CompositeName, RecordType};
use diligence_types::sql_type::RecordField;

use crate::name::oid_of;
use crate::{DEFAULT_SCHEMA, RelationName};

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
