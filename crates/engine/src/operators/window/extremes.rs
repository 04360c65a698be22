//! The least or the greatest value of a frame, for types of a fixed width.
//!
//! Of the values in a frame that slides only those are kept that no later one beats: the first of them is the answer. Each value
//! enters once and leaves once. Where frames end with their partition, values enter when they come. Floats are in total order: NaN is greater than every number.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray, downcast_primitive,
};
use arrow::datatypes::DataType;
use diligence_base::Result;

use super::frames::{Reach, Stretch};
use super::function::{Arrival, FrameFunction};
use crate::batch::to_logical;

/// The function, if values of the type have a fixed width and an order of their own.
pub(super) fn extremes(data_type: &DataType, max: bool, reach: Reach) -> Option<Box<dyn FrameFunction>> {
    macro_rules! of_type {
        ($native:ty) => {
            Some(Box::new(Extremes::<$native>::new(data_type.clone(), max, reach)) as Box<dyn FrameFunction>)
        };
    }
    if matches!(data_type, DataType::Interval(_)) {
        return None;
    }
    downcast_primitive! {
        data_type => (of_type),
        _ => None,
    }
}

struct Extremes<T: ArrowPrimitiveType> {
    data_type: DataType,
    wanted: Ordering,
    reach: Reach,
    /// The start of the newest partition.
    partition: u64,
    /// Values that have come and are in no frame yet, with their positions. Of whole partitions: the best of each.
    pending: VecDeque<(u64, T::Native)>,
    /// Values in the frame that no later one beats; where frames end with their partition, of each partition that has come.
    best: VecDeque<(u64, T::Native)>,
    /// Where the newest frame starts.
    start: u64,
}

impl<T: ArrowPrimitiveType> Extremes<T> {
    fn new(data_type: DataType, max: bool, reach: Reach) -> Self {
        let wanted = if max { Ordering::Greater } else { Ordering::Less };
        let (pending, best) = (VecDeque::new(), VecDeque::new());
        Self { data_type, wanted, reach, partition: 0, pending, best, start: 0 }
    }

    fn arrive(&mut self, position: u64, value: T::Native) {
        if self.reach == Reach::Whole
            && let Some((known, best)) = self.pending.back_mut()
            && *known >= self.partition
        {
            if value.compare(*best) == self.wanted {
                *best = value;
            }
            return;
        }
        if self.reach == Reach::Rest {
            return self.enter(position, value, self.partition);
        }
        self.pending.push_back((position, value));
    }

    /// A value that comes after the others: those from some row on that do not beat it are of no use any more.
    fn enter(&mut self, position: u64, value: T::Native, from: u64) {
        let (best, wanted) = (&mut self.best, self.wanted);
        while best.pop_back_if(|(row, other)| *row >= from && other.compare(value) != wanted).is_some() {}
        best.push_back((position, value));
    }

    fn of(&mut self, stretch: &Stretch) -> Option<T::Native> {
        if stretch.start != self.start && self.reach == Reach::Growing {
            self.best.clear();
        }
        self.start = stretch.start;
        while let Some(&(position, value)) = self.pending.front()
            && position < stretch.end
        {
            self.pending.pop_front();
            if position < stretch.start {
                continue;
            }
            match self.reach {
                Reach::Whole | Reach::Sliding | Reach::Rest => self.enter(position, value, 0),
                Reach::Growing => {
                    if self.best.front().is_none_or(|(_, best)| value.compare(*best) == self.wanted) {
                        self.best.clear();
                        self.best.push_back((position, value));
                    }
                }
            }
        }
        while self.best.pop_front_if(|(position, _)| *position < stretch.start).is_some() {}
        // The first may be of a later partition, if this one has no values.
        self.best.front().filter(|(position, _)| *position < stretch.end).map(|(_, value)| *value)
    }
}

impl<T: ArrowPrimitiveType> FrameFunction for Extremes<T> {
    fn push(&mut self, arrival: &Arrival<'_>) -> Result<()> {
        let values = to_logical(&arrival.values[0], &self.data_type)?;
        let values = values.as_primitive::<T>();
        let mut starts = arrival.starts.iter().peekable();
        for row in 0..arrival.rows {
            let position = arrival.first + row as u64;
            if starts.next_if(|&&start| start as usize == row).is_some() {
                self.partition = position;
            }
            if values.is_valid(row) {
                self.arrive(position, values.value(row));
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let values = stretches.iter().map(|stretch| self.of(stretch)).collect::<PrimitiveArray<T>>();
        Ok(Arc::new(values.with_data_type(self.data_type.clone())))
    }

    fn bytes(&self) -> usize {
        (self.pending.capacity() + self.best.capacity()) * size_of::<(u64, T::Native)>()
    }
}
