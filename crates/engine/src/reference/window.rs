//! The slow judge of windows: each frame by its definition, each aggregate of it anew.

use std::ops::Range;

use arrow::array::ArrayRef;
use datafusion_common::ScalarValue;
use datafusion_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use diligence_base::Result;
use diligence_storage::foreign_error::from_datafusion;

use super::sort::{Key, Row, compare, compare_values};
use crate::plan::{Exclusion, WindowFunction};

/// A function of columns of the input.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// What is computed.
    pub function: &'a WindowFunction,
    /// The columns that it reads.
    pub arguments: &'a [usize],
    /// A column of booleans: only rows where it is true count.
    pub filter: Option<usize>,
    /// Which rows.
    pub frame: &'a WindowFrame,
    /// Which of them are left out.
    pub excludes: Exclusion,
}

/// The values of a call for the rows of one partition, which are in order.
pub fn evaluate(partition: &[Row], keys: &[Key], call: &Call<'_>) -> Result<Vec<ScalarValue>> {
    (0..partition.len()).map(|row| value(partition, row, keys, call)).collect()
}

/// The rows of the partition that the frame of `row` has.
pub fn frame(partition: &[Row], row: usize, keys: &[Key], frame: &WindowFrame) -> Range<usize> {
    let groups = groups(partition, keys);
    let distance = |value: &ScalarValue| match value {
        ScalarValue::UInt64(Some(rows)) => i128::from(*rows),
        _ => 0,
    };
    // The place of a row, or of a group, among the others.
    let bound = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(value) if value.is_null() => i128::MIN,
        WindowFrameBound::Following(value) if value.is_null() => i128::MAX,
        WindowFrameBound::Preceding(value) => -distance(value),
        WindowFrameBound::CurrentRow => 0,
        WindowFrameBound::Following(value) => distance(value),
    };
    let (from, to) = (bound(&frame.start_bound), bound(&frame.end_bound));
    let inside = |other: usize| match frame.units {
        WindowFrameUnits::Rows => (from..=to).contains(&(other as i128 - row as i128)),
        WindowFrameUnits::Groups => (from..=to).contains(&(groups[other] as i128 - groups[row] as i128)),
        WindowFrameUnits::Range => {
            let (row, other) = (&partition[row], &partition[other]);
            is_within(row, other, keys, &frame.start_bound, true)
                && is_within(row, other, keys, &frame.end_bound, false)
        }
    };
    let rows = (0..partition.len()).filter(|&other| inside(other)).collect::<Vec<_>>();
    rows.first().map_or(0..0, |&first| first..first + rows.len())
}

/// The rows of the frame that are not left out.
fn kept(partition: &[Row], row: usize, keys: &[Key], call: &Call<'_>) -> Vec<usize> {
    let groups = groups(partition, keys);
    let is_kept = |other: &usize| match call.excludes {
        Exclusion::NoOthers => true,
        Exclusion::CurrentRow => *other != row,
        Exclusion::Group => groups[*other] != groups[row],
        Exclusion::Ties => *other == row || groups[*other] != groups[row],
    };
    frame(partition, row, keys, call.frame).filter(is_kept).collect()
}

/// The number of each row's group of peers.
fn groups(partition: &[Row], keys: &[Key]) -> Vec<usize> {
    let mut group = 0;
    (0..partition.len())
        .map(|row| {
            group += usize::from(row > 0 && compare(&partition[row - 1], &partition[row], keys).is_ne());
            group
        })
        .collect()
}

/// Whether another row lies on the inner side of a bound of the frame of `row`.
fn is_within(row: &Row, other: &Row, keys: &[Key], bound: &WindowFrameBound, is_start: bool) -> bool {
    let (value, before) = match bound {
        WindowFrameBound::CurrentRow => {
            let order = compare(other, row, keys);
            return if is_start { order.is_ge() } else { order.is_le() };
        }
        WindowFrameBound::Preceding(value) => (value, true),
        WindowFrameBound::Following(value) => (value, false),
    };
    if value.is_null() {
        return true;
    }
    let (column, options) = keys[0];
    let (key, other) = (&row[column], &other[column]);
    if key.is_null() {
        let order = compare_values(other, key, options);
        return if is_start { order.is_ge() } else { order.is_le() };
    }
    let target = if before == options.descending { key.add_checked(value) } else { key.sub_checked(value) };
    let order = match target {
        // Sums of decimals have more digits than their terms.
        Ok(ScalarValue::Decimal128(value, _, _)) => match key {
            ScalarValue::Decimal128(_, precision, scale) => {
                compare_values(other, &ScalarValue::Decimal128(value, *precision, *scale), options)
            }
            _ => return false,
        },
        Ok(target) => compare_values(other, &target, options),
        Err(_) if other.is_null() => compare_values(other, key, options),
        // No value lies as far away.
        Err(_) => return before == is_start,
    };
    if is_start { order.is_ge() } else { order.is_le() }
}

fn value(partition: &[Row], row: usize, keys: &[Key], call: &Call<'_>) -> Result<ScalarValue> {
    let rows = partition.len();
    let groups = groups(partition, keys);
    let first_peer = groups.iter().position(|group| *group == groups[row]).unwrap_or(row);
    let behind_peers = groups.iter().rposition(|group| *group == groups[row]).unwrap_or(row) + 1;
    let number = |number: usize| ScalarValue::UInt64(Some(number as u64));
    let argument = |row: usize| partition[row][call.arguments[0]].clone();
    Ok(match call.function {
        WindowFunction::RowNumber => number(row + 1),
        WindowFunction::Rank => number(first_peer + 1),
        WindowFunction::DenseRank => number(groups[row] + 1),
        WindowFunction::PercentRank => ScalarValue::Float64(Some(first_peer as f64 / (rows.max(2) - 1) as f64)),
        WindowFunction::CumeDist => ScalarValue::Float64(Some(behind_peers as f64 / rows as f64)),
        WindowFunction::Ntile(tiles) => {
            let tiles = *tiles as usize;
            let mut tile = 1;
            let mut behind = rows / tiles + usize::from(!rows.is_multiple_of(tiles));
            while row >= behind {
                behind += rows / tiles + usize::from(tile < rows % tiles);
                tile += 1;
            }
            number(tile)
        }
        WindowFunction::Shift { offset: 0, .. } => argument(row),
        WindowFunction::Shift { offset, default, ignore_nulls } => {
            let candidates: Vec<usize> = match *offset > 0 {
                true => (0..row).rev().collect(),
                false => (row + 1..rows).collect(),
            };
            let candidates = candidates.into_iter().filter(|&row| !ignore_nulls || !argument(row).is_null());
            candidates.map(argument).nth(offset.unsigned_abs() as usize - 1).unwrap_or_else(|| default.clone())
        }
        WindowFunction::Nth { nth, ignore_nulls } => {
            let none = ScalarValue::try_from(&argument(row).data_type()).map_err(from_datafusion)?;
            let mut candidates = kept(partition, row, keys, call);
            candidates.retain(|&row| !ignore_nulls || !argument(row).is_null());
            if *nth < 0 {
                candidates.reverse();
            }
            let distance = nth.unsigned_abs() as usize;
            let place = distance.checked_sub(1).and_then(|place| candidates.get(place));
            place.map_or(none, |&row| argument(row))
        }
        WindowFunction::NtileOf => {
            let ScalarValue::Int64(Some(tiles)) = partition[0][call.arguments[0]] else {
                return Ok(ScalarValue::Int64(None));
            };
            // As many rows have a part for each number as divides them, one row more for the first ones.
            let (length, longer) = (rows / tiles as usize, rows % tiles as usize);
            let lengths = (0..tiles as usize).map(|tile| length + usize::from(tile < longer));
            let tiles = lengths.enumerate().flat_map(|(tile, length)| std::iter::repeat_n(tile as i64 + 1, length));
            ScalarValue::Int64(tiles.collect::<Vec<_>>().get(row).copied())
        }
        WindowFunction::ShiftOf { is_ahead, ignore_nulls } => {
            let ScalarValue::Int64(Some(offset)) = partition[row][call.arguments[1]] else {
                return ScalarValue::try_from(&argument(row).data_type()).map_err(from_datafusion);
            };
            let offset = if *is_ahead { -offset } else { offset };
            let default = match call.arguments.get(2) {
                Some(&default) => partition[row][default].clone(),
                None => ScalarValue::try_from(&argument(row).data_type()).map_err(from_datafusion)?,
            };
            let shift = WindowFunction::Shift { offset, default, ignore_nulls: *ignore_nulls };
            return value(partition, row, keys, &Call { function: &shift, ..*call });
        }
        WindowFunction::NthOf { ignore_nulls } => {
            let nth = match partition[row][call.arguments[1]] {
                ScalarValue::Int64(Some(nth)) => nth,
                _ => 0,
            };
            let nth = WindowFunction::Nth { nth, ignore_nulls: *ignore_nulls };
            return value(partition, row, keys, &Call { function: &nth, ..*call });
        }
        WindowFunction::Aggregate(function) => {
            let rows = kept(partition, row, keys, call).into_iter().map(|row| &partition[row]).collect::<Vec<_>>();
            aggregate(function, &rows, call)?
        }
    })
}

fn aggregate(function: &AggregateFunctionExpr, rows: &[&Row], call: &Call<'_>) -> Result<ScalarValue> {
    if rows.is_empty() {
        return function.default_value(function.field().data_type()).map_err(from_datafusion);
    }
    let kept = |row: &&&Row| call.filter.is_none_or(|filter| row[filter] == ScalarValue::Boolean(Some(true)));
    let rows = rows.iter().filter(kept).collect::<Vec<_>>();
    let mut accumulator = function.create_accumulator().map_err(from_datafusion)?;
    if !rows.is_empty() {
        let column = |&column: &usize| ScalarValue::iter_to_array(rows.iter().map(|row| row[column].clone()));
        let arrays =
            call.arguments.iter().map(column).collect::<Result<Vec<ArrayRef>, _>>().map_err(from_datafusion)?;
        accumulator.update_batch(&arrays).map_err(from_datafusion)?;
    }
    accumulator.evaluate().map_err(from_datafusion)
}
