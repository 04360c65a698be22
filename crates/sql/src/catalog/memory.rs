//! A table in memory that statements change.
//!
//! A change makes a new [`MemoryTable`]; a statement that began before it goes on reading the old one.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Constraints;
use datafusion::logical_expr::Expr;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};
use diligence_storage::Table;
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::memory::MemoryTable;
use parking_lot::{Mutex, RwLock};

use super::Catalog;

/// A table in memory: what it was declared with, and its present state.
#[derive(Debug)]
pub struct MemoryRelation {
    name: String,
    schema: SchemaRef,
    /// As declared; not enforced.
    pub constraints: Constraints,
    /// Values for columns that an INSERT leaves out.
    pub column_defaults: HashMap<String, Expr>,
    state: RwLock<Arc<MemoryTable>>,
    /// Held by whoever makes the next state, so that readers never wait for the copying.
    writer: Mutex<()>,
}

impl MemoryRelation {
    /// A table of these rows. The columns take the logical types that all tables have (see [`table_schema`]).
    pub fn new(name: impl Into<String>, schema: &Schema, batches: Vec<RecordBatch>, catalog: &Catalog) -> Result<Self> {
        let name = name.into();
        let schema = table_schema(schema);
        let batches = batches.iter().map(|batch| conform(batch, &schema)).collect::<Result<Vec<_>>>()?;
        let state = MemoryTable::new(&name, schema.clone(), batches, catalog.next_version())?;
        Ok(Self {
            name,
            schema,
            constraints: Constraints::default(),
            column_defaults: HashMap::new(),
            state: RwLock::new(Arc::new(state)),
            writer: Mutex::new(()),
        })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The present state.
    pub fn state(&self) -> Arc<dyn Table> {
        self.state.read().clone()
    }

    /// The rows at present.
    pub fn rows(&self) -> usize {
        self.state.read().rows()
    }

    /// Adds rows, or puts them in place of all present ones. All or nothing; a NULL in a column that allows none is an error.
    pub fn insert(&self, rows: &[RecordBatch], replace: bool, catalog: &Catalog) -> Result<()> {
        let rows = rows.iter().map(|batch| conform(batch, &self.schema)).collect::<Result<Vec<_>>>()?;
        let _writer = self.writer.lock();
        let mut batches = if replace { Vec::new() } else { self.state.read().batches().to_vec() };
        for batch in rows {
            // Many small INSERTs must not leave many small batches behind.
            match batches.last_mut() {
                Some(last) if last.num_rows() + batch.num_rows() <= BATCH_ROWS_MAX => {
                    *last = concat_batches(&self.schema, [&*last, &batch]).map_err(from_arrow)?;
                }
                _ => batches.push(batch),
            }
        }
        let next = MemoryTable::new(&self.name, self.schema.clone(), batches, catalog.next_version())?;
        *self.state.write() = Arc::new(next);
        Ok(())
    }
}

/// The logical types that a table's columns have: `Utf8View` for strings, plain values for dictionaries and run-end encodings,
/// `Decimal128` for narrow decimals. Binaries stay as they are: DataFusion does not mix them with views everywhere.
pub fn table_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let data_type = table_type(field.data_type());
        Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn table_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Dictionary(_, values) => table_type(values),
        DataType::RunEndEncoded(_, values) => table_type(values.data_type()),
        other => other.clone(),
    }
}

/// The batch with exactly the schema's types. Fails where a value does not fit.
fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.num_columns() != schema.fields().len() {
        return Err(Error::bug(format!(
            "rows of {} columns for a table of {}",
            batch.num_columns(),
            schema.fields().len()
        )));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if !field.is_nullable() && column.null_count() > 0 {
            return Err(Error::value(format!("the column '{}' does not allow NULL", field.name())));
        }
        if column.data_type() == field.data_type() {
            return Ok(column.clone());
        }
        cast_with_options(column, field.data_type(), &options).map_err(from_arrow)
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(from_arrow)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};

    use super::*;

    fn batch(values: &[i64]) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("s", DataType::Utf8, true)]);
        let texts = values.iter().map(|value| value.to_string()).collect::<Vec<_>>();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(values.to_vec())), Arc::new(StringArray::from(texts))];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    #[test]
    fn a_reader_keeps_its_state_while_others_insert() {
        let catalog = Catalog::default();
        let first = batch(&[1, 2]);
        let table = MemoryRelation::new("t", &first.schema(), vec![first.clone()], &catalog).unwrap();
        assert_eq!(table.schema().field(1).data_type(), &DataType::Utf8View);
        let before = table.state();
        table.insert(&[batch(&[3])], false, &catalog).unwrap();
        assert_eq!(table.rows(), 3);
        assert_eq!(table.state().scan(&Default::default()).unwrap().clusters.len(), 1, "small batches are joined");
        assert_eq!(before.statistics().num_rows.get_value(), Some(&2));
        assert_ne!(before.version(), table.state().version());
        table.insert(&[], true, &catalog).unwrap();
        assert_eq!(table.rows(), 0);
    }
}
