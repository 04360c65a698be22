//! A complete table as several queries read it.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;
use diligence_memory::QueryMemory;

use super::built::{Built, Lookup};
use super::filters::FilterContent;
use super::paid::Paid;
use crate::reuse::tables::{Lendable, Lent};

/// A complete table as its readers see it.
pub(in super::super) struct SharedTable {
    /// Before what pays for it, also when it goes.
    pub lookup: Arc<Lookup>,
    pub filters: Vec<(usize, FilterContent)>,
    pub rows: usize,
    pub columns: Vec<ArrayRef>,
    pub valid: Option<NullBuffer>,
    bytes: usize,
    pub cost_ns: u64,
    paid: Arc<Paid>,
}

impl SharedTable {
    /// What is complete in memory.
    pub fn of(built: &Built, cost_ns: u64) -> Option<Arc<Self>> {
        let Built { lookup, filters, held } = built;
        let paid = held.paid.clone().filter(|_| held.is_complete)?;
        Some(Arc::new(Self {
            lookup: lookup.clone(),
            filters: filters.clone(),
            rows: held.rows,
            columns: held.columns.clone(),
            valid: held.valid.clone(),
            bytes: built.bytes(),
            cost_ns,
            paid,
        }))
    }
}

impl Lendable for SharedTable {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn cost_ns(&self) -> u64 {
        self.cost_ns
    }

    fn is_leaving(&self) -> bool {
        self.paid.is_leaving()
    }

    fn lend(&self, memory: &QueryMemory, operator: &'static str, bytes_max: usize) -> Lent {
        self.paid.lend(memory, operator, self.bytes <= bytes_max)
    }
}
