//! A table in memory that statements change.
//!
//! A change makes a new [`MemoryTable`]; a statement that began before it goes on reading the old one.
//!
//! Invariant: the memory of a batch is reserved as long as any state that has the batch lives, in the catalog or in a
//! statement that reads it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Constraints, Statistics};
use datafusion::logical_expr::Expr;
use diligence_base::ids::TableVersion;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};
use diligence_engine::memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::memory::MemoryTable;
use diligence_storage::{ScanRequest, Table, TableScan};
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
    state: RwLock<Arc<State>>,
    /// Held by whoever makes the next state, so that readers never wait for the copying.
    writer: Mutex<()>,
}

/// The rows at one moment.
#[derive(Debug)]
struct State {
    table: MemoryTable,
    /// What each of the table's batches is counted in. Batches of one statement share a reservation.
    memory: Vec<Arc<Reservation>>,
}

impl State {
    /// A state of these batches, which have at least one row each.
    fn new(
        name: &str,
        schema: &SchemaRef,
        pieces: Vec<(RecordBatch, Arc<Reservation>)>,
        catalog: &Catalog,
    ) -> Result<Self> {
        let (batches, memory) = pieces.into_iter().unzip();
        Ok(Self { table: MemoryTable::new(name, schema.clone(), batches, catalog.next_version())?, memory })
    }

    fn pieces(&self) -> impl Iterator<Item = (RecordBatch, Arc<Reservation>)> {
        self.table.batches().iter().cloned().zip(self.memory.iter().cloned())
    }
}

impl Table for State {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn version(&self) -> TableVersion {
        self.table.version()
    }

    fn statistics(&self) -> Statistics {
        self.table.statistics()
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        self.table.scan(request)
    }

    fn describe(&self) -> String {
        self.table.describe()
    }
}

impl MemoryRelation {
    /// A table of these rows, which are counted in `memory`. The columns take the logical types that all tables have
    /// (see
    /// [`table_schema`]).
    pub fn new(
        name: impl Into<String>,
        schema: &Schema,
        batches: &[RecordBatch],
        memory: Reservation,
        catalog: &Catalog,
    ) -> Result<Self> {
        let name = name.into();
        let schema = table_schema(schema);
        let memory = Arc::new(memory);
        let pieces = filled(batches, &schema)?.into_iter().map(|batch| (batch, memory.clone())).collect();
        Ok(Self {
            state: RwLock::new(Arc::new(State::new(&name, &schema, pieces, catalog)?)),
            name,
            schema,
            constraints: Constraints::default(),
            column_defaults: HashMap::new(),
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
        self.state.read().table.rows()
    }

    /// Adds rows, or puts them in place of all present ones. All or nothing; a NULL in a column that allows none is an
    /// error. The new rows are counted in `memory`.
    pub fn insert(
        &self,
        rows: &[RecordBatch],
        mut memory: Reservation,
        replace: bool,
        catalog: &Catalog,
    ) -> Result<()> {
        let rows = filled(rows, &self.schema)?;
        let _writer = self.writer.lock();
        // A batch without a reservation is counted in the statement's.
        let mut pieces: Vec<(RecordBatch, Option<Arc<Reservation>>)> = Vec::new();
        if !replace {
            pieces.extend(self.state.read().pieces().map(|(batch, counted)| (batch, Some(counted))));
        }
        let mut copied_bytes = 0;
        for batch in rows {
            // Many small INSERTs must not leave many small batches behind.
            match pieces.last_mut() {
                Some((last, counted)) if last.num_rows() + batch.num_rows() <= BATCH_ROWS_MAX => {
                    let (before_bytes, batch_bytes) = (last.get_array_memory_size(), batch.get_array_memory_size());
                    let mut both = memory.sibling();
                    both.grow(before_bytes + batch_bytes)?;
                    *last = concat_batches(&self.schema, [&*last, &batch]).map_err(from_arrow)?;
                    copied_bytes += batch_bytes;
                    if counted.replace(Arc::new(both)).is_none() {
                        copied_bytes += before_bytes;
                    }
                }
                _ => pieces.push((batch, None)),
            }
        }
        memory.shrink(copied_bytes);
        let memory = Arc::new(memory);
        let pieces = pieces.into_iter().map(|(batch, counted)| (batch, counted.unwrap_or_else(|| memory.clone())));
        self.become_state(pieces.collect(), catalog)
    }

    /// Takes all rows away.
    pub fn truncate(&self, catalog: &Catalog) -> Result<()> {
        let _writer = self.writer.lock();
        self.become_state(Vec::new(), catalog)
    }

    fn become_state(&self, pieces: Vec<(RecordBatch, Arc<Reservation>)>, catalog: &Catalog) -> Result<()> {
        let next = Arc::new(State::new(&self.name, &self.schema, pieces, catalog)?);
        let before = std::mem::replace(&mut *self.state.write(), next);
        catalog.note_change();
        // Freeing many rows takes a while: not while readers wait for the lock.
        drop(before);
        Ok(())
    }
}

/// The batches that have rows, in the table's types.
fn filled(batches: &[RecordBatch], schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    batches.iter().filter(|batch| batch.num_rows() > 0).map(|batch| conform(batch, schema)).collect()
}

/// The logical types that a table's columns have: `Utf8View` for strings, plain values for dictionaries and run-end
/// encodings, `Decimal128` for narrow decimals. Binaries stay as they are: DataFusion does not mix them with views
/// everywhere.
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
    use diligence_engine::memory::QueryMemory;

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
        let memory = QueryMemory::unbounded();
        let counted = |bytes| {
            let mut reservation = memory.reservation("a table in memory");
            reservation.grow(bytes).unwrap();
            reservation
        };
        let table =
            MemoryRelation::new("t", &first.schema(), std::slice::from_ref(&first), counted(500), &catalog).unwrap();
        assert_eq!(table.schema().field(1).data_type(), &DataType::Utf8View);
        let before = table.state();
        table.insert(&[batch(&[3])], counted(300), false, &catalog).unwrap();
        assert_eq!(table.rows(), 3);
        assert_eq!(table.state().scan(&Default::default()).unwrap().clusters.len(), 1, "small batches are joined");
        assert_eq!(before.statistics().num_rows.get_value(), Some(&2));
        assert_ne!(before.version(), table.state().version());
        assert!(memory.reserved_bytes() > 500, "the old state, which somebody reads, and the new one");
        let after = memory.reserved_bytes() - 500;
        drop(before);
        assert_eq!(memory.reserved_bytes(), after, "the new state only; the statement's own is part of it");
        table.truncate(&catalog).unwrap();
        assert_eq!((table.rows(), memory.reserved_bytes()), (0, 0));
        table.insert(&[first], counted(500), false, &catalog).unwrap();
        table.insert(&[batch(&[7])], counted(40), true, &catalog).unwrap();
        assert_eq!((table.rows(), memory.reserved_bytes()), (1, 40));
        // A large batch stays what it is; the small ones behind it are put together, and counted as that.
        let large = batch(&(0..BATCH_ROWS_MAX as i64).collect::<Vec<_>>());
        let rows = [large.clone(), batch(&[1]), batch(&[2])];
        let bytes = rows.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        table.insert(&rows, counted(bytes), true, &catalog).unwrap();
        assert_eq!(table.state().scan(&Default::default()).unwrap().clusters.len(), 2);
        assert!(memory.reserved_bytes().abs_diff(bytes) < bytes / 10, "{} of {bytes}", memory.reserved_bytes());
        drop(table);
        assert_eq!(memory.reserved_bytes(), 0);
    }
}
