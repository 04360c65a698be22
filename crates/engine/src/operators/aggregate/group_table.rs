//! Groups with their states: what a packet builds, what is flushed, and what is merged.

use std::ops::Range;
use std::sync::Arc;

use diligence_base::Result;

use super::key_encoding::EncodedKeys;
use super::key_layout::hash_key;
use super::key_table::{KeyTable, Keys, MergedBytes, NoBytes, restride};
use super::program::Program;
use super::states::{Placement, State};
use crate::memory::{QueryMemory, Reservation};

/// Partitions that flushed groups are sorted into, by the upper bits of their hash. Few enough that a partition of a
/// flush is a run of some hundred groups, many enough that a partition of a billion groups fits into memory.
pub(super) const PARTITION_BITS: u32 = 8;
pub(super) const PARTITIONS: usize = 1 << PARTITION_BITS;

/// Groups that are merged at a time: their numbers stay in the L1 cache.
const MERGE_GROUPS: usize = 4096;

/// The partition of a key.
#[inline(always)]
pub(super) fn partition_of(hash: u64) -> usize {
    (hash >> (64 - PARTITION_BITS)) as usize
}

/// A hash table of groups and the states of each.
pub(super) struct GroupTable {
    pub program: Arc<Program>,
    pub keys: KeyTable,
    pub states: Vec<State>,
    /// True once groups may appear more than once.
    pub repeats: bool,
}

/// Groups that are not found by key any more, sorted by partition: waiting to be merged.
pub(super) struct Chunk {
    pub keys: Keys,
    pub states: Vec<State>,
    /// Where each partition starts; one entry more for the end.
    pub starts: Vec<u32>,
    /// Given back with the chunk.
    pub reservation: Reservation,
}

impl Chunk {
    /// Bytes held, long strings included.
    pub fn bytes(&self) -> usize {
        let shared = |state: &State| if let State::Distinct(distinct) = state { distinct.shared_bytes() } else { 0 };
        self.reservation.bytes() + self.keys.shared_bytes() + self.states.iter().map(shared).sum::<usize>()
    }

    /// The groups in these partitions.
    pub fn groups_in(&self, partitions: &Range<usize>) -> Range<usize> {
        if partitions.is_empty() {
            return 0..0;
        }
        self.starts[partitions.start] as usize..self.starts[partitions.end] as usize
    }
}

impl GroupTable {
    /// An empty table; without GROUP BY a table with the one group.
    pub fn new(program: Arc<Program>) -> Result<Self> {
        let keys = KeyTable::new(program.layout.clone());
        let states = program.states()?;
        Ok(Self { keys, states, repeats: false, program })
    }

    /// An empty table whose merges copy long strings: nothing of the tables merged into it is kept.
    pub fn copying(program: Arc<Program>) -> Result<Self> {
        let mut table = Self::new(program)?;
        table.keys.copy_text();
        for state in &mut table.states {
            if let State::Distinct(distinct) = state {
                distinct.copy_text();
            }
        }
        Ok(table)
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        if self.program.grouped { self.keys.groups() } else { 1 }
    }

    /// Finds or adds the groups of encoded keys.
    pub fn lookup(&mut self, keys: &mut EncodedKeys, ids: &mut Vec<u32>) -> Result<()> {
        self.fit(keys);
        match self.keys.layout.bytes_slots {
            0 => self.keys.lookup(&keys.words, keys.rows, &NoBytes, ids),
            _ => self.keys.lookup(&keys.words, keys.rows, keys, ids),
        }
    }

    /// Adds a group for each key without looking for it.
    pub fn append(&mut self, keys: &mut EncodedKeys, ids: &mut Vec<u32>) -> Result<()> {
        self.fit(keys);
        self.repeats = true;
        match self.keys.layout.bytes_slots {
            0 => self.keys.append(&keys.words, keys.rows, &NoBytes, ids),
            _ => self.keys.append(&keys.words, keys.rows, keys, ids),
        }
    }

    /// Table and keys get the same stride: the one that has room for every NULL so far.
    fn fit(&mut self, keys: &mut EncodedKeys) {
        if keys.stride > self.keys.keys.stride {
            self.keys.keys.widen(keys.stride);
        } else if keys.stride < self.keys.keys.stride {
            keys.words = restride(&keys.words, keys.stride, self.keys.keys.stride, keys.rows);
            keys.stride = self.keys.keys.stride;
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.keys.bytes() + self.states.iter().map(State::bytes).sum::<usize>()
    }

    /// Bytes that are held beside these while results are made.
    pub fn finishing_bytes(&self) -> usize {
        self.states.iter().map(|state| if let State::Foreign(foreign) = state { foreign.bytes() } else { 0 }).sum()
    }

    /// Bytes of long strings among them.
    fn text_bytes(&self) -> usize {
        let text = |state: &State| if let State::Distinct(distinct) = state { distinct.text_bytes() } else { 0 };
        self.keys.keys.text_bytes() + self.states.iter().map(text).sum::<usize>()
    }

    /// Bytes held at most after so many more rows, long strings and accumulators of DataFusion not included.
    pub fn bytes_ahead(&self, rows: usize) -> usize {
        if !self.program.grouped {
            return self.states.iter().map(|state| ahead(state, 1, rows)).sum();
        }
        // Vectors double when they are full.
        let groups = (self.groups() + rows).next_power_of_two();
        self.keys.bytes_ahead(rows) + self.states.iter().map(|state| ahead(state, groups, rows)).sum::<usize>()
    }

    /// Every state knows every group.
    pub fn resize_states(&mut self) -> Result<()> {
        let groups = self.groups();
        self.states.iter_mut().try_for_each(|state| state.resize(groups))
    }

    /// Takes all groups out, sorted by partition; the table is empty afterwards.
    pub fn take_chunk(&mut self, memory: &QueryMemory) -> Result<Chunk> {
        let mut reservation = memory.reservation("Aggregate");
        // The sorted copy is made beside the table, so for a moment both are held; but long strings stay where they are.
        reservation.grow(self.bytes().saturating_sub(self.text_bytes()))?;
        self.resize_states()?;
        self.repeats = false;
        let mut keys = self.keys.take_keys();
        let value_words = self.keys.layout.value_words;
        let mut starts = vec![0u32; PARTITIONS + 1];
        let partitions = (0..keys.groups)
            .map(|group| {
                let partition = partition_of(hash_key(keys.key(group), value_words));
                starts[partition + 1] += 1;
                partition as u8
            })
            .collect::<Vec<_>>();
        (0..PARTITIONS).for_each(|partition| starts[partition + 1] += starts[partition]);
        let mut next = starts.clone();
        let mut order = vec![0u32; keys.groups];
        for (group, &partition) in partitions.iter().enumerate() {
            let place = &mut next[partition as usize];
            order[*place as usize] = group as u32;
            *place += 1;
        }
        let states =
            self.states.iter_mut().map(|state| state.take_permuted(&order, memory)).collect::<Result<Vec<_>>>()?;
        if self.program.has_foreign {
            // Their accumulators are used up.
            self.states = self.program.states()?;
        }
        let sorted = keys.permuted(&order, memory);
        self.keys.recycle(keys);
        let keys = sorted;
        reservation.settle(keys.bytes() + states.iter().map(State::bytes).sum::<usize>());
        Ok(Chunk { keys, states, starts, reservation })
    }

    /// Takes DISTINCT's pairs out of the one group of no GROUP BY, as the states that have them; what stands elsewhere in these is
    /// nothing. `None` if there are no pairs.
    pub fn take_pairs(&mut self) -> Result<Option<Vec<State>>> {
        let mut taken = self.program.states()?;
        let mut any = false;
        for (state, taken) in self.states.iter_mut().zip(&mut taken) {
            if let State::Distinct(distinct) = state
                && distinct.pairs(0..1).0.groups > 0
            {
                any = true;
                std::mem::swap(state, taken);
            }
        }
        Ok(any.then_some(taken))
    }

    /// Nothing is added any more, and other tables may take from this one.
    pub fn freeze(&mut self, memory: &QueryMemory) -> Result<()> {
        self.resize_states()?;
        self.keys.keys.share(memory);
        self.states.iter_mut().try_for_each(|state| match state {
            State::Foreign(foreign) => foreign.freeze(),
            State::Distinct(distinct) => {
                distinct.freeze(memory);
                Ok(())
            }
            _ => Ok(()),
        })
    }

    /// Merges all groups of a frozen table. `reserve` is told how many bytes will be held before they are.
    pub fn merge_table(&mut self, other: &GroupTable, reserve: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        let groups = other.groups();
        if self.program.grouped {
            return self.merge(&other.keys.keys, &other.states, 0..groups, groups.max(1), reserve);
        }
        reserve(self.bytes() + self.pairs_ahead(&other.states, 0..1))?;
        let placement = Placement { ids: None, rows: 1, before: 1, groups: 1, appended: false };
        self.states.iter_mut().zip(&other.states).try_for_each(|(state, other)| state.merge(other, 0..1, placement))
    }

    /// Merges the partitions `partitions` of a chunk.
    pub fn merge_chunk(
        &mut self,
        chunk: &Chunk,
        partitions: Range<usize>,
        reserve: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        self.merge(&chunk.keys, &chunk.states, chunk.groups_in(&partitions), MERGE_GROUPS, reserve)
    }

    fn merge(
        &mut self,
        keys: &Keys,
        states: &[State],
        groups: Range<usize>,
        step: usize,
        reserve: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        self.keys.keys.widen(keys.stride);
        let base = self.keys.adopt_text(keys, groups.clone());
        let mut ids = Vec::new();
        let mut wide = Vec::new();
        let mut first = groups.start;
        while first < groups.end {
            let rows = step.min(groups.end - first);
            let text = if self.keys.copies_text() { self.keys.text_of(keys, first..first + rows) } else { 0 };
            reserve(self.bytes_ahead(rows) + text + self.pairs_ahead(states, first..first + rows))?;
            let mut words = &keys.words[first * keys.stride..(first + rows) * keys.stride];
            if keys.stride < self.keys.keys.stride {
                wide.clear();
                wide = restride(words, keys.stride, self.keys.keys.stride, rows);
                words = &wide;
            }
            let before = self.keys.groups();
            match self.keys.layout.bytes_slots {
                0 => self.keys.lookup(words, rows, &NoBytes, &mut ids)?,
                _ => self.keys.lookup(words, rows, &MergedBytes { keys, first, base }, &mut ids)?,
            }
            let placement = Placement { ids: Some(&ids), rows, before, groups: self.keys.groups(), appended: false };
            for (state, other) in self.states.iter_mut().zip(states) {
                state.merge(other, first..first + rows, placement)?;
            }
            first += rows;
            let rest = groups.end - first;
            if first == groups.start + rows && rest > 0 && (self.keys.groups() - before) * 4 > rows * 3 {
                // Most groups are new: the rest will be, too, and the table need not grow step by step.
                reserve(self.bytes_ahead(rest))?;
                self.keys.reserve(rest)?;
            }
        }
        Ok(())
    }

    /// Bytes that the pairs of DISTINCT of other states' groups can add at most.
    fn pairs_ahead(&self, others: &[State], groups: Range<usize>) -> usize {
        let ahead = |(state, other): (&State, &State)| match (state, other) {
            (State::Distinct(state), State::Distinct(other)) => state.merge_bytes_ahead(other, groups.clone()),
            _ => 0,
        };
        self.states.iter().zip(others).map(ahead).sum()
    }

    /// Adds the groups that exist without any row: the grand totals of grouping sets.
    pub fn add_empty_sets(&mut self) -> Result<()> {
        let program = self.program.clone();
        if !program.has_grouping_id || self.groups() > 0 {
            return Ok(());
        }
        let mut ids = Vec::new();
        let totals = program.sets.iter().filter(|set| set.masked.iter().all(|&masked| masked));
        for set in totals {
            let mut keys = EncodedKeys::default();
            keys.encode_set(&program.layout, &[], set, 1, 0)?;
            self.lookup(&mut keys, &mut ids)?;
        }
        self.resize_states()
    }
}

fn ahead(state: &State, groups: usize, rows: usize) -> usize {
    let groups = groups * state.bytes_per_group();
    match state {
        State::Distinct(distinct) => groups + distinct.bytes_ahead(rows),
        _ => groups.max(state.bytes()),
    }
}
