//! The build side: packets keep chunks, the finishing parts make the table and the columns of them.
//!
//! While memory lasts, a packet keeps its batches as they come. When a reservation is refused, its own or that of what finishing
//! will need, the join is *partitioned*: from then on a packet keeps a store for each partition that is still in memory. What was kept
//! before is split chunk by chunk, last first, so that the memory of a chunk, and of its strings, is free before the next is
//! copied. Whenever memory is short, the partition that holds most goes to temp space (dynamic destaging); other packets notice
//! at their next batch.
//!
//! Invariants:
//! * Whoever has handed over its chunks has seen to it that what finishing them needs is reserved: finishing is never refused.
//! * A packet that waits for temp space holds at most one batch that is not reserved.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::{Error, ErrorKind, Result};

use super::assemble::{Assembling, Chunk, Filters, finishing_bytes};
use super::incoming::{AllIn, Incoming, Room};
use super::partitions::{Partitions, Side};
use super::rows::BuildRows;
use super::{Config, Shared};
use crate::batch::Batch;
use crate::memory::{QueryMemory, Reservation};
use crate::operators::runtime_filter::RuntimeFilter;
use crate::pipeline::{Accept, Setup, Sink, SinkState};
use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use crate::temp::{SpillBuffers, SpillMemory};

/// Clusters that a join reserves when it starts: two to read with, two to write with. With them it can do everything.
pub(super) const CLUSTERS_MIN: usize = 4;

/// The sink that builds.
pub(super) struct Build {
    config: Arc<Config>,
    shared: Arc<Shared>,
    filters: Vec<(Arc<RuntimeFilter>, usize)>,
    assembling: Mutex<Option<Arc<Assembling>>>,
    packets: AtomicUsize,
}

/// What finished packets have handed over.
#[derive(Default)]
pub(super) struct Gathered {
    /// Of packets that finished before the join was partitioned.
    unsplit: Vec<Incoming<Chunk>>,
    /// Of the others, with their partitions.
    stores: Vec<(usize, Incoming<Chunk>)>,
    /// For what finishing needs.
    finishing: Option<Reservation>,
}

impl Gathered {
    fn packets(&self) -> impl Iterator<Item = &Incoming<Chunk>> + Clone {
        self.unsplit.iter().chain(self.stores.iter().map(|(_, store)| store))
    }
}

impl Build {
    pub fn new(config: Arc<Config>, shared: Arc<Shared>, filters: Vec<(Arc<RuntimeFilter>, usize)>) -> Self {
        Self { config, shared, filters, assembling: Mutex::new(None), packets: AtomicUsize::new(1) }
    }

    /// The filters that the table fills: those of a build side that fits.
    fn filters(&self) -> &Filters {
        if self.shared.partitions.get().is_some() { &[] } else { &self.filters }
    }
}

impl Sink for Build {
    fn name(&self) -> &'static str {
        "HashJoinBuild"
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn SinkState>> {
        self.packets.fetch_max(setup.packets, Ordering::Relaxed);
        if let Some(temp) = &setup.temp {
            let mut buffers = self.shared.buffers.lock();
            if buffers.is_none() {
                let memory = SpillMemory { clusters_min: CLUSTERS_MIN, ..SpillMemory::default() };
                *buffers = Some(SpillBuffers::new(temp, setup.memory.reservation("HashJoin"), memory)?);
            }
        }
        Ok(Box::new(BuildState {
            incoming: Incoming::new(&self.config.stored, setup.memory.reservation("HashJoin")),
            stores: vec![],
            seen_spilled: 0,
            todo: VecDeque::new(),
            is_handed_over: false,
            owner: self.shared.next_owner(),
            memory: setup.memory.clone(),
            config: self.config.clone(),
            shared: self.shared.clone(),
        }))
    }

    fn parts(&self) -> Result<usize> {
        let gathered = std::mem::take(&mut *self.shared.gathered.lock());
        let is_partitioned = self.shared.partitions.get().is_some();
        let packets = gathered.unsplit.into_iter().chain(gathered.stores.into_iter().map(|(_, store)| store));
        let mut all = AllIn::new(packets, self.config.stored.len());
        if let (Some(all), Some(finishing)) = (&mut all.reservation, gathered.finishing) {
            all.absorb(finishing);
        }
        let packets = self.packets.load(Ordering::Relaxed);
        let assembling = Assembling::new(&self.config, all, self.filters(), packets, is_partitioned)?;
        let parts = assembling.tasks();
        *self.assembling.lock() = Some(Arc::new(assembling));
        Ok(parts)
    }

    fn part(&self, index: usize, setup: &Setup) -> Result<()> {
        let assembling = self.assembling.lock().clone();
        assembling
            .ok_or_else(|| Error::bug("a join's table was worked on before it was planned"))?
            .work(index, &setup.memory)
    }

    fn complete(&self) -> Result<()> {
        let assembling = self.assembling.lock().take().and_then(Arc::into_inner);
        let assembling = assembling.ok_or_else(|| Error::bug("a join's table was completed while worked on"))?;
        let is_complete = self.shared.partitions.get().is_none();
        if let Some(filters) = self.shared.filters.get() {
            filters.finish(&self.config, &self.filters)?;
        }
        let built = Arc::new(assembling.finish(self.filters(), is_complete, None)?);
        *self.shared.published.held.lock() = Some(built.held.clone());
        *self.shared.built.lock() = Some(built);
        Ok(())
    }
}

struct BuildState {
    config: Arc<Config>,
    shared: Arc<Shared>,
    /// Rows of all partitions.
    incoming: Incoming<Chunk>,
    /// Rows by partition; empty as long as the join is not partitioned.
    stores: Vec<Incoming<Chunk>>,
    /// How many partitions were spilled when it last looked.
    seen_spilled: usize,
    todo: VecDeque<Todo>,
    is_handed_over: bool,
    owner: u64,
    memory: QueryMemory,
}

/// What is to be done before the next batch is taken.
enum Todo {
    /// Rows of all partitions, with what is reserved for them.
    Split(BuildRows, Option<Reservation>),
    /// Rows of one partition.
    Place(usize, Batch, Option<Arc<Reservation>>),
    /// Rows of one partition that go to temp space.
    Write(usize, Batch, Option<Arc<Reservation>>),
}

impl SinkState for BuildState {
    fn push(&mut self, batch: Batch, waker: &Waker) -> Result<Accept> {
        let Some(rows) = self.config.build_rows(batch)? else { return Ok(Accept::More) };
        if self.shared.partitions.get().is_none() && !self.shared.gives_back.load(Ordering::Relaxed) {
            match self.incoming.make_room(rows.key_bytes(), &rows.columns) {
                Ok(room) => return keep(&mut self.incoming, room, rows).map(|()| Accept::More),
                Err(error) => self.partition(error)?,
            }
        }
        if self.shared.gives_back.load(Ordering::Relaxed) {
            self.begin_partitions().inspect(|partitions| partitions.spill_all());
        }
        self.todo.push_back(Todo::Split(rows, None));
        self.work(waker)
    }

    fn ready(&mut self, waker: &Waker) -> Result<Accept> {
        self.work(waker)
    }

    fn finish(&mut self, waker: &Waker) -> Result<Accept> {
        loop {
            if self.work(waker)? == Accept::Wait {
                return Ok(Accept::Wait);
            }
            let shared = self.shared.clone();
            let mut gathered = shared.gathered.lock();
            self.hand_over(&mut gathered);
            if let Some(partitions) = shared.partitions.get()
                && self.take_back(&mut gathered, partitions)
            {
                continue;
            }
            let Err(error) = self.reserve_finishing(&mut gathered) else { return Ok(Accept::More) };
            match shared.partitions.get() {
                None => {
                    drop(gathered);
                    self.begin_partitions().ok_or(error)?;
                }
                Some(partitions) => partitions.spill(partitions.largest_resident().ok_or(error)?),
            }
        }
    }
}

impl BuildState {
    /// What did not fit makes the join a partitioned one, if there is temp space.
    fn partition(&self, error: Error) -> Result<()> {
        if error.kind() != ErrorKind::Resource {
            return Err(error);
        }
        self.begin_partitions().map(|_| ()).ok_or(error)
    }

    /// All that the query has by now is about what it may have.
    fn begin_partitions(&self) -> Option<&Arc<Partitions>> {
        self.shared.partition(&self.config, self.memory.reserved_bytes(), Some(&self.shared.filter_keys))
    }

    /// Does what is to be done before the next batch is taken.
    fn work(&mut self, waker: &Waker) -> Result<Accept> {
        let Some(partitions) = self.shared.partitions.get().cloned() else { return Ok(Accept::More) };
        if self.stores.is_empty() {
            self.stores = (0..partitions.len()).map(|_| self.no_rows()).collect();
        }
        while let Some(todo) = self.next(&partitions) {
            match todo {
                Todo::Split(rows, reservation) => self.split(rows, reservation, &partitions)?,
                Todo::Place(partition, batch, reservation) => self.place(partition, batch, reservation, &partitions)?,
                Todo::Write(partition, batch, reservation) => {
                    match partitions.poll_write(Side::Build, partition, &batch, self.owner, waker) {
                        Poll::Ready(written) => written?,
                        Poll::Pending => {
                            self.todo.push_front(Todo::Write(partition, batch, reservation));
                            return Ok(Accept::Wait);
                        }
                    }
                }
            }
        }
        Ok(Accept::More)
    }

    fn no_rows(&self) -> Incoming<Chunk> {
        Incoming::new(&self.config.stored, self.incoming.sibling())
    }

    /// A write that was begun, then chunks that free memory, then rows that take it.
    fn next(&mut self, partitions: &Partitions) -> Option<Todo> {
        if !matches!(self.todo.front(), Some(Todo::Write(..)))
            && let Some(write) = self.next_destaged(partitions)
        {
            return Some(write);
        }
        if let Some(todo) = self.todo.pop_front() {
            return Some(todo);
        }
        let (chunk, columns, reservation) = self.incoming.pop(|chunk| chunk.rows)?;
        Some(Todo::Split(BuildRows::of_chunk(chunk, columns), Some(reservation)))
    }

    /// A chunk of a partition that was spilled meanwhile.
    fn next_destaged(&mut self, partitions: &Partitions) -> Option<Todo> {
        let spilled = partitions.spilled_times();
        if spilled == self.seen_spilled {
            return None;
        }
        for (partition, store) in self.stores.iter_mut().enumerate() {
            if partitions.is_spilled(partition)
                && let Some((chunk, columns, reservation)) = store.pop(|chunk| chunk.rows)
            {
                let batch = BuildRows::of_chunk(chunk, columns).into_spilled(&self.config);
                return Some(Todo::Write(partition, batch, Some(Arc::new(reservation))));
            }
        }
        self.seen_spilled = spilled;
        None
    }

    fn split(&mut self, rows: BuildRows, reservation: Option<Reservation>, partitions: &Partitions) -> Result<()> {
        let reservation = reservation.map(Arc::new);
        let hashes = rows.hashes();
        self.shared.filters.get().inspect(|filters| filters.add(&rows, &hashes));
        for (partition, batch) in partitions.split(&rows.into_spilled(&self.config), &hashes)? {
            partitions.belong(partition);
            self.todo.push_back(Todo::Place(partition, batch, reservation.clone()));
        }
        Ok(())
    }

    /// Keeps rows in memory, if their partition still is, or sees to it that they are written.
    fn place(
        &mut self,
        partition: usize,
        batch: Batch,
        reservation: Option<Arc<Reservation>>,
        partitions: &Partitions,
    ) -> Result<()> {
        if partitions.is_spilled(partition) {
            self.todo.push_front(Todo::Write(partition, batch, reservation));
            return Ok(());
        }
        let rows = self.config.unspilled(&batch)?;
        let store = &mut self.stores[partition];
        let before = store.bytes();
        match store.make_room(rows.key_bytes(), &rows.columns) {
            Ok(room) => {
                keep(store, room, rows)?;
                partitions.kept(partition, store.bytes() - before);
            }
            Err(error) if error.kind() == ErrorKind::Resource => {
                partitions.spill(partitions.largest_resident().unwrap_or(partition));
                self.todo.push_front(Todo::Place(partition, batch, reservation));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn hand_over(&mut self, gathered: &mut Gathered) {
        if std::mem::replace(&mut self.is_handed_over, true) {
            return;
        }
        let none = self.no_rows();
        gathered.unsplit.extend(Some(std::mem::replace(&mut self.incoming, none)).filter(|own| !own.is_empty()));
        for (partition, store) in std::mem::take(&mut self.stores).into_iter().enumerate() {
            if !store.is_empty() {
                gathered.stores.push((partition, store));
            }
        }
    }

    /// Takes back what does not belong into the table: chunks that are not split, and partitions that were spilled since.
    fn take_back(&mut self, gathered: &mut Gathered, partitions: &Partitions) -> bool {
        if let Some(incoming) = gathered.unsplit.pop() {
            self.incoming = incoming;
        } else if let Some(at) = gathered.stores.iter().position(|(partition, _)| partitions.is_spilled(*partition)) {
            let (partition, store) = gathered.stores.swap_remove(at);
            self.stores = (0..partitions.len()).map(|_| self.no_rows()).collect();
            self.stores[partition] = store;
            self.seen_spilled = 0;
        } else {
            return false;
        }
        self.is_handed_over = false;
        true
    }

    fn reserve_finishing(&self, gathered: &mut Gathered) -> Result<()> {
        let is_partitioned = self.shared.partitions.get().is_some();
        let bytes = finishing_bytes(&self.config, gathered.packets(), is_partitioned);
        gathered.finishing.get_or_insert_with(|| self.incoming.sibling()).resize(bytes)
    }
}

/// Keeps rows in memory that room was made for.
pub(super) fn keep(incoming: &mut Incoming<Chunk>, room: Room, rows: BuildRows) -> Result<()> {
    let BuildRows { rows, keys, valid, columns, matched } = rows;
    incoming.push(room, Chunk::new(keys, rows, valid, matched), rows, &columns)
}

/// Rows as spilled batches, partition by partition.
pub(super) fn split(rows: BuildRows, config: &Config, partitions: &Partitions) -> Result<Vec<(usize, Batch)>> {
    let hashes = rows.hashes();
    partitions.split(&rows.into_spilled(config), &hashes)
}
