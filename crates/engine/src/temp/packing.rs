//! Columns in few bytes, for files that are as large as memory and more: there, what is written costs more than what
//! packs it.
//!
//! Of whole numbers, how much greater each is than the least of the block, in as many bytes as the greatest difference
//! wants (frame of reference; Goldstein, Ramakrishnan & Shaft, "Compressing Relations and Indexes", ICDE 1998). Of
//! views, their lengths, in as many bytes as the longest wants, and all strings one after another.

use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;

use crate::batch::views;

/// Bytes that a number up to this one is packed into: 0, 1, 2, 4 or 8.
pub(super) fn width_of(greatest: u64) -> usize {
    match greatest {
        0 => 0,
        1..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    }
}

/// The width of a type's values if they are packed as numbers.
pub(super) fn number_width(data_type: &DataType) -> Option<usize> {
    data_type.primitive_width().filter(|width| matches!(width, 4 | 8) && !data_type.is_floating())
}

/// The least of these values, each of `width` bytes, and the bytes that each packed one has: `width` if it is not worth
/// it.
pub(super) fn measure(values: &Buffer, width: usize) -> (i64, usize) {
    let (least, greatest) = match width {
        4 => bounds(values.typed_data::<i32>()).map_or((0, 0), |(least, greatest)| (least.into(), greatest.into())),
        _ => bounds(values.typed_data::<i64>()).unwrap_or((0, 0)),
    };
    (least, width_of(greatest.wrapping_sub(least) as u64).min(width))
}

fn bounds<T: Copy + Ord>(values: &[T]) -> Option<(T, T)> {
    let first = *values.first()?;
    Some(values.iter().fold((first, first), |(least, greatest), value| (least.min(*value), greatest.max(*value))))
}

/// Writes the differences of values to the least one, `packed` bytes each.
pub(super) fn write_numbers(values: &Buffer, width: usize, least: i64, packed: usize, room: &mut [u8]) {
    match width {
        4 => write_differences(values.typed_data::<i32>().iter().map(|value| i64::from(*value)), least, packed, room),
        _ => write_differences(values.typed_data::<i64>().iter().copied(), least, packed, room),
    }
}

fn write_differences(values: impl Iterator<Item = i64>, least: i64, packed: usize, room: &mut [u8]) {
    let differences = values.map(|value| value.wrapping_sub(least));
    match packed {
        1 => differences.zip(room).for_each(|(value, place)| *place = value as u8),
        2 => differences.zip(room.as_chunks_mut().0).for_each(|(value, place)| *place = (value as u16).to_le_bytes()),
        4 => differences.zip(room.as_chunks_mut().0).for_each(|(value, place)| *place = (value as u32).to_le_bytes()),
        _ => {}
    }
}

/// The values again, `width` bytes each.
pub(super) fn read_numbers(stored: &[u8], width: usize, least: i64, packed: usize, room: &mut [u8]) {
    match width {
        4 => read_differences(stored, least, packed, room, |value| (value as i32).to_le_bytes()),
        _ => read_differences(stored, least, packed, room, i64::to_le_bytes),
    }
}

fn read_differences<const WIDTH: usize>(
    stored: &[u8],
    least: i64,
    packed: usize,
    room: &mut [u8],
    bytes_of: impl Fn(i64) -> [u8; WIDTH],
) {
    let places = room.as_chunks_mut().0.iter_mut();
    let put = |(place, difference): (&mut [u8; WIDTH], u64)| *place = bytes_of(least.wrapping_add(difference as i64));
    match packed {
        1 => places.zip(stored.iter().map(|value| u64::from(*value))).for_each(put),
        2 => places.zip(stored.as_chunks().0.iter().map(|value| u16::from_le_bytes(*value).into())).for_each(put),
        4 => places.zip(stored.as_chunks().0.iter().map(|value| u32::from_le_bytes(*value).into())).for_each(put),
        _ => places.zip(std::iter::repeat(0)).for_each(put),
    }
}

/// Bytes of the longest of the strings that these views show, and of all of them. What stands under a NULL may say
/// anything.
pub(super) fn measure_texts(all: &[u128], nulls: Option<&NullBuffer>) -> (usize, usize) {
    lengths(all, nulls).fold((0, 0), |(longest, bytes), length| (longest.max(length), bytes + length))
}

/// Bytes of each string.
pub(super) fn lengths<'a>(all: &'a [u128], nulls: Option<&'a NullBuffer>) -> impl Iterator<Item = usize> {
    let length = move |row: usize| match nulls {
        Some(nulls) if nulls.is_null(row) => 0,
        _ => views::length(all[row]),
    };
    (0..all.len()).map(length)
}

/// Writes the lengths of strings, `packed` bytes each, and after them the strings.
pub(super) fn write_texts(
    all: &[u128],
    buffers: &[Buffer],
    nulls: Option<&NullBuffer>,
    packed: usize,
    room: &mut [u8],
) {
    let (places, text) = room.split_at_mut(packed * all.len());
    write_differences(lengths(all, nulls).map(|length| length as i64), 0, packed, places);
    let mut end = 0;
    for (view, length) in all.iter().zip(lengths(all, nulls)) {
        if length > 0 {
            text[end..end + length].copy_from_slice(views::bytes(view, buffers));
        }
        end += length;
    }
}

/// Makes the views of strings that lie one after another in a buffer. False if they are longer than it.
pub(super) fn read_texts(stored: &[u8], packed: usize, text: &[u8], room: &mut [u8]) -> bool {
    match packed {
        1 => make_views(stored.iter().map(|length| usize::from(*length)), text, room),
        2 => make_views(stored.as_chunks().0.iter().map(|length| u16::from_le_bytes(*length).into()), text, room),
        4 => make_views(stored.as_chunks().0.iter().map(|length| u32::from_le_bytes(*length) as usize), text, room),
        // No row has a byte, and zeros are the views of that.
        _ => true,
    }
}

fn make_views(lengths: impl Iterator<Item = usize>, text: &[u8], room: &mut [u8]) -> bool {
    let mut from = 0;
    for (length, place) in lengths.zip(room.as_chunks_mut::<16>().0) {
        let Some(own) = text.get(from..from + length) else { return false };
        let head = views::head(own);
        *place = if length > views::INLINE_BYTES { views::placed(head, 0, from) } else { head }.to_le_bytes();
        from += length;
    }
    true
}
