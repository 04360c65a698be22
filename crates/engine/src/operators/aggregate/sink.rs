//! Where the packets' groups come together (Gamma's global aggregation), and what the source reads.
//!
//! Small tables are merged one into another. Large ones arrive as chunks sorted by partition; every piece of merging takes
//! some partitions of all chunks, so pieces share nothing and run on any workers at the same time.
//!
//! If groups are in temp space, or as far as there is no memory for merging, the source merges what is left (see
//! [`spill`](super::spill)), a partition at a time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use diligence_base::{Error, ErrorKind, Result};

use super::group_table::{Chunk, GroupTable, PARTITIONS};
use super::key_decoding::KeyReader;
use super::local::{Groups, LocalGroups, Tuning};
use super::program::Program;
use super::spill::Spill;
use super::spill::board::Board;
use super::spill::outgoing::Outgoing;
use super::states::State;
use crate::memory::{QueryMemory, Reservation};
use crate::pipeline::{Setup, Sink, SinkState};
use crate::query::profile::Spills;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What a packet leaves behind.
pub(super) enum Handed {
    Table(GroupTable, Reservation, QueryMemory),
    /// The partitions of a chunk that count.
    Chunk(Chunk, Range<usize>),
}

/// What the packets, the pieces of merging and the source have in common.
pub(super) struct Shared {
    pub program: Arc<Program>,
    pub tuning: Tuning,
    spills: Arc<Spills>,
    /// Of the first packet; those of the others are the same.
    setup: OnceLock<Setup>,
    /// Of the packets that are at work.
    groups: Mutex<Vec<Weak<Mutex<Groups>>>>,
    handed: Mutex<Vec<Handed>>,
    spill: OnceLock<Arc<Spill>>,
    spill_starts: Mutex<()>,
    has_spilled: AtomicBool,
    merging: OnceLock<Merging>,
    finished: OnceLock<Finished>,
}

/// The work of merging, once all packets are done.
struct Merging {
    /// Merged by the only piece.
    tables: Mutex<Vec<(GroupTable, Reservation)>>,
    /// Merged by partition, or none.
    chunks: Mutex<Vec<(Arc<Chunk>, Range<usize>)>>,
    parts: Vec<Range<usize>>,
    results: Vec<Mutex<Option<FinishedGroups>>>,
}

/// What the source reads.
pub(super) struct Finished {
    /// Groups that are there.
    pub parts: Vec<FinishedPart>,
    /// Work that is left.
    pub board: Option<Board>,
}

/// Groups that several packets read: given back when all of them have been.
pub(super) struct FinishedPart {
    pub groups: usize,
    read: AtomicUsize,
    finished: Mutex<Option<Arc<FinishedGroups>>>,
}

/// Groups that can be read.
pub(super) struct FinishedGroups {
    pub keys: KeyReader,
    pub states: Vec<State>,
    pub groups: usize,
    _reservation: Reservation,
}

impl Shared {
    pub fn new(program: Arc<Program>, tuning: Tuning) -> Self {
        Self {
            program,
            tuning,
            spills: Arc::default(),
            setup: OnceLock::new(),
            groups: Mutex::default(),
            handed: Mutex::default(),
            spill: OnceLock::new(),
            spill_starts: Mutex::default(),
            has_spilled: AtomicBool::new(false),
            merging: OnceLock::new(),
            finished: OnceLock::new(),
        }
    }

    /// A packet begins.
    pub fn register(&self, groups: &Arc<Mutex<Groups>>) {
        self.groups.lock().push(Arc::downgrade(groups));
    }

    pub fn hand_over(&self, handed: Handed) {
        self.handed.lock().push(handed);
    }

    /// What is there, after the sink is complete.
    pub fn finished(&self) -> Result<&Finished> {
        match self.finished.get() {
            Some(finished) => Ok(finished),
            None => Err(Error::bug("groups were read before they were complete")),
        }
    }

    /// Whether groups are in temp space, so that the source merges them.
    pub fn has_spilled(&self) -> bool {
        self.has_spilled.load(Ordering::Acquire)
    }

    /// Reserves what spilling needs before the aggregate holds much more than that: later there may be no memory for it.
    pub fn prepare_spill(&self, setup: &Setup, held_bytes: usize) -> Result<()> {
        match &setup.temp {
            Some(temp) if self.spill.get().is_none() && held_bytes > 2 * Spill::bytes_min(setup, temp) => {
                self.spill(setup, false).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// What spilling needs; `None` without temp space. If memory is refused and it `must` be, it is overdrawn.
    fn spill(&self, setup: &Setup, must: bool) -> Result<Option<&Arc<Spill>>> {
        let Some(temp) = &setup.temp else { return Ok(None) };
        let _starting = self.spill_starts.lock();
        if self.spill.get().is_none() {
            let mut reservation = setup.memory.reservation("Aggregate");
            let bytes = Spill::bytes_min(setup, temp);
            if reservation.grow(bytes).is_err() {
                if !must {
                    return Ok(None);
                }
                reservation.overdraw(bytes);
            }
            let spill = Spill::new(&self.program, setup, temp, reservation, &self.spills)?;
            self.spill.get_or_init(|| Arc::new(spill));
        }
        Ok(self.spill.get())
    }

    /// Whether groups are being written; then the waker is woken when some have been.
    pub fn is_spilling(&self, waker: &Waker) -> bool {
        self.spill.get().is_some_and(|spill| spill.is_underway(waker))
    }

    /// Takes out the groups of the packets that have ended, or else of the packet that holds most, to be written. `None` if nobody
    /// holds anything, or there is no temp space.
    pub fn evict(&self, setup: &Setup) -> Result<Option<VecDeque<Outgoing>>> {
        let Some(spill) = self.spill(setup, true)? else { return Ok(None) };
        let mut outgoing = VecDeque::new();
        if self.program.grouped {
            let handed = std::mem::take(&mut *self.handed.lock());
            outgoing = self.outgoing(spill, handed)?;
        } else {
            for handed in self.handed.lock().iter_mut() {
                if let Handed::Table(table, reservation, _) = handed
                    && let Some(states) = table.take_pairs()?
                {
                    let held = std::mem::replace(reservation, reservation.sibling());
                    reservation.settle(table.bytes());
                    outgoing.push_back(Outgoing::of_pairs(spill, states, held));
                }
            }
        }
        let working = self.groups.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        let held = working.iter().map(|groups| groups.lock().held_bytes()).collect::<Vec<_>>();
        let mut working = held.into_iter().zip(working).collect::<Vec<_>>();
        working.sort_by_key(|(bytes, _)| *bytes);
        let mut given_back = false;
        while outgoing.is_empty()
            && let Some((bytes, groups)) = working.pop()
        {
            if self.program.grouped {
                let handed = groups.lock().take_out(false)?;
                // A table that has just been flushed has memory, but no groups.
                given_back |= bytes > 0;
                outgoing = self.outgoing(spill, handed)?;
            } else if let Some((states, held)) = groups.lock().take_pairs()? {
                outgoing.push_back(Outgoing::of_pairs(spill, states, held));
            }
        }
        if !outgoing.is_empty() {
            self.has_spilled.store(true, Ordering::Release);
        }
        Ok((given_back || !outgoing.is_empty()).then_some(outgoing))
    }

    fn outgoing(&self, spill: &Arc<Spill>, handed: Vec<Handed>) -> Result<VecDeque<Outgoing>> {
        let outgoing = handed.into_iter().map(|handed| match handed {
            Handed::Table(table, reservation, _) => Outgoing::of_table(spill, table, reservation),
            Handed::Chunk(chunk, partitions) => Ok(Outgoing::of_chunk(spill, chunk, &[partitions])),
        });
        outgoing.collect()
    }

    fn plan_merging(&self) -> Result<Merging> {
        let (mut tables, mut chunks) = (Vec::new(), Vec::new());
        for handed in std::mem::take(&mut *self.handed.lock()) {
            match handed {
                Handed::Table(table, reservation, memory) => tables.push((table, reservation, memory)),
                Handed::Chunk(chunk, partitions) => chunks.push((Arc::new(chunk), partitions)),
            }
        }
        let table_groups = tables.iter().map(|(table, ..)| table.groups()).sum::<usize>();
        let repeats = tables.iter().any(|(table, ..)| table.repeats);
        let one_piece = chunks.is_empty() && !repeats && (tables.len() <= 1 || table_groups <= self.tuning.part_groups);
        if !one_piece && self.program.grouped {
            while let Some((mut table, reservation, memory)) = tables.pop() {
                match table.take_chunk(&memory) {
                    Ok(chunk) => chunks.push((Arc::new(chunk), 0..PARTITIONS)),
                    Err(error) if error.kind() == ErrorKind::Resource && self.has_temp() => {
                        // Everything as it was: the source will do it.
                        tables.push((table, reservation, memory));
                        self.has_spilled.store(true, Ordering::Release);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        if self.has_spilled() {
            let mut handed = self.handed.lock();
            handed.extend(
                tables.into_iter().map(|(table, reservation, memory)| Handed::Table(table, reservation, memory)),
            );
            for (chunk, partitions) in chunks {
                handed.push(Handed::Chunk(alone(chunk)?, partitions));
            }
            return Ok(Merging::nothing());
        }
        let parts = if chunks.is_empty() {
            vec![0..PARTITIONS]
        } else {
            let groups = chunks.iter().map(|(chunk, partitions)| chunk.groups_in(partitions).len()).sum::<usize>();
            let wanted = groups.div_ceil(self.tuning.part_groups.max(1)).next_power_of_two().min(PARTITIONS);
            let width = PARTITIONS / wanted;
            (0..wanted).map(|part| part * width..(part + 1) * width).collect()
        };
        let results = parts.iter().map(|_| Mutex::default()).collect();
        let tables = tables.into_iter().map(|(table, reservation, _)| (table, reservation)).collect();
        Ok(Merging { tables: Mutex::new(tables), chunks: Mutex::new(chunks), parts, results })
    }

    fn has_temp(&self) -> bool {
        self.setup.get().is_some_and(|setup| setup.temp.is_some())
    }

    fn merging(&self) -> Result<&Merging> {
        self.merging.get().ok_or_else(|| Error::bug("groups were merged before they were all in"))
    }

    /// Merges a part. If that fails for lack of memory, what it was to be made of is still there.
    fn merge_part(&self, index: usize, memory: &QueryMemory) -> Result<FinishedGroups> {
        let merging = self.merging()?;
        let partitions = merging.parts[index].clone();
        let chunks = merging.chunks.lock().clone();
        if chunks.is_empty() {
            return self.merge_tables(merging, memory);
        }
        let mut table = GroupTable::new(self.program.clone())?;
        let mut reservation = memory.reservation("Aggregate");
        let mut reserve = |bytes: usize| reservation.grow(bytes.saturating_sub(reservation.bytes()));
        for (chunk, counted) in chunks {
            let partitions = partitions.start.max(counted.start)..partitions.end.min(counted.end);
            table.merge_chunk(&chunk, partitions, &mut reserve)?;
        }
        reserve(table.bytes() + table.finishing_bytes())?;
        FinishedGroups::new(table, reservation)
    }

    fn merge_tables(&self, merging: &Merging, memory: &QueryMemory) -> Result<FinishedGroups> {
        let mut tables = std::mem::take(&mut *merging.tables.lock());
        // The largest takes in the others.
        tables.sort_by_key(|(table, _)| table.groups());
        let (mut table, mut reservation) = match tables.pop() {
            Some(first) => first,
            None => (GroupTable::new(self.program.clone())?, memory.reservation("Aggregate")),
        };
        let mut reserve = |bytes: usize| reservation.grow(bytes.saturating_sub(reservation.bytes()));
        let mut merged = Ok(());
        while merged.is_ok()
            && let Some((mut other, other_reservation)) = tables.pop()
        {
            other.freeze(memory)?;
            merged = table.merge_table(&other, &mut reserve);
            if merged.is_err() {
                tables.push((other, other_reservation));
            }
        }
        if merged.is_ok() {
            table.add_empty_sets()?;
            merged = reserve(table.bytes() + table.finishing_bytes());
        }
        if let Err(error) = merged {
            tables.push((table, reservation));
            *merging.tables.lock() = tables;
            return Err(error);
        }
        FinishedGroups::new(table, reservation)
    }

    /// The parts that have been merged, and the work that is left.
    fn finish(&self) -> Result<Finished> {
        let merging = self.merging()?;
        let mut handed = std::mem::take(&mut *self.handed.lock());
        let tables = std::mem::take(&mut *merging.tables.lock());
        if let Some(setup) = self.setup.get() {
            let memory = &setup.memory;
            handed.extend(tables.into_iter().map(|(table, held)| Handed::Table(table, held, memory.clone())));
        }
        let mut parts = Vec::new();
        let mut left = Vec::new();
        for (result, partitions) in merging.results.iter().zip(&merging.parts) {
            match result.lock().take() {
                Some(finished) => parts.push(FinishedPart::new(finished)),
                None => left.push(partitions.clone()),
            }
        }
        let chunks = std::mem::take(&mut *merging.chunks.lock());
        if !self.has_spilled() && handed.is_empty() && left.is_empty() {
            return Ok(Finished { parts, board: None });
        }
        let setup = self.setup.get().ok_or_else(|| Error::bug("groups of no packet"))?;
        let spill = self.spill(setup, true)?.ok_or_else(|| Error::bug("parts are left without temp space"))?;
        let mut rest = self.outgoing(spill, handed)?;
        for (chunk, counted) in chunks.into_iter().filter(|_| !left.is_empty()) {
            let counting = left.iter().map(|part| part.start.max(counted.start)..part.end.min(counted.end));
            let counting = counting.filter(|part| !part.is_empty()).collect::<Vec<_>>();
            rest.push_back(Outgoing::of_chunk(spill, alone(chunk)?, &counting));
        }
        Ok(Finished { parts, board: Some(Board::new(spill, rest)) })
    }
}

/// A chunk that nobody shares any more.
fn alone(chunk: Arc<Chunk>) -> Result<Chunk> {
    Arc::try_unwrap(chunk).map_err(|_| Error::bug("a chunk is still being merged"))
}

impl Merging {
    fn nothing() -> Self {
        Self { tables: Mutex::default(), chunks: Mutex::default(), parts: Vec::new(), results: Vec::new() }
    }
}

impl FinishedPart {
    fn new(finished: FinishedGroups) -> Self {
        let groups = finished.groups;
        Self { groups, read: AtomicUsize::new(0), finished: Mutex::new(Some(Arc::new(finished))) }
    }

    /// The groups, for reading so many of them.
    pub fn get(&self) -> Result<Arc<FinishedGroups>> {
        self.finished.lock().clone().ok_or_else(|| Error::bug("groups were read twice"))
    }

    /// So many groups have been read.
    pub fn done(&self, groups: usize) {
        if self.read.fetch_add(groups, Ordering::AcqRel) + groups >= self.groups {
            let finished = self.finished.lock().take();
            drop(finished);
        }
    }
}

impl FinishedGroups {
    /// Makes the groups of a table readable. What accumulators need for that has been reserved.
    pub fn new(mut table: GroupTable, mut reservation: Reservation) -> Result<Self> {
        table.resize_states()?;
        let groups = table.groups();
        for state in &mut table.states {
            match state {
                State::Foreign(foreign) => foreign.finish()?,
                State::Distinct(distinct) => distinct.finish(),
                _ => {}
            }
        }
        table.keys.settle_text(|bytes| reservation.grow(bytes));
        let keys = KeyReader::new(table.keys.into_keys());
        let states = table.states;
        reservation.settle(keys.bytes() + states.iter().map(State::bytes).sum::<usize>());
        Ok(Self { keys, states, groups, _reservation: reservation })
    }
}

/// Groups rows and aggregates each group.
pub(super) struct AggregateSink(pub Arc<Shared>);

impl Sink for AggregateSink {
    fn name(&self) -> &'static str {
        "Aggregate"
    }

    fn spills(&self) -> Option<Arc<Spills>> {
        Some(self.0.spills.clone())
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn SinkState>> {
        self.0.setup.get_or_init(|| setup.clone());
        Ok(Box::new(LocalGroups::new(self.0.clone(), setup)?))
    }

    fn parts(&self) -> Result<usize> {
        let merging = match self.0.has_spilled() {
            true => Merging::nothing(),
            false => self.0.plan_merging()?,
        };
        let parts = merging.parts.len();
        self.0.merging.set(merging).map_err(|_| Error::bug("an aggregate was finished twice"))?;
        Ok(parts)
    }

    fn part(&self, index: usize, setup: &Setup) -> Result<()> {
        match self.0.merge_part(index, &setup.memory) {
            Ok(finished) => *self.0.merging()?.results[index].lock() = Some(finished),
            // The source will do it.
            Err(error) if error.kind() == ErrorKind::Resource && setup.temp.is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn complete(&self) -> Result<()> {
        let finished = self.0.finish()?;
        self.0.finished.set(finished).map_err(|_| Error::bug("an aggregate was completed twice"))
    }
}
