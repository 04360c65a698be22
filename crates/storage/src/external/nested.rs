//! NULLs of nested values, where everything that reads them finds them.
//!
//! Arrow lets a struct be NULL over fields that are not; what lies in those slots means nothing. Kernels that take a field out
//! of a struct do not all look at the struct's own NULLs, so they are handed down to the fields when a file is read.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

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
        _ => array.clone(),
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
