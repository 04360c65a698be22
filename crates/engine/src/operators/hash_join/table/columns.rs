//! The columns that a join keeps of its build side: chunk by chunk in each packet, then one contiguous array per
//! column.
//!
//! Why contiguous: the output of a join is *picks* into these arrays, and picks reach into one array.
//! Why strings are copied into blocks of our own: a view holds all the buffers of its array alive, and an array made of
//! thousands of chunks would carry thousands of buffers through every `take`.
//!
//! Invariant: what is kept here keeps few other rows alive: see [`compacted`].

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryViewArray, BooleanBufferBuilder, DictionaryArray, PrimitiveArray,
    StringViewArray, make_array, new_empty_array,
};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Int32Type};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::codes::{Codes, united};
use super::shared_vec::SharedVec;
use crate::batch::prefetch::{AHEAD, prefetch_text};
use crate::batch::{Column, bytes_needed, compacted, concat_arrays, to_logical, views};

/// Bytes in the first block of string data of a packet, and in the largest. A block has a part of the bytes before it,
/// so a packet of a small build side is small, one of a large build side has few blocks, and little is allocated in
/// vain.
const BLOCK_BYTES_MIN: usize = if cfg!(test) { 200 } else { 16 << 10 };
pub(super) const BLOCK_BYTES_MAX: usize = 16 << 20;
const BLOCK_PART: usize = 8;

/// Bytes that one piece of copying work moves: less than a millisecond, or a few where the system has to find fresh
/// memory for the copy.
const COPY_BYTES: usize = if cfg!(test) { 256 } else { 1 << 20 };

/// One packet's part of one column.
pub(in super::super) struct ColumnChunks {
    logical: DataType,
    /// Each with the number of blocks that there were when it was in.
    chunks: Vec<(ColumnChunk, usize)>,
    /// Bytes of chunks that are arrays.
    array_bytes: usize,
    /// Finished blocks of string data, and the one being filled.
    blocks: Vec<Buffer>,
    block: Vec<u8>,
    /// Bytes of a block at most, but for a string that is longer.
    block_bytes_max: usize,
    /// The views of the dictionary seen last: chunks of one row group share theirs.
    dictionary: Option<(ArrayRef, Vec<u128>)>,
    codes: Codes,
    /// Whether chunks with dictionaries are kept as codes: as long as all chunks are, and the values are few.
    takes_codes: bool,
}

enum ColumnChunk {
    Array(ArrayRef),
    Views(Vec<u128>, Option<NullBuffer>),
    /// Codes of the packet's values, and how many of these there were when it was in.
    Codes(Vec<i32>, Option<NullBuffer>, usize),
}

impl ColumnChunk {
    fn len(&self) -> usize {
        match self {
            ColumnChunk::Array(array) => array.len(),
            ColumnChunk::Views(views, _) => views.len(),
            ColumnChunk::Codes(codes, ..) => codes.len(),
        }
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            ColumnChunk::Array(array) => array.nulls(),
            ColumnChunk::Views(_, nulls) | ColumnChunk::Codes(_, nulls, _) => nulls.as_ref(),
        }
        .filter(|nulls| nulls.null_count() > 0)
    }
}

impl ColumnChunks {
    /// No chunks yet. The values of a key are kept as views, by which keys are compared.
    pub fn new(logical: DataType, block_bytes_max: usize, is_key: bool) -> Self {
        let block_bytes_max = block_bytes_max.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        let takes_codes = is_view(&logical) && !is_key;
        Self {
            logical,
            chunks: vec![],
            array_bytes: 0,
            blocks: vec![],
            block: vec![],
            block_bytes_max,
            dictionary: None,
            codes: Codes::default(),
            takes_codes,
        }
    }

    /// Bytes that a chunk will hold, about.
    pub fn append_bytes(&self, column: &Column) -> usize {
        let bytes = column.bytes();
        let long = bytes.saturating_sub(16 * column.len() + column.len() / 8);
        if !is_view(&self.logical) || self.block.len() + long <= self.block.capacity() {
            return bytes;
        }
        bytes - long + self.next_block_bytes().max(long)
    }

    /// Appends a chunk and tells how many bytes it holds. The caller reserves them before.
    pub fn append(&mut self, column: &Column) -> Result<usize> {
        let before = self.block_bytes();
        let chunk = if is_view(&self.logical) {
            self.append_views(column)?
        } else {
            let flat = column.flat()?;
            ColumnChunk::Array(match flat.data_type() {
                DataType::Dictionary(..) => to_logical(&flat, &self.logical)?,
                _ => compacted(&flat)?,
            })
        };
        let bytes = match &chunk {
            ColumnChunk::Array(array) => bytes_needed(array),
            ColumnChunk::Views(views, _) => views.len() * 16 + self.block_bytes() - before,
            ColumnChunk::Codes(codes, ..) => codes.len() * 4 + self.block_bytes() - before,
        };
        if matches!(chunk, ColumnChunk::Array(_)) {
            self.array_bytes += bytes;
        }
        self.chunks.push((chunk, self.blocks.len() + !self.block.is_empty() as usize));
        Ok(bytes)
    }

    /// Takes out the chunk that came last, and tells how many bytes are free when it is dropped.
    pub fn pop(&mut self) -> Option<(ArrayRef, usize)> {
        self.finish();
        let (chunk, blocks) = self.chunks.pop()?;
        match chunk {
            ColumnChunk::Array(array) => {
                let bytes = bytes_needed(&array);
                self.array_bytes -= bytes;
                Some((array, bytes))
            }
            ColumnChunk::Views(views, nulls) => {
                let bytes = 16 * views.len();
                let array = view_array(&self.logical, views.into(), self.blocks[..blocks].to_vec(), nulls);
                Some((array, bytes + self.drop_last_blocks()))
            }
            ColumnChunk::Codes(codes, nulls, _) => {
                let bytes = 4 * codes.len();
                let views = views_of(&codes, &self.codes.views);
                let array = view_array(&self.logical, views.into(), self.blocks[..blocks].to_vec(), nulls);
                Some((array, bytes + self.drop_last_blocks()))
            }
        }
    }

    /// Drops the blocks that no chunk needs, and the values in them; tells how many bytes that were.
    fn drop_last_blocks(&mut self) -> usize {
        let blocks = self.chunks.last().map_or(0, |(_, blocks)| *blocks);
        let values = |(chunk, _): &(ColumnChunk, usize)| match chunk {
            ColumnChunk::Codes(.., values) => Some(*values),
            _ => None,
        };
        let has_codes = !self.codes.views.is_empty();
        let values = has_codes.then(|| self.chunks.iter().rev().find_map(values)).flatten().unwrap_or(0);
        self.codes.truncate(values);
        self.blocks.drain(blocks..).map(|block| block.capacity()).sum()
    }

    /// Bytes of the array that all chunks, of so many rows, make.
    pub fn assembly_bytes(&self, rows: usize) -> usize {
        match assembly_bytes_per_row(&self.logical) {
            0 => self.array_bytes,
            bytes => rows * bytes,
        }
    }

    /// Bytes of the block that the last chunks have their strings in.
    pub fn last_block_bytes(&self) -> usize {
        self.block.capacity().max(self.blocks.last().map_or(0, Buffer::capacity))
    }

    fn next_block_bytes(&self) -> usize {
        (self.block_bytes() / BLOCK_PART).clamp(BLOCK_BYTES_MIN, self.block_bytes_max)
    }

    fn block_bytes(&self) -> usize {
        self.blocks.iter().map(Buffer::capacity).sum::<usize>() + self.block.capacity()
    }

    fn append_views(&mut self, column: &Column) -> Result<ColumnChunk> {
        let (values, picks) = column.parts();
        if matches!(values.data_type(), DataType::Dictionary(key, _) if **key == DataType::Int32) {
            return self.append_dictionary(&column.flat()?);
        }
        self.takes_codes = false;
        if *values.data_type() == self.logical {
            let picked: Option<&[u32]> = picks.map(|picks| &picks.values()[..]);
            let nulls = match picks {
                None => values.nulls().cloned(),
                Some(picks) if picks.null_count() == 0 && values.null_count() == 0 => None,
                Some(picks) => {
                    let valid = |row: Option<u32>| row.is_some_and(|row| values.is_valid(row as usize));
                    Some(picks.iter().map(valid).collect())
                }
            };
            let nulls = nulls.filter(|nulls: &NullBuffer| nulls.null_count() > 0);
            let views = self.own_views(values, picked, nulls.as_ref());
            return Ok(ColumnChunk::Views(views, nulls));
        }
        let flat = to_logical(&column.flat()?, &self.logical)?;
        let views = self.own_views(&flat, None, flat.nulls());
        Ok(ColumnChunk::Views(views, flat.nulls().cloned()))
    }

    fn append_dictionary(&mut self, array: &ArrayRef) -> Result<ColumnChunk> {
        let dictionary = array.as_dictionary::<Int32Type>();
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if let Some(numbers) = self.numbers_of(dictionary.values())? {
            // The key of a NULL may be anything.
            let own = |&key: &i32| numbers.get(key as usize).copied().unwrap_or(0);
            let codes = dictionary.keys().values().iter().map(own).collect();
            return Ok(ColumnChunk::Codes(codes, nulls, self.codes.views.len()));
        }
        let seen = self.dictionary.take().filter(|(seen, _)| Arc::ptr_eq(seen, dictionary.values()));
        let views = match seen {
            Some((_, views)) => views,
            None => {
                let values = to_logical(dictionary.values(), &self.logical)?;
                self.own_views(&values, None, values.nulls())
            }
        };
        let own = |&key: &i32| views.get(key as usize).copied().unwrap_or(0);
        let chunk = dictionary.keys().values().iter().map(own).collect();
        self.dictionary = Some((dictionary.values().clone(), views));
        Ok(ColumnChunk::Views(chunk, nulls))
    }

    /// The codes of a dictionary's values; `None` if the column is not kept as codes, or not any more.
    fn numbers_of(&mut self, dictionary: &ArrayRef) -> Result<Option<Arc<[i32]>>> {
        if !self.takes_codes {
            return Ok(None);
        }
        let values = to_logical(dictionary, &self.logical)?;
        let mut codes = std::mem::take(&mut self.codes);
        let numbers = codes.of_dictionary(dictionary, &values, |view, buffers| match views::is_long(view) {
            true => self.own_view(view, buffers),
            false => view,
        });
        self.codes = codes;
        self.takes_codes = numbers.is_some();
        Ok(numbers)
    }

    /// The views of these rows, long strings copied into our own blocks.
    fn own_views(&mut self, values: &ArrayRef, picks: Option<&[u32]>, nulls: Option<&NullBuffer>) -> Vec<u128> {
        let (views, buffers) = views::parts(values).unwrap_or_default();
        let rows = picks.map_or(views.len(), <[u32]>::len);
        let view_at = |row: usize| views[picks.map_or(row, |picks| picks[row] as usize)];
        let mut own = Vec::with_capacity(rows);
        for row in 0..rows {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                own.push(0);
                continue;
            }
            let view = view_at(row);
            // What is split by partition is read in pieces, and was written long ago.
            // A pick of what is NULL may name any row.
            let ahead = picks.map_or(Some(row + AHEAD), |picks| picks.get(row + AHEAD).map(|&pick| pick as usize));
            if let Some(&view) = ahead.and_then(|ahead| views.get(ahead)) {
                prefetch_text(view, buffers);
            }
            own.push(if views::is_long(view) { self.own_view(view, buffers) } else { view });
        }
        own
    }

    fn own_view(&mut self, view: u128, buffers: &[Buffer]) -> u128 {
        let bytes = views::bytes(&view, buffers);
        if self.block.len() + bytes.len() > self.block.capacity() {
            let next = self.next_block_bytes().max(bytes.len());
            let full = std::mem::take(&mut self.block);
            if !full.is_empty() {
                self.blocks.push(Buffer::from_vec(full));
            }
            self.block = Vec::with_capacity(next);
        }
        let offset = self.block.len();
        self.block.extend_from_slice(bytes);
        views::placed(view, self.blocks.len(), offset)
    }

    /// No chunk follows, or none for a while.
    pub fn finish(&mut self) {
        self.dictionary = None;
        self.codes.forget_dictionary();
        let mut block = std::mem::take(&mut self.block);
        if !block.is_empty() {
            block.shrink_to_fit();
            self.blocks.push(Buffer::from_vec(block));
        }
    }
}

/// Bytes of each row in the array that all chunks make; 0 if they differ.
pub(super) fn assembly_bytes_per_row(logical: &DataType) -> usize {
    if is_view(logical) { 16 } else { logical.primitive_width().unwrap_or(0) }
}

fn is_view(logical: &DataType) -> bool {
    matches!(logical, DataType::Utf8View | DataType::BinaryView)
}

/// One column on its way from the packets' chunks to one array. Work on it is cut into pieces.
pub(super) struct Assembly {
    logical: DataType,
    /// All chunks of all packets, in row order: the chunk and the number of its packet.
    chunks: Vec<(ColumnChunk, usize)>,
    rows: usize,
    blocks: Vec<Buffer>,
    /// The number of each packet's first block.
    first_blocks: Vec<usize>,
    /// The views of the values of each packet's codes, in all blocks.
    values: Vec<Vec<u128>>,
    kind: ColumnKind,
    /// Ranges of `chunks`, and the row at which each starts: one piece of work each.
    pieces: Vec<(Range<usize>, usize)>,
}

enum ColumnKind {
    /// One chunk that is the array.
    Done,
    /// Values of this many bytes, of this type.
    Fixed { values: SharedVec<i128>, width: usize, physical: DataType },
    /// Views.
    Views { values: SharedVec<u128> },
    /// Codes of these values; those of each packet's own codes.
    Codes { codes: SharedVec<i32>, values: Vec<u128>, of_packets: Vec<Vec<i32>> },
    /// Anything else: one piece puts all chunks together.
    Other(std::sync::OnceLock<ArrayRef>),
}

impl Assembly {
    /// Puts the packets' chunks in the given order: (packet, chunk) pairs that name each chunk once.
    pub fn new(mut packets: Vec<ColumnChunks>, order: &[(usize, usize)], logical: &DataType) -> Self {
        let mut blocks = Vec::new();
        let mut first_blocks = Vec::new();
        let mut values = Vec::new();
        for packet in &mut packets {
            values.push(packet.codes.views.iter().map(|view| rebased(*view, blocks.len())).collect());
            first_blocks.push(blocks.len());
            blocks.append(&mut packet.blocks);
        }
        let mut slots: Vec<Vec<Option<ColumnChunk>>> = packets
            .into_iter()
            .map(|packet| packet.chunks.into_iter().map(|(chunk, _)| Some(chunk)).collect())
            .collect();
        let chunks: Vec<(ColumnChunk, usize)> =
            order.iter().filter_map(|&(packet, chunk)| Some((slots[packet][chunk].take()?, packet))).collect();
        let rows = chunks.iter().map(|(chunk, _)| chunk.len()).sum();
        let is_coded = !chunks.is_empty() && chunks.iter().all(|(chunk, _)| matches!(chunk, ColumnChunk::Codes(..)));
        let (kind, width) = match is_coded.then(|| united(&values, &blocks)).flatten() {
            Some((values, of_packets)) => {
                (ColumnKind::Codes { codes: SharedVec::new(vec![0; rows]), values, of_packets }, 4)
            }
            None => Self::kind(&chunks, rows, logical),
        };
        let mut pieces = Vec::new();
        let mut row = 0;
        let mut piece = (0..0, 0);
        let piece_rows = COPY_BYTES / width.max(1);
        let is_cut = !matches!(kind, ColumnKind::Done | ColumnKind::Other(_));
        for (index, (chunk, _)) in chunks.iter().enumerate() {
            row += chunk.len();
            piece.0.end = index + 1;
            if is_cut && row - piece.1 >= piece_rows {
                pieces.push(std::mem::replace(&mut piece, (index + 1..index + 1, row)));
            }
        }
        if !piece.0.is_empty() && !matches!(kind, ColumnKind::Done) {
            pieces.push(piece);
        }
        Self { logical: logical.clone(), chunks, rows, blocks, first_blocks, values, kind, pieces }
    }

    fn kind(chunks: &[(ColumnChunk, usize)], rows: usize, logical: &DataType) -> (ColumnKind, usize) {
        if is_view(logical) {
            return (ColumnKind::Views { values: SharedVec::new(vec![0; rows]) }, 16);
        }
        let [(ColumnChunk::Array(first), _), rest @ ..] = chunks else { return (ColumnKind::Done, 0) };
        if rest.is_empty() {
            return (ColumnKind::Done, 0);
        }
        let physical = first.data_type();
        let same =
            rest.iter().all(|(chunk, _)| matches!(chunk, ColumnChunk::Array(array) if array.data_type() == physical));
        match physical.primitive_width() {
            Some(width) if same => {
                let values = SharedVec::new(vec![0; (rows * width).div_ceil(16)]);
                (ColumnKind::Fixed { values, width, physical: physical.clone() }, width)
            }
            _ => (ColumnKind::Other(std::sync::OnceLock::new()), 0),
        }
    }

    /// How many pieces of work there are.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// One piece of work. Each is done once; different ones at the same time.
    pub fn work(&self, piece: usize) -> Result<()> {
        let (chunks, row) = &self.pieces[piece];
        let chunks = &self.chunks[chunks.clone()];
        let rows: usize = chunks.iter().map(|(chunk, _)| chunk.len()).sum();
        match &self.kind {
            ColumnKind::Done => {}
            ColumnKind::Fixed { values, width, .. } => {
                let mut at = row * width;
                for (chunk, _) in chunks {
                    let ColumnChunk::Array(array) = chunk else { continue };
                    let data = array.to_data();
                    let bytes =
                        &data.buffers()[0].as_slice()[data.offset() * width..(data.offset() + data.len()) * width];
                    // SAFETY: pieces cover disjoint row ranges, so disjoint bytes.
                    unsafe { byte_range_mut(values, at, bytes.len()) }.copy_from_slice(bytes);
                    at += bytes.len();
                }
            }
            ColumnKind::Views { values } => {
                // SAFETY: pieces cover disjoint row ranges.
                let mut target = unsafe { values.range_mut(*row..row + rows) };
                for (chunk, packet) in chunks {
                    let (own, rest) = target.split_at_mut(chunk.len());
                    match chunk {
                        ColumnChunk::Views(views, _) => {
                            let first_block = self.first_blocks[*packet];
                            own.iter_mut().zip(views).for_each(|(own, view)| *own = rebased(*view, first_block));
                        }
                        ColumnChunk::Codes(codes, ..) => own.copy_from_slice(&views_of(codes, &self.values[*packet])),
                        ColumnChunk::Array(_) => {}
                    }
                    target = rest;
                }
            }
            ColumnKind::Codes { codes, of_packets, .. } => {
                // SAFETY: pieces cover disjoint row ranges.
                let mut target = unsafe { codes.range_mut(*row..row + rows) };
                for (chunk, packet) in chunks {
                    let ColumnChunk::Codes(codes, ..) = chunk else { continue };
                    let (own, rest) = target.split_at_mut(codes.len());
                    let numbers = &of_packets[*packet];
                    // The code of a NULL may be anything.
                    let number = |code: &i32| numbers.get(*code as usize).copied().unwrap_or(0);
                    own.iter_mut().zip(codes).for_each(|(own, code)| *own = number(code));
                    target = rest;
                }
            }
            ColumnKind::Other(done) => {
                let arrays: Vec<ArrayRef> = chunks
                    .iter()
                    .filter_map(
                        |(chunk, _)| if let ColumnChunk::Array(array) = chunk { Some(array.clone()) } else { None },
                    )
                    .collect();
                let _ = done.set(concat_arrays(&arrays, &self.logical)?);
            }
        }
        Ok(())
    }

    /// The array, after all pieces of work, and the bytes that it holds.
    pub fn finish(self) -> Result<(ArrayRef, usize)> {
        if self.rows == 0 {
            return Ok((new_empty_array(&self.logical), 0));
        }
        let views = match &self.kind {
            // Not counted view by view: there may be billions.
            ColumnKind::Views { .. } => {
                Some(16 * self.rows + self.rows / 8 + self.blocks.iter().map(Buffer::capacity).sum::<usize>())
            }
            ColumnKind::Codes { values, .. } => {
                let blocks = self.blocks.iter().map(Buffer::capacity).sum::<usize>();
                Some(4 * self.rows + self.rows / 8 + 16 * values.len() + blocks)
            }
            _ => None,
        };
        let array = self.into_array()?;
        let bytes = views.unwrap_or_else(|| bytes_needed(&array));
        Ok((array, bytes))
    }

    fn into_array(self) -> Result<ArrayRef> {
        let nulls = match self.kind {
            ColumnKind::Fixed { .. } | ColumnKind::Views { .. } | ColumnKind::Codes { .. } => {
                concat_nulls(self.chunks.iter().map(|(chunk, _)| chunk), self.rows)
            }
            _ => None,
        };
        match self.kind {
            ColumnKind::Done => match self.chunks.into_iter().next() {
                Some((ColumnChunk::Array(array), _)) => Ok(array),
                _ => Err(Error::bug("a column of the build side has no chunk")),
            },
            ColumnKind::Fixed { values, physical, .. } => {
                let buffer = Buffer::from_vec(values.into_vec());
                let data = ArrayData::builder(physical).len(self.rows).add_buffer(buffer).nulls(nulls);
                Ok(make_array(data.build().map_err(from_arrow)?))
            }
            ColumnKind::Views { values } => Ok(view_array(&self.logical, values.into_vec().into(), self.blocks, nulls)),
            ColumnKind::Codes { codes, values, .. } => {
                // An array has its values in views, also if all rows are NULL.
                let values = if values.is_empty() { vec![0] } else { values };
                let values = view_array(&self.logical, values.into(), self.blocks, None);
                let codes = PrimitiveArray::<Int32Type>::new(codes.into_vec().into(), nulls);
                Ok(Arc::new(DictionaryArray::try_new(codes, values).map_err(from_arrow)?))
            }
            ColumnKind::Other(done) => {
                done.into_inner().ok_or_else(|| Error::bug("a column of the build side was not put together"))
            }
        }
    }
}

/// A packet's view, where the packet's blocks begin with this one.
fn rebased(view: u128, first_block: usize) -> u128 {
    if views::is_long(view) { view + ((first_block as u128) << 64) } else { view }
}

/// The views of codes. The code of a NULL may be anything.
fn views_of(codes: &[i32], values: &[u128]) -> Vec<u128> {
    codes.iter().map(|code| values.get(*code as usize).copied().unwrap_or(0)).collect()
}

/// The array of views that `own_views` made.
fn view_array(
    logical: &DataType,
    views: ScalarBuffer<u128>,
    blocks: Vec<Buffer>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    // SAFETY: each view is either short and a copy of a valid one, or points at bytes that `own_view` copied from a
    // valid one into the block whose number it has; text stays the text it was.
    match logical {
        DataType::Utf8View => Arc::new(unsafe { StringViewArray::new_unchecked(views, blocks, nulls) }),
        _ => Arc::new(unsafe { BinaryViewArray::new_unchecked(views, blocks, nulls) }),
    }
}

/// # Safety
/// As for [`SharedVec::range_mut`], of bytes.
#[expect(clippy::mut_from_ref, reason = "as for SharedVec::range_mut")]
unsafe fn byte_range_mut(values: &SharedVec<i128>, start: usize, len: usize) -> &mut [u8] {
    // SAFETY: `byte_pointer` checks the bounds; integers are bytes; nobody else uses these (the contract).
    unsafe { std::slice::from_raw_parts_mut(values.byte_pointer(start, len), len) }
}

fn concat_nulls<'a>(chunks: impl Iterator<Item = &'a ColumnChunk> + Clone, rows: usize) -> Option<NullBuffer> {
    if chunks.clone().all(|chunk| chunk.nulls().is_none()) {
        return None;
    }
    let mut valid = BooleanBufferBuilder::new(rows);
    for chunk in chunks {
        match chunk.nulls() {
            Some(nulls) => valid.append_buffer(nulls.inner()),
            None => valid.append_n(chunk.len(), true),
        }
    }
    Some(NullBuffer::new(valid.finish()))
}
