//! Reads arrays of texts as arrays of values.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, BinaryViewBuilder, BooleanBuilder, ListArray, MapArray, PrimitiveBuilder,
    StringViewArray, StringViewBuilder, StructArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::concat;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use diligence_base::{Error, Result};

use super::multiranges::Multirange;
use super::options::ReadOptions;
use super::ranges::Range;
use super::zoned_time::ZonedTime;
use super::{bits, bytes, datetime, decimals, errors, interval, json, literals, networks, numbers, strings};
use crate::SqlType;
use crate::sql_type::{NUMERIC_PRECISION, NUMERIC_SCALE, RecordField};

/// Reads an array of texts. Fails with kind `Input` and PostgreSQL's SQLSTATE (22P02, 22007, 22008, 22003, 22001) for a
/// text that is no value of the type.
pub fn parse_array(texts: &StringViewArray, sql_type: &SqlType, options: &ReadOptions) -> Result<ArrayRef> {
    let reader = Texts { texts, options };
    let data_type = sql_type.arrow();
    Ok(match sql_type.base() {
        SqlType::Domain(_) | SqlType::Timed(_) => return Err(Error::bug("it is another type's values")),
        SqlType::Collated(one) => return parse_array(texts, &one.base, options),
        SqlType::Unknown | SqlType::Text | SqlType::Varchar(None) | SqlType::RefCursor => Arc::new(texts.clone()),
        SqlType::Varchar(Some(length)) => {
            reader.slices(|text| strings::fit_varchar(text, *length, options.is_explicit))?
        }
        SqlType::Char(length) => reader.slices(|text| strings::fit_char(text, *length, options.is_explicit))?,
        SqlType::Name => reader.slices(|text| Ok(strings::cut_name(text)))?,
        SqlType::Json => reader.slices(|text| json::check(text).map(|()| text))?,
        SqlType::Jsonb => reader.written(|text, out| json::parse(text).map(|value| json::write(out, &value)))?,
        SqlType::Uuid => reader.written(bytes::parse_uuid)?,
        SqlType::Enum(one) => reader.slices(|text| one.check(text).map(|()| text))?,
        SqlType::Bit(length) => reader.written(|text, out| {
            bits::fit_bit(bits::parse_bits(text)?, *length, options.is_explicit).map(|bits| out.push_str(&bits))
        })?,
        SqlType::VarBit(length) => reader.written(|text, out| {
            bits::fit_varbit(bits::parse_bits(text)?, *length, options.is_explicit).map(|bits| out.push_str(&bits))
        })?,
        SqlType::TimeTz => reader.written(|text, out| {
            out.push_str(&ZonedTime::read(text, options)?.text());
            Ok(())
        })?,
        SqlType::Range(kind) => reader.written(|text, out| {
            out.push_str(&Range::read(text, *kind, options)?.text());
            Ok(())
        })?,
        SqlType::Multirange(kind) => reader.written(|text, out| {
            out.push_str(&Multirange::read(text, *kind, options)?.text());
            Ok(())
        })?,
        SqlType::Network(kind) => reader.written(|text, out| {
            out.push_str(&networks::held(text, *kind)?);
            Ok(())
        })?,
        SqlType::Vector(kind) => reader.written(|text, out| kind.write(text, out))?,
        SqlType::Search(kind) => reader.written(|text, out| {
            out.push_str(&kind.held(text)?);
            Ok(())
        })?,
        SqlType::Boolean => reader.booleans()?,
        SqlType::SmallInt => {
            let (least, most) = (i16::MIN.into(), i16::MAX.into());
            reader.primitives::<Int16Type>(data_type, |text| {
                Ok(numbers::parse_integer(text, least, most, "smallint")? as i16)
            })?
        }
        SqlType::Integer => {
            let (least, most) = (i32::MIN.into(), i32::MAX.into());
            reader.primitives::<Int32Type>(data_type, |text| {
                Ok(numbers::parse_integer(text, least, most, "integer")? as i32)
            })?
        }
        SqlType::BigInt => reader
            .primitives::<Int64Type>(data_type, |text| numbers::parse_integer(text, i64::MIN, i64::MAX, "bigint"))?,
        SqlType::Oid(_) => {
            let name = sql_type.internal_name();
            reader.primitives::<Int64Type>(data_type, |text| numbers::parse_oid_text(text, name))?
        }
        SqlType::Real => reader.primitives::<Float32Type>(data_type, numbers::parse_real)?,
        SqlType::Double => reader.primitives::<Float64Type>(data_type, numbers::parse_double)?,
        SqlType::Numeric(digits) => {
            let (precision, scale) = digits.unwrap_or((NUMERIC_PRECISION, NUMERIC_SCALE));
            if matches!(data_type, DataType::Decimal128(..)) {
                reader.primitives::<Decimal128Type>(data_type, |text| {
                    let value = decimals::parse_decimal(text, precision, scale)?;
                    value.to_i128().ok_or_else(|| errors::numeric_overflow(precision, scale))
                })?
            } else {
                reader
                    .primitives::<Decimal256Type>(data_type, |text| decimals::parse_decimal(text, precision, scale))?
            }
        }
        SqlType::Bytea => reader.bytes()?,
        SqlType::Date => reader.primitives::<Date32Type>(data_type, |text| datetime::parse_date(text, options))?,
        SqlType::Time => {
            reader.primitives::<Time64MicrosecondType>(data_type, |text| datetime::parse_time(text, options))?
        }
        SqlType::Timestamp => {
            reader.primitives::<TimestampMicrosecondType>(data_type, |text| datetime::parse_timestamp(text, options))?
        }
        SqlType::TimestampTz => reader
            .primitives::<TimestampMicrosecondType>(data_type, |text| datetime::parse_timestamptz(text, options))?,
        SqlType::Interval => reader.primitives::<IntervalMonthDayNanoType>(data_type, |text| {
            interval::parse_interval(text, options.zone.styles().interval)
        })?,
        SqlType::Array(_) | SqlType::Record(_) | SqlType::Map(_) if options.is_try => reader.one_by_one(sql_type)?,
        SqlType::Array(element) => reader.arrays(sql_type, element)?,
        SqlType::Record(fields) => reader.records(sql_type, fields)?,
        SqlType::Map(pair) => reader.maps(sql_type, pair)?,
        SqlType::Void => {
            return Err(Error::input(format!("cannot cast type text to {sql_type}")).with_code("42846"));
        }
    })
}

struct Texts<'a> {
    texts: &'a StringViewArray,
    options: &'a ReadOptions,
}

impl<'a> Texts<'a> {
    /// A value, or NULL where errors are.
    fn tried<T>(&self, value: Result<T>) -> Result<Option<T>> {
        match value {
            Ok(value) => Ok(Some(value)),
            Err(_) if self.options.is_try => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn primitives<T: ArrowPrimitiveType>(
        &self,
        data_type: DataType,
        parse: impl Fn(&str) -> Result<T::Native>,
    ) -> Result<ArrayRef> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(self.texts.len()).with_data_type(data_type);
        for text in self.texts {
            match text {
                Some(text) => builder.append_option(self.tried(parse(text))?),
                None => builder.append_null(),
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    fn booleans(&self) -> Result<ArrayRef> {
        let mut builder = BooleanBuilder::with_capacity(self.texts.len());
        for text in self.texts {
            match text {
                Some(text) => builder.append_option(self.tried(numbers::parse_boolean(text))?),
                None => builder.append_null(),
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    fn bytes(&self) -> Result<ArrayRef> {
        let mut builder = BinaryViewBuilder::with_capacity(self.texts.len());
        for text in self.texts {
            match text {
                Some(text) => builder.append_option(self.tried(bytes::parse_bytes(text))?),
                None => builder.append_null(),
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    /// Texts that are pieces of what was read.
    fn slices(&self, slice: impl Fn(&'a str) -> Result<&'a str>) -> Result<ArrayRef> {
        let mut builder = StringViewBuilder::with_capacity(self.texts.len());
        for text in self.texts {
            match text {
                Some(text) => builder.append_option(self.tried(slice(text))?),
                None => builder.append_null(),
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    /// Texts that are written anew.
    fn written(&self, write: impl Fn(&str, &mut String) -> Result<()>) -> Result<ArrayRef> {
        let mut builder = StringViewBuilder::with_capacity(self.texts.len());
        let mut out = String::new();
        for text in self.texts {
            out.clear();
            match text {
                Some(text) => {
                    let written = self.tried(write(text, &mut out))?;
                    builder.append_option(written.map(|()| &out));
                }
                None => builder.append_null(),
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    fn arrays(&self, sql_type: &SqlType, element: &SqlType) -> Result<ArrayRef> {
        let mut elements = StringViewBuilder::new();
        let mut offsets = vec![0_i32];
        let is_nested = matches!(element, SqlType::Array(_));
        for text in self.texts {
            if let Some(text) = text {
                let mut is_too_deep = false;
                literals::split_array(text, |item, is_array| {
                    is_too_deep |= is_array && !is_nested;
                    elements.append_option(item);
                })?;
                if is_too_deep {
                    let message = format!("\"{text}\" has more dimensions than {sql_type} holds here");
                    return Err(Error::input(message).with_code("0A000"));
                }
            }
            let end =
                i32::try_from(elements.len()).map_err(|_| Error::resource("arrays of more than 2^31 elements"))?;
            offsets.push(end);
        }
        let values = parse_array(&elements.finish(), element, self.options)?;
        let offsets = OffsetBuffer::new(offsets.into());
        let list = ListArray::new(field_of(sql_type), offsets, values, self.texts.nulls().cloned());
        if is_nested {
            self.check_dimensions(&list)?;
        }
        Ok(Arc::new(list))
    }

    /// The arrays within an array must be of equal length.
    fn check_dimensions(&self, list: &ListArray) -> Result<()> {
        use arrow::array::AsArray;
        let inner = list.values().as_list::<i32>();
        for (row, range) in list.value_offsets().windows(2).enumerate() {
            let mut lengths = (range[0]..range[1]).map(|inner_row| inner.value_length(inner_row as usize));
            let first = lengths.next();
            if first == Some(0) || lengths.any(|length| Some(length) != first) {
                let message = format!("malformed array literal: \"{}\"", self.texts.value(row));
                return Err(Error::input(message)
                    .with_code("22P02")
                    .with_hint("Multidimensional arrays must have sub-arrays with matching dimensions"));
            }
        }
        Ok(())
    }

    fn records(&self, sql_type: &SqlType, fields: &[RecordField]) -> Result<ArrayRef> {
        let DataType::Struct(arrow_fields) = sql_type.arrow() else {
            return Err(Error::bug("records are held as structs"));
        };
        let mut columns: Vec<_> = fields.iter().map(|_| StringViewBuilder::with_capacity(self.texts.len())).collect();
        for text in self.texts {
            let Some(text) = text else {
                columns.iter_mut().for_each(StringViewBuilder::append_null);
                continue;
            };
            let values = match literals::split_pairs(text, false) {
                Some(pairs) => values_by_name(text, pairs, fields)?,
                None => literals::split_record(text)?,
            };
            if values.len() != columns.len() {
                let message = format!("malformed record literal: \"{text}\"");
                let hint = format!("It has {} fields where {} are expected", values.len(), columns.len());
                return Err(Error::input(message).with_code("22P02").with_hint(hint));
            }
            for (column, value) in columns.iter_mut().zip(values) {
                column.append_option(value);
            }
        }
        let columns = columns.iter_mut().zip(fields);
        let columns = columns.map(|(column, field)| parse_array(&column.finish(), &field.sql_type, self.options));
        let nulls: Option<NullBuffer> = self.texts.nulls().cloned();
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(StructArray::new(arrow_fields, columns, nulls)))
    }

    /// DuckDB's form of a map, `{a=1, b=2}`. Fails with 22P02 for another one.
    fn maps(&self, sql_type: &SqlType, (key, value): &(SqlType, SqlType)) -> Result<ArrayRef> {
        let DataType::Map(entries, is_sorted) = sql_type.arrow() else {
            return Err(Error::bug("maps are held as maps"));
        };
        let DataType::Struct(fields) = entries.data_type().clone() else {
            return Err(Error::bug("a map's entries are structs"));
        };
        let (mut keys, mut values) = (StringViewBuilder::new(), StringViewBuilder::new());
        let mut offsets = vec![0_i32];
        for text in self.texts {
            if let Some(text) = text {
                let malformed = || Error::input(format!("malformed map literal: \"{text}\"")).with_code("22P02");
                for (name, value) in literals::split_pairs(text, true).ok_or_else(malformed)? {
                    keys.append_value(name);
                    values.append_option(value);
                }
            }
            let end = i32::try_from(keys.len()).map_err(|_| Error::resource("maps of more than 2^31 entries"))?;
            offsets.push(end);
        }
        let keys = parse_array(&keys.finish(), key, self.options)?;
        let values = parse_array(&values.finish(), value, self.options)?;
        let pairs = StructArray::new(fields, vec![keys, values], None);
        let offsets = OffsetBuffer::new(offsets.into());
        Ok(Arc::new(MapArray::new(entries, offsets, pairs, self.texts.nulls().cloned(), is_sorted)))
    }

    /// Values that consist of others are NULL as a whole where a part of them cannot be read.
    fn one_by_one(&self, sql_type: &SqlType) -> Result<ArrayRef> {
        let strict = ReadOptions { is_try: false, ..*self.options };
        let rows: Vec<ArrayRef> = (0..self.texts.len())
            .map(|row| {
                parse_array(&self.texts.slice(row, 1), sql_type, &strict)
                    .unwrap_or_else(|_| new_null_array(&sql_type.arrow(), 1))
            })
            .collect();
        let rows: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
        if rows.is_empty() {
            return Ok(new_null_array(&sql_type.arrow(), 0));
        }
        concat(&rows).map_err(|error| Error::bug(format!("rows of one type: {error}")))
    }
}

/// The values of a struct's fields in their order, NULL where one is missing. Fails with 22P02 for a name that is no
/// field's.
fn values_by_name(
    text: &str,
    pairs: Vec<(String, Option<String>)>,
    fields: &[RecordField],
) -> Result<Vec<Option<String>>> {
    let mut values = vec![None; fields.len()];
    for (name, value) in pairs {
        let place = fields.iter().position(|field| field.name == name).ok_or_else(|| {
            let error = Error::input(format!("malformed record literal: \"{text}\"")).with_code("22P02");
            error.with_hint(format!("There is no field {name}"))
        })?;
        values[place] = value;
    }
    Ok(values)
}

/// The field of an array's elements.
pub(crate) fn field_of(array: &SqlType) -> arrow::datatypes::FieldRef {
    match array.arrow() {
        DataType::List(field) => field,
        other => Arc::new(arrow::datatypes::Field::new("item", other, true)),
    }
}
