//! Plans that outlive the rows which they were made for.
//!
//! A plan that waits for its next run names the tables in memory that it reads and keeps none of their rows; a run gets
//! the rows that its snapshot has. A plan stays good while the tables have the same columns and rules and about as many
//! rows.

use std::sync::Arc;

use diligence_base::ids::{TableId, TableIdentity, TableVersion};
use diligence_storage::Table;

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
pub struct Rebinding(Vec<(TableIdentity, Arc<NativeTable>)>);

impl Rebinding {
    /// In the place of all views of a table.
    pub(crate) fn push(&mut self, table: TableIdentity, now: Arc<NativeTable>) {
        self.0.push((table, now));
    }

    /// Whether nothing is replaced.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What takes the place of a table; `None` if it stays.
    pub fn instead_of(&self, identity: TableIdentity) -> Option<Arc<dyn Table>> {
        let (_, now) = self.0.iter().find(|(known, _)| is_of(*known, identity))?;
        let now: Arc<dyn Table> = if identity.view.is_numbered { now.numbered() } else { now.table() };
        Some(match identity.view.is_without_index {
            true => now.clone().without_index().unwrap_or(now),
            false => now,
        })
    }
}

/// Whether an identity is that of a view of a table.
pub(crate) fn is_of(table: TableIdentity, identity: TableIdentity) -> bool {
    (table.table, table.version) == (identity.table, identity.version)
}
