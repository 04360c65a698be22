//! The end of a shared run: its rows are kept, for readers that start when it has ended.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, ErrorKind, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;

use crate::batch::{Batch, bytes_needed, compacted};
use crate::flow::{Accept, QueryContext, Sink, SinkState};
use crate::operators::result::Outcome;
use crate::reuse::SharedRows;
use crate::sync::Mutex;

/// How a run ended.
pub(crate) enum Built {
    State(SharedRows),
    /// Its rows became too many to be kept.
    Outgrown,
    Failed(Error),
}

impl Built {
    /// Whether somebody has ended the run.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Failed(error) if error.kind() == ErrorKind::Cancelled)
    }
}

/// Is told how a run ended.
type OnBuilt = Box<dyn Fn(Built) + Send + Sync>;

/// The sink.
pub(crate) struct Spool {
    on_built: OnBuilt,
    kept: Arc<KeptRows>,
}

struct KeptRows {
    schema: SchemaRef,
    bytes_max: usize,
    rows: Mutex<Option<SpooledRows>>,
}

struct SpooledRows {
    batches: Vec<RecordBatch>,
    memory: Reservation,
}

impl Spool {
    /// A sink for rows of this schema, and at most so many bytes of them, which are counted in `memory`. When its run
    /// ends, it tells `on_built`.
    pub fn new(on_built: OnBuilt, schema: SchemaRef, bytes_max: usize, memory: Reservation) -> Arc<Self> {
        let rows = Mutex::new(Some(SpooledRows { batches: Vec::new(), memory }));
        Arc::new(Self { on_built, kept: Arc::new(KeptRows { schema, bytes_max, rows }) })
    }
}

impl Outcome for Spool {
    fn end(&self, error: Option<Error>) {
        let rows = self.kept.rows.lock().take();
        let built = match (error, rows) {
            (Some(error), _) => Built::Failed(error),
            (None, None) => Built::Outgrown,
            (None, Some(rows)) => Built::State(SharedRows::new(self.kept.schema.clone(), rows.batches, rows.memory)),
        };
        (self.on_built)(built);
    }
}

impl Sink for Spool {
    fn name(&self) -> &'static str {
        "Shared"
    }

    fn open(&self, _setup: &QueryContext) -> Result<Box<dyn SinkState>> {
        Ok(Box::new(Packet(self.kept.clone())))
    }
}

struct Packet(Arc<KeptRows>);

impl SinkState for Packet {
    fn push(&mut self, batch: Batch, _waker: &Waker) -> Result<Accept> {
        let batch = batch.to_record_batch(&self.0.schema)?;
        let bytes = batch.columns().iter().map(|column| bytes_needed(column)).sum();
        // What is kept must not keep other rows alive.
        let columns = batch.columns().iter().map(compacted).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options).map_err(from_arrow)?;
        let mut kept = self.0.rows.lock();
        let Some(rows) = kept.as_mut() else { return Ok(Accept::Enough) };
        if rows.memory.bytes() + bytes > self.0.bytes_max || rows.memory.grow(bytes).is_err() {
            *kept = None;
            return Ok(Accept::Enough);
        }
        rows.batches.push(batch);
        Ok(Accept::More)
    }
}
