//! The sink that encodes rows.

use std::sync::Arc;
use std::task::Waker;

use diligence_base::Result;
use diligence_storage::WritePart;

use super::SharedWrite;
use super::ios::Ios;
use crate::batch::Batch;
use crate::flow::{Accept, QueryContext, Sink, SinkState};
use diligence_memory::Reservation;

/// Gives the rows of all packets to a writer.
pub struct WriteSink(Arc<SharedWrite>);

impl WriteSink {
    pub(super) fn new(shared: Arc<SharedWrite>) -> Self {
        Self(shared)
    }
}

impl Sink for WriteSink {
    fn name(&self) -> &'static str {
        "Write"
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SinkState>> {
        let part = self.0.operation(context)?.part()?;
        let (memory, ios) = (context.memory.revocable("Write"), Ios::new(self.0.io.clone()));
        Ok(Box::new(WriteState { shared: self.0.clone(), part, ios, memory, empties: false, has_ended: false }))
    }
}

struct WriteState {
    shared: Arc<SharedWrite>,
    part: Box<dyn WritePart>,
    ios: Ios,
    /// For what the part holds and what is under way.
    memory: Reservation,
    /// Memory was short: no rows before all I/O is done.
    empties: bool,
    has_ended: bool,
}

impl WriteState {
    /// Starts what is due, and says whether to wait.
    fn go_on(&mut self, waker: &Waker) -> Result<Accept> {
        loop {
            let mut is_all = false;
            while self.ios.has_room() {
                match self.part.next_io() {
                    Some(due) => self.ios.start(due),
                    None => {
                        is_all = true;
                        break;
                    }
                }
            }
            self.memory.settle(self.part.held_bytes() + self.ios.bytes());
            self.shared.settle();
            let for_all = is_all && (self.empties || self.has_ended);
            if self.ios.waits(for_all, waker)? {
                return Ok(Accept::Wait);
            }
            if is_all {
                self.empties = false;
                return Ok(Accept::More);
            }
        }
    }

    fn empty(&mut self) -> Result<()> {
        self.empties = true;
        self.part.revoke()
    }
}

impl SinkState for WriteState {
    fn push(&mut self, batch: Batch, waker: &Waker) -> Result<Accept> {
        let rows = batch.to_record_batch(&self.shared.schema)?;
        if self.memory.grow(batch.bytes()).is_err() || self.memory.is_asked() {
            self.empty()?;
        }
        self.part.write(&rows)?;
        self.go_on(waker)
    }

    fn at(&mut self, place: Option<usize>) -> Result<()> {
        self.part.at(place)
    }

    fn ready(&mut self, waker: &Waker) -> Result<Accept> {
        self.go_on(waker)
    }

    fn give_back(&mut self, waker: &Waker) -> Result<Accept> {
        if !self.memory.is_asked() {
            return Ok(Accept::More);
        }
        self.empty()?;
        self.go_on(waker)
    }

    fn finish(&mut self, waker: &Waker) -> Result<Accept> {
        if !self.has_ended {
            self.has_ended = true;
            self.part.finish()?;
        }
        self.go_on(waker)
    }
}
