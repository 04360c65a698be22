//! The rows that have come and not gone on, in the order in which they came.

use std::collections::VecDeque;

use diligence_base::Result;

use crate::batch::{Batch, compacted};

/// Batches in a queue: those of the partition at work, and those behind it.
///
/// Only the oldest is ever looked at, and all columns of it at once. So what is here may as well wait on disk.
#[derive(Default)]
pub(super) struct PartitionBuffer {
    batches: VecDeque<Held>,
    bytes: usize,
}

struct Held {
    batch: Batch,
    bytes: usize,
    /// Whether it keeps nothing alive but its rows.
    is_compact: bool,
}

impl PartitionBuffer {
    /// Puts a batch behind the others. It is flat.
    pub fn push(&mut self, batch: Batch) {
        let bytes = batch.bytes();
        self.bytes += bytes;
        self.batches.push_back(Held { batch, bytes, is_compact: false });
    }

    /// Rows of the oldest batch.
    pub fn front_rows(&self) -> Option<usize> {
        self.batches.front().map(|held| held.batch.rows())
    }

    /// Takes the oldest batch out.
    pub fn pop(&mut self) -> Option<Batch> {
        let held = self.batches.pop_front()?;
        self.bytes -= held.bytes;
        Some(held.batch)
    }

    /// Makes the newest batch, which stays for a while, free of what others hold.
    pub fn settle(&mut self) -> Result<()> {
        if let Some(held) = self.batches.back_mut().filter(|held| !held.is_compact) {
            let columns = held.batch.columns().iter().map(|column| compacted(&column.flat()?));
            held.batch = Batch::from_arrays(columns.collect::<Result<Vec<_>>>()?, held.batch.rows());
            held.is_compact = true;
        }
        Ok(())
    }

    /// Bytes of all batches.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
