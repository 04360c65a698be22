//! Finished groups as batches. Packets take the next piece of any partition; nobody waits for anybody.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::{ArrayRef, RecordBatch};
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};

use super::key_encoding::into_type;
use super::sink::{FinishedGroups, Shared};
use crate::batch::Batch;
use crate::pipeline::{Pull, Setup, Source, SourceState};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Batches that a packet should have at least, to be worth starting.
const BATCHES_PER_PACKET: usize = 4;

/// Reads the groups of an aggregate.
pub(super) struct AggregateSource {
    shared: Arc<Shared>,
    next: Arc<AtomicUsize>,
}

impl AggregateSource {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, next: Arc::default() }
    }
}

impl Source for AggregateSource {
    fn name(&self) -> &'static str {
        "Groups"
    }

    fn packets_max(&self) -> usize {
        let groups = self.shared.finished().map_or(0, |parts| parts.iter().map(|part| part.groups).sum());
        groups.div_ceil(BATCH_ROWS_MAX * BATCHES_PER_PACKET).max(1)
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn SourceState>> {
        let finished = self.shared.finished()?;
        // The pieces of each part, numbered through.
        let batch_rows = setup.batch_rows.max(1);
        let mut starts = vec![0];
        let mut pieces = 0;
        for part in finished {
            pieces += part.groups.div_ceil(batch_rows);
            starts.push(pieces);
        }
        let (shared, next) = (self.shared.clone(), self.next.clone());
        Ok(Box::new(GroupReader { shared, next, starts, batch_rows }))
    }
}

/// One packet's view.
struct GroupReader {
    shared: Arc<Shared>,
    next: Arc<AtomicUsize>,
    starts: Vec<usize>,
    batch_rows: usize,
}

impl SourceState for GroupReader {
    fn pull(&mut self, _waker: &Waker) -> Result<Pull> {
        let piece = self.next.fetch_add(1, Ordering::Relaxed);
        let part = self.starts.partition_point(|&start| start <= piece) - 1;
        let finished = self.shared.finished()?;
        let Some(groups) = finished.get(part) else { return Ok(Pull::Done) };
        let first = (piece - self.starts[part]) * self.batch_rows;
        let mut rows = self.batch_rows.min(groups.groups - first);
        if let Some(limit) = self.shared.program.limit {
            let before = finished[..part].iter().map(|part| part.groups).sum::<usize>() + first;
            rows = rows.min(limit.saturating_sub(before));
            if rows == 0 {
                return Ok(Pull::Done);
            }
        }
        self.read(groups, first, rows).map(Pull::Batch)
    }
}

impl GroupReader {
    fn read(&self, groups: &FinishedGroups, first: usize, rows: usize) -> Result<Batch> {
        let program = &self.shared.program;
        let mut columns: Vec<ArrayRef> = match program.grouped {
            true => groups.keys.columns(&program.layout, first, rows)?,
            false => Vec::new(),
        };
        for output in &program.outputs {
            let field = program.output_schema.field(columns.len());
            columns.push(into_type(output.read(&groups.states, first..first + rows)?, field.data_type())?);
        }
        debug_assert!(fits(&columns, program), "an aggregate gave other types than planned");
        Ok(Batch::from_arrays(columns, rows))
    }
}

fn fits(columns: &[ArrayRef], program: &super::program::Program) -> bool {
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(columns.first().map_or(0, |c| c.len())));
    RecordBatch::try_new_with_options(program.output_schema.clone(), columns.to_vec(), &options)
        .map_err(|error| Error::bug(error.to_string()))
        .is_ok()
}
