//! Conditions on their way to where their columns come from.

use std::collections::{BTreeSet, HashMap};

use crate::algebra::{Aggregate, Column, ColumnId, Comparison, Join, JoinKind, Relation, Scalar, SetOperation};

/// A relation whose conditions are evaluated as far down as they can be.
pub(super) fn pushed(relation: Relation) -> Relation {
    push(relation, vec![])
}

/// The rows of a relation for which conditions are true, each evaluated as far down as it can be.
fn push(relation: Relation, conditions: Vec<Scalar>) -> Relation {
    stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || operator(relation, conditions))
}

fn boxed(relation: Box<Relation>, conditions: Vec<Scalar>) -> Box<Relation> {
    Box::new(push(*relation, conditions))
}

fn operator(relation: Relation, conditions: Vec<Scalar>) -> Relation {
    match relation {
        Relation::Filter { input, condition } => {
            let all = condition.conjuncts().into_iter().chain(conditions).collect();
            push(*input, all)
        }
        Relation::Map { input, columns } => below_map(input, columns, conditions),
        Relation::Join(join) => match join.kind {
            JoinKind::Inner => inner(join, conditions),
            JoinKind::Left | JoinKind::Single => left(join, conditions),
            JoinKind::Full => full(join, conditions),
            JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_) => filtering(join, conditions),
        },
        Relation::Aggregate(aggregate) => below_groups(aggregate, conditions),
        Relation::Window(mut window) => {
            let keys: BTreeSet<ColumnId> = window.partition.iter().filter_map(Scalar::as_column).collect();
            let (below, above) = split(conditions, &keys);
            window.input = boxed(window.input, below);
            Relation::Window(window).filtered(Scalar::all(above))
        }
        Relation::Distinct { input, on, keeps_all } => {
            let (below, above) = split(conditions, &on.iter().copied().collect());
            Relation::Distinct { input: boxed(input, below), on, keeps_all }.filtered(Scalar::all(above))
        }
        Relation::Sort { input, keys } => {
            // One that counts rows sees them in order.
            let (above, below): (Vec<_>, Vec<_>) = conditions.into_iter().partition(Scalar::is_volatile);
            Relation::Sort { input: boxed(input, below), keys }.filtered(Scalar::all(above))
        }
        Relation::Definitions { definitions, input } => {
            let definitions =
                definitions.into_iter().map(|(id, relation, columns)| (id, push(relation, vec![]), columns));
            Relation::Definitions { definitions: definitions.collect(), input: boxed(input, conditions) }
        }
        Relation::Set(set) => below_set(set, conditions),
        Relation::TableFunction(mut function) => {
            let (below, above) = split(conditions, &function.input.column_ids());
            function.input = boxed(function.input, below);
            Relation::TableFunction(function).filtered(Scalar::all(above))
        }
        Relation::Limit(mut limit) => {
            limit.input = boxed(limit.input, vec![]);
            Relation::Limit(limit).filtered(Scalar::all(conditions))
        }
        Relation::Recursive(mut recursive) => {
            recursive.base.0 = boxed(recursive.base.0, vec![]);
            recursive.step.0 = boxed(recursive.step.0, vec![]);
            Relation::Recursive(recursive).filtered(Scalar::all(conditions))
        }
        other @ (Relation::Scan(_) | Relation::Values { .. } | Relation::With(_) | Relation::Apply(_)) => {
            other.filtered(Scalar::all(conditions))
        }
    }
}

/// Conditions below what computes columns, over what these are computed from, unless that changes with each evaluation.
fn below_map(input: Box<Relation>, columns: Vec<(Column, Scalar)>, conditions: Vec<Scalar>) -> Relation {
    let computed: HashMap<ColumnId, &Scalar> = columns.iter().map(|(column, scalar)| (column.id, scalar)).collect();
    let (mut below, mut above) = (vec![], vec![]);
    for condition in conditions {
        let read = condition.columns();
        let may = |id: &ColumnId| computed.get(id).is_none_or(|scalar| !scalar.is_volatile());
        if !condition.is_volatile() && read.iter().all(may) {
            below.push(condition.substituted(&|id| computed.get(&id).map(|scalar| (*scalar).clone())));
        } else {
            above.push(condition);
        }
    }
    let below = below.into_iter().flat_map(Scalar::conjuncts).collect();
    Relation::Map { input: boxed(input, below), columns }.filtered(Scalar::all(above))
}

/// Conditions below groups, as far as they read only what rows are grouped by in all sets.
fn below_groups(mut aggregate: Aggregate, conditions: Vec<Scalar>) -> Relation {
    let in_all = |index: usize| {
        aggregate.sets.as_ref().is_none_or(|sets| sets.sets.iter().all(|set| set.get(index) == Some(&true)))
    };
    let groups: HashMap<ColumnId, Scalar> = aggregate
        .groups
        .iter()
        .enumerate()
        .filter(|(index, _)| in_all(*index))
        .map(|(_, (column, scalar))| (column.id, scalar.clone()))
        .collect();
    let (below, above): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|condition| {
        let read = condition.columns();
        !read.is_empty() && !condition.is_volatile() && read.iter().all(|id| groups.contains_key(id))
    });
    let below = below.into_iter().map(|condition| condition.substituted(&|id| groups.get(&id).cloned()));
    let below = below.collect();
    aggregate.input = boxed(aggregate.input, below);
    Relation::Aggregate(aggregate).filtered(Scalar::all(above))
}

/// Conditions below a set operation, in each of its inputs over the columns there.
fn below_set(mut set: SetOperation, conditions: Vec<Scalar>) -> Relation {
    let own: BTreeSet<ColumnId> = set.columns.iter().map(|column| column.id).collect();
    let (below, above) = split(conditions, &own);
    let columns = set.columns.clone();
    let inputs = std::mem::take(&mut set.inputs).into_iter().map(|(input, ids)| {
        let input_columns = input.columns();
        let map: HashMap<ColumnId, Scalar> = columns
            .iter()
            .zip(&ids)
            .filter_map(|(column, id)| {
                let inner = input_columns.iter().find(|inner| inner.id == *id)?;
                Some((column.id, inner.scalar()))
            })
            .collect();
        let below = below.iter().map(|condition| condition.clone().substituted(&|id| map.get(&id).cloned()));
        let below = below.collect();
        (push(input, below), ids)
    });
    set.inputs = inputs.collect();
    Relation::Set(set).filtered(Scalar::all(above))
}

/// The conditions that read only these columns, at least one, and give the same value each time; and the others.
fn split(conditions: Vec<Scalar>, columns: &BTreeSet<ColumnId>) -> (Vec<Scalar>, Vec<Scalar>) {
    conditions.into_iter().partition(|condition| reads_only(condition, columns))
}

fn reads_only(condition: &Scalar, columns: &BTreeSet<ColumnId>) -> bool {
    let read = condition.columns();
    !read.is_empty() && read.is_subset(columns) && !condition.is_volatile()
}

/// A tree of inner joins: all its conditions are collected, what they imply is added, and each goes to its relation.
fn inner(join: Join, conditions: Vec<Scalar>) -> Relation {
    let mut relations = Vec::new();
    let mut all = conditions;
    flatten(Relation::Join(join), &mut relations, &mut all);
    let columns = relations.iter().map(Relation::column_ids).collect::<Vec<_>>();
    let mut all = all.into_iter().flat_map(Scalar::conjuncts).collect::<Vec<_>>();
    add_implied(&mut all);
    let mut own: Vec<Vec<Scalar>> = relations.iter().map(|_| vec![]).collect();
    let mut between = Vec::new();
    for condition in all {
        match columns.iter().position(|columns| reads_only(&condition, columns)) {
            Some(index) => own[index].push(condition),
            None => {
                for (index, columns) in columns.iter().enumerate() {
                    own[index].extend(implied_by_or(&condition, columns));
                }
                between.push(condition);
            }
        }
    }
    let joined = relations.into_iter().zip(own).map(|(relation, conditions)| push(relation, conditions)).reduce(
        |left, right| {
            let (left, right) = (Box::new(left), Box::new(right));
            Relation::Join(Join { kind: JoinKind::Inner, left, right, on: Scalar::boolean(true) })
        },
    );
    // Where the conditions among several of them go is decided with the order.
    match joined {
        Some(Relation::Join(join)) => {
            let on = Scalar::all(std::iter::once(join.on).chain(between));
            Relation::Join(Join { on, ..join })
        }
        Some(other) => other.filtered(Scalar::all(between)),
        None => Relation::one_row().filtered(Scalar::all(between)),
    }
}

fn flatten(relation: Relation, relations: &mut Vec<Relation>, conditions: &mut Vec<Scalar>) {
    match relation {
        Relation::Join(Join { kind: JoinKind::Inner, left, right, on }) => {
            flatten(*left, relations, conditions);
            flatten(*right, relations, conditions);
            conditions.extend(on.conjuncts());
        }
        Relation::Filter { input, condition } => {
            flatten(*input, relations, conditions);
            conditions.extend(condition.conjuncts());
        }
        other => relations.push(other),
    }
}

/// What equalities between columns imply: a condition on one of them holds of the other.
fn add_implied(conditions: &mut Vec<Scalar>) {
    // Few enough to look at each pair.
    const EQUALITIES_MAX: usize = 64;
    let equal = conditions.iter().filter_map(|condition| match condition {
        Scalar::Compare { comparison: Comparison::Equal, left, right } => match (&**left, &**right) {
            (a @ Scalar::Column { .. }, b @ Scalar::Column { .. }) if a.sql_type() == b.sql_type() => {
                Some((a.clone(), b.clone()))
            }
            _ => None,
        },
        _ => None,
    });
    let equal = equal.take(EQUALITIES_MAX).collect::<Vec<_>>();
    if equal.is_empty() {
        return;
    }
    let mut position = 0;
    while position < conditions.len() {
        let condition = conditions[position].clone();
        position += 1;
        let read = condition.columns();
        let is_bound = matches!(
            condition,
            Scalar::Compare { .. } | Scalar::InList { .. } | Scalar::Like { .. } | Scalar::Or(_) | Scalar::And(_)
        );
        if read.len() != 1 || !is_bound || condition.is_volatile() || condition.has_subquery() {
            continue;
        }
        for (a, b) in &equal {
            for (from, to) in [(a, b), (b, a)] {
                let Some(id) = from.as_column().filter(|id| read.contains(id)) else { continue };
                let other = condition.clone().substituted(&|column| (column == id).then(|| to.clone()));
                if !conditions.contains(&other) {
                    conditions.push(other);
                }
            }
        }
    }
}

/// `(a AND x) OR (b AND y)`, with `a` and `b` conditions on these columns alone, implies `a OR b`.
fn implied_by_or(condition: &Scalar, columns: &BTreeSet<ColumnId>) -> Option<Scalar> {
    let Scalar::Or(terms) = condition else { return None };
    let parts = terms.iter().map(|term| {
        let own = term.clone().conjuncts().into_iter().filter(|part| reads_only(part, columns)).collect::<Vec<_>>();
        (!own.is_empty()).then(|| Scalar::all(own))
    });
    Some(Scalar::any(parts.collect::<Option<Vec<_>>>()?))
}

/// A left join, or one with at most one partner.
fn left(join: Join, conditions: Vec<Scalar>) -> Relation {
    let rights = join.right.column_ids();
    if join.kind == JoinKind::Left && conditions.iter().any(|condition| is_not_true_without(condition, &rights)) {
        return inner(Join { kind: JoinKind::Inner, ..join }, conditions);
    }
    let (below, above) = split(conditions, &join.left.column_ids());
    // What is said of the right side's rows alone in the condition may drop them before.
    let (of_right, on) = split(join.on.conjuncts(), &rights);
    let left = boxed(join.left, below);
    let right = boxed(join.right, of_right);
    Relation::Join(Join { kind: join.kind, left, right, on: Scalar::all(on) }).filtered(Scalar::all(above))
}

/// A full join. A condition that padded rows do not fulfil makes it a left join of one side or the other, or an inner
/// one.
fn full(join: Join, conditions: Vec<Scalar>) -> Relation {
    let (lefts, rights) = (join.left.column_ids(), join.right.column_ids());
    let drops = |columns: &BTreeSet<ColumnId>| conditions.iter().any(|term| is_not_true_without(term, columns));
    match (drops(&lefts), drops(&rights)) {
        (true, true) => inner(Join { kind: JoinKind::Inner, ..join }, conditions),
        // Rows without a left side are dropped: those of the left stay.
        (true, false) => left(Join { kind: JoinKind::Left, ..join }, conditions),
        (false, true) => {
            let Join { left: l, right: r, on, .. } = join;
            left(Join { kind: JoinKind::Left, left: r, right: l, on }, conditions)
        }
        (false, false) => {
            let (l, r) = (boxed(join.left, vec![]), boxed(join.right, vec![]));
            Relation::Join(Join { kind: JoinKind::Full, left: l, right: r, on: join.on })
                .filtered(Scalar::all(conditions))
        }
    }
}

/// Semi, anti and mark joins.
fn filtering(join: Join, conditions: Vec<Scalar>) -> Relation {
    let (mut below, above) = split(conditions, &join.left.column_ids());
    let tells_unknown = matches!(&join.kind, JoinKind::Mark(mark) if mark.nullable);
    let rights = join.right.column_ids();
    let (of_right, mut on): (Vec<_>, Vec<_>) = join
        .on
        .conjuncts()
        .into_iter()
        .partition(|term| reads_only(term, &rights) && !(tells_unknown && term.nullable()));
    if join.kind == JoinKind::Semi {
        let (of_left, rest) = split(on, &join.left.column_ids());
        below.extend(of_left);
        on = rest;
    }
    let left = boxed(join.left, below);
    let right = boxed(join.right, of_right);
    Relation::Join(Join { kind: join.kind, left, right, on: Scalar::all(on) }).filtered(Scalar::all(above))
}

/// Whether a condition is never true where all these columns are NULL.
fn is_not_true_without(condition: &Scalar, columns: &BTreeSet<ColumnId>) -> bool {
    match condition {
        Scalar::And(terms) => terms.iter().any(|term| is_not_true_without(term, columns)),
        Scalar::Or(terms) => terms.iter().all(|term| is_not_true_without(term, columns)),
        Scalar::Not(inner) => match &**inner {
            Scalar::IsNull(value) => is_null_without(value, columns),
            inner => is_null_without(inner, columns),
        },
        other => is_null_without(other, columns),
    }
}

/// Whether a value is NULL where all these columns are NULL.
fn is_null_without(scalar: &Scalar, columns: &BTreeSet<ColumnId>) -> bool {
    let is_null = |scalar: &Scalar| is_null_without(scalar, columns);
    match scalar {
        Scalar::Column { id, .. } => columns.contains(id),
        Scalar::Constant(constant) => constant.is_null(),
        Scalar::Call { call, arguments } => call.overload.is_strict && arguments.iter().any(is_null),
        Scalar::Cast { input, .. } | Scalar::Not(input) | Scalar::Field { input, .. } => is_null(input),
        Scalar::Compare { comparison, left, right } => {
            !matches!(comparison, Comparison::IsDistinctFrom | Comparison::IsNotDistinctFrom)
                && (is_null(left) || is_null(right))
        }
        Scalar::Like { value, pattern, .. } => is_null(value) || is_null(pattern),
        Scalar::InList { value, .. } => is_null(value),
        Scalar::And(terms) | Scalar::Or(terms) => terms.iter().all(is_null),
        Scalar::Coalesce(inputs) => inputs.iter().all(is_null),
        _ => false,
    }
}
