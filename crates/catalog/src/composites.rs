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
}

/// A type with another version of a composite type in it; `None` if it does not have it.
fn with_composite(sql_type: &SqlType, one: &RecordType) -> Option<SqlType> {
    match sql_type {
        SqlType::Record(own) => {
            let number = |record: &RecordType| record.composite_name().map(|name| name.oid);
            if number(own).is_some() && number(own) == number(one) {
                return Some(SqlType::Record(one.clone()));
            }
            let fields = own.iter().map(|field| (field, with_composite(&field.sql_type, one))).collect::<Vec<_>>();
            fields.iter().any(|(_, changed)| changed.is_some()).then(|| {
                let field = |(field, changed): (&RecordField, Option<SqlType>)| RecordField {
                    name: field.name.clone(),
                    sql_type: changed.unwrap_or_else(|| field.sql_type.clone()),
                };
                SqlType::Record(own.with(fields.into_iter().map(field).collect()))
            })
        }
        SqlType::Array(element) => with_composite(element, one).map(SqlType::array_of),
        SqlType::Map(pair) => {
            let (key, value) = (with_composite(&pair.0, one), with_composite(&pair.1, one));
            (key.is_some() || value.is_some()).then(|| {
                let both = (key.unwrap_or_else(|| pair.0.clone()), value.unwrap_or_else(|| pair.1.clone()));
                SqlType::Map(both.into())
            })
        }
        _ => None,
    }
}

/// Columns with another version of a composite type; `None` if none has it.
fn columns_with(columns: &SchemaRef, one: &RecordType) -> Option<SchemaRef> {
    let changed = |field: &FieldRef| with_composite(&SqlType::of_field(field)?, one);
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
    /// Gives a composite type other columns. Fails with kind `Input` if the type has been dropped, and as a log fails.
    pub fn change_composite(&self, object: &ObjectRef, definition: &Arc<CompositeDefinition>) -> Result<()> {
        self.replace(object, Relation::Composite(definition.clone()))
    }

    /// Gives a composite type another name, with the columns of tables and views that note it. To be called in a block:
    /// it makes several changes. Fails with kind `Input` if the type has been dropped or the name is taken, and as a
    /// log fails.
    pub fn rename_composite(&self, object: &ObjectRef, name: &RelationName, memory: &QueryMemory) -> Result<()> {
        self.rename(object, name)?;
        let snapshot = self.snapshot();
        let one = snapshot.get(name).and_then(|object| object.composite_type());
        let one = one.ok_or_else(|| Error::bug("a composite type is none"))?;
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
        Ok(())
    }
}
