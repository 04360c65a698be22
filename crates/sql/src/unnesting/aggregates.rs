//! Aggregates without groups that depend on the left only by equalities: `(SELECT sum(x) FROM r WHERE r.k = l.k)`.
//!
//! Instead of one sum for each row of the left there are sums of all values of `k`, and each row of the left finds its
//! own by an outer join. A row that finds none has the aggregate of no rows: 0 for counts, NULL for all others.

use std::collections::BTreeSet;

use diligence_base::Result;

use super::{is_true, pulled};
use crate::algebra::{Aggregate, Column, ColumnId, Comparison, Constant, Join, JoinKind, Numbers, Relation, Scalar};

/// An operator above the aggregate: it is computed of the one row that each left row has.
enum Above {
    Map(Vec<(Column, Scalar)>),
    Filter(Scalar),
}

/// A right side that is grouped.
pub(super) struct Grouped {
    aggregate: Aggregate,
    /// What each left row's group is found by: of the left, and the aggregate's group.
    keys: Vec<(Scalar, Column)>,
    /// What was above the aggregate, from the bottom up.
    above: Vec<Above>,
}

impl Grouped {
    /// The right side of a dependent join as groups, if it has this form; unchanged if not.
    pub(super) fn of(
        relation: Relation,
        lefts: &BTreeSet<ColumnId>,
        numbers: &Numbers,
    ) -> std::result::Result<Self, Box<Relation>> {
        if !has_form(&relation, lefts) {
            return Err(Box::new(relation));
        }
        let mut above = Vec::new();
        let mut current = relation.clone();
        loop {
            current = match current {
                Relation::Map { input, columns } => {
                    above.push(Above::Map(columns));
                    *input
                }
                Relation::Filter { input, condition } => {
                    above.push(Above::Filter(condition));
                    *input
                }
                Relation::Aggregate(mut aggregate) => {
                    let input = std::mem::replace(&mut *aggregate.input, Relation::one_row());
                    let Ok(pulled) = pulled::pulled(input, lefts, &JoinKind::Inner, &Scalar::boolean(true)) else {
                        return Err(Box::new(relation));
                    };
                    let keys = keys_of(&pulled, lefts, numbers);
                    let Some(keys) = keys.filter(|_| pulled.columns.is_empty()) else { return Err(Box::new(relation)) };
                    *aggregate.input = pulled.relation;
                    aggregate.groups = keys.iter().map(|(_, inner, column)| (column.clone(), inner.clone())).collect();
                    let keys = keys.into_iter().map(|(outer, _, column)| (outer, column)).collect();
                    above.reverse();
                    return Ok(Self { aggregate, keys, above });
                }
                _ => return Err(Box::new(relation)),
            };
        }
    }

    /// The same with new numbers for all columns that are seen above, in the join's condition too; and the old and new
    /// columns.
    fn renumbered(mut self, on: Scalar, numbers: &Numbers) -> (Self, Scalar, Vec<(Column, Column)>) {
        let mut shown = Vec::new();
        let mut renew = |column: &mut Column| {
            let new = Column { id: numbers.column(), ..column.clone() };
            shown.push((std::mem::replace(column, new.clone()), new));
        };
        self.aggregate.aggregates.iter_mut().for_each(|(column, _)| renew(column));
        for above in &mut self.above {
            if let Above::Map(columns) = above {
                columns.iter_mut().for_each(|(column, _)| renew(column));
            }
        }
        let replacement = |id: ColumnId| {
            let found = shown.iter().find(|(old, _)| old.id == id);
            found.map(|(_, new)| new.scalar())
        };
        let replace = |scalar: &mut Scalar| {
            let taken = std::mem::replace(scalar, Scalar::boolean(false));
            *scalar = taken.substituted(&replacement);
        };
        for above in &mut self.above {
            match above {
                Above::Map(columns) => columns.iter_mut().for_each(|(_, scalar)| replace(scalar)),
                Above::Filter(condition) => replace(condition),
            }
        }
        let on = on.substituted(&replacement);
        (self, on, shown)
    }

    /// The dependent join.
    pub(super) fn joined(self, kind: JoinKind, left: Relation, on: Scalar, numbers: &Numbers) -> Result<Relation> {
        // Where a HAVING, or the join's condition, may leave a row without its values, these are computed under other
        // numbers first.
        let may_lack = self.above.iter().any(|above| matches!(above, Above::Filter(_)))
            || on.as_constant().and_then(Constant::as_bool) != Some(true);
        let (this, on, shown) = match kind {
            JoinKind::Left | JoinKind::Single | JoinKind::Full if may_lack => self.renumbered(on, numbers),
            _ => (self, on, vec![]),
        };
        let Self { mut aggregate, keys, above } = this;
        // Counts of no rows are 0: what is read above is not what the aggregate gives.
        let mut counts = Vec::new();
        for (column, item) in &mut aggregate.aggregates {
            if let Some(nothing) = item.of_no_rows() {
                let raw = Column { id: numbers.column(), nullable: true, ..column.clone() };
                let counted = Scalar::Coalesce(vec![raw.scalar(), nothing]).cast(column.sql_type.clone(), false);
                counts.push((std::mem::replace(column, raw), counted));
            }
        }
        let matches = keys.into_iter().map(|(outer, column)| Scalar::equal(outer, column.scalar()));
        let join = Join {
            kind: JoinKind::Left,
            left: Box::new(left),
            right: Box::new(Relation::Aggregate(aggregate)),
            on: Scalar::all(matches),
        };
        let mut joined = Relation::Join(join).mapped(counts);
        // Whether the left row has its row: what a HAVING leaves.
        let mut conditions = Vec::new();
        for operator in above {
            match operator {
                Above::Map(columns) => joined = joined.mapped(columns),
                Above::Filter(condition) => conditions.push(condition),
            }
        }
        let has_row = Scalar::all(conditions);
        Ok(match kind {
            JoinKind::Inner | JoinKind::Semi => joined.filtered(Scalar::all([has_row, on])),
            JoinKind::Anti => joined.filtered(is_true(Scalar::all([has_row, on])).negate()),
            JoinKind::Mark(mark) => {
                let value = match has_row.as_constant().and_then(Constant::as_bool) {
                    Some(true) => on,
                    _ => Scalar::Case {
                        arms: vec![(has_row, on)],
                        otherwise: Some(Box::new(Scalar::boolean(false))),
                        sql_type: diligence_types::SqlType::Boolean,
                    },
                };
                joined.mapped(vec![(mark, value)])
            }
            JoinKind::Left | JoinKind::Single | JoinKind::Full => {
                let condition = Scalar::all([has_row, on]);
                let shown = shown.into_iter().map(|(column, inner)| {
                    let value = Scalar::Case {
                        arms: vec![(condition.clone(), inner.scalar())],
                        otherwise: None,
                        sql_type: column.sql_type.clone(),
                    };
                    (Column { nullable: true, ..column }, value)
                });
                joined.mapped(shown.collect())
            }
        })
    }
}

fn has_form(relation: &Relation, lefts: &BTreeSet<ColumnId>) -> bool {
    match relation {
        Relation::Map { input, .. } | Relation::Filter { input, .. } => has_form(input, lefts),
        Relation::Aggregate(aggregate) => {
            let is_plain = relation.scalars().iter().all(|scalar| scalar.columns().is_disjoint(lefts));
            aggregate.groups.is_empty() && aggregate.sets.is_none() && is_plain
        }
        _ => false,
    }
}

/// The pulled conditions as pairs of keys: of the left, of the right, and a column for the right one. `None` if one is
/// no equality between the sides.
fn keys_of(
    pulled: &pulled::Pulled,
    lefts: &BTreeSet<ColumnId>,
    numbers: &Numbers,
) -> Option<Vec<(Scalar, Scalar, Column)>> {
    let rights = pulled.relation.column_ids();
    let key = |condition: &Scalar| {
        let Scalar::Compare { comparison: Comparison::Equal, left, right } = condition else { return None };
        let of_left = |scalar: &Scalar| scalar.columns().iter().all(|id| lefts.contains(id));
        let of_right = |scalar: &Scalar| {
            let columns = scalar.columns();
            !columns.is_empty() && columns.iter().all(|id| rights.contains(id)) && columns.is_disjoint(lefts)
        };
        let (outer, inner) = if of_left(left) && of_right(right) {
            (left.as_ref().clone(), right.as_ref().clone())
        } else if of_left(right) && of_right(left) {
            (right.as_ref().clone(), left.as_ref().clone())
        } else {
            return None;
        };
        if inner.is_volatile() || outer.is_volatile() {
            return None;
        }
        let column = numbers.named("key", inner.sql_type(), inner.nullable());
        Some((outer, inner, column))
    };
    pulled.conditions.iter().map(key).collect()
}
