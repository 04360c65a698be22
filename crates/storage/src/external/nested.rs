//! Nested values: their NULLs, where everything that reads them finds them, and the names of their fields.
//!
//! Arrow lets a struct be NULL over fields that are not; what lies in those slots means nothing. Kernels that take a
//! field out of a struct do not all look at the struct's own NULLs, so they are handed down to the fields when a file
//! is read.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, ListArray, MapArray, OffsetSizeTrait, StructArray, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use diligence_base::Result;

use crate::foreign_error::from_arrow;

/// The array with the NULLs of every struct among the NULLs of its fields, too.
pub(super) fn with_nulls_below(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Struct(fields) => {
            let parent = array.as_struct();
            let children = parent.columns().iter().map(|child| with_nulls_below(&masked(child, parent.nulls())));
            // A field that cannot be NULL stays as it is: it says so in its type.
            let children = children.zip(parent.columns()).zip(fields);
            let children =
                children.map(|((below, as_it_is), field)| if field.is_nullable() { below } else { as_it_is.clone() });
            let children = children.collect::<Vec<_>>();
            match StructArray::try_new_with_length(fields.clone(), children, parent.nulls().cloned(), parent.len()) {
                Ok(array) => Arc::new(array),
                Err(_) => array.clone(),
            }
        }
        DataType::List(field) => list_with_nulls_below::<i32>(array, field),
        DataType::LargeList(field) => list_with_nulls_below::<i64>(array, field),
        _ => array.clone(),
    }
}

fn list_with_nulls_below<O: OffsetSizeTrait>(array: &ArrayRef, field: &FieldRef) -> ArrayRef {
    if !field.data_type().is_nested() {
        return array.clone();
    }
    let list = array.as_list::<O>();
    let values = with_nulls_below(list.values());
    match GenericListArray::try_new(field.clone(), list.offsets().clone(), values, list.nulls().cloned()) {
        Ok(list) => Arc::new(list),
        Err(_) => array.clone(),
    }
}

/// The array with these NULLs, too.
pub(super) fn masked(array: &ArrayRef, nulls: Option<&NullBuffer>) -> ArrayRef {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return array.clone() };
    let both = NullBuffer::union(array.nulls(), Some(nulls));
    match array.to_data().into_builder().nulls(both).build() {
        Ok(data) => make_array(data),
        Err(_) => array.clone(),
    }
}

/// An array with the names of fields that a type of the same form has.
pub(super) fn rename(array: ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    let named = |field: &Field, array: &ArrayRef| {
        Arc::new(Field::new(field.name(), array.data_type().clone(), field.is_nullable() || array.is_nullable()))
    };
    match (array.data_type(), ty) {
        (DataType::Struct(is), DataType::Struct(fields)) if is.len() == fields.len() => {
            let array = array.as_struct();
            let columns = array.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| rename(column.clone(), field.data_type()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let fields = fields.iter().zip(&columns).map(|(field, column)| named(field, column)).collect::<Fields>();
            let (rows, nulls) = (array.len(), array.nulls().cloned());
            let array = StructArray::try_new_with_length(fields, columns, nulls, rows).map_err(from_arrow)?;
            Ok(Arc::new(array))
        }
        (DataType::List(_), DataType::List(item)) => {
            let list = array.as_list::<i32>();
            let values = rename(list.values().clone(), item.data_type())?;
            let (field, nulls) = (named(item, &values), list.nulls().cloned());
            let list = ListArray::try_new(field, list.offsets().clone(), values, nulls).map_err(from_arrow)?;
            Ok(Arc::new(list))
        }
        (DataType::Map(_, is_sorted), DataType::Map(entries, _)) => {
            let map = array.as_map();
            let renamed = rename(Arc::new(map.entries().clone()), entries.data_type())?;
            let field = Arc::new(Field::new(entries.name(), renamed.data_type().clone(), false));
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            let map = MapArray::try_new(field, offsets, renamed.as_struct().clone(), nulls, *is_sorted);
            Ok(Arc::new(map.map_err(from_arrow)?))
        }
        _ => Ok(array),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BooleanArray, Int64Array, ListArray, StringViewArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Fields};

    use super::*;

    /// Five structs, of which the second and the fourth are NULL over fields that are not.
    fn structs() -> ArrayRef {
        let fields: Vec<(Field, ArrayRef)> = vec![
            (Field::new("number", DataType::Int64, true), Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]))),
            (
                Field::new("text", DataType::Utf8View, true),
                Arc::new(StringViewArray::from(vec![Some("a"), Some("b"), None, Some("d"), Some("e")])),
            ),
            (Field::new("flag", DataType::Boolean, true), Arc::new(BooleanArray::from(vec![true; 5]))),
            (Field::new("certain", DataType::Int64, false), Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]))),
        ];
        let (fields, columns): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
        let nulls = NullBuffer::from(vec![true, false, true, false, true]);
        Arc::new(StructArray::new(Fields::from(fields), columns, Some(nulls)))
    }

    fn nulls_of(array: &ArrayRef) -> Vec<Vec<bool>> {
        let columns = array.as_struct().columns().iter();
        columns.map(|column| (0..column.len()).map(|row| column.is_null(row)).collect()).collect()
    }

    #[test]
    fn fields_of_a_null_struct_are_null() {
        let below = with_nulls_below(&structs());
        let some = vec![false, true, false, true, false];
        assert_eq!(nulls_of(&below), [some.clone(), vec![false, true, true, true, false], some, vec![false; 5]]);
        assert_eq!(&below, &structs(), "the values are the same");
        let part = with_nulls_below(&structs().slice(3, 2));
        assert_eq!(nulls_of(&part)[0], [true, false]);
        assert_eq!(nulls_of(&part)[2], [true, false]);
    }

    #[test]
    fn structs_in_structs_and_in_lists_too() {
        let inner = structs();
        let field = Field::new("inner", inner.data_type().clone(), true);
        let nulls = NullBuffer::from(vec![true, true, true, true, false]);
        let outer: ArrayRef = Arc::new(StructArray::new(Fields::from(vec![field]), vec![inner], Some(nulls)));
        let below = with_nulls_below(&outer);
        assert_eq!(nulls_of(below.as_struct().column(0))[0], [false, true, false, true, true]);

        let item = Arc::new(Field::new("item", structs().data_type().clone(), true));
        let list: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([2, 3]), structs(), None));
        let below = with_nulls_below(&list);
        assert_eq!(nulls_of(below.as_list::<i32>().values())[0], [false, true, false, true, false]);
    }
}
