//! Writes the values of arrays as texts.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array, ListArray, MapArray,
    PrimitiveArray, StringViewArray, StringViewBuilder,
};
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use diligence_base::{Error, Result};

use super::decimals::{self, Zeros};
use super::multiranges::Multirange;
use super::ranges::Range;
use super::styles::{BytesStyle, IntervalStyle, Styles};
use super::zones::Zone;
use super::{bytes, datetime, interval, literals, numbers};
use crate::SqlType;
use crate::range_type::RangeKind;

/// Writes the values of one array. What it is of is looked at once, not for each value.
pub struct Printer<'a> {
    array: &'a dyn Array,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Nothing,
    Boolean(&'a BooleanArray),
    SmallInt(&'a PrimitiveArray<Int16Type>),
    Integer(&'a PrimitiveArray<Int32Type>),
    BigInt(&'a PrimitiveArray<Int64Type>),
    Real(&'a PrimitiveArray<Float32Type>),
    Double(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a Decimal128Array, i8),
    WideDecimal(&'a Decimal256Array, i8, Zeros),
    Text(&'a StringViewArray),
    /// With blanks up to so many characters.
    Padded(&'a StringViewArray, usize),
    /// Ranges of dates or timestamps in a zone.
    Moments(&'a StringViewArray, RangeKind, Zone),
    /// Multiranges of dates or timestamps in a zone.
    ManyMoments(&'a StringViewArray, RangeKind, Zone),
    Bytes(&'a BinaryViewArray, BytesStyle),
    Date(&'a PrimitiveArray<Date32Type>, Styles),
    Time(&'a PrimitiveArray<Time64MicrosecondType>),
    Timestamp(&'a PrimitiveArray<TimestampMicrosecondType>, Styles),
    TimestampTz(&'a PrimitiveArray<TimestampMicrosecondType>, Zone),
    Interval(&'a PrimitiveArray<IntervalMonthDayNanoType>, IntervalStyle),
    Array(&'a ListArray, Box<Printer<'a>>, bool),
    Record(Vec<Printer<'a>>),
    Map(&'a MapArray, Box<[Printer<'a>; 2]>),
}

impl<'a> Printer<'a> {
    /// For an array that is held as the type says. Fails with kind `Bug` if it is held otherwise.
    pub fn new(array: &'a ArrayRef, sql_type: &SqlType, zone: Zone) -> Result<Self> {
        let kind = Self::kind(array, sql_type, zone);
        let kind = kind?.ok_or_else(|| Error::bug(format!("{} is not how {sql_type} is held", array.data_type())))?;
        Ok(Self { array: array.as_ref(), kind })
    }

    fn kind(array: &'a ArrayRef, sql_type: &SqlType, zone: Zone) -> Result<Option<Kind<'a>>> {
        fn primitive<'a, T: ArrowPrimitiveType>(
            array: &'a ArrayRef,
            kind: impl FnOnce(&'a PrimitiveArray<T>) -> Kind<'a>,
        ) -> Option<Kind<'a>> {
            array.as_primitive_opt::<T>().map(kind)
        }
        Ok(match sql_type.base() {
            SqlType::Domain(_) | SqlType::Timed(_) => None,
            SqlType::Collated(one) => return Self::kind(array, &one.base, zone),
            SqlType::Void => Some(Kind::Nothing),
            SqlType::Boolean => array.as_boolean_opt().map(Kind::Boolean),
            SqlType::SmallInt => primitive(array, Kind::SmallInt),
            SqlType::Integer => primitive(array, Kind::Integer),
            SqlType::BigInt | SqlType::Oid(_) => primitive(array, Kind::BigInt),
            SqlType::Real => primitive(array, Kind::Real),
            SqlType::Double => primitive(array, Kind::Double),
            SqlType::Numeric(digits) => {
                let zeros = if digits.is_none() { Zeros::Dropped } else { Zeros::Kept };
                let narrow =
                    array.as_primitive_opt().map(|array: &Decimal128Array| Kind::Decimal(array, array.scale()));
                let wide = || {
                    let array: &Decimal256Array = array.as_primitive_opt()?;
                    Some(Kind::WideDecimal(array, array.scale(), zeros))
                };
                narrow.or_else(wide)
            }
            SqlType::Char(Some(length)) => {
                array.as_string_view_opt().map(|array| Kind::Padded(array, *length as usize))
            }
            SqlType::Unknown
            | SqlType::Text
            | SqlType::Varchar(_)
            | SqlType::Char(None)
            | SqlType::Name
            | SqlType::RefCursor => array.as_string_view_opt().map(Kind::Text),
            SqlType::Uuid
            | SqlType::Json
            | SqlType::Jsonb
            | SqlType::Enum(_)
            | SqlType::Bit(_)
            | SqlType::VarBit(_) => array.as_string_view_opt().map(Kind::Text),
            SqlType::Range(kind) if kind.is_of_dates() && zone != Zone::UTC => {
                array.as_string_view_opt().map(|array| Kind::Moments(array, *kind, zone))
            }
            SqlType::Multirange(kind) if kind.is_of_dates() && zone != Zone::UTC => {
                array.as_string_view_opt().map(|array| Kind::ManyMoments(array, *kind, zone))
            }
            SqlType::Range(_) | SqlType::Multirange(_) | SqlType::Network(_) | SqlType::TimeTz => {
                array.as_string_view_opt().map(Kind::Text)
            }
            SqlType::Search(_) | SqlType::Vector(_) => array.as_string_view_opt().map(Kind::Text),
            SqlType::Bytea => array.as_binary_view_opt().map(|array| Kind::Bytes(array, zone.styles().bytes)),
            SqlType::Date => primitive(array, |array| Kind::Date(array, *zone.styles())),
            SqlType::Time => primitive(array, Kind::Time),
            SqlType::Timestamp => primitive(array, |array| Kind::Timestamp(array, *zone.styles())),
            SqlType::TimestampTz => primitive(array, |array| Kind::TimestampTz(array, zone)),
            SqlType::Interval => primitive(array, |array| Kind::Interval(array, zone.styles().interval)),
            SqlType::Array(element) => match array.as_list_opt::<i32>() {
                Some(list) => {
                    let is_nested = matches!(**element, SqlType::Array(_));
                    Some(Kind::Array(list, Box::new(Self::new(list.values(), element, zone)?), is_nested))
                }
                None => None,
            },
            SqlType::Record(fields) => match array.as_struct_opt() {
                Some(record) if record.num_columns() == fields.len() => {
                    let printers = record.columns().iter().zip(fields.iter());
                    let printers = printers.map(|(column, field)| Self::new(column, &field.sql_type, zone));
                    Some(Kind::Record(printers.collect::<Result<_>>()?))
                }
                _ => None,
            },
            SqlType::Map(pair) => match array.as_map_opt() {
                Some(map) => {
                    let keys = Self::new(map.keys(), &pair.0, zone)?;
                    Some(Kind::Map(map, Box::new([keys, Self::new(map.values(), &pair.1, zone)?])))
                }
                None => None,
            },
        })
    }

    /// Whether the value of a row is NULL, and has no text therefore.
    pub fn is_null(&self, row: usize) -> bool {
        matches!(self.kind, Kind::Nothing) || self.array.is_null(row)
    }

    /// Appends the text of a row's value. The value must not be NULL.
    pub fn write(&self, row: usize, out: &mut String) {
        match &self.kind {
            Kind::Nothing => {}
            Kind::Boolean(array) => out.push(if array.value(row) { 't' } else { 'f' }),
            Kind::SmallInt(array) => write_integer(out, array.value(row).into()),
            Kind::Integer(array) => write_integer(out, array.value(row).into()),
            Kind::BigInt(array) => write_integer(out, array.value(row)),
            Kind::Real(array) => numbers::write_real(out, array.value(row)),
            Kind::Double(array) => numbers::write_double(out, array.value(row)),
            Kind::Decimal(array, scale) => decimals::write_decimal(out, array.value(row), *scale, Zeros::Kept),
            Kind::WideDecimal(array, scale, zeros) => {
                decimals::write_wide_decimal(out, array.value(row), *scale, *zeros);
            }
            Kind::Text(array) => out.push_str(array.value(row)),
            Kind::Padded(array, length) => {
                let text = array.value(row);
                out.push_str(text);
                out.extend(std::iter::repeat_n(' ', length.saturating_sub(text.chars().count())));
            }
            Kind::Moments(array, kind, zone) => match Range::held(array.value(row), *kind) {
                Ok(range) => range.write(out, zone),
                Err(_) => out.push_str(array.value(row)),
            },
            Kind::ManyMoments(array, kind, zone) => match Multirange::held(array.value(row), *kind) {
                Ok(multirange) => multirange.write(out, zone),
                Err(_) => out.push_str(array.value(row)),
            },
            Kind::Bytes(array, style) => bytes::write_bytes(out, array.value(row), *style),
            Kind::Date(array, styles) => datetime::write_date(out, array.value(row), styles),
            Kind::Time(array) => datetime::write_time(out, array.value(row)),
            Kind::Timestamp(array, styles) => datetime::write_timestamp(out, array.value(row), styles),
            Kind::TimestampTz(array, zone) => datetime::write_timestamptz(out, array.value(row), zone),
            Kind::Interval(array, style) => interval::write_interval(out, array.value(row), *style),
            Kind::Array(list, elements, is_nested) => {
                write_array(out, list.value_offsets()[row]..list.value_offsets()[row + 1], elements, *is_nested);
            }
            Kind::Record(fields) => write_record(out, row, fields),
            Kind::Map(map, pair) => {
                write_map(out, map.value_offsets()[row]..map.value_offsets()[row + 1], pair);
            }
        }
    }

    /// The texts of all values.
    pub fn texts(&self) -> StringViewArray {
        let mut builder = StringViewBuilder::with_capacity(self.array.len());
        let mut text = String::new();
        for row in 0..self.array.len() {
            if self.is_null(row) {
                builder.append_null();
                continue;
            }
            text.clear();
            self.write(row, &mut text);
            builder.append_value(&text);
        }
        builder.finish()
    }
}

fn write_integer(out: &mut String, value: i64) {
    use std::fmt::Write;
    let _ = write!(out, "{value}");
}

fn write_array(out: &mut String, rows: std::ops::Range<i32>, elements: &Printer<'_>, is_nested: bool) {
    let start = out.len();
    out.push('{');
    let mut is_empty = true;
    for row in rows.clone() {
        if row > rows.start {
            out.push(',');
        }
        let row = row as usize;
        if elements.is_null(row) {
            is_empty = false;
            out.push_str("NULL");
            continue;
        }
        let start = out.len();
        elements.write(row, out);
        if is_nested {
            is_empty &= &out[start..] == "{}";
        } else {
            is_empty = false;
            literals::quote_element(out, start);
        }
    }
    if is_empty {
        // Arrays of nothing but empty arrays are empty.
        out.truncate(start + 1);
    }
    out.push('}');
}

fn write_record(out: &mut String, row: usize, fields: &[Printer<'_>]) {
    out.push('(');
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if !field.is_null(row) {
            let start = out.len();
            field.write(row, out);
            literals::quote_field(out, start);
        }
    }
    out.push(')');
}

/// As DuckDB does: `{key=value, …}`.
fn write_map(out: &mut String, rows: std::ops::Range<i32>, pair: &[Printer<'_>; 2]) {
    out.push('{');
    for row in rows.clone() {
        if row > rows.start {
            out.push_str(", ");
        }
        for (printer, after) in pair.iter().zip(["=", ""]) {
            match printer.is_null(row as usize) {
                true => out.push_str("NULL"),
                false => printer.write(row as usize, out),
            }
            out.push_str(after);
        }
    }
    out.push('}');
}
