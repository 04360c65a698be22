//! The composite types among the names of a catalog.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_memory::QueryMemory;
use diligence_types::SqlType;
use diligence_types::record_type::RecordType;
use diligence_types::sql_type::RecordField;

use crate::{
    Catalog, CatalogSnapshot, CompositeDefinition, Object, ObjectRef, Relation, RelationName, TableAlteration, View,
};

/// Who holds the memory of rows in tables.
const HOLDER: &str = "a table in memory";

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

    /// The attributes of composite types that are of a type that a statement made, or have it in them.
    pub fn attributes_of_type(&self, oid: u32) -> Vec<(&Arc<Object>, String)> {
        let mut found = Vec::new();
        for object in self.all_objects() {
            let Relation::Composite(definition) = &object.relation else { continue };
            let is_of_it = |field: &&FieldRef| SqlType::of_field(field).is_some_and(|own| has_made_type(&own, oid));
            let of_it = definition.columns.fields().iter().filter(is_of_it);
            found.extend(of_it.map(|field| (object, field.name().clone())));
        }
        found
    }
}

/// Whether a type that a statement made is a type or is in it: in its elements, its columns, or what a domain is of.
pub fn has_made_type(sql_type: &SqlType, oid: u32) -> bool {
    match sql_type {
        SqlType::Enum(one) => one.oid == oid,
        SqlType::Domain(one) => one.oid == oid || has_made_type(&one.base, oid),
        SqlType::Collated(one) => one.collation.oid == oid,
        SqlType::Array(element) => has_made_type(element, oid),
        SqlType::Record(fields) if fields.composite_name().is_some_and(|name| name.oid == oid) => true,
        SqlType::Record(fields) => fields.iter().any(|field| has_made_type(&field.sql_type, oid)),
        SqlType::Map(pair) => has_made_type(&pair.0, oid) || has_made_type(&pair.1, oid),
        _ => false,
    }
}

/// A type with another version of an enum or a composite type in it; `None` if it does not have it.
fn with_version(sql_type: &SqlType, one: &SqlType) -> Option<SqlType> {
    let number = |record: &RecordType| record.composite_name().map(|name| name.oid);
    match (sql_type, one) {
        (SqlType::Enum(own), SqlType::Enum(other)) if own.oid == other.oid => return Some(one.clone()),
        (SqlType::Record(own), SqlType::Record(other)) if number(own).is_some() && number(own) == number(other) => {
            return Some(one.clone());
        }
        _ => {}
    }
    match sql_type {
        SqlType::Record(own) => {
            let fields = own.iter().map(|field| (field, with_version(&field.sql_type, one))).collect::<Vec<_>>();
            fields.iter().any(|(_, changed)| changed.is_some()).then(|| {
                let field = |(field, changed): (&RecordField, Option<SqlType>)| RecordField {
                    name: field.name.clone(),
                    sql_type: changed.unwrap_or_else(|| field.sql_type.clone()),
                };
                SqlType::Record(own.with(fields.into_iter().map(field).collect()))
            })
        }
        SqlType::Array(element) => with_version(element, one).map(SqlType::array_of),
        SqlType::Map(pair) => {
            let (key, value) = (with_version(&pair.0, one), with_version(&pair.1, one));
            (key.is_some() || value.is_some()).then(|| {
                let both = (key.unwrap_or_else(|| pair.0.clone()), value.unwrap_or_else(|| pair.1.clone()));
                SqlType::Map(both.into())
            })
        }
        _ => None,
    }
}

/// Columns with another version of an enum or a composite type; `None` if none has it.
pub(crate) fn columns_with(columns: &SchemaRef, one: &SqlType) -> Option<SchemaRef> {
    let changed = |field: &FieldRef| with_version(&SqlType::of_field(field)?, one);
    let changed = columns.fields().iter().map(|field| (field, changed(field))).collect::<Vec<_>>();
    changed.iter().any(|(_, changed)| changed.is_some()).then(|| {
        let fields = changed.into_iter().map(|(field, changed)| match changed {
            Some(sql_type) => Arc::new(sql_type.field(field.name(), field.is_nullable())),
            None => field.clone(),
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    })
}

impl Catalog {
    /// Gives a composite type other columns, and the composite types that have it in them. No table has it. To be
    /// called in a block: it makes several changes. Fails with kind `Input` if the type has been dropped, and as a log
    /// fails.
    pub fn change_composite(&self, object: &ObjectRef, definition: &Arc<CompositeDefinition>) -> Result<()> {
        self.replace(object, Relation::Composite(definition.clone()))?;
        self.change_within_composites(&SqlType::Record(definition.of_object(object.id, &object.name)))
    }

    /// Gives the composite types that have a type in them another version of it. Fails as a log fails.
    pub(crate) fn change_within_composites(&self, one: &SqlType) -> Result<()> {
        for other in self.snapshot().all_objects() {
            let Relation::Composite(definition) = &other.relation else { continue };
            let Some(columns) = columns_with(&definition.columns, one) else { continue };
            let definition = CompositeDefinition { columns, array: definition.array };
            self.replace(&other.reference(), Relation::Composite(Arc::new(definition)))?;
        }
        Ok(())
    }

    /// Gives a composite type another name, with the columns of tables, views and other composite types that note it.
    /// To be called in a block: it makes several changes. Fails with kind `Input` if the type has been dropped or the
    /// name is taken, and as a log fails.
    pub fn rename_composite(&self, object: &ObjectRef, name: &RelationName, memory: &QueryMemory) -> Result<()> {
        self.rename(object, name)?;
        let snapshot = self.snapshot();
        let one = snapshot.get(name).and_then(|object| object.composite_type());
        let one = SqlType::Record(one.ok_or_else(|| Error::bug("a composite type is none"))?);
        for other in snapshot.all_objects() {
            match &other.relation {
                Relation::Native(rows) => {
                    let Some(columns) = columns_with(rows.schema(), &one) else { continue };
                    let places = (0..columns.fields().len()).map(Some).collect();
                    let rules = rows.rules().clone();
                    let alteration = TableAlteration { name: other.name.clone(), columns, places, rules };
                    self.alter(&other.reference(), other.version, alteration, &memory.reservation(HOLDER))?;
                }
                Relation::View(view) => {
                    let Some(schema) = columns_with(&view.schema, &one) else { continue };
                    let View { source, depth, triggers, .. } = view.as_ref();
                    let view = View { source: source.clone(), depth: *depth, schema, triggers: triggers.clone() };
                    self.replace(&other.reference(), Relation::View(Arc::new(view)))?;
                }
                _ => {}
            }
        }
        self.change_within_composites(&one)
    }
}
