//! The text of a part, as a window that moves over it.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use diligence_base::{Error, Result};

use super::{Part, RECORD_BYTES_MAX, TextBytes, TextFile, UNCLOSED, is_unclosed};

/// Bytes unpacked at once.
const READ_BYTES: usize = 256 * 1024;

/// Text that is read from its first to its last byte, never backwards.
pub(in crate::external) struct TextInput {
    file: Arc<TextFile>,
    text: Text,
    /// Where the first byte that is not consumed is in the (unpacked) file.
    offset: u64,
    /// Lines before it, if they were counted.
    lines: Option<u64>,
    /// Records must begin before this offset.
    end: u64,
    /// Where the part after this one begins, if it takes the first line feed it sees for the end of a record.
    next: Option<u64>,
}

enum Text {
    /// All there is.
    Whole(Bytes),
    /// Unpacked as needed.
    Stream { reader: Box<dyn Read + Send>, buffer: Vec<u8>, start: usize, done: bool },
}

impl TextInput {
    /// The text of a part, from its first record on. `wrap` may change the text while it is read; then offsets are
    /// those of the changed text.
    pub fn new(
        file: &Arc<TextFile>,
        part: &Part,
        fetched: TextBytes,
        wrap: Option<fn(Box<dyn Read + Send>) -> Box<dyn Read + Send>>,
    ) -> Result<Self> {
        let file = file.clone();
        let streamed = file.is_streamed() || wrap.is_some();
        let mut input = if streamed {
            let reader = file.reader(fetched.bytes)?;
            let reader = match wrap {
                Some(wrap) => wrap(reader),
                None => reader,
            };
            let text = Text::Stream { reader, buffer: Vec::new(), start: 0, done: false };
            Self { file, text, offset: 0, lines: Some(0), end: u64::MAX, next: None }
        } else {
            let end = match part {
                Part::Whole => u64::MAX,
                Part::Range(range) => range.end,
            };
            let lines = (fetched.offset == 0).then_some(0);
            let offset = fetched.offset;
            let next = (end < file.source.bytes).then(|| {
                let last = (end - 1 - offset) as usize;
                let feed = fetched.bytes.get(last..).and_then(|rest| memchr::memchr(b'\n', rest));
                feed.map_or(file.source.bytes, |feed| end + feed as u64)
            });
            Self { file, text: Text::Whole(fetched.bytes), offset, lines, end, next }
        };
        let body = input.file.body;
        match part {
            Part::Range(range) if range.start > body => {
                // The byte before the range tells whether a record begins at its first byte.
                let skip = memchr::memchr(b'\n', input.rest()).map_or(input.rest().len(), |feed| feed + 1);
                input.consume(skip);
            }
            _ => {
                while input.offset < body && !(input.rest().is_empty() && input.is_last()) {
                    if input.rest().is_empty() {
                        input.more()?;
                    }
                    let skip = (body - input.offset).min(input.rest().len() as u64);
                    input.consume(skip as usize);
                }
            }
        }
        Ok(input)
    }

    /// The text that is not consumed, as far as it is here.
    pub fn rest(&self) -> &[u8] {
        match &self.text {
            Text::Whole(bytes) => bytes,
            Text::Stream { buffer, start, .. } => &buffer[*start..],
        }
    }

    /// True if nothing comes after the rest.
    pub fn is_last(&self) -> bool {
        match &self.text {
            Text::Whole(_) => true,
            Text::Stream { done, .. } => *done,
        }
    }

    /// How many bytes of the rest may begin a record of this part.
    pub fn begin_before(&self) -> usize {
        usize::try_from(self.end.saturating_sub(self.offset)).unwrap_or(usize::MAX)
    }

    /// Where the part after this one begins, as that part sees it.
    pub fn next_part(&self) -> Option<u64> {
        self.next
    }

    /// Where the rest begins in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Passes bytes of the rest.
    pub fn consume(&mut self, bytes: usize) {
        if let Some(lines) = &mut self.lines {
            let passed = match &self.text {
                Text::Whole(text) => &text[..bytes],
                Text::Stream { buffer, start, .. } => &buffer[*start..*start + bytes],
            };
            *lines += memchr::memchr_iter(b'\n', passed).count() as u64;
        }
        self.offset += bytes as u64;
        match &mut self.text {
            Text::Whole(text) => *text = text.slice(bytes..),
            Text::Stream { start, .. } => *start += bytes,
        }
    }

    /// Makes the rest longer, or finds that it is the last. The rest keeps its first byte.
    pub fn more(&mut self) -> Result<()> {
        let Text::Stream { reader, buffer, start, done } = &mut self.text else { return Ok(()) };
        if *done {
            return Ok(());
        }
        if buffer.len() - *start > RECORD_BYTES_MAX {
            return Err(self.file.source.error(format!("a record is longer than {RECORD_BYTES_MAX} bytes")));
        }
        buffer.drain(..*start);
        *start = 0;
        let old = buffer.len();
        // Doubling keeps the copies of a long record linear.
        let wanted = READ_BYTES.max(old);
        let outcome = reader.by_ref().take(wanted as u64).read_to_end(buffer);
        outcome.map_err(|error| {
            if is_unclosed(&error) {
                return self.file.source.error(UNCLOSED);
            }
            let how = self.file.compression.name();
            self.file.source.error(format!("it cannot be unpacked as {how} after {} bytes: {error}", self.offset))
        })?;
        *done = buffer.len() - old < wanted;
        Ok(())
    }

    /// The line of a place of the rest, counted from 1, if the lines before it were counted.
    pub fn line_at(&self, at: usize) -> Option<u64> {
        let within = memchr::memchr_iter(b'\n', &self.rest()[..at.min(self.rest().len())]).count() as u64;
        self.lines.map(|lines| lines + within + 1)
    }

    /// An error at a place of the rest: the file, the line where known, and what is wrong.
    pub fn error(&self, at: usize, what: impl std::fmt::Display) -> Error {
        let within = memchr::memchr_iter(b'\n', &self.rest()[..at.min(self.rest().len())]).count() as u64;
        let line = match self.lines {
            Some(lines) => Some(lines + within + 1),
            None => self.file.line_of(self.offset).map(|line| line + within),
        };
        let name = &self.file.source.name;
        match line {
            Some(line) => Error::file(format!("{name}, line {line}: {what}")),
            None => Error::file(format!("{name}, byte {}: {what}", self.offset + at as u64)),
        }
    }

    /// The file.
    pub fn file(&self) -> &TextFile {
        &self.file
    }
}
