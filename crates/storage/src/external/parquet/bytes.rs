//! The fetched bytes of column chunks, and Parquet's reader interfaces over them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::arrow::arrow_reader::RowGroups;
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

/// What a fetch brings: the bytes of the leaves that were asked for.
pub(super) struct ParquetBytes {
    pub leaves: HashMap<usize, ChunkBytes>,
}

/// The bytes of one column chunk, or of some of its pages.
#[derive(Clone, Debug)]
pub(super) struct ChunkBytes {
    /// The dictionary page with its header, where the chunk was fetched in parts and has one.
    pub dictionary: Option<Bytes>,
    /// Data pages with their headers; the whole chunk with its dictionary if it was fetched whole.
    pub pages: Bytes,
    /// The row of the row group that the first data page begins with.
    pub first_row: usize,
}

impl ChunkBytes {
    /// Bytes held.
    pub fn len(&self) -> usize {
        self.pages.len() + self.dictionary.as_ref().map_or(0, Bytes::len)
    }

    /// Reads the pages in order: the dictionary, then the data pages.
    pub fn page_reader(&self, chunk: &ColumnChunkMetaData, rows: usize) -> Result<SerializedPageReader<ChunkBytes>> {
        // The reader takes offsets from the footer; here they count from the start of these bytes.
        let dictionary = self.dictionary.as_ref().map(|_| 0);
        let meta = chunk
            .clone()
            .into_builder()
            .set_dictionary_page_offset(dictionary)
            .set_data_page_offset(0)
            .set_total_compressed_size(self.len() as i64)
            .build()?;
        SerializedPageReader::new(Arc::new(self.clone()), &meta, rows, None)
    }

    /// From `start` to the end of the part that it lies in.
    fn from(&self, start: u64) -> Result<Bytes> {
        let beyond = || ParquetError::EOF(format!("a page begins at byte {start} of {}", self.len()));
        let start = usize::try_from(start).map_err(|_| beyond())?;
        let first = self.dictionary.as_ref().map_or(0, Bytes::len);
        match &self.dictionary {
            Some(dictionary) if start < first => Ok(dictionary.slice(start..)),
            _ if start - first <= self.pages.len() => Ok(self.pages.slice(start - first..)),
            _ => Err(beyond()),
        }
    }
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.len() as u64
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

/// One row group as Parquet's Arrow reader wants it.
pub(super) struct FetchedRowGroup<'a> {
    pub bytes: &'a ParquetBytes,
    pub metadata: &'a ParquetMetaData,
    pub row_group: usize,
    /// Rows from the first fetched row to the end of what was fetched.
    pub rows: usize,
}

impl RowGroups for FetchedRowGroup<'_> {
    fn num_rows(&self) -> usize {
        self.rows
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        let chunk = self.bytes.leaves.get(&leaf);
        let chunk = chunk.ok_or_else(|| ParquetError::General(format!("leaf {leaf} was not fetched")))?;
        let meta = self.metadata.row_group(self.row_group).column(leaf);
        let reader: Box<dyn PageReader> = Box::new(chunk.page_reader(meta, self.rows)?);
        Ok(Box::new(OneChunk(Some(reader))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.row_group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// The pages of a single chunk.
struct OneChunk(Option<Box<dyn PageReader>>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}
