//! Pages that are longer than memory has room for: decompressed part by part, in chunks that are read in
//! [steps](super::steps).
//!
//! Some writers put a whole column chunk into one page. Of such a page only what the next window needs is decompressed:
//! its compressed bytes go in as they are read, and parts come out that are pages of their own, with their own
//! definition levels:
//!
//! ```text
//!   fed --input--> decompressed --text--> | given out, may be copied from | ready rows | more |  --take--> Page
//! ```
//!
//! Only pages of plain values are taken apart. Codes of a dictionary are short.
//!
//! Invariant: the parts have the rows of the page, each once, in order.

use std::ops::Range;

use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use parquet::basic::Compression;
use zstd::stream::raw::{Decoder as Zstandard, InBuffer, Operation, OutBuffer};

use super::header::{Header, Kind, Malformed, Page, Text};
use super::runs::Runs;
use super::snappy::Elements;

/// Pages with more text than this may be taken apart: what a part needs beside its rows is less.
const LARGE_BYTES: std::ops::RangeInclusive<usize> = 192 << 10..=2 << 20;

/// What is large beside what a step reads of a column, as its factor.
const LARGE_STEPS: usize = 3;

/// About so much text is decompressed at once.
const PORTION_BYTES: usize = if cfg!(test) { 300 } else { 32 << 10 };

/// Text that may still be copied from: what writers of Snappy blocks look back at most.
const HISTORY_BYTES: usize = 64 << 10;

/// What the Zstandard decoder has for itself, if the page is not shorter.
const ZSTANDARD_BYTES: usize = 2 << 20;

/// Where plain values end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// All have so many bytes.
    Fixed(usize),
    /// Each has its length in front of it.
    Lengths,
}

/// A page that is taken apart.
pub(super) struct LargePage {
    header: Header,
    layout: Layout,
    optional: bool,
    /// Bytes of the page that have not been fed yet.
    unfed: usize,
    /// Bytes that were fed and not decompressed yet.
    input: Bytes,
    stream: Stream,
    /// Text that was decompressed.
    text: Vec<u8>,
    /// Text that is still to come.
    text_left: usize,
    /// Whether the definition levels are read.
    begun: bool,
    /// Which rows have a value; all if `None`.
    present: Option<BooleanBuffer>,
    /// Rows that were given out.
    rows_out: usize,
    /// Rows behind them of which all text is there.
    rows_ready: usize,
    /// Their text.
    ready: Range<usize>,
    /// The longest part so far.
    longest_bytes: usize,
}

/// What the definition levels need.
enum Lacks {
    Nothing,
    /// More text.
    Text,
    /// More bytes as they are in the file.
    Input,
}

enum Stream {
    Plain,
    Snappy(Elements),
    Zstandard(Box<Zstandard<'static>>),
}

impl LargePage {
    /// The text from which on pages are taken apart where a step reads so many bytes of a column. (In tests nearly all
    /// are, so that every test of pages tests parts.)
    pub fn large_bytes(step_bytes: usize) -> usize {
        match cfg!(test) {
            true => 1 << 10,
            false => step_bytes.saturating_mul(LARGE_STEPS).clamp(*LARGE_BYTES.start(), *LARGE_BYTES.end()),
        }
    }

    /// Whether a page with more text than `large_bytes` is taken apart.
    pub fn is_large(header: &Header, large_bytes: usize) -> bool {
        header.is_plain_data() && header.text_bytes > large_bytes && header.values > 0
    }

    /// A page of which so much has been read.
    pub fn new(
        header: Header,
        layout: Layout,
        optional: bool,
        compression: Compression,
        input: Bytes,
    ) -> Result<Self, Malformed> {
        if !header.levels_are_runs() {
            return Err(Malformed("the levels of a page are in an encoding of old".to_owned()));
        }
        let stream = match compression {
            _ if !header.is_compressed() => Stream::Plain,
            Compression::UNCOMPRESSED => Stream::Plain,
            Compression::SNAPPY => Stream::Snappy(Elements::default()),
            Compression::ZSTD(_) => {
                let decoder = Zstandard::new();
                Stream::Zstandard(Box::new(decoder.map_err(|error| Malformed(format!("no memory for zstd: {error}")))?))
            }
            other => return Err(Malformed(format!("the compression {other:?} is not read here"))),
        };
        let unfed = header.page_bytes().saturating_sub(input.len());
        let text_left = header.text_bytes;
        Ok(Self {
            header,
            layout,
            optional,
            unfed,
            input,
            stream,
            text: Vec::new(),
            text_left,
            begun: false,
            present: None,
            rows_out: 0,
            rows_ready: 0,
            ready: 0..0,
            longest_bytes: 0,
        })
    }

    /// Takes what was read next, and leaves what is not of the page.
    pub fn feed(&mut self, bytes: &Bytes) -> Bytes {
        let own = bytes.slice(..self.unfed.min(bytes.len()));
        self.unfed -= own.len();
        let rest = bytes.slice(own.len()..);
        if !self.is_done() {
            self.input = joined(&self.input, &own);
        }
        rest
    }

    /// Bytes to feed next.
    pub fn missing_bytes(&self) -> usize {
        self.unfed.min(PORTION_BYTES)
    }

    /// Whether bytes of the page have not been fed yet.
    pub fn is_unfed(&self) -> bool {
        self.unfed > 0
    }

    /// Whether all rows were given out.
    pub fn is_done(&self) -> bool {
        self.rows_left() == 0
    }

    /// Rows that were not given out.
    pub fn rows_left(&self) -> usize {
        self.header.values - self.rows_out
    }

    /// Rows that can be given out.
    pub fn rows_ready(&self) -> usize {
        self.rows_ready
    }

    /// Passes all rows that are left without decompressing them.
    pub fn skip_rest(&mut self) {
        self.rows_out = self.header.values;
        self.rows_ready = 0;
        (self.input, self.text, self.ready) = (Bytes::new(), Vec::new(), 0..0);
    }

    /// Does without the bytes that have not been fed, when all rows were given out; how many they are.
    pub fn skip_unfed(&mut self) -> usize {
        if self.is_done() { std::mem::take(&mut self.unfed) } else { 0 }
    }

    /// Passes the rows that are ready.
    pub fn skip_ready(&mut self) {
        self.rows_out += self.rows_ready;
        self.rows_ready = 0;
        self.ready.start = self.ready.end;
    }

    /// Bytes that were read and not decompressed.
    pub fn held_bytes(&self) -> usize {
        self.input.len()
    }

    /// Bytes that its text takes while it is given out in parts of so many rows.
    pub fn decoded_bytes(&self, rows: usize) -> usize {
        let part = (self.header.text_bytes / self.header.values.max(1)).saturating_mul(rows.min(self.header.values));
        let part = part.max(self.longest_bytes).max(self.ready.len());
        let own = match self.stream {
            Stream::Zstandard(_) => ZSTANDARD_BYTES.min(self.header.text_bytes),
            Stream::Snappy(_) => HISTORY_BYTES,
            Stream::Plain => 0,
        };
        // The text that is ready, and the page that is made of it.
        (2 * part + 2 * PORTION_BYTES + own).min(self.header.text_bytes.saturating_mul(2))
    }

    /// Decompresses until so many rows are ready, or all that are left. False if bytes must be fed before.
    pub fn fill(&mut self, rows: usize) -> Result<bool, Malformed> {
        let rows = rows.min(self.rows_left());
        while !self.begun {
            match self.begin()? {
                Lacks::Nothing => self.begun = true,
                Lacks::Text if self.decompress(false)? => {}
                Lacks::Text | Lacks::Input => return Ok(false),
            }
        }
        loop {
            self.find_ready(rows)?;
            if self.rows_ready >= rows {
                self.longest_bytes = self.longest_bytes.max(self.ready.len());
                return Ok(true);
            }
            if !self.decompress(true)? {
                return Ok(false);
            }
        }
    }

    /// The rows that are ready, as a page.
    pub fn take(&mut self) -> Option<(Header, Page)> {
        let rows = std::mem::take(&mut self.rows_ready);
        if rows == 0 {
            return None;
        }
        let mut text = if self.optional { self.levels(rows) } else { Vec::new() };
        let levels = 0..text.len();
        text.reserve_exact(self.ready.len());
        text.extend_from_slice(&self.text[self.ready.clone()]);
        self.ready.start = self.ready.end;
        self.rows_out += rows;
        if self.is_done() {
            (self.input, self.text, self.ready) = (Bytes::new(), Vec::new(), 0..0);
        }
        let header = self.header.of_part(rows, text.len());
        let values = levels.end;
        Some((header, Page { text: Text::Own(text), levels, values }))
    }

    /// The definition levels of the next rows: one run if all are the same, else bits.
    fn levels(&self, rows: usize) -> Vec<u8> {
        let mut levels = Vec::new();
        match self.present.as_ref().map(|present| present.slice(self.rows_out, rows)) {
            Some(present) if present.count_set_bits() < rows => {
                let bits = present.sliced();
                let groups = rows.div_ceil(8);
                put_varint(&mut levels, groups << 1 | 1);
                levels.extend_from_slice(&bits.as_slice()[..groups]);
            }
            _ => {
                put_varint(&mut levels, rows << 1);
                levels.push(1);
            }
        }
        levels
    }

    /// Reads the levels, if all of them are there.
    fn begin(&mut self) -> Result<Lacks, Malformed> {
        if self.header.kind == Kind::DataV2 {
            // They are not compressed, nor part of the block.
            let (repetition, definition) = self.header.level_bytes();
            let length = repetition + definition;
            if self.input.len() < length {
                return if self.unfed > 0 { Ok(Lacks::Input) } else { Err(cut_off()) };
            }
            let levels = self.input.split_to(length);
            self.text_left = self.text_left.checked_sub(length).ok_or_else(cut_off)?;
            return self.set_levels(&levels[repetition..]).map(|()| Lacks::Nothing);
        }
        if !self.optional {
            return Ok(Lacks::Nothing);
        }
        let Some(length) = self.text.first_chunk::<4>() else { return Ok(Lacks::Text) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > self.header.text_bytes {
            return Err(Malformed("the levels of a page are longer than the page".to_owned()));
        }
        let Some(levels) = self.text.get(4..4 + length).map(<[u8]>::to_vec) else { return Ok(Lacks::Text) };
        self.ready = 4 + length..4 + length;
        self.set_levels(&levels).map(|()| Lacks::Nothing)
    }

    fn set_levels(&mut self, levels: &[u8]) -> Result<(), Malformed> {
        if self.optional {
            let mut runs = Runs::new(1, 0..levels.len())?;
            let rows = self.header.values;
            if runs.clone().same(levels, rows)? != Some(1) {
                self.present = Some(runs.read_bits(levels, rows)?);
            }
        }
        Ok(())
    }

    /// Counts rows whose text is there, up to so many.
    fn find_ready(&mut self, rows: usize) -> Result<(), Malformed> {
        if let (Layout::Fixed(width), None) = (self.layout, &self.present) {
            let there = (self.text.len() - self.ready.end) / width.max(1);
            let here = there.min(rows.saturating_sub(self.rows_ready));
            self.rows_ready += here;
            self.ready.end += here * width;
            return Ok(());
        }
        while self.rows_ready < rows {
            let row = self.rows_out + self.rows_ready;
            if self.present.as_ref().is_none_or(|present| present.value(row)) {
                let at = self.ready.end;
                let length = match self.layout {
                    Layout::Fixed(width) => width,
                    Layout::Lengths => match self.text.get(at..).and_then(|text| text.first_chunk::<4>()) {
                        Some(length) => 4 + u32::from_le_bytes(*length) as usize,
                        None => return Ok(()),
                    },
                };
                if length > self.text.len() - at {
                    return match length - (self.text.len() - at) > self.text_left {
                        true => Err(Malformed("a page has fewer values than rows".to_owned())),
                        false => Ok(()),
                    };
                }
                self.ready.end += length;
            }
            self.rows_ready += 1;
        }
        Ok(())
    }

    /// Decompresses about a portion. False if bytes must be fed before.
    fn decompress(&mut self, forgets: bool) -> Result<bool, Malformed> {
        if self.text_left == 0 {
            return Err(Malformed("a page has fewer values than rows".to_owned()));
        }
        if forgets {
            self.forget();
        }
        let before = self.text.len();
        let most = PORTION_BYTES.min(self.text_left);
        let is_last = self.unfed == 0;
        match &mut self.stream {
            Stream::Plain => {
                let portion = self.input.split_to(most.min(self.input.len()));
                self.text.extend_from_slice(&portion);
            }
            Stream::Snappy(elements) => {
                let read = elements.expand(&self.input, is_last, most, &mut self.text)?;
                self.input = self.input.slice(read..);
            }
            Stream::Zstandard(decoder) => {
                let mut portion = vec![0; most];
                let mut input = InBuffer::around(&self.input);
                let mut output = OutBuffer::around(&mut portion[..]);
                // What was read may be a header only.
                while output.pos() == 0 && input.pos() < self.input.len() {
                    let ran = decoder.run(&mut input, &mut output);
                    ran.map_err(|error| Malformed(format!("a compressed page is malformed: {error}")))?;
                }
                let (read, written) = (input.pos(), output.pos());
                self.text.extend_from_slice(&portion[..written]);
                self.input = self.input.slice(read..);
            }
        }
        let grown = self.text.len() - before;
        let left = self.text_left.checked_sub(grown);
        self.text_left = left.ok_or_else(|| Malformed("a compressed page is longer than it says".to_owned()))?;
        match grown {
            0 if self.unfed == 0 => Err(cut_off()),
            0 => Ok(false),
            _ => Ok(true),
        }
    }

    /// Drops text that was given out and that nothing is copied from any more.
    fn forget(&mut self) {
        let history = if matches!(self.stream, Stream::Snappy(_)) { HISTORY_BYTES } else { 0 };
        // Of a text that is not given out, the end may be copied as well.
        let old = self.ready.start.min(self.text.len().saturating_sub(history));
        if old > PORTION_BYTES {
            self.text.drain(..old);
            self.ready = self.ready.start - old..self.ready.end - old;
        }
    }
}

fn cut_off() -> Malformed {
    Malformed("a page is cut off".to_owned())
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes one behind the other; a copy only if there are some of both.
pub(super) fn joined(first: &Bytes, second: &Bytes) -> Bytes {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second.clone(),
        (_, true) => first.clone(),
        _ => [&first[..], &second[..]].concat().into(),
    }
}
