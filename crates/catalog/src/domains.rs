//! Domains that statements make: what they demand of values, and what becomes of them.
//!
//! What a domain demands is looked up where values are taken, so a change of it leaves tables as they are. A column
//! notes a domain's name, which changes with it.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use diligence_base::Result;
use diligence_memory::QueryMemory;
use diligence_types::SqlType;
use diligence_types::domain_type::DomainType;

use crate::domain_definition::DomainDefinition;
use crate::{Catalog, CatalogSnapshot, Object, ObjectRef, Relation, RelationName, TableAlteration};

/// Who holds the memory of rows in tables.
const HOLDER: &str = "a table in memory";

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
                    let above = DomainDefinition { base, ..above.as_ref().clone() };
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
