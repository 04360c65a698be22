//! Functions of arrays (manual, sections 9.19 and 9.25).
//!
//! Arrays are lists that begin at 1; arrays of more dimensions are lists of lists. Functions that give rows in
//! PostgreSQL (`generate_series`, `generate_subscripts`) give an array here, which the front makes rows of.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, StringViewArray, new_empty_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Int32Type, IntervalMonthDayNano, i256};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::calendar::is_infinite;
use super::catalog::Catalog;
use super::columns::{Columns, Interval, List, Timestamp, VALUE_BYTES_MAX, kernel, lists, too_large};
use super::comparisons::{comparer, length};
use super::decimal::Decimal;
use super::errors::{invalid_argument, value_error};
use super::intervals::{plus, plus_in_zone};
use super::strings::texts_of;
use super::zones::Zones;
use super::{Body, Call, Kernel};
use crate::SqlType;
use crate::sql_type::RecordField;

/// Elements that a generated array has at most, of eight bytes each.
const ELEMENTS_MAX: i128 = (VALUE_BYTES_MAX / 8) as i128;
/// Numbers of a generated array of decimals: each takes 32 bytes while it is made, and as many in the array.
const DECIMALS_MAX: i128 = ELEMENTS_MAX / 8;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    measured(catalog);
    built(catalog);
    searched(catalog);
    compared(catalog);
    quantifiers(catalog);
    series(catalog);
    texts(catalog);
}

/// The rows of a list argument.
pub(super) struct Rows<'a> {
    pub(super) list: &'a ListArray,
    pub(super) step: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn of(array: &'a ArrayRef) -> Result<Self> {
        Ok(Self { list: lists(array)?, step: usize::from(array.len() != 1) })
    }

    /// The places of a row's elements among all; `None` for NULL.
    pub(super) fn range(&self, row: usize) -> Option<std::ops::Range<usize>> {
        let row = row * self.step;
        let offsets = self.list.value_offsets();
        self.list.is_valid(row).then(|| offsets[row] as usize..offsets[row + 1] as usize)
    }
}

/// Where an element of a result comes from: which source, and where in it.
pub(super) type Pick = (usize, usize);

/// The lists of elements picked from sources. Fails if the elements are too many.
pub(super) fn picked(call: &Call<'_>, sources: &[&dyn Array], rows: Vec<Option<Vec<Pick>>>) -> Result<ArrayRef> {
    let data_type = call.returns.arrow();
    let DataType::List(item) = &data_type else { return Err(Error::bug("an array function gives an array")) };
    let mut offsets = vec![0_i32];
    let mut picks: Vec<Pick> = Vec::new();
    for row in &rows {
        picks.extend(row.iter().flatten());
        offsets.push(i32::try_from(picks.len()).map_err(|_| too_large())?);
    }
    let elements = match picks.is_empty() {
        true => new_empty_array(item.data_type()),
        false => interleave(sources, &picks).map_err(|error| Error::bug(error.to_string()))?,
    };
    let nulls = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    let list = ListArray::try_new(item.clone(), OffsetBuffer::new(offsets.into()), elements, Some(nulls));
    Ok(Arc::new(list.map_err(|error| Error::bug(error.to_string()))?))
}

fn element_type<'c>(call: &'c Call<'_>, argument: usize) -> Result<&'c SqlType> {
    call.arguments[argument].element().ok_or_else(|| Error::bug("an argument that is no array"))
}

/// The length of a dimension, from 1; `None` if there is none.
fn dimension(array: &ArrayRef, which: i32) -> Option<usize> {
    match (which, array.len()) {
        (..1, _) | (_, 0) => None,
        (1, length) => Some(length),
        (deeper, _) => dimension(&array.as_list_opt::<i32>()?.value(0), deeper - 1),
    }
}

fn cardinality(array: &ArrayRef) -> usize {
    match array.as_list_opt::<i32>() {
        Some(lists) => (0..lists.len()).map(|row| cardinality(&lists.value(row))).sum(),
        None => array.len(),
    }
}

fn dimensions(array: &ArrayRef) -> Vec<usize> {
    (1..=6).map_while(|which| dimension(array, which)).collect()
}

fn measured(catalog: &mut Catalog) {
    catalog.add_all(
        &["array_length(anyarray, integer) -> integer", "array_upper(anyarray, integer) -> integer"],
        kernel!(|a: ArrayRef, which: i32| dimension(&a, which).map(|length| length as i32)),
    );
    catalog.add(
        "array_lower(anyarray, integer) -> integer",
        kernel!(|a: ArrayRef, which: i32| dimension(&a, which).map(|_| 1_i32)),
    );
    catalog.add("cardinality(anyarray) -> integer", kernel!(|a: ArrayRef| cardinality(&a) as i32));
    catalog.add_all(
        &["duckdb array_length(anyarray) -> bigint", "len(anyarray) -> bigint", "duckdb length(anyarray) -> bigint"],
        kernel!(|a: ArrayRef| a.len() as i64),
    );
    catalog.add(
        "array_ndims(anyarray) -> integer",
        kernel!(|a: ArrayRef| Some(dimensions(&a).len() as i32).filter(|count| *count > 0)),
    );
    catalog.add(
        "array_dims(anyarray) -> text",
        kernel!(|a: ArrayRef| {
            let text: String = dimensions(&a).iter().map(|length| format!("[1:{length}]")).collect();
            Some(text).filter(|text| !text.is_empty())
        }),
    );
    catalog.add(
        "generate_subscripts(anyarray, integer) -> integer[]",
        kernel!(|a: ArrayRef, which: i32| List((1..=dimension(&a, which).unwrap_or(0) as i32).collect())),
    );
    catalog.add(
        "generate_subscripts(anyarray, integer, boolean) -> integer[]",
        kernel!(|a: ArrayRef, which: i32, is_reversed: bool| {
            let subscripts = 1..=dimension(&a, which).unwrap_or(0) as i32;
            List(if is_reversed { subscripts.rev().collect() } else { subscripts.collect() })
        }),
    );
}

/// A list argument and others that are elements, put together row by row.
fn assembled(
    arguments: &[ColumnarValue],
    call: &Call<'_>,
    of: impl Fn(&[Source<'_>], usize) -> Option<Vec<Pick>>,
) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let sources = columns.arrays().iter().zip(call.arguments).enumerate().map(|(index, (array, sql_type))| {
        Ok(match (sql_type, call.returns) {
            (given, wanted) if given == wanted => Source::Lists(index, Rows::of(array)?),
            (..) => Source::Elements(index, usize::from(array.len() != 1)),
        })
    });
    let sources: Vec<Source<'_>> = sources.collect::<Result<_>>()?;
    let values: Vec<&dyn Array> = columns
        .arrays()
        .iter()
        .zip(&sources)
        .map(|(array, source)| match source {
            Source::Lists(_, rows) => rows.list.values().as_ref(),
            Source::Elements(..) => array.as_ref(),
        })
        .collect();
    let rows = (0..columns.rows()).map(|row| of(&sources, row)).collect();
    // Sources that are no elements (subscripts) are not picked from.
    let element = match &call.returns.arrow() {
        DataType::List(item) => item.data_type().clone(),
        other => return Err(Error::bug(format!("an array function gives {other}"))),
    };
    let empty = new_empty_array(&element);
    let values: Vec<&dyn Array> =
        values.into_iter().map(|value| if *value.data_type() == element { value } else { empty.as_ref() }).collect();
    columns.result(picked(call, &values, rows)?)
}

enum Source<'a> {
    Lists(usize, Rows<'a>),
    Elements(usize, usize),
}

impl Source<'_> {
    /// What a row has of this source; `None` for a list that is NULL.
    fn picks(&self, row: usize) -> Option<Vec<Pick>> {
        match self {
            Self::Lists(index, rows) => rows.range(row).map(|range| range.map(|place| (*index, place)).collect()),
            Self::Elements(index, step) => Some(vec![(*index, row * step)]),
        }
    }
}

fn joined(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    assembled(arguments, call, |sources, row| {
        let has_element = sources.iter().any(|source| matches!(source, Source::Elements(..)));
        let parts: Vec<Option<Vec<Pick>>> = sources.iter().map(|source| source.picks(row)).collect();
        // NULL beside an array or an element counts as empty; only of nothing but NULLs comes NULL.
        match has_element || parts.iter().any(Option::is_some) {
            true => Some(parts.into_iter().flatten().flatten().collect()),
            false => None,
        }
    })
}

/// The integers of a column, by row.
pub(super) fn integers(array: &ArrayRef) -> Result<impl Fn(usize) -> Option<i32> + '_> {
    let integers: &Int32Array =
        array.as_primitive_opt::<Int32Type>().ok_or_else(|| Error::bug("a subscript that is no integer"))?;
    let step = usize::from(array.len() != 1);
    Ok(move |row: usize| integers.is_valid(row * step).then(|| integers.value(row * step)))
}

/// `"array part"(array, from, to)`: what `a[from:to]` means in PostgreSQL; a bound that is left out is NULL.
fn part(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let (rows, from, to) = (Rows::of(&arrays[0])?, integers(&arrays[1])?, integers(&arrays[2])?);
    let cut = |row: usize| {
        let range = rows.range(row)?;
        let from = i64::from(from(row).unwrap_or(1)).max(1);
        let to = to(row).map_or(range.len() as i64, i64::from).min(range.len() as i64);
        Some((from..=to).map(|place| (0, range.start + place as usize - 1)).collect())
    };
    let cuts = (0..columns.rows()).map(cut).collect();
    columns.result(picked(call, &[rows.list.values().as_ref()], cuts)?)
}

/// A place in a list of DuckDB's: below 0, it is counted from the end, which is -1.
fn from_end(place: i64, length: i64) -> i64 {
    if place < 0 { length + place + 1 } else { place }
}

/// DuckDB's `list_slice(list, from, to, step)`: places below 0 are counted from the end, and a step below 0 goes back.
fn slice(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let (rows, from, to) = (Rows::of(&arrays[0])?, integers(&arrays[1])?, integers(&arrays[2])?);
    let step = match arrays.get(3) {
        Some(step) => Some(integers(step)?),
        None => None,
    };
    let cut = |row: usize| {
        let (Some(range), Some(from), Some(to)) = (rows.range(row), from(row), to(row)) else { return Ok(None) };
        let length = range.len() as i64;
        let (from, to) = (from_end(i64::from(from), length), from_end(i64::from(to), length));
        let step = match &step {
            None => 1,
            Some(step) => match step(row) {
                None => return Ok(None),
                Some(0) => return Err(value_error("slice step cannot be zero", "22023")),
                Some(step) => step,
            },
        };
        let pick = |place: i64| (0, range.start + place as usize - 1);
        let by = step.unsigned_abs() as usize;
        Ok(Some(match step > 0 {
            true => (from.max(1)..=to.min(length)).step_by(by).map(pick).collect(),
            false => (to.max(1)..=from.min(length)).rev().step_by(by).map(pick).collect(),
        }))
    };
    let cuts = (0..columns.rows()).map(cut).collect::<Result<_>>()?;
    columns.result(picked(call, &[rows.list.values().as_ref()], cuts)?)
}

/// A part of a text, by places that are counted from the end if they are below 0.
fn text_part(text: &str, from: i64, to: i64) -> String {
    let length = text.chars().count() as i64;
    let (from, to) = (from_end(from, length).max(1), from_end(to, length).min(length));
    let count = usize::try_from(to - from + 1).unwrap_or(0);
    text.chars().skip(from as usize - 1).take(count).collect()
}

/// A character of a text; empty if there is none.
fn text_element(text: &str, place: i64) -> String {
    let place = from_end(place, text.chars().count() as i64);
    let place = usize::try_from(place - 1).ok();
    place.and_then(|place| text.chars().nth(place)).map(String::from).unwrap_or_default()
}

/// `array_get(array, subscript)`: what `a[i]` means; NULL beyond the array.
fn get(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    element(arguments, call, |place, _| place)
}

/// DuckDB's `list_extract(list, place)`.
fn extract(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    element(arguments, call, from_end)
}

fn element(arguments: &[ColumnarValue], call: &Call<'_>, of: fn(i64, i64) -> i64) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let (rows, place) = (Rows::of(&arrays[0])?, integers(&arrays[1])?);
    let at = |row: usize| {
        let range = rows.range(row)?;
        let place = usize::try_from(of(i64::from(place(row)?), range.len() as i64)).ok()?.checked_sub(1)?;
        (place < range.len()).then_some((range.start + place) as u64)
    };
    let indices: arrow::array::UInt64Array = (0..columns.rows()).map(at).collect();
    let values = arrow::compute::take(rows.list.values(), &indices, None);
    columns.result(values.map_err(|error| Error::bug(error.to_string()))?)
}

fn trim(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let (rows, count) = (Rows::of(&arrays[0])?, integers(&arrays[1])?);
    let trimmed = |row: usize| {
        let Some((range, count)) = rows.range(row).zip(count(row)) else { return Ok(None) };
        let kept = usize::try_from(count).ok().and_then(|count| range.len().checked_sub(count));
        let message = || format!("number of elements to trim must be between 0 and {}", range.len());
        let kept = kept.ok_or_else(|| value_error(message(), "2202E"))?;
        Ok(Some(range.take(kept).map(|place| (0, place)).collect()))
    };
    let cuts = (0..columns.rows()).map(trimmed).collect::<Result<_>>()?;
    columns.result(picked(call, &[rows.list.values().as_ref()], cuts)?)
}

/// DuckDB's `repeat(list, times)`: the elements so many times over. Fails with 54000 if these are too many.
fn repeat(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let (rows, times) = (Rows::of(&arrays[0])?, integers(&arrays[1])?);
    let mut left = ELEMENTS_MAX / 8;
    let repeated = |row: usize| {
        let Some((range, times)) = rows.range(row).zip(times(row)) else { return Ok(None) };
        let times = usize::try_from(times).unwrap_or(0);
        left -= times as i128 * range.len() as i128;
        if left < 0 {
            return Err(value_error("array size exceeds the maximum allowed", "54000"));
        }
        Ok(Some(std::iter::repeat_n(range, times).flatten().map(|place| (0, place)).collect()))
    };
    let lists = (0..columns.rows()).map(repeated).collect::<Result<_>>()?;
    columns.result(picked(call, &[rows.list.values().as_ref()], lists)?)
}

fn fill(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let (step, lengths) = (usize::from(arrays[0].len() != 1), Rows::of(&arrays[1])?);
    let filled = |row: usize| {
        let Some(range) = lengths.range(row) else {
            return Err(value_error("dimension array or low bound array cannot be null", "22004"));
        };
        let wanted: &Int32Array = lengths
            .list
            .values()
            .as_primitive_opt::<Int32Type>()
            .ok_or_else(|| Error::bug("dimensions that are no integers"))?;
        let count = match range.len() {
            0 => 0,
            1 => wanted.value(range.start),
            _ => return Err(Error::unsupported("array_fill of several dimensions is not supported")),
        };
        let count = usize::try_from(count).map_err(|_| invalid_argument("array size exceeds the maximum allowed"))?;
        if count as i128 > ELEMENTS_MAX {
            return Err(value_error("array size exceeds the maximum allowed", "54000"));
        }
        Ok(Some(vec![(0, row * step); count]))
    };
    let rows = (0..columns.rows()).map(filled).collect::<Result<_>>()?;
    columns.result(picked(call, &[arrays[0].as_ref()], rows)?)
}

fn built(catalog: &mut Catalog) {
    let join: Kernel = joined;
    for signature in [
        "array_append(anycompatiblearray, anycompatible) -> anycompatiblearray",
        "array_prepend(anycompatible, anycompatiblearray) -> anycompatiblearray",
        "array_cat(anycompatiblearray, anycompatiblearray) -> anycompatiblearray",
        "array_concat(variadic anycompatiblearray) -> anycompatiblearray",
        "list_cat(variadic anycompatiblearray) -> anycompatiblearray",
        "list_concat(variadic anycompatiblearray) -> anycompatiblearray",
        "||(anycompatiblearray, anycompatible) -> anycompatiblearray",
        "||(anycompatible, anycompatiblearray) -> anycompatiblearray",
        "||(anycompatiblearray, anycompatiblearray) -> anycompatiblearray",
    ] {
        catalog.add(signature, Body::Kernel(join)).lenient();
    }
    for signature in [
        "array_slice(anyarray, integer, integer) -> anyarray",
        "array_slice(anyarray, integer, integer, integer) -> anyarray",
        "list_slice(anyarray, integer, integer) -> anyarray",
        "list_slice(anyarray, integer, integer, integer) -> anyarray",
    ] {
        catalog.add(signature, Body::Kernel(slice)).lenient();
    }
    catalog.add("array part(anyarray, integer, integer) -> anyarray", Body::Kernel(part)).lenient();
    for signature in [
        "list_extract(anyarray, integer) -> anyelement",
        "list_element(anyarray, integer) -> anyelement",
        "array_extract(anyarray, integer) -> anyelement",
    ] {
        catalog.add(signature, Body::Kernel(extract));
    }
    catalog.add_all(
        &[
            "text part(text, bigint, bigint) -> text",
            "list_slice(text, bigint, bigint) -> text",
            "array_slice(text, bigint, bigint) -> text",
        ],
        kernel!(|a: &str, from: i64, to: i64| text_part(a, from, to)),
    );
    catalog.add_all(
        &[
            "text element(text, bigint) -> text",
            "list_extract(text, bigint) -> text",
            "list_element(text, bigint) -> text",
            "array_extract(text, bigint) -> text",
        ],
        kernel!(|a: &str, place: i64| text_element(a, place)),
    );
    catalog.add("array_get(anyarray, integer) -> anyelement", Body::Kernel(get));
    catalog.add("duckdb repeat(anyarray, integer) -> anyarray", Body::Kernel(repeat));
    catalog.add("trim_array(anyarray, integer) -> anyarray", Body::Kernel(trim));
    catalog.add("array_fill(anyelement, integer[]) -> anyarray", Body::Kernel(fill)).lenient();
    catalog
        .add("array_remove(anycompatiblearray, anycompatible) -> anycompatiblearray", Body::Kernel(remove))
        .lenient();
    catalog
        .add(
            "array_replace(anycompatiblearray, anycompatible, anycompatible) -> anycompatiblearray",
            Body::Kernel(replace),
        )
        .lenient();
}

/// Whether an element equals a value of another column; NULLs are equal.
fn equals(call: &Call<'_>, list: &ListArray, other: &ArrayRef) -> Result<impl Fn(usize, usize) -> bool + use<>> {
    let compare = comparer(element_type(call, 0)?, list.values(), other)?;
    let step = usize::from(other.len() != 1);
    Ok(move |place: usize, row: usize| compare(place, row * step) == Ordering::Equal)
}

fn remove(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let rows = Rows::of(&arrays[0])?;
    let is_removed = equals(call, rows.list, &arrays[1])?;
    let kept = |row: usize| {
        let kept = rows.range(row)?.filter(|place| !is_removed(*place, row));
        Some(kept.map(|place| (0, place)).collect())
    };
    let kept = (0..columns.rows()).map(kept).collect();
    columns.result(picked(call, &[rows.list.values().as_ref()], kept)?)
}

fn replace(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let rows = Rows::of(&arrays[0])?;
    let is_replaced = equals(call, rows.list, &arrays[1])?;
    let step = usize::from(arrays[2].len() != 1);
    let replaced = |row: usize| {
        let pick = |place: usize| if is_replaced(place, row) { (1, row * step) } else { (0, place) };
        Some(rows.range(row)?.map(pick).collect())
    };
    let replaced = (0..columns.rows()).map(replaced).collect();
    columns.result(picked(call, &[rows.list.values().as_ref(), arrays[2].as_ref()], replaced)?)
}

/// The places of a value, from 1.
fn places(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<Vec<Option<Vec<i32>>>> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let rows = Rows::of(&arrays[0])?;
    let is_equal = equals(call, rows.list, &arrays[1])?;
    let found = |row: usize| {
        let range = rows.range(row)?;
        let start = range.start;
        Some(range.filter(|place| is_equal(*place, row)).map(|place| (place - start) as i32 + 1).collect())
    };
    Ok((0..columns.rows()).map(found).collect())
}

fn position(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let found = places(arguments, call)?;
    let columns = Columns::new(arguments, call);
    let start = match columns.arrays().get(2) {
        Some(start) => Some(integers(start)?),
        None => None,
    };
    let first = found.into_iter().enumerate().map(|(row, places)| match &start {
        None => Ok(places.and_then(|places| places.first().copied())),
        Some(start) => {
            let start = start(row).ok_or_else(|| value_error("initial position must not be null", "22004"))?;
            Ok(places.and_then(|places| places.into_iter().find(|place| *place >= start)))
        }
    });
    let first: Int32Array = first.collect::<Result<_>>()?;
    columns.result(Arc::new(first))
}

fn positions(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let found = places(arguments, call)?;
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(
        found.into_iter().map(|places| places.map(|places| places.into_iter().map(Some).collect::<Vec<_>>())),
    );
    Columns::new(arguments, call).result(Arc::new(list))
}

/// `width_bucket(value, thresholds)`: how many thresholds are not above the value.
fn bucket(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let rows = Rows::of(&arrays[1])?;
    let step = usize::from(arrays[0].len() != 1);
    let compare = comparer(&call.arguments[0], &arrays[0], rows.list.values())?;
    let thresholds = rows.list.values();
    let found = |row: usize| {
        let Some(range) = rows.range(row).filter(|_| arrays[0].is_valid(row * step)) else { return Ok(None) };
        let places: Vec<usize> = range.collect();
        if places.iter().any(|place| thresholds.is_null(*place)) {
            return Err(value_error("thresholds array must not contain NULLs", "22004"));
        }
        Ok(Some(places.partition_point(|place| compare(row * step, *place).is_ge()) as i32))
    };
    columns.result(Arc::new((0..columns.rows()).map(found).collect::<Result<Int32Array>>()?))
}

fn searched(catalog: &mut Catalog) {
    for signature in [
        "array_position(anycompatiblearray, anycompatible) -> integer",
        "array_position(anycompatiblearray, anycompatible, integer) -> integer",
    ] {
        catalog.add(signature, Body::Kernel(position)).lenient();
    }
    catalog.add("array_positions(anycompatiblearray, anycompatible) -> integer[]", Body::Kernel(positions)).lenient();
    catalog.add("width_bucket(anycompatible, anycompatiblearray) -> integer", Body::Kernel(bucket));
}

/// Whether a row's arrays satisfy a condition on their elements.
fn judged(
    arguments: &[ColumnarValue],
    call: &Call<'_>,
    of: fn(&[usize], &[usize], &dyn Fn(usize, usize) -> bool) -> bool,
) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let (left, right) = (Rows::of(&arrays[0])?, Rows::of(&arrays[1])?);
    let (a, b) = (left.list.values(), right.list.values());
    let compare = comparer(element_type(call, 0)?, a, b)?;
    // A NULL is in no array.
    let is_equal = |i: usize, j: usize| a.is_valid(i) && b.is_valid(j) && compare(i, j) == Ordering::Equal;
    let value = |row: usize| {
        let (left, right): (Vec<_>, Vec<_>) = (left.range(row)?.collect(), right.range(row)?.collect());
        Some(of(&left, &right, &is_equal))
    };
    columns.result(Arc::new((0..columns.rows()).map(value).collect::<arrow::array::BooleanArray>()))
}

fn compared(catalog: &mut Catalog) {
    let contains: Kernel = |arguments, call| {
        judged(arguments, call, |left, right, equal| right.iter().all(|j| left.iter().any(|i| equal(*i, *j))))
    };
    let is_contained: Kernel = |arguments, call| {
        judged(arguments, call, |left, right, equal| left.iter().all(|i| right.iter().any(|j| equal(*i, *j))))
    };
    let overlaps: Kernel = |arguments, call| {
        judged(arguments, call, |left, right, equal| left.iter().any(|i| right.iter().any(|j| equal(*i, *j))))
    };
    catalog.add("@>(anyarray, anyarray) -> boolean", Body::Kernel(contains));
    catalog.add("<@(anyarray, anyarray) -> boolean", Body::Kernel(is_contained));
    catalog.add("&&(anyarray, anyarray) -> boolean", Body::Kernel(overlaps));
}

/// `value sign ANY (array)` and ALL where no subquery may stand: NULL if no element decides and one is NULL.
fn quantified(
    arguments: &[ColumnarValue],
    call: &Call<'_>,
    holds: fn(Ordering) -> bool,
    is_all: bool,
) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let rows = Rows::of(&arrays[1])?;
    let (left, elements) = (&arrays[0], rows.list.values());
    let step = usize::from(left.len() != 1);
    let compare = comparer(&call.arguments[0], left, elements)?;
    let value = |row: usize| {
        let mut is_unknown = false;
        for place in rows.range(row)? {
            match left.is_null(row * step) || elements.is_null(place) {
                true => is_unknown = true,
                false if holds(compare(row * step, place)) != is_all => return Some(!is_all),
                false => {}
            }
        }
        (!is_unknown).then_some(is_all)
    };
    columns.result(Arc::new((0..columns.rows()).map(value).collect::<arrow::array::BooleanArray>()))
}

fn quantifiers(catalog: &mut Catalog) {
    macro_rules! both {
        ($any:literal, $all:literal, $holds:expr) => {
            let any: Kernel = |arguments, call| quantified(arguments, call, $holds, false);
            let all: Kernel = |arguments, call| quantified(arguments, call, $holds, true);
            catalog.add($any, Body::Kernel(any)).lenient();
            catalog.add($all, Body::Kernel(all)).lenient();
        };
    }
    both!(
        "= any(anycompatible, anycompatiblearray) -> boolean",
        "= all(anycompatible, anycompatiblearray) -> boolean",
        Ordering::is_eq
    );
    both!(
        "<> any(anycompatible, anycompatiblearray) -> boolean",
        "<> all(anycompatible, anycompatiblearray) -> boolean",
        Ordering::is_ne
    );
    both!(
        "< any(anycompatible, anycompatiblearray) -> boolean",
        "< all(anycompatible, anycompatiblearray) -> boolean",
        Ordering::is_lt
    );
    both!(
        "<= any(anycompatible, anycompatiblearray) -> boolean",
        "<= all(anycompatible, anycompatiblearray) -> boolean",
        Ordering::is_le
    );
    both!(
        "> any(anycompatible, anycompatiblearray) -> boolean",
        "> all(anycompatible, anycompatiblearray) -> boolean",
        Ordering::is_gt
    );
    both!(
        ">= any(anycompatible, anycompatiblearray) -> boolean",
        ">= all(anycompatible, anycompatiblearray) -> boolean",
        Ordering::is_ge
    );
}

fn counted(from: i128, to: i128, step: i128) -> Result<impl Iterator<Item = i128>> {
    if step == 0 {
        return Err(invalid_argument("step size cannot equal zero"));
    }
    let count = if (to >= from) == (step > 0) || to == from { (to - from) / step + 1 } else { 0 };
    if count > ELEMENTS_MAX {
        return Err(value_error("a series gives too many values at once", "54000"));
    }
    Ok((0..count.max(0)).map(move |index| from + index * step))
}

/// The integers from one on, before another.
fn ranged(from: i64, to: i64, step: i64) -> Result<List<i64>> {
    let last = i128::from(to) - i128::from(step.signum());
    Ok(List(counted(from.into(), last, step.into())?.map(|value| value as i64).collect()))
}

fn numeric_series(from: Decimal, to: Decimal, step: Decimal) -> Result<List<Decimal>> {
    let scale = from.scale.max(to.scale).max(step.scale);
    let whole = |value: Decimal| Ok::<_, Error>(value.at_scale(scale)?.value);
    let (from, to, step) = (whole(from)?, whole(to)?, whole(step)?);
    if step == i256::ZERO {
        return Err(invalid_argument("step size cannot equal zero"));
    }
    if to != from && (to > from) != (step > i256::ZERO) {
        return Ok(List(Vec::new()));
    }
    let steps = to.checked_sub(from).and_then(|apart| apart.checked_div(step)?.to_i128());
    let steps = steps.filter(|steps| *steps <= DECIMALS_MAX).and_then(|steps| usize::try_from(steps).ok());
    let Some(steps) = steps else { return Err(value_error("a series gives too many values at once", "54000")) };
    let values = std::iter::successors(Some(from), |at| at.checked_add(step)).take(steps + 1);
    Ok(List(values.map(|value| Decimal::new(value, scale)).collect()))
}

fn time_series(
    from: i64,
    to: i64,
    step: IntervalMonthDayNano,
    next: impl Fn(i64) -> Result<i64>,
) -> Result<List<Timestamp>> {
    let direction = length(step).signum();
    if direction == 0 {
        return Err(invalid_argument("step size cannot equal zero"));
    }
    if is_infinite(from) || is_infinite(to) {
        return Err(invalid_argument("series of infinite timestamps do not end"));
    }
    let (mut values, mut at) = (Vec::new(), from);
    while if direction > 0 { at <= to } else { at >= to } {
        values.push(Timestamp(at));
        if values.len() as i128 > ELEMENTS_MAX {
            return Err(value_error("a series gives too many values at once", "54000"));
        }
        at = next(at)?;
    }
    Ok(List(values))
}

fn series(catalog: &mut Catalog) {
    catalog.add(
        "generate_series(integer, integer) -> integer[]",
        kernel!(try |from: i32, to: i32| Ok(List(counted(from.into(), to.into(), 1)?.map(|value| value as i32).collect()))),
    );
    catalog.add(
        "generate_series(integer, integer, integer) -> integer[]",
        kernel!(try |from: i32, to: i32, step: i32| {
            Ok(List(counted(from.into(), to.into(), step.into())?.map(|value| value as i32).collect()))
        }),
    );
    // DuckDB's series without their end.
    catalog.add("range(bigint) -> bigint[]", kernel!(try |to: i64| ranged(0, to, 1)));
    catalog.add("range(bigint, bigint) -> bigint[]", kernel!(try |from: i64, to: i64| ranged(from, to, 1)));
    catalog.add(
        "range(bigint, bigint, bigint) -> bigint[]",
        kernel!(try |from: i64, to: i64, step: i64| ranged(from, to, step)),
    );
    catalog.add(
        "range(timestamp, timestamp, interval) -> timestamp[]",
        kernel!(try |from: Timestamp, to: Timestamp, step: Interval| {
            let mut values = time_series(from.0, to.0, step, |at| plus(at, step))?;
            values.0.pop_if(|last| last.0 == to.0);
            Ok(values)
        }),
    );
    catalog.add(
        "generate_series(bigint, bigint) -> bigint[]",
        kernel!(try |from: i64, to: i64| Ok(List(counted(from.into(), to.into(), 1)?.map(|value| value as i64).collect()))),
    );
    catalog.add(
        "generate_series(bigint, bigint, bigint) -> bigint[]",
        kernel!(try |from: i64, to: i64, step: i64| {
            Ok(List(counted(from.into(), to.into(), step.into())?.map(|value| value as i64).collect()))
        }),
    );
    catalog.add(
        "generate_series(numeric, numeric) -> numeric[]",
        kernel!(try |from: Decimal, to: Decimal| numeric_series(from, to, Decimal::integer(1))),
    );
    catalog.add(
        "generate_series(numeric, numeric, numeric) -> numeric[]",
        kernel!(try |from: Decimal, to: Decimal, step: Decimal| numeric_series(from, to, step)),
    );
    catalog.add(
        "generate_series(timestamp, timestamp, interval) -> timestamp[]",
        kernel!(try |from: Timestamp, to: Timestamp, step: Interval| {
            time_series(from.0, to.0, step, |at| plus(at, step))
        }),
    );
    catalog
        .add(
            "generate_series(timestamptz, timestamptz, interval) -> timestamptz[]",
            kernel!(with zones: Zones; |from: Timestamp, to: Timestamp, step: Interval, zone: &str| {
                let zone = zones.session(zone)?;
                time_series(from.0, to.0, step, |at| plus_in_zone(at, step, zone))
            }),
        )
        .zoned();
}

/// `_pg_expandarray(array)`: each element with its place.
fn expanded(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let rows = Rows::of(&columns.arrays()[0])?;
    let DataType::List(item) = call.returns.arrow() else { return Err(Error::bug("rows are a list")) };
    let DataType::Struct(fields) = item.data_type() else { return Err(Error::bug("rows are records")) };
    let (mut offsets, mut places, mut picked) = (vec![0_i32], Vec::new(), Vec::new());
    let nulls = NullBuffer::from_iter((0..columns.rows()).map(|row| rows.range(row).is_some()));
    for row in 0..columns.rows() {
        let range = rows.range(row).unwrap_or(0..0);
        places.extend(1..=range.len() as i32);
        picked.extend(range.map(|place| place as u64));
        offsets.push(i32::try_from(places.len()).map_err(|_| too_large())?);
    }
    let picked = arrow::array::UInt64Array::from(picked);
    let values = arrow::compute::take(rows.list.values(), &picked, None);
    let values = values.map_err(|error| Error::bug(error.to_string()))?;
    let parts: Vec<ArrayRef> = vec![values, Arc::new(Int32Array::from(places))];
    let records = arrow::array::StructArray::try_new(fields.clone(), parts, None)
        .map_err(|error| Error::bug(error.to_string()))?;
    let list = ListArray::try_new(item, OffsetBuffer::new(offsets.into()), Arc::new(records), Some(nulls));
    columns.result(Arc::new(list.map_err(|error| Error::bug(error.to_string()))?))
}

/// `array_to_string`: the elements' texts with a separator; NULLs are left out or have a text of their own.
fn to_text(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let (arrays, count) = (columns.arrays(), arguments.len());
    let zone_column = arrays[count - 1].as_string_view_opt();
    let zone = zone_column.filter(|zones| !zones.is_empty() && zones.is_valid(0)).map_or("UTC", |zones| zones.value(0));
    let rows = Rows::of(&arrays[0])?;
    let (mut elements, mut sql_type) = (rows.list.values().clone(), element_type(call, 0)?);
    // Elements of inner arrays follow one another.
    let mut inner: Vec<ListArray> = Vec::new();
    while let (Some(list), Some(deeper)) = (elements.as_list_opt::<i32>(), sql_type.element()) {
        inner.push(list.clone());
        (elements, sql_type) = (inner[inner.len() - 1].values().clone(), deeper);
    }
    let texts = texts_of(&elements, sql_type, zone)?;
    let by = text_column(&arrays[1])?;
    let null = if count > 3 { Some(text_column(&arrays[2])?) } else { None };
    let value = |row: usize| {
        let mut range = rows.range(row)?;
        for list in &inner {
            let offsets = list.value_offsets();
            range = offsets[range.start] as usize..offsets[range.end] as usize;
        }
        let by = by(row)?;
        let null = null.as_ref().and_then(|null| null(row));
        let parts = range.filter_map(|place| if texts.is_valid(place) { Some(texts.value(place)) } else { null });
        Some(parts.collect::<Vec<_>>().join(by))
    };
    columns.result(Arc::new((0..columns.rows()).map(value).collect::<StringViewArray>()))
}

fn text_column<'a>(array: &'a ArrayRef) -> Result<impl Fn(usize) -> Option<&'a str>> {
    let texts = array.as_string_view_opt().ok_or_else(|| Error::bug("an argument that is no text"))?;
    let step = usize::from(array.len() != 1);
    Ok(move |row: usize| texts.is_valid(row * step).then(|| texts.value(row * step)))
}

fn texts(catalog: &mut Catalog) {
    catalog.add("_pg_expandarray(anyarray) -> text", Body::Kernel(expanded)).gives(|types, _| {
        let element = types[0].element().cloned().unwrap_or(SqlType::Text);
        let field = |name: &str, sql_type| RecordField { name: name.to_owned(), sql_type };
        let fields = [field("x", element), field("n", SqlType::Integer)];
        Ok(SqlType::array_of(SqlType::Record(fields.into())))
    });
    for signature in ["array_to_string(anyarray, text) -> text", "array_to_string(anyarray, text, text) -> text"] {
        catalog.add(signature, Body::Kernel(to_text)).zoned().lenient();
    }
}
