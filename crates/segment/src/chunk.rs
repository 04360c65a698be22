//! A chunk: the values of one column of one cluster as bytes, and its reader.
//!
//! ```text
//!   codec (u8) | validity (u8) | 0 (u16) | rows (u32) | bitmap, if validity is 2, filled up to 8 bytes | body
//! ```
//!
//! Validity is 0 where no row is NULL, 1 where all are (there is no body then), 2 where a bitmap says which are not.
//! The body has a value for every row; for one that is NULL whatever packs best.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, RecordBatch, make_array, new_empty_array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow::compute::{cast, concat, filter};
use arrow::datatypes::{DECIMAL64_MAX_PRECISION, DataType, Decimal128Type, Field, Float64Type, Schema};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use diligence_base::panics::caught_quietly;

use crate::bits::Word;
use crate::damage::{Damaged, Reader, Result, damaged};
use crate::decimals::{self, Decimals};
use crate::integers::{self, Integers};
use crate::texts::{self, Texts};

const INTEGERS: u8 = 1;
const BITS: u8 = 2;
const FIXED: u8 = 3;
const DECIMALS: u8 = 4;
const TEXTS: u8 = 5;
const ARROW: u8 = 6;

const NO_NULLS: u8 = 0;
const ALL_NULL: u8 = 1;
const BITMAP: u8 = 2;

/// Rows of a block of values of nested types.
const BLOCK_ROWS: usize = 8192;

/// What becomes of values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Whole numbers of so many bytes.
    Integers(usize),
    /// Whole numbers of 16 bytes, most of which fit into 8.
    Wide,
    Bits,
    Doubles,
    /// So many bytes, as they are.
    Fixed(usize),
    Texts {
        is_text: bool,
    },
    /// As Arrow writes them.
    Arrow,
}

fn kind_of(data_type: &DataType) -> Kind {
    use DataType::*;
    match data_type {
        Boolean => Kind::Bits,
        Float64 => Kind::Doubles,
        Float16 => Kind::Fixed(2),
        Float32 | Interval(arrow::datatypes::IntervalUnit::YearMonth) => Kind::Fixed(4),
        Interval(arrow::datatypes::IntervalUnit::DayTime) => Kind::Fixed(8),
        Interval(arrow::datatypes::IntervalUnit::MonthDayNano) => Kind::Fixed(16),
        Decimal128(..) => Kind::Wide,
        Decimal256(..) => Kind::Fixed(32),
        FixedSizeBinary(width) if *width > 0 => Kind::Fixed(*width as usize),
        Utf8 | LargeUtf8 | Utf8View => Kind::Texts { is_text: true },
        Binary | LargeBinary | BinaryView => Kind::Texts { is_text: false },
        other => match other.primitive_width() {
            Some(width @ (1 | 2 | 4 | 8)) => Kind::Integers(width),
            _ => Kind::Arrow,
        },
    }
}

/// The bytes of a column's rows, of which there are 2^17 at most. Fails if the type is one that Arrow cannot write.
pub fn encode(array: &ArrayRef) -> Result<Vec<u8>, ArrowError> {
    let rows = array.len();
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let validity = match &nulls {
        None => NO_NULLS,
        Some(nulls) if nulls.null_count() == rows => ALL_NULL,
        Some(_) => BITMAP,
    };
    let mut out = vec![0, validity, 0, 0];
    out.extend_from_slice(&(rows as u32).to_le_bytes());
    if rows == 0 || validity == ALL_NULL {
        return Ok(out);
    }
    if let Some(nulls) = &nulls {
        out.extend_from_slice(&bytes_of(nulls.inner()));
    }
    out[0] = encode_body(array, nulls.as_ref(), &mut out)?;
    Ok(out)
}

fn encode_body(array: &ArrayRef, nulls: Option<&NullBuffer>, out: &mut Vec<u8>) -> Result<u8, ArrowError> {
    let data = array.to_data();
    let fixed = |width: usize| &data.buffers()[0].as_slice()[data.offset() * width..][..data.len() * width];
    Ok(match kind_of(array.data_type()) {
        Kind::Integers(width) => {
            let numbers = fixed(width).chunks_exact(width).map(|bytes| match *bytes {
                [a] => i64::from(a as i8),
                [a, b] => i64::from(i16::from_le_bytes([a, b])),
                [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
                _ => i64::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default()),
            });
            integers::encode(&without_nulls(numbers.map(|number| number as u64), nulls, 0), out);
            INTEGERS
        }
        Kind::Wide => {
            let values = array.as_primitive::<Decimal128Type>().values();
            let values = without_nulls(values.iter().copied(), nulls, 0);
            let fits = values.iter().map(|value| i64::try_from(*value).ok()).collect::<Option<Vec<_>>>();
            match fits {
                Some(numbers) => {
                    let numbers = numbers.into_iter().map(|number| number as u64).collect::<Vec<_>>();
                    integers::encode(&numbers, out);
                    INTEGERS
                }
                None => {
                    out.extend_from_slice(fixed(16));
                    FIXED
                }
            }
        }
        Kind::Bits => {
            out.extend_from_slice(&bytes_of(array.as_boolean().values()));
            BITS
        }
        Kind::Doubles => {
            let values = array.as_primitive::<Float64Type>().values();
            let values = without_nulls(values.iter().copied(), nulls, 0.0);
            match decimals::encode(&values) {
                Some(bytes) => {
                    out.extend_from_slice(&bytes);
                    DECIMALS
                }
                None => {
                    out.extend_from_slice(fixed(8));
                    FIXED
                }
            }
        }
        Kind::Fixed(width) => {
            out.extend_from_slice(fixed(width));
            FIXED
        }
        Kind::Texts { is_text } => {
            let views = if is_text { DataType::Utf8View } else { DataType::BinaryView };
            let array = cast(array, &views)?;
            let is_null = |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
            let text = |row: usize| -> &[u8] {
                match is_text {
                    _ if is_null(row) => &[],
                    true => array.as_string_view().value(row).as_bytes(),
                    false => array.as_binary_view().value(row),
                }
            };
            texts::encode(&(0..array.len()).map(text).collect::<Vec<_>>(), out);
            TEXTS
        }
        Kind::Arrow => {
            encode_arrow(array, out)?;
            ARROW
        }
    })
}

/// The values; in the place of a NULL the one before it.
fn without_nulls<T: Copy>(values: impl Iterator<Item = T>, nulls: Option<&NullBuffer>, nothing: T) -> Vec<T> {
    let Some(nulls) = nulls else { return values.collect() };
    let mut values = values.collect::<Vec<_>>();
    let mut before = nulls.valid_indices().next().map_or(nothing, |first| values[first]);
    for (row, value) in values.iter_mut().enumerate() {
        if nulls.is_valid(row) { before = *value } else { *value = before }
    }
    values
}

/// The bits from the first on, in full words of eight bytes.
fn bytes_of(bits: &BooleanBuffer) -> Vec<u8> {
    let words = bits.bit_chunks().iter_padded().take(bits.len().div_ceil(64));
    words.flat_map(u64::to_le_bytes).collect()
}

fn encode_arrow(array: &ArrayRef, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let schema = Arc::new(Schema::new(vec![Field::new("", array.data_type().clone(), true)]));
    let mut blocks = Vec::new();
    for start in (0..array.len()).step_by(BLOCK_ROWS) {
        let rows = array.slice(start, BLOCK_ROWS.min(array.len() - start));
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        writer.write(&RecordBatch::try_new(schema.clone(), vec![rows])?)?;
        blocks.push(writer.into_inner()?);
    }
    blocks.iter().for_each(|block| out.extend_from_slice(&(block.len() as u64).to_le_bytes()));
    blocks.iter().for_each(|block| out.extend_from_slice(block));
    Ok(())
}

/// The reader of a chunk. It reads any rows in any order.
#[derive(Debug)]
pub struct Chunk {
    rows: usize,
    pub(crate) data_type: DataType,
    /// Which rows are not NULL; all of them if `None`.
    pub(crate) validity: Option<BooleanBuffer>,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    /// All rows are NULL.
    Nothing,
    Integers(Integers),
    Bits(BooleanBuffer),
    Fixed {
        width: usize,
        bytes: Bytes,
    },
    Decimals(Decimals),
    Texts {
        is_text: bool,
        texts: Texts,
    },
    Arrow {
        blocks: Vec<Bytes>,
        last: Option<(usize, ArrayRef)>,
    },
}

fn bits_from(reader: &mut Reader, rows: usize) -> Result<BooleanBuffer> {
    let bytes = reader.take(rows.div_ceil(64) * 8)?;
    Ok(BooleanBuffer::new(Buffer::from(&bytes[..]), 0, rows))
}

impl Chunk {
    /// Opens what [`encode`] has made of so many values of a type. Fails if the bytes are something else: what they
    /// hold is looked at where it says where values lie.
    pub fn open(bytes: Bytes, data_type: &DataType, rows: usize) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let [codec, nulls, ..] = reader.array::<4>()?;
        if reader.u32()? as usize != rows {
            return damaged("it has not as many rows as its cluster");
        }
        let data_type = data_type.clone();
        if rows == 0 || nulls == ALL_NULL {
            reader.end()?;
            return Ok(Self { rows, data_type, validity: Some(BooleanBuffer::new_unset(rows)), body: Body::Nothing });
        }
        let validity = match nulls {
            NO_NULLS => None,
            BITMAP => Some(bits_from(&mut reader, rows)?),
            _ => return damaged("its NULLs are of a form that is not known"),
        };
        let body = match (codec, kind_of(&data_type)) {
            (INTEGERS, Kind::Integers(_) | Kind::Wide) => Body::Integers(Integers::open(rows, reader)?),
            (BITS, Kind::Bits) => Body::Bits(bits_from(&mut reader, rows)?),
            (FIXED, kind @ (Kind::Wide | Kind::Doubles | Kind::Fixed(_))) => {
                let width = match kind {
                    Kind::Fixed(width) => width,
                    Kind::Wide => 16,
                    _ => 8,
                };
                let bytes = reader.take(rows.saturating_mul(width))?;
                reader.end()?;
                Body::Fixed { width, bytes }
            }
            (DECIMALS, Kind::Doubles) => Body::Decimals(Decimals::open(rows, reader)?),
            (TEXTS, Kind::Texts { is_text }) => Body::Texts { is_text, texts: Texts::open(rows, reader)? },
            (ARROW, Kind::Arrow) => {
                let lengths = (0..rows.div_ceil(BLOCK_ROWS)).map(|_| reader.u64()).collect::<Result<Vec<_>>>()?;
                let block = |length: u64| reader.take(usize::try_from(length).unwrap_or(usize::MAX));
                Body::Arrow { blocks: lengths.into_iter().map(block).collect::<Result<_>>()?, last: None }
            }
            _ => return damaged("it is of a codec that is not known, or not of its type"),
        };
        Ok(Self { rows, data_type, validity, body })
    }

    /// What its form is called, for people.
    pub fn form(&self) -> &'static str {
        match &self.body {
            Body::Nothing => "nulls",
            Body::Integers(integers) => integers.form(),
            Body::Bits(_) => "bits",
            Body::Fixed { .. } => "fixed",
            Body::Decimals(_) => "decimals",
            Body::Texts { texts, .. } => texts.form(),
            Body::Arrow { .. } => "arrow",
        }
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that reading holds at most, beside those of the chunk and of what comes out.
    pub fn own_bytes(&self) -> usize {
        let body = match &self.body {
            Body::Integers(integers) => integers.own_bytes(),
            Body::Decimals(decimals) => decimals.own_bytes(),
            Body::Texts { texts, .. } => texts.own_bytes(),
            Body::Bits(bits) => bits.len() / 8,
            Body::Arrow { blocks, .. } => blocks.iter().map(Bytes::len).max().unwrap_or(0) * 2,
            Body::Nothing | Body::Fixed { .. } => 0,
        };
        body + self.validity.as_ref().map_or(0, |bits| bits.len() / 8)
    }

    /// The values of some rows, which are all there; of those that are selected, if `selected` says which: it has a bit
    /// for each row. In the chunk's type; if `is_narrow`, perhaps as `Decimal64` in the place of a `Decimal128` of few
    /// digits, and as codes of a dictionary of `Utf8` in the place of a `Utf8View`. Fails if what is stored is damaged.
    pub fn read(&mut self, rows: Range<usize>, selected: Option<&BooleanBuffer>, is_narrow: bool) -> Result<ArrayRef> {
        let fits = rows.end <= self.rows && selected.is_none_or(|selected| selected.len() == rows.len());
        if rows.start > rows.end || !fits {
            return damaged("it has not the rows that are wanted");
        }
        let selected = selected.filter(|selected| selected.count_set_bits() < rows.len());
        let count = selected.map_or(rows.len(), BooleanBuffer::count_set_bits);
        if count == 0 {
            return Ok(new_empty_array(&self.data_type));
        }
        let nulls = self.nulls(&rows, selected);
        match &mut self.body {
            Body::Nothing => Ok(new_null_array(&self.data_type, count)),
            Body::Integers(integers) => read_integers(integers, &self.data_type, rows, selected, nulls, is_narrow),
            Body::Bits(bits) => {
                let values = chosen_bits(bits, &rows, selected);
                Ok(Arc::new(BooleanArray::new(values, nulls)))
            }
            Body::Fixed { width, bytes } => {
                let bytes = &bytes[rows.start * *width..rows.end * *width];
                let mut values = MutableBuffer::with_capacity(count * *width);
                match selected {
                    None => values.extend_from_slice(bytes),
                    Some(selected) => {
                        let value = |row: usize| &bytes[row * *width..(row + 1) * *width];
                        selected.set_indices().for_each(|row| values.extend_from_slice(value(row)));
                    }
                }
                fixed(&self.data_type, count, values.into(), nulls)
            }
            Body::Decimals(decimals) => {
                let values = decimals.read(rows, selected);
                fixed(&self.data_type, count, Buffer::from_vec(values), nulls)
            }
            Body::Texts { is_text, texts } => {
                let wants_codes = is_narrow && self.data_type == DataType::Utf8View;
                let array = texts.read(*is_text, rows, selected, nulls, wants_codes)?;
                match array.data_type() == &self.data_type || wants_codes {
                    true => Ok(array),
                    false => cast(&array, &self.data_type).map_err(|error| Damaged(error.to_string())),
                }
            }
            Body::Arrow { blocks, last } => read_arrow(blocks, last, &self.data_type, rows, selected),
        }
    }

    fn nulls(&self, rows: &Range<usize>, selected: Option<&BooleanBuffer>) -> Option<NullBuffer> {
        let nulls = NullBuffer::new(chosen_bits(self.validity.as_ref()?, rows, selected));
        (nulls.null_count() > 0).then_some(nulls)
    }
}

fn chosen_bits(bits: &BooleanBuffer, rows: &Range<usize>, selected: Option<&BooleanBuffer>) -> BooleanBuffer {
    let bits = bits.slice(rows.start, rows.len());
    let Some(selected) = selected else { return bits };
    let chosen = filter(&BooleanArray::new(bits.clone(), None), &BooleanArray::new(selected.clone(), None));
    match chosen {
        Ok(chosen) => chosen.as_boolean().values().clone(),
        // Both are as long: it does not fail.
        Err(_) => BooleanBuffer::collect_bool(0, |_| false),
    }
}

fn fixed(data_type: &DataType, rows: usize, values: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values).nulls(nulls).build();
    data.map(make_array).map_err(|error| Damaged(error.to_string()))
}

/// Numbers in a type.
pub(crate) fn read_integers(
    integers: &Integers,
    data_type: &DataType,
    rows: Range<usize>,
    selected: Option<&BooleanBuffer>,
    nulls: Option<NullBuffer>,
    is_narrow: bool,
) -> Result<ArrayRef> {
    fn numbers<W: Word>(integers: &Integers, rows: Range<usize>, selected: Option<&BooleanBuffer>) -> Vec<W> {
        let mut numbers = Vec::new();
        integers.read(rows, selected, &mut numbers);
        numbers
    }
    let count = selected.map_or(rows.len(), BooleanBuffer::count_set_bits);
    let (data_type, values) = match (kind_of(data_type), data_type) {
        (Kind::Integers(1), _) => (data_type.clone(), Buffer::from_vec(numbers::<u8>(integers, rows, selected))),
        (Kind::Integers(2), _) => (data_type.clone(), Buffer::from_vec(numbers::<u16>(integers, rows, selected))),
        (Kind::Integers(4), _) => (data_type.clone(), Buffer::from_vec(numbers::<u32>(integers, rows, selected))),
        (Kind::Integers(_), _) => (data_type.clone(), Buffer::from_vec(numbers::<u64>(integers, rows, selected))),
        (_, DataType::Decimal128(digits, scale)) if is_narrow && *digits <= DECIMAL64_MAX_PRECISION => {
            let values = Buffer::from_vec(numbers::<u64>(integers, rows, selected));
            (DataType::Decimal64(*digits, *scale), values)
        }
        _ => {
            let numbers = numbers::<u64>(integers, rows, selected);
            let wide = numbers.into_iter().map(|number| i128::from(number as i64)).collect::<Vec<_>>();
            (data_type.clone(), Buffer::from_vec(wide))
        }
    };
    fixed(&data_type, count, values, nulls)
}

fn read_arrow(
    blocks: &[Bytes],
    last: &mut Option<(usize, ArrayRef)>,
    data_type: &DataType,
    rows: Range<usize>,
    selected: Option<&BooleanBuffer>,
) -> Result<ArrayRef> {
    let mut pieces = Vec::new();
    for block in rows.start / BLOCK_ROWS..rows.end.div_ceil(BLOCK_ROWS) {
        let whole = match last {
            Some((number, whole)) if *number == block => whole.clone(),
            _ => block_of(&blocks[block], data_type)?,
        };
        let first = block * BLOCK_ROWS;
        let (from, to) = (rows.start.max(first) - first, rows.end.min(first + BLOCK_ROWS) - first);
        if to > whole.len() {
            return damaged("a block has not its rows");
        }
        pieces.push(whole.slice(from, to - from));
        *last = Some((block, whole));
    }
    let pieces = pieces.iter().map(|piece| &**piece as &dyn Array).collect::<Vec<_>>();
    let array = if pieces.len() == 1 { Ok(make_array(pieces[0].to_data())) } else { concat(&pieces) };
    let chosen = array.and_then(|array| match selected {
        None => Ok(array),
        Some(selected) => filter(&array, &BooleanArray::new(selected.clone(), None)),
    });
    chosen.map_err(|error| Damaged(error.to_string()))
}

fn block_of(bytes: &Bytes, data_type: &DataType) -> Result<ArrayRef> {
    // A decoder of streams holds no more than it is given, whatever lengths stand there. A copy, so that what is read
    // does not keep the chunk.
    let read = || StreamDecoder::new().decode(&mut Buffer::from(&bytes[..]));
    // What the library has no check for must not end more than the query.
    let batch = caught_quietly(read).unwrap_or_else(|| Err(ArrowError::IpcError("it is damaged".to_owned())));
    let batch = batch.map_err(|error| Damaged(error.to_string()))?;
    match batch.as_ref().and_then(|batch| batch.columns().first()) {
        Some(array) if array.data_type() == data_type => Ok(array.clone()),
        _ => damaged("a block has not its type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_width_of_its_type() {
        for data_type in [DataType::Int16, DataType::Date32, DataType::Decimal256(50, 2), DataType::Float32] {
            let width = data_type.primitive_width();
            match kind_of(&data_type) {
                Kind::Integers(bytes) | Kind::Fixed(bytes) => assert_eq!(Some(bytes), width, "{data_type}"),
                other => panic!("{data_type} is {other:?}"),
            }
        }
    }
}
