//! Says of each row which of several queries want it, and drops the rows that none does.
//!
//! The masks come out as picks of the few different ones, as after a join with a small table: grouping by them costs an array
//! lookup then. Where they are not few, they come out flat.
//!
//! Invariants: row order is kept; no mask that comes out is zero.

mod lookup;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt32Array, UInt64Array};
use arrow::datatypes::UInt64Type;
use diligence_base::Result;
use hashbrown::HashMap;

use crate::batch::{Batch, Column};
use crate::pipeline::{Flow, Operator, OperatorState, Output, Setup};
use crate::plan::Mask;
pub(crate) use lookup::{Comparison, Key, Lookup, Terms};

/// Different masks that a packet keeps in a list, at most: as many values as a direct grouping takes.
const KNOWN_MAX: usize = 4096;

/// The operator as planned.
pub struct MaskRows {
    lookups: Vec<(usize, Arc<Lookup>)>,
    masks: Vec<usize>,
    columns: Vec<usize>,
}

impl MaskRows {
    /// As planned.
    pub fn new(plan: &Mask) -> Arc<Self> {
        let Mask { lookups, masks, columns, .. } = plan.clone();
        Arc::new(Self { lookups, masks, columns })
    }
}

impl Operator for MaskRows {
    fn name(&self) -> &'static str {
        "Mask"
    }

    fn open(&self, _setup: &Setup) -> Result<Box<dyn OperatorState>> {
        let (lookups, masks, columns) = (self.lookups.clone(), self.masks.clone(), self.columns.clone());
        Ok(Box::new(State { lookups, masks, columns, rows: Vec::new(), known: Known::default() }))
    }
}

struct State {
    lookups: Vec<(usize, Arc<Lookup>)>,
    masks: Vec<usize>,
    columns: Vec<usize>,
    /// The masks of a batch's rows.
    rows: Vec<u64>,
    known: Known,
}

impl OperatorState for State {
    fn push(&mut self, input: Batch, out: &mut Output) -> Result<Flow> {
        self.rows.clear();
        self.rows.resize(input.rows(), u64::MAX);
        for &column in &self.masks {
            let masks = input.flat(column)?;
            let masks = masks.as_primitive::<UInt64Type>();
            self.rows.iter_mut().zip(masks.values()).for_each(|(row, mask)| *row &= mask);
        }
        for (column, lookup) in &self.lookups {
            lookup.restrict(&input.flat(*column)?, &mut self.rows)?;
        }
        let wanted = self.rows.iter().filter(|&&mask| mask != 0).count();
        if wanted == 0 {
            return Ok(Flow::NeedInput);
        }
        let kept = input.project(&self.columns);
        let kept = if wanted == input.rows() {
            kept
        } else {
            let numbers = self.rows.iter().enumerate().filter(|(_, mask)| **mask != 0).map(|(row, _)| row as u32);
            let picks = UInt32Array::from_iter_values(numbers);
            self.rows.retain(|&mask| mask != 0);
            kept.pick(&picks)?
        };
        let masks = Batch::new(vec![self.known.column(&self.rows)], self.rows.len());
        out.emit(kept.beside(masks));
        Ok(Flow::NeedInput)
    }
}

/// The masks seen so far, numbered in the order of their appearance.
#[derive(Default)]
struct Known {
    places: HashMap<u64, u32>,
    masks: Vec<u64>,
    /// The same; the one that batches refer to.
    values: Option<ArrayRef>,
    given_up: bool,
}

impl Known {
    /// The masks as a column.
    fn column(&mut self, rows: &[u64]) -> Column {
        if !self.given_up
            && let Some(picks) = self.places(rows)
        {
            let masks = &self.masks;
            let values = self.values.get_or_insert_with(|| Arc::new(UInt64Array::from(masks.clone())));
            return Column::picked(values.clone(), Arc::new(UInt32Array::from(picks)));
        }
        self.given_up = true;
        Column::flat_array(Arc::new(UInt64Array::from(rows.to_vec())))
    }

    /// Each row's place in the list; `None` if the list gets too long.
    fn places(&mut self, rows: &[u64]) -> Option<Vec<u32>> {
        let mut places = Vec::with_capacity(rows.len());
        // Rows side by side often have the same mask.
        let mut last = (0, 0);
        for &mask in rows {
            if mask != last.0 {
                let next = self.masks.len() as u32;
                let place = *self.places.entry(mask).or_insert(next);
                if place == next {
                    self.masks.push(mask);
                    self.values = None;
                }
                last = (mask, place);
            }
            places.push(last.1);
        }
        (self.masks.len() <= KNOWN_MAX).then_some(places)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use datafusion_common::ScalarValue;

    use super::*;
    use crate::memory::QueryMemory;

    fn run(operator: &MaskRows, batches: Vec<Vec<ArrayRef>>) -> Vec<Vec<(i64, u64)>> {
        let setup = Setup { memory: QueryMemory::unbounded(), temp: None, batch_rows: 8192, packets: 1 };
        let mut state = operator.open(&setup).unwrap();
        let mut out = Output::default();
        let mut rows = Vec::new();
        for arrays in batches {
            let count = arrays[0].len();
            state.push(Batch::from_arrays(arrays, count), &mut out).unwrap();
            while let Some(batch) = out.take() {
                let (values, masks) = (batch.flat(0).unwrap(), batch.flat(1).unwrap());
                let values = values.as_primitive::<arrow::datatypes::Int64Type>().values().to_vec();
                rows.push(values.into_iter().zip(masks.as_primitive::<UInt64Type>().values().to_vec()).collect());
            }
        }
        rows
    }

    #[test]
    fn rows_that_nobody_wants_are_dropped() {
        let less = |bound| vec![(Comparison::Less, vec![ScalarValue::Int64(Some(bound))])];
        let lookup = Arc::new(Lookup::new(&[less(3), less(5)]).unwrap());
        let operator = MaskRows { lookups: vec![(0, lookup)], masks: vec![], columns: vec![0] };
        let numbers = |range: std::ops::Range<i64>| vec![Arc::new(Int64Array::from_iter_values(range)) as ArrayRef];
        let rows = run(&operator, vec![numbers(2..7), numbers(7..9), numbers(0..2)]);
        assert_eq!(rows, [vec![(2, 3), (3, 2), (4, 2)], vec![(0, 3), (1, 3)]]);
    }

    #[test]
    fn masks_of_two_sides_meet_however_many_there_are() {
        let operator = MaskRows { lookups: vec![], masks: vec![1, 2], columns: vec![0] };
        let count = KNOWN_MAX as u64 + 10;
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..count as i64)),
            Arc::new(UInt64Array::from_iter_values(0..count)),
            Arc::new(UInt64Array::from_iter_values((0..count).map(|row| row | 1 << 40))),
        ];
        let rows = run(&operator, vec![arrays.clone(), arrays]);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0], (1..count).map(|row| (row as i64, row)).collect::<Vec<_>>());
        assert_eq!(rows[0], rows[1]);
    }
}
