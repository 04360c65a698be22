//! Reads rows that come from outside while the plan runs ([`crate::plan::SentRows`]). One packet takes them in the
//! order in which they come, and waits like any other packet when there are none yet.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use diligence_base::{Error, Result};
use diligence_memory::Reservation;

use crate::batch::Batch;
use crate::flow::{Pull, QueryContext, Source, SourceState};
use crate::plan::{IncomingRows, SentRows};
use crate::sync::Mutex;

/// The rows of one run.
pub struct IncomingSource(Mutex<Option<IncomingRows>>);

impl IncomingSource {
    /// Takes the rows. Fails with kind `Bug` if another run has taken them.
    pub fn new(incoming: &SentRows) -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Mutex::new(Some(incoming.take()?)))))
    }
}

impl Source for IncomingSource {
    fn name(&self) -> &'static str {
        "Incoming"
    }

    fn packets_max(&self) -> usize {
        1
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        let rows = self.0.lock().take().ok_or_else(|| Error::bug("incoming rows have two readers"))?;
        let reservation = context.memory.reservation("incoming rows");
        Ok(Box::new(IncomingState { rows, batch_rows: context.batch_rows, rest: None, reservation }))
    }
}

struct IncomingState {
    rows: IncomingRows,
    batch_rows: usize,
    /// What is left of a batch that was larger than ours may be.
    rest: Option<Batch>,
    /// Of such a batch, until its last piece is handed on.
    reservation: Reservation,
}

impl SourceState for IncomingState {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.rows.poll(&mut Context::from_waker(waker)) {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(batch) => match batch? {
                    Some(batch) => Batch::from_record_batch(&batch),
                    None => return Ok(Pull::Done),
                },
            },
        };
        if batch.rows() == 0 {
            return Ok(Pull::Again);
        }
        if batch.rows() > self.batch_rows {
            if self.reservation.bytes() == 0 {
                self.reservation.grow(batch.bytes())?;
            }
            self.rest = Some(batch.slice(self.batch_rows, batch.rows() - self.batch_rows));
            return Ok(Pull::Batch(batch.slice(0, self.batch_rows)));
        }
        self.reservation.resize(0)?;
        Ok(Pull::Batch(batch))
    }
}
