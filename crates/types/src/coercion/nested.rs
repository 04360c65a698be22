//! Casts of arrays, records and maps: what they consist of is cast, their shape stays.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StringViewArray, StructArray, UInt32Array, new_null_array,
};
use arrow::compute::take;
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};

use super::{Cast, broken};
use crate::SqlType;
use crate::range_type::RangeKind;
use crate::sql_type::record_type::RecordType;
use crate::text::{Multirange, Range, field_of};

/// Casts each element. With `is_try` an array with an element that cannot be cast is NULL only there.
pub(super) fn arrays(cast: &Cast<'_>, array: &ArrayRef, from: &SqlType, to: &SqlType) -> Result<ArrayRef> {
    let list = array.as_list::<i32>();
    let values = Cast { from, to, ..*cast }.array(&seen_values(list)?)?;
    Ok(Arc::new(ListArray::new(field_of(cast.to), rebased(list.offsets()), values, list.nulls().cloned())))
}

/// The elements that an array's rows have, without those before, between and after them.
fn seen_values(list: &ListArray) -> Result<ArrayRef> {
    let (first, last) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
    let values = list.values().slice(first as usize, (last - first) as usize);
    if list.null_count() == 0 {
        return Ok(values);
    }
    // What lies under a NULL must not fail: it becomes NULL itself.
    let mut hides = false;
    let mut indices: Vec<Option<u32>> = (0..(last - first) as u32).map(Some).collect();
    for row in (0..list.len()).filter(|row| list.is_null(*row)) {
        let range = (list.value_offsets()[row] - first) as usize..(list.value_offsets()[row + 1] - first) as usize;
        hides |= !range.is_empty();
        indices[range].fill(None);
    }
    match hides {
        true => take(&values, &UInt32Array::from(indices), None).map_err(broken),
        false => Ok(values),
    }
}

/// Offsets that begin with zero.
fn rebased(offsets: &arrow::buffer::OffsetBuffer<i32>) -> arrow::buffer::OffsetBuffer<i32> {
    match offsets[0] {
        0 => offsets.clone(),
        first => {
            let moved: Vec<i32> = offsets.iter().map(|offset| offset - first).collect();
            arrow::buffer::OffsetBuffer::new(moved.into())
        }
    }
}

/// Casts each field, of structs by its name, of rows by its place.
pub(super) fn records(cast: &Cast<'_>, array: &ArrayRef, from: &RecordType, to: &RecordType) -> Result<ArrayRef> {
    let Some(sources) = from.sources(to) else {
        let hint = if from.len() < to.len() { "Input has too few columns" } else { "Input has too many columns" };
        return Err(cast.no_cast().with_hint(hint));
    };
    let DataType::Struct(fields) = cast.to.arrow() else {
        return Err(Error::bug("records are held as structs"));
    };
    let record = array.as_struct();
    let columns = sources.into_iter().zip(to.iter());
    let columns = columns
        .map(|(source, to)| {
            let Some(source) = source else { return Ok(new_null_array(&to.sql_type.arrow(), record.len())) };
            let (column, from) = (record.column(source), &from[source]);
            // What lies under a record that is NULL must not fail.
            let column = match record.nulls() {
                Some(nulls) if nulls.null_count() > 0 => {
                    arrow::compute::nullif(column, &arrow::array::BooleanArray::new(!nulls.inner(), None))
                        .map_err(broken)?
                }
                _ => column.clone(),
            };
            Cast { from: &from.sql_type, to: &to.sql_type, ..*cast }.array(&column)
        })
        .collect::<Result<Vec<_>>>()?;
    if columns.is_empty() {
        return Ok(Arc::new(StructArray::new_empty_fields(record.len(), record.nulls().cloned())));
    }
    Ok(Arc::new(StructArray::new(fields, columns, record.nulls().cloned())))
}

/// Casts keys and values.
pub(super) fn maps(
    cast: &Cast<'_>,
    array: &ArrayRef,
    from: &(SqlType, SqlType),
    to: &(SqlType, SqlType),
) -> Result<ArrayRef> {
    let DataType::Map(entries, is_sorted) = cast.to.arrow() else {
        return Err(Error::bug("maps are held as maps"));
    };
    let DataType::Struct(fields) = entries.data_type().clone() else {
        return Err(Error::bug("a map's entries are structs"));
    };
    let map = array.as_map();
    let keys = Cast { from: &from.0, to: &to.0, ..*cast }.array(map.keys())?;
    let values = Cast { from: &from.1, to: &to.1, ..*cast }.array(map.values())?;
    if keys.null_count() > 0 {
        return Err(Error::input("map keys cannot be NULL").with_code("22004"));
    }
    let pairs = StructArray::new(fields, vec![keys, values], None);
    Ok(Arc::new(MapArray::new(entries, map.offsets().clone(), pairs, map.nulls().cloned(), is_sorted)))
}

/// The multiranges of ranges alone.
pub(super) fn multiranges(array: &ArrayRef, kind: RangeKind) -> Result<ArrayRef> {
    let texts = array.as_string_view_opt().ok_or_else(|| Error::bug("ranges are held as texts"))?;
    let alone = |text: &str| Ok(Multirange::new(kind, vec![Range::held(text, kind)?])?.text());
    let texts = texts.iter().map(|text| text.map(alone).transpose());
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}
