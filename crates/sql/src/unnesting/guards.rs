//! Subqueries that CASE, COALESCE, AND and OR ask for in some rows only.
//!
//! A subquery becomes a join, which computes it for all rows. Where that may fail, it reads NULL in the rows that do
//! not ask for its value. In
//!
//! ```sql
//! CASE WHEN jsonb_typeof(j) = 'array' THEN (SELECT count(*) FROM jsonb_array_elements(j)) END
//! ```
//!
//! the subquery reads `CASE WHEN jsonb_typeof(j) = 'array' THEN j END` for `j`. Functions of NULL are NULL. What a
//! subquery computes without reading columns from around it is computed in any case.

use std::collections::{BTreeSet, HashMap};

use diligence_types::sql_type::Category;

use crate::algebra::{Column, ColumnId, Constant, Relation, Scalar, Subquery, SubqueryKind};

/// When a value is asked for, from the outside in.
#[derive(Clone, Default)]
struct Guard {
    steps: Vec<GuardStep>,
}

/// The value is asked for where no condition of `passed` is true, and `wanted` is, if there is one.
#[derive(Clone)]
struct GuardStep {
    passed: Vec<Scalar>,
    wanted: Option<Scalar>,
}

impl Guard {
    fn with(&self, passed: &[Scalar], wanted: Option<&Scalar>) -> Self {
        let mut guard = self.clone();
        if !passed.is_empty() || wanted.is_some() {
            guard.steps.push(GuardStep { passed: passed.to_vec(), wanted: wanted.cloned() });
        }
        guard
    }

    /// The column where the value is asked for, else NULL.
    fn guarded(&self, column: &Column) -> Scalar {
        let null = || Scalar::Constant(Constant::null(column.sql_type.clone()));
        self.steps.iter().rev().fold(column.scalar(), |value, step| {
            let mut arms = step.passed.iter().map(|passed| (passed.clone(), null())).collect::<Vec<_>>();
            let otherwise = match &step.wanted {
                Some(wanted) => {
                    arms.push((wanted.clone(), value));
                    None
                }
                None => Some(Box::new(value)),
            };
            Scalar::Case { arms, otherwise, sql_type: column.sql_type.clone() }
        })
    }
}

/// The expression over rows of these columns, its subqueries reading NULL where they are not asked for and may fail.
pub(super) fn with_guards(mut scalar: Scalar, columns: &[Column]) -> Scalar {
    let columns = columns.iter().map(|column| (column.id, column)).collect();
    guard(&mut scalar, &Guard::default(), &columns);
    scalar
}

fn guard(scalar: &mut Scalar, around: &Guard, columns: &HashMap<ColumnId, &Column>) {
    if !scalar.has_subquery() {
        return;
    }
    let mut passed = Vec::new();
    match scalar {
        Scalar::Case { arms, otherwise, .. } => {
            for (condition, value) in arms {
                let asked = Some(&*condition).filter(|condition| is_repeatable(condition)).cloned();
                guard(condition, &around.with(&passed, None), columns);
                guard(value, &around.with(&passed, asked.as_ref()), columns);
                passed.extend(asked);
            }
            if let Some(otherwise) = otherwise {
                guard(otherwise, &around.with(&passed, None), columns);
            }
        }
        Scalar::Coalesce(parts) => guard_parts(parts, around, columns, |part| Scalar::IsNull(Box::new(part)).negate()),
        Scalar::And(parts) => guard_parts(parts, around, columns, Scalar::negate),
        Scalar::Or(parts) => guard_parts(parts, around, columns, |part| part),
        Scalar::Subquery(subquery) => guard_subquery(subquery, around, columns),
        other => other.children_mut().into_iter().for_each(|child| guard(child, around, columns)),
    }
}

/// Parts of which each is asked for where those before it do not decide; `decides` is when one does.
fn guard_parts(
    parts: &mut [Scalar],
    around: &Guard,
    columns: &HashMap<ColumnId, &Column>,
    decides: impl Fn(Scalar) -> Scalar,
) {
    let mut passed = Vec::new();
    for part in parts {
        let decided = is_repeatable(part).then(|| decides(part.clone()));
        guard(part, &around.with(&passed, None), columns);
        passed.extend(decided);
    }
}

fn guard_subquery(subquery: &mut Subquery, around: &Guard, columns: &HashMap<ColumnId, &Column>) {
    let is_guarded = !around.steps.is_empty();
    let replacement = |id: ColumnId| columns.get(&id).map(|column| around.guarded(column));
    if let SubqueryKind::Quantified { left, .. } = &mut subquery.kind {
        for left in left {
            guard(left, around, columns);
            if is_guarded && computes(left) {
                let taken = std::mem::replace(left, Scalar::boolean(false));
                *left = taken.substituted(&replacement);
            }
        }
    }
    let free = subquery.relation.free_columns();
    if !is_guarded || free.is_empty() || !may_fail(&subquery.relation, free) {
        return;
    }
    subquery.relation.substitute_free(&replacement);
    loosen(&mut subquery.relation);
    subquery.columns.iter_mut().for_each(|column| column.nullable = true);
}

/// Whether an expression may be evaluated once more, to the same value.
fn is_repeatable(scalar: &Scalar) -> bool {
    !scalar.has_subquery() && !scalar.is_volatile()
}

/// Whether a relation computes something of these columns that may fail. A lookup by equality does not.
fn may_fail(relation: &Relation, mut read: BTreeSet<ColumnId>) -> bool {
    // What is made of the columns counts as they do.
    loop {
        let known = read.len();
        add_made(relation, &mut read);
        if read.len() == known {
            break;
        }
    }
    fails_of(relation, &read)
}

fn add_made(relation: &Relation, read: &mut BTreeSet<ColumnId>) {
    let reads = |scalar: &Scalar, read: &BTreeSet<ColumnId>| !scalar.columns().is_disjoint(read);
    match relation {
        Relation::Map { columns, .. } => {
            let made = columns.iter().filter(|(_, scalar)| reads(scalar, read)).map(|(column, _)| column.id);
            let made = made.collect::<Vec<_>>();
            read.extend(made);
        }
        Relation::Values { columns, rows } if rows.iter().flatten().any(|scalar| reads(scalar, read)) => {
            read.extend(columns.iter().map(|column| column.id));
        }
        Relation::TableFunction(function) => {
            let made = function.items.iter().filter(|item| reads(&item.array, read));
            let made = made.flat_map(|item| item.columns.iter().map(|column| column.id)).collect::<Vec<_>>();
            read.extend(made);
        }
        _ => {}
    }
    relation.inputs().into_iter().for_each(|input| add_made(input, read));
}

fn fails_of(relation: &Relation, read: &BTreeSet<ColumnId>) -> bool {
    let mut fails = false;
    for scalar in relation.scalars() {
        scalar.visit(&mut |part| {
            if let Scalar::Subquery(subquery) = part {
                fails |= fails_of(&subquery.relation, read);
            }
            fails |= is_computed(part) && !part.columns().is_disjoint(read);
        });
    }
    fails || relation.inputs().into_iter().any(|input| fails_of(input, read))
}

/// Whether a function or a cast that may fail is in an expression.
fn computes(scalar: &Scalar) -> bool {
    let mut computes = false;
    scalar.visit(&mut |part| computes |= is_computed(part));
    computes
}

fn is_computed(part: &Scalar) -> bool {
    match part {
        Scalar::Call { .. } | Scalar::Asked { .. } => true,
        Scalar::Cast { input, is_try: false, .. } => input.sql_type().category() != Category::Numeric,
        _ => false,
    }
}

/// Lets every value be NULL, as those that are made of guarded columns may be.
fn loosen(relation: &mut Relation) {
    match relation {
        Relation::Map { columns, .. } => columns.iter_mut().for_each(|(column, _)| column.nullable = true),
        Relation::Values { columns, .. } => columns.iter_mut().for_each(|column| column.nullable = true),
        Relation::Aggregate(aggregate) => {
            aggregate.groups.iter_mut().for_each(|(column, _)| column.nullable = true);
        }
        Relation::Set(set) => set.columns.iter_mut().for_each(|column| column.nullable = true),
        _ => {}
    }
    for scalar in relation.scalars_mut() {
        loosen_scalar(scalar);
    }
    relation.inputs_mut().into_iter().for_each(loosen);
}

fn loosen_scalar(scalar: &mut Scalar) {
    match scalar {
        Scalar::Column { nullable, .. } => *nullable = true,
        Scalar::Subquery(subquery) => loosen(&mut subquery.relation),
        _ => {}
    }
    scalar.children_mut().into_iter().for_each(loosen_scalar);
}
