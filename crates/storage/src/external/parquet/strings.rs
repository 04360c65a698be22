//! Strings and binaries, as views of the pages' text or as codes of the chunk's dictionary.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray, DictionaryArray, PrimitiveArray, StringArray, StringViewArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::Int32Type;

use super::fixed::check_codes;
use super::flat::Values;
use super::header::{Malformed, Page, Text};

/// Text of views is cut into buffers of less than this, because views count with 32 bits.
const BUFFER_BYTES_MAX: usize = i32::MAX as usize;

/// Views shorter than this hold their text themselves.
const INLINE_BYTES_MAX: usize = 12;

/// Strings and binaries as views.
pub(super) struct Views {
    /// Whether the text must be UTF-8.
    is_text: bool,
    /// The dictionary's text and the views of its values, for which it is buffer 0.
    dictionary: Option<Buffer>,
    dictionary_views: Vec<u128>,
    /// The text of the page being read, and its number among `buffers` if a view of it was taken.
    page: Buffer,
    page_number: Option<u32>,
    /// Where the next plain value is in the page.
    at: usize,
    /// The buffers of the array being gathered.
    buffers: Vec<Buffer>,
}

impl Views {
    pub fn new(is_text: bool) -> Self {
        Self {
            is_text,
            dictionary: None,
            dictionary_views: Vec::new(),
            page: Buffer::from_vec(Vec::<u8>::new()),
            page_number: None,
            at: 0,
            buffers: Vec::new(),
        }
    }

    /// Goes over the next plain values; `each` says whether to append a value, by its number.
    fn pass(
        &mut self,
        count: usize,
        out: &mut Vec<u128>,
        mut wanted: impl FnMut(usize) -> bool,
    ) -> Result<(), Malformed> {
        let number = match self.page_number {
            Some(number) => number,
            None => {
                // The number counts once a view refers to it; the buffer is pushed below.
                self.buffers.len().max(usize::from(self.dictionary.is_some())) as u32
            }
        };
        let text = self.page.as_slice();
        let mut used = false;
        for index in 0..count {
            let (start, end) = next_value(text, self.at)?;
            self.at = end;
            if wanted(index) {
                out.push(view(&text[start..end], number, start as u32));
                used |= end - start > INLINE_BYTES_MAX;
            }
        }
        if used && self.page_number.is_none() {
            self.reserve_dictionary();
            self.buffers.push(self.page.clone());
            self.page_number = Some(number);
        }
        Ok(())
    }

    /// The dictionary's text is the first buffer of every array, so that its views fit all of them.
    fn reserve_dictionary(&mut self) {
        if let Some(dictionary) = &self.dictionary
            && self.buffers.is_empty()
        {
            self.buffers.push(dictionary.clone());
        }
    }
}

impl Values for Views {
    type Item = u128;

    /// Its text is where views lead to.
    fn dictionary_bytes(values: usize, text_bytes: usize) -> (usize, usize) {
        (values.saturating_mul(size_of::<u128>()).saturating_add(text_bytes), 0)
    }

    fn set_dictionary(&mut self, page: Page, values: usize) -> Result<(), Malformed> {
        let text = buffer_of(page.text)?;
        let mut at = page.values;
        // Each value has four bytes of length.
        let mut views = Vec::with_capacity(values.min(text.len() / 4));
        for _ in 0..values {
            let (start, end) = next_value(&text, at)?;
            if self.is_text {
                check_text(&text[start..end])?;
            }
            views.push(view(&text[start..end], 0, start as u32));
            at = end;
        }
        (self.dictionary, self.dictionary_views) = (Some(text), views);
        Ok(())
    }

    fn start_plain(&mut self, page: Page, values: usize) -> Result<(), Malformed> {
        let text = buffer_of(page.text)?;
        if self.is_text {
            check_page_text(&text, page.values, values)?;
        }
        (self.page, self.page_number, self.at) = (text, None, page.values);
        Ok(())
    }

    fn plain(&mut self, count: usize, out: &mut Vec<u128>) -> Result<(), Malformed> {
        self.pass(count, out, |_| true)
    }

    fn plain_selected(&mut self, selected: &BooleanBuffer, out: &mut Vec<u128>) -> Result<(), Malformed> {
        self.pass(selected.len(), out, |index| selected.value(index))
    }

    fn skip_plain(&mut self, count: usize) -> Result<(), Malformed> {
        let text = self.page.as_slice();
        for _ in 0..count {
            self.at = next_value(text, self.at)?.1;
        }
        Ok(())
    }

    fn look_up(&mut self, codes: &[u32], out: &mut Vec<u128>) -> Result<(), Malformed> {
        check_codes(codes, self.dictionary_views.len())?;
        self.reserve_dictionary();
        let views = self.dictionary_views.as_slice();
        // SAFETY: all codes were just checked against the dictionary's length.
        out.extend(codes.iter().map(|&code| unsafe { *views.get_unchecked(code as usize) }));
        Ok(())
    }

    fn take_text(&mut self) -> Text {
        // Arrays may still refer to it.
        Text::default()
    }

    fn finish(&mut self, items: Vec<u128>, nulls: Option<NullBuffer>) -> Result<ArrayRef, Malformed> {
        self.page_number = None;
        let (mut items, mut buffers) = (items, std::mem::take(&mut self.buffers));
        compact(&mut items, &mut buffers);
        let views = ScalarBuffer::from(items);
        // SAFETY: every view was made of a range of its buffer, of which buffer 0 is the one dictionary there is, if
        // any; NULLs are empty views; text was checked to be UTF-8 before views of it were made.
        Ok(unsafe {
            match self.is_text {
                true => Arc::new(StringViewArray::new_unchecked(views, buffers, nulls)),
                false => Arc::new(BinaryViewArray::new_unchecked(views, buffers, nulls)),
            }
        })
    }
}

/// Strings as codes of the chunk's dictionary, for chunks in which every page has codes.
pub(super) struct Codes {
    /// Empty where there is none: then all rows are NULL.
    dictionary: ArrayRef,
}

impl Codes {
    pub fn new() -> Self {
        Self { dictionary: Arc::new(StringArray::new_null(0)) }
    }
}

impl Values for Codes {
    type Item = i32;

    /// An array of its texts.
    fn dictionary_bytes(values: usize, text_bytes: usize) -> (usize, usize) {
        (values.saturating_mul(size_of::<i32>()).saturating_add(text_bytes), text_bytes)
    }

    fn set_dictionary(&mut self, page: Page, values: usize) -> Result<(), Malformed> {
        let text = &page.text;
        let mut at = page.values;
        let mut bytes = Vec::with_capacity(text.len());
        let mut offsets = vec![0i32];
        for _ in 0..values {
            let (start, end) = next_value(text, at)?;
            bytes.extend_from_slice(&text[start..end]);
            offsets.push(i32::try_from(bytes.len()).or(Err(too_long()))?);
            at = end;
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let array = StringArray::try_new(offsets, Buffer::from_vec(bytes), None);
        self.dictionary = Arc::new(array.map_err(|_| not_text())?);
        Ok(())
    }

    fn start_plain(&mut self, _: Page, _: usize) -> Result<(), Malformed> {
        Err(Malformed("a page has no codes, but its header said so".to_owned()))
    }

    fn plain(&mut self, _: usize, _: &mut Vec<i32>) -> Result<(), Malformed> {
        Err(Malformed("a page has no codes".to_owned()))
    }

    fn plain_selected(&mut self, _: &BooleanBuffer, _: &mut Vec<i32>) -> Result<(), Malformed> {
        Err(Malformed("a page has no codes".to_owned()))
    }

    fn skip_plain(&mut self, _: usize) -> Result<(), Malformed> {
        Err(Malformed("a page has no codes".to_owned()))
    }

    fn look_up(&mut self, codes: &[u32], out: &mut Vec<i32>) -> Result<(), Malformed> {
        check_codes(codes, self.dictionary.len())?;
        out.extend(codes.iter().map(|&code| code as i32));
        Ok(())
    }

    fn take_text(&mut self) -> Text {
        Text::default()
    }

    fn finish(&mut self, items: Vec<i32>, nulls: Option<NullBuffer>) -> Result<ArrayRef, Malformed> {
        let keys = PrimitiveArray::<Int32Type>::new(ScalarBuffer::from(items), nulls);
        // SAFETY: all codes were checked against the length of the one dictionary there is. NULLs have code 0, which
        // may be beyond the end of an empty dictionary; that is allowed for NULLs.
        Ok(Arc::new(unsafe { DictionaryArray::new_unchecked(keys, self.dictionary.clone()) }))
    }
}

fn too_long() -> Malformed {
    Malformed("a page has more than two gigabytes of text".to_owned())
}

fn not_text() -> Malformed {
    Malformed("a string is not UTF-8".to_owned())
}

fn buffer_of(text: Text) -> Result<Buffer, Malformed> {
    if text.len() > BUFFER_BYTES_MAX {
        return Err(too_long());
    }
    Ok(match text {
        Text::Own(bytes) => Buffer::from_vec(bytes),
        // A copy, so that a few strings do not keep all that was fetched.
        Text::Fetched(bytes) => Buffer::from_vec(bytes.to_vec()),
    })
}

/// Where the plain value at `at` begins and ends: four bytes of length are before it.
#[inline(always)]
fn next_value(text: &[u8], at: usize) -> Result<(usize, usize), Malformed> {
    let start = at + 4;
    if let Some(length) = text.get(at..start)
        && let Ok(length) = <[u8; 4]>::try_from(length)
    {
        let end = start + u32::from_le_bytes(length) as usize;
        if end <= text.len() {
            return Ok((start, end));
        }
    }
    Err(Malformed("a page has fewer values than rows".to_owned()))
}

/// The view of a value: its length, and its text or its first four bytes and place.
#[inline(always)]
fn view(value: &[u8], buffer: u32, offset: u32) -> u128 {
    let length = value.len();
    if length <= INLINE_BYTES_MAX {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
        bytes[4..4 + length].copy_from_slice(value);
        return u128::from_le_bytes(bytes);
    }
    let prefix = u32::from_le_bytes([value[0], value[1], value[2], value[3]]);
    length as u128 | u128::from(prefix) << 32 | u128::from(buffer) << 64 | u128::from(offset) << 96
}

/// How much larger the buffers of an array may be than what its views refer to.
const SLACK_FACTOR: usize = 4;

/// Copies the text of views that refer to little of their buffers, so that a few rows of a page do not keep all of it.
fn compact(views: &mut [u128], buffers: &mut Vec<Buffer>) {
    let held = buffers.iter().map(Buffer::len).sum::<usize>();
    if held == 0 {
        return;
    }
    let used =
        views.iter().map(|&view| view as u32 as usize).filter(|&length| length > INLINE_BYTES_MAX).sum::<usize>();
    if !is_sparse(used, held) {
        return;
    }
    let mut text = Vec::with_capacity(used);
    for view in views {
        let length = *view as u32 as usize;
        if length > INLINE_BYTES_MAX {
            let (buffer, offset) = ((*view >> 64) as u32 as usize, (*view >> 96) as usize);
            // Less than 32 bits, because all of it fits into a buffer.
            let place = text.len() as u128;
            text.extend_from_slice(&buffers[buffer][offset..offset + length]);
            *view = *view & u128::from(u64::MAX) | place << 96;
        }
    }
    *buffers = vec![Buffer::from_vec(text)];
}

/// Whether the text that views refer to is worth copying, and fits into one buffer.
fn is_sparse(used: usize, held: usize) -> bool {
    used < held / SLACK_FACTOR && used <= BUFFER_BYTES_MAX
}

fn check_text(value: &[u8]) -> Result<(), Malformed> {
    std::str::from_utf8(value).map(drop).map_err(|_| not_text())
}

/// Checks all strings of a page. Where all bytes are ASCII, lengths included, one look at the page is enough.
fn check_page_text(text: &[u8], mut at: usize, values: usize) -> Result<(), Malformed> {
    if text.get(at..).is_some_and(<[u8]>::is_ascii) {
        return Ok(());
    }
    for _ in 0..values {
        // With NULLs there are fewer values than rows.
        if at >= text.len() {
            break;
        }
        // What is malformed is not read either, so it need not be text.
        let Ok((start, end)) = next_value(text, at) else { break };
        check_text(&text[start..end])?;
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_copied_only_if_it_is_little_and_fits_into_a_buffer() {
        assert!(is_sparse(10, 1000));
        assert!(!is_sparse(500, 1000));
        // The places of copied text count with 32 bits.
        assert!(!is_sparse(BUFFER_BYTES_MAX + 1, 100 * BUFFER_BYTES_MAX));
    }
}
