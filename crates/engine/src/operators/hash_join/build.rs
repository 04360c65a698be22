//! The build side: packets keep chunks, the finishing parts make the table and the columns of them.
//!
//! While memory lasts, a packet keeps its batches as they come. When a reservation is refused, its own or that of what
//! finishing will need, or when somebody else needs memory, the join is *partitioned*: from then on rows go to the
//! store of their partition, as long as that is in memory. What was kept before is split chunk by chunk, last first, so
//! that the memory of a chunk, and of its strings, is free before the next is copied. Whenever memory is short, the
//! partition that holds most goes to temp space (dynamic destaging), written by whichever packets come by.
//!
//! Invariants:
//! * The last packet to finish has seen to it that what finishing needs is reserved: finishing is never refused.
//! * A packet that waits for temp space holds at most one batch that is not reserved.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use diligence_base::{Error, ErrorKind, Result};
use diligence_disk::SpillBuffers;
use diligence_memory::{QueryMemory, Reclaim, Reservation};

use super::at_rest::TableAtRest;
use super::config::Config;
use super::shared::{AtRest, BUFFERS, CLUSTERS_MIN, Shared};
use super::spill::partitions::{Partitions, Side};
use super::spill::resident::{Kept, Resident};
use super::table::assemble::{Assembling, finishing_bytes};
use super::table::filters::Filters;
use super::table::finishing::FinishingBytes;
use super::table::incoming::{AllIn, Incoming};
use super::table::rows::BuildRows;
use crate::batch::Batch;
use crate::flow::{Accept, QueryContext, Sink, SinkState};
use crate::operators::runtime_filter::RuntimeFilter;
use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// What is done in a turn: the rows of a chunk or two by partition, some hundred rows at a step.
const STEPS_MAX: usize = 64;

/// The part of the memory that may be borrowed while chunks are split.
const BORROWED_SHARE: usize = 64;

/// The part of what its query can count on that a join has room for in any case, when partitions are made.
const ROOM_SHARE: usize = 16;

/// What a build side and its scan have for themselves while little memory is there: this part of what the query can
/// count on, and so many bytes at most.
const OWN_SHARE: usize = 16;
const OWN_BYTES_MAX: usize = 4 << 20;

/// The part of the partitions that is in temp space from the first, if memory was refused: what is split makes room for
/// the blocks and clusters of partitions, and more rows may come.
const SPILLED_SHARE: usize = 16;

/// The sink that builds.
pub(super) struct Build {
    config: Arc<Config>,
    shared: Arc<Shared>,
    filters: Vec<(Arc<RuntimeFilter>, usize)>,
    gathered: Arc<Mutex<Gathered>>,
    assembling: Mutex<Option<Arc<Assembling>>>,
    packets: AtomicUsize,
    at_rest: Arc<TableAtRest>,
    memory: OnceLock<QueryMemory>,
}

/// What finished packets have handed over.
#[derive(Default)]
struct Gathered {
    /// Packets that have not finished. The last one so far sees to what finishing needs: before, it is not known what
    /// others will free.
    open: usize,
    /// Of packets that finished before the join was partitioned.
    unsplit: Vec<Incoming>,
    /// For what finishing needs.
    finishing: Option<Reservation>,
    /// There was room for a compact table only.
    is_compact: bool,
}

impl Build {
    pub fn new(at_rest: Arc<TableAtRest>, filters: Vec<(Arc<RuntimeFilter>, usize)>) -> Self {
        let TableAtRest { config, shared } = &*at_rest;
        let (config, shared) = (config.clone(), shared.clone());
        let (assembling, packets) = (Mutex::new(None), AtomicUsize::new(1));
        Self {
            config,
            shared,
            filters,
            gathered: Arc::default(),
            assembling,
            packets,
            at_rest,
            memory: OnceLock::new(),
        }
    }

    /// The filters that the table fills: those of a build side that fits.
    fn filters(&self) -> &Filters {
        if self.shared.partitions.get().is_some() { &[] } else { &self.filters }
    }
}

impl Sink for Build {
    fn name(&self) -> &'static str {
        self.config.table.name
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SinkState>> {
        self.packets.fetch_max(context.packets, Ordering::Relaxed);
        self.memory.get_or_init(|| context.memory.clone());
        if let Some(temp) = &context.temp {
            let none = context.memory.reservation(self.config.table.name);
            let mut buffers = self.shared.buffers.lock();
            if buffers.is_none() {
                *buffers = match SpillBuffers::new(temp, none.sibling(), BUFFERS) {
                    // It may fit nevertheless.
                    Err(error) if error.kind() == ErrorKind::Resource => None,
                    made => Some(made?),
                };
            }
            self.shared.temp.lock().get_or_insert_with(|| (temp.clone(), none));
        }
        self.gathered.lock().open += 1;
        let reservation = match self.shared.can_spill() {
            true => context.memory.revocable(self.config.table.name),
            false => context.memory.reservation(self.config.table.name),
        };
        Ok(Box::new(BuildState {
            is_open: true,
            incoming: Incoming::new(&self.config.table, reservation)
                .with_finishing(FinishingBytes::new(&self.config.table)),
            todo: VecDeque::new(),
            owner: self.shared.next_owner(),
            borrowed: 0,
            chunk_bytes: 0,
            memory: context.memory.clone(),
            config: self.config.clone(),
            shared: self.shared.clone(),
            gathered: self.gathered.clone(),
        }))
    }

    fn bytes_min(&self, context: &QueryContext) -> usize {
        let own_bytes = (context.memory.share_bytes() / OWN_SHARE).min(OWN_BYTES_MAX);
        if context.temp.is_some() { own_bytes.max(self.bytes_at_rest(context)) } else { 0 }
    }

    fn bytes_at_rest(&self, context: &QueryContext) -> usize {
        context.temp.as_ref().map_or(0, |temp| CLUSTERS_MIN * temp.cluster_bytes())
    }

    fn parts(&self) -> Result<usize> {
        let gathered = std::mem::take(&mut *self.gathered.lock());
        debug_assert!(gathered.open == 0, "a join's table was planned before all of its rows were in");
        let is_compact = gathered.is_compact || self.shared.partitions.get().is_some();
        let resident = self.shared.resident.get().map_or(vec![], Resident::take_all);
        let mut all = AllIn::new(gathered.unsplit.into_iter().chain(resident), self.config.table.stored.len());
        if let (Some(all), Some(finishing)) = (&mut all.reservation, gathered.finishing) {
            all.absorb(finishing);
        }
        let packets = self.packets.load(Ordering::Relaxed);
        let assembling = Assembling::new(&self.config.table, all, self.filters(), packets, is_compact)?;
        let parts = assembling.tasks();
        *self.assembling.lock() = Some(Arc::new(assembling));
        Ok(parts)
    }

    fn part(&self, index: usize, context: &QueryContext) -> Result<()> {
        let assembling = self.assembling.lock().clone();
        assembling
            .ok_or_else(|| Error::bug("a join's table was worked on before it was planned"))?
            .work(index, &context.memory)
    }

    fn complete(&self) -> Result<()> {
        let assembling = self.assembling.lock().take().and_then(Arc::into_inner);
        let assembling = assembling.ok_or_else(|| Error::bug("a join's table was completed while worked on"))?;
        let is_complete = self.shared.partitions.get().is_none();
        if let Some(filters) = self.shared.filters.get() {
            filters.finish(&self.config.table, &self.filters)?;
        }
        if let Some(partitions) = self.shared.partitions.get() {
            // The probe side's rows want the memory.
            partitions.close_clusters();
            partitions.buffers.release_spare();
        }
        let built = Arc::new(assembling.finish(self.filters(), is_complete, None, Reservation::rest)?);
        *self.shared.published.held.lock() = Some(built.held.clone());
        *self.shared.at_rest.lock() = AtRest::Ready(built);
        if let Some(memory) = self.memory.get() {
            let at_rest: Arc<dyn Reclaim> = self.at_rest.clone();
            memory.keep_at_rest(&at_rest);
        }
        Ok(())
    }
}

struct BuildState {
    config: Arc<Config>,
    shared: Arc<Shared>,
    gathered: Arc<Mutex<Gathered>>,
    /// Rows of all partitions, from before the join was partitioned.
    incoming: Incoming,
    todo: VecDeque<Todo>,
    is_open: bool,
    owner: u64,
    /// Bytes that were kept without being granted, since what they were copied from is about to be free.
    borrowed: usize,
    /// Of the chunk that is being split: free when the next one is taken.
    chunk_bytes: usize,
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
        let Some(rows) = self.config.table.build_rows(batch)? else { return Ok(Accept::More) };
        if self.shared.partitions.get().is_none() {
            let gives_way = self.incoming.is_asked() && self.begin_partitions(usize::MAX).is_some();
            if !gives_way {
                match self.incoming.make_room(&rows) {
                    Ok(room) => {
                        self.shared.kept_bytes.fetch_add(room.bytes(), Ordering::Relaxed);
                        return self.incoming.push(room, rows).map(|()| Accept::More);
                    }
                    Err(error) => self.partition(error, 0)?,
                }
            }
        }
        self.todo.push_back(Todo::Split(rows, None));
        self.work(waker)
    }

    fn ready(&mut self, waker: &Waker) -> Result<Accept> {
        self.work(waker)
    }

    fn give_back(&mut self, waker: &Waker) -> Result<Accept> {
        if self.shared.partitions.get().is_none()
            && (!self.incoming.is_asked() || self.begin_partitions(usize::MAX).is_none())
        {
            return Ok(Accept::More);
        }
        self.work(waker)
    }

    fn finish(&mut self, waker: &Waker) -> Result<Accept> {
        loop {
            if self.work(waker)? == Accept::Wait {
                return Ok(Accept::Wait);
            }
            let shared = self.shared.clone();
            let gathered = self.gathered.clone();
            let mut gathered = gathered.lock();
            let none = Incoming::nothing(self.incoming.sibling());
            gathered.unsplit.extend(Some(std::mem::replace(&mut self.incoming, none)).filter(|own| !own.is_empty()));
            gathered.open -= usize::from(std::mem::take(&mut self.is_open));
            if gathered.open > 0 {
                return Ok(Accept::More);
            }
            let resident = shared.resident.get();
            if shared.partitions.get().is_some() && !gathered.unsplit.is_empty() {
                // From before the join was partitioned.
                continue;
            }
            let bytes = match resident {
                Some(resident) => resident.finishing_bytes(&self.config.table),
                None => finishing_bytes(&self.config.table, gathered.unsplit.iter(), false),
            };
            let Gathered { unsplit, finishing, is_compact, .. } = &mut *gathered;
            let finishing = finishing.get_or_insert_with(|| self.incoming.sibling());
            *is_compact = false;
            let Err(error) = finishing.resize(bytes) else { return Ok(Accept::More) };
            if resident.is_none() && finishing.resize(finishing_bytes(&self.config.table, unsplit.iter(), true)).is_ok()
            {
                *is_compact = true;
                return Ok(Accept::More);
            }
            drop(gathered);
            match (resident, shared.partitions.get()) {
                (Some(resident), Some(partitions)) if resident.spill_largest(partitions, 0) => {}
                (None, None) => self.partition(error, self.memory.limit_bytes())?,
                _ => {
                    // All is in temp space that can be: what is left is needed.
                    let mut gathered = self.gathered.lock();
                    let finishing = gathered.finishing.get_or_insert_with(|| self.incoming.sibling());
                    finishing.grow_firm(bytes.saturating_sub(finishing.bytes()))?;
                    return Ok(Accept::More);
                }
            }
        }
    }
}

impl BuildState {
    /// What did not fit makes the join a partitioned one, if there is temp space.
    fn partition(&self, error: Error, most_bytes: usize) -> Result<()> {
        if error.kind() != ErrorKind::Resource {
            return Err(error);
        }
        self.begin_partitions(most_bytes).map(|_| ()).ok_or(error)
    }

    /// All that the query has by now is about what it may have; or `most_bytes`, if that is more: `usize::MAX` if it
    /// has enough, and is only asked for some.
    fn begin_partitions(&self, most_bytes: usize) -> Option<&Arc<Partitions>> {
        let is_first = self.shared.partitions.get().is_none();
        let partitions = self.shared.partition(&self.config, self.room_bytes(), Some(&self.shared.filter_keys))?;
        if is_first {
            let bytes = self.memory.reserved_bytes();
            let resident = self.resident_partitions(partitions.len(), bytes, bytes.max(most_bytes));
            (resident..partitions.len()).for_each(|partition| partitions.spill(partition));
        }
        Some(partitions)
    }

    /// About what the join may have: what its packets have by now, for others of the query have the rest.
    fn room_bytes(&self) -> usize {
        let (all, share) = (self.memory.reserved_bytes(), self.memory.share_bytes());
        let buffers = self.shared.temp.lock().as_ref().map_or(0, |(temp, _)| CLUSTERS_MIN * temp.cluster_bytes());
        let own = self.shared.kept_bytes.load(Ordering::Relaxed) + buffers;
        own.min(all).max(share / ROOM_SHARE)
    }

    /// How many of so many partitions can stay in memory at most, with a table of their rows, if none came any more:
    /// with the others in temp space from the first, what is split into partitions makes room for their blocks and
    /// clusters. Without that each refusal would send another partition there that holds next to nothing yet.
    fn resident_partitions(&self, partitions: usize, bytes: usize, most_bytes: usize) -> usize {
        let gathered = self.gathered.lock();
        let known = gathered.unsplit.iter().chain([&self.incoming]);
        let own_bytes = known.clone().map(Incoming::bytes).sum::<usize>().max(1);
        let cutting_bytes: usize = known.clone().map(|incoming| incoming.cutting_bytes(partitions)).sum();
        let more_bytes = finishing_bytes(&self.config.table, known, true) + cutting_bytes;
        let wanted_bytes = bytes as f64 * (1.0 + more_bytes as f64 / own_bytes as f64);
        let resident = (partitions as f64 * most_bytes as f64 / wanted_bytes.max(1.0)) as usize;
        let spilled = if most_bytes == usize::MAX { 0 } else { partitions.div_ceil(SPILLED_SHARE) };
        resident.min(partitions - spilled).max(1)
    }

    /// Does what is to be done before the next batch is taken.
    fn work(&mut self, waker: &Waker) -> Result<Accept> {
        let shared = self.shared.clone();
        let Some(partitions) = shared.partitions.get() else { return Ok(Accept::More) };
        // Room for the blocks and clusters of partitions: memory was full. Whoever finishes last reserves anew what
        // finishing needs.
        self.incoming.release_finishing();
        let finishing = self.gathered.lock().finishing.take();
        drop(finishing);
        let new =
            || Resident::new(&self.config.table, partitions.len(), partitions.room_bytes, &self.incoming.sibling());
        let resident = shared.resident.get_or_init(new);
        let mut steps = 0;
        while let Some(todo) = self.next(partitions, resident) {
            steps += 1;
            if steps > STEPS_MAX {
                self.todo.push_front(todo);
                waker.wake_by_ref();
                return Ok(Accept::Wait);
            }
            match todo {
                Todo::Split(rows, reservation) => self.split(rows, reservation, partitions)?,
                Todo::Place(partition, batch, reservation) => {
                    self.place(partition, batch, reservation, partitions, resident)?;
                }
                Todo::Write(partition, batch, reservation) => {
                    match partitions.poll_write(Side::Build, partition, &batch, self.owner, waker) {
                        Poll::Ready(written) => {
                            // Before what it has reserved.
                            drop(batch);
                            written?;
                        }
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

    /// A write that was begun, then rows of spilled partitions, then chunks that free memory (also those of packets
    /// that have finished), then rows that take it.
    fn next(&mut self, partitions: &Partitions, resident: &Resident) -> Option<Todo> {
        if !matches!(self.todo.front(), Some(Todo::Write(..)))
            && let Some((partition, batch, reservation)) = self.next_spilled(partitions, resident)
        {
            return Some(Todo::Write(partition, batch, Some(Arc::new(reservation))));
        }
        if matches!(self.todo.front(), None | Some(Todo::Split(_, None))) {
            if self.incoming.is_empty()
                && let Some(incoming) = self.gathered.lock().unsplit.pop()
            {
                self.incoming = incoming;
                self.incoming.release_finishing();
            }
            if let Some((chunk, columns, reservation)) = self.incoming.pop() {
                return Some(Todo::Split(BuildRows::of_chunk(chunk, columns), Some(reservation)));
            }
        }
        self.todo.pop_front()
    }

    fn next_spilled(&self, partitions: &Partitions, resident: &Resident) -> Option<(usize, Batch, Reservation)> {
        resident.pop_spilled(&self.config.table, partitions).or_else(|| {
            // As long as rows are on their way into partitions, none of these is as large as it will be.
            let share = partitions.room_bytes / partitions.len() / 2;
            let is_asked = self.incoming.is_asked() && resident.spill_largest(partitions, share);
            if is_asked { resident.pop_spilled(&self.config.table, partitions) } else { None }
        })
    }

    fn split(&mut self, rows: BuildRows, reservation: Option<Reservation>, partitions: &Partitions) -> Result<()> {
        if let Some(reservation) = &reservation {
            // The chunk before is gone, and pays back what was borrowed for it, as far as it had that.
            self.borrowed = self.borrowed.saturating_sub(self.chunk_bytes);
            self.chunk_bytes = reservation.bytes();
        }
        let reservation = reservation.map(Arc::new);
        let hashes = self.config.table.hashes(&rows.keys, rows.rows);
        self.shared.filters.get().inspect(|filters| filters.add(&rows, &hashes));
        // Before whatever else there is: the rows that came last wait for chunks, and each chunk's rows are to be gone
        // before the next is split.
        for (partition, batch) in partitions.split(&rows.into_spilled(&self.config.table), &hashes)?.into_iter().rev() {
            partitions.belong(partition);
            self.todo.push_front(Todo::Place(partition, batch, reservation.clone()));
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
        resident: &Resident,
    ) -> Result<()> {
        if partitions.is_spilled(partition) {
            self.todo.push_front(Todo::Write(partition, batch, reservation));
            return Ok(());
        }
        // What the rows were copied from is free soon: their chunk, and the block that its strings are in.
        let mut soon_free = self.incoming.pinned_bytes() + reservation.as_ref().map_or(0, |chunk| chunk.bytes());
        if reservation.is_some() {
            // Of each chunk some rows go to temp space; until enough have, the partitions' first blocks are made of
            // nothing.
            soon_free = soon_free.max(partitions.room_bytes / BORROWED_SHARE);
        }
        let mut borrowed = 0;
        let rows = self.config.table.unspilled(&batch)?;
        let borrow_bytes = soon_free.saturating_sub(self.borrowed);
        match resident.keep(partition, rows, partitions, borrow_bytes, &mut borrowed)? {
            Kept::Yes if borrowed == 0 => self.borrowed = 0,
            Kept::Yes => self.borrowed += borrowed,
            Kept::Spilled => self.todo.push_front(Todo::Write(partition, batch, reservation)),
            Kept::Refused => {
                if !resident.spill_largest(partitions, 0) {
                    partitions.spill(partition);
                }
                self.todo.push_front(Todo::Place(partition, batch, reservation));
            }
        }
        Ok(())
    }
}
