//! What a domain is that a statement made.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use diligence_base::ids::ObjectId;
use diligence_types::SqlType;
use diligence_types::domain_type::DomainType;
use sqlparser::ast::Expr;

use crate::name::oid_of;
use crate::rules::Check;
use crate::{DEFAULT_SCHEMA, RelationName};

/// A domain as it was made.
#[derive(Clone, Debug)]
pub struct DomainDefinition {
    /// The type whose values it takes.
    pub base: SqlType,
    /// What a column of it gets where nothing else is said.
    pub default: Option<Arc<Expr>>,
    /// Whether NULL is none of its values.
    pub is_not_null: bool,
    /// What its values fulfil, with VALUE for each, in the order of their names.
    pub checks: Vec<Check>,
    /// The id of the type of its arrays.
    pub array: ObjectId,
}

impl DomainDefinition {
    /// Its base type and whether it takes NULL, as a column.
    pub fn column(&self) -> FieldRef {
        Arc::new(self.base.field("value", !self.is_not_null))
    }

    /// A domain as [`column`](Self::column) and the rest of it say. `None` if the column is of no type.
    pub fn of_column(
        column: &FieldRef,
        default: Option<Arc<Expr>>,
        checks: Vec<Check>,
        array: ObjectId,
    ) -> Option<Self> {
        let base = SqlType::of_field(column)?;
        Some(Self { base, default, is_not_null: !column.is_nullable(), checks, array })
    }

    /// The type, where it is an object's.
    pub fn of_object(&self, id: ObjectId, name: &RelationName) -> DomainType {
        DomainType {
            oid: oid_of(id),
            array_oid: oid_of(self.array),
            schema: Some(name.schema.clone()).filter(|schema| schema != DEFAULT_SCHEMA),
            name: name.name.clone(),
            base: self.base.clone(),
        }
    }
}
