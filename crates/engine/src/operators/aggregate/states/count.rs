//! Counts of rows per group.
//!
//! A spreading packet makes a group of each row: then every count is one, and nothing is stored for it.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;

use super::{LANE_GROUPS_MAX, LANES, Placement, nothing, permuted, scatter};

/// How many rows each group has.
pub(in super::super) enum RowCounts {
    /// This many groups of one row each.
    Ones(usize),
    /// By group.
    Many(Vec<i64>),
}

impl RowCounts {
    pub fn new() -> Self {
        Self::Ones(0)
    }

    /// The count of a group.
    #[inline]
    pub fn get(&self, group: usize) -> i64 {
        match self {
            Self::Ones(_) => 1,
            Self::Many(counts) => counts[group],
        }
    }

    fn many(&mut self) -> &mut Vec<i64> {
        if let Self::Ones(groups) = self {
            *self = Self::Many(vec![1; *groups]);
        }
        match self {
            Self::Many(counts) => counts,
            Self::Ones(_) => unreachable!("counts were just written out"),
        }
    }

    pub fn resize(&mut self, groups: usize) {
        if !matches!(self, Self::Ones(ones) if *ones == groups) {
            let counts = self.many();
            counts.resize(groups.max(counts.len()), 0);
        }
    }

    /// Counts each row of a placement.
    pub fn update(&mut self, placement: Placement<'_>) {
        if placement.appended && matches!(self, Self::Many(counts) if counts.is_empty()) {
            *self = Self::new();
        }
        if placement.appended
            && let Self::Ones(groups) = self
            && *groups == placement.before
        {
            *groups = placement.groups;
            return;
        }
        count_rows(self.many(), placement);
    }

    pub fn merge(&mut self, other: &RowCounts, range: Range<usize>, placement: Placement<'_>) {
        match other {
            Self::Ones(_) => count_rows(self.many(), placement),
            Self::Many(other) => {
                let counts = self.many();
                counts.resize(placement.groups.max(counts.len()), 0);
                scatter(counts, &other[range], placement, None, |sum, value| *sum += value);
            }
        }
    }

    pub fn permuted(&self, order: &[u32]) -> Self {
        match self {
            Self::Ones(_) => Self::Ones(order.len()),
            Self::Many(counts) => Self::Many(permuted(counts, order, 0)),
        }
    }

    pub fn clear(&mut self) {
        match self {
            Self::Ones(groups) => *groups = 0,
            Self::Many(counts) => counts.clear(),
        }
    }

    /// The counts of groups `range` for temp space; ones take no room there, either.
    pub fn column(&self, range: Range<usize>) -> ArrayRef {
        match self {
            Self::Ones(_) => nothing(range.len()),
            Self::Many(counts) => Arc::new(Int64Array::from(counts[range].to_vec())),
        }
    }

    /// Counts out of such a column.
    pub fn of_column(column: &ArrayRef) -> Self {
        match column.as_primitive_opt::<Int64Type>() {
            Some(counts) => Self::Many(counts.values().to_vec()),
            None => Self::Ones(column.len()),
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::Ones(_) => 0,
            Self::Many(counts) => counts.capacity() * 8,
        }
    }
}

/// Adds one to its group's count for each row of a placement.
pub(super) fn count_rows(counts: &mut Vec<i64>, placement: Placement<'_>) {
    counts.resize(placement.groups.max(counts.len()), 0);
    let Some(ids) = placement.ids else {
        counts[0] += placement.rows as i64;
        return;
    };
    if placement.few_groups() {
        let mut lanes = [0u32; LANE_GROUPS_MAX * LANES];
        let mut chunks = ids.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (lane, &id) in chunk.iter().enumerate() {
                lanes[(id as usize * LANES + lane) & (LANE_GROUPS_MAX * LANES - 1)] += 1;
            }
        }
        chunks.remainder().iter().for_each(|&id| counts[id as usize] += 1);
        for (count, lanes) in counts.iter_mut().zip(lanes.chunks_exact(LANES)) {
            *count += lanes.iter().map(|&lane| lane as i64).sum::<i64>();
        }
        return;
    }
    for &id in ids {
        counts[id as usize] += 1;
    }
}
