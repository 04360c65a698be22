//! Numbers, texts, types and values as bytes, and back.
//!
//! Numbers have as many bytes as they need, seven bits in each. Whatever has several parts begins with how many there
//! are, and no count is believed that the bytes which are left cannot hold.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::root_as_message;
use arrow::ipc::writer::StreamWriter;
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};
use diligence_types::values::value_at;

/// Types within types at most.
const TYPE_DEPTH_MAX: usize = 100;

const TIME_UNITS: [TimeUnit; 4] =
    [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
const INTERVAL_UNITS: [IntervalUnit; 3] = [IntervalUnit::YearMonth, IntervalUnit::DayTime, IntervalUnit::MonthDayNano];

/// Types without parts, by their number.
const PLAIN_TYPES: [DataType; 22] = [
    DataType::Null,
    DataType::Boolean,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float16,
    DataType::Float32,
    DataType::Float64,
    DataType::Date32,
    DataType::Date64,
    DataType::Binary,
    DataType::LargeBinary,
    DataType::BinaryView,
    DataType::Utf8,
    DataType::LargeUtf8,
    DataType::Utf8View,
    DataType::Interval(IntervalUnit::MonthDayNano),
];

/// The numbers of types with parts.
mod types {
    pub const TIMESTAMP: u8 = 32;
    pub const TIME32: u8 = 33;
    pub const TIME64: u8 = 34;
    pub const DURATION: u8 = 35;
    pub const INTERVAL: u8 = 36;
    pub const FIXED_SIZE_BINARY: u8 = 37;
    pub const LIST: u8 = 38;
    pub const LIST_VIEW: u8 = 39;
    pub const FIXED_SIZE_LIST: u8 = 40;
    pub const LARGE_LIST: u8 = 41;
    pub const LARGE_LIST_VIEW: u8 = 42;
    pub const STRUCT: u8 = 43;
    pub const DICTIONARY: u8 = 44;
    pub const DECIMAL32: u8 = 45;
    pub const DECIMAL64: u8 = 46;
    pub const DECIMAL128: u8 = 47;
    pub const DECIMAL256: u8 = 48;
    pub const MAP: u8 = 49;
}

/// The numbers of values.
mod values {
    pub const NULL: u8 = 0;
    pub const FALSE: u8 = 1;
    pub const TRUE: u8 = 2;
    pub const INT32: u8 = 3;
    pub const INT64: u8 = 4;
    pub const UTF8: u8 = 5;
    pub const UTF8_VIEW: u8 = 6;
    pub const FLOAT64: u8 = 7;
    pub const DECIMAL128: u8 = 8;
    pub const DATE32: u8 = 9;
    /// In Arrow's format, as an array of one value.
    pub const ARRAY: u8 = 10;
}

pub(super) fn damaged(what: impl std::fmt::Display) -> Error {
    Error::file(format!("the bytes of a plan are damaged: {what}")).with_code("XX001")
}

/// What the messages of a stream of rows begin with, before the length of what they say.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Fails unless each message of a stream of rows is as long as it says: a reader would ask for memory for what is not
/// there.
fn check_messages(mut stream: &[u8]) -> Result<()> {
    let short = || damaged("rows end in the middle");
    while !stream.is_empty() {
        let (begin, rest) = stream.split_at_checked(CONTINUATION.len()).ok_or_else(short)?;
        if begin != CONTINUATION {
            return Err(damaged("rows do not begin as messages do"));
        }
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 {
            break;
        }
        let (message, rest) = rest.split_at_checked(length).ok_or_else(short)?;
        let message = root_as_message(message).map_err(damaged)?;
        let body = usize::try_from(message.bodyLength()).map_err(damaged)?;
        stream = rest.split_at_checked(body).ok_or_else(short)?.1;
    }
    Ok(())
}

/// Bytes that are written.
#[derive(Default)]
pub(super) struct BytesWritten(pub Vec<u8>);

/// Bytes that are read.
pub(super) struct BytesRead<'b>(pub &'b [u8]);

impl BytesWritten {
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    pub fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    pub fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub fn counts(&mut self, counts: &[usize]) {
        self.count(counts.len());
        counts.iter().for_each(|count| self.count(*count));
    }

    /// A number that may be missing.
    pub fn option(&mut self, number: Option<u64>) {
        self.flag(number.is_some());
        number.into_iter().for_each(|number| self.number(number));
    }

    /// One of a closed list, by its place. Fails with kind `Bug` if it is not there.
    pub fn one_of<T: PartialEq + std::fmt::Debug>(&mut self, all: &[T], value: &T) -> Result<()> {
        let place = all.iter().position(|one| one == value);
        let place = place.ok_or_else(|| Error::bug(format!("{value:?} cannot be written as bytes")))?;
        self.byte(place as u8);
        Ok(())
    }

    pub fn sort_options(&mut self, options: SortOptions) {
        self.byte(u8::from(options.descending) | u8::from(options.nulls_first) << 1);
    }

    /// Fails with kind `Unsupported` for a type that no column of a table has.
    pub fn data_type(&mut self, data_type: &DataType) -> Result<()> {
        if let Some(place) = PLAIN_TYPES.iter().position(|plain| plain == data_type) {
            self.byte(place as u8);
            return Ok(());
        }
        let nested = |output: &mut Self, number, field: &FieldRef| {
            output.byte(number);
            output.field(field)
        };
        let decimal = |output: &mut Self, number, precision, scale: i8| {
            output.byte(number);
            output.byte(precision);
            output.byte(scale as u8);
        };
        match data_type {
            DataType::Timestamp(unit, zone) => {
                self.byte(types::TIMESTAMP);
                self.one_of(&TIME_UNITS, unit)?;
                self.flag(zone.is_some());
                zone.iter().for_each(|zone| self.text(zone));
            }
            DataType::Time32(unit) => {
                self.byte(types::TIME32);
                self.one_of(&TIME_UNITS, unit)?;
            }
            DataType::Time64(unit) => {
                self.byte(types::TIME64);
                self.one_of(&TIME_UNITS, unit)?;
            }
            DataType::Duration(unit) => {
                self.byte(types::DURATION);
                self.one_of(&TIME_UNITS, unit)?;
            }
            DataType::Interval(unit) => {
                self.byte(types::INTERVAL);
                self.one_of(&INTERVAL_UNITS, unit)?;
            }
            DataType::FixedSizeBinary(width) => {
                self.byte(types::FIXED_SIZE_BINARY);
                self.signed(i64::from(*width));
            }
            DataType::List(field) => nested(self, types::LIST, field)?,
            DataType::ListView(field) => nested(self, types::LIST_VIEW, field)?,
            DataType::FixedSizeList(field, length) => {
                nested(self, types::FIXED_SIZE_LIST, field)?;
                self.signed(i64::from(*length));
            }
            DataType::LargeList(field) => nested(self, types::LARGE_LIST, field)?,
            DataType::LargeListView(field) => nested(self, types::LARGE_LIST_VIEW, field)?,
            DataType::Struct(fields) => {
                self.byte(types::STRUCT);
                self.fields(fields)?;
            }
            DataType::Dictionary(keys, values) => {
                self.byte(types::DICTIONARY);
                self.data_type(keys)?;
                self.data_type(values)?;
            }
            DataType::Decimal32(precision, scale) => decimal(self, types::DECIMAL32, *precision, *scale),
            DataType::Decimal64(precision, scale) => decimal(self, types::DECIMAL64, *precision, *scale),
            DataType::Decimal128(precision, scale) => decimal(self, types::DECIMAL128, *precision, *scale),
            DataType::Decimal256(precision, scale) => decimal(self, types::DECIMAL256, *precision, *scale),
            DataType::Map(field, is_sorted) => {
                nested(self, types::MAP, field)?;
                self.flag(*is_sorted);
            }
            other => {
                return Err(Error::unsupported(format!("a plan with values of {other} cannot be written as bytes")));
            }
        }
        Ok(())
    }

    pub fn field(&mut self, field: &Field) -> Result<()> {
        self.text(field.name());
        self.flag(field.is_nullable());
        self.metadata(field.metadata());
        self.data_type(field.data_type())
    }

    pub fn fields<'f>(
        &mut self,
        fields: impl IntoIterator<Item = &'f FieldRef, IntoIter: ExactSizeIterator>,
    ) -> Result<()> {
        let mut fields = fields.into_iter();
        self.count(fields.len());
        fields.try_for_each(|field| self.field(field))
    }

    pub fn metadata(&mut self, metadata: &std::collections::HashMap<String, String>) {
        let sorted = metadata.iter().collect::<BTreeMap<_, _>>();
        self.count(sorted.len());
        for (key, value) in sorted {
            self.text(key);
            self.text(value);
        }
    }

    pub fn schema(&mut self, schema: &Schema) -> Result<()> {
        self.fields(schema.fields())?;
        self.metadata(schema.metadata());
        Ok(())
    }

    /// Fails as [`data_type`](Self::data_type) does.
    pub fn value(&mut self, value: &ScalarValue) -> Result<()> {
        match value {
            ScalarValue::Boolean(Some(value)) => self.byte(if *value { values::TRUE } else { values::FALSE }),
            ScalarValue::Int32(Some(value)) => {
                self.byte(values::INT32);
                self.signed(i64::from(*value));
            }
            ScalarValue::Int64(Some(value)) => {
                self.byte(values::INT64);
                self.signed(*value);
            }
            ScalarValue::Date32(Some(value)) => {
                self.byte(values::DATE32);
                self.signed(i64::from(*value));
            }
            ScalarValue::Utf8(Some(value)) => {
                self.byte(values::UTF8);
                self.text(value);
            }
            ScalarValue::Utf8View(Some(value)) => {
                self.byte(values::UTF8_VIEW);
                self.text(value);
            }
            ScalarValue::Float64(Some(value)) => {
                self.byte(values::FLOAT64);
                self.0.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            ScalarValue::Decimal128(Some(value), precision, scale) => {
                self.byte(values::DECIMAL128);
                self.0.extend_from_slice(&value.to_le_bytes());
                self.byte(*precision);
                self.byte(*scale as u8);
            }
            value if value.is_null() => {
                self.byte(values::NULL);
                self.data_type(&value.data_type())?;
            }
            value => {
                self.byte(values::ARRAY);
                let array = value.to_array().map_err(from_datafusion)?;
                let field = Field::new("", array.data_type().clone(), true);
                let schema = Arc::new(Schema::new(vec![field]));
                let batch = RecordBatch::try_new(schema, vec![array]).map_err(from_arrow)?;
                self.batches(std::slice::from_ref(&batch))?;
            }
        }
        Ok(())
    }

    /// Rows, all with the columns of the first batch. Fails if Arrow cannot write them.
    pub fn batches(&mut self, batches: &[RecordBatch]) -> Result<()> {
        self.count(batches.len());
        let Some(first) = batches.first() else { return Ok(()) };
        let mut stream = StreamWriter::try_new(Vec::new(), &first.schema()).map_err(from_arrow)?;
        batches.iter().try_for_each(|batch| stream.write(batch)).map_err(from_arrow)?;
        let stream = stream.into_inner().map_err(from_arrow)?;
        self.bytes(&stream);
        Ok(())
    }
}

impl<'b> BytesRead<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8]> {
        let (taken, left) = self.0.split_at_checked(count).ok_or_else(|| damaged("they end too early"))?;
        self.0 = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn flag(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(damaged(format_args!("{other} is neither yes nor no"))),
        }
    }

    pub fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(damaged("a number is too large"))
    }

    pub fn signed(&mut self) -> Result<i64> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn small<T: TryFrom<i64>>(&mut self) -> Result<T> {
        T::try_from(self.signed()?).map_err(|_| damaged("a number is too large"))
    }

    pub fn size(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| damaged("a number is too large"))
    }

    /// How many parts come, of at least a byte each.
    pub fn count(&mut self) -> Result<usize> {
        match self.size()? {
            count if count <= self.0.len() => Ok(count),
            count => Err(damaged(format_args!("{count} parts do not fit in what is left"))),
        }
    }

    pub fn bytes(&mut self) -> Result<&'b [u8]> {
        let count = self.count()?;
        self.take(count)
    }

    pub fn text(&mut self) -> Result<String> {
        let bytes = self.bytes()?;
        Ok(std::str::from_utf8(bytes).map_err(|_| damaged("a text is not UTF-8"))?.to_owned())
    }

    /// So many parts as they say.
    pub fn all<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| one(self)).collect()
    }

    pub fn counts(&mut self) -> Result<Vec<usize>> {
        self.all(Self::size)
    }

    pub fn option(&mut self) -> Result<Option<u64>> {
        Ok(if self.flag()? { Some(self.number()?) } else { None })
    }

    pub fn one_of<T: Clone>(&mut self, all: &[T], what: &str) -> Result<T> {
        let place = usize::from(self.byte()?);
        all.get(place).cloned().ok_or_else(|| damaged(format_args!("there is no {what} of number {place}")))
    }

    pub fn sort_options(&mut self) -> Result<SortOptions> {
        match self.byte()? {
            bits @ 0..4 => Ok(SortOptions { descending: bits & 1 != 0, nulls_first: bits & 2 != 0 }),
            _ => Err(damaged("there is no such order")),
        }
    }

    pub fn data_type(&mut self) -> Result<DataType> {
        self.type_within(0)
    }

    fn type_within(&mut self, depth: usize) -> Result<DataType> {
        if depth > TYPE_DEPTH_MAX {
            return Err(damaged("a type has too many parts"));
        }
        let number = self.byte()?;
        if let Some(plain) = PLAIN_TYPES.get(usize::from(number)) {
            return Ok(plain.clone());
        }
        let nested = |input: &mut Self| Ok::<_, Error>(Arc::new(input.field_within(depth + 1)?));
        Ok(match number {
            types::TIMESTAMP => {
                let unit = self.time_unit()?;
                let zone = if self.flag()? { Some(Arc::from(self.text()?)) } else { None };
                DataType::Timestamp(unit, zone)
            }
            types::TIME32 => DataType::Time32(self.time_unit()?),
            types::TIME64 => DataType::Time64(self.time_unit()?),
            types::DURATION => DataType::Duration(self.time_unit()?),
            types::INTERVAL => DataType::Interval(self.one_of(&INTERVAL_UNITS, "unit of intervals")?),
            types::FIXED_SIZE_BINARY => DataType::FixedSizeBinary(self.small()?),
            types::LIST => DataType::List(nested(self)?),
            types::LIST_VIEW => DataType::ListView(nested(self)?),
            types::FIXED_SIZE_LIST => DataType::FixedSizeList(nested(self)?, self.small()?),
            types::LARGE_LIST => DataType::LargeList(nested(self)?),
            types::LARGE_LIST_VIEW => DataType::LargeListView(nested(self)?),
            types::STRUCT => DataType::Struct(self.fields_within(depth + 1)?),
            types::DICTIONARY => {
                let keys = self.type_within(depth + 1)?;
                if !keys.is_dictionary_key_type() {
                    return Err(damaged(format_args!("{keys} is no type of a dictionary's keys")));
                }
                DataType::Dictionary(Box::new(keys), Box::new(self.type_within(depth + 1)?))
            }
            types::DECIMAL32 => DataType::Decimal32(self.byte()?, self.byte()? as i8),
            types::DECIMAL64 => DataType::Decimal64(self.byte()?, self.byte()? as i8),
            types::DECIMAL128 => DataType::Decimal128(self.byte()?, self.byte()? as i8),
            types::DECIMAL256 => DataType::Decimal256(self.byte()?, self.byte()? as i8),
            types::MAP => DataType::Map(nested(self)?, self.flag()?),
            other => return Err(damaged(format_args!("there is no type of number {other}"))),
        })
    }

    fn time_unit(&mut self) -> Result<TimeUnit> {
        self.one_of(&TIME_UNITS, "unit of times")
    }

    pub fn field(&mut self) -> Result<Field> {
        self.field_within(0)
    }

    fn field_within(&mut self, depth: usize) -> Result<Field> {
        let (name, nullable) = (self.text()?, self.flag()?);
        let metadata = self.metadata()?;
        Ok(Field::new(name, self.type_within(depth)?, nullable).with_metadata(metadata))
    }

    pub fn fields(&mut self) -> Result<Fields> {
        self.fields_within(0)
    }

    fn fields_within(&mut self, depth: usize) -> Result<Fields> {
        Ok(self.all(|input| input.field_within(depth))?.into())
    }

    pub fn metadata(&mut self) -> Result<std::collections::HashMap<String, String>> {
        Ok(self.all(|input| Ok((input.text()?, input.text()?)))?.into_iter().collect())
    }

    pub fn schema(&mut self) -> Result<SchemaRef> {
        let fields = self.fields()?;
        Ok(Arc::new(Schema::new_with_metadata(fields, self.metadata()?)))
    }

    pub fn value(&mut self) -> Result<ScalarValue> {
        Ok(match self.byte()? {
            values::NULL => ScalarValue::try_new_null(&self.data_type()?).map_err(from_datafusion)?,
            values::FALSE => ScalarValue::Boolean(Some(false)),
            values::TRUE => ScalarValue::Boolean(Some(true)),
            values::INT32 => ScalarValue::Int32(Some(self.small()?)),
            values::INT64 => ScalarValue::Int64(Some(self.signed()?)),
            values::DATE32 => ScalarValue::Date32(Some(self.small()?)),
            values::UTF8 => ScalarValue::Utf8(Some(self.text()?)),
            values::UTF8_VIEW => ScalarValue::Utf8View(Some(self.text()?)),
            values::FLOAT64 => ScalarValue::Float64(Some(f64::from_bits(u64::from_le_bytes(self.array()?)))),
            values::DECIMAL128 => {
                let value = i128::from_le_bytes(self.array()?);
                ScalarValue::Decimal128(Some(value), self.byte()?, self.byte()? as i8)
            }
            values::ARRAY => {
                let batches = self.batches()?;
                let one = |array: &ArrayRef| array.len() == 1;
                let array = batches.first().and_then(|batch| batch.columns().first()).filter(|array| one(array));
                let array = array.ok_or_else(|| damaged("a value is not there"))?;
                value_at(array, 0).map_err(from_datafusion)?
            }
            other => return Err(damaged(format_args!("there is no value of number {other}"))),
        })
    }

    pub fn batches(&mut self) -> Result<Vec<RecordBatch>> {
        let count = self.size()?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let stream = self.bytes()?;
        check_messages(stream)?;
        let stream = StreamReader::try_new(Cursor::new(stream), None).map_err(from_arrow)?;
        let schema = stream.schema();
        let batches = stream.map(|batch| {
            let batch = batch.map_err(from_arrow)?;
            // All batches have one schema, as those that were written had.
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options).map_err(from_arrow)
        });
        let batches = batches.collect::<Result<Vec<_>>>()?;
        match batches.len() == count {
            true => Ok(batches),
            false => Err(damaged("rows are missing")),
        }
    }
}
