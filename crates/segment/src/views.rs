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

/// The view of a text that lies from here to there in its buffer: its length, and its bytes or its first four and its
/// place.
#[inline(always)]
pub(crate) fn view(text: &[u8], start: usize, end: usize, buffer: usize) -> u128 {
    let length = end - start;
    let first = match text[start..].first_chunk() {
        Some(bytes) => u128::from_le_bytes(*bytes),
        // Near the end of the buffer.
        None => {
            let mut bytes = [0; 16];
            let rest = &text[start..];
            bytes[..rest.len()].copy_from_slice(rest);
            u128::from_le_bytes(bytes)
        }
    };
    if length <= INLINE_BYTES_MAX {
        let own = first & ((1 << (8 * length)) - 1);
        return own << 32 | length as u128;
    }
    length as u128 | (first & 0xffff_ffff) << 32 | (buffer as u128) << 64 | (start as u128) << 96
}

/// Gathers texts, which lie side by side in its buffers.
pub(crate) struct Views {
    is_text: bool,
    views: Vec<u128>,
    buffers: Vec<Buffer>,
    /// What is to be a buffer: so many bytes of texts, and room behind them.
    text: Vec<u8>,
    filled: usize,
    /// The first view of it, and whether one needs it.
    first: usize,
    is_needed: bool,
}

impl Views {
    /// Room for so many texts. If `is_text`, they must be UTF-8.
    pub fn new(is_text: bool, count: usize) -> Self {
        let (views, buffers, text) = (Vec::with_capacity(count), Vec::new(), Vec::new());
        Self { is_text, views, buffers, text, filled: 0, first: 0, is_needed: false }
    }

    /// Where the next texts are to be, of at most `bytes` bytes, and where that is in the buffer.
    /// [`taken`](Self::taken) says then where they are.
    #[inline]
    pub fn room(&mut self, bytes: usize) -> Result<(&mut [u8], usize)> {
        if self.filled + bytes > BUFFER_BYTES_MAX {
            self.flush()?;
        }
        if self.filled + bytes > self.text.len() {
            // What is made larger is cleared, so it grows by large steps.
            let length = (self.filled + bytes).max(self.text.len() * 2).min(BUFFER_BYTES_MAX);
            self.text.resize(length.max(self.filled + bytes), 0);
        }
        Ok((&mut self.text[self.filled..], self.filled))
    }

    /// The next text lies from here, where the one before it ends, to there.
    #[inline(always)]
    pub fn taken(&mut self, start: usize, end: usize) {
        self.is_needed |= end - start > INLINE_BYTES_MAX;
        self.views.push(view(&self.text, start, end, self.buffers.len()));
        self.filled = end;
    }

    /// Makes a buffer of the text so far.
    fn flush(&mut self) -> Result<()> {
        let mut text = std::mem::take(&mut self.text);
        text.truncate(std::mem::take(&mut self.filled));
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
            // What is kept takes no more than it has.
            text.shrink_to_fit();
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
