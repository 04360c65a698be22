//! Rows that are known already.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::RecordBatch;
use diligence_base::Result;

use crate::batch::Batch;
use crate::flow::{Pull, QueryContext, Source, SourceState};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// The rows, dealt out to packets in slices of at most a batch.
pub struct Values(Arc<SharedValues>);

struct SharedValues {
    slices: Vec<RecordBatch>,
    next: AtomicUsize,
}

impl Values {
    /// A source of these rows, in order if one packet reads it.
    pub fn new(batches: &[RecordBatch], batch_rows: usize) -> Arc<Self> {
        let slices = batches.iter().flat_map(|batch| {
            (0..batch.num_rows())
                .step_by(batch_rows.max(1))
                .map(move |offset| batch.slice(offset, batch_rows.max(1).min(batch.num_rows() - offset)))
        });
        Arc::new(Self(Arc::new(SharedValues { slices: slices.collect(), next: AtomicUsize::new(0) })))
    }
}

impl Source for Values {
    fn name(&self) -> &'static str {
        "Values"
    }

    fn packets_max(&self) -> usize {
        self.0.slices.len()
    }

    fn open(&self, _setup: &QueryContext) -> Result<Box<dyn SourceState>> {
        Ok(Box::new(ValuesState(self.0.clone())))
    }
}

struct ValuesState(Arc<SharedValues>);

impl SourceState for ValuesState {
    fn pull(&mut self, _waker: &Waker) -> Result<Pull> {
        let index = self.0.next.fetch_add(1, Ordering::Relaxed);
        Ok(self.0.slices.get(index).map_or(Pull::Done, |slice| Pull::Batch(Batch::from_record_batch(slice))))
    }
}
