//! Arrays of text, as views, put together one text after the other.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};

use crate::damage::{Result, damaged};

/// Views of at most so many bytes have their text themselves.
const INLINE_BYTES_MAX: usize = 12;
/// Text of one buffer at most: views count with 32 bits.
pub(crate) const BUFFER_BYTES_MAX: usize = i32::MAX as usize;
/// Text that is held at most so many times as long as what views refer to.
const SLACK_FACTOR: usize = 4;

/// The view of a text: its length, and its bytes or its first four and its place.
#[inline(always)]
pub(crate) fn view(text: &[u8], buffer: usize, offset: usize) -> u128 {
    let length = text.len();
    if length <= INLINE_BYTES_MAX {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
        bytes[4..4 + length].copy_from_slice(text);
        return u128::from_le_bytes(bytes);
    }
    let prefix = u32::from_le_bytes([text[0], text[1], text[2], text[3]]);
    length as u128 | u128::from(prefix) << 32 | (buffer as u128) << 64 | (offset as u128) << 96
}

/// Gathers texts, which lie side by side in its buffers.
pub(crate) struct Views {
    is_text: bool,
    views: Vec<u128>,
    buffers: Vec<Buffer>,
    /// What is to be a buffer, the first view of it, and whether one needs it.
    text: Vec<u8>,
    first: usize,
    is_needed: bool,
}

impl Views {
    /// Room for so many texts. If `is_text`, they must be UTF-8.
    pub fn new(is_text: bool, count: usize) -> Self {
        let (views, buffers, text) = (Vec::with_capacity(count), Vec::new(), Vec::new());
        Self { is_text, views, buffers, text, first: 0, is_needed: false }
    }

    /// Where the next text is to be appended, of at most `bytes` bytes. [`take`](Self::take) says then how long it is.
    pub fn room(&mut self, bytes: usize) -> Result<&mut Vec<u8>> {
        if self.text.len() + bytes > BUFFER_BYTES_MAX {
            self.flush()?;
        }
        Ok(&mut self.text)
    }

    /// What was appended behind `start` is a text.
    #[inline(always)]
    pub fn take(&mut self, start: usize) {
        self.taken(start, self.text.len());
    }

    /// What was appended is a text from here to there.
    #[inline(always)]
    pub fn taken(&mut self, start: usize, end: usize) {
        let text = &self.text[start..end];
        self.is_needed |= text.len() > INLINE_BYTES_MAX;
        self.views.push(view(text, self.buffers.len(), start));
    }

    /// Makes a buffer of the text so far.
    fn flush(&mut self) -> Result<()> {
        let text = std::mem::take(&mut self.text);
        if self.is_text && !text.is_ascii() {
            let mut at = 0;
            let is_begin = |at: usize| text.get(at).is_none_or(|byte| byte & 0xc0 != 0x80);
            let is_cut = |view: &u128| {
                at += *view as u32 as usize;
                is_begin(at)
            };
            if std::str::from_utf8(&text).is_err() || !self.views[self.first..].iter().all(is_cut) {
                return damaged("a text is not UTF-8");
            }
        }
        if std::mem::take(&mut self.is_needed) {
            self.buffers.push(Buffer::from_vec(text));
        }
        self.first = self.views.len();
        Ok(())
    }

    /// The array.
    pub fn finish(mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        self.flush()?;
        // SAFETY: each view is of a range of its buffer, and of UTF-8 where that is asked for, as `flush` has seen.
        Ok(unsafe { array(self.is_text, self.views, self.buffers, nulls) })
    }
}

/// # Safety
/// Each view must be of a range of its buffer, of UTF-8 if `is_text`.
pub(crate) unsafe fn array(
    is_text: bool,
    views: Vec<u128>,
    buffers: Vec<Buffer>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let views = ScalarBuffer::from(views);
    // SAFETY: as the caller says.
    unsafe {
        match is_text {
            true => Arc::new(StringViewArray::new_unchecked(views, buffers, nulls)),
            false => Arc::new(BinaryViewArray::new_unchecked(views, buffers, nulls)),
        }
    }
}

/// Views of one buffer, with their text copied to another if they refer to little of it: a few rows do not keep all.
pub(crate) fn compacted(mut views: Vec<u128>, buffer: &Buffer) -> (Vec<u128>, Vec<Buffer>) {
    let long = |view: &u128| {
        let length = *view as u32 as usize;
        if length > INLINE_BYTES_MAX { length } else { 0 }
    };
    let used = views.iter().map(long).sum::<usize>();
    if used == 0 {
        return (views, Vec::new());
    }
    if used * SLACK_FACTOR >= buffer.len() {
        return (views, vec![buffer.clone()]);
    }
    let mut text = Vec::with_capacity(used);
    for view in views.iter_mut().filter(|view| long(view) > 0) {
        let (length, offset) = (*view as u32 as usize, (*view >> 96) as usize);
        let place = text.len() as u128;
        text.extend_from_slice(&buffer[offset..offset + length]);
        *view = *view & u128::from(u64::MAX) | place << 96;
    }
    (views, vec![Buffer::from_vec(text)])
}
