//! A common part of a plan: its rows are computed once and read by each place of the plan that has it.
//!
//! ```text
//!   pipelines of the part --> CommonRows --> a CommonSource for each place --> what is above it there
//! ```
//!
//! Invariants:
//! * Nobody reads before all rows are there, so no reader waits for another.
//! * When the last place has read them, they are let go.
//! * Rows in memory stay there until then. Those of all parts of a plan have no more than a quarter of what the query
//!   may have, and parts that wait for their readers keep no buffers.

use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::{Error, Result};

use super::work_table::{Storage, TableWriter, WorkTable};
use crate::batch::Batch;
use crate::flow::profile::Spills;
use crate::flow::{Accept, Pull, QueryContext, Sink, SinkState, Source, SourceState};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::temp::BatchReader;

/// Parts that have as much memory each as a work table. If there are more, they have as much as so many together.
const LARGE_PARTS: usize = 4;

/// The name in `system.memory` and in errors.
const HOLDER: &str = "a common part of a plan";

/// The sink of a common part.
pub struct CommonRows(Arc<SharedPart>);

struct SharedPart {
    state: Mutex<CommonState>,
    /// Places that have not read all rows.
    places_left: AtomicUsize,
    /// Places at all.
    places: usize,
    /// Parts of the plan, this one among them.
    parts: usize,
    spills: Arc<Spills>,
}

enum CommonState {
    Filling {
        /// Made by the first packet.
        storage: Option<Storage>,
        /// What the packets have written.
        tables: Vec<WorkTable>,
    },
    Complete(Arc<PartRows>),
    /// All places have read them.
    Gone,
}

/// The rows, in no order.
struct PartRows {
    tables: Vec<WorkTable>,
    /// Where pieces are that can be read on their own: the table, and the batch or else the file.
    batches: Vec<(usize, usize)>,
    files: Vec<(usize, usize)>,
}

impl CommonRows {
    /// A sink of rows for so many places; the plan has so many parts.
    pub fn new(places: usize, parts: usize) -> Arc<Self> {
        let state = Mutex::new(CommonState::Filling { storage: None, tables: Vec::new() });
        let places_left = AtomicUsize::new(places);
        Arc::new(Self(Arc::new(SharedPart { state, places_left, places, parts, spills: Arc::default() })))
    }

    /// What one of the places reads.
    pub fn source(&self) -> Arc<CommonSource> {
        let reading =
            Arc::new(CommonPlace { shared: self.0.clone(), next: AtomicUsize::new(0), packets: AtomicUsize::new(0) });
        Arc::new(CommonSource(reading))
    }
}

impl Sink for CommonRows {
    fn name(&self) -> &'static str {
        "Common"
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SinkState>> {
        let CommonState::Filling { storage, .. } = &mut *self.0.state.lock() else {
            return Err(Error::bug("rows of a common part come late"));
        };
        // While it is written, each packet has a cluster to fill; then each place has two, one under the batch it works
        // on and the next.
        let clusters_min = (context.packets + 1).max(2 * self.0.places);
        let writers = context.packets * self.0.parts.div_ceil(LARGE_PARTS);
        let storage = storage.get_or_insert_with(|| Storage::new(context, HOLDER, clusters_min).of_writers(writers));
        let writer = TableWriter::new(storage);
        Ok(Box::new(Writing { shared: self.0.clone(), writer: Some(writer), pending: None }))
    }

    fn spills(&self) -> Option<Arc<Spills>> {
        Some(self.0.spills.clone())
    }

    fn complete(&self) -> Result<()> {
        let mut state = self.0.state.lock();
        let CommonState::Filling { tables, storage } = &mut *state else {
            return Err(Error::bug("a common part is complete twice"));
        };
        let (tables, storage) = (std::mem::take(tables), storage.take());
        let places = |count: fn(&WorkTable) -> usize| {
            let of = |(place, table)| (0..count(table)).map(move |piece| (place, piece));
            tables.iter().enumerate().flat_map(of).collect::<Vec<_>>()
        };
        let (batches, files) = (places(|table| table.batches().len()), places(|table| table.files().len()));
        files.iter().for_each(|&(table, file)| self.0.spills.add(1, tables[table].files()[file].file().bytes()));
        // It may be long until somebody reads them.
        storage.into_iter().for_each(|storage| storage.rest(!files.is_empty()));
        *state = CommonState::Complete(Arc::new(PartRows { tables, batches, files }));
        Ok(())
    }
}

/// One packet's rows.
struct Writing {
    shared: Arc<SharedPart>,
    /// Until the packet's rows have ended.
    writer: Option<TableWriter>,
    /// A batch for which the disk is too slow.
    pending: Option<Batch>,
}

impl SinkState for Writing {
    fn push(&mut self, batch: Batch, waker: &Waker) -> Result<Accept> {
        self.pending = Some(batch);
        self.ready(waker)
    }

    fn ready(&mut self, waker: &Waker) -> Result<Accept> {
        let (Some(batch), Some(writer)) = (&self.pending, &mut self.writer) else { return Ok(Accept::More) };
        match writer.poll_push(batch, waker)? {
            Poll::Pending => Ok(Accept::Wait),
            Poll::Ready(()) => {
                self.pending = None;
                Ok(Accept::More)
            }
        }
    }

    fn finish(&mut self, waker: &Waker) -> Result<Accept> {
        if self.ready(waker)? == Accept::Wait {
            return Ok(Accept::Wait);
        }
        let Some(writer) = self.writer.take() else { return Ok(Accept::More) };
        if writer.rows() > 0
            && let CommonState::Filling { tables, .. } = &mut *self.shared.state.lock()
        {
            tables.push(writer.finish());
        }
        Ok(Accept::More)
    }
}

/// The rows for one place of the plan.
pub struct CommonSource(Arc<CommonPlace>);

struct CommonPlace {
    shared: Arc<SharedPart>,
    /// The piece that is read next.
    next: AtomicUsize,
    /// Packets that read.
    packets: AtomicUsize,
}

impl CommonPlace {
    fn rows(&self) -> Option<Arc<PartRows>> {
        match &*self.shared.state.lock() {
            CommonState::Complete(rows) => Some(rows.clone()),
            CommonState::Filling { .. } | CommonState::Gone => None,
        }
    }
}

impl Source for CommonSource {
    fn name(&self) -> &'static str {
        "Common"
    }

    /// One if rows are in temp space: clusters are reserved for no more.
    fn packets_max(&self) -> usize {
        self.0.rows().map_or(0, |rows| if rows.files.is_empty() { rows.batches.len() } else { 1 })
    }

    fn open(&self, _setup: &QueryContext) -> Result<Box<dyn SourceState>> {
        let rows = self.0.rows().ok_or_else(|| Error::bug("a common part is read before it is there"))?;
        if let Some(&(table, _)) = rows.files.first() {
            rows.tables[table].storage().wake();
        }
        self.0.packets.fetch_add(1, Ordering::AcqRel);
        Ok(Box::new(CommonReading { rows: Some(rows), reader: None, place: self.0.clone() }))
    }
}

/// One packet that reads.
struct CommonReading {
    /// Until it is dropped.
    rows: Option<Arc<PartRows>>,
    reader: Option<BatchReader>,
    place: Arc<CommonPlace>,
}

impl SourceState for CommonReading {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        let Some(rows) = &self.rows else { return Ok(Pull::Done) };
        let Some(reader) = &mut self.reader else {
            let piece = self.place.next.fetch_add(1, Ordering::Relaxed);
            if let Some(&(table, batch)) = rows.batches.get(piece) {
                return Ok(Pull::Batch(rows.tables[table].batches()[batch].clone()));
            }
            let Some(&(table, file)) = rows.files.get(piece - rows.batches.len()) else { return Ok(Pull::Done) };
            self.reader = rows.tables[table].reader(file);
            return Ok(Pull::Again);
        };
        match reader.poll_next(waker) {
            Poll::Pending => Ok(Pull::Wait),
            Poll::Ready(Some(batch)) => Ok(Pull::Batch(batch?)),
            Poll::Ready(None) => {
                self.reader = None;
                Ok(Pull::Again)
            }
        }
    }
}

impl Drop for CommonReading {
    fn drop(&mut self) {
        (self.reader, self.rows) = (None, None);
        let is_last = |count: &AtomicUsize| count.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last(&self.place.packets) && is_last(&self.place.shared.places_left) {
            let rows = std::mem::replace(&mut *self.place.shared.state.lock(), CommonState::Gone);
            drop(rows);
        }
    }
}
