//! `(value).field`, as SQL writes it, as `(value)['field']`, as DataFusion's planner reads it.

use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, SelectItem, Subscript, Value};

/// A field that is read with a dot. In `t.a[1]` that is a table's name, which the parser cannot tell: what is meant by
/// the dots there is left to the planner.
pub(super) fn expression(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    if matches!(**root, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
        return;
    }
    for access in access_chain {
        if let AccessExpr::Dot(Expr::Identifier(name)) = access {
            let name = match name.quote_style {
                Some(_) => name.value.clone(),
                None => name.value.to_lowercase(),
            };
            let index = Expr::Value(Value::SingleQuotedString(name).into());
            *access = AccessExpr::Subscript(Subscript::Index { index });
        }
    }
}

/// A column of that kind has the field's name.
pub(super) fn named(item: &mut SelectItem) {
    if let SelectItem::UnnamedExpr(expr) = item
        && let Expr::CompoundFieldAccess { access_chain, .. } = expr
        && let Some(AccessExpr::Dot(Expr::Identifier(name))) = access_chain.last()
    {
        let alias = name.clone();
        let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    #[test]
    fn fields_are_read_with_a_dot() {
        for (sql, expected) in [
            ("SELECT (s).Field FROM t", "SELECT (s)['field'] AS Field FROM t"),
            ("SELECT 1 + (f(a)).\"Some Field\".x", "SELECT 1 + (f(a))['Some Field']['x']"),
            ("SELECT t.a[1], s.t.a[t.b] FROM s.t", "SELECT t.a[1], s.t.a[t.b] FROM s.t"),
            ("SELECT t.a, (t.a)[1] FROM t WHERE (t.a).b = 1", "SELECT t.a, (t.a)[1] FROM t WHERE (t.a)['b'] = 1"),
        ] {
            assert_eq!(parse_one(sql, "generic").unwrap().statement.to_string(), expected);
        }
    }
}
