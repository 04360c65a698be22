//! The fetched bytes of column chunks, and Parquet's reader interfaces over them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::arrow::arrow_reader::RowGroups;
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::Piece;
use super::footer::chunk_range;

/// What a fetch brings: the bytes of the leaves that were asked for.
pub(super) struct ParquetBytes {
    pub leaves: HashMap<usize, ChunkBytes>,
}

/// The bytes of one column chunk, or of some of its pages.
#[derive(Clone, Debug, Default)]
pub(super) struct ChunkBytes {
    /// The dictionary page with its header, where the chunk was fetched in parts and has one.
    pub dictionary: Option<Bytes>,
    /// Data pages with their headers; the whole chunk with its dictionary if it was fetched whole.
    pub pages: Bytes,
    /// The row of the row group that the first data page begins with.
    pub first_row: usize,
    pub begins: ChunkBegins,
}

/// Where the parts of a chunk begin in the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkBegins {
    pub dictionary: u64,
    pub pages: u64,
}

impl ChunkBytes {
    /// From this place of the file to the end of the part that it lies in.
    fn from(&self, place: u64) -> Result<Bytes> {
        let part = match &self.dictionary {
            Some(dictionary) if place < self.begins.pages => (dictionary, self.begins.dictionary),
            _ => (&self.pages, self.begins.pages),
        };
        let start = place.checked_sub(part.1).and_then(|start| usize::try_from(start).ok());
        let start = start.filter(|start| *start <= part.0.len());
        let start =
            start.ok_or_else(|| ParquetError::EOF(format!("a page begins at byte {place}, out of its chunk")))?;
        Ok(part.0.slice(start..))
    }
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.begins.pages.saturating_add(self.pages.len() as u64)
    }
}

impl ChunkReader for ChunkBytes {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let rest = self.from(start)?;
        if rest.len() < length {
            return Err(ParquetError::EOF(format!("a page of {length} bytes has only {}", rest.len())));
        }
        Ok(rest.slice(..length))
    }
}

/// The pages of a chunk that lies at `range`: all of them, for a part of a row group by their places, so that those of
/// other rows are passed unread.
pub(super) fn pages_at<R: ChunkReader>(
    chunk: Arc<R>,
    metadata: &ParquetMetaData,
    piece: &Piece,
    leaf: usize,
    range: Range<u64>,
) -> Result<SerializedPageReader<R>> {
    let group = metadata.row_group(piece.row_group);
    let index = metadata.offset_index().filter(|_| !piece.whole);
    let index = index.and_then(|index| index.get(piece.row_group)?.get(leaf));
    // Some writers put wrong places of dictionaries; the first page is where the chunk begins.
    let meta = group.column(leaf).clone().into_builder();
    let meta = meta.set_dictionary_page_offset(None).set_data_page_offset(range.start as i64);
    let meta = meta.set_total_compressed_size((range.end - range.start) as i64).build()?;
    let places = index.map(|index| index.page_locations().clone());
    SerializedPageReader::new(chunk, &meta, piece.group_rows(metadata), places)
}

/// One row group as Parquet's Arrow reader wants it, of which the bytes of a piece were fetched.
pub(super) struct FetchedRowGroup<'a> {
    pub bytes: &'a ParquetBytes,
    pub metadata: &'a ParquetMetaData,
    pub piece: &'a Piece,
}

impl RowGroups for FetchedRowGroup<'_> {
    fn num_rows(&self) -> usize {
        self.piece.group_rows(self.metadata)
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        let chunk = self.bytes.leaves.get(&leaf);
        let range = chunk_range(self.metadata.row_group(self.piece.row_group).column(leaf));
        let (chunk, range) =
            chunk.zip(range).ok_or_else(|| ParquetError::General(format!("leaf {leaf} was not fetched")))?;
        Ok(Box::new(OneChunk::of(pages_at(Arc::new(chunk.clone()), self.metadata, self.piece, leaf, range)?)))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.piece.row_group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// The pages of a single chunk.
pub(super) struct OneChunk(Option<Box<dyn PageReader>>);

impl OneChunk {
    pub fn of(pages: impl PageReader + 'static) -> Self {
        Self(Some(Box::new(pages)))
    }
}

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}
