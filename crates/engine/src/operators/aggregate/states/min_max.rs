//! The least or the greatest value per group, for every type with a fixed width and an order, and
//! ([`extreme_bytes`](super::extreme_bytes)) for strings. Bits that any value has are kept in the same way.
//!
//! Floats are in total order: NaN is greater than every number. (DataFusion's grouped accumulators take a NaN or not
//! depending on the order of rows; an answer must not depend on how work was split.)

use std::any::Any;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, make_array};
use arrow::datatypes::*;
use diligence_base::{Error, Result};

use crate::batch::floats::canonical_floats;
use crate::batch::to_logical;

use super::extreme::MinMaxState;
use super::extreme_bytes::extreme_bytes;
use super::{LANE_GROUPS_MAX, LANES, Placement, Seen, permuted, scatter};

/// A state for the type, if there is one.
pub(in super::super) fn min_max_state(data_type: &DataType, max: bool, seen: bool) -> Option<Box<dyn MinMaxState>> {
    fn state<T: ArrowPrimitiveType>(data_type: &DataType, max: bool, seen: bool) -> Option<Box<dyn MinMaxState>>
    where
        T::Native: Ordered,
    {
        let data_type = data_type.clone();
        Some(match max {
            true => Box::new(Extremes::<T, Greatest>::new(data_type, seen)),
            false => Box::new(Extremes::<T, Least>::new(data_type, seen)),
        })
    }
    match data_type {
        DataType::Int8 => state::<Int8Type>(data_type, max, seen),
        DataType::Int16 => state::<Int16Type>(data_type, max, seen),
        DataType::UInt8 => state::<UInt8Type>(data_type, max, seen),
        DataType::UInt16 => state::<UInt16Type>(data_type, max, seen),
        DataType::UInt32 => state::<UInt32Type>(data_type, max, seen),
        DataType::UInt64 => state::<UInt64Type>(data_type, max, seen),
        DataType::Float32 => state::<Float32Type>(data_type, max, seen),
        DataType::Float64 => state::<Float64Type>(data_type, max, seen),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => state::<Int32Type>(data_type, max, seen),
        DataType::Int64 | DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) => {
            state::<Int64Type>(data_type, max, seen)
        }
        DataType::Decimal128(..) => state::<Decimal128Type>(data_type, max, seen),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => Some(extreme_bytes(data_type, max)),
        _ => None,
    }
}

/// A state for the bits that any of a group's values has.
pub(in super::super) fn any_bits_state(seen: bool) -> Box<dyn MinMaxState> {
    Box::new(Extremes::<UInt64Type, AnyBits>::new(DataType::UInt64, seen))
}

/// Whether a column's values are in memory as those of a state are.
fn is_held_as(column: &DataType, state: &DataType) -> bool {
    match (column, state) {
        (DataType::Timestamp(one, _), DataType::Timestamp(other, _)) => one == other,
        (DataType::Decimal128(..), DataType::Decimal128(..)) => true,
        (one, other) => one == other,
    }
}

/// Dates and times as the integers that they are in memory: one state is for all of them.
fn as_integers(array: &ArrayRef) -> ArrayRef {
    fn integers<T: ArrowPrimitiveType, I: ArrowPrimitiveType<Native = T::Native>>(array: &ArrayRef) -> ArrayRef {
        Arc::new(array.as_primitive::<T>().reinterpret_cast::<I>())
    }
    match array.data_type() {
        DataType::Date32 => integers::<Date32Type, Int32Type>(array),
        DataType::Time32(TimeUnit::Second) => integers::<Time32SecondType, Int32Type>(array),
        DataType::Time32(TimeUnit::Millisecond) => integers::<Time32MillisecondType, Int32Type>(array),
        DataType::Date64 => integers::<Date64Type, Int64Type>(array),
        DataType::Time64(TimeUnit::Microsecond) => integers::<Time64MicrosecondType, Int64Type>(array),
        DataType::Time64(TimeUnit::Nanosecond) => integers::<Time64NanosecondType, Int64Type>(array),
        DataType::Timestamp(TimeUnit::Second, _) => integers::<TimestampSecondType, Int64Type>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => integers::<TimestampMillisecondType, Int64Type>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => integers::<TimestampMicrosecondType, Int64Type>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => integers::<TimestampNanosecondType, Int64Type>(array),
        _ => array.clone(),
    }
}

/// A native value with a total order and its ends.
trait Ordered: Copy + Send + Sync + 'static {
    const LEAST: Self;
    const GREATEST: Self;
    fn order(self, other: Self) -> Ordering;
}

macro_rules! ordered_integers {
    ($($native:ty),*) => {$(
        impl Ordered for $native {
            const LEAST: Self = <$native>::MIN;
            const GREATEST: Self = <$native>::MAX;
            #[inline(always)]
            fn order(self, other: Self) -> Ordering {
                self.cmp(&other)
            }
        }
    )*};
}
ordered_integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

macro_rules! ordered_floats {
    ($($native:ty, $bits:ty),*) => {$(
        impl Ordered for $native {
            // The ends of the total order are NaNs, of which the values have only the greatest.
            const LEAST: Self = <$native>::from_bits(<$bits>::MAX);
            const GREATEST: Self = <$native>::from_bits(<$bits>::MAX >> 1);
            #[inline(always)]
            fn order(self, other: Self) -> Ordering {
                self.total_cmp(&other)
            }
        }
    )*};
}
ordered_floats!(f32, u32, f64, u64);

/// What is kept of two values.
trait Choice<N>: 'static {
    /// What any value is kept instead of.
    const START: N;
    fn of(value: N, kept: N) -> N;
}

struct Least;
struct Greatest;
struct AnyBits;

impl<N: Ordered> Choice<N> for Least {
    const START: N = N::GREATEST;
    #[inline(always)]
    fn of(value: N, kept: N) -> N {
        if value.order(kept) == Ordering::Less { value } else { kept }
    }
}

impl<N: Ordered> Choice<N> for Greatest {
    const START: N = N::LEAST;
    #[inline(always)]
    fn of(value: N, kept: N) -> N {
        if value.order(kept) == Ordering::Greater { value } else { kept }
    }
}

impl Choice<u64> for AnyBits {
    const START: u64 = 0;
    #[inline(always)]
    fn of(value: u64, kept: u64) -> u64 {
        value | kept
    }
}

struct Extremes<T: ArrowPrimitiveType, C> {
    data_type: DataType,
    values: Vec<T::Native>,
    seen: Seen,
    always_seen: bool,
    phantom: PhantomData<fn() -> (T, C)>,
}

impl<T: ArrowPrimitiveType, C: Choice<T::Native>> Extremes<T, C> {
    fn new(data_type: DataType, always_seen: bool) -> Self {
        Self { data_type, values: Vec::new(), seen: Seen::new(always_seen), always_seen, phantom: PhantomData }
    }

    fn look_at(&mut self, values: &[T::Native], placement: Placement<'_>, nulls: Option<&arrow::buffer::NullBuffer>) {
        self.values.resize(placement.groups.max(self.values.len()), C::START);
        let has_nulls = nulls.is_some_and(|nulls| nulls.null_count() > 0);
        match placement.ids {
            None if !has_nulls => {
                let mut parts = [C::START; 8];
                let mut chunks = values.chunks_exact(8);
                for chunk in &mut chunks {
                    for (part, &value) in parts.iter_mut().zip(chunk) {
                        *part = C::of(value, *part);
                    }
                }
                let all = parts.iter().chain(chunks.remainder());
                self.values[0] = all.fold(self.values[0], |best, &value| C::of(value, best));
            }
            Some(ids) if !has_nulls && placement.few_groups() => {
                let mut lanes = [C::START; LANE_GROUPS_MAX * LANES];
                for (row, (&id, &value)) in ids.iter().zip(values).enumerate() {
                    let lane = (id as usize * LANES + row % LANES) & (LANE_GROUPS_MAX * LANES - 1);
                    lanes[lane] = C::of(value, lanes[lane]);
                }
                for (best, lanes) in self.values.iter_mut().zip(lanes.chunks_exact(LANES)) {
                    *best = lanes.iter().fold(*best, |best, &value| C::of(value, best));
                }
            }
            _ => scatter(&mut self.values, values, placement, nulls, |best, value| *best = C::of(value, *best)),
        }
    }
}

impl<T: ArrowPrimitiveType, C: Choice<T::Native>> MinMaxState for Extremes<T, C> {
    fn update(&mut self, values: &ArrayRef, placement: Placement<'_>) -> Result<()> {
        let mut values = canonical_floats(values)?;
        if !is_held_as(values.data_type(), &self.data_type) {
            // A narrow decimal, or a dictionary.
            values = to_logical(&values, &self.data_type)?;
        }
        let values = as_integers(&values);
        let array = values
            .as_primitive_opt::<T>()
            .ok_or_else(|| Error::bug(format!("min or max met values of type {}", values.data_type())))?;
        self.seen.update(array.nulls(), placement);
        self.look_at(array.values(), placement, array.nulls());
        Ok(())
    }

    fn merge(&mut self, other: &dyn MinMaxState, range: Range<usize>, placement: Placement<'_>) -> Result<()> {
        let Some(other) = other.as_any().downcast_ref::<Self>() else {
            return Err(Error::bug("min or max states of different types met"));
        };
        self.seen.merge(&other.seen, range.clone(), placement);
        self.values.resize(placement.groups.max(self.values.len()), C::START);
        scatter(&mut self.values, &other.values[range], placement, None, |best, value| {
            *best = C::of(value, *best);
        });
        Ok(())
    }

    fn resize(&mut self, groups: usize) {
        self.seen.resize(self.values.len(), groups);
        self.values.resize(groups.max(self.values.len()), C::START);
    }

    fn permuted(&self, order: &[u32]) -> Box<dyn MinMaxState> {
        let values = permuted(&self.values, order, C::START);
        let (seen, data_type) = (self.seen.permuted(order), self.data_type.clone());
        Box::new(Self { data_type, values, seen, always_seen: self.always_seen, phantom: PhantomData })
    }

    fn clear(&mut self) {
        self.values.clear();
        self.seen = Seen::new(self.always_seen);
    }

    fn output(&self, range: Range<usize>) -> Result<ArrayRef> {
        let nulls = self.seen.nulls(range.clone());
        let array = PrimitiveArray::<T>::new(self.values[range].to_vec().into(), nulls);
        let data = array.into_data().into_builder().data_type(self.data_type.clone());
        Ok(make_array(data.build().map_err(|error| Error::bug(error.to_string()))?))
    }

    fn of_column(&self, column: &ArrayRef) -> Result<Box<dyn MinMaxState>> {
        let integers = as_integers(column);
        let Some(array) = integers.as_primitive_opt::<T>() else {
            return Err(Error::bug(format!("extremes came out of temp space as {}", column.data_type())));
        };
        let values = match array.nulls() {
            None => array.values().to_vec(),
            Some(_) => array.iter().map(|value| value.unwrap_or(C::START)).collect(),
        };
        let (seen, data_type) = (Seen::of_nulls(array.nulls()), self.data_type.clone());
        Ok(Box::new(Self { data_type, values, seen, always_seen: self.always_seen, phantom: PhantomData }))
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.seen.bytes()
    }

    fn bytes_per_group(&self) -> usize {
        size_of::<T::Native>() + 1
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
