//! The rows of a statement's WITH that writes, for the others of the statement: they come when it has run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::Statistics;
use diligence_base::ids::{TableIdentity, TableVersion};
use diligence_base::{Error, Result};
use diligence_storage::memory::MemoryTable;
use diligence_storage::{ScanRequest, Table, TableScan};

/// Rows that are not there when the statement is planned.
#[derive(Debug)]
pub struct WrittenRows {
    name: String,
    schema: SchemaRef,
    identity: TableIdentity,
    rows: OnceLock<MemoryTable>,
    is_read: AtomicBool,
}

impl WrittenRows {
    /// The rows of what the statement calls so. No other table has the version.
    pub(crate) fn new(name: &str, schema: SchemaRef, version: TableVersion) -> Arc<Self> {
        let (rows, is_read) = (OnceLock::new(), AtomicBool::new(false));
        Arc::new(Self { name: name.to_owned(), schema, identity: TableIdentity::of_new(version), rows, is_read })
    }

    /// These are the rows. Fails if they do not have its columns, or if it has rows.
    pub(crate) fn become_rows(&self, batches: Vec<RecordBatch>) -> Result<()> {
        let rows = MemoryTable::new(self.name.as_str(), self.schema.clone(), batches, self.identity.version)?;
        self.rows.set(rows).map_err(|_| Error::bug("the rows of a WITH come twice"))
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

impl Table for WrittenRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn identity(&self) -> TableIdentity {
        self.identity
    }

    fn statistics(&self) -> Statistics {
        self.rows.get().map_or_else(|| Statistics::new_unknown(&self.schema), MemoryTable::statistics)
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        let rows = self.rows.get().ok_or_else(|| Error::bug("the rows of a WITH are read before it has run"))?;
        rows.scan(request)
    }

    fn describe(&self) -> String {
        format!("rows of {}", self.name)
    }
}
