//! Conditions that are pulled up out of a join's right side.

use std::collections::BTreeSet;

use crate::algebra::{Column, ColumnId, Constant, Join, JoinKind, Relation, Scalar};

/// A right side without the conditions that depended on the left.
pub(super) struct Pulled {
    /// What is left.
    pub relation: Relation,
    /// The conditions, over both sides.
    pub conditions: Vec<Scalar>,
    /// Columns that the right side computed of columns of the left: to be computed above the join.
    pub columns: Vec<(Column, Scalar)>,
}

/// The right side of a dependent join of this kind, if all that depends on the left's columns are conditions with
/// nothing in their way; the right side unchanged if not.
pub(super) fn pulled(
    relation: Relation,
    lefts: &BTreeSet<ColumnId>,
    kind: &JoinKind,
    on: &Scalar,
) -> Result<Pulled, Box<Relation>> {
    // Whether any row is asked for, or one that the join's condition chooses.
    let any_row = on.as_constant().and_then(Constant::as_bool) == Some(true);
    let pulling = Pulling { lefts, kind, any_row };
    if !pulling.can(&relation, true) {
        return Err(Box::new(relation));
    }
    let mut pulled = Pulled { relation: Relation::one_row(), conditions: vec![], columns: vec![] };
    pulled.relation = pulling.take(relation, &mut pulled.conditions, &mut pulled.columns);
    // A condition may read what the right side computed of the left's columns.
    if !pulled.columns.is_empty() {
        let columns = pulled.columns.clone();
        let replacement = |id: ColumnId| {
            let found = columns.iter().find(|(column, _)| column.id == id);
            found.map(|(_, scalar)| scalar.clone())
        };
        let conditions = std::mem::take(&mut pulled.conditions);
        pulled.conditions = conditions.into_iter().map(|scalar| scalar.substituted(&replacement)).collect();
    }
    Ok(pulled)
}

struct Pulling<'a> {
    lefts: &'a BTreeSet<ColumnId>,
    kind: &'a JoinKind,
    any_row: bool,
}

impl Pulling<'_> {
    fn reads_left(&self, scalar: &Scalar) -> bool {
        scalar.columns().iter().any(|id| self.lefts.contains(id))
    }

    fn depends(&self, relation: &Relation) -> bool {
        relation.free_columns().iter().any(|id| self.lefts.contains(id))
    }

    /// Whether only rows matter, not how often they come.
    fn asks_for_existence(&self) -> bool {
        matches!(self.kind, JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_))
    }

    /// `is_whole`: wherever the relation has a row, there is one above it, and its rows are not told apart there. Only
    /// then it does not matter which of them LIMIT and DISTINCT ON choose.
    fn can(&self, relation: &Relation, is_whole: bool) -> bool {
        if !self.depends(relation) {
            return true;
        }
        match relation {
            Relation::Filter { input, .. } => self.can(input, false),
            Relation::Map { input, columns } => {
                let is_plain = columns.iter().all(|(_, scalar)| !self.reads_left(scalar));
                // Above an inner join they are computed of the same rows. Where only existence counts, nobody reads
                // them but the join's condition, into which they are not put.
                (is_plain || *self.kind == JoinKind::Inner) && self.can(input, is_whole)
            }
            Relation::Join(join) => match join.kind {
                JoinKind::Inner => self.can(&join.left, false) && self.can(&join.right, false),
                JoinKind::Left | JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_) | JoinKind::Single => {
                    let on = join.on.columns();
                    let keeps_left = !matches!(join.kind, JoinKind::Semi | JoinKind::Anti);
                    self.can(&join.left, is_whole && keeps_left)
                        && !self.depends(&join.right)
                        && !self.reads_left(&join.on)
                        && !self.computed(&join.left).iter().any(|id| on.contains(id))
                }
                JoinKind::Full => false,
            },
            Relation::Sort { input, keys } => {
                keys.iter().all(|key| !self.reads_left(&key.scalar)) && self.can(input, is_whole)
            }
            Relation::Distinct { input, keeps_all, .. } => {
                let may_choose = !keeps_all || self.any_row && is_whole;
                self.asks_for_existence() && may_choose && self.can(input, is_whole)
            }
            Relation::Limit(limit) => {
                let may_choose = self.asks_for_existence() && self.any_row && is_whole;
                may_choose && is_at_least_one(limit) && self.can(&limit.input, is_whole)
            }
            _ => false,
        }
    }

    /// The columns that a side computes of the left's columns: they will be pulled up.
    fn computed(&self, relation: &Relation) -> BTreeSet<ColumnId> {
        let mut found = relation.inputs().into_iter().flat_map(|input| self.computed(input)).collect::<BTreeSet<_>>();
        if let Relation::Map { columns, .. } = relation {
            let is_pulled =
                |scalar: &Scalar| self.reads_left(scalar) || scalar.columns().iter().any(|id| found.contains(id));
            let pulled = columns.iter().filter(|(_, scalar)| is_pulled(scalar)).map(|(column, _)| column.id);
            found.extend(pulled.collect::<Vec<_>>());
        }
        found
    }

    fn take(&self, relation: Relation, conditions: &mut Vec<Scalar>, columns: &mut Vec<(Column, Scalar)>) -> Relation {
        if !self.depends(&relation) {
            return relation;
        }
        match relation {
            Relation::Filter { input, condition } => {
                let input = self.take(*input, conditions, columns);
                let (left, own): (Vec<_>, Vec<_>) = condition.conjuncts().into_iter().partition(|term| {
                    let read = term.columns();
                    self.reads_left(term) || columns.iter().any(|(column, _)| read.contains(&column.id))
                });
                conditions.extend(left);
                input.filtered(Scalar::all(own))
            }
            Relation::Map { input, columns: computed } => {
                let input = self.take(*input, conditions, columns);
                // What reads a column that was pulled up is computed of what that is.
                let replacement = |id: ColumnId| {
                    let found = columns.iter().find(|(column, _)| column.id == id);
                    found.map(|(_, scalar)| scalar.clone())
                };
                let computed = computed.into_iter().map(|(column, scalar)| (column, scalar.substituted(&replacement)));
                let (left, own): (Vec<_>, Vec<_>) = computed.partition(|(_, scalar)| self.reads_left(scalar));
                columns.extend(left);
                input.mapped(own)
            }
            Relation::Join(join) => {
                let is_inner = join.kind == JoinKind::Inner;
                let left = Box::new(self.take(*join.left, conditions, columns));
                let right = if is_inner { Box::new(self.take(*join.right, conditions, columns)) } else { join.right };
                let mut on = join.on;
                if is_inner {
                    let (pulled, own): (Vec<_>, Vec<_>) = on.conjuncts().into_iter().partition(|term| {
                        let read = term.columns();
                        self.reads_left(term) || columns.iter().any(|(column, _)| read.contains(&column.id))
                    });
                    conditions.extend(pulled);
                    on = Scalar::all(own);
                }
                Relation::Join(Join { kind: join.kind, left, right, on })
            }
            // Of rows that are only asked for whether they exist, order, duplicates and a limit do not matter.
            Relation::Sort { input, .. } | Relation::Distinct { input, .. } => self.take(*input, conditions, columns),
            Relation::Limit(limit) => self.take(*limit.input, conditions, columns),
            other => other,
        }
    }
}

/// Whether a limit leaves a row wherever there is one.
fn is_at_least_one(limit: &crate::algebra::Limit) -> bool {
    let fetches = match &limit.fetch {
        None => true,
        Some(Scalar::Constant(fetch)) => fetch.is_null() || *fetch != Constant::bigint(0),
        Some(_) => false,
    };
    let skips = match &limit.skip {
        None => false,
        Some(Scalar::Constant(skip)) => !skip.is_null() && *skip != Constant::bigint(0),
        Some(_) => true,
    };
    fetches && !skips
}
