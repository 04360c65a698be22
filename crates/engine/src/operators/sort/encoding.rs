//! Normalized keys: one code per row, so that comparing two rows is comparing two numbers, or two strings of bytes,
//! with direction and the place of NULLs already folded in.
//!
//! ```text
//!   keys of fixed width, together <= 64 bits    u64     ORDER BY o_totalprice DESC           decimal(15, 2): 51 bits
//!   keys of fixed width, together <= 128 bits   u128    ORDER BY o_totalprice DESC, o_orderdate     51 + 33 bits
//!   anything else                               bytes   ORDER BY s_name                      Arrow's row format
//! ```
//!
//! A fixed-width value is first turned into its *rank* among all values of its type, `0..=top`. A descending key turns
//! the rank around (`top - rank`). If the key can be NULL, values move up by one and NULL takes what is free below them
//! (0) or above them (`top + 2`). A decimal's rank spans its precision and not its storage, so that several keys fit a
//! number.
//!
//! The *lead* of a row is a u64 made of its first key alone. Leads order rows like keys do, except that different keys
//! may share one: cheap to compute, it is what top-N looks at before it looks at keys.
//!
//! Invariant: codes depend on logical values only. The same value in a narrow and in a wide physical form, in any
//! packet, has the same code.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, BitOr, Shl, Sub};

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, make_comparator, new_null_array,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalUnit, IntervalYearMonthType, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_row::{Row, RowConverter, SortField};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::keys::Keys;
use crate::batch::floats::{FloatBits, canonical_floats};
use crate::batch::{Batch, bytes_needed, to_logical};
use crate::plan::SortKey;

/// Turns the sort keys of batches into codes.
pub(super) struct KeyEncoder {
    keys: Vec<SortKey>,
    form: Form,
}

/// What codes look like.
enum Form {
    /// All keys in a u64.
    Narrow(Vec<FixedKey>),
    /// All keys in a u128.
    Wide(Vec<FixedKey>),
    /// Rows of bytes.
    Bytes { converter: RowConverter, lead: Lead },
}

/// How the lead of a row is found where its code is not a number.
pub(super) enum Lead {
    Fixed(FixedKey),
    Text { options: SortOptions, bytes: TextBytes },
    None,
}

/// Where the bytes of a text key are.
#[derive(Clone, Copy)]
pub(super) enum TextBytes {
    Utf8,
    LargeUtf8,
    Utf8View,
    Binary,
    LargeBinary,
    BinaryView,
}

/// A key with a bounded number of values.
#[derive(Clone, Debug)]
pub(super) struct FixedKey {
    logical: DataType,
    options: SortOptions,
    nullable: bool,
    /// The largest rank of a value.
    top: u128,
    /// Bits of the key's part of the code.
    bits: u32,
}

/// A number that codes are made of.
pub(super) trait Code:
    Copy
    + Ord
    + Default
    + Send
    + Sync
    + fmt::Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + BitOr<Output = Self>
    + Shl<u32, Output = Self>
{
    /// Bits it has.
    const BITS: u32;
    /// The number, which must fit.
    fn of(number: u128) -> Self;
    /// The number, widened from 64 bits.
    fn of_u64(number: u64) -> Self;
}

impl Code for u64 {
    const BITS: u32 = 64;
    fn of(number: u128) -> Self {
        number as u64
    }
    fn of_u64(number: u64) -> Self {
        number
    }
}

impl Code for u128 {
    const BITS: u32 = 128;
    fn of(number: u128) -> Self {
        number
    }
    fn of_u64(number: u64) -> Self {
        u128::from(number)
    }
}

impl KeyEncoder {
    /// An encoder of these keys. Fails if a key has a type without an order.
    pub fn new(keys: &[SortKey]) -> Result<Self> {
        let fixed: Option<Vec<FixedKey>> = keys.iter().map(|key| FixedKey::new(key, true)).collect();
        // Trusting that a key is never NULL saves one value, which decides between 64 and 65 bits.
        let trusting: Option<Vec<FixedKey>> = keys.iter().map(|key| FixedKey::new(key, false)).collect();
        let bits = |fixed: &[FixedKey]| fixed.iter().map(|key| key.bits).sum::<u32>();
        let form = match (fixed, trusting) {
            (Some(fixed), _) if bits(&fixed) <= u64::BITS => Form::Narrow(fixed),
            (_, Some(trusting)) if bits(&trusting) <= u64::BITS => Form::Narrow(trusting),
            (Some(fixed), _) if bits(&fixed) <= u128::BITS => Form::Wide(fixed),
            (_, Some(trusting)) if bits(&trusting) <= u128::BITS => Form::Wide(trusting),
            _ => {
                let fields = keys
                    .iter()
                    .map(|key| SortField::new_with_options(key.expression.data_type().clone(), key.options))
                    .collect::<Vec<_>>();
                if let Some(key) = keys
                    .iter()
                    .zip(&fields)
                    .find(|(_, field)| !RowConverter::supports_fields(std::slice::from_ref(field)))
                {
                    let data_type = key.0.expression.data_type();
                    return Err(Error::unsupported(format!("values of type {data_type} have no order to sort by")));
                }
                Form::Bytes { converter: RowConverter::new(fields).map_err(from_arrow)?, lead: Lead::new(&keys[0]) }
            }
        };
        Ok(Self { keys: keys.to_vec(), form })
    }

    /// The key columns of a batch, flat.
    pub fn columns(&self, batch: &Batch) -> Result<Vec<ArrayRef>> {
        self.keys.iter().map(|key| key.expression.evaluate(batch)?.flat()).collect()
    }

    /// No keys yet.
    pub fn empty(&self) -> Keys {
        match &self.form {
            Form::Narrow(_) => Keys::Narrow(Vec::new()),
            Form::Wide(_) => Keys::Wide(Vec::new()),
            Form::Bytes { converter, .. } => Keys::Bytes(converter.empty_rows(0, 0)),
        }
    }

    /// About how many bytes the codes of some rows have, rather more than less.
    pub fn bytes_expected(&self, columns: &[ArrayRef], rows: usize) -> usize {
        match &self.form {
            Form::Narrow(_) => rows * size_of::<u64>(),
            Form::Wide(_) => rows * size_of::<u128>(),
            Form::Bytes { .. } => {
                // Arrow's rows cut strings into blocks of 32 bytes with one more each, and shorter strings into blocks
                // of 8.
                let key = |column: &ArrayRef| bytes_needed(column.as_ref()) / 8 * 9 + rows * 34;
                rows * size_of::<usize>() + columns.iter().map(key).sum::<usize>()
            }
        }
    }

    /// Bits of a code, where codes are numbers.
    pub fn bits(&self) -> u32 {
        match &self.form {
            Form::Narrow(keys) | Form::Wide(keys) => keys.iter().map(|key| key.bits).sum(),
            Form::Bytes { .. } => u32::MAX,
        }
    }

    /// Appends the codes of `rows` rows, whose key columns are given, to keys made by this encoder.
    pub fn append(&self, columns: &[ArrayRef], rows: usize, keys: &mut Keys) -> Result<()> {
        match (&self.form, keys) {
            (Form::Narrow(fixed), Keys::Narrow(codes)) => append_codes(fixed, columns, rows, codes),
            (Form::Wide(fixed), Keys::Wide(codes)) => append_codes(fixed, columns, rows, codes),
            (Form::Bytes { converter, .. }, Keys::Bytes(held)) => {
                let logical = columns
                    .iter()
                    .zip(&self.keys)
                    .map(|(column, key)| canonical_floats(&to_logical(column, key.expression.data_type())?))
                    .collect::<Result<Vec<_>>>()?;
                converter.append(held, &logical).map_err(from_arrow)
            }
            _ => Err(Error::bug("sort keys of different forms met")),
        }
    }

    /// The leads of rows whose codes are not numbers, or `None` if there is nothing cheap to look at.
    pub fn leads(&self, columns: &[ArrayRef], rows: usize) -> Result<Option<Vec<u64>>> {
        let Form::Bytes { lead, .. } = &self.form else { return Ok(None) };
        let first = columns.first().filter(|column| column.len() == rows);
        let first = first.ok_or_else(|| Error::bug("the columns of sort keys have other rows"))?;
        lead.of(first, self.keys[0].expression.data_type())
    }

    /// The values of the keys in a row of bytes, one array with one value for each key: what keys are compared with
    /// before codes are made of them. `None` if some key has values that are dear to compare.
    pub fn values(&self, row: Row<'_>) -> Result<Option<Vec<ArrayRef>>> {
        let Form::Bytes { converter, .. } = &self.form else { return Ok(None) };
        let is_cheap = |key: &SortKey| {
            let data_type = key.expression.data_type();
            !data_type.is_nested() && !matches!(data_type, DataType::Interval(_))
        };
        if !self.keys.iter().all(is_cheap) {
            return Ok(None);
        }
        converter.convert_rows([row]).map(Some).map_err(from_arrow)
    }

    /// The same of a row whose code is known.
    pub fn values_of_code(&self, code: &[u8]) -> Result<Option<Vec<ArrayRef>>> {
        let Form::Bytes { converter, .. } = &self.form else { return Ok(None) };
        self.values(converter.parser().parse(code))
    }

    /// How the values of a key's column are ordered beside one of [`values`](Self::values).
    pub fn compared(&self, key: usize, column: &ArrayRef, with: &ArrayRef) -> Result<Vec<Ordering>> {
        let SortKey { expression, options } = &self.keys[key];
        of_values(column, expression.data_type(), |values| {
            let values = canonical_floats(values)?;
            let compare = make_comparator(&values, with, *options).map_err(from_arrow)?;
            Ok((0..values.len()).map(|row| compare(row, 0)).collect())
        })
    }

    /// The lead of a code that is a number.
    pub fn lead_of_wide(&self, code: u128) -> u64 {
        (code >> self.bits().min(u128::BITS).saturating_sub(u64::BITS)) as u64
    }
}

impl FixedKey {
    /// The key, if its type has a fixed width of at most 128 bits.
    fn new(key: &SortKey, doubt_nullability: bool) -> Option<Self> {
        let logical = key.expression.data_type().clone();
        let top: u128 = match &logical {
            DataType::Boolean => 1,
            DataType::Int8 | DataType::UInt8 => u8::MAX.into(),
            DataType::Int16 | DataType::UInt16 | DataType::Float16 => u16::MAX.into(),
            DataType::Int32
            | DataType::UInt32
            | DataType::Float32
            | DataType::Date32
            | DataType::Time32(_)
            | DataType::Interval(IntervalUnit::YearMonth) => u32::MAX.into(),
            DataType::Int64
            | DataType::UInt64
            | DataType::Float64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_) => u64::MAX.into(),
            DataType::Decimal32(precision, _)
            | DataType::Decimal64(precision, _)
            | DataType::Decimal128(precision, _) => 2 * (decimal_bound(*precision) - 1),
            _ => return None,
        };
        let nullable = doubt_nullability || key.expression.nullable();
        let most = if nullable { top + 2 } else { top };
        Some(Self { logical, options: key.options, nullable, top, bits: u128::BITS - most.leading_zeros() })
    }

    /// Shifts the key's part into the codes of its rows. The column comes in its logical type or, for a decimal,
    /// narrower.
    fn append<K: Code>(&self, column: &ArrayRef, codes: &mut [K]) -> Result<()> {
        /// The rank of a signed integer: its distance from the smallest one.
        macro_rules! signed {
            ($Type:ty, $Unsigned:ty) => {
                self.append_ranks(column.as_primitive::<$Type>(), codes, |value| {
                    K::of_u64((value as $Unsigned ^ (1 << (<$Unsigned>::BITS - 1))).into())
                })
            };
        }
        macro_rules! unsigned {
            ($Type:ty) => {
                self.append_ranks(column.as_primitive::<$Type>(), codes, |value| K::of_u64(value.into()))
            };
        }
        /// The rank of a float: negative ones have all their bits turned, others the sign.
        macro_rules! float {
            ($Type:ty, $Unsigned:ty) => {
                self.append_ranks(column.as_primitive::<$Type>(), codes, |value| {
                    let bits: $Unsigned = <$Type>::canonical_bits(value);
                    let sign = 1 << (<$Unsigned>::BITS - 1);
                    K::of_u64(if bits & sign != 0 { !bits } else { bits | sign }.into())
                })
            };
        }
        /// The rank of a decimal: its distance from the smallest one of its precision.
        macro_rules! decimal {
            ($Type:ty, $precision:expr) => {{
                let array = column.as_primitive::<$Type>();
                let most = decimal_bound($precision) as i128 - 1;
                self.check_precision(array, most)?;
                self.append_ranks(array, codes, |value| K::of((value as u128).wrapping_add(most as u128)))
            }};
        }
        match (column.data_type(), &self.logical) {
            (
                DataType::Decimal32(_, scale),
                DataType::Decimal32(precision, logical_scale)
                | DataType::Decimal64(precision, logical_scale)
                | DataType::Decimal128(precision, logical_scale),
            ) if scale == logical_scale => decimal!(Decimal32Type, *precision),
            (
                DataType::Decimal64(_, scale),
                DataType::Decimal64(precision, logical_scale) | DataType::Decimal128(precision, logical_scale),
            ) if scale == logical_scale => decimal!(Decimal64Type, *precision),
            (DataType::Decimal128(_, scale), DataType::Decimal128(precision, logical_scale))
                if scale == logical_scale =>
            {
                decimal!(Decimal128Type, *precision)
            }
            (physical, logical) if physical != logical => self.append(&to_logical(column, logical)?, codes),
            (DataType::Boolean, _) => self.append_booleans(column.as_boolean(), codes),
            (DataType::Int8, _) => signed!(Int8Type, u8),
            (DataType::Int16, _) => signed!(Int16Type, u16),
            (DataType::Int32, _) => signed!(Int32Type, u32),
            (DataType::Int64, _) => signed!(Int64Type, u64),
            (DataType::UInt8, _) => unsigned!(UInt8Type),
            (DataType::UInt16, _) => unsigned!(UInt16Type),
            (DataType::UInt32, _) => unsigned!(UInt32Type),
            (DataType::UInt64, _) => unsigned!(UInt64Type),
            (DataType::Float16, _) => float!(Float16Type, u16),
            (DataType::Float32, _) => float!(Float32Type, u32),
            (DataType::Float64, _) => float!(Float64Type, u64),
            (DataType::Date32, _) => signed!(Date32Type, u32),
            (DataType::Date64, _) => signed!(Date64Type, u64),
            (DataType::Time32(TimeUnit::Second), _) => signed!(Time32SecondType, u32),
            (DataType::Time32(TimeUnit::Millisecond), _) => signed!(Time32MillisecondType, u32),
            (DataType::Time64(TimeUnit::Microsecond), _) => signed!(Time64MicrosecondType, u64),
            (DataType::Time64(TimeUnit::Nanosecond), _) => signed!(Time64NanosecondType, u64),
            (DataType::Timestamp(TimeUnit::Second, _), _) => signed!(TimestampSecondType, u64),
            (DataType::Timestamp(TimeUnit::Millisecond, _), _) => signed!(TimestampMillisecondType, u64),
            (DataType::Timestamp(TimeUnit::Microsecond, _), _) => signed!(TimestampMicrosecondType, u64),
            (DataType::Timestamp(TimeUnit::Nanosecond, _), _) => signed!(TimestampNanosecondType, u64),
            (DataType::Duration(TimeUnit::Second), _) => signed!(DurationSecondType, u64),
            (DataType::Duration(TimeUnit::Millisecond), _) => signed!(DurationMillisecondType, u64),
            (DataType::Duration(TimeUnit::Microsecond), _) => signed!(DurationMicrosecondType, u64),
            (DataType::Duration(TimeUnit::Nanosecond), _) => signed!(DurationNanosecondType, u64),
            (DataType::Interval(IntervalUnit::YearMonth), _) => signed!(IntervalYearMonthType, u32),
            (other, _) => Err(Error::bug(format!("no rank is known for values of type {other}"))),
        }
    }

    fn append_ranks<K: Code, T: ArrowPrimitiveType>(
        &self,
        array: &PrimitiveArray<T>,
        codes: &mut [K],
        rank: impl Fn(T::Native) -> K,
    ) -> Result<()> {
        let values = array.values();
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => self.append_parts(codes, |row| Some(rank(values[row]))),
            Some(nulls) => self.append_parts(codes, |row| nulls.is_valid(row).then(|| rank(values[row]))),
        }
    }

    fn append_booleans<K: Code>(&self, array: &BooleanArray, codes: &mut [K]) -> Result<()> {
        self.append_parts(codes, |row| array.is_valid(row).then(|| K::of_u64(array.value(row).into())))
    }

    /// Shifts the parts made of ranks into the codes.
    fn append_parts<K: Code>(&self, codes: &mut [K], rank: impl Fn(usize) -> Option<K>) -> Result<()> {
        let top = K::of(self.top);
        // A code as wide as the key has nothing in it yet, and shifting by the full width is not defined.
        let shift = |code: K| if self.bits < K::BITS { code << self.bits } else { K::default() };
        match (self.nullable, self.options.descending) {
            (true, descending) => {
                let one = K::of_u64(1);
                let null = if self.options.nulls_first { K::default() } else { K::of(self.top + 2) };
                for (row, code) in codes.iter_mut().enumerate() {
                    let part = match rank(row) {
                        Some(rank) if descending => top - rank + one,
                        Some(rank) => rank + one,
                        None => null,
                    };
                    *code = shift(*code) | part;
                }
            }
            (false, descending) => {
                for (row, code) in codes.iter_mut().enumerate() {
                    let Some(rank) = rank(row) else {
                        return Err(Error::bug("a sort key that is never NULL was NULL"));
                    };
                    *code = shift(*code) | if descending { top - rank } else { rank };
                }
            }
        }
        Ok(())
    }

    /// Fails if a value has more digits than its type says: it would have no rank.
    fn check_precision<T: ArrowPrimitiveType>(&self, array: &PrimitiveArray<T>, most: i128) -> Result<()>
    where
        T::Native: Into<i128>,
    {
        let outside = |value: T::Native| !(-most..=most).contains(&value.into());
        // One pass without looking at NULLs; what lies under a NULL is looked at again only if it is out of range.
        if array.values().iter().fold(false, |found, &value| found | outside(value))
            && let Some(value) = array.iter().flatten().find(|&value| outside(value))
        {
            let value: i128 = value.into();
            return Err(Error::value(format!(
                "the value {value} (unscaled) has more digits than {} allows",
                self.logical
            )));
        }
        Ok(())
    }
}

/// One more than the largest unscaled value of a decimal.
fn decimal_bound(precision: u8) -> u128 {
    10_u128.pow(precision.into())
}

fn append_codes<K: Code>(keys: &[FixedKey], columns: &[ArrayRef], rows: usize, codes: &mut Vec<K>) -> Result<()> {
    let start = codes.len();
    codes.resize(start + rows, K::default());
    keys.iter().zip(columns).try_for_each(|(key, column)| key.append(column, &mut codes[start..]))
}

impl Lead {
    /// The lead of rows that are ordered by a key first.
    pub fn new(key: &SortKey) -> Self {
        let text = |bytes| Lead::Text { options: key.options, bytes };
        match key.expression.data_type() {
            DataType::Utf8 => text(TextBytes::Utf8),
            DataType::LargeUtf8 => text(TextBytes::LargeUtf8),
            DataType::Utf8View => text(TextBytes::Utf8View),
            DataType::Binary => text(TextBytes::Binary),
            DataType::LargeBinary => text(TextBytes::LargeBinary),
            DataType::BinaryView => text(TextBytes::BinaryView),
            _ => match FixedKey::new(key, true) {
                Some(key) if key.bits <= u128::BITS => Lead::Fixed(key),
                _ => Lead::None,
            },
        }
    }

    /// Whether there is nothing cheap to look at.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Whether different values have different leads.
    pub fn is_exact(&self) -> bool {
        matches!(self, Self::Fixed(key) if key.bits <= u64::BITS)
    }

    /// The leads of rows that have these values of a logical type in their first key; `None` if there are none. Fails
    /// for a decimal with more digits than its type has.
    pub fn of(&self, values: &ArrayRef, logical: &DataType) -> Result<Option<Vec<u64>>> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(key) if key.bits <= u64::BITS => {
                let mut codes = Vec::with_capacity(values.len());
                append_codes(std::slice::from_ref(key), std::slice::from_ref(values), values.len(), &mut codes)?;
                Ok(Some(codes))
            }
            Self::Fixed(key) => {
                let mut codes: Vec<u128> = Vec::with_capacity(values.len());
                append_codes(std::slice::from_ref(key), std::slice::from_ref(values), values.len(), &mut codes)?;
                let shift = key.bits.saturating_sub(u64::BITS);
                Ok(Some(codes.into_iter().map(|code| (code >> shift) as u64).collect()))
            }
            Self::Text { options, bytes } => {
                of_values(values, logical, |values| Ok(text_leads(values, *options, *bytes))).map(Some)
            }
        }
    }
}

/// The leads of a text key: NULL's place, then the first seven bytes.
fn text_leads(column: &ArrayRef, options: SortOptions, bytes: TextBytes) -> Vec<u64> {
    /// The largest rank of seven bytes.
    const TOP: u64 = (1 << 56) - 1;
    map_text(column, bytes, |value| match value {
        None if options.nulls_first => 0,
        None => TOP + 2,
        Some(value) => {
            let mut first = [0; 8];
            let length = value.len().min(7);
            first[1..=length].copy_from_slice(&value[..length]);
            let rank = u64::from_be_bytes(first);
            1 + if options.descending { TOP - rank } else { rank }
        }
    })
}

/// What a function makes of the values of a column in its logical type. Where the column has a dictionary, the function
/// is asked once for each of its values.
fn of_values<T: Copy>(
    column: &ArrayRef,
    logical: &DataType,
    function: impl Fn(&ArrayRef) -> Result<Vec<T>>,
) -> Result<Vec<T>> {
    let Some(dictionary) = column.as_any_dictionary_opt().filter(|dictionary| {
        let values = dictionary.values().len();
        (1..=column.len()).contains(&values)
    }) else {
        return function(&to_logical(column, logical)?);
    };
    let of_values = function(&to_logical(dictionary.values(), logical)?)?;
    let of_keys = dictionary.normalized_keys().into_iter().map(|key| of_values[key]);
    let Some(nulls) = dictionary.keys().nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Ok(of_keys.collect());
    };
    let of_null = function(&new_null_array(logical, 1))?;
    Ok(of_keys.zip(nulls).map(|(of_key, is_valid)| if is_valid { of_key } else { of_null[0] }).collect())
}

fn map_text<T>(column: &ArrayRef, bytes: TextBytes, mut result: impl FnMut(Option<&[u8]>) -> T) -> Vec<T> {
    match bytes {
        TextBytes::Utf8 => column.as_string::<i32>().iter().map(|value| result(value.map(str::as_bytes))).collect(),
        TextBytes::LargeUtf8 => {
            column.as_string::<i64>().iter().map(|value| result(value.map(str::as_bytes))).collect()
        }
        TextBytes::Utf8View => column.as_string_view().iter().map(|value| result(value.map(str::as_bytes))).collect(),
        TextBytes::Binary => column.as_binary::<i32>().iter().map(result).collect(),
        TextBytes::LargeBinary => column.as_binary::<i64>().iter().map(result).collect(),
        TextBytes::BinaryView => column.as_binary_view().iter().map(result).collect(),
    }
}
