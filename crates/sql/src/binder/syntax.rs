//! What the syntax tree says by itself, before a name or a type is known: calls, signs, parentheses.

use sqlparser::ast::{BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArguments, GroupByExpr};

use super::normalized;
use crate::algebra::Comparison;

/// A function's name without its schema.
pub(super) fn bare_name(function: &Function) -> String {
    function.name.0.last().and_then(|part| part.as_ident()).map(normalized).unwrap_or_default()
}

/// The arguments of a call as they are written; none of those of a subquery.
pub(super) fn written(function: &Function) -> &[FunctionArg] {
    match &function.args {
        FunctionArguments::List(list) => &list.args,
        FunctionArguments::None | FunctionArguments::Subquery(_) => &[],
    }
}

/// Whether a call has DISTINCT before its arguments.
pub(super) fn is_distinct(function: &Function) -> bool {
    matches!(&function.args, FunctionArguments::List(list)
        if list.duplicate_treatment == Some(DuplicateTreatment::Distinct))
}

/// An expression without the parentheses around it.
pub(super) fn unnested(mut expression: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expression {
        expression = inner;
    }
    expression
}

/// An operator's sign in PostgreSQL.
pub(super) fn sign_of(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::NotEq => "<>".to_owned(),
        // The parser's generic dialect reads PostgreSQL's power as an exclusive or.
        BinaryOperator::BitwiseXor | BinaryOperator::PGExp => "^".to_owned(),
        BinaryOperator::PGBitwiseXor => "#".to_owned(),
        BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide => "//".to_owned(),
        BinaryOperator::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
        BinaryOperator::Custom(sign) => sign.clone(),
        other => other.to_string(),
    }
}

/// The comparison of a sign.
pub(super) fn sign_comparison(sign: &str) -> Option<Comparison> {
    Some(match sign {
        "=" => Comparison::Equal,
        "<>" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// Whether a SELECT has a GROUP BY.
pub(super) fn has_groups(by: &GroupByExpr) -> bool {
    !matches!(by, GroupByExpr::Expressions(expressions, _) if expressions.is_empty())
}
