//! How messages show values.

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;

use crate::{SqlType, text};

/// The zone in which messages show times: that of a session is not known where rows are written.
const ZONE: &str = "UTC";

/// Bytes of a value that a message shows at most, as in PostgreSQL.
const VALUE_BYTES_SHOWN: usize = 64;

/// What a message says of a row of these values that a constraint refuses.
pub fn failing_row(values: impl IntoIterator<Item = String>) -> String {
    let values = values.into_iter().map(|value| {
        match value.char_indices().map(|(at, _)| at).take_while(|at| *at <= VALUE_BYTES_SHOWN).last() {
            Some(end) if value.len() > VALUE_BYTES_SHOWN => format!("{}...", &value[..end]),
            _ => value,
        }
    });
    format!("Failing row contains ({}).", values.collect::<Vec<_>>().join(", "))
}

/// A value in a message.
pub fn shown_value(column: &ArrayRef, row: usize) -> String {
    shown_as(column, row, SqlType::of_arrow(column.data_type()).as_ref())
}

/// A value of a type in a message: as SQL writes it.
pub fn shown_as(column: &ArrayRef, row: usize, sql_type: Option<&SqlType>) -> String {
    if column.is_null(row) {
        return "null".to_owned();
    }
    let written = sql_type.and_then(|sql_type| {
        let value = cast(&column.slice(row, 1), &sql_type.arrow()).ok()?;
        let texts = text::format(&value, sql_type, ZONE).ok()?;
        Some(texts.value(0).to_owned())
    });
    let plain = || arrow::util::display::array_value_to_string(column, row).unwrap_or_else(|_| "?".to_owned());
    written.unwrap_or_else(plain)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BooleanArray, Decimal128Array, Int32Array, StringViewArray, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn values_are_shown_as_sql_writes_them() {
        let shown = |column: ArrayRef| shown_value(&column, 0);
        assert_eq!(shown(Arc::new(Int32Array::from(vec![7]))), "7");
        assert_eq!(shown(Arc::new(Int32Array::from(vec![None]))), "null");
        assert_eq!(shown(Arc::new(BooleanArray::from(vec![false]))), "f");
        assert_eq!(shown(Arc::new(StringViewArray::from_iter_values(["a b"]))), "a b");
        let price = Decimal128Array::from(vec![150]).with_precision_and_scale(8, 2).unwrap();
        assert_eq!(shown(Arc::new(price)), "1.50");
        assert_eq!(shown(Arc::new(TimestampMicrosecondArray::from(vec![0]))), "1970-01-01 00:00:00");
    }
}
