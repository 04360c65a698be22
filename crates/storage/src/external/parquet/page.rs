//! The pages of a column chunk: headers, and text decompressed into buffers that are used again.
//!
//! Parquet's own page reader allocates and zeroes a buffer for every page; here a page of numbers is decompressed into
//! the buffer of the page before it, and a page that is skipped is not decompressed at all.

use std::collections::VecDeque;

use bytes::Bytes;
use parquet::basic::Compression;

use super::bytes::ChunkBytes;
use super::header::{Header, Kind, Malformed, Page, Text, malformed};
use super::large_page::{LargePage, Layout, joined};
use super::snappy;

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

/// Rows of a page that is taken apart that are passed at once.
pub(super) const PASSED_ROWS: usize = 1024;

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

    /// Passes the rest of a page, all of whose rows are behind, that has not been fed; says how many bytes that is.
    /// They are not to be fed.
    pub fn pass_unread(&mut self, behind: &mut usize) -> Result<usize, Malformed> {
        let passed = match self.large.back_mut() {
            Some((page, _)) => page.skip_unfed(),
            None => match Ahead::at(&self.rest, self.unread)? {
                Ahead::Missing(Some((header, _)), missing)
                    if matches!(header.kind, Kind::Data | Kind::DataV2) && header.values <= *behind =>
                {
                    self.check_length(&header)?;
                    self.begun = true;
                    *behind -= header.values;
                    self.rest = Bytes::new();
                    missing
                }
                _ => 0,
            },
        };
        let passed = passed.min(usize::try_from(self.unread).unwrap_or(usize::MAX));
        self.unread -= passed as u64;
        Ok(passed)
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
    /// so many are made ready, but no more than `most`, of which `rows` are read at once.
    pub fn look_ahead(&mut self, values: usize, rows: usize, most: usize) -> Result<LookAhead, Malformed> {
        let mut found = LookAhead::default();
        let mut seen = self.look_ahead_in(&self.rest, self.large.is_empty(), values, 0, &mut found)?;
        for index in 0..self.large.len() {
            let (page, _) = &mut self.large[index];
            let wanted = values.saturating_sub(seen);
            let is_there = wanted == 0 || page.is_done() || page.fill(wanted.min(most))?;
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
        let (header, start) = Header::read(&self.rest)?;
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
        let (header, length) = match Header::read(part) {
            // What is read as malformed may be cut off.
            Err(_) if unread > 0 => return Ok(Self::Missing(None, 1)),
            header => header?,
        };
        let bytes = length.saturating_add(header.page_bytes);
        let missing = bytes.saturating_sub(part.len());
        Ok(match missing > 0 && unread > 0 {
            true => Self::Missing(Some((header, length)), missing),
            // What a page lacks at the end of a chunk is reported when it is read.
            false => Self::Page(header, length, bytes.min(part.len())),
        })
    }
}
