//! Memory beside the clusters of an operator's files.

use arrow::buffer::{Buffer, MutableBuffer};
use bytes::Bytes;
use diligence_base::Result;
use diligence_disk::SpillBuffers;
use diligence_memory::Reservation;

/// Reserved memory beside the clusters: for what is longer than a cluster, or was compressed.
pub(super) struct HeldBytes {
    bytes: MutableBuffer,
    reservation: Reservation,
}

impl HeldBytes {
    /// So many zeros. Fails with kind `Resource` if they cannot be reserved and are more than a cluster: what was
    /// compressed must be readable with the clusters that its reader has.
    pub fn new(buffers: &SpillBuffers, bytes: usize) -> Result<Self> {
        let mut reservation = buffers.sibling();
        reservation.grow_for_one_row(bytes)?;
        Ok(Self { bytes: MutableBuffer::from_len_zeroed(bytes), reservation })
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The bytes for arrays, reserved as long as one of these lives.
    pub fn into_buffer(self) -> Buffer {
        let held = HeldBuffer { buffer: self.bytes.into(), _reservation: self.reservation };
        Buffer::from(Bytes::from_owner(held))
    }
}

struct HeldBuffer {
    buffer: Buffer,
    _reservation: Reservation,
}

impl AsRef<[u8]> for HeldBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}
