//! Maps from keys to values. PostgreSQL has no such type; names and answers are DuckDB's (manual, "Map Functions").

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, MapArray, StructArray, UInt64Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::catalog::Catalog;
use super::columns::{Columns, lists, too_large};
use super::comparisons::{comparer, entries_type};
use super::errors::value_error;
use super::{Body, Call};
use crate::SqlType;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add("map(any, any) -> text", Body::Kernel(built)).gives(|types, _| match types {
        [SqlType::Array(key), SqlType::Array(value)] => {
            Ok(SqlType::Map(Arc::new((key.as_ref().clone(), value.as_ref().clone()))))
        }
        _ => Err(not_of("map takes a list of keys and a list of values")),
    });
    catalog
        .add("map_keys(anymap) -> text", Body::Kernel(keys))
        .gives(|types, _| Ok(SqlType::array_of(entry(types)?.0.clone())));
    catalog
        .add("map_values(anymap) -> text", Body::Kernel(values))
        .gives(|types, _| Ok(SqlType::array_of(entry(types)?.1.clone())));
    catalog.add("map_entries(anymap) -> text", Body::Kernel(entries)).gives(|types, _| Ok(entries_type(entry(types)?)));
    for signature in ["map_extract(anymap, any) -> text", "element_at(anymap, any) -> text"] {
        catalog
            .add(signature, Body::Kernel(extracted))
            .gives(|types, _| Ok(SqlType::array_of(entry(types)?.1.clone())));
    }
    catalog
        .add("map_extract_value(anymap, any) -> text", Body::Kernel(value_of))
        .gives(|types, _| Ok(entry(types)?.1.clone()));
    catalog.add("map_contains(anymap, any) -> boolean", Body::Kernel(contains));
    catalog.add("map_concat(anymap, anymap) -> text", Body::Kernel(concatenated)).lenient().gives(
        |types, _| match types {
            [SqlType::Map(pair), SqlType::Map(other)] if pair == other => Ok(SqlType::Map(pair.clone())),
            _ => Err(not_of("map_concat takes maps of the same types")),
        },
    );
    catalog.add("cardinality(anymap) -> integer", Body::Kernel(cardinality));
}

fn not_of(message: &str) -> Error {
    Error::input(message).with_code("42883").with_hint("a map is written MAP {'a': 1, 'b': 2}")
}

/// The types of the keys and values of a map that is the first argument.
fn entry(types: &[SqlType]) -> Result<&(SqlType, SqlType)> {
    match types {
        [SqlType::Map(pair), ..] => Ok(pair),
        _ => Err(Error::bug("a function of maps is called with none")),
    }
}

fn arrow_error(error: arrow::error::ArrowError) -> Error {
    Error::bug(error.to_string())
}

fn built(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let [keys, values] = columns.arrays() else { return Err(Error::bug("a map of keys and values")) };
    let (keys, values) = (lists(keys)?, lists(values)?);
    let compare = comparer(&entry_of(call)?.0, keys.values(), keys.values())?;
    let (mut key_places, mut value_places) = (Vec::new(), Vec::new());
    let (mut offsets, mut valid) = (vec![0_i32], Vec::new());
    for row in 0..columns.rows() {
        let place = |list: &ListArray| {
            let row = if list.len() == 1 { 0 } else { row };
            let ends = list.value_offsets();
            list.is_valid(row).then(|| ends[row] as u64..ends[row + 1] as u64)
        };
        if let (Some(keys_here), Some(values_here)) = (place(keys), place(values)) {
            if keys_here.end - keys_here.start != values_here.end - values_here.start {
                return Err(value_error("the keys of a map are as many as its values", "22023"));
            }
            for key in keys_here.clone() {
                if keys.values().is_null(key as usize) {
                    return Err(value_error("a key of a map is not NULL", "22004"));
                }
                if (keys_here.start..key).any(|other| compare(other as usize, key as usize) == Ordering::Equal) {
                    return Err(value_error("the keys of a map are unique", "22023"));
                }
            }
            key_places.extend(keys_here);
            value_places.extend(values_here);
            valid.push(true);
        } else {
            valid.push(false);
        }
        offsets.push(i32::try_from(key_places.len()).map_err(|_| too_large())?);
    }
    let DataType::Map(field, _) = call.returns.arrow() else { return Err(Error::bug("a map is made")) };
    let DataType::Struct(fields) = field.data_type() else { return Err(Error::bug("a map has entries")) };
    let picked = |list: &ListArray, places: Vec<u64>| take(list.values(), &UInt64Array::from(places), None);
    let columns_of =
        vec![picked(keys, key_places).map_err(arrow_error)?, picked(values, value_places).map_err(arrow_error)?];
    let entries = StructArray::try_new(fields.clone(), columns_of, None).map_err(arrow_error)?;
    let map = MapArray::try_new(
        field.clone(),
        OffsetBuffer::new(offsets.into()),
        entries,
        Some(NullBuffer::from(valid)),
        false,
    );
    columns.result(Arc::new(map.map_err(arrow_error)?))
}

fn entry_of<'c>(call: &'c Call<'_>) -> Result<&'c (SqlType, SqlType)> {
    match call.returns {
        SqlType::Map(pair) => Ok(pair),
        _ => entry(call.arguments),
    }
}

fn maps(array: &ArrayRef) -> Result<&MapArray> {
    array.as_map_opt().ok_or_else(|| Error::bug(format!("no maps but {}", array.data_type())))
}

/// The lists of what `of` takes from the maps' entries.
fn parts(arguments: &[ColumnarValue], call: &Call<'_>, of: impl Fn(&MapArray) -> ArrayRef) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let map = maps(&columns.arrays()[0])?;
    let DataType::List(item) = call.returns.arrow() else { return Err(Error::bug("parts of a map are a list")) };
    let list = ListArray::try_new(item, map.offsets().clone(), of(map), map.nulls().cloned()).map_err(arrow_error)?;
    columns.result(Arc::new(list))
}

fn keys(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    parts(arguments, call, |map| map.keys().clone())
}

fn values(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    parts(arguments, call, |map| map.values().clone())
}

fn entries(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let SqlType::Array(element) = call.returns else { return Err(Error::bug("entries are a list")) };
    let DataType::Struct(fields) = element.arrow() else { return Err(Error::bug("entries are records")) };
    let fields: Vec<Field> = fields.iter().map(|field| field.as_ref().clone()).collect();
    parts(arguments, call, |map| {
        let columns = vec![map.keys().clone(), map.values().clone()];
        Arc::new(StructArray::new(fields.clone().into(), columns, None))
    })
}

/// The place of each row's key among all entries; `None` where the map has no such key, NULL inside for a NULL map.
fn found(columns: &Columns<'_>, call: &Call<'_>) -> Result<Vec<Option<Option<u64>>>> {
    let [map, wanted] = columns.arrays() else { return Err(Error::bug("a map and a key")) };
    let map = maps(map)?;
    let wanted = cast(wanted, map.keys().data_type())
        .map_err(|_| not_of(&format!("the key is of type {}, not of that of the keys", call.arguments[1])))?;
    let compare = comparer(&entry(call.arguments)?.0, map.keys(), &wanted)?;
    let ends = map.value_offsets();
    let at = |row: usize| {
        let (in_map, in_keys) = (if map.len() == 1 { 0 } else { row }, if wanted.len() == 1 { 0 } else { row });
        if map.is_null(in_map) {
            return None;
        }
        let mut places = ends[in_map] as usize..ends[in_map + 1] as usize;
        let is_there = |place: &usize| wanted.is_valid(in_keys) && compare(*place, in_keys) == Ordering::Equal;
        Some(places.find(is_there).map(|place| place as u64))
    };
    Ok((0..columns.rows()).map(at).collect())
}

/// A list of the key's value; empty if the map has no such key.
fn extracted(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let places = found(&columns, call)?;
    let DataType::List(item) = call.returns.arrow() else { return Err(Error::bug("what is extracted is a list")) };
    let counts = places.iter().map(|place| usize::from(matches!(place, Some(Some(_)))));
    let nulls = places.iter().map(Option::is_some).collect::<Vec<_>>();
    let picked = UInt64Array::from_iter_values(places.iter().copied().flatten().flatten());
    let values = take(maps(&columns.arrays()[0])?.values(), &picked, None).map_err(arrow_error)?;
    let list = ListArray::try_new(item, OffsetBuffer::from_lengths(counts), values, Some(NullBuffer::from(nulls)));
    columns.result(Arc::new(list.map_err(arrow_error)?))
}

/// The key's value; NULL if the map has no such key.
fn value_of(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let places: UInt64Array = found(&columns, call)?.into_iter().map(Option::flatten).collect();
    let values = maps(&columns.arrays()[0])?.values();
    columns.result(take(values, &places, None).map_err(arrow_error)?)
}

fn contains(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let is_there: BooleanArray =
        found(&columns, call)?.into_iter().map(|place| place.map(|place| place.is_some())).collect();
    columns.result(Arc::new(is_there))
}

/// The entries of both maps; of a key that both have, the second's value, in the first's place. A map that is NULL has
/// no entries.
fn concatenated(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let [left, right] = columns.arrays() else { return Err(Error::bug("two maps are concatenated")) };
    let (left, right) = (maps(left)?, maps(right)?);
    let key = &entry_of(call)?.0;
    let across = comparer(key, left.keys(), right.keys())?;
    let range = |map: &MapArray, row: usize| {
        let row = if map.len() == 1 { 0 } else { row };
        let ends = map.value_offsets();
        map.is_valid(row).then(|| ends[row] as usize..ends[row + 1] as usize)
    };
    // Entries are those of the first map and then those of the second, of which these are picked.
    let (mut places, mut ends, mut valid) = (Vec::new(), vec![0_i32], Vec::new());
    let behind = left.keys().len();
    for row in 0..columns.rows() {
        let (own, others) = (range(left, row), range(right, row));
        valid.push(own.is_some() || others.is_some());
        let (own, others) = (own.unwrap_or(0..0), others.unwrap_or(0..0));
        let mut is_taken = vec![false; others.len()];
        for place in own {
            let same = others.clone().find(|other| across(place, *other) == Ordering::Equal);
            if let Some(same) = same {
                is_taken[same - others.start] = true;
            }
            places.push(same.map_or(place, |same| behind + same) as u64);
        }
        let rest = others.clone().zip(&is_taken).filter(|(_, is_taken)| !**is_taken);
        places.extend(rest.map(|(other, _)| (behind + other) as u64));
        ends.push(i32::try_from(places.len()).map_err(|_| too_large())?);
    }
    let DataType::Map(field, _) = call.returns.arrow() else { return Err(Error::bug("a map is made")) };
    let DataType::Struct(fields) = field.data_type() else { return Err(Error::bug("a map has entries")) };
    let places = UInt64Array::from(places);
    let of_both = |own: &ArrayRef, others: &ArrayRef, wanted: &DataType| {
        let both = concat(&[own.as_ref(), others.as_ref()]).map_err(arrow_error)?;
        let picked = take(&both, &places, None).map_err(arrow_error)?;
        cast(&picked, wanted).map_err(arrow_error)
    };
    let keys = of_both(left.keys(), right.keys(), fields[0].data_type())?;
    let values = of_both(left.values(), right.values(), fields[1].data_type())?;
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None).map_err(arrow_error)?;
    let nulls = Some(NullBuffer::from(valid));
    let map = MapArray::try_new(field.clone(), OffsetBuffer::new(ends.into()), entries, nulls, false);
    columns.result(Arc::new(map.map_err(arrow_error)?))
}

fn cardinality(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let map = maps(&columns.arrays()[0])?;
    let count = |row: usize| map.is_valid(row).then(|| map.value_length(row));
    columns.result(Arc::new((0..map.len()).map(count).collect::<Int32Array>()))
}
