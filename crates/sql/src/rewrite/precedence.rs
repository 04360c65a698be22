//! `IS [NOT] DISTINCT FROM` binds tighter than NOT, AND and OR, as every IS does.
//!
//! The parser reads all that follows as its right operand: `a IS DISTINCT FROM b AND c` becomes `a IS DISTINCT FROM (b
//! AND c)`. Parentheses are nodes of the tree, so what was written without them can be laid out in its order again and
//! put together by precedence.

use std::convert::Infallible;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::vec::IntoIter;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitorMut};

use super::{finish, walk};

/// Puts the right operands of a statement's IS DISTINCT FROMs right.
pub(crate) fn mend(statement: &mut Statement) {
    finish(walk(statement, &mut Mend));
}

struct Mend;

impl VisitorMut for Mend {
    type Break = Infallible;

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Infallible> {
        if binds_too_much(expression) {
            let whole = std::mem::replace(expression, Expr::value(Value::Null));
            let mut pieces = Vec::new();
            lay_out(whole, &mut pieces);
            *expression = put_together(&mut pieces.into_iter().peekable(), 0);
        }
        ControlFlow::Continue(())
    }
}

/// One piece of an expression, in the order of the text.
enum Piece {
    Operand(Expr),
    Not,
    And,
    Or,
    /// IS DISTINCT FROM and IS NOT DISTINCT FROM.
    Distinct(fn(Box<Expr>, Box<Expr>) -> Expr),
    /// IS NULL and its kin.
    Is(fn(Box<Expr>) -> Expr),
}

/// How tight NOT binds.
const NOT: u8 = 3;

impl Piece {
    /// How tight an operator between or behind operands binds.
    fn precedence(&self) -> u8 {
        match self {
            Piece::Or => 1,
            Piece::And => 2,
            Piece::Not | Piece::Operand(_) => NOT,
            Piece::Distinct(_) | Piece::Is(_) => 4,
        }
    }
}

/// Whether some IS DISTINCT FROM at the right end of this expression has an operator in its right operand that binds
/// less.
fn binds_too_much(mut expression: &Expr) -> bool {
    loop {
        expression = match expression {
            Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => return is_loose(right),
            Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, right, .. } => right,
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => expr,
            _ => return false,
        }
    }
}

/// Whether an expression without parentheses around it binds no tighter than IS.
fn is_loose(expression: &Expr) -> bool {
    match expression {
        Expr::BinaryOp { op, .. } => matches!(op, BinaryOperator::And | BinaryOperator::Or),
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => true,
        other => is_test(other).is_some(),
    }
}

/// The maker and the operand of an IS NULL or its kin.
fn is_test(expression: &Expr) -> Option<(fn(Box<Expr>) -> Expr, &Expr)> {
    Some(match expression {
        Expr::IsNull(operand) => (Expr::IsNull, operand),
        Expr::IsNotNull(operand) => (Expr::IsNotNull, operand),
        Expr::IsTrue(operand) => (Expr::IsTrue, operand),
        Expr::IsNotTrue(operand) => (Expr::IsNotTrue, operand),
        Expr::IsFalse(operand) => (Expr::IsFalse, operand),
        Expr::IsNotFalse(operand) => (Expr::IsNotFalse, operand),
        Expr::IsUnknown(operand) => (Expr::IsUnknown, operand),
        Expr::IsNotUnknown(operand) => (Expr::IsNotUnknown, operand),
        _ => return None,
    })
}

fn lay_out(expression: Expr, pieces: &mut Vec<Piece>) {
    match expression {
        Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
            lay_out(*left, pieces);
            pieces.push(if op == BinaryOperator::And { Piece::And } else { Piece::Or });
            lay_out(*right, pieces);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            pieces.push(Piece::Not);
            lay_out(*expr, pieces);
        }
        Expr::IsDistinctFrom(left, right) => {
            lay_out(*left, pieces);
            pieces.push(Piece::Distinct(Expr::IsDistinctFrom));
            lay_out(*right, pieces);
        }
        Expr::IsNotDistinctFrom(left, right) => {
            lay_out(*left, pieces);
            pieces.push(Piece::Distinct(Expr::IsNotDistinctFrom));
            lay_out(*right, pieces);
        }
        other => match is_test(&other) {
            Some((test, operand)) => {
                lay_out(operand.clone(), pieces);
                pieces.push(Piece::Is(test));
            }
            None => pieces.push(Piece::Operand(other)),
        },
    }
}

/// The expression that the next pieces make, up to an operator that binds no tighter than `floor`.
fn put_together(pieces: &mut Peekable<IntoIter<Piece>>, floor: u8) -> Expr {
    let mut left = match pieces.next() {
        Some(Piece::Operand(operand)) => operand,
        Some(Piece::Not) => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(put_together(pieces, NOT)) },
        _ => unreachable!("an operator stands behind an operand"),
    };
    while let Some(operator) = pieces.next_if(|piece| piece.precedence() > floor) {
        let precedence = operator.precedence();
        let mut binary = |left: Expr, op| {
            let right = Box::new(put_together(pieces, precedence));
            Expr::BinaryOp { left: Box::new(left), op, right }
        };
        left = match operator {
            Piece::And => binary(left, BinaryOperator::And),
            Piece::Or => binary(left, BinaryOperator::Or),
            Piece::Distinct(make) => make(Box::new(left), Box::new(put_together(pieces, precedence))),
            Piece::Is(make) => make(Box::new(left)),
            Piece::Operand(_) | Piece::Not => unreachable!("an operand stands behind an operator"),
        };
    }
    left
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    /// The mended expression with a pair of parentheses around each of its operators.
    fn mended(text: &str) -> String {
        fn shown(expression: &Expr) -> String {
            match expression {
                Expr::BinaryOp { left, op, right } => format!("({} {op} {})", shown(left), shown(right)),
                Expr::UnaryOp { op, expr } => format!("({op} {})", shown(expr)),
                Expr::IsDistinctFrom(left, right) => format!("({} <> {})", shown(left), shown(right)),
                Expr::IsNotDistinctFrom(left, right) => format!("({} == {})", shown(left), shown(right)),
                Expr::IsNull(operand) => format!("({} IS NULL)", shown(operand)),
                Expr::Nested(inner) => shown(inner),
                other => other.to_string(),
            }
        }
        let mut statements = Parser::parse_sql(&GenericDialect {}, &format!("SELECT {text}")).unwrap();
        let mut statement = Statement::Statement(Box::new(statements.remove(0)));
        mend(&mut statement);
        let mut found = None;
        struct First<'a>(&'a mut Option<String>);
        impl VisitorMut for First<'_> {
            type Break = Infallible;
            fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Infallible> {
                self.0.get_or_insert_with(|| shown(expression));
                ControlFlow::Continue(())
            }
        }
        finish(walk(&mut statement, &mut First(&mut found)));
        found.unwrap()
    }

    #[test]
    fn distinct_binds_tighter_than_not_and_and_or() {
        for (text, expected) in [
            ("a IS DISTINCT FROM b", "(a <> b)"),
            ("a IS DISTINCT FROM b AND c", "((a <> b) AND c)"),
            ("a IS NOT DISTINCT FROM b OR c AND d", "((a == b) OR (c AND d))"),
            ("x AND a IS DISTINCT FROM b OR c", "((x AND (a <> b)) OR c)"),
            ("x OR a IS DISTINCT FROM b AND c", "(x OR ((a <> b) AND c))"),
            ("NOT a IS DISTINCT FROM b AND c", "((NOT (a <> b)) AND c)"),
            ("a IS DISTINCT FROM NOT b AND c", "((a <> (NOT b)) AND c)"),
            ("a IS DISTINCT FROM b AND c IS NOT DISTINCT FROM d AND e", "(((a <> b) AND (c == d)) AND e)"),
            ("a IS DISTINCT FROM b IS NULL", "((a <> b) IS NULL)"),
        ] {
            assert_eq!(mended(text), expected, "{text}");
        }
    }

    #[test]
    fn what_binds_tighter_and_what_is_in_parentheses_stays() {
        for (text, expected) in [
            ("a IS DISTINCT FROM (b AND c)", "(a <> (b AND c))"),
            ("a IS DISTINCT FROM b = c AND d", "((a <> (b = c)) AND d)"),
            ("a IS DISTINCT FROM b + 1 OR c", "((a <> (b + 1)) OR c)"),
            ("a IS DISTINCT FROM b BETWEEN 1 AND 2 AND c", "((a <> b BETWEEN 1 AND 2) AND c)"),
        ] {
            assert_eq!(mended(text), expected, "{text}");
        }
        // In operands and below parentheses, too.
        assert_eq!(mended("(a IS DISTINCT FROM b AND c) OR d"), "(((a <> b) AND c) OR d)");
    }
}
