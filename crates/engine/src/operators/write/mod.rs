//! Rows go to a place that takes them: files, or a table in memory.
//!
//! ```text
//!   packets ──▶ WriteSink, a part of the operation for each ──▶ I/O stage       all are done ──▶ Written: prepare,
//!                                                                                                commit, one row
//! ```
//!
//! The packets of a pipeline encode, each its own part ([`WritePart`](diligence_storage::WritePart)); what is encoded
//! goes to the I/O stage. When all have ended, the only packet of the pipeline behind has the operation prepared and
//! committed, on the I/O stage too, and gives the number of rows. So nothing is committed by whoever reads the result.
//!
//! **Memory.** What a part holds is revocable: if the query is asked for it, or refused more, the part turns all into
//! I/O, and takes no rows until that is done. A batch is always taken: nothing has to be in memory at once but one for
//! each packet.
//!
//! **End.** A query that fails or is cancelled drops the operation, and with it all that it has written; I/O that is
//! under way ends first.

mod ios;
mod sink;
#[cfg(test)]
mod tests;
mod written;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_storage::{WriteOperation, WriteRequest, Writer};

pub use self::sink::WriteSink;
pub use self::written::Written;
use crate::flow::QueryContext;
use crate::operators::scan::Io;
use crate::sync::Mutex;
use diligence_memory::Reservation;

/// What the sink and the pipeline behind it share.
struct SharedWrite {
    writer: Arc<dyn Writer>,
    schema: SchemaRef,
    io: Io,
    run: Mutex<Option<WriteRun>>,
}

/// An operation that has begun.
struct WriteRun {
    operation: Arc<dyn WriteOperation>,
    /// Of what belongs to no part.
    memory: Reservation,
}

impl SharedWrite {
    /// The operation, which begins with whoever needs it first.
    fn operation(&self, context: &QueryContext) -> Result<Arc<dyn WriteOperation>> {
        let mut run = self.run.lock();
        if let Some(run) = run.as_ref() {
            return Ok(run.operation.clone());
        }
        let request = WriteRequest { schema: self.schema.clone(), memory_bytes: context.memory.limit_bytes() };
        let operation = self.writer.begin(&request)?;
        let memory = context.memory.reservation("Write");
        Ok(run.insert(WriteRun { operation, memory }).operation.clone())
    }

    /// Counts what belongs to no part.
    fn settle(&self) {
        if let Some(run) = self.run.lock().as_mut() {
            let held_bytes = run.operation.held_bytes();
            run.memory.settle(held_bytes);
        }
    }

    /// Nobody else has the operation any more.
    fn end(&self) -> Option<WriteRun> {
        self.run.lock().take()
    }
}

/// The two halves: a sink for the rows, and the source of the row that says how many there were.
pub fn write(writer: Arc<dyn Writer>, schema: SchemaRef, io: Io) -> (Arc<WriteSink>, Arc<Written>) {
    let shared = Arc::new(SharedWrite { writer, schema, io, run: Mutex::default() });
    (Arc::new(WriteSink::new(shared.clone())), Arc::new(Written::new(shared)))
}

/// What a panic in I/O becomes.
fn panicked() -> Error {
    Error::bug("writing stopped with a panic")
}
