//! Whether a condition follows from another one, as far as their texts show it: ON CONFLICT finds a partial index by
//! that.

use std::cmp::Ordering;

use sqlparser::ast::{BinaryOperator, CastKind, Expr, UnaryOperator, Value};

use super::called::unnested;

/// Whether each row that fulfills `given` fulfills `wanted`. False where it is not seen.
pub(super) fn is_implied(wanted: &Expr, given: &Expr) -> bool {
    Predicate::of(given).implies(&Predicate::of(wanted))
}

/// A condition by its parts.
enum Predicate {
    /// All of the parts.
    All(Vec<Predicate>),
    /// One of the parts.
    Any(Vec<Predicate>),
    /// What has no such parts. A comparison to a literal has it on the right.
    Test(Box<Expr>),
}

impl Predicate {
    fn of(expression: &Expr) -> Self {
        let compared = |value: &Expr, op: BinaryOperator, other: &Expr| {
            Self::of(&Expr::BinaryOp { left: Box::new(value.clone()), op, right: Box::new(other.clone()) })
        };
        match unnested(expression) {
            whole @ Expr::BinaryOp { op: BinaryOperator::And, .. } => {
                Self::All(Self::chain(whole, &BinaryOperator::And))
            }
            whole @ Expr::BinaryOp { op: BinaryOperator::Or, .. } => Self::Any(Self::chain(whole, &BinaryOperator::Or)),
            Expr::BinaryOp { left, op, right } => {
                let (left, right) = (unnested(left).clone(), unnested(right).clone());
                let (left, op, right) = match turned(op) {
                    Some(op) if is_literal(&left) && !is_literal(&right) => (right, op, left),
                    _ => (left, op.clone(), right),
                };
                Self::Test(Box::new(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }))
            }
            Expr::Between { expr, negated: false, low, high } => {
                Self::All(vec![compared(expr, BinaryOperator::GtEq, low), compared(expr, BinaryOperator::LtEq, high)])
            }
            Expr::Between { expr, negated: true, low, high } => {
                Self::Any(vec![compared(expr, BinaryOperator::Lt, low), compared(expr, BinaryOperator::Gt, high)])
            }
            Expr::InList { expr, list, negated } => {
                let op = if *negated { BinaryOperator::NotEq } else { BinaryOperator::Eq };
                let parts = list.iter().map(|item| compared(expr, op.clone(), item)).collect();
                if *negated { Self::All(parts) } else { Self::Any(parts) }
            }
            other => Self::Test(Box::new(other.clone())),
        }
    }

    /// The parts between which an operator stands.
    fn chain(expression: &Expr, of: &BinaryOperator) -> Vec<Self> {
        let (mut parts, mut rest) = (Vec::new(), expression);
        while let Expr::BinaryOp { left, op, right } = unnested(rest)
            && op == of
        {
            parts.push(Self::of(right));
            rest = left;
        }
        parts.push(Self::of(rest));
        parts
    }

    /// Whether the other follows from it.
    fn implies(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (_, Self::All(parts)) => parts.iter().all(|part| self.implies(part)),
            (Self::Any(own), _) => own.iter().all(|part| part.implies(wanted)),
            (Self::All(own), Self::Any(parts)) => {
                own.iter().any(|part| part.implies(wanted)) || parts.iter().any(|part| self.implies(part))
            }
            (Self::All(own), _) => own.iter().any(|part| part.implies(wanted)),
            (_, Self::Any(parts)) => parts.iter().any(|part| self.implies(part)),
            (Self::Test(own), Self::Test(wanted)) => follows(wanted, own),
        }
    }
}

/// The comparison with its sides exchanged.
fn turned(op: &BinaryOperator) -> Option<BinaryOperator> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    Some(match op {
        Eq => Eq,
        NotEq => NotEq,
        Gt => Lt,
        GtEq => LtEq,
        Lt => Gt,
        LtEq => GtEq,
        _ => return None,
    })
}

fn is_literal(expression: &Expr) -> bool {
    match expression {
        Expr::Value(_) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_literal(expr),
        _ => false,
    }
}

fn follows(wanted: &Expr, given: &Expr) -> bool {
    if wanted == given {
        return true;
    }
    match wanted {
        Expr::IsNotNull(inner) => is_null_with(given, unnested(inner)),
        Expr::BinaryOp { left: own, op: own_op, right: bound } => match given {
            Expr::BinaryOp { left, op, right } if own == left => match (number(bound), number(right)) {
                (Some(bound), Some(number)) => is_within(op, number, own_op, bound),
                _ => false,
            },
            _ => false,
        },
        _ => false,
    }
}

/// Whether an expression is NULL where a part of it is: what is true has no such part.
fn is_null_with(expression: &Expr, part: &Expr) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    let expression = unnested(expression);
    let either = |left: &Expr, right: &Expr| is_null_with(left, part) || is_null_with(right, part);
    expression == part
        || match expression {
            Expr::BinaryOp { left, op, right } => {
                (is_comparison(op) || matches!(op, Plus | Minus | Multiply | Divide | Modulo)) && either(left, right)
            }
            Expr::Like { expr, pattern, any: false, .. } | Expr::ILike { expr, pattern, any: false, .. } => {
                either(expr, pattern)
            }
            Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus | UnaryOperator::Not, expr }
            | Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, .. } => is_null_with(expr, part),
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

/// A number of so few digits that doubles keep the order of such.
fn number(expression: &Expr) -> Option<f64> {
    const DIGITS_MAX: usize = 15;
    match unnested(expression) {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number(expr).map(|number| -number),
        Expr::Value(value) => {
            let Value::Number(text, _) = &value.value else { return None };
            let text = text.to_string();
            let is_short = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && text.len() <= DIGITS_MAX;
            is_short.then(|| text.parse().ok()).flatten()
        }
        _ => None,
    }
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
            ("3 < a", "a > 3"),
            ("a > 3", "2.5 <= a"),
            ("a = -1", "a < 0"),
            ("a BETWEEN 4 AND 9", "a > 3"),
            ("a BETWEEN 4 AND 9", "a BETWEEN 2 AND 9"),
            ("a IN (4, 5)", "a > 3"),
            ("a IN (4, 5)", "a IN (5, 6, 4)"),
            ("a = 4 OR a > 8", "a > 3"),
            ("a NOT IN (4, 5)", "a <> 5"),
            ("b AND a > 3", "a < 0 OR b"),
            ("a + 1 > 0", "a IS NOT NULL"),
            ("a LIKE 'x%'", "a IS NOT NULL"),
            ("NOT a", "a IS NOT NULL"),
            ("a::int = 1", "a IS NOT NULL"),
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
            ("a BETWEEN 2 AND 9", "a > 3"),
            ("a NOT BETWEEN 4 AND 9", "a > 3"),
            ("a IN (3, 4)", "a > 3"),
            ("a NOT IN (4)", "a IN (5)"),
            ("a > 3 OR b", "b"),
            ("f(a) > 0", "a IS NOT NULL"),
            ("a IS DISTINCT FROM 1", "a IS NOT NULL"),
        ] {
            assert!(!implies(given, wanted), "{given}: {wanted}");
        }
    }
}
