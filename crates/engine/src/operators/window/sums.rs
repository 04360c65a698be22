//! Counts, and sums and averages of integers and decimals, by *prefix sums*: a frame's sum is the sum of all rows before its end
//! less that of all rows before its start.
//!
//! That is exact, for any frame, at the price of an addition a row and a subtraction a frame. Sums run over partitions and never
//! start anew. While values fit in 64 bits, 128 bits hold the sum of as many rows as there can be; after that sums have 256.
//!
//! A sum that does not fit the type of its result is an error, as in aggregates.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal32Type, Decimal64Type, Decimal128Type, Int64Type, UInt64Type, i256};
use diligence_base::{Error, Result};

use super::frames::{Reach, Stretch};
use super::function::{Arrival, FrameFunction};
use super::pieces::Sliding;
use crate::batch::to_logical;
use crate::operators::aggregate::{AverageKind, sum_overflow};

/// What is summed up.
trait Addend: Copy + Default + Send {
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
}

macro_rules! addends {
    ($($number:ty),*) => {$(
        impl Addend for $number {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    )*};
}
addends!(u64, i128, i256);

/// The sums of all rows before a position.
struct Prefix<T> {
    reach: Reach,
    /// Of every position that a frame to come may start or end at. Not where frames are whole partitions.
    sums: Sliding<T>,
    /// Where they are: of the starts of partitions.
    starts: VecDeque<(u64, T)>,
    /// Where all frames of a partition start at the same row: that one.
    pinned: Option<(u64, T)>,
    arrived: u64,
    total: T,
    /// Where frames end with their partition: rows that have come back to go on, and their sum.
    revisited: u64,
    running: T,
}

impl<T: Addend> Prefix<T> {
    fn new(reach: Reach) -> Self {
        let (sums, total) = (Sliding::new(), T::default());
        let starts = VecDeque::new();
        Self { reach, sums, starts, pinned: None, arrived: 0, total, revisited: 0, running: total }
    }

    fn push(&mut self, arrival: &Arrival<'_>, value: impl Fn(usize) -> T) {
        let total = self.total;
        if matches!(self.reach, Reach::Whole | Reach::Rest) {
            let mut from = 0;
            for &start in arrival.starts {
                self.total = (from..start as usize).fold(self.total, |total, row| total.plus(value(row)));
                from = start as usize;
                self.starts.push_back((self.arrived + u64::from(start), self.total));
            }
            self.total = (from..arrival.rows).fold(self.total, |total, row| total.plus(value(row)));
        } else {
            self.total = (0..arrival.rows).fold(total, |total, row| {
                self.sums.push(total);
                total.plus(value(row))
            });
        }
        self.arrived += arrival.rows as u64;
    }

    /// Takes rows that come back: frames begin at one of them, or before.
    fn revisit(&mut self, arrival: &Arrival<'_>, value: impl Fn(usize) -> T) {
        for row in 0..arrival.rows {
            self.sums.push(self.running);
            self.running = self.running.plus(value(row));
        }
        self.revisited += arrival.rows as u64;
    }

    fn before(&self, position: u64) -> T {
        if position == self.arrived {
            return self.total;
        }
        match self.pinned {
            Some((pinned, sum)) if pinned == position => sum,
            _ if self.reach == Reach::Whole || self.reach == Reach::Rest && position >= self.revisited => {
                self.starts[self.starts.partition_point(|(start, _)| *start < position)].1
            }
            _ => self.sums.get(position),
        }
    }

    fn of(&self, stretch: &Stretch) -> T {
        self.before(stretch.end).minus(self.before(stretch.start))
    }

    /// Forgets what no frame behind this one looks at.
    fn forget_before(&mut self, stretch: &Stretch) {
        match self.reach {
            Reach::Whole | Reach::Rest => {
                while self.starts.front().is_some_and(|(start, _)| *start < stretch.start) {
                    self.starts.pop_front();
                }
                self.sums.forget_before(stretch.start);
            }
            Reach::Growing => {
                self.pinned = Some((stretch.start, self.before(stretch.start)));
                self.sums.forget_before(stretch.end);
            }
            Reach::Sliding => self.sums.forget_before(stretch.start),
        }
    }

    fn into<U: Addend>(self, widen: impl Fn(T) -> U) -> Prefix<U> {
        Prefix {
            reach: self.reach,
            sums: self.sums.map(&widen),
            starts: self.starts.into_iter().map(|(start, sum)| (start, widen(sum))).collect(),
            pinned: self.pinned.map(|(start, sum)| (start, widen(sum))),
            arrived: self.arrived,
            total: widen(self.total),
            revisited: self.revisited,
            running: widen(self.running),
        }
    }

    fn bytes(&self) -> usize {
        self.sums.bytes() + self.starts.len() * size_of::<(u64, T)>()
    }
}

/// How rows come to sums.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    First,
    /// Once more, when they go on.
    Second,
}

/// Counts the rows of a frame whose argument is not NULL.
pub(super) struct Counts(Option<Prefix<u64>>);

impl Counts {
    /// Of an argument that can be NULL, or of all rows.
    pub fn new(reach: Reach, nullable: bool) -> Self {
        Self(nullable.then(|| Prefix::new(reach)))
    }

    pub fn add(&mut self, arrival: &Arrival<'_>) {
        self.visit(arrival, Visit::First);
    }

    fn visit(&mut self, arrival: &Arrival<'_>, visit: Visit) {
        let Some(counts) = &mut self.0 else { return };
        let nulls = arrival.values.first().and_then(|values| values.logical_nulls());
        let value = |row: usize| nulls.as_ref().map_or(1, |nulls| u64::from(nulls.is_valid(row)));
        match visit {
            Visit::First => counts.push(arrival, value),
            Visit::Second => counts.revisit(arrival, value),
        }
    }

    fn wants_second(&self) -> bool {
        self.0.as_ref().is_some_and(|counts| counts.reach == Reach::Rest)
    }

    pub fn of(&self, stretch: &Stretch) -> u64 {
        self.0.as_ref().map_or(stretch.end - stretch.start, |counts| counts.of(stretch))
    }

    pub fn forget_before(&mut self, stretch: &Stretch) {
        if let Some(counts) = &mut self.0 {
            counts.forget_before(stretch);
        }
    }
}

impl FrameFunction for Counts {
    fn push(&mut self, arrival: &Arrival<'_>) -> Result<()> {
        self.add(arrival);
        Ok(())
    }

    fn revisits(&self) -> bool {
        self.wants_second()
    }

    fn revisit(&mut self, arrival: &Arrival<'_>) -> Result<()> {
        self.visit(arrival, Visit::Second);
        Ok(())
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let counts = Int64Array::from_iter_values(stretches.iter().map(|stretch| self.of(stretch) as i64));
        if let Some(last) = stretches.last() {
            self.forget_before(last);
        }
        Ok(Arc::new(counts))
    }

    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Prefix::bytes)
    }
}

enum Sums {
    Narrow(Prefix<i128>),
    Wide(Prefix<i256>),
}

/// The sum of a frame, or its average.
pub(super) struct ExactSums {
    sums: Sums,
    counts: Counts,
    data_type: DataType,
    average: Option<AverageKind>,
}

impl ExactSums {
    pub fn new(reach: Reach, counts: Counts, data_type: DataType, average: Option<AverageKind>) -> Self {
        Self { sums: Sums::Narrow(Prefix::new(reach)), counts, data_type, average }
    }

    /// Adds values that fit in 64 bits, or `may_be_wide`.
    fn add(
        &mut self,
        arrival: &Arrival<'_>,
        nulls: Option<&NullBuffer>,
        may_be_wide: bool,
        visit: Visit,
        value: impl Fn(usize) -> i128,
    ) {
        let plain = value;
        let value = |row: usize| if nulls.is_none_or(|nulls| nulls.is_valid(row)) { plain(row) } else { 0 };
        if visit == Visit::Second {
            // Wide enough since their first visit.
            return match &mut self.sums {
                Sums::Narrow(sums) => sums.revisit(arrival, value),
                Sums::Wide(sums) => sums.revisit(arrival, |row| i256::from_i128(value(row))),
            };
        }
        if let Sums::Narrow(sums) = &mut self.sums {
            if !may_be_wide || (0..arrival.rows).all(|row| i64::try_from(value(row)).is_ok()) {
                return match nulls {
                    Some(_) => sums.push(arrival, value),
                    None => sums.push(arrival, &plain),
                };
            }
            let sums = std::mem::replace(sums, Prefix::new(Reach::Whole));
            self.sums = Sums::Wide(sums.into(i256::from_i128));
        }
        if let Sums::Wide(sums) = &mut self.sums {
            sums.push(arrival, |row| i256::from_i128(value(row)));
        }
    }

    /// The value of a frame; `None` if it does not fit.
    fn value(&self, stretch: &Stretch, count: u64) -> Option<i128> {
        let sum = match &self.sums {
            Sums::Narrow(sums) => sums.of(stretch),
            Sums::Wide(sums) => sums.of(stretch).to_i128()?,
        };
        let value = match &self.average {
            Some(average) => average.divide(sum, count as i64)?,
            None => sum,
        };
        let fits = match &self.data_type {
            DataType::Int64 => i64::try_from(value).is_ok(),
            DataType::UInt64 => u64::try_from(value).is_ok(),
            DataType::Decimal128(precision, _) => {
                let limit = 10_u128.checked_pow(u32::from(*precision)).unwrap_or(u128::MAX);
                value.unsigned_abs() < limit
            }
            _ => false,
        };
        fits.then_some(value)
    }
}

impl ExactSums {
    fn visit(&mut self, arrival: &Arrival<'_>, visit: Visit) -> Result<()> {
        self.counts.visit(arrival, visit);
        let values = match arrival.values[0].data_type() {
            DataType::Dictionary(_, plain) => &to_logical(&arrival.values[0], plain)?,
            _ => &arrival.values[0],
        };
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        match values.data_type() {
            DataType::Int64 => {
                let values = values.as_primitive::<Int64Type>().values();
                self.add(arrival, nulls, false, visit, |row| i128::from(values[row]));
            }
            DataType::UInt64 => {
                let values = values.as_primitive::<UInt64Type>().values();
                self.add(arrival, nulls, false, visit, |row| i128::from(values[row]));
            }
            DataType::Decimal32(..) => {
                let values = values.as_primitive::<Decimal32Type>().values();
                self.add(arrival, nulls, false, visit, |row| i128::from(values[row]));
            }
            DataType::Decimal64(..) => {
                let values = values.as_primitive::<Decimal64Type>().values();
                self.add(arrival, nulls, false, visit, |row| i128::from(values[row]));
            }
            DataType::Decimal128(..) => {
                let values = values.as_primitive::<Decimal128Type>().values();
                self.add(arrival, nulls, true, visit, |row| values[row]);
            }
            other => return Err(Error::bug(format!("a sum over a window met values of type {other}"))),
        }
        Ok(())
    }
}

impl FrameFunction for ExactSums {
    fn push(&mut self, arrival: &Arrival<'_>) -> Result<()> {
        self.visit(arrival, Visit::First)
    }

    fn revisits(&self) -> bool {
        match &self.sums {
            Sums::Narrow(sums) => sums.reach == Reach::Rest,
            Sums::Wide(sums) => sums.reach == Reach::Rest,
        }
    }

    fn revisit(&mut self, arrival: &Arrival<'_>) -> Result<()> {
        self.visit(arrival, Visit::Second)
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let overflow = || match self.average {
            Some(_) => Error::value(format!("arithmetic overflow: an average does not fit {}", self.data_type)),
            None => sum_overflow(&self.data_type),
        };
        let values = stretches.iter().map(|stretch| match self.counts.of(stretch) {
            0 => Ok(None),
            count => self.value(stretch, count).map(Some).ok_or_else(overflow),
        });
        let values = values.collect::<Result<Vec<Option<i128>>>>()?;
        let values: ArrayRef = match &self.data_type {
            DataType::Int64 => Arc::new(values.into_iter().map(|v| v.map(|v| v as i64)).collect::<Int64Array>()),
            DataType::UInt64 => Arc::new(values.into_iter().map(|v| v.map(|v| v as u64)).collect::<UInt64Array>()),
            other => Arc::new(values.into_iter().collect::<Decimal128Array>().with_data_type(other.clone())),
        };
        if let Some(last) = stretches.last() {
            self.counts.forget_before(last);
            match &mut self.sums {
                Sums::Narrow(sums) => sums.forget_before(last),
                Sums::Wide(sums) => sums.forget_before(last),
            }
        }
        Ok(values)
    }

    fn bytes(&self) -> usize {
        self.counts.bytes()
            + match &self.sums {
                Sums::Narrow(sums) => sums.bytes(),
                Sums::Wide(sums) => sums.bytes(),
            }
    }
}
