//! What a table was declared with: all its versions have it in common.

use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion_common::ColumnStatistics;
use diligence_base::Result;
use diligence_base::ids::{TableId, TableVersion};
use parking_lot::Mutex;

use crate::RelationName;
use crate::distribution::Placement;
use crate::key_store::KeyStore;
use crate::rules::TableRules;
use crate::sampled::Sampled;

/// Where the keys of a table go, once it is known.
pub(crate) type KeyStoreSlot = Arc<OnceLock<Arc<dyn KeyStore>>>;

/// What a table was declared with. All its versions share it.
#[derive(Debug)]
pub(crate) struct Declared {
    /// That of all versions that have it.
    pub(crate) id: TableId,
    pub(crate) name: RelationName,
    pub(crate) schema: SchemaRef,
    pub(crate) rules: TableRules,
    pub(crate) columns: ColumnIds,
    /// Tables of one origin have other rows under other numbers, and columns of one id are the same.
    pub(crate) origin: TableVersion,
    /// Which fragment rows belong to.
    pub(crate) placement: Placement,
    /// Where keys go that come in great number, if it is set; the same for all that the table is declared as.
    pub(crate) key_store: KeyStoreSlot,
    sampled: Mutex<Option<Sampled>>,
}

impl Declared {
    /// Fails as [`Placement::new`] does.
    pub(crate) fn new(
        name: RelationName,
        schema: SchemaRef,
        rules: TableRules,
        columns: ColumnIds,
        origin: TableVersion,
        key_store: KeyStoreSlot,
    ) -> Result<Self> {
        let placement = Placement::new(&rules.distribution, &schema)?;
        let (id, sampled) = (TableId::next(), Mutex::default());
        Ok(Self { id, name, schema, rules, columns, origin, placement, key_store, sampled })
    }

    /// What a sample of so many rows told, if it is still good; otherwise another one is taken.
    pub(crate) fn sampled(
        &self,
        rows: usize,
        next_number: i64,
        again: impl FnOnce() -> Sampled,
    ) -> Vec<ColumnStatistics> {
        let mut sampled = self.sampled.lock();
        match sampled.as_ref().and_then(|sampled| sampled.columns(rows, next_number)) {
            Some(columns) => columns.to_vec(),
            None => {
                let new = sampled.insert(again());
                new.columns(rows, next_number).map_or_else(Vec::new, <[_]>::to_vec)
            }
        }
    }
}

/// The ids of a table's columns, which they keep as long as they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnIds {
    /// By column.
    pub ids: Vec<u32>,
    /// The one that the next new column gets.
    pub next: u32,
}

impl ColumnIds {
    /// Those of a new table with so many columns.
    pub fn of_new(columns: usize) -> Self {
        let next = columns as u32;
        Self { ids: (0..next).collect(), next }
    }
}
