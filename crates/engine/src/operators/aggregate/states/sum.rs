//! Sums: of integers (wrapping, as DataFusion's), of decimals (128 bits), of floats.
//!
//! Decimal sums start as 64-bit integers and stay so while a bound on what any group can have reached says it is safe: the
//! largest magnitude of each batch times its rows, added up. That halves the memory of a group and lets the sums of a
//! batch be formed in registers; when the bound runs out, the sums move to 128 bits for good.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal32Type, Decimal64Type, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use diligence_base::{Error, Result};

use crate::batch::to_logical;

use super::{LANE_GROUPS_MAX, LANES, Placement, Seen, for_each_valid, permuted, scatter};

/// What is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum SumKind {
    /// 64-bit integers, signed or not: wraps.
    Wrapping,
    /// Decimals of up to 38 digits.
    Decimal,
    /// 64-bit floats.
    Float,
}

enum Sums {
    Wrapping(Vec<i64>),
    Narrow { sums: Vec<i64>, bound: u64 },
    Wide(Vec<i128>),
    Float(Vec<f64>),
}

/// A sum per group, NULL where no value came.
pub(in super::super) struct SumState {
    sums: Sums,
    seen: Seen,
    always_seen: bool,
    scratch: Vec<i64>,
}

impl SumState {
    pub fn new(kind: SumKind, always_seen: bool) -> Self {
        let sums = match kind {
            SumKind::Wrapping => Sums::Wrapping(Vec::new()),
            SumKind::Decimal => Sums::Narrow { sums: Vec::new(), bound: 0 },
            SumKind::Float => Sums::Float(Vec::new()),
        };
        Self { sums, seen: Seen::new(always_seen), always_seen, scratch: Vec::new() }
    }

    fn len(&self) -> usize {
        match &self.sums {
            Sums::Wrapping(sums) | Sums::Narrow { sums, .. } => sums.len(),
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
            Sums::Wrapping(sums) | Sums::Narrow { sums, .. } => sums.resize(groups, 0),
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
            (Sums::Wrapping(sums), DataType::Int64) => {
                add(sums, values.as_primitive::<Int64Type>().values(), placement, nulls, i64::wrapping_add);
            }
            (Sums::Wrapping(sums), DataType::UInt64) => {
                let values = values.as_primitive::<UInt64Type>().values();
                add_as(sums, values, placement, nulls, |value| value as i64, i64::wrapping_add);
            }
            (Sums::Float(sums), DataType::Float64) => {
                add(sums, values.as_primitive::<Float64Type>().values(), placement, nulls, |a, b| a + b);
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
                    add(self.wide(), values, placement, nulls, i128::wrapping_add);
                }
                self.scratch = scratch;
            }
            (_, other) => return Err(Error::bug(format!("a sum met values of type {other}"))),
        }
        Ok(())
    }

    fn add_narrow(&mut self, values: &[i64], placement: Placement<'_>, nulls: Option<&NullBuffer>) {
        if self.admit(magnitude(values).saturating_mul(values.len() as u64))
            && let Sums::Narrow { sums, .. } = &mut self.sums
        {
            // The bound says that nothing overflows.
            add(sums, values, placement, nulls, i64::wrapping_add);
        } else {
            add_as(self.wide(), values, placement, nulls, |value| value as i128, i128::wrapping_add);
        }
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
            Sums::Wrapping(theirs) => {
                let Sums::Wrapping(sums) = &mut self.sums else { unreachable!("sums of one kind") };
                scatter(sums, &theirs[range], placement, None, |sum, value| *sum = sum.wrapping_add(value));
            }
            Sums::Float(theirs) => {
                let Sums::Float(sums) = &mut self.sums else { unreachable!("sums of one kind") };
                scatter(sums, &theirs[range], placement, None, |sum, value| *sum += value);
            }
            Sums::Narrow { sums: theirs, .. } => {
                let theirs = &theirs[range];
                if self.admit(magnitude(theirs).saturating_mul(theirs.len() as u64))
                    && let Sums::Narrow { sums, .. } = &mut self.sums
                {
                    scatter(sums, theirs, placement, None, |sum, value| *sum = sum.wrapping_add(value));
                } else {
                    scatter(self.wide(), theirs, placement, None, |sum, value| *sum = sum.wrapping_add(value as i128));
                }
            }
            Sums::Wide(theirs) => {
                scatter(self.wide(), &theirs[range], placement, None, |sum, value| *sum = sum.wrapping_add(value));
            }
        }
    }

    pub fn take_permuted(&mut self, order: &[u32]) -> Self {
        let sums = match &mut self.sums {
            Sums::Wrapping(sums) => Sums::Wrapping(permuted(sums, order, 0)),
            Sums::Narrow { sums, bound } => {
                Sums::Narrow { sums: permuted(sums, order, 0), bound: std::mem::take(bound) }
            }
            Sums::Wide(sums) => Sums::Wide(permuted(sums, order, 0)),
            Sums::Float(sums) => Sums::Float(permuted(sums, order, 0.0)),
        };
        let seen = self.seen.take_permuted(order, self.always_seen);
        Self { sums, seen, always_seen: self.always_seen, scratch: Vec::new() }
    }

    pub fn bytes(&self) -> usize {
        let sums = match &self.sums {
            Sums::Wrapping(sums) | Sums::Narrow { sums, .. } => sums.capacity() * 8,
            Sums::Wide(sums) => sums.capacity() * 16,
            Sums::Float(sums) => sums.capacity() * 8,
        };
        sums + self.seen.bytes() + self.scratch.capacity() * 8
    }

    pub fn bytes_per_group(&self) -> usize {
        1 + if matches!(self.sums, Sums::Wide(_)) { 16 } else { 8 }
    }

    /// A decimal or integer sum.
    pub fn total(&self, group: usize) -> i128 {
        match &self.sums {
            Sums::Wrapping(sums) | Sums::Narrow { sums, .. } => sums[group] as i128,
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
        let decimal = |values: Vec<i128>| -> ArrayRef {
            Arc::new(Decimal128Array::new(values.into(), nulls.clone()).with_data_type(data_type.clone()))
        };
        Ok(match (&self.sums, data_type) {
            (Sums::Wrapping(sums), DataType::Int64) => {
                Arc::new(PrimitiveArray::<Int64Type>::new(sums[range].to_vec().into(), nulls))
            }
            (Sums::Wrapping(sums), DataType::UInt64) => {
                let sums = sums[range].iter().map(|&sum| sum as u64).collect::<Vec<_>>();
                Arc::new(PrimitiveArray::<UInt64Type>::new(sums.into(), nulls))
            }
            (Sums::Float(sums), DataType::Float64) => Arc::new(Float64Array::new(sums[range].to_vec().into(), nulls)),
            (Sums::Narrow { sums, .. }, DataType::Decimal128(..)) => {
                decimal(sums[range].iter().map(|&sum| sum as i128).collect())
            }
            (Sums::Wide(sums), DataType::Decimal128(..)) => decimal(sums[range].to_vec()),
            (_, other) => return Err(Error::bug(format!("a sum cannot come out as {other}"))),
        })
    }
}

/// A bound on the magnitude of every value: a power of two.
fn magnitude(values: &[i64]) -> u64 {
    let bits = values.iter().fold(0u64, |bits, &value| bits | (value ^ (value >> 63)) as u64);
    1u64.checked_shl(64 - bits.leading_zeros()).unwrap_or(u64::MAX)
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
