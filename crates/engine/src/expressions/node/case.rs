//! CASE.
//!
//! Every row is given to the first arm whose condition is true, or to ELSE; a condition sees the rows that the arms
//! before it left, and a result is computed for the rows of its arm, so nothing fails that SQL says is not evaluated.
//! Where an arm has most rows, its result is computed for the whole batch instead, as a bet: an error there is
//! forgotten, and the arm's own rows are computed.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal64Array, PrimitiveArray, UInt32Array, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{
    ArrowPrimitiveType, DECIMAL64_MAX_PRECISION, DataType, Date32Type, Decimal64Type, Float64Type, Int32Type, Int64Type,
};
use diligence_base::Result;
use diligence_storage::foreign_error::from_arrow;

use super::Node;
use crate::batch::{Batch, Selection};
use crate::expressions::operand::Operand;

/// A searched CASE: conditions and results. A missing ELSE is NULL.
#[derive(Debug)]
pub(in crate::expressions) struct Case {
    pub(in crate::expressions) arms: Vec<(Node, Node)>,
    pub(in crate::expressions) otherwise: Option<Box<Node>>,
    /// The logical type of every result.
    pub(in crate::expressions) data_type: DataType,
}

/// The result of one arm.
struct CasePiece {
    /// The arm's rows, ascending.
    rows: UInt32Array,
    value: Operand,
    /// Whether the values are those of all rows of the batch, or of the arm's rows only.
    whole: bool,
}

impl Case {
    /// All expressions in it.
    pub(in crate::expressions) fn parts(&self) -> impl Iterator<Item = &Node> {
        self.arms.iter().flat_map(|(when, then)| [when, then]).chain(self.otherwise.as_deref())
    }

    /// The results for a batch's rows.
    pub(in crate::expressions) fn evaluate(&self, batch: &Batch) -> Result<Operand> {
        let mut pieces = Vec::new();
        let mut left = Selection::All;
        for (when, then) in &self.arms {
            let (taken, rest) = split(when, batch, left)?;
            left = rest;
            match taken {
                Selection::All => return then.evaluate(batch),
                Selection::None => {}
                Selection::Rows(rows) => pieces.push(CasePiece::new(then, batch, rows)?),
            }
            if matches!(left, Selection::None) {
                break;
            }
        }
        match (left, &self.otherwise) {
            (Selection::None, _) => {}
            (Selection::All, None) => return Ok(Operand::constant(new_null_array(&self.data_type, 1))),
            (Selection::All, Some(otherwise)) => return otherwise.evaluate(batch),
            (Selection::Rows(rows), Some(otherwise)) => pieces.push(CasePiece::new(otherwise, batch, rows)?),
            (Selection::Rows(rows), None) => pieces.push(CasePiece {
                rows,
                value: Operand::constant(new_null_array(&self.data_type, 1)),
                whole: false,
            }),
        }
        self.merge(pieces, batch.rows())
    }

    /// The pieces' values in the order of the rows.
    fn merge(&self, mut pieces: Vec<CasePiece>, rows: usize) -> Result<Operand> {
        if let DataType::Decimal128(precision, scale) = self.data_type
            && let Some(operand) = merge_decimals(&pieces, rows, precision, scale)?
        {
            return Ok(operand);
        }
        for piece in &mut pieces {
            piece.value = piece.value.to_logical(&self.data_type)?;
        }
        let array: ArrayRef = match &self.data_type {
            DataType::Int32 => Arc::new(merge_natives::<Int32Type>(&pieces, rows)),
            DataType::Int64 => Arc::new(merge_natives::<Int64Type>(&pieces, rows)),
            DataType::Float64 => Arc::new(merge_natives::<Float64Type>(&pieces, rows)),
            DataType::Date32 => Arc::new(merge_natives::<Date32Type>(&pieces, rows)),
            _ => interleaved(&pieces, rows)?,
        };
        Ok(Operand::rows(array))
    }
}

/// The rows among `left` for which a condition is true, and the others.
fn split(when: &Node, batch: &Batch, left: Selection) -> Result<(Selection, Selection)> {
    let rows = match left {
        Selection::None => return Ok((Selection::None, Selection::None)),
        Selection::All => {
            let taken = when.rows_that_are(true, batch)?;
            return Ok((numbers(&taken), numbers(&!&taken)));
        }
        Selection::Rows(rows) => rows,
    };
    let taken = when.rows_that_are(true, &batch.pick(&rows)?)?;
    let chosen = |bits: &BooleanBuffer| match numbers(bits) {
        Selection::None => Selection::None,
        // All of these rows are still not all rows of the batch.
        Selection::All => Selection::Rows(rows.clone()),
        Selection::Rows(places) => {
            Selection::Rows(places.values().iter().map(|place| rows.value(*place as usize)).collect::<Vec<_>>().into())
        }
    };
    Ok((chosen(&taken), chosen(&!&taken)))
}

fn numbers(bits: &BooleanBuffer) -> Selection {
    super::logic::as_rows(bits, bits.count_set_bits())
}

impl CasePiece {
    fn new(node: &Node, batch: &Batch, rows: UInt32Array) -> Result<Self> {
        if let Node::Literal(value) = node {
            return Ok(Self { rows, value: Operand::constant(value.clone()), whole: false });
        }
        if node.prefers_whole_batch(rows.len(), batch.rows())
            && let Ok(value) = node.evaluate(batch)
        {
            return Ok(Self { rows, value, whole: true });
        }
        let value = node.evaluate(&batch.pick(&rows)?)?;
        Ok(Self { rows, value, whole: false })
    }

    /// For each of the arm's rows, its number in the batch and the place of its value.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let (constant, whole) = (self.value.constant, self.whole);
        self.rows.values().iter().enumerate().map(move |(place, row)| {
            let row = *row as usize;
            (
                row,
                if constant {
                    0
                } else if whole {
                    row
                } else {
                    place
                },
            )
        })
    }
}

/// The pieces in 64 bits, if all are that narrow.
fn merge_decimals(pieces: &[CasePiece], rows: usize, precision: u8, scale: i8) -> Result<Option<Operand>> {
    let mut bound = Some(0);
    let mut narrowed = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let (array, piece_bound) = match piece.value.array.data_type() {
            DataType::Decimal64(_, narrow_scale) if *narrow_scale == scale => {
                (piece.value.array.clone(), piece.value.bound)
            }
            // A literal, or the NULL of a missing ELSE.
            DataType::Decimal128(_, wide_scale) if piece.value.constant && *wide_scale == scale => {
                let Some(narrow) = piece.value.narrow() else { return Ok(None) };
                let array = Decimal64Array::new(narrow.values, narrow.nulls);
                (Arc::new(array) as ArrayRef, Some(narrow.bound))
            }
            _ => return Ok(None),
        };
        bound = bound.zip(piece_bound).map(|(bound, piece)| u64::max(bound, piece));
        narrowed.push(CasePiece {
            rows: piece.rows.clone(),
            value: Operand { array, constant: piece.value.constant, bound: None },
            whole: piece.whole,
        });
    }
    let merged = merge_natives::<Decimal64Type>(&narrowed, rows)
        .with_precision_and_scale(precision.min(DECIMAL64_MAX_PRECISION), scale)
        .map_err(from_arrow)?;
    Ok(Some(Operand { array: Arc::new(merged), constant: false, bound }))
}

fn merge_natives<T: ArrowPrimitiveType>(pieces: &[CasePiece], rows: usize) -> PrimitiveArray<T> {
    let mut values = vec![T::Native::default(); rows];
    let mut valid: Option<Vec<bool>> = None;
    for piece in pieces {
        let array = piece.value.array.as_primitive::<T>();
        let from = array.values();
        if piece.value.constant {
            piece.rows.values().iter().for_each(|row| values[*row as usize] = from[0]);
        } else {
            piece.places().for_each(|(row, place)| values[row] = from[place]);
        }
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
            let valid = valid.get_or_insert_with(|| vec![true; rows]);
            piece.places().for_each(|(row, place)| valid[row] = nulls.is_valid(place));
        }
    }
    PrimitiveArray::new(values.into(), valid.map(NullBuffer::from))
}

fn interleaved(pieces: &[CasePiece], rows: usize) -> Result<ArrayRef> {
    let mut places = vec![(0, 0); rows];
    for (index, piece) in pieces.iter().enumerate() {
        piece.places().for_each(|(row, place)| places[row] = (index, place));
    }
    let arrays = pieces.iter().map(|piece| piece.value.array.as_ref()).collect::<Vec<_>>();
    interleave(&arrays, &places).map_err(from_arrow)
}
