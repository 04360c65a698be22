//! DISTINCT: a hash table of (group, value) pairs, and what the values that are new to their group add up to.
//!
//! Pairs are keys like those of groups, so strings, decimals and floats are equal here exactly if they are in GROUP BY,
//! and merging two states is looking up the pairs of one in the other.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal64Array, Decimal128Array, Float64Array, Int64Array, UInt32Array, UInt64Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::super::key_encoding::EncodedKeys;
use super::super::key_layout::{KeyColumn, KeyKind, KeyLayout};
use super::super::key_table::{KeyTable, Keys, MergedBytes, NoBytes, restride};
use super::count::count_rows;
use super::sum::{SumKind, SumState};
use super::{Placement, nothing, permuted, scatter};
use crate::batch::Column;

/// Pairs that are merged at a time.
const MERGE_PAIRS: usize = 8192;

/// The distinct values of each group: how many, and their sum if asked for.
pub(in super::super) struct DistinctState {
    pairs: KeyTable,
    /// False for the one group of no GROUP BY, whose pairs are just values.
    grouped: bool,
    counts: Vec<i64>,
    sums: Option<SumState>,
    /// True if the pairs are in the order of their groups.
    sorted: bool,
    /// True if counts and sums are all there is: of pairs that went through temp space, where those of a value are
    /// together.
    resolved: bool,
    encoded: EncodedKeys,
    pair_ids: Vec<u32>,
}

impl DistinctState {
    /// The layout of pairs with values of a type; shared by all states of one aggregate.
    pub fn layout(value: &DataType, grouped: bool) -> Result<Arc<KeyLayout>> {
        let mut columns = vec![(value.clone(), false)];
        if grouped {
            columns.push((DataType::UInt32, false));
        }
        KeyLayout::new(&columns).map(Arc::new)
    }

    pub fn new(layout: Arc<KeyLayout>, sum: Option<SumKind>) -> Self {
        Self {
            grouped: layout.columns.len() == 2,
            pairs: KeyTable::new(layout),
            counts: Vec::new(),
            sums: sum.map(|kind| SumState::new(kind, true)),
            sorted: false,
            resolved: false,
            encoded: EncodedKeys::default(),
            pair_ids: Vec::new(),
        }
    }

    pub fn resize(&mut self, groups: usize) {
        self.counts.resize(groups.max(self.counts.len()), 0);
        if let Some(sums) = &mut self.sums {
            sums.resize(groups);
        }
    }

    /// Adds a batch's values; NULLs do not count.
    pub fn update(&mut self, values: &Column, placement: Placement<'_>) -> Result<()> {
        let (array, picks) = values.parts();
        let may_be_null = array.logical_null_count() > 0 || picks.is_some_and(|picks| picks.null_count() > 0);
        if !may_be_null {
            return self.add(values, placement);
        }
        let flat = values.flat()?;
        let Some(nulls) = flat.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
            return self.add(&Column::flat_array(flat), placement);
        };
        let valid = nulls.inner().set_indices_u32().collect::<Vec<_>>();
        if valid.is_empty() {
            return Ok(());
        }
        let ids = placement.ids.map(|ids| valid.iter().map(|&row| ids[row as usize]).collect::<Vec<_>>());
        let valid = UInt32Array::from(valid);
        let rest = take(&flat, &valid, None).map_err(from_arrow)?;
        let placement = Placement { ids: ids.as_deref(), rows: valid.len(), appended: false, ..placement };
        self.add(&Column::flat_array(rest), placement)
    }

    fn add(&mut self, values: &Column, placement: Placement<'_>) -> Result<()> {
        let layout = self.pairs.layout.clone();
        let mut columns = vec![values.clone()];
        if let Some(ids) = placement.ids.filter(|_| self.grouped) {
            columns.push(Column::flat_array(Arc::new(UInt32Array::from(ids.to_vec()))));
        }
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.encode(&layout, &columns, &[], placement.rows, 0)?;
        let known = self.pairs.groups();
        let mut pair_ids = std::mem::take(&mut self.pair_ids);
        match layout.bytes_slots {
            0 => self.pairs.lookup(&encoded.words, encoded.rows, &NoBytes, &mut pair_ids)?,
            _ => self.pairs.lookup(&encoded.words, encoded.rows, &encoded, &mut pair_ids)?,
        }
        self.encoded = encoded;
        let fresh = fresh_rows(&pair_ids, known);
        self.pair_ids = pair_ids;
        if fresh.is_empty() {
            return Ok(());
        }
        let ids = placement.ids.map(|ids| fresh.iter().map(|&row| ids[row as usize]).collect::<Vec<_>>());
        let fresh_placement = Placement { ids: ids.as_deref(), rows: fresh.len(), appended: false, ..placement };
        count_rows(&mut self.counts, fresh_placement);
        if let Some(sums) = &mut self.sums {
            let fresh = take(&values.flat()?, &UInt32Array::from(fresh), None).map_err(from_arrow)?;
            sums.update(&fresh, fresh_placement)?;
        }
        Ok(())
    }

    /// Adds the pairs of another state's groups `range`.
    pub fn merge(&mut self, other: &DistinctState, range: Range<usize>, placement: Placement<'_>) -> Result<()> {
        if other.resolved {
            self.merge_resolved(other, range, placement);
            return Ok(());
        }
        let theirs = &other.pairs.keys;
        let layout = self.pairs.layout.clone();
        let group_column = self.grouped.then(|| &layout.columns[1]);
        debug_assert!(
            other.sorted || !self.grouped || range.len() == other.counts.len(),
            "pairs in no order are merged all at once"
        );
        let wanted = other.pairs_of(range.clone());
        self.pairs.keys.widen(theirs.stride);
        let mut first = wanted.start;
        while first < wanted.end {
            let rows = MERGE_PAIRS.min(wanted.end - first);
            let words = &theirs.words[first * theirs.stride..(first + rows) * theirs.stride];
            let mut words = restride(words, theirs.stride, self.pairs.keys.stride, rows);
            let ids = match (group_column, placement.ids) {
                (Some(column), Some(ids)) => {
                    let stride = self.pairs.keys.stride;
                    let ids = (first..first + rows)
                        .map(|pair| ids[group_of(theirs, column, pair) as usize - range.start])
                        .collect::<Vec<_>>();
                    for (key, &id) in words.chunks_exact_mut(stride).zip(&ids) {
                        set_group(key, column, id);
                    }
                    Some(ids)
                }
                _ => None,
            };
            let known = self.pairs.groups();
            let mut pair_ids = std::mem::take(&mut self.pair_ids);
            let bytes = MergedBytes { keys: theirs, first };
            self.pairs.lookup(&words, rows, &bytes, &mut pair_ids)?;
            let fresh = fresh_rows(&pair_ids, known);
            self.pair_ids = pair_ids;
            let ids = ids.map(|ids| fresh.iter().map(|&row| ids[row as usize]).collect::<Vec<_>>());
            let fresh_placement = Placement { ids: ids.as_deref(), rows: fresh.len(), appended: false, ..placement };
            count_rows(&mut self.counts, fresh_placement);
            if let Some(sums) = &mut self.sums {
                let pairs = fresh.iter().map(|&row| first + row as usize);
                sums.update(&values_of(theirs, &layout.columns[0], pairs)?, fresh_placement)?;
            }
            first += rows;
        }
        Ok(())
    }

    /// Adds counts and sums of values that nobody else has.
    fn merge_resolved(&mut self, other: &DistinctState, range: Range<usize>, placement: Placement<'_>) {
        self.resolved = true;
        if other.counts.is_empty() {
            return;
        }
        self.counts.resize(placement.groups.max(self.counts.len()), 0);
        scatter(&mut self.counts, &other.counts[range.clone()], placement, None, |count, more| *count += more);
        if let (Some(sums), Some(theirs)) = (&mut self.sums, &other.sums) {
            sums.merge(theirs, range, placement);
        }
    }

    /// Adds values, one per row, that nobody else has: keys `pairs` of a table, whose column `column` they are.
    pub fn resolve(
        &mut self,
        keys: &Keys,
        column: &KeyColumn,
        pairs: Range<usize>,
        placement: Placement<'_>,
    ) -> Result<()> {
        self.resolved = true;
        count_rows(&mut self.counts, placement);
        match &mut self.sums {
            Some(sums) => sums.update(&values_of(keys, column, pairs)?, placement),
            None => Ok(()),
        }
    }

    /// For temp space: counts and sums of groups `range` if no pairs are left to look at; else nothing.
    pub fn columns(&self, range: Range<usize>) -> Result<Vec<ArrayRef>> {
        if !self.resolved {
            return Ok(vec![nothing(range.len()), nothing(range.len())]);
        }
        let sums = self.sums.as_ref().map_or_else(|| Ok(nothing(range.len())), |sums| sums.column(range.clone()))?;
        Ok(vec![Arc::new(Int64Array::from(self.counts[range].to_vec())), sums])
    }

    /// What such columns say.
    pub fn of_columns(&self, columns: &[ArrayRef]) -> Result<Self> {
        let mut state = Self { resolved: true, ..Self::new(self.pairs.layout.clone(), None) };
        if let (Some(counts), Some(sums)) = (columns[0].as_primitive_opt::<Int64Type>(), columns.get(1)) {
            state.counts = counts.values().to_vec();
            state.sums = self.sums.as_ref().map(|own| own.of_column(sums)).transpose()?;
        }
        Ok(state)
    }

    /// The pairs, of which some belong to groups `range`: their keys, the numbers of these, and the column of the
    /// group's number, if there are several groups.
    pub fn pairs(&mut self, groups: Range<usize>) -> (&Keys, Range<usize>, Option<&KeyColumn>) {
        self.pairs.keys.freeze();
        (&self.pairs.keys, self.pairs_of(groups), self.pairs.layout.columns.get(1))
    }

    /// The layout of the pairs.
    pub fn pair_layout(&self) -> &Arc<KeyLayout> {
        &self.pairs.layout
    }

    /// The pairs of some groups; all of them where pairs are in no order.
    fn pairs_of(&self, groups: Range<usize>) -> Range<usize> {
        let keys = &self.pairs.keys;
        match self.pairs.layout.columns.get(1) {
            Some(column) if self.sorted => {
                let before =
                    |end: usize| lower_bound(keys.groups, |pair| (group_of(keys, column, pair) as usize) < end);
                before(groups.start)..before(groups.end)
            }
            _ => 0..keys.groups,
        }
    }

    /// Bytes that merging some of another state's groups can add at most.
    pub fn merge_bytes_ahead(&self, other: &DistinctState, groups: Range<usize>) -> usize {
        let pairs = other.pairs_of(groups);
        let text = self.pairs.text_of(&other.pairs.keys, pairs.clone());
        self.pairs.bytes_ahead(pairs.len()).saturating_sub(self.pairs.bytes()) + text
    }

    /// The pairs of `order`'s groups, in that order, cut into `pieces` of it. Leaves this state empty.
    pub fn take_pieces(&mut self, order: &[u32], pieces: &[Range<usize>]) -> Vec<Self> {
        let mut keys = self.pairs.take_keys();
        let layout = self.pairs.layout.clone();
        let bytes_words = self.pairs.bytes_words();
        let mut starts = vec![0u32; order.len() + 1];
        let mut groups = vec![0; keys.groups];
        let mut pair_order = (0..keys.groups as u32).collect::<Vec<_>>();
        if let Some(column) = layout.columns.get(1) {
            let mut position = vec![0u32; order.len()];
            order.iter().enumerate().for_each(|(new, &old)| position[old as usize] = new as u32);
            // A counting sort of the pairs by their group's new number.
            let numbers = (0..keys.groups).map(|pair| position[group_of(&keys, column, pair) as usize]);
            groups.iter_mut().zip(numbers).for_each(|(group, number)| *group = number);
            groups.iter().for_each(|&group| starts[group as usize + 1] += 1);
            (0..order.len()).for_each(|group| starts[group + 1] += starts[group]);
            let mut next = starts.clone();
            for (pair, &group) in groups.iter().enumerate() {
                let start = &mut next[group as usize];
                pair_order[*start as usize] = pair as u32;
                *start += 1;
            }
        } else {
            starts[order.len()] = keys.groups as u32;
        }
        keys.freeze();
        let taken = pieces.iter().map(|piece| {
            let pair_order = &pair_order[starts[piece.start] as usize..starts[piece.end] as usize];
            let mut pairs = KeyTable::new(layout.clone());
            pairs.keys = keys.permuted(bytes_words, pair_order);
            if let Some(column) = layout.columns.get(1) {
                let stride = pairs.keys.stride;
                for (key, &pair) in pairs.keys.words.chunks_exact_mut(stride).zip(pair_order) {
                    set_group(key, column, groups[pair as usize] - piece.start as u32);
                }
            }
            let order = &order[piece.clone()];
            Self {
                pairs,
                grouped: self.grouped,
                counts: permuted(&self.counts, order, 0),
                sums: self.sums.as_ref().map(|sums| sums.permuted(order)),
                sorted: true,
                resolved: self.resolved,
                encoded: EncodedKeys::default(),
                pair_ids: Vec::new(),
            }
        });
        let taken = taken.collect();
        self.counts.clear();
        self.sums.iter_mut().for_each(SumState::clear);
        taken
    }

    /// No more pairs are added, and others may take these in.
    pub fn freeze(&mut self) {
        self.pairs.keys.freeze();
    }

    /// Nothing is merged any more: counts and sums are all that is left to read.
    pub fn finish(&mut self) {
        self.pairs = KeyTable::new(self.pairs.layout.clone());
        (self.encoded, self.pair_ids) = (EncodedKeys::default(), Vec::new());
    }

    pub fn bytes(&self) -> usize {
        let scratch = self.encoded.bytes() + self.pair_ids.capacity() * 4;
        self.pairs.bytes() + self.counts.capacity() * 8 + self.sums.as_ref().map_or(0, SumState::bytes) + scratch
    }

    /// Bytes that are held at most after a batch of so many rows.
    pub fn bytes_ahead(&self, rows: usize) -> usize {
        self.pairs.bytes_ahead(rows)
    }

    pub fn bytes_per_group(&self) -> usize {
        8 + self.sums.as_ref().map_or(0, SumState::bytes_per_group)
    }

    /// Distinct values of each group.
    pub fn counts(&self) -> &[i64] {
        &self.counts
    }

    /// Sums of the distinct values.
    pub fn sums(&self) -> Option<&SumState> {
        self.sums.as_ref()
    }
}

/// The rows whose pair did not exist before: new pairs are numbered in the order of their first row.
fn fresh_rows(pair_ids: &[u32], known: usize) -> Vec<u32> {
    let mut next = known as u32;
    let mut fresh = Vec::new();
    for (row, &id) in pair_ids.iter().enumerate() {
        if id == next {
            fresh.push(row as u32);
            next += 1;
        }
    }
    fresh
}

pub(in super::super) fn group_of(keys: &Keys, column: &KeyColumn, pair: usize) -> u32 {
    (keys.words[pair * keys.stride + column.word] >> column.shift) as u32
}

pub(in super::super) fn set_group(key: &mut [u64], column: &KeyColumn, group: u32) {
    let word = &mut key[column.word];
    *word = *word & !((u32::MAX as u64) << column.shift) | (group as u64) << column.shift;
}

fn lower_bound(count: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// The values of pairs, for adding up.
fn values_of(keys: &Keys, column: &KeyColumn, pairs: impl Iterator<Item = usize>) -> Result<ArrayRef> {
    let low = |pair: usize| keys.words[pair * keys.stride + column.word];
    let high = |pair: usize| keys.words[pair * keys.stride + column.word + 1];
    Ok(match (&column.kind, &column.logical) {
        (KeyKind::NarrowDecimal, _) => Arc::new(pairs.map(|pair| Some(low(pair) as i64)).collect::<Decimal64Array>()),
        (KeyKind::WideDecimal, _) => {
            let wide = pairs.map(|pair| (high(pair) as i64 as i128) << 64 | low(pair) as i128);
            Arc::new(Decimal128Array::from_iter_values(wide))
        }
        (_, DataType::Int64) => Arc::new(Int64Array::from_iter_values(pairs.map(|pair| low(pair) as i64))),
        (_, DataType::UInt64) => Arc::new(UInt64Array::from_iter_values(pairs.map(low))),
        (_, DataType::Float64) => Arc::new(Float64Array::from_iter_values(pairs.map(|pair| f64::from_bits(low(pair))))),
        (_, other) => return Err(Error::bug(format!("distinct values of type {other} are not added up"))),
    })
}
