//! Gives the sorted rows in order, one batch after another.

use std::sync::Arc;
use std::task::Waker;

use diligence_base::Result;

use super::external::ExternalReader;
use super::gather::{Pick, Text, gather};
use super::sink::{Shared, SortResult, Sorted};
use crate::pipeline::{Pull, Setup, Source, SourceState};

/// Where sorted rows come from.
pub(super) struct SortSource {
    shared: Arc<Shared>,
}

impl SortSource {
    pub fn new(shared: Arc<Shared>) -> Self {
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

    fn open(&self, setup: &Setup) -> Result<Box<dyn SourceState>> {
        let sorted = match self.shared.result()? {
            SortResult::Sorted(sorted) => sorted,
            SortResult::External(external) => return Ok(Box::new(ExternalReader::new(external))),
        };
        Ok(Box::new(SortReader {
            sorted,
            shared: self.shared.clone(),
            batch_rows: setup.batch_rows.max(1),
            range: 0,
            place: 0,
            given: 0,
        }))
    }
}

/// A place in the order.
struct SortReader {
    shared: Arc<Shared>,
    sorted: Arc<Sorted>,
    batch_rows: usize,
    /// The next range, and the place in it.
    range: usize,
    place: usize,
    /// Rows given so far.
    given: usize,
}

impl SortReader {
    /// The next `rows` picks, which there are; they may come from several ranges.
    fn picks(&mut self, rows: usize) -> Vec<Pick> {
        let mut picks = Vec::with_capacity(rows);
        while picks.len() < rows
            && let Some(range) = self.sorted.picks.get(self.range)
        {
            let end = range.len().min(self.place + rows - picks.len());
            picks.extend_from_slice(&range[self.place..end]);
            self.place = end;
            if end == range.len() {
                self.range += 1;
                self.place = 0;
            }
        }
        picks
    }
}

impl SourceState for SortReader {
    fn pull(&mut self, _waker: &Waker) -> Result<Pull> {
        let rows = self.batch_rows.min(self.sorted.rows - self.given);
        if rows == 0 {
            return Ok(Pull::Done);
        }
        let batch = match self.sorted.payloads.as_slice() {
            [only] => only.slice(self.given, rows),
            _ => {
                let picks = self.picks(rows);
                gather(&self.sorted.payloads, &picks, Text::Keep, &self.shared.schema)?
            }
        };
        self.given += rows;
        Ok(Pull::Batch(batch))
    }
}
