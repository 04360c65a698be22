//! Percentiles of groups: values at a place of the order, or between two. Only the rows around each place are put where
//! they belong, so that a percentile takes time in proportion to its rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, IntervalMonthDayNanoArray, ListArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion_common::{Result, exec_datafusion_err};

use super::super::errors::value_error;
use super::super::intervals::{negated, sum, times};
use super::external;
use super::row_order::RowOrder;

/// Which value stands for a share of the way from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Percentile {
    /// `percentile_disc`: the first value that has at least this share of the values up to it.
    Discrete,
    /// `percentile_cont` of floats and intervals: the value at the place, or in proportion between the two around it.
    Continuous,
}

/// The rows around a place of a group.
#[derive(Clone, Copy)]
struct Around {
    low: u32,
    high: u32,
    /// How far the place is from the lower one.
    share: f64,
}

/// Each group's percentile at its fraction, or at each of its array of fractions. `arguments` are the fractions, the
/// same in all rows of a group, and the values; `rows` has the rows of each group up to its one of `ends`, unordered.
/// Fails for fractions outside of 0 to 1, and for intervals that become too long.
pub(super) fn percentiles(
    kind: Percentile,
    arguments: &[ArrayRef],
    mut rows: Vec<u32>,
    ends: &[usize],
    order: &RowOrder,
    returns: &DataType,
) -> Result<ArrayRef> {
    let [fractions, values] = arguments else { return Err(exec_datafusion_err!("a percentile of two arguments")) };
    let begins = std::iter::once(0).chain(ends.iter().copied());
    let ranges = begins.zip(ends).map(|(begin, &end)| begin..end);
    if let Some(fractions) = fractions.as_primitive_opt::<Float64Type>() {
        let mut found = Vec::with_capacity(ends.len());
        for range in ranges {
            let first = rows.get(range.start).filter(|_| !range.is_empty()).map(|row| *row as usize);
            let fraction = first.and_then(|row| fractions.is_valid(row).then(|| fractions.value(row)));
            found.extend(around(kind, &mut rows[range], &[fraction], order)?);
        }
        return values_at(values, &found);
    }
    let DataType::List(field) = returns else { return Err(exec_datafusion_err!("percentiles give lists")) };
    let arrays = fractions.as_list_opt::<i32>();
    let arrays = arrays.ok_or_else(|| exec_datafusion_err!("the fractions of percentiles are no floats"))?;
    let (mut found, mut lengths, mut is_valid) = (Vec::new(), Vec::new(), Vec::new());
    for range in ranges {
        let first = rows.get(range.start).filter(|_| !range.is_empty()).map(|row| *row as usize);
        let fractions = first.filter(|row| arrays.is_valid(*row)).map(|row| arrays.value(row));
        let fractions = fractions.as_ref().and_then(|fractions| fractions.as_primitive_opt::<Float64Type>());
        let wanted = fractions.map(|fractions| fractions.iter().collect::<Vec<_>>());
        is_valid.push(wanted.is_some());
        let wanted = wanted.unwrap_or_default();
        lengths.push(wanted.len());
        found.extend(around(kind, &mut rows[range], &wanted, order)?);
    }
    let elements = values_at(values, &found)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(field.clone(), offsets, elements, Some(NullBuffer::from(is_valid)))?))
}

/// The rows around each fraction of a group; `None` where there is no fraction, or no row.
fn around(
    kind: Percentile,
    rows: &mut [u32],
    fractions: &[Option<f64>],
    order: &RowOrder,
) -> Result<Vec<Option<Around>>> {
    let place = |fraction: &Option<f64>| -> Result<Option<(Range<usize>, f64)>> {
        let Some(share) = *fraction else { return Ok(None) };
        if !(0.0..=1.0).contains(&share) {
            let message = format!("percentile value {share} is not between 0 and 1");
            return Err(external(value_error(message, "22003")));
        }
        Ok(match (kind, rows.len()) {
            (_, 0) => None,
            (Percentile::Discrete, count) => {
                let place = (share * count as f64).ceil().max(1.0) as usize - 1;
                Some((place..place, 0.0))
            }
            (Percentile::Continuous, count) => {
                let place = share * (count - 1) as f64;
                Some((place.floor() as usize..place.ceil() as usize, place - place.floor()))
            }
        })
    };
    let places = fractions.iter().map(place).collect::<Result<Vec<_>>>()?;
    let wanted = places.iter().flatten().flat_map(|(place, _)| [place.start, place.end]);
    order.settle(rows, &wanted.collect::<Vec<_>>());
    let settled = |(place, share): (Range<usize>, f64)| Around { low: rows[place.start], high: rows[place.end], share };
    Ok(places.into_iter().map(|place| place.map(settled)).collect())
}

/// The values at places; NULL where there is none.
fn values_at(values: &ArrayRef, found: &[Option<Around>]) -> Result<ArrayRef> {
    if found.iter().flatten().all(|around| around.low == around.high) {
        let rows = found.iter().map(|around| around.map(|around| around.low)).collect::<UInt32Array>();
        return Ok(take(values, &rows, None)?);
    }
    if let Some(floats) = values.as_primitive_opt::<Float64Type>() {
        let value = |around: &Around| {
            let (low, high) = (floats.value(around.low as usize), floats.value(around.high as usize));
            if around.low == around.high { low } else { low + around.share * (high - low) }
        };
        return Ok(Arc::new(found.iter().map(|around| around.as_ref().map(value)).collect::<Float64Array>()));
    }
    let Some(intervals) = values.as_primitive_opt::<IntervalMonthDayNanoType>() else {
        return Err(exec_datafusion_err!("percentile_cont of {}", values.data_type()));
    };
    let value = |around: &Around| -> diligence_base::Result<IntervalMonthDayNano> {
        let (low, high) = (intervals.value(around.low as usize), intervals.value(around.high as usize));
        if around.low == around.high {
            return Ok(low);
        }
        sum(low, times(sum(high, negated(low)?)?, around.share)?)
    };
    let values = found.iter().map(|around| around.as_ref().map(value).transpose().map_err(external));
    Ok(Arc::new(IntervalMonthDayNanoArray::from_iter(values.collect::<Result<Vec<_>>>()?)))
}

#[cfg(test)]
mod tests {
    use arrow::array::Float64Array;
    use arrow::compute::SortOptions;

    use super::*;

    #[test]
    fn percentiles_lie_between_the_rows_around_them() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![4.0, 5.0, 1.0, 8.0, 2.0]));
        let fractions: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 0.1, 0.5, 0.5, 0.5]));
        let of = |kind, fractions: &ArrayRef, direction: SortOptions| {
            let order = RowOrder::new(std::slice::from_ref(&values), &[direction]).unwrap();
            let arguments = [fractions.clone(), values.clone()];
            let rows = vec![0, 2, 3, 4, 1];
            let found = percentiles(kind, &arguments, rows, &[4, 5, 5], &order, &DataType::Float64);
            found.map(|found| found.as_primitive::<Float64Type>().iter().collect::<Vec<_>>())
        };
        let (up, down) = (SortOptions::default(), SortOptions { descending: true, nulls_first: false });
        assert_eq!(of(Percentile::Continuous, &fractions, up).unwrap(), [Some(3.0), Some(5.0), None]);
        assert_eq!(of(Percentile::Discrete, &fractions, up).unwrap(), [Some(2.0), Some(5.0), None]);
        assert_eq!(of(Percentile::Discrete, &fractions, down).unwrap(), [Some(4.0), Some(5.0), None]);
        let beyond: ArrayRef = Arc::new(Float64Array::from(vec![1.5; 5]));
        let error = of(Percentile::Discrete, &beyond, up).unwrap_err();
        assert!(error.to_string().contains("not between 0 and 1"), "{error}");
    }

    #[test]
    fn an_array_of_fractions_gives_an_array() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![3.0, 1.0, 2.0]));
        let shares = [Some(1.0), None, Some(0.0), Some(0.5), Some(0.25), Some(0.75)];
        let array = || Some(shares.to_vec());
        let fractions = ListArray::from_iter_primitive::<Float64Type, _, _>([array(), array(), array()]);
        let order = RowOrder::new(std::slice::from_ref(&values), &[SortOptions::default()]).unwrap();
        let returns = fractions.data_type().clone();
        let arguments: [ArrayRef; 2] = [Arc::new(fractions), values];
        let found = percentiles(Percentile::Continuous, &arguments, vec![0, 1, 2], &[3, 3], &order, &returns).unwrap();
        let found = found.as_list::<i32>();
        let first = found.value(0).as_primitive::<Float64Type>().iter().collect::<Vec<_>>();
        assert_eq!(first, [Some(3.0), None, Some(1.0), Some(2.0), Some(1.5), Some(2.5)]);
        assert!(found.is_null(1));
    }
}
