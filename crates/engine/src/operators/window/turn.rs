//! What is at hand while frames are found and values computed.

use std::task::{Poll, Waker, ready};

use diligence_base::Result;
use diligence_memory::Reservation;

use super::buffer::PartitionBuffer;
use super::rows::Rows;

/// What is at hand while values are computed.
pub(super) struct Turn<'a> {
    pub rows: &'a Rows,
    pub buffer: &'a mut PartitionBuffer,
    /// Of what these functions hold.
    pub memory: &'a mut Reservation,
    /// Whether it was refused more; then nothing has changed.
    pub is_refused: &'a mut bool,
    pub waker: &'a Waker,
}

impl Turn<'_> {
    /// Reserves room for what functions are about to hold: rows that wait make room for it.
    pub fn poll_grow(&mut self, bytes: usize) -> Poll<Result<()>> {
        while let Err(refusal) = self.memory.grow(bytes) {
            if !ready!(self.buffer.poll_spill(self.waker))? {
                *self.is_refused = true;
                return Poll::Ready(Err(refusal));
            }
        }
        Poll::Ready(Ok(()))
    }
}
