//! Sums: of integers and decimals, exact in 128 bits, and of floats.
//!
//! Exact sums start as 64-bit integers and stay so while a bound on what any group can have reached says it is safe:
//! the largest magnitude of each batch times its rows, added up. That halves the memory of a group and lets the sums of
//! a batch be formed in registers; when the bound runs out, the sums move to 128 bits for good.
//!
//! A sum that does not fit the type of its result is an error, whatever order the values came in; so is one that leaves
//! even 128 bits on its way.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, Float64Array, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal32Type, Decimal64Type, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use diligence_base::{Error, Result};

use crate::batch::{magnitude_bound, to_logical};

use super::{LANE_GROUPS_MAX, LANES, Placement, Seen, for_each_valid, permuted, scatter};

/// What is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum SumKind {
    /// 64-bit integers, signed or not, or decimals of up to 38 digits.
    Exact,
    /// 64-bit floats.
    Float,
}

enum Sums {
    Narrow { sums: Vec<i64>, bound: u64 },
    Wide(Vec<i128>),
    Float(Vec<f64>),
}

/// A sum per group, NULL where no value came.
pub(in super::super) struct SumState {
    sums: Sums,
    seen: Seen,
    always_seen: bool,
    /// Whether some sum has left 128 bits.
    overflowed: bool,
    scratch: Vec<i64>,
}

impl SumState {
    pub fn new(kind: SumKind, always_seen: bool) -> Self {
        let sums = match kind {
            SumKind::Exact => Sums::Narrow { sums: Vec::new(), bound: 0 },
            SumKind::Float => Sums::Float(Vec::new()),
        };
        Self { sums, seen: Seen::new(always_seen), always_seen, overflowed: false, scratch: Vec::new() }
    }

    fn len(&self) -> usize {
        match &self.sums {
            Sums::Narrow { sums, .. } => sums.len(),
            Sums::Wide(sums) => sums.len(),
            Sums::Float(sums) => sums.len(),
        }
    }

    pub fn resize(&mut self, groups: usize) {
        self.seen.resize(self.len(), groups);
        self.grow(groups);
    }

    fn grow(&mut self, groups: usize) {
        let groups = groups.max(self.len());
        match &mut self.sums {
            Sums::Narrow { sums, .. } => sums.resize(groups, 0),
            Sums::Wide(sums) => sums.resize(groups, 0),
            Sums::Float(sums) => sums.resize(groups, 0.0),
        }
    }

    /// Adds a batch's values.
    pub fn update(&mut self, values: &ArrayRef, placement: Placement<'_>) -> Result<()> {
        let decoded;
        let values = match values.data_type() {
            DataType::Dictionary(_, plain) => {
                decoded = to_logical(values, plain)?;
                &decoded
            }
            _ => values,
        };
        let nulls = values.nulls();
        self.seen.update(nulls, placement);
        self.grow(placement.groups);
        match (&mut self.sums, values.data_type()) {
            (Sums::Float(sums), DataType::Float64) => {
                add(sums, values.as_primitive::<Float64Type>().values(), placement, nulls, |a, b| a + b);
            }
            (_, DataType::Int64) => self.add_narrow(values.as_primitive::<Int64Type>().values(), placement, nulls),
            (_, DataType::UInt64) => {
                let values = values.as_primitive::<UInt64Type>().values();
                self.scratch.clear();
                self.scratch.extend(values.iter().map(|&value| value as i64));
                if self.scratch.iter().fold(0, |signs, &value| signs | value) >= 0 {
                    let scratch = std::mem::take(&mut self.scratch);
                    self.add_narrow(&scratch, placement, nulls);
                    self.scratch = scratch;
                } else {
                    self.add_wide(values, placement, nulls, i128::from);
                }
            }
            (_, DataType::Decimal64(..)) => {
                self.add_narrow(values.as_primitive::<Decimal64Type>().values(), placement, nulls);
            }
            (_, DataType::Decimal32(..)) => {
                let values = values.as_primitive::<Decimal32Type>().values();
                let values = values.iter().map(|&value| value as i64).collect::<Vec<_>>();
                self.add_narrow(&values, placement, nulls);
            }
            (_, DataType::Decimal128(..)) => {
                let values = values.as_primitive::<Decimal128Type>().values();
                let mut scratch = std::mem::take(&mut self.scratch);
                if matches!(self.sums, Sums::Narrow { .. }) && narrowed(values, &mut scratch) {
                    self.add_narrow(&scratch, placement, nulls);
                } else {
                    self.add_wide(values, placement, nulls, |value| value);
                }
                self.scratch = scratch;
            }
            (_, other) => return Err(Error::bug(format!("a sum met values of type {other}"))),
        }
        Ok(())
    }

    fn add_narrow(&mut self, values: &[i64], placement: Placement<'_>, nulls: Option<&NullBuffer>) {
        if self.admit(magnitude_bound(values).saturating_mul(values.len() as u64))
            && let Sums::Narrow { sums, .. } = &mut self.sums
        {
            // The bound says that nothing overflows.
            add(sums, values, placement, nulls, i64::wrapping_add);
        } else {
            self.add_wide(values, placement, nulls, i128::from);
        }
    }

    fn add_wide<V: Copy>(
        &mut self,
        values: &[V],
        placement: Placement<'_>,
        nulls: Option<&NullBuffer>,
        widen: impl Fn(V) -> i128,
    ) {
        let overflowed = Cell::new(false);
        add_as(self.wide(), values, placement, nulls, widen, |a, b| noting_overflow(a, b, &overflowed));
        self.overflowed |= overflowed.get();
    }

    /// True if 64-bit sums can take values whose magnitudes sum up to `more`.
    fn admit(&mut self, more: u64) -> bool {
        let Sums::Narrow { bound, .. } = &mut self.sums else { return false };
        match bound.checked_add(more).filter(|&sum| sum <= i64::MAX as u64) {
            Some(sum) => {
                *bound = sum;
                true
            }
            None => false,
        }
    }

    fn wide(&mut self) -> &mut Vec<i128> {
        if let Sums::Narrow { sums, .. } = &self.sums {
            self.sums = Sums::Wide(sums.iter().map(|&sum| sum as i128).collect());
        }
        match &mut self.sums {
            Sums::Wide(sums) => sums,
            _ => unreachable!("only decimal sums are widened"),
        }
    }

    /// Adds another vector's sums.
    pub fn merge(&mut self, other: &SumState, range: Range<usize>, placement: Placement<'_>) {
        self.seen.merge(&other.seen, range.clone(), placement);
        self.grow(placement.groups);
        match &other.sums {
            Sums::Float(theirs) => {
                let Sums::Float(sums) = &mut self.sums else { unreachable!("sums of one kind") };
                scatter(sums, &theirs[range], placement, None, |sum, value| *sum += value);
            }
            Sums::Narrow { sums: theirs, .. } => {
                let theirs = &theirs[range];
                if self.admit(magnitude_bound(theirs).saturating_mul(theirs.len() as u64))
                    && let Sums::Narrow { sums, .. } = &mut self.sums
                {
                    scatter(sums, theirs, placement, None, |sum, value| *sum = sum.wrapping_add(value));
                } else {
                    self.merge_wide(theirs, placement, i128::from);
                }
            }
            Sums::Wide(theirs) => self.merge_wide(&theirs[range], placement, |value| value),
        }
        self.overflowed |= other.overflowed;
    }

    fn merge_wide<V: Copy>(&mut self, theirs: &[V], placement: Placement<'_>, widen: impl Fn(V) -> i128) {
        let overflowed = Cell::new(false);
        scatter(self.wide(), theirs, placement, None, |sum, value| {
            *sum = noting_overflow(*sum, widen(value), &overflowed);
        });
        self.overflowed |= overflowed.get();
    }

    pub fn permuted(&self, order: &[u32]) -> Self {
        let sums = match &self.sums {
            Sums::Narrow { sums, bound } => Sums::Narrow { sums: permuted(sums, order, 0), bound: *bound },
            Sums::Wide(sums) => Sums::Wide(permuted(sums, order, 0)),
            Sums::Float(sums) => Sums::Float(permuted(sums, order, 0.0)),
        };
        let seen = self.seen.permuted(order);
        Self { sums, seen, always_seen: self.always_seen, overflowed: self.overflowed, scratch: Vec::new() }
    }

    /// Forgets all groups, but not that a sum has overflowed.
    pub fn clear(&mut self) {
        match &mut self.sums {
            Sums::Narrow { sums, bound } => {
                sums.clear();
                *bound = 0;
            }
            Sums::Wide(sums) => sums.clear(),
            Sums::Float(sums) => sums.clear(),
        }
        self.seen = Seen::new(self.always_seen);
    }

    /// The sums of groups `range` for temp space, in the form that they have. Fails if one has left 128 bits.
    pub fn column(&self, range: Range<usize>) -> Result<ArrayRef> {
        if self.overflowed {
            return Err(Error::value("arithmetic overflow: a sum does not fit 128 bits"));
        }
        let nulls = self.seen.nulls(range.clone());
        Ok(match &self.sums {
            Sums::Narrow { sums, .. } => Arc::new(PrimitiveArray::<Int64Type>::new(sums[range].to_vec().into(), nulls)),
            Sums::Wide(sums) => Arc::new(Decimal128Array::new(sums[range].to_vec().into(), nulls)),
            Sums::Float(sums) => Arc::new(Float64Array::new(sums[range].to_vec().into(), nulls)),
        })
    }

    /// Sums out of such a column. Where it is NULL, the sum is zero.
    pub fn of_column(&self, column: &ArrayRef) -> Result<Self> {
        let sums = match column.data_type() {
            DataType::Int64 => Sums::Narrow { sums: values_of::<Int64Type>(column), bound: i64::MAX as u64 },
            DataType::Decimal128(..) => Sums::Wide(values_of::<Decimal128Type>(column)),
            DataType::Float64 => Sums::Float(values_of::<Float64Type>(column)),
            other => return Err(Error::bug(format!("sums came out of temp space as {other}"))),
        };
        let (seen, always_seen) = (Seen::of_nulls(column.nulls()), self.always_seen);
        Ok(Self { sums, seen, always_seen, overflowed: false, scratch: Vec::new() })
    }

    pub fn bytes(&self) -> usize {
        let sums = match &self.sums {
            Sums::Narrow { sums, .. } => sums.capacity() * 8,
            Sums::Wide(sums) => sums.capacity() * 16,
            Sums::Float(sums) => sums.capacity() * 8,
        };
        sums + self.seen.bytes() + self.scratch.capacity() * 8
    }

    pub fn bytes_per_group(&self) -> usize {
        1 + if matches!(self.sums, Sums::Wide(_)) { 16 } else { 8 }
    }

    /// Whether some sum has left 128 bits, so that the totals are worth nothing.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// A decimal or integer sum.
    pub fn total(&self, group: usize) -> i128 {
        match &self.sums {
            Sums::Narrow { sums, .. } => sums[group] as i128,
            Sums::Wide(sums) => sums[group],
            Sums::Float(sums) => sums[group] as i128,
        }
    }

    /// A float sum.
    pub fn float_total(&self, group: usize) -> f64 {
        match &self.sums {
            Sums::Float(sums) => sums[group],
            _ => self.total(group) as f64,
        }
    }

    /// The sums of groups `range` as an array.
    pub fn output(&self, range: Range<usize>, data_type: &DataType) -> Result<ArrayRef> {
        let nulls = self.seen.nulls(range.clone());
        let overflow = || overflow(data_type);
        if self.overflowed {
            return Err(overflow());
        }
        Ok(match (&self.sums, data_type) {
            (Sums::Narrow { sums, .. }, DataType::Int64) => {
                Arc::new(PrimitiveArray::<Int64Type>::new(sums[range].to_vec().into(), nulls))
            }
            (Sums::Wide(_), DataType::Int64) => {
                let sums = range.map(|group| i64::try_from(self.total(group))).collect::<Result<Vec<_>, _>>();
                Arc::new(PrimitiveArray::<Int64Type>::new(sums.map_err(|_| overflow())?.into(), nulls))
            }
            (Sums::Narrow { .. } | Sums::Wide(_), DataType::UInt64) => {
                let sums = range.map(|group| u64::try_from(self.total(group))).collect::<Result<Vec<_>, _>>();
                Arc::new(PrimitiveArray::<UInt64Type>::new(sums.map_err(|_| overflow())?.into(), nulls))
            }
            (Sums::Narrow { .. } | Sums::Wide(_), DataType::Decimal128(precision, _)) => {
                let limit = 10i128.checked_pow(u32::from(*precision)).unwrap_or(i128::MAX);
                let sums = range.map(|group| self.total(group)).collect::<Vec<_>>();
                if sums.iter().any(|&sum| sum >= limit || sum <= -limit) {
                    return Err(overflow());
                }
                Arc::new(Decimal128Array::new(sums.into(), nulls).with_data_type(data_type.clone()))
            }
            (Sums::Float(sums), DataType::Float64) => Arc::new(Float64Array::new(sums[range].to_vec().into(), nulls)),
            (_, other) => return Err(Error::bug(format!("a sum cannot come out as {other}"))),
        })
    }
}

/// What a sum says that does not fit the type of its result.
pub fn overflow(data_type: &DataType) -> Error {
    let error = Error::value(format!("arithmetic overflow: a sum does not fit {data_type}"));
    error.with_hint("cast what is summed to a wider type, such as DECIMAL(38, 0) or DOUBLE")
}

/// The values of a column; zero where it is NULL.
fn values_of<T: ArrowPrimitiveType>(column: &ArrayRef) -> Vec<T::Native> {
    let column = column.as_primitive::<T>();
    match column.nulls() {
        None => column.values().to_vec(),
        Some(_) => column.iter().map(Option::unwrap_or_default).collect(),
    }
}

/// The sum of two numbers, wrapped around if it must be, which is then noted.
#[inline(always)]
fn noting_overflow(a: i128, b: i128, overflowed: &Cell<bool>) -> i128 {
    let (sum, over) = a.overflowing_add(b);
    overflowed.set(overflowed.get() | over);
    sum
}

/// The values in 64 bits, if all of them fit.
fn narrowed(values: &[i128], narrow: &mut Vec<i64>) -> bool {
    narrow.clear();
    narrow.extend(values.iter().map(|&value| value as i64));
    let lost = values.iter().zip(narrow.iter()).fold(0i128, |lost, (&wide, &narrow)| lost | (wide ^ narrow as i128));
    lost == 0
}

fn add<T: Copy + Default>(
    sums: &mut [T],
    values: &[T],
    placement: Placement<'_>,
    nulls: Option<&NullBuffer>,
    plus: impl Fn(T, T) -> T,
) {
    add_as(sums, values, placement, nulls, |value| value, plus);
}

/// Adds `widen(value)` of each row to its group's sum.
#[inline(always)]
fn add_as<T: Copy + Default, V: Copy>(
    sums: &mut [T],
    values: &[V],
    placement: Placement<'_>,
    nulls: Option<&NullBuffer>,
    widen: impl Fn(V) -> T,
    plus: impl Fn(T, T) -> T,
) {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    match (placement.ids, nulls) {
        (None, None) => {
            assert_eq!(values.len(), placement.rows, "as many values as rows");
            sums[0] = plus(sums[0], total(values, widen, plus_ref(&plus)));
        }
        (None, Some(nulls)) => {
            let mut sum = sums[0];
            for_each_valid(nulls, |row| sum = plus(sum, widen(values[row])));
            sums[0] = sum;
        }
        (Some(ids), None) if placement.few_groups() => {
            let mut lanes = [T::default(); LANE_GROUPS_MAX * LANES];
            let (mut id_chunks, mut value_chunks) = (ids.chunks_exact(LANES), values.chunks_exact(LANES));
            for (ids, values) in (&mut id_chunks).zip(&mut value_chunks) {
                for lane in 0..LANES {
                    let sum = &mut lanes[(ids[lane] as usize * LANES + lane) & (LANE_GROUPS_MAX * LANES - 1)];
                    *sum = plus(*sum, widen(values[lane]));
                }
            }
            for (&id, &value) in id_chunks.remainder().iter().zip(value_chunks.remainder()) {
                sums[id as usize] = plus(sums[id as usize], widen(value));
            }
            for (sum, lanes) in sums.iter_mut().zip(lanes.chunks_exact(LANES)) {
                *sum = lanes.iter().fold(*sum, |sum, &lane| plus(sum, lane));
            }
        }
        _ => scatter(sums, values, placement, nulls, |sum, value| *sum = plus(*sum, widen(value))),
    }
}

fn plus_ref<T>(plus: &impl Fn(T, T) -> T) -> impl Fn(T, T) -> T + '_ {
    move |a, b| plus(a, b)
}

/// The sum of all values, in independent parts so that the processor adds several at once.
#[inline(always)]
fn total<T: Copy + Default, V: Copy>(values: &[V], widen: impl Fn(V) -> T, plus: impl Fn(T, T) -> T) -> T {
    const PARTS: usize = 16;
    let mut parts = [T::default(); PARTS];
    let mut chunks = values.chunks_exact(PARTS);
    for chunk in &mut chunks {
        for (part, &value) in parts.iter_mut().zip(chunk) {
            *part = plus(*part, widen(value));
        }
    }
    let sum = parts.into_iter().fold(T::default(), &plus);
    chunks.remainder().iter().fold(sum, |sum, &value| plus(sum, widen(value)))
}
