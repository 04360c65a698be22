//! Where the bytes of long strings lie, beside the words or views that name their places.
//!
//! Invariant: a block is never moved, so that output can share it without copying.

use arrow::buffer::Buffer;

/// Bytes of an arena's first block; each further one is twice as large, up to [`BLOCK_BYTES_MAX`].
const BLOCK_BYTES_MIN: usize = if cfg!(test) { 256 } else { 16 * 1024 };
const BLOCK_BYTES_MAX: usize = 1024 * 1024;

/// The place of a string: its block, and its offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub block: u32,
    pub offset: u32,
}

/// Blocks of bytes.
#[derive(Default)]
pub(super) struct Arena {
    blocks: Vec<Buffer>,
    open: Vec<u8>,
    bytes: usize,
}

impl Arena {
    /// An empty arena whose first block has room for so many bytes, or is as large as blocks become.
    pub fn with_room(bytes: usize) -> Self {
        let open = Vec::with_capacity(bytes.min(BLOCK_BYTES_MAX));
        Self { bytes: open.capacity(), open, blocks: Vec::new() }
    }

    /// An arena over blocks that somebody else counts.
    pub fn over(blocks: Vec<Buffer>) -> Self {
        Self { blocks, ..Self::default() }
    }

    /// Copies bytes in; returns their place.
    #[inline]
    pub fn store(&mut self, bytes: &[u8]) -> Place {
        if self.open.capacity() - self.open.len() < bytes.len() {
            self.freeze();
            let next = (BLOCK_BYTES_MIN << self.blocks.len().min(10)).min(BLOCK_BYTES_MAX).max(bytes.len());
            self.open = Vec::with_capacity(next);
            self.bytes += next;
        }
        let place = Place { block: self.blocks.len() as u32, offset: self.open.len() as u32 };
        self.open.extend_from_slice(bytes);
        place
    }

    /// Bytes at a place.
    #[inline]
    pub fn read(&self, place: Place, length: usize) -> &[u8] {
        let block = self.blocks.get(place.block as usize).map_or(self.open.as_slice(), Buffer::as_slice);
        let offset = place.offset as usize;
        &block[offset..offset + length]
    }

    /// Closes the block that is being filled.
    pub fn freeze(&mut self) {
        if !self.open.is_empty() {
            self.blocks.push(Buffer::from_vec(std::mem::take(&mut self.open)));
        }
    }

    /// All closed blocks.
    pub fn blocks(&self) -> &[Buffer] {
        &self.blocks
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
