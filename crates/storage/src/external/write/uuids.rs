//! UUIDs in Parquet files: bytes that other programs take for UUIDs, also in lists, structs and maps. SQL has texts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use diligence_base::Result;

use crate::external::nested::masked;
use crate::external::schema::{TYPE_KEY, UUID_TYPE, uuid_bytes};
use crate::foreign_error::from_arrow;

/// The field as files have it: with bytes for UUIDs, wherever these are.
pub(super) fn with_uuid_bytes(field: &Field) -> Field {
    let is_text = matches!(field.data_type(), DataType::Utf8View | DataType::Utf8);
    if is_text && field.metadata().get(TYPE_KEY).is_some_and(|told| told == UUID_TYPE) {
        return field.clone().with_data_type(DataType::FixedSizeBinary(16));
    }
    let inside = |field: &FieldRef| Arc::new(with_uuid_bytes(field));
    let ty = match field.data_type() {
        DataType::List(item) => DataType::List(inside(item)),
        DataType::LargeList(item) => DataType::LargeList(inside(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inside).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(inside(entries), *is_sorted),
        _ => return field.clone(),
    };
    field.clone().with_data_type(ty)
}

/// The values as such a field has them. Fails with kind `Value` if one is no UUID.
pub(super) fn uuids_as_bytes(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    if array.data_type() == field.data_type() {
        return Ok(array.clone());
    }
    match field.data_type() {
        DataType::FixedSizeBinary(16) => uuid_bytes(array),
        DataType::List(item) if array.as_list_opt::<i32>().is_some() => list_with_bytes(array.as_list::<i32>(), item),
        DataType::LargeList(item) if array.as_list_opt::<i64>().is_some() => {
            list_with_bytes(array.as_list::<i64>(), item)
        }
        DataType::Struct(fields) if array.as_struct_opt().is_some_and(|array| array.num_columns() == fields.len()) => {
            let array = array.as_struct();
            // What lies in a field of a struct that is NULL is no value.
            let columns = array.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| match field.is_nullable() {
                true => uuids_as_bytes(&masked(column, array.nulls()), field),
                false => uuids_as_bytes(column, field),
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let (rows, nulls) = (array.len(), array.nulls().cloned());
            let array = StructArray::try_new_with_length(fields.clone(), columns, nulls, rows);
            Ok(Arc::new(array.map_err(from_arrow)?))
        }
        DataType::Map(entries, is_sorted) if array.as_map_opt().is_some() => {
            let map = array.as_map();
            let inside: ArrayRef = Arc::new(map.entries().clone());
            let inside = uuids_as_bytes(&inside, entries)?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            let map = MapArray::try_new(entries.clone(), offsets, inside.as_struct().clone(), nulls, *is_sorted);
            Ok(Arc::new(map.map_err(from_arrow)?))
        }
        _ => Ok(array.clone()),
    }
}

fn list_with_bytes<O: OffsetSizeTrait>(list: &GenericListArray<O>, item: &FieldRef) -> Result<ArrayRef> {
    let values = uuids_as_bytes(list.values(), item)?;
    let list = GenericListArray::try_new(item.clone(), list.offsets().clone(), values, list.nulls().cloned());
    Ok(Arc::new(list.map_err(from_arrow)?))
}
