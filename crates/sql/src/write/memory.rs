//! The writer of tables in memory: CREATE TABLE, with or without AS, and INSERT.
//!
//! Rows are counted as the tables' from the beginning, since they stay: a statement that does not end gives them back
//! with its operation. The catalog has them with the commit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int64Type, SchemaRef};
use diligence_base::{Error, Result};
use diligence_catalog::{Catalog, MemoryRelation, ObjectRef, Relation, RelationName, RowChange};
use diligence_engine::batch::{bytes_needed, compacted};
use diligence_memory::{QueryMemory, Reservation};
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::{PartIo, WriteIo, WriteOperation, WritePart, WriteRequest, Writer};
use parking_lot::Mutex;
use sqlparser::ast::Expr;

/// Who holds the memory of rows in tables.
const HOLDER: &str = "a table in memory";

/// Writes rows into a table in memory.
#[derive(Clone, Debug)]
pub struct MemoryWriter {
    target: MemoryTarget,
    /// What the rows are counted in.
    memory: QueryMemory,
    catalog: Arc<Catalog>,
}

/// Which table takes the rows.
#[derive(Clone, Debug)]
pub(crate) enum MemoryTarget {
    /// CREATE TABLE, with or without AS.
    Create(NewTable),
    /// INSERT INTO, or INSERT OVERWRITE.
    Insert {
        /// The table.
        table: ObjectRef,
        /// Whether the present rows give way.
        replace: bool,
    },
    /// UPDATE and DELETE: the first column has the numbers of rows that go, each perhaps more than once, the others the
    /// rows that take their places, if there are any.
    Change {
        /// The table.
        table: ObjectRef,
    },
}

/// A table as declared.
#[derive(Clone, Debug)]
pub(crate) struct NewTable {
    /// Its name.
    pub(crate) name: RelationName,
    /// Whether an existing table gives way.
    pub(crate) or_replace: bool,
    /// Whether an existing table is left alone.
    pub(crate) if_not_exists: bool,
    /// The columns.
    pub(crate) schema: SchemaRef,
    /// Expressions for columns that an INSERT leaves out, by the columns' names.
    pub(crate) column_defaults: HashMap<String, Arc<Expr>>,
}

impl MemoryWriter {
    pub(crate) fn new(target: MemoryTarget, memory: QueryMemory, catalog: Arc<Catalog>) -> Self {
        Self { target, memory, catalog }
    }

    /// Adds rows to a table.
    pub fn insert(table: ObjectRef, memory: QueryMemory, catalog: Arc<Catalog>) -> Self {
        Self::new(MemoryTarget::Insert { table, replace: false }, memory, catalog)
    }
}

impl Writer for MemoryWriter {
    fn begin(&self, _request: &WriteRequest) -> Result<Arc<dyn WriteOperation>> {
        let rows = MemoryRows { batches: Vec::new(), memory: self.memory.reservation(HOLDER) };
        Ok(Arc::new(MemoryOperation { writer: self.clone(), rows: Mutex::new(Some(rows)) }))
    }

    fn is_undoable(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        match &self.target {
            MemoryTarget::Create(table) => format!("new table {}", table.name),
            MemoryTarget::Insert { table, replace: false } => format!("table {}", table.name),
            MemoryTarget::Change { table } => format!("rows of table {}", table.name),
            MemoryTarget::Insert { table, replace: true } => format!("table {}, in place of its rows", table.name),
        }
    }
}

/// One run of a [`MemoryWriter`].
struct MemoryOperation {
    writer: MemoryWriter,
    /// What the parts that have ended had; `None` once they are committed.
    rows: Mutex<Option<MemoryRows>>,
}

/// Rows, and what they are counted in.
struct MemoryRows {
    batches: Vec<RecordBatch>,
    memory: Reservation,
}

impl MemoryOperation {
    fn commit_rows(&self) -> Result<u64> {
        let rows = self.rows.lock().take().ok_or_else(|| Error::bug("a table's rows are committed twice"))?;
        let MemoryRows { batches, memory } = rows;
        let count = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let catalog = &self.writer.catalog;
        match &self.writer.target {
            MemoryTarget::Create(new) => {
                let version = catalog.next_table_version();
                let table = MemoryRelation::new(new.name.to_string(), &new.schema, &batches, memory, version)?;
                let table = table.with_defaults(new.column_defaults.clone());
                match catalog.create(&new.name, Relation::Memory(Arc::new(table)), new.or_replace) {
                    // Somebody else made it while our query ran.
                    Err(_) if new.if_not_exists && catalog.snapshot().get(&new.name).is_some() => Ok(0),
                    made => made.map(|()| count),
                }
            }
            MemoryTarget::Insert { table, replace } => {
                catalog.insert(table, &batches, memory, *replace)?;
                Ok(count)
            }
            MemoryTarget::Change { table } => {
                let change = row_change(&batches, memory)?;
                let count = change.deleted.len() as u64;
                if count > 0 {
                    catalog.change(table, change)?;
                }
                Ok(count)
            }
        }
    }
}

/// The change that rows say: their first column has numbers. Of rows with one number, the first one counts: a row that
/// joins with several others is changed once.
fn row_change(batches: &[RecordBatch], mut memory: Reservation) -> Result<RowChange> {
    let mut deleted = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    let (mut met, mut inserted) = (HashSet::new(), Vec::new());
    for batch in batches {
        let numbers = batch.columns().first().and_then(|column| column.as_primitive_opt::<Int64Type>());
        let numbers = numbers.ok_or_else(|| Error::bug("rows that change have no numbers"))?.values();
        let firsts = numbers.iter().map(|number| met.insert(*number)).collect::<Vec<_>>();
        deleted.extend(numbers.iter().zip(&firsts).filter(|(_, first)| **first).map(|(number, _)| *number));
        if batch.num_columns() > 1 {
            let others = (1..batch.num_columns()).collect::<Vec<_>>();
            let mut rows = batch.project(&others).map_err(from_arrow)?;
            if firsts.contains(&false) {
                rows = filter_record_batch(&rows, &BooleanArray::from(firsts)).map_err(from_arrow)?;
            }
            inserted.push(rows);
        }
    }
    // The numbers were counted with the rows; they do not stay.
    let kept = inserted.iter().flat_map(RecordBatch::columns).map(|column| bytes_needed(column)).sum::<usize>();
    memory.shrink(memory.bytes().saturating_sub(kept));
    Ok(RowChange { deleted, inserted, memory })
}

impl WriteOperation for MemoryOperation {
    fn part(self: Arc<Self>) -> Result<Box<dyn WritePart>> {
        let memory = self.writer.memory.reservation(HOLDER);
        Ok(Box::new(MemoryPart { operation: self, rows: Some(MemoryRows { batches: Vec::new(), memory }) }))
    }

    /// They are counted as the tables', not the query's.
    fn held_bytes(&self) -> usize {
        0
    }

    fn prepare(self: Arc<Self>) -> WriteIo<()> {
        WriteIo::Ready(Ok(()))
    }

    fn commit(self: Arc<Self>) -> WriteIo<u64> {
        WriteIo::Blocking(Box::new(move || self.commit_rows()))
    }
}

/// What one packet has.
struct MemoryPart {
    operation: Arc<MemoryOperation>,
    rows: Option<MemoryRows>,
}

impl WritePart for MemoryPart {
    /// Keeps rows. They are compacted, since views may refer to much that is the query's, and counted as what they hold
    /// then.
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = self.rows.as_mut().ok_or_else(|| Error::bug("rows come after their end"))?;
        rows.memory.grow(batch.columns().iter().map(|column| bytes_needed(column)).sum())?;
        let columns = batch.columns().iter().map(compacted).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options).map_err(from_arrow)?;
        rows.batches.push(batch);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn revoke(&mut self) -> Result<()> {
        Ok(())
    }

    fn next_io(&mut self) -> Option<PartIo> {
        None
    }

    fn finish(&mut self) -> Result<()> {
        if let (Some(own), Some(all)) = (self.rows.take(), self.operation.rows.lock().as_mut()) {
            all.batches.extend(own.batches);
            all.memory.absorb(own.memory);
        }
        Ok(())
    }
}
