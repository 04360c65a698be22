//! What indexes are called after that have no name of their own.

use diligence_catalog::rules::Key;
use sqlparser::ast::Expr;

use super::definitions::lower;

/// The parts of the name, by column of the key and of INCLUDE.
pub(super) fn called_after(key: &Key) -> Vec<String> {
    let expressions = key.computed.as_ref().map_or(&[][..], |computed| &computed.expressions);
    let part = |(place, name): (usize, &String)| match expressions.get(place) {
        Some(Some(expression)) => called(expression),
        _ => name.clone(),
    };
    key.columns.iter().enumerate().map(part).chain(key.included().iter().cloned()).collect()
}

/// What stands for an expression in the name.
pub(super) fn called(expression: &Expr) -> String {
    match expression {
        Expr::Function(call) => call.name.0.last().and_then(|part| part.as_ident()).map(lower).unwrap_or_default(),
        Expr::Cast { expr, .. } | Expr::Collate { expr, .. } => match unnested(expr) {
            Expr::Identifier(name) => lower(name),
            inner => called(inner),
        },
        _ => "expr".to_owned(),
    }
}

/// An expression without the parentheses around it.
pub(super) fn unnested(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}
