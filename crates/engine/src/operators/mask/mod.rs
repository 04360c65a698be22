//! Says of each row which of several queries want it, and drops the rows that none does.
//!
//! The masks come out as picks of the few different ones, as after a join with a small table: grouping by them costs an
//! array lookup then. Where they are not few, they come out flat.
//!
//! A column's values are of few kinds, each with a mask of its own ([`Lookup`]). The kinds of all columns together make
//! a row's *code*, its place in a grid, where it is known which mask that is: no row's mask has to be computed, or
//! looked for among the known ones. Conditions that are no comparisons of a column clear the bits of the queries that
//! have them, one condition after the other; [`texts`] that many look for are looked for together, and several
//! conditions on a column of few values are looked at [once per value](by_value). Where each query wants first rows,
//! the bits of queries for which a row is none of the [first](FirstOfEach) are cleared in the end.
//!
//! Invariants: row order is kept; no mask that comes out is zero.

mod automaton;
mod by_value;
mod texts;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt32Array, UInt64Array};
use arrow::datatypes::UInt64Type;
use diligence_base::Result;
use hashbrown::HashMap;

use crate::batch::{Batch, Column, Selection};
use crate::expressions::Expr;
use crate::flow::{Flow, Operator, OperatorState, Output, QueryContext};
use crate::operators::sort::FirstOfEach;
use crate::plan::mask_lookup::Lookup;
use crate::plan::{Mask, SortKey};
use by_value::ColumnConditions;
use texts::TextSearch;

/// Different masks that a packet keeps in a list, at most: as many values as a direct grouping takes.
const KNOWN_MAX: usize = 4096;

/// The operator as planned.
pub struct MaskRows {
    queries: u64,
    lookups: Vec<(usize, Arc<Lookup>)>,
    conditions: Vec<(Expr, u64)>,
    masks: Vec<usize>,
    unwanted: Vec<usize>,
    first: Option<(Vec<SortKey>, usize)>,
    columns: Vec<usize>,
}

impl MaskRows {
    /// As planned.
    pub fn new(plan: &Mask) -> Arc<Self> {
        let Mask { queries, lookups, conditions, masks, unwanted, first, columns, .. } = plan.clone();
        Arc::new(Self { queries, lookups, conditions, masks, unwanted, first, columns })
    }
}

impl Operator for MaskRows {
    fn name(&self) -> &'static str {
        "Mask"
    }

    fn open(&self, setup: &QueryContext) -> Result<Box<dyn OperatorState>> {
        let first = self.first.as_ref().map(|(keys, wanted)| FirstOfEach::new(keys, *wanted, self.queries, setup));
        let first = first.transpose()?;
        let (lookups, masks, columns) = (self.lookups.clone(), self.masks.clone(), self.columns.clone());
        let (mut conditions, unwanted) = (self.conditions.clone(), self.unwanted.clone());
        let texts = TextSearch::take_from(&mut conditions, &setup.memory);
        let by_value = ColumnConditions::take_from(&mut conditions);
        let only_lookups = masks.is_empty() && unwanted.is_empty() && self.conditions.is_empty() && first.is_none();
        let grid = if only_lookups { Grid::of(&lookups) } else { None };
        let (queries, rows, known) = (self.queries, Vec::new(), Known::default());
        Ok(Box::new(MaskState {
            queries,
            lookups,
            texts,
            by_value,
            conditions,
            masks,
            unwanted,
            first,
            columns,
            rows,
            known,
            grid,
        }))
    }
}

struct MaskState {
    queries: u64,
    lookups: Vec<(usize, Arc<Lookup>)>,
    texts: Vec<TextSearch>,
    by_value: Vec<ColumnConditions>,
    conditions: Vec<(Expr, u64)>,
    masks: Vec<usize>,
    unwanted: Vec<usize>,
    first: Option<FirstOfEach>,
    columns: Vec<usize>,
    /// The masks of a batch's rows.
    rows: Vec<u64>,
    known: Known,
    /// If the kinds of all columns make few codes.
    grid: Option<Grid>,
}

impl MaskState {
    /// The rows that somebody wants, with their masks, by their codes.
    fn by_code(&mut self, input: &Batch, out: &mut Output) -> Result<Flow> {
        let Some(grid) = &mut self.grid else { return Ok(Flow::NeedInput) };
        grid.codes.clear();
        grid.codes.resize(input.rows(), 0);
        for ((column, lookup), stride) in self.lookups.iter().zip(&grid.strides) {
            lookup.add_kinds(&input.flat(*column)?, *stride, &mut grid.codes)?;
        }
        let (mut numbers, mut places) = (Vec::with_capacity(input.rows()), Vec::with_capacity(input.rows()));
        for (row, code) in grid.codes.iter().enumerate() {
            let place = match grid.places[*code as usize] {
                NOT_LOOKED_AT => {
                    let place = grid.look_at(*code, &self.lookups, &mut self.known);
                    grid.places[*code as usize] = place;
                    place
                }
                place => place,
            };
            if place != NOBODY {
                numbers.push(row as u32);
                places.push(place);
            }
        }
        if places.is_empty() {
            return Ok(Flow::NeedInput);
        }
        let kept = input.project(&self.columns);
        let kept = if places.len() == input.rows() { kept } else { kept.pick(&UInt32Array::from(numbers))? };
        let rows = places.len();
        let masks = Batch::new(vec![self.known.picked(places)], rows);
        out.emit(kept.beside(masks));
        Ok(Flow::NeedInput)
    }
}

impl OperatorState for MaskState {
    fn push(&mut self, input: Batch, out: &mut Output) -> Result<Flow> {
        if self.grid.is_some() {
            return self.by_code(&input, out);
        }
        self.rows.clear();
        self.rows.resize(input.rows(), self.queries);
        for &column in &self.masks {
            let masks = input.flat(column)?;
            let masks = masks.as_primitive::<UInt64Type>();
            self.rows.iter_mut().zip(masks.values()).for_each(|(row, mask)| *row &= mask);
        }
        for &column in &self.unwanted {
            let masks = input.flat(column)?;
            let masks = masks.as_primitive::<UInt64Type>();
            self.rows.iter_mut().zip(masks.iter()).for_each(|(row, mask)| *row &= !mask.unwrap_or(0));
        }
        for (column, lookup) in &self.lookups {
            lookup.restrict(&input.flat(*column)?, &mut self.rows)?;
        }
        for conditions in &self.by_value {
            conditions.restrict(&input, &mut self.rows)?;
        }
        for text in &self.texts {
            text.restrict(&input, &mut self.rows)?;
        }
        for (condition, queries) in &self.conditions {
            clear_unless(condition, *queries, &input, &mut self.rows)?;
        }
        if let Some(first) = &mut self.first {
            first.restrict(&input, &mut self.rows)?;
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

/// Clears the bits of these queries in the masks of the rows for which a condition is not true. It is evaluated for the
/// rows that one of them still wants, unless these are nearly all.
fn clear_unless(condition: &Expr, queries: u64, input: &Batch, rows: &mut [u64]) -> Result<()> {
    let asked = rows.iter().filter(|&&mask| mask & queries != 0).count();
    if asked == 0 {
        return Ok(());
    }
    let picks = (asked <= rows.len() / 4 * 3).then(|| {
        let wanted = rows.iter().enumerate().filter(|(_, mask)| *mask & queries != 0);
        UInt32Array::from_iter_values(wanted.map(|(row, _)| row as u32))
    });
    let selection = match &picks {
        Some(picks) => condition.select(&input.pick(picks)?)?,
        None => condition.select(input)?,
    };
    let mut clear = |places: Range<usize>| match &picks {
        Some(picks) => picks.values()[places].iter().for_each(|&row| rows[row as usize] &= !queries),
        None => rows[places].iter_mut().for_each(|mask| *mask &= !queries),
    };
    let places = if picks.is_some() { asked } else { input.rows() };
    match selection {
        Selection::All => {}
        Selection::None => clear(0..places),
        Selection::Rows(kept) => {
            let mut next = 0;
            for &place in kept.values() {
                clear(next..place as usize);
                next = place as usize + 1;
            }
            clear(next..places);
        }
    }
    Ok(())
}

/// Where the grid does not know yet which mask a code has.
const NOT_LOOKED_AT: u32 = u32::MAX;

/// The place of rows that nobody wants.
const NOBODY: u32 = u32::MAX - 1;

/// The masks of all codes.
struct Grid {
    /// By lookup, what its kinds are multiplied with.
    strides: Vec<u32>,
    /// By code, the place of its mask among those that are known.
    places: Vec<u32>,
    /// Of a batch's rows.
    codes: Vec<u32>,
}

impl Grid {
    /// One over the kinds of all lookups, if they make few codes.
    fn of(lookups: &[(usize, Arc<Lookup>)]) -> Option<Self> {
        let (mut strides, mut codes) = (Vec::with_capacity(lookups.len()), 1usize);
        for (_, lookup) in lookups {
            strides.push(codes as u32);
            codes = codes.checked_mul(lookup.kinds()).filter(|codes| *codes <= KNOWN_MAX)?;
        }
        Some(Self { strides, places: vec![NOT_LOOKED_AT; codes], codes: Vec::new() })
    }

    /// The place of the mask of a code.
    fn look_at(&self, code: u32, lookups: &[(usize, Arc<Lookup>)], known: &mut Known) -> u32 {
        let masks = lookups.iter().zip(&self.strides).map(|((_, lookup), stride)| {
            let kind = code / stride % lookup.kinds() as u32;
            lookup.mask_of(kind as usize)
        });
        match masks.fold(u64::MAX, |all, mask| all & mask) {
            0 => NOBODY,
            mask => known.place(mask),
        }
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
            return self.picked(picks);
        }
        self.given_up = true;
        Column::flat_array(Arc::new(UInt64Array::from(rows.to_vec())))
    }

    /// The masks at these places as a column.
    fn picked(&mut self, places: Vec<u32>) -> Column {
        let masks = &self.masks;
        let values = self.values.get_or_insert_with(|| Arc::new(UInt64Array::from(masks.clone())));
        Column::picked(values.clone(), Arc::new(UInt32Array::from(places)))
    }

    /// A mask's place in the list, where it is now.
    fn place(&mut self, mask: u64) -> u32 {
        let next = self.masks.len() as u32;
        let place = *self.places.entry(mask).or_insert(next);
        if place == next {
            self.masks.push(mask);
            self.values = None;
        }
        place
    }

    /// Each row's place in the list; `None` if the list gets too long.
    fn places(&mut self, rows: &[u64]) -> Option<Vec<u32>> {
        let mut places = Vec::with_capacity(rows.len());
        // Rows side by side often have the same mask.
        let mut last = (0, 0);
        for &mask in rows {
            if mask != last.0 {
                last = (mask, self.place(mask));
            }
            places.push(last.1);
        }
        (self.masks.len() <= KNOWN_MAX).then_some(places)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion_common::ScalarValue;
    use datafusion_expr::Operator as Compared;
    use datafusion_physical_expr::expressions::{BinaryExpr, Column, IsNullExpr, Literal};
    use diligence_memory::QueryMemory;

    use super::*;
    use crate::plan::mask_lookup::Comparison;

    fn run(operator: &MaskRows, batches: Vec<Vec<ArrayRef>>) -> Vec<Vec<(i64, u64)>> {
        let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 8192, packets: 1 };
        let mut state = operator.open(&context).unwrap();
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
        let operator = MaskRows {
            queries: u64::MAX,
            lookups: vec![(0, lookup)],
            conditions: vec![],
            masks: vec![],
            unwanted: vec![],
            first: None,
            columns: vec![0],
        };
        let numbers = |range: std::ops::Range<i64>| vec![Arc::new(Int64Array::from_iter_values(range)) as ArrayRef];
        let rows = run(&operator, vec![numbers(2..7), numbers(7..9), numbers(0..2)]);
        assert_eq!(rows, [vec![(2, 3), (3, 2), (4, 2)], vec![(0, 3), (1, 3)]]);
    }

    #[test]
    fn by_code_and_row_by_row_is_the_same() {
        let between = |low: i64, high: i64| {
            let int = |value| vec![ScalarValue::Int64(Some(value))];
            vec![(Comparison::AtLeast, int(low)), (Comparison::Less, int(high))]
        };
        let count = 5000i64;
        let numbers = |step: i64| {
            let value = move |row: i64| (row % 13 != 0).then_some(row * step % 200 - 20);
            Arc::new((0..count).map(value).collect::<Int64Array>()) as ArrayRef
        };
        let arrays = vec![numbers(1), numbers(7), numbers(31)];
        // Few kinds, then so many that there is no grid.
        for queries in [5i64, 64] {
            let lookup = |column: usize, step: i64| {
                let terms = (0..queries).map(|query| between(query * step % 150, query * step % 150 + 20));
                (column, Arc::new(Lookup::new(&terms.collect::<Vec<_>>()).unwrap()))
            };
            let lookups = vec![lookup(1, 7), lookup(2, 11)];
            assert_eq!(Grid::of(&lookups).is_some(), queries == 5);
            let operator = MaskRows {
                queries: u64::MAX,
                lookups: lookups.clone(),
                conditions: vec![],
                masks: vec![],
                unwanted: vec![],
                first: None,
                columns: vec![0],
            };
            let rows = run(&operator, vec![arrays.clone(), arrays.clone()]);
            let mut masks = vec![u64::MAX; count as usize];
            for (column, lookup) in &lookups {
                lookup.restrict(&arrays[*column], &mut masks).unwrap();
            }
            let values = arrays[0].as_primitive::<arrow::datatypes::Int64Type>().values();
            let expected = values.iter().copied().zip(masks).filter(|(_, mask)| *mask != 0).collect::<Vec<_>>();
            assert!(!expected.is_empty() && rows == [expected.clone(), expected]);
        }
    }

    #[test]
    fn a_condition_clears_the_bits_of_those_who_have_it() {
        let schema = Schema::new(vec![Field::new("x", DataType::Int64, true)]);
        let is = |operator, number| {
            let (column, number) = (Column::new("x", 0), Literal::new(ScalarValue::Int64(Some(number))));
            Expr::new(Arc::new(BinaryExpr::new(Arc::new(column), operator, Arc::new(number))), &schema).unwrap()
        };
        let conditions =
            vec![(is(Compared::NotEq, 1), 0b101), (is(Compared::Lt, 2), 0b010), (is(Compared::Gt, 9), 0b100)];
        let operator = MaskRows {
            queries: u64::MAX,
            lookups: vec![],
            conditions,
            masks: vec![1],
            unwanted: vec![],
            first: None,
            columns: vec![0],
        };
        let numbers = vec![Some(0), Some(1), Some(2), None, Some(10), Some(1)];
        let masks = vec![0b111, 0b111, 0b011, 0b111, 0b111, 0b100];
        let arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(numbers)), Arc::new(UInt64Array::from(masks))];
        assert_eq!(run(&operator, vec![arrays.clone()]), [[(0, 0b011), (1, 0b010), (2, 0b001), (10, 0b101)]]);
        // Without masks below, everybody wants a row at first; and masks of those who do not want it are taken away.
        let operator = MaskRows { queries: 0b110, masks: vec![], unwanted: vec![1], ..operator };
        assert_eq!(run(&operator, vec![arrays]), [[(1, 0b010)]]);
    }

    #[test]
    fn a_condition_is_the_same_for_few_rows_and_for_all() {
        let schema = Schema::new(vec![Field::new("x", DataType::Int64, true)]);
        let column: Arc<dyn datafusion_physical_expr::PhysicalExpr> = Arc::new(Column::new("x", 0));
        let less = |number| Arc::new(Literal::new(ScalarValue::Int64(Some(number))));
        let condition =
            |number| Expr::new(Arc::new(BinaryExpr::new(column.clone(), Compared::Lt, less(number))), &schema);
        let conditions = [(500, 0b001), (0, 0b010), (2000, 0b100)];
        // Of the first query's condition all rows, some, few; of the second, which nothing fulfills, the same.
        for step in [1u64, 2, 7, 100] {
            let values = (0..1000).map(|row| (row % 11 != 0).then_some(row)).collect::<Vec<Option<i64>>>();
            let masks = (0..1000).map(|row| if row % step == 0 { 0b111 } else { 0b100 }).collect::<Vec<u64>>();
            let operator = MaskRows {
                queries: u64::MAX,
                lookups: vec![],
                conditions: conditions.iter().map(|(number, mask)| (condition(*number).unwrap(), *mask)).collect(),
                masks: vec![1],
                unwanted: vec![],
                first: None,
                columns: vec![0],
            };
            let arrays: Vec<ArrayRef> =
                vec![Arc::new(Int64Array::from(values.clone())), Arc::new(UInt64Array::from(masks.clone()))];
            let expected = values.iter().zip(masks).filter_map(|(value, mask)| {
                let value = (*value)?;
                let wanted = conditions.iter().filter(|(number, _)| value < *number).fold(0, |all, (_, bit)| all | bit);
                Some((value, mask & wanted)).filter(|(_, mask)| *mask != 0)
            });
            assert_eq!(run(&operator, vec![arrays]), [expected.collect::<Vec<_>>()], "every {step}th");
        }
    }

    #[test]
    fn conditions_on_a_column_are_the_same_by_value_and_by_row() {
        let schema = Schema::new(vec![Field::new("x", DataType::Int64, true)]);
        let column: Arc<dyn datafusion_physical_expr::PhysicalExpr> = Arc::new(Column::new("x", 0));
        let is = |operator, number| {
            let number = Arc::new(Literal::new(ScalarValue::Int64(Some(number))));
            Expr::new(Arc::new(BinaryExpr::new(column.clone(), operator, number)), &schema).unwrap()
        };
        let is_null = Expr::new(Arc::new(IsNullExpr::new(column.clone())), &schema).unwrap();
        let conditions = vec![(is(Compared::NotEq, 3), 0b0011), (is(Compared::Lt, 7), 0b0110), (is_null, 0b1000)];
        let operator = MaskRows {
            queries: 0b1111,
            lookups: vec![],
            conditions,
            masks: vec![],
            unwanted: vec![],
            first: None,
            columns: vec![0],
        };
        let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 8192, packets: 1 };
        // NULL as a value, and rows without a value.
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(9)]));
        let picks = (0..400).map(|row| (row % 7 != 0).then_some(row % 4)).collect::<UInt32Array>();
        let picked = crate::batch::Column::picked(values, Arc::new(picks));
        let flat = crate::batch::Column::flat_array(picked.flat().unwrap());
        let mut answers = Vec::new();
        for column in [picked, flat] {
            let (mut state, mut out) = (operator.open(&context).unwrap(), Output::default());
            state.push(Batch::new(vec![column], 400), &mut out).unwrap();
            let batch = out.take().unwrap();
            let masks = batch.flat(1).unwrap().as_primitive::<UInt64Type>().values().to_vec();
            answers.push((batch.flat(0).unwrap().as_primitive::<arrow::datatypes::Int64Type>().clone(), masks));
        }
        assert_eq!(answers[0], answers[1]);
        let of = |value: Option<i64>| {
            let place = answers[0].0.iter().position(|other| other == value);
            place.map(|place| answers[0].1[place])
        };
        assert_eq!([Some(1), Some(3), Some(9), None].map(of), [Some(0b0111), Some(0b0100), Some(0b0001), Some(0b1000)]);
    }

    #[test]
    fn masks_of_two_sides_meet_however_many_there_are() {
        let operator = MaskRows {
            queries: u64::MAX,
            lookups: vec![],
            conditions: vec![],
            masks: vec![1, 2],
            unwanted: vec![],
            first: None,
            columns: vec![0],
        };
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
