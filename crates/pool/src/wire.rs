//! What the engine and a process say to each other: frames of a head and bytes.
//!
//! ```text
//!   head:    bytes behind it (4), kind (1), nothing (3), number of the call (8)
//!   load:    function (8), form (1), returns (1), parameters (2), of each: kind (1), name; the function's name, body,
//!            columns of its rows (2), of each: name; memory (8) and fuel (8) of its own, 0 for those of the process;
//!            of steps: strict? (1), a first state? (1), its text
//!   forget:  function (8)
//!   call:    function (8), rows (4), columns (2), of each: some NULL? (1), a byte for each row if so, values
//!   values:  form (1), some NULL? (1), a byte for each row if so, values
//!   raised:  cause (1), message, place; perhaps also: code, detail, hint, each empty where there is none
//! ```
//!
//! Truth values are bytes, texts and bytes are lengths of four bytes each and then all bytes. Integers of an answer
//! have eight bytes, floats as well. Arrays in columns of WebAssembly are lengths of four bytes each and then all
//! elements: of a call as a column, of an answer with their own form in front. Of [`Form::Arrow`] values are a stream
//! of Arrow's. Everything is little-endian, as are the machines.
//!
//! Invariant: a process is not believed. Whatever it answers is an answer that fits or [`Malformed`], and takes no more
//! memory than the bytes that came.

use std::io::{Cursor, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, ListArray, RecordBatch, RecordBatchOptions, StringViewBuilder,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, DataType, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Schema,
};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::root_as_message;
use arrow::ipc::writer::StreamWriter;
use diligence_base::{Error, Result};

use crate::code::{Code, CodeSpec, Form, Kind, Runtime};

/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 16;

const LOAD: u8 = 1;
const FORGET: u8 = 2;
const CALL: u8 = 3;

const HELLO: u8 = 1;
const LOADED: u8 = 2;
const VALUES: u8 = 3;
const RAISED: u8 = 4;

const NATIVE: u8 = 0;
const TEXTS: u8 = 1;
const ARROW: u8 = 2;

/// An answer that makes no sense, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl Malformed {
    fn because<T>(reason: impl Into<String>) -> std::result::Result<T, Self> {
        Err(Self(reason.into()))
    }
}

/// What a function gave.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Values of the kind that it was declared to give; of [`Form::Arrow`], of any type.
    Values(ArrayRef),
    /// Texts, each of which is to be read as a value.
    Texts(ArrayRef),
    /// A value that its type does not have: what it is, and of which type it is none.
    OutOfRange(String, Kind),
}

/// Why a function raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It did.
    Exception,
    /// Its body is no Python, or no module.
    Syntax,
    /// It needs pyarrow, which is not there.
    Missing,
    /// It has no more memory.
    Memory,
    /// What it gave is not what it was declared to give.
    Wrong,
    /// It has taken more steps than it may.
    Fuel,
    /// The module has no such function, or one of another type.
    Definition,
}

/// An error of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised {
    /// Why.
    pub cause: Cause,
    /// What, with the kind of error in front.
    pub message: String,
    /// Where, a line for each step, the outermost first.
    pub place: String,
    /// What the function itself says of its error: the code, if it has one.
    pub code: String,
    /// A second sentence.
    pub detail: String,
    /// What to do about it.
    pub hint: String,
}

/// What a process answers.
#[derive(Debug)]
pub enum Reply {
    /// It has started; which Python it is.
    Hello(String),
    /// It has the function.
    Loaded,
    /// Bytes of values, for [`values`].
    Values(Buffer),
    /// The function raised.
    Raised(Raised),
}

/// The head of a frame: its bytes, its kind and its number.
pub fn head(bytes: [u8; HEAD_BYTES]) -> (usize, u8, u64) {
    let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let number = u64::from_le_bytes(bytes[8..].try_into().unwrap_or_default());
    (length as usize, bytes[4], number)
}

/// Whether a frame of this kind has values.
pub(crate) fn is_values(kind: u8) -> bool {
    kind == VALUES
}

/// A frame on its way to a process: bytes, and values that stay where they lie.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    /// Each with the place among the bytes that it stands in front of.
    held: Vec<(usize, Buffer)>,
}

/// Values of fewer bytes are copied: a part of its own costs more.
const HELD_BYTES_MIN: usize = 4 << 10;

impl Frame {
    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.held.iter().map(|(_, values)| values.len()).sum::<usize>()
    }

    /// Its parts without the first bytes.
    pub(crate) fn parts_from(&self, mut from: usize) -> Vec<IoSlice<'_>> {
        let mut parts = Vec::with_capacity(2 * self.held.len() + 1);
        let mut begin = 0;
        let ends = self.held.iter().map(|(end, values)| (*end, values.as_slice()));
        for (end, values) in ends.chain([(self.bytes.len(), &[] as &[u8])]) {
            for part in [&self.bytes[begin..end], values] {
                let passed = from.min(part.len());
                from -= passed;
                if passed < part.len() {
                    parts.push(IoSlice::new(&part[passed..]));
                }
            }
            begin = end;
        }
        parts
    }

    fn hold(&mut self, values: &Buffer) {
        match values.len() < HELD_BYTES_MIN {
            true => self.bytes.extend_from_slice(values.as_slice()),
            false => self.held.push((self.bytes.len(), values.clone())),
        }
    }
}

fn frame(kind: u8, number: u64, fill: impl FnOnce(&mut Frame) -> Result<()>) -> Result<Frame> {
    let mut frame = Frame { bytes: vec![0; HEAD_BYTES], held: vec![] };
    fill(&mut frame)?;
    let too_large = |_| Error::resource("a batch has too many bytes for a function");
    let length = u32::try_from(frame.len() - HEAD_BYTES).map_err(too_large)?;
    let head = &mut frame.bytes[..HEAD_BYTES];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4] = kind;
    head[8..].copy_from_slice(&number.to_le_bytes());
    Ok(frame)
}

/// Makes a function known.
pub(crate) fn load(code: &Code, number: u64) -> Result<Frame> {
    let CodeSpec { name, parameters, returns, form, source, export, columns, limits, steps } = &code.spec;
    // A module sees JSON as the text that it is.
    let told = |kind: Kind| match (kind, form.runtime()) {
        (Kind::Json, Runtime::Wasm) => Kind::Text as u8,
        (kind, _) => kind as u8,
    };
    frame(LOAD, number, |Frame { bytes, .. }| {
        bytes.extend(code.number().to_le_bytes());
        bytes.extend([*form as u8, told(*returns)]);
        bytes.extend(short_length(parameters.len())?.to_le_bytes());
        for (name, kind) in parameters {
            bytes.push(told(*kind));
            add_name(bytes, name)?;
        }
        add_name(bytes, if form.runtime() == Runtime::Wasm { export } else { name })?;
        bytes.extend(length(source.len())?.to_le_bytes());
        bytes.extend(source.as_bytes());
        bytes.extend(short_length(columns.len())?.to_le_bytes());
        columns.iter().try_for_each(|name| add_name(bytes, name))?;
        for own in [limits.memory_bytes, limits.fuel] {
            bytes.extend(own.unwrap_or(0).to_le_bytes());
        }
        if form.has_steps() {
            let first = steps.first.as_deref().unwrap_or_default();
            bytes.extend([u8::from(steps.is_strict), u8::from(steps.first.is_some())]);
            bytes.extend(length(first.len())?.to_le_bytes());
            bytes.extend(first.as_bytes());
        }
        Ok(())
    })
}

/// Makes a function unknown.
pub(crate) fn forget(code: u64) -> Result<Frame> {
    frame(FORGET, 0, |Frame { bytes, .. }| {
        bytes.extend(code.to_le_bytes());
        Ok(())
    })
}

/// Calls a function for these rows. The columns are of the kinds of its parameters, or alike; of [`Form::Groups`] there
/// is one, of texts; of the steps of an aggregate the first has the numbers of the groups, in the place of the state.
pub(crate) fn call(code: &Code, number: u64, columns: &[ArrayRef], rows: usize) -> Result<Frame> {
    frame(CALL, number, |frame| {
        frame.bytes.extend(code.number().to_le_bytes());
        frame.bytes.extend(length(rows)?.to_le_bytes());
        frame.bytes.extend(short_length(columns.len())?.to_le_bytes());
        match code.spec.form {
            Form::Arrow => add_stream(&mut frame.bytes, columns, rows),
            Form::Groups => columns.iter().try_for_each(|column| add_column(frame, column, Kind::Text)),
            Form::Steps | Form::WasmSteps | Form::WasmArrowSteps => {
                let kinds = code.spec.parameters.iter().skip(1).map(|(_, kind)| *kind);
                let mut columns = columns.iter().zip([Kind::Integer].into_iter().chain(kinds));
                columns.try_for_each(|(column, kind)| add_column(frame, column, kind))
            }
            Form::Rows | Form::RowSets | Form::Wasm | Form::WasmArrow => {
                let mut columns = columns.iter().zip(&code.spec.parameters);
                columns.try_for_each(|(column, (_, kind))| add_column(frame, column, *kind))
            }
        }
    })
}

fn length(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| Error::resource("a batch is too large for a function"))
}

fn short_length(count: usize) -> Result<u16> {
    u16::try_from(count).map_err(|_| Error::resource("a function has too many parameters, or too long a name"))
}

fn add_name(bytes: &mut Vec<u8>, name: &str) -> Result<()> {
    bytes.extend(short_length(name.len())?.to_le_bytes());
    bytes.extend(name.as_bytes());
    Ok(())
}

fn no_array(error: arrow::error::ArrowError) -> Error {
    Error::bug(format!("a column cannot be sent to a function: {error}"))
}

fn add_column(frame: &mut Frame, column: &ArrayRef, kind: Kind) -> Result<()> {
    let column = match *column.data_type() == kind.arrow() {
        true => column.clone(),
        false => cast(column, &kind.arrow()).map_err(no_array)?,
    };
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    let bytes = &mut frame.bytes;
    bytes.push(u8::from(nulls.is_some()));
    if let Some(nulls) = nulls {
        bytes.extend(nulls.iter().map(u8::from));
    }
    match kind {
        Kind::Boolean => bytes.extend(column.as_boolean().values().iter().map(u8::from)),
        Kind::SmallInt => add_numbers::<Int16Type, 2>(frame, &column, i16::to_le_bytes),
        Kind::Integer => add_numbers::<Int32Type, 4>(frame, &column, i32::to_le_bytes),
        Kind::BigInt => add_numbers::<Int64Type, 8>(frame, &column, i64::to_le_bytes),
        Kind::Real => add_numbers::<Float32Type, 4>(frame, &column, f32::to_le_bytes),
        Kind::Double => add_numbers::<Float64Type, 8>(frame, &column, f64::to_le_bytes),
        Kind::Numeric
        | Kind::Text
        | Kind::Json
        | Kind::Floats
        | Kind::Numerics
        | Kind::Blobs
        | Kind::Row
        | Kind::Document => {
            let texts = column.as_string_view();
            add_blobs(bytes, (0..texts.len()).map(|row| (texts.is_valid(row), texts.value(row).as_bytes())))?;
        }
        Kind::Bytes => {
            let blobs = column.as_binary_view();
            add_blobs(bytes, (0..blobs.len()).map(|row| (blobs.is_valid(row), blobs.value(row))))?;
        }
        Kind::BooleanList
        | Kind::SmallIntList
        | Kind::IntegerList
        | Kind::BigIntList
        | Kind::RealList
        | Kind::DoubleList
        | Kind::NumericList
        | Kind::TextList
        | Kind::BytesList => add_lists(frame, column.as_list::<i32>(), kind.element().unwrap_or(Kind::Text))?,
    }
    Ok(())
}

/// Lengths, then the elements as a column; of what is not valid none.
fn add_lists(frame: &mut Frame, lists: &ListArray, element: Kind) -> Result<()> {
    let ranges = lists.offsets().windows(2).enumerate().map(|(row, ends)| match lists.is_valid(row) {
        true => ends[0]..ends[1],
        false => 0..0,
    });
    let ranges = ranges.collect::<Vec<_>>();
    for range in &ranges {
        frame.bytes.extend(length(range.len())?.to_le_bytes());
    }
    let (first, last) = (lists.offsets()[0] as usize, lists.offsets()[lists.len()] as usize);
    let elements = match ranges.iter().map(ExactSizeIterator::len).sum::<usize>() == last - first {
        true => lists.values().slice(first, last - first),
        // What stands for NULL has elements as well.
        false => {
            take(lists.values(), &Int32Array::from_iter_values(ranges.into_iter().flatten()), None).map_err(no_array)?
        }
    };
    add_column(frame, &elements, element)
}

fn add_numbers<T: ArrowPrimitiveType, const N: usize>(
    frame: &mut Frame,
    column: &ArrayRef,
    to_bytes: fn(T::Native) -> [u8; N],
) {
    let values = column.as_primitive::<T>().values();
    // As they lie in memory, which is how they are sent.
    match cfg!(target_endian = "little") {
        true => frame.hold(values.inner()),
        false => values.iter().for_each(|value| frame.bytes.extend(to_bytes(*value))),
    }
}

/// Lengths, then bytes; of what is not valid none.
fn add_blobs<'b>(bytes: &mut Vec<u8>, blobs: impl Iterator<Item = (bool, &'b [u8])> + Clone) -> Result<()> {
    let blobs = blobs.map(|(is_valid, blob)| if is_valid { blob } else { &[] });
    for blob in blobs.clone() {
        bytes.extend(length(blob.len())?.to_le_bytes());
    }
    blobs.for_each(|blob| bytes.extend(blob));
    Ok(())
}

/// A type that all versions of pyarrow can compute with.
fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(element) => {
            DataType::List(Arc::new(element.as_ref().clone().with_data_type(plain(element.data_type()))))
        }
        other => other.clone(),
    }
}

fn add_stream(bytes: &mut Vec<u8>, columns: &[ArrayRef], rows: usize) -> Result<()> {
    let columns = columns.iter().map(|column| cast(column, &plain(column.data_type())));
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(no_array)?;
    let fields = columns
        .iter()
        .enumerate()
        .map(|(place, column)| Field::new(format!("a{place}"), column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(no_array)?;
    let mut writer = StreamWriter::try_new(bytes, &schema).map_err(no_array)?;
    writer.write(&batch).and_then(|()| writer.finish()).map_err(no_array)
}

/// What a frame of a process says.
pub fn reply(kind: u8, payload: Vec<u8>) -> std::result::Result<Reply, Malformed> {
    reply_of(kind, Buffer::from_vec(payload))
}

/// The same of bytes that values may stay in.
pub(crate) fn reply_of(kind: u8, payload: Buffer) -> std::result::Result<Reply, Malformed> {
    let mut rest = Rest::of(&payload);
    match kind {
        HELLO => Ok(Reply::Hello(String::from_utf8_lossy(&payload).into_owned())),
        LOADED => Ok(Reply::Loaded),
        VALUES => Ok(Reply::Values(payload)),
        RAISED => {
            let cause = match rest.byte()? {
                0 => Cause::Exception,
                1 => Cause::Syntax,
                2 => Cause::Missing,
                3 => Cause::Memory,
                4 => Cause::Wrong,
                5 => Cause::Fuel,
                6 => Cause::Definition,
                other => return Malformed::because(format!("a cause {other}")),
            };
            let (message, place) = (rest.text()?, rest.text()?);
            let (code, detail, hint) = match rest.bytes.is_empty() {
                true => Default::default(),
                false => (rest.text()?, rest.text()?, rest.text()?),
            };
            rest.end()?;
            Ok(Reply::Raised(Raised { cause, message, place, code, detail, hint }))
        }
        other => Malformed::because(format!("a frame of the kind {other}")),
    }
}

/// The values of an answer for so many rows.
pub fn values(payload: &[u8], returns: Kind, form: Form, rows: usize) -> std::result::Result<Answer, Malformed> {
    values_in(Rest::of(payload), returns, form, rows)
}

/// The same of bytes in which numbers stay, if they lie where such numbers may.
pub(crate) fn values_of(
    payload: &Buffer,
    returns: Kind,
    form: Form,
    rows: usize,
) -> std::result::Result<Answer, Malformed> {
    values_in(Rest { held: Some(payload), ..Rest::of(payload) }, returns, form, rows)
}

fn values_in(mut rest: Rest<'_>, returns: Kind, form: Form, rows: usize) -> std::result::Result<Answer, Malformed> {
    let values_form = rest.byte()?;
    if (form == Form::Arrow) != (values_form == ARROW) {
        return Malformed::because(format!("values of the form {values_form}"));
    }
    if form == Form::Arrow {
        return stream(rest.bytes, rows).map(Answer::Values);
    }
    let answer = column(&mut rest, values_form, returns, rows)?;
    rest.end()?;
    Ok(answer)
}

/// The values of a form that are so many rows.
fn column(rest: &mut Rest<'_>, values_form: u8, returns: Kind, rows: usize) -> std::result::Result<Answer, Malformed> {
    let nulls = match rest.byte()? {
        0 => None,
        1 => Some(NullBuffer::from_iter(rest.take(rows)?.iter().map(|byte| *byte != 0))),
        other => return Malformed::because(format!("NULLs of the form {other}")),
    };
    if let (NATIVE, Some(element)) = (values_form, returns.element()) {
        return lists(rest, nulls, rows, element);
    }
    Ok(match (values_form, returns) {
        (TEXTS, _) => Answer::Texts(texts(rest, nulls, rows)?),
        (NATIVE, Kind::Boolean) => {
            let values = rest.take(rows)?.iter().map(|byte| *byte != 0).collect();
            Answer::Values(Arc::new(BooleanArray::new(values, nulls)))
        }
        (NATIVE, Kind::SmallInt | Kind::Integer | Kind::BigInt) => {
            integers(Int64Array::new(eights(rest, rows, i64::from_le_bytes)?, nulls), returns)?
        }
        (NATIVE, Kind::Real | Kind::Double) => {
            floats(Float64Array::new(eights(rest, rows, f64::from_le_bytes)?, nulls), returns)
        }
        (NATIVE, Kind::Bytes) => {
            let mut builder = BinaryViewBuilder::with_capacity(rows);
            blobs(rest, nulls, rows, |blob| {
                builder.append_option(blob);
                Ok(())
            })?;
            Answer::Values(Arc::new(builder.finish()))
        }
        (other, returns) => return Malformed::because(format!("{returns:?} in the form {other}")),
    })
}

/// Arrays: how many elements each has, and all elements with their form in front.
fn lists(
    rest: &mut Rest<'_>,
    nulls: Option<NullBuffer>,
    rows: usize,
    element: Kind,
) -> std::result::Result<Answer, Malformed> {
    let (lengths, _) = rest.take(rows.saturating_mul(4))?.as_chunks::<4>();
    let lengths = lengths.iter().map(|length| u32::from_le_bytes(*length) as usize).collect::<Vec<_>>();
    let count = lengths.iter().sum::<usize>();
    let elements_form = rest.byte()?;
    // Each element takes a byte at least, and there are no more than a list counts.
    if count > rest.bytes.len() || i32::try_from(count).is_err() {
        return Malformed::because(format!("{} bytes where {count} elements were to come", rest.bytes.len()));
    }
    let elements = match column(rest, elements_form, element, count)? {
        Answer::Texts(elements) if matches!(element, Kind::Numeric | Kind::Text) => elements,
        Answer::Values(elements) => elements,
        Answer::Texts(_) => return Malformed::because(format!("elements of {element:?} as texts")),
        outside @ Answer::OutOfRange(..) => return Ok(outside),
    };
    let item = Arc::new(Field::new("item", elements.data_type().clone(), true));
    let list = ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), elements, nulls);
    list.map(|list| Answer::Values(Arc::new(list))).map_err(|error| Malformed(format!("no arrays: {error}")))
}

/// Numbers of eight bytes each: where they lie, if they may stay. Not by a pointer to what makes one: the loop is a
/// copy then.
fn eights<T: ArrowNativeType>(
    rest: &mut Rest<'_>,
    rows: usize,
    of_bytes: impl Fn([u8; 8]) -> T,
) -> std::result::Result<ScalarBuffer<T>, Malformed> {
    let bytes = rest.take(rows.saturating_mul(8))?;
    if let Some(held) = rest.held.filter(|_| cfg!(target_endian = "little"))
        && bytes.len() >= HELD_BYTES_MIN
        && bytes.as_ptr().cast::<T>().is_aligned()
    {
        let from = bytes.as_ptr() as usize - held.as_ptr() as usize;
        return Ok(held.slice_with_length(from, bytes.len()).into());
    }
    let (chunks, _) = bytes.as_chunks::<8>();
    Ok(chunks.iter().map(|chunk| of_bytes(*chunk)).collect::<Vec<_>>().into())
}

fn integers(values: Int64Array, returns: Kind) -> std::result::Result<Answer, Malformed> {
    let within = match returns {
        Kind::SmallInt => i64::from(i16::MIN)..=i64::from(i16::MAX),
        Kind::Integer => i64::from(i32::MIN)..=i64::from(i32::MAX),
        _ => return Ok(Answer::Values(Arc::new(values))),
    };
    if let Some(outside) = values.iter().flatten().find(|value| !within.contains(value)) {
        return Ok(Answer::OutOfRange(outside.to_string(), returns));
    }
    // What stands for NULL may be anything.
    Ok(Answer::Values(match returns {
        Kind::SmallInt => Arc::new(Int16Array::from_iter(values.iter().map(|value| value.map(|value| value as i16)))),
        _ => Arc::new(Int32Array::from_iter(values.iter().map(|value| value.map(|value| value as i32)))),
    }))
}

fn floats(values: Float64Array, returns: Kind) -> Answer {
    if returns == Kind::Double {
        return Answer::Values(Arc::new(values));
    }
    let is_lost = |value: &f64| {
        let narrow = *value as f32;
        narrow.is_infinite() && value.is_finite() || narrow == 0.0 && *value != 0.0
    };
    match values.iter().flatten().find(is_lost) {
        Some(outside) => Answer::OutOfRange(outside.to_string(), returns),
        None => Answer::Values(Arc::new(Float32Array::from_iter(
            values.iter().map(|value| value.map(|value| value as f32)),
        ))),
    }
}

fn texts(rest: &mut Rest<'_>, nulls: Option<NullBuffer>, rows: usize) -> std::result::Result<ArrayRef, Malformed> {
    let mut builder = StringViewBuilder::with_capacity(rows);
    blobs(rest, nulls, rows, |blob| match blob.map(std::str::from_utf8) {
        None => {
            builder.append_null();
            Ok(())
        }
        Some(Ok(text)) => {
            builder.append_value(text);
            Ok(())
        }
        Some(Err(_)) => Malformed::because("a text that is no UTF-8"),
    })?;
    Ok(Arc::new(builder.finish()))
}

fn blobs<'b>(
    rest: &mut Rest<'b>,
    nulls: Option<NullBuffer>,
    rows: usize,
    mut add: impl FnMut(Option<&'b [u8]>) -> std::result::Result<(), Malformed>,
) -> std::result::Result<(), Malformed> {
    let (lengths, _) = rest.take(rows.saturating_mul(4))?.as_chunks::<4>();
    for (row, length) in lengths.iter().enumerate() {
        let blob = rest.take(u32::from_le_bytes(*length) as usize)?;
        add(Some(blob).filter(|_| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))))?;
    }
    Ok(())
}

/// The column of a stream of Arrow's. The reader is a library's that trusts what it reads more than we do.
fn stream(bytes: &[u8], rows: usize) -> std::result::Result<ArrayRef, Malformed> {
    check_lengths(bytes)?;
    let read = || {
        let mut reader = StreamReader::try_new(Cursor::new(bytes), None).map_err(|error| error.to_string())?;
        let batch = reader.next().ok_or_else(|| "no batch".to_owned())?.map_err(|error| error.to_string())?;
        match batch.columns() {
            [column] if column.len() == rows => Ok(column.clone()),
            columns => Err(format!("{} columns of {} rows", columns.len(), batch.num_rows())),
        }
    };
    let read = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("the reader panicked".to_owned()));
    read.map_err(|reason| Malformed(format!("no Arrow stream: {reason}")))
}

/// Fails if a message of the stream says that it is longer than what came: the reader would allocate that.
fn check_lengths(bytes: &[u8]) -> std::result::Result<(), Malformed> {
    let mut rest = Rest::of(bytes);
    while !rest.bytes.is_empty() {
        let length = match rest.number()? {
            0xffff_ffff => rest.number()?,
            length => length,
        };
        if length == 0 {
            break;
        }
        let message = rest.take(length)?;
        let parsed = catch_unwind(|| root_as_message(message).map(|message| message.bodyLength()));
        let Ok(Ok(body)) = parsed else { return Malformed::because("a message that is none of Arrow's") };
        let Ok(body) = usize::try_from(body) else { return Malformed::because("a message of less than no bytes") };
        rest.take(body)?;
    }
    Ok(())
}

/// What is left to read.
struct Rest<'b> {
    bytes: &'b [u8],
    /// What the bytes are a part of, if values may stay in it.
    held: Option<&'b Buffer>,
}

impl<'b> Rest<'b> {
    fn of(bytes: &'b [u8]) -> Self {
        Self { bytes, held: None }
    }

    fn take(&mut self, count: usize) -> std::result::Result<&'b [u8], Malformed> {
        let Some((taken, rest)) = self.bytes.split_at_checked(count) else {
            return Malformed::because(format!("{} bytes where {count} were to come", self.bytes.len()));
        };
        self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> std::result::Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> std::result::Result<usize, Malformed> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    }

    /// A text with its length in front.
    fn text(&mut self) -> std::result::Result<String, Malformed> {
        let length = self.number()?;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn end(&self) -> std::result::Result<(), Malformed> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Malformed::because(format!("{left} bytes too many")),
        }
    }
}

#[cfg(test)]
mod tests {
    use diligence_base::seams::Random;

    use super::*;

    const KINDS: [Kind; 12] = [
        Kind::Boolean,
        Kind::SmallInt,
        Kind::Integer,
        Kind::BigInt,
        Kind::Real,
        Kind::Double,
        Kind::Numeric,
        Kind::Text,
        Kind::Bytes,
        Kind::BooleanList,
        Kind::TextList,
        Kind::SmallIntList,
    ];

    #[test]
    fn values_are_read_as_they_were_written() {
        let mut payload = vec![NATIVE, 1, 1, 0];
        payload.extend([7_i64, -1].iter().flat_map(|value| value.to_le_bytes()));
        let Ok(Answer::Values(values)) = super::values(&payload, Kind::SmallInt, Form::Rows, 2) else { panic!() };
        assert_eq!(values.as_primitive::<Int16Type>(), &Int16Array::from(vec![Some(7), None]));

        let mut payload = vec![TEXTS, 0];
        payload.extend([2_u32, 0].iter().flat_map(|length| length.to_le_bytes()));
        payload.extend("ä".as_bytes());
        let Ok(Answer::Texts(values)) = super::values(&payload, Kind::BigInt, Form::Rows, 2) else { panic!() };
        assert_eq!(values.as_string_view().iter().collect::<Vec<_>>(), [Some("ä"), Some("")]);

        payload.push(0);
        assert_eq!(
            super::values(&payload, Kind::BigInt, Form::Rows, 2).unwrap_err(),
            Malformed("1 bytes too many".to_owned())
        );
    }

    #[test]
    fn arrays_go_and_come_with_their_elements() {
        let elements = Arc::new(Int16Array::from(vec![Some(1), Some(2), None, Some(3)]));
        let item = Arc::new(Field::new("item", DataType::Int16, true));
        let valid = Some(NullBuffer::from(vec![true, false, true]));
        // What stands for NULL has an element.
        let lists: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([1, 1, 2]), elements, valid));
        let sent = |column: &ArrayRef| {
            let mut frame = Frame::default();
            add_column(&mut frame, column, Kind::SmallIntList).unwrap();
            frame.bytes
        };
        let lengths = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(sent(&lists), [&[1, 1, 0, 1][..], &lengths, &[1, 1, 0, 1, 1, 0, 0, 0, 3, 0]].concat());
        assert_eq!(sent(&lists.slice(2, 1)), [0, 2, 0, 0, 0, 1, 0, 1, 0, 0, 3, 0]);

        let mut payload = [&[NATIVE, 1, 1, 0, 1][..], &lengths, &[NATIVE, 1, 1, 0, 1]].concat();
        payload.extend([7_i64, 0, -1].iter().flat_map(|value| value.to_le_bytes()));
        let read = |payload: &[u8], returns| super::values(payload, returns, Form::Wasm, 3);
        let Ok(Answer::Values(values)) = read(&payload, Kind::SmallIntList) else { panic!() };
        let expected = [Some(vec![Some(7)]), None, Some(vec![None, Some(-1)])];
        assert_eq!(*values.as_list::<i32>(), ListArray::from_iter_primitive::<Int16Type, _, _>(expected));
        payload.truncate(payload.len() - 1);
        assert!(read(&payload, Kind::SmallIntList).is_err());
        // No room is made for elements that do not come.
        let forged = [&[NATIVE, 0][..], &[255; 12], &[NATIVE, 0]].concat();
        assert!(read(&forged, Kind::TextList).is_err() && read(&forged, Kind::BooleanList).is_err());
    }

    #[test]
    fn values_stay_where_they_lie_and_are_sent_from_any_byte_on() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let mut frame = Frame { bytes: vec![1, 2], held: vec![] };
        add_column(&mut frame, &column, Kind::BigInt).unwrap();
        add_column(&mut frame, &column.slice(990, 10), Kind::BigInt).unwrap();
        add_column(&mut frame, &column.slice(1, 999), Kind::BigInt).unwrap();
        let whole = |from| frame.parts_from(from).iter().flat_map(|part| part.to_vec()).collect::<Vec<_>>();
        let bytes = |range: std::ops::Range<i64>| range.flat_map(i64::to_le_bytes).collect::<Vec<_>>();
        let expected = [&[1, 2, 0][..], &bytes(0..1000), &[0], &bytes(990..1000), &[0], &bytes(1..1000)].concat();
        assert_eq!((frame.held.len(), frame.len()), (2, expected.len()));
        for from in [0, 1, 3, 7, 8002, 8003, 8004, 8083, 8085, expected.len() - 1, expected.len()] {
            assert_eq!(whole(from), expected[from..], "{from}");
        }

        for padding in 0..8 {
            let payload = [&vec![0; padding][..], &[NATIVE, 0], &bytes(0..1000)].concat();
            let payload = Buffer::from_vec(payload);
            let answer = values_of(&payload.slice(padding), Kind::BigInt, Form::Rows, 1000);
            let Ok(Answer::Values(values)) = answer else { panic!("{answer:?}") };
            assert_eq!(&values, &column);
            let lies_there = payload.as_slice().as_ptr_range().contains(&values.to_data().buffers()[0].as_ptr());
            let may_lie = (payload.as_ptr() as usize + padding + 2).is_multiple_of(8);
            assert_eq!(lies_there, may_lie, "{padding}");
        }
    }

    #[test]
    fn what_a_type_does_not_hold_is_said() {
        let mut payload = vec![NATIVE, 0];
        payload.extend(40_000_i64.to_le_bytes());
        assert!(matches!(
            super::values(&payload, Kind::SmallInt, Form::Rows, 1),
            Ok(Answer::OutOfRange(value, Kind::SmallInt)) if value == "40000"
        ));
        let mut payload = vec![NATIVE, 0];
        payload.extend(1e300_f64.to_le_bytes());
        assert!(matches!(super::values(&payload, Kind::Real, Form::Rows, 1), Ok(Answer::OutOfRange(..))));
        assert!(matches!(super::values(&payload, Kind::Double, Form::Rows, 1), Ok(Answer::Values(_))));
    }

    /// Ten thousand answers of a process that says anything: changed, cut and made up. Each is refused or fits.
    #[test]
    fn whatever_a_process_answers_is_refused_or_fits() {
        let (mut refused, mut fitting) = (0, 0);
        for seed in 0..10_000_u64 {
            let mut random = Random::new(seed);
            let (kind, rows) = (random.pick(&KINDS), random.below(6));
            let mut payload = vec![random.pick(&[NATIVE, NATIVE, TEXTS, ARROW, 9]), random.pick(&[0, 0, 1, 7])];
            for _ in 0..random.below(8 * rows + 2) {
                let byte = if random.chance(60) { random.below(3) } else { random.below(256) };
                payload.push(byte as u8);
            }
            let form = if random.chance(20) { Form::Arrow } else { Form::Rows };
            match values(&payload, kind, form, rows) {
                Ok(Answer::Values(array)) => {
                    assert_eq!((array.len(), array.data_type()), (rows, &kind.arrow()), "seed {seed}");
                    array.to_data().validate_full().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    fitting += 1;
                }
                Ok(Answer::Texts(array)) => {
                    assert_eq!(array.len(), rows, "seed {seed}");
                    fitting += 1;
                }
                Ok(Answer::OutOfRange(..)) => fitting += 1,
                Err(_) => refused += 1,
            }
            let _ = reply(random.below(6) as u8, payload);
        }
        assert!(refused > 1000 && fitting > 100, "{refused} refused, {fitting} fitting");
    }

    /// Arrow's streams, with some bytes changed or cut off.
    #[test]
    fn a_stream_that_was_changed_is_refused_or_fits() {
        let columns: [ArrayRef; 2] = [
            Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
            Arc::new(arrow::array::StringArray::from(vec![Some("one"), None, Some("three")])),
        ];
        let (mut refused, mut fitting) = (0, 0);
        for seed in 0..4_000_u64 {
            let mut random = Random::new(seed);
            let mut payload = vec![ARROW];
            add_stream(&mut payload, &[random.pick(&columns)], 3).unwrap();
            for _ in 0..random.below(4) {
                let at = 1 + random.below(payload.len() - 1);
                payload[at] = random.below(256) as u8;
            }
            if random.chance(20) {
                payload.truncate(1 + random.below(payload.len()));
            }
            match values(&payload, Kind::BigInt, Form::Arrow, 3) {
                Ok(Answer::Values(array)) => {
                    assert_eq!(array.len(), 3, "seed {seed}");
                    array.to_data().validate_full().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    fitting += 1;
                }
                Ok(other) => panic!("seed {seed}: {other:?}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 500 && fitting > 500, "{refused} refused, {fitting} fitting");
    }
}
