//! Takes rows out of a port, and gives them back with the functions' values.

use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use diligence_base::{Error, ErrorKind, Result};
use diligence_disk::TempSpace;
use diligence_memory::{QueryMemory, Reservation};

use super::buffer::PartitionBuffer;
use super::columns::{Columns, columns};
use super::rows::{Boundaries, Rows};
use super::turn::Turn;
use crate::batch::Batch;
use crate::exchange::port::Receiver;
use crate::flow::{Pull, QueryContext, Source, SourceState};
use crate::operators::widening::Widening;
use crate::plan::Window;
use crate::sync::Mutex;

/// A window in one run.
pub struct WindowSource {
    start: Mutex<Option<(Receiver, Functions)>>,
}

impl WindowSource {
    /// The window over the rows behind a port; `schema`: its output. Fails if DataFusion cannot make a function's
    /// state.
    pub fn new(window: &Window, schema: &SchemaRef, input: Receiver) -> Result<Arc<Self>> {
        let functions = Functions::new(window, schema)?;
        Ok(Arc::new(Self { start: Mutex::new(Some((input, functions))) }))
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

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        let start = self.start.lock().take();
        let (input, functions) = start.ok_or_else(|| Error::bug("a window has two readers"))?;
        let work = Work::new(functions, &context.memory, context.temp.clone());
        Ok(Box::new(WindowState { input, work, incoming: None }))
    }
}

struct WindowState {
    input: Receiver,
    work: Work,
    /// A batch that waits for memory.
    incoming: Option<Batch>,
}

impl SourceState for WindowState {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        if self.work.poll_give_back(waker)?.is_pending() {
            return Ok(Pull::Wait);
        }
        if let Some(batch) = self.incoming.take() {
            let pull = match self.work.poll_room(&batch, waker) {
                Poll::Ready(Ok(bytes)) => return self.work.push(&batch, bytes).map(|()| Pull::Again),
                // Whoever its rows come from, a sort for example, may have all of the memory and be asked for some.
                Poll::Ready(Err(error)) if error.kind() == ErrorKind::Resource => Pull::NoMemory(error),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => Pull::Wait,
            };
            self.incoming = Some(batch);
            return Ok(pull);
        }
        match self.work.poll_next(waker) {
            Poll::Ready(Err(error)) if self.work.is_refused => return Ok(Pull::NoMemory(error)),
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Ready(Ok(Some(batch))) => return Ok(Pull::Batch(batch)),
            Poll::Ready(Ok(None)) => {}
            Poll::Pending => return Ok(Pull::Wait),
        }
        if self.work.rows.is_closed() {
            return Ok(Pull::Done);
        }
        match self.input.receive(waker) {
            Poll::Pending => return Ok(Pull::Wait),
            Poll::Ready(Some(batch)) => self.incoming = Some(batch?).filter(|batch| batch.rows() > 0),
            Poll::Ready(None) => self.work.rows.close(),
        }
        Ok(Pull::Again)
    }
}

/// What is computed of the rows of a window.
pub(super) struct Functions {
    boundaries: Boundaries,
    columns: Vec<Columns>,
    /// The types of the columns that are added.
    types: Vec<DataType>,
}

/// A window at work, without its input.
pub(super) struct Work {
    boundaries: Boundaries,
    columns: Vec<Columns>,
    added: usize,
    rows: Rows,
    buffer: PartitionBuffer,
    /// Columns of the input that functions read after rows have come.
    inputs: Vec<usize>,
    /// Values of the rows that are about to go on, as far as they are known, and of how many columns they all are.
    values: Vec<Option<ArrayRef>>,
    known: usize,
    /// Rows that have gone on.
    given: u64,
    widening: Option<Widening>,
    /// Of where partitions and peers begin.
    starts: Reservation,
    /// Of what each of the columns holds.
    held: Vec<Reservation>,
    /// Whether the last [`poll_next`](Self::poll_next) was refused memory, and has changed nothing.
    is_refused: bool,
}

impl Functions {
    pub fn new(window: &Window, schema: &SchemaRef) -> Result<Self> {
        let inputs = window.input.schema.fields().len();
        if schema.fields().len() != inputs + window.calls.len() {
            return Err(Error::bug(format!("a window of {} functions was planned otherwise", window.calls.len())));
        }
        let types = schema.fields()[inputs..].iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        let columns = columns(&window.calls, &window.order_by, &types)?;
        let wants_peers = columns.iter().any(Columns::wants_peers);
        let order_by = wants_peers.then(|| window.order_by.iter().map(|key| key.expression.clone()).collect());
        Ok(Self { boundaries: Boundaries::new(window.partition_by.clone(), order_by), columns, types })
    }
}

impl Work {
    pub fn new(functions: Functions, memory: &QueryMemory, temp: Option<TempSpace>) -> Self {
        let Functions { boundaries, columns, types } = functions;
        let readers = columns.iter().map(Columns::readers).sum();
        let mut inputs = columns.iter().flat_map(Columns::inputs).collect::<Vec<_>>();
        inputs.sort_unstable();
        inputs.dedup();
        Self {
            boundaries,
            added: types.len(),
            rows: Rows::default(),
            buffer: PartitionBuffer::new(memory, temp, readers),
            inputs,
            values: vec![None; types.len()],
            known: 0,
            given: 0,
            widening: Widening::of(&types, memory.batch_bytes()),
            held: columns.iter().map(|_| memory.reservation("a window")).collect(),
            starts: memory.reservation("a window"),
            is_refused: false,
            columns,
        }
    }

    /// Takes a batch, which has rows. After `Pending`, call it again with the same batch when the waker was woken.
    #[cfg(test)]
    pub fn poll_push(&mut self, batch: &Batch, waker: &Waker) -> Poll<Result<()>> {
        let bytes = ready!(self.poll_room(batch, waker))?;
        Poll::Ready(self.push(batch, bytes))
    }

    /// Reserves what a batch takes, which has rows: so many bytes for itself, and what functions will hold. After
    /// `Pending`, or if memory is refused, it may be called again with the same batch.
    fn poll_room(&mut self, batch: &Batch, waker: &Waker) -> Poll<Result<usize>> {
        self.buffer.settle()?;
        while self.buffer.is_writing() {
            ready!(self.buffer.poll_spill(waker))?;
        }
        let bytes = batch.bytes();
        while let Err(refusal) = self.buffer.reserve(bytes) {
            if !ready!(self.buffer.poll_spill(waker))? {
                return Poll::Ready(Err(refusal));
            }
        }
        for (columns, held) in self.columns.iter().zip(&mut self.held) {
            let more = columns.bytes_of(batch);
            while let Err(refusal) = held.grow(more) {
                match self.buffer.poll_spill(waker) {
                    Poll::Ready(Ok(true)) => {}
                    other => {
                        self.buffer.unreserve(bytes);
                        self.settle();
                        return other.map(|spilled| spilled.and(Err(refusal)));
                    }
                }
            }
        }
        Poll::Ready(Ok(bytes))
    }

    /// Writes the oldest rows in memory to temp space; false if there are none that can go there.
    #[cfg(test)]
    pub fn poll_spill(&mut self, waker: &Waker) -> Poll<Result<bool>> {
        self.buffer.poll_spill(waker)
    }

    /// Writes rows while somebody else needs their memory, and the one that is half written.
    pub fn poll_give_back(&mut self, waker: &Waker) -> Poll<Result<()>> {
        while self.buffer.is_writing() || self.buffer.is_asked() {
            if !ready!(self.buffer.poll_spill(waker))? {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes a batch for which [`poll_room`](Self::poll_room) has reserved so many bytes.
    fn push(&mut self, batch: &Batch, bytes: usize) -> Result<()> {
        let batch = batch.flatten()?;
        let first = self.rows.arrived;
        let starts = self.boundaries.push(&batch, &mut self.rows)?;
        for columns in &mut self.columns {
            columns.push(&batch, first, &starts)?;
        }
        self.buffer.push(batch, bytes);
        self.settle();
        Ok(())
    }

    /// No batch comes any more.
    #[cfg(test)]
    pub fn close(&mut self) {
        self.rows.close();
    }

    /// The oldest rows with their new columns, if they are certain. After `Pending` the waker is woken when it is worth
    /// asking again.
    pub fn poll_next(&mut self, waker: &Waker) -> Poll<Result<Option<Batch>>> {
        self.is_refused = false;
        // What is in temp space is not read before it is of use.
        let is_stored = self.buffer.is_front_stored();
        if self.given == self.rows.arrived || is_stored && !ready!(self.poll_ready(None, self.given + 1, waker))? {
            return Poll::Ready(Ok(None));
        }
        let Some(rows) = ready!(self.buffer.poll_front(waker))? else {
            return Poll::Ready(Ok(None));
        };
        let count = self.widening.as_ref().map_or(rows, |widening| widening.rows().min(rows));
        let until = self.given + count as u64;
        let front = self.buffer.front(count);
        if !ready!(self.poll_ready(front.as_ref(), until, waker))? {
            return Poll::Ready(Ok(None));
        }
        while let Some(columns) = self.columns.get_mut(self.known) {
            let memory = &mut self.held[self.known];
            let mut turn =
                Turn { rows: &self.rows, buffer: &mut self.buffer, memory, is_refused: &mut self.is_refused, waker };
            ready!(columns.poll_take(&mut turn, until, count, &mut self.values))?;
            self.known += 1;
        }
        Poll::Ready(self.go_on(until, count).map(Some))
    }

    /// Whether the values of the rows before `until` are certain. Without the rows that go on next it is said only of
    /// those that can do without.
    fn poll_ready(&mut self, front: Option<&Batch>, until: u64, waker: &Waker) -> Poll<Result<bool>> {
        for (columns, memory) in self.columns.iter_mut().zip(&mut self.held) {
            match front {
                Some(front) => columns.look_at(front, self.given)?,
                None if columns.looks_at_rows() => continue,
                None => {}
            }
            let mut turn =
                Turn { rows: &self.rows, buffer: &mut self.buffer, memory, is_refused: &mut self.is_refused, waker };
            if !ready!(columns.poll_ready(&mut turn, until))? {
                return Poll::Ready(Ok(false));
            }
        }
        Poll::Ready(Ok(true))
    }

    /// Takes the oldest rows out, of which all values are known.
    fn go_on(&mut self, until: u64, count: usize) -> Result<Batch> {
        let batch = self.buffer.pop(count, &self.inputs).ok_or_else(|| Error::bug("a window lost its rows"))?;
        let values = std::mem::replace(&mut self.values, vec![None; self.added]);
        let values = values.into_iter().map(|values| values.ok_or_else(|| Error::bug("a window lost a column")));
        let values = Batch::from_arrays(values.collect::<Result<Vec<_>>>()?, count);
        if let Some(widening) = &mut self.widening {
            widening.note(count, values.bytes());
        }
        (self.given, self.known) = (until, 0);
        self.forget();
        self.settle();
        Ok(batch.beside(values))
    }

    /// Forgets rows, and where partitions and peers began, that nobody looks at any more.
    fn forget(&mut self) {
        let needed = self.columns.iter().map(Columns::needed).fold(self.given, u64::min);
        self.buffer.release_before(needed);
        let needed = self.columns.iter().map(Columns::forget);
        let (partition, peers) = needed.fold((u64::MAX, u64::MAX), |a, b| (a.0.min(b.0), a.1.min(b.1)));
        self.rows.partitions.forget_before(partition);
        self.rows.peers.forget_before(peers);
    }

    /// Reserves what columns hold, which was reserved before, about; and where partitions and peers begin, which is
    /// little for a batch: if it is too much, the next batch is refused.
    fn settle(&mut self) {
        for (columns, held) in self.columns.iter().zip(&mut self.held) {
            held.settle(columns.bytes());
        }
        self.starts.settle(self.rows.partitions.bytes() + self.rows.peers.bytes());
    }
}
