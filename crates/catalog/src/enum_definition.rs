//! What an enum is that a statement made.

use diligence_base::ids::ObjectId;
use diligence_types::enum_type::EnumType;

use crate::name::oid_of;
use crate::{DEFAULT_SCHEMA, RelationName};

/// An enum as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumDefinition {
    /// Its values, in their order.
    pub labels: Vec<String>,
    /// The id of the type of its arrays.
    pub array: ObjectId,
}

impl EnumDefinition {
    /// The type, where it is an object's.
    pub fn of_object(&self, id: ObjectId, name: &RelationName) -> EnumType {
        EnumType {
            oid: oid_of(id),
            array_oid: oid_of(self.array),
            schema: Some(name.schema.clone()).filter(|schema| schema != DEFAULT_SCHEMA),
            name: name.name.clone(),
            labels: self.labels.clone(),
        }
    }
}
