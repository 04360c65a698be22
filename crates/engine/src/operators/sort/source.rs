//! Gives the sorted rows in order, one batch after another.

use std::sync::Arc;
use std::task::Waker;

use diligence_base::Result;

use super::external::ExternalReader;
use super::shared::{SharedSort, SortResult};
use super::sorted::{Reader, SortedRows};
use crate::flow::{Pull, QueryContext, Source, SourceState};

/// Where sorted rows come from.
pub(super) struct SortSource {
    shared: Arc<SharedSort>,
}

impl SortSource {
    pub fn new(shared: Arc<SharedSort>) -> Self {
        Self { shared }
    }
}

impl Source for SortSource {
    fn name(&self) -> &'static str {
        self.shared.name()
    }

    /// One: an order is carried by one packet.
    fn packets_max(&self) -> usize {
        1
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        let sorted = match self.shared.result()? {
            SortResult::Sorted(sorted) => sorted,
            SortResult::External(external) => return Ok(Box::new(ExternalReader::new(external))),
        };
        Ok(Box::new(SortReader { sorted, reader: Reader::default(), context: context.clone() }))
    }
}

/// Reads what was sorted in memory.
struct SortReader {
    sorted: Arc<SortedRows>,
    reader: Reader,
    context: QueryContext,
}

impl SourceState for SortReader {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        self.sorted.pull(&mut self.reader, &self.context, waker)
    }
}

impl Drop for SortReader {
    fn drop(&mut self) {
        // Nothing is written for nobody.
        self.sorted.end();
    }
}
