//! Takes rows out of a port, and gives them back with the functions' values.

use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};

use super::buffer::PartitionBuffer;
use super::columns::{Columns, columns};
use super::rows::{Boundaries, Rows};
use crate::batch::Batch;
use crate::exchange::port::Receiver;
use crate::memory::Reservation;
use crate::pipeline::{Pull, Setup, Source, SourceState};
use crate::plan::Window;
use crate::sync::Mutex;

/// A window in one run.
pub struct WindowSource {
    window: Window,
    schema: SchemaRef,
    input: Mutex<Option<Receiver>>,
}

impl WindowSource {
    /// The window over the rows behind a port; `schema`: its output.
    pub fn new(window: &Window, schema: &SchemaRef, input: Receiver) -> Arc<Self> {
        Arc::new(Self { window: window.clone(), schema: schema.clone(), input: Mutex::new(Some(input)) })
    }
}

impl Source for WindowSource {
    fn name(&self) -> &'static str {
        "Window"
    }

    /// One: rows keep their order.
    fn packets_max(&self) -> usize {
        1
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn SourceState>> {
        let input = self.input.lock().take().ok_or_else(|| Error::bug("a window has two readers"))?;
        let work = Work::new(&self.window, &self.schema, setup.memory.reservation("a window"))?;
        Ok(Box::new(State { input, work }))
    }
}

struct State {
    input: Receiver,
    work: Work,
}

impl SourceState for State {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        if let Some(batch) = self.work.next()? {
            return Ok(Pull::Batch(batch));
        }
        if self.work.rows.is_closed() {
            return Ok(Pull::Done);
        }
        match self.input.receive(waker) {
            Poll::Pending => return Ok(Pull::Wait),
            Poll::Ready(Some(batch)) => self.work.push(&batch?)?,
            Poll::Ready(None) => self.work.rows.close(),
        }
        Ok(Pull::Again)
    }
}

/// A window at work, without its input.
pub(super) struct Work {
    boundaries: Boundaries,
    rows: Rows,
    buffer: PartitionBuffer,
    columns: Vec<Columns>,
    added: usize,
    /// Rows that have gone on.
    given: u64,
    reservation: Reservation,
}

impl Work {
    pub fn new(window: &Window, schema: &SchemaRef, reservation: Reservation) -> Result<Self> {
        let inputs = window.input.schema.fields().len();
        if schema.fields().len() != inputs + window.calls.len() {
            return Err(Error::bug(format!("a window of {} functions was planned otherwise", window.calls.len())));
        }
        let types = schema.fields()[inputs..].iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        let columns = columns(&window.calls, &window.order_by, &types)?;
        let wants_peers = columns.iter().any(Columns::wants_peers);
        let order_by = wants_peers.then(|| window.order_by.iter().map(|key| key.expression.clone()).collect());
        Ok(Self {
            boundaries: Boundaries::new(window.partition_by.clone(), order_by),
            rows: Rows::default(),
            buffer: PartitionBuffer::default(),
            columns,
            added: window.calls.len(),
            given: 0,
            reservation,
        })
    }

    /// Takes a batch.
    pub fn push(&mut self, batch: &Batch) -> Result<()> {
        if batch.rows() == 0 {
            return Ok(());
        }
        self.buffer.settle()?;
        let batch_bytes = batch.bytes();
        let more = self.columns.iter().map(|columns| columns.bytes_of(batch.rows(), batch_bytes)).sum::<usize>();
        self.reservation.grow(batch_bytes + more)?;
        let batch = batch.flatten()?;
        let first = self.rows.arrived;
        let starts = self.boundaries.push(&batch, &mut self.rows)?;
        for columns in &mut self.columns {
            columns.push(&batch, first, &starts)?;
        }
        self.buffer.push(batch);
        self.reserve()
    }

    /// No batch comes any more.
    #[cfg(test)]
    pub fn close(&mut self) {
        self.rows.close();
    }

    /// The oldest batch with its new columns, if they are certain.
    pub fn next(&mut self) -> Result<Option<Batch>> {
        let Some(count) = self.buffer.front_rows() else { return Ok(None) };
        let until = self.given + count as u64;
        for columns in &mut self.columns {
            if !columns.is_ready(&self.rows, until)? {
                return Ok(None);
            }
        }
        let mut values = vec![None; self.added];
        for columns in &mut self.columns {
            columns.take(&self.rows, until, count, &mut values)?;
        }
        let values = values.into_iter().map(|values| values.ok_or_else(|| Error::bug("a window lost a column")));
        let values = Batch::from_arrays(values.collect::<Result<Vec<_>>>()?, count);
        let batch = self.buffer.pop().ok_or_else(|| Error::bug("a window lost its rows"))?;
        self.given = until;
        self.forget();
        self.reserve()?;
        Ok(Some(batch.beside(values)))
    }

    /// Forgets where partitions and peers began that nobody looks at any more.
    fn forget(&mut self) {
        let needed = self.columns.iter_mut().map(Columns::forget);
        let (partition, peers) = needed.fold((u64::MAX, u64::MAX), |a, b| (a.0.min(b.0), a.1.min(b.1)));
        self.rows.partitions.forget_before(partition);
        self.rows.peers.forget_before(peers);
    }

    /// Reserves what is held.
    fn reserve(&mut self) -> Result<()> {
        let columns = self.columns.iter().map(Columns::bytes).sum::<usize>();
        let starts = self.rows.partitions.bytes() + self.rows.peers.bytes();
        self.reservation.resize(self.buffer.bytes() + columns + starts)
    }
}
