//! What a top-N tells the scan that its rows come from: how far behind the first key of a row may be for the row to be
//! among the first.
//!
//! A packet that holds as many rows as are wanted knows a row that none behind it can replace. The lead of its first
//! key, the least of all packets', is the bound. The scan drops rows behind it before it decodes their other columns,
//! and leaves out clusters whose zone maps say that all rows are behind it. It reads those first that may have the
//! first rows.
//!
//! Invariant: the bound only comes nearer, so that what was behind it stays there.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;
use diligence_storage::{RowFilter, Zone};

use super::encoding::Lead;
use crate::batch::Batch;
use crate::operators::runtime_filter::Judgement;
use crate::plan::SortKey;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// No row is behind it.
const NONE: u64 = u64::MAX;

/// Which rows may be among the first.
pub(crate) struct FirstRowsBound {
    key: SortKey,
    lead: Lead,
    /// Whether rows at the bound are behind it: nothing but the lead orders them, and enough rows are there.
    is_strict: bool,
    bound: AtomicU64,
    judgement: Judgement,
}

impl FirstRowsBound {
    /// A bound that lets all rows pass. `None` if the first key's type has no leads.
    pub(super) fn new(keys: &[SortKey]) -> Option<Arc<Self>> {
        let key = keys.first()?;
        let lead = Lead::new(key);
        if lead.is_none() {
            return None;
        }
        let is_strict = keys.len() == 1 && lead.is_exact();
        let (bound, judgement) = (AtomicU64::new(NONE), Judgement::default());
        Some(Arc::new(Self { key: key.clone(), lead, is_strict, bound, judgement }))
    }

    /// Enough rows are held that are not behind this one, the only row of a batch.
    pub(super) fn come_nearer(&self, row: &Batch) -> Result<()> {
        let leads = self.leads(&self.key.expression.evaluate(row)?.flat()?)?;
        if let Some(lead) = leads.first() {
            self.bound.fetch_min(*lead, Relaxed);
        }
        Ok(())
    }

    fn leads(&self, values: &ArrayRef) -> Result<Vec<u64>> {
        let leads = self.lead.of(values, self.key.expression.data_type())?;
        leads.ok_or_else(|| Error::bug("a sort key has lost its leads"))
    }

    /// The lead that a row may have at best whose key is in a zone.
    pub fn best_of(&self, zone: &Zone) -> Result<u64> {
        let data_type = self.key.expression.data_type();
        let ends = zone.bounds.iter().flat_map(|(least, greatest)| [least, greatest]);
        let null = if zone.may_have_nulls { Some(ScalarValue::try_from(data_type)) } else { None };
        let null = null.transpose().map_err(from_datafusion)?;
        let mut best = NONE;
        for value in ends.chain(&null) {
            if value.data_type() != *data_type {
                return Ok(0);
            }
            best = self.leads(&value.to_array().map_err(from_datafusion)?)?.into_iter().fold(best, u64::min);
        }
        Ok(best)
    }

    /// Whether rows with such a lead, and all with greater ones, are behind the bound.
    pub fn is_behind(&self, lead: u64) -> bool {
        let bound = self.bound.load(Relaxed);
        lead > bound || self.is_strict && lead == bound && bound != NONE
    }

    /// The bound as a condition on a column of a table, which is the key.
    pub fn row_filter(self: &Arc<Self>, table_column: usize) -> Arc<dyn RowFilter> {
        Arc::new(BoundFilter { bound: self.clone(), columns: [table_column] })
    }
}

struct BoundFilter {
    bound: Arc<FirstRowsBound>,
    columns: [usize; 1],
}

impl RowFilter for BoundFilter {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        let [values] = columns else { return Err(Error::bug("a bound looks at one column")) };
        let leads = self.bound.leads(values)?;
        let kept = BooleanBuffer::collect_bool(values.len(), |row| !self.bound.is_behind(leads[row]));
        self.bound.judgement.watch(kept.len(), kept.count_set_bits());
        Ok(BooleanArray::new(kept, None))
    }

    fn is_worthwhile(&self) -> bool {
        self.bound.bound.load(Relaxed) != NONE && self.bound.judgement.is_worthwhile()
    }

    fn is_of_values(&self) -> bool {
        // Later it may drop more. What it has kept by then is no mistake.
        true
    }
}
