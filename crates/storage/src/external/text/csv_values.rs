//! Fields into values: one column of one window at a time.
//!
//! A field that is empty and not in quotes is NULL. Spaces around numbers, dates and truth values are left out.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{
    ArrayRef, AsArray, BooleanBuilder, Decimal128Builder, NullArray, PrimitiveBuilder, StringViewArray,
    StringViewBuilder,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field as ColumnField, IntervalUnit, TimeUnit};
use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use diligence_types::SqlType;
use diligence_types::text::{ReadOptions, parse_array};

use super::csv_dates::DateOrder;
use super::csv_fields::{Dialect, Field};
use crate::external::options::{CsvOptions, JsonOptions};
use crate::external::schema::TYPE_KEY;
use crate::foreign_error::from_arrow;

/// How values are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Forms {
    /// The texts that stand for NULL, besides the empty field.
    pub nulls: Vec<String>,
    /// The point in numbers, if it is none.
    pub decimal: Option<u8>,
    /// What may stand between digits.
    pub thousands: Option<u8>,
    /// How dates and timestamps are written, if not as in ISO 8601.
    pub date: Option<String>,
    pub timestamp: Option<String>,
    /// How dates, and dates with a time of day, are written as well, as the first records show.
    pub orders: Vec<DateOrder>,
    /// Whether texts for NULL are NULL in quotes, too.
    pub quoted_nulls: bool,
    /// Whether quotes make a value of what is no text, too, as in PostgreSQL's COPY.
    pub quotes_are_strict: bool,
    /// Columns of text in which no text stands for NULL.
    pub without_nulls: Vec<String>,
}

impl Forms {
    pub fn of(options: &CsvOptions) -> Self {
        Self {
            nulls: options.nulls.clone(),
            decimal: options.decimal.filter(|point| *point != b'.'),
            thousands: options.thousands,
            date: options.date_format.clone(),
            timestamp: options.timestamp_format.clone(),
            orders: Vec::new(),
            quoted_nulls: options.quoted_nulls,
            quotes_are_strict: options.quotes_inside,
            without_nulls: options.without_nulls.clone(),
        }
    }

    /// Those of JSON, which has forms for numbers.
    pub fn of_json(options: &JsonOptions) -> Self {
        Self { date: options.date_format.clone(), timestamp: options.timestamp_format.clone(), ..Self::default() }
    }

    /// The number with a point for its point, and nothing between its digits; nothing if it cannot be a number.
    pub fn number<'r>(&self, raw: &'r [u8]) -> Cow<'r, [u8]> {
        if self.decimal.is_none() && self.thousands.is_none() {
            return Cow::Borrowed(raw);
        }
        let mut plain = Vec::with_capacity(raw.len());
        let mut is_behind = false;
        for &byte in raw {
            if self.decimal == Some(byte) || self.decimal.is_none() && byte == b'.' {
                is_behind = true;
                plain.push(b'.');
            } else if self.thousands == Some(byte) && !is_behind {
            } else if self.decimal.is_some() && byte == b'.' {
                return Cow::Borrowed(b"");
            } else {
                plain.push(byte);
            }
        }
        Cow::Owned(plain)
    }

    /// Whether a field is one of the texts that stand for NULL.
    pub fn names_null(&self, raw: &[u8]) -> bool {
        self.nulls.iter().any(|null| raw == null.as_bytes())
    }

    /// Whether a field says nothing of its column's type.
    pub fn says_nothing(&self, field: Field, raw: &[u8]) -> bool {
        let may_be_null = !field.is_quoted() || self.quoted_nulls || !self.quotes_are_strict;
        may_be_null && (raw.is_empty() || self.names_null(raw))
    }

    pub fn date(&self, raw: &[u8]) -> Option<i32> {
        match &self.date {
            None => parse_date(raw).or_else(|| self.orders.iter().find_map(|order| order.parse(raw))),
            Some(format) => NaiveDate::parse_from_str(std::str::from_utf8(raw).ok()?, format).ok().map(days),
        }
    }

    pub fn timestamp(&self, raw: &[u8], zone: Option<&arrow::array::timezone::Tz>) -> Option<DateTime<Utc>> {
        let in_zone = |local: NaiveDateTime| match zone {
            None => Some(local.and_utc()),
            Some(zone) => local.and_local_timezone(*zone).earliest().map(|time| time.to_utc()),
        };
        let Some(format) = &self.timestamp else {
            let shown = self.orders.iter().find_map(|order| order.parse_moment(raw));
            return shown.and_then(in_zone).or_else(|| parse_timestamp(raw, zone));
        };
        let text = std::str::from_utf8(raw).ok()?;
        if let Ok(zoned) = DateTime::parse_from_str(text, format) {
            return Some(zoned.to_utc());
        }
        let local = NaiveDateTime::parse_from_str(text, format).ok().or_else(|| {
            // A format may be of a date alone.
            NaiveDate::parse_from_str(text, format).ok()?.and_hms_opt(0, 0, 0)
        })?;
        in_zone(local)
    }
}

/// A field that is no value of its column's type: its position among the fields.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoValue {
    pub position: usize,
}

impl Forms {
    pub fn is_null(&self, field: Field, raw: &[u8], is_text: bool) -> bool {
        // Some programs put all fields in quotes: what is no text is a value or nothing then, too.
        if field.is_quoted() && !self.quoted_nulls && (is_text || self.quotes_are_strict) {
            return false;
        }
        if self.nulls.is_empty() {
            return raw.is_empty();
        }
        !is_text && raw.is_empty() || self.names_null(raw)
    }
}

/// True if fields can become values of the type.
pub(super) fn is_readable(ty: &DataType) -> bool {
    match ty {
        DataType::Decimal128(_, scale) => *scale >= 0,
        DataType::Timestamp(_, zone) => {
            zone.as_deref().is_none_or(|zone| zone.parse::<arrow::array::timezone::Tz>().is_ok())
        }
        DataType::Null
        | DataType::Boolean
        | DataType::Utf8View
        | DataType::BinaryView
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Decimal256(..)
        | DataType::Float32
        | DataType::Float64 => true,
        other => other.is_integer() || is_of_texts(other) && SqlType::of_arrow(other).is_some(),
    }
}

/// Whether values of the type are in separated values as SQL's texts only: `{1,2}`, `(1,x)`, `1 day`.
fn is_of_texts(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Interval(IntervalUnit::MonthDayNano) | DataType::List(_) | DataType::Struct(_) | DataType::Map(..)
    )
}

/// The fields as an array of the column's type. The text is known to be UTF-8.
pub(super) fn column(
    told: &ColumnField,
    text: &[u8],
    fields: impl ExactSizeIterator<Item = Field>,
    dialect: &Dialect,
    forms: &Forms,
) -> Result<ArrayRef, NoValue> {
    let source = Fields { text, dialect, forms };
    let ty = told.data_type();
    let of_texts = || is_of_texts(ty).then(|| SqlType::of_field(told)).flatten();
    if let Some(sql_type) = checked_type(told).or_else(of_texts) {
        let fields = fields.collect::<Vec<_>>();
        let options = ReadOptions { is_explicit: false, ..ReadOptions::default() };
        let has_empty = !matches!(sql_type, SqlType::Time | SqlType::Uuid) && !is_of_texts(ty);
        let convert = |fields: &[Field]| {
            let strings = source.strings_but_empty(fields.iter().copied(), has_empty).finish();
            parse_array(&strings, &sql_type, &options)
                .and_then(|array| cast_with_options(&array, ty, &CastOptions::default()).map_err(from_arrow))
        };
        return convert(&fields).map_err(|_| {
            let bad = (0..fields.len()).find(|&i| convert(&fields[i..=i]).is_err());
            NoValue { position: bad.unwrap_or(0) }
        });
    }
    Ok(match ty {
        DataType::Null => Arc::new(NullArray::new(fields.len())),
        DataType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(fields.len());
            source.each(fields, parse_boolean, |value| builder.append_option(value))?;
            Arc::new(builder.finish())
        }
        DataType::Int8 => source.primitive::<Int8Type>(fields, ty, |raw| parse_integer(&forms.number(raw)))?,
        DataType::Int16 => source.primitive::<Int16Type>(fields, ty, |raw| parse_integer(&forms.number(raw)))?,
        DataType::Int32 => source.primitive::<Int32Type>(fields, ty, |raw| parse_integer(&forms.number(raw)))?,
        DataType::Int64 => source.primitive::<Int64Type>(fields, ty, |raw| parse_integer(&forms.number(raw)))?,
        DataType::UInt8 => source.primitive::<UInt8Type>(fields, ty, |raw| parse_integer(&forms.number(raw)))?,
        DataType::UInt16 => source.primitive::<UInt16Type>(fields, ty, |raw| parse_integer(&forms.number(raw)))?,
        DataType::UInt32 => source.primitive::<UInt32Type>(fields, ty, |raw| parse_integer(&forms.number(raw)))?,
        DataType::UInt64 => source.primitive::<UInt64Type>(fields, ty, |raw| parse_integer(&forms.number(raw)))?,
        DataType::Float32 => source.primitive::<Float32Type>(fields, ty, |raw| parse_text(&forms.number(raw)))?,
        DataType::Float64 => source.primitive::<Float64Type>(fields, ty, |raw| parse_text(&forms.number(raw)))?,
        DataType::Date32 => {
            source.primitive::<Date32Type>(fields, ty, |raw| forms.date(raw).or_else(|| rare_date(raw)))?
        }
        DataType::Timestamp(TimeUnit::Second, zone) => {
            source.timestamp::<TimestampSecondType>(fields, ty, zone.as_deref(), |t| Some(t.timestamp()))?
        }
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            source.timestamp::<TimestampMillisecondType>(fields, ty, zone.as_deref(), |t| Some(t.timestamp_millis()))?
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let tz = zone.as_deref().and_then(|zone| zone.parse::<arrow::array::timezone::Tz>().ok());
            source.primitive::<TimestampMicrosecondType>(fields, ty, |raw| {
                let usual = forms.timestamp(raw, tz.as_ref()).map(rounded_micros);
                usual.or_else(|| rare_timestamp(raw, zone.is_some()))
            })?
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            source.timestamp::<TimestampNanosecondType>(fields, ty, zone.as_deref(), |t| t.timestamp_nanos_opt())?
        }
        DataType::Decimal128(precision, scale) => {
            let mut builder = Decimal128Builder::with_capacity(fields.len()).with_data_type(ty.clone());
            let limit = 10i128.pow(u32::from(*precision));
            let scale = *scale as u32;
            source.each(
                fields,
                |raw| parse_decimal(&forms.number(raw), scale, limit),
                |value| builder.append_option(value),
            )?;
            Arc::new(builder.finish())
        }
        DataType::Utf8View => {
            let has_nulls = !forms.without_nulls.iter().any(|name| name.eq_ignore_ascii_case(told.name()));
            Arc::new(source.strings(fields, has_nulls).finish())
        }
        // What is rare goes through text and Arrow's conversion; a failure is then looked for field by field.
        _ => {
            let fields = fields.collect::<Vec<_>>();
            let options = CastOptions { safe: false, ..CastOptions::default() };
            let convert = |fields: &[Field]| {
                let strings = source.strings_but_empty(fields.iter().copied(), false).finish();
                cast_with_options(&strings, ty, &options)
            };
            match convert(&fields) {
                Ok(array) => array,
                Err(_) => {
                    let bad = (0..fields.len()).find(|&i| convert(&fields[i..=i]).is_err());
                    return Err(NoValue { position: bad.unwrap_or(0) });
                }
            }
        }
    })
}

/// The SQL type of a column whose values are texts of its own, which not all texts are.
pub(in crate::external) fn checked_type(told: &ColumnField) -> Option<SqlType> {
    let is_own = match told.data_type() {
        DataType::Utf8View => told.metadata().contains_key(TYPE_KEY),
        DataType::BinaryView | DataType::Time64(TimeUnit::Microsecond) => true,
        _ => false,
    };
    let sql_type = SqlType::of_field(told).filter(|_| is_own)?;
    let is_text = matches!(
        sql_type.base(),
        SqlType::Unknown
            | SqlType::Text
            | SqlType::Varchar(_)
            | SqlType::Char(_)
            | SqlType::Name
            | SqlType::Collated(_)
    );
    (!is_text).then_some(sql_type)
}

/// Dates that SQL has and few programs write: the infinities, those before our era, and those of the far future.
pub(super) fn rare_date(raw: &[u8]) -> Option<i32> {
    let read = rare(raw, &SqlType::Date)?;
    Some(read.as_primitive::<Date32Type>().value(0))
}

/// Such timestamps.
pub(super) fn rare_timestamp(raw: &[u8], has_zone: bool) -> Option<i64> {
    let read = rare(raw, if has_zone { &SqlType::TimestampTz } else { &SqlType::Timestamp })?;
    Some(read.as_primitive::<TimestampMicrosecondType>().value(0))
}

fn rare(raw: &[u8], sql_type: &SqlType) -> Option<ArrayRef> {
    let text = std::str::from_utf8(raw).ok()?;
    let is_rare = matches!(text, "infinity" | "-infinity")
        || text.ends_with(" BC")
        || text.bytes().take_while(u8::is_ascii_digit).count() > 4 && text.contains('-');
    if !is_rare {
        return None;
    }
    parse_array(&StringViewArray::from(vec![text]), sql_type, &ReadOptions::default()).ok()
}

struct Fields<'a> {
    text: &'a [u8],
    dialect: &'a Dialect,
    forms: &'a Forms,
}

impl Fields<'_> {
    fn each<T>(
        &self,
        fields: impl Iterator<Item = Field>,
        parse: impl Fn(&[u8]) -> Option<T>,
        mut append: impl FnMut(Option<T>),
    ) -> Result<(), NoValue> {
        // A given text for NULL may look like a value.
        let nulls_first = !self.forms.nulls.is_empty();
        for (position, field) in fields.enumerate() {
            let meant = field.is_mixed().then(|| field.text(self.text, self.dialect));
            let raw = meant.as_deref().unwrap_or_else(|| field.raw(self.text)).trim_ascii();
            if nulls_first && self.forms.is_null(field, raw, false) {
                append(None);
                continue;
            }
            match parse(raw) {
                Some(value) => append(Some(value)),
                None if self.forms.is_null(field, raw, false) => append(None),
                None => return Err(NoValue { position }),
            }
        }
        Ok(())
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        fields: impl ExactSizeIterator<Item = Field>,
        ty: &DataType,
        parse: impl Fn(&[u8]) -> Option<T::Native>,
    ) -> Result<ArrayRef, NoValue> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(fields.len()).with_data_type(ty.clone());
        self.each(fields, parse, |value| builder.append_option(value))?;
        Ok(Arc::new(builder.finish()))
    }

    fn timestamp<T: ArrowPrimitiveType<Native = i64>>(
        &self,
        fields: impl ExactSizeIterator<Item = Field>,
        ty: &DataType,
        zone: Option<&str>,
        count: impl Fn(&DateTime<Utc>) -> Option<i64>,
    ) -> Result<ArrayRef, NoValue> {
        let zone = zone.and_then(|zone| zone.parse::<arrow::array::timezone::Tz>().ok());
        self.primitive::<T>(fields, ty, |raw| count(&self.forms.timestamp(raw, zone.as_ref())?))
    }

    fn strings(&self, fields: impl ExactSizeIterator<Item = Field>, has_nulls: bool) -> StringViewBuilder {
        let mut builder = StringViewBuilder::with_capacity(fields.len());
        for field in fields {
            if has_nulls && self.forms.is_null(field, field.raw(self.text), true) {
                builder.append_null();
                continue;
            }
            match field.text(self.text, self.dialect) {
                // SAFETY: the whole text is UTF-8, and fields begin and end at ASCII bytes.
                std::borrow::Cow::Borrowed(text) => {
                    builder.append_value(unsafe { std::str::from_utf8_unchecked(text) })
                }
                std::borrow::Cow::Owned(text) => builder.append_value(String::from_utf8_lossy(&text)),
            }
        }
        builder
    }

    /// Strings for conversion to something else: an empty one is NULL, but in quotes if the other type has a value that
    /// is an empty text.
    fn strings_but_empty(&self, fields: impl ExactSizeIterator<Item = Field>, has_empty: bool) -> StringViewBuilder {
        let mut builder = StringViewBuilder::with_capacity(fields.len());
        for field in fields {
            let raw = field.raw(self.text);
            if self.forms.is_null(field, raw.trim_ascii(), has_empty && field.is_quoted()) {
                builder.append_null();
            } else {
                builder.append_value(String::from_utf8_lossy(&field.text(self.text, self.dialect)).trim());
            }
        }
        builder
    }
}

/// A truth value as people write it.
pub(super) fn parse_boolean(raw: &[u8]) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| raw.eq_ignore_ascii_case(word.as_bytes()));
    if is(&["true", "t", "yes", "y", "1"]) {
        Some(true)
    } else if is(&["false", "f", "no", "n", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// A decimal integer with an optional sign, if it fits.
pub(super) fn parse_integer<T: TryFrom<i128> + FromDigits>(raw: &[u8]) -> Option<T> {
    let (negative, digits) = match raw {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    if digits.len() <= 18 {
        let mut value = 0i64;
        for &byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + i64::from(digit);
        }
        return T::from_digits(if negative { -value } else { value });
    }
    let value = std::str::from_utf8(raw).ok()?.parse::<i128>().ok()?;
    T::try_from(value).ok()
}

/// An integer type that a short number may fit in.
pub(super) trait FromDigits: Sized {
    fn from_digits(value: i64) -> Option<Self>;
}

macro_rules! from_digits {
    ($($ty:ty),*) => {$(
        impl FromDigits for $ty {
            fn from_digits(value: i64) -> Option<Self> {
                Self::try_from(value).ok()
            }
        }
    )*};
}

from_digits!(i8, i16, i32, i64, u8, u16, u32, u64);

/// Anything that the standard library parses.
pub(super) fn parse_text<T: std::str::FromStr>(raw: &[u8]) -> Option<T> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}

/// A decimal number with `scale` digits after the point, rounded half away from zero; `None` if it is not below the
/// limit.
pub(super) fn parse_decimal(raw: &[u8], scale: u32, limit: i128) -> Option<i128> {
    let (negative, mut digits) = match raw {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let mut exponent = 0i32;
    if let Some(at) = digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        exponent = parse_text::<i32>(&digits[at + 1..])?.clamp(-1000, 1000);
        digits = &digits[..at];
    }
    let point = digits.iter().position(|&byte| byte == b'.');
    let whole = &digits[..point.unwrap_or(digits.len())];
    let fraction = point.map_or(&[][..], |at| &digits[at + 1..]);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // How many of the digits, read as one number, are kept.
    let kept = whole.len() as i64 + i64::from(scale) + i64::from(exponent);
    let mut value = 0i128;
    let mut number = 0i64;
    let mut round = false;
    for &byte in whole.iter().chain(fraction) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        if number < kept {
            value = value.checked_mul(10)?.checked_add(i128::from(digit))?;
        } else if number == kept {
            round = digit >= 5;
        }
        number += 1;
    }
    while number < kept && value != 0 {
        value = value.checked_mul(10)?;
        number += 1;
    }
    value += i128::from(round);
    (value < limit).then_some(if negative { -value } else { value })
}

/// Days since 1970 of a date like `2024-02-29`.
pub(super) fn parse_date(raw: &[u8]) -> Option<i32> {
    let (date, rest) = split_date(raw)?;
    rest.is_empty().then(|| days(date))
}

fn days(date: NaiveDate) -> i32 {
    (date - NaiveDate::default()).num_days() as i32
}

/// Two or four digits as a number.
fn number(digits: &[u8]) -> Option<u32> {
    let mut value = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u32::from(digit);
    }
    Some(value)
}

/// A date `YYYY-MM-DD` or `YYYY/MM/DD` at the start, and what comes after it. Months and days may have one digit.
fn split_date(raw: &[u8]) -> Option<(NaiveDate, &[u8])> {
    let separator = *raw.get(4).filter(|byte| matches!(byte, b'-' | b'/'))?;
    let second = if raw.get(6) == Some(&separator) { 6 } else { 7 };
    if *raw.get(second)? != separator {
        return None;
    }
    let (before, behind) = raw.split_at(second + 1);
    let digits = behind.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
    let (day, rest) = behind.split_at_checked(digits.max(1))?;
    let date = NaiveDate::from_ymd_opt(number(&before[..4])? as i32, number(&before[5..second])?, number(day)?)?;
    Some((date, rest))
}

/// A point in time: a date, or a date, `T` or a space, a time, and perhaps a zone. Without a zone it is in `zone`, or
/// as if it were UTC.
pub(super) fn parse_timestamp(raw: &[u8], zone: Option<&arrow::array::timezone::Tz>) -> Option<DateTime<Utc>> {
    if zone.is_none()
        && let Some(plain) = parse_plain_timestamp(raw)
    {
        return Some(plain);
    }
    let text = std::str::from_utf8(raw).ok()?;
    match zone {
        Some(zone) => arrow::compute::kernels::cast_utils::string_to_datetime(zone, text).ok().map(|t| t.to_utc()),
        None => arrow::compute::kernels::cast_utils::string_to_datetime(&Utc, text).ok(),
    }
}

/// Microseconds since 1970, the nearest ones, as PostgreSQL reads more digits.
pub(super) fn rounded_micros(time: DateTime<Utc>) -> i64 {
    time.timestamp_micros() + i64::from(time.timestamp_subsec_nanos() % 1000 >= 500)
}

/// The common form `YYYY-MM-DD[T ]HH:MM[:SS[.fraction]]`, and the date alone.
fn parse_plain_timestamp(raw: &[u8]) -> Option<DateTime<Utc>> {
    let (date, rest) = split_date(raw)?;
    if rest.is_empty() {
        return Some(date.and_hms_opt(0, 0, 0)?.and_utc());
    }
    if let [b'T' | b' ', time @ ..] = rest
        && time.len() == 5
        && time[2] == b':'
    {
        return Some(date.and_hms_opt(number(&time[..2])?, number(&time[3..])?, 0)?.and_utc());
    }
    let (time, fraction) = rest.split_at_checked(9)?;
    if !matches!(time[0], b'T' | b' ') || time[3] != b':' || time[6] != b':' {
        return None;
    }
    let nanos = match fraction {
        [] => 0,
        [b'.', digits @ ..] if (1..=9).contains(&digits.len()) => number(digits)? * 10u32.pow(9 - digits.len() as u32),
        _ => return None,
    };
    let time = date.and_hms_nano_opt(number(&time[1..3])?, number(&time[4..6])?, number(&time[7..9])?, nanos)?;
    Some(time.and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_or_refused() {
        assert_eq!(parse_integer::<i8>(b"-128"), Some(-128));
        assert_eq!(parse_integer::<i8>(b"128"), None);
        assert_eq!(parse_integer::<u64>(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_integer::<i64>(b"9223372036854775808"), None);
        assert_eq!(parse_integer::<i64>(b""), None);
        assert_eq!(parse_integer::<i64>(b"1.0"), None);
        let decimal = |text: &str| parse_decimal(text.as_bytes(), 2, 10i128.pow(5));
        assert_eq!(decimal("12.345"), Some(1235));
        assert_eq!(decimal("-12.344"), Some(-1234));
        assert_eq!(decimal(".5"), Some(50));
        assert_eq!(decimal("7."), Some(700));
        assert_eq!(decimal("1e2"), Some(10_000));
        assert_eq!(decimal("125e-3"), Some(13));
        assert_eq!(decimal("1e-9"), Some(0));
        assert_eq!(decimal("999.99"), Some(99_999));
        assert_eq!(decimal("999.995"), None);
        assert_eq!(decimal("1000"), None);
        assert_eq!(decimal("."), None);
        assert_eq!(decimal("1x"), None);
    }

    #[test]
    fn dates_and_times_are_parsed_or_refused() {
        assert_eq!(parse_date(b"1970-01-02"), Some(1));
        assert_eq!(parse_date(b"2023-02-29"), None);
        assert_eq!(parse_date(b"1970-1-2"), Some(1));
        assert_eq!(parse_date(b"1970/01/02"), Some(1));
        for other in ["1970-01/02", "1970-01-", "1970--1-2", "1970-001-2", "1970-01-021", "70-01-02", "1970.01.02"] {
            assert_eq!(parse_date(other.as_bytes()), None, "{other}");
        }
        let micros = |text: &str| parse_timestamp(text.as_bytes(), None).map(|t| t.timestamp_micros());
        assert_eq!(micros("1970-01-01 00:00:01.5"), Some(1_500_000));
        assert_eq!(micros("1970-01-01T00:00:01"), Some(1_000_000));
        let rounded = |text: &str| parse_timestamp(text.as_bytes(), None).map(rounded_micros);
        assert_eq!(rounded("1970-01-01 00:00:00.1234567"), Some(123_457));
        assert_eq!(rounded("1969-12-31 23:59:59.9999995"), Some(0));
        assert_eq!(rounded("1970-01-01 00:00:00.123456499"), Some(123_456));
        assert_eq!(micros("1970-01-02"), Some(86_400_000_000));
        assert_eq!(micros("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(micros("1970-01-01 00:01"), Some(60_000_000));
        assert_eq!(micros("1970-01-01 25:00:00"), None);
        assert_eq!(micros("yesterday"), None);
    }
}
