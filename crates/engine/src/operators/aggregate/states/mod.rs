//! What is kept for every group: one [`State`] per thing that the aggregates need, each a vector over the groups.
//!
//! Several aggregates may read the same state: `sum(x)` and `avg(x)` share a sum, every count without a filter shares
//! the count of rows. A state takes a batch's values in one call; where each row belongs is a [`Placement`], the same
//! for all.
//!
//! Invariants:
//! * A state of an unfiltered aggregate sees a row for every group. So "has this group seen a value?" is written down
//!   only from the first NULL on.
//! * A state may know fewer groups than the table: those without a row that counts. Whoever reads it asks for
//!   [`State::resize`] first.

pub(super) mod count;
pub(super) mod distinct;
pub(super) mod extreme;
mod extreme_bytes;
pub(super) mod foreign;
pub(super) mod min_max;
pub(super) mod sum;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, NullArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Int64Type;
use diligence_base::{Error, Result};

use count::RowCounts;
use distinct::DistinctState;
use extreme::MinMaxState;
use foreign::ForeignState;
use sum::SumState;

/// Up to how many groups a batch's values are first added up in lanes: four per group, so that adding to a group does
/// not wait for the addition just before it to reach memory.
pub(super) const LANE_GROUPS_MAX: usize = 64;
pub(super) const LANES: usize = 4;

/// Which group each row of a batch belongs to.
#[derive(Clone, Copy)]
pub(super) struct Placement<'a> {
    /// Group by row; all rows belong to group 0 if `None`.
    pub ids: Option<&'a [u32]>,
    pub rows: usize,
    /// Groups that existed before this batch.
    pub before: usize,
    /// Groups that exist now. Every id is less.
    pub groups: usize,
    /// True if each row made a group of its own, in order: `ids` is `before..groups`.
    pub appended: bool,
}

impl Placement<'_> {
    /// Whether lanes pay.
    pub fn few_groups(&self) -> bool {
        !self.appended && self.groups <= LANE_GROUPS_MAX && self.rows >= self.groups * LANES * 2
    }
}

/// One vector of states over the groups.
pub(super) enum State {
    /// How many rows.
    Rows(RowCounts),
    /// How many rows with a NULL; shorter than the groups where the rest has none.
    Nulls(Vec<i64>),
    Sum(SumState),
    MinMax(Box<dyn MinMaxState>),
    Distinct(Box<DistinctState>),
    Foreign(ForeignState),
}

impl State {
    /// Makes every group up to `groups` readable; new ones have seen nothing.
    pub fn resize(&mut self, groups: usize) -> Result<()> {
        match self {
            Self::Rows(counts) => counts.resize(groups),
            Self::Nulls(_) => {}
            Self::Sum(sums) => sums.resize(groups),
            Self::MinMax(values) => values.resize(groups),
            Self::Distinct(distinct) => distinct.resize(groups),
            Self::Foreign(foreign) => foreign.resize(groups)?,
        }
        Ok(())
    }

    /// Adds the states of another vector's groups `range` to the groups in `placement`.
    pub fn merge(&mut self, other: &State, range: Range<usize>, placement: Placement<'_>) -> Result<()> {
        match (self, other) {
            (Self::Rows(counts), Self::Rows(other)) => counts.merge(other, range, placement),
            (Self::Nulls(counts), Self::Nulls(other)) => {
                let range = range.start.min(other.len())..range.end.min(other.len());
                if !range.is_empty() {
                    counts.resize(placement.groups.max(counts.len()), 0);
                    let ids = placement.ids.map(|ids| &ids[..range.len()]);
                    let placement = Placement { ids, rows: range.len(), appended: false, ..placement };
                    scatter(counts, &other[range], placement, None, |sum, value| *sum += value);
                }
            }
            (Self::Sum(sums), Self::Sum(other)) => sums.merge(other, range, placement),
            (Self::MinMax(values), Self::MinMax(other)) => values.merge(other.as_ref(), range, placement)?,
            (Self::Distinct(distinct), Self::Distinct(other)) => distinct.merge(other, range, placement)?,
            (Self::Foreign(foreign), Self::Foreign(other)) => foreign.merge(other, range, placement)?,
            _ => return Err(Error::bug("aggregate states of different kinds met")),
        }
        Ok(())
    }

    /// The states of `order`'s groups, in that order, cut into `pieces` of it. Leaves this vector empty.
    pub fn take_pieces(&mut self, order: &[u32], pieces: &[Range<usize>]) -> Result<Vec<State>> {
        let orders = pieces.iter().map(|piece| &order[piece.clone()]);
        Ok(match self {
            Self::Rows(counts) => {
                let taken = orders.map(|order| Self::Rows(counts.permuted(order))).collect();
                counts.clear();
                taken
            }
            Self::Nulls(counts) => {
                let some = |order| if counts.is_empty() { Vec::new() } else { permuted(counts, order, 0) };
                let taken = orders.map(|order| Self::Nulls(some(order))).collect();
                counts.clear();
                taken
            }
            Self::Sum(sums) => {
                let taken = orders.map(|order| Self::Sum(sums.permuted(order))).collect();
                sums.clear();
                taken
            }
            Self::MinMax(values) => {
                let taken = orders.map(|order| Self::MinMax(values.permuted(order))).collect();
                values.clear();
                taken
            }
            Self::Distinct(distinct) => {
                let taken = distinct.take_pieces(order, pieces).into_iter();
                taken.map(|taken| Self::Distinct(Box::new(taken))).collect()
            }
            Self::Foreign(foreign) => {
                foreign.resize(order.len())?;
                foreign.freeze()?;
                orders.map(|order| Ok(Self::Foreign(foreign.permuted(order)?))).collect::<Result<_>>()?
            }
        })
    }

    /// The states of groups `range` as columns, [`column_count`](Self::column_count) of them, to be written to temp
    /// space. Every group has been made known before. Ranges ascend; an accumulator's states are taken out, so its
    /// ranges leave nothing out.
    pub fn take_columns(&mut self, range: Range<usize>) -> Result<Vec<ArrayRef>> {
        Ok(match self {
            Self::Rows(counts) => vec![counts.column(range)],
            Self::Nulls(counts) if counts.len() <= range.start => vec![nothing(range.len())],
            Self::Nulls(counts) => {
                let counts = range.map(|group| counts.get(group).copied().unwrap_or(0));
                vec![Arc::new(Int64Array::from_iter_values(counts))]
            }
            Self::Sum(sums) => vec![sums.column(range)?],
            Self::MinMax(values) => vec![values.output(range)?],
            Self::Distinct(distinct) => distinct.columns(range)?,
            Self::Foreign(foreign) => foreign.take_columns(range)?,
        })
    }

    /// How many columns such states have in temp space.
    pub fn column_count(&self) -> usize {
        match self {
            Self::Rows(_) | Self::Nulls(_) | Self::Sum(_) | Self::MinMax(_) => 1,
            Self::Distinct(_) => 2,
            Self::Foreign(foreign) => foreign.column_count(),
        }
    }

    /// States of the same kind out of such columns: to be merged.
    pub fn of_columns(&self, columns: &[ArrayRef]) -> Result<State> {
        let column = columns.first().ok_or_else(|| Error::bug("a state without a column came out of temp space"))?;
        Ok(match self {
            Self::Rows(_) => Self::Rows(RowCounts::of_column(column)),
            Self::Nulls(_) => {
                Self::Nulls(column.as_primitive_opt::<Int64Type>().map_or_else(Vec::new, |c| c.values().to_vec()))
            }
            Self::Sum(sums) => Self::Sum(sums.of_column(column)?),
            Self::MinMax(values) => Self::MinMax(values.of_column(column)?),
            Self::Distinct(distinct) => Self::Distinct(Box::new(distinct.of_columns(columns)?)),
            Self::Foreign(foreign) => Self::Foreign(foreign.of_columns(columns)?),
        })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Rows(counts) => counts.bytes(),
            Self::Nulls(counts) => counts.capacity() * 8,
            Self::Sum(sums) => sums.bytes(),
            Self::MinMax(values) => values.bytes(),
            Self::Distinct(distinct) => distinct.bytes(),
            Self::Foreign(foreign) => foreign.bytes(),
        }
    }

    /// Bytes that merging another vector's groups `range` can add at most, beside those that every group has.
    pub fn merge_bytes_ahead(&self, other: &State, range: Range<usize>) -> usize {
        match (self, other) {
            (Self::Distinct(distinct), Self::Distinct(other)) => distinct.merge_bytes_ahead(other, range),
            (Self::MinMax(_), Self::MinMax(other)) => other.text_bytes(range),
            _ => 0,
        }
    }

    /// Bytes that a new group takes at least.
    pub fn bytes_per_group(&self) -> usize {
        match self {
            Self::Rows(_) | Self::Nulls(_) => 8,
            Self::Sum(sums) => sums.bytes_per_group(),
            Self::MinMax(values) => values.bytes_per_group(),
            Self::Distinct(distinct) => distinct.bytes_per_group(),
            Self::Foreign(_) => 0,
        }
    }
}

/// The column of states that say nothing: it takes no room.
pub(super) fn nothing(groups: usize) -> ArrayRef {
    Arc::new(NullArray::new(groups))
}

/// Counts the rows of a placement that are NULL.
pub(super) fn count_nulls(counts: &mut Vec<i64>, nulls: Option<&NullBuffer>, placement: Placement<'_>) {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return };
    counts.resize(placement.groups.max(counts.len()), 0);
    let Some(ids) = placement.ids else {
        counts[0] += nulls.null_count() as i64;
        return;
    };
    let is_null = !nulls.inner();
    is_null.set_indices().for_each(|row| counts[ids[row] as usize] += 1);
}

/// Puts each row's value into its group's total.
#[inline(always)]
pub(super) fn scatter<T, V: Copy>(
    totals: &mut [T],
    values: &[V],
    placement: Placement<'_>,
    nulls: Option<&NullBuffer>,
    put: impl Fn(&mut T, V),
) {
    assert_eq!(values.len(), placement.rows, "as many values as rows");
    assert!(placement.groups <= totals.len(), "a total for every group");
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    match (placement.ids, nulls) {
        (None, None) => values.iter().for_each(|&value| put(&mut totals[0], value)),
        (None, Some(nulls)) => for_each_valid(nulls, |row| put(&mut totals[0], values[row])),
        (Some(_), None) if placement.appended => {
            let totals = &mut totals[placement.before..placement.groups];
            assert_eq!(totals.len(), values.len(), "a group for every row");
            totals.iter_mut().zip(values).for_each(|(total, &value)| put(total, value));
        }
        (Some(ids), None) => {
            assert_eq!(ids.len(), values.len(), "a group for every row");
            for (&id, &value) in ids.iter().zip(values) {
                debug_assert!((id as usize) < placement.groups);
                // SAFETY: every id of a placement is less than its groups, and there is a total for each of them.
                put(unsafe { totals.get_unchecked_mut(id as usize) }, value);
            }
        }
        (Some(ids), Some(nulls)) => for_each_valid(nulls, |row| put(&mut totals[ids[row] as usize], values[row])),
    }
}

/// Calls `each` with every row that is not NULL, in order.
#[inline(always)]
pub(super) fn for_each_valid(nulls: &NullBuffer, mut each: impl FnMut(usize)) {
    let chunks = nulls.inner().bit_chunks();
    let rest = std::iter::once(chunks.remainder_bits());
    for (chunk, mut bits) in chunks.iter().chain(rest).enumerate() {
        let first = chunk * 64;
        if bits == u64::MAX {
            (first..first + 64).for_each(&mut each);
            continue;
        }
        while bits != 0 {
            each(first + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}

/// Which groups have seen a value. Nothing is written down while all of them have.
pub(super) struct Seen(Option<Vec<u8>>);

impl Seen {
    /// `always` for states that may exist without a row: those with a filter, and the one group of no GROUP BY.
    pub fn new(always: bool) -> Self {
        Self(always.then(Vec::new))
    }

    /// What [`nulls`](Self::nulls) said.
    pub fn of_nulls(nulls: Option<&NullBuffer>) -> Self {
        Self(nulls.map(|nulls| nulls.iter().map(u8::from).collect()))
    }

    /// Groups up to `groups` exist; new ones have seen nothing.
    pub fn resize(&mut self, known: usize, groups: usize) {
        if groups > known {
            self.flags(known).resize(groups, 0);
        }
    }

    /// The rows of a placement have values except where they are NULL.
    pub fn update(&mut self, nulls: Option<&NullBuffer>, placement: Placement<'_>) {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        if self.0.is_none() && nulls.is_none() {
            return;
        }
        let flags = self.flags(placement.before);
        flags.resize(placement.groups.max(flags.len()), 0);
        match (placement.ids, nulls) {
            (None, nulls) => flags[0] |= (nulls.map_or(0, NullBuffer::null_count) < placement.rows) as u8,
            (Some(ids), None) => ids.iter().for_each(|&id| flags[id as usize] = 1),
            (Some(ids), Some(nulls)) => for_each_valid(nulls, |row| flags[ids[row] as usize] = 1),
        }
    }

    /// Takes over what another vector's groups have seen.
    pub fn merge(&mut self, other: &Seen, range: Range<usize>, placement: Placement<'_>) {
        match &other.0 {
            None => self.update(None, placement),
            Some(theirs) => {
                let theirs = &theirs[range];
                let flags = self.flags(placement.before);
                flags.resize(placement.groups.max(flags.len()), 0);
                match placement.ids {
                    None => theirs.iter().for_each(|flag| flags[0] |= flag),
                    Some(ids) => ids.iter().zip(theirs).for_each(|(&id, flag)| flags[id as usize] |= flag),
                }
            }
        }
    }

    fn flags(&mut self, known: usize) -> &mut Vec<u8> {
        self.0.get_or_insert_with(|| vec![1; known])
    }

    pub fn permuted(&self, order: &[u32]) -> Self {
        Self(self.0.as_ref().map(|flags| permuted(flags, order, 0)))
    }

    /// The groups without a value as NULLs.
    pub fn nulls(&self, range: Range<usize>) -> Option<NullBuffer> {
        let flags = &self.0.as_ref()?[range];
        let nulls = flags.iter().map(|&flag| flag != 0).collect::<NullBuffer>();
        Some(nulls).filter(|nulls| nulls.null_count() > 0)
    }

    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::capacity)
    }
}

/// The values of `order`, in that order; groups past the end have `missing`.
pub(super) fn permuted<T: Copy>(values: &[T], order: &[u32], missing: T) -> Vec<T> {
    order.iter().map(|&group| values.get(group as usize).copied().unwrap_or(missing)).collect()
}
