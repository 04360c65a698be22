//! The order of an aggregate's rows: all of a group's rows in it, or the row at a place, which needs no sort.
//!
//! A single key that is a number, a date or a time becomes a word whose order is that of the key; other keys become
//! rows of bytes (`arrow::row`). Words are moved together with the numbers of their rows, so that comparisons read
//! memory in its order.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Float32Array, Float64Array, PrimitiveArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion_common::Result;

/// The most places of a group that are looked for one by one; for more its rows are sorted.
const PLACES_MAX: usize = 4;

/// What rows are ordered by.
pub(super) enum RowOrder {
    /// One key of at most 64 bits.
    Words(Vec<u64>),
    /// One key of more bits.
    WideWords(Vec<u128>),
    /// Any keys.
    Bytes(Rows),
}

impl RowOrder {
    /// The order by keys with their directions. Fails for keys that have no order.
    pub fn new(keys: &[ArrayRef], directions: &[SortOptions]) -> Result<Self> {
        if let ([key], [direction]) = (keys, directions)
            && key.null_count() == 0
            && let Some(order) = Self::of_words(key, *direction)
        {
            return Ok(order);
        }
        let fields = keys.iter().zip(directions);
        let fields = fields.map(|(key, options)| SortField::new_with_options(key.data_type().clone(), *options));
        let converter = RowConverter::new(fields.collect())?;
        let keys = keys.iter().map(one_zero).collect::<Vec<_>>();
        Ok(Self::Bytes(converter.convert_columns(&keys)?))
    }

    /// The order by a key without NULLs; `None` if it is none of those that fit into words.
    fn of_words(key: &ArrayRef, direction: SortOptions) -> Option<Self> {
        let turned = if direction.descending { u64::MAX } else { 0 };
        macro_rules! words {
            ($($pattern:pat => $kind:ty,)*) => {
                match key.data_type() {
                    $($pattern => words::<$kind>(key.as_primitive(), |value| value as i64, turned),)*
                    DataType::UInt64 => {
                        Self::Words(key.as_primitive::<UInt64Type>().values().iter().map(|value| value ^ turned).collect())
                    }
                    DataType::Float32 => words::<Float64Type>(
                        &key.as_primitive::<Float32Type>().unary(f64::from), rank, turned
                    ),
                    DataType::Float64 => words::<Float64Type>(key.as_primitive(), rank, turned),
                    DataType::Decimal128(..) => {
                        let turned = if direction.descending { u128::MAX } else { 0 };
                        let word = |value: &i128| (*value as u128 ^ 1 << 127) ^ turned;
                        Self::WideWords(key.as_primitive::<Decimal128Type>().values().iter().map(word).collect())
                    }
                    _ => return None,
                }
            };
        }
        Some(words! {
            DataType::Int8 => Int8Type,
            DataType::Int16 => Int16Type,
            DataType::Int32 => Int32Type,
            DataType::Int64 => Int64Type,
            DataType::UInt8 => UInt8Type,
            DataType::UInt16 => UInt16Type,
            DataType::UInt32 => UInt32Type,
            DataType::Date32 => Date32Type,
            DataType::Date64 => Date64Type,
            DataType::Time32(TimeUnit::Second) => Time32SecondType,
            DataType::Time32(_) => Time32MillisecondType,
            DataType::Time64(TimeUnit::Microsecond) => Time64MicrosecondType,
            DataType::Time64(_) => Time64NanosecondType,
            DataType::Timestamp(TimeUnit::Second, _) => TimestampSecondType,
            DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
            DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
            DataType::Decimal32(..) => Decimal32Type,
            DataType::Decimal64(..) => Decimal64Type,
        })
    }

    /// Puts rows in order; those with equal keys stay in the order of their numbers.
    pub fn sort(&self, rows: &mut [u32]) {
        match self {
            Self::Words(words) => sort_words(words, rows),
            Self::WideWords(words) => sort_words(words, rows),
            Self::Bytes(bytes) => {
                rows.sort_unstable_by(|&a, &b| bytes.row(a as usize).cmp(&bytes.row(b as usize)).then(a.cmp(&b)));
            }
        }
    }

    /// Whether two rows have equal keys.
    pub fn is_same(&self, a: u32, b: u32) -> bool {
        let (a, b) = (a as usize, b as usize);
        match self {
            Self::Words(words) => words[a] == words[b],
            Self::WideWords(words) => words[a] == words[b],
            Self::Bytes(bytes) => bytes.row(a) == bytes.row(b),
        }
    }

    /// Moves rows so that at each of these places, counted from 0, is the row that is there in the order.
    pub fn settle(&self, rows: &mut [u32], places: &[usize]) {
        if places.len() > PLACES_MAX {
            return self.sort(rows);
        }
        let mut places = places.to_vec();
        places.sort_unstable();
        match self {
            Self::Words(words) => settle_words(words, rows, &places),
            Self::WideWords(words) => settle_words(words, rows, &places),
            Self::Bytes(bytes) => {
                let (mut begin, count) = (0, rows.len());
                for place in places.into_iter().filter(|place| *place < count) {
                    if place >= begin {
                        let compare = |a: &u32, b: &u32| bytes.row(*a as usize).cmp(&bytes.row(*b as usize));
                        rows[begin..].select_nth_unstable_by(place - begin, compare);
                        begin = place + 1;
                    }
                }
            }
        }
    }
}

/// The keys as words whose order is that of `signed`, or its reverse.
fn words<T: ArrowPrimitiveType>(keys: &PrimitiveArray<T>, signed: impl Fn(T::Native) -> i64, turned: u64) -> RowOrder {
    RowOrder::Words(keys.values().iter().map(|&key| (signed(key) as u64 ^ 1 << 63) ^ turned).collect())
}

/// The place of a float: NaNs are one, behind all others, and zeros are one.
fn rank(value: f64) -> i64 {
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() } as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

fn pairs<K: Copy>(words: &[K], rows: &[u32]) -> Vec<(K, u32)> {
    rows.iter().map(|&row| (words[row as usize], row)).collect()
}

fn put_back<K>(pairs: &[(K, u32)], rows: &mut [u32]) {
    rows.iter_mut().zip(pairs).for_each(|(row, (_, moved))| *row = *moved);
}

fn sort_words<K: Ord + Copy>(words: &[K], rows: &mut [u32]) {
    let mut pairs = pairs(words, rows);
    pairs.sort_unstable();
    put_back(&pairs, rows);
}

fn settle_words<K: Ord + Copy>(words: &[K], rows: &mut [u32], places: &[usize]) {
    let mut pairs = pairs(words, rows);
    let mut begin = 0;
    for &place in places.iter().filter(|place| **place < rows.len()) {
        if place >= begin {
            pairs[begin..].select_nth_unstable_by_key(place - begin, |(word, _)| *word);
            begin = place + 1;
        }
    }
    put_back(&pairs, rows);
}

/// The keys with one zero and one NaN.
fn one_zero(keys: &ArrayRef) -> ArrayRef {
    match keys.data_type() {
        DataType::Float64 => {
            let canonical = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            let keys: Float64Array = keys.as_primitive::<Float64Type>().unary(canonical);
            std::sync::Arc::new(keys)
        }
        DataType::Float32 => {
            let canonical = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            let keys: Float32Array = keys.as_primitive::<Float32Type>().unary(canonical);
            std::sync::Arc::new(keys)
        }
        _ => keys.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Int32Array, StringViewArray, TimestampMicrosecondArray};

    use super::*;

    /// An order by bytes of the same keys.
    fn judge(key: &ArrayRef, direction: SortOptions) -> RowOrder {
        let converter = RowConverter::new(vec![SortField::new_with_options(key.data_type().clone(), direction)]);
        RowOrder::Bytes(converter.unwrap().convert_columns(&[one_zero(key)]).unwrap())
    }

    #[test]
    fn words_have_the_order_of_their_keys() {
        let numbers = (0..400_i64).map(|number| number * 7_919 % 211 - 100).collect::<Vec<_>>();
        let float = |number: &i64| match number % 17 {
            0 => -0.0,
            1 => f64::NAN,
            2 => f64::NEG_INFINITY,
            _ => *number as f64 / 3.0,
        };
        let keys: [ArrayRef; 6] = [
            Arc::new(Int32Array::from_iter_values(numbers.iter().map(|number| *number as i32))),
            Arc::new(Float64Array::from_iter_values(numbers.iter().map(float))),
            Arc::new(Float32Array::from_iter_values(numbers.iter().map(|number| float(number) as f32))),
            Arc::new(TimestampMicrosecondArray::from(numbers.clone())),
            Arc::new(Decimal128Array::from_iter_values(numbers.iter().map(|number| i128::from(*number) << 70))),
            Arc::new(StringViewArray::from_iter_values(numbers.iter().map(|number| format!("{number:>20}")))),
        ];
        for key in keys {
            for descending in [false, true] {
                let direction = SortOptions { descending, nulls_first: false };
                let order = RowOrder::new(std::slice::from_ref(&key), &[direction]).unwrap();
                let is_bytes = matches!(order, RowOrder::Bytes(_));
                assert_eq!(is_bytes, *key.data_type() == DataType::Utf8View);
                let (mut sorted, mut expected) = ((0..400).collect::<Vec<u32>>(), (0..400).collect::<Vec<u32>>());
                order.sort(&mut sorted);
                judge(&key, direction).sort(&mut expected);
                assert_eq!(sorted, expected, "{} {descending}", key.data_type());
                for places in [&[0, 399][..], &[200, 199, 200], &[17], &[1, 2, 3, 4, 5, 398], &[400]] {
                    let mut settled = (0..400).rev().collect::<Vec<u32>>();
                    order.settle(&mut settled, places);
                    for &place in places.iter().filter(|place| **place < 400) {
                        assert!(order.is_same(settled[place], sorted[place]), "{} {place}", key.data_type());
                    }
                    settled.sort_unstable();
                    assert!(settled.into_iter().eq(0..400));
                }
            }
        }
    }
}
