//! Sums: of integers and decimals, exact in 128 or 256 bits, and of floats.
//!
//! Exact sums start as 64-bit integers and stay so while a bound on what any group can have reached says it is safe:
//! the largest magnitude of each batch times its rows, added up. That halves the memory of a group and lets the sums of
//! a batch be formed in registers; when the bound runs out, the sums move to 128 bits for good. Sums whose type has
//! more digits than 128 bits hold move on to 256 bits in the same way; few ever do.
//!
//! A sum that does not fit the type of its result is an error, whatever order the values came in; so is one that leaves
//! even its widest form on its way.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, Decimal256Array, Float64Array, PrimitiveArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float64Type, Int64Type, UInt64Type, i256,
};
use diligence_base::{Error, Result};

use crate::batch::{magnitude_bound, to_logical};

use super::{LANE_GROUPS_MAX, LANES, Placement, Seen, for_each_valid, permuted, scatter};

/// What is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum SumKind {
    /// 64-bit integers, signed or not, or decimals of up to 38 digits.
    Exact,
    /// Decimals whose sum may have up to 76 digits.
    ExactWidest,
    /// 64-bit floats.
    Float,
}

enum Sums {
    Narrow { sums: Vec<i64>, bound: u64 },
    Wide(Vec<i128>),
    Widest(Vec<i256>),
    Float(Vec<f64>),
}

/// A sum per group, NULL where no value came.
pub(in super::super) struct SumState {
    sums: Sums,
    seen: Seen,
    always_seen: bool,
    /// Whether sums may move on to 256 bits.
    may_be_widest: bool,
    /// Then, for sums of 128 bits: what the magnitude of none is above.
    wide_bound: u128,
    /// Whether some sum has left its widest form.
    overflowed: bool,
    scratch: Vec<i64>,
}

impl SumState {
    pub fn new(kind: SumKind, always_seen: bool) -> Self {
        let sums = match kind {
            SumKind::Exact | SumKind::ExactWidest => Sums::Narrow { sums: Vec::new(), bound: 0 },
            SumKind::Float => Sums::Float(Vec::new()),
        };
        let may_be_widest = kind == SumKind::ExactWidest;
        Self { seen: Seen::new(always_seen), always_seen, ..Self::of(sums, may_be_widest) }
    }

    fn of(sums: Sums, may_be_widest: bool) -> Self {
        let wide_bound = if matches!(sums, Sums::Wide(_)) { i128::MAX.unsigned_abs() } else { 0 };
        let (seen, scratch) = (Seen::new(false), Vec::new());
        Self { sums, seen, always_seen: false, may_be_widest, wide_bound, overflowed: false, scratch }
    }

    fn len(&self) -> usize {
        match &self.sums {
            Sums::Narrow { sums, .. } => sums.len(),
            Sums::Wide(sums) => sums.len(),
            Sums::Widest(sums) => sums.len(),
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
            Sums::Widest(sums) => sums.resize(groups, i256::ZERO),
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
            (_, DataType::Decimal256(..)) => {
                let values = values.as_primitive::<Decimal256Type>().values();
                match values.iter().map(|value| value.to_i128()).collect::<Option<Vec<_>>>() {
                    Some(values) => self.add_wide(&values, placement, nulls, |value| value),
                    None => self.add_widest(values, placement, nulls, |value| value),
                }
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
        match self.wide_for(values, &widen) {
            Some(sums) => add_as(sums, values, placement, nulls, widen, |a, b| noting_overflow(a, b, &overflowed)),
            None => self.add_widest(values, placement, nulls, |value| i256::from_i128(widen(value))),
        }
        self.overflowed |= overflowed.get();
    }

    fn add_widest<V: Copy>(
        &mut self,
        values: &[V],
        placement: Placement<'_>,
        nulls: Option<&NullBuffer>,
        widen: impl Fn(V) -> i256,
    ) {
        let overflowed = Cell::new(false);
        add_as(self.widest(), values, placement, nulls, widen, |a, b| noting_widest_overflow(a, b, &overflowed));
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

    /// The sums in 128 bits, to which such values are to be added; `None` if they are wider, or might have to be.
    fn wide_for<V: Copy>(&mut self, values: &[V], widen: impl Fn(V) -> i128) -> Option<&mut Vec<i128>> {
        if let Sums::Narrow { sums, bound } = &self.sums {
            self.wide_bound = u128::from(*bound);
            self.sums = Sums::Wide(sums.iter().map(|&sum| sum as i128).collect());
        }
        if self.may_be_widest && matches!(self.sums, Sums::Wide(_)) {
            let largest = values.iter().fold(0, |largest: u128, &value| largest.max(widen(value).unsigned_abs()));
            let more = largest.saturating_mul(values.len() as u128);
            self.wide_bound = self.wide_bound.saturating_add(more);
            if self.wide_bound > i128::MAX.unsigned_abs() {
                return None;
            }
        }
        match &mut self.sums {
            Sums::Wide(sums) => Some(sums),
            _ => None,
        }
    }

    fn widest(&mut self) -> &mut Vec<i256> {
        match &self.sums {
            Sums::Narrow { sums, .. } => {
                self.sums = Sums::Widest(sums.iter().map(|&sum| i256::from(sum)).collect());
            }
            Sums::Wide(sums) => self.sums = Sums::Widest(sums.iter().map(|&sum| i256::from_i128(sum)).collect()),
            _ => {}
        }
        match &mut self.sums {
            Sums::Widest(sums) => sums,
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
            Sums::Widest(theirs) => self.merge_widest(&theirs[range], placement, |value| value),
        }
        self.overflowed |= other.overflowed;
    }

    fn merge_wide<V: Copy>(&mut self, theirs: &[V], placement: Placement<'_>, widen: impl Fn(V) -> i128) {
        let overflowed = Cell::new(false);
        match self.wide_for(theirs, &widen) {
            Some(sums) => scatter(sums, theirs, placement, None, |sum, value| {
                *sum = noting_overflow(*sum, widen(value), &overflowed);
            }),
            None => self.merge_widest(theirs, placement, |value| i256::from_i128(widen(value))),
        }
        self.overflowed |= overflowed.get();
    }

    fn merge_widest<V: Copy>(&mut self, theirs: &[V], placement: Placement<'_>, widen: impl Fn(V) -> i256) {
        let overflowed = Cell::new(false);
        scatter(self.widest(), theirs, placement, None, |sum, value| {
            *sum = noting_widest_overflow(*sum, widen(value), &overflowed);
        });
        self.overflowed |= overflowed.get();
    }

    pub fn permuted(&self, order: &[u32]) -> Self {
        let sums = match &self.sums {
            Sums::Narrow { sums, bound } => Sums::Narrow { sums: permuted(sums, order, 0), bound: *bound },
            Sums::Wide(sums) => Sums::Wide(permuted(sums, order, 0)),
            Sums::Widest(sums) => Sums::Widest(permuted(sums, order, i256::ZERO)),
            Sums::Float(sums) => Sums::Float(permuted(sums, order, 0.0)),
        };
        let seen = self.seen.permuted(order);
        let Self { always_seen, may_be_widest, wide_bound, overflowed, .. } = *self;
        Self { sums, seen, always_seen, may_be_widest, wide_bound, overflowed, scratch: Vec::new() }
    }

    /// Forgets all groups, but not that a sum has overflowed.
    pub fn clear(&mut self) {
        match &mut self.sums {
            Sums::Narrow { sums, bound } => {
                sums.clear();
                *bound = 0;
            }
            Sums::Wide(sums) => sums.clear(),
            Sums::Widest(sums) => sums.clear(),
            Sums::Float(sums) => sums.clear(),
        }
        self.wide_bound = 0;
        self.seen = Seen::new(self.always_seen);
    }

    /// The sums of groups `range` for temp space, in the form that they have. Fails if one has left its widest form.
    pub fn column(&self, range: Range<usize>) -> Result<ArrayRef> {
        if self.overflowed {
            return Err(match self.may_be_widest {
                true => too_many_digits(),
                false => Error::value("arithmetic overflow: a sum does not fit 128 bits"),
            });
        }
        let nulls = self.seen.nulls(range.clone());
        Ok(match &self.sums {
            Sums::Narrow { sums, .. } => Arc::new(PrimitiveArray::<Int64Type>::new(sums[range].to_vec().into(), nulls)),
            Sums::Wide(sums) => Arc::new(Decimal128Array::new(sums[range].to_vec().into(), nulls)),
            Sums::Widest(sums) => Arc::new(Decimal256Array::new(sums[range].to_vec().into(), nulls)),
            Sums::Float(sums) => Arc::new(Float64Array::new(sums[range].to_vec().into(), nulls)),
        })
    }

    /// Sums out of such a column. Where it is NULL, the sum is zero.
    pub fn of_column(&self, column: &ArrayRef) -> Result<Self> {
        let sums = match column.data_type() {
            DataType::Int64 => Sums::Narrow { sums: values_of::<Int64Type>(column), bound: i64::MAX as u64 },
            DataType::Decimal128(..) => Sums::Wide(values_of::<Decimal128Type>(column)),
            DataType::Decimal256(..) => Sums::Widest(values_of::<Decimal256Type>(column)),
            DataType::Float64 => Sums::Float(values_of::<Float64Type>(column)),
            other => return Err(Error::bug(format!("sums came out of temp space as {other}"))),
        };
        let (seen, always_seen) = (Seen::of_nulls(column.nulls()), self.always_seen);
        Ok(Self { seen, always_seen, ..Self::of(sums, self.may_be_widest) })
    }

    pub fn bytes(&self) -> usize {
        let sums = match &self.sums {
            Sums::Narrow { sums, .. } => sums.capacity() * 8,
            Sums::Wide(sums) => sums.capacity() * 16,
            Sums::Widest(sums) => sums.capacity() * 32,
            Sums::Float(sums) => sums.capacity() * 8,
        };
        sums + self.seen.bytes() + self.scratch.capacity() * 8
    }

    pub fn bytes_per_group(&self) -> usize {
        1 + match self.sums {
            Sums::Narrow { .. } | Sums::Float(_) => 8,
            Sums::Wide(_) => 16,
            Sums::Widest(_) => 32,
        }
    }

    /// Whether some sum has left its widest form, so that the totals are worth nothing.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// A decimal or integer sum of 128 bits.
    pub fn total(&self, group: usize) -> i128 {
        match &self.sums {
            Sums::Narrow { sums, .. } => sums[group] as i128,
            Sums::Wide(sums) => sums[group],
            Sums::Widest(sums) => sums[group].as_i128(),
            Sums::Float(sums) => sums[group] as i128,
        }
    }

    fn widest_total(&self, group: usize) -> i256 {
        match &self.sums {
            Sums::Widest(sums) => sums[group],
            _ => i256::from_i128(self.total(group)),
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
            (Sums::Narrow { .. } | Sums::Wide(_) | Sums::Widest(_), DataType::Decimal256(precision, _)) => {
                let limit = i256::from(10).checked_pow(u32::from(*precision)).unwrap_or(i256::MAX);
                let sums = range.map(|group| self.widest_total(group)).collect::<Vec<_>>();
                if sums.iter().any(|&sum| sum >= limit || sum <= limit.wrapping_neg()) {
                    return Err(overflow());
                }
                Arc::new(Decimal256Array::new(sums.into(), nulls).with_data_type(data_type.clone()))
            }
            (Sums::Float(sums), DataType::Float64) => Arc::new(Float64Array::new(sums[range].to_vec().into(), nulls)),
            (_, other) => return Err(Error::bug(format!("a sum cannot come out as {other}"))),
        })
    }
}

/// What a sum says that does not fit the type of its result.
pub fn overflow(data_type: &DataType) -> Error {
    if matches!(data_type, DataType::Decimal256(..)) {
        return too_many_digits();
    }
    let error = Error::value(format!("arithmetic overflow: a sum does not fit {data_type}"));
    error.with_hint("cast what is summed to a wider type, such as DECIMAL(38, 0) or DOUBLE")
}

fn too_many_digits() -> Error {
    Error::value("value overflows numeric format").with_code("22003")
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

/// The same in 256 bits.
#[inline(always)]
fn noting_widest_overflow(a: i256, b: i256, overflowed: &Cell<bool>) -> i256 {
    a.checked_add(b).unwrap_or_else(|| {
        overflowed.set(true);
        a.wrapping_add(b)
    })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GROUPS: usize = 5;
    const DIGITS: DataType = DataType::Decimal256(76, 3);

    /// Values of all widths: of a few digits, of more than 64 bits, of nearly 128, and of more.
    fn value() -> impl Strategy<Value = i256> {
        let wide = |value: i128| i256::from_i128(value);
        let most = 10i128.pow(38) - 1;
        prop_oneof![
            8 => (-1000i128..1000).prop_map(wide),
            2 => any::<i64>().prop_map(move |value| wide(i128::from(value) * 100)),
            1 => (-most..=most).prop_map(wide),
            1 => (-most..=most).prop_map(move |value| wide(value).wrapping_mul(i256::from_i128(1 << 70))),
        ]
    }

    /// The narrowest array of decimals that has the values.
    fn array(values: &[Option<i256>]) -> ArrayRef {
        let narrow = values.iter().map(|value| value.map_or(Some(None), |value| value.to_i128().map(Some)));
        match narrow.collect::<Option<Vec<_>>>() {
            Some(values) => Arc::new(Decimal128Array::from(values)),
            None => Arc::new(Decimal256Array::from(values.to_vec())),
        }
    }

    fn sums(batches: &[Vec<(u32, Option<i256>)>]) -> SumState {
        let mut state = SumState::new(SumKind::ExactWidest, false);
        // Every group begins with a row.
        let ids = (0..GROUPS as u32).collect::<Vec<_>>();
        let first = Placement { ids: Some(&ids), rows: GROUPS, before: 0, groups: GROUPS, appended: true };
        state.update(&array(&[None; GROUPS]), first).unwrap();
        for batch in batches {
            let (ids, values) = batch.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>();
            let placement =
                Placement { ids: Some(&ids), rows: ids.len(), before: GROUPS, groups: GROUPS, appended: false };
            state.update(&array(&values), placement).unwrap();
        }
        state.resize(GROUPS);
        state
    }

    proptest! {
        #[test]
        fn sums_of_all_widths_are_exact(
            batches in prop::collection::vec(
                prop::collection::vec((0..GROUPS as u32, prop::option::weighted(0.9, value())), 1..60), 1..6),
            others in prop::collection::vec(
                prop::collection::vec((0..GROUPS as u32, prop::option::weighted(0.9, value())), 1..60), 1..3),
            through_temp_space in any::<bool>(),
        ) {
            let (mut state, mut other) = (sums(&batches), sums(&others));
            if through_temp_space {
                other = other.of_column(&other.column(0..GROUPS).unwrap()).unwrap();
            }
            let ids = (0..GROUPS as u32).collect::<Vec<_>>();
            let placement = Placement {
                ids: Some(&ids),
                rows: GROUPS,
                before: GROUPS,
                groups: GROUPS,
                appended: false,
            };
            state.merge(&other, 0..GROUPS, placement);
            let mut expected = vec![None::<i256>; GROUPS];
            for (group, value) in batches.iter().chain(&others).flatten() {
                if let Some(value) = value {
                    let sum = &mut expected[*group as usize];
                    *sum = Some(sum.unwrap_or_default().wrapping_add(*value));
                }
            }
            let output = state.output(0..GROUPS, &DIGITS).unwrap();
            prop_assert_eq!(output.as_primitive::<Decimal256Type>().iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_sum_of_more_digits_than_there_are_is_an_error() {
        let most = i256::from(10).checked_pow(76).unwrap().wrapping_sub(i256::ONE);
        let state = sums(&[vec![(0, Some(most)), (0, Some(i256::ONE))]]);
        assert_eq!(state.output(0..GROUPS, &DIGITS).unwrap_err().code(), Some("22003"));
        let state = sums(&[vec![(0, Some(most)); 9]]);
        assert_eq!(state.output(0..GROUPS, &DIGITS).unwrap_err().code(), Some("22003"));
    }
}
