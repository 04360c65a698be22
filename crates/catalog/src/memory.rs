//! The rows of a table in memory that statements change, in one version.
//!
//! A change makes another [`MemoryRelation`], which the catalog puts in the place of this one; a statement that began
//! before it goes on reading the old one.
//!
//! Invariant: the memory of a batch is reserved as long as any version that has the batch lives, in the catalog, in a
//! snapshot or in a statement that reads it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Statistics;
use diligence_base::ids::TableVersion;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::memory::MemoryTable;
use diligence_storage::{ScanRequest, Table, TableScan};
use sqlparser::ast::Expr;

/// A table in memory: what it was declared with, and its rows in one version.
#[derive(Debug)]
pub struct MemoryRelation {
    declared: Arc<Declared>,
    rows: Arc<MemoryRows>,
}

/// What a table was declared with. All its versions share it.
#[derive(Debug)]
struct Declared {
    name: String,
    schema: SchemaRef,
    column_defaults: HashMap<String, Arc<Expr>>,
}

/// The rows of one version.
#[derive(Debug)]
struct MemoryRows {
    table: MemoryTable,
    /// What each of the table's batches is counted in. Batches of one statement share a reservation.
    memory: Vec<Arc<Reservation>>,
}

impl Table for MemoryRows {
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
    /// A table of these rows, which are counted in `memory`, in a version that no table has had. The columns take the
    /// logical types that all tables have (see [`table_schema`]). Fails with kind `Value` if a value does not fit its
    /// column or is a NULL that the column does not allow.
    pub fn new(
        name: impl Into<String>,
        schema: &Schema,
        batches: &[RecordBatch],
        memory: Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let schema = table_schema(schema);
        let memory = Arc::new(memory);
        let pieces = filled(batches, &schema)?.into_iter().map(|batch| (batch, memory.clone())).collect();
        let declared = Arc::new(Declared { name: name.into(), schema, column_defaults: HashMap::new() });
        Self::of(declared, pieces, version)
    }

    /// The same table with expressions for columns that an INSERT leaves out, by the columns' names.
    #[must_use]
    pub fn with_defaults(self, column_defaults: HashMap<String, Arc<Expr>>) -> Self {
        let Declared { name, schema, .. } = &*self.declared;
        let declared = Declared { name: name.clone(), schema: schema.clone(), column_defaults };
        Self { declared: Arc::new(declared), rows: self.rows }
    }

    /// A version of these batches, which have at least one row each.
    fn of(
        declared: Arc<Declared>,
        pieces: Vec<(RecordBatch, Arc<Reservation>)>,
        version: TableVersion,
    ) -> Result<Self> {
        let (batches, memory) = pieces.into_iter().unzip();
        let table = MemoryTable::new(&declared.name, declared.schema.clone(), batches, version)?;
        Ok(Self { declared, rows: Arc::new(MemoryRows { table, memory }) })
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.declared.name
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.declared.schema
    }

    /// Expressions for columns that an INSERT leaves out, by the columns' names.
    pub fn column_defaults(&self) -> &HashMap<String, Arc<Expr>> {
        &self.declared.column_defaults
    }

    /// The rows, to be scanned.
    pub fn table(&self) -> Arc<dyn Table> {
        self.rows.clone()
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows.table.rows()
    }

    fn pieces(&self) -> impl Iterator<Item = (RecordBatch, Arc<Reservation>)> {
        self.rows.table.batches().iter().cloned().zip(self.rows.memory.iter().cloned())
    }

    /// The version with these rows behind the present ones, or in their place. The new rows are counted in `memory`.
    pub(crate) fn with_rows(
        &self,
        rows: &[RecordBatch],
        mut memory: Reservation,
        replace: bool,
        version: TableVersion,
    ) -> Result<Self> {
        let schema = self.schema();
        // A batch without a reservation is counted in the statement's.
        let mut pieces: Vec<(RecordBatch, Option<Arc<Reservation>>)> = Vec::new();
        if !replace {
            pieces.extend(self.pieces().map(|(batch, counted)| (batch, Some(counted))));
        }
        let mut copied_bytes = 0;
        for batch in filled(rows, schema)? {
            // Many small INSERTs must not leave many small batches behind.
            match pieces.last_mut() {
                Some((last, counted)) if last.num_rows() + batch.num_rows() <= BATCH_ROWS_MAX => {
                    let (before_bytes, batch_bytes) = (last.get_array_memory_size(), batch.get_array_memory_size());
                    let mut both = memory.sibling();
                    both.grow(before_bytes + batch_bytes)?;
                    *last = concat_batches(schema, [&*last, &batch]).map_err(from_arrow)?;
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
        Self::of(self.declared.clone(), pieces.collect(), version)
    }

    /// The version without rows.
    pub(crate) fn without_rows(&self, version: TableVersion) -> Result<Self> {
        Self::of(self.declared.clone(), Vec::new(), version)
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
    use diligence_memory::QueryMemory;

    use super::*;
    use crate::{Catalog, DEFAULT_SCHEMA, Relation, RelationName};

    fn batch(values: &[i64]) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("s", DataType::Utf8, true)]);
        let texts = values.iter().map(|value| value.to_string()).collect::<Vec<_>>();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(values.to_vec())), Arc::new(StringArray::from(texts))];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    #[test]
    fn a_reader_keeps_its_rows_while_others_insert() {
        let catalog = Catalog::default();
        let first = batch(&[1, 2]);
        let memory = QueryMemory::unbounded();
        let counted = |bytes| {
            let mut reservation = memory.reservation("a table in memory");
            reservation.grow(bytes).unwrap();
            reservation
        };
        let relation =
            MemoryRelation::new("t", &first.schema(), std::slice::from_ref(&first), counted(500), TableVersion(1))
                .unwrap();
        assert_eq!(relation.schema().field(1).data_type(), &DataType::Utf8View);
        let name = RelationName::new(DEFAULT_SCHEMA, "t");
        catalog.create(&name, Relation::Memory(Arc::new(relation)), false).unwrap();
        let table = catalog.snapshot().get(&name).unwrap().reference();
        let now = || match &catalog.snapshot().get(&name).unwrap().relation {
            Relation::Memory(memory) => (memory.rows(), memory.table()),
            other => panic!("{other:?}"),
        };
        let clusters = || now().1.scan(&Default::default()).unwrap().clusters.len();
        let (_, before) = now();
        catalog.insert(&table, &[batch(&[3])], counted(300), false).unwrap();
        assert_eq!(now().0, 3);
        assert_eq!(clusters(), 1, "small batches are joined");
        assert_eq!(before.statistics().num_rows.get_value(), Some(&2));
        assert_ne!(before.version(), now().1.version());
        assert!(memory.reserved_bytes() > 500, "the old rows, which somebody reads, and the new ones");
        let after = memory.reserved_bytes() - 500;
        drop(before);
        assert_eq!(memory.reserved_bytes(), after, "the new rows only; the statement's own are part of them");
        catalog.truncate(&table).unwrap();
        assert_eq!((now().0, memory.reserved_bytes()), (0, 0));
        catalog.insert(&table, &[first], counted(500), false).unwrap();
        catalog.insert(&table, &[batch(&[7])], counted(40), true).unwrap();
        assert_eq!((now().0, memory.reserved_bytes()), (1, 40));
        // A large batch stays what it is; the small ones behind it are put together, and counted as that.
        let large = batch(&(0..BATCH_ROWS_MAX as i64).collect::<Vec<_>>());
        let rows = [large.clone(), batch(&[1]), batch(&[2])];
        let bytes = rows.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        catalog.insert(&table, &rows, counted(bytes), true).unwrap();
        assert_eq!(clusters(), 2);
        assert!(memory.reserved_bytes().abs_diff(bytes) < bytes / 10, "{} of {bytes}", memory.reserved_bytes());
        catalog.drop(&name, |_| Ok(())).unwrap();
        assert_eq!(memory.reserved_bytes(), 0);
    }
}
