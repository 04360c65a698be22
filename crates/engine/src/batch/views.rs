//! Arrow's byte views: 128 bits that hold a short string whole, or the place of a long one.
//!
//! ```text
//!   bits   0..32    32..64            64..96    96..128
//!          length   first 4 bytes     the rest of up to 12 bytes
//!          length   first 4 bytes     buffer    offset in it
//! ```
//!
//! Not here: whether the bytes are text. Nor may the view of a NULL be read: it may say anything.

use arrow::array::{Array, AsArray};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

/// Bytes of a string that lies in its view whole.
pub(crate) const INLINE_BYTES: usize = 12;

/// The number of bytes that a view shows.
#[inline(always)]
pub(crate) fn length(view: u128) -> usize {
    view as u32 as usize
}

/// Whether the bytes lie in a buffer.
#[inline(always)]
pub(crate) fn is_long(view: u128) -> bool {
    length(view) > INLINE_BYTES
}

/// The bytes that a view shows.
#[inline(always)]
pub(crate) fn bytes<'a>(view: &'a u128, buffers: &'a [Buffer]) -> &'a [u8] {
    let length = length(*view);
    if length <= INLINE_BYTES {
        // SAFETY: an u128 has 16 bytes, of which 4..4 + length are read; Arrow's views are little-endian in memory on
        // every platform that Rust's arrow supports.
        return unsafe { std::slice::from_raw_parts((view as *const u128).cast::<u8>().add(4), length) };
    }
    let (buffer, offset) = place(*view);
    &buffers[buffer].as_slice()[offset..offset + length]
}

/// The buffer of a long string and the offset in it.
#[inline(always)]
pub(crate) fn place(view: u128) -> (usize, usize) {
    ((view >> 64) as u32 as usize, (view >> 96) as usize)
}

/// Whether two views show the same bytes.
#[inline(always)]
pub(crate) fn equal(left: u128, left_buffers: &[Buffer], right: u128, right_buffers: &[Buffer]) -> bool {
    // The low half holds the length and the first four bytes.
    if left as u64 != right as u64 {
        return false;
    }
    if !is_long(left) {
        return left == right;
    }
    bytes(&left, left_buffers) == bytes(&right, right_buffers)
}

/// The view of a short string; of a long one, the low half alone.
#[inline(always)]
pub(crate) fn head(bytes: &[u8]) -> u128 {
    let mut view = [0u8; 16];
    view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    let here = if bytes.len() <= INLINE_BYTES { bytes.len() } else { 4 };
    view[4..4 + here].copy_from_slice(&bytes[..here]);
    u128::from_le_bytes(view)
}

/// The view of the same long string at another place.
#[inline(always)]
pub(crate) fn placed(view: u128, buffer: usize, offset: usize) -> u128 {
    u128::from(view as u64) | (buffer as u128) << 64 | (offset as u128) << 96
}

/// The views and the buffers of an array of views.
pub(crate) fn parts(array: &dyn Array) -> Option<(&[u128], &[Buffer])> {
    match array.data_type() {
        DataType::Utf8View => {
            let array = array.as_string_view();
            Some((array.views(), array.data_buffers()))
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            Some((array.views(), array.data_buffers()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;

    use super::*;

    #[test]
    fn views_show_what_was_written() {
        let texts =
            ["", "short", "twelve bytes", "thirteen byte", "thirteen bits", "something much longer than a view"];
        let array = StringViewArray::from(texts.to_vec());
        let (all, buffers) = parts(&array).unwrap();
        for (view, text) in all.iter().zip(texts) {
            assert_eq!(bytes(view, buffers), text.as_bytes());
            assert_eq!((length(*view), is_long(*view)), (text.len(), text.len() > INLINE_BYTES));
            let head = head(text.as_bytes());
            assert_eq!(if is_long(*view) { placed(head, 0, (*view >> 96) as usize) } else { head }, *view);
            for (other, other_text) in all.iter().zip(texts) {
                assert_eq!(equal(*view, buffers, *other, buffers), text == other_text);
            }
        }
    }
}
