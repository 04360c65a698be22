//! Whether a condition follows from another one, as far as their texts show it: ON CONFLICT finds a partial index by
//! that.

use std::cmp::Ordering;

use sqlparser::ast::{BinaryOperator, Expr, Value};

use super::called::unnested;

/// Whether each row that fulfills `given` fulfills `wanted`. False where it is not seen.
pub(super) fn is_implied(wanted: &Expr, given: &Expr) -> bool {
    let (mut wanted_parts, mut given_parts) = (Vec::new(), Vec::new());
    conjuncts(wanted, &mut wanted_parts);
    conjuncts(given, &mut given_parts);
    wanted_parts.iter().all(|wanted| given_parts.iter().any(|given| follows(wanted, given)))
}

fn conjuncts<'e>(expression: &'e Expr, parts: &mut Vec<&'e Expr>) {
    match unnested(expression) {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(left, parts);
            conjuncts(right, parts);
        }
        other => parts.push(other),
    }
}

fn follows(wanted: &Expr, given: &Expr) -> bool {
    if wanted == given {
        return true;
    }
    let Expr::BinaryOp { left, op, right } = given else { return false };
    match wanted {
        // Nothing is compared to NULL.
        Expr::IsNotNull(inner) => is_comparison(op) && [left, right].contains(&inner),
        Expr::BinaryOp { left: own, op: own_op, right: bound } if own == left => match (number(bound), number(right)) {
            (Some(bound), Some(number)) => is_within(op, number, own_op, bound),
            _ => false,
        },
        _ => false,
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Gt | GtEq | Lt | LtEq)
}

/// Whether what compares so with one number compares so with another one.
fn is_within(given: &BinaryOperator, number: f64, wanted: &BinaryOperator, bound: f64) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let Some(order) = number.partial_cmp(&bound) else { return false };
    let (above, below, same) = (order == Ordering::Greater, order == Ordering::Less, order == Ordering::Equal);
    match (given, wanted) {
        (Eq, Eq) => same,
        (Eq, Gt) => above,
        (Eq, GtEq) => above || same,
        (Eq, Lt) => below,
        (Eq, LtEq) => below || same,
        (Eq, NotEq) => !same,
        (Gt, Gt | GtEq) | (GtEq, GtEq) | (Gt, NotEq) => above || same,
        (GtEq, Gt | NotEq) => above,
        (Lt, Lt | LtEq) | (LtEq, LtEq) | (Lt, NotEq) => below || same,
        (LtEq, Lt | NotEq) => below,
        _ => false,
    }
}

/// A number that a double has exactly.
fn number(expression: &Expr) -> Option<f64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let Expr::Value(value) = unnested(expression) else { return None };
    let Value::Number(text, _) = &value.value else { return None };
    let number = text.to_string().parse::<f64>().ok()?;
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_follow_from_stronger_ones() {
        let implies = |given: &str, wanted: &str| {
            let [given, wanted] = [given, wanted].map(|text| crate::parse::expression(text).unwrap());
            is_implied(&wanted, &given)
        };
        for (given, wanted) in [
            ("a IS NULL", "a IS NULL"),
            ("a > 3 AND (b = 'x')", "b = 'x'"),
            ("a > 3 AND b = 'x' AND c", "c AND a > 3"),
            ("a > 10", "a > 3"),
            ("a > 3", "a >= 3"),
            ("a = 4", "a > 3"),
            ("a <= 2", "a < 3"),
            ("a > 3", "a <> 3"),
            ("a > 3", "a IS NOT NULL"),
        ] {
            assert!(implies(given, wanted), "{given}: {wanted}");
        }
        for (given, wanted) in [
            ("a > 3", "a > 10"),
            ("a >= 3", "a > 3"),
            ("a = 3", "a > 3"),
            ("a > 3 OR b = 'x'", "b = 'x'"),
            ("a > 3", "b > 3"),
            ("a < 3", "a > 3"),
            ("a IS NULL", "a IS NOT NULL"),
        ] {
            assert!(!implies(given, wanted), "{given}: {wanted}");
        }
    }
}
