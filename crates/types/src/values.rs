//! One value of an array.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_common::error::Result;

/// The value of a row. Of a list it keeps what the list's type says of the elements, such as that they are `varchar`:
/// `ScalarValue::try_from_array` loses that, and the value would be of another type than the array. Fails if there are
/// no such values.
pub fn value_at(array: &ArrayRef, row: usize) -> Result<ScalarValue> {
    match (array.data_type(), array.as_list_opt::<i32>()) {
        (DataType::List(item), Some(list)) if list.is_valid(row) => {
            let values = list.value(row);
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            Ok(ScalarValue::List(Arc::new(ListArray::try_new(item.clone(), offsets, values, None)?)))
        }
        _ => ScalarValue::try_from_array(array, row),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, StringViewArray, new_null_array};

    use super::*;
    use crate::SqlType;

    #[test]
    fn a_value_has_the_type_of_its_array() {
        for element in [SqlType::Varchar(Some(4)), SqlType::Varchar(None), SqlType::Uuid, SqlType::Text] {
            let wanted = SqlType::array_of(element).arrow();
            let none = new_null_array(&wanted, 2);
            assert_eq!(value_at(&none, 1).unwrap().data_type(), wanted);
            let DataType::List(item) = &wanted else { panic!("an array is no list") };
            let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "c"]));
            let lists = ListArray::new(item.clone(), OffsetBuffer::from_lengths([1, 2]), texts, None);
            let lists: ArrayRef = Arc::new(lists);
            let value = value_at(&lists, 1).unwrap();
            assert_eq!(value.data_type(), wanted);
            assert_eq!(&value.to_array_of_size(1).unwrap(), &lists.slice(1, 1));
        }
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        assert_eq!(value_at(&numbers, 1).unwrap(), ScalarValue::Int32(Some(2)));
    }
}
