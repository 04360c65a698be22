//! Bins of histograms, as DuckDB has them: their bounds, and how many values of a group are in each.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    ListArray, StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::{concat, take};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::calendar::is_infinite;
use super::catalog::Catalog;
use super::columns::{Columns, Date, List, Timestamp, kernel, lists, too_large};
use super::comparisons::comparer;
use super::errors::{datetime_overflow, invalid_argument, value_error};
use super::lists::maps;
use super::{Body, Call};
use crate::SqlType;

/// Bins at most.
const BINS_MAX: i64 = 1_000_000;

/// Bits of a string of a group's numbers at most.
const BITS_MAX: i64 = 1 << 27;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add(
        "equi_width_bins(integer, integer, bigint, boolean) -> integer[]",
        kernel!(try |least: i32, most: i32, count: i64, is_nice: bool| {
            let bounds = integer_bounds(least.into(), most.into(), count, is_nice)?;
            let narrow = |bound: i64| i32::try_from(bound).map_err(|_| value_error("integer out of range", "22003"));
            bounds.into_iter().map(narrow).collect::<Result<Vec<_>>>().map(List)
        }),
    );
    catalog.add(
        "equi_width_bins(bigint, bigint, bigint, boolean) -> bigint[]",
        kernel!(try |least: i64, most: i64, count: i64, is_nice: bool| {
            integer_bounds(least, most, count, is_nice).map(List)
        }),
    );
    catalog.add(
        "equi_width_bins(double precision, double precision, bigint, boolean) -> double precision[]",
        kernel!(try |least: f64, most: f64, count: i64, is_nice: bool| {
            float_bounds(least, most, count, is_nice).map(List)
        }),
    );
    catalog.add(
        "equi_width_bins(date, date, bigint, boolean) -> date[]",
        kernel!(try |least: Date, most: Date, count: i64, is_nice: bool| {
            // A bound is a moment of a day.
            let moment = |day: Date| i64::from(day.0).checked_mul(DAY).ok_or_else(|| datetime_overflow("timestamp"));
            let bounds = time_bounds(moment(least)?, moment(most)?, count, is_nice)?;
            Ok(List(bounds.into_iter().map(|bound| Date(bound.div_euclid(DAY) as i32)).collect()))
        }),
    );
    catalog.add(
        "equi_width_bins(timestamp, timestamp, bigint, boolean) -> timestamp[]",
        kernel!(try |least: Timestamp, most: Timestamp, count: i64, is_nice: bool| {
            let bounds = time_bounds(least.0, most.0, count, is_nice)?;
            Ok(List(bounds.into_iter().map(Timestamp).collect()))
        }),
    );
    for sql_type in ["smallint", "integer", "bigint", "real", "double precision", "date", "timestamp", "text"] {
        let signature = format!("is_histogram_other_bin({sql_type}) -> boolean");
        catalog.add(Box::leak(signature.into_boxed_str()), Body::Kernel(is_other));
    }
    // What aggregates make of the array of a group's values.
    catalog.add("histogram_in_bins(anyarray, anyarray, boolean) -> text", Body::Kernel(histogram)).gives(|types, _| {
        let key = types.first().and_then(SqlType::element).cloned().unwrap_or(SqlType::Text);
        Ok(SqlType::Map(Arc::new((key, SqlType::BigInt))))
    });
    catalog.add(
        "bitstring_of_values(bigint[], bigint, bigint) -> varbit",
        kernel!(try |values: ArrayRef, least: i64, most: i64| bit_string(&values, least, most)),
    );
}

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Fails with 22023 for a number of bins or bounds that make none.
fn check(is_ordered: bool, count: i64) -> Result<()> {
    if !is_ordered {
        return Err(invalid_argument("the greatest value of bins is less than the least"));
    }
    match (1..=BINS_MAX).contains(&count) {
        true => Ok(()),
        false => Err(invalid_argument(format!("the number of bins must be from 1 to {BINS_MAX}, not {count}"))),
    }
}

/// The greatest power of ten that is less than a width, from 1 on.
fn power_below(width: i128) -> i128 {
    let mut power = 1;
    while power * 10 < width {
        power *= 10;
    }
    power
}

/// A width that people would choose: a multiple of two or of five at its second digit, whichever is nearer.
fn nice_width(width: i128) -> i128 {
    let power = power_below(width);
    let two = if power * 3 <= width { power * 10 } else { power * 2 };
    let five = if power * 2 <= width { power * 5 } else { power };
    let [by_two, by_five] = [two, five].map(|unit| (width + unit / 2) / unit * unit);
    if (width - by_two).abs() < (width - by_five).abs() { by_two } else { by_five }
}

/// The upper bounds of bins of integers, ascending. They are computed in thousandths.
fn integer_bounds(least: i64, most: i64, count: i64, is_nice: bool) -> Result<Vec<i64>> {
    check(least <= most, count)?;
    let (low, mut high) = (i128::from(least) * 1000, i128::from(most) * 1000);
    let (mut step, mut bins_max) = ((high - low) / i128::from(count), count as usize);
    if is_nice {
        let nice = nice_width(step);
        if nice > 0 {
            // Below zero, the next multiple is one above, as in DuckDB.
            let upper = (high + nice - 1) / nice * nice;
            if upper != low {
                (high, step) = (upper, nice);
            }
        }
        bins_max *= 2;
    }
    let out_of_range = || value_error("bigint out of range", "22003");
    let mut bounds = vec![i64::try_from(high / 1000).map_err(|_| out_of_range())?];
    let mut bound = high - step;
    while step > 0 && bound > low && bounds.len() < bins_max {
        let whole = i64::try_from(bound / 1000).map_err(|_| out_of_range())?;
        if whole < least {
            break;
        }
        if bounds.last() != Some(&whole) {
            bounds.push(whole);
        }
        bound -= step;
    }
    bounds.reverse();
    Ok(bounds)
}

/// The upper bounds of bins of floats, ascending.
fn float_bounds(least: f64, most: f64, count: i64, is_nice: bool) -> Result<Vec<f64>> {
    if !least.is_finite() || !most.is_finite() {
        return Err(invalid_argument("bins have finite bounds"));
    }
    check(least <= most, count)?;
    if least == most {
        return Ok(vec![most]);
    }
    let parts = count as f64;
    let mut step = most / parts - least / parts;
    if (most - least).is_finite() {
        step = (most - least) / parts;
    }
    let (mut high, mut bins_max, mut digits) = (most, count as usize, None);
    if is_nice {
        let power = 10_f64.powi(step.log10().ceil() as i32 - 1);
        let two = if power * 3.0 <= step { power * 10.0 } else { power * 2.0 };
        let five = if power * 2.0 <= step { power * 5.0 } else { power };
        let [by_two, by_five] = [two, five].map(|unit| (step / unit).round() * unit);
        let nice = if (step - by_two).abs() < (step - by_five).abs() { by_two } else { by_five };
        let upper = (most / nice).ceil() * nice;
        if nice > 0.0 && upper.is_finite() {
            (step, high, digits) = (nice, upper, Some(10.0 / power));
        }
        bins_max *= 2;
    }
    let (mut bounds, mut bound) = (Vec::new(), high);
    while bound > least && bounds.len() < bins_max {
        // Steps add up inaccuracies.
        let shown = digits.map_or(bound, |digits| (bound * digits).round() / digits);
        if shown <= least || bound - step == bound {
            break;
        }
        if bounds.last() != Some(&shown) {
            bounds.push(shown);
        }
        bound -= step;
    }
    bounds.reverse();
    Ok(bounds)
}

/// The upper bounds of bins of moments, ascending. Fails with 0A000 for nice ones.
fn time_bounds(least: i64, most: i64, count: i64, is_nice: bool) -> Result<Vec<i64>> {
    if is_nice {
        let error = Error::unsupported("bins of times with nice bounds are not supported").with_code("0A000");
        return Err(error.with_hint("say false for bins of equal width, or use date_trunc or time_bucket"));
    }
    if is_infinite(least) || is_infinite(most) {
        return Err(invalid_argument("bins have finite bounds"));
    }
    integer_bounds(least, most, count, false)
}

/// The value of a type that stands for all values that are in no bin; `None` if it has none.
fn other_bin(sql_type: &SqlType) -> Option<ArrayRef> {
    Some(match sql_type {
        SqlType::SmallInt => Arc::new(Int16Array::from(vec![i16::MAX])),
        SqlType::Integer => Arc::new(Int32Array::from(vec![i32::MAX])),
        SqlType::BigInt => Arc::new(Int64Array::from(vec![i64::MAX])),
        SqlType::Real => Arc::new(Float32Array::from(vec![f32::INFINITY])),
        SqlType::Double => Arc::new(Float64Array::from(vec![f64::INFINITY])),
        SqlType::Date => Arc::new(Date32Array::from(vec![i32::MAX])),
        SqlType::Timestamp => Arc::new(TimestampMicrosecondArray::from(vec![i64::MAX])),
        SqlType::Text | SqlType::Varchar(_) => Arc::new(StringViewArray::from(vec![""])),
        _ => return None,
    })
}

fn is_other(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let sql_type = call.arguments.first().ok_or_else(|| Error::bug("a bin of no type"))?;
    let other = other_bin(sql_type).ok_or_else(|| Error::bug("a bin of a type without others"))?;
    let values = columns.arrays().first().ok_or_else(|| Error::bug("a bin without a value"))?;
    let compare = comparer(sql_type, values, &other)?;
    let is_it = |row: usize| {
        let row = if values.len() == 1 { 0 } else { row };
        values.is_valid(row).then(|| compare(row, 0) == Ordering::Equal)
    };
    columns.result(Arc::new((0..columns.rows()).map(is_it).collect::<BooleanArray>()))
}

/// How many of a group's values are in each bin, up to its bound, or equal to it; those in none are under a value of
/// their own, unless there are none.
fn histogram(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let bug = |error: arrow::error::ArrowError| Error::bug(error.to_string());
    let columns = Columns::new(arguments, call);
    let [values, bounds, exact] = columns.arrays() else { return Err(Error::bug("bins are of three arguments")) };
    let (values, bounds) = (lists(values)?, lists(bounds)?);
    let exact = exact.as_any().downcast_ref::<BooleanArray>();
    let is_exact = exact.is_some_and(|exact| !exact.is_empty() && exact.is_valid(0) && exact.value(0));
    let element = call.arguments.first().and_then(SqlType::element).ok_or_else(|| Error::bug("values of no type"))?;
    let among = comparer(element, bounds.values(), bounds.values())?;
    let compare = comparer(element, values.values(), bounds.values())?;
    let other = other_bin(element);
    // The bounds, and behind them the value for those in no bin.
    let all = match &other {
        Some(other) => concat(&[bounds.values().as_ref(), other.as_ref()]).map_err(bug)?,
        None => bounds.values().clone(),
    };
    let (mut keys, mut counts, mut ends, mut valid) = (vec![], vec![], vec![0_i32], vec![]);
    for row in 0..columns.rows() {
        let [own, told] = [values, bounds].map(|list| if list.len() == 1 { 0 } else { row });
        let is_there = values.is_valid(own) && bounds.is_valid(told);
        valid.push(is_there);
        if is_there {
            let range = |list: &ListArray, row: usize| {
                let ends = list.value_offsets();
                ends[row] as usize..ends[row + 1] as usize
            };
            let mut bins = range(bounds, told).filter(|at| bounds.values().is_valid(*at)).collect::<Vec<_>>();
            bins.sort_by(|a, b| among(*a, *b));
            bins.dedup_by(|a, b| among(*a, *b) == Ordering::Equal);
            let (mut inside, mut outside) = (vec![0_i64; bins.len()], 0_i64);
            for at in range(values, own).filter(|at| values.values().is_valid(*at)) {
                let bin = bins.partition_point(|bound| compare(at, *bound) == Ordering::Greater);
                let is_in = bins.get(bin).is_some_and(|bound| !is_exact || compare(at, *bound) == Ordering::Equal);
                if is_in { inside[bin] += 1 } else { outside += 1 }
            }
            keys.extend(bins.iter().map(|at| *at as u64));
            counts.extend(inside);
            if outside > 0 && other.is_some() {
                keys.push(all.len() as u64 - 1);
                counts.push(outside);
            }
        }
        ends.push(i32::try_from(keys.len()).map_err(|_| too_large())?);
    }
    let keys = take(&all, &UInt64Array::from(keys), None).map_err(bug)?;
    maps(call, &columns, keys, Arc::new(Int64Array::from(counts)), ends, valid.into())
}

/// A bit for each number from the least to the greatest: one if a group has it.
fn bit_string(values: &ArrayRef, least: i64, most: i64) -> Result<String> {
    let values = values.as_any().downcast_ref::<Int64Array>().ok_or_else(|| Error::bug("numbers that are none"))?;
    let length = most.checked_sub(least).and_then(|length| length.checked_add(1)).filter(|length| *length > 0);
    let length = length.filter(|length| *length <= BITS_MAX).ok_or_else(|| {
        let message = format!("a string of bits for the numbers from {least} to {most} is empty or too long");
        value_error(message, "22003")
    })?;
    let mut bits = vec![b'0'; length as usize];
    for value in values.iter().flatten() {
        let place = value.checked_sub(least).and_then(|place| usize::try_from(place).ok());
        let bit = place
            .and_then(|place| bits.get_mut(place))
            .ok_or_else(|| value_error(format!("the value {value} is not between {least} and {most}"), "22003"))?;
        *bit = b'1';
    }
    String::from_utf8(bits).map_err(|_| Error::bug("bits that are no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_duckdb() {
        assert_eq!(integer_bounds(0, 10, 2, true).unwrap(), [5, 10]);
        assert_eq!(integer_bounds(0, 10, 4, false).unwrap(), [2, 5, 7, 10]);
        assert_eq!(integer_bounds(0, 1000, 5, true).unwrap(), [200, 400, 600, 800, 1000]);
        assert_eq!(integer_bounds(3, 97, 5, true).unwrap(), [20, 40, 60, 80, 100]);
        assert_eq!(integer_bounds(3, 1234, 6, true).unwrap(), [200, 400, 600, 800, 1000, 1200, 1400]);
        assert_eq!(integer_bounds(0, 3, 10, false).unwrap(), [0, 1, 2, 3]);
        assert_eq!(integer_bounds(-5, 5, 3, false).unwrap(), [-1, 1, 5]);
        assert_eq!(integer_bounds(0, 9, 3, true).unwrap(), [5, 10]);
        assert_eq!(integer_bounds(5, 5, 3, false).unwrap(), [5]);
        assert_eq!(float_bounds(0.0, 1.0, 5, true).unwrap(), [0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(float_bounds(0.0, 97.3, 5, true).unwrap(), [20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(float_bounds(0.0, 10.0, 3, false).unwrap().len(), 3);
        assert!(integer_bounds(5, 3, 3, false).is_err() && integer_bounds(0, 5, 0, false).is_err());
    }
}
