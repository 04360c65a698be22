//! Equal relations that cost less.
//!
//! 1. `definitions`: common table expressions that are read once, or that are small, take the place of what reads them.
//! 2. `simplify`: what is known now is computed now; conditions lose what says nothing. All rules are exact in SQL's
//!    three-valued logic. Series of integers become tables (`series`).
//! 3. `pushdown`: conditions go to where their columns come from; outer joins whose padded rows a condition drops
//!    become inner ones; what equalities imply is said of each of their sides (Gamma's selection propagation).
//! 4. `common`: expressions that an operator computes several times are computed once, below it.
//!
//! The order of joins is not decided here (`ordering`), nor is which columns are read: lowering asks for those that it
//! needs.

mod common;
mod definitions;
mod pushdown;
mod series;
mod simplify;

use diligence_base::Result;

use crate::algebra::{Constant, Numbers, Relation, Scalar};

/// An equal relation that costs less. `evaluate` computes an expression without columns; `None` where it fails, so that
/// the error comes when a row needs the value, if ever.
pub(crate) fn rewritten(
    relation: Relation,
    numbers: &Numbers,
    evaluate: &dyn Fn(&Scalar) -> Option<Constant>,
) -> Result<Relation> {
    let relation = definitions::inlined(relation, numbers);
    let relation = simplify::simplified(relation, evaluate)?;
    let relation = pushdown::pushed(relation);
    // What was put together on the way down may be simpler still.
    let relation = simplify::simplified(relation, evaluate)?;
    common::extracted(relation, numbers)
}
