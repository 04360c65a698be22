//! The rows of a table in memory that statements change, in one version.
//!
//! A change makes another [`MemoryRelation`], which the catalog puts in the place of this one; a statement that began
//! before it goes on reading the old one. Every row has a number, by which statements that change it find it: rows get
//! them in the order in which they come, and keep them as long as they live.
//!
//! Invariant: the memory of a batch is reserved as long as any version that has the batch lives, in the catalog, in a
//! snapshot or in a statement that reads it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options, concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Statistics;
use diligence_base::ids::TableVersion;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::memory::{MemoryTable, RowNumbers};
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
    /// The numbers of each batch's rows. Those of a batch are larger than those of the batches before it.
    numbers: Vec<RowNumbers>,
    /// The number that the next new row gets.
    next_number: i64,
    /// What each of the table's batches is counted in. Batches of one statement share a reservation.
    memory: Vec<Arc<Reservation>>,
}

/// Some rows of a version.
#[derive(Clone)]
struct Piece {
    rows: RecordBatch,
    numbers: RowNumbers,
    memory: Arc<Reservation>,
}

/// What a statement does to the rows of a table.
#[derive(Debug)]
pub struct RowChange {
    /// The numbers of rows that go; in any order, each once.
    pub deleted: Vec<i64>,
    /// Rows that come, with the table's columns.
    pub inserted: Vec<RecordBatch>,
    /// What the new rows are counted in.
    pub memory: Reservation,
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

/// Rows with their numbers, and what they are counted in.
#[derive(Debug)]
struct NumberedRows(MemoryTable, Arc<MemoryRows>);

impl Table for NumberedRows {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn version(&self) -> TableVersion {
        self.1.version()
    }

    fn statistics(&self) -> Statistics {
        self.0.statistics()
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        self.0.scan(request)
    }

    fn describe(&self) -> String {
        self.0.describe()
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
        let (mut pieces, mut next_number) = (Vec::new(), 0);
        for rows in filled(batches, &schema)? {
            let numbers = RowNumbers::From(next_number);
            next_number += rows.num_rows() as i64;
            pieces.push(Piece { rows, numbers, memory: memory.clone() });
        }
        let declared = Arc::new(Declared { name: name.into(), schema, column_defaults: HashMap::new() });
        Self::of(declared, pieces, next_number, version)
    }

    /// The same table with rows of these numbers, one element for each batch, and the number of the next row: as they
    /// were when the table was written down. Fails with kind `File` if they do not fit the rows.
    pub fn with_numbers(self, numbers: Vec<RowNumbers>, next_number: i64) -> Result<Self> {
        let MemoryRows { table, memory, .. } = &*self.rows;
        if numbers.len() != table.batches().len() {
            return Err(Error::file("a table's rows and their numbers do not fit"));
        }
        let rows = MemoryRows { table: table.clone(), numbers, next_number, memory: memory.clone() };
        Ok(Self { declared: self.declared, rows: Arc::new(rows) })
    }

    /// The same table with expressions for columns that an INSERT leaves out, by the columns' names.
    #[must_use]
    pub fn with_defaults(self, column_defaults: HashMap<String, Arc<Expr>>) -> Self {
        let Declared { name, schema, .. } = &*self.declared;
        let declared = Declared { name: name.clone(), schema: schema.clone(), column_defaults };
        Self { declared: Arc::new(declared), rows: self.rows }
    }

    /// A version of these pieces, which have at least one row each.
    fn of(declared: Arc<Declared>, pieces: Vec<Piece>, next_number: i64, version: TableVersion) -> Result<Self> {
        let (mut batches, mut numbers, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for piece in pieces {
            batches.push(piece.rows);
            numbers.push(piece.numbers);
            memory.push(piece.memory);
        }
        let table = MemoryTable::new(&declared.name, declared.schema.clone(), batches, version)?;
        Ok(Self { declared, rows: Arc::new(MemoryRows { table, numbers, next_number, memory }) })
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

    /// The rows, batch by batch.
    pub fn batches(&self) -> &[RecordBatch] {
        self.rows.table.batches()
    }

    /// The numbers of each batch's rows.
    pub fn numbers(&self) -> &[RowNumbers] {
        &self.rows.numbers
    }

    /// The number that the next new row gets.
    pub fn next_number(&self) -> i64 {
        self.rows.next_number
    }

    /// A reservation that counts some of its rows; `None` if it has no rows.
    pub(crate) fn counted(&self) -> Option<&Reservation> {
        self.rows.memory.first().map(Arc::as_ref)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows.table.rows()
    }

    /// The rows with their numbers, in the column [`ROW_NUMBERS`](diligence_storage::memory::ROW_NUMBERS) behind the
    /// others.
    pub fn numbered(&self) -> Arc<dyn Table> {
        Arc::new(NumberedRows(self.rows.table.numbered(self.rows.numbers.clone()), self.rows.clone()))
    }

    fn pieces(&self) -> Vec<Piece> {
        let MemoryRows { table, numbers, memory, .. } = &*self.rows;
        let pieces = table.batches().iter().zip(numbers).zip(memory);
        let piece = |((rows, numbers), memory): ((&RecordBatch, &RowNumbers), &Arc<Reservation>)| Piece {
            rows: rows.clone(),
            numbers: numbers.clone(),
            memory: memory.clone(),
        };
        pieces.map(piece).collect()
    }

    /// The version with these rows behind the present ones, or in their place. The new rows are counted in `memory`.
    pub(crate) fn with_rows(
        &self,
        rows: &[RecordBatch],
        memory: Reservation,
        replace: bool,
        version: TableVersion,
    ) -> Result<Self> {
        let pieces = if replace { Vec::new() } else { self.pieces() };
        self.appended(pieces, rows, memory, version)
    }

    /// The version after a change. Fails with code 40001 if a row that is to go has gone already, `Value` if a new
    /// value does not fit its column or is a NULL that the column does not allow, `Resource` if memory is short.
    /// `deleted` ascends.
    pub(crate) fn changed(
        &self,
        deleted: &[i64],
        inserted: &[RecordBatch],
        memory: Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let (mut kept, mut gone) = (Vec::new(), deleted);
        for piece in self.pieces() {
            let end = gone.partition_point(|number| *number <= piece.numbers.at(piece.rows.num_rows() - 1));
            let (here, later) = gone.split_at(end);
            gone = later;
            kept.extend(if here.is_empty() { Some(piece) } else { piece.without(here)? });
        }
        if !gone.is_empty() {
            return Err(conflict());
        }
        self.appended(kept, inserted, memory, version)
    }

    /// The version of these pieces with rows behind them.
    fn appended(
        &self,
        pieces: Vec<Piece>,
        rows: &[RecordBatch],
        mut memory: Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let schema = self.schema();
        let mut next_number = self.rows.next_number;
        // A batch without a reservation is counted in the statement's.
        let mut all = Vec::from_iter(pieces.into_iter().map(|piece| (piece.rows, piece.numbers, Some(piece.memory))));
        let mut copied_bytes = 0;
        for batch in filled(rows, schema)? {
            let numbers = RowNumbers::From(next_number);
            next_number += batch.num_rows() as i64;
            // Many small INSERTs must not leave many small batches behind.
            match all.last_mut() {
                Some((last, known, counted)) if last.num_rows() + batch.num_rows() <= BATCH_ROWS_MAX => {
                    let (before_bytes, batch_bytes) = (last.get_array_memory_size(), batch.get_array_memory_size());
                    let mut both = memory.sibling();
                    both.grow(before_bytes + batch_bytes)?;
                    *known = joined(known, last.num_rows(), &numbers, batch.num_rows());
                    *last = concat_batches(schema, [&*last, &batch]).map_err(from_arrow)?;
                    copied_bytes += batch_bytes;
                    if counted.replace(Arc::new(both)).is_none() {
                        copied_bytes += before_bytes;
                    }
                }
                _ => all.push((batch, numbers, None)),
            }
        }
        memory.shrink(copied_bytes);
        let rest = Arc::new(memory);
        let piece = |(rows, numbers, memory): (RecordBatch, RowNumbers, Option<Arc<Reservation>>)| Piece {
            rows,
            numbers,
            memory: memory.unwrap_or_else(|| rest.clone()),
        };
        Self::of(self.declared.clone(), all.into_iter().map(piece).collect(), next_number, version)
    }

    /// The version without rows.
    pub(crate) fn without_rows(&self, version: TableVersion) -> Result<Self> {
        Self::of(self.declared.clone(), Vec::new(), self.rows.next_number, version)
    }
}

impl Piece {
    /// The piece without the rows of these numbers, which ascend; `None` if no row is left. Fails with code 40001 if
    /// one of them is not there.
    fn without(&self, gone: &[i64]) -> Result<Option<Self>> {
        let rows = self.rows.num_rows();
        let mut keeps = vec![true; rows];
        for number in gone {
            let position = self.numbers.position(*number, rows).ok_or_else(conflict)?;
            if !std::mem::replace(&mut keeps[position], false) {
                return Err(Error::bug("a row is deleted twice"));
            }
        }
        let numbers = (0..rows).filter(|&position| keeps[position]).map(|position| self.numbers.at(position));
        let numbers = numbers.collect::<Arc<[i64]>>();
        if numbers.is_empty() {
            return Ok(None);
        }
        let rows = filter_record_batch(&self.rows, &BooleanArray::from(keeps)).map_err(from_arrow)?;
        let mut memory = self.memory.sibling();
        memory.grow(rows.get_array_memory_size())?;
        Ok(Some(Self { rows, numbers: RowNumbers::Listed(numbers), memory: Arc::new(memory) }))
    }
}

/// The numbers of rows that are put behind others.
fn joined(first: &RowNumbers, first_rows: usize, second: &RowNumbers, second_rows: usize) -> RowNumbers {
    if let RowNumbers::From(number) = first
        && second.at(0) == number + first_rows as i64
    {
        return first.clone();
    }
    let first = (0..first_rows).map(|position| first.at(position));
    RowNumbers::Listed(first.chain((0..second_rows).map(|position| second.at(position))).collect())
}

/// The error for a row that another statement has changed first.
pub(crate) fn conflict() -> Error {
    let error = Error::input("could not serialize access due to concurrent update").with_code("40001");
    error.with_hint("run the statement again")
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
