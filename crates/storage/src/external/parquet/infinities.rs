//! Infinite dates and timestamps of DuckDB: its -infinity is minus the greatest number, which is the least one here.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Date32Type, TimeUnit, TimestampMicrosecondType};

/// What DuckDB calls itself as a writer, in front of its version.
pub(super) const WRITER: &str = "DuckDB";

/// The values of a file that DuckDB has written, with -infinity as it is here.
pub(super) fn with_infinities(array: ArrayRef) -> ArrayRef {
    let ty = array.data_type().clone();
    match &ty {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let values = array.as_primitive::<TimestampMicrosecondType>();
            if !values.values().contains(&-i64::MAX) {
                return array;
            }
            let own = |value| if value == -i64::MAX { i64::MIN } else { value };
            Arc::new(values.unary::<_, TimestampMicrosecondType>(own).with_data_type(ty))
        }
        DataType::Date32 => {
            let values = array.as_primitive::<Date32Type>();
            if !values.values().contains(&-i32::MAX) {
                return array;
            }
            let own = |value| if value == -i32::MAX { i32::MIN } else { value };
            Arc::new(values.unary::<_, Date32Type>(own))
        }
        _ => array,
    }
}
