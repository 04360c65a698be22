//! Runtime filters of a build side that does not fit (Gamma's bit vector filters): a Bloom filter for each key that a
//! scan wants to know, and, unless a scan knows the only key, one of whole rows' hashes, which keeps probe rows without
//! a partner from being written. They are filled as rows are told apart by partition.
//!
//! Invariant: every row of the build side is told apart once and added then, wherever it stays; so when the build side
//! is complete, the filter is. It is only shown to a scan then, and only if it has not become too full.

use std::sync::Arc;

use diligence_base::Result;
use diligence_memory::Reservation;

use crate::operators::hash_join::table::filters::Filters;
use crate::operators::hash_join::table::rows::BuildRows;
use crate::operators::hash_join::table::spec::TableSpec;
use crate::operators::key_words::words_are_ordered;
use crate::operators::runtime_filter::{FilterWork, Judgement};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The share of the memory that filters may have, and what they need not more than.
const MEMORY_SHARE: usize = 16;
const BYTES_MAX: usize = 32 << 20;

/// Bits for each key when there are as many as the filter is made for, and how many times as many are too many: with
/// six bits a key a tenth of the others passes, with less it is hardly worth looking.
const BITS_PER_KEY: usize = 12;
const OVERFULL: usize = 2;

/// See the module.
#[derive(Default)]
pub(in super::super) struct SpilledFilters {
    keys: Vec<KeyFilter>,
    hashes: Option<FilterWork>,
    judgement: Judgement,
    keys_max: usize,
    rows: AtomicUsize,
    _reservation: Option<Reservation>,
}

struct KeyFilter {
    key: usize,
    work: Arc<FilterWork>,
    min: AtomicU64,
    max: AtomicU64,
    has_null: AtomicBool,
}

impl SpilledFilters {
    /// Empty filters of these keys; `has_hashes` if one of whole rows is wanted as well.
    pub fn new(keys: &[usize], has_hashes: bool, memory_bytes: usize, mut reservation: Reservation) -> Self {
        let filters = keys.len() + usize::from(has_hashes);
        let bytes = (memory_bytes / MEMORY_SHARE / filters).min(BYTES_MAX);
        let keys_max = bytes * 8 / BITS_PER_KEY;
        // Memory is short now, but rows are about to leave it, and what is not written for it is much more.
        reservation.overdraw(filters * bytes);
        let filter = |&key: &usize| {
            let work = Arc::new(FilterWork::new(None, keys_max, keys_max)?);
            let (min, max) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
            Some(KeyFilter { key, work, min, max, has_null: AtomicBool::new(false) })
        };
        let keys = keys.iter().filter_map(filter).collect();
        let hashes = has_hashes.then(|| FilterWork::new(None, keys_max, keys_max)).flatten();
        let judgement = Judgement::default();
        Self { keys, hashes, judgement, keys_max, rows: AtomicUsize::new(0), _reservation: Some(reservation) }
    }

    /// Adds rows with their hashes.
    pub fn add(&self, rows: &BuildRows, hashes: &[u64]) {
        self.rows.fetch_add(rows.rows, Ordering::Relaxed);
        self.hashes.iter().for_each(|filter| filter.add_hashes(hashes));
        for filter in &self.keys {
            let key = &rows.keys[filter.key];
            filter.work.add(key, rows.valid.as_ref());
            let bounds = key.bounds();
            filter.min.fetch_min(bounds.0, Ordering::Relaxed);
            filter.max.fetch_max(bounds.1, Ordering::Relaxed);
            if key.nulls.is_some() {
                filter.has_null.store(true, Ordering::Relaxed);
            }
        }
    }

    fn is_useful(&self) -> bool {
        self.rows.load(Ordering::Relaxed) <= OVERFULL * self.keys_max
    }

    /// All rows are in: leaves out what has no hash that some row may have, as far as that can be said and is worth it.
    pub fn retain(&self, rows: &mut Vec<u32>, hashes: &[u64]) {
        let Some(filter) = self.hashes.as_ref().filter(|_| self.is_useful() && self.judgement.is_worthwhile()) else {
            return;
        };
        let tested = rows.len();
        rows.retain(|&row| filter.is_in_bloom(hashes[row as usize]));
        self.judgement.watch(tested, rows.len());
    }

    /// All rows are in: shows the filters to those who asked for them.
    pub fn finish(&self, spec: &TableSpec, filters: &Filters) -> Result<()> {
        if !self.is_useful() {
            return Ok(());
        }
        for (filter, key) in filters {
            let Some(own) = self.keys.iter().find(|own| own.key == *key) else { continue };
            if spec.null_equal && own.has_null.load(Ordering::Relaxed) {
                // NULL would have to pass.
                continue;
            }
            let logical = spec.keys[*key].expression.data_type();
            let bounds = (own.min.load(Ordering::Relaxed), own.max.load(Ordering::Relaxed));
            let has_bounds = bounds.0 <= bounds.1 && words_are_ordered(logical) && spec.keys[*key].kind.is_word();
            filter.set_work(own.work.clone(), has_bounds.then_some(bounds), logical)?;
        }
        Ok(())
    }
}
