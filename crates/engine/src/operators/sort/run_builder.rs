//! One packet's part of a sort: collects rows, and makes a run of them whenever there are enough.

use std::sync::Arc;
use std::task::Waker;

use diligence_base::Result;

use super::Run;
use super::gather::{Pick, Text, concat_batches, gather, held_bytes, settle};
use super::keys::Keys;
use super::sink::Shared;
use crate::batch::Batch;
use crate::memory::{QueryMemory, Reservation};
use crate::pipeline::{Accept, Setup, SinkState};

/// Small batches are put together until there are so many of them, or so many of their rows: an array costs hundreds of
/// bytes and a step in every gather, however few rows it has.
const SMALL_BATCHES_MAX: usize = 64;
/// A batch with fewer rows is small.
const SMALL_BATCH_ROWS: usize = 1024;

/// A packet's rows that are not in a run yet, and its runs.
pub(super) struct RunBuilder {
    shared: Arc<Shared>,
    collected: Collected,
    keys: Keys,
    runs: Vec<Run>,
    memory: QueryMemory,
    reservation: Reservation,
    /// Bytes of `runs`; what else is reserved belongs to `collected` and `keys`.
    run_bytes: usize,
}

impl RunBuilder {
    pub fn new(shared: Arc<Shared>, setup: &Setup) -> Self {
        let keys = shared.encoder.empty();
        let memory = setup.memory.clone();
        let reservation = memory.reservation(shared.name());
        Self { shared, collected: Collected::default(), keys, runs: Vec::new(), memory, reservation, run_bytes: 0 }
    }

    /// Makes a run of the collected rows.
    fn close_run(&mut self) -> Result<()> {
        if self.keys.len() == 0 {
            return Ok(());
        }
        let shared = self.shared.clone();
        // For a moment rows are held twice, and beside them the entries that are sorted.
        let entry_bytes = self.keys.len() * size_of::<(u128, u64)>();
        self.reservation.grow(self.collected.bytes + self.keys.bytes() + entry_bytes)?;
        let keys = std::mem::replace(&mut self.keys, shared.encoder.empty());
        let order = keys.order(&shared.encoder);
        let payload = std::mem::take(&mut self.collected).in_order(&order, &shared)?;
        let run = Run { keys: keys.into_sorted(&order), payload };
        self.run_bytes += run.keys.bytes() + held_bytes(&run.payload)?;
        self.runs.push(run);
        self.reservation.resize(self.run_bytes)
    }
}

impl SinkState for RunBuilder {
    fn push(&mut self, batch: Batch, _waker: &Waker) -> Result<Accept> {
        let columns = self.shared.encoder.columns(&batch)?;
        // What a batch of text needs is known exactly only once it is settled; it is reserved before it is kept.
        let batch = settle(&batch, &self.shared.schema)?;
        self.reservation.grow(held_bytes(&batch)?)?;
        self.shared.encoder.append(&columns, batch.rows(), &mut self.keys)?;
        self.collected.push(batch, &self.shared)?;
        self.reservation.resize(self.run_bytes + self.collected.bytes + self.keys.bytes())?;
        if self.keys.len() >= self.shared.sizes.run_rows || self.collected.bytes >= self.shared.sizes.run_bytes {
            self.close_run()?;
        }
        Ok(Accept::More)
    }

    fn finish(&mut self, _waker: &Waker) -> Result<Accept> {
        self.close_run()?;
        let reservation = std::mem::replace(&mut self.reservation, self.memory.reservation(self.shared.name()));
        self.run_bytes = 0;
        self.shared.collect(std::mem::take(&mut self.runs), reservation)?;
        Ok(Accept::More)
    }
}

/// Payload in the order of arrival.
#[derive(Default)]
pub(super) struct Collected {
    blocks: Vec<Batch>,
    /// Small batches that will be one block.
    small: Vec<Batch>,
    small_rows: usize,
    bytes: usize,
}

impl Collected {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Blocks held, roughly.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Adds a settled batch behind the others.
    pub fn push(&mut self, batch: Batch, shared: &Shared) -> Result<()> {
        self.bytes += held_bytes(&batch)?;
        if batch.rows() >= SMALL_BATCH_ROWS {
            self.close_small(shared)?;
            self.blocks.push(batch);
            return Ok(());
        }
        self.small_rows += batch.rows();
        self.small.push(batch);
        if self.small.len() >= SMALL_BATCHES_MAX || self.small_rows >= SMALL_BATCH_ROWS {
            self.close_small(shared)?;
        }
        Ok(())
    }

    /// The rows in the given order, as one batch. Fewer rows than there are may be asked for.
    pub fn in_order(mut self, order: &[u32], shared: &Shared) -> Result<Batch> {
        self.close_small(shared)?;
        let places = self
            .blocks
            .iter()
            .enumerate()
            .flat_map(|(block, batch)| (0..batch.rows() as u32).map(move |row| Pick { block: block as u32, row }))
            .collect::<Vec<_>>();
        let picks = order.iter().map(|&row| places[row as usize]).collect::<Vec<_>>();
        gather(&self.blocks, &picks, Text::Copy, &shared.schema)
    }

    fn close_small(&mut self, shared: &Shared) -> Result<()> {
        if !self.small.is_empty() {
            let small = std::mem::take(&mut self.small);
            self.blocks.push(concat_batches(&small, &shared.schema)?);
            self.small_rows = 0;
        }
        Ok(())
    }
}
