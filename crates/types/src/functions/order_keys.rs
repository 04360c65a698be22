//! Values of another type in the place of those whose equality and order their own bytes do not show: an index compares
//! bytes. `1 day` is `24 hours`, and `{"a": 1}` is `{"a": 1.0}`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, Decimal128Array, ListArray, StructArray};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNanoType};
use diligence_base::{Error, Result};

use super::collated;
use super::comparisons::{entries_type, length, search_key};
use super::register::scalars;
use super::{Argument, Overload, ScalarCall};
use crate::SqlType;
use crate::search::SearchKind;
use crate::text::json;

/// The function whose result sorts, groups and joins as values of the type do: intervals as their length, `char(n)`
/// without blanks at the end, `jsonb` by kinds and parts, enums by the places of their labels, maps as lists of
/// entries, texts as their collation has them. `None` where the type's own values do.
pub fn order_key(sql_type: &SqlType) -> Option<ScalarCall> {
    let (name, returns) = match sql_type {
        SqlType::Interval => ("interval_order_key", SqlType::decimal(38, 0)),
        SqlType::Char(_) => ("bpchar_order_key", SqlType::Text),
        SqlType::Jsonb => ("jsonb_order_key", SqlType::Bytea),
        SqlType::Enum(_) => ("enum_order_key", SqlType::Integer),
        SqlType::Range(_) => ("range_order_key", SqlType::Bytea),
        SqlType::Multirange(_) => ("multirange_order_key", SqlType::Bytea),
        SqlType::TimeTz => ("timetz_order_key", SqlType::Bytea),
        SqlType::Network(kind) if kind.is_internet() => ("inet_order_key", SqlType::Bytea),
        SqlType::Search(SearchKind::Vector | SearchKind::Query) => ("search_order_key", SqlType::Bytea),
        // Maps compare as lists of their entries.
        SqlType::Map(pair) => ("map_entries", entries_type(pair)),
        SqlType::Collated(one) if one.collation.is_by_bytes() => return order_key(&one.base),
        SqlType::Collated(_) => ("collation_order_key", SqlType::Bytea),
        SqlType::Array(_) if sql_type.collation().is_some_and(|collation| !collation.is_by_bytes()) => {
            ("collation_order_key", collated::key_type(sql_type))
        }
        _ => return None,
    };
    // Each kind of range has an overload of its own.
    let takes = |overload: &&Overload| {
        !matches!(sql_type, SqlType::Range(_) | SqlType::Multirange(_) | SqlType::Network(_) | SqlType::Search(_))
            || overload.arguments == [Argument::Exact(sql_type.clone())]
    };
    let overload = scalars(name).iter().find(takes)?;
    Some(ScalarCall { overload, arguments: vec![sql_type.clone()], returns })
}

/// Whether values of the type are equal exactly if what holds them is, though they sort otherwise: then a comparison
/// for equality needs no [`order_key`], and finds rows by an index.
pub fn is_equal_as_held(sql_type: &SqlType) -> bool {
    if let Some(collation) = sql_type.collation() {
        return collation.is_deterministic() && order_key(&sql_type.uncollated()).is_none();
    }
    matches!(sql_type, SqlType::Enum(_) | SqlType::Range(_) | SqlType::Multirange(_) | SqlType::Network(_))
        || *sql_type == SqlType::Search(SearchKind::Vector)
}

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
