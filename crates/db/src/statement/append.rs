//! Append: rows that a client sends go into a table without a statement that has them, as COPY … FROM STDIN has it.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_catalog::{DEFAULT_SCHEMA, MemoryRelation, ObjectRef, Relation, RelationName, Resolved};
use diligence_sql::errors::suggest;
use diligence_storage::foreign_error::from_arrow;

use crate::session::Session;

impl Session {
    /// The columns of a table that [`append`](Self::append) can add to. Fails with kind `Input` if there is no such
    /// table or the session may not write it, and with kind `Unsupported` if its rows are not in memory.
    pub fn appendable(&self, schema: Option<&str>, table: &str) -> Result<SchemaRef> {
        Ok(self.memory_relation(schema, table)?.1.schema().clone())
    }

    /// Adds rows to a table in memory: all of them or none. `columns` names the batches' columns, which are converted
    /// to the table's types; columns that are not named are NULL. Gives the number of rows. Fails with kind `Input` if
    /// there is no such table or column or the session may not write it, with kind `Unsupported` if the table's rows
    /// are not in memory or a column that is left out has a default, with kind `Value` if a value does not fit its
    /// column, and with kind `Resource` if there is no memory for the rows.
    pub fn append(
        &self,
        schema: Option<&str>,
        table: &str,
        columns: &[String],
        batches: &[RecordBatch],
    ) -> Result<u64> {
        let (object, relation) = self.memory_relation(schema, table)?;
        let places = relation.schema().fields().iter().map(|field| {
            let place = columns.iter().position(|column| column == field.name());
            if place.is_none() && relation.column_defaults().contains_key(field.name()) {
                let error = Error::unsupported(format!("the column '{}' has a default and is left out", field.name()));
                return Err(error.with_hint("name the column, or use INSERT"));
            }
            Ok(place)
        });
        let places = places.collect::<Result<Vec<_>>>()?;
        for column in columns {
            if relation.schema().column_with_name(column).is_none() {
                let names = relation.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
                let error = Error::input(format!("the table '{table}' has no column '{column}'")).with_code("42703");
                return Err(suggest(error, column, &names));
            }
        }
        let mut memory = self.database().engine().table_memory().reservation("a table in memory");
        let mut rows = 0;
        let mut full = Vec::with_capacity(batches.len());
        for batch in batches {
            rows += batch.num_rows() as u64;
            let arrays = places.iter().zip(relation.schema().fields()).map(|(place, field)| match place {
                Some(place) => batch.column(*place).clone(),
                None => new_null_array(field.data_type(), batch.num_rows()),
            });
            let arrays = arrays.collect::<Vec<_>>();
            memory.grow(arrays.iter().map(|array| array.get_array_memory_size()).sum())?;
            let fields = relation
                .schema()
                .fields()
                .iter()
                .zip(&arrays)
                .map(|(field, array)| Field::new(field.name(), array.data_type().clone(), true));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            full.push(RecordBatch::try_new(schema, arrays).map_err(from_arrow)?);
        }
        drop(relation);
        self.database().catalog().insert(&object, &full, memory, false)?;
        Ok(rows)
    }

    fn memory_relation(&self, schema: Option<&str>, table: &str) -> Result<(ObjectRef, Arc<MemoryRelation>)> {
        let name = RelationName::new(schema.unwrap_or(DEFAULT_SCHEMA), table);
        self.rights().check_write(&name)?;
        match self.snapshot().get(&name) {
            Some(found) => {
                if let Resolved::Object(object) = &found
                    && let Relation::Memory(memory) = &object.relation
                {
                    return Ok((object.reference(), memory.clone()));
                }
                let error =
                    Error::unsupported(format!("'{name}' is {}; rows are added to tables in memory", found.a_kind()));
                Err(error.with_code("42809").with_hint("CREATE TABLE makes a table in memory"))
            }
            None => {
                let names = self.relation_names();
                let error = Error::input(format!("no table is named '{name}'")).with_code("42P01");
                Err(suggest(error, &name.to_string(), &names))
            }
        }
    }
}
