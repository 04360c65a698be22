//! A Parquet file that one thread writes, row group by row group, with checksums.
//!
//! The checksum of each column's part of each row group (CRC-32) is in the metadata, under [`CHECKSUMS_KEY`]. That of
//! the metadata, and of all else behind the last row group, is the file's [`Seal`], which lies elsewhere.

use std::io;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion_common::config::TableParquetOptions;
use diligence_base::{Error, Result};

use super::blocks::{Due, Outbox};
use super::row_groups::{DICTIONARIES_BYTES_MAX, ParquetOutput};
use crate::external::parquet::{CHECKSUMS_KEY, Seal};

/// A file that is written row group by row group.
pub(crate) struct EncodedFile {
    outbox: Outbox,
    output: ParquetOutput,
    ready: Vec<Bytes>,
    /// Bytes that have been encoded.
    end: u64,
    checksums: String,
}

impl EncodedFile {
    /// Fails with kind `Unsupported` if the format has no form for a column.
    pub fn new(schema: &SchemaRef, options: &TableParquetOptions) -> Result<Self> {
        let outbox = Outbox::default();
        let output = ParquetOutput::new(outbox.clone(), schema, options, DICTIONARIES_BYTES_MAX)?;
        Ok(Self { output, outbox, ready: Vec::new(), end: 0, checksums: String::new() })
    }

    /// Adds a row group of these rows.
    pub fn append(&mut self, rows: &[RecordBatch]) -> Result<()> {
        let mut row_group = self.output.row_group()?;
        rows.iter().try_for_each(|rows| row_group.write(rows))?;
        self.output.append(row_group.close()?)?;
        self.output.flush()?;
        let (start, blocks) = (self.end, self.outbox.take(Due::All));
        for range in self.output.last_chunks() {
            let mut checksum = crc32fast::Hasher::new();
            let mut offset = start;
            for block in &blocks {
                let within = |at: u64| (at.clamp(offset, offset + block.len() as u64) - offset) as usize;
                checksum.update(&block[within(range.start)..within(range.end)]);
                offset += block.len() as u64;
            }
            self.checksums += &format!("{:08x}", checksum.finalize());
        }
        self.end += blocks.iter().map(|block| block.len() as u64).sum::<u64>();
        self.ready.extend(blocks);
        Ok(())
    }

    /// Adds what comes behind the last row group.
    pub fn finish(&mut self) -> Result<Seal> {
        self.output.add_metadata(CHECKSUMS_KEY, std::mem::take(&mut self.checksums));
        self.output.finish()?;
        self.output.flush()?;
        let blocks = self.outbox.take(Due::All);
        let mut checksum = crc32fast::Hasher::new();
        blocks.iter().for_each(|block| checksum.update(block));
        let seal = Seal { start: self.end, checksum: checksum.finalize() };
        self.end += blocks.iter().map(|block| block.len() as u64).sum::<u64>();
        self.ready.extend(blocks);
        Ok(seal)
    }

    /// The bytes that were not taken yet, in order.
    pub fn take(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.ready)
    }
}

/// The error for a file that cannot be written; of a full disk, one that says what to do.
pub(crate) fn unwritable_file(path: &Path, error: &io::Error) -> Error {
    let said = Error::file(format!("{}: it cannot be written: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            said.with_code("53100").with_hint("make room on the disk; nothing was lost")
        }
        _ => said.with_code("58030"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringViewArray};

    use super::*;
    use crate::external::parquet::chunk_range;

    #[test]
    fn each_part_of_a_column_has_its_checksum() {
        let rows = |from: i64| {
            let texts = (from..from + 3).map(|value| format!("the value {value} as a text"));
            let columns: [(_, ArrayRef); 2] = [
                ("a", Arc::new(Int64Array::from_iter_values(from..from + 3))),
                ("b", Arc::new(StringViewArray::from_iter_values(texts))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let mut file = EncodedFile::new(&rows(0).schema(), &TableParquetOptions::default()).unwrap();
        file.append(&[rows(0)]).unwrap();
        file.append(&[rows(3), rows(6)]).unwrap();
        let seal = file.finish().unwrap();
        let bytes = file.take().concat();
        assert_eq!(crc32fast::hash(&bytes[seal.start as usize..]), seal.checksum);
        let metadata = parquet::file::metadata::ParquetMetaDataReader::new()
            .parse_and_finish(&Bytes::from(bytes.clone()))
            .unwrap();
        let said = metadata.file_metadata().key_value_metadata().unwrap();
        let said = said.iter().find(|pair| pair.key == CHECKSUMS_KEY).unwrap().value.clone().unwrap();
        let chunks = metadata.row_groups().iter().flat_map(|group| group.columns()).map(|chunk| {
            let range = chunk_range(chunk).unwrap();
            format!("{:08x}", crc32fast::hash(&bytes[range.start as usize..range.end as usize]))
        });
        assert_eq!(chunks.collect::<String>(), said);
    }
}
