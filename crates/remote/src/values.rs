//! Values of PostgreSQL's binary form as arrays.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Decimal256Builder, Float32Builder,
    Float64Builder, Int16Builder, Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, ListArray,
    StringViewBuilder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, IntervalMonthDayNano, i256};
use diligence_base::{Error, Result};

use crate::columns::Form;

/// Days from 1970 to 2000, and microseconds.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// Why a value is none here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Its bytes make no sense.
    Malformed,
    /// There is no such value here, for this reason.
    Missing(&'static str),
}

type Read<T> = std::result::Result<T, Wrong>;

/// The values of a column, one after the other.
pub(crate) enum Values {
    Boolean(BooleanBuilder),
    Int2(Int16Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Oid(Int64Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    Decimal128(Decimal128Builder, u8, i8),
    Decimal256(Decimal256Builder, u8, i8),
    Text(StringViewBuilder),
    Padded(StringViewBuilder),
    Jsonb(StringViewBuilder),
    Bytea(BinaryViewBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Uuid(StringViewBuilder),
    List { data_type: DataType, offsets: Vec<i32>, valid: Vec<bool>, elements: Box<Values> },
}

impl Values {
    /// None yet, of a form, in arrays of a type.
    pub fn new(form: &Form, data_type: &DataType) -> Result<Self> {
        Ok(match (form, data_type) {
            (Form::Boolean, _) => Self::Boolean(BooleanBuilder::new()),
            (Form::Int2, _) => Self::Int2(Int16Builder::new()),
            (Form::Int4, _) => Self::Int4(Int32Builder::new()),
            (Form::Int8, _) => Self::Int8(Int64Builder::new()),
            (Form::Oid, _) => Self::Oid(Int64Builder::new()),
            (Form::Float4, _) => Self::Float4(Float32Builder::new()),
            (Form::Float8, _) => Self::Float8(Float64Builder::new()),
            (Form::Numeric, DataType::Decimal128(precision, scale)) => {
                Self::Decimal128(Decimal128Builder::new().with_data_type(data_type.clone()), *precision, *scale)
            }
            (Form::Numeric, DataType::Decimal256(precision, scale)) => {
                Self::Decimal256(Decimal256Builder::new().with_data_type(data_type.clone()), *precision, *scale)
            }
            (Form::Text, _) => Self::Text(StringViewBuilder::new()),
            (Form::Padded, _) => Self::Padded(StringViewBuilder::new()),
            (Form::Jsonb, _) => Self::Jsonb(StringViewBuilder::new()),
            (Form::Bytea, _) => Self::Bytea(BinaryViewBuilder::new()),
            (Form::Date, _) => Self::Date(Date32Builder::new()),
            (Form::Time, _) => Self::Time(Time64MicrosecondBuilder::new()),
            (Form::Timestamp, _) => {
                Self::Timestamp(TimestampMicrosecondBuilder::new().with_data_type(data_type.clone()))
            }
            (Form::Interval, _) => Self::Interval(IntervalMonthDayNanoBuilder::new()),
            (Form::Uuid, _) => Self::Uuid(StringViewBuilder::new()),
            (Form::Array(element), DataType::List(field)) => Self::List {
                data_type: data_type.clone(),
                offsets: vec![0],
                valid: Vec::new(),
                elements: Box::new(Self::new(element, field.data_type())?),
            },
            _ => return Err(Error::bug(format!("values of the form {form:?} do not become {data_type}"))),
        })
    }

    /// The next value; NULL, if `None`.
    pub fn push(&mut self, value: Option<&[u8]>) -> Read<()> {
        match self {
            Self::Boolean(values) => values.append_option(value.map(fixed::<1>).transpose()?.map(|[b]| b != 0)),
            Self::Int2(values) => values.append_option(value.map(fixed).transpose()?.map(i16::from_be_bytes)),
            Self::Int4(values) => values.append_option(value.map(fixed).transpose()?.map(i32::from_be_bytes)),
            Self::Int8(values) => values.append_option(value.map(fixed).transpose()?.map(i64::from_be_bytes)),
            Self::Oid(values) => {
                values.append_option(value.map(fixed).transpose()?.map(|bytes| i64::from(u32::from_be_bytes(bytes))));
            }
            Self::Float4(values) => values.append_option(value.map(fixed).transpose()?.map(f32::from_be_bytes)),
            Self::Float8(values) => values.append_option(value.map(fixed).transpose()?.map(f64::from_be_bytes)),
            Self::Decimal128(values, precision, scale) => {
                let number = value.map(|bytes| decimal(bytes, *precision, *scale)).transpose()?;
                values.append_option(number.map(|number| number.to_i128().ok_or(TOO_LARGE)).transpose()?);
            }
            Self::Decimal256(values, precision, scale) => {
                values.append_option(value.map(|bytes| decimal(bytes, *precision, *scale)).transpose()?);
            }
            Self::Text(values) => values.append_option(value.map(text).transpose()?),
            Self::Padded(values) => {
                let value = value.map(text).transpose()?;
                values.append_option(value.map(|text| text.trim_end_matches(' ')));
            }
            Self::Jsonb(values) => {
                let value = value.map(|bytes| bytes.strip_prefix(&[1]).ok_or(Wrong::Malformed)).transpose()?;
                values.append_option(value.map(text).transpose()?);
            }
            Self::Bytea(values) => values.append_option(value),
            Self::Date(values) => values.append_option(value.map(date).transpose()?),
            Self::Time(values) => values.append_option(value.map(fixed).transpose()?.map(i64::from_be_bytes)),
            Self::Timestamp(values) => values.append_option(value.map(timestamp).transpose()?),
            Self::Interval(values) => values.append_option(value.map(interval).transpose()?),
            Self::Uuid(values) => values.append_option(value.map(uuid).transpose()?),
            Self::List { offsets, valid, elements, .. } => {
                let count = value.map(|bytes| push_elements(bytes, elements)).transpose()?;
                valid.push(count.is_some());
                let last = offsets.last().copied().unwrap_or(0);
                offsets.push(last.checked_add(count.unwrap_or(0)).ok_or(TOO_LARGE)?);
            }
        }
        Ok(())
    }

    /// The array.
    pub fn finish(self) -> Result<ArrayRef> {
        Ok(match self {
            Self::Boolean(mut values) => Arc::new(values.finish()),
            Self::Int2(mut values) => Arc::new(values.finish()),
            Self::Int4(mut values) => Arc::new(values.finish()),
            Self::Int8(mut values) | Self::Oid(mut values) => Arc::new(values.finish()),
            Self::Float4(mut values) => Arc::new(values.finish()),
            Self::Float8(mut values) => Arc::new(values.finish()),
            Self::Decimal128(mut values, ..) => Arc::new(values.finish()),
            Self::Decimal256(mut values, ..) => Arc::new(values.finish()),
            Self::Text(mut values) | Self::Padded(mut values) | Self::Jsonb(mut values) | Self::Uuid(mut values) => {
                Arc::new(values.finish())
            }
            Self::Bytea(mut values) => Arc::new(values.finish()),
            Self::Date(mut values) => Arc::new(values.finish()),
            Self::Time(mut values) => Arc::new(values.finish()),
            Self::Timestamp(mut values) => Arc::new(values.finish()),
            Self::Interval(mut values) => Arc::new(values.finish()),
            Self::List { data_type: DataType::List(field), offsets, valid, elements } => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let list = ListArray::try_new(field, offsets, elements.finish()?, Some(NullBuffer::from(valid)));
                Arc::new(list.map_err(|error| Error::bug(format!("elements make no list: {error}")))?)
            }
            Self::List { data_type, .. } => return Err(Error::bug(format!("{data_type} is no list"))),
        })
    }
}

const TOO_LARGE: Wrong = Wrong::Missing("it has too many digits for a numeric here");

fn fixed<const BYTES: usize>(bytes: &[u8]) -> Read<[u8; BYTES]> {
    bytes.try_into().map_err(|_| Wrong::Malformed)
}

fn text(bytes: &[u8]) -> Read<&str> {
    std::str::from_utf8(bytes).map_err(|_| Wrong::Missing("it is no text in UTF-8"))
}

fn date(bytes: &[u8]) -> Read<i32> {
    match i32::from_be_bytes(fixed(bytes)?) {
        infinite @ (i32::MAX | i32::MIN) => Ok(infinite),
        days => days.checked_add(EPOCH_DAYS).ok_or(Wrong::Missing("the date is out of range")),
    }
}

fn timestamp(bytes: &[u8]) -> Read<i64> {
    match i64::from_be_bytes(fixed(bytes)?) {
        infinite @ (i64::MAX | i64::MIN) => Ok(infinite),
        time => time.checked_add(EPOCH_US).ok_or(Wrong::Missing("the timestamp is out of range")),
    }
}

fn interval(bytes: &[u8]) -> Read<IntervalMonthDayNano> {
    let bytes: [u8; 16] = fixed(bytes)?;
    let (time, rest) = bytes.split_at(8);
    let (days, months) = rest.split_at(4);
    let nanoseconds = i64::from_be_bytes(fixed(time)?).checked_mul(1000);
    let nanoseconds = nanoseconds.ok_or(Wrong::Missing("the interval is out of range"))?;
    Ok(IntervalMonthDayNano::new(i32::from_be_bytes(fixed(months)?), i32::from_be_bytes(fixed(days)?), nanoseconds))
}

fn uuid(bytes: &[u8]) -> Read<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bytes: [u8; 16] = fixed(bytes)?;
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    Ok(text)
}

/// Adds the elements of an array, and gives how many they are.
fn push_elements(bytes: &[u8], elements: &mut Values) -> Read<i32> {
    let mut rest = Rest(bytes);
    let dimensions = rest.i32()?;
    // Flags, and the type of the elements.
    rest.take(8)?;
    match dimensions {
        0 => return Ok(0),
        1 => {}
        _ => return Err(Wrong::Missing("it is an array of more than one dimension")),
    }
    let count = rest.i32()?;
    rest.take(4)?;
    for _ in 0..count {
        let value = match rest.i32()? {
            -1 => None,
            length => Some(rest.take(usize::try_from(length).map_err(|_| Wrong::Malformed)?)?),
        };
        elements.push(value)?;
    }
    Ok(count.max(0))
}

/// What is left of some bytes.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(Wrong::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn i32(&mut self) -> Read<i32> {
        Ok(i32::from_be_bytes(fixed(self.take(4)?)?))
    }

    fn i16(&mut self) -> Read<i16> {
        Ok(i16::from_be_bytes(fixed(self.take(2)?)?))
    }
}

/// The signs of a numeric: a negative one, and what is no number.
const NEGATIVE: u16 = 0x4000;
const NO_NUMBER: u16 = 0xC000;

/// A numeric as a whole number of units of a scale. Digits behind that are rounded away.
fn decimal(bytes: &[u8], precision: u8, scale: i8) -> Read<i256> {
    let mut rest = Rest(bytes);
    let (count, weight) = (rest.i16()?, i32::from(rest.i16()?));
    let sign = rest.i16()? as u16;
    rest.i16()?;
    if sign & NO_NUMBER == NO_NUMBER {
        return Err(Wrong::Missing("a numeric that is NaN or infinite is none here"));
    }
    // Each digit is so many powers of ten of the unit.
    let mut exponent = 4 * weight + i32::from(scale);
    let mut number = i256::ZERO;
    let mut last = 0;
    for _ in 0..count {
        let digit = i256::from_i128(i128::from(rest.i16()?));
        // What is less than a tenth of the unit rounds nothing.
        if exponent <= -8 {
            break;
        }
        let ten_thousand = i256::from_i128(10_000);
        let more = number.checked_mul(ten_thousand).and_then(|number| number.checked_add(digit));
        number = more.ok_or(TOO_LARGE)?;
        last = exponent;
        exponent -= 4;
    }
    if number != i256::ZERO {
        let power = i256::from_i128(10).checked_pow(last.unsigned_abs());
        if last >= 0 {
            number = power.and_then(|power| number.checked_mul(power)).ok_or(TOO_LARGE)?;
        } else {
            let power = power.ok_or(Wrong::Malformed)?;
            let half = power.checked_div(i256::from_i128(2)).ok_or(Wrong::Malformed)?;
            number = number.checked_add(half).and_then(|number| number.checked_div(power)).ok_or(TOO_LARGE)?;
        }
    }
    let limit = i256::from_i128(10).checked_pow(u32::from(precision));
    if limit.is_some_and(|limit| number >= limit) {
        return Err(TOO_LARGE);
    }
    Ok(if sign == NEGATIVE { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    /// PostgreSQL's form of a numeric.
    fn numeric(weight: i16, sign: u16, digits: &[i16]) -> Vec<u8> {
        let head = [digits.len() as i16, weight, sign as i16, 0];
        head.iter().chain(digits).flat_map(|number| number.to_be_bytes()).collect()
    }

    #[test]
    fn numerics_are_read_to_the_digit() {
        let read = |weight, sign, digits: &[i16], scale| {
            decimal(&numeric(weight, sign, digits), 38, scale).map(|number| number.to_string())
        };
        assert_eq!(read(0, 0, &[], 2).unwrap(), "0");
        assert_eq!(read(0, 0, &[1, 5000], 2).unwrap(), "150");
        assert_eq!(read(1, NEGATIVE, &[12, 3456, 7800], 2).unwrap(), "-12345678");
        assert_eq!(read(2, 0, &[1], 0).unwrap(), "100000000");
        assert_eq!(read(-1, 0, &[1], 4).unwrap(), "1");
        assert_eq!(read(-1, 0, &[5000], 0).unwrap(), "1");
        assert_eq!(read(-2, 0, &[9999], 3).unwrap(), "0");
        assert_eq!(read(-2, 0, &[9999], 4).unwrap(), "1");
        assert_eq!(read(-1, 0, &[1234, 5678, 9999, 9999, 1], 6).unwrap(), "123457");
        assert_eq!(read(9, 0, &[100], 0).unwrap_err(), TOO_LARGE);
        assert!(matches!(read(0, 0xC000, &[], 0), Err(Wrong::Missing(_))));
        assert!(matches!(read(0, 0xD000, &[], 0), Err(Wrong::Missing(_))));
        for end in 0..9 {
            assert_eq!(decimal(&numeric(0, 0, &[1, 2])[..end], 38, 0), Err(Wrong::Malformed));
        }
    }

    #[test]
    fn arrays_have_elements_and_nulls() {
        let field = Arc::new(arrow::datatypes::Field::new("item", DataType::Int32, true));
        let form = Form::Array(Box::new(Form::Int4));
        let mut values = Values::new(&form, &DataType::List(field)).unwrap();
        let array = |count: i32, elements: &[u8]| {
            let head = [1, 1, 23, count, 1_i32].iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<_>>();
            [head.as_slice(), elements].concat()
        };
        let two = array(2, &[0, 0, 0, 4, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff]);
        values.push(Some(&two)).unwrap();
        values.push(None).unwrap();
        values.push(Some(&[0; 12])).unwrap();
        for end in 0..two.len() {
            assert_eq!(values.push(Some(&two[..end])), Err(Wrong::Malformed), "{end}");
        }
        let mut values =
            Values::new(&form, &DataType::List(Arc::new(arrow::datatypes::Field::new("item", DataType::Int32, true))))
                .unwrap();
        values.push(Some(&two)).unwrap();
        values.push(None).unwrap();
        let array = values.finish().unwrap();
        let list = array.as_list::<i32>();
        assert_eq!(list.value(0).as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(7), None]);
        assert!(list.is_null(1) && !list.is_null(0));
    }

    #[test]
    fn times_are_counted_from_1970() {
        assert_eq!(date(&0_i32.to_be_bytes()), Ok(10_957));
        assert_eq!(date(&i32::MAX.to_be_bytes()), Ok(i32::MAX));
        assert_eq!(timestamp(&(-EPOCH_US).to_be_bytes()), Ok(0));
        assert_eq!(timestamp(&i64::MIN.to_be_bytes()), Ok(i64::MIN));
        assert_eq!(uuid(&[0xab; 16]).unwrap(), "abababab-abab-abab-abab-abababababab");
        assert_eq!(uuid(&[0; 15]), Err(Wrong::Malformed));
    }
}
