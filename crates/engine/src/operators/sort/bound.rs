//! What a top-N tells the scan that its rows come from: how far behind the first key of a row may be for the row to be
//! among the first.
//!
//! A packet that holds as many rows as are wanted knows a row that none behind it can replace. The lead of its first
//! key, the least of all packets', is a bound. The scan drops rows behind it before it decodes their other columns, and
//! leaves out clusters whose zone maps say that all rows are behind it. It reads those first that may have the first
//! rows.
//!
//! Where each row that the scan gives arrives at the top-N, the scan need not wait for that: it counts the leads that
//! it sees, and of a window only those rows pass that are among the first of all that were seen. So the other columns
//! are decoded for a few rows more than are wanted.
//!
//! Invariant: the bounds only come nearer, so that what was behind them stays there.

use std::collections::BinaryHeap;
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
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// No row is behind it.
const NONE: u64 = u64::MAX;

/// Which rows may be among the first.
pub(crate) struct FirstRowsBound {
    key: SortKey,
    lead: Lead,
    /// Rows wanted.
    wanted: usize,
    /// Whether nothing but the lead orders rows.
    is_exact: bool,
    /// Some packet holds enough rows with leads up to this one.
    held: AtomicU64,
    /// Enough rows with leads up to this one have passed a scan and arrive.
    passed: AtomicU64,
    /// The least leads of those, as many as rows are wanted.
    least: Mutex<BinaryHeap<u64>>,
    judgement: Judgement,
}

/// A column whose values are bounded.
#[derive(Clone)]
pub(crate) struct BoundedColumn {
    /// By which bound.
    pub bound: Arc<FirstRowsBound>,
    /// Its position.
    pub column: usize,
    /// Whether each row that has it arrives at the top-N, once at least.
    pub arrives: bool,
}

impl FirstRowsBound {
    /// A bound that lets all rows pass. `None` if the first key's type has no leads.
    pub(super) fn new(keys: &[SortKey], wanted: usize) -> Option<Arc<Self>> {
        let key = keys.first()?;
        let lead = Lead::new(key);
        if lead.is_none() || wanted == 0 {
            return None;
        }
        Some(Arc::new(Self {
            key: key.clone(),
            is_exact: keys.len() == 1 && lead.is_exact(),
            lead,
            wanted,
            held: AtomicU64::new(NONE),
            passed: AtomicU64::new(NONE),
            least: Mutex::new(BinaryHeap::new()),
            judgement: Judgement::default(),
        }))
    }

    /// Enough rows are held that are not behind this one, the only row of a batch.
    pub(super) fn come_nearer(&self, row: &Batch) -> Result<()> {
        let leads = self.leads(&self.key.expression.evaluate(row)?.flat()?)?;
        if let Some(lead) = leads.first() {
            self.held.fetch_min(*lead, Relaxed);
        }
        Ok(())
    }

    fn leads(&self, values: &ArrayRef) -> Result<Vec<u64>> {
        let leads = self.lead.of(values, self.key.expression.data_type())?;
        leads.ok_or_else(|| Error::bug("a sort key has lost its leads"))
    }

    /// Counts rows that arrive unless they are behind the bound.
    fn count(&self, leads: &[u64]) {
        let passed = self.passed.load(Relaxed);
        let near = leads.iter().copied().filter(|lead| *lead < passed || passed == NONE);
        let mut near = near.peekable();
        if near.peek().is_none() {
            return;
        }
        let mut least = self.least.lock();
        for lead in near {
            if least.len() < self.wanted {
                least.push(lead);
            } else if let Some(mut last) = least.peek_mut()
                && lead < *last
            {
                *last = lead;
            }
        }
        if let Some(last) = least.peek()
            && least.len() == self.wanted
        {
            self.passed.fetch_min(*last, Relaxed);
        }
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
        self.now().is_behind(lead)
    }

    fn now(&self) -> Bounds {
        let (held, passed) = (self.held.load(Relaxed), self.passed.load(Relaxed));
        // A row that is held makes equal ones unwanted, one that has passed may be one of these.
        let strict = if self.is_exact && held != NONE { held } else { held.saturating_add(1) };
        Bounds { behind: strict.min(passed.saturating_add(1)), is_any: held != NONE || passed != NONE }
    }

    /// The bound as a condition on a column of a table, which is the key. If it `counts`, it is to be asked of each row
    /// once, which arrives if it is kept.
    pub fn row_filter(self: &Arc<Self>, table_column: usize, counts: bool) -> Arc<dyn RowFilter> {
        Arc::new(BoundFilter { bound: self.clone(), columns: [table_column], counts })
    }
}

/// Bounds as they are now.
#[derive(Clone, Copy)]
struct Bounds {
    /// The first lead that is behind them.
    behind: u64,
    is_any: bool,
}

impl Bounds {
    fn is_behind(self, lead: u64) -> bool {
        self.is_any && lead >= self.behind
    }
}

struct BoundFilter {
    bound: Arc<FirstRowsBound>,
    columns: [usize; 1],
    counts: bool,
}

impl RowFilter for BoundFilter {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        let [values] = columns else { return Err(Error::bug("a bound looks at one column")) };
        let leads = self.bound.leads(values)?;
        if self.counts {
            self.bound.count(&leads);
        }
        let bounds = self.bound.now();
        let kept = BooleanBuffer::collect_bool(values.len(), |row| !bounds.is_behind(leads[row]));
        self.bound.judgement.watch(kept.len(), kept.count_set_bits());
        Ok(BooleanArray::new(kept, None))
    }

    fn is_worthwhile(&self) -> bool {
        (self.counts || self.bound.now().is_any) && self.bound.judgement.is_worthwhile()
    }

    fn is_of_values(&self) -> bool {
        // Later it may drop more; what it has kept by then is no mistake. But a value is no row.
        !self.counts
    }
}
