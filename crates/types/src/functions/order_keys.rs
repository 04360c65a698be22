//! Values of another type in the place of those whose equality and order their own bytes do not show: an index compares
//! bytes. `1 day` is `24 hours`, and `{"a": 1}` is `{"a": 1.0}`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, Decimal128Array, ListArray, StructArray};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNanoType};
use diligence_base::{Error, Result};

use super::collated;
use super::comparisons::{length, search_key};
use crate::SqlType;
use crate::search::SearchKind;
use crate::text::json;

/// The type of the values that stand for those of a type, where its own bytes do not show what is equal.
pub fn distinct_type(sql_type: &SqlType) -> Option<DataType> {
    match sql_type {
        SqlType::Interval => Some(DataType::Decimal128(38, 0)),
        SqlType::Jsonb | SqlType::Search(SearchKind::Query) => Some(DataType::BinaryView),
        SqlType::Collated(one) if one.collation.is_deterministic() => distinct_type(&one.base),
        SqlType::Collated(_) => Some(DataType::BinaryView),
        SqlType::Domain(_) if sql_type.base().collation().is_some() => distinct_type(sql_type.base()),
        SqlType::Timed(one) => distinct_type(&one.base),
        SqlType::Array(element) => {
            let element = Field::new(Field::LIST_FIELD_DEFAULT_NAME, distinct_type(element)?, true);
            Some(DataType::List(Arc::new(element)))
        }
        SqlType::Record(fields) => {
            let is_own = fields.iter().all(|field| distinct_type(&field.sql_type).is_none());
            let field = |(place, field): (usize, &crate::sql_type::RecordField)| {
                let own = || field.sql_type.arrow();
                Field::new(place.to_string(), distinct_type(&field.sql_type).unwrap_or_else(own), true)
            };
            (!is_own).then(|| DataType::Struct(fields.iter().enumerate().map(field).collect()))
        }
        _ => None,
    }
}

/// These values; of such a type, those that stand for them. Fails with kind `Bug` if the column does not hold the type.
pub fn distinct_values(sql_type: &SqlType, column: &ArrayRef) -> Result<ArrayRef> {
    let Some(data_type) = distinct_type(sql_type) else { return Ok(column.clone()) };
    let other = || Error::bug(format!("no {sql_type} but {}", column.data_type()));
    Ok(match (sql_type, &data_type) {
        (SqlType::Interval, _) => {
            let intervals = column.as_primitive_opt::<IntervalMonthDayNanoType>().ok_or_else(other)?;
            let lengths = intervals.iter().map(|interval| interval.map(length)).collect::<Decimal128Array>();
            Arc::new(lengths.with_data_type(data_type))
        }
        (SqlType::Jsonb, _) => {
            let texts = column.as_string_view_opt().ok_or_else(other)?;
            let keys = texts.iter().map(|text| text.map(json::order_key).transpose());
            Arc::new(keys.collect::<Result<BinaryViewArray>>()?)
        }
        (SqlType::Search(kind), _) => {
            let texts = column.as_string_view_opt().ok_or_else(other)?;
            let keys = texts.iter().map(|text| text.map(|text| search_key(text, *kind)).transpose());
            Arc::new(keys.collect::<Result<BinaryViewArray>>()?)
        }
        (SqlType::Collated(_), _) => collated::keys_of(sql_type, column)?,
        (SqlType::Domain(_) | SqlType::Timed(_), _) => distinct_values(sql_type.base(), column)?,
        (SqlType::Array(element), DataType::List(field)) => {
            let lists = column.as_list_opt::<i32>().ok_or_else(other)?;
            let values = distinct_values(element, lists.values())?;
            Arc::new(ListArray::new(field.clone(), lists.offsets().clone(), values, lists.nulls().cloned()))
        }
        (SqlType::Record(fields), DataType::Struct(distinct)) => {
            let records = column.as_struct_opt().ok_or_else(other)?;
            let values = fields.iter().zip(records.columns()).map(|(field, own)| distinct_values(&field.sql_type, own));
            Arc::new(StructArray::new(distinct.clone(), values.collect::<Result<_>>()?, records.nulls().cloned()))
        }
        _ => return Err(other()),
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{IntervalMonthDayNanoArray, StringViewArray};
    use arrow::datatypes::IntervalMonthDayNano;

    use super::*;

    #[test]
    fn what_is_equal_has_the_same_bytes() {
        let second = 1_000_000_000;
        let intervals = [(0, 1, 0), (0, 0, 24 * 3600 * second), (1, 0, 0), (0, 30, 0), (0, 0, 1_000)];
        let interval = |(months, days, nanoseconds): &(i32, i32, i64)| {
            Some(IntervalMonthDayNano { months: *months, days: *days, nanoseconds: *nanoseconds })
        };
        let column: ArrayRef =
            Arc::new(intervals.iter().map(interval).chain([None]).collect::<IntervalMonthDayNanoArray>());
        let keys = distinct_values(&SqlType::Interval, &column).unwrap();
        assert_eq!(Some(keys.data_type()), distinct_type(&SqlType::Interval).as_ref());
        let keys = keys.as_primitive::<arrow::datatypes::Decimal128Type>();
        assert_eq!(keys.value(0), keys.value(1));
        assert_eq!(keys.value(2), keys.value(3));
        assert!(keys.value(4) < keys.value(0) && keys.value(0) < keys.value(2) && keys.is_null(5));
        let texts = ["{\"a\": 1, \"b\": [2]}", "{\"a\": 1.0, \"b\": [2.00]}", "{\"a\": 2}"];
        let column: ArrayRef = Arc::new(StringViewArray::from(texts.to_vec()));
        let keys = distinct_values(&SqlType::Jsonb, &column).unwrap();
        let keys = keys.as_binary_view();
        assert!(keys.value(0) == keys.value(1) && keys.value(0) != keys.value(2));
        // What is its own key stays as it is.
        let own = distinct_values(&SqlType::Text, &column).unwrap();
        assert!(Arc::ptr_eq(&own, &column) && distinct_type(&SqlType::Text).is_none());
    }
}
