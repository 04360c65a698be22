//! How messages show values.

use arrow::array::{Array, ArrayRef};

/// A value in a message.
pub(crate) fn shown_value(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "null".to_owned();
    }
    arrow::util::display::array_value_to_string(column, row).unwrap_or_else(|_| "?".to_owned())
}
