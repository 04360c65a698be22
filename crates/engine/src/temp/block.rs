//! A block: rows of a batch, as bytes.
//!
//! ```text
//!   header   bytes that follow, bytes before compression (0: not compressed), rows, form     4 x u32
//!   lengths  of each column, as its type wants them:                                         u32 each
//!              NULLs (0: no bitmap follows)        every type but Null
//!              bytes                               strings and binary, and what Arrow IPC made of a nested column
//!              values, then lengths of the values  dictionaries
//!              width, least value (8 bytes)        packed numbers
//!              width, bytes                        packed strings
//!   buffers  of each column, as Arrow has them or [packed](super::packing); each begins at a multiple of 16
//! ```
//! Nothing says the types: [`Contents`](super::Contents) does, in memory, since no file outlives its process.
//!
//! Views are written with the long strings of the block's rows side by side in one buffer. Nested columns go through
//! Arrow's IPC format: a stream of one batch with one column.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{BinaryType, ByteArrayType, DataType, Field, LargeBinaryType, LargeUtf8Type, Schema, Utf8Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use diligence_base::{Error, Result};
use diligence_disk::SpillBuffers;
use diligence_storage::foreign_error::from_arrow;

use super::held::HeldBytes;
use super::packing;
use crate::batch::{compacted, views};

/// What every buffer's beginning is a multiple of: as much as the widest value wants.
pub(super) const ALIGNMENT: usize = 16;

/// Bytes of a block's header.
pub(super) const HEADER_BYTES: usize = 16;

/// Whether a column is written buffer by buffer.
pub(super) fn is_flat(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null
        | DataType::Boolean
        | DataType::FixedSizeBinary(_)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::Utf8View
        | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => !matches!(**values, DataType::Dictionary(..)) && is_flat(values),
        _ => data_type.primitive_width().is_some(),
    }
}

/// A block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes that follow the header.
    pub bytes: usize,
    /// Bytes of them before they were compressed, or 0.
    pub raw_bytes: usize,
    pub rows: usize,
    pub form: usize,
}

impl Header {
    /// The header at the beginning of some bytes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let number = |index: usize| {
            let four = bytes.get(4 * index..4 * index + 4)?;
            Some(u32::from_le_bytes(four.try_into().ok()?) as usize)
        };
        Some(Self { bytes: number(0)?, raw_bytes: number(1)?, rows: number(2)?, form: number(3)? })
    }

    pub fn write(self, room: &mut [u8]) {
        for (index, number) in [self.bytes, self.raw_bytes, self.rows, self.form].into_iter().enumerate() {
            room[4 * index..4 * index + 4].copy_from_slice(&(number as u32).to_le_bytes());
        }
    }

    /// Bytes of the whole block, up to where the next one begins.
    pub fn block_bytes(self) -> usize {
        HEADER_BYTES + self.bytes.next_multiple_of(ALIGNMENT)
    }
}

/// A part of a block.
enum BlockPiece {
    Bytes(Buffer),
    /// Views, the buffers that they refer to, and their NULLs.
    Views(Buffer, Vec<Buffer>, Option<NullBuffer>),
    /// The same, with the bytes of each packed length.
    Texts(Buffer, Vec<Buffer>, Option<NullBuffer>, usize),
    /// Values of so many bytes, the least of them, and the bytes of each packed one.
    Numbers(Buffer, usize, i64, usize),
}

/// What a block will be, before it is anywhere.
#[derive(Default)]
pub(super) struct Plan {
    is_packed: bool,
    /// Bytes that packing saves.
    saved: usize,
    lengths: Vec<u32>,
    /// Buffers, with the bytes that each will have.
    pieces: Vec<(BlockPiece, usize)>,
    is_too_long: bool,
}

impl Plan {
    /// The block of these columns, packed or as they are. Fails with kind `Unsupported` if it has more than 4 GiB.
    pub fn new(columns: &[ArrayRef], is_packed: bool) -> Result<Self> {
        let mut plan = Self { is_packed, ..Self::default() };
        columns.iter().try_for_each(|column| plan.add(column))?;
        if plan.is_too_long || u32::try_from(plan.bytes() + HEADER_BYTES + ALIGNMENT).is_err() {
            return Err(Error::unsupported("a row of 4 GiB or more cannot be spilled"));
        }
        Ok(plan)
    }

    /// Bytes of the lengths and the buffers.
    pub fn bytes(&self) -> usize {
        let lengths = (4 * self.lengths.len()).next_multiple_of(ALIGNMENT);
        lengths + self.pieces.iter().map(|(_, bytes)| bytes.next_multiple_of(ALIGNMENT)).sum::<usize>()
    }

    /// Bytes of the same columns when nothing is packed, about.
    pub fn unpacked_bytes(&self) -> usize {
        self.bytes() + self.saved
    }

    /// Writes them into the beginning of a room that is large enough.
    pub fn write(&self, room: &mut [u8]) {
        for (length, four) in self.lengths.iter().zip(room.chunks_exact_mut(4)) {
            four.copy_from_slice(&length.to_le_bytes());
        }
        let mut from = (4 * self.lengths.len()).next_multiple_of(ALIGNMENT);
        for (piece, bytes) in &self.pieces {
            let room = &mut room[from..from + bytes];
            match piece {
                BlockPiece::Bytes(buffer) => room.copy_from_slice(buffer),
                BlockPiece::Views(views, buffers, nulls) => write_views(views, buffers, nulls.as_ref(), room),
                BlockPiece::Texts(views, buffers, nulls, packed) => {
                    packing::write_texts(views.typed_data(), buffers, nulls.as_ref(), *packed, room);
                }
                BlockPiece::Numbers(values, width, least, packed) => {
                    packing::write_numbers(values, *width, *least, *packed, room);
                }
            }
            from += bytes.next_multiple_of(ALIGNMENT);
        }
    }

    fn length(&mut self, length: usize) {
        self.is_too_long |= u32::try_from(length).is_err();
        self.lengths.push(length as u32);
    }

    fn bytes_piece(&mut self, buffer: Buffer) {
        let bytes = buffer.len();
        self.pieces.push((BlockPiece::Bytes(buffer), bytes));
    }

    fn add(&mut self, array: &ArrayRef) -> Result<()> {
        let data_type = array.data_type();
        if !is_flat(data_type) {
            return self.add_nested(array);
        }
        if data_type == &DataType::Null {
            return Ok(());
        }
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        self.length(nulls.map_or(0, |nulls| nulls.null_count()));
        if let Some(nulls) = nulls {
            self.bytes_piece(nulls.inner().sliced());
        }
        match data_type {
            DataType::Boolean => self.bytes_piece(array.as_boolean().values().sliced()),
            DataType::Utf8 => self.add_strings::<Utf8Type>(array),
            DataType::LargeUtf8 => self.add_strings::<LargeUtf8Type>(array),
            DataType::Binary => self.add_strings::<BinaryType>(array),
            DataType::LargeBinary => self.add_strings::<LargeBinaryType>(array),
            DataType::Utf8View => {
                let array = array.as_string_view();
                self.add_views(array.views().inner(), array.data_buffers(), nulls);
            }
            DataType::BinaryView => {
                let array = array.as_binary_view();
                self.add_views(array.views().inner(), array.data_buffers(), nulls);
            }
            DataType::Dictionary(key, _) => {
                let dictionary = array.as_any_dictionary();
                self.add_fixed(&dictionary.keys().to_data(), key.primitive_width());
                self.length(dictionary.values().len());
                let is_packed = std::mem::take(&mut self.is_packed);
                self.add(dictionary.values())?;
                self.is_packed = is_packed;
            }
            DataType::FixedSizeBinary(width) => self.add_fixed(&array.to_data(), usize::try_from(*width).ok()),
            _ => match packing::number_width(data_type).filter(|_| self.is_packed) {
                Some(width) => self.add_numbers(&array.to_data(), width),
                None => self.add_fixed(&array.to_data(), data_type.primitive_width()),
            },
        }
        Ok(())
    }

    fn add_fixed(&mut self, data: &ArrayData, width: Option<usize>) {
        self.bytes_piece(values_of(data, width.unwrap_or(0)));
    }

    fn add_numbers(&mut self, data: &ArrayData, width: usize) {
        let values = values_of(data, width);
        let (least, packed) = packing::measure(&values, width);
        self.lengths.extend([packed as u32, least as u32, (least >> 32) as u32]);
        if packed == width {
            self.bytes_piece(values);
        } else {
            self.saved += data.len() * (width - packed);
            self.pieces.push((BlockPiece::Numbers(values, width, least, packed), data.len() * packed));
        }
    }

    fn add_strings<T: ByteArrayType>(&mut self, array: &ArrayRef) {
        let array = array.as_bytes::<T>();
        let (offsets, first, last) = from_zero(array.offsets());
        self.length(last - first);
        self.bytes_piece(offsets);
        self.bytes_piece(array.values().slice_with_length(first, last - first));
    }

    fn add_views(&mut self, views: &Buffer, buffers: &[Buffer], nulls: Option<&NullBuffer>) {
        if self.is_packed {
            let all = views.typed_data::<u128>();
            let (longest, bytes) = packing::measure_texts(all, nulls);
            let packed = packing::width_of(longest as u64);
            self.length(packed);
            self.length(bytes);
            self.saved += all.len() * (16 - packed);
            let piece = BlockPiece::Texts(views.clone(), buffers.to_vec(), nulls.cloned(), packed);
            self.pieces.push((piece, packed * all.len() + bytes));
            return;
        }
        let long = long_bytes(views.typed_data(), nulls);
        self.length(long);
        let piece = BlockPiece::Views(views.clone(), buffers.to_vec(), nulls.cloned());
        self.pieces.push((piece, views.len() + long));
    }

    fn add_nested(&mut self, array: &ArrayRef) -> Result<()> {
        let array = compacted(array)?;
        let schema = Arc::new(Schema::new(vec![Field::new("", array.data_type().clone(), true)]));
        let options = RecordBatchOptions::new().with_row_count(Some(array.len()));
        let batch = RecordBatch::try_new_with_options(schema.clone(), vec![array], &options).map_err(from_arrow)?;
        let mut stream = Vec::new();
        let mut writer = StreamWriter::try_new(&mut stream, &schema).map_err(from_arrow)?;
        writer.write(&batch).and_then(|()| writer.finish()).map_err(from_arrow)?;
        drop(writer);
        self.length(stream.len());
        self.bytes_piece(stream.into());
        Ok(())
    }
}

/// The values of a column of a fixed width.
pub(super) fn values_of(data: &ArrayData, width: usize) -> Buffer {
    data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width)
}

/// The offsets with 0 as the first one, and the first and last as they were.
fn from_zero<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (Buffer, usize, usize) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let buffer = if first.as_usize() == 0 {
        offsets.inner().inner().clone()
    } else {
        offsets.iter().map(|offset| *offset - first).collect::<Vec<O>>().into()
    };
    (buffer, first.as_usize(), last.as_usize())
}

/// Bytes of the strings that do not lie in their views. What stands under a NULL may say anything.
pub(super) fn long_bytes(all: &[u128], nulls: Option<&NullBuffer>) -> usize {
    let own = |view: u128| if views::is_long(view) { views::length(view) } else { 0 };
    match nulls {
        None => all.iter().map(|view| own(*view)).sum(),
        Some(nulls) => all.iter().zip(nulls).map(|(view, valid)| if valid { own(*view) } else { 0 }).sum(),
    }
}

/// Writes views, and after them the strings that they refer to.
fn write_views(all: &Buffer, buffers: &[Buffer], nulls: Option<&NullBuffer>, room: &mut [u8]) {
    let (places, text) = room.split_at_mut(all.len());
    let mut end = 0;
    for (row, (view, place)) in all.typed_data::<u128>().iter().zip(places.chunks_exact_mut(16)).enumerate() {
        let written = if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            0
        } else if views::is_long(*view) {
            let bytes = views::bytes(view, buffers);
            text[end..end + bytes.len()].copy_from_slice(bytes);
            end += bytes.len();
            views::placed(*view, 0, end - bytes.len())
        } else {
            *view
        };
        place.copy_from_slice(&written.to_le_bytes());
    }
}

/// The columns of a block that begins where the buffer begins, without its header. What is packed is unpacked into
/// memory that the buffers' owner answers for.
pub(super) fn columns_of(
    block: &Buffer,
    rows: usize,
    types: &[DataType],
    is_packed: bool,
    buffers: &SpillBuffers,
) -> Result<Vec<ArrayRef>> {
    let lengths = types.iter().map(|data_type| lengths_of(data_type, is_packed)).sum::<usize>();
    let from = (4 * lengths).next_multiple_of(ALIGNMENT);
    let mut source = BlockSource { block, is_packed, buffers, length: 0, from };
    types.iter().map(|data_type| source.array(rows, data_type)).collect()
}

/// How many lengths a column of a type has.
fn lengths_of(data_type: &DataType, is_packed: bool) -> usize {
    match data_type {
        DataType::Null => 0,
        DataType::Utf8View | DataType::BinaryView if is_packed => 3,
        _ if is_packed && packing::number_width(data_type).is_some() => 4,
        DataType::Dictionary(_, values) if is_flat(data_type) => 2 + lengths_of(values, false),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::Utf8View
        | DataType::BinaryView => 2,
        _ => 1,
    }
}

/// A block while its columns are taken out.
struct BlockSource<'a> {
    block: &'a Buffer,
    is_packed: bool,
    buffers: &'a SpillBuffers,
    /// The next length.
    length: usize,
    /// Where the next buffer begins.
    from: usize,
}

impl BlockSource<'_> {
    fn length(&mut self) -> Result<usize> {
        let from = 4 * self.length;
        self.length += 1;
        let four = self.block.get(from..from + 4).and_then(|four| four.try_into().ok());
        four.map(|four| u32::from_le_bytes(four) as usize).ok_or_else(too_short)
    }

    fn buffer(&mut self, bytes: usize) -> Result<Buffer> {
        if self.from + bytes > self.block.len() {
            return Err(too_short());
        }
        let buffer = self.block.slice_with_length(self.from, bytes);
        self.from += bytes.next_multiple_of(ALIGNMENT);
        Ok(buffer)
    }

    /// Numbers, in full width.
    fn numbers(&mut self, rows: usize, width: usize) -> Result<Buffer> {
        let packed = self.length()?;
        let least = self.length()? as i64 | (self.length()? as i64) << 32;
        let stored = self.buffer(rows * packed)?;
        if packed == width {
            return Ok(stored);
        }
        let mut held = HeldBytes::new(self.buffers, rows * width)?;
        packing::read_numbers(&stored, width, least, packed, held.bytes_mut());
        Ok(held.into_buffer())
    }

    /// Views, and the strings that they refer to.
    fn texts(&mut self, rows: usize) -> Result<Vec<Buffer>> {
        let packed = self.length()?;
        let bytes = self.length()?;
        let both = self.buffer(rows * packed + bytes)?;
        let text = both.slice_with_length(rows * packed, bytes);
        let mut held = HeldBytes::new(self.buffers, 16 * rows)?;
        if !packing::read_texts(&both[..rows * packed], packed, &text, held.bytes_mut()) {
            return Err(too_short());
        }
        Ok(vec![held.into_buffer(), text])
    }

    fn array(&mut self, rows: usize, data_type: &DataType) -> Result<ArrayRef> {
        if !is_flat(data_type) {
            return self.nested(data_type);
        }
        if data_type == &DataType::Null {
            return Ok(arrow::array::new_null_array(data_type, rows));
        }
        let null_count = self.length()?;
        let nulls = match null_count {
            0 => None,
            _ => {
                let bits = BooleanBuffer::new(self.buffer(rows.div_ceil(8))?, 0, rows);
                // SAFETY: it is the number that was counted in these bits when they were written.
                Some(unsafe { NullBuffer::new_unchecked(bits, null_count) })
            }
        };
        let strings = |source: &mut Self, width: usize| -> Result<Vec<Buffer>> {
            let text = source.length()?;
            Ok(vec![source.buffer((rows + 1) * width)?, source.buffer(text)?])
        };
        let mut children = Vec::new();
        let buffers = match data_type {
            DataType::Boolean => {
                let values = BooleanBuffer::new(self.buffer(rows.div_ceil(8))?, 0, rows);
                return Ok(Arc::new(BooleanArray::new(values, nulls)));
            }
            DataType::Utf8 | DataType::Binary => strings(self, 4)?,
            DataType::LargeUtf8 | DataType::LargeBinary => strings(self, 8)?,
            DataType::Utf8View | DataType::BinaryView if self.is_packed => self.texts(rows)?,
            DataType::Utf8View | DataType::BinaryView => {
                let long = self.length()?;
                let both = self.buffer(16 * rows + long)?;
                let views = both.slice_with_length(0, 16 * rows);
                if long == 0 { vec![views] } else { vec![views, both.slice_with_length(16 * rows, long)] }
            }
            DataType::Dictionary(key, values) => {
                let keys = self.buffer(rows * key.primitive_width().unwrap_or(0))?;
                let count = self.length()?;
                let is_packed = std::mem::take(&mut self.is_packed);
                children.push(self.array(count, values)?.to_data());
                self.is_packed = is_packed;
                vec![keys]
            }
            DataType::FixedSizeBinary(width) => vec![self.buffer(rows * usize::try_from(*width).unwrap_or(0))?],
            _ => match packing::number_width(data_type).filter(|_| self.is_packed) {
                Some(width) => vec![self.numbers(rows, width)?],
                None => vec![self.buffer(rows * data_type.primitive_width().unwrap_or(0))?],
            },
        };
        let data = ArrayData::builder(data_type.clone()).len(rows).nulls(nulls).buffers(buffers).child_data(children);
        // SAFETY: these are the buffers of a valid array of this type, as their cluster's checksum says, with offsets
        // and views moved to where their strings are; each begins at a multiple of 16 from an address that is one, or
        // is memory of its own.
        Ok(make_array(unsafe { data.build_unchecked() }))
    }

    fn nested(&mut self, data_type: &DataType) -> Result<ArrayRef> {
        let bytes = self.length()?;
        let stream = self.buffer(bytes)?;
        let mut reader = StreamReader::try_new(Cursor::new(stream.as_slice()), None).map_err(from_arrow)?;
        let batch = reader.next().ok_or_else(too_short)?.map_err(from_arrow)?;
        let array = batch.column(0);
        if array.data_type() == data_type {
            return Ok(array.clone());
        }
        Err(Error::bug(format!("a column of type {data_type} came back from temp space as {}", array.data_type())))
    }
}

fn too_short() -> Error {
    Error::bug("a block of temp space is shorter than what it says of itself")
}
