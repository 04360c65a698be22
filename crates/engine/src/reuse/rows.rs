//! Rows that several queries read.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_memory::{QueryMemory, Reservation};

use crate::batch::bytes_needed;
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

    /// The same rows in several states, each of which has some of their columns and rows, and counts them. What none
    /// has is counted no more.
    pub fn divided(self, states: Vec<(SchemaRef, Vec<RecordBatch>)>) -> Vec<Arc<Self>> {
        let mut memory = self.memory.into_inner();
        let own = |(schema, batches): (SchemaRef, Vec<RecordBatch>)| {
            let columns = batches.iter().flat_map(RecordBatch::columns);
            let bytes = columns.map(|column| bytes_needed(column)).sum::<usize>().min(memory.bytes());
            Arc::new(Self::new(schema, batches, memory.split(bytes)))
        };
        states.into_iter().map(own).collect()
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
