//! Results read out of finished states.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};

use super::states::State;
use super::states::count::RowCounts;
use super::states::sum::{SumKind, SumState};
use crate::plan::average::AverageKind;

/// What one aggregate is computed from: numbers of states.
pub(super) enum Output {
    Count { rows: usize, nulls: Option<usize> },
    Sum { state: usize, data_type: DataType },
    Average { sum: usize, rows: usize, nulls: Option<usize>, kind: AverageKind },
    MinMax { state: usize },
    DistinctCount { state: usize },
    DistinctSum { state: usize, data_type: DataType },
    DistinctAverage { state: usize, kind: AverageKind },
    Foreign { state: usize },
}

impl Output {
    /// The results of groups `range`.
    pub fn read(&self, states: &[State], range: Range<usize>) -> Result<ArrayRef> {
        match self {
            Self::Count { rows, nulls } => {
                let count = count_of(states, *rows, *nulls)?;
                Ok(Arc::new(Int64Array::from_iter_values(range.map(count))))
            }
            Self::Sum { state, data_type } => sums_of(states, *state)?.output(range, data_type),
            Self::Average { sum, rows, nulls, kind } => {
                averages(kind, sums_of(states, *sum)?, count_of(states, *rows, *nulls)?, range)
            }
            Self::MinMax { state } => match &states[*state] {
                State::MinMax(values) => values.output(range),
                _ => Err(out_of_order()),
            },
            Self::DistinctCount { state } => match &states[*state] {
                State::Distinct(distinct) => Ok(Arc::new(Int64Array::from(distinct.counts()[range].to_vec()))),
                _ => Err(out_of_order()),
            },
            Self::DistinctSum { state, data_type } => match &states[*state] {
                State::Distinct(distinct) => distinct.sums().ok_or_else(out_of_order)?.output(range, data_type),
                _ => Err(out_of_order()),
            },
            Self::DistinctAverage { state, kind } => match &states[*state] {
                State::Distinct(distinct) => {
                    let sums = distinct.sums().ok_or_else(out_of_order)?;
                    averages(kind, sums, |group| distinct.counts()[group], range)
                }
                _ => Err(out_of_order()),
            },
            Self::Foreign { state } => match &states[*state] {
                State::Foreign(foreign) => foreign.output(range),
                _ => Err(out_of_order()),
            },
        }
    }
}

/// The sums that an average needs.
pub(super) fn sum_kind(average: &AverageKind) -> SumKind {
    match average {
        AverageKind::Float => SumKind::Float,
        AverageKind::Decimal { .. } => SumKind::Exact,
    }
}

/// The averages of groups `range`; NULL for a count of zero.
fn averages(
    kind: &AverageKind,
    sums: &SumState,
    count: impl Fn(usize) -> i64,
    range: Range<usize>,
) -> Result<ArrayRef> {
    let counts = range.clone().map(&count).collect::<Vec<_>>();
    let nulls = Some(counts.iter().map(|&count| count != 0).collect::<NullBuffer>());
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    let pairs = range.zip(counts.iter().map(|&count| count.max(1)));
    match kind {
        AverageKind::Float => {
            let averages = pairs.map(|(group, count)| sums.float_total(group) / count as f64).collect::<Vec<_>>();
            Ok(Arc::new(Float64Array::new(averages.into(), nulls)))
        }
        AverageKind::Decimal { data_type, .. } => {
            let overflow = || Error::value(format!("arithmetic overflow: an average does not fit {data_type}"));
            if sums.overflowed() {
                return Err(overflow());
            }
            let averages = pairs
                .map(|(group, count)| kind.divide(sums.total(group), count))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(overflow)?;
            Ok(Arc::new(Decimal128Array::new(averages.into(), nulls).with_data_type(data_type.clone())))
        }
    }
}

fn sums_of(states: &[State], state: usize) -> Result<&SumState> {
    match &states[state] {
        State::Sum(sums) => Ok(sums),
        _ => Err(out_of_order()),
    }
}

fn count_of<'a>(states: &'a [State], rows: usize, nulls: Option<usize>) -> Result<impl Fn(usize) -> i64 + 'a> {
    let nulls = nulls.map(|nulls| &states[nulls]);
    match (&states[rows], nulls) {
        (State::Rows(rows), None) => Ok((rows, None)),
        (State::Rows(rows), Some(State::Nulls(nulls))) => Ok((rows, Some(nulls))),
        _ => Err(out_of_order()),
    }
    .map(|(rows, nulls): (&RowCounts, Option<&Vec<i64>>)| {
        move |group: usize| rows.get(group) - nulls.and_then(|nulls| nulls.get(group)).copied().unwrap_or(0)
    })
}

fn out_of_order() -> Error {
    Error::bug("an aggregate's states are out of order")
}
