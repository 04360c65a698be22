//! The rows of a result, kept for what a command makes of them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::Error;

use super::{Demand, ResultWriter, WriteError};

/// The most bytes that are kept. A result for a command is small; a large one is written with COPY.
const BYTES_MAX: usize = 256 << 20;

/// Keeps the rows of a result, up to 256 MiB.
pub struct Collected {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl Default for Collected {
    fn default() -> Self {
        Self { schema: Arc::new(Schema::empty()), batches: Vec::new(), bytes: 0 }
    }
}

impl Collected {
    /// All rows in one batch. Fails with kind `Bug` if the batches do not have the columns of the result.
    pub fn rows(&self) -> Result<RecordBatch, Error> {
        // A server tells the columns with the first rows.
        let schema = self.batches.first().map_or_else(|| self.schema.clone(), RecordBatch::schema);
        concat_batches(&schema, &self.batches).map_err(|error| Error::bug(error.to_string()))
    }
}

impl ResultWriter for Collected {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), WriteError> {
        self.schema = schema.clone();
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<Demand, WriteError> {
        self.bytes = self.bytes.saturating_add(batch.get_array_memory_size());
        if self.bytes > BYTES_MAX {
            let error =
                Error::resource("the result has more than 256 MiB, which is too much for a command of the shell");
            return Err(WriteError::Value(error.with_hint("LIMIT, or COPY … TO a file")));
        }
        self.batches.push(batch.clone());
        Ok(Demand::More)
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        Ok(())
    }

    fn is_silent(&self) -> bool {
        true
    }

    fn end(&mut self) -> Result<(), WriteError> {
        Ok(())
    }
}
