//! How many bytes some rows of a batch need as a block, without making it: what decides where a batch is cut.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;

use super::block::{ALIGNMENT, HEADER_BYTES, is_flat, values_of};
use super::packing;
use crate::batch::{bytes_needed, views};

/// What Arrow's IPC format adds to a nested column, about.
const NESTED_BYTES: usize = 1024;

/// What a column needs.
enum Size {
    /// So many bits per row.
    Bits(usize),
    /// So many bits per row, and bytes of which so many come before each row.
    Running(usize, Vec<usize>),
    /// The same, measured by the column's own offsets.
    Offsets32(OffsetBuffer<i32>),
    Offsets64(OffsetBuffer<i64>),
    /// So many bits per row, and so many bytes for all rows or any of them.
    Shared(usize, usize),
}

/// The sizes of a batch's columns.
pub(super) struct Sizes {
    rows: usize,
    sizes: Vec<Size>,
    /// Bytes of a block without rows: its header, the lengths, the padding, what rows share.
    base: usize,
}

impl Sizes {
    /// Measures the columns; of strings, each row.
    pub fn new(columns: &[ArrayRef], rows: usize, is_packed: bool) -> Self {
        let sizes: Vec<Size> = columns.iter().map(|column| size_of(column, is_packed)).collect();
        let shared = sizes.iter().map(|size| if let Size::Shared(_, bytes) = size { *bytes } else { 0 });
        // At most four lengths and four buffers per column: NULLs, keys, and the offsets and strings of a dictionary.
        // Each buffer may end within a byte and needs padding.
        let base = HEADER_BYTES + shared.sum::<usize>() + columns.len() * (4 * 4 + 4 * (ALIGNMENT + 1)) + ALIGNMENT;
        Self { rows, sizes, base }
    }

    /// Bytes that rows share, whichever they are.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Bytes of a block of these rows, at most; of nested columns, about.
    pub fn bytes(&self, from: usize, rows: usize) -> usize {
        let to = from + rows;
        let bytes = self.sizes.iter().map(|size| match size {
            Size::Bits(bits) | Size::Shared(bits, _) => rows * bits / 8,
            Size::Running(bits, before) => rows * bits / 8 + before[to] - before[from],
            Size::Offsets32(offsets) => 4 * (rows + 1) + rows / 8 + (offsets[to] - offsets[from]) as usize,
            Size::Offsets64(offsets) => 8 * (rows + 1) + rows / 8 + (offsets[to] - offsets[from]) as usize,
        });
        self.base + bytes.sum::<usize>()
    }

    /// How many rows from `from` on fit into `room` bytes.
    pub fn fitting(&self, from: usize, room: usize) -> usize {
        let left = self.rows - from;
        if self.bytes(from, left) <= room {
            return left;
        }
        let (mut fits, mut exceeds) = (0, left);
        while exceeds - fits > 1 {
            let middle = fits.midpoint(exceeds);
            if self.bytes(from, middle) <= room {
                fits = middle;
            } else {
                exceeds = middle;
            }
        }
        fits
    }
}

fn size_of(column: &ArrayRef, is_packed: bool) -> Size {
    let data_type = column.data_type();
    if let Some(width) = packing::number_width(data_type).filter(|_| is_packed) {
        // Of fewer rows, the greatest difference is no greater.
        return Size::Bits(8 * packing::measure(&values_of(&column.to_data(), width), width).1 + 1);
    }
    if let Some(width) = data_type.primitive_width() {
        return Size::Bits(8 * width + 1);
    }
    if let Some((all, _)) = views::parts(column).filter(|_| is_packed) {
        let mut before = Vec::with_capacity(all.len() + 1);
        let (mut longest, mut bytes) = (0, 0);
        before.push(0);
        for length in packing::lengths(all, column.nulls()) {
            (longest, bytes) = (length.max(longest), bytes + length);
            before.push(bytes);
        }
        return Size::Running(8 * packing::width_of(longest as u64) + 1, before);
    }
    if let Some((all, _)) = views::parts(column) {
        let mut before = Vec::with_capacity(all.len() + 1);
        let mut bytes = 0;
        before.push(0);
        for (row, view) in all.iter().enumerate() {
            if views::is_long(*view) && column.is_valid(row) {
                bytes += views::length(*view);
            }
            before.push(bytes);
        }
        return Size::Running(8 * 16 + 1, before);
    }
    match data_type {
        DataType::Null => Size::Bits(0),
        DataType::Boolean => Size::Bits(2),
        DataType::FixedSizeBinary(width) => Size::Bits(8 * usize::try_from(*width).unwrap_or(0) + 1),
        DataType::Utf8 => Size::Offsets32(column.as_string::<i32>().offsets().clone()),
        DataType::Binary => Size::Offsets32(column.as_binary::<i32>().offsets().clone()),
        DataType::LargeUtf8 => Size::Offsets64(column.as_string::<i64>().offsets().clone()),
        DataType::LargeBinary => Size::Offsets64(column.as_binary::<i64>().offsets().clone()),
        DataType::Dictionary(key, _) if is_flat(data_type) => {
            let values = column.as_any_dictionary().values();
            let shared = Sizes::new(std::slice::from_ref(values), values.len(), false);
            Size::Shared(8 * key.primitive_width().unwrap_or(8) + 1, shared.bytes(0, values.len()))
        }
        _ => Size::Running(0, nested_before(column)),
    }
}

/// Of a nested column: in proportion.
fn nested_before(column: &ArrayRef) -> Vec<usize> {
    let bytes = bytes_needed(column.as_ref());
    let rows = column.len().max(1);
    (0..=column.len()).map(|row| if row == 0 { 0 } else { NESTED_BYTES + bytes / rows * row + bytes % rows }).collect()
}
