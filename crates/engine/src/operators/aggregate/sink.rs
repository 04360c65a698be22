//! Where the packets' groups come together (Gamma's global aggregation), and what the source reads.
//!
//! Small tables are merged one into another. Large ones arrive as chunks sorted by partition; every piece of merging takes
//! some partitions of all chunks, so pieces share nothing and run on any workers at the same time.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use diligence_base::{Error, Result};

use super::group_table::{Chunk, GroupTable, PARTITIONS};
use super::key_decoding::KeyReader;
use super::local::{LocalGroups, Tuning};
use super::program::Program;
use super::states::State;
use crate::memory::{QueryMemory, Reservation};
use crate::pipeline::{Setup, Sink, SinkState};
use crate::sync::Mutex;

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
    handed: Mutex<Vec<Handed>>,
    merging: OnceLock<Merging>,
    finished: OnceLock<Vec<FinishedGroups>>,
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

/// Groups that can be read.
pub(super) struct FinishedGroups {
    pub keys: KeyReader,
    pub states: Vec<State>,
    pub groups: usize,
    _reservation: Reservation,
}

impl Shared {
    pub fn new(program: Arc<Program>, tuning: Tuning) -> Self {
        Self { program, tuning, handed: Mutex::default(), merging: OnceLock::new(), finished: OnceLock::new() }
    }

    pub fn hand_over(&self, handed: Handed) {
        self.handed.lock().push(handed);
    }

    /// All groups, after the sink is complete.
    pub fn finished(&self) -> Result<&[FinishedGroups]> {
        match self.finished.get() {
            Some(finished) => Ok(finished),
            None => Err(Error::bug("groups were read before they were complete")),
        }
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
        let one_piece = chunks.is_empty() && (tables.len() <= 1 || table_groups <= self.tuning.part_groups);
        if !one_piece && self.program.grouped {
            for (mut table, _reservation, memory) in tables.drain(..) {
                chunks.push((Arc::new(table.take_chunk(&memory)?), 0..PARTITIONS));
            }
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

    fn merge_part(&self, index: usize, memory: &QueryMemory) -> Result<FinishedGroups> {
        let Some(merging) = self.merging.get() else {
            return Err(Error::bug("groups were merged before they were all in"));
        };
        let partitions = merging.parts[index].clone();
        let chunks = merging.chunks.lock().clone();
        let mut tables = if index == 0 { std::mem::take(&mut *merging.tables.lock()) } else { Vec::new() };
        // The largest takes in the others.
        tables.sort_by_key(|(table, _)| std::cmp::Reverse(table.groups()));
        let mut tables = tables.into_iter();
        let (mut table, mut reservation) = match tables.next() {
            Some(first) => first,
            None => (GroupTable::new(self.program.clone())?, memory.reservation("Aggregate")),
        };
        let mut reserve = |bytes: usize| if bytes > reservation.bytes() { reservation.resize(bytes) } else { Ok(()) };
        for (mut other, _reservation) in tables {
            other.freeze(memory)?;
            table.merge_table(&other, &mut reserve)?;
        }
        for (chunk, counted) in chunks {
            let partitions = partitions.start.max(counted.start)..partitions.end.min(counted.end);
            table.merge_chunk(&chunk, partitions, &mut reserve)?;
        }
        if merging.parts.len() == 1 {
            table.add_empty_sets()?;
        }
        FinishedGroups::new(table, reservation)
    }
}

impl FinishedGroups {
    fn new(mut table: GroupTable, mut reservation: Reservation) -> Result<Self> {
        table.resize_states()?;
        let groups = table.groups();
        for state in &mut table.states {
            match state {
                State::Foreign(foreign) => foreign.finish()?,
                State::Distinct(distinct) => distinct.finish(),
                _ => {}
            }
        }
        table.keys.settle_text(|bytes| reservation.grow(bytes))?;
        let keys = KeyReader::new(table.keys.into_keys());
        let states = table.states;
        reservation.resize(keys.bytes() + states.iter().map(State::bytes).sum::<usize>())?;
        Ok(Self { keys, states, groups, _reservation: reservation })
    }
}

/// Groups rows and aggregates each group.
pub(super) struct AggregateSink(pub Arc<Shared>);

impl Sink for AggregateSink {
    fn name(&self) -> &'static str {
        "Aggregate"
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn SinkState>> {
        Ok(Box::new(LocalGroups::new(self.0.clone(), setup)?))
    }

    fn parts(&self) -> Result<usize> {
        let merging = self.0.plan_merging()?;
        let parts = merging.parts.len();
        self.0.merging.set(merging).map_err(|_| Error::bug("an aggregate was finished twice"))?;
        Ok(parts)
    }

    fn part(&self, index: usize, setup: &Setup) -> Result<()> {
        let finished = self.0.merge_part(index, &setup.memory)?;
        if let Some(merging) = self.0.merging.get() {
            *merging.results[index].lock() = Some(finished);
        }
        Ok(())
    }

    fn complete(&self) -> Result<()> {
        let Some(merging) = self.0.merging.get() else {
            return Err(Error::bug("an aggregate was completed before merging"));
        };
        merging.chunks.lock().clear();
        let finished = merging.results.iter().filter_map(|result| result.lock().take()).collect::<Vec<_>>();
        if finished.len() != merging.results.len() {
            return Err(Error::bug("an aggregate was completed before all pieces were merged"));
        }
        self.0.finished.set(finished).map_err(|_| Error::bug("an aggregate was completed twice"))
    }
}
