//! Join keys in the two forms that hashing and comparing work on: 64-bit words and byte strings.
//!
//! Everything of at most 64 bits (integers, dates, times, floats, booleans, decimals of up to 18 digits) becomes a
//! *word* whose unsigned order is the order of the values; strings and binaries become views; the rest (wide decimals,
//! intervals, nested types) is written as byte strings by `arrow-row`, which keeps equality.
//!
//! Invariant: two equal values of one logical type have the same word, or the same bytes, and so the same hash,
//! whatever physical form they come in. Floats are equal as everywhere ([`floats`](crate::batch::floats)), also inside
//! of nested values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, UInt32Array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::*;
use arrow_row::{RowConverter, SortField};
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use crate::batch::floats::{FloatBits, canonical_floats};
use crate::batch::{nulls_of, to_logical, views};
use crate::operators::hashing::{MULTIPLIER, SEED, combined, folded, hash_long, hash_word};

const SIGN: u64 = 1 << 63;

/// How a key's values are represented.
pub(super) enum KeyKind {
    /// As words.
    Word,
    /// As byte strings that are the values.
    Bytes,
    /// As byte strings that `arrow-row` makes of the values.
    Rows(RowConverter, DataType),
}

impl KeyKind {
    /// The form for a logical type.
    pub fn of(logical: &DataType) -> Result<Self> {
        Ok(match logical {
            DataType::Dictionary(_, values) => return Self::of(values),
            DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::UInt64
            | DataType::Float16
            | DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_)
            | DataType::Interval(IntervalUnit::YearMonth)
            | DataType::Decimal32(..)
            | DataType::Decimal64(..) => KeyKind::Word,
            DataType::Decimal128(precision, _) if *precision <= DECIMAL64_MAX_PRECISION => KeyKind::Word,
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => KeyKind::Bytes,
            other => {
                let fields = vec![SortField::new(other.clone())];
                if !RowConverter::supports_fields(&fields) {
                    return Err(Error::unsupported(format!("values of type {other} cannot be join keys")));
                }
                KeyKind::Rows(RowConverter::new(fields).map_err(from_arrow)?, other.clone())
            }
        })
    }

    /// True for words.
    pub fn is_word(&self) -> bool {
        matches!(self, KeyKind::Word)
    }

    /// A batch's values of this key, which may be in any physical form of the logical type.
    pub fn column(&self, array: &ArrayRef) -> Result<KeyColumn> {
        self.column_into(array, Vec::with_capacity(if self.is_word() { array.len() } else { 0 }))
    }

    /// The same with memory that is used again: see [`KeyColumn::into_words`].
    pub fn column_into(&self, array: &ArrayRef, mut words: Vec<u64>) -> Result<KeyColumn> {
        match self {
            KeyKind::Word => {
                words.clear();
                let array = hydrated(array)?;
                words_of(array.as_ref(), &mut words)?;
                Ok(KeyColumn { nulls: nulls_of(array.as_ref()), data: KeyData::Words(words) })
            }
            KeyKind::Bytes => bytes_column(array),
            KeyKind::Rows(converter, logical) => {
                let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
                let array = canonical_floats(&to_logical(array, logical)?)?;
                let rows = converter.convert_columns(&[array]).map_err(from_arrow)?;
                let rows: ArrayRef = Arc::new(rows.try_into_binary().map_err(from_arrow)?);
                let mut column = bytes_column(&rows)?;
                column.nulls = nulls;
                Ok(column)
            }
        }
    }
}

/// A batch's values of one key.
#[derive(Debug)]
pub(super) struct KeyColumn {
    /// The values; whatever stands where a NULL is.
    pub data: KeyData,
    /// Which rows are not NULL; `None` if all are.
    pub nulls: Option<NullBuffer>,
}

/// See [`KeyColumn`].
#[derive(Debug)]
pub(super) enum KeyData {
    /// Words.
    Words(Vec<u64>),
    /// Byte strings and their hashes.
    Bytes(BinaryViewArray, Vec<u64>),
}

impl KeyColumn {
    /// The words of a key that has them.
    pub fn words(&self) -> &[u64] {
        match &self.data {
            KeyData::Words(words) => words,
            KeyData::Bytes(..) => &[],
        }
    }

    /// The words' memory, to be used again.
    pub fn into_words(self) -> Vec<u64> {
        match self.data {
            KeyData::Words(words) => words,
            KeyData::Bytes(..) => vec![],
        }
    }

    /// Whether the row is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// The smallest and the largest word; the wrong way round if there is none.
    pub fn bounds(&self) -> (u64, u64) {
        let words = self.words();
        let widened = |(min, max): (u64, u64), word: u64| (min.min(word), max.max(word));
        match &self.nulls {
            None => words.iter().copied().fold((u64::MAX, 0), widened),
            Some(_) if words.is_empty() => (u64::MAX, 0),
            Some(nulls) => nulls.valid_indices().map(|row| words[row]).fold((u64::MAX, 0), widened),
        }
    }

    /// Only these rows.
    pub fn take(self, rows: &UInt32Array) -> Result<Self> {
        let data = match self.data {
            KeyData::Words(words) => KeyData::Words(rows.values().iter().map(|&row| words[row as usize]).collect()),
            KeyData::Bytes(values, hashes) => {
                let values = take(&values, rows, None).map_err(from_arrow)?;
                let hashes = rows.values().iter().map(|&row| hashes[row as usize]).collect();
                KeyData::Bytes(values.as_binary_view().clone(), hashes)
            }
        };
        let nulls = self.nulls.map(|nulls| rows.values().iter().map(|&row| nulls.is_valid(row as usize)).collect());
        Ok(Self { data, nulls: nulls.filter(|nulls: &NullBuffer| nulls.null_count() > 0) })
    }
}

/// The array itself, or its values row by row if it is a dictionary.
fn hydrated(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values).map_err(from_arrow),
        _ => Ok(array.clone()),
    }
}

/// Appends the words of an array of a word type in any physical form but a dictionary.
pub(super) fn words_of(array: &dyn Array, words: &mut Vec<u64>) -> Result<()> {
    macro_rules! signed {
        ($type:ty) => {
            words.extend(array.as_primitive::<$type>().values().iter().map(|&value| (value as i64 as u64) ^ SIGN))
        };
    }
    macro_rules! unsigned {
        ($type:ty) => {
            words.extend(array.as_primitive::<$type>().values().iter().map(|&value| value as u64))
        };
    }
    macro_rules! bits {
        ($type:ty) => {
            words.extend(
                array.as_primitive::<$type>().values().iter().map(|&value| <$type>::canonical_bits(value) as u64),
            )
        };
    }
    match array.data_type() {
        DataType::Int8 => signed!(Int8Type),
        DataType::Int16 => signed!(Int16Type),
        DataType::Int32 => signed!(Int32Type),
        DataType::Int64 => signed!(Int64Type),
        DataType::UInt8 => unsigned!(UInt8Type),
        DataType::UInt16 => unsigned!(UInt16Type),
        DataType::UInt32 => unsigned!(UInt32Type),
        DataType::UInt64 => unsigned!(UInt64Type),
        DataType::Float16 => bits!(Float16Type),
        DataType::Float32 => bits!(Float32Type),
        DataType::Float64 => bits!(Float64Type),
        DataType::Date32 => signed!(Date32Type),
        DataType::Date64 => signed!(Date64Type),
        DataType::Time32(TimeUnit::Second) => signed!(Time32SecondType),
        DataType::Time32(_) => signed!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => signed!(Time64MicrosecondType),
        DataType::Time64(_) => signed!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => signed!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => signed!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => signed!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => signed!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => signed!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => signed!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => signed!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => signed!(DurationNanosecondType),
        DataType::Interval(IntervalUnit::YearMonth) => signed!(IntervalYearMonthType),
        DataType::Decimal32(..) => signed!(Decimal32Type),
        DataType::Decimal64(..) => signed!(Decimal64Type),
        DataType::Decimal128(..) => {
            let array = array.as_primitive::<Decimal128Type>();
            let mut fits = true;
            words.extend(array.values().iter().map(|&value| {
                fits &= value as i64 as i128 == value;
                (value as i64 as u64) ^ SIGN
            }));
            if !fits {
                // What stands under a NULL may be anything; a value may not.
                let wide = array.iter().flatten().find(|&value| value as i64 as i128 != value);
                if let Some(value) = wide {
                    return Err(Error::value(format!(
                        "the join key {value} does not fit its type {}",
                        array.data_type()
                    )));
                }
            }
        }
        DataType::Boolean => words.extend(array.as_boolean().values().iter().map(u64::from)),
        other => return Err(Error::bug(format!("a join key of type {other} was taken for a word"))),
    }
    Ok(())
}

/// Whether the order of a type's words says something about its values; not so for floats.
pub(super) fn words_are_ordered(logical: &DataType) -> bool {
    match logical {
        DataType::Dictionary(_, values) => words_are_ordered(values),
        other => !other.is_floating() && !matches!(other, DataType::Boolean),
    }
}

/// The value of a word in a logical type whose words are ordered.
pub(super) fn word_to_scalar(word: u64, logical: &DataType) -> Result<ScalarValue> {
    let signed = (word ^ SIGN) as i64;
    let number = match logical {
        DataType::Dictionary(_, values) => return word_to_scalar(word, values),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => ScalarValue::UInt64(Some(word)),
        DataType::Decimal32(p, s) => return Ok(ScalarValue::Decimal32(Some(signed as i32), *p, *s)),
        DataType::Decimal64(p, s) => return Ok(ScalarValue::Decimal64(Some(signed), *p, *s)),
        DataType::Decimal128(p, s) => return Ok(ScalarValue::Decimal128(Some(signed as i128), *p, *s)),
        DataType::Interval(IntervalUnit::YearMonth) => return Ok(ScalarValue::IntervalYearMonth(Some(signed as i32))),
        DataType::Date32 => return Ok(ScalarValue::Date32(Some(signed as i32))),
        DataType::Time32(TimeUnit::Second) => return Ok(ScalarValue::Time32Second(Some(signed as i32))),
        DataType::Time32(_) => return Ok(ScalarValue::Time32Millisecond(Some(signed as i32))),
        _ => ScalarValue::Int64(Some(signed)),
    };
    number.cast_to(logical).map_err(from_datafusion)
}

const NULL_HASH: u64 = 0x4528_21E6_38D0_1377;

/// The hash of the byte string that a view shows. Short strings are hashed from the view alone.
#[inline(always)]
fn hash_view(view: u128, buffers: &[Buffer]) -> u64 {
    if views::is_long(view) {
        return hash_long(views::bytes(&view, buffers));
    }
    folded(view as u64 ^ SEED, (view >> 64) as u64 ^ MULTIPLIER)
}

fn bytes_column(array: &ArrayRef) -> Result<KeyColumn> {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        // Hashing each distinct value once pays unless the dictionary is larger than the batch.
        let values = dictionary.values();
        if values.len() <= array.len() {
            let values = bytes_column(values)?;
            let keys = cast(dictionary.keys(), &DataType::UInt32).map_err(from_arrow)?;
            let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            let KeyData::Bytes(views, hashes) = values.data else { return Err(Error::bug("strings became words")) };
            let rows = take(&views, keys.as_primitive::<UInt32Type>(), None).map_err(from_arrow)?;
            // A NULL's key may be anything.
            let keys = keys.as_primitive::<UInt32Type>().values().iter();
            let hashes = keys.map(|&key| hashes.get(key as usize).copied().unwrap_or(NULL_HASH)).collect();
            return Ok(KeyColumn { data: KeyData::Bytes(rows.as_binary_view().clone(), hashes), nulls });
        }
    }
    let array = hydrated(array)?;
    let views = match array.data_type() {
        DataType::BinaryView => array.as_binary_view().clone(),
        DataType::Utf8View => array.as_string_view().clone().to_binary_view(),
        DataType::Utf8 | DataType::LargeUtf8 => {
            let views = cast(&array, &DataType::Utf8View).map_err(from_arrow)?;
            views.as_string_view().clone().to_binary_view()
        }
        _ => cast(&array, &DataType::BinaryView).map_err(from_arrow)?.as_binary_view().clone(),
    };
    let buffers = views.data_buffers();
    let hashes = match views.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => views.views().iter().map(|&view| hash_view(view, buffers)).collect(),
        // What stands under a NULL may point anywhere.
        Some(nulls) => {
            let rows = views.views().iter().zip(nulls.iter());
            rows.map(|(&view, valid)| if valid { hash_view(view, buffers) } else { NULL_HASH }).collect()
        }
    };
    Ok(KeyColumn { nulls: nulls_of(&views), data: KeyData::Bytes(views, hashes) })
}

/// Writes the hash of each row's keys. NULLs have a hash of their own.
pub(super) fn hash_rows(columns: &[KeyColumn], hashes: &mut Vec<u64>) {
    hashes.clear();
    for (index, column) in columns.iter().enumerate() {
        match &column.data {
            KeyData::Words(words) if index == 0 => hashes.extend(words.iter().map(|&word| hash_word(word))),
            KeyData::Bytes(_, own) if index == 0 => hashes.extend_from_slice(own),
            KeyData::Words(words) if column.nulls.is_none() => {
                hashes.iter_mut().zip(words).for_each(|(hash, &word)| *hash = combined(*hash, hash_word(word)));
            }
            data => {
                for (row, hash) in hashes.iter_mut().enumerate() {
                    let own = match data {
                        _ if column.is_null(row) => NULL_HASH,
                        KeyData::Words(words) => hash_word(words[row]),
                        KeyData::Bytes(_, own) => own[row],
                    };
                    *hash = combined(*hash, own);
                }
            }
        }
        if let (0, Some(nulls)) = (index, &column.nulls) {
            for (hash, valid) in hashes.iter_mut().zip(nulls.iter()) {
                if !valid {
                    *hash = NULL_HASH;
                }
            }
        }
    }
}
