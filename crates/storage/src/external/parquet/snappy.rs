//! Decompresses Snappy blocks.
//!
//! Snappy is what most Parquet files are compressed with, and decompressing is most of the work of reading them. This
//! decoder writes into memory that was not zeroed before and copies sixteen bytes at a time, writing beyond the end of
//! what it copies and overwriting that later; the slack at the end of the buffer makes that safe.
//!
//! Format: <https://github.com/google/snappy/blob/main/format_description.txt>. A block is the length of its text (a
//! varint), then elements: literals, and copies of up to 64 bytes from earlier text.
//!
//! Invariant: whatever the input, nothing outside of the input and the output's capacity is touched, and the output has
//! exactly the length that the block says, or there is an error.

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedBlock(pub &'static str);

/// Of a block that comes in parts.
const FAR: MalformedBlock = MalformedBlock("it copies from before its start, or from further back than writers do");

/// Bytes after the output's end that may be written.
const SLACK: usize = 64;

/// The length of the text of a block, and where its elements begin.
pub(super) fn text_length(block: &[u8]) -> Result<(usize, usize), MalformedBlock> {
    let mut length = 0u64;
    for (index, &byte) in block.iter().enumerate().take(5) {
        length |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return match u32::try_from(length) {
                Ok(length) => Ok((length as usize, index + 1)),
                Err(_) => Err(MalformedBlock("its length is beyond four gigabytes")),
            };
        }
    }
    Err(MalformedBlock("its length is cut off"))
}

/// Appends the text of a block, which must have `length` bytes, to `out`.
pub(super) fn decompress(block: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), MalformedBlock> {
    let (stated, start) = text_length(block)?;
    if stated != length {
        return Err(MalformedBlock("its length is not the page's"));
    }
    // Exactly: growing in steps would take up to twice as much for pages that differ a little.
    out.reserve_exact(length + SLACK);
    let begin = out.len();
    // SAFETY: `length + SLACK` bytes after `begin` are within the capacity.
    let written = unsafe { expand(&block[start..], out.as_mut_ptr().add(begin), length)? };
    if written != length {
        return Err(MalformedBlock("it is shorter than it says"));
    }
    // SAFETY: `expand` has written all `length` bytes.
    unsafe { out.set_len(begin + length) };
    Ok(())
}

/// The elements of a block that comes in parts, for when there is no memory for its whole text.
#[derive(Default)]
pub(super) struct Elements {
    /// Whether the length of the text has been read.
    begun: bool,
    /// What is left of a literal.
    literal_bytes: usize,
}

impl Elements {
    /// Appends about `most` bytes of text to `out`, which has at least what the text may be copied from, and says how
    /// many bytes of the input were used up: those of the next call begin behind them. `is_last` says that there will
    /// be no more of them.
    pub fn expand(
        &mut self,
        input: &[u8],
        is_last: bool,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, MalformedBlock> {
        let end = out.len() + most;
        let mut at = 0;
        if !self.begun {
            at = match text_length(input) {
                Ok((_, start)) => start,
                // Five bytes have a length for certain.
                Err(_) if !is_last && input.len() < 5 => return Ok(0),
                Err(error) => return Err(error),
            };
            self.begun = true;
        }
        loop {
            if self.literal_bytes > 0 {
                let size = self.literal_bytes.min(input.len() - at).min(end.saturating_sub(out.len()));
                out.extend_from_slice(&input[at..at + size]);
                at += size;
                self.literal_bytes -= size;
            }
            if self.literal_bytes > 0 || out.len() >= end || at >= input.len() {
                return Ok(at);
            }
            out.reserve(end - out.len() + SLACK);
            at += expand_some(&input[at..], end, out)?;
            let Some(&tag) = input.get(at) else { return Ok(at) };
            let operands = match tag & 3 {
                0 => usize::from(tag >> 2).saturating_sub(59),
                1 => 1,
                2 => 2,
                _ => 4,
            };
            let Some(operand) = input.get(at + 1..at + 1 + operands) else {
                return if is_last { Err(MalformedBlock("it is cut off")) } else { Ok(at) };
            };
            at += 1 + operands;
            let operand = operand.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte));
            let (size, offset) = match tag & 3 {
                0 => {
                    self.literal_bytes = if operands == 0 { usize::from(tag >> 2) } else { operand } + 1;
                    continue;
                }
                1 => (usize::from(tag >> 2 & 7) + 4, usize::from(tag >> 5) << 8 | operand),
                _ => (usize::from(tag >> 2) + 1, operand),
            };
            if offset == 0 || offset > out.len() {
                return Err(FAR);
            }
            let from = out.len() - offset;
            if offset >= size {
                out.extend_from_within(from..from + size);
            } else {
                (from..from + size).for_each(|place| out.push(out[place]));
            }
        }
    }
}

/// Appends the text of elements as long as the next one is short, certainly there as a whole, and begins before `end`
/// of the output, which has the capacity for that and [`SLACK`]; says how many bytes of the input they are.
fn expand_some(input: &[u8], end: usize, out: &mut Vec<u8>) -> Result<usize, MalformedBlock> {
    /// Bytes of an element of at most 16 bytes of text, as it is read.
    const ELEMENT_BYTES: usize = 17;
    assert!(out.capacity() >= end.max(out.len()).saturating_add(SLACK), "no room for the text of elements");
    let source = input.as_ptr();
    let begin = out.as_mut_ptr();
    let (mut at, mut to) = (0, out.len());
    while to < end && input.len() - at >= ELEMENT_BYTES {
        // SAFETY: so many bytes are left to read; `to < end`, so `SLACK` bytes can be written.
        unsafe {
            let tag = *source.add(at);
            if tag & 3 == 0 {
                let size = usize::from(tag >> 2) + 1;
                if size > 16 {
                    break;
                }
                copy_16(source.add(at + 1), begin.add(to));
                at += 1 + size;
                to += size;
                continue;
            }
            let (size, offset, read) = copy_element(source.add(at), tag);
            if offset == 0 || offset > to {
                return Err(FAR);
            }
            copy_back(begin.add(to), offset, size);
            at += read;
            to += size;
        }
    }
    // SAFETY: what is before `to` is written; of an element that begins before `end` at most 64 bytes are behind it.
    unsafe { out.set_len(to) };
    Ok(at)
}

/// An element that copies: how many bytes, from how far back, and the bytes that it takes itself.
///
/// # Safety
/// Five bytes must be readable at `element`, which begins with `tag`.
#[inline(always)]
unsafe fn copy_element(element: *const u8, tag: u8) -> (usize, usize, usize) {
    // SAFETY: the caller's.
    unsafe {
        match tag & 3 {
            1 => (usize::from(tag >> 2 & 7) + 4, usize::from(tag >> 5) << 8 | usize::from(*element.add(1)), 2),
            2 => {
                let offset = u16::from_le(element.add(1).cast::<u16>().read_unaligned());
                (usize::from(tag >> 2) + 1, usize::from(offset), 3)
            }
            _ => {
                let offset = u32::from_le(element.add(1).cast::<u32>().read_unaligned());
                (usize::from(tag >> 2) + 1, offset as usize, 5)
            }
        }
    }
}

/// Copies `size` bytes, at most 64, from `offset` before `to`.
///
/// # Safety
/// The `offset` bytes before `to` must be written text, and [`SLACK`] bytes from `to` be writable.
#[inline(always)]
unsafe fn copy_back(to: *mut u8, offset: usize, size: usize) {
    // SAFETY: the caller's; what is copied is rounded up to whole steps of 16, at most 64 bytes.
    unsafe {
        let from = to.sub(offset);
        if offset >= 16 {
            copy_16(from, to);
            if size > 16 {
                copy_16(from.add(16), to.add(16));
                if size > 32 {
                    copy_16(from.add(32), to.add(32));
                    copy_16(from.add(48), to.add(48));
                }
            }
        } else if offset >= 8 {
            let mut copied = 0;
            while copied < size {
                copy_8(from.add(copied), to.add(copied));
                copied += 8;
            }
        } else {
            // The pattern repeats within eight bytes.
            for index in 0..size {
                *to.add(index) = *from.add(index);
            }
        }
    }
}

/// Writes the text of the elements.
///
/// # Safety
/// `length + SLACK` bytes from `out` must be writable.
unsafe fn expand(input: &[u8], out: *mut u8, length: usize) -> Result<usize, MalformedBlock> {
    const SHORT: MalformedBlock = MalformedBlock("it is cut off");
    const LONG: MalformedBlock = MalformedBlock("it is longer than it says");
    let end = input.len();
    let source = input.as_ptr();
    let mut at = 0;
    let mut to = 0;
    while at < end {
        // SAFETY: `at < end`.
        let tag = unsafe { *source.add(at) };
        at += 1;
        if tag & 3 == 0 {
            let mut size = (tag >> 2) as usize + 1;
            if size <= 16 && at + 16 <= end {
                // SAFETY: 16 bytes are left to read; `to <= length` always, so `SLACK` bytes can be written.
                unsafe { copy_16(source.add(at), out.add(to)) };
                // The literal itself must be within the text.
                if to + size > length {
                    return Err(LONG);
                }
                at += size;
                to += size;
                continue;
            }
            if size > 60 {
                let bytes = size - 60;
                if at + bytes > end {
                    return Err(SHORT);
                }
                let mut stated = 0usize;
                for index in 0..bytes {
                    // SAFETY: `at + bytes <= end`.
                    stated |= usize::from(unsafe { *source.add(at + index) }) << (8 * index);
                }
                size = stated + 1;
                at += bytes;
            }
            if size > end - at {
                return Err(SHORT);
            }
            if size > length - to {
                return Err(LONG);
            }
            // SAFETY: `size` bytes are left on both sides.
            unsafe { std::ptr::copy_nonoverlapping(source.add(at), out.add(to), size) };
            at += size;
            to += size;
            continue;
        }
        let (size, offset) = if tag & 3 == 1 {
            if at >= end {
                return Err(SHORT);
            }
            // SAFETY: `at < end`.
            let low = unsafe { *source.add(at) };
            at += 1;
            (((tag >> 2) & 7) as usize + 4, usize::from(tag >> 5) << 8 | usize::from(low))
        } else if tag & 3 == 2 {
            if at + 2 > end {
                return Err(SHORT);
            }
            // SAFETY: two bytes are left.
            let offset = u16::from_le(unsafe { source.add(at).cast::<u16>().read_unaligned() });
            at += 2;
            ((tag >> 2) as usize + 1, usize::from(offset))
        } else {
            if at + 4 > end {
                return Err(SHORT);
            }
            // SAFETY: four bytes are left.
            let offset = u32::from_le(unsafe { source.add(at).cast::<u32>().read_unaligned() });
            at += 4;
            ((tag >> 2) as usize + 1, offset as usize)
        };
        if offset == 0 || offset > to {
            return Err(MalformedBlock("it copies from before its start"));
        }
        if size > length - to {
            return Err(LONG);
        }
        // SAFETY: `offset <= to`, so the source is written text, and at most `SLACK` bytes after `length` are written.
        unsafe { copy_back(out.add(to), offset, size) };
        to += size;
    }
    Ok(to)
}

/// # Safety
/// 16 bytes must be readable at `from` and writable at `to`. They may overlap if `to` is at least 16 bytes behind.
#[inline(always)]
unsafe fn copy_16(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's.
    unsafe { to.cast::<u128>().write_unaligned(from.cast::<u128>().read_unaligned()) }
}

/// # Safety
/// As [`copy_16`], for 8 bytes.
#[inline(always)]
unsafe fn copy_8(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's.
    unsafe { to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Elements as in the format description, and their text by the plainest means.
    #[derive(Clone, Debug)]
    enum Element {
        Literal(Vec<u8>),
        Copy { offset: usize, size: usize, wide: u8 },
    }

    fn encode(elements: &[Element]) -> (Vec<u8>, Vec<u8>) {
        let (mut text, mut body) = (Vec::new(), Vec::new());
        for element in elements {
            match element {
                Element::Literal(bytes) if !bytes.is_empty() => {
                    let n = bytes.len() - 1;
                    match n {
                        0..60 => body.push((n as u8) << 2),
                        60..256 => body.extend([60 << 2, n as u8]),
                        _ => {
                            body.push(61 << 2);
                            body.extend((n as u16).to_le_bytes());
                        }
                    }
                    body.extend(bytes);
                    text.extend(bytes);
                }
                Element::Copy { offset, size, wide } if !text.is_empty() => {
                    let offset = 1 + offset % text.len();
                    if *wide == 0 && (4..12).contains(size) && offset < 2048 {
                        body.push(1 | ((size - 4) as u8) << 2 | ((offset >> 8) as u8) << 5);
                        body.push(offset as u8);
                    } else if *wide < 2 && offset < 65536 {
                        body.push(2 | ((size - 1) as u8) << 2);
                        body.extend((offset as u16).to_le_bytes());
                    } else {
                        body.push(3 | ((size - 1) as u8) << 2);
                        body.extend((offset as u32).to_le_bytes());
                    }
                    for _ in 0..*size {
                        text.push(text[text.len() - offset]);
                    }
                }
                _ => {}
            }
        }
        let mut block = Vec::new();
        let mut length = text.len();
        while length >= 0x80 {
            block.push(length as u8 | 0x80);
            length >>= 7;
        }
        block.push(length as u8);
        block.extend(body);
        (block, text)
    }

    fn element() -> impl Strategy<Value = Element> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20).prop_map(Element::Literal),
            prop::collection::vec(any::<u8>(), 0..700).prop_map(Element::Literal),
            (0usize..40, 1usize..65, 0u8..3).prop_map(|(offset, size, wide)| Element::Copy { offset, size, wide }),
            (0usize..5000, 1usize..65, 0u8..3).prop_map(|(offset, size, wide)| Element::Copy { offset, size, wide }),
        ]
    }

    proptest! {
        #[test]
        fn blocks_expand_to_their_text(elements in prop::collection::vec(element(), 0..40), before in 0usize..10) {
            let (block, text) = encode(&elements);
            let mut out = vec![7; before];
            decompress(&block, text.len(), &mut out).unwrap();
            prop_assert_eq!(&out[before..], &text[..]);
            prop_assert!(decompress(&block, text.len() + 1, &mut Vec::new()).is_err());
        }

        #[test]
        fn blocks_that_come_in_parts_expand_to_their_text(
            elements in prop::collection::vec(element(), 0..40), parts in prop::collection::vec(0usize..90, 1..9),
            most in 1usize..500,
        ) {
            let (block, text) = encode(&elements);
            let (mut elements, mut out) = (Elements::default(), Vec::new());
            let (mut begin, mut end) = (0, 0);
            let mut parts = parts.into_iter().cycle();
            while begin < block.len() {
                let before = (begin, out.len());
                begin += elements.expand(&block[begin..end], end == block.len(), most, &mut out).unwrap();
                if before == (begin, out.len()) {
                    prop_assert!(end < block.len(), "no progress with all there is");
                    end = (end + parts.next().unwrap() + 1).min(block.len());
                }
            }
            prop_assert_eq!(&out, &text);
        }

        #[test]
        fn damaged_blocks_are_errors_or_other_text(
            elements in prop::collection::vec(element(), 1..20), position in any::<prop::sample::Index>(), flip in 1u8..,
            cut in any::<prop::sample::Index>(),
        ) {
            let (mut block, text) = encode(&elements);
            let position = position.index(block.len());
            block[position] ^= flip;
            let mut out = Vec::new();
            if decompress(&block, text.len(), &mut out).is_ok() {
                prop_assert_eq!(out.len(), text.len());
            }
            let (block, text) = encode(&elements);
            let cut = cut.index(block.len());
            prop_assert!(decompress(&block[..cut], text.len(), &mut Vec::new()).is_err() || text.is_empty());
        }
    }
}
