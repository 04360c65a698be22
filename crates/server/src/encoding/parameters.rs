//! Values as clients send them, text or binary, as arrays of one row: parameters of statements and of endpoints, and
//! the fields of COPY.

use std::iter::successors;
use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal256Array, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, IntervalMonthDayNanoArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    new_null_array,
};
use arrow::array::{Decimal128Array, ListArray, StringViewArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, i256};
use arrow::datatypes::{DataType, Decimal256Type, DecimalType, Field, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use diligence_base::{Error, Result};
use diligence_db::postgres::{self as types, PostgresType, field_type, type_of_oid};
use diligence_db::{
    Address, Description, NetworkKind, RangeKind, ReadOptions, SearchKind, SqlType, Zone, array_type_of, mac_text,
    parse_array,
};

mod nested;

use super::columns::Form;
pub use super::cursor::without_zero;
use super::cursor::{Cursor, malformed, text};
use super::fields::{EPOCH_DAYS, EPOCH_MICROSECONDS};
use super::held_text::HeldText;
use super::values::is_of_objects;

/// The number of `character(n)`.
const BPCHAR: u32 = 1042;
/// Of a day, which has its end as well: `24:00`.
const DAY_MICROSECONDS: i64 = 86_400_000_000;

/// The type that a number stands for; `None` of rows as well, whose types are those of their columns.
fn read_type(oid: u32) -> Option<(PostgresType, bool)> {
    type_of_oid(oid).filter(|(known, _)| known.oid != types::RECORD.oid)
}

/// The type that a client's number for a type stands for; `None` leaves it to the statement, as with all types whose
/// values are held as texts and are none: the statement knows which of them it takes.
pub fn declared(oid: u32) -> Option<DataType> {
    if oid == 0 || oid == types::UNKNOWN.oid {
        return None;
    }
    let (known, is_array) = read_type(oid)?;
    let element = element_type(known);
    if is_array {
        return Some(DataType::List(item_of(known, element_of_array(known))));
    }
    (element != DataType::Utf8View || is_text(known)).then_some(element)
}

/// The name of a type that `declared` leaves to the statement: one whose values are held as texts and are none. None of
/// others, and of `bit`, whose name alone is a type of one digit.
pub fn declared_name(oid: u32) -> Option<&'static str> {
    const BIT: u32 = 1560;
    let (known, is_array) = read_type(oid).filter(|_| oid != types::UNKNOWN.oid)?;
    let is_left = element_type(known) == DataType::Utf8View && !is_text(known) && known.oid != BIT;
    (is_left && !is_array).then_some(known.sql_name)
}

/// Whether a description takes a parameter for another type than its client declares.
pub fn differs(description: &Description, names: &[Option<&str>]) -> bool {
    let differs = |(name, known): (&Option<&str>, &SqlType)| {
        name.is_some_and(|name| {
            SqlType::parse(name).is_some_and(|declared| declared != known.base().without_modifier())
        })
    };
    names.iter().zip(&description.parameter_types).any(differs)
}

/// Whether a type's values are texts and nothing else.
fn is_text(known: PostgresType) -> bool {
    const TEXTS: [u32; 5] = [18, 19, 25, 1042, 1043];
    TEXTS.contains(&known.oid)
}

/// The field of the elements of an array of a type, which tells the type where `held` does not.
fn item_of(known: PostgresType, held: DataType) -> Arc<Field> {
    const NAME: u32 = 19;
    const OID: u32 = 26;
    const VARCHAR: u32 = 1043;
    const BIT: u32 = 1560;
    let told = match known.oid {
        // Of any length.
        BIT => Some(SqlType::Bit(None)),
        BPCHAR => Some(SqlType::Char(None)),
        VARCHAR => Some(SqlType::Varchar(None)),
        NAME => Some(SqlType::Name),
        OID => Some(SqlType::OID),
        _ => SqlType::parse(known.sql_name).filter(|_| held == DataType::Utf8View && !is_text(known)),
    };
    Arc::new(told.map_or_else(|| Field::new("item", held, true), |told| told.field("item", true)))
}

/// PostgreSQL's number of a parameter's type, as clients are told of it: text, where the statement does not say.
pub fn number_of(known: &SqlType) -> u32 {
    match known {
        SqlType::Unknown => types::TEXT.oid,
        known => field_type(&known.field("", true)).oid,
    }
}

fn element_type(known: PostgresType) -> DataType {
    match known {
        types::BOOL => DataType::Boolean,
        types::BYTEA => DataType::Binary,
        types::INT2 => DataType::Int16,
        types::INT4 => DataType::Int32,
        types::INT8 => DataType::Int64,
        types::FLOAT4 => DataType::Float32,
        types::FLOAT8 => DataType::Float64,
        types::DATE => DataType::Date32,
        types::TIME => DataType::Time64(TimeUnit::Nanosecond),
        types::TIMESTAMP => DataType::Timestamp(TimeUnit::Nanosecond, None),
        types::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into())),
        types::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        types::NUMERIC => DataType::Decimal128(38, 10),
        known if is_of_objects(&known) => DataType::Int64,
        _ => DataType::Utf8View,
    }
}

/// How elements of an array are held: numbers with the digits that each of them has.
fn element_of_array(known: PostgresType) -> DataType {
    if known == types::NUMERIC { SqlType::NUMERIC.arrow() } else { element_type(known) }
}

/// A value of one row in the type that the statement wants. `oid` is what the client calls the type. Texts are read as
/// PostgreSQL reads them, dates in the session's zone and style; those that only a statement can read stay texts, which
/// the statement casts. Fails with PostgreSQL's code if it is no such value.
pub fn value(bytes: Option<&[u8]>, oid: u32, form: Form, wanted: &SqlType, zone: Zone) -> Result<ArrayRef> {
    let held = wanted.arrow();
    let Some(bytes) = bytes else { return Ok(new_null_array(&held, 1)) };
    let array: ArrayRef = match (form, read_type(oid)) {
        (Form::Text, _) => {
            let is_filled = oid == BPCHAR || matches!(wanted.base(), SqlType::Char(_));
            return value_of_text(text(if is_filled { without_blanks(bytes) } else { bytes })?, wanted, zone);
        }
        (Form::Binary, Some((known, false))) => from_binary(bytes, known)?,
        (Form::Binary, Some((_, true))) => match nested::literal_of_array(bytes)? {
            Some(literal) => return value_of_text(&literal, wanted, zone),
            None => list_from_binary(bytes)?,
        },
        // A type that a statement has made.
        (Form::Binary, None) => match wanted.base() {
            SqlType::Array(_) => match nested::literal_of_array(bytes)? {
                Some(literal) => return value_of_text(&literal, wanted, zone),
                None => list_from_binary(bytes)?,
            },
            SqlType::Record(_) => Arc::new(StringViewArray::from_iter_values([nested::row_text(bytes)?])),
            _ => from_binary(bytes, types::TEXT)?,
        },
    };
    // A decimal's digits are its own: a statement cannot know how many a value has.
    if array.data_type() == &held || is_decimal(&held) && is_decimal(array.data_type()) {
        return Ok(array);
    }
    let is_of_texts = |data_type: &DataType| match data_type {
        DataType::List(item) => *item.data_type() == DataType::Utf8View,
        other => *other == DataType::Utf8View,
    };
    // Rows and arrays of rows are read by the statement.
    if matches!(wanted.innermost(), SqlType::Record(_)) && is_of_texts(array.data_type()) {
        return Ok(array);
    }
    convert(&array, &held)
}

/// A `character(n)` without the blanks that fill it, which are no part of it.
fn without_blanks(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &bytes[..end]
}

fn value_of_text(text: &str, wanted: &SqlType, zone: Zone) -> Result<ArrayRef> {
    let texts = StringViewArray::from_iter_values([text]);
    let deeper = deeper_type(text, wanted);
    let wanted = deeper.as_ref().unwrap_or(wanted);
    if is_read_by_statement(text, wanted) {
        return Ok(Arc::new(texts));
    }
    // A decimal's digits are its own.
    if matches!(wanted, SqlType::Numeric(_)) {
        return decimal(text.trim()).or_else(|_| parse_array(&texts, &SqlType::NUMERIC, &ReadOptions::default()));
    }
    parse_array(&texts, wanted, &ReadOptions { zone, now: Some(moment()), ..ReadOptions::default() })
}

/// Microseconds from 1970 until now: what `now` and `today` mean in a value.
pub fn moment() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The type of an array whose text has more dimensions than the statement knows of: those are the value's own.
fn deeper_type(text: &str, wanted: &SqlType) -> Option<SqlType> {
    if wanted.element().is_none() || !has_dimensions(text) {
        return None;
    }
    let told = array_type_of(text, wanted);
    let depth = |sql_type: &SqlType| successors(Some(sql_type.clone()), |one| one.element().cloned()).count();
    (depth(&told) > depth(wanted)).then_some(told)
}

/// Whether a text means what it does in a statement only: names of objects, rows, arrays with bounds, and whatever is
/// held as a text.
fn is_read_by_statement(text: &str, wanted: &SqlType) -> bool {
    if wanted.arrow() == DataType::Utf8View {
        return true;
    }
    match wanted.innermost() {
        _ if matches!(wanted, SqlType::Array(_)) && text.trim_start().starts_with('[') => true,
        SqlType::Oid(_) => *wanted.innermost() != SqlType::OID,
        SqlType::Record(_) | SqlType::Map(_) | SqlType::Void => true,
        _ => false,
    }
}

/// Whether the text of an array tells its bounds, or has arrays in it: braces outside of quotes.
fn has_dimensions(text: &str) -> bool {
    let (mut braces, mut is_quoted, mut is_escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'{' if !is_quoted => braces += 1,
            _ => {}
        }
    }
    braces > 1 || text.trim_start().starts_with('[')
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// A value in another type. Fails with kind `Value` if it has none there.
pub fn convert(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, wanted, &options).map_err(|error| {
        let code = if wanted.is_integer() && array.data_type().is_integer() { "22003" } else { "22P02" };
        Error::value(format!("a parameter is no {wanted}: {error}")).with_code(code)
    })
}

/// A value of an endpoint's parameter from its text, as PostgreSQL's `…in` functions read it; dates in UTC. Fails with
/// PostgreSQL's code if it is no such value, 0A000 for arrays of several dimensions.
pub fn from_text(text: &str, wanted: &SqlType) -> Result<ArrayRef> {
    let text = without_zero(text)?;
    match wanted {
        SqlType::Array(element) => list_from_text(text, element),
        wanted => value_of_text(text, wanted, Zone::UTC),
    }
}

/// `t`, `true`, `yes`, `on`, `1` and their beginnings, and the contrary.
pub fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on" | "1" => Some(true),
        "f" | "fa" | "fal" | "fals" | "false" | "n" | "no" | "of" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// A decimal with as many digits as its text has. Fails with code 22P02 for what is no number, 22003 beyond 76 digits.
pub fn decimal(text: &str) -> Result<ArrayRef> {
    let wrong = || Error::value(format!("'{text}' is no number")).with_code("22P02");
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (rest, exponent) = match rest.split_once(['e', 'E']) {
        Some((rest, exponent)) => (rest, exponent.parse::<i32>().map_err(|_| wrong())?),
        None => (rest, 0),
    };
    let (whole, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    if whole.len() + fraction.len() == 0 || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let mut digits = format!("{whole}{fraction}");
    let mut scale = i32::try_from(fraction.len()).map_err(|_| wrong())?.saturating_sub(exponent);
    if scale < 0 {
        if scale < -76 {
            return Err(Error::value(format!("'{text}' has more than 76 digits")).with_code("22003"));
        }
        digits.extend(std::iter::repeat_n('0', scale.unsigned_abs() as usize));
        scale = 0;
    }
    let trimmed = digits.trim_start_matches('0');
    let precision = trimmed.len().max(scale as usize).max(1);
    if precision > 76 {
        return Err(Error::value(format!("'{text}' has more than 76 digits")).with_code("22003"));
    }
    let signed = format!("{}{}", if negative { "-" } else { "" }, if trimmed.is_empty() { "0" } else { trimmed });
    if precision <= 38 {
        let value: i128 = signed.parse().map_err(|_| wrong())?;
        let array = Decimal128Array::from(vec![value]).with_precision_and_scale(precision as u8, scale as i8);
        return Ok(Arc::new(array.map_err(|_| wrong())?));
    }
    let value = i256::from_string(&signed).ok_or_else(wrong)?;
    debug_assert!(precision <= usize::from(Decimal256Type::MAX_PRECISION));
    let array = Decimal256Array::from(vec![value]).with_precision_and_scale(precision as u8, scale as i8);
    Ok(Arc::new(array.map_err(|_| wrong())?))
}

/// `{a,NULL,"b c"}`.
fn list_from_text(text: &str, element: &SqlType) -> Result<ArrayRef> {
    let wrong = || {
        let error = Error::value(format!("malformed array literal: \"{text}\"")).with_code("22P02");
        error.with_hint("an array is written like {1,2,NULL}")
    };
    let inside = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(wrong)?;
    let mut elements: Vec<Option<String>> = Vec::new();
    let mut rest = inside.chars().peekable();
    while rest.peek().is_some() {
        let mut element = String::new();
        let mut quoted = false;
        while let Some(character) = rest.next_if(|character| *character != ',') {
            match character {
                '"' => {
                    quoted = true;
                    loop {
                        match rest.next().ok_or_else(wrong)? {
                            '"' => break,
                            '\\' => element.push(rest.next().ok_or_else(wrong)?),
                            other => element.push(other),
                        }
                    }
                }
                '\\' => element.push(rest.next().ok_or_else(wrong)?),
                '{' | '}' => {
                    let error = Error::unsupported("arrays of arrays are not supported as parameters");
                    return Err(error.with_code("0A000").with_hint("braces within an element stand in double quotes"));
                }
                other => element.push(other),
            }
        }
        let is_null = !quoted && element.trim().eq_ignore_ascii_case("null");
        elements.push((!is_null).then(|| if quoted { element } else { element.trim().to_owned() }));
        if rest.next().is_some() && rest.peek().is_none() {
            return Err(wrong());
        }
    }
    let held = element.arrow();
    let parts = elements.iter().map(|value| match value {
        Some(value) => value_of_text(value, element, Zone::UTC),
        None => Ok(new_null_array(&held, 1)),
    });
    list_of(parts.collect::<Result<Vec<_>>>()?, &held)
}

/// A type for values of both: of decimals, one that has the digits of either.
fn common(one: DataType, other: DataType) -> DataType {
    match (&one, &other) {
        (DataType::Decimal128(_, left), DataType::Decimal128(_, right)) => {
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, *left.max(right))
        }
        (
            DataType::Decimal128(_, left) | DataType::Decimal256(_, left),
            DataType::Decimal128(_, right) | DataType::Decimal256(_, right),
        ) => DataType::Decimal256(DECIMAL256_MAX_PRECISION, *left.max(right)),
        _ => one,
    }
}

/// A list of values, of a type if there are none. Fails with kind `Value` if they do not fit together.
pub fn list_of(parts: Vec<ArrayRef>, element: &DataType) -> Result<ArrayRef> {
    list_with(parts, &Field::new("item", element.clone(), true))
}

/// The same with what else the field of the elements tells.
fn list_with(parts: Vec<ArrayRef>, item: &Field) -> Result<ArrayRef> {
    let (count, element) = (parts.len(), item.data_type());
    let element = parts.iter().map(|part| part.data_type().clone()).reduce(common).unwrap_or_else(|| element.clone());
    let values = if parts.is_empty() {
        new_null_array(&element, 0)
    } else {
        let parts = parts.iter().map(|part| convert(part, &element)).collect::<Result<Vec<_>>>()?;
        concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())
            .map_err(|error| Error::value(format!("an array's elements do not fit together: {error}")))?
    };
    let field = Arc::new(item.clone().with_data_type(element));
    Ok(Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([count]), values, None)))
}

/// A value from its binary form, as PostgreSQL's `…recv` functions read it.
pub fn from_binary(bytes: &[u8], known: PostgresType) -> Result<ArrayRef> {
    let mut cursor = Cursor(bytes);
    let array: ArrayRef = match known {
        types::BOOL => Arc::new(BooleanArray::from(vec![cursor.take(1)?[0] != 0])),
        types::INT2 => Arc::new(Int16Array::from(vec![cursor.i16()?])),
        types::INT4 => Arc::new(Int32Array::from(vec![cursor.i32()?])),
        types::INT8 => Arc::new(Int64Array::from(vec![cursor.i64()?])),
        types::FLOAT4 => Arc::new(Float32Array::from(vec![f32::from_bits(cursor.i32()? as u32)])),
        types::FLOAT8 => Arc::new(Float64Array::from(vec![f64::from_bits(cursor.i64()? as u64)])),
        types::BYTEA => return Ok(Arc::new(BinaryArray::from_iter_values([bytes]))),
        types::DATE => Arc::new(Date32Array::from(vec![date(cursor.i32()?)?])),
        types::TIME => match cursor.i64()? {
            time @ 0..=DAY_MICROSECONDS => Arc::new(Time64MicrosecondArray::from(vec![time])),
            _ => return Err(out_of_range("time")),
        },
        types::TIMESTAMP | types::TIMESTAMPTZ => {
            let array = TimestampMicrosecondArray::from(vec![timestamp(cursor.i64()?)?]);
            if known == types::TIMESTAMPTZ { Arc::new(array.with_timezone("+00:00")) } else { Arc::new(array) }
        }
        types::INTERVAL => {
            let microseconds = cursor.i64()?;
            let (days, months) = (cursor.i32()?, cursor.i32()?);
            let nanoseconds = microseconds.checked_mul(1000).ok_or_else(|| out_of_range("interval"))?;
            Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(months, days, nanoseconds)]))
        }
        types::NUMERIC => return decimal(&numeric_text(&mut cursor)?),
        known if is_of_objects(&known) => Arc::new(Int64Array::from(vec![i64::from(cursor.i32()? as u32)])),
        known if let Some(held) = HeldText::of(known.oid) => {
            return Ok(Arc::new(StringViewArray::from_iter_values([held.read(bytes)?])));
        }
        known if let Some(kind) = RangeKind::of_name(known.name) => {
            Arc::new(StringViewArray::from_iter_values([nested::range_text(&mut cursor, kind)?]))
        }
        known if let Some(kind) = RangeKind::of_multirange_name(known.name) => {
            Arc::new(StringViewArray::from_iter_values([nested::multirange_text(&mut cursor, kind)?]))
        }
        known if let Some(kind) = NetworkKind::of_name(known.name) => {
            Arc::new(StringViewArray::from_iter_values([network_text(&mut cursor, kind)?]))
        }
        known if let Some(kind) = SearchKind::of_name(known.name) => {
            return Ok(Arc::new(StringViewArray::from_iter_values([kind.of_binary(bytes)?])));
        }
        known if known.oid == BPCHAR => {
            return Ok(Arc::new(StringViewArray::from_iter_values([text(without_blanks(bytes))?])));
        }
        _ => return Ok(Arc::new(StringViewArray::from_iter_values([text(bytes)?]))),
    };
    cursor.end()?;
    Ok(array)
}

/// Days since 1970 of days since 2000. The infinities are the same numbers everywhere. Fails with code 22008 for a day
/// that is none of PostgreSQL's.
fn date(days: i32) -> Result<i32> {
    /// From 4714-11-24 BC to 5874897-12-31.
    const DAYS: std::ops::Range<i32> = -2_451_545..2_145_031_949;
    match days {
        i32::MIN | i32::MAX => Ok(days),
        days if DAYS.contains(&days) => Ok(days + EPOCH_DAYS),
        _ => Err(out_of_range("date")),
    }
}

/// Microseconds since 1970 of those since 2000, in the same way.
fn timestamp(moment: i64) -> Result<i64> {
    const LEAST: i64 = -2_451_545 * DAY_MICROSECONDS;
    match moment {
        i64::MIN | i64::MAX => Ok(moment),
        moment if moment >= LEAST => moment.checked_add(EPOCH_MICROSECONDS).ok_or_else(|| out_of_range("timestamp")),
        _ => Err(out_of_range("timestamp")),
    }
}

fn out_of_range(what: &str) -> Error {
    Error::value(format!("{what} out of range")).with_code("22008")
}

/// An address in a network: of the internet protocol its family, the length of its network, a flag, how many bytes it
/// has, and these; of others the bytes.
fn network_text(cursor: &mut Cursor<'_>, kind: NetworkKind) -> Result<String> {
    const LONG_FAMILY: u8 = 3;
    if !kind.is_internet() {
        let bytes = cursor.take(if kind == NetworkKind::Mac { 6 } else { 8 })?;
        return Ok(mac_text(bytes));
    }
    let head = cursor.take(4)?;
    let (is_long, length, count) = (head[0] == LONG_FAMILY, head[1], head[3]);
    let width = if is_long { 128 } else { 32 };
    if length > width || count != width / 8 {
        return Err(malformed("the address has another length"));
    }
    let bits = cursor.take(count.into())?.iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    Ok(Address { is_long, bits, length }.text(kind))
}

/// PostgreSQL's binary numeric: digits in base 10,000 with a weight, a sign, and how many digits are shown.
fn numeric_text(cursor: &mut Cursor<'_>) -> Result<String> {
    let (count, weight, sign, shown) = (cursor.i16()?, cursor.i16()?, cursor.i16()? as u16, cursor.i16()?);
    let special = match sign {
        0 | 0x4000 => None,
        0xc000 => Some("NaN"),
        0xd000 => Some("Infinity"),
        0xf000 => Some("-Infinity"),
        _ => return Err(Error::input("invalid sign in external \"numeric\" value").with_code("22P03")),
    };
    if let Some(special) = special {
        return Err(Error::unsupported(format!("cannot convert {special} to numeric")).with_code("0A000"));
    }
    if count < 0 || !(-100..100).contains(&weight) || !(0..=76).contains(&shown) {
        return Err(Error::value("the number has more than 76 digits").with_code("22003"));
    }
    let groups = (0..count).map(|_| cursor.i16()).collect::<Result<Vec<_>>>()?;
    cursor.end()?;
    let group = |place: i32| -> Result<String> {
        let index = i32::from(weight) - place;
        let value = usize::try_from(index).ok().and_then(|index| groups.get(index)).copied().unwrap_or(0);
        if !(0..10_000).contains(&value) {
            return Err(malformed("a group of digits is out of range"));
        }
        Ok(format!("{value:04}"))
    };
    let mut text = String::from(if sign == 0x4000 { "-" } else { "" });
    for place in (0..=i32::from(weight).max(0)).rev() {
        text.push_str(&group(place)?);
    }
    if shown > 0 {
        let mut fraction = String::new();
        let mut place = -1;
        while fraction.len() < shown as usize {
            fraction.push_str(&group(place)?);
            place -= 1;
        }
        text.push('.');
        text.push_str(&fraction[..shown as usize]);
    }
    Ok(text)
}

/// An array of one row, as PostgreSQL's binary form has it: of one dimension, as those are for which
/// [`nested::literal_of_array`] has no literal. Fails with code 22P03 if the bytes are none.
fn list_from_binary(bytes: &[u8]) -> Result<ArrayRef> {
    let mut cursor = Cursor(bytes);
    let head = nested::ArrayHead::read(&mut cursor)?;
    let (oid, count) = (head.oid, head.count());
    let (known, _) = read_type(oid).unwrap_or((types::TEXT, false));
    let item = item_of(known, element_type(known));
    let parts = (0..count).map(|_| match cursor.i32()? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_| malformed("an element's length"))?;
            let bytes = cursor.take(length)?;
            // Of types that statements have made, enums are sent as texts, and rows as rows.
            match read_type(oid) {
                None if let Ok(row) = nested::row_text(bytes) => {
                    Ok(Some(Arc::new(StringViewArray::from_iter_values([row])) as ArrayRef))
                }
                _ => from_binary(bytes, known).map(Some),
            }
        }
    });
    let parts = parts.collect::<Result<Vec<_>>>()?;
    cursor.end()?;
    let present =
        parts.iter().flatten().next().map_or_else(|| item.data_type().clone(), |part| part.data_type().clone());
    let parts = parts.into_iter().map(|part| part.unwrap_or_else(|| new_null_array(&present, 1))).collect();
    list_with(parts, &item.as_ref().clone().with_data_type(present))
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::util::display::array_value_to_string;

    use super::*;

    fn shown(array: &ArrayRef) -> String {
        array_value_to_string(array, 0).unwrap()
    }

    #[test]
    fn decimals_keep_their_digits_in_both_forms() {
        for (text, expected) in
            [("12.50", "12.50"), ("-0.001", "-0.001"), ("1e3", "1000"), ("1.5E-2", "0.015"), ("0", "0"), ("+7", "7")]
        {
            assert_eq!(shown(&decimal(text).unwrap()), expected, "{text}");
        }
        for wrong in ["", ".", "1.2.3", "abc", "1e", "--1", "1e99999999999"] {
            assert!(decimal(wrong).is_err(), "{wrong}");
        }
        let bytes = [0, 3, 0, 1, 0x40, 0, 0, 3, 0, 1, 0x09, 0x29, 0x1a, 0x7c];
        assert_eq!(shown(&from_binary(&bytes, types::NUMERIC).unwrap()), "-12345.678");
        assert!(from_binary(&bytes[..7], types::NUMERIC).is_err());
    }

    #[test]
    fn arrays_are_read_in_both_forms() {
        let list = list_from_text(r#"{a,NULL,"b \"c\"",""}"#, &SqlType::Text).unwrap();
        assert_eq!(shown(&list), r#"[a, , b "c", ]"#);
        assert!(list_from_text("{a,", &SqlType::Text).is_err());
        assert!(list_from_text("{a,}", &SqlType::Text).is_err());
        assert_eq!(shown(&list_from_text("{}", &SqlType::Text).unwrap()), "[]");
        let times = list_from_text(r#"{"2024-01-01 10:00",NULL}"#, &SqlType::Timestamp).unwrap();
        assert_eq!(shown(&times), "[2024-01-01T10:00:00, ]");
        let mut bytes = Vec::new();
        for word in [1, 1, 23, 2, 1, 4, 7, -1i32] {
            bytes.extend(word.to_be_bytes());
        }
        assert_eq!(shown(&list_from_binary(&bytes).unwrap()), "[7, ]");
        // Decimals have their digits, however many the first one has.
        let mut decimals = [1, 0, 1700, 2, 1].map(i32::to_be_bytes).concat();
        for digits in [&[0u8, 1, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x09, 0xc4]] {
            decimals.extend((digits.len() as i32).to_be_bytes());
            decimals.extend(digits);
        }
        assert_eq!(shown(&list_from_binary(&decimals).unwrap()), "[1.00, 1.25]");
        bytes.truncate(20);
        assert!(list_from_binary(&bytes).is_err(), "two elements are announced");
    }

    #[test]
    fn moments_are_read_in_their_bounds() {
        let read = |bytes: &[u8], known| from_binary(bytes, known).map(|array| shown(&array));
        let date = |days: i32| from_binary(&days.to_be_bytes(), types::DATE);
        for infinity in [i32::MIN, i32::MAX] {
            assert_eq!(date(infinity).unwrap().as_primitive::<arrow::datatypes::Date32Type>().value(0), infinity);
        }
        assert_eq!([0, -1].map(|days| shown(&date(days).unwrap())), ["2000-01-01", "1999-12-31"]);
        assert_eq!(date(i32::MAX - 1).unwrap_err().code(), Some("22008"));
        assert_eq!(date(-2_451_546).unwrap_err().code(), Some("22008"));
        for infinity in [i64::MIN, i64::MAX] {
            let moment = from_binary(&infinity.to_be_bytes(), types::TIMESTAMPTZ).unwrap();
            assert_eq!(moment.as_primitive::<arrow::datatypes::TimestampMicrosecondType>().value(0), infinity);
        }
        let times = [0, DAY_MICROSECONDS - 1].map(|time: i64| read(&time.to_be_bytes(), types::TIME).unwrap());
        assert_eq!(times, ["00:00:00", "23:59:59.999999"]);
        assert!(from_binary(&DAY_MICROSECONDS.to_be_bytes(), types::TIME).is_ok());
        for (value, known) in [
            (i64::MAX - 1, types::TIMESTAMP),
            (i64::MIN + 1, types::TIMESTAMP),
            (DAY_MICROSECONDS + 1, types::TIME),
            (-1, types::TIME),
        ] {
            assert_eq!(read(&value.to_be_bytes(), known).unwrap_err().code(), Some("22008"), "{value}");
        }
        let long = [&i64::MAX.to_be_bytes()[..], &[0; 8]].concat();
        assert_eq!(read(&long, types::INTERVAL).unwrap_err().code(), Some("22008"));
        for (sign, code) in [(0xc0, "0A000"), (0xd0, "0A000"), (0xf0, "0A000"), (0x12, "22P03")] {
            assert_eq!(read(&[0, 0, 0, 0, sign, 0, 0, 0], types::NUMERIC).unwrap_err().code(), Some(code));
        }
    }

    #[test]
    fn braces_in_quotes_are_no_dimensions() {
        assert!(["{{1},{2}}", "[0:1]={1,2}", " [0:1]={1,2}"].into_iter().all(has_dimensions));
        assert!(!["{}", "{1}", r#"{"{}"}"#, r#"{"\"{",\{}"#, ""].into_iter().any(has_dimensions));
        let read = value(Some(br#"{"{\"a\": 1}"}"#), 0, Form::Text, &SqlType::array_of(SqlType::Jsonb), Zone::UTC);
        assert!(matches!(read.unwrap().data_type(), DataType::List(_)));
        assert!(from_text("a\0b", &SqlType::Text).is_err());
    }

    #[test]
    fn numbers_in_arrays_have_the_digits_that_they_are_given() {
        let Some(DataType::List(item)) = declared(1231) else { panic!("an array of numeric") };
        assert_eq!(SqlType::of_field(&item), Some(SqlType::NUMERIC));
    }

    #[test]
    fn addresses_are_read_from_their_binary_form() {
        let of = |oid: u32| type_of_oid(oid).unwrap().0;
        let read = |bytes: &[u8], oid: u32| from_binary(bytes, of(oid)).map(|array| shown(&array));
        assert_eq!(read(&[2, 24, 0, 4, 10, 0, 0, 7], 869).unwrap(), "10.0.0.7/24");
        assert_eq!(read(&[2, 32, 0, 4, 10, 0, 0, 7], 869).unwrap(), "10.0.0.7");
        assert_eq!(read(&[2, 8, 1, 4, 10, 0, 0, 0], 650).unwrap(), "10.0.0.0/8");
        let mut long = vec![3, 128, 0, 16];
        long.extend([0; 15]);
        long.push(1);
        assert_eq!(read(&long, 869).unwrap(), "::1");
        assert_eq!(read(&[8, 0, 43, 1, 2, 3], 829).unwrap(), "08:00:2b:01:02:03");
        for wrong in [&[2, 33, 0, 4, 10, 0, 0, 7][..], &[2, 24, 0, 16, 10, 0, 0, 7], &[2, 24, 0, 4, 10], &[2, 24]] {
            assert!(read(wrong, 869).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn texts_of_endpoints_are_read_as_sql_reads_them() {
        let read = |text: &str, wanted: &SqlType| shown(&from_text(text, wanted).unwrap());
        let date = |text| read(text, &SqlType::Date);
        assert_eq!([date("1900-03-01 +01"), date("2024-07-01 08:09:10+02")], ["1900-03-01", "2024-07-01"]);
        for text in [
            "2024-07-01 08:09:10.5+02",
            "2024-07-01T08:09:10.5Z",
            "2024-07-01 08:09:10.5 -03:30",
            "2024-07-01 08:09:10.5",
        ] {
            assert_eq!(read(text, &SqlType::Timestamp), "2024-07-01T08:09:10.500", "{text}");
        }
        // As forms of a page send it, and far away.
        assert_eq!(read("2024-07-01T08:09", &SqlType::Timestamp), "2024-07-01T08:09:00");
        assert_eq!(read("0001-01-01 10:00:00", &SqlType::Timestamp), "0001-01-01T10:00:00");
        for (text, wanted, code) in [
            ("abc", SqlType::BigInt, "22P02"),
            ("", SqlType::BigInt, "22P02"),
            ("99999999999999999999", SqlType::BigInt, "22003"),
            ("1e400", SqlType::Double, "22003"),
            ("2024-13-01", SqlType::Date, "22008"),
            ("maybe", SqlType::Boolean, "22P02"),
        ] {
            let error = from_text(text, &wanted).unwrap_err();
            assert_eq!(error.code(), Some(code), "{error}");
            let message = error.to_string();
            assert!(!message.contains("Int64") && !message.contains("Date32"), "{message}");
        }
    }

    #[test]
    fn text_that_is_no_value_is_an_error_with_a_code() {
        let error = value(Some(b"abc"), 23, Form::Text, &SqlType::Integer, Zone::UTC).unwrap_err();
        assert_eq!((error.code(), error.message()), (Some("22P02"), "invalid input syntax for type integer: \"abc\""));
        let error = value(Some(b"2020-02-30"), 1082, Form::Text, &SqlType::Date, Zone::UTC).unwrap_err();
        assert_eq!(error.code(), Some("22008"));
        assert!(value(Some(b"\xff"), 25, Form::Text, &SqlType::Text, Zone::UTC).is_err());
        assert_eq!(value(None, 23, Form::Binary, &SqlType::Integer, Zone::UTC).unwrap().null_count(), 1);
        assert_eq!(shown(&value(Some(&[0, 0, 0, 5]), 23, Form::Binary, &SqlType::BigInt, Zone::UTC).unwrap()), "5");
    }

    #[test]
    fn whole_numbers_that_do_not_fit_have_a_code_of_their_own() {
        let code =
            |bytes: &[u8], oid, form, wanted| value(Some(bytes), oid, form, &wanted, Zone::UTC).unwrap_err().code();
        for text in ["99999999999", "-99999999999", "+3000000000"] {
            assert_eq!(code(text.as_bytes(), 23, Form::Text, SqlType::Integer), Some("22003"), "{text}");
        }
        for text in ["1e3", "", "-", "12a", "1.5"] {
            assert_eq!(code(text.as_bytes(), 23, Form::Text, SqlType::Integer), Some("22P02"), "{text}");
        }
        assert_eq!(code(&70_000i32.to_be_bytes(), 23, Form::Binary, SqlType::SmallInt), Some("22003"));
    }

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        let read = |text: &str, wanted: SqlType| value(Some(text.as_bytes()), 0, Form::Text, &wanted, Zone::UTC);
        for (text, wanted, expected) in [
            (" 5 ", SqlType::Integer, "5"),
            ("January 8, 1999", SqlType::Date, "1999-01-08"),
            ("2020-01-01 00:00 Europe/Berlin", SqlType::TimestampTz, "2019-12-31T23:00:00Z"),
            ("abc", SqlType::Bytea, "616263"),
            ("1e2", SqlType::NUMERIC, "100"),
            ("off", SqlType::Boolean, "false"),
            ("{1,NULL}", SqlType::array_of(SqlType::Integer), "[1, ]"),
            ("{{1,2},{3,4}}", SqlType::array_of(SqlType::Integer), "[[1, 2], [3, 4]]"),
        ] {
            assert_eq!(shown(&read(text, wanted).unwrap()), expected, "{text}");
        }
        // These are left to the statement.
        for (text, wanted) in
            [("pg_class", SqlType::parse("regclass").unwrap()), ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", SqlType::Uuid)]
        {
            assert_eq!(shown(&read(text, wanted).unwrap()), text);
        }
        assert!(read("now", SqlType::Timestamp).is_ok() && read("today", SqlType::Date).is_ok());
        assert_eq!(read("{1,x}", SqlType::array_of(SqlType::Integer)).unwrap_err().code(), Some("22P02"));
    }

    #[test]
    fn blanks_that_fill_a_character_are_no_part_of_it() {
        for (oid, form, wanted, expected) in [
            (BPCHAR, Form::Text, SqlType::Text, " ab"),
            (BPCHAR, Form::Binary, SqlType::Text, " ab"),
            (0, Form::Text, SqlType::Char(Some(5)), " ab"),
            (25, Form::Text, SqlType::Text, " ab  "),
            (1043, Form::Binary, SqlType::Text, " ab  "),
        ] {
            assert_eq!(shown(&value(Some(b" ab  "), oid, form, &wanted, Zone::UTC).unwrap()), expected);
        }
        assert_eq!([without_blanks(b"   "), without_blanks(b"")], [b""; 2]);
    }

    #[test]
    fn types_that_are_held_as_texts_are_left_to_the_statement() {
        assert_eq!([declared(0), declared(2950), declared(3802), declared(16_400)], [None, None, None, None]);
        assert_eq!([declared(25), declared(1043)], [Some(DataType::Utf8View), Some(DataType::Utf8View)]);
        for (number, element) in [
            (2951, SqlType::Uuid),
            (1002, SqlType::Text),
            (1003, SqlType::Name),
            (1009, SqlType::Text),
            (1014, SqlType::Char(None)),
            (1015, SqlType::Varchar(None)),
            (1028, SqlType::OID),
            (1561, SqlType::Bit(None)),
        ] {
            let Some(DataType::List(item)) = declared(number) else { panic!("an array of {element}") };
            assert_eq!(SqlType::of_field(&item), Some(element));
        }
    }
}
