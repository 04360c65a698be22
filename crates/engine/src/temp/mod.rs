//! Rows in spill files ([`diligence_disk`]).
//!
//! A batch becomes one or a few blocks ([`block`]), each within a cluster, so that a reader needs no more memory than
//! the cluster that it stands on and its arrays are that cluster: nothing is copied, unless the file is
//! [packed](packing). Only a block that is larger than a cluster, one row or one dictionary as a rule, is spread over
//! several, and put together again when it is read.
//!
//! What comes back is what was written, in its physical type: narrow forms stay narrow, dictionaries dictionaries,
//! views views. A dictionary keeps the values that its rows have; strings are laid side by side.

mod block;
#[cfg(test)]
mod fault_tests;
mod gathering;
mod held;
mod packing;
mod reader;
mod sizes;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::Arc;

use arrow::datatypes::DataType;
use diligence_base::limits::TEMP_READ_AHEAD_CLUSTERS;
use diligence_disk::{ReadOptions, SpillBuffers, SpillFile};

pub use gathering::GatheringReader;
pub use reader::BatchReader;
pub use writer::BatchWriter;

/// The physical types of a block's columns.
type Form = Arc<[DataType]>;

/// A spill file of rows. Clones are the same file.
#[derive(Clone, Debug)]
pub struct BatchFile {
    file: SpillFile,
    contents: Arc<Contents>,
}

/// What is known of a file's rows without reading them.
#[derive(Debug, Default)]
struct Contents {
    rows: u64,
    unpacked_bytes: u64,
    is_packed: bool,
    /// Blocks refer to these by number: physical types may differ from batch to batch.
    forms: Vec<Form>,
    /// Clusters in which a block begins, and the number of its first row in the file.
    starts: Vec<(usize, u64)>,
}

impl BatchFile {
    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.contents.rows
    }

    /// Bytes that its rows need in memory, about, however few they have in the file.
    pub fn unpacked_bytes(&self) -> u64 {
        self.contents.unpacked_bytes
    }

    /// The file under it.
    pub fn file(&self) -> &SpillFile {
        &self.file
    }

    /// The clusters in which a batch begins, ascending, each with the number of its first row.
    pub fn starts(&self) -> &[(usize, u64)] {
        &self.contents.starts
    }

    /// Reads all rows once, in their order, and frees each cluster when it is read.
    pub fn into_reader(self, buffers: &SpillBuffers) -> BatchReader {
        self.reader(buffers, ReadOptions { ahead: TEMP_READ_AHEAD_CLUSTERS, recycle: true })
    }

    /// Reads rows in their order, from the first one or from where [`BatchReader::seek`] says.
    pub fn reader(&self, buffers: &SpillBuffers, options: ReadOptions) -> BatchReader {
        let reader = self.file.reader(buffers, 0..self.file.clusters(), options);
        BatchReader::new(reader, self.contents.clone())
    }
}
