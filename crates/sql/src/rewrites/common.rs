//! Expressions that an operator computes several times.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use diligence_base::{Result, wanted};
use diligence_types::functions::Stability;

use crate::algebra::{Column, Numbers, Relation, Scalar};

/// A relation whose aggregates and computed columns compute each expression once: what comes twice is a column of the
/// input. What is behind a CASE or another condition stays there, since it may fail where it is not asked for.
pub(super) fn extracted(mut relation: Relation, numbers: &Numbers) -> Result<Relation> {
    wanted::check()?;
    stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || {
        for input in relation.inputs_mut() {
            let taken = std::mem::replace(input, Relation::one_row());
            *input = extracted(taken, numbers)?;
        }
        if !matches!(relation, Relation::Map { .. } | Relation::Aggregate(_) | Relation::Window(_)) {
            return Ok(relation);
        }
        let mut found: HashMap<u64, Vec<(&Scalar, usize)>> = HashMap::new();
        for scalar in relation.scalars() {
            count(scalar, true, &mut found);
        }
        let repeated = found.into_values().flatten().filter(|(_, times)| *times > 1);
        let mut repeated = repeated.map(|(scalar, _)| scalar.clone()).collect::<Vec<_>>();
        if repeated.is_empty() {
            return Ok(relation);
        }
        // Of two that are one in the other, the outer one; what is left of the inner one stays where it is.
        repeated.sort_by_key(|scalar| std::cmp::Reverse(size(scalar)));
        let mut columns: Vec<(Column, Scalar)> = Vec::new();
        for scalar in repeated {
            let is_inner = columns.iter().any(|(_, outer)| contains(outer, &scalar));
            if !is_inner {
                let column = numbers.named("common", scalar.sql_type(), scalar.nullable());
                columns.push((column, scalar));
            }
        }
        for scalar in relation.scalars_mut() {
            let taken = std::mem::replace(scalar, Scalar::boolean(false));
            *scalar = replaced(taken, &columns);
        }
        if let Some(input) = relation.inputs_mut().into_iter().next() {
            let taken = std::mem::replace(input, Relation::one_row());
            *input = taken.mapped(columns);
        }
        Ok(relation)
    })
}

/// Whether an expression costs enough to be kept.
fn is_worth_it(scalar: &Scalar) -> bool {
    !matches!(
        scalar,
        Scalar::Column { .. }
            | Scalar::Constant(_)
            | Scalar::Parameter { .. }
            | Scalar::Subquery(_)
            | Scalar::IsNull(_)
            | Scalar::Field { .. }
    )
}

/// What is known of an expression from its parts.
#[derive(Clone, Copy)]
struct Known {
    hash: u64,
    /// Whether it reads a column.
    reads: bool,
    /// Whether it must stay where it is: it gives another value each time, or has a subquery.
    stays: bool,
}

/// Counts the parts of an expression that are evaluated whenever it is. Each part is looked at once.
fn count<'s>(scalar: &'s Scalar, is_counted: bool, found: &mut HashMap<u64, Vec<(&'s Scalar, usize)>>) -> Known {
    stacker::maybe_grow(64 * 1024, 1024 * 1024, || {
        let mut hasher = DefaultHasher::new();
        std::mem::discriminant(scalar).hash(&mut hasher);
        let mut known = Known { hash: 0, reads: false, stays: false };
        match scalar {
            Scalar::Column { id, .. } => {
                id.hash(&mut hasher);
                known.reads = true;
            }
            Scalar::Constant(constant) => constant.hash(&mut hasher),
            Scalar::Call { call, .. } => {
                call.hash(&mut hasher);
                known.stays = call.overload.stability == Stability::Volatile;
            }
            Scalar::Cast { to, .. } => to.hash(&mut hasher),
            Scalar::Compare { comparison, .. } => comparison.hash(&mut hasher),
            Scalar::Subquery(_) => known.stays = true,
            _ => {}
        }
        // Of a CASE, an AND and their kin only the first part is evaluated for every row.
        let first_only = matches!(scalar, Scalar::Case { .. } | Scalar::And(_) | Scalar::Or(_) | Scalar::Coalesce(_));
        for (index, child) in scalar.children().into_iter().enumerate() {
            let part = count(child, is_counted && (!first_only || index == 0), found);
            part.hash.hash(&mut hasher);
            known.reads |= part.reads;
            known.stays |= part.stays;
        }
        known.hash = hasher.finish();
        if is_counted && known.reads && !known.stays && is_worth_it(scalar) {
            let same = found.entry(known.hash).or_default();
            match same.iter_mut().find(|(other, _)| *other == scalar) {
                Some((_, times)) => *times += 1,
                None => same.push((scalar, 1)),
            }
        }
        known
    })
}

fn size(scalar: &Scalar) -> usize {
    1 + scalar.children().into_iter().map(size).sum::<usize>()
}

fn contains(outer: &Scalar, inner: &Scalar) -> bool {
    outer == inner || outer.children().into_iter().any(|child| contains(child, inner))
}

fn replaced(scalar: Scalar, columns: &[(Column, Scalar)]) -> Scalar {
    if let Some((column, _)) = columns.iter().find(|(_, common)| *common == scalar) {
        return column.scalar();
    }
    let mut scalar = scalar;
    for child in scalar.children_mut() {
        let taken = std::mem::replace(child, Scalar::boolean(false));
        *child = replaced(taken, columns);
    }
    scalar
}
