//! Semi and anti joins below inner joins.
//!
//! Whether a row has a partner (EXISTS, IN) depends on some of its columns only. Where these are all of one relation of
//! a tree of inner joins, that relation can be asked before it is joined: it has fewer rows as a rule, and afterwards
//! fewer still.

use std::collections::BTreeSet;

use super::estimates::estimate;
use crate::algebra::{ColumnId, Join, JoinKind, Relation};

/// An equal relation in which a semi or anti join stands above the smallest relation that has what it asks for; `None`
/// if it stands there already, or would have more rows to ask about.
pub(super) fn sunk(join: &Join) -> Option<Relation> {
    if !matches!(join.kind, JoinKind::Semi | JoinKind::Anti) {
        return None;
    }
    let lefts = join.left.column_ids();
    let asked = join.on.columns().intersection(&lefts).copied().collect::<BTreeSet<_>>();
    let place = place_of(&join.left, &asked).filter(|_| !asked.is_empty())?;
    if estimate(place).rows > estimate(&join.left).rows {
        return None;
    }
    let mut relation = join.left.as_ref().clone();
    put(&mut relation, &asked, join);
    Some(relation)
}

/// Puts the join above the lowest relation that has all the columns.
fn put(relation: &mut Relation, asked: &BTreeSet<ColumnId>, join: &Join) {
    if let Relation::Join(Join { kind: JoinKind::Inner, left, right, .. }) = relation {
        let mut sides = [left, right].into_iter();
        if let Some(side) = sides.find(|side| asked.is_subset(&side.column_ids())) {
            return put(side, asked, join);
        }
    }
    let left = Box::new(std::mem::replace(relation, Relation::one_row()));
    *relation = Relation::Join(Join { left, ..join.clone() });
}

/// The lowest relation below inner joins that has all the columns; `None` if that is the relation itself.
fn place_of<'r>(relation: &'r Relation, asked: &BTreeSet<ColumnId>) -> Option<&'r Relation> {
    let next = match relation {
        Relation::Join(Join { kind: JoinKind::Inner, left, right, .. }) => {
            let mut sides = [left, right].into_iter();
            sides.find(|side| asked.is_subset(&side.column_ids()))?.as_ref()
        }
        _ => return None,
    };
    Some(place_of(next, asked).unwrap_or(next))
}
