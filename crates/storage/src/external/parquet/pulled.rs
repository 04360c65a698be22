//! Column chunks that Parquet's own reader decodes where memory is short: lists, structs, and encodings and
//! compressions that are not read in [steps](super::steps).
//!
//! Where lists end is not known before their levels are read, so these chunks cannot be fetched ahead of each window.
//! Their bytes are read when the reader comes to them, a step or a page at a time, on the thread that decodes. Only
//! files of this machine are read so: a thread never waits for a network.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use diligence_base::Result;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::bytes::{OneChunk, pages_at};
use super::footer::chunk_range;
use super::header::{Header, Kind};
use super::survey::{VALUE_BYTES, dictionary_bytes};
use super::{ParquetFile, Piece};
use crate::external::source::Source;

/// Bytes that are read at once at least: some headers of pages have that many.
const READ_BYTES_MIN: usize = 256;

/// A header of a page is in so many bytes, if its statistics are not long.
const HEADER_BYTES: usize = 4096;

/// Memory that decoding a chunk takes.
#[derive(Debug, Default)]
pub(super) struct PulledBytes {
    /// What is read at once.
    step: usize,
    /// The values of a window, as guessed from the footer.
    window: usize,
    /// The dictionary, as it is kept.
    dictionary: AtomicUsize,
    /// The longest page so far, when it is not compressed.
    longest: AtomicUsize,
}

impl PulledBytes {
    /// All of it: what was read, the page and the next, the dictionary, the values of a window.
    pub fn total(&self) -> usize {
        let longest = self.longest.load(Ordering::Relaxed);
        let parts = [self.step.max(longest), longest, longest, self.dictionary.load(Ordering::Relaxed), self.window];
        parts.into_iter().fold(0, usize::saturating_add)
    }

    fn saw(&self, page: &Page) {
        let bytes = page.buffer().len();
        match page {
            Page::DictionaryPage { num_values, .. } => {
                let values = (*num_values as usize).min(bytes).saturating_mul(VALUE_BYTES);
                self.dictionary.fetch_max(bytes.saturating_add(values), Ordering::Relaxed);
            }
            _ => {
                self.longest.fetch_max(bytes, Ordering::Relaxed);
            }
        }
    }
}

/// The chunks of a column, as Parquet's Arrow reader wants them.
pub(super) struct PulledColumn<'f> {
    file: &'f ParquetFile,
    piece: &'f Piece,
    step_bytes: usize,
    leaves: Range<usize>,
    counts: Vec<Arc<PulledBytes>>,
}

impl<'f> PulledColumn<'f> {
    /// One of which windows of so many rows are decoded. Reads the headers of its first pages. Fails with kind `File`
    /// if they cannot be read.
    pub fn open(
        file: &'f ParquetFile,
        piece: &'f Piece,
        root: usize,
        step_bytes: usize,
        batch_rows: usize,
    ) -> Result<Self> {
        let leaves = file.leaves[root].clone();
        let step_bytes = step_bytes.max(READ_BYTES_MIN);
        let group = file.metadata.row_group(piece.row_group);
        let counts = leaves.clone().map(|leaf| {
            let chunk = group.column(leaf);
            let rows = usize::try_from(group.num_rows()).unwrap_or(0).max(1);
            let row_bytes = usize::try_from(chunk.uncompressed_size()).unwrap_or(0) / rows;
            let row_values = usize::try_from(chunk.num_values()).unwrap_or(0).div_ceil(rows);
            let value_bytes = row_values.saturating_mul(VALUE_BYTES);
            let window = batch_rows.saturating_mul(row_bytes.saturating_add(value_bytes));
            let counts = PulledBytes { step: step_bytes, window, ..PulledBytes::default() };
            first_pages(file, piece, leaf, &counts)?;
            Ok(Arc::new(counts))
        });
        let counts = counts.collect::<Result<_>>()?;
        Ok(Self { file, piece, step_bytes, leaves, counts })
    }

    /// What its chunks take.
    pub fn counts(&self) -> &[Arc<PulledBytes>] {
        &self.counts
    }
}

/// Looks at the first pages of a chunk.
fn first_pages(file: &ParquetFile, piece: &Piece, leaf: usize, counts: &PulledBytes) -> Result<()> {
    let Some(whole) = chunk_range(file.metadata.row_group(piece.row_group).column(leaf)) else { return Ok(()) };
    let mut start = whole.start;
    // A dictionary, and a page of values.
    for _ in 0..2 {
        let bytes = file.source.read_one_now(start..whole.end.min(start + HEADER_BYTES as u64))?;
        // What is wrong with it is told when it is decoded.
        let Ok((header, length)) = Header::read(&bytes) else { break };
        if header.kind != Kind::Dictionary {
            counts.longest.fetch_max(header.text_bytes, Ordering::Relaxed);
            break;
        }
        counts.dictionary.fetch_max(dictionary_bytes(&header), Ordering::Relaxed);
        start = start.saturating_add((length + header.page_bytes()) as u64);
        if start >= whole.end {
            break;
        }
    }
    Ok(())
}

impl RowGroups for PulledColumn<'_> {
    fn num_rows(&self) -> usize {
        self.piece.group_rows(&self.file.metadata)
    }

    fn column_chunks(&self, leaf: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let group = self.file.metadata.row_group(self.piece.row_group);
        let counts = leaf.checked_sub(self.leaves.start).and_then(|number| self.counts.get(number));
        let range = chunk_range(group.column(leaf));
        let (counts, range) = counts
            .zip(range)
            .ok_or_else(|| ParquetError::General(format!("leaf {leaf} is not of the column, or is nowhere")))?;
        let chunk = PulledChunk {
            source: self.file.source.clone(),
            end: range.end,
            step_bytes: self.step_bytes,
            held: Arc::default(),
        };
        let inner = pages_at(Arc::new(chunk), &self.file.metadata, self.piece, leaf, range)?;
        Ok(Box::new(OneChunk::of(Counted { inner, counts: counts.clone() })))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.file.metadata.row_group(self.piece.row_group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.file.metadata
    }
}

/// The bytes of a chunk, by their places in the file.
#[derive(Clone)]
struct PulledChunk {
    source: Arc<Source>,
    end: u64,
    step_bytes: usize,
    /// What was read last, and where it begins.
    held: Arc<Mutex<(u64, Bytes)>>,
}

impl PulledChunk {
    /// From `start` on so many bytes at least, or all that are left.
    fn at(&self, start: u64, bytes_min: usize) -> ParquetResult<Bytes> {
        let bytes_min = self.end.saturating_sub(start).min(bytes_min as u64) as usize;
        let mut held = self.held.lock();
        let before = start.checked_sub(held.0).and_then(|before| usize::try_from(before).ok());
        if let Some(before) = before
            && held.1.len() >= before + bytes_min
        {
            return Ok(held.1.slice(before..));
        }
        let end = self.end.min(start.saturating_add(bytes_min.max(self.step_bytes) as u64));
        // What is held is given back first.
        *held = (start, Bytes::new());
        let read = self.source.read_one_now(start..end);
        held.1 = read.map_err(|error| ParquetError::General(error.to_string()))?;
        Ok(held.1.clone())
    }
}

impl Length for PulledChunk {
    fn len(&self) -> u64 {
        self.end
    }
}

impl ChunkReader for PulledChunk {
    type T = PulledReader;

    fn get_read(&self, start: u64) -> ParquetResult<PulledReader> {
        Ok(PulledReader { chunk: self.clone(), at: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.at(start, length)?;
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!("a page of {length} bytes has only {}", bytes.len())));
        }
        Ok(bytes.slice(..length))
    }
}

/// Reads on from a place.
struct PulledReader {
    chunk: PulledChunk,
    at: u64,
}

impl Read for PulledReader {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.chunk.at(self.at, 1).map_err(std::io::Error::other)?;
        let length = bytes.len().min(out.len());
        out[..length].copy_from_slice(&bytes[..length]);
        self.at += length as u64;
        Ok(length)
    }
}

/// The pages of a chunk, which are counted.
struct Counted {
    inner: SerializedPageReader<PulledChunk>,
    counts: Arc<PulledBytes>,
}

impl Iterator for Counted {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Counted {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.inner.get_next_page()?;
        page.iter().for_each(|page| self.counts.saw(page));
        Ok(page)
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.inner.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.inner.at_record_boundary()
    }
}
