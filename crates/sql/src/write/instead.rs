//! The writer of statements that change rows of a view with INSTEAD OF triggers: it writes nothing itself. Its rows
//! have the view's columns as they are, for UPDATE and DELETE, then as they are to be, for INSERT and UPDATE, and then
//! what RETURNING needs beside them.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use diligence_base::{Error, Result};
use diligence_engine::batch::{bytes_needed, compacted};
use diligence_memory::{QueryMemory, Reservation};
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::{PartIo, WriteIo, WriteOperation, WritePart, WriteRequest, Writer};
use parking_lot::Mutex;

use super::native::Returned;
use super::triggers::{Operation, Triggers};

/// Who holds the memory of rows that triggers get.
const HOLDER: &str = "rows of a view";

/// Has triggers do what a statement does with rows of a view.
#[derive(Debug)]
pub(crate) struct InsteadWriter {
    pub(crate) triggers: Arc<Triggers>,
    pub(crate) operation: Operation,
    pub(crate) memory: QueryMemory,
    pub(crate) returned: Arc<Returned>,
}

impl Writer for InsteadWriter {
    fn begin(&self, _request: &WriteRequest) -> Result<Arc<dyn WriteOperation>> {
        let Self { triggers, operation, memory, returned } = self;
        let rows = Mutex::new(Some((vec![], memory.reservation(HOLDER))));
        let (triggers, memory, returned) = (triggers.clone(), memory.clone(), returned.clone());
        Ok(Arc::new(InsteadOperation { triggers, operation: *operation, memory, returned, rows }))
    }

    fn is_undoable(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        format!("triggers of view {}", self.triggers.table.name)
    }
}

/// Rows, and what they are counted in.
type Kept = (Vec<RecordBatch>, Reservation);

/// One run of an [`InsteadWriter`].
struct InsteadOperation {
    triggers: Arc<Triggers>,
    operation: Operation,
    memory: QueryMemory,
    returned: Arc<Returned>,
    /// What the parts that have ended had; `None` once the triggers have run.
    rows: Mutex<Option<Kept>>,
}

impl InsteadOperation {
    fn run(&self) -> Result<u64> {
        let (batches, _memory) = self.rows.lock().take().ok_or_else(|| Error::bug("rows of a view come twice"))?;
        let (triggers, columns) = (&self.triggers, self.triggers.columns.len());
        triggers.before_statement()?;
        let (mut count, mut shown, mut beside) = (0, Vec::new(), Vec::new());
        for batch in &batches {
            let part =
                |first: usize, last: usize| batch.project(&(first..last).collect::<Vec<_>>()).map_err(from_arrow);
            let has_old = self.operation != Operation::Insert;
            let has_new = self.operation != Operation::Delete;
            let first_new = if has_old { columns } else { 0 };
            let behind = first_new + if has_new { columns } else { 0 };
            let old = if has_old { Some(part(0, columns)?) } else { None };
            let new = if has_new { Some(part(first_new, behind)?) } else { None };
            let (rows, kept) = triggers.instead(self.operation, old.as_ref(), new)?;
            count += kept.true_count() as u64;
            beside.push(filter_record_batch(&part(behind, batch.num_columns())?, &kept).map_err(from_arrow)?);
            shown.push(rows);
        }
        self.returned.give(triggers.given(&shown, beside)?);
        triggers
            .operations
            .iter()
            .try_for_each(|operation| triggers.after_statement(*operation, Default::default()))?;
        Ok(count)
    }
}

impl WriteOperation for InsteadOperation {
    fn part(self: Arc<Self>) -> Result<Box<dyn WritePart>> {
        let rows = Some((vec![], self.memory.reservation(HOLDER)));
        Ok(Box::new(InsteadPart { operation: self, rows }))
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn prepare(self: Arc<Self>) -> WriteIo<()> {
        WriteIo::Ready(Ok(()))
    }

    fn commit(self: Arc<Self>) -> WriteIo<u64> {
        WriteIo::Blocking(Box::new(move || self.run()))
    }
}

/// What one packet has.
struct InsteadPart {
    operation: Arc<InsteadOperation>,
    rows: Option<Kept>,
}

impl WritePart for InsteadPart {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let (batches, memory) = self.rows.as_mut().ok_or_else(|| Error::bug("rows come after their end"))?;
        memory.grow(batch.columns().iter().map(|column| bytes_needed(column)).sum())?;
        let columns = batch.columns().iter().map(compacted).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        batches.push(RecordBatch::try_new_with_options(batch.schema(), columns, &options).map_err(from_arrow)?);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn revoke(&mut self) -> Result<()> {
        Ok(())
    }

    fn next_io(&mut self) -> Option<PartIo> {
        None
    }

    fn finish(&mut self) -> Result<()> {
        if let (Some((batches, memory)), Some(all)) = (self.rows.take(), self.operation.rows.lock().as_mut()) {
            all.0.extend(batches);
            all.1.absorb(memory);
        }
        Ok(())
    }
}
