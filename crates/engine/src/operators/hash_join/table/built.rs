//! A build side when it is in.

use std::sync::{Arc, OnceLock};

use arrow::array::BinaryViewArray;
use arrow::buffer::NullBuffer;

use super::filters::FilterContent;
use super::hash_table::Table;
use super::held::Held;
use super::ranges::RangeIndex;

/// A complete build side, or what of it is in memory.
pub(in super::super) struct Built {
    /// Before what pays for it, also when it goes.
    pub lookup: Arc<Lookup>,
    /// What it says to scans of the probe side, by key.
    pub filters: Vec<(usize, FilterContent)>,
    pub held: Arc<Held>,
}

/// How probe rows find build rows.
pub(in super::super) struct Lookup {
    /// `None` if no build row can match.
    pub table: Option<Arc<Table>>,
    /// Values to compare where the table only compares hashes; otherwise empty.
    pub values: Vec<KeyValues>,
    /// Build rows with a NULL key, where a null-aware join has a condition on pairs.
    pub null_rows: Arc<[u32]>,
    /// Its rows in the order of what a join without keys bounds, from the first batch on.
    pub ranges: OnceLock<Option<Arc<RangeIndex>>>,
}

/// The build side's values of one key, row by row.
pub(in super::super) enum KeyValues {
    Words(Vec<u64>, Option<NullBuffer>),
    Bytes(BinaryViewArray),
}

impl Built {
    /// Whether another query reads it.
    pub fn is_lent(&self) -> bool {
        self.held.paid.as_ref().is_some_and(|paid| paid.is_lent())
    }

    /// From now on nobody else may have it. False if somebody has.
    pub fn leave(&self) -> bool {
        self.held.paid.as_ref().is_none_or(|paid| paid.leave())
    }

    /// Bytes that are reserved for it.
    pub fn bytes(&self) -> usize {
        self.held.paid.as_ref().map_or(0, |paid| paid.bytes())
    }
}
