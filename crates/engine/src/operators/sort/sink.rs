//! Where the rows of a sort go: packets that keep all of them, the first of them, or none.

use std::sync::Arc;

use diligence_base::Result;

use super::run_builder::RunBuilder;
use super::run_file::minimal_bytes;
use super::shared::SharedSort;
use super::top_rows::TopRows;
use crate::batch::Batch;
use crate::flow::profile::Spills;
use crate::flow::{Accept, QueryContext, Sink, SinkState};

/// Where the rows of a sort go.
pub(super) struct SortSink {
    shared: Arc<SharedSort>,
}

impl SortSink {
    pub fn new(shared: Arc<SharedSort>) -> Self {
        Self { shared }
    }
}

impl Sink for SortSink {
    fn name(&self) -> &'static str {
        self.shared.name()
    }

    fn spills(&self) -> Option<Arc<Spills>> {
        self.shared.disk_if_any().map(|disk| disk.spills.clone())
    }

    fn bytes_min(&self, context: &QueryContext) -> usize {
        match (self.shared.top_rows(), self.shared.disk_if_any()) {
            (None, Some(disk)) => context.packets * (disk.work_bytes() + minimal_bytes(&disk.space)),
            _ => 0,
        }
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SinkState>> {
        let shared = self.shared.clone();
        shared.memory.get_or_init(|| context.memory.clone());
        shared.packets.get_or_init(|| context.packets);
        Ok(match shared.top_rows() {
            Some(0) => Box::new(Nothing),
            Some(wanted) => Box::new(TopRows::new(shared, wanted, context)?),
            None => Box::new(RunBuilder::new(shared, context)?),
        })
    }

    fn parts(&self) -> Result<usize> {
        if self.shared.has_spilled()? {
            return Ok(0);
        }
        Ok(self.shared.begin_merge()?.ranges())
    }

    fn part(&self, index: usize, _setup: &QueryContext) -> Result<()> {
        let wanted = self.shared.fetch.unwrap_or(usize::MAX);
        self.shared.merging()?.merge_range(index, wanted)
    }

    fn complete(&self) -> Result<()> {
        if self.shared.is_collecting() {
            return self.shared.begin_external();
        }
        self.shared.end_merge(self.shared.merging()?)
    }
}

/// Takes nothing: no rows are wanted.
struct Nothing;

impl SinkState for Nothing {
    fn push(&mut self, _batch: Batch, _waker: &std::task::Waker) -> Result<Accept> {
        Ok(Accept::Enough)
    }
}
