//! NOT IN over several columns that may be NULL.
//!
//! A pair of rows spoils `(a, b) NOT IN (SELECT c, d …)` unless it differs for certain: `a = c` is true or NULL, and so
//! is `b = d`. No hash table finds such pairs at once, but one finds those that have equal values in some of the
//! columns and a NULL, on either side, in each of the others. So there is a join for every choice of columns: for two
//! columns four. But for the join on all columns, the right side's rows are first made few: of the columns that are
//! not chosen only matters whether they are NULL.

use std::collections::BTreeSet;

use super::Lowering;
use crate::algebra::{ColumnId, Comparison, Join, JoinKind, Relation, Scalar};
use crate::unnesting::may_differ;

/// How many columns that may be NULL are taken apart: each doubles the number of joins.
const DOUBTFUL_COLUMNS_MAX: usize = 4;

/// A condition whose pairs may be unknown.
#[derive(Default)]
struct Doubt {
    /// Sides of equalities that hold.
    equal: Vec<(Scalar, Scalar)>,
    /// Sides of equalities that hold or are NULL.
    doubtful: Vec<(Scalar, Scalar)>,
    /// What is said of the left side alone.
    of_left: Vec<Scalar>,
}

impl Doubt {
    /// `None` if there are not several doubtful equalities, or other conditions over both sides.
    fn of(on: &Scalar, lefts: &BTreeSet<ColumnId>, rights: &BTreeSet<ColumnId>) -> Option<Self> {
        let sides = |a: &Scalar, b: &Scalar| {
            let (of_a, of_b) = (a.columns(), b.columns());
            let is_known = !of_a.is_empty() && !of_b.is_empty() && !a.is_volatile() && !b.is_volatile();
            if is_known && of_a.is_subset(lefts) && of_b.is_subset(rights) {
                Some((a.clone(), b.clone()))
            } else if is_known && of_a.is_subset(rights) && of_b.is_subset(lefts) {
                Some((b.clone(), a.clone()))
            } else {
                None
            }
        };
        let mut doubt = Self::default();
        for term in on.clone().conjuncts() {
            let is_of_left = term.columns().is_subset(lefts);
            match &term {
                _ if is_of_left && term.is_volatile() => return None,
                _ if is_of_left => doubt.of_left.push(term.clone()),
                Scalar::Compare { comparison: Comparison::Equal, left, right } => {
                    doubt.equal.push(sides(left, right)?);
                }
                Scalar::Or(terms) => match terms.as_slice() {
                    [Scalar::Compare { comparison: Comparison::Equal, left, right }, Scalar::IsNull(again)]
                        if **again == terms[0] =>
                    {
                        doubt.doubtful.push(sides(left, right)?);
                    }
                    _ => return None,
                },
                _ => return None,
            }
        }
        (2..=DOUBTFUL_COLUMNS_MAX).contains(&doubt.doubtful.len()).then_some(doubt)
    }
}

impl Lowering<'_> {
    /// Right sides and conditions of joins, one of which has a pair for a row where the join with this condition has
    /// one. `None` if the condition has not several doubtful equalities, or is better asked at once.
    pub(super) fn parts_of_doubt(
        &self,
        on: &Scalar,
        left: &Relation,
        right: &Relation,
    ) -> Option<Vec<(Relation, Scalar)>> {
        let doubt = Doubt::of(on, &left.column_ids(), &right.column_ids())?;
        if may_differ(right) {
            return None;
        }
        let all = (1_usize << doubt.doubtful.len()) - 1;
        Some((0..=all).rev().map(|chosen| self.part_of_doubt(&doubt, right, chosen, chosen == all)).collect())
    }

    /// The join of the rows that are equal in the chosen columns.
    fn part_of_doubt(&self, doubt: &Doubt, right: &Relation, chosen: usize, is_whole: bool) -> (Relation, Scalar) {
        let mut on = doubt.of_left.clone();
        let mut columns = Vec::new();
        let doubtful = doubt.doubtful.iter().enumerate().map(|(place, pair)| (pair, chosen & (1 << place) != 0));
        for ((a, b), is_chosen) in doubt.equal.iter().map(|pair| (pair, true)).chain(doubtful) {
            if is_whole {
                on.push(Scalar::equal(a.clone(), b.clone()));
                continue;
            }
            let is_null = |scalar: &Scalar| Scalar::IsNull(Box::new(scalar.clone()));
            let (name, value) = if is_chosen { ("key", b.clone()) } else { ("is_null", is_null(b)) };
            let column = self.numbers.named(name, value.sql_type(), value.nullable());
            on.push(match is_chosen {
                true => Scalar::equal(a.clone(), column.scalar()),
                false => Scalar::any([is_null(a), column.scalar()]),
            });
            columns.push((column, value));
        }
        let right = match is_whole {
            true => right.clone(),
            false => {
                let ids = columns.iter().map(|(column, _)| column.id).collect();
                Relation::Distinct { input: Box::new(right.clone().mapped(columns)), on: ids, keeps_all: false }
            }
        };
        (right, Scalar::all(on))
    }

    /// The rows without a partner of which it may be equal, by one join after the other.
    pub(super) fn anti_of_doubt(&self, join: &Join) -> Option<Relation> {
        let parts = self.parts_of_doubt(&join.on, &join.left, &join.right)?;
        let without = |left: Relation, (right, on): (Relation, Scalar)| {
            Relation::Join(Join { kind: JoinKind::Anti, left: Box::new(left), right: Box::new(right), on })
        };
        Some(parts.into_iter().fold((*join.left).clone(), without))
    }
}
