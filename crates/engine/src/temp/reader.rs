//! Batches out of a spill file.

use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::buffer::Buffer;
use diligence_base::{Error, Result};
use diligence_disk::{SpillBuffers, SpillReader};

use super::Contents;
use super::block::{HEADER_BYTES, Header, columns_of};
use super::held::HeldBytes;
use crate::batch::Batch;

/// Reads rows from a spill file, in batches as they were written or smaller ones. Their arrays lie in the clusters that
/// were read: whoever keeps some rows for long keeps them [`compacted`](crate::batch::compacted).
pub struct BatchReader {
    reader: SpillReader,
    contents: Arc<Contents>,
    /// The cluster at hand, and where its next block begins.
    cluster: Option<(Buffer, usize)>,
    /// A block that is longer than a cluster, as far as it is read.
    long: Option<LongBlock>,
    /// Rows to be passed over after a seek.
    skip: u64,
}

struct LongBlock {
    header: Header,
    bytes: HeldBytes,
    filled: usize,
}

impl BatchReader {
    pub(super) fn new(reader: SpillReader, contents: Arc<Contents>) -> Self {
        Self { reader, contents, cluster: None, long: None, skip: 0 }
    }

    pub(super) fn buffers(&self) -> &SpillBuffers {
        self.reader.buffers()
    }

    /// Whether the next batch comes of the cluster that the last one came of.
    pub(super) fn has_block_at_hand(&self) -> bool {
        self.cluster.as_ref().is_some_and(|(cluster, from)| {
            Header::read(&cluster[*from..]).is_some_and(|header| *from + header.block_bytes() <= cluster.len())
        })
    }

    /// Goes on with the row of this number, from 0.
    pub fn seek(&mut self, row: u64) {
        let starts = &self.contents.starts;
        let index = starts.partition_point(|(_, first)| *first <= row).saturating_sub(1);
        let Some((cluster, first)) = starts.get(index).copied() else { return };
        self.cluster = None;
        self.long = None;
        self.skip = row - first;
        self.reader.seek(if row < self.contents.rows { cluster } else { usize::MAX });
    }

    /// The next batch; `None` at the end. After `Pending` the waker is woken when it is worth asking again. After an
    /// error the reader stands where it stood.
    pub fn poll_next(&mut self, waker: &Waker) -> Poll<Option<Result<Batch>>> {
        loop {
            match self.step(waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(ReadStep::End)) => return Poll::Ready(None),
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Ok(ReadStep::More)) => {}
                Poll::Ready(Ok(ReadStep::Batch(batch))) => {
                    let rows = batch.rows() as u64;
                    if self.skip >= rows {
                        self.skip -= rows;
                        continue;
                    }
                    let skip = std::mem::take(&mut self.skip) as usize;
                    let batch = if skip == 0 { batch } else { batch.slice(skip, batch.rows() - skip) };
                    return Poll::Ready(Some(Ok(batch)));
                }
            }
        }
    }

    fn step(&mut self, waker: &Waker) -> Poll<Result<ReadStep>> {
        let Some((cluster, from)) = &mut self.cluster else {
            return match self.reader.poll_next(waker) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(None) if self.long.is_some() => Poll::Ready(Err(cut_off())),
                Poll::Ready(None) => Poll::Ready(Ok(ReadStep::End)),
                Poll::Ready(Some(cluster)) => {
                    self.cluster = Some((Buffer::from(cluster?.into_bytes()), 0));
                    Poll::Ready(Ok(ReadStep::More))
                }
            };
        };
        if let Some(long) = &mut self.long {
            let some = (cluster.len() - *from).min(long.header.block_bytes() - long.filled);
            long.bytes.bytes_mut()[long.filled..long.filled + some].copy_from_slice(&cluster[*from..*from + some]);
            long.filled += some;
            *from += some;
            if long.filled < long.header.block_bytes() {
                self.cluster = None;
                return Poll::Ready(Ok(ReadStep::More));
            }
            let Some(LongBlock { header, bytes, .. }) = self.long.take() else { return Poll::Ready(Err(cut_off())) };
            return Poll::Ready(self.batch(header, &bytes.into_buffer()));
        }
        let Some(header) = Header::read(&cluster[*from..]) else {
            self.cluster = None;
            return Poll::Ready(Ok(ReadStep::More));
        };
        if *from + header.block_bytes() > cluster.len() {
            let bytes = HeldBytes::new(self.reader.buffers(), header.block_bytes())?;
            self.long = Some(LongBlock { header, bytes, filled: 0 });
            return Poll::Ready(Ok(ReadStep::More));
        }
        let (block, end) = (cluster.slice_with_length(*from, header.block_bytes()), *from + header.block_bytes());
        // If there is no memory for it, it is still the next.
        let batch = self.batch(header, &block)?;
        if let Some((_, from)) = &mut self.cluster {
            *from = end;
        }
        Poll::Ready(Ok(batch))
    }

    /// The rows of a whole block.
    fn batch(&self, header: Header, block: &Buffer) -> Result<ReadStep> {
        let stored = block.slice_with_length(HEADER_BYTES, header.bytes);
        let raw = if header.raw_bytes == 0 {
            stored
        } else {
            let mut raw = HeldBytes::new(self.reader.buffers(), header.raw_bytes)?;
            lz4_flex::block::decompress_into(&stored, raw.bytes_mut())
                .map_err(|error| Error::bug(format!("a block of temp space cannot be decompressed: {error}")))?;
            raw.into_buffer()
        };
        let types = self.contents.forms.get(header.form).ok_or_else(cut_off)?;
        let columns = columns_of(&raw, header.rows, types, self.contents.is_packed, self.reader.buffers())?;
        Ok(ReadStep::Batch(Batch::from_arrays(columns, header.rows)))
    }
}

/// One step of a reader.
enum ReadStep {
    /// Go on.
    More,
    Batch(Batch),
    End,
}

fn cut_off() -> Error {
    Error::bug("a block of temp space ends before it should")
}

impl std::fmt::Debug for BatchReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BatchReader({:?})", self.reader)
    }
}
