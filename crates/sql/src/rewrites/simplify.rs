//! Expressions that say the same with less.

use diligence_base::{Result, wanted};
use diligence_engine::expressions::is_outside;
use diligence_types::SqlType;
use diligence_types::functions::Stability;

use super::series;
use crate::algebra::{ColumnId, Comparison, Constant, JoinKind, Relation, Scalar};

/// How an expression without columns is computed.
type Evaluate<'a> = &'a dyn Fn(&Scalar) -> Option<Constant>;

/// Which columns are padded by outer joins around them: there a value may be NULL that is not where it comes from.
type Padded = std::collections::BTreeSet<ColumnId>;

/// A relation with simpler expressions.
pub(super) fn simplified(relation: Relation, evaluate: Evaluate<'_>) -> Result<Relation> {
    let mut padded = Padded::new();
    add_padded(&relation, &mut padded);
    below(relation, &padded, evaluate)
}

fn add_padded(relation: &Relation, padded: &mut Padded) {
    match relation {
        Relation::Join(join) => match join.kind {
            JoinKind::Left | JoinKind::Single => padded.extend(join.right.column_ids()),
            JoinKind::Full => {
                padded.extend(join.left.column_ids());
                padded.extend(join.right.column_ids());
            }
            _ => {}
        },
        Relation::TableFunction(function) if function.keeps_all => {
            padded.extend(function.items.iter().flat_map(|item| &item.columns).map(|column| column.id));
        }
        _ => {}
    }
    relation.inputs().into_iter().for_each(|input| add_padded(input, padded));
}

fn below(mut relation: Relation, padded: &Padded, evaluate: Evaluate<'_>) -> Result<Relation> {
    wanted::check()?;
    stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || {
        for input in relation.inputs_mut() {
            let taken = std::mem::replace(input, Relation::one_row());
            *input = below(taken, padded, evaluate)?;
        }
        for scalar in relation.scalars_mut() {
            let taken = std::mem::replace(scalar, Scalar::boolean(false));
            let taken = match padded.is_empty() {
                true => taken,
                false => taken.transform(&mut |part| {
                    Ok(match part {
                        Scalar::Column { id, sql_type, nullable } => {
                            Scalar::Column { nullable: nullable || padded.contains(&id), id, sql_type }
                        }
                        other => other,
                    })
                })?,
            };
            *scalar = self::scalar(taken, evaluate)?;
        }
        Ok(match relation {
            // A condition that is NULL drops its row like one that is false.
            Relation::Filter { input, condition } => match condition.as_constant() {
                Some(constant) if constant.as_bool() == Some(true) => *input,
                Some(constant) if constant.is_null() => Relation::Filter { input, condition: Scalar::boolean(false) },
                _ => Relation::Filter { input, condition },
            },
            Relation::TableFunction(function) => series::scanned(function)?,
            other => other,
        })
    })
}

/// A simpler expression.
pub(super) fn scalar(scalar: Scalar, evaluate: Evaluate<'_>) -> Result<Scalar> {
    scalar.transform(&mut |mut part| {
        if let Scalar::Subquery(subquery) = &mut part {
            let taken = std::mem::replace(&mut subquery.relation, Relation::one_row());
            subquery.relation = simplified(taken, evaluate)?;
            return Ok(part);
        }
        let part = rule(part);
        Ok(folded(uncast(part, evaluate), evaluate))
    })
}

/// The value of an expression of constants.
fn folded(scalar: Scalar, evaluate: Evaluate<'_>) -> Scalar {
    let children = scalar.children();
    let is_known = match &scalar {
        Scalar::Constant(_) | Scalar::Column { .. } | Scalar::Parameter { .. } | Scalar::Subquery(_) => false,
        Scalar::Call { call, .. } if call.overload.stability != Stability::Immutable => false,
        Scalar::Asked { .. } if scalar.is_volatile() => false,
        // It may take its time, which planning has not.
        Scalar::Asked { function, .. } if is_outside(function) => false,
        Scalar::Call { call, .. } if series::gives_series(call.overload.name) => false,
        _ => children.iter().all(|child| child.as_constant().is_some()),
    };
    if !is_known {
        return scalar;
    }
    match evaluate(&scalar) {
        Some(constant) => Scalar::Constant(constant),
        None => scalar,
    }
}

/// `CAST(x AS wider) < constant` as `x < constant`, where the constant is a value of the narrow type as well: so that a
/// scan can use the condition.
fn uncast(scalar: Scalar, evaluate: Evaluate<'_>) -> Scalar {
    let Scalar::Compare { comparison, left, right } = scalar else { return scalar };
    let (Scalar::Cast { input, to, .. }, Scalar::Constant(constant)) = (&*left, &*right) else {
        return Scalar::Compare { comparison, left, right };
    };
    let from = input.sql_type();
    if !widens(&from, to) || constant.is_null() {
        return Scalar::Compare { comparison, left, right };
    }
    let cast = |input: Scalar, to: &SqlType| {
        let cast = Scalar::Cast { input: Box::new(input), to: to.clone(), is_try: true, is_explicit: true };
        evaluate(&cast)
    };
    let narrow = cast(Scalar::Constant(constant.clone()), &from).filter(|narrow| !narrow.is_null());
    match narrow {
        Some(narrow) if cast(Scalar::Constant(narrow.clone()), to).as_ref() == Some(constant) => {
            Scalar::Compare { comparison, left: input.clone(), right: Box::new(Scalar::Constant(narrow)) }
        }
        _ => Scalar::Compare { comparison, left, right },
    }
}

/// Whether a cast keeps all values apart and in their order.
fn widens(from: &SqlType, to: &SqlType) -> bool {
    let digits = |sql_type: &SqlType| match sql_type {
        SqlType::SmallInt => Some((5, 0)),
        SqlType::Integer => Some((10, 0)),
        SqlType::BigInt => Some((19, 0)),
        SqlType::Numeric(Some((precision, scale))) => Some((*precision as i32, *scale as i32)),
        SqlType::Numeric(None) => Some((76, 38)),
        _ => None,
    };
    match (from, to) {
        (SqlType::Date, SqlType::Timestamp) => true,
        (SqlType::Varchar(_) | SqlType::Name, SqlType::Text | SqlType::Varchar(None)) => true,
        (SqlType::SmallInt | SqlType::Integer | SqlType::Real, SqlType::Double) => true,
        _ => match (digits(from), digits(to)) {
            (Some((precision, scale)), Some((to_precision, to_scale))) => {
                to_scale >= scale && to_precision - to_scale >= precision - scale
            }
            _ => false,
        },
    }
}

fn rule(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::And(terms) => junction(terms, true),
        Scalar::Or(terms) => factored(junction(terms, false)),
        Scalar::Not(inner) => negated(*inner),
        Scalar::IsNull(inner) if !inner.nullable() => Scalar::boolean(false),
        Scalar::Compare { comparison, left, right } => compared(comparison, *left, *right),
        Scalar::InList { value, mut list, is_negated } if list.len() == 1 => {
            let comparison = if is_negated { Comparison::NotEqual } else { Comparison::Equal };
            let element = list.remove(0);
            compared(comparison, *value, element)
        }
        Scalar::Case { arms, otherwise, sql_type } => case(arms, otherwise, sql_type),
        Scalar::Coalesce(inputs) => coalesce(inputs),
        other => other,
    }
}

/// AND or OR without what says nothing, and without repetitions.
fn junction(terms: Vec<Scalar>, is_and: bool) -> Scalar {
    let mut kept: Vec<Scalar> = Vec::with_capacity(terms.len());
    let flat = terms.into_iter().flat_map(|term| match term {
        Scalar::And(inner) if is_and => inner,
        Scalar::Or(inner) if !is_and => inner,
        other => vec![other],
    });
    // Few terms are compared with each other; of many, comparing would cost more than it saves.
    const COMPARED_MAX: usize = 64;
    for term in flat {
        match term.as_constant().and_then(Constant::as_bool) {
            Some(value) if value == is_and => {}
            Some(value) => return Scalar::boolean(value),
            None if kept.len() < COMPARED_MAX && kept.contains(&term) => {}
            None => kept.push(term),
        }
    }
    match kept.len() {
        0 => Scalar::boolean(is_and),
        1 => kept.remove(0),
        _ if is_and => Scalar::And(kept),
        _ => Scalar::Or(kept),
    }
}

/// `(a AND x) OR (a AND y)` is `a AND (x OR y)`.
fn factored(scalar: Scalar) -> Scalar {
    let Scalar::Or(terms) = scalar else { return scalar };
    let Some(first) = terms.first() else { return Scalar::Or(terms) };
    if !terms.iter().all(|term| matches!(term, Scalar::And(_))) {
        return Scalar::Or(terms);
    }
    let parts = |term: &Scalar| match term {
        Scalar::And(inner) => inner.clone(),
        other => vec![other.clone()],
    };
    let common: Vec<Scalar> = parts(first)
        .into_iter()
        .filter(|part| terms[1..].iter().all(|term| matches!(term, Scalar::And(inner) if inner.contains(part))))
        .collect();
    if common.is_empty() {
        return Scalar::Or(terms);
    }
    let rest = terms.iter().map(|term| {
        let left = parts(term).into_iter().filter(|part| !common.contains(part));
        Scalar::all(left.collect::<Vec<_>>())
    });
    let rest = Scalar::any(rest.collect::<Vec<_>>());
    Scalar::all(common.into_iter().chain([rest]))
}

fn negated(inner: Scalar) -> Scalar {
    match inner {
        Scalar::Not(inner) => *inner,
        Scalar::Compare { comparison, left, right } => {
            Scalar::Compare { comparison: comparison.negated(), left, right }
        }
        Scalar::And(terms) => junction(terms.into_iter().map(negated).collect(), false),
        Scalar::Or(terms) => junction(terms.into_iter().map(negated).collect(), true),
        Scalar::Like { value, pattern, escape, is_negated, ignores_case } => {
            Scalar::Like { value, pattern, escape, is_negated: !is_negated, ignores_case }
        }
        Scalar::InList { value, list, is_negated } => Scalar::InList { value, list, is_negated: !is_negated },
        Scalar::Constant(constant) => match constant.as_bool() {
            Some(value) => Scalar::boolean(!value),
            None => Scalar::Constant(constant),
        },
        other => Scalar::Not(Box::new(other)),
    }
}

fn compared(comparison: Comparison, left: Scalar, right: Scalar) -> Scalar {
    let is_null = |scalar: &Scalar| scalar.as_constant().is_some_and(Constant::is_null);
    if is_null(&left) || is_null(&right) {
        let other = if is_null(&left) { &right } else { &left };
        return match comparison {
            Comparison::IsDistinctFrom => Scalar::IsNull(Box::new(other.clone())).negate(),
            Comparison::IsNotDistinctFrom => Scalar::IsNull(Box::new(other.clone())),
            _ => Scalar::Constant(Constant::null(SqlType::Boolean)),
        };
    }
    // Constants stand on the right.
    if left.as_constant().is_some() && right.as_constant().is_none() {
        return Scalar::compare(comparison.swapped(), right, left);
    }
    Scalar::compare(comparison, left, right)
}

fn case(arms: Vec<(Scalar, Scalar)>, otherwise: Option<Box<Scalar>>, sql_type: SqlType) -> Scalar {
    let mut kept = Vec::with_capacity(arms.len());
    let mut otherwise = otherwise;
    for (condition, value) in arms {
        match condition.as_constant() {
            Some(constant) if constant.as_bool() == Some(true) => {
                otherwise = Some(Box::new(value));
                break;
            }
            // False or NULL: never taken.
            Some(_) => {}
            None => kept.push((condition, value)),
        }
    }
    if kept.is_empty() {
        return match otherwise {
            Some(value) => *value,
            None => Scalar::Constant(Constant::null(sql_type)),
        };
    }
    Scalar::Case { arms: kept, otherwise, sql_type }
}

fn coalesce(inputs: Vec<Scalar>) -> Scalar {
    let sql_type = inputs.first().map_or(SqlType::Unknown, Scalar::sql_type);
    let mut kept = Vec::with_capacity(inputs.len());
    for input in inputs {
        if input.as_constant().is_some_and(Constant::is_null) {
            continue;
        }
        let is_last = !input.nullable();
        kept.push(input);
        if is_last {
            break;
        }
    }
    match kept.len() {
        0 => Scalar::Constant(Constant::null(sql_type)),
        1 => kept.remove(0),
        _ => Scalar::Coalesce(kept),
    }
}
