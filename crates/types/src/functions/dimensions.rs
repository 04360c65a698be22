//! Functions of arrays of several dimensions, which are lists of lists: slices of one dimension, all elements, and
//! parts that are assigned.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, ListArray, make_array, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::filter;
use arrow::datatypes::DataType;
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::arrays::{Pick, Rows, integers, picked};
use super::catalog::Catalog;
use super::columns::{Columns, VALUE_BYTES_MAX, lists};
use super::errors::value_error;
use super::{Body, Call};
use crate::SqlType;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add("all elements(anyarray) -> anyelement", Body::Kernel(elements)).gives(|types, _| match types {
        [SqlType::Array(inner)] if inner.element().is_some() => Ok(inner.as_ref().clone()),
        _ => Err(Error::input("an array of several dimensions is expected").with_code("42883")),
    });
    catalog
        .add("array part within(anyarray, integer, integer, integer) -> anyarray", Body::Kernel(part_within))
        .lenient();
    catalog.add("array_with_part(anyarray, integer, integer, anyarray) -> anyarray", Body::Kernel(with_part)).lenient();
}

fn bug(error: impl std::fmt::Display) -> Error {
    Error::bug(error.to_string())
}

/// `"all elements"(array)`: the elements of an array without its outer dimension.
fn elements(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let outer = Rows::of(&columns.arrays()[0])?;
    let inner = Rows { list: lists(outer.list.values())?, step: 1 };
    let row = |row: usize| {
        let places = outer.range(row)?.filter_map(|place| inner.range(place)).flatten();
        Some(places.map(|place| (0, place)).collect::<Vec<Pick>>())
    };
    let rows = (0..columns.rows()).map(row).collect();
    columns.result(picked(call, &[inner.list.values().as_ref()], rows)?)
}

/// `"array part within"(array, depth, from, to)`: the array with only a part of its dimension of this depth, which is 1
/// for the lists in the outer one. An array whose part is empty is empty.
fn part_within(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let (outer, depth) = (Rows::of(&arrays[0])?, integers(&arrays[1])?);
    let (from, to) = (integers(&arrays[2])?, integers(&arrays[3])?);
    let depth = if arrays[1].is_empty() { 1 } else { depth(0).unwrap_or(1) };
    // Every row by itself has its bounds: rows of a constant are laid out again.
    let laid = (0..columns.rows()).map(|row| outer.range(row).map(|range| range.map(|place| (0, place)).collect()));
    let laid = picked(call, &[outer.list.values().as_ref()], laid.collect())?;
    let list = lists(&laid)?;
    let bounds = |row: usize| {
        let (from, to) = (from(row)?, to(row)?);
        Some((i64::from(from), i64::from(to)))
    };
    // A bound that is NULL makes the array NULL.
    let bounds = (0..list.len()).map(|row| bounds(row).filter(|_| list.is_valid(row))).collect::<Vec<_>>();
    let nulls = NullBuffer::from_iter(bounds.iter().map(Option::is_some));
    let cut = cut_within(list, depth, &bounds)?;
    let data = cut.to_data().into_builder().nulls(Some(nulls)).build().map_err(bug)?;
    columns.result(make_array(data))
}

/// The bounds of each list; `None` where it is not needed.
type Bounds = Option<(i64, i64)>;

/// Lists of which those of a depth have only a part.
fn cut_within(list: &ListArray, depth: i32, bounds: &[Bounds]) -> Result<ListArray> {
    let item = match list.data_type() {
        DataType::List(item) => item.clone(),
        other => return Err(Error::bug(format!("no lists but {other}"))),
    };
    let offsets = list.value_offsets();
    let range = |row: usize| offsets[row] as usize..offsets[row + 1] as usize;
    let values = list.values();
    let mut kept = vec![false; values.len()];
    let values = match depth < 1 {
        true => {
            for (row, bounds) in bounds.iter().enumerate() {
                let (Some((from, to)), range) = (bounds, range(row)) else { continue };
                let (from, to) = ((*from).max(1), (*to).min(range.len() as i64));
                (from..=to).for_each(|place| kept[range.start + place as usize - 1] = true);
            }
            values.clone()
        }
        false => {
            // It has no such dimension.
            if values.as_list_opt::<i32>().is_none() {
                return Ok(list.clone());
            }
            let mut inner = vec![None; values.len()];
            for (row, bounds) in bounds.iter().enumerate().filter(|(_, bounds)| bounds.is_some()) {
                inner[range(row)].fill(*bounds);
            }
            let cut = cut_within(lists(values)?, depth - 1, &inner)?;
            // Dimensions are the same for all: where one list is empty, so is the array.
            (0..values.len()).for_each(|place| kept[place] = inner[place].is_some() && cut.value_length(place) > 0);
            Arc::new(cut)
        }
    };
    let mut lengths = Vec::with_capacity(list.len());
    lengths.extend((0..list.len()).map(|row| match bounds[row] {
        Some(_) => range(row).filter(|place| kept[*place]).count(),
        None => 0,
    }));
    let values = filter(&values, &BooleanArray::from(kept)).map_err(bug)?;
    ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), values, None).map_err(bug)
}

/// `array_with_part(array, from, to, part)`: the array with other elements from one place to another, NULLs before them
/// where it ends earlier; NULL counts as empty, and a part that is NULL changes nothing. Fails with 2202E if the part
/// has too few elements.
fn with_part(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    /// Each element takes a pick of 16 bytes while the array is made.
    const LENGTH_MAX: i64 = (VALUE_BYTES_MAX / 16) as i64;
    let columns = Columns::new(arguments, call);
    let arrays = columns.arrays();
    let (rows, part) = (Rows::of(&arrays[0])?, Rows::of(&arrays[3])?);
    let (from, to) = (integers(&arrays[1])?, integers(&arrays[2])?);
    let null = new_null_array(rows.list.values().data_type(), 1);
    let row = |row: usize| {
        let old = rows.range(row);
        let Some(new) = part.range(row) else { return Ok(old.map(|old| old.map(|place| (0, place)).collect())) };
        let old = old.unwrap_or(0..0);
        let (Some(from), Some(to)) = (from(row), to(row)) else {
            return Err(value_error("array subscript in assignment must not be null", "22004"));
        };
        if from < 1 {
            return Err(Error::unsupported("arrays that begin before 1 are not supported"));
        }
        // A bound that is left out is the array's own end, or that of the part if there is no array.
        let to = match (to, old.len()) {
            (i32::MAX, 0) => i64::from(from) - 1 + new.len() as i64,
            (i32::MAX, length) => length as i64,
            (to, _) => i64::from(to),
        };
        let from = i64::from(from);
        if to > LENGTH_MAX {
            return Err(value_error("array size exceeds the maximum allowed", "54000"));
        }
        if from > to + 1 {
            return Err(value_error("upper bound cannot be less than lower bound", "2202E"));
        }
        let count = (to + 1 - from) as usize;
        if new.len() < count {
            return Err(value_error("source array too small", "2202E"));
        }
        let front = (0..from as usize - 1).map(|at| if at < old.len() { (0, old.start + at) } else { (2, 0) });
        let behind = (old.start + to as usize..old.end).map(|place| (0, place));
        let all = front.chain(new.take(count).map(|place| (1, place))).chain(behind).collect::<Vec<Pick>>();
        Ok(Some(all))
    };
    let chosen = (0..columns.rows()).map(row).collect::<Result<Vec<_>>>()?;
    let sources: [&dyn Array; 3] = [rows.list.values().as_ref(), part.list.values().as_ref(), null.as_ref()];
    columns.result(picked(call, &sources, chosen)?)
}
