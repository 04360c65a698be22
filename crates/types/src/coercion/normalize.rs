//! Arrow's many types, as files and tables have them, into the one that a SQL type is held as.
//!
//! Nothing wraps: a value that the SQL type cannot hold is an error. What is finer than a microsecond is cut off.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, Decimal128Array, ListArray, MapArray, PrimitiveArray, StringViewArray,
    StringViewBuilder, StructArray, make_array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{CastOptions as ArrowOptions, cast_with_options, take};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Field,
    IntervalDayTimeType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt64Type,
};
use diligence_base::{Error, Result};

use super::{Cast, broken};
use crate::SqlType;
use crate::sql_type::RecordField;
use crate::text::calendar::DAY;
use crate::text::{Printer, Zone, bytes, errors, field_of};

/// The texts of a column's values as files of text have them, which are SQL's; `None` where Arrow has the same.
/// Fails as [`normalize`] does.
pub fn file_texts(array: &dyn Array, field: &Field) -> Result<Option<StringViewArray>> {
    let Some(sql_type) = SqlType::of_field(field).map(SqlType::untimed) else { return Ok(None) };
    if !matches!(
        sql_type,
        SqlType::Date | SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz | SqlType::Interval | SqlType::Bytea
    ) {
        return Ok(None);
    }
    let held = make_array(array.to_data());
    let held = normalize(&held, &sql_type)?;
    Ok(Some(Printer::new(&held, &sql_type, Zone::UTC)?.texts()))
}

/// An array as its SQL type is held. Fails with kind `Input` if a value is beyond what the type holds (22003, 22008),
/// and if the array's type has no way to the SQL type (42846).
pub fn normalize(array: &ArrayRef, sql_type: &SqlType) -> Result<ArrayRef> {
    let target = sql_type.arrow();
    if *array.data_type() == target {
        return Ok(array.clone());
    }
    let own = match array.data_type() {
        DataType::Null => return Ok(new_null_array(&target, array.len())),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = normalize(dictionary.values(), sql_type)?;
            return take(&values, dictionary.keys(), None).map_err(broken);
        }
        DataType::RunEndEncoded(_, values) => {
            let flat = arrow_cast(array, values.data_type())?;
            return normalize(&flat, sql_type);
        }
        DataType::FixedSizeBinary(16) if *sql_type == SqlType::Uuid => return Ok(uuids(array)),
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..)
            if let SqlType::Array(element) = sql_type =>
        {
            return list(array, sql_type, element);
        }
        DataType::Struct(fields) => match sql_type {
            SqlType::Record(wanted) if wanted.len() == fields.len() => return record(array, sql_type, wanted),
            _ => return Err(no_way(array, sql_type)),
        },
        DataType::Map(..) => match sql_type {
            SqlType::Map(pair) => return map(array, sql_type, pair),
            _ => return Err(no_way(array, sql_type)),
        },
        _ => simple(array)?,
    };
    if *own.data_type() == target {
        return Ok(own);
    }
    match SqlType::of_arrow(own.data_type()) {
        // A column whose values are held as another SQL type's: they are cast as that.
        Some(held) if held != *sql_type && held.arrow() == *own.data_type() => {
            Cast { from: &held, to: sql_type, zone: Zone::UTC, is_explicit: false, is_try: false }.array(&own)
        }
        _ => Err(no_way(array, sql_type)),
    }
}

fn no_way(array: &ArrayRef, sql_type: &SqlType) -> Error {
    let held = SqlType::of_arrow(array.data_type()).map_or_else(|| "this type".to_owned(), |held| held.to_string());
    Error::input(format!("cannot cast type {held} to {sql_type}")).with_code("42846")
}

/// A cast of Arrow's between types of which the second holds all that the first does.
fn arrow_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    cast_with_options(array, to, &ArrowOptions { safe: false, ..ArrowOptions::default() })
        .map_err(|error| Error::input(format!("a value is out of range: {error}")).with_code("22003"))
}

/// An array of no other arrays, as the SQL type that it tells is held.
fn simple(array: &ArrayRef) -> Result<ArrayRef> {
    use DataType as D;
    Ok(match array.data_type() {
        D::Int8 | D::UInt8 => arrow_cast(array, &D::Int16)?,
        D::UInt16 => arrow_cast(array, &D::Int32)?,
        D::UInt32 => arrow_cast(array, &D::Int64)?,
        D::UInt64 => {
            let wide: Decimal128Array = array.as_primitive::<UInt64Type>().unary(i128::from);
            Arc::new(wide.with_data_type(D::Decimal128(20, 0)))
        }
        D::Float16 => arrow_cast(array, &D::Float32)?,
        D::Decimal32(precision, scale) => {
            let wide: Decimal128Array = array.as_primitive::<Decimal32Type>().unary(i128::from);
            Arc::new(wide.with_data_type(D::Decimal128(*precision, *scale)))
        }
        D::Decimal64(precision, scale) => {
            let wide: Decimal128Array = array.as_primitive::<Decimal64Type>().unary(i128::from);
            Arc::new(wide.with_data_type(D::Decimal128(*precision, *scale)))
        }
        D::Decimal256(precision, scale) if *precision <= 38 => {
            let narrow: Decimal128Array =
                array.as_primitive::<Decimal256Type>().try_unary::<_, Decimal128Type, Error>(|value| {
                    value.to_i128().ok_or_else(|| errors::numeric_overflow(*precision, *scale))
                })?;
            Arc::new(narrow.with_data_type(D::Decimal128(*precision, *scale)))
        }
        D::Utf8 | D::LargeUtf8 => arrow_cast(array, &D::Utf8View)?,
        D::Binary | D::LargeBinary => arrow_cast(array, &D::BinaryView)?,
        D::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            let mut builder = BinaryViewBuilder::with_capacity(array.len());
            array.iter().for_each(|value| builder.append_option(value));
            Arc::new(builder.finish())
        }
        D::Date64 => convert::<Date64Type, Date32Type>(array, |millis| {
            i32::try_from(millis.div_euclid(DAY / 1_000)).map_err(|_| errors::datetime_out_of_range("date"))
        })?,
        D::Time32(TimeUnit::Second) => {
            convert::<Time32SecondType, Time64MicrosecondType>(array, |time| Ok(i64::from(time) * 1_000_000))?
        }
        D::Time32(_) => {
            convert::<Time32MillisecondType, Time64MicrosecondType>(array, |time| Ok(i64::from(time) * 1_000))?
        }
        D::Time64(TimeUnit::Nanosecond) => {
            convert::<Time64NanosecondType, Time64MicrosecondType>(array, |time| Ok(time.div_euclid(1_000)))?
        }
        D::Timestamp(unit, zone) => timestamps(array, *unit, zone.is_some())?,
        D::Interval(_) | D::Duration(_) => intervals(array)?,
        _ => array.clone(),
    })
}

/// Converts the values that are not NULL; the first one that cannot be is the error.
fn convert<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(
    array: &ArrayRef,
    convert: impl Fn(A::Native) -> Result<B::Native>,
) -> Result<ArrayRef> {
    let converted: PrimitiveArray<B> = array.as_primitive::<A>().try_unary(convert)?;
    Ok(Arc::new(converted))
}

fn timestamps(array: &ArrayRef, unit: TimeUnit, has_zone: bool) -> Result<ArrayRef> {
    let scaled =
        |value: i64, scale: i64| value.checked_mul(scale).ok_or_else(|| errors::datetime_out_of_range("timestamp"));
    type Micros = TimestampMicrosecondType;
    let micros: ArrayRef = match unit {
        TimeUnit::Second => convert::<TimestampSecondType, Micros>(array, |value| scaled(value, 1_000_000))?,
        TimeUnit::Millisecond => convert::<TimestampMillisecondType, Micros>(array, |value| scaled(value, 1_000))?,
        TimeUnit::Microsecond => array.clone(),
        TimeUnit::Nanosecond => convert::<TimestampNanosecondType, Micros>(array, |value| Ok(value.div_euclid(1_000)))?,
    };
    let sql_type = if has_zone { SqlType::TimestampTz } else { SqlType::Timestamp };
    Ok(Arc::new(micros.as_primitive::<Micros>().clone().with_data_type(sql_type.arrow())))
}

fn intervals(array: &ArrayRef) -> Result<ArrayRef> {
    type Whole = IntervalMonthDayNanoType;
    let time = |value: i64, scale: i64| match value.checked_mul(scale) {
        Some(nanos) => Ok(IntervalMonthDayNano::new(0, 0, nanos)),
        None => Err(errors::datetime_out_of_range("interval")),
    };
    match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            convert::<IntervalYearMonthType, Whole>(array, |months| Ok(IntervalMonthDayNano::new(months, 0, 0)))
        }
        DataType::Interval(IntervalUnit::DayTime) => convert::<IntervalDayTimeType, Whole>(array, |value| {
            Ok(IntervalMonthDayNano::new(0, value.days, i64::from(value.milliseconds) * 1_000_000))
        }),
        DataType::Duration(TimeUnit::Second) => {
            convert::<DurationSecondType, Whole>(array, |value| time(value, 1_000_000_000))
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            convert::<DurationMillisecondType, Whole>(array, |value| time(value, 1_000_000))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            convert::<DurationMicrosecondType, Whole>(array, |value| time(value, 1_000))
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            convert::<DurationNanosecondType, Whole>(array, |value| time(value.div_euclid(1_000), 1_000))
        }
        _ => Ok(array.clone()),
    }
}

/// The sixteen bytes of uuids as texts.
fn uuids(array: &ArrayRef) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let mut text = String::with_capacity(36);
    for value in array.as_fixed_size_binary() {
        text.clear();
        match value.and_then(|value| <&[u8; 16]>::try_from(value).ok()) {
            Some(value) => {
                bytes::write_uuid(&mut text, value);
                builder.append_value(&text);
            }
            None => builder.append_null(),
        }
    }
    Arc::new(builder.finish())
}

fn list(array: &ArrayRef, sql_type: &SqlType, element: &SqlType) -> Result<ArrayRef> {
    let plain = match array.data_type() {
        DataType::List(_) => array.clone(),
        DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => arrow_cast(array, &DataType::List(item.clone()))?,
        _ => return Err(no_way(array, sql_type)),
    };
    let plain = plain.as_list::<i32>();
    let values = normalize(plain.values(), element)?;
    let offsets: OffsetBuffer<i32> = plain.offsets().clone();
    Ok(Arc::new(ListArray::new(field_of(sql_type), offsets, values, plain.nulls().cloned())))
}

fn record(array: &ArrayRef, sql_type: &SqlType, wanted: &[RecordField]) -> Result<ArrayRef> {
    let DataType::Struct(fields) = sql_type.arrow() else {
        return Err(Error::bug("records are held as structs"));
    };
    let record = array.as_struct();
    if fields.is_empty() {
        return Ok(array.clone());
    }
    let columns = record.columns().iter().zip(wanted);
    let columns = columns.map(|(column, field)| normalize(column, &field.sql_type)).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StructArray::new(fields, columns, record.nulls().cloned())))
}

fn map(array: &ArrayRef, sql_type: &SqlType, pair: &(SqlType, SqlType)) -> Result<ArrayRef> {
    let DataType::Map(entries, is_sorted) = sql_type.arrow() else {
        return Err(Error::bug("maps are held as maps"));
    };
    let DataType::Struct(fields) = entries.data_type().clone() else {
        return Err(Error::bug("a map's entries are structs"));
    };
    let map = array.as_map();
    let columns = vec![normalize(map.keys(), &pair.0)?, normalize(map.values(), &pair.1)?];
    let pairs = StructArray::new(fields, columns, None);
    Ok(Arc::new(MapArray::new(entries, map.offsets().clone(), pairs, map.nulls().cloned(), is_sorted)))
}
