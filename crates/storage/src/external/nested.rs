//! NULLs of nested values, where everything that reads them finds them.
//!
//! Arrow lets a struct be NULL over fields that are not; what lies in those slots means nothing. Kernels that take a
//! field out of a struct do not all look at the struct's own NULLs, so they are handed down to the fields when a file
//! is read.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, StructArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef};

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

fn masked(array: &ArrayRef, nulls: Option<&NullBuffer>) -> ArrayRef {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return array.clone() };
    let both = NullBuffer::union(array.nulls(), Some(nulls));
    match array.to_data().into_builder().nulls(both).build() {
        Ok(data) => make_array(data),
        Err(_) => array.clone(),
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
