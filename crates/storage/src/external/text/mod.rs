//! Text files: records that end with a line feed, in plain or compressed files.
//!
//! A plain file whose records can be told apart anywhere is cut into ranges of [`CLUSTER_BYTES`]; a cluster has the
//! records that *begin* in its range, wherever they end. A compressed file is one cluster and is unpacked while it is
//! decoded, so that only the packed bytes and a window of text are in memory.

pub(super) mod csv;
mod csv_cuts;
mod csv_dates;
pub(super) mod csv_fields;
pub(super) mod csv_infer;
pub(super) mod csv_values;
mod encoded;
pub(super) mod input;
pub(super) mod json;
mod json_columns;
mod json_infer;
mod json_text;
#[cfg(test)]
mod tests;

use std::io::{BufRead, Cursor, Read};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use diligence_base::limits::BATCH_BYTES;
use diligence_base::{Error, Result};

use encoded::Encoded;
pub(super) use encoded::encode;

use super::options::{Compression, OpenOptions};
use super::rejects::RecordFile;
use super::source::Source;
use crate::{Fetch, Fetched};

/// Bytes of text in a cluster: about ten milliseconds of parsing.
pub(super) const CLUSTER_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes read beyond a cluster's range at first, to find the end of its last record.
const BEYOND_BYTES: u64 = 64 * 1024;

/// Bytes that one record may have. A file without line ends would else be read as one record.
pub(super) const RECORD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Text in a window, but for its last record: of long records it has fewer. Half of a batch's bytes, as it is there as
/// text and as columns. The same for all queries, so that scans find the windows that others have left.
pub(super) const WINDOW_BYTES_MAX: usize = *BATCH_BYTES.end() / 2;

/// Text looked at when a file is opened, to infer its schema.
const SAMPLE_BYTES: u64 = 1024 * 1024;

/// Packed bytes read for a sample.
const PACKED_SAMPLE_BYTES: u64 = 512 * 1024;

/// Further places of a large file looked at, and how much there.
const PROBES: u64 = 8;
const PROBE_BYTES: u64 = 64 * 1024;

/// What is wrong with an array of records that ends with no bracket.
const UNCLOSED: &str = "no bracket ends the array of records; the file is truncated";

/// The error of a reader for such an array.
fn unclosed() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, UNCLOSED)
}

/// Whether a reader failed for that.
fn is_unclosed(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::UnexpectedEof && error.to_string() == UNCLOSED
}

/// A text file, opened.
#[derive(Debug)]
pub(super) struct TextFile {
    pub source: Arc<Source>,
    pub compression: Compression,
    /// How its text becomes UTF-8 with line feeds, if it is not.
    pub encoded: Option<Encoded>,
    /// Where the first record begins: after the byte order mark and the header. Counted in unpacked bytes.
    pub body: u64,
}

/// A part of a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The records that begin in this range of bytes.
    Range(Range<u64>),
    /// All records.
    Whole,
}

/// What a fetch brings.
pub(super) struct TextBytes {
    pub bytes: Bytes,
    /// Where the bytes are in the file.
    pub offset: u64,
}

/// The first text of a file.
pub(super) struct Sample {
    /// Unpacked text, from the first byte.
    pub text: Vec<u8>,
    /// True if that is all.
    pub complete: bool,
    /// Unpacked bytes of the whole file, estimated if it is packed.
    pub bytes: u64,
}

impl TextFile {
    /// The parts that become clusters.
    pub fn parts(&self, splittable: bool) -> Vec<Part> {
        let (start, end) = (self.body, self.source.bytes);
        if self.is_streamed() || !splittable {
            return vec![Part::Whole];
        }
        if end - start.min(end) <= CLUSTER_BYTES {
            return vec![Part::Range(start..end.max(start))];
        }
        let count = (end - start).div_ceil(CLUSTER_BYTES);
        let cut = |part: u64| start + (u128::from(end - start) * u128::from(part) / u128::from(count)) as u64;
        (0..count).map(|part| Part::Range(cut(part)..cut(part + 1))).collect()
    }

    /// Whether the text is not what the bytes of the file are.
    pub fn is_streamed(&self) -> bool {
        self.compression != Compression::Plain || self.encoded.is_some()
    }

    /// Reads the text from all bytes of the file.
    pub fn reader(&self, bytes: Bytes) -> Result<Box<dyn Read + Send>> {
        self.reader_of(Cursor::new(bytes))
    }

    /// Reads the text from what reads all bytes of the file.
    pub fn reader_of(&self, bytes: impl BufRead + Send + 'static) -> Result<Box<dyn Read + Send>> {
        let unpacked = unpack(self.compression, bytes)?;
        Ok(match &self.encoded {
            Some(encoded) => Box::new(encoded.clone().reader(unpacked)),
            None => unpacked,
        })
    }

    /// Why a reader of the text failed.
    pub fn unreadable(&self, error: std::io::Error) -> Error {
        match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) if is_unclosed(&error) => self.source.error(UNCLOSED),
            Err(error) => self.source.error(format!("it cannot be unpacked as {}: {error}", self.compression.name())),
        }
    }

    /// Reads a part. A range begins one byte early, to see whether a record begins at its first byte, and goes on to
    /// the end of its last record.
    pub fn fetch(&self, part: &Part) -> Fetch {
        let range = match part {
            Part::Whole => 0..self.source.bytes,
            Part::Range(range) => range.start.saturating_sub(u64::from(range.start > self.body))..range.end,
        };
        let offset = range.start;
        let finish =
            move |bytes: Bytes| Ok(Fetched { bytes: bytes.len(), content: Box::new(TextBytes { bytes, offset }) });
        if range.end >= self.source.bytes {
            let whole = move |mut parts: Vec<Bytes>| {
                finish(parts.pop().ok_or_else(|| Error::bug("a read of one range gave none"))?)
            };
            return self.source.fetch(vec![range], whole);
        }
        let last = (range.end - range.start - 1) as usize;
        let enough = move |bytes: &[u8]| bytes.get(last..).is_some_and(|rest| memchr::memchr(b'\n', rest).is_some());
        self.source.fetch_until(range, BEYOND_BYTES, RECORD_BYTES_MAX as u64, enough, finish)
    }

    /// Bytes that fetching a part reads, about.
    pub fn part_bytes(&self, part: &Part) -> usize {
        match part {
            Part::Whole => self.source.bytes as usize,
            Part::Range(range) => (range.end - range.start) as usize,
        }
    }

    /// What a part is called in messages.
    pub fn describe(&self, part: &Part) -> String {
        match part {
            Part::Whole => self.source.name.clone(),
            Part::Range(range) => format!("{}, bytes {} to {}", self.source.name, range.start, range.end),
        }
    }

    /// The number of the line that begins at or holds a byte of a plain file, counted from 1, if it can be found out
    /// cheaply. Reads the file up to there: only for messages.
    pub fn line_of(&self, offset: u64) -> Option<u64> {
        const READ_BYTES: u64 = 8 * 1024 * 1024;
        const COUNTED_BYTES_MAX: u64 = 1 << 30;
        if self.is_streamed() || !self.source.is_local() || offset > COUNTED_BYTES_MAX {
            return None;
        }
        let mut lines = 1;
        let mut at = 0;
        while at < offset {
            let end = (at + READ_BYTES).min(offset);
            let bytes = self.source.read_one_now(at..end).ok()?;
            lines += memchr::memchr_iter(b'\n', &bytes).count() as u64;
            at = end;
        }
        Some(lines)
    }
}

impl RecordFile for TextFile {
    fn name(&self) -> &str {
        &self.source.name
    }

    /// Of plain files only.
    fn lines_of(&self, offsets: &[u64]) -> Vec<u64> {
        const READ_BYTES: u64 = 8 * 1024 * 1024;
        let mut lines = Vec::with_capacity(offsets.len());
        if self.is_streamed() || !self.source.is_local() {
            return lines;
        }
        let (mut line, mut at) = (1, 0);
        for offset in offsets {
            while at < *offset {
                let end = (at + READ_BYTES).min(*offset);
                let Ok(bytes) = self.source.read_one_now(at..end) else { return lines };
                line += memchr::memchr_iter(b'\n', &bytes).count() as u64;
                at = end;
            }
            lines.push(line);
        }
        lines
    }
}

/// Reads the first text of a file, or some more than that if `more`.
pub(super) fn sample(source: &Arc<Source>, compression: Compression, more: u64) -> Result<Sample> {
    let wanted = SAMPLE_BYTES << (2 * more);
    if compression == Compression::Plain {
        let end = source.bytes.min(wanted);
        let text = source.read_one_now(0..end)?.to_vec();
        return Ok(Sample { text, complete: end == source.bytes, bytes: source.bytes });
    }
    let packed = source.bytes.min(PACKED_SAMPLE_BYTES << (2 * more));
    let bytes = source.read_one_now(0..packed)?;
    let mut text = Vec::new();
    let mut reader = unpack(compression, Cursor::new(bytes))?.take(wanted);
    let outcome = reader.read_to_end(&mut text);
    let complete = packed == source.bytes && (text.len() as u64) < wanted;
    // The end of a cut-off sample is expected to be missing.
    if let Err(error) = outcome
        && (packed == source.bytes || text.is_empty())
    {
        return Err(source.error(format!("it cannot be unpacked as {}: {error}", compression.name())));
    }
    let ratio = text.len() as f64 / packed.max(1) as f64;
    let bytes = if complete { text.len() as u64 } else { (source.bytes as f64 * ratio.max(1.0)) as u64 };
    Ok(Sample { text, complete, bytes })
}

/// Pieces of whole lines from further places of a large plain file.
pub(super) fn probes(source: &Arc<Source>, compression: Compression) -> Result<Vec<Vec<u8>>> {
    if compression != Compression::Plain || source.bytes < SAMPLE_BYTES * 4 {
        return Ok(Vec::new());
    }
    let ranges = (1..=PROBES).map(|probe| {
        let start = (source.bytes - PROBE_BYTES) / PROBES * probe;
        start..(start + PROBE_BYTES).min(source.bytes)
    });
    let mut pieces = Vec::new();
    for range in ranges {
        let piece = source.read_one_now(range)?;
        let first = memchr::memchr(b'\n', &piece);
        let last = memchr::memrchr(b'\n', &piece);
        if let (Some(first), Some(last)) = (first, last) {
            pieces.push(piece[first + 1..last.max(first) + 1].to_vec());
        }
    }
    Ok(pieces)
}

/// Unpacks while it is read.
fn unpack(compression: Compression, packed: impl BufRead + Send + 'static) -> Result<Box<dyn Read + Send>> {
    Ok(match compression {
        Compression::Plain => Box::new(packed),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
        Compression::Zstandard => {
            let reader = zstd::stream::read::Decoder::with_buffer(packed)
                .map_err(|error| Error::resource(format!("no memory for unpacking: {error}")))?;
            Box::new(reader)
        }
        Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(packed)),
        Compression::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(packed)),
    })
}

/// Reads the bytes of a file piece by piece, blocking the calling thread: while a table is opened.
pub(super) struct SourceReader {
    source: Arc<Source>,
    /// Where the next piece begins.
    at: u64,
    piece: Bytes,
}

impl SourceReader {
    pub fn new(source: &Arc<Source>) -> Self {
        Self { source: source.clone(), at: 0, piece: Bytes::new() }
    }
}

impl BufRead for SourceReader {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.piece.is_empty() && self.at < self.source.bytes {
            // A request of an object store takes as long as some MB.
            let wanted = if self.source.is_local() { 1 << 20 } else { 8 << 20 };
            let end = (self.at + wanted).min(self.source.bytes);
            self.piece = self.source.read_one_now(self.at..end).map_err(std::io::Error::other)?;
            self.at = end;
        }
        Ok(&self.piece)
    }

    fn consume(&mut self, bytes: usize) {
        self.piece.advance(bytes);
    }
}

impl Read for SourceReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

/// The length of the byte order mark that some programs put at the start of a text file.
pub(super) fn byte_order_mark(text: &[u8]) -> usize {
    if text.starts_with(&[0xef, 0xbb, 0xbf]) { 3 } else { 0 }
}

/// How the text of a file becomes UTF-8 with line feeds; `None` if it is that already.
pub(super) fn encoded_as(
    source: &Arc<Source>,
    compression: Compression,
    options: &OpenOptions,
) -> Result<Option<Encoded>> {
    let first = sample(source, compression, 0)?.text;
    Ok(Encoded::of(&first, options))
}

/// A [place](crate::Cluster::place) of a part of a file.
fn place(file: usize, part: usize) -> u64 {
    (file as u64) << 32 | part as u64
}

/// The compressions of all files.
pub(super) fn compressions(sources: &[Arc<Source>], options: &OpenOptions) -> Result<Vec<Compression>> {
    sources.iter().map(|source| super::location::compression_of(source, options)).collect()
}
