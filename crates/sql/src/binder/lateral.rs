//! Sides of joins that read the other side.

use crate::algebra::{Apply, Constant, Join, JoinKind, Relation, Scalar, TableFunction};

/// A join; a dependent one if the right side reads the left. What is computed for each row of the left side alone is
/// put on top of it.
pub(super) fn combine(kind: JoinKind, left: Relation, right: Relation, on: Scalar, is_lateral: bool) -> Relation {
    let (left, right) = (Box::new(left), Box::new(right));
    if !is_lateral {
        return Relation::Join(Join { kind, left, right, on });
    }
    let is_always = on.as_constant().and_then(Constant::as_bool) == Some(true);
    match (&kind, *right) {
        (JoinKind::Inner, right) if is_of_one_row(&right) => on_top(right, left).filtered(on),
        (JoinKind::Left, Relation::TableFunction(function)) if is_always && *function.input == Relation::one_row() => {
            Relation::TableFunction(TableFunction { input: left, keeps_all: true, ..function })
        }
        (_, right) => Relation::Apply(Apply { kind, left, right: Box::new(right), on }),
    }
}

/// Whether a relation only computes values, leaves out rows and calls functions, from one row without columns on.
fn is_of_one_row(relation: &Relation) -> bool {
    match relation {
        Relation::Map { input, .. } | Relation::Filter { input, .. } => is_of_one_row(input),
        Relation::TableFunction(function) => is_of_one_row(&function.input),
        Relation::Join(Join { kind: JoinKind::Inner, left, right, .. }) => is_of_one_row(left) && is_of_one_row(right),
        other => *other == Relation::one_row(),
    }
}

/// Such a relation, from other rows on.
fn on_top(relation: Relation, input: Box<Relation>) -> Relation {
    match relation {
        Relation::Map { input: below, columns } => Relation::Map { input: Box::new(on_top(*below, input)), columns },
        Relation::Filter { input: below, condition } => on_top(*below, input).filtered(condition),
        Relation::TableFunction(function) => {
            let input = Box::new(on_top(*function.input, input));
            Relation::TableFunction(TableFunction { input, ..function })
        }
        Relation::Join(join) => on_top(*join.right, Box::new(on_top(*join.left, input))).filtered(join.on),
        _ => *input,
    }
}
