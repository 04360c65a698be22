//! The least or the greatest value of a frame, for numbers, times and text.
//!
//! Of the values in a frame that slides only those are kept that no later one beats: the first of them is the answer.
//! Each value enters once and leaves once. Where frames end with their partition, values enter when they come. NaN is
//! greater than every number.
//!
//! Values that fall from row to row would all be kept. So where there are many, only the first is kept of a *stride* of
//! rows, as long as frames begin before it. When they begin within it, its rows come once more, on the side of the
//! starts, and it is as it was.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray, StringViewArray,
    downcast_primitive,
};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use diligence_base::Result;
use diligence_storage::foreign_error::from_arrow;

use super::frames::{Reach, Stretch};
use super::function::{Arrival, FrameFunction, Need, Side};
use super::sums::takes;
use crate::batch::floats::canonical_floats;
use crate::batch::to_logical;

/// Rows of which one value is kept where there are many.
const STRIDE: u64 = 4096;

/// Values that are kept before strides are.
const VALUES_MAX: usize = 4 * STRIDE as usize;

/// The function, if values of the type have an order of their own.
pub(super) fn extremes(data_type: &DataType, max: bool, reach: Reach) -> Option<Box<dyn FrameFunction>> {
    macro_rules! of_type {
        ($native:ty) => {
            Some(Box::new(Extremes::<Fixed<$native>>::new(data_type.clone(), max, reach)) as Box<dyn FrameFunction>)
        };
    }
    match data_type {
        DataType::Interval(_) => return None,
        // Where values only come, DataFusion's accumulators keep no more than one.
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            if !matches!(reach, Reach::Whole | Reach::Growing) =>
        {
            return Some(Box::new(Extremes::<Text>::new(data_type.clone(), max, reach)));
        }
        _ => {}
    }
    downcast_primitive! {
        data_type => (of_type),
        _ => None,
    }
}

/// Values of one type.
trait Values: Send {
    type Value: Clone + Send;
    type Array: Array;

    /// The values, in the logical type, in a form that they are taken out of.
    fn array(values: &ArrayRef, logical: &DataType) -> Result<Self::Array>;
    fn value(array: &Self::Array, row: usize) -> Self::Value;
    fn compare(a: &Self::Value, b: &Self::Value) -> Ordering;
    fn collect(values: Vec<Option<Self::Value>>, logical: &DataType) -> Result<ArrayRef>;
    /// Bytes that a value has elsewhere.
    fn heap_bytes(_: &Self::Value) -> usize {
        0
    }
}

/// Of a fixed width.
struct Fixed<T>(PhantomData<fn() -> T>);

impl<T: ArrowPrimitiveType> Values for Fixed<T> {
    type Value = T::Native;
    type Array = PrimitiveArray<T>;

    fn array(values: &ArrayRef, logical: &DataType) -> Result<Self::Array> {
        Ok(canonical_floats(&to_logical(values, logical)?)?.as_primitive::<T>().clone())
    }

    fn value(array: &Self::Array, row: usize) -> Self::Value {
        array.value(row)
    }

    fn compare(a: &Self::Value, b: &Self::Value) -> Ordering {
        a.compare(*b)
    }

    fn collect(values: Vec<Option<Self::Value>>, logical: &DataType) -> Result<ArrayRef> {
        Ok(Arc::new(values.into_iter().collect::<PrimitiveArray<T>>().with_data_type(logical.clone())))
    }
}

/// In the order of their bytes.
struct Text;

impl Values for Text {
    type Value = Arc<str>;
    type Array = StringViewArray;

    fn array(values: &ArrayRef, logical: &DataType) -> Result<Self::Array> {
        let values = cast(&to_logical(values, logical)?, &DataType::Utf8View).map_err(from_arrow)?;
        Ok(values.as_string_view().clone())
    }

    fn value(array: &Self::Array, row: usize) -> Self::Value {
        array.value(row).into()
    }

    fn compare(a: &Self::Value, b: &Self::Value) -> Ordering {
        a.cmp(b)
    }

    fn collect(values: Vec<Option<Self::Value>>, logical: &DataType) -> Result<ArrayRef> {
        cast(&StringViewArray::from_iter(values), logical).map_err(from_arrow)
    }

    fn heap_bytes(value: &Self::Value) -> usize {
        // What is allocated has two counters.
        value.len() + 2 * size_of::<usize>()
    }
}

struct Extremes<V: Values> {
    data_type: DataType,
    wanted: Ordering,
    reach: Reach,
    /// The start of the newest partition.
    partition: u64,
    /// Values on the side of the ends that are in no frame yet. Of whole partitions: the best of each.
    pending: ExtremesQueue<V>,
    /// Values in the frame that no later one beats; where frames end with their partition, of each partition that has
    /// come.
    best: ExtremesQueue<V>,
    /// Where the newest frame starts.
    start: u64,
    /// The position behind the rows that have come to the side of the ends, or at all.
    known: u64,
    /// Rows of which only the first of the best values is kept.
    strides: VecDeque<Range<u64>>,
    /// Before it values are kept by strides, if that was of use.
    thinned: u64,
    /// Values on the side of the starts, as far as they may belong to such a stride, and the position behind all that
    /// have come.
    again: ExtremesQueue<V>,
    again_known: u64,
}

/// Values with their positions.
struct ExtremesQueue<V: Values> {
    values: VecDeque<(u64, V::Value)>,
    heap_bytes: usize,
}

impl<V: Values> ExtremesQueue<V> {
    fn new() -> Self {
        Self { values: VecDeque::new(), heap_bytes: 0 }
    }

    fn push_back(&mut self, position: u64, value: V::Value) {
        self.heap_bytes += V::heap_bytes(&value);
        self.values.push_back((position, value));
    }

    fn push_front(&mut self, position: u64, value: V::Value) {
        self.heap_bytes += V::heap_bytes(&value);
        self.values.push_front((position, value));
    }

    fn left(&mut self, entry: Option<(u64, V::Value)>) -> Option<(u64, V::Value)> {
        if let Some((_, value)) = &entry {
            self.heap_bytes -= V::heap_bytes(value);
        }
        entry
    }

    fn pop_front_if(&mut self, is_wanted: impl FnOnce(u64) -> bool) -> Option<(u64, V::Value)> {
        let entry = self.values.pop_front_if(|(position, _)| is_wanted(*position));
        self.left(entry)
    }

    fn pop_back_if(&mut self, is_wanted: impl FnOnce(u64, &V::Value) -> bool) -> Option<(u64, V::Value)> {
        let entry = self.values.pop_back_if(|(position, value)| is_wanted(*position, value));
        self.left(entry)
    }

    fn clear(&mut self) {
        self.values.clear();
        self.heap_bytes = 0;
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<(u64, V::Value)>() + self.heap_bytes
    }
}

impl<V: Values> Extremes<V> {
    fn new(data_type: DataType, max: bool, reach: Reach) -> Self {
        Self {
            data_type,
            wanted: if max { Ordering::Greater } else { Ordering::Less },
            reach,
            partition: 0,
            pending: ExtremesQueue::new(),
            best: ExtremesQueue::new(),
            start: 0,
            known: 0,
            strides: VecDeque::new(),
            thinned: 0,
            again: ExtremesQueue::new(),
            again_known: 0,
        }
    }

    fn arrive(&mut self, position: u64, value: V::Value) {
        if self.reach == Reach::Whole
            && let Some((known, best)) = self.pending.values.back_mut()
            && *known >= self.partition
        {
            if V::compare(&value, best) == self.wanted {
                *best = value;
            }
            return;
        }
        if self.reach == Reach::Rest {
            return self.enter(position, value, self.partition);
        }
        self.pending.push_back(position, value);
    }

    /// A value that comes after the others: those from some row on that do not beat it are of no use any more.
    fn enter(&mut self, position: u64, value: V::Value, from: u64) {
        let wanted = self.wanted;
        let is_beaten = |row: u64, other: &V::Value| row >= from && V::compare(other, &value) != wanted;
        while self.best.pop_back_if(is_beaten).is_some() {}
        self.best.push_back(position, value);
    }

    /// Takes values into the frame, as far as they are there.
    fn move_to(&mut self, stretch: &Stretch) {
        if stretch.start != self.start && self.reach == Reach::Growing {
            self.best.clear();
        }
        self.start = stretch.start;
        while let Some((position, value)) = self.pending.pop_front_if(|position| position < stretch.end) {
            if position < stretch.start {
                continue;
            }
            match self.reach {
                Reach::Whole | Reach::Sliding | Reach::Rest => self.enter(position, value, 0),
                Reach::Growing => {
                    if self.best.values.front().is_none_or(|(_, best)| V::compare(&value, best) == self.wanted) {
                        self.best.clear();
                        self.best.push_back(position, value);
                    }
                }
            }
        }
        while self.best.pop_front_if(|position| position < stretch.start).is_some() {}
        self.restore(stretch);
    }

    /// The stride that begins before a position and of which not all values are there.
    fn stride_at(&self, position: u64) -> Option<&Range<u64>> {
        self.strides.iter().find(|stride| stride.end > position).filter(|stride| stride.start <= position)
    }

    /// Puts the values of a stride back in which a frame begins, if they are there.
    fn restore(&mut self, stretch: &Stretch) {
        while self.strides.pop_front_if(|stride| stride.end <= self.start).is_some() {}
        if let Some(stride) = self.stride_at(self.start).cloned()
            && self.again_known >= stride.end
        {
            self.strides.pop_front();
            let is_of_stride = |position: u64| stride.contains(&position);
            while self.best.pop_front_if(is_of_stride).is_some() {}
            let of_stride = self.again.values.iter().rev();
            let of_stride = of_stride.skip_while(|(position, _)| *position >= stride.end);
            let from = self.start.max(stride.start);
            // Where frames end with their partition, what follows may be of the next one.
            let is_of_frame = |position: u64| self.reach != Reach::Rest || position < stretch.end;
            let behind = self.best.values.front().filter(|(position, _)| is_of_frame(*position));
            let mut best = behind.map(|(_, value)| value.clone());
            let mut restored = Vec::new();
            for (position, value) in of_stride.take_while(|(position, _)| *position >= from) {
                if best.as_ref().is_none_or(|best| V::compare(value, best) == self.wanted) {
                    best = Some(value.clone());
                    restored.push((*position, value.clone()));
                }
            }
            restored.into_iter().for_each(|(position, value)| self.best.push_front(position, value));
        }
        let keep = self.strides.front().map_or(self.again_known, |stride| stride.start.max(self.start));
        while self.again.pop_front_if(|position| position < keep).is_some() {}
    }

    /// Where many values are kept: keeps one of each stride of rows that have entered and in which no frame begins yet.
    fn thin_out(&mut self) {
        let (entered, from) = match self.reach {
            // The newest partition: those before it are complete, and their rows are about to go on.
            Reach::Rest => (self.known, self.partition.max(self.thinned)),
            _ => (self.pending.values.front().map_or(self.known, |(position, _)| *position), self.thinned),
        };
        let first = from.max(self.again_known).max(self.start + 1).next_multiple_of(STRIDE);
        let end = entered / STRIDE * STRIDE;
        if self.best.values.len() <= VALUES_MAX || first >= end {
            return;
        }
        self.thinned = end;
        let mut left = None;
        let mut kept = VecDeque::with_capacity(self.best.values.len() / 2);
        for (position, value) in std::mem::take(&mut self.best.values) {
            let stride = (first..end).contains(&position).then_some(position / STRIDE);
            if stride.is_some() && stride == left {
                self.best.heap_bytes -= V::heap_bytes(&value);
                let start = position / STRIDE * STRIDE;
                if self.strides.back().is_none_or(|known| known.start != start) {
                    self.strides.push_back(start..start + STRIDE);
                }
                continue;
            }
            left = stride;
            kept.push_back((position, value));
        }
        kept.shrink_to_fit();
        self.best.values = kept;
    }
}

impl<V: Values> FrameFunction for Extremes<V> {
    fn takes(&self, side: Side) -> bool {
        takes(self.reach, side)
    }

    fn push(&mut self, side: Side, arrival: &Arrival<'_>) -> Result<()> {
        let end = arrival.first + arrival.rows as u64;
        if side == Side::Start {
            self.again_known = end;
            if self.strides.front().is_none_or(|stride| stride.start >= end) {
                return Ok(());
            }
            let values = V::array(&arrival.values[0], &self.data_type)?;
            for row in (0..arrival.rows).filter(|&row| values.is_valid(row)) {
                self.again.push_back(arrival.first + row as u64, V::value(&values, row));
            }
            return Ok(());
        }
        let values = V::array(&arrival.values[0], &self.data_type)?;
        let mut starts = arrival.starts.iter().peekable();
        for row in 0..arrival.rows {
            let position = arrival.first + row as u64;
            if starts.next_if(|&&start| start as usize == row).is_some() {
                self.partition = position;
            }
            if values.is_valid(row) {
                self.arrive(position, V::value(&values, row));
            }
        }
        self.known = end;
        if self.reach == Reach::Rest {
            self.thin_out();
        }
        Ok(())
    }

    fn advance(&mut self, stretch: &Stretch) -> Result<()> {
        self.move_to(stretch);
        if self.reach == Reach::Sliding {
            self.thin_out();
        }
        Ok(())
    }

    fn lacks(&self, stretch: &Stretch) -> Option<Need> {
        if takes(self.reach, Side::End) && stretch.end > self.known {
            return Some(Need::End);
        }
        // Rows that lie before all frames to come may go; and a stride in which the frame begins is wanted as a whole.
        let is_behind = takes(self.reach, Side::Start) && stretch.start > self.again_known;
        let is_in_stride = self.strides.front().is_some_and(|stride| stride.start <= stretch.start);
        (is_behind || is_in_stride).then_some(Need::Start)
    }

    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef> {
        let mut values = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            self.move_to(stretch);
            // The first may be of a later partition, if this one has no values.
            let first = self.best.values.front().filter(|(position, _)| *position < stretch.end);
            values.push(first.map(|(_, value)| value.clone()));
        }
        V::collect(values, &self.data_type)
    }

    fn bytes(&self) -> usize {
        self.pending.bytes()
            + self.best.bytes()
            + self.again.bytes()
            + self.strides.capacity() * size_of::<Range<u64>>()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::Int64Type;
    use diligence_base::seams::Random;

    use super::*;

    const ROWS: u64 = 100_000;

    /// Brings both sides as many rows as they lack, and compares frames of all lengths with what their rows say.
    fn check(values: &[Option<i64>], max: bool, reach: Reach, length: u64, partitions: &[u64]) {
        let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let mut extremes = Extremes::<Fixed<Int64Type>>::new(DataType::Int64, max, reach);
        let mut sent = [0_u64; 2];
        let mut send = |extremes: &mut Extremes<_>, side: Side| {
            // Batches of another size on each side.
            let (at, rows) = match side {
                Side::Start => (&mut sent[0], 700),
                _ => (&mut sent[1], 1000),
            };
            let rows = rows.min(ROWS - *at);
            let starts: Vec<u32> = partitions
                .iter()
                .filter_map(|start| start.checked_sub(*at).filter(|row| *row < rows))
                .map(|row| row as u32)
                .collect();
            let slice = [array.slice(*at as usize, rows as usize)];
            let arrival = Arrival { first: *at, rows: rows as usize, starts: &starts, kept: None, values: &slice };
            extremes.push(side, &arrival).unwrap();
            *at += rows;
        };
        if reach == Reach::Rest {
            (0..ROWS / 1000).for_each(|_| send(&mut extremes, Side::Arrival));
        }
        let mut most = 0;
        for row in (0..ROWS).step_by(997) {
            let begin = partitions.iter().rev().find(|start| **start <= row).copied().unwrap_or(0);
            let behind = partitions.iter().find(|start| **start > row).copied().unwrap_or(ROWS);
            let (start, end) = match reach {
                Reach::Rest => (row, behind),
                _ => ((row + 1).saturating_sub(length).max(begin), row + 1),
            };
            let stretch = Stretch { start, end, rows: 1, row: start, hole: Default::default() };
            extremes.advance(&stretch).unwrap();
            while let Some(need) = extremes.lacks(&stretch) {
                send(&mut extremes, if need == Need::Start { Side::Start } else { Side::End });
                extremes.advance(&stretch).unwrap();
                most = most.max(extremes.bytes());
            }
            let seen = extremes.evaluate(&[stretch]).unwrap();
            let frame = values[start as usize..end as usize].iter().flatten();
            let expected = if max { frame.max() } else { frame.min() };
            let seen = seen.as_primitive::<Int64Type>();
            assert_eq!(seen.is_valid(0).then(|| seen.value(0)), expected.copied(), "{stretch:?}");
        }
        // Much less than all values.
        assert!(most < 1_000_000, "{most} bytes");
    }

    #[test]
    fn frames_have_their_extremes_however_many_values_fall() {
        let mut random = Random::new(7);
        let falling: Vec<Option<i64>> = (0..ROWS as i64).rev().map(Some).collect();
        let mostly = falling.iter().map(|value| match random.below(20) {
            0 => None,
            1 => value.map(|value| value + random.below(20_000) as i64),
            _ => *value,
        });
        let mostly: Vec<Option<i64>> = mostly.collect();
        let mut rests = mostly.clone();
        // Partitions that fall to their ends, one of them to NULLs only.
        rests[55_000..60_500].fill(None);
        for length in [1, 5000, 40_000, ROWS] {
            check(&falling, true, Reach::Sliding, length, &[0]);
            check(&mostly, true, Reach::Sliding, length, &[0, 30_000, 30_001, 61_000]);
            check(&mostly, false, Reach::Sliding, length, &[0, 50_000]);
        }
        check(&falling, true, Reach::Rest, 0, &[0]);
        check(&rests, true, Reach::Rest, 0, &[0, 30_000, 60_500, 60_700]);
        check(&rests, false, Reach::Rest, 0, &[0, 30_000]);
    }
}
