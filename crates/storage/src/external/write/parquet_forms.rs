//! Forms of values in Parquet files that are not those of SQL, also in lists, structs and maps. UUIDs are bytes that
//! other programs take for UUIDs, and SQL has texts. Intervals are months, days and milliseconds without a sign.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use diligence_base::{Error, Result};

use crate::external::nested::masked;
use crate::external::schema::{INTERVAL_TYPE, TYPE_KEY, UUID_TYPE, uuid_bytes};
use crate::foreign_error::from_arrow;

/// Bytes of an interval in Parquet: months, days and milliseconds of 32 bits each.
const INTERVAL_BYTES: i32 = 12;

const MILLISECOND_NANOS: i64 = 1_000_000;

/// Whether a field is of bytes that are intervals.
pub(super) fn is_interval_bytes(field: &Field) -> bool {
    *field.data_type() == DataType::FixedSizeBinary(INTERVAL_BYTES)
        && field.metadata().get(TYPE_KEY).is_some_and(|told| told == INTERVAL_TYPE)
}

/// The field as files have it: with bytes for UUIDs and intervals, wherever these are.
pub(super) fn stored_field(field: &Field) -> Field {
    let is_text = matches!(field.data_type(), DataType::Utf8View | DataType::Utf8);
    if is_text && field.metadata().get(TYPE_KEY).is_some_and(|told| told == UUID_TYPE) {
        return field.clone().with_data_type(DataType::FixedSizeBinary(16));
    }
    if matches!(field.data_type(), DataType::Interval(IntervalUnit::MonthDayNano)) {
        let mut bytes = field.clone().with_data_type(DataType::FixedSizeBinary(INTERVAL_BYTES));
        bytes.metadata_mut().insert(TYPE_KEY.to_owned(), INTERVAL_TYPE.to_owned());
        return bytes;
    }
    let inside = |field: &FieldRef| Arc::new(stored_field(field));
    let ty = match field.data_type() {
        DataType::List(item) => DataType::List(inside(item)),
        DataType::LargeList(item) => DataType::LargeList(inside(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inside).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(inside(entries), *is_sorted),
        _ => return field.clone(),
    };
    field.clone().with_data_type(ty)
}

/// The values as such a field has them. Fails with kind `Value` if one is no UUID, or an interval that Parquet cannot
/// hold.
pub(super) fn stored_values(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    if array.data_type() == field.data_type() {
        return Ok(array.clone());
    }
    match field.data_type() {
        DataType::FixedSizeBinary(16) => uuid_bytes(array),
        DataType::FixedSizeBinary(_) if is_interval_bytes(field) => interval_bytes(array, field.name()),
        DataType::List(item) if array.as_list_opt::<i32>().is_some() => stored_list(array.as_list::<i32>(), item),
        DataType::LargeList(item) if array.as_list_opt::<i64>().is_some() => stored_list(array.as_list::<i64>(), item),
        DataType::Struct(fields) if array.as_struct_opt().is_some_and(|array| array.num_columns() == fields.len()) => {
            let array = array.as_struct();
            // What lies in a field of a struct that is NULL is no value.
            let columns = array.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| match field.is_nullable() {
                true => stored_values(&masked(column, array.nulls()), field),
                false => stored_values(column, field),
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let (rows, nulls) = (array.len(), array.nulls().cloned());
            let array = StructArray::try_new_with_length(fields.clone(), columns, nulls, rows);
            Ok(Arc::new(array.map_err(from_arrow)?))
        }
        DataType::Map(entries, is_sorted) if array.as_map_opt().is_some() => {
            let map = array.as_map();
            let inside: ArrayRef = Arc::new(map.entries().clone());
            let inside = stored_values(&inside, entries)?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            let map = MapArray::try_new(entries.clone(), offsets, inside.as_struct().clone(), nulls, *is_sorted);
            Ok(Arc::new(map.map_err(from_arrow)?))
        }
        _ => Ok(array.clone()),
    }
}

fn stored_list<O: OffsetSizeTrait>(list: &GenericListArray<O>, item: &FieldRef) -> Result<ArrayRef> {
    let values = stored_values(list.values(), item)?;
    let list = GenericListArray::try_new(item.clone(), list.offsets().clone(), values, list.nulls().cloned());
    Ok(Arc::new(list.map_err(from_arrow)?))
}

/// The bytes of intervals; what is below a millisecond is cut off. Fails with kind `Value` and 22008 if one has a part
/// that is negative or too large.
fn interval_bytes(array: &ArrayRef, name: &str) -> Result<ArrayRef> {
    let Some(intervals) = array.as_primitive_opt::<IntervalMonthDayNanoType>() else {
        return Err(Error::bug(format!("the intervals of column '{name}' are {}", array.data_type())));
    };
    let mut bytes = FixedSizeBinaryBuilder::with_capacity(intervals.len(), INTERVAL_BYTES);
    for interval in intervals {
        let Some(IntervalMonthDayNano { months, days, nanoseconds }) = interval else {
            bytes.append_null();
            continue;
        };
        let wrong = |what: &str, hint: &str| {
            Error::value(format!("column '{name}': {what}")).with_code("22008").with_hint(hint.to_owned())
        };
        let sign = || wrong("Parquet has no negative intervals", "cast them to VARCHAR, or write an .arrow file");
        let long =
            || wrong("Parquet has no intervals of more than 49 days in hours", "justify_hours(…) makes days of hours");
        let (months, days) = (u32::try_from(months).map_err(|_| sign())?, u32::try_from(days).map_err(|_| sign())?);
        if nanoseconds < 0 {
            return Err(sign());
        }
        let milliseconds = u32::try_from(nanoseconds / MILLISECOND_NANOS).map_err(|_| long())?;
        bytes.append_value([months, days, milliseconds].map(u32::to_le_bytes).concat()).map_err(from_arrow)?;
    }
    Ok(Arc::new(bytes.finish()))
}

#[cfg(test)]
mod tests {
    use arrow::array::IntervalMonthDayNanoArray;

    use super::*;

    #[test]
    fn intervals_are_months_days_and_milliseconds() {
        let field = Field::new("i", DataType::Interval(IntervalUnit::MonthDayNano), true);
        let stored = stored_field(&field);
        assert!(is_interval_bytes(&stored) && !is_interval_bytes(&field));
        let of = |months, days, nanos| {
            let intervals =
                IntervalMonthDayNanoArray::from(vec![Some(IntervalMonthDayNano::new(months, days, nanos)), None]);
            stored_values(&(Arc::new(intervals) as ArrayRef), &stored)
        };
        let bytes = of(14, 3, 256_999_999).unwrap();
        assert_eq!(bytes.as_fixed_size_binary().value(0), [14, 0, 0, 0, 3, 0, 0, 0, 0, 1, 0, 0]);
        assert!(bytes.is_null(1));
        for (months, days, nanos) in [(-1, 0, 0), (0, -1, 0), (1, 0, -1), (0, 0, (1_i64 << 32) * MILLISECOND_NANOS)] {
            assert_eq!(of(months, days, nanos).unwrap_err().code(), Some("22008"));
        }
    }
}
