//! Rows that come while a statement runs: those of its WITH that writes, for the others of the statement, and those
//! that are asked for when triggers have seen them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::Statistics;
use diligence_base::ids::{TableId, TableIdentity, TableVersion};
use diligence_base::{Error, Result};
use diligence_storage::memory::MemoryTable;
use diligence_storage::{ScanRequest, Table, TableScan};
use parking_lot::RwLock;
use sqlparser::ast::Cte;
use sqlparser::tokenizer::Location;

/// Rows that are not there when the statement is planned.
#[derive(Debug)]
pub struct WrittenRows {
    name: String,
    schema: SchemaRef,
    version: TableVersion,
    now: RwLock<Now>,
    is_read: AtomicBool,
}

/// The rows that are there, and what tells them apart from those that were there before.
#[derive(Debug)]
struct Now {
    identity: TableIdentity,
    rows: Option<Arc<MemoryTable>>,
}

impl WrittenRows {
    /// The rows of what the statement calls so. No other table has the version.
    pub(crate) fn new(name: &str, schema: SchemaRef, version: TableVersion) -> Arc<Self> {
        let now = RwLock::new(Now { identity: TableIdentity::of_new(version), rows: None });
        Arc::new(Self { name: name.to_owned(), schema, version, now, is_read: AtomicBool::new(false) })
    }

    /// These are the rows. Fails if they do not have its columns, or if it has rows.
    pub(crate) fn become_rows(&self, batches: Vec<RecordBatch>) -> Result<()> {
        let rows = MemoryTable::new(self.name.as_str(), self.schema.clone(), batches, self.version)?;
        let mut now = self.now.write();
        if now.rows.is_some() {
            return Err(Error::bug("the rows of a WITH come twice"));
        }
        now.rows = Some(Arc::new(rows));
        Ok(())
    }

    /// These are the rows from now on: nothing that was found of others is good for them. Fails if they do not have its
    /// columns.
    pub(crate) fn become_others(&self, batches: Vec<RecordBatch>) -> Result<()> {
        let rows = MemoryTable::new(self.name.as_str(), self.schema.clone(), batches, self.version)?;
        let identity = TableIdentity::of(TableId::next(), self.version);
        *self.now.write() = Now { identity, rows: Some(Arc::new(rows)) };
        Ok(())
    }

    /// Something of the statement reads them.
    pub(crate) fn is_read_from_now(&self) {
        self.is_read.store(true, Ordering::Relaxed);
    }

    /// Whether something of the statement reads them.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }
}

/// What the statements of a WITH give that have been bound, by the places where they end.
#[derive(Default)]
pub(crate) struct WrittenParts(HashMap<Location, Arc<WrittenRows>>);

impl WrittenParts {
    /// The rows of one.
    pub(crate) fn of(&self, cte: &Cte) -> Option<Arc<WrittenRows>> {
        self.0.get(&end_of(cte)).cloned()
    }

    /// These are the rows of one.
    pub(crate) fn add(&mut self, cte: &Cte, rows: Arc<WrittenRows>) {
        self.0.insert(end_of(cte), rows);
    }
}

fn end_of(cte: &Cte) -> Location {
    cte.closing_paren_token.0.span.start
}

impl Table for WrittenRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn identity(&self) -> TableIdentity {
        self.now.read().identity
    }

    fn statistics(&self) -> Statistics {
        let rows = self.now.read().rows.clone();
        rows.map_or_else(|| Statistics::new_unknown(&self.schema), |rows| rows.statistics())
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        let rows = self.now.read().rows.clone();
        let rows = rows.ok_or_else(|| Error::bug("the rows of a WITH are read before it has run"))?;
        rows.scan(request)
    }

    fn describe(&self) -> String {
        format!("rows of {}", self.name)
    }
}
