//! Rows that several queries read.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_memory::{QueryMemory, Reservation};

use crate::sync::Mutex;

/// The rows that a run has built, counted as long as anybody reads or keeps them.
pub(crate) struct SharedRows {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
    bytes: usize,
    memory: Mutex<Reservation>,
}

impl SharedRows {
    /// Rows that `memory` counts.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>, memory: Reservation) -> Self {
        Self { schema, batches, bytes: memory.bytes(), memory: Mutex::new(memory) }
    }

    /// Bytes that it is counted with.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Rows in it.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// It is kept, whatever becomes of the query that it was built for: another account counts it.
    pub fn belongs_to(&self, memory: &QueryMemory) {
        self.memory.lock().move_to(memory, "Shared states");
    }
}
