//! What comes of writing: the commit, and a row with the number of rows.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::{ArrayRef, UInt64Array};
use diligence_base::Result;
use diligence_storage::WriteOperation;

use super::SharedWrite;
use super::ios::run;
use crate::batch::Batch;
use crate::flow::{Pull, QueryContext, Source, SourceState};
use crate::sync::Mutex;

/// Commits when all rows are in, then gives their number.
pub struct Written(Arc<SharedWrite>);

impl Written {
    pub(super) fn new(shared: Arc<SharedWrite>) -> Self {
        Self(shared)
    }
}

impl Source for Written {
    fn name(&self) -> &'static str {
        "Written"
    }

    fn packets_max(&self) -> usize {
        1
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        let operation = self.0.operation(context)?;
        Ok(Box::new(WrittenState { shared: self.0.clone(), operation, step: CommitStep::Filled }))
    }
}

/// ```text
///   Filled ──▶ Preparing ──▶ Committing ──▶ Told
/// ```
enum CommitStep {
    Filled,
    Preparing(ResultSlot<()>),
    Committing(ResultSlot<u64>),
    Told,
}

struct WrittenState {
    shared: Arc<SharedWrite>,
    operation: Arc<dyn WriteOperation>,
    step: CommitStep,
}

/// What I/O has given, once it has.
#[derive(Clone)]
struct ResultSlot<T>(Arc<Mutex<(Option<Result<T>>, Option<Waker>)>>);

impl<T: Send + 'static> ResultSlot<T> {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((None, None))))
    }

    fn put(&self, result: Result<T>) {
        let waker = {
            let mut slot = self.0.lock();
            slot.0 = Some(result);
            slot.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes it out; `None` if it is not there yet, then the waker is woken when it is.
    fn take(&self, waker: &Waker) -> Option<Result<T>> {
        let mut slot = self.0.lock();
        let taken = slot.0.take();
        if taken.is_none() {
            slot.1 = Some(waker.clone());
        }
        taken
    }
}

impl SourceState for WrittenState {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        let io = &self.shared.io;
        match &self.step {
            CommitStep::Filled => {
                let slot = ResultSlot::new();
                self.step = CommitStep::Preparing(slot.clone());
                run(io, self.operation.clone().prepare(), move |result| slot.put(result));
                Ok(Pull::Again)
            }
            CommitStep::Preparing(slot) => {
                let Some(prepared) = slot.take(waker) else { return Ok(Pull::Wait) };
                prepared?;
                self.shared.settle();
                let slot = ResultSlot::new();
                self.step = CommitStep::Committing(slot.clone());
                run(io, self.operation.clone().commit(), move |result| slot.put(result));
                Ok(Pull::Again)
            }
            CommitStep::Committing(slot) => {
                let Some(committed) = slot.take(waker) else { return Ok(Pull::Wait) };
                let rows = committed?;
                self.step = CommitStep::Told;
                drop(self.shared.end());
                let count: ArrayRef = Arc::new(UInt64Array::from(vec![rows]));
                Ok(Pull::Batch(Batch::from_arrays(vec![count], 1)))
            }
            CommitStep::Told => Ok(Pull::Done),
        }
    }
}
