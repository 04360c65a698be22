//! Joins without keys whose condition bounds the held side: `a.t BETWEEN b.begin AND b.end`, `a.x < b.x + 5`.
//!
//! Without more, each row of the one side meets each of the other. Where the condition is an AND of comparisons of
//! something of the held side with something of the probe side, the held rows are put in the order of one such value
//! when the first batch comes. A probe row then meets the rows between two places in this order only. If another value
//! of the held side is bounded, too, the best of it is known of every 64 rows, of every 64 of these, and so on: rows
//! that cannot fulfil that comparison are passed over together. So n and m rows with k pairs take about
//! (n + m + k) log n steps and not n m, as with an index that is made for the join (a priority search tree: McCreight,
//! SIAM Journal on Computing 14, 1985).
//!
//! ```text
//!   a.t >= b.begin AND a.t <= b.end
//!   held rows by begin:   [3 .. 9] [4 .. 5] [6 .. 20] | [11 .. 12] ...      t = 10: the first three, of which those
//!   greatest end of 64:   20                          | ...                 whose end is 10 or more
//! ```
//!
//! Invariants:
//! * What is found is a superset of what the condition takes, which is evaluated for it as ever. So values may be
//!   compared by numbers of 64 bits that only keep their order, the first bytes of a text among them.
//! * A value that is NULL takes part in no pair, as a comparison with it is not true.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, Schema};
use datafusion_common::JoinSide;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::BinaryExpr;
use diligence_base::Result;
use diligence_memory::Reservation;

use super::held::Held;
use crate::batch::{Batch, Column, to_logical};
use crate::expressions::Expr;

/// Held rows from which an order of them is made.
const ROWS_MIN: usize = 64;

/// Rows, or blocks of them, of which a block tells the best.
const BLOCK: usize = 64;

/// A comparison of the two sides.
#[derive(Clone)]
struct Bound {
    held: Expr,
    probe: Expr,
    /// The held value is at least that of the probe row; else it is at most that.
    is_least: bool,
}

/// What bounds the held side.
pub(in super::super) struct RangeSpec {
    /// Of the first value.
    bounds: Vec<Bound>,
    /// Of another one.
    other: Option<Bound>,
    /// A kept column, or one of the probe batch, for each column that the expressions read by position.
    columns: Vec<(JoinSide, usize)>,
}

impl RangeSpec {
    /// What a condition says; `None` if it bounds nothing.
    pub fn new(condition: &Expr, columns: &[(JoinSide, usize)], schema: &Schema) -> Option<Self> {
        let mut bounds = Vec::new();
        collect(condition.physical(), columns, schema, &mut bounds);
        let of = |bound: &Bound| bounds.iter().filter(|other| other.held == bound.held).cloned().collect::<Vec<_>>();
        let is_between =
            |bounds: &[Bound]| bounds.iter().any(|one| one.is_least) && bounds.iter().any(|one| !one.is_least);
        let first = bounds.iter().map(of).find(|bounds| is_between(bounds)).or_else(|| bounds.first().map(of))?;
        let other = bounds.iter().find(|bound| bound.held != first[0].held).cloned();
        Some(Self { bounds: first, other, columns: columns.to_vec() })
    }

    /// An expression over the columns of one side.
    fn values(
        &self,
        expression: &Expr,
        side: JoinSide,
        rows: usize,
        column: impl Fn(usize) -> Column,
    ) -> Result<Words> {
        let nothing = || Column::flat_array(new_null_array(&DataType::Null, rows));
        let columns = self.columns.iter().enumerate().map(|(place, (of, index))| {
            if *of == side && expression.columns().contains(&place) { column(*index) } else { nothing() }
        });
        let batch = Batch::new(columns.collect(), rows);
        words(&to_logical(&expression.evaluate(&batch)?.flat()?, expression.data_type())?)
    }
}

/// The comparisons of a condition that are of an expression of the held side with one of the probe side.
fn collect(condition: &Arc<dyn PhysicalExpr>, columns: &[(JoinSide, usize)], schema: &Schema, bounds: &mut Vec<Bound>) {
    let Some(binary) = condition.downcast_ref::<BinaryExpr>() else { return };
    if *binary.op() == Operator::And {
        collect(binary.left(), columns, schema, bounds);
        collect(binary.right(), columns, schema, bounds);
        return;
    }
    let is_least = match binary.op() {
        Operator::Gt | Operator::GtEq => true,
        Operator::Lt | Operator::LtEq => false,
        _ => return,
    };
    let expression = |side: &Arc<dyn PhysicalExpr>| Expr::new(side.clone(), schema).ok().filter(is_known);
    let (Some(left), Some(right)) = (expression(binary.left()), expression(binary.right())) else { return };
    let is_of = |expression: &Expr, side| {
        let mut of = expression.columns().iter().map(|&place| columns[place].0);
        !expression.columns().is_empty() && of.all(|of| of == side)
    };
    if left.data_type() != right.data_type() || !has_order(left.data_type()) {
        return;
    }
    if is_of(&left, JoinSide::Left) && is_of(&right, JoinSide::Right) {
        bounds.push(Bound { held: left, probe: right, is_least });
    } else if is_of(&left, JoinSide::Right) && is_of(&right, JoinSide::Left) {
        bounds.push(Bound { held: right, probe: left, is_least: !is_least });
    }
}

/// Whether an expression gives the same value each time.
fn is_known(expression: &Expr) -> bool {
    fn is_volatile(node: &Arc<dyn PhysicalExpr>) -> bool {
        node.is_volatile_node() || node.children().into_iter().any(is_volatile)
    }
    !expression.calls_outside() && !is_volatile(expression.physical())
}

/// Whether values of a type have numbers that keep their order.
fn has_order(logical: &DataType) -> bool {
    use DataType::*;
    matches!(
        logical,
        Int8 | Int16
            | Int32
            | Int64
            | Float32
            | Float64
            | Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(..)
            | Decimal128(..)
            | Utf8
            | LargeUtf8
            | Utf8View
    )
}

/// Numbers that keep the order of values, where there are values.
struct Words {
    words: Vec<i64>,
    nulls: Option<arrow::buffer::NullBuffer>,
}

impl Words {
    fn get(&self, row: usize) -> Option<i64> {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)).then(|| self.words[row])
    }
}

fn words(values: &ArrayRef) -> Result<Words> {
    use DataType::*;
    let foreign = diligence_storage::foreign_error::from_arrow;
    let words = match values.data_type() {
        Float32 | Float64 => {
            let doubles = cast(values, &Float64).map_err(foreign)?;
            doubles.as_primitive::<Float64Type>().values().iter().map(|&value| double_word(value)).collect()
        }
        Decimal128(..) => {
            let clamped = |value: &i128| (*value).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            values.as_primitive::<Decimal128Type>().values().iter().map(clamped).collect()
        }
        Utf8 | LargeUtf8 | Utf8View => {
            let texts = cast(values, &Utf8View).map_err(foreign)?;
            texts.as_string_view().iter().map(|text| text.map_or(0, |text| text_word(text.as_bytes()))).collect()
        }
        Date32 | Time32(_) => {
            let days = cast(values, &Int32).and_then(|days| cast(&days, &Int64)).map_err(foreign)?;
            days.as_primitive::<Int64Type>().values().to_vec()
        }
        _ => cast(values, &Int64).map_err(foreign)?.as_primitive::<Int64Type>().values().to_vec(),
    };
    Ok(Words { words, nulls: values.logical_nulls() })
}

/// Of numbers with a fraction: both zeros are one, and whatever is no number is the greatest.
fn double_word(value: f64) -> i64 {
    let bits = if value.is_nan() { f64::NAN.abs() } else { value + 0.0 }.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// Of texts, the first bytes.
fn text_word(text: &[u8]) -> i64 {
    let mut first = [0; 8];
    let length = text.len().min(8);
    first[..length].copy_from_slice(&text[..length]);
    (u64::from_be_bytes(first) ^ (1 << 63)) as i64
}

/// Held rows in order.
pub(in super::super) struct RangeIndex {
    spec: Arc<RangeSpec>,
    rows: Vec<u32>,
    /// The first value of each.
    words: Vec<i64>,
    /// Of the other value, if it is bounded, what is best: of each row, of each block, of each block of blocks.
    best: Vec<Vec<i64>>,
    _reservation: Option<Reservation>,
}

/// The rows that probe rows of a batch may meet.
pub(in super::super) struct Ranges {
    index: Arc<RangeIndex>,
    /// Of each: from which place in the order to which, and what the other value is at least.
    places: Vec<(usize, usize, i64)>,
}

impl RangeIndex {
    /// The held rows in order; `None` if they are few, if there is no memory for it, or if the values cannot be
    /// computed for all rows.
    pub fn new(spec: &Arc<RangeSpec>, held: &Held) -> Option<Arc<Self>> {
        if held.rows < ROWS_MIN {
            return None;
        }
        let levels = usize::from(spec.other.is_some());
        let mut reservation = held.paid.as_ref().map(|paid| paid.sibling());
        if let Some(reservation) = &mut reservation {
            // What is computed, what is sorted, and what stays.
            reservation.grow(held.rows * (16 + 4 + 8 + levels * 17)).ok()?;
        }
        let column = |index: usize| Column::flat_array(held.columns[index].clone());
        let values = |bound: &Bound| spec.values(&bound.held, JoinSide::Left, held.rows, column).ok();
        let first = values(&spec.bounds[0])?;
        let other = match &spec.other {
            Some(other) => Some((values(other)?, other.is_least)),
            None => None,
        };
        let has_both = |row: &usize| {
            first.get(*row).is_some() && other.as_ref().is_none_or(|(other, _)| other.get(*row).is_some())
        };
        let mut sorted = (0..held.rows).filter(has_both).map(|row| (first.words[row], row as u32)).collect::<Vec<_>>();
        sorted.sort_unstable();
        let (words, rows): (Vec<_>, Vec<_>) = sorted.into_iter().unzip();
        let mut best = Vec::new();
        if let Some((other, is_least)) = other {
            let word = |&row: &u32| least(other.words[row as usize], is_least);
            best.push(rows.iter().map(word).collect::<Vec<_>>());
            while let Some(below) = best.last().filter(|below| below.len() > BLOCK) {
                let block = |block: &[i64]| block.iter().copied().max().unwrap_or(i64::MIN);
                best.push(below.chunks(BLOCK).map(block).collect());
            }
        }
        if let Some(reservation) = &mut reservation {
            reservation.shrink(held.rows * (16 + levels * 8));
        }
        Some(Arc::new(Self { spec: spec.clone(), rows, words, best, _reservation: reservation }))
    }

    /// The probe rows of a batch that may meet any, and what they may meet. `None` if that cannot be computed.
    pub fn ranges(self: &Arc<Self>, batch: &Batch) -> Option<(Vec<u32>, Ranges)> {
        let spec = &self.spec;
        let column = |index: usize| batch.column(index).clone();
        let values = |bound: &Bound| spec.values(&bound.probe, JoinSide::Right, batch.rows(), column).ok();
        let bounds =
            spec.bounds.iter().map(|bound| Some((values(bound)?, bound.is_least))).collect::<Option<Vec<_>>>()?;
        let other = match &spec.other {
            Some(other) => Some((values(other)?, other.is_least)),
            None => None,
        };
        let (mut probe, mut places) = (Vec::new(), Vec::new());
        'rows: for row in 0..batch.rows() {
            let (mut from, mut to) = (0, self.words.len());
            for (values, is_least) in &bounds {
                let Some(word) = values.get(row) else { continue 'rows };
                match is_least {
                    true => from = from.max(self.words.partition_point(|own| *own < word)),
                    false => to = to.min(self.words.partition_point(|own| *own <= word)),
                }
            }
            let other = match &other {
                Some((values, is_least)) => match values.get(row) {
                    Some(word) => least(word, *is_least),
                    None => continue,
                },
                None => i64::MIN,
            };
            if from < to {
                probe.push(row as u32);
                places.push((from, to, other));
            }
        }
        Some((probe, Ranges { index: self.clone(), places }))
    }

    /// The first place from `place` on, before `to`, whose other value is at least `other`; `to` if there is none.
    fn next(&self, mut place: usize, to: usize, other: i64) -> usize {
        let Some((own, blocks)) = self.best.split_first() else { return place };
        while place < to {
            // The largest block that this is in and that has nothing.
            let (mut span, mut behind) = (BLOCK, place);
            for best in blocks {
                if best[place / span] >= other {
                    break;
                }
                behind = (place / span + 1) * span;
                span *= BLOCK;
            }
            if behind > place {
                place = behind;
                continue;
            }
            let end = to.min((place / BLOCK + 1) * BLOCK);
            match own[place..end].iter().position(|word| *word >= other) {
                Some(found) => return place + found,
                None => place = end,
            }
        }
        to
    }
}

/// What is to be at least as large, whether a value is to be that, or at most as large.
fn least(word: i64, is_least: bool) -> i64 {
    if is_least { word } else { !word }
}

impl Ranges {
    /// Appends held rows that a probe row, the one at this position, may meet, from the place `from` in the order on,
    /// but not more than `most`. The place to go on at; `None` if there are no more.
    pub fn append(&self, position: usize, from: usize, most: usize, build: &mut Vec<u32>) -> Option<usize> {
        let (first, to, other) = self.places[position];
        let mut place = self.index.next(from.max(first), to, other);
        let end = build.len() + most;
        if self.index.best.is_empty() {
            let to_now = to.min(place + most);
            build.extend_from_slice(&self.index.rows[place.min(to_now)..to_now]);
            return (to_now < to).then_some(to_now);
        }
        while place < to {
            if build.len() == end {
                return Some(place);
            }
            build.push(self.index.rows[place]);
            place = self.index.next(place + 1, to, other);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_keep_the_order_of_values() {
        let doubles = [f64::NEG_INFINITY, -1.5, -1e-300, 0.0, 1e-300, 1.5, f64::INFINITY, f64::NAN];
        assert!(doubles.windows(2).all(|two| double_word(two[0]) < double_word(two[1])));
        assert_eq!(double_word(-0.0), double_word(0.0));
        assert_eq!(double_word(-f64::NAN), double_word(f64::NAN));
        let texts = ["", "a", "a\u{1}", "ab", "b", "zzzzzzzz", "zzzzzzzzz", "é"];
        assert!(texts.windows(2).all(|two| text_word(two[0].as_bytes()) <= text_word(two[1].as_bytes())));
        assert_eq!(text_word(b"zzzzzzzz"), text_word(b"zzzzzzzzz"));
    }

    proptest! {
        /// Whatever the blocks pass over has nothing, and nothing else is passed over.
        #[test]
        fn rows_that_cannot_match_are_passed_over(
            values in prop::collection::vec(0_i64..1000, 1..10_000), least in 0_i64..1001, from in 0_usize..10_000,
            most in 1_usize..500,
        ) {
            let mut best = vec![values.clone()];
            while best.last().unwrap().len() > BLOCK {
                let above = best.last().unwrap().chunks(BLOCK).map(|block| *block.iter().max().unwrap()).collect();
                best.push(above);
            }
            let rows = (0..values.len() as u32).collect::<Vec<_>>();
            let spec = Arc::new(RangeSpec { bounds: vec![], other: None, columns: vec![] });
            let index = Arc::new(RangeIndex { spec, rows, words: values.clone(), best, _reservation: None });
            let from = from.min(values.len());
            let ranges = Ranges { index, places: vec![(from, values.len(), least)] };
            let (mut found, mut place) = (Vec::new(), Some(0));
            while let Some(at) = place {
                let before = found.len();
                place = ranges.append(0, at, most, &mut found);
                prop_assert!(found.len() - before <= most);
            }
            let expected = (from..values.len()).filter(|&at| values[at] >= least).map(|at| at as u32);
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
