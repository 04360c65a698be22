//! Values of a column: text, which both protocols write, or PostgreSQL's binary form; those of arrays and rows as well.
//!
//! The forms are PostgreSQL's: what its `…out` and `…send` functions give, so that clients read them with their own
//! codecs.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, StringViewArray, StringViewBuilder, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, i256,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::{BufMut, BytesMut};
use diligence_base::{Error, Result};
use diligence_db::postgres as types;
use diligence_db::postgres::{ColumnType, PostgresType, UNBOUNDED_NUMERIC, field_type};
use diligence_db::{Multirange, NetworkKind, Printer, Range, RangeKind, SearchKind, SqlType, Styles, Zone};

use super::fields::{
    EPOCH_MICROSECONDS, multirange_binary, network_binary, put_field, put_length, range_binary, since_2000,
};
use super::held_text::HeldText;
use super::numeric::{PlainNumeric, without_zeros};
use super::text;

/// The types whose texts have styles.
static STYLED: [(PostgresType, SqlType); 5] = [
    (types::DATE, SqlType::Date),
    (types::TIMESTAMP, SqlType::Timestamp),
    (types::TIMESTAMPTZ, SqlType::TimestampTz),
    (types::INTERVAL, SqlType::Interval),
    (types::BYTEA, SqlType::Bytea),
];

/// The number of `character(n)`.
const BPCHAR: u32 = 1042;
/// What PostgreSQL adds to the number of characters in a type's modifier.
const BPCHAR_HEADER: i32 = 4;

/// A column in one of the few forms that are written.
pub(super) enum Values {
    Boolean(BooleanArray),
    Int16(Int16Array),
    Int32(Int32Array),
    Int64(Int64Array),
    Float32(Float32Array),
    Float64(Float64Array),
    Decimal(Decimal128Array, i8),
    WideDecimal(arrow::array::Decimal256Array, i8, u8),
    /// Numbers of objects.
    Oid(Int64Array),
    Text(StringViewArray),
    /// Texts that have another binary form.
    Held(StringViewArray, HeldText),
    Bytes(arrow::array::BinaryViewArray),
    Date(arrow::array::Date32Array),
    Time(Time64MicrosecondArray),
    Timestamp(TimestampMicrosecondArray, Option<Zone>),
    Interval(arrow::array::IntervalMonthDayNanoArray),
    /// Dates and intervals with their texts in another style than the usual one.
    Styled(Box<Values>, StringViewArray),
    List(ArrayRef, Vec<(usize, usize)>, Box<Values>),
    /// Ranges, as they are held.
    Range(StringViewArray, RangeKind, Zone),
    /// Multiranges, likewise.
    Multirange(StringViewArray, RangeKind, Zone),
    /// Addresses in networks, likewise.
    Network(StringViewArray, NetworkKind),
    /// Of text search, likewise.
    Search(StringViewArray, SearchKind),
    /// Rows of columns.
    Row(ArrayRef, Vec<(Values, ColumnType)>),
}

impl Values {
    /// The values of an array, which a column of a type has. Fails with kind `Value` if one has no such form.
    pub(super) fn new(array: &ArrayRef, column: &ColumnType, zone: Zone) -> Result<Self> {
        if column.is_array {
            return Self::list(array, column, zone);
        }

        let to = |data_type: &DataType| -> Result<ArrayRef> {
            if array.data_type() == data_type {
                return Ok(array.clone());
            }
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(array, data_type, &options)
                .map_err(|error| Error::value(format!("a value cannot be sent: {error}")))
        };
        if *zone.styles() != Styles::default()
            && let Some((_, sql_type)) = STYLED.iter().find(|(element, _)| *element == column.element)
        {
            let texts = Printer::new(&to(&sql_type.arrow())?, sql_type, zone)?.texts();
            let plain = Self::new(array, column, zone.with_styles(Styles::default()))?;
            return Ok(Values::Styled(Box::new(plain), texts));
        }
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
                let shown_in = (column.element == types::TIMESTAMPTZ).then_some(zone);
                let zone = match flat_type(array.data_type()) {
                    DataType::Timestamp(_, zone) => zone,
                    _ => None,
                };
                let timestamp = to(&DataType::Timestamp(TimeUnit::Microsecond, zone))?;
                Values::Timestamp(timestamp.as_primitive::<TimestampMicrosecondType>().clone(), shown_in)
            }
            types::INTERVAL => {
                let interval = to(&DataType::Interval(IntervalUnit::MonthDayNano))?;
                Values::Interval(interval.as_primitive::<IntervalMonthDayNanoType>().clone())
            }
            types::JSON => Values::Text(json_texts(array)?),
            element if let Some(held) = HeldText::of(element.oid) => {
                Values::Held(to(&DataType::Utf8View)?.as_string_view().clone(), held)
            }
            element if let Some(kind) = RangeKind::of_name(element.name) => {
                Values::Range(to(&DataType::Utf8View)?.as_string_view().clone(), kind, zone)
            }
            element if let Some(kind) = RangeKind::of_multirange_name(element.name) => {
                Values::Multirange(to(&DataType::Utf8View)?.as_string_view().clone(), kind, zone)
            }
            element if let Some(kind) = NetworkKind::of_name(element.name) => {
                Values::Network(to(&DataType::Utf8View)?.as_string_view().clone(), kind)
            }
            element if let Some(kind) = SearchKind::of_name(element.name) => {
                Values::Search(to(&DataType::Utf8View)?.as_string_view().clone(), kind)
            }
            element if element.name == types::ROW_NAME && matches!(array.data_type(), DataType::Struct(_)) => {
                let record = array.as_struct();
                let columns = record.columns().iter().zip(record.fields()).map(|(array, field)| {
                    let column = field_type(field);
                    Ok((Values::new(array, &column, zone)?, column))
                });
                Values::Row(array.clone(), columns.collect::<Result<_>>()?)
            }
            // Blanks fill a `character(n)`; they are not held.
            element if element.oid == BPCHAR && column.modifier > BPCHAR_HEADER => {
                let length = (column.modifier - BPCHAR_HEADER) as usize;
                let texts = to(&DataType::Utf8View)?;
                let padded = |text: Option<&str>| text.map(|text| format!("{text:<length$}"));
                Values::Text(texts.as_string_view().iter().map(padded).collect())
            }
            object if is_of_objects(&object) && array.data_type().is_integer() => {
                Values::Oid(to(&DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            _ => match array.data_type() {
                DataType::Null => Values::Text(StringViewArray::new_null(array.len())),
                _ => Values::Text(to(&DataType::Utf8View)?.as_string_view().clone()),
            },
        })
    }

    fn list(array: &ArrayRef, column: &ColumnType, zone: Zone) -> Result<Self> {
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
            DataType::List(_) => {
                let list = flat.as_list::<i32>();
                let ranges = list.value_offsets().windows(2).map(|ends| (ends[0] as usize, ends[1] as usize)).collect();
                (list.values().clone(), ranges)
            }
            // Such as a parameter has it.
            _ => {
                let error = Error::unsupported("an array of several dimensions is sent here as a text only");
                return Err(error.with_code("0A000").with_hint("ask for the column in text form"));
            }
        };
        let values = match values.data_type() {
            // One more dimension.
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                Values::list(&values, column, zone)?
            }
            _ => Values::new(&values, &element_of(column), zone)?,
        };
        Ok(Values::List(flat, ranges, Box::new(values)))
    }

    /// Which of them are NULL.
    pub(super) fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Values::Boolean(array) => array.nulls(),
            Values::Int16(array) => array.nulls(),
            Values::Int32(array) => array.nulls(),
            Values::Int64(array) => array.nulls(),
            Values::Float32(array) => array.nulls(),
            Values::Float64(array) => array.nulls(),
            Values::Decimal(array, _) => array.nulls(),
            Values::WideDecimal(array, ..) => array.nulls(),
            Values::Oid(array) => array.nulls(),
            Values::Text(array) | Values::Range(array, ..) => array.nulls(),
            Values::Multirange(array, ..) | Values::Network(array, _) | Values::Search(array, _) => array.nulls(),
            Values::Held(array, _) => array.nulls(),
            Values::Bytes(array) => array.nulls(),
            Values::Date(array) => array.nulls(),
            Values::Time(array) => array.nulls(),
            Values::Timestamp(array, _) => array.nulls(),
            Values::Interval(array) => array.nulls(),
            Values::Styled(plain, _) => plain.nulls(),
            Values::List(array, ..) | Values::Row(array, _) => array.nulls(),
        }
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls().is_some_and(|nulls| nulls.is_null(row))
    }

    /// A text with its length before it.
    pub(super) fn text_field(&self, row: usize, column: &ColumnType, out: &mut BytesMut) {
        if let Values::Text(array) = self {
            let text = array.value(row).as_bytes();
            out.put_i32(text.len() as i32);
            return out.put_slice(text);
        }
        let start = out.len();
        out.put_i32(0);
        self.text(row, column, out);
        put_length(start, 4, out);
    }

    /// A value in binary form with its length before it.
    pub(super) fn binary_field(&self, row: usize, column: &ColumnType, out: &mut BytesMut) {
        match self {
            Values::Styled(plain, _) => plain.binary_field(row, column, out),
            Values::Boolean(array) => put_field([u8::from(array.value(row))], out),
            Values::Int16(array) => put_field(array.value(row).to_be_bytes(), out),
            Values::Int32(array) => put_field(array.value(row).to_be_bytes(), out),
            Values::Int64(array) => put_field(array.value(row).to_be_bytes(), out),
            Values::Oid(array) => put_field((array.value(row) as u32).to_be_bytes(), out),
            Values::Float32(array) => put_field(array.value(row).to_be_bytes(), out),
            Values::Float64(array) => put_field(array.value(row).to_be_bytes(), out),
            Values::Date(array) => put_field(since_2000(array.value(row)).to_be_bytes(), out),
            Values::Time(array) => put_field(array.value(row).to_be_bytes(), out),
            Values::Timestamp(array, _) => {
                // The infinities are the same numbers everywhere.
                let moment = match array.value(row) {
                    infinity @ (i64::MIN | i64::MAX) => infinity,
                    moment => moment.saturating_sub(EPOCH_MICROSECONDS),
                };
                put_field(moment.to_be_bytes(), out);
            }
            // Its binary form is its text.
            Values::Text(_) => self.text_field(row, column, out),
            Values::Held(array, held) => {
                let start = out.len();
                out.put_i32(0);
                held.write(array.value(row), out);
                put_length(start, 4, out);
            }
            Values::Bytes(array) => {
                out.put_i32(array.value(row).len() as i32);
                out.put_slice(array.value(row));
            }
            Values::Decimal(array, scale) => {
                let start = out.len();
                out.put_i32(0);
                text::numeric(array.value(row), *scale, out);
                put_length(start, 4, out);
            }
            Values::WideDecimal(array, scale, precision) => {
                let start = out.len();
                out.put_i32(0);
                text::numeric_of_text(shown_decimal(array.value(row), *precision, *scale).as_bytes(), out);
                put_length(start, 4, out);
            }
            Values::Interval(array) => {
                let value = array.value(row);
                out.put_i32(16);
                out.put_i64(value.nanoseconds / 1000);
                out.put_i32(value.days);
                out.put_i32(value.months);
            }
            Values::List(_, ranges, values) => {
                let start = out.len();
                out.put_i32(0);
                list_binary(ranges[row], values, column, out);
                put_length(start, 4, out);
            }
            Values::Range(array, kind, _) => {
                let start = out.len();
                out.put_i32(0);
                range_binary(array.value(row), *kind, out);
                put_length(start, 4, out);
            }
            Values::Multirange(array, kind, _) => {
                let start = out.len();
                out.put_i32(0);
                multirange_binary(array.value(row), *kind, out);
                put_length(start, 4, out);
            }
            Values::Network(array, kind) => {
                let start = out.len();
                out.put_i32(0);
                network_binary(array.value(row), *kind, out);
                put_length(start, 4, out);
            }
            Values::Search(array, kind) => {
                let bytes = kind.binary(array.value(row));
                out.put_i32(bytes.len() as i32);
                out.put_slice(&bytes);
            }
            Values::Row(_, columns) => {
                let start = out.len();
                out.put_i32(0);
                out.put_i32(columns.len() as i32);
                for (values, column) in columns {
                    out.put_u32(column.oid);
                    match values.is_null(row) {
                        true => out.put_i32(-1),
                        false => values.binary_field(row, column, out),
                    }
                }
                put_length(start, 4, out);
            }
        }
    }

    /// A value as text.
    pub(super) fn text(&self, row: usize, column: &ColumnType, out: &mut BytesMut) {
        match self {
            Values::Boolean(array) => out.put_u8(if array.value(row) { b't' } else { b'f' }),
            Values::Int16(array) => text::integer(array.value(row), out),
            Values::Int32(array) => text::integer(array.value(row), out),
            Values::Int64(array) => text::integer(array.value(row), out),
            Values::Oid(array) => text::integer(array.value(row), out),
            Values::Float32(array) => text::float32(array.value(row), out),
            Values::Float64(array) => text::float64(array.value(row), out),
            Values::Decimal(array, scale) => text::decimal(array.value(row), *scale, out),
            Values::WideDecimal(array, scale, precision) => {
                out.put_slice(shown_decimal(array.value(row), *precision, *scale).as_bytes());
            }
            Values::Text(array) => out.put_slice(array.value(row).as_bytes()),
            Values::Bytes(array) => text::bytea(array.value(row), out),
            Values::Date(array) => text::date(i64::from(array.value(row)), out),
            Values::Time(array) => text::time(array.value(row), out),
            Values::Timestamp(array, zone) => text::timestamp(array.value(row), zone.as_ref(), out),
            Values::Interval(array) => {
                let value = array.value(row);
                text::interval(value.months, value.days, value.nanoseconds / 1000, out);
            }
            Values::Styled(_, texts) => out.put_slice(texts.value(row).as_bytes()),
            Values::List(_, ranges, values) => list_text(ranges[row], values, column, out),
            Values::Range(array, kind, zone) if kind.is_of_dates() && *zone != Zone::UTC => {
                let mut text = String::new();
                match Range::held(array.value(row), *kind) {
                    Ok(range) => range.write(&mut text, zone),
                    Err(_) => text.push_str(array.value(row)),
                }
                out.put_slice(text.as_bytes());
            }
            Values::Multirange(array, kind, zone) if kind.is_of_dates() && *zone != Zone::UTC => {
                let mut text = String::new();
                match Multirange::held(array.value(row), *kind) {
                    Ok(multirange) => multirange.write(&mut text, zone),
                    Err(_) => text.push_str(array.value(row)),
                }
                out.put_slice(text.as_bytes());
            }
            Values::Range(array, ..)
            | Values::Multirange(array, ..)
            | Values::Network(array, _)
            | Values::Search(array, _)
            | Values::Held(array, _) => {
                out.put_slice(array.value(row).as_bytes());
            }
            Values::Row(_, columns) => row_text(row, columns, out),
        }
    }
}

/// Whether values of a type number objects: `oid`, `xid`, `regclass` and their kin.
pub(super) fn is_of_objects(known: &PostgresType) -> bool {
    matches!(known.oid, 24 | 26 | 28 | 2202 | 2205 | 2206 | 4089 | 4096)
}

/// A decimal's digits. The scale of a `numeric` without parentheses is each value's own.
fn shown_decimal(value: i256, precision: u8, scale: i8) -> String {
    let mut shown = Decimal256Type::format_decimal(value, precision, scale);
    if (precision, scale) == UNBOUNDED_NUMERIC {
        shown.truncate(without_zeros(&shown).len());
    }
    shown
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
    // `json` and `jsonb` are JSON already.
    if let DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View = array.data_type() {
        let texts = arrow::compute::cast(array, &DataType::Utf8View).map_err(not_sent)?;
        return Ok(texts.as_string_view().clone());
    }
    let field = std::sync::Arc::new(arrow::datatypes::Field::new("value", array.data_type().clone(), true));
    let factory = std::sync::Arc::new(PlainNumeric);
    let options = EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(factory);
    let Ok(mut encoder) = make_encoder(&field, array, &options) else {
        // What has no form in JSON (maps with keys that are no strings) is shown as everywhere else.
        let options = FormatOptions::default().with_formatter_factory(Some(&PlainNumeric));
        let formatter = ArrayFormatter::try_new(array, &options).map_err(not_sent)?;
        let texts = (0..array.len()).map(|row| array.is_valid(row).then(|| formatter.value(row).to_string()));
        return Ok(texts.collect());
    };
    let (mut texts, mut bytes) = (StringViewBuilder::with_capacity(array.len()), Vec::new());
    for row in 0..array.len() {
        if array.is_null(row) {
            texts.append_null();
            continue;
        }
        bytes.clear();
        encoder.encode(row, &mut bytes);
        texts.append_value(String::from_utf8_lossy(&bytes));
    }
    Ok(texts.finish())
}

/// The type of an array's elements.
fn element_of(column: &ColumnType) -> ColumnType {
    ColumnType { is_array: false, oid: column.element.oid, ..*column }
}

/// The elements of an array of any number of dimensions, in order, and the dimensions' lengths. The binary form has
/// rectangles only: where inner arrays are shorter than others, `None` stands for what is missing.
fn flattened<'a>(rows: &[Option<usize>], length: usize, values: &'a Values, ranges: &[(usize, usize)]) -> Flat<'a> {
    let within = rows.iter().flat_map(|row| {
        let (from, to) = row.map_or((0, 0), |row| ranges[row]);
        (from..to).map(Some).chain(std::iter::repeat(None)).take(length)
    });
    let elements = within.collect::<Vec<_>>();
    match values {
        Values::List(_, ranges, inner) => {
            let is_there = |row: &&Option<usize>| row.is_some_and(|row| !values.is_null(row));
            let lengths = elements.iter().filter(is_there).flatten().map(|row| ranges[*row].1 - ranges[*row].0);
            let longest = lengths.max().unwrap_or(0);
            let mut flat = flattened(&elements, longest, inner, ranges);
            flat.lengths.insert(0, length);
            flat
        }
        _ => Flat { lengths: vec![length], elements, values },
    }
}

/// What an array has in its binary form.
struct Flat<'a> {
    lengths: Vec<usize>,
    elements: Vec<Option<usize>>,
    values: &'a Values,
}

fn list_binary((from, to): (usize, usize), values: &Values, column: &ColumnType, out: &mut BytesMut) {
    let flat = flattened(&[Some(0)], to - from, values, &[(from, to)]);
    let is_null = |element: &Option<usize>| element.is_none_or(|element| flat.values.is_null(element));
    let is_empty = flat.elements.is_empty();
    out.put_i32(if is_empty { 0 } else { flat.lengths.len() as i32 });
    out.put_i32(i32::from(flat.elements.iter().any(is_null)));
    out.put_u32(column.element.oid);
    for length in flat.lengths.iter().filter(|_| !is_empty) {
        out.put_i32(*length as i32);
        out.put_i32(1);
    }
    let element_type = element_of(column);
    for element in &flat.elements {
        match element {
            Some(element) if !flat.values.is_null(*element) => flat.values.binary_field(*element, &element_type, out),
            _ => out.put_i32(-1),
        }
    }
}

/// Puts what was written from `start` on between quotes, its quotes and backslashes before another `escape`.
fn quote(start: usize, out: &mut BytesMut, escape: impl Fn(u8) -> u8) {
    let field = out.split_off(start);
    out.put_u8(b'"');
    for byte in &field {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(escape(*byte));
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

fn list_text(range: (usize, usize), values: &Values, column: &ColumnType, out: &mut BytesMut) {
    let is_nested = matches!(values, Values::List(..));
    let element = if is_nested { *column } else { element_of(column) };
    let first = out.len();
    let mut is_empty = true;
    out.put_u8(b'{');
    for index in range.0..range.1 {
        if index > range.0 {
            out.put_u8(b',');
        }
        if values.is_null(index) {
            is_empty = false;
            out.put_slice(b"NULL");
            continue;
        }
        let start = out.len();
        values.text(index, &element, out);
        if is_nested {
            is_empty &= &out[start..] == b"{}";
            continue;
        }
        is_empty = false;
        let field = &out[start..];
        let plain = !field.is_empty()
            && !field.eq_ignore_ascii_case(b"null")
            && !field
                .iter()
                .any(|byte| matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\') || byte.is_ascii_whitespace());
        if !plain {
            quote(start, out, |_| b'\\');
        }
    }
    if is_empty {
        // Arrays of nothing but empty arrays are empty.
        out.truncate(first + 1);
    }
    out.put_u8(b'}');
}

fn row_text(row: usize, columns: &[(Values, ColumnType)], out: &mut BytesMut) {
    out.put_u8(b'(');
    for (index, (values, column)) in columns.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        if values.is_null(row) {
            continue;
        }
        let start = out.len();
        values.text(row, column, out);
        let field = &out[start..];
        let plain = !field.is_empty()
            && !field.iter().any(|byte| {
                matches!(byte, b'(' | b')' | b',' | b'"' | b'\\') || byte.is_ascii_whitespace() || *byte == 0x0b
            });
        if !plain {
            quote(start, out, |byte| byte);
        }
    }
    out.put_u8(b')');
}
