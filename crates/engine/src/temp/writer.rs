//! Batches into a spill file.

use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, UInt32Array, make_array};
use arrow::buffer::Buffer;
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use diligence_base::Result;
use diligence_disk::{Compression, Grouping, SpillBuffers, SpillWriter};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;

use super::block::{ALIGNMENT, HEADER_BYTES, Header, Plan, is_flat};
use super::sizes::Sizes;
use super::{BatchFile, Contents, Form};
use crate::batch::Batch;

/// A batch is cut to fill the rest of a cluster if that is more than one in so many parts of it: small pieces cost more
/// than the room they fill.
const REST_PARTS: usize = 16;

/// Blocks that are compressed have one in so many parts of a cluster at most: how well they shrink is known only
/// afterwards, and what does not fit leaves the rest of a cluster empty.
const COMPRESSED_PARTS: usize = 8;

/// Writes rows to a spill file. Dropping it drops the file.
pub struct BatchWriter {
    writer: SpillWriter,
    buffers: SpillBuffers,
    compression: Compression,
    contents: Contents,
    /// Rows of the batch at hand that are written.
    done: usize,
    /// A block that is longer than a cluster, and how much of it is written.
    long: Option<LongBlock>,
}

struct LongBlock {
    bytes: Buffer,
    written: usize,
    rows: usize,
    _reservation: Reservation,
}

impl BatchWriter {
    /// A writer of a new file.
    pub fn new(buffers: &SpillBuffers, grouping: Grouping) -> Self {
        Self {
            writer: SpillWriter::new(buffers, grouping),
            buffers: buffers.clone(),
            compression: buffers.space().compression(),
            contents: Contents::default(),
            done: 0,
            long: None,
        }
    }

    /// One that packs what it writes ([`packing`](super::packing)): less to write and to read, for some copying. Its
    /// readers need memory for what they unpack: up to 16 bytes for each row and column of a batch.
    pub fn packed(buffers: &SpillBuffers, grouping: Grouping) -> Self {
        let mut writer = Self::new(buffers, grouping);
        writer.contents.is_packed = true;
        writer
    }

    /// Writes a batch; picked columns are made flat. After `Pending`, call it again with the same batch when the waker
    /// was woken. Fails if an earlier write has failed, or if there is no memory for another cluster: then it may be
    /// called again with the same batch as well, if there is memory after all.
    pub fn poll_write(&mut self, batch: &Batch, waker: &Waker) -> Poll<Result<()>> {
        if self.done < batch.rows() || self.long.is_some() {
            let columns =
                (0..batch.columns().len()).map(|index| spilled(batch.flat(index)?)).collect::<Result<Vec<_>>>()?;
            let sizes = Sizes::new(&columns, batch.rows(), self.contents.is_packed);
            let form = self.form(&columns);
            while self.done < batch.rows() {
                let written = match self.poll_long(waker) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(written) => written?,
                };
                if written == 0 {
                    match self.poll_block(&columns, &sizes, form, waker) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(block) => block?,
                    }
                }
            }
        }
        self.done = 0;
        Poll::Ready(Ok(()))
    }

    /// Writes one block of the rows that are left.
    fn poll_block(&mut self, columns: &[ArrayRef], sizes: &Sizes, form: usize, waker: &Waker) -> Poll<Result<()>> {
        let cluster = self.buffers.space().cluster_bytes();
        let whole = if self.compression == Compression::None { cluster } else { cluster / COMPRESSED_PARTS };
        let rest = self.writer.room();
        let fitting = |room: usize| sizes.fitting(self.done, room);
        let rows = [rest.min(whole), whole, cluster, 2 * sizes.base()]
            .into_iter()
            .find_map(|room| Some(fitting(room)).filter(|rows| *rows > 0 && room > cluster / REST_PARTS))
            .unwrap_or(1);
        // Before anything is made, so that nothing is made twice.
        let expected = sizes.bytes(self.done, rows).next_multiple_of(ALIGNMENT);
        if self.writer.poll_room(expected.min(cluster), waker)?.is_pending() {
            return Poll::Pending;
        }
        let slices: Vec<_> = columns.iter().map(|column| column.slice(self.done, rows)).collect();
        let plan = Plan::new(&slices, self.contents.is_packed)?;
        let bytes = plan.bytes();
        let header = Header { bytes, raw_bytes: 0, rows, form };
        if header.block_bytes() > cluster {
            self.contents.unpacked_bytes += plan.unpacked_bytes() as u64;
            self.begin_long(&plan, header);
            return Poll::Ready(Ok(()));
        }
        let row = self.contents.rows;
        if self.compression == Compression::Lz4 {
            let mut scratch = match self.buffers.poll_take(waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(scratch) => scratch?,
            };
            let room = match self.writer.poll_room(header.block_bytes(), waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(room) => room?,
            };
            let (raw, rest) = scratch.bytes_mut().split_at_mut(bytes);
            plan.write(raw);
            let room_bytes = lz4_flex::block::get_maximum_output_size(bytes);
            let smaller = rest.get_mut(..room_bytes).and_then(|rest| {
                let smaller = lz4_flex::block::compress_into(raw, rest).ok().filter(|smaller| *smaller < bytes)?;
                Some(&rest[..smaller])
            });
            // What does not shrink, and a row too large to try, stays as it is.
            let header = match smaller {
                Some(smaller) => Header { bytes: smaller.len(), raw_bytes: bytes, ..header },
                None => header,
            };
            room[HEADER_BYTES..HEADER_BYTES + header.bytes].copy_from_slice(smaller.unwrap_or(raw));
            header.write(room);
            self.begins(row);
            self.writer.advance(header.block_bytes());
        } else {
            let room = match self.writer.poll_room(header.block_bytes(), waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(room) => room?,
            };
            header.write(room);
            plan.write(&mut room[HEADER_BYTES..]);
            self.begins(row);
            self.writer.advance(header.block_bytes());
        }
        self.done += rows;
        self.contents.rows += rows as u64;
        self.contents.unpacked_bytes += plan.unpacked_bytes() as u64;
        Poll::Ready(Ok(()))
    }

    /// Makes a block that is longer than a cluster; it is copied into clusters one after another.
    fn begin_long(&mut self, plan: &Plan, header: Header) {
        let mut reservation = self.buffers.sibling();
        // The row is in memory anyhow, and there is no other way to get it out of there.
        reservation.overdraw(header.block_bytes());
        let mut bytes = vec![0; header.block_bytes()];
        header.write(&mut bytes);
        plan.write(&mut bytes[HEADER_BYTES..]);
        self.writer.close_cluster();
        self.begins(self.contents.rows);
        self.long = Some(LongBlock { bytes: bytes.into(), written: 0, rows: header.rows, _reservation: reservation });
    }

    /// Goes on with a block that is longer than a cluster. How many rows it had, when it is written; 0 if there is
    /// none.
    fn poll_long(&mut self, waker: &Waker) -> Poll<Result<usize>> {
        let Some(long) = &mut self.long else { return Poll::Ready(Ok(0)) };
        while long.written < long.bytes.len() {
            match self.writer.poll_append(&long.bytes[long.written..], waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(taken) => long.written += taken?,
            }
        }
        let rows = long.rows;
        self.long = None;
        // So that wherever a block begins, it can be found.
        self.writer.close_cluster();
        self.done += rows;
        self.contents.rows += rows as u64;
        Poll::Ready(Ok(rows))
    }

    /// A block begins in the present cluster.
    fn begins(&mut self, row: u64) {
        let cluster = self.writer.next_cluster();
        if self.contents.starts.last().is_none_or(|(last, _)| *last < cluster) {
            self.contents.starts.push((cluster, row));
        }
    }

    /// The number of the columns' types.
    fn form(&mut self, columns: &[ArrayRef]) -> usize {
        let is_same = |form: &Form| form.iter().eq(columns.iter().map(|column| column.data_type()));
        self.contents.forms.iter().rposition(is_same).unwrap_or_else(|| {
            self.contents.forms.push(columns.iter().map(|column| column.data_type().clone()).collect());
            self.contents.forms.len() - 1
        })
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.contents.rows
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Full clusters that wait for [`Self::submit`].
    pub fn waiting_clusters(&self) -> usize {
        self.writer.waiting_clusters()
    }

    /// Ends the present cluster, however little it holds: so that a writer gives its memory back. Whether there was
    /// one.
    pub fn close_cluster(&mut self) -> bool {
        let any = self.writer.room() > 0;
        self.writer.close_cluster();
        any
    }

    /// Sends the full clusters to the disk as one group.
    pub fn submit(&mut self) {
        self.writer.submit();
    }

    /// Ends the file. What is on its way to the disk stays so; readers wait for it, and get the error if it does not
    /// arrive.
    pub fn finish(self) -> BatchFile {
        debug_assert!(self.done == 0 && self.long.is_none(), "a batch was not written to its end");
        BatchFile { file: self.writer.finish(), contents: Arc::new(self.contents) }
    }
}

impl std::fmt::Debug for BatchWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BatchWriter({} rows, {} bytes)", self.rows(), self.bytes())
    }
}

/// A column as it is written: a dictionary that has more values than rows keeps those that the rows have.
fn spilled(column: ArrayRef) -> Result<ArrayRef> {
    let DataType::Dictionary(key_type, _) = column.data_type() else { return Ok(column) };
    let dictionary = column.as_any_dictionary();
    if dictionary.values().len() <= column.len() || !is_flat(column.data_type()) {
        return Ok(column);
    }
    let mut new_keys = vec![None; dictionary.values().len()];
    let mut used = Vec::new();
    let keys = dictionary.normalized_keys().into_iter().enumerate().map(|(row, key)| {
        dictionary.keys().is_valid(row).then(|| {
            *new_keys[key].get_or_insert_with(|| {
                used.push(key as u32);
                used.len() as u32 - 1
            })
        })
    });
    let keys = cast(&keys.collect::<UInt32Array>(), key_type).map_err(from_arrow)?.to_data();
    let values = take(dictionary.values(), &UInt32Array::from(used), None).map_err(from_arrow)?;
    let data = ArrayData::builder(column.data_type().clone())
        .len(column.len())
        .nulls(keys.nulls().cloned())
        .buffers(keys.buffers().to_vec())
        .child_data(vec![values.to_data()]);
    Ok(make_array(data.build().map_err(from_arrow)?))
}
