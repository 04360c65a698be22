//! Columns of a batch turned into key words, column by column.
//!
//! Whatever physical form a column arrives in (narrow decimals, dictionaries, offsets or views), equal values give
//! equal words. A column with few values behind dictionary codes or picks has its values turned into words once.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, UInt32Array};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{ByteArrayType, DataType, Decimal64Type, Decimal128Type, Float16Type, Float32Type, Float64Type};
use arrow_row::Rows;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::key_layout::{KeyColumn, KeyKind, KeyLayout};
use super::key_table::KeyBytes;
use super::program::GroupingSet;
use crate::batch::floats::{FloatBits, canonical_floats};
use crate::batch::{Column, to_logical, views};
use crate::operators::hashing::hash_long;

/// The keys of a batch's rows.
#[derive(Default)]
pub(super) struct EncodedKeys {
    /// Words of a key: at least what was asked for, more if a NULL needs it.
    pub stride: usize,
    pub words: Vec<u64>,
    pub rows: usize,
    bytes: Vec<BytesColumn>,
}

/// The values of one byte column and which of them each row has.
struct BytesColumn {
    values: BytesValues,
    index: Option<UInt32Array>,
}

/// Strings or bytes in one of their forms.
pub(super) enum BytesValues {
    Views(ScalarBuffer<u128>, Arc<[Buffer]>),
    Offsets(OffsetBuffer<i32>, Buffer),
    LargeOffsets(OffsetBuffer<i64>, Buffer),
    Fixed(FixedSizeBinaryArray),
    Rows(Rows),
}

impl BytesValues {
    /// The bytes of a row.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        match self {
            Self::Views(all, buffers) => views::bytes(&all[index], buffers),
            Self::Offsets(offsets, data) => &data[offsets[index] as usize..offsets[index + 1] as usize],
            Self::LargeOffsets(offsets, data) => &data[offsets[index] as usize..offsets[index + 1] as usize],
            Self::Fixed(array) => array.value(index),
            Self::Rows(rows) => rows.row(index).data(),
        }
    }
}

impl KeyBytes for EncodedKeys {
    #[inline]
    fn bytes(&self, slot: usize, row: usize, _length: usize) -> &[u8] {
        let column = &self.bytes[slot];
        let index = column.index.as_ref().map_or(row, |index| index.value(row) as usize);
        column.values.get(index)
    }
}

impl EncodedKeys {
    /// Keys as they came out of temp space: their words, and the views of long strings of each byte column, or nothing
    /// where there are none.
    pub fn stored(words: &FixedSizeBinaryArray, long: &[ArrayRef]) -> Self {
        let rows = words.len();
        let stride = words.value_length() as usize / 8;
        let words = words.value_data()[..rows * stride * 8].as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        let bytes = long.iter().map(|column| {
            let (views, buffers) = match column.as_binary_view_opt() {
                Some(column) => (column.views().clone(), column.data_buffers().into()),
                None => (ScalarBuffer::from(Vec::new()), Arc::from(Vec::new())),
            };
            BytesColumn { values: BytesValues::Views(views, buffers), index: None }
        });
        Self { stride, words: words.collect(), rows, bytes: bytes.collect() }
    }

    /// Bytes held, without those of the columns.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    /// Bytes of the long strings of [`stored`](Self::stored) keys.
    pub fn stored_text(&self) -> usize {
        let of = |column: &BytesColumn| match &column.values {
            BytesValues::Views(all, _) => all.iter().map(|view| views::length(*view)).sum(),
            _ => 0,
        };
        self.bytes.iter().map(of).sum()
    }

    /// Encodes the rows of `columns`, one per column of the layout. Where `masked` is true the column is NULL in every
    /// row. `stride_min` is the stride of the table that the keys are for.
    pub fn encode(
        &mut self,
        layout: &KeyLayout,
        columns: &[Column],
        masked: &[bool],
        rows: usize,
        stride_min: usize,
    ) -> Result<()> {
        self.rows = rows;
        self.bytes.clear();
        if rows == 0 {
            self.stride = stride_min.max(layout.value_words);
            self.words.clear();
            return Ok(());
        }
        let mut sources = Vec::with_capacity(columns.len());
        let known = columns.len().max(masked.len());
        for (index, key) in layout.columns.iter().enumerate().take(known) {
            sources.push(match columns.get(index) {
                Some(column) if !masked.get(index).copied().unwrap_or(false) => KeySource::new(column, key)?,
                _ => KeySource::all_null(),
            });
        }
        let any_null = layout.columns.iter().zip(&sources).any(|(key, source)| {
            source.has_nulls(rows) && key.null_bit.is_none_or(|(word, _)| word >= layout.value_words)
        });
        let stride = if any_null { layout.words_max() } else { layout.value_words }.max(stride_min);
        self.stride = stride;
        self.words.clear();
        self.words.resize(stride * rows, 0);
        for (key, source) in layout.columns.iter().zip(sources) {
            self.write(key, source)?;
        }
        Ok(())
    }

    /// As [`encode`](Self::encode) for one grouping set: `columns` are the group columns, of which some are masked, and
    /// the layout's last column may be the grouping id.
    pub fn encode_set(
        &mut self,
        layout: &KeyLayout,
        columns: &[Column],
        set: &GroupingSet,
        rows: usize,
        stride_min: usize,
    ) -> Result<()> {
        self.encode(layout, columns, &set.masked, rows, stride_min)?;
        if let Some(key) = layout.columns.get(set.masked.len()) {
            self.set_constant(key, set.id);
        }
        Ok(())
    }

    /// Sets a column without NULLs and without bytes to the same bits in every row.
    pub fn set_constant(&mut self, key: &KeyColumn, bits: u64) {
        let stride = self.stride;
        self.words.iter_mut().skip(key.word).step_by(stride).for_each(|word| *word |= bits << key.shift);
    }

    fn write(&mut self, key: &KeyColumn, source: KeySource) -> Result<()> {
        let KeySource { values, index, nulls, all_null } = source;
        if all_null || (values.as_ref().is_some_and(|values| values.data_type() == &DataType::Null)) {
            self.write_nulls(key, |_| true)?;
            if key.bytes_slot.is_some() {
                let empty = BytesValues::Views(ScalarBuffer::from(Vec::new()), Arc::from(Vec::new()));
                self.bytes.push(BytesColumn { values: empty, index: None });
            }
            return Ok(());
        }
        let Some(values) = values else { return Ok(()) };
        let (stride, word, shift) = (self.stride, key.word, key.shift);
        match &key.kind {
            KeyKind::Null => {}
            KeyKind::Bits(bits) => {
                let mut place = KeyPlace { words: &mut self.words, stride, word, shift };
                write_bits(&values, *bits, nulls.as_ref(), &mut place)?;
            }
            KeyKind::NarrowDecimal => {
                let mut place = KeyPlace { words: &mut self.words, stride, word, shift };
                if let Some(narrow) = values.as_primitive_opt::<Decimal64Type>() {
                    place.write(narrow.values().iter().map(|&value| value as u64), nulls.as_ref());
                } else {
                    let wide = values.as_primitive::<Decimal128Type>();
                    let fits = |(row, &value): (usize, &i128)| {
                        i64::try_from(value).is_ok() || nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
                    };
                    if !wide.values().iter().enumerate().all(fits) {
                        return Err(Error::value(format!("a decimal has more digits than {} allows", key.logical)));
                    }
                    place.write(wide.values().iter().map(|&value| value as u64), nulls.as_ref());
                }
            }
            KeyKind::WideDecimal => {
                let mut put = |part: usize, half: &dyn Fn(usize) -> u64| {
                    let mut place = KeyPlace { words: &mut self.words, stride, word: word + part, shift: 0 };
                    place.write((0..values.len()).map(half), nulls.as_ref());
                };
                if let Some(narrow) = values.as_primitive_opt::<Decimal64Type>() {
                    put(0, &|row| narrow.value(row) as u64);
                    put(1, &|row| (narrow.value(row) >> 63) as u64);
                } else {
                    let wide = values.as_primitive::<Decimal128Type>();
                    put(0, &|row| wide.value(row) as u64);
                    put(1, &|row| (wide.value(row) >> 64) as u64);
                }
            }
            KeyKind::Bytes | KeyKind::Rows(_) => {
                let values = match &key.kind {
                    KeyKind::Rows(converter) => {
                        BytesValues::Rows(converter.convert_columns(&[canonical_floats(&values)?]).map_err(from_arrow)?)
                    }
                    _ => bytes_values(&values)?,
                };
                let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                let words = &mut self.words;
                match (&index, value_count(&values)) {
                    // Few values behind many rows: each value becomes words once.
                    (Some(index), count) if count <= index.len() => {
                        let encoded = (0..count).map(|value| view_words(values.get(value))).collect::<Vec<_>>();
                        for (row, pick) in index.values().iter().enumerate() {
                            if is_valid(row) {
                                let (low, high) = encoded[*pick as usize];
                                (words[row * stride + word], words[row * stride + word + 1]) = (low, high);
                            }
                        }
                    }
                    (index, _) => {
                        for row in 0..self.rows {
                            if is_valid(row) {
                                let value = index.as_ref().map_or(row, |index| index.value(row) as usize);
                                let (low, high) = words_of(&values, value);
                                (words[row * stride + word], words[row * stride + word + 1]) = (low, high);
                            }
                        }
                    }
                }
                self.bytes.push(BytesColumn { values, index });
            }
        }
        match &nulls {
            Some(nulls) if nulls.null_count() > 0 => self.write_nulls(key, |row| nulls.is_null(row)),
            _ => Ok(()),
        }
    }

    fn write_nulls(&mut self, key: &KeyColumn, is_null: impl Fn(usize) -> bool) -> Result<()> {
        let Some((word, bit)) = key.null_bit else {
            return match (0..self.rows).any(is_null) {
                true => Err(Error::bug(format!("a NULL in a group column of type {} that has none", key.logical))),
                false => Ok(()),
            };
        };
        let keys = self.words.iter_mut().skip(word).step_by(self.stride);
        keys.enumerate().for_each(|(row, key)| *key |= (is_null(row) as u64) << bit);
        Ok(())
    }
}

/// A column made ready for encoding.
struct KeySource {
    /// The values; with an index, row `i` has value `index[i]`.
    values: Option<ArrayRef>,
    /// Only for byte columns. Entries of NULL rows are 0.
    index: Option<UInt32Array>,
    /// By row.
    nulls: Option<NullBuffer>,
    all_null: bool,
}

impl KeySource {
    fn all_null() -> Self {
        Self { values: None, index: None, nulls: None, all_null: true }
    }

    fn has_nulls(&self, rows: usize) -> bool {
        let typeless = self.values.as_ref().is_some_and(|values| values.data_type() == &DataType::Null);
        rows > 0 && (self.all_null || typeless || self.nulls.as_ref().is_some_and(|nulls| nulls.null_count() > 0))
    }

    fn new(column: &Column, key: &KeyColumn) -> Result<Self> {
        if !matches!(key.kind, KeyKind::Bytes) {
            return Self::flat(column.flat()?, key);
        }
        let (values, picks) = column.parts();
        let (values, index) = match values.data_type() {
            DataType::Dictionary(..) => {
                let (values, codes) = dictionary_parts(&column.flat()?)?;
                (values, Some(codes))
            }
            _ => (values.clone(), picks.map(|picks| picks.as_ref().clone())),
        };
        let Some(index) = index else { return Self::flat(values, key) };
        let values_nulls = values.logical_nulls();
        let nulls = match values_nulls.filter(|nulls| nulls.null_count() > 0) {
            Some(values_nulls) => {
                let valid = |pick: Option<u32>| pick.is_some_and(|pick| values_nulls.is_valid(pick as usize));
                Some(index.iter().map(valid).collect::<NullBuffer>())
            }
            None => index.nulls().cloned(),
        };
        Ok(Self { values: Some(values), index: Some(index), nulls, all_null: false })
    }

    fn flat(values: ArrayRef, key: &KeyColumn) -> Result<Self> {
        let values = match (&key.kind, values.data_type()) {
            (KeyKind::NarrowDecimal | KeyKind::WideDecimal, DataType::Decimal64(..) | DataType::Decimal128(..)) => {
                values
            }
            (KeyKind::Bytes, _) if is_bytes(values.data_type()) => values,
            // Includes dictionaries of fixed-width values.
            _ => to_logical(&values, key.value_type())?,
        };
        let nulls = values.logical_nulls();
        Ok(Self { values: Some(values), index: None, nulls, all_null: false })
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

/// A dictionary array's values and its codes as 32-bit numbers.
pub(super) fn dictionary_parts(array: &ArrayRef) -> Result<(ArrayRef, UInt32Array)> {
    fn parts<K: ArrowDictionaryKeyType>(array: &ArrayRef) -> (ArrayRef, UInt32Array) {
        let array = array.as_dictionary::<K>();
        let keys = array.keys();
        let nulls = keys.nulls().cloned();
        // Codes of NULL rows may be anything.
        let codes: ScalarBuffer<u32> = match &nulls {
            Some(nulls) => (0..keys.len())
                .map(|row| if nulls.is_valid(row) { keys.value(row).as_usize() as u32 } else { 0 })
                .collect::<Vec<_>>()
                .into(),
            None => keys.values().iter().map(|key| key.as_usize() as u32).collect::<Vec<_>>().into(),
        };
        (array.values().clone(), UInt32Array::new(codes, nulls))
    }
    use arrow::datatypes::*;
    let DataType::Dictionary(key, _) = array.data_type() else {
        return Err(Error::bug("not a dictionary"));
    };
    Ok(match key.as_ref() {
        DataType::Int8 => parts::<Int8Type>(array),
        DataType::Int16 => parts::<Int16Type>(array),
        DataType::Int32 => parts::<Int32Type>(array),
        DataType::Int64 => parts::<Int64Type>(array),
        DataType::UInt8 => parts::<UInt8Type>(array),
        DataType::UInt16 => parts::<UInt16Type>(array),
        DataType::UInt32 => parts::<UInt32Type>(array),
        DataType::UInt64 => parts::<UInt64Type>(array),
        other => return Err(Error::bug(format!("dictionary codes of type {other}"))),
    })
}

/// The bytes of an array of strings or bytes, however they lie.
pub(super) fn bytes_values(array: &ArrayRef) -> Result<BytesValues> {
    fn offsets<T: ByteArrayType>(array: &ArrayRef) -> (OffsetBuffer<T::Offset>, Buffer) {
        let array = array.as_bytes::<T>();
        (array.offsets().clone(), array.values().clone())
    }
    use arrow::datatypes::{BinaryType, LargeBinaryType, LargeUtf8Type, Utf8Type};
    Ok(match array.data_type() {
        DataType::Utf8View => {
            let (views, buffers, _) = array.as_string_view().clone().into_parts();
            BytesValues::Views(views, buffers)
        }
        DataType::BinaryView => {
            let array: &BinaryViewArray = array.as_binary_view();
            let (views, buffers, _) = array.clone().into_parts();
            BytesValues::Views(views, buffers)
        }
        DataType::Utf8 => {
            let (offsets, data) = offsets::<Utf8Type>(array);
            BytesValues::Offsets(offsets, data)
        }
        DataType::Binary => {
            let (offsets, data) = offsets::<BinaryType>(array);
            BytesValues::Offsets(offsets, data)
        }
        DataType::LargeUtf8 => {
            let (offsets, data) = offsets::<LargeUtf8Type>(array);
            BytesValues::LargeOffsets(offsets, data)
        }
        DataType::LargeBinary => {
            let (offsets, data) = offsets::<LargeBinaryType>(array);
            BytesValues::LargeOffsets(offsets, data)
        }
        DataType::FixedSizeBinary(_) => BytesValues::Fixed(array.as_fixed_size_binary().clone()),
        other => return Err(Error::bug(format!("a group column of bytes arrived as {other}"))),
    })
}

fn value_count(values: &BytesValues) -> usize {
    match values {
        BytesValues::Views(views, _) => views.len(),
        BytesValues::Offsets(offsets, _) => offsets.len() - 1,
        BytesValues::LargeOffsets(offsets, _) => offsets.len() - 1,
        BytesValues::Fixed(array) => array.len(),
        BytesValues::Rows(rows) => rows.num_rows(),
    }
}

/// The two words of a string.
#[inline(always)]
fn words_of(values: &BytesValues, index: usize) -> (u64, u64) {
    if let BytesValues::Views(views, _) = values {
        let view = views[index];
        if !views::is_long(view) {
            return (view as u64, (view >> 64) as u64);
        }
    }
    view_words(values.get(index))
}

/// As in a view where the bytes fit into it; else length, the first four bytes, and a hash.
#[inline(always)]
fn view_words(bytes: &[u8]) -> (u64, u64) {
    let head = views::head(bytes);
    (head as u64, if views::is_long(head) { hash_long(bytes) } else { (head >> 64) as u64 })
}

/// Where a column's bits go.
struct KeyPlace<'a> {
    words: &'a mut [u64],
    stride: usize,
    word: usize,
    shift: u32,
}

impl KeyPlace<'_> {
    /// Bits of NULL rows are left zero.
    #[inline(always)]
    fn write(&mut self, bits: impl Iterator<Item = u64>, nulls: Option<&NullBuffer>) {
        let shift = self.shift;
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None if self.stride == 1 => self.words.iter_mut().zip(bits).for_each(|(key, bits)| *key |= bits << shift),
            None => {
                let keys = self.words.iter_mut().skip(self.word).step_by(self.stride);
                keys.zip(bits).for_each(|(key, bits)| *key |= bits << shift);
            }
            Some(nulls) => {
                let keys = self.words.iter_mut().skip(self.word).step_by(self.stride);
                keys.zip(bits).zip(nulls.iter()).for_each(|((key, bits), valid)| {
                    *key |= (bits << shift) & (valid as u64).wrapping_neg();
                });
            }
        }
    }
}

fn write_bits(values: &ArrayRef, bits: u32, nulls: Option<&NullBuffer>, place: &mut KeyPlace<'_>) -> Result<()> {
    match values.data_type() {
        DataType::Boolean => {
            let values: &BooleanArray = values.as_boolean();
            place.write(values.values().iter().map(|value| value as u64), nulls);
        }
        DataType::Float16 => {
            let values = values.as_primitive::<Float16Type>().values();
            place.write(values.iter().map(|&value| Float16Type::canonical_bits(value) as u64), nulls);
        }
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>().values();
            place.write(values.iter().map(|&value| Float32Type::canonical_bits(value) as u64), nulls);
        }
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>().values();
            place.write(values.iter().map(|&value| Float64Type::canonical_bits(value)), nulls);
        }
        _ => {
            let data = values.to_data();
            let rows = values.len();
            match bits {
                8 => place.write(data.buffer::<u8>(0)[..rows].iter().map(|&value| value as u64), nulls),
                16 => place.write(data.buffer::<u16>(0)[..rows].iter().map(|&value| value as u64), nulls),
                32 => place.write(data.buffer::<u32>(0)[..rows].iter().map(|&value| value as u64), nulls),
                64 => place.write(data.buffer::<u64>(0)[..rows].iter().copied(), nulls),
                other => return Err(Error::bug(format!("a group column of {other} bits"))),
            }
        }
    }
    Ok(())
}

/// The array in another type that holds the same values, where decoding built a simpler one.
pub(super) fn into_type(array: ArrayRef, logical: &DataType) -> Result<ArrayRef> {
    if array.data_type() == logical {
        return Ok(array);
    }
    cast(&array, logical).map_err(from_arrow)
}
