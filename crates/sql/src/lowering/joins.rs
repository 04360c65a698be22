//! Joins. The engine's left side is the one that is held in memory: the smaller one, if the kind of join allows.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::{JoinSide, JoinType, NullEquality};
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::{Error, Result};
use diligence_engine::expressions::Expr;
use diligence_engine::plan::{HashJoin, NestedLoopJoin, Node, PairFilter, Plan};
use diligence_types::SqlType;

use super::desugared::has_one_partner;
use super::expressions::{Positions, SubqueryValues};
use super::{Lowered, Lowering, runtime_filters};
use crate::algebra::{Column, ColumnId, Comparison, Constant, Join, JoinKind, Relation, Scalar};
use crate::ordering::estimates::{self, Cardinality};
use crate::unnesting::is_not_false;

/// What the engine's join does with the rows of the algebra's left and right side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JoinForm {
    Inner,
    Left,
    Full,
    Semi,
    Anti,
    Mark,
}

/// A join condition taken apart.
struct JoinCondition {
    /// Equal expressions over the left and the right side.
    keys: Vec<(Scalar, Scalar)>,
    null_equality: NullEquality,
    /// The only key is one of NOT IN: a NULL on either side may be equal to anything.
    null_aware: bool,
    rest: Vec<Scalar>,
}

/// Whether the rows of the left side are all that is needed of a join, each of them once.
fn is_left_side_alone(join: &Join, needed: &BTreeSet<ColumnId>) -> bool {
    match &join.kind {
        JoinKind::Mark(mark) => !needed.contains(&mark.id),
        JoinKind::Left => join.right.column_ids().is_disjoint(needed) && has_one_partner(join),
        _ => false,
    }
}

impl Lowering<'_> {
    pub(super) fn join(
        &mut self,
        join: &Join,
        needed: &BTreeSet<ColumnId>,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        if is_left_side_alone(join, needed) {
            return self.relation(&join.left, needed, false, values);
        }
        let kind = match &join.kind {
            JoinKind::Inner => JoinForm::Inner,
            JoinKind::Left => JoinForm::Left,
            JoinKind::Full => JoinForm::Full,
            JoinKind::Semi => JoinForm::Semi,
            JoinKind::Anti => JoinForm::Anti,
            JoinKind::Mark(mark) => return self.mark(join, mark, needed, values),
            JoinKind::Single => return Err(Error::bug("a join with at most one partner was not desugared")),
        };
        let (left, right) = self.sides(join, needed, values)?;
        let inputs = [left.size.clone(), right.size.clone()];
        let size = estimates::of(
            &Relation::Join(Join {
                kind: join.kind.clone(),
                left: Box::new(Relation::one_row()),
                right: Box::new(Relation::one_row()),
                on: join.on.clone(),
            }),
            &inputs,
        );
        self.joined(kind, left, right, &join.on, None, needed, size, values)
    }

    fn sides(
        &mut self,
        join: &Join,
        needed: &BTreeSet<ColumnId>,
        values: &mut SubqueryValues,
    ) -> Result<(Lowered, Lowered)> {
        let mut below = needed.clone();
        join.on.add_columns(&mut below);
        let left = self.relation(&join.left, &restricted(&below, &join.left), false, values)?;
        let right = self.relation(&join.right, &restricted(&below, &join.right), false, values)?;
        Ok((left, right))
    }

    /// A join whose mark may be NULL is several whose marks are not: is there a partner; and is there a row with which
    /// nobody knows?
    fn mark(
        &mut self,
        join: &Join,
        mark: &Column,
        needed: &BTreeSet<ColumnId>,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        let (left, right) = self.sides(join, needed, values)?;
        let size = left.size.clone();
        if !mark.nullable || !join.on.nullable() {
            return self.joined(JoinForm::Mark, left, right, &join.on, Some(mark), needed, size, values);
        }
        let mut kept = needed.clone();
        join.on.add_columns(&mut kept);
        let found = self.numbers.named("found", SqlType::Boolean, false);
        kept.insert(found.id);
        let mut current =
            self.joined(JoinForm::Mark, left, right, &join.on, Some(&found), &kept, size.clone(), values)?;
        // One equality, and it is unknown: its left side is NULL and there is a row, or there is a row with a NULL.
        let lefts = join.left.column_ids();
        let terms = join.on.clone().conjuncts();
        let (unknown, known): (Vec<_>, Vec<_>) = terms.into_iter().partition(Scalar::nullable);
        let sides = match unknown.as_slice() {
            [Scalar::Compare { comparison: Comparison::Equal, left: a, right: b }] => {
                let of_left = |scalar: &Scalar| scalar.columns().is_subset(&lefts);
                let of_right = |scalar: &Scalar| scalar.columns().is_disjoint(&lefts);
                if of_left(a) && of_right(b) {
                    Some((a, b))
                } else if of_left(b) && of_right(a) {
                    Some((b, a))
                } else {
                    None
                }
            }
            _ => None,
        };
        let doubtful = match sides {
            Some((outer, inner)) => {
                let on = Scalar::all(known);
                let some = self.numbers.named("some", SqlType::Boolean, false);
                let nulls = self.numbers.named("nulls", SqlType::Boolean, false);
                kept.extend([some.id, nulls.id]);
                let is_alone = on.as_constant().is_some();
                let first = |relation: Relation| match is_alone {
                    // That there is a row is known from one.
                    true => Relation::Limit(crate::algebra::Limit {
                        input: Box::new(relation),
                        skip: None,
                        fetch: Some(Scalar::Constant(Constant::bigint(1))),
                        ties: None,
                    }),
                    false => relation,
                };
                let with_null = Scalar::IsNull(inner.clone());
                for (column, right) in
                    [(&some, first((*join.right).clone())), (&nulls, first((*join.right).clone().filtered(with_null)))]
                {
                    let mut below = BTreeSet::new();
                    on.add_columns(&mut below);
                    let right = self.relation(&right, &restricted(&below, &join.right), false, values)?;
                    let size = size.clone();
                    current = self.joined(JoinForm::Mark, current, right, &on, Some(column), &kept, size, values)?;
                }
                let missing = Scalar::IsNull(outer.clone());
                Scalar::any([nulls.scalar(), Scalar::all([missing, some.scalar()])])
            }
            None => {
                let on = is_not_false(join.on.clone());
                let parts = self.parts_of_doubt(&on, &join.left, &join.right);
                let mut possible = Vec::new();
                for (right, on) in parts.unwrap_or_else(|| vec![((*join.right).clone(), on)]) {
                    let found = self.numbers.named("possible", SqlType::Boolean, false);
                    kept.insert(found.id);
                    let mut below = BTreeSet::new();
                    on.add_columns(&mut below);
                    let right = self.relation(&right, &restricted(&below, &right), false, values)?;
                    let size = size.clone();
                    current = self.joined(JoinForm::Mark, current, right, &on, Some(&found), &kept, size, values)?;
                    possible.push(found.scalar());
                }
                Scalar::any(possible)
            }
        };
        let value = Scalar::Case {
            arms: vec![
                (found.scalar(), Scalar::boolean(true)),
                (doubtful, Scalar::Constant(Constant::null(SqlType::Boolean))),
            ],
            otherwise: Some(Box::new(Scalar::boolean(false))),
            sql_type: SqlType::Boolean,
        };
        let positions = current.positions();
        let mut columns: Vec<(Column, Arc<dyn PhysicalExpr>)> = Vec::new();
        for column in join.left.columns().into_iter().filter(|column| needed.contains(&column.id)) {
            let physical = self.expressions.lower(&column.scalar(), &positions, current.schema(), values)?;
            columns.push((column, physical));
        }
        let physical = self.expressions.lower(&value, &positions, current.schema(), values)?;
        columns.push((mark.clone(), physical));
        self.computed(current, columns)
    }

    /// A join of two sides that are lowered.
    #[allow(clippy::too_many_arguments, reason = "two sides and all that is said of their pairs")]
    fn joined(
        &mut self,
        kind: JoinForm,
        left: Lowered,
        right: Lowered,
        on: &Scalar,
        mark: Option<&Column>,
        needed: &BTreeSet<ColumnId>,
        size: Cardinality,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        let condition = JoinCondition::of(on, &left, &right, kind);
        // NOT IN is answered where the rows that are asked about are held.
        let holds_left = condition.null_aware || left.size.rows <= right.size.rows;
        let join_type = match (kind, holds_left) {
            (JoinForm::Inner, _) => JoinType::Inner,
            (JoinForm::Full, _) => JoinType::Full,
            (JoinForm::Left, true) => JoinType::Left,
            (JoinForm::Left, false) => JoinType::Right,
            (JoinForm::Semi, true) => JoinType::LeftSemi,
            (JoinForm::Semi, false) => JoinType::RightSemi,
            (JoinForm::Anti, true) => JoinType::LeftAnti,
            (JoinForm::Anti, false) => JoinType::RightAnti,
            (JoinForm::Mark, true) => JoinType::LeftMark,
            (JoinForm::Mark, false) => JoinType::RightMark,
        };
        let keys = condition.keys.iter().map(|(a, b)| {
            let (a, b) = (self.expression(a, &left, values)?, self.expression(b, &right, values)?);
            Ok(if holds_left { (a, b) } else { (b, a) })
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let (held, streamed) = if holds_left { (left, right) } else { (right, left) };
        let filter = match condition.rest.is_empty() {
            true => None,
            false => Some(self.pair_filter(&Scalar::all(condition.rest), &held, &streamed, values)?),
        };
        // What comes out: columns of both sides, or of the algebra's left side and perhaps the mark.
        let mut output: Vec<(ColumnId, Field)> = Vec::new();
        let padded = |lowered: &Lowered, nullable: bool| {
            let fields = lowered.schema().fields().iter().zip(&lowered.columns);
            let field = fields.map(|(field, id)| {
                let nullable = nullable || field.is_nullable();
                (*id, Field::clone(field).with_nullable(nullable))
            });
            field.collect::<Vec<_>>()
        };
        match join_type {
            JoinType::Inner => output.extend([padded(&held, false), padded(&streamed, false)].concat()),
            JoinType::Left => output.extend([padded(&held, false), padded(&streamed, true)].concat()),
            JoinType::Right => output.extend([padded(&held, true), padded(&streamed, false)].concat()),
            JoinType::Full => output.extend([padded(&held, true), padded(&streamed, true)].concat()),
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => output.extend(padded(&held, false)),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => output.extend(padded(&streamed, false)),
        }
        if let Some(mark) = mark {
            output.push((mark.id, Field::new(&mark.name, DataType::Boolean, false)));
        }
        let kept = (0..output.len()).filter(|index| needed.contains(&output[*index].0)).collect::<Vec<_>>();
        let projection = (kept.len() < output.len()).then(|| kept.clone());
        let columns = kept.iter().map(|index| output[*index].0).collect();
        let fields = kept.iter().map(|index| output[*index].1.clone()).collect::<Vec<_>>();
        let schema = Arc::new(Schema::new(fields));
        let node = if keys.is_empty() {
            Node::NestedLoopJoin(NestedLoopJoin {
                left: Box::new(held.plan),
                right: Box::new(streamed.plan),
                filter,
                join_type,
                projection,
            })
        } else {
            let mut join = HashJoin {
                left: Box::new(held.plan),
                right: Box::new(streamed.plan),
                on: keys,
                filter,
                join_type,
                null_equality: condition.null_equality,
                null_aware: condition.null_aware,
                projection,
                runtime_filters: vec![],
            };
            runtime_filters::add(&mut join, &mut self.runtime_filters);
            Node::HashJoin(join)
        };
        let mut plan = Plan::new(node, schema);
        plan.rows_estimate = Some(size.whole_rows());
        Ok(Lowered { plan, columns, size })
    }

    /// A condition over a pair of rows, of just the columns that it reads.
    fn pair_filter(
        &self,
        condition: &Scalar,
        held: &Lowered,
        streamed: &Lowered,
        values: &mut SubqueryValues,
    ) -> Result<PairFilter> {
        let places: HashMap<ColumnId, (JoinSide, usize)> = {
            let of = |lowered: &Lowered, side: JoinSide| {
                let places = lowered.columns.iter().enumerate();
                places.map(|(index, id)| (*id, (side, index))).collect::<Vec<_>>()
            };
            of(held, JoinSide::Left).into_iter().chain(of(streamed, JoinSide::Right)).collect()
        };
        let mut positions = Positions::new();
        let mut columns = Vec::new();
        let mut fields = Vec::new();
        for id in condition.columns() {
            let Some((side, index)) = places.get(&id) else {
                return Err(Error::bug(format!("a join's condition reads the column {id} of neither side")));
            };
            let lowered = if *side == JoinSide::Left { held } else { streamed };
            positions.insert(id, columns.len());
            columns.push((*side, *index));
            fields.push(lowered.schema().field(*index).clone());
        }
        let schema = Arc::new(Schema::new(fields));
        let physical = self.expressions.lower(condition, &positions, &schema, values)?;
        let expression = Expr::new(physical, &schema)?;
        Ok(PairFilter { expression, columns, schema })
    }
}

impl JoinCondition {
    fn of(on: &Scalar, left: &Lowered, right: &Lowered, kind: JoinForm) -> Self {
        let lefts = left.columns.iter().copied().collect::<BTreeSet<_>>();
        let rights = right.columns.iter().copied().collect::<BTreeSet<_>>();
        let apart = |a: &Scalar, b: &Scalar| {
            let (of_a, of_b) = (a.columns(), b.columns());
            if of_a.is_empty() || of_b.is_empty() || a.is_volatile() || b.is_volatile() {
                return None;
            }
            if of_a.is_subset(&lefts) && of_b.is_subset(&rights) {
                Some((a.clone(), b.clone()))
            } else if of_a.is_subset(&rights) && of_b.is_subset(&lefts) {
                Some((b.clone(), a.clone()))
            } else {
                None
            }
        };
        let (mut plain, mut with_nulls, mut doubtful, mut rest) = (vec![], vec![], vec![], vec![]);
        for term in on.clone().conjuncts() {
            // Whether a condition is false or NULL is one to a join.
            let known = match &term {
                Scalar::Coalesce(inputs) => match inputs.as_slice() {
                    [inner, otherwise] if otherwise.as_constant().and_then(Constant::as_bool) == Some(false) => inner,
                    _ => &term,
                },
                other => other,
            };
            let found = match known {
                Scalar::Compare { comparison: Comparison::Equal, left, right } => {
                    apart(left, right).map(|pair| (&mut plain, pair))
                }
                Scalar::Compare { comparison: Comparison::IsNotDistinctFrom, left, right } => {
                    let known = !left.nullable() || !right.nullable();
                    apart(left, right).map(|pair| (if known { &mut plain } else { &mut with_nulls }, pair))
                }
                // `(a = b) IS NOT FALSE`
                Scalar::Or(terms) if kind == JoinForm::Anti => match terms.as_slice() {
                    [Scalar::Compare { comparison: Comparison::Equal, left, right }, Scalar::IsNull(again)]
                        if **again == terms[0] =>
                    {
                        apart(left, right).map(|pair| (&mut doubtful, pair))
                    }
                    _ => None,
                },
                _ => None,
            };
            match found {
                Some((keys, pair)) => keys.push((pair, term)),
                None => rest.push(term),
            }
        }
        let terms = |keys: Vec<((Scalar, Scalar), Scalar)>| keys.into_iter().map(|(_, term)| term);
        let pairs = |keys: Vec<((Scalar, Scalar), Scalar)>| keys.into_iter().map(|(pair, _)| pair).collect::<Vec<_>>();
        let (keys, null_equality, null_aware) = if !with_nulls.is_empty() {
            rest.extend(terms(doubtful));
            // All keys take NULLs for equal; where both sides of an equality may have one, it is asked again.
            let again = plain.iter().filter(|((left, right), _)| left.nullable() && right.nullable());
            rest.extend(again.map(|(_, term)| term.clone()));
            plain.extend(with_nulls);
            (pairs(plain), NullEquality::NullEqualsNull, false)
        } else if !plain.is_empty() {
            rest.extend(terms(doubtful));
            (pairs(plain), NullEquality::NullEqualsNothing, false)
        } else if doubtful.len() == 1 {
            (pairs(doubtful), NullEquality::NullEqualsNothing, true)
        } else {
            rest.extend(terms(doubtful));
            (vec![], NullEquality::NullEqualsNothing, false)
        };
        Self { keys, null_equality, null_aware, rest }
    }
}

/// Of these columns those that a relation has.
fn restricted(columns: &BTreeSet<ColumnId>, relation: &Relation) -> BTreeSet<ColumnId> {
    relation.column_ids().intersection(columns).copied().collect()
}
