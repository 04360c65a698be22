//! The compiled form of an expression: a tree of nodes that evaluate on physical forms.

pub(super) mod arithmetic;
pub(super) mod case;
pub(super) mod cast;
pub(super) mod compare;
pub(super) mod dates;
pub(super) mod foreign;
pub(super) mod logic;
pub(super) mod members;
mod search;
pub(super) mod strings;
pub(super) mod test;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{is_not_null, is_null, not};
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use self::arithmetic::Arithmetic;
use self::case::Case;
use self::cast::Cast;
use self::compare::Compare;
use self::dates::{DatePart, Extract};
use self::foreign::Foreign;
use self::logic::{Connective, Junction};
use self::test::{Predicate, Test};
use super::bits;
use super::operand::Operand;
use crate::batch::{Batch, Selection};

/// The rows whose bits are set.
pub(super) fn selection(bits: &BooleanBuffer) -> Selection {
    logic::as_rows(bits, bits.count_set_bits())
}

/// One step of an expression.
#[derive(Debug)]
pub(super) enum Node {
    /// A column of the batch.
    Column { index: usize, cost: u32 },
    /// A literal, as an array of one value.
    Literal(ArrayRef),
    /// `+`, `-`, `*`.
    Arithmetic(Arithmetic),
    /// CAST.
    Cast(Cast),
    /// The year, month or day of a date.
    DatePart(DatePart),
    /// The same as a decimal, or that of a timestamp.
    Extract(Extract),
    /// A comparison of two expressions.
    Compare(Compare),
    /// A predicate with constants.
    Test(Test),
    /// IS NULL, or IS NOT NULL.
    IsNull { input: Box<Node>, negated: bool },
    /// NOT.
    Not(Box<Node>),
    /// AND, OR.
    Junction(Junction),
    /// CASE.
    Case(Case),
    /// Everything else.
    Foreign(Foreign),
}

impl Node {
    /// A column; strings and wide values cost more to look at.
    pub(super) fn column(index: usize, data_type: &DataType) -> Self {
        Self::Column { index, cost: if data_type.primitive_width().is_some_and(|width| width <= 8) { 0 } else { 1 } }
    }

    /// The values for a batch's rows.
    pub(super) fn evaluate(&self, batch: &Batch) -> Result<Operand> {
        match self {
            Node::Column { index, .. } => batch.flat(*index).map(Operand::rows),
            Node::Literal(value) => Ok(Operand::constant(value.clone())),
            Node::Arithmetic(arithmetic) => arithmetic.evaluate(batch),
            Node::Cast(cast) => cast.evaluate(batch),
            Node::DatePart(part) => part.evaluate(batch),
            Node::Extract(part) => part.evaluate(batch),
            Node::Case(case) => case.evaluate(batch),
            Node::Foreign(foreign) => foreign.evaluate(batch),
            Node::Compare(_) | Node::Test(_) | Node::IsNull { .. } | Node::Not(_) | Node::Junction(_) => {
                Ok(Operand::rows(std::sync::Arc::new(self.mask(batch)?)))
            }
        }
    }

    /// The three-valued answers of a condition for a batch's rows.
    pub(super) fn mask(&self, batch: &Batch) -> Result<BooleanArray> {
        match self {
            Node::Compare(compare) => compare.mask(batch),
            Node::Test(test) => test.mask(batch),
            Node::Not(input) => not(&input.mask(batch)?).map_err(from_arrow),
            Node::Junction(junction) => junction.mask(batch),
            Node::IsNull { input, negated } => {
                let values = input.evaluate(batch)?.into_array(batch.rows())?;
                if *negated { is_not_null(&values) } else { is_null(&values) }.map_err(from_arrow)
            }
            _ => {
                let values = self.evaluate(batch)?.into_array(batch.rows())?;
                let mask = values.as_boolean_opt().cloned();
                mask.ok_or_else(|| Error::bug(format!("a condition has type {}", values.data_type())))
            }
        }
    }

    /// The rows of a batch for which the condition is `wanted`, true or false; NULL is neither.
    pub(super) fn rows_that_are(&self, wanted: bool, batch: &Batch) -> Result<BooleanBuffer> {
        match self {
            Node::Not(input) => input.rows_that_are(!wanted, batch),
            Node::Junction(junction) => junction.rows_that_are(wanted, batch),
            _ => Ok(bits::rows_that_are(wanted, &self.mask(batch)?)),
        }
    }

    /// The rows of a batch for which the condition is true.
    pub(super) fn select(&self, batch: &Batch) -> Result<Selection> {
        match self {
            Node::Junction(junction) if junction.connective == Connective::And => junction.select(batch),
            _ => self.rows_that_are(true, batch).map(|bits| selection(&bits)),
        }
    }

    /// Whether evaluation may fail on some value.
    pub(super) fn may_fail(&self) -> bool {
        match self {
            Node::Column { .. } | Node::Literal(_) => false,
            Node::Arithmetic(node) => node.may_fail() || node.left.may_fail() || node.right.may_fail(),
            Node::Cast(node) => node.may_fail() || node.input.may_fail(),
            Node::Compare(node) => node.left.may_fail() || node.right.may_fail(),
            Node::Test(node) => node.input.may_fail(),
            Node::DatePart(node) => node.input.may_fail(),
            Node::Extract(node) => node.beyond.may_fail(),
            Node::IsNull { input, .. } | Node::Not(input) => input.may_fail(),
            Node::Junction(node) => node.terms.iter().any(Node::may_fail),
            Node::Case(node) => node.parts().any(Node::may_fail),
            Node::Foreign(_) => true,
        }
    }

    /// Whether each evaluation may give another value.
    pub(super) fn is_volatile(&self) -> bool {
        match self {
            Node::Column { .. } | Node::Literal(_) => false,
            Node::Arithmetic(node) => node.left.is_volatile() || node.right.is_volatile(),
            Node::Cast(node) => node.input.is_volatile(),
            Node::Compare(node) => node.left.is_volatile() || node.right.is_volatile(),
            Node::Test(node) => node.input.is_volatile(),
            Node::DatePart(node) => node.input.is_volatile(),
            Node::Extract(node) => node.input.is_volatile(),
            Node::IsNull { input, .. } | Node::Not(input) => input.is_volatile(),
            Node::Junction(node) => node.terms.iter().any(Node::is_volatile),
            Node::Case(node) => node.parts().any(Node::is_volatile),
            Node::Foreign(node) => node.volatile || node.inputs.iter().any(Node::is_volatile),
        }
    }

    /// Whether nobody can tell when, and on which rows, it was evaluated.
    pub(super) fn is_movable(&self) -> bool {
        !self.may_fail() && !self.is_volatile()
    }

    /// Roughly the time per row, in passes over a column of numbers.
    pub(super) fn cost(&self) -> u32 {
        match self {
            Node::Column { cost, .. } => *cost,
            Node::Literal(_) => 0,
            Node::Arithmetic(node) => 2 + node.left.cost() + node.right.cost(),
            Node::Cast(node) => 2 + node.input.cost(),
            Node::DatePart(node) => 4 + node.input.cost(),
            Node::Extract(node) => 4 + node.input.cost(),
            Node::Compare(node) => 1 + node.left.cost() + node.right.cost(),
            Node::Test(node) => {
                let test = match &node.predicate {
                    Predicate::Compare(..) | Predicate::Range(..) => 1,
                    Predicate::Text(..) | Predicate::Among(_) => 3,
                    Predicate::Like(_) => 12,
                };
                test + node.input.cost()
            }
            Node::IsNull { input, .. } | Node::Not(input) => input.cost(),
            Node::Junction(node) => node.terms.iter().map(Node::cost).sum(),
            Node::Case(node) => 4 + node.parts().map(Node::cost).sum::<u32>(),
            Node::Foreign(node) if node.outside => 1000,
            Node::Foreign(node) => 20 + node.inputs.iter().map(Node::cost).sum::<u32>(),
        }
    }

    /// Whether to evaluate all `total` rows although only `wanted` of them matter. Picking rows costs a gather per
    /// column, a few passes per value, so it pays once few are left, sooner for dear nodes.
    pub(super) fn prefers_whole_batch(&self, wanted: usize, total: usize) -> bool {
        if self.is_volatile() {
            return false;
        }
        match self.cost() {
            0..=1 => wanted * 8 > total,
            2..=7 => wanted * 3 > total,
            _ => wanted * 4 > total * 3,
        }
    }
}
