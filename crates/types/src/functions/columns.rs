//! Columns read value by value, and columns written: what kernels are made of.
//!
//! A kernel names the Rust types of its arguments and of its value, and [`Columns::map`] does the rest: an argument
//! that is one value for all rows is read again for each row, and a NULL makes the row NULL unless the kernel asks for
//! an `Option`. So strictness is a matter of a kernel's types:
//!
//! ```text
//! kernel!(|text: &str, count: i32| left(text, count))                 // NULL if either is
//! kernel!(|a: Option<&str>, b: Option<&str>| quote_nullable(a, b))    // sees the NULLs
//! kernel!(try |a: i32, b: i32| a.checked_add(b).ok_or_else(..))       // may fail
//! ```

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, BooleanArray, BooleanBuilder, Date32Array,
    Decimal128Array, Decimal128Builder, Decimal256Array, Decimal256Builder, IntervalMonthDayNanoArray, ListArray,
    PrimitiveArray, PrimitiveBuilder, StringViewArray, StringViewBuilder, Time64MicrosecondArray,
    TimestampMicrosecondArray, new_empty_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::concat;
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, i256,
};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::Call;
use super::decimal::Decimal;
use crate::values::value_at;

/// A kernel of the given arguments; see the module.
macro_rules! kernel {
    (try |$($name:ident : $type:ty),+ $(,)?| $body:expr) => {
        $crate::functions::Body::Kernel(|arguments, call| {
            $crate::functions::columns::Columns::new(arguments, call).map(|($($name,)+): ($($type,)+)| $body)
        })
    };
    (of $call:ident; |$($name:ident : $type:ty),+ $(,)?| $body:expr) => {
        $crate::functions::Body::Kernel(|arguments, $call| {
            $crate::functions::columns::Columns::new(arguments, $call).map(|($($name,)+): ($($type,)+)| $body)
        })
    };
    (with $state:ident : $state_type:ty; |$($name:ident : $type:ty),+ $(,)?| $body:expr) => {
        $crate::functions::Body::Kernel(|arguments, call| {
            let mut $state = <$state_type>::default();
            $crate::functions::columns::Columns::new(arguments, call).map(|($($name,)+): ($($type,)+)| $body)
        })
    };
    (|$($name:ident : $type:ty),+ $(,)?| $body:expr) => { kernel!(try |$($name : $type),+| Ok($body)) };
}
pub(super) use kernel;

/// Months, days and microseconds.
pub(super) type Interval = IntervalMonthDayNano;

/// Days since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Date(pub i32);

/// Microseconds since 1970, of `timestamp` and `timestamptz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timestamp(pub i64);

/// Microseconds since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Time(pub i64);

/// A value that is read from a column.
pub(super) trait Read<'a>: Sized {
    /// The column, as the type that holds its values.
    type Column;
    /// The column of an array; `None` if the array holds other values.
    fn column(array: &'a ArrayRef) -> Option<Self::Column>;
    /// A row's value; `None` makes the result NULL.
    fn at(column: &Self::Column, row: usize) -> Option<Self>;
}

/// A value that is written to a column.
pub(super) trait Write: Sized {
    /// The column while it is written.
    type Builder;
    /// An empty column of an Arrow type. Fails with kind `Bug` if the type holds other values.
    fn builder(rows: usize, data_type: &DataType) -> Result<Self::Builder>;
    /// One more value. Fails if the column's type cannot hold it.
    fn append(self, builder: &mut Self::Builder) -> Result<()>;
    /// One more NULL.
    fn append_null(builder: &mut Self::Builder);
    /// The column. Fails if the column would be too large.
    fn finish(builder: Self::Builder) -> Result<ArrayRef>;
}

/// The arguments of a call.
pub(super) struct Columns<'c> {
    arrays: Vec<ArrayRef>,
    is_constant: bool,
    rows: usize,
    call: &'c Call<'c>,
    failed: Option<Error>,
}

impl<'c> Columns<'c> {
    /// The arguments of a call.
    pub(super) fn new(arguments: &[ColumnarValue], call: &'c Call<'c>) -> Self {
        let mut failed = None;
        let is_constant = arguments.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let arrays = arguments.iter().map(|argument| match argument {
            ColumnarValue::Array(array) => array.clone(),
            ColumnarValue::Scalar(value) => value.to_array_of_size(1).unwrap_or_else(|error| {
                failed = Some(Error::bug(format!("a constant without an array: {error}")));
                new_empty_array(&DataType::Null)
            }),
        });
        let arrays = arrays.collect();
        Self { arrays, is_constant, rows: call.rows, call, failed }
    }

    /// The value of each row. Fails as the function does, and with kind `Bug` if the columns do not hold the types.
    pub(super) fn map<'a, T: Tuple<'a>, R: Write>(
        &'a self,
        mut function: impl FnMut(T) -> Result<R>,
    ) -> Result<ColumnarValue> {
        let Some((rows, data_type)) = self.begin()? else { return Ok(self.empty()) };
        let columns = T::columns(&self.arrays).ok_or_else(|| self.misfit())?;
        let mut builder = R::builder(rows, &data_type)?;
        for row in 0..rows {
            match T::at(&columns, row) {
                Some(values) => function(values)?.append(&mut builder)?,
                None => R::append_null(&mut builder),
            }
        }
        self.result(R::finish(builder)?)
    }

    // What follows is apart from `map`, of which each kernel has a copy.

    /// How many rows are to be computed, and their type; `None` if the call has no rows. Fails with kind `Bug` if the
    /// arguments are none of a kernel.
    fn begin(&self) -> Result<Option<(usize, DataType)>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.rows == 0 {
            return Ok(None);
        }
        // Columns of one row are read again for each; a column of a batch of one row is such a one as well.
        if let Some(null) = self.arrays.iter().find(|array| *array.data_type() == DataType::Null) {
            return Err(Error::bug(format!("an argument of type {} for a kernel", null.data_type())));
        }
        Ok(Some((self.rows(), self.call.returns.arrow())))
    }

    fn empty(&self) -> ColumnarValue {
        ColumnarValue::Array(new_empty_array(&self.call.returns.arrow()))
    }

    #[cold]
    fn misfit(&self) -> Error {
        let types: Vec<_> = self.arrays.iter().map(|array| array.data_type().to_string()).collect();
        Error::bug(format!("a kernel does not take the columns ({})", types.join(", ")))
    }

    /// The array as the call's result: one value if all arguments are. Fails with kind `Bug` if it has no value.
    pub(super) fn result(&self, array: ArrayRef) -> Result<ColumnarValue> {
        if !self.is_constant {
            return Ok(ColumnarValue::Array(array));
        }
        let value = value_at(&array, 0).map_err(|error| Error::bug(error.to_string()))?;
        Ok(ColumnarValue::Scalar(value))
    }

    /// The rows to compute: one if all arguments are constants.
    pub(super) fn rows(&self) -> usize {
        if self.is_constant { self.rows.min(1) } else { self.rows }
    }

    /// The arguments as arrays, those of one value with one row.
    pub(super) fn arrays(&self) -> &[ArrayRef] {
        &self.arrays
    }
}

/// The arguments of a kernel.
pub(super) trait Tuple<'a>: Sized {
    /// Their columns.
    type Columns;
    /// The columns of arrays; `None` if one holds other values or their number is another.
    fn columns(arrays: &'a [ArrayRef]) -> Option<Self::Columns>;
    /// A row's values; `None` if one that must not be NULL is.
    fn at(columns: &Self::Columns, row: usize) -> Option<Self>;
}

/// A column and how far apart its rows are: 0 if one value stands for all.
pub(super) struct Strided<C>(C, usize);

impl<C> Strided<C> {
    /// A column whose rows are so far apart.
    pub(super) fn new(column: C, step: usize) -> Self {
        Self(column, step)
    }

    /// The column.
    pub(super) fn column(&self) -> &C {
        &self.0
    }

    /// How far apart its rows are.
    pub(super) fn step(&self) -> usize {
        self.1
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+));+) => {$(
        impl<'a, $($name: Read<'a>),+> Tuple<'a> for ($($name,)+) {
            type Columns = ($(Strided<$name::Column>,)+);

            #[inline(never)]
            fn columns(arrays: &'a [ArrayRef]) -> Option<Self::Columns> {
                let columns = ($(Strided(
                    $name::column(arrays.get($index)?)?,
                    usize::from(arrays[$index].len() != 1),
                ),)+);
                (arrays.len() == [$($index),+].len()).then_some(columns)
            }

            #[inline]
            fn at(columns: &Self::Columns, row: usize) -> Option<Self> {
                Some(($($name::at(&columns.$index.0, row * columns.$index.1)?,)+))
            }
        }
    )+};
}
tuples!(
    (A 0); (A 0, B 1); (A 0, B 1, C 2); (A 0, B 1, C 2, D 3); (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5); (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
);

impl<'a, T: Read<'a>> Read<'a> for Option<T> {
    type Column = T::Column;

    fn column(array: &'a ArrayRef) -> Option<Self::Column> {
        T::column(array)
    }

    #[inline]
    fn at(column: &Self::Column, row: usize) -> Option<Self> {
        Some(T::at(column, row))
    }
}

macro_rules! read {
    ($($value:ty, $array:ty, |$column:ident, $row:ident| $read:expr;)+) => {$(
        impl<'a> Read<'a> for $value {
            type Column = &'a $array;

            fn column(array: &'a ArrayRef) -> Option<Self::Column> {
                array.as_any().downcast_ref::<$array>()
            }

            #[inline]
            fn at($column: &Self::Column, $row: usize) -> Option<Self> {
                if $column.is_null($row) { None } else { Some($read) }
            }
        }
    )+};
}
read! {
    &'a str, StringViewArray, |column, row| column.value(row);
    &'a [u8], BinaryViewArray, |column, row| column.value(row);
    bool, BooleanArray, |column, row| column.value(row);
    i16, PrimitiveArray<Int16Type>, |column, row| column.value(row);
    i32, PrimitiveArray<Int32Type>, |column, row| column.value(row);
    i64, PrimitiveArray<Int64Type>, |column, row| column.value(row);
    f32, PrimitiveArray<Float32Type>, |column, row| column.value(row);
    f64, PrimitiveArray<Float64Type>, |column, row| column.value(row);
    Date, Date32Array, |column, row| Date(column.value(row));
    Time, Time64MicrosecondArray, |column, row| Time(column.value(row));
    Timestamp, TimestampMicrosecondArray, |column, row| Timestamp(column.value(row));
    IntervalMonthDayNano, IntervalMonthDayNanoArray, |column, row| column.value(row);
    ArrayRef, ListArray, |column, row| column.value(row);
}

/// A column of decimals.
pub(super) enum DecimalColumn<'a> {
    Narrow(&'a Decimal128Array),
    Wide(&'a Decimal256Array),
}

impl<'a> Read<'a> for Decimal {
    type Column = DecimalColumn<'a>;

    fn column(array: &'a ArrayRef) -> Option<Self::Column> {
        match array.data_type() {
            DataType::Decimal128(..) => array.as_any().downcast_ref().map(DecimalColumn::Narrow),
            DataType::Decimal256(..) => array.as_any().downcast_ref().map(DecimalColumn::Wide),
            _ => None,
        }
    }

    #[inline]
    fn at(column: &Self::Column, row: usize) -> Option<Self> {
        match column {
            DecimalColumn::Narrow(array) if array.is_valid(row) => {
                Some(Decimal::new(i256::from_i128(array.value(row)), i32::from(array.scale())))
            }
            DecimalColumn::Wide(array) if array.is_valid(row) => {
                Some(Decimal::new(array.value(row), i32::from(array.scale())))
            }
            _ => None,
        }
    }
}

macro_rules! write {
    ($($value:ty, $arrow:ty, |$this:ident| $written:expr;)+) => {$(
        impl Write for $value {
            type Builder = PrimitiveBuilder<$arrow>;

            #[inline(never)]
            fn builder(rows: usize, data_type: &DataType) -> Result<Self::Builder> {
                if !PrimitiveArray::<$arrow>::is_compatible(data_type) {
                    return Err(mismatch(data_type));
                }
                Ok(PrimitiveBuilder::with_capacity(rows).with_data_type(data_type.clone()))
            }

            #[inline]
            fn append(self, builder: &mut Self::Builder) -> Result<()> {
                let $this = self;
                builder.append_value($written);
                Ok(())
            }

            #[inline(never)]
            fn append_null(builder: &mut Self::Builder) {
                builder.append_null();
            }

            #[inline(never)]
            fn finish(mut builder: Self::Builder) -> Result<ArrayRef> {
                Ok(Arc::new(builder.finish()))
            }
        }
    )+};
}
write! {
    i16, Int16Type, |value| value;
    i32, Int32Type, |value| value;
    i64, Int64Type, |value| value;
    f32, Float32Type, |value| value;
    f64, Float64Type, |value| value;
    Date, Date32Type, |value| value.0;
    Time, Time64MicrosecondType, |value| value.0;
    Timestamp, TimestampMicrosecondType, |value| value.0;
    IntervalMonthDayNano, IntervalMonthDayNanoType, |value| value;
}

fn mismatch(data_type: &DataType) -> Error {
    Error::bug(format!("a kernel does not write {data_type}"))
}

impl Write for bool {
    type Builder = BooleanBuilder;

    #[inline(never)]
    fn builder(rows: usize, data_type: &DataType) -> Result<Self::Builder> {
        match data_type {
            DataType::Boolean => Ok(BooleanBuilder::with_capacity(rows)),
            other => Err(mismatch(other)),
        }
    }

    #[inline]
    fn append(self, builder: &mut Self::Builder) -> Result<()> {
        builder.append_value(self);
        Ok(())
    }

    fn append_null(builder: &mut Self::Builder) {
        builder.append_null();
    }

    #[inline(never)]
    fn finish(mut builder: Self::Builder) -> Result<ArrayRef> {
        Ok(Arc::new(builder.finish()))
    }
}

/// PostgreSQL's limit of one value, for texts and bytes that a function makes.
pub(super) const VALUE_BYTES_MAX: usize = 1 << 30;

/// The error for a value that would be larger than [`VALUE_BYTES_MAX`].
pub(super) fn too_large() -> Error {
    Error::value("requested length too large").with_code("54000")
}

/// Bytes of the blocks in which texts of so many rows lie. A column has room for one more block than it fills, so
/// blocks are small beside it; a longer text has a block of its own.
fn block_bytes(rows: usize) -> u32 {
    const LEAST: u32 = 8 * 1024;
    const MOST: u32 = 128 * 1024;
    u32::try_from(rows.saturating_mul(16)).unwrap_or(MOST).clamp(LEAST, MOST)
}

macro_rules! write_views {
    ($($value:ty, $builder:ty, $data_type:path;)+) => {$(
        impl Write for $value {
            type Builder = $builder;

            #[inline(never)]
            fn builder(rows: usize, data_type: &DataType) -> Result<Self::Builder> {
                match data_type {
                    $data_type => Ok(<$builder>::with_capacity(rows).with_fixed_block_size(block_bytes(rows))),
                    other => Err(mismatch(other)),
                }
            }

            #[inline(never)]
            fn append(self, builder: &mut Self::Builder) -> Result<()> {
                if self.len() > VALUE_BYTES_MAX {
                    return Err(too_large());
                }
                builder.append_value(&self);
                Ok(())
            }

            #[inline(never)]
            fn append_null(builder: &mut Self::Builder) {
                builder.append_null();
            }

            #[inline(never)]
            fn finish(mut builder: Self::Builder) -> Result<ArrayRef> {
                Ok(Arc::new(builder.finish()))
            }
        }
    )+};
}
write_views! {
    String, StringViewBuilder, DataType::Utf8View;
    &str, StringViewBuilder, DataType::Utf8View;
    std::borrow::Cow<'_, str>, StringViewBuilder, DataType::Utf8View;
    Vec<u8>, BinaryViewBuilder, DataType::BinaryView;
    &[u8], BinaryViewBuilder, DataType::BinaryView;
}

/// A column of decimals while it is written.
pub(super) enum DecimalBuilder {
    Narrow(Decimal128Builder, i32, u8),
    Wide(Decimal256Builder, i32, u8),
}

impl Write for Decimal {
    type Builder = DecimalBuilder;

    #[inline(never)]
    fn builder(rows: usize, data_type: &DataType) -> Result<Self::Builder> {
        match data_type {
            DataType::Decimal128(precision, scale) => Ok(DecimalBuilder::Narrow(
                Decimal128Builder::with_capacity(rows).with_data_type(data_type.clone()),
                i32::from(*scale),
                *precision,
            )),
            DataType::Decimal256(precision, scale) => Ok(DecimalBuilder::Wide(
                Decimal256Builder::with_capacity(rows).with_data_type(data_type.clone()),
                i32::from(*scale),
                *precision,
            )),
            other => Err(mismatch(other)),
        }
    }

    #[inline(never)]
    fn append(self, builder: &mut Self::Builder) -> Result<()> {
        match builder {
            DecimalBuilder::Narrow(builder, scale, precision) => {
                let value = self.held_as(*precision, *scale)?;
                builder.append_value(value.to_i128().ok_or_else(super::decimal::overflow)?);
            }
            DecimalBuilder::Wide(builder, scale, precision) => {
                builder.append_value(self.held_as(*precision, *scale)?);
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn append_null(builder: &mut Self::Builder) {
        match builder {
            DecimalBuilder::Narrow(builder, ..) => builder.append_null(),
            DecimalBuilder::Wide(builder, ..) => builder.append_null(),
        }
    }

    #[inline(never)]
    fn finish(builder: Self::Builder) -> Result<ArrayRef> {
        Ok(match builder {
            DecimalBuilder::Narrow(mut builder, ..) => Arc::new(builder.finish()),
            DecimalBuilder::Wide(mut builder, ..) => Arc::new(builder.finish()),
        })
    }
}

impl<T: Write> Write for Option<T> {
    type Builder = T::Builder;

    fn builder(rows: usize, data_type: &DataType) -> Result<Self::Builder> {
        T::builder(rows, data_type)
    }

    #[inline]
    fn append(self, builder: &mut Self::Builder) -> Result<()> {
        match self {
            Some(value) => value.append(builder),
            None => {
                T::append_null(builder);
                Ok(())
            }
        }
    }

    fn append_null(builder: &mut Self::Builder) {
        T::append_null(builder);
    }

    fn finish(builder: Self::Builder) -> Result<ArrayRef> {
        T::finish(builder)
    }
}

/// The elements of a list that a kernel gives.
pub(super) struct List<T>(pub Vec<T>);

/// Lists while they are written.
pub(super) struct ListsBuilder<B> {
    elements: B,
    ends: Vec<i32>,
    valid: Vec<bool>,
    data_type: DataType,
}

impl<B> ListsBuilder<B> {
    fn end(&mut self, length: usize, is_valid: bool) -> Result<()> {
        let end = self.ends.last().copied().unwrap_or(0);
        let end = i32::try_from(length).ok().and_then(|length| end.checked_add(length)).ok_or_else(too_large)?;
        self.ends.push(end);
        self.valid.push(is_valid);
        Ok(())
    }

    fn list(ends: Vec<i32>, valid: Vec<bool>, elements: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
        let DataType::List(item) = data_type else { return Err(mismatch(data_type)) };
        let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
        let list = ListArray::try_new(item.clone(), OffsetBuffer::new(ends.into()), elements, nulls);
        Ok(Arc::new(list.map_err(|error| Error::bug(error.to_string()))?))
    }
}

impl<T: Write> Write for List<T> {
    type Builder = ListsBuilder<T::Builder>;

    fn builder(rows: usize, data_type: &DataType) -> Result<Self::Builder> {
        let DataType::List(item) = data_type else { return Err(mismatch(data_type)) };
        let elements = T::builder(rows, item.data_type())?;
        Ok(ListsBuilder { elements, ends: vec![0], valid: vec![], data_type: data_type.clone() })
    }

    fn append(self, builder: &mut Self::Builder) -> Result<()> {
        builder.end(self.0.len(), true)?;
        self.0.into_iter().try_for_each(|element| element.append(&mut builder.elements))
    }

    fn append_null(builder: &mut Self::Builder) {
        builder.ends.push(builder.ends.last().copied().unwrap_or(0));
        builder.valid.push(false);
    }

    fn finish(builder: Self::Builder) -> Result<ArrayRef> {
        let elements = T::finish(builder.elements)?;
        ListsBuilder::<T::Builder>::list(builder.ends, builder.valid, elements, &builder.data_type)
    }
}

impl Write for ArrayRef {
    type Builder = ListsBuilder<Vec<ArrayRef>>;

    fn builder(_rows: usize, data_type: &DataType) -> Result<Self::Builder> {
        Ok(ListsBuilder { elements: vec![], ends: vec![0], valid: vec![], data_type: data_type.clone() })
    }

    fn append(self, builder: &mut Self::Builder) -> Result<()> {
        builder.end(self.len(), true)?;
        builder.elements.push(self);
        Ok(())
    }

    fn append_null(builder: &mut Self::Builder) {
        builder.ends.push(builder.ends.last().copied().unwrap_or(0));
        builder.valid.push(false);
    }

    fn finish(builder: Self::Builder) -> Result<ArrayRef> {
        let DataType::List(item) = &builder.data_type else { return Err(mismatch(&builder.data_type)) };
        let pieces: Vec<&dyn Array> = builder.elements.iter().map(AsRef::as_ref).collect();
        let elements = match pieces.is_empty() {
            true => new_empty_array(item.data_type()),
            false => concat(&pieces).map_err(|error| Error::bug(error.to_string()))?,
        };
        let elements = match elements.data_type() == item.data_type() {
            true => elements,
            // An element type that differs in the nullability of its own fields only.
            false => {
                arrow::compute::cast(&elements, item.data_type()).map_err(|error| Error::bug(error.to_string()))?
            }
        };
        ListsBuilder::<Vec<ArrayRef>>::list(builder.ends, builder.valid, elements, &builder.data_type)
    }
}

/// The lists of an array. Fails with kind `Bug` if it holds none.
pub(super) fn lists(array: &ArrayRef) -> Result<&ListArray> {
    array.as_list_opt::<i32>().ok_or_else(|| Error::bug(format!("no lists but {}", array.data_type())))
}
