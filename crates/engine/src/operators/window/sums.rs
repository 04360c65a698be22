//! Counts, and sums and averages of integers and decimals, by *prefix sums*: a frame's sum is the sum of all rows
//! before its end less that of all rows before its start.
//!
//! That is exact, for any frame, at the price of an addition a row and a subtraction a frame. Sums run over partitions
//! and never start anew. While values fit in 64 bits, 128 bits hold the sum of as many rows as there can be; after that
//! sums have 256.
//!
//! A sum that does not fit the type of its result is an error, as in aggregates.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal32Type, Decimal64Type, Decimal128Type, Int64Type, UInt64Type, i256};
use diligence_base::{Error, Result};

use super::frames::{Reach, Stretch};
use super::function::{Arrival, FrameFunction, Need, Side};
use super::pieces::Sliding;
use crate::batch::to_logical;
use crate::operators::aggregate::sum_overflow;
use crate::plan::average::AverageKind;

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

/// The sums of all rows before a position, at the rows around one of the two sides.
struct Edge<T> {
    sums: Sliding<T>,
    /// Of all rows that have come to this side.
    total: T,
}

impl<T: Addend> Edge<T> {
    fn push(&mut self, rows: usize, value: impl Fn(usize) -> T) {
        self.total = (0..rows).fold(self.total, |total, row| {
            self.sums.push(total);
            total.plus(value(row))
        });
    }

    fn before(&self, position: u64) -> T {
        if position == self.sums.end() { self.total } else { self.sums.get(position) }
    }

    fn map<U>(self, widen: impl Fn(T) -> U) -> Edge<U> {
        Edge { sums: self.sums.map(&widen), total: widen(self.total) }
    }
}

/// Sums by what lies before a frame's end, and before its start.
struct Prefix<T> {
    reach: Reach,
    start: Edge<T>,
    end: Edge<T>,
    /// Where partitions begin, and the sum of all rows before: from arrival where they also end frames, and on the side
    /// of the ends where frames begin with them.
    starts: VecDeque<(u64, T)>,
    /// Of the rows that have come, where frames end with their partition.
    arrived: u64,
    total: T,
}

impl<T: Addend> Prefix<T> {
    fn new(reach: Reach) -> Self {
        let edge = || Edge { sums: Sliding::new(), total: T::default() };
        Self { reach, start: edge(), end: edge(), starts: VecDeque::new(), arrived: 0, total: T::default() }
    }

    fn push(&mut self, side: Side, arrival: &Arrival<'_>, value: impl Fn(usize) -> T) {
        match side {
            Side::Arrival => {
                let mut from = 0;
                for &start in arrival.starts {
                    self.total = (from..start as usize).fold(self.total, |total, row| total.plus(value(row)));
                    from = start as usize;
                    self.starts.push_back((arrival.first + u64::from(start), self.total));
                }
                self.total = (from..arrival.rows).fold(self.total, |total, row| total.plus(value(row)));
                self.arrived += arrival.rows as u64;
            }
            Side::End => {
                self.end.push(arrival.rows, value);
                if self.reach == Reach::Growing {
                    let positions = arrival.starts.iter().map(|start| arrival.first + u64::from(*start));
                    self.starts.extend(positions.map(|position| (position, self.end.before(position))));
                }
            }
            Side::Start | Side::Frame => self.start.push(arrival.rows, value),
        }
    }

    /// The sum before a row at which a partition begins, or would.
    fn before_partition(&self, position: u64) -> T {
        if position == self.arrived && matches!(self.reach, Reach::Whole | Reach::Rest) {
            return self.total;
        }
        let place = self.starts.partition_point(|(start, _)| *start < position);
        self.starts.get(place).map_or_else(T::default, |(_, sum)| *sum)
    }

    fn of(&self, stretch: &Stretch) -> T {
        if stretch.start == stretch.end {
            return T::default();
        }
        let start = match self.reach {
            Reach::Whole | Reach::Growing => self.before_partition(stretch.start),
            Reach::Rest | Reach::Sliding => self.start.before(stretch.start),
        };
        let end = match self.reach {
            Reach::Whole | Reach::Rest => self.before_partition(stretch.end),
            Reach::Growing | Reach::Sliding => self.end.before(stretch.end),
        };
        end.minus(start)
    }

    fn lacks(&self, stretch: &Stretch) -> Option<Need> {
        if takes(self.reach, Side::Start) && stretch.start > self.start.sums.end() {
            return Some(Need::Start);
        }
        (takes(self.reach, Side::End) && stretch.end > self.end.sums.end()).then_some(Need::End)
    }

    fn advance(&mut self, stretch: &Stretch) {
        while self.starts.pop_front_if(|(start, _)| *start < stretch.start).is_some() {}
        self.start.sums.forget_before(stretch.start);
        self.end.sums.forget_before(stretch.end);
    }

    fn into<U: Addend>(self, widen: impl Fn(T) -> U) -> Prefix<U> {
        Prefix {
            reach: self.reach,
            start: self.start.map(&widen),
            end: self.end.map(&widen),
            starts: self.starts.into_iter().map(|(start, sum)| (start, widen(sum))).collect(),
            arrived: self.arrived,
            total: widen(self.total),
        }
    }

    fn bytes(&self) -> usize {
        self.start.sums.bytes() + self.end.sums.bytes() + self.starts.len() * size_of::<(u64, T)>()
    }
}

/// The sides of what knows a frame by its two ends; where a partition ends is known from arrival.
pub(super) fn takes(reach: Reach, side: Side) -> bool {
    match side {
        Side::Arrival => matches!(reach, Reach::Whole | Reach::Rest),
        Side::Start => matches!(reach, Reach::Rest | Reach::Sliding),
        Side::End => matches!(reach, Reach::Growing | Reach::Sliding),
        Side::Frame => false,
    }
}

/// Counts the rows of a frame whose argument is not NULL.
pub(super) struct Counts(Option<Prefix<u64>>);

impl Counts {
    /// Of an argument that can be NULL, or of all rows.
    pub fn new(reach: Reach, nullable: bool) -> Self {
        Self(nullable.then(|| Prefix::new(reach)))
    }

    pub fn add(&mut self, side: Side, arrival: &Arrival<'_>) {
        let Some(counts) = &mut self.0 else { return };
        let nulls = arrival.values.first().and_then(|values| values.logical_nulls());
        counts.push(side, arrival, |row| nulls.as_ref().map_or(1, |nulls| u64::from(nulls.is_valid(row))));
    }

    pub fn of(&self, stretch: &Stretch) -> u64 {
        self.0.as_ref().map_or(stretch.end - stretch.start, |counts| counts.of(stretch))
    }

    pub fn forget_before(&mut self, stretch: &Stretch) {
        if let Some(counts) = &mut self.0 {
            counts.advance(stretch);
        }
    }
}

impl FrameFunction for Counts {
    fn takes(&self, side: Side) -> bool {
        self.0.as_ref().is_some_and(|counts| takes(counts.reach, side))
    }

    fn push(&mut self, side: Side, arrival: &Arrival<'_>) -> Result<()> {
        self.add(side, arrival);
        Ok(())
    }

    fn advance(&mut self, stretch: &Stretch) -> Result<()> {
        self.forget_before(stretch);
        Ok(())
    }

    fn lacks(&self, stretch: &Stretch) -> Option<Need> {
        self.0.as_ref().and_then(|counts| counts.lacks(stretch))
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from_iter_values(stretches.iter().map(|stretch| self.of(stretch) as i64))))
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
        side: Side,
        arrival: &Arrival<'_>,
        nulls: Option<&NullBuffer>,
        may_be_wide: bool,
        value: impl Fn(usize) -> i128,
    ) {
        let plain = value;
        let value = |row: usize| if nulls.is_none_or(|nulls| nulls.is_valid(row)) { plain(row) } else { 0 };
        if let Sums::Narrow(sums) = &mut self.sums {
            if !may_be_wide || (0..arrival.rows).all(|row| i64::try_from(value(row)).is_ok()) {
                return match nulls {
                    Some(_) => sums.push(side, arrival, value),
                    None => sums.push(side, arrival, &plain),
                };
            }
            let sums = std::mem::replace(sums, Prefix::new(Reach::Whole));
            self.sums = Sums::Wide(sums.into(i256::from_i128));
        }
        if let Sums::Wide(sums) = &mut self.sums {
            sums.push(side, arrival, |row| i256::from_i128(value(row)));
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

impl FrameFunction for ExactSums {
    fn takes(&self, side: Side) -> bool {
        let reach = match &self.sums {
            Sums::Narrow(sums) => sums.reach,
            Sums::Wide(sums) => sums.reach,
        };
        takes(reach, side)
    }

    fn push(&mut self, side: Side, arrival: &Arrival<'_>) -> Result<()> {
        self.counts.add(side, arrival);
        let values = match arrival.values[0].data_type() {
            DataType::Dictionary(_, plain) => &to_logical(&arrival.values[0], plain)?,
            _ => &arrival.values[0],
        };
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        match values.data_type() {
            DataType::Int64 => {
                let values = values.as_primitive::<Int64Type>().values();
                self.add(side, arrival, nulls, false, |row| i128::from(values[row]));
            }
            DataType::UInt64 => {
                let values = values.as_primitive::<UInt64Type>().values();
                self.add(side, arrival, nulls, false, |row| i128::from(values[row]));
            }
            DataType::Decimal32(..) => {
                let values = values.as_primitive::<Decimal32Type>().values();
                self.add(side, arrival, nulls, false, |row| i128::from(values[row]));
            }
            DataType::Decimal64(..) => {
                let values = values.as_primitive::<Decimal64Type>().values();
                self.add(side, arrival, nulls, false, |row| i128::from(values[row]));
            }
            DataType::Decimal128(..) => {
                let values = values.as_primitive::<Decimal128Type>().values();
                self.add(side, arrival, nulls, true, |row| values[row]);
            }
            other => return Err(Error::bug(format!("a sum over a window met values of type {other}"))),
        }
        Ok(())
    }

    fn advance(&mut self, stretch: &Stretch) -> Result<()> {
        self.counts.forget_before(stretch);
        match &mut self.sums {
            Sums::Narrow(sums) => sums.advance(stretch),
            Sums::Wide(sums) => sums.advance(stretch),
        }
        Ok(())
    }

    fn lacks(&self, stretch: &Stretch) -> Option<Need> {
        match &self.sums {
            Sums::Narrow(sums) => sums.lacks(stretch),
            Sums::Wide(sums) => sums.lacks(stretch),
        }
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
