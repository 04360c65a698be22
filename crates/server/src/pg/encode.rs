//! Values as the wire protocol writes them: text or binary, row by row from columns.
//!
//! The forms are PostgreSQL's: what its `…out` and `…send` functions give, so that clients read them with their own codecs.

use std::fmt::Write as _;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, RecordBatch, StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, IntervalUnit, Schema, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::{BufMut, BytesMut};
use diligence_base::{Error, Result};
use diligence_db::postgres as types;
use diligence_db::postgres::{ColumnType, column_type};

/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL counts from.
pub(super) const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970 to 2000.
pub(super) const EPOCH_MICROSECONDS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As people read it.
    Text,
    /// As machines do.
    Binary,
}

/// A result's columns as they are sent.
#[derive(Clone, Debug)]
pub struct Columns(Vec<(ColumnType, Form)>);

impl Columns {
    /// The columns of a schema. `forms` has one form for each, one for all, or none: text.
    pub fn new(schema: &Schema, forms: &[i16]) -> Result<Self> {
        let form = |index: usize| match forms {
            [] => Ok(Form::Text),
            [one] => form_of(*one),
            many => many.get(index).map_or(Err(wrong_count()), |code| form_of(*code)),
        };
        let fields = schema.fields().iter().enumerate();
        Ok(Self(
            fields.map(|(index, field)| Ok((column_type(field.data_type()), form(index)?))).collect::<Result<_>>()?,
        ))
    }

    /// All columns in one form.
    pub fn all(schema: &Schema, form: Form) -> Self {
        Self(schema.fields().iter().map(|field| (column_type(field.data_type()), form)).collect())
    }

    /// The types and forms, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(ColumnType, Form)> {
        self.0.iter()
    }

    /// The batch made ready to be written row by row.
    pub fn rows(&self, batch: &RecordBatch) -> Result<Rows> {
        if batch.num_columns() != self.0.len() {
            return Err(Error::bug("a batch has other columns than its result"));
        }
        let columns = batch.columns().iter().zip(&self.0).map(|(array, (column, form))| {
            Ok(Column { values: Values::new(array, column)?, column: *column, form: *form })
        });
        Ok(Rows { columns: columns.collect::<Result<_>>()?, count: batch.num_rows() })
    }
}

/// The form of a format code.
pub fn form_of(code: i16) -> Result<Form> {
    match code {
        0 => Ok(Form::Text),
        1 => Ok(Form::Binary),
        other => Err(Error::input(format!("{other} is no format code: 0 is text, 1 is binary")).with_code("08P01")),
    }
}

fn wrong_count() -> Error {
    Error::input("there are fewer format codes than columns").with_code("08P01")
}

/// A batch that is written row by row.
pub struct Rows {
    columns: Vec<Column>,
    count: usize,
}

struct Column {
    values: Values,
    column: ColumnType,
    form: Form,
}

impl Rows {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Writes one row as a DataRow message.
    pub fn write_message(&self, row: usize, out: &mut BytesMut) {
        out.put_u8(b'D');
        let start = out.len();
        out.put_i32(0);
        self.write_fields(row, out);
        let length = (out.len() - start) as i32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Writes one row as its count of fields and the fields with their lengths: the body of a DataRow, and a row of a binary COPY.
    pub fn write_fields(&self, row: usize, out: &mut BytesMut) {
        out.put_i16(self.columns.len() as i16);
        for column in &self.columns {
            if column.values.is_null(row) {
                out.put_i32(-1);
                continue;
            }
            let start = out.len();
            out.put_i32(0);
            match column.form {
                Form::Text => column.values.text(row, &column.column, out),
                Form::Binary => column.values.binary(row, &column.column, out),
            }
            let length = (out.len() - start - 4) as i32;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Writes a field as text; false if it is NULL.
    pub fn write_text(&self, row: usize, column: usize, out: &mut BytesMut) -> bool {
        let column = &self.columns[column];
        if column.values.is_null(row) {
            return false;
        }
        column.values.text(row, &column.column, out);
        true
    }
}

/// A column in one of the few forms that are written.
enum Values {
    Boolean(BooleanArray),
    Int16(Int16Array),
    Int32(Int32Array),
    Int64(Int64Array),
    Float32(Float32Array),
    Float64(Float64Array),
    Decimal(Decimal128Array, i8),
    WideDecimal(arrow::array::Decimal256Array, i8, u8),
    Text(StringViewArray),
    Bytes(arrow::array::BinaryViewArray),
    Date(arrow::array::Date32Array),
    Time(Time64MicrosecondArray),
    Timestamp(TimestampMicrosecondArray, bool),
    Interval(arrow::array::IntervalMonthDayNanoArray),
    List(ArrayRef, Vec<(usize, usize)>, Box<Values>),
}

impl Values {
    fn new(array: &ArrayRef, column: &ColumnType) -> Result<Self> {
        if column.is_array {
            return Self::list(array, column);
        }
        let to = |data_type: &DataType| -> Result<ArrayRef> {
            if array.data_type() == data_type {
                return Ok(array.clone());
            }
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(array, data_type, &options)
                .map_err(|error| Error::value(format!("a value cannot be sent: {error}")))
        };
        Ok(match column.element {
            types::BOOL => Values::Boolean(to(&DataType::Boolean)?.as_boolean().clone()),
            types::INT2 => Values::Int16(to(&DataType::Int16)?.as_primitive::<Int16Type>().clone()),
            types::INT4 => Values::Int32(to(&DataType::Int32)?.as_primitive::<Int32Type>().clone()),
            types::INT8 => Values::Int64(to(&DataType::Int64)?.as_primitive::<Int64Type>().clone()),
            types::FLOAT4 => Values::Float32(to(&DataType::Float32)?.as_primitive::<Float32Type>().clone()),
            types::FLOAT8 => Values::Float64(to(&DataType::Float64)?.as_primitive::<Float64Type>().clone()),
            types::NUMERIC => match flat_type(array.data_type()) {
                DataType::Decimal256(precision, scale) => {
                    let wide = to(&DataType::Decimal256(precision, scale))?;
                    Values::WideDecimal(wide.as_primitive::<Decimal256Type>().clone(), scale, precision)
                }
                DataType::Decimal32(precision, scale)
                | DataType::Decimal64(precision, scale)
                | DataType::Decimal128(precision, scale) => {
                    let narrow = to(&DataType::Decimal128(precision, scale))?;
                    Values::Decimal(narrow.as_primitive::<Decimal128Type>().clone(), scale)
                }
                _ => Values::Decimal(to(&DataType::Decimal128(20, 0))?.as_primitive::<Decimal128Type>().clone(), 0),
            },
            types::BYTEA => Values::Bytes(to(&DataType::BinaryView)?.as_binary_view().clone()),
            types::DATE => Values::Date(to(&DataType::Date32)?.as_primitive::<Date32Type>().clone()),
            types::TIME => {
                let time = to(&DataType::Time64(TimeUnit::Microsecond))?;
                Values::Time(time.as_primitive::<Time64MicrosecondType>().clone())
            }
            types::TIMESTAMP | types::TIMESTAMPTZ => {
                let zoned = column.element == types::TIMESTAMPTZ;
                let zone = match flat_type(array.data_type()) {
                    DataType::Timestamp(_, zone) => zone,
                    _ => None,
                };
                let timestamp = to(&DataType::Timestamp(TimeUnit::Microsecond, zone))?;
                Values::Timestamp(timestamp.as_primitive::<TimestampMicrosecondType>().clone(), zoned)
            }
            types::INTERVAL => {
                let interval = to(&DataType::Interval(IntervalUnit::MonthDayNano))?;
                Values::Interval(interval.as_primitive::<IntervalMonthDayNanoType>().clone())
            }
            types::JSON => Values::Text(json_texts(array)?),
            _ => match array.data_type() {
                DataType::Null => Values::Text(StringViewArray::new_null(array.len())),
                _ => Values::Text(to(&DataType::Utf8View)?.as_string_view().clone()),
            },
        })
    }

    fn list(array: &ArrayRef, column: &ColumnType) -> Result<Self> {
        let flat = match array.data_type() {
            DataType::Dictionary(_, values) => arrow::compute::cast(array, values).map_err(not_sent)?,
            DataType::FixedSizeList(field, _) => {
                arrow::compute::cast(array, &DataType::List(field.clone())).map_err(not_sent)?
            }
            _ => array.clone(),
        };
        let (values, ranges) = match flat.data_type() {
            DataType::LargeList(_) => {
                let list = flat.as_list::<i64>();
                let ranges = list.value_offsets().windows(2).map(|ends| (ends[0] as usize, ends[1] as usize)).collect();
                (list.values().clone(), ranges)
            }
            _ => {
                let list = flat.as_list::<i32>();
                let ranges = list.value_offsets().windows(2).map(|ends| (ends[0] as usize, ends[1] as usize)).collect();
                (list.values().clone(), ranges)
            }
        };
        let element = ColumnType { is_array: false, oid: column.element.oid, ..*column };
        Ok(Values::List(flat, ranges, Box::new(Values::new(&values, &element)?)))
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Values::Boolean(array) => array.is_null(row),
            Values::Int16(array) => array.is_null(row),
            Values::Int32(array) => array.is_null(row),
            Values::Int64(array) => array.is_null(row),
            Values::Float32(array) => array.is_null(row),
            Values::Float64(array) => array.is_null(row),
            Values::Decimal(array, _) => array.is_null(row),
            Values::WideDecimal(array, ..) => array.is_null(row),
            Values::Text(array) => array.is_null(row),
            Values::Bytes(array) => array.is_null(row),
            Values::Date(array) => array.is_null(row),
            Values::Time(array) => array.is_null(row),
            Values::Timestamp(array, _) => array.is_null(row),
            Values::Interval(array) => array.is_null(row),
            Values::List(array, ..) => array.is_null(row),
        }
    }

    fn text(&self, row: usize, column: &ColumnType, out: &mut BytesMut) {
        // Writing to BytesMut does not fail.
        let _ = match self {
            Values::Boolean(array) => {
                out.put_u8(if array.value(row) { b't' } else { b'f' });
                Ok(())
            }
            Values::Int16(array) => write!(out, "{}", array.value(row)),
            Values::Int32(array) => write!(out, "{}", array.value(row)),
            Values::Int64(array) => write!(out, "{}", array.value(row)),
            Values::Float32(array) => {
                let value = array.value(row);
                float_text(f64::from(value), &format!("{value:e}"), 6, out)
            }
            Values::Float64(array) => {
                let value = array.value(row);
                float_text(value, &format!("{value:e}"), 15, out)
            }
            Values::Decimal(array, scale) => decimal_text(&array.value(row).to_string(), *scale, out),
            Values::WideDecimal(array, scale, precision) => {
                write!(out, "{}", Decimal256Type::format_decimal(array.value(row), *precision, *scale))
            }
            Values::Text(array) => {
                out.put_slice(array.value(row).as_bytes());
                Ok(())
            }
            Values::Bytes(array) => {
                out.put_slice(b"\\x");
                array.value(row).iter().try_for_each(|byte| write!(out, "{byte:02x}"))
            }
            Values::Date(array) => date_text(i64::from(array.value(row)), out).and_then(|era| out.write_str(era)),
            Values::Time(array) => time_text(array.value(row), out),
            Values::Timestamp(array, zoned) => timestamp_text(array.value(row), *zoned, out),
            Values::Interval(array) => {
                let value = array.value(row);
                interval_text(value.months, value.days, value.nanoseconds / 1000, out)
            }
            Values::List(_, ranges, values) => {
                list_text(ranges[row], values, column, out);
                Ok(())
            }
        };
    }

    fn binary(&self, row: usize, column: &ColumnType, out: &mut BytesMut) {
        match self {
            Values::Boolean(array) => out.put_u8(u8::from(array.value(row))),
            Values::Int16(array) => out.put_i16(array.value(row)),
            Values::Int32(array) => out.put_i32(array.value(row)),
            Values::Int64(array) => out.put_i64(array.value(row)),
            Values::Float32(array) => out.put_f32(array.value(row)),
            Values::Float64(array) => out.put_f64(array.value(row)),
            Values::Decimal(array, scale) => {
                let mut text = BytesMut::new();
                let _ = decimal_text(&array.value(row).to_string(), *scale, &mut text);
                numeric_binary(&text, out);
            }
            Values::WideDecimal(array, scale, precision) => {
                let text = Decimal256Type::format_decimal(array.value(row), *precision, *scale);
                numeric_binary(text.as_bytes(), out);
            }
            Values::Text(array) => out.put_slice(array.value(row).as_bytes()),
            Values::Bytes(array) => out.put_slice(array.value(row)),
            Values::Date(array) => out.put_i32(array.value(row).saturating_sub(EPOCH_DAYS)),
            Values::Time(array) => out.put_i64(array.value(row)),
            Values::Timestamp(array, _) => out.put_i64(array.value(row).saturating_sub(EPOCH_MICROSECONDS)),
            Values::Interval(array) => {
                let value = array.value(row);
                out.put_i64(value.nanoseconds / 1000);
                out.put_i32(value.days);
                out.put_i32(value.months);
            }
            Values::List(_, ranges, values) => {
                let (from, to) = ranges[row];
                let nulls = (from..to).any(|index| values.is_null(index));
                out.put_i32(i32::from(to > from));
                out.put_i32(i32::from(nulls));
                out.put_u32(column.element.oid);
                if to > from {
                    out.put_i32((to - from) as i32);
                    out.put_i32(1);
                }
                let element = ColumnType { is_array: false, oid: column.element.oid, ..*column };
                for index in from..to {
                    if values.is_null(index) {
                        out.put_i32(-1);
                        continue;
                    }
                    let start = out.len();
                    out.put_i32(0);
                    values.binary(index, &element, out);
                    let length = (out.len() - start - 4) as i32;
                    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
                }
            }
        }
    }
}

fn not_sent(error: arrow::error::ArrowError) -> Error {
    Error::value(format!("a value cannot be sent: {error}"))
}

fn flat_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => flat_type(values),
        DataType::RunEndEncoded(_, values) => flat_type(values.data_type()),
        other => other.clone(),
    }
}

/// Nested values as JSON.
fn json_texts(array: &ArrayRef) -> Result<StringViewArray> {
    use arrow::json::writer::{EncoderOptions, make_encoder};
    let field = std::sync::Arc::new(arrow::datatypes::Field::new("value", array.data_type().clone(), true));
    let options = EncoderOptions::default().with_explicit_nulls(true);
    let Ok(mut encoder) = make_encoder(&field, array, &options) else {
        // What has no form in JSON (maps with keys that are no strings) is shown as everywhere else.
        let formatter = ArrayFormatter::try_new(array, &FormatOptions::default()).map_err(not_sent)?;
        let texts = (0..array.len()).map(|row| array.is_valid(row).then(|| formatter.value(row).to_string()));
        return Ok(texts.collect());
    };
    let mut bytes = Vec::new();
    let texts = (0..array.len()).map(|row| {
        array.is_valid(row).then(|| {
            bytes.clear();
            encoder.encode(row, &mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    Ok(texts.collect())
}

/// The shortest text that reads as the same number, with an exponent where PostgreSQL has one: below 10⁻⁴, and from
/// 10^`digits` on. `scientific` is Rust's shortest, `1.25e-7`.
fn float_text(value: f64, scientific: &str, digits: i32, out: &mut BytesMut) -> std::fmt::Result {
    if value.is_nan() {
        return out.write_str("NaN");
    }
    if value.is_infinite() {
        return out.write_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..digits).contains(&exponent) {
        let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
        let all = mantissa.replace('.', "");
        out.write_str(sign)?;
        if exponent < 0 {
            out.write_str("0.")?;
            (1..-exponent).try_for_each(|_| out.write_char('0'))?;
            return out.write_str(&all);
        }
        let whole = exponent as usize + 1;
        if all.len() <= whole {
            out.write_str(&all)?;
            return (all.len()..whole).try_for_each(|_| out.write_char('0'));
        }
        return write!(out, "{}.{}", &all[..whole], &all[whole..]);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(out, "{mantissa}e{sign}{:02}", exponent.abs())
}

/// A decimal from its digits.
fn decimal_text(digits: &str, scale: i8, out: &mut BytesMut) -> std::fmt::Result {
    if scale <= 0 {
        out.write_str(digits)?;
        let zeros = if digits == "0" { 0 } else { usize::from(scale.unsigned_abs()) };
        return (0..zeros).try_for_each(|_| out.write_char('0'));
    }
    let scale = scale as usize;
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    out.write_str(sign)?;
    if digits.len() > scale {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        return write!(out, "{whole}.{fraction}");
    }
    write!(out, "0.{digits:0>scale$}")
}

/// PostgreSQL's binary numeric from a decimal's text: digits in base 10,000.
fn numeric_binary(text: &[u8], out: &mut BytesMut) {
    let negative = text.first() == Some(&b'-');
    let text = if negative { &text[1..] } else { text };
    let point = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &text[..0]),
    };
    let digit = |byte: u8| i16::from(byte - b'0');
    let mut groups = Vec::with_capacity(whole.len() / 4 + fraction.len() / 4 + 2);
    let head = whole.len() % 4;
    if head > 0 {
        groups.push(whole[..head].iter().fold(0, |value, byte| value * 10 + digit(*byte)));
    }
    for chunk in whole[head..].chunks(4) {
        groups.push(chunk.iter().fold(0, |value, byte| value * 10 + digit(*byte)));
    }
    let mut weight = groups.len() as i16 - 1;
    for chunk in fraction.chunks(4) {
        let value = chunk.iter().fold(0, |value, byte| value * 10 + digit(*byte));
        groups.push(value * 10i16.pow(4 - chunk.len() as u32));
    }
    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    weight -= leading as i16;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    out.put_i16(groups.len() as i16);
    out.put_i16(weight);
    out.put_u16(if negative && !groups.is_empty() { 0x4000 } else { 0 });
    out.put_i16(fraction.len() as i16);
    for group in groups {
        out.put_i16(group);
    }
}

/// Writes a date by days since 1970, and gives what has to follow for years before Christ.
fn date_text(days: i64, out: &mut BytesMut) -> Result<&'static str, std::fmt::Error> {
    // The civil calendar from days: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (shown, suffix) = if year <= 0 { (1 - year, " BC") } else { (year, "") };
    write!(out, "{shown:04}-{month:02}-{day:02}")?;
    Ok(suffix)
}

fn time_text(microseconds: i64, out: &mut BytesMut) -> std::fmt::Result {
    let seconds = microseconds.div_euclid(1_000_000);
    write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    fraction_text(microseconds.rem_euclid(1_000_000), out)
}

fn fraction_text(microseconds: i64, out: &mut BytesMut) -> std::fmt::Result {
    if microseconds == 0 {
        return Ok(());
    }
    let digits = format!("{microseconds:06}");
    write!(out, ".{}", digits.trim_end_matches('0'))
}

fn timestamp_text(microseconds: i64, zoned: bool, out: &mut BytesMut) -> std::fmt::Result {
    let day = 86_400_000_000;
    let era = date_text(microseconds.div_euclid(day), out)?;
    out.write_char(' ')?;
    time_text(microseconds.rem_euclid(day), out)?;
    if zoned {
        // Sessions show UTC (`TimeZone`).
        out.write_str("+00")?;
    }
    out.write_str(era)
}

/// `1 year 2 mons -3 days 04:05:06.7`, as PostgreSQL's style `postgres`.
fn interval_text(months: i32, days: i32, microseconds: i64, out: &mut BytesMut) -> std::fmt::Result {
    let mut parts = Vec::new();
    let mut part = |count: i32, one: &str, many: &str| {
        if count != 0 {
            parts.push(format!("{count} {}", if count == 1 { one } else { many }));
        }
    };
    part(months / 12, "year", "years");
    part(months % 12, "mon", "mons");
    part(days, "day", "days");
    let has_date = !parts.is_empty();
    out.write_str(&parts.join(" "))?;
    if microseconds != 0 || !has_date {
        if has_date {
            out.write_char(' ')?;
        }
        if microseconds < 0 {
            out.write_char('-')?;
        }
        time_text(microseconds.saturating_abs(), out)?;
    }
    Ok(())
}

fn list_text(range: (usize, usize), values: &Values, column: &ColumnType, out: &mut BytesMut) {
    let element = ColumnType { is_array: false, oid: column.element.oid, ..*column };
    out.put_u8(b'{');
    let mut field = BytesMut::new();
    for index in range.0..range.1 {
        if index > range.0 {
            out.put_u8(b',');
        }
        if values.is_null(index) {
            out.put_slice(b"NULL");
            continue;
        }
        field.clear();
        values.text(index, &element, &mut field);
        let plain = !field.is_empty()
            && !field.eq_ignore_ascii_case(b"null")
            && !field
                .iter()
                .any(|byte| matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\') || byte.is_ascii_whitespace());
        if plain {
            out.put_slice(&field);
            continue;
        }
        out.put_u8(b'"');
        for byte in &field {
            if matches!(byte, b'"' | b'\\') {
                out.put_u8(b'\\');
            }
            out.put_u8(*byte);
        }
        out.put_u8(b'"');
    }
    out.put_u8(b'}');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, Decimal128Array, Float64Array, IntervalMonthDayNanoArray, ListArray};
    use arrow::datatypes::{Field, IntervalMonthDayNano};

    use super::*;

    fn texts(array: ArrayRef) -> Vec<String> {
        let schema = Schema::new(vec![Field::new("value", array.data_type().clone(), true)]);
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![array]).unwrap();
        let rows = Columns::all(&schema, Form::Text).rows(&batch).unwrap();
        let one = |row| {
            let mut out = BytesMut::new();
            if rows.write_text(row, 0, &mut out) { String::from_utf8(out.to_vec()).unwrap() } else { "NULL".into() }
        };
        (0..rows.count()).map(one).collect()
    }

    #[test]
    fn doubles_are_written_as_postgres_does() {
        let values = [0.1, 1e15, 123456789012345.0, 1e-5, 0.0001, 1.5e300, -0.0, f64::NAN, f64::INFINITY, 100.0];
        let expected =
            ["0.1", "1e+15", "123456789012345", "1e-05", "0.0001", "1.5e+300", "-0", "NaN", "Infinity", "100"];
        assert_eq!(texts(Arc::new(Float64Array::from(values.to_vec()))), expected);
    }

    #[test]
    fn dates_times_and_intervals_are_written_as_postgres_does() {
        assert_eq!(
            texts(Arc::new(Date32Array::from(vec![0, -1, 11_016, -719_529]))),
            ["1970-01-01", "1969-12-31", "2000-02-29", "0002-12-31 BC",]
        );
        let stamps = TimestampMicrosecondArray::from(vec![1_500_000, -1]).with_timezone("UTC");
        assert_eq!(texts(Arc::new(stamps)), ["1970-01-01 00:00:01.5+00", "1969-12-31 23:59:59.999999+00"]);
        let intervals = [(14, -3, 3_600_000_000_000), (0, 0, 0), (0, 1, -1_500_000_000)]
            .map(|(months, days, nanoseconds)| IntervalMonthDayNano::new(months, days, nanoseconds));
        assert_eq!(
            texts(Arc::new(IntervalMonthDayNanoArray::from(intervals.to_vec()))),
            ["1 year 2 mons -3 days 01:00:00", "00:00:00", "1 day -00:00:01.5",]
        );
    }

    #[test]
    fn decimals_keep_their_scale_and_pack_into_four_digits() {
        let decimals = Decimal128Array::from(vec![Some(12_345), Some(-5), None, Some(0)]);
        let decimals = decimals.with_precision_and_scale(10, 2).unwrap();
        assert_eq!(texts(Arc::new(decimals)), ["123.45", "-0.05", "NULL", "0.00"]);
        let packed = |text: &str| {
            let mut out = BytesMut::new();
            numeric_binary(text.as_bytes(), &mut out);
            out.chunks(2).map(|two| i16::from_be_bytes([two[0], two[1]])).collect::<Vec<_>>()
        };
        assert_eq!(packed("12345.678"), [3, 1, 0, 3, 1, 2345, 6780]);
        assert_eq!(packed("-0.0005"), [1, -1, 0x4000, 4, 5]);
        assert_eq!(packed("0.00"), [0, 0, 0, 2]);
        assert_eq!(packed("10000"), [1, 1, 0, 0, 1]);
    }

    #[test]
    fn arrays_quote_what_would_be_misread() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
        assert_eq!(texts(Arc::new(list)), ["{1,NULL}", "NULL", "{}"]);
        let mut words = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
        words.append_value(["a b", "", "null", "q\"", "plain"].map(Some));
        assert_eq!(texts(Arc::new(words.finish())), [r#"{"a b","","null","q\"",plain}"#]);
    }
}
