//! What a process answers: read from its bytes, which are not believed.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryViewBuilder, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    ListArray, StringViewBuilder,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, Field};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::root_as_message;

use super::{
    ARROW, Answer, Cause, HELD_BYTES_MIN, HELLO, LOADED, Malformed, NATIVE, RAISED, Raised, Reply, TEXTS, VALUES,
};
use crate::code::{Form, Kind};

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
