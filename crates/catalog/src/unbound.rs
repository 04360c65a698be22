//! Plans that outlive the rows which they were made for.
//!
//! A plan that waits for its next run has placeholders where it reads tables in memory, so that it keeps no rows; a run
//! gets the rows that its snapshot has. A plan stays good while the tables have the same columns and rules and about as
//! many rows.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Statistics;
use diligence_base::ids::{TableId, TableIdentity, TableVersion};
use diligence_base::{Error, Result};
use diligence_storage::{ScanRequest, Table, TableScan};

use crate::NativeTable;

/// A table has about as many rows as before while it has at most so many times as many, or as few.
const GROWTH_MAX: usize = 4;
/// Fewer rows than these are always about as many.
const ROWS_FEW: usize = 4096;

/// A table in memory as a plan was made for it.
#[derive(Clone, Debug)]
pub(crate) struct UsedRows {
    table: TableId,
    version: TableVersion,
    rows: usize,
}

impl UsedRows {
    pub(crate) fn of(table: &NativeTable) -> Self {
        let TableIdentity { table: id, version, .. } = table.table().identity();
        Self { table: id, version, rows: table.rows() }
    }

    /// Whether a plan for these rows is one for those.
    pub(crate) fn fit(&self, now: &NativeTable) -> bool {
        let (few, many) = (self.rows.min(now.rows()), self.rows.max(now.rows()));
        self.is_declared_as(now) && (many <= ROWS_FEW || many / GROWTH_MAX <= few)
    }

    /// Whether they are of the same columns and rules.
    pub(crate) fn is_declared_as(&self, now: &NativeTable) -> bool {
        self.table == now.declared().id
    }

    /// What a plan that reads them calls them.
    pub(crate) fn identity(&self) -> TableIdentity {
        TableIdentity::of(self.table, self.version)
    }
}

/// Which tables a plan reads from now on in the place of others.
#[derive(Debug, Default)]
pub struct Rebinding(Vec<(TableIdentity, Option<Arc<NativeTable>>)>);

impl Rebinding {
    /// In the place of all views of a table: rows, or a placeholder.
    pub(crate) fn push(&mut self, table: TableIdentity, now: Option<Arc<NativeTable>>) {
        self.0.push((table, now));
    }

    /// Whether nothing is replaced.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What takes the place of a table; `None` if it stays.
    pub fn instead_of(&self, table: &dyn Table) -> Option<Arc<dyn Table>> {
        let identity = table.identity();
        let is_same = |known: &TableIdentity| (known.table, known.version) == (identity.table, identity.version);
        let (_, now) = self.0.iter().find(|(known, _)| is_same(known))?;
        let now: Arc<dyn Table> = match now {
            Some(now) if identity.view.is_numbered => now.numbered(),
            Some(now) => now.table(),
            None => Arc::new(UnboundTable {
                schema: table.schema(),
                identity,
                statistics: table.statistics(),
                shown: table.describe(),
            }),
        };
        Some(match identity.view.is_without_index {
            true => now.clone().without_index().unwrap_or(now),
            false => now,
        })
    }
}

/// The place of a table in a plan that waits for its next run.
#[derive(Debug)]
struct UnboundTable {
    schema: SchemaRef,
    identity: TableIdentity,
    statistics: Statistics,
    shown: String,
}

impl Table for UnboundTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn identity(&self) -> TableIdentity {
        self.identity
    }

    fn statistics(&self) -> Statistics {
        self.statistics.clone()
    }

    fn scan(&self, _request: &ScanRequest) -> Result<TableScan> {
        Err(Error::bug("a plan runs without its tables"))
    }

    fn describe(&self) -> String {
        self.shown.clone()
    }

    fn uses_index(&self) -> bool {
        !self.identity.view.is_without_index
    }
}
