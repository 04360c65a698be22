//! Nested arrays made of changed children.

use arrow::array::{Array, ArrayRef, make_array};
use diligence_base::{Error, Result};

/// The array with each child (of a dictionary: the values) replaced by what `change` makes of it, which must have the
/// same type and as many rows.
///
/// The parts are not validated anew: whether a field that is declared as never NULL has a NULL where its parent is one,
/// for example, is for whoever made the array to answer.
pub(super) fn with_children(array: &ArrayRef, change: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
    let data = array.to_data();
    let mut children = Vec::with_capacity(data.child_data().len());
    for child in data.child_data() {
        let old = make_array(child.clone());
        let new = change(&old)?;
        if new.data_type() != old.data_type() || new.len() != old.len() {
            return Err(Error::bug("a child of a nested array became another type or length"));
        }
        children.push(new.to_data());
    }
    // SAFETY: offsets, nulls and lengths are those of a valid array, and so they fit children of the same types and
    // lengths.
    Ok(make_array(unsafe { data.into_builder().child_data(children).build_unchecked() }))
}
