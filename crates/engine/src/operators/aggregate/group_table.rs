//! Groups with their states: what a packet builds, what is flushed, and what is merged.

use std::ops::Range;
use std::sync::Arc;

use diligence_base::Result;
use diligence_memory::Reservation;

use super::key_encoding::EncodedKeys;
use super::key_layout::hash_key;
use super::key_table::{KeyTable, Keys, MergedBytes, NoBytes, restride};
use super::program::Program;
use super::states::{Placement, State};

/// Partitions that flushed groups are sorted into, by the upper bits of their hash. Few enough that a partition of a
/// flush is a run of some hundred groups, many enough that a partition of a billion groups fits into memory.
pub(super) const PARTITION_BITS: u32 = 8;
pub(super) const PARTITIONS: usize = 1 << PARTITION_BITS;

/// What a chunk is counted with beyond its arrays, as the divisor: the allocator keeps arrays of several pieces in a
/// page, which is free only when all of them are, and has blocks of some sizes only.
const CHUNK_REST_DIVISOR: usize = 4;

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

/// Groups that are not found by key any more, sorted by partition: waiting to be merged. It holds all that it needs, so
/// that its memory is free when it goes.
pub(super) struct Chunk {
    pub keys: Keys,
    pub states: Vec<State>,
    /// The partitions that its groups may be in.
    pub partitions: Range<usize>,
    /// Where each of them starts; one entry more for the end.
    starts: Vec<u32>,
    /// Given back with the chunk.
    pub reservation: Reservation,
}

impl Chunk {
    /// Which of so many pieces of the partitions it belongs to.
    pub fn piece(&self, pieces: usize) -> usize {
        self.partitions.start / (PARTITIONS / pieces)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.reservation.bytes()
    }

    /// The groups in these partitions.
    pub fn groups_in(&self, partitions: &Range<usize>) -> Range<usize> {
        let (start, end) = (partitions.start.max(self.partitions.start), partitions.end.min(self.partitions.end));
        if start >= end {
            return 0..0;
        }
        let start_of = |partition: usize| self.starts[partition - self.partitions.start] as usize;
        start_of(start)..start_of(end)
    }
}

impl GroupTable {
    /// An empty table; without GROUP BY a table with the one group.
    pub fn new(program: Arc<Program>) -> Result<Self> {
        let keys = KeyTable::new(program.layout.clone());
        let states = program.states()?;
        Ok(Self { keys, states, repeats: false, program })
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

    /// Takes all groups out, sorted by partition and cut into `pieces` of as many partitions each, without the empty
    /// ones; the table is empty afterwards. `reservation` has their bytes.
    pub fn take_chunks(&mut self, pieces: usize, mut reservation: Reservation) -> Result<Vec<Chunk>> {
        self.resize_states()?;
        self.repeats = false;
        let mut keys = self.keys.take_keys();
        keys.freeze();
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
        let width = PARTITIONS / pieces;
        let all = (0..pieces).map(|piece| piece * width..(piece + 1) * width);
        let groups_in = |partitions: &Range<usize>| starts[partitions.start] as usize..starts[partitions.end] as usize;
        let cut = all.filter(|partitions| !groups_in(partitions).is_empty()).collect::<Vec<_>>();
        let ranges = cut.iter().map(groups_in).collect::<Vec<_>>();
        let mut states = ranges.iter().map(|_| Vec::new()).collect::<Vec<_>>();
        for state in &mut self.states {
            let taken = state.take_pieces(&order, &ranges)?;
            states.iter_mut().zip(taken).for_each(|(states, taken)| states.push(taken));
        }
        if self.program.has_foreign {
            // Their accumulators are used up.
            self.states = self.program.states()?;
        }
        let bytes_words = self.keys.bytes_words();
        let chunks = cut.into_iter().zip(ranges).zip(states).map(|((partitions, groups), states)| {
            let keys = keys.permuted(bytes_words, &order[groups.clone()]);
            let starts = starts[partitions.start..=partitions.end].iter().map(|start| start - groups.start as u32);
            let bytes = keys.bytes() + states.iter().map(State::bytes).sum::<usize>();
            let bytes = bytes + bytes / CHUNK_REST_DIVISOR;
            let mut held = reservation.split(bytes);
            held.settle(bytes);
            Chunk { keys, states, partitions, starts: starts.collect(), reservation: held }
        });
        let chunks = chunks.collect();
        self.keys.recycle(keys);
        Ok(chunks)
    }

    /// Takes DISTINCT's pairs out of the one group of no GROUP BY, as the states that have them; what stands elsewhere
    /// in these is nothing. `None` if there are no pairs.
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
    pub fn freeze(&mut self) -> Result<()> {
        self.resize_states()?;
        self.keys.keys.freeze();
        self.states.iter_mut().try_for_each(|state| match state {
            State::Foreign(foreign) => foreign.freeze(),
            State::Distinct(distinct) => {
                distinct.freeze();
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
        reserve(self.bytes() + self.merge_bytes_ahead(&other.states, 0..1))?;
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

    /// Bytes that merging some partitions of a chunk adds at most.
    pub fn merge_chunk_ahead(&self, chunk: &Chunk, partitions: &Range<usize>) -> usize {
        let groups = chunk.groups_in(partitions);
        if groups.is_empty() {
            return 0;
        }
        let text =
            self.keys.text_of(&chunk.keys, groups.clone()) + self.merge_bytes_ahead(&chunk.states, groups.clone());
        (self.bytes_ahead(groups.len()) + text).saturating_sub(self.bytes())
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
        let mut ids = Vec::new();
        let mut wide = Vec::new();
        let mut first = groups.start;
        while first < groups.end {
            let rows = step.min(groups.end - first);
            let text = self.keys.text_of(keys, first..first + rows);
            reserve(self.bytes_ahead(rows) + text + self.merge_bytes_ahead(states, first..first + rows))?;
            let mut words = &keys.words[first * keys.stride..(first + rows) * keys.stride];
            if keys.stride < self.keys.keys.stride {
                wide.clear();
                wide = restride(words, keys.stride, self.keys.keys.stride, rows);
                words = &wide;
            }
            let before = self.keys.groups();
            match self.keys.layout.bytes_slots {
                0 => self.keys.lookup(words, rows, &NoBytes, &mut ids)?,
                _ => self.keys.lookup(words, rows, &MergedBytes { keys, first }, &mut ids)?,
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

    /// Bytes that other states' groups can add at most, beside those that every group has.
    pub fn merge_bytes_ahead(&self, others: &[State], groups: Range<usize>) -> usize {
        let ahead = |(state, other): (&State, &State)| state.merge_bytes_ahead(other, groups.clone());
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
    let held = groups * state.bytes_per_group();
    match state {
        State::Distinct(distinct) => held + distinct.bytes_ahead(rows),
        State::MinMax(values) => values.bytes_ahead(groups),
        _ => held.max(state.bytes()),
    }
}
