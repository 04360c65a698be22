//! The pipeline that merges what a sort has on the disk. Its rows go to another pipeline's packet, in order, and not
//! into its sink.

use std::sync::Arc;

use diligence_base::{Error, Result};

use super::external::Merger;
use super::shared::{SharedSort, SortResult};
use crate::batch::Batch;
use crate::flow::{Accept, QueryContext, Sink, SinkState, Source, SourceState};

/// Where packets merge.
pub(super) struct MergeSource {
    shared: Arc<SharedSort>,
}

impl MergeSource {
    pub fn new(shared: Arc<SharedSort>) -> Self {
        Self { shared }
    }
}

impl Source for MergeSource {
    fn name(&self) -> &'static str {
        "Merge"
    }

    fn packets_max(&self) -> usize {
        match self.shared.result() {
            Ok(SortResult::External(_)) => usize::MAX,
            // What is in memory was merged by the sink.
            Ok(SortResult::Sorted(_)) | Err(_) => 0,
        }
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        match self.shared.result()? {
            SortResult::External(external) => Ok(Box::new(Merger::new(external, context))),
            SortResult::Sorted(_) => Err(Error::bug("a sort in memory was merged by packets")),
        }
    }
}

/// Where nothing arrives.
pub(super) struct Nowhere;

impl Sink for Nowhere {
    fn name(&self) -> &'static str {
        "Merged"
    }

    fn open(&self, _setup: &QueryContext) -> Result<Box<dyn SinkState>> {
        Ok(Box::new(Nowhere))
    }
}

impl SinkState for Nowhere {
    fn push(&mut self, _batch: Batch, _waker: &std::task::Waker) -> Result<Accept> {
        Err(Error::bug("a merge hands its rows over itself"))
    }
}
