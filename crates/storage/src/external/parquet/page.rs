//! The pages of a column chunk: headers, and text decompressed into buffers that are used again.
//!
//! Parquet's own page reader allocates and zeroes a buffer for every page; here a page of numbers is decompressed into
//! the buffer of the page before it, and a page that is skipped is not decompressed at all.

use std::collections::VecDeque;

use bytes::Bytes;
use parquet::basic::Compression;

use super::bytes::ChunkBytes;
use super::large_page::{LargePage, Layout, joined};
use super::snappy;

/// What is wrong with a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub String);

impl From<snappy::Malformed> for Malformed {
    fn from(error: snappy::Malformed) -> Self {
        Malformed(format!("a compressed page is malformed: {}", error.0))
    }
}

impl From<super::runs::Malformed> for Malformed {
    fn from(error: super::runs::Malformed) -> Self {
        Malformed(error.0.to_owned())
    }
}

fn malformed<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

/// A page may be this long whatever the footer says: writers have counted the length of a chunk's text differently.
const UNSTATED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How much longer than its compressed form a text can be; a page that claims more is damaged.
fn expansion_max(compression: Compression) -> u64 {
    match compression {
        Compression::UNCOMPRESSED => 1,
        // Three bytes copy up to 64.
        Compression::SNAPPY => 22,
        // Four bytes repeat one 128 KiB times.
        Compression::ZSTD(_) => 1 << 15,
        // One byte of a length stands for 255.
        Compression::LZ4 | Compression::LZ4_RAW => 255,
        // Two bits copy up to 258 bytes.
        Compression::GZIP(_) => 1032,
        // A few bytes can copy 16 MiB: only the footer bounds it.
        _ => u64::MAX,
    }
}

/// Bytes of compressed forms that need not expand: frames and lengths.
const FRAME_BYTES: u64 = 64;

/// Structures within structures in a page header: the format needs three.
const DEPTH_MAX: usize = 16;

/// Encodings by their numbers in the format.
pub(super) mod encoding {
    pub const PLAIN: i32 = 0;
    pub const PLAIN_DICTIONARY: i32 = 2;
    pub const RLE: i32 = 3;
    pub const RLE_DICTIONARY: i32 = 8;

    /// Whether values are codes of a dictionary.
    pub fn is_dictionary(encoding: i32) -> bool {
        matches!(encoding, PLAIN_DICTIONARY | RLE_DICTIONARY)
    }
}

/// What a page's header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    pub encoding: i32,
    /// Values, counting NULLs; rows in a flat column.
    pub values: usize,
    /// Bytes of the page when it is not compressed.
    pub text_bytes: usize,
    page_bytes: usize,
    level_encoding: i32,
    /// Version 2: the length of the definition levels, which are not compressed.
    level_bytes: usize,
    repetition_bytes: usize,
    is_compressed: bool,
}

impl Header {
    /// Whether it is of a page of plain values.
    pub fn is_plain_data(&self) -> bool {
        matches!(self.kind, Kind::Data | Kind::DataV2) && self.encoding == encoding::PLAIN
    }

    /// Bytes of the page as it is in the file.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Bytes of the repetition and of the definition levels, where they stand apart.
    pub fn level_bytes(&self) -> (usize, usize) {
        (self.repetition_bytes, self.level_bytes)
    }

    /// Whether the page is compressed, if pages of the chunk are.
    pub fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// The header of a page of some of its values.
    pub fn of_part(&self, values: usize, text_bytes: usize) -> Self {
        let kind = Kind::Data;
        let level_encoding = encoding::RLE;
        Self { kind, values, text_bytes, page_bytes: text_bytes, level_encoding, level_bytes: 0, ..self.clone() }
    }

    /// Whether the definition levels are in an encoding that is read here. The other one was given up long ago.
    pub fn levels_are_runs(&self) -> bool {
        self.kind != Kind::Data || self.level_encoding == encoding::RLE
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Other,
    Data,
    DataV2,
    Dictionary,
}

/// A page's text and where things are in it.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub text: Text,
    /// Definition levels, if the column may be NULL.
    pub levels: std::ops::Range<usize>,
    /// Where the values begin.
    pub values: usize,
}

/// Bytes of a page.
#[derive(Debug)]
pub(super) enum Text {
    /// As fetched.
    Fetched(Bytes),
    /// Decompressed.
    Own(Vec<u8>),
}

impl Default for Text {
    fn default() -> Self {
        Text::Own(Vec::new())
    }
}

impl std::ops::Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::Fetched(bytes) => bytes,
            Text::Own(bytes) => bytes,
        }
    }
}

/// Whether pages of this compression can be read here.
pub(super) fn is_supported(compression: Compression) -> bool {
    matches!(compression, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_))
}

/// How the pages of a chunk are taken apart.
#[derive(Clone, Copy)]
pub(super) struct Apart {
    pub layout: Layout,
    /// Whether there may be NULLs.
    pub optional: bool,
    /// The text from which on pages are.
    pub large_bytes: usize,
}

/// The pages of a chunk, in order.
pub(super) struct Pages {
    /// What is left of the part being read.
    rest: Bytes,
    /// The part after it.
    next: Option<Bytes>,
    /// Bytes of the chunk that have not been read yet.
    unread: u64,
    compression: Compression,
    /// How long the text of a page may be.
    text_bytes_max: u64,
    /// Whether there was a dictionary or a page of data.
    begun: bool,
    zstandard: Option<zstd::bulk::Decompressor<'static>>,
    /// How pages are taken apart; `None` if they are not.
    apart: Option<Apart>,
    /// Pages that are taken apart, behind `rest`, each with what is between it and the next.
    large: VecDeque<(LargePage, Bytes)>,
}

impl Pages {
    /// The pages of a chunk. `text_bytes` is what the footer says about the length of all of them, not compressed.
    pub fn new(chunk: &ChunkBytes, compression: Compression, text_bytes: i64) -> Self {
        let (rest, next) = match &chunk.dictionary {
            Some(dictionary) => (dictionary.clone(), Some(chunk.pages.clone())),
            None => (chunk.pages.clone(), None),
        };
        let text_bytes_max = u64::try_from(text_bytes).unwrap_or(0).max(UNSTATED_BYTES_MAX);
        Self {
            rest,
            next,
            unread: 0,
            compression,
            text_bytes_max,
            begun: false,
            zstandard: None,
            apart: None,
            large: VecDeque::new(),
        }
    }

    /// The same of a chunk of which so many bytes are still to be [fed](Self::feed).
    pub fn unread(self, unread: u64) -> Self {
        Self { unread, ..self }
    }

    /// The same with long pages [taken apart](LargePage).
    pub fn apart(self, apart: Option<Apart>) -> Self {
        Self { apart, ..self }
    }

    /// Takes the bytes of the chunk that come next.
    pub fn feed(&mut self, bytes: &Bytes) {
        self.unread = self.unread.saturating_sub(bytes.len() as u64);
        match self.large.back_mut() {
            Some((page, behind)) => *behind = joined(behind, &page.feed(bytes)),
            None => self.rest = joined(&self.rest, bytes),
        }
    }

    /// Bytes that were read and not passed yet.
    pub fn held_bytes(&self) -> usize {
        let large = self.large.iter().map(|(page, behind)| page.held_bytes() + behind.len()).sum::<usize>();
        self.rest.len() + large + self.next.as_ref().map_or(0, Bytes::len)
    }

    /// Finds pages to take apart in what has been read.
    pub fn find_large(&mut self) -> Result<(), Malformed> {
        let Some(Apart { layout, optional, large_bytes }) = self.apart else { return Ok(()) };
        loop {
            let part = match self.large.back() {
                Some((page, _)) if page.is_unfed() => return Ok(()),
                Some((_, behind)) => behind,
                None => &self.rest,
            };
            let mut at = 0;
            let (header, begin) = loop {
                match Ahead::at(&part[at..], self.unread)? {
                    Ahead::End | Ahead::Missing(None, _) => return Ok(()),
                    Ahead::Missing(Some((header, length)), _) | Ahead::Page(header, length, _)
                        if LargePage::is_large(&header, large_bytes) =>
                    {
                        break (header, at + length);
                    }
                    Ahead::Missing(..) => return Ok(()),
                    Ahead::Page(_, _, bytes) => at += bytes,
                }
            };
            self.check_length(&header)?;
            let end = part.len().min(begin.saturating_add(header.page_bytes));
            let (before, input, behind) = (part.slice(..at), part.slice(begin..end), part.slice(end..));
            match self.large.back_mut() {
                Some((_, part)) => *part = before,
                None => self.rest = before,
            }
            let page = LargePage::new(header, layout, optional, self.compression, input)?;
            self.large.push_back((page, behind));
        }
    }

    /// The page that is taken apart, if it comes next.
    pub fn large(&mut self) -> Option<&mut LargePage> {
        while self.rest.is_empty() && self.large.front().is_some_and(|(page, _)| page.is_done() && !page.is_unfed()) {
            self.rest = self.large.pop_front().map(|(_, behind)| behind).unwrap_or_default();
        }
        let (page, _) = self.large.front_mut().filter(|_| self.rest.is_empty())?;
        self.begun = true;
        (!page.is_done()).then_some(page)
    }

    /// The header of the next page if all of the page has been read.
    pub fn peek(&self) -> Result<Option<Header>, Malformed> {
        match Ahead::at(&self.rest, self.unread_behind(self.large.is_empty()))? {
            Ahead::Page(header, ..) => Ok(Some(header)),
            Ahead::Missing(..) | Ahead::End => Ok(None),
        }
    }

    /// Bytes that are fed behind a part: none unless it is the last one.
    fn unread_behind(&self, is_last: bool) -> u64 {
        if is_last { self.unread } else { 0 }
    }

    /// What is ahead until pages of data have so many values, as far as it has been read. Of pages that are taken apart
    /// so many are made ready, of which `rows` are read at once.
    pub fn look_ahead(&mut self, values: usize, rows: usize) -> Result<LookAhead, Malformed> {
        let mut found = LookAhead::default();
        let mut seen = self.look_ahead_in(&self.rest, self.large.is_empty(), values, 0, &mut found)?;
        for index in 0..self.large.len() {
            let (page, _) = &mut self.large[index];
            let wanted = values.saturating_sub(seen);
            let is_there = wanted == 0 || page.is_done() || page.fill(wanted)?;
            seen = seen.saturating_add(page.rows_left());
            found.longest_bytes = found.longest_bytes.max(page.decoded_bytes(rows));
            if !is_there || seen < values && page.is_unfed() {
                found.missing_bytes = page.missing_bytes();
                return Ok(found);
            }
            let is_last = index + 1 == self.large.len();
            seen = self.look_ahead_in(&self.large[index].1, is_last, values, seen, &mut found)?;
        }
        Ok(found)
    }

    /// The same of a part; the values that have been seen then.
    fn look_ahead_in(
        &self,
        part: &Bytes,
        is_last: bool,
        values: usize,
        mut seen: usize,
        found: &mut LookAhead,
    ) -> Result<usize, Malformed> {
        let mut at = 0;
        loop {
            match Ahead::at(&part[at..], self.unread_behind(is_last))? {
                Ahead::End => return Ok(seen),
                Ahead::Missing(header, bytes) => {
                    header.map_or(Ok(0), |(header, _)| self.note(header, found))?;
                    found.missing_bytes = if seen < values { bytes } else { 0 };
                    return Ok(seen);
                }
                Ahead::Page(header, _, bytes) => {
                    seen = seen.saturating_add(self.note(header, found)?);
                    at += bytes;
                }
            }
        }
    }

    /// Notes what a page is; the values of data that it has.
    fn note(&self, header: Header, found: &mut LookAhead) -> Result<usize, Malformed> {
        self.check_length(&header)?;
        let values = header.values;
        match header.kind {
            Kind::Other => Ok(0),
            Kind::Dictionary => {
                found.dictionary = Some(header);
                Ok(0)
            }
            Kind::Data | Kind::DataV2 => {
                found.longest_bytes = found.longest_bytes.max(header.text_bytes);
                Ok(values)
            }
        }
    }

    /// The next page's header and its bytes; `None` at the end. There is one dictionary at most, and it comes before
    /// all pages of data: what was read with one dictionary must not meet another.
    pub fn next(&mut self) -> Result<Option<(Header, Bytes)>, Malformed> {
        while self.rest.is_empty() {
            match self.next.take() {
                Some(next) => self.rest = next,
                None => return Ok(None),
            }
        }
        let mut reader = Compact { bytes: &self.rest, at: 0 };
        let header = reader.page_header()?;
        let start = reader.at;
        if header.page_bytes > self.rest.len() - start {
            return malformed(format!(
                "a page of {} bytes is cut off after {}",
                header.page_bytes,
                self.rest.len() - start
            ));
        }
        if header.kind == Kind::Dictionary && self.begun {
            return malformed("a dictionary comes after other pages");
        }
        self.begun |= header.kind != Kind::Other;
        self.check_length(&header)?;
        let bytes = self.rest.slice(start..start + header.page_bytes);
        self.rest = self.rest.slice(start + header.page_bytes..);
        Ok(Some((header, bytes)))
    }

    /// Whether the text of a page can be as long as its header says. Memory is taken on that word.
    fn check_length(&self, header: &Header) -> Result<(), Malformed> {
        let (text, page) = (header.text_bytes as u64, header.page_bytes as u64);
        let longest = (page + FRAME_BYTES).saturating_mul(expansion_max(self.compression));
        if header.kind != Kind::Other && (text > longest || text > self.text_bytes_max.max(page)) {
            return malformed(format!("a page of {page} bytes claims to expand to {text}"));
        }
        Ok(())
    }

    /// The text of a page. `into` may be the text of an earlier page, whose memory is used again; `optional` says
    /// whether the column may be NULL.
    pub fn read(&mut self, header: &Header, bytes: Bytes, into: Text, optional: bool) -> Result<Page, Malformed> {
        let plain =
            self.compression == Compression::UNCOMPRESSED || header.kind == Kind::DataV2 && !header.is_compressed;
        let levels = header.level_bytes + header.repetition_bytes;
        let text = if plain {
            Text::Fetched(bytes)
        } else {
            let mut own = match into {
                Text::Own(own) => own,
                Text::Fetched(_) => Vec::new(),
            };
            own.clear();
            let (Some(level_bytes), Some(compressed)) = (bytes.get(..levels), bytes.get(levels..)) else {
                return malformed("the levels of a page are cut off");
            };
            let Some(length) = header.text_bytes.checked_sub(levels) else {
                return malformed("a page is shorter than its levels");
            };
            own.extend_from_slice(level_bytes);
            self.decompress(compressed, length, &mut own)?;
            Text::Own(own)
        };
        if text.len() != header.text_bytes {
            return malformed(format!("a page has {} bytes instead of {}", text.len(), header.text_bytes));
        }
        let (levels, values) = match header.kind {
            Kind::DataV2 => {
                if levels > text.len() {
                    return malformed("the levels of a page are cut off");
                }
                (header.repetition_bytes..levels, levels)
            }
            Kind::Data if optional => {
                if !header.levels_are_runs() {
                    return malformed("the levels of a page are in an encoding of old");
                }
                let Some(length) = text.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize) else {
                    return malformed("the levels of a page are cut off");
                };
                if length > text.len() - 4 {
                    return malformed("the levels of a page are longer than the page");
                }
                (4..4 + length, 4 + length)
            }
            _ => (0..0, 0),
        };
        Ok(Page { text, levels, values })
    }

    fn decompress(&mut self, compressed: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if length == 0 {
            // A page of only NULLs; some writers compress nothing to something.
            return Ok(());
        }
        match self.compression {
            Compression::SNAPPY => snappy::decompress(compressed, length, out)?,
            Compression::ZSTD(_) => {
                if self.zstandard.is_none() {
                    let made = zstd::bulk::Decompressor::new();
                    self.zstandard = Some(made.map_err(|error| Malformed(format!("no memory for zstd: {error}")))?);
                }
                let Some(zstandard) = &mut self.zstandard else { return malformed("no zstd") };
                let failed = |error| Malformed(format!("a compressed page is malformed: {error}"));
                if out.is_empty() {
                    // Exactly, because no more than the longest page was reserved.
                    out.reserve_exact(length);
                    zstandard.decompress_to_buffer(compressed, out).map_err(failed)?;
                } else {
                    out.extend_from_slice(&zstandard.decompress(compressed, length).map_err(failed)?);
                }
            }
            other => return malformed(format!("the compression {other:?} is not read here")),
        }
        Ok(())
    }
}

/// What the pages that have been read say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LookAhead {
    /// Bytes that are missing until there are as many values as were asked for, at least.
    pub missing_bytes: usize,
    /// The dictionary, if it is ahead.
    pub dictionary: Option<Header>,
    /// Bytes of the longest page of data, when it is not compressed.
    pub longest_bytes: usize,
}

/// What a part of a chunk begins with.
enum Ahead {
    /// A page, the bytes of its header, and its bytes with the header.
    Page(Header, usize, usize),
    /// A page of which so many bytes are missing at least; its header, of so many bytes, is there, or is not.
    Missing(Option<(Header, usize)>, usize),
    End,
}

impl Ahead {
    /// `unread` bytes come behind the part.
    fn at(part: &[u8], unread: u64) -> Result<Self, Malformed> {
        if part.is_empty() {
            return Ok(if unread > 0 { Self::Missing(None, 1) } else { Self::End });
        }
        let mut reader = Compact { bytes: part, at: 0 };
        let header = match reader.page_header() {
            // What is read as malformed may be cut off.
            Err(_) if unread > 0 => return Ok(Self::Missing(None, 1)),
            header => header?,
        };
        let bytes = reader.at.saturating_add(header.page_bytes);
        let missing = bytes.saturating_sub(part.len());
        Ok(match missing > 0 && unread > 0 {
            true => Self::Missing(Some((header, reader.at)), missing),
            // What a page lacks at the end of a chunk is reported when it is read.
            false => Self::Page(header, reader.at, bytes.min(part.len())),
        })
    }
}

/// Thrift's compact protocol, as far as page headers need it.
/// Format: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.
struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The types of fields.
mod field {
    pub const STOP: u8 = 0;
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const MAP: u8 = 11;
    pub const STRUCT: u8 = 12;
}

impl Compact<'_> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte.ok_or_else(|| Malformed("a page header is cut off".to_owned()))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        malformed("a number in a page header is too long")
    }

    fn signed(&mut self) -> Result<i64, Malformed> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        i32::try_from(self.signed()?).or_else(|_| malformed("a number in a page header is too large"))
    }

    fn size(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.i32()?).or_else(|_| malformed("a size in a page header is negative"))
    }

    /// The next field of a structure: its number and type, or `None` at its end.
    fn field(&mut self, last: &mut i16) -> Result<Option<(i16, u8)>, Malformed> {
        let byte = self.byte()?;
        let ty = byte & 0x0f;
        if ty == field::STOP {
            return Ok(None);
        }
        *last = match byte >> 4 {
            0 => i16::try_from(self.signed()?).or_else(|_| malformed("a field in a page header has no number"))?,
            delta => last.wrapping_add(i16::from(delta)),
        };
        Ok(Some((*last, ty)))
    }

    fn skip(&mut self, ty: u8, depth: usize) -> Result<(), Malformed> {
        if depth > DEPTH_MAX {
            return malformed("a page header is nested too deep");
        }
        match ty {
            field::TRUE | field::FALSE => {}
            field::BYTE => {
                self.byte()?;
            }
            field::I16 | field::I32 | field::I64 => {
                self.varint()?;
            }
            field::DOUBLE => self.pass(8)?,
            field::BINARY => {
                let length = self.varint()?;
                self.pass(length)?;
            }
            field::LIST | field::SET => {
                let byte = self.byte()?;
                let count = match byte >> 4 {
                    15 => self.varint()?,
                    count => u64::from(count),
                };
                self.skip_elements(count, &[byte & 0x0f], depth)?;
            }
            field::MAP => {
                let count = self.varint()?;
                if count > 0 {
                    let types = self.byte()?;
                    self.skip_elements(count, &[types >> 4, types & 0x0f], depth)?;
                }
            }
            field::STRUCT => {
                let mut last = 0;
                while let Some((_, ty)) = self.field(&mut last)? {
                    self.skip(ty, depth + 1)?;
                }
            }
            _ => return malformed("a page header has a field of no type"),
        }
        Ok(())
    }

    fn skip_elements(&mut self, count: u64, types: &[u8], depth: usize) -> Result<(), Malformed> {
        if count > self.bytes.len() as u64 {
            return malformed("a list in a page header is too long");
        }
        for _ in 0..count {
            for &ty in types {
                // Within lists a truth value is a byte.
                let ty = if matches!(ty, field::TRUE | field::FALSE) { field::BYTE } else { ty };
                self.skip(ty, depth + 1)?;
            }
        }
        Ok(())
    }

    fn pass(&mut self, bytes: u64) -> Result<(), Malformed> {
        if bytes > (self.bytes.len() - self.at.min(self.bytes.len())) as u64 {
            return malformed("a page header is cut off");
        }
        self.at += bytes as usize;
        Ok(())
    }

    fn page_header(&mut self) -> Result<Header, Malformed> {
        let mut header = Header { is_compressed: true, ..Header::default() };
        let mut kind = None;
        let mut described = None;
        let mut last = 0;
        while let Some((number, ty)) = self.field(&mut last)? {
            match (number, ty) {
                (1, field::I32) => kind = Some(self.i32()?),
                (2, field::I32) => header.text_bytes = self.size()?,
                (3, field::I32) => header.page_bytes = self.size()?,
                (5, field::STRUCT) => {
                    described = Some(0);
                    self.data_header(&mut header)?;
                }
                (7, field::STRUCT) => {
                    described = Some(2);
                    self.dictionary_header(&mut header)?;
                }
                (8, field::STRUCT) => {
                    described = Some(3);
                    self.data_header_v2(&mut header)?;
                }
                (_, ty) => self.skip(ty, 0)?,
            }
        }
        header.kind = match kind {
            Some(0) => Kind::Data,
            Some(2) => Kind::Dictionary,
            Some(3) => Kind::DataV2,
            Some(_) => Kind::Other,
            None => return malformed("a page header does not say what the page is"),
        };
        if header.kind != Kind::Other && described != kind {
            return malformed("a page header does not describe its page");
        }
        Ok(header)
    }

    fn data_header(&mut self, header: &mut Header) -> Result<(), Malformed> {
        let mut last = 0;
        while let Some((number, ty)) = self.field(&mut last)? {
            match (number, ty) {
                (1, field::I32) => header.values = self.size()?,
                (2, field::I32) => header.encoding = self.i32()?,
                (3, field::I32) => header.level_encoding = self.i32()?,
                (_, ty) => self.skip(ty, 1)?,
            }
        }
        Ok(())
    }

    fn dictionary_header(&mut self, header: &mut Header) -> Result<(), Malformed> {
        let mut last = 0;
        while let Some((number, ty)) = self.field(&mut last)? {
            match (number, ty) {
                (1, field::I32) => header.values = self.size()?,
                (2, field::I32) => header.encoding = self.i32()?,
                (_, ty) => self.skip(ty, 1)?,
            }
        }
        Ok(())
    }

    fn data_header_v2(&mut self, header: &mut Header) -> Result<(), Malformed> {
        let mut last = 0;
        while let Some((number, ty)) = self.field(&mut last)? {
            match (number, ty) {
                (1, field::I32) => header.values = self.size()?,
                (4, field::I32) => header.encoding = self.i32()?,
                (5, field::I32) => header.level_bytes = self.size()?,
                (6, field::I32) => header.repetition_bytes = self.size()?,
                (7, field::TRUE) => header.is_compressed = true,
                (7, field::FALSE) => header.is_compressed = false,
                (_, ty) => self.skip(ty, 1)?,
            }
        }
        Ok(())
    }
}
