//! Makes the bytes of a segment's file, cluster by cluster.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use bytes::Bytes;
use diligence_base::{Error, Result};
use diligence_segment::{distinct, encode};

use super::bounds::GatheredBounds;
use super::layout::{self, CLUSTER_ROWS_MAX, ChunkEntry, ClusterEntry, Footer, HEAD_BYTES, padded};
use crate::external::Seal;
use crate::foreign_error::from_arrow;

/// A file that is written cluster by cluster.
#[derive(Debug)]
pub(super) struct PackedOutput {
    footer: Footer,
    gathered: Vec<GatheredBounds>,
    ready: Vec<Bytes>,
    /// Bytes that have been encoded.
    end: u64,
}

impl PackedOutput {
    pub fn new(schema: &SchemaRef) -> Self {
        let gathered = schema.fields().iter().map(|field| GatheredBounds::new(field.data_type())).collect();
        let footer = Footer { schema: schema.clone(), clusters: Vec::new(), bounds: Vec::new() };
        Self { footer, gathered, ready: vec![Bytes::copy_from_slice(&layout::head())], end: HEAD_BYTES }
    }

    /// Adds a cluster of these rows. Fails with kind `Unsupported` if the format has no form for a column.
    pub fn append(&mut self, rows: &[RecordBatch]) -> Result<()> {
        let count = rows.iter().map(RecordBatch::num_rows).sum::<usize>();
        if count > CLUSTER_ROWS_MAX {
            return Err(Error::bug(format!("a cluster of {count} rows is too large")));
        }
        let (mut chunks, mut cluster) = (Vec::with_capacity(self.gathered.len()), Vec::new());
        for (column, gathered) in self.gathered.iter_mut().enumerate() {
            let pieces = rows.iter().map(|rows| rows.column(column)).collect::<Vec<_>>();
            let array = match pieces.as_slice() {
                [one] => Arc::clone(one),
                pieces => concat(&pieces.iter().map(|piece| &***piece as &dyn Array).collect::<Vec<_>>())
                    .map_err(from_arrow)?,
            };
            gathered.add(&array)?;
            let mut bytes = encode(&array).map_err(|error| Error::unsupported(error.to_string()))?;
            let length = bytes.len() as u64;
            bytes.resize(padded(length) as usize, 0);
            chunks.push(ChunkEntry {
                start: self.end,
                bytes: length,
                checksum: crc32fast::hash(&bytes),
                nulls: array.logical_null_count() as u32,
                distinct: distinct(&array),
                bytes_in_memory: bytes_in_memory(&array) as u64,
            });
            self.end += bytes.len() as u64;
            cluster.extend_from_slice(&bytes);
        }
        self.ready.push(cluster.into());
        self.footer.clusters.push(ClusterEntry { rows: count, chunks });
        Ok(())
    }

    /// Adds what comes behind the last cluster.
    pub fn finish(&mut self) -> Result<Seal> {
        let gathered = std::mem::take(&mut self.gathered);
        self.footer.bounds = gathered.into_iter().map(GatheredBounds::finish).collect::<Result<_>>()?;
        let end = layout::end(&self.footer).map_err(from_arrow)?;
        let seal = Seal { start: self.end, checksum: crc32fast::hash(&end) };
        self.end += end.len() as u64;
        self.ready.push(end.into());
        Ok(seal)
    }

    /// The bytes that were not taken yet, in order.
    pub fn take(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.ready)
    }
}

/// Bytes of the values as a batch holds them.
fn bytes_in_memory(array: &ArrayRef) -> usize {
    let views = |used: usize| array.len() * 16 + used;
    match array.data_type() {
        DataType::Utf8View => views(array.as_string_view().total_buffer_bytes_used()),
        DataType::BinaryView => views(array.as_binary_view().total_buffer_bytes_used()),
        other => match other.primitive_width() {
            Some(width) => array.len() * width,
            None => array.to_data().get_slice_memory_size().unwrap_or(0),
        },
    }
}
