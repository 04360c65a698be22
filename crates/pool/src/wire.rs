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

mod replies;
#[cfg(test)]
mod tests;

use std::io::IoSlice;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Schema,
};
use arrow::ipc::writer::StreamWriter;
use diligence_base::{Error, Result};

use crate::code::{Code, CodeSpec, Form, Kind, Runtime};
pub use replies::{reply, values};
pub(crate) use replies::{reply_of, values_of};

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
