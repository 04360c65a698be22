//! Domains that statements make: what they demand of values, and what becomes of them.
//!
//! What a domain demands is looked up where values are taken, so a change of it leaves tables as they are. A column
//! notes a domain's name, which changes with it.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use diligence_base::Result;
use diligence_base::ids::ObjectId;
use diligence_memory::QueryMemory;
use diligence_types::SqlType;
use diligence_types::domain_type::DomainType;
use sqlparser::ast::Expr;

use crate::name::oid_of;
use crate::rules::Check;
use crate::{Catalog, CatalogSnapshot, DEFAULT_SCHEMA, Object, ObjectRef, Relation, RelationName, TableAlteration};

/// Who holds the memory of rows in tables.
const HOLDER: &str = "a table in memory";

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

impl Object {
    /// The domain that it is, and what it demands.
    pub fn domain(&self) -> Option<(DomainType, &Arc<DomainDefinition>)> {
        match &self.relation {
            Relation::Domain(definition) => Some((definition.of_object(self.id, &self.name), definition)),
            _ => None,
        }
    }
}

impl CatalogSnapshot {
    /// The domains, in the order of their names.
    pub fn domains(&self) -> impl Iterator<Item = (&Arc<Object>, DomainType, &Arc<DomainDefinition>)> {
        self.all_objects().filter_map(|object| {
            let (domain, definition) = object.domain()?;
            Some((object, domain, definition))
        })
    }

    /// The domain of a number.
    pub fn domain_of(&self, oid: u32) -> Option<&Arc<Object>> {
        self.all_objects().find(|object| object.oid() == oid && matches!(object.relation, Relation::Domain(_)))
    }
}

/// Whether a type is a domain, or one above it.
pub(crate) fn is_of_domain(sql_type: &SqlType, oid: u32) -> bool {
    match sql_type {
        SqlType::Domain(one) => one.oid == oid || is_of_domain(&one.base, oid),
        _ => false,
    }
}

/// A type with another version of a domain.
fn with_domain(sql_type: &SqlType, domain: &Arc<DomainType>) -> SqlType {
    match sql_type {
        SqlType::Domain(one) if one.oid == domain.oid => SqlType::Domain(domain.clone()),
        SqlType::Domain(one) => {
            SqlType::Domain(Arc::new(DomainType { base: with_domain(&one.base, domain), ..one.as_ref().clone() }))
        }
        other => other.clone(),
    }
}

impl Catalog {
    /// Makes a domain another one, with the columns and domains that note its name. To be called in a block: it makes
    /// several changes. Fails with kind `Input` if the domain has been dropped or its name is taken, and as a log
    /// fails.
    pub fn change_domain(
        &self,
        object: &ObjectRef,
        definition: &DomainDefinition,
        name: &RelationName,
        memory: &QueryMemory,
    ) -> Result<()> {
        let is_renamed = *name != object.name;
        if is_renamed {
            self.rename(object, name)?;
        }
        let own = ObjectRef { id: object.id, name: name.clone() };
        self.replace(&own, Relation::Domain(Arc::new(definition.clone())))?;
        if !is_renamed {
            return Ok(());
        }
        let domain = Arc::new(definition.of_object(object.id, name));
        for other in self.snapshot().all_objects() {
            match &other.relation {
                Relation::Domain(above) if is_of_domain(&above.base, domain.oid) => {
                    let base = with_domain(&above.base, &domain);
                    let above = super::DomainDefinition { base, ..above.as_ref().clone() };
                    self.replace(&other.reference(), Relation::Domain(Arc::new(above)))?;
                }
                Relation::Native(rows) => {
                    let has = |field: &FieldRef| {
                        SqlType::of_field(field).is_some_and(|sql_type| is_of_domain(&sql_type, domain.oid))
                    };
                    if !rows.schema().fields().iter().any(has) {
                        continue;
                    }
                    let field = |field: &FieldRef| match SqlType::of_field(field) {
                        Some(sql_type) if has(field) => {
                            let sql_type = with_domain(&sql_type, &domain);
                            Arc::new(sql_type.field(field.name(), field.is_nullable()))
                        }
                        _ => field.clone(),
                    };
                    let columns = Arc::new(Schema::new(rows.schema().fields().iter().map(field).collect::<Vec<_>>()));
                    let places = (0..columns.fields().len()).map(Some).collect();
                    let rules = rows.rules().clone();
                    let alteration = TableAlteration { name: other.name.clone(), columns, places, rules };
                    self.alter(&other.reference(), other.version, alteration, &memory.reservation(HOLDER))?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
