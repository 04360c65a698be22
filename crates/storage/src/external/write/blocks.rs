//! What has been encoded of a file, on its way to where the file is: in blocks, so that no growing copies it and each
//! is free as soon as it is written.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::local::PAGE_BYTES;

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 1 << 20;

/// The blocks of a file that are not on their way yet. Encoders write to it; clones are the same.
#[derive(Clone, Default)]
pub(super) struct Outbox(Arc<Mutex<Vec<Block>>>);

/// Which blocks are to go on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Those that are full.
    Full,
    /// Also the whole pages of the last one.
    Pages,
    /// All.
    All,
}

/// Bytes that begin where a page of memory does, so that they can go past the page cache.
struct Block {
    bytes: Vec<u8>,
    /// Where they begin.
    start: usize,
}

impl Outbox {
    /// Takes blocks out, in order.
    pub fn take(&self, due: Due) -> Vec<Bytes> {
        let mut blocks = self.0.lock();
        let full = blocks.len() - usize::from(blocks.last().is_some_and(|block| block.len() < BLOCK_BYTES));
        let mut taken: Vec<_> = blocks.drain(..full).collect();
        if let Some(last) = blocks.pop() {
            let pages = last.len() / PAGE_BYTES * PAGE_BYTES;
            match due {
                Due::All => taken.push(last),
                Due::Pages if pages > 0 => {
                    // The rest of the file begins at a page again.
                    let mut rest = Block::new(last.len() - pages);
                    rest.bytes.extend_from_slice(&last.bytes[last.start + pages..]);
                    blocks.extend((rest.len() > 0).then_some(rest));
                    let mut whole = last;
                    whole.bytes.truncate(whole.start + pages);
                    taken.push(whole);
                }
                Due::Pages | Due::Full => blocks.push(last),
            }
        }
        taken.into_iter().map(Block::into_bytes).collect()
    }

    /// Bytes in it.
    pub fn bytes(&self) -> usize {
        self.0.lock().iter().map(Block::len).sum()
    }
}

impl Block {
    /// A block with room for so many bytes at least, or for all that a block has.
    fn new(bytes: usize) -> Self {
        let mut buffer: Vec<u8> = Vec::with_capacity(bytes.min(BLOCK_BYTES) + PAGE_BYTES);
        let start = buffer.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        buffer.resize(start, 0);
        Self { bytes: buffer, start }
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Makes room for more bytes, at an address of a page.
    fn grow(&mut self, bytes: usize) {
        if self.bytes.capacity() - self.bytes.len() >= bytes {
            return;
        }
        let mut larger = Self::new((self.len() + bytes).max(2 * self.len()));
        larger.bytes.extend_from_slice(&self.bytes[self.start..]);
        *self = larger;
    }

    fn into_bytes(self) -> Bytes {
        Bytes::from(self.bytes).slice(self.start..)
    }
}

impl Write for Outbox {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut blocks = self.0.lock();
        let mut block = match blocks.pop_if(|block| block.len() < BLOCK_BYTES) {
            Some(block) => block,
            None => Block::new(bytes.len()),
        };
        let some = bytes.len().min(BLOCK_BYTES - block.len());
        block.grow(some);
        block.bytes.extend_from_slice(&bytes[..some]);
        blocks.push(block);
        Ok(some)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_pages_at_addresses_of_pages_until_the_last() {
        let mut outbox = Outbox::default();
        let written = (0..2 * BLOCK_BYTES + 10_000).map(|number| (number / 3) as u8).collect::<Vec<_>>();
        let mut taken = Vec::new();
        for (index, piece) in written.chunks(3001).enumerate() {
            outbox.write_all(piece).unwrap();
            taken.extend(outbox.take(if index % 50 == 49 { Due::Pages } else { Due::Full }));
        }
        assert_eq!(taken.iter().map(Bytes::len).sum::<usize>() + outbox.bytes(), written.len());
        for block in &taken {
            assert!(block.as_ptr().addr().is_multiple_of(PAGE_BYTES) && block.len().is_multiple_of(PAGE_BYTES));
        }
        assert!(taken.len() > 10 && outbox.take(Due::Full).is_empty());
        taken.extend(outbox.take(Due::All));
        assert!(taken.concat() == written);
    }
}
