//! Enums that statements make, and what becomes of tables when their labels change.
//!
//! A column notes its type with all labels in its field, so a table is another version of itself when its types' labels
//! change. Its rows hold labels as texts: they change when one is renamed.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};
use diligence_memory::{QueryMemory, Reservation};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;
use diligence_types::enum_type::EnumType;
use sqlparser::ast::{self, Expr};

use crate::composites::{columns_with, has_made_type};
use crate::{
    Catalog, CatalogSnapshot, EnumDefinition, NativeTable, NewRows, Object, ObjectRef, Relation, RelationName,
    TableAlteration,
};

/// Who holds the memory of rows in tables.
const HOLDER: &str = "a table in memory";

/// What becomes of an enum.
#[derive(Clone, Debug)]
pub struct EnumChange {
    /// What it is from now on.
    pub definition: EnumDefinition,
    /// Its name from now on.
    pub name: RelationName,
    /// A label that has another name from now on.
    pub renamed: Option<(String, String)>,
}

impl Object {
    /// The enum that it is.
    pub fn enum_type(&self) -> Option<EnumType> {
        match &self.relation {
            Relation::Enum(definition) => Some(definition.of_object(self.id, &self.name)),
            _ => None,
        }
    }
}

impl CatalogSnapshot {
    /// The enums, in the order of their names.
    pub fn enums(&self) -> impl Iterator<Item = (&Arc<Object>, EnumType)> {
        self.all_objects().filter_map(|object| Some((object, object.enum_type()?)))
    }

    /// The columns of tables that have a type or a collation that a statement made, or arrays of it.
    pub fn columns_of_type(&self, oid: u32) -> Vec<(&Arc<Object>, String)> {
        let mut found = Vec::new();
        for object in self.all_objects() {
            let Relation::Native(table) = &object.relation else { continue };
            let of_it = table.schema().fields().iter().filter(|field| has_enum(field, oid).is_some());
            found.extend(of_it.map(|field| (object, field.name().clone())));
        }
        found
    }
}

/// Whether a column's values are, or have in them, an enum; and whether nothing but its text forms has to change.
fn has_enum(field: &FieldRef, oid: u32) -> Option<bool> {
    let sql_type = SqlType::of_field(field)?;
    has_made_type(&sql_type, oid).then(|| match &sql_type {
        SqlType::Enum(_) => true,
        SqlType::Array(element) => matches!(**element, SqlType::Enum(_)),
        _ => false,
    })
}

/// Whether a type is an enum, or an array of it.
fn is_of(sql_type: &SqlType, oid: u32) -> bool {
    matches!(sql_type.base().innermost(), SqlType::Enum(one) if one.oid == oid)
}

/// Fails with 0A000 if a column has an enum within another type: its values cannot get another label there.
fn refuse_inside(columns: &SchemaRef, one: &EnumType) -> Result<()> {
    match columns.fields().iter().find(|field| has_enum(field, one.oid) == Some(false)) {
        None => Ok(()),
        Some(field) => {
            let message =
                format!("the labels of {one} cannot change while column \"{}\" has it inside of others", field.name());
            Err(Error::unsupported(message).with_code("0A000"))
        }
    }
}

impl Catalog {
    /// An id for what belongs to an object.
    pub fn new_id(&self) -> ObjectId {
        self.next_id()
    }

    /// Makes an enum another one, with the columns that have it. Rows that have a label with another name are counted
    /// in `memory`. To be called in a block: it makes several changes. Fails with kind `Input` if the enum has been
    /// dropped or its name is taken, with 0A000 where a label gets another name and a column has it within another
    /// type, as rows are read, and as a log fails.
    pub fn change_enum(&self, object: &ObjectRef, change: &EnumChange, memory: &QueryMemory) -> Result<()> {
        let EnumChange { definition, name, renamed } = change;
        let one = Arc::new(definition.of_object(object.id, name));
        if *name != object.name {
            self.rename(object, name)?;
        }
        if let Some((_, domain, _)) = self.snapshot().domains().find(|(_, domain, _)| is_of(&domain.base, one.oid)) {
            let message = format!("{one} cannot change while the domain {domain} is of it");
            return Err(Error::unsupported(message).with_code("0A000"));
        }
        let own = ObjectRef { id: object.id, name: name.clone() };
        self.replace(&own, Relation::Enum(Arc::new(definition.clone())))?;
        let changed = SqlType::Enum(one.clone());
        self.change_within_composites(&changed)?;
        let snapshot = self.snapshot();
        for table in snapshot.all_objects() {
            let Relation::Native(rows) = &table.relation else { continue };
            let Some(columns) = columns_with(rows.schema(), &changed) else { continue };
            match renamed {
                None => {
                    let places = (0..columns.fields().len()).map(Some).collect();
                    let rules = rows.rules().clone();
                    let alteration = TableAlteration { name: table.name.clone(), columns, places, rules };
                    self.alter(&table.reference(), table.version, alteration, &memory.reservation(HOLDER))?;
                }
                Some((old, new)) => {
                    refuse_inside(rows.schema(), &one)?;
                    let next = self.with_label(rows, &columns, one.oid, (old, new), memory)?;
                    self.rewrite(&table.reference(), table.version, next, &[], (vec![], 0))?;
                }
            }
        }
        Ok(())
    }

    /// A table whose rows have another name for a label.
    fn with_label(
        &self,
        rows: &NativeTable,
        columns: &SchemaRef,
        oid: u32,
        (old, new): (&str, &str),
        memory: &QueryMemory,
    ) -> Result<NativeTable> {
        let mut counted: Reservation = memory.reservation(HOLDER);
        let mut batches = Vec::new();
        for piece in rows.pieces() {
            let read = piece.read()?;
            let changed =
                read.columns().iter().zip(columns.fields()).map(|(column, field)| match has_enum(field, oid) {
                    None => Ok(column.clone()),
                    Some(_) => renamed(column, old, new),
                });
            let changed = changed.collect::<Result<Vec<_>>>()?;
            let batch = RecordBatch::try_new(columns.clone(), changed).map_err(from_arrow)?;
            counted.grow(batch.get_array_memory_size())?;
            batches.push(NewRows::Memory(batch));
        }
        let version = self.next_table_version();
        let mut rules = rows.rules().clone();
        for field in columns.fields().iter().filter(|field| has_enum(field, oid).is_some()) {
            if let Some(default) = rules.defaults.get_mut(field.name()) {
                *default = with_literal(default, old, new);
            }
        }
        let key_store = self.key_store_of(rows.name());
        NativeTable::of_rows_under(rows.name(), columns, batches, rules, counted, key_store, version)
    }
}

/// An expression with another text for a literal.
pub(crate) fn with_literal(expression: &Expr, old: &str, new: &str) -> Arc<Expr> {
    let mut copy = expression.clone();
    let _ = ast::visit_expressions_mut(&mut copy, |expression| {
        if let Expr::Value(value) = expression
            && let ast::Value::SingleQuotedString(text) = &mut value.value
            && text == old
        {
            new.clone_into(text);
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    Arc::new(copy)
}

/// The values of a column with another text for one of them.
fn renamed(column: &ArrayRef, old: &str, new: &str) -> Result<ArrayRef> {
    if let Some(texts) = column.as_string_view_opt() {
        let label = |label: &str| if label == old { new.to_owned() } else { label.to_owned() };
        let changed = texts.iter().map(|text| text.map(label));
        return Ok(Arc::new(changed.collect::<StringViewArray>()));
    }
    let list = column.as_list_opt::<i32>().ok_or_else(|| Error::bug("labels are neither texts nor lists of them"))?;
    let DataType::List(item) = column.data_type() else { return Err(Error::bug("a list is none")) };
    let values = renamed(list.values(), old, new)?;
    let list = arrow::array::ListArray::try_new(item.clone(), list.offsets().clone(), values, list.nulls().cloned());
    Ok(Arc::new(list.map_err(from_arrow)?))
}
